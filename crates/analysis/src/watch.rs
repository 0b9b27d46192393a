//! Figures of a watched program: what its counts mean per second and per I/O.

use iopj_core::Scope;
use iopj_core::watch::{
    EventEstimates, SampledLatency, SeenCaching, SeenInterface, SeenPath, WatchEvidence, WatchedDevice,
};
use serde::Serialize;

/// Bytes of a sector as the kernel counts them.
const SECTOR: f64 = 512.0;
const MEGABYTE: f64 = 1e6;

/// Figures of a stretch of time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WatchFigures {
    /// Its length in s.
    pub seconds: f64,
    /// Of each disk, with the I/O of everybody.
    pub devices: Vec<DeviceFigures>,
    /// Of the program; absent for a device.
    pub program: Option<ProgramFigures>,
    /// Of the page cache; absent if the program does not use it.
    pub cache: Option<CacheFigures>,
    /// Shares of all cores' time.
    pub machine: MachineFigures,
    /// Mean power by meter and scope.
    pub power: Vec<PowerFigures>,
    /// The share of the time for which tracepoints were counted; absent where they cannot be.
    pub counted_share: Option<f64>,
    /// By how much watching is estimated to slow the program down.
    pub slowdown: f64,
}

/// Figures of one disk.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceFigures {
    /// Its name.
    pub name: String,
    /// Reads a second.
    pub read_iops: f64,
    /// Writes a second.
    pub write_iops: f64,
    /// 10^6 bytes read a second.
    pub read_mb_per_s: f64,
    /// 10^6 bytes written a second.
    pub write_mb_per_s: f64,
    /// Mean latency of all I/Os in ns, in steps of what the kernel's ms allow; absent without I/O.
    pub latency_ns_mean: Option<f64>,
    /// Sampled latencies from issue to completion.
    pub sampled: Option<SampledLatency>,
    /// Interrupts per I/O on the disk's own vectors; absent where they cannot be told apart.
    pub interrupts_per_io: Option<f64>,
    /// Shares of completions in hard interrupts, soft interrupts, workers of the kernel, and other threads.
    pub completed: Option<[f64; 4]>,
    /// Share of requests that workers of the kernel issued: writeback, and I/O that would have blocked.
    pub issued_by_workers: Option<f64>,
}

/// Figures of a program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProgramFigures {
    /// Processes at the end.
    pub processes: u32,
    /// Threads at the end.
    pub threads: u32,
    /// Cores busy in user space.
    pub user_cores: f64,
    /// Cores busy in the kernel.
    pub system_cores: f64,
    /// Context switches a second.
    pub switches_per_s: f64,
    /// Context switches per I/O of the disks; absent without I/O.
    pub switches_per_io: Option<f64>,
    /// System calls a second; absent where they cannot be counted.
    pub calls_per_s: Option<f64>,
    /// System calls per I/O of the disks.
    pub calls_per_io: Option<f64>,
    /// System calls by name, a second.
    pub calls: Vec<(String, f64)>,
    /// Entries of rings a second.
    pub ring_entries_per_s: Option<f64>,
}

/// Figures of the page cache, as far as a program uses it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CacheFigures {
    /// 10^6 bytes a second that `read` and its relatives returned, pipes included; absent, as are `hits` and
    /// `readahead`, where most I/O goes another way, whose bytes nobody counts.
    pub read_mb_per_s: Option<f64>,
    /// The share of these that no device was read for: cache hits.
    pub hits: Option<f64>,
    /// 10^6 bytes a second that the program made the devices read, readahead included.
    pub fetched_mb_per_s: f64,
    /// Mean size of a device's reads over that of the program's: above 1 where the kernel reads ahead.
    pub readahead: Option<f64>,
    /// 10^6 bytes a second that `write` and its relatives took.
    pub write_mb_per_s: f64,
    /// 10^6 bytes a second that became dirty, to be written back.
    pub dirtied_mb_per_s: f64,
    /// Folios that the program added to the cache a second; absent where they cannot be counted.
    pub adds_per_s: Option<f64>,
}

/// Shares of all cores' time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct MachineFigures {
    /// In user space.
    pub user: f64,
    /// In the kernel.
    pub system: f64,
    /// In hard interrupts.
    pub irq: f64,
    /// In soft interrupts.
    pub softirq: f64,
    /// Idle while an I/O was outstanding.
    pub iowait: f64,
    /// Taken by the hypervisor.
    pub steal: f64,
    /// Idle.
    pub idle: f64,
}

