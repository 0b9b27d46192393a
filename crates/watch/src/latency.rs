//! Latencies of sampled requests by disk, of an interval and of the whole watch.

use hdrhistogram::Histogram;
use iopj_core::watch::{SampledLatency, WatchedDevice};
use iopj_probe::watch::SampledRequest;
use iopj_record::histogram;
use std::collections::BTreeMap;

/// Histograms by the name of the disk.
#[derive(Debug, Default)]
pub(super) struct Latencies(BTreeMap<String, OfDisk>);

#[derive(Debug)]
struct OfDisk {
    histogram: Histogram<u64>,
    requests: u64,
    of_program: u64,
    of_workers: u64,
    completed_in_interrupt: u64,
    completed_by_program: u64,
}

impl Latencies {
    pub(super) fn add(&mut self, request: &SampledRequest) {
        let new = || OfDisk {
            histogram: histogram::new(),
            requests: 0,
            of_program: 0,
            of_workers: 0,
            completed_in_interrupt: 0,
            completed_by_program: 0,
        };
        let disk = self.0.entry(request.device.clone()).or_insert_with(new);
        disk.requests += 1;
        if let Some(latency_ns) = request.latency_ns {
            disk.histogram.saturating_record(latency_ns);
        }
        disk.of_program += u64::from(request.of_program);
        disk.of_workers += u64::from(request.by_worker);
        disk.completed_in_interrupt += u64::from(request.completed_in_interrupt);
        disk.completed_by_program += u64::from(request.completed_by_program);
    }

    /// Puts them into the disks of the same stretch of time.
    pub(super) fn put_into(&self, devices: &mut [WatchedDevice]) {
        for device in devices {
            device.latency = self.0.get(&device.counts.name).map(OfDisk::summary);
        }
    }

    /// Those of all disks.
    pub(super) fn all(&self) -> Histogram<u64> {
        let mut all = histogram::new();
        // All have the same bounds, so nothing can be out of range.
        for disk in self.0.values() {
            let _ = all.add(&disk.histogram);
        }
        all
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

impl OfDisk {
    fn summary(&self) -> SampledLatency {
        let at = |quantile| self.histogram.value_at_quantile(quantile);
        SampledLatency {
            count: self.histogram.len(),
            requests: self.requests,
            of_program: self.of_program,
            of_workers: self.of_workers,
            completed_in_interrupt: self.completed_in_interrupt,
            completed_by_program: self.completed_by_program,
            p50_ns: at(0.5),
            p95_ns: at(0.95),
            p99_ns: at(0.99),
            p99_9_ns: at(0.999),
            max_ns: self.histogram.max(),
        }
    }
}
