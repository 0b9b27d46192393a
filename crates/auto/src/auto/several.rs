//! Requests on several engines at once, or on one of which more is asked than to wait: to sleep before it
//! polls, or to do again what a way refused or lost.

use super::{Auto, Memo, Refusals};
use crate::clock::Clock;
use crate::engines::{SLOTS, Slot, slot_of};
use crate::flight::{Flight, Watch};
use crate::key::Kind;
use crate::way::Way;
use iopj_engine::{Buffer, Cause, Completion, Engine, EngineError, Op, Refused, Request, Transfer};
use std::time::{Duration, Instant};

/// How long one of several engines that interrupt is waited for before the next one's turn comes.
const TURN: Duration = Duration::from_micros(100);
/// How long an engine that failed may hold what it was given.
const END_LIMIT: Duration = Duration::from_secs(5);
/// Refusals of a way, of all that it was given, after which it is left for good.
const REFUSALS: u32 = 16;

impl<C: Clock> Auto<C> {
    /// Pushes what reads or writes no single buffer.
    #[cold]
    #[inline(never)]
    pub(super) fn push_other(&mut self, request: Request) -> Result<(), Refused> {
        self.push_to(request, self.fallback)
    }

    /// Pushes a transfer that resembles none that is remembered. To the engine in front, if it takes the way
    /// of the latest one whatever its kind: then it is remembered beside that one.
    #[inline(never)]
    pub(super) fn push_unlike(&mut self, op: Op, transfer: Transfer, tag: u64) -> Result<(), Refused> {
        let (kind, len) = (Kind::of(op, transfer.len), transfer.len);
        let request = Request { operation: transfer.by(op), tag };
        if !self.is_direct || self.routes[kind.index()] != self.memo.way {
            return self.push_elsewhere(request);
        }
        self.epoch.settle(&self.memo);
        (self.memo.second, self.memo.second_kind) = (Memo::what(op, len), kind);
        self.push(request)
    }

    /// Pushes a transfer that does not resemble the latest one, or while several engines have requests.
    #[inline(never)]
    pub(super) fn push_elsewhere(&mut self, request: Request) -> Result<(), Refused> {
        let op = request.operation.op();
        let Some(transfer) = request.operation.transfer() else { return self.push_other(request) };
        let (index, kind) = (transfer.buffer.index(), Kind::of(op, transfer.len));
        let flight = Flight { tag: request.tag, offset: transfer.offset, len: transfer.len, op };
        let route = self.routes[kind.index()];
        let is_diverted = route == Way::Sio && self.in_flight() > 0;
        let way = if is_diverted { self.fallback } else { route };
        self.push_to(request, way)?;
        self.diverted += u64::from(is_diverted);
        if way == Way::SleepPoll {
            self.sleeps_for = kind;
        }
        self.is_direct = self.is_plain;
        let is_alike = self.is_plain && way == self.routes[kind.index()];
        let what = if is_alike { Memo::what(op, flight.len) } else { Memo::NOTHING };
        self.epoch.settle(&self.memo);
        self.memo = Memo::of(what, kind, way);
        self.note(index, flight);
        Ok(())
    }

    /// After a refusal: perhaps the synchronous engine has its one request, and others take more.
    #[cold]
    #[inline(never)]
    pub(super) fn push_refused(&mut self, refused: Refused) -> Result<(), Refused> {
        let operation = &refused.request().operation;
        let len = operation.transfer().map_or(0, |transfer| transfer.len);
        if Memo::what(operation.op(), len) != self.memo.what {
            self.epoch.discount_second();
        }
        if self.memo.way == Way::Sio && self.in_flight() > 0 && self.iodepth > 1 {
            return self.push_elsewhere(refused.into_parts().0);
        }
        Err(refused)
    }

    /// Pushes to one engine, while others may have requests.
    fn push_to(&mut self, request: Request, way: Way) -> Result<(), Refused> {
        if self.in_flight() >= self.iodepth {
            return Err(Refused::new(request, Cause::Full { iodepth: self.iodepth }.into()));
        }
        if way != Way::Sio {
            self.make_asynchronous();
        }
        let slot = slot_of(way);
        let is_alone = self.in_flight() == 0 || self.is_only(slot);
        self.engines.at(slot).push(request)?;
        if std::mem::take(&mut self.is_fresh) {
            self.engines.bring_to_front(slot);
        }
        self.latest[slot] = way;
        self.set_active(is_alone.then_some(slot));
        Ok(())
    }

    /// True if everything in flight is on this engine.
    fn is_only(&self, slot: usize) -> bool {
        !self.is_several && self.active == slot && self.watch.redo.is_empty()
    }

