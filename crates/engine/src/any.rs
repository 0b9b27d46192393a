//! The engine of a path that is chosen at run time.

use crate::engine::{DynEngine, Engine};
use crate::error::EngineError;
use crate::gate::check_depth;
use crate::libaio::Libaio;
use crate::null::Null;
use crate::nvme_user::NvmeUser;
use crate::obstacle::{Obstacle, not_taken};
use crate::pool::Pool;
use crate::posix_aio::PosixAio;
use crate::posix_sio::PosixSio;
use crate::ring::{IoUring, KernelCpus, NvmePassthrough};
use crate::target::Target;
use iopj_path::IoPath;

/// An engine of one of the interfaces. [`AnyEngine::visit`] leads to code that is made for the interface,
/// with nothing to be decided for each I/O; [`AnyEngine::boxed`] to an object.
#[non_exhaustive]
#[expect(missing_docs, reason = "the variants have the names of their engines")]
pub enum AnyEngine {
    PosixSio(PosixSio),
    PosixAio(PosixAio),
    Libaio(Libaio),
    IoUring(IoUring),
    NvmePassthrough(NvmePassthrough),
    NvmeUser(NvmeUser),
    Null(Null),
    Other(Box<dyn DynEngine>),
}

/// What is done with an engine whose interface was chosen at run time.
pub trait Visitor {
    /// What comes of it.
    type Output;
    /// Does it.
    fn visit<E: Engine + 'static>(self, engine: E) -> Self::Output;
}

impl AnyEngine {
    /// Calls the visitor with the engine.
    pub fn visit<V: Visitor>(self, visitor: V) -> V::Output {
        match self {
            AnyEngine::PosixSio(engine) => visitor.visit(engine),
            AnyEngine::PosixAio(engine) => visitor.visit(engine),
            AnyEngine::Libaio(engine) => visitor.visit(engine),
            AnyEngine::IoUring(engine) => visitor.visit(engine),
            AnyEngine::NvmePassthrough(engine) => visitor.visit(engine),
            AnyEngine::NvmeUser(engine) => visitor.visit(engine),
            AnyEngine::Null(engine) => visitor.visit(engine),
            AnyEngine::Other(engine) => visitor.visit(engine),
        }
    }

    /// The engine as an object.
    pub fn boxed(self) -> Box<dyn DynEngine> {
        struct Boxed;
        impl Visitor for Boxed {
            type Output = Box<dyn DynEngine>;
            fn visit<E: Engine + 'static>(self, engine: E) -> Box<dyn DynEngine> {
                Box::new(engine)
            }
        }
        match self {
            AnyEngine::Other(engine) => engine,
            engine => engine.visit(Boxed),
        }
    }
}

/// Opens the engine of `path` on `target` for up to `iodepth` requests in flight over the buffers of `pool`.
/// Each engine has descriptors of its own, opened as the target was (O_DIRECT; for writing only where the
/// target was opened for writing).
///
/// # Errors
/// The path cannot work on this target or this kernel; the message says why and what to do.
pub fn open(
    path: IoPath,
    target: &Target,
    pool: &Pool,
    iodepth: u32,
) -> Result<Box<dyn DynEngine>, EngineError> {
    open_on(path, target, pool, iodepth, &KernelCpus::default()).map(AnyEngine::boxed)
}

/// As [`open`], with the kernel's own threads kept to `cpus` (paths without such threads ignore it), and the
/// engine as one of its interface.
///
/// # Errors
/// As [`open`]; and a processor that this machine or this process does not have.
pub fn open_on(
    path: IoPath,
    target: &Target,
    pool: &Pool,
    iodepth: u32,
    cpus: &KernelCpus,
) -> Result<AnyEngine, EngineError> {
    check_depth(iodepth)?;
    let needs = |needs: &str| {
        EngineError::unsupported(format!("{path} needs {needs}, which {} is not", target.path().display()))
    };
    if target.bypass().is_some() && !matches!(path, IoPath::NvmeUser(_)) {
        let taken = target.taken();
        return Err(EngineError::unsupported(format!("{path} needs the kernel's driver, and {taken}")));
    }
    let is_character = matches!(path, IoPath::NvmePassthrough(_));
    if target.nvme().is_some() && !is_character && !matches!(path, IoPath::NvmeUser(_)) {
        return Err(needs("a file or a block device"));
    }
    Ok(match path {
        IoPath::PosixSio(mode) => AnyEngine::PosixSio(PosixSio::open(target, pool, mode, iodepth)?),
        IoPath::PosixAio(descriptors) => {
            AnyEngine::PosixAio(PosixAio::open(target, pool, descriptors, iodepth)?)
        }
        IoPath::Libaio => AnyEngine::Libaio(Libaio::open(target, pool, iodepth, None)?),
        IoPath::IoUring(modes) => AnyEngine::IoUring(
            IoUring::builder().modes(modes).iodepth(iodepth).cpus(cpus.clone()).open(target, pool)?,
        ),
        IoPath::NvmePassthrough(modes) if target.nvme().is_some() => AnyEngine::NvmePassthrough(
            NvmePassthrough::builder().modes(modes).iodepth(iodepth).cpus(cpus.clone()).open(target, pool)?,
        ),
        IoPath::NvmePassthrough(_) => {
            return Err(needs("the character device of an NVMe namespace, /dev/ngXnY"));
        }
        IoPath::NvmeUser(mode) if target.bypass().is_some() => {
            AnyEngine::NvmeUser(NvmeUser::builder().completion(mode).iodepth(iodepth).open(target, pool)?)
        }
        IoPath::NvmeUser(_) => {
            let Obstacle { reason, remedy } = not_taken(target);
            return Err(EngineError::unsupported(format!("{path} cannot work: {reason}; {remedy}")));
        }
        other => return Err(EngineError::unsupported(format!("iopj has no engine for {other}"))),
    })
}
