//! fio as a program that is asked something, and the words of its answer.

use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long a program may take to answer a question about itself; tests run many programs at a time.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(if cfg!(test) { 30 } else { 10 });

/// The output of a program that must end within the limit; if it does not, it is killed.
pub(super) fn answer(command: &mut Command, limit: Duration) -> io::Result<Output> {
    let mut outputs = [memory_file("answer")?, memory_file("errors")?];
    let [stdout, stderr] = [outputs[0].try_clone()?, outputs[1].try_clone()?];
    let mut child = command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).spawn()?;
    let asked = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if asked.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Err(io::Error::other(format!("it did not answer within {} s", limit.as_secs())));
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let mut read = |file: usize| {
        let mut bytes = Vec::new();
        outputs[file].rewind().and_then(|()| outputs[file].read_to_end(&mut bytes)).map(|_| bytes)
    };
    Ok(Output { status, stdout: read(0)?, stderr: read(1)? })
}

pub(super) fn memory_file(name: &str) -> io::Result<File> {
    Ok(memfd_create(name, MemfdFlags::CLOEXEC)?.into())
}

/// The first two different lines that say something, on one line, without control characters. Every job says
/// the same, and what `exitall_on_error` does to the others is not a cause.
pub(super) fn words<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let telling = |line: &&str| {
        !line.is_empty() && !line.starts_with("note:") && !line.starts_with("fio: terminating on signal")
    };
    let mut lines = lines.map(str::trim).filter(telling);
    let first = lines.next().unwrap_or_default();
    let second = lines.find(|line| *line != first);
    let joined = second.map_or(first.to_owned(), |second| format!("{first}; {second}"));
    joined.chars().filter(|c| !c.is_control()).take(400).collect()
}
