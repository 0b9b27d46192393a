//! Unusable targets: missing, not a file, a wrong length, bytes that no device holds, no permission.

use crate::common::{TestFolder, alone, folder, have, iopj, is_root, mounted, tool, written};
use crate::{PLAIN, as_nobody, open_folder, refused, refuses, succeeds};
use std::fs::{self, File, Permissions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;

/// `run` and `check` refuse a target in the same words.
fn refused_as_target(folder: &Path, target: &str, parts: &[&str]) {
    refuses(folder, &format!("check {target}"), parts);
    refuses(folder, &format!("run --target {target} {PLAIN}"), parts);
}

#[test]
fn good_file_is_taken() {
    let _alone = alone();
    let folder = folder().with_data(1 << 20);
    let (text, words) = succeeds(&mut iopj(&folder, &format!("run --target data {PLAIN}")));
    assert!(text.starts_with("study quick: 1 of 1 trials\n"), "{text}");
    let kept = "\nstore: quick.iopj\nkept: 1 trial; `iopj report quick.iopj` shows this again\n";
    assert!(text.ends_with(kept), "{text}");
    assert!(words.starts_with("1 trial of 1 path on data: about "), "{words}");
    assert!(words.lines().next().unwrap().ends_with(" s; quick.iopj keeps the results"), "{words}");
}

/// The first command made a file of a gigabyte before it said a word, and did not say that it removes it.
#[test]
fn a_run_says_what_it_makes_before_it_makes_it_and_what_became_of_it() {
    let _alone = alone();
    let folder = folder();
    let (text, words) = succeeds(&mut iopj(&folder, &format!("run --size 1m {PLAIN}")));
    let will =
        "1 trial of 1 path on quick.iopj-data, a file of 1m that is made now and removed at the end: about ";
    assert!(words.starts_with(will) && words.lines().nth(1).unwrap().starts_with("writing "), "{words}");
    let last = text.lines().last().unwrap();
    assert!(
        last.starts_with("removed: ") && last.ends_with("/quick.iopj-data, which was measured"),
        "{text}"
    );
    assert!(!folder.join("quick.iopj-data").exists());
}

#[test]
fn what_is_no_target_is_refused() {
    let here = &*folder();
    fs::create_dir(here.join("empty")).unwrap();
    symlink("nowhere", here.join("dangling")).unwrap();
    for missing in ["nope", "no/such/folder", "dangling", "/dev/nope"] {
        let thing = format!("`{missing}` does not exist");
        refused_as_target(here, missing, &[&thing, "name a file, a block device or an NVMe namespace"]);
    }
    for directory in [".", "empty"] {
        refused_as_target(here, directory, &[&format!("`{directory}` is a directory: name a file in it")]);
    }
    refused_as_target(
        here,
        "/dev/null",
        &["`/dev/null` is a character device that is not an NVMe namespace: name a file"],
    );
}

/// A refused run removed a file that it had not made.
#[test]
fn a_file_in_the_place_of_the_one_to_be_made_is_kept() {
    let folder = folder();
    let data = folder.join("t.iopj-data");
    fs::write(&data, "not yours").unwrap();
    refuses(&folder, &format!("run --store t.iopj {PLAIN}"), &["already exists", "--store"]);
    assert_eq!(fs::read_to_string(&data).unwrap(), "not yours");
}

#[test]
fn length_must_be_whole_blocks() {
    let here = &*folder();
    written(&here.join("empty"), 0);
    refused_as_target(here, "empty", &["`empty` is empty", "let iopj make one"]);
    written(&here.join("odd"), 4096 + 100);
    refused_as_target(
        here,
        "odd",
        &[
            "`odd` has 4196 bytes",
            "not a multiple of the logical block of",
            "name a file whose length is one",
        ],
    );
    let run = |line: &str, parts: &[&str]| refuses(here, &format!("run {PLAIN} {line}"), parts);
    written(&here.join("small"), 4096);
    run(
        "--target small --bs 8k",
        &["small holds 4096 bytes, which is less than 8192", "lower bs", "larger target"],
    );
    run(
        "--target small --bs 4k --numjobs 2 --rw read",
        &["small holds 4096 bytes", "for each job", "lower bs or numjobs"],
    );
    written(&here.join("three"), 12_288);
    run(
        "--target three --bs 8k",
        &["three holds 12288 bytes", "not a multiple of bs 8k", "choose another bs"],
    );
    run(
        "--target three --bs 1000",
        &["bs 1000 is not a multiple of three's logical block of", "choose a multiple"],
    );
}

#[test]
fn files_with_holes_are_refused() {
    let folder = folder();
    let sparse = File::create(folder.join("sparse")).unwrap();
    sparse.set_len(1 << 20).unwrap();
    let remedy = "copy it with `cp --sparse=never";
    refused_as_target(&folder, "sparse", &["`sparse` has a hole at byte 0", "without the device", remedy]);
    sparse.write_all_at(&[7; 8192], 0).unwrap();
    sparse.sync_all().unwrap();
    refused_as_target(&folder, "sparse", &["`sparse` has a hole at byte 8192", remedy]);
}

#[test]
fn files_allocated_but_not_written_are_refused() {
    let folder = folder();
    let file = File::create(folder.join("allocated")).unwrap();
    // SAFETY: the descriptor is open.
    let done = unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, 1 << 20) };
    if !have(done == 0, "a file system with fallocate") {
        return;
    }
    file.sync_all().unwrap();
    let cause = "was never written at byte 0 (fallocate), which is read without the device";
    refused_as_target(&folder, "allocated", &["`allocated`", cause, "copy it with `cp --sparse=never"]);
}

