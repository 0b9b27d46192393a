//! Requests on several engines at once, or on one of which more is asked than to wait: to sleep before it
//! polls, or to do again what a way refused or lost.

use super::{Auto, Route};
use crate::clock::Clock;
use crate::engines::{SLOTS, slot_of};
use crate::flight::Flight;
use crate::key::Kind;
use crate::way::Way;
use iopj_engine::{Buffer, Cause, Completion, Engine, EngineError, Refused, Request};
use std::time::{Duration, Instant};

/// How long one of several engines that interrupt is waited for before the next one's turn comes.
const TURN: Duration = Duration::from_micros(100);
/// How long an engine that failed may hold what it was given.
const END_LIMIT: Duration = Duration::from_secs(5);
/// Refusals of a way, of all that it was given in the epoch, after which it is left for good.
const REFUSALS: u32 = 16;

impl<C: Clock> Auto<C> {
    /// Pushes what reads or writes no single buffer.
    #[cold]
    #[inline(never)]
    pub(super) fn push_other(&mut self, request: Request) -> Result<(), Refused> {
        self.push_to(request, Route::of(self.fallback))
    }

    /// Pushes a transfer to another engine than the latest, or to one of several.
    #[inline(never)]
    pub(super) fn push_elsewhere(
        &mut self,
        request: Request,
        kind: Kind,
        mut route: Route,
    ) -> Result<(), Refused> {
        if route.way == Way::Sio && self.in_flight() > 0 {
            route = Route::of(self.fallback);
        }
        let op = request.operation.op();
        let Some(transfer) = request.operation.transfer() else { return self.push_to(request, route) };
        let index = transfer.buffer.index();
        let (tag, offset, len, way) = (request.tag, transfer.offset, transfer.len, route.way);
        self.push_to(request, route)?;
        self.note(index, Flight { tag, offset, began_ns: 0, len, in_flight: 0, op, way }, kind);
        Ok(())
    }

    /// After a refusal: perhaps the synchronous engine has its one request, and others take more.
    #[cold]
    #[inline(never)]
    pub(super) fn push_refused(&mut self, refused: Refused, kind: Kind, route: Route) -> Result<(), Refused> {
        if route.way == Way::Sio && self.in_flight() > 0 && self.iodepth > 1 {
            return self.push_elsewhere(refused.into_parts().0, kind, route);
        }
        Err(refused)
    }

    /// Pushes to one engine, while others may have requests.
    fn push_to(&mut self, request: Request, route: Route) -> Result<(), Refused> {
        if self.in_flight() >= self.iodepth {
            return Err(Refused::new(request, Cause::Full { iodepth: self.iodepth }.into()));
        }
        if route.way != Way::Sio {
            self.make_asynchronous();
        }
        let is_alone = self.in_flight() == 0 || self.active.slot == route.slot;
        let slot = usize::from(route.slot);
        self.engines.slots[slot].push(request)?;
        self.latest[slot] = route.way;
        self.active = if is_alone { route } else { Route::SEVERAL };
        Ok(())
    }

    /// Moves a request that the synchronous engine has not begun to the fallback: it would block while
    /// another one is in flight.
    fn make_asynchronous(&mut self) {
        let Some(request) = self.engines.slots[slot_of(Way::Sio)].take_back() else { return };
        self.redo.push(request);
        self.push_again();
    }

    /// Pushes what waits for the fallback, as far as there is room.
    fn push_again(&mut self) {
        let to = Route::of(self.fallback);
        let slot = usize::from(to.slot);
        let is_alone = self.active.slot == to.slot || self.engines.in_flight() == 0;
        for request in std::mem::take(&mut self.redo) {
            let index = request.operation.transfer().map(|transfer| transfer.buffer.index());
            match self.engines.slots[slot].push(request) {
                Ok(()) => {
                    if let Some(flight) = index.and_then(|index| self.flights.get_mut(index as usize)) {
                        (flight.way, flight.began_ns) = (self.fallback, 0);
                    }
                }
                Err(refused) => self.redo.push(refused.into_parts().0),
            }
        }
        self.latest[slot] = self.fallback;
        self.active = if is_alone { to } else { Route::SEVERAL };
    }

    /// Gives what was refused or lost to the fallback.
    fn do_again(&mut self) -> Result<(), EngineError> {
        if self.redo.is_empty() {
            return Ok(());
        }
        let waiting = self.redo.len();
        self.push_again();
        self.chooser.redone((waiting - self.redo.len()) as u64);
        self.engines.slots[slot_of(self.fallback)].submit()
    }

