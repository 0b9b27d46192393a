//! CPU time of all other processes, with which a trial shared the processors (proc_pid_stat(5)).

use crate::root::{Root, text};
use crate::threads::{ProcStat, numbers};
use iopj_core::evidence::{BusyProcess, OthersEvidence};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Instant;

/// The kernel's flag of its own threads (include/linux/sched.h).
const PF_KTHREAD: u64 = 0x0020_0000;
/// The first process namespace of a machine (include/linux/proc_ns.h): any other one shows only some
/// processes.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// How often the processes are read until none came or went meanwhile.
const ATTEMPTS: usize = 4;

/// How many of the busiest processes are named.
const NAMED: usize = 3;
/// Share of a core below which a process is not named.
const NAMED_SHARE: f64 = 0.01;

/// The sums at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Others {
    at: Instant,
    processes_ticks: u64,
    kernel_threads_ticks: u64,
    /// Name and own ticks of each process, by its number and when it was started.
    own: BTreeMap<(i32, u64), (String, u64)>,
}

/// CPU time of one process since it started, with the children that it waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Process {
    name: String,
    parent: i32,
    /// When it was started: a number is used again.
    started: u64,
    is_kernel: bool,
    ticks: u64,
    /// Without its children.
    own_ticks: u64,
}

impl Others {
    /// The sums over all processes except `own` and its descendants; `None` if not all of them can be seen.
    ///
    /// When a process ends, its time passes to the one that waits for it, so the sum loses nothing.
    pub(crate) fn read(root: &Root, own: i32) -> Option<Others> {
        let all = root.path("proc");
        let namespace = std::fs::read_link(all.join("self/ns/pid")).ok()?;
        if namespace.to_str() != Some(FIRST_NAMESPACE) || text(&all.join("1/stat")).is_err() {
            return None;
        }
        let read = |pid: i32| Some((pid, parse(&text(&all.join(pid.to_string()).join("stat")).ok()?)?));
        // A process that ends between the reading of its parent and its own would be in neither.
        let list = || (numbers(&all).collect::<Vec<i32>>(), numbers(&all).filter_map(read).collect());
        let is_whole = |(pids, _): &(Vec<i32>, _)| numbers(&all).eq(pids.iter().copied());
        let whole = (1..ATTEMPTS).map(|_| list()).find(is_whole);
        let (_, processes): (_, BTreeMap<i32, Process>) = whole.unwrap_or_else(list);
        let at = Instant::now();
        let (kernel, processes): (Vec<_>, Vec<_>) = processes
            .iter()
            .filter(|(pid, _)| !descends(&processes, **pid, own))
            .partition(|(_, process)| process.is_kernel);
        let sum = |all: &[(&i32, &Process)]| {
            all.iter().map(|(_, process)| process.ticks).fold(0, u64::saturating_add)
        };
        let named = |(pid, process): &(&i32, &Process)| {
            ((**pid, process.started), (process.name.clone(), process.own_ticks))
        };
        Some(Others {
            at,
            processes_ticks: sum(&processes),
            kernel_threads_ticks: sum(&kernel),
            own: processes.iter().map(named).collect(),
        })
    }

    /// Their time from this moment to `later`. `None` if the sum fell: then a process ended for which nobody
    /// waits, and its time is lost.
    pub(crate) fn until(&self, later: &Others, tick_ns: u64) -> Option<OthersEvidence> {
        let ns = |before: u64, after: u64| Some(after.checked_sub(before)?.saturating_mul(tick_ns));
        let over = later.at.saturating_duration_since(self.at).as_nanos();
        let over_ns = u64::try_from(over).unwrap_or(u64::MAX);
        Some(OthersEvidence {
            over_ns,
            processes_ns: ns(self.processes_ticks, later.processes_ticks)?,
            kernel_threads_ns: ns(self.kernel_threads_ticks, later.kernel_threads_ticks)?,
            busiest: self.busiest(later, tick_ns, over_ns),
        })
    }

    /// The busiest processes up to `later`, of those that still ran then.
    fn busiest(&self, later: &Others, tick_ns: u64, over_ns: u64) -> Vec<BusyProcess> {
        let mut by_name: BTreeMap<&str, u64> = BTreeMap::new();
        for (process, (name, ticks)) in &later.own {
            // What a process did under another name is not this program's.
            let known = self.own.get(process).filter(|(known, _)| known == name);
            let before = known.map_or(0, |(_, ticks)| *ticks);
            let cpu_ns = by_name.entry(name).or_default();
            *cpu_ns = cpu_ns.saturating_add(ticks.saturating_sub(before).saturating_mul(tick_ns));
        }
        let is_busy = |(_, cpu_ns): &(&str, u64)| *cpu_ns as f64 > NAMED_SHARE * over_ns as f64;
        let mut busy: Vec<(&str, u64)> = by_name.into_iter().filter(is_busy).collect();
        busy.sort_by_key(|(_, cpu_ns)| Reverse(*cpu_ns));
        let named = |(name, cpu_ns): (&str, u64)| BusyProcess { name: name.to_owned(), cpu_ns };
        busy.into_iter().take(NAMED).map(named).collect()
    }
}

/// True for `ancestor` itself and its descendants. Processes are read one after another, so their parents may
/// form a circle.
fn descends(processes: &BTreeMap<i32, Process>, process: i32, ancestor: i32) -> bool {
    let mut at = process;
    for _ in 0..=processes.len() {
        if at == ancestor {
            return true;
        }
        match processes.get(&at) {
            Some(process) => at = process.parent,
            None => return false,
        }
    }
    false
}

