//! Memory that the device reads and writes, and the addresses under which it sees it.

use super::registers::{Device, HugePages, PAGE};
use crate::engine::{EngineError, last_errno};
use std::ptr::NonNull;
use std::sync::Arc;

/// Bytes of the huge page that is asked for.
const HUGE_PAGE: usize = 2 << 20;

/// Shared, so that no fork can move a page away under the device by copying it on a write; Miri knows private
/// memory only.
const SHARING: i32 = if cfg!(miri) { libc::MAP_PRIVATE } else { libc::MAP_SHARED | libc::MAP_POPULATE };

/// A range of memory to be mapped for the device, aligned to pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    pub(super) base: NonNull<u8>,
    pub(super) len: usize,
    /// It lies in huge pages.
    pub(super) is_huge: bool,
}

/// What the device may reach, until it is dropped.
pub(super) struct Mapping {
    device: Arc<dyn Device>,
    pages: Box<[u64]>,
}

impl Mapping {
    /// Maps `memory`, which must stay where it is as long as the mapping lives.
    pub(super) fn new(device: &Arc<dyn Device>, memory: &Memory) -> Result<Mapping, EngineError> {
        Ok(Mapping { device: Arc::clone(device), pages: device.map(memory)? })
    }

    /// The address of each page as the device sees it.
    #[inline]
    pub(super) fn pages(&self) -> &[u64] {
        &self.pages
    }

    /// The address of a byte as the device sees it.
    #[inline]
    pub(super) fn address(&self, at: usize) -> u64 {
        self.pages[at / PAGE] + (at % PAGE) as u64
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.device.unmap(&self.pages);
    }
}

/// Zeroed memory of the driver's own.
struct Anonymous(Memory);

impl Anonymous {
    fn new(len: usize, huge: HugePages) -> Result<Anonymous, EngineError> {
        let in_huge_pages = len.next_multiple_of(HUGE_PAGE);
        let mut mapped = if cfg!(miri) {
            None
        } else {
            Anonymous::map(in_huge_pages, libc::MAP_HUGETLB | libc::MAP_HUGE_2MB, true)
        };
        if mapped.is_none() && huge == HugePages::Preferred {
            mapped = Anonymous::map(len.next_multiple_of(PAGE), 0, false);
        }
        mapped.ok_or_else(|| match huge {
            HugePages::Preferred => EngineError::last("mmap (queues)"),
            HugePages::Required => no_huge_pages(),
        })
    }

    fn map(len: usize, flags: i32, is_huge: bool) -> Option<Anonymous> {
        let flags = SHARING | libc::MAP_ANONYMOUS | flags;
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches no memory of ours.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        };
        let base = NonNull::new(base.cast()).filter(|_| base != libc::MAP_FAILED)?;
        Some(Anonymous(Memory { base, len, is_huge }))
    }
}

impl Drop for Anonymous {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and by `DmaMemory` the device does not reach it any more.
        unsafe { libc::munmap(self.0.base.as_ptr().cast(), self.0.len) };
    }
}

/// There are too few free huge pages.
fn no_huge_pages() -> EngineError {
    let remedy = ": too few huge pages of 2 MiB are free; without an IOMMU a drive takes 3, and each job \
                  one and those of its buffers (iodepth x bs): `echo N > \
                  /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages`, as root, with an N that is \
                  higher than now by as many";
    EngineError::call("mmap (huge pages)", last_errno(), remedy.to_owned())
}

/// Zeroed memory that the driver and the device share. Whoever drops it has seen that the device does not use
/// it any more; it is unmapped from the device first, then freed.
pub(super) struct DmaMemory {
    mapping: Mapping,
    memory: Anonymous,
}

// SAFETY: the memory belongs to this value alone, on whichever thread it is; it hands out addresses, not
// references.
unsafe impl Send for DmaMemory {}

impl DmaMemory {
    /// At least `len` bytes, aligned to a page; in a huge page where there is one.
    pub(super) fn new(device: &Arc<dyn Device>, len: usize) -> Result<DmaMemory, EngineError> {
        let memory = Anonymous::new(len, device.huge_pages())?;
        Ok(DmaMemory { mapping: Mapping::new(device, &memory.0)?, memory })
    }

    /// As [`DmaMemory::new`], never in huge pages, which are few.
    pub(super) fn plain(device: &Arc<dyn Device>, len: usize) -> Result<DmaMemory, EngineError> {
        let memory =
            Anonymous::map(len.next_multiple_of(PAGE), 0, false).ok_or_else(|| EngineError::last("mmap"))?;
        Ok(DmaMemory { mapping: Mapping::new(device, &memory.0)?, memory })
    }

    /// The address of byte `at` for this process; `len` bytes follow it.
    pub(super) fn at(&self, at: usize, len: usize) -> NonNull<u8> {
        assert!(at <= self.memory.0.len && len <= self.memory.0.len - at, "within the memory");
        // SAFETY: the offset was found to lie within the mapping.
        unsafe { self.memory.0.base.add(at) }
    }

    /// How the device sees the memory.
    #[inline]
    pub(super) fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// True if the device sees `len` bytes from a page's begin at `at` on as one range.
    pub(super) fn is_contiguous(&self, at: usize, len: usize) -> bool {
        let pages = &self.mapping.pages[at / PAGE..(at + len).div_ceil(PAGE)];
        pages.windows(2).all(|pair| pair[1] == pair[0] + PAGE as u64)
    }
}
