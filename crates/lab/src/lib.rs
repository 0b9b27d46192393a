//! The lab: a virtual machine with emulated NVMe in which the very same `iopj` runs, on the kernels that matter, and
//! exact counts of instructions, loads and stores of every I/O path.

pub mod cache;
pub mod kernels;
pub mod profile;
