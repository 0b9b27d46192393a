//! The files and rings that a program has open (`/proc/PID/fd`, `/proc/PID/fdinfo`; proc_pid_fdinfo(5)).

use crate::child::rings::{FdInfo, RING};
use crate::root::{Root, names, text_if_there};
use iopj_core::watch::{FoundRing, OpenFiles};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

/// Messages go there, whatever the program does.
const STANDARD_ERROR: i32 = 2;

/// What was seen so far.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// Processes whose files could not be read at the last look.
    unreadable: u32,
    /// Every file that was seen: device, number, and its flags.
    seen: BTreeSet<(u64, u64, bool, bool)>,
    /// Every ring that was seen, by the first process and descriptor that it was seen of.
    pub(super) rings: BTreeMap<(i32, i32), FoundRing>,
    /// Descriptors of these rings in other processes, which got them when they were forked.
    inherited: BTreeSet<(i32, i32)>,
    /// Numbers of the block devices that hold files which were seen, or are open themselves (`st_dev`,
    /// `st_rdev`).
    pub(super) devices: BTreeSet<u64>,
}

impl Files {
    /// Looks at the descriptors of these processes.
    pub(super) fn look(&mut self, root: &Root, pids: &[i32]) {
        self.unreadable = 0;
        self.inherited.retain(|(pid, _)| pids.contains(pid));
        for pid in pids {
            let folder = root.path("proc").join(pid.to_string());
            if fs::read_dir(folder.join("fd")).is_err() && folder.exists() {
                self.unreadable += 1;
                continue;
            }
            for fd in names(&folder.join("fd")) {
                self.add(root, *pid, &fd);
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

    /// A ring that a process got when it was forked has the descriptor that it had before.
    fn is_inherited(&mut self, pid: i32, fd: i32) -> bool {
        let key = (pid, fd);
        if self.rings.contains_key(&key) || self.inherited.contains(&key) {
            return self.inherited.contains(&key);
        }
        let mut others = self.rings.keys().filter(|(other, at)| *at == fd && *other != pid);
        let is_inherited = others.any(|(other, _)| is_same_file(*other, pid, fd));
        if is_inherited {
            self.inherited.insert(key);
        }
        is_inherited
    }

    fn add(&mut self, root: &Root, pid: i32, fd: &str) {
        let Ok(number) = fd.parse::<i32>() else { return };
        let folder = root.path("proc").join(pid.to_string());
        let link = folder.join("fd").join(fd);
        let Ok(target) = fs::read_link(&link) else { return };
        let info = || text_if_there(&folder.join("fdinfo").join(fd)).ok().flatten().unwrap_or_default();
        if target.to_str() == Some(RING) {
            if !self.is_inherited(pid, number) {
                let sqpoll = FdInfo::parse(&info()).poller.is_some();
                let found = FoundRing { pid, fd: number, flags: None, sqpoll };
                self.rings.entry((pid, number)).or_insert(found).sqpoll |= sqpoll;
            }
            return;
        }
        if number == STANDARD_ERROR || !target.starts_with("/") {
            return;
        }
        let Ok(metadata) = fs::metadata(&link) else { return };
        let device = match metadata.file_type() {
            kind if kind.is_block_device() => metadata.rdev(),
            kind if kind.is_char_device() => {
                self.devices.extend(namespace(root, metadata.rdev()));
                return;
            }
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

/// The block device of the namespace behind a node for passthrough, such as `/dev/ng0n1` (the kernel gives
/// both the same numbers: drivers/nvme/host/core.c, `nvme_add_ns_cdev`); none for another node.
fn namespace(root: &Root, node: u64) -> Option<u64> {
    let link = format!("sys/dev/char/{}:{}", libc::major(node), libc::minor(node));
    let place = fs::canonicalize(root.path(&link)).ok()?;
    let numbers = place.file_name()?.to_str()?.strip_prefix("ng")?.to_owned();
    let text = root.text(&format!("sys/class/block/nvme{numbers}/dev")).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some(libc::makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// Whether this descriptor is the same open file in both processes (kcmp(2)). A kernel without that call, or
/// one that refuses, tells no files apart, and then each is another.
fn is_same_file(one: i32, other: i32, fd: i32) -> bool {
    const KCMP_FILE: libc::c_int = 0;
    // SAFETY: takes five numbers, and changes nothing.
    unsafe { libc::syscall(libc::SYS_kcmp, one, other, KCMP_FILE, fd, fd) == 0 }
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
    use std::path::Path;

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
        let Ok(_direct) = direct else { return eprintln!("skipped: needs a file system with O_DIRECT") };
        let after = look();
        // Other tests of this process open files too.
        assert!(after.ever().direct > 0 && after.ever().buffered > 0, "{before:?} {after:?}");
        assert!(after.devices.contains(&device));
    }

    /// The disk of a program that passes commands through was not found.
    #[test]
    fn a_node_for_passthrough_leads_to_its_namespace() {
        let tree = tempfile::tempdir().unwrap();
        let at = |path: &str| tree.path().join(path);
        for folder in ["devices/ng3n1", "devices/null", "dev/char", "class/block/nvme3n1"] {
            fs::create_dir_all(at("sys").join(folder)).unwrap();
        }
        for (number, node) in [("237:4", "ng3n1"), ("1:3", "null")] {
            let link = at("sys/dev/char").join(number);
            std::os::unix::fs::symlink(at("sys/devices").join(node), link).unwrap();
        }
        fs::write(at("sys/class/block/nvme3n1/dev"), "259:6\n").unwrap();
        let root = Root::new(tree.path()).unwrap();
        assert_eq!(namespace(&root, libc::makedev(237, 4)), Some(libc::makedev(259, 6)));
        assert_eq!(namespace(&root, libc::makedev(1, 3)), None);
        assert_eq!(namespace(&root, libc::makedev(1, 9)), None);
    }

    /// A server whose processes share its rings was said to have as many times more.
    #[test]
    fn a_ring_that_a_child_inherits_is_one_ring() {
        // `struct io_uring_params` (include/uapi/linux/io_uring.h), all zero.
        let mut params = [0u64; 15];
        // SAFETY: the kernel reads and writes as many bytes as there are.
        let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, params.as_mut_ptr()) };
        let Ok(fd @ 0..) = i32::try_from(fd) else { return eprintln!("skipped: needs io_uring") };
        // SAFETY: the descriptor is open and ours alone.
        let ring = unsafe { <std::os::fd::OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(fd) };
        rustix::io::fcntl_setfd(&ring, rustix::io::FdFlags::empty()).unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pids = [std::process::id().cast_signed(), child.id().cast_signed()];
        let root = Root::new(Path::new("/")).unwrap();
        let mut files = Files::default();
        files.look(&root, &pids);
        files.look(&root, &pids);
        child.kill().unwrap();
        child.wait().unwrap();
        let own = files.rings.keys().filter(|(_, at)| *at == fd).count();
        assert_eq!((own, files.inherited.contains(&(pids[1], fd))), (1, true), "{:?}", files.rings);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "flags:\t[0-9]{0,14}\n|\\PC*") {
            flags(&text);
        }
    }
}
