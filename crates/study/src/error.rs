//! Why a study cannot be used.

/// Why a study cannot be used: one message with thing, cause and remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StudyError(pub String);

pub(crate) fn error<T>(message: impl Into<String>) -> Result<T, StudyError> {
    Err(StudyError(message.into()))
}
