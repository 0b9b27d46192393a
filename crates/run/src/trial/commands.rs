//! Programs beside a trial's I/O: what they print is read as it comes, and they are waited for.

use crate::program_error::ProgramError;
use iopj_load::program::{Output, last_lines};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Between two looks at whether a program has ended.
const LOOK: Duration = Duration::from_millis(10);
/// Bytes that are read at once.
const PART: usize = 64 << 10;

/// Standard output and standard error of a program, read by a thread as they are printed.
pub(super) struct Capture {
    gate: PipeWriter,
    reader: JoinHandle<[Output; 2]>,
}

impl Capture {
    /// Gives a command pipes for its outputs.
    pub(super) fn of(command: &mut Command) -> io::Result<Capture> {
        let (out, out_end) = io::pipe()?;
        let (err, err_end) = io::pipe()?;
        let (gate_in, gate) = io::pipe()?;
        command.stdout(Stdio::from(out_end)).stderr(Stdio::from(err_end));
        let read = move || read_all([Some(out), Some(err)], &gate_in);
        let reader = std::thread::Builder::new().name("iopj-output".to_owned()).spawn(read)?;
        Ok(Capture { gate, reader })
    }

    /// What was printed up to now, output and errors: who still holds the pipes is not waited for.
    pub(super) fn finish(self) -> [Output; 2] {
        drop(self.gate);
        self.reader.join().unwrap_or_default()
    }
}

/// Reads both pipes until nobody holds them, or until the gate is closed and nothing is left in them.
fn read_all(mut pipes: [Option<PipeReader>; 2], gate: &PipeReader) -> [Output; 2] {
    let (mut outputs, mut is_over) = (<[Output; 2]>::default(), false);
    while pipes.iter().any(Option::is_some) {
        let mut fds: Vec<PollFd<'_>> =
            pipes.iter().flatten().map(|pipe| PollFd::new(pipe, PollFlags::IN)).collect();
        if !is_over {
            fds.push(PollFd::new(gate, PollFlags::IN));
        }
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        match poll(&mut fds, is_over.then_some(&now)) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) | Ok(0) => break,
            Ok(_) => {}
        }
        let has_come = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let ready: Vec<bool> = fds.iter().map(has_come).collect();
        let open: Vec<usize> = (0..2).filter(|at| pipes[*at].is_some()).collect();
        is_over |= ready.get(open.len()).copied().unwrap_or(false);
        for at in open.iter().zip(&ready).filter(|(_, ready)| **ready).map(|(at, _)| *at) {
            let mut part = vec![0; PART];
            match pipes[at].as_mut().map(|pipe| pipe.read(&mut part)) {
                Some(Ok(len)) if len > 0 => outputs[at].add(&part[..len]),
                Some(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => pipes[at] = None,
            }
        }
    }
    outputs
}

/// A command in a process group of its own, without input: a Ctrl-C at the terminal is iopj's.
pub(super) fn command(words: &[String]) -> Command {
    let mut command = Command::new(words.first().map(String::as_str).unwrap_or_default());
    command.args(words.iter().skip(1)).stdin(Stdio::null()).process_group(0);
    command
}

/// Runs a program to its end; one that `stop` interrupts is asked to end by SIGTERM, and waited for.
///
/// # Errors
/// It cannot be started, or it failed.
pub(super) fn run(
    words: &[String],
    stop: Option<&AtomicBool>,
    tick: &mut dyn FnMut(),
) -> Result<(), ProgramError> {
    let name = || words.first().cloned().unwrap_or_default();
    let start = |error| ProgramError::Start { name: name(), error };
    let mut command = command(words);
    let capture = Capture::of(&mut command).map_err(start)?;
    let child = command.spawn();
    // The command holds the pipes' other ends.
    drop(command);
    let mut child = child.map_err(start)?;
    let mut asked = false;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(start)? {
            break status;
        }
        if stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) && !asked {
            asked = true;
            end_group(child.id());
        }
        tick();
        std::thread::sleep(LOOK);
    };
    let [output, errors] = capture.finish();
    succeeded(&name(), status, &output, &errors)
}

/// Asks all processes of a program's group to end.
pub(super) fn end_group(leader: u32) {
    if let Some(pid) = Pid::from_raw(leader.cast_signed()) {
        // One that has ended meanwhile is no error.
        let _ = kill_process_group(pid, Signal::TERM);
    }
}

/// Whether a program ended well; if not, with the last lines of its errors, or else of its output.
pub(super) fn succeeded(
    name: &str,
    status: ExitStatus,
    output: &Output,
    errors: &Output,
) -> Result<(), ProgramError> {
    let name = name.to_owned();
    let lines = [errors, output].map(|one| last_lines(&one.text()));
    let end = match lines.iter().find(|lines| !lines.is_empty()) {
        Some(lines) => format!("Its last lines: {lines}"),
        None => "It printed nothing".to_owned(),
    };
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(code), _) => Err(ProgramError::Exit { name, code, end }),
        (None, signal) => Err(ProgramError::Signal { name, signal: signal.unwrap_or_default(), end }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Result<(), String> {
        let words = ["sh", "-c", script].map(str::to_owned);
        run(&words, None, &mut || {}).map_err(|error| error.to_string())
    }

    #[test]
    fn how_a_program_failed_is_said_with_its_last_lines() {
        assert_eq!(shell("exit 0"), Ok(()));
        assert_eq!(
            shell("echo fine; echo oh no >&2; exit 3"),
            Err("`sh` ended with exit code 3. Its last lines: oh no".to_owned())
        );
        assert_eq!(shell("kill -TERM $$"), Err("`sh` was ended by signal 15. It printed nothing".to_owned()));
        let missing = run(&["no-such-program".to_owned()], None, &mut || {}).unwrap_err().to_string();
        assert!(missing.starts_with("`no-such-program` cannot be started: No such file"), "{missing}");
    }

    #[test]
    fn more_than_a_pipe_holds_is_read_and_who_still_holds_it_is_not_waited_for() {
        let mut command =
            command(&["sh", "-c", "head -c 300000 /dev/zero; echo end; sleep 30 &"].map(str::to_owned));
        let capture = Capture::of(&mut command).unwrap();
        let mut child = command.spawn().unwrap();
        drop(command);
        assert!(child.wait().unwrap().success());
        let [output, errors] = capture.finish();
        assert_eq!((output.printed(), errors.printed()), (300_004, 0));
        assert!(output.text().ends_with("end\n"));
        end_group(child.id());
    }

    #[test]
    fn a_program_that_is_interrupted_is_asked_to_end() {
        let stop = AtomicBool::new(true);
        let words = ["sleep", "30"].map(str::to_owned);
        let error = run(&words, Some(&stop), &mut || {}).unwrap_err().to_string();
        assert_eq!(error, "`sleep` was ended by signal 15. It printed nothing");
    }
}
