//! The engine that `io_uring` and `nvme-passthrough` share: they differ in how an entry is written
//! and how its result is read, which [`Command`] tells.

use crate::KernelCpus;
use crate::engine::{Completion, Engine, EngineError, EngineFacts, IoError, Request};
use crate::pool::{Pool, Slot};
use crate::remedy;
use crate::ring::{Ring, SQE_LEN};
use crate::target::Descriptor;
use iopj_core::path::{Ring as Modes, RingCompletion, RingSubmission};
use linux_raw_sys::io_uring as sys;
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How one interface writes an entry and reads its result.
pub(crate) trait Command {
    /// Set-up flags that the interface needs.
    const SETUP: u32;

    /// Length of an entry under those flags.
    const ENTRY_LEN: usize = if Self::SETUP & sys::IORING_SETUP_SQE128 == 0 { SQE_LEN } else { 2 * SQE_LEN };

    /// Refuses what the interface cannot express, before the request has touched anything.
    ///
    /// # Errors
    /// [`crate::Cause::Unsupported`].
    #[inline]
    fn accepts(&self, _request: &Request) -> Result<(), EngineError> {
        Ok(())
    }

    /// Fills a zeroed entry, `user_data` apart, for a request that was accepted.
    ///
    /// # Safety
    /// `entry` points to [`Command::ENTRY_LEN`] zeroed bytes, aligned as an `io_uring_sqe`, that nobody else
    /// uses; it may be written through in its whole length.
    unsafe fn prepare(
        &self,
        entry: NonNull<sys::io_uring_sqe>,
        request: &Request,
        address: NonNull<u8>,
        modes: Modes,
        fd: i32,
    );

    /// Bytes moved, or the error, of a request of `len` bytes.
    fn result(&self, result: i32, len: u32) -> Result<u32, IoError>;
}

/// What must outlive every request that the kernel holds.
struct Held {
    ring: Ring,
    pool: Rc<Pool>,
    _fd: Descriptor,
}

pub(crate) struct RingEngine<C> {
    held: ManuallyDrop<Held>,
    command: C,
    modes: Modes,
    /// Descriptor as entries name it: a number, or an index of registered files.
    fd: i32,
    /// Tag and length of what is in flight, by slot.
    in_flight_by_slot: Box<[(u64, u32)]>,
    in_flight: usize,
    iodepth: usize,
    /// Entries that a system call has yet to submit, and what an entry adds to them: 1, or 0 with a poller.
    queued: u32,
    by_syscall: u32,
    /// Completions come only inside `io_uring_enter`: polled rings and deferred task work.
    enter_to_reap: bool,
    submit_calls: u64,
    /// Calls that submitted nothing.
    other_calls: u64,
    wakeups: u64,
}

impl<C: Command> RingEngine<C> {
    pub(crate) fn open(
        command: C,
        fd: Descriptor,
        pool: &Rc<Pool>,
        modes: Modes,
        iodepth: u32,
        cpus: &KernelCpus,
    ) -> Result<Self, EngineError> {
        let mut required = C::SETUP;
        required |= match modes.completion {
            RingCompletion::Interrupt => 0,
            RingCompletion::Poll => sys::IORING_SETUP_IOPOLL,
            RingCompletion::Hybrid => sys::IORING_SETUP_IOPOLL | sys::IORING_SETUP_HYBRID_IOPOLL,
        };
        let sqpoll = matches!(modes.submission, RingSubmission::Sqpoll { .. });
        if sqpoll {
            required |= sys::IORING_SETUP_SQPOLL;
        }
        let ring = Ring::new(iodepth, required, cpus.poller.filter(|_| sqpoll))?;
        bind_workers(&ring, &cpus.workers)?;
        if sqpoll && !modes.registered {
            require_unregistered_files(ring.features)?;
        }
        let mut number = fd.as_raw_fd();
        if modes.registered {
            register(&ring, pool, number)?;
            number = 0;
        }
        let enter_to_reap =
            !sqpoll && ring.flags & (sys::IORING_SETUP_IOPOLL | sys::IORING_SETUP_DEFER_TASKRUN) != 0;
        Ok(RingEngine {
            held: ManuallyDrop::new(Held { ring, pool: Rc::clone(pool), _fd: fd }),
            command,
            modes,
            fd: number,
            in_flight_by_slot: vec![(0, 0); pool.slots() as usize].into(),
            in_flight: 0,
            iodepth: iodepth as usize,
            queued: 0,
            by_syscall: u32::from(!sqpoll),
            enter_to_reap,
            submit_calls: 0,
            other_calls: 0,
            wakeups: 0,
        })
    }

