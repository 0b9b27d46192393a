//! A virtual machine: QEMU from its command line to the end of its process.

mod archive;
mod arguments;
mod console;
mod drive;
mod error;
mod kvm;
mod qemu;
mod qmp;
mod run;
mod run_folder;
mod spec;
mod wire;

pub(crate) use archive::unpack;
pub use drive::{Backend, Drive, Nvme, SERIAL};
pub use error::VmError;
pub use kvm::{Kvm, kvm};
pub use qemu::qemu_version;
pub use qmp::Qmp;
pub use run::{Ended, interact, run};
pub use run_folder::{Cleaned, RunFolder, clean};
pub(crate) use spec::OUT_FILE;
pub use spec::{Accelerator, BOOT_LIMIT, MachineSpec, Plugin};

use crate::arch::Arch;
pub use wire::{AGENT_PORT, Nic, Wire};

/// The programs that a machine with this processor needs and this host lacks, each with its Debian package.
pub fn missing_tools(arch: Arch) -> Vec<(&'static str, &'static str)> {
    crate::host_tools::missing(&[arch.qemu(), ("busybox", "busybox-static")])
}
