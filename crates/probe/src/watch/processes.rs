//! The processes of a watched program: which they are, and what the kernel has counted of them.
//!
//! A process that ends leaves its totals to the one that waits for it (kernel/exit.c, `wait_task_zombie`);
//! those of a process that nobody in the program waits for are kept here.

use crate::root::{Root, text, text_if_there};
use crate::threads::{self, ProcStat, Thread, numbers};
use iopj_core::uring::RingThread;
use iopj_core::watch::{ProcessIo, ProgramCounts};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The signals from 1 to 31 but `SIGKILL` and `SIGSTOP`, which cannot be blocked, as bits of a mask.
const BLOCKABLE: u64 = 0x7fff_ffff & !(1 << 8) & !(1 << 18);

/// Which processes belong to the program.
#[derive(Clone, Debug)]
pub(super) enum Scope {
    /// The processes of a program.
    Tree(Family),
    /// Those of a control group and of the groups in it, by its folder.
    Cgroup(PathBuf),
}

/// A program and servers that work for it, each with its descendants.
#[derive(Clone, Debug, Default)]
pub(super) struct Family {
    pub(super) program: i32,
    pub(super) servers: Vec<i32>,
    /// Descendants whose own parents ended become children of this process.
    pub(super) adopted_by: Option<i32>,
    /// Its children from before, which are no part of the program.
    pub(super) strangers: BTreeSet<i32>,
}

/// What was seen so far.
#[derive(Debug)]
pub(super) struct Processes {
    scope: Scope,
    tick_ns: u64,
    /// By number and start.
    members: BTreeMap<(i32, u64), Totals>,
    /// Of members that ended and left their totals to nobody.
    gone: Totals,
    /// The highest sum so far: it may only grow.
    highest: Totals,
    threads: BTreeMap<(i32, u64), Thread>,
    /// Bytes of threads that block all signals, by thread.
    aio_bytes: BTreeMap<(i32, u64), u64>,
    sum: ProgramCounts,
    pollers: BTreeSet<(i32, u64)>,
    workers: BTreeSet<(i32, u64)>,
}

/// Of a process, with its children that it waited for.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    parent: i32,
    /// It belongs to a server.
    of_server: bool,
    user_ticks: u64,
    system_ticks: u64,
    major_faults: u64,
    io: ProcessIo,
    has_io: bool,
    /// `io` is that of an earlier look, because it could not be read any more.
    is_io_old: bool,
    /// Bytes read from devices and made dirty: as `io` says, or, if the end of the process was hidden, what
    /// wait4(2) said.
    disk_bytes: [u64; 2],
}

impl Processes {
    pub(super) fn new(scope: Scope, tick_ns: u64) -> Processes {
        Processes {
            scope,
            tick_ns,
            members: BTreeMap::new(),
            gone: Totals::default(),
            highest: Totals::default(),
            threads: BTreeMap::new(),
            aio_bytes: BTreeMap::new(),
            sum: ProgramCounts::default(),
            pollers: BTreeSet::new(),
            workers: BTreeSet::new(),
        }
    }

    /// The folder of the control group, if it is one.
    pub(super) fn cgroup(&self) -> Option<&Path> {
        match &self.scope {
            Scope::Cgroup(folder) => Some(folder),
            Scope::Tree(_) => None,
        }
    }

    /// The processes of the program itself at the last look, without its servers'.
    pub(super) fn own_pids(&self) -> Vec<i32> {
        self.members.iter().filter(|(_, totals)| !totals.of_server).map(|((pid, _), _)| *pid).collect()
    }

    /// The processes at the last look.
    pub(super) fn pids(&self) -> Vec<i32> {
        self.members.keys().map(|(pid, _)| *pid).collect()
    }

    /// Whether `io` of a process could be read before, but not at the last look: some kernels hide it from
    /// ordinary users once the process has ended.
    pub(super) fn has_old_io(&self, pid: i32) -> bool {
        self.members.iter().any(|((member, _), totals)| *member == pid && totals.is_io_old)
    }

    /// A process that was waited for moved so many bytes in all its life.
    pub(super) fn ended(&mut self, pid: i32, disk_bytes: [u64; 2]) {
        for ((member, _), totals) in &mut self.members {
            if *member == pid && totals.is_io_old {
                totals.disk_bytes = both(totals.disk_bytes, disk_bytes, u64::max);
            }
        }
    }

    /// The threads at the last look.
    pub(super) fn tids(&self) -> Vec<i32> {
        self.threads.keys().map(|(tid, _)| *tid).collect()
    }