    /// Shows the submission poller what is queued, and wakes it if it sleeps.
    #[inline]
    fn publish_to_poller(&mut self) -> Result<(), EngineError> {
        let sq = &mut self.held.ring.sq;
        if sq.unpublished() > 0 {
            sq.publish();
            if sq.needs_wakeup() {
                self.wakeups += 1;
                self.enter(0, sys::IORING_ENTER_SQ_WAKEUP)?;
            }
        }
        Ok(())
    }

    /// Writes one entry. Kept out of line: inlined, all that it reads is loaded ahead of the batch, which a
    /// batch of one pays in full.
    #[inline(never)]
    fn push_one(&mut self, request: &Request) -> Result<(), EngineError> {
        let slot = request.slot;
        self.command.accepts(request)?;
        let address = self.held.pool.start(slot, request.len)?;
        let entry = self.held.ring.sq.next(C::ENTRY_LEN).cast::<sys::io_uring_sqe>();
        // SAFETY: the entry is zeroed and ours until it is published; it is `ENTRY_LEN` bytes of the ring's
        // mapping long, from which the pointer comes, and aligned as the kernel aligns it. No reference to it
        // is alive.
        unsafe {
            self.command.prepare(entry, request, address, self.modes, self.fd);
            (*entry.as_ptr()).user_data = slot.0.into();
        }
        self.held.ring.sq.advance();
        self.queued += self.by_syscall;
        self.in_flight_by_slot[slot.0 as usize] = (request.tag, request.len);
        self.in_flight += 1;
        Ok(())
    }

    /// One `io_uring_enter` for what is queued; returns entries consumed.
    #[inline]
    fn enter(&mut self, min_complete: u32, flags: u32) -> Result<u32, EngineError> {
        if self.queued > 0 {
            self.submit_calls += 1;
        } else {
            self.other_calls += 1;
        }
        match self.held.ring.enter(self.queued, min_complete, flags) {
            Ok(consumed) => {
                self.queued -= consumed;
                Ok(consumed)
            }
            Err(errno) => enter_failed(errno, self.in_flight > self.queued as usize),
        }
    }

    /// Submits and waits in one call, and again until `min` completions were taken.
    #[inline]
    fn wait_by_enter(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        let mut found = 0;
        loop {
            let ready = self.held.ring.cq.ready();
            let wanted = (min - found) as u32;
            let kick = ready == 0 && self.enter_to_reap && found == 0 && self.in_flight > 0;
            if self.queued > 0 || ready < wanted || kick {
                let events = if wanted > 0 || kick { sys::IORING_ENTER_GETEVENTS } else { 0 };
                self.enter(wanted, events)?;
            }
            found += self.reap(done);
            if found >= min {
                return Ok(());
            }
        }
    }

    /// Waits for completions that the submission poller brings, by spinning or in the kernel.
    #[inline]
    fn wait_by_ring(
        &mut self,
        min: usize,
        kernel_wait: bool,
        done: &mut Vec<Completion>,
    ) -> Result<(), EngineError> {
        let wanted = min as u32;
        while self.held.ring.cq.ready() < wanted {
            if kernel_wait {
                self.enter(wanted, sys::IORING_ENTER_GETEVENTS)?;
            } else {
                std::hint::spin_loop();
            }
        }
        self.reap(done);
        Ok(())
    }

    /// Takes completions within `done`'s spare capacity; returns how many.
    #[inline]
    fn reap(&mut self, done: &mut Vec<Completion>) -> usize {
        let room = (done.capacity() - done.len()) as u32;
        let Held { ring, pool, .. } = &mut *self.held;
        let (command, by_slot) = (&self.command, &self.in_flight_by_slot);
        let taken = ring.cq.take(room, |user_data, result| {
            let slot = Slot(user_data as u32);
            let Some(&(tag, len)) = by_slot.get(slot.0 as usize) else { return };
            pool.finish(slot);
            done.push(Completion { tag, slot, result: command.result(result, len) });
        });
        self.in_flight -= taken as usize;
        taken as usize
    }
}

