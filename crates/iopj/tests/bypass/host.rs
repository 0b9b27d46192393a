//! The host's side: a guest with drives that can be taken, faults of the drives, and the guest's results.

use crate::common::{Alone, TestFolder, alone_with_guests, folder, have, iopj_of_guests, kernel};
use iopj_lab::Arch;
use iopj_lab::cache::Cache;
use iopj_lab::image::{self, GuestSpec, ModuleWish, Program};
use iopj_lab::kernels::{self, Kernel};
use iopj_lab::session::HOLD_COUNTERS;
use iopj_lab::vm::{self, Accelerator, Backend, Drive, MachineSpec, Nvme, Qmp, RunFolder, VmError};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The description of a guest: its drives and modules.
pub(crate) struct Bench {
    _alone: Alone,
    cache: Cache,
    kernel: Kernel,
    /// On a disk; the files behind drives go there.
    pub(crate) folder: TestFolder,
    pub(crate) drives: Vec<Drive>,
    pub(crate) iommu: bool,
    /// Options of the NVMe driver.
    pub(crate) nvme_options: Vec<String>,
    /// Modules beside those of NVMe and VFIO.
    pub(crate) modules: Vec<&'static str>,
    /// Programs of this machine.
    pub(crate) programs: Vec<&'static str>,
}

/// A guest's results.
pub(crate) struct Left {
    /// The exit status of its script.
    pub(crate) status: i32,
    /// What it printed.
    pub(crate) printed: String,
    out: PathBuf,
}

impl Left {
    /// Whether it left something under this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.out.join(name).exists()
    }

    /// The path of what it left under this name.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.out.join(name)
    }

    /// What it left under this name.
    #[track_caller]
    pub(crate) fn text(&self, name: &str) -> String {
        let path = self.out.join(name);
        let text = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{name}: {error}\n{}", self.printed));
        text.trim().to_owned()
    }
}

impl Bench {
    /// A guest with the newest kernel of this series; `None`, with the reason on stderr, if there can be no
    /// guest.
    pub(crate) fn new(series: &str) -> Option<Bench> {
        let missing = iopj_lab::missing_tools(Arch::HOST);
        if !have(missing.is_empty(), &format!("{missing:?}")) {
            return None;
        }
        Some(Bench::with(kernel(series)?, alone_with_guests()))
    }

    /// A guest with the kernel that the tester names.
    pub(crate) fn with_own_kernel() -> Bench {
        let named = |name| {
            std::env::var_os(name).unwrap_or_else(|| panic!("{name} names no file: see CONTRIBUTING.md"))
        };
        let [image, modules] = ["IOPJ_LAB_KERNEL", "IOPJ_LAB_MODULES"].map(|name| PathBuf::from(named(name)));
        let alone = alone_with_guests();
        let kernel = kernels::from_files(&Cache::open().unwrap(), &image, &modules).unwrap();
        Bench::with(kernel, alone)
    }

    fn with(kernel: Kernel, alone: Alone) -> Bench {
        let cache = Cache::open().unwrap();
        Bench {
            _alone: alone,
            cache,
            kernel,
            folder: folder(),
            drives: Vec::new(),
            iommu: true,
            nvme_options: Vec::new(),
            modules: Vec::new(),
            programs: Vec::new(),
        }
    }

    /// Adds a drive over a file of this name in the bench's folder.
    pub(crate) fn file_drive(&mut self, name: &str, max_ioqpairs: u32, block_bytes: u32) -> PathBuf {
        let path = self.folder.join(name);
        let backend = Backend::File { path: path.clone() };
        self.drives.push(Drive::Nvme(Nvme { block_bytes, ..Nvme::new(max_ioqpairs, backend) }));
        path
    }

    /// Runs a script in the guest, with `iopj` and this test binary, as `tests`, on the path. `on_line` gets
    /// each line of the console, and may change the machine while its script runs.
    pub(crate) fn run(&self, script: &str, mut on_line: impl FnMut(&str, &RunFolder)) -> Left {
        let run = RunFolder::create(self.cache.folder()).unwrap();
        let machine = self.machine(&run);
        let iopj = Program { name: "iopj".to_owned(), host: iopj_of_guests() };
        let mut programs = vec![iopj, Program::running("tests")];
        programs.extend(self.programs.iter().map(|name| Program::named(name).unwrap()));
        let mut modules = vec!["vfio_iommu_type1", "vfio-pci"];
        modules.extend(&self.modules);
        let nvme = ModuleWish { name: "nvme".to_owned(), options: self.nvme_options.clone() };
        let others = modules.into_iter().map(ModuleWish::plain);
        let guest = GuestSpec {
            programs,
            modules: std::iter::once(nvme).chain(others).collect(),
            files: Vec::new(),
            script: format!("{}{HOLD_COUNTERS}{script}", include_str!("guest.sh")),
            ..GuestSpec::default()
        };
        image::build(&guest, &self.kernel.modules, &self.kernel.release, &machine.initramfs).unwrap();
        let out = self.folder.join("out");
        let _ = std::fs::remove_dir_all(&out);
        std::fs::create_dir(&out).unwrap();
        let mut boot = || {
            let mut printed = String::new();
            let ended = vm::run(&machine, &run, &out, &AtomicBool::new(false), &mut |line| {
                printed += line;
                printed.push('\n');
                on_line(line, &run);
            });
            (ended, printed)
        };
        let (mut ended, mut printed) = boot();
        // The kernel patches itself when a driver comes or goes, which is unrelated to the drive.
        for _ in 0..3 {
            if matches!(ended, Err(VmError::Mistranslated(_))) {
                eprintln!("once more, after QEMU translated code wrongly:\n{printed}");
                (ended, printed) = boot();
            }
        }
        let ended = ended.unwrap_or_else(|error| panic!("{error}\n{printed}"));
        eprintln!("{}: up after {:.1?}, off after {:.1?}", self.kernel.release, ended.boot, ended.total);
        Left { status: ended.status, printed, out }
    }

    fn machine(&self, run: &RunFolder) -> MachineSpec {
        MachineSpec {
            arch: Arch::HOST,
            kernel: self.kernel.image.clone(),
            initramfs: run.path().join("initramfs"),
            accelerator: Accelerator::Tcg { icount: false, plugin: None },
            vcpus: 2,
            memory_mib: 2048,
            drives: self.drives.clone(),
            kernel_arguments: vec!["tsc=reliable".to_owned()],
            iommu: self.iommu,
            wire: None,
            boot_limit: vm::BOOT_LIMIT,
            time_limit: Duration::from_secs(900),
        }
    }
}

/// The machine's control socket.
pub(crate) fn qmp(run: &RunFolder) -> Qmp {
    Qmp::connect(run).unwrap()
}
