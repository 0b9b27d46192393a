//! Exact logs: offsets that are known, and logs that must be refused.

use super::*;
use crate::meter::{ChannelKind, Scope, Value};

const SECOND: u64 = 1_000_000_000;
/// When the pattern begins, in host time.
const BEGIN_S: u64 = 1_000;
const SEARCH: Search = Search { expected_offset_ns: 0, range_ns: 60 * SECOND, max_drift: 1e-4, lag_ns: 0 };

fn channel(kind: ChannelKind) -> Channel {
    Channel::new("log", Scope::System, kind)
}

fn averages() -> Channel {
    channel(ChannelKind::Average { window_ns: SECOND })
}

fn played(begin_s: u64) -> Pattern {
    let design = Pattern::design(SECOND);
    let edges: Vec<u64> = design.edges_ns().iter().map(|edge| begin_s * SECOND + *edge as u64).collect();
    Pattern::played(begin_s * SECOND, &edges, begin_s * SECOND + design.end_ns() as u64).unwrap()
}

/// A log of `kind` from 900 s to `end_s` of the meter's time; power is 50 W and 30 W more under load.
fn log(kind: ChannelKind, patterns: &[Pattern], end_s: i64, offset_s: f64) -> Vec<Reading> {
    let shapes: Vec<Shape> = patterns.iter().map(|pattern| pattern.shape(0)).collect();
    let load = |from_s: f64, to_s: f64| shapes.iter().map(|shape| shape.share(from_s, to_s)).sum::<f64>();
    let mut joules = 0.0;
    let values = (900..end_s).map(|own_s| {
        let to_s = own_s as f64 - offset_s;
        let mean = 50.0 + 30.0 * load(to_s - 1.0, to_s);
        joules += mean;
        let value = match kind {
            ChannelKind::Instant => Value::Watts(50.0 + 30.0 * load(to_s, to_s)),
            ChannelKind::Average { .. } => Value::Watts(mean),
            ChannelKind::Counter { .. } => Value::Count((joules * 1e6) as u64),
        };
        Reading { channel: 0, value, begin_ns: 0, end_ns: 0, wall_ns: 0, own_ns: Some(own_s * SECOND as i64) }
    });
    values.collect()
}

#[test]
fn the_offset_of_averages_and_counters_is_exact_and_that_of_instants_within_its_uncertainty() {
    let patterns = [played(BEGIN_S)];
    let counter = ChannelKind::Counter { joules_per_count: 1e-6, wrap: None };
    for (kind, limit_s) in [(averages().kind, 1e-3), (counter, 1e-3), (ChannelKind::Instant, 0.03)] {
        for offset_s in [-33.3, 0.0, 0.25, 41.87] {
            let log = log(kind, &patterns, 1_200, offset_s);
            let alignment = align(&channel(kind), 0, &log, &patterns, &SEARCH).unwrap();
            let error_s = alignment.offset_ns(1_030 * SECOND as i64) as f64 * 1e-9 - offset_s;
            let standard_s = alignment.uncertainty_ns(1_030 * SECOND as i64) * 1e-9;
            assert!(error_s.abs() < limit_s, "{kind:?} {offset_s}: {error_s} s");
            assert!(error_s.abs() < 2.0 * standard_s, "{kind:?} {offset_s}: {error_s} s of {standard_s} s");
            assert!(alignment.confidence().unwrap().correlation > 0.99);
        }
    }
}

#[test]
fn host_times_and_offsets_agree() {
    let patterns = [played(BEGIN_S)];
    let log = log(averages().kind, &patterns, 1_200, 12.5);
    let alignment = align(&averages(), 0, &log, &patterns, &SEARCH).unwrap();
    for host_ns in [0, 1_030 * SECOND as i64, 5_000 * SECOND as i64] {
        let own_ns = host_ns + alignment.offset_ns(host_ns);
        assert!((alignment.host_ns(own_ns) - host_ns).abs() <= 2);
    }
    // One pattern does not show the drift: a rectangle of ±100 ppm grows with the distance.
    assert_eq!(alignment.drift(), 0.0);
    let far_ns = alignment.uncertainty_ns((1_030 + 10_000) * SECOND as i64);
    assert!((far_ns * 1e-9 - 1e-4 / 3f64.sqrt() * 10_000.0).abs() < 1e-3, "{far_ns}");
}

#[test]
fn a_lag_of_the_power_moves_the_offset_by_half_of_it() {
    let patterns = [played(BEGIN_S)];
    let log = log(averages().kind, &patterns, 1_200, 3.0);
    let search = Search { lag_ns: 200_000_000, ..SEARCH };
    let alignment = align(&averages(), 0, &log, &patterns, &search).unwrap();
    assert!((alignment.offset_ns(0) - 2_900_000_000).abs() < 100_000, "{}", alignment.offset_ns(0));
    let standard_ns = alignment.uncertainty_ns(1_030 * SECOND as i64);
    assert!((standard_ns - 0.2e9 / 12f64.sqrt()).abs() < 1e5, "{standard_ns}");
}

