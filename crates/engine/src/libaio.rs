//! `libaio`: Linux native asynchronous I/O by raw `io_setup`, `io_submit` and `io_getevents`.

use crate::control_blocks::ControlBlocks;
use crate::drain::{Drained, Leaky, drain};
use crate::engine::{Completion, Engine, EngineError, EngineFacts, IoError, Op, Request};
use crate::pool::{Pool, Slot};
use crate::remedy;
use crate::system::last_errno;
use crate::target::Descriptor;
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::time::Duration;

/// Opcodes of include/uapi/linux/aio_abi.h.
const IOCB_CMD_PREAD: u16 = 0;
const IOCB_CMD_PWRITE: u16 = 1;

/// `io_event` of include/uapi/linux/aio_abi.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    data: u64,
    obj: u64,
    res: i64,
    res2: i64,
}

/// What must outlive every request that the kernel holds.
struct Held {
    pool: Rc<Pool>,
    fd: Descriptor,
    /// One control block per slot of the pool; its `aio_data` is the slot's number.
    blocks: ControlBlocks<libc::iocb>,
}

pub(crate) struct Libaio {
    held: Leaky<Held>,
    context: libc::c_ulong,
    tags: Box<[u64]>,
    iodepth: usize,
    /// Control blocks that were pushed and not submitted, in order.
    queued: Vec<*mut libc::iocb>,
    /// Requests that `io_submit` itself refused.
    refused: Vec<Completion>,
    events: Box<[Event]>,
    submitted: usize,
    system_calls: u64,
    submit_calls: u64,
}

impl Libaio {
    pub(crate) fn open(fd: Descriptor, pool: &Rc<Pool>, iodepth: u32) -> Result<Self, EngineError> {
        let mut context: libc::c_ulong = 0;
        // SAFETY: `context` is a valid place for the new context's id and is zero, as the call demands.
        if unsafe { libc::syscall(libc::SYS_io_setup, libc::c_ulong::from(iodepth), &raw mut context) } < 0 {
            let errno = last_errno();
            return Err(EngineError::call("io_setup", errno, remedy::io_setup(errno, iodepth)));
        }
        let slots = pool.slots() as usize;
        // SAFETY: `iocb` is plain integers, for which zero is a valid value.
        let blocks = ControlBlocks::new(unsafe { std::mem::zeroed::<libc::iocb>() }, pool.slots());
        let depth = iodepth as usize;
        Ok(Libaio {
            held: Leaky::new(Held { pool: Rc::clone(pool), fd, blocks }),
            context,
            tags: vec![0; slots].into(),
            iodepth: depth,
            queued: Vec::with_capacity(depth),
            refused: Vec::with_capacity(depth),
            events: vec![Event::default(); depth].into(),
            submitted: 0,
            system_calls: 0,
            submit_calls: 0,
        })
    }

    /// One `io_getevents`; appends what it finds.
    fn reap(
        &mut self,
        min: usize,
        timeout: Option<Duration>,
        done: &mut Vec<Completion>,
    ) -> Result<(), EngineError> {
        let room = (done.capacity() - done.len()).min(self.events.len());
        let timeout = timeout.map(|time| libc::timespec {
            tv_sec: time.as_secs() as libc::time_t,
            tv_nsec: time.subsec_nanos().into(),
        });
        let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        self.system_calls += 1;
        // SAFETY: `events` has room for `room` events, and `timeout` is null or points to a live timespec.
        let found = unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.context,
                min.min(room),
                room,
                self.events.as_mut_ptr(),
                timeout,
            )
        };
        if found < 0 {
            let errno = last_errno();
            return if errno == libc::EINTR {
                Ok(())
            } else {
                Err(EngineError::call("io_getevents", errno, String::new()))
            };
        }
        for event in &self.events[..found as usize] {
            let slot = Slot(event.data as u32);
            let result =
                if event.res < 0 { Err(IoError::Os(-event.res as i32)) } else { Ok(event.res as u32) };
            self.held.pool.finish(slot);
            done.push(Completion { tag: self.tags[slot.0 as usize], slot, result });
        }
        self.submitted -= found as usize;
        Ok(())
    }
}

