//! What is remembered of each request in flight, to time it and to do it again.

use crate::chooser::Plan;
use crate::clock::Clock;
use crate::key::Kind;
use crate::seen::{LEAST_TIMED, Timed};
use crate::timing::BOUND_GRACE_NS;
use crate::timing::Bound;
use crate::way::Way;
use iopj_engine::{Buffer, Buffers, Completion, IoError, Op, Request, Transfer};

/// Timed I/Os that an epoch keeps.
const MOST_TIMED: usize = 2048;
/// Timed I/Os over the bound that end an epoch at once.
const BREACHES: usize = 8;

/// The number of no buffer.
const NO_INDEX: u32 = u32::MAX;

/// A read or a write of one buffer, as it was pushed last by a way that may refuse it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    pub(crate) tag: u64,
    pub(crate) offset: u64,
    pub(crate) len: u32,
    pub(crate) op: Op,
}

impl Flight {
    pub(crate) const NONE: Flight = Flight { tag: 0, offset: 0, len: 0, op: Op::Read };

    /// The request anew.
    pub(crate) fn again(&self, buffer: Buffer) -> Request {
        let transfer = Transfer { buffer, len: self.len, offset: self.offset };
        Request::from(transfer.by(self.op)).tagged(self.tag)
    }
}

/// What is noted of the request that is timed, when it is pushed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub(crate) kind: Kind,
    pub(crate) way: Way,
    pub(crate) in_flight: u32,
    pub(crate) now_ns: u64,
}

/// The request that is timed, of which there is one at a time, and those that were in an epoch.
#[derive(Debug)]
pub(crate) struct Timings {
    /// The number of its buffer; [`NO_INDEX`] if none is timed.
    index: u32,
    start: Start,
    pub(crate) timed: Vec<Timed>,
    /// Of them, those over the bound.
    breaches: usize,
    /// One of them took more than half the bound.
    is_near: bool,
    pub(crate) bound_ns: Option<u64>,
    epoch_ns: u64,
}

impl Timings {
    pub(crate) fn new(bound_ns: Option<u64>) -> Timings {
        let start = Start { kind: Kind::of(Op::Read, 0), way: Way::Interrupt, in_flight: 0, now_ns: 0 };
        let timed = Vec::with_capacity(MOST_TIMED);
        Timings { index: NO_INDEX, start, timed, breaches: 0, is_near: false, bound_ns, epoch_ns: 0 }
    }

    /// Begins an epoch.
    pub(crate) fn begin(&mut self, now_ns: u64) {
        self.timed.clear();
        (self.breaches, self.is_near, self.epoch_ns) = (0, false, now_ns);
    }

    /// True if a request is timed.
    pub(crate) fn is_busy(&self) -> bool {
        self.index != NO_INDEX
    }

    /// Times the request of a buffer from now on.
    pub(crate) fn start(&mut self, index: u32, start: Start) {
        (self.index, self.start) = (index, start);
    }

    /// Times the request of a buffer no more.
    pub(crate) fn forget(&mut self, index: u32) {
        if self.index == index {
            self.index = NO_INDEX;
        }
    }

    /// True if an epoch of this plan has taken long enough: one that the bound is judged by waits for its
    /// timings, and one that breaks it waits for nothing.
    pub(crate) fn end_epoch(&self, plan: &Plan, elapsed_ns: u64) -> bool {
        let lacks_timings = self.bound_ns.is_some()
            && !plan.explores
            && self.timed.len() < LEAST_TIMED
            && elapsed_ns < BOUND_GRACE_NS;
        self.is_breached() || elapsed_ns >= plan.ns && !lacks_timings
    }

    /// True if so many are over the bound that this must be looked at now.
    fn is_breached(&self) -> bool {
        self.breaches >= BREACHES && self.breaches * 100 > self.timed.len()
    }

    /// The bound, as this epoch saw it.
    pub(crate) fn bound(&self) -> Bound {
        match (self.bound_ns, self.is_near) {
            (None, _) => Bound::None,
            (Some(_), false) => Bound::Far,
            (Some(_), true) => Bound::Near,
        }
    }

    /// True if there is a bound, and a timed I/O of this epoch took more than half of it.
    pub(crate) fn is_near(&self) -> bool {
        self.is_near
    }

