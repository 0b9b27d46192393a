//! A ramp of fio: it runs as long as the rule for the ramp's end lets it, by what fio itself says of its progress.

use super::json::{Done, parse};
use super::{Fio, FioError, Job, os, waiting};
use crate::steadystate::{Rule, Watch};
use iopj_core::evidence::SteadyState;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Between two words of fio at the least: it counts time in ms.
const SHORTEST: Duration = Duration::from_millis(50);
/// How much of fio's output is read at once.
const PART: usize = 64 << 10;

/// Words of fio in the longest ramp, some 15 KB each.
const MOST: u32 = 250;

/// How often fio has to say how far it is for a rule: somewhat less often than the rule looks, for it keeps no exact time.
fn status_interval(rule: &Rule) -> Duration {
    (rule.interval() + rule.interval() / 10).max(SHORTEST).max(rule.ramp[1] / MOST)
}

impl Fio {
    /// Runs a ramp until its rate is steady, or to the end of the job, which is to be the rule's limit. `stop` ends it early.
    ///
    /// # Errors
    /// Those of [`Fio::run`].
    pub(crate) fn ramp(
        &self,
        job: &Job<'_>,
        rule: Rule,
        stop: &AtomicBool,
        tick: &mut dyn FnMut(),
    ) -> Result<SteadyState, FioError> {
        let job = Job { status_interval: Some(status_interval(&rule)), ..*job };
        let mut started = self.start(&job)?;
        let output = started.output.try_clone().map_err(|e| os("reading fio's output", e))?;
        let (mut ramp, over) = (Ramp::new(rule, output), AtomicBool::new(false));
        let mut look = |_| {
            if stop.load(Ordering::Relaxed) || ramp.look() {
                over.store(true, Ordering::Relaxed);
            }
            SHORTEST / 4
        };
        let (status, _, _) =
            waiting::wait(&started.child, &over, tick, &mut look).map_err(|e| os("waiting for fio", e))?;
        if stop.load(Ordering::Relaxed) {
            return Err(FioError::Stopped);
        }
        if !over.load(Ordering::Relaxed) {
            // It has ended by itself: at its limit, or for it failed.
            let result = self.ended(&job, &mut started, status)?;
            ramp.take(result.done());
        }
        Ok(ramp.watch.end(ramp.last_ns))
    }
}

/// What fio has said so far.
struct Ramp {
    watch: Watch,
    output: File,
    read: u64,
    text: Vec<u8>,
    last_ns: u64,
}

impl Ramp {
    fn new(rule: Rule, output: File) -> Ramp {
        Ramp { watch: Watch::new(rule, 0), output, read: 0, text: Vec::new(), last_ns: 0 }
    }

    /// Reads what is new; true once the ramp is over.
    fn look(&mut self) -> bool {
        let mut part = [0; PART];
        // Not by the file's own position, at which fio writes.
        while let Ok(length @ 1..) = self.output.read_at(&mut part, self.read) {
            self.read += length as u64;
            self.text.extend_from_slice(&part[..length]);
        }
        let mut is_over = false;
        while let Some(end) = end_of_object(&self.text) {
            let object: Vec<u8> = self.text.drain(..end).collect();
            if let Ok(result) = parse(&String::from_utf8_lossy(&object)) {
                is_over |= self.take(result.done());
            }
        }
        is_over
    }

    fn take(&mut self, done: Done) -> bool {
        self.last_ns = self.last_ns.max(done.window_ns);
        self.watch.look(done.window_ns, done.ios)
    }
}

/// Where the first whole object of fio's JSON ends: its braces alone stand at the begin of a line.
fn end_of_object(text: &[u8]) -> Option<usize> {
    text.windows(2).position(|pair| pair == b"\n}").map(|at| at + 2)
}
