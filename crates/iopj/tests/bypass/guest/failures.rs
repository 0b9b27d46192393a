//! Drives that fail while they are driven from user space: the engine's errors, and that they can be opened
//! again.

use super::drive::Drive;
use iopj_engine::nvme_user::{Controller, FeatureValue, PriorState};
use iopj_engine::{DynEngine, Engine, EngineError, IoError, Pool, Request, Target};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An unrecovered read error of the medium (NVM Command Set Specification, status type 2, code 81h).
const MEDIUM_ERROR: IoError = IoError::Nvme(0x281);

/// An engine with one buffer.
struct Reader {
    engine: Box<dyn DynEngine>,
    pool: Pool,
}

fn engine(controller: &Arc<Controller>, path: &str) -> Result<Reader, String> {
    let target = Target::open_bypass(Path::new("/dev/nvme"), controller, 1, false).unwrap();
    let pool = Pool::new(1, 4096).unwrap();
    let engine = iopj_engine::open(path.parse().unwrap(), &target, &pool, 1);
    engine.map(|engine| Reader { engine, pool }).map_err(|error| error.to_string())
}

/// The taken drive of this number, its controller, and an engine that has read from it.
fn reading(number: usize, path: &str) -> (Drive, Arc<Controller>, Reader) {
    let mut drive = Drive::of_machine(number);
    drive.take();
    let controller = drive.open("type1");
    let mut engine = engine(&controller, path).unwrap();
    assert_eq!(read(&mut engine, 0), Ok(Ok(4096)));
    (drive, controller, engine)
}

/// Opens a drive again, reads from it, and gives it back.
fn reads_again(mut drive: Drive) {
    let again = drive.open("type1");
    assert_eq!(read(&mut engine(&again, "nvme-user/doorbell/poll").unwrap(), 0), Ok(Ok(4096)));
    drop(again);
    drive.give_back();
}

/// Prints a separate line on the console, for the host.
fn tell_host(word: &str) {
    eprintln!("\n{word}");
}

/// Reads 4 KiB: the result, or why the engine is finished.
fn read(Reader { engine, pool }: &mut Reader, offset: u64) -> Result<Result<u32, IoError>, String> {
    let buffer = pool.acquire().unwrap();
    let io = || {
        engine.push(Request::read(buffer, 4096, offset))?;
        let mut result = None;
        while result.is_none() {
            engine.wait(1, None, |completion| result = Some(completion.result))?;
        }
        Ok::<_, EngineError>(result.unwrap())
    };
    io().map_err(|error| error.to_string())
}

/// Reads until one fails, for at most two minutes: the host causes the fault, and may be slow.
fn first_that_fails(engine: &mut Reader) -> Result<Result<u32, IoError>, String> {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(120) {
        match read(engine, 0) {
            Ok(Ok(len)) => assert_eq!(len, 4096),
            other => return other,
        }
    }
    panic!("nothing failed");
}

/// Reads until something fails: the I/O's error, if it had one, and what the engine says to the next one.
fn until_it_fails(engine: &mut Reader) -> (Option<IoError>, String) {
    match first_that_fails(engine) {
        Ok(done) => (done.err(), read(engine, 0).unwrap_err()),
        Err(finished) => (None, finished),
    }
}

#[test]
#[ignore = "runs in a guest that `failures` boots"]
fn a_bad_sector_fails_alone_and_pairs_are_counted() {
    let mut drive = Drive::of_machine(0);
    drive.take();
    let controller = drive.open("type1");
    for path in ["nvme-user/doorbell/poll", "nvme-user/doorbell/interrupt"] {
        let mut engine = engine(&controller, path).unwrap();
        assert_eq!(read(&mut engine, 0), Ok(Ok(4096)));
        assert_eq!(read(&mut engine, 1 << 20), Ok(Err(MEDIUM_ERROR)));
        assert_eq!(read(&mut engine, 8192), Ok(Ok(4096)));
    }
    let open = || engine(&controller, "nvme-user/doorbell/poll");
    let both = [open().unwrap(), open().unwrap()];
    let refused = open().err().unwrap();
    assert!(refused.contains("grants 2 I/O queue pairs and all are in use: lower numjobs to 2"), "{refused}");
    drop(both);
    assert_eq!(read(&mut open().unwrap(), 0), Ok(Ok(4096)));
    drop(controller);
    drive.give_back();
}

