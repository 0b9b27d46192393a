//! What the suite runs on: a written file, a loop device, or no device.

use iopj_engine::check::{Availability, check};
use iopj_engine::sim::{Sim, SimOptions};
use iopj_engine::target::{WritePermission, make_file};
use iopj_engine::{DynEngine, EngineError, Pool, Target};
use iopj_path::IoPath;
use iopj_path::path::{AioDescriptors, Ring, RingSubmission};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

const DATA_LEN: u64 = 1 << 20;

/// A target with known contents.
pub(crate) struct TestTarget {
    opened: Target,
    contents: Vec<u8>,
    file: Option<PathBuf>,
    _folder: tempfile::TempDir,
    device: Option<LoopDevice>,
}

/// An engine to be tested: a path on a target, or the simulated one.
pub(crate) struct Subject {
    pub(crate) name: String,
    pub(crate) path: Option<IoPath>,
    target: Rc<TestTarget>,
    opens: Opens,
}

/// Opens an engine on a target, with a pool and a depth.
pub(crate) type Opens = Rc<dyn Fn(&Target, &Pool, u32) -> Result<Box<dyn DynEngine>, EngineError>>;

impl Subject {
    /// Another engine on the target of this one.
    #[allow(dead_code, reason = "the adaptive engine's tests need it")]
    pub(crate) fn alike(&self, name: String, path: IoPath, opens: Opens) -> Subject {
        Subject { name, path: Some(path), target: Rc::clone(&self.target), opens }
    }

    pub(crate) fn open(&self, pool: &Pool, iodepth: u32) -> Box<dyn DynEngine> {
        self.open_on(&self.target.opened, pool, iodepth)
    }

