//! The paths that a program was seen to take, in words that never take a buffered one for a direct one.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The interface of a path that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SeenInterface {
    /// `read`, `pread` and their relatives.
    #[serde(rename = "posix-sio")]
    PosixSio,
    /// `aio_read` and its relatives, which threads of the C library serve.
    #[serde(rename = "posix-aio")]
    PosixAio,
    /// `io_submit`.
    #[serde(rename = "libaio")]
    Libaio,
    /// A ring.
    #[serde(rename = "io_uring")]
    IoUring,
    /// Commands passed through a ring.
    #[serde(rename = "nvme-passthrough")]
    NvmePassthrough,
    /// Page faults of mapped files.
    #[serde(rename = "mmap")]
    Mmap,
}

/// How a path that was seen completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeenCompletion {
    /// An interrupt, or a kernel worker on its behalf.
    Interrupt,
    /// The thread that waits.
    Poll,
    /// The same after a sleep.
    Hybrid,
    /// Both interrupts and the threads that wait, and it cannot be said which is this path's.
    Mixed,
    /// It was not seen.
    Unknown,
}

/// Whether I/O goes past the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeenCaching {
    /// `O_DIRECT`.
    Direct,
    /// Through the page cache.
    Buffered,
    /// The program does both, and it cannot be said which is this path's.
    Mixed,
    /// It was not seen.
    Unknown,
}

/// How sure a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// Events of the kernel that nothing else causes were counted.
    Proven,
    /// It follows from what else was seen.
    Inferred,
}

/// A path that a program takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeenPath {
    /// The interface.
    pub interface: SeenInterface,
    /// A submission poller hands the I/O on, instead of a system call.
    pub sqpoll: bool,
    /// How it completes.
    pub completion: SeenCompletion,
    /// Whether it goes through the page cache.
    pub caching: SeenCaching,
    /// Its share of the calls and ring entries that hand I/O to the kernel.
    pub share: f64,
    /// How sure that is.
    pub certainty: Certainty,
    /// What shows it.
    pub why: String,
}

impl SeenPath {
    /// The path in words: `io_uring/sqpoll/interrupt`; a buffered one is never named like a direct one:
    /// `posix-sio, buffered`.
    pub fn name(&self) -> String {
        let interface = self.interface;
        let submission = if self.sqpoll { "sqpoll" } else { "syscall" };
        match self.caching {
            SeenCaching::Buffered if self.interface == SeenInterface::Mmap => interface.to_string(),
            SeenCaching::Buffered if self.sqpoll => format!("{interface} sqpoll, buffered"),
            SeenCaching::Buffered => format!("{interface}, buffered"),
            SeenCaching::Direct => format!("{interface}/{submission}/{}", self.completion),
            SeenCaching::Mixed | SeenCaching::Unknown => {
                let caching = match self.caching {
                    SeenCaching::Mixed => "partly buffered",
                    _ => "direct or buffered",
                };
                format!("{interface}/{submission}/{}, {caching}", self.completion)
            }
        }
    }
}

impl fmt::Display for SeenInterface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl fmt::Display for SeenCompletion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl fmt::Display for Certainty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffered_path_is_never_named_like_a_direct_one() {
        let path = |interface, sqpoll, caching| SeenPath {
            interface,
            sqpoll,
            completion: SeenCompletion::Interrupt,
            caching,
            share: 1.0,
            certainty: Certainty::Proven,
            why: String::new(),
        };
        let direct = path(SeenInterface::IoUring, true, SeenCaching::Direct);
        assert_eq!(direct.name(), "io_uring/sqpoll/interrupt");
        let buffered = path(SeenInterface::PosixSio, false, SeenCaching::Buffered);
        assert_eq!(buffered.name(), "posix-sio, buffered");
        let unknown = path(SeenInterface::Libaio, false, SeenCaching::Unknown);
        assert_eq!(unknown.name(), "libaio/syscall/interrupt, direct or buffered");
        assert_eq!(path(SeenInterface::Mmap, false, SeenCaching::Buffered).name(), "mmap");
    }
}
