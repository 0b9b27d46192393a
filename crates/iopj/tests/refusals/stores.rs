//! Stores that cannot be used: none, damaged, of a newer schema, in use, on a full disk.

use crate::common::{
    LoopDevice, alone, folder, have, have_mounts, iopj, is_root, mounted, refusal, says, tool, written,
};
use crate::live::Live;
use crate::{PLAIN, as_nobody, listing, open_folder, output, refused, refuses, succeeds};
use rusqlite::Connection;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

/// Every command that reads a store refuses `store`.
fn refused_as_store(folder: &Path, store: &str, parts: &[&str]) {
    for line in ["report", "report --json", "export --csv", "export --json", "run --resume"] {
        refuses(folder, &format!("{line} {store}"), parts);
    }
}

#[test]
fn what_is_no_store_is_refused() {
    let here = &*folder();
    let remedy = "name one that `iopj run` has written";
    refused_as_store(here, "nope.iopj", &["there is no store `nope.iopj`", remedy]);
    fs::write(here.join("empty.iopj"), "").unwrap();
    refused_as_store(
        here,
        "empty.iopj",
        &["`empty.iopj` is not an iopj store", "not an SQLite file", remedy],
    );
    fs::write(here.join("text.iopj"), "name = \"a study, not its store\"\n").unwrap();
    refused_as_store(here, "text.iopj", &["`text.iopj` is not an iopj store", "not an SQLite file", remedy]);
    refused_as_store(here, ".", &["`.`", remedy]);
    let foreign = Connection::open(here.join("foreign.iopj")).unwrap();
    foreign.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE trial (id INTEGER)").unwrap();
    drop(foreign);
    refused_as_store(
        here,
        "foreign.iopj",
        &["`foreign.iopj` is not an iopj store", "of another program", remedy],
    );
    fs::write(here.join("garbage.iopj"), [b"SQLite format 3\0".as_slice(), &[0xa5; 8192]].concat()).unwrap();
    refused_as_store(here, "garbage.iopj", &["`garbage.iopj` is not an iopj store", remedy]);
}

#[test]
fn damaged_or_newer_stores_are_refused() {
    let _alone = alone();
    let here = &*folder().with_data(1 << 20);
    succeeds(&mut iopj(here, &format!("run --target data --store whole.iopj {PLAIN}")));
    let bytes = fs::read(here.join("whole.iopj")).unwrap();
    fs::write(here.join("cut.iopj"), &bytes[..bytes.len() / 2]).unwrap();
    refused_as_store(here, "cut.iopj", &["`cut.iopj` is not an iopj store: it is damaged or cut short"]);
    let connection = Connection::open(here.join("whole.iopj")).unwrap();
    let schema: i32 = connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    connection.pragma_update(None, "user_version", schema + 1).unwrap();
    drop(connection);
    let cause = format!("has schema {}, this iopj knows schemas up to {schema}", schema + 1);
    refused_as_store(here, "whole.iopj", &["`whole.iopj`", &cause, "use a newer iopj"]);
}

/// Trials of another file of the same size would have gone into the store.
#[test]
fn another_file_in_the_place_of_the_target_is_not_continued_on() {
    let _alone = alone();
    let here = &*folder().with_data(1 << 20);
    succeeds(&mut iopj(here, &format!("run --target data --store s.iopj {PLAIN}")));
    succeeds(&mut iopj(here, "run --resume s.iopj"));
    fs::rename(here.join("data"), here.join("first")).unwrap();
    fs::copy(here.join("first"), here.join("data")).unwrap();
    let cause = "another file is in its place now, with inode ";
    refuses(here, "run --resume s.iopj", &["the target was the file with inode ", cause, "a new store"]);
    fs::rename(here.join("first"), here.join("data")).unwrap();
    succeeds(&mut iopj(here, "run --resume s.iopj"));
}

/// Only `report --check` said it.
#[test]
fn an_older_store_says_that_nothing_protects_it() {
    let _alone = alone();
    let here = &*folder().with_data(1 << 20);
    succeeds(&mut iopj(here, &format!("run --target data --store old.iopj {PLAIN}")));
    let note = "note: of `old.iopj`, 1 trial is from an iopj that wrote no checksums: damage would not be \
                noticed; measure again where that matters";
    let lines = ["report old.iopj", "export --csv old.iopj", "export --json old.iopj", "advise old.iopj"];
    for line in lines {
        let (_, words) = output(&mut iopj(here, line));
        assert!(!words.contains("checksum"), "{line}: {words}");
    }
    let connection = Connection::open(here.join("old.iopj")).unwrap();
    connection.execute_batch("DROP TABLE checksum; PRAGMA user_version = 6").unwrap();
    drop(connection);
    for line in lines {
        let (_, words) = output(&mut iopj(here, line));
        assert!(words.contains(note), "{line}: {words}");
    }
}

