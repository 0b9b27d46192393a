//! Why a study in the lab has no result.

use crate::cache::CacheError;
use crate::image::ImageError;
use crate::kernels::KernelError;
use crate::profile::ProfileError;
use crate::vm::VmError;
use iopj_store::StoreError;
use std::io;
use std::path::PathBuf;

/// Why the lab cannot do what it was asked for. Each message names the thing, the cause and the remedy.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each field is")]
pub enum LabError {
    /// There is no kernel to boot.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The cache cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The guest's root cannot be made.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The machine did not start or did not end well.
    #[error(transparent)]
    Vm(#[from] VmError),
    /// The counts could not be taken or understood.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The store that the guest handed out.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file is in the store's place.
    #[error("`{0}` already exists: remove it, or name another store with --store")]
    StoreExists(PathBuf),
    /// Two studies of one boot have the same store.
    #[error("two studies would write the store `{0}`: rename one of them")]
    SameStore(PathBuf),
    /// Studies of one boot that need different guests.
    #[error("`{study}` needs {what}, and `{other}` would be measured with it too: run `{study}` by itself")]
    OtherGuest { study: String, what: &'static str, other: String },
    /// Counts of several studies in one boot.
    #[error("--exact counts one study per boot: run each study by itself")]
    ExactOfSeveral,
    /// The guest's run of a study left no store.
    #[error(
        "the run of `{study}` in the guest ended with status {status} and left no store: its output is \
         above"
    )]
    NoStore { study: String, status: i32 },
    /// A file.
    #[error("`{path}`: {source}; name another place")]
    File { path: PathBuf, source: io::Error },
}

impl LabError {
    pub(crate) fn at(path: &std::path::Path) -> impl FnOnce(io::Error) -> LabError {
        let path = path.to_owned();
        move |source| LabError::File { path, source }
    }
}
