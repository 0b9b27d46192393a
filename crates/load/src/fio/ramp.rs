//! A ramp of fio, which ends by the rule for ramps and by the progress that fio itself reports.

use super::json::{FioProgress, parse};
use super::{Fio, FioError, FioJob, contents, os, waiting};
use crate::steadystate::{self, Watch};
use iopj_core::SteadyStateRule;
use iopj_core::evidence::SteadyState;
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The shortest time between two reports of fio, which counts time in ms.
const SHORTEST: Duration = Duration::from_millis(50);
/// How much of fio's output is read at once.
const PART: usize = 64 << 10;

/// How often fio has to report its progress for a rule: a little less often than the rule looks, because
/// fio's reports are not exactly on time.
fn status_interval(rule: &SteadyStateRule) -> Duration {
    (steadystate::interval(rule) + steadystate::interval(rule) / 10).max(SHORTEST)
}

impl Fio {
    /// Runs a ramp until its rate is steady, or to the end of the job, which is to be the rule's limit.
    /// `stop` ends it early.
    ///
    /// # Errors
    /// Those of [`Fio::run`].
    pub fn ramp(
        &self,
        job: &FioJob<'_>,
        rule: SteadyStateRule,
        stop: &AtomicBool,
        tick: &mut dyn FnMut(),
    ) -> Result<SteadyState, FioError> {
        let job = FioJob { status_interval: Some(status_interval(&rule)), ..*job };
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
            // It ended by itself, at its limit or because it failed. Its last report is its result.
            ramp.look();
            let words = [&ramp.object[..], &ramp.text].concat();
            let errors = contents(&mut started.errors).map_err(|e| os("reading fio's errors", e))?;
            self.outcome(&job.path, status, &String::from_utf8_lossy(&words), &errors)?;
        }
        Ok(ramp.watch.end(ramp.last_ns))
    }
}

/// What fio has reported so far.
struct Ramp<'a> {
    watch: Watch,
    output: &'a File,
    read: u64,
    /// Its last whole report, and the begin of the next.
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
                let FioProgress { window_ns, ios } = result.progress();
                self.last_ns = self.last_ns.max(window_ns);
                is_over |= self.watch.look(window_ns, ios);
            }
        }
        is_over
    }

    /// Frees the memory of what was read: a ramp may last for hours, and each report has some 15 KB.
    fn forget_what_was_read(&self) {
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // If it fails, the memory is only given back later.
        let _ = fallocate(self.output, how, 0, self.read);
    }
}

/// Where the first whole object of fio's JSON ends: only its braces are at the start of a line.
fn end_of_object(text: &[u8]) -> Option<usize> {
    text.windows(2).position(|pair| pair == b"\n}").map(|at| at + 2)
}
