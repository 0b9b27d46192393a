//! The simulated engine: seeded latency, reordering, short I/O, errors, and requests that never
//! complete. It moves no data and makes no system call.

use crate::drain::Leaky;
use crate::engine::{Completion, Engine, EngineError, EngineFacts, IoError, Request};
use crate::pool::Pool;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::rc::Rc;

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
    pool: Leaky<Rc<Pool>>,
    options: SimOptions,
    random: Xoshiro256PlusPlus,
    iodepth: usize,
    queued: Vec<Request>,
    pending: Vec<Pending>,
    step: u64,
}

impl Sim {
    /// An engine for `iodepth` requests over `pool`.
    pub fn open(pool: &Rc<Pool>, iodepth: u32, options: SimOptions) -> Sim {
        Sim {
            pool: Leaky::new(Rc::clone(pool)),
            options,
            random: Xoshiro256PlusPlus::seed_from_u64(options.seed),
            iodepth: iodepth as usize,
            queued: Vec::new(),
            pending: Vec::new(),
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
}

impl Engine for Sim {
    fn push(&mut self, requests: &[Request]) -> Result<usize, EngineError> {
        let taken = (self.iodepth - self.in_flight()).min(requests.len());
        for request in &requests[..taken] {
            self.pool.start(request.slot, request.len)?;
            self.queued.push(*request);
        }
        Ok(taken)
    }

    fn submit(&mut self) -> Result<(), EngineError> {
        for request in std::mem::take(&mut self.queued) {
            let latency = self.random.next_u64() % (u64::from(self.options.latency_steps) + 1);
            let due = (!self.happens(self.options.never_ppm)).then_some(self.step + latency);
            self.pending.push(Pending { request, due });
        }
        Ok(())
    }

    fn wait(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        self.submit()?;
        let already = done.len();
        loop {
            self.step += 1;
            let mut at = 0;
            while at < self.pending.len() && done.len() < done.capacity() {
                if self.pending[at].due.is_none_or(|due| due >= self.step) {
                    at += 1;
                    continue;
                }
                let Request { tag, slot, len, .. } = self.pending.swap_remove(at).request;
                let result = self.result(len);
                self.pool.finish(slot);
                done.push(Completion { tag, slot, result });
            }
            let coming = self.pending.iter().any(|pending| pending.due.is_some());
            if done.len() - already >= min || done.len() == done.capacity() || !coming {
                return Ok(());
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.queued.len() + self.pending.len()
    }

    fn facts(&self) -> EngineFacts {
        EngineFacts { system_calls: Some(0), ..EngineFacts::default() }
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        let queued = std::mem::take(&mut self.queued);
        let pending = std::mem::take(&mut self.pending);
        let stuck = pending.iter().any(|pending| pending.due.is_none());
        let ended =
            pending.iter().filter(|pending| pending.due.is_some()).map(|pending| pending.request.slot);
        for slot in queued.iter().map(|request| request.slot).chain(ended) {
            self.pool.finish(slot);
        }
        if !stuck {
            self.pool.release();
        }
    }
}
