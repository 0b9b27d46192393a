//! The parameters of a cost model: their names, their units, and what is assumed of one before any data.

use iopj_core::IoPath;
use iopj_core::path::{Ring, RingSubmission};
use iopj_core::workload::Rw;
use std::fmt;
use std::str::FromStr;

/// The way by which a request reaches the drive: interface and submission, without the completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Front {
    /// `preadv2` and `pwritev2`.
    PosixSio,
    /// glibc's threads.
    PosixAio,
    /// `io_submit`.
    Libaio,
    /// A ring that system calls submit.
    IoUring,
    /// A ring with registered buffers that system calls submit.
    Registered,
    /// A ring that a kernel thread polls.
    Sqpoll,
    /// The same with registered buffers.
    SqpollRegistered,
    /// NVMe commands through a ring that system calls submit.
    Passthrough,
    /// The same through a ring that a kernel thread polls.
    PassthroughSqpoll,
    /// iopj's own driver.
    NvmeUser,
    /// SPDK's.
    Spdk,
}

impl Front {
    const ALL: [(Front, &'static str); 11] = [
        (Front::PosixSio, "posix-sio"),
        (Front::PosixAio, "posix-aio"),
        (Front::Libaio, "libaio"),
        (Front::IoUring, "io_uring"),
        (Front::Registered, "io_uring+registered"),
        (Front::Sqpoll, "io_uring/sqpoll"),
        (Front::SqpollRegistered, "io_uring/sqpoll+registered"),
        (Front::Passthrough, "nvme-passthrough"),
        (Front::PassthroughSqpoll, "nvme-passthrough/sqpoll"),
        (Front::NvmeUser, "nvme-user"),
        (Front::Spdk, "spdk"),
    ];

    /// That of a path; `None` for a program, whose way nobody asked for.
    pub fn of(path: IoPath) -> Option<Front> {
        let by_kernel_thread = |ring: Ring| matches!(ring.submission, RingSubmission::Sqpoll { .. });
        Some(match path {
            IoPath::PosixSio(_) => Front::PosixSio,
            IoPath::PosixAio(_) => Front::PosixAio,
            IoPath::Libaio => Front::Libaio,
            IoPath::IoUring(ring) => match (by_kernel_thread(ring), ring.registered) {
                (false, false) => Front::IoUring,
                (false, true) => Front::Registered,
                (true, false) => Front::Sqpoll,
                (true, true) => Front::SqpollRegistered,
            },
            IoPath::NvmePassthrough(ring) if by_kernel_thread(ring) => Front::PassthroughSqpoll,
            IoPath::NvmePassthrough(_) => Front::Passthrough,
            IoPath::NvmeUser(_) => Front::NvmeUser,
            IoPath::Spdk => Front::Spdk,
            _ => return None,
        })
    }

    /// True where the kernel may hand a write to a worker.
    pub fn is_asynchronous(self) -> bool {
        matches!(
            self,
            Front::Libaio | Front::IoUring | Front::Registered | Front::Sqpoll | Front::SqpollRegistered
        )
    }

    /// Its name.
    pub fn as_str(self) -> &'static str {
        Front::ALL.into_iter().find(|(front, _)| *front == self).map_or("", |(_, name)| name)
    }
}

/// A quantile of latencies that a model knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Quantile {
    /// The median.
    P50,
    /// The 99th percentile.
    P99,
    /// The 99.9th percentile.
    P99_9,
}

impl Quantile {
    /// All of them.
    pub const ALL: [Quantile; 3] = [Quantile::P50, Quantile::P99, Quantile::P99_9];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        ["p50", "p99", "p99.9"][self as usize]
    }
}

/// A kind of I/O that a drive serves in its own time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A read at a random place.
    RandomRead,
    /// A write at a random place.
    RandomWrite,
    /// A read that follows the last one.
    SequentialRead,
    /// A write that follows the last one.
    SequentialWrite,
}

