//! Trees like sysfs, for tests: devices that this machine lacks.

use super::topology::Sysfs;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

pub(super) struct SysfsTree {
    root: tempfile::TempDir,
}

impl SysfsTree {
    pub(super) fn new() -> SysfsTree {
        let root = tempfile::tempdir().unwrap();
        for dir in ["block", "dev/block", "dev/char", "class/nvme-generic", "fs/btrfs"] {
            fs::create_dir_all(root.path().join(dir)).unwrap();
        }
        SysfsTree { root }
    }

    pub(super) fn root(&self) -> &Path {
        self.root.path()
    }

    pub(super) fn sysfs(&self) -> Sysfs {
        Sysfs::new(self.root())
    }

    pub(super) fn disk(&self, name: &str, number: &str) -> PathBuf {
        let dir = self.device(&format!("devices/{name}/block/{name}"), number);
        symlink(&dir, self.root().join("block").join(name)).unwrap();
        for folder in ["slaves", "holders"] {
            fs::create_dir(dir.join(folder)).unwrap();
        }
        dir
    }

    pub(super) fn partition(&self, disk: &str, name: &str, number: &str) -> PathBuf {
        let dir = self.device(&format!("devices/{disk}/block/{disk}/{name}"), number);
        fs::write(dir.join("partition"), "1\n").unwrap();
        fs::create_dir(dir.join("holders")).unwrap();
        dir
    }

    fn device(&self, path: &str, number: &str) -> PathBuf {
        let dir = self.root().canonicalize().unwrap().join(path);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("dev"), format!("{number}\n")).unwrap();
        symlink(&dir, self.root().join("dev/block").join(number)).unwrap();
        dir
    }

    /// `upper` (a whole device) is built on `lower`.
    pub(super) fn stack(&self, upper: &Path, lower: &Path) {
        symlink(lower, upper.join("slaves").join(lower.file_name().unwrap())).unwrap();
        symlink(upper, lower.join("holders").join(upper.file_name().unwrap())).unwrap();
    }

    /// The generic character device of an NVMe namespace.
    pub(super) fn generic(&self, name: &str, number: &str) {
        let dir = self.root().canonicalize().unwrap().join("devices").join(name);
        fs::create_dir_all(&dir).unwrap();
        symlink(self.root().join("class/nvme-generic"), dir.join("subsystem")).unwrap();
        symlink(&dir, self.root().join("dev/char").join(number)).unwrap();
    }
}