/// Its missing reads would have found a filled target, and were ranked with reads of an empty one.
#[test]
fn a_store_whose_reads_were_not_preconditioned_is_not_resumed() {
    let _alone = alone();
    let here = &*folder();
    let study = "name = \"old\"\npaths = \"libaio/syscall/interrupt\"\nreplicates = 2\nprecondition = \
                 true\nmeters = false\nsize = \"1m\"\n[[workload]]\nrw = \"randread\"\nios = 50\n";
    fs::write(here.join("old.toml"), study).unwrap();
    let (_, words) = succeeds(&mut iopj(here, "run old.toml"));
    assert!(
        words.contains("preconditioning: 1 fill of the target in 2 blocks, 2m each, 2m in all"),
        "{words}"
    );
    let store = Connection::open(here.join("old.iopj")).unwrap();
    // As earlier versions wrote it.
    let older = "UPDATE trial SET measurement = json_set(measurement, '$.preconditioning', NULL)";
    assert_eq!(store.execute(older, []).unwrap(), 2);
    store.execute_batch("DELETE FROM checksum").unwrap();
    drop(store);
    let words = refusal(here, "run --resume old.iopj");
    assert!(words.contains("trial 0 without preconditioning the target for reads"), "{words}");
    assert!(words.contains("start a new store"), "{words}");
}

#[test]
fn existing_files_are_not_overwritten() {
    let here = &*folder().with_data(1 << 20);
    fs::write(here.join("there"), "mine\n").unwrap();
    for store in ["there", "data", "."] {
        let parts = [&*format!("`{store}` already exists"), "--resume", "name another file with --store"];
        refuses(here, &format!("run --target data --store {store} {PLAIN}"), &parts);
        refuses(here, &format!("run --store {store} {PLAIN}"), &parts);
    }
    let parts = ["`no/such.iopj`", "not a folder", "--store"];
    for target in ["--target data", ""] {
        refuses(here, &format!("run {target} --store no/such.iopj {PLAIN}"), &parts);
    }
}

#[test]
fn store_of_a_live_run_is_read_and_not_continued() {
    let _alone = alone();
    let here = &*folder().with_data(1 << 20);
    let line = PLAIN.replace("--ios 200", "--runtime 100ms").replace("--replicates 1", "--replicates 500");
    let mut live = Live::start(iopj(here, &format!("run --target data --store live.iopj {line}")));
    live.until("2/500 ");
    let words = refusal(here, "run --resume live.iopj");
    assert!(words.contains("`live.iopj` is in use by a live run: wait for it, or end it"), "{words}");
    let (text, _) = succeeds(&mut iopj(here, "report live.iopj"));
    assert!(text.contains(" of 500 trials") && text.contains("posix-sio/syscall/interrupt"), "{text}");
    let (text, _) = succeeds(&mut iopj(here, "export --csv live.iopj"));
    assert!(text.lines().count() >= 2, "{text}");
    live.interrupt();
    let (code, words) = live.end();
    assert_eq!(code, Some(130), "{words}");
}

#[test]
fn store_that_may_only_be_read_is_reported() {
    if !have(is_root(), "root, to become another user") {
        return;
    }
    let _alone = alone();
    let folder = open_folder();
    written(&folder.join("data"), 1 << 20);
    succeeds(&mut iopj(&folder, &format!("run --target data --store x.iopj {PLAIN}")));
    let (text, _) = succeeds(&mut as_nobody(&folder, "report x.iopj"));
    assert!(text.contains("1 of 1 trials"), "{text}");
    let parts = ["`x.iopj`", "you may not write"];
    refused(&mut as_nobody(&folder, "run --resume x.iopj"), &folder, &parts);
}

#[test]
fn finished_trials_outlive_a_full_disk() {
    let Some(folder) = have_mounts().then(|| folder().with_data(1 << 20)) else { return };
    let _alone = alone();
    let here = &folder;
    let image = here.join("image");
    File::create(&image).unwrap().set_len(1 << 20).unwrap();
    tool(&format!("mkfs.ext4 -q -m 0 -O ^has_journal -F {}", image.display()));
    let device = LoopDevice::new(&image, "");
    let at = here.join("small");
    let _mounted = mounted(device.node(), &at);
    let line = PLAIN.replace("--replicates 1", "--replicates 1000");
    let words = refusal(here, &format!("run --target data --store small/x.iopj {line}"));
    says(
        words.lines().last().unwrap(),
        &[
            "`small/x.iopj`",
            "no space is left",
            "the finished trials are kept",
            "`iopj run --resume small/x.iopj`",
        ],
    );
    let last =
        words.lines().rev().find_map(|line| line.split_once("/1000 ")?.0.parse::<usize>().ok()).unwrap();
    assert!((2..1000).contains(&last), "{words}");
    // Still on the full disk: every trial before the last one is there.
    let (text, _) = succeeds(&mut iopj(here, "report small/x.iopj --json"));
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["trials"].as_array().unwrap().len(), last - 1);
    let (text, _) = succeeds(&mut iopj(here, "export --csv small/x.iopj"));
    assert_eq!(text.lines().count(), last);
    // No room for a store or for a file to measure on: no file is left, and no message says that trials are
    // kept.
    let mut filler = File::create(at.join("filler")).unwrap();
    while filler.write(&[7; 1024]).is_ok() {}
    let before = listing(&at);
    let words = refusal(here, &format!("run --target data --store small/y.iopj {PLAIN}"));
    assert!(words.contains("`small/y.iopj`") && words.contains("no space is left"), "{words}");
    assert!(!words.contains("--resume"), "{words}");
    let parts = ["`small/y.iopj-data` needs", "make room, or ask for a smaller file"];
    refuses(here, &format!("run --store small/y.iopj {PLAIN}"), &parts);
    assert_eq!(listing(&at), before);
}
