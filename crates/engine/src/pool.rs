//! The buffer pool: one aligned mapping cut into slots, each free, borrowed or in flight.

use crate::mmap::Mmap;
use std::cell::Cell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::rc::Rc;

/// Slots start at multiples of this many bytes, which satisfies O_DIRECT on every block size in use.
const ALIGNMENT: usize = 4096;

/// A slot of a [`Pool`], by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(pub u32);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Free,
    Borrowed,
    InFlight,
}

/// Why a pool cannot be made, or refuses a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
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
    /// The pool has fewer slots.
    #[error("slot {} is beyond the pool's {slots} slots", .slot.0)]
    OutOfRange {
        /// The slot asked for.
        slot: Slot,
        /// Slots of the pool.
        slots: u32,
    },
    /// The request is longer than a slot.
    #[error("{len} bytes do not fit into a slot of {slot_len} bytes")]
    TooLong {
        /// Length asked for.
        len: u32,
        /// Length of a slot.
        slot_len: u32,
    },
    /// The slot is borrowed or in flight.
    #[error("slot {} is not free", .0.0)]
    Busy(Slot),
}

/// One aligned, anonymous mapping cut into slots of equal length.
///
/// Several engines of one thread share a pool by `Rc`. The kernel gets raw pointers; while a slot is in
/// flight no Rust reference to it exists, because [`Pool::borrow`] refuses it. A forked child does not have
/// the memory (`MADV_DONTFORK`), and what it drops leaves the parent's I/O alone.
pub struct Pool {
    /// Dropped only when no slot is in flight: every engine has an `Rc` of the pool until it has drained, and
    /// leaks that `Rc` if it cannot.
    map: Mmap,
    /// The first slot, in the mapping.
    base: NonNull<u8>,
    stride: usize,
    slot_len: u32,
    is_huge: bool,
    states: Box<[Cell<State>]>,
}

/// Pages are present before the first I/O. Miri does not know the flag.
const POPULATE: i32 = if cfg!(miri) { 0 } else { libc::MAP_POPULATE };

/// Size in bytes of the huge pages that [`Pool::huge`] asks for.
const HUGE_PAGE: usize = 2 << 20;

impl Pool {
    /// Maps `slots` slots of `slot_len` bytes, each aligned to 4096 bytes and zeroed.
    ///
    /// # Errors
    /// [`PoolError::NoMemory`].
    pub fn new(slots: u32, slot_len: u32) -> Result<Rc<Pool>, PoolError> {
        Pool::map(slots, slot_len, 0, false)
    }

    /// As [`Pool::new`], in huge pages of 2 MiB (hugetlb), which the kernel neither moves nor swaps: what a
    /// controller without an IOMMU needs.
    ///
    /// # Errors
    /// [`PoolError::NoHugePages`].
    pub fn huge(slots: u32, slot_len: u32) -> Result<Rc<Pool>, PoolError> {
        Pool::map(slots, slot_len, 0, true)
    }

    /// As [`Pool::new`], with each slot `shift` bytes (a multiple of 4 below 4096) into a page: for tests of
    /// how a driver handles buffers that are not aligned. No kernel interface takes them.
    ///
    /// # Errors
    /// [`PoolError::NoMemory`].
    #[cfg(any(test, feature = "sim"))]
    pub fn shifted(slots: u32, slot_len: u32, shift: u32) -> Result<Rc<Pool>, PoolError> {
        Pool::map(slots, slot_len, shift, false)
    }

    fn map(slots: u32, slot_len: u32, shift: u32, is_huge: bool) -> Result<Rc<Pool>, PoolError> {
        let stride = (slot_len.max(1) as usize + shift as usize).next_multiple_of(ALIGNMENT);
        let page = if is_huge { HUGE_PAGE } else { ALIGNMENT };
        let map_len = stride
            .checked_mul(slots.max(1) as usize)
            .and_then(|bytes| bytes.checked_next_multiple_of(page))
            .ok_or(PoolError::NoMemory { bytes: usize::MAX, errno: 0 })?;
        // The kernel neither moves nor copies shared huge pages: a device without an IOMMU finds the same
        // page.
        let kind = if is_huge {
            libc::MAP_SHARED | libc::MAP_HUGETLB | libc::MAP_HUGE_2MB
        } else {
            libc::MAP_PRIVATE
        };
        let map = Mmap::anonymous(map_len, kind | POPULATE).map_err(|errno| match is_huge {
            true => PoolError::NoHugePages { pages: map_len / HUGE_PAGE },
            false => PoolError::NoMemory { bytes: map_len, errno },
        })?;
        map.keep_from_children().map_err(|errno| PoolError::NoMemory { bytes: map_len, errno })?;
        let base = map.at(shift as usize, map_len - shift as usize);
        let states = (0..slots).map(|_| Cell::new(State::Free)).collect();
        Ok(Rc::new(Pool { map, base, stride, slot_len, is_huge, states }))
    }

