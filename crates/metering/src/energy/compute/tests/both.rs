//! Joules of both hosts: when they are added, with which uncertainty, and why not.

use super::super::*;
use super::{BEGIN_NS, END_NS, IDLE, SECOND, TRIALS, average, energies, ns, record, trial};
use crate::energy::both::idle_side;
use crate::energy::record::{ClockRecord, There};
use iopj_record::StudyRecord;

const PLUGS: &str = "[meters.plug]\nkind = \"http\"\nurl = \"http://192.0.2.7\"\npreset = \
                     \"tasmota\"\n[fabric.meters.plug]\nkind = \"http\"\nurl = \
                     \"http://192.0.2.8\"\npreset = \"tasmota\"\n";

/// A store of two trials, the first over TCP and the second on the target host, measured on a machine whose
/// boot id is `here`.
fn store(meters: &str) -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "name = \"t\"\npaths = \"available\"\n[fabric]\ntarget_host = \"storage1\"\ndevice = \
         \"/dev/nvme0n1\"\naddress = \"10.1.0.1\"\ntransport = [\"local\", \
         \"tcp\"]\n{meters}[[workload]]\nios = 1\n"
    );
    Study::parse(&text, "t").unwrap();
    let record = StudyRecord { text, ..StudyRecord::default() };
    let mut store = Store::create(&folder.path().join("t.iopj"), &record).unwrap();
    let session = store.add_session("here", 0).unwrap();
    let mut mark =
        |kind, position, times_ns| store.add_mark(session, &Mark { kind, position, times_ns }).unwrap();
    IDLE.into_iter().for_each(|idle| mark(MarkKind::Idle, None, ns(idle).to_vec()));
    for (position, window) in TRIALS.into_iter().enumerate() {
        mark(MarkKind::Load, Some(position as u64), ns(window).to_vec());
    }
    for ((position, window), transport) in TRIALS.into_iter().enumerate().zip(["tcp", "local"]) {
        let mut trial = trial(position as u64, ns(window));
        trial.settings.insert("transport".to_owned(), transport.to_owned());
        store.add(&trial).unwrap();
    }
    (folder, store)
}

/// Adds a meter that reads `rest` W, and `load` W more in the trials, with noise of a tenth. `boot` is that
/// of the target host, if it is one of its meters.
fn add(store: &mut Store, name: &str, (rest, load): (f64, f64), boot: Option<&str>) {
    let watts = |second: u64| {
        let is_loaded = TRIALS.iter().any(|[begin, end]| (begin + 1..=*end).contains(&second));
        rest + if is_loaded { load } else { 0.0 } + [0.1, -0.1][second as usize % 2]
    };
    let there = boot.map(|boot| There { boot: boot.to_owned(), within_ns: 0 });
    let record = MeterRecord { there, ..record(ClockRecord::Host, vec![average()]) };
    let meter = store.add_meter(1, name, &serde_json::to_string(&record).unwrap()).unwrap();
    let row = |at_ns: u64| ReadingRow {
        channel: 0,
        value: RawValue::Watts(watts(at_ns / SECOND)),
        begin_ns: at_ns,
        end_ns: at_ns,
        wall_ns: 0,
        own_ns: None,
    };
    let rows: Vec<ReadingRow> = (BEGIN_NS / SECOND..END_NS / SECOND).map(|at| row(at * SECOND)).collect();
    store.add_readings(meter, &rows).unwrap();
}

fn of<'e>(energies: &'e [TrialEnergy], meter: &str) -> Option<&'e TrialEnergy> {
    energies.iter().find(|energy| energy.meter == meter)
}

fn half_width(interval: [f64; 2]) -> f64 {
    0.5 * (interval[1] - interval[0])
}

