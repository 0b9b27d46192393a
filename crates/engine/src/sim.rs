//! The simulated engine: seeded latency, reordering, short I/O, errors, and requests that never
//! complete. It moves no data and makes no system call.

use crate::drain::Leaky;
use crate::engine::{Counters, Engine, Leaked, Setup, sealed};
use crate::error::{Cause, EngineError, Refused};
use crate::pool::Pool;
use crate::request::{Completion, IoError, Op, Request};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::os::fd::BorrowedFd;
use std::time::Instant;

/// What a simulated device does. Shares are per million requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct SimOptions {
    /// Seed of every choice.
    pub seed: u64,
    /// The longest latency in steps; a step passes with each `wait`. 0 completes at once.
    pub latency_steps: u32,
    /// Requests that move half of their bytes.
    pub short_ppm: u32,
    /// Requests that fail with EIO.
    pub error_ppm: u32,
    /// Requests that never complete; they are leaked with their pool when the engine is dropped.
    pub never_ppm: u32,
}

struct Pending {
    request: Request,
    /// The step at which it completes; absent if it never does.
    due: Option<u64>,
}

/// An engine without a device.
pub struct Sim {
    pool: Pool,
    options: SimOptions,
    random: Xoshiro256PlusPlus,
    iodepth: usize,
    queued: Vec<Request>,
    pending: Leaky<Vec<Pending>>,
    setup: Setup,
    step: u64,
}

impl Sim {
    /// An engine for `iodepth` requests over `pool`.
    pub fn open(pool: &Pool, iodepth: u32, options: SimOptions) -> Sim {
        Sim {
            pool: pool.clone(),
            options,
            random: Xoshiro256PlusPlus::seed_from_u64(options.seed),
            iodepth: iodepth as usize,
            queued: Vec::new(),
            pending: Leaky::new(Vec::new()),
            setup: Setup::default(),
            step: 0,
        }
    }

    fn happens(&mut self, ppm: u32) -> bool {
        self.random.next_u64() % 1_000_000 < u64::from(ppm)
    }

    fn result(&mut self, len: u32) -> Result<u32, IoError> {
        if self.happens(self.options.error_ppm) {
            Err(IoError::Os(libc::EIO))
        } else if self.happens(self.options.short_ppm) {
            Ok(len / 2)
        } else {
            Ok(len)
        }
    }

    fn fault(&self, request: &Request) -> Option<Cause> {
        if self.in_flight() >= self.iodepth {
            return Some(Cause::Full { iodepth: self.iodepth });
        }
        let Some(transfer) = request.operation.transfer() else {
            let op = request.operation.op();
            return Some(Cause::NoSuchOp { interface: "sim", op, why: "" });
        };
        let (len, buffer_len) = (transfer.len, self.pool.buffer_len());
        if !transfer.buffer.pool().is(&self.pool) {
            return Some(Cause::OtherPool);
        }
        (len > buffer_len).then_some(Cause::TooLong { len, buffer_len })
    }

    /// Hands out what is due; returns how many.
    fn take<S: FnMut(Completion)>(&mut self, sink: &mut S) -> usize {
        let (mut at, mut found) = (0, 0);
        while at < self.pending.len() {
            if self.pending[at].due.is_none_or(|due| due >= self.step) {
                at += 1;
                continue;
            }
            let Request { operation, tag } = self.pending.swap_remove(at).request;
            let len = operation.transfer().map_or(0, |transfer| transfer.len);
            let result = self.result(len);
            sink(Completion { tag, result, buffers: operation.into_buffers() });
            found += 1;
        }
        found
    }

    fn end(&mut self) -> usize {
        self.queued.clear();
        self.pending.retain(|pending| pending.due.is_none());
        if self.pending.is_empty() {
            self.pending.release();
        }
        self.pending.len()
    }
}

impl sealed::Sealed for Sim {}

impl Engine for Sim {
    fn push(&mut self, request: Request) -> Result<(), Refused> {
        if let Some(fault) = self.fault(&request) {
            return Err(Refused::new(request, fault.into()));
        }
        self.queued.push(request);
        Ok(())
    }

    fn submit(&mut self) -> Result<(), EngineError> {
        for request in std::mem::take(&mut self.queued) {
            let latency = self.random.next_u64() % (u64::from(self.options.latency_steps) + 1);
            let due = (!self.happens(self.options.never_ppm)).then_some(self.step + latency);
            self.pending.push(Pending { request, due });
        }
        Ok(())
    }

    fn reap<S: FnMut(Completion)>(&mut self, mut sink: S) -> Result<usize, EngineError> {
        self.step += 1;
        Ok(self.take(&mut sink))
    }

    fn wait<S: FnMut(Completion)>(
        &mut self,
        min: usize,
        until: Option<Instant>,
        mut sink: S,
    ) -> Result<usize, EngineError> {
        self.submit()?;
        let mut found = 0;
        loop {
            self.step += 1;
            found += self.take(&mut sink);
            let coming = self.pending.iter().any(|pending| pending.due.is_some());
            if found >= min || !coming || until.is_some_and(|until| Instant::now() >= until) {
                return Ok(found);
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.queued.len() + self.pending.len()
    }

    fn iodepth(&self) -> usize {
        self.iodepth
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

    fn close(mut self, _: Instant) -> Result<(), Leaked> {
        Leaked::unless_none(self.end())
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        self.end();
    }
}
