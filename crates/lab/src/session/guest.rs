//! A guest's machine, root and script, by its device and its studies.

use super::fault::relay;
use super::{Device, FaultKind, Guest, GuestStudy, status_file, store_file, study_file};
use crate::arch::Arch;
use crate::cache::Cache;
use crate::error::LabError;
use crate::image::{GuestFile, GuestSpec, ImageError, ModuleWish, Program, built_in_options, has_module};
use crate::kernels;
use crate::profile::Profiler;
use crate::vm::{self, Accelerator, Kvm, MachineSpec, RunFolder};

/// Room for the unpacked programs, of which a debug build is large, and the store.
const MEMORY_MIB: u32 = 2048;
/// Memory in huge pages of 2 MiB for SPDK, which takes 512 MiB, and the buffers of its jobs.
const SPDK_MIB: u32 = 1024;

/// Keeps counters open for as long as the guest runs: else the kernel patches them into its code and out of
/// it at each trial. Under QEMU 7.2's translator four runs of four on two idle processors hit a stale
/// breakpoint there. Open counters cost some instructions at each context switch, which does not matter if
/// neither times (KVM) nor instructions are measured. A kernel without the counters patches nothing.
pub const HOLD_COUNTERS: &str = "\
    iopj lab hold-counters >/run/held 2>&1 &\nwhile [ ! -s /run/held ] && kill -0 $!; do sleep 0.1; done\n";

impl Guest<'_> {
    /// The machine: KVM if it works and nothing is counted, else QEMU's translator; with an IOMMU if a drive
    /// is taken from its driver.
    pub(super) fn machine(
        &self,
        cache: &Cache,
        folder: &RunFolder,
        profiler: Option<&Profiler>,
        studies: &[GuestStudy<'_>],
    ) -> Result<MachineSpec, LabError> {
        let bypass = studies.iter().any(|study| study.bypass);
        let spdk = studies.iter().any(|study| study.spdk);
        let accelerator = match profiler {
            None if self.kernel.arch == Arch::HOST
                && vm::kvm(cache.folder(), &self.kernel.image)? == Kvm::Works =>
            {
                Accelerator::Kvm
            }
            _ => Accelerator::Tcg { icount: self.repeats(), plugin: profiler.map(Profiler::plugin) },
        };
        let kernel_arguments = built_in_options(&self.kernel.modules, &self.modules(bypass)?)?;
        Ok(MachineSpec {
            arch: self.kernel.arch,
            kernel: self.kernel.image.clone(),
            initramfs: folder.path().join("initramfs"),
            accelerator,
            vcpus: self.vcpus,
            memory_mib: MEMORY_MIB + if spdk { SPDK_MIB } else { 0 },
            drives: self.device.drive(self.vcpus, self.fault_kind()).into_iter().collect(),
            kernel_arguments,
            iommu: bypass,
            wire: None,
            boot_limit: vm::BOOT_LIMIT,
            time_limit: self.time_limit,
        })
    }

    /// The root of a guest with this processor, empty.
    pub(super) fn root(&self, cache: &Cache) -> Result<GuestSpec, LabError> {
        let arch = self.kernel.arch;
        let busybox = (arch != Arch::HOST).then(|| kernels::busybox(cache, arch, &mut |_| {})).transpose()?;
        Ok(GuestSpec { arch, busybox, ..GuestSpec::default() })
    }

    /// The guest's root: what the studies need, each thing once.
    pub(super) fn guest(
        &self,
        cache: &Cache,
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
            ..self.root(cache)?
        })
    }

    /// Whether the guest's clock is bound to its instructions. Not with QEMU's drives: these answer on the
    /// host's clock.
    fn repeats(&self) -> bool {
        self.exact && self.vcpus == 1 && self.device == Device::NullBlk
    }

    fn fault_kind(&self) -> Option<FaultKind> {
        self.fault.as_ref().map(|fault| fault.kind)
    }

    /// The drive's modules, and VFIO's if it is taken from its driver.
    pub(super) fn modules(&self, bypass: bool) -> Result<Vec<ModuleWish>, ImageError> {
        let mut wishes = self.device.modules(self.vcpus, self.fault_kind());
        if bypass {
            wishes.push(ModuleWish::plain("vfio-pci"));
            // A kernel may have iommufd instead (CONFIG_VFIO_CONTAINER), which vfio then loads.
            let has = |name| has_module(&self.kernel.modules, name);
            if has("vfio_iommu_type1")? || !has("iommufd")? {
                wishes.push(ModuleWish::plain("vfio_iommu_type1"));
            }
        }
        Ok(wishes)
    }

    /// The guest's script: one study after the other, also after a failure; each leaves its store and its
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

    /// The run of a study. Into a pipe it prints its progress in lines.
    fn run_of(&self, number: usize, study: &GuestStudy<'_>) -> String {
        let node = self.device.node(study.passthrough);
        let destroy = if study.writes { format!(" --destroy-data {node}") } else { String::new() };
        let take = if study.bypass { " --take-device ${drive##*/}" } else { "" };
        let allow = study.allow.option();
        let relay = self.fault.as_ref().map_or_else(|| "cat".to_owned(), relay);
        let (file, store) = (study_file(number), store_file(number));
        // An earlier run may have been killed: without its driver a drive has no node.
        let restore = if number > 1 { "iopj restore >/dev/null 2>&1\n" } else { "" };
        // A node is there before it can be opened.
        format!(
            "{restore}tries=600\nuntil {{ true <{node}; }} 2>/dev/null; do\n\ttries=$((tries - 1))\n\t[ \
             $tries -gt 0 ] || {{ echo 'lab: the drive {node} did not appear'; exit 97; }}\n\tsleep \
             0.1\ndone\ndrive=$(readlink -f /sys/class/nvme/nvme0/device)\nrm -f status\n{{\n\tiopj run \
             /{file} --target {node}{destroy}{take}{allow} --store {store} 2>&1 >/dev/null\n\techo $? \
             >status\n}} | {relay}\n[ ! -e {store} ] || cp {store}* /out/ || {{\n\techo 'lab: the guest has \
             no memory left for the store of `{name}`'\n\trm -f {store}* /out/{store}*\n\texit \
             99\n}}\nrm -f {store}*\nstatus=$(cat status)\nexit ${{status:-94}}\n",
            name = study.name
        )
    }
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
            arch: Arch::X86_64,
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
            fault: None,
        };
        let plugin = vm::Plugin { path: "window.so".into(), arguments: Vec::new() };
        let held = |accelerator| guest.script(&[], &accelerator).contains("hold-counters");
        assert!(held(Accelerator::Tcg { icount: false, plugin: None }));
        assert!(!held(Accelerator::Tcg { icount: true, plugin: Some(plugin) }));
        assert!(!held(Accelerator::Kvm));
    }
}
