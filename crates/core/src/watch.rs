//! What is seen of a program that does its own I/O, and which paths that shows.
//!
//! Only types: `iopj-probe` collects the evidence and finds the paths, `iopj-store` keeps both.

mod seen;

pub use seen::{Certainty, SeenCaching, SeenCompletion, SeenInterface, SeenPath};

use crate::counts::{CpuTimes, DeviceEvidence};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The least time of counting that says anything about a longer one.
const LEAST_NS: u64 = 1_000_000;
/// Completions from which on their ratio is used.
const ENOUGH: u64 = 100;
/// The share of the I/Os, and of the completions to be expected, from which on they stand for all.
const MOST: f64 = 0.5;

/// What is watched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WatchSubject {
    /// A program that was started to be watched, with its arguments.
    Command(Vec<String>),
    /// A process that ran already, by number and name.
    Process(i32, String),
    /// The processes of a control group, by its folder.
    Cgroup(String),
    /// A whole disk, whoever uses it.
    Device(String),
}

impl fmt::Display for WatchSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WatchSubject::Command(words) => write!(f, "{}", words.join(" ")),
            WatchSubject::Process(pid, name) => write!(f, "process {pid} ({name})"),
            WatchSubject::Cgroup(path) => write!(f, "cgroup {path}"),
            WatchSubject::Device(name) => write!(f, "device {name}"),
        }
    }
}

/// Raw counts over a stretch of time: one interval of a watch, or all of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchEvidence {
    /// Length of the stretch in ns.
    pub over_ns: u64,
    /// What tracepoints counted in the program's threads; absent where they cannot be counted, and for a
    /// device.
    pub events: Option<EventCounts>,
    /// The kernel's own totals of the program's processes; absent for a device.
    pub program: Option<ProgramCounts>,
    /// The hits of tracepoints in the whole time, as the sum of its intervals, each scaled up by itself;
    /// absent for one interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimates: Option<EventEstimates>,
    /// The program's io_urings that were found open.
    pub rings: Vec<FoundRing>,
    /// The files that the program was seen to have open up to the end.
    pub files: OpenFiles,
    /// The disks that it uses, each with the I/O of everybody.
    pub devices: Vec<WatchedDevice>,
    /// CPU time of all cores by kind.
    pub cpu: CpuTimes,
    /// Energy by meter and scope; empty where there is no meter.
    pub power: Vec<WatchPower>,
    /// What watching cost.
    pub cost: WatchCost,
}

impl WatchEvidence {
    /// Reads and writes that the devices completed.
    pub fn device_ios(&self) -> u64 {
        self.devices.iter().map(|device| device.counts.reads + device.counts.writes).sum()
    }

    /// Enough was counted to stand for the whole stretch: all of it, or so many completions that their number
    /// is no luck. Where completions are not counted there is no such number.
    pub fn is_enough(&self) -> bool {
        let is_whole = self.events.as_ref().is_none_or(|events| events.share() >= 1.0);
        let mut counted = self.devices.iter().filter_map(|device| device.completions).peekable();
        is_whole || counted.peek().is_none() || counted.map(|seen| seen.total()).sum::<u64>() >= ENOUGH
    }

    /// By what a count of tracepoints is multiplied to stand for the whole stretch.
    ///
    /// Completions are counted at the same times, and the devices' own counters know how many there were in
    /// all: that ratio errs less than the times do, because I/O is not even. Where completions are not
    /// counted, the times decide.
    pub fn scale(&self) -> f64 {
        let share = self.events.as_ref().map_or(1.0, EventCounts::share);
        if share >= 1.0 {
            return 1.0;
        }
        let counted = self.devices.iter().filter(|device| device.completions.is_some());
        let [ios, completed] = counted.fold([0, 0], |[ios, completed], device| {
            let seen = device.completions.map_or(0, |seen| seen.total());
            [ios + device.counts.reads + device.counts.writes, completed + seen]
        });
        // A disk that was found late was not counted at the same times, and one without requests never is.
        let are_most = ios as f64 >= MOST * self.device_ios() as f64;
        let is_same_time = are_most && completed as f64 >= MOST * share * ios as f64;
        if completed >= ENOUGH && is_same_time {
            ios as f64 / completed as f64
        } else {
            1.0 / share.max(f64::MIN_POSITIVE)
        }
    }
}

