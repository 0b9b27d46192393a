//! Counters in a program's threads, which can be suspended, and counters of a disk's completions on every
//! core.

use super::events::{self, Event};
use crate::completions::tracefs::Tracefs;
use crate::completions::{COMPLETED, CompletionsError, HARD, SOFT, WORKERS, filter};
use crate::cpu::online;
use crate::perf::{
    Counter, EventsError, SOFTWARE_SWITCHES, SOFTWARE_TASK_CLOCK, TYPE_SOFTWARE, TYPE_TRACEPOINT, Whose,
};
use crate::root::Root;
use iopj_core::watch::{DeviceCompletions, EventCounts};
use std::cell::RefCell;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// A request is handed to the driver.
pub(super) const ISSUED: &str = "block/block_rq_issue";

/// Events of a group that are not in the table: CPU time in ns and context switches, which come first.
const TOTALS: [u64; 2] = [SOFTWARE_TASK_CLOCK, SOFTWARE_SWITCHES];

/// Counters of a program. Threads that it starts are counted with those that started them.
#[derive(Debug)]
pub(super) struct ProgramCounters {
    events: Vec<Event>,
    /// A group for each thread, or for each core of a control group.
    groups: Vec<Group>,
    /// What was counted by groups that were closed.
    past: (EventCounts, [u64; 2]),
    /// For how long they counted before the last time that they were stopped.
    counted: Duration,
    /// Since when they count, if they do.
    since: Option<Instant>,
    began: Instant,
    /// They were never stopped, so their totals are whole.
    is_whole: bool,
}

/// One counter each of [`TOTALS`], and of the events.
#[derive(Debug)]
struct Group {
    leader: Counter,
    /// Held open.
    _others: Vec<Counter>,
    last: RefCell<Vec<u64>>,
}

impl ProgramCounters {
    /// Finds what this kernel can count, and counts it from now on; of a thread from its `execve` on.
    pub(super) fn open(root: &Root, all: &[Whose]) -> Result<ProgramCounters, CompletionsError> {
        let tracefs = Tracefs::find(root).map_err(CompletionsError::Tracefs)?;
        let mut events = events::all(&tracefs).map_err(CompletionsError::Tracefs)?;
        // What this kernel knows by another field is left out.
        events.retain(|event| {
            let filtered = |filter| Counter::tracepoint(event.id, filter, Whose::Thread(0));
            event.filter.as_deref().is_none_or(|filter| filtered(filter).is_ok())
        });
        let began = Instant::now();
        let mut counters = ProgramCounters {
            events,
            groups: Vec::new(),
            past: (EventCounts::default(), [0; 2]),
            counted: Duration::ZERO,
            since: Some(began),
            began,
            is_whole: true,
        };
        for whose in all {
            counters.attach(root, *whose)?;
        }
        Ok(counters)
    }

    /// Adds a thread, and what it starts from now on. One that has ended meanwhile is none.
    pub(super) fn attach(&mut self, root: &Root, whose: Whose) -> Result<(), CompletionsError> {
        let needed = (self.groups.len() + 1) * (self.events.len() + TOTALS.len());
        let attached = Group::open(&self.events, whose).and_then(|group| {
            let starts_itself = matches!(whose, Whose::LineageFromExec(_)) || self.since.is_none();
            if starts_itself { Ok(group) } else { group.leader.enable_group(true).map(|()| group) }
        });
        match attached {
            Ok(group) => self.groups.push(group),
            Err(source) if source.raw_os_error() == Some(libc::ESRCH) => {}
            Err(source) => return Err(EventsError::of(source, root, needed).into()),
        }
        Ok(())
    }

    pub(super) fn is_counting(&self) -> bool {
        self.since.is_some()
    }

    pub(super) fn resume(&mut self) {
        if self.since.is_none() {
            self.enable(true);
            self.since = Some(Instant::now());
        }
    }

    /// To be called again and again while they rest: a process that runs another program starts its counters
    /// by that.
    pub(super) fn suspend(&mut self) {
        self.enable(false);
        if let Some(since) = self.since.take() {
            self.counted += since.elapsed();
            self.is_whole = false;
        }
    }

    /// The counters of a thread that has ended refuse, and have nothing to do.
    fn enable(&self, on: bool) {
        self.groups.iter().for_each(|group| drop(group.leader.enable_group(on)));
    }

