//! Exact energies, refusals, and the uncertainty budget of known readings.

use super::*;
use crate::meter::{Accuracy, Distribution, Scope, Wrap};
use proptest::prelude::*;
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;
const BRIDGE_NS: u64 = 3 * SECOND;
const HOST: Clock<'static> = Clock::Host { age_ns: 0, within_ns: 0 };

fn channel(kind: ChannelKind) -> Channel {
    Channel::new("test", Scope::System, kind)
}

fn counter(wrap: Option<Wrap>) -> Channel {
    channel(ChannelKind::Counter { joules_per_count: 0.5, wrap })
}

fn averages() -> Channel {
    channel(ChannelKind::Average { window_ns: SECOND })
}

fn reading(at_s: f64, value: Value) -> Reading {
    let at_ns = (at_s * 1e9).round() as u64;
    Reading { channel: 0, value, begin_ns: at_ns, end_ns: at_ns, wall_ns: 0, own_ns: None }
}

fn gauge(values: &[(f64, f64)]) -> Vec<Reading> {
    values.iter().map(|&(at_s, watts)| reading(at_s, Value::Watts(watts))).collect()
}

fn counts(values: &[(f64, u64)]) -> Vec<Reading> {
    values.iter().map(|&(at_s, count)| reading(at_s, Value::Count(count))).collect()
}

fn window(begin_s: f64, end_s: f64) -> Window {
    Window { begin_ns: (begin_s * 1e9).round() as u64, end_ns: (end_s * 1e9).round() as u64 }
}

fn energy(channel: &Channel, readings: &[Reading], begin_s: f64, end_s: f64) -> Result<Energy, Incomplete> {
    Trace::new(channel, 0, readings, HOST, &[])?.energy(window(begin_s, end_s), BRIDGE_NS)
}

fn joules(channel: &Channel, readings: &[Reading], begin_s: f64, end_s: f64) -> f64 {
    energy(channel, readings, begin_s, end_s).unwrap().joules
}

fn component(energy: &Energy, source: UncertaintySource) -> f64 {
    energy
        .random
        .iter()
        .find(|component| component.source == source)
        .map_or(0.0, |component| component.joules)
}

#[track_caller]
fn close(got: f64, want: f64) {
    assert!((got - want).abs() <= 1e-9 * want.abs().max(1.0), "{got} is not {want}");
}

/// Readings at whole seconds from 1 to 20 s.
fn seconds(watts: impl Fn(f64) -> f64) -> Vec<Reading> {
    let values: Vec<(f64, f64)> = (1..=20).map(|at| (f64::from(at), watts(f64::from(at)))).collect();
    gauge(&values)
}

#[test]
fn constant_power_is_power_times_time() {
    for channel in [channel(ChannelKind::Instant), averages()] {
        let energy = energy(&channel, &seconds(|_| 40.0), 3.25, 17.75).unwrap();
        close(energy.joules, 580.0);
        close(energy.watts(), 40.0);
        assert_eq!(energy.random, []);
    }
    let counted: Vec<(f64, u64)> = (0..20).map(|at| (f64::from(at), 1000 + 80 * at as u64)).collect();
    close(joules(&counter(None), &counts(&counted), 3.25, 17.75), 580.0);
}

#[test]
fn a_ramp_is_exact_by_trapezoid_and_by_steps_between_whole_windows() {
    let ramp = seconds(|at| 10.0 * at);
    close(joules(&channel(ChannelKind::Instant), &ramp, 2.5, 9.75), 5.0 * (9.75f64.powi(2) - 2.5f64.powi(2)));
    let means = seconds(|at| 10.0 * (at - 0.5));
    close(joules(&averages(), &means, 2.0, 9.0), 5.0 * (81.0 - 4.0));
    close(energy(&averages(), &means, 2.0, 9.0).unwrap().random_standard(), 0.0);
    // A quarter of the window at its mean power, where truth is 5 (81 - 8.75^2) = 22.2 J less: the bounds say
    // 1.9 J.
    let partial = energy(&averages(), &means, 2.0, 8.75).unwrap();
    close(partial.joules, 5.0 * (64.0 - 4.0) + 0.75 * 85.0);
    let truth = 5.0 * (8.75f64.powi(2) - 4.0);
    assert!((partial.joules - truth).abs() < component(&partial, UncertaintySource::Edges));
    close(component(&partial, UncertaintySource::Edges), 2.5);
}

