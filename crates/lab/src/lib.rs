//! The lab: a virtual machine with emulated NVMe that runs the same `iopj`, on the kernels that matter, with
//! exact counts of instructions, loads and stores of every I/O path.
//!
//! [`kernels`] fetches kernels, [`image`] makes the guest's root, [`vm`] runs QEMU, [`profile`] counts, and
//! [`session`] puts them together: a study in, a store out.

mod arch;
pub mod cache;
mod elf;
mod error;
mod host_tools;
pub mod image;
pub mod kernels;
pub mod profile;
pub mod session;
mod soft_roce;
pub mod vm;

pub use arch::{Arch, UnknownArch};
pub use error::LabError;
pub use soft_roce::add_soft_roce;

/// The programs that the lab needs for guests with this processor and this host lacks, each with its Debian
/// package.
pub fn missing_tools(arch: Arch) -> Vec<(&'static str, &'static str)> {
    let mut missing = vm::missing_tools(arch);
    missing.extend(kernels::missing_tools());
    missing
}