/// Hits of tracepoints in the program's threads while they were counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EventCounts {
    /// Time for which they were counted, in ns.
    pub counted_ns: u64,
    /// Length of the stretch in ns. Where it is longer than `counted_ns`, counts are of a part of it.
    pub of_ns: u64,
    /// System calls of any kind.
    pub all_calls: u64,
    /// System calls that do I/O, by their names in the kernel.
    pub calls: BTreeMap<String, u64>,
    /// Entries of rings that read, write or sync, taken by the program's own system calls
    /// (`io_uring:io_uring_submit_req`).
    pub ring_entries: u64,
    /// The same, taken by a submission poller.
    pub poller_entries: u64,
    /// Entries of rings that pass a command through to a driver (`IORING_OP_URING_CMD`).
    pub passthrough_entries: u64,
    /// Folios that the program added to the page cache (`filemap:mm_filemap_add_to_page_cache`): reads that
    /// missed it, readahead, and new pages that are written.
    pub cache_adds: u64,
}

impl EventCounts {
    /// The share of the stretch for which tracepoints were counted.
    pub fn share(&self) -> f64 {
        // Both are read one after the other, and a rest takes much longer than that.
        let is_whole = self.is_counted() && self.of_ns.saturating_sub(self.counted_ns) < LEAST_NS;
        if is_whole || self.of_ns == 0 { 1.0 } else { (self.counted_ns as f64 / self.of_ns as f64).min(1.0) }
    }

    /// Something was counted in this stretch, or would have been.
    pub fn is_counted(&self) -> bool {
        self.counted_ns >= LEAST_NS.min(self.of_ns)
    }

    /// The hits of a system call.
    pub fn calls_of(&self, name: &str) -> u64 {
        self.calls.get(name).copied().unwrap_or(0)
    }
}

/// What would have been counted in a stretch of time if counting had not rested.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EventEstimates {
    /// Length in ns of the intervals in which anything was counted.
    pub over_ns: u64,
    /// System calls of any kind.
    pub all_calls: f64,
    /// System calls that do I/O, by their names in the kernel.
    pub calls: BTreeMap<String, f64>,
    /// Entries of rings that read, write, sync, or pass a command through.
    pub ring_entries: f64,
    /// Folios that the program added to the page cache.
    pub cache_adds: f64,
}

impl EventEstimates {
    /// Of one interval; `None` where nothing could be counted, or counting rested all the time.
    pub fn of(evidence: &WatchEvidence) -> Option<EventEstimates> {
        let events = evidence.events.as_ref().filter(|events| events.is_counted())?;
        let scale = evidence.scale();
        let whole = |count: u64| if count == 0 { 0.0 } else { count as f64 * scale };
        let entries = events.ring_entries + events.poller_entries + events.passthrough_entries;
        Some(EventEstimates {
            over_ns: evidence.over_ns,
            all_calls: whole(events.all_calls),
            calls: events.calls.iter().map(|(name, count)| (name.clone(), whole(*count))).collect(),
            ring_entries: whole(entries),
            cache_adds: whole(events.cache_adds),
        })
    }

    /// Adds another interval.
    pub fn add(&mut self, other: &EventEstimates) {
        self.over_ns += other.over_ns;
        self.all_calls += other.all_calls;
        for (name, count) in &other.calls {
            *self.calls.entry(name.clone()).or_default() += count;
        }
        self.ring_entries += other.ring_entries;
        self.cache_adds += other.cache_adds;
    }

    /// The same for a time that holds intervals in which counting rested.
    #[must_use]
    pub fn stretched(mut self, over_ns: u64) -> EventEstimates {
        if self.over_ns == 0 || over_ns <= self.over_ns {
            return self;
        }
        let factor = over_ns as f64 / self.over_ns as f64;
        self.over_ns = over_ns;
        self.calls.values_mut().for_each(|count| *count *= factor);
        [&mut self.all_calls, &mut self.ring_entries, &mut self.cache_adds]
            .into_iter()
            .for_each(|count| *count *= factor);
        self
    }
}

