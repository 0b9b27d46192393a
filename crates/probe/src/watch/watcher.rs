//! [`Watcher`]: all that is read of a watched program.

use super::account::{Account, Costly, Spent};
use super::counters::{ProgramCounters, of_cgroup};
use super::disks::{DiskLook, Disks};
use super::files::Files;
use super::processes::{self, Family, Processes, Scope};
use super::samples::{Request, Sampler};
use super::{cost, events};
use crate::completions::CompletionsError;
use crate::cpu::{self, Reaped};
use crate::error::ProbeError;
use crate::perf::Whose;
use crate::root::Root;
use iopj_core::evidence::CpuTimes;
use iopj_core::watch::{EventCounts, FoundRing, ProgramCounts, WatchCost, WatchEvidence};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// How often threads are looked for until no new one is found.
const ATTEMPTS: usize = 8;
/// What it takes to count events, where tracefs is not mounted for everybody.
const CAPABILITIES: &str = "CAP_PERFMON, CAP_SYS_ADMIN and CAP_DAC_READ_SEARCH";
/// Counters that a completion passes.
const COMPLETION_KINDS: u64 = 4;
/// Bits of a minor number in the kernel (include/linux/kdev_t.h).
const MINOR_BITS: u32 = 20;

/// What is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched {
    /// A child of this process that has not run its program yet, with all that it starts, and servers that
    /// work for it, with all that these start.
    Child(u32, Vec<i32>),
    /// A process that runs already, with what it has started and will start.
    Process(i32),
    /// The processes of a control group, by its folder.
    Cgroup(PathBuf),
    /// No program: only disks.
    Nothing,
}

/// What could not be read, and why: each a sentence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Denied(pub Vec<String>);

/// The counters at one moment.
#[derive(Clone, Debug)]
pub struct WatchLook {
    at: Instant,
    program: Option<ProgramCounts>,
    events: Option<EventCounts>,
    disks: Vec<Option<DiskLook>>,
    cpu: CpuTimes,
    spent: Spent,
}

/// Reads the counters of a program and of its disks.
#[derive(Debug)]
pub struct Watcher {
    root: Root,
    tick_ns: u64,
    /// The program, if it is a child of this process.
    child: Option<i32>,
    processes: Option<Processes>,
    files: Files,
    program: Option<ProgramCounters>,
    disks: Disks,
    /// Disks that cannot be watched, and are not tried again.
    refused: BTreeSet<String>,
    sampler: Option<Sampler>,
    cost: WatchCost,
    /// Issues and completions sampled so far.
    sampled: u64,
    account: Account,
    /// Where there is no program, whether completions are counted.
    counts_disks: bool,
    names: BTreeMap<u32, Option<String>>,
    /// Rings that any process created since the watch began.
    created: BTreeMap<(i32, i32), FoundRing>,
    /// CPU time and context switches by `/proc` at the last look, by counters when they were closed, and by
    /// `/proc` at that moment.
    rough: [u64; 2],
    exact: [u64; 2],
    rough_at_exact: [u64; 2],
    /// The processes of the control group are counted one by one.
    cgroup_by_threads: bool,
    denied: Denied,
}

/// What was sampled in a slice of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SampledSlice {
    /// The requests that were seen from issue to completion.
    pub requests: Vec<SampledRequest>,
    /// Samples that were lost since the watch began.
    pub lost: u64,
}

/// A request that was sampled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampledRequest {
    /// The disk, by its name in `/sys/block`.
    pub device: String,
    /// From issue to completion; absent where too many completions were not sampled.
    pub latency_ns: Option<u64>,
    /// A thread of the program issued it.
    pub of_program: bool,
    /// A worker of the kernel issued it.
    pub by_worker: bool,
    /// It completed in a hard or soft interrupt.
    pub completed_in_interrupt: bool,
    /// It completed in a thread of the program, outside of interrupts.
    pub completed_by_program: bool,
}

