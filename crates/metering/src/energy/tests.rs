//! When a session rests and plays its pattern.

use super::schedule::EVERY;
use super::*;
use crate::progress::Said;
use iopj_meter::{Channel, Pattern, Reading, Value};

/// The marks of a session without a meter that reads along, after these trials.
fn marks(trials: &[(GroupPosition, Duration)], every: Duration) -> Vec<MarkKind> {
    marks_after(|_| {}, trials, every)
}

/// The same of a session that was changed before.
fn marks_after(
    change: impl FnOnce(&mut Metering),
    trials: &[(GroupPosition, Duration)],
    every: Duration,
) -> Vec<MarkKind> {
    let (_folder, mut store, mut metering) = session(every);
    change(&mut metering);
    let stop = AtomicBool::new(false);
    for (place, next) in trials {
        let context = &mut MeteringContext {
            store: &mut store,
            progress: &mut Said::default(),
            stop: &stop,
            far: None,
        };
        metering.before_trial(*place, *next, context).unwrap();
    }
    store.marks(metering.session.unwrap()).unwrap().into_iter().map(|mark| mark.kind).collect()
}

fn session(every: Duration) -> (tempfile::TempDir, Store, Metering) {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::create(&folder.path().join("t.iopj"), &Default::default()).unwrap();
    let session = store.add_session("boot", 0).unwrap();
    let ms = Duration::from_millis;
    let metering = Metering {
        running: Vec::new(),
        far: None,
        schedule: Schedule {
            // Long enough that no block is time for a rest of its own.
            idle: rest::RestTimes { settle: ms(0), settle_limit: ms(0), look_every: ms(1), length: ms(20) },
            every,
            pattern: Some(Pattern::played(0, &[1_000_000, 2_000_000], 3_000_000).unwrap()),
            rests: true,
            sees: ms(10_700),
        },
        session: Some(session),
        models: Vec::new(),
        short_windows: None,
        so_far: None,
        rested: Instant::now(),
        rest_took: Duration::ZERO,
        played: Instant::now(),
        has_warned: false,
    };
    (folder, store, metering)
}

/// A meter of 10 ms that always says 10 W.
struct Ten([Channel; 1]);

impl iopj_meter::Meter for Ten {
    fn channels(&self) -> &[Channel] {
        &self.0
    }

    fn read(&mut self, out: &mut Vec<Reading>) -> Result<(), iopj_meter::MeterError> {
        let (now_ns, value) = (monotonic_raw_ns(), Value::Watts(10.0));
        out.push(Reading { channel: 0, value, begin_ns: now_ns, end_ns: now_ns, wall_ns: 0, own_ns: None });
        Ok(())
    }
}

struct OpenTen;

impl kinds::OpenMeter for OpenTen {
    fn open(&self, _: iopj_core::Allow) -> Result<Box<dyn iopj_meter::Meter>, iopj_meter::OpenError> {
        let (name, scope, kind) =
            ("p".to_owned(), iopj_meter::Scope::System, iopj_meter::ChannelKind::Instant);
        let channel = Channel { name, scope, kind, resolution: 0.0, accuracy: None, parent: None };
        Ok(Box::new(Ten([channel])))
    }
}

/// A meter of 10 ms, with what it has read when this returns.
pub(super) fn ten(name: &str, stop: &AtomicBool) -> RunningMeter {
    let ms = Duration::from_millis;
    // However late a busy machine lets it read.
    let (age, bridge) = (Duration::ZERO, Duration::from_secs(60));
    let spec = MeterSpec {
        name: name.to_owned(),
        kind: "test",
        interval: ms(10),
        clock: config::ClockChoice::Host,
        age,
        bridge,
    };
    let meter = thread::OpeningMeter::start(spec, Box::new(OpenTen), iopj_core::Allow::NOTHING)
        .unwrap()
        .open(stop)
        .unwrap();
    wait_for(&meter, 5);
    meter
}

