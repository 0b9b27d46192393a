//! Whether every byte of a file lies on its device: a hole or an unwritten extent is read from nothing, at a
//! speed that no drive has. `topology` finds what lies under the file system.

use super::error::{DataFault, TargetError, TargetFault, shown};
use super::sys::{self, Extent};
use linux_raw_sys::ioctl::{
    FIEMAP_EXTENT_DATA_INLINE, FIEMAP_EXTENT_DELALLOC, FIEMAP_EXTENT_ENCODED, FIEMAP_EXTENT_LAST,
    FIEMAP_EXTENT_NOT_ALIGNED, FIEMAP_EXTENT_SHARED, FIEMAP_EXTENT_UNKNOWN, FIEMAP_EXTENT_UNWRITTEN,
};
use std::fs::File;
use std::path::Path;

/// Refuses a file of `size` bytes whose extents are not all written to the device. Where the file system
/// cannot list extents, only holes are refused, and a warning is returned.
///
/// # Errors
/// [`TargetFault::NotReal`] with the first fault and its offset.
pub(super) fn require_written(path: &Path, file: &File, size: u64) -> Result<Option<String>, TargetError> {
    let refuse = |fault| TargetFault::NotReal(fault).of(path);
    let mut covered = 0;
    while covered < size {
        let batch = match sys::extents(file, covered, size - covered) {
            Ok(batch) => batch,
            Err(e) if matches!(e.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOTTY | libc::EINVAL)) => {
                return holes_only(path, file, size);
            }
            Err(e) => return Err(TargetError::system(path, "listing its extents (FIEMAP)")(e)),
        };
        covered = advance(&batch, covered, size).map_err(refuse)?;
    }
    Ok(None)
}

/// The first byte after `batch`, which lies beyond `covered`: a list that ends before `size`, or does not
/// advance, leaves a hole there.
fn advance(batch: &[Extent], covered: u64, size: u64) -> Result<u64, DataFault> {
    let next = walk(batch, covered)?;
    let is_last = batch.last().is_none_or(|extent| extent.flags & FIEMAP_EXTENT_LAST != 0);
    if next < size && (is_last || next == covered) { Err(DataFault::Hole(next)) } else { Ok(next) }
}

/// The first byte after `batch`, if it joins at `covered` and holds nothing but written extents.
fn walk(batch: &[Extent], covered: u64) -> Result<u64, DataFault> {
    batch.iter().try_fold(covered, |covered, extent| {
        if extent.logical > covered {
            return Err(DataFault::Hole(covered));
        }
        let has = |flags: u32| extent.flags & flags != 0;
        let fault = match () {
            () if has(FIEMAP_EXTENT_DATA_INLINE | FIEMAP_EXTENT_NOT_ALIGNED) => DataFault::Inline,
            () if has(FIEMAP_EXTENT_DELALLOC | FIEMAP_EXTENT_UNKNOWN) => DataFault::Delayed,
            () if has(FIEMAP_EXTENT_ENCODED) => DataFault::Encoded,
            () if has(FIEMAP_EXTENT_UNWRITTEN) => DataFault::Unwritten,
            () if has(FIEMAP_EXTENT_SHARED) => DataFault::Shared,
            () => return Ok(covered.max(extent.logical.saturating_add(extent.length))),
        };
        Err(fault(extent.logical))
    })
}

fn holes_only(path: &Path, file: &File, size: u64) -> Result<Option<String>, TargetError> {
    let hole = sys::first_hole(file).map_err(TargetError::system(path, "looking for holes (SEEK_HOLE)"))?;
    if hole < size {
        return Err(TargetFault::NotReal(DataFault::Hole(hole)).of(path));
    }
    Ok(Some(format!(
        "the file system of `{}` does not list extents: unwritten or compressed parts, which are read \
         without the device, would not be noticed",
        shown(path)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_that_join_are_walked() {
        let batch = [Extent::new(0, 4096, 0), Extent::new(4096, 8192, FIEMAP_EXTENT_LAST)];
        assert_eq!(walk(&batch, 0), Ok(12_288));
        // The first extent of a later batch may begin before the byte asked for.
        assert_eq!(walk(&[Extent::new(0, 8192, 0)], 4096), Ok(8192));
        assert_eq!(walk(&[], 4096), Ok(4096));
    }

    #[test]
    fn a_list_that_ends_or_does_not_advance_leaves_a_hole() {
        assert_eq!(advance(&[Extent::new(0, 4096, 0)], 0, 12_288), Ok(4096));
        assert_eq!(
            advance(&[Extent::new(0, 4096, FIEMAP_EXTENT_LAST)], 0, 12_288),
            Err(DataFault::Hole(4096))
        );
        assert_eq!(advance(&[Extent::new(0, 4096, FIEMAP_EXTENT_LAST)], 0, 4096), Ok(4096));
        assert_eq!(advance(&[], 4096, 12_288), Err(DataFault::Hole(4096)));
        for stuck in [Extent::new(4096, 0, 0), Extent::new(0, 4096, 0)] {
            assert_eq!(advance(&[stuck], 4096, 12_288), Err(DataFault::Hole(4096)));
        }
    }

    #[test]
    fn each_fault_is_named_with_its_offset() {
        for (flags, fault) in [
            (FIEMAP_EXTENT_UNWRITTEN, DataFault::Unwritten(4096)),
            (FIEMAP_EXTENT_ENCODED, DataFault::Encoded(4096)),
            (FIEMAP_EXTENT_DATA_INLINE | FIEMAP_EXTENT_NOT_ALIGNED, DataFault::Inline(4096)),
            (FIEMAP_EXTENT_NOT_ALIGNED, DataFault::Inline(4096)),
            (FIEMAP_EXTENT_DELALLOC | FIEMAP_EXTENT_UNKNOWN, DataFault::Delayed(4096)),
            (FIEMAP_EXTENT_UNKNOWN, DataFault::Delayed(4096)),
            (FIEMAP_EXTENT_SHARED, DataFault::Shared(4096)),
        ] {
            assert_eq!(walk(&[Extent::new(0, 4096, 0), Extent::new(4096, 4096, flags)], 0), Err(fault));
        }
        assert_eq!(
            walk(&[Extent::new(0, 4096, 0), Extent::new(8192, 4096, 0)], 0),
            Err(DataFault::Hole(4096))
        );
    }
}
