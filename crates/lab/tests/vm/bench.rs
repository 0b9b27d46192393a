//! A machine to try things on, with a kernel of the user's cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use iopj_lab::Arch;
use iopj_lab::image::{GuestSpec, ModuleWish, build};
use iopj_lab::vm::{
    Accelerator, BOOT_LIMIT, Backend, Drive, Ended, MachineSpec, Nvme, Qmp, RunFolder, VmError,
    missing_tools, run,
};

/// Machines run one after another: two would starve each other.
static TURN: Mutex<()> = Mutex::new(());

/// A kernel of the cache.
pub(crate) struct Kernel {
    pub(crate) release: String,
    pub(crate) image: PathBuf,
    modules: PathBuf,
}

/// The folder of the cached kernels.
fn kernels() -> PathBuf {
    let cache = match std::env::var_os("XDG_CACHE_HOME") {
        Some(cache) => PathBuf::from(cache),
        None => PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache"),
    };
    cache.join("iopj/lab/kernels")
}

/// The releases of the cached kernels.
fn releases() -> Vec<String> {
    let entries = fs::read_dir(kernels()).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
}

/// The oldest cached series from 7.2 on, which `cargo xtask test` fetches; 7.2 if there is none.
pub(crate) fn new_series() -> String {
    let numbers = |release: String| {
        let mut levels = release.split('.').map(|level| level.parse::<u32>().ok());
        Some((levels.next()??, levels.next()??))
    };
    let oldest = releases().into_iter().filter_map(numbers).filter(|&series| series >= (7, 2)).min();
    let (major, minor) = oldest.unwrap_or((7, 2));
    format!("{major}.{minor}")
}

/// The cached kernel of this series; `None`, with the reason on stderr, if this test cannot run.
pub(crate) fn kernel(series: &str) -> Option<Kernel> {
    let release = releases().into_iter().filter(|name| name.starts_with(&format!("{series}."))).max();
    match release {
        Some(release) if missing_tools(Arch::HOST).is_empty() => {
            let folder = kernels().join(&release);
            let modules = folder.join("lib/modules").join(&release);
            Some(Kernel { image: folder.join("vmlinux"), modules, release })
        }
        _ => skipped(&format!("QEMU, a static busybox and kernel {series} (iopj lab kernels {series})")),
    }
}

pub(crate) fn skipped<T>(needs: &str) -> Option<T> {
    assert!(std::env::var_os("CI").is_none(), "needs {needs}");
    eprintln!("skipped: needs {needs}");
    None
}

/// A drive of 1 GiB without content.
pub(crate) fn null() -> Backend {
    Backend::Null { size_bytes: 1 << 30, latency_ns: 0 }
}

pub(crate) fn nvme(backend: Backend) -> Drive {
    Drive::Nvme(Nvme::new(8, backend))
}

pub(crate) fn virtio(backend: Backend) -> Drive {
    Drive::VirtioBlk { queues: 1, host_poll_ns: 0, backend }
}

/// A guest with the drivers of both kinds of drive.
pub(crate) fn guest(script: &str) -> GuestSpec {
    let nvme = ModuleWish { name: "nvme".into(), options: vec!["poll_queues=2".into()] };
    GuestSpec {
        modules: vec![nvme, ModuleWish::plain("virtio_blk")],
        script: script.into(),
        ..GuestSpec::default()
    }
}

/// A machine in its folder, and the folder that takes what it hands out.
pub(crate) struct Bench {
    pub(crate) folder: RunFolder,
    pub(crate) machine: MachineSpec,
    pub(crate) out: PathBuf,
    _cache: tempfile::TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Bench {
    /// A machine with 5.10, this script and this drive.
    pub(crate) fn old(script: &str, drive: Drive) -> Option<Bench> {
        let mut bench = Bench::new(&kernel("5.10")?, &guest(script));
        bench.machine.drives = vec![drive];
        Some(bench)
    }

    pub(crate) fn new(kernel: &Kernel, guest: &GuestSpec) -> Bench {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let cache = tempfile::tempdir().unwrap();
        let out = cache.path().join("out");
        fs::create_dir(&out).unwrap();
        let folder = RunFolder::create(cache.path()).unwrap();
        let initramfs = folder.path().join("initramfs");
        build(guest, &kernel.modules, &kernel.release, &initramfs).unwrap();
        let machine = MachineSpec {
            arch: Arch::HOST,
            kernel: kernel.image.clone(),
            initramfs,
            accelerator: Accelerator::Tcg { icount: false, plugin: None },
            vcpus: 2,
            memory_mib: 1024,
            drives: vec![nvme(null())],
            kernel_arguments: Vec::new(),
            iommu: false,
            wire: None,
            boot_limit: BOOT_LIMIT,
            time_limit: Duration::from_secs(600),
        };
        Bench { folder, machine, out, _cache: cache, _turn: turn }
    }

    pub(crate) fn run(&self, line: &mut dyn FnMut(&str)) -> Result<Ended, VmError> {
        run(&self.machine, &self.folder, &self.out, &AtomicBool::new(false), line)
    }

    /// Runs the guest; when it prints `now`, calls this on the machine.
    pub(crate) fn run_and(&self, mut act: impl FnMut(&mut Qmp)) -> Result<Ended, VmError> {
        let mut acted = false;
        let ended = self.run(&mut |line| {
            if line == "now" {
                act(&mut Qmp::connect(&self.folder).unwrap());
                acted = true;
            }
        });
        assert!(acted, "{ended:?}");
        ended
    }

    /// What the guest left under this name.
    pub(crate) fn left(&self, name: &str) -> String {
        fs::read_to_string(self.out.join(name)).unwrap().trim().to_owned()
    }

    /// The process that ran the machine has ended.
    pub(crate) fn assert_gone(&self) {
        let pid = machine_pid(self.folder.path()).unwrap();
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }
}

/// The process of the machine that runs in this folder.
pub(crate) fn machine_pid(folder: &Path) -> Option<u32> {
    fs::read_to_string(folder.join("machine")).ok()?.split(' ').next()?.parse().ok()
}
