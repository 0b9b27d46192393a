//! The guardian: a process that waits for the end of another one, however it ends, and then puts back what
//! that one had changed.
//!
//! It holds the reading end of a pipe whose writing end only the guarded process has. It is in a session of
//! its own, so a signal for the guarded process or its terminal does not reach it.

use iopj_host::settings::{Host, LeftAlone, RestoreReport};
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The hidden command by which the program becomes a guardian.
pub const COMMAND: &str = "guard";
/// How long the guardian tries to put back: a drive may be in use, a controller may be slow to go.
const LIMIT: Duration = Duration::from_secs(120);
const INTERVAL: Duration = Duration::from_millis(500);
/// What a process that ends in order tells its guardian.
const DONE: &[u8] = b"done";

/// A guardian of this process. Dropped, it ends: by then everything is put back.
#[derive(Debug)]
pub struct Guardian {
    child: Child,
}

impl Guardian {
    /// Starts a guardian of this process, which is the same program.
    ///
    /// # Errors
    /// The program cannot be started again.
    pub fn start() -> io::Result<Guardian> {
        let mut command = Command::new("/proc/self/exe");
        command.arg(COMMAND).arg(std::process::id().to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/");
        // SAFETY: between fork and exec only setsid is called, which is async-signal-safe.
        unsafe {
            command.pre_exec(|| {
                rustix::process::setsid()?;
                Ok(())
            });
        }
        Ok(Guardian { child: command.spawn()? })
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        // If it cannot be told, it finds nothing to put back.
        if let Some(mut pipe) = self.child.stdin.take() {
            let _ = pipe.write_all(DONE);
        }
        let _ = self.child.wait();
    }
}

/// Waits for the end of the process `guarded`, which has the other end of this process's standard input, and
/// puts back what dead runs left behind. Returns false if something could not be put back in time.
pub fn guard(host: &Host, guarded: u32) -> bool {
    let mut word = Vec::new();
    // An error is the pipe's end too.
    let _ = io::stdin().lock().read_to_end(&mut word);
    if word == DONE {
        return true;
    }
    let until = Instant::now() + LIMIT;
    while !is_gone(guarded) && Instant::now() < until {
        thread::sleep(Duration::from_millis(10));
    }
    loop {
        match host.restore_left_behind() {
            Ok(report) if report.failed.is_empty() && !is_left(&report, guarded) => return true,
            _ if Instant::now() > until => return false,
            _ => thread::sleep(INTERVAL),
        }
    }
}

/// True if a journal of this process is left as it is. The process is gone, so whoever holds its lock only
/// looks at it, as every iopj does at its start, and may have looked when the drive was still locked.
fn is_left(report: &RestoreReport, pid: u32) -> bool {
    let name = |left: &LeftAlone| left.journal.file_name().map(|name| name.to_string_lossy().into_owned());
    let of_process = format!("journal-{pid}-");
    report.left_alone.iter().any(|left| name(left).is_some_and(|name| name.starts_with(&of_process)))
}

/// True once a process has closed its files: the kernel frees its locks then.
fn is_gone(pid: u32) -> bool {
    let mut text = String::new();
    let read =
        fs::File::open(format!("/proc/{pid}/stat")).and_then(|mut file| file.read_to_string(&mut text));
    // `pid (name) state …`, where the name may hold anything.
    let state = text.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    read.is_err() || matches!(state, Some('Z' | 'X'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Two that looked at a dead agent's journal at once each left it to the other.
    #[test]
    fn a_journal_of_the_guarded_process_is_not_left_to_others() {
        let left = |name: &str| {
            let journal = Path::new("/run/iopj").join(name);
            let reason = "its run is alive".to_owned();
            RestoreReport { left_alone: vec![LeftAlone { journal, reason }], ..RestoreReport::default() }
        };
        assert!(is_left(&left("journal-6993-11303187561802.jsonl"), 6993));
        assert!(!is_left(&left("journal-6993-11303187561802.jsonl"), 699));
        assert!(!is_left(&RestoreReport::default(), 6993));
    }

    #[test]
    fn a_process_is_gone_once_it_is_a_zombie() {
        let mut child = Command::new("true").spawn().unwrap();
        assert!(!is_gone(std::process::id()));
        let until = Instant::now() + Duration::from_secs(60);
        while !is_gone(child.id()) {
            assert!(Instant::now() < until);
            thread::sleep(Duration::from_millis(5));
        }
        child.wait().unwrap();
        assert!(is_gone(child.id()));
    }
}
