//! Few hosts of one kind, whose trials a test changes before they are stored.

use crate::rows::{folder, gathered};
use iopj_fleet::report::{FleetReport, KindReport, report};
use iopj_fleet::testing::fleet::{Fleet, MONTHS};
use iopj_record::{Measurement, Outcome, Trial};
use iopj_store::Store;
use std::path::Path;

/// Of all hosts here; every fourth one is of the same drive and kernel.
pub(crate) const FLEET: Fleet = Fleet { stores: 200, seed: 7, machines: 1, replicates: 1, is_uneven: false };

/// Writes a store of one host and month, its trials as `change` makes them of those of the fleet.
pub(crate) fn write(made: &Path, host: usize, month: usize, change: impl Fn(&Trial) -> Vec<Trial>) {
    write_on(made, (host, month), None, change);
}

/// The same of a host that ran another kernel then.
pub(crate) fn write_on(
    made: &Path,
    (host, month): (usize, usize),
    kernel: Option<&str>,
    change: impl Fn(&Trial) -> Vec<Trial>,
) {
    let all = folder();
    let (whole, store) = (all.path().join("whole.iopj"), host * MONTHS + month);
    FLEET.write_store(&whole, store).expect("a store");
    let whole = Store::open(&whole).expect("a store");
    let path = FLEET.path(made, store);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("room");
    let mut study = whole.study().expect("a study");
    study.provenance.extend(kernel.map(|kernel| ("kernel".to_owned(), kernel.to_owned())));
    let mut changed = Store::create(&path, &study).expect("room");
    let trials = whole.all_trials().expect("trials");
    for (position, trial) in trials.iter().flat_map(change).enumerate() {
        changed.add(&Trial { position: position as u64, ..trial }).expect("room for a trial");
    }
}

/// The report of so many hosts of one kind, on which nothing is refuted or fails, a store each.
pub(crate) fn reported(hosts: usize, change: impl Fn(usize, &Trial) -> Vec<Trial>) -> FleetReport {
    let made = folder();
    (0..hosts).for_each(|host| write(made.path(), 2 + 4 * host, 0, |trial| change(host, trial)));
    report_of(made.path())
}

/// The report of these stores.
pub(crate) fn report_of(made: &Path) -> FleetReport {
    let dataset = folder();
    assert_eq!(gathered(made, dataset.path()).problems, []);
    report(dataset.path()).expect("a report")
}

/// A report's only kind.
pub(crate) fn only(report: FleetReport) -> KindReport {
    let [kind] = <[KindReport; 1]>::try_from(report.kinds).expect("one kind");
    kind
}

/// The trial with another measurement, if it has one.
pub(crate) fn with(trial: &Trial, change: impl Fn(&mut Measurement)) -> Trial {
    let mut changed = trial.clone();
    if let Outcome::Measured(one) = &mut changed.outcome {
        change(one);
    }
    changed
}
