//! Paths with a seeded fault, 200 trials of a simulated device per kind of fault: none is ever verified. All
//! of the same trials without the fault are.

use super::{PASS, PASSED, VerdictKind, disk, thread};
use iopj_core::evidence::{
    Completions, ControlRun, EngineEvidence, Evidence, Finding, RingEvidence, ThreadRole,
};
use iopj_core::path::{CompletionMode, IoPath, Submission};
use iopj_core::uring::RingFlag;
use iopj_probe::assess;

const TRIALS: u64 = 200;

/// SplitMix64 (Steele, Lea and Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Between two shares, on a logarithmic scale.
    fn share(&mut self, least: f64, most: f64) -> f64 {
        let at = self.below(1 << 20) as f64 / (1u64 << 20) as f64;
        least * (most / least).powf(at)
    }

    fn is(&mut self) -> bool {
        self.below(2) == 0
    }
}

fn of(count: u64, share: f64) -> u64 {
    (count as f64 * share).ceil() as u64
}

/// A trial of an honest path, and that path.
fn honest(random: &mut Random, completion: CompletionMode) -> (IoPath, Evidence) {
    let sqpoll = random.is();
    let path =
        format!("io_uring/{}/{completion}", if sqpoll { "sqpoll" } else { "syscall" }).parse().unwrap();
    let ios = 20_000 + random.below(400_000);
    let iodepth = 1 << random.below(6);
    let jobs = 1 + random.below(4) as u32;
    // Interrupts are shared by what completes together; a round is one of each that a job keeps in flight.
    let interrupts =
        |ios: u64, share: f64| if completion == CompletionMode::Interrupt { of(ios, share) } else { 0 };
    let sharing = 1.0 / (1.0 + random.below(u64::from(iodepth)) as f64);
    let rounds = |ios: u64, share: f64| of(ios / u64::from(iodepth), share);
    let slept = random.share(0.3, 0.9);
    let (busy, sleeps) = match completion {
        CompletionMode::Poll => (0.9 + random.share(0.01, 0.09), 0),
        CompletionMode::Hybrid => (random.share(0.2, 0.8), rounds(ios, slept)),
        _ => (random.share(0.05, 0.6), rounds(ios, 1.0)),
    };
    let looks = |role| thread(role, busy, sleeps / u64::from(jobs) + 1);
    let mut threads: Vec<_> = (0..jobs).map(|_| looks(ThreadRole::Job)).collect();
    if sqpoll {
        threads.extend((0..jobs).map(|_| looks(ThreadRole::Sqpoll)));
    }
    let ring_flags = if sqpoll { vec![RingFlag::Sqpoll] } else { Vec::new() };
    let submit_calls = if sqpoll { 0 } else { ios / u64::from(iodepth) };
    let by = |is: bool| if is { PASS } else { 0 };
    let is_soft = random.is();
    let counts = Completions {
        hard_interrupt: by(completion == CompletionMode::Interrupt && !is_soft),
        soft_interrupt: by(completion == CompletionMode::Interrupt && is_soft),
        waiting: by(completion != CompletionMode::Interrupt),
        timers: if completion == CompletionMode::Hybrid { rounds(PASS, slept) } else { 0 },
        interrupts: Some(interrupts(PASS, sharing)),
        sleeps: rounds(PASS, slept),
        ..PASSED
    };
    let mut evidence = Evidence {
        window_ns: super::WINDOW_NS,
        numjobs: jobs,
        iodepth,
        reads: ios,
        read_bytes: ios * 4096,
        devices: vec![disk("nvme0n1", ios, Some(interrupts(ios, sharing)))],
        threads,
        engine: Some(EngineEvidence { ring_flags, submit_calls, ..EngineEvidence::default() }),
        control: Some(ControlRun { ios: 64, interrupts: Some(64), device_reads: 64, completions: None }),
        completions: Some(Finding::Seen(counts)),
        ..Evidence::default()
    };
    evidence.cpu.cores = 16;
    evidence.devices[0].settings.insert("io_poll_delay".into(), "-1".into());
    (path, evidence)
}

