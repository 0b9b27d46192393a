//! `posix-aio`: glibc's `aio_read` and `aio_write`, which do synchronous I/O on glibc's own threads, and
//! `aio_fsync`.
//!
//! The engine waits for completions by `aio_suspend`; fio polls `aio_error` instead. glibc serialises the
//! requests of one descriptor and runs at most 20 threads (sysdeps/pthread/aio_misc.c). No call of POSIX
//! makes one write durable, so those that are to be go to descriptors of their own, opened with `O_DSYNC` or
//! `O_SYNC`.

use crate::control_blocks::ControlBlocks;
use crate::drain::{DRAIN_LIMIT, Drained, Leaky, drain};
use crate::engine::{Counters, Engine, Leaked, Setup, sealed};
use crate::error::{EngineError, Refused};
use crate::gate::{Gate, check_depth};
use crate::pool::Pool;
use crate::rare::RareFlights;
use crate::request::{Buffers, Completion, IoError, Op, Request};
use crate::system::last_errno;
use crate::target::{Descriptor, Target};
use iopj_path::path::AioDescriptors;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

/// What must outlive every request that glibc's threads hold.
struct Held {
    /// One descriptor, or one per buffer.
    fds: Vec<Descriptor>,
    /// As many for writes that are to be durable (`O_DSYNC`, `O_SYNC`), opened for the first of them.
    durable: [Vec<Descriptor>; 2],
    /// One control block per buffer of the pool; written only while the buffer is not in flight.
    blocks: ControlBlocks<libc::aiocb>,
    /// Those of rare requests.
    rare: RareFlights<ControlBlocks<libc::aiocb>>,
}

impl Held {
    /// The descriptors of an operation.
    fn fds(&self, op: Op) -> &[Descriptor] {
        match op {
            Op::WriteDsync => &self.durable[0],
            Op::WriteSync => &self.durable[1],
            _ => &self.fds,
        }
    }

    /// Opens the descriptors of writes that are to be durable, for the first such write.
    #[cold]
    fn open_durable(&mut self, op: Op) -> Result<(), EngineError> {
        let (at, flag) = if op == Op::WriteSync { (1, libc::O_SYNC) } else { (0, libc::O_DSYNC) };
        let again = self.fds.iter().map(|fd| fd.again(flag));
        self.durable[at] =
            again.collect::<Result<_, _>>().map_err(|errno| EngineError::failed("open", errno))?;
        Ok(())
    }

    /// The control block of a request: of a buffer, or of a rare request.
    fn block(&mut self, id: u64) -> *mut libc::aiocb {
        match self.rare.get_mut(id) {
            Some(rare) => rare.extra.at(0),
            None => self.blocks.at(id as u32),
        }
    }
}

/// The engine of POSIX AIO.
pub struct PosixAio {
    held: Leaky<Held>,
    gate: Gate,
    tags: Box<[u64]>,
    /// Operation and identifier of what was pushed: a buffer's number, or that of a rare request.
    queued: Vec<(Op, u64)>,
    active: Vec<u64>,
    /// What glibc did not take, with the errno.
    refused: Vec<(u64, i32)>,
    list: Vec<*const libc::aiocb>,
    setup: Setup,
    submit_calls: u64,
    is_closed: bool,
}

/// How a [`PosixAio`] is opened.
#[derive(Clone, Copy, Debug)]
pub struct PosixAioBuilder {
    descriptors: AioDescriptors,
    iodepth: u32,
}

impl PosixAioBuilder {
    /// Gives each buffer of the pool a descriptor of its own: glibc serialises the requests of one.
    #[must_use]
    pub fn descriptor_per_buffer(self) -> PosixAioBuilder {
        PosixAioBuilder { descriptors: AioDescriptors::PerSlot, ..self }
    }

    /// The most requests in flight; 1 unless it is set.
    #[must_use]
    pub fn iodepth(self, iodepth: u32) -> PosixAioBuilder {
        PosixAioBuilder { iodepth, ..self }
    }

    /// Opens the engine.
    ///
    /// # Errors
    /// The depth is out of range; the target has no descriptor for the kernel's driver, or descriptors ran
    /// out.
    pub fn open(self, target: &Target, pool: &Pool) -> Result<PosixAio, EngineError> {
        check_depth(self.iodepth)?;
        PosixAio::open(target, pool, self.descriptors, self.iodepth)
    }
}

impl PosixAio {
    /// An engine with one descriptor, unless it is told otherwise.
    pub fn builder() -> PosixAioBuilder {
        PosixAioBuilder { descriptors: AioDescriptors::PerJob, iodepth: 1 }
    }

