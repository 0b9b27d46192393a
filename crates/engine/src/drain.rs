//! How engines end: they wait a while for what is in flight, then leak what the kernel or a device still
//! uses, because a leak is safe and a free is not.

use crate::system::Owner;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

/// How long a dropped engine waits for what is in flight.
pub(crate) const DRAIN_LIMIT: Duration = Duration::from_secs(5);

/// What a step of [`drain`] found.
pub(crate) enum Drained {
    /// There is nothing left to wait for.
    Empty,
    /// Something still is.
    Pending,
    /// Something still is, and it cannot be waited for.
    Stuck,
}

/// Calls `step` with the remaining time until it finds nothing left to wait for, and returns true; false
/// after `until`. The last step runs when the time is over, because this process may have been stopped in
/// between.
pub(crate) fn drain(until: Instant, mut step: impl FnMut(Duration) -> Drained) -> bool {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match step(left) {
            Drained::Empty => return true,
            Drained::Pending if !left.is_zero() => {}
            Drained::Pending | Drained::Stuck => return false,
        }
    }
}

/// A value that is leaked when it is dropped, unless [`Leaky::release`] was called: for what must outlive
/// every request that the kernel or a device holds.
pub(crate) struct Leaky<T> {
    value: ManuallyDrop<T>,
    owner: Owner,
    is_released: bool,
}

impl<T> Leaky<T> {
    pub(crate) fn new(value: T) -> Leaky<T> {
        Leaky { value: ManuallyDrop::new(value), owner: Owner::this_process(), is_released: false }
    }

    /// True in a forked child: the requests are the parent's, and `Drop` must not touch them.
    pub(crate) fn is_parents(&self) -> bool {
        !self.owner.is_this_process()
    }

    /// Only the owner uses the value now: dropping this drops it.
    pub(crate) fn release(&mut self) {
        self.is_released = true;
    }
}

impl<T> Deref for Leaky<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Leaky<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> Drop for Leaky<T> {
    fn drop(&mut self) {
        if self.is_released {
            // SAFETY: dropped once, here, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}
