//! The engines that an `Auto` owns, over one target and one pool: opened when a way is first taken, closed
//! when it was not for a while.

use crate::timing::POLLER_IDLE_MS;
use crate::way::Way;
#[cfg(any(test, feature = "sim"))]
use iopj_engine::DynEngine;
use iopj_engine::{
    AnyEngine, Completion, Counters, Engine, EngineError, IoUring, KernelCpus, Leaked, NvmeUser, Op, Pool,
    PosixSio, Refused, Request, Setup, Target, Transfer, open_on,
};
use std::time::Instant;

/// Places for engines. Ways that differ in how one engine waits share its place.
pub(crate) const SLOTS: usize = 5;

/// The place of a way's engine.
#[inline]
pub(crate) const fn slot_of(way: Way) -> usize {
    match way {
        Way::Interrupt | Way::UserInterrupt | Way::UserPoll | Way::UserHybrid => 0,
        Way::Poll | Way::SleepPoll => 1,
        Way::Hybrid => 2,
        Way::Sqpoll => 3,
        Way::Sio => 4,
    }
}

/// A place for an engine, by its type: a call is a `match`, and what follows is made for the engine.
#[repr(u8)]
#[expect(clippy::large_enum_variant, reason = "there are five, and a pointer would be followed for each I/O")]
pub(crate) enum Slot {
    Closed,
    Ring(IoUring),
    Sio(PosixSio),
    User(NvmeUser),
    #[cfg(any(test, feature = "sim"))]
    Scripted(Box<dyn DynEngine>),
}

/// Does the same with whichever engine is there, and something else if there is none.
macro_rules! with {
    ($slot:expr, $engine:ident => $do:expr, $otherwise:expr) => {
        match $slot {
            Slot::Ring($engine) => $do,
            Slot::Sio($engine) => $do,
            Slot::User($engine) => $do,
            #[cfg(any(test, feature = "sim"))]
            Slot::Scripted($engine) => $do,
            Slot::Closed => $otherwise,
        }
    };
}

/// A ring at once, after one comparison, then the others, apart: else the compiler makes a table to jump by.
impl Slot {
    #[inline(never)]
    pub(crate) fn push(&mut self, request: Request) -> Result<(), Refused> {
        with!(self, engine => engine.push(request), Err(Refused::new(request, closed())))
    }

    #[inline(never)]
    pub(crate) fn submit(&mut self) -> Result<(), EngineError> {
        with!(self, engine => engine.submit(), Ok(()))
    }

    #[inline(always)]
    pub(crate) fn reap(&mut self, sink: impl FnMut(Completion)) -> Result<usize, EngineError> {
        if let Slot::Ring(ring) = self { ring.reap(sink) } else { self.reap_other(sink) }
    }

    #[inline(never)]
    fn reap_other(&mut self, sink: impl FnMut(Completion)) -> Result<usize, EngineError> {
        with!(self, engine => engine.reap(sink), Ok(0))
    }

    #[inline(never)]
    pub(crate) fn wait(
        &mut self,
        min: usize,
        until: Option<Instant>,
        sink: impl FnMut(Completion),
    ) -> Result<usize, EngineError> {
        with!(self, engine => engine.wait(min, until, sink), Ok(0))
    }

    #[inline(always)]
    pub(crate) fn in_flight(&self) -> usize {
        if let Slot::Ring(ring) = self { ring.in_flight() } else { self.in_flight_other() }
    }

    #[inline(never)]
    fn in_flight_other(&self) -> usize {
        with!(self, engine => engine.in_flight(), 0)
    }
}

impl Slot {
    pub(crate) fn counters(&self) -> Counters {
        with!(self, engine => engine.counters(), Counters::default())
    }

    pub(crate) fn setup(&self) -> Option<&Setup> {
        with!(self, engine => Some(engine.setup()), None)
    }

    /// Takes back what a synchronous engine was given and has not begun.
    pub(crate) fn take_back(&mut self) -> Option<Request> {
        if let Slot::Sio(engine) = self { engine.take_back() } else { None }
    }

    pub(crate) fn is_open(&self) -> bool {
        !matches!(self, Slot::Closed)
    }