    /// Ends the timing. True if the epoch should end, because the bound is broken or must be looked at.
    pub(crate) fn end(&mut self, now_ns: u64) -> bool {
        self.index = NO_INDEX;
        let Start { kind, way, in_flight, now_ns: begun_ns } = self.start;
        let latency_ns = now_ns.saturating_sub(begun_ns);
        if let Some(bound_ns) = self.bound_ns {
            self.breaches += usize::from(latency_ns > bound_ns);
            self.is_near |= latency_ns > bound_ns / 2;
        }
        if self.timed.len() < MOST_TIMED {
            self.timed.push(Timed { kind, way, in_flight, latency_ns });
        }
        let is_late = now_ns.saturating_sub(self.epoch_ns) >= BOUND_GRACE_NS;
        self.bound_ns.is_some() && (is_late || self.is_breached())
    }
}

/// What stands between the engines and the caller's sink.
pub(crate) struct Watch<C> {
    /// By buffer.
    pub(crate) flights: Box<[Flight]>,
    pub(crate) timings: Timings,
    /// Requests that a way refused or lost, to be done by the fallback.
    pub(crate) redo: Vec<Request>,
    /// Completions until the epoch's end, without the last one: beyond it, it wraps.
    left: u32,
    pub(crate) clock: C,
    /// What the engine that hands out completions now refuses is refused by all.
    pub(crate) is_final: bool,
}

impl<C: Clock> Watch<C> {
    /// One that looks at nothing yet: the epoch ends with the first completion.
    pub(crate) fn new(buffers: u32, bound_ns: Option<u64>, clock: C) -> Watch<C> {
        Watch {
            flights: vec![Flight::NONE; buffers as usize].into(),
            timings: Timings::new(bound_ns),
            redo: Vec::new(),
            left: 0,
            clock,
            is_final: true,
        }
    }

    /// The epoch is to end after so many completions, one at least.
    pub(crate) fn end_after(&mut self, completions: u32) {
        self.left = completions.saturating_sub(1);
    }

    /// Hands a completion on, unless its engine refused what another one can do. The completion is taken
    /// apart and put together again, and its result is looked at first, so that it stays in registers. So do
    /// the variables of the sink, which no function out of line is given.
    #[inline(always)]
    pub(crate) fn take(&mut self, completion: Completion, sink: &mut impl FnMut(Completion)) {
        let Completion { tag, result, buffers } = completion;
        let odd = match buffers {
            Buffers::One(buffer) => match result {
                Ok(bytes) => {
                    if buffer.index() == self.timings.index {
                        self.time();
                    }
                    return sink(Completion { tag, result: Ok(bytes), buffers: Buffers::One(buffer) });
                }
                Err(error) => {
                    let buffers = Buffers::One(buffer);
                    self.take_failed(Completion { tag, result: Err(error), buffers })
                }
            },
            buffers => Some(take_rare(Completion { tag, result, buffers })),
        };
        if let Some(completion) = odd {
            sink(*completion);
        }
    }

    /// Counts completions; true if these end the epoch, or something is to be done again: then
    /// [`Watch::is_over`], until the next one begins. A subtraction and its carry are two instructions.
    #[inline(always)]
    pub(crate) fn has_passed(&mut self, found: usize) -> bool {
        let (left, is_over) = self.left.overflowing_sub(found as u32);
        self.left = left;
        is_over
    }

    /// Puts the epoch's end far off; returns what [`Watch::go_on`] takes.
    pub(crate) fn put_off(&mut self) -> u32 {
        std::mem::replace(&mut self.left, u32::MAX / 2)
    }

    /// The epoch's end is where it was before [`Watch::put_off`], less what has passed since; at the next
    /// completion, if it would have ended.
    pub(crate) fn go_on(&mut self, left: u32) {
        let passed = (u32::MAX / 2).saturating_sub(self.left);
        self.left = left.saturating_sub(passed);
    }

    /// True if the epoch may be over.
    pub(crate) fn is_over(&self) -> bool {
        self.left > u32::MAX / 2
    }

