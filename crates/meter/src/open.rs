//! Why a meter cannot be opened.

use thiserror::Error;

/// A meter that cannot be opened. The text names the thing, the cause and the remedy, and never a secret.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct OpenError(pub String);
