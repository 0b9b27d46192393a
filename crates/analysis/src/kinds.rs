//! Jobs of several kinds at once: what each kind did, over the replicates of a cell.

use super::stats::mean;
use iopj_core::{IoPath, VerdictKind};
use iopj_record::{KindWindow, Latency, Measurement};

/// Means of one kind of jobs over the replicates of a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct KindMeans {
    /// Their path.
    pub path: IoPath,
    /// What they were to do.
    pub title: String,
    /// The verdicts on their path, and how often each.
    pub verdicts: Vec<(VerdictKind, usize)>,
    /// I/Os per second.
    pub iops: f64,
    /// Megabytes (10^6 bytes) per second.
    pub mb_per_s: f64,
    /// Mean and 99th percentile of latency in ns.
    pub latency_ns: [f64; 2],
    /// Mean and 99th percentile in ns of flushes and fsyncs, where there are any.
    pub sync_ns: Option<[f64; 2]>,
    /// I/Os that were due in a second, if their load is open.
    pub offered_iops: Option<f64>,
    /// Replicates in which they fell behind.
    pub overloaded: usize,
}

impl KindMeans {
    /// Those of these measurements, the workload's own jobs first; none if there is one kind.
    pub fn of(measured: &[&Measurement]) -> Vec<KindMeans> {
        let kinds = measured.first().map_or(0, |one| one.kinds.len());
        (0..kinds).filter_map(|kind| KindMeans::of_kind(measured, kind)).collect()
    }

    fn of_kind(measured: &[&Measurement], kind: usize) -> Option<KindMeans> {
        let all: Option<Vec<(&KindWindow, u64)>> =
            measured.iter().map(|one| Some((one.kinds.get(kind)?, one.window_ns))).collect();
        let all = all?;
        let (first, _) = all.first()?;
        let mean_of = |of: &dyn Fn(&KindWindow, u64) -> f64| {
            mean(&all.iter().map(|(one, window_ns)| of(one, *window_ns)).collect::<Vec<_>>())
        };
        let if_all = |of: &dyn Fn(&KindWindow, u64) -> Option<f64>| {
            let all: Option<Vec<f64>> = all.iter().map(|(one, window_ns)| of(one, *window_ns)).collect();
            all.map(|all| mean(&all))
        };
        let sync = |of: fn(&Latency) -> f64| if_all(&|one, _| one.open.as_ref()?.sync.as_ref().map(of));
        let mut verdicts: Vec<(VerdictKind, usize)> = Vec::new();
        for (one, _) in &all {
            match verdicts.iter_mut().find(|(kind, _)| *kind == one.verdict.kind) {
                Some((_, count)) => *count += 1,
                None => verdicts.push((one.verdict.kind, 1)),
            }
        }
        Some(KindMeans {
            path: first.path,
            title: first.workload.title(),
            verdicts,
            iops: mean_of(&KindWindow::iops),
            mb_per_s: mean_of(&KindWindow::mb_per_s),
            latency_ns: [mean_of(&|one, _| one.latency.mean), mean_of(&|one, _| one.latency.p99 as f64)],
            sync_ns: sync(|one| one.mean).zip(sync(|one| one.p99 as f64)).map(<[f64; 2]>::from),
            offered_iops: if_all(&|one, window_ns| one.open.as_ref()?.offered_iops(window_ns)),
            overloaded: all
                .iter()
                .filter(|(one, _)| one.open.as_ref().is_some_and(|open| open.overload))
                .count(),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    use iopj_record::OpenWindow;
    use iopj_record::testing::kinds::kind;

    #[test]
    fn each_kind_has_means_of_its_own_over_replicates() {
        let sync = Some(Latency { count: 5, mean: 700.0, p99: 900, ..Latency::default() });
        let log = |ios, overload| KindWindow {
            open: Some(OpenWindow { due: Some(500), sync: sync.clone(), overload, ..OpenWindow::default() }),
            ..kind("posix-sio/syscall/interrupt", ios, 2000.0, VerdictKind::Verified)
        };
        let readers = |ios, verdict| kind("io_uring/syscall/poll", ios, 100.0, verdict);
        let of = |kinds| Measurement { window_ns: 500_000_000, kinds, ..Measurement::default() };
        let one = of(vec![readers(1000, VerdictKind::Verified), log(500, false)]);
        let two = of(vec![readers(3000, VerdictKind::Unproven), log(300, true)]);
        let [own, log] = &KindMeans::of(&[&one, &two])[..] else { panic!("two kinds") };
        assert_eq!((own.iops, own.latency_ns, own.sync_ns), (4000.0, [100.0, 300.0], None));
        assert_eq!(own.verdicts, [(VerdictKind::Verified, 1), (VerdictKind::Unproven, 1)]);
        assert_eq!((log.iops, log.offered_iops, log.overloaded), (800.0, Some(1000.0), 1));
        assert_eq!(log.sync_ns, Some([700.0, 900.0]));
        assert!((log.mb_per_s - 3.2768).abs() < 1e-9);
        assert_eq!(KindMeans::of(&[&Measurement::default()]), []);
    }
}
