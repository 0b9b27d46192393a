//! Why a run of the native generator failed.

use super::offsets::OffsetsError;
use crate::trace::Op;
use iopj_engine::{EngineError, IoError};
use std::error::Error;
use std::io;

/// Why the jobs of a trial did not do their work.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each field is")]
pub enum NativeError {
    /// The stop flag was set.
    #[error("interrupted")]
    Interrupted,
    /// An engine did not open, or is finished.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The offsets cannot be drawn.
    #[error(transparent)]
    Offsets(#[from] OffsetsError),
    /// I/Os failed.
    #[error("{} of {issued} I/Os failed: {}", total(.errors), kinds(.errors))]
    Ios { issued: u64, errors: Vec<(IoError, u64)> },
    /// The trace has operations that the path lacks.
    #[error(
        "the trace has {many} of the operation {op}, which this interface lacks: leave them out by \
         replay_skip = [\"{op}\"], or take another path"
    )]
    NoSuchOp { op: Op, many: u64 },
    /// The workload has flushes that the path lacks.
    #[error("this interface has no {0}: leave fsync and fdatasync out, or take another path")]
    NoFlush(Op),
    /// A processor of `cpus_allowed` that this process may not use.
    #[error("cpus_allowed names cpu {0}, which this process may not use")]
    Cpu(u32),
    /// The kernel refused the processors.
    #[error("the processors of cpus_allowed cannot be used")]
    Affinity,
    /// A thread was refused.
    #[error("a thread for the job could not be started: {0}; lower numjobs")]
    Thread(io::Error),
    /// A bug: a job panicked.
    #[error("a job ended by a panic")]
    Panic,
    /// A job was stopped before it began, because another one failed.
    #[error("the job did not start")]
    NotStarted,
    /// The caller's own work at a [`Moment`](super::Moment) failed.
    #[error(transparent)]
    Caller(Box<dyn Error + Send + Sync>),
}

fn total(errors: &[(IoError, u64)]) -> u64 {
    errors.iter().map(|(_, count)| count).sum()
}

fn kinds(errors: &[(IoError, u64)]) -> String {
    let kinds: Vec<String> = errors.iter().map(|(error, count)| format!("{count} by {error}")).collect();
    kinds.join(", ")
}
