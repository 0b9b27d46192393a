//! An engine as C drives it: its buffers by index, and the completions that were not fetched yet.

use crate::buffers::Buffers;
use crate::error::{
    Failure, IOPJ_ERROR_ARGUMENT, IOPJ_ERROR_ENGINE, IOPJ_ERROR_FULL, IOPJ_ERROR_LEAKED, IOPJ_ERROR_REFUSED,
    Outcome, failure,
};
use iopj_auto::{Auto, Metered};
use iopj_engine::{
    Buffers as OfRequest, Cause, Completion, DynEngine, Engine, EngineError, Op, Operation, Request, Transfer,
};
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use std::time::Instant;

/// What says how many joules the machine has drawn.
pub(crate) type Meter = Box<dyn Fn() -> Option<f64>>;

/// The engine of one path, or one that chooses among several.
pub(crate) enum Inner {
    Plain(Box<dyn DynEngine>),
    Auto(Box<Auto<Metered<Meter>>>),
}

impl Inner {
    fn engine(&self) -> &dyn DynEngine {
        match self {
            Inner::Plain(engine) => &**engine,
            Inner::Auto(engine) => &**engine,
        }
    }

    fn engine_mut(&mut self) -> &mut dyn DynEngine {
        match self {
            Inner::Plain(engine) => &mut **engine,
            Inner::Auto(engine) => &mut **engine,
        }
    }
}

/// An engine that C opened.
pub(crate) struct Driven {
    inner: Inner,
    handle: u64,
    buffers: Rc<Buffers>,
    /// What was completed and not fetched, as the caller's array was full.
    done: VecDeque<Completion>,
    /// What an engine that chooses has decided, as lines that were not asked for yet.
    decisions: VecDeque<String>,
    /// Why the engine is finished, to be said once what it has completed is fetched.
    finished: Option<EngineError>,
    /// The bytes of the target that I/O may touch.
    data: Range<u64>,
}

/// A request of C's.
pub(crate) struct Asked {
    pub(crate) op: Op,
    pub(crate) buffer: u32,
    pub(crate) len: u64,
    pub(crate) offset: u64,
    pub(crate) tag: u64,
}

impl Driven {
    pub(crate) fn new(inner: Inner, handle: u64, buffers: Rc<Buffers>, data: Range<u64>) -> Driven {
        let done = VecDeque::with_capacity(inner.engine().dyn_iodepth());
        Driven { inner, handle, buffers, done, decisions: VecDeque::new(), finished: None, data }
    }

    /// The oldest decision of an engine that chooses which was not asked for yet; `None` if there is none.
    pub(crate) fn decision(&mut self) -> Outcome<Option<String>> {
        let Inner::Auto(auto) = &mut self.inner else {
            let text = "this engine has one path and decides nothing: open it by iopj_auto_open";
            return Err(failure(IOPJ_ERROR_ARGUMENT, text));
        };
        self.decisions.extend(auto.drain_log().map(|decision| decision.to_string()));
        Ok(self.decisions.pop_front())
    }

    pub(crate) fn push(&mut self, asked: &Asked) -> Outcome<()> {
        let operation = self.operation(asked)?;
        let refused = match self.inner.engine_mut().dyn_push(Request { operation, tag: asked.tag }) {
            Ok(()) => return Ok(()),
            Err(refused) => refused,
        };
        let (request, error) = refused.into_parts();
        self.give_back(request.operation.into_buffers());
        let code = match error.cause() {
            Cause::Full { .. } => IOPJ_ERROR_FULL,
            Cause::Call { .. } | Cause::Controller(_) => IOPJ_ERROR_ENGINE,
            _ => IOPJ_ERROR_REFUSED,
        };
        Err(failure(code, error))
    }

