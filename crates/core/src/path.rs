//! The I/O path: interface, submission, completion and variants, and its one text form.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// One way to do I/O, written `interface/submission/completion+variant`.
///
/// Combinations that no kernel offers cannot be expressed; what this machine lacks is told by
/// `iopj check`. `Display` and `FromStr` are the one text form, and serde uses it.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IoPath {
    /// `preadv2`/`pwritev2` with O_DIRECT.
    PosixSio(CompletionMode),
    /// glibc's `aio_read`/`aio_write`: threads that do synchronous I/O.
    PosixAio(AioDescriptors),
    /// Linux native asynchronous I/O: `io_submit`, `io_getevents`.
    Libaio,
    /// `io_uring` reads and writes.
    IoUring(Ring),
    /// NVMe commands through `io_uring_cmd` on `/dev/ngXnY`.
    NvmePassthrough(Ring),
    /// Kernel bypass: iopj's own NVMe driver in user space, on VFIO.
    NvmeUser(CompletionMode),
    /// Kernel bypass: SPDK's NVMe driver, through fio's plugin.
    Spdk,
}

/// How the caller of a synchronous interface, or a driver in user space, learns of the completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CompletionMode {
    /// The device interrupts; the caller sleeps until then.
    Interrupt,
    /// The caller polls the completion queue all the time.
    Poll,
    /// The caller sleeps first, then polls.
    Hybrid(Sleep),
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
    /// One a job, as fio does.
    PerJob,
    /// One a slot, so that requests of one job run side by side (`+fd-per-slot`).
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
    /// A kernel thread polls the queue; one thread a job.
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

/// The completion of any path, without the details of its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Completion {
    /// By interrupt.
    Interrupt,
    /// By polling all the time.
    Poll,
    /// By sleeping and then polling.
    Hybrid,
}

/// The submission of any path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Submission {
    /// By system call.
    Syscall,
    /// By a kernel thread that polls the submission queue.
    Sqpoll,
    /// By a write to the device's own doorbell; no kernel is asked.
    Doorbell,
}

