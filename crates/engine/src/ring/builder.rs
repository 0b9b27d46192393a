//! How the engines on rings are opened.

use crate::error::EngineError;
use crate::gate::check_depth;
use crate::pool::Pool;
use crate::ring::engine::RingEngine;
use crate::ring::io_uring::ReadWrite;
use crate::ring::nvme_passthrough::Passthrough;
use crate::ring::setup::KernelCpus;
use crate::target::{Target, TargetKind};
use iopj_path::{Ring, RingCompletion, RingSubmission};
use std::marker::PhantomData;

/// The engine of `io_uring`: reads and writes of a file or a block device.
pub type IoUring = RingEngine<ReadWrite>;

/// The engine of `nvme-passthrough`: NVMe commands on the character device of a namespace.
pub type NvmePassthrough = RingEngine<Passthrough>;

/// How an [`IoUring`] or an [`NvmePassthrough`] is opened.
#[derive(Clone, Debug)]
pub struct RingBuilder<E> {
    modes: Ring,
    iodepth: u32,
    cpus: KernelCpus,
    poller_idle_ms: u32,
    engine: PhantomData<E>,
}

impl<E> RingBuilder<E> {
    pub(crate) fn new() -> RingBuilder<E> {
        RingBuilder {
            modes: Ring::PLAIN,
            iodepth: 1,
            cpus: KernelCpus::default(),
            poller_idle_ms: 0,
            engine: PhantomData,
        }
    }

    /// All modes at once.
    #[must_use]
    pub fn modes(self, modes: Ring) -> RingBuilder<E> {
        RingBuilder { modes, ..self }
    }

    /// A kernel thread polls for submissions (`IORING_SETUP_SQPOLL`), and the engine spins for completions.
    #[must_use]
    pub fn sqpoll(self) -> RingBuilder<E> {
        self.submission(RingSubmission::Sqpoll { kernel_wait: false })
    }

    /// A kernel thread polls for submissions, and the engine waits for completions in the kernel.
    #[must_use]
    pub fn sqpoll_kernel_wait(self) -> RingBuilder<E> {
        self.submission(RingSubmission::Sqpoll { kernel_wait: true })
    }

    /// Submits by one system call and waits by another, as fio does.
    #[must_use]
    pub fn split(self) -> RingBuilder<E> {
        self.submission(RingSubmission::Syscall { split: true })
    }

    fn submission(self, submission: RingSubmission) -> RingBuilder<E> {
        let modes = Ring { submission, ..self.modes };
        self.modes(modes)
    }

    /// The kernel polls the device for completions (`IORING_SETUP_IOPOLL`); it needs poll queues.
    #[must_use]
    pub fn poll(self) -> RingBuilder<E> {
        let modes = Ring { completion: RingCompletion::Poll, ..self.modes };
        self.modes(modes)
    }

    /// The kernel sleeps, then polls (`IORING_SETUP_HYBRID_IOPOLL`, since Linux 6.13).
    #[must_use]
    pub fn hybrid(self) -> RingBuilder<E> {
        let modes = Ring { completion: RingCompletion::Hybrid, ..self.modes };
        self.modes(modes)
    }

    /// Registers the pool and the file with the kernel, so it does not look them up for each I/O. Engines
    /// over one pool share its registration where the kernel can.
    #[must_use]
    pub fn registered(self) -> RingBuilder<E> {
        let modes = Ring { registered: true, ..self.modes };
        self.modes(modes)
    }

    /// The most requests in flight; 1 unless it is set.
    #[must_use]
    pub fn iodepth(self, iodepth: u32) -> RingBuilder<E> {
        RingBuilder { iodepth, ..self }
    }

    /// Where the kernel's own threads of the ring may run.
    #[must_use]
    pub fn cpus(self, cpus: KernelCpus) -> RingBuilder<E> {
        RingBuilder { cpus, ..self }
    }

    /// How long a kernel thread that polls for submissions goes on after the last one, in ms: then it sleeps,
    /// and the next one wakes it by a system call (`sq_thread_idle` of io_uring_setup(2)). A second, unless
    /// it is set or 0.
    #[must_use]
    pub fn poller_idle_ms(self, poller_idle_ms: u32) -> RingBuilder<E> {
        RingBuilder { poller_idle_ms, ..self }
    }
}

impl RingBuilder<IoUring> {
    /// Opens the engine.
    ///
    /// # Errors
    /// The kernel refuses the ring or the registration, with what to do about it; the target has no
    /// descriptor for the kernel's driver; the depth is out of range.
    pub fn open(self, target: &Target, pool: &Pool) -> Result<IoUring, EngineError> {
        check_depth(self.iodepth)?;
        let format = ReadWrite::new(self.modes.registered, target.kind() != TargetKind::File);
        RingEngine::open_with(
            format,
            target,
            pool,
            self.modes,
            self.iodepth,
            (&self.cpus, self.poller_idle_ms),
        )
    }
}

impl RingBuilder<NvmePassthrough> {
    /// Opens the engine.
    ///
    /// # Errors
    /// As for [`IoUring`]'s; the target is not the character device of an NVMe namespace.
    pub fn open(self, target: &Target, pool: &Pool) -> Result<NvmePassthrough, EngineError> {
        check_depth(self.iodepth)?;
        let Some(namespace) = target.nvme() else {
            return Err(EngineError::unsupported(format!(
                "nvme-passthrough needs the character device of an NVMe namespace, /dev/ngXnY, which \
                 {} is not",
                target.path().display()
            )));
        };
        let format = Passthrough { namespace };
        RingEngine::open_with(
            format,
            target,
            pool,
            self.modes,
            self.iodepth,
            (&self.cpus, self.poller_idle_ms),
        )
    }
}

impl IoUring {
    /// A ring that submits by system call and completes by interrupt, unless it is told otherwise.
    pub fn builder() -> RingBuilder<IoUring> {
        RingBuilder::new()
    }
}

impl NvmePassthrough {
    /// A ring that submits by system call and completes by interrupt, unless it is told otherwise.
    pub fn builder() -> RingBuilder<NvmePassthrough> {
        RingBuilder::new()
    }
}
