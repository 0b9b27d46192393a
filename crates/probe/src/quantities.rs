//! Quantities that follow from evidence, most of them per I/O, and their text. `completion_by_counts`,
//! `completion_by_interrupts`, `submission` and `doubt` decide what they show.

use crate::remedy::Remedy;
use iopj_core::evidence::{
    Completions, DeviceEvidence, EngineEvidence, Evidence, Finding, ProcessEvidence, ThreadEvidence,
    ThreadRole,
};
use iopj_core::uring::RingFlag;

/// Bytes of a sector in `/sys/block/X/stat`, whatever the disk's block size.
const SECTOR_BYTES: u64 = 512;

/// Share of the CPU time allowed by the cores that a poller must use to have polled all the time.
pub const POLL_BUSY: f64 = 0.85;
/// Sleeps per round (one I/O of each that a job keeps in flight) below which the poller did not sleep.
pub const POLL_SLEEPS: f64 = 0.02;
/// Sleeps per round from which on the poller slept before it polled. Between the two nothing is certain.
pub const HYBRID_SLEEPS: f64 = 0.1;

/// Share of the issued I/Os or bytes that the disks may not have done.
pub const MISSING_SHARE: f64 = 0.001;

/// Reads or writes: those that the trial issued, and the sum of those that the disks under the target did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Direction {
    pub(crate) issued: u64,
    issued_bytes: u64,
    pub(crate) ios: u64,
    sectors: u64,
    pub(crate) merges: u64,
    /// Of the I/Os, the most that may be empty writes: a disk with a cache counts the flush of a flush, an
    /// fsync or a durable write as one (`blkdev_issue_flush`).
    flushes: u64,
    /// A taken device counts its I/Os, but nobody counts their sectors.
    without_sectors: bool,
}

impl Direction {
    /// Reads and writes separately: an excess of one does not make up for a lack of the other.
    pub(crate) fn both(evidence: &Evidence) -> [Direction; 2] {
        let mut reads =
            Direction { issued: evidence.reads, issued_bytes: evidence.read_bytes, ..Direction::default() };
        let mut writes =
            Direction { issued: evidence.writes, issued_bytes: evidence.write_bytes, ..Direction::default() };
        let flushes = evidence.devices.iter().map(|disk| disk.flushes).fold(0, u64::saturating_add);
        writes.flushes = flushes.min(evidence.syncs.saturating_add(evidence.durable_writes));
        for disk in &evidence.devices {
            reads.add(disk.reads, disk.read_sectors, disk.read_merges);
            writes.add(disk.writes, disk.write_sectors, disk.write_merges);
            reads.without_sectors |= counts_itself(disk);
            writes.without_sectors |= counts_itself(disk);
        }
        [reads, writes]
    }

    fn add(&mut self, ios: u64, sectors: u64, merges: u64) {
        self.ios = self.ios.saturating_add(ios);
        self.sectors = self.sectors.saturating_add(sectors);
        self.merges = self.merges.saturating_add(merges);
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.sectors.saturating_mul(SECTOR_BYTES)
    }

    /// I/Os beyond those that the trial asked for, and its flushes.
    pub(crate) fn excess_ios(&self) -> u64 {
        self.ios.saturating_sub(self.issued.saturating_add(self.flushes))
    }

    /// Sectors beyond those that the trial asked for; without sectors, one per excess I/O.
    pub(crate) fn excess_sectors(&self) -> u64 {
        if self.without_sectors {
            return self.ios.saturating_sub(self.issued);
        }
        self.sectors.saturating_sub(self.issued_bytes / SECTOR_BYTES)
    }

    pub(crate) fn excess_bytes(&self) -> u64 {
        self.bytes().saturating_sub(self.issued_bytes)
    }

