//! An Arm target host and an x86 host on one wire: verdicts on both, and what each I/O costs each of them.

use crate::{have_lab, lab, lab_of_two, lab_run_by, study_text, trials};
use iopj_core::cost::CostProfile;
use iopj_core::{Space, VerdictKind};
use iopj_lab::Arch;
use iopj_lab::cache::Cache;
use iopj_lab::kernels;
use iopj_record::{Measurement, Trial};
use iopj_store::Store;
use std::path::Path;

const KERNEL: &str = "6.18";

/// An iopj for Arm, QEMU and the kernel are there, or this is CI and the test fails.
fn have_arm() -> bool {
    let missing = iopj_lab::missing_tools(Arch::Aarch64);
    let beside = Path::new(env!("CARGO_BIN_EXE_iopj")).with_file_name("iopj-aarch64");
    let kernel = || kernels::fetch(&Cache::open().unwrap(), Arch::Aarch64, KERNEL, &mut |_| {});
    have_lab(&[KERNEL])
        && crate::common::have(missing.is_empty(), &format!("{missing:?}"))
        && crate::common::have(beside.is_file(), "an iopj for aarch64 (cargo xtask cross)")
        && crate::common::have(kernel().is_ok(), "a kernel for aarch64")
}

/// Instructions per I/O of the kernel, in the directories that begin so.
fn per_io(measured: &Measurement, costs: &CostProfile, directory: &str) -> f64 {
    let is = |function: &&iopj_core::FunctionCost| {
        function.space == Space::Kernel
            && function.directory.as_deref().unwrap_or_default().starts_with(directory)
    };
    let sum: u64 = costs.functions.iter().filter(is).map(|function| function.cost.instructions).sum();
    sum as f64 / measured.ios as f64
}

/// Kernel instructions whose directory is unknown, of all.
fn unknown(costs: &CostProfile) -> f64 {
    let kernel = || costs.functions.iter().filter(|function| function.space == Space::Kernel);
    let sum = |lacking: bool| -> u64 {
        let counted = kernel().filter(|function| !lacking || function.directory.is_none());
        counted.map(|function| function.cost.instructions).sum()
    };
    sum(true) as f64 / sum(false) as f64
}

