//! How often a channel gives a value, and how long a window must be to have joules: the rule before a study,
//! and the reason after it.

use crate::meter::ChannelKind;
use crate::samples::{Incomplete, NEEDED};
use std::time::Duration;

/// Values come a little less often than a meter's interval says: the part that is added to it.
const SLACK: f64 = 0.05;

/// How often a channel gives a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cadence {
    /// What a value means.
    pub kind: ChannelKind,
    /// Time from one value to the next.
    pub period_s: f64,
    /// How old a value may be when it is read.
    pub age_s: f64,
    /// Gaps up to this are bridged.
    pub bridge_s: f64,
}

impl Cadence {
    /// The shortest window that has joules wherever it begins.
    ///
    /// # Errors
    /// [`Incomplete::TooRare`] if the time between two values is longer than any gap that is bridged: no
    /// window has joules.
    pub fn least_window_s(&self) -> Result<f64, Incomplete> {
        let Self { kind, period_s, age_s, bridge_s } = *self;
        let needed = NEEDED as f64;
        let (gap_s, least_s) = match kind {
            ChannelKind::Counter { .. } => (period_s, 0.0),
            // Values whose age hides on which side of an edge they are do not count.
            ChannelKind::Instant => (period_s, needed * period_s + 4.0 * age_s / 12f64.sqrt()),
            ChannelKind::Average { window_ns } => {
                let (window_s, step_s) = (window_ns as f64 * 1e-9, self.step_s());
                ((step_s - window_s).max(0.0), needed * step_s + window_s.min(step_s))
            }
        };
        if gap_s > bridge_s {
            return Err(Incomplete::TooRare { period_s, limit_s: bridge_s });
        }
        Ok(least_s)
    }

    /// A window that is shorter than this has no joules wherever it begins; up to the shortest that always
    /// has, some have.
    ///
    /// # Errors
    /// As for [`Cadence::least_window_s`].
    pub fn hopeless_below_s(&self) -> Result<f64, Incomplete> {
        let least_s = self.least_window_s()?;
        Ok(match self.kind {
            ChannelKind::Counter { .. } => least_s,
            // Half a period is left for values that come unevenly.
            ChannelKind::Instant => (NEEDED as f64 - 1.5) * self.period_s,
            // Two parts, at the window's edges, can count beside two whole ones.
            ChannelKind::Average { .. } => least_s - 3.0 * self.step_s(),
        })
    }

    /// Time from one value that counts to the next: of averages that overlap by more than half, some are left
    /// out.
    fn step_s(&self) -> f64 {
        let windows = match self.kind {
            ChannelKind::Average { window_ns } => 0.5e-9 * window_ns as f64 / self.period_s,
            ChannelKind::Counter { .. } | ChannelKind::Instant => 1.0,
        };
        self.period_s * windows.ceil().max(1.0)
    }

    /// The least `runtime` to recommend: the shortest window and some slack, rounded up.
    ///
    /// # Errors
    /// As for [`Cadence::least_window_s`].
    pub fn least_runtime(&self) -> Result<Duration, Incomplete> {
        let least_s = self.least_window_s()? * (1.0 + SLACK);
        let tenths = (least_s * 10.0).ceil();
        Ok(if tenths <= 10.0 {
            Duration::from_millis(tenths as u64 * 100)
        } else {
            Duration::from_secs(least_s.ceil() as u64)
        })
    }

    /// Why a window of this length has no joules, whatever is read in it; `Ok` if it can have some wherever
    /// it begins.
    ///
    /// # Errors
    /// [`Incomplete::TooRare`] or [`Incomplete::TooShort`].
    pub fn check(&self, window_s: f64) -> Result<(), Incomplete> {
        let least = self.least_runtime()?;
        if window_s < self.least_window_s()? {
            return Err(Incomplete::TooShort { period_s: self.period_s, least });
        }
        Ok(())
    }
}

