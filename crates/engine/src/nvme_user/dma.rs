//! Memory that the device reads and writes, and the addresses at which it sees it.

use super::device::{Device, HugePages, PAGE, PageRange};
use crate::error::EngineError;
use crate::mmap::Mmap;
use std::ptr::NonNull;
use std::sync::Arc;

/// Size in bytes of the huge pages that are asked for.
const HUGE_PAGE: usize = 2 << 20;

/// Shared: after a fork, private memory would be copied on write, and the device would not see the copy. Miri
/// only knows private memory.
const SHARING: i32 = if cfg!(miri) { libc::MAP_PRIVATE } else { libc::MAP_SHARED | libc::MAP_POPULATE };

/// Memory that the device may access until this is dropped.
pub(super) struct DmaMapping {
    device: Arc<dyn Device>,
    pages: Box<[u64]>,
}

impl DmaMapping {
    /// Maps `memory`, which must stay where it is as long as the mapping lives.
    pub(super) fn new(device: &Arc<dyn Device>, memory: &PageRange) -> Result<DmaMapping, EngineError> {
        Ok(DmaMapping { device: Arc::clone(device), pages: device.map(memory)? })
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

impl Drop for DmaMapping {
    fn drop(&mut self) {
        self.device.unmap(&self.pages);
    }
}

/// Zeroed memory in huge pages where there are some, else in small ones unless the device needs huge ones;
/// true if the pages are huge.
fn allocate(len: usize, huge: HugePages) -> Result<(Mmap, bool), EngineError> {
    if !cfg!(miri) {
        let flags = SHARING | libc::MAP_HUGETLB | libc::MAP_HUGE_2MB;
        match Mmap::anonymous(len.next_multiple_of(HUGE_PAGE), flags) {
            Ok(memory) => return Ok((memory, true)),
            Err(errno) if huge == HugePages::Required => return Err(no_huge_pages(errno)),
            Err(_) => {}
        }
    }
    allocate_small(len).map(|memory| (memory, false))
}

fn allocate_small(len: usize) -> Result<Mmap, EngineError> {
    Mmap::anonymous(len.next_multiple_of(PAGE), SHARING)
        .map_err(|errno| EngineError::call("mmap (queues)", errno, String::new()))
}

fn no_huge_pages(errno: i32) -> EngineError {
    let remedy = ": too few huge pages of 2 MiB are free; without an IOMMU a drive needs 3, and each job \
                  needs 1 and those of its buffers (iodepth x bs): `echo N > \
                  /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages`, as root, with N that many \
                  above its present value";
    EngineError::call("mmap (huge pages)", errno, remedy.to_owned())
}

/// Zeroed memory that the driver and the device share. Its owner drops it once the device no longer uses it;
/// it is first unmapped from the device, then freed.
pub(super) struct DmaMemory {
    mapping: DmaMapping,
    memory: Mmap,
}

impl DmaMemory {
    /// At least `len` bytes, aligned to a page; in a huge page where there is one.
    pub(super) fn new(device: &Arc<dyn Device>, len: usize) -> Result<DmaMemory, EngineError> {
        let (memory, is_huge) = allocate(len, device.huge_pages())?;
        DmaMemory::map(device, memory, is_huge)
    }

    /// As [`DmaMemory::new`], never in huge pages, which are few.
    pub(super) fn plain(device: &Arc<dyn Device>, len: usize) -> Result<DmaMemory, EngineError> {
        DmaMemory::map(device, allocate_small(len)?, false)
    }

    fn map(device: &Arc<dyn Device>, memory: Mmap, is_huge: bool) -> Result<DmaMemory, EngineError> {
        let range = PageRange { base: memory.base(), len: memory.len(), is_huge };
        Ok(DmaMemory { mapping: DmaMapping::new(device, &range)?, memory })
    }

    /// The address of byte `at` for this process; `len` bytes follow it.
    pub(super) fn at(&self, at: usize, len: usize) -> NonNull<u8> {
        self.memory.at(at, len)
    }

    #[inline]
    pub(super) fn mapping(&self) -> &DmaMapping {
        &self.mapping
    }

    /// True if the device sees the `len` bytes from `at`, the start of a page, as one range.
    pub(super) fn is_contiguous(&self, at: usize, len: usize) -> bool {
        let pages = &self.mapping.pages[at / PAGE..(at + len).div_ceil(PAGE)];
        pages.windows(2).all(|pair| pair[1] == pair[0] + PAGE as u64)
    }
}
