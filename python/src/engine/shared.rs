//! What Python's threads and the worker share: the requests that wait, and the buffers that nobody has.

use super::flight::Flight;
use super::memory::Memory;
use super::slot::{Fate, Slot};
use iopj_engine::Op;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A request on its way to the worker.
pub(super) struct Job {
    pub(super) op: Op,
    pub(super) slot: Option<Arc<Slot>>,
    pub(super) len: u32,
    pub(super) offset: u64,
    pub(super) flight: Arc<Flight>,
}

/// What a target is like, and the engine on it.
#[derive(Clone)]
pub(super) struct Facts {
    pub(super) io_path: String,
    pub(super) data_offset: u64,
    pub(super) data_len: u64,
    pub(super) logical_block: u32,
    pub(super) is_writable: bool,
    pub(super) depth: u32,
    pub(super) buffer_len: u32,
    pub(super) buffers: u32,
}

/// What changes.
#[derive(Default)]
pub(super) struct State {
    pub(super) jobs: VecDeque<Job>,
    /// Buffers that nobody has.
    pub(super) free: Vec<u32>,
    /// Buffers that were taken for requests whose flight has not ended.
    pub(super) flying: usize,
    /// The latest decisions of an engine that chooses, until they are asked for.
    pub(super) decisions: VecDeque<String>,
    /// No request is taken any more, and why.
    pub(super) ended: Option<String>,
}

/// One for each engine.
pub(super) struct Shared {
    state: Mutex<State>,
    /// A buffer came back, or a flight ended.
    pub(super) changed: Condvar,
    wake: OwnedFd,
    /// The process that has the worker. A forked child has the locks of its parent, maybe locked, and no
    /// worker.
    process: u32,
    /// Where each buffer is, by its index.
    pub(super) places: Vec<usize>,
    pub(super) facts: Facts,
    _memory: Arc<Memory>,
}

impl Shared {
    pub(super) fn new(places: Vec<usize>, facts: Facts, memory: Arc<Memory>) -> Result<Shared, String> {
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
        let wake = wake.map_err(|errno| format!("no event descriptor can be made: {errno}"))?;
        let free = (0..places.len() as u32).rev().collect();
        Ok(Shared {
            state: Mutex::new(State { free, ..State::default() }),
            changed: Condvar::new(),
            wake,
            process: std::process::id(),
            places,
            facts,
            _memory: memory,
        })
    }

    /// True in the process that opened the engine, where its locks may be taken.
    pub(super) fn is_own(&self) -> bool {
        std::process::id() == self.process
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a request to the worker, or says why it is not taken.
    pub(super) fn send(&self, job: Job) -> Result<(), String> {
        let mut state = self.state();
        if let Some(why) = &state.ended {
            return Err(why.clone());
        }
        job.slot.iter().for_each(|slot| slot.count(&mut state));
        state.jobs.push_back(job);
        drop(state);
        self.ring();
        Ok(())
    }

    /// No request is taken from now on.
    pub(super) fn end(&self, why: &str) {
        self.state().ended.get_or_insert_with(|| why.to_owned());
        self.changed.notify_all();
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

    /// A buffer that nobody has. One that is in flight will come back, so that is waited for, in `slice`s
    /// between which `go_on` is asked. One that will fly at once is counted as flying from now on: nobody
    /// takes it for kept before its request is sent.
    pub(super) fn acquire<E>(
        &self,
        fate: Fate,
        slice: Duration,
        mut go_on: impl FnMut() -> Result<(), E>,
    ) -> Result<Result<u32, String>, E> {
        loop {
            let mut state = self.state();
            if let Some(why) = &state.ended {
                return Ok(Err(why.clone()));
            }
            if let Some(index) = state.free.pop() {
                state.flying += usize::from(fate == Fate::Flies);
                return Ok(Ok(index));
            }
            if state.flying == 0 {
                let count = self.places.len();
                return Ok(Err(format!(
                    "all {count} buffers are in use by views or buffers that you keep: drop some of them, or \
                     open with more `buffers`"
                )));
            }
            drop(self.changed.wait_timeout(state, slice));
            go_on()?;
        }
    }
}
