//! What may be written: a file that iopj made, or a whole device that nobody uses and that was named twice.
//! This file looks and claims; it never opens for writing. The parent module opens.

use super::error::{DiskUse, TargetError, TargetFault};
use super::header::{FileId, Header};
use super::loops::LoopBacking;
use super::mounts::{self, Mount};
use super::topology::{self, Member, Sysfs};
use super::writers::{self, Watched};
use super::{Node, Target, blkid, classify, open_node, signature, sys};
use crate::system::attribute;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The facts that decide whether the system uses a block device.
pub(super) struct SystemState {
    pub(super) sysfs: Sysfs,
    pub(super) mounts: Vec<Mount>,
    /// Device numbers of the swap devices; a swap file's device is seen as mounted.
    pub(super) swaps: Vec<u64>,
}

impl SystemState {
    /// Of the system that we run on.
    pub(super) fn read() -> io::Result<SystemState> {
        let swaps = match fs::read_to_string("/proc/swaps") {
            Ok(text) => swap_paths(&text).iter().filter_map(|path| mounts::block_device(path)).collect(),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(), // a kernel without swap
            Err(e) => return Err(e),
        };
        Ok(SystemState { sysfs: Sysfs::new(Path::new("/sys")), mounts: mounts::all()?, swaps })
    }
}

/// The paths in `/proc/swaps` (proc(5)).
fn swap_paths(text: &str) -> Vec<PathBuf> {
    text.lines()
        .skip(1)
        .filter_map(|line| Some(mounts::unescape(line.split_whitespace().next()?).into()))
        .collect()
}

/// Refuses a file by its inode: only a regular file with one link, owned by the user who runs this, can be
/// iopj's.
pub(super) fn require_own_inode(path: &Path, inode: &Metadata) -> Result<(), TargetError> {
    let reason = if inode.file_type().is_symlink() {
        "it is a symbolic link".to_owned()
    } else if !inode.is_file() {
        "it is not a regular file".to_owned()
    } else if inode.nlink() != 1 {
        format!("it has {} links", inode.nlink())
    } else if inode.uid() != sys::effective_user() {
        format!("it belongs to user {}", inode.uid())
    } else {
        return Ok(());
    };
    Err(TargetFault::NotOurs(reason).of(path))
}

/// Refuses a file of `size` bytes by its header: it must be whole and carry the identity `id`.
pub(super) fn require_own_header(
    path: &Path,
    header: Option<&Header>,
    size: u64,
    id: &FileId,
) -> Result<(), TargetError> {
    let reason = match header {
        None => "it has no iopj header".to_owned(),
        Some(header) if header.id != *id => format!("its id is {}, not {id}", header.id),
        Some(header) if header.file_len() != Some(size) => {
            format!("its header gives a length other than {size} bytes")
        }
        Some(_) => return Ok(()),
    };
    Err(TargetFault::NotOurs(reason).of(path))
}

impl Target {
    /// Checks whether [`Target::open_for_writing`] would get this device, to destroy its data. Its claims are
    /// given back at once, and nothing is opened for writing.
    ///
    /// # Errors
    /// As for [`Target::open_for_writing`].
    pub fn check_destroy(path: &Path, device: &Path, i_know: bool) -> Result<(), TargetError> {
        find_and_claim(path, device, i_know).map(drop)
    }
}

/// What a path names, and the claims on its devices.
pub(super) fn find_and_claim(
    path: &Path,
    device: &Path,
    i_know: bool,
) -> Result<(File, Node, Vec<File>), TargetError> {
    let node = open_node(path, true)?;
    let kind = classify(path, &node)?;
    let system = SystemState::read().map_err(TargetError::system(path, "reading mounts and swaps"))?;
    let claims = claim(path, &node, &kind, device, i_know, &system)?;
    Ok((node, kind, claims))
}

/// Claims the whole device that `node` is, or whose namespace it shows, and every block device that shows the
/// same namespace. The claims last as long as the descriptors: they were opened `O_EXCL` and for reading
/// only.
///
/// Claiming a whole device claims its partitions: the kernel lets nobody else claim one, and refuses us while
/// somebody has one (block/bdev.c, `bd_may_claim`), mounts in other namespaces included.
///
/// # Errors
/// Everything that forbids a write; `i_know` overrides a signature and nothing else.
pub(super) fn claim(
    path: &Path,
    node: &File,
    kind: &Node,
    device: &Path,
    i_know: bool,
    system: &SystemState,
) -> Result<Vec<File>, TargetError> {
    let inode = node.metadata().map_err(TargetError::system(path, "asking what it is"))?;
    let dir = match kind {
        Node::File => return Err(TargetFault::FileToDestroy.of(path)),
        Node::Generic(dir) => dir.clone(),
        Node::Block => {
            let dir = system.sysfs.block_dir(inode.rdev());
            dir.map_err(TargetError::system(path, "looking it up in /sys/dev/block"))?
        }
    };
    require_same_device(path, &inode, device)?;
    let whole = topology::whole(&dir);
    let disks = system.sysfs.same_bytes(&whole);
    refuse_use(path, system, &disks)?;
    if whole != dir {
        return Err(TargetFault::Partition(topology::name_of(&whole)).of(path));
    }
    if attribute::<u32>(&whole, "ro") == Some(1) {
        return Err(TargetFault::ReadOnly.of(path));
    }
    refuse_writers(path, system, &disks, inode.rdev())?;
    let own = matches!(kind, Node::Block).then_some(node);
    let claims: Vec<File> = disks
        .iter()
        .map(|disk| claim_disk(path, disk, own.filter(|_| *disk == whole)))
        .collect::<Result<_, TargetError>>()?;
    if let Some(claim) = claims.first().filter(|_| !i_know) {
        refuse_signature(path, claim)?;
    }
    Ok(claims)
}