/// QEMU's drive lets its write cache be switched off, and refuses to hold back interrupts (Feature Not
/// Changeable).
#[test]
#[ignore = "runs in a guest that `failures` boots"]
fn features_are_set_as_before_and_a_refusal_is_reported() {
    let mut drive = Drive::of_machine(0);
    drive.take();
    let feature = |name, id, value| FeatureValue { name, id, value, mask: u32::MAX };
    let features =
        vec![feature("volatile write cache", 0x06, 0), feature("interrupt coalescing", 0x08, 0x104)];
    let controller = drive.open_with("type1", &PriorState { features, ..PriorState::default() });
    let features: Vec<_> = controller.identity().features.iter().map(ToString::to_string).collect();
    let refused = "0x0, 0x104 under the kernel: it refuses that (NVMe status 0x10e)";
    assert_eq!(features, ["0x0 as under the kernel", refused]);
    assert_eq!(read(&mut engine(&controller, "nvme-user/doorbell/poll").unwrap(), 0), Ok(Ok(4096)));
    drop(controller);
    drive.give_back();
}

#[test]
#[ignore = "runs in a guest that `failures` boots"]
fn a_command_that_never_ends_is_given_up_and_the_drive_reset() {
    let (drive, controller, mut engine) = reading(1, "nvme-user/doorbell/interrupt");
    tell_host("stall");
    let (error, finished) = until_it_fails(&mut engine);
    // QEMU completes the stalled I/O when the controller is reset: it may still come, too late to be of use.
    assert!(error.is_none_or(|error| error == IoError::Os(libc::ETIMEDOUT)), "{error:?}");
    assert!(finished.contains("a command did not come back"), "{finished}");
    let refused = self::engine(&controller, "nvme-user/doorbell/poll").err().unwrap();
    assert!(refused.contains("a command did not come back"), "{refused}");
    drop((engine, controller));
    tell_host("resume");
    reads_again(drive);
}

#[test]
#[ignore = "runs in a guest that `failures` boots"]
fn a_controller_that_reports_its_failure_can_be_opened_again() {
    let (drive, controller, mut engine) = reading(2, "nvme-user/doorbell/poll");
    // Without access to memory it cannot fetch a command, and says so (CSTS.CFS): the command register of
    // PCI, bit 2.
    let config = OpenOptions::new().write(true).open(drive.folder().join("config")).unwrap();
    config.write_all_at(&[0b10], 4).unwrap();
    let (error, finished) = until_it_fails(&mut engine);
    assert_eq!(error, Some(IoError::Os(libc::EIO)));
    assert!(finished.contains("reported a fatal error of its own (CSTS.CFS)"), "{finished}");
    drop((engine, controller));
    reads_again(drive);
}

#[test]
#[ignore = "runs in a guest that `failures` boots"]
fn a_drive_that_is_pulled_is_let_go() {
    let (drive, controller, mut engine) = reading(3, "nvme-user/doorbell/poll");
    tell_host("pull");
    // Either may be seen first: the kernel's request to release it, or its absence.
    let (_, finished) = until_it_fails(&mut engine);
    assert!(finished.contains("asks for") || finished.contains("no longer answers"), "{finished}");
    drop((engine, controller));
    let is_gone = |_| {
        std::thread::sleep(Duration::from_millis(50));
        !drive.folder().exists()
    };
    assert!((0..1200).any(is_gone), "the device is still there");
}
