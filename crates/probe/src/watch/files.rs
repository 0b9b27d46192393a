//! The files and rings that a program has open (`/proc/PID/fd`, `/proc/PID/fdinfo`; proc_pid_fdinfo(5)).

use crate::child::rings::{FdInfo, RING};
use crate::root::{Root, names, text_if_there};
use iopj_core::watch::{FoundRing, OpenFiles};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Messages go there, whatever the program does.
const STANDARD_ERROR: i32 = 2;

/// What was seen so far.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// Processes whose files could not be read at the last look.
    unreadable: u32,
    /// Every file that was seen: device, number, and its flags.
    seen: BTreeSet<(u64, u64, bool, bool)>,
    /// Every ring that was seen.
    pub(super) rings: BTreeMap<(i32, i32), FoundRing>,
    /// Numbers of the block devices that hold files which were seen, or are open themselves (`st_dev`,
    /// `st_rdev`).
    pub(super) devices: BTreeSet<u64>,
}

impl Files {
    /// Looks at the descriptors of these processes.
    pub(super) fn look(&mut self, root: &Root, pids: &[i32]) {
        self.unreadable = 0;
        for pid in pids {
            let folder = root.path("proc").join(pid.to_string());
            if fs::read_dir(folder.join("fd")).is_err() && folder.exists() {
                self.unreadable += 1;
                continue;
            }
            for fd in names(&folder.join("fd")) {
                self.add(&folder, *pid, &fd);
            }
        }
    }

    /// Every file that was seen open so far, once for each way: a file may be closed at the moment of a look.
    pub(super) fn ever(&self) -> OpenFiles {
        let count =
            |is: fn(&(u64, u64, bool, bool)) -> bool| self.seen.iter().filter(|file| is(file)).count() as u32;
        OpenFiles {
            direct: count(|file| file.2),
            buffered: count(|file| !file.2),
            synchronous: count(|file| file.3),
            unreadable: self.unreadable,
        }
    }

    fn add(&mut self, folder: &Path, pid: i32, fd: &str) {
        let Ok(number) = fd.parse::<i32>() else { return };
        let link = folder.join("fd").join(fd);
        let Ok(target) = fs::read_link(&link) else { return };
        let info = || text_if_there(&folder.join("fdinfo").join(fd)).ok().flatten().unwrap_or_default();
        if target.to_str() == Some(RING) {
            let sqpoll = FdInfo::parse(&info()).poller.is_some();
            let found = FoundRing { pid, fd: number, flags: None, sqpoll };
            let ring = self.rings.entry((pid, number)).or_insert(found);
            ring.sqpoll |= sqpoll;
            return;
        }
        if number == STANDARD_ERROR || !target.starts_with("/") {
            return;
        }
        let Ok(metadata) = fs::metadata(&link) else { return };
        let device = match metadata.file_type() {
            kind if kind.is_block_device() => metadata.rdev(),
            kind if kind.is_file() && target.starts_with("/proc") => return,
            kind if kind.is_file() => metadata.dev(),
            _ => return,
        };
        let Some(flags) = flags(&info()) else { return };
        if flags & libc::O_PATH != 0 {
            return;
        }
        self.devices.insert(device);
        // O_SYNC holds the bit of O_DSYNC.
        let [is_direct, is_sync] = [libc::O_DIRECT, libc::O_DSYNC].map(|flag| flags & flag != 0);
        self.seen.insert((metadata.dev(), metadata.ino(), is_direct, is_sync));
    }
}

/// The flags that a file was opened with; octal.
fn flags(info: &str) -> Option<i32> {
    let text = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
    i32::from_str_radix(text.trim(), 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::OpenOptionsExt;

    #[test]
    fn flags_are_octal() {
        assert_eq!(flags("pos:\t0\nflags:\t0140000\nmnt_id:\t25\n"), Some(0o140_000));
        assert_eq!(flags("pos:\t0\n"), None);
        assert_eq!(flags("flags:\t9\n"), None);
    }

    #[test]
    fn own_files_are_seen_by_their_flags() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = folder.path().join("data");
        fs::write(&path, [0; 4096]).unwrap();
        let root = Root::new(Path::new("/")).unwrap();
        let look = || {
            let mut files = Files::default();
            files.look(&root, &[std::process::id().cast_signed()]);
            files
        };
        let before = look().ever();
        let device = fs::metadata(&path).unwrap().dev();
        let _plain = fs::File::open(&path).unwrap();
        let direct = fs::OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&path);
        let Ok(_direct) = direct else { return eprintln!("skipped: needs O_DIRECT here") };
        let after = look();
        // Other tests of this process open files too.
        assert!(after.ever().direct > 0 && after.ever().buffered > 0, "{before:?} {after:?}");
        assert!(after.devices.contains(&device));
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "flags:\t[0-9]{0,14}\n|\\PC*") {
            flags(&text);
        }
    }
}
