//! The real fio on a written file on disk, and stand-ins for what this machine cannot show.

use super::*;
use iopj_core::SteadyStateRule;
use iopj_core::evidence::{Evidence, Finding, ThreadRole};
use iopj_core::path::Submission;
use iopj_core::{Length, Rw, Workload, WriteSync};
use iopj_probe::Probe;
use iopj_study::Study;
use std::sync::atomic::Ordering;
use std::thread;
use tempfile::TempDir;

const FILE_BYTES: u64 = 16 << 20;

/// A folder on the disk of the build, not on tmpfs, which has no O_DIRECT everywhere.
fn folder() -> TempDir {
    tempfile::tempdir_in(std::env::current_exe().unwrap().parent().unwrap()).unwrap()
}

fn content() -> Vec<u8> {
    let mut state = 1u64;
    let mut word = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_le_bytes()
    };
    (0..FILE_BYTES / 8).flat_map(|_| word()).collect()
}

fn target(folder: &TempDir, name: &str) -> PathBuf {
    let path = folder.path().join(name);
    let mut file = File::create_new(&path).unwrap();
    file.write_all(&content()).unwrap();
    file.sync_all().unwrap();
    path
}

fn fio() -> Option<Fio> {
    match Fio::find() {
        Ok(fio) => Some(fio),
        Err(error) if std::env::var_os("CI").is_some_and(|ci| ci == "true") => panic!("{error}"),
        Err(error) => {
            eprintln!("skipped: needs fio ({error})");
            None
        }
    }
}

/// fio, a folder, and a written file in it.
fn fio_and_file() -> Option<(Fio, TempDir, PathBuf)> {
    let (fio, folder) = (fio()?, folder());
    let filename = target(&folder, "f");
    Some((fio, folder, filename))
}

fn job<'a>(path: &str, workload: &'a Workload, filename: &'a Path) -> FioJob<'a> {
    let path = path.parse().unwrap();
    FioJob {
        path,
        workload,
        filename: Filename::File(filename),
        offset: 0,
        size: FILE_BYTES,
        seed: 42,
        phase: Phase::Measured,
        status_interval: None,
    }
}

fn run(fio: &Fio, job: &FioJob<'_>) -> Result<FioOutput, FioError> {
    fio.run(job, &AtomicBool::new(false), &mut || (), &mut |_| Duration::MAX).map(|(result, _)| result)
}

fn ios(ios: u64) -> Workload {
    Workload { length: Length::Ios(ios), ..Workload::default() }
}

#[test]
fn interfaces_read_exactly_the_ios_asked_for() {
    let Some(fio) = fio() else { return };
    let folder = folder();
    let filename = target(&folder, "with:colon and space");
    for (path, iodepth) in [
        ("posix-sio/syscall/interrupt", 1),
        ("posix-aio/syscall/interrupt", 4),
        ("libaio/syscall/interrupt", 8),
        ("io_uring/syscall/interrupt+split", 8),
        ("io_uring/syscall/interrupt+registered", 8),
        ("io_uring/sqpoll/interrupt", 1),
    ] {
        let workload = Workload { iodepth, ..ios(200) };
        let result = run(&fio, &job(path, &workload, &filename)).unwrap();
        let reads = &result.reads;
        assert_eq!((reads.ios, reads.bytes, result.writes.ios), (200, 200 * 4096, 0), "{path}");
        assert_eq!((reads.short_ios, reads.dropped_ios, result.error), (0, 0, 0), "{path}");
        let latency = reads.latency.as_ref().unwrap();
        assert_eq!(latency.histogram.len(), 200, "{path}");
        assert!(latency.min_ns > 0 && latency.min_ns as f64 <= latency.mean_ns, "{path} {latency:?}");
        let percentiles = latency.percentiles.unwrap();
        assert!(
            percentiles.p50_ns <= percentiles.p95_ns && percentiles.p99_ns <= percentiles.p99_9_ns,
            "{path}"
        );
        let p50 = latency.histogram.value_at_quantile(0.5) as f64 / percentiles.p50_ns as f64;
        assert!((0.98..1.02).contains(&p50), "{path}: bins disagree with percentiles by {p50}");
        assert_eq!(result.fio_version, fio.version_text());
    }
    assert_eq!(std::fs::read(&filename).unwrap(), content());
}

