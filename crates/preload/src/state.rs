//! All that a thread has of the library.

use crate::control_block::{self, Flights};
use crate::engines::Engines;
use crate::queue::Queue;
use crate::thread::{self, Place};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::LocalKey;

thread_local! {
    static PLACE: Place = const { Place::new() };
}

/// The most I/Os of POSIX AIO that a thread has in flight on a descriptor; more go to glibc.
const AIO_DEPTH: u32 = 64;

/// This thread, in the library.
pub(crate) type Inside = thread::Inside<State>;

/// A thread's state.
pub(crate) struct State {
    /// Its engines for calls that wait.
    pub(crate) engines: Engines,
    /// A number that no other thread has.
    pub(crate) id: u64,
    /// What it has in flight by POSIX AIO.
    aio: Option<Arc<Flights>>,
}

impl Default for State {
    fn default() -> State {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        State { engines: Engines::default(), id: NEXT.fetch_add(1, Ordering::Relaxed), aio: None }
    }
}

impl thread::State for State {
    fn place() -> &'static LocalKey<Place> {
        &PLACE
    }
}

impl State {
    /// The thread's queue of POSIX AIO.
    pub(crate) fn aio(&mut self) -> &Arc<Flights> {
        self.aio.get_or_insert_with(|| Arc::new(Mutex::new(Queue::new(AIO_DEPTH))))
    }
}

impl Drop for State {
    /// Other threads may wait for what this one has in flight.
    fn drop(&mut self) {
        if let Some(queue) = &self.aio {
            let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
            queue.drain();
            control_block::tell(&mut queue);
        }
    }
}