    /// What was counted so far; CPU time in ns and context switches at the same time, those of ended threads
    /// included.
    pub(super) fn read(&self) -> (EventCounts, [u64; 2]) {
        let counted = self.counted + self.since.map_or(Duration::ZERO, |since| since.elapsed());
        let (past, mut totals) = self.past.clone();
        let mut counts = EventCounts { counted_ns: ns(counted), of_ns: ns(self.began.elapsed()), ..past };
        let until = Instant::now() + PATIENCE;
        for group in &self.groups {
            let all = group.counts(TOTALS.len() + self.events.len(), until);
            totals.iter_mut().zip(&all).for_each(|(sum, count)| *sum += count);
            for (event, count) in self.events.iter().zip(all.iter().skip(TOTALS.len())) {
                events::add(&mut counts, event.meaning, *count);
            }
        }
        (counts, totals)
    }

    /// Closes all groups; what they counted is kept. How long the program had counters that rested, and what
    /// is to be dropped when there is time.
    pub(super) fn close(&mut self) -> (Duration, Held) {
        self.suspend();
        self.past = self.read();
        let held = self.hold();
        let began = Instant::now();
        self.groups.clear();
        (began.elapsed(), held)
    }

    /// Counters of this thread at the same tracepoints, which count nothing.
    ///
    /// The kernel patches its code when a tracepoint gets its first counter, and waits for all its processors
    /// when it loses its last one (kernel/trace/trace_event_perf.c): a good part of a second in all, for
    /// which the program would have counters that rest.
    pub(super) fn hold(&self) -> Held {
        let held = |event: &Event| Counter::unfiltered(event.id, Whose::Thread(0)).ok();
        Held(self.events.iter().filter_map(held).collect())
    }

    pub(super) fn is_open(&self) -> bool {
        !self.groups.is_empty()
    }

    /// They were never stopped, so their totals are those of all the time.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }
}

impl Group {
    fn open(events: &[Event], whose: Whose) -> io::Result<Group> {
        let leader = Counter::leading(TYPE_SOFTWARE, TOTALS[0], whose)?;
        let mut others = vec![Counter::following(TYPE_SOFTWARE, TOTALS[1], whose, &leader)?];
        for event in events {
            let counter = Counter::following(TYPE_TRACEPOINT, event.id, whose, &leader)?;
            if let Some(filter) = &event.filter {
                counter.set_filter(filter)?;
            }
            others.push(counter);
        }
        Ok(Group { leader, _others: others, last: RefCell::default() })
    }

    fn counts(&self, events: usize, until: Instant) -> Vec<u64> {
        let read = || self.leader.group_counts(events);
        or_last(patiently(read, until), &self.last)
    }
}

/// How often a group is read at once until no thread starts or ends meanwhile.
const ATTEMPTS: usize = 8;
/// For how long all groups together are read after that. While a thread that ends gives up its counters, its
/// group cannot be read, and another thread may have its processor for that long.
const PATIENCE: Duration = Duration::from_millis(100);

/// Reads until that is not refused: some times at once, and then until this time.
fn patiently(read: impl Fn() -> io::Result<Vec<u64>>, until: Instant) -> io::Result<Vec<u64>> {
    let is_refused = |error: &io::Error| error.raw_os_error() == Some(libc::ECHILD);
    for _ in 1..ATTEMPTS {
        match read() {
            Err(error) if is_refused(&error) => std::thread::yield_now(),
            done => return done,
        }
    }
    loop {
        match read() {
            Err(error) if is_refused(&error) && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(1));
            }
            done => return done,
        }
    }
}

/// What was read, or else what was read last: a read is refused while a thread that inherits the group starts
/// or ends (ECHILD, kernel/events/core.c, `__perf_read_group_add`), and counts only grow.
fn or_last(read: io::Result<Vec<u64>>, last: &RefCell<Vec<u64>>) -> Vec<u64> {
    if let Ok(counts) = read {
        last.replace(counts);
    }
    last.borrow().clone()
}

/// See [`ProgramCounters::hold`].
#[derive(Debug)]
pub(super) struct Held(Vec<Counter>);

impl Drop for Held {
    /// On a thread of its own; where none can be had, here.
    fn drop(&mut self) {
        let held = std::mem::take(&mut self.0);
        let _ = std::thread::Builder::new().name("iopj-close".to_owned()).spawn(move || drop(held));
    }
}

