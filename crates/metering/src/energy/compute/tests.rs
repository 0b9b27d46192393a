mod both;

use super::super::attach::{AttachError, LogClock, attach, log_of};
use super::super::model::ModelText;
use super::super::record::ClockRecord;
use super::super::trace::{ChannelPower, traces};
use super::*;
use iopj_core::Scope;
use iopj_core::{Evidence, PowerReading, Workload};
use iopj_meter::Channel;
use iopj_meter::log::{Log, LogFormat, LogKind};
use iopj_meter::{ChannelKind, Pattern, Wrap};
use iopj_record::{StudyRecord, histogram};

pub(super) const SECOND: u64 = 1_000_000_000;
pub(super) const BEGIN_NS: u64 = 1000 * SECOND;
/// The first idle stretch, two trials, the idle stretch after them, and the two patterns about all.
pub(super) const IDLE: [[u64; 2]; 2] = [[1070, 1090], [1180, 1200]];
pub(super) const TRIALS: [[u64; 2]; 2] = [[1100, 1130], [1140, 1170]];
const PATTERNS_S: [u64; 2] = [1005, 1205];
pub(super) const END_NS: u64 = 1270 * SECOND;
const OFFSET_NS: i64 = 1_700_000_000_000_000_000;

pub(super) fn ns(seconds: [u64; 2]) -> [u64; 2] {
    seconds.map(|at| at * SECOND)
}

/// Wall time at a second of the raw clock.
fn unix_ns(second: u64) -> u64 {
    OFFSET_NS as u64 + second * SECOND
}

pub(super) fn trial(position: u64, window_raw_ns: [u64; 2]) -> Trial {
    let evidence = Evidence { window_ns: window_raw_ns[1] - window_raw_ns[0], ..Evidence::default() };
    let path = "io_uring/syscall/interrupt".parse().unwrap();
    let (observed, verdict) = iopj_probe::assess(&path, &evidence);
    let measurement = Measurement {
        window_ns: evidence.window_ns,
        ios: 3000,
        bytes: 3000 * 4096,
        reads: 3000,
        latency: histogram::summary(&histogram::new()),
        cpu_percent: 1.0,
        context_switches_per_io: 1.0,
        achieved_depth: 1.0,
        evidence,
        observed,
        verdict,
        window_raw_ns: Some(window_raw_ns),
        ..Measurement::default()
    };
    Trial {
        replicate: position as u32,
        position,
        ..Trial::new(path, Workload::default(), measurement.into())
    }
}

/// A store of two trials with their marks, in its folder; with load patterns or without.
fn store(with_patterns: bool) -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let study = "name = \"t\"\npaths = \"available\"\n[meters.wall]\nkind = \"log\"\nformat = \
                 \"hobo\"\n[[workload]]\nios = 1\n";
    let provenance = BTreeMap::from([("cpu_model".to_owned(), "Test CPU".to_owned())]);
    let record = StudyRecord { text: study.to_owned(), provenance, ..StudyRecord::default() };
    let mut store = Store::create(&folder.path().join("t.iopj"), &record).unwrap();
    let session = store.add_session("boot", OFFSET_NS).unwrap();
    let mut mark =
        |kind, position, times_ns| store.add_mark(session, &Mark { kind, position, times_ns }).unwrap();
    IDLE.into_iter().for_each(|idle| mark(MarkKind::Idle, None, ns(idle).to_vec()));
    for (position, window) in TRIALS.into_iter().enumerate() {
        mark(MarkKind::Load, Some(position as u64), ns(window).to_vec());
    }
    if with_patterns {
        patterns().into_iter().for_each(|times_ns| mark(MarkKind::Pattern, None, times_ns));
    }
    for (position, window) in TRIALS.into_iter().enumerate() {
        store.add(&trial(position as u64, ns(window))).unwrap();
    }
    (folder, store)
}

fn patterns() -> Vec<Vec<u64>> {
    let design = Pattern::design(SECOND);
    let times = |begin_s: u64| {
        let edges = [&[0], design.edges_ns(), &[design.end_ns()]].concat();
        edges.into_iter().map(|edge| begin_s * SECOND + edge as u64).collect()
    };
    PATTERNS_S.into_iter().map(times).collect()
}