/// Totals that the kernel keeps of a process anyway, summed over the program's processes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramCounts {
    /// Processes at the end.
    pub processes: u32,
    /// Threads at the end.
    pub threads: u32,
    /// CPU time in user space in ns, in steps of a clock tick, as is `system_ns`.
    pub user_ns: u64,
    /// CPU time in the kernel in ns.
    pub system_ns: u64,
    /// CPU time in ns, exact and with threads that have ended; absent where events cannot be counted.
    pub cpu_ns: Option<u64>,
    /// Context switches; where events cannot be counted, of threads that did not end between two looks.
    pub switches: u64,
    /// `/proc/PID/io`; absent where this user may not read it. Some kernels hide the end of a process from
    /// its own user.
    pub io: Option<ProcessIo>,
    /// The bytes of [`ProgramCounts::disk_bytes`] where the end of a process was hidden: what wait4(2) says
    /// of those that iopj waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole_disk_bytes: Option<[u64; 2]>,
    /// Page faults that had to read.
    pub major_faults: u64,
    /// CPU time of submission pollers (`iou-sqp-*`) in ns.
    pub poller_ns: u64,
    /// Submission pollers seen.
    pub pollers: u32,
    /// io_uring's workers seen (`iou-wrk-*`): requests that would have blocked.
    pub workers: u32,
    /// Bytes that threads read or wrote which block all signals, as glibc's threads of POSIX AIO do.
    pub aio_thread_bytes: u64,
    /// Bytes that the whole program read or wrote up to the last look at which there was such a thread.
    pub aio_of_bytes: u64,
    /// Threads of that kind seen.
    pub aio_threads: u32,
}

/// `/proc/PID/io` (proc_pid_io(5)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIo {
    /// Bytes that `read` and its relatives returned, pipes included; io_uring and libaio are not counted.
    pub read_chars: u64,
    /// The same for `write`.
    pub write_chars: u64,
    /// Calls of `read` and its relatives.
    pub read_calls: u64,
    /// Calls of `write` and its relatives.
    pub write_calls: u64,
    /// Bytes that it made the block layer read, readahead included.
    pub read_bytes: u64,
    /// Bytes that it made the block layer write, or made dirty in the page cache.
    pub write_bytes: u64,
}

impl ProgramCounts {
    /// Bytes that the block layer had to read, and bytes that it had to write or that were made dirty.
    pub fn disk_bytes(&self) -> Option<[u64; 2]> {
        self.whole_disk_bytes.or(self.io.map(ProcessIo::disk_bytes))
    }

    /// CPU time in user space and in the kernel in ns: the exact sum where it is known, divided as the ticks
    /// are.
    pub fn cpu(&self) -> [f64; 2] {
        let ticks = [self.user_ns as f64, self.system_ns as f64];
        let sum = ticks[0] + ticks[1];
        match self.cpu_ns {
            Some(exact) if sum > 0.0 => ticks.map(|part| exact as f64 * part / sum),
            Some(exact) => [0.0, exact as f64],
            None => ticks,
        }
    }
}

impl ProcessIo {
    /// `read_bytes` and `write_bytes`.
    pub fn disk_bytes(self) -> [u64; 2] {
        [self.read_bytes, self.write_bytes]
    }
}

/// An io_uring of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundRing {
    /// The process that has it.
    pub pid: i32,
    /// Its descriptor there.
    pub fd: i32,
    /// The flags of its set-up (`IORING_SETUP_...`, include/uapi/linux/io_uring.h), if its creation was seen
    /// (`io_uring:io_uring_create`); absent for one that was found open.
    pub flags: Option<u32>,
    /// It has a submission poller.
    pub sqpoll: bool,
}

