//! Contexts of libaio: what all threads know of one, and what its owner has in flight.

use crate::owner::Owner;
use crate::process::Shared;
use crate::queue::Queue;
use crate::stats::{self, Interface};
use crate::sys::{self, Quiet};
use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Events of a context that its own thread must have got before it is moved.
const TRIAL: u32 = 16;

/// `struct io_event` of include/uapi/linux/aio_abi.h.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) data: u64,
    pub(crate) block: u64,
    pub(crate) result: i64,
    pub(crate) result2: i64,
}

/// The control block of an I/O that is in flight.
pub(crate) struct Block {
    pub(crate) data: u64,
    pub(crate) address: u64,
}

/// A context, for all threads.
pub(crate) struct Context {
    pub(crate) id: usize,
    /// The most that are in flight.
    pub(crate) depth: u32,
    /// The thread that made it.
    pub(crate) owner: Arc<Owner>,
    is_shared: AtomicBool,
    /// A thread that does not own it has destroyed it.
    is_destroyed: AtomicBool,
    /// Events that the owner got, up to [`TRIAL`].
    seen: AtomicU32,
    /// In flight in the kernel's context.
    in_kernel: AtomicUsize,
    /// In flight in the owner's queue, or ended and not taken.
    pub(crate) is_moved: AtomicUsize,
    /// What has ended and the owner has put where others get it.
    ready: Mutex<VecDeque<Event>>,
}

/// A context that a call is about. Whoever lets go of it last frees it, with signals held off.
pub(crate) struct Held(ManuallyDrop<Arc<Context>>);

impl Held {
    fn new(context: Arc<Context>) -> Held {
        Held(ManuallyDrop::new(context))
    }
}

impl Deref for Held {
    type Target = Arc<Context>;

    fn deref(&self) -> &Arc<Context> {
        &self.0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _quiet = (!sys::is_quiet()).then(Quiet::begin);
        // SAFETY: dropped here alone, and not used afterwards.
        unsafe { ManuallyDrop::drop(&mut self.0) };
    }
}

static CONTEXTS: Shared<Vec<Arc<Context>>> = Shared::new();

impl Context {
    /// Knows a context that was made.
    pub(crate) fn add(id: usize, depth: u32, owner: &Arc<Owner>) {
        let new = Arc::new(Context {
            id,
            depth,
            owner: Arc::clone(owner),
            is_shared: AtomicBool::new(false),
            is_destroyed: AtomicBool::new(false),
            seen: AtomicU32::new(0),
            in_kernel: AtomicUsize::new(0),
            is_moved: AtomicUsize::new(0),
            ready: Mutex::default(),
        });
        CONTEXTS.with(|all| {
            all.retain(|context| context.id != id);
            all.push(new);
        });
    }

    /// The context of this number.
    pub(crate) fn of(id: usize) -> Option<Held> {
        let known = CONTEXTS.with(|all| all.iter().find(|context| context.id == id).map(Arc::clone));
        known.map(Held::new)
    }

    /// Forgets a context that is destroyed.
    pub(crate) fn remove(id: usize) -> Option<Held> {
        CONTEXTS.with(|all| {
            let place = all.iter().position(|context| context.id == id)?;
            Some(Held::new(all.swap_remove(place)))
        })
    }

    /// The threads that have something in flight, to which nothing is added any more.
    pub(crate) fn owners() -> Vec<Arc<Owner>> {
        CONTEXTS.with(|all| {
            all.iter().for_each(|context| context.share());
            let in_flight = all.iter().filter(|context| context.is_in_flight());
            in_flight.map(|context| Arc::clone(&context.owner)).collect()
        })
    }

    /// True if something moved has not ended, as far as is known.
    fn is_in_flight(&self) -> bool {
        self.is_moved.load(Ordering::SeqCst) > self.ready().len()
    }

    /// Notes that a thread uses it.
    pub(crate) fn is_used_by(&self, thread: &Owner) {
        if !self.owner.is(thread) {
            self.share();
        }
    }

    /// From now on everything goes to the kernel.
    pub(crate) fn share(&self) {
        self.is_shared.store(true, Ordering::SeqCst);
    }

    /// True if more than one thread has used it.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::SeqCst)
    }

    /// Its owner is to forget it.
    pub(crate) fn destroy(&self) {
        self.is_destroyed.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_destroyed(&self) -> bool {
        self.is_destroyed.load(Ordering::SeqCst)
    }

    /// Counts what is about to be given to the kernel: another thread may get its events before the call has
    /// come back.
    pub(crate) fn give_to_kernel(&self, count: usize) {
        self.in_kernel.fetch_add(count, Ordering::SeqCst);
    }

    /// So many are not the kernel's: it has not taken them, or their events were got.
    pub(crate) fn take_from_kernel(&self, count: usize) {
        let fewer = |now: usize| Some(now.saturating_sub(count));
        let _ = self.in_kernel.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer);
    }

    /// True if the kernel has something.
    pub(crate) fn is_in_kernel(&self) -> bool {
        self.in_kernel.load(Ordering::SeqCst) > 0
    }

    /// True once its owner has got events enough.
    pub(crate) fn has_passed_trial(&self) -> bool {
        self.seen.load(Ordering::Relaxed) >= TRIAL
    }

    /// Counts events that the owner got.
    pub(crate) fn see(&self, events: usize) {
        if !self.has_passed_trial() {
            self.seen.fetch_add(events as u32, Ordering::Relaxed);
        }
    }

    /// Announces one more in flight; false if another thread uses the context, and it must go to the kernel.
    /// That thread sees the announcement, or this one sees the thread.
    pub(crate) fn announce(&self) -> bool {
        self.is_moved.fetch_add(1, Ordering::SeqCst);
        let may_move = !self.is_shared();
        if !may_move {
            self.withdraw(1);
        }
        may_move
    }

    /// So many are not in flight any more, and were taken.
    pub(crate) fn withdraw(&self, count: usize) {
        self.is_moved.fetch_sub(count, Ordering::SeqCst);
    }

    /// What has ended, for whoever asks.
    pub(crate) fn ready(&self) -> MutexGuard<'_, VecDeque<Event>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The owner's side of a context.
pub(crate) struct Owned {
    pub(crate) context: Arc<Context>,
    pub(crate) queue: Queue<Block>,
}

impl Owned {
    pub(crate) fn new(context: &Arc<Context>) -> Owned {
        Owned { context: Arc::clone(context), queue: Queue::new(context.depth) }
    }

    /// Puts what has ended where every thread gets it.
    pub(crate) fn publish(&mut self) {
        let mut ready = self.context.ready();
        for (Block { data, address }, outcome) in self.queue.ended.drain(..) {
            stats::moved(Interface::Libaio, outcome.max(0) as u64);
            ready.push_back(Event { data, block: address, result: outcome as i64, result2: 0 });
        }
    }
}