    /// Reads them; the totals since the first look, at which all counts begin.
    pub(super) fn look(&mut self, root: &Root) -> ProgramCounts {
        let found = self.find(root);
        let ended: Vec<Totals> = self
            .members
            .iter()
            .filter(|(key, totals)| !found.contains_key(key) && !self.is_member(totals.parent))
            .map(|(_, totals)| *totals)
            .collect();
        ended.iter().for_each(|totals| self.gone.add(totals));
        self.members = found;
        let mut all = self.gone;
        self.members.values().for_each(|totals| all.add(totals));
        self.highest = self.highest.max(&all);
        let before = self.sum.aio_thread_bytes;
        self.look_at_threads(root);
        let io = self.highest.io;
        if self.sum.aio_thread_bytes > before {
            self.sum.aio_of_bytes = io.read_chars.saturating_add(io.write_chars);
        }
        ProgramCounts {
            processes: self.members.len() as u32,
            threads: self.threads.len() as u32,
            user_ns: self.highest.user_ticks.saturating_mul(self.tick_ns),
            system_ns: self.highest.system_ticks.saturating_mul(self.tick_ns),
            io: self.highest.has_io.then_some(self.highest.io),
            whole_disk_bytes: (self.highest.disk_bytes != io.disk_bytes()).then_some(self.highest.disk_bytes),
            major_faults: self.highest.major_faults,
            pollers: self.pollers.len() as u32,
            workers: self.workers.len() as u32,
            ..self.sum.clone()
        }
    }

    fn is_member(&self, pid: i32) -> bool {
        self.members.keys().any(|(member, _)| *member == pid)
    }

    fn find(&self, root: &Root) -> BTreeMap<(i32, u64), Totals> {
        let all = root.path("proc");
        let read = |pid: i32| Some((pid, stat(&text(&all.join(pid.to_string()).join("stat")).ok()?)?));
        let candidates: BTreeMap<i32, (u64, Totals)> = numbers(&all).filter_map(read).collect();
        let inside = self.cgroup().map(processes_in);
        // Whether it belongs to a server, if it belongs at all.
        let belongs = |pid: i32| match (&self.scope, &inside) {
            (Scope::Tree(tree), _) => self.descends(&candidates, pid, tree),
            (Scope::Cgroup(_), inside) => {
                inside.as_ref().filter(|inside| inside.contains(&pid)).map(|_| false)
            }
        };
        let mut found = BTreeMap::new();
        for (pid, (started, totals)) in &candidates {
            if let Some(of_server) = belongs(*pid) {
                let mut totals = Totals { of_server, ..*totals };
                let before = self.members.get(&(*pid, *started)).filter(|before| before.has_io);
                match (text_if_there(&all.join(pid.to_string()).join("io")), before) {
                    (Ok(Some(io)), _) => totals.set_io(process_io(&io)),
                    (Err(_), Some(before)) => {
                        totals.set_io(before.io);
                        totals.is_io_old = true;
                    }
                    // Whoever waited for it has its totals already.
                    (Ok(None), _) | (Err(_), None) => {}
                }
                found.insert((*pid, *started), totals);
            }
        }
        found
    }

    /// Whether it descends from the program or from a server (true), or was a member at the last look: its
    /// parent may have ended.
    fn descends(&self, all: &BTreeMap<i32, (u64, Totals)>, pid: i32, tree: &Family) -> Option<bool> {
        let (mut at, by) = (pid, tree.adopted_by);
        // Who watches is no part of the program, though he may descend from it.
        let own = std::process::id().cast_signed();
        for _ in 0..=all.len() {
            if tree.servers.contains(&at) {
                return Some(true);
            }
            if (at == own && by != Some(own)) || tree.strangers.contains(&at) {
                return None;
            }
            if at == tree.program || (Some(at) == by && pid != at) {
                return Some(false);
            }
            let (started, totals) = all.get(&at)?;
            if let Some(member) = self.members.get(&(at, *started)) {
                return Some(member.of_server);
            }
            at = totals.parent;
        }
        None
    }

    fn look_at_threads(&mut self, root: &Root) {
        let mut seen = BTreeMap::new();
        for pid in self.pids() {
            // A process that has just ended has no threads.
            for thread in threads::of_process(root, &pid.to_string(), self.tick_ns).unwrap_or_default() {
                self.add(root, pid, &thread);
                seen.insert((thread.tid, thread.started_ticks), thread);
            }
        }
        self.aio_bytes.retain(|key, _| seen.contains_key(key));
        self.threads = seen;
    }

    fn add(&mut self, root: &Root, pid: i32, thread: &Thread) {
        let key = (thread.tid, thread.started_ticks);
        let since = thread.since(self.threads.get(&key).map(std::slice::from_ref).unwrap_or_default());
        self.sum.switches += since.voluntary_switches + since.involuntary_switches;
        match RingThread::of(&thread.name) {
            Some(RingThread::Poller | RingThread::KernelPoller) => {
                self.sum.poller_ns += since.cpu_ns;
                self.pollers.insert(key);
            }
            Some(RingThread::Worker) => {
                self.workers.insert(key);
            }
            None if thread.tid != pid && thread.blocked_signals & BLOCKABLE == BLOCKABLE => {
                let file = root.path("proc").join(pid.to_string()).join("task").join(thread.tid.to_string());
                let Some(text) = text_if_there(&file.join("io")).ok().flatten() else { return };
                let io = process_io(&text);
                let bytes = io.read_chars.saturating_add(io.write_chars);
                let before = match self.aio_bytes.insert(key, bytes) {
                    Some(before) => before,
                    None => {
                        self.sum.aio_threads += 1;
                        0
                    }
                };
                self.sum.aio_thread_bytes += bytes.saturating_sub(before);
            }
            None => {}
        }
    }
}

