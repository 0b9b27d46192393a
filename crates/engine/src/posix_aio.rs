//! `posix-aio`: glibc's `aio_read` and `aio_write`, which do synchronous I/O on glibc's own threads.
//!
//! The engine waits for completions by `aio_suspend`; fio polls `aio_error` instead. glibc serialises the
//! requests of one descriptor and runs at most 20 threads (sysdeps/pthread/aio_misc.c).

use crate::control_blocks::ControlBlocks;
use crate::drain::{Drained, Leaky, drain};
use crate::engine::{Completion, Engine, EngineError, EngineFacts, IoError, Op, Request};
use crate::pool::{Pool, Slot};
use crate::system::last_errno;
use crate::target::Descriptor;
use std::os::fd::AsRawFd;
use std::rc::Rc;

/// What must outlive every request that glibc's threads hold.
struct Held {
    pool: Rc<Pool>,
    /// One descriptor, or one per slot.
    fds: Vec<Descriptor>,
    /// One control block per slot of the pool; written only while the slot is not in flight.
    blocks: ControlBlocks<libc::aiocb>,
}

pub(crate) struct PosixAio {
    held: Leaky<Held>,
    tags: Box<[u64]>,
    iodepth: usize,
    queued: Vec<(Op, Slot)>,
    active: Vec<Slot>,
    refused: Vec<Completion>,
    list: Vec<*const libc::aiocb>,
    submit_calls: u64,
}

impl PosixAio {
    /// `fds`: one descriptor, or one for each slot of the pool.
    pub(crate) fn open(fds: Vec<Descriptor>, pool: &Rc<Pool>, iodepth: u32) -> Self {
        let slots = pool.slots() as usize;
        // SAFETY: `aiocb` is integers and pointers, for which zero is a valid value.
        let blocks = ControlBlocks::new(unsafe { std::mem::zeroed::<libc::aiocb>() }, pool.slots());
        let depth = iodepth as usize;
        PosixAio {
            held: Leaky::new(Held { pool: Rc::clone(pool), fds, blocks }),
            tags: vec![0; slots].into(),
            iodepth: depth,
            queued: Vec::with_capacity(depth),
            active: Vec::with_capacity(depth),
            refused: Vec::with_capacity(depth),
            list: Vec::with_capacity(depth),
            submit_calls: 0,
        }
    }

    /// Appends what is complete, within `done`'s spare capacity.
    fn reap(&mut self, done: &mut Vec<Completion>) {
        while done.len() < done.capacity()
            && let Some(completion) = self.refused.pop()
        {
            self.held.pool.finish(completion.slot);
            done.push(completion);
        }
        let mut at = 0;
        while at < self.active.len() && done.len() < done.capacity() {
            let slot = self.active[at];
            let block = self.held.blocks.at(slot);
            // SAFETY: `block` was given to aio_read or aio_write and has not been returned yet.
            let errno = unsafe { libc::aio_error(block) };
            if errno == libc::EINPROGRESS {
                at += 1;
                continue;
            }
            // SAFETY: as above; the request is complete, and this is the one call that returns it.
            let moved = unsafe { libc::aio_return(block) };
            let result = if errno != 0 { Err(IoError::Os(errno)) } else { Ok(moved as u32) };
            self.active.swap_remove(at);
            self.held.pool.finish(slot);
            done.push(Completion { tag: self.tags[slot.0 as usize], slot, result });
        }
    }

    /// Sleeps until a request is complete, a signal comes, or `timeout` is over.
    fn suspend(&mut self, timeout: *const libc::timespec) -> Result<(), EngineError> {
        self.list.clear();
        for at in 0..self.active.len() {
            let block = self.held.blocks.at(self.active[at]);
            self.list.push(block);
        }
        // SAFETY: the list holds live control blocks, and `timeout` is null or points to a timespec.
        if unsafe { libc::aio_suspend(self.list.as_ptr(), self.list.len() as libc::c_int, timeout) } < 0 {
            let errno = last_errno();
            if errno != libc::EINTR && errno != libc::EAGAIN {
                return Err(EngineError::call("aio_suspend", errno, String::new()));
            }
        }
        Ok(())
    }
}

impl Engine for PosixAio {
    fn push(&mut self, requests: &[Request]) -> Result<usize, EngineError> {
        let taken = (self.iodepth - self.in_flight()).min(requests.len());
        for request in &requests[..taken] {
            let slot = request.slot;
            let address = self.held.pool.start(slot, request.len)?;
            let fds = &self.held.fds;
            // SAFETY: the slot was free until now, so glibc does not hold its block.
            let block = unsafe { &mut *self.held.blocks.at(slot) };
            block.aio_fildes = fds[slot.0 as usize % fds.len()].as_raw_fd();
            block.aio_buf = address.as_ptr().cast();
            block.aio_nbytes = request.len as usize;
            block.aio_offset = request.offset as libc::off_t;
            block.aio_sigevent.sigev_notify = libc::SIGEV_NONE;
            self.tags[slot.0 as usize] = request.tag;
            self.queued.push((request.op, slot));
        }
        Ok(taken)
    }

    fn submit(&mut self) -> Result<(), EngineError> {
        for at in 0..self.queued.len() {
            let (op, slot) = self.queued[at];
            let block = self.held.blocks.at(slot);
            self.submit_calls += 1;
            // SAFETY: the block and the slot that it names live in `held` until glibc has returned the
            // request, or forever; nothing refers to either until then.
            let refused = unsafe {
                match op {
                    Op::Read => libc::aio_read(block),
                    Op::Write => libc::aio_write(block),
                }
            } < 0;
            if refused {
                let result = Err(IoError::Os(last_errno()));
                self.refused.push(Completion { tag: self.tags[slot.0 as usize], slot, result });
            } else {
                self.active.push(slot);
            }
        }
        self.queued.clear();
        Ok(())
    }

    fn wait(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        self.submit()?;
        let already = done.len();
        loop {
            self.reap(done);
            let room = done.capacity() - done.len();
            if done.len() - already >= min || room == 0 || self.active.is_empty() {
                return Ok(());
            }
            self.suspend(std::ptr::null())?;
        }
    }

    fn in_flight(&self) -> usize {
        self.queued.len() + self.active.len() + self.refused.len()
    }

    fn facts(&self) -> EngineFacts {
        // glibc's threads make calls that iopj cannot count.
        EngineFacts { system_calls: None, submit_calls: self.submit_calls, ..EngineFacts::default() }
    }
}

impl Drop for PosixAio {
    fn drop(&mut self) {
        if self.held.is_parents() {
            return;
        }
        for (_, slot) in self.queued.drain(..) {
            self.held.pool.finish(slot);
        }
        for fd in &self.held.fds {
            // SAFETY: cancels requests of our own descriptor; a request that is not cancelled stays
            // in flight and is awaited below.
            unsafe { libc::aio_cancel(fd.as_raw_fd(), std::ptr::null_mut()) };
        }
        let mut done = Vec::with_capacity(self.iodepth.max(1));
        let drained = drain(|left| {
            done.clear();
            self.reap(&mut done);
            if self.active.is_empty() && self.refused.is_empty() {
                return Drained::Empty;
            }
            let timeout = libc::timespec {
                tv_sec: left.as_secs() as libc::time_t,
                tv_nsec: left.subsec_nanos().into(),
            };
            if self.suspend(&raw const timeout).is_err() { Drained::Stuck } else { Drained::Pending }
        });
        if drained {
            self.held.release();
        }
    }
}
