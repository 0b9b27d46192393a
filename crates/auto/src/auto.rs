//! The engine that owns several: each request goes to the one that its kind is routed to, by a lookup.

mod counted;
mod several;
mod turn;

use crate::chooser::Chooser;
use crate::clock::{Clock, SystemClock};
use crate::engines::{Engines, SLOTS, Slot, slot_of};
use crate::flight::{Flight, Start, Watch};
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
/// The latest push, which the next one is likely to resemble, and another one that went the same way: what is
/// like one of the two needs no lookup.
#[derive(Clone, Copy, Debug)]
struct Memo {
    /// Length and operation.
    what: u64,
    kind: Kind,
    /// Those of the other one.
    second: u64,
    second_kind: Kind,
    way: Way,
    /// The way may refuse a request, so that it may have to be done again.
    is_recorded: bool,
}

impl Memo {
    /// What no request is: none resembles it.
    const NOTHING: u64 = u64::MAX;

    fn of(what: u64, kind: Kind, way: Way) -> Memo {
        Memo { what, kind, second: Memo::NOTHING, second_kind: kind, way, is_recorded: way.may_refuse() }
    }

    #[inline(always)]
    fn what(op: Op, len: u32) -> u64 {
        (op as u64) << 32 | u64::from(len)
    }

    /// From now on none resembles it; it still says what was pushed.
    fn forget(&mut self) {
        (self.what, self.second) = (Memo::NOTHING, Memo::NOTHING);
    }
}

/// How often an engine refused a request, and how many it was given in earlier epochs since it began to.
#[derive(Clone, Copy, Debug, Default)]
struct Refusals {
    refused: u32,
    given: u32,
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
    /// The place of the engine that has everything in flight, unless there are several.
    active: usize,
    /// There may be several.
    is_several: bool,
    /// A wait on the engine in front is all that is needed: it has everything in flight, nobody sleeps before
    /// it polls, and nothing is to be done again.
    is_plain: bool,
    /// What takes the way of the latest push goes to the engine in front, whatever its kind.
    is_direct: bool,
    /// The routes were adopted just now: the engine of the next request comes to the front.
    is_fresh: bool,
    routes: [Way; KINDS],
    epoch: Epoch,
    watch: Watch<C>,
    /// No epoch may end now, but one is due.
    is_held: bool,
    is_due: bool,
    /// Requests that were routed to the synchronous engine and went by the fallback, because others were in
    /// flight.
    diverted: u64,
    fallback: Way,
    iodepth: usize,
    /// The way that each engine's latest request went.
    latest: [Way; SLOTS],
    /// By engine, what it refuses.
    refusals: [Refusals; SLOTS],
    /// The kind of the latest request before whose completion this process may sleep.
    sleeps_for: Kind,
    sleeper: Sleeper,
    chooser: Chooser,
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
        let setup = engines.at(slot_of(fallback)).setup().cloned().unwrap_or_default();
        let kind = Kind::of(Op::Read, 0);
        let mut auto = Auto {
            memo: Memo::of(Memo::NOTHING, kind, fallback),
            active: slot_of(fallback),
            is_several: false,
            is_plain: true,
            is_direct: false,
            is_fresh: true,
            routes: [fallback; KINDS],
            epoch: Epoch::new(clock.now_ns(), chooser.bound_ns().is_some()),
            watch: Watch::new(engines.pool.count(), chooser.bound_ns(), clock),
            is_held: false,
            is_due: false,
            diverted: 0,
            fallback,
            iodepth: iodepth as usize,
            latest: [fallback; SLOTS],
            refusals: [Refusals::default(); SLOTS],
            sleeps_for: kind,
            sleeper: Sleeper::new(),
            engines,
            chooser,
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

    /// Does something with the engine without ending an epoch, when an engine may be opened: for a caller
    /// whose stack has no room for that. What ends meanwhile counts.
    pub fn within_epoch<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R {
        let left = self.watch.put_off();
        self.is_held = true;
        let result = work(self);
        self.is_held = false;
        self.watch.go_on(if std::mem::take(&mut self.is_due) { 0 } else { left });
        result
    }

    /// Remembers a request like the latest one that was pushed, and times it if it is its turn.
    #[inline(always)]
    fn note(&mut self, index: u32, flight: Flight) {
        if self.memo.is_recorded
            && let Some(place) = self.watch.flights.get_mut(index as usize)
        {
            *place = flight;
        }
        if self.epoch.count() {
            self.time(index, Kind::of(flight.op, flight.len));
        }
    }

    #[cold]
    #[inline(never)]
    fn time(&mut self, index: u32, kind: Kind) {
        self.epoch.settle(&self.memo);
        self.epoch.time_again(self.watch.timings.is_near());
        if !self.watch.timings.is_busy() {
            let way = self.memo.way;
            let in_flight = u32::try_from(self.in_flight()).unwrap_or(u32::MAX);
            let now_ns = self.watch.clock.now_ns();
            self.watch.timings.start(index, Start { kind, way, in_flight, now_ns });
        }
    }

    /// Waits on the engine in front, whatever it is. `found` were handed out before, and are not counted yet.
    #[inline(never)]
    fn wait_other(
        &mut self,
        found: usize,
        min: usize,
        until: Option<Instant>,
        mut sink: impl FnMut(Completion),
    ) -> Result<usize, EngineError> {
        let wanted = min.saturating_sub(found);
        let waited =
            self.engines.front.wait(wanted, until, |completion| self.watch.take(completion, &mut sink));
        match waited.map(|more| found + more) {
            Ok(found) if !self.watch.has_passed(found) => Ok(found),
            waited => self.wait_after(waited, min, until, sink),
        }
    }

    /// Counts what was handed out, and ends the epoch where that is due.
    fn progress(&mut self, found: usize) {
        self.watch.has_passed(found);
        if self.watch.is_over() {
            self.turn();
        }
    }
}

impl<C: Clock> sealed::Sealed for Auto<C> {}

impl<C: Clock> Engine for Auto<C> {
    /// Always in the caller's code: a call here would be one more than the engine's own, with the request in
    /// memory, some fifty instructions. It is taken apart and put together again where it goes, so that it
    /// stays in registers.
    #[inline(always)]
    fn push(&mut self, request: Request) -> Result<(), Refused> {
        let Request { operation, tag } = request;
        let (op, transfer) = match operation.apart() {
            Ok(parts) => parts,
            Err(operation) => return self.push_other(Request { operation, tag }),
        };
        let what = Memo::what(op, transfer.len);
        if what != self.memo.what {
            if what != self.memo.second {
                return self.push_unlike(op, transfer, tag);
            }
            self.epoch.count_second();
        }
        let index = transfer.buffer.index();
        let flight = Flight { tag, offset: transfer.offset, len: transfer.len, op };
        match self.engines.push_front(op, transfer, tag) {
            Ok(()) => {
                self.note(index, flight);
                Ok(())
            }
            // What it was is asked of the request: here it would have to be kept over the push.
            Err(refused) => self.push_refused(refused),
        }
    }

