//! The engine that owns several: each request goes to the one that its kind is routed to, by a lookup.

mod several;
mod turn;

use crate::chooser::Chooser;
use crate::clock::{Clock, SystemClock};
use crate::engines::{Engines, SLOTS, Slot, slot_of};
use crate::flight::{Flight, Start, Taker, Timings};
use crate::key::{KINDS, Kind};
use crate::log::{Counts, Decision};
use crate::sleep::Sleeper;
use crate::way::Way;
use iopj_engine::{Completion, Counters, Engine, EngineError, Leaked, Op, Refused, Request, Setup, sealed};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};
use turn::Epoch;

/// How long a dropped engine waits for what is in flight, over all the engines that it owns.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);
/// Places in the table of routes: as many as kinds, rounded up to a power of two, so that no bound is checked.
const ROUTES: usize = KINDS.next_power_of_two();

/// The latest push, which the next one is likely to resemble: it then needs no lookup.
#[derive(Clone, Copy, Debug)]
struct Memo {
    len: u32,
    op: Op,
    kind: Kind,
    way: Way,
    /// The way is not the fallback, so that a request may have to be done again.
    is_recorded: bool,
}

impl Memo {
    /// Nothing resembles it: no engine takes a request of this length.
    const NONE_LEN: u32 = u32::MAX;
}

/// An engine that owns several over one target and one pool, and sends each request to the one that serves
/// it best: by a policy, and by what it sees. Opened by [`Auto::builder`].
///
/// It is an [`Engine`] like any other. Reads and writes of one buffer are routed by operation, size, and how
/// many are in flight; everything else goes by the fallback, which interrupts. [`Engine::supports`] says what
/// the fallback can. The engines promise no order between requests in flight, so a change of way takes none
/// away. A flush makes durable what was completed before it was pushed, whichever way that went, for they
/// all lead to the same device: through the kernel, or through the driver in this process.
///
/// A way that fails while it runs is left for good, and what it had in flight is done again by the fallback:
/// the caller sees each completion once. A write may then reach the device twice, with the same bytes. Only
/// if the fallback fails, or a device keeps what it was given for longer than five seconds, does an
/// [`EngineError`] come out, and the engine is finished.
///
/// It has no descriptor to wait on, because it may poll at any time.
pub struct Auto<C: Clock = SystemClock> {
    engines: Engines,
    memo: Memo,
    /// The engine that has everything in flight, unless there are several.
    active: usize,
    /// There may be several.
    is_several: bool,
    /// A wait on that engine is all that is needed: there is one, and nobody sleeps before it polls.
    is_plain: bool,
    routes: [Way; ROUTES],
    /// By buffer.
    flights: Box<[Flight]>,
    epoch: Epoch,
    timings: Timings,
    /// Requests that a way refused or lost, to be done by the fallback.
    redo: Vec<Request>,
    fallback: Way,
    iodepth: usize,
    /// The way that each engine's latest request went.
    latest: [Way; SLOTS],
    /// The kind of the latest request before whose completion this process may sleep.
    sleeps_for: Kind,
    sleeper: Sleeper,
    chooser: Chooser,
    clock: C,
    setup: Setup,
}

impl<C: Clock> Auto<C> {
    /// Opens the fallback, and what the first requests are routed to.
    pub(crate) fn start(
        mut engines: Engines,
        chooser: Chooser,
        clock: C,
        iodepth: u32,
    ) -> Result<Auto<C>, EngineError> {
        let fallback = chooser.fallback();
        engines.make_ready(fallback)?;
        let setup = engines.slots[slot_of(fallback)].setup().cloned().unwrap_or_default();
        let kind = Kind::of(Op::Read, 0);
        let mut auto = Auto {
            memo: Memo { len: Memo::NONE_LEN, op: Op::Read, kind, way: fallback, is_recorded: false },
            active: slot_of(fallback),
            is_several: false,
            is_plain: true,
            routes: [fallback; ROUTES],
            flights: vec![Flight::NONE; engines.pool.count() as usize].into(),
            epoch: Epoch::new(clock.now_ns(), chooser.bound_ns().is_some()),
            timings: Timings::new(engines.pool.count(), chooser.bound_ns()),
            redo: Vec::new(),
            fallback,
            iodepth: iodepth as usize,
            latest: [fallback; SLOTS],
            sleeps_for: kind,
            sleeper: Sleeper::new(),
            engines,
            chooser,
            clock,
            setup,
        };
        auto.adopt_routes();
        auto.begin_epoch();
        Ok(auto)
    }

    /// The way that a kind of request takes now.
    pub fn route(&self, kind: Kind) -> Way {
        self.chooser.route(kind)
    }