#[test]
fn joules_of_both_hosts_are_added_where_both_work() {
    let (_folder, mut store) = store(PLUGS);
    add(&mut store, "plug", (20.0, 30.0), None);
    add(&mut store, "target.plug", (15.0, 5.0), Some("there"));
    assert_eq!(recompute(&mut store).unwrap(), Vec::<String>::new());
    let all = energies(&store);
    let joules = |meter| of(&all[0], meter).unwrap().joules().unwrap();
    let (here, there, both) = (joules("plug"), joules("target.plug"), joules("host+target"));
    assert!((both.joules - 30.0 * (50.0 + 20.0)).abs() < 1.0, "{both:?}");
    assert_eq!((both.joules, both.seconds), (here.joules + there.joules, here.seconds));
    assert!((both.random_j - here.random_j.hypot(there.random_j)).abs() < 1e-12 && both.random_j > 0.0);
    assert!(both.random_dof > here.random_dof);
    // A per cent of each, independently.
    let [one, other, sum] = [here, there, both].map(|joules| half_width(joules.interval.unwrap()));
    assert!(one.max(other) < sum && sum < one + other, "{one} {other} {sum}");
    let above = both.above_idle.as_ref().unwrap();
    assert!((above.idle_watts - 35.0).abs() < 0.1 && (above.joules - 30.0 * 35.0).abs() < 2.0, "{above:?}");
    // On the target host alone, this one only waits.
    let sum = of(&all[1], "host+target").unwrap();
    assert_eq!((sum.scope, sum.estimated), (Scope::System, false));
    let EnergyOutcome::Incomplete(reason) = &sum.outcome else { panic!("{sum:?}") };
    assert_eq!(reason, "by `local` the target host does the I/O alone, so only its own joules count");
    assert!(of(&all[1], "target.plug").unwrap().joules().is_some());
    // The plug of a host that did nothing gave the I/Os of the target host an efficiency.
    let EnergyOutcome::Incomplete(own) = &of(&all[1], "plug").unwrap().outcome else { panic!("{all:?}") };
    assert_eq!(own, reason);
}

#[test]
fn a_part_that_is_missing_leaves_no_sum_and_says_so() {
    let (_folder, mut store) = store(PLUGS);
    add(&mut store, "plug", (20.0, 30.0), None);
    let record = MeterRecord {
        there: Some(There { boot: "there".to_owned(), within_ns: 0 }),
        ..record(ClockRecord::Host, vec![average()])
    };
    store.add_meter(1, "target.plug", &serde_json::to_string(&record).unwrap()).unwrap();
    recompute(&mut store).unwrap();
    let all = energies(&store);
    let EnergyOutcome::Incomplete(reason) = &of(&all[0], "host+target").unwrap().outcome else { panic!() };
    assert!(reason.starts_with("of `target.plug`: the meter"), "{reason}");
}

/// The notes of a store with these meters of this host and of one with this boot id; no trial has a sum.
fn refused(meters: &str, here: &[&str], (there, boot): (&[&str], &str)) -> Vec<String> {
    let (_folder, mut store) = store(meters);
    here.iter().for_each(|name| add(&mut store, name, (20.0, 30.0), None));
    there.iter().for_each(|name| add(&mut store, name, (15.0, 5.0), Some(boot)));
    let notes = recompute(&mut store).unwrap();
    assert!(energies(&store).iter().all(|all| of(all, "host+target").is_none()));
    notes
}

#[test]
fn meters_that_may_measure_the_same_are_not_added_and_the_note_says_why() {
    let no = "there are no joules of both hosts together, because ";
    assert_eq!(
        refused(&PLUGS.replace(".2.8", ".2.7"), &["plug"], (&["target.plug"], "there")),
        [format!(
            "{no}the meters `plug` and `target.plug` read one instrument at 192.0.2.7 at the same place: \
             give each host its own"
        )]
    );
    assert_eq!(
        refused(PLUGS, &["plug"], (&["target.plug"], "here")),
        [format!("{no}the target host is this very machine")]
    );
    assert_eq!(
        refused(PLUGS, &["plug", "bmc"], (&["target.plug"], "there")),
        [format!("{no}this host has 2 meters of scope `system` (plug, bmc): name one in the study")]
    );
    assert_eq!(
        refused(PLUGS, &["plug"], (&["target.a", "target.b"], "there")),
        [format!(
            "{no}the target host has 2 meters of scope `system` (target.a, target.b): name one in the study"
        )]
    );
    // Where only one host has a meter, nobody expects a sum.
    assert_eq!(refused(PLUGS, &["plug"], (&[], "")), Vec::<String>::new());
}

#[test]
fn only_the_host_that_did_the_io_has_joules() {
    let transports = BTreeMap::from([(0, Transport::Loop), (1, Transport::Here), (2, Transport::Tcp)]);
    let why = |position, side| idle_side(position, side, &transports);
    let there = "by `loop` the target host does the I/O alone, so only its own joules count";
    let here = "by `here` this host does the I/O alone, so only its own joules count";
    let seen = [0, 1, 2].map(|position| HostSide::ALL.map(|side| why(position, side)));
    assert_eq!(seen, [[Some(there.to_owned()), None], [None, Some(here.to_owned())], [None, None]]);
}
