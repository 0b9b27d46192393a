//! io_uring switched off, by sysctl and by seccomp: refused if it was asked for, else left out.

use crate::common::{alone, folder, have, iopj, is_root, written};
use crate::{SHORT, refused, succeeds};
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

const SYSCTL: &str = "/proc/sys/kernel/io_uring_disabled";
const ASKED: &str = "--path io_uring/syscall/interrupt";

/// Keeps the sysctl's original value while it has another, for the run after one that was killed. A reboot
/// resets both.
const KEPT: &str = "/run/iopj-tests.io_uring_disabled";

/// Gives the sysctl another value until it is dropped.
struct Sysctl;

impl Sysctl {
    fn set(value: &str) -> Sysctl {
        put_back();
        fs::write(format!("{KEPT}.new"), fs::read(SYSCTL).unwrap()).unwrap();
        fs::rename(format!("{KEPT}.new"), KEPT).unwrap();
        let guard = Sysctl;
        fs::write(SYSCTL, value).unwrap();
        guard
    }
}

impl Drop for Sysctl {
    fn drop(&mut self) {
        put_back();
    }
}

/// Gives the sysctl the kept value, if there is one.
fn put_back() {
    if let Ok(own) = fs::read(KEPT) {
        let _ = fs::write(SYSCTL, own).and_then(|()| fs::remove_file(KEPT));
    }
}

/// Asks `run` for io_uring, which is refused, then for all available paths, which run without it.
fn without_io_uring(folder: &Path, forbid: impl Fn(&mut Command), cause: &str, remedy: &str) {
    let mut command = iopj(folder, &format!("run --target data {ASKED} {SHORT}"));
    forbid(&mut command);
    let thing = "none of the study's paths works on data: io_uring/syscall/interrupt: io_uring_setup failed";
    refused(&mut command, folder, &[thing, cause, remedy]);
    let mut command = iopj(folder, &format!("run --target data --path available {SHORT} --json"));
    forbid(&mut command);
    let (text, _) = succeeds(&mut command);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let paths: Vec<&str> =
        value["trials"].as_array().unwrap().iter().map(|t| t["path"].as_str().unwrap()).collect();
    assert!(paths.contains(&"libaio/syscall/interrupt"), "{paths:?}");
    assert!(!paths.iter().any(|path| path.starts_with("io_uring")), "{paths:?}");
    let unavailable = value["study"]["unavailable"].as_array().unwrap();
    let entry = unavailable.iter().find(|entry| entry["path"] == "io_uring/syscall/interrupt").unwrap();
    let said = format!("{} {}", entry["reason"], entry["remedy"]);
    assert!(said.contains(cause) && said.contains(remedy), "{said}");
}

#[test]
fn sysctl_is_named() {
    let Some(folder) =
        have(is_root() && Path::new(SYSCTL).exists(), "root and the sysctl kernel.io_uring_disabled")
            .then(folder)
    else {
        return;
    };
    let _alone = alone();
    written(&folder.join("data"), 1 << 20);
    let _sysctl = Sysctl::set("2");
    let cause = "io_uring is switched off by kernel.io_uring_disabled=2";
    without_io_uring(&folder, |_| {}, cause, "`sysctl kernel.io_uring_disabled=0`");
}

#[test]
fn seccomp_is_named() {
    let _alone = alone();
    let folder = folder().with_data(1 << 20);
    let forbid = |command: &mut Command| {
        // SAFETY: `forbid_io_uring` only makes system calls, which are async-signal-safe, on data of its own.
        unsafe { command.pre_exec(forbid_io_uring) };
    };
    without_io_uring(
        &folder,
        forbid,
        "a seccomp filter forbids io_uring",
        "allow io_uring_setup in its profile",
    );
}

/// Installs a filter that answers EPERM to `io_uring_setup`, as container runtimes do (seccomp(2)).
fn forbid_io_uring() -> io::Result<()> {
    let code = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    // The system call's number is the first word of the filter's data.
    let mut filter = [
        code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_io_uring_setup as u32),
        code(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        code(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the kernel copies the program, which outlives the call.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}