/// The most bytes that one registered buffer may have (io_uring/rsrc.c, `io_buffer_validate`).
const MOST_REGISTERED: usize = 1 << 30;

/// Refuses a pool of `bytes` that the kernel would not register: the pool is registered as one buffer.
fn require_registrable(bytes: usize) -> Result<(), EngineError> {
    if bytes > MOST_REGISTERED {
        return Err(EngineError::unsupported(format!(
            "{bytes} bytes of buffers cannot be registered in one ring, which takes {MOST_REGISTERED}: \
             lower iodepth or bs, or leave +registered out"
        )));
    }
    Ok(())
}

/// Refuses a submission poller that takes registered files only.
fn require_unregistered_files(features: u32) -> Result<(), EngineError> {
    if features & sys::IORING_FEAT_SQPOLL_NONFIXED == 0 {
        return Err(EngineError::unsupported(
            "this kernel's submission poller (sqpoll) takes registered files only: use +registered, or \
             Linux 5.11 or newer",
        ));
    }
    Ok(())
}

/// Keeps the ring's workers to `cpus`, where the kernel can.
fn bind_workers(ring: &Ring, cpus: &[u32]) -> Result<(), EngineError> {
    let Some(most) = cpus.iter().max() else { return Ok(()) };
    let mut mask = vec![0_u8; *most as usize / 8 + 1];
    cpus.iter().for_each(|cpu| mask[*cpu as usize / 8] |= 1 << (cpu % 8));
    let operation = sys::io_uring_register_op::IORING_REGISTER_IOWQ_AFF as u32;
    match ring.register(operation, mask.as_ptr(), mask.len() as u32) {
        // Before Linux 5.14 there is no such operation.
        Ok(()) | Err(libc::EINVAL) => Ok(()),
        Err(errno) => Err(EngineError::call("io_uring_register (workers' processors)", errno, String::new())),
    }
}

/// How long registering waits for memory that is being unlocked: the kernel takes a closed ring apart after
/// the close.
const UNLOCK_LIMIT: Duration = if cfg!(test) { Duration::from_secs(30) } else { Duration::from_millis(100) };

/// Registers the pool as the ring's buffer 0 and `fd` as its file 0.
fn register(ring: &Ring, pool: &Pool, fd: i32) -> Result<(), EngineError> {
    use sys::io_uring_register_op::{IORING_REGISTER_BUFFERS, IORING_REGISTER_FILES};
    let failed = |call| move |errno| EngineError::call(call, errno, remedy::memory_lock(errno));
    let region = pool.region();
    require_registrable(region.iov_len)?;
    let deadline = Instant::now() + UNLOCK_LIMIT;
    loop {
        match ring.register(IORING_REGISTER_BUFFERS as u32, &raw const region, 1) {
            Err(libc::ENOMEM) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(1)),
            result => break result.map_err(failed("io_uring_register (buffers)"))?,
        }
    }
    ring.register(IORING_REGISTER_FILES as u32, &raw const fd, 1).map_err(failed("io_uring_register (files)"))
}

/// A signal is no error: the caller's loop comes again. Nor is a lack of memory or of room for completions,
/// as long as there are requests whose end will give it back; with none it would never come.
#[cold]
fn enter_failed(errno: i32, some_will_end: bool) -> Result<u32, EngineError> {
    match errno {
        libc::EINTR => Ok(0),
        libc::EAGAIN | libc::EBUSY if some_will_end => Ok(0),
        errno => Err(EngineError::call("io_uring_enter", errno, remedy::io_uring_enter(errno))),
    }
}

impl<C: Command> Engine for RingEngine<C> {
    fn push(&mut self, requests: &[Request]) -> Result<usize, EngineError> {
        let taken = (self.iodepth - self.in_flight).min(requests.len());
        for request in &requests[..taken] {
            self.push_one(request)?;
        }
        Ok(taken)
    }

    fn submit(&mut self) -> Result<(), EngineError> {
        if let RingSubmission::Sqpoll { .. } = self.modes.submission {
            return self.publish_to_poller();
        }
        self.held.ring.sq.publish();
        while self.queued > 0 {
            if self.enter(0, 0)? == 0 {
                break; // the kernel has no room before completions are taken
            }
        }
        Ok(())
    }

