//! Orders of paths by a time, without the times: all that an emulated store says about times, and only where
//! the replicates distinguish neighbours.

use super::admission::Admission;
use super::grouping::{TrialSetup, grouped, setup};
use super::metric::Metric;
use super::stats::{LEVEL, Method, holm_over_tested, mean, t_test};
use iopj_core::IoPath;
use iopj_record::Trial;

/// The metrics by which paths are ordered, ascending.
pub const ORDERED_BY: [Metric; 2] = [Metric::LatencyMean, Metric::CpuPercent];

/// The paths of one workload under the same settings and generator, in the order of a metric's means;
/// neighbours that do not differ significantly are in the order of paths.
#[derive(Clone, Debug, PartialEq)]
pub struct PathOrder {
    /// What the paths share.
    pub setting: TrialSetup,
    /// The metric by which they are ordered.
    pub metric: Metric,
    /// The path of the least mean, or the first of those that do not differ significantly from it.
    pub first: IoPath,
    /// The others in ascending order, each with its relation to the one before.
    pub rest: Vec<(OrderStep, IoPath)>,
}

/// A path's relation to the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderStep {
    /// Significantly more.
    More,
    /// Not significantly different.
    Undecided,
    /// No test: one of the two has a single replicate.
    Untested,
}

/// The orders of every workload with two competing paths or more, in the order in which workloads first
/// appear. Neighbours are compared by Welch's test at 5 %, after Holm's correction over the steps of an
/// order.
pub fn path_orders(trials: &[Trial], metric: Metric, admission: Admission) -> Vec<PathOrder> {
    let keyed = trials.iter().filter_map(|trial| {
        let measurement = admission.admit(trial).ok()?;
        Some((setup(trial), (trial, metric.value(measurement, None)?)))
    });
    grouped(keyed).into_iter().filter_map(|(_, values)| order(&values, metric)).collect()
}

/// The order of the paths of these trials by their values; `None` for fewer than two.
fn order(values: &[(&Trial, f64)], metric: Metric) -> Option<PathOrder> {
    let mut ranked = grouped(values.iter().map(|(trial, value)| (trial.path, *value)));
    ranked.sort_by_key(|(path, _)| *path);
    ranked.sort_by(|(_, a), (_, b)| mean(a).total_cmp(&mean(b)));
    let tests: Vec<Option<f64>> = ranked
        .windows(2)
        .map(|pair| t_test(Method::Welch, &pair[0].1, &pair[1].1).map(|test| test.p))
        .collect();
    let step = |p: Option<f64>| match p {
        None => OrderStep::Untested,
        Some(p) if p < LEVEL => OrderStep::More,
        Some(_) => OrderStep::Undecided,
    };
    let steps: Vec<OrderStep> = holm_over_tested(&tests).into_iter().map(step).collect();
    let mut paths: Vec<IoPath> = ranked.into_iter().map(|(path, _)| path).collect();
    let mut from = 0;
    for until in (1..=paths.len()).filter(|at| steps.get(at - 1).is_none_or(|step| *step == OrderStep::More))
    {
        // Paths that do not differ significantly are in the order of paths: the order of their means would
        // say more than is known.
        paths[from..until].sort_unstable();
        from = until;
    }
    let first = *paths.first()?;
    let rest: Vec<(OrderStep, IoPath)> = steps.into_iter().zip(paths.into_iter().skip(1)).collect();
    let setting = TrialSetup::of(values[0].0);
    (!rest.is_empty()).then_some(PathOrder { setting, metric, first, rest })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_core::{Rw, VerdictKind};
    use iopj_record::testing::cells::{Measured, cell, judge, workload};

    const PATHS: [&str; 3] =
        ["io_uring/syscall/poll", "io_uring/syscall/hybrid", "io_uring/syscall/interrupt"];

    /// Cells of these mean latencies in us, with CPU use in reverse order.
    fn trials(latencies: [f64; 3], spread: &[f64]) -> Vec<Trial> {
        let of = |(path, mean_us): (&&str, f64)| {
            let measured =
                Measured { mean_us, cpu_percent: 1000.0 / mean_us, iops: 1000.0, ..Measured::default() };
            cell(path, &workload(Rw::Randread, 1), measured, spread)
        };
        PATHS.iter().zip(latencies).flat_map(of).collect()
    }

    fn only(trials: &[Trial], metric: Metric) -> PathOrder {
        let mut all = path_orders(trials, metric, Admission::default());
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    fn path(index: usize) -> IoPath {
        PATHS[index].parse().unwrap()
    }

    #[test]
    fn what_differs_is_ordered_and_what_does_not_is_undecided() {
        let spread = [-0.01, 0.0, 0.01];
        let order = only(&trials([10.0, 20.0, 30.0], &spread), Metric::LatencyMean);
        assert_eq!(
            (order.first, &order.rest[..]),
            (path(0), &[(OrderStep::More, path(1)), (OrderStep::More, path(2))][..])
        );
        let order = only(&trials([10.0, 20.0, 30.0], &spread), Metric::CpuPercent);
        assert_eq!(
            (order.first, &order.rest[..]),
            (path(2), &[(OrderStep::More, path(1)), (OrderStep::More, path(0))][..])
        );
        let order = only(&trials([10.0, 20.05, 20.0], &spread), Metric::LatencyMean);
        assert_eq!(order.rest, [(OrderStep::More, path(2)), (OrderStep::Undecided, path(1))]);
        // Whichever mean is less, paths that do not differ are in one order.
        assert_eq!(only(&trials([10.0, 20.0, 20.05], &spread), Metric::LatencyMean), order);
    }

    #[test]
    fn holm_takes_back_a_step_and_one_replicate_is_no_test() {
        let spread = [-0.05, 0.0, 0.05];
        let two: Vec<Trial> = trials([10.0, 11.3, 0.0], &spread)[..6].to_vec();
        assert_eq!(only(&two, Metric::LatencyMean).rest, [(OrderStep::More, path(1))]);
        let three = trials([10.0, 11.3, 11.4], &spread);
        let order = only(&three, Metric::LatencyMean);
        assert_eq!(
            (order.first, &order.rest[..]),
            (path(2), &[(OrderStep::Undecided, path(0)), (OrderStep::Undecided, path(1))][..])
        );
        let single = trials([10.0, 20.0, 30.0], &[0.0]);
        assert_eq!(only(&single, Metric::LatencyMean).rest[0], (OrderStep::Untested, path(0)));
    }

    #[test]
    fn refuted_trials_stay_out_and_a_single_path_is_no_order() {
        let mut all = trials([10.0, 20.0, 30.0], &[-0.01, 0.0, 0.01]);
        judge(&mut all[..3], VerdictKind::Refuted);
        assert_eq!(only(&all, Metric::LatencyMean).first, path(1));
        judge(&mut all[..6], VerdictKind::Refuted);
        assert_eq!(path_orders(&all, Metric::LatencyMean, Admission::default()), []);
    }
}
