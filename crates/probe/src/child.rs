//! [`ChildWatch`]: a generator that runs as a process of its own, seen from outside: when its jobs begin,
//! what each thread takes from then on, who hands the I/O to the kernel.
//!
//! Sources: proc_pid_io(5); fio's backend.c (`run_threads`, `thread_main`) for the order in which it makes
//! its threads.

pub(crate) mod rings;
#[cfg(test)]
mod tests;

use crate::error::ProbeError;
use crate::root::text_if_there;
use crate::snapshot::{CoreTimes, Probe};
use crate::threads::{self, Thread};
use iopj_core::evidence::{CpuTimes, Evidence, ProcessEvidence, RingEvidence, ThreadEvidence, ThreadRole};
use iopj_core::uring::RingThread;
use rings::Rings;
use std::collections::BTreeMap;
use std::time::Duration;

/// Share of the window that the looks at each job must cover.
const COVERED: f64 = 0.8;
/// Between two looks until the jobs begin: the beginning is known to this precision.
const SEEKING: Duration = Duration::from_millis(1);
/// How long before the jobs' known end the last look is, and longer if looks take long.
const BEFORE_END: Duration = Duration::from_millis(4);
/// The longest wait if the jobs' end is not known, and after it.
const LONGEST: Duration = Duration::from_millis(50);
/// The longest wait in a long run.
const FEW: Duration = Duration::from_secs(1);

/// Which of a child's threads are its jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobThreads {
    /// Those after the first, which keeps the time. Later threads work for them: threads of POSIX AIO, and
    /// io_uring's submission pollers, which have the name of the job that made them until they run.
    AfterFirst,
    /// The last, because a plugin makes threads before them. The kernel does not see their I/O (kernel
    /// bypass), so they begin when they exist.
    Unseen,
}

/// The jobs of a child.
#[derive(Clone, Copy, Debug)]
pub struct ChildJobs {
    /// Jobs, each a thread.
    pub count: u32,
    /// Which threads these are.
    pub threads: JobThreads,
    /// How long they run, if that is known.
    pub runtime: Option<Duration>,
}

/// Watches a child from its start to its end. The caller makes the looks, each
/// [`next`](ChildWatch::next) after the one before.
#[derive(Debug)]
pub struct ChildWatch<'a> {
    probe: &'a Probe,
    process: String,
    jobs: ChildJobs,
    begun: Option<Jobs>,
    threads: BTreeMap<i32, WatchedThread>,
    rings: Rings,
    /// Bytes that the whole process handed on up to the last look, with threads that have ended.
    handed_on: Option<u64>,
    cost: Duration,
}

#[derive(Debug)]
struct Jobs {
    at_ns: u64,
    jobs: Vec<i32>,
    /// Threads that do no I/O: the child's main thread, the one that keeps its time.
    own: Vec<i32>,
    cores: CoreTimes,
    ended: Option<CoreTimes>,
    handed_on: Option<u64>,
}

/// A thread from the jobs' beginning, or from its own start if that was later.
#[derive(Debug)]
struct WatchedThread {
    role: ThreadRole,
    first: ThreadCounts,
    last: ThreadCounts,
    last_ns: u64,
}

#[derive(Clone, Debug, Default)]
struct ThreadCounts {
    thread: Thread,
    block_bytes: Option<u64>,
}

/// What was seen of a child from the beginning of its jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct Watched {
    /// When they began, on the caller's clock.
    pub begin_ns: u64,
    threads: Vec<ThreadEvidence>,
    rings: Vec<RingEvidence>,
    process: ProcessEvidence,
    cpu: CpuTimes,
    c_states: BTreeMap<String, u64>,
}

impl Watched {
    /// The evidence with what was seen of the jobs instead of the totals of the child's life.
    #[must_use]
    pub fn put_into(self, evidence: Evidence) -> Evidence {
        let Watched { threads, rings, process, cpu, c_states, .. } = self;
        Evidence { threads, rings: Some(rings), process, cpu, c_states, ..evidence }
    }
}

