//! An io_uring instance: set-up, the two mapped queues, and `io_uring_enter`.
//!
//! Not the `io-uring` crate's, because hybrid polling and 128-byte entries must work together, and that crate
//! does not offer the combination. Sources: io_uring_setup(2), io_uring_enter(2),
//! include/uapi/linux/io_uring.h. The queues' index arithmetic is separate from the system calls, so it runs
//! under Miri.

use crate::aside::RingFd;
use crate::error::EngineError;
use crate::mmap::Mmap;
use crate::remedy;
use crate::syscall::syscall6;
use crate::system::last_errno;
use iopj_path::uring::RingFlag;
use linux_raw_sys::io_uring as sys;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;

/// Length of an entry of the submission queue; twice that with IORING_SETUP_SQE128.
pub(crate) const SQE_LEN: usize = 64;
/// Length of an entry of the completion queue.
pub(crate) const CQE_LEN: usize = 16;
/// Offset of `user_data` in an entry of the submission queue.
const USER_DATA_AT: usize = std::mem::offset_of!(sys::io_uring_sqe, user_data);

/// The submission queue: the application writes entries and the tail, the kernel moves the head.
pub(crate) struct SubmissionRing {
    head: NonNull<AtomicU32>,
    tail: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<u8>,
    stride: usize,
    mask: u32,
    /// Our tail; `publish` copies it to the shared one.
    local_tail: u32,
    published: u32,
    /// A submission poller takes entries at any time, and moves the head only after a batch: entries whose
    /// completions were seen can still count as unconsumed.
    has_poller: bool,
}

impl SubmissionRing {
    /// The next entry, of `len` bytes (as the ring was set up), with what was written to it before; `advance`
    /// takes it. The queue must have room. It has, because the engine has no more requests in flight than the
    /// queue has entries, and an entry that the kernel has not read is in flight.
    #[inline]
    pub(crate) fn next(&mut self, len: usize) -> NonNull<u8> {
        let unread = || if self.has_poller { 0 } else { self.unconsumed() };
        debug_assert!(self.unpublished() + unread() <= self.mask, "the submission queue is full");
        debug_assert_eq!(len, self.stride);
        // SAFETY: the place is at most `mask`, so the entry lies within the mapping. The kernel has read what
        // was in it: it lies behind the head, or, with a poller that moves the head late, the completion of
        // what was in it was seen. Until `publish` the kernel does not look at it again.
        unsafe { self.entries.add(self.place() * len) }
    }

    /// The place of the next entry.
    #[inline]
    pub(crate) fn place(&self) -> usize {
        (self.local_tail & self.mask) as usize
    }

    /// All entries, of which none may be published yet.
    pub(crate) fn every_entry(&mut self) -> impl Iterator<Item = NonNull<u8>> {
        debug_assert_eq!(self.unpublished() + self.unconsumed(), 0);
        let (entries, stride) = (self.entries, self.stride);
        // SAFETY: the places are at most `mask`, so the entries lie within the mapping.
        (0..=self.mask as usize).map(move |place| unsafe { entries.add(place * stride) })
    }

    /// Takes the entry that `next` gave.
    #[inline]
    pub(crate) fn advance(&mut self) {
        self.local_tail = self.local_tail.wrapping_add(1);
    }

    /// Shows the kernel all taken entries.
    #[inline]
    pub(crate) fn publish(&mut self) {
        self.published = self.local_tail;
        // SAFETY: `tail` points into the live ring mapping. Release: the entries are written before.
        unsafe { self.tail.as_ref() }.store(self.local_tail, Ordering::Release);
    }

    /// Takes back the entries that were taken and not published; gives the `user_data` of each.
    pub(crate) fn take_back_unpublished(&mut self, each: impl FnMut(u64)) -> u32 {
        self.take_back(self.published, each)
    }

    /// Takes back all entries that the kernel has not consumed; gives the `user_data` of each. Only for a
    /// ring whose kernel side reads the queue within `io_uring_enter` alone: a submission poller may be
    /// reading it now.
    pub(crate) fn take_back_unconsumed(&mut self, each: impl FnMut(u64)) -> u32 {
        let consumed = self.published.wrapping_sub(self.unconsumed());
        let count = self.take_back(consumed, each);
        self.publish();
        count
    }

    /// Moves our tail back to `tail`.
    fn take_back(&mut self, tail: u32, mut each: impl FnMut(u64)) -> u32 {
        let count = self.local_tail.wrapping_sub(tail);
        for number in 0..count {
            let index = (tail.wrapping_add(number) & self.mask) as usize;
            // SAFETY: `index` is at most `mask`, so the entry lies within the mapping; it was written, its
            // `user_data` is aligned, and the kernel does not write entries.
            each(unsafe { self.entries.add(index * self.stride + USER_DATA_AT).cast::<u64>().read() });
        }
        self.local_tail = tail;
        count
    }

