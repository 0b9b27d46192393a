//! Why a trial of a program failed.

use iopj_load::program::FigureError;
use iopj_watch::WatchError;
use std::io;
use std::path::PathBuf;

/// Why a trial of a program failed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each field is")]
pub enum ProgramError {
    /// It cannot be started or watched.
    #[error(transparent)]
    Watch(#[from] WatchError),
    /// A pipe or a thread.
    #[error("`{name}` cannot be started: {error}")]
    Start { name: String, error: io::Error },
    /// It says itself that it failed.
    #[error("`{name}` ended with exit code {code}. {end}")]
    Exit { name: String, code: i32, end: String },
    /// A signal ended it.
    #[error("`{name}` was ended by signal {signal}. {end}")]
    Signal { name: String, signal: i32, end: String },
    /// What it started goes on.
    #[error(
        "`{name}` ended and left processes behind: {list}. They would disturb other trials: end them, and \
         let the program wait for what it starts, or start servers in `before` and end them in `after`"
    )]
    LeftBehind { name: String, list: String },
    /// A server of `watch` does not run.
    #[error("`{path}`, which [program] watches, has no process id of a server that runs: {why}")]
    Server { path: PathBuf, why: String },
    /// It printed no figure.
    #[error("{0}")]
    Figure(#[from] FigureError),
    /// The run was stopped.
    #[error("interrupted")]
    Interrupted,
    /// A trial without its program: another study's.
    #[error("the study has no program of this name")]
    NoProgram,
}
