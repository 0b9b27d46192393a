//! Any program that prints power: lines of `watts`, or of `timestamp watts` with seconds since 1970.

use crate::clock::ReadTime;
use crate::decimal::nanoseconds;
use crate::meter::{Channel, ChannelKind, Meter, MeterError, Reading, Value};
use crate::process::{ends_within, kill, terminate};
use iopj_core::Allow;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// The longest line that can be a reading. A longer one is cut off and reported.
const LONGEST_LINE: u64 = 256;
/// Time that a program has to end by itself after SIGTERM; a test's program on a busy machine needs more.
const GRACE: Duration = Duration::from_millis(if cfg!(test) { 2_000 } else { 200 });

/// A program as a meter with one channel. It runs until the meter is dropped, and its children with it.
///
/// A thread of its own waits for the lines and stamps each on arrival, so a slow program delays nobody. Of
/// several lines that arrived since the last [`Meter::read`] only the last counts: read it as often as the
/// program prints.
#[derive(Debug)]
pub struct CommandMeter {
    channels: [Channel; 1],
    program: String,
    child: Child,
    /// How it ended, once it is reaped.
    ended: Option<ExitStatus>,
    inbox: Arc<Mutex<Inbox>>,
}

/// What has arrived.
#[derive(Debug, Default)]
struct Inbox {
    last: Option<Reading>,
    /// The first line that was not a reading, for the message.
    bad: Option<String>,
    closed: bool,
}

impl CommandMeter {
    /// Starts a program with its arguments: no shell, no input, and what it prints to standard error is
    /// discarded. `channel` says what it measures: a gauge, or a mean over a window.
    ///
    /// # Errors
    /// [`MeterError::Fatal`] if programs may not be run (`allow`), the channel is a counter, or the
    /// program cannot be started. Arguments never appear in a message: they may be secret.
    pub fn start(command: &[String], channel: Channel, allow: Allow) -> Result<Self, MeterError> {
        let fatal = |text: &str| Err(MeterError::Fatal(text.to_owned()));
        let Some((program, arguments)) = command.split_first() else {
            return fatal(
                "the meter `command` has no program: write it as a list, `[\"turbostat\", \"--quiet\"]`",
            );
        };
        let shown = program.escape_debug().to_string();
        if !allow.exec {
            return fatal(&format!(
                "the meter `command` would run `{shown}`, which is not allowed: say --allow exec"
            ));
        }
        if matches!(channel.kind, ChannelKind::Counter { .. }) {
            return fatal(
                "the meter `command` prints watts, not a count: make its channel a gauge or an average",
            );
        }
        // A group of its own: it can be ended as a whole, and a Ctrl-C at the terminal ends the study first.
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(|error| {
                MeterError::Fatal(format!(
                    "`{shown}` cannot be started ({error}): name a program that exists"
                ))
            })?;
        let inbox = Arc::new(Mutex::new(Inbox::default()));
        if let Some(output) = child.stdout.take() {
            let inbox = Arc::clone(&inbox);
            thread::spawn(move || listen(output, &inbox));
        }
        Ok(Self { channels: [channel], program: shown, child, ended: None, inbox })
    }

    /// How a program that closed its output ended; one that still runs gets the grace to end.
    fn ending(&mut self) -> MeterError {
        if self.ended.is_none() && ends_within(&self.child, GRACE).unwrap_or(false) {
            self.ended = kill(&mut self.child).ok();
        }
        let failed =
            |how: String| MeterError::Fatal(format!("`{}` {how}: run it by hand to see why", self.program));
        match self.ended {
            Some(status) if status.success() => MeterError::Ended,
            Some(status) => failed(format!("ended with {status}")),
            None => failed("closed its output, but has not ended".into()),
        }
    }
}

impl Meter for CommandMeter {
    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn read(&mut self, out: &mut Vec<Reading>) -> Result<(), MeterError> {
        let (last, bad, closed) = {
            let mut inbox = lock(&self.inbox);
            (inbox.last.take(), inbox.bad.take(), inbox.closed)
        };
        let nothing = last.is_none();
        out.extend(last);
        if let Some(line) = bad {
            return Err(MeterError::Retry(format!(
                "`{}` printed `{line}`, which is not a power: it must print lines of `watts` or `timestamp \
                 watts`",
                self.program
            )));
        }
        if closed && nothing { Err(self.ending()) } else { Ok(()) }
    }
}

impl Drop for CommandMeter {
    /// Ends the program with its group, and reaps it.
    fn drop(&mut self) {
        if self.ended.is_none() {
            terminate(&self.child);
            // An error means that it cannot be waited for: its number may be another's by now.
            if ends_within(&self.child, GRACE).is_ok() {
                let _ = kill(&mut self.child);
            }
        }
    }
}

fn lock(inbox: &Mutex<Inbox>) -> MutexGuard<'_, Inbox> {
    inbox.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes lines until the program closes its output. A last line without its end may be half a number and
/// does not count.
fn listen(output: ChildStdout, inbox: &Mutex<Inbox>) {
    let mut output = BufReader::new(output);
    let (mut line, mut rest) = (Vec::new(), Vec::new());
    'lines: while let Some(is_whole) = next_part(&mut output, &mut line) {
        let time = ReadTime::now();
        let mut ended = is_whole;
        while !ended {
            let Some(is_end) = next_part(&mut output, &mut rest) else { break 'lines };
            ended = is_end;
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim();
        let mut inbox = lock(inbox);
        match parse(text).filter(|_| is_whole) {
            Some((own_ns, watts)) => {
                inbox.last = Some(Reading { own_ns, ..time.reading(0, Value::Watts(watts)) });
            }
            None if text.is_empty() => {}
            None => {
                inbox.bad.get_or_insert_with(|| text.escape_debug().to_string());
            }
        }
    }
    lock(inbox).closed = true;
}

/// Reads a line, or the next part of a long one: whether the line ends there. `None` at the end of the
/// output.
fn next_part(output: &mut impl BufRead, line: &mut Vec<u8>) -> Option<bool> {
    line.clear();
    let bytes = output.by_ref().take(LONGEST_LINE).read_until(b'\n', line).ok()?;
    (bytes > 0).then(|| line.last() == Some(&b'\n'))
}

/// The meter's own time in ns since 1970, if the line has one, and the power in W.
fn parse(line: &str) -> Option<(Option<i64>, f64)> {
    let mut words = line.split_ascii_whitespace();
    let (first, second) = (words.next()?, words.next());
    if words.next().is_some() {
        return None;
    }
    let own_ns = match second {
        Some(_) => Some(nanoseconds(first, '.', 1_000_000_000)?),
        None => None,
    };
    let word = second.unwrap_or(first);
    let watts: f64 = word.parse().ok()?;
    // Rust reads `inf` and `NaN` as numbers.
    let plain = word.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    (plain && watts.is_finite()).then_some((own_ns, watts))
}

#[cfg(test)]
mod tests;
