//! The I/O path: interface, submission, completion and variants. Its one text form is in `text`.

mod auto;
mod fio;
mod program;
mod text;
mod way;

pub use auto::{AutoPath, BadAutoPath, PolicyName};
pub use program::{BadProgramName, ProgramName};
pub use text::ParsePathError;
pub use way::{ParseWayError, Way};

use serde::{Deserialize, Serialize};
use std::fmt;
use std::num::NonZeroU32;

/// One way to do I/O, written `interface/submission/completion+variant`.
///
/// Combinations that no kernel offers cannot be expressed; `iopj check` says what this machine lacks.
/// `Display` and `FromStr` are the one text form, and serde uses it.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IoPath {
    /// `preadv2`/`pwritev2` with O_DIRECT.
    PosixSio(SioCompletion),
    /// glibc's `aio_read`/`aio_write`: threads that do synchronous I/O.
    PosixAio(AioDescriptors),
    /// Linux native asynchronous I/O: `io_submit`, `io_getevents`.
    Libaio,
    /// `io_uring` reads and writes.
    IoUring(Ring),
    /// NVMe commands through `io_uring_cmd` on `/dev/ngXnY`.
    NvmePassthrough(Ring),
    /// Kernel bypass: iopj's own NVMe driver in user space, on VFIO.
    NvmeUser(UserCompletion),
    /// Kernel bypass: SPDK's NVMe driver, through fio's plugin.
    Spdk,
    /// A program's own I/O, by the name of the variant that was run (`program:NAME`). Nothing is asked of it,
    /// so what the others say of a path is said of none: it counts as one of system calls and interrupts.
    Program(ProgramName),
    /// An engine that chooses a way for each request (`auto`, `auto:RULE`). Its ways differ in how they
    /// submit and complete, so what the others say of a path is said of none: it counts as one of system
    /// calls and interrupts, and is judged by what was seen on each way.
    Auto(AutoPath),
}

/// How the caller of a synchronous interface learns of the completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SioCompletion {
    /// The device interrupts; the caller sleeps until then.
    Interrupt,
    /// The caller polls the completion queue all the time.
    Poll,
    /// The caller sleeps first, then polls.
    Hybrid(Sleep),
}

/// How iopj's own driver finds completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UserCompletion {
    /// The device interrupts; the job sleeps until then.
    Interrupt,
    /// The job polls the completion queue all the time.
    Poll(Spin),
    /// The job sleeps first, then polls.
    Hybrid(Sleep, Spin),
}

/// What a job does between two polls that found nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Spin {
    /// Nothing: the next poll follows at once, as in SPDK.
    Tight,
    /// The processor's instruction for spinning, PAUSE or YIELD (`+pause`): it waits some cycles, which may
    /// save energy.
    Pause,
}

/// The sleep before hybrid polling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Sleep {
    /// The kernel takes half of the mean service time.
    Auto,
    /// A fixed time in microseconds.
    Fixed(NonZeroU32),
}

/// How many descriptors `posix-aio` opens: glibc serialises the requests of one descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AioDescriptors {
    /// One per job, as in fio.
    PerJob,
    /// One per slot, so requests of one job run in parallel (`+fd-per-slot`).
    PerSlot,
}

/// The modes of an io_uring instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ring {
    /// Who takes entries from the submission queue.
    pub submission: RingSubmission,
    /// How completions are found.
    pub completion: RingCompletion,
    /// Buffers and file are registered with the ring (`+registered`).
    pub registered: bool,
}

/// Who takes entries from an io_uring submission queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RingSubmission {
    /// `io_uring_enter` does.
    Syscall {
        /// Submission and waiting are two system calls, as in fio (`+split`).
        split: bool,
    },
    /// A kernel thread polls the queue; one thread per job.
    Sqpoll {
        /// The job waits for completions in the kernel instead of spinning (`+kernel-wait`).
        kernel_wait: bool,
    },
}

/// How io_uring finds completions. The kernel chooses the sleep of hybrid polling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RingCompletion {
    /// The device interrupts.
    Interrupt,
    /// `IORING_SETUP_IOPOLL`.
    Poll,
    /// `IORING_SETUP_HYBRID_IOPOLL`, since Linux 6.13.
    Hybrid,
}

