//! The specification of a machine, and QEMU's command line for it (qemu(1)). Nothing is started here.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::arguments::{Arguments, escaped};
use super::drive::Drive;
use super::wire::Wire;
use crate::arch::Arch;
use crate::image::init::OUT_PORT;

/// The machine's socket for [`super::Qmp`], in its run folder.
pub(super) const QMP_SOCKET: &str = "qmp.sock";
/// What the guest hands out, in the machine's run folder.
pub(crate) const OUT_FILE: &str = "out.tar";

/// The boot limit of a guest that does its work: ample, for a machine that does much else besides.
pub const BOOT_LIMIT: Duration = Duration::from_secs(180);

/// A virtual machine.
#[derive(Debug, Clone)]
pub struct MachineSpec {
    /// The processor.
    pub arch: Arch,
    /// The kernel: an uncompressed ELF image that starts by PVH, or a bzImage; for Arm a plain image.
    pub kernel: PathBuf,
    /// The initramfs.
    pub initramfs: PathBuf,
    /// What executes the guest's instructions.
    pub accelerator: Accelerator,
    /// Virtual processors.
    pub vcpus: u32,
    /// The guest's memory in MiB, which holds the initramfs too.
    pub memory_mib: u32,
    /// Emulated drives, in the order in which the guest finds those of one kind.
    pub drives: Vec<Drive>,
    /// Added to the kernel's command line.
    pub kernel_arguments: Vec<String>,
    /// Give the guest an IOMMU (VFIO needs one).
    pub iommu: bool,
    /// Its end of a wire to another machine.
    pub wire: Option<Wire>,
    /// A guest that is not up after this time is booted again: QEMU's translator may hang before its kernel
    /// has written a line.
    pub boot_limit: Duration,
    /// The machine is ended after this time.
    pub time_limit: Duration,
}

/// What executes the guest's instructions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Accelerator {
    /// The processor, through `/dev/kvm`.
    Kvm,
    /// QEMU's translator. Times mean nothing, counts are exact.
    Tcg {
        /// One virtual processor whose clock advances by one nanosecond per instruction, so that runs repeat.
        icount: bool,
        /// A plugin that watches the instructions.
        plugin: Option<Plugin>,
    },
}

/// A TCG plugin and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plugin {
    /// The shared object.
    pub path: PathBuf,
    /// Names and values.
    pub arguments: Vec<(String, String)>,
}

/// What the guest's console is connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConsoleEnd {
    /// Lines on QEMU's standard output.
    Lines,
    /// The user's terminal; Ctrl-A X ends the machine.
    Terminal,
}

impl MachineSpec {
    /// QEMU's arguments. Its working folder is the run folder, where it puts the socket and the archive.
    pub(super) fn arguments(&self, console: ConsoleEnd) -> Vec<OsString> {
        let mut line = Arguments::default();
        line.extend([
            "-nodefaults",
            "-no-user-config",
            "-no-reboot",
            "-display",
            "none",
            "-name",
            "iopj-lab",
        ]);
        self.processor(&mut line);
        line.extend(["-smp", &self.vcpus.to_string(), "-m", &self.memory_mib.to_string()]);
        line.add("-kernel").add(&self.kernel).add("-initrd").add(&self.initramfs);
        line.extend(["-append", &self.kernel_command_line()]);
        match console {
            ConsoleEnd::Lines => line.extend(["-chardev", "stdio,id=console,signal=off"]),
            ConsoleEnd::Terminal => {
                line.extend(["-chardev", "stdio,id=console,signal=off,mux=on", "-mon", "chardev=console"])
            }
        };
        line.extend(["-serial", "chardev:console"]);
        line.extend(["-qmp", &format!("unix:{QMP_SOCKET},server=on,wait=off")]);
        line.extend(["-chardev", &format!("file,id=out,path={OUT_FILE}"), "-device", "virtio-serial-pci"]);
        line.extend(["-device", &format!("virtserialport,chardev=out,name={OUT_PORT}")]);
        if let Some(wire) = &self.wire {
            wire.arguments(&mut line);
        }
        for (number, drive) in self.drives.iter().enumerate() {
            drive.arguments(number, self.drives.get(number + 1), &mut line);
        }
        line.into_vec()
    }

