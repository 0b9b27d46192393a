//! What is below a block device or a mounted file system and what is built on it, from sysfs
//! (Documentation/ABI/stable/sysfs-block): partitions, device mapper, md, NVMe multipath, btrfs. `safety`
//! decides which of it forbids a write.

use super::loops::LoopBacking;
use super::mounts::{self, Mount};
use crate::system::attribute;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Kernel names of the whole disks below the block device with number `device` (`st_rdev`, or `st_dev` of a
/// file), sorted: the names under `/sys/block`. `sysfs` is the root of sysfs, `/sys`.
///
/// A partition leads to its disk; device mapper and md lead to what they are made of; the head of an NVMe
/// multipath device leads to its paths, which own the queues and interrupts; a loop device is a leaf itself.
///
/// # Errors
/// sysfs does not know the device.
pub fn leaf_devices(sysfs: &Path, device: u64) -> io::Result<Vec<String>> {
    let sysfs = Sysfs::new(sysfs);
    let mut leaves = BTreeSet::new();
    sysfs.add_leaves(&sysfs.block_dir(device)?, &mut BTreeSet::new(), &mut leaves);
    Ok(leaves.into_iter().collect())
}

/// A block device or partition that shares its data with another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) device: u64,
    /// Kernel names of what is built on it: device mapper, md, bcache, loop.
    pub(super) holders: Vec<String>,
}

/// A sysfs, the system's or a fixture's.
#[derive(Clone, Debug)]
pub(super) struct Sysfs {
    root: PathBuf,
}

impl Sysfs {
    pub(super) fn new(root: &Path) -> Sysfs {
        Sysfs { root: root.to_owned() }
    }

    /// The directory of the block device or partition with this number.
    pub(super) fn block_dir(&self, device: u64) -> io::Result<PathBuf> {
        self.numbered("block", device)
    }

    /// The directory of a block device by its kernel name.
    pub(super) fn named(&self, name: &str) -> io::Result<PathBuf> {
        self.root.join("block").join(name).canonicalize()
    }

    fn numbered(&self, class: &str, device: u64) -> io::Result<PathBuf> {
        let number = format!("{}:{}", libc::major(device), libc::minor(device));
        self.root.join("dev").join(class).join(number).canonicalize()
    }

    /// The block device of the namespace whose generic character device has this number: `nvme0n1` of
    /// `ng0n1`.
    pub(super) fn block_of_generic(&self, device: u64) -> Option<PathBuf> {
        let dir = self.numbered("char", device).ok()?;
        let subsystem = dir.join("subsystem").canonicalize().ok()?;
        let suffix = name_of(&dir).strip_prefix("ng")?.to_owned();
        (name_of(&subsystem) == "nvme-generic").then(|| self.named(&format!("nvme{suffix}")).ok()).flatten()
    }

    /// The block devices of a mounted file system.
    pub(super) fn devices_of_mount(&self, mount: &Mount) -> Vec<u64> {
        let own = (libc::major(mount.device) != 0).then_some(mount.device);
        let mut devices: Vec<u64> = own.into_iter().chain(mount.source_devices.iter().copied()).collect();
        if mount.fs_type == "btrfs" {
            // The mount names one device of several; /sys/fs/btrfs/UUID/devices has them all.
            let sets = entries(&self.root.join("fs/btrfs"));
            let sets = sets
                .iter()
                .map(|dir| entries(&dir.join("devices")).iter().filter_map(|d| number(d)).collect());
            devices.extend(
                sets.filter(|set: &Vec<u64>| set.iter().any(|d| devices.contains(d)))
                    .flatten()
                    .collect::<Vec<_>>(),
            );
        }
        devices.sort_unstable();
        devices.dedup();
        devices
    }

    fn add_leaves(&self, dir: &Path, seen: &mut BTreeSet<PathBuf>, leaves: &mut BTreeSet<String>) {
        let dir = whole(dir);
        if !seen.insert(dir.clone()) {
            return;
        }
        let mut below = entries(&dir.join("slaves"));
        below.extend(self.multipath_paths(&name_of(&dir)));
        if below.is_empty() {
            leaves.insert(name_of(&dir));
        }
        below.iter().for_each(|dir| self.add_leaves(dir, seen, leaves));
    }

