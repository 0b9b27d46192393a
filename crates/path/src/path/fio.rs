//! An I/O path in fio's words: its engine, and the engine's options. A whole job is left to the generator.

use super::{AioDescriptors, IoPath, Ring, RingCompletion, RingSubmission, SioCompletion};

impl IoPath {
    /// The name of fio's engine for this path (its `engines/`).
    ///
    /// # Errors
    /// What fio lacks for this path.
    pub fn fio_engine(&self) -> Result<&'static str, &'static str> {
        if let Some(ring) = self.ring() {
            if ring.completion == RingCompletion::Hybrid {
                return Err("no option for io_uring's hybrid completion");
            }
            if let RingSubmission::Sqpoll { kernel_wait: true } = ring.submission {
                return Err("no option to wait in the kernel under sqpoll");
            }
        }
        match self {
            IoPath::PosixSio(_) => Ok("pvsync2"),
            IoPath::PosixAio(AioDescriptors::PerJob) => Ok("posixaio"),
            IoPath::PosixAio(AioDescriptors::PerSlot) => Err("one descriptor per job, never one per slot"),
            IoPath::Libaio => Ok("libaio"),
            IoPath::IoUring(_) => Ok("io_uring"),
            IoPath::NvmePassthrough(_) => Ok("io_uring_cmd"),
            IoPath::Spdk => Ok("spdk"),
            IoPath::NvmeUser(_) => Err("no engine for this interface"),
            IoPath::Program(_) => Err("no engine that is another program"),
            IoPath::Auto(_) => Err("no engine that chooses its way"),
        }
    }

    /// The options with which fio takes this path, `ioengine` first (its HOWTO, "I/O engine").
    ///
    /// # Errors
    /// What fio lacks for this path.
    pub fn fio_options(&self) -> Result<Vec<(&'static str, &'static str)>, &'static str> {
        let mut options = vec![("ioengine", self.fio_engine()?)];
        match self {
            // An NVMe character device has neither a page cache nor O_DIRECT.
            IoPath::NvmePassthrough(_) => options.push(("cmd_type", "nvme")),
            _ => options.push(("direct", "1")),
        }
        // The kernel makes hybrid out of polling by `io_poll_delay`, which is the device's.
        if let IoPath::PosixSio(SioCompletion::Poll | SioCompletion::Hybrid(_)) = self {
            options.push(("hipri", "1"));
        }
        if let Some(Ring { submission, completion, registered }) = self.ring() {
            if completion == RingCompletion::Poll {
                options.push(("hipri", "1"));
            }
            if let RingSubmission::Sqpoll { .. } = submission {
                options.push(("sqthread_poll", "1"));
            }
            if registered {
                options.extend([("fixedbufs", "1"), ("registerfiles", "1")]);
            }
        }
        Ok(options)
    }
}
