//! Samples of the running machine: a read from a disk, and a program that makes no system call.

use iopj_core::{CostKind, CostProfile, CostSource, Space};
use iopj_probe::sampling::{Sampler, SamplingError};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const BLOCK: usize = 4096;
const WINDOW: Duration = Duration::from_secs(1);
/// One test's work must not be in another's samples.
static ALONE: Mutex<()> = Mutex::new(());

/// None in a developer's run without the permission; fails in CI. With the guard of [`ALONE`].
fn sampler() -> Option<(Sampler, MutexGuard<'static, ()>)> {
    let sampler = Sampler::new();
    if let Err(error) = &sampler {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{error}");
        let needs = if rustix::process::geteuid().is_root() { "perf events" } else { "root" };
        eprintln!("skipped: needs {needs}: {error}");
    }
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    Some((sampler.ok()?, alone))
}

fn no_directory(_: &str, _: Option<&str>) -> Option<String> {
    None
}

/// Samples `work`, called repeatedly for a window; returns the time it took too. A virtual machine may be
/// stopped for a moment, and a busy one may lose samples: an incomplete window is repeated.
fn sampled(sampler: &mut Sampler, mut work: impl FnMut()) -> (CostProfile, Duration) {
    for _ in 0..10 {
        let began = Instant::now();
        sampler.start().unwrap();
        while began.elapsed() < WINDOW {
            work();
        }
        sampler.stop().unwrap();
        match sampler.profile(&no_directory) {
            Err(SamplingError::Incomplete(reason)) => eprintln!("once more: {reason}"),
            profile => return (profile.unwrap(), began.elapsed()),
        }
    }
    panic!("no window of ten was sampled whole");
}

fn spin() {
    for number in 0..100_000u64 {
        std::hint::black_box(number * number);
    }
}

#[test]
fn a_read_is_sampled_down_to_its_driver() {
    let Some((mut sampler, _alone)) = sampler() else { return };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("data");
    std::fs::write(&path, vec![7u8; 4 << 20]).unwrap();
    File::open(&path).unwrap().sync_all().unwrap();
    let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&path);
    let Ok(file) = file else {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "no O_DIRECT in {}", folder.path().display());
        return eprintln!("skipped: needs a file system with O_DIRECT");
    };
    let mut memory = vec![0u8; 2 * BLOCK];
    let at = memory.as_ptr().align_offset(BLOCK);
    let (mut offset, mut bytes) = (0, 0);
    let mut read = || {
        bytes += file.read_at(&mut memory[at..at + BLOCK], offset).unwrap();
        offset = (offset + 40_960) % (4 << 20);
    };
    let block_layer =
        |name: &str| name.starts_with("blk_") || name.starts_with("submit_bio") || name.contains("iomap");
    // Few reads reach a slow disk, so few samples fall on submitting them.
    let mut windows = (0..10).map(|_| sampled(&mut sampler, &mut read));
    let found =
        windows.find(|(profile, _)| profile.functions.iter().any(|function| block_layer(&function.function)));
    let (profile, window) = found.expect("a sample of the block layer in one of ten windows");
    assert!(bytes > 0);
    assert_eq!(profile.source, CostSource::Sampled(sampler.events().to_vec()));
    if profile.has(CostKind::CpuTime) {
        let total_ns = profile.total(Space::Kernel).cpu_ns + profile.total(Space::User).cpu_ns;
        // Every core is sampled, whatever this process may use.
        let cores = std::fs::read_dir("/sys/bus/cpu/devices").unwrap().count() as u128;
        assert!(total_ns > 0 && u128::from(total_ns) <= window.as_nanos() * cores * 12 / 10, "{total_ns}");
    }
}

/// An idle core has no ticks, and the kernel throttles one that takes too many samples between two.
#[test]
fn cores_that_idle_are_not_throttled() {
    let Some((mut sampler, _alone)) = sampler() else { return };
    let mut whole = 0;
    for _ in 0..10 {
        let began = Instant::now();
        sampler.start().unwrap();
        while began.elapsed() < 2 * WINDOW {
            spin();
        }
        sampler.stop().unwrap();
        match sampler.profile(&no_directory) {
            Err(SamplingError::Incomplete(reason)) => {
                assert!(!reason.to_string().contains("throttled"), "{reason}")
            }
            _ => whole += 1,
        }
        if whole == 6 {
            return;
        }
    }
    assert!(whole > 0, "no window of ten was whole");
}

#[test]
fn a_program_without_system_calls_is_user_space() {
    let Some((mut sampler, _alone)) = sampler() else { return };
    let spaces = |profile: &CostProfile| {
        [Space::User, Space::Kernel].map(|of| profile.total(of).get(profile.kinds[0]))
    };
    // On the whole machine others may be in the kernel longer than the program is in user space.
    let mut windows = (0..10).map(|_| sampled(&mut sampler, spin).0);
    let found = windows.find(|profile| matches!(spaces(profile), [user, kernel] if user > kernel));
    let profile = found.expect("more of user space than of the kernel in one of ten windows");
    assert_eq!(profile.functions.iter().filter(|function| function.space == Space::User).count(), 1);
}

#[test]
fn a_window_holds_nothing_of_the_one_before() {
    let Some((mut sampler, _alone)) = sampler() else { return };
    let (long, _) = sampled(&mut sampler, spin);
    let kind = long.kinds[0];
    // A stop of this thread between start and end makes a short window a long one, or loses its samples.
    let mut windows = (0..10).filter_map(|_| {
        spin();
        sampler.drain();
        sampler.start().unwrap();
        sampler.stop().unwrap();
        sampler.profile(&no_directory).ok()
    });
    assert!(windows.any(|short| long.total(Space::User).get(kind) > 10 * short.total(Space::User).get(kind)));
}
