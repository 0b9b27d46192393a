//! What a guest is made of and what it runs, for a device and its studies.

use super::mishap::listener;
use super::{Device, Guest, GuestStudy, MishapKind, status_file, store_file, study_file};
use crate::cache::Cache;
use crate::error::LabError;
use crate::image::{GuestFile, GuestSpec, ImageError, ModuleWish, Program, built_in_options, has_module};
use crate::profile::Plugin;
use crate::vm::{self, Accelerator, Backend, Drive, Kvm, MachineSpec, Nvme, RunFolder};

/// Pairs of I/O queues of the emulated controller: enough for a guest of eight processors.
const MAX_IOQPAIRS: u32 = 24;
/// Bytes of an emulated drive. It stores nothing.
const DRIVE_BYTES: u64 = 8 << 30;
/// What the virtio drive takes for a request.
const VIRTIO_LATENCY_NS: u64 = 100_000;
/// Holds the unpacked programs, of which a debug build is large, and the store.
const MEMORY_MIB: u32 = 2048;
/// Memory in huge pages of 2 MiB for SPDK, which takes 512 MiB, and the buffers of its jobs.
const SPDK_MIB: u32 = 1024;

/// Holds, for as long as the guest runs, what the kernel would else patch into its code and out of it for the
/// counters of each trial. Under QEMU 7.2's translator four runs of four on two idle processors met a stale
/// breakpoint there. What is held costs some instructions at each switch of threads, which is nothing where
/// neither times (KVM) nor instructions are measured. A kernel without the counters patches nothing.
pub const HOLD_COUNTERS: &str = "\
    iopj lab hold-counters >/run/held 2>&1 &\nwhile [ ! -s /run/held ] && kill -0 $!; do sleep 0.1; done\n";

