//! What was seen while a trial ran, what it shows, and the verdict on the path that was asked for.
//!
//! Only types: `iopj-probe` collects evidence and judges it, `iopj-store` keeps it.

use crate::fabric::FabricEvidence;
use crate::power_change::PowerChange;
use crate::routes::Routes;
use iopj_path::path::{CompletionMode, Submission};
use iopj_path::uring::RingFlag;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub use crate::counts::{CpuTimes, DeviceEvidence};

/// Raw counts and settings over the measured window of one trial. Counts are differences between
/// the window's end and its start; no I/O of the trial is in flight at either.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Version of the rules that this evidence was collected for.
    pub rules: u32,
    /// Length of the window in ns.
    pub window_ns: u64,
    /// Threads that did I/O.
    pub numjobs: u32,
    /// I/Os that each job was to keep in flight.
    pub iodepth: u32,
    /// Reads issued to the kernel in the window, failed ones included.
    pub reads: u64,
    /// Bytes that those reads asked for.
    pub read_bytes: u64,
    /// Writes issued to the kernel in the window, failed ones included.
    pub writes: u64,
    /// Bytes that those writes asked for.
    pub write_bytes: u64,
    /// Flushes and fsyncs that were complete in the window.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub syncs: u64,
    /// Of the writes, those that were to be durable when they completed: each may cause flushes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub durable_writes: u64,
    /// Discards.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub discards: u64,
    /// Sum of the I/Os' latencies in ns; with `window_ns` it gives the achieved depth (Little's law).
    pub latency_sum_ns: u64,
    /// The leaf devices (whole disks) under the target.
    pub devices: Vec<DeviceEvidence>,
    /// Threads that did or served I/O.
    pub threads: Vec<ThreadEvidence>,
    /// Totals of the process that did the I/O (fio's, where fio is the generator).
    pub process: ProcessEvidence,
    /// What the engine itself counted; absent where fio did the I/O.
    pub engine: Option<EngineEvidence>,
    /// The rings of a generator that ran as a process of its own, as they were seen from outside; absent
    /// where nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rings: Option<Vec<RingEvidence>>,
    /// CPU time of all cores by kind.
    pub cpu: CpuTimes,
    /// Time of all cores in each idle state in ns, by the state's name, from
    /// `/sys/devices/system/cpu/cpu*/cpuidle`; empty where the kernel has none.
    #[serde(default)]
    pub c_states: BTreeMap<String, u64>,
    /// True where the kernel only samples irq time, so `cpu` misses short interrupts; absent where the
    /// kernel's configuration cannot be read.
    pub irq_time_sampled: Option<bool>,
    /// Processor time of other processes and of the kernel's threads; absent where not all processes can be
    /// seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<OthersEvidence>,
    /// Processor time of the co-runner's threads in ns, which is neither the I/O's nor that of others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corunner_ns: Option<u64>,
    /// How often processors were throttled for heat meanwhile; absent where that is not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttles: Option<u64>,
    /// What changed in the power state during the trial.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub power_changes: Vec<PowerChange>,
    /// The control run before the study; absent where there was none.
    pub control: Option<ControlRun>,
    /// How the ramp ended by the study's rule; absent where there was no rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steadystate: Option<SteadyState>,
    /// Who completed the I/Os of a pass just before the window, or why that was not counted; absent in
    /// evidence of rules before 4, and where no kernel driver had the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completions: Option<Finding<Completions>>,
    /// Processors that the jobs could use; absent in evidence of rules before 4, and where they could use
    /// all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_cpus: Option<u32>,
    /// How the jobs of an open load passed the time between arrivals; absent of a closed one, and where the
    /// generator does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<PaceEvidence>,
    /// The transport, the target host and the wire, in a study over fabrics; boxed, as few trials have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fabric: Option<Box<FabricEvidence>>,
}

/// Sleeps of the jobs between the arrivals of an open load: they are not the path's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaceEvidence {
    /// How often they slept with nothing in flight.
    pub sleeps: u64,
    /// For how long, in ns over all jobs.
    pub slept_ns: u64,
}

/// How a ramp ended by the rule that the study declares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SteadyState {
    /// Length of the ramp in ns.
    pub ramp_ns: u64,
    /// Length in ns of the interval at its end that was examined.
    pub duration_ns: u64,
    /// The share of the mean rate by which the line through the rates may rise or fall over that interval.
    pub limit: f64,
    /// The share by which it did; negative for a fall, absent where no line could be fitted.
    pub change: Option<f64>,
    /// Half of the 95 % interval of that share; absent where there is none, and in stores of the older rule,
    /// which took noise for a flat line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<f64>,
    /// Length in ns of the interval that the line was fitted to: `duration_ns`, or longer where noise hid the
    /// slope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_ns: Option<u64>,
    /// True if the rate was steady when the window began. If not, the ramp had reached its limit, and the
    /// trial is unsteady.
    pub attained: bool,
}

