//! A child in a made-up tree of `/proc`, from its start to its end.

use super::*;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

const CHILD: u32 = 100;
const MS: u64 = 1_000_000;

struct Tree(tempfile::TempDir);

impl Tree {
    fn new(release: &str) -> Tree {
        let tree = Tree(tempfile::tempdir().unwrap());
        tree.file("interrupts", "           CPU0\n");
        tree.file("sys/kernel/osrelease", release);
        tree.busy(0);
        tree
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.0.path().join("proc").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Ticks of all cores in user space.
    fn busy(&self, ticks: u64) {
        self.file("stat", &format!("cpu  {ticks} 0 0 0 0 0 0 0 0 0\ncpu0 {ticks} 0 0 0 0 0 0 0 0 0\n"));
    }

    /// A thread with this start in ticks, and this CPU time, number of sleeps, and bytes handed on.
    fn thread(&self, tid: u32, name: &str, started: u64, counts: (u64, u64, u64)) {
        self.at(&format!("{CHILD}/task/{tid}"), tid, name, started, counts);
    }

    fn at(&self, place: &str, tid: u32, name: &str, started: u64, (cpu_ns, sleeps, bytes): (u64, u64, u64)) {
        self.file(
            &format!("{place}/stat"),
            &format!("{tid} ({name}) S 1 2 3 4 5 6 7 8 9 10 0 0 0 0 20 0 1 0 {started} 0\n"),
        );
        self.file(
            &format!("{place}/status"),
            &format!("voluntary_ctxt_switches:\t{sleeps}\nnonvoluntary_ctxt_switches:\t0\n"),
        );
        self.file(&format!("{place}/schedstat"), &format!("{cpu_ns} 0 0\n"));
        self.file(&format!("{place}/io"), &format!("rchar: 7\nread_bytes: {bytes}\nwrite_bytes: 0\n"));
    }

    fn ends(&self, tid: u32) {
        fs::remove_dir_all(self.0.path().join(format!("proc/{CHILD}/task/{tid}"))).unwrap();
    }

    fn ring(&self, fd: u32, text: &str) {
        let link = self.0.path().join(format!("proc/{CHILD}/fd/{fd}"));
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        if !link.is_symlink() {
            symlink(Path::new("anon_inode:[io_uring]"), link).unwrap();
        }
        self.file(&format!("{CHILD}/fdinfo/{fd}"), text);
    }

    fn with_probe(release: &str) -> (Tree, Probe) {
        let tree = Tree::new(release);
        let probe = Probe::with_root(tree.0.path(), &[]).unwrap();
        (tree, probe)
    }

    /// fio's main thread, the one that keeps its time, and two jobs that wait for their start.
    fn waiting(&self) {
        for (tid, started) in [(100, 10), (103, 26), (104, 26), (105, 27)] {
            self.thread(tid, "fio", started, (90 * MS, 40, 0));
        }
    }
}

fn jobs(threads: JobThreads) -> ChildJobs {
    ChildJobs { count: 2, threads, runtime: Some(Duration::from_secs(1)) }
}

/// A thread as the evidence holds it: number, role, CPU time, sleeps, the time covered, the bytes.
type Row = (i32, ThreadRole, u64, u64, Option<u64>, Option<u64>);

fn rows(watched: &Watched) -> Vec<Row> {
    let row =
        |it: &ThreadEvidence| (it.tid, it.role, it.cpu_ns, it.voluntary_switches, it.over_ns, it.block_bytes);
    watched.threads.iter().map(row).collect()
}

#[test]
fn counts_run_from_the_first_io_to_the_last_look_at_each_job() {
    let (tree, probe) = Tree::with_probe("6.18.1\n");
    let mut watch = ChildWatch::new(&probe, CHILD, jobs(JobThreads::AfterFirst));
    // Nothing is there yet, then no job, then nothing was read.
    watch.look(0).unwrap();
    tree.thread(100, "fio", 10, (80 * MS, 30, 4096));
    tree.thread(103, "fio", 26, (MS, 1, 0));
    watch.look(MS).unwrap();
    tree.waiting();
    watch.look(2 * MS).unwrap();
    assert!(watch.begun.is_none());
    assert_eq!(watch.next(2 * MS), SEEKING);
    tree.busy(50);
    tree.thread(104, "fio", 26, (91 * MS, 41, 4096));
    watch.look(270 * MS).unwrap();
    tree.thread(104, "fio", 26, (591 * MS, 5_041, 50 * 4096));
    tree.thread(105, "fio", 27, (890 * MS, 60, 70 * 4096));
    tree.thread(106, "iou-wrk-104", 30, (3 * MS, 2, 4096));
    // fio's own threads are not the jobs'.
    tree.thread(103, "fio", 26, (900 * MS, 9_000, 0));
    watch.look(1_170 * MS).unwrap();
    tree.ends(104);
    tree.thread(105, "fio", 27, (990 * MS, 61, 80 * 4096));
    watch.look(1_270 * MS).unwrap();
    tree.ends(105);
    tree.busy(250);
    watch.look(1_280 * MS).unwrap();
    tree.busy(999);
    let watched = watch.finish(1_000 * MS).unwrap();
    assert_eq!(watched.begin_ns, 270 * MS);
    // Bytes count for the whole window, however late its start was seen.
    let expected = [
        (104, ThreadRole::Job, 500 * MS, 5_000, Some(900 * MS), Some(50 * 4096)),
        (105, ThreadRole::Job, 900 * MS, 21, Some(1_000 * MS), Some(80 * 4096)),
        (106, ThreadRole::IoWorker, 3 * MS, 2, Some(1_010 * MS), Some(4096)),
    ];
    assert_eq!(rows(&watched), expected);
    // Nine tenths of the window represent all of it.
    let process = watched.process;
    assert_eq!(process.user_ns + process.system_ns, 500 * MS * 10 / 9 + 900 * MS + 3 * MS);
    assert_eq!(process.voluntary_switches, 5_555 + 21 + 2);
    // From the start of the jobs to the look that found them gone.
    assert_eq!(watched.cpu.user_ns, 200 * probe.tick_ns);
    assert_eq!(watched.rings, []);
}

#[test]
fn a_begin_or_an_end_that_was_not_seen_gives_nothing() {
    let (tree, probe) = Tree::with_probe("6.18.1\n");
    let mut watch = ChildWatch::new(&probe, CHILD, jobs(JobThreads::AfterFirst));
    tree.waiting();
    watch.look(0).unwrap();
    assert_eq!(watch.finish(1_000 * MS), None);
    let mut watch = ChildWatch::new(&probe, CHILD, jobs(JobThreads::AfterFirst));
    tree.thread(105, "fio", 27, (91 * MS, 41, 4096));
    watch.look(0).unwrap();
    watch.look(700 * MS).unwrap();
    assert_eq!(watch.finish(1_000 * MS), None);
}

#[test]
fn posix_aio_has_its_own_threads_read_and_they_are_no_jobs() {
    let (tree, probe) = Tree::with_probe("6.18.1\n");
    let mut watch = ChildWatch::new(&probe, CHILD, jobs(JobThreads::AfterFirst));
    tree.waiting();
    tree.thread(106, "fio", 40, (2 * MS, 1, 4096));
    watch.look(0).unwrap();
    tree.thread(106, "fio", 40, (500 * MS, 700, 400 * 4096));
    tree.thread(107, "fio", 41, (MS, 1, 2 * 4096));
    watch.look(990 * MS).unwrap();
    let roles: Vec<_> =
        rows(&watch.finish(1_000 * MS).unwrap()).iter().map(|row| (row.0, row.1, row.5)).collect();
    let expected = [
        (104, ThreadRole::Job, Some(0)),
        (105, ThreadRole::Job, Some(0)),
        (106, ThreadRole::AioHelper, Some(400 * 4096)),
        (107, ThreadRole::AioHelper, Some(2 * 4096)),
    ];
    assert_eq!(roles, expected);
}

/// Under load glibc's threads came and went so fast that two thirds of the I/O was done by threads that no
/// look had seen.
#[test]
fn what_unseen_threads_handed_on_is_known_by_the_process() {
    let (tree, probe) = Tree::with_probe("6.18.1\n");
    for (ring, expected) in [(false, Some(890 * 4096)), (true, None)] {
        let mut watch = ChildWatch::new(&probe, CHILD, jobs(JobThreads::AfterFirst));
        tree.waiting();
        tree.thread(106, "fio", 40, (2 * MS, 1, 4096));
        tree.file("100/io", "read_bytes: 40960\nwrite_bytes: 0\n");
        if ring {
            tree.ring(6, "SqHead:\t9\n");
        }
        watch.look(0).unwrap();
        tree.thread(106, "fio", 40, (500 * MS, 700, 11 * 4096));
        tree.file("100/io", "read_bytes: 3727360\nwrite_bytes: 0\n");
        watch.look(990 * MS).unwrap();
        let watched = watch.finish(1_000 * MS).unwrap();
        let rest = rows(&watched).into_iter().find(|row| row.0 == 0);
        assert_eq!(
            rest.map(|row| (row.1, row.5)),
            expected.map(|bytes| (ThreadRole::AioHelper, Some(bytes)))
        );
    }
}

#[test]
fn a_poller_that_still_bears_its_jobs_name_is_no_job() {
    let (tree, probe) = Tree::with_probe("6.1.0\n");
    let mut watch = ChildWatch::new(&probe, CHILD, jobs(JobThreads::AfterFirst));
    tree.waiting();
    tree.thread(110, "fio", 38, (0, 0, 0));
    tree.ring(6, "SqHead:\t1\n");
    watch.look(0).unwrap();
    tree.thread(110, "iou-sqp-104", 38, (900 * MS, 3, 800 * 4096));
    tree.ring(6, "SqHead:\t800\n");
    watch.look(990 * MS).unwrap();
    // It ends: the last count of what it handed on remains.
    fs::remove_file(tree.0.path().join("proc/100/task/110/io")).unwrap();
    watch.look(995 * MS).unwrap();
    let watched = watch.finish(1_000 * MS).unwrap();
    let found: Vec<_> = rows(&watched).iter().map(|row| (row.0, row.1, row.5)).collect();
    let expected = [
        (104, ThreadRole::Job, Some(0)),
        (105, ThreadRole::Job, Some(0)),
        (110, ThreadRole::Sqpoll, Some(800 * 4096)),
    ];
    assert_eq!(found, expected);
}

#[test]
fn rings_tell_their_pollers_also_where_these_are_kernel_threads() {
    for (release, place) in [("6.18.1\n", "100/task/110"), ("5.10.0-30-amd64\n", "110")] {
        let (tree, probe) = Tree::with_probe(release);
        let mut watch = ChildWatch::new(&probe, CHILD, jobs(JobThreads::AfterFirst));
        tree.waiting();
        let name = if place.contains("task") { "iou-sqp-104" } else { "io_uring-sq" };
        tree.at(place, 110, name, 28, (MS, 0, 0));
        tree.ring(6, "SqHead:\t0\nSqThread:\t110\n");
        tree.file(&format!("{CHILD}/fd/7"), "no link");
        watch.look(0).unwrap();
        assert!(watch.begun.is_none());
        tree.at(place, 110, name, 28, (MS, 0, 4096));
        watch.look(MS).unwrap();
        tree.ring(6, "SqHead:\t900\nSqThread:\t-1\n");
        tree.at(place, 110, name, 28, (801 * MS, 0, 900 * 4096));
        watch.look(991 * MS).unwrap();
        let watched = watch.finish(1_000 * MS).unwrap();
        assert_eq!(
            watched.rings,
            [RingEvidence { poller: Some(110), entries: Some(900), over_ns: Some(990 * MS) }]
        );
        assert_eq!(
            rows(&watched)[2],
            (110, ThreadRole::Sqpoll, 800 * MS, 0, Some(990 * MS), Some(900 * 4096))
        );
        // A kernel thread is outside the process's totals, as in trials of this process.
        let inside = 800 * MS * 100 / 99;
        let process = watched.process;
        assert_eq!(process.user_ns + process.system_ns, if place.contains("task") { inside } else { 0 });
    }
}

#[test]
fn bypass_begins_when_its_jobs_are_there() {
    let (tree, probe) = Tree::with_probe("6.18.1\n");
    let mut watch = ChildWatch::new(&probe, CHILD, jobs(JobThreads::Unseen));
    tree.thread(100, "fio", 10, (80 * MS, 30, 4096));
    tree.thread(101, "eal-intr-thread", 12, (MS, 1, 0));
    tree.thread(102, "fio", 13, (MS, 1, 0));
    watch.look(0).unwrap();
    assert!(watch.begun.is_none(), "two threads of the plugin are no two jobs and one that keeps the time");
    tree.waiting();
    watch.look(MS).unwrap();
    assert_eq!(watch.begun.as_ref().unwrap().jobs, [104, 105]);
}

#[test]
fn looks_are_few_and_the_last_one_is_close_to_the_end() {
    let (tree, probe) = Tree::with_probe("6.18.1\n");
    tree.waiting();
    tree.thread(104, "fio", 26, (91 * MS, 41, 4096));
    for runtime_ms in [20, 1_000, 60_000] {
        let runtime = Duration::from_millis(runtime_ms);
        let jobs = ChildJobs { runtime: Some(runtime), ..jobs(JobThreads::AfterFirst) };
        let mut watch = ChildWatch::new(&probe, CHILD, jobs);
        watch.look(0).unwrap();
        watch.cost = Duration::ZERO;
        let (mut now, mut looks) = (Duration::ZERO, Vec::new());
        while now < runtime {
            now += watch.next(now.as_nanos() as u64);
            looks.push(now);
        }
        let last = looks.iter().rfind(|look| **look < runtime).unwrap();
        assert!(runtime - *last <= BEFORE_END, "{looks:?}");
        assert!(looks.len() < 30 + runtime.as_secs() as usize, "{looks:?}");
        // Looks are close together around the end, and only there.
        assert!(watch.next(now.as_nanos() as u64) <= 2 * SEEKING);
        assert_eq!(watch.next((2 * now).as_nanos() as u64 + 1_000 * MS), LONGEST);
    }
    let unknown = ChildJobs { runtime: None, ..jobs(JobThreads::AfterFirst) };
    let mut watch = ChildWatch::new(&probe, CHILD, unknown);
    watch.look(0).unwrap();
    assert_eq!([20, 400, 60_000].map(|ms| watch.next(ms * MS).as_millis()), [2, 20, 50]);
}

#[test]
fn what_a_thread_handed_on_is_read() {
    assert_eq!(
        block_bytes("rchar: 9\nread_bytes: 4096\nwrite_bytes: 512\ncancelled_write_bytes: 1\n"),
        Some(4608)
    );
    assert_eq!(block_bytes("rchar: 9\n"), None);
}
