//! Any program that prints power: lines of `watts`, or of `timestamp watts` with seconds since 1970.

use crate::clock::monotonic_raw_ns;
use crate::meter::{Channel, ChannelKind, Meter, MeterError, Reading, Value};
use crate::sysfs::wall_ns;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The longest line that can be a reading. A longer one is cut, and said.
const LONGEST_LINE: u64 = 256;
/// What a program is given to end by itself after SIGTERM; a test's program on a busy machine needs more.
const GRACE: Duration = Duration::from_millis(if cfg!(test) { 2_000 } else { 200 });

/// A program as a meter: one channel. It runs until the meter is dropped, and its children with it.
///
/// A thread of its own waits for the lines and stamps each on arrival, so a slow program holds up nobody.
/// Only the last line counts when several arrived since the last [`Meter::read`]: call it as often as the
/// program prints.
#[derive(Debug)]
pub struct Command {
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
    /// The first line that was no reading, to show.
    bad: Option<String>,
    closed: bool,
}

impl Command {
    /// Starts a program with its arguments, without a shell, with no input and its messages thrown away.
    /// `channel` says what it measures: a gauge, or a mean over a window.
    ///
    /// # Errors
    /// [`MeterError::Fatal`] if programs may not be run (`allow_exec`), the channel is a counter, or the
    /// program cannot be started. Arguments never appear in a message: they may be secret.
    pub fn start(command: &[String], channel: Channel, allow_exec: bool) -> Result<Self, MeterError> {
        let fatal = |text: String| Err(MeterError::Fatal(text));
        let Some((program, arguments)) = command.split_first() else {
            return fatal(
                "the meter `command` has no program: write it as a list, `[\"turbostat\", \"--quiet\"]`"
                    .into(),
            );
        };
        if !allow_exec {
            return fatal(format!(
                "the meter `command` would run `{}`, which is not allowed: say --allow-exec",
                program.escape_debug()
            ));
        }
        if matches!(channel.kind, ChannelKind::Counter { .. }) {
            return fatal(
                "the meter `command` prints watts, not a count: make its channel a gauge or an average"
                    .into(),
            );
        }
        let mut starting = std::process::Command::new(program);
        // A group of its own: it can be ended whole, and a Ctrl-C at the terminal ends the study first.
        starting
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0);
        let mut child = match starting.spawn() {
            Ok(child) => child,
            Err(error) => {
                return fatal(format!(
                    "`{}` cannot be started ({error}): name a program that is there",
                    program.escape_debug()
                ));
            }
        };
        let inbox = Arc::new(Mutex::new(Inbox::default()));
        if let Some(output) = child.stdout.take() {
            let inbox = Arc::clone(&inbox);
            thread::spawn(move || listen(output, &inbox));
        }
        Ok(Self {
            channels: [channel],
            program: program.escape_debug().to_string(),
            child,
            ended: None,
            inbox,
        })
    }

    /// How a program that closed its output ended; one that still runs is given a moment.
    fn ending(&mut self) -> MeterError {
        if self.ended.is_none() && has_ended(&self.child) {
            self.ended = self.reap();
        }
        let failed =
            |how: String| MeterError::Fatal(format!("`{}` {how}: run it by hand to see why", self.program));
        match self.ended {
            Some(status) if status.success() => MeterError::Ended,
            Some(status) => failed(format!("ended with {status}")),
            None => failed("closed its output, but has not ended".into()),
        }
    }

    /// Kills what is left of the group, and reaps the program.
    fn reap(&mut self) -> Option<ExitStatus> {
        signal(&self.child, libc::SIGKILL);
        self.child.wait().ok()
    }
}

impl Meter for Command {
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
                "`{}` printed `{line}`, which is no power: it must print lines of `watts` or `timestamp \
                 watts`",
                self.program
            )));
        }
        if closed && nothing { Err(self.ending()) } else { Ok(()) }
    }
}

impl Drop for Command {
    /// Ends the program with its group, and reaps it.
    fn drop(&mut self) {
        if self.ended.is_none() {
            signal(&self.child, libc::SIGTERM);
            has_ended(&self.child);
            self.reap();
        }
    }
}

/// Signals the group of a child that has not been reaped.
fn signal(child: &Child, signal: libc::c_int) {
    // SAFETY: no memory is passed. The child leads its group and is not reaped, so the number is nobody
    // else's.
    unsafe { libc::kill(-(child.id() as libc::pid_t), signal) };
}

/// If the child ends within the grace. It is left to be reaped: until then its group's number is not given to
/// another.
fn has_ended(child: &Child) -> bool {
    let start = Instant::now();
    loop {
        // SAFETY: all zeros are a valid siginfo_t, in which si_pid is 0.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: `info` is a valid siginfo_t to write to.
        let failed = unsafe { libc::waitid(libc::P_PID, child.id(), &raw mut info, flags) } != 0;
        // SAFETY: waitid fills si_pid, or leaves it 0 where the child still runs.
        if failed || unsafe { info.si_pid() } != 0 {
            return !failed;
        }
        if start.elapsed() > GRACE {
            return false;
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn lock(inbox: &Mutex<Inbox>) -> MutexGuard<'_, Inbox> {
    inbox.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes lines until the program closes its output. A last line without its end may be half a number: it does
/// not count.
fn listen(output: ChildStdout, inbox: &Mutex<Inbox>) {
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    loop {
        line.clear();
        let got = output.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
        if !got.is_ok_and(|bytes| bytes > 0) {
            break;
        }
        let now_ns = monotonic_raw_ns();
        let long = line.last() != Some(&b'\n');
        if long && !skip_line(&mut output) {
            break;
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim();
        let mut inbox = lock(inbox);
        match parse(text).filter(|_| !long) {
            Some((own_ns, watts)) => {
                let value = Value::Watts(watts);
                inbox.last = Some(Reading {
                    channel: 0,
                    value,
                    begin_ns: now_ns,
                    end_ns: now_ns,
                    wall_ns: wall_ns(),
                    own_ns,
                });
            }
            None if text.is_empty() => {}
            None => {
                inbox.bad.get_or_insert_with(|| text.escape_debug().to_string());
            }
        }
    }
    lock(inbox).closed = true;
}

/// Throws the rest of a line away; false if the output ended before its end.
fn skip_line(output: &mut impl BufRead) -> bool {
    loop {
        let Ok(bytes) = output.fill_buf() else { return false };
        let (used, found) = match bytes.iter().position(|&byte| byte == b'\n') {
            _ if bytes.is_empty() => return false,
            Some(at) => (at + 1, true),
            None => (bytes.len(), false),
        };
        output.consume(used);
        if found {
            return true;
        }
    }
}

/// The meter's own time in ns since 1970, where the line has one, and the power in W.
fn parse(line: &str) -> Option<(Option<i64>, f64)> {
    let mut words = line.split_ascii_whitespace();
    let (first, second) = (words.next()?, words.next());
    if words.next().is_some() {
        return None;
    }
    let own_ns = match second {
        Some(_) => Some(nanoseconds(first)?),
        None => None,
    };
    let word = second.unwrap_or(first);
    let watts: f64 = word.parse().ok()?;
    // Rust takes `inf` and `NaN` for numbers.
    let plain = word.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    (plain && watts.is_finite()).then_some((own_ns, watts))
}

/// Seconds with up to any number of decimals, in ns, exact.
fn nanoseconds(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) {
        return None;
    }
    let nanos: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    whole.parse::<i64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanos.parse().ok()?)
}

#[cfg(test)]
#[path = "command_tests.rs"]
mod tests;