    /// Number of slots.
    pub fn slots(&self) -> u32 {
        self.states.len() as u32
    }

    /// True if the pool lies in huge pages.
    pub fn is_huge(&self) -> bool {
        self.is_huge
    }

    /// Length of a slot in bytes.
    pub fn slot_len(&self) -> u32 {
        self.slot_len
    }

    /// The bytes of a free slot, for as long as the guard lives.
    ///
    /// # Errors
    /// [`PoolError::OutOfRange`]; [`PoolError::Busy`] if the slot is borrowed or in flight.
    pub fn borrow(self: &Rc<Pool>, slot: Slot) -> Result<SlotGuard, PoolError> {
        self.take(slot, State::Borrowed)?;
        Ok(SlotGuard { pool: Rc::clone(self), slot })
    }

    /// Marks a free slot as in flight and gives the address for the kernel.
    #[inline]
    pub(crate) fn start(&self, slot: Slot, len: u32) -> Result<NonNull<u8>, PoolError> {
        if len > self.slot_len {
            return Err(PoolError::TooLong { len, slot_len: self.slot_len });
        }
        self.take(slot, State::InFlight)?;
        Ok(self.address(slot))
    }

    /// Marks a free slot as in flight, for a request that is known to fit.
    #[inline]
    pub(crate) fn start_known(&self, slot: Slot) -> Result<(), PoolError> {
        self.take(slot, State::InFlight)
    }

    /// Marks a slot as free again. The caller has seen its completion, or never submitted it.
    #[inline]
    pub(crate) fn finish(&self, slot: Slot) {
        if let Some(state) = self.states.get(slot.0 as usize) {
            debug_assert_eq!(state.get(), State::InFlight);
            state.set(State::Free);
        }
    }

    /// The mapping as the kernel registers it: address and length.
    pub(crate) fn region(&self) -> libc::iovec {
        libc::iovec { iov_base: self.map.base().as_ptr().cast(), iov_len: self.map.len() }
    }

    /// The mapping as a driver gives it to its device: address and length, whole pages.
    pub(crate) fn memory(&self) -> (NonNull<u8>, usize) {
        (self.map.base(), self.map.len())
    }

    #[inline]
    fn take(&self, slot: Slot, to: State) -> Result<(), PoolError> {
        match self.states.get(slot.0 as usize) {
            None => Err(PoolError::OutOfRange { slot, slots: self.slots() }),
            Some(state) if state.get() != State::Free => Err(PoolError::Busy(slot)),
            Some(state) => {
                state.set(to);
                Ok(())
            }
        }
    }

    /// Offset of a slot in the mapping, in bytes.
    pub(crate) fn offset(&self, slot: Slot) -> usize {
        self.address(slot).as_ptr() as usize - self.map.base().as_ptr() as usize
    }

    #[inline]
    fn address(&self, slot: Slot) -> NonNull<u8> {
        debug_assert!((slot.0 as usize) < self.states.len());
        // SAFETY: every caller has seen `slot` to be one of `states`, so it is in range and
        // `slot * stride` lies within the mapping.
        unsafe { self.base.add(slot.0 as usize * self.stride) }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("slots", &self.slots())
            .field("slot_len", &self.slot_len)
            .finish_non_exhaustive()
    }
}

/// The bytes of a borrowed slot.
#[derive(Debug)]
pub struct SlotGuard {
    pool: Rc<Pool>,
    slot: Slot,
}

impl Deref for SlotGuard {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the slot is `Borrowed`, so neither the kernel nor another guard has it, and the
        // pool that maps it lives as long as `self`.
        unsafe {
            std::slice::from_raw_parts(self.pool.address(self.slot).as_ptr(), self.pool.slot_len as usize)
        }
    }
}

