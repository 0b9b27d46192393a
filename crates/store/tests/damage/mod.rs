//! Stores that were damaged, or that somebody else made.

use super::{fresh, function, measured, profile, study, trial};
use iopj_core::fabric::HostSide;
use iopj_store::{Outcome, Store, StudyRecord, Trial};
use std::path::Path;

/// A store with something of everything that figures come from, all of it in its file.
fn of_everything(path: &Path) -> (StudyRecord, Vec<Trial>) {
    let mut store = Store::create(path, &study()).unwrap();
    store.add(&trial(0, measured())).unwrap();
    store.add(&trial(1, Outcome::Failed("it broke".into()))).unwrap();
    assert!(store.add_costs(0, HostSide::Host, &profile(vec![function("nvme_irq", 5)])).unwrap());
    store.plan_repeats(&[0], 2, 1).unwrap();
    let read = (store.study().unwrap(), store.trials().unwrap());
    drop(store);
    let file = rusqlite::Connection::open(path).unwrap();
    file.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(())).unwrap();
    read
}

/// A flipped bit of a histogram changed percentiles, and one in its table made them 0.00. `every` takes each
/// byte, or one of so many.
fn no_flipped_byte_is_a_figure(every: usize) {
    let (folder, path) = fresh();
    let sound = of_everything(&path);
    let bytes = std::fs::read(&path).unwrap();
    let flipped = folder.path().join("flipped.iopj");
    let mut refused = 0;
    for place in (0..bytes.len()).step_by(every) {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1 << (place % 8);
        std::fs::write(&flipped, &damaged).unwrap();
        let read = Store::open(&flipped).and_then(|store| Ok((store.study()?, store.trials()?)));
        match read {
            Ok(read) => assert!(read == sound, "byte {place} makes another figure"),
            Err(error) => {
                let text = error.to_string();
                let is_known = ["damaged", "is not an iopj store", "SQLite cannot use", "has schema"];
                assert!(is_known.iter().any(|part| text.contains(part)), "{place}: {text}");
                refused += 1;
            }
        }
    }
    assert!(refused > 0);
}

#[test]
fn a_flipped_byte_is_never_a_figure() {
    no_flipped_byte_is_a_figure(199);
}

/// Some minutes: for the soak.
#[test]
#[ignore = "a soak: cargo xtask soak"]
fn soak_no_byte_of_a_store_is_a_figure_when_it_is_flipped() {
    no_flipped_byte_is_a_figure(1);
}

/// A page of another index stood in its place, and a block that counts twice counted no trials.
#[test]
fn an_index_that_has_lost_its_rows_changes_no_figure() {
    let (_folder, path) = fresh();
    let sound = of_everything(&path);
    assert_eq!(sound.0.repeats[0].replaced, 1);
    let file = rusqlite::Connection::open(&path).unwrap();
    file.pragma_update(None, "writable_schema", true).unwrap();
    let empty = "UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = \
                 'sqlite_autoindex_meter_1') WHERE name = 'sqlite_autoindex_trial_1'";
    assert_eq!(file.execute(empty, []).unwrap(), 1);
    drop(file);
    let store = Store::open(&path).unwrap();
    assert!((store.study().unwrap(), store.trials().unwrap()) == sound);
    assert!(store.check_all().is_err());
}

/// A page of another table stood in the place of the checksums: then nothing had one, as in an older store.
#[test]
fn what_is_no_checksum_is_damage() {
    let (_folder, path) = fresh();
    of_everything(&path);
    let file = rusqlite::Connection::open(&path).unwrap();
    file.execute_batch("UPDATE checksum SET kind = 'x' || kind").unwrap();
    let error = Store::open(&path).unwrap().trials().unwrap_err().to_string();
    assert!(error.contains("it is damaged (Invalid column type"), "{error}");
    // Without any, it is as old as it looks, and says so.
    file.execute_batch("DELETE FROM checksum").unwrap();
    assert_eq!(Store::open(&path).unwrap().trials_without_checksum().unwrap(), 2);
}

#[test]
fn a_sound_store_says_so_whole() {
    let (_folder, path) = fresh();
    of_everything(&path);
    let checked = Store::open(&path).unwrap().check_all().unwrap();
    // The study, two trials, the costs, the energy that is none, and a repeat.
    assert_eq!((checked.sound, checked.without), (5, 0));
}

#[test]
fn damage_names_the_trial() {
    let change = |sql: &str| {
        let (_folder, path) = fresh();
        of_everything(&path);
        rusqlite::Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let read = Store::open(&path).and_then(|store| Ok((store.study()?, store.trials()?)));
        read.map_or_else(|error| error.to_string(), |_| String::new())
    };
    let wrong = " is not as it was written; name an earlier copy, or measure again";
    for (sql, what) in [
        ("UPDATE histogram SET v2 = zeroblob(length(v2))", "its trial 1"),
        ("DELETE FROM histogram", "its trial 1"),
        ("UPDATE trial SET measurement = replace(measurement, 'ios', 'ios')", ""),
        ("UPDATE trial SET replicate = 7 WHERE id = 2", "its trial 2"),
        ("DELETE FROM trial WHERE id = 2", "its trial 2"),
        ("UPDATE trial SET id = 9 WHERE id = 2", "its trial 2"),
        ("DELETE FROM checksum WHERE kind = 'trial' AND key = 2", "its trial 2"),
        ("INSERT INTO target_profile SELECT * FROM profile", "the target costs of its trial 1"),
        ("DELETE FROM checksum WHERE kind = 'costs'", "the costs of its trial 1"),
        ("UPDATE cost SET instructions = instructions + 1", "the costs of its trial 1"),
        ("UPDATE slice SET ios = ios + 1", "its trial 1"),
        ("UPDATE study SET record = replace(record, 'null', 'null ')", "its study"),
        ("UPDATE repeat SET replaces = 1", "its repeat 2"),
    ] {
        let text = change(sql);
        let expected = if what.is_empty() { String::new() } else { format!("{what}{wrong}") };
        assert!(text.ends_with(&expected) && text.is_empty() == what.is_empty(), "{sql}: {text}");
    }
}

/// A view in the place of a table, or a trigger: the first query of it never ended.
#[test]
fn a_schema_of_another_is_refused_before_the_first_query() {
    let endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n";
    for (sql, part) in [
        (
            format!("DROP TABLE study; CREATE VIEW study AS {endless}"),
            "its view `study` is not as iopj makes it",
        ),
        (format!("ALTER TABLE trial RENAME TO t; CREATE VIEW trial AS {endless}"), "is not as iopj makes it"),
        (
            "CREATE TRIGGER x AFTER INSERT ON event BEGIN DELETE FROM trial; END".to_owned(),
            "its trigger `x` is not as iopj makes it",
        ),
        ("CREATE INDEX x ON trial (abs(replicate))".to_owned(), "its index `x` is not as iopj makes it"),
        ("DROP TABLE event".to_owned(), "it lacks the table `event`"),
    ] {
        let (_folder, path) = fresh();
        of_everything(&path);
        let file = rusqlite::Connection::open(&path).unwrap();
        file.execute_batch("PRAGMA foreign_keys = OFF; PRAGMA legacy_alter_table = ON").unwrap();
        file.execute_batch(&sql).unwrap();
        drop(file);
        for open in [Store::open, Store::open_for_run] {
            let error = open(&path).unwrap_err().to_string();
            assert!(error.contains("is not an iopj store") && error.contains(part), "{error}");
        }
    }
}