    /// Entries that were taken and not yet published.
    #[inline]
    pub(crate) fn unpublished(&self) -> u32 {
        self.local_tail.wrapping_sub(self.published)
    }

    /// Entries that were published and that the kernel has not consumed.
    #[inline]
    pub(crate) fn unconsumed(&self) -> u32 {
        // SAFETY: `head` points into the live ring mapping.
        self.published.wrapping_sub(unsafe { self.head.as_ref() }.load(Ordering::Acquire))
    }

    /// True if the submission poller sleeps and must be woken for what was published.
    #[inline]
    pub(crate) fn needs_wakeup(&self) -> bool {
        // The tail must be visible before the flag is read: io_uring_setup(2), IORING_SETUP_SQPOLL.
        fence(Ordering::SeqCst);
        // SAFETY: `flags` points into the live ring mapping.
        unsafe { self.flags.as_ref() }.load(Ordering::Relaxed) & sys::IORING_SQ_NEED_WAKEUP != 0
    }
}

/// The completion queue: the kernel writes entries and the tail, the application moves the head.
pub(crate) struct CompletionRing {
    head: NonNull<AtomicU32>,
    tail: NonNull<AtomicU32>,
    entries: NonNull<u8>,
    /// Length of an entry in bytes.
    stride: usize,
    mask: u32,
    /// The shared head, which only we store.
    local_head: u32,
}

impl CompletionRing {
    /// Completions that are ready to be taken.
    #[inline]
    pub(crate) fn ready(&self) -> u32 {
        // SAFETY: `tail` points into the live ring mapping. Acquire: the entries before it are written.
        unsafe { self.tail.as_ref() }.load(Ordering::Acquire).wrapping_sub(self.local_head)
    }

    /// Takes a completion, one of those that are ready: its `user_data` and its result. `LEN` is the length
    /// of an entry, as the ring was set up.
    #[inline]
    pub(crate) fn take<const LEN: usize>(&mut self) -> (u64, i32) {
        debug_assert!(self.ready() > 0 && LEN == self.stride);
        let index = (self.local_head & self.mask) as usize;
        // SAFETY: the entry lies between head and tail, so the kernel has written it and will not touch it
        // before the head has passed it. An entry begins with a u64 and an i32.
        let (user_data, result) = unsafe {
            let entry = self.entries.add(index * LEN);
            (entry.cast::<u64>().read(), entry.add(8).cast::<i32>().read())
        };
        self.local_head = self.local_head.wrapping_add(1);
        // SAFETY: `head` points into the live ring mapping. Release: the entry is read before the kernel may
        // overwrite it.
        unsafe { self.head.as_ref() }.store(self.local_head, Ordering::Release);
        (user_data, result)
    }
}

/// One instance with its mappings; unmapped and closed when it is dropped.
pub(crate) struct RawRing {
    pub(crate) sq: SubmissionRing,
    pub(crate) cq: CompletionRing,
    /// The flags that the kernel took.
    pub(crate) flags: u32,
    /// What the kernel says that it can do: `IORING_FEAT_*`.
    pub(crate) features: u32,
    fd: RingFd,
    _rings: Mmap,
    _entries: Mmap,
    /// What takes the kernel's place in tests of the engine under Miri.
    #[cfg(test)]
    simulated: Option<simulated::Kernel>,
}

/// The thread of the kernel's that polls for submissions, of an instance that has one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SqPoller {
    /// Its processor; any if absent.
    pub(crate) cpu: Option<u32>,
    /// How long it polls on after the last submission; 0 for the kernel's own second.
    pub(crate) idle_ms: u32,
}