impl Kind {
    const ALL: [(Kind, &'static str); 4] = [
        (Kind::RandomRead, "randread"),
        (Kind::RandomWrite, "randwrite"),
        (Kind::SequentialRead, "read"),
        (Kind::SequentialWrite, "write"),
    ];

    /// The kinds of a workload with their shares.
    pub fn shares(rw: Rw, rwmixread: u8) -> Vec<(Kind, f64)> {
        let [read, write] = match rw.is_random() {
            true => [Kind::RandomRead, Kind::RandomWrite],
            false => [Kind::SequentialRead, Kind::SequentialWrite],
        };
        let reads = f64::from(rwmixread) / 100.0;
        let all = match (rw.reads(), rw.writes()) {
            (true, true) => vec![(read, reads), (write, 1.0 - reads)],
            (true, false) => vec![(read, 1.0)],
            _ => vec![(write, 1.0)],
        };
        all.into_iter().filter(|(_, share)| *share > 0.0).collect()
    }

    /// That of a write or a read, which follows the last one or does not.
    pub fn of(writes: bool, is_sequential: bool) -> Kind {
        match (writes, is_sequential) {
            (false, false) => Kind::RandomRead,
            (true, false) => Kind::RandomWrite,
            (false, true) => Kind::SequentialRead,
            (true, true) => Kind::SequentialWrite,
        }
    }

    /// The workload of it alone.
    pub fn rw(self) -> Rw {
        [Rw::Randread, Rw::Randwrite, Rw::Read, Rw::Write][self as usize]
    }

    /// True if it writes.
    pub fn writes(self) -> bool {
        matches!(self, Kind::RandomWrite | Kind::SequentialWrite)
    }

    /// True if it is at a random place.
    pub fn is_random(self) -> bool {
        matches!(self, Kind::RandomRead | Kind::RandomWrite)
    }

    /// The sequential one of a random one, and the other way round.
    pub fn in_other_order(self) -> Kind {
        Kind::of(self.writes(), self.is_random())
    }

    /// Its name, in fio's words.
    pub fn as_str(self) -> &'static str {
        Kind::ALL.into_iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }
}

/// A parameter. All are positive, and fitted by their logarithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Parameter {
    /// Time that the drive takes for the smallest I/O of a kind that finds it idle, in ns.
    Service(Kind),
    /// Further time for each KiB, in ns.
    PerKib(Kind),
    /// I/Os that the drive serves at once.
    Parallelism,
    /// How sharply latency turns from that of an idle drive to that of a full one.
    Sharpness,
    /// Time of a job between a completion and the next submission, which is in no latency, in ns.
    Gap,
    /// The share of a job's other I/Os in flight that are complete when one has woken it.
    Gathered,
    /// Time that a request and its completion take in software, in ns.
    Time(Front),
    /// Further time until an interrupt has told of a completion, in ns.
    Interrupt,
    /// Further time until a job that slept runs, in ns.
    Wake,
    /// Further time of a sleep before polling, in ns.
    Timer,
    /// Further time of a write that an asynchronous interface of the kernel takes, in ns: a file system may
    /// hand it to a worker instead of blocking.
    AsyncWrite,
    /// What a path takes in time more or less than its parts say, as a factor.
    Deviation(IoPath),
    /// CPU time of one I/O without sleeping and spinning, in ns.
    Cpu(Front),
    /// Further CPU time of a call that submits, shared by the I/Os of a batch, in ns.
    CpuPerCall,
    /// CPU time of a sleep and of waking up, in ns.
    CpuPerWake,
    /// Further CPU time for each KiB, whose pages the kernel pins and maps for the drive, in ns.
    CpuPerKib,
    /// Sleeps that glibc's helper threads add to an I/O of POSIX AIO, as they take it, wait for the drive,
    /// and tell of its end.
    Handoffs,
    /// The share of the drive's time that hybrid completion spins.
    SpinShare,
    /// What a path takes in CPU time more or less than its parts say, as a factor.
    CpuDeviation(IoPath),
    /// A quantile of the drive's time over its mean.
    Tail(Quantile, Kind),
    /// What the part of a quantile above the mean is on a way over what the drive's says, as a factor.
    TailDeviation(Quantile, Front),
    /// Instructions of one I/O without sleeping and spinning.
    Instructions(Front),
    /// Instructions of a sleep and of waking up.
    InstructionsPerWake,
    /// Instructions in a microsecond of spinning.
    InstructionsPerSpin,
    /// Power of the whole machine with all cores idle, in W: as deeply as they were, or all of them deeply
    /// where the model knows what that saves.
    IdlePower,
    /// Further power of a core that runs, in W.
    CorePower,
    /// Energy of waking an idle core, in microjoules.
    WakeEnergy,
    /// Power that an idle core saves in its deep states, in W.
    DeepIdleSaving,
    /// How long a core is idle before it is so deeply, in ns.
    DeepIdleAfter,
    /// The share of the time after that in which it is.
    DeepIdleShare,
}

/// What is assumed of a parameter before any data: its logarithm is normal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prior {
    /// The median of the parameter.
    pub median: f64,
    /// Standard deviation of its logarithm.
    pub spread: f64,
}

