//! Drives that fail, stall or disappear while a study runs in a guest: failures are recorded, the run ends,
//! and the store can be read.

use crate::common::{alone_with_guests, folder, kernel};
use crate::{have_lab, lab, lab_run_text};
use iopj_lab::LabError;
use iopj_lab::cache::Cache;
use iopj_lab::image::Program;
use iopj_lab::session::{Device, Fault, FaultKind, Guest, GuestStudy};
use iopj_lab::vm::VmError;
use iopj_record::Outcome;
use iopj_store::Store;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Each trial takes some seconds, so a fault hits one.
const STUDY: &str = "name = \"fault\"\npaths = [\"posix-sio/syscall/interrupt\", \
                     \"io_uring/syscall/poll\"]\nreplicates = 2\nseed = 1\nmeters = \
                     \"none\"\n[[workload]]\nrw = \"randread\"\nbs = \"4k\"\nruntime = \"5s\"\n";

/// Runs the study on a drive with a fault in the second trial; returns its exit status, the outcomes in the
/// store, the first of which is measured, and the messages. `None` if there can be no guest.
fn run_with(kind: FaultKind) -> Option<(i32, Vec<Outcome>, String)> {
    let kernel = if have_lab(&[]) { kernel("6.1")? } else { return None };
    let (_alone, folder) = (alone_with_guests(), folder());
    let cache = Cache::open().unwrap();
    let guest = Guest {
        kernel: &kernel,
        device: Device::Nvme,
        vcpus: 2,
        exact: false,
        vmlinux: None,
        time_limit: Duration::from_secs(1800),
        fault: Some(Fault { kind, at: "2/4".to_owned() }),
    };
    let programs = vec![Program { name: "iopj".to_owned(), host: crate::iopj_of_guests() }];
    let store = folder.join("fault.iopj");
    let study = GuestStudy {
        name: "fault".to_owned(),
        store: store.clone(),
        text: STUDY,
        programs,
        ..GuestStudy::default()
    };
    let mut printed = String::new();
    let mut run = || {
        printed.clear();
        guest.run(&cache, std::slice::from_ref(&study), &AtomicBool::new(false), &mut |line| {
            printed += line;
            printed.push('\n');
        })
    };
    // QEMU 7.2 was seen to die of SIGSEGV as a drive was pulled.
    let has_died = |done: &Result<_, LabError>| match done {
        Err(LabError::Vm(VmError::Died { status, .. })) => {
            kind == FaultKind::Pull && status.signal() == Some(libc::SIGSEGV)
        }
        _ => false,
    };
    let done = (0..3).map(|_| run()).find(|done| !has_died(done)).expect("a QEMU that does not die");
    let done = done.and_then(|mut done| done.studies.remove(0)).unwrap();
    let trials = Store::open(&store).unwrap().trials().unwrap();
    let outcomes: Vec<Outcome> = trials.into_iter().map(|trial| trial.outcome).collect();
    assert!(outcomes[0].measurement().is_some(), "the trial before it is kept: {outcomes:?}");
    Some((done.status, outcomes, printed))
}

fn failure(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Failed(reason) => reason,
        Outcome::Measured(_) => "",
    }
}

#[test]
fn reads_that_fail_are_counted_and_the_study_goes_on() {
    let Some((status, outcomes, printed)) = run_with(FaultKind::ReadErrors) else { return };
    assert_eq!((status, outcomes.len()), (1, 4), "{printed}");
    assert!(outcomes.iter().any(|outcome| failure(outcome).contains("I/Os failed")), "{outcomes:?}");
    // An unrecovered read error of the medium is ENODATA (drivers/nvme/host/core.c, nvme_error_status).
    assert!(outcomes.iter().any(|outcome| failure(outcome).contains("(os error 61)")), "{outcomes:?}");
}

#[test]
fn a_silent_drive_ends_its_trial_by_the_kernels_time_limit() {
    let Some((status, outcomes, printed)) = run_with(FaultKind::Silence) else { return };
    assert_eq!(status, 1, "{printed}");
    assert!(outcomes.iter().any(|outcome| !failure(outcome).is_empty()), "{outcomes:?} {printed}");
}

/// QEMU's translator was seen to run code from before a patch; here the study's meter causes the oops, once
/// it has seen that the counters are held, which makes a real one rare.
#[test]
fn a_guest_that_ran_stale_code_begins_its_study_again() {
    let Some((_alone, folder)) = lab(&["6.1"]) else { return };
    let script = folder.join("meter");
    let oops = "#!/bin/sh\n[ \"$(cat /run/held)\" = 'counters are held' ] || exit 1\necho '<0>Oops: int3: \
                0000 [#1] SMP NOPTI' >/dev/kmsg\necho c >/proc/sysrq-trigger\n";
    std::fs::write(&script, oops).unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let study = format!(
        "name = \"stale\"\npaths = [\"posix-sio/syscall/interrupt\"]\n[[workload]]\nrw = \"randread\"\nbs = \
         \"4k\"\nios = 100\n[meters.own]\nkind = \"command\"\ncommand = [{script:?}]\nscope = \"system\"\n"
    );
    let output = lab_run_text(&folder, "stale", &study, "--kernel 6.1 --allow-exec");
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{words}");
    assert_eq!(words.matches("the studies start again").count(), 3, "{words}");
    assert!(words.contains("try again, or use a newer QEMU"), "{words}");
    assert!(!folder.join("stale.iopj").exists(), "{words}");
}

#[test]
fn a_drive_that_is_pulled_leaves_the_trials_before() {
    let Some((status, outcomes, printed)) = run_with(FaultKind::Pull) else { return };
    assert_ne!(status, 0, "{printed}");
    assert!(outcomes.iter().any(|outcome| !failure(outcome).is_empty()), "{outcomes:?} {printed}");
}

#[test]
fn counters_are_held_until_their_process_ends() {
    let mut command = Command::new(crate::iopj_of_guests());
    let mut held = command.args(["lab", "hold-counters"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(held.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let files = std::fs::read_dir(format!("/proc/{}/fd", held.id())).unwrap();
    let links = files.map(|file| std::fs::read_link(file.unwrap().path()).unwrap_or_default());
    let counters = links.filter(|link| link.as_os_str() == "anon_inode:[perf_event]").count();
    let _ = held.kill();
    held.wait().unwrap();
    assert_eq!((line.as_str(), counters), ("counters are held\n", 2));
}