/// 20 W at rest, 50 W in a trial and where a pattern's load is on.
fn joules_until(at_ns: u64) -> f64 {
    let patterns = patterns();
    let loads =
        patterns.iter().flat_map(|times| times[1..times.len() - 1].chunks(2).map(|pair| [pair[0], pair[1]]));
    let loaded = loads.chain(TRIALS.map(ns)).map(|[on, off]| at_ns.clamp(on, off) - on).sum::<u64>();
    20.0 * (at_ns - BEGIN_NS) as f64 * 1e-9 + 30.0 * loaded as f64 * 1e-9
}

/// Means over a second by a clock that runs 30 ppm fast, `offset_ns` ahead of the host's at raw time 0.
fn averages(offset_ns: i64) -> Vec<Reading> {
    let host = |second: u64| BEGIN_NS + second * SECOND + 300_000_000;
    let reading = |second: u64| {
        let watts = joules_until(host(second)) - joules_until(host(second - 1));
        let own_ns = offset_ns + (host(second) as f64 * (1.0 + 30e-6)) as i64;
        Reading {
            channel: 0,
            value: Value::Watts(watts),
            begin_ns: host(second),
            end_ns: host(second) + 1_000_000,
            wall_ns: 0,
            own_ns: Some(own_ns),
        }
    };
    (1..(END_NS - BEGIN_NS) / SECOND).map(reading).collect()
}

pub(super) fn average() -> Channel {
    Channel {
        name: "power".into(),
        scope: Scope::System,
        kind: ChannelKind::Average { window_ns: SECOND },
        resolution: 0.0,
        accuracy: Some(Accuracy { gain: Distribution::Rectangular(0.01), offset: Distribution::NONE }),
        parent: None,
    }
}

pub(super) fn record(clock: ClockRecord, channels: Vec<Channel>) -> MeterRecord {
    let (kind, interval_ns) = ("test".to_owned(), SECOND);
    MeterRecord {
        kind,
        interval_ns,
        clock,
        age_ns: 0,
        bridge_ns: 3 * SECOND,
        channels,
        model: None,
        there: None,
    }
}

fn add(store: &mut Store, record: &MeterRecord, readings: &[Reading]) {
    let meter = store.add_meter(1, "m", &serde_json::to_string(record).unwrap()).unwrap();
    let rows: Vec<ReadingRow> = readings.iter().filter_map(super::super::row).collect();
    store.add_readings(meter, &rows).unwrap();
}

pub(super) fn energies(store: &Store) -> Vec<Vec<TrialEnergy>> {
    store.trials().unwrap().iter().map(|trial| trial.outcome.measurement().unwrap().energy.clone()).collect()
}

#[test]
fn channels_of_a_scope_are_added_and_what_a_channel_contains_is_not() {
    let (_folder, mut store) = store(false);
    let kind = ChannelKind::Counter { joules_per_count: 1e-6, wrap: None };
    let channel = |name: &str, scope, parent: Option<&str>| Channel {
        name: name.into(),
        scope,
        kind,
        resolution: 1e-6,
        accuracy: None,
        parent: parent.map(str::to_owned),
    };
    let channels = vec![
        channel("package-0", Scope::Package, None),
        channel("package-1", Scope::Package, None),
        channel("package-0/core", Scope::Core, Some("package-0")),
        channel("package-0/die-0", Scope::Package, Some("package-0")),
        channel("psys", Scope::Psys, None),
    ];
    // Watts of each: a package of 10 W, one of 20 W, cores of 4 W.
    let watts = [10_u64, 20, 4, 5, 100];
    let mut readings = Vec::new();
    for tenth in 0..(END_NS - BEGIN_NS) / (SECOND / 10) {
        let at_ns = BEGIN_NS + tenth * SECOND / 10;
        for (channel, watts) in watts.into_iter().enumerate() {
            let value = Value::Count(watts * 100_000 * tenth);
            let (begin_ns, end_ns) = (at_ns, at_ns);
            readings.push(Reading { channel, value, begin_ns, end_ns, wall_ns: 0, own_ns: None });
        }
    }
    add(&mut store, &record(ClockRecord::Host, channels), &readings);
    assert_eq!(recompute(&mut store).unwrap(), Vec::<String>::new());
    for energy in energies(&store) {
        let of: Vec<(Scope, Vec<String>, f64)> = energy
            .into_iter()
            .filter(|e| e.meter == "m")
            .map(|e| (e.scope, e.channels.clone(), e.joules().unwrap().joules))
            .collect();
        let scopes: Vec<Scope> = of.iter().map(|(scope, ..)| *scope).collect();
        assert_eq!(scopes, [Scope::Psys, Scope::Package, Scope::Core]);
        assert_eq!(of[1].1, ["package-0", "package-1"]);
        for ((_, _, joules), expected) in of.iter().zip([3000.0, 900.0, 120.0]) {
            assert!((joules - expected).abs() < 1e-3, "{joules} J, {expected} J");
        }
    }
    let mut again = energies(&store);
    recompute(&mut store).unwrap();
    assert_eq!(std::mem::take(&mut again), energies(&store));
}

