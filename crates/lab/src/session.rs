//! Studies in a guest: its description, its runs and their results.

mod device;
mod fault;
mod guest;
mod pair;

use crate::cache::Cache;
use crate::error::LabError;
use crate::image::{self, GuestSpec, Program};
use crate::kernels::Kernel;
use crate::profile::{self, DebugInfo, Profiler};
use crate::vm::{self, Accelerator, MachineSpec, RunFolder, VmError};
use iopj_core::Allow;
use iopj_core::CostProfile;
use iopj_core::fabric::HostSide;
use iopj_probe::Symbols;
use iopj_store::Store;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use device::Device;
pub use fault::{Fault, FaultKind};
pub use guest::HOLD_COUNTERS;
pub use pair::{AGENT_STREAM, Pair, TARGET_ADDRESS, TARGET_DEVICE};

/// The description of a guest.
#[derive(Clone, Debug)]
pub struct Guest<'a> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// The drive.
    pub device: Device,
    /// Virtual processors.
    pub vcpus: u32,
    /// Count every instruction, load and store. With one processor and null_blk the guest's clock advances
    /// with its instructions, so the run is repeatable.
    pub exact: bool,
    /// A vmlinux with debug information, which knows the source directory of each function better than the
    /// table.
    pub vmlinux: Option<&'a Path>,
    /// The guest is ended after this time.
    pub time_limit: Duration,
    /// A fault of its drive.
    pub fault: Option<Fault>,
}

/// A study for a guest.
#[derive(Clone, Debug, Default)]
pub struct GuestStudy<'a> {
    /// Its name.
    pub name: String,
    /// Where its store goes.
    pub store: PathBuf,
    /// The study file's text.
    pub text: &'a str,
    /// The programs that it needs: `iopj`, `fio` if it is a generator, and those that the study names.
    pub programs: Vec<Program>,
    /// What it may do.
    pub allow: Allow,
    /// Its target is the drive's passthrough node.
    pub passthrough: bool,
    /// It has paths that bypass the kernel, so the drive is taken from its driver: the guest gets an IOMMU
    /// and VFIO.
    pub bypass: bool,
    /// SPDK does its I/O, which needs huge pages.
    pub spdk: bool,
    /// It writes to the drive.
    pub writes: bool,
    /// It reaches the drive of another guest by RDMA, which both emulate on their network cards.
    pub rdma: bool,
    /// The host of a pair has a drive of its own beside that of the target host.
    pub here: bool,
}

/// The results of the studies in a guest.
#[derive(Debug)]
pub struct GuestDone {
    /// The result of each study, in their order.
    pub studies: Vec<Result<StudyDone, LabError>>,
    /// From QEMU's start to that of the guest's script.
    pub boot: Duration,
    /// From QEMU's start to its end.
    pub total: Duration,
}

/// The result of a study that left a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StudyDone {
    /// The exit status of `iopj run` in the guest.
    pub status: i32,
    /// Trials whose costs were counted.
    pub counted: usize,
}

/// How often studies are started if their guest fails by [`VmError::Mistranslated`].
const ATTEMPTS: u32 = 4;
/// The kernel's last words, which are not shown.
const POWER_DOWN: &str = "reboot: Power down";
/// What is printed before the studies begin again.
pub const AGAIN: &str = "lab: QEMU's translator went wrong (the guest's kernel met what no processor does): \
                         the studies start again";

/// A study's file in the guest.
fn study_file(number: usize) -> String {
    format!("lab/study-{number}.toml")
}

/// A study's store in the guest, and in its output.
fn store_file(number: usize) -> String {
    format!("study-{number}.iopj")
}

/// The file with the status of a study's run.
fn status_file(number: usize) -> String {
    format!("status-{number}")
}

