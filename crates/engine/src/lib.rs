//! Engines, targets and buffer pools: every way that Linux offers to do one I/O, behind one trait.
//!
//! An [`Engine`] does I/O on one [`Target`] over the slots of one [`Pool`], for the thread that
//! opened it. It serves an application alone: it changes no setting, prints nothing and knows
//! nothing of studies.
//!
//! ```no_run
//! use iopj_engine::{Op, Pool, Request, Slot, Target};
//! let target = Target::open("data.bin".as_ref())?;
//! let pool = Pool::new(1, 4096)?;
//! let mut engine = iopj_engine::open("io_uring/syscall/interrupt".parse()?, &target, &pool, 1)?;
//! engine.push(&[Request { op: Op::Read, slot: Slot(0), len: 4096, offset: 0, tag: 7 }])?;
//! let mut done = Vec::with_capacity(1);
//! engine.wait(1, &mut done)?;
//! println!("{:?}", done[0].result);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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
pub mod pci;
pub mod pool;
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
pub use pci::{Isolation, PciAddress};
pub use pool::{Pool, Slot};
pub use ring_setup::KernelCpus;
pub use target::Target;

use check::Obstacle;
use iopj_core::IoPath;
use iopj_core::path::AioDescriptors;
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

/// As [`open`], with the kernel's own threads kept to `cpus`. Paths without such threads take no notice.
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
        return Ok(Box::new(nvme_passthrough::open(fd()?, namespace, pool, modes, iodepth, cpus)?));
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
        IoPath::IoUring(modes) => Box::new(io_uring::open(fd()?, pool, modes, iodepth, cpus)?),
        other => return Err(EngineError::unsupported(format!("iopj has no engine for {other}"))),
    })
}

/// The deepest queue that an engine takes: io_uring's own limit (IORING_MAX_ENTRIES).
pub const MAX_IODEPTH: u32 = 32_768;
