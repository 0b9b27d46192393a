//! Who completes the I/Os of some disks, one by one: counters on the kernel's own tracepoints.
//!
//! `block:block_rq_complete` (block/blk-mq.c, `blk_update_request`) fires once per request, in the
//! context that completes it; a record's `common_flags` tell a hard from a soft interrupt
//! (include/linux/trace_events.h). Only counters are opened, no buffer of records: no count is lost
//! and memory stays small. A hit costs some 100 ns: nothing here may be open inside a window.

pub(crate) mod tracefs;

use crate::cpu::online;
use crate::error::ProbeError;
use crate::perf::{Counter, EventsError, Whose};
use crate::root::Root;
use iopj_core::evidence::Completions;
use std::ffi::CString;
use std::io;
use std::path::Path;
use tracefs::Tracefs;

/// The tracepoints: a request is complete, a timer is set.
pub(crate) const COMPLETED: &str = "block/block_rq_complete";
const TIMER: &str = "timer/hrtimer_start";
/// `TRACE_FLAG_HARDIRQ`, `TRACE_FLAG_SOFTIRQ`.
pub(crate) const HARD: u32 = 8;
pub(crate) const SOFT: u32 = 16;

/// Timers of threads that may be sleeps. A timer bound to its processor (`HRTIMER_MODE_PINNED`,
/// include/linux/hrtimer.h) never is: the scheduler uses it to end a thread's time slice (`hrtick`; each
/// switch sets one on Linux 7.2).
const SLEEPS: &str = "!(mode & 2)";

/// Threads of the kernel that complete I/O instead of an interrupt: workers, and threaded interrupt handlers.
pub(crate) const WORKERS: &str = "(comm ~ \"kworker/*\" || comm ~ \"irq/*\")";

