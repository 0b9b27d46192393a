//! Real threads: where they run, how nice they are, that they count, and that they end.

use super::*;
use iopj_core::CorunnerKind;
use std::fs;

/// The threads of this process with the co-runner's name: their numbers.
fn named() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    let is_named = |task: &fs::DirEntry| {
        fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.trim() == THREAD_NAME)
    };
    tasks.filter(is_named).map(|task| task.file_name().into_string().unwrap()).collect()
}

/// The numbers that the threads of a co-runner have, by their clocks' being those of these threads.
fn of(running: &Running) -> Vec<String> {
    let before = running.cpus().len();
    let threads = named();
    assert!(threads.len() >= before, "{threads:?}");
    threads
}

/// Tests of one process share its threads, so those that count them take turns.
static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn turn() -> std::sync::MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn status(thread: &str, key: &str) -> String {
    let text = fs::read_to_string(format!("/proc/self/task/{thread}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap();
    line.trim_start_matches(':').trim().to_owned()
}

/// Field 19 of proc_pid_stat(5).
fn niceness(thread: &str) -> i32 {
    let text = fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
    let after = text.rsplit_once(") ").unwrap().1;
    after.split(' ').nth(19 - 3).unwrap().parse().unwrap()
}

/// Waits until it has done at least one more round on each processor.
fn await_rounds(running: &Running) -> Done {
    let first = running.reading();
    let before: Vec<u64> =
        running.shared.rounds.iter().map(|count| count.0.load(Ordering::Relaxed)).collect();
    let begun = Instant::now();
    let is_due = || {
        let mut counts = running.shared.rounds.iter().zip(&before);
        counts.any(|(count, before)| count.0.load(Ordering::Relaxed) <= *before)
    };
    while is_due() {
        assert!(begun.elapsed() < Duration::from_secs(300), "it does not work");
        std::thread::sleep(Duration::from_millis(1));
    }
    first.until(&running.reading())
}

#[test]
fn each_kind_works_on_its_processor_at_its_niceness_and_ends() {
    let _turn = turn();
    let cpu = *cpus::allowed().last().unwrap();
    for (kind, nice) in [(CorunnerKind::Spin, 19), (CorunnerKind::Memory, 7), (CorunnerKind::Branch, 0)] {
        let own = rustix::process::getpriority_process(None).unwrap();
        let running = start(&Corunner { nice, ..Corunner::of(kind) }, &[cpu]).unwrap();
        let done = await_rounds(&running);
        assert!(done.rounds >= 1 && done.over_ns > 0 && done.cpu_ns > 0, "{kind}: {done:?}");
        let [thread] = &of(&running)[..] else { panic!("one thread") };
        assert_eq!(status(thread, "Cpus_allowed_list"), cpu.to_string());
        assert_eq!(niceness(thread), i32::from(nice));
        // The niceness is the thread's, and not its process's.
        assert_eq!(rustix::process::getpriority_process(None).unwrap(), own);
        drop(running);
        assert_eq!(named(), [""; 0], "{kind}");
    }
}

#[test]
fn every_processor_has_a_thread_and_they_count_together() {
    let _turn = turn();
    let cpus = cpus::allowed();
    let corunner = Corunner::of(CorunnerKind::Spin);
    let running = start(&corunner, &processors(&corunner, &[])).unwrap();
    let done = await_rounds(&running);
    assert!(done.rounds >= cpus.len() as u64, "{done:?}");
    let mut places: Vec<String> =
        of(&running).iter().map(|thread| status(thread, "Cpus_allowed_list")).collect();
    places.sort_by_key(|cpu| cpu.parse::<u32>().unwrap());
    assert_eq!(places, cpus.iter().map(u32::to_string).collect::<Vec<_>>());
}

#[test]
fn nothing_is_left_after_an_error_or_a_panic() {
    let _turn = turn();
    let cpus = cpus::allowed();
    let corunner = Corunner::of(CorunnerKind::Spin);
    let error = start(&corunner, &[cpus[0], 4_000]).err().unwrap().to_string();
    assert_eq!(error, "corunner_cpus names cpu 4000, which this process may not use: leave it out");
    let panicked = std::panic::catch_unwind(|| {
        let running = start(&corunner, &cpus).unwrap();
        await_rounds(&running);
        panic!("the trial failed");
    });
    assert!(panicked.is_err());
    assert_eq!(named(), [""; 0]);
}

#[test]
fn processors_are_its_own_else_the_jobs_else_all() {
    let plain = Corunner::of(CorunnerKind::Spin);
    let own = Corunner { cpus: vec![3], ..plain.clone() };
    assert_eq!(processors(&own, &[1, 2]), [3]);
    assert_eq!(processors(&plain, &[2, 1, 2]), [1, 2]);
    assert_eq!(processors(&plain, &[]), cpus::allowed());
}

/// A priority that only root may take, asked for by a thread that is not root.
#[test]
fn a_niceness_beyond_the_users_right_is_refused() {
    let _turn = turn();
    assert!(check(&Corunner::of(CorunnerKind::Spin), &[]).is_ok());
    assert!(check(&Corunner { cpus: vec![4_000], ..Corunner::of(CorunnerKind::Spin) }, &[]).is_err());
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: needs root, to become nobody");
    }
    let refused = std::thread::spawn(|| {
        // Of this thread alone, by the system call, and so of the threads that it starts.
        // SAFETY: both calls take plain numbers.
        let (group, user) = unsafe {
            (
                libc::syscall(libc::SYS_setresgid, 65_534, 65_534, 65_534),
                libc::syscall(libc::SYS_setresuid, 65_534, 65_534, 65_534),
            )
        };
        assert_eq!((group, user), (0, 0));
        check(&Corunner { nice: -5, ..Corunner::of(CorunnerKind::Spin) }, &[]).unwrap_err().to_string()
    });
    let message = refused.join().unwrap();
    assert!(message.starts_with("corunner_nice -5 puts the co-runner before other work"), "{message}");
}

#[test]
fn a_stop_ends_the_time_alone() {
    let _turn = turn();
    let running = start(&Corunner::of(CorunnerKind::Spin), &[cpus::allowed()[0]]).unwrap();
    let begun = Instant::now();
    running.alone(&AtomicBool::new(true));
    assert!(begun.elapsed() < Duration::from_secs(60));
    assert_eq!(BEFORE, WARM_UP + ALONE);
}