    /// The hidden block devices `nvmeXcYnZ` that carry the I/O of the multipath head `nvmeXnZ`
    /// (drivers/nvme/host/multipath.c, `nvme_mpath_set_disk_name`).
    fn multipath_paths(&self, head: &str) -> Vec<PathBuf> {
        let Some((subsystem, namespace)) = head.strip_prefix("nvme").and_then(|rest| rest.split_once('n'))
        else {
            return Vec::new();
        };
        let is_path = |name: &str| {
            let rest =
                name.strip_prefix("nvme").and_then(|rest| rest.strip_prefix(subsystem)?.strip_prefix('c'));
            let controller = rest.and_then(|rest| rest.strip_suffix(namespace)?.strip_suffix('n'));
            controller.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
        };
        entries(&self.root.join("block")).into_iter().filter(|dir| is_path(&name_of(dir))).collect()
    }

    /// The device, its partitions, and everything that is built on them, each once.
    pub(super) fn family(&self, dir: &Path) -> Vec<Member> {
        let (mut members, mut open) = (Vec::<Member>::new(), vec![dir.to_owned()]);
        let loops = self.loops();
        while let Some(dir) = open.pop() {
            let name = name_of(&dir);
            let Some(device) = number(&dir).filter(|_| members.iter().all(|member| member.name != name))
            else {
                continue;
            };
            open.extend(partitions(&dir));
            let mut holders = entries(&dir.join("holders"));
            let over = |(_, backing): &&(PathBuf, LoopBacking)| *backing == LoopBacking::Device(device);
            holders.extend(loops.iter().filter(over).map(|(dir, _)| dir.clone()));
            members.push(Member { name, device, holders: holders.iter().map(|dir| name_of(dir)).collect() });
            open.extend(holders.iter().map(|dir| whole(dir)));
        }
        members
    }

    /// What the whole device is built on, each once: the parts of device mapper and md, and the block device
    /// of a loop device; with the whole devices of partitions, and without their siblings or what else is
    /// built on them.
    pub(super) fn below(&self, dir: &Path) -> Vec<Member> {
        let (mut members, mut open) = (Vec::<Member>::new(), self.parts(&whole(dir)));
        while let Some(dir) = open.pop() {
            for dir in [whole(&dir), dir] {
                let name = name_of(&dir);
                let Some(device) = number(&dir).filter(|_| members.iter().all(|one| one.name != name)) else {
                    continue;
                };
                members.push(Member { name, device, holders: Vec::new() });
                open.extend(self.parts(&dir));
            }
        }
        members
    }

    fn parts(&self, dir: &Path) -> Vec<PathBuf> {
        let mut parts = entries(&dir.join("slaves"));
        parts.extend(self.below_loop(dir));
        parts
    }

    /// The block device that a loop device lies on.
    fn below_loop(&self, dir: &Path) -> Option<PathBuf> {
        match LoopBacking::of(dir)? {
            LoopBacking::Device(number) => self.block_dir(number).ok(),
            LoopBacking::File { .. } => None,
        }
    }

    /// Loop devices, with what they lie on: sysfs does not list them as holders.
    fn loops(&self) -> Vec<(PathBuf, LoopBacking)> {
        let all = entries(&self.root.join("block")).into_iter();
        all.filter_map(|dir| LoopBacking::of(&dir).map(|backing| (dir, backing))).collect()
    }

    /// A whole device, and all others that hold the same bytes, each once: other paths to it; the block
    /// device that a loop device lies on, and further below; and other loop devices on the same.
    pub(super) fn same_bytes(&self, disk: &Path) -> Vec<PathBuf> {
        let (loops, mut all, mut at) = (self.loops(), vec![disk.to_owned()], 0);
        while let Some(dir) = all.get(at).cloned() {
            at += 1;
            let whole = whole(&dir);
            let mut found = self.twins(&whole);
            if let Some((_, own)) = loops.iter().find(|(of, _)| *of == whole) {
                let same = loops.iter().filter(|(of, backing)| of != &whole && backing == own);
                found.extend(same.map(|(of, _)| of.clone()));
                found.extend(self.below_loop(&whole));
            }
            for one in found {
                if !all.contains(&one) {
                    all.push(one);
                }
            }
        }
        all
    }

    /// Other whole devices that show the same NVMe namespace or SCSI logical unit, as they do without
    /// multipath.
    pub(super) fn twins(&self, dir: &Path) -> Vec<PathBuf> {
        let Some(id) = world_wide_id(dir) else { return Vec::new() };
        let visible = |other: &PathBuf| attribute::<u32>(other, "hidden") != Some(1);
        let all = entries(&self.root.join("block")).into_iter();
        all.filter(|other| other != dir && visible(other) && world_wide_id(other).as_ref() == Some(&id))
            .collect()
    }
}