/// Why completions are not counted, each reason with its remedy.
#[derive(Debug, thiserror::Error)]
pub enum CompletionsError {
    /// No tracefs, or not the tracepoints.
    #[error(
        "tracefs cannot be read ({0}): run as root, or mount it (`mount -t tracefs tracefs \
         /sys/kernel/tracing`)"
    )]
    Tracefs(io::Error),
    /// No disk to watch.
    #[error("{0} has no number in `/proc/diskstats`, so its completions cannot be told from those of others")]
    Number(String),
    /// The kernel counts no events for this user.
    #[error(transparent)]
    Events(#[from] EventsError),
    /// The list of cores.
    #[error(transparent)]
    Probe(#[from] ProbeError),
}

/// The threads that wait for completions.
#[derive(Clone, Copy, Debug)]
pub enum Waiting<'a> {
    /// These: jobs, and submission pollers.
    Threads(&'a [i32]),
    /// Every thread of the processes that the calling thread starts from now on.
    Children,
}

/// Counters that run. The sum of a list is the count.
#[derive(Debug)]
pub struct CompletionCounters {
    hard: Vec<Counter>,
    soft: Vec<Counter>,
    threads: Vec<Counter>,
    workers: Vec<Counter>,
    waiting: Vec<Counter>,
    timers: Vec<Counter>,
}

impl CompletionCounters {
    /// Opens and starts the counters for disks by their names in `/sys/block`. No I/O of the trial may be in
    /// flight.
    pub(crate) fn open(
        root: &Root,
        disks: &[&str],
        waiting: Waiting<'_>,
    ) -> Result<CompletionCounters, CompletionsError> {
        let tracefs = Tracefs::find(root).map_err(CompletionsError::Tracefs)?;
        let id = |name| tracefs.id(name).map_err(CompletionsError::Tracefs);
        let (completed, timer) = (id(COMPLETED)?, id(TIMER)?);
        let disks = filter(&root.text("proc/diskstats")?, disks)?;
        let cores: Vec<Whose> = online(root)?.into_iter().map(Whose::Core).collect();
        let waiting: Vec<Whose> = match waiting {
            Waiting::Threads(threads) => threads.iter().copied().map(Whose::Thread).collect(),
            Waiting::Children => vec![Whose::Children],
        };
        let needed = 4 * cores.len() + 2 * waiting.len();
        let thread = format!("!(common_flags & {})", HARD | SOFT);
        let open = |id, text: String, all: &[Whose]| -> Result<Vec<Counter>, CompletionsError> {
            let refused = |source| EventsError::of(source, root, needed);
            // A text without a zero byte, as all of these are, always has a C form.
            let text = CString::new(text).map_err(|error| refused(error.into()))?;
            let opened: io::Result<Vec<Counter>> =
                all.iter().map(|whose| Counter::tracepoint(id, &text, *whose)).collect();
            Ok(opened.map_err(refused)?)
        };
        let counters = CompletionCounters {
            hard: open(completed, format!("{disks} && (common_flags & {HARD})"), &cores)?,
            soft: open(
                completed,
                format!("{disks} && (common_flags & {SOFT}) && !(common_flags & {HARD})"),
                &cores,
            )?,
            threads: open(completed, format!("{disks} && {thread}"), &cores)?,
            workers: open(completed, format!("{disks} && {thread} && {WORKERS}"), &cores)?,
            waiting: open(completed, format!("{disks} && {thread}"), &waiting)?,
            timers: match waiting[..] {
                // A filter can be set only once, and which thread to leave out is known only when there is a
                // child.
                [Whose::Children] => {
                    let opened = Counter::unfiltered(timer, Whose::Children);
                    vec![opened.map_err(|source| EventsError::of(source, root, needed))?]
                }
                // Before Linux 4.16 a timer does not record its mode.
                _ => open(timer, format!("{thread} && {SLEEPS}"), &waiting)
                    .or_else(|_| open(timer, thread.clone(), &waiting))?,
            },
        };
        let by_core = [&counters.hard, &counters.soft, &counters.threads, &counters.workers];
        // Those of children begin with their first `execve`.
        let own =
            if waiting == [Whose::Children] { [].as_slice() } else { &[&counters.waiting, &counters.timers] };
        let all = by_core.into_iter().chain(own.iter().copied()).flatten();
        all.into_iter()
            .try_for_each(Counter::enable)
            .map_err(|source| EventsError::of(source, root, needed))?;
        Ok(counters)
    }

    /// Leaves out the timers of a child's first thread, which keeps the time of the others, and those that
    /// interrupts set.
    pub fn leave_out_timers_of(&self, child: u32) {
        let filter = format!("!(common_flags & {}) && {SLEEPS} && common_pid != {child}", HARD | SOFT);
        if let Ok(filter) = CString::new(filter) {
            // If it cannot be set, or was set before, more timers are counted: then hybrid and poll look
            // the same.
            self.timers.iter().for_each(|counter| drop(counter.set_filter(&filter)));
        }
    }

    /// Stops and closes the counters, and returns what they counted. The caller adds the rest of the pass.
    ///
    /// # Errors
    /// [`EventsError::Os`] for a core that was taken offline meanwhile.
    pub fn end(self) -> Result<Completions, EventsError> {
        let all = [&self.hard, &self.soft, &self.threads, &self.workers, &self.waiting, &self.timers];
        all.into_iter().flatten().try_for_each(Counter::disable).map_err(EventsError::Os)?;
        let sum = |counters: &[Counter]| {
            let sum = |sum: u64, counter: &Counter| counter.count().map(|count| sum.saturating_add(count));
            counters.iter().try_fold(0, sum).map_err(EventsError::Os)
        };
        let (threads, workers, waiting) = (sum(&self.threads)?, sum(&self.workers)?, sum(&self.waiting)?);
        Ok(Completions {
            hard_interrupt: sum(&self.hard)?,
            soft_interrupt: sum(&self.soft)?,
            worker: workers,
            waiting,
            other: threads.saturating_sub(workers).saturating_sub(waiting),
            timers: sum(&self.timers)?,
            ..Completions::default()
        })
    }
}

/// Keeps the kernel's code patched as the counters of each pass need it, while this lives.
///
/// The kernel patches itself when a tracepoint gets its first counter or loses its last
/// (kernel/trace/trace_event_perf.c, `perf_trace_event_reg`), and the scheduler when the first counter of a
/// thread comes and, a second after it, when the last has gone (kernel/events/core.c, `perf_sched_events`).
/// Nothing is counted here.
#[derive(Debug)]
pub struct HeldCounters {
    _counters: [Counter; 2],
}

impl HeldCounters {
    /// Opens a counter of the calling thread at each of the tracepoints.
    ///
    /// # Errors
    /// [`CompletionsError`] if completions cannot be counted.
    pub fn open() -> Result<HeldCounters, CompletionsError> {
        let root = Root::new(Path::new("/"))?;
        let tracefs = Tracefs::find(&root).map_err(CompletionsError::Tracefs)?;
        let held = |name| {
            let id = tracefs.id(name).map_err(CompletionsError::Tracefs)?;
            let counter = Counter::unfiltered(id, Whose::Thread(0));
            counter.map_err(|source| CompletionsError::Events(EventsError::of(source, &root, 1)))
        };
        Ok(HeldCounters { _counters: [held(COMPLETED)?, held(TIMER)?] })
    }
}

/// The part of a filter that selects the disks, by their numbers in `/proc/diskstats`: hidden disks too,
/// which have no file `dev`.
pub(crate) fn filter(diskstats: &str, disks: &[&str]) -> Result<String, CompletionsError> {
    /// Bits of the minor number (include/linux/kdev_t.h).
    const MINOR_BITS: u32 = 20;
    let number = |disk: &&str| {
        let words = diskstats.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let found = words.into_iter().find(|words| words.get(2) == Some(disk));
        let number =
            found.and_then(|words| Some((words[0].parse::<u32>().ok()?, words[1].parse::<u32>().ok()?)));
        let (major, minor) = number.ok_or_else(|| CompletionsError::Number((*disk).to_owned()))?;
        Ok(format!("dev == {}", major << MINOR_BITS | minor))
    };
    let numbers: Result<Vec<String>, CompletionsError> = disks.iter().map(number).collect();
    match numbers? {
        none if none.is_empty() => Err(CompletionsError::Number("no disk".to_owned())),
        numbers => Ok(format!("({})", numbers.join(" || "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISKSTATS: &str =
        "   7       0 loop0 0 0 0\n 254       0 vda 57657 7493\n 259       3 nvme0c0n1 1 2 3\n";

    #[test]
    fn disks_are_chosen_by_their_numbers() {
        assert_eq!(filter(DISKSTATS, &["vda"]).unwrap(), "(dev == 266338304)");
        assert_eq!(
            filter(DISKSTATS, &["nvme0c0n1", "loop0"]).unwrap(),
            "(dev == 271581187 || dev == 7340032)"
        );
        assert!(
            filter(DISKSTATS, &["nvme0n1"]).unwrap_err().to_string().starts_with("nvme0n1 has no number")
        );
        assert!(filter(DISKSTATS, &[]).is_err());
    }

    #[test]
    fn without_tracefs_the_error_names_the_remedy() {
        let tree = tempfile::tempdir().unwrap();
        let root = Root::new(tree.path()).unwrap();
        let error = CompletionCounters::open(&root, &["vda"], Waiting::Children).unwrap_err().to_string();
        assert!(error.contains("mount -t tracefs tracefs /sys/kernel/tracing"), "{error}");
    }
}
