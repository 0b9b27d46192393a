//! `posix-sio`: one `preadv2` or `pwritev2` per I/O, with `RWF_HIPRI` where it polls, and `RWF_DSYNC` or
//! `RWF_SYNC` for a write that is to be durable; the rest by the system calls that are there for it.
//!
//! The device's `io_poll_delay`, which the caller has set, chooses whether a poll sleeps first. Since Linux
//! 5.19 the flag is accepted and ignored.

use crate::engine::{Counters, Engine, Leaked, Setup, sealed};
use crate::error::{EngineError, Refused};
use crate::gate::Gate;
use crate::pool::Pool;
use crate::rare::vectors;
use crate::request::{Buffers, Completion, IoError, Op, Operation, Request, Transfer};
use crate::ring::fallocate_mode;
use crate::syscall::syscall6;
use crate::target::{Descriptor, Target, TargetKind};
use iopj_path::SioCompletion;
use rustix::io::Errno;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Instant;

/// `BLKDISCARD` of include/uapi/linux/fs.h.
const BLKDISCARD: libc::Ioctl = 0x12 << 8 | 119;

/// The synchronous engine: at most one request, done inside `submit` or `wait`.
pub struct PosixSio {
    fd: Descriptor,
    gate: Gate,
    flags: i32,
    is_device: bool,
    state: State,
    /// The transfer that is queued: tag, offset, length, buffer, and what it does.
    tag: u64,
    offset: u64,
    len: u32,
    index: u32,
    op: Op,
    /// Another request that is queued.
    rare: Option<Request>,
    done: Option<Box<Completion>>,
    setup: Setup,
    system_calls: u64,
}

/// Where the one request is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    /// A transfer is queued.
    Transfer,
    /// Another request is queued.
    Rare,
    /// It is done, and its completion was not handed out.
    Done,
}

/// How a [`PosixSio`] is opened.
#[derive(Clone, Copy, Debug)]
pub struct PosixSioBuilder {
    completion: SioCompletion,
}

impl PosixSioBuilder {
    /// Asks for polled completion (`RWF_HIPRI`). Whether the kernel sleeps first is the device's setting
    /// `queue/io_poll_delay`, which the engine leaves alone.
    #[must_use]
    pub fn poll(self) -> PosixSioBuilder {
        PosixSioBuilder { completion: SioCompletion::Poll }
    }

    /// Opens the engine.
    ///
    /// # Errors
    /// The target has no descriptor for the kernel's driver, or descriptors ran out.
    pub fn open(self, target: &Target, pool: &Pool) -> Result<PosixSio, EngineError> {
        PosixSio::open(target, pool, self.completion, 1)
    }
}

impl PosixSio {
    /// An engine with interrupt completion, unless it is told otherwise.
    pub fn builder() -> PosixSioBuilder {
        PosixSioBuilder { completion: SioCompletion::Interrupt }
    }

    pub(crate) fn open(
        target: &Target,
        pool: &Pool,
        mode: SioCompletion,
        iodepth: u32,
    ) -> Result<Self, EngineError> {
        if iodepth > 1 {
            return Err(EngineError::unsupported(format!(
                "posix-sio is synchronous and cannot keep iodepth {iodepth}: use iodepth 1 and more numjobs"
            )));
        }
        let fd = target.reopen().map_err(|error| EngineError::unsupported(error.to_string()))?;
        let polls = mode != SioCompletion::Interrupt;
        Ok(PosixSio {
            fd,
            gate: Gate::new(pool, target, 1, "posix-sio"),
            flags: if polls { libc::RWF_HIPRI } else { 0 },
            is_device: target.kind() != TargetKind::File,
            state: State::Idle,
            tag: 0,
            offset: 0,
            len: 0,
            index: 0,
            op: Op::Read,
            rare: None,
            done: None,
            setup: Setup::default(),
            system_calls: 0,
        })
    }

