//! Pools and their buffers for C: of iopj's memory, in huge pages, or of the caller's memory.

use crate::buffers::Buffers;
use crate::error::{
    IOPJ_ERROR_ARGUMENT, IOPJ_ERROR_BUSY, IOPJ_ERROR_LEAKED, IOPJ_ERROR_POOL, IOPJ_OK, Outcome, failure,
    guard,
};
use crate::handle::Kind;
use crate::pointers::{require, write};
use crate::table::{self, Object};
use iopj_engine::{Pool, PoolError, Region};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::{Arc, Weak};

/// What a pool is like.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct IopjPoolInfo {
    /// Number of buffers.
    pub count: u32,
    /// Length of a buffer in bytes.
    pub buffer_len: u32,
    /// Buffers that are neither with the caller nor in flight.
    pub available: u32,
    /// 1 if the pool lies in huge pages, else 0.
    pub huge: u32,
}

/// A buffer that the caller has.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct IopjBuffer {
    /// Its bytes, aligned to 4096. They are the caller's until the buffer is pushed, released, or its pool
    /// closed, and again from its completion on; to touch them in between is the caller's fault.
    pub bytes: *mut c_void,
    /// Its length in bytes.
    pub len: u32,
    /// Its index in the pool, by which requests and completions name it.
    pub index: u32,
}

/// Maps `count` buffers of `len` bytes, each aligned to 4096 bytes and zeroed. Returns the pool's handle, or
/// 0.
#[unsafe(no_mangle)]
pub extern "C" fn iopj_pool_new(count: u32, len: u32) -> u64 {
    guard(|| made(Pool::new(count, len), None))
}

/// As `iopj_pool_new`, in huge pages of 2 MiB.
#[unsafe(no_mangle)]
pub extern "C" fn iopj_pool_huge(count: u32, len: u32) -> u64 {
    guard(|| made(Pool::huge(count, len), None))
}

/// Makes `count` buffers of `buffer_len` bytes of the caller's memory, without a copy: `len` bytes from
/// `base` on, both multiples of 4096. Each buffer takes `buffer_len` bytes, rounded up to a multiple of 4096.
/// Returns the pool's handle, or 0.
///
/// The memory must outlive the pool: it may be unmapped or used otherwise only after `iopj_pool_close` has
/// returned `IOPJ_OK` for the pool. If that says `IOPJ_ERROR_LEAKED`, or if the thread ended with the pool
/// open, it must stay as it is until the process ends.
///
/// # Safety
/// `base` is `NULL` (which is an error), or the `len` bytes from it on may be read and written until then, by
/// nobody but this pool and whoever has a buffer of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iopj_pool_adopt(base: *mut c_void, len: usize, count: u32, buffer_len: u32) -> u64 {
    guard(|| {
        require(base, "base")?;
        let base =
            NonNull::new(base.cast::<u8>()).filter(|base| base.addr().get().checked_add(len).is_some());
        let Some(base) = base else {
            let text = format!("{len} bytes from `base` on go past the end of all memory: pass their length");
            return Err(failure(IOPJ_ERROR_ARGUMENT, text));
        };
        let owner = Arc::new(());
        let adopted = Arc::downgrade(&owner);
        // SAFETY: this function's condition; the caller learns from `iopj_pool_close` whether the owner is
        // dropped.
        let region = unsafe { Region::adopt(base, len, owner) };
        made(region.and_then(|region| Pool::within(&region, count, buffer_len)), Some(adopted))
    })
}

fn made(pool: Result<Pool, PoolError>, adopted: Option<Weak<()>>) -> Outcome<u64> {
    let pool = pool.map_err(|error| failure(IOPJ_ERROR_POOL, error))?;
    table::insert(Kind::Pool, |_| Object::Pool(Rc::new(Buffers::new(pool, adopted))))
}

/// Says what a pool is like.
///
/// # Safety
/// `info` is `NULL` (which is an error), or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iopj_pool_info(pool: u64, info: *mut IopjPoolInfo) -> i32 {
    guard(|| {
        let buffers = table::pool(pool)?;
        let pool = buffers.pool();
        let found = IopjPoolInfo {
            count: pool.count(),
            buffer_len: pool.buffer_len(),
            available: pool.available(),
            huge: u32::from(pool.is_huge()),
        };
        // SAFETY: this function's condition.
        unsafe { write(info, "info", found) }?;
        Ok(IOPJ_OK)
    })
}

/// Closes a pool, with the buffers that the caller has: their bytes must not be touched any more. All engines
/// over it must be closed before, or it says `IOPJ_ERROR_BUSY` and stays open.
///
/// It says `IOPJ_ERROR_LEAKED`, and is closed, if the pool is of the caller's memory and a request that had
/// not ended when its engine was closed still uses it.
#[unsafe(no_mangle)]
pub extern "C" fn iopj_pool_close(pool: u64) -> i32 {
    guard(|| {
        let buffers = table::pool(pool)?;
        // The table has one count, and this function another.
        let engines = Rc::strong_count(&buffers).saturating_sub(2);
        if engines > 0 {
            let text = format!("{engines} engines over the pool are open: close them first");
            return Err(failure(IOPJ_ERROR_BUSY, text));
        }
        let adopted = buffers.adopted();
        drop(buffers);
        table::remove(pool, Kind::Pool).map(drop)?;
        if adopted.is_some_and(|owner| owner.strong_count() > 0) {
            let text = "a request that had not ended when its engine was closed still uses the pool's \
                        memory: leave it as it is until the process ends";
            return Err(failure(IOPJ_ERROR_LEAKED, text));
        }
        Ok(IOPJ_OK)
    })
}

/// Takes a buffer of a pool, the one that came back last. What is in it is what was left in it.
///
/// # Safety
/// `buffer` is `NULL` (which is an error), or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iopj_buffer_acquire(pool: u64, buffer: *mut IopjBuffer) -> i32 {
    guard(|| {
        let buffers = table::pool(pool)?;
        require(buffer, "buffer")?;
        let index = buffers.acquire()?;
        // SAFETY: this function's condition.
        unsafe { write(buffer, "buffer", described(&buffers, index)?) }?;
        Ok(IOPJ_OK)
    })
}

/// Says where the bytes of a buffer are that the caller has, such as one that came with a completion.
///
/// # Safety
/// `buffer` is `NULL` (which is an error), or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iopj_buffer_get(pool: u64, index: u32, buffer: *mut IopjBuffer) -> i32 {
    guard(|| {
        let buffers = table::pool(pool)?;
        // SAFETY: this function's condition.
        unsafe { write(buffer, "buffer", described(&buffers, index)?) }?;
        Ok(IOPJ_OK)
    })
}

fn described(buffers: &Buffers, index: u32) -> Outcome<IopjBuffer> {
    Ok(IopjBuffer { bytes: buffers.address(index)?.cast(), len: buffers.pool().buffer_len(), index })
}

/// Gives a buffer back to its pool: its bytes must not be touched any more.
#[unsafe(no_mangle)]
pub extern "C" fn iopj_buffer_release(pool: u64, index: u32) -> i32 {
    guard(|| table::pool(pool)?.release(index).map(|()| IOPJ_OK))
}
