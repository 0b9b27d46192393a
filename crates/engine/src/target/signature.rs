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
    ("a bcachefs or bcache member", 3584, b"\xc6\x85\x73\xf6"),
    ("an F2FS file system", 1024, b"\x10\x20\xf5\xf2"),
    ("an F2FS file system", 5120, b"\x10\x20\xf5\xf2"),
    ("an EROFS file system", 1024, b"\xe2\xe1\xf5\xe0"),
    ("a squashfs file system", 0, b"hsqs"),
    ("an NTFS file system", 3, b"NTFS    "),
    ("an exFAT file system", 3, b"EXFAT   "),
    ("an exFAT file system", 12 * 512 + 3, b"EXFAT   "),
    ("an exFAT file system", 12 * 4096 + 3, b"EXFAT   "),
    ("a BitLocker volume", 3, b"-FVE-FS-"),
    ("a FAT file system", 54, b"FAT1"),
    ("a FAT file system", 82, b"FAT32"),
    ("a FAT file system", 6 * 512 + 82, b"FAT32"),
    ("a FAT file system", 6 * 4096 + 82, b"FAT32"),
    ("an ISO 9660 file system", 32_769, b"CD001"),
    ("a UDF file system", 32_769, b"BEA01"),
    ("a UDF file system", 34_817, b"NSR0"),
    ("a JFS file system", 32_768, b"JFS1"),
    ("a JFS file system", 0xf000, b"JFS1"),
    ("a ReiserFS file system", 65_588, b"ReIsEr"),
    ("a ReiserFS file system", 8244, b"ReIsEr"),
    ("a ReiserFS file system", 65_536, b"ReIsEr4"),
    ("a NILFS2 file system", 1030, b"\x34\x34"),
    ("a GFS2 file system", 65_536, b"\x01\x16\x19\x70"),
    ("an OCFS2 file system", 1024, b"OCFSV2"),
    ("an OCFS2 file system", 2048, b"OCFSV2"),
    ("an OCFS2 file system", 4096, b"OCFSV2"),
    ("an OCFS2 file system", 8192, b"OCFSV2"),
    ("an Oracle ASM disk", 32, b"ORCLDISK"),
    ("an Oracle ASM disk", 0, b"\x01\x82\x01\x01"),
    ("a Sun disk label", 508, b"\xda\xbe"),
    ("a DM snapshot", 0, b"SnAp"),
    ("a zonefs file system", 0, b"SFOZ"),
    ("a cramfs file system", 0, b"\x45\x3d\xcd\x28"),
    ("a cramfs file system", 0, b"\x28\xcd\x3d\x45"),
    ("a romfs file system", 0, b"-rom1fs-"),
    ("a UBI volume", 0, b"UBI#"),
    ("a UBIFS file system", 0, b"\x31\x18\x10\x06"),
    ("a minix file system", 1040, b"\x7f\x13"),
    ("a minix file system", 1040, b"\x8f\x13"),
    ("a minix file system", 1040, b"\x68\x24"),
    ("a minix file system", 1040, b"\x78\x24"),
    ("a minix file system", 1048, b"\x5a\x4d"),
    ("a BSD disk label", 512, b"\x57\x45\x56\x82"),
    ("an HFS+ file system", 1024, b"H+\x00\x04"),
    ("an HFS+ file system", 1024, b"HX\x00\x05"),
    ("an HPFS file system", 8192, b"\x49\xe8\x95\xf9"),
    ("an Apple partition map", 512, b"PM\x00\x00"),
    ("an SGI disk label", 0, b"\x0b\xe5\xa9\x41"),
    ("an Amiga partition table", 0, b"RDSK"),
    ("an AIX physical volume", 0, b"\xc9\xc2\xd4\xc1"),
    ("a Windows dynamic disk", 6 * 512, b"PRIVHEAD"),
    ("an APFS container", 32, b"NXSB"),
    ("a VMFS volume", 0x10_0000, b"\x0d\xd0\x01\xc0"),
    ("swap space", 4096 - 10, b"SWAPSPACE2"),
    ("swap space", 8192 - 10, b"SWAPSPACE2"),
    ("swap space", 16_384 - 10, b"SWAPSPACE2"),
    ("swap space", 32_768 - 10, b"SWAPSPACE2"),
    ("swap space", 65_536 - 10, b"SWAPSPACE2"),
    ("swap space", 4096 - 10, b"SWAP-SPACE"),
    ("a hibernation image", 4096 - 10, b"S1SUSPEND"),
    ("a hibernation image", 4096 - 10, b"S2SUSPEND"),
    ("a hibernation image", 4096 - 10, b"ULSUSPEND"),
    ("a hibernation image", 4096 - 10, b"LINHIB0001"),
    ("an LVM 1 physical volume", 0, b"HM\x01\x00"),
    ("an LVM 1 physical volume", 0, b"HM\x02\x00"),
    ("an LVM physical volume", 0, b"LABELONE"),
    ("an LVM physical volume", 512, b"LABELONE"),
    ("an LVM physical volume", 1024, b"LABELONE"),
    ("an LVM physical volume", 1536, b"LABELONE"),
    ("an LVM physical volume", 4096 + 4, b" LVM2 x[5A%r0N*>"),
    ("a LUKS volume", 0, b"LUKS\xba\xbe"),
    ("a LUKS volume", 16_384, b"SKUL\xba\xbe"),
    ("an md RAID member", 0, b"\xfc\x4e\x2b\xa9"),
    ("an md RAID member", 4096, b"\xfc\x4e\x2b\xa9"),
    ("a dm-integrity volume", 0, b"integrt\x00"),
    ("a dm-verity volume", 0, b"verity\x00\x00"),
    ("a VDO volume", 0, b"dmvdo001"),
    ("a Stratis member", 512 + 4, b"!Stra0tis"),
    ("a Stratis member", 9 * 512 + 4, b"!Stra0tis"),
    ("a Ceph BlueStore device", 0, b"bluestore block device"),
    ("a qcow2 image", 0, b"QFI\xfb"),
    ("a VMDK image", 0, b"KDMV"),
    ("a VHDX image", 0, b"vhdxfile"),
    ("a VHD image", 0, b"conectix"),
    ("a VDI image", 64, b"\x7f\x10\xda\xbe"),
    BOOT_SECTOR,
];

