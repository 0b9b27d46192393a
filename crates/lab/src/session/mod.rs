//! A study in a guest: what the guest is made of, what it runs, and what comes out of it.

mod guest;
mod mishap;

use crate::cache::Cache;
use crate::error::LabError;
use crate::image::{self, GuestFile, GuestSpec, Program};
use crate::kernels::Kernel;
use crate::profile::{self, DebugInfo, Plugin};
use crate::vm::{self, Accelerator, MachineSpec, RunFolder, VmError};
use iopj_probe::Symbols;
use iopj_store::Store;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use mishap::{Mishap, MishapKind};

/// The drive that a guest has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// An emulated NVMe drive with a poll queue for each processor; it answers at once.
    Nvme,
    /// A virtio-blk drive with a poll queue that answers after 100 us, on a thread of its own.
    Virtio,
    /// The kernel's null_blk with poll queues: no drive at all, the block layer alone.
    NullBlk,
}

impl Device {
    /// The device's word, as `--device` takes it.
    fn as_str(self) -> &'static str {
        match self {
            Device::Nvme => "nvme",
            Device::Virtio => "virtio",
            Device::NullBlk => "null_blk",
        }
    }
}

/// A guest to be.
#[derive(Clone, Debug)]
pub struct Guest<'a> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// The drive.
    pub device: Device,
    /// Virtual processors.
    pub vcpus: u32,
    /// Count every instruction, load and store. With one processor and null_blk the guest's clock advances by its
    /// instructions, so that the run repeats.
    pub exact: bool,
    /// A vmlinux with debug information, which tells the source directory of each function better than the table.
    pub vmlinux: Option<&'a Path>,
    /// The guest is ended after this time.
    pub time_limit: Duration,
    /// What befalls its drive.
    pub mishap: Option<Mishap>,
}

/// A study for a guest.
#[derive(Clone, Debug)]
pub struct GuestStudy<'a> {
    /// The study file's text.
    pub text: &'a str,
    /// The programs that it needs: `iopj`, `fio` where it is a generator, and those that the study names.
    pub programs: Vec<Program>,
    /// It may run the programs that it names.
    pub allow_exec: bool,
    /// Its target is the drive's passthrough node.
    pub passthrough: bool,
    /// Paths of it bypass the kernel, so that the drive is to be taken from its driver: the guest has an IOMMU and VFIO.
    pub bypass: bool,
    /// SPDK does it, which needs huge pages.
    pub spdk: bool,
    /// It writes to the drive.
    pub writes: bool,
}

/// What came of a study in a guest.
#[derive(Clone, Debug)]
pub struct Done {
    /// The exit status of `iopj run` in the guest.
    pub status: i32,
    /// From QEMU's start to the guest's.
    pub boot: Duration,
    /// From QEMU's start to its end.
    pub total: Duration,
    /// Trials whose costs were counted.
    pub counted: usize,
}

/// How often a study is begun whose guest trips over its own patched code ([`VmError::StaleCode`]).
const BEGUN: u32 = 3;
/// The kernel's last words, which are no news.
const POWER_DOWN: &str = "reboot: Power down";
/// What is said before a study begins again.
const AGAIN: &str =
    "lab: QEMU's translator ran code that the guest's kernel had patched (`Oops: int3`): the study begins again";
/// The store in the guest.
const GUEST_STORE: &str = "store.iopj";

