//! Stores that were damaged, or that somebody else made.

use super::{fresh, function, measured_with, profile, study, trial};
use iopj_core::fabric::HostSide;
use iopj_core::{EnergyOutcome, Scope, TrialEnergy};
use iopj_record::{Outcome, StudyRecord, Trial};
use iopj_store::Store;
use std::path::Path;

/// A store with something of everything that figures come from, all of it in its file.
fn of_everything(path: &Path) -> (StudyRecord, Vec<Trial>) {
    let mut store = Store::create(path, &study()).unwrap();
    let measured = |meter: &str| measured_with(|m| m.energy = vec![energy(meter), energy("plug")]);
    store.add(&trial(0, measured("a"))).unwrap();
    store.add(&trial(1, Outcome::Failed("it broke".into()))).unwrap();
    store.add(&trial(3, measured("b"))).unwrap();
    assert!(store.add_costs(0, HostSide::Host, &profile(vec![function("nvme_irq", 5)])).unwrap());
    store.plan_repeats(&[0], 2, 1).unwrap();
    let read = (store.study().unwrap(), store.trials().unwrap());
    drop(store);
    let file = rusqlite::Connection::open(path).unwrap();
    file.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(())).unwrap();
    read
}

/// What a meter said of a trial.
fn energy(meter: &str) -> TrialEnergy {
    TrialEnergy {
        meter: meter.to_owned(),
        scope: Scope::System,
        channels: Vec::new(),
        estimated: false,
        rules: 1,
        outcome: EnergyOutcome::Incomplete(format!("{meter} was off")),
    }
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

/// The figures of a store stay, or it is damaged, whichever of the last bytes of these pages is another. The
/// cells of a page lie there.
fn no_other_byte_is_a_figure(path: &Path, which: &str) {
    let read = |path: &Path| Store::open(path).and_then(|store| Ok((store.study()?, store.trials()?)));
    let (sound, bytes) = (read(path).unwrap(), std::fs::read(path).unwrap());
    let file = rusqlite::Connection::open(path).unwrap();
    let pages = format!("SELECT rootpage, name FROM sqlite_schema WHERE {which}");
    let mut pages = file.prepare(&pages).unwrap();
    let pages: Vec<(u32, String)> =
        pages.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect();
    assert!(!pages.is_empty());
    let page_size: u32 = file.pragma_query_value(None, "page_size", |row| row.get(0)).unwrap();
    let other = path.with_extension("other");
    for (page, name) in pages {
        for place in page * page_size - 64..page * page_size {
            let (mut damaged, place) = (bytes.clone(), place as usize);
            damaged[place] ^= 3;
            std::fs::write(&other, &damaged).unwrap();
            let read = read(&other);
            assert!(read.is_err() || read.unwrap() == sound, "byte {place}, of {name}");
        }
    }
}

/// An index that leads to another trial's rows, or to none, is not what the rows were checked by.
#[test]
fn an_index_that_leads_to_other_rows_is_damage() {
    let (_folder, path) = fresh();
    of_everything(&path);
    no_other_byte_is_a_figure(&path, "type = 'index'");
}

/// A walk finds all rows of such a table, and a search does not.
#[test]
fn a_table_that_hides_its_rows_is_damage() {
    let (_folder, path) = fresh();
    let mut store = Store::create(&path, &study()).unwrap();
    for position in 0..500 {
        store.add(&trial(position, measured_with(|m| m.series.clear()))).unwrap();
        let side = [HostSide::Host, HostSide::Target][position as usize % 2];
        assert!(store.add_costs(position.into(), side, &profile(Vec::new())).unwrap());
    }
    drop(store);
    no_other_byte_is_a_figure(&path, "name IN ('profile', 'target_profile')");
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
    assert_eq!(Store::open(&path).unwrap().trials_without_checksum().unwrap(), 3);
}

/// Of a study, a session, a meter, a mark or readings it passed for a row of an older iopj's.
#[test]
fn rows_without_a_checksum_are_damage_where_the_first_trial_has_one() {
    let session = "INSERT INTO session VALUES (1, 'b', 0)";
    let reading = "INSERT INTO reading VALUES (1, 0, 7, NULL, 0, 1, 2, NULL)";
    for (sql, what) in [
        ("DELETE FROM checksum WHERE kind = 'study'".to_owned(), "its study"),
        ("DELETE FROM checksum WHERE kind = 'repeat'".to_owned(), "its repeat 2"),
        (session.to_owned(), "its session 1"),
        ("INSERT INTO meter VALUES (1, 1, 'm', '{}')".to_owned(), "its meter 1"),
        ("INSERT INTO mark VALUES (1, 'idle', NULL, '[]')".to_owned(), "its mark 1"),
        ("INSERT INTO network VALUES (0, '{}')".to_owned(), "its network 1"),
        (reading.to_owned(), "the readings of its meters from row 1 on"),
    ] {
        let (_folder, path) = fresh();
        of_everything(&path);
        let file = rusqlite::Connection::open(&path).unwrap();
        file.pragma_update(None, "foreign_keys", false).unwrap();
        file.execute_batch(&sql).unwrap();
        let error = Store::open(&path).unwrap().check_all().unwrap_err().to_string();
        assert!(error.contains(&format!("is damaged: {what} is not as it was written")), "{sql}: {error}");
        // In a store of before there were checksums it is a row like the others.
        file.execute_batch("DELETE FROM checksum").unwrap();
        Store::open(&path).unwrap().check_all().unwrap();
    }
}

#[test]
fn a_sound_store_says_so_whole() {
    let (_folder, path) = fresh();
    of_everything(&path);
    let checked = Store::open(&path).unwrap().check_all().unwrap();
    // The study, three trials, the costs, the energy of two, and a repeat.
    assert_eq!((checked.sound, checked.without), (8, 0));
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
