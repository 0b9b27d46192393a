//! The buffer pool: a part of a region cut into buffers of one length, which its owner and the engines pass
//! to and fro.

use crate::region::{ALIGNMENT, Part, PoolError, Region};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::rc::Rc;

/// Buffers of equal length for the engines of one thread. A handle: its clones are the same pool.
///
/// A [`Buffer`] is taken by [`Pool::acquire`], moves into an engine with a request, and comes out with the
/// completion. Dropped, it goes back to its pool. The memory lives as long as any buffer, engine or handle of
/// the pool does.
#[derive(Clone)]
pub struct Pool(Rc<Inner>);

struct Inner {
    /// Where each buffer is: in the part, or where the caller lent it.
    places: Box<[Cell<NonNull<u8>>]>,
    /// Length of each buffer, where they differ because they are lent.
    lens: Option<Box<[Cell<u32>]>>,
    /// The most bytes of a buffer.
    len: u32,
    /// The buffers that nobody has, last in first out.
    free: RefCell<Vec<u32>>,
    /// The descriptor of the ring that registered the memory, for others to share its registration.
    registered_by: Cell<Option<i32>>,
    /// Dropped only when no buffer is left, neither with a user nor in flight: each holds a count of the
    /// pool. Absent where the memory is lent.
    part: Option<Part>,
}

impl Pool {
    /// Maps `count` buffers of `len` bytes, each aligned to 4096 bytes and zeroed.
    ///
    /// # Errors
    /// [`PoolError::NoMemory`].
    pub fn new(count: u32, len: u32) -> Result<Pool, PoolError> {
        Pool::within(&Region::new(bytes(count, len, 0)?)?, count, len)
    }

    /// As [`Pool::new`], in huge pages of 2 MiB (hugetlb), which the kernel neither moves nor swaps: what a
    /// controller without an IOMMU needs.
    ///
    /// # Errors
    /// [`PoolError::NoHugePages`].
    pub fn huge(count: u32, len: u32) -> Result<Pool, PoolError> {
        let region = Region::huge(bytes(count, len, 0)?)?;
        // The whole of it: a device may need to know that its last page is huge as well.
        Pool::cut(&region, region.len(), count, len, 0)
    }

    /// `count` buffers of `len` bytes in a part of `region` that no other pool has.
    ///
    /// # Errors
    /// [`PoolError::RegionFull`].
    pub fn within(region: &Region, count: u32, len: u32) -> Result<Pool, PoolError> {
        Pool::cut(region, bytes(count, len, 0)?, count, len, 0)
    }

    /// As [`Pool::new`], with each buffer `shift` bytes (a multiple of 4 below 4096) into a page: for tests
    /// of how a driver handles buffers that are not aligned. No kernel interface takes them.
    ///
    /// # Errors
    /// [`PoolError::NoMemory`].
    #[cfg(any(test, feature = "sim"))]
    pub fn shifted(count: u32, len: u32, shift: u32) -> Result<Pool, PoolError> {
        let bytes = bytes(count, len, shift)?;
        Pool::cut(&Region::new(bytes)?, bytes, count, len, shift)
    }

    fn cut(region: &Region, bytes: usize, count: u32, len: u32, shift: u32) -> Result<Pool, PoolError> {
        let part = region.take(bytes).ok_or(PoolError::RegionFull { bytes })?;
        // SAFETY: the shift is below a page, and the part has at least one.
        let base = unsafe { part.base().add(shift as usize) };
        let stride = stride(len, shift);
        // SAFETY: the part has room for `count` buffers that are `stride` bytes apart.
        let places =
            (0..count as usize).map(|index| Cell::new(unsafe { base.add(index * stride) })).collect();
        Ok(Pool::of(places, None, len, Some(part)))
    }

    fn of(
        places: Box<[Cell<NonNull<u8>>]>,
        lens: Option<Box<[Cell<u32>]>>,
        len: u32,
        part: Option<Part>,
    ) -> Pool {
        let free = RefCell::new((0..places.len() as u32).rev().collect());
        Pool(Rc::new(Inner { places, lens, len, free, registered_by: Cell::new(None), part }))
    }

    /// Takes a buffer, the one that came back last; `None` if all are with users or in flight. What is in it
    /// is what was left in it.
    pub fn acquire(&self) -> Option<Buffer> {
        let index = self.0.free.borrow_mut().pop()?;
        Some(Buffer { pool: ManuallyDrop::new(self.clone()), index })
    }

    /// Number of buffers.
    pub fn count(&self) -> u32 {
        self.0.places.len() as u32
    }

    /// Number of buffers that nobody has.
    pub fn available(&self) -> u32 {
        self.0.free.borrow().len() as u32
    }

    /// Length of a buffer in bytes.
    pub fn buffer_len(&self) -> u32 {
        self.0.len
    }

    /// True if the pool lies in huge pages.
    pub fn is_huge(&self) -> bool {
        self.0.part.as_ref().is_some_and(Part::is_huge)
    }