/// The processes of a control group, one for each core. The descriptor must be open until they are attached.
pub(super) fn of_cgroup(root: &Root, folder: &File) -> Result<Vec<Whose>, CompletionsError> {
    Ok(online(root)?.into_iter().map(|core| Whose::Cgroup(folder.as_raw_fd(), core)).collect())
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Who completes the requests of a disk, counted on every core.
#[derive(Debug)]
pub(super) struct DeviceCounters {
    /// Hard interrupts, soft interrupts, threads, workers; requests that workers issued.
    kinds: [Vec<Counter>; 5],
}

impl DeviceCounters {
    /// Opens the counters, suspended.
    pub(super) fn open(root: &Root, device: &str) -> Result<DeviceCounters, CompletionsError> {
        let tracefs = Tracefs::find(root).map_err(CompletionsError::Tracefs)?;
        let id = |name| tracefs.id(name).map_err(CompletionsError::Tracefs);
        let (completed, issued) = (id(COMPLETED)?, id(ISSUED)?);
        let disk = filter(&root.text("proc/diskstats")?, &[device])?;
        // A flush has no sectors, and is no read or write: a log that is synced has as many of them.
        let done = format!("{disk} && nr_sector > 0");
        let cores = online(root)?;
        let thread = format!("!(common_flags & {})", HARD | SOFT);
        let needed = 5 * cores.len();
        let open = |id, text: String| -> Result<Vec<Counter>, CompletionsError> {
            let refused = |source| EventsError::of(source, root, needed);
            let text = CString::new(text).map_err(|error| refused(error.into()))?;
            let counter = |core: &u32| Counter::tracepoint(id, &text, Whose::Core(*core));
            let opened: io::Result<Vec<Counter>> = cores.iter().map(counter).collect();
            Ok(opened.map_err(refused)?)
        };
        Ok(DeviceCounters {
            kinds: [
                open(completed, format!("{done} && (common_flags & {HARD})"))?,
                open(completed, format!("{done} && (common_flags & {SOFT}) && !(common_flags & {HARD})"))?,
                open(completed, format!("{done} && {thread}"))?,
                open(completed, format!("{done} && {thread} && {WORKERS}"))?,
                open(issued, format!("{disk} && comm ~ \"kworker/*\""))?,
            ],
        })
    }

    pub(super) fn resume(&self) {
        self.kinds.iter().flatten().for_each(|counter| drop(counter.enable()));
    }

    pub(super) fn suspend(&self) {
        self.kinds.iter().flatten().for_each(|counter| drop(counter.disable()));
    }

    pub(super) fn read(&self) -> DeviceCompletions {
        let [hard, soft, threads, workers, issued] =
            [0, 1, 2, 3, 4].map(|kind: usize| sum(&self.kinds[kind]));
        DeviceCompletions {
            hard_interrupt: hard,
            soft_interrupt: soft,
            worker: workers,
            thread: threads.saturating_sub(workers),
            issued_by_worker: issued,
        }
    }
}

fn sum(counters: &[Counter]) -> u64 {
    counters.iter().map(|counter| counter.count().unwrap_or(0)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a busy machine eight attempts in a row were refused, and a server's CPU time was that of the look
    /// before.
    #[test]
    fn a_read_that_is_refused_for_some_milliseconds_is_made_again() {
        let began = Instant::now();
        let read = || match began.elapsed() > Duration::from_millis(5) {
            true => Ok(vec![7]),
            false => Err(io::Error::from_raw_os_error(libc::ECHILD)),
        };
        assert_eq!(patiently(read, began + Duration::from_secs(600)).unwrap(), [7]);
        let refused = || Err(io::Error::from_raw_os_error(libc::ECHILD));
        assert_eq!(patiently(refused, Instant::now()).unwrap_err().raw_os_error(), Some(libc::ECHILD));
        let tries = std::cell::Cell::new(0);
        let closed = || {
            tries.set(tries.get() + 1);
            Err(io::Error::from_raw_os_error(libc::EBADF))
        };
        assert!(patiently(closed, began + Duration::from_secs(600)).is_err());
        assert_eq!(tries.get(), 1);
    }

    /// All that was counted was lost when the last read met a thread that ended.
    #[test]
    fn a_read_that_is_refused_changes_no_count() {
        let last = RefCell::default();
        let refused = || Err(io::Error::from_raw_os_error(libc::ECHILD));
        assert_eq!(or_last(refused(), &last), []);
        assert_eq!(or_last(Ok(vec![3, 4]), &last), [3, 4]);
        assert_eq!(or_last(refused(), &last), [3, 4]);
        assert_eq!(or_last(Ok(vec![5, 4]), &last), [5, 4]);
    }
}
