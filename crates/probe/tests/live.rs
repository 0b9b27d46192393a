//! Snapshots of the running system: its disks, its threads, a real read.

use iopj_core::Disturbance;
use iopj_core::evidence::{
    ControlRun, DeviceEvidence, EngineEvidence, Evidence, ProcessEvidence, ThreadEvidence, ThreadRole,
    VerdictKind,
};
use iopj_probe::{CompletionCounters, Edge, Probe, Waiting, Who, assess, conditions, reap};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

const BLOCK: usize = 4096;

/// Returns early in a developer's run, fails in CI.
fn skipped(needs: &str) {
    assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "this test needs {needs}");
    eprintln!("skipped: needs {needs}");
}

fn tid() -> i32 {
    let link = fs::read_link("/proc/thread-self").unwrap();
    link.file_name().unwrap().to_str().unwrap().parse().unwrap()
}

fn find(evidence: &Evidence, tid: i32) -> Option<&ThreadEvidence> {
    evidence.threads.iter().find(|thread| thread.tid == tid)
}

#[test]
fn every_disk_of_this_machine_is_read() {
    for entry in fs::read_dir("/sys/block").unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let probe = Probe::new(std::slice::from_ref(&name)).unwrap();
        let before = probe.snapshot(Who::Child, Edge::Begin).unwrap();
        let evidence = before.until(&probe.snapshot(Who::Child, Edge::End).unwrap());
        let [disk] = &evidence.devices[..] else { panic!("{name}: one disk expected") };
        assert_eq!(disk.name, name);
        assert!(disk.settings.contains_key("nomerges"), "{name}");
        if name.starts_with("zram") || name.starts_with("loop") {
            assert_eq!((disk.interrupts, &disk.vectors[..]), (None, &[][..]), "{name}");
        }
        if name.starts_with("vd") {
            assert!(disk.vectors.iter().all(|vector| vector.contains(" virtio")), "{:?}", disk.vectors);
            assert!(!disk.vectors.is_empty());
        }
        assert!(evidence.cpu.cores >= 1);
        let has_idle_states = Path::new("/sys/devices/system/cpu/cpu0/cpuidle/state0/time").exists();
        assert_eq!(!evidence.c_states.is_empty(), has_idle_states, "{:?}", evidence.c_states);
        assert_eq!(evidence.rules, iopj_probe::RULES);
    }
}

/// The kernel has one count of CPU time for all children: tests that have some take turns.
static CHILDREN: Mutex<()> = Mutex::new(());

fn children_are_ours() -> MutexGuard<'static, ()> {
    CHILDREN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A program that is not a child of this process: the shell that started it has ended.
struct Stranger(i32);

impl Stranger {
    fn busy() -> Stranger {
        let shell = Command::new("sh")
            .args(["-c", "(while :; do :; done) >/dev/null 2>&1 & echo $!"])
            .output()
            .unwrap();
        Stranger(String::from_utf8(shell.stdout).unwrap().trim().parse().unwrap())
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-9", &self.0.to_string()]).status();
    }
}

/// A window with others' time. If a process ends for which nobody waits, its time is lost and the window has
/// none.
fn window_with_others(probe: &Probe, millis: u64) -> Option<Evidence> {
    let window = |_| {
        let before = probe.snapshot(Who::Child, Edge::Begin).unwrap();
        thread::sleep(Duration::from_millis(millis));
        before.until(&probe.snapshot(Who::Child, Edge::End).unwrap())
    };
    (0..100).map(window).find(|evidence| evidence.others.is_some())
}

#[test]
fn a_stranger_that_is_busy_disturbs() {
    let probe = Probe::new(&[]).unwrap();
    if window_with_others(&probe, 1).is_none() {
        return skipped("the first process namespace");
    }
    let _children = children_are_ours();
    let _stranger = Stranger::busy();
    // On a busy machine it may have to wait for its share.
    let is_theirs = |disturbance: &Disturbance| match disturbance {
        Disturbance::Others { cores, allowed } => cores > allowed,
        _ => false,
    };
    let path = "posix-sio/syscall/interrupt".parse().unwrap();
    let mut windows = (0..100).map(|_| window_with_others(&probe, 500).unwrap());
    let found = windows.any(|evidence| conditions(&path, &evidence).disturbances.iter().any(is_theirs));
    assert!(found, "the stranger was not seen in 100 windows");
}

