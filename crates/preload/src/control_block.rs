//! `struct aiocb` of POSIX AIO as glibc has it (aio.h), and who has those that are in flight.
//!
//! glibc does the I/Os of a descriptor one after the other (`__aio_enqueue_request` of rt/aio_misc.c).
//! Programs may rest on that where two touch one place: what is moved waits for what it would overtake.

use crate::owner::Owner;
use crate::process::{self, Shared};
use crate::queue::Queue;
use crate::stats::{self, Interface, Reason};
use iopj_engine::Op;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicIsize, AtomicU64, AtomicUsize, Ordering};

/// The control block, with the members that glibc keeps to itself.
#[repr(C)]
pub(crate) struct ControlBlock {
    pub(crate) fd: c_int,
    pub(crate) opcode: c_int,
    pub(crate) priority: c_int,
    pub(crate) buffer: *mut c_void,
    pub(crate) len: usize,
    pub(crate) event: libc::sigevent,
    next: *mut c_void,
    absolute_priority: c_int,
    policy: c_int,
    error: AtomicI32,
    result: AtomicIsize,
    pub(crate) offset: i64,
    reserved: [u8; 32],
}

const _: () = assert!(size_of::<ControlBlock>() == size_of::<libc::aiocb>());
const _: () =
    assert!(std::mem::offset_of!(ControlBlock, offset) == std::mem::offset_of!(libc::aiocb, aio_offset));

/// Where a control block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Address(pub(crate) usize);

/// I/Os of the trial whose ends must have been seen.
const TRIAL: u32 = 8;
/// The most of glibc's that are known.
const MOST_OF_GLIBC: usize = 1024;

/// What an I/O reads or writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    fd: c_int,
    writes: bool,
    begin: u64,
    end: u64,
}

impl Place {
    /// True if the order of two matters.
    fn meets(&self, other: &Place) -> bool {
        let overlaps = self.begin < other.end && other.begin < self.end;
        self.fd == other.fd && (self.writes || other.writes) && overlaps
    }
}

/// One in flight.
struct Flight {
    /// Who began it, if that is known. Of ours it is unknown for what a thread of the library has.
    owner: Option<Arc<Owner>>,
    place: Place,
    /// How many were begun before it.
    number: u64,
}

/// What is known of all control blocks.
#[derive(Default)]
struct All {
    /// Ours.
    in_flight: HashMap<Address, Flight>,
    /// Those that glibc has, or whose end the program has not asked for.
    glibcs: HashMap<Address, Flight>,
    begun: u64,
    /// How many of glibc's were asked for by their own thread alone, until they had ended.
    seen: u32,
    /// A thread has asked for another's, or glibc has too many: from then on all are glibc's.
    is_mixed: bool,
}

static ALL: Shared<All> = Shared::new();
/// The generation of the process in which the trial is over.
static TRIED: AtomicU64 = AtomicU64::new(0);
/// How many of glibc's are known.
static OF_GLIBC: AtomicUsize = AtomicUsize::new(0);

/// Who asks for a control block.
#[derive(Clone)]
pub(crate) enum Whose {
    /// It is not in flight, or is glibc's.
    Nobodys,
    /// The caller's.
    Own,
    /// Another thread's.
    Others(Arc<Owner>),
    /// It comes after others', and is glibc's when they have ended.
    Later,
}

impl ControlBlock {
    /// What glibc's aio_error(3) reads.
    pub(crate) fn error(&self) -> c_int {
        self.error.load(Ordering::Acquire)
    }

    /// What it reads or writes.
    pub(crate) fn place(&self, op: Op) -> Place {
        let begin = self.offset.max(0) as u64;
        let end = begin.saturating_add(self.len as u64);
        Place { fd: self.fd, writes: op != Op::Read, begin, end }
    }

    /// Marks it as in flight.
    pub(crate) fn begin(&self, owner: &Arc<Owner>, place: Place) {
        self.error.store(libc::EINPROGRESS, Ordering::Relaxed);
        self.result.store(0, Ordering::Relaxed);
        ALL.with(|all| {
            all.forget(self.address());
            let flight = all.flight(Some(Arc::clone(owner)), place);
            all.in_flight.insert(self.address(), flight);
        });
    }

    /// Marks it as in flight, though it is not yet: it comes after all that were begun on its descriptor. It
    /// is known by the number.
    pub(crate) fn come_later(&self) -> u64 {
        self.error.store(libc::EINPROGRESS, Ordering::Relaxed);
        self.result.store(0, Ordering::Relaxed);
        ALL.with(|all| {
            all.forget(self.address());
            let flight = all.flight(None, Place { fd: self.fd, writes: false, begin: 0, end: 0 });
            let number = flight.number;
            all.in_flight.insert(self.address(), flight);
            number
        })
    }

    /// Tells the program that it has failed. From then on it may be gone.
    pub(crate) fn fail(&self, errno: c_int) {
        self.result.store(-1, Ordering::Relaxed);
        self.error.store(errno, Ordering::Release);
    }