#[test]
fn a_meter_with_its_own_clock_is_placed_by_the_patterns() {
    let (_folder, mut store) = store(true);
    add(&mut store, &record(ClockRecord::Own, vec![average()]), &averages(OFFSET_NS + 87_000_000_000));
    assert_eq!(recompute(&mut store).unwrap(), Vec::<String>::new());
    for energy in energies(&store) {
        let joules = energy[0].joules().unwrap();
        assert!((joules.joules - 1500.0).abs() < 3.0, "{joules:?}");
        let [low, high] = joules.interval.unwrap();
        assert!(low < 1500.0 && 1500.0 < high);
        let above = joules.above_idle.as_ref().unwrap();
        assert!((above.idle_watts - 20.0).abs() < 0.05 && (above.joules - 900.0).abs() < 4.0, "{above:?}");
    }
}

#[test]
fn without_a_pattern_a_meters_own_clock_is_not_believed() {
    let (_folder, mut store) = store(false);
    add(&mut store, &record(ClockRecord::Own, vec![average()]), &averages(OFFSET_NS));
    let notes = recompute(&mut store).unwrap();
    assert!(notes[0].starts_with("the meter `m`: no load pattern was played"), "{notes:?}");
    for energy in energies(&store) {
        let EnergyOutcome::Incomplete(reason) = &energy[0].outcome else { panic!("{energy:?}") };
        assert!(reason.contains("no load pattern was played"), "{reason}");
    }
}

#[test]
fn a_trial_that_a_meter_missed_says_why() {
    let (_folder, mut store) = store(false);
    let mut readings = averages(0);
    readings.retain(|reading| reading.end_ns < 1150 * SECOND);
    add(&mut store, &record(ClockRecord::Host, vec![average()]), &readings);
    recompute(&mut store).unwrap();
    let of = energies(&store);
    assert!(of[0][0].joules().is_some());
    let EnergyOutcome::Incomplete(reason) = &of[1][0].outcome else { panic!("{of:?}") };
    assert!(reason.contains("end before the measured window does"), "{reason}");
}

/// A trial that a log was to cover said nothing of it, and one after a meter's end spoke of readings that
/// end.
#[test]
fn a_log_that_is_not_attached_and_a_meter_that_ended_say_so() {
    let (_folder, mut store) = store(false);
    let mut readings = averages(0);
    readings.retain(|reading| reading.end_ns < 1150 * SECOND);
    add(&mut store, &record(ClockRecord::Host, vec![average()]), &readings);
    let notice =
        "the meter `m` gives no more readings: `sh` ended with exit status: 3: run it by hand to see why";
    store.add_event(unix_ns(1151), "meter", notice).unwrap();
    // The meter of a later session, which ended at once for a reason of its own.
    let other = store.add_session("other", OFFSET_NS).unwrap();
    let text = serde_json::to_string(&record(ClockRecord::Host, vec![average()])).unwrap();
    let meter = store.add_meter(other, "m", &text).unwrap();
    let later = Reading { begin_ns: 2000 * SECOND, end_ns: 2000 * SECOND, ..readings[0] };
    store.add_readings(meter, &[super::super::row(&later).unwrap()]).unwrap();
    store.add_event(unix_ns(2001), "meter", "the meter `m` gives no more readings: unplugged").unwrap();
    let ends = ends(&store).unwrap();
    assert_eq!((ends.len(), ends[&meter].as_str()), (2, "unplugged"));
    recompute(&mut store).unwrap();
    let reason = |energy: &TrialEnergy| match &energy.outcome {
        EnergyOutcome::Incomplete(reason) => reason.clone(),
        EnergyOutcome::Complete(_) => String::new(),
        EnergyOutcome::Pending => panic!("it was computed"),
    };
    let of = energies(&store);
    let meters: Vec<&str> = of[1].iter().map(|energy| energy.meter.as_str()).collect();
    assert_eq!((meters, reason(&of[0][0])), (vec!["m", "wall"], String::new()));
    assert_eq!(
        reason(&of[1][0]),
        "the meter gave no more readings before the measured window ended: `sh` ended with exit status: 3: \
         run it by hand to see why"
    );
    assert_eq!(reason(&of[0][1]), NOT_ATTACHED);
    assert_eq!(of[0][1].scope, Scope::System);
}