    /// Takes the decisions since this was called last, the oldest first; the latest
    /// [`LOG_LEN`](crate::LOG_LEN) are there.
    pub fn drain_log(&mut self) -> impl Iterator<Item = Decision> + '_ {
        self.chooser.drain_log()
    }

    /// What was counted since it was opened.
    pub fn counts(&self) -> &Counts {
        self.chooser.counts()
    }

    /// An engine, and what stands between it and the caller's sink.
    #[inline(always)]
    fn split(&mut self, slot: usize) -> (&mut Slot, Taker<'_, C>) {
        let taker = Taker {
            flights: &self.flights,
            timings: &mut self.timings,
            redo: &mut self.redo,
            left: &mut self.epoch.left,
            clock: &self.clock,
            is_fallback: slot == slot_of(self.fallback),
        };
        (&mut self.engines.slots[slot & (SLOTS - 1)], taker)
    }

    /// Remembers a request of the latest kind that was pushed, and times it if it is its turn.
    #[inline(always)]
    fn note(&mut self, index: u32, flight: Flight) {
        if self.memo.is_recorded
            && let Some(place) = self.flights.get_mut(index as usize)
        {
            *place = flight;
        }
        if self.epoch.count(self.memo.kind) {
            self.time(index);
        }
    }

    #[cold]
    #[inline(never)]
    fn time(&mut self, index: u32) {
        let Memo { kind, way, .. } = self.memo;
        let in_flight = u32::try_from(self.in_flight()).unwrap_or(u32::MAX);
        self.timings.start(index, Start { kind, way, in_flight }, self.clock.now_ns());
    }

    /// Counts what was handed out, and ends the epoch where that is due.
    #[inline(always)]
    fn progress(&mut self, found: usize) {
        if self.epoch.progress(found) {
            self.turn();
        }
    }
}

impl<C: Clock> sealed::Sealed for Auto<C> {}

impl<C: Clock> Engine for Auto<C> {
    #[inline]
    fn push(&mut self, request: Request) -> Result<(), Refused> {
        let op = request.operation.op();
        let Some(transfer) = request.operation.transfer() else { return self.push_other(request) };
        if transfer.len != self.memo.len || op != self.memo.op {
            return self.push_elsewhere(request);
        }
        let index = transfer.buffer.index();
        let flight = Flight { tag: request.tag, offset: transfer.offset, len: transfer.len, op };
        match self.engines.slots[self.active & (SLOTS - 1)].push(request) {
            Ok(()) => {
                self.note(index, flight);
                Ok(())
            }
            Err(refused) => self.push_refused(refused),
        }
    }

    #[inline]
    fn submit(&mut self) -> Result<(), EngineError> {
        if self.is_several || !self.redo.is_empty() {
            return self.submit_all();
        }
        match self.engines.slots[self.active & (SLOTS - 1)].submit() {
            Ok(()) => Ok(()),
            Err(error) => self.submit_after(error),
        }
    }

    #[inline]
    fn reap<S: FnMut(Completion)>(&mut self, mut sink: S) -> Result<usize, EngineError> {
        if self.is_several || !self.redo.is_empty() {
            let found = self.reap_all(&mut sink)?;
            self.progress(found);
            return Ok(found);
        }
        let (engine, mut taker) = self.split(self.active);
        let reaped = engine.reap(|completion| taker.take(completion, &mut sink));
        match reaped {
            Ok(found) if self.redo.is_empty() => {
                self.progress(found);
                Ok(found)
            }
            other => self.reap_after(other),
        }
    }

    #[inline]
    fn wait<S: FnMut(Completion)>(
        &mut self,
        min: usize,
        until: Option<Instant>,
        mut sink: S,
    ) -> Result<usize, EngineError> {
        if !self.is_plain {
            return self.wait_apart(0, min, until, &mut sink);
        }
        let (engine, mut taker) = self.split(self.active);
        let waited = engine.wait(min, until, |completion| taker.take(completion, &mut sink));
        match waited {
            Ok(found) if self.redo.is_empty() => {
                self.progress(found);
                Ok(found)
            }
            other => self.wait_after(other, min, until, &mut sink),
        }
    }

    #[inline]
    fn in_flight(&self) -> usize {
        let in_engines = match self.is_several {
            false => self.engines.slots[self.active & (SLOTS - 1)].in_flight(),
            true => self.engines.in_flight(),
        };
        in_engines + self.redo.len()
    }

    fn iodepth(&self) -> usize {
        self.iodepth
    }

    fn supports(&self, op: Op) -> bool {
        self.engines.slots[slot_of(self.fallback)].supports(op)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn counters(&self) -> Counters {
        let mut counters = self.engines.counters();
        counters.sleeps += self.sleeper.sleeps;
        counters.system_calls = counters.system_calls.map(|calls| calls + self.sleeper.sleeps);
        counters
    }

    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn close(mut self, until: Instant) -> Result<(), Leaked> {
        self.sleeper.rest(&self.clock);
        self.engines.close_all(until)
    }
}

impl<C: Clock> Drop for Auto<C> {
    fn drop(&mut self) {
        self.sleeper.rest(&self.clock);
        // What has not ended by then is leaked with its memory.
        let _ = self.engines.close_all(Instant::now() + DRAIN_LIMIT);
    }
}
