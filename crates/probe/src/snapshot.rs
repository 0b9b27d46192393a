//! [`Probe`] and [`Snapshot`]: all counters at one moment, and the evidence between two.

use crate::RULES;
use crate::completions::{CompletionCounters, CompletionsError, Waiting};
use crate::cpu;
use crate::device::{Device, DiskCounts};
use crate::error::ProbeError;
use crate::idle::{IdleStates, IdleTimes};
use crate::interrupts::{InterruptCounts, InterruptTable};
use crate::kernel::{irq_time_sampled, sqpoll_is_kernel_thread};
use crate::others::Others;
use crate::root::Root;
use crate::taken::{self, Taken};
use crate::threads::{self, Thread};
use iopj_core::evidence::{CpuTimes, Evidence, ProcessEvidence, ThreadEvidence, ThreadRole};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

const INTERRUPTS: &str = "proc/interrupts";

/// Reads the counters of some disks, of the threads that do the I/O, and of all cores.
#[derive(Clone, Debug)]
pub struct Probe {
    pub(crate) root: Root,
    devices: Arc<[Device]>,
    taken: Option<Arc<Taken>>,
    irqs: BTreeSet<u32>,
    pub(crate) idle_states: Arc<IdleStates>,
    pub(crate) tick_ns: u64,
    pub(crate) sqpoll_is_kernel_thread: bool,
}

/// Who does the I/O of the trial.
#[derive(Clone, Copy, Debug)]
pub enum Who<'a> {
    /// Threads of this process.
    ThisProcess {
        /// Thread ids of the jobs.
        jobs: &'a [i32],
        /// Thread ids of the threads that do no I/O (the main thread, meters, progress): they are left out,
        /// of the totals too.
        own: &'a [i32],
    },
    /// A child process that starts and ends between the two snapshots. The caller adds its totals, by
    /// [`reap`](crate::reap).
    Child,
}

/// The end of the window at which a snapshot is taken. The threads are read closest to the window, the device
/// and the machine farther away: a submission poller uses CPU time while the rest is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// The window begins after the snapshot: threads last.
    Begin,
    /// The window has ended before it: threads first.
    End,
}

/// All counters at one moment. [`until`](Snapshot::until) turns two into evidence.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    devices: Arc<[Device]>,
    samples: Vec<DiskCounts>,
    taken: Option<(Arc<Taken>, taken::TakenState)>,
    interrupts: InterruptCounts,
    threads: Vec<(ThreadRole, Thread)>,
    own: Vec<Thread>,
    usage: ProcessEvidence,
    others: Option<Others>,
    tick_ns: u64,
    cores: CoreTimes,
    idle_states: Arc<IdleStates>,
}

/// Time of all cores by kind and by idle state, since the machine started.
#[derive(Clone, Debug, Default)]
pub(crate) struct CoreTimes {
    cpu: CpuTimes,
    idle: IdleTimes,
}

impl CoreTimes {
    pub(crate) fn until(
        &self,
        later: &CoreTimes,
        idle_states: &IdleStates,
    ) -> (CpuTimes, BTreeMap<String, u64>) {
        (cpu::between(&self.cpu, &later.cpu), idle_states.between(&self.idle, &later.idle))
    }
}

impl Probe {
    /// A probe for the disks under a target, named as in `/sys/block` (`vda`, `nvme0n1`, `zram0`).
    ///
    /// The names are leaves: disks that are built on no other. For an NVMe multipath disk these are its paths
    /// (`nvme0c0n1`), because the head has neither queues nor interrupts of its own.
    ///
    /// # Errors
    ///
    /// [`ProbeError::NoDevice`] for a name that `/sys/block` lacks (a partition is no disk),
    /// [`ProbeError::Read`] where `/proc/interrupts` cannot be read.
    pub fn new(devices: &[String]) -> Result<Probe, ProbeError> {
        Probe::with_root(Path::new("/"), devices)
    }

    /// A probe for a device that was taken from its kernel driver, by its PCI address (`0000:01:00.0`).
    ///
    /// # Errors
    ///
    /// [`ProbeError::NoDevice`] for an address without a device, [`ProbeError::Read`] as for [`Probe::new`].
    pub fn taken(address: &str) -> Result<Probe, ProbeError> {
        let mut probe = Probe::new(&[])?;
        probe.taken = Some(Arc::new(Taken::find(&probe.root, address)?));
        Ok(probe)
    }