    fn close(self, until: Instant) -> Result<(), Leaked> {
        with!(self, engine => engine.close(until), Ok(()))
    }
}

#[cold]
fn closed() -> EngineError {
    EngineError::unsupported("the engine of this way is closed: open the adaptive engine anew")
}

/// Where engines come from.
pub(crate) enum Source {
    Target(Target),
    #[cfg(any(test, feature = "sim"))]
    Script(Script),
}

/// Opens the engine of a way.
#[cfg(any(test, feature = "sim"))]
pub(crate) type Script = Box<dyn FnMut(Way) -> Result<Box<dyn DynEngine>, EngineError>>;

/// The engines, and what opens more.
pub(crate) struct Engines {
    /// The engine that most requests are expected to go to, where it is found at once.
    pub(crate) front: Slot,
    /// Its place, which is empty.
    front_at: usize,
    slots: [Slot; SLOTS],
    source: Source,
    /// The target is a drive that was taken from the kernel's driver.
    pub(crate) is_bypass: bool,
    pub(crate) pool: Pool,
    iodepth: u32,
    cpus: KernelCpus,
    poller_idle_ms: u32,
    /// What engines did that are closed.
    closed: Counters,
}

impl Engines {
    pub(crate) fn new(source: Source, pool: &Pool, iodepth: u32) -> Engines {
        let slots = [const { Slot::Closed }; SLOTS];
        let is_bypass = match &source {
            Source::Target(target) => target.controller().is_some(),
            #[cfg(any(test, feature = "sim"))]
            Source::Script(_) => false,
        };
        Engines {
            front: Slot::Closed,
            front_at: 0,
            slots,
            source,
            is_bypass,
            pool: pool.clone(),
            iodepth,
            cpus: KernelCpus::default(),
            poller_idle_ms: POLLER_IDLE_MS,
            closed: Counters::default(),
        }
    }

    /// Keeps threads of the kernel's to these processors.
    pub(crate) fn on(self, cpus: KernelCpus) -> Engines {
        Engines { cpus, ..self }
    }

    /// Lets submission pollers go on for this long after the last request; 0 is the engine's own value.
    pub(crate) fn with_poller_idle_ms(self, poller_idle_ms: u32) -> Engines {
        Engines { poller_idle_ms, ..self }
    }

    /// Pushes a transfer to the engine in front. It becomes a request where it goes: whole, it would be
    /// stored before. What has no arm is left to a function of all engines: if the place in front were passed
    /// on, its address would be at hand, and its kind be loaded from there.
    #[inline(always)]
    pub(crate) fn push_front(&mut self, op: Op, transfer: Transfer, tag: u64) -> Result<(), Refused> {
        let whole = |transfer: Transfer| Request { operation: transfer.by(op), tag };
        match &mut self.front {
            Slot::Ring(ring) => return ring.push_inline(whole(transfer)),
            Slot::Sio(sio) => return sio.push(whole(transfer)),
            _ => {}
        }
        // With its kind alone the compiler would make a table to jump by, for all kinds.
        if self.is_bypass
            && let Slot::User(user) = &mut self.front
        {
            return user.push(whole(transfer));
        }
        self.push_front_other(whole(transfer))
    }

    /// Submits what the engine in front has. As with [`Engines::push_front`], its place is not passed on.
    #[inline(always)]
    pub(crate) fn submit_front(&mut self) -> Result<(), EngineError> {
        if let Slot::Ring(ring) = &mut self.front { ring.submit() } else { self.submit_front_other() }
    }

    #[inline(never)]
    fn submit_front_other(&mut self) -> Result<(), EngineError> {
        self.front.submit()
    }

    #[inline(never)]
    fn push_front_other(&mut self, request: Request) -> Result<(), Refused> {
        self.front.push(request)
    }

    /// The engine of a place.
    pub(crate) fn at(&mut self, slot: usize) -> &mut Slot {
        if slot == self.front_at { &mut self.front } else { &mut self.slots[slot] }
    }

    pub(crate) fn in_flight_at(&self, slot: usize) -> usize {
        if slot == self.front_at { self.front.in_flight() } else { self.slots[slot].in_flight() }
    }

