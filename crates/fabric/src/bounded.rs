//! A program that was started, to its end: its output is read while it runs, and neither its time nor what
//! it says is without a limit.

use crate::patient::{Patient, for_each_line};
use std::io::{self, Read};
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

pub(crate) const INTERVAL: Duration = Duration::from_millis(20);
/// How long nothing may come of a stream, and how long its program may take to end after it.
const SILENCE: Duration = Duration::from_secs(60);
const ENDING: Duration = Duration::from_secs(10);
/// How long its streams are waited for once it has ended: what it started may hold them open.
const LAST: Duration = Duration::from_secs(2);

/// What came of a program.
#[derive(Debug)]
pub struct Ended {
    /// How it ended.
    pub status: ExitStatus,
    /// Its output, or the beginning of it.
    pub output: Vec<u8>,
    /// The last line of what it said on its standard error.
    pub said: String,
    /// Why it was not left to its end, if it was not: then it was killed.
    pub cut_short: Option<CutShort>,
}

/// Why a program was not left to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutShort {
    /// It took longer than this.
    After(Duration),
    /// Somebody said stop.
    Stopped,
    /// Its output was longer than the most that was to be read.
    Talked,
}

impl std::fmt::Display for CutShort {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CutShort::After(limit) => write!(out, "it did not end within {} s", limit.as_secs()),
            CutShort::Stopped => write!(out, "it was stopped"),
            CutShort::Talked => write!(out, "it says more than an answer is"),
        }
    }
}

/// Waits for a program, whose streams are piped, and for at most `most` bytes of its output. It is killed
/// after `limit`, or once `stop` is set.
///
/// # Errors
/// The system cannot wait for the program.
pub fn ended(mut child: Child, limit: Duration, most: u64, stop: &AtomicBool) -> io::Result<Ended> {
    let said = Said::of(child.stderr.take());
    let (sender, read) = mpsc::channel();
    if let Some(output) = child.stdout.take() {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            // Whoever says more finds its pipe closed.
            let _ = output.take(most.saturating_add(1)).read_to_end(&mut bytes);
            let _ = sender.send(bytes);
        });
    }
    let until = Instant::now() + limit;
    let mut cut_short = None;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        cut_short = match () {
            () if stop.load(Ordering::Relaxed) => Some(CutShort::Stopped),
            () if Instant::now() > until => Some(CutShort::After(limit)),
            () => None,
        };
        if cut_short.is_some() {
            let _ = child.kill();
        }
        thread::sleep(INTERVAL);
    };
    let output = read.recv_timeout(LAST).unwrap_or_default();
    if output.len() as u64 > most {
        cut_short = cut_short.or(Some(CutShort::Talked));
    }
    Ok(Ended { status, output, said: said.last_of_all(), cut_short })
}

/// Gives the output of a program, whose streams are piped, to `take` while it comes. Returns what `take` made
/// of it, how the program ended, and the last line that it said. It is killed where it goes on after `take`.
///
/// # Errors
/// It cannot be waited for, or has no output.
pub fn streamed<T>(
    mut child: Child,
    stop: &AtomicBool,
    take: impl FnOnce(&mut dyn Read) -> T,
) -> io::Result<(T, ExitStatus, String)> {
    let said = Said::of(child.stderr.take());
    let output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let mut output = Patient::new(output, SILENCE, stop);
    let taken = take(&mut output);
    // It ends, too, where `take` has not read everything.
    drop(output);
    let until = Instant::now() + ENDING;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() > until || stop.load(Ordering::Relaxed) {
            let _ = child.kill();
        }
        thread::sleep(INTERVAL);
    };
    Ok((taken, status, said.last_of_all()))
}

/// The last lines of a program's standard error.
#[derive(Debug)]
pub(crate) struct Said {
    lines: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
}

impl Said {
    pub(crate) fn of(stream: Option<impl Read + Send + 'static>) -> Said {
        /// Lines that are kept.
        const LINES: usize = 20;
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let kept = Arc::clone(&lines);
        let read = |stream| {
            thread::spawn(move || {
                for_each_line(stream, |line| {
                    let mut lines = kept.lock().unwrap_or_else(PoisonError::into_inner);
                    if !line.is_empty() {
                        lines.push(line.to_owned());
                    }
                    let surplus = lines.len().saturating_sub(LINES);
                    lines.drain(..surplus);
                });
            })
        };
        Said { lines, reader: stream.map(read) }
    }

    /// The last line so far.
    pub(crate) fn last(&self) -> String {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).last().cloned().unwrap_or_default()
    }

    /// The last line of all, once the program has ended. A program that it started may hold its output open:
    /// that is not waited for without end.
    pub(crate) fn last_of_all(&self) -> String {
        let until = Instant::now() + LAST;
        let is_read = || self.reader.as_ref().is_none_or(JoinHandle::is_finished);
        while !is_read() && Instant::now() < until {
            thread::sleep(INTERVAL);
        }
        self.last()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn started(script: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// `sbatch` and `kubectl` had no limit: one that hung was waited for, whoever said stop.
    #[test]
    fn a_program_that_hangs_is_ended_by_its_limit_or_by_whoever_says_stop() {
        let hangs = "trap '' INT TERM; echo first; echo word >&2; while :; do sleep 0.05; done";
        let never = AtomicBool::new(false);
        let limit = Duration::from_millis(300);
        let late = ended(started(hangs), limit, 100, &never).unwrap();
        assert_eq!((late.cut_short, late.said.as_str()), (Some(CutShort::After(limit)), "word"));
        assert!(!late.status.success());
        let stopped = ended(started(hangs), Duration::from_secs(600), 100, &AtomicBool::new(true)).unwrap();
        assert_eq!(stopped.cut_short, Some(CutShort::Stopped));
    }

    /// Memory was taken for all that it said.
    #[test]
    fn what_a_program_says_is_read_up_to_a_limit() {
        let never = AtomicBool::new(false);
        let ended = |script| ended(started(script), Duration::from_secs(600), 1000, &never).unwrap();
        let endless = ended("exec cat /dev/zero");
        assert_eq!((endless.output.len(), endless.cut_short), (1001, Some(CutShort::Talked)));
        let whole = ended("head -c 1000 /dev/zero; head -c 300000 /dev/zero >&2");
        assert_eq!((whole.output.len(), whole.cut_short, whole.status.success()), (1000, None, true));
    }

    /// A pod's store was there, and `kubectl` lived on: its end was waited for.
    #[test]
    fn a_program_that_goes_on_after_its_output_is_killed() {
        let stuck = started("echo whole; exec >&-; trap '' TERM; while :; do sleep 0.05; done");
        let stop = AtomicBool::new(false);
        let take = |stream: &mut dyn Read| {
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            stop.store(true, Ordering::Relaxed);
            text
        };
        let (text, status, _) = streamed(stuck, &stop, take).unwrap();
        assert_eq!((text.as_str(), status.success()), ("whole\n", false));
    }
}