/// As often as it is told: one after every fourth write, but for the last, after which nothing comes.
#[test]
fn fio_flushes_as_often_as_it_is_told() {
    let Some((fio, _folder, filename)) = fio_and_file() else { return };
    for (path, fsync, fdatasync) in [
        ("posix-sio/syscall/interrupt", 0, 4),
        ("posix-aio/syscall/interrupt", 4, 0),
        ("libaio/syscall/interrupt", 4, 0),
        ("io_uring/syscall/interrupt", 0, 4),
    ] {
        let workload = Workload { rw: Rw::Randwrite, fsync, fdatasync, ..ios(100) };
        let result = run(&fio, &job(path, &workload, &filename)).unwrap();
        let syncs = result.syncs.unwrap();
        assert_eq!((result.writes.ios, syncs.histogram.len()), (100, 24), "{path}");
        assert_eq!((result.reads.short_ios, result.writes.short_ios), (0, 0), "{path}");
        assert!(syncs.min_ns > 0 && syncs.min_ns as f64 <= syncs.mean_ns, "{path}: {syncs:?}");
    }
}

#[test]
fn fio_has_the_sizes_and_the_durable_writes_of_the_workload() {
    let Some((fio, _folder, filename)) = fio_and_file() else { return };
    let sizes: iopj_core::BlockSizes = "4k/50:16k/50".parse().unwrap();
    let plain = Workload {
        rw: Rw::Randwrite,
        bs: sizes.largest(),
        sizes: Some(sizes),
        length: Length::Runtime(Duration::from_millis(300)),
        ..Workload::default()
    };
    /// Whether a process has the file open as `flags` say, of those that can be durable (fcntl.h).
    fn is_open_so(child: u32, filename: &Path, flags: i32) -> bool {
        let folder = PathBuf::from(format!("/proc/{child}"));
        let open = std::fs::read_dir(folder.join("fd"))
            .into_iter()
            .flatten()
            .flatten()
            .filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|name| name == filename));
        let info =
            |fd: std::fs::DirEntry| std::fs::read_to_string(folder.join("fdinfo").join(fd.file_name()));
        let flags_of = |info: String| {
            let line = info.lines().find_map(|line| line.strip_prefix("flags:"))?.trim().to_owned();
            i32::from_str_radix(&line, 8).ok()
        };
        open.filter_map(|fd| flags_of(info(fd).ok()?)).any(|found| found & libc::O_SYNC == flags)
    }
    for (sync, flags) in
        [(WriteSync::None, 0), (WriteSync::Dsync, libc::O_DSYNC), (WriteSync::Sync, libc::O_SYNC)]
    {
        let workload = Workload { sync, ..plain.clone() };
        let (job, stop, mut seen) =
            (job("libaio/syscall/interrupt", &workload, &filename), AtomicBool::new(false), false);
        let mut look = |child| {
            seen |= is_open_so(child, &filename, flags);
            Duration::from_millis(5)
        };
        let (result, _) = fio.run(&job, &stop, &mut || (), &mut look).unwrap();
        let mean = result.writes.bytes / result.writes.ios.max(1);
        assert!(seen, "{sync}: no descriptor of fio had the flags {flags:o}");
        assert!(mean > 4096 && mean < 16_384 && result.syncs.is_none(), "{sync}: {mean} bytes");
    }
}

#[test]
fn ios_beyond_the_size_wrap_around() {
    let Some((fio, _folder, filename)) = fio_and_file() else { return };
    for rw in [Rw::Randread, Rw::Read] {
        let workload = Workload { rw, numjobs: 2, iodepth: 8, ..ios(600) };
        // Room for 256 blocks, 128 for each sequential job.
        let job =
            FioJob { size: 1 << 20, offset: 4096, ..job("libaio/syscall/interrupt", &workload, &filename) };
        assert_eq!(run(&fio, &job).unwrap().reads.ios, 1200, "{rw}");
    }
}