    /// True if the disks moved fewer bytes than were asked for; without sectors, if they did fewer I/Os.
    pub(crate) fn is_missing(&self) -> bool {
        if self.without_sectors {
            return self.is_short();
        }
        let missing = self.issued_bytes.saturating_sub(self.bytes());
        missing as f64 > MISSING_SHARE * self.issued_bytes as f64
    }

    /// True if the disks did fewer I/Os than were issued.
    pub(crate) fn is_short(&self) -> bool {
        self.issued.saturating_sub(self.ios) as f64 > MISSING_SHARE * self.issued as f64
    }

    /// An upper bound of the I/Os that others did on the disks. An own I/O that was merged makes room for a
    /// foreign one among those done, so merges count as done. Each foreign I/O moves at least one sector, so
    /// own I/Os that were split are not taken for foreign ones; if there were merges, the bound by sectors is
    /// not used.
    fn foreign_at_most(&self) -> u64 {
        if self.is_missing() {
            return self.ios;
        }
        let beyond = self.ios.saturating_add(self.merges).saturating_sub(self.issued).min(self.ios);
        if self.merges > 0 { beyond } else { beyond.min(self.excess_sectors()) }
    }
}

/// The most flushes that a durable write causes: one in place of FUA, where the drive has none
/// (block/blk-flush.c), and one as fdatasync does (`generic_write_sync`).
const FLUSHES_PER_WRITE: u64 = 2;

/// An upper bound of what others made the disks do, each of which can cause an interrupt: I/Os, and the
/// flushes and discards that are not the trial's own. A stack of disks may make several of one.
pub(crate) fn foreign_at_most(evidence: &Evidence) -> u64 {
    let ios = Direction::both(evidence).iter().map(Direction::foreign_at_most).fold(0, u64::saturating_add);
    let all = |of: fn(&DeviceEvidence) -> u64| evidence.devices.iter().map(of).fold(0, u64::saturating_add);
    let own_flushes = evidence.syncs.saturating_add(FLUSHES_PER_WRITE * evidence.durable_writes);
    let flushes = all(|disk| disk.flushes).saturating_sub(own_flushes);
    let discards = all(|disk| disk.discards).saturating_sub(evidence.discards);
    ios.saturating_add(flushes).saturating_add(discards)
}

/// The most I/Os that the jobs had in flight: no interrupt can complete more.
pub(crate) fn in_flight(evidence: &Evidence) -> u64 {
    u64::from(evidence.iodepth.max(1)) * u64::from(evidence.numjobs.max(1))
}

/// The most I/Os that one vector has in flight if the jobs are spread over the vectors as over the cores:
/// those of its share of the jobs, and no more than its queue holds (`nr_requests`). Each queue pair of a
/// drive that was taken has a vector of its own, whatever core its job runs on.
pub(crate) fn in_flight_per_vector(evidence: &Evidence) -> u64 {
    let vectors: usize = evidence.devices.iter().map(|device| device.vectors.len()).sum();
    let cores = match evidence.allowed_cpus.unwrap_or(evidence.cpu.cores) {
        cores if cores > 0 && !is_taken(evidence) => cores.into(),
        _ => u64::MAX,
    };
    let jobs = u64::from(evidence.numjobs.max(1)).div_ceil((vectors as u64).clamp(1, cores));
    let queue =
        evidence.devices.iter().filter_map(|device| device.settings.get("nr_requests")?.parse().ok()).max();
    (u64::from(evidence.iodepth.max(1)) * jobs).min(queue.unwrap_or(u64::MAX)).max(1)
}

/// Sleeps that have to do with I/O: bounds of their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sleeps {
    pub(crate) least: u64,
    pub(crate) most: u64,
}

/// Sleeps that have nothing to do with I/O, of a generator that ran as a process of its own: at its start and
/// end.
pub const START_SLEEPS: u64 = 400;
/// And per second of the window: sleeps of its main thread, which looks after the jobs.
pub const MAIN_SLEEPS_PER_S: u64 = 120;

