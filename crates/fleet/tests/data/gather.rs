//! What is gathered is what the stores hold, whichever way it came in.

use crate::rows::{folder, gathered, hold, listed, stores};
use iopj_fleet::gather::escape;
use iopj_fleet::table::Table;
use iopj_fleet::testing::fleet::Fleet;
use iopj_fleet::testing::host::Host;
use iopj_record::{Outcome, Trial};
use iopj_store::Store;
use proptest::prelude::*;
use std::path::Path;

fn small(seed: u64) -> Fleet {
    Fleet { stores: 12, seed, machines: 2, replicates: 1, is_uneven: false }
}

/// Adds a trial to a store, as a run that goes on does.
fn extend(store: &Path) {
    let mut store = Store::open_for_run(store).expect("a store");
    let first = store.all_trials().expect("trials").swap_remove(0);
    let position = store.positions().expect("positions").len() as u64;
    store.add(&Trial { replicate: 9, position, ..first }).expect("room for a trial");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2, failure_persistence: None, ..ProptestConfig::default() })]

    /// Store, batch, Parquet, batch: and by steps as at once.
    #[test]
    fn what_is_gathered_by_steps_is_what_the_stores_hold(seed in 0..1000_u64, first in 1..8_usize) {
        let (made, dataset) = (folder(), folder());
        let (made, dataset) = (made.path(), dataset.path());
        let fleet = small(seed);
        (0..first).for_each(|store| write(&fleet, made, store));
        let one = gathered(made, dataset);
        prop_assert_eq!((one.generation, one.added, one.replaced, one.stores), (1, first, 0, first));
        hold(dataset, &stores(made));

        (first..8).for_each(|store| write(&fleet, made, store));
        extend(&fleet.path(made, seed as usize % first));
        let two = gathered(made, dataset);
        prop_assert_eq!((two.added, two.replaced, two.unchanged), (8 - first, 1, first - 1));
        hold(dataset, &stores(made));

        let nothing = gathered(made, dataset);
        prop_assert_eq!((nothing.generation, nothing.unchanged, nothing.added), (2, 8, 0));
    }

    /// A value in a folder's name can be read back, and never leaves its folder.
    #[test]
    fn an_escaped_value_is_read_back(value in "\\PC{1,40}|[/%=.:\\[\\]{}*?\"'#^\\\\\n\t ]{1,40}") {
        let name = escape(&value);
        prop_assert!(!name.contains(['/', '*', '?', '[', '\n', '=']), "{}", name);
        let mut bytes = Vec::new();
        let mut rest = name.as_bytes();
        while let Some((first, after)) = rest.split_first() {
            let digits = |after: &[u8]| String::from_utf8_lossy(&after[..2]).into_owned();
            let hex = (*first == b'%').then(|| u8::from_str_radix(&digits(after), 16).unwrap());
            bytes.push(hex.unwrap_or(*first));
            rest = if hex.is_some() { &after[2..] } else { after };
        }
        prop_assert_eq!(String::from_utf8(bytes).unwrap(), value);
    }
}

fn write(fleet: &Fleet, folder: &Path, store: usize) {
    let path = fleet.path(folder, store);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("room");
    fleet.write_store(&path, store).expect("a store");
}

/// The rows of the store before were lost: last night's, where each night has a file of the same name.
#[test]
fn a_store_that_takes_the_place_of_another_leaves_the_rows_of_the_other() {
    let (made, dataset) = (folder(), folder());
    let (made, dataset) = (made.path(), dataset.path());
    let fleet = small(4);
    (0..12).for_each(|store| write(&fleet, made, store));
    gathered(made, dataset);
    let old = fleet.path(made, 0);
    let kept = folder();
    std::fs::rename(&old, kept.path().join("kept.iopj")).unwrap();
    let other: Host = fleet.host(1);
    assert_ne!(other.machine, fleet.host(0).machine);
    Fleet { seed: 5, ..small(5) }.write_store(&old, 6).unwrap();
    let again = gathered(made, dataset);
    assert_eq!((again.replaced, again.added, again.stores), (0, 1, 13));
    let mut all = stores(made);
    all.extend(stores(kept.path()));
    hold(dataset, &all);
    // One that is moved to the place of another takes nothing of it along.
    std::fs::rename(fleet.path(made, 3), fleet.path(made, 4)).unwrap();
    let moved = gathered(made, dataset);
    assert_eq!((moved.replaced, moved.added, moved.stores, moved.copies.len()), (1, 0, 13, 0));
    let nothing = gathered(made, dataset);
    assert_eq!((nothing.generation, nothing.unchanged), (moved.generation, 11));
}

/// A run that has only begun has no trial, and gets another id with the first one.
#[test]
fn a_store_without_trials_is_replaced_by_itself_with_trials() {
    let (made, dataset) = (folder(), folder());
    let path = made.path().join("night.iopj");
    small(4).write_store(&path, 0).unwrap();
    let whole = Store::open(&path).unwrap();
    let (study, trials) = (whole.study().unwrap(), whole.all_trials().unwrap());
    drop(whole);
    std::fs::remove_file(&path).unwrap();
    drop(Store::create(&path, &study).unwrap());
    assert_eq!(gathered(made.path(), dataset.path()).stores, 1);
    Store::open_for_run(&path).unwrap().add(&trials[0]).unwrap();
    let begun = gathered(made.path(), dataset.path());
    assert_eq!((begun.replaced, begun.stores), (1, 1));
    hold(dataset.path(), &stores(made.path()));
}