/// The directory of the whole device that a directory of a device or partition belongs to.
pub(super) fn whole(dir: &Path) -> PathBuf {
    let parent = dir.parent().filter(|_| dir.join("partition").exists());
    parent.unwrap_or(dir).to_owned()
}

/// The kernel name of a device's directory.
pub(super) fn name_of(dir: &Path) -> String {
    dir.file_name().unwrap_or(OsStr::new("")).to_string_lossy().into_owned()
}

/// The device number that a device's directory states.
pub(super) fn number(dir: &Path) -> Option<u64> {
    mounts::parse_device(&fs::read_to_string(dir.join("dev")).ok()?)
}

/// The identifier that a whole device shows on each of its paths: NVMe has it on the disk, SCSI on the disk's
/// device (drivers/scsi/scsi_sysfs.c, `sdev_show_wwid`).
fn world_wide_id(dir: &Path) -> Option<String> {
    ["wwid", "device/wwid"].iter().find_map(|name| attribute::<String>(dir, name).filter(|id| !id.is_empty()))
}

fn partitions(dir: &Path) -> Vec<PathBuf> {
    entries(dir).into_iter().filter(|dir| dir.join("partition").exists()).collect()
}

/// What a directory of links or directories names, sorted; nothing where there is no such directory.
pub(super) fn entries(dir: &Path) -> Vec<PathBuf> {
    let Ok(found) = fs::read_dir(dir) else { return Vec::new() };
    let mut found: Vec<PathBuf> = found.filter_map(|entry| entry.ok()?.path().canonicalize().ok()).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::SysfsTree;
    use super::*;
    use std::os::unix::fs::symlink;

    fn leaves(tree: &SysfsTree, number: &str) -> Vec<String> {
        leaf_devices(tree.root(), mounts::parse_device(number).unwrap()).unwrap()
    }

    fn family(tree: &SysfsTree, dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = tree.sysfs().family(dir).into_iter().map(|member| member.name).collect();
        names.sort();
        names
    }

    #[test]
    fn partition_leads_to_its_disk_and_a_disk_to_itself() {
        let tree = SysfsTree::new();
        let disk = tree.disk("sda", "8:0");
        let partition = tree.partition("sda", "sda1", "8:1");
        tree.disk("loop0", "7:0");
        assert_eq!(leaves(&tree, "8:0"), ["sda"]);
        assert_eq!(leaves(&tree, "8:1"), ["sda"]);
        assert_eq!(leaves(&tree, "7:0"), ["loop0"]);
        assert_eq!(whole(&partition), disk);
        assert_eq!(leaf_devices(tree.root(), 4711).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn crypt_on_a_partition_leads_to_the_disk_and_is_family() {
        let tree = SysfsTree::new();
        let disk = tree.disk("vda", "254:0");
        let partition = tree.partition("vda", "vda2", "254:2");
        let crypt = tree.disk("dm-0", "253:0");
        tree.stack(&crypt, &partition);
        assert_eq!(leaves(&tree, "253:0"), ["vda"]);
        assert_eq!(family(&tree, &disk), ["dm-0", "vda", "vda2"]);
        assert_eq!(family(&tree, &partition), ["dm-0", "vda2"]);
        assert_eq!(family(&tree, &crypt), ["dm-0"]);
        let members = tree.sysfs().family(&disk);
        let held = members.iter().find(|member| !member.holders.is_empty()).unwrap();
        assert_eq!((held.name.as_str(), held.holders.as_slice()), ("vda2", ["dm-0".to_owned()].as_slice()));
    }

    #[test]
    fn lvm_over_md_and_a_disk_leads_to_all_disks_once() {
        let tree = SysfsTree::new();
        let (a, b, c) = (tree.disk("sda", "8:0"), tree.disk("sdb", "8:16"), tree.disk("sdc", "8:32"));
        let (a1, b1) = (tree.partition("sda", "sda1", "8:1"), tree.partition("sdb", "sdb1", "8:17"));
        let (md, lv) = (tree.disk("md0", "9:0"), tree.disk("dm-1", "253:1"));
        for (upper, lower) in [(&md, &a1), (&md, &b1), (&lv, &md), (&lv, &c), (&lv, &a)] {
            tree.stack(upper, lower);
        }
        assert_eq!(leaves(&tree, "9:0"), ["sda", "sdb"]);
        assert_eq!(leaves(&tree, "253:1"), ["sda", "sdb", "sdc"]);
        assert_eq!(family(&tree, &b), ["dm-1", "md0", "sdb", "sdb1"]);
    }

    #[test]
    fn multipath_head_leads_to_its_own_paths() {
        let tree = SysfsTree::new();
        for (name, number) in [
            ("nvme1n2", "259:0"),
            ("nvme1c0n2", "259:1"),
            ("nvme1c12n2", "259:2"),
            ("nvme1c0n1", "259:3"),
            ("nvme11c0n2", "259:4"),
        ] {
            tree.disk(name, number);
        }
        tree.partition("nvme1n2", "nvme1n2p1", "259:5");
        tree.disk("nvme0n1", "259:6");
        assert_eq!(leaves(&tree, "259:5"), ["nvme1c0n2", "nvme1c12n2"]);
        assert_eq!(leaves(&tree, "259:6"), ["nvme0n1"]);
    }

    #[test]
    fn circle_of_devices_ends() {
        let tree = SysfsTree::new();
        let (a, b) = (tree.disk("dm-0", "253:0"), tree.disk("dm-1", "253:1"));
        tree.stack(&a, &b);
        tree.stack(&b, &a);
        assert_eq!(leaves(&tree, "253:0"), Vec::<String>::new());
        assert_eq!(family(&tree, &a), ["dm-0", "dm-1"]);
    }

    #[test]
    fn generic_device_belongs_to_the_block_device_of_its_namespace() {
        let tree = SysfsTree::new();
        let block = tree.disk("nvme3n1", "259:0");
        tree.generic("ng3n1", "237:4");
        let number = mounts::parse_device("237:4").unwrap();
        assert_eq!(tree.sysfs().block_of_generic(number), Some(block));
        assert_eq!(tree.sysfs().block_of_generic(number + 1), None);
    }

    #[test]
    fn twins_show_the_same_namespace() {
        let tree = SysfsTree::new();
        let (a, b, c) =
            (tree.disk("nvme0n1", "259:0"), tree.disk("nvme1n1", "259:1"), tree.disk("nvme2n1", "259:2"));
        let hidden = tree.disk("nvme0c0n1", "259:3");
        for (dir, wwid) in [(&a, "eui.1"), (&b, "eui.1"), (&c, "eui.2"), (&hidden, "eui.1")] {
            fs::write(dir.join("wwid"), format!("{wwid}\n")).unwrap();
        }
        fs::write(hidden.join("hidden"), "1\n").unwrap();
        assert_eq!(tree.sysfs().twins(&a), [b]);
        assert_eq!(tree.sysfs().twins(&c), Vec::<PathBuf>::new());
    }

    #[test]
    fn twins_are_two_paths_to_one_scsi_unit() {
        let tree = SysfsTree::new();
        let disks =
            ["sda", "sdb", "sdc", "sdd"].map(|name| tree.disk(name, &format!("8:{}", name.as_bytes()[2])));
        for (dir, wwid) in disks.iter().zip(["naa.5000c5001", "naa.5000c5001", "naa.5000c5002", ""]) {
            fs::create_dir(dir.join("device")).unwrap();
            fs::write(dir.join("device/wwid"), format!("{wwid}\n")).unwrap();
        }
        let without = tree.disk("vda", "254:0");
        assert_eq!(tree.sysfs().twins(&disks[0]), [disks[1].clone()]);
        for alone in [&disks[2], &disks[3], &without] {
            assert_eq!(tree.sysfs().twins(alone), Vec::<PathBuf>::new());
        }
    }

    #[test]
    fn btrfs_mount_lies_on_all_its_devices() {
        let tree = SysfsTree::new();
        let devices = tree.root().join("fs/btrfs/0f0f/devices");
        fs::create_dir_all(&devices).unwrap();
        for (name, number) in [("sda", "8:0"), ("sdb", "8:16")] {
            symlink(tree.disk(name, number), devices.join(name)).unwrap();
        }
        let number = |text| mounts::parse_device(text).unwrap();
        let line = "36 35 0:30 / /data rw - btrfs /dev/sdb rw";
        let mount = Mount { source_devices: vec![number("8:16")], ..Mount::parse(line).unwrap() };
        assert_eq!(tree.sysfs().devices_of_mount(&mount), [number("8:0"), number("8:16")]);
        let ext4 = Mount::parse("36 35 8:1 / / rw - ext4 /dev/root rw").unwrap();
        assert_eq!(tree.sysfs().devices_of_mount(&ext4), [number("8:1")]);
    }
}
