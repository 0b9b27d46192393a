//! What the disks did beside what was issued: caches, merges, splits, foreign I/O, foreign pollers.

use super::{IOS, assert_contains, assert_unproven, disk, interrupt, kind, poll, sqpoll, thread, unproven};
use iopj_core::evidence::{DeviceEvidence, Finding, ThreadRole, VerdictKind};
use iopj_core::path::{CompletionMode, Submission};
use iopj_probe::observe;

#[test]
fn a_submission_poller_of_another_ring_is_a_doubt_and_no_poller_of_the_trial() {
    let mut evidence = poll();
    evidence.threads.push(thread(ThreadRole::Sqpoll, 0.4, IOS));
    assert_eq!(observe(&evidence).submission, Finding::Seen(Submission::Syscall));
    assert_eq!(observe(&evidence).completion, Finding::Seen(CompletionMode::Poll));
    assert_unproven("io_uring/syscall/poll", &evidence, "a submission poller of another ring ran meanwhile");
    evidence.threads[1].cpu_ns = 0;
    assert_unproven("io_uring/syscall/poll", &evidence, "1 were there where the trial has 0");
    let mut two = sqpoll(0);
    assert_eq!(kind("io_uring/sqpoll/poll", &two), VerdictKind::Verified);
    two.threads.push(thread(ThreadRole::Sqpoll, 0.4, IOS));
    assert_unproven("io_uring/sqpoll/poll", &two, "2 were there where the trial has 1");
}

#[test]
fn a_cache_proves_nothing_for_any_completion() {
    let mut evidence = poll();
    evidence.devices = vec![disk("nvme0n1", 0, Some(0))];
    for asked in ["interrupt", "poll", "hybrid"] {
        assert_unproven(
            &format!("posix-sio/syscall/{asked}"),
            &evidence,
            "the disk did 0 reads of 0 bytes where 100000 of 409600000 bytes were issued: a cache",
        );
    }
    evidence.devices = vec![disk("nvme0n1", IOS - IOS / 100, Some(0))];
    unproven("posix-sio/syscall/poll", &evidence);
    evidence.devices = vec![disk("nvme0n1", IOS - IOS / 10_000, Some(0))];
    assert_eq!(kind("posix-sio/syscall/poll", &evidence), VerdictKind::Verified);
}

#[test]
fn one_io_that_never_reached_the_disk_shows_in_a_short_window() {
    let mut evidence = interrupt();
    (evidence.reads, evidence.read_bytes) = (10, 40_960);
    evidence.devices = vec![disk("nvme0n1", 9, Some(9))];
    unproven("posix-sio/syscall/interrupt", &evidence);
    evidence.devices = vec![disk("nvme0n1", 10, Some(10))];
    assert_eq!(kind("posix-sio/syscall/interrupt", &evidence), VerdictKind::Verified);
}

#[test]
fn foreign_io_beyond_its_share_leaves_the_trial_unproven() {
    for (foreign, expected) in [(IOS / 20, VerdictKind::Unproven), (IOS / 200, VerdictKind::Verified)] {
        let mut evidence = interrupt();
        evidence.devices = vec![disk("nvme0n1", IOS + foreign, Some(IOS + foreign))];
        assert_eq!(kind("posix-sio/syscall/interrupt", &evidence), expected);
    }
}

#[test]
fn interrupts_of_foreign_io_do_not_refute_a_poll() {
    let mut evidence = poll();
    evidence.devices = vec![disk("nvme0n1", IOS + 5_000, Some(5_000))];
    let reason = unproven("posix-sio/syscall/poll", &evidence);
    assert_contains(&reason, "all of the 0.0500 interrupts per I/O may come from other I/O");
    assert_contains(&reason, "others used the disk");
    evidence.devices = vec![disk("nvme0n1", IOS + 5_000, Some(IOS))];
    assert_eq!(kind("posix-sio/syscall/poll", &evidence), VerdictKind::Refuted);
}

#[test]
fn interrupts_of_foreign_io_beside_a_cache_do_not_refute_a_poll() {
    let mut evidence = poll();
    evidence.devices = vec![disk("nvme0n1", 2_000, Some(2_000))];
    unproven("posix-sio/syscall/poll", &evidence);
}

#[test]
fn commands_that_the_block_layer_does_not_count_are_refuted_by_their_interrupts() {
    let mut evidence = interrupt();
    evidence.devices = vec![disk("nvme0n1", 0, Some(IOS))];
    assert_eq!(kind("nvme-passthrough/syscall/poll", &evidence), VerdictKind::Refuted);
    assert_unproven("nvme-passthrough/syscall/interrupt", &evidence, "passed through uncounted");
}

