//! Sessions, meters, readings, marks and joules: kept exactly, and replaced.

use iopj_core::{EnergyOutcome, Joules, Scope, TrialEnergy, Workload};
use iopj_record::energy::{Mark, MarkKind, MeterRow, RawValue, ReadingRow, Session};
use iopj_record::{Measurement, StudyRecord, Trial, export};
use iopj_store::{Store, StoreError};

fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(&folder.path().join("t.iopj"), &StudyRecord::default()).unwrap();
    (folder, store)
}

fn reading(value: RawValue, own_ns: Option<i64>) -> ReadingRow {
    ReadingRow { channel: 1, value, begin_ns: u64::MAX, end_ns: 3, wall_ns: -4, own_ns }
}

#[test]
fn what_meters_said_is_kept_as_it_is() {
    let (_folder, mut store) = store();
    let session = store.add_session("boot", -5).unwrap();
    assert_eq!(
        store.sessions().unwrap(),
        [Session { id: session, boot: "boot".into(), unix_minus_raw_ns: -5 }]
    );
    let meter = store.add_meter(session, "plug", "{}").unwrap();
    let row = MeterRow { id: meter, session, name: "plug".into(), record: "{}".into() };
    assert_eq!(store.meters().unwrap(), [row]);
    let readings = [reading(RawValue::Count(u64::MAX), None), reading(RawValue::Watts(0.1), Some(i64::MIN))];
    store.add_readings(meter, &readings).unwrap();
    assert_eq!(store.readings(meter).unwrap(), readings);
    let marks = [
        Mark { kind: MarkKind::Load, position: Some(7), times_ns: vec![1, u64::MAX] },
        Mark { kind: MarkKind::Idle, position: None, times_ns: vec![] },
        Mark { kind: MarkKind::Pattern, position: None, times_ns: vec![1, 2, 3, 4] },
    ];
    marks.iter().for_each(|mark| store.add_mark(session, mark).unwrap());
    assert_eq!(store.marks(session).unwrap(), marks);
    assert!(store.marks(session + 1).unwrap().is_empty());
}

#[test]
fn a_meter_takes_the_place_of_one_of_its_name() {
    let (_folder, mut store) = store();
    let session = store.add_session("boot", 0).unwrap();
    let old = store.add_meter(session, "log", "old").unwrap();
    store.add_readings(old, &[reading(RawValue::Watts(1.0), None)]).unwrap();
    let new = store.add_meter(session, "log", "new").unwrap();
    assert!(store.readings(new).unwrap().is_empty());
    store.add_readings(new, &[reading(RawValue::Watts(2.0), None)]).unwrap();
    store.set_meter_record(new, "newer").unwrap();
    assert_eq!(store.readings(new).unwrap().len(), 1);
    let records: Vec<String> = store.meters().unwrap().into_iter().map(|meter| meter.record).collect();
    assert_eq!(records, ["newer"]);
}

#[test]
fn watts_that_are_no_number_are_refused_whole() {
    let (_folder, mut store) = store();
    let session = store.add_session("boot", 0).unwrap();
    let meter = store.add_meter(session, "plug", "{}").unwrap();
    let readings = [1.0, f64::NAN].map(|watts| reading(RawValue::Watts(watts), None));
    assert!(matches!(store.add_readings(meter, &readings), Err(StoreError::Unkeepable { .. })));
    assert!(store.readings(meter).unwrap().is_empty());
}

/// A meter's record, as far as the store reads it.
const RECORD: &str = r#"{"channels":[{"name":"d","scope":"dram"},{"name":"p0","scope":"package"},
    {"name":"half","scope":"package","parent":"p0"},{"name":"p1","scope":"package"}],"model":null}"#;
const MODEL: &str = r#"{"channels":[],"model":{"scope":"system","coefficients":"w = 1"}}"#;

fn measured(position: u64) -> Trial {
    let path = "libaio/syscall/interrupt".parse().unwrap();
    let measurement = Measurement { window_raw_ns: Some([5, 9]), ..Measurement::default() };
    let trial = Trial::new(path, Workload::default(), measurement.into());
    Trial { position, replicate: position as u32, ..trial }
}

fn energy(store: &Store, position: usize) -> Vec<TrialEnergy> {
    store.trials().unwrap()[position].outcome.measurement().unwrap().energy.clone()
}

/// A trial that was looked at before its joules were there was another one afterwards.
#[test]
fn joules_are_pending_until_they_are_computed_and_no_trial_changes() {
    let (_folder, mut store) = store();
    // The run of the first session was killed before it kept the trial.
    for (boot, end_ns) in [("before", 2), ("boot", 9)] {
        let session = store.add_session(boot, 0).unwrap();
        store.add_meter(session, "rapl", RECORD).unwrap();
        store.add_meter(session, "est", MODEL).unwrap();
        let load = Mark { kind: MarkKind::Load, position: Some(1), times_ns: vec![1, end_ns] };
        store.add_mark(session, &load).unwrap();
    }
    assert!(!store.has_pending_energy().unwrap(), "no trial is there");
    [0, 1].map(measured).iter().for_each(|trial| store.add(trial).unwrap());
    let pending = |meter: &str, scope, channels: &[&str]| TrialEnergy {
        meter: meter.to_owned(),
        scope,
        channels: channels.iter().map(|&name| name.to_owned()).collect(),
        estimated: meter == "est",
        rules: 0,
        outcome: EnergyOutcome::Pending,
    };
    let both = [
        pending("rapl", Scope::Package, &["p0", "p1"]),
        pending("rapl", Scope::Dram, &["d"]),
        pending("est", Scope::System, &[]),
    ];
    assert_eq!(energy(&store, 0), [], "no meter was read while it ran");
    assert_eq!(energy(&store, 1), both);
    assert!(store.has_pending_energy().unwrap());
    let json = export::json(&StudyRecord::default(), &store.trials().unwrap(), &[], export::Detail::Figures);
    assert_eq!(json["trials"][1]["energy"][0]["outcome"], "pending");
    let mut csv = Vec::new();
    export::csv(&StudyRecord::default(), &store.trials().unwrap(), &mut csv).unwrap();
    assert!(String::from_utf8(csv).unwrap().lines().nth(2).unwrap().ends_with(",package,rapl,false,pending"));

    let joules = Joules { joules: 2.0, seconds: 1.0, ..Joules::default() };
    let done: Vec<TrialEnergy> = both
        .iter()
        .map(|one| TrialEnergy { outcome: EnergyOutcome::Complete(joules.clone()), ..one.clone() })
        .collect();
    store.set_energy(&[(1, done.clone())]).unwrap();
    assert_eq!(energy(&store, 1), done);
    assert!(!store.has_pending_energy().unwrap());
}
