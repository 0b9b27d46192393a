//! Guests that end badly: each leaves one clear error and no process.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use iopj_lab::vm::{RunFolder, VmError, run};
use rustix::process::{Pid, Signal, kill_process};

use crate::bench::{Bench, guest, kernel, machine_pid, null, nvme};

#[test]
fn a_guest_that_hangs_ends_at_its_limit_with_its_last_lines() {
    let Some(mut bench) = Bench::old("echo 'the last line'; sleep 1000", nvme(null())) else { return };
    // A busy machine may need longer to boot it.
    for limit_s in [20, 40, 80, 160] {
        bench.machine.time_limit = Duration::from_secs(limit_s);
        let error = bench.run(&mut |_| {}).unwrap_err();
        bench.assert_gone();
        let (console, start) = match &error {
            VmError::TimeLimit { console, .. } => (console, "end within {} s: look at its last lines"),
            VmError::NotUp { console, .. } => (console, "start up within {} s: try again"),
            _ => panic!("{error}"),
        };
        let start = format!("the guest did not {}", start.replace("{}", &limit_s.to_string()));
        assert!(error.to_string().starts_with(&start), "{error}");
        if console.last().is_some_and(|line| line == "the last line") {
            assert!(matches!(error, VmError::TimeLimit { .. }), "{error}");
            return;
        }
        eprintln!("not yet at its last line: {console:?}");
    }
    panic!("the last line is missing");
}

#[test]
fn a_panic_is_distinguished() {
    let Some(bench) = Bench::old("echo c >/proc/sysrq-trigger; sleep 1000", nvme(null())) else { return };
    let error = bench.run(&mut |_| {}).unwrap_err();
    let VmError::Panic { panic, .. } = &error else { panic!("{error}") };
    assert!(panic.contains("sysrq triggered crash"), "{error}");
    bench.assert_gone();
}

#[test]
fn a_panic_at_a_breakpoint_of_nobody_is_the_translators() {
    let oops =
        "echo '<0>Oops: int3: 0000 [#1] SMP NOPTI' >/dev/kmsg; echo c >/proc/sysrq-trigger; sleep 1000";
    let Some(bench) = Bench::old(oops, nvme(null())) else { return };
    let error = bench.run(&mut |_| {}).unwrap_err();
    assert!(matches!(error, VmError::Mistranslated(_)), "{error}");
    assert!(error.to_string().contains("QEMU's translator"), "{error}");
    bench.assert_gone();
}

/// A guest was seen to stand still between its oops and its panic, up to its limit of a quarter of an hour.
#[test]
fn a_guest_that_hangs_at_a_breakpoint_of_nobody_does_not_wait_for_its_limit() {
    let oops = "echo '<0>Oops: int3: 0000 [#1] SMP NOPTI' >/dev/kmsg; sleep 1000";
    let Some(bench) = Bench::old(oops, nvme(null())) else { return };
    let error = bench.run(&mut |_| {}).unwrap_err();
    assert!(matches!(error, VmError::Mistranslated(_)), "{error}");
    bench.assert_gone();
}

#[test]
fn a_panic_before_the_script_is_tried_twice_more() {
    let Some(mut bench) = Bench::old("true", nvme(null())) else { return };
    bench.machine.kernel_arguments.push("rdinit=/none root=none".into());
    let mut panics = 0;
    let error = bench.run(&mut |line| panics += u32::from(line.contains("Kernel panic"))).unwrap_err();
    let VmError::Panic { panic, .. } = &error else { panic!("{error}") };
    assert!(panic.contains("VFS"), "{error}");
    assert_eq!(panics, 3);
    bench.assert_gone();
}

/// A guest was seen to write nothing for ten minutes.
#[test]
fn a_guest_that_hangs_before_the_script_is_tried_twice_more() {
    let Some(mut bench) = Bench::old("true", nvme(null())) else { return };
    let arguments = ["rdinit=/none", "root=none", "rootdelay=1000"];
    bench.machine.kernel_arguments.extend(arguments.map(String::from));
    bench.machine.boot_limit = Duration::from_secs(3);
    bench.machine.time_limit = Duration::from_secs(4);
    let machines = |bench: &Bench, start: &str| {
        let machine = || machine_pid(bench.folder.path()).unwrap();
        let mut machines = BTreeSet::new();
        let error = bench.run(&mut |line| {
            if line.ends_with(": it is booted again") {
                assert_eq!(line, "the guest is not up after 3 s: it is booted again");
                machines.insert(machine());
            }
        });
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with(start), "{error}");
        bench.assert_gone();
        machines.insert(machine());
        machines.len()
    };
    assert_eq!(machines(&bench, "the guest did not start up within 4 s: try again"), 3);
    // The user's own limit is not exceeded.
    bench.machine.time_limit = Duration::from_secs(2);
    assert_eq!(machines(&bench, "the guest did not start up within 2 s: try again"), 1);
}

