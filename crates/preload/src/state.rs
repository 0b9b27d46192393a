//! All that a thread has of the library.

use crate::context::{Context, Owned};
use crate::control_block::{self, Address};
use crate::engines::Engines;
use crate::owner::Owner;
use crate::queue::Queue;
use crate::stack;
use crate::thread::{self, Place};
use std::sync::Arc;
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
    /// The thread.
    pub(crate) owner: Arc<Owner>,
    /// What it has in flight by POSIX AIO.
    pub(crate) aio: Queue<Address>,
    contexts: Vec<Owned>,
}

impl Default for State {
    fn default() -> State {
        let (owner, aio) = (Arc::new(Owner::this_thread()), Queue::new(AIO_DEPTH));
        State { engines: Engines::default(), owner, aio, contexts: Vec::new() }
    }
}

impl thread::State for State {
    fn place() -> &'static LocalKey<Place> {
        &PLACE
    }

    /// Who asked while the thread held the signal off gets its answer.
    fn entered(&mut self) {
        if self.owner.is_asked() {
            self.publish();
        }
    }
}

impl State {
    /// The owner's side of a context, which this thread has made.
    pub(crate) fn owned(&mut self, context: &Arc<Context>) -> &mut Owned {
        let known = self.contexts.iter().position(|owned| Arc::ptr_eq(&owned.context, context));
        let number = known.unwrap_or_else(|| {
            self.contexts.push(Owned::new(context));
            self.contexts.len() - 1
        });
        &mut self.contexts[number]
    }

    /// Takes the owner's side of a context that is destroyed.
    pub(crate) fn disown(&mut self, context: &Arc<Context>) -> Option<Owned> {
        let number = self.contexts.iter().position(|owned| Arc::ptr_eq(&owned.context, context))?;
        Some(self.contexts.swap_remove(number))
    }

    /// Takes what has ended to where other threads see it, and forgets the contexts that they have destroyed.
    pub(crate) fn publish(&mut self) {
        self.aio.reap();
        control_block::tell(&mut self.aio);
        for owned in self.contexts.iter_mut().filter(|owned| owned.context.is_shared()) {
            owned.queue.reap();
            owned.publish();
        }
        self.forget_destroyed();
        self.owner.answered();
    }

    /// Ends the owner's side of contexts that others have destroyed.
    pub(crate) fn forget_destroyed(&mut self) {
        self.contexts.retain(|owned| !owned.context.is_destroyed() || owned.queue.in_flight() > 0);
    }

    /// Waits for what is in flight, and takes it to where other threads see it.
    pub(crate) fn drain(&mut self) {
        self.aio.drain();
        control_block::tell(&mut self.aio);
        for owned in &mut self.contexts {
            owned.queue.drain();
            owned.publish();
        }
    }

    /// Waits for what is in flight, and counts what the engines have done and not said: the process ends.
    pub(crate) fn finish(&mut self) {
        self.aio.drain();
        control_block::count(&mut self.aio);
        self.drain();
        self.engines.tell();
        self.aio.tell();
        self.contexts.iter_mut().for_each(|owned| owned.queue.tell());
    }
}

/// What a thread does that is asked by another (`owner`).
pub(crate) fn answer() {
    // On a stack of another making it answers when it next calls the library.
    stack::may_ask(false);
    if stack::has_room(stack::TO_CALL) {
        // It answers as it comes in.
        drop(Inside::enter_in_handler());
    }
}

impl Drop for State {
    /// Other threads may wait for what this one has in flight.
    fn drop(&mut self) {
        self.contexts.iter().for_each(|owned| owned.context.share());
        self.drain();
    }
}
