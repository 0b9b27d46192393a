//! `libaio`: Linux native asynchronous I/O by raw `io_setup`, `io_submit` and `io_getevents`.

use crate::control_blocks::ControlBlocks;
use crate::drain::{DRAIN_LIMIT, Drained, Leaky, drain};
use crate::engine::{Counters, Engine, Leaked, Setup, sealed};
use crate::error::{EngineError, Refused};
use crate::gate::{Gate, check_depth};
use crate::pool::Pool;
use crate::posix_aio::timespec;
use crate::rare::{RARE, RareFlights, vectors};
use crate::remedy;
use crate::request::{Buffers, Completion, IoError, Op, Operation, Request};
use crate::system::last_errno;
use crate::target::{Descriptor, Target};
use rustix::event::{EventfdFlags, eventfd};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Opcodes and a flag of include/uapi/linux/aio_abi.h.
const IOCB_CMD_PREAD: u16 = 0;
const IOCB_CMD_PWRITE: u16 = 1;
const IOCB_CMD_FSYNC: u16 = 2;
const IOCB_CMD_FDSYNC: u16 = 3;
const IOCB_CMD_PREADV: u16 = 7;
const IOCB_CMD_PWRITEV: u16 = 8;
const IOCB_FLAG_RESFD: u32 = 1;

/// `io_event` of include/uapi/linux/aio_abi.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    data: u64,
    obj: u64,
    res: i64,
    res2: i64,
}

/// What a rare request needs until it ends: its control block, and the vectors that this names.
struct Extra {
    block: ControlBlocks<libc::iocb>,
    _vectors: ControlBlocks<libc::iovec>,
}

/// What must outlive every request that the kernel holds.
struct Held {
    fd: Descriptor,
    /// Signalled at each completion, where the engine has a descriptor.
    event: Option<OwnedFd>,
    /// One control block per buffer of the pool; its `aio_data` is the buffer's number.
    blocks: ControlBlocks<libc::iocb>,
    rare: RareFlights<Extra>,
}

/// The engine of Linux native AIO.
pub struct Libaio {
    held: Leaky<Held>,
    gate: Gate,
    context: libc::c_ulong,
    tags: Box<[u64]>,
    /// Control blocks that were pushed and not submitted, in order.
    queued: Vec<*mut libc::iocb>,
    /// Identifiers and errnos of requests that `io_submit` itself refused, the last one first.
    refused: Vec<(u64, i32)>,
    events: Box<[Event]>,
    /// Those of them that the kernel has filled and that were not handed out: more than none only if a sink
    /// panicked.
    filled: Range<usize>,
    submitted: usize,
    setup: Setup,
    system_calls: u64,
    submit_calls: u64,
    is_closed: bool,
}

/// How a [`Libaio`] is opened.
#[derive(Clone, Copy, Debug)]
pub struct LibaioBuilder {
    iodepth: u32,
    has_event: bool,
}

impl LibaioBuilder {
    /// The most requests in flight; 1 unless it is set.
    #[must_use]
    pub fn iodepth(self, iodepth: u32) -> LibaioBuilder {
        LibaioBuilder { iodepth, ..self }
    }

    /// Gives the engine a descriptor to wait on (`IOCB_FLAG_RESFD`). Each reap then takes a system call more.
    #[must_use]
    pub fn eventfd(self) -> LibaioBuilder {
        LibaioBuilder { has_event: true, ..self }
    }

    /// Opens the engine.
    ///
    /// # Errors
    /// The depth is out of range, or the kernel has no room for as many requests (`fs.aio-max-nr`); the
    /// target has no descriptor for the kernel's driver, or descriptors ran out.
    pub fn open(self, target: &Target, pool: &Pool) -> Result<Libaio, EngineError> {
        check_depth(self.iodepth)?;
        let event = self.has_event.then(|| eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK));
        let event = event.transpose().map_err(|errno| EngineError::failed("eventfd", errno))?;
        Libaio::open(target, pool, self.iodepth, event)
    }
}