    #[inline]
    fn wait(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        let min = min.min(self.in_flight).min(done.capacity() - done.len());
        match self.modes.submission {
            RingSubmission::Syscall { split } => {
                if split {
                    self.submit()?;
                }
                self.held.ring.sq.publish();
                self.wait_by_enter(min, done)
            }
            RingSubmission::Sqpoll { kernel_wait } => {
                self.publish_to_poller()?;
                self.wait_by_ring(min, kernel_wait, done)
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn facts(&self) -> EngineFacts {
        EngineFacts {
            system_calls: Some(self.submit_calls + self.other_calls),
            submit_calls: self.submit_calls,
            wakeups: self.wakeups,
            ring_flags: self.held.ring.setup_flags(),
            registered: self.modes.registered,
            ..EngineFacts::default()
        }
    }
}

/// `struct io_uring_sync_cancel_reg`: cancels every request of the ring.
fn cancel_all() -> sys::io_uring_sync_cancel_reg {
    // SAFETY: the struct is plain integers, for which zero is a valid value.
    let mut cancel: sys::io_uring_sync_cancel_reg = unsafe { std::mem::zeroed() };
    cancel.fd = -1;
    cancel.flags = sys::IORING_ASYNC_CANCEL_ANY | sys::IORING_ASYNC_CANCEL_ALL;
    cancel
}

impl<C> Drop for RingEngine<C> {
    fn drop(&mut self) {
        let deadline = Instant::now() + crate::DRAIN_LIMIT;
        let Held { ring, pool, .. } = &mut *self.held;
        // What the kernel does not have yet it never gets: a write that was only pushed does not happen. The
        // rest is cancelled (IORING_REGISTER_SYNC_CANCEL, since 6.0; elsewhere, and for requests that a
        // device holds, waiting is all there is).
        let finish = |user_data| pool.finish(Slot(user_data as u32));
        let (taken_back, wake) = if ring.flags & sys::IORING_SETUP_SQPOLL == 0 {
            (ring.sq.take_back_unconsumed(finish), 0)
        } else {
            (ring.sq.take_back_unpublished(finish), sys::IORING_ENTER_SQ_WAKEUP)
        };
        self.in_flight -= taken_back as usize;
        let mut cancelled = false;
        while self.in_flight > 0 {
            let _ = ring.enter(0, 0, sys::IORING_ENTER_GETEVENTS | wake);
            let taken = ring.cq.take(u32::MAX, |user_data, _| finish(user_data));
            self.in_flight -= taken as usize;
            if taken > 0 {
                continue;
            }
            if Instant::now() > deadline {
                return; // leaks `held`: the kernel may still write into the pool
            }
            if !std::mem::replace(&mut cancelled, true) {
                let cancel = cancel_all();
                let _ = ring.register(
                    sys::io_uring_register_op::IORING_REGISTER_SYNC_CANCEL as u32,
                    &raw const cancel,
                    1,
                );
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        // SAFETY: nothing is in flight, and `held` is not used afterwards.
        unsafe { ManuallyDrop::drop(&mut self.held) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_core::uring::RingFlag;

    #[test]
    fn a_failed_enter_comes_again_only_if_something_can_change() {
        for errno in [libc::EAGAIN, libc::EBUSY] {
            assert_eq!(enter_failed(errno, true).unwrap(), 0);
            let message = enter_failed(errno, false).unwrap_err().to_string();
            assert!(message.starts_with("io_uring_enter failed: "), "{message}");
        }
        assert_eq!(enter_failed(libc::EINTR, false).unwrap(), 0);
        assert!(enter_failed(libc::EBADF, true).is_err());
    }

    /// Opens and closes registered rings that lock most of `RLIMIT_MEMLOCK`, as a user whom it binds: one of
    /// this process's own, for the limit is on all that a user locks, and another run of this test may be
    /// under way.
    #[test]
    fn memory_of_a_closed_ring_can_be_locked_again_at_once() {
        use std::os::unix::fs::PermissionsExt;
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `limit` is a valid place for the answer; geteuid has no precondition.
        let is_root =
            unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) == 0 && libc::geteuid() == 0 };
        if !is_root || !(1 << 20..=64 << 20).contains(&limit.rlim_cur) {
            assert!(is_root || std::env::var("CI").as_deref() != Ok("true"), "needs root, to become nobody");
            eprintln!("skipped: needs root, to become nobody, and a limit of locked memory from 1 to 64 MiB");
            return;
        }
        let folder = tempfile::tempdir_in(std::env::current_exe().unwrap().parent().unwrap()).unwrap();
        let path = folder.path().join("data");
        crate::target::make_file(&path, 4096, &mut |_| true).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        let target = crate::Target::open(&path).unwrap();
        let user = (1 << 30) + std::process::id();
        let work = || {
            // SAFETY: setresuid touches no memory; raw, it changes this thread alone, which ends with the
            // closure.
            assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, user, user, user) }, 0);
            for round in 0..30 {
                let pool = Pool::new((limit.rlim_cur / 4096 * 3 / 4) as u32, 4096).unwrap();
                let engine =
                    crate::open("io_uring/syscall/interrupt+registered".parse().unwrap(), &target, &pool, 1);
                assert!(engine.is_ok(), "round {round}: {}", engine.err().unwrap());
            }
        };
        std::thread::scope(|scope| scope.spawn(work).join().unwrap());
    }

    /// The processors that the threads of this process may use whose names begin with `name`.
    fn cpus_of(name: &str) -> Vec<String> {
        let read =
            |task: &std::path::Path, file| std::fs::read_to_string(task.join(file)).unwrap_or_default();
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
        let list = |task: std::path::PathBuf| {
            let status = read(&task, "status");
            status
                .lines()
                .find_map(|line| Some(line.strip_prefix("Cpus_allowed_list:")?.trim().to_owned()))
                .unwrap()
        };
        tasks.filter(|task| read(task, "comm").trim_end() == name).map(list).collect()
    }

    #[test]
    fn pollers_and_workers_of_a_ring_keep_to_the_processors_that_they_are_given() {
        // SAFETY: takes nothing and cannot fail.
        let tid = unsafe { libc::gettid() };
        // The highest that this process may use: not where a thread is by chance.
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
        let cpu: u32 = allowed.trim().rsplit([',', '-']).next().unwrap().parse().unwrap();
        let ring = match Ring::new(4, sys::IORING_SETUP_SQPOLL, Some(cpu)) {
            Ok(ring) => ring,
            Err(error) => {
                assert!(std::env::var("CI").as_deref() != Ok("true"), "needs io_uring with sqpoll: {error}");
                eprintln!("skipped: needs io_uring with sqpoll: {error}");
                return;
            }
        };
        assert!(ring.setup_flags().contains(&RingFlag::SqAff));
        // The poller takes its name and its processor when it first runs.
        let (name, deadline) = (format!("iou-sqp-{tid}"), Instant::now() + Duration::from_secs(300));
        while cpus_of(&name) != [cpu.to_string()] && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(cpus_of(&name), [cpu.to_string()]);
        let mut ring = Ring::new(4, 0, None).unwrap();
        bind_workers(&ring, &[cpu]).unwrap();
        let mut entry = ring.sq.next(SQE_LEN).cast::<sys::io_uring_sqe>();
        // SAFETY: the entry is zeroed, ours and not published.
        let entry = unsafe { entry.as_mut() };
        entry.opcode = sys::io_uring_op::IORING_OP_NOP as u8;
        entry.flags = 1 << sys::io_uring_sqe_flags_bit::IOSQE_ASYNC_BIT as u8;
        ring.sq.advance();
        ring.sq.publish();
        assert_eq!(ring.enter(1, 1, sys::IORING_ENTER_GETEVENTS), Ok(1));
        let workers = cpus_of(&format!("iou-wrk-{tid}"));
        assert!(!workers.is_empty() && workers.iter().all(|cpus| *cpus == cpu.to_string()), "{workers:?}");
    }

    #[test]
    fn what_a_kernel_cannot_register_or_poll_is_refused_with_its_remedy() {
        assert!(require_registrable(1 << 30).is_ok());
        let message = require_registrable((1 << 30) + 4096).unwrap_err().to_string();
        assert!(
            message.contains("1073745920 bytes of buffers") && message.contains("lower iodepth or bs"),
            "{message}"
        );
        assert!(require_unregistered_files(sys::IORING_FEAT_SQPOLL_NONFIXED).is_ok());
        let message = require_unregistered_files(!sys::IORING_FEAT_SQPOLL_NONFIXED).unwrap_err().to_string();
        assert!(message.ends_with("use +registered, or Linux 5.11 or newer"), "{message}");
    }
}
