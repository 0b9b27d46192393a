//! `posix-sio`: one `preadv2` or `pwritev2` per I/O, with `RWF_HIPRI` where it polls.
//!
//! The device's `io_poll_delay`, which the caller has set, chooses whether a poll sleeps first. Since Linux
//! 5.19 the flag is accepted and ignored.

use crate::engine::{Completion, Engine, EngineError, EngineFacts, IoError, Op, Request};
use crate::pool::{Pool, Slot};
use crate::system::last_errno;
use crate::target::Descriptor;
use iopj_core::SioCompletion;
use std::os::fd::AsRawFd;
use std::rc::Rc;

/// The synchronous engine: at most one request, done inside `submit`.
pub(crate) struct PosixSio {
    fd: Descriptor,
    pool: Rc<Pool>,
    flags: libc::c_int,
    /// The current request and the address of its slot.
    request: Request,
    address: *mut libc::c_void,
    is_queued: bool,
    done: Option<Completion>,
    system_calls: u64,
}

impl PosixSio {
    pub(crate) fn open(
        fd: Descriptor,
        pool: &Rc<Pool>,
        mode: SioCompletion,
        iodepth: u32,
    ) -> Result<Self, EngineError> {
        if iodepth > 1 {
            return Err(EngineError::unsupported(format!(
                "posix-sio is synchronous and cannot keep iodepth {iodepth}: use iodepth 1 and more numjobs"
            )));
        }
        let flags = if mode == SioCompletion::Interrupt { 0 } else { libc::RWF_HIPRI };
        Ok(PosixSio {
            fd,
            pool: Rc::clone(pool),
            flags,
            request: Request { op: Op::Read, slot: Slot(0), len: 0, offset: 0, tag: 0 },
            address: std::ptr::null_mut(),
            is_queued: false,
            done: None,
            system_calls: 0,
        })
    }
}

impl PosixSio {
    /// Does the queued I/O and returns when it has ended.
    #[inline]
    fn perform(&mut self) -> Completion {
        self.is_queued = false;
        let request = &self.request;
        let call = match request.op {
            Op::Read => libc::SYS_preadv2,
            Op::Write => libc::SYS_pwritev2,
        };
        let vector = libc::iovec { iov_base: self.address, iov_len: request.len as usize };
        self.system_calls += 1;
        // SAFETY: the vector covers a slot of the pool that is in flight, so nothing refers to it;
        // `len` was checked against the slot by `Pool::start`. The call ends before we return.
        // The offset is one word: on 64-bit kernels the high word (the fifth argument) is ignored.
        let moved = unsafe {
            libc::syscall(
                call,
                self.fd.as_raw_fd(),
                &raw const vector,
                1usize,
                request.offset,
                0usize,
                self.flags,
            )
        };
        let result = if moved < 0 { Err(IoError::Os(last_errno())) } else { Ok(moved as u32) };
        Completion { tag: request.tag, slot: request.slot, result }
    }
}

impl Engine for PosixSio {
    fn push(&mut self, requests: &[Request]) -> Result<usize, EngineError> {
        let Some(request) = requests.first() else { return Ok(0) };
        if self.in_flight() > 0 {
            return Ok(0);
        }
        let address = self.pool.start(request.slot, request.len)?;
        (self.request, self.address, self.is_queued) = (*request, address.as_ptr().cast(), true);
        Ok(1)
    }

    fn submit(&mut self) -> Result<(), EngineError> {
        if self.is_queued {
            self.done = Some(self.perform());
        }
        Ok(())
    }

    fn wait(&mut self, _min: usize, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        let completion = if self.is_queued { Some(self.perform()) } else { self.done.take() };
        if let Some(completion) = completion {
            if done.len() < done.capacity() {
                self.pool.finish(completion.slot);
                done.push(completion);
            } else {
                self.done = Some(completion);
            }
        }
        Ok(())
    }

    fn in_flight(&self) -> usize {
        usize::from(self.is_queued) + usize::from(self.done.is_some())
    }

    fn facts(&self) -> EngineFacts {
        EngineFacts {
            system_calls: Some(self.system_calls),
            submit_calls: self.system_calls,
            ..EngineFacts::default()
        }
    }
}

impl Drop for PosixSio {
    fn drop(&mut self) {
        let queued = self.is_queued.then_some(self.request.slot);
        for slot in queued.into_iter().chain(self.done.take().map(|completion| completion.slot)) {
            self.pool.finish(slot);
        }
    }
}