impl Totals {
    fn set_io(&mut self, io: ProcessIo) {
        (self.io, self.has_io, self.disk_bytes) = (io, true, io.disk_bytes());
    }

    fn add(&mut self, other: &Totals) {
        self.user_ticks += other.user_ticks;
        self.system_ticks += other.system_ticks;
        self.major_faults += other.major_faults;
        self.has_io |= other.has_io;
        self.io = with(self.io, other.io, u64::saturating_add);
        self.disk_bytes = both(self.disk_bytes, other.disk_bytes, u64::saturating_add);
    }

    fn max(&self, other: &Totals) -> Totals {
        Totals {
            parent: 0,
            of_server: false,
            user_ticks: self.user_ticks.max(other.user_ticks),
            system_ticks: self.system_ticks.max(other.system_ticks),
            major_faults: self.major_faults.max(other.major_faults),
            io: with(self.io, other.io, u64::max),
            has_io: self.has_io || other.has_io,
            is_io_old: false,
            disk_bytes: both(self.disk_bytes, other.disk_bytes, u64::max),
        }
    }
}

fn both(one: [u64; 2], other: [u64; 2], of: impl Fn(u64, u64) -> u64) -> [u64; 2] {
    [0, 1].map(|at| of(one[at], other[at]))
}

/// Both, field by field.
fn with(one: ProcessIo, other: ProcessIo, of: impl Fn(u64, u64) -> u64) -> ProcessIo {
    ProcessIo {
        read_chars: of(one.read_chars, other.read_chars),
        write_chars: of(one.write_chars, other.write_chars),
        read_calls: of(one.read_calls, other.read_calls),
        write_calls: of(one.write_calls, other.write_calls),
        read_bytes: of(one.read_bytes, other.read_bytes),
        write_bytes: of(one.write_bytes, other.write_bytes),
    }
}

/// What a program did from `earlier` to `later`.
pub(super) fn between(earlier: &ProgramCounts, later: &ProgramCounts) -> ProgramCounts {
    let since = |field: fn(&ProgramCounts) -> u64| field(later).saturating_sub(field(earlier));
    let io = later.io.map(|io| with(io, earlier.io.unwrap_or_default(), u64::saturating_sub));
    let before = earlier.disk_bytes().unwrap_or_default();
    let whole_disk_bytes = later.whole_disk_bytes.map(|bytes| both(bytes, before, u64::saturating_sub));
    ProgramCounts {
        processes: later.processes,
        threads: later.threads,
        user_ns: since(|counts| counts.user_ns),
        system_ns: since(|counts| counts.system_ns),
        cpu_ns: later.cpu_ns.map(|ns| ns.saturating_sub(earlier.cpu_ns.unwrap_or(0))),
        switches: since(|counts| counts.switches),
        io,
        whole_disk_bytes,
        major_faults: since(|counts| counts.major_faults),
        poller_ns: since(|counts| counts.poller_ns),
        pollers: later.pollers,
        workers: later.workers,
        aio_thread_bytes: since(|counts| counts.aio_thread_bytes),
        aio_of_bytes: since(|counts| counts.aio_of_bytes),
        aio_threads: later.aio_threads,
    }
}

/// Start and totals of a process.
fn stat(text: &str) -> Option<(u64, Totals)> {
    let stat = ProcStat::parse(text)?;
    let sum = |a: usize, b: usize| Some(stat.field::<u64>(a)?.saturating_add(stat.field(b)?));
    let totals = Totals {
        parent: stat.field(4)?,
        user_ticks: sum(14, 16)?,
        system_ticks: sum(15, 17)?,
        major_faults: sum(12, 13)?,
        ..Totals::default()
    };
    Some((stat.field(22)?, totals))
}

fn process_io(text: &str) -> ProcessIo {
    let value = |key: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(':')?.trim().parse().ok())
            .unwrap_or(0)
    };
    ProcessIo {
        read_chars: value("rchar"),
        write_chars: value("wchar"),
        read_calls: value("syscr"),
        write_calls: value("syscw"),
        read_bytes: value("read_bytes"),
        write_bytes: value("write_bytes"),
    }
}

/// The children of a process.
pub(super) fn children_of(root: &Root, parent: i32) -> BTreeSet<i32> {
    let all = root.path("proc");
    let is_child = |pid: &i32| {
        let read = text(&all.join(pid.to_string()).join("stat")).ok();
        read.and_then(|text| stat(&text)).is_some_and(|(_, totals)| totals.parent == parent)
    };
    numbers(&all).filter(is_child).collect()
}

/// The processes of a control group and of those in it.
pub(super) fn processes_in(folder: &Path) -> BTreeSet<i32> {
    let text = std::fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    let mut found: BTreeSet<i32> = text.lines().filter_map(|line| line.parse().ok()).collect();
    let Ok(entries) = std::fs::read_dir(folder) else { return found };
    for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        found.extend(processes_in(&entry.path()));
    }
    found
}

#[cfg(test)]
mod tests;
