//! A study in a guest: what the guest is made of, what it runs, and what comes out of it.

use crate::cache::Cache;
use crate::error::LabError;
use crate::image::{self, GuestFile, GuestSpec, ModuleWish, Program};
use crate::kernels::Kernel;
use crate::profile::{self, DebugInfo, Plugin};
use crate::vm::{self, Accelerator, Backend, Drive, Kvm, MachineSpec, Qmp, RunFolder};
use iopj_probe::Symbols;
use iopj_store::Store;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

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

/// What befalls the drive of a guest once its console has shown a text. For tests of what a study makes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mishap {
    /// What happens.
    pub kind: MishapKind,
    /// The text.
    pub at: String,
}

/// What happens to a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MishapKind {
    /// Every read fails (QEMU's blkdebug).
    ReadErrors,
    /// An NVMe drive answers no more: its access to memory is switched off (the command register of PCI, bit 2). It
    /// happens 2 s after the text; the kernel gives up a command after 3 s and resets the drive.
    Silence,
    /// The drive is pulled (`device_del`).
    Pull,
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
    /// The programs that it needs: `iopj`, and `fio` where it is a generator.
    pub programs: Vec<Program>,
    /// Its target is the drive's passthrough node.
    pub passthrough: bool,
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

/// Pairs of I/O queues of the emulated controller: enough for a guest of eight processors.
const MAX_IOQPAIRS: u32 = 24;
/// Bytes of an emulated drive. It stores nothing.
const DRIVE_BYTES: u64 = 8 << 30;
/// What the virtio drive takes for a request.
const VIRTIO_LATENCY_NS: u64 = 100_000;
/// Holds the unpacked programs, of which a debug build is large, and the store.
const MEMORY_MIB: u32 = 2048;
/// The kernel's last words, which are no news.
const POWER_DOWN: &str = "reboot: Power down";
/// The store in the guest.
const GUEST_STORE: &str = "store.iopj";

