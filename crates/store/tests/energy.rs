//! Sessions, meters, readings, marks and joules: kept exactly, and replaced.

use iopj_store::energy::{Mark, MarkKind, MeterRow, RawValue, ReadingRow, Session};
use iopj_store::{Store, StoreError, StudyRecord};

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