    /// True if `other` is a handle of the same pool.
    #[inline]
    pub(crate) fn is(&self, other: &Pool) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// The memory as the kernel registers it: address and length. None where it is lent: it has no end.
    pub(crate) fn region(&self) -> Option<libc::iovec> {
        let (base, iov_len) = self.memory()?;
        Some(libc::iovec { iov_base: base.as_ptr().cast(), iov_len })
    }

    /// The memory as a driver gives it to its device: address and length, whole pages. None where it is lent.
    pub(crate) fn memory(&self) -> Option<(NonNull<u8>, usize)> {
        self.0.part.as_ref().map(|part| (part.base(), part.len()))
    }

    /// Offset of a buffer in the memory, in bytes.
    pub(crate) fn offset(&self, index: u32) -> usize {
        let base = self.0.part.as_ref().map_or(0, |part| part.base().as_ptr() as usize);
        self.address(index).as_ptr() as usize - base
    }

    /// The descriptor of the ring that registered the memory.
    pub(crate) fn registered_by(&self) -> &Cell<Option<i32>> {
        &self.0.registered_by
    }

    /// The address of buffer `index`, which the pool must have.
    #[inline]
    pub(crate) fn address(&self, index: u32) -> NonNull<u8> {
        debug_assert!(index < self.count());
        // SAFETY: the callers have the index from a buffer of this pool or count below its number.
        unsafe { self.0.places.get_unchecked(index as usize) }.get()
    }

    /// Bytes of buffer `index`, which a vectored request moves.
    pub(crate) fn extent(&self, index: u32) -> usize {
        let lent = self.0.lens.as_ref().and_then(|lens| lens.get(index as usize));
        lent.map_or(self.0.len, Cell::get) as usize
    }

    /// The buffer `index`, back from a flight.
    ///
    /// # Safety
    /// [`Buffer::take_off`] gave the index of a buffer of this pool, and this is the one landing that
    /// follows.
    #[inline]
    pub(crate) unsafe fn land(&self, index: u32) -> Buffer {
        // SAFETY: by this function's condition the buffer that took off was never dropped: its count of the
        // pool is taken over here, once.
        let pool = unsafe { std::ptr::read(self) };
        Buffer { pool: ManuallyDrop::new(pool), index }
    }

    /// How many handles, buffers and engines hold the pool, for tests.
    #[cfg(any(test, feature = "sim"))]
    pub fn holders(&self) -> usize {
        Rc::strong_count(&self.0)
    }
}

fn stride(len: u32, shift: u32) -> usize {
    (len.max(1) as usize + shift as usize).next_multiple_of(ALIGNMENT)
}

fn bytes(count: u32, len: u32, shift: u32) -> Result<usize, PoolError> {
    let bytes = stride(len, shift).checked_mul(count.max(1) as usize);
    bytes.ok_or(PoolError::NoMemory { bytes: usize::MAX, errno: 0 })
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("count", &self.count()).field("len", &self.0.len).finish_non_exhaustive()
    }
}

/// A buffer of a [`Pool`]: its bytes belong to whoever has it, and to nobody while it is in flight.
///
/// It moves into an engine with a request, so its bytes cannot be touched until it comes back:
///
/// ```compile_fail,E0382
/// # fn check(engine: &mut impl iopj_engine::Engine, buffer: iopj_engine::Buffer) {
/// engine.push(iopj_engine::Request::read(buffer, 4096, 0)).unwrap();
/// let first = buffer[0]; // borrow of moved value
/// # }
/// ```
pub struct Buffer {
    /// Taken when the buffer is dropped.
    pool: ManuallyDrop<Pool>,
    index: u32,
}

impl Buffer {
    /// Its number in the pool, below [`Pool::count`].
    #[inline]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The pool that it belongs to.
    #[inline]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Gives the buffer to the kernel or a device: nobody has it until [`Pool::land`] is called with its
    /// index. If that never happens, the pool's memory is never freed.
    #[inline]
    pub(crate) fn take_off(self) -> u32 {
        ManuallyDrop::new(self).index
    }
}

impl Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the range lies in the pool's part, which lives as long as the pool, and no other buffer has
        // it; or it is empty, as the memory is lent. Neither the kernel nor a device has it, as the buffer is
        // not in flight.
        unsafe { std::slice::from_raw_parts(self.pool.address(self.index).as_ptr(), self.pool.visible()) }
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.pool.address(self.index).as_ptr(), self.pool.visible()) }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer {} of {} bytes", self.index, self.pool.extent(self.index))
    }
}

impl Drop for Buffer {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the pool is taken here alone, and not used afterwards.
        give_back(unsafe { ManuallyDrop::take(&mut self.pool) }, self.index);
    }
}

/// Takes all in registers: a buffer that had to have an address, for the case that something panics, would be
/// stored and loaded for each I/O.
#[inline(never)]
fn give_back(pool: Pool, index: u32) {
    pool.0.free.borrow_mut().push(index);
}

mod lent;
#[cfg(test)]
mod tests;
