//! Programs in C, and fio, with the library and without it: they say the same, and their I/O is moved.

use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// Below `target/`, which is on a disk's file system.
fn folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// True to go on; otherwise the test is skipped, or fails under CI.
fn have(condition: bool, what: &str) -> bool {
    if !condition {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "needs {what}");
        eprintln!("skipped: needs {what}");
    }
    condition
}

/// The library that cargo built for these tests.
fn library() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("libiopj_preload.so")
}

/// A machine that has rings moves by them; one that has none has nothing to show here.
fn has_rings() -> bool {
    let folder = folder();
    let file = folder.path().join("data");
    iopj_engine::target::make_file(&file, 4096, &mut |_| true).unwrap();
    let target = iopj_engine::Target::open(&file).unwrap();
    let path = "io_uring/syscall/interrupt".parse().unwrap();
    have(iopj_engine::check::check(path, &target).is_available(), "io_uring")
}

/// Compiles a C program beside this file; `None` without one, or without rings.
fn compile(folder: &Path, name: &str) -> Option<PathBuf> {
    let has_compiler = Command::new("cc").arg("--version").output().is_ok();
    if !have(has_compiler, "a C compiler (apt-get install gcc libc6-dev)") || !has_rings() {
        return None;
    }
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/preload");
    let program = folder.join(name);
    let mut command = Command::new("cc");
    command.args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]).arg(&program);
    let output = command.arg(sources.join(format!("{name}.c"))).arg("-ldl").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

/// A program under the library; `stats` gets a line for each of its processes.
fn preloaded(program: &OsStr, stats: &Path) -> Command {
    preloaded_for("120", program, stats)
}

/// As [`preloaded`], of which nothing hangs that takes less than so many seconds.
fn preloaded_for(seconds: &str, program: &OsStr, stats: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.arg(seconds).arg("env").arg(format!("LD_PRELOAD={}", library().display())).arg(program);
    command.env("IOPJ_PRELOAD_STATS", stats);
    command
}