impl Parameter {
    /// Its prior. All are wide, a factor of three to ten, but for factors that are near 1: data decide, and
    /// what they leave open stays wide.
    pub fn prior(self) -> Prior {
        let (median, spread) = match self {
            Parameter::Service(_) => (20_000.0, 3.0),
            Parameter::PerKib(_) => (300.0, 2.0),
            Parameter::Parallelism => (16.0, 1.5),
            Parameter::Sharpness => (3.0, 0.5),
            Parameter::Gap => (300.0, 1.0),
            Parameter::Gathered => (0.1, 1.5),
            Parameter::Time(_) | Parameter::Cpu(_) => (2_500.0, 1.0),
            Parameter::Interrupt => (800.0, 1.0),
            Parameter::Wake | Parameter::CpuPerWake => (2_000.0, 1.0),
            Parameter::Timer => (500.0, 1.0),
            Parameter::AsyncWrite => (500.0, 1.5),
            Parameter::CpuPerCall => (300.0, 1.0),
            Parameter::CpuPerKib => (50.0, 1.5),
            Parameter::Handoffs => (2.0, 0.7),
            Parameter::Deviation(_) | Parameter::CpuDeviation(_) => (1.0, 0.1),
            Parameter::SpinShare => (0.5, 0.3),
            Parameter::Tail(Quantile::P50, _) => (1.0, 0.2),
            Parameter::Tail(Quantile::P99, _) => (1.5, 1.0),
            Parameter::Tail(Quantile::P99_9, _) => (3.0, 1.0),
            Parameter::TailDeviation(..) => (1.0, 0.5),
            Parameter::Instructions(_) => (6_000.0, 1.0),
            Parameter::InstructionsPerWake => (5_000.0, 1.0),
            Parameter::InstructionsPerSpin => (3_000.0, 1.0),
            Parameter::IdlePower => (50.0, 2.0),
            Parameter::CorePower => (5.0, 1.5),
            Parameter::WakeEnergy => (5.0, 2.0),
            Parameter::DeepIdleSaving => (1.0, 1.5),
            Parameter::DeepIdleAfter => (100_000.0, 2.0),
            Parameter::DeepIdleShare => (0.9, 0.3),
        };
        Prior { median, spread }
    }

    /// True if it is what the software takes, which another kernel changes.
    pub fn is_of_software(self) -> bool {
        let is_shared = matches!(self, Parameter::Time(_) | Parameter::Cpu(_) | Parameter::Instructions(_));
        is_shared || self.is_of_kernel()
    }

    /// True if it is what the kernel alone takes. The program has a part in the rest of the software.
    pub fn is_of_kernel(self) -> bool {
        matches!(
            self,
            Parameter::Interrupt
                | Parameter::Wake
                | Parameter::Timer
                | Parameter::AsyncWrite
                | Parameter::CpuPerCall
                | Parameter::CpuPerWake
                | Parameter::CpuPerKib
                | Parameter::InstructionsPerWake
        )
    }

    /// The unit of its value.
    pub fn unit(self) -> &'static str {
        match self {
            Parameter::Service(_)
            | Parameter::Gap
            | Parameter::Time(_)
            | Parameter::Interrupt
            | Parameter::Wake
            | Parameter::Timer
            | Parameter::AsyncWrite
            | Parameter::Cpu(_)
            | Parameter::CpuPerCall
            | Parameter::CpuPerWake
            | Parameter::DeepIdleAfter => "ns",
            Parameter::PerKib(_) | Parameter::CpuPerKib => "ns per KiB",
            Parameter::Instructions(_) | Parameter::InstructionsPerWake => "instructions",
            Parameter::InstructionsPerSpin => "instructions per us",
            Parameter::IdlePower | Parameter::CorePower | Parameter::DeepIdleSaving => "W",
            Parameter::WakeEnergy => "uJ",
            _ => "1",
        }
    }
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Parameter::Service(kind) => write!(f, "service:{}", kind.as_str()),
            Parameter::PerKib(kind) => write!(f, "per_kib:{}", kind.as_str()),
            Parameter::Time(front) => write!(f, "time:{}", front.as_str()),
            Parameter::Deviation(path) => write!(f, "deviation:{path}"),
            Parameter::Cpu(front) => write!(f, "cpu:{}", front.as_str()),
            Parameter::CpuDeviation(path) => write!(f, "cpu_deviation:{path}"),
            Parameter::Tail(quantile, kind) => write!(f, "{}:{}", quantile.as_str(), kind.as_str()),
            Parameter::TailDeviation(quantile, front) => {
                write!(f, "{}_deviation:{}", quantile.as_str(), front.as_str())
            }
            Parameter::Instructions(front) => write!(f, "instructions:{}", front.as_str()),
            plain => {
                f.write_str(PLAIN.into_iter().find(|(one, _)| one == plain).map_or("", |(_, name)| name))
            }
        }
    }
}

