//! What Python's threads and the worker share: the buffers, and the requests that wait.

use super::flight::Flight;
use super::pool::SharedPool;
use super::slot::Slot;
use iopj_engine::Op;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A request on its way to the worker.
pub(super) struct Job {
    pub(super) op: Op,
    pub(super) slot: Option<Arc<Slot>>,
    pub(super) len: u32,
    pub(super) offset: u64,
    pub(super) flight: Arc<Flight>,
}

/// What waits to be taken.
#[derive(Default)]
pub(super) struct Queue {
    /// For the worker.
    pub(super) jobs: VecDeque<Job>,
    /// The latest decisions of an engine that chooses, until they are asked for.
    pub(super) decisions: VecDeque<String>,
}

/// One for each engine. Who locks both locks that of the pool first.
pub(super) struct Shared {
    pub(super) pool: Arc<SharedPool>,
    queue: Mutex<Queue>,
    wake: OwnedFd,
}

impl Shared {
    pub(super) fn new(pool: SharedPool) -> Result<Shared, String> {
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
        let wake = wake.map_err(|errno| format!("no event descriptor can be made: {errno}"))?;
        Ok(Shared { pool: Arc::new(pool), queue: Mutex::default(), wake })
    }

    pub(super) fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a request to the worker, or says why it is not taken. While the pool is locked none ends: what
    /// ends it finds all requests that were taken.
    pub(super) fn send(&self, job: Job) -> Result<(), String> {
        let mut pool = self.pool.state();
        if let Some(why) = &pool.ended {
            return Err(why.clone());
        }
        job.slot.iter().for_each(|slot| slot.count(&mut pool));
        self.queue().jobs.push_back(job);
        drop(pool);
        self.ring();
        Ok(())
    }

    /// No request is taken from now on.
    pub(super) fn end(&self, why: &str) {
        self.pool.state().ended.get_or_insert_with(|| why.to_owned());
        self.pool.changed.notify_all();
        self.ring();
    }

    /// Wakes the worker.
    fn ring(&self) {
        // It fails only where the count is at its end, and then the worker is awake.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// What becomes readable when there is something for the worker to do.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Forgets that the bell was rung.
    pub(super) fn answer(&self) {
        let _ = rustix::io::read(&self.wake, &mut [0_u8; 8]);
    }
}