impl Libaio {
    /// An engine without a descriptor to wait on, unless it is told otherwise.
    pub fn builder() -> LibaioBuilder {
        LibaioBuilder { iodepth: 1, has_event: false }
    }

    pub(crate) fn open(
        target: &Target,
        pool: &Pool,
        iodepth: u32,
        event: Option<OwnedFd>,
    ) -> Result<Self, EngineError> {
        let fd = target.reopen().map_err(|error| EngineError::unsupported(error.to_string()))?;
        let mut context: libc::c_ulong = 0;
        // SAFETY: `context` is a valid place for the new context's id and is zero, as the call demands.
        if unsafe { libc::syscall(libc::SYS_io_setup, libc::c_ulong::from(iodepth), &raw mut context) } < 0 {
            let errno = last_errno();
            return Err(EngineError::call("io_setup", errno, remedy::io_setup(errno, iodepth)));
        }
        let depth = iodepth as usize;
        let blocks = ControlBlocks::new(blank(&fd, event.as_ref()), pool.count());
        Ok(Libaio {
            held: Leaky::new(Held { fd, event, blocks, rare: RareFlights::new() }),
            gate: Gate::new(pool, target, iodepth, "libaio"),
            context,
            tags: vec![0; pool.count() as usize].into(),
            queued: Vec::with_capacity(depth),
            refused: Vec::with_capacity(depth),
            events: vec![Event::default(); depth].into(),
            filled: 0..0,
            submitted: 0,
            setup: Setup::default(),
            system_calls: 0,
            submit_calls: 0,
            is_closed: false,
        })
    }

    #[cold]
    fn push_rare(&mut self, request: Request) -> Result<(), Refused> {
        let op = request.operation.op();
        if !self.supports(op) {
            return Err(Refused::new(request, self.gate.lacks(op, ": Linux AIO has no such command")));
        }
        if let Err(error) = self.gate.check(&request, self.in_flight()) {
            return Err(Refused::new(request, error));
        }
        let mut block = blank(&self.held.fd, self.held.event.as_ref());
        let vectors = ControlBlocks::from(vectors(&request.operation));
        if let Operation::ReadVectored { offset, .. } | Operation::WriteVectored { offset, .. } =
            &request.operation
        {
            block.aio_offset = *offset as i64;
            let (first, count) = vectors.all();
            (block.aio_buf, block.aio_nbytes) = (first as u64, count as u64);
        }
        block.aio_lio_opcode = match op {
            Op::ReadVectored => IOCB_CMD_PREADV,
            Op::WriteVectored => IOCB_CMD_PWRITEV,
            Op::Flush => IOCB_CMD_FDSYNC,
            _ => IOCB_CMD_FSYNC,
        };
        let extra = Extra { block: ControlBlocks::new(block, 1), _vectors: vectors };
        let (id, rare) = self.held.rare.start(request, extra);
        let pointer = rare.extra.block.at(0);
        // SAFETY: the block is new, so the kernel does not hold it.
        unsafe { (*pointer).aio_data = id };
        self.queued.push(pointer);
        Ok(())
    }

    fn complete(&mut self, id: u64, result: Result<u32, IoError>) -> Completion {
        if id >= RARE {
            let rare = self.held.rare.end(id).expect("the kernel returns what it was given, once");
            return rare.complete(result);
        }
        // SAFETY: the buffer took off with its request, which has ended: the kernel returns each once.
        let buffer = unsafe { self.gate.pool.land(id as u32) };
        Completion { tag: self.tags[id as usize], result, buffers: Buffers::One(buffer) }
    }

    /// Hands out what needs no system call: what `io_submit` refused, and the events that are here; returns
    /// how many.
    #[inline(always)]
    fn take_known<S: FnMut(Completion)>(&mut self, sink: &mut S) -> usize {
        let count = self.refused.len() + self.filled.len();
        while let Some((id, errno)) = self.refused.pop() {
            let completion = self.complete(id, Err(IoError::Os(errno)));
            sink(completion);
        }
        while let Some(at) = self.filled.next() {
            let Event { data, res, .. } = self.events[at];
            self.submitted -= 1;
            let result = if res < 0 { Err(IoError::Os(-res as i32)) } else { Ok(res as u32) };
            let completion = self.complete(data, result);
            sink(completion);
        }
        count
    }