/// Copies that lie further in, where the first has been overwritten.
#[rustfmt::skip]
const FAR_IN: &[(&str, u64, &[u8])] = &[
    ("a LUKS volume", 2 << 20, b"SKUL\xba\xbe"),
    ("a LUKS volume", 4 << 20, b"SKUL\xba\xbe"),
    ("a VMFS file system", 2 << 20, b"\x5e\xf1\xab\x2f"),
    ("a btrfs file system", (64 << 20) + 0x40, b"_BHRfS_M"),
    ("a btrfs file system", (256 << 30) + 0x40, b"_BHRfS_M"),
    ("an Oracle ASM disk", (1 << 20) + 254 * 4096, b"\x01\x82\x01\x01"),
    ("an Oracle ASM disk", (4 << 20) + 1022 * 4096, b"\x01\x82\x01\x01"),
    ("an OCFS2 file system", 1 << 30, b"OCFSV2"),
    ("an OCFS2 file system", 4 << 30, b"OCFSV2"),
    ("an OCFS2 file system", 16 << 30, b"OCFSV2"),
    ("an OCFS2 file system", 64 << 30, b"OCFSV2"),
    ("an OCFS2 file system", 256 << 30, b"OCFSV2"),
    ("an OCFS2 file system", 1 << 40, b"OCFSV2"),
    ("a Ceph BlueStore device", 1 << 30, b"bluestore block device"),
    ("a Ceph BlueStore device", 10 << 30, b"bluestore block device"),
    ("a Ceph BlueStore device", 100 << 30, b"bluestore block device"),
    ("a Ceph BlueStore device", 1000 << 30, b"bluestore block device"),
];

/// UFS: the magic numbers of its superblock, which begins at one of these offsets, in either byte order.
const UFS_STARTS: [usize; 4] = [0, 8 << 10, 64 << 10, 256 << 10];
const UFS_MAGIC_AT: usize = 0x55c;
const UFS_MAGICS: [u32; 5] = [0x0001_1954, 0x1954_0119, 0x0019_5612, 0x0009_5014, 0x0061_2195];

/// LUKS 2: where its second header may begin, in the first MiB.
const LUKS_SECOND: [usize; 7] = [0x4000, 0x8000, 0x1_0000, 0x2_0000, 0x4_0000, 0x8_0000, 0x10_0000];

/// ZFS: an uberblock in the ring of a label, at any KiB of its second half, in either byte order. Two labels
/// are at the start, and two at the end.
const ZFS_LABEL: usize = 256 << 10;
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
    if let Some(offset) = (size / ZFS_LABEL as u64).checked_sub(2).map(|labels| labels * ZFS_LABEL as u64) {
        let labels = read(device, offset, 2 * ZFS_LABEL)?;
        if has_zfs(&labels) {
            return Ok(Some(ZFS));
        }
    }
    for offset in EXT_SECOND.into_iter().filter(|offset| offset + 1024 <= size) {
        if is_second_of_ext(&read(device, offset, 1024)?) {
            return Ok(Some("an ext2, ext3 or ext4 file system"));
        }
    }
    for (name, offset, magic) in FAR_IN.iter().copied().chain(at_end(size)) {
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
    let known = || AT_START.iter().find(|(_, offset, magic)| has(*offset, magic)).map(|(name, ..)| *name);
    let ufs = UFS_STARTS.into_iter().map(|start| start + UFS_MAGIC_AT).any(|at| {
        UFS_MAGICS.iter().any(|magic| has(at, &magic.to_le_bytes()) || has(at, &magic.to_be_bytes()))
    });
    if ufs {
        return Some("a UFS file system");
    }
    let luks = || LUKS_SECOND.into_iter().any(|offset| has(offset, b"SKUL\xba\xbe"));
    known().or_else(|| luks().then_some("a LUKS volume")).or_else(|| has_zfs(head).then_some(ZFS))
}