    /// True if the engine of a place has the operation.
    pub(crate) fn supports(&self, slot: usize, op: Op) -> bool {
        let slot = if slot == self.front_at { &self.front } else { &self.slots[slot] };
        with!(slot, engine => engine.supports(op), false)
    }

    /// True if the engine of a place is in front.
    pub(crate) fn is_front(&self, slot: usize) -> bool {
        slot == self.front_at
    }

    /// Puts the engine of a place in front.
    pub(crate) fn bring_to_front(&mut self, slot: usize) {
        std::mem::swap(&mut self.front, &mut self.slots[self.front_at]);
        std::mem::swap(&mut self.front, &mut self.slots[slot]);
        self.front_at = slot;
    }

    fn all(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().chain([&self.front])
    }

    /// Opens the engine of a way, unless it is open, and makes it wait in that way.
    ///
    /// # Errors
    /// It cannot be opened, or not switched: what was open goes on as before.
    pub(crate) fn make_ready(&mut self, way: Way) -> Result<(), EngineError> {
        let at = slot_of(way);
        let slot = if at == self.front_at { &mut self.front } else { &mut self.slots[at] };
        if let Slot::User(engine) = slot {
            return engine.set_completion(way.user_completion());
        }
        if slot.is_open() {
            return Ok(());
        }
        *slot = match &mut self.source {
            Source::Target(target) if way.is_bypass() => {
                let builder = NvmeUser::builder().completion(way.user_completion()).switches();
                Slot::User(builder.iodepth(self.iodepth).open(target, &self.pool)?)
            }
            Source::Target(target) if way.has_poller() => {
                let builder =
                    IoUring::builder().sqpoll().cpus(self.cpus.clone()).poller_idle_ms(self.poller_idle_ms);
                Slot::Ring(builder.iodepth(self.iodepth).open(target, &self.pool)?)
            }
            Source::Target(target) => {
                let iodepth = if way == Way::Sio { 1 } else { self.iodepth };
                match open_on(way.path(), target, &self.pool, iodepth, &self.cpus)? {
                    AnyEngine::IoUring(engine) => Slot::Ring(engine),
                    AnyEngine::PosixSio(engine) => Slot::Sio(engine),
                    _ => return Err(EngineError::unsupported(format!("{way} has no engine of its own"))),
                }
            }
            #[cfg(any(test, feature = "sim"))]
            Source::Script(open) => Slot::Scripted(open(way)?),
        };
        Ok(())
    }

    /// Closes an engine, which keeps nothing in flight that ends before `until`.
    ///
    /// # Errors
    /// What had not ended by then.
    pub(crate) fn close(&mut self, slot: usize, until: Instant) -> Result<(), Leaked> {
        let slot = std::mem::replace(self.at(slot), Slot::Closed);
        add(&mut self.closed, &slot.counters());
        slot.close(until)
    }

    /// Closes every engine, with one deadline.
    pub(crate) fn close_all(&mut self, until: Instant) -> Result<(), Leaked> {
        let left = |slot| self.close(slot, until).err().map_or(0, |leaked| leaked.in_flight);
        match (0..SLOTS).map(left).sum() {
            0 => Ok(()),
            in_flight => Err(Leaked { in_flight }),
        }
    }

    /// Requests in flight on all of them.
    pub(crate) fn in_flight(&self) -> usize {
        self.all().map(Slot::in_flight).sum()
    }

    /// What all of them did, those too that are closed.
    pub(crate) fn counters(&self) -> Counters {
        let mut sum = self.closed;
        // Closed ones count nothing, and a count that is absent would make the sum absent.
        for slot in self.all().filter(|slot| slot.is_open()) {
            add(&mut sum, &slot.counters());
        }
        sum
    }
}

fn add(sum: &mut Counters, more: &Counters) {
    sum.system_calls = Some(sum.system_calls.unwrap_or(0) + more.system_calls.unwrap_or(0));
    sum.submit_calls += more.submit_calls;
    sum.wakeups += more.wakeups;
    sum.doorbells += more.doorbells;
    sum.completion_doorbells += more.completion_doorbells;
    sum.empty_polls += more.empty_polls;
    sum.sleeps += more.sleeps;
}
