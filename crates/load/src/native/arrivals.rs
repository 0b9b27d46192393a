//! When the I/Os of an open load are due.

use iopj_core::{OpenLoad, RateProcess};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A stream of arrivals. It counts I/Os: evenly, or by exponential steps. The time of the next one is that at
/// which the rate, integrated, has reached the count.
pub(crate) struct Arrivals {
    load: OpenLoad,
    /// Streams that this one stands for.
    streams: f64,
    /// Where between two arrivals an even stream begins, so that those of several jobs do not coincide.
    phase: f64,
    random: Xoshiro256PlusPlus,
    count: f64,
    is_first: bool,
    /// I/Os a second at the start, and by how many that changes in a second in which I/Os arrive.
    rate: f64,
    slope: f64,
}

impl Arrivals {
    /// The stream of job number `job` of `jobs`.
    pub(crate) fn of_job(load: &OpenLoad, job: u32, jobs: u32, seed: u64) -> Arrivals {
        let phase = f64::from(job) / f64::from(jobs.max(1));
        Arrivals::new(load, 1, phase, seed ^ u64::from(job) << 32)
    }

    /// One stream for all jobs.
    pub(crate) fn of_all(load: &OpenLoad, jobs: u32, seed: u64) -> Arrivals {
        Arrivals::new(load, jobs, 0.0, seed)
    }