impl Watcher {
    /// Opens all that this user may read. What he may not is left out, and [`Watcher::denied`] says why.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn new(watched: &Watched) -> Result<Watcher, ProbeError> {
        let root = Root::new(Path::new("/"))?;
        let tick_ns = cpu::tick_ns();
        let scope = scope_of(watched, &root);
        let disks = Disks::new(&root);
        let mut watcher = Watcher {
            child: if let Watched::Child(pid, _) = watched { Some(pid.cast_signed()) } else { None },
            processes: scope.map(|scope| Processes::new(scope, tick_ns)),
            root,
            tick_ns,
            files: Files::default(),
            program: None,
            disks,
            refused: BTreeSet::new(),
            sampler: None,
            cost: WatchCost::default(),
            sampled: 0,
            account: Account::new(),
            counts_disks: false,
            names: BTreeMap::new(),
            created: BTreeMap::new(),
            rough: [0; 2],
            exact: [0; 2],
            rough_at_exact: [0; 2],
            cgroup_by_threads: false,
            denied: Denied::default(),
        };
        // The tracepoints stay as the kernel has patched them for that until they are opened again below.
        let _held = match cost::measure(&watcher.root) {
            Ok((cost, held)) => {
                watcher.cost = cost;
                held
            }
            Err(error) => {
                watcher.deny("system calls, rings and completions are not counted", &error);
                return Ok(watcher);
            }
        };
        if let Err(error) = watcher.open(watched) {
            watcher.deny("system calls and rings are not counted", &error);
        }
        match Sampler::open(&watcher.root) {
            Ok(sampler) => watcher.sampler = Some(sampler),
            Err(error) => watcher.deny("latencies are not sampled", &error),
        }
        Ok(watcher)
    }

    fn deny(&mut self, what: &str, why: &dyn std::fmt::Display) {
        self.denied.0.push(format!("{what} without root, or {CAPABILITIES}: {why}"));
    }

    fn open(&mut self, watched: &Watched) -> Result<(), CompletionsError> {
        let counters = match watched {
            Watched::Nothing => return Ok(()),
            Watched::Child(pid, _) => {
                ProgramCounters::open(&self.root, &[Whose::LineageFromExec(pid.cast_signed())])?
            }
            Watched::Cgroup(_) | Watched::Process(_) => ProgramCounters::open(&self.root, &[])?,
        };
        self.program = Some(counters);
        match watched {
            Watched::Child(_, servers) if servers.is_empty() => Ok(()),
            // The child's own counters begin when it runs its program.
            Watched::Child(pid, _) => self.attach(Some(pid.cast_signed())),
            _ => self.attach(None),
        }
    }

    /// Counters of the whole control group, or of all threads that run. A thread that starts meanwhile is
    /// found at the next attempt, or is started by one that was found.
    fn attach(&mut self, except: Option<i32>) -> Result<(), CompletionsError> {
        let (Some(processes), Some(counters)) = (&mut self.processes, &mut self.program) else {
            return Ok(());
        };
        if let Some(folder) = processes.cgroup().filter(|_| !self.cgroup_by_threads)
            && let Ok(folder) = File::open(folder)
        {
            // Control groups of the first version have no such counters where they are.
            let all = of_cgroup(&self.root, &folder)?;
            match all.into_iter().try_for_each(|whose| counters.attach(&self.root, whose)) {
                Ok(()) => return Ok(()),
                Err(_) => self.cgroup_by_threads = true,
            }
        }
        let mut known: BTreeSet<i32> = except.into_iter().collect();
        for _ in 0..ATTEMPTS {
            processes.look(&self.root);
            let new: Vec<i32> = processes.tids().into_iter().filter(|tid| known.insert(*tid)).collect();
            if new.is_empty() {
                break;
            }
            for tid in new {
                counters.attach(&self.root, Whose::Lineage(tid))?;
            }
        }
        Ok(())
    }

    /// What could not be read, and why.
    pub fn denied(&self) -> &Denied {
        &self.denied
    }

    /// What counting costs, measured when the watch began.
    pub fn cost(&self) -> &WatchCost {
        &self.cost
    }

    /// Adds a disk by its name in `/sys/block`, with the I/O of everybody since the watch began. One that is
    /// known, or was refused, changes nothing.
    pub fn add_disk(&mut self, name: &str) {
        if self.disks.has(name) || self.refused.contains(name) {
            return;
        }
        match self.disks.add(&self.root, name) {
            Ok(None) => {}
            Ok(Some(why)) if self.denied.0.is_empty() => {
                self.deny(&format!("completions of {name} are not counted"), &why);
            }
            Ok(Some(_)) => {}
            Err(error) => {
                self.refused.insert(name.to_owned());
                self.denied.0.push(format!("{name} is not watched: {error}"));
            }
        }
        if self.is_counting() {
            self.disks.resume();
        }
    }

    /// The disks that are watched.
    pub fn disks(&self) -> Vec<String> {
        self.disks.names()
    }

    /// Numbers of the devices that hold the files which the program had open at some look (`st_dev`).
    pub fn devices_of_files(&self) -> &BTreeSet<u64> {
        &self.files.devices
    }

    /// The program's processes at the last look.
    pub fn pids(&self) -> Vec<i32> {
        self.processes.as_ref().map(Processes::pids).unwrap_or_default()
    }

    /// Those of the program itself, without its servers'.
    pub fn own_pids(&self) -> Vec<i32> {
        self.processes.as_ref().map(Processes::own_pids).unwrap_or_default()
    }

    /// Tracepoints are counted.
    pub fn is_counting(&self) -> bool {
        match &self.program {
            Some(program) => program.is_counting(),
            None => self.counts_disks,
        }
    }

    /// Counts tracepoints from now on.
    pub fn resume(&mut self) {
        if let Some(program) = self.program.as_ref().filter(|program| !program.is_open()) {
            let held = program.hold();
            let began = Instant::now();
            // A thread that it cannot attach to is not counted; the reason was said at the beginning.
            let _ = self.attach(None);
            self.account.opened(began.elapsed(), &self.cost);
            drop(held);
        }
        if let Some(program) = &mut self.program {
            program.resume();
        }
        self.disks.resume();
        self.counts_disks = true;
    }

    /// Counts no tracepoints from now on; to be called again and again while they rest.
    ///
    /// Counters that rest cost each context switch a little. They are closed where that alone takes more than
    /// a share of the program's time; exact counts of what starts meanwhile are then lost.
    pub fn suspend(&mut self, share: f64) {
        self.disks.suspend();
        self.counts_disks = false;
        let is_dear = self.account.resting_exceeds(share, &self.cost);
        let Some(program) = &mut self.program else { return };
        if program.is_whole() {
            (self.exact, self.rough_at_exact) = (program.read().1, self.rough);
        }
        program.suspend();
        if is_dear && program.is_open() {
            let (took, _) = program.close();
            self.account.closed(took, &self.cost);
        }
    }

    /// What watching has cost the program since the last call.
    pub fn spent(&mut self) -> Spent {
        let (counts, totals) = self.program.as_ref().map(ProgramCounters::read).unwrap_or_default();
        // A completion passes the filters of its four kinds.
        let hits = events::hits(&counts) + COMPLETION_KINDS * self.disks.completed();
        let is_open = self.program.as_ref().is_some_and(ProgramCounters::is_open);
        self.account.pass(Costly::of(&counts, totals, hits, self.sampled), is_open, &self.cost)
    }

    /// Begins to sample the requests of all disks; [`Watcher::drain`] makes room.
    pub fn start_sampling(&mut self) {
        if let Some(sampler) = &mut self.sampler {
            sampler.start();
        }
    }

    /// Requests are being sampled.
    pub fn is_sampling(&self) -> bool {
        self.sampler.as_ref().is_some_and(Sampler::is_on)
    }

    /// Takes the samples out of the rings.
    pub fn drain(&mut self) {
        if let Some(sampler) = &mut self.sampler {
            sampler.drain();
        }
    }

    /// Ends sampling.
    pub fn stop_sampling(&mut self) -> SampledSlice {
        let Some(sampler) = &mut self.sampler else { return SampledSlice::default() };
        let ((requests, recorded), lost) = (sampler.stop(), sampler.lost());
        self.sampled += recorded.all as u64;
        let members: BTreeSet<i32> = self.pids().into_iter().collect();
        let timed = recorded.are_most(requests.len());
        let known = |request: Request| {
            let device = self.name_of(request.device)?;
            Some(SampledRequest {
                device,
                latency_ns: timed.then_some(request.latency_ns),
                of_program: members.contains(&request.issuer),
                by_worker: request.by_worker,
                completed_in_interrupt: request.completer.is_none(),
                completed_by_program: request.completer.is_some_and(|pid| members.contains(&pid)),
            })
        };
        SampledSlice { requests: requests.into_iter().filter_map(known).collect(), lost }
    }

    /// The name of a whole disk by the kernel's own form of its number.
    fn name_of(&mut self, device: u32) -> Option<String> {
        let root = &self.root;
        let find = || {
            let (major, minor) = (device >> MINOR_BITS, device & ((1 << MINOR_BITS) - 1));
            let link = std::fs::canonicalize(root.path(&format!("sys/dev/block/{major}:{minor}"))).ok()?;
            Some(link.file_name()?.to_str()?.to_owned())
        };
        self.names.entry(device).or_insert_with(find).clone()
    }

    /// After the last look: whether it could no longer read `/proc/PID/io` of the child that is watched.
    pub fn is_end_hidden(&self) -> bool {
        let is_hidden = |child| self.processes.as_ref().is_some_and(|processes| processes.has_old_io(child));
        self.child.is_some_and(is_hidden)
    }

    /// Says in [`Watcher::denied`] that the end of the child was hidden. If it was waited for, the next look
    /// knows the bytes of its whole life by that.
    pub fn note_hidden_end(&mut self, reaped: Option<&Reaped>) {
        let words = "what read and write moved after the last look is missing without root, or \
                     CAP_SYS_PTRACE: /proc/PID/io of the program could no longer be read";
        self.denied.0.push(words.to_owned());
        if let (Some(processes), Some(child), Some(reaped)) = (&mut self.processes, self.child, reaped) {
            processes.ended(child, reaped.disk_bytes);
        }
    }

    /// Waits for children that became this process' own because their parents ended, and have ended
    /// themselves. The program itself is left to the caller.
    pub fn reap_adopted(&mut self) {
        for pid in self.pids().into_iter().filter(|pid| Some(*pid) != self.child) {
            // What is no child of this process is refused, and goes on.
            if let (Ok(Some(reaped)), Some(processes)) = (cpu::reap(pid.cast_unsigned()), &mut self.processes)
            {
                processes.ended(pid, reaped.disk_bytes);
            }
        }
    }

    /// Reads all counters. Open files and rings only if `with_files`, because a program may have many.
    ///
    /// # Errors
    /// `/proc/stat` cannot be read.
    pub fn look(&mut self, with_files: bool) -> Result<WatchLook, ProbeError> {
        let program = self.processes.as_mut().map(|processes| processes.look(&self.root));
        if with_files {
            let pids = self.pids();
            self.files.look(&self.root, &pids);
            self.note_rings(&pids);
        }
        let counted = self.program.as_ref().map(ProgramCounters::read);
        let program = program.map(|counts| {
            self.rough = [counts.user_ns + counts.system_ns, counts.switches];
            let Some((_, exact)) = &counted else { return counts };
            let [cpu_ns, switches] = [0, 1].map(|at| self.totals(self.rough, exact[at])[at]);
            ProgramCounts { cpu_ns: Some(cpu_ns), switches, ..counts }
        });
        Ok(WatchLook {
            at: Instant::now(),
            program,
            events: counted.map(|(events, _)| events),
            disks: self.disks.look(&self.root),
            cpu: cpu::read(&self.root, self.tick_ns)?,
            spent: self.account.total,
        })
    }

    /// Adds the rings that the program created since the last call to those that are found open.
    fn note_rings(&mut self, pids: &[i32]) {
        let created = self.sampler.as_mut().map(Sampler::take_rings).unwrap_or_default();
        self.created.extend(created.into_iter().map(|ring| ((ring.pid, ring.fd), ring)));
        for (key, ring) in &self.created {
            if pids.contains(&ring.pid) {
                self.files.rings.insert(*key, ring.clone());
            }
        }
    }

    /// CPU time in ns and context switches of the program: as the counters say for as long as they were never
    /// stopped, and from then on as much more as `/proc` says. `counted` is what they say now.
    fn totals(&self, rough: [u64; 2], counted: u64) -> [u64; 2] {
        if self.program.as_ref().is_some_and(ProgramCounters::is_whole) {
            return [counted; 2];
        }
        [0, 1].map(|at| self.exact[at] + rough[at].saturating_sub(self.rough_at_exact[at]))
    }

    /// What happened from one look to another. Latencies and power are left to the caller.
    pub fn between(&self, earlier: &WatchLook, later: &WatchLook) -> WatchEvidence {
        let over_ns = u64::try_from(later.at.duration_since(earlier.at).as_nanos()).unwrap_or(u64::MAX);
        let pair =
            |events: &EventCounts| earlier.events.as_ref().map(|before| events::between(before, events));
        let program = later.program.as_ref().zip(earlier.program.as_ref());
        let spent_ns = later.spent.all_ns() - earlier.spent.all_ns();
        let program_ns = later.spent.program_ns - earlier.spent.program_ns;
        WatchEvidence {
            over_ns,
            events: later.events.as_ref().and_then(pair),
            program: program.map(|(later, earlier)| processes::between(earlier, later)),
            rings: self.files.rings.values().cloned().collect(),
            files: self.files.ever(),
            estimates: None,
            devices: self.disks.between(&earlier.disks, &later.disks),
            cpu: cpu::between(&earlier.cpu, &later.cpu),
            power: Vec::new(),
            cost: WatchCost {
                spent_ns,
                slowdown: spent_ns / (over_ns.max(program_ns).max(1)) as f64,
                ..self.cost.clone()
            },
        }
    }
}

/// The processes of what is watched; of a child, without the other children that this process has.
fn scope_of(watched: &Watched, root: &Root) -> Option<Scope> {
    let family = |family: Family| Some(Scope::Tree(family));
    match watched {
        Watched::Child(pid, servers) => {
            let (own, program) = (std::process::id().cast_signed(), pid.cast_signed());
            let mut strangers = processes::children_of(root, own);
            strangers.remove(&program);
            let servers = servers.clone();
            family(Family { program, servers, adopted_by: Some(own), strangers })
        }
        Watched::Process(pid) => family(Family { program: *pid, ..Family::default() }),
        Watched::Cgroup(folder) => Some(Scope::Cgroup(folder.clone())),
        Watched::Nothing => None,
    }
}
