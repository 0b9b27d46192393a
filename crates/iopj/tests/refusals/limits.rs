//! Malformed numbers, and limits of the machine, each named.

use crate::common::{alone, folder, have, iopj, is_root, output, written};
use crate::fio::false_fio;
use crate::{PLAIN, as_nobody, open_folder, refused, refuses};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

#[test]
fn numbers_out_of_range_are_refused() {
    let folder = folder().with_data(1 << 20);
    for (line, parts) in [
        ("--iodepth 0", ["iodepth: 0 is too few", "the least is 1"]),
        ("--iodepth 1,0", ["iodepth: 0 is too few", "the least is 1"]),
        ("--numjobs 0", ["numjobs: 0 is too few", "the least is 1"]),
        ("--iodepth 40000", ["iodepth 40000 is beyond the limit of 32768", "lower it"]),
        ("--numjobs 5000", ["numjobs 5000 is beyond the limit of 4096", "lower it"]),
        ("--bs 0", ["bs: 0 is not between 1", "1g"]),
        ("--bs 4q", ["`4q` is not a size", "bs"]),
        ("--ios 0", ["`ios` is 0", "give the number of I/Os"]),
        ("--replicates 0", ["replicates", "0"]),
        ("--replicates 4294967295 --ios 1", ["4294967295", "replicates"]),
        ("--rw randtrim", ["`randtrim` is not a value of rw", "randread"]),
        ("--bs 1m --iodepth 32768 --numjobs 4096", ["more than half of the", "lower one of the three"]),
    ] {
        let options = "--target data --meters none --path posix-aio/syscall/interrupt --ramp-time 0s";
        refuses(&folder, &format!("run {options} {line}"), &parts);
    }
    let line = format!("run --target data {}", PLAIN.replace("--iodepth 1", "--iodepth 32"));
    let parts = [
        "posix-sio/syscall/interrupt is synchronous and cannot keep iodepth 32",
        "use iodepth 1 and more numjobs",
    ];
    refuses(&folder, &line, &parts);
}

#[test]
fn locked_memory_is_limited_by_name() {
    if !have(is_root(), "root, to become another user") {
        return;
    }
    let _alone = alone();
    let folder = open_folder();
    let data = folder.join("data");
    written(&data, 1 << 20);
    fs::set_permissions(&data, Permissions::from_mode(0o644)).unwrap();
    // Only the limit may keep this user from a store.
    fs::set_permissions(&*folder, Permissions::from_mode(0o777)).unwrap();
    let path = "io_uring/syscall/interrupt+registered";
    let line = format!("run --target data --meters none --path {path} --iodepth 64 --ios 200");
    let mut command = as_nobody(&folder, &line);
    limits(&mut command, libc::RLIMIT_MEMLOCK, 65_536, 65_536);
    let parts = [
        "io_uring/syscall/interrupt+registered cannot be set up at iodepth 64",
        "RLIMIT_MEMLOCK (65536 bytes)",
        "lower iodepth, bs or numjobs, or raise it by `ulimit -l`",
    ];
    refused(&mut command, &folder, &parts);
}

#[test]
fn open_files_are_limited_by_name() {
    let _alone = alone();
    let folder = folder().with_data(1 << 20);
    for line in [
        "posix-aio/syscall/interrupt+fd-per-slot --iodepth 128",
        "posix-sio/syscall/interrupt --iodepth 1 --numjobs 128",
    ] {
        let mut command = iopj(&folder, &format!("run --target data --meters none --ios 200 --path {line}"));
        limits(&mut command, libc::RLIMIT_NOFILE, 64, 64);
        let path = line.split(' ').next().unwrap();
        let parts =
            [&*format!("{path} cannot be set up at iodepth"), "RLIMIT_NOFILE (64", "lower", "`ulimit -n`"];
        refused(&mut command, &folder, &parts);
    }
}

/// 64 descriptors were too few for 128 jobs, and for the counters of a pass on a large machine, although the
/// program could raise its limit. fio keeps the limit that it would have had.
#[test]
fn the_limit_of_open_files_is_raised_as_far_as_it_can_be() {
    let _alone = alone();
    let here = &*folder().with_data(1 << 20);
    let run = |line: &str| {
        let options = "--target data --meters none --ramp-time 0s --ios 200 --replicates 1";
        let mut command = iopj(here, &format!("run {options} {line}"));
        command.env("PATH", format!("{}:/usr/bin:/bin", here.display()));
        limits(&mut command, libc::RLIMIT_NOFILE, 64, 4096);
        output(&mut command)
    };
    let (done, messages) = run("--path posix-aio/syscall/interrupt+fd-per-slot --iodepth 128");
    assert!(done.status.success(), "{messages}");
    let notes_limit = format!("ulimit -Sn >{};", here.join("seen").display());
    false_fio(here, "fio-3.33", "psync\\npvsync2\\n", &notes_limit);
    let (_, messages) = run("--generator fio --path posix-sio/syscall/interrupt --iodepth 1");
    let seen = fs::read_to_string(here.join("seen")).unwrap_or_else(|error| panic!("{error}: {messages}"));
    assert_eq!(seen, "64\n");
}

/// Lowers a limit of the program that `command` will run.
fn limits(command: &mut Command, resource: libc::__rlimit_resource_t, soft: u64, hard: u64) {
    let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard };
    // SAFETY: one system call, which is async-signal-safe, on a struct that the closure owns.
    unsafe {
        command.pre_exec(move || match libc::setrlimit(resource, &raw const limit) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        })
    };
}

#[test]
fn native_asynchronous_requests_are_limited_by_name() {
    let limit: u64 = fs::read_to_string("/proc/sys/fs/aio-max-nr").unwrap().trim().parse().unwrap();
    let _alone = alone();
    let folder = folder().with_data(1 << 20);
    let jobs = limit / 16_384 + 1;
    if !have(jobs <= 65, "fs.aio-max-nr of at most 2^20, for the buffers to fit into memory") {
        return;
    }
    let line = "run --target data --meters none --path libaio/syscall/interrupt --iodepth 16384 --bs 512 \
                --ios 200 --ramp-time 0s";
    let parts = [
        "libaio/syscall/interrupt cannot be set up at iodepth 16384",
        &*format!("fs.aio-max-nr ({limit}"),
        "lower iodepth or numjobs, or raise it by `sysctl fs.aio-max-nr=N`",
    ];
    refuses(&folder, &format!("{line} --numjobs {jobs}"), &parts);
}
