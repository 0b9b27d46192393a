//! The errors of this crate.

use crate::SymbolsError;
use std::path::PathBuf;

/// Why the counters cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The kernel has no whole block device of this name.
    #[error(
        "`{name}` is no whole disk: `/sys/block` has no such entry; name a disk as `lsblk --nodeps --output \
         NAME` lists it"
    )]
    NoDevice {
        /// The name that was given.
        name: String,
    },
    /// A file of the kernel cannot be read.
    #[error("`{path}` cannot be read ({source}): mount /proc and /sys, and run where both are visible")]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file of the kernel has another form than documented.
    #[error("`{path}` has no {what}: this kernel is not supported, please report its version and this file")]
    Form {
        /// The file.
        path: PathBuf,
        /// What was looked for in it.
        what: &'static str,
    },
    /// `getrusage(2)` failed.
    #[error("the process's CPU time cannot be read ({0}): allow the system call `getrusage`")]
    Usage(std::io::Error),
    /// `/proc/kallsyms` shows no address.
    #[error(transparent)]
    Symbols(#[from] SymbolsError),
}
