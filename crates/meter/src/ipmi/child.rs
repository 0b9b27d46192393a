//! A program run under a time limit, its output caught.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// More output than this is cut off.
const LONGEST_OUTPUT: u64 = 64 * 1024;
/// How often a program that closed its output is looked at until it has ended.
const GLANCE: Duration = Duration::from_millis(1);

/// Runs a program without input to its end: how it ended, and what it printed on both outputs. `None` if it
/// did not end within the limit; then it was killed with its children. It is reaped in every case.
pub(super) fn run(mut command: Command, limit: Duration) -> io::Result<Option<(ExitStatus, String)>> {
    let deadline = Instant::now() + limit;
    let (output, input) = io::pipe()?;
    command.stdin(Stdio::null()).stdout(input.try_clone()?).stderr(input).process_group(0);
    let mut child = command.spawn()?;
    // It holds the pipe's other end, which must be the child's alone for the output to end.
    drop(command);
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut text = Vec::new();
        let read = output.take(LONGEST_OUTPUT).read_to_end(&mut text);
        // Nobody receives after the limit.
        let _ = sender.send(read.map(|_| text));
    });
    let text = match receiver.recv_timeout(limit) {
        Ok(text) => text?,
        Err(_) => return kill(child).map(|()| None),
    };
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some((status, String::from_utf8_lossy(&text).into_owned())));
        }
        if Instant::now() >= deadline {
            return kill(child).map(|()| None);
        }
        thread::sleep(GLANCE);
    }
}

/// Kills a program with its group, and reaps it.
fn kill(mut child: Child) -> io::Result<()> {
    // SAFETY: no memory is passed. The child leads its group and is not reaped, so the number is nobody
    // else's.
    unsafe { libc::kill(-(child.id() as libc::pid_t), libc::SIGKILL) };
    child.wait().map(drop)
}
