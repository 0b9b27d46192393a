//! For how long events are counted: as long as that slows the program down by no more than a set share.

use std::time::Duration;

/// The share of the program's time that counting may take, and that sampling may: together one in a hundred.
pub(super) const COUNTING: f64 = 0.008;
/// See [`COUNTING`].
pub(super) const SAMPLING: f64 = 0.002;
/// Counters that rest may take half of what counting may.
pub(super) const RESTING: f64 = COUNTING / 2.0;
/// The least time for which it is worth to begin.
pub(super) const SLICE: Duration = Duration::from_millis(20);

/// The account of one kind of events. Time is earned as the program runs, and spent while they are counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    share: f64,
    balance_ns: f64,
    /// What a second of it last cost.
    rate_ns_per_s: Option<f64>,
    /// Time for which it was on since it began, and what that cost.
    on: (Duration, f64),
}

impl Budget {
    /// A budget of a share of the program's time.
    pub(super) fn new(share: f64) -> Budget {
        Budget { share, balance_ns: 0.0, rate_ns_per_s: None, on: (Duration::ZERO, 0.0) }
    }

    /// Some time has passed, in which events were on or not, and cost so much. A program with several busy
    /// threads has as much time as these have.
    pub(super) fn pass(&mut self, elapsed: Duration, program_ns: u64, was_on: bool, spent_ns: f64) {
        let time_ns = (elapsed.as_nanos() as f64).max(program_ns as f64);
        self.balance_ns += self.share * time_ns - spent_ns;
        // Idle time is no reason to slow it down later: no more than the share of a short time is kept.
        self.balance_ns = self.balance_ns.min(self.share * KEPT.as_nanos() as f64);
        if was_on {
            self.on = (self.on.0 + elapsed, self.on.1 + spent_ns);
            if self.on.0 >= SLICE / 2 {
                self.rate_ns_per_s = Some(self.on.1 / self.on.0.as_secs_f64());
            }
        } else {
            self.on = (Duration::ZERO, 0.0);
        }
    }

    /// True if events may be on for a while from now on.
    pub(super) fn allows(&self, is_on: bool) -> bool {
        match (is_on, self.rate_ns_per_s) {
            // What was spent beyond the budget is earned before the next slice.
            (true, _) => self.balance_ns >= 0.0,
            (false, None) => self.balance_ns >= 0.0,
            (false, Some(rate)) => self.balance_ns >= rate * SLICE.as_secs_f64(),
        }
    }

    /// True if being on costs more than the share: then it is looked at more often.
    pub(super) fn is_dear(&self) -> bool {
        self.rate_ns_per_s.is_some_and(|rate| rate > self.share * 1e9)
    }
}

/// The time whose share may be saved up.
const KEPT: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The share of the time that was spent, and for which events were on, where a second of them costs
    /// `cost_ns`, looked at every `step`.
    fn run(cost_ns: f64, step: Duration, steps: u32) -> (f64, f64) {
        let mut budget = Budget::new(COUNTING);
        let (mut on, mut spent, mut time_on) = (true, 0.0, 0u32);
        for _ in 0..steps {
            let cost = if on { cost_ns * step.as_secs_f64() } else { 0.0 };
            budget.pass(step, 0, on, cost);
            spent += cost;
            time_on += u32::from(on);
            on = budget.allows(on);
        }
        (spent / (f64::from(steps) * step.as_nanos() as f64), f64::from(time_on) / f64::from(steps))
    }

    #[test]
    fn what_is_cheap_is_counted_all_the_time() {
        let (spent, on) = run(5e6, Duration::from_millis(100), 1000);
        assert_eq!(on, 1.0);
        assert!((spent - 0.005).abs() < 1e-9);
    }

    #[test]
    fn what_is_dear_is_counted_for_a_part_of_the_time() {
        let (spent, on) = run(80e6, Duration::from_millis(20), 5000);
        assert!(spent <= COUNTING * 1.01 && spent > COUNTING * 0.8, "{spent}");
        assert!((0.08..=0.102).contains(&on), "{on}");
    }

    proptest! {
        #[test]
        fn the_share_is_kept_whatever_a_second_costs(cost_ns in 0.0f64..1e9, step_ms in 1u64..200) {
            let step = Duration::from_millis(step_ms);
            let steps = 60_000 / step_ms as u32 + 1;
            let (spent, on) = run(cost_ns, step, steps);
            // One step may be spent before anybody can know what it costs.
            let first = cost_ns * step.as_secs_f64() / (f64::from(steps) * step.as_nanos() as f64);
            prop_assert!(spent <= COUNTING + first * 1.01 + 1e-9, "{} {}", spent, first);
            prop_assert!(on > 0.0);
        }
    }
}
