//! What watching takes from a program, by what it does and by what that was measured to cost.

use iopj_core::watch::{EventCounts, WatchCost};
use std::time::{Duration, Instant};

/// The least time of counting that shows how often a program switches and calls, in s.
const LEAST_S: f64 = 0.005;
/// How long tracepoints stay known to the kernel after their counters were closed, on a busy machine.
const LINGERING: Duration = Duration::from_millis(500);

/// What watching has cost in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    /// The time in which that was spent.
    pub elapsed: Duration,
    /// CPU time that counting took from the program, in ns.
    pub counting_ns: f64,
    /// CPU time that sampling took from it, in ns.
    pub sampling_ns: f64,
    /// CPU time of the program while events were counted, in ns.
    pub program_ns: u64,
}

impl Spent {
    /// Of counting and sampling together, in ns.
    pub(super) fn all_ns(&self) -> f64 {
        self.counting_ns + self.sampling_ns
    }
}

/// Counts up to some moment that cost the program time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Costly {
    pub(super) counted_ns: u64,
    /// Hits of counters.
    pub(super) hits: u64,
    pub(super) calls: u64,
    /// Context switches and CPU time while events were counted.
    pub(super) switches: u64,
    pub(super) program_ns: u64,
    /// Issues and completions sampled.
    pub(super) sampled: u64,
}

impl Costly {
    pub(super) fn of(
        counts: &EventCounts,
        [program_ns, switches]: [u64; 2],
        hits: u64,
        sampled: u64,
    ) -> Costly {
        let (counted_ns, calls) = (counts.counted_ns, counts.all_calls);
        Costly { counted_ns, hits, calls, switches, program_ns, sampled }
    }
}

/// The account of a watch.
#[derive(Debug)]
pub(super) struct Account {
    at: Instant,
    last: Costly,
    /// Context switches and system calls a second while they were last counted.
    switches_per_s: f64,
    calls_per_s: f64,
    /// What opening and closing counters took, not yet accounted for.
    extra_ns: f64,
    pub(super) total: Spent,
}

impl Account {
    pub(super) fn new() -> Account {
        Account {
            at: Instant::now(),
            last: Costly::default(),
            switches_per_s: 0.0,
            calls_per_s: 0.0,
            extra_ns: 0.0,
            total: Spent::default(),
        }
    }

    /// What was spent since the last call. `is_open` if counters were there while they rested.
    pub(super) fn pass(&mut self, now: Costly, is_open: bool, cost: &WatchCost) -> Spent {
        let at = Instant::now();
        let elapsed = at.duration_since(std::mem::replace(&mut self.at, at));
        self.add(now, elapsed, is_open, cost)
    }

    fn add(&mut self, now: Costly, elapsed: Duration, is_open: bool, cost: &WatchCost) -> Spent {
        let before = std::mem::replace(&mut self.last, now);
        let since = |field: fn(&Costly) -> u64| field(&now).saturating_sub(field(&before)) as f64;
        let counted_s = since(|it| it.counted_ns) * 1e-9;
        if counted_s > LEAST_S {
            self.switches_per_s = since(|it| it.switches) / counted_s;
            self.calls_per_s = since(|it| it.calls) / counted_s;
        }
        let rest = elapsed.saturating_sub(Duration::from_secs_f64(counted_s));
        let resting_ns = if is_open { self.resting_ns(rest, cost) } else { 0.0 };
        let spent = Spent {
            elapsed,
            counting_ns: since(|it| it.hits) * cost.event_ns
                + since(|it| it.switches) * cost.switch_ns
                + resting_ns
                + std::mem::take(&mut self.extra_ns),
            sampling_ns: since(|it| it.sampled) * cost.sample_ns,
            program_ns: now.program_ns.saturating_sub(before.program_ns),
        };
        self.total.elapsed += elapsed;
        self.total.counting_ns += spent.counting_ns;
        self.total.sampling_ns += spent.sampling_ns;
        self.total.program_ns += spent.program_ns;
        spent
    }

    /// What counters that rest cost the program in such a time.
    fn resting_ns(&self, time: Duration, cost: &WatchCost) -> f64 {
        let a_second =
            self.switches_per_s * cost.resting_switch_ns + self.calls_per_s * cost.resting_event_ns;
        a_second * time.as_secs_f64()
    }

    /// Counters that rest take more than a share of the time.
    pub(super) fn resting_exceeds(&self, share: f64, cost: &WatchCost) -> bool {
        self.resting_ns(Duration::from_secs(1), cost) > share * 1e9
    }

    /// Counters rested for so long while they were opened.
    pub(super) fn opened(&mut self, took: Duration, cost: &WatchCost) {
        self.extra_ns += self.resting_ns(took, cost);
    }

    /// Counters rested for so long while they were closed, and their tracepoints go on for a while.
    pub(super) fn closed(&mut self, took: Duration, cost: &WatchCost) {
        self.extra_ns += self.resting_ns(took, cost);
        self.extra_ns += self.calls_per_s * LINGERING.as_secs_f64() * cost.resting_event_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COST: WatchCost = WatchCost {
        event_ns: 100.0,
        switch_ns: 2_000.0,
        resting_switch_ns: 500.0,
        resting_event_ns: 50.0,
        sample_ns: 300.0,
        spent_ns: 0.0,
        slowdown: 0.0,
        sampled_share: 0.0,
        lost_samples: 0,
    };

    #[test]
    fn each_kind_is_paid_for_and_resting_at_the_rate_that_was_last_counted() {
        let mut account = Account::new();
        let second = Duration::from_secs(1);
        let counted = Costly {
            counted_ns: 1_000_000_000,
            hits: 1_000,
            calls: 400,
            switches: 100,
            program_ns: 7,
            sampled: 20,
        };
        let spent = account.add(counted, second, true, &COST);
        assert_eq!((spent.counting_ns, spent.sampling_ns), (300_000.0, 6_000.0));
        assert_eq!(spent.elapsed, second);
        // A second in which nothing was counted.
        let spent = account.add(counted, second, true, &COST);
        assert_eq!(spent.counting_ns, 100.0 * 500.0 + 400.0 * 50.0);
        assert!(account.resting_exceeds(0.000_06, &COST) && !account.resting_exceeds(0.000_08, &COST));
        assert_eq!(account.add(counted, second, false, &COST).counting_ns, 0.0);
        account.closed(Duration::ZERO, &COST);
        assert_eq!(account.add(counted, second, false, &COST).counting_ns, 400.0 * 0.5 * 50.0);
        assert_eq!(account.total.all_ns(), 300_000.0 + 6_000.0 + 70_000.0 + 10_000.0);
    }
}
