//! Counters in a program's threads, which can be suspended, and counters of a disk's completions on every
//! core.

use super::events::{self, Event};
use crate::completions::tracefs::Tracefs;
use crate::completions::{COMPLETED, CompletionsError, HARD, SOFT, WORKERS, filter};
use crate::cpu::online;
use crate::perf::{Counter, EventsError, SOFTWARE_SWITCHES, SOFTWARE_TASK_CLOCK, Whose};
use crate::root::Root;
use iopj_core::watch::{DeviceCompletions, EventCounts};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Instant;

/// A request is handed to the driver.
pub(super) const ISSUED: &str = "block/block_rq_issue";

/// Counters of a program. Threads that it starts are counted with those that started them.
///
/// Counters cost each context switch of the program some time even while they are disabled, so they are closed
/// while they rest.
#[derive(Debug)]
pub(super) struct ProgramCounters {
    events: Vec<Event>,
    /// A list for each thread, or for each core of a control group, in the order of `events`.
    lists: Vec<Vec<Counter>>,
    /// CPU time and context switches of each.
    totals: Vec<[Counter; 2]>,
    /// What closed counters counted.
    past: EventCounts,
    /// Since when tracepoints are counted, if they are.
    since: Option<Instant>,
    began: Instant,
    /// The counters were never closed, so their totals are whole.
    is_whole: bool,
}

impl ProgramCounters {
    /// Finds what this kernel can count, and counts it from now on; of a thread from its `execve` on.
    pub(super) fn open(root: &Root, all: &[Whose]) -> Result<ProgramCounters, CompletionsError> {
        let tracefs = Tracefs::find(root).map_err(CompletionsError::Tracefs)?;
        let mut events = events::all(&tracefs).map_err(CompletionsError::Tracefs)?;
        // What this kernel knows by another field is left out.
        events.retain(|event| event.filter.is_none() || open_event(event, Whose::Thread(0)).is_ok());
        let began = Instant::now();
        let mut counters = ProgramCounters {
            events,
            lists: Vec::new(),
            totals: Vec::new(),
            past: EventCounts::default(),
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
        let needed = (self.lists.len() + 1) * (self.events.len() + 2);
        match self.attach_now(whose) {
            Err(source) if source.raw_os_error() == Some(libc::ESRCH) => Ok(()),
            other => Ok(other.map_err(|source| EventsError::of(source, root, needed))?),
        }
    }

    fn attach_now(&mut self, whose: Whose) -> io::Result<()> {
        let list =
            self.events.iter().map(|event| open_event(event, whose)).collect::<io::Result<Vec<_>>>()?;
        let totals =
            [Counter::software(SOFTWARE_TASK_CLOCK, whose)?, Counter::software(SOFTWARE_SWITCHES, whose)?];
        if !matches!(whose, Whose::LineageFromExec(_)) {
            list.iter().chain(&totals).try_for_each(Counter::enable)?;
        }
        self.lists.push(list);
        self.totals.push(totals);
        self.since.get_or_insert_with(Instant::now);
        Ok(())
    }

    pub(super) fn is_counting(&self) -> bool {
        self.since.is_some()
    }

    /// Closes the counters; what they counted is kept.
    pub(super) fn close(&mut self) {
        self.past = self.read();
        (self.since, self.is_whole) = (None, false);
        self.lists.clear();
        self.totals.clear();
    }

    /// What was counted so far.
    pub(super) fn read(&self) -> EventCounts {
        let running = self.since.map_or(0, |since| ns(since.elapsed()));
        let mut counts = EventCounts {
            counted_ns: self.past.counted_ns + running,
            of_ns: ns(self.began.elapsed()),
            ..self.past.clone()
        };
        for list in &self.lists {
            for (event, counter) in self.events.iter().zip(list) {
                events::add(&mut counts, event.meaning, counter.count().unwrap_or(0));
            }
        }
        counts
    }

    /// CPU time in ns and context switches so far, those of ended threads included; `None` once the counters
    /// were closed.
    pub(super) fn totals(&self) -> Option<[u64; 2]> {
        let sum = |at: usize| self.totals.iter().map(|both| both[at].count().unwrap_or(0)).sum();
        self.is_whole.then(|| [sum(0), sum(1)])
    }
}

/// The processes of a control group, one for each core. The descriptor must be open until they are attached.
pub(super) fn of_cgroup(root: &Root, folder: &File) -> Result<Vec<Whose>, CompletionsError> {
    Ok(online(root)?.into_iter().map(|core| Whose::Cgroup(folder.as_raw_fd(), core)).collect())
}

fn open_event(event: &Event, whose: Whose) -> io::Result<Counter> {
    match &event.filter {
        Some(filter) => Counter::tracepoint(event.id, filter, whose),
        None => Counter::unfiltered(event.id, whose),
    }
}

fn ns(duration: std::time::Duration) -> u64 {
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
                open(completed, format!("{disk} && (common_flags & {HARD})"))?,
                open(completed, format!("{disk} && (common_flags & {SOFT}) && !(common_flags & {HARD})"))?,
                open(completed, format!("{disk} && {thread}"))?,
                open(completed, format!("{disk} && {thread} && {WORKERS}"))?,
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
