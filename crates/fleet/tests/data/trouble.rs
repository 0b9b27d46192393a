//! Stores that cannot be read are named, and all others are gathered.

use crate::rows::{folder, gathered, hold, listed, rows};
use iopj_fleet::gather::{GatherError, gather};
use iopj_fleet::table::Table;
use iopj_fleet::testing::fleet::Fleet;
use iopj_store::Store;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn fleet(made: &Path) -> Fleet {
    let fleet = Fleet { stores: 10, seed: 8, machines: 2, replicates: 1, is_uneven: false };
    fleet.write(made).unwrap();
    fleet
}

/// Overwrites what SQLite keeps behind its header.
fn damage(store: &Path) {
    let mut bytes = fs::read(store).unwrap();
    let from = 4096.min(bytes.len() / 2);
    bytes[from..].fill(0xA5);
    fs::write(store, bytes).unwrap();
}

#[test]
fn what_cannot_be_read_is_named_and_the_rest_goes_on() {
    let (made, dataset) = (folder(), folder());
    let (made, dataset) = (made.path(), dataset.path());
    let fleet = fleet(made);
    damage(&fleet.path(made, 1));
    fs::write(fleet.path(made, 2), "no SQLite").unwrap();
    // `user_version` is at 60 in the header (sqlite.org/fileformat2.html, 1.3).
    let mut newer = fs::read(fleet.path(made, 3)).unwrap();
    newer[60..64].copy_from_slice(&999_u32.to_be_bytes());
    fs::write(fleet.path(made, 3), newer).unwrap();
    let live = Store::open_for_run(&fleet.path(made, 4)).unwrap();
    let found = gathered(made, dataset);
    let problem = |store: usize, words: &str| {
        let file = fleet.path(&made.canonicalize().unwrap(), store);
        let own = found.problems.iter().find(|problem| problem.file == file);
        let reason = &own.unwrap_or_else(|| panic!("{store}: {:?}", found.problems)).reason;
        assert!(reason.contains(words) && reason.contains("iopj"), "{reason}");
    };
    problem(1, "damaged");
    problem(2, "not an SQLite file");
    problem(3, "has schema 999");
    problem(4, "in use by a live run");
    assert_eq!((found.problems.len(), found.added, found.stores), (4, 6, 6));
    let whole: BTreeSet<PathBuf> = [0, 5, 6, 7, 8, 9].map(|store| fleet.path(made, store)).into();
    hold(dataset, &whole);

    drop(live);
    let again = gathered(made, dataset);
    assert_eq!((again.problems.len(), again.added, again.stores), (3, 1, 7));
}

/// A store whose header is sound and whose trials are not is found late, when its part is written.
#[test]
fn what_was_known_of_a_store_stays_when_it_can_no_longer_be_read() {
    let (made, dataset) = (folder(), folder());
    let (made, dataset) = (made.path(), dataset.path());
    let fleet = fleet(made);
    gathered(made, dataset);
    let before = rows(dataset, Table::Trials);
    let known = listed(dataset);
    let broken = fleet.path(made, 1);
    let mut bytes = fs::read(&broken).unwrap();
    let places = bytes.windows(11).enumerate().filter(|(_, bytes)| bytes == b"\"window_ns\"");
    for from in places.map(|(from, _)| from).collect::<Vec<usize>>() {
        bytes[from..from + 11].copy_from_slice(b"\"window_xx\"");
    }
    fs::write(&broken, bytes).unwrap();
    let found = gathered(made, dataset);
    assert_eq!((found.problems.len(), found.replaced, found.stores), (1, 0, 10));
    assert!(found.problems[0].reason.contains("is damaged: its trial "), "{:?}", found.problems);
    assert!(rows(dataset, Table::Trials) == before);
    assert_eq!(listed(dataset).len(), known.len());
}

/// It was gathered into: every generation was removed, and the copy could never be read again.
#[test]
fn a_copy_that_followed_the_links_is_refused_and_stays_as_it_is() {
    let (made, dataset, copy) = (folder(), folder(), folder());
    fleet(made.path());
    gathered(made.path(), dataset.path());
    let copied =
        std::process::Command::new("cp").arg("-rL").arg(dataset.path()).arg(copy.path().join("d")).status();
    assert!(copied.unwrap().success());
    let to = copy.path().join("d");
    let refused = gather(&[made.path().to_owned()], &to, &|_, _| {}).unwrap_err();
    assert!(matches!(refused, GatherError::Copied(_)) && refused.to_string().contains("cp -a"), "{refused}");
    assert_eq!(listed(&to).len(), 10);
    assert!(to.join("generations/1").exists());
}

#[test]
fn a_store_whose_name_is_no_text_is_named_and_the_rest_goes_on() {
    use std::os::unix::ffi::OsStrExt;
    let (made, dataset) = (folder(), folder());
    let fleet = fleet(made.path());
    let odd = made.path().join(std::ffi::OsStr::from_bytes(b"n\xff.iopj"));
    fs::rename(fleet.path(made.path(), 3), odd).unwrap();
    let found = gathered(made.path(), dataset.path());
    assert_eq!((found.problems.len(), found.added), (1, 9));
    assert!(found.problems[0].reason.contains("not UTF-8"), "{:?}", found.problems);
}

#[test]
fn a_folder_of_something_else_and_a_second_gather_are_refused() {
    let (made, other) = (folder(), folder());
    fs::write(other.path().join("thesis.tex"), "").unwrap();
    let refused = |to: &Path| gather(&[made.path().to_owned()], to, &|_, _| {}).unwrap_err();
    let error = refused(other.path());
    assert!(matches!(error, GatherError::NotADataset(_)), "{error}");
    assert_eq!(fs::read_dir(other.path()).unwrap().count(), 1, "nothing is written");

    let dataset = folder();
    gathered(made.path(), dataset.path());
    let lock = fs::File::open(dataset.path().join(".lock")).unwrap();
    lock.lock().unwrap();
    assert!(matches!(refused(dataset.path()), GatherError::Locked(_)));
    drop(lock);
    let list = dataset.path().join(iopj_fleet::gather::FILE);
    let text = fs::read_to_string(&list).unwrap().replace("\"schema\": 2", "\"schema\": 99");
    fs::write(&list, text).unwrap();
    assert!(matches!(refused(dataset.path()), GatherError::Schema { found: 99, .. }));
    let nowhere = gather(&[made.path().join("nowhere")], dataset.path(), &|_, _| {}).unwrap_err();
    assert!(nowhere.to_string().contains("nowhere"), "{nowhere}");
}