const ALL: [CompletionMode; 3] = [CompletionMode::Interrupt, CompletionMode::Poll, CompletionMode::Hybrid];
const POLLED: [CompletionMode; 2] = [CompletionMode::Poll, CompletionMode::Hybrid];

fn counts(evidence: &mut Evidence) -> &mut Completions {
    match &mut evidence.completions {
        Some(Finding::Seen(counts)) => counts,
        _ => panic!("honest trials are counted"),
    }
}

/// Another path's evidence on the same queue; of the trial only the path asked for remains.
fn another(random: &mut Random, not: CompletionMode) -> Evidence {
    let others: Vec<CompletionMode> = ALL.into_iter().filter(|completion| *completion != not).collect();
    let chosen = others[random.below(2) as usize];
    honest(random, chosen).1
}

/// 200 trials with a fault; half of those still on one queue are judged without counts.
#[track_caller]
fn never_verified(way: &str, asked: &[CompletionMode], seed: impl Fn(&mut Random, &IoPath, &mut Evidence)) {
    for trial in 0..TRIALS {
        let mut random = Random(trial);
        let (path, mut evidence) = honest(&mut random, asked[trial as usize % asked.len()]);
        seed(&mut random, &path, &mut evidence);
        let (_, verdict) = assess(&path, &evidence);
        assert_ne!(
            verdict.kind,
            VerdictKind::Verified,
            "{way}, trial {trial}, {path}: {:?}",
            verdict.reasons
        );
    }
}

#[test]
fn what_is_not_seeded_is_verified() {
    for trial in 0..3 * TRIALS {
        let (path, evidence) = honest(&mut Random(trial), ALL[trial as usize % 3]);
        let (_, verdict) = assess(&path, &evidence);
        assert_eq!(verdict.kind, VerdictKind::Verified, "trial {trial}, {path}: {:?}", verdict.reasons);
    }
}

#[test]
fn a_path_that_falls_back_is_never_verified() {
    never_verified("falls back", &POLLED, |random, path, evidence| {
        let mut fallen = another(random, path.completion());
        while counts(&mut fallen).by_interrupt() == 0 {
            fallen = another(random, path.completion());
        }
        // With and without counts.
        fallen.completions = fallen.completions.filter(|_| random.is());
        fallen.engine.clone_from(&evidence.engine);
        *evidence = fallen;
    });
}

#[test]
fn a_cache_a_hole_and_merges_are_never_verified() {
    never_verified("a cache", &ALL, |random, _, evidence| {
        let answered = of(evidence.reads, random.share(0.002, 1.0));
        let disk = &mut evidence.devices[0];
        (disk.reads, disk.read_sectors) = (disk.reads - answered, disk.read_sectors - 8 * answered);
        disk.interrupts = disk.interrupts.map(|count| count.min(disk.reads));
    });
    never_verified("a hole", &ALL, |random, _, evidence| {
        let disk = &mut evidence.devices[0];
        (disk.reads, disk.read_sectors, disk.interrupts) = (0, 0, Some(0));
        let counted = random.is();
        *counts(evidence) = if counted { PASSED } else { *counts(evidence) };
    });
    never_verified("a merge", &ALL, |random, _, evidence| {
        let merged = of(evidence.reads, random.share(0.002, 0.9));
        let disk = &mut evidence.devices[0];
        (disk.reads, disk.read_merges) = (disk.reads - merged, merged);
    });
}

#[test]
fn another_process_on_the_disk_is_never_verified() {
    never_verified("another process", &ALL, |random, _, evidence| {
        let share = random.share(0.012, 2.0);
        let foreign = of(evidence.reads, share) + 300;
        let (writes, disk) = (random.is(), &mut evidence.devices[0]);
        let (ios, sectors) = if writes {
            (&mut disk.writes, &mut disk.write_sectors)
        } else {
            (&mut disk.reads, &mut disk.read_sectors)
        };
        (*ios, *sectors) = (*ios + foreign, *sectors + 8 * foreign);
        disk.interrupts = disk.interrupts.map(|count| count + foreign);
        counts(evidence).hard_interrupt += of(PASS, share);
    });
}