/// The median time from one value to the next; absent with fewer than two.
pub fn median_period_s(times_s: impl IntoIterator<Item = f64>) -> Option<f64> {
    let times_s: Vec<f64> = times_s.into_iter().collect();
    let mut apart: Vec<f64> = times_s.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let middle = apart.len() / 2;
    (!apart.is_empty()).then(|| *apart.select_nth_unstable_by(middle, f64::total_cmp).1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::{Channel, Reading, Scope, Value};
    use crate::trace::{Clock, Trace, Window};

    fn cadence(kind: ChannelKind, period_s: f64) -> Cadence {
        Cadence { kind, period_s, age_s: 0.0, bridge_s: 3.0 * period_s }
    }

    fn average(window_s: f64) -> ChannelKind {
        ChannelKind::Average { window_ns: (window_s * 1e9) as u64 }
    }

    /// Whether windows of this length have joules, at many phases of the meter; load is known to change this
    /// long before the window and at its end, or never.
    fn outcomes(cadence: Cadence, window_s: f64, change_s: Option<f64>) -> Vec<bool> {
        let channel = Channel::new("test", Scope::System, cadence.kind);
        let ns = |seconds: f64| (seconds * 1e9).round() as u64;
        let reading = |number: u32| {
            let at_ns = ns(f64::from(number) * cadence.period_s);
            let value = match cadence.kind {
                ChannelKind::Counter { .. } => Value::Count(u64::from(40 * number)),
                _ => Value::Watts(40.0 + f64::from(number % 3)),
            };
            Reading { channel: 0, value, begin_ns: at_ns, end_ns: at_ns, wall_ns: 0, own_ns: None }
        };
        let readings: Vec<Reading> = (0..100).map(reading).collect();
        let has_joules = |phase: u32| {
            let begin_s = 50.0 * cadence.period_s + (f64::from(phase) + 0.5) / 40.0 * cadence.period_s;
            let window = Window { begin_ns: ns(begin_s), end_ns: ns(begin_s + window_s) };
            let changes = change_s.map(|before_s| [ns(begin_s - before_s), window.end_ns]);
            let clock = Clock::Host { age_ns: ns(cadence.age_s), within_ns: 0 };
            let changes = changes.as_ref().map_or(&[][..], |changes| changes);
            let trace = Trace::new(&channel, 0, &readings, clock, changes).unwrap();
            trace.energy(window, ns(cadence.bridge_s)).is_ok()
        };
        (0..40).map(has_joules).collect()
    }

    #[test]
    fn the_least_window_has_joules_wherever_it_begins_and_one_that_is_hopeless_never() {
        let count = ChannelKind::Counter { joules_per_count: 1.0, wrap: None };
        let aged = |age_s: f64| Cadence { age_s, ..cadence(ChannelKind::Instant, 1.0) };
        for cadence in [
            cadence(ChannelKind::Instant, 1.0),
            cadence(ChannelKind::Instant, 0.1),
            aged(0.5),
            // As Redfish: far older than the bridge is long.
            aged(10.0),
            cadence(average(1.0), 1.0),
            cadence(average(0.13), 0.1),
            cadence(average(2.0), 1.0),
            cadence(average(3.0), 1.0),
            cadence(average(0.2), 1.0),
            cadence(count, 1.0),
        ] {
            for change_s in [None, Some(0.0), Some(0.36 * cadence.period_s)] {
                let least_s = cadence.least_window_s().unwrap();
                let longer_s = least_s.max(0.01 * cadence.period_s) + 1e-6;
                let all = outcomes(cadence, longer_s, change_s);
                assert!(all.iter().all(|has| *has), "{cadence:?} {change_s:?} {all:?}");
                if least_s > 0.0 {
                    let short_s = cadence.hopeless_below_s().unwrap() - 1e-6;
                    let short = outcomes(cadence, short_s, change_s);
                    assert!(!short.contains(&true), "{cadence:?} {change_s:?} {short:?}");
                }
            }
        }
    }

    #[test]
    fn a_window_that_is_not_hopeless_can_have_joules() {
        for (cadence, hopeless_s) in [
            (cadence(ChannelKind::Instant, 1.0), 2.5),
            (cadence(average(1.0), 1.0), 2.0),
            (cadence(average(3.0), 1.0), 4.0),
        ] {
            assert_eq!(cadence.hopeless_below_s(), Ok(hopeless_s));
            let above = outcomes(cadence, hopeless_s + 0.7 * cadence.step_s(), Some(0.0));
            assert!(above.contains(&true) && above.contains(&false), "{cadence:?} {above:?}");
        }
    }

    #[test]
    fn the_least_runtime_is_round_and_has_slack() {
        let least = |kind, period_s| cadence(kind, period_s).least_runtime().unwrap();
        assert_eq!(least(ChannelKind::Instant, 1.0), Duration::from_secs(5));
        assert_eq!(least(ChannelKind::Instant, 0.1), Duration::from_millis(500));
        assert_eq!(least(average(1.0), 1.0), Duration::from_secs(6));
        let count = ChannelKind::Counter { joules_per_count: 1.0, wrap: None };
        assert_eq!(least(count, 0.1), Duration::ZERO);
    }

    #[test]
    fn a_value_less_often_than_gaps_are_bridged_has_joules_in_no_window() {
        for kind in [ChannelKind::Instant, ChannelKind::Counter { joules_per_count: 1.0, wrap: None }] {
            let rare = Cadence { bridge_s: 0.3, ..cadence(kind, 1.0) };
            assert_eq!(rare.least_window_s(), Err(Incomplete::TooRare { period_s: 1.0, limit_s: 0.3 }));
            assert!(!outcomes(rare, 20.3, None).contains(&true));
        }
        // Averages leave no gap between them.
        assert!(Cadence { bridge_s: 0.3, ..cadence(average(1.0), 1.0) }.least_window_s().is_ok());
    }
}
