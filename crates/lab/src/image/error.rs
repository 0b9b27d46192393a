//! Why a guest's root cannot be made.

use crate::arch::Arch;
use std::io;
use std::path::PathBuf;

/// Why a guest's root cannot be made.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each field is")]
pub enum ImageError {
    /// A file of the host cannot be read or written.
    #[error("`{path}`: {source}")]
    File { path: PathBuf, source: io::Error },
    /// A program that is not on the host.
    #[error("`{0}` is not in any folder of $PATH: install it")]
    NoProgram(String),
    /// A program that is named by its path and cannot be read.
    #[error("`{path}` cannot be read ({source}): build it, or name a file that exists")]
    Unreadable { path: PathBuf, source: io::Error },
    /// A program named relative to the current folder, which the guest does not have.
    #[error(
        "`{0}` cannot be found in the guest, which has another current folder: name it by its whole path"
    )]
    RelativeProgram(PathBuf),
    /// There is no busybox.
    #[error("`busybox` is not installed: install the package busybox-static")]
    NoBusybox,
    /// The busybox here needs libraries.
    #[error(
        "`{0}` needs shared libraries, and the guest starts without any: install the package busybox-static"
    )]
    DynamicBusybox(PathBuf),
    /// A file that should be a program.
    #[error("`{0}` is not a 64-bit ELF program: name one that is")]
    NotElf(PathBuf),
    /// A program for another processor than the guest's.
    #[error("`{path}` is not a program for {arch}, which the guest has: name one that is")]
    OtherProcessor { path: PathBuf, arch: Arch },
    /// A dynamic program whose loader does not run here.
    #[error(
        "`{path}` needs shared libraries for {arch}, which cannot be found on this host: link it statically, \
         as `cargo xtask cross` links iopj"
    )]
    Dynamic { path: PathBuf, arch: Arch },
    /// There is no iopj for the guest's processor.
    #[error(
        "a guest with the processor {arch} needs an iopj for it at `{path}`: build it by `cargo xtask \
         cross`, or put the one of a release for {arch} there"
    )]
    NoIopj { arch: Arch, path: PathBuf },
    /// The loader cannot find a program's libraries.
    #[error("`{program}` cannot be given to the guest: {cause}; install what it needs")]
    Libraries { program: PathBuf, cause: String },
    /// The kernel has no such module.
    #[error("kernel {release} has no module `{module}`: choose a kernel that has it, or another device")]
    NoModule { module: String, release: String },
    /// A module of another kernel.
    #[error(
        "`{path}` is made for kernel {made_for}, not for {release}: give the modules that belong to the \
         image"
    )]
    ForeignModule { path: PathBuf, made_for: String, release: String },
    /// A module that is compressed, which the guest's insmod cannot load.
    #[error("`{0}` is compressed: unpack the modules and run depmod on their folder")]
    PackedModule(PathBuf),
}
