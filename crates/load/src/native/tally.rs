//! The counts of a job over its window.

use super::open_tally::OpenTally;
use super::recorder::Recorder;
use super::slices::Slices;
use iopj_engine::IoError;

/// The counts of a job over its window.
pub(crate) struct Tally {
    /// Latencies in ns of whole I/Os: reads, writes.
    pub(crate) latency: [Recorder; 2],
    /// Exact sums of those latencies.
    pub(crate) latency_sum_ns: u64,
    pub(crate) min_ns: u64,
    /// From the least latency to the greatest.
    span_ns: u64,
    /// Whole I/Os.
    pub(crate) whole_ios: u64,
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
    /// What only an open load has; boxed, because a closed one has none.
    pub(crate) open: Option<Box<OpenTally>>,
}

impl Tally {
    /// An empty tally with its memory in place: making it costs some 100 page faults, which belong before the
    /// window.
    pub(crate) fn new(is_open: bool) -> Tally {
        Tally {
            latency: [Recorder::new(), Recorder::new()],
            latency_sum_ns: 0,
            min_ns: u64::MAX,
            span_ns: 0,
            whole_ios: 0,
            short_ios: 0,
            errors: Vec::new(),
            issued: 0,
            odd: [0; 2],
            first_ns: 0,
            last_ns: 0,
            slices: Slices::new(),
            open: is_open.then(|| Box::new(OpenTally::new())),
        }
    }

    /// Empties the tally in its place.
    pub(crate) fn reset(&mut self) {
        let Tally { latency, errors, slices, open, .. } = self;
        latency.iter_mut().for_each(Recorder::reset);
        errors.clear();
        slices.reset();
        open.iter_mut().for_each(|open| open.reset());
        (self.latency_sum_ns, self.min_ns, self.span_ns) = (0, u64::MAX, 0);
        (self.whole_ios, self.short_ios, self.issued, self.odd) = (0, 0, 0, [0; 2]);
        (self.first_ns, self.last_ns) = (0, 0);
    }

    /// Starts a window that began for all jobs at `begin_ns`.
    pub(crate) fn start(&mut self, begin_ns: u64) {
        (self.first_ns, self.last_ns) = (begin_ns, begin_ns);
        self.slices.start(begin_ns);
    }

    /// Puts the I/Os of which the slices do not know yet into the slice that is open.
    pub(crate) fn close_slice(&mut self) {
        self.slices.count_up_to(self.whole_ios);
    }

    /// The greatest latency.
    pub(crate) fn max_ns(&self) -> u64 {
        if self.min_ns == u64::MAX { 0 } else { self.min_ns + self.span_ns }
    }

    /// Counts a whole I/O.
    #[inline]
    pub(crate) fn record(&mut self, write: bool, latency_ns: u64) {
        self.latency[usize::from(write)].record(latency_ns);
        self.latency_sum_ns += latency_ns;
        self.whole_ios += 1;
        // One comparison for both ends: what is below the least wraps around.
        if latency_ns.wrapping_sub(self.min_ns) > self.span_ns {
            self.widen(latency_ns);
        }
    }

    #[cold]
    fn widen(&mut self, latency_ns: u64) {
        let max_ns = self.max_ns().max(latency_ns);
        self.min_ns = self.min_ns.min(latency_ns);
        self.span_ns = max_ns - self.min_ns;
    }

    /// Counts an I/O that was short or failed.
    pub(crate) fn record_odd(&mut self, write: bool, result: Result<u32, IoError>) {
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

/// A request's tag in a closed loop: its start in ticks, and whether it is a write.
#[inline]
pub(crate) fn tag(write: bool, started: u64) -> u64 {
    started << 1 | u64::from(write)
}

#[inline]
pub(crate) fn untag(tag: u64) -> (bool, u64) {
    (tag & 1 != 0, tag >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_and_greatest_are_exact_in_any_order() {
        for order in [[7u64, 5, 9], [9, 7, 5], [5, 9, 7], [0, 3, 3], [8, 8, 8]] {
            let mut tally = Tally::new(false);
            assert_eq!(tally.max_ns(), 0);
            order.iter().for_each(|latency| tally.record(false, *latency));
            assert_eq!(tally.min_ns, *order.iter().min().unwrap());
            assert_eq!(tally.max_ns(), *order.iter().max().unwrap());
            assert_eq!((tally.latency_sum_ns, tally.whole_ios), (order.iter().sum(), 3));
        }
    }
}
