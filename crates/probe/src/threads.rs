//! Counts of single threads, and the role of each in the I/O.
//!
//! Sources: proc_pid_stat(5), proc_pid_status(5), Documentation/scheduler/sched-stats.rst
//! (`schedstat`).

use crate::error::ProbeError;
use crate::root::{Root, names, text_if_there};
use iopj_core::evidence::{ThreadEvidence, ThreadRole};
use iopj_core::uring::RingThread;
use std::path::Path;
use std::str::FromStr;

/// The counts of a thread since it started.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Thread {
    pub(crate) tid: i32,
    pub(crate) name: String,
    /// In steps of a clock tick, as is `system_ns`.
    pub(crate) user_ns: u64,
    pub(crate) system_ns: u64,
    pub(crate) cpu_ns: u64,
    /// Ready to run, but not running.
    pub(crate) waited_ns: Option<u64>,
    pub(crate) voluntary_switches: u64,
    pub(crate) involuntary_switches: u64,
    pub(crate) last_cpu: Option<u32>,
    pub(crate) cpus_allowed: Option<String>,
    /// When it started, in clock ticks since the machine did.
    pub(crate) started_ticks: u64,
    /// The signals that it blocks, a bit each.
    pub(crate) blocked_signals: u64,
}

/// All threads of the process of this number, or of `self`; none if it is gone.
pub(crate) fn of_process(root: &Root, process: &str, tick_ns: u64) -> Result<Vec<Thread>, ProbeError> {
    let tasks = root.path("proc").join(process).join("task");
    numbers(&tasks)
        .filter_map(|tid| Thread::read(&tasks.join(tid.to_string()), tid, tick_ns).transpose())
        .collect()
}

/// The submission pollers of kernels that run them as kernel threads; it is unknown whose they are.
pub(crate) fn kernel_sqpolls(root: &Root, tick_ns: u64) -> Result<Vec<Thread>, ProbeError> {
    let all = root.path("proc");
    let is_sqpoll = |pid: &i32| {
        let name = text_if_there(&all.join(pid.to_string()).join("comm"));
        name.is_ok_and(|name| {
            name.is_some_and(|name| RingThread::of(&name) == Some(RingThread::KernelPoller))
        })
    };
    let pids = numbers(&all).filter(is_sqpoll);
    pids.filter_map(|pid| Thread::read(&all.join(pid.to_string()), pid, tick_ns).transpose()).collect()
}

pub(crate) fn numbers(directory: &Path) -> impl Iterator<Item = i32> {
    names(directory).into_iter().filter_map(|name| name.parse().ok())
}

/// The role in the I/O of a thread of this process that is not one of the caller's own.
pub(crate) fn role(thread: &Thread, jobs: &[i32]) -> ThreadRole {
    if jobs.contains(&thread.tid) {
        return ThreadRole::Job;
    }
    match RingThread::of(&thread.name) {
        Some(RingThread::Poller | RingThread::KernelPoller) => ThreadRole::Sqpoll,
        Some(RingThread::Worker) => ThreadRole::IoWorker,
        // glibc's threads inherit the name of the thread that made them.
        None => ThreadRole::AioHelper,
    }
}

/// The text of a file `stat` of a process or a thread.
pub(crate) struct ProcStat<'a> {
    name: &'a str,
    /// The fields after the name.
    fields: Vec<&'a str>,
}

impl<'a> ProcStat<'a> {
    /// The name is in parentheses and may hold any character, parentheses too.
    pub(crate) fn parse(text: &'a str) -> Option<ProcStat<'a>> {
        let (head, fields) = text.rsplit_once(')')?;
        Some(ProcStat { name: head.split_once('(')?.1, fields: fields.split_whitespace().collect() })
    }

    pub(crate) fn name(&self) -> &'a str {
        self.name
    }

    /// A field by its number in the manual, from 3, the state after the name.
    pub(crate) fn field<T: FromStr>(&self, number: usize) -> Option<T> {
        self.fields.get(number - 3)?.parse().ok()
    }
}

