//! Why there is no profile.

use super::WindowError;
use iopj_probe::SymbolsError;
use std::io;
use std::path::PathBuf;

/// Why a run was not profiled.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each field is")]
pub enum ProfileError {
    /// `iopj` was built for a machine on which the plugin does not run.
    #[error("the exact profiler exists only on x86-64 Linux: profile on such a machine, or run without it")]
    Host,
    /// A file or folder of the run.
    #[error(
        "`{path}` cannot be used for the profiler ({source}): check the folder's permissions and free space"
    )]
    Io { path: PathBuf, source: io::Error },
    /// A window's file is damaged.
    #[error("`{path}` is not a window of this profiler ({source}): run the study again")]
    Window { path: PathBuf, source: WindowError },
    /// The guest's symbols are of no use.
    #[error(transparent)]
    Symbols(#[from] SymbolsError),
    /// The file given as `--vmlinux` is not a kernel with debug information.
    #[error("`{path}` gives no source files ({reason}): name the vmlinux of the kernel's debug package")]
    DebugInfo { path: PathBuf, reason: String },
}
