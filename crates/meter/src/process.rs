//! Child processes that lead a process group: run under a time limit, and ended with their own children.

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// More output than this is cut off.
const LONGEST_OUTPUT: u64 = 64 * 1024;
/// Time between two looks at whether a program has ended.
const POLL: Duration = Duration::from_millis(1);

/// Runs a program without input to its end: how it ended, and what it printed on both outputs. `None` if it
/// did not end within the limit; it was then killed with its children. It is reaped, unless it cannot be
/// waited for.
pub(crate) fn run(mut command: Command, limit: Duration) -> io::Result<Option<(ExitStatus, String)>> {
    let deadline = Instant::now() + limit;
    let (output, input) = io::pipe()?;
    command.stdin(Stdio::null()).stdout(input.try_clone()?).stderr(input).process_group(0);
    let mut child = command.spawn()?;
    // It holds the pipe's other end; only the child may hold it, or the output never ends.
    drop(command);
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut text = Vec::new();
        let read = output.take(LONGEST_OUTPUT).read_to_end(&mut text);
        // Nobody receives after the limit.
        let _ = sender.send(read.map(|_| text));
    });
    let text = match receiver.recv_timeout(limit) {
        Ok(Ok(text)) => text,
        Ok(Err(error)) => return kill(&mut child).and(Err(error)),
        Err(_) => return kill(&mut child).map(|_| None),
    };
    if !ends_within(&child, deadline.saturating_duration_since(Instant::now()))? {
        return kill(&mut child).map(|_| None);
    }
    Ok(Some((child.wait()?, String::from_utf8_lossy(&text).into_owned())))
}

/// Whether the child ends within the limit. It is not reaped, so the number of its group is not given to
/// another one.
pub(crate) fn ends_within(child: &Child, limit: Duration) -> io::Result<bool> {
    let start = Instant::now();
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    loop {
        match waitid(WaitId::Pid(Pid::from_child(child)), options)? {
            Some(_) => return Ok(true),
            None if start.elapsed() > limit => return Ok(false),
            None => thread::sleep(POLL),
        }
    }
}

/// Asks the group of a child that has not been reaped to end.
pub(crate) fn terminate(child: &Child) {
    // An error means that nobody is left to ask.
    let _ = kill_process_group(Pid::from_child(child), Signal::TERM);
}

/// Kills what is left of the group of a child that has not been reaped, and reaps the child.
pub(crate) fn kill(child: &mut Child) -> io::Result<ExitStatus> {
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    child.wait()
}