    fn new(load: &OpenLoad, streams: u32, phase: f64, seed: u64) -> Arrivals {
        // The offsets are drawn from the same seed.
        let random = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x6172_7269_7661_6c73);
        let streams = f64::from(streams);
        let mut arrivals = Arrivals {
            load: *load,
            streams,
            phase,
            random,
            count: 0.0,
            is_first: true,
            rate: 0.0,
            slope: 0.0,
        };
        arrivals.start(None);
        arrivals
    }

    /// Begins at time 0. Over a window of this length the rate moves to that at its end, if there is one;
    /// else it stays.
    pub(crate) fn start(&mut self, window: Option<Duration>) {
        let OpenLoad { rate_iops, rate_iops_end, burst, .. } = self.load;
        (self.count, self.is_first) = (self.phase, true);
        self.rate = self.streams * f64::from(rate_iops);
        let change = rate_iops_end.map_or(0.0, |end| self.streams * f64::from(end) - self.rate);
        self.slope = window.map_or(0.0, |window| {
            let share =
                burst.map_or(1.0, |burst| burst.on.as_secs_f64() / (burst.on + burst.off).as_secs_f64());
            change / (window.as_secs_f64() * share)
        });
    }

    /// When the next I/O is due, in ns from the start; `u64::MAX` if none is.
    pub(crate) fn next_ns(&mut self) -> u64 {
        match self.load.rate_process {
            RateProcess::Linear if self.is_first => {}
            RateProcess::Linear => self.count += 1.0,
            RateProcess::Poisson => self.count += self.exponential(),
        }
        self.is_first = false;
        let (rate, slope, count) = (self.rate, self.slope, self.count);
        // The root of rate t + slope t^2 / 2 = count, in the form that loses no digits.
        let square = rate * rate + 2.0 * slope * count;
        if square < 0.0 {
            return u64::MAX;
        }
        let ns = 2.0 * count / (rate + square.sqrt()) * 1e9;
        self.with_pauses(ns as u64)
    }

    /// A draw from the exponential distribution of mean 1, by inversion.
    fn exponential(&mut self) -> f64 {
        // In (0, 1], so the logarithm is finite.
        let uniform = ((self.random.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        -uniform.ln()
    }

    /// The time on the clock of a time that counts while I/Os arrive alone.
    fn with_pauses(&self, ns: u64) -> u64 {
        let Some(burst) = self.load.burst else { return ns };
        let [on, off] = [burst.on, burst.off].map(|time| time.as_nanos() as u64);
        ns.saturating_add((ns / on.max(1)).saturating_mul(off))
    }
}

/// A stream that several jobs share: each idle one takes the next arrival and waits for it, as threads serve
/// one queue in order.
pub(crate) struct SharedArrivals(Mutex<Begun>);

struct Begun {
    arrivals: Arrivals,
    /// The begin of the run for which the stream was started.
    begin_ns: u64,
}

impl SharedArrivals {
    pub(crate) fn new(arrivals: Arrivals) -> SharedArrivals {
        SharedArrivals(Mutex::new(Begun { arrivals, begin_ns: 0 }))
    }

    /// Starts the stream for a run that begins at `begin_ns`; jobs that come to the same run later leave it
    /// as it is.
    pub(crate) fn start(&self, begin_ns: u64, window: Option<Duration>) {
        let mut begun = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if begun.begin_ns != begin_ns {
            begun.begin_ns = begin_ns;
            begun.arrivals.start(window);
        }
    }

    pub(crate) fn next_ns(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).arrivals.next_ns()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_core::Burst;
    use proptest::prelude::*;

    fn first(load: OpenLoad, window: Option<Duration>, many: usize) -> Vec<u64> {
        let mut arrivals = Arrivals::of_all(&load, 1, 7);
        arrivals.start(window);
        (0..many).map(|_| arrivals.next_ns()).collect()
    }

    #[test]
    fn an_even_stream_is_exact_after_hours() {
        let mut arrivals = Arrivals::of_all(&OpenLoad::at(1000), 1, 7);
        arrivals.count = 3.6e6 * 24.0;
        arrivals.is_first = false;
        assert_eq!(arrivals.next_ns(), 86_400_001_000_000);
    }

    #[test]
    fn jobs_of_an_even_load_take_turns() {
        let mut all: Vec<u64> = (0..4)
            .flat_map(|job| {
                let mut arrivals = Arrivals::of_job(&OpenLoad::at(1000), job, 4, 7);
                (0..2).map(|_| arrivals.next_ns()).collect::<Vec<_>>()
            })
            .collect();
        all.sort_unstable();
        assert_eq!(all, (0..8).map(|step| step * 250_000).collect::<Vec<_>>());
    }

    /// From 1,000 to 3,000 over two seconds: after t seconds 1000 t + 500 t^2 are due.
    #[test]
    fn a_rate_that_moves_reaches_its_end_with_the_window() {
        let load = OpenLoad { rate_iops_end: Some(3000), ..OpenLoad::at(1000) };
        let due = first(load, Some(Duration::from_secs(2)), 4001);
        assert_eq!((due[0], due[1500], due[4000]), (0, 1_000_000_000, 2_000_000_000));
        let down = OpenLoad { rate_iops_end: Some(1000), ..OpenLoad::at(3000) };
        let due = first(down, Some(Duration::from_secs(2)), 4001);
        assert_eq!((due[2500], due[4000]), (1_000_000_000, 2_000_000_000));
        assert_eq!(first(load, None, 3)[2], 2_000_000, "a ramp before the window has its first rate");
    }

    #[test]
    fn a_falling_rate_ends_where_it_is_zero() {
        let mut arrivals = Arrivals::of_all(&OpenLoad::at(100), 1, 7);
        (arrivals.slope, arrivals.count, arrivals.is_first) = (-100.0, 48.5, false);
        assert!(arrivals.next_ns() < u64::MAX);
        assert_eq!(arrivals.next_ns(), u64::MAX);
    }

    #[test]
    fn bursts_have_pauses_between_them() {
        let [on, off] = [2, 8].map(Duration::from_millis);
        let due = first(OpenLoad { burst: Some(Burst { on, off }), ..OpenLoad::at(1000) }, None, 5);
        assert_eq!(due, [0, 1_000_000, 10_000_000, 11_000_000, 20_000_000]);
    }

    /// Mean and standard deviation of 40,000 exponential intervals are both 1 ms; at 5 standard errors.
    #[test]
    fn poisson_intervals_are_exponential() {
        let load = OpenLoad { rate_process: RateProcess::Poisson, ..OpenLoad::at(1000) };
        let due = first(load, None, 40_001);
        let gaps: Vec<f64> = due.windows(2).map(|two| (two[1] - two[0]) as f64 / 1e6).collect();
        let mean = gaps.iter().sum::<f64>() / 40_000.0;
        let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / 40_000.0).sqrt();
        assert!((mean - 1.0).abs() < 0.025 && (deviation - 1.0).abs() < 0.05, "{mean} {deviation}");
        // P(gap > 2 ms) = e^-2.
        let long = gaps.iter().filter(|gap| **gap > 2.0).count() as f64 / 40_000.0;
        assert!((long - (-2f64).exp()).abs() < 0.0086, "{long}");
    }

    #[test]
    fn jobs_share_one_stream_and_start_it_once() {
        let shared = SharedArrivals::new(Arrivals::of_all(&OpenLoad::at(500), 2, 7));
        shared.start(11, None);
        assert_eq!((shared.next_ns(), shared.next_ns()), (0, 1_000_000));
        shared.start(11, None);
        assert_eq!(shared.next_ns(), 2_000_000);
        shared.start(12, None);
        assert_eq!(shared.next_ns(), 0);
    }

    proptest! {
        #[test]
        fn arrivals_never_go_back(
            rate in 1u32..1_000_000, end in proptest::option::of(1u32..1_000_000), poisson: bool,
            burst in proptest::option::of((1u64..50, 1u64..50)), seed: u64,
        ) {
            let rate_process = if poisson { RateProcess::Poisson } else { RateProcess::Linear };
            let burst = burst.map(|(on, off)| Burst {
                on: Duration::from_millis(on),
                off: Duration::from_millis(off),
            });
            let load = OpenLoad { rate_process, rate_iops_end: end, burst, ..OpenLoad::at(rate) };
            let mut arrivals = Arrivals::of_job(&load, 1, 3, seed);
            arrivals.start(Some(Duration::from_millis(200)));
            let mut last = 0;
            for _ in 0..300 {
                let due = arrivals.next_ns();
                prop_assert!(due >= last);
                last = due;
                if let Some(burst) = burst.filter(|_| due < u64::MAX) {
                    let within = due % (burst.on + burst.off).as_nanos() as u64;
                    prop_assert!(within <= burst.on.as_nanos() as u64);
                }
            }
        }
    }
}