    fn operation(&self, asked: &Asked) -> Outcome<Operation> {
        let Asked { op, buffer, len, offset, .. } = *asked;
        if !matches!(op, Op::Flush | Op::Fsync) {
            self.require_data(offset, len)?;
        }
        let transfer = || {
            let len = u32::try_from(len).map_err(|_| {
                failure(IOPJ_ERROR_REFUSED, format!("{len} bytes do not fit into a buffer: make it shorter"))
            })?;
            let buffer = self.buffers.take_off(buffer, self.handle)?;
            Ok(Transfer { buffer, len, offset })
        };
        Ok(match op {
            Op::Read => Operation::Read(transfer()?),
            Op::Write => Operation::Write(transfer()?),
            Op::WriteDsync => Operation::WriteDsync(transfer()?),
            Op::WriteSync => Operation::WriteSync(transfer()?),
            Op::Flush => Operation::Flush,
            Op::Fsync => Operation::Fsync,
            Op::Discard => Operation::Discard { offset, len },
            Op::WriteZeroes => Operation::WriteZeroes { offset, len },
            other => {
                let text = format!("{other:?} has no form in C: use one request per buffer");
                return Err(failure(IOPJ_ERROR_ARGUMENT, text));
            }
        })
    }

    /// Refuses I/O beyond the target's data: it would touch the header of a file that iopj made, or make a
    /// file longer.
    fn require_data(&self, offset: u64, len: u64) -> Outcome<()> {
        let Range { start, end } = self.data;
        if offset >= start && offset.checked_add(len).is_some_and(|after| after <= end) {
            return Ok(());
        }
        let text = format!(
            "{len} bytes at byte {offset} are not within the target's data, bytes {start} to {end}: stay \
             between its data_offset and data_offset + data_len"
        );
        Err(failure(IOPJ_ERROR_REFUSED, text))
    }

    fn give_back(&self, buffers: OfRequest) {
        match buffers {
            OfRequest::None => {}
            OfRequest::One(buffer) => self.buffers.put(buffer),
            OfRequest::Many(buffers) => buffers.into_iter().for_each(|buffer| self.buffers.put(buffer)),
        }
    }

    pub(crate) fn submit(&mut self) -> Outcome<()> {
        self.inner.engine_mut().dyn_submit().map_err(ended)
    }

    /// Looks for completions without waiting.
    pub(crate) fn reap(&mut self) -> Outcome<()> {
        let done = &mut self.done;
        let found = self.inner.engine_mut().dyn_reap(&mut |completion| done.push_back(completion));
        self.unless_finished(found)
    }

    /// Submits, and waits until `min` completions can be fetched or the time is over.
    pub(crate) fn wait(&mut self, min: usize, until: Option<Instant>) -> Outcome<()> {
        let done = &mut self.done;
        let min = min.saturating_sub(done.len());
        let engine = self.inner.engine_mut();
        let found = engine.dyn_wait(min, until, &mut |completion| done.push_back(completion));
        self.unless_finished(found)
    }

    /// The engine's error, unless completions can be fetched before it is said.
    fn unless_finished(&mut self, found: Result<usize, EngineError>) -> Outcome<()> {
        if let Err(error) = found {
            self.finished = Some(error);
        }
        if !self.done.is_empty() {
            return Ok(());
        }
        self.finished.take().map_or(Ok(()), |error| Err(ended(error)))
    }

    /// Hands up to `most` completions to `take`, each with the buffer that the caller has again.
    pub(crate) fn fetch(&mut self, most: usize, mut take: impl FnMut(usize, &Completion)) -> usize {
        let count = most.min(self.done.len());
        for place in 0..count {
            let Some(completion) = self.done.pop_front() else { break };
            take(place, &completion);
            self.give_back(completion.buffers);
        }
        count
    }

    /// Requests whose completions were not fetched.
    pub(crate) fn in_flight(&self) -> usize {
        self.inner.engine().dyn_in_flight() + self.done.len()
    }

    /// The engine, for what only looks at it.
    pub(crate) fn engine(&self) -> &dyn DynEngine {
        self.inner.engine()
    }

    /// Cancels what is in flight and waits for it until then. Completions that were not fetched are lost.
    pub(crate) fn close(self, until: Instant) -> Outcome<()> {
        let Driven { inner, handle, buffers, done, .. } = self;
        drop(done);
        let closed = match inner {
            Inner::Plain(engine) => engine.close(until),
            Inner::Auto(engine) => engine.close(until),
        };
        buffers.forget(handle);
        closed.map_err(|leaked| failure(IOPJ_ERROR_LEAKED, format!("{leaked}: let requests end before")))
    }
}

/// An engine that is finished.
#[cold]
fn ended(error: EngineError) -> Failure {
    failure(IOPJ_ERROR_ENGINE, error)
}
