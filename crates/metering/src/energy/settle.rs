//! When a machine that was left alone has settled: its power is flat by its meters.

use super::record::counted;
use iopj_load::steadystate::line;
use iopj_meter::{Channel, Clock, Reading, powers};
use std::time::Duration;

/// The shortest stretch that is looked at. Supplies, fans and heat follow a load within seconds to minutes:
/// of a decay with a time constant of 10 s, 1 % of idle power is left once it falls by 1 % in 10 s; once it
/// falls by 1 % in one second, ten times as much.
const SHORTEST: Duration = Duration::from_secs(10);
/// The fewest meter intervals in that stretch.
const INTERVALS: u32 = 10;
/// Power may rise or fall by this share of itself over it.
const FLAT: f64 = 0.01;
/// Where noise hides the slope over one stretch, the next is looked at, as for a ramp.
const STRETCHES: [u32; 3] = [1, 2, 4];
/// The points that a line is fitted to: each the mean of as many powers in a row as makes no more of them,
/// and the fewest.
const MOST_POINTS: usize = 20;
const FEWEST_POINTS: usize = 10;
/// How often a stretch is looked at while it passes.
pub(super) const LOOKS: u32 = 20;

/// The stretch over which the power of a meter with this interval is to be flat.
pub(super) fn stretch(interval: Duration) -> Duration {
    SHORTEST.max(interval * INTERVALS)
}

/// The time for which the machine must rest before it can be seen whether power is flat: a stretch, the
/// readings at its two ends, and a look.
pub(super) fn sees(interval: Duration) -> Duration {
    stretch(interval) + interval * 2 + stretch(interval) / LOOKS
}

/// True if the power of each channel that gives joules is flat: the whole interval of its slope lies within
/// the rule. Noise alone is not flat.
pub(super) fn is_flat(channels: &[Channel], readings: &[Reading], stretch: Duration) -> bool {
    let clock = Clock::Host { age_ns: 0, within_ns: 0 };
    counted(channels).into_iter().all(|index| {
        powers(&channels[index], index, readings, clock).is_ok_and(|powers| has_settled(&powers, stretch))
    })
}

fn has_settled(powers: &[(u64, f64)], stretch: Duration) -> bool {
    STRETCHES.iter().any(|times| {
        let Some(last) = last_of(powers, stretch * *times) else { return false };
        let is_off = last.iter().all(|power| power.1 == 0.0);
        is_off || line(&points(last), stretch.as_secs_f64()).is_some_and(|fit| fit.is_flat(FLAT))
    })
}

/// The powers of the last `span`, once they reach back so far and are enough.
fn last_of(powers: &[(u64, f64)], span: Duration) -> Option<&[(u64, f64)]> {
    let from_ns = powers.last()?.0.checked_sub(span.as_nanos() as u64)?;
    let from = powers.partition_point(|power| power.0 < from_ns);
    let reaches_back = powers[0].0 <= from_ns;
    (reaches_back && powers.len() - from >= FEWEST_POINTS).then(|| &powers[from..])
}