impl Thread {
    /// The thread of a directory below `/proc`, or none if it has ended meanwhile.
    pub(crate) fn read(directory: &Path, tid: i32, tick_ns: u64) -> Result<Option<Thread>, ProbeError> {
        let mut texts = [const { String::new() }; 2];
        for (text, file) in texts.iter_mut().zip(["stat", "status"]) {
            let Some(found) = text_if_there(&directory.join(file))? else { return Ok(None) };
            *text = found;
        }
        let schedstat = text_if_there(&directory.join("schedstat"))?.unwrap_or_default();
        let [stat, status] = texts;
        let what = "counters of a thread";
        let thread = Thread::parse(tid, &stat, &status, &schedstat, tick_ns);
        thread.map(Some).ok_or_else(|| ProbeError::Form { path: directory.join("stat"), what })
    }

    fn parse(tid: i32, stat: &str, status: &str, schedstat: &str, tick_ns: u64) -> Option<Thread> {
        let stat = ProcStat::parse(stat)?;
        let user_ns = stat.field::<u64>(14)?.saturating_mul(tick_ns);
        let system_ns = stat.field::<u64>(15)?.saturating_mul(tick_ns);
        // Kernels without scheduler statistics have no such file, or zeroes in it.
        let mut exact = schedstat.split_whitespace().map(|word| word.parse::<u64>().ok());
        let exact_ns = exact.next().flatten().filter(|ns| *ns > 0);
        let waited_ns = exact_ns.and(exact.next().flatten());
        let cpu_ns = exact_ns.unwrap_or(user_ns.saturating_add(system_ns));
        let word = |key: &str| {
            status.lines().find_map(|line| Some(line.strip_prefix(key)?.strip_prefix(':')?.trim()))
        };
        let count = |key: &str| word(key)?.parse().ok();
        let cpus_allowed = word("Cpus_allowed_list").map(str::to_owned);
        let voluntary_switches = count("voluntary_ctxt_switches")?;
        let involuntary_switches = count("nonvoluntary_ctxt_switches")?;
        Some(Thread {
            tid,
            name: stat.name.to_owned(),
            user_ns,
            system_ns,
            cpu_ns,
            waited_ns,
            voluntary_switches,
            involuntary_switches,
            last_cpu: stat.field(39),
            cpus_allowed,
            started_ticks: stat.field(22)?,
            blocked_signals: word("SigBlk").and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(0),
        })
    }

    /// What the thread did since `earlier`, or since it started if it is not there.
    pub(crate) fn since(&self, earlier: &[Thread]) -> Thread {
        let zero = Thread::default();
        let before = earlier.iter().find(|thread| thread.tid == self.tid).unwrap_or(&zero);
        Thread {
            user_ns: self.user_ns.saturating_sub(before.user_ns),
            system_ns: self.system_ns.saturating_sub(before.system_ns),
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            waited_ns: self.waited_ns.map(|ns| ns.saturating_sub(before.waited_ns.unwrap_or(0))),
            voluntary_switches: self.voluntary_switches.saturating_sub(before.voluntary_switches),
            involuntary_switches: self.involuntary_switches.saturating_sub(before.involuntary_switches),
            ..self.clone()
        }
    }

    /// CPU time in user space and in the kernel in ns: the exact sum, divided as the ticks are.
    pub(crate) fn user_and_system_ns(&self) -> (u64, u64) {
        let ticks = u128::from(self.user_ns) + u128::from(self.system_ns);
        let user = u128::from(self.cpu_ns) * u128::from(self.user_ns);
        let user_ns = user.checked_div(ticks).and_then(|ns| u64::try_from(ns).ok()).unwrap_or(0);
        (user_ns, self.cpu_ns - user_ns.min(self.cpu_ns))
    }