    #[inline]
    fn submit(&mut self) -> Result<(), EngineError> {
        if !self.is_plain {
            return self.submit_all();
        }
        match self.engines.submit_front() {
            Ok(()) => Ok(()),
            Err(error) => self.submit_after(error),
        }
    }

    #[inline]
    fn reap<S: FnMut(Completion)>(&mut self, mut sink: S) -> Result<usize, EngineError> {
        if !self.is_plain {
            let found = self.reap_all(&mut sink)?;
            self.progress(found);
            return Ok(found);
        }
        let reaped = self.engines.front.reap(|completion| self.watch.take(completion, &mut sink));
        let found = match reaped {
            Ok(found) => found,
            Err(error) => return self.reap_after(Err(error)),
        };
        if self.watch.has_passed(found) { self.reap_after(Ok(found)) } else { Ok(found) }
    }

    #[inline]
    fn wait<S: FnMut(Completion)>(
        &mut self,
        min: usize,
        until: Option<Instant>,
        mut sink: S,
    ) -> Result<usize, EngineError> {
        if !self.is_plain {
            return self.wait_apart(0, min, until, sink);
        }
        // Each engine has its own way out: results that come together were told apart again.
        match &mut self.engines.front {
            Slot::Ring(ring) => {
                let take = |completion| self.watch.take(completion, &mut sink);
                return match ring.wait_inline(min, until, take) {
                    Ok(found) if !self.watch.has_passed(found) => Ok(found),
                    waited => self.wait_after(waited, min, until, sink),
                };
            }
            Slot::Sio(sio) => {
                if let Some(completion) = sio.perform_queued() {
                    self.watch.take(completion, &mut sink);
                    let is_over = self.watch.has_passed(1);
                    return if is_over { self.wait_after(Ok(1), min, until, sink) } else { Ok(1) };
                }
            }
            _ => {}
        }
        if self.engines.is_bypass
            && let Slot::User(user) = &mut self.engines.front
        {
            return match user.wait_inline(min, |completion| self.watch.take(completion, &mut sink)) {
                Ok(found) if !self.watch.has_passed(found) => Ok(found),
                Ok(found) => self.wait_after(Ok(found), min, until, sink),
                Err(found) => self.wait_other(found, min, until, sink),
            };
        }
        self.wait_other(0, min, until, sink)
    }

    #[inline]
    fn in_flight(&self) -> usize {
        let on_engines =
            if self.is_plain { self.engines.front.in_flight() } else { self.engines.in_flight() };
        on_engines + self.watch.redo.len()
    }

    fn iodepth(&self) -> usize {
        self.iodepth
    }

    fn supports(&self, op: Op) -> bool {
        self.engines.supports(slot_of(self.fallback), op)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn counters(&self) -> Counters {
        let mut counters = self.engines.counters();
        counters.sleeps += self.sleeper.sleeps;
        counters.system_calls = counters.system_calls.map(|calls| calls + self.sleeper.sleeps);
        counters.routes = Some(self.route_counts());
        counters
    }

    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn decisions(&mut self) -> Vec<String> {
        self.drain_log().map(|decision| decision.to_string()).collect()
    }

    fn close(mut self, until: Instant) -> Result<(), Leaked> {
        self.sleeper.rest(&self.watch.clock);
        self.engines.close_all(until)
    }
}

impl<C: Clock> Drop for Auto<C> {
    fn drop(&mut self) {
        self.sleeper.rest(&self.watch.clock);
        // What has not ended by then is leaked with its memory.
        let _ = self.engines.close_all(Instant::now() + DRAIN_LIMIT);
    }
}