impl DerefMut for SlotGuard {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `&mut self` makes this the only reference.
        unsafe {
            std::slice::from_raw_parts_mut(self.pool.address(self.slot).as_ptr(), self.pool.slot_len as usize)
        }
    }
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        self.pool.states[self.slot.0 as usize].set(State::Free);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_borrowed_once_and_never_in_flight() {
        let pool = Pool::new(2, 512).unwrap();
        let mut guard = pool.borrow(Slot(0)).unwrap();
        guard[511] = 9;
        assert_eq!(pool.borrow(Slot(0)).unwrap_err(), PoolError::Busy(Slot(0)));
        assert_eq!(pool.start(Slot(0), 512).unwrap_err(), PoolError::Busy(Slot(0)));
        drop(guard);
        let address = pool.start(Slot(0), 512).unwrap();
        assert_eq!(address.as_ptr() as usize % ALIGNMENT, 0);
        assert_eq!(pool.borrow(Slot(0)).unwrap_err(), PoolError::Busy(Slot(0)));
        pool.finish(Slot(0));
        assert_eq!(pool.borrow(Slot(0)).unwrap()[511], 9);
    }

    #[test]
    fn slots_may_begin_within_a_page() {
        let pool = Pool::shifted(2, 4096, 20).unwrap();
        for slot in 0..2 {
            pool.borrow(Slot(slot)).unwrap().fill(slot as u8 + 1);
            assert_eq!(pool.start(Slot(slot), 4096).unwrap().as_ptr() as usize % ALIGNMENT, 20);
        }
        for slot in 0..2 {
            pool.finish(Slot(slot));
            assert!(pool.borrow(Slot(slot)).unwrap().iter().all(|byte| *byte == slot as u8 + 1));
        }
        assert_eq!(pool.region().iov_base as usize % ALIGNMENT, 0);
        assert_eq!(pool.region().iov_len, 2 * 8192);
    }

    #[test]
    fn a_pool_in_huge_pages_says_how_many_it_lacks() {
        // More than any machine has free.
        let message = Pool::huge(1 << 20, 1 << 24).unwrap_err().to_string();
        assert!(message.contains("8388608 free huge pages of 2 MiB"), "{message}");
        match Pool::huge(3, 512) {
            Ok(pool) => {
                assert!(pool.is_huge() && (pool.region().iov_base as usize).is_multiple_of(HUGE_PAGE))
            }
            Err(error) => assert_eq!(error, PoolError::NoHugePages { pages: 1 }),
        }
    }

    /// Forks and gives what the child found.
    #[cfg(not(miri))]
    fn in_a_child(check: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child only calls `check` and ends without running anything else of this process.
        match unsafe { libc::fork() } {
            0 => {
                let holds = check();
                // SAFETY: ends the child.
                unsafe { libc::_exit(i32::from(!holds)) }
            }
            child => {
                let mut status = 1;
                // SAFETY: `status` lives through the call.
                assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
                status == 0
            }
        }
    }

    #[cfg(not(miri))]
    #[test]
    fn a_forked_child_neither_has_the_pool_nor_unmaps_what_it_has_in_its_place() {
        let pool = Pool::new(2, 4096).unwrap();
        pool.borrow(Slot(1)).unwrap().fill(7);
        let iovec = pool.region();
        let is_mapped = || {
            let mut pages = [0u8; 2];
            // SAFETY: mincore(2) reads no memory of the range; `pages` has a byte for each of its pages.
            unsafe { libc::mincore(iovec.iov_base, iovec.iov_len, pages.as_mut_ptr()) == 0 }
        };
        let copy = Rc::clone(&pool);
        assert!(in_a_child(move || {
            let gone = !is_mapped();
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
            // SAFETY: a new mapping that replaces none.
            let own = unsafe { libc::mmap(iovec.iov_base, iovec.iov_len, libc::PROT_READ, flags, -1, 0) };
            drop((copy, pool));
            gone && own == iovec.iov_base && is_mapped()
        }));
    }

    #[test]
    fn ranges_are_checked() {
        let pool = Pool::new(2, 512).unwrap();
        assert_eq!(pool.start(Slot(2), 1).unwrap_err(), PoolError::OutOfRange { slot: Slot(2), slots: 2 });
        assert_eq!(pool.start(Slot(1), 513).unwrap_err(), PoolError::TooLong { len: 513, slot_len: 512 });
        assert!(matches!(Pool::new(u32::MAX, u32::MAX), Err(PoolError::NoMemory { .. })));
    }
}
