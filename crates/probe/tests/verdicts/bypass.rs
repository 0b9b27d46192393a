//! Kernel bypass: evidence that no kernel was involved, and evidence that does not show it.

use super::{
    IOS, WINDOW_NS, assert_contains, assert_distinguished, assert_unproven, hybrid, interrupt, kind, of_fio,
    poll,
};
use iopj_core::evidence::{EngineEvidence, Evidence, Finding, ProcessEvidence, VerdictKind};
use iopj_core::path::Submission;
use iopj_probe::{START_KERNEL_NS, assess, observe};

/// The same completions on a device that was taken: its own count of commands, no sectors, no system call
/// that submits.
pub(crate) fn taken(mut evidence: Evidence) -> Evidence {
    evidence.completions = None;
    let device = &mut evidence.devices[0];
    device.name = "0000:01:00.0".into();
    device.read_sectors = 0;
    device.taken_by = Some("vfio-pci".into());
    evidence.engine =
        Some(EngineEvidence { system_calls: Some(0), doorbells: Some(IOS), ..Default::default() });
    evidence.process = ProcessEvidence { user_ns: WINDOW_NS - 1000, system_ns: 1000, ..Default::default() };
    evidence
}

#[test]
fn each_completion_is_verified_where_it_was_asked_and_refuted_where_another_was() {
    let cases = [("interrupt", taken(interrupt())), ("poll", taken(poll())), ("hybrid", taken(hybrid()))];
    assert_distinguished("nvme-user/doorbell", &cases);
    let reasons = |evidence: &Evidence| {
        assess(&"nvme-user/doorbell/poll".parse().unwrap(), evidence).1.reasons.join("; ")
    };
    let mut evidence = taken(poll());
    assert_contains(&reasons(&evidence), "submission by doorbell was seen");
    // An older store has the sum alone.
    assert_contains(&reasons(&evidence), ", 1.00 doorbells per I/O");
    let engine = evidence.engine.as_mut().unwrap();
    (engine.doorbells, engine.completion_doorbells) = (Some(IOS + IOS / 250), Some(IOS / 250));
    assert_contains(&reasons(&evidence), "1.00 submission and 0.0040 completion doorbells per I/O");
}

#[test]
fn the_kernels_driver_refutes_bypass_and_bypass_refutes_the_kernels_paths() {
    assert_eq!(kind("nvme-user/doorbell/poll", &poll()), VerdictKind::Refuted);
    assert_eq!(kind("io_uring/syscall/poll", &taken(poll())), VerdictKind::Refuted);
    // Its driver changed in the window, or another driver has it.
    for driver in [None, Some("nvme".to_owned())] {
        let mut evidence = taken(poll());
        evidence.devices[0].taken_by = driver;
        assert_ne!(observe(&evidence).submission, Finding::Seen(Submission::Doorbell));
        assert_ne!(kind("nvme-user/doorbell/poll", &evidence), VerdictKind::Verified);
    }
}

#[test]
fn interrupts_that_were_not_counted_are_none_of_other_devices() {
    let mut evidence = taken(interrupt());
    evidence.devices[0].interrupts = None;
    let part =
        "the interrupts of 0000:01:00.0 were not counted throughout the window: a vector or a core came";
    assert_unproven("nvme-user/doorbell/interrupt", &evidence, part);
    evidence.devices[0].vectors.clear();
    assert_unproven("nvme-user/doorbell/interrupt", &evidence, part);
}

#[test]
fn who_polls_asks_the_kernel_for_nothing() {
    let mut calls = taken(poll());
    calls.engine.as_mut().unwrap().system_calls = Some(3);
    assert_unproven("nvme-user/doorbell/poll", &calls, "3 system calls were made in the window");
    let mut kernel = taken(poll());
    kernel.process =
        ProcessEvidence { user_ns: WINDOW_NS / 2, system_ns: WINDOW_NS / 2, ..Default::default() };
    assert_unproven("nvme-user/doorbell/poll", &kernel, "50 % of the CPU time was the kernel's");
    let mut submitted = taken(interrupt());
    submitted.engine.as_mut().unwrap().submit_calls = IOS;
    assert_unproven("nvme-user/doorbell/interrupt", &submitted, "system calls submitted I/O");
    // To wait for an interrupt or to sleep takes the kernel.
    let mut waited = taken(interrupt());
    waited.engine.as_mut().unwrap().system_calls = Some(2 * IOS);
    assert_eq!(kind("nvme-user/doorbell/interrupt", &waited), VerdictKind::Verified);
}

#[test]
fn the_drives_own_count_must_agree() {
    let mut short = taken(poll());
    short.devices[0].reads = IOS / 2;
    assert_unproven("nvme-user/doorbell/poll", &short, "the drive's SMART log counts");
    let mut more = taken(poll());
    more.devices[0].reads = 2 * IOS;
    assert_unproven("nvme-user/doorbell/poll", &more, "others used the disk meanwhile");
}

/// Passed through on a kernel that does not count such commands.
fn passed_through(mut evidence: Evidence) -> Evidence {
    let device = &mut evidence.devices[0];
    (device.read_sectors, device.by_log) = (0, true);
    evidence
}

#[test]
fn the_drives_log_stands_for_what_the_kernel_does_not_count() {
    for (path, evidence) in [("interrupt", interrupt()), ("poll", poll()), ("hybrid", hybrid())] {
        let path = format!("nvme-passthrough/syscall/{path}");
        let taken = passed_through(evidence.clone());
        assert_eq!(kind(&path, &taken), VerdictKind::Verified, "{path}");
        assert_eq!(kind("nvme-user/doorbell/poll", &taken), VerdictKind::Refuted, "the kernel had the drive");
        let mut nobody = evidence;
        (nobody.devices[0].reads, nobody.devices[0].read_sectors) = (0, 0);
        assert_unproven(&path, &nobody, "passed through uncounted");
        let mut late = taken.clone();
        late.devices[0].reads = 0;
        assert_unproven(
            &path,
            &late,
            "counts 0 reads and writes where 100000 were issued: it keeps its log late",
        );
        // The kernel would not count it with `iostats` on either.
        let mut off = taken.clone();
        off.devices[0].settings.insert("iostats".to_owned(), "0".to_owned());
        assert_eq!(kind(&path, &off), VerdictKind::Verified, "{path}");
        let mut others = taken;
        others.devices[0].reads = 2 * IOS;
        assert_unproven(
            &path,
            &others,
            "counts 200000 reads and writes where 100000 were issued: others used",
        );
    }
}

#[test]
fn spdk_by_fio_is_verified_by_the_device_alone() {
    let mut evidence = of_fio(taken(poll()));
    evidence.process.user_ns = WINDOW_NS - WINDOW_NS / 50;
    evidence.process.system_ns = START_KERNEL_NS;
    assert_eq!(kind("spdk/doorbell/poll", &evidence), VerdictKind::Verified);
    evidence.process.system_ns = START_KERNEL_NS + WINDOW_NS;
    assert_unproven("spdk/doorbell/poll", &evidence, "% of the CPU time was the kernel's");
    assert_ne!(kind("spdk/doorbell/poll", &of_fio(poll())), VerdictKind::Verified);
}