/// What the kernel has counted for this thread, or for the children that were waited for.
fn usage(who: i32) -> libc::rusage {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: getrusage(2) writes one `rusage` to the pointer.
    assert_eq!(unsafe { libc::getrusage(who, usage.as_mut_ptr()) }, 0);
    // SAFETY: it was zeroed, and filled in.
    unsafe { usage.assume_init() }
}

/// Sleeps until the kernel has counted this many voluntary switches of this thread; returns their count. A
/// sleep that is over before the thread has left its core does not count.
fn sleep_until_switched(times: u64) -> u64 {
    let switches = || usage(libc::RUSAGE_THREAD).ru_nvcsw as u64;
    let begin = switches();
    while switches() < begin + times {
        thread::sleep(Duration::from_micros(20));
    }
    switches() - begin
}

#[test]
fn a_job_that_sleeps_is_seen_to_sleep_and_own_threads_are_left_out() {
    let (to_test, from_job) = mpsc::channel();
    let (to_job, from_test) = mpsc::channel::<()>();
    let job = thread::spawn(move || {
        to_test.send(tid()).unwrap();
        from_test.recv().unwrap();
        to_test.send(sleep_until_switched(200) as i32).unwrap();
        from_test.recv().unwrap();
    });
    let jobs = [from_job.recv().unwrap()];
    let own = [tid()];
    let who = Who::ThisProcess { jobs: &jobs, own: &own };
    let probe = Probe::new(&[]).unwrap();
    let before = probe.snapshot(who, Edge::Begin).unwrap();
    to_job.send(()).unwrap();
    let switches = from_job.recv().unwrap() as u64;
    let evidence = before.until(&probe.snapshot(who, Edge::End).unwrap());
    to_job.send(()).unwrap();
    job.join().unwrap();
    let job = find(&evidence, jobs[0]).unwrap();
    assert_eq!(job.role, ThreadRole::Job);
    assert!(job.voluntary_switches >= switches, "{switches}: {job:?}");
    assert!(job.cpu_ns > 0);
    assert!(find(&evidence, own[0]).is_none());
    assert!(evidence.process.voluntary_switches >= switches);
}

#[test]
fn a_thread_that_has_ended_counts_in_the_totals() {
    let own = [tid()];
    let who = Who::ThisProcess { jobs: &[], own: &own };
    let probe = Probe::new(&[]).unwrap();
    let before = probe.snapshot(who, Edge::Begin).unwrap();
    let (switches, ended) = thread::spawn(|| (sleep_until_switched(300), tid())).join().unwrap();
    let evidence = before.until(&probe.snapshot(who, Edge::End).unwrap());
    assert!(find(&evidence, ended).is_none());
    assert!(evidence.process.voluntary_switches >= switches, "{switches}: {:?}", evidence.process);
}

/// CPU time of all children that were waited for.
fn children_ns() -> u64 {
    let libc::rusage { ru_utime, ru_stime, .. } = usage(libc::RUSAGE_CHILDREN);
    [ru_utime, ru_stime]
        .iter()
        .map(|time| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000)
        .sum()
}

/// CPU time of a shell that has ended: the growth of that of all children.
#[expect(clippy::zombie_processes, reason = "`reap` waits for it")]
fn cpu_ns(script: &str) -> u64 {
    let before_ns = children_ns();
    let child = Command::new("sh").args(["-c", script]).spawn().unwrap();
    let ended = loop {
        match reap(child.id()).unwrap() {
            Some(ended) => break ended,
            None => thread::sleep(Duration::from_millis(1)),
        }
    };
    assert_eq!(ended.status.code(), Some(3));
    assert_eq!(reap(child.id()).unwrap_err().raw_os_error(), Some(libc::ECHILD), "gone");
    let cpu_ns = ended.totals.user_ns + ended.totals.system_ns;
    // Each of four times is rounded to a microsecond.
    let grown_ns = children_ns() - before_ns;
    assert!(cpu_ns.abs_diff(grown_ns) <= 4_000, "{cpu_ns} and {grown_ns} ns");
    cpu_ns
}

