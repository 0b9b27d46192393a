//! `struct aiocb` of POSIX AIO as glibc has it (aio.h), and who has those that are in flight.

use crate::owner::Owner;
use crate::process::{self, Shared};
use crate::queue::Queue;
use crate::stats::{self, Interface, Reason};
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicIsize, AtomicU64, Ordering};

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
/// Those that are watched at a time.
const MOST_WATCHED: usize = 64;

/// What is known of all control blocks.
#[derive(Default)]
struct All {
    /// Those in flight: whose, and on which descriptor.
    in_flight: HashMap<Address, (Arc<Owner>, c_int)>,
    /// Those that glibc has, while it is seen whether a thread asks for its own alone.
    watched: HashMap<Address, Arc<Owner>>,
    /// How many were asked for by their own thread alone, until they had ended.
    seen: u32,
    /// A thread has asked for another's: from then on all are glibc's.
    is_mixed: bool,
}

static ALL: Shared<All> = Shared::new();
/// The generation of the process in which the trial is over.
static TRIED: AtomicU64 = AtomicU64::new(0);

/// Who asks for a control block.
#[derive(Clone)]
pub(crate) enum Whose {
    /// It is not in flight, or is glibc's.
    Nobodys,
    /// The caller's.
    Own,
    /// Another thread's.
    Others(Arc<Owner>),
}

impl ControlBlock {
    /// What glibc's aio_error(3) reads.
    pub(crate) fn error(&self) -> c_int {
        self.error.load(Ordering::Acquire)
    }

    /// Marks it as in flight.
    pub(crate) fn begin(&self, owner: &Arc<Owner>) {
        self.error.store(libc::EINPROGRESS, Ordering::Relaxed);
        self.result.store(0, Ordering::Relaxed);
        ALL.with(|all| all.in_flight.insert(self.address(), (Arc::clone(owner), self.fd)));
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
        let has_ended = self.error() != libc::EINPROGRESS;
        ALL.with(|all| {
            if let Some((owner, _)) = all.in_flight.get(&self.address()) {
                if owner.is(thread) {
                    return Whose::Own;
                }
                all.is_mixed = true;
                return Whose::Others(Arc::clone(owner));
            }
            if let Some(owner) = all.watched.get(&self.address()) {
                all.is_mixed |= !owner.is(thread);
                if has_ended {
                    all.watched.remove(&self.address());
                    all.seen += 1;
                }
                if all.seen >= TRIAL || all.is_mixed {
                    TRIED.store(process::generation(), Ordering::Relaxed);
                }
            }
            Whose::Nobodys
        })
    }
}

/// True while it is seen whether threads ask for their own alone.
pub(crate) fn is_trial() -> bool {
    TRIED.load(Ordering::Relaxed) != process::generation()
}

/// Whether control blocks are moved.
///
/// # Errors
/// Not yet, or never.
pub(crate) fn may_move(block: &ControlBlock, thread: &Arc<Owner>) -> Result<(), Reason> {
    ALL.with(|all| {
        if all.is_mixed {
            return Err(Reason::Shared);
        }
        if all.seen >= TRIAL {
            return Ok(());
        }
        if all.watched.len() < MOST_WATCHED {
            all.watched.insert(block.address(), Arc::clone(thread));
        }
        Err(Reason::Trial)
    })
}

/// The threads that have something in flight on a descriptor.
pub(crate) fn owners_on(fd: c_int) -> Vec<Arc<Owner>> {
    ALL.with(|all| {
        let on = all.in_flight.values().filter(|(_, other)| *other == fd);
        on.map(|(owner, _)| Arc::clone(owner)).collect()
    })
}

/// Tells the program what has ended. From then on a control block may be gone.
pub(crate) fn tell(queue: &mut Queue<Address>) {
    for (address, outcome) in queue.ended.drain(..) {
        ALL.with(|all| all.in_flight.remove(&address));
        stats::moved(Interface::PosixAio, outcome.max(0) as u64);
        let block = std::ptr::with_exposed_provenance::<ControlBlock>(address.0);
        // SAFETY: the program leaves a control block where it is until it is told that the I/O has ended,
        // which the last of these stores does.
        let block = unsafe { &*block };
        block.result.store(if outcome < 0 { -1 } else { outcome }, Ordering::Relaxed);
        block.error.store(if outcome < 0 { -outcome as c_int } else { 0 }, Ordering::Release);
    }
}