#[test]
fn counters_are_read_across_a_wrap() {
    let wrap = Wrap { range: 1000, max_watts: 300.0 };
    let values = counts(&[(0.0, 900), (1.0, 980), (2.0, 60), (3.0, 140), (4.0, 220)]);
    let channel = counter(Some(wrap));
    close(joules(&channel, &values, 0.0, 4.0), 160.0);
    close(joules(&channel, &values, 1.5, 3.5), 80.0);
    assert_eq!(energy(&counter(None), &values, 0.0, 4.0), Err(Incomplete::WentBack));
}

#[test]
fn a_wrap_too_many_is_refused_where_power_allows_it() {
    // 80 J seen in 1 s. The counter holds 500 J: at 300 W another wrap takes more than 1.6 s.
    let channel = counter(Some(Wrap { range: 1000, max_watts: 300.0 }));
    let near = counts(&[(0.0, 0), (1.0, 160), (2.0, 320), (3.0, 480), (4.0, 640)]);
    close(joules(&channel, &near, 0.0, 4.0), 320.0);
    let far = counts(&[(0.0, 0), (1.0, 160), (3.0, 320), (4.0, 480), (5.0, 640)]);
    assert_eq!(energy(&channel, &far, 0.0, 5.0), Err(Incomplete::Wraps { seconds: 2.0 }));
    // The doubtful stretch matters only to windows that touch it.
    close(joules(&channel, &far, 3.0, 5.0), 160.0);
    close(joules(&channel, &far, 0.0, 1.0), 80.0);
    let reset = counts(&[(0.0, 500), (1.0, 490), (2.0, 650)]);
    assert_eq!(energy(&channel, &reset, 0.0, 2.0), Err(Incomplete::WentBack));
    let beyond = counts(&[(0.0, 500), (1.0, 1000)]);
    assert_eq!(energy(&channel, &beyond, 0.0, 1.0), Err(Incomplete::WentBack));
}

#[test]
fn a_wide_range_does_not_overflow() {
    let channel = counter(Some(Wrap { range: u64::MAX, max_watts: 1e30 }));
    assert!(energy(&channel, &counts(&[(0.0, u64::MAX - 1), (1.0, 0)]), 0.0, 1.0).is_err());
}

#[test]
fn gaps_are_bridged_up_to_the_stated_length() {
    let without = |from: u64, to: u64| -> Vec<Reading> {
        let missing = from * SECOND..=to * SECOND;
        seconds(|_| 40.0).into_iter().filter(|reading| !missing.contains(&reading.end_ns)).collect()
    };
    for channel in [channel(ChannelKind::Instant), averages()] {
        close(joules(&channel, &without(8, 9), 3.0, 17.0), 560.0);
    }
    let instant = channel(ChannelKind::Instant);
    let got = energy(&instant, &without(8, 10), 3.0, 17.0);
    assert_eq!(got, Err(Incomplete::Gap { seconds: 4.0, limit_s: 3.0 }));
    close(joules(&averages(), &without(8, 10), 3.0, 17.0), 560.0);
    assert!(energy(&averages(), &without(8, 11), 3.0, 17.0).is_err());
    close(joules(&instant, &without(8, 11), 12.0, 20.0), 320.0);
    // A counter's gap does no harm between the edges, but at an edge hides where the energy went.
    let counter = counter(None);
    let sparse = counts(&[(0.0, 0), (1.0, 80), (9.0, 720), (10.0, 800)]);
    close(joules(&counter, &sparse, 0.5, 9.5), 360.0);
    assert_eq!(energy(&counter, &sparse, 2.0, 10.0), Err(Incomplete::Gap { seconds: 8.0, limit_s: 3.0 }));
}