#[test]
fn a_child_costs_what_it_and_its_own_children_do_and_nobody_else() {
    let _children = children_are_ours();
    let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
    assert!(cpu_ns(&format!("{busy}; exit 3")) > 0);
    assert!(cpu_ns(&format!("sh -c '{busy}'; exit 3")) > 0);
    let mut other = Command::new("sh").args(["-c", busy]).spawn().unwrap();
    other.wait().unwrap();
    cpu_ns("exit 3");
    let probe = Probe::new(&[]).unwrap();
    let evidence = probe
        .snapshot(Who::Child, Edge::Begin)
        .unwrap()
        .until(&probe.snapshot(Who::Child, Edge::End).unwrap());
    assert_eq!(
        (evidence.process, evidence.threads.len()),
        (ProcessEvidence::default(), 0),
        "the caller adds them"
    );
}

/// The whole disk that holds a file, if it is one: none for overlays, networks, stacked disks.
fn disk_of(path: &Path) -> Option<String> {
    let device = fs::metadata(path).unwrap().dev();
    let link = format!("/sys/dev/block/{}:{}", libc::major(device), libc::minor(device));
    let mut place = fs::canonicalize(link).ok()?;
    if place.join("partition").exists() {
        place.pop();
    }
    let name = place.file_name()?.to_str()?.to_owned();
    let is_stacked = fs::read_dir(place.join("slaves")).is_ok_and(|mut slaves| slaves.next().is_some());
    (Path::new("/sys/block").join(&name).exists() && !is_stacked).then_some(name)
}

/// A disk, and a written file of `blocks` blocks on it, open without cache, in a folder to keep alive:
/// removing it writes to the disk.
fn disk_and_file(blocks: usize) -> Option<(tempfile::TempDir, String, File)> {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("data");
    let noise: Vec<u8> = (0..blocks * BLOCK).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    fs::write(&path, noise).unwrap();
    File::open(&path).unwrap().sync_all().unwrap();
    let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&path).ok();
    let found = disk_of(directory.path()).zip(file);
    if found.is_none() {
        skipped("a build folder on a plain disk, with a file system with O_DIRECT");
    }
    found.map(|(disk, file)| (directory, disk, file))
}

fn read_all(file: &File, blocks: usize) {
    let mut buffer = vec![0u8; 2 * BLOCK];
    let start = buffer.as_ptr().align_offset(BLOCK);
    for block in 0..blocks {
        file.read_exact_at(&mut buffer[start..start + BLOCK], (block * BLOCK) as u64).unwrap();
    }
}

/// One test's submission poller would make another's verdict doubtful.
static ALONE: Mutex<()> = Mutex::new(());

/// Reads each block once, in a window of its own.
fn window_of_reads(probe: &Probe, file: &File, blocks: usize) -> Evidence {
    let jobs = [tid()];
    let who = Who::ThisProcess { jobs: &jobs, own: &[] };
    let before = probe.snapshot(who, Edge::Begin).unwrap();
    read_all(file, blocks);
    let mut evidence = before.until(&probe.snapshot(who, Edge::End).unwrap());
    (evidence.reads, evidence.read_bytes) = (blocks as u64, (blocks * BLOCK) as u64);
    (evidence.numjobs, evidence.iodepth) = (1, 1);
    evidence.engine = Some(EngineEvidence { submit_calls: blocks as u64, ..Default::default() });
    evidence
}

/// Others' I/O may hide whose the interrupts are: the verdict is of a window in which the disk did these
/// reads and nothing else. A machine whose disk is never left alone for some milliseconds gets none.
#[test]
fn real_reads_are_seen_on_the_disk_and_as_interrupts() {
    const BLOCKS: usize = 40;
    let Some((_folder, disk, file)) = disk_and_file(BLOCKS) else { return };
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let probe = Probe::new(std::slice::from_ref(&disk)).unwrap();
    for _ in 0..500 {
        let mut evidence = window_of_reads(&probe, &file, BLOCKS);
        let DeviceEvidence { reads, read_sectors, writes, discards, flushes, interrupts, .. } =
            evidence.devices[0];
        assert!(reads >= BLOCKS as u64 && read_sectors >= (BLOCKS * BLOCK / 512) as u64);
        let Some(interrupts) = interrupts else { return skipped("a disk with interrupt vectors of its own") };
        if (reads, writes, discards, flushes) != (BLOCKS as u64, 0, 0, 0) {
            continue;
        }
        evidence.control = Some(ControlRun {
            ios: reads,
            interrupts: Some(interrupts),
            device_reads: reads,
            completions: None,
        });
        let [verdict, poll] = ["interrupt", "poll"].map(|completion| {
            assess(&format!("posix-sio/syscall/{completion}").parse().unwrap(), &evidence).1
        });
        assert_eq!(verdict.kind, VerdictKind::Verified, "{:?}", verdict.reasons);
        assert_eq!(poll.kind, VerdictKind::Refuted, "{:?}", poll.reasons);
        return;
    }
    eprintln!("others were on {disk} in each window: no verdict was asked for");
}

