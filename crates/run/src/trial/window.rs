//! A window as either generator reports it.

use iopj_core::{Evidence, Slice, Workload, WriteSync};
use iopj_load::latencies::Latencies;
use iopj_load::native::cpus;
use iopj_record::{CorunnerWindow, Latency, OpenWindow};

/// What the jobs of one kind did in a window of several.
pub(crate) struct KindDid {
    pub(crate) ios: u64,
    pub(crate) bytes: u64,
    pub(crate) short_ios: u64,
    pub(crate) latency: Latency,
    pub(crate) open: Option<OpenWindow>,
}

/// A window as either generator reports it.
pub(crate) struct Window {
    /// When load went on and off, the ramp included, and the window's begin and end: `CLOCK_MONOTONIC_RAW`.
    pub(crate) load_raw_ns: Vec<u64>,
    pub(crate) window_raw_ns: [u64; 2],
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
    pub(crate) window_ns: u64,
    pub(crate) issued: [u64; 2],
    pub(crate) bytes: u64,
    /// Bytes that the reads and writes were to move, if they were not all of `bs`.
    pub(crate) issued_bytes: Option<[u64; 2]>,
    /// Of a trace, the writes that were durable.
    pub(crate) durable_writes: u64,
    /// Flushes, fsyncs, and discards.
    pub(crate) syncs: u64,
    pub(crate) discards: u64,
    pub(crate) short_ios: u64,
    pub(crate) latency_sum_ns: u64,
    pub(crate) latencies: Latencies,
    pub(crate) series: Vec<Slice>,
    pub(crate) fio: Option<serde_json::Value>,
    /// What became of an open load.
    pub(crate) open: Option<OpenWindow>,
    /// What a co-runner got done in it.
    pub(crate) corunner: Option<CorunnerWindow>,
    /// What each kind of jobs did in it, if there are several, that of the workload itself first.
    pub(crate) kinds: Vec<KindDid>,
    /// Why it has no samples.
    pub(crate) unsampled: Option<String>,
}

impl Window {
    /// Adds what the generator knows to the evidence.
    pub(super) fn put_into(&self, evidence: &mut Evidence, workload: &Workload) {
        evidence.window_ns = self.window_ns;
        evidence.numjobs = workload.all_jobs();
        evidence.iodepth = workload.iodepth;
        let bs = u64::from(workload.bs);
        let bytes = self.issued_bytes.unwrap_or(self.issued.map(|ios| ios * bs));
        [evidence.reads, evidence.writes] = self.issued;
        [evidence.read_bytes, evidence.write_bytes] = bytes;
        (evidence.syncs, evidence.discards) = (self.syncs, self.discards);
        evidence.durable_writes = match workload.sync {
            WriteSync::None => self.durable_writes,
            WriteSync::Sync | WriteSync::Dsync => evidence.writes,
        };
        evidence.latency_sum_ns = self.latency_sum_ns;
        evidence.allowed_cpus = match &workload.cpus_allowed[..] {
            [] => Some(cpus::allowed().len() as u32).filter(|cpus| (1..evidence.cpu.cores).contains(cpus)),
            named => Some(named.len() as u32),
        };
    }
}

/// Replaces the kernel's counts of a drive with what the drive itself counted between two moments.
pub(super) fn add_counted(evidence: &mut Evidence, first: Option<[u64; 2]>, last: Option<[u64; 2]>) {
    if let ([device], Some(first), Some(last)) = (&mut evidence.devices[..], first, last) {
        device.reads = last[0].saturating_sub(first[0]);
        device.writes = last[1].saturating_sub(first[1]);
        (device.read_sectors, device.write_sectors) = (0, 0);
        device.by_log = true;
    }
}