#[test]
fn windows_beyond_the_readings_are_refused() {
    let instant = channel(ChannelKind::Instant);
    let readings = seconds(|_| 40.0);
    assert_eq!(energy(&instant, &readings, 0.5, 10.0), Err(Incomplete::LateStart));
    assert_eq!(energy(&instant, &readings, 10.0, 20.5), Err(Incomplete::EarlyEnd));
    assert_eq!(energy(&instant, &[], 0.5, 10.0), Err(Incomplete::Silent));
    assert_eq!(energy(&instant, &readings, 10.0, 10.0), Err(Incomplete::Empty));
    let short = Incomplete::TooShort { period_s: 1.0, least: Duration::from_secs(5) };
    assert_eq!(energy(&instant, &readings, 10.5, 13.5), Err(short.clone()));
    assert_eq!(energy(&instant, &readings, 10.5, 10.75), Err(short));
    let missed: Vec<Reading> =
        readings.iter().filter(|one| (one.end_ns / SECOND).is_multiple_of(3)).copied().collect();
    let missed = [&readings[..9], &missed[3..5], &readings[15..]].concat();
    assert_eq!(energy(&instant, &missed, 10.5, 15.5), Err(Incomplete::TooFew { found: 2 }));
    // Not numbers, and not of this channel: no readings.
    let nan = seconds(|at| if at == 7.0 { f64::NAN } else { 40.0 });
    close(joules(&instant, &nan, 2.0, 18.0), 640.0);
    let other: Vec<Reading> = readings.iter().map(|reading| Reading { channel: 1, ..*reading }).collect();
    assert_eq!(energy(&instant, &other, 2.0, 18.0), Err(Incomplete::Silent));
    let mut backwards = readings.clone();
    backwards.swap(3, 4);
    assert_eq!(energy(&instant, &backwards, 2.0, 18.0), Err(Incomplete::Disordered));
}

/// A meter of 5 s that the study reads every second: its rhythm was called a gap, and so was a pause in a
/// window that was too short anyway.
/// Readings every second of a meter whose values are 10 s old at the most; load is on from 30 to 60 s.
fn aged() -> Vec<Reading> {
    let watts = |at: u32| {
        let load = if (30..60).contains(&at) { 20.0 } else { 0.0 };
        40.0 + load + [0.0, 0.3, -0.2][at as usize % 3]
    };
    (0..120).map(|at| reading(f64::from(at) + 5.0, Value::Watts(watts(at)))).collect()
}

/// The offset of another host's clock is the same for all readings, as the age of a value is: it does not
/// scatter.
#[test]
fn an_uncertain_clock_exchanges_power_between_the_edges_of_a_window() {
    let channel = channel(ChannelKind::Average { window_ns: SECOND });
    let watts = |at: u32| if at <= 30 { 40.0 } else { 60.0 };
    let readings: Vec<Reading> = (1..=60).map(|at| reading(f64::from(at), Value::Watts(watts(at)))).collect();
    let clock_joules = |age_ns, within_ns| {
        let trace = Trace::new(&channel, 0, &readings, Clock::Host { age_ns, within_ns }, &[]).unwrap();
        component(&trace.energy(window(20.0, 40.0), BRIDGE_NS).unwrap(), UncertaintySource::Clock)
    };
    close(clock_joules(0, SECOND / 10), 20.0 * 0.1 / 3f64.sqrt());
    close(clock_joules(SECOND / 10, SECOND / 10), (20.0 * 0.1) * (1.0 / 3.0 + 1.0 / 12.0f64).sqrt());
}

#[test]
fn readings_that_the_clock_cannot_place_about_an_edge_are_no_gap_and_add_their_uncertainty() {
    let channel = channel(ChannelKind::Instant);
    let clock = Clock::Host { age_ns: 10 * SECOND, within_ns: 0 };
    let load = window(30.0, 60.0);
    let energy = |readings: &[Reading], window| {
        let trace = Trace::new(&channel, 0, readings, clock, &[load.begin_ns, load.end_ns]).unwrap();
        trace.energy(window, BRIDGE_NS)
    };
    let whole = energy(&aged(), load).unwrap();
    assert!((whole.joules - 1800.0).abs() < 5.0, "{}", whole.joules);
    // The readings from 36 to 54 s count; the first and the last of them for 6 s more.
    let placed = energy(&aged(), window(36.0, 54.0)).unwrap();
    let noise = |energy: &Energy| component(energy, UncertaintySource::Noise);
    close(noise(&whole) / noise(&placed), f64::sqrt((2.0 * 6.5 * 6.5 + 17.0) / 17.5));
    assert!(component(&whole, UncertaintySource::Clock) > 19.0 * 10.0 / 12f64.sqrt());
    // The same if the readings begin and end close to the edges.
    let few: Vec<Reading> = aged().into_iter().skip(28).take(35).collect();
    close(energy(&few, load).unwrap().joules, whole.joules);
    assert!(component(&energy(&few, load).unwrap(), UncertaintySource::Clock) > 19.0 * 10.0 / 12f64.sqrt());
    let late: Vec<Reading> = aged().into_iter().skip(31).collect();
    assert_eq!(energy(&late, load), Err(Incomplete::LateStart));
    // Time without readings is a gap there too, of its own length.
    let silent: Vec<Reading> =
        aged().into_iter().filter(|one| !(36.5..40.5).contains(&(one.begin_ns as f64 * 1e-9))).collect();
    let Err(Incomplete::Gap { seconds, limit_s: 3.0 }) = energy(&silent, load) else { panic!() };
    close(seconds, 5.0);
}