    #[cold]
    #[inline(never)]
    pub(super) fn submit_all(&mut self) -> Result<(), EngineError> {
        for slot in 0..SLOTS {
            if let Err(error) = self.engines.slots[slot].submit() {
                self.give_up(slot, error)?;
            }
        }
        self.do_again()
    }

    #[cold]
    #[inline(never)]
    pub(super) fn submit_after(&mut self, slot: usize, error: EngineError) -> Result<(), EngineError> {
        self.give_up(slot, error)?;
        self.do_again()
    }

    /// Hands out what is complete on every engine.
    pub(super) fn reap_all(&mut self, sink: &mut impl FnMut(Completion)) -> Result<usize, EngineError> {
        let mut found = 0;
        for slot in 0..SLOTS {
            let before = self.engines.slots[slot].in_flight();
            if before > 0 {
                let refused = self.redo.len();
                let (engine, mut taker) = self.split(slot);
                let reaped = engine.reap(|completion| taker.take(completion, sink));
                found += self.taken(slot, before, refused, reaped)?;
            }
        }
        self.do_again()?;
        Ok(found)
    }

    /// Goes on with a reap after an engine failed or refused something.
    #[cold]
    #[inline(never)]
    pub(super) fn reap_after(
        &mut self,
        reaped: Result<usize, EngineError>,
        slot: usize,
        before: usize,
    ) -> Result<usize, EngineError> {
        let found = self.taken(slot, before, 0, reaped)?;
        self.do_again()?;
        self.progress(found);
        Ok(found)
    }

    /// How many of `before` an engine handed out. What it refused is in `redo`, which had `waiting` requests
    /// before. An engine that failed is left.
    fn taken(
        &mut self,
        slot: usize,
        before: usize,
        waiting: usize,
        result: Result<usize, EngineError>,
    ) -> Result<usize, EngineError> {
        let refused = self.redo.len() - waiting;
        let found = before.saturating_sub(self.engines.slots[slot].in_flight());
        match result {
            Ok(_) if refused == 0 => {}
            Ok(_) => self.note_refusals(slot, refused as u32, found > refused),
            Err(error) => self.give_up(slot, error)?,
        }
        Ok(found.saturating_sub(refused))
    }

    /// A way that refuses all that it is given is left.
    fn note_refusals(&mut self, slot: usize, refused: u32, has_succeeded: bool) {
        if has_succeeded {
            self.epoch.refusals = 0;
            return;
        }
        let way = self.latest[slot];
        self.epoch.refusals += refused;
        let pushed = self.epoch.pushed_by(|kind| self.chooser.route(kind) == way);
        let pending = self.engines.slots[slot].in_flight() as u32;
        if self.epoch.refusals >= REFUSALS && pushed <= self.epoch.refusals + pending {
            let error = "it refuses every request (EOPNOTSUPP or EINVAL)";
            self.chooser.fail(way, error, self.epoch.at_ns(self.clock.now_ns()));
            self.adopt_routes();
            self.begin_epoch();
        }
    }

    /// Leaves an engine that failed, and takes back what it had in flight.
    ///
    /// # Errors
    /// It is the fallback, or a device keeps what it was given.
    fn give_up(&mut self, slot: usize, error: EngineError) -> Result<(), EngineError> {
        if slot == slot_of(self.fallback) {
            return Err(error);
        }
        // The buffers that come back now are those that it had in flight.
        let pool = self.engines.pool.clone();
        let free: Vec<Buffer> = std::iter::from_fn(|| pool.acquire()).collect();
        if self.engines.close(slot, Instant::now() + END_LIMIT).is_err() {
            return Err(error);
        }
        let lost: Vec<Buffer> = std::iter::from_fn(|| pool.acquire()).collect();
        drop(free);
        for buffer in lost {
            if let Some(flight) = self.flights.get(buffer.index() as usize) {
                self.redo.push(flight.again(buffer));
            }
        }
        self.active = Route::SEVERAL;
        let now_ns = self.epoch.at_ns(self.clock.now_ns());
        for way in Way::ALL.into_iter().filter(|way| slot_of(*way) == slot) {
            self.chooser.fail(way, &error.to_string(), now_ns);
        }
        self.adopt_routes();
        self.begin_epoch();
        Ok(())
    }

