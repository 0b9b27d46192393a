//! Why fio cannot be run, or what it answered cannot be read.

use super::spdk::SpdkLack;
use std::io;
use std::path::PathBuf;

/// Why fio did not do a run.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each field is")]
pub enum FioError {
    /// No `fio` in any folder of `PATH`.
    #[error("fio is not on PATH: install the package `fio`, or use --generator native")]
    Missing,
    /// Too old.
    #[error(
        "`{program}` is {version}, but 3.28 or newer is needed: install a newer fio, or use --generator \
         native"
    )]
    TooOld { program: PathBuf, version: String },
    /// It does not say what fio says.
    #[error(
        "`{program} {argument}` gave no answer ({reason}): check that this is fio, or reinstall the \
         package `fio`"
    )]
    NoAnswer { program: PathBuf, argument: &'static str, reason: String },
    /// This fio was built without an engine.
    #[error(
        "{version} has no engine `{engine}`, which {path} needs: install a fio built with it, or use \
         --generator native"
    )]
    MissingEngine { version: String, engine: String, path: String },
    /// No fio can take this path.
    #[error("{path} cannot be run by fio: {reason}; use --generator native")]
    Unsupported { path: String, reason: String },
    /// An open load that fio has no options for.
    #[error("fio has no option for {0}: leave it out, or use generator = \"native\"")]
    Load(&'static str),
    /// SPDK cannot be driven here.
    #[error(transparent)]
    Spdk(#[from] SpdkLack),
    /// A name that a job file cannot hold.
    #[error(
        "fio cannot be given `{}`: its name {reason}; rename it, or name a link to it",
        filename.escape_debug()
    )]
    Filename { filename: String, reason: &'static str },
    /// Numbers that make no job.
    #[error("fio cannot run this workload: {0}")]
    Job(String),
    /// A file that fio would have to lengthen.
    #[error(
        "`{filename}` has {len} bytes, but the job ends at byte {end}: give a larger file or a smaller size"
    )]
    TooShort { filename: PathBuf, len: u64, end: u64 },
    /// fio ran and failed.
    #[error("fio failed ({status}): {words}")]
    Failed {
        status: String,
        /// Its own words, two lines at most.
        words: String,
    },
    /// The stop flag was set.
    #[error("fio was stopped before the end of its run")]
    Stopped,
    /// Output that cannot be read.
    #[error("fio's output {0}: run the same job by hand and report it with fio's version")]
    Output(String),
    /// The operating system refused something.
    #[error("{what}: {source}")]
    Os { what: String, source: io::Error },
}
