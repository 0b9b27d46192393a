//! `iopj fleet gather` and `iopj fleet report`: what they print, what they write, and how they end.

use crate::common::{TestFolder, folder, install, is_root, run, says};
use iopj_fleet::testing::fleet::Fleet;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// A folder with eight hosts, two of each drive and kernel, with a store each, below `stores`.
fn made(folder: TestFolder) -> TestFolder {
    let fleet = Fleet { stores: 40, seed: 3, machines: 1, replicates: 1, is_uneven: false };
    for host in 0..8 {
        let path = fleet.path(&folder.join("stores"), host * iopj_fleet::testing::fleet::MONTHS);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fleet.write_store(&path, host * iopj_fleet::testing::fleet::MONTHS).unwrap();
    }
    folder
}

fn names(folder: &TestFolder) -> Vec<String> {
    let entries = fs::read_dir(folder.join("policies")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A name stood before the JSON, and the second time the policies were refused.
#[test]
fn a_report_as_json_is_json_alone_and_policies_are_written_again() {
    let folder = made(folder());
    let (code, words, _) = run(&folder, "fleet gather stores --to dataset");
    assert_eq!((code, words.as_str()), (0, "generation 1: 8 stores; 8 added, 0 replaced, 0 unchanged\n"));
    let report = "fleet report dataset --json --html page.html --policies policies";
    let (code, json, notes) = run(&folder, report);
    let told: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, told["kinds"].as_array().unwrap().len()), (0, 4), "{notes}");
    let first = names(&folder);
    assert_eq!(first.len(), 4, "{notes}");
    fs::write(folder.join("policies").join(&first[0]), "what an older run wrote").unwrap();
    fs::remove_file(folder.join("page.html")).unwrap();
    assert_eq!(run(&folder, report).0, 0);
    assert_eq!(names(&folder), first, "nothing is left beside them");
    for name in &first {
        let (code, words, messages) = run(&folder, &format!("policy show policies/{name}"));
        assert_eq!(code, 0, "{name}: {words}{messages}");
    }
    let (code, words, _) = run(&folder, "fleet report dataset --html page.html");
    assert_eq!((code, words.as_str()), (0, "page.html\n"));
    says(&fs::read_to_string(folder.join("page.html")).unwrap(), &["What to roll out to whom"]);
    // As `/dev/stdout` is a link, which a file took the place of.
    std::os::unix::fs::symlink("page.html", folder.join("link.html")).unwrap();
    // Root follows none: in a folder of others it could lead anywhere.
    let status = if crate::common::is_root() { 2 } else { 0 };
    assert_eq!(run(&folder, "fleet report dataset --html link.html").0, status);
    assert!(fs::symlink_metadata(folder.join("link.html")).unwrap().is_symlink());
    let (code, words, _) = run(&folder, "fleet report dataset");
    assert_eq!(code, 0);
    says(&words, &["8 stores of 8 hosts, 4 kinds of machines (generation 1)", "io_uring/sqpoll/poll"]);
}

/// The first one that could not be read ended the gather, and a pipe held it for ever.
#[test]
fn a_folder_that_cannot_be_read_and_a_pipe_are_named_and_the_rest_is_gathered() {
    // Below a closed home, another user reaches neither the folder of the build nor the program in it.
    let folder = made(TestFolder::in_folder("/var/tmp").unwrap());
    install(Path::new(env!("CARGO_BIN_EXE_iopj")), &folder.join("iopj"));
    let locked = folder.join("stores/host-0003");
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
    assert!(Command::new("mkfifo").arg(folder.join("stores/pipe.iopj")).status().unwrap().success());
    fs::write(folder.join("stores/none.iopj"), "no store").unwrap();
    // Root reads every folder, so somebody else gathers.
    let mut gather = Command::new(folder.join("iopj"));
    if is_root() {
        fs::set_permissions(&*folder, fs::Permissions::from_mode(0o777)).unwrap();
        gather.uid(65_534).gid(65_534);
    }
    gather.args(["fleet", "gather", "stores", "--to", "dataset"]).current_dir(&*folder);
    let found = gather.output().unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o755)).unwrap();
    let messages = String::from_utf8(found.stderr).unwrap();
    assert_eq!(found.status.code(), Some(1), "{messages}");
    says(&messages, &["host-0003 cannot be read", "pipe.iopj` is no file", "none.iopj"]);
    says(&String::from_utf8(found.stdout).unwrap(), &["generation 1: 7 stores", "3 could not be read"]);
}
