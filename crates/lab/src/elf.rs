//! What the lab reads of ELF files (elf(5)): numbers, program headers, the release of a kernel or a module.

/// The beginning of every ELF file.
pub(crate) const MAGIC: &[u8] = b"\x7fELF";

/// Bytes of the header of a 64-bit file.
pub(crate) const HEADER_BYTES: usize = 64;

/// An entry of the program header table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProgramHeader {
    /// `PT_LOAD` or another type.
    pub(crate) kind: u64,
    /// The segment's offset in the file.
    pub(crate) offset: u64,
    /// The segment's bytes in the file.
    pub(crate) bytes: u64,
}

/// `PT_LOAD`, `PT_DYNAMIC`, `PT_INTERP`, `PT_NOTE`.
pub(crate) const LOAD: u64 = 1;
pub(crate) const DYNAMIC: u64 = 2;
pub(crate) const INTERPRETER: u64 = 3;
pub(crate) const NOTE: u64 = 4;

/// A little-endian number of `N` bytes.
pub(crate) fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let mut padded = [0; 8];
    padded[..N].copy_from_slice(bytes.get(at..at.checked_add(N)?)?);
    Some(u64::from_le_bytes(padded))
}

/// Where a 64-bit file's program header table is: its offset, the bytes of an entry, the number of entries.
pub(crate) fn table(header: &[u8]) -> Option<(u64, u64, u64)> {
    Some((number::<8>(header, 0x20)?, number::<2>(header, 0x36)?, number::<2>(header, 0x38)?))
}

/// The entry of the program header table at this offset.
pub(crate) fn program_header(bytes: &[u8], at: usize) -> Option<ProgramHeader> {
    Some(ProgramHeader {
        kind: number::<4>(bytes, at)?,
        offset: number::<8>(bytes, at.checked_add(8)?)?,
        bytes: number::<8>(bytes, at.checked_add(0x20)?)?,
    })
}

/// A release as `uname -r` says it, up to a blank or a zero byte; `None` if there is no digit first.
pub(crate) fn release(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().take(200).position(|&byte| matches!(byte, b' ' | b'\0' | b'\n'))?;
    let word = std::str::from_utf8(&bytes[..end]).ok()?;
    (word.starts_with(|c: char| c.is_ascii_digit()) && word.chars().all(|c| c.is_ascii_graphic() && c != '/'))
        .then(|| word.to_owned())
}

/// The first release that follows these words.
pub(crate) fn release_after(bytes: &[u8], words: &[u8]) -> Option<String> {
    memchr::memmem::find_iter(bytes, words).find_map(|at| release(&bytes[at + words.len()..]))
}

/// The release that a module was built for: the first word of its `vermagic` (include/linux/vermagic.h).
pub(crate) fn module_release(module: &[u8]) -> Option<String> {
    release_after(module, b"vermagic=")
}
