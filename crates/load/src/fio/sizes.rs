//! What fio does of several sizes, flushes and durable writes.

use super::FioError;
use iopj_core::{IoPath, Length, Workload, WriteSync};

/// Whether fio does what the keys say. What it does was counted of fio 3.33 by strace and in its output:
/// with io_uring and posixaio above depth 1 it flushes up to once for each write (256 times in 256 writes at
/// fdatasync=4 and depth 8), and posixaio has one flush, fsync.
///
/// # Errors
/// [`FioError::Unsupported`]: what it does instead.
pub fn check(path: &IoPath, workload: &Workload) -> Result<(), FioError> {
    let flushes = workload.fsync > 0 || workload.fdatasync > 0;
    let is_durable = flushes || workload.sync != WriteSync::None;
    let queues_flushes = matches!(path, IoPath::IoUring(_) | IoPath::PosixAio(_));
    let reason = match path {
        IoPath::NvmePassthrough(_) | IoPath::Spdk if is_durable => {
            "its engine in fio 3.33 has neither flushes nor FUA"
        }
        IoPath::PosixAio(_) if workload.fdatasync > 0 => "fio asks for fsync instead of fdatasync",
        _ if flushes && queues_flushes && workload.iodepth > 1 => {
            "fio flushes more often than fsync and fdatasync say above iodepth 1"
        }
        _ if workload.sizes.is_some() && matches!(workload.length, Length::Ios(_)) => {
            "fio counts bytes, not I/Os, so with bssplit a window has a runtime instead of ios"
        }
        _ => return Ok(()),
    };
    Err(FioError::Unsupported { path: path.to_string(), reason: reason.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_core::Rw;

    fn plain() -> Workload {
        Workload { rw: Rw::Randwrite, ..Workload::default() }
    }

    fn of(path: &str, workload: &Workload) -> Result<(), String> {
        check(&path.parse().unwrap(), workload).map_err(|error| error.to_string())
    }

    #[test]
    fn what_fio_would_do_otherwise_is_refused() {
        let fsync = |iodepth| Workload { fsync: 4, iodepth, ..plain() };
        let fdatasync = |iodepth| Workload { fdatasync: 4, iodepth, ..plain() };
        let dsync = Workload { sync: WriteSync::Dsync, iodepth: 8, ..plain() };
        for (path, workload) in [
            ("io_uring/syscall/interrupt", fdatasync(1)),
            ("posix-aio/syscall/interrupt", fsync(1)),
            ("libaio/syscall/interrupt", fsync(8)),
            ("io_uring/syscall/interrupt", dsync.clone()),
            ("nvme-passthrough/syscall/interrupt", plain()),
        ] {
            assert!(of(path, &workload).is_ok(), "{path}");
        }
        let sizes =
            Workload { sizes: Some("4k/50:8k/50".parse().unwrap()), length: Length::Ios(9), ..plain() };
        for (path, workload, words) in [
            ("io_uring/syscall/interrupt", fdatasync(2), "flushes more often"),
            ("io_uring/sqpoll/interrupt", fsync(8), "flushes more often"),
            ("posix-aio/syscall/interrupt", fsync(2), "flushes more often"),
            ("posix-aio/syscall/interrupt", fdatasync(1), "fsync instead of fdatasync"),
            ("nvme-passthrough/syscall/interrupt", dsync.clone(), "neither flushes nor FUA"),
            ("spdk/doorbell/poll", dsync, "neither flushes nor FUA"),
            ("libaio/syscall/interrupt", sizes, "a runtime instead of ios"),
        ] {
            let message = of(path, &workload).unwrap_err();
            assert!(message.starts_with(&format!("{path} cannot be run by fio: ")), "{message}");
            assert!(message.contains(words), "{message}");
        }
    }
}