#[test]
fn writes_stay_in_the_region_and_leave_the_length() {
    let Some((fio, _folder, filename)) = fio_and_file() else { return };
    let workload = Workload { rw: Rw::Write, numjobs: 2, ..ios(16) };
    let two = FioJob {
        size: 128 << 10,
        offset: 64 << 10,
        ..job("posix-sio/syscall/interrupt", &workload, &filename)
    };
    assert_eq!(run(&fio, &two).unwrap().writes.ios, 32);
    let (before, after) = (content(), std::fs::read(&filename).unwrap());
    assert_eq!(after.len(), before.len());
    for block in 0..(FILE_BYTES / 4096) as usize {
        let range = block * 4096..(block + 1) * 4096;
        let inside = (16..48).contains(&block);
        assert_eq!(after[range.clone()] != before[range], inside, "block {block}");
    }
    let workload = Workload { rw: Rw::Randrw, rwmixread: 70, iodepth: 4, ..ios(500) };
    let result = run(&fio, &job("io_uring/syscall/interrupt", &workload, &filename)).unwrap();
    assert_eq!(result.reads.ios + result.writes.ios, 500);
    assert!(result.reads.ios > result.writes.ios && result.writes.ios > 0);
    assert_eq!(filename.metadata().unwrap().len(), FILE_BYTES);
}

#[test]
fn the_seed_decides_the_offsets() {
    let Some(fio) = fio() else { return };
    let folder = folder();
    let workload = Workload { rw: Rw::Randwrite, numjobs: 2, ..ios(8) };
    let blocks_written = |name: &str, seed: u64| {
        let filename = target(&folder, name);
        run(&fio, &FioJob { seed, ..job("libaio/syscall/interrupt", &workload, &filename) }).unwrap();
        let (before, after) = (content(), std::fs::read(&filename).unwrap());
        let pairs = before.chunks(4096).zip(after.chunks(4096)).enumerate();
        pairs.filter(|(_, (before, after))| before != after).map(|(block, _)| block).collect::<Vec<_>>()
    };
    let (first, other, again) = (blocks_written("a", 1), blocks_written("b", 2), blocks_written("c", 1));
    assert_eq!(first, again);
    assert_ne!(first, other);
    assert!(first.len() > 12, "two jobs wrote the same blocks: {first:?}");
}

#[test]
fn ramp_runs_by_time_and_processors_are_kept() {
    let Some((fio, _folder, filename)) = fio_and_file() else { return };
    let workload = Workload { ramp_time: Duration::from_secs(1), cpus_allowed: vec![0], ..ios(1) };
    let job = FioJob { phase: Phase::Ramp, ..job("posix-sio/syscall/poll", &workload, &filename) };
    let result = run(&fio, &job).unwrap();
    assert!(result.reads.ios > 1 && result.window_ns >= 1_000_000_000, "{result:?}");
}

/// The rule of a study with these keys.
fn rule(keys: &str) -> SteadyStateRule {
    let study = format!("name = \"t\"\npaths = \"available\"\n{keys}\n[[workload]]\n");
    Study::parse(&study, "t").unwrap().steadystate().unwrap().rule(Duration::ZERO).unwrap()
}