    /// Takes back a read or a write of one buffer that was pushed and not submitted.
    pub fn take_back(&mut self) -> Option<Request> {
        if self.state != State::Transfer {
            return None;
        }
        self.state = State::Idle;
        // SAFETY: the buffer took off in `push`, and the kernel never got it: it lands here alone.
        let buffer = unsafe { self.gate.pool.land(self.index) };
        let transfer = Transfer { buffer, len: self.len, offset: self.offset };
        Some(Request::from(transfer.by(self.op)).tagged(self.tag))
    }

    /// Does the transfer that is queued, if one is, always in its caller's code: for an engine that owns this
    /// one, where a sink between them would be a call.
    #[doc(hidden)]
    #[inline(always)]
    pub fn perform_queued(&mut self) -> Option<Completion> {
        if self.state == State::Transfer { Some(self.perform()) } else { None }
    }

    /// Does the queued transfer and returns when it has ended.
    #[inline(always)]
    fn perform(&mut self) -> Completion {
        self.system_calls += 1;
        self.state = State::Idle;
        let base = self.gate.pool.address(self.index);
        let vector = libc::iovec { iov_base: base.as_ptr().cast(), iov_len: self.len as usize };
        let call = if self.op == Op::Read { libc::SYS_preadv2 } else { libc::SYS_pwritev2 };
        let flags = self.flags as u32 | self.op.rw_flags();
        let fd = self.fd.as_raw_fd() as usize;
        // The offset is one word: on 64-bit kernels the high word (the fifth argument) is ignored.
        let arguments = [fd, (&raw const vector).addr(), 1, self.offset as usize, 0, flags as usize];
        // SAFETY: the vector covers a buffer that is in flight, so nothing refers to it, and no more of it
        // than it has, as `push` has seen. The call ends before we return.
        let moved = unsafe { syscall6(call, arguments) };
        let result = if moved >= 0 { Ok(moved as u32) } else { failed(moved) };
        // SAFETY: the buffer of this number took off in `push`, and lands here alone.
        let buffer = unsafe { self.gate.pool.land(self.index) };
        Completion { tag: self.tag, result, buffers: Buffers::One(buffer) }
    }

    /// Does what is queued, if it is no transfer, or takes what is done. Boxed, so that the common completion
    /// is made in registers.
    #[cold]
    #[inline(never)]
    fn perform_other(&mut self) -> Option<Box<Completion>> {
        self.state = State::Idle;
        let Some(request) = self.rare.take() else { return self.done.take() };
        self.system_calls += 1;
        let result = match self.perform_rare(&request.operation) {
            Ok(bytes) => Ok(bytes as u32),
            Err(errno) => Err(IoError::Os(errno.raw_os_error())),
        };
        let buffers = request.operation.into_buffers();
        Some(Box::new(Completion { tag: request.tag, result, buffers }))
    }

    fn perform_rare(&self, operation: &Operation) -> Result<usize, Errno> {
        let fd = self.fd.as_raw_fd();
        match operation {
            Operation::ReadVectored { offset, .. } | Operation::WriteVectored { offset, .. } => {
                let is_read = operation.op() == Op::ReadVectored;
                let call = if is_read { libc::SYS_preadv2 } else { libc::SYS_pwritev2 };
                let (vectors, flags) = (vectors(operation), self.flags);
                // SAFETY: the vectors cover buffers that the operation has, so nothing else refers to them;
                // the call ends before we return. The offset is one word: on 64-bit kernels the high word
                // (the fifth argument) is ignored.
                let moved = unsafe {
                    libc::syscall(call, fd, vectors.as_ptr(), vectors.len(), *offset, 0usize, flags)
                };
                if moved < 0 { Err(last_errno()) } else { Ok(moved as usize) }
            }
            Operation::Flush => rustix::fs::fdatasync(&self.fd).map(|()| 0),
            Operation::Discard { offset, len } if self.is_device => {
                let range = [*offset, *len];
                // SAFETY: the call reads two words, which live through it.
                let result = unsafe { libc::ioctl(fd, BLKDISCARD, range.as_ptr()) };
                if result < 0 { Err(last_errno()) } else { Ok(0) }
            }
            Operation::Discard { offset, len } | Operation::WriteZeroes { offset, len } => {
                let mode = fallocate_mode(operation.op());
                // SAFETY: the call touches no memory of ours.
                let result =
                    unsafe { libc::fallocate(fd, mode, *offset as libc::off_t, *len as libc::off_t) };
                if result < 0 { Err(last_errno()) } else { Ok(0) }
            }
            _ => rustix::fs::fsync(&self.fd).map(|()| 0),
        }
    }

