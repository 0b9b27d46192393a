//! An io_uring instance: set-up, the two mapped queues, and `io_uring_enter`.
//!
//! Not the `io-uring` crate's, because hybrid polling and 128-byte entries must work together, and that crate
//! does not offer the combination. Sources: io_uring_setup(2), io_uring_enter(2),
//! include/uapi/linux/io_uring.h. The queues' index arithmetic is separate from the system calls, so it runs
//! under Miri.

use crate::engine::EngineError;
use crate::mmap::Mmap;
use crate::remedy;
use crate::system::last_errno;
use iopj_core::uring::RingFlag;
use linux_raw_sys::io_uring as sys;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// Length of an entry of the submission queue; twice that with IORING_SETUP_SQE128.
pub(crate) const SQE_LEN: usize = 64;
/// Length of an entry of the completion queue.
const CQE_LEN: usize = 16;
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
    /// The next entry, zeroed, of `len` bytes (as the ring was set up); `advance` takes it. The queue must
    /// have room. It has, because the engine has no more requests in flight than the queue has entries, and
    /// an entry that the kernel has not read is in flight.
    #[inline]
    pub(crate) fn next(&mut self, len: usize) -> NonNull<u8> {
        let unread = || if self.has_poller { 0 } else { self.unconsumed() };
        debug_assert!(self.unpublished() + unread() <= self.mask, "the submission queue is full");
        debug_assert_eq!(len, self.stride);
        let index = (self.local_tail & self.mask) as usize;
        // SAFETY: `index` is at most `mask`, so the entry lies within the mapping. The kernel has read what
        // was in it: it lies behind the head, or, with a poller that moves the head late, the completion of
        // what was in it was seen. Until `publish` the kernel does not look at it again.
        unsafe {
            let entry = self.entries.add(index * len);
            entry.write_bytes(0, len);
            entry
        }
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
}

impl CompletionRing {
    /// Completions that are ready to be taken.
    #[inline]
    pub(crate) fn ready(&self) -> u32 {
        // SAFETY: both point into the live ring mapping; only we store the head.
        let (head, tail) = unsafe {
            (self.head.as_ref().load(Ordering::Relaxed), self.tail.as_ref().load(Ordering::Acquire))
        };
        tail.wrapping_sub(head)
    }

    /// Takes up to `limit` completions: `user_data` and result of each.
    #[inline]
    pub(crate) fn take(&mut self, limit: u32, mut each: impl FnMut(u64, i32)) -> u32 {
        let count = self.ready().min(limit);
        // SAFETY: `head` points into the live ring mapping.
        let head = unsafe { self.head.as_ref() };
        let first = head.load(Ordering::Relaxed);
        for number in 0..count {
            let index = (first.wrapping_add(number) & self.mask) as usize;
            // SAFETY: the entry lies between head and tail, so the kernel has written it and will
            // not touch it before the head has passed it. An entry begins with a u64 and an i32.
            let (user_data, result) = unsafe {
                let entry = self.entries.add(index * self.stride);
                (entry.cast::<u64>().read(), entry.add(8).cast::<i32>().read())
            };
            each(user_data, result);
        }
        // Release: the entries are read before the kernel may overwrite them.
        head.store(first.wrapping_add(count), Ordering::Release);
        count
    }
}

/// One instance with its mappings; unmapped and closed when it is dropped.
pub(crate) struct IoUring {
    pub(crate) sq: SubmissionRing,
    pub(crate) cq: CompletionRing,
    /// The flags that the kernel took.
    pub(crate) flags: u32,
    /// What the kernel says that it can do: `IORING_FEAT_*`.
    pub(crate) features: u32,
    fd: OwnedFd,
    _rings: Mmap,
    _entries: Mmap,
}

