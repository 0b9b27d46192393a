//! io_uring's own names: the flags of a ring's set-up, and the kernel's threads that serve it (sqpoll,
//! workers).

use serde::{Deserialize, Serialize};
use std::fmt;

/// A flag of `io_uring_setup` that iopj asks for (include/uapi/linux/io_uring.h). Stored by its name there,
/// without `IORING_SETUP_`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RingFlag {
    /// Completions are polled for.
    Iopoll,
    /// A thread of the kernel submits.
    Sqpoll,
    /// That thread is bound to a processor.
    SqAff,
    /// Polling sleeps first.
    HybridIopoll,
    /// Sizes are cut to what the kernel allows.
    Clamp,
    /// The thread is not interrupted for work of the ring.
    CoopTaskrun,
    /// One thread submits.
    SingleIssuer,
    /// Work of the ring is done when its completions are asked for.
    DeferTaskrun,
    /// Submission entries of 128 bytes.
    #[serde(rename = "SQE128")]
    Sqe128,
    /// Completion entries of 32 bytes.
    #[serde(rename = "CQE32")]
    Cqe32,
}

impl fmt::Display for RingFlag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// A thread of the kernel that serves a ring, known by its name (io_uring/sqpoll.c, io_uring/io-wq.c).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingThread {
    /// A submission poller, in the process that has the ring.
    Poller,
    /// A submission poller before Linux 5.12: a process of the kernel's own.
    KernelPoller,
    /// A worker, in the process that has the ring.
    Worker,
}

impl RingThread {
    /// The kind of thread that has this name, if any has. A program may give its own threads such names, so
    /// the caller must know which threads can be the kernel's.
    pub fn of(name: &str) -> Option<RingThread> {
        match name.trim_end() {
            "io_uring-sq" => Some(RingThread::KernelPoller),
            name if name.starts_with("iou-sqp-") => Some(RingThread::Poller),
            name if name.starts_with("iou-wrk-") => Some(RingThread::Worker),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_stored_by_the_kernels_names() {
        for (flag, name) in [
            (RingFlag::Iopoll, "IOPOLL"),
            (RingFlag::Sqpoll, "SQPOLL"),
            (RingFlag::SqAff, "SQ_AFF"),
            (RingFlag::HybridIopoll, "HYBRID_IOPOLL"),
            (RingFlag::Clamp, "CLAMP"),
            (RingFlag::CoopTaskrun, "COOP_TASKRUN"),
            (RingFlag::SingleIssuer, "SINGLE_ISSUER"),
            (RingFlag::DeferTaskrun, "DEFER_TASKRUN"),
            (RingFlag::Sqe128, "SQE128"),
            (RingFlag::Cqe32, "CQE32"),
        ] {
            assert_eq!(flag.to_string(), name);
            let stored = format!("\"{name}\"");
            assert_eq!(serde_json::to_string(&flag).unwrap(), stored);
            assert_eq!(serde_json::from_str::<RingFlag>(&stored).unwrap(), flag);
        }
    }

    #[test]
    fn threads_are_known_by_their_names() {
        for (name, thread) in [
            ("iou-sqp-104", Some(RingThread::Poller)),
            ("io_uring-sq", Some(RingThread::KernelPoller)),
            ("iou-wrk-104", Some(RingThread::Worker)),
            ("io_uring-sq\n", Some(RingThread::KernelPoller)),
            ("io_uring-sqx", None),
            ("iou-", None),
            ("fio", None),
        ] {
            assert_eq!(RingThread::of(name), thread, "{name}");
        }
    }
}