#[test]
fn a_reading_in_the_window_counts_though_load_began_before_the_window() {
    let readings = gauge(&[(0.0, 40.0), (3.1, 41.0), (6.2, 40.0), (9.3, 41.0), (12.4, 40.0), (15.5, 41.0)]);
    let channel = channel(ChannelKind::Instant);
    let measured = window(3.0, 12.5);
    let changes = [2_640_000_000, measured.end_ns];
    let trace = Trace::new(&channel, 0, &readings, HOST, &changes).unwrap();
    let energy = trace.energy(measured, 10 * SECOND).unwrap();
    assert!((energy.joules - 9.5 * 40.5).abs() < 3.0, "{}", energy.joules);
    assert!(component(&energy, UncertaintySource::Noise) > 0.0);
}

#[test]
fn a_slow_meter_has_no_gap() {
    let instant = channel(ChannelKind::Instant);
    let rare: Vec<(f64, f64)> = (0..20).map(|at| (5.0 * f64::from(at), 40.0)).collect();
    let too_rare = Err(Incomplete::TooRare { period_s: 5.0, limit_s: 3.0 });
    assert_eq!(energy(&instant, &gauge(&rare), 20.0, 60.0), too_rare);
    let paused: Vec<Reading> =
        seconds(|_| 40.0).into_iter().filter(|one| !(8..12).contains(&(one.end_ns / SECOND))).collect();
    let short = Incomplete::TooShort { period_s: 1.0, least: Duration::from_secs(5) };
    assert_eq!(energy(&instant, &paused, 9.0, 10.0), Err(short.clone()));
    let says = short.to_string();
    let wants =
        "every 1.0 s; the window must hold 4 values: use a `runtime` of at least 5s, or a faster meter";
    assert!(says.contains(wants), "{says}");
}

#[test]
fn overlapping_averages_count_once() {
    // A moving average of 1 s, read every 0.25 s; and one read a little early every time.
    for apart_s in [0.25, 0.4, 0.999] {
        let values: Vec<(f64, f64)> = (4..80).map(|at| (f64::from(at) * apart_s, 40.0)).collect();
        let end_s = 70.0 * apart_s;
        close(joules(&averages(), &gauge(&values), 5.0, end_s), 40.0 * (end_s - 5.0));
    }
}

#[test]
fn a_known_change_is_no_slope() {
    // 100 W until 10.3 s, then 20 W.
    let change = [(10.3 * 1e9) as u64];
    let mean = |at: f64| {
        if at == 11.0 {
            0.3 * 100.0 + 0.7 * 20.0
        } else if at < 11.0 {
            100.0
        } else {
            20.0
        }
    };
    let instant = |at: f64| if at < 10.3 { 100.0 } else { 20.0 };
    for (channel, readings) in
        [(channel(ChannelKind::Instant), seconds(instant)), (averages(), seconds(mean))]
    {
        let trace = Trace::new(&channel, 0, &readings, HOST, &change).unwrap();
        let before = trace.energy(window(2.5, 10.3), BRIDGE_NS).unwrap();
        close(before.joules, 780.0);
        assert!(before.random_standard() < 1e-6, "{before:?}");
        close(trace.energy(window(10.3, 18.5), BRIDGE_NS).unwrap().joules, 164.0);
        close(trace.energy(window(2.5, 18.5), BRIDGE_NS).unwrap().joules, 944.0);
        // Without that knowledge the estimate is off, and its uncertainty shows it.
        let blind = energy(&channel, &readings, 2.5, 10.3).unwrap();
        assert!((blind.joules - 780.0).abs() > 1.0);
        assert!((blind.joules - 780.0).abs() < 1.001 * blind.random_standard(), "{blind:?}");
    }
    // A gap with a change inside is still a gap.
    let sparse: Vec<Reading> = seconds(instant)
        .into_iter()
        .filter(|reading| !(9 * SECOND..=12 * SECOND).contains(&reading.end_ns))
        .collect();
    let instants = channel(ChannelKind::Instant);
    let trace = Trace::new(&instants, 0, &sparse, HOST, &change).unwrap();
    assert_eq!(
        trace.energy(window(2.5, 10.3), BRIDGE_NS),
        Err(Incomplete::Gap { seconds: 5.0, limit_s: 3.0 })
    );
}

