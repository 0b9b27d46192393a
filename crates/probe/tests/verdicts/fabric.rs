//! Drives of another host: who completes over TCP, and whether that host's drive did the I/O.

use super::{
    IOS, PASS, PASSED, assert_contains, assert_unproven, counted, disk, hybrid, interrupt, kind, poll,
};
use iopj_core::evidence::{Completions, ControlRun, Evidence, VerdictKind};
use iopj_core::fabric::TargetHostEvidence;
use iopj_core::{FabricEvidence, Transport};
use iopj_probe::{TCP_POLLED_SHARE, assess};

/// The namespace here, and the drive there, which did `ios`.
fn over(transport: Transport, evidence: Evidence, counts: Completions, ios: u64) -> Evidence {
    let control = Completions { ios: 64, worker: 64, ..PASSED };
    let target = TargetHostEvidence { devices: vec![disk("nvme0n1", ios, Some(ios))], ..Default::default() };
    let far = FabricEvidence { transport, target: Some(target), ..FabricEvidence::default() };
    let control = ControlRun { ios: 64, interrupts: None, device_reads: 64, completions: Some(control) };
    let here = Evidence {
        devices: vec![disk("nvme0c0n1", IOS, None)],
        control: Some(control),
        fabric: Some(Box::new(far)),
        ..evidence
    };
    counted(here, Completions { interrupts: None, ..counts })
}

/// A pass of which a worker completed so many.
fn with_worker(worker: u64, timers: u64) -> Completions {
    Completions { worker, waiting: PASS - worker, timers, sleeps: timers, ..PASSED }
}

/// Over TCP a worker completes what arrives while nobody polls: 3 in 10 I/Os of a polled trial at depth 32
/// were refuted as `mixed`.
#[test]
fn over_tcp_a_polled_trial_has_a_workers_share() {
    for (asked, evidence, counts) in [
        ("poll", poll(), with_worker(PASS * 3 / 10, 0)),
        ("hybrid", hybrid(), with_worker(PASS * 3 / 4, PASS / 3)),
        ("interrupt", interrupt(), Completions { worker: PASS, sleeps: PASS, ..PASSED }),
    ] {
        for other in ["poll", "hybrid", "interrupt"] {
            let path = format!("posix-sio/syscall/{other}");
            let seen = kind(&path, &over(Transport::Tcp, evidence.clone(), counts, IOS));
            let expected = if asked == other { VerdictKind::Verified } else { VerdictKind::Refuted };
            assert_eq!(seen, expected, "{other} where {asked} was asked for");
        }
    }
}

#[test]
fn a_small_share_of_polled_completions_over_tcp_is_mixed() {
    let few = (TCP_POLLED_SHARE * PASS as f64) as u64 - 1;
    let evidence = over(Transport::Tcp, poll(), with_worker(PASS - few, 0), IOS);
    assert_eq!(kind("posix-sio/syscall/poll", &evidence), VerdictKind::Refuted);
    let enough = over(Transport::Tcp, poll(), with_worker(PASS - few - 1, 0), IOS);
    assert_eq!(kind("posix-sio/syscall/poll", &enough), VerdictKind::Verified);
}

#[test]
fn another_transport_has_no_such_worker() {
    let evidence = over(Transport::Rdma, poll(), with_worker(PASS / 10, 0), IOS);
    assert_eq!(kind("posix-sio/syscall/poll", &evidence), VerdictKind::Refuted);
}

/// A target that answered from its memory was verified: this host's own counts were right.
#[test]
fn a_cache_of_the_target_host_is_found_out() {
    let asked = "posix-sio/syscall/interrupt";
    let of =
        |ios| over(Transport::Tcp, interrupt(), Completions { worker: PASS, sleeps: PASS, ..PASSED }, ios);
    assert_eq!(kind(asked, &of(IOS)), VerdictKind::Verified);
    assert_unproven(asked, &of(IOS / 2), "a cache there answered");
    assert_unproven(asked, &of(0), "on the target host the disk did 0 reads of 0 bytes where");
    assert_unproven(asked, &of(IOS * 2), "others used the disk meanwhile");
    let (_, verdict) = assess(&asked.parse().unwrap(), &of(0));
    assert_contains(&verdict.reasons[0], "(remedy: export the drive itself, with no cache above it)");
}