#[test]
fn a_ramp_of_fio_ends_once_it_is_steady_at_its_limit_or_when_stopped() {
    let Some((fio, folder, filename)) = fio_and_file() else { return };
    let of = |keys: &str, stop: bool| {
        let rule = rule(keys);
        let workload = Workload { ramp_time: rule.ramp[1], ..Workload::default() };
        let job = FioJob { phase: Phase::Ramp, ..job("posix-sio/syscall/interrupt", &workload, &filename) };
        fio.ramp(&job, rule, &AtomicBool::new(stop), &mut || ())
    };
    // Its limit is ten minutes and it may rise and fall tenfold: it ended because it was steady.
    let steady = of(
        "steadystate = \"iops_slope:1000%\"\nsteadystate_duration = \"1s\"\nsteadystate_limit = \"10m\"",
        false,
    );
    let steady = steady.unwrap();
    assert!(steady.attained && steady.change.is_some() && steady.ramp_ns >= 1_000_000_000, "{steady:?}");
    // No rate is so steady: fio ends at the limit, by its own clock, and says how it stood.
    let never = "steadystate = \"iops_slope:0.0000001%\"\nsteadystate_duration = \
                 \"500ms\"\nsteadystate_limit = \"1s\"";
    let unsteady = of(never, false).unwrap();
    assert!(!unsteady.attained && unsteady.ramp_ns >= 900_000_000, "{unsteady:?}");
    assert!(matches!(of(never, true), Err(FioError::Stopped)));
    let missing = folder.path().join("missing");
    let workload = Workload { ramp_time: Duration::from_secs(1), ..Workload::default() };
    let job = FioJob { phase: Phase::Ramp, ..job("posix-sio/syscall/interrupt", &workload, &missing) };
    let failed = fio.ramp(&job, rule("steadystate_duration = \"1s\""), &AtomicBool::new(false), &mut || ());
    assert!(failed.is_err());
}

#[test]
fn fio_says_how_far_it_is_where_it_is_asked() {
    let Some((fio, _folder, filename)) = fio_and_file() else { return };
    let workload = Workload { length: Length::Runtime(Duration::from_secs(2)), ..Workload::default() };
    let plain = job("posix-sio/syscall/interrupt", &workload, &filename);
    assert_eq!(run(&fio, &plain).unwrap().series.len(), 1);
    let result = run(&fio, &FioJob { status_interval: Some(Duration::from_millis(100)), ..plain }).unwrap();
    let (series, last) = (&result.series, result.series.last().unwrap());
    assert!(series.len() >= 2, "{series:?}");
    assert!(
        series.windows(2).all(|pair| pair[0].ios <= pair[1].ios && pair[0].window_ns <= pair[1].window_ns)
    );
    assert_eq!((last.ios, last.window_ns), (result.reads.ios, result.window_ns));
}

#[test]
fn jobs_are_watched_from_their_first_io_and_tell_how_they_submit() {
    let Some((fio, _folder, filename)) = fio_and_file() else { return };
    let probe = Probe::new(&[]).unwrap();
    for (path, helper, submission) in [
        ("io_uring/sqpoll/interrupt", Some(ThreadRole::Sqpoll), Submission::Sqpoll),
        ("io_uring/syscall/interrupt", None, Submission::Syscall),
        ("posix-aio/syscall/interrupt", Some(ThreadRole::AioHelper), Submission::Syscall),
        ("posix-sio/syscall/interrupt", None, Submission::Syscall),
    ] {
        let length = Length::Runtime(Duration::from_millis(500));
        let workload = Workload { numjobs: 2, length, ..Workload::default() };
        let take = || {
            let mut watch = FioWatch::new(&probe, &path.parse().unwrap(), &workload);
            let (job, stop) = (job(path, &workload, &filename), AtomicBool::new(false));
            let (result, _) = fio.run(&job, &stop, &mut || (), &mut |child| watch.look(child)).unwrap();
            let watched = watch.finish(result.window_ns)?;
            let reads = &result.reads;
            let counted = Evidence {
                window_ns: result.window_ns,
                numjobs: 2,
                reads: reads.ios,
                read_bytes: reads.bytes,
                ..Evidence::default()
            };
            Some(watched.put_into(counted))
        };
        // On a machine that is busy elsewhere fio may end before it is looked at again: then nothing is seen,
        // or too little, but never another submission.
        let seen = std::iter::repeat_with(take).take(20).flatten().find_map(|evidence| {
            match iopj_probe::observe(&evidence).submission {
                Finding::Unclear(_) => None,
                seen => Some((evidence, seen)),
            }
        });
        let (evidence, seen) = seen.unwrap();
        assert_eq!(seen, Finding::Seen(submission), "{path}: {evidence:?}");
        let has = |role| evidence.threads.iter().filter(|thread| thread.role == role).count();
        assert_eq!(has(ThreadRole::Job), 2, "{path}: {:?}", evidence.threads);
        assert_eq!(has(ThreadRole::Sqpoll) == 2, helper == Some(ThreadRole::Sqpoll), "{path}");
        assert_eq!(has(ThreadRole::AioHelper) > 0, helper == Some(ThreadRole::AioHelper), "{path}");
        let rings = evidence.rings.as_ref().unwrap();
        assert_eq!(rings.len(), if path.starts_with("io_uring") { 2 } else { 0 }, "{path}: {rings:?}");
    }
}

