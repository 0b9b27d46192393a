//! A machine as QEMU's command line (qemu(1)). Nothing here starts anything.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::image::init::OUT_PORT;

/// The serial number of every emulated NVMe drive, by which evidence tells an emulated drive from a real one.
pub const SERIAL: &str = "iopjlab";
/// The program.
pub const QEMU: &str = "qemu-system-x86_64";

/// The machine's socket for [`super::Qmp`], in its run folder.
pub(super) const QMP_SOCKET: &str = "qmp.sock";
/// What the guest hands out, in the machine's run folder.
pub(super) const OUT_FILE: &str = "out.tar";

/// A virtual machine.
#[derive(Debug, Clone)]
pub struct MachineSpec {
    /// The kernel: an uncompressed ELF image that starts by PVH, or a bzImage.
    pub kernel: PathBuf,
    /// The initramfs.
    pub initramfs: PathBuf,
    /// Who executes the guest's instructions.
    pub accelerator: Accelerator,
    /// Virtual processors.
    pub vcpus: u32,
    /// The guest's memory in MiB, the initramfs in it.
    pub memory_mib: u32,
    /// Emulated drives, in the order in which the guest finds those of one kind.
    pub drives: Vec<Drive>,
    /// Added to the kernel's command line.
    pub kernel_arguments: Vec<String>,
    /// Give the guest an IOMMU (VFIO needs one).
    pub iommu: bool,
    /// The machine is ended after this time.
    pub time_limit: Duration,
}

/// Who executes the guest's instructions.
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

/// An emulated drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Drive {
    /// An NVMe controller with one namespace, behind a PCIe port of its own, so that it can be pulled.
    Nvme {
        /// Pairs of I/O queues that the controller offers.
        max_ioqpairs: u32,
        /// Where its data are. A latency there becomes an artefact: give slow drives to virtio.
        backend: Backend,
    },
    /// A virtio-blk drive that a thread of its own serves, so that its latency passes while the guest runs.
    VirtioBlk {
        /// Request queues.
        queues: u32,
        /// How long the thread polls for requests before it sleeps; 0 never polls.
        host_poll_ns: u64,
        /// Where its data are.
        backend: Backend,
    },
}

/// What answers a drive's reads and writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Backend {
    /// Nothing is stored; reads give zeros.
    Null {
        /// The drive's size.
        size_bytes: u64,
        /// How long each request takes.
        latency_ns: u64,
    },
    /// A raw file.
    File {
        /// The file.
        path: PathBuf,
    },
    /// As [`Backend::Null`], but reads fail with EIO.
    ReadErrors {
        /// The drive's size.
        size_bytes: u64,
        /// Which reads fail.
        fault: Fault,
    },
    /// As [`Backend::Null`] until [`super::Qmp::stall`]; from then on requests go unanswered.
    Stallable {
        /// The drive's size.
        size_bytes: u64,
    },
}

/// Which reads fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Every one.
    Always,
    /// Those that contain one of these sectors of 512 bytes.
    Sectors(Vec<u64>),
    /// All but the first so many, counted by QEMU. At most 4096, for each costs two rules.
    After(u32),
}

/// How the console is wired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Console {
    /// Lines on QEMU's standard output.
    Lines,
    /// The user's terminal; Ctrl-A X ends the machine.
    Terminal,
}

impl MachineSpec {
    /// QEMU's arguments. Its working folder is the run folder, where the socket and the archive come to lie.
    pub(super) fn arguments(&self, console: Console) -> Vec<OsString> {
        let mut line = Line::default();
        line.words(["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-name", "iopj-lab"]);
        self.processor(&mut line);
        line.words(["-smp", &self.vcpus.to_string(), "-m", &self.memory_mib.to_string()]);
        line.word("-kernel").word(&self.kernel).word("-initrd").word(&self.initramfs);
        line.words(["-append", &self.kernel_command_line()]);
        match console {
            Console::Lines => line.words(["-chardev", "stdio,id=console,signal=off"]),
            Console::Terminal => {
                line.words(["-chardev", "stdio,id=console,signal=off,mux=on", "-mon", "chardev=console"])
            }
        };
        line.words(["-serial", "chardev:console"]);
        line.words(["-qmp", &format!("unix:{QMP_SOCKET},server=on,wait=off")]);
        line.words(["-chardev", &format!("file,id=out,path={OUT_FILE}"), "-device", "virtio-serial-pci"]);
        line.words(["-device", &format!("virtserialport,chardev=out,name={OUT_PORT}")]);
        for (number, drive) in self.drives.iter().enumerate() {
            drive.arguments(number, &mut line);
        }
        line.0
    }

