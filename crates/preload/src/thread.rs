//! What a thread has: its state, and whether it is in the library.

use crate::stats::Reason;
use crate::sys::{self, Quiet};
use crate::{owner, process, stack};
use iopj_engine::rings_closed;
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};

/// Made when a thread first needs it, and dropped when the thread ends.
pub(crate) trait State: Default + 'static {
    /// The state of this thread.
    fn place() -> &'static std::thread::LocalKey<Place>;

    /// The thread has come in: what is done first.
    fn entered(&mut self);
}

/// Where a thread keeps its state. It has no destructor, so that a call from a destructor of the program's
/// finds it.
pub(crate) struct Place {
    /// A `Box` of the state.
    state: Cell<*mut c_void>,
    generation: Cell<u64>,
    is_inside: Cell<bool>,
    has_ended: Cell<bool>,
    /// The signals that its calls usually hold off; all before the first. Those that its latest calls held
    /// off beside them, with how many calls these were.
    usual: Cell<sys::Signals>,
    latest: Cell<(sys::Signals, u32)>,
    /// None of the usual ones has a handler, so the thread is in none.
    is_certain: Cell<bool>,
}

/// How long after the close of a ring its thread is interrupted, at the most. A worker of the kernel's does
/// it (`io_ring_exit_work` of io_uring/io_uring.c), later on a busy machine: 60 ms were too few beside a
/// build.
const LATEST_NS: i64 = 300_000_000;
/// After so many calls in a row with more signals held off that is usual.
const USUAL: u32 = 256;

impl Place {
    pub(crate) const fn new() -> Place {
        Place {
            state: Cell::new(null_mut()),
            generation: Cell::new(0),
            is_inside: Cell::new(false),
            has_ended: Cell::new(false),
            usual: Cell::new(!0),
            latest: Cell::new((0, 0)),
            is_certain: Cell::new(false),
        }
    }
}

impl Place {
    /// False if the thread seems to be in a signal handler, which runs with its signal held off. `handled`
    /// are those of some signals that have handlers.
    fn is_usual(&self, before: sys::Signals, handled: impl Fn(sys::Signals) -> sys::Signals) -> bool {
        let known = self.usual.get();
        if known & before != known {
            // The first calls may come from a handler.
            let usual = if known == !0 { before & !handled(before) } else { known & before };
            self.usual.set(usual);
            self.is_certain.set(handled(usual) == 0);
        }
        if before == self.usual.get() {
            self.latest.set((0, 0));
            return true;
        }
        let count = if self.latest.get().0 == before { self.latest.get().1 + 1 } else { 1 };
        self.latest.set((before, count));
        if count >= USUAL {
            self.usual.set(before);
            self.is_certain.set(false);
        }
        count >= USUAL
    }
}

/// The key whose destructor ends a thread's state. It is made early, so that its number is low: glibc has
/// room for the first 32 in each thread, and asks no allocator.
static KEY: AtomicU32 = AtomicU32::new(u32::MAX);

/// Makes states end with their threads.
pub(crate) fn start<S: State>() {
    let mut key = 0;
    // SAFETY: the call writes the key; the destructor gets what `enter` puts under it.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(end::<S>)) } == 0 {
        KEY.store(key, Ordering::Release);
    }
}

/// True if this thread is in the library.
pub(crate) fn is_inside<S: State>() -> bool {
    S::place().with(|place| place.is_inside.get())
}

/// Drops the state of a thread that ends.
extern "C" fn end<S: State>(state: *mut c_void) {
    let _quiet = Quiet::begin();
    S::place().with(|place| {
        place.has_ended.set(true);
        // In a child that has called nothing yet this is what makes the generation another.
        let is_working = process::is_working();
        let is_ours = place.generation.get() == process::generation();
        if is_working && is_ours && place.state.replace(null_mut()) == state {
            // SAFETY: `enter` made the box, and only this place had it.
            drop(unsafe { Box::from_raw(state.cast::<S>()) });
        }
    });
}

/// A thread in the library: signals are held off, so that no handler leaves it halfway or comes in again, and
/// it is not cancelled.
pub(crate) struct Inside<S: State> {
    state: *mut S,
    /// Rings that the thread had closed when it came in.
    closed: u32,
    quiet: Quiet,
}