#[test]
fn split_and_merged_ios_are_named() {
    let mut evidence = interrupt();
    evidence.devices[0].reads = 2 * IOS;
    evidence.devices[0].interrupts = Some(2 * IOS);
    assert_unproven("posix-sio/syscall/interrupt", &evidence, "I/Os were split");
    assert_eq!(kind("posix-sio/syscall/poll", &evidence), VerdictKind::Refuted);
    evidence.devices[0].interrupts = Some(IOS);
    assert_eq!(kind("posix-sio/syscall/poll", &evidence), VerdictKind::Refuted);
    evidence.devices[0].reads = IOS / 2;
    evidence.devices[0].read_merges = IOS / 2;
    assert_unproven("posix-sio/syscall/interrupt", &evidence, "I/Os were merged (50000 merges)");
}

/// A durable write by a system call was counted as two writes, one of them empty, and called split.
#[test]
fn flushes_of_durable_writes_are_no_split_ios() {
    let mut evidence = interrupt();
    (evidence.writes, evidence.write_bytes) = (evidence.reads, evidence.read_bytes);
    (evidence.reads, evidence.read_bytes) = (0, 0);
    let (disk, path) = (&mut evidence.devices[0], "posix-sio/syscall/interrupt");
    (disk.write_sectors, disk.writes, disk.flushes) = (disk.read_sectors, 2 * IOS, 2 * IOS);
    (disk.read_sectors, disk.reads) = (0, 0);
    disk.interrupts = Some(2 * IOS);
    assert_unproven(path, &evidence, "I/Os were split");
    evidence.durable_writes = IOS;
    assert_eq!(kind(path, &evidence), VerdictKind::Verified);
    (evidence.durable_writes, evidence.syncs) = (0, IOS);
    assert_eq!(kind(path, &evidence), VerdictKind::Verified);
    evidence.devices[0].flushes = 0;
    assert_unproven(path, &evidence, "I/Os were split");
}

#[test]
fn missing_reads_are_not_made_up_for_by_foreign_writes() {
    let mut evidence = interrupt();
    evidence.devices[0] =
        DeviceEvidence { writes: 500, write_sectors: 4_000, ..disk("nvme0n1", IOS - 500, Some(IOS)) };
    let reason = unproven("posix-sio/syscall/interrupt", &evidence);
    assert_contains(&reason, "99500 reads of 407552000 bytes where 100000 of 409600000 bytes were issued");
    assert_contains(&reason, "500 writes of 2048000 bytes where 0 of 0 bytes were issued: a cache");
    (evidence.reads, evidence.read_bytes) = (IOS - 500, (IOS - 500) * 4096);
    (evidence.writes, evidence.write_bytes) = (500, 500 * 4096);
    assert_eq!(kind("posix-sio/syscall/interrupt", &evidence), VerdictKind::Verified);
}

#[test]
fn own_merges_do_not_hide_foreign_interrupts() {
    let mut evidence = poll();
    // Nine of ten own I/Os were merged away, and as many foreign ones took their place.
    let foreign = IOS / 10 * 9;
    evidence.devices = vec![DeviceEvidence { read_merges: foreign, ..disk("nvme0n1", IOS, Some(foreign)) }];
    unproven("posix-sio/syscall/poll", &evidence);
    (evidence.devices[0].read_merges, evidence.devices[0].interrupts) = (0, Some(IOS));
    assert_eq!(kind("posix-sio/syscall/poll", &evidence), VerdictKind::Refuted);
}

#[test]
fn foreign_flushes_and_discards_do_not_refute_a_poll() {
    let mut evidence = poll();
    evidence.devices[0].interrupts = Some(IOS);
    assert_eq!(kind("posix-sio/syscall/poll", &evidence), VerdictKind::Refuted);
    for (flushes, discards) in [(IOS, 0), (0, IOS), (IOS / 2, IOS / 2)] {
        (evidence.devices[0].flushes, evidence.devices[0].discards) = (flushes, discards);
        assert_unproven("posix-sio/syscall/poll", &evidence, "may come from other I/O");
    }
}

#[test]
fn large_foreign_writes_are_known_by_their_bytes() {
    let mut evidence = interrupt();
    evidence.devices[0].writes = 10;
    evidence.devices[0].write_sectors = IOS;
    assert_unproven("posix-sio/syscall/interrupt", &evidence, "others used the disk");
}

#[test]
fn a_disk_that_does_not_count_says_how_to_make_it() {
    let mut evidence = interrupt();
    evidence.devices[0].settings.insert("iostats".into(), "0".into());
    assert_unproven("posix-sio/syscall/poll", &evidence, "write 1 to the disk's `queue/iostats`");
    evidence.devices[0].settings.insert("iostats".into(), "1".into());
    assert_eq!(kind("posix-sio/syscall/poll", &evidence), VerdictKind::Refuted);
}

#[test]
fn no_disk_and_no_io_prove_nothing() {
    let mut evidence = interrupt();
    evidence.devices.clear();
    assert_unproven("posix-sio/syscall/interrupt", &evidence, "no disk under the target is known");
    let mut evidence = interrupt();
    evidence.reads = 0;
    assert_unproven("posix-sio/syscall/interrupt", &evidence, "no I/O was issued");
}