impl RawRing {
    /// An instance for `iodepth` entries with all the `required` flags, and with as many of the flags that
    /// save work as this kernel knows (`IORING_SETUP_DEFER_TASKRUN` since 6.1, `IORING_SETUP_COOP_TASKRUN`
    /// since 5.19; fio asks for the same). The calling thread must be the one that submits.
    pub(crate) fn new(iodepth: u32, required: u32, poller: SqPoller) -> Result<RawRing, EngineError> {
        const COOPERATE: u32 = sys::IORING_SETUP_COOP_TASKRUN;
        const DEFER: u32 = COOPERATE | sys::IORING_SETUP_SINGLE_ISSUER | sys::IORING_SETUP_DEFER_TASKRUN;
        let savings: &[u32] =
            if required & sys::IORING_SETUP_SQPOLL != 0 { &[0] } else { &[DEFER, COOPERATE, 0] };
        let mut errno = 0;
        for saving in savings {
            // SAFETY: the parameters are plain integers, for which zero is a valid value.
            let mut params: sys::io_uring_params = unsafe { std::mem::zeroed() };
            params.flags = required | saving | sys::IORING_SETUP_CLAMP;
            params.sq_thread_idle = poller.idle_ms;
            if let Some(cpu) = poller.cpu {
                params.flags |= sys::IORING_SETUP_SQ_AFF;
                params.sq_thread_cpu = cpu;
            }
            // SAFETY: `params` is valid for the call, which writes it.
            let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, iodepth, &raw mut params) };
            if fd >= 0 {
                // SAFETY: the call has just returned this descriptor to us alone.
                let fd = RingFd::new(unsafe { OwnedFd::from_raw_fd(fd as i32) });
                let fd = fd.map_err(|errno| EngineError::call("fcntl", errno, String::new()))?;
                return RawRing::map(fd, &params);
            }
            errno = last_errno();
            if errno != libc::EINVAL {
                break;
            }
        }
        Err(EngineError::call("io_uring_setup", errno, remedy::io_uring_setup(errno, required)))
    }

    fn map(fd: RingFd, params: &sys::io_uring_params) -> Result<RawRing, EngineError> {
        let (sq_off, cq_off) = (&params.sq_off, &params.cq_off);
        let sqe = if params.flags & sys::IORING_SETUP_SQE128 != 0 { 2 * SQE_LEN } else { SQE_LEN };
        let cqe = if params.flags & sys::IORING_SETUP_CQE32 != 0 { 2 * CQE_LEN } else { CQE_LEN };
        if params.features & sys::IORING_FEAT_SINGLE_MMAP == 0 {
            return Err(EngineError::unsupported(
                "this kernel's io_uring is older than Linux 5.4: use a newer kernel",
            ));
        }
        let sq_len = sq_off.array as usize + params.sq_entries as usize * size_of::<u32>();
        let cq_len = cq_off.cqes as usize + params.cq_entries as usize * cqe;
        let map = |offset: u32, len| {
            Mmap::of_file(&fd, offset.into(), len, libc::MAP_POPULATE)
                .map_err(|errno| EngineError::call("mmap of the ring", errno, String::new()))
        };
        let rings = map(sys::IORING_OFF_SQ_RING, sq_len.max(cq_len))?;
        let entries = map(sys::IORING_OFF_SQES, params.sq_entries as usize * sqe)?;
        // The kernel gave the offsets, each of which must lie within the mapping.
        let at = |offset: u32| rings.at(offset as usize, size_of::<u32>());
        let array = at(sq_off.array).cast::<u32>();
        for index in 0..params.sq_entries {
            // The n-th place of the queue always names the n-th entry. SAFETY: the array has `sq_entries`
            // places, and the kernel reads none before a tail is published.
            unsafe { array.add(index as usize).write(index) };
        }
        let sq = SubmissionRing {
            head: at(sq_off.head).cast(),
            tail: at(sq_off.tail).cast(),
            flags: at(sq_off.flags).cast(),
            entries: entries.base(),
            stride: sqe,
            mask: params.sq_entries - 1,
            local_tail: 0,
            published: 0,
            has_poller: params.flags & sys::IORING_SETUP_SQPOLL != 0,
        };
        let cq = CompletionRing {
            head: at(cq_off.head).cast(),
            tail: at(cq_off.tail).cast(),
            entries: at(cq_off.cqes),
            stride: cqe,
            mask: params.cq_entries - 1,
            local_head: 0,
        };
        Ok(RawRing {
            sq,
            cq,
            flags: params.flags,
            features: params.features,
            fd,
            _rings: rings,
            _entries: entries,
            #[cfg(test)]
            simulated: None,
        })
    }

    /// `io_uring_enter`: submits up to `to_submit` entries and, with `IORING_ENTER_GETEVENTS` in `flags`,
    /// waits for `min_complete` completions. Returns the number of entries consumed, or the errno.
    #[inline]
    pub(crate) fn enter(&self, to_submit: u32, min_complete: u32, flags: u32) -> Result<u32, i32> {
        #[cfg(test)]
        if let Some(kernel) = &self.simulated {
            return Ok(kernel.enter(self, to_submit, min_complete));
        }
        let fd = self.fd.as_raw_fd() as usize;
        let arguments = [fd, to_submit as usize, min_complete as usize, flags as usize, 0, 0];
        // SAFETY: the descriptor is this ring's; the engine is responsible for what the entries point to, and
        // follows the pool's rules.
        let consumed = unsafe { syscall6(libc::SYS_io_uring_enter, arguments) };
        if consumed >= 0 { Ok(consumed as u32) } else { Err(-consumed as i32) }
    }

    /// As [`RawRing::enter`] with `IORING_ENTER_GETEVENTS`, for at most `left`. Before Linux 5.11, which
    /// brought the time limit, it submits, waits until there is a completion, and returns.
    #[cold]
    pub(crate) fn enter_for(&self, to_submit: u32, min_complete: u32, left: Duration) -> Result<u32, i32> {
        let time = sys::__kernel_timespec {
            tv_sec: left.as_secs().min(i64::MAX as u64) as i64,
            tv_nsec: left.subsec_nanos().into(),
        };
        if self.features & sys::IORING_FEAT_EXT_ARG == 0 {
            let consumed = self.enter(to_submit, 0, 0)?;
            let limit = rustix::event::Timespec { tv_sec: time.tv_sec, tv_nsec: time.tv_nsec };
            let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
            return match poll(&mut fds, Some(&limit)) {
                Ok(_) | Err(Errno::INTR) => Ok(consumed),
                Err(errno) => Err(errno.raw_os_error()),
            };
        }
        // SAFETY: the argument is plain integers, for which zero is a valid value.
        let mut argument: sys::io_uring_getevents_arg = unsafe { std::mem::zeroed() };
        argument.ts = (&raw const time).expose_provenance() as u64;
        // SAFETY: as in `enter`; the argument and the time that it points to live through the call.
        let consumed = unsafe {
            libc::syscall(
                libc::SYS_io_uring_enter,
                self.fd.as_raw_fd(),
                to_submit,
                min_complete,
                sys::IORING_ENTER_GETEVENTS | sys::IORING_ENTER_EXT_ARG,
                &raw const argument,
                size_of_val(&argument),
            )
        };
        match consumed {
            0.. => Ok(consumed as u32),
            // The time is over, and there was nothing to submit: else the call returns what it submitted.
            _ if last_errno() == libc::ETIME => Ok(0),
            _ => Err(last_errno()),
        }
    }

    /// The ring's own descriptor, for registrations.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// `io_uring_register` with an array of `count` elements.
    pub(crate) fn register<T>(&self, opcode: u32, argument: *const T, count: u32) -> Result<(), i32> {
        // SAFETY: callers pass a live array of `count` elements of the opcode's type.
        let result = unsafe {
            libc::syscall(libc::SYS_io_uring_register, self.fd.as_raw_fd(), opcode, argument, count)
        };
        if result < 0 { Err(last_errno()) } else { Ok(()) }
    }

    /// Takes over all buffers that the ring behind the descriptor `other` has registered (since Linux 6.12).
    pub(crate) fn clone_buffers(&self, other: i32) -> Result<(), i32> {
        let clone = sys::io_uring_clone_buffers {
            src_fd: other as u32,
            flags: 0,
            src_off: 0,
            dst_off: 0,
            nr: 0,
            pad: [0; 3],
        };
        let opcode = sys::io_uring_register_op::IORING_REGISTER_CLONE_BUFFERS as u32;
        self.register(opcode, &raw const clone, 1)
    }

    /// Cancels every request of the ring (`struct io_uring_sync_cancel_reg`), where the kernel can.
    pub(crate) fn cancel_all(&self) {
        let cancel = sys::io_uring_sync_cancel_reg {
            addr: 0,
            fd: -1,
            flags: sys::IORING_ASYNC_CANCEL_ANY | sys::IORING_ASYNC_CANCEL_ALL,
            timeout: sys::__kernel_timespec { tv_sec: 0, tv_nsec: 0 },
            opcode: 0,
            pad: [0; 7],
            pad2: [0; 3],
        };
        let opcode = sys::io_uring_register_op::IORING_REGISTER_SYNC_CANCEL as u32;
        let _ = self.register(opcode, &raw const cancel, 1);
    }

    /// The set-up flags that the kernel took.
    pub(crate) fn setup_flags(&self) -> Vec<RingFlag> {
        const FLAGS: [(u32, RingFlag); 10] = [
            (sys::IORING_SETUP_IOPOLL, RingFlag::Iopoll),
            (sys::IORING_SETUP_SQPOLL, RingFlag::Sqpoll),
            (sys::IORING_SETUP_SQ_AFF, RingFlag::SqAff),
            (sys::IORING_SETUP_HYBRID_IOPOLL, RingFlag::HybridIopoll),
            (sys::IORING_SETUP_CLAMP, RingFlag::Clamp),
            (sys::IORING_SETUP_COOP_TASKRUN, RingFlag::CoopTaskrun),
            (sys::IORING_SETUP_SINGLE_ISSUER, RingFlag::SingleIssuer),
            (sys::IORING_SETUP_DEFER_TASKRUN, RingFlag::DeferTaskrun),
            (sys::IORING_SETUP_SQE128, RingFlag::Sqe128),
            (sys::IORING_SETUP_CQE32, RingFlag::Cqe32),
        ];
        FLAGS.iter().filter(|(bit, _)| self.flags & bit != 0).map(|(_, flag)| *flag).collect()
    }
}

#[cfg(test)]
pub(crate) mod simulated;
#[cfg(test)]
mod tests;