    /// Takes back that it is in flight: it was not taken.
    pub(crate) fn take_back(&self) {
        ALL.with(|all| all.in_flight.remove(&self.address()));
        self.error.store(0, Ordering::Relaxed);
    }

    pub(crate) fn address(&self) -> Address {
        Address(std::ptr::from_ref(self).expose_provenance())
    }

    /// Whose it is, for a thread that asks for it.
    pub(crate) fn asked_by(&self, thread: &Owner) -> Whose {
        ALL.with(|all| {
            if let Some(flight) = all.in_flight.get(&self.address()) {
                let Some(owner) = &flight.owner else { return Whose::Later };
                if owner.is(thread) {
                    return Whose::Own;
                }
                all.is_mixed = true;
                return Whose::Others(Arc::clone(owner));
            }
            if let Some(flight) = all.glibcs.get(&self.address()) {
                all.is_mixed |= flight.owner.as_ref().is_some_and(|owner| !owner.is(thread));
                if self.error() != libc::EINPROGRESS {
                    all.seen += u32::from(flight.owner.is_some() && all.seen < TRIAL);
                    all.forget(self.address());
                }
                if all.seen >= TRIAL || all.is_mixed {
                    TRIED.store(process::generation(), Ordering::Relaxed);
                }
            }
            Whose::Nobodys
        })
    }

    /// Notes that glibc gets it, from a thread that may be in a handler.
    pub(crate) fn leave(&self, owner: Option<Arc<Owner>>, place: Place) {
        ALL.with(|all| {
            if all.glibcs.len() >= MOST_OF_GLIBC {
                all.is_mixed = true;
                all.glibcs.clear();
            }
            if !all.is_mixed {
                let flight = all.flight(owner, place);
                all.glibcs.insert(self.address(), flight);
            }
            OF_GLIBC.store(all.glibcs.len(), Ordering::Relaxed);
        });
    }

    /// Takes that back: glibc has refused it.
    pub(crate) fn refused(&self) {
        ALL.with(|all| all.forget(self.address()));
    }
}

impl All {
    fn flight(&mut self, owner: Option<Arc<Owner>>, place: Place) -> Flight {
        self.begun += 1;
        Flight { owner, place, number: self.begun }
    }

    /// glibc does not have it any more.
    fn forget(&mut self, address: Address) {
        if self.glibcs.remove(&address).is_some() {
            OF_GLIBC.store(self.glibcs.len(), Ordering::Relaxed);
        }
    }
}

/// True while ends are to be seen: in the trial, and while glibc has some.
pub(crate) fn is_watching() -> bool {
    TRIED.load(Ordering::Relaxed) != process::generation() || OF_GLIBC.load(Ordering::Relaxed) > 0
}

/// Whether a control block is moved.
///
/// # Errors
/// Not yet, or not now, or never.
pub(crate) fn may_move(block: &ControlBlock, place: &Place) -> Result<(), Reason> {
    ALL.with(|all| {
        let is_before =
            |(address, flight): (&Address, &Flight)| *address != block.address() && flight.place.meets(place);
        if all.is_mixed {
            Err(Reason::Shared)
        } else if all.seen < TRIAL {
            Err(Reason::Trial)
        } else if all.glibcs.iter().any(is_before) {
            Err(Reason::Overlap)
        } else {
            Ok(())
        }
    })
}

/// The thread that has something in flight which an I/O on this place must not overtake.
pub(crate) fn before(place: &Place) -> Option<Arc<Owner>> {
    ALL.with(|all| all.in_flight.values().find(|flight| flight.place.meets(place))?.owner.clone())
}

/// How many were begun.
pub(crate) fn begun() -> u64 {
    ALL.with(|all| all.begun)
}

/// The threads that have something in flight on a descriptor, of the first `count` that were begun.
pub(crate) fn owners_on(fd: c_int, count: u64) -> Vec<Arc<Owner>> {
    ALL.with(|all| {
        let on = all.in_flight.values().filter(|flight| flight.place.fd == fd && flight.number <= count);
        on.filter_map(|flight| flight.owner.clone()).collect()
    })
}

/// True if something is in flight on a descriptor, or comes later.
pub(crate) fn is_any_on(fd: c_int) -> bool {
    ALL.with(|all| all.in_flight.values().any(|flight| flight.place.fd == fd))
}

/// The threads that have something in flight, of the first `count` that were begun.
pub(crate) fn owners(count: u64) -> Vec<Arc<Owner>> {
    ALL.with(|all| {
        let first = all.in_flight.values().filter(|flight| flight.number <= count);
        first.filter_map(|flight| flight.owner.clone()).collect()
    })
}

/// What came later has been given to glibc.
pub(crate) fn is_glibcs(address: Address, number: u64) {
    ALL.with(|all| {
        // Once glibc has it, it may have ended, and the program have begun another there.
        if all.in_flight.get(&address).is_some_and(|flight| flight.number == number) {
            all.in_flight.remove(&address);
        }
    });
}