impl<S: State> Inside<S> {
    /// Takes the thread in.
    ///
    /// # Errors
    /// It is in already, it ends, or it seems to be in a signal handler.
    pub(crate) fn enter() -> Result<Inside<S>, Reason> {
        S::place().with(|place| {
            if place.is_inside.get() {
                return Err(Reason::Nested);
            }
            if place.has_ended.get() || KEY.load(Ordering::Acquire) == u32::MAX {
                return Err(Reason::ThreadEnds);
            }
            let quiet = Quiet::begin();
            if place.generation.get() != process::generation() {
                // The state is that of the parent's thread, and is leaked.
                place.state.set(null_mut());
                place.generation.set(process::generation());
                place.usual.set(!0);
            }
            if !place.is_usual(quiet.before, owner::handled) {
                return Err(Reason::SignalHandler);
            }
            stack::may_ask(place.is_certain.get());
            place.is_inside.set(true);
            if place.state.get().is_null() {
                let state = Box::into_raw(Box::<S>::default()).cast();
                place.state.set(state);
                // SAFETY: the key was made; what it is given is an address.
                unsafe { libc::pthread_setspecific(KEY.load(Ordering::Relaxed), state) };
            }
            Ok(Inside::of(place, quiet))
        })
    }

    /// As [`Inside::enter`], for what a handler may wait for, and opens no engine.
    ///
    /// # Errors
    /// As for [`Inside::enter`].
    pub(crate) fn enter_to_take() -> Result<Inside<S>, Reason> {
        Inside::enter_in_handler().map_or_else(Inside::enter, Ok)
    }

    /// As [`Inside::enter`], in a handler; `None` if the thread has no state.
    pub(crate) fn enter_in_handler() -> Option<Inside<S>> {
        S::place().with(|place| {
            let has_state = !place.state.get().is_null() && place.generation.get() == process::generation();
            if !has_state || place.is_inside.get() || place.has_ended.get() {
                return None;
            }
            let quiet = Quiet::begin();
            stack::may_ask(false);
            place.is_inside.set(true);
            Some(Inside::of(place, quiet))
        })
    }

    fn of(place: &Place, quiet: Quiet) -> Inside<S> {
        let mut inside = Inside::<S> { state: place.state.get().cast(), closed: rings_closed(), quiet };
        inside.state().entered();
        inside
    }

    /// The thread's state.
    pub(crate) fn state(&mut self) -> &mut S {
        // SAFETY: the box lives until the thread ends, and the thread is in the library once.
        unsafe { &mut *self.state }
    }

    /// True if a signal has come which would have interrupted a wait.
    pub(crate) fn is_interrupted(&self) -> bool {
        owner::is_interrupted(self.quiet.before)
    }

    /// True if other threads can ask this one for what it has in flight, when it is out again.
    pub(crate) fn is_reachable(&self) -> bool {
        owner::is_reachable(self.quiet.before)
    }
}

impl<S: State> Drop for Inside<S> {
    /// The kernel interrupts a thread on account of each ring that it has closed: here, where no call of the
    /// program's is in the way.
    fn drop(&mut self) {
        for _ in self.closed..rings_closed() {
            sys::take_interruption(LATEST_NS);
        }
        S::place().with(|place| place.is_inside.set(false));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_signals_held_off_are_a_handler_until_they_are_usual() {
        let place = Place::new();
        let is_usual = |before| place.is_usual(before, |signals| signals & 0b011);
        assert!(is_usual(0b100) && is_usual(0b100));
        assert!(!is_usual(0b110) && is_usual(0b100), "a handler");
        assert!(is_usual(0b000) && !is_usual(0b100), "what it holds off usually is the least");
        assert!(place.is_certain.get());
        let handled: Vec<bool> = (0..USUAL).map(|_| is_usual(0b011)).collect();
        assert_eq!(handled.iter().position(|usual| *usual), Some(USUAL as usize - 1));
        assert!(is_usual(0b011) && !place.is_certain.get());
        assert!(is_usual(0) && place.is_certain.get());
    }

    #[test]
    fn a_thread_whose_first_calls_come_from_a_handler_is_in_one() {
        let place = Place::new();
        let is_usual = |before| place.is_usual(before, |signals| signals & 0b010);
        assert!(!is_usual(0b110) && !is_usual(0b110), "the second signal has a handler");
        assert!(is_usual(0b100) && place.is_certain.get() && !is_usual(0b110));
    }
}