    fn processor(&self, line: &mut Line) {
        let irqchip = if self.iommu { ",kernel-irqchip=split" } else { "" };
        line.words(["-machine", &format!("q35{irqchip}")]);
        match &self.accelerator {
            Accelerator::Kvm => {
                line.words(["-accel", "kvm", "-cpu", "host"]);
            }
            Accelerator::Tcg { icount, plugin } => {
                let thread = if *icount { "single" } else { "multi" };
                line.words(["-accel", &format!("tcg,thread={thread},tb-size=512"), "-cpu", "max"]);
                if *icount {
                    line.words(["-icount", "shift=0,sleep=off"]);
                }
                if let Some(plugin) = plugin {
                    line.word("-plugin").word(plugin.option());
                }
            }
        }
        if self.iommu {
            line.words(["-device", "intel-iommu,intremap=on"]);
        }
    }

    fn kernel_command_line(&self) -> String {
        // A console for init; a panic or an oops ends the machine; addresses as in the symbol table; what would cost
        // instructions without being the I/O path's is off.
        let mut words = vec!["console=ttyS0 panic=-1 oops=panic quiet nokaslr mitigations=off random.trust_cpu=1"];
        if self.iommu {
            words.push("intel_iommu=on");
        }
        words.extend(self.kernel_arguments.iter().map(String::as_str));
        words.join(" ")
    }
}

impl Plugin {
    fn option(&self) -> OsString {
        let mut option = escaped(&self.path);
        for (name, value) in &self.arguments {
            option.push(format!(",{name}="));
            option.push(escaped(Path::new(value)));
        }
        option
    }
}

impl Drive {
    fn arguments(&self, number: usize, line: &mut Line) {
        match self {
            Drive::Nvme { max_ioqpairs, backend } => {
                backend.arguments(number, line);
                let slot = number + 1;
                line.words(["-device", &format!("pcie-root-port,id=port{number},chassis={slot},slot={slot}")]);
                line.words([
                    "-device",
                    &format!(
                        "nvme,id={id},bus=port{number},serial={SERIAL},drive={node},max_ioqpairs={max_ioqpairs}",
                        id = device_id(number),
                        node = node(number)
                    ),
                ]);
            }
            Drive::VirtioBlk { queues, host_poll_ns, backend } => {
                backend.arguments(number, line);
                line.words(["-object", &format!("iothread,id=thread{number},poll-max-ns={host_poll_ns}")]);
                line.words([
                    "-device",
                    &format!(
                        "virtio-blk-pci,id={id},serial={SERIAL},drive={node},iothread=thread{number},num-queues={queues}",
                        id = device_id(number),
                        node = node(number)
                    ),
                ]);
            }
        }
    }
}

/// The name under which QEMU knows the drive with this place in [`MachineSpec::drives`].
pub(super) fn device_id(number: usize) -> String {
    format!("drive{number}")
}

fn node(number: usize) -> String {
    format!("node{number}")
}

/// The throttle group of a stallable drive.
pub(super) fn throttle_group(number: usize) -> String {
    format!("stall{number}")
}

impl Backend {
    fn arguments(&self, number: usize, line: &mut Line) {
        if let Backend::Stallable { .. } = self {
            line.words(["-object", &format!("throttle-group,id={}", throttle_group(number))]);
        }
        let mut blockdev = self.block_node(number);
        blockdev["node-name"] = json!(node(number));
        line.words(["-blockdev", &blockdev.to_string()]);
    }

    fn block_node(&self, number: usize) -> Value {
        let zeros = |size: u64| json!({"driver": "null-co", "size": size, "read-zeroes": true});
        match self {
            Backend::Null { size_bytes, latency_ns } => {
                let mut node = zeros(*size_bytes);
                node["latency-ns"] = json!(latency_ns);
                node
            }
            Backend::File { path } => json!({"driver": "raw", "file": {"driver": "file", "filename": path}}),
            Backend::ReadErrors { size_bytes, fault } => {
                let mut faulty = fault.rules();
                faulty["driver"] = json!("blkdebug");
                faulty["image"] = zeros(*size_bytes);
                // The raw format tells blkdebug of each read, which is what `After` counts.
                json!({"driver": "raw", "file": faulty})
            }
            Backend::Stallable { size_bytes } => {
                json!({"driver": "throttle", "throttle-group": throttle_group(number), "file": zeros(*size_bytes)})
            }
        }
    }
}