/// Counters, or `None` if this user or kernel has none.
fn counters(probe: &Probe, waiting: Waiting<'_>) -> Option<CompletionCounters> {
    match probe.count_completions(waiting) {
        Ok(counters) => Some(counters),
        Err(error) => {
            let is_root = rustix::process::geteuid().is_root();
            let needs = if is_root { "a kernel with tracepoints (tracefs, perf events)" } else { "root" };
            skipped(&format!("{needs}: {error}"));
            None
        }
    }
}

#[test]
fn reads_are_counted_in_the_context_that_completed_them() {
    const BLOCKS: usize = 500;
    let Some((_folder, disk, file)) = disk_and_file(BLOCKS) else { return };
    let probe = Probe::new(std::slice::from_ref(&disk)).unwrap();
    let Some(running) = counters(&probe, Waiting::Threads(&[tid()])) else { return };
    read_all(&file, BLOCKS);
    let counts = running.end().unwrap();
    // Others may use the disk meanwhile, so there may be more.
    let is_polled =
        fs::read_to_string(format!("/sys/block/{disk}/queue/io_poll")).is_ok_and(|polls| polls.trim() == "1");
    assert!(is_polled || counts.waiting == 0, "nobody polls: {counts:?}");
    assert!(counts.by_interrupt() >= BLOCKS as u64, "{counts:?}");
    assert_eq!(counts.total(), counts.by_interrupt() + counts.waiting + counts.other);
}

#[test]
fn the_timers_of_the_threads_that_wait_are_counted_and_no_others() {
    const SLEEPS: u64 = 50;
    let Some(disk) = fs::read_dir("/sys/block").unwrap().flatten().next() else { return skipped("a disk") };
    let probe = Probe::new(&[disk.file_name().into_string().unwrap()]).unwrap();
    let sleep = || (0..SLEEPS).for_each(|_| thread::sleep(Duration::from_micros(100)));
    let Some(running) = counters(&probe, Waiting::Threads(&[tid()])) else { return };
    sleep();
    let own = running.end().unwrap().timers;
    let running = counters(&probe, Waiting::Threads(&[tid()])).unwrap();
    thread::scope(|scope| scope.spawn(sleep).join().unwrap());
    let of_another = running.end().unwrap().timers;
    assert!((SLEEPS..2 * SLEEPS).contains(&own) && of_another < SLEEPS, "{own} {of_another}");
    // Children of children too, and nothing of this process.
    let _children = children_are_ours();
    let running = counters(&probe, Waiting::Children).unwrap();
    // More than the scheduler sets while the children start.
    (0..10).for_each(|_| sleep());
    let status =
        Command::new("sh").args(["-c", "for i in 1 2 3 4 5 6 7 8; do sleep 0.001; done"]).status().unwrap();
    let of_children = running.end().unwrap().timers;
    assert!(status.success() && (8..10 * SLEEPS).contains(&of_children), "{of_children}");
}

/// A ring with a submission poller, which polls from its first wake-up on until the ring is closed.
struct PolledRing(i32);