    /// Everything in flight is on this engine, or on several.
    pub(super) fn set_active(&mut self, only: Option<usize>) {
        self.is_several = only.is_none();
        self.active = only.unwrap_or(self.active);
        self.is_plain = !self.is_several
            && self.engines.is_front(self.active)
            && self.latest[self.active] != Way::SleepPoll
            && self.watch.redo.is_empty();
        self.watch.is_final = !self.latest[self.active].may_refuse();
        self.memo.forget();
        self.is_direct = false;
    }

    /// Moves a request that the synchronous engine has not begun to the fallback: it would block while
    /// another one is in flight.
    fn make_asynchronous(&mut self) {
        let Some(request) = self.engines.at(slot_of(Way::Sio)).take_back() else { return };
        self.watch.redo.push(request);
        self.push_again();
    }

    /// Pushes what waits for the fallback, as far as there is room.
    fn push_again(&mut self) {
        let slot = slot_of(self.fallback);
        let is_alone = self.engines.in_flight() == self.engines.in_flight_at(slot);
        for request in std::mem::take(&mut self.watch.redo) {
            if let Some(transfer) = request.operation.transfer() {
                self.watch.timings.forget(transfer.buffer.index());
            }
            if let Err(refused) = self.engines.at(slot).push(request) {
                self.watch.redo.push(refused.into_parts().0);
            }
        }
        self.latest[slot] = self.fallback;
        self.set_active(is_alone.then_some(slot));
    }

    /// Gives what was refused or lost to the fallback.
    fn do_again(&mut self) -> Result<(), EngineError> {
        if self.watch.redo.is_empty() {
            return Ok(());
        }
        let waiting = self.watch.redo.len();
        self.push_again();
        self.chooser.redone((waiting - self.watch.redo.len()) as u64);
        self.engines.at(slot_of(self.fallback)).submit()
    }

    #[cold]
    #[inline(never)]
    pub(super) fn submit_all(&mut self) -> Result<(), EngineError> {
        for slot in 0..SLOTS {
            if let Err(error) = self.engines.at(slot).submit() {
                self.give_up(slot, error)?;
            }
        }
        self.do_again()
    }

    #[cold]
    #[inline(never)]
    pub(super) fn submit_after(&mut self, error: EngineError) -> Result<(), EngineError> {
        self.give_up(self.active, error)?;
        self.do_again()
    }

    /// An engine, and what stands between it and the caller's sink.
    fn split(&mut self, slot: usize) -> (&mut Slot, &mut Watch<C>) {
        self.watch.is_final = !self.latest[slot].may_refuse();
        (self.engines.at(slot), &mut self.watch)
    }

    /// Hands out what is complete on every engine.
    pub(super) fn reap_all(&mut self, sink: &mut impl FnMut(Completion)) -> Result<usize, EngineError> {
        let mut found = 0;
        for slot in 0..SLOTS {
            if self.engines.in_flight_at(slot) > 0 {
                let waiting = self.watch.redo.len();
                let (engine, watch) = self.split(slot);
                let reaped = engine.reap(|completion| watch.take(completion, sink));
                found += self.taken(slot, waiting, reaped)?;
            }
        }
        self.do_again()?;
        Ok(found)
    }

    /// Goes on with a reap after an engine failed or refused something.
    #[cold]
    #[inline(never)]
    pub(super) fn reap_after(&mut self, reaped: Result<usize, EngineError>) -> Result<usize, EngineError> {
        let found = self.taken(self.active, 0, reaped)?;
        self.do_again()?;
        self.progress(0);
        Ok(found)
    }

    /// How many an engine handed out. What it refused is in `redo`, which had `waiting` requests before. An
    /// engine that failed is left; what it handed out in that call is not known, which is as with any engine.
    fn taken(
        &mut self,
        slot: usize,
        waiting: usize,
        result: Result<usize, EngineError>,
    ) -> Result<usize, EngineError> {
        let refused = self.watch.redo.len() - waiting;
        match result {
            Ok(found) => {
                if refused > 0 {
                    self.note_refusals(slot, refused as u32, found > refused);
                }
                Ok(found.saturating_sub(refused))
            }
            Err(error) => self.give_up(slot, error).map(|()| 0),
        }
    }

    /// A way that refuses all that it is given is left.
    fn note_refusals(&mut self, slot: usize, refused: u32, has_succeeded: bool) {
        if has_succeeded {
            self.refusals[slot] = Refusals::default();
            return;
        }
        self.refusals[slot].refused += refused;
        let Refusals { refused, .. } = self.refusals[slot];
        if refused >= REFUSALS && self.given(slot) <= refused + self.engines.in_flight_at(slot) as u32 {
            let way = self.latest[slot];
            let error = "it refuses every request (EOPNOTSUPP or EINVAL)";
            self.chooser.fail(way, error, self.epoch.at_ns(self.watch.clock.now_ns()));
            self.adopt_routes();
            self.begin_epoch();
        }
    }