impl Sleeps {
    /// The bounds of this many sleeps over this time; those of a whole process include some that have nothing
    /// to do with I/O.
    pub(crate) fn of(sleeps: u64, over_ns: u64, of_process: bool) -> Sleeps {
        let by_main = over_ns.div_ceil(1_000_000_000).saturating_mul(MAIN_SLEEPS_PER_S);
        let others = if of_process { by_main.saturating_add(START_SLEEPS) } else { 0 };
        Sleeps { least: sleeps.saturating_sub(others), most: sleeps }
    }
}

/// A count of a pass or a control run per round: one I/O of each that a job keeps in flight.
pub(crate) fn per_round(evidence: &Evidence, count: u64, ios: u64) -> f64 {
    ratio(count, ios) * f64::from(evidence.iodepth.max(1))
}

/// A count of the window per round. Under an open load a job rarely has `iodepth` I/Os in flight, so a
/// round is as many as it had.
pub(crate) fn per_window_round(evidence: &Evidence, count: u64) -> f64 {
    let deepest = f64::from(evidence.iodepth.max(1));
    let jobs = f64::from(evidence.numjobs.max(1));
    let depth = match evidence.pace {
        Some(_) => (ratio(evidence.latency_sum_ns, evidence.window_ns) / jobs).clamp(1.0, deepest),
        None => deepest,
    };
    ratio(count, evidence.ios()) * depth
}

/// The threads that look for completions: the submission pollers if they ran, else the jobs, else (if a child
/// process did the I/O) the whole process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pollers {
    pub(crate) count: u64,
    pub(crate) cpu_ns: u64,
    pub(crate) sleeps: Sleeps,
    /// Other threads of the trial that may want a CPU.
    beside: u64,
    beside_ns: u64,
    /// Time that they slept between the arrivals of an open load.
    paused_ns: u64,
}

impl Pollers {
    pub(crate) fn of(evidence: &Evidence) -> Pollers {
        if evidence.threads.is_empty() {
            let ProcessEvidence { user_ns, system_ns, voluntary_switches: sleeps, .. } = evidence.process;
            return Pollers {
                count: evidence.numjobs.into(),
                cpu_ns: user_ns.saturating_add(system_ns),
                sleeps: Sleeps::of(sleeps, evidence.window_ns, true),
                beside: 0,
                beside_ns: 0,
                paused_ns: 0,
            };
        }
        let running: Vec<i32> = running_sqpolls(evidence).map(|thread| thread.tid).collect();
        let looks = |thread: &&ThreadEvidence| match &running[..] {
            [] => thread.role == ThreadRole::Job,
            _ => thread.role == ThreadRole::Sqpoll && running.contains(&thread.tid),
        };
        let (lookers, others): (Vec<_>, Vec<_>) = evidence.threads.iter().partition(looks);
        let sum = |threads: &[&ThreadEvidence], of: fn(&ThreadEvidence) -> u64| {
            threads.iter().map(|it| it.in_window(of(it), evidence.window_ns)).fold(0, u64::saturating_add)
        };
        // The jobs pause, not a poller of the kernel.
        let pace = evidence.pace.filter(|_| running.is_empty()).unwrap_or_default();
        let sleeps = sum(&lookers, |thread| thread.voluntary_switches).saturating_sub(pace.sleeps);
        Pollers {
            count: lookers.len() as u64,
            cpu_ns: sum(&lookers, |thread| thread.cpu_ns),
            sleeps: Sleeps::of(sleeps, evidence.window_ns, false),
            beside: others.iter().filter(|thread| thread.cpu_ns > 0).count() as u64,
            beside_ns: sum(&others, |thread| thread.cpu_ns),
            paused_ns: pace.slept_ns,
        }
    }

    /// The share of the window, without pauses between arrivals, that a poller spent on a CPU.
    pub(crate) fn busy(&self, window_ns: u64) -> f64 {
        let all_ns = window_ns.saturating_mul(self.count.max(1)).saturating_sub(self.paused_ns);
        ratio(self.cpu_ns, all_ns)
    }