/// Points of seconds, W and weight. The mean of a few in a row is less noisy, and less like its neighbours,
/// than each of them.
fn points(powers: &[(u64, f64)]) -> Vec<(f64, f64, f64)> {
    let origin_ns = powers[0].0;
    let mean = |group: &[(u64, f64)]| {
        let count = group.len() as f64;
        let seconds =
            group.iter().map(|(at_ns, _)| at_ns.saturating_sub(origin_ns) as f64 / 1e9).sum::<f64>();
        (seconds / count, group.iter().map(|(_, watts)| watts).sum::<f64>() / count, count)
    };
    powers.chunks(powers.len().div_ceil(MOST_POINTS)).map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_core::energy::Scope;
    use iopj_meter::{ChannelKind, Value};

    const SECOND: u64 = 1_000_000_000;

    fn channel(kind: ChannelKind) -> Channel {
        Channel {
            name: "c".into(),
            scope: Scope::System,
            kind,
            resolution: 0.0,
            accuracy: None,
            parent: None,
        }
    }

    fn reading(channel: usize, second: usize, value: Value) -> Reading {
        let at_ns = 5 * SECOND + second as u64 * SECOND;
        Reading { channel, value, begin_ns: at_ns, end_ns: at_ns, wall_ns: 0, own_ns: None }
    }

    const STRETCH: Duration = Duration::from_secs(10);

    /// A gauge that shows these powers, so many of them in a second.
    fn gauge(watts: &[f64], a_second: u64) -> bool {
        let at_ns = |at: usize| at as u64 * SECOND / a_second;
        let read = |(at, watts): (usize, &f64)| Reading {
            begin_ns: at_ns(at),
            end_ns: at_ns(at),
            ..reading(0, 0, Value::Watts(*watts))
        };
        let readings: Vec<Reading> = watts.iter().enumerate().map(read).collect();
        is_flat(&[channel(ChannelKind::Instant)], &readings, STRETCH)
    }

    /// The first second at which the power is called flat.
    fn flat_after(power: impl Fn(f64) -> f64, a_second: u64) -> Option<u64> {
        let powers: Vec<f64> = (0..=120 * a_second).map(|at| power(at as f64 / a_second as f64)).collect();
        (0..=120).find(|second| gauge(&powers[..=(second * a_second) as usize], a_second))
    }

    /// A share that seems drawn at random, evenly from -1 to 1.
    fn noise(seconds: f64) -> f64 {
        2.0 * ((seconds * 10.0).round() * 0.618_034).fract() - 1.0
    }

    #[test]
    fn a_stretch_is_ten_seconds_or_ten_readings() {
        let ms = Duration::from_millis;
        assert_eq!([ms(100), ms(1000), ms(5000)].map(stretch), [STRETCH, STRETCH, ms(50_000)]);
    }

    #[test]
    fn power_that_falls_after_a_load_is_not_flat_until_it_has_settled() {
        // 50 exp(-t / 4) falls by half a watt over ten seconds from 18 s on, and its curve is no noise.
        let decay = |seconds: f64| 50.0 + 50.0 * (-seconds / 4.0).exp();
        for a_second in [1, 10] {
            let after = flat_after(decay, a_second).unwrap();
            assert!((28..34).contains(&after), "{after}");
        }
    }

    /// Ten readings were looked at, which a meter of 100 ms has in one second: a fall by 1 % a second was
    /// flat.
    #[test]
    fn a_decay_of_one_per_cent_a_second_is_not_flat_to_a_fast_meter() {
        assert_eq!(flat_after(|seconds| 50.0 * (-seconds / 100.0).exp(), 10), None);
        assert!(!gauge(&[50.0; 100], 10) && gauge(&[50.0; 101], 10) && gauge(&[0.0; 101], 10));
        assert!(!gauge(&[50.0; 10], 1) && gauge(&[50.0; 11], 1));
    }

    /// It was, as by the rule for ramps before: no slope is seen in noise.
    #[test]
    fn noise_alone_is_not_flat_and_a_longer_stretch_looks_through_it() {
        let first = [50.0, 53.0, 49.0, 51.0, 52.0, 48.0, 50.0, 53.0, 49.0, 51.0, 50.0];
        assert!(!gauge(&first, 1));
        assert!(gauge(&first[..10].repeat(5), 1));
        let falls = |seconds: f64| 50.0 * (1.0 - seconds / 200.0 + 0.04 * noise(seconds));
        assert_eq!(flat_after(falls, 10), None);
        let rests = |seconds: f64| 50.0 * (1.0 + 0.04 * noise(seconds));
        assert!(flat_after(rests, 10).is_some());
    }

    #[test]
    fn every_channel_counts_and_a_counter_by_its_differences() {
        let counter = ChannelKind::Counter { joules_per_count: 0.5, wrap: None };
        let channels = [channel(ChannelKind::Instant), channel(counter)];
        let readings = |step: fn(u64) -> u64| -> Vec<Reading> {
            let of = |at: usize| {
                [
                    reading(0, at, Value::Watts(7.0)),
                    reading(1, at, Value::Count((0..at as u64).map(step).sum())),
                ]
            };
            (0..12).flat_map(of).collect()
        };
        assert!(is_flat(&channels, &readings(|_| 100), STRETCH));
        assert!(!is_flat(&channels, &readings(|at| 100 - 2 * at), STRETCH));
        assert_eq!(sees(Duration::from_secs(1)), Duration::from_millis(12_500));
        // Of a counter the power of the last ten seconds begins one reading earlier.
        assert!(!is_flat(&channels, &readings(|_| 100)[..22], STRETCH));
    }

    /// A plug gives its counter's value only when it has moved, and its power was never called flat.
    #[test]
    fn a_counter_that_stands_still_beside_the_power_is_not_waited_for() {
        let counter = ChannelKind::Counter { joules_per_count: 60.0, wrap: None };
        let power = channel(ChannelKind::Instant);
        let energy = Channel { name: "energy".into(), parent: Some("c".into()), ..channel(counter) };
        let readings: Vec<Reading> = (0..12).map(|at| reading(0, at, Value::Watts(7.0))).collect();
        assert!(is_flat(&[power.clone(), energy.clone()], &readings, STRETCH));
        let apart = Channel { scope: Scope::Device, ..energy };
        assert!(!is_flat(&[power, apart], &readings, STRETCH));
    }
}
