//! What to do about the errors of set-up calls, each with a leading separator for its message.

use linux_raw_sys::io_uring as sys;

fn limit(resource: libc::__rlimit_resource_t) -> String {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place for the answer.
    match unsafe { libc::getrlimit(resource, &raw mut limit) } {
        0 if limit.rlim_cur != libc::RLIM_INFINITY => format!("{} bytes", limit.rlim_cur),
        _ => "unlimited".to_owned(),
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

/// `io_setup` failed.
pub(crate) fn io_setup(errno: i32, iodepth: u32) -> String {
    match errno {
        libc::EAGAIN => format!(
            ": {iodepth} requests exceed fs.aio-max-nr ({}, {} in use): lower iodepth or numjobs, or raise it by `sysctl fs.aio-max-nr=N`",
            read("/proc/sys/fs/aio-max-nr"),
            read("/proc/sys/fs/aio-nr")
        ),
        libc::ENOSYS => {
            ": this kernel has no native asynchronous I/O (CONFIG_AIO), or a seccomp filter hides it".into()
        }
        libc::EPERM => {
            ": a seccomp filter forbids it: run outside of the container or allow io_setup in its profile".into()
        }
        _ => String::new(),
    }
}

/// `io_uring_setup` failed; `required` are the flags that were asked for.
pub(crate) fn io_uring_setup(errno: i32, required: u32) -> String {
    match errno {
        libc::EPERM => match read("/proc/sys/kernel/io_uring_disabled").as_str() {
            "2" => ": io_uring is switched off by kernel.io_uring_disabled=2: `sysctl kernel.io_uring_disabled=0` switches it on".into(),
            "1" => {
                ": kernel.io_uring_disabled=1 keeps io_uring for members of the group kernel.io_uring_group: join it, or `sysctl kernel.io_uring_disabled=0`".into()
            }
            _ => ": a seccomp filter forbids io_uring: run outside of the container or allow io_uring_setup in its profile".into(),
        },
        libc::EMFILE => format!(
            ": RLIMIT_NOFILE ({}) is reached: lower numjobs, or raise it by `ulimit -n`",
            limit(libc::RLIMIT_NOFILE).trim_end_matches(" bytes")
        ),
        libc::ENOSYS => ": this kernel is older than Linux 5.1 or built without CONFIG_IO_URING, or a seccomp filter hides it".into(),
        libc::EINVAL if required & sys::IORING_SETUP_HYBRID_IOPOLL != 0 => ": hybrid polling needs Linux 6.13 or newer".into(),
        libc::EINVAL if required & sys::IORING_SETUP_SQE128 != 0 => ": NVMe passthrough needs Linux 5.19 or newer".into(),
        _ => memory_lock(errno),
    }
}

/// A call that locks memory failed.
pub(crate) fn memory_lock(errno: i32) -> String {
    match errno {
        libc::ENOMEM => format!(
            ": it would lock more memory than RLIMIT_MEMLOCK ({}) allows: lower iodepth, bs or numjobs, or raise it by `ulimit -l`",
            limit(libc::RLIMIT_MEMLOCK)
        ),
        _ => String::new(),
    }
}

/// `io_uring_enter` failed.
pub(crate) fn io_uring_enter(errno: i32) -> String {
    match errno {
        libc::EOPNOTSUPP => ": the target has no poll queues; for NVMe load the driver with nvme.poll_queues=N".into(),
        _ => String::new(),
    }
}
