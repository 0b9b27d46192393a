//! Why there is no agent, or none any more, in the words that the user reads.

use crate::frame::VERSION;
use std::io;
use std::path::PathBuf;

/// A failure between a host and its agent.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each field is")]
pub enum FabricError {
    /// A destination that ssh could take for an option, or that is none.
    #[error("`{0}` is not a host: write it as ssh takes it, such as `storage1` or `root@storage1`")]
    Destination(String),
    /// ssh does not start, or does not get there.
    #[error("{host}: {reason}")]
    Ssh { host: String, reason: String },
    /// No agent answers.
    #[error("{host}: {reason}")]
    NoAgent { host: String, reason: String },
    /// The two sides speak different versions.
    #[error(
        "{host} runs iopj {theirs} (protocol {version}), and this is iopj {ours} (protocol {VERSION}): use \
         the same on both; --push copies this one there"
    )]
    Version { host: String, theirs: String, version: u32, ours: &'static str },
    /// The agent is gone.
    #[error("{host}: the agent was lost: {reason}; what it had changed there is put back by its guardian")]
    Lost { host: String, reason: String },
    /// The agent refuses.
    #[error("{host}: {reason}")]
    Refused { host: String, reason: String },
    /// There is no program to copy.
    #[error(
        "{host} is {architecture}, and there is no iopj for it at {file}: build one (`cargo build --release \
         --target {architecture}-unknown-linux-gnu`) and put it there"
    )]
    NoProgram { host: String, architecture: String, file: PathBuf },
    /// A file or a process of this host.
    #[error("cannot {action}: {source}")]
    Io { action: String, source: io::Error },
}

impl FabricError {
    /// Turns a failure of the system into an error that says what was being done.
    pub(crate) fn io(action: impl Into<String>) -> impl FnOnce(io::Error) -> FabricError {
        let action = action.into();
        move |source| FabricError::Io { action, source }
    }
}