    pub(crate) fn open_on(&self, target: &Target, pool: &Pool, iodepth: u32) -> Box<dyn DynEngine> {
        (self.opens)(target, pool, iodepth).unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    pub(crate) fn depth(&self, most: u32) -> u32 {
        if self.path.is_some_and(|path| path.is_synchronous()) { 1 } else { most }
    }

    pub(crate) fn blocks(&self) -> u64 {
        self.target.opened.data_len() / 4096
    }

    pub(crate) fn offset(&self, block: u64) -> u64 {
        self.target.opened.data_offset() + block * 4096
    }

    pub(crate) fn end(&self) -> u64 {
        self.target.opened.data_offset() + self.target.opened.data_len()
    }

    pub(crate) fn is_file(&self) -> bool {
        self.target.file.is_some()
    }

    pub(crate) fn expected(&self, block: u64) -> &[u8] {
        let start = self.offset(block) as usize;
        &self.target.contents[start..start + 4096]
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target.opened
    }

    /// The simulated engine moves no data, so only some of the tests mean anything for it.
    pub(crate) fn sim_can(&self, test: &str) -> bool {
        ![
            "reads_the_bytes_of_its_offset",
            "short_requests_say_so",
            "several_engines_share_one_pool",
            "vectored_requests_move_all_their_buffers",
            "rare_operations_are_done_or_refused",
            "a_write_that_was_only_pushed_does_not_happen",
            "writes_reach_the_target",
            "durable_writes_reach_the_target",
            "durable_writes_flush_the_cache_of_a_device",
        ]
        .contains(&test)
    }

    /// The target opened again for writing, if it is a file that iopj made.
    pub(crate) fn writable(&self) -> Option<Target> {
        let (file, id) = (self.target.file.as_ref()?, self.target.opened.file_id()?);
        Some(Target::open_for_writing(file, WritePermission::OwnFile { id }).unwrap())
    }

    /// The target opened again for writing, if it is a device.
    pub(crate) fn writable_device(&self) -> Option<Target> {
        let device = Path::new(&self.target.device.as_ref()?.0);
        let permission = WritePermission::DestroyData { device, i_know: false };
        Some(Target::open_for_writing(device, permission).unwrap())
    }

    /// How many flushes the device has done (Documentation/block/stat.rst).
    pub(crate) fn flushes(&self) -> u64 {
        let name = self.target.device.as_ref().unwrap().0.replace("/dev/", "");
        let stat = std::fs::read_to_string(format!("/sys/block/{name}/stat")).unwrap();
        stat.split_whitespace().nth(15).unwrap().parse().unwrap()
    }

    pub(crate) fn contents(&self) -> Vec<u8> {
        std::fs::read(self.target.file.as_ref().unwrap()).unwrap()
    }

    pub(crate) fn put_back(&self) {
        use std::io::Write;
        let mut file =
            std::fs::OpenOptions::new().write(true).open(self.target.file.as_ref().unwrap()).unwrap();
        file.write_all(&self.target.contents).unwrap();
        file.sync_all().unwrap();
    }
}

/// A loop device, detached when dropped.
struct LoopDevice(String);

impl LoopDevice {
    fn over(file: &Path) -> Option<LoopDevice> {
        let out =
            Command::new("losetup").args(["--find", "--show", "--direct-io=on"]).arg(file).output().ok()?;
        out.status.success().then(|| LoopDevice(String::from_utf8(out.stdout).unwrap().trim().to_owned()))
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

fn folder() -> tempfile::TempDir {
    // Not the system's temporary folder, which may lie in memory.
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn on_file() -> TestTarget {
    let folder = folder();
    let path = folder.path().join("data");
    make_file(&path, DATA_LEN, &mut |_| true).unwrap();
    TestTarget {
        opened: Target::open(&path).unwrap(),
        contents: std::fs::read(&path).unwrap(),
        file: Some(path),
        _folder: folder,
        device: None,
    }
}

fn on_loop_device() -> Option<TestTarget> {
    let folder = folder();
    let path = folder.path().join("backing");
    make_file(&path, DATA_LEN, &mut |_| true).unwrap();
    let device = LoopDevice::over(&path)?;
    Some(TestTarget {
        opened: Target::open(Path::new(&device.0)).unwrap(),
        contents: std::fs::read(&path).unwrap(),
        file: None,
        _folder: folder,
        device: Some(device),
    })
}

/// Every path, and the variants of each, on a file; the plain paths on the other targets.
fn paths(variants: bool) -> Vec<IoPath> {
    let mut paths = IoPath::all();
    if variants {
        paths.push(IoPath::PosixAio(AioDescriptors::PerSlot));
        for ring in Ring::all() {
            let second = match ring.submission {
                RingSubmission::Syscall { .. } => RingSubmission::Syscall { split: true },
                RingSubmission::Sqpoll { .. } => RingSubmission::Sqpoll { kernel_wait: true },
            };
            paths.push(IoPath::IoUring(Ring { registered: true, ..ring }));
            paths.push(IoPath::IoUring(Ring { submission: second, ..ring }));
        }
    }
    paths
}

pub(crate) fn subjects() -> Vec<Subject> {
    let file = Rc::new(on_file());
    let mut targets = vec![("file", Rc::clone(&file))];
    match on_loop_device() {
        Some(target) => targets.push(("loop device", Rc::new(target))),
        None => {
            assert!(std::env::var_os("CI").is_none(), "a loop device needs root and losetup (package mount)")
        }
    }
    let options = SimOptions { seed: 1, latency_steps: 5, ..SimOptions::default() };
    let simulated: Opens = Rc::new(move |_, pool, iodepth| Ok(Box::new(Sim::open(pool, iodepth, options))));
    let mut subjects = vec![Subject { name: "sim".to_owned(), path: None, target: file, opens: simulated }];
    for (number, (kind, target)) in targets.iter().enumerate() {
        for path in paths(number == 0) {
            match check(path, &target.opened) {
                Availability::Available { .. } => {
                    subjects.push(Subject {
                        name: format!("{path} on a {kind}"),
                        path: Some(path),
                        target: Rc::clone(target),
                        opens: Rc::new(move |target, pool, iodepth| {
                            iopj_engine::open(path, target, pool, iodepth)
                        }),
                    });
                }
                Availability::Unavailable { reason, .. } => {
                    eprintln!("not here: {path} on a {kind}: {reason}")
                }
            }
        }
    }
    subjects
}
