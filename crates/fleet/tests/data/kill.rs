//! A gather that is killed at any point leaves a whole data set.

use crate::fleet::Fleet;
use crate::rows::{folder, gathered, hold, listed, stores};
use iopj_fleet::gather::gather;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// What this process is to gather, if it is the one that is killed.
const FOLDERS: &str = "IOPJ_TEST_GATHER";

/// Not a test by itself: the process that `a_gather_that_is_killed` starts and kills.
#[test]
fn gather_for_a_kill() {
    let Ok(folders) = std::env::var(FOLDERS) else { return };
    let (from, to) = folders.split_once(':').expect("two folders");
    gather(&[PathBuf::from(from)], Path::new(to), &|_, _| {}).expect("a data set");
}

#[test]
fn a_gather_that_is_killed_leaves_a_whole_generation() {
    let (made, dataset) = (folder(), folder());
    let (made, dataset) = (made.path(), dataset.path());
    let fleet = Fleet { stores: 20, seed: 3, machines: 2, replicates: 1 };
    let mut written = 0;
    let (mut killed, mut whole) = (0, BTreeSet::new());
    for round in 0..10_u64 {
        let upto = (written + 2).min(fleet.stores);
        Fleet { stores: upto, ..fleet }.write(made).expect("stores");
        written = upto;
        // From before its first file to after its last, in steps that no machine has in common with it.
        let after = Duration::from_micros(round * round * 3_911);
        killed += usize::from(is_killed(made, dataset, after));
        if !dataset.join(iopj_fleet::gather::FILE).exists() {
            continue;
        }
        let files: BTreeSet<PathBuf> = listed(dataset).into_keys().collect();
        assert!(files.is_superset(&whole), "round {round}: a store is lost");
        // Each table has what the list says, each row once.
        hold(dataset, &files);
        whole = files;
    }
    assert!(killed >= 3, "only {killed} were killed before they ended");
    assert_eq!(gathered(made, dataset).stores, written);
    hold(dataset, &stores(made));
    let left: Vec<String> = std::fs::read_dir(dataset.join("generations"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    assert!(left.len() <= 2 && left.iter().all(|name| name.parse::<u64>().is_ok()), "{left:?}");
}

/// Starts a gather and kills it after so long; false if it had ended by then.
fn is_killed(made: &Path, dataset: &Path, after: Duration) -> bool {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::gather_for_a_kill", "--nocapture"])
        .env(FOLDERS, format!("{}:{}", made.display(), dataset.display()))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(after);
    child.kill().unwrap();
    !child.wait().unwrap().success()
}