#[test]
fn power_over_time_is_each_channels_in_its_session() {
    let (_folder, mut store) = store(true);
    let wrap = Some(Wrap { range: 1000, max_watts: 400.0 });
    let counter = |name: &str| Channel {
        name: name.into(),
        kind: ChannelKind::Counter { joules_per_count: 0.5, wrap },
        scope: Scope::Package,
        ..average()
    };
    let reading = |channel, tenths: u64, value| {
        let at_ns = BEGIN_NS + tenths * SECOND / 10;
        Reading { channel, value, begin_ns: at_ns, end_ns: at_ns + 2_000_000, wall_ns: 0, own_ns: None }
    };
    // 100 counts of 0.5 J in 1 s; 40 of them, 20 before and 20 after the wrap-around, in half of one; 10 s,
    // in which it may have wrapped around more than once, tell nothing; then 60 in 0.5 s.
    let counts = [(0, 880), (10, 980), (15, 20), (115, 30), (120, 90)];
    let mut readings: Vec<Reading> =
        counts.map(|(tenths, count)| reading(0, tenths, Value::Count(count))).into();
    readings.extend([(0, 7), (5, 7)].map(|(tenths, count)| reading(1, tenths, Value::Count(count))));
    readings.extend([(0, 21.5), (3, 22.5)].map(|(tenths, watts)| reading(2, tenths, Value::Watts(watts))));
    let instant = Channel { kind: ChannelKind::Instant, ..average() };
    let channels = vec![counter("package-0"), counter("package-1"), instant, average()];
    add(&mut store, &MeterRecord { age_ns: 600_000, ..record(ClockRecord::Host, channels) }, &readings);
    // A session of another boot, whose meter has a clock of its own that no pattern tells.
    let other = store.add_session("other", 0).unwrap();
    let text = serde_json::to_string(&record(ClockRecord::Own, vec![average()])).unwrap();
    let meter = store.add_meter(other, "m", &text).unwrap();
    store
        .add_readings(meter, &averages(OFFSET_NS).iter().filter_map(super::super::row).collect::<Vec<_>>())
        .unwrap();
    let trials = store.trials().unwrap();
    let [session, unplaced] = &traces(&store, &trials).unwrap()[..] else { panic!() };
    assert_eq!((session.session, session.positions.iter().copied().collect::<Vec<_>>()), (1, vec![0, 1]));
    let of = |channel: &ChannelPower| {
        let reading = |one: &PowerReading| (one.at_ns - BEGIN_NS, one.watts);
        (channel.name.clone(), channel.scope, channel.readings.iter().map(reading).collect::<Vec<_>>())
    };
    // A reading is placed in its middle, less half the value's age.
    let at = |tenths: u64| tenths * SECOND / 10 + 700_000;
    assert_eq!(
        session.channels.iter().map(of).collect::<Vec<_>>(),
        [
            ("m package-0".to_owned(), Scope::Package, vec![(at(10), 50.0), (at(15), 40.0), (at(120), 60.0)]),
            ("m package-1".to_owned(), Scope::Package, vec![(at(5), 0.0)]),
            ("m power".to_owned(), Scope::System, vec![(at(0), 21.5), (at(3), 22.5)]),
        ]
    );
    assert!(unplaced.session == 2 && unplaced.positions.is_empty() && unplaced.channels.is_empty());
}

#[test]
fn power_by_a_meters_own_clock_is_put_on_the_hosts() {
    let (_folder, mut store) = store(true);
    let shown = averages(OFFSET_NS + 87_000_000_000);
    add(&mut store, &record(ClockRecord::Own, vec![average()]), &shown);
    let [session] = &traces(&store, &store.trials().unwrap()).unwrap()[..] else { panic!() };
    let [power] = &session.channels[..] else { panic!() };
    assert_eq!((power.name.as_str(), power.readings.len()), ("m", shown.len()));
    for (reading, shown) in power.readings.iter().zip(&shown) {
        assert!(
            reading.at_ns.abs_diff(shown.begin_ns) < 30_000_000 && Value::Watts(reading.watts) == shown.value
        );
    }
}

