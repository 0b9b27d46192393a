//! `cargo xtask test`: what the tests need, every test, the ring and the NVMe driver under Miri, and the instruction counts.

use crate::options::Options;
use crate::workspace::Workspace;
use crate::{instructions, needs, shell};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

pub(crate) fn run(workspace: &Workspace, options: Options) -> Result<()> {
    options.end()?;
    shell::timed("what the tests need", needs::ensure)?;
    kernels(workspace)?;
    let skipped = shell::timed("tests", || tests(workspace))?;
    miri(workspace)?;
    if needs::is_here("valgrind") {
        instructions::check(workspace)?;
    } else {
        println!("skipped: the instruction counts need valgrind");
    }
    for test in &skipped {
        println!("{test}");
    }
    println!("all tests passed, {} of them skipped", skipped.len());
    Ok(())
}

/// Fetches the kernels that the lab's tests boot; only CI needs them.
fn kernels(workspace: &Workspace) -> Result<()> {
    match shell::timed("the kernels that the lab's tests boot", || fetch_kernels(workspace)) {
        Err(error) if !shell::in_ci() => {
            println!("the kernels cannot be fetched ({error:#}); tests without them say `skipped`");
            Ok(())
        }
        done => done,
    }
}

/// An old kernel that polls synchronously, one that says so and does not, one with io_uring's hybrid polling, and a new
/// one whose package is in parts.
fn fetch_kernels(workspace: &Workspace) -> Result<()> {
    let lab =
        |words: &[&str]| workspace.cargo(&[&["run", "--package", "iopj", "--", "lab", "kernels"], words].concat());
    shell::step("kernels 5.10, 6.1 and 6.18", &mut lab(&["5.10", "6.1", "6.18"]))?;
    let offers = serde_json::from_str(&shell::output(&mut lab(&["--json"]))?)?;
    let series = new_series(&offers).context("no kernel from 7.2 on is offered")?;
    shell::step(&format!("kernel {series}"), &mut lab(&[series]))
}

/// Of the series on offer, oldest first, the oldest from 7.2 on: a distribution drops 7.2 some day for a newer one.
fn new_series(offers: &Value) -> Option<&str> {
    let is_new = |series: &&str| {
        let numbers =
            series.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        numbers.is_some_and(|numbers: (u32, u32)| numbers >= (7, 2))
    };
    offers.as_array()?.iter().filter_map(|offer| offer["series"].as_str()).find(is_new)
}

/// Runs the workspace's tests; gives a line for each test that left itself out, which libtest would hide.
fn tests(workspace: &Workspace) -> Result<Vec<String>> {
    let mut child = workspace
        .cargo(&["test", "--workspace", "--all-features", "--", "--show-output"])
        .stdout(Stdio::piped())
        .spawn()
        .context("cargo cannot be started")?;
    let mut skipped = Skipped::default();
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines() {
            let line = line?;
            skipped.see(&line);
            println!("{line}");
        }
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("cargo test failed: {status}");
    }
    Ok(skipped.lines)
}

/// Reads libtest's `--show-output`: a line `---- NAME stdout ----`, then what the test printed.
#[derive(Default)]
struct Skipped {
    test: String,
    lines: Vec<String>,
}

impl Skipped {
    fn see(&mut self, line: &str) {
        if let Some(test) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
            test.clone_into(&mut self.test);
        } else if let Some(reason) = line.strip_prefix("skipped: ") {
            self.lines.push(format!("skipped: {}: {reason}", self.test));
        }
    }
}

/// The ring's index arithmetic under Miri; the tests beside it that make system calls are left out.
fn miri(workspace: &Workspace) -> Result<()> {
    if !shell::succeeds(&mut workspace.cargo(&["+nightly", "miri", "--version"])) {
        let install = ["toolchain", "install", "nightly", "--profile", "minimal", "--component", "miri,rust-src"];
        let installed = shell::step("installing Miri", &mut workspace.program("rustup", &install));
        match installed {
            Err(error) if shell::in_ci() => return Err(error),
            Err(error) => {
                println!("skipped: the ring and the NVMe driver under Miri: {error:#}");
                return Ok(());
            }
            Ok(()) => {}
        }
    }
    let test = ["+nightly", "miri", "test", "--package", "iopj-engine", "--lib", "--"];
    let arguments = [&test[..], &["ring::", "nvme_user::", "--skip", "io_uring::"]].concat();
    // proptest looks for a file of former failures, which Miri's isolation forbids.
    let mut command = workspace.cargo(&arguments);
    command.env("MIRIFLAGS", "-Zmiri-disable-isolation").env("CARGO_TARGET_DIR", workspace.target.join("miri"));
    shell::step("the ring and the NVMe driver under Miri", &mut command)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_new_kernel_is_the_oldest_from_7_2_on() {
        let new = |series: &[&str]| {
            let offers: Value = series.iter().map(|series| json!({ "series": series })).collect();
            new_series(&offers).map(str::to_owned)
        };
        assert_eq!(new(&["5.10", "6.18", "7.1", "7.2", "7.10"]).as_deref(), Some("7.2"));
        assert_eq!(new(&["6.18", "7.10", "8.0"]).as_deref(), Some("7.10"));
        assert_eq!(new(&["5.10", "6.18"]), None);
    }

    #[test]
    fn skipped_tests_are_named_with_their_reason() {
        let mut skipped = Skipped::default();
        for line in ["---- fio::tests::runs stdout ----", "skipped: needs fio", "", "---- other stdout ----", "fine"] {
            skipped.see(line);
        }
        assert_eq!(skipped.lines, ["skipped: fio::tests::runs: needs fio"]);
    }
}
