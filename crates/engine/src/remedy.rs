//! What to do about the errors of set-up calls, each with a leading separator for its message.

use crate::system::{attribute, is_root, kernel_version};
use linux_raw_sys::io_uring as sys;
use rustix::process::{Resource, getrlimit};
use std::path::Path;

fn limit(resource: Resource) -> String {
    getrlimit(resource).current.map_or_else(|| "unlimited".to_owned(), |limit| format!("{limit} bytes"))
}

fn read(folder: &str, name: &str) -> String {
    attribute(Path::new(folder), name).unwrap_or_else(|| "unknown".to_owned())
}

/// `io_setup` failed.
pub(crate) fn io_setup(errno: i32, iodepth: u32) -> String {
    match errno {
        libc::EAGAIN => format!(
            ": {iodepth} requests exceed fs.aio-max-nr ({}, {} in use): lower iodepth or numjobs, or raise \
             it by `sysctl fs.aio-max-nr=N`",
            read("/proc/sys/fs", "aio-max-nr"),
            read("/proc/sys/fs", "aio-nr")
        ),
        libc::ENOSYS => {
            ": this kernel has no native asynchronous I/O (CONFIG_AIO), or a seccomp filter hides it".into()
        }
        libc::EPERM => ": a seccomp filter forbids it: run outside of the container or allow io_setup in \
                        its profile"
            .into(),
        _ => String::new(),
    }
}

/// io_uring is forbidden to this user; `disabled` is what `kernel.io_uring_disabled` says.
fn io_uring_forbidden(required: u32, disabled: &str, kernel: (u32, u32), is_root: bool) -> &'static str {
    let sqpoll = required & sys::IORING_SETUP_SQPOLL != 0;
    match disabled {
        "2" => {
            ": io_uring is switched off by kernel.io_uring_disabled=2: `sysctl kernel.io_uring_disabled=0` \
             switches it on"
        }
        "1" => {
            ": kernel.io_uring_disabled=1 keeps io_uring for members of the group kernel.io_uring_group: \
             join it, or `sysctl kernel.io_uring_disabled=0`"
        }
        _ if sqpoll && kernel < (5, 11) && !is_root => {
            ": before Linux 5.11 sqpoll needs root: run iopj as root, or use a newer kernel"
        }
        _ if sqpoll && kernel < (5, 13) && !is_root => {
            ": before Linux 5.13 sqpoll needs root or CAP_SYS_NICE: run iopj as root, or use a newer kernel"
        }
        _ => {
            ": a seccomp filter forbids io_uring: run outside of the container or allow io_uring_setup in \
             its profile"
        }
    }
}

/// `io_uring_setup` failed; `required` are the flags that were asked for.
pub(crate) fn io_uring_setup(errno: i32, required: u32) -> String {
    match errno {
        libc::EPERM => {
            let disabled = read("/proc/sys/kernel", "io_uring_disabled");
            io_uring_forbidden(required, &disabled, kernel_version(), is_root()).into()
        }
        libc::EMFILE => format!(
            ": RLIMIT_NOFILE ({}) is reached: lower numjobs, or raise it by `ulimit -n`",
            limit(Resource::Nofile).trim_end_matches(" bytes")
        ),
        libc::ENOSYS => ": this kernel is older than Linux 5.1 or built without CONFIG_IO_URING, or a \
                         seccomp filter hides it"
            .into(),
        libc::EINVAL if required & sys::IORING_SETUP_HYBRID_IOPOLL != 0 => {
            ": hybrid polling needs Linux 6.13 or newer".into()
        }
        libc::EINVAL if required & sys::IORING_SETUP_SQE128 != 0 => {
            ": NVMe passthrough needs Linux 5.19 or newer".into()
        }
        _ => memory_lock(errno),
    }
}

/// A call that locks memory failed.
pub(crate) fn memory_lock(errno: i32) -> String {
    match errno {
        libc::ENOMEM => format!(
            ": it would lock more memory than RLIMIT_MEMLOCK ({}) allows: lower iodepth, bs or numjobs, or \
             raise it by `ulimit -l`",
            limit(Resource::Memlock)
        ),
        _ => String::new(),
    }
}

/// `io_uring_enter` failed.
pub(crate) fn io_uring_enter(errno: i32) -> String {
    match errno {
        libc::EOPNOTSUPP => ": the target does not poll: load the NVMe driver with nvme.poll_queues=N, and \
                             for a file use ext4 or XFS"
            .into(),
        libc::EAGAIN => {
            ": the kernel has no memory for a request: free some, or lower iodepth or numjobs".into()
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forbidden_io_uring_names_what_forbids_it() {
        const SQPOLL: u32 = sys::IORING_SETUP_SQPOLL;
        for (required, disabled, kernel, is_root, expected) in [
            (SQPOLL, "unknown", (5, 10), false, "before Linux 5.11 sqpoll needs root"),
            (SQPOLL, "unknown", (5, 12), false, "needs root or CAP_SYS_NICE"),
            (SQPOLL, "unknown", (5, 10), true, "a seccomp filter"),
            (SQPOLL, "unknown", (5, 13), false, "a seccomp filter"),
            (0, "unknown", (5, 10), false, "a seccomp filter"),
            (SQPOLL, "2", (6, 12), false, "io_uring_disabled=2"),
            (0, "1", (6, 12), false, "io_uring_group"),
        ] {
            let remedy = io_uring_forbidden(required, disabled, kernel, is_root);
            assert!(remedy.starts_with(": ") && remedy.contains(expected), "{remedy}");
        }
    }
}
