//! The engine that does nothing: for what a generator or an application costs by itself.

use crate::engine::{Counters, Engine, Leaked, Setup, sealed};
use crate::error::{EngineError, Refused};
use crate::gate::Gate;
use crate::pool::Pool;
use crate::request::{Completion, Op, Request};
use std::os::fd::BorrowedFd;
use std::time::Instant;

/// An engine whose every request is complete as soon as it is pushed, whole, with nothing moved. It makes no
/// system call.
pub struct Null {
    gate: Gate,
    done: Vec<Completion>,
    setup: Setup,
}

impl Null {
    /// An engine for `iodepth` requests over `pool`.
    pub fn open(pool: &Pool, iodepth: u32) -> Null {
        let done = Vec::with_capacity(iodepth as usize);
        Null { gate: Gate::with_block(pool, 1, iodepth, "null"), done, setup: Setup::default() }
    }
}

impl sealed::Sealed for Null {}

impl Engine for Null {
    fn push(&mut self, request: Request) -> Result<(), Refused> {
        if let Err(error) = self.gate.check(&request, self.done.len()) {
            return Err(Refused::new(request, error));
        }
        let Some(len) = request.operation.transfer().map(|transfer| transfer.len) else {
            return Err(self.lacks(request.operation.op(), request));
        };
        let Request { operation, tag } = request;
        self.done.push(Completion { tag, result: Ok(len), buffers: operation.into_buffers() });
        Ok(())
    }

    fn submit(&mut self) -> Result<(), EngineError> {
        Ok(())
    }

    fn reap<S: FnMut(Completion)>(&mut self, sink: S) -> Result<usize, EngineError> {
        let found = self.done.len();
        self.done.drain(..).for_each(sink);
        Ok(found)
    }

    fn wait<S: FnMut(Completion)>(
        &mut self,
        _: usize,
        _: Option<Instant>,
        sink: S,
    ) -> Result<usize, EngineError> {
        self.reap(sink)
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }

    fn iodepth(&self) -> usize {
        self.gate.iodepth()
    }

    fn supports(&self, op: Op) -> bool {
        op.is_transfer()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn counters(&self) -> Counters {
        Counters { system_calls: Some(0), ..Counters::default() }
    }

    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn close(self, _: Instant) -> Result<(), Leaked> {
        Ok(())
    }
}

impl Null {
    #[cold]
    fn lacks(&self, op: Op, request: Request) -> Refused {
        Refused::new(request, self.gate.lacks(op, ""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_complete_at_once_and_whole() {
        let pool = Pool::new(2, 4096).unwrap();
        let mut engine = Null::open(&pool, 2);
        for tag in [3, 4] {
            let buffer = pool.acquire().unwrap();
            engine.push(Request::read(buffer, 512, 0).tagged(tag)).unwrap();
        }
        assert_eq!(engine.in_flight(), 2);
        let mut seen = Vec::new();
        let found =
            engine.wait(1, None, |completion| seen.push((completion.tag, completion.result))).unwrap();
        assert_eq!((found, seen, engine.in_flight()), (2, vec![(3, Ok(512)), (4, Ok(512))], 0));
        let refused = engine.push(Request::flush()).unwrap_err();
        assert!(refused.to_string().contains("null"), "{refused}");
    }
}