/// Counts what has ended, about which the program is not told: it ends, and the control blocks may be gone.
pub(crate) fn count(queue: &mut Queue<Address>) {
    for (address, outcome) in queue.ended.drain(..) {
        stats::moved(Interface::PosixAio, outcome.max(0) as u64);
        ALL.with(|all| all.in_flight.remove(&address));
    }
}

/// Tells the program what has ended. From then on a control block may be gone.
pub(crate) fn tell(queue: &mut Queue<Address>) {
    for (address, outcome) in queue.ended.drain(..) {
        stats::moved(Interface::PosixAio, outcome.max(0) as u64);
        let block = std::ptr::with_exposed_provenance::<ControlBlock>(address.0);
        // Within the lock: who finds it no more in flight finds its end.
        ALL.with(|all| {
            all.in_flight.remove(&address);
            // SAFETY: the program leaves a control block where it is until it is told that the I/O has ended,
            // which the last of these stores does.
            let block = unsafe { &*block };
            block.result.store(if outcome < 0 { -1 } else { outcome }, Ordering::Relaxed);
            block.error.store(if outcome < 0 { -outcome as c_int } else { 0 }, Ordering::Release);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_meet_on_one_place_of_one_descriptor_if_one_writes() {
        let place = |fd, writes, begin, end| Place { fd, writes, begin, end };
        let write = place(3, true, 4096, 8192);
        for (other, meets) in [
            (place(3, false, 0, 4096), false),
            (place(3, false, 0, 4097), true),
            (place(3, true, 8191, 9000), true),
            (place(3, true, 8192, 9000), false),
            (place(4, true, 4096, 8192), false),
        ] {
            assert_eq!((write.meets(&other), other.meets(&write)), (meets, meets), "{other:?}");
        }
        let read = Place { writes: false, ..write };
        assert!(!read.meets(&read));
    }

    #[test]
    fn what_begins_later_is_not_waited_for() {
        // SAFETY: zeroed, it is a control block of nothing.
        let blocks: [ControlBlock; 2] = unsafe { std::mem::zeroed() };
        let owner = Arc::new(Owner::this_thread());
        let place = Place { fd: 1_000_000, writes: true, begin: 0, end: 512 };
        blocks[0].begin(&owner, place);
        let count = begun();
        blocks[1].begin(&owner, place);
        let on = |count| owners_on(place.fd, count).len();
        assert_eq!((on(count), on(u64::MAX), before(&place).is_some()), (1, 2, true));
        blocks[0].take_back();
        assert_eq!((on(count), on(u64::MAX), before(&place).is_some()), (0, 1, true));
        blocks[1].take_back();
        assert!(before(&place).is_none());
    }

    #[test]
    fn what_comes_later_is_nobodys_to_take_and_meets_nothing() {
        // SAFETY: as above.
        let mut block: ControlBlock = unsafe { std::mem::zeroed() };
        block.fd = 1_000_002;
        let (address, thread) = (block.address(), Arc::new(Owner::this_thread()));
        let whole = Place { fd: block.fd, writes: true, begin: 0, end: u64::MAX };
        let number = block.come_later();
        assert_eq!(block.error(), libc::EINPROGRESS);
        assert!(matches!(block.asked_by(&thread), Whose::Later) && before(&whole).is_none());
        assert!(owners_on(block.fd, u64::MAX).is_empty() && is_any_on(block.fd));
        is_glibcs(address, number + 1);
        assert!(matches!(block.asked_by(&thread), Whose::Later), "another has this number");
        is_glibcs(address, number);
        block.fail(libc::EBADF);
        assert!(matches!(block.asked_by(&thread), Whose::Nobodys) && !is_any_on(block.fd));
        assert_eq!((block.error(), block.result.load(Ordering::Relaxed)), (libc::EBADF, -1));
        // Other tests begin theirs meanwhile.
        let before = begun();
        block.begin(&thread, whole);
        assert!(owners(before).iter().all(|owner| !owner.is(&thread)));
        assert!(owners(begun()).iter().any(|owner| owner.is(&thread)));
        block.take_back();
    }

    #[test]
    fn what_glibc_has_on_the_same_place_comes_first() {
        // SAFETY: as above.
        let blocks: [ControlBlock; 2] = unsafe { std::mem::zeroed() };
        let place = Place { fd: 1_000_001, writes: true, begin: 0, end: 512 };
        ALL.with(|all| all.seen = TRIAL);
        blocks[0].leave(None, place);
        assert_eq!((may_move(&blocks[1], &place), is_watching()), (Err(Reason::Overlap), true));
        assert_eq!(may_move(&blocks[1], &Place { begin: 512, end: 1024, ..place }), Ok(()));
        // Its error is 0, so it has ended, as the program sees by asking.
        assert!(matches!(blocks[0].asked_by(&Owner::this_thread()), Whose::Nobodys));
        assert_eq!((may_move(&blocks[1], &place), OF_GLIBC.load(Ordering::Relaxed)), (Ok(()), 0));
    }
}
