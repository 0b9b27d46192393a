//! Questions to the system that several modules ask: the last error, the kernel's version, the user, files of
//! one value.

use std::fs;
use std::path::Path;
use std::str::FromStr;

/// The process that made a value. After a fork the child has a copy, whose kernel objects, mappings and
/// requests are still the parent's: it must not end them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner(u32);

impl Owner {
    pub(crate) fn this_process() -> Owner {
        Owner(std::process::id())
    }

    /// False in a forked child of the owner.
    pub(crate) fn is_this_process(self) -> bool {
        self.0 == std::process::id()
    }
}

pub(crate) fn last_errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// The running kernel's version as (major, minor); (0, 0) if it cannot be read.
pub(crate) fn kernel_version() -> (u32, u32) {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The value in the file `name` of a folder below `/proc` or `/sys`; `None` if there is no such value.
pub(crate) fn attribute<T: FromStr>(folder: &Path, name: &str) -> Option<T> {
    fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok()
}
