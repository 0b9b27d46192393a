//! What became of an open load, over the replicates of a cell.

use super::stats::mean;
use iopj_record::{Latency, LatencyFrom, Measurement, OpenWindow};

/// Means over the replicates of a cell under an open load.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadMeans {
    /// Replicates, and those of them in which the path fell behind.
    pub replicates: usize,
    /// In which the path fell behind.
    pub overloaded: usize,
    /// I/Os that were due in a second; absent where the generator does not count them.
    pub offered_iops: Option<f64>,
    /// Mean and maximum of the time in ns from when an I/O was due until it was issued.
    pub lag_ns: Option<[f64; 2]>,
    /// From when latencies run.
    pub latency_from: LatencyFrom,
    /// Mean and 99th percentile in ns of latency from submission, where it is another one.
    pub from_submission_ns: Option<[f64; 2]>,
    /// Mean and 99th percentile in ns of flushes and fsyncs, where there are any.
    pub sync_ns: Option<[f64; 2]>,
    /// Of a trace: what was replayed, what was changed to fit the target, and what was left out.
    pub trace: Option<String>,
    /// CPU time in ns that pacing alone takes for each I/O.
    pub pacer_cpu_ns_per_io: Option<f64>,
}

impl LoadMeans {
    /// Those of these measurements; absent if the load of one was closed.
    pub fn of(measured: &[&Measurement]) -> Option<LoadMeans> {
        let windows: Option<Vec<(&OpenWindow, u64)>> =
            measured.iter().map(|one| Some((one.open.as_ref()?, one.window_ns))).collect();
        let windows = windows.filter(|windows| !windows.is_empty())?;
        let all = |of: &dyn Fn(&OpenWindow) -> Option<f64>| -> Option<Vec<f64>> {
            windows.iter().map(|(open, _)| of(open)).collect()
        };
        let mean_of = |of: &dyn Fn(&OpenWindow) -> Option<f64>| all(of).map(|all| mean(&all));
        let offered: Option<Vec<f64>> =
            windows.iter().map(|(open, window_ns)| open.offered_iops(*window_ns)).collect();
        let longest = all(&|open| open.lag_max_ns.map(|ns| ns as f64));
        let longest = longest.map(|all| all.into_iter().fold(0.0, f64::max));
        let submission = |of: fn(&Latency) -> f64| mean_of(&|open| open.from_submission.as_ref().map(of));
        let sync = |of: fn(&Latency) -> f64| mean_of(&|open| open.sync.as_ref().map(of));
        Some(LoadMeans {
            replicates: windows.len(),
            overloaded: windows.iter().filter(|(open, _)| open.overload).count(),
            offered_iops: offered.map(|all| mean(&all)),
            lag_ns: mean_of(&|open| open.lag_mean_ns).zip(longest).map(<[f64; 2]>::from),
            latency_from: windows[0].0.latency_from,
            from_submission_ns: submission(|one| one.mean)
                .zip(submission(|one| one.p99 as f64))
                .map(<[f64; 2]>::from),
            sync_ns: sync(|one| one.mean).zip(sync(|one| one.p99 as f64)).map(<[f64; 2]>::from),
            trace: windows[0].0.trace.clone(),
            pacer_cpu_ns_per_io: mean_of(&|open| open.pacer_cpu_ns_per_io),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(due: u64, lag: (f64, u64), overload: bool) -> Measurement {
        let from_submission = Some(Latency { count: 1, mean: 70.0, p99: 90, ..Latency::default() });
        let open = OpenWindow {
            due: Some(due),
            lag_mean_ns: Some(lag.0),
            lag_max_ns: Some(lag.1),
            overload,
            from_submission,
            pacer_cpu_ns_per_io: Some(2000.0),
            ..OpenWindow::default()
        };
        Measurement { window_ns: 2_000_000_000, open: Some(open), ..Measurement::default() }
    }

    #[test]
    fn means_are_over_replicates_and_the_longest_lag_is_of_all() {
        let [one, two] = [measured(4000, (10.0, 900), false), measured(6000, (30.0, 700), true)];
        let load = LoadMeans::of(&[&one, &two]).unwrap();
        assert_eq!((load.replicates, load.overloaded, load.offered_iops), (2, 1, Some(2500.0)));
        assert_eq!((load.lag_ns, load.from_submission_ns), (Some([20.0, 900.0]), Some([70.0, 90.0])));
        assert_eq!((load.pacer_cpu_ns_per_io, load.latency_from), (Some(2000.0), LatencyFrom::Due));
        let closed = Measurement::default();
        assert_eq!(LoadMeans::of(&[&one, &closed]), None);
        assert_eq!(LoadMeans::of(&[]), None);
    }
}
