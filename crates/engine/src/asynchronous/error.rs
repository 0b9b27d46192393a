//! Why a request has no result.

use crate::error::{EngineError, Refused};
use crate::request::IoError;
use std::rc::Rc;
use thiserror::Error;

/// Why a request has no completion; also why a [flush](crate::asynchronous::AsyncEngine::flush) failed.
#[derive(Debug, Error)]
pub enum RequestError {
    /// The engine did not take the request, which is in here with its buffer: nothing was done.
    #[error(transparent)]
    Refused(Refused),
    /// The engine is finished. The buffer goes back to the pool, when the engine is dropped at the latest.
    #[error("{0}")]
    Finished(Rc<EngineError>),
    /// The flush failed.
    #[error(transparent)]
    Failed(IoError),
}
