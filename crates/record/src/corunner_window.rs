//! What a co-runner got done in a window, and what it gets done alone.

use crate::rate::per_second;
use iopj_core::CorunnerKind;
use serde::{Deserialize, Serialize};

/// What a co-runner got done in a window, and just before the trial without I/O. Rounds are those of all its
/// threads, one on each processor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorunnerWindow {
    /// What it does.
    pub kind: CorunnerKind,
    /// Its processors.
    pub cpus: Vec<u32>,
    /// Its niceness.
    pub nice: i8,
    /// The time in ns over which it was counted: the window's, to a few microseconds.
    pub over_ns: u64,
    /// Its rounds in that time.
    pub rounds: u64,
    /// CPU time of its threads in that time, in ns.
    pub cpu_ns: u64,
    /// The time in ns over which it was counted alone.
    pub alone_over_ns: u64,
    /// Its rounds in that time.
    pub alone_rounds: u64,
    /// CPU time of its threads in that time, in ns.
    pub alone_cpu_ns: u64,
}

impl CorunnerWindow {
    /// Rounds per second beside the I/O.
    pub fn per_s(&self) -> f64 {
        per_second(self.rounds, self.over_ns)
    }

    /// Rounds per second on processors that are otherwise idle: those in a second of its CPU time, by which a
    /// program that was there too does not count, times its processors. `None` if it was not counted alone.
    pub fn alone_per_s(&self) -> Option<f64> {
        let rate = match self.alone_cpu_ns {
            // A kernel that does not say.
            0 => per_second(self.alone_rounds, self.alone_over_ns),
            cpu_ns => per_second(self.alone_rounds, cpu_ns) * self.cpus.len() as f64,
        };
        Some(rate).filter(|rate| *rate > 0.0)
    }

    /// What it lost to the I/O, in CPU time of its own in ns for each of `ios` I/Os of a window of
    /// `window_ns`: the share of its rate alone that is missing, times its processors, times the window.
    /// Below zero if it ran faster than alone. `None` without I/O, or if it was not counted alone.
    pub fn loss_ns_per_io(&self, window_ns: u64, ios: u64) -> Option<f64> {
        let missing = 1.0 - self.per_s() / self.alone_per_s()?;
        (ios > 0).then(|| missing * self.cpus.len() as f64 * window_ns as f64 / ios as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(cpus: &[u32], rounds: u64, alone_rounds: u64) -> CorunnerWindow {
        CorunnerWindow {
            kind: CorunnerKind::Spin,
            cpus: cpus.to_vec(),
            nice: 19,
            over_ns: 2_000_000_000,
            rounds,
            cpu_ns: 0,
            alone_over_ns: 500_000_000,
            alone_rounds,
            alone_cpu_ns: 0,
        }
    }

    /// Two processors, alone 1,000 rounds/s, beside the I/O 750: a quarter of 2 x 2 s is lost to 200,000
    /// I/Os, 5 us each.
    #[test]
    fn the_loss_is_processor_time_per_io() {
        let window = window(&[0, 3], 1_500, 500);
        assert_eq!((window.per_s(), window.alone_per_s()), (750.0, Some(1_000.0)));
        assert_eq!(window.loss_ns_per_io(2_000_000_000, 200_000), Some(5_000.0));
        assert_eq!(window.loss_ns_per_io(2_000_000_000, 0), None);
    }

    /// In the half second, it had 0.8 s of the two processors: 400 rounds are 1,000 per second all the same.
    #[test]
    fn another_program_beside_it_does_not_lower_its_own_rate() {
        let window = CorunnerWindow { alone_cpu_ns: 800_000_000, ..window(&[0, 3], 1_500, 400) };
        assert_eq!(window.alone_per_s(), Some(1_000.0));
        assert_eq!(window.loss_ns_per_io(2_000_000_000, 200_000), Some(5_000.0));
    }

    #[test]
    fn a_poller_that_leaves_nothing_takes_the_whole_processor() {
        assert_eq!(window(&[1], 0, 700).loss_ns_per_io(2_000_000_000, 1_000), Some(2_000_000.0));
    }

    #[test]
    fn what_was_not_counted_alone_has_no_loss_and_a_gain_is_below_zero() {
        assert_eq!(window(&[1], 9, 0).loss_ns_per_io(1, 1), None);
        let gain = window(&[1], 3_000, 500).loss_ns_per_io(2_000_000_000, 100);
        assert_eq!(gain, Some(-10_000_000.0));
    }
}