impl Engine for Libaio {
    fn push(&mut self, requests: &[Request]) -> Result<usize, EngineError> {
        let room = self.iodepth - self.in_flight();
        for request in &requests[..room.min(requests.len())] {
            let address = self.held.pool.start(request.slot, request.len)?;
            let pointer = self.held.blocks.at(request.slot);
            // SAFETY: the slot was free until now, so the kernel does not hold its block.
            let block = unsafe { &mut *pointer };
            block.aio_data = u64::from(request.slot.0);
            block.aio_lio_opcode = match request.op {
                Op::Read => IOCB_CMD_PREAD,
                Op::Write => IOCB_CMD_PWRITE,
            };
            block.aio_fildes = self.held.fd.as_raw_fd() as u32;
            block.aio_buf = address.as_ptr() as u64;
            block.aio_nbytes = u64::from(request.len);
            block.aio_offset = request.offset as i64;
            self.tags[request.slot.0 as usize] = request.tag;
            self.queued.push(pointer);
        }
        Ok(room.min(requests.len()))
    }

    fn submit(&mut self) -> Result<(), EngineError> {
        let mut start = 0;
        while start < self.queued.len() {
            let rest = &mut self.queued[start..];
            self.system_calls += 1;
            self.submit_calls += 1;
            // SAFETY: each pointer names a control block in `held.blocks`, which lives until the kernel has
            // returned every request, or forever; so does the slot that it names.
            let taken =
                unsafe { libc::syscall(libc::SYS_io_submit, self.context, rest.len(), rest.as_mut_ptr()) };
            if taken >= 0 {
                start += taken as usize;
                self.submitted += taken as usize;
                continue;
            }
            match last_errno() {
                libc::EINTR => {}
                // Completions make room; if none is to come, the request itself has failed.
                libc::EAGAIN if self.submitted > 0 => break,
                errno => {
                    // SAFETY: the block is in `held.blocks`, and the kernel has not taken it.
                    let slot = Slot(unsafe { (*rest[0]).aio_data } as u32);
                    let tag = self.tags[slot.0 as usize];
                    self.refused.push(Completion { tag, slot, result: Err(IoError::Os(errno)) });
                    start += 1;
                }
            }
        }
        self.queued.drain(..start);
        Ok(())
    }

    fn wait(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        let already = done.len();
        loop {
            if !self.queued.is_empty() {
                self.submit()?;
            }
            while !self.refused.is_empty() && done.len() < done.capacity() {
                let completion = self.refused.remove(0);
                self.held.pool.finish(completion.slot);
                done.push(completion);
            }
            let found = done.len() - already;
            let room = done.capacity() - done.len();
            let wanted = min.saturating_sub(found).min(self.submitted).min(room);
            if self.submitted == 0 || room == 0 || (wanted == 0 && found > 0) {
                return Ok(());
            }
            self.reap(wanted, (wanted == 0).then_some(Duration::ZERO), done)?;
            if wanted == 0 {
                return Ok(());
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.queued.len() + self.submitted + self.refused.len()
    }

    fn facts(&self) -> EngineFacts {
        EngineFacts {
            system_calls: Some(self.system_calls),
            submit_calls: self.submit_calls,
            ..EngineFacts::default()
        }
    }
}

impl Drop for Libaio {
    fn drop(&mut self) {
        if self.held.is_parents() {
            return;
        }
        for block in self.queued.drain(..) {
            // SAFETY: the block is in `held.blocks`, and the kernel has not taken it.
            self.held.pool.finish(Slot(unsafe { (*block).aio_data } as u32));
        }
        for completion in self.refused.drain(..) {
            self.held.pool.finish(completion.slot);
        }
        // No block device can cancel (io_cancel returns EINVAL), so waiting is all that can be done.
        let mut done = Vec::with_capacity(self.events.len().max(1));
        let drained = drain(|left| {
            done.clear();
            if self.submitted > 0 && self.reap(1, Some(left), &mut done).is_err() {
                return Drained::Stuck;
            }
            if self.submitted == 0 { Drained::Empty } else { Drained::Pending }
        });
        if drained {
            // SAFETY: the context is ours and has nothing in flight. With something in flight io_destroy
            // would wait without limit, so the context is then leaked too.
            unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
            self.held.release();
        }
    }
}