    /// One `io_getevents`; hands out what it finds, and returns how many that are.
    fn take<S: FnMut(Completion)>(
        &mut self,
        min: usize,
        timeout: Option<Duration>,
        sink: &mut S,
    ) -> Result<usize, EngineError> {
        let timeout = timeout.map(timespec);
        let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        self.system_calls += 1;
        // SAFETY: `events` has room for as many events as it is long, and `timeout` is null or points to a
        // live timespec.
        let found = unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.context,
                min.min(self.events.len()),
                self.events.len(),
                self.events.as_mut_ptr(),
                timeout,
            )
        };
        if found < 0 {
            let errno = last_errno();
            return if errno == libc::EINTR {
                Ok(0)
            } else {
                Err(EngineError::call("io_getevents", errno, String::new()))
            };
        }
        self.filled = 0..found as usize;
        Ok(self.take_known(sink))
    }

    /// Ends the engine; what has not ended by `until` is leaked. Returns how many that are.
    fn end(&mut self, until: Instant) -> usize {
        if std::mem::replace(&mut self.is_closed, true) || self.held.is_parents() {
            return 0;
        }
        for block in std::mem::take(&mut self.queued) {
            // SAFETY: the block is in `held`, and the kernel has not taken it.
            let id = unsafe { (*block).aio_data };
            drop(self.complete(id, Ok(0)));
        }
        self.take_known(&mut drop);
        // No block device can cancel (io_cancel returns EINVAL), so waiting is all that can be done.
        let drained = drain(until, |left| {
            if self.submitted > 0 && self.take(1, Some(left), &mut drop).is_err() {
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
        self.submitted
    }
}

fn blank(fd: &Descriptor, event: Option<&OwnedFd>) -> libc::iocb {
    // SAFETY: `iocb` is plain integers, for which zero is a valid value.
    let mut block = unsafe { std::mem::zeroed::<libc::iocb>() };
    block.aio_fildes = fd.as_raw_fd() as u32;
    if let Some(event) = event {
        (block.aio_flags, block.aio_resfd) = (IOCB_FLAG_RESFD, event.as_raw_fd() as u32);
    }
    block
}

impl sealed::Sealed for Libaio {}

impl Engine for Libaio {
    #[inline(always)]
    fn push(&mut self, request: Request) -> Result<(), Refused> {
        let op = request.operation.op();
        let Some(transfer) = request.operation.transfer() else {
            return self.push_rare(request);
        };
        if self.in_flight() >= self.gate.iodepth() || !self.gate.admits(transfer) {
            return self.push_rare(request);
        }
        let index = transfer.buffer.index();
        let pointer = self.held.blocks.at(index);
        // SAFETY: the buffer is not in flight, so the kernel does not hold its block.
        let block = unsafe { &mut *pointer };
        block.aio_data = u64::from(index);
        block.aio_lio_opcode = if op == Op::Read { IOCB_CMD_PREAD } else { IOCB_CMD_PWRITE };
        block.aio_rw_flags = op.rw_flags() as i32;
        block.aio_buf = self.gate.pool.address(index).as_ptr() as u64;
        block.aio_nbytes = u64::from(transfer.len);
        block.aio_offset = transfer.offset as i64;
        self.tags[index as usize] = request.tag;
        self.queued.push(pointer);
        if let Some(transfer) = request.operation.into_transfer() {
            transfer.buffer.take_off();
        }
        Ok(())
    }

    fn submit(&mut self) -> Result<(), EngineError> {
        let mut start = 0;
        while start < self.queued.len() {
            let rest = &mut self.queued[start..];
            self.system_calls += 1;
            self.submit_calls += 1;
            // SAFETY: each pointer names a control block in `held`, which lives until the kernel has returned
            // every request, or forever; so do the buffers that it names.
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
                    // SAFETY: the block is in `held`, and the kernel has not taken it.
                    self.refused.insert(0, (unsafe { (*rest[0]).aio_data }, errno));
                    start += 1;
                    if let Some(event) = &self.held.event {
                        // The kernel signals only what it took.
                        let _ = rustix::io::write(event, &1u64.to_ne_bytes());
                    }
                }
            }
        }
        self.queued.drain(..start);
        Ok(())
    }

    fn reap<S: FnMut(Completion)>(&mut self, mut sink: S) -> Result<usize, EngineError> {
        let mut found = self.take_known(&mut sink);
        if let Some(event) = &self.held.event {
            // Before the events are taken: what completes later signals again.
            self.system_calls += 1;
            let _ = rustix::io::read(event, &mut [0; 8]);
        }
        if self.submitted > 0 {
            found += self.take(0, Some(Duration::ZERO), &mut sink)?;
        }
        Ok(found)
    }

    #[inline(always)]
    fn wait<S: FnMut(Completion)>(
        &mut self,
        min: usize,
        until: Option<Instant>,
        mut sink: S,
    ) -> Result<usize, EngineError> {
        let mut found = 0;
        loop {
            if !self.queued.is_empty() {
                self.submit()?;
            }
            found += self.take_known(&mut sink);
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let is_over = left.is_some_and(|left| left.is_zero());
            let wanted = if is_over { 0 } else { min.saturating_sub(found).min(self.submitted) };
            if self.submitted == 0 || (wanted == 0 && found > 0) {
                return Ok(found);
            }
            found += self.take(wanted, if wanted == 0 { Some(Duration::ZERO) } else { left }, &mut sink)?;
            if wanted == 0 {
                return Ok(found);
            }
        }
    }

    #[inline]
    fn in_flight(&self) -> usize {
        self.queued.len() + self.submitted + self.refused.len()
    }

    fn iodepth(&self) -> usize {
        self.gate.iodepth()
    }

    fn supports(&self, op: Op) -> bool {
        !matches!(op, Op::Discard | Op::WriteZeroes)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.held.event.as_ref().map(AsFd::as_fd)
    }

    fn counters(&self) -> Counters {
        Counters {
            system_calls: Some(self.system_calls),
            submit_calls: self.submit_calls,
            ..Counters::default()
        }
    }

    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn close(mut self, until: Instant) -> Result<(), Leaked> {
        Leaked::unless_none(self.end(until))
    }
}