    /// As [`Probe::new`], with `/proc` and `/sys` taken from below `root`.
    ///
    /// # Errors
    ///
    /// As [`Probe::new`].
    pub fn with_root(root: &Path, devices: &[String]) -> Result<Probe, ProbeError> {
        let root = Root::new(root)?;
        let text = root.text(INTERRUPTS)?;
        let table = InterruptTable::new(&text);
        let found: Result<Vec<Device>, ProbeError> =
            devices.iter().map(|name| Device::find(&root, name, &table)).collect();
        let devices: Arc<[Device]> = found?.into();
        let irqs = devices.iter().flat_map(Device::irqs).collect();
        let sqpoll_is_kernel_thread = sqpoll_is_kernel_thread(&root);
        let idle_states = Arc::new(IdleStates::find(&root));
        Ok(Probe {
            root,
            devices,
            taken: None,
            irqs,
            idle_states,
            tick_ns: cpu::tick_ns(),
            sqpoll_is_kernel_thread,
        })
    }

    /// Reads all counters at an edge of the window. Take it while no I/O of the trial is in flight. The job
    /// threads must be alive, else their counts are only in the totals.
    ///
    /// # Errors
    ///
    /// [`ProbeError::Read`] or [`ProbeError::Form`] for a file that cannot be read or understood,
    /// such as that of a disk that was pulled out.
    pub fn snapshot(&self, who: Who<'_>, edge: Edge) -> Result<Snapshot, ProbeError> {
        // What takes longest is read farthest from the window.
        let (others, machine, (threads, own, usage)) = match edge {
            Edge::Begin => {
                let (others, machine) = (self.others(), self.machine()?);
                (others, machine, self.process(who)?)
            }
            Edge::End => {
                let process = self.process(who)?;
                let machine = self.machine()?;
                (self.others(), machine, process)
            }
        };
        Ok(Snapshot { threads, own, usage, others, ..machine })
    }

    fn others(&self) -> Option<Others> {
        Others::read(&self.root, std::process::id().cast_signed())
    }

    /// A snapshot without threads, totals and others.
    fn machine(&self) -> Result<Snapshot, ProbeError> {
        let samples: Result<Vec<DiskCounts>, ProbeError> = self.devices.iter().map(Device::sample).collect();
        let text = self.root.text(INTERRUPTS)?;
        let table = InterruptTable::new(&text);
        let mut irqs = self.irqs.clone();
        let taken = self.taken.as_ref().map(|taken| {
            let (sample, own) = taken.sample(&table);
            irqs.extend(own);
            (Arc::clone(taken), sample)
        });
        Ok(Snapshot {
            devices: Arc::clone(&self.devices),
            samples: samples?,
            taken,
            interrupts: table.counts(&irqs),
            tick_ns: self.tick_ns,
            cores: self.cores()?,
            idle_states: Arc::clone(&self.idle_states),
            ..Snapshot::default()
        })
    }

    fn process(&self, who: Who<'_>) -> Result<ThreadsAndTotals, ProbeError> {
        match who {
            Who::ThisProcess { jobs, own } => self.this_process(jobs, own),
            Who::Child => Ok(ThreadsAndTotals::default()),
        }
    }

    /// Time of all cores now.
    pub(crate) fn cores(&self) -> Result<CoreTimes, ProbeError> {
        Ok(CoreTimes { cpu: cpu::read(&self.root, self.tick_ns)?, idle: self.idle_states.read() })
    }

    /// Counts who completes the disks' I/Os from now on, until it is ended.
    /// No I/O of the trial may be in flight.
    ///
    /// # Errors
    /// [`CompletionsError`] if there is no tracefs, or this user may not use it.
    pub fn count_completions(&self, waiting: Waiting<'_>) -> Result<CompletionCounters, CompletionsError> {
        let disks: Vec<&str> = self.devices.iter().map(Device::name).collect();
        CompletionCounters::open(&self.root, &disks, waiting)
    }

    fn this_process(&self, jobs: &[i32], own: &[i32]) -> Result<ThreadsAndTotals, ProbeError> {
        let all = threads::of_process(&self.root, "self", self.tick_ns)?;
        let (own, others): (Vec<Thread>, Vec<Thread>) =
            all.into_iter().partition(|thread| own.contains(&thread.tid));
        let mut threads: Vec<(ThreadRole, Thread)> =
            others.into_iter().map(|thread| (threads::role(&thread, jobs), thread)).collect();
        if self.sqpoll_is_kernel_thread {
            let outside = threads::kernel_sqpolls(&self.root, self.tick_ns)?;
            threads.extend(outside.into_iter().map(|thread| (ThreadRole::Sqpoll, thread)));
        }
        Ok((threads, own, cpu::usage()?))
    }
}

