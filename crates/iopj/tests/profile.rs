//! `iopj run --profile`: costs by function beside the figures, or one message why not.

mod common;

use common::{TestFolder, alone, folder, have, install, iopj, is_root, output, says, tool};
use iopj_core::{CostKind, CostSource, Space, VerdictKind};
use iopj_record::Trial;
use iopj_store::Store;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// The trials of a profiled run. A machine that is too busy may lose a trial's samples; that trial rightly
/// says so and has no profile, so there are several.
fn profiled(folder: &Path, line: &str) -> Vec<Trial> {
    let _ = std::fs::remove_file(folder.join("p.iopj"));
    let options = "--target data --meters none --rw randread --bs 4k --profile --store p.iopj";
    let line = format!("run {options} {line}");
    let (output, messages) = output(&mut iopj(folder, &line));
    assert!(output.status.success(), "{messages}");
    assert!(messages.contains("profile: sampling "), "{messages}");
    Store::open(&folder.join("p.iopj")).unwrap().trials().unwrap()
}

#[test]
fn a_trial_keeps_what_it_cost_by_function() {
    let Some(folder) = have(is_root(), "root").then(|| folder().with_data(16 << 20)) else { return };
    let _alone = alone();
    let paths = "--path posix-sio/syscall/interrupt,io_uring/syscall/interrupt --iodepth 1";
    let has_costs =
        |trial: &Trial| trial.outcome.measurement().is_some_and(|measurement| measurement.costs.is_some());
    // Over all trials of a path: on a slow machine a single one may have few samples.
    let has_block_layer = |trials: &[Trial], path: &str| {
        let own = trials.iter().filter(|trial| trial.path.to_string() == path && has_costs(trial));
        let mut functions =
            own.flat_map(|trial| &trial.outcome.measurement().unwrap().costs.as_ref().unwrap().functions);
        functions.any(|one| {
            let name = one.function.as_str();
            name.starts_with("blk_") || name.starts_with("bio_") || name.contains("submit_bio")
        })
    };
    // A busy machine may lose samples of every trial of a path in a run.
    let mut runs = (0..10).map(|_| profiled(&folder, &format!("{paths} --runtime 1s --replicates 4")));
    let found = runs.find(|trials| {
        assert_eq!(trials.len(), 8);
        ["posix-sio/syscall/interrupt", "io_uring/syscall/interrupt"]
            .iter()
            .all(|path| has_block_layer(trials, path))
    });
    let trials = found.expect("the block layer in the samples of both paths in one of ten runs");
    for trial in trials.iter().filter(|trial| has_costs(trial)) {
        let measurement = trial.outcome.measurement().unwrap();
        // The samples' interrupts are not the disk's, and their reader is not the job.
        assert!(measurement.verdict.kind != VerdictKind::Refuted, "{:?}", measurement.verdict);
        let costs = measurement.costs.as_ref().unwrap();
        let CostSource::Sampled(events) = &costs.source else { panic!("{:?}", costs.source) };
        assert!(!events.is_empty() && !costs.kinds.is_empty());
        if costs.has(CostKind::CpuTime) {
            let total_ns = costs.total(Space::Kernel).cpu_ns + costs.total(Space::User).cpu_ns;
            let cores = u64::from(measurement.evidence.cpu.cores);
            // Samples may begin before the window and end after it, by as long as the program waits for a
            // core; a wrong unit is a thousand times off.
            assert!((1..measurement.window_ns * cores * 10).contains(&total_ns), "{total_ns}");
        }
    }
}

#[test]
fn fio_is_profiled_as_well() {
    let has_fio = Command::new("fio").arg("--version").output().is_ok();
    let Some(folder) = have(is_root() && has_fio, "root and fio").then(|| folder().with_data(16 << 20))
    else {
        return;
    };
    let _alone = alone();
    let line = "--path posix-sio/syscall/interrupt --iodepth 1 --generator fio --runtime 1s --replicates 4";
    // A busy machine may lose samples of every trial of a run.
    let costs = (0..10).find_map(|_| {
        let trials = profiled(&folder, line);
        trials.into_iter().find_map(|trial| trial.outcome.measurement().unwrap().costs.clone())
    });
    let costs = costs.expect("a trial of one of ten runs that keeps its samples");
    assert!(costs.functions.iter().any(|function| function.space == Space::Kernel));
}

#[test]
fn without_the_option_nothing_is_sampled() {
    let _alone = alone();
    let folder = folder().with_data(4 << 20);
    let line = "run --target data --meters none --path posix-sio/syscall/interrupt --iodepth 1 --ios 200 \
                --replicates 1 --store s.iopj";
    let (output, messages) = output(&mut iopj(&folder, line));
    assert!(output.status.success(), "{messages}");
    let trials = Store::open(&folder.join("s.iopj")).unwrap().trials().unwrap();
    assert!(trials[0].outcome.measurement().unwrap().costs.is_none());
}

#[test]
fn a_user_who_may_not_sample_is_refused_before_anything_is_made() {
    let paranoid = tool("cat /proc/sys/kernel/perf_event_paranoid").parse::<i32>().unwrap();
    if !have(is_root() && paranoid > 0, "root and a kernel that lets only root sample") {
        return;
    }
    // Where any user may look, unlike the folder of the build, and that of `$TMPDIR`.
    let folder = TestFolder::in_folder("/var/tmp").unwrap();
    std::fs::set_permissions(&*folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    let program = folder.join("iopj");
    install(Path::new(env!("CARGO_BIN_EXE_iopj")), &program);
    let mut command = Command::new(&program);
    let line = ["run", "--profile", "--meters", "none", "--ios", "10"];
    command.current_dir(&*folder).args(line).uid(65534).gid(65534);
    let output = command.output().unwrap();
    let messages = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{messages}");
    let parts = ["this user may not watch every core", "run as root", "sysctl kernel.perf_event_paranoid=-1"];
    says(messages.lines().last().unwrap(), &parts);
    let left: Vec<_> = std::fs::read_dir(&*folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["iopj"], "neither store nor file is made");
}
