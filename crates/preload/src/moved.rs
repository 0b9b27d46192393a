//! An adaptive engine on a descriptor of the program's, with buffers where the program has them.

use crate::limits::is_size_limited;
use crate::process::{Shared, is_own};
use crate::settings;
use crate::stack;
use crate::stats::{self, Reason};
use crate::sys;
use iopj_auto::{Auto, Kind, Way};
use iopj_engine::{Buffer, Completion, Engine, IoError, Op, Pool, Request, Target};
use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The most vectors of a call that is moved.
pub(crate) const MOST_VECTORS: usize = 16;
/// The most bytes of a call that is moved.
pub(crate) const MOST_BYTES: usize = 1 << 30;
/// The bits of addresses, lengths and offsets that must be zero. A device with larger blocks refuses what
/// does not fit it.
const UNALIGNED: usize = 511;
/// How long what is in flight when an engine ends is waited for.
const END_LIMIT: Duration = Duration::from_secs(30);

/// The most engines of a process.
static MOST_ENGINES: AtomicU32 = AtomicU32::new(0);
/// How many there are.
static ENGINES: Shared<u32> = Shared::new();

/// Sets the most engines that a process has.
pub(crate) fn limit_engines(most: u32) {
    MOST_ENGINES.store(most, Ordering::Relaxed);
}

/// One read or write as the program asks for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer<'a> {
    pub(crate) fd: c_int,
    /// [`Op::Read`], [`Op::Write`], [`Op::WriteDsync`] or [`Op::WriteSync`].
    pub(crate) op: Op,
    pub(crate) vectors: &'a [libc::iovec],
    pub(crate) offset: u64,
}

impl Transfer<'_> {
    /// True if it reads.
    pub(crate) fn reads(&self) -> bool {
        self.op == Op::Read
    }

    /// Whether it has a form that is moved.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn check(&self) -> Result<(), Reason> {
        // Before any is looked at: the kernel refuses more than 1024.
        match self.vectors.len() {
            1 => {}
            2..=MOST_VECTORS if !self.op.is_durable() => {}
            _ => return Err(Reason::Vectors),
        }
        let mut all = self.offset as usize;
        let mut bytes = 0_usize;
        for vector in self.vectors {
            if vector.iov_base.is_null() || vector.iov_len > MOST_BYTES || vector.iov_len == 0 {
                return Err(Reason::Length);
            }
            all |= vector.iov_base.addr() | vector.iov_len;
            bytes += vector.iov_len;
        }
        if bytes > MOST_BYTES {
            return Err(Reason::Length);
        }
        if all & UNALIGNED == 0 { Ok(()) } else { Err(Reason::Unaligned) }
    }
}

/// The engine.
pub(crate) struct Moved {
    /// Closed when this is dropped.
    engine: ManuallyDrop<Box<Auto>>,
    pool: Pool,
    by_way: [u64; Way::COUNT],
    switches: u64,
    untold: u32,
}

impl Moved {
    /// Opens an engine for up to `depth` calls in flight on a descriptor, which goes some ways alone, or any.
    ///
    /// # Errors
    /// There are too many, or it cannot be opened, which is counted with the error.
    pub(crate) fn open(fd: c_int, depth: u32, ways: Option<&[Way]>) -> Result<Moved, Reason> {
        if !stack::has_room(stack::TO_OPEN) {
            return Err(Reason::Stack);
        }
        let most = MOST_ENGINES.load(Ordering::Relaxed);
        let has_room = ENGINES.with(|engines| {
            let has_room = *engines < most;
            *engines += u32::from(has_room);
            has_room
        });
        if !has_room {
            return Err(Reason::Engines);
        }
        let opened = Moved::try_open(fd, depth, ways);
        match opened {
            Ok((engine, pool)) => {
                stats::opened();
                let (engine, by_way) = (ManuallyDrop::new(engine), [0; Way::COUNT]);
                Ok(Moved { engine, pool, by_way, switches: 0, untold: 0 })
            }
            Err(error) => {
                ENGINES.with(|engines| *engines = engines.saturating_sub(1));
                stats::failed(&error);
                Err(Reason::NoEngine)
            }
        }
    }

    /// Out of line, so that only a thread with room for it has it on its stack.
    #[inline(never)]
    fn try_open(fd: c_int, depth: u32, ways: Option<&[Way]>) -> Result<(Box<Auto>, Pool), String> {
        let policy = settings::get().policy.clone()?;
        // SAFETY: the engine does what the program asks for on this number, and nothing else.
        let target = unsafe { Target::of_callers(fd) }.map_err(|error| error.to_string())?;
        let pool = Pool::lent(depth.max(MOST_VECTORS as u32));
        let mut builder = Auto::builder().policy(policy).iodepth(depth);
        if let Some(ways) = ways {
            builder = builder.among(ways);
        }
        let opened = builder.open(&target, &pool);
        Ok((Box::new(opened.map_err(|error| error.to_string())?), pool))
    }

