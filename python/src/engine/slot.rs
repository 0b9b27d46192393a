//! A buffer of the pool as Python has it: not at once in flight and seen by a view.

use super::pool::{Fate, PoolState, SharedPool};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Who uses the bytes.
#[derive(Clone, Copy)]
enum Use {
    /// Views of Python's, so many.
    Views(usize),
    /// The kernel or a device.
    Flight,
}

/// One of an engine's buffers; back among those that nobody has when it is dropped.
pub(super) struct Slot {
    pub(super) pool: Arc<SharedPool>,
    pub(super) index: u32,
    used: Mutex<Use>,
    /// It is one of those that the state counts as flying. It changes while the state is locked, or when
    /// nobody else counts it.
    is_counted: AtomicBool,
}

impl Slot {
    /// A buffer that was acquired for a fate.
    pub(super) fn new(pool: Arc<SharedPool>, index: u32, fate: Fate) -> Arc<Slot> {
        let is_counted = AtomicBool::new(fate == Fate::Flies);
        Arc::new(Slot { pool, index, used: Mutex::new(Use::Views(0)), is_counted })
    }

    /// Counts it among those that fly, unless it is one of them.
    pub(super) fn count(&self, state: &mut PoolState) {
        state.flying += usize::from(!self.is_counted.swap(true, Ordering::Relaxed));
    }

    /// It is no more one of those that fly: how many there are less, which is for the caller to subtract.
    pub(super) fn uncount(&self) -> usize {
        usize::from(self.is_counted.swap(false, Ordering::Relaxed))
    }

    /// Where its bytes are.
    pub(super) fn address(&self) -> usize {
        self.pool.places[self.index as usize]
    }

    /// One view more, or why there can be none.
    pub(super) fn view(&self) -> Result<(), &'static str> {
        self.change(|used| match used {
            Use::Views(count) => Ok(Use::Views(count + 1)),
            Use::Flight => Err("the buffer is in flight: it has no view until its request has ended"),
        })
    }

    /// One view less.
    pub(super) fn unview(&self) {
        let _ = self.change(|used| match used {
            Use::Views(count) => Ok(Use::Views(count.saturating_sub(1))),
            Use::Flight => Ok(Use::Flight),
        });
    }

    /// The kernel may have it from now on, or why not.
    pub(super) fn take_off(&self) -> Result<(), &'static str> {
        self.change(|used| match used {
            Use::Views(0) => Ok(Use::Flight),
            Use::Views(_) => {
                Err("the buffer has a view: release its memoryviews and arrays before a request")
            }
            Use::Flight => Err("the buffer is in flight: it takes one request at a time"),
        })
    }

    /// The kernel has it no more.
    pub(super) fn land(&self) {
        let _ = self.change(|_| Ok(Use::Views(0)));
    }

    fn change(&self, change: impl FnOnce(Use) -> Result<Use, &'static str>) -> Result<(), &'static str> {
        if !self.pool.is_own() {
            return Err("the buffer belongs to another process: open the file again after a fork");
        }
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        *used = change(*used)?;
        Ok(())
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let is_flying = matches!(self.used.get_mut().unwrap_or_else(PoisonError::into_inner), Use::Flight);
        // What never landed is the kernel's for ever.
        if self.pool.is_own() && !is_flying {
            let mut state = self.pool.state();
            state.free.push(self.index);
            state.flying -= self.uncount();
            drop(state);
            self.pool.changed.notify_all();
        }
    }
}
