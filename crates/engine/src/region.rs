//! Memory for buffers: a region, ours or the caller's, and the parts of it that pools have.

use crate::mmap::Mmap;
use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

/// Parts, and the buffers in them, start at multiples of this many bytes, which satisfies O_DIRECT on every
/// block size in use.
pub(crate) const ALIGNMENT: usize = 4096;

/// Pages are present before the first I/O. Miri does not know the flag.
const POPULATE: i32 = if cfg!(miri) { 0 } else { libc::MAP_POPULATE };

/// Size in bytes of the huge pages that [`Region::huge`] asks for.
pub(crate) const HUGE_PAGE: usize = 2 << 20;

/// Why a pool cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// The mapping could not be made.
    #[error("no memory for {bytes} bytes of buffers (errno {errno}): lower iodepth, bs or numjobs")]
    NoMemory {
        /// Length of the mapping asked for.
        bytes: usize,
        /// errno of `mmap`, or 0 where the length overflows.
        errno: i32,
    },
    /// Too few huge pages are free.
    #[error(
        "no {pages} free huge pages of 2 MiB for the buffers: raise \
         /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages by {pages}, or lower iodepth, bs or numjobs"
    )]
    NoHugePages {
        /// Huge pages that are needed.
        pages: usize,
    },
    /// Memory of the caller's that cannot be cut into buffers.
    #[error("{len} bytes of memory are no region: its address and length must be multiples of 4096")]
    Unaligned {
        /// Length of the memory.
        len: usize,
    },
    /// The region has no part that is large enough and that no other pool has.
    #[error(
        "the region has no {bytes} bytes in one piece left: make it larger, or drop another of its pools"
    )]
    RegionFull {
        /// Bytes that the pool needs.
        bytes: usize,
    },
}

/// Memory that pools take parts of. It may be shared by threads; a pool belongs to one.
#[derive(Clone)]
pub struct Region(Arc<Memory>);

struct Memory {
    base: NonNull<u8>,
    len: usize,
    is_huge: bool,
    /// The parts that no pool has, in order, none of them adjacent.
    free: Mutex<Vec<Range<usize>>>,
    /// Dropped once neither a part nor a handle of the region is left.
    _owner: Owner,
}

#[expect(dead_code, reason = "what owns the memory is only dropped")]
enum Owner {
    Ours(Mmap),
    Callers(Box<dyn Any + Send + Sync>),
}

// SAFETY: the memory is only reached through parts, which do not overlap and which one pool each has.
unsafe impl Send for Memory {}
// SAFETY: as above; the list of free parts is locked.
unsafe impl Sync for Memory {}

impl Region {
    /// Maps at least `len` bytes of zeros. A forked child does not have them (`MADV_DONTFORK`).
    ///
    /// # Errors
    /// [`PoolError::NoMemory`].
    pub fn new(len: usize) -> Result<Region, PoolError> {
        let kind = libc::MAP_PRIVATE | POPULATE;
        Region::map(len, ALIGNMENT, kind, |bytes, errno| PoolError::NoMemory { bytes, errno })
    }

    /// As [`Region::new`], in huge pages of 2 MiB (hugetlb), which the kernel neither moves nor swaps: what a
    /// controller without an IOMMU needs.
    ///
    /// # Errors
    /// [`PoolError::NoHugePages`].
    pub fn huge(len: usize) -> Result<Region, PoolError> {
        // The kernel neither moves nor copies shared huge pages: a device without an IOMMU finds the same
        // page.
        let kind = libc::MAP_SHARED | libc::MAP_HUGETLB | libc::MAP_HUGE_2MB | POPULATE;
        let mut region = Region::map(len, HUGE_PAGE, kind, |bytes, _| PoolError::NoHugePages {
            pages: bytes / HUGE_PAGE,
        })?;
        if let Some(memory) = Arc::get_mut(&mut region.0) {
            memory.is_huge = true;
        }
        Ok(region)
    }

    fn map(
        len: usize,
        page: usize,
        kind: i32,
        refused: impl Fn(usize, i32) -> PoolError,
    ) -> Result<Region, PoolError> {
        let no_such = PoolError::NoMemory { bytes: usize::MAX, errno: 0 };
        let len = len.max(1).checked_next_multiple_of(page).ok_or(no_such)?;
        let map = Mmap::anonymous(len, kind).map_err(|errno| refused(len, errno))?;
        map.keep_from_children().map_err(|errno| refused(len, errno))?;
        let base = map.base();
        Ok(Region::of(base, len, Owner::Ours(map)))
    }