impl<'a> ChildWatch<'a> {
    /// A watch of the child of this number, which has just been started.
    pub fn new(probe: &'a Probe, child: u32, jobs: ChildJobs) -> ChildWatch<'a> {
        ChildWatch {
            probe,
            process: child.to_string(),
            jobs,
            begun: None,
            threads: BTreeMap::new(),
            rings: Rings::default(),
            handed_on: None,
            cost: Duration::ZERO,
        }
    }

    /// Reads what the child's threads and rings have counted. `now_ns` is the caller's clock.
    ///
    /// # Errors
    /// [`ProbeError`] for a file that cannot be read or understood; the child's end is no error.
    pub fn look(&mut self, now_ns: u64) -> Result<(), ProbeError> {
        let looking = std::time::Instant::now();
        let mut all = threads::of_process(&self.probe.root, &self.process, self.probe.tick_ns)?;
        self.rings.look(&self.probe.root, &self.process, now_ns);
        all.extend(self.pollers_outside(&all)?);
        match &self.begun {
            None => self.begin(&all, now_ns)?,
            Some(_) => self.follow(&all, now_ns)?,
        }
        self.cost = looking.elapsed();
        Ok(())
    }

    /// The jobs have begun, and not yet ended, as far as the looks show.
    pub fn is_running(&self) -> bool {
        self.begun.as_ref().is_some_and(|begun| begun.ended.is_none())
    }

    /// How long to wait before the next look. There are few looks in the window, and the last one is close to
    /// its end.
    pub fn next(&self, now_ns: u64) -> Duration {
        let Some(begun) = &self.begun else { return SEEKING };
        if begun.ended.is_some() {
            return LONGEST;
        }
        let since = Duration::from_nanos(now_ns.saturating_sub(begun.at_ns));
        let Some(runtime) = self.jobs.runtime else { return (since / 20).clamp(2 * SEEKING, LONGEST) };
        let before_end = BEFORE_END + 2 * self.cost;
        match runtime.checked_sub(before_end + since) {
            Some(left) => (since / 4).clamp(4 * SEEKING, FEW).min(left.max(SEEKING)),
            None if since < runtime => runtime - since + SEEKING,
            None => (2 * SEEKING).max((since - runtime) / 4).min(LONGEST),
        }
    }

    /// What was seen of jobs that ran for `window_ns`; `None` if their beginning was not seen, or too little
    /// of their run.
    pub fn finish(self, window_ns: u64) -> Option<Watched> {
        let begun = self.begun.as_ref()?;
        let over_ns = |seen: &WatchedThread| seen.last_ns.saturating_sub(begun.at_ns);
        let is_covered = |job: &i32| {
            self.threads.get(job).is_some_and(|seen| over_ns(seen) as f64 >= COVERED * window_ns as f64)
        };
        if window_ns == 0 || !begun.jobs.iter().all(is_covered) {
            return None;
        }
        let mut process = ProcessEvidence::default();
        let mut threads = Vec::with_capacity(self.threads.len());
        for seen in self.threads.values() {
            let (over_ns, thread) =
                (over_ns(seen), seen.last.thread.since(std::slice::from_ref(&seen.first.thread)));
            let times_ns = thread.user_and_system_ns();
            // Since the thread started, like a ring's entries: the child does nothing outside the window.
            let block_bytes = seen.last.block_bytes;
            let evidence =
                ThreadEvidence { over_ns: Some(over_ns), block_bytes, ..thread.evidence(seen.role) };
            if seen.role != ThreadRole::Sqpoll || !self.probe.sqpoll_is_kernel_thread {
                add(&mut process, &evidence, times_ns, window_ns);
            }
            threads.push(evidence);
        }
        threads.extend(self.between_looks(begun));
        let ended = match &begun.ended {
            Some(cores) => cores.clone(),
            None => self.probe.cores().ok()?,
        };
        let (cpu, c_states) = begun.cores.until(&ended, &self.probe.idle_states);
        Some(Watched {
            begin_ns: begun.at_ns,
            threads,
            rings: self.rings.evidence(begun.at_ns),
            process,
            cpu,
            c_states,
        })
    }

    /// Submission pollers that are kernel threads, before Linux 5.12.
    fn pollers_outside(&self, inside: &[Thread]) -> Result<Vec<Thread>, ProbeError> {
        let is_outside = |tid: &i32| inside.iter().all(|thread| thread.tid != *tid);
        let read = |tid: i32| {
            Thread::read(&self.probe.root.path("proc").join(tid.to_string()), tid, self.probe.tick_ns)
                .transpose()
        };
        self.rings.pollers().filter(is_outside).filter_map(read).collect()
    }

    fn counts(&self, thread: &Thread) -> Result<ThreadCounts, ProbeError> {
        let all = self.probe.root.path("proc");
        let directory = all.join(&self.process).join("task").join(thread.tid.to_string());
        let directory = if directory.exists() { directory } else { all.join(thread.tid.to_string()) };
        // The kernel may refuse to say: then it is not known.
        let text = text_if_there(&directory.join("io")).ok().flatten();
        Ok(ThreadCounts { thread: thread.clone(), block_bytes: text.as_deref().and_then(block_bytes) })
    }

    fn process_bytes(&self) -> Option<u64> {
        let text = text_if_there(&self.probe.root.path("proc").join(&self.process).join("io")).ok().flatten();
        text.as_deref().and_then(block_bytes)
    }

    /// What threads handed on that ended between two looks, as idle threads of POSIX AIO do. If none of these
    /// was seen, it may be a page that fio's own threads read; if there are rings, their pollers and workers
    /// may have handed it on.
    fn between_looks(&self, begun: &Jobs) -> Option<ThreadEvidence> {
        self.threads.values().find(|seen| seen.role == ThreadRole::AioHelper)?;
        let all = self.handed_on?.checked_sub(begun.handed_on?)?;
        let since_begin = |seen: &WatchedThread| {
            Some(seen.last.block_bytes?.saturating_sub(seen.first.block_bytes.unwrap_or(0)))
        };
        let seen = self.threads.values().filter_map(since_begin).fold(0, u64::saturating_add);
        let rest = all.checked_sub(seen).filter(|rest| *rest > 0 && self.rings.is_empty())?;
        let ended = Thread { name: "ended between two looks".to_owned(), ..Thread::default() };
        Some(ThreadEvidence { block_bytes: Some(rest), ..ended.evidence(ThreadRole::AioHelper) })
    }

    /// Starts all counts if the jobs exist and have begun.
    fn begin(&mut self, all: &[Thread], now_ns: u64) -> Result<(), ProbeError> {
        let Some((jobs, own)) = self.divide(all) else { return Ok(()) };
        let mut seen = BTreeMap::new();
        for thread in all.iter().filter(|thread| !own.contains(&thread.tid)) {
            let counts = self.counts(thread)?;
            let role = threads::role(thread, &jobs);
            seen.insert(
                thread.tid,
                WatchedThread { role, first: counts.clone(), last: counts, last_ns: now_ns },
            );
        }
        let is_at_work = |seen: &WatchedThread| seen.first.block_bytes.is_some_and(|bytes| bytes > 0);
        let has_begun = self.jobs.threads == JobThreads::Unseen
            || self.rings.have_begun()
            || seen.values().any(is_at_work);
        if has_begun {
            self.threads = seen;
            let handed_on = self.process_bytes();
            self.begun =
                Some(Jobs { at_ns: now_ns, jobs, own, cores: self.probe.cores()?, ended: None, handed_on });
        }
        Ok(())
    }

    /// The jobs, and the threads that do no I/O. A submission poller or worker of the kernel is neither.
    fn divide(&self, all: &[Thread]) -> Option<(Vec<i32>, Vec<i32>)> {
        let is_main = |thread: &&Thread| thread.tid.to_string() == self.process;
        let mut made: Vec<&Thread> =
            all.iter().filter(|thread| !is_main(thread) && RingThread::of(&thread.name).is_none()).collect();
        made.sort_by_key(|thread| (thread.started_ticks, thread.tid));
        let count = usize::try_from(self.jobs.count).ok().filter(|count| *count > 0)?;
        let first = match self.jobs.threads {
            JobThreads::AfterFirst => 1,
            // The thread that keeps the time comes before them.
            JobThreads::Unseen => made.len().checked_sub(count).filter(|first| *first > 0)?,
        };
        let jobs: Vec<i32> = made.get(first..first + count)?.iter().map(|thread| thread.tid).collect();
        let own = made[..first]
            .iter()
            .map(|thread| thread.tid)
            .chain(all.iter().find(is_main).map(|main| main.tid));
        Some((jobs, own.collect()))
    }

    fn follow(&mut self, all: &[Thread], now_ns: u64) -> Result<(), ProbeError> {
        let Some(begun) = &self.begun else { return Ok(()) };
        let (jobs, own) = (begun.jobs.clone(), begun.own.clone());
        for thread in all.iter().filter(|thread| !own.contains(&thread.tid)) {
            let mut counts = self.counts(thread)?;
            let from_zero = || WatchedThread {
                role: ThreadRole::AioHelper,
                first: ThreadCounts {
                    thread: Thread { tid: thread.tid, ..Thread::default() },
                    block_bytes: None,
                },
                last: ThreadCounts::default(),
                last_ns: now_ns,
            };
            let seen = self.threads.entry(thread.tid).or_insert_with(from_zero);
            // A thread that is ending no longer says.
            counts.block_bytes = counts.block_bytes.or(seen.last.block_bytes);
            // A helper gets its name when it first runs.
            *seen = WatchedThread {
                role: threads::role(thread, &jobs),
                first: std::mem::take(&mut seen.first),
                last: counts,
                last_ns: now_ns,
            };
        }
        self.handed_on = self.process_bytes().or(self.handed_on);
        let are_gone = all.iter().all(|thread| !jobs.contains(&thread.tid));
        let cores = (are_gone && begun.ended.is_none()).then(|| self.probe.cores()).transpose()?;
        if let (Some(begun), Some(cores)) = (&mut self.begun, cores) {
            begun.ended = Some(cores);
        }
        Ok(())
    }
}

/// Bytes that a thread handed to the block layer, or to the page cache for writing, since it started.
fn block_bytes(io: &str) -> Option<u64> {
    let value = |key: &str| io.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<u64>().ok());
    Some(value("read_bytes:")?.saturating_add(value("write_bytes:")?))
}

/// Adds what a thread took in the window, of which `times_ns` is in user space and in the kernel.
fn add(process: &mut ProcessEvidence, thread: &ThreadEvidence, times_ns: (u64, u64), window_ns: u64) {
    let in_window = |count: u64| thread.in_window(count, window_ns);
    process.user_ns += in_window(times_ns.0);
    process.system_ns += in_window(times_ns.1);
    process.voluntary_switches += in_window(thread.voluntary_switches);
    process.involuntary_switches += in_window(thread.involuntary_switches);
}