#[test]
fn a_poller_that_sleeps_is_never_verified() {
    never_verified("a sleeping poller", &[CompletionMode::Poll], |random, path, evidence| {
        let slept = random.share(0.02, 1.0);
        let rounds = |ios: u64| of(ios, slept) / u64::from(evidence.iodepth) + 1;
        let sleeps = rounds(evidence.reads) * u64::from(evidence.iodepth).max(1);
        let role = if path.submission() == Submission::Sqpoll { ThreadRole::Sqpoll } else { ThreadRole::Job };
        let in_pass = random.is();
        let timers = rounds(PASS) + PASS / 50;
        if in_pass {
            counts(evidence).timers = timers;
        }
        let looks = evidence.threads.iter_mut().filter(|thread| thread.role == role);
        looks.for_each(|thread| thread.voluntary_switches += sleeps);
    });
    never_verified("a poller without a core", &[CompletionMode::Poll], |random, _, evidence| {
        let share = random.share(0.01, 0.8);
        evidence.threads.iter_mut().for_each(|thread| thread.cpu_ns = of(super::WINDOW_NS, share));
    });
    never_verified("a poller that is woken", &ALL, |random, _, evidence| {
        let woken = of(evidence.reads, random.share(0.11, 1.0));
        let engine = evidence.engine.as_mut().unwrap();
        (engine.ring_flags, engine.wakeups) = (vec![RingFlag::Sqpoll], woken);
    });
}

#[test]
fn mixed_queues_are_never_verified() {
    never_verified("mixed queues", &ALL, |random, _, evidence| {
        let other = of(PASS, random.share(0.011, 0.5));
        let all = counts(evidence);
        let is_polled = all.by_interrupt() == 0;
        let [interrupt, waiting] = if is_polled { [other, PASS - other] } else { [PASS - other, other] };
        (all.hard_interrupt, all.soft_interrupt, all.waiting) = (interrupt, 0, waiting);
        // The window as it was, or as mixed as the pass.
        if random.is() {
            let interrupts = interrupt as f64 / PASS as f64;
            evidence.devices[0].interrupts = Some(of(evidence.reads, interrupts));
        }
    });
    never_verified("strangers", &ALL, |random, _, evidence| {
        let all = counts(evidence);
        all.other = of(PASS, random.share(0.02, 1.0));
    });
}

#[test]
fn a_change_after_the_pass_is_never_verified() {
    never_verified("a change", &ALL, |random, path, evidence| {
        let mut changed = another(random, path.completion());
        // A window of the other kind after a pass of the one that was asked for.
        changed.completions.clone_from(&evidence.completions);
        let engine = evidence.engine.clone();
        while (changed.threads.iter().any(|thread| thread.role == ThreadRole::Sqpoll))
            != (path.submission() == Submission::Sqpoll)
        {
            changed = another(random, path.completion());
            changed.completions.clone_from(&evidence.completions);
        }
        changed.engine = engine;
        *evidence = changed;
    });
}

/// An honest trial with one I/O in flight at a time.
fn alone(random: &mut Random, completion: CompletionMode) -> (IoPath, Evidence) {
    loop {
        let (path, evidence) = honest(random, completion);
        if (evidence.iodepth, evidence.numjobs) == (1, 1) {
            return (path, evidence);
        }
    }
}

