//! Bad input gets one message with thing, cause and remedy, exit code 2, and changes nothing. A run that is
//! cut short leaves recorded failures, finished trials, and a store that can be read and continued.

mod bypass;
#[path = "../common/mod.rs"]
mod common;
mod devices;
mod failures;
mod fio;
mod limits;
mod live;
mod output;
mod stops;
mod stores;
mod studies;
mod targets;
mod trust;
mod uring;

use common::{TestFolder, output, says};
use std::collections::BTreeMap;
use std::fs::Permissions;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// A study that takes a moment.
const SHORT: &str = "--meters none --iodepth 1 --ios 200 --ramp-time 0s --replicates 1";
/// The same on a path that every machine has.
const PLAIN: &str =
    "--meters none --iodepth 1 --ios 200 --ramp-time 0s --replicates 1 --path posix-sio/syscall/interrupt";
/// A user who owns nothing.
const NOBODY: u32 = 65_534;

/// A folder's content: the files' modification times and a digest of their bytes, by path.
type Listing = BTreeMap<PathBuf, (SystemTime, u64)>;

fn listing(folder: &Path) -> Listing {
    let mut listing = Listing::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let metadata = path.symlink_metadata().unwrap();
        if metadata.is_dir() {
            listing.extend(self::listing(&path));
        }
        let mut digest = DefaultHasher::new();
        let mut modified = SystemTime::UNIX_EPOCH;
        if metadata.is_file() {
            // Only root can read a file whose mode forbids it.
            std::fs::read(&path).unwrap_or_default().hash(&mut digest);
            modified = metadata.modified().unwrap();
        }
        listing.insert(path, (modified, digest.finish()));
    }
    listing
}

/// A folder that every user can reach, and a copy of the program in it, where the build's may be out of
/// reach.
fn open_folder() -> TestFolder {
    let folder = TestFolder::in_folder("/var/tmp").unwrap();
    common::install(Path::new(env!("CARGO_BIN_EXE_iopj")), &folder.join("iopj"));
    std::fs::set_permissions(&*folder, Permissions::from_mode(0o755)).unwrap();
    folder
}

/// The program of an open folder, run there by a user who owns nothing, or by this one who is not root.
fn as_nobody(folder: &Path, line: &str) -> Command {
    let mut command = Command::new(folder.join("iopj"));
    command.current_dir(folder).args(line.split_whitespace());
    if common::is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

/// Asserts a refusal: exit code 2, no result, one message with every part, and `folder` unchanged.
#[track_caller]
fn refused(command: &mut Command, folder: &Path, parts: &[&str]) {
    let before = listing(folder);
    let (output, words) = output(command);
    assert_eq!(output.status.code(), Some(2), "{words}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{words}");
    let messages: Vec<&str> = words.lines().filter_map(|line| line.strip_prefix("iopj: ")).collect();
    let [message] = messages[..] else { panic!("one message, not: {words}") };
    says(message, parts);
    assert_eq!(listing(folder), before, "{message}");
}

/// Asserts that `iopj` with the words of `line` is refused in its folder.
#[track_caller]
fn refuses(folder: &Path, line: &str, parts: &[&str]) {
    refused(&mut common::iopj(folder, line), folder, parts);
}

/// Asserts success; returns the output and the messages.
fn succeeds(command: &mut Command) -> (String, String) {
    let (output, words) = output(command);
    assert_eq!(output.status.code(), Some(0), "{words}");
    (String::from_utf8(output.stdout).unwrap(), words)
}