/// A clock that nobody trusts.
const FOUND: LogClock = LogClock::Within(None);

fn log(readings: Vec<Reading>) -> Log {
    Log { channel: average(), readings, notes: Vec::new() }
}

#[test]
fn a_log_is_attached_by_its_pattern_whatever_its_clock_says() {
    let (_folder, mut store) = store(true);
    assert_eq!(log_of(&store, Default::default()).unwrap().0, "wall");
    // Two minutes wrong, and a logger that counts from its own begin.
    let wrong = "its clock is 119.9";
    for (offset_ns, offset) in
        [(OFFSET_NS - 120_000_000_000, Some(wrong)), (5_000_000_000 - BEGIN_NS as i64, None)]
    {
        let notes = attach(&mut store, "wall", &log(averages(offset_ns)), FOUND).unwrap();
        assert_eq!(notes.len(), 1, "{notes:?}");
        for part in ["the meter `wall`: its readings hold 2 of the 2 load patterns", "uncertain by up to 0.0"]
        {
            assert!(notes[0].contains(part), "{notes:?}");
        }
        assert_eq!(notes[0].contains("s behind the machine's"), offset.is_some(), "{notes:?}");
        assert!(offset.is_none_or(|offset| notes[0].contains(offset)), "{notes:?}");
        assert!(store.events().unwrap().last().unwrap().2.contains(&notes[0]));
        let of = energies(&store);
        assert_eq!((of[0].len(), of[0][0].meter.as_str()), (1, "wall"));
        assert!(of.iter().all(|energy| (energy[0].joules().unwrap().joules - 1500.0).abs() < 3.0), "{of:?}");
    }
}

#[test]
fn a_store_without_marks_is_refused_before_a_log_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let text = "name = \"t\"\npaths = \"available\"\n[[workload]]\nios = 1\n".to_owned();
    let record = StudyRecord { text, ..StudyRecord::default() };
    let store = Store::create(&folder.path().join("t.iopj"), &record).unwrap();
    let wrong_key = serde_json::from_str(r#"{"format": "none"}"#).unwrap();
    assert!(matches!(log_of(&store, wrong_key), Err(AttachError::NoMarks(_))));
}

#[test]
fn a_log_of_one_pattern_is_attached_and_says_that_its_drift_is_not_known() {
    let (_folder, mut store) = store(true);
    // It ends before the second pattern, or begins after the first.
    for range_s in [0..1200, 1069..2000] {
        let mut readings = averages(OFFSET_NS + 20_000_000_000);
        readings.retain(|reading| range_s.contains(&(reading.end_ns / SECOND)));
        let refused = attach(&mut store, "wall", &log(readings.clone()), FOUND).unwrap_err();
        assert!(refused.to_string().contains("--clock-within"), "{refused}");
        let minute = LogClock::Within(Some(std::time::Duration::from_secs(60)));
        let notes = attach(&mut store, "wall", &log(readings), minute).unwrap();
        assert_eq!(notes.len(), 1, "{notes:?}");
        for part in ["the meter `wall`: its readings hold 1 of the 2 load patterns", "200 ppm", "up to 0.0"] {
            assert!(notes[0].contains(part), "{notes:?}");
        }
        for energy in energies(&store) {
            assert!((energy[0].joules().unwrap().joules - 1500.0).abs() < 5.0, "{energy:?}");
        }
    }
}

