//! When a session rests and plays its pattern.

use super::*;
use crate::plan::Cell;
use iopj_store::{Outcome, Unavailable};

struct Silent;

impl Progress for Silent {
    fn note(&mut self, _: &str) {}
    fn unavailable(&mut self, _: &[Unavailable]) {}
    fn file(&mut self, _: &Path, _: u64, _: u64) {}
    fn trial(&mut self, _: u64, _: u64, _: &Cell, _: Option<Duration>) {}
    fn ended(&mut self, _: &Outcome) {}
    fn tick(&mut self) {}
}

/// The marks of a session without a meter that reads along, after it was told of these trials.
fn marks(trials: &[(Place, Duration)], every: Duration) -> Vec<MarkKind> {
    marks_after(|_| {}, trials, every)
}

/// The same of a session that was changed before.
fn marks_after(change: impl FnOnce(&mut Metering), trials: &[(Place, Duration)], every: Duration) -> Vec<MarkKind> {
    let folder = tempfile::tempdir().unwrap();
    let record = serde_json::json!({
        "name": "t", "text": "", "seed": 1, "planned_trials": 2, "target": "t", "file_id": null,
        "provenance": {}, "warnings": [], "unavailable": [],
    });
    let record = serde_json::from_value(record).unwrap();
    let mut store = Store::create(&folder.path().join("t.iopj"), &record).unwrap();
    let session = store.add_session("boot", 0).unwrap();
    let ms = Duration::from_millis;
    let mut metering = Metering {
        running: Vec::new(),
        // Long enough that no block is time for a rest of its own.
        idle: rest::Idle { settle: ms(0), settle_limit: ms(0), look_every: ms(1), length: ms(20) },
        every,
        pattern: Some(Pattern::played(0, &[1_000_000, 2_000_000], 3_000_000).unwrap()),
        session: Some(session),
        models: Vec::new(),
        rests: true,
        rested: Instant::now(),
        rest_took: Duration::ZERO,
        played: Instant::now(),
    };
    change(&mut metering);
    let stop = AtomicBool::new(false);
    for (place, next) in trials {
        let hands = &mut Hands { store: &mut store, progress: &mut Silent, stop: &stop };
        metering.before_trial(*place, *next, hands).unwrap();
    }
    store.marks(session).unwrap().into_iter().map(|mark| mark.kind).collect()
}

const FIRST: Place = Place::Begins { is_due: false };

#[test]
fn within_a_block_too_rests_and_patterns_are_no_farther_apart_than_half_an_hour() {
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    let both = [MarkKind::Pattern, MarkKind::Idle];
    assert_eq!(EVERY, minutes(30));
    // A short trial needs nothing, one that ends too late both.
    assert_eq!(marks(&[(Place::Within, minutes(20)), (Place::Within, minutes(20))], EVERY), []);
    assert_eq!(marks(&[(Place::Within, minutes(31))], EVERY), both);
    assert_eq!(marks(&[(Place::Within, minutes(20)), (Place::Within, minutes(31))], EVERY), both);
    // Where the time is over before each trial.
    assert_eq!(marks(&[(Place::Within, minutes(0)), (Place::Within, minutes(0))], minutes(0)), [both, both].concat());
    // At a block's begin the idle stretch alone, if it is due.
    assert_eq!(marks(&[(Place::Begins { is_due: true }, minutes(1))], EVERY), [MarkKind::Idle]);
}

/// The first trial had what it needed, though its target may have been written for hours since the machine rested.
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

#[test]
fn a_machine_settles_as_long_as_the_study_says_and_no_longer_than_its_trials() {
    let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3600));
    let limit = |keys: &str, span: Duration, slowest: Duration| {
        let text = format!("name = \"t\"\npaths = \"available\"\n{keys}\n[[workload]]\n");
        idle(&Study::parse(&text, "t").unwrap(), span, slowest).unwrap().settle_limit
    };
    assert_eq!(limit("", hour, second / 10), 60 * second);
    assert_eq!(limit("", hour, 5 * second), 300 * second);
    assert_eq!(limit("", 20 * second, second), 20 * second);
    assert_eq!(limit("settle_limit = \"2m\"", second, second), 120 * second);
    assert!(Study::parse("name = \"t\"\npaths = \"available\"\nsettle_limit = \"x\"\n[[workload]]\n", "t").is_err());
}
