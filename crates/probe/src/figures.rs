//! Figures per I/O that follow from evidence, and their text. What they show is decided in `observe`.

use iopj_core::evidence::{Evidence, ThreadEvidence, ThreadRole};

/// Bytes of a sector in `/sys/block/X/stat`, whatever the disk's block size.
const SECTOR_BYTES: u64 = 512;

/// What the disks under the target did, summed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    pub(crate) ios: u64,
    pub(crate) sectors: u64,
    pub(crate) merges: u64,
}

impl Done {
    pub(crate) fn of(evidence: &Evidence) -> Done {
        evidence.devices.iter().fold(Done::default(), |sum, device| Done {
            ios: sum.ios.saturating_add(device.reads).saturating_add(device.writes),
            sectors: sum.sectors.saturating_add(device.read_sectors).saturating_add(device.write_sectors),
            merges: sum.merges.saturating_add(device.read_merges).saturating_add(device.write_merges),
        })
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.sectors.saturating_mul(SECTOR_BYTES)
    }

    /// Sectors beyond those that the trial asked for.
    pub(crate) fn excess_sectors(&self, asked_bytes: u64) -> u64 {
        self.sectors.saturating_sub(asked_bytes / SECTOR_BYTES)
    }
}

/// Those who look for completions: the submission pollers where they ran, else the jobs, else
/// (where a child process did the I/O) the whole process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pollers {
    pub(crate) count: u64,
    pub(crate) cpu_ns: u64,
    pub(crate) sleeps: u64,
}

impl Pollers {
    pub(crate) fn of(evidence: &Evidence) -> Pollers {
        if evidence.threads.is_empty() {
            let process = &evidence.process;
            let cpu_ns = process.user_ns.saturating_add(process.system_ns);
            return Pollers { count: evidence.numjobs.into(), cpu_ns, sleeps: process.voluntary_switches };
        }
        let sqpolls = Pollers::sum(running_sqpolls(evidence));
        if sqpolls.count > 0 {
            return sqpolls;
        }
        Pollers::sum(evidence.threads.iter().filter(|thread| thread.role == ThreadRole::Job))
    }

    fn sum<'a>(threads: impl Iterator<Item = &'a ThreadEvidence>) -> Pollers {
        threads.fold(Pollers { count: 0, cpu_ns: 0, sleeps: 0 }, |sum, thread| Pollers {
            count: sum.count + 1,
            cpu_ns: sum.cpu_ns.saturating_add(thread.cpu_ns),
            sleeps: sum.sleeps.saturating_add(thread.voluntary_switches),
        })
    }

    /// The share of the window that a poller spent on a CPU.
    pub(crate) fn busy(&self, window_ns: u64) -> f64 {
        ratio(self.cpu_ns, window_ns) / self.count.max(1) as f64
    }
}

/// io_uring's submission pollers that did anything in the window.
pub(crate) fn running_sqpolls(evidence: &Evidence) -> impl Iterator<Item = &ThreadEvidence> {
    evidence.threads.iter().filter(|thread| thread.role == ThreadRole::Sqpoll && thread.cpu_ns > 0)
}

/// The interrupts of all disks, or the name of the first whose interrupts cannot be told.
pub(crate) fn interrupts(evidence: &Evidence) -> Result<u64, &str> {
    evidence.devices.iter().try_fold(0u64, |sum, device| {
        device.interrupts.map(|interrupts| sum.saturating_add(interrupts)).ok_or(device.name.as_str())
    })
}

/// `count / of`, 0 where nothing was done.
pub(crate) fn ratio(count: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { count as f64 / of as f64 }
}

/// Two decimals, or four where two would hide what there is.
pub(crate) fn text(figure: f64) -> String {
    if figure > 0.0 && figure < 0.1 { format!("{figure:.4}") } else { format!("{figure:.2}") }
}

/// The figures that a verdict rests on, one phrase each: interrupts, I/Os of the disks, sleeps,
/// and submitting system calls per I/O issued; the pollers' share of a CPU; the achieved depth.
pub fn summary(evidence: &Evidence) -> Vec<String> {
    let per_io = |count: u64| text(ratio(count, evidence.ios));
    let mut figures = Vec::new();
    if !evidence.devices.is_empty() {
        figures.push(match interrupts(evidence) {
            Ok(interrupts) => format!("{} interrupts per I/O", per_io(interrupts)),
            Err(name) => format!("interrupts of {name} not told apart"),
        });
        figures.push(format!("{} I/Os of the disk per I/O issued", per_io(Done::of(evidence).ios)));
    }
    let pollers = Pollers::of(evidence);
    if pollers.count > 0 {
        let busy = 100.0 * pollers.busy(evidence.window_ns);
        let who = match (evidence.threads.is_empty(), running_sqpolls(evidence).next()) {
            (true, _) => "process, per job",
            (false, Some(_)) => "submission poller",
            (false, None) => "job",
        };
        figures.push(format!("{} sleeps per I/O and {busy:.0} % of a CPU ({who})", per_io(pollers.sleeps)));
    }
    if let Some(engine) = &evidence.engine {
        figures.push(format!("{} submitting system calls per I/O", per_io(engine.submit_calls)));
    }
    if evidence.latency_sum_ns > 0 {
        figures.push(format!("achieved depth {}", text(ratio(evidence.latency_sum_ns, evidence.window_ns))));
    }
    figures
}