/// Until a meter has so many readings that nobody has taken.
fn wait_for(meter: &RunningMeter, count: usize) {
    while meter.look().0.len() < count {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The session held what meters had read while the file was made.
#[test]
fn what_was_read_before_a_session_is_not_in_it() {
    let (_folder, mut store, mut metering) = session(EVERY);
    let stop = AtomicBool::new(false);
    metering.running.push((ten("t", &stop), None));
    let began_ns = monotonic_raw_ns();
    let mut said = Said::default();
    let context = &mut MeteringContext { store: &mut store, progress: &mut said, stop: &stop, far: None };
    metering.begin(context).unwrap();
    wait_for(&metering.running[0].0, 1);
    metering.drain(context).unwrap();
    let readings = store.readings(metering.running[0].1.unwrap()).unwrap();
    // One that was under way when the session began may be among them.
    let early = readings.iter().filter(|reading| reading.end_ns < began_ns).count();
    assert!(!readings.is_empty() && early <= 1, "{early} of {}", readings.len());
}

/// What of a trial's energy is known before its meter has read beyond its window, and after.
#[test]
fn who_follows_a_run_sees_its_power_and_the_energy_of_each_trial_once() {
    let (_folder, mut store, mut metering) = session(EVERY);
    let stop = AtomicBool::new(false);
    let mut said = Said::default();
    let context = &mut MeteringContext { store: &mut store, progress: &mut said, stop: &stop, far: None };
    metering.running.push((ten("t", &stop), None));
    assert_eq!(metering.so_far(), Default::default(), "nobody follows");
    metering.so_far = Some(SoFar::default());
    metering.drain(context).unwrap();
    let begin_ns = monotonic_raw_ns();
    wait_for(&metering.running[0].0, 30);
    metering.drain(context).unwrap();
    // It ends later than the last reading.
    let end_ns = monotonic_raw_ns() + 20_000_000;
    let window_raw_ns = Some([begin_ns, end_ns]);
    metering.wait_for(7, &Measurement { ios: 100, window_raw_ns, ..Measurement::default() });
    let (power, known) = metering.so_far();
    assert_eq!((power[0].watts, power[0].meter.as_str(), known.len()), (10.0, "t", 0));
    // The second reading from here on begins after the window has ended.
    while monotonic_raw_ns() <= end_ns {
        std::thread::sleep(Duration::from_millis(5));
    }
    metering.drain(context).unwrap();
    wait_for(&metering.running[0].0, 2);
    metering.drain(context).unwrap();
    let (_, known) = metering.so_far();
    let [(trial, energy)] = &known[..] else { panic!("{known:?}") };
    assert_eq!((trial.cell, trial.ios, energy[0].scope), (7, 100, iopj_meter::Scope::System));
    let iopj_core::EnergyOutcome::Complete(joules) = &energy[0].outcome else { panic!("{energy:?}") };
    assert!((joules.joules - 10.0 * joules.seconds).abs() < 1e-6, "{joules:?}");
    assert!(metering.so_far().1.is_empty(), "it was told");
}

const FIRST: GroupPosition = GroupPosition::First { is_due: false };

#[test]
fn within_a_block_too_rests_and_patterns_are_no_farther_apart_than_half_an_hour() {
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    let both = [MarkKind::Pattern, MarkKind::Idle];
    assert_eq!(EVERY, minutes(30));
    let rested_ago = |ago: Duration, trials: &[(GroupPosition, Duration)], every: Duration| {
        let changed = |metering: &mut Metering| metering.rested = Instant::now() - ago;
        marks_after(changed, trials, every)
    };
    // A short trial needs nothing, one that ends too late both.
    assert_eq!(
        marks(&[(GroupPosition::Within, minutes(20)), (GroupPosition::Within, minutes(20))], EVERY),
        []
    );
    assert_eq!(rested_ago(minutes(1), &[(GroupPosition::Within, minutes(31))], EVERY), both);
    assert_eq!(
        rested_ago(
            minutes(1),
            &[(GroupPosition::Within, minutes(20)), (GroupPosition::Within, minutes(31))],
            EVERY
        ),
        both
    );
    // Where the time is over before the trial.
    assert_eq!(rested_ago(minutes(1), &[(GroupPosition::Within, minutes(0))], minutes(0)), both);
    // At a block's begin the idle stretch alone, if it is due.
    assert_eq!(marks(&[(GroupPosition::First { is_due: true }, minutes(1))], EVERY), [MarkKind::Idle]);
}

/// The first trial had what it needed, though its target may have been written for hours since the machine
/// rested.
#[test]
fn the_first_trial_asks_how_long_ago_the_machine_has_rested() {
    let (minute, hour) = (Duration::from_secs(60), Duration::from_secs(3600));
    let both = [MarkKind::Pattern, MarkKind::Idle];
    let rested_ago = |ago: Duration| {
        let changed = |metering: &mut Metering| {
            (metering.rested, metering.played) = (Instant::now() - ago, Instant::now() - ago);
        };
        marks_after(changed, &[(FIRST, minute)], EVERY)
    };
    assert_eq!(rested_ago(hour), both);
    // Four times as long as a stretch took is enough where a block or class begins.
    assert_eq!(rested_ago(minute), [MarkKind::Idle]);
    let slow = |metering: &mut Metering| {
        (metering.rested, metering.rest_took) = (Instant::now() - minute, minute);
    };
    assert_eq!(marks_after(slow, &[(FIRST, minute)], EVERY), []);
}

/// A rest that took 20 minutes put the next one off for 80, and idle power was interpolated over all of them.
#[test]
fn a_rest_that_took_long_puts_no_stretch_off_within_a_block() {
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    let rested_ago = |ago: Duration| {
        let changed = |metering: &mut Metering| {
            (metering.rested, metering.rest_took) = (Instant::now() - ago, minutes(20))
        };
        marks_after(changed, &[(GroupPosition::Within, minutes(15))], EVERY)
    };
    assert_eq!(rested_ago(minutes(10)), []);
    assert_eq!(rested_ago(minutes(16)), [MarkKind::Idle]);
}

/// It was a warning at every rest, and one of power that was not flat where nobody could have seen it.
#[test]
fn power_that_was_not_flat_is_warned_of_once_and_what_cannot_be_seen_is_no_warning() {
    for (limit_s, begin) in [
        (10, "it is not known whether power was flat after 10s, because that takes 10.7 s to see"),
        (11, "warning: power was not flat after 11s"),
    ] {
        let (_folder, mut store, mut metering) = session(EVERY);
        metering.schedule.idle.settle_limit = Duration::from_secs(limit_s);
        let (mut said, stop) = (Said::default(), AtomicBool::new(false));
        for _ in 0..2 {
            metering
                .tell_unsettled(&mut MeteringContext {
                    store: &mut store,
                    progress: &mut said,
                    stop: &stop,
                    far: None,
                })
                .unwrap();
        }
        assert!(said.0.len() == 1 && said.0[0].starts_with(begin), "{:?}", said.0);
        assert_eq!(store.events().unwrap().len(), 2);
    }
}

#[test]
fn a_machine_settles_as_long_as_the_study_says_or_for_a_share_of_its_trials() {
    let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3600));
    let limit = |keys: &str, span: Duration, slowest: Duration| {
        let text = format!("name = \"t\"\npaths = \"available\"\n{keys}\n[[workload]]\n");
        let study = Study::parse(&text, "t").unwrap();
        Schedule::new(&study, span, Some(slowest), None).unwrap().idle.settle_limit
    };
    assert_eq!(limit("", hour, second / 10), 60 * second);
    assert_eq!(limit("", hour, 5 * second), 300 * second);
    assert_eq!(limit("", 10 * hour, 60 * second), 600 * second);
    // Thirty trials of 2.3 s rested for three minutes.
    assert_eq!(limit("", 69 * second, second / 10), 23 * second / 2);
    // What it takes to see it is not cut, where the trials are longer.
    assert_eq!(limit("", 30 * second, second / 10), Duration::from_millis(10_700));
    assert_eq!(limit("", 5 * second, second / 10), 5 * second);
    assert_eq!(limit("settle_limit = \"2m\"", second, second), 120 * second);
    assert!(
        Study::parse("name = \"t\"\npaths = \"available\"\nsettle_limit = \"x\"\n[[workload]]\n", "t")
            .is_err()
    );
}
