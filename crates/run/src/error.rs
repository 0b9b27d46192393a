//! Why a run did not take place or ended early, and why a trial failed.

use crate::program_error::ProgramError;
use iopj_core::IoPath;
use iopj_engine::EngineError;
use iopj_engine::target::{FileId, TargetError};
use iopj_fabric::FabricError;
use iopj_host::settings::SettingsError;
use iopj_load::corunner::CorunnerError;
use iopj_load::fio::FioError;
use iopj_load::native::NativeError;
use iopj_load::trace::{ReplayError, TraceError};
use iopj_metering::MeteringError;
use iopj_probe::ProbeError;
use iopj_probe::sampling::SamplingError;
use iopj_store::StoreError;
use iopj_study::StudyError;
use std::path::PathBuf;

/// Why a run did not take place, or ended early.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The study, the options and the machine do not fit together: the thing, the cause and the remedy.
    #[error("{0}")]
    Refused(String),
    /// The study's text.
    #[error(transparent)]
    Study(#[from] StudyError),
    /// The target.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A setting, a lock, or a drive that is taken.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// Another run has the drive.
    #[error("{0}: use --wait to wait until it ends, or stop it")]
    InUse(String),
    /// Another run had it for as long as this one waited.
    #[error("{who} after a wait of {limit}: wait longer, for example with --wait=1h, or stop it")]
    StillInUse {
        /// Who has which drive.
        who: String,
        /// The longest wait.
        limit: String,
    },
    /// A counter of the operating system.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// The fio that the study asks for.
    #[error(transparent)]
    Fio(#[from] FioError),
    /// A step that every trial takes too.
    #[error(transparent)]
    Trial(#[from] TrialError),
    /// The target host.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// The agent was lost in mid-run, and no other starts; with the store.
    #[error("{0}; `iopj run --resume {path}` goes on once that is mended", path = .1.display())]
    NoTargetHost(TrialError, PathBuf),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Ctrl-C before the first trial.
    #[error("interrupted before the first trial: nothing was kept")]
    Interrupted,
}

impl From<MeteringError> for RunError {
    fn from(error: MeteringError) -> RunError {
        match error {
            MeteringError::Refused(text) => RunError::Refused(text),
            MeteringError::Study(error) => RunError::Study(error),
            MeteringError::Fabric(error) => RunError::Fabric(error),
            MeteringError::Store(error) => RunError::Store(error),
            MeteringError::Interrupted => RunError::Interrupted,
        }
    }
}

impl RunError {
    /// A refusal with this message.
    pub(crate) fn refuse<T>(message: impl Into<String>) -> Result<T, RunError> {
        Err(RunError::Refused(message.into()))
    }
}

/// Why a trial failed, or a step towards it. The record of a failed trial keeps the text.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each field is")]
pub enum TrialError {
    /// The target, or the drive that is taken for it.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// An engine, or the drive that our driver has.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A setting.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A counter of the operating system.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// A trace.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A trace on this target.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// What was to work beside the I/O.
    #[error(transparent)]
    Corunner(#[from] CorunnerError),
    /// A connection over fabrics that did not last for the trial.
    #[error(
        "{host}: the connection to {place} broke in mid-trial, and {now}: check the network between the two \
         hosts, and whether the target still runs there"
    )]
    Broke {
        /// The target host.
        host: String,
        /// The address, the port and the transport.
        place: String,
        /// What became of it.
        now: String,
    },
    /// Samples of the window.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// fio.
    #[error(transparent)]
    Fio(#[from] FioError),
    /// The target host.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// The jobs of the native generator, or a snapshot around them.
    #[error(transparent)]
    Jobs(#[from] NativeError),
    /// A program that does its own I/O.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// I/Os that fio counts as failed.
    #[error("fio counts {0} failed I/Os")]
    FailedIos(u64),
    /// The study has trials by fio, and none was found.
    #[error("fio was not found")]
    NoFio,
    /// The jobs did not stop where they were to.
    #[error("the {0} was not bracketed")]
    NotBracketed(&'static str),
    /// A target that may not be written.
    #[error("{why}, and {path} is not a file that iopj made: {remedy}")]
    NotOurs { why: &'static str, path: PathBuf, remedy: &'static str },
    /// Another file has the name of the one that the store names.
    #[error("{path} is not the file that the store names: its id is {found}, not {id}")]
    OtherFile {
        path: PathBuf,
        /// The id in its header.
        found: FileId,
        /// The id in the store.
        id: FileId,
    },
    /// A path of kernel bypass without leave to take the device.
    #[error("{0} needs the device to itself: allow it by --take-device PCI-ADDRESS")]
    NotAllowed(IoPath),
    /// The target is on no side.
    #[error("{0} is not open")]
    NotOpen(PathBuf),
    /// SPDK has the device.
    #[error("the device was left to SPDK")]
    LeftToSpdk,
    /// The device cannot be taken for this target.
    #[error("{0}")]
    CannotTake(String),
    /// The target changed while it was out of sight.
    #[error("{0}")]
    Changed(String),
}