impl Guest<'_> {
    /// Runs a study in the guest and puts its store at `store`. `line` is told what the guest prints. A guest that ends by
    /// [`VmError::StaleCode`] is made anew and begins the study again, three times in all: that is QEMU's doing, not the study's.
    ///
    /// # Errors
    /// [`LabError`]; then there is no store, and no process is left.
    pub fn run(
        &self,
        cache: &Cache,
        study: &GuestStudy<'_>,
        store: &Path,
        stop: &AtomicBool,
        line: &mut dyn FnMut(&str),
    ) -> Result<Done, LabError> {
        for _ in 1..BEGUN {
            match self.once(cache, study, store, stop, line) {
                Err(LabError::Vm(VmError::StaleCode { .. })) => line(AGAIN),
                done => return done,
            }
        }
        self.once(cache, study, store, stop, line)
    }

    /// Runs a study in one guest.
    fn once(
        &self,
        cache: &Cache,
        study: &GuestStudy<'_>,
        store: &Path,
        stop: &AtomicBool,
        line: &mut dyn FnMut(&str),
    ) -> Result<Done, LabError> {
        if store.exists() {
            return Err(LabError::StoreExists(store.to_owned()));
        }
        let folder = RunFolder::create(cache.folder())?;
        let counter = if self.exact { Some(Plugin::install(folder.path())?) } else { None };
        let machine = self.machine(cache, &folder, counter.as_ref(), Some(study))?;
        let guest = GuestSpec {
            programs: study.programs.clone(),
            modules: self.modules(study.bypass)?,
            files: vec![GuestFile {
                path: "lab/study.toml".to_owned(),
                content: study.text.as_bytes().to_vec(),
                mode: 0o644,
            }],
            script: self.script(study),
        };
        image::build(&guest, &self.kernel.modules, &self.kernel.release, &machine.initramfs)?;
        let out = folder.path().join("out");
        fs::create_dir(&out).map_err(LabError::at(&out))?;
        let mut mishap = self.mishap.clone();
        let ended = vm::run(&machine, &folder, &out, stop, &mut |text| {
            if !text.contains(POWER_DOWN) {
                line(text);
            }
            mishap::befall(&mut mishap, text, &folder);
        })?;
        let made = out.join(GUEST_STORE);
        if !made.exists() {
            return Err(LabError::NoStore { status: ended.status });
        }
        let counted = self.complete(&made, &out, &machine, counter.as_ref())?;
        publish(&made, store)?;
        Ok(Done { status: ended.status, boot: ended.boot, total: ended.total, counted })
    }

    /// Adds to the guest's store what only the host knows: the machine, and what its plugin has counted.
    fn complete(
        &self,
        made: &Path,
        out: &Path,
        machine: &MachineSpec,
        counter: Option<&Plugin>,
    ) -> Result<usize, LabError> {
        let mut store = Store::open_for_run(made)?;
        let detail = json!({
            "kernel": self.kernel.release,
            "qemu": vm::qemu_version()?,
            "accelerator": match &machine.accelerator {
                Accelerator::Kvm => "kvm",
                Accelerator::Tcg { icount: false, .. } => "tcg",
                Accelerator::Tcg { icount: true, .. } => "tcg, clock bound to instructions",
            },
            "vcpus": self.vcpus,
            "device": self.device.as_str(),
            "exact": self.exact,
        });
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        store.add_event(now.as_nanos() as u64, "lab", &detail.to_string())?;
        let Some(counter) = counter else { return Ok(0) };
        let text = fs::read_to_string(out.join("kallsyms")).map_err(LabError::at(&out.join("kallsyms")))?;
        let symbols = Symbols::parse(&text).map_err(profile::ProfileError::from)?;
        let debug = self.vmlinux.map(|vmlinux| DebugInfo::open(vmlinux, &symbols)).transpose()?;
        let directory = |function: &str, module: Option<&str>| {
            iopj_probe::sources::directory(&self.kernel.release, function, module).map(str::to_owned)
        };
        let mut counted = 0;
        for (position, profile) in profile::profiles(&counter.windows()?, &symbols, &directory, debug.as_ref()) {
            counted += usize::from(store.add_costs(u64::from(position), &profile)?);
        }
        Ok(counted)
    }

    /// Boots the guest with its console on the user's terminal, `iopj` on the path.
    ///
    /// # Errors
    /// [`LabError`].
    pub fn shell(&self, cache: &Cache, programs: Vec<Program>, stop: &AtomicBool) -> Result<(), LabError> {
        let folder = RunFolder::create(cache.folder())?;
        let machine = self.machine(cache, &folder, None, None)?;
        let script = format!("cd /root; echo 'iopj is on the path; leave with `exit`'; {}", image::SHELL);
        let modules = self.modules(false)?;
        let guest = GuestSpec { programs, modules, files: Vec::new(), script };
        image::build(&guest, &self.kernel.modules, &self.kernel.release, &machine.initramfs)?;
        Ok(vm::interact(&machine, &folder, stop)?)
    }
}

/// Moves the store to its place, whole, and over nothing.
fn publish(made: &Path, store: &Path) -> Result<(), LabError> {
    let mut beside: PathBuf = store.to_owned();
    beside.as_mut_os_string().push(format!(".{}.new", std::process::id()));
    let placed = fs::copy(made, &beside)
        .and_then(|_| fs::File::open(&beside)?.sync_all())
        .and_then(|()| fs::hard_link(&beside, store));
    let _ = fs::remove_file(&beside);
    placed.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => LabError::StoreExists(store.to_owned()),
        _ => LabError::at(store)(error),
    })
}