#[test]
fn a_key_that_is_said_replaces_the_studys() {
    let (_folder, store) = store(true);
    let said = r#"{"format": "csv", "date_order": "dmy", "values": "average", "watts": "W"}"#;
    let (_, config) = log_of(&store, serde_json::from_str(said).unwrap()).unwrap();
    assert_eq!(
        (config.format, config.kind, config.watts.as_deref()),
        (LogFormat::Csv, Some(LogKind::Average), Some("W"))
    );
    let unix_s = |seconds: u64| OFFSET_NS / SECOND as i64 + seconds as i64;
    let [begin_s, end_s] = config.study_s.unwrap();
    assert!(begin_s == unix_s(PATTERNS_S[0]) && (unix_s(1264)..=unix_s(1265)).contains(&end_s), "{config:?}");
    let energy =
        super::super::config::with(&config, serde_json::from_str(r#"{"energy": "Wh"}"#).unwrap()).unwrap();
    assert_eq!((energy.watts, energy.energy.as_deref()), (None, Some("Wh")));
}

#[test]
fn a_log_without_the_pattern_is_refused_unless_its_clock_is_trusted() {
    let (_folder, mut store) = store(true);
    let flat = averages(OFFSET_NS).into_iter().enumerate().map(|(index, reading)| {
        let value = Value::Watts(50.0 + f64::from(index as u32 * 7 % 5));
        Reading { value, ..reading }
    });
    let flat = log(flat.collect());
    let refused = attach(&mut store, "wall", &flat, FOUND).unwrap_err();
    assert!(
        matches!(&refused, AttachError::Align(error) if error.to_string().contains("--trust-clock")),
        "{refused}"
    );
    assert!(store.meters().unwrap().is_empty());
    attach(&mut store, "wall", &flat, LogClock::Trusted).unwrap();
    assert!(energies(&store).iter().all(|energy| energy[0].joules().is_some()));
    // Instants too, of which a clock that is trusted to a second hides four about each edge.
    let instants = Log { channel: Channel { kind: ChannelKind::Instant, ..average() }, ..flat };
    let notes = attach(&mut store, "wall", &instants, LogClock::Trusted).unwrap();
    assert!(notes[0].contains("its clock is trusted, not checked; in the trials"), "{notes:?}");
    assert!(energies(&store).iter().all(|energy| energy[0].joules().is_some()));
    let other_day = averages(OFFSET_NS + 86_400_000_000_000);
    assert!(matches!(attach(&mut store, "wall", &log(other_day), FOUND), Err(AttachError::OtherTime)));
    let elapsed = averages(-(BEGIN_NS as i64));
    assert!(matches!(
        attach(&mut store, "wall", &log(elapsed), LogClock::Trusted),
        Err(AttachError::OwnStart)
    ));
    let within = LogClock::Within(Some(std::time::Duration::from_secs(60)));
    let refused = attach(&mut store, "wall", &log(averages(-(BEGIN_NS as i64))), within);
    assert!(matches!(refused, Err(AttachError::OwnStartWithin)));
}

#[test]
fn an_estimate_is_marked_and_needs_its_own_processor() {
    let (_folder, mut store) = store(false);
    let coefficients = |cpu: &str| {
        format!(
            "cpu_model = \"{cpu}\"\nsource = \"a test\"\nconstant_watts = 20.0\nresidual_standard_watts = \
             0.5\n[coefficients.ios]\nvalue = 0.1\nunit = \"J per I/O\"\n"
        )
    };
    for (cpu, expected) in [("Test CPU", Some(900.0)), ("Other CPU", None)] {
        let text = ModelText { scope: Scope::System, coefficients: coefficients(cpu) };
        add(&mut store, &MeterRecord { model: Some(text), ..record(ClockRecord::Host, Vec::new()) }, &[]);
        recompute(&mut store).unwrap();
        let of = energies(&store);
        assert!(of[0][0].estimated);
        // 20 W and 0.1 J for each of 100 I/Os a second, over 30 s.
        assert_eq!(of[0][0].joules().map(|joules| joules.joules.round()), expected);
    }
}

#[test]
fn an_error_that_channels_may_share_is_added_as_if_they_did() {
    let energy = |joules, gain: Option<Distribution>| {
        let accuracy = gain.map(|gain| Accuracy { gain, offset: Distribution::Rectangular(0.1) });
        Energy { joules, seconds: 10.0, random: Vec::new(), accuracy }
    };
    let (one, other) = (Distribution::Rectangular(0.01), Distribution::Rectangular(0.02));
    let both = sum(vec![energy(100.0, Some(one)), energy(300.0, Some(other))]).unwrap();
    assert_eq!((both.joules, both.seconds), (400.0, 10.0));
    let Accuracy { gain: Distribution::Rectangular(gain), offset } = both.accuracy.unwrap() else { panic!() };
    assert!((gain - 7.0 / 400.0).abs() < 1e-12 && offset == Distribution::Rectangular(0.2));
    assert_eq!(sum(vec![energy(1.0, Some(one)), energy(1.0, None)]).unwrap().accuracy, None);
    assert_eq!(sum(Vec::new()), None);
}
