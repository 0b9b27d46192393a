//! The worker: takes requests, drives the engine, and ends flights. It never touches Python.

use super::flight::{Failure, Flight};
use super::shared::{Job, Shared};
use super::slot::Slot;
use iopj_engine::{
    Buffer, Buffers, Completion, DynEngine, EngineError, IoError, Op, Operation, Request, Transfer,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a close waits for what is in flight.
const CLOSE: Duration = Duration::from_secs(5);
/// How long an engine without a descriptor waits before it looks for new requests.
const SLICE: Duration = Duration::from_micros(200);
/// Decisions that are kept until they are asked for.
const DECISIONS: usize = 1000;

/// A request in flight.
struct Flying {
    flight: Arc<Flight>,
    slot: Option<Arc<Slot>>,
}

/// Whether the time of a close is over, which begins with the first question.
fn is_over(until: &mut Option<Instant>) -> bool {
    let now = Instant::now();
    now >= *until.get_or_insert(now + CLOSE)
}

/// The engine, on its thread.
pub(super) struct Worker {
    engine: Option<Box<dyn DynEngine>>,
    shared: Arc<Shared>,
    /// The buffers that are not in flight, by index.
    buffers: Vec<Option<Buffer>>,
    flying: HashMap<u64, Flying>,
    /// Tag of the next request.
    next: u64,
}

impl Worker {
    pub(super) fn new(engine: Box<dyn DynEngine>, shared: Arc<Shared>, buffers: Vec<Buffer>) -> Worker {
        let buffers = buffers.into_iter().map(Some).collect();
        Worker { engine: Some(engine), shared, buffers, flying: HashMap::new(), next: 0 }
    }

    /// Serves until the engine is closed or finished. Whatever happens, every flight ends.
    pub(super) fn serve(mut self) {
        let served = catch_unwind(AssertUnwindSafe(|| self.run()));
        let why = match served {
            Ok(Ok(())) => "the file is closed".to_owned(),
            Ok(Err(error)) => format!("the engine has failed, and the file is closed: {error}"),
            Err(_) => {
                "the engine's thread has panicked, and the file is closed: report this fault".to_owned()
            }
        };
        self.shared.end(&why);
        if let Some(engine) = self.engine.take() {
            // What had not ended is leaked, which is safe: its memory is never given back.
            let _ = engine.dyn_close(Instant::now() + CLOSE);
        }
        let jobs = std::mem::take(&mut self.shared.queue().jobs);
        for job in jobs {
            let Job { flight, slot, .. } = job;
            self.end(Flying { flight, slot }, Err(Failure::Ended(why.clone())), true);
        }
        for (_, flying) in std::mem::take(&mut self.flying) {
            self.end(flying, Err(Failure::Ended(why.clone())), false);
        }
    }

    fn run(&mut self) -> Result<(), EngineError> {
        let mut until = None;
        loop {
            // In this order: once it has ended, no request is added.
            let is_ended = self.shared.pool.state().ended.is_some();
            let waits = !self.shared.queue().jobs.is_empty();
            // What was submitted before the end is done, as far as the time allows.
            if is_ended && (is_over(&mut until) || (self.flying.is_empty() && !waits)) {
                return Ok(());
            }
            self.push();
            if is_ended && self.flying.is_empty() {
                // All that waited was refused; the bell may have been answered already.
                continue;
            }
            let Some(engine) = &mut self.engine else { return Ok(()) };
            let mut done = Vec::new();
            engine.dyn_submit()?;
            let mut reaped = engine.dyn_reap(&mut |completion| done.push(completion));
            if done.is_empty() && reaped.is_ok() {
                reaped = self.wait(&mut done);
            }
            done.into_iter().for_each(|completion| self.complete(completion));
            self.keep_decisions();
            reaped?;
        }
    }

    /// Waits for a completion or the bell.
    fn wait(&mut self, done: &mut Vec<Completion>) -> Result<usize, EngineError> {
        let Some(engine) = &mut self.engine else { return Ok(0) };
        let bell = self.shared.bell();
        if self.flying.is_empty() {
            let _ = poll(&mut [PollFd::from_borrowed_fd(bell, PollFlags::IN)], None);
        } else if let Some(descriptor) = engine.dyn_descriptor() {
            let both = [bell, descriptor].map(|one| PollFd::from_borrowed_fd(one, PollFlags::IN));
            // A second is for a close, whose time is limited.
            let _ = poll(&mut { both }, Some(&Timespec { tv_sec: 1, tv_nsec: 0 }));
        } else {
            return engine.dyn_wait(1, Some(Instant::now() + SLICE), &mut |completion| done.push(completion));
        }
        self.shared.answer();
        Ok(0)
    }

    /// Gives the engine as many requests as it takes.
    fn push(&mut self) {
        let depth = self.engine.as_ref().map_or(0, |engine| engine.dyn_iodepth());
        while self.flying.len() < depth {
            let Some(job) = self.shared.queue().jobs.pop_front() else { return };
            let Job { op, slot, len, offset, flight } = job;
            let flying = Flying { flight, slot };
            match self.push_one(op, flying.slot.as_deref(), len, offset) {
                Ok(tag) => drop(self.flying.insert(tag, flying)),
                Err(why) => self.end(flying, Err(Failure::Refused(why)), true),
            }
        }
    }

    fn push_one(&mut self, op: Op, slot: Option<&Slot>, len: u32, offset: u64) -> Result<u64, String> {
        let operation = match slot {
            None => Operation::Flush,
            Some(slot) => {
                let buffer = self.buffers.get_mut(slot.index as usize).and_then(Option::take);
                let buffer = buffer.ok_or_else(|| format!("buffer {} is in flight", slot.index))?;
                Transfer { buffer, len, offset }.by(op)
            }
        };
        let tag = self.next;
        self.next += 1;
        let Some(engine) = &mut self.engine else { return Err("the file is closed".to_owned()) };
        let Err(refused) = engine.dyn_push(Request { operation, tag }) else { return Ok(tag) };
        let (request, error) = refused.into_parts();
        if let Buffers::One(buffer) = request.operation.into_buffers() {
            self.keep(buffer);
        }
        Err(error.to_string())
    }

    fn keep(&mut self, buffer: Buffer) {
        let index = buffer.index() as usize;
        if let Some(place) = self.buffers.get_mut(index) {
            *place = Some(buffer);
        }
    }

    fn complete(&mut self, completion: Completion) {
        let result = match completion.result {
            Ok(bytes) => Ok(bytes),
            Err(IoError::Os(errno)) => Err(Failure::Os(errno)),
            Err(IoError::Nvme(status)) => Err(Failure::Nvme(status)),
        };
        let tag = completion.tag;
        if let Some(buffer) = completion.into_buffer() {
            self.keep(buffer);
        }
        if let Some(flying) = self.flying.remove(&tag) {
            self.end(flying, result, true);
        }
    }

    /// Ends a flight. A buffer that has not landed stays the kernel's.
    fn end(&self, flying: Flying, result: Result<u32, Failure>, has_landed: bool) {
        let Flying { flight, slot } = flying;
        if let Some(slot) = slot {
            if has_landed {
                slot.land();
            }
            // Among the free ones before it stops being in flight, so that it is always one of both.
            let counted = slot.uncount();
            drop(slot);
            self.shared.pool.state().flying -= counted;
        }
        flight.end(result);
        self.shared.pool.changed.notify_all();
    }

    fn keep_decisions(&mut self) {
        let Some(engine) = &mut self.engine else { return };
        let new = engine.dyn_decisions();
        if new.is_empty() {
            return;
        }
        let kept: &mut VecDeque<String> = &mut self.shared.queue().decisions;
        kept.extend(new);
        while kept.len() > DECISIONS {
            kept.pop_front();
        }
    }
}