    pub(crate) fn open(
        target: &Target,
        pool: &Pool,
        descriptors: AioDescriptors,
        iodepth: u32,
    ) -> Result<Self, EngineError> {
        let count = if descriptors == AioDescriptors::PerSlot { pool.count() } else { 1 };
        let fd = || target.reopen().map_err(|error| EngineError::unsupported(error.to_string()));
        let fds = (0..count).map(|_| fd()).collect::<Result<_, _>>()?;
        let blocks = ControlBlocks::new(blank(), pool.count());
        let depth = iodepth as usize;
        Ok(PosixAio {
            held: Leaky::new(Held { fds, durable: Default::default(), blocks, rare: RareFlights::new() }),
            gate: Gate::new(pool, target, iodepth, "posix-aio"),
            tags: vec![0; pool.count() as usize].into(),
            queued: Vec::with_capacity(depth),
            active: Vec::with_capacity(depth),
            refused: Vec::with_capacity(depth),
            list: Vec::with_capacity(depth),
            setup: Setup::default(),
            submit_calls: 0,
            is_closed: false,
        })
    }

    #[cold]
    fn push_rare(&mut self, request: Request) -> Result<(), Refused> {
        let op = request.operation.op();
        if !self.supports(op) {
            let error = self.gate.lacks(op, ": POSIX has no asynchronous call for it");
            return Err(Refused::new(request, error));
        }
        if let Err(error) = self.gate.check(&request, self.in_flight()) {
            return Err(Refused::new(request, error));
        }
        let mut block = blank();
        block.aio_fildes = self.held.fds[0].as_raw_fd();
        let (id, _) = self.held.rare.start(request, ControlBlocks::new(block, 1));
        self.queued.push((op, id));
        Ok(())
    }

    fn complete(&mut self, id: u64, result: Result<u32, IoError>) -> Completion {
        if let Some(rare) = self.held.rare.end(id) {
            return rare.complete(result);
        }
        // SAFETY: the buffer took off with its request, which has ended and is not in the lists any more.
        let buffer = unsafe { self.gate.pool.land(id as u32) };
        Completion { tag: self.tags[id as usize], result, buffers: Buffers::One(buffer) }
    }

    /// Hands out what is complete; returns how many.
    fn take<S: FnMut(Completion)>(&mut self, sink: &mut S) -> usize {
        let mut found = 0;
        while let Some((id, errno)) = self.refused.pop() {
            let completion = self.complete(id, Err(IoError::Os(errno)));
            sink(completion);
            found += 1;
        }
        let mut at = 0;
        while at < self.active.len() {
            let id = self.active[at];
            let block = self.held.block(id);
            // SAFETY: `block` was given to glibc and has not been returned yet.
            let errno = unsafe { libc::aio_error(block) };
            if errno == libc::EINPROGRESS {
                at += 1;
                continue;
            }
            // SAFETY: as above; the request is complete, and this is the one call that returns it.
            let moved = unsafe { libc::aio_return(block) };
            let result = if errno != 0 { Err(IoError::Os(errno)) } else { Ok(moved as u32) };
            self.active.swap_remove(at);
            let completion = self.complete(id, result);
            sink(completion);
            found += 1;
        }
        found
    }

    /// Sleeps until a request is complete, a signal comes, or the time is over.
    fn suspend(&mut self, left: Option<Duration>) -> Result<(), EngineError> {
        self.list.clear();
        for at in 0..self.active.len() {
            let block = self.held.block(self.active[at]);
            self.list.push(block);
        }
        let timeout = left.map(timespec);
        let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the list holds live control blocks, and `timeout` is null or points to a timespec.
        if unsafe { libc::aio_suspend(self.list.as_ptr(), self.list.len() as libc::c_int, timeout) } < 0 {
            let errno = last_errno();
            if errno != libc::EINTR && errno != libc::EAGAIN {
                return Err(EngineError::call("aio_suspend", errno, String::new()));
            }
        }
        Ok(())
    }

    /// Ends the engine; what has not ended by `until` is leaked. Returns how many that are.
    fn end(&mut self, until: Instant) -> usize {
        if std::mem::replace(&mut self.is_closed, true) || self.held.is_parents() {
            return 0;
        }
        for (_, id) in std::mem::take(&mut self.queued) {
            drop(self.complete(id, Ok(0)));
        }
        for fd in self.held.fds.iter().chain(self.held.durable.iter().flatten()) {
            // SAFETY: cancels requests of our own descriptor; a request that is not cancelled stays in flight
            // and is awaited below.
            unsafe { libc::aio_cancel(fd.as_raw_fd(), std::ptr::null_mut()) };
        }
        let drained = drain(until, |left| {
            self.take(&mut drop);
            if self.active.is_empty() {
                return Drained::Empty;
            }
            if self.suspend(Some(left)).is_err() { Drained::Stuck } else { Drained::Pending }
        });
        if drained {
            self.held.release();
        }
        self.active.len()
    }
}

fn blank() -> libc::aiocb {
    // SAFETY: `aiocb` is integers and pointers, for which zero is a valid value.
    let mut block = unsafe { std::mem::zeroed::<libc::aiocb>() };
    block.aio_sigevent.sigev_notify = libc::SIGEV_NONE;
    block
}

pub(crate) fn timespec(time: Duration) -> libc::timespec {
    let tv_sec = time.as_secs().min(i64::MAX as u64) as libc::time_t;
    libc::timespec { tv_sec, tv_nsec: time.subsec_nanos().into() }
}

impl sealed::Sealed for PosixAio {}