impl Guest<'_> {
    /// The machine: KVM where it works and nothing is to be counted, QEMU's translator elsewhere.
    /// With an IOMMU where a drive shall be taken from its driver.
    pub(super) fn machine(
        &self,
        cache: &Cache,
        folder: &RunFolder,
        counter: Option<&Plugin>,
        studies: &[GuestStudy<'_>],
    ) -> Result<MachineSpec, LabError> {
        let bypass = studies.iter().any(|study| study.bypass);
        let spdk = studies.iter().any(|study| study.spdk);
        let accelerator = match counter {
            None if vm::kvm(cache.folder(), &self.kernel.image)? == Kvm::Works => Accelerator::Kvm,
            _ => Accelerator::Tcg { icount: self.repeats(), plugin: counter.map(load) },
        };
        // A clock read is an instruction, as on most machines, and no access to an emulated timer.
        let mut kernel_arguments = vec!["tsc=reliable".to_owned()];
        kernel_arguments.extend(built_in_options(&self.kernel.modules, &self.modules(bypass)?)?);
        Ok(MachineSpec {
            kernel: self.kernel.image.clone(),
            initramfs: folder.path().join("initramfs"),
            accelerator,
            vcpus: self.vcpus,
            memory_mib: MEMORY_MIB + if spdk { SPDK_MIB } else { 0 },
            drives: self.drives(),
            kernel_arguments,
            iommu: bypass,
            time_limit: self.time_limit,
        })
    }

    /// What is in its root: what any study needs, each thing once.
    pub(super) fn guest(
        &self,
        studies: &[GuestStudy<'_>],
        accelerator: &Accelerator,
    ) -> Result<GuestSpec, LabError> {
        let mut programs: Vec<Program> = Vec::new();
        for program in studies.iter().flat_map(|study| &study.programs) {
            if !programs.contains(program) {
                programs.push(program.clone());
            }
        }
        let file = |(number, study): (usize, &GuestStudy<'_>)| {
            let content = study.text.as_bytes().to_vec();
            GuestFile { path: study_file(number), content, mode: 0o644 }
        };
        Ok(GuestSpec {
            programs,
            modules: self.modules(studies.iter().any(|study| study.bypass))?,
            files: (1..).zip(studies).map(file).collect(),
            script: self.script(studies, accelerator),
        })
    }

    /// Whether the guest's clock is bound to its instructions. Not with drives of QEMU: these answer on the
    /// host's clock.
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
            Device::Nvme => vec![Drive::Nvme(Nvme::new(MAX_IOQPAIRS, backend(0)))],
            Device::Virtio => {
                let backend = backend(VIRTIO_LATENCY_NS);
                vec![Drive::VirtioBlk { queues: self.vcpus + 1, host_poll_ns: 0, backend }]
            }
            Device::NullBlk => Vec::new(),
        }
    }

    /// The drive's modules, and VFIO's where it shall be taken from its driver.
    pub(super) fn modules(&self, bypass: bool) -> Result<Vec<ModuleWish>, ImageError> {
        let mut wishes = self.drive_modules();
        if bypass {
            wishes.push(ModuleWish::plain("vfio-pci"));
            // A kernel may have iommufd in its place (CONFIG_VFIO_CONTAINER), which vfio then brings along.
            let has = |name| has_module(&self.kernel.modules, name);
            if has("vfio_iommu_type1")? || !has("iommufd")? {
                wishes.push(ModuleWish::plain("vfio_iommu_type1"));
            }
        }
        Ok(wishes)
    }

    fn drive_modules(&self) -> Vec<ModuleWish> {
        let with =
            |name: &str, options: &[String]| ModuleWish { name: name.to_owned(), options: options.to_vec() };
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

    /// What the guest does: each study after the other, whatever came of those before, with its store and its
    /// status in the folder that is handed out.
    pub(super) fn script(&self, studies: &[GuestStudy<'_>], accelerator: &Accelerator) -> String {
        let symbols = if self.exact { "cat /proc/kallsyms >/out/kallsyms || exit 98\n" } else { "" };
        // DPDK keeps its files under /var/run.
        let huge_pages = if studies.iter().any(|study| study.spdk) {
            let pages = SPDK_MIB / 2;
            format!(
                "mkdir -p /dev/hugepages /var && ln -sfn /run /var/run && mount -t hugetlbfs none \
                 /dev/hugepages || exit 96\necho {pages} >/proc/sys/vm/nr_hugepages\n"
            )
        } else {
            String::new()
        };
        let held = match accelerator {
            Accelerator::Tcg { plugin: None, .. } => HOLD_COUNTERS,
            Accelerator::Kvm | Accelerator::Tcg { .. } => "",
        };
        let mut script = format!("{symbols}{huge_pages}{held}cd /tmp\n");
        for (number, study) in (1..).zip(studies) {
            if studies.len() > 1 {
                script += &format!("echo 'study {}, {number} of {}'\n", study.name, studies.len());
            }
            script += &format!(
                "(\n{})\necho $? >/out/{} || exit 95\n",
                self.run_of(number, study),
                status_file(number)
            );
        }
        script
    }

    /// The run of a study. Behind a pipe it tells its progress in lines.
    fn run_of(&self, number: usize, study: &GuestStudy<'_>) -> String {
        let node = self.node(study.passthrough);
        let destroy = if study.writes { format!(" --destroy-data {node}") } else { String::new() };
        let take = if study.bypass { " --take-device ${drive##*/}" } else { "" };
        let exec = if study.allow_exec { " --allow-exec" } else { "" };
        let listener = self.mishap.as_ref().map_or_else(|| "cat".to_owned(), listener);
        let (file, store) = (study_file(number), store_file(number));
        // What a run before it left behind, had it been killed: without its driver a drive has no node.
        let restore = if number > 1 { "iopj restore >/dev/null 2>&1\n" } else { "" };
        format!(
            "{restore}tries=600\nuntil [ -e {node} ]; do\n\ttries=$((tries - 1))\n\t[ $tries -gt 0 ] || {{ \
             echo 'lab: the drive {node} did not appear'; exit 97; }}\n\tsleep 0.1\ndone\ndrive=$(readlink \
             -f /sys/class/nvme/nvme0/device)\nrm -f status\n{{\n\tiopj run /{file} --target \
             {node}{destroy}{take}{exec} --store {store} 2>&1 >/dev/null\n\techo $? >status\n}} | \
             {listener}\n[ ! -e {store} ] || cp {store}* /out/ || {{\n\techo 'lab: the guest has no memory \
             left for the store of `{name}`'\n\trm -f {store}* /out/{store}*\n\texit 99\n}}\nrm -f \
             {store}*\nstatus=$(cat status)\nexit ${{status:-94}}\n",
            name = study.name
        )
    }
}

/// QEMU's argument for the profiler.
fn load(plugin: &Plugin) -> vm::Plugin {
    let out = plugin.out().to_string_lossy().into_owned();
    vm::Plugin { path: plugin.library().to_owned(), arguments: vec![("out".to_owned(), out)] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::Kernel;
    use std::time::Duration;

    #[test]
    fn counters_are_held_only_where_neither_times_nor_instructions_are_measured() {
        let kernel = Kernel {
            release: "6.18".to_owned(),
            image: "vmlinuz".into(),
            modules: "modules".into(),
            config: None,
        };
        let guest = Guest {
            kernel: &kernel,
            device: Device::Nvme,
            vcpus: 2,
            exact: false,
            vmlinux: None,
            time_limit: Duration::from_secs(1),
            mishap: None,
        };
        let plugin = vm::Plugin { path: "window.so".into(), arguments: Vec::new() };
        let held = |accelerator| guest.script(&[], &accelerator).contains("hold-counters");
        assert!(held(Accelerator::Tcg { icount: false, plugin: None }));
        assert!(!held(Accelerator::Tcg { icount: true, plugin: Some(plugin) }));
        assert!(!held(Accelerator::Kvm));
    }
}