/// Threads of the I/O, threads of the caller's own, and the totals of both.
type ThreadsAndTotals = (Vec<(ThreadRole, Thread)>, Vec<Thread>, ProcessEvidence);

impl Snapshot {
    /// The threads that wait for completions: jobs and submission pollers.
    pub fn waiting(&self) -> Vec<i32> {
        let waits = |role: &ThreadRole| matches!(role, ThreadRole::Job | ThreadRole::Sqpoll);
        self.threads.iter().filter(|(role, _)| waits(role)).map(|(_, thread)| thread.tid).collect()
    }

    /// What happened from this snapshot to `later`, taken by the same probe for the same `Who`.
    ///
    /// Fills `rules`, `devices`, `threads`, `process`, `others`, `cpu`, `c_states` and `irq_time_sampled`;
    /// the caller adds what only it knows: `window_ns`, `numjobs`, `iodepth`, `reads`, `read_bytes`,
    /// `writes`, `write_bytes`, `latency_sum_ns`, `engine`, `control`, `throttles` and `power_changes`; the
    /// totals of a [`Who::Child`]; of a taken device the I/Os that it counted. Threads that appeared
    /// meanwhile count from zero; those that ended are in `process` only, but a submission poller that ended
    /// is listed, with counts of zero: it may have served another ring. What it used is at most what the
    /// totals hold beyond the other threads.
    pub fn until(&self, later: &Snapshot) -> Evidence {
        let before: Vec<Thread> = self.threads.iter().map(|(_, thread)| thread.clone()).collect();
        let begun = self.jobs_begun();
        let evidence = |(role, thread): &(ThreadRole, Thread)| ThreadEvidence {
            before_jobs: begun.is_some_and(|begun| thread.started_ticks < begun),
            ..thread.since(&before).evidence(*role)
        };
        let here = later.threads.iter().map(evidence);
        let has_ended = |thread: &Thread| later.threads.iter().all(|(_, known)| known.tid != thread.tid);
        let ended =
            self.threads.iter().filter(|(role, thread)| *role == ThreadRole::Sqpoll && has_ended(thread));
        let ended = ended.map(|thread| ThreadEvidence { ended: true, ..evidence(thread) });
        let devices = later.devices.iter().zip(&later.samples).filter_map(|(device, sample)| {
            let known = self.devices.iter().position(|known| known.name() == device.name())?;
            let earlier = self.samples.get(known)?;
            Some(device.between((earlier, &self.interrupts), (sample, &later.interrupts)))
        });
        let taken = self.taken.as_ref().zip(later.taken.as_ref());
        let taken = taken.map(|((_, earlier), (device, sample))| {
            device.between((earlier, &self.interrupts), (sample, &later.interrupts))
        });
        let (cpu, c_states) = self.cores.until(&later.cores, &later.idle_states);
        Evidence {
            rules: RULES,
            devices: devices.chain(taken).collect(),
            threads: here.chain(ended).collect(),
            process: self.process_until(later),
            others: self
                .others
                .as_ref()
                .zip(later.others.as_ref())
                .and_then(|(first, last)| first.until(last, self.tick_ns)),
            cpu,
            c_states,
            irq_time_sampled: irq_time_sampled(),
            ..Evidence::default()
        }
    }

    /// When the first job started, in clock ticks since the machine did.
    fn jobs_begun(&self) -> Option<u64> {
        let jobs = self.threads.iter().filter(|(role, _)| *role == ThreadRole::Job);
        jobs.map(|(_, thread)| thread.started_ticks).min()
    }

    /// The totals, in which threads that have ended still count, minus those of the caller's own threads.
    fn process_until(&self, later: &Snapshot) -> ProcessEvidence {
        let total = less(later.usage, self.usage);
        later.own.iter().map(|thread| thread.since(&self.own)).fold(total, |total, own| {
            let (user_ns, system_ns) = own.user_and_system_ns();
            let Thread { voluntary_switches, involuntary_switches, .. } = own;
            less(total, ProcessEvidence { user_ns, system_ns, voluntary_switches, involuntary_switches })
        })
    }
}

