//! What is no store, and what stands in the place of its log.

use super::{fresh, measured, measured_with, study, trial};
use iopj_record::Outcome;
use iopj_store::{Store, StoreError};
use std::fs;
use std::path::{Path, PathBuf};

/// One flipped bit of it ended the program.
#[test]
fn a_schema_with_no_number_of_ours_is_damage() {
    let (_folder, path) = fresh();
    drop(Store::create(&path, &study()).unwrap());
    let connection = rusqlite::Connection::open(&path).unwrap();
    for number in [0, -1, i32::MIN, i32::MIN + 7] {
        connection.pragma_update(None, "user_version", number).unwrap();
        for error in [Store::open(&path).unwrap_err(), Store::open_for_run(&path).unwrap_err()] {
            let text = error.to_string();
            assert!(
                text.contains(&format!("its schema has the number {number}, so it is damaged")),
                "{text}"
            );
        }
    }
}

/// A pipe was waited for, and the first signal did not end that.
#[test]
fn what_is_no_file_is_no_store_and_stands_in_the_place_of_no_log() {
    let (folder, path) = fresh();
    drop(Store::create(&path, &study()).unwrap());
    let pipe = |name: &Path| {
        let made = rustix::fs::mkfifoat(rustix::fs::CWD, name, 0o600.into());
        made.unwrap();
    };
    pipe(&folder.path().join("pipe"));
    for (name, what) in [(folder.path().join("pipe"), "a pipe"), ("/dev/null".into(), "a device or socket")] {
        for error in [Store::open(&name).unwrap_err(), Store::open_for_run(&name).unwrap_err()] {
            let text = error.to_string();
            assert!(text.contains(&format!("is not an iopj store: it is {what}, not a file")), "{text}");
        }
    }
    for suffix in ["-journal", "-wal", "-shm"] {
        let beside = PathBuf::from(format!("{}{suffix}", path.display()));
        let _ = fs::remove_file(&beside);
        pipe(&beside);
        let text = Store::open(&path).unwrap_err().to_string();
        assert!(text.contains(&format!("with `{}` beside it, which is no file", beside.display())), "{text}");
        fs::remove_file(&beside).unwrap();
        std::os::unix::fs::symlink(folder.path(), &beside).unwrap();
        assert!(matches!(Store::open_for_run(&path), Err(StoreError::Beside { .. })));
        fs::remove_file(&beside).unwrap();
    }
    Store::open(&path).unwrap();
}

/// Its log was taken for that of the new store, and removed.
#[test]
fn a_new_store_takes_no_log_that_another_one_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new.iopj");
    for suffix in ["-journal", "-wal", "-shm"] {
        let beside = folder.path().join(format!("new.iopj{suffix}"));
        fs::write(&beside, "mine").unwrap();
        let text = Store::create(&path, &study()).unwrap_err().to_string();
        assert!(text.contains(suffix) && text.contains("is of another store") && !path.exists(), "{text}");
        assert_eq!(fs::read(&beside).unwrap(), b"mine");
        fs::remove_file(&beside).unwrap();
    }
    Store::create(&path, &study()).unwrap();
}

/// 232 KB on a disk became 40 GB in the folder of temporary files.
#[test]
fn an_older_store_that_is_mostly_holes_is_not_copied() {
    let (_folder, path) = fresh();
    super::former_schema(&path, 5, &[]);
    Store::open(&path).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_len(1 << 30).unwrap();
    let error = Store::open(&path).unwrap_err().to_string();
    assert!(error.contains("most of its pages are holes, so it is damaged"), "{error}");
}

/// An import that was killed left a store of the trials that it had come to.
#[test]
fn a_store_is_made_with_all_its_trials_or_not_at_all() {
    let (folder, path) = fresh();
    let failed = Outcome::Failed("no".to_owned());
    let trials = [trial(0, measured()), trial(1, measured()), trial(2, failed)];
    let broken = trial(1, measured_with(|measurement| measurement.cpu_percent = f64::NAN));
    assert!(Store::create_with(&path, &study(), &[trials[0].clone(), broken]).is_err());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    Store::create_with(&path, &study(), &trials).unwrap();
    let store = Store::open(&path).unwrap();
    assert_eq!(store.trials().unwrap().len(), 3);
    store.check_all().unwrap();
    assert!(matches!(Store::create_with(&path, &study(), &trials), Err(StoreError::Exists(_))));
}