    /// The caller's memory, without a copy: a database's buffer cache, memory shared with a GPU. `owner` is
    /// dropped once nothing uses the memory any more: no handle of the region, no pool, no buffer, no request
    /// in flight. What a fork does to it is the caller's to decide (`MADV_DONTFORK`): the kernel copies a
    /// page that is written to while a request is in flight on it.
    ///
    /// # Errors
    /// [`PoolError::Unaligned`] if `base` or `len` is not a multiple of 4096, or there is no memory.
    ///
    /// # Safety
    /// The `len` bytes from `base` on may be read and written until `owner` is dropped, by nobody but the
    /// region's pools and their requests.
    pub unsafe fn adopt(
        base: NonNull<u8>,
        len: usize,
        owner: impl Any + Send + Sync,
    ) -> Result<Region, PoolError> {
        if len == 0 || !len.is_multiple_of(ALIGNMENT) || !base.addr().get().is_multiple_of(ALIGNMENT) {
            return Err(PoolError::Unaligned { len });
        }
        Ok(Region::of(base, len, Owner::Callers(Box::new(owner))))
    }

    fn of(base: NonNull<u8>, len: usize, owner: Owner) -> Region {
        let free = Mutex::new(std::iter::once(0..len).collect());
        Region(Arc::new(Memory { base, len, is_huge: false, free, _owner: owner }))
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Never: a region has at least a page.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Takes `len` bytes, whole pages, that no other part has; the first place that is large enough.
    pub(crate) fn take(&self, len: usize) -> Option<Part> {
        let len = len.checked_next_multiple_of(ALIGNMENT)?;
        let mut free = self.0.free.lock().unwrap_or_else(PoisonError::into_inner);
        let place = free.iter().position(|range| range.len() >= len)?;
        let at = free[place].start;
        free[place].start += len;
        if free[place].is_empty() {
            free.remove(place);
        }
        Some(Part { region: self.clone(), at, len })
    }

    fn give_back(&self, range: Range<usize>) {
        let mut free = self.0.free.lock().unwrap_or_else(PoisonError::into_inner);
        let place = free.partition_point(|other| other.start < range.start);
        free.insert(place, range);
        if free.get(place + 1).is_some_and(|next| next.start == free[place].end) {
            free[place].end = free.remove(place + 1).end;
        }
        if place > 0 && free[place - 1].end == free[place].start {
            free[place - 1].end = free.remove(place).end;
        }
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region").field("len", &self.0.len).finish_non_exhaustive()
    }
}

/// A part of a region that nobody else has; given back when it is dropped.
pub(crate) struct Part {
    region: Region,
    at: usize,
    len: usize,
}

impl Part {
    pub(crate) fn base(&self) -> NonNull<u8> {
        // SAFETY: the part lies within the region.
        unsafe { self.region.0.base.add(self.at) }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_huge(&self) -> bool {
        self.region.0.is_huge
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.region.give_back(self.at..self.at + self.len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn parts_do_not_overlap_and_come_back() {
        let region = Region::new(4 * ALIGNMENT).unwrap();
        let mut parts: Vec<Part> = [1, ALIGNMENT, 2 * ALIGNMENT].map(|len| region.take(len).unwrap()).into();
        assert!(region.take(1).is_none(), "all is taken");
        let starts: Vec<usize> = parts.iter().map(|part| part.at / ALIGNMENT).collect();
        assert_eq!(starts, [0, 1, 2]);
        drop(parts.remove(1));
        assert!(region.take(2 * ALIGNMENT).is_none());
        assert_eq!(region.take(1).unwrap().at, ALIGNMENT);
        drop(parts);
        assert_eq!(region.take(4 * ALIGNMENT).unwrap().len(), region.len(), "free parts are joined");
    }

    #[test]
    fn the_callers_memory_is_kept_until_nothing_uses_it() {
        static DROPPED: AtomicUsize = AtomicUsize::new(0);
        #[expect(dead_code, reason = "the memory is only dropped")]
        struct Cache(Mmap);
        impl Drop for Cache {
            fn drop(&mut self) {
                DROPPED.fetch_add(1, Ordering::Relaxed);
            }
        }
        let map = Mmap::anonymous(4 * ALIGNMENT, libc::MAP_PRIVATE).unwrap();
        let (base, len) = (map.base(), map.len());
        // SAFETY: the mapping lives in the owner and nobody else uses it.
        let adopt = |base, len, owner: Cache| unsafe { Region::adopt(base, len, owner) };
        let region = adopt(base, len, Cache(map)).unwrap();
        let part = region.take(ALIGNMENT).unwrap();
        assert_eq!(part.base(), base);
        drop(region);
        assert_eq!(DROPPED.load(Ordering::Relaxed), 0, "a part is left");
        drop(part);
        assert_eq!(DROPPED.load(Ordering::Relaxed), 1);
        let map = Mmap::anonymous(4 * ALIGNMENT, libc::MAP_PRIVATE).unwrap();
        let at = map.at(512, 1);
        let refused = adopt(at, ALIGNMENT, Cache(map)).unwrap_err();
        assert_eq!(refused, PoolError::Unaligned { len: ALIGNMENT });
    }
}
