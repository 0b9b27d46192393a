//! What to do about a trial whose path is not proven: every reason for that names one.

use std::fmt;

/// What lets the next trial prove its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// The window held too little.
    MeasureLonger,
    /// No disk is known below the target.
    KnownDisk,
    /// The kernel does not count the disk's I/Os.
    CountIos,
    /// Nothing counts the commands that were passed through.
    CountPassthrough,
    /// The target has holes, or a cache answered.
    WholeTarget,
    /// A cache of the target host answered.
    UncachedTarget,
    /// The kernel merged I/Os.
    FewerMerges,
    /// The kernel split I/Os.
    SmallerBlocks,
    /// Something else used the disk.
    QuietDisk,
    /// Something else used a disk on the same vectors.
    QuietController,
    /// The machine changed between the pass and the window.
    Repeat,
    /// A submission poller of something else ran.
    OneRing,
    /// A poller had no core.
    OwnCores,
    /// A submission poller had nothing to poll for.
    BusyPoller,
    /// The disk's polling is set for another path.
    PollDelay,
    /// This user may not count who completes the I/Os.
    CountCompletions,
    /// The disk has no vectors and no requests.
    OwnVectors,
    /// The disk does not interrupt.
    InterruptingDisk,
    /// There was no control run.
    ControlRun,
    /// I/Os share interrupts.
    ShallowQueue,
    /// The disk did too few rounds in the pass.
    FasterDisk,
    /// The generator's own word is all there is.
    NativeGenerator,
    /// Others measured it.
    Measure,
    /// An engine's counts contradict each other.
    Report,
}

impl Remedy {
    /// What to do.
    pub fn as_str(self) -> &'static str {
        match self {
            Remedy::MeasureLonger => "measure longer: raise `runtime`",
            Remedy::KnownDisk => {
                "take a target on a disk of this machine, not on tmpfs or a network file system"
            }
            Remedy::CountIos => "write 1 to the disk's `queue/iostats`",
            Remedy::CountPassthrough => {
                "measure longer, because a drive updates its log late; or use Linux 6.12 or newer, which \
                 counts passthrough itself"
            }
            Remedy::WholeTarget => {
                "write the whole target first, because a hole has no blocks on the disk; passthrough is \
                 counted by Linux 6.12 or newer, or as root by the drive's log"
            }
            Remedy::UncachedTarget => "export the drive itself, with no cache above it",
            Remedy::FewerMerges => "a larger `size`, or the setting `nomerges = 2`",
            Remedy::SmallerBlocks => {
                "a smaller `bs`: a request holds at most the disk's `queue/max_sectors_kb`"
            }
            Remedy::QuietDisk => "stop what else uses the disk, or take a disk that nothing else uses",
            Remedy::QuietController => {
                "keep the controller's other disks idle, or run as root, so each completion is counted"
            }
            Remedy::Repeat => "repeat the trial on a machine that does nothing else, with a longer `runtime`",
            Remedy::OneRing => {
                "repeat the trial; if this comes again, stop the program that uses io_uring with SQPOLL"
            }
            Remedy::OwnCores => "keep other work off the cores that the pollers run on, or use fewer jobs",
            Remedy::BusyPoller => {
                "keep more I/Os in flight, or give the poller its own core: it falls asleep when none come"
            }
            Remedy::PollDelay => "run as root: iopj then sets `io_poll_delay` for the trial",
            Remedy::CountCompletions => {
                "let completions be counted one by one: run as root, or with CAP_PERFMON and CAP_SYS_ADMIN; \
                 if you do, the figures of the trial say why they were not"
            }
            Remedy::OwnVectors => {
                "take a disk with interrupt vectors of its own, such as NVMe, or use the lab: zram has none"
            }
            Remedy::InterruptingDisk => {
                "take a drive that interrupts, such as a real NVMe drive, or use the lab"
            }
            Remedy::ControlRun => "measure with `iopj run`, which does a control run first",
            Remedy::ShallowQueue => {
                "a lower `iodepth`: alone in flight, each I/O takes an interrupt of its own"
            }
            Remedy::FasterDisk => "a faster drive, or fewer I/Os in flight: a pass lasts ten seconds at most",
            Remedy::NativeGenerator => "set `generator = \"native\"`, which counts what it submits",
            Remedy::Measure => "measure the job with `iopj run`: `generator = \"fio\"` keeps fio",
            Remedy::Report => "this should not happen: please report it with the store",
        }
    }

    /// A reason, and what to do about it.
    pub fn after(self, reason: impl fmt::Display) -> String {
        format!("{reason} (remedy: {})", self.as_str())
    }
}
