//! Guests that end well.

use std::fs;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use iopj_lab::image::{GuestFile, ModuleWish, Program, SHELL};
use iopj_lab::vm::{Accelerator, Kvm, interact, kvm};

use crate::bench::{Bench, guest, kernel, new_series, null, nvme, skipped};

/// Boots, reads the emulated drive, runs a program of the host, and gives its results back.
fn boots(series: &str) {
    let Some(kernel) = kernel(series) else { return };
    let script = "uname -r >/out/release\ncat /sys/class/nvme/nvme0/serial >/out/serial\ncat \
                  /sys/module/nvme/parameters/poll_queues >/out/poll_queues\ndd if=/dev/nvme0n1 bs=4096 \
                  count=4 iflag=direct 2>/dev/null | wc -c >/out/bytes\ntests --list >/out/list 2>&1; mkdir \
                  /out/sub; cat /given >/out/sub/given\ngrep -m1 ' T _text' /proc/kallsyms \
                  >/out/symbol\necho 'hello from the guest'; exit 7\n";
    let mut guest = guest(script);
    guest.programs.push(Program::running("tests"));
    guest.files.push(GuestFile { path: "/given".into(), content: b"as given".to_vec(), mode: 0o644 });
    let bench = Bench::new(&kernel, &guest);
    let mut lines = Vec::new();
    let ended = bench.run(&mut |line| lines.push(line.to_owned())).unwrap();
    eprintln!("{}: up after {:?}, off after {:?}", kernel.release, ended.boot, ended.total);
    assert_eq!(ended.status, 7, "{lines:?}");
    assert!(lines.contains(&"hello from the guest".to_owned()), "{lines:?}");
    assert_eq!(bench.left("release"), kernel.release);
    assert_eq!(bench.left("serial"), "iopjlab");
    assert_eq!(bench.left("poll_queues"), "2");
    assert_eq!(bench.left("bytes"), "16384");
    assert_eq!(bench.left("sub/given"), "as given");
    assert!(bench.left("list").contains("a_current_kernel_boots: test"), "{}", bench.left("list"));
    // Where the linker put it, neither hidden nor moved.
    assert_eq!(bench.left("symbol"), "ffffffff81000000 T _text");
    bench.assert_gone();
}

#[test]
fn an_old_kernel_boots() {
    boots("5.10");
}

#[test]
fn a_current_kernel_boots() {
    boots("6.18");
}

#[test]
fn a_new_kernel_boots() {
    boots(&new_series());
}

#[test]
fn one_processor_with_a_counted_clock_and_an_iommu() {
    let script = "nproc >/out/processors; ls /sys/kernel/iommu_groups | wc -l >/out/groups; ls /dev/nullb0 \
                  >/out/drive";
    let Some(kernel) = kernel("6.18") else { return };
    let mut guest = guest(script);
    // The driver takes no more poll queues than there are processors.
    guest.modules[0].options = vec!["poll_queues=1".into()];
    guest.modules.push(ModuleWish { name: "null_blk".into(), options: vec!["poll_queues=1".into()] });
    let mut bench = Bench::new(&kernel, &guest);
    bench.machine.accelerator = Accelerator::Tcg { icount: true, plugin: None };
    bench.machine.vcpus = 1;
    bench.machine.iommu = true;
    bench.run(&mut |_| {}).unwrap();
    assert_eq!(bench.left("processors"), "1");
    assert_ne!(bench.left("groups"), "0");
    assert_eq!(bench.left("drive"), "/dev/nullb0");
}

#[test]
fn a_program_with_many_libraries_runs() {
    let Ok(fio) = Program::named("fio") else {
        skipped::<()>("fio (apt-get install fio)");
        return;
    };
    let Some(kernel) = kernel("5.10") else { return };
    let mut guest = guest("fio --version >/out/version 2>&1");
    guest.programs.push(fio);
    let bench = Bench::new(&kernel, &guest);
    assert_eq!(bench.run(&mut |_| {}).unwrap().status, 0);
    assert!(bench.left("version").starts_with("fio-"), "{}", bench.left("version"));
}

#[test]
fn kvm_answers_and_remembers() {
    let Some(kernel) = kernel("5.10") else { return };
    let cache = tempfile::tempdir().unwrap();
    let start = Instant::now();
    let answer = kvm(cache.path(), &kernel.image).unwrap();
    eprintln!("{answer:?} after {:?}", start.elapsed());
    assert_ne!(answer, Kvm::Fails(String::new()));
    assert_eq!(kvm(cache.path(), &kernel.image).unwrap(), answer);
    assert_eq!(fs::read_dir(cache.path().join("runs")).map_or(0, Iterator::count), 0);
}

const TERMINAL: &str = "IOPJ_TEST_TERMINAL";

/// Not a test of its own: what [`a_shell_on_a_terminal_has_its_last_words_printed`] runs on a terminal.
#[test]
fn shell_on_a_terminal() {
    if std::env::var_os(TERMINAL).is_none() {
        return;
    }
    let Some(bench) = Bench::old(SHELL, nvme(null())) else { return };
    interact(&bench.machine, &bench.folder, &AtomicBool::new(false)).unwrap();
}

#[test]
fn a_shell_on_a_terminal_has_its_last_words_printed() {
    // Only holds the turn.
    let Some(_turn) = Bench::old("true", nvme(null())) else { return };
    let Some(kernel) = kernel("5.10") else { return };
    let test = std::env::current_exe().unwrap();
    let mut terminal = Command::new("timeout")
        .args(["--foreground", "600", "script", "-qec"])
        .arg(format!("{} --exact boots::shell_on_a_terminal --nocapture", test.display()))
        .arg("/dev/null")
        .env(TERMINAL, "yes")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut text = Vec::new();
    let mut output = terminal.stdout.take().unwrap();
    // Input before the shell listens is lost; output just before the guest is off is not.
    while !text.ends_with(b" # ") && output.by_ref().take(1).read_to_end(&mut text).unwrap() == 1 {}
    // It may be off already; the text shows it.
    let _ = terminal.stdin.as_mut().unwrap().write_all(b"echo \"<$(uname -r)>\"; exit\n");
    output.read_to_end(&mut text).unwrap();
    let status = terminal.wait().unwrap();
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains(&format!("<{}>", kernel.release)), "{text}");
    assert!(status.success(), "{text}");
}
