//! When a machine that was left alone has settled: its power is flat by its meters.

use crate::steadystate::line;
use iopj_meter::{Channel, Clock, Reading, powers};

/// Powers that are looked at.
const POWERS: usize = 10;
/// Power may rise or fall by this share of itself over them.
const FLAT: f64 = 0.01;

/// True if each channel's last powers are flat, as a line or within their noise.
pub(super) fn is_flat(channels: &[Channel], readings: &[Reading]) -> bool {
    let clock = Clock::Host { age_ns: 0 };
    channels.iter().enumerate().all(|(index, channel)| {
        let Ok(powers) = powers(channel, index, readings, clock) else { return false };
        let Some(last) = powers.len().checked_sub(POWERS).map(|from| &powers[from..]) else { return false };
        let origin_ns = last[0].0;
        let points: Vec<_> =
            last.iter().map(|(at_ns, watts)| (at_ns.saturating_sub(origin_ns) as f64 / 1e9, *watts, 1.0)).collect();
        let length = points[POWERS - 1].0;
        let is_off = points.iter().all(|point| point.1 == 0.0);
        is_off || line(&points, length).is_some_and(|fit| fit.shows_no_slope(FLAT))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_core::energy::Scope;
    use iopj_meter::{ChannelKind, Value};

    const SECOND: u64 = 1_000_000_000;

    fn channel(kind: ChannelKind) -> Channel {
        Channel { name: "c".into(), scope: Scope::System, kind, resolution: 0.0, accuracy: None, parent: None }
    }

    fn reading(channel: usize, second: usize, value: Value) -> Reading {
        let at_ns = 5 * SECOND + second as u64 * SECOND;
        Reading { channel, value, begin_ns: at_ns, end_ns: at_ns, wall_ns: 0, own_ns: None }
    }

    /// A gauge that shows these powers, a second apart.
    fn gauge(watts: &[f64]) -> bool {
        let readings: Vec<Reading> = watts.iter().enumerate().map(|(at, w)| reading(0, at, Value::Watts(*w))).collect();
        is_flat(&[channel(ChannelKind::Instant)], &readings)
    }

    #[test]
    fn power_that_falls_after_a_load_is_not_flat_until_it_has_settled() {
        let power = |second: usize| 50.0 + 50.0 * (-(second as f64) / 4.0).exp();
        let flat_after = (0..200).find(|end| gauge(&(0..*end).map(power).collect::<Vec<_>>()));
        // 50 exp(-t / 4) falls by less than half a watt over ten readings where t, the first of them, is 18 s.
        assert!((27..32).contains(&flat_after.unwrap()), "{flat_after:?}");
    }

    #[test]
    fn noise_is_flat_and_too_little_is_not_known() {
        assert!(gauge(&[50.0, 53.0, 49.0, 51.0, 52.0, 48.0, 50.0, 53.0, 49.0, 51.0]));
        assert!(!gauge(&[50.0; 9]) && gauge(&[50.0; 10]) && gauge(&[0.0; 10]));
        assert!(!gauge(&[50.0, 51.0, 52.0, 53.0, 54.0, 55.0, 56.0, 57.0, 58.0, 59.0]));
    }

    #[test]
    fn every_channel_counts_and_a_counter_by_its_differences() {
        let counter = ChannelKind::Counter { joules_per_count: 0.5, wrap: None };
        let channels = [channel(ChannelKind::Instant), channel(counter)];
        let readings = |step: fn(u64) -> u64| -> Vec<Reading> {
            let of = |at: usize| {
                [reading(0, at, Value::Watts(7.0)), reading(1, at, Value::Count((0..at as u64).map(step).sum()))]
            };
            (0..11).flat_map(of).collect()
        };
        assert!(is_flat(&channels, &readings(|_| 100)));
        assert!(!is_flat(&channels, &readings(|at| 100 - 2 * at)));
        assert!(!is_flat(&channels, &readings(|_| 100)[..20]));
    }
}