/// Parameters of which there is one.
const PLAIN: [(Parameter, &str); 21] = [
    (Parameter::Parallelism, "parallelism"),
    (Parameter::Sharpness, "sharpness"),
    (Parameter::Gap, "gap"),
    (Parameter::Gathered, "gathered"),
    (Parameter::Interrupt, "interrupt"),
    (Parameter::Wake, "wake"),
    (Parameter::Timer, "timer"),
    (Parameter::AsyncWrite, "async_write"),
    (Parameter::CpuPerCall, "cpu_per_call"),
    (Parameter::CpuPerWake, "cpu_per_wake"),
    (Parameter::CpuPerKib, "cpu_per_kib"),
    (Parameter::Handoffs, "handoffs"),
    (Parameter::SpinShare, "spin_share"),
    (Parameter::InstructionsPerWake, "instructions_per_wake"),
    (Parameter::InstructionsPerSpin, "instructions_per_us_of_spinning"),
    (Parameter::IdlePower, "idle_power"),
    (Parameter::CorePower, "core_power"),
    (Parameter::WakeEnergy, "wake_energy"),
    (Parameter::DeepIdleSaving, "deep_idle_saving"),
    (Parameter::DeepIdleAfter, "deep_idle_after"),
    (Parameter::DeepIdleShare, "deep_idle_share"),
];

/// A text that names no parameter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a parameter of a cost model")]
pub struct UnknownParameter(pub String);

impl FromStr for Parameter {
    type Err = UnknownParameter;

    fn from_str(text: &str) -> Result<Parameter, UnknownParameter> {
        let unknown = || UnknownParameter(text.to_owned());
        let Some((what, of)) = text.split_once(':') else {
            return PLAIN.into_iter().find(|(_, name)| *name == text).map(|(one, _)| one).ok_or_else(unknown);
        };
        let front = || Front::ALL.into_iter().find(|(_, name)| *name == of).map(|(front, _)| front);
        let kind = || Kind::ALL.into_iter().find(|(_, name)| *name == of).map(|(kind, _)| kind);
        let quantile = |what: &str| Quantile::ALL.into_iter().find(|quantile| quantile.as_str() == what);
        let found = match what {
            "service" => kind().map(Parameter::Service),
            "per_kib" => kind().map(Parameter::PerKib),
            "time" => front().map(Parameter::Time),
            "cpu" => front().map(Parameter::Cpu),
            "instructions" => front().map(Parameter::Instructions),
            "deviation" => of.parse().ok().map(Parameter::Deviation),
            "cpu_deviation" => of.parse().ok().map(Parameter::CpuDeviation),
            _ => match what.strip_suffix("_deviation") {
                Some(what) => {
                    quantile(what).zip(front()).map(|(one, front)| Parameter::TailDeviation(one, front))
                }
                None => quantile(what).zip(kind()).map(|(one, kind)| Parameter::Tail(one, kind)),
            },
        };
        found.ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_form_reads_back() {
        let mut all: Vec<Parameter> = PLAIN.into_iter().map(|(one, _)| one).collect();
        for (front, _) in Front::ALL {
            all.extend([Parameter::Time(front), Parameter::Cpu(front), Parameter::Instructions(front)]);
            all.extend(Quantile::ALL.map(|quantile| Parameter::TailDeviation(quantile, front)));
        }
        for (kind, _) in Kind::ALL {
            all.extend([Parameter::Service(kind), Parameter::PerKib(kind)]);
            all.extend(Quantile::ALL.map(|quantile| Parameter::Tail(quantile, kind)));
        }
        for path in IoPath::all() {
            all.extend([Parameter::Deviation(path), Parameter::CpuDeviation(path)]);
            assert!(Front::of(path).is_some(), "{path}");
        }
        for one in all {
            assert_eq!(one.to_string().parse(), Ok(one));
            assert!(one.prior().median > 0.0 && one.prior().spread > 0.0);
        }
        for text in ["", "service", "service:", "service:trim", "p98:read", "deviation:nonsense", "gap:read"]
        {
            assert!(text.parse::<Parameter>().is_err(), "{text}");
        }
    }

    #[test]
    fn mixed_workloads_have_shares() {
        let read = Kind::shares(Rw::Randread, 50);
        assert_eq!(read, [(Kind::RandomRead, 1.0)]);
        let mixed = Kind::shares(Rw::Rw, 25);
        assert_eq!(mixed, [(Kind::SequentialRead, 0.25), (Kind::SequentialWrite, 0.75)]);
        assert_eq!(Kind::shares(Rw::Randrw, 100), [(Kind::RandomRead, 1.0)]);
        for (kind, name) in Kind::ALL {
            assert_eq!(Kind::shares(kind.rw(), 50), [(kind, 1.0)]);
            assert_eq!(kind.rw().to_string(), name);
        }
    }
}