    /// The share of a CPU that the cores allow each: what the trial's other threads left, or an equal part
    /// for every thread of the trial if that is more.
    pub(crate) fn allowed(&self, evidence: &Evidence) -> f64 {
        let cores = f64::from(evidence.allowed_cpus.unwrap_or(evidence.cpu.cores));
        if cores == 0.0 {
            return 1.0;
        }
        let left = (cores - ratio(self.beside_ns, evidence.window_ns)) / self.count.max(1) as f64;
        let equal = cores / (self.count + self.beside).max(1) as f64;
        left.max(equal).min(1.0)
    }

    /// Whether they were awake all the time, as far as the cores allow: no sleep, and on a CPU.
    pub(crate) fn polled(&self, evidence: &Evidence) -> Result<(), (String, Remedy)> {
        if self.count == 0 {
            let why = "no interrupt, but no thread is known to have looked for completions";
            return Err((why.to_owned(), Remedy::NativeGenerator));
        }
        if running_sqpolls(evidence).count() > evidence.numjobs as usize {
            let why = "no interrupt, but more submission pollers ran than the trial has";
            return Err((why.to_owned(), Remedy::OneRing));
        }
        let [least, most] = [self.sleeps.least, self.sleeps.most].map(|it| per_window_round(evidence, it));
        if least >= POLL_SLEEPS {
            let least = text(least);
            let why = format!("no interrupt, but {least} sleeps per round are too many for poll");
            return Err((why, Remedy::Repeat));
        }
        if most >= HYBRID_SLEEPS {
            let why = format!(
                "no interrupt, and {} sleeps per round that may be those of the generator's start or before \
                 each poll",
                text(most)
            );
            return Err((why, Remedy::MeasureLonger));
        }
        self.on_cpu(evidence)
    }

    /// Whether they had as much of the processors as the cores allow.
    pub(crate) fn on_cpu(&self, evidence: &Evidence) -> Result<(), (String, Remedy)> {
        let (busy, allowed) = (self.busy(evidence.window_ns), self.allowed(evidence));
        if busy >= POLL_BUSY * allowed {
            return Ok(());
        }
        let why = format!(
            "no interrupt and no sleep, but a poller had a CPU for only {:.0} % of the window where the \
             cores allow {:.0} %",
            100.0 * busy,
            100.0 * allowed
        );
        Err((why, Remedy::OwnCores))
    }
}

/// True if the device counts its own I/Os, and nobody counts their sectors.
pub(crate) fn counts_itself(device: &DeviceEvidence) -> bool {
    device.by_log || device.taken_by.is_some()
}

/// True if every device had been taken from its kernel driver for a program.
pub(crate) fn is_taken(evidence: &Evidence) -> bool {
    let by_vfio = |device: &DeviceEvidence| device.taken_by.as_deref() == Some("vfio-pci");
    !evidence.devices.is_empty() && evidence.devices.iter().all(by_vfio)
}

/// True if the trial's rings were set up with submission pollers.
pub(crate) fn has_sqpolls(engine: &EngineEvidence) -> bool {
    engine.ring_flags.contains(&RingFlag::Sqpoll)
}

/// Submission pollers, of any ring.
pub(crate) fn sqpolls(evidence: &Evidence) -> impl Iterator<Item = &ThreadEvidence> {
    evidence.threads.iter().filter(|thread| thread.role == ThreadRole::Sqpoll)
}

/// The trial's own submission pollers that did anything in the window.
pub(crate) fn running_sqpolls(evidence: &Evidence) -> impl Iterator<Item = &ThreadEvidence> {
    // Of another process only its own pollers were read.
    let are_own = evidence.engine.as_ref().map_or(evidence.rings.is_some(), has_sqpolls);
    sqpolls(evidence).filter(move |thread| are_own && thread.cpu_ns > 0)
}

