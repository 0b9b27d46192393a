//! The buffers of an engine as Python's threads and the worker have them: those that nobody has, how many
//! fly, and whether any request is taken.

use super::memory::Memory;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

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

/// What a buffer is taken for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Somebody keeps it until he gives it to a request, or drops it.
    IsKept,
    /// A request has it at once, so it will come back.
    Flies,
}

/// What changes.
#[derive(Default)]
pub(super) struct PoolState {
    /// Buffers that nobody has.
    pub(super) free: Vec<u32>,
    /// Buffers that were taken for requests whose flight has not ended.
    pub(super) flying: usize,
    /// No request is taken any more, and why.
    pub(super) ended: Option<String>,
}

/// One for each engine.
pub(super) struct SharedPool {
    state: Mutex<PoolState>,
    /// A buffer came back, or a flight ended.
    pub(super) changed: Condvar,
    /// The process that has the worker. A forked child has the locks of its parent, maybe locked, and no
    /// worker.
    process: u32,
    /// Where each buffer is, by its index.
    pub(super) places: Vec<usize>,
    pub(super) facts: Facts,
    _memory: Arc<Memory>,
}

impl SharedPool {
    pub(super) fn new(places: Vec<usize>, facts: Facts, memory: Arc<Memory>) -> SharedPool {
        let free = (0..places.len() as u32).rev().collect();
        SharedPool {
            state: Mutex::new(PoolState { free, ..PoolState::default() }),
            changed: Condvar::new(),
            process: std::process::id(),
            places,
            facts,
            _memory: memory,
        }
    }

    /// True in the process that opened the engine, where its locks may be taken.
    pub(super) fn is_own(&self) -> bool {
        std::process::id() == self.process
    }

    pub(super) fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
