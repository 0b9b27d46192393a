//! Why the counters and the kernel's symbols cannot be read.

use std::path::PathBuf;

/// Why the counters cannot be read.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each field is")]
pub enum ProbeError {
    /// The kernel has no whole block device of this name.
    #[error(
        "`{0}` is not a whole disk: `/sys/block` has no such entry; name a disk as `lsblk --nodeps --output \
         NAME` lists it"
    )]
    NoDevice(String),
    /// A file of the kernel cannot be read.
    #[error("`{path}` cannot be read ({source}): mount /proc and /sys, and run where both are visible")]
    Read { path: PathBuf, source: std::io::Error },
    /// A file of the kernel does not have its documented form.
    #[error("`{path}` has no {what}: this kernel is not supported; please report its version and this file")]
    Form { path: PathBuf, what: &'static str },
    /// `getrusage(2)` failed.
    #[error("the process's CPU time cannot be read ({0}): allow the system call `getrusage`")]
    Usage(std::io::Error),
    /// `/proc/kallsyms` shows no address.
    #[error(transparent)]
    Symbols(#[from] SymbolsError),
}

/// Why a symbol table is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SymbolsError {
    /// No line is of its form.
    #[error("/proc/kallsyms lists no functions: the kernel needs CONFIG_KALLSYMS")]
    Empty,
    /// Addresses are hidden.
    #[error(
        "/proc/kallsyms hides all addresses: read it as root (CAP_SYSLOG), with `sysctl \
         kernel.kptr_restrict=1`"
    )]
    Hidden,
}
