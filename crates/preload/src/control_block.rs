//! `struct aiocb` of POSIX AIO as glibc has it (aio.h), and who has those that are in flight.

use crate::process::Shared;
use crate::queue::Queue;
use crate::stats::{self, Interface};
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, AtomicIsize, Ordering};
use std::sync::{Arc, Mutex};

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

/// The queue of a thread.
pub(crate) type Flights = Mutex<Queue<Address>>;

/// Where a control block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Address(pub(crate) usize);

/// Whose queue has those that are in flight.
static IN_FLIGHT: Shared<HashMap<Address, Arc<Flights>>> = Shared::new();

impl ControlBlock {
    /// What glibc's aio_error(3) reads.
    pub(crate) fn error(&self) -> c_int {
        self.error.load(Ordering::Acquire)
    }

    /// Marks it as in flight in `queue`.
    pub(crate) fn begin(&self, queue: &Arc<Flights>) {
        self.error.store(libc::EINPROGRESS, Ordering::Relaxed);
        self.result.store(0, Ordering::Relaxed);
        IN_FLIGHT.with(|all| all.insert(self.address(), Arc::clone(queue)));
    }

    /// Takes back that it is in flight: it was not taken.
    pub(crate) fn take_back(&self) {
        IN_FLIGHT.with(|all| all.remove(&self.address()));
        self.error.store(0, Ordering::Relaxed);
    }

    pub(crate) fn address(&self) -> Address {
        Address(std::ptr::from_ref(self).expose_provenance())
    }
}

/// The queue that has a control block in flight.
pub(crate) fn queue_of(address: Address) -> Option<Arc<Flights>> {
    IN_FLIGHT.with(|all| all.get(&address).map(Arc::clone))
}

/// Every queue that has one in flight.
pub(crate) fn queues() -> Vec<Arc<Flights>> {
    let mut queues: Vec<Arc<Flights>> = IN_FLIGHT.with(|all| all.values().map(Arc::clone).collect());
    queues.sort_by_key(Arc::as_ptr);
    queues.dedup_by_key(|queue| Arc::as_ptr(queue));
    queues
}

/// Tells the program what has ended. From then on a control block may be gone.
pub(crate) fn tell(queue: &mut Queue<Address>) {
    for (address, outcome) in queue.ended.drain(..) {
        IN_FLIGHT.with(|all| all.remove(&address));
        stats::moved(Interface::PosixAio, outcome.max(0) as u64);
        let block = std::ptr::with_exposed_provenance::<ControlBlock>(address.0);
        // SAFETY: the program leaves a control block where it is until it is told that the I/O has ended,
        // which the last of these stores does.
        let block = unsafe { &*block };
        block.result.store(if outcome < 0 { -1 } else { outcome }, Ordering::Relaxed);
        block.error.store(if outcome < 0 { -outcome as c_int } else { 0 }, Ordering::Release);
    }
}
