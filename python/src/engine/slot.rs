//! A buffer of the pool as Python has it: not at once in flight and seen by a view.

use super::shared::Shared;
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
    pub(super) shared: Arc<Shared>,
    pub(super) index: u32,
    used: Mutex<Use>,
}

impl Slot {
    pub(super) fn new(shared: Arc<Shared>, index: u32) -> Arc<Slot> {
        Arc::new(Slot { shared, index, used: Mutex::new(Use::Views(0)) })
    }

    /// Where its bytes are.
    pub(super) fn address(&self) -> usize {
        self.shared.places[self.index as usize]
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
        if !self.shared.is_own() {
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
        if self.shared.is_own() && !is_flying {
            self.shared.state().free.push(self.index);
            self.shared.changed.notify_all();
        }
    }
}
