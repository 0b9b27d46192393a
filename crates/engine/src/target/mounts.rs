//! The mounts that this process sees (`/proc/self/mountinfo`, proc(5)). `topology` says what is
//! below a mount.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    pub(super) id: u64,
    /// The file system's device number; its major is 0 where there is no single block device.
    pub(super) device: u64,
    pub(super) mount_point: PathBuf,
    pub(super) fs_type: String,
    pub(super) source: String,
    /// The block devices that `source` names.
    pub(super) source_devices: Vec<u64>,
}

/// Every mount of this process's mount namespace.
pub(super) fn all() -> io::Result<Vec<Mount>> {
    let bytes = fs::read("/proc/self/mountinfo")?;
    let mut mounts: Vec<Mount> = String::from_utf8_lossy(&bytes).lines().filter_map(Mount::parse).collect();
    for mount in &mut mounts {
        // bcachefs separates its devices by colons. NFS separates host and path by one, so only names in /dev
        // count.
        let names = mount.source.split(':').filter(|name| name.starts_with("/dev/"));
        mount.source_devices = names.filter_map(|name| block_device(Path::new(name))).collect();
    }
    Ok(mounts)
}

/// The mount that an open file is on, by the mount id of its descriptor in proc.
pub(super) fn of_file(file: &impl AsFd) -> io::Result<Option<Mount>> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_fd().as_raw_fd()))?;
    let id = text.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
    Ok(all()?.into_iter().find(|mount| Some(mount.id) == id))
}

/// The device number of the block device at `path`, symbolic links followed.
pub(super) fn block_device(path: &Path) -> Option<u64> {
    let metadata = fs::metadata(path).ok()?;
    metadata.file_type().is_block_device().then(|| metadata.rdev())
}

impl Mount {
    /// One line of mountinfo.
    pub(super) fn parse(line: &str) -> Option<Mount> {
        let (left, right) = line.split_once(" - ")?;
        let left: Vec<&str> = left.split(' ').collect();
        let [id, _parent, device, _root, mount_point, ..] = left[..] else { return None };
        let mut right = right.split(' ');
        Some(Mount {
            id: id.parse().ok()?,
            device: parse_device(device)?,
            mount_point: unescape(mount_point).into(),
            fs_type: unescape(right.next()?),
            source: unescape(right.next()?),
            source_devices: Vec::new(),
        })
    }
}

/// A device number from `MAJOR:MINOR`.
pub(super) fn parse_device(text: &str) -> Option<u64> {
    let (major, minor) = text.trim().split_once(':')?;
    Some(libc::makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// Undoes the kernel's octal escapes (`\040` for a blank).
pub(super) fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let octal = match (first, tail) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..]) => {
                Some((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'))
            }
            _ => None,
        };
        bytes.push(octal.unwrap_or(first));
        rest = if octal.is_some() { &tail[3..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn unescape_undoes_the_kernels_escapes(text in "\\PC{0,20}[ \\\\\t\n]{0,4}\\PC{0,20}") {
            let escape = |c: char| match c {
                ' ' | '\t' | '\n' | '\\' => format!("\\{:03o}", c as u32),
                c => c.to_string(),
            };
            prop_assert_eq!(unescape(&text.chars().map(escape).collect::<String>()), text);
        }

        #[test]
        fn parsers_never_panic(text in "[\\PC\\\\]{0,60}") {
            let _ = (unescape(&text), Mount::parse(&text), parse_device(&text));
        }
    }

    #[test]
    fn line_is_read() {
        let line =
            "36 35 98:0 /mnt1 /mnt\\0402 rw,noatime shared:1 master:2 - ext3 /dev/root rw,errors=continue";
        let mount = Mount::parse(line).unwrap();
        assert_eq!((mount.id, mount.device), (36, libc::makedev(98, 0)));
        assert_eq!(mount.mount_point, Path::new("/mnt 2"));
        assert_eq!((mount.fs_type.as_str(), mount.source.as_str()), ("ext3", "/dev/root"));
    }

    #[test]
    fn own_mounts_hold_proc() {
        // Not the root: in a chroot it may not be a mount point.
        let mounts = all().unwrap();
        assert!(mounts.iter().any(|m| m.mount_point == Path::new("/proc") && m.fs_type == "proc"));
        let file = fs::File::open("/proc/self/status").unwrap();
        assert_eq!(of_file(&file).unwrap().unwrap().fs_type, "proc");
    }
}