    fn processor(&self, line: &mut Arguments) {
        let machine = match (self.arch, self.iommu) {
            (Arch::X86_64, false) => "q35",
            (Arch::X86_64, true) => "q35,kernel-irqchip=split",
            // Its interrupt controller takes messages (MSI), which NVMe's queues need.
            (Arch::Aarch64, false) => "virt,gic-version=3",
            (Arch::Aarch64, true) => "virt,gic-version=3,iommu=smmuv3",
        };
        line.extend(["-machine", machine]);
        match &self.accelerator {
            Accelerator::Kvm => {
                line.extend(["-accel", "kvm", "-cpu", "host"]);
            }
            Accelerator::Tcg { icount, plugin } => {
                // With an IOMMU, drives change drivers, and each change moves their registers in the memory
                // map. QEMU before 8.1 may then crash if another processor reaches a device meanwhile: 7.2
                // did so within 80 s in 4 stress tests of 4, and not in 3 minutes on one thread.
                let thread = if *icount || self.iommu { "single" } else { "multi" };
                // Arm's pointer authentication by its own algorithm is most of what a guest would do.
                let processor = match self.arch {
                    Arch::X86_64 => "max",
                    Arch::Aarch64 => "max,pauth-impdef=on",
                };
                line.extend(["-accel", &format!("tcg,thread={thread},tb-size=512"), "-cpu", processor]);
                if *icount {
                    line.extend(["-icount", "shift=0,sleep=off"]);
                }
                if let Some(plugin) = plugin {
                    line.add("-plugin").add(plugin.option());
                }
            }
        }
        if self.iommu && self.arch == Arch::X86_64 {
            line.extend(["-device", "intel-iommu,intremap=on"]);
        }
    }

    fn kernel_command_line(&self) -> String {
        // A console for init; a panic or an oops ends the machine; addresses are those of the symbol table;
        // features that would add instructions outside the I/O path are off.
        let mut words = format!(
            "console={} panic=-1 oops=panic quiet nokaslr mitigations=off random.trust_cpu=1",
            self.arch.console()
        );
        match self.arch {
            // A clock read is an instruction, as on most machines, and no access to an emulated timer.
            Arch::X86_64 => words += " tsc=reliable",
            Arch::Aarch64 => {}
        }
        if self.iommu && self.arch == Arch::X86_64 {
            words += " intel_iommu=on";
        }
        for argument in &self.kernel_arguments {
            words += " ";
            words += argument;
        }
        words
    }
}

impl Plugin {
    /// The value of QEMU's option `-plugin`.
    pub(crate) fn option(&self) -> OsString {
        let mut option = escaped(&self.path);
        for (name, value) in &self.arguments {
            option.push(format!(",{name}="));
            option.push(escaped(Path::new(value)));
        }
        option
    }
}

#[cfg(test)]
mod tests {
    use super::super::drive::{Backend, Nvme};
    use super::*;

    fn nvme(backend: Backend) -> Drive {
        Drive::Nvme(Nvme::new(8, backend))
    }

    fn machine(accelerator: Accelerator, drives: Vec<Drive>) -> MachineSpec {
        MachineSpec {
            arch: Arch::X86_64,
            kernel: "/k/vmlinux".into(),
            initramfs: "/k/initramfs".into(),
            accelerator,
            vcpus: 2,
            memory_mib: 1024,
            drives,
            kernel_arguments: vec!["nvme.poll_queues=2".into()],
            iommu: false,
            wire: None,
            boot_limit: BOOT_LIMIT,
            time_limit: Duration::from_secs(60),
        }
    }

