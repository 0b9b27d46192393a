//! Signatures of data that a device may carry: partition tables, file systems, swap, RAID, volume managers,
//! encryption (the offsets and bytes are those of each format's own definition). `safety` decides whether a
//! signature forbids a write.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// A name, and the bytes at a fixed offset.
type Signature = (&'static str, usize, &'static [u8]);

const BOOT_SECTOR: Signature = ("an MBR partition table or a boot sector", 510, b"\x55\xaa");

/// At these offsets from the start. The more specific names come before the boot sector.
#[rustfmt::skip]
const AT_START: &[Signature] = &[
    ("a GPT partition table", 512, b"EFI PART"),
    ("a GPT partition table", 4096, b"EFI PART"),
    ("an ext2, ext3 or ext4 file system", 1080, b"\x53\xef"),
    ("an XFS file system", 0, b"XFSB"),
    ("a btrfs file system", 0x10040, b"_BHRfS_M"),
    ("a bcachefs or bcache member", 4096 + 24, b"\xc6\x85\x73\xf6"),
    ("an F2FS file system", 1024, b"\x10\x20\xf5\xf2"),
    ("an EROFS file system", 1024, b"\xe2\xe1\xf5\xe0"),
    ("a squashfs file system", 0, b"hsqs"),
    ("an NTFS file system", 3, b"NTFS    "),
    ("an exFAT file system", 3, b"EXFAT   "),
    ("a BitLocker volume", 3, b"-FVE-FS-"),
    ("a FAT file system", 54, b"FAT1"),
    ("a FAT file system", 82, b"FAT32"),
    ("an ISO 9660 file system", 32_769, b"CD001"),
    ("a UDF file system", 32_769, b"BEA01"),
    ("a JFS file system", 32_768, b"JFS1"),
    ("a ReiserFS file system", 65_588, b"ReIsEr"),
    ("a NILFS2 file system", 1030, b"\x34\x34"),
    ("a GFS2 file system", 65_536, b"\x01\x16\x19\x70"),
    ("an OCFS2 file system", 8192, b"OCFSV2"),
    ("an HFS+ file system", 1024, b"H+\x00\x04"),
    ("an APFS container", 32, b"NXSB"),
    ("a VMFS volume", 0x10_0000, b"\x0d\xd0\x01\xc0"),
    ("swap space", 4096 - 10, b"SWAPSPACE2"),
    ("swap space", 65_536 - 10, b"SWAPSPACE2"),
    ("a hibernation image", 4096 - 10, b"S1SUSPEND"),
    ("an LVM physical volume", 0, b"LABELONE"),
    ("an LVM physical volume", 512, b"LABELONE"),
    ("an LVM physical volume", 1024, b"LABELONE"),
    ("an LVM physical volume", 1536, b"LABELONE"),
    ("a LUKS volume", 0, b"LUKS\xba\xbe"),
    ("a LUKS volume", 16_384, b"SKUL\xba\xbe"),
    ("an md RAID member", 0, b"\xfc\x4e\x2b\xa9"),
    ("an md RAID member", 4096, b"\xfc\x4e\x2b\xa9"),
    ("a dm-integrity volume", 0, b"integrt\x00"),
    ("a dm-verity volume", 0, b"verity\x00\x00"),
    ("a VDO volume", 0, b"dmvdo001"),
    ("a Stratis member", 512 + 4, b"!Stra0tis"),
    ("a Ceph BlueStore device", 0, b"bluestore block device"),
    BOOT_SECTOR,
];

/// ZFS: an uberblock in the ring of the first label, at any KiB of its second half, in either byte order.
const ZFS_RING: std::ops::Range<usize> = 128 << 10..256 << 10;
const ZFS_MAGICS: [&[u8]; 2] = [b"\x0c\xb1\xba\x00\x00\x00\x00\x00", b"\x00\x00\x00\x00\x00\xba\xb1\x0c"];

const HEAD_LEN: usize = (1 << 20) + 4096;

/// The first known signature that a device of `size` bytes carries.
///
/// # Errors
/// The device cannot be read.
pub(super) fn find(device: &File, size: u64) -> io::Result<Option<&'static str>> {
    let head = read(device, 0, (HEAD_LEN as u64).min(size) as usize)?;
    if let Some(name) = in_head(&head) {
        return Ok(Some(name));
    }
    for (name, offset, magic) in at_end(size) {
        let fits = offset.checked_add(magic.len() as u64).is_some_and(|end| end <= size);
        if fits && read(device, offset, magic.len())? == magic {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

fn read(device: &File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    device.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

fn in_head(head: &[u8]) -> Option<&'static str> {
    let has = |offset: usize, magic: &[u8]| head.get(offset..).is_some_and(|rest| rest.starts_with(magic));
    let zfs = || ZFS_RING.step_by(1024).any(|offset| ZFS_MAGICS.iter().any(|magic| has(offset, magic)));
    let known = AT_START.iter().find(|(_, offset, magic)| has(*offset, magic));
    known.map(|(name, ..)| *name).or_else(|| zfs().then_some("a ZFS pool member"))
}

/// Signatures at a distance from the end: backup GPT, md 1.0 and 0.90 superblocks, Intel firmware RAID.
fn at_end(size: u64) -> impl Iterator<Item = (&'static str, u64, &'static [u8])> {
    let from_end = |distance: u64| size.saturating_sub(distance);
    [
        ("a backup GPT partition table", from_end(512), &b"EFI PART"[..]),
        ("a backup GPT partition table", from_end(4096), b"EFI PART"),
        ("an md RAID member", from_end(8192) / 4096 * 4096, b"\xfc\x4e\x2b\xa9"),
        ("an md RAID member", (size / 65_536 * 65_536).saturating_sub(65_536), b"\xfc\x4e\x2b\xa9"),
        ("an Intel RAID member", from_end(1024), b"Intel Raid ISM Cfg Sig. "),
    ]
    .into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(size: u64, marks: &[(u64, &[u8])]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(size).unwrap();
        marks.iter().for_each(|(offset, bytes)| file.write_all_at(bytes, *offset).unwrap());
        file
    }

    #[test]
    fn every_signature_of_the_table_is_found() {
        let check = |name, size, offset, magic| {
            assert_eq!(find(&image(size, &[(offset, magic)]), size).unwrap(), Some(name), "at {offset}");
        };
        for (name, offset, magic) in AT_START {
            check(*name, 4 << 20, *offset as u64, *magic);
        }
        for (name, offset, magic) in at_end(5_000_192) {
            check(name, 5_000_192, offset, magic);
        }
        for magic in ZFS_MAGICS {
            check("a ZFS pool member", 1 << 20, 200 << 10, magic);
        }
    }

    #[test]
    fn nothing_is_found_on_zeros_of_any_size() {
        for size in [512, 4096, 65_536, 1 << 20, (4 << 20) + 512] {
            assert_eq!(find(&image(size, &[]), size).unwrap(), None);
        }
    }

    #[test]
    fn file_system_is_named_rather_than_its_boot_sector() {
        let marks: [(u64, &[u8]); 2] = [(3, b"NTFS    "), (510, b"\x55\xaa")];
        assert_eq!(find(&image(8192, &marks), 8192).unwrap(), Some("an NTFS file system"));
    }
}
