//! What is remembered of each request in flight, to time it and to do it again.

use crate::chooser::BOUND_GRACE_NS;
use crate::clock::Clock;
use crate::key::Kind;
use crate::seen::Timed;
use crate::way::Way;
use iopj_engine::{Buffer, Buffers, Completion, IoError, Op, Operation, Request, Transfer};

/// Timed I/Os that an epoch keeps.
const MOST_TIMED: usize = 2048;
/// Timed I/Os over the bound that end an epoch at once.
const BREACHES: usize = 8;

/// A read or a write of one buffer, as it was pushed last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    pub(crate) tag: u64,
    pub(crate) offset: u64,
    /// When it was pushed; 0 if it is not timed.
    pub(crate) began_ns: u64,
    pub(crate) len: u32,
    pub(crate) in_flight: u16,
    pub(crate) op: Op,
    pub(crate) way: Way,
}

impl Flight {
    pub(crate) const NONE: Flight =
        Flight { tag: 0, offset: 0, began_ns: 0, len: 0, in_flight: 0, op: Op::Read, way: Way::Interrupt };

    /// The request anew.
    pub(crate) fn again(&self, buffer: Buffer) -> Request {
        let transfer = Transfer { buffer, len: self.len, offset: self.offset };
        let operation = match self.op {
            Op::Write => Operation::Write(transfer),
            Op::WriteDsync => Operation::WriteDsync(transfer),
            Op::WriteSync => Operation::WriteSync(transfer),
            _ => Operation::Read(transfer),
        };
        Request::from(operation).tagged(self.tag)
    }
}

/// Those that were timed in an epoch.
#[derive(Debug)]
pub(crate) struct Timings {
    pub(crate) timed: Vec<Timed>,
    /// Of them, those over the bound.
    breaches: usize,
    pub(crate) bound_ns: Option<u64>,
    began_ns: u64,
}

impl Timings {
    pub(crate) fn new(bound_ns: Option<u64>) -> Timings {
        Timings { timed: Vec::with_capacity(MOST_TIMED), breaches: 0, bound_ns, began_ns: 0 }
    }

    /// Begins an epoch.
    pub(crate) fn begin(&mut self, now_ns: u64) {
        self.timed.clear();
        (self.breaches, self.began_ns) = (0, now_ns);
    }

    /// True if the 99th percentile is over the bound, however the epoch goes on.
    pub(crate) fn is_breached(&self) -> bool {
        self.breaches >= BREACHES && self.breaches * 100 > self.timed.len()
    }

    /// Adds one; true if the epoch should end, because the bound is broken or must be looked at.
    fn add(&mut self, flight: &Flight, now_ns: u64) -> bool {
        let latency_ns = now_ns.saturating_sub(flight.began_ns);
        self.breaches += usize::from(self.bound_ns.is_some_and(|bound| latency_ns > bound));
        if self.timed.len() < MOST_TIMED {
            let (kind, in_flight) = (Kind::of(flight.op, flight.len), flight.in_flight.into());
            self.timed.push(Timed { kind, way: flight.way, in_flight, latency_ns });
        }
        let is_late = now_ns.saturating_sub(self.began_ns) >= BOUND_GRACE_NS;
        self.bound_ns.is_some() && (is_late || self.is_breached())
    }
}

/// What stands between an engine and the caller's sink.
pub(crate) struct Taker<'a, C> {
    pub(crate) flights: &'a mut [Flight],
    pub(crate) timings: &'a mut Timings,
    pub(crate) redo: &'a mut Vec<Request>,
    /// Completions until the epoch's end.
    pub(crate) left: &'a mut i32,
    pub(crate) clock: &'a C,
    pub(crate) fallback: Way,
}

impl<C: Clock> Taker<'_, C> {
    /// Hands a completion on, unless a way refused what another one can do.
    #[inline(always)]
    pub(crate) fn take(&mut self, completion: Completion, sink: &mut impl FnMut(Completion)) {
        if let Buffers::One(buffer) = &completion.buffers {
            let at = buffer.index() as usize;
            if self.flights.get(at).is_some_and(|flight| flight.began_ns != 0) {
                self.time(at);
            }
            if completion.result.is_err() {
                return self.take_failed(at, completion, sink);
            }
        }
        sink(completion);
    }

    #[cold]
    #[inline(never)]
    fn time(&mut self, at: usize) {
        let now_ns = self.clock.now_ns();
        if self.timings.add(&self.flights[at], now_ns) {
            *self.left = 0;
        }
        self.flights[at].began_ns = 0;
    }

    #[cold]
    #[inline(never)]
    fn take_failed(&mut self, at: usize, completion: Completion, sink: &mut impl FnMut(Completion)) {
        let is_refusal = matches!(completion.result, Err(IoError::Os(libc::EOPNOTSUPP | libc::EINVAL)));
        match self.flights.get(at) {
            Some(flight) if is_refusal && flight.way != self.fallback => {
                let again = *flight;
                self.redo.extend(completion.into_buffer().map(|buffer| again.again(buffer)));
            }
            _ => sink(completion),
        }
    }
}