    /// A request that is not an ordinary transfer, or is refused.
    #[cold]
    #[inline(never)]
    fn push_rare(&mut self, request: Request) -> Result<(), Refused> {
        if let Err(error) = self.gate.check(&request, self.in_flight()) {
            return Err(Refused::new(request, error));
        }
        (self.rare, self.state) = (Some(request), State::Rare);
        Ok(())
    }
}

#[cold]
fn failed(result: isize) -> Result<u32, IoError> {
    Err(IoError::Os(-result as i32))
}

fn last_errno() -> Errno {
    Errno::from_raw_os_error(crate::system::last_errno())
}

impl sealed::Sealed for PosixSio {}

impl Engine for PosixSio {
    #[inline]
    fn push(&mut self, request: Request) -> Result<(), Refused> {
        let op = request.operation.op();
        let Some(transfer) = request.operation.transfer() else {
            return self.push_rare(request);
        };
        if self.state != State::Idle || !self.gate.admits(transfer) {
            return self.push_rare(request);
        }
        (self.tag, self.op, self.state) = (request.tag, op, State::Transfer);
        if let Some(transfer) = request.operation.into_transfer() {
            (self.offset, self.len) = (transfer.offset, transfer.len);
            self.index = transfer.buffer.take_off();
        }
        Ok(())
    }

    fn submit(&mut self) -> Result<(), EngineError> {
        let completion = match self.state {
            State::Idle | State::Done => return Ok(()),
            State::Transfer => Some(Box::new(self.perform())),
            State::Rare => self.perform_other(),
        };
        (self.done, self.state) = (completion, State::Done);
        Ok(())
    }

    fn reap<S: FnMut(Completion)>(&mut self, mut sink: S) -> Result<usize, EngineError> {
        if self.state != State::Done {
            return Ok(0);
        }
        let completion = self.perform_other();
        Ok(completion.map(|completion| sink(*completion)).map_or(0, |()| 1))
    }

    #[inline]
    fn wait<S: FnMut(Completion)>(
        &mut self,
        _: usize,
        _: Option<Instant>,
        mut sink: S,
    ) -> Result<usize, EngineError> {
        let completion = if self.state == State::Transfer {
            self.perform()
        } else {
            let Some(completion) = self.perform_other() else { return Ok(0) };
            *completion
        };
        sink(completion);
        Ok(1)
    }

    #[inline]
    fn in_flight(&self) -> usize {
        usize::from(self.state != State::Idle)
    }

    fn iodepth(&self) -> usize {
        1
    }

    fn supports(&self, _: Op) -> bool {
        true
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn counters(&self) -> Counters {
        Counters {
            system_calls: Some(self.system_calls),
            submit_calls: self.system_calls,
            ..Counters::default()
        }
    }

    fn setup(&self) -> &Setup {
        &self.setup
    }

    /// The kernel has nothing after a call, so nothing is waited for.
    fn close(self, _: Instant) -> Result<(), Leaked> {
        Ok(())
    }
}

impl Drop for PosixSio {
    fn drop(&mut self) {
        if self.state == State::Transfer {
            // SAFETY: the buffer took off in `push`, and the kernel never got it.
            drop(unsafe { self.gate.pool.land(self.index) });
        }
    }
}