impl fmt::Display for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Completion::Interrupt => "interrupt",
            Completion::Poll => "poll",
            Completion::Hybrid => "hybrid",
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
    /// Every path without variants, in the order of the design space.
    pub fn all() -> Vec<IoPath> {
        let mut paths = vec![
            IoPath::PosixSio(CompletionMode::Interrupt),
            IoPath::PosixSio(CompletionMode::Poll),
            IoPath::PosixSio(CompletionMode::Hybrid(Sleep::Auto)),
            IoPath::PosixAio(AioDescriptors::PerJob),
            IoPath::Libaio,
        ];
        paths.extend(Ring::all().map(IoPath::IoUring));
        paths.extend(Ring::all().map(IoPath::NvmePassthrough));
        let modes = [CompletionMode::Interrupt, CompletionMode::Poll, CompletionMode::Hybrid(Sleep::Auto)];
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

    /// True where no kernel is between the caller and the device: the device is taken from its kernel driver first.
    pub fn is_bypass(&self) -> bool {
        matches!(self, IoPath::NvmeUser(_) | IoPath::Spdk)
    }

    /// How completions are found.
    pub fn completion(&self) -> Completion {
        match self {
            IoPath::PosixSio(mode) | IoPath::NvmeUser(mode) => match mode {
                CompletionMode::Interrupt => Completion::Interrupt,
                CompletionMode::Poll => Completion::Poll,
                CompletionMode::Hybrid(_) => Completion::Hybrid,
            },
            IoPath::PosixAio(_) | IoPath::Libaio => Completion::Interrupt,
            IoPath::Spdk => Completion::Poll,
            IoPath::IoUring(ring) | IoPath::NvmePassthrough(ring) => match ring.completion {
                RingCompletion::Interrupt => Completion::Interrupt,
                RingCompletion::Poll => Completion::Poll,
                RingCompletion::Hybrid => Completion::Hybrid,
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

    /// True where one job can have no more than one I/O in flight.
    pub fn is_synchronous(&self) -> bool {
        matches!(self, IoPath::PosixSio(_))
    }

    /// The value that the queue's `io_poll_delay` must have for this path: -1 polls all the time,
    /// 0 lets the kernel choose the sleep, more is a sleep in microseconds. It belongs to the
    /// whole device and on some kernels rules io_uring's polling too.
    pub fn io_poll_delay(&self) -> Option<i64> {
        match self {
            IoPath::PosixSio(CompletionMode::Hybrid(Sleep::Auto)) => Some(0),
            IoPath::PosixSio(CompletionMode::Hybrid(Sleep::Fixed(us))) => Some(i64::from(us.get())),
            _ if self.completion() == Completion::Interrupt || self.is_bypass() => None,
            _ => Some(-1),
        }
    }
}

impl Ring {
    /// The six combinations of submission and completion, without variants.
    pub fn all() -> impl Iterator<Item = Ring> {
        [RingSubmission::Syscall { split: false }, RingSubmission::Sqpoll { kernel_wait: false }].into_iter().flat_map(
            |submission| {
                [RingCompletion::Interrupt, RingCompletion::Poll, RingCompletion::Hybrid]
                    .into_iter()
                    .map(move |completion| Ring { submission, completion, registered: false })
            },
        )
    }
}

impl fmt::Display for IoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.interface(), self.submission(), self.completion())?;
        match self {
            IoPath::PosixSio(CompletionMode::Hybrid(Sleep::Fixed(us)))
            | IoPath::NvmeUser(CompletionMode::Hybrid(Sleep::Fixed(us))) => write!(f, ":{us}us"),
            IoPath::PosixAio(AioDescriptors::PerSlot) => f.write_str("+fd-per-slot"),
            IoPath::IoUring(ring) | IoPath::NvmePassthrough(ring) => {
                if ring.registered {
                    f.write_str("+registered")?;
                }
                match ring.submission {
                    RingSubmission::Syscall { split: true } => f.write_str("+split"),
                    RingSubmission::Sqpoll { kernel_wait: true } => f.write_str("+kernel-wait"),
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }
}

/// A path's text that names no path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no I/O path: {reason}")]
pub struct ParsePathError {
    text: String,
    reason: String,
}

impl FromStr for IoPath {
    type Err = ParsePathError;

    fn from_str(text: &str) -> Result<IoPath, ParsePathError> {
        parse(text).map_err(|reason| ParsePathError { text: text.to_owned(), reason })
    }
}

fn parse(text: &str) -> Result<IoPath, String> {
    let mut pieces = text.split('+');
    let stem = pieces.next().unwrap_or_default();
    let variants: Vec<&str> = pieces.collect();
    let [interface, submission, completion] = stem.split('/').collect::<Vec<_>>()[..] else {
        return Err("write it as interface/submission/completion, such as io_uring/syscall/interrupt".into());
    };
    let plain = |path: IoPath| match variants.first() {
        None => Ok(path),
        Some(v) => Err(format!("{interface} has no variant `+{v}`: leave it out")),
    };
    match interface {
        "posix-sio" => {
            only(interface, "submission", submission, &["syscall"])?;
            plain(IoPath::PosixSio(parse_completion_mode(interface, completion)?))
        }
        "posix-aio" => {
            only(interface, "submission", submission, &["syscall"])?;
            only(interface, "completion", completion, &["interrupt"])?;
            match variants[..] {
                ["fd-per-slot"] => Ok(IoPath::PosixAio(AioDescriptors::PerSlot)),
                _ => plain(IoPath::PosixAio(AioDescriptors::PerJob)),
            }
        }
        "libaio" => {
            only(interface, "submission", submission, &["syscall"])?;
            only(interface, "completion", completion, &["interrupt"])?;
            plain(IoPath::Libaio)
        }
        "io_uring" => Ok(IoPath::IoUring(parse_ring(interface, submission, completion, &variants)?)),
        "nvme-passthrough" => Ok(IoPath::NvmePassthrough(parse_ring(interface, submission, completion, &variants)?)),
        "nvme-user" => {
            only(interface, "submission", submission, &["doorbell"])?;
            plain(IoPath::NvmeUser(parse_completion_mode(interface, completion)?))
        }
        "spdk" => {
            only(interface, "submission", submission, &["doorbell"])?;
            only(interface, "completion", completion, &["poll"])?;
            plain(IoPath::Spdk)
        }
        other => Err(format!(
            "there is no interface `{other}`; there are posix-sio, posix-aio, libaio, io_uring, nvme-passthrough, nvme-user and \
             spdk"
        )),
    }
}

fn only(interface: &str, what: &str, given: &str, allowed: &[&str]) -> Result<(), String> {
    if allowed.contains(&given) {
        return Ok(());
    }
    Err(format!("{interface} has no {what} `{given}`; it has {}", allowed.join(", ")))
}

fn parse_completion_mode(interface: &str, text: &str) -> Result<CompletionMode, String> {
    match text {
        "interrupt" => Ok(CompletionMode::Interrupt),
        "poll" => Ok(CompletionMode::Poll),
        "hybrid" | "hybrid:auto" => Ok(CompletionMode::Hybrid(Sleep::Auto)),
        other => other
            .strip_prefix("hybrid:")
            .and_then(|sleep| sleep.strip_suffix("us"))
            .and_then(|us| us.parse().ok())
            .map(|us| CompletionMode::Hybrid(Sleep::Fixed(us)))
            .ok_or_else(|| {
                format!("{interface} has no completion `{other}`; it has interrupt, poll, hybrid and hybrid:Nus with N above 0")
            }),
    }
}

fn parse_ring(interface: &str, submission: &str, completion: &str, variants: &[&str]) -> Result<Ring, String> {
    only(interface, "submission", submission, &["syscall", "sqpoll"])?;
    let completion = match completion {
        "interrupt" => RingCompletion::Interrupt,
        "poll" => RingCompletion::Poll,
        "hybrid" => RingCompletion::Hybrid,
        other => return Err(format!("{interface} has no completion `{other}`; it has interrupt, poll and hybrid")),
    };
    let (mut registered, mut second) = (false, false);
    for variant in variants {
        let seen = match (*variant, submission) {
            ("registered", _) => &mut registered,
            ("split", "syscall") | ("kernel-wait", "sqpoll") => &mut second,
            (other, _) => {
                let own = if submission == "sqpoll" { "+kernel-wait" } else { "+split" };
                return Err(format!(
                    "{interface}/{submission} has no variant `+{other}`; it has +registered and {own}"
                ));
            }
        };
        if std::mem::replace(seen, true) {
            return Err(format!("`+{variant}` stands twice"));
        }
    }
    let submission = match submission {
        "syscall" => RingSubmission::Syscall { split: second },
        _ => RingSubmission::Sqpoll { kernel_wait: second },
    };
    Ok(Ring { submission, completion, registered })
}

impl serde::Serialize for IoPath {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for IoPath {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<IoPath, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_path() -> impl Strategy<Value = IoPath> {
        let mode = prop_oneof![
            Just(CompletionMode::Interrupt),
            Just(CompletionMode::Poll),
            Just(CompletionMode::Hybrid(Sleep::Auto)),
            (1u32..).prop_map(|us| CompletionMode::Hybrid(Sleep::Fixed(NonZeroU32::new(us).unwrap()))),
        ];
        let ring = (0usize..6, any::<bool>(), any::<bool>()).prop_map(|(which, registered, second)| {
            let ring = Ring::all().nth(which).unwrap();
            let submission = match ring.submission {
                RingSubmission::Syscall { .. } => RingSubmission::Syscall { split: second },
                RingSubmission::Sqpoll { .. } => RingSubmission::Sqpoll { kernel_wait: second },
            };
            Ring { submission, registered, ..ring }
        });
        prop_oneof![
            mode.clone().prop_map(IoPath::PosixSio),
            mode.prop_map(IoPath::NvmeUser),
            Just(IoPath::Spdk),
            Just(IoPath::PosixAio(AioDescriptors::PerJob)),
            Just(IoPath::PosixAio(AioDescriptors::PerSlot)),
            Just(IoPath::Libaio),
            ring.clone().prop_map(IoPath::IoUring),
            ring.prop_map(IoPath::NvmePassthrough),
        ]
    }

    proptest! {
        #[test]
        fn text_form_round_trips(path in any_path()) {
            prop_assert_eq!(path.to_string().parse::<IoPath>(), Ok(path));
        }

        #[test]
        fn parser_never_panics(text in "\\PC{0,60}") {
            let _ = text.parse::<IoPath>();
        }
    }

    #[test]
    fn text_forms_are_those_of_the_design() {
        let ring = Ring {
            submission: RingSubmission::Sqpoll { kernel_wait: false },
            completion: RingCompletion::Poll,
            registered: true,
        };
        assert_eq!(IoPath::IoUring(ring).to_string(), "io_uring/sqpoll/poll+registered");
        let fixed = CompletionMode::Hybrid(Sleep::Fixed(NonZeroU32::new(4).unwrap()));
        assert_eq!(IoPath::PosixSio(fixed).to_string(), "posix-sio/syscall/hybrid:4us");
        assert_eq!("posix-sio/syscall/hybrid:auto".parse::<IoPath>().unwrap().to_string(), "posix-sio/syscall/hybrid");
        assert_eq!(IoPath::NvmeUser(fixed).to_string(), "nvme-user/doorbell/hybrid:4us");
        assert_eq!(IoPath::Spdk.to_string(), "spdk/doorbell/poll");
    }

    #[test]
    fn nonsense_is_refused_with_the_reason() {
        for (text, part) in [
            ("io_uring", "interface/submission/completion"),
            ("aio/syscall/interrupt", "no interface `aio`"),
            ("libaio/sqpoll/interrupt", "no submission `sqpoll`"),
            ("libaio/syscall/poll", "no completion `poll`"),
            ("posix-sio/syscall/hybrid:0us", "N above 0"),
            ("posix-sio/syscall/poll+registered", "no variant `+registered`"),
            ("io_uring/sqpoll/poll+split", "no variant `+split`"),
            ("nvme-user/syscall/poll", "no submission `syscall`; it has doorbell"),
            ("spdk/doorbell/interrupt", "no completion `interrupt`; it has poll"),
            ("io_uring/syscall/poll+split+split", "stands twice"),
        ] {
            let message = text.parse::<IoPath>().unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }

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