impl FoundRing {
    /// `IORING_SETUP_IOPOLL`, `IORING_SETUP_SQPOLL`, `IORING_SETUP_HYBRID_IOPOLL`.
    pub const IOPOLL: u32 = 1;
    /// See [`FoundRing::IOPOLL`].
    pub const SQPOLL: u32 = 1 << 1;
    /// See [`FoundRing::IOPOLL`].
    pub const HYBRID_IOPOLL: u32 = 1 << 17;

    /// True for a ring that is known to have been created with a flag.
    pub fn has(&self, flag: u32) -> bool {
        self.flags.is_some_and(|flags| flags & flag != 0)
    }
}

/// Regular files and block devices that are open, by the flags in `/proc/PID/fdinfo`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenFiles {
    /// Opened with `O_DIRECT`.
    pub direct: u32,
    /// Opened without.
    pub buffered: u32,
    /// Opened with `O_SYNC` or `O_DSYNC`.
    pub synchronous: u32,
    /// The flags could not be read for so many processes.
    pub unreadable: u32,
}

/// A disk of a watched program: the counts are of everybody who uses it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchedDevice {
    /// Its counters.
    pub counts: DeviceEvidence,
    /// Sum of the times of its reads in ms, queueing included.
    pub read_ms: u64,
    /// The same of its writes.
    pub write_ms: u64,
    /// Who completed its requests; absent where tracepoints cannot be counted, and where the disk has no
    /// requests, as zram has none.
    pub completions: Option<DeviceCompletions>,
    /// Latencies from issue to completion, sampled; absent where there were none.
    pub latency: Option<SampledLatency>,
}

/// Requests of a disk by the context that completed them, while tracepoints were counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceCompletions {
    /// In a hard interrupt.
    pub hard_interrupt: u64,
    /// In a soft interrupt.
    pub soft_interrupt: u64,
    /// In a worker thread of the kernel, or in a threaded interrupt handler.
    pub worker: u64,
    /// In any other thread.
    pub thread: u64,
    /// Requests issued by a worker of the kernel: writeback, and I/O that would have blocked.
    pub issued_by_worker: u64,
}

impl DeviceCompletions {
    /// All completions.
    pub fn total(&self) -> u64 {
        self.hard_interrupt + self.soft_interrupt + self.worker + self.thread
    }
}

/// Latencies of sampled requests, from `block:block_rq_issue` to `block:block_rq_complete`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampledLatency {
    /// Requests whose latency is known; 0 where this kernel sampled too few completions, and then the
    /// percentiles mean nothing.
    pub count: u64,
    /// Requests that were seen from issue to completion.
    pub requests: u64,
    /// Of these, issued by a thread of the program.
    pub of_program: u64,
    /// Of these, issued by a worker of the kernel.
    pub of_workers: u64,
    /// Of these, completed in a hard or soft interrupt.
    pub completed_in_interrupt: u64,
    /// Of these, completed in a thread of the program, outside of interrupts.
    pub completed_by_program: u64,
    /// Median in ns.
    pub p50_ns: u64,
    /// 95th percentile in ns.
    pub p95_ns: u64,
    /// 99th percentile in ns.
    pub p99_ns: u64,
    /// 99.9th percentile in ns.
    pub p99_9_ns: u64,
    /// Greatest in ns.
    pub max_ns: u64,
}

/// Energy that a meter measured in the stretch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WatchPower {
    /// The meter.
    pub meter: String,
    /// Its channel.
    pub channel: String,
    /// What the channel measures.
    pub scope: crate::energy::Scope,
    /// Mean power in W.
    pub watts: f64,
    /// Time in s that the readings cover.
    pub over_s: f64,
}