impl Evidence {
    /// Reads and writes issued to the kernel in the window, failed ones included.
    pub fn ios(&self) -> u64 {
        self.reads.saturating_add(self.writes)
    }

    /// Bytes that those I/Os asked for.
    pub fn bytes(&self) -> u64 {
        self.read_bytes.saturating_add(self.write_bytes)
    }
}

/// The part that a thread plays in the I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThreadRole {
    /// A job of the generator.
    #[default]
    Job,
    /// io_uring's submission poller (`iou-sqp-*`; a kernel thread `io_uring-sq` before 5.12).
    Sqpoll,
    /// io_uring's worker (`iou-wrk-*`).
    IoWorker,
    /// A thread of glibc's POSIX AIO.
    AioHelper,
}

/// Counts of one thread over the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadEvidence {
    /// Thread id.
    pub tid: i32,
    /// The thread's name as the kernel gives it.
    pub name: String,
    /// Its part in the I/O.
    pub role: ThreadRole,
    /// Time on a CPU in ns.
    pub cpu_ns: u64,
    /// Context switches that the thread asked for: it slept.
    pub voluntary_switches: u64,
    /// Context switches that the scheduler forced.
    pub involuntary_switches: u64,
    /// Time in ns that it was ready to run and waited for a core; absent in older stores, and where the
    /// kernel does not count it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_ns: Option<u64>,
    /// The processor that it ran on last, at the window's end; absent in older stores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_cpu: Option<u32>,
    /// The processors that it may run on, such as `0-3,8`; absent in older stores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus_allowed: Option<String>,
    /// Time in ns that these counts cover, from the window's start on, where a process was watched from
    /// outside and the thread was last seen before the window's end; absent where they cover the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_ns: Option<u64>,
    /// True if it started before the first job of the trial: a submission poller then serves a ring that the
    /// trial did not open. False in older stores, and where a process was watched from outside.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub before_jobs: bool,
    /// True if it ended in the window, and so has counts of zero.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ended: bool,
    /// Bytes that the thread had handed to the block layer when it was last seen
    /// (`/proc/PID/task/TID/io`); absent where it was not read, or the kernel does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_bytes: Option<u64>,
}

impl ThreadEvidence {
    /// A count of this thread over the window: scaled up where it covers less than the window, but at least
    /// half of it.
    pub fn in_window(&self, count: u64, window_ns: u64) -> u64 {
        match self.over_ns {
            Some(over_ns) if over_ns > 0 && (window_ns / 2..window_ns).contains(&over_ns) => {
                let scaled = u128::from(count) * u128::from(window_ns) / u128::from(over_ns);
                u64::try_from(scaled).unwrap_or(u64::MAX)
            }
            _ => count,
        }
    }
}

/// An io_uring of a process that was watched from outside (`/proc/PID/fdinfo`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingEvidence {
    /// Thread id of its submission poller; absent where it has none.
    pub poller: Option<i32>,
    /// Entries that the kernel had taken off its submission queue when it was last seen; absent before Linux
    /// 5.16, which does not say.
    pub entries: Option<u64>,
    /// Time in ns that these cover, from the window's start on: a locked ring cannot be read. Absent in older
    /// stores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_ns: Option<u64>,
}

/// Totals of the process that did the I/O, from `getrusage`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessEvidence {
    /// CPU time in user space in ns.
    pub user_ns: u64,
    /// CPU time in the kernel in ns.
    pub system_ns: u64,
    /// Voluntary context switches of all I/O threads.
    pub voluntary_switches: u64,
    /// Involuntary context switches of all I/O threads.
    pub involuntary_switches: u64,
}

/// What the engines of all jobs counted over the window, and how they were set up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EngineEvidence {
    /// System calls that the engines made; absent where the interface is a library, which makes its own.
    pub system_calls: Option<u64>,
    /// Of these, calls that handed I/O to the kernel.
    pub submit_calls: u64,
    /// Of these, calls that only woke a sleeping submission poller.
    pub wakeups: u64,
    /// Flags that `io_uring_setup` took; of an engine that chooses its way, for the ring of its fallback.
    pub ring_flags: Vec<RingFlag>,
    /// True if buffers and file were registered.
    pub registered: bool,
    /// Writes to the device's own doorbells; absent for interfaces of the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doorbells: Option<u64>,
    /// Of these, writes to doorbells of completion queues; also absent in older stores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_doorbells: Option<u64>,
    /// Polls of the device's own completion queue that found nothing; absent for interfaces of the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty_polls: Option<u64>,
    /// Of the system calls, sleeps before polls of the device's own completion queue; absent for interfaces
    /// of the kernel, and in older stores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sleeps: Option<u64>,
    /// What went which way; absent of engines that have one. Boxed, as few trials have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routes: Option<Box<Routes>>,
}