fn parse(stat: &str) -> Option<Process> {
    // The parent is field 4, the flags are 9, utime, stime, cutime and cstime 14 to 17, the start is 22.
    let stat = ProcStat::parse(stat)?;
    let is_kernel = stat.field::<u64>(9)? & PF_KTHREAD != 0;
    let times = (14..=17).map(|number| stat.field(number)).collect::<Option<Vec<i64>>>()?;
    let sum = |times: &[i64]| {
        times.iter().map(|ticks| u64::try_from(*ticks).unwrap_or(0)).fold(0, u64::saturating_add)
    };
    let (ticks, own_ticks) = (sum(&times), sum(&times[..2]));
    let (name, parent, started) = (stat.name().to_owned(), stat.field(4)?, stat.field(22)?);
    Some(Process { name, parent, started, is_kernel, ticks, own_ticks })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new(namespace: &str) -> Tree {
            let tree = Tree(tempfile::tempdir().unwrap());
            fs::create_dir_all(tree.0.path().join("proc/self/ns")).unwrap();
            symlink(namespace, tree.0.path().join("proc/self/ns/pid")).unwrap();
            tree.process(1, 0, 0, [5, 5, 1000, 1000]);
            tree
        }

        fn process(&self, pid: i32, parent: i32, flags: u64, [user, system, cuser, csystem]: [u64; 4]) {
            let folder = self.0.path().join(format!("proc/{pid}"));
            fs::create_dir_all(&folder).unwrap();
            let stat = format!(
                "{pid} (a ) b) S {parent} 1 1 0 -1 {flags} 0 0 0 0 {user} {system} {cuser} {csystem} 20 0 1 \
                 0 9\n"
            );
            fs::write(folder.join("stat"), stat).unwrap();
        }

        fn ends(&self, pid: i32) {
            fs::remove_dir_all(self.0.path().join(format!("proc/{pid}"))).unwrap();
        }

        fn read(&self) -> Option<Others> {
            Others::read(&Root::new(self.0.path()).unwrap(), 50)
        }
    }

    #[test]
    fn others_are_all_but_this_process_its_children_and_the_kernel() {
        let tree = Tree::new(FIRST_NAMESPACE);
        tree.process(2, 0, PF_KTHREAD, [0, 3, 0, 0]);
        tree.process(50, 1, 0, [100, 100, 100, 100]);
        tree.process(51, 50, 0, [7, 7, 0, 0]);
        tree.process(60, 1, 0, [1, 0, 0, 0]);
        tree.process(61, 60, 0, [500, 0, 0, 0]);
        let before = tree.read().unwrap();
        tree.process(2, 0, PF_KTHREAD | 0x40, [0, 8, 0, 0]);
        tree.process(50, 1, 0, [900, 900, 900, 900]);
        tree.process(51, 50, 0, [70, 70, 0, 0]);
        // One of theirs ended and was waited for, after 20 ticks more; another was started and has ended,
        // after 9.
        tree.ends(61);
        tree.process(60, 1, 0, [2, 0, 520 + 9, 0]);
        tree.process(62, 60, 0, [4, 0, 0, 0]);
        let evidence = before.until(&tree.read().unwrap(), 10).unwrap();
        assert_eq!((evidence.processes_ns, evidence.kernel_threads_ns), ((20 + 1 + 9 + 4) * 10, 50));
    }

    #[test]
    fn time_that_was_lost_and_processes_that_are_hidden_are_not_known() {
        let tree = Tree::new(FIRST_NAMESPACE);
        tree.process(60, 1, 0, [500, 0, 0, 0]);
        let before = tree.read().unwrap();
        tree.ends(60);
        assert_eq!(before.until(&tree.read().unwrap(), 10), None);
        tree.ends(1);
        assert!(tree.read().is_none());
        assert!(Tree::new("pid:[4026532000]").read().is_none());
    }

    #[test]
    fn the_busiest_are_named_and_equal_names_are_together() {
        let own = |all: &[(i32, u64, &str, u64)]| Others {
            at: Instant::now(),
            processes_ticks: 0,
            kernel_threads_ticks: 0,
            own: all
                .iter()
                .map(|(pid, started, name, ticks)| ((*pid, *started), ((*name).to_owned(), *ticks)))
                .collect(),
        };
        let before = own(&[(1, 0, "init", 50), (2, 1, "rustc", 10), (3, 1, "sh", 0), (4, 1, "rustc", 90)]);
        // 3 is another program now; 4 ended, and another process of its name has its number.
        let after = own(&[
            (1, 0, "init", 50),
            (2, 1, "rustc", 40),
            (3, 1, "fio", 8),
            (4, 9, "rustc", 20),
            (6, 9, "b", 5),
            (7, 9, "a", 6),
        ]);
        let busiest = before.busiest(&after, 10, 1_000);
        let named: Vec<_> = busiest.iter().map(|one| (one.name.as_str(), one.cpu_ns)).collect();
        assert_eq!(named, [("rustc", 500), ("fio", 80), ("a", 60)]);
        assert_eq!(before.busiest(&after, 10, 60_000).len(), 0, "nobody had a hundredth of a core");
    }

    #[test]
    fn a_circle_of_parents_ends() {
        let process = |parent| Process {
            name: String::new(),
            parent,
            started: 0,
            is_kernel: false,
            ticks: 0,
            own_ticks: 0,
        };
        let circle = BTreeMap::from([(3, process(4)), (4, process(3))]);
        assert!(!descends(&circle, 3, 50) && descends(&circle, 3, 4));
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(
            text in "[0-9]{1,5} \\([a-z()]{0,5}\\)( -?[0-9]{1,20}){0,20}|\\PC*",
        ) {
            let _ = parse(&text);
        }
    }
}