/// What watching costs the program, measured on this machine when the watch began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchCost {
    /// Time that a counted hit of a tracepoint takes, in ns.
    pub event_ns: f64,
    /// What a hit takes while counting rests, in ns.
    pub resting_event_ns: f64,
    /// Time that counting adds to a context switch of the program, in ns.
    pub switch_ns: f64,
    /// The same while counting rests.
    pub resting_switch_ns: f64,
    /// Time that a sampled event takes, in ns: issue or completion of a request.
    pub sample_ns: f64,
    /// CPU time that watching is estimated to have taken from the program, in ns.
    pub spent_ns: f64,
    /// The same as a share of the program's CPU time.
    pub slowdown: f64,
    /// Share of the time for which requests were sampled.
    pub sampled_share: f64,
    /// Samples for which there was no room.
    pub lost_samples: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_a_part_are_scaled_up_by_the_completions_of_the_same_time() {
        let events = EventCounts {
            counted_ns: 25_000_000,
            of_ns: 100_000_000,
            all_calls: 10,
            ..EventCounts::default()
        };
        assert_eq!((events.share(), EventCounts::default().share()), (0.25, 1.0));
        let whole = EventCounts { counted_ns: 99_999_000, ..events.clone() };
        assert_eq!(whole.share(), 1.0, "read a moment earlier than the time");
        let mut evidence = WatchEvidence { events: Some(events), ..WatchEvidence::default() };
        assert_eq!(EventEstimates::of(&evidence).unwrap().all_calls, 40.0);
        let seen =
            |soft_interrupt| Some(DeviceCompletions { soft_interrupt, ..DeviceCompletions::default() });
        let counts = DeviceEvidence { reads: 1000, ..DeviceEvidence::default() };
        evidence.devices = vec![WatchedDevice { counts, completions: seen(200), ..WatchedDevice::default() }];
        assert_eq!(EventEstimates::of(&evidence).unwrap().all_calls, 50.0);
        // Most I/O goes to a disk whose completions nobody can count.
        let memory = DeviceEvidence { reads: 5_000, ..DeviceEvidence::default() };
        evidence.devices.push(WatchedDevice { counts: memory, ..WatchedDevice::default() });
        assert_eq!(EventEstimates::of(&evidence).unwrap().all_calls, 40.0);
        evidence.devices.pop();
        // Counted for a shorter time than the calls.
        evidence.devices[0].completions = seen(110);
        assert_eq!(EventEstimates::of(&evidence).unwrap().all_calls, 40.0);
        evidence.events.as_mut().unwrap().counted_ns = 100_000_000;
        assert_eq!(EventEstimates::of(&evidence).unwrap().all_calls, 10.0, "all of it was counted");
    }

    /// Intervals of which a thousandth was counted were scaled up from a handful of calls, or from none.
    #[test]
    fn a_few_completions_of_a_part_do_not_stand_for_an_interval() {
        let events = EventCounts { counted_ns: 2_000_000, of_ns: 1_000_000_000, ..EventCounts::default() };
        let mut evidence = WatchEvidence { events: Some(events), ..WatchEvidence::default() };
        assert!(evidence.is_enough(), "no completions are counted at all");
        let seen = |thread| Some(DeviceCompletions { thread, ..DeviceCompletions::default() });
        evidence.devices = vec![WatchedDevice { completions: seen(20), ..WatchedDevice::default() }];
        assert!(!evidence.is_enough());
        evidence.devices[0].completions = seen(100);
        assert!(evidence.is_enough());
        evidence.devices[0].completions = seen(0);
        evidence.events.as_mut().unwrap().counted_ns = 1_000_000_000;
        assert!(evidence.is_enough(), "all of it was counted");
    }

    #[test]
    fn intervals_in_which_counting_rested_are_like_the_others() {
        let events = EventCounts { counted_ns: 0, of_ns: 100_000_000, ..EventCounts::default() };
        let resting = WatchEvidence { events: Some(events), ..WatchEvidence::default() };
        assert_eq!(EventEstimates::of(&resting), None);
        let calls = [("fsync".to_owned(), 3.0)].into();
        let estimates = EventEstimates { over_ns: 50, all_calls: 10.0, calls, ..EventEstimates::default() };
        let stretched = estimates.clone().stretched(100);
        assert_eq!((stretched.all_calls, stretched.calls["fsync"]), (20.0, 6.0));
        assert_eq!(estimates.clone().stretched(40), estimates, "nothing is scaled down");
    }
}