    fn text(machine: &MachineSpec) -> String {
        let words: Vec<_> = machine
            .arguments(ConsoleEnd::Lines)
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        words.join(" ")
    }

    #[test]
    fn exact_repetition_is_one_thread_with_a_counted_clock() {
        let plugin = Plugin { path: "/a,b/count.so".into(), arguments: vec![("out".into(), "/x,y".into())] };
        let line = text(&machine(Accelerator::Tcg { icount: true, plugin: Some(plugin) }, Vec::new()));
        assert!(
            line.contains("-accel tcg,thread=single,tb-size=512 -cpu max -icount shift=0,sleep=off"),
            "{line}"
        );
        assert!(line.contains("-plugin /a,,b/count.so,out=/x,,y"), "{line}");
        let line = text(&machine(Accelerator::Kvm, Vec::new()));
        assert!(line.contains("-accel kvm -cpu host") && !line.contains("icount"), "{line}");
    }

    #[test]
    fn a_guest_whose_drives_change_drivers_is_one_thread() {
        let translated = Accelerator::Tcg { icount: false, plugin: None };
        let mut machine = machine(translated, Vec::new());
        assert!(text(&machine).contains("-accel tcg,thread=multi,tb-size=512 -cpu max -smp"));
        machine.iommu = true;
        assert!(text(&machine).contains("-accel tcg,thread=single,tb-size=512 -cpu max -device intel-iommu"));
    }

    #[test]
    fn drives_carry_the_labs_serial_and_their_queues() {
        let null = Backend::Null { size_bytes: 1 << 30, latency_ns: 100_000 };
        let drives = vec![
            nvme(Backend::Null { size_bytes: 1 << 30, latency_ns: 0 }),
            Drive::VirtioBlk { queues: 2, host_poll_ns: 0, backend: null },
        ];
        let line = text(&machine(Accelerator::Tcg { icount: false, plugin: None }, drives));
        assert!(
            line.contains(
                "nvme,max_ioqpairs=8,mdts=8,logical_block_size=512,physical_block_size=512,id=drive0,\
                 bus=port0,serial=iopjlab,drive=node0"
            ),
            "{line}"
        );
        assert!(line.contains("virtio-blk-pci,num-queues=2,iothread=thread1,id=drive1,bus=port1,"), "{line}");
        assert!(line.contains(r#""latency-ns":100000"#), "{line}");
        assert!(
            line.contains("-append console=ttyS0 ") && line.contains(" nvme.poll_queues=2 -chardev "),
            "{line}"
        );
    }

    #[test]
    fn two_functions_share_a_slot() {
        let file = Backend::File { path: "/d/a".into() };
        let second = Nvme { second_function: true, block_bytes: 4096, ..Nvme::new(2, file.clone()) };
        let drives = vec![nvme(file.clone()), nvme(file.clone()), Drive::Nvme(second), nvme(file)];
        let mut machine = machine(Accelerator::Kvm, drives);
        machine.iommu = true;
        let line = text(&machine);
        assert!(line.contains(",id=drive0,bus=port0,serial="), "{line}");
        assert!(line.contains(",id=drive1,bus=port1,addr=0.0,multifunction=on,serial="), "{line}");
        assert!(line.contains("block_size=4096,id=drive2,bus=port1,addr=0.1,serial=iopjlab2,"), "{line}");
        assert!(line.contains(",id=drive3,bus=port3,serial=") && !line.contains("id=port2"), "{line}");
        assert!(
            line.contains("-device intel-iommu,intremap=on") && line.contains(" intel_iommu=on "),
            "{line}"
        );
    }

    #[test]
    fn faults_become_rules() {
        let bad = Backend::BadSectors { size_bytes: 1 << 30, sectors: vec![8, 64] };
        let line = text(&machine(Accelerator::Kvm, vec![nvme(bad)]));
        assert!(
            line.contains(r#""inject-error":[{"errno":5,"event":"none","iotype":"read","sector":8},{"#),
            "{line}"
        );
    }
}
