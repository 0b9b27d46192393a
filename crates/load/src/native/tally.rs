//! The counts of a job over its window.

use super::recorder::Recorder;
use super::slices::Slices;
use iopj_engine::{Completion, IoError, Op};

/// The counts of a job over its window.
pub(crate) struct Tally {
    /// Latencies in ns of whole I/Os: reads, writes.
    pub(crate) latency: [Recorder; 2],
    /// Exact sums of those latencies.
    pub(crate) latency_sum_ns: u64,
    pub(crate) min_ns: u64,
    pub(crate) max_ns: u64,
    pub(crate) short_ios: u64,
    /// Failed I/Os by error; there are a few kinds at most.
    pub(crate) errors: Vec<(IoError, u64)>,
    pub(crate) issued: u64,
    /// Short and failed I/Os: reads, writes.
    pub(crate) odd: [u64; 2],
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
    /// Whole I/Os over time.
    pub(crate) slices: Slices,
}

impl Tally {
    /// An empty tally with its memory in place: making it costs some 100 page faults, which belong before the
    /// window.
    pub(crate) fn new() -> Tally {
        Tally {
            latency: [Recorder::new(), Recorder::new()],
            latency_sum_ns: 0,
            min_ns: u64::MAX,
            max_ns: 0,
            short_ios: 0,
            errors: Vec::new(),
            issued: 0,
            odd: [0; 2],
            first_ns: 0,
            last_ns: 0,
            slices: Slices::new(),
        }
    }

    /// Empties the tally in its place.
    pub(crate) fn reset(&mut self) {
        let Tally { latency, errors, slices, .. } = self;
        latency.iter_mut().for_each(Recorder::reset);
        errors.clear();
        slices.reset();
        (self.latency_sum_ns, self.min_ns, self.max_ns) = (0, u64::MAX, 0);
        (self.short_ios, self.issued, self.odd) = (0, 0, [0; 2]);
        (self.first_ns, self.last_ns) = (0, 0);
    }

    /// Starts a window that began for all jobs at `begin_ns`.
    pub(crate) fn start(&mut self, begin_ns: u64) {
        (self.first_ns, self.last_ns) = (begin_ns, begin_ns);
        self.slices.start(begin_ns);
    }

    /// The completions recorded next were seen at `now_ns`.
    #[inline]
    pub(crate) fn at(&mut self, now_ns: u64) {
        self.last_ns = now_ns;
        self.slices.at(now_ns);
    }

    /// Counts a completion that the clock read at `now_ns` has seen.
    #[inline]
    pub(crate) fn record(&mut self, completion: &Completion, bs: u32, now_ns: u64) {
        let (write, started_ns) = untag(completion.tag);
        if completion.result != Ok(bs) {
            return self.record_odd(write, completion.result);
        }
        let latency_ns = now_ns.saturating_sub(started_ns);
        self.latency[usize::from(write)].record(latency_ns);
        self.latency_sum_ns += latency_ns;
        self.min_ns = self.min_ns.min(latency_ns);
        self.max_ns = self.max_ns.max(latency_ns);
        self.slices.count();
    }

    #[cold]
    fn record_odd(&mut self, write: bool, result: Result<u32, IoError>) {
        self.odd[usize::from(write)] += 1;
        match result {
            Ok(_) => self.short_ios += 1,
            Err(error) => self.fail(error),
        }
    }

    fn fail(&mut self, error: IoError) {
        match self.errors.iter_mut().find(|(kind, _)| *kind == error) {
            Some((_, count)) => *count += 1,
            None => self.errors.push((error, 1)),
        }
    }
}

/// A request's tag: its start, and whether it is a write.
#[inline]
pub(crate) fn tag(op: Op, started_ns: u64) -> u64 {
    started_ns << 1 | u64::from(op == Op::Write)
}

#[inline]
fn untag(tag: u64) -> (bool, u64) {
    (tag & 1 != 0, tag >> 1)
}
