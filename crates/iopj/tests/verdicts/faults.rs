//! A falsified path is never verified: each kind of fault is seeded on a loop device of the test's own, which
//! nobody else uses.

use crate::common::{
    Alone, LoopDevice, Random, TestFolder, Undo, alone, folder, have, have_mounts, have_tracepoints, iopj,
    mounted, tool, written,
};
use iopj_core::VerdictKind;
use iopj_record::Trial;
use iopj_store::Store;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

/// Trials of each kind: always the same in the gate, different ones in each soak.
const TRIALS: usize = 10;
const MANY_TRIALS: usize = 200;
const SEED: u64 = 11;

const PATHS: [&str; 4] = [
    "posix-sio/syscall/interrupt",
    "libaio/syscall/interrupt",
    "io_uring/syscall/interrupt",
    "posix-aio/syscall/interrupt",
];
const BLOCK: u64 = 4096;
const FILE_BLOCKS: u64 = 2048;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The file is read from the page cache.
    Cache,
    /// A part of the file becomes a hole while the study runs.
    Hole,
    /// Another process begins to read on the disk.
    OtherProcess,
    /// Linux takes RWF_HIPRI and ignores it.
    FallsBack,
    /// The disk is set to count no more I/O.
    StaleSetting,
    /// Another ring of the process has a submission poller.
    ForeignPoller,
}

impl Way {
    /// The task of `seed.c`.
    fn seeded(self) -> &'static str {
        match self {
            Way::Cache => "cache",
            Way::ForeignPoller => "poller",
            _ => "",
        }
    }

    /// It begins while the study runs.
    fn begins_later(self) -> bool {
        matches!(self, Way::Hole | Way::OtherProcess | Way::StaleSetting)
    }
}

/// A file on a file system of its own, on a loop device, while no test of another process switches io_uring
/// off or changes the machine otherwise.
struct Bench {
    _mount: Undo,
    device: LoopDevice,
    shim: PathBuf,
    folder: TestFolder,
    _alone: Alone,
}

impl Bench {
    fn new() -> Option<Bench> {
        let has_compiler =
            Command::new("cc").arg("--version").output().is_ok_and(|output| output.status.success());
        if !have_mounts() || !have(has_compiler, "a C compiler, `cc`") {
            return None;
        }
        let (_alone, folder) = (alone(), folder());
        // A loop device has no interrupts: only tracepoints show who completes its I/Os.
        if !have_tracepoints(&folder) {
            return None;
        }
        let (image, shim) = (folder.join("image"), folder.join("seed.so"));
        written(&image, 64 << 20);
        tool(&format!("mkfs.ext4 -q {}", image.display()));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/verdicts/seed.c");
        tool(&format!("cc -shared -fPIC -o {} {source} -ldl", shim.display()));
        let device = LoopDevice::new(&image, "");
        let mount = mounted(device.node(), &folder.join("disk"));
        Some(Bench { _mount: mount, device, shim, folder, _alone })
    }

    fn data(&self) -> PathBuf {
        self.folder.join("disk/data")
    }

    fn store(&self) -> PathBuf {
        self.folder.join("faults.iopj")
    }

    /// Starts a study.
    fn start(&self, paths: &[&str], bs: u64, way: Option<Way>) -> Child {
        let ios = if way == Some(Way::OtherProcess) { 4000 } else { 1000 };
        // A hole from the run before must not make this one be refused.
        written(&self.data(), (FILE_BLOCKS * BLOCK) as usize);
        let study = format!(
            "name = \"faults\"\npaths = {paths:?}\nreplicates = 3\nmeters = \"none\"\n[[workload]]\nrw = \
             \"randread\"\nbs = \"{bs}\"\nramp_time = \"0s\"\nios = {ios}\n"
        );
        fs::write(self.folder.join("faults.toml"), study).unwrap();
        for name in ["faults.iopj", "faults.iopj-wal", "faults.iopj-shm"] {
            let _ = fs::remove_file(self.folder.join(name));
        }
        let mut command = iopj(&self.folder, "run faults.toml --target disk/data --store faults.iopj");
        command
            .env("LD_PRELOAD", &self.shim)
            .env("SEEDED", way.map_or("", Way::seeded))
            .stdout(Stdio::null());
        command.stderr(File::create(self.folder.join("messages")).unwrap()).spawn().unwrap()
    }

    /// All trials of the study that has run.
    fn recorded(&self) -> Vec<Trial> {
        let trials = Store::open(&self.store()).and_then(|store| store.trials());
        trials.unwrap_or_else(|error| panic!("{error}: {}", self.messages()))
    }

    /// The study's messages.
    fn messages(&self) -> String {
        fs::read_to_string(self.folder.join("messages")).unwrap()
    }

    /// The trials of a whole study that began after `way` had.
    fn trials(&self, way: Way, random: &mut Random) -> Vec<Trial> {
        let paths: &[&str] = if way == Way::FallsBack { &["posix-sio/syscall/poll"] } else { &PATHS };
        let mut child = self.start(paths, BLOCK << (random.next() % 3), Some(way));
        let mut begun = SystemTime::UNIX_EPOCH;
        let (is_over, foreign) = (AtomicBool::new(false), Mutex::new(Vec::new()));
        thread::scope(|scope| {
            if way.begins_later() {
                while !self.store().exists() && child.try_wait().unwrap().is_none() {
                    thread::sleep(Duration::from_millis(1));
                }
                thread::sleep(random.below(Duration::from_millis(300)));
                match way {
                    Way::Hole => punch(&self.data(), random),
                    Way::OtherProcess => {
                        scope.spawn(|| *foreign.lock().unwrap() = read_beside(&self.device.path, &is_over));
                    }
                    _ => fs::write(self.iostats(), "0").unwrap(),
                }
                begun = SystemTime::now();
            }
            child.wait().unwrap();
            is_over.store(true, Ordering::Relaxed);
        });
        fs::write(self.iostats(), "1").unwrap();
        let begun_ns = begun.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
        let foreign = foreign.into_inner().unwrap();
        let is_met = |trial: &Trial| way != Way::OtherProcess || is_shared(trial, &foreign);
        self.recorded()
            .into_iter()
            .filter(|trial| trial.started_unix_ns > begun_ns && is_met(trial))
            .collect()
    }