/// The interrupts of all disks, or the name of the first disk whose interrupts cannot be told apart.
pub(crate) fn interrupts(evidence: &Evidence) -> Result<u64, &str> {
    evidence.devices.iter().try_fold(0u64, |sum, device| {
        device.interrupts.map(|interrupts| sum.saturating_add(interrupts)).ok_or(device.name.as_str())
    })
}

/// `count / of`; 0 if nothing was done.
pub(crate) fn ratio(count: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { count as f64 / of as f64 }
}

/// Two decimals, or four if two would hide the value.
pub(crate) fn text(figure: f64) -> String {
    if figure > 0.0 && figure < 0.1 { format!("{figure:.4}") } else { format!("{figure:.2}") }
}

/// Who completed the I/Os of the pass, in words.
pub(crate) fn completions_text(counts: &Completions) -> String {
    let kinds = [
        (counts.hard_interrupt, "in hard interrupts"),
        (counts.soft_interrupt, "in soft interrupts"),
        (counts.worker, "by kernel workers"),
        (counts.waiting, "by threads that wait"),
        (counts.other, "by other threads"),
    ];
    let said: Vec<String> =
        kinds.iter().filter(|(count, _)| *count > 0).map(|(count, who)| format!("{count} {who}")).collect();
    let said = if said.is_empty() { "none".to_owned() } else { said.join(", ") };
    format!("completed in the pass of {} I/Os before the window: {said}", counts.ios)
}

/// The quantities behind a verdict, one phrase each: interrupts, I/Os of the disks, sleeps, and submitting
/// system calls or doorbells per I/O issued; the pollers' share of a CPU; the achieved depth.
pub fn summary(evidence: &Evidence) -> Vec<String> {
    let per_io = |count: u64| text(ratio(count, evidence.ios()));
    let mut figures = Vec::new();
    if !evidence.devices.is_empty() {
        figures.push(match interrupts(evidence) {
            Ok(interrupts) => format!("{} interrupts per I/O", per_io(interrupts)),
            Err(name) => format!("interrupts of {name} not told apart"),
        });
        let done = Direction::both(evidence).iter().map(|it| it.ios).fold(0, u64::saturating_add);
        figures.push(format!("{} I/Os of the disk per I/O issued", per_io(done)));
    }
    let pollers = Pollers::of(evidence);
    if pollers.count > 0 {
        let busy = 100.0 * pollers.busy(evidence.window_ns);
        let who = match (evidence.threads.is_empty(), running_sqpolls(evidence).next()) {
            (true, _) => "process, per job",
            (false, Some(_)) => "submission poller",
            (false, None) => "job",
        };
        figures
            .push(format!("{} sleeps per I/O and {busy:.0} % of a CPU ({who})", per_io(pollers.sleeps.most)));
    }
    match &evidence.completions {
        Some(Finding::Seen(counts)) => figures.push(completions_text(counts)),
        Some(Finding::Unclear(reason)) => {
            figures.push(format!("who completed each I/O was not counted: {reason}"))
        }
        Some(Finding::Mixed(_)) | None => {}
    }
    if let Some(engine) = &evidence.engine {
        let both = engine.submission_doorbells().zip(engine.completion_doorbells);
        let both = both.map(|(submission, completion)| (per_io(submission), per_io(completion)));
        figures.push(match (both, engine.doorbells) {
            (Some((submission, completion)), _) => {
                format!("{submission} submission and {completion} completion doorbells per I/O")
            }
            (None, Some(doorbells)) => format!("{} doorbells per I/O", per_io(doorbells)),
            (None, None) => format!("{} submitting system calls per I/O", per_io(engine.submit_calls)),
        });
    }
    if evidence.latency_sum_ns > 0 {
        figures.push(format!("achieved depth {}", text(ratio(evidence.latency_sum_ns, evidence.window_ns))));
    }
    figures
}