impl Guest<'_> {
    /// The machine: KVM where it works and nothing is to be counted, QEMU's translator elsewhere.
    fn machine(&self, cache: &Cache, folder: &RunFolder, counter: Option<&Plugin>) -> Result<MachineSpec, LabError> {
        let accelerator = match counter {
            None if vm::kvm(cache.folder(), &self.kernel.image)? == Kvm::Works => Accelerator::Kvm,
            _ => Accelerator::Tcg { icount: self.repeats(), plugin: counter.map(load) },
        };
        Ok(MachineSpec {
            kernel: self.kernel.image.clone(),
            initramfs: folder.path().join("initramfs"),
            accelerator,
            vcpus: self.vcpus,
            memory_mib: MEMORY_MIB,
            drives: self.drives(),
            // A clock read is an instruction, as on most machines, and no access to an emulated timer.
            kernel_arguments: vec!["tsc=reliable".to_owned()],
            iommu: false,
            time_limit: self.time_limit,
        })
    }

    /// Whether the guest's clock is bound to its instructions. Not with drives of QEMU: these answer on the host's clock.
    fn repeats(&self) -> bool {
        self.exact && self.vcpus == 1 && self.device == Device::NullBlk
    }

    fn mishap_kind(&self) -> Option<MishapKind> {
        self.mishap.as_ref().map(|mishap| mishap.kind)
    }

    fn drives(&self) -> Vec<Drive> {
        let backend = |latency_ns| match self.mishap_kind() {
            Some(MishapKind::ReadErrors) => Backend::Failable { size_bytes: DRIVE_BYTES },
            _ => Backend::Null { size_bytes: DRIVE_BYTES, latency_ns },
        };
        match self.device {
            Device::Nvme => vec![Drive::Nvme { max_ioqpairs: MAX_IOQPAIRS, backend: backend(0) }],
            Device::Virtio => {
                let backend = backend(VIRTIO_LATENCY_NS);
                vec![Drive::VirtioBlk { queues: self.vcpus + 1, host_poll_ns: 0, backend }]
            }
            Device::NullBlk => Vec::new(),
        }
    }

    fn modules(&self) -> Vec<ModuleWish> {
        let with = |name: &str, options: &[String]| ModuleWish { name: name.to_owned(), options: options.to_vec() };
        let polls = format!("poll_queues={}", self.vcpus);
        match self.device {
            Device::Nvme => {
                // The kernel gives a command 30 s, and after a reset another try, five times.
                let impatient = ["io_timeout=3", "admin_timeout=3", "max_retries=0"].map(str::to_owned);
                let silence = self.mishap_kind() == Some(MishapKind::Silence);
                vec![with("nvme_core", if silence { &impatient } else { &[] }), with("nvme", &[polls])]
            }
            Device::Virtio => vec![with("virtio_blk", &["poll_queues=1".to_owned()])],
            Device::NullBlk => {
                let queues = format!("submit_queues={}", self.vcpus);
                vec![with("null_blk", &["queue_mode=2".to_owned(), "gb=8".to_owned(), queues, polls])]
            }
        }
    }

    /// The drive's node in the guest.
    fn node(&self, passthrough: bool) -> &'static str {
        match (self.device, passthrough) {
            (Device::Nvme, false) => "/dev/nvme0n1",
            (Device::Nvme, true) => "/dev/ng0n1",
            (Device::Virtio, _) => "/dev/vda",
            (Device::NullBlk, _) => "/dev/nullb0",
        }
    }

    /// Runs a study in the guest and puts its store at `store`. `line` is told what the guest prints.
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
        if store.exists() {
            return Err(LabError::StoreExists(store.to_owned()));
        }
        let folder = RunFolder::create(cache.folder())?;
        let counter = if self.exact { Some(Plugin::install(folder.path())?) } else { None };
        let machine = self.machine(cache, &folder, counter.as_ref())?;
        let guest = GuestSpec {
            programs: study.programs.clone(),
            modules: self.modules(),
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
            befall(&mut mishap, text, &folder);
        })?;
        let made = out.join(GUEST_STORE);
        if !made.exists() {
            return Err(LabError::NoStore { status: ended.status });
        }
        let counted = self.complete(&made, &out, &machine, counter.as_ref())?;
        publish(&made, store)?;
        Ok(Done { status: ended.status, boot: ended.boot, total: ended.total, counted })
    }

    /// What the guest does: the run, with its results in the folder that is handed out. Behind a pipe it tells its
    /// progress in lines.
    fn script(&self, study: &GuestStudy<'_>) -> String {
        let node = self.node(study.passthrough);
        let destroy = if study.writes { format!(" --destroy-data {node}") } else { String::new() };
        let listener = self.mishap.as_ref().map_or_else(|| "cat".to_owned(), listener);
        let symbols = if self.exact { "cat /proc/kallsyms >/out/kallsyms || exit 98\n" } else { "" };
        format!(
            "{symbols}\
             tries=100\n\
             until [ -e {node} ]; do\n\
             \ttries=$((tries - 1))\n\
             \t[ $tries -gt 0 ] || {{ echo 'lab: the drive {node} did not appear'; exit 97; }}\n\
             \tsleep 0.1\n\
             done\n\
             cd /tmp\n\
             {{\n\
             \tiopj run /lab/study.toml --target {node}{destroy} --store {GUEST_STORE} 2>&1 >/dev/null\n\
             \techo $? >status\n\
             }} | {listener}\n\
             [ ! -e {GUEST_STORE} ] || cp {GUEST_STORE}* /out/ || exit 99\n\
             exit $(cat status)\n"
        )
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
        let machine = self.machine(cache, &folder, None)?;
        let script = "cd /root; echo 'iopj is on the path; leave with `exit`'; setsid cttyhack sh </dev/console\n";
        let guest = GuestSpec { programs, modules: self.modules(), files: Vec::new(), script: script.to_owned() };
        image::build(&guest, &self.kernel.modules, &self.kernel.release, &machine.initramfs)?;
        Ok(vm::interact(&machine, &folder, stop)?)
    }
}

/// QEMU's argument for the profiler.
fn load(plugin: &Plugin) -> vm::Plugin {
    let out = plugin.out().to_string_lossy().into_owned();
    vm::Plugin { path: plugin.library().to_owned(), arguments: vec![("out".to_owned(), out)] }
}

/// What passes the run's lines on in a guest with a mishap, and brings about the one that is the guest's to do.
fn listener(mishap: &Mishap) -> String {
    if mishap.kind != MishapKind::Silence {
        return "cat".to_owned();
    }
    format!(
        "while IFS= read -r line; do\n\
         \techo \"$line\"\n\
         \tcase \"$line\" in *'{}'*)\n\
         \t\t{{ sleep 2; printf '\\002' | dd of=/sys/class/nvme/nvme0/device/config bs=1 seek=4 2>/dev/null; }} & ;;\n\
         \tesac\n\
         done",
        mishap.at
    )
}

/// Lets a mishap happen whose text has come. One that fails leaves a run without it, which its test will see.
fn befall(mishap: &mut Option<Mishap>, text: &str, folder: &RunFolder) {
    let Some(mishap) = mishap.take_if(|mishap| text.contains(&mishap.at)) else { return };
    let Ok(mut qmp) = Qmp::connect(folder) else { return };
    let _ = match mishap.kind {
        MishapKind::ReadErrors => qmp.fail(0),
        MishapKind::Pull => qmp.pull(0),
        MishapKind::Silence => Ok(()),
    };
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
