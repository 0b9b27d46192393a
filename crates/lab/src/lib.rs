//! The lab: a virtual machine with emulated NVMe that runs the same `iopj`, on the kernels that matter, with
//! exact counts of instructions, loads and stores of every I/O path.
//!
//! [`kernels`] fetches kernels, [`image`] makes the guest's root, [`vm`] runs QEMU, [`profile`] counts, and
//! [`session`] puts them together: a study in, a store out.

pub mod cache;
mod elf;
mod error;
mod host_tools;
pub mod image;
pub mod kernels;
pub mod profile;
pub mod session;
pub mod vm;

pub use error::LabError;

/// The programs that the lab needs and this host lacks, each with its Debian package.
pub fn missing_tools() -> Vec<(&'static str, &'static str)> {
    let mut missing = vm::missing_tools();
    missing.extend(kernels::missing_tools());
    missing
}