#[test]
fn noise_is_the_residuals() {
    // Residuals against the neighbours' line are 2 W each, of a scatter root(1.5) smaller.
    let zigzag = seconds(|at| 40.0 + if at % 2.0 == 0.0 { 1.0 } else { -1.0 });
    let energy = energy(&averages(), &zigzag, 2.0, 18.0).unwrap();
    close(component(&energy, UncertaintySource::Noise), 2.0 / 1.5f64.sqrt() * 4.0);
    let noise = energy.random.iter().find(|component| component.source == UncertaintySource::Noise).unwrap();
    // 14 residuals, of which neighbours correlate by -2/3 and those two places apart by 1/6.
    close(noise.dof.unwrap(), 196.0 / (14.0 + 2.0 * (13.0 * 4.0 / 9.0 + 12.0 / 36.0)));
}

#[test]
fn the_budget_names_what_the_readings_cannot_tell() {
    let mut rounded = averages();
    rounded.resolution = 1.0;
    rounded.accuracy = Some(Accuracy { gain: Distribution::Normal(0.01), offset: Distribution::NONE });
    let flat = energy(&rounded, &seconds(|_| 40.0), 2.0, 18.0).unwrap();
    // All readings may be rounded alike.
    close(component(&flat, UncertaintySource::Resolution), 16.0 / 12f64.sqrt());
    assert_eq!(flat.accuracy, rounded.accuracy);
    let mut coarse = counter(None);
    coarse.resolution = 3600.0;
    let counted = counts(&[(0.0, 0), (1.0, 80), (2.0, 160)]);
    close(
        component(&energy(&coarse, &counted, 0.0, 2.0).unwrap(), UncertaintySource::Resolution),
        3600.0 / 6f64.sqrt(),
    );
    // Power falls by 60 W within the window, and the values are up to 1.2 s old.
    let clock = Clock::Host { age_ns: 1_200_000_000, within_ns: 0 };
    let falling = seconds(|at| if at < 11.0 { 100.0 } else { 40.0 });
    let averages = averages();
    let trace = Trace::new(&averages, 0, &falling, clock, &[]).unwrap();
    let late = trace.energy(window(2.0, 18.0), BRIDGE_NS).unwrap();
    close(component(&late, UncertaintySource::Clock), 60.0 * 1.2 / 12f64.sqrt());
    close(late.joules, 100.0 * 7.4 + 40.0 * 8.6);
}

#[test]
fn slow_reads_blur_the_instants() {
    let mut readings = seconds(|at| 10.0 * at);
    for reading in &mut readings {
        reading.begin_ns -= SECOND / 10;
        reading.end_ns += SECOND / 10;
    }
    let blurred = energy(&channel(ChannelKind::Instant), &readings, 2.0, 18.0).unwrap();
    close(blurred.joules, 5.0 * (324.0 - 4.0));
    close(component(&blurred, UncertaintySource::Jitter), 10.0 * 0.2 / 12f64.sqrt() * 4.0);
}