    /// Queues a transfer that [`Transfer::check`] has passed. What the engine says with its end has this tag.
    ///
    /// # Errors
    /// It was not taken.
    ///
    /// # Safety
    /// The program's memory is the kernel's, as by the system call, until the transfer ends.
    pub(crate) unsafe fn push(&mut self, transfer: &Transfer<'_>, tag: u64) -> Result<(), Reason> {
        if !stack::has_room(stack::TO_CALL) {
            return Err(Reason::Stack);
        }
        if is_size_limited() && !transfer.reads() {
            return Err(Reason::SizeLimit);
        }
        let offset = transfer.offset;
        let (request, way) = match transfer.vectors {
            [vector] => {
                let len = vector.iov_len as u32;
                // SAFETY: by this function's condition.
                let buffer = unsafe { self.lend(vector) }?;
                let request = match transfer.op {
                    Op::Write => Request::write(buffer, len, offset),
                    Op::WriteDsync => Request::write_dsync(buffer, len, offset),
                    Op::WriteSync => Request::write_sync(buffer, len, offset),
                    _ => Request::read(buffer, len, offset),
                };
                (request, self.engine.route(Kind::of(transfer.op, len)))
            }
            several => {
                // SAFETY: by this function's condition.
                let buffers = several.iter().map(|vector| unsafe { self.lend(vector) });
                let buffers = buffers.collect::<Result<Vec<Buffer>, Reason>>()?;
                let vectored =
                    if transfer.reads() { Request::read_vectored } else { Request::write_vectored };
                (vectored(buffers, offset), Way::fallback(false))
            }
        };
        self.engine.push(request.tagged(tag)).map_err(|_| Reason::Refused)?;
        self.by_way[way as usize] += 1;
        self.untold += 1;
        if self.untold >= 256 {
            self.tell();
        }
        Ok(())
    }

    /// A buffer that is where the program has it.
    ///
    /// # Safety
    /// As for [`Moved::push`].
    unsafe fn lend(&self, vector: &libc::iovec) -> Result<Buffer, Reason> {
        let base = NonNull::new(vector.iov_base.cast::<u8>()).ok_or(Reason::Length)?;
        // SAFETY: by this function's condition; nothing is taken from the pool in any other way.
        let buffer = unsafe { self.pool.lend(base, vector.iov_len as u32) }.ok_or(Reason::Full)?;
        if buffer.as_ptr() != base.as_ptr() {
            stats::copied(vector.iov_len as u64);
        }
        Ok(buffer)
    }

    /// Hands what was queued to the kernel.
    ///
    /// # Errors
    /// The engine is finished.
    pub(crate) fn submit(&mut self) -> Result<(), String> {
        self.engine.submit().map_err(|error| error.to_string())
    }

    /// Hands out what has ended: tag, and bytes or an errno negated.
    ///
    /// # Errors
    /// As for [`Moved::submit`].
    pub(crate) fn reap(&mut self, mut sink: impl FnMut(u64, isize)) -> Result<(), String> {
        let mut sink = |completion: Completion| sink(completion.tag, outcome(&completion));
        let reaped = if stack::has_room(stack::TO_OPEN) {
            self.engine.reap(&mut sink)
        } else {
            self.engine.within_epoch(|engine| engine.reap(&mut sink))
        };
        reaped.map(drop).map_err(|error| error.to_string())
    }

    /// As [`Moved::reap`], and waits until something has ended, or until `until`.
    ///
    /// # Errors
    /// As for [`Moved::submit`].
    pub(crate) fn wait(
        &mut self,
        until: Option<Instant>,
        mut sink: impl FnMut(u64, isize),
    ) -> Result<(), String> {
        let mut sink = |completion: Completion| sink(completion.tag, outcome(&completion));
        let waited = if stack::has_room(stack::TO_OPEN) {
            self.engine.wait(1, until, &mut sink)
        } else {
            self.engine.within_epoch(|engine| engine.wait(1, until, &mut sink))
        };
        waited.map(drop).map_err(|error| error.to_string())
    }

    /// Counts what was done since this was called last.
    pub(crate) fn tell(&mut self) {
        let switches = self.engine.counts().switches;
        stats::routed(&self.by_way, switches - self.switches);
        (self.by_way, self.switches, self.untold) = ([0; Way::COUNT], switches, 0);
    }
}

impl Drop for Moved {
    /// When this returns the kernel has nothing of the engine any more. If a device has not answered for half
    /// a minute the program ends: its memory would be written when it has long been used for something else.
    fn drop(&mut self) {
        self.tell();
        // SAFETY: taken here alone, and not used afterwards.
        let engine = unsafe { ManuallyDrop::take(&mut self.engine) };
        close(engine);
        let left = missing(&self.pool);
        // A child in the memory of its parent (vfork(2)) leaves the ring, which takes nothing from it.
        if left > 0 && is_own() {
            sys::end_program(&format!(
                "an engine has failed, and {left} of its I/Os have not ended: the program is ended, because \
                 they may still use its memory; IOPJ_PRELOAD=off switches the library off"
            ));
        }
        ENGINES.with(|engines| *engines = engines.saturating_sub(1));
    }
}

/// Out of line, as opening is.
#[inline(never)]
fn close(engine: Box<Auto>) {
    let _ = engine.close(Instant::now() + END_LIMIT);
}

/// Buffers that have not come back.
fn missing(pool: &Pool) -> usize {
    let back: Vec<Buffer> = std::iter::from_fn(|| pool.acquire()).collect();
    pool.count() as usize - back.len()
}

fn outcome(completion: &Completion) -> isize {
    match completion.result {
        Ok(bytes) => bytes as isize,
        Err(IoError::Os(errno)) => -(errno as isize),
        Err(IoError::Nvme(_)) => -(libc::EIO as isize),
    }
}

/// True for what a ring says and the system call would not: the call is to be made.
pub(crate) fn is_to_be_done_again(outcome: isize) -> bool {
    let errors = [libc::EAGAIN, libc::EINTR, libc::ECANCELED, libc::EOPNOTSUPP];
    errors.iter().any(|errno| outcome == -(*errno as isize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_that_an_engine_keeps_are_missing() {
        let pool = Pool::lent(3);
        let mut byte = 0_u8;
        // SAFETY: no engine gets it.
        let kept = unsafe { pool.lend(NonNull::from(&mut byte), 1) }.unwrap();
        assert_eq!((missing(&pool), missing(&pool)), (1, 1));
        drop(kept);
        assert_eq!(missing(&pool), 0);
    }
}