/// What its processes counted.
fn counts(stats: &Path) -> Vec<Value> {
    let text = fs::read_to_string(stats).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The sum over the processes of a number, by its place.
fn sum(counts: &[Value], place: &str) -> u64 {
    counts.iter().filter_map(|process| process.pointer(place)?.as_u64()).sum()
}

fn said(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Runs a test of a C program with the library and without: it must say the same. Returns what was counted.
fn compared(program: &Path, test: &str) -> Vec<Value> {
    compared_with(program, test, None)
}

/// As [`compared`], with a device that the program finds in its folder.
fn compared_with(program: &Path, test: &str, device: Option<&Path>) -> Vec<Value> {
    let (plain, under) = (folder(), folder());
    for folder in [&plain, &under] {
        if let Some(device) = device {
            std::os::unix::fs::symlink(device, folder.path().join("device")).unwrap();
        }
    }
    let without = Command::new(program).arg(test).arg(plain.path()).output().unwrap();
    let stats = under.path().join("stats");
    let with = preloaded(program.as_os_str(), &stats).arg(test).arg(under.path()).output().unwrap();
    assert_eq!(said(&without).0, Some(0), "{test}: {:?}", said(&without));
    assert_eq!(said(&with), said(&without), "{test}");
    let counts = counts(&stats);
    assert_eq!(
        (sum(&counts, "/bytes_copied"), sum(&counts, "/engines_failed")),
        (0, 0),
        "{test}: {counts:?}"
    );
    counts
}

/// What a process has given to engines, whichever way it went.
fn by_way(process: &Value) -> u64 {
    process["ways"].as_object().unwrap().values().filter_map(Value::as_u64).sum()
}

/// The calls of a process that engines have ended.
fn moved(process: &Value) -> u64 {
    let interfaces = process["moved"].as_object().unwrap().values();
    interfaces.filter_map(|interface| interface["calls"].as_u64()).sum()
}

/// Runs tests, each of which must move something by `interface`, and pass something through for each reason.
fn all(program: &Path, interface: &str, tests: &[(&str, &[&str])]) {
    for (test, reasons) in tests {
        let counts = compared(program, test);
        let calls = sum(&counts, &format!("/moved/{interface}/calls"));
        assert!(calls > 0 && sum(&counts, "/engines_opened") > 0, "{test}: {counts:?}");
        for process in &counts {
            assert_eq!(by_way(process), moved(process), "{test}: {process}");
        }
        // No handler comes in while the thread is in, and none leaves it halfway.
        assert_eq!(sum(&counts, "/passed/nested"), 0, "{test}: {counts:?}");
        for reason in *reasons {
            assert!(sum(&counts, &format!("/passed/{reason}")) > 0, "{test}: {reason}: {counts:?}");
        }
    }
}

#[test]
fn calls_that_wait_mean_what_they_meant() {
    let folder = folder();
    let Some(program) = compile(folder.path(), "synchronous") else { return };
    let results = ["unaligned", "length", "vectors", "call_flags", "open_flags", "not_open", "warm_up"];
    let tests: [(&str, &[&str]); 13] = [
        ("limits", &["size_limit"]),
        ("unshared", &[]),
        ("vectors_without_end", &["vectors"]),
        ("forks_beside", &[]),
        ("stacks", &["stack"]),
        ("results", &results),
        ("threads", &["warm_up"]),
        ("forks", &["warm_up"]),
        ("numbers", &["buffered", "not_a_file", "not_open"]),
        ("locks", &[]),
        ("signals", &["signal_handler"]),
        ("leap", &[]),
        ("cancel", &[]),
    ];
    all(&program, "posix-sio", &tests);
}

/// A loop device over a file of one byte; gone when it is dropped.
struct LoopDevice(PathBuf);

impl LoopDevice {
    fn over(file: &Path) -> Option<LoopDevice> {
        fs::write(file, vec![5; 1 << 20]).unwrap();
        let mut command = Command::new("losetup");
        let output = command.args(["--find", "--show", "--direct-io=on"]).arg(file).output();
        let output = output.ok().filter(|output| output.status.success());
        if !have(output.is_some(), "root, and loop devices") {
            return None;
        }
        output.map(|output| LoopDevice(said(&output).1.trim().into()))
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

#[test]
fn a_number_that_names_another_device_gets_another_engine() {
    let folder = folder();
    let Some(program) = compile(folder.path(), "synchronous") else { return };
    let Some(device) = LoopDevice::over(&folder.path().join("image")) else { return };
    let counts = compared_with(&program, "devices", Some(&device.0));
    assert!(sum(&counts, "/engines_opened") >= 6, "{counts:?}");
}

#[test]
fn buffered_descriptors_are_left_alone() {
    let folder = folder();
    let Some(program) = compile(folder.path(), "synchronous") else { return };
    let counts = compared(&program, "buffered");
    assert_eq!((sum(&counts, "/passed/buffered"), sum(&counts, "/engines_opened")), (100, 0), "{counts:?}");
    assert_eq!(sum(&counts, "/moved/posix-sio/calls"), 0);
}

/// libaio is on every machine with fio; from trixie on Debian calls the file `libaio.so.1t64`.
fn has_libaio() -> bool {
    let output = Command::new("sh").args(["-c", "ldconfig -p | grep -Eq 'libaio.so.1(t64)? '"]).output();
    have(output.is_ok_and(|output| output.status.success()), "libaio.so.1 (apt-get install fio)")
}

#[test]
fn calls_of_libaio_mean_what_they_meant() {
    let folder = folder();
    let Some(program) = compile(folder.path(), "asynchronous").filter(|_| has_libaio()) else { return };
    let tests: [(&str, &[&str]); 4] = [
        ("libaio_destroyed", &["trial"]),
        ("libaio", &["trial", "not_open", "unaligned", "operation", "notified"]),
        ("libaio_threads", &["shared"]),
        ("interrupted", &[]),
    ];
    all(&program, "libaio", &tests);
}

#[test]
fn calls_of_posix_aio_mean_what_they_meant() {
    let folder = folder();
    let Some(program) = compile(folder.path(), "asynchronous") else { return };
    let tests: [(&str, &[&str]); 5] = [
        ("posix_aio_waits", &["unaligned"]),
        ("posix_aio", &["trial", "not_open", "unaligned", "notified"]),
        ("posix_aio_threads", &["shared"]),
        ("ended_in_flight", &[]),
        ("closed_in_flight", &[]),
    ];
    all(&program, "posix-aio", &tests);
}

#[test]
fn what_programs_seldom_do_means_what_it_meant() {
    let folder = folder();
    let Some(program) = compile(folder.path(), "corners").filter(|_| has_libaio()) else { return };
    let libaio: [(&str, &[&str]); 7] = [
        ("masked_destroy", &[]),
        ("masked_wait", &[]),
        ("local", &["operation"]),
        ("late_cancel", &[]),
        ("in_a_handler", &["signal_handler"]),
        ("crossed", &[]),
        ("changed_in_flight", &[]),
    ];
    all(&program, "libaio", &libaio);
    let posix_aio: [(&str, &[&str]); 4] = [
        ("child_ends", &[]),
        ("overlaps", &["overlap", "notified"]),
        ("syncs_beside", &[]),
        ("other_stack", &[]),
    ];
    all(&program, "posix-aio", &posix_aio);
    let posix_sio: [(&str, &[&str]); 1] = [("held_off", &["signal_handler"])];
    all(&program, "posix-sio", &posix_sio);
    // Others could not ask this thread for what it has in flight.
    let counts = compared(&program, "unreachable");
    assert!(sum(&counts, "/passed/unreachable") > 0 && moved(&counts[0]) == 0, "{counts:?}");
}

#[test]
fn what_is_in_flight_is_done_when_its_process_ends_or_becomes_another_program() {
    let folder = folder();
    let Some(program) = compile(folder.path(), "endings").filter(|_| has_libaio()) else { return };
    // The process that makes the others, and four of which a thread has all the parts in flight.
    let counts = compared(&program, "exits");
    let calls = counts.iter().filter_map(|process| process["moved"]["libaio"]["calls"].as_u64());
    assert_eq!((counts.len(), calls.filter(|calls| *calls >= 64).count()), (5, 4), "{counts:?}");
    // The one that could not become another, which had the same in flight; the other as it is then; and the
    // process that made them.
    let counts = compared(&program, "executes");
    assert_eq!((counts.len(), sum(&counts, "/moved/libaio/calls") >= 64), (3, true), "{counts:?}");
    assert!(sum(&counts, "/moved/posix-aio/calls") > 0, "{counts:?}");
}

#[test]
fn no_call_waits_longer_for_another_thread_than_it_did() {
    let folder = folder();
    let Some(program) = compile(folder.path(), "endings").filter(|_| has_libaio()) else { return };
    all(&program, "posix-aio", &[("syncs_at_once", &["trial"])]);
    all(&program, "libaio", &[("destroyed_under_a_wait", &["trial"])]);
}

#[test]
fn a_child_ends_nothing_of_its_parents() {
    let folder = folder();
    let Some(program) = compile(folder.path(), "corners") else { return };
    let counts = compared(&program, "child_ends");
    let moved: Vec<u64> = counts.iter().map(moved).filter(|calls| *calls > 0).collect();
    assert_eq!((counts.len(), moved.len()), (4, 1), "{counts:?}");
}

#[test]
fn a_child_in_the_memory_of_its_parent_reads_as_it_did() {
    let folder = folder();
    let Some(program) = compile(folder.path(), "corners") else { return };
    let run =
        |command: &mut Command| said(&command.arg("read_by_child").arg(folder.path()).output().unwrap());
    let stats = folder.path().join("stats");
    let under = run(&mut preloaded(program.as_os_str(), &stats));
    assert_eq!((under.0, &under), (Some(0), &run(&mut Command::new(&program))));
    // The ring is the parent's thread's alone, and is given up.
    let counts = counts(&stats);
    assert!(sum(&counts, "/moved/posix-sio/calls") > 0 && sum(&counts, "/passed/refused") == 1, "{counts:?}");
}

#[test]
fn no_engine_is_opened_in_a_handler() {
    let folder = folder();
    let Some(program) = compile(folder.path(), "synchronous") else { return };
    let counts = compared(&program, "handler_only");
    assert_eq!((sum(&counts, "/passed/signal_handler"), sum(&counts, "/engines_opened")), (100, 0));
}

/// The processor itself counts how often the program's process reads or writes the buffer of a call.
#[test]
fn no_byte_is_copied() {
    let folder = folder();
    let Some(program) = compile(folder.path(), "corners").filter(|_| has_libaio()) else { return };
    let data = tempfile::tempdir_in(folder.path()).unwrap();
    let stats = data.path().join("stats");
    let output = preloaded(program.as_os_str(), &stats).arg("copies").arg(data.path()).output().unwrap();
    let (code, text, errors) = said(&output);
    assert_eq!((code, errors.as_str()), (Some(0), ""), "{text}");
    if !have(!text.contains("no breakpoints"), "perf_event_open(2) with breakpoints, as root has it") {
        return;
    }
    let counted: Vec<&str> = text.lines().filter(|line| line.contains("acces")).collect();
    assert_eq!(counted, ["accesses: 0", "accesses: 0"], "{text}");
    assert!(text.ends_with("its own are seen: 1\n"), "{text}");
    let counts = counts(&stats);
    for interface in ["posix-sio", "libaio", "posix-aio"] {
        assert!(sum(&counts, &format!("/moved/{interface}/calls")) >= 40, "{counts:?}");
    }
}

/// The program was killed by SIGXFSZ at its end, and root wrote to what a link led to.
#[test]
fn the_counts_end_no_program_and_go_through_no_link_of_roots() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let line = "ulimit -f 0; exec head -c 1 /dev/zero";
    let output = preloaded(OsStr::new("bash"), &at("limited")).args(["-c", line]).output().unwrap();
    assert_eq!(said(&output), (Some(0), "\0".to_owned(), String::new()));
    assert!(counts(&at("limited")).is_empty());
    fs::write(at("victim"), "").unwrap();
    std::os::unix::fs::symlink(at("victim"), at("link")).unwrap();
    assert!(preloaded(OsStr::new("true"), &at("link")).output().unwrap().status.success());
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    assert_eq!(counts(&at("victim")).is_empty(), is_root);
}

#[test]
fn one_variable_switches_it_off() {
    let (programs, data) = (folder(), folder());
    let Some(program) = compile(programs.path(), "synchronous") else { return };
    let stats = data.path().join("stats");
    let off = |program: &Path, test: &str| {
        let mut command = preloaded(program.as_os_str(), &stats);
        let output = command.env("IOPJ_PRELOAD", "off").arg(test).arg(data.path()).output().unwrap();
        assert!(output.status.success() && !stats.exists(), "{:?}", said(&output));
        said(&output)
    };
    off(&program, "results");
    // A plugin's libaio too, whose functions are found in the library alone.
    let Some(program) = compile(programs.path(), "corners").filter(|_| has_libaio()) else { return };
    let output = Command::new(&program).arg("local").arg(data.path()).output().unwrap();
    assert_eq!(off(&program, "local"), said(&output));
}

#[test]
fn a_policy_that_is_none_leaves_the_program_as_it_was() {
    let (programs, data) = (folder(), folder());
    let Some(program) = compile(programs.path(), "synchronous") else { return };
    let run = |policy: &str| {
        let stats = data.path().join(policy);
        let mut command = preloaded(program.as_os_str(), &stats);
        let output =
            command.env("IOPJ_PRELOAD_POLICY", policy).arg("threads").arg(data.path()).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{:?}", said(&output));
        counts(&stats)
    };
    let counts = run("no-such-file");
    assert_eq!((sum(&counts, "/moved/posix-sio/calls"), sum(&counts, "/engines_opened")), (0, 0));
    assert!(sum(&counts, "/engines_failed") > 0 && sum(&counts, "/passed/no_engine") > 0, "{counts:?}");
    let error = counts[0]["error"].as_str().unwrap();
    assert!(error.starts_with("IOPJ_PRELOAD_POLICY: no-such-file: "), "{error}");
    let counts = run("cpu");
    assert!(sum(&counts, "/moved/posix-sio/calls") > 0, "{counts:?}");
}

/// Writes a file by an engine of fio and verifies it, with `more` options. Every call is to be moved but
/// those of the trial, and no byte copied.
fn fio(engine: &str, interface: &str, more: &[&str]) {
    let folder = folder();
    let stats = folder.path().join("stats");
    let mut command = preloaded_for("1200", OsStr::new("fio"), &stats);
    // Where fio leaves a file of its own, too.
    command.current_dir(folder.path()).arg("--filename=data");
    command.args(["--name=job", "--direct=1", "--rw=randwrite", "--verify=crc32c", "--output-format=json"]);
    let output = command.arg(format!("--ioengine={engine}")).args(more).output().unwrap();
    let (code, text, errors) = said(&output);
    assert_eq!((code, errors.as_str()), (Some(0), ""), "{engine}: {text}");
    let json: Value = serde_json::from_str(&text).unwrap();
    let job = &json["jobs"][0];
    let [reads, writes] = ["read", "write"].map(|kind| job[kind]["total_ios"].as_u64().unwrap());
    let ios = reads + writes;
    assert_eq!(job["error"], 0, "{text}");
    let counts = counts(&stats);
    let (moved, bytes) = (format!("/moved/{interface}/calls"), format!("/moved/{interface}/bytes"));
    let (moved, bytes) = (sum(&counts, &moved), sum(&counts, &bytes));
    assert_eq!((sum(&counts, "/bytes_copied"), sum(&counts, "/engines_failed")), (0, 0), "{counts:?}");
    assert!(ios >= 512 && moved > ios * 9 / 10 && bytes >= moved * 4096, "{engine}: {ios} {counts:?}");
    let ways: Vec<&String> = counts
        .iter()
        .filter_map(|process| process["ways"].as_object())
        .flat_map(|ways| ways.keys())
        .collect();
    // What is not waited for must neither wait nor be polled.
    assert!(interface == "posix-sio" || ways == ["io_uring/syscall/interrupt"], "{counts:?}");
    let passed = sum(&counts, "/passed/trial") + sum(&counts, "/passed/warm_up");
    assert!(passed > 0 && passed <= 128, "{engine}: {counts:?}");
    eprintln!(
        "{engine}: {writes} writes, {reads} reads of them verified, {moved} moved, {bytes} bytes, 0 copied"
    );
}

const ENGINES: [(&str, &str, &str); 4] = [
    ("psync", "posix-sio", "--iodepth=1"),
    ("pvsync2", "posix-sio", "--iodepth=1"),
    ("libaio", "libaio", "--iodepth=8"),
    ("posixaio", "posix-aio", "--iodepth=8"),
];

fn has_fio() -> bool {
    have(Command::new("fio").arg("--version").output().is_ok(), "fio (apt-get install fio)") && has_rings()
}

#[test]
fn fio_verifies_what_it_wrote() {
    if has_fio() {
        for (engine, interface, depth) in ENGINES {
            fio(engine, interface, &["--bs=4k", "--size=4m", depth]);
        }
    }
}

#[test]
#[ignore = "a soak: cargo xtask soak"]
fn soak_fio_verifies_for_ten_minutes_by_each_engine() {
    if has_fio() {
        let long =
            ["--time_based", "--runtime=600", "--bsrange=4k-128k", "--size=256m", "--verify_backlog=128"];
        for two in ENGINES.chunks(2) {
            std::thread::scope(|scope| {
                for (engine, interface, depth) in two {
                    scope.spawn(|| fio(engine, interface, &[&long[..], &[depth]].concat()));
                }
            });
        }
    }
}
