//! The profiler's plugin in a machine without a kernel, whose program executes known numbers of instructions,
//! loads and stores: every count is asserted, with one emulating thread and with several.

use iopj_core::{Cost, CostProfile, Space};
use iopj_lab::profile::{Profiler, profiles};
use iopj_probe::Symbols;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const QEMU: &str = "qemu-system-x86_64";

/// True if QEMU is here. On the project's own machines it must be.
fn has_qemu() -> bool {
    let here = Command::new(QEMU).arg("--version").output().is_ok();
    assert!(here || std::env::var("CI").as_deref() != Ok("true"), "{QEMU} must be installed");
    if !here {
        eprintln!("skipped: needs {QEMU}");
    }
    here
}

fn succeed(command: &mut Command) -> String {
    let done = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// Assembles the guest; returns its symbols in the form of kallsyms too.
fn build(folder: &Path) -> (PathBuf, Symbols) {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let guest = folder.join("guest");
    let script = format!("-Wl,-T,{}", tests.join("guest.ld").display());
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or("cc".into()));
    compiler.args(["-nostdlib", "-static", "-no-pie", "-Wl,--build-id=none", "-Wl,-z,max-page-size=4096"]);
    succeed(compiler.arg(script).arg("-o").arg(&guest).arg(tests.join("guest.S")));
    let symbols = Symbols::parse(&succeed(Command::new("nm").arg(&guest))).unwrap();
    (guest, symbols)
}

/// Runs the guest on two processors, and returns the profiles of its windows by position.
fn run(accelerator: &[&str]) -> BTreeMap<u32, CostProfile> {
    let folder = tempfile::tempdir().unwrap();
    let (guest, symbols) = build(folder.path());
    let profiler = Profiler::install(folder.path()).unwrap();
    let plugin = profiler.plugin();
    let ended = Command::new("timeout")
        .args([
            "600",
            QEMU,
            "-machine",
            "q35",
            "-cpu",
            "max",
            "-smp",
            "2",
            "-m",
            "64",
            "-nodefaults",
            "-display",
            "none",
        ])
        .args(["-no-reboot", "-device", "isa-debug-exit,iobase=0xf4,iosize=1", "-accel"])
        .args(accelerator)
        .arg("-plugin")
        .arg(format!("{},out={}", plugin.path.display(), plugin.arguments[0].1))
        .arg("-kernel")
        .arg(&guest)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "the guest's own end is 0 * 2 + 1: {errors}");
    let windows = profiler.windows().unwrap();
    for window in &windows {
        let executed = window.records.iter().map(|record| record.executed).sum::<u64>();
        assert_eq!(window.vcpus.iter().sum::<u64>() - window.no_room, executed, "place {}", window.place);
        assert_eq!((window.vcpus.len(), window.no_room), (2, 0));
    }
    profiles(&windows, &symbols, &|_, _| None, None)
}

/// Calls, instructions, loads and stores.
fn counts(cost: Cost) -> [u64; 4] {
    [cost.calls, cost.instructions, cost.loads, cost.stores]
}

fn function(profile: &CostProfile, name: &str) -> [u64; 4] {
    counts(
        profile
            .functions
            .iter()
            .filter(|f| f.space == Space::Kernel && f.function == name)
            .map(|f| f.cost)
            .sum(),
    )
}

fn assert_exact(places: &BTreeMap<u32, CostProfile>) {
    assert_eq!(
        places.keys().copied().collect::<Vec<_>>(),
        [1, 2, 3, 4, 5, 7],
        "the window of place 6 never closes"
    );
    let zero = [0; 4];

    assert_eq!(counts(places[&1].total(Space::Kernel)), [100_000, 400_000, 100_000, 100_000]);
    assert_eq!(function(&places[&1], "body_loop"), [100_000, 400_000, 100_000, 100_000]);
    assert_eq!(counts(places[&1].total(Space::User)), zero);

    assert_eq!(counts(places[&2].total(Space::User)), [0, 3_502, 2_000, 1_500]);
    assert_eq!(counts(places[&2].total(Space::Kernel)), zero);

    assert_eq!(function(&places[&3], "repeated_movs"), [1_000, 1_000, 1_000, 1_000]);
    assert_eq!(function(&places[&3], "repeated_stos"), [1, 1_002, 0, 1_000]);
    assert_eq!(function(&places[&3], "repeated_none"), zero);
    assert_eq!(function(&places[&3], "repeated_locked"), [1, 3, 2, 2]);
    assert_eq!(counts(places[&3].total(Space::Kernel)), [1_002, 2_005, 1_002, 2_002]);

    assert_eq!(function(&places[&4], "body_fault"), [1_000, 1_000, 1_000, 0]);
    assert_eq!(function(&places[&4], "body_fault_division"), [1_000, 1_000, 0, 0]);
    assert_eq!(function(&places[&4], "body_fault_rest"), [1_000, 4_000, 1_000, 1_000]);
    assert_eq!(function(&places[&4], "divide_error"), [1_000, 2_000, 6_000, 1_000]);
    assert_eq!(counts(places[&4].total(Space::Kernel)), [4_000, 8_000, 8_000, 2_000]);

    // The processor decides when an interrupt comes: the loop that waits for it is not asserted.
    assert_eq!(function(&places[&5], "send_interrupt"), [1_000, 4_000, 2_000, 2_000]);
    assert_eq!(function(&places[&5], "interrupt"), [1_000, 3_000, 5_000, 2_000]);
    assert_eq!(function(&places[&5], "body_interrupts_rest"), [1_000, 3_000, 0, 1_000]);

    assert_eq!(function(&places[&7], "body_first"), [200_000, 600_000, 200_000, 200_000]);
    assert_eq!(function(&places[&7], "body_second"), [300_000, 900_000, 300_000, 300_000]);
}

#[test]
fn every_count_is_exact_with_a_thread_a_processor() {
    if has_qemu() {
        assert_exact(&run(&["tcg,thread=multi"]));
    }
}

#[test]
fn every_count_is_exact_with_one_thread_and_a_clock_of_instructions() {
    if has_qemu() {
        assert_exact(&run(&["tcg,thread=single", "-icount", "shift=0,sleep=off"]));
    }
}

#[test]
fn a_folder_that_cannot_take_the_windows_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let message = Profiler::install(&missing).unwrap_err().to_string();
    assert!(message.contains("missing/window.so` cannot be used for the profiler"), "{message}");
}
