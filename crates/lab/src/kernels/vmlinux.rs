//! Kernel images: for x86 the boot protocol's header, its compressed payload, and what an ELF image says
//! about itself (Documentation/arch/x86/boot.rst, elf(5)); those for Arm are next door.

use super::arm_image;
use super::error::ImageFault;
use super::packed::{LARGEST_BYTES, decompress};
use crate::arch::Arch;
use crate::elf::{self, LOAD, MAGIC, NOTE, ProgramHeader, number, release_after};
use iopj_core::files::open_regular;
use std::io::Read;
use std::path::Path;

/// The note with the guest's PVH entry: name and type (include/xen/interface/elfnote.h).
const PVH_NOTE: (&[u8], u64) = (b"Xen\0", 18);

/// A kernel image as it was read.
pub(super) struct Image {
    /// The file; of an ELF image only what is loaded, without its debug information; of an image for Arm its
    /// plain form.
    pub bytes: Vec<u8>,
    /// As `uname -r` says in a guest that boots it.
    pub release: String,
    pub kind: Kind,
}

/// The forms that a guest can boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The boot protocol's form, with a compressed payload.
    BzImage,
    /// An uncompressed ELF file with a PVH entry.
    Vmlinux,
    /// The plain image for 64-bit Arm.
    ArmImage,
}

impl Kind {
    /// Every form.
    pub(super) const ALL: [Kind; 3] = [Kind::Vmlinux, Kind::BzImage, Kind::ArmImage];

    /// The image's file in a kernel's folder.
    pub(super) fn file(self) -> &'static str {
        match self {
            Kind::BzImage => "bzImage",
            Kind::Vmlinux => "vmlinux",
            Kind::ArmImage => "Image",
        }
    }

    /// The processor that it is for.
    pub(super) fn arch(self) -> Arch {
        match self {
            Kind::BzImage | Kind::Vmlinux => Arch::X86_64,
            Kind::ArmImage => Arch::Aarch64,
        }
    }
}

/// Reads an image and identifies it; the error is the reason why no guest could boot it.
pub(super) fn read(path: &Path) -> Result<Image, ImageFault> {
    let mut file = open_regular(path)?;
    let mut bytes = Vec::new();
    file.by_ref().take(4096).read_to_end(&mut bytes)?;
    let loaded_end = if bytes.starts_with(MAGIC) { loaded_end(&bytes)? } else { LARGEST_BYTES };
    let rest = loaded_end.min(LARGEST_BYTES).saturating_sub(bytes.len() as u64);
    file.take(rest).read_to_end(&mut bytes)?;
    if let Some(plain) = arm_image::plain(&bytes) {
        let release = release_after(&plain, b"Linux version ").ok_or(ImageFault::NoRelease)?;
        return Ok(Image { bytes: plain.into_owned(), release, kind: Kind::ArmImage });
    }
    let (kind, release) = identify(&bytes)?;
    if kind == Kind::Vmlinux {
        // The section table was not read: the header must not point to it.
        bytes[0x28..0x30].fill(0);
        bytes[0x3c..0x40].fill(0);
    }
    Ok(Image { bytes, release, kind })
}

fn identify(bytes: &[u8]) -> Result<(Kind, String), ImageFault> {
    if bytes.starts_with(MAGIC) {
        let release = release_after(bytes, b"Linux version ").ok_or(ImageFault::NoRelease)?;
        if !has_pvh_entry(bytes) {
            return Err(ImageFault::NoPvhEntry);
        }
        return Ok((Kind::Vmlinux, release));
    }
    let magic_at = |at: usize, magic: &[u8]| bytes.get(at..at + magic.len()) == Some(magic);
    if !magic_at(0x202, b"HdrS") || !magic_at(0x1fe, b"\x55\xaa") {
        return Err(ImageFault::NoHeader);
    }
    let release = number::<2>(bytes, 0x20e)
        .filter(|&offset| offset != 0)
        .and_then(|offset| elf::release(bytes.get(offset as usize + 0x200..)?))
        .ok_or(ImageFault::NoVersion)?;
    Ok((Kind::BzImage, release))
}

/// Unpacks the payload of a bzImage to the kernel's ELF image; `None` if its compression is unknown here or
/// it has no PVH entry: then a guest must boot the bzImage.
pub(super) fn unpack(bz_image: &[u8]) -> Option<Vec<u8>> {
    // A header older than protocol 2.08 does not say where the payload is.
    if number::<2>(bz_image, 0x206)? < 0x208 {
        return None;
    }
    let setup_sectors = match number::<1>(bz_image, 0x1f1)? {
        0 => 4,
        sectors => sectors as usize,
    };
    let start = (setup_sectors + 1) * 512 + number::<4>(bz_image, 0x248)? as usize;
    let payload = bz_image.get(start..start.checked_add(number::<4>(bz_image, 0x24c)? as usize)?)?;
    let elf = decompress(payload).ok()?;
    (elf.starts_with(MAGIC) && has_pvh_entry(&elf)).then_some(elf)
}

fn program_headers(elf: &[u8]) -> impl Iterator<Item = ProgramHeader> {
    let (table, entry_bytes, entries) = elf::table(elf).unwrap_or_default();
    (0..entries).map_while(move |index| {
        elf::program_header(elf, usize::try_from(table.checked_add(index * entry_bytes)?).ok()?)
    })
}

/// Where the loaded part of an ELF file ends.
fn loaded_end(beginning: &[u8]) -> Result<u64, ImageFault> {
    if number::<1>(beginning, 4) != Some(2)
        || number::<2>(beginning, 0x12) != Some(Arch::X86_64.elf_machine())
    {
        return Err(ImageFault::OtherProcessor);
    }
    program_headers(beginning)
        .filter(|header| matches!(header.kind, LOAD | NOTE))
        .map(|header| header.offset.saturating_add(header.bytes))
        .max()
        .ok_or(ImageFault::NothingToLoad)
}

/// True if one of the notes has a PVH entry, where QEMU starts an ELF image.
fn has_pvh_entry(elf: &[u8]) -> bool {
    program_headers(elf).filter(|header| header.kind == NOTE).any(
        |ProgramHeader { offset, bytes, .. }| {
            let (Ok(begin), Ok(length)) = (usize::try_from(offset), usize::try_from(bytes)) else {
                return false;
            };
            let Some(notes) = begin.checked_add(length).and_then(|end| elf.get(begin..end)) else {
                return false;
            };
            notes_of(notes).any(|note| note == PVH_NOTE)
        },
    )
}

/// The names and types of the notes in a segment; name and content are each padded to four bytes.
fn notes_of(mut notes: &[u8]) -> impl Iterator<Item = (&[u8], u64)> {
    std::iter::from_fn(move || {
        let name_bytes = number::<4>(notes, 0)? as usize;
        let content_bytes = number::<4>(notes, 4)? as usize;
        let note = (notes.get(12..12 + name_bytes)?, number::<4>(notes, 8)?);
        notes = notes
            .get(12 + name_bytes.next_multiple_of(4) + content_bytes.next_multiple_of(4)..)
            .unwrap_or(&[]);
        Some(note)
    })
}

#[cfg(test)]
pub(super) mod tests;