    /// Goes on with a wait after an engine failed or refused something.
    #[cold]
    #[inline(never)]
    pub(super) fn wait_after(
        &mut self,
        waited: Result<usize, EngineError>,
        (slot, before): (usize, usize),
        min: usize,
        until: Option<Instant>,
        sink: &mut impl FnMut(Completion),
    ) -> Result<usize, EngineError> {
        let found = self.taken(slot, before, 0, waited)?;
        self.wait_apart(found, min, until, sink)
    }

    /// Waits where requests are on several engines, or are slept for, or must be done again. `found` were
    /// handed out before.
    #[inline(never)]
    pub(super) fn wait_apart(
        &mut self,
        mut found: usize,
        min: usize,
        until: Option<Instant>,
        sink: &mut impl FnMut(Completion),
    ) -> Result<usize, EngineError> {
        let min = min.min(found + self.in_flight());
        loop {
            self.do_again()?;
            let wanted = min.saturating_sub(found);
            found += match self.only_slot() {
                Some(slot) => self.wait_on(slot, wanted, until, sink)?,
                None => self.wait_round(wanted, until, sink)?,
            };
            let is_enough = found >= min || self.in_flight() == 0;
            if is_enough || until.is_some_and(|until| Instant::now() >= until) {
                self.do_again()?;
                self.progress(found);
                return Ok(found);
            }
        }
    }

    /// The engine that has all requests in flight, if it is one.
    fn only_slot(&mut self) -> Option<usize> {
        let mut used = (0..SLOTS).filter(|slot| self.engines.slots[*slot].in_flight() > 0);
        let only = used.next().unwrap_or(slot_of(self.fallback));
        if used.next().is_some() {
            self.active = Route::SEVERAL;
            return None;
        }
        self.active = Route { way: self.latest[only], slot: only as u8 };
        Some(only)
    }

    /// Waits on one engine, which has all requests, after a sleep where the way has one.
    fn wait_on(
        &mut self,
        slot: usize,
        wanted: usize,
        until: Option<Instant>,
        sink: &mut impl FnMut(Completion),
    ) -> Result<usize, EngineError> {
        let mut found = 0;
        if wanted > 0 && self.active.way == Way::SleepPoll {
            found = self.sleep_first(slot, until, sink)?;
        }
        if found < wanted || wanted == 0 {
            let (before, refused) = (self.engines.slots[slot].in_flight(), self.redo.len());
            let (engine, mut taker) = self.split(slot);
            let waited = engine.wait(wanted - found, until, |completion| taker.take(completion, sink));
            found += self.taken(slot, before, refused, waited)?;
        }
        Ok(found)
    }

    /// Submits, sleeps, and polls once: whether that finds a completion is what the next sleep learns from.
    fn sleep_first(
        &mut self,
        slot: usize,
        until: Option<Instant>,
        sink: &mut impl FnMut(Completion),
    ) -> Result<usize, EngineError> {
        let (before, refused) = (self.engines.slots[slot].in_flight(), self.redo.len());
        if let Err(error) = self.engines.slots[slot].submit() {
            return self.taken(slot, before, refused, Err(error));
        }
        let kind = self.latest_kind;
        let most = until.map(|until| until.saturating_duration_since(Instant::now()));
        let teaches = self.sleeper.sleep(kind, most, &self.clock);
        let (engine, mut taker) = self.split(slot);
        let reaped = engine.reap(|completion| taker.take(completion, sink));
        let found = self.taken(slot, before, refused, reaped)?;
        if teaches {
            self.sleeper.learn(kind, found > 0);
        }
        Ok(found)
    }

    /// One round over several engines: without sleeping while one of them must be asked, else by a short wait
    /// on each.
    fn wait_round(
        &mut self,
        wanted: usize,
        until: Option<Instant>,
        sink: &mut impl FnMut(Completion),
    ) -> Result<usize, EngineError> {
        self.submit_all()?;
        let mut found = self.reap_all(sink)?;
        let used = |slot: &usize| self.engines.slots[*slot].in_flight() > 0;
        let must_be_asked = (0..SLOTS).filter(used).any(|slot| self.latest[slot].must_be_asked());
        for slot in 0..SLOTS {
            let (before, refused) = (self.engines.slots[slot].in_flight(), self.redo.len());
            if must_be_asked || before == 0 || found >= wanted {
                continue;
            }
            let turn = Instant::now() + TURN;
            let end = until.map_or(turn, |until| until.min(turn));
            let (engine, mut taker) = self.split(slot);
            let waited = engine.wait(1, Some(end), |completion| taker.take(completion, sink));
            found += self.taken(slot, before, refused, waited)?;
        }
        Ok(found)
    }
}
