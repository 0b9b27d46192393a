//! A ramp of fio: it runs as long as the rule for the ramp's end lets it, by what fio itself says of its
//! progress.

use super::json::{Done, parse};
use super::{Fio, FioError, Job, contents, os, waiting};
use crate::steadystate::{self, Watch};
use iopj_core::SteadyStateRule;
use iopj_core::evidence::SteadyState;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Between two words of fio at the least: it counts time in ms.
const SHORTEST: Duration = Duration::from_millis(50);
/// How much of fio's output is read at once.
const PART: usize = 64 << 10;

/// How often fio has to say how far it is for a rule: somewhat less often than the rule looks, for it keeps
/// no exact time.
fn status_interval(rule: &SteadyStateRule) -> Duration {
    (steadystate::interval(&rule) + steadystate::interval(&rule) / 10).max(SHORTEST)
}

impl Fio {
    /// Runs a ramp until its rate is steady, or to the end of the job, which is to be the rule's limit.
    /// `stop` ends it early.
    ///
    /// # Errors
    /// Those of [`Fio::run`].
    pub fn ramp(
        &self,
        job: &Job<'_>,
        rule: SteadyStateRule,
        stop: &AtomicBool,
        tick: &mut dyn FnMut(),
    ) -> Result<SteadyState, FioError> {
        let job = Job { status_interval: Some(status_interval(&rule)), ..*job };
        let mut started = self.start(&job)?;
        let (mut ramp, over) = (Ramp::new(rule, &started.output), AtomicBool::new(false));
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
            // It has ended by itself: at its limit, or for it failed. Its last words are its result.
            ramp.look();
            let words = [&ramp.object[..], &ramp.text].concat();
            let errors = contents(&mut started.errors).map_err(|e| os("reading fio's errors", e))?;
            self.outcome(&job.path, status, &String::from_utf8_lossy(&words), &errors)?;
        }
        Ok(ramp.watch.end(ramp.last_ns))
    }
}

/// What fio has said so far.
struct Ramp<'a> {
    watch: Watch,
    output: &'a File,
    read: u64,
    /// What it said last, and what has come of what it says next.
    object: Vec<u8>,
    text: Vec<u8>,
    last_ns: u64,
}

impl Ramp<'_> {
    fn new(rule: SteadyStateRule, output: &File) -> Ramp<'_> {
        Ramp { watch: Watch::new(rule, 0), output, read: 0, object: Vec::new(), text: Vec::new(), last_ns: 0 }
    }

    /// Reads what is new; true once the ramp is over.
    fn look(&mut self) -> bool {
        let mut part = [0; PART];
        // Not by the file's own position, at which fio writes.
        while let Ok(length @ 1..) = self.output.read_at(&mut part, self.read) {
            self.read += length as u64;
            self.text.extend_from_slice(&part[..length]);
        }
        self.forget_what_was_read();
        let mut is_over = false;
        while let Some(end) = end_of_object(&self.text) {
            self.object = self.text.drain(..end).collect();
            if let Ok(result) = parse(&String::from_utf8_lossy(&self.object)) {
                let Done { window_ns, ios } = result.done();
                self.last_ns = self.last_ns.max(window_ns);
                is_over |= self.watch.look(window_ns, ios);
            }
        }
        is_over
    }

    /// Gives back the memory of what was read: a ramp may last for hours, and each word has some 15 KB.
    fn forget_what_was_read(&self) {
        let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: no pointer; the descriptor is open. Where it fails the memory is only given back later.
        unsafe { libc::fallocate(self.output.as_raw_fd(), how, 0, self.read as libc::off_t) };
    }
}

/// Where the first whole object of fio's JSON ends: its braces alone stand at the begin of a line.
fn end_of_object(text: &[u8]) -> Option<usize> {
    text.windows(2).position(|pair| pair == b"\n}").map(|at| at + 2)
}
