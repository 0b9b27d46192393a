//! What runs inside a guest: tests that the host's side starts there by name.

mod content;
mod drive;
mod failures;
mod soak;

pub(crate) use drive::{MIB, digest};
