//! Latencies of a window as a generator counts them, in the store's form.

use crate::fio::{self, FioOutput};
use crate::native;
use hdrhistogram::Histogram;
use iopj_record::{Latency, histogram};

/// The latencies of a window.
pub struct Latencies {
    /// Of reads.
    pub reads: Latency,
    /// Of writes.
    pub writes: Latency,
    /// Of both.
    pub all: Latency,
}

/// Those of our own jobs.
pub fn of_native(run: &native::WindowTotals) -> Latencies {
    let [reads, writes] = run.latency.each_ref().map(|recorder| {
        let mut histogram = histogram::new();
        recorder.add_to(&mut histogram);
        histogram
    });
    let mut both = reads.clone();
    // Both have the same bounds, so nothing can be out of range.
    let _ = both.add(&writes);
    let mut all = histogram::summary(&both);
    if all.count > 0 {
        // Exact where the histogram rounds.
        all.mean = run.latency_sum_ns as f64 / all.count as f64;
        (all.min, all.max) = (run.min_ns, run.max_ns);
    }
    Latencies { reads: histogram::summary(&reads), writes: histogram::summary(&writes), all }
}

/// Those from submission of our own jobs under an open load.
pub fn from_submission(open: &native::OpenTotals) -> Latency {
    let mut bins = histogram::new();
    open.submission.add_to(&mut bins);
    let mut all = histogram::summary(&bins);
    if all.count > 0 {
        all.mean = open.submission_sum_ns as f64 / all.count as f64;
    }
    // Not kept: it would double the store.
    all.histogram = Vec::new();
    all
}

/// Those of flushes and fsyncs, from when they were due.
pub fn of_syncs(open: &native::OpenTotals) -> Latency {
    let mut bins = histogram::new();
    open.syncs.add_to(&mut bins);
    let mut all = histogram::summary(&bins);
    if all.count > 0 {
        all.mean = open.syncs_sum_ns as f64 / all.count as f64;
    }
    all.histogram = Vec::new();
    all
}

/// Those of fio's flushes and fsyncs.
pub fn of_fio_syncs(syncs: &fio::FioLatency) -> Latency {
    let (mut all, _) = one_of_fio(syncs, syncs.histogram.len());
    all.histogram = Vec::new();
    all
}

/// That of `ios` I/Os of fio, and its bins.
fn one_of_fio(latency: &fio::FioLatency, ios: u64) -> (Latency, Histogram<u64>) {
    let mut bins = histogram::new();
    for bin in latency.histogram.iter_recorded() {
        bins.saturating_record_n(bin.value_iterated_to(), bin.count_at_value());
    }
    let mut summary = histogram::summary(&bins);
    (summary.count, summary.mean, summary.stddev) = (ios, latency.mean_ns, latency.stddev_ns);
    (summary.min, summary.max) = (latency.min_ns, latency.max_ns);
    if let Some(percentiles) = &latency.percentiles {
        (summary.p20, summary.p80) = (percentiles.p20_ns, percentiles.p80_ns);
        (summary.p50, summary.p95) = (percentiles.p50_ns, percentiles.p95_ns);
        (summary.p99, summary.p99_9) = (percentiles.p99_ns, percentiles.p99_9_ns);
    }
    (summary, bins)
}

/// Those of fio.
pub fn of_fio(result: &FioOutput) -> Latencies {
    let convert = |direction: &fio::Direction| match &direction.latency {
        Some(latency) => one_of_fio(latency, direction.ios),
        None => (Latency::default(), histogram::new()),
    };
    let ((reads, mut bins), (writes, write_bins)) = (convert(&result.reads), convert(&result.writes));
    let all = match (reads.count, writes.count) {
        (_, 0) => reads.clone(),
        (0, _) => writes.clone(),
        (read, write) => {
            // Both have the same bounds, so nothing can be out of range.
            let _ = bins.add(&write_bins);
            let mut all = histogram::summary(&bins);
            all.count = read + write;
            all.p20 = all.p20.filter(|_| reads.p20.is_some() && writes.p20.is_some());
            all.p80 = all.p80.filter(|_| reads.p80.is_some() && writes.p80.is_some());
            all.mean = (reads.mean * read as f64 + writes.mean * write as f64) / all.count as f64;
            (all.min, all.max) = (reads.min.min(writes.min), reads.max.max(writes.max));
            all
        }
    };
    Latencies { reads, writes, all }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::{JobEngine, JobSpec, Pacing};
    use iopj_core::{Length, Rw, Workload};
    use iopj_engine::sim::{Sim, SimOptions};
    use iopj_engine::{AnyEngine, EngineError, Pool};
    use std::sync::atomic::AtomicBool;

    #[test]
    fn of_all_ios_mean_least_and_greatest_are_exact() {
        let options = SimOptions { seed: 9, latency_steps: 12, ..SimOptions::default() };
        let open = |pool: &Pool, depth: u32| -> Result<JobEngine, EngineError> {
            Ok(AnyEngine::Other(Box::new(Sim::open(pool, depth, options))).into())
        };
        let length = Length::Ios(1000);
        let workload = Workload { rw: Rw::Randrw, iodepth: 8, numjobs: 3, length, ..Workload::default() };
        let spec = JobSpec {
            workload: &workload,
            base: 0,
            len: 1 << 20,
            seed: 1,
            open: &open,
            huge_pages: false,
            pacing: Pacing::default(),
            replay: None,
            steadystate: None,
            is_trial: false,
            has_pass: false,
        };
        let run = native::run(&spec, &AtomicBool::new(false), &mut |_, _| Ok(()), &mut || {}).unwrap();
        let Latencies { reads, writes, all } = of_native(&run);
        assert_eq!((all.count, reads.count + writes.count), (3000, 3000));
        assert!((all.mean * 3000.0 / run.latency_sum_ns as f64 - 1.0).abs() < 1e-9);
        assert_eq!((all.min, all.max), (run.min_ns, run.max_ns));
        assert!(all.min <= all.p20.unwrap() && all.p20.unwrap() <= all.p50);
        assert!(all.p50 <= all.p80.unwrap() && all.p80.unwrap() <= all.p99_9);
    }
}