#[test]
fn file_systems_in_memory_are_refused() {
    let above = folder();
    let own = above.join("memory");
    let mounted = is_root().then(|| mounted("-t tmpfs tmpfs", &own));
    // It may be a folder on a disk.
    let is_tmpfs = || Path::new("/dev/shm").is_dir() && tool("stat -f -c %T /dev/shm") == "tmpfs";
    if !have(mounted.is_some() || is_tmpfs(), "root, or /dev/shm in memory") {
        return;
    }
    let place = if mounted.is_some() { own.as_path() } else { Path::new("/dev/shm") };
    let memory = TestFolder::in_folder(place).unwrap().with_data(1 << 20);
    let parts = ["` is on tmpfs, which has no direct I/O (O_DIRECT)", "name a file on a disk's file system"];
    refused_as_target(&memory, "data", &parts);
    // Nor is a file made there, or left behind.
    refuses(&memory, "check", &parts);
    refuses(&memory, &format!("run {PLAIN}"), &parts);
}

#[test]
fn permission_is_asked_for_by_name() {
    let _alone = alone();
    let here = &*open_folder();
    let data = here.join("data");
    written(&data, 1 << 20);
    fs::set_permissions(&data, Permissions::from_mode(if is_root() { 0o600 } else { 0 })).unwrap();
    let refused = |line: &str, parts: &[&str]| refused(&mut as_nobody(here, line), here, parts);
    let parts = [
        "`data` cannot be opened for reading: permission denied",
        "change its owner or mode, or run as root",
    ];
    refused("check data", &parts);
    refused(&format!("run --target data {PLAIN}"), &parts);
    // In a folder where no file can be made, and in one where no store can be made.
    if is_root() {
        let parts = ["cannot be created: permission denied", "change its owner or mode, or run as root"];
        refused("check", &parts);
        refused(&format!("run {PLAIN}"), &parts);
        fs::set_permissions(&data, Permissions::from_mode(0o644)).unwrap();
        refused(
            &format!("run --target data --store x.iopj {PLAIN}"),
            &["`x.iopj`", "Permission denied", "--store"],
        );
    }
}

#[test]
fn foreign_files_are_never_written() {
    let folder = folder().with_data(1 << 20);
    for rw in ["write", "randwrite", "rw", "randrw"] {
        let run = format!("run --target data --rw {rw} {PLAIN}");
        let remedy = "leave --target out, or name a whole device to be overwritten by --destroy-data";
        refuses(&folder, &run, &["data is not a file that iopj made", remedy]);
        let run = format!("{run} --destroy-data data");
        let parts =
            ["`data` is a file: --destroy-data is for whole devices", "only those files that iopj made"];
        refuses(&folder, &run, &parts);
    }
}