#[test]
fn logs_without_the_pattern_are_refused() {
    let patterns = [played(BEGIN_S)];
    let refusal =
        |log: &[Reading], patterns: &[Pattern]| align(&averages(), 0, log, patterns, &SEARCH).unwrap_err();
    assert!(matches!(refusal(&[], &patterns), AlignError::NotCovered { .. }));
    let whole = log(averages().kind, &patterns, 1_200, 0.0);
    assert_eq!(refusal(&whole, &[]), AlignError::NothingPlayed);
    assert!(matches!(refusal(&whole[..30], &patterns), AlignError::NotCovered { .. }));
    let mut backwards = whole.clone();
    backwards.swap(50, 51);
    assert_eq!(refusal(&backwards, &patterns), AlignError::Log(Incomplete::Disordered));
    // Another study's log: its pattern was played outside of the search.
    let other = log(averages().kind, &[played(BEGIN_S + 200)], 1_400, 0.0);
    assert!(matches!(refusal(&other, &patterns), AlignError::NotFound { .. }));
    // A load that lowers the power.
    let falling = whole.iter().map(|reading| match reading.value {
        Value::Watts(watts) => Reading { value: Value::Watts(-watts), ..*reading },
        Value::Count(_) => *reading,
    });
    assert!(matches!(refusal(&falling.collect::<Vec<_>>(), &patterns), AlignError::NotFound { .. }));
    let slow: Vec<Reading> = whole.iter().step_by(3).copied().collect();
    assert!(matches!(refusal(&slow, &patterns), AlignError::TooSlow { .. }));
    let flat = log(averages().kind, &[], 1_200, 0.0);
    assert!(align(&averages(), 0, &flat, &patterns, &SEARCH).is_err());
}

#[test]
fn a_pattern_that_is_there_twice_is_ambiguous() {
    let patterns = [played(BEGIN_S), played(BEGIN_S + 100)];
    let log = log(averages().kind, &patterns, 1_300, 0.0);
    let search = Search { range_ns: 120 * SECOND, ..SEARCH };
    let got = align(&averages(), 0, &log, &patterns[..1], &search);
    assert!(matches!(got, Err(AlignError::Ambiguous { .. })), "{got:?}");
    // Both together fit at only one offset.
    let both = align(&averages(), 0, &log, &patterns, &search).unwrap();
    assert!(both.offset_ns(0).abs() < 1_000_000);
}

#[test]
fn a_trusted_clock_is_as_sure_as_it_is_said_to_be() {
    let trusted = Alignment::trusted(-5_000_000_000, 1_000 * SECOND, 2e8, 1e-5);
    assert_eq!(trusted.host_ns(995 * SECOND as i64), 1_000 * SECOND as i64);
    assert!((trusted.uncertainty_ns(1_000 * SECOND as i64) - 2e8).abs() < 1.0);
    assert_eq!(trusted.confidence(), None);
}

/// Both patterns used to be needed.
#[test]
fn a_log_of_one_pattern_of_two_is_aligned_by_it_and_its_drift_is_not_known() {
    let patterns = [played(BEGIN_S), played(BEGIN_S + 1_000)];
    let whole = log(averages().kind, &patterns, 2_200, 12.5);
    let of = |log: &[Reading], range_s: u64| {
        align(&averages(), 0, log, &patterns, &Search { range_ns: range_s * SECOND, ..SEARCH })
    };
    let both = of(&whole, 60).unwrap();
    assert_eq!(both.patterns(), 2);
    for (part, middle_s) in [(&whole[..500], 1_030), (&whole[500..], 2_030)] {
        let one = of(part, 60).unwrap();
        let at = |seconds: i64| seconds * SECOND as i64;
        assert_eq!((one.patterns(), one.drift()), (1, 0.0));
        assert!((one.offset_ns(at(middle_s)) - at(25) / 2).abs() < 1_000_000);
        // ±100 ppm over the way to the other pattern.
        let [near, far] = [0, 1_000].map(|away| one.uncertainty_ns(at(middle_s + away)) * 1e-9);
        assert!(near < 0.01 && (far - 0.1 / 3f64.sqrt()).abs() < 1e-3, "{near} {far}");
        assert!(both.uncertainty_ns(at(middle_s + 1_000)) * 1e-9 < far);
        // A clock that may be wrong by the time between the patterns does not tell which one it is.
        assert!(matches!(of(part, 1_100), Err(AlignError::Ambiguous { .. })));
    }
    assert!(matches!(of(&whole[180..900], 60), Err(AlignError::NotCovered { .. })));
}

/// The patterns on both sides of one that is missing were ambiguous, though they tell the same clock.
#[test]
fn patterns_about_one_that_is_missing_are_found_together() {
    let patterns = [BEGIN_S, BEGIN_S + 200, BEGIN_S + 400].map(played);
    let mut log = log(averages().kind, &patterns, 1_600, 12.5);
    log.drain(310..370);
    let found = align(&averages(), 0, &log, &patterns, &SEARCH).unwrap();
    assert_eq!(found.patterns(), 2);
    assert!((found.offset_ns(0) - 12_500_000_000).abs() < 2_000_000 && found.drift().abs() < 1e-5);
    // A clock that was set between them tells two times.
    for reading in &mut log[350..] {
        reading.own_ns = reading.own_ns.map(|own_ns| own_ns + 30 * SECOND as i64);
    }
    let set = align(&averages(), 0, &log, &patterns, &SEARCH);
    assert!(matches!(set, Err(AlignError::Ambiguous { .. })), "{set:?}");
}

/// A failure took a search of every run of patterns: of 48 there are 1175, with 18424 patterns.
#[test]
fn only_runs_of_patterns_that_are_there_are_looked_for_and_not_too_many() {
    let mut held = [true, true, false, true];
    assert_eq!(runs(&held), [0..2, 0..1, 1..2, 3..4]);
    held[1] = false;
    assert_eq!(runs(&held), [0..1, 3..4]);
    let all = runs(&[true; 48]);
    assert!(all.iter().map(Range::len).sum::<usize>() <= 9 * 48 && all.ends_with(&[46..47, 47..48]));
    assert_eq!(runs(&[true]), []);
}