    fn iostats(&self) -> PathBuf {
        Path::new("/sys/block").join(self.device.name()).join("queue/iostats")
    }

    /// Every path is verified without a seeded fault: below, only the fault can prevent that.
    fn proves_what_is_not_falsified(&self) {
        let mut proven = BTreeSet::new();
        for _ in 0..10 {
            let mut child = self.start(&PATHS, BLOCK, None);
            let status = child.wait().unwrap();
            assert!(status.success(), "{status}: {}", self.messages());
            let is_verified = |trial: &&Trial| kind(trial) == Some(VerdictKind::Verified);
            proven.extend(self.recorded().iter().filter(is_verified).map(|trial| trial.path));
            if proven.len() == PATHS.len() {
                return;
            }
        }
        panic!("verified were {proven:?} alone");
    }
}

/// `None` for a trial that failed.
fn kind(trial: &Trial) -> Option<VerdictKind> {
    trial.outcome.measurement().map(|measurement| measurement.verdict.kind)
}

/// Makes a hole of a twentieth of the file, up to all of it.
fn punch(path: &Path, random: &mut Random) {
    let blocks = FILE_BLOCKS / 20 + random.next() % (FILE_BLOCKS - FILE_BLOCKS / 20 + 1);
    let first = random.next() % (FILE_BLOCKS - blocks + 1);
    let file = OpenOptions::new().write(true).open(path).unwrap();
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: the descriptor is open.
    let done =
        unsafe { libc::fallocate(file.as_raw_fd(), mode, (first * BLOCK) as i64, (blocks * BLOCK) as i64) };
    assert_eq!(done, 0);
}

/// `CLOCK_MONOTONIC_RAW` in ns.
fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec that lives through the call.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_RAW, &mut time) }, 0);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Reads on the device, past every cache, until it `is_over`; start and end of each read.
fn read_beside(device: &Path, is_over: &AtomicBool) -> Vec<[u64; 2]> {
    let file = File::options().read(true).custom_flags(libc::O_DIRECT).open(device).unwrap();
    let mut buffer = vec![0u8; 2 * BLOCK as usize];
    let start = buffer.as_ptr().align_offset(BLOCK as usize);
    let own = &mut buffer[start..start + BLOCK as usize];
    let mut reads = Vec::new();
    for block in (0..FILE_BLOCKS).cycle() {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let begin = now_ns();
        file.read_exact_at(own, block * BLOCK).unwrap();
        reads.push([begin, now_ns()]);
    }
    reads
}

/// More foreign reads were in the trial's window than a verdict allows: a reader without a core meanwhile
/// falsifies nothing.
fn is_shared(trial: &Trial, foreign: &[[u64; 2]]) -> bool {
    let Some(measurement) = trial.outcome.measurement() else { return true };
    let [begin, end] = measurement.window_raw_ns.unwrap();
    let inside = foreign.iter().filter(|read| begin <= read[0] && read[1] <= end).count();
    inside as u64 > 16 + measurement.ios / 50
}

/// Asserts that this many trials of a kind were measured and none is verified.
fn is_never_verified(way: Way, trials: usize, mut random: Random) {
    let Some(bench) = Bench::new() else { return };
    bench.proves_what_is_not_falsified();
    let (mut seen, mut failed) = (BTreeMap::new(), 0);
    while seen.values().sum::<usize>() < trials {
        for trial in bench.trials(way, &mut random) {
            let Some(measurement) = trial.outcome.measurement() else {
                failed += 1;
                assert!(failed < trials, "{way:?}: {:?}", trial.outcome);
                continue;
            };
            let verdict = &measurement.verdict;
            assert_ne!(verdict.kind, VerdictKind::Verified, "{way:?} {}: {:?}", trial.path, verdict.reasons);
            *seen.entry(format!("{:?}", verdict.kind)).or_default() += 1;
        }
    }
    eprintln!("{way:?}: {seen:?}, failed {failed}");
}

macro_rules! ways {
    ($($way:ident $short:ident $soak:ident)*) => {$(
        #[test]
        fn $short() {
            is_never_verified(Way::$way, TRIALS, Random(SEED));
        }

        #[test]
        #[ignore = "a soak: cargo xtask soak"]
        fn $soak() {
            is_never_verified(Way::$way, MANY_TRIALS, Random::from_clock());
        }
    )*};
}

ways! {
    Cache a_file_in_the_page_cache_is_never_verified soak_a_file_in_the_page_cache_is_never_verified
    Hole a_hole_is_never_verified soak_a_hole_is_never_verified
    OtherProcess another_process_on_the_disk_is_never_verified
        soak_another_process_on_the_disk_is_never_verified
    FallsBack a_poll_that_falls_back_is_never_verified soak_a_poll_that_falls_back_is_never_verified
    StaleSetting a_disk_that_counts_no_more_is_never_verified
        soak_a_disk_that_counts_no_more_is_never_verified
    ForeignPoller a_foreign_submission_poller_is_never_verified
        soak_a_foreign_submission_poller_is_never_verified
}
