//! Reads and writes a file, a block device or an NVMe namespace on every path that Linux offers, behind one
//! trait: synchronous calls, POSIX AIO, libaio, io_uring, NVMe passthrough, and an NVMe driver of its own.
//!
//! An [`Engine`] does I/O on one [`Target`] over the slots of one [`Pool`], for the thread that opened it.
//! All I/O is direct (`O_DIRECT`). The crate serves an application alone: it changes no setting and prints
//! nothing.
//!
//! # Reading at depth
//!
//! A path is named by its text: interface, submission and completion, such as `io_uring/syscall/interrupt`.
//! [`open`] opens an engine for it. [`Engine::push`] queues requests, each of which names a slot of the pool;
//! [`Engine::wait`] submits them, waits, and hands out completions. A slot is free again once its request has
//! completed.
//!
//! ```
//! use iopj_engine::target::make_file;
//! use iopj_engine::{IoPath, Op, Pool, Request, Slot, Target, check};
//!
//! const DEPTH: u32 = 8;
//! const LEN: u32 = 4096;
//!
//! # let folder = tempfile::tempdir_in(".")?;
//! # let file = &folder.path().join("data");
//! make_file(file, 1 << 20, &mut |_| true)?; // 1 MiB of random bytes, all of them on the device
//! let target = Target::open(file)?;
//! let mut path: IoPath = "io_uring/syscall/interrupt".parse()?;
//! if !check::check(path, &target).is_available() {
//!     path = "libaio/syscall/interrupt".parse()?;
//! }
//!
//! let pool = Pool::new(DEPTH, LEN)?;
//! let mut engine = iopj_engine::open(path, &target, &pool, DEPTH)?;
//! let mut offset = target.data_offset();
//! let end = offset + target.data_len();
//! let mut free: Vec<Slot> = (0..DEPTH).map(Slot).collect();
//! let mut done = Vec::with_capacity(DEPTH as usize);
//! let mut bytes = 0;
//! while offset < end || engine.in_flight() > 0 {
//!     while offset < end && let Some(slot) = free.pop() {
//!         engine.push(&[Request { op: Op::Read, slot, len: LEN, offset, tag: offset }])?;
//!         offset += u64::from(LEN);
//!     }
//!     engine.wait(1, &mut done)?;
//!     for completion in done.drain(..) {
//!         bytes += u64::from(completion.result?);
//!         let _data = &pool.borrow(completion.slot)?[..]; // the block at offset `completion.tag`
//!         free.push(completion.slot);
//!     }
//! }
//! assert_eq!(bytes, 1 << 20);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Which paths work here
//!
//! [`check::check`] tries a path by one read. Where it does not work, it says why and what would make it
//! work.
//!
//! ```
//! use iopj_engine::check::{Availability, check};
//! use iopj_engine::{IoPath, Target};
//!
//! # let folder = tempfile::tempdir_in(".")?;
//! # let path = &folder.path().join("data");
//! # iopj_engine::target::make_file(path, 4096, &mut |_| true)?;
//! let target = Target::open(path)?;
//! for path in IoPath::all() {
//!     match check(path, &target) {
//!         Availability::Available { notes } => println!("{path}: works {notes:?}"),
//!         Availability::Unavailable { reason, remedy } => println!("{path}: {reason}; {remedy}"),
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Errors
//!
//! There are four kinds. [`PoolError`]: the pool has no memory for its slots, or a slot is not free.
//! [`target::TargetError`]: the target cannot be used, and the message says what to
//! do. [`EngineError`]: the engine could not be opened, is finished, or refuses a request. [`IoError`]: one
//! I/O failed; it comes with the [`Completion`], and the engine goes on.
//!
//! ```
//! use iopj_engine::target::{TargetError, TargetFault};
//! use iopj_engine::{Op, Pool, Request, Slot, Target};
//!
//! let error = Target::open("no/such/file".as_ref()).unwrap_err();
//! assert!(matches!(error, TargetError::Unfit { fault: TargetFault::NotFound, .. }));
//!
//! # let folder = tempfile::tempdir_in(".")?;
//! # let path = &folder.path().join("data");
//! # iopj_engine::target::make_file(path, 4096, &mut |_| true)?;
//! let target = Target::open(path)?;
//! let pool = Pool::new(1, 4096)?;
//! let mut engine = iopj_engine::open("posix-sio/syscall/interrupt".parse()?, &target, &pool, 1)?;
//! let request = Request { op: Op::Read, slot: Slot(0), len: 4096, offset: 1, tag: 0 };
//! assert!(engine.push(&[Request { slot: Slot(9), ..request }]).is_err(), "the pool has one slot");
//! engine.push(&[request])?; // direct I/O needs aligned offsets: the kernel refuses this one
//! let mut done = Vec::with_capacity(1);
//! engine.wait(1, &mut done)?;
//! println!("{}", done[0].result.unwrap_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Writing
//!
//! [`Target::open_for_writing`] opens a file that [`target::make_file`] made, or a whole device that nobody
//! uses and that is named twice. Everything else is refused, so nothing is overwritten by mistake.
//!
//! # Threads, memory and the end
//!
//! An engine stays on its thread; open one per thread, on the same target. A pool belongs to a thread too,
//! and several engines share it. A dropped engine waits for what is in flight for at most five seconds, then
//! leaks what the kernel still uses, so the kernel never writes into freed memory.
//!
//! # Features
//!
//! `sim`: an engine without a device ([`sim`]) and a simulated NVMe drive, for tests.

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("iopj measures Linux on 64-bit machines");

