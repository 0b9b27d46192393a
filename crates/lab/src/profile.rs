//! The exact profiler: a QEMU plugin counts what a guest executes, and the counts become costs by kernel
//! function.
//!
//! [`Profiler`] installs the plugin for a run and collects the [`Window`]s that it left;
//! [`iopj_probe::Symbols`] are the guest's own; [`profiles`] brings both together. A function's directory in
//! the kernel's sources comes from `iopj_probe::sources`, or from a kernel's debug information by
//! [`DebugInfo`].

mod attribute;
mod debug_info;
mod error;
mod profiler;
mod window;

pub use attribute::{profiles, without};
pub use debug_info::DebugInfo;
pub use error::ProfileError;
pub use profiler::Profiler;
pub use window::{Record, Window, WindowError};