/// Checks that these studies can run in one boot, each as it would by itself, and that no file is in their
/// stores' place.
///
/// # Errors
/// [`LabError`], with the study or the store that is in the way.
pub fn check(studies: &[GuestStudy<'_>], exact: bool) -> Result<(), LabError> {
    // The profiler's windows name their trial's position, but not its study.
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

/// Refuses a study with a need that would change how another is measured.
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

/// Runs studies once, and again if a guest ended by QEMU's fault.
fn attempt(
    line: &mut dyn FnMut(&str),
    mut once: impl FnMut(&mut dyn FnMut(&str)) -> Result<GuestDone, LabError>,
) -> Result<GuestDone, LabError> {
    for _ in 1..ATTEMPTS {
        match once(line) {
            Err(LabError::Vm(VmError::Mistranslated(_))) => line(AGAIN),
            done => return done,
        }
    }
    once(line)
}

impl Guest<'_> {
    /// Runs studies in the guest, one after the other, and puts each store in its place. `line` gets what the
    /// guest prints. A guest that ends by [`VmError::Mistranslated`] is made again and begins with the first
    /// study, up to four times in all: that is QEMU's fault, not the studies'.
    ///
    /// # Errors
    /// [`LabError`]: the studies cannot run in one boot, or the guest did not start or end well; then there
    /// is no store. No process is left.
    pub fn run(
        &self,
        cache: &Cache,
        studies: &[GuestStudy<'_>],
        stop: &AtomicBool,
        line: &mut dyn FnMut(&str),
    ) -> Result<GuestDone, LabError> {
        attempt(line, |line| self.once(cache, studies, stop, line))
    }

    /// Runs studies in one guest.
    fn once(
        &self,
        cache: &Cache,
        studies: &[GuestStudy<'_>],
        stop: &AtomicBool,
        line: &mut dyn FnMut(&str),
    ) -> Result<GuestDone, LabError> {
        check(studies, self.exact)?;
        let folder = RunFolder::create(cache.folder())?;
        let profiler = self.exact.then(|| Profiler::install(folder.path())).transpose()?;
        let machine = self.machine(cache, &folder, profiler.as_ref(), studies)?;
        let guest = self.guest(cache, studies, &machine.accelerator)?;
        image::build(&guest, &self.kernel.modules, &self.kernel.release, &machine.initramfs)?;
        let out = folder.path().join("out");
        fs::create_dir(&out).map_err(LabError::at(&out))?;
        let mut fault = self.fault.clone();
        let ended = vm::run(&machine, &folder, &out, stop, &mut |text| {
            if !text.contains(POWER_DOWN) {
                line(text);
            }
            fault::inject(&mut fault, text, &folder);
        })?;
        let bring = |(number, study): (usize, &GuestStudy<'_>)| {
            let status = fs::read_to_string(out.join(status_file(number))).ok();
            let status = status.and_then(|status| status.trim().parse().ok()).unwrap_or(ended.status);
            let made = out.join(store_file(number));
            if !made.exists() {
                return Err(LabError::NoStore { study: study.name.clone(), status });
            }
            let counted = self.complete(&made, &out, &machine, profiler.as_ref())?;
            publish(&made, &study.store)?;
            Ok(StudyDone { status, counted })
        };
        let studies = (1..).zip(studies).map(bring).collect();
        Ok(GuestDone { studies, boot: ended.boot, total: ended.total })
    }

    /// Adds to the guest's store what only the host knows: the machine, and what its plugin counted.
    fn complete(
        &self,
        made: &Path,
        out: &Path,
        machine: &MachineSpec,
        profiler: Option<&Profiler>,
    ) -> Result<usize, LabError> {
        let mut store = Store::open_for_run(made)?;
        self.describe(&mut store, "lab", machine)?;
        let Some(profiler) = profiler else { return Ok(0) };
        let mut counted = 0;
        for (position, profile) in self.profiles(profiler, out)? {
            counted += usize::from(store.add_costs(u64::from(position), HostSide::Host, &profile)?);
        }
        Ok(counted)
    }

    /// Adds the machine to the store, as an event of this kind.
    fn describe(&self, store: &mut Store, kind: &str, machine: &MachineSpec) -> Result<(), LabError> {
        let detail = json!({
            "kernel": self.kernel.release,
            "architecture": self.kernel.arch.as_str(),
            "qemu": vm::qemu_version(self.kernel.arch)?,
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
        Ok(store.add_event(now.as_nanos() as u64, kind, &detail.to_string())?)
    }

    /// What the plugin counted in a guest that left its symbols in `out`, by the positions that were
    /// announced.
    fn profiles(&self, profiler: &Profiler, out: &Path) -> Result<BTreeMap<u32, CostProfile>, LabError> {
        let text = fs::read_to_string(out.join("kallsyms")).map_err(LabError::at(&out.join("kallsyms")))?;
        let symbols = Symbols::parse(&text).map_err(profile::ProfileError::from)?;
        let debug = self.vmlinux.map(|vmlinux| DebugInfo::open(vmlinux, &symbols)).transpose()?;
        let directory = |function: &str, module: Option<&str>| {
            iopj_probe::sources::directory(&self.kernel.release, function, module).map(str::to_owned)
        };
        Ok(profile::profiles(&profiler.windows()?, &symbols, &directory, debug.as_ref()))
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
        let guest = GuestSpec { programs, modules, script, ..self.root(cache)? };
        image::build(&guest, &self.kernel.modules, &self.kernel.release, &machine.initramfs)?;
        Ok(vm::interact(&machine, &folder, stop)?)
    }
}

/// Moves the store to its place, whole, and never over another file.
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