pub mod check;
mod control_blocks;
mod drain;
mod engine;
mod io_uring;
mod libaio;
mod mmap;
mod nvme_passthrough;
pub mod nvme_user;
mod pci;
mod pool;
mod posix_aio;
mod posix_sio;
mod remedy;
mod ring;
mod ring_engine;
mod ring_setup;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
mod system;
pub mod target;

pub use engine::{Cause, Completion, Engine, EngineError, EngineFacts, IoError, Op, Request};
pub use iopj_core::IoPath;
pub use pci::{Isolation, ParsePciAddressError, PciAddress};
pub use pool::{Pool, PoolError, Slot, SlotGuard};
pub use ring_setup::KernelCpus;
pub use target::Target;

use check::Obstacle;
use io_uring::ReadWrite;
use iopj_core::path::AioDescriptors;
use nvme_passthrough::Passthrough;
use ring_engine::RingEngine;
use std::rc::Rc;

/// Opens the engine of `path` on `target` for up to `iodepth` requests in flight over the slots of
/// `pool`. Each engine has descriptors of its own, opened as the target was (O_DIRECT; for writing
/// only where the target was opened for writing).
///
/// # Errors
/// The path cannot work on this target or this kernel; the message says why and what to do.
pub fn open(
    path: IoPath,
    target: &Target,
    pool: &Rc<Pool>,
    iodepth: u32,
) -> Result<Box<dyn Engine>, EngineError> {
    open_on(path, target, pool, iodepth, &KernelCpus::default())
}

/// As [`open`], with the kernel's own threads kept to `cpus`. Paths without such threads ignore it.
///
/// # Errors
/// As [`open`]; and a processor that this machine or this process does not have.
pub fn open_on(
    path: IoPath,
    target: &Target,
    pool: &Rc<Pool>,
    iodepth: u32,
    cpus: &KernelCpus,
) -> Result<Box<dyn Engine>, EngineError> {
    if iodepth == 0 || iodepth > MAX_IODEPTH {
        return Err(EngineError::unsupported(format!(
            "iodepth {iodepth} is not between 1 and {MAX_IODEPTH}"
        )));
    }
    let wrong = |needs: &str| {
        EngineError::unsupported(format!("{path} needs {needs}, which {} is not", target.path().display()))
    };
    if let Some((controller, namespace)) = target.bypass() {
        let IoPath::NvmeUser(mode) = path else {
            return Err(EngineError::unsupported(format!(
                "{path} needs the kernel's driver, and {}",
                target.taken()
            )));
        };
        let engine =
            nvme_user::NvmeUser::open(controller, namespace, target.is_writable(), pool, mode, iodepth)?;
        return Ok(Box::new(engine));
    }
    if let IoPath::NvmeUser(_) = path {
        let Obstacle { reason, remedy } = check::not_taken(target);
        return Err(EngineError::unsupported(format!("{path} cannot work: {reason}; {remedy}")));
    }
    let fd = || target.reopen().map_err(|error| EngineError::unsupported(error.to_string()));
    if let IoPath::NvmePassthrough(modes) = path {
        let namespace =
            target.nvme().ok_or_else(|| wrong("the character device of an NVMe namespace, /dev/ngXnY"))?;
        let format = Passthrough { namespace };
        return Ok(Box::new(RingEngine::open(format, fd()?, pool, modes, iodepth, cpus)?));
    }
    if target.nvme().is_some() {
        return Err(wrong("a file or a block device"));
    }
    Ok(match path {
        IoPath::PosixSio(mode) => Box::new(posix_sio::PosixSio::open(fd()?, pool, mode, iodepth)?),
        IoPath::PosixAio(descriptors) => {
            let count = if descriptors == AioDescriptors::PerSlot { pool.slots() } else { 1 };
            let fds = (0..count).map(|_| fd()).collect::<Result<_, _>>()?;
            Box::new(posix_aio::PosixAio::open(fds, pool, iodepth))
        }
        IoPath::Libaio => Box::new(libaio::Libaio::open(fd()?, pool, iodepth)?),
        IoPath::IoUring(modes) => Box::new(RingEngine::open(ReadWrite, fd()?, pool, modes, iodepth, cpus)?),
        other => return Err(EngineError::unsupported(format!("iopj has no engine for {other}"))),
    })
}

/// The deepest queue that an engine takes: io_uring's own limit (IORING_MAX_ENTRIES).
pub const MAX_IODEPTH: u32 = 32_768;