    /// Requests that an engine was given since it began to refuse, or in the epoch before that at most.
    fn given(&mut self, slot: usize) -> u32 {
        self.epoch.settle(&self.memo);
        let way = self.latest[slot];
        self.refusals[slot].given + self.epoch.pushed_by(|kind| self.chooser.route(kind) == way)
    }

    /// At the end of an epoch: an engine that was given more than it refused has done some.
    pub(super) fn carry_refusals(&mut self) {
        for slot in 0..SLOTS {
            let Refusals { refused, .. } = self.refusals[slot];
            if refused > 0 {
                let given = self.given(slot);
                let is_all = given <= refused + self.engines.in_flight_at(slot) as u32;
                self.refusals[slot] = if is_all { Refusals { refused, given } } else { Refusals::default() };
            }
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
            if let Some(flight) = self.watch.flights.get(buffer.index() as usize) {
                self.watch.redo.push(flight.again(buffer));
            }
        }
        self.set_active(None);
        let now_ns = self.epoch.at_ns(self.watch.clock.now_ns());
        for way in Way::ALL.into_iter().filter(|way| slot_of(*way) == slot) {
            self.chooser.fail(way, &error.to_string(), now_ns);
        }
        self.adopt_routes();
        self.begin_epoch();
        Ok(())
    }

    /// Goes on with a wait after an engine failed or refused something. Here and in the other functions that
    /// a wait ends with, the sink is given away: its address, if it were lent, would keep it in memory.
    #[cold]
    #[inline(never)]
    pub(super) fn wait_after(
        &mut self,
        waited: Result<usize, EngineError>,
        min: usize,
        until: Option<Instant>,
        sink: impl FnMut(Completion),
    ) -> Result<usize, EngineError> {
        let found = self.taken(self.active, 0, waited)?;
        if found >= min && self.watch.redo.is_empty() {
            self.progress(0);
            return Ok(found);
        }
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
        mut sink: impl FnMut(Completion),
    ) -> Result<usize, EngineError> {
        let min = min.min(found + self.in_flight());
        loop {
            self.do_again()?;
            let wanted = min.saturating_sub(found);
            found += match self.only_slot() {
                Some(slot) => self.wait_on(slot, wanted, until, &mut sink)?,
                None => self.wait_round(wanted, until, &mut sink)?,
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
        let mut used = (0..SLOTS).filter(|slot| self.engines.in_flight_at(*slot) > 0);
        let first = used.next().unwrap_or(slot_of(self.fallback));
        let only = if used.next().is_some() { None } else { Some(first) };
        if only != (!self.is_several).then_some(self.active) {
            self.set_active(only);
        }
        only
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
        if wanted > 0 && self.latest[slot] == Way::SleepPoll {
            found = self.sleep_first(slot, until, sink)?;
        }
        if found < wanted || wanted == 0 {
            let waiting = self.watch.redo.len();
            let (engine, watch) = self.split(slot);
            let waited = engine.wait(wanted - found, until, |completion| watch.take(completion, sink));
            found += self.taken(slot, waiting, waited)?;
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
        let waiting = self.watch.redo.len();
        if let Err(error) = self.engines.at(slot).submit() {
            return self.taken(slot, waiting, Err(error));
        }
        let most = until.map(|until| until.saturating_duration_since(Instant::now()));
        let teaches = self.sleeper.sleep(self.sleeps_for, most, &self.watch.clock);
        let (engine, watch) = self.split(slot);
        let reaped = engine.reap(|completion| watch.take(completion, sink));
        let found = self.taken(slot, waiting, reaped)?;
        if teaches {
            self.sleeper.learn(self.sleeps_for, found > 0);
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
        let used = |slot: &usize| self.engines.in_flight_at(*slot) > 0;
        let must_be_asked = (0..SLOTS).filter(used).any(|slot| self.latest[slot].must_be_asked());
        for slot in 0..SLOTS {
            let is_used = self.engines.in_flight_at(slot) > 0;
            if must_be_asked || !is_used || found >= wanted {
                continue;
            }
            let turn = Instant::now() + TURN;
            let end = until.map_or(turn, |until| until.min(turn));
            let waiting = self.watch.redo.len();
            let (engine, watch) = self.split(slot);
            let waited = engine.wait(1, Some(end), |completion| watch.take(completion, sink));
            found += self.taken(slot, waiting, waited)?;
        }
        Ok(found)
    }
}