impl IoUring {
    /// An instance for `iodepth` entries with all the `required` flags, and with as many of the flags that
    /// save work as this kernel knows (`IORING_SETUP_DEFER_TASKRUN` since 6.1, `IORING_SETUP_COOP_TASKRUN`
    /// since 5.19; fio asks for the same). The calling thread must be the one that submits. A submission
    /// poller is kept to the processor `poller`, if one is given.
    pub(crate) fn new(iodepth: u32, required: u32, poller: Option<u32>) -> Result<IoUring, EngineError> {
        const COOPERATE: u32 = sys::IORING_SETUP_COOP_TASKRUN;
        const DEFER: u32 = COOPERATE | sys::IORING_SETUP_SINGLE_ISSUER | sys::IORING_SETUP_DEFER_TASKRUN;
        let savings: &[u32] =
            if required & sys::IORING_SETUP_SQPOLL != 0 { &[0] } else { &[DEFER, COOPERATE, 0] };
        let mut errno = 0;
        for saving in savings {
            // SAFETY: the parameters are plain integers, for which zero is a valid value.
            let mut params: sys::io_uring_params = unsafe { std::mem::zeroed() };
            params.flags = required | saving | sys::IORING_SETUP_CLAMP;
            if let Some(cpu) = poller {
                params.flags |= sys::IORING_SETUP_SQ_AFF;
                params.sq_thread_cpu = cpu;
            }
            // SAFETY: `params` is valid for the call, which writes it.
            let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, iodepth, &raw mut params) };
            if fd >= 0 {
                // SAFETY: the call has just returned this descriptor to us alone.
                return IoUring::map(unsafe { OwnedFd::from_raw_fd(fd as i32) }, &params);
            }
            errno = last_errno();
            if errno != libc::EINVAL {
                break;
            }
        }
        Err(EngineError::call("io_uring_setup", errno, remedy::io_uring_setup(errno, required)))
    }

    fn map(fd: OwnedFd, params: &sys::io_uring_params) -> Result<IoUring, EngineError> {
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
        };
        Ok(IoUring {
            sq,
            cq,
            flags: params.flags,
            features: params.features,
            fd,
            _rings: rings,
            _entries: entries,
        })
    }

    /// `io_uring_enter`: submits up to `to_submit` entries and, with `IORING_ENTER_GETEVENTS` in `flags`,
    /// waits for `min_complete` completions. Returns the number of entries consumed, or the errno.
    #[inline]
    pub(crate) fn enter(&self, to_submit: u32, min_complete: u32, flags: u32) -> Result<u32, i32> {
        // SAFETY: the descriptor is this ring's; the engine is responsible for what the entries point to, and
        // follows the pool's rules.
        let consumed = unsafe {
            libc::syscall(
                libc::SYS_io_uring_enter,
                self.fd.as_raw_fd(),
                to_submit,
                min_complete,
                flags,
                std::ptr::null::<libc::c_void>(),
                0usize,
            )
        };
        if consumed < 0 { Err(last_errno()) } else { Ok(consumed as u32) }
    }

    /// `io_uring_register` with an array of `count` elements.
    pub(crate) fn register<T>(&self, opcode: u32, argument: *const T, count: u32) -> Result<(), i32> {
        // SAFETY: callers pass a live array of `count` elements of the opcode's type.
        let result = unsafe {
            libc::syscall(libc::SYS_io_uring_register, self.fd.as_raw_fd(), opcode, argument, count)
        };
        if result < 0 { Err(last_errno()) } else { Ok(()) }
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Queues over memory of our own, with the test in the kernel's place. Indices start just below
    /// the wrap-around of u32.
    struct Simulated {
        words: Vec<AtomicU32>,
        sqes: Vec<u64>,
        cqes: Vec<u64>,
    }

    const START: u32 = u32::MAX - 5;

    impl Simulated {
        fn new(entries: u32) -> Simulated {
            let words = [START, START, 0, START, START].map(AtomicU32::new).into();
            Simulated {
                words,
                sqes: vec![0; entries as usize * SQE_LEN / 8],
                cqes: vec![0; 2 * entries as usize * CQE_LEN / 8],
            }
        }

        fn queues(&mut self, entries: u32) -> (SubmissionRing, CompletionRing) {
            let word = |index: usize| NonNull::from(&self.words[index]);
            let sq = SubmissionRing {
                head: word(0),
                tail: word(1),
                flags: word(2),
                entries: NonNull::new(self.sqes.as_mut_ptr()).unwrap().cast(),
                stride: SQE_LEN,
                mask: entries - 1,
                local_tail: START,
                published: START,
                has_poller: false,
            };
            let cq = CompletionRing {
                head: word(3),
                tail: word(4),
                entries: NonNull::new(self.cqes.as_mut_ptr()).unwrap().cast(),
                stride: CQE_LEN,
                mask: 2 * entries - 1,
            };
            (sq, cq)
        }
    }

    /// Consumes all published entries as the kernel would, and completes each with its own number.
    fn kernel(sq: &SubmissionRing, cq: &CompletionRing) -> u32 {
        // SAFETY: all pointers name memory of `Simulated`, which outlives the queues.
        unsafe {
            let tail = sq.tail.as_ref().load(Ordering::Acquire);
            let head = sq.head.as_ref().load(Ordering::Relaxed);
            let count = tail.wrapping_sub(head);
            for number in 0..count {
                let entry = sq.entries.add((head.wrapping_add(number) & sq.mask) as usize * sq.stride);
                let at = cq.tail.as_ref().load(Ordering::Relaxed);
                let place = cq.entries.add((at & cq.mask) as usize * cq.stride);
                place.cast::<u64>().write(entry.add(USER_DATA_AT).cast::<u64>().read());
                place.add(8).cast::<i32>().write(number as i32);
                cq.tail.as_ref().store(at.wrapping_add(1), Ordering::Release);
            }
            sq.head.as_ref().store(tail, Ordering::Release);
            count
        }
    }

    fn push(sq: &mut SubmissionRing, user_data: u64) {
        let entry = sq.next(SQE_LEN);
        // SAFETY: the entry is ours until it is published.
        unsafe { entry.add(USER_DATA_AT).cast::<u64>().write(user_data) };
        sq.advance();
    }

    #[test]
    fn what_is_taken_back_is_reported_and_never_seen_by_the_kernel() {
        let mut memory = Simulated::new(8);
        let (mut sq, mut cq) = memory.queues(8);
        let mut number = 0;
        let mut push_three = |sq: &mut SubmissionRing| {
            (0..3).for_each(|more| push(sq, number + more));
            number += 3;
        };
        // Three times: the entries go round and the indices wrap.
        for round in 0..3 {
            let first = round * 12;
            let (mut back, mut seen) = (Vec::new(), Vec::new());
            push_three(&mut sq);
            sq.publish();
            push_three(&mut sq);
            assert_eq!(sq.take_back_unpublished(|user_data| back.push(user_data)), 3);
            assert_eq!(back, [first + 3, first + 4, first + 5]);
            assert_eq!((sq.unpublished(), kernel(&sq, &cq)), (0, 3));
            push_three(&mut sq);
            sq.publish();
            push_three(&mut sq);
            back.clear();
            assert_eq!(sq.take_back_unconsumed(|user_data| back.push(user_data)), 6);
            assert_eq!(back, Vec::from_iter(first + 6..first + 12));
            assert_eq!((sq.unpublished(), sq.unconsumed(), kernel(&sq, &cq)), (0, 0, 0));
            cq.take(u32::MAX, |user_data, _| seen.push(user_data));
            assert_eq!(seen, [first, first + 1, first + 2]);
        }
    }

    /// Linux stores the head after a batch (`io_submit_sqes`), and the completions of its entries may be
    /// there before.
    #[test]
    fn a_poller_that_moves_the_head_late_is_not_a_full_queue() {
        let mut memory = Simulated::new(4);
        let (mut sq, mut cq) = memory.queues(4);
        sq.has_poller = true;
        (0..4).for_each(|number| push(&mut sq, number));
        sq.publish();
        let head = sq.published.wrapping_sub(sq.unconsumed());
        assert_eq!(kernel(&sq, &cq), 4);
        // SAFETY: the word is memory of `Simulated`.
        unsafe { sq.head.as_ref() }.store(head, Ordering::Release);
        assert_eq!(cq.take(u32::MAX, |_, _| {}), 4);
        (4..8).for_each(|number| push(&mut sq, number));
        assert_eq!((sq.unpublished(), sq.unconsumed()), (4, 4));
        let mut back = Vec::new();
        assert_eq!(sq.take_back_unpublished(|user_data| back.push(user_data)), 4);
        assert_eq!(back, [4, 5, 6, 7]);
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 4 } else { 256 },
            failure_persistence: None,
            ..ProptestConfig::default()
        })]
        #[test]
        fn every_entry_comes_back_once_and_in_order(
            pushes in proptest::collection::vec(0u32..12, 1..40),
            power in 0u32..4,
        ) {
            let entries = 1 << power;
            let mut memory = Simulated::new(entries);
            let (mut sq, mut cq) = memory.queues(entries);
            let (mut pushed, mut seen) = (0u64, 0u64);
            for count in pushes {
                for _ in 0..count.min(entries) {
                    push(&mut sq, pushed);
                    pushed += 1;
                }
                prop_assert!(sq.unpublished() <= entries);
                sq.publish();
                let published = sq.unconsumed();
                prop_assert_eq!(kernel(&sq, &cq), published);
                prop_assert_eq!(sq.unconsumed(), 0);
                let limit = count.max(1);
                while cq.ready() > 0 {
                    let taken = cq.take(limit, |user_data, _| {
                        assert_eq!(user_data, seen);
                        seen += 1;
                    });
                    prop_assert!(taken <= limit);
                }
            }
            prop_assert_eq!(seen, pushed);
        }
    }
}
