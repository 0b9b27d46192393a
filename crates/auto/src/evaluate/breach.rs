//! For how long a bound of latency is broken in one go, while another way keeps it.

use crate::seen::{LEAST_TIMED, Latencies};
use serde::Serialize;

/// How a bound was drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Drawn {
    /// Every way keeps it throughout.
    All,
    /// Between the fastest way and the slowest one of the first phase.
    Some,
    /// Between the fastest way and the next one of the first phase.
    Fastest,
    /// Between all ways of all phases: some phases may keep it, and others not.
    Phases,
    /// No way keeps it in the first phase.
    Nobody,
}

impl Drawn {
    /// Every one.
    pub const ALL: [Drawn; 5] = [Drawn::All, Drawn::Some, Drawn::Fastest, Drawn::Phases, Drawn::Nobody];
}

/// What a stretch of I/Os took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Stretch {
    /// In ns.
    pub ns: f64,
    /// I/Os.
    pub ios: u64,
    /// The greatest 99th percentile over the bound, by the truth: above 1 breaks it.
    pub times: f64,
}

/// How a bound was kept, by the truth.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Breach {
    /// The bound of the 99th percentile, in ns.
    pub bound_ns: u64,
    /// How it was drawn.
    pub drawn: Drawn,
    /// I/Os of the phases in which a way keeps it.
    pub ios: u64,
    /// Those of them that went a way which breaks it.
    pub broken: u64,
    /// The longest time in one go in which it was broken while another way kept it.
    pub longest: Stretch,
    /// The same, from when it showed on: in each epoch the p99 of the timed I/Os was over the bound.
    pub shown: Stretch,
    #[serde(skip)]
    now: Stretch,
    #[serde(skip)]
    now_shown: Stretch,
}

impl Breach {
    pub(super) fn new(bound_ns: u64, drawn: Drawn) -> Breach {
        let [longest, shown, now, now_shown] = [Stretch::default(); 4];
        Breach { bound_ns, drawn, ios: 0, broken: 0, longest, shown, now, now_shown }
    }

    /// I/Os pass whose 99th percentile is so many times the bound, while some way keeps it or none does.
    pub(super) fn pass(&mut self, ios: u64, ns: f64, times: f64, is_kept: bool) {
        if is_kept {
            self.ios += ios;
        }
        if !is_kept || times <= 1.0 {
            (self.now, self.now_shown) = (Stretch::default(), Stretch::default());
            return;
        }
        self.broken += ios;
        for (now, longest) in [(&mut self.now, &mut self.longest), (&mut self.now_shown, &mut self.shown)] {
            *now = Stretch { ns: now.ns + ns, ios: now.ios + ios, times: now.times.max(times) };
            if now.ns > longest.ns {
                *longest = *now;
            }
        }
    }

    /// An epoch ends that showed the bound to be broken, or not.
    pub(super) fn end_epoch(&mut self, shows: bool) {
        if !shows {
            self.now_shown = Stretch::default();
        }
    }
}

/// True if the 99th percentile of an epoch's timed I/Os is over the bound: of few, if two are at least. What
/// the chooser makes of them is its own affair.
pub(super) fn shows(latencies: &mut Latencies, bound_ns: u64) -> bool {
    let is_enough = latencies.count() >= LEAST_TIMED || latencies.over(bound_ns) >= 2;
    is_enough && latencies.at_99().is_some_and(|p99| p99 > bound_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_a_hundred_may_be_over_the_bound_and_two_may_not() {
        let shows = |count: u64, bound_ns| shows(&mut (1..=count).collect::<Vec<u64>>().into(), bound_ns);
        assert_eq!([shows(100, 99), shows(100, 98)], [false, true]);
        assert_eq!([shows(10, 9), shows(10, 8), shows(0, 0)], [false, true, false]);
    }

    #[test]
    fn a_stretch_ends_when_the_bound_is_kept_or_by_no_way() {
        let mut breach = Breach::new(100, Drawn::Some);
        breach.pass(10, 1e9, 1.1, true);
        breach.pass(10, 1e9, 1.5, true);
        breach.pass(10, 1e9, 1.0, true);
        breach.pass(5, 1.5e9, 1.1, true);
        breach.pass(5, 9e9, 9.0, false);
        breach.pass(7, 1e9, 1.1, true);
        assert_eq!((breach.ios, breach.broken), (42, 32));
        assert_eq!(breach.longest, Stretch { ns: 2e9, ios: 20, times: 1.5 });
    }

    #[test]
    fn what_does_not_show_is_counted_apart() {
        let mut breach = Breach::new(100, Drawn::Some);
        for shows in [true, false, true] {
            breach.pass(10, 1e9, 1.1, true);
            breach.end_epoch(shows);
        }
        assert_eq!((breach.longest.ns, breach.shown.ns), (3e9, 2e9));
    }
}