proptest! {
    #[test]
    fn a_piecewise_linear_power_is_exact_by_trapezoid(
        powers in prop::collection::vec(0.0..500.0, 12),
        apart in prop::collection::vec(0.1..2.9, 12),
        from in 0.0..0.3,
        to in 0.6..1.0,
    ) {
        let mut at_s = 1.0;
        let nodes: Vec<(f64, f64)> = powers
            .iter()
            .zip(&apart)
            .map(|(watts, apart)| {
                at_s += (apart * 1e6f64).round() / 1e6;
                (at_s, *watts)
            })
            .collect();
        let (first, last) = (nodes[0].0, nodes[11].0);
        let (begin_s, end_s) = (first + from * (last - first), first + to * (last - first));
        let bounds = window(begin_s, end_s);
        let (begin_s, end_s) = (bounds.begin_ns as f64 * 1e-9, bounds.end_ns as f64 * 1e-9);
        let truth: f64 = nodes
            .windows(2)
            .map(|pair| {
                let line = |at: f64| {
                    pair[0].1 + (pair[1].1 - pair[0].1) * (at - pair[0].0) / (pair[1].0 - pair[0].0)
                };
                let (low, high) = (pair[0].0.max(begin_s), pair[1].0.min(end_s));
                if low < high { (high - low) * line(f64::midpoint(low, high)) } else { 0.0 }
            })
            .sum();
        match energy(&channel(ChannelKind::Instant), &gauge(&nodes), begin_s, end_s) {
            Ok(energy) => prop_assert!(
                (energy.joules - truth).abs() <= 1e-6 * truth.max(1.0),
                "{} {truth}",
                energy.joules
            ),
            Err(fault) => prop_assert!(
                matches!(fault, Incomplete::TooFew { .. } | Incomplete::TooShort { .. }),
                "{fault}"
            ),
        }
    }

    #[test]
    fn where_a_counter_starts_does_not_matter(
        start in 0u64..1000,
        steps in prop::collection::vec(0u64..300, 2..30),
    ) {
        let channel = counter(Some(Wrap { range: 1000, max_watts: 300.0 }));
        let read = |start: u64| {
            let mut count = start;
            let mut values = vec![(0.0, count)];
            for (at, step) in steps.iter().enumerate() {
                count = (count + step) % 1000;
                values.push((at as f64 + 1.0, count));
            }
            values
        };
        let end_s = steps.len() as f64 - 0.25;
        let got = joules(&channel, &counts(&read(start)), 0.25, end_s);
        prop_assert!((got - joules(&channel, &counts(&read(0)), 0.25, end_s)).abs() <= 1e-9);
        let whole = joules(&channel, &counts(&read(start)), 0.0, steps.len() as f64);
        prop_assert!((whole - 0.5 * steps.iter().sum::<u64>() as f64).abs() <= 1e-9);
    }

    #[test]
    fn windows_add_up(
        powers in prop::collection::vec(0.0..500.0, 40),
        cut in 8.0..30.0,
        change in 2.0..38.0,
        is_average: bool,
    ) {
        let channel = if is_average { averages() } else { channel(ChannelKind::Instant) };
        let values: Vec<(f64, f64)> =
            powers.iter().enumerate().map(|(at, watts)| (at as f64 + 1.0, *watts)).collect();
        let readings = gauge(&values);
        let trace = Trace::new(&channel, 0, &readings, HOST, &[(change * 1e9) as u64]).unwrap();
        let joules =
            |begin_s: f64, end_s: f64| trace.energy(window(begin_s, end_s), BRIDGE_NS).unwrap().joules;
        let whole = joules(2.3, 37.7);
        prop_assert!((joules(2.3, cut) + joules(cut, 37.7) - whole).abs() <= 1e-6 * whole.max(1.0));
    }

    #[test]
    fn no_readings_make_it_panic(
        values in prop::collection::vec(any::<(u64, u64, u64, f64, bool)>(), 0..12),
        begin_ns: u64,
        end_ns: u64,
        bridge_ns: u64,
        change: u64,
        kind in 0usize..3,
        range: u64,
    ) {
        let wrap = Some(Wrap { range, max_watts: 1e3 });
        let kinds = [
            ChannelKind::Counter { joules_per_count: 1e-6, wrap },
            ChannelKind::Instant,
            ChannelKind::Average { window_ns: begin_ns },
        ];
        let channel = channel(kinds[kind]);
        let readings: Vec<Reading> = values
            .into_iter()
            .map(|(begin_ns, end_ns, count, watts, is_count)| Reading {
                channel: 0,
                value: if is_count { Value::Count(count) } else { Value::Watts(watts) },
                begin_ns,
                end_ns,
                wall_ns: 0,
                own_ns: None,
            })
            .collect();
        for readings in [readings.clone(), {
            let mut sorted = readings;
            sorted.sort_by_key(|r| r.begin_ns.midpoint(r.end_ns));
            sorted
        }] {
            if let Ok(trace) = Trace::new(&channel, 0, &readings, HOST, &[change]) {
                let _ = trace.energy(Window { begin_ns, end_ns }, bridge_ns);
            }
        }
    }
}