const ZFS: &str = "a ZFS pool member";

/// Whether two labels of ZFS, of which `labels` has what is there, hold an uberblock.
fn has_zfs(labels: &[u8]) -> bool {
    let has = |offset: usize, magic: &[u8]| labels.get(offset..).is_some_and(|rest| rest.starts_with(magic));
    let rings = [0, ZFS_LABEL].into_iter().flat_map(|label| ZFS_RING.step_by(1024).map(move |at| label + at));
    rings.into_iter().any(|offset| ZFS_MAGICS.iter().any(|magic| has(offset, magic)))
}

/// The superblock of the second block group of ext2 to ext4, with blocks of 1, 2 and 4 KiB: its magic number
/// has two bytes, so the number of its group is looked at too.
const EXT_SECOND: [u64; 3] = [8193 << 10, 32 << 20, 128 << 20];
const EXT_MAGIC_AT: usize = 56;
const EXT_GROUP_AT: usize = 90;

fn is_second_of_ext(superblock: &[u8]) -> bool {
    superblock[EXT_MAGIC_AT..].starts_with(b"\x53\xef") && superblock[EXT_GROUP_AT..].starts_with(b"\x01\x00")
}

/// Signatures at a distance from the end: backup GPT, md 1.0 and 0.90 superblocks, firmware RAID, DRBD, the
/// copies of file systems; and XFS's second superblock, a quarter in, as `mkfs.xfs` divides a device.
fn at_end(size: u64) -> impl Iterator<Item = (&'static str, u64, &'static [u8])> {
    let from_end = |distance: u64| size.saturating_sub(distance);
    [
        ("a backup GPT partition table", from_end(512), &b"EFI PART"[..]),
        ("a backup GPT partition table", from_end(4096), b"EFI PART"),
        ("an md RAID member", from_end(8192) / 4096 * 4096, b"\xfc\x4e\x2b\xa9"),
        ("an md RAID member", (size / 65_536 * 65_536).saturating_sub(65_536), b"\xfc\x4e\x2b\xa9"),
        ("an Intel RAID member", from_end(1024), b"Intel Raid ISM Cfg Sig. "),
        ("a DDF RAID member", from_end(512), b"\xde\x11\xde\x11"),
        ("a DDF RAID member", from_end(512), b"\x11\xde\x11\xde"),
        ("a DDF RAID member", from_end(257 * 512), b"\xde\x11\xde\x11"),
        ("a DDF RAID member", from_end(257 * 512), b"\x11\xde\x11\xde"),
        ("an LSI RAID member", from_end(512), b"$XIDE$"),
        ("an NVIDIA RAID member", from_end(1024), b"NVIDIA  "),
        ("an Adaptec RAID member", from_end(512), b"DPTM"),
        ("a Promise RAID member", from_end(63 * 512), b"Promise Technology, Inc."),
        ("a DRBD device", from_end(4096) + 60, b"\x83\x74\x02\x6b"),
        ("a DRBD device", from_end(4096) + 60, b"\x83\x74\x02\x6c"),
        ("a DRBD device", from_end(4096) + 60, b"\x83\x74\x02\x6d"),
        ("an NTFS file system", from_end(512) + 3, b"NTFS    "),
        ("an NTFS file system", from_end(4096) + 3, b"NTFS    "),
        ("an HFS+ file system", from_end(1024), b"H+\x00\x04"),
        ("an HFS+ file system", from_end(1024), b"HX\x00\x05"),
        ("a NILFS2 file system", (size / 4096).saturating_sub(1) * 4096 + 6, b"\x34\x34"),
        ("a Windows dynamic disk", from_end(512), b"PRIVHEAD"),
        ("a VHD image", from_end(512), b"conectix"),
        ("an XFS file system", (size / 4096).div_ceil(4) * 4096, b"XFSB"),
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
            for at in [200 << 10, 456 << 10, (8 << 20) - (300 << 10), (8 << 20) - (56 << 10)] {
                check(ZFS, 8 << 20, at, magic);
            }
        }
        for (name, offset, magic) in FAR_IN {
            check(*name, *offset + (128 << 20), *offset, *magic);
        }
        for offset in EXT_SECOND {
            let marks: [(u64, &[u8]); 2] = [(offset + 56, b"\x53\xef"), (offset + 90, b"\x01\x00")];
            let found = |marks| find(&image(129 << 20, marks), 129 << 20).unwrap();
            assert_eq!(found(&marks), Some("an ext2, ext3 or ext4 file system"), "at {offset}");
            assert_eq!(found(&marks[..1]), None, "two bytes alone, at {offset}");
        }
        for start in UFS_STARTS {
            let at = (start + UFS_MAGIC_AT) as u64;
            check("a UFS file system", 4 << 20, at, b"\x19\x01\x54\x19");
            check("a UFS file system", 4 << 20, at, b"\x00\x01\x19\x54");
        }
        for offset in LUKS_SECOND {
            check("a LUKS volume", 4 << 20, offset as u64, b"SKUL\xba\xbe");
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