impl PolledRing {
    fn open() -> Option<PolledRing> {
        const SQPOLL: u32 = 1 << 1;
        const IDLE_MS: u32 = 60_000;
        // struct io_uring_params: sq_entries, cq_entries, flags, sq_thread_cpu, sq_thread_idle, …, 120 bytes.
        let mut params = [0u32; 30];
        (params[2], params[4]) = (SQPOLL, IDLE_MS);
        // SAFETY: the pointer is to 120 bytes that live through the call, as io_uring_setup(2) wants.
        let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 4, params.as_mut_ptr()) };
        let ring = (ring >= 0).then_some(PolledRing(ring as i32))?;
        // It has its name once it runs; before Linux 5.12 it is a thread of the kernel's own.
        let mut waits = std::iter::repeat_with(|| thread::sleep(Duration::from_millis(1))).take(10_000);
        waits.any(|()| PolledRing::has_poller()).then_some(ring)
    }

    fn has_poller() -> bool {
        PolledRing::poller_ns().is_some()
    }

    /// CPU time of the process's poller, if it has one (`/proc/PID/task/TID/schedstat`).
    fn poller_ns() -> Option<u64> {
        let mut tasks = fs::read_dir("/proc/self/task").unwrap().flatten().map(|task| task.path());
        let named = |task: &std::path::PathBuf| fs::read_to_string(task.join("comm"));
        let poller = tasks.find(|task| named(task).is_ok_and(|name| name.starts_with("iou-sqp-")))?;
        fs::read_to_string(poller.join("schedstat")).ok()?.split(' ').next()?.parse().ok()
    }

    /// Wakes its poller if that sleeps: it may before it polls for the first time.
    fn wake(&self) {
        const SQ_WAKEUP: u32 = 1 << 1;
        // SAFETY: io_uring_enter(2) touches no memory with nothing to submit or to wait for, and no mask.
        unsafe { libc::syscall(libc::SYS_io_uring_enter, self.0, 0, 0, SQ_WAKEUP, 0, 0) };
    }

    /// Closes it, and waits for its poller: the kernel ends it later, and until then it belongs to this
    /// process.
    fn close(self) {
        // SAFETY: the descriptor is this test's own and is not used afterwards.
        unsafe { libc::close(self.0) };
        while PolledRing::has_poller() {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// CPU time that a poller uses before its ring is closed.
const USED_NS: u64 = 50_000_000;

#[test]
fn what_a_poller_that_ended_used_is_in_the_totals_beyond_the_other_threads() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(ring) = PolledRing::open() else { return skipped("io_uring with IORING_SETUP_SQPOLL") };
    // Threads start in steps of a clock tick, and this one's job starts after the poller.
    thread::sleep(Duration::from_millis(30));
    let probe = Probe::new(&[]).unwrap();
    let job = || {
        let jobs = [tid()];
        let who = Who::ThisProcess { jobs: &jobs, own: &[] };
        let before = probe.snapshot(who, Edge::Begin).unwrap();
        let (begun, until) = (PolledRing::poller_ns().unwrap(), Instant::now() + Duration::from_secs(60));
        while PolledRing::poller_ns().unwrap() < begun + USED_NS && Instant::now() < until {
            ring.wake();
            thread::sleep(Duration::from_millis(10));
        }
        ring.close();
        before.until(&probe.snapshot(who, Edge::End).unwrap())
    };
    let evidence = thread::scope(|scope| scope.spawn(job).join().unwrap());
    let poller = evidence.threads.iter().find(|thread| thread.role == ThreadRole::Sqpoll).unwrap();
    assert_eq!((poller.before_jobs, poller.cpu_ns), (true, 0));
    let known: u64 = evidence.threads.iter().map(|thread| thread.cpu_ns).sum();
    let total = evidence.process.user_ns + evidence.process.system_ns;
    // Totals are exact, but not read at one time.
    assert!(total > known + USED_NS / 2, "{total} ns, of which {known} ns by other threads");
}

#[test]
fn a_submission_poller_is_found() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(ring) = PolledRing::open() else { return skipped("io_uring with IORING_SETUP_SQPOLL") };
    let jobs = [tid()];
    let who = Who::ThisProcess { jobs: &jobs, own: &[] };
    let probe = Probe::new(&[]).unwrap();
    let before = probe.snapshot(who, Edge::Begin).unwrap();
    // The thread takes its name when it first runs, and is a helper like any other until then.
    let is_sqpoll =
        |thread: &ThreadEvidence| thread.role == ThreadRole::Sqpoll && thread.name.starts_with("iou-sqp-");
    let is_found = (0..5_000).any(|_| {
        thread::sleep(Duration::from_millis(1));
        before.until(&probe.snapshot(who, Edge::End).unwrap()).threads.iter().any(is_sqpoll)
    });
    ring.close();
    assert!(is_found);
}

#[test]
fn an_unknown_disk_is_refused_by_name() {
    let message = Probe::new(&["no-such-disk".to_owned()]).unwrap_err().to_string();
    assert!(message.starts_with("`no-such-disk` is not a whole disk"), "{message}");
}