/// How completions are found on any path, without the details of its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CompletionMode {
    /// By interrupt.
    Interrupt,
    /// By polling all the time.
    Poll,
    /// By sleeping and then polling.
    Hybrid,
}

/// How requests are submitted on any path, without the details of its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Submission {
    /// By system call.
    Syscall,
    /// By a kernel thread that polls the submission queue.
    Sqpoll,
    /// By a write to the device's own doorbell; no kernel is asked.
    Doorbell,
}

impl fmt::Display for CompletionMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CompletionMode::Interrupt => "interrupt",
            CompletionMode::Poll => "poll",
            CompletionMode::Hybrid => "hybrid",
        })
    }
}

impl fmt::Display for Submission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Submission::Syscall => "syscall",
            Submission::Sqpoll => "sqpoll",
            Submission::Doorbell => "doorbell",
        })
    }
}

impl IoPath {
    /// Every path without variants, in the order of the design space. `auto` is none of them, because it has
    /// no place of its own there: it takes others.
    pub fn all() -> Vec<IoPath> {
        let mut paths = vec![
            IoPath::PosixSio(SioCompletion::Interrupt),
            IoPath::PosixSio(SioCompletion::Poll),
            IoPath::PosixSio(SioCompletion::Hybrid(Sleep::Auto)),
            IoPath::PosixAio(AioDescriptors::PerJob),
            IoPath::Libaio,
        ];
        paths.extend(Ring::all().map(IoPath::IoUring));
        paths.extend(Ring::all().map(IoPath::NvmePassthrough));
        let modes = [
            UserCompletion::Interrupt,
            UserCompletion::Poll(Spin::Tight),
            UserCompletion::Hybrid(Sleep::Auto, Spin::Tight),
        ];
        paths.extend(modes.map(IoPath::NvmeUser));
        paths.push(IoPath::Spdk);
        paths
    }

