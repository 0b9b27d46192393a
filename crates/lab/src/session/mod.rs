//! Studies in a guest: what the guest is made of, what it runs, and what comes out of it.

mod guest;
mod mishap;

use crate::cache::Cache;
use crate::error::LabError;
use crate::image::{self, GuestSpec, Program};
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

pub use guest::HOLD_COUNTERS;
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
    /// Count every instruction, load and store. With one processor and null_blk the guest's clock advances by
    /// its instructions, so that the run repeats.
    pub exact: bool,
    /// A vmlinux with debug information, which tells the source directory of each function better than the
    /// table.
    pub vmlinux: Option<&'a Path>,
    /// The guest is ended after this time.
    pub time_limit: Duration,
    /// What befalls its drive.
    pub mishap: Option<Mishap>,
}

/// A study for a guest.
#[derive(Clone, Debug)]
pub struct GuestStudy<'a> {
    /// Its name.
    pub name: String,
    /// Where its store comes to lie.
    pub store: PathBuf,
    /// The study file's text.
    pub text: &'a str,
    /// The programs that it needs: `iopj`, `fio` where it is a generator, and those that the study names.
    pub programs: Vec<Program>,
    /// It may run the programs that it names.
    pub allow_exec: bool,
    /// Its target is the drive's passthrough node.
    pub passthrough: bool,
    /// Paths of it bypass the kernel, so that the drive is to be taken from its driver: the guest has an
    /// IOMMU and VFIO.
    pub bypass: bool,
    /// SPDK does it, which needs huge pages.
    pub spdk: bool,
    /// It writes to the drive.
    pub writes: bool,
}

/// What came of the studies in a guest.
#[derive(Debug)]
pub struct Done {
    /// Of each study, in their order.
    pub studies: Vec<Result<StudyDone, LabError>>,
    /// From QEMU's start to the guest's.
    pub boot: Duration,
    /// From QEMU's start to its end.
    pub total: Duration,
}

/// What came of a study that has left a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StudyDone {
    /// The exit status of `iopj run` in the guest.
    pub status: i32,
    /// Trials whose costs were counted.
    pub counted: usize,
}

/// How often a study is begun whose guest trips over its own patched code ([`VmError::StaleCode`]).
const BEGUN: u32 = 4;
/// The kernel's last words, which are no news.
const POWER_DOWN: &str = "reboot: Power down";
/// What is said before the studies begin again.
const AGAIN: &str = "lab: QEMU's translator ran code that the guest's kernel had patched (`Oops: int3`): \
                     what the guest runs begins again";

/// A study's file in the guest.
fn study_file(number: usize) -> String {
    format!("lab/study-{number}.toml")
}

/// A study's store in the guest, and in what it hands out.
fn store_file(number: usize) -> String {
    format!("study-{number}.iopj")
}

/// The file that tells the status of a study's run.
fn status_file(number: usize) -> String {
    format!("status-{number}")
}

/// Whether these studies can run in one boot, each as it would by itself, and their stores have free places.
///
/// # Errors
/// [`LabError`], with the study or the store that is in the way.
pub fn check(studies: &[GuestStudy<'_>], exact: bool) -> Result<(), LabError> {
    // Windows of the profiler tell their trial's place, and no study.
    if exact && studies.len() > 1 {
        return Err(LabError::ExactOfSeveral);
    }
    for (place, study) in studies.iter().enumerate() {
        if studies[..place].iter().any(|before| before.store == study.store) {
            return Err(LabError::SameStore(study.store.clone()));
        }
        if study.store.exists() {
            return Err(LabError::StoreExists(study.store.clone()));
        }
    }
    one_guest(studies, |study| study.bypass, "an IOMMU in the guest, for it bypasses the kernel")?;
    one_guest(studies, |study| study.spdk, "huge pages in the guest, for SPDK")
}

/// Refuses a study that needs what another would have to be measured with.
fn one_guest(
    studies: &[GuestStudy<'_>],
    needs: impl Fn(&GuestStudy<'_>) -> bool,
    what: &'static str,
) -> Result<(), LabError> {
    let first = |needed: bool| studies.iter().find(|study| needs(study) == needed);
    match (first(true), first(false)) {
        (Some(study), Some(other)) => {
            Err(LabError::OtherGuest { study: study.name.clone(), what, other: other.name.clone() })
        }
        _ => Ok(()),
    }
}

impl Guest<'_> {
    /// Runs studies in the guest, one after the other, and puts each store at its place. `line` is told what
    /// the guest prints. A guest that ends by [`VmError::StaleCode`] is made anew and begins the first study
    /// again, four times in all: that is QEMU's doing, not the studies'.
    ///
    /// # Errors
    /// [`LabError`]: the studies cannot run in one boot, or the guest did not start or end well; then there is no store. No process is
    /// left.
    pub fn run(
        &self,
        cache: &Cache,
        studies: &[GuestStudy<'_>],
        stop: &AtomicBool,
        line: &mut dyn FnMut(&str),
    ) -> Result<Done, LabError> {
        for _ in 1..BEGUN {
            match self.once(cache, studies, stop, line) {
                Err(LabError::Vm(VmError::StaleCode { .. })) => line(AGAIN),
                done => return done,
            }
        }
        self.once(cache, studies, stop, line)
    }

    /// Runs studies in one guest.
    fn once(
        &self,
        cache: &Cache,
        studies: &[GuestStudy<'_>],
        stop: &AtomicBool,
        line: &mut dyn FnMut(&str),
    ) -> Result<Done, LabError> {
        check(studies, self.exact)?;
        let folder = RunFolder::create(cache.folder())?;
        let counter = if self.exact { Some(Plugin::install(folder.path())?) } else { None };
        let machine = self.machine(cache, &folder, counter.as_ref(), studies)?;
        let guest = self.guest(studies, &machine.accelerator)?;
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
        let bring = |(number, study): (usize, &GuestStudy<'_>)| {
            let told = fs::read_to_string(out.join(status_file(number))).ok();
            let status = told.and_then(|status| status.trim().parse().ok()).unwrap_or(ended.status);
            let made = out.join(store_file(number));
            if !made.exists() {
                return Err(LabError::NoStore { study: study.name.clone(), status });
            }
            let counted = self.complete(&made, &out, &machine, counter.as_ref())?;
            publish(&made, &study.store)?;
            Ok(StudyDone { status, counted })
        };
        let studies = (1..).zip(studies).map(bring).collect();
        Ok(Done { studies, boot: ended.boot, total: ended.total })
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
        for (position, profile) in
            profile::profiles(&counter.windows()?, &symbols, &directory, debug.as_ref())
        {
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
        let machine = self.machine(cache, &folder, None, &[])?;
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
