//! Runs a program under callgrind and reads its output file (valgrind manual, "Callgrind Format
//! Specification").

use crate::shell;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// How long to wait for another run of iopj on the same disk.
const PATIENCE: Duration = Duration::from_secs(1800);

/// What callgrind counted over all threads of a program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Profile {
    /// Instructions executed in user space.
    pub(crate) instructions: u64,
    /// Those of them within `clock_gettime`.
    pub(crate) clock_instructions: u64,
    /// Calls of `clock_gettime`.
    pub(crate) clock_calls: u64,
}

impl Profile {
    /// Instructions outside of `clock_gettime`.
    pub(crate) fn outside_clock(&self) -> u64 {
        self.instructions - self.clock_instructions
    }
}

/// Runs `command` (program, then arguments) under callgrind, which writes `out`. It counts the functions
/// whose names match one of the patterns `counted`, with what they call, or everything if there is no
/// pattern.
///
/// # Errors
/// The program fails, or callgrind's output cannot be read.
pub(crate) fn profile(command: &[String], counted: &[&str], out: &Path) -> Result<Profile> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--quiet", "--tool=callgrind", "--compress-strings=no", "--compress-pos=no"]);
    valgrind.args(counted.iter().map(|pattern| format!("--toggle-collect={pattern}")));
    valgrind.arg(format!("--callgrind-out-file={}", out.display())).args(command);
    let begin = Instant::now();
    while let Err(error) = shell::output(&mut valgrind) {
        if !is_held(&format!("{error:#}")) || begin.elapsed() > PATIENCE {
            return Err(error);
        }
        thread::sleep(Duration::from_secs(1));
    }
    let text = fs::read_to_string(out).with_context(|| out.display().to_string())?;
    fs::remove_file(out)?;
    parse(&text)
}

/// Whether iopj did not run because another run of it has the disk.
fn is_held(words: &str) -> bool {
    words.contains("is in use by another run of iopj")
        || words.contains("is in use by the run of iopj with process id")
}

/// Reads an output file written without compression of names and positions.
fn parse(text: &str) -> Result<Profile> {
    let mut profile = Profile { instructions: 0, clock_instructions: 0, clock_calls: 0 };
    let (mut in_clock, mut calls_clock, mut is_call_cost) = (false, false, false);
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("fn=") {
            in_clock = is_clock(name);
        } else if let Some(name) = line.strip_prefix("cfn=") {
            calls_clock = is_clock(name);
        } else if let Some(calls) = line.strip_prefix("calls=") {
            if calls_clock {
                profile.clock_calls += number(calls.split(' ').next())?;
            }
            // The next line has the cost of the called function, which is counted at that function.
            is_call_cost = true;
        } else if let Some(total) = line.strip_prefix("totals: ") {
            profile.instructions = number(Some(total))?;
        } else if line.starts_with(|first: char| first.is_ascii_digit()) {
            if in_clock && !is_call_cost {
                profile.clock_instructions += number(line.split(' ').nth(1))?;
            }
            is_call_cost = false;
        }
    }
    anyhow::ensure!(profile.instructions > 0, "callgrind's output has no total");
    Ok(profile)
}

/// What reads the clock for rustix where there is no vDSO.
const RUSTIX_CLOCK: &str = "rustix::backend::vdso_wrappers::clock_gettime_via_syscall";

/// glibc's function, by any of its names: `clock_gettime`, `__clock_gettime`, `clock_gettime@@GLIBC_2.17`; or
/// rustix's.
fn is_clock(name: &str) -> bool {
    name == RUSTIX_CLOCK
        || name.split('@').next().is_some_and(|name| name.trim_start_matches('_') == "clock_gettime")
}

fn number(text: Option<&str>) -> Result<u64> {
    let text = text.unwrap_or_default();
    text.trim().parse().with_context(|| format!("callgrind's output has `{text}` instead of a count"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A count once failed at once next to the tests of another checkout.
    #[test]
    fn another_run_on_the_disk_is_waited_for() {
        assert!(is_held(
            "failed (exit status: 2): iopj: `vda` is in use by another run of iopj: wait until it ends, or \
             stop it"
        ));
        assert!(is_held(
            "iopj: `vda` is in use by the run of iopj with process id 7: wait until it ends, or stop it"
        ));
        assert!(!is_held("iopj: `/dev/vda` is mounted"));
    }

    const OUTPUT: &str = "\
# callgrind format
version: 1
positions: line
events: Ir
summary: 1060

fl=???
fn=main
0 30
cob=/lib/libc.so.6
cfn=clock_gettime@@GLIBC_2.17
calls=7 0
0 70
12 900
cfn=other
calls=3 0
0 21

fn=other
0 21
cfn=__clock_gettime
calls=1 0
0 10

ob=/lib/libc.so.6
fn=clock_gettime@@GLIBC_2.17
0 60
1 20
cfn=other
calls=2 0
0 5

totals: 1061
";

    #[test]
    fn clock_and_total_are_read() {
        let profile = Profile { instructions: 1061, clock_instructions: 80, clock_calls: 8 };
        assert_eq!(parse(OUTPUT).unwrap(), profile);
    }

    #[test]
    fn output_without_total_is_refused() {
        assert!(parse("events: Ir\nfn=main\n0 30\n").is_err());
        assert!(parse("totals: many\n").is_err());
    }

    #[test]
    fn only_the_clock_is_the_clock() {
        assert!(
            is_clock("clock_gettime") && is_clock("__clock_gettime") && is_clock("clock_gettime@@GLIBC_2.17")
        );
        assert!(is_clock(RUSTIX_CLOCK));
        assert!(!is_clock("clock_getres") && !is_clock("std::sys::clock_gettime_of") && !is_clock(""));
    }
}