fn require_same_device(path: &Path, inode: &Metadata, device: &Path) -> Result<(), TargetError> {
    let same = fs::metadata(device).is_ok_and(|named| {
        let (named_type, own_type) = (named.file_type(), inode.file_type());
        named_type.is_block_device() == own_type.is_block_device()
            && named_type.is_char_device() == own_type.is_char_device()
            && named.rdev() == inode.rdev()
    });
    if same {
        return Ok(());
    }
    Err(TargetFault::OtherDevice(device.to_owned()).of(path))
}

/// Refuses disks that are, or carry anything that is, mounted, swap or held.
fn refuse_use(path: &Path, system: &SystemState, disks: &[PathBuf]) -> Result<(), TargetError> {
    let found = find_use(system, disks);
    let found = found.map_err(TargetError::system(path, "reading its numbers in /sys/block"))?;
    found.map_or(Ok(()), |found| Err(TargetFault::InUse(found).of(path)))
}

/// Refuses disks that another process has open for writing: not everybody who writes claims what it writes
/// to. A process of another user is seen only by root.
fn refuse_writers(
    path: &Path,
    system: &SystemState,
    disks: &[PathBuf],
    node: u64,
) -> Result<(), TargetError> {
    let mut watched = Watched::default();
    for disk in disks {
        let members = system.sysfs.family(disk).into_iter();
        watched.devices.extend(members.map(|member| (member.device, member.name)));
        if let Some(LoopBacking::File { device, inode }) = LoopBacking::of(disk) {
            watched.files.insert((device, inode), format!("the file of {}", topology::name_of(disk)));
        }
    }
    // A generic character device has a number of its own.
    let own = || disks.first().map_or(String::new(), |disk| topology::name_of(disk));
    watched.devices.entry(node).or_insert_with(own);
    match writers::find(Path::new("/proc"), &watched) {
        Some(writer) => Err(TargetFault::InUse(writer).of(path)),
        None => Ok(()),
    }
}

/// What uses the disks, anything that is built on them, or what they are built on.
///
/// # Errors
/// sysfs does not know the number of one of the disks, so its use is unknown.
pub(super) fn find_use(system: &SystemState, disks: &[PathBuf]) -> io::Result<Option<DiskUse>> {
    let mut members = Vec::<Member>::new();
    for disk in disks {
        let family = system.sysfs.family(disk);
        if family.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        members.extend(family);
    }
    members.extend(disks.iter().flat_map(|disk| system.sysfs.below(disk)));
    // The shortest mount point is the one that the user knows; others are often bind mounts of it.
    let mounted = members.iter().flat_map(|member| {
        let on_member = |mount: &&Mount| system.sysfs.devices_of_mount(mount).contains(&member.device);
        system.mounts.iter().filter(on_member).map(move |mount| (member, mount))
    });
    if let Some((member, mount)) = mounted.min_by_key(|(_, mount)| mount.mount_point.as_os_str().len()) {
        return Ok(Some(DiskUse::Mounted(member.name.clone(), mount.mount_point.clone())));
    }
    if let Some(member) = members.iter().find(|member| system.swaps.contains(&member.device)) {
        return Ok(Some(DiskUse::Swap(member.name.clone())));
    }
    // What the target itself is built on is held by it.
    let own: Vec<String> = disks.iter().map(|disk| topology::name_of(disk)).collect();
    let held = members.iter().find_map(|member| {
        let holder = member.holders.iter().find(|holder| !own.contains(holder))?;
        Some((member, holder))
    });
    Ok(held.map(|(member, holder)| DiskUse::Held(member.name.clone(), holder.clone())))
}

/// Claims one disk; `own` is its node where the user named it.
pub(super) fn claim_disk(path: &Path, disk: &Path, own: Option<&File>) -> Result<File, TargetError> {
    let name = topology::name_of(disk);
    // sysfs writes `!` where the kernel name has a slash.
    let node_path = Path::new("/dev").join(name.replace('!', "/"));
    let opened = match own {
        Some(node) => node.try_clone(),
        None => sys::open_path(&node_path, true),
    };
    let node = opened.map_err(|e| TargetError::opening(&node_path, "claimed", true, e))?;
    let inode = node.metadata().map_err(TargetError::system(&node_path, "asking what it is"))?;
    if !inode.file_type().is_block_device() || Some(inode.rdev()) != topology::number(disk) {
        let source = io::Error::other("it is not the device that sysfs names");
        return Err(TargetError::system(&node_path, "claiming it")(source));
    }
    sys::reopen(&node, false, libc::O_EXCL).map_err(|e| match e.raw_os_error() {
        Some(libc::EBUSY) => TargetFault::InUse(DiskUse::Busy(name)).of(path),
        _ => TargetError::opening(&node_path, "claimed", true, e),
    })
}