impl Engine for PosixAio {
    fn push(&mut self, request: Request) -> Result<(), Refused> {
        let op = request.operation.op();
        let Some(transfer) = request.operation.transfer() else {
            return self.push_rare(request);
        };
        if self.in_flight() >= self.gate.iodepth() || !self.gate.admits(transfer) {
            return self.push_rare(request);
        }
        let index = transfer.buffer.index();
        let address = self.gate.pool.address(index);
        if self.held.fds(op).is_empty()
            && let Err(error) = self.held.open_durable(op)
        {
            return Err(Refused::new(request, error));
        }
        let fds = self.held.fds(op);
        let fd = fds[index as usize % fds.len()].as_raw_fd();
        // SAFETY: the buffer is not in flight, so glibc does not hold its block.
        let block = unsafe { &mut *self.held.blocks.at(index) };
        block.aio_fildes = fd;
        block.aio_buf = address.as_ptr().cast();
        block.aio_nbytes = transfer.len as usize;
        block.aio_offset = transfer.offset as libc::off_t;
        self.tags[index as usize] = request.tag;
        self.queued.push((op, index.into()));
        if let Some(transfer) = request.operation.into_transfer() {
            transfer.buffer.take_off();
        }
        Ok(())
    }

    fn submit(&mut self) -> Result<(), EngineError> {
        for at in 0..self.queued.len() {
            let (op, id) = self.queued[at];
            let block = self.held.block(id);
            self.submit_calls += 1;
            // SAFETY: the block lives in `held`, and the buffer that it names in the pool, until glibc has
            // returned the request, or forever; nothing refers to either until then.
            let refused = unsafe {
                match op {
                    Op::Read => libc::aio_read(block),
                    Op::Write | Op::WriteDsync | Op::WriteSync => libc::aio_write(block),
                    Op::Flush => libc::aio_fsync(libc::O_DSYNC, block),
                    _ => libc::aio_fsync(libc::O_SYNC, block),
                }
            } < 0;
            if refused {
                self.refused.push((id, last_errno()));
            } else {
                self.active.push(id);
            }
        }
        self.queued.clear();
        Ok(())
    }

    fn reap<S: FnMut(Completion)>(&mut self, mut sink: S) -> Result<usize, EngineError> {
        Ok(self.take(&mut sink))
    }

    fn wait<S: FnMut(Completion)>(
        &mut self,
        min: usize,
        until: Option<Instant>,
        mut sink: S,
    ) -> Result<usize, EngineError> {
        self.submit()?;
        let mut found = 0;
        loop {
            found += self.take(&mut sink);
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if found >= min || self.active.is_empty() || left.is_some_and(|left| left.is_zero()) {
                return Ok(found);
            }
            self.suspend(left)?;
        }
    }

    fn in_flight(&self) -> usize {
        self.queued.len() + self.active.len() + self.refused.len()
    }

    fn iodepth(&self) -> usize {
        self.gate.iodepth()
    }

    fn supports(&self, op: Op) -> bool {
        op.is_transfer() || matches!(op, Op::Flush | Op::Fsync)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn counters(&self) -> Counters {
        // glibc's threads make calls that iopj cannot count.
        Counters { system_calls: None, submit_calls: self.submit_calls, ..Counters::default() }
    }

    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn close(mut self, until: Instant) -> Result<(), Leaked> {
        Leaked::unless_none(self.end(until))
    }
}

impl Drop for PosixAio {
    fn drop(&mut self) {
        self.end(Instant::now() + DRAIN_LIMIT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::{WritePermission, make_file};
    use rustix::fs::fcntl_getfl;

    #[test]
    fn a_durable_write_has_a_descriptor_that_makes_it_so() {
        let folder = tempfile::tempdir_in(std::env::current_exe().unwrap().parent().unwrap()).unwrap();
        let path = folder.path().join("data");
        let id = make_file(&path, 4096, &mut |_| true).unwrap();
        let target = Target::open_for_writing(&path, WritePermission::OwnFile { id: &id }).unwrap();
        let pool = Pool::new(1, 4096).unwrap();
        let mut engine = PosixAio::builder().open(&target, &pool).unwrap();
        // O_SYNC has the bit of O_DSYNC.
        for (make, flags) in [
            (Request::write as fn(_, _, _) -> _, 0),
            (Request::write_dsync, libc::O_DSYNC),
            (Request::write_sync, libc::O_SYNC),
            (Request::read, 0),
        ] {
            engine.push(make(pool.acquire().unwrap(), 4096, target.data_offset())).unwrap();
            // SAFETY: the request is queued, and glibc does not have it yet.
            let fd = unsafe { (*engine.held.blocks.at(0)).aio_fildes };
            let mut all = engine.held.durable.iter().flatten().chain(&engine.held.fds);
            let found = all.find(|one| one.as_raw_fd() == fd).unwrap();
            assert_eq!(fcntl_getfl(found).unwrap().bits() as i32 & libc::O_SYNC, flags);
            let mut results = Vec::new();
            engine.wait(1, None, |completion| results.push(completion.result)).unwrap();
            assert_eq!(results, [Ok(4096)]);
        }
    }
}
