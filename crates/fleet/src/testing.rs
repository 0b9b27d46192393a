//! Stores of a fleet whose truth is known, for tests and for what times them (feature `testing`).

pub mod fleet;
pub mod host;
pub mod measure;
pub mod uneven;