#[test]
fn stop_ends_a_long_run() {
    let Some((fio, _folder, filename)) = fio_and_file() else { return };
    let workload = Workload { length: Length::Runtime(Duration::from_secs(600)), ..Workload::default() };
    let stop = AtomicBool::new(false);
    let result = thread::scope(|scope| {
        let running = scope.spawn(|| {
            fio.run(&job("libaio/syscall/interrupt", &workload, &filename), &stop, &mut || (), &mut |_| {
                Duration::MAX
            })
        });
        thread::sleep(Duration::from_millis(300));
        assert!(!running.is_finished());
        stop.store(true, Ordering::Relaxed);
        running.join().unwrap()
    });
    assert!(matches!(result, Err(FioError::Stopped)), "{result:?}");
}

#[test]
fn failures_come_in_fios_own_words() {
    let Some((fio, folder, filename)) = fio_and_file() else { return };
    let workload = Workload { cpus_allowed: vec![100_000], ..ios(1) };
    let message = run(&fio, &job("libaio/syscall/interrupt", &workload, &filename)).unwrap_err().to_string();
    assert!(message.starts_with("fio failed (exit status: 1): fio: "), "{message}");
    assert!(message.contains("cpus_allowed=100000") && !message.contains('\n'), "{message}");

    let workload = ios(1);
    let short = FioJob { offset: 4096, ..job("libaio/syscall/interrupt", &workload, &filename) };
    let message = run(&fio, &short).unwrap_err().to_string();
    assert!(message.contains("16777216 bytes") && message.contains("16781312"), "{message}");
    assert_eq!(filename.metadata().unwrap().len(), FILE_BYTES);

    let absent = folder.path().join("absent");
    let message = run(&fio, &job("libaio/syscall/interrupt", &workload, &absent)).unwrap_err().to_string();
    assert!(message.contains("absent") && message.contains("No such file"), "{message}");
    assert!(!absent.exists());

    let odd = target(&folder, "a\nunlink=1");
    let message = run(&fio, &job("libaio/syscall/interrupt", &workload, &odd)).unwrap_err().to_string();
    assert!(message.contains("line break") && !message.contains('\n'), "{message}");
    assert!(odd.exists());
}

#[test]
fn a_missing_engine_is_named_with_the_remedy() {
    let Some(fio) = fio() else { return };
    let without = Fio { engines: vec!["libaio".into()], ..fio };
    let path = "nvme-passthrough/syscall/poll".parse().unwrap();
    let message = without.supports(&path).unwrap_err().to_string();
    assert!(message.contains("`io_uring_cmd`") && message.contains("install"), "{message}");
    assert_eq!(missing_engine("fio: engine rbd not loadable\nfio: failed to load engine\n"), Some("rbd"));
    assert_eq!(missing_engine("fio: failed parsing bs=0\n"), None);
}

/// A program at `path` that does `body` in a shell.
fn script(path: &Path, body: &str) {
    // Another process writes the script: a descriptor open for writing here could reach the child of another
    // test and make the script "busy".
    let write = "printf '#!/bin/sh\\n%s\\n' \"$1\" > \"$0\" && chmod +x \"$0\"";
    assert!(Command::new("sh").args(["-c", write]).arg(path).arg(body).status().unwrap().success());
}