impl EngineEvidence {
    /// Writes to doorbells of submission queues; absent where they were not counted separately.
    pub fn submission_doorbells(&self) -> Option<u64> {
        Some(self.doorbells?.saturating_sub(self.completion_doorbells?))
    }
}

/// CPU time of everything but the trial, from `/proc/PID/stat` of all processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OthersEvidence {
    /// Time between the two readings, which enclose the window.
    pub over_ns: u64,
    /// CPU time of all processes but this one and its children, including those that ended meanwhile; in
    /// steps of a clock tick.
    pub processes_ns: u64,
    /// CPU time of the kernel's own threads: workers, soft interrupts. It is unknown whom they worked for.
    pub kernel_threads_ns: u64,
    /// The processes that used most of it, by their names, with those of the same name together; absent in
    /// older stores.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub busiest: Vec<BusyProcess>,
}

/// A process that used the processors meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BusyProcess {
    /// Its name as the kernel gives it (`comm`).
    pub name: String,
    /// Its CPU time, without that of its children.
    pub cpu_ns: u64,
}

/// A short run before the study, with completion by interrupt: it shows whether the device interrupts at all.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ControlRun {
    /// Synchronous reads that were issued.
    pub ios: u64,
    /// Interrupts on the device's vectors meanwhile; absent where they cannot be told apart.
    pub interrupts: Option<u64>,
    /// Reads that the devices under the target completed meanwhile.
    pub device_reads: u64,
    /// Who completed them; absent where that was not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completions: Option<Completions>,
}

/// Who completed the I/Os of a short pass before the window, each counted in the context that completed it
/// (the kernel's tracepoint `block:block_rq_complete`); and what the window's own counts are compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completions {
    /// I/Os that the pass issued.
    pub ios: u64,
    /// Requests completed in a hard interrupt.
    pub hard_interrupt: u64,
    /// In a soft interrupt.
    pub soft_interrupt: u64,
    /// By a worker of the kernel, or by the thread of an interrupt.
    pub worker: u64,
    /// By a thread that waits for the I/Os: a job, or io_uring's submission poller; of fio, any of its
    /// threads.
    pub waiting: u64,
    /// By any other thread.
    pub other: u64,
    /// Timers set by the threads that wait.
    pub timers: u64,
    /// Length of the pass in ns.
    pub pass_ns: u64,
    /// Sleeps of the threads that look for completions.
    pub sleeps: u64,
    /// Interrupts on the devices' own vectors; absent where they cannot be told apart.
    pub interrupts: Option<u64>,
    /// I/Os that the disks merged into others, which complete with them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub merges: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Completions {
    /// Requests completed by an interrupt, or instead of one.
    pub fn by_interrupt(&self) -> u64 {
        self.hard_interrupt.saturating_add(self.soft_interrupt).saturating_add(self.worker)
    }

    /// All requests that were completed.
    pub fn total(&self) -> u64 {
        self.by_interrupt().saturating_add(self.waiting).saturating_add(self.other)
    }
}

/// A property that the evidence shows, or the reason why it shows none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding<T> {
    /// The evidence shows this.
    Seen(T),
    /// The evidence shows several, each with a share that matters; which.
    Mixed(String),
    /// The evidence shows none; why.
    Unclear(String),
}

/// Nothing was looked at.
impl<T> Default for Finding<T> {
    fn default() -> Finding<T> {
        Finding::Unclear("not looked at".to_owned())
    }
}

/// What the evidence shows to have happened, found without knowing what was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    /// How completions were found.
    pub completion: Finding<CompletionMode>,
    /// How I/Os were submitted.
    pub submission: Finding<Submission>,
    /// Absent if the device did exactly the I/O that was issued; otherwise the reason to doubt it (a cache, a
    /// hole, a merge, a split, foreign I/O).
    pub doubt: Option<String>,
}

/// The verdicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VerdictKind {
    /// The evidence shows the path that was asked for.
    Verified,
    /// The evidence shows another path.
    Refuted,
    /// The evidence shows neither.
    #[default]
    Unproven,
    /// No path was asked for, because a program did its own I/O: the reasons say what was seen of it.
    Seen,
}

impl VerdictKind {
    /// True where nothing speaks against taking a trial for what it says it is.
    pub fn stands(self) -> bool {
        matches!(self, VerdictKind::Verified | VerdictKind::Seen)
    }

    /// The verdict's name.
    pub fn as_str(self) -> &'static str {
        match self {
            VerdictKind::Verified => "verified",
            VerdictKind::Refuted => "refuted",
            VerdictKind::Unproven => "unproven",
            VerdictKind::Seen => "seen",
        }
    }
}

/// The observation compared with the path that was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The verdict.
    pub kind: VerdictKind,
    /// The reasons, one sentence each; for a verified trial, what was seen.
    pub reasons: Vec<String>,
}