    #[cold]
    #[inline(never)]
    fn time(&mut self) {
        if self.timings.end(self.clock.now_ns()) {
            self.end_after(1);
        }
    }

    /// What failed, unless it is to be done again. Boxed, so that the common completion stays in registers.
    #[cold]
    #[inline(never)]
    fn take_failed(&mut self, completion: Completion) -> Option<Box<Completion>> {
        let is_refusal = matches!(completion.result, Err(IoError::Os(libc::EOPNOTSUPP | libc::EINVAL)));
        let is_final = self.is_final || !is_refusal;
        let index = completion.buffer().map_or(NO_INDEX, Buffer::index);
        match self.flights.get(index as usize).filter(|_| !is_final) {
            Some(flight) => {
                self.redo.extend(completion.into_buffer().map(|buffer| flight.again(buffer)));
                // How long a refusal takes says nothing of the way's latency.
                self.timings.forget(index);
                // What is to be done again is looked for where an epoch may end.
                self.end_after(1);
                None
            }
            None => {
                if index == self.timings.index && index != NO_INDEX {
                    self.time();
                }
                Some(Box::new(completion))
            }
        }
    }
}

/// What reads or writes no single buffer goes by the fallback, whose answer counts.
#[cold]
#[inline(never)]
fn take_rare(completion: Completion) -> Box<Completion> {
    Box::new(completion)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    #[test]
    fn an_epoch_is_over_with_its_last_completion_and_stays_so_until_the_next_begins() {
        let mut watch = Watch::new(1, None, SystemClock);
        assert!(watch.has_passed(1) && watch.is_over());
        watch.end_after(3);
        assert!(!watch.has_passed(0) && !watch.has_passed(2) && !watch.is_over());
        assert!(watch.has_passed(1) && watch.is_over());
        assert!(!watch.has_passed(0) && watch.is_over());
        watch.end_after(0);
        assert!(!watch.is_over() && watch.has_passed(7));
    }

    #[test]
    fn an_end_that_was_put_off_comes_after_as_many_completions_or_at_the_next() {
        let mut watch = Watch::new(1, None, SystemClock);
        watch.end_after(5);
        let left = watch.put_off();
        assert!(!watch.has_passed(2) && !watch.is_over());
        watch.go_on(left);
        assert!(!watch.has_passed(2) && watch.has_passed(1));
        watch.end_after(5);
        let left = watch.put_off();
        assert!(!watch.has_passed(100) && !watch.is_over());
        watch.go_on(left);
        assert!(!watch.is_over() && watch.has_passed(1) && watch.is_over());
    }

    #[test]
    fn a_refusal_that_is_done_again_is_not_timed_and_a_failure_is() {
        let pool = iopj_engine::Pool::new(1, 512).unwrap();
        let start = Start { kind: Kind::of(Op::Read, 512), way: Way::Poll, in_flight: 1, now_ns: 0 };
        for (is_final, timed) in [(false, 0), (true, 1)] {
            let mut watch = Watch::new(1, None, SystemClock);
            watch.is_final = is_final;
            let buffer = pool.acquire().unwrap();
            watch.timings.start(buffer.index(), start);
            let result = Err(IoError::Os(libc::EOPNOTSUPP));
            let buffers = Buffers::One(buffer);
            let failed = watch.take_failed(Completion { tag: 7, result, buffers });
            assert_eq!((failed.is_some(), watch.redo.len()), (is_final, usize::from(!is_final)));
            assert_eq!((watch.timings.timed.len(), watch.timings.is_busy()), (timed, false));
        }
    }

    #[test]
    fn a_bound_is_near_once_a_timed_io_took_more_than_half_of_it() {
        let start = Start { kind: Kind::of(Op::Read, 512), way: Way::Interrupt, in_flight: 1, now_ns: 100 };
        let mut timings = Timings::new(Some(20));
        timings.start(0, start);
        assert!(!timings.end(110) && !timings.is_near() && !timings.is_busy());
        timings.start(0, start);
        assert!(!timings.end(111) && timings.is_near());
        timings.begin(0);
        assert!(!timings.is_near());
        let mut unbounded = Timings::new(None);
        unbounded.start(0, start);
        assert!(!unbounded.end(u64::MAX) && !unbounded.is_near());
    }
}
