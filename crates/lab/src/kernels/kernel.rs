//! A kernel for guests.

use crate::arch::Arch;
use std::path::PathBuf;

/// A kernel that a guest can boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// As `uname -r` says in the guest: `5.10.0-46-amd64`.
    pub release: String,
    /// The processor that it is for.
    pub arch: Arch,
    /// An uncompressed vmlinux ELF file with a PVH entry if there is one, else a bzImage; for Arm the plain
    /// image.
    pub image: PathBuf,
    /// The folder with `modules.dep` and `kernel/…/*.ko`, all uncompressed; depmod(8) has run.
    pub modules: PathBuf,
    /// The configuration that it was built with, if known.
    pub config: Option<PathBuf>,
}