impl Fault {
    /// The rules of blkdebug (QEMU's docs/devel/blkdebug.rst). Its states count from 1.
    fn rules(&self) -> Value {
        let inject = |rule: Value| {
            let mut rule = rule;
            rule["event"] = json!("read_aio");
            rule["iotype"] = json!("read");
            rule["errno"] = json!(libc::EIO);
            rule["once"] = json!(false);
            rule
        };
        match self {
            Fault::Always => json!({"inject-error": [inject(json!({}))]}),
            Fault::Sectors(sectors) => {
                let rules: Vec<Value> = sectors.iter().map(|sector| inject(json!({"sector": sector}))).collect();
                json!({"inject-error": rules})
            }
            Fault::After(reads) => {
                let count = (*reads).min(4096);
                let step = |state: u32| json!({"event": "read_aio", "state": state, "new_state": state + 1});
                let steps: Vec<Value> = (1..=count).map(step).collect();
                json!({"set-state": steps, "inject-error": [inject(json!({"state": count + 1}))]})
            }
        }
    }
}

/// Arguments as they grow.
#[derive(Default)]
struct Line(Vec<OsString>);

impl Line {
    fn word(&mut self, word: impl Into<OsString>) -> &mut Line {
        self.0.push(word.into());
        self
    }

    fn words<const N: usize>(&mut self, words: [&str; N]) -> &mut Line {
        self.0.extend(words.map(OsString::from));
        self
    }
}

/// A path inside an option, whose commas QEMU takes doubled.
fn escaped(path: &Path) -> OsString {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let mut bytes = Vec::new();
    for &byte in path.as_os_str().as_bytes() {
        bytes.push(byte);
        if byte == b',' {
            bytes.push(byte);
        }
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(accelerator: Accelerator, drives: Vec<Drive>) -> MachineSpec {
        MachineSpec {
            kernel: "/k/vmlinux".into(),
            initramfs: "/k/initramfs".into(),
            accelerator,
            vcpus: 2,
            memory_mib: 1024,
            drives,
            kernel_arguments: vec!["nvme.poll_queues=2".into()],
            iommu: false,
            time_limit: Duration::from_secs(60),
        }
    }

    fn text(machine: &MachineSpec) -> String {
        let words: Vec<_> =
            machine.arguments(Console::Lines).iter().map(|word| word.to_string_lossy().into_owned()).collect();
        words.join(" ")
    }

    #[test]
    fn exact_repetition_is_one_thread_with_a_counted_clock() {
        let plugin = Plugin { path: "/a,b/count.so".into(), arguments: vec![("out".into(), "/x,y".into())] };
        let line = text(&machine(Accelerator::Tcg { icount: true, plugin: Some(plugin) }, Vec::new()));
        assert!(line.contains("-accel tcg,thread=single,tb-size=512 -cpu max -icount shift=0,sleep=off"), "{line}");
        assert!(line.contains("-plugin /a,,b/count.so,out=/x,,y"), "{line}");
        let line = text(&machine(Accelerator::Kvm, Vec::new()));
        assert!(line.contains("-accel kvm -cpu host") && !line.contains("icount"), "{line}");
    }

    #[test]
    fn drives_carry_the_labs_serial_and_their_queues() {
        let null = Backend::Null { size_bytes: 1 << 30, latency_ns: 100_000 };
        let drives = vec![
            Drive::Nvme { max_ioqpairs: 8, backend: Backend::Null { size_bytes: 1 << 30, latency_ns: 0 } },
            Drive::VirtioBlk { queues: 2, host_poll_ns: 0, backend: null },
        ];
        let line = text(&machine(Accelerator::Tcg { icount: false, plugin: None }, drives));
        assert!(line.contains("nvme,id=drive0,bus=port0,serial=iopjlab,drive=node0,max_ioqpairs=8"), "{line}");
        assert!(
            line.contains("virtio-blk-pci,id=drive1,serial=iopjlab,drive=node1,iothread=thread1,num-queues=2"),
            "{line}"
        );
        assert!(line.contains(r#""latency-ns":100000"#), "{line}");
        assert!(line.contains("-append console=ttyS0 ") && line.contains(" nvme.poll_queues=2 "), "{line}");
    }

    #[test]
    fn faults_become_rules() {
        let sectors = Fault::Sectors(vec![8, 64]).rules();
        assert_eq!(sectors["inject-error"][1]["sector"], 64);
        assert_eq!(sectors["inject-error"][1]["once"], false);
        let after = Fault::After(2).rules();
        assert_eq!(
            after["set-state"],
            json!([
                {"event": "read_aio", "state": 1, "new_state": 2},
                {"event": "read_aio", "state": 2, "new_state": 3},
            ])
        );
        assert_eq!(after["inject-error"][0]["state"], 3);
    }
}
