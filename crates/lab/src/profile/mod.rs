//! The exact profiler: a QEMU plugin counts what a guest executes, and the counts become costs by kernel
//! function.
//!
//! [`Plugin`] puts the plugin beside a run and collects the [`Window`]s that it left; [`iopj_probe::Symbols`]
//! are the guest's own; [`profiles`] brings both together. Which directory of the kernel's sources a function
//! belongs to, others know: `iopj_probe::sources`, or a kernel's debug information by [`DebugInfo`].

mod attribute;
mod debug_info;
mod error;
mod plugin;
mod window;

pub use attribute::profiles;
pub use debug_info::DebugInfo;
pub use error::ProfileError;
pub use plugin::Plugin;
pub use window::{Record, Window, WindowError};
