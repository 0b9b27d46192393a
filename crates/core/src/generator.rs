//! What issues the I/O of a trial, and how it reports the I/Os over time.

use serde::{Deserialize, Serialize};

/// What issues the I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Generator {
    /// iopj's own closed loop.
    Native,
    /// The installed fio.
    Fio,
    /// A program that does its own I/O and reports a figure of its own.
    Program,
}

impl Generator {
    /// The generator's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Generator::Native => "native",
            Generator::Fio => "fio",
            Generator::Program => "program",
        }
    }
}

/// I/Os that completed in one slice of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// End of the slice in ns since the window's start.
    pub end_ns: u64,
    /// I/Os completed in it.
    pub ios: u64,
}
