//! A program that does its own I/O, seen from outside: its system calls and rings, the disks that it uses,
//! and which I/O paths that shows.
//!
//! [`Watcher`] reads the kernel's counters, two [`WatchLook`]s give the evidence between them, and
//! [`paths_of`] says which paths it shows. When to look, and for how long tracepoints are counted, is left to
//! the caller.

mod account;
mod cost;
mod counters;
mod disks;
mod events;
mod files;
mod paths;
mod processes;
mod samples;
mod watcher;

pub use account::Spent;
pub use paths::{FEW_SHARE, ONE_KIND_SHARE, paths_of};
pub use watcher::{Denied, SampledRequest, SampledSlice, WatchLook, Watched, Watcher};