/// Power of one channel of a meter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PowerFigures {
    /// The meter and its channel.
    pub meter: String,
    /// What it measures.
    pub scope: Scope,
    /// Mean power in W.
    pub watts: f64,
    /// I/Os of the disks per joule; absent without I/O or power.
    pub ios_per_joule: Option<f64>,
}

impl WatchFigures {
    /// The figures of some counts, with the paths that they show.
    pub fn of(evidence: &WatchEvidence, paths: &[SeenPath]) -> WatchFigures {
        let seconds = (evidence.over_ns as f64 * 1e-9).max(1e-9);
        let ios = evidence.device_ios() as f64;
        let is_buffered = |path: &SeenPath| path.caching != SeenCaching::Direct;
        let is_hidden =
            || evidence.program.as_ref().is_some_and(|program| program.whole_disk_bytes.is_some());
        let has_cache = paths.iter().any(is_buffered) || (paths.is_empty() && is_hidden());
        let cache = has_cache.then(|| cache(evidence, paths, seconds)).flatten();
        let power = evidence.power.iter().map(|power| PowerFigures {
            meter: format!("{} {}", power.meter, power.channel),
            scope: power.scope,
            watts: power.watts,
            ios_per_joule: (ios > 0.0 && power.watts > 0.0).then(|| ios / seconds / power.watts),
        });
        WatchFigures {
            seconds,
            devices: evidence.devices.iter().map(|device| self::device(device, seconds)).collect(),
            program: program(evidence, seconds, ios),
            cache,
            machine: machine(evidence),
            power: power.collect(),
            counted_share: evidence.events.as_ref().map(|events| events.share()),
            slowdown: evidence.cost.slowdown,
        }
    }
}

fn device(device: &WatchedDevice, seconds: f64) -> DeviceFigures {
    let counts = &device.counts;
    let ios = (counts.reads + counts.writes) as f64;
    let per_io = |count: u64| (ios > 0.0).then(|| count as f64 / ios);
    let megabytes = |sectors: u64| sectors as f64 * SECTOR / MEGABYTE / seconds;
    let seen = device.completions.filter(|seen| seen.total() > 0);
    let share = |count: u64, of: u64| count as f64 / of.max(1) as f64;
    DeviceFigures {
        name: counts.name.clone(),
        read_iops: counts.reads as f64 / seconds,
        write_iops: counts.writes as f64 / seconds,
        read_mb_per_s: megabytes(counts.read_sectors),
        write_mb_per_s: megabytes(counts.write_sectors),
        latency_ns_mean: (ios > 0.0).then(|| (device.read_ms + device.write_ms) as f64 * 1e6 / ios),
        sampled: device.latency,
        interrupts_per_io: counts.interrupts.and_then(per_io),
        completed: seen.map(|seen| {
            [seen.hard_interrupt, seen.soft_interrupt, seen.worker, seen.thread]
                .map(|count| share(count, seen.total()))
        }),
        issued_by_workers: seen.map(|seen| share(seen.issued_by_worker, seen.total()).min(1.0)),
    }
}

fn program(evidence: &WatchEvidence, seconds: f64, ios: f64) -> Option<ProgramFigures> {
    let counts = evidence.program.as_ref()?;
    let [user_ns, system_ns] = counts.cpu();
    let per_io = |count: f64| (ios > 0.0).then(|| count / ios);
    let events = estimates(evidence);
    let calls = events.iter().flat_map(|events| &events.calls);
    Some(ProgramFigures {
        processes: counts.processes,
        threads: counts.threads,
        user_cores: user_ns * 1e-9 / seconds,
        system_cores: system_ns * 1e-9 / seconds,
        switches_per_s: counts.switches as f64 / seconds,
        switches_per_io: per_io(counts.switches as f64),
        calls_per_s: events.as_ref().map(|events| events.all_calls / seconds),
        calls_per_io: events.as_ref().and_then(|events| per_io(events.all_calls)),
        calls: calls.map(|(name, count)| (name.clone(), count / seconds)).collect(),
        ring_entries_per_s: events.as_ref().map(|events| events.ring_entries / seconds),
    })
}

fn estimates(evidence: &WatchEvidence) -> Option<EventEstimates> {
    evidence.estimates.clone().or_else(|| EventEstimates::of(evidence))
}