    /// The interface's name.
    pub fn interface(&self) -> &'static str {
        match self {
            IoPath::PosixSio(_) => "posix-sio",
            IoPath::PosixAio(_) => "posix-aio",
            IoPath::Libaio => "libaio",
            IoPath::IoUring(_) => "io_uring",
            IoPath::NvmePassthrough(_) => "nvme-passthrough",
            IoPath::NvmeUser(_) => "nvme-user",
            IoPath::Spdk => "spdk",
            IoPath::Program(_) => "program",
            IoPath::Auto(_) => "auto",
        }
    }

    /// How requests reach the kernel, or the device.
    pub fn submission(&self) -> Submission {
        match self.ring() {
            Some(Ring { submission: RingSubmission::Sqpoll { .. }, .. }) => Submission::Sqpoll,
            _ if self.is_bypass() => Submission::Doorbell,
            _ => Submission::Syscall,
        }
    }

    /// True where no kernel is between the caller and the device: the device is taken from its kernel driver
    /// first.
    pub fn is_bypass(&self) -> bool {
        match self {
            IoPath::NvmeUser(_) | IoPath::Spdk => true,
            IoPath::Auto(rule) => rule.pinned().is_some_and(Way::is_bypass),
            _ => false,
        }
    }

    /// As [`IoPath::is_bypass`], for a target whose drive may be taken or may not: where it may, an engine
    /// that chooses its way chooses among those of the taken drive.
    pub fn is_bypass_on(&self, may_take: bool) -> bool {
        match self {
            IoPath::Auto(rule) if rule.pinned().is_none() => may_take,
            _ => self.is_bypass(),
        }
    }

    /// How completions are found.
    pub fn completion(&self) -> CompletionMode {
        match self {
            IoPath::PosixSio(mode) => match mode {
                SioCompletion::Interrupt => CompletionMode::Interrupt,
                SioCompletion::Poll => CompletionMode::Poll,
                SioCompletion::Hybrid(_) => CompletionMode::Hybrid,
            },
            IoPath::NvmeUser(mode) => match mode {
                UserCompletion::Interrupt => CompletionMode::Interrupt,
                UserCompletion::Poll(_) => CompletionMode::Poll,
                UserCompletion::Hybrid(..) => CompletionMode::Hybrid,
            },
            IoPath::PosixAio(_) | IoPath::Libaio | IoPath::Program(_) | IoPath::Auto(_) => {
                CompletionMode::Interrupt
            }
            IoPath::Spdk => CompletionMode::Poll,
            IoPath::IoUring(ring) | IoPath::NvmePassthrough(ring) => match ring.completion {
                RingCompletion::Interrupt => CompletionMode::Interrupt,
                RingCompletion::Poll => CompletionMode::Poll,
                RingCompletion::Hybrid => CompletionMode::Hybrid,
            },
        }
    }

    /// The ring's modes, for paths that use io_uring.
    pub fn ring(&self) -> Option<Ring> {
        match self {
            IoPath::IoUring(ring) | IoPath::NvmePassthrough(ring) => Some(*ring),
            _ => None,
        }
    }

    /// True for a program that does its own I/O.
    pub fn is_program(&self) -> bool {
        matches!(self, IoPath::Program(_))
    }

    /// The rule of an engine that chooses its way.
    pub fn auto(&self) -> Option<AutoPath> {
        if let IoPath::Auto(auto) = self { Some(*auto) } else { None }
    }

    /// True for a baseline of those that choose: [`AutoPath::is_baseline`].
    pub fn is_baseline(&self) -> bool {
        self.auto().is_some_and(|auto| auto.is_baseline())
    }

    /// True for a path that is asked for as such: by interface, submission and completion.
    pub fn is_fixed(&self) -> bool {
        !matches!(self, IoPath::Program(_) | IoPath::Auto(_))
    }

    /// True where one job can have no more than one I/O in flight.
    pub fn is_synchronous(&self) -> bool {
        matches!(self, IoPath::PosixSio(_) | IoPath::Auto(AutoPath::Pinned(Way::Sio)))
    }

    /// The value that the queue's `io_poll_delay` must have for this path: -1 polls all the time,
    /// 0 lets the kernel choose the sleep, more is a sleep in microseconds. It belongs to the
    /// whole device and on some kernels rules io_uring's polling too.
    pub fn io_poll_delay(&self) -> Option<i64> {
        match self {
            IoPath::PosixSio(SioCompletion::Hybrid(Sleep::Auto)) => Some(0),
            IoPath::PosixSio(SioCompletion::Hybrid(Sleep::Fixed(us))) => Some(i64::from(us.get())),
            IoPath::Auto(AutoPath::Pinned(way)) => way.path().io_poll_delay(),
            _ if self.completion() == CompletionMode::Interrupt || self.is_bypass() => None,
            _ => Some(-1),
        }
    }
}

impl Ring {
    /// A system call submits and waits, and the device interrupts.
    pub const PLAIN: Ring = Ring {
        submission: RingSubmission::Syscall { split: false },
        completion: RingCompletion::Interrupt,
        registered: false,
    };

    /// The six combinations of submission and completion, without variants.
    pub fn all() -> impl Iterator<Item = Ring> {
        [RingSubmission::Syscall { split: false }, RingSubmission::Sqpoll { kernel_wait: false }]
            .into_iter()
            .flat_map(|submission| {
                [RingCompletion::Interrupt, RingCompletion::Poll, RingCompletion::Hybrid]
                    .into_iter()
                    .map(move |completion| Ring { submission, completion, registered: false })
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poll_delay_follows_the_completion() {
        let delay = |text: &str| text.parse::<IoPath>().unwrap().io_poll_delay();
        assert_eq!(delay("posix-sio/syscall/interrupt"), None);
        assert_eq!(delay("posix-sio/syscall/poll"), Some(-1));
        assert_eq!(delay("posix-sio/syscall/hybrid"), Some(0));
        assert_eq!(delay("posix-sio/syscall/hybrid:7us"), Some(7));
        assert_eq!(delay("io_uring/sqpoll/poll"), Some(-1));
        assert_eq!(delay("nvme-user/doorbell/hybrid:7us"), None);
    }
}