impl Drop for Libaio {
    fn drop(&mut self) {
        self.end(Instant::now() + DRAIN_LIMIT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};

    /// `io_submit` refuses a write to what was opened for reading, and so signals nothing.
    #[test]
    fn what_io_submit_refuses_makes_the_descriptor_readable() {
        let folder = tempfile::tempdir_in(std::env::current_exe().unwrap().parent().unwrap()).unwrap();
        let path = folder.path().join("data");
        crate::target::make_file(&path, 4096, &mut |_| true).unwrap();
        let target = Target::open(&path).unwrap();
        let pool = Pool::new(1, 4096).unwrap();
        let mut engine = Libaio::builder().eventfd().open(&target, &pool).unwrap();
        let is_readable = |engine: &Libaio| {
            let descriptor = engine.descriptor().unwrap();
            let mut fds = [PollFd::new(&descriptor, PollFlags::IN)];
            poll(&mut fds, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
        };
        engine.push(Request::write(pool.acquire().unwrap(), 4096, target.data_offset())).unwrap();
        assert!(!is_readable(&engine));
        engine.submit().unwrap();
        assert!(is_readable(&engine));
        let mut results = Vec::new();
        engine.reap(|completion| results.push(completion.result)).unwrap();
        assert_eq!(results, [Err(IoError::Os(libc::EBADF))]);
        assert!(!is_readable(&engine));
    }
}