/// The first by name won: of a copy that was made halfway, half of the trials.
#[test]
fn of_two_files_of_one_store_the_one_with_more_trials_wins() {
    let (made, dataset) = (folder(), folder());
    let (made, dataset) = (made.path(), dataset.path());
    let [early, late] = ["a.iopj", "b.iopj"].map(|name| made.join(name));
    small(4).write_store(&early, 0).unwrap();
    std::fs::copy(&early, &late).unwrap();
    extend(&late);
    let first = gathered(made, dataset);
    assert_eq!((first.copies, first.stores), (vec![early.canonicalize().unwrap()], 1));
    hold(dataset, &[late.clone()].into());
    // The same where the early one is known by now.
    let (later, dataset) = (made.join("c.iopj"), folder());
    std::fs::rename(&late, &later).unwrap();
    std::fs::rename(&later, made.join("c.part")).unwrap();
    gathered(made, dataset.path());
    std::fs::rename(made.join("c.part"), &later).unwrap();
    let second = gathered(made, dataset.path());
    assert_eq!((second.replaced, second.stores), (1, 1));
    hold(dataset.path(), &[later].into());
    let third = gathered(made, dataset.path());
    assert_eq!((third.generation, third.copies.len()), (second.generation, 1));
}

/// A store whose file is gone stays, one that was moved is known again, and a copy counts once.
#[test]
fn stores_are_known_by_what_they_hold() {
    let (made, dataset) = (folder(), folder());
    let (made, dataset) = (made.path(), dataset.path());
    let fleet = small(6);
    (0..3).for_each(|store| write(&fleet, made, store));
    gathered(made, dataset);
    let all = stores(made);
    let count = || crate::rows::count(dataset, Table::Trials);
    let rows = count();
    std::fs::copy(fleet.path(made, 0), made.join("copy.iopj")).unwrap();
    let copied = gathered(made, dataset);
    assert_eq!((copied.copies.len(), copied.stores, count()), (1, 3, rows));
    std::fs::remove_file(made.join("copy.iopj")).unwrap();
    std::fs::rename(fleet.path(made, 1), made.join("moved.iopj")).unwrap();
    std::fs::remove_file(fleet.path(made, 2)).unwrap();
    let moved = gathered(made, dataset);
    assert_eq!((moved.stores, moved.replaced, count()), (3, 1, rows));
    assert!(listed(dataset).contains_key(&made.canonicalize().unwrap().join("moved.iopj")));
    assert_eq!(all.len(), 3);
}

/// Every trial that failed or was refuted is there, marked, and does not compete.
#[test]
fn refuted_and_failed_trials_are_there_and_do_not_compete() {
    let made = folder();
    let fleet = Fleet { stores: 100, seed: 1, machines: 2, replicates: 1, is_uneven: false };
    // Host 16 has the first drive and the first kernel; host 3 and 13 have a trial that fails.
    let refuted = fleet.host(16);
    assert_eq!((refuted.kernel, refuted.number % 4), (0, 0));
    write(&fleet, made.path(), 16 * iopj_fleet::testing::fleet::MONTHS);
    let store = Store::open(&fleet.path(made.path(), 16 * iopj_fleet::testing::fleet::MONTHS)).unwrap();
    let polls = store.all_trials().unwrap();
    let polls = polls.iter().filter(|trial| {
        matches!(&trial.outcome, Outcome::Measured(one)
        if one.verdict.kind == iopj_core::VerdictKind::Refuted)
    });
    assert_eq!(polls.count(), 4);
    let batch = &iopj_fleet::table::batches(&store, Table::Trials).unwrap()[0];
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    let verdicts = batch.column_by_name("verdict").unwrap().as_string::<i32>();
    let competes = batch.column_by_name("competes").unwrap().as_boolean();
    let found = (0..batch.num_rows()).filter(|at| verdicts.value(*at) == "refuted");
    assert_eq!(found.clone().count(), 4);
    assert!(found.into_iter().all(|at| !competes.value(at)));
    assert_eq!(competes.true_count(), batch.num_rows() - 4);

    write(&fleet, made.path(), 3 * iopj_fleet::testing::fleet::MONTHS);
    let failing = Store::open(&fleet.path(made.path(), 3 * iopj_fleet::testing::fleet::MONTHS)).unwrap();
    let batch = &iopj_fleet::table::batches(&failing, Table::Trials).unwrap()[0];
    let errors = batch.column_by_name("error").unwrap().as_string::<i32>();
    let failed: Vec<usize> = (0..batch.num_rows()).filter(|at| errors.is_valid(*at)).collect();
    assert_eq!((failed.len(), errors.value(7)), (1, "17 I/Os failed: EIO"));
    let column = |name| batch.column_by_name(name).unwrap();
    assert!(!column("competes").as_boolean().value(7) && column("in_force").as_boolean().value(7));
    assert!(["verdict", "iops", "ios", "latency_ns_mean"].iter().all(|name| column(name).is_null(7)));
}
