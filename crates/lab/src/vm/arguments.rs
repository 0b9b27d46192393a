//! QEMU's arguments as they are built.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// Arguments of one command line.
#[derive(Default)]
pub(super) struct Arguments(Vec<OsString>);

impl Arguments {
    /// Adds one.
    pub(super) fn add(&mut self, argument: impl Into<OsString>) -> &mut Arguments {
        self.0.push(argument.into());
        self
    }

    /// Adds several.
    pub(super) fn extend<const N: usize>(&mut self, arguments: [&str; N]) -> &mut Arguments {
        self.0.extend(arguments.map(OsString::from));
        self
    }

    pub(super) fn into_vec(self) -> Vec<OsString> {
        self.0
    }
}

/// A path inside an option, where QEMU wants every comma doubled.
pub(super) fn escaped(path: &Path) -> OsString {
    let bytes = path.as_os_str().as_bytes().iter();
    OsString::from_vec(
        bytes.flat_map(|byte| std::iter::repeat_n(*byte, if *byte == b',' { 2 } else { 1 })).collect(),
    )
}