#[test]
fn a_plugin_of_another_fio_is_named_and_asked_once() {
    let folder = folder();
    let (program, plugin) = (folder.path().join("fio"), folder.path().join("spdk_nvme"));
    std::fs::write(&plugin, "").unwrap();
    let spdk = |answer: &str| {
        let asked = format!("echo x >> {}/asked", folder.path().display());
        let body = format!("case $1 in --version) echo fio-3.40;; --enghelp=spdk) {asked}; {answer};; esac");
        script(&program, &body);
        // The empty plugin is no library: what the linker says of it is not fio's.
        Fio::at(program.clone()).unwrap().with_spdk_plugin(plugin.clone())
    };
    let fio = spdk("exit 1");
    let message = fio.supports(&IoPath::Spdk).unwrap_err().to_string();
    assert!(message.contains("is not loaded by fio-3.40"), "{message}");
    assert_eq!(fio.supports(&IoPath::Spdk).unwrap_err().to_string(), message);
    assert_eq!(std::fs::read_to_string(folder.path().join("asked")).unwrap().lines().count(), 1);
    let fio = spdk("echo 'bad ioops version 34 (want 36)' >&2; exit 1");
    let message = fio.supports(&IoPath::Spdk).unwrap_err().to_string();
    assert!(
        message.contains("built for another fio than fio-3.40 (engine interface 34, not 36)"),
        "{message}"
    );
    let workload = ios(1);
    let filename = Filename::Namespace { address: "0000:01:00.0".parse().unwrap(), nsid: 1 };
    let job = FioJob { filename, ..job("spdk/doorbell/poll", &workload, &plugin) };
    assert_eq!(run(&fio, &job).unwrap_err().to_string(), message);
}

#[test]
fn a_program_that_does_not_answer_is_not_waited_for() {
    let folder = folder();
    let program = folder.path().join("fio");
    script(&program, "exec sleep 600");
    let message = Fio::answering(program, Duration::from_secs(2)).unwrap_err().to_string();
    assert!(message.contains("it did not answer within 2 s"), "{message}");
}

#[test]
fn missing_old_and_foreign_programs_are_refused() {
    assert!(matches!(Fio::find_in(OsStr::new("")), Err(FioError::Missing)));
    let folder = folder();
    assert!(matches!(Fio::find_in(folder.path().as_os_str()), Err(FioError::Missing)));
    let program = folder.path().join("fio");
    let answer = |body: &str| {
        script(&program, body);
        Fio::find_in(folder.path().as_os_str())
    };
    let message = answer("echo fio-3.27").unwrap_err().to_string();
    assert!(message.contains("fio-3.27") && message.contains("3.28 or newer"), "{message}");
    assert!(matches!(answer("echo Fiona 1.0"), Err(FioError::NoAnswer { argument: "--version", .. })));
    assert!(matches!(answer("exit 3"), Err(FioError::NoAnswer { .. })));
    let new = answer("echo fio-3.42-12-gabcdef").unwrap();
    assert_eq!((new.version(), new.program()), ((3, 42), program.as_path()));
}

#[test]
fn versions() {
    assert_eq!(parse_version("fio-3.28"), Some((3, 28)));
    assert_eq!(parse_version("fio-3.33-12-gabc-dirty"), Some((3, 33)));
    for bad in ["", "fio", "fio-", "fio-3", "fio-x.y", "3.33"] {
        assert_eq!(parse_version(bad), None, "{bad}");
    }
}

#[test]
fn notes_tell_where_fio_differs() {
    let note = |path: &str| note(&path.parse().unwrap());
    assert!(note("io_uring/syscall/poll").contains("+split"));
    assert_eq!(note("io_uring/syscall/poll+split"), "");
    assert!(note("io_uring/sqpoll/interrupt").contains("registers the file"));
    assert_eq!(note("libaio/syscall/interrupt"), "");
}