#[test]
fn an_arm_target_and_an_x86_host_are_counted_each_by_itself() {
    let Some((_alone, folder)) = have_arm().then(|| lab_of_two(&[KERNEL])).flatten() else { return };
    let change = [
        ("replicates = 3", "replicates = 1"),
        ("\"posix-sio/syscall/interrupt\", ", ""),
        ("transport = [", "here = \"/dev/nvme0n1\"\ntransport = ["),
        ("\"loop\", \"tcp\"", "\"here\", \"tcp\", \"rdma\""),
        ("[1, 4, 16, 32]", "[1, 16]"),
        ("ios = 1000", "ios = 200"),
    ];
    let options = format!("--pair --target-arch aarch64 --vcpus 1 --exact --kernel {KERNEL}");
    // Beside this iopj is that for Arm.
    let iopj = Path::new(env!("CARGO_BIN_EXE_iopj"));
    let output = lab_run_by(iopj, &folder, "fabric-lab", &study_text("fabric-lab", &change), &options);
    let trials = trials(&folder, "fabric-lab", &output);
    assert_eq!(trials.len(), 8);
    for trial in &trials {
        let measured = trial.outcome.measurement().unwrap();
        assert_ne!(measured.verdict.kind, VerdictKind::Refuted, "{:?}", measured.verdict.reasons);
        let costs = measured.costs.as_ref().unwrap();
        let at = |costs: &CostProfile, directory| per_io(measured, costs, directory);
        if trial.settings["transport"] == "local" {
            // The Arm host did it.
            assert!(measured.target_costs.is_none());
            assert!(at(costs, "arch/arm64/") > 0.0 && at(costs, "arch/x86/") == 0.0);
            assert!(at(costs, "drivers/nvme/host/") > 0.0);
            continue;
        }
        if trial.settings["transport"] == "here" {
            // So did the x86 host, and asked nobody.
            assert!(measured.target_costs.is_none());
            assert!(at(costs, "arch/x86/") > 0.0 && at(costs, "arch/arm64/") == 0.0);
            assert!(at(costs, "drivers/nvme/host/") > 0.0);
            continue;
        }
        let target = measured.target_costs.as_ref().unwrap();
        assert!(at(costs, "arch/x86/") > 0.0 && at(costs, "arch/arm64/") == 0.0);
        assert!(at(target, "arch/arm64/") > 0.0 && at(target, "arch/x86/") == 0.0);
        assert!(at(costs, "drivers/nvme/host/") > 0.0 && at(costs, "drivers/nvme/target/") == 0.0);
        assert!(at(target, "drivers/nvme/target/") > 0.0);
        assert!(unknown(target) < 0.05, "{}", unknown(target));
        let fabric = measured.evidence.fabric.as_ref().unwrap();
        assert!(fabric.rest_ns.is_some() && fabric.target.as_ref().unwrap().rest_ns.is_some());
        assert_eq!(fabric.target.as_ref().unwrap().devices[0].reads, 200);
    }
    // Where completions share interrupts and packets share a pass of the stack, an I/O costs the target less.
    let target_at = |depth: u32| {
        let is = |trial: &&Trial| trial.workload.iodepth == depth && trial.settings["transport"] == "tcp";
        let measured = trials.iter().find(is).unwrap().outcome.measurement().unwrap();
        per_io(measured, measured.target_costs.as_ref().unwrap(), "")
    };
    assert!(target_at(16) < target_at(1), "{} {}", target_at(16), target_at(1));
    let study = Store::open(&folder.join("fabric-lab.iopj")).unwrap().study().unwrap();
    assert_eq!(study.provenance["target_host.architecture"], "aarch64");
    assert_eq!(study.provenance["architecture"], "x86_64");
    assert_eq!(study.emulated.as_deref(), Some("QEMU TCG"));
}

/// User-space instructions of a trial's window, per I/O: the generator's loop with its clock and histogram.
fn of_the_generator(measured: &Measurement) -> f64 {
    let costs = measured.costs.as_ref().unwrap();
    costs.total(Space::User).instructions as f64 / measured.ios as f64
}

/// `cargo xtask instructions` holds the same limits on this machine's processor. iopj for Arm is built for
/// this as a release is, where I/O passes through it.
#[test]
fn the_generator_keeps_its_limits_on_arm() {
    let Some((_alone, folder)) = have_arm().then(|| lab(&[KERNEL])).flatten() else { return };
    let study = "name = \"counts\"\nreplicates = 1\nseed = 3\nmeters = \"none\"\n\
                 paths = [\"posix-sio/syscall/interrupt\", \"io_uring/syscall/interrupt\"]\n\
                 [[workload]]\nrw = \"randread\"\nbs = \"4k\"\niodepth = [1, 32]\nios = 4000\n";
    let iopj = Path::new(env!("CARGO_BIN_EXE_iopj"));
    let options = format!("--arch aarch64 --vcpus 1 --exact --kernel {KERNEL}");
    let output = lab_run_by(iopj, &folder, "counts", study, &options);
    let trials = trials(&folder, "counts", &output);
    assert_eq!(trials.len(), 3, "posix-sio has no depth 32");
    for trial in &trials {
        let found = of_the_generator(trial.outcome.measurement().unwrap());
        let depth = trial.workload.iodepth;
        eprintln!("{} at depth {depth}: {found:.1} instructions per I/O", trial.path);
        // At depth 1 a ring makes one system call for each completion.
        let is_ring = trial.path.to_string().starts_with("io_uring");
        let limit = if is_ring && depth == 1 { 250.0 } else { 200.0 };
        assert!(found > 50.0 && found <= limit, "{} at depth {depth}: {found}", trial.path);
    }
}