fn cache(evidence: &WatchEvidence, paths: &[SeenPath], seconds: f64) -> Option<CacheFigures> {
    let program = evidence.program.as_ref()?;
    let (io, [fetched, dirtied]) = (program.io?, program.disk_bytes()?);
    let megabytes = |bytes: u64| bytes as f64 / MEGABYTE / seconds;
    let reads: u64 = evidence.devices.iter().map(|device| device.counts.reads).sum();
    let sectors: u64 = evidence.devices.iter().map(|device| device.counts.read_sectors).sum();
    // Only read and write are counted in bytes.
    let counts =
        |path: &SeenPath| matches!(path.interface, SeenInterface::PosixSio | SeenInterface::PosixAio);
    let are_counted = paths.first().is_some_and(counts);
    let asked = io.read_chars as f64 / io.read_calls.max(1) as f64;
    let readahead =
        (are_counted && reads > 0 && asked > 0.0).then(|| sectors as f64 * SECTOR / reads as f64 / asked);
    // What was read ahead and never asked for leaves less than nothing.
    let hits = 1.0 - io.read_bytes as f64 / io.read_chars.max(1) as f64;
    Some(CacheFigures {
        read_mb_per_s: are_counted.then(|| megabytes(io.read_chars)),
        hits: (are_counted && io.read_chars > 0).then(|| hits.max(0.0)),
        fetched_mb_per_s: megabytes(fetched),
        readahead,
        write_mb_per_s: megabytes(io.write_chars),
        dirtied_mb_per_s: megabytes(dirtied),
        adds_per_s: estimates(evidence).map(|events| events.cache_adds / seconds),
    })
}

fn machine(evidence: &WatchEvidence) -> MachineFigures {
    let cpu = &evidence.cpu;
    let total = cpu.total_ns().max(1) as f64;
    let share = |ns: u64| ns as f64 / total;
    MachineFigures {
        user: share(cpu.user_ns),
        system: share(cpu.system_ns),
        irq: share(cpu.irq_ns),
        softirq: share(cpu.softirq_ns),
        iowait: share(cpu.iowait_ns),
        steal: share(cpu.steal_ns),
        idle: share(cpu.idle_ns),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    use iopj_record::testing::watches::{evidence, path};

    #[test]
    fn figures_are_per_second_and_per_io_of_the_disks() {
        let figures = WatchFigures::of(&evidence(), &[path(SeenCaching::Direct)]);
        let device = &figures.devices[0];
        assert_eq!((device.read_iops, device.read_mb_per_s), (500.0, 2.048));
        assert_eq!((device.latency_ns_mean, device.interrupts_per_io), (Some(50_000.0), Some(0.9)));
        assert_eq!(device.completed, Some([0.0, 0.75, 0.0, 0.25]));
        assert_eq!(device.issued_by_workers, Some(0.1));
        let program = figures.program.unwrap();
        assert_eq!((program.switches_per_io, program.calls_per_io), (Some(1.5), Some(1.5)));
        assert_eq!(program.calls, [("pread64".to_owned(), 625.0)]);
        assert!((program.user_cores - 0.05).abs() < 1e-9 && (program.system_cores - 0.15).abs() < 1e-9);
        assert_eq!((figures.counted_share, figures.machine.system), (Some(0.5), 0.25));
        assert_eq!(figures.power[0].ios_per_joule, Some(50.0));
        assert_eq!(figures.cache, None, "direct I/O has no cache");
    }

    #[test]
    fn a_buffered_program_has_hits_and_readahead() {
        let cache = WatchFigures::of(&evidence(), &[path(SeenCaching::Buffered)]).cache.unwrap();
        assert_eq!((cache.hits, cache.readahead), (Some(0.5), Some(1.0)));
        assert_eq!((cache.read_mb_per_s, cache.fetched_mb_per_s), (Some(4.096), 2.048));
    }

    #[test]
    fn bytes_after_a_hidden_end_count_but_no_hits_come_of_them() {
        let mut evidence = evidence();
        evidence.program.as_mut().unwrap().whole_disk_bytes = Some([8_192_000, 6_000_000]);
        let cache = WatchFigures::of(&evidence, &[path(SeenCaching::Buffered)]).cache.unwrap();
        assert_eq!((cache.fetched_mb_per_s, cache.dirtied_mb_per_s), (4.096, 3.0));
        assert_eq!(cache.hits, Some(0.5), "of what was seen of both");
        let unseen = WatchFigures::of(&evidence, &[]).cache.unwrap();
        assert_eq!((unseen.hits, unseen.dirtied_mb_per_s), (None, 3.0));
    }

    #[test]
    fn nothing_is_divided_by_zero() {
        let figures = WatchFigures::of(&WatchEvidence::default(), &[]);
        assert!(figures.seconds > 0.0 && figures.devices.is_empty() && figures.program.is_none());
        let idle = WatchEvidence { devices: vec![WatchedDevice::default()], ..WatchEvidence::default() };
        let device = &WatchFigures::of(&idle, &[]).devices[0];
        assert_eq!((device.latency_ns_mean, device.interrupts_per_io, device.completed), (None, None, None));
    }
}
