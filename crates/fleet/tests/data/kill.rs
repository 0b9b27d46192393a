//! A gather that is killed at any point leaves a whole data set.

use crate::rows::{folder, gathered, hold, listed, stores};
use iopj_fleet::gather::gather;
use iopj_fleet::testing::fleet::Fleet;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// What this process is to gather, if it is the one that is killed.
const FOLDERS: &str = "IOPJ_TEST_GATHER";

/// After how many stores it dies by itself; 0: never.
const DIES_AT: &str = "IOPJ_TEST_DIES_AT";

/// Not a test by itself: the process that `a_gather_that_is_killed` starts and kills.
#[test]
fn gather_for_a_kill() {
    let Ok(folders) = std::env::var(FOLDERS) else { return };
    let (from, to) = folders.split_once(':').expect("two folders");
    let at: usize = std::env::var(DIES_AT).expect("a number").parse().expect("a number");
    let dies = |read: usize, _| {
        if at > 0 && read == at {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
    };
    gather(&[PathBuf::from(from)], Path::new(to), &dies).expect("a data set");
}

#[test]
fn a_gather_that_is_killed_leaves_a_whole_generation() {
    let (made, dataset) = (folder(), folder());
    let (made, dataset) = (made.path(), dataset.path());
    let fleet = Fleet { stores: 28, seed: 3, machines: 2, replicates: 1, is_uneven: false };
    let mut written = 0;
    let mut whole = BTreeSet::new();
    for round in 0..14_u64 {
        let upto = (written + 2).min(fleet.stores);
        Fleet { stores: upto, ..fleet }.write(made).expect("stores");
        written = upto;
        match round {
            // While it has read some of the new stores.
            2 | 5 | 8 | 11 => assert!(dies(made, dataset, 1 + round as usize % 2), "round {round}"),
            // From before its first file to after its last, in steps that no machine has in common with it.
            _ => kill(made, dataset, Duration::from_micros(round * round * 2_911)),
        }
        if !dataset.join(iopj_fleet::gather::FILE).exists() {
            continue;
        }
        let files: BTreeSet<PathBuf> = listed(dataset).into_keys().collect();
        assert!(files.is_superset(&whole), "round {round}: a store is lost");
        // Each table has what the list says, each row once.
        hold(dataset, &files);
        whole = files;
    }
    assert_eq!(gathered(made, dataset).stores, written);
    hold(dataset, &stores(made));
    let left: Vec<String> = std::fs::read_dir(dataset.join("generations"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    assert!(left.len() <= 2 && left.iter().all(|name| name.parse::<u64>().is_ok()), "{left:?}");
}

/// A gather that dies after so many stores; true if it did.
fn dies(made: &Path, dataset: &Path, at: usize) -> bool {
    !start(made, dataset, at).wait().unwrap().success()
}

/// Starts a gather and kills it after so long, unless it has ended by then.
fn kill(made: &Path, dataset: &Path, after: Duration) {
    let mut child = start(made, dataset, 0);
    std::thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
}

fn start(made: &Path, dataset: &Path, dies_at: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::gather_for_a_kill", "--nocapture"])
        .env(FOLDERS, format!("{}:{}", made.display(), dataset.display()))
        .env(DIES_AT, dies_at.to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}