/// The totals of `all` without `part`.
fn less(all: ProcessEvidence, part: ProcessEvidence) -> ProcessEvidence {
    ProcessEvidence {
        user_ns: all.user_ns.saturating_sub(part.user_ns),
        system_ns: all.system_ns.saturating_sub(part.system_ns),
        voluntary_switches: all.voluntary_switches.saturating_sub(part.voluntary_switches),
        involuntary_switches: all.involuntary_switches.saturating_sub(part.involuntary_switches),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(own: &[Thread], user_ns: u64, system_ns: u64, voluntary_switches: u64) -> Snapshot {
        Snapshot {
            own: own.to_vec(),
            usage: ProcessEvidence { user_ns, system_ns, voluntary_switches, involuntary_switches: 0 },
            tick_ns: 10_000_000,
            ..Snapshot::default()
        }
    }

    fn own(tid: i32, ticks: (u64, u64), cpu_ns: u64, voluntary_switches: u64) -> Thread {
        let (user_ns, system_ns) = ticks;
        Thread { tid, user_ns, system_ns, cpu_ns, voluntary_switches, ..Thread::default() }
    }

    #[test]
    fn totals_are_without_own_threads() {
        let before = snapshot(&[own(1, (100, 100), 200, 5)], 1_000, 500, 50);
        // The first thread did 300 ns of work, a third of it in user space; the second started meanwhile.
        let after = snapshot(&[own(1, (200, 300), 500, 9), own(2, (0, 0), 40, 1)], 2_000, 1_500, 100);
        let process = before.until(&after).process;
        assert_eq!((process.user_ns, process.system_ns), (1_000 - 100, 1_000 - 200 - 40));
        assert_eq!(process.voluntary_switches, 50 - 4 - 1);
    }

    #[test]
    fn of_threads_that_ended_only_submission_pollers_are_listed() {
        let thread = |tid| Thread { tid, cpu_ns: 70, voluntary_switches: 7, ..Thread::default() };
        let mut before = snapshot(&[], 0, 0, 0);
        before.threads = vec![(ThreadRole::Sqpoll, thread(1)), (ThreadRole::IoWorker, thread(2))];
        before.threads.push((ThreadRole::Sqpoll, thread(3)));
        let mut after = snapshot(&[], 0, 0, 0);
        after.threads = vec![(ThreadRole::Sqpoll, Thread { cpu_ns: 90, ..thread(3) })];
        let threads = before.until(&after).threads;
        let found: Vec<_> =
            threads.iter().map(|it| (it.tid, it.role, it.cpu_ns, it.voluntary_switches)).collect();
        assert_eq!(found, [(3, ThreadRole::Sqpoll, 20, 0), (1, ThreadRole::Sqpoll, 0, 0)]);
    }

    #[test]
    fn a_poller_that_started_before_the_jobs_serves_another_ring() {
        let thread = |tid, started_ticks| Thread { tid, started_ticks, ..Thread::default() };
        let mut before = snapshot(&[], 0, 0, 0);
        before.threads = vec![(ThreadRole::Job, thread(1, 101)), (ThreadRole::Job, thread(2, 100))];
        let mut after = before.clone();
        // One ended; one goes on; two are of rings that the jobs opened, one of them in the window.
        before.threads.push((ThreadRole::Sqpoll, thread(3, 99)));
        before.threads.push((ThreadRole::Sqpoll, thread(5, 100)));
        after
            .threads
            .extend([(4, 99), (5, 100), (6, 200)].map(|(tid, at)| (ThreadRole::Sqpoll, thread(tid, at))));
        let found: Vec<_> = before.until(&after).threads.iter().map(|it| (it.tid, it.before_jobs)).collect();
        assert_eq!(found, [(1, false), (2, false), (4, true), (5, false), (6, false), (3, true)]);
        let ended = before.until(&after).threads.into_iter().filter(|thread| thread.ended);
        assert_eq!(ended.map(|thread| thread.tid).collect::<Vec<_>>(), [3]);
        before.threads.retain(|(role, _)| *role != ThreadRole::Job);
        assert!(before.until(&after).threads.iter().all(|thread| !thread.before_jobs));
    }

    #[test]
    fn snapshots_in_the_wrong_order_give_zeroes() {
        let (before, after) = (snapshot(&[], 0, 0, 0), snapshot(&[own(1, (9, 9), 18, 9)], 9, 9, 9));
        assert_eq!(after.until(&before).process, ProcessEvidence::default());
    }
}