#[test]
fn a_part_that_changes_after_the_pass_is_never_verified() {
    // An I/O alone in flight has an interrupt of its own, counted before or not.
    never_verified("a part polled", &[CompletionMode::Interrupt], |random, path, evidence| {
        let mut changed = alone(random, CompletionMode::Interrupt).1;
        while has_poller(&changed) != (path.submission() == Submission::Sqpoll) {
            changed = alone(random, CompletionMode::Interrupt).1;
        }
        let polled = of(changed.reads, random.share(0.05, 0.9));
        changed.devices[0].interrupts = Some(changed.reads - polled);
        changed.completions = changed.completions.filter(|_| random.is());
        *evidence = changed;
    });
    // Deep queues, with as few interrupts as possible.
    never_verified("a part of a deep queue polled", &[CompletionMode::Interrupt], |random, _, evidence| {
        evidence.numjobs = 1;
        let depth = u64::from(evidence.iodepth);
        let polled = of(evidence.reads, random.share(0.06, 0.9));
        evidence.devices[0].interrupts = Some((evidence.reads - polled) / depth);
        counts(evidence).interrupts = Some(PASS / depth);
    });
    // Of others most: as many I/Os may sometimes share an interrupt.
    never_verified("most polled", &[CompletionMode::Interrupt], |random, _, evidence| {
        let left = 1.0 - random.share(0.77, 0.9);
        let interrupts = evidence.devices[0].interrupts.unwrap();
        evidence.devices[0].interrupts = Some((interrupts as f64 * left) as u64);
    });
    // Polled paths, of which a part falls back, or sleeps.
    never_verified("a part interrupted", &POLLED, |random, _, evidence| {
        evidence.devices[0].interrupts = Some(of(evidence.reads, random.share(0.05, 0.9)));
    });
    never_verified("no longer slept", &[CompletionMode::Hybrid], |random, _, evidence| {
        keep_sleeps(evidence, 1.0 - random.share(0.7, 0.9));
    });
    never_verified("without vectors", &[CompletionMode::Interrupt], |random, _, evidence| {
        keep_sleeps(evidence, 1.0 - random.share(0.77, 0.9));
        (evidence.devices[0].interrupts, counts(evidence).interrupts) = (None, None);
        counts(evidence).sleeps = PASS / u64::from(evidence.iodepth);
    });
}

fn has_poller(evidence: &Evidence) -> bool {
    evidence.threads.iter().any(|thread| thread.role == ThreadRole::Sqpoll)
}

#[test]
fn a_pass_of_which_a_part_was_not_counted_is_never_verified() {
    never_verified("a part uncounted", &ALL, |random, _, evidence| {
        let left = 1.0 - random.share(0.05, 0.9);
        let all = counts(evidence);
        for count in [&mut all.hard_interrupt, &mut all.soft_interrupt, &mut all.waiting] {
            *count = (*count as f64 * left) as u64;
        }
    });
}

#[test]
fn fio_of_which_a_part_goes_another_way_is_never_verified() {
    never_verified("a part by system calls", &ALL, |random, path, evidence| {
        let (submits, over_ns) = (path.submission() == Submission::Sqpoll, Some(super::WINDOW_NS));
        let other = of(evidence.reads, random.share(0.05, 0.9));
        let entries = Some(if submits { evidence.reads - other } else { evidence.reads });
        evidence.engine = None;
        // A path by system call has a ring among others that is polled.
        let mut rings = vec![RingEvidence { poller: submits.then_some(1), entries, over_ns }];
        rings.extend((!submits).then_some(RingEvidence { poller: Some(2), entries: Some(other), over_ns }));
        evidence.rings = Some(rings);
        if random.is() {
            let job = evidence.threads.iter_mut().find(|thread| thread.role == ThreadRole::Job).unwrap();
            job.block_bytes = Some(4096 * other);
        }
    });
}

#[test]
fn a_foreign_submission_poller_and_a_stale_delay_are_never_verified() {
    never_verified("a foreign submission poller", &ALL, |random, _, evidence| {
        let busy = random.share(0.001, 1.0);
        for _ in 0..=evidence.numjobs {
            evidence.threads.push(thread(ThreadRole::Sqpoll, busy, 0));
        }
    });
    never_verified("a stale io_poll_delay", &POLLED, |random, _, evidence| {
        let delay = random.below(100).to_string();
        evidence.devices[0].settings.insert("io_poll_delay".into(), delay);
    });
}

/// Leaves this share of the threads' sleeps.
fn keep_sleeps(evidence: &mut Evidence, share: f64) {
    let left = |sleeps: u64| (sleeps as f64 * share) as u64;
    evidence.threads.iter_mut().for_each(|it| it.voluntary_switches = left(it.voluntary_switches));
}
