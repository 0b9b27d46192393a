//! A kernel in Rust behind `RawRing::enter`: it consumes entries, moves their bytes between a disk in memory
//! and the buffers that they name, and completes them in an order of its own. With it the whole engine runs
//! under Miri.

use super::*;
use std::cell::RefCell;
use std::ptr;
use sys::io_uring_op::{
    IORING_OP_FALLOCATE, IORING_OP_FSYNC, IORING_OP_READ, IORING_OP_READV, IORING_OP_WRITE, IORING_OP_WRITEV,
};

pub(crate) struct Kernel(RefCell<State>);

struct State {
    disk: Vec<u8>,
    /// `user_data` and result of what was consumed and has not completed.
    pending: Vec<(u64, i32)>,
    /// The flags of the latest transfer.
    rw_flags: u32,
    random: u64,
}

/// Where the words of the shared part lie: head and tail of submissions, flags, head and tail of completions;
/// then the entries of the completion queue.
const WORDS: [usize; 5] = [0, 4, 8, 12, 16];
const CQES_AT: usize = 64;

impl RawRing {
    /// A ring of `entries` entries, a power of two, on a disk with these bytes. Its indices wrap around soon.
    pub(crate) fn simulated(entries: u32, disk: Vec<u8>, seed: u64) -> RawRing {
        let start = u32::MAX - 5;
        let map = |len| Mmap::anonymous(len, libc::MAP_PRIVATE).expect("some pages");
        let rings = map(CQES_AT + 2 * entries as usize * CQE_LEN);
        let sqes = map(entries as usize * SQE_LEN);
        let word = |number: usize| -> NonNull<AtomicU32> { rings.at(WORDS[number], 4).cast() };
        for number in [0, 1, 3, 4] {
            // SAFETY: the word lies within the mapping, which nobody else has.
            unsafe { word(number).as_ref() }.store(start, Ordering::Relaxed);
        }
        let sq = SubmissionRing {
            head: word(0),
            tail: word(1),
            flags: word(2),
            entries: sqes.base(),
            stride: SQE_LEN,
            mask: entries - 1,
            local_tail: start,
            published: start,
            has_poller: false,
        };
        let cq = CompletionRing {
            head: word(3),
            tail: word(4),
            entries: rings.at(CQES_AT, 2 * entries as usize * CQE_LEN),
            stride: CQE_LEN,
            mask: 2 * entries - 1,
            local_head: start,
        };
        let state = State { disk, pending: Vec::new(), rw_flags: 0, random: seed };
        RawRing {
            sq,
            cq,
            flags: 0,
            features: 0,
            fd: RingFd::new(std::fs::File::open("/dev/null").expect("every system has it").into())
                .expect("it keeps its number"),
            _rings: rings,
            _entries: sqes,
            simulated: Some(Kernel(RefCell::new(state))),
        }
    }

    /// The bytes of the simulated disk.
    pub(crate) fn disk(&self) -> Vec<u8> {
        self.simulated.as_ref().expect("a simulated ring").0.borrow().disk.clone()
    }

    /// The flags of the latest read or write.
    pub(crate) fn rw_flags(&self) -> u32 {
        self.simulated.as_ref().expect("a simulated ring").0.borrow().rw_flags
    }
}

impl Kernel {
    /// Consumes `to_submit` entries, and completes at least as many requests as `min` asks for; perhaps more.
    pub(super) fn enter(&self, ring: &RawRing, to_submit: u32, min: u32) -> u32 {
        let mut state = self.0.borrow_mut();
        // SAFETY: the words are the ring's, which is alive.
        let (head, tail) = unsafe { (ring.sq.head.as_ref(), ring.sq.tail.as_ref()) };
        let first = head.load(Ordering::Relaxed);
        let count = tail.load(Ordering::Acquire).wrapping_sub(first).min(to_submit);
        for number in 0..count {
            let place = (first.wrapping_add(number) & ring.sq.mask) as usize;
            // SAFETY: the entry was published and not consumed, so nobody writes it.
            let entry = unsafe { ring.sq.entries.add(place * SQE_LEN).cast::<sys::io_uring_sqe>().as_ref() };
            let result = state.perform(entry);
            state.pending.push((entry.user_data, result));
        }
        head.store(first.wrapping_add(count), Ordering::Release);
        let mut ends = (min.saturating_sub(ring.cq.ready()) as usize).min(state.pending.len());
        if to_submit == 0 {
            // The caller asks for what there is; nothing at all is no answer of a device that works.
            ends = ends.max(state.pending.len().min(1));
        }
        let others = state.pending.len() - ends;
        ends += state.number(others + 1);
        for _ in 0..ends {
            let count = state.pending.len();
            let which = state.number(count);
            let (user_data, result) = state.pending.swap_remove(which);
            ring.post(user_data, result);
        }
        count
    }
}

impl RawRing {
    fn post(&self, user_data: u64, result: i32) {
        // SAFETY: the words and entries are the ring's, which is alive; the entry at the tail is free, as the
        // queue is twice as long as that of submissions.
        unsafe {
            let tail = self.cq.tail.as_ref();
            let at = tail.load(Ordering::Relaxed);
            assert!(at.wrapping_sub(self.cq.head.as_ref().load(Ordering::Acquire)) <= self.cq.mask);
            let entry = self.cq.entries.add((at & self.cq.mask) as usize * CQE_LEN);
            entry.cast::<u64>().write(user_data);
            entry.add(8).cast::<i32>().write(result);
            tail.store(at.wrapping_add(1), Ordering::Release);
        }
    }
}

impl State {
    /// A number below `limit`, or 0.
    fn number(&mut self, limit: usize) -> usize {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) as usize % limit.max(1)
    }

    fn perform(&mut self, entry: &sys::io_uring_sqe) -> i32 {
        // SAFETY: the fields are plain integers, and the operation says which are meant.
        let (offset, address) = unsafe { (entry.__bindgen_anon_1.off, entry.__bindgen_anon_2.addr) };
        let is = |op: sys::io_uring_op| entry.opcode == op as u8;
        if is(IORING_OP_FSYNC) {
            return 0;
        }
        if is(IORING_OP_FALLOCATE) {
            let (from, len) = (offset as usize, address as usize);
            self.disk[from..from + len].fill(0);
            return 0;
        }
        let vectors = if is(IORING_OP_READV) || is(IORING_OP_WRITEV) {
            let vectors = ptr::with_exposed_provenance::<libc::iovec>(address as usize);
            // SAFETY: the engine keeps the vectors while the request is in flight.
            unsafe { std::slice::from_raw_parts(vectors, entry.len as usize) }.to_vec()
        } else {
            let base = ptr::with_exposed_provenance_mut(address as usize);
            vec![libc::iovec { iov_base: base, iov_len: entry.len as usize }]
        };
        let writes = is(IORING_OP_WRITE) || is(IORING_OP_WRITEV);
        assert!(writes || is(IORING_OP_READ) || is(IORING_OP_READV), "operation {}", entry.opcode);
        // SAFETY: as above.
        self.rw_flags = unsafe { entry.__bindgen_anon_3.rw_flags };
        let mut at = offset as usize;
        for libc::iovec { iov_base, iov_len } in vectors {
            let disk = &mut self.disk[at..at + iov_len];
            // SAFETY: the buffer is in flight, so nobody else has its bytes.
            let buffer = unsafe { std::slice::from_raw_parts_mut(iov_base.cast::<u8>(), iov_len) };
            if writes {
                disk.copy_from_slice(buffer)
            } else {
                buffer.copy_from_slice(disk)
            }
            at += iov_len;
        }
        (at - offset as usize) as i32
    }
}
