//! I/Os over time, on one grid of slices for all jobs of a trial.
//!
//! The grid begins with the window and its lines are at multiples of a slice's length, so the
//! jobs' counts can be added slice by slice. An I/O belongs to the slice in which it was seen to complete.

use iopj_core::Slice;
use std::sync::atomic::{AtomicU64, Ordering};

/// The most slices of a window; beyond that, each two are joined.
const MAX_SLICES: usize = 128;
/// The first length of a slice in ns.
const SLICE_NS: u64 = 50_000_000;

/// When the window begins, for all jobs: at the start of the first of them.
#[derive(Default)]
pub(crate) struct Begin(AtomicU64);

impl Begin {
    /// The begin, once a job has started.
    pub(crate) fn get(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|begin_ns| *begin_ns > 0)
    }

    /// The begin for a job that starts at `now_ns`, `CLOCK_MONOTONIC`.
    pub(crate) fn of(&self, now_ns: u64) -> u64 {
        self.0
            .compare_exchange(0, now_ns, Ordering::Relaxed, Ordering::Relaxed)
            .map_or_else(|first| first, |_| now_ns)
    }
}

/// The I/Os of one job by slice. A slice ends with its last instant, the next one begins after it.
pub(crate) struct Slices {
    ios: Box<[u64]>,
    begin_ns: u64,
    slice_ns: u64,
    /// The slice that is being filled, and its end on the clock.
    now: usize,
    end_ns: u64,
    /// I/Os that are in the slices.
    counted: u64,
}

impl Slices {
    pub(crate) fn new() -> Slices {
        let mut ios = vec![0; MAX_SLICES].into_boxed_slice();
        // Touches its page, as the recorder does.
        ios.fill(std::hint::black_box(0));
        Slices { ios, begin_ns: 0, slice_ns: SLICE_NS, now: 0, end_ns: 0, counted: 0 }
    }

    pub(crate) fn reset(&mut self) {
        self.ios.fill(0);
        (self.slice_ns, self.counted) = (SLICE_NS, 0);
    }

    /// Lays the grid.
    pub(crate) fn start(&mut self, begin_ns: u64) {
        (self.begin_ns, self.now, self.end_ns) = (begin_ns, 0, begin_ns + self.slice_ns);
    }

    /// The end of the slice that is open: an I/O that completes later belongs to another one.
    pub(crate) fn end_ns(&self) -> u64 {
        self.end_ns
    }

    /// The I/Os counted next completed at `now_ns`, those before in the slice that was open.
    pub(crate) fn at(&mut self, now_ns: u64) {
        if now_ns > self.end_ns {
            self.go_to(now_ns);
        }
    }

    /// Puts into the slice that is open what is missing from `ios`, the I/Os of the window so far.
    pub(crate) fn count_up_to(&mut self, ios: u64) {
        self.ios[self.now] += ios - self.counted;
        self.counted = ios;
    }

    fn go_to(&mut self, now_ns: u64) {
        while self.index_of(now_ns) >= MAX_SLICES {
            self.join();
        }
        self.now = self.index_of(now_ns);
        self.end_ns = self.begin_ns + (self.now as u64 + 1) * self.slice_ns;
    }

    /// The slice of an instant, beyond the last one too.
    fn index_of(&self, at_ns: u64) -> usize {
        (at_ns.saturating_sub(self.begin_ns + 1) / self.slice_ns) as usize
    }

    /// Makes one slice of each two.
    fn join(&mut self) {
        for slice in 0..MAX_SLICES {
            let pair = self.ios.get(2 * slice..2 * slice + 2).unwrap_or_default();
            self.ios[slice] = pair.iter().sum();
        }
        self.slice_ns *= 2;
    }
}

/// The I/Os of all jobs, by slices up to the window's end at `last_ns`. The last slice is as long as the rest
/// of the window.
pub(crate) fn together(mut jobs: Vec<Slices>, last_ns: u64) -> Vec<Slice> {
    let slice_ns = jobs.iter().map(|job| job.slice_ns).max().unwrap_or(SLICE_NS);
    for job in &mut jobs {
        while job.slice_ns < slice_ns {
            job.join();
        }
    }
    let Some(first) = jobs.first() else { return Vec::new() };
    let window_ns = last_ns.saturating_sub(first.begin_ns);
    let slice = |at: usize| Slice {
        end_ns: (slice_ns * (at as u64 + 1)).min(window_ns),
        ios: jobs.iter().map(|job| job.ios[at]).sum(),
    };
    (0..=first.index_of(last_ns)).map(slice).collect()
}

#[cfg(test)]
mod tests;