#[test]
fn a_guest_that_switches_itself_off_handed_nothing_out() {
    let Some(bench) = Bench::old("poweroff -f", nvme(null())) else { return };
    let error = bench.run(&mut |_| {}).unwrap_err();
    assert!(matches!(error, VmError::NoOutput(_)), "{error}");
}

#[test]
fn a_guest_that_fills_its_memory_says_so() {
    let Some(mut bench) = Bench::old("dd if=/dev/zero of=/out/big bs=1M", nvme(null())) else { return };
    bench.machine.memory_mib = 512;
    let error = bench.run(&mut |_| {}).unwrap_err();
    let VmError::Guest { cause, .. } = &error else { panic!("{error}") };
    assert_eq!(cause, "exit: the guest's memory is full");
}

#[test]
fn a_stop_flag_ends_the_machine() {
    let Some(bench) = Bench::old("echo now; sleep 1000", nvme(null())) else { return };
    let stop = AtomicBool::new(false);
    let mut line = |line: &str| {
        if line == "now" {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let error = run(&bench.machine, &bench.folder, &bench.out, &stop, &mut line).unwrap_err();
    assert!(matches!(error, VmError::Stopped), "{error}");
    bench.assert_gone();
}

#[test]
fn a_module_that_does_not_load_is_named() {
    let Some(kernel) = kernel("5.10") else { return };
    let mut guest = guest("true");
    guest.modules[0].name = "null_blk".into();
    guest.modules[0].options = vec!["queue_mode=9".into()];
    let error = Bench::new(&kernel, &guest).run(&mut |_| {}).unwrap_err();
    let VmError::Guest { cause, .. } = &error else { panic!("{error}") };
    assert!(cause.starts_with("modules: ") && cause.contains("null_blk.ko"), "{error}");
}

#[test]
fn an_image_that_is_no_kernel_is_refused() {
    let Some(mut bench) = Bench::old("true", nvme(null())) else { return };
    bench.machine.kernel = "/bin/sh".into();
    let error = bench.run(&mut |_| {}).unwrap_err().to_string();
    assert!(error.starts_with("QEMU could not run kernel `/bin/sh` (exit status: 1): "), "{error}");
    assert!(error.ends_with("; fix what it names, or give another kernel image"), "{error}");
    bench.assert_gone();
}

#[test]
fn a_qemu_that_dies_of_a_signal_is_not_blamed_on_the_kernel() {
    let Some(bench) = Bench::old("echo now; sleep 1000", nvme(null())) else { return };
    for (signal, start, remedy) in [
        (Signal::SEGV, "QEMU died (signal: 11 (SIGSEGV)", "): try again, or use a newer QEMU\n"),
        (
            Signal::KILL,
            "QEMU died (signal: 9 (SIGKILL)",
            "): if nobody killed it, this machine ran out of memory",
        ),
    ] {
        let folder = bench.folder.path().to_path_buf();
        let error = bench.run_and(|_| {
            let pid = machine_pid(&folder).unwrap();
            kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
        });
        let error = error.unwrap_err();
        assert!(matches!(error, VmError::Died { .. }), "{error}");
        let text = error.to_string();
        assert!(text.starts_with(start) && text.contains(remedy), "{text}");
        assert!(text.ends_with("the guest's last lines:\n  now"), "{text}");
        bench.assert_gone();
    }
}

const OWNER: &str = "IOPJ_TEST_OWNER";

/// Not a test of its own: the process that [`a_killed_owner_leaves_no_machine`] kills.
#[test]
fn owner_of_a_machine() {
    let Some(cache) = std::env::var_os(OWNER) else { return };
    let Some(bench) = Bench::old("echo now; sleep 1000", nvme(null())) else { return };
    let folder = RunFolder::create(Path::new(&cache)).unwrap();
    let mut line = |line: &str| eprintln!("{line}");
    run(&bench.machine, &folder, &bench.out, &AtomicBool::new(false), &mut line).unwrap();
}

#[test]
fn a_killed_owner_leaves_no_machine() {
    // Only holds the turn.
    let Some(_turn) = Bench::old("true", nvme(null())) else { return };
    let cache = tempfile::tempdir().unwrap();
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "ends::owner_of_a_machine", "--nocapture"])
        .env(OWNER, cache.path())
        .env("TMPDIR", cache.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(owner.stderr.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line == "now"));
    let folder = fs::read_dir(cache.path().join("runs")).unwrap().next().unwrap().unwrap().path();
    let pid = machine_pid(&folder).unwrap();
    let alive = || fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
    assert!(alive());
    owner.kill().unwrap();
    owner.wait().unwrap();
    // The kernel's signal arrives on its own time.
    let end = Instant::now() + Duration::from_secs(300);
    while alive() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!alive());
    assert!(folder.exists());
    let next = RunFolder::create(cache.path()).unwrap();
    assert!(next.path().exists());
    assert_eq!(fs::read_dir(cache.path().join("runs")).unwrap().count(), 1);
}