    pub(crate) fn evidence(self, role: ThreadRole) -> ThreadEvidence {
        ThreadEvidence {
            tid: self.tid,
            name: self.name,
            role,
            cpu_ns: self.cpu_ns,
            waited_ns: self.waited_ns,
            voluntary_switches: self.voluntary_switches,
            involuntary_switches: self.involuntary_switches,
            last_cpu: self.last_cpu,
            cpus_allowed: self.cpus_allowed,
            over_ns: None,
            before_jobs: false,
            ended: false,
            block_bytes: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STAT: &str = "4711 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 30 12 0 0 20 0 1 0 99 0\n";
    const STATUS: &str = "Name:\ta\nvoluntary_ctxt_switches:\t42\nnonvoluntary_ctxt_switches:\t7\n";

    #[test]
    fn fields_are_those_of_the_manual() {
        let thread = Thread::parse(4711, STAT, STATUS, "123456789 5 6\n", 10_000_000).unwrap();
        assert_eq!(thread.name, "a (b) c");
        assert_eq!(
            (thread.user_ns, thread.system_ns, thread.cpu_ns),
            (300_000_000, 120_000_000, 123_456_789)
        );
        assert_eq!(thread.waited_ns, Some(5));
        // What an old or cut text leaves out is absent.
        assert_eq!((thread.last_cpu, thread.cpus_allowed), (None, None));
        let stat = format!("{} {}\n", STAT.trim_end(), "0 ".repeat(14) + "17 3 0 0");
        let status = format!("Cpus_allowed:\tff\nCpus_allowed_list:\t0-3,8\n{STATUS}");
        let thread = Thread::parse(4711, &stat, &status, "", 10_000_000).unwrap();
        assert_eq!((thread.last_cpu, thread.cpus_allowed.as_deref()), (Some(3), Some("0-3,8")));
        assert_eq!(
            (thread.voluntary_switches, thread.involuntary_switches, thread.started_ticks),
            (42, 7, 99)
        );
    }

    #[test]
    fn ticks_stand_in_where_there_is_no_schedstat() {
        for schedstat in ["", "0 0 0\n"] {
            let thread = Thread::parse(1, STAT, STATUS, schedstat, 10_000_000).unwrap();
            assert_eq!((thread.cpu_ns, thread.waited_ns), (420_000_000, None));
        }
        assert_eq!(Thread::parse(1, STAT, "Name:\ta\n", "", 1), None);
        assert_eq!(Thread::parse(1, "1 (a) S 1", STATUS, "", 1), None);
    }

    #[test]
    fn roles_follow_tid_and_name() {
        let thread = |tid, name: &str| Thread { tid, name: name.to_owned(), ..Thread::default() };
        assert_eq!(role(&thread(5, "iou-sqp-1"), &[5]), ThreadRole::Job);
        assert_eq!(role(&thread(6, "iou-sqp-1"), &[5]), ThreadRole::Sqpoll);
        assert_eq!(role(&thread(6, "iou-wrk-1"), &[5]), ThreadRole::IoWorker);
        assert_eq!(role(&thread(6, "iopj"), &[5]), ThreadRole::AioHelper);
    }

    #[test]
    fn exact_time_is_divided_as_the_ticks_are() {
        let thread = Thread { user_ns: 30, system_ns: 10, cpu_ns: 1_000, ..Thread::default() };
        assert_eq!(thread.user_and_system_ns(), (750, 250));
        let short = Thread { cpu_ns: 900, ..Thread::default() };
        assert_eq!(short.user_and_system_ns(), (0, 900));
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(
            stat in "[0-9]{1,5} \\([a-z()]{0,5}\\)( [0-9]{1,20}){0,20}|\\PC*",
            status in "(non)?voluntary_ctxt_switches:\t[0-9]{0,20}\n|\\PC*",
            schedstat in "[0-9]{0,20} 1|\\PC*",
            tick_ns: u64,
        ) {
            let _ = Thread::parse(1, &stat, &status, &schedstat, tick_ns);
        }

        #[test]
        fn division_never_panics_and_keeps_the_sum(user_ns: u64, system_ns: u64, cpu_ns: u64) {
            let thread = Thread { user_ns, system_ns, cpu_ns, ..Thread::default() };
            let (user, system) = thread.user_and_system_ns();
            prop_assert_eq!(user + system, cpu_ns);
        }
    }
}