fn refuse_signature(path: &Path, claim: &File) -> Result<(), TargetError> {
    let size = sys::block_device_size(claim).map_err(TargetError::system(path, "asking its size"))?;
    let found = signature::find(claim, size).map_err(TargetError::system(path, "looking for signatures"))?;
    let found = match found {
        Some(found) => Some(found.to_owned()),
        None => blkid::probe(claim).map_err(TargetError::system(path, "looking for signatures"))?,
    };
    match found {
        Some(signature) => Err(TargetFault::Signature(signature).of(path)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::SysfsTree;
    use super::*;

    fn system(tree: &SysfsTree, mountinfo: &[&str], swaps: &[&str]) -> SystemState {
        let mounts = mountinfo.iter().map(|line| Mount::parse(line).unwrap()).collect();
        let swaps = swaps.iter().map(|number| mounts::parse_device(number).unwrap()).collect();
        SystemState { sysfs: tree.sysfs(), mounts, swaps }
    }

    fn refusal(system: &SystemState, disk: &Path) -> String {
        refuse_use("/dev/sdx".as_ref(), system, &[disk.to_owned()]).unwrap_err().to_string()
    }

    #[test]
    fn mount_on_crypt_on_a_partition_is_named_by_its_shortest_mount_point() {
        let tree = SysfsTree::new();
        let disk = tree.disk("sda", "8:0");
        let crypt = tree.disk("dm-0", "253:0");
        tree.stack(&crypt, &tree.partition("sda", "sda2", "8:2"));
        let lines = ["40 1 253:0 /x /var/x rw - ext4 /dev/dm-0 rw", "36 1 253:0 / / rw - ext4 /dev/dm-0 rw"];
        let message = refusal(&system(&tree, &lines, &[]), &disk);
        assert!(
            message.contains("`/dev/sdx` cannot be written: dm-0 is mounted on /; unmount it"),
            "{message}"
        );
        // After the unmount the holder itself still forbids it.
        let message = refusal(&system(&tree, &[], &[]), &disk);
        assert!(message.contains("dm-0 is built on sda2; take dm-0 down"), "{message}");
    }

    #[test]
    fn swap_on_a_partition_is_refused() {
        let tree = SysfsTree::new();
        let disk = tree.disk("sda", "8:0");
        tree.partition("sda", "sda3", "8:3");
        let message = refusal(&system(&tree, &[], &["8:3"]), &disk);
        assert!(message.contains("sda3 is used as swap; `swapoff /dev/sda3`"), "{message}");
        assert!(refuse_use("x".as_ref(), &system(&tree, &[], &["8:19"]), &[disk]).is_ok());
    }

    #[test]
    fn mounted_namespace_is_refused_by_its_character_device_and_by_its_twin() {
        // There is no NVMe drive: /dev/null takes the place of the character device, and the tree that of its
        // sysfs.
        let null = Path::new("/dev/null");
        let tree = SysfsTree::new();
        let (block, twin) = (tree.disk("nvme0n1", "259:0"), tree.disk("nvme1n1", "259:1"));
        let kind = Node::Generic(block.clone());
        let refusal = |mount: &str| {
            let system = system(&tree, &[mount], &[]);
            claim(null, &File::open(null).unwrap(), &kind, null, true, &system).unwrap_err().to_string()
        };
        let message = refusal("36 1 259:0 / /home rw - xfs /dev/nvme0n1 rw");
        assert!(message.contains("nvme0n1 is mounted on /home"), "{message}");
        for dir in [&block, &twin] {
            fs::write(dir.join("wwid"), "eui.1\n").unwrap();
        }
        let message = refusal("36 1 259:1 / /srv rw - xfs /dev/nvme1n1 rw");
        assert!(message.contains("nvme1n1 is mounted on /srv"), "{message}");
    }

    #[test]
    fn sibling_of_another_number_is_not_claimed() {
        let tree = SysfsTree::new();
        let message = claim_disk("x".as_ref(), &tree.disk("null", "1:99"), None).unwrap_err().to_string();
        assert!(message.contains("not the device that sysfs names"), "{message}");
    }

    #[test]
    fn swap_paths_are_read() {
        let text =
            "Filename\t\tType\t\tSize\n/dev/sda\\0403  partition\t8388604\t0\t-2\n/swapfile file 1 0 -3\n";
        assert_eq!(swap_paths(text), [PathBuf::from("/dev/sda 3"), PathBuf::from("/swapfile")]);
        assert_eq!(swap_paths(""), Vec::<PathBuf>::new());
    }
}
