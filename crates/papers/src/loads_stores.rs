//! Loads and stores per I/O by source, in the rows of `poll22`'s Table 2, from the profiles of a store.

use super::published::COSTS;
use iopj_analysis::admission::Admission;
use iopj_analysis::cost::{is_under, per_io_of};
use iopj_analysis::grouping::{TrialSetup, grouped, setup};
use iopj_analysis::stats::mean;
use iopj_core::{CostKind, CostProfile, CostSource, FunctionCost, IoPath};
use iopj_record::{Measurement, Trial};
use serde::Serialize;

/// The paths of one interface and one submission under one workload.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadsStoresTable {
    /// What they share.
    pub setting: TrialSetup,
    /// The paths, by completion in the order of the paper's columns; each has a competing trial with loads
    /// and stores.
    pub paths: Vec<IoPath>,
    /// True if the counts are samples times their period.
    pub sampled: bool,
    /// One row per source of the paper's table, in its order, then the total.
    pub rows: Vec<LoadsStoresRow>,
}

/// One source.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadsStoresRow {
    /// Its name in the paper's table, or `total`.
    pub source: &'static str,
    /// Loads plus stores per I/O of each path, as means over replicates.
    pub per_io: Vec<f64>,
}

/// A table for each workload and interface with loads and stores, in the order in which they first appear.
pub fn loads_stores_tables(trials: &[Trial], admission: Admission) -> Vec<LoadsStoresTable> {
    let has = |one: &&Measurement| {
        let counted = |costs: &CostProfile| costs.has(CostKind::Loads) && costs.has(CostKind::Stores);
        one.costs.as_ref().is_some_and(counted) && one.evidence.ios() > 0
    };
    let keyed = trials.iter().filter_map(|trial| {
        let measurement = admission.admit(trial).ok().filter(has)?;
        Some(((trial.path.interface(), trial.path.submission(), setup(trial)), (trial, measurement)))
    });
    grouped(keyed).into_iter().map(|(_, all)| table(all[0].0, &all)).collect()
}

fn table(first: &Trial, measured: &[(&Trial, &Measurement)]) -> LoadsStoresTable {
    let mut paths: Vec<IoPath> = measured.iter().map(|(trial, _)| trial.path).collect();
    paths.sort_by_key(|path| (path.completion(), *path));
    paths.dedup();
    let mean_of = |path: &IoPath, source: &str| {
        let own = measured.iter().filter(|(trial, _)| trial.path == *path);
        mean(&own.filter_map(|(_, one)| count(one, source)).collect::<Vec<f64>>())
    };
    let row =
        |source| LoadsStoresRow { source, per_io: paths.iter().map(|path| mean_of(path, source)).collect() };
    let rows = COSTS.groups().map(|group| row(group.source)).collect();
    let mut profiles = measured.iter().filter_map(|(_, one)| one.costs.as_ref());
    let sampled = profiles.any(|costs| costs.source != CostSource::Exact);
    LoadsStoresTable { setting: TrialSetup::of(first), paths, sampled, rows }
}

fn count(measurement: &Measurement, source: &str) -> Option<f64> {
    let of = |kind| per_io_of(measurement, kind, |function| belongs(function, source));
    Some(of(CostKind::Loads)? + of(CostKind::Stores)?)
}

/// True if a function belongs to a source of the paper's table.
fn belongs(function: &FunctionCost, source: &str) -> bool {
    COSTS.holds(source, &function.function, |directory| is_under(function, directory))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_core::Rw;
    use iopj_record::testing::cells::{Measured, cell, measurement_of, workload};
    use iopj_record::testing::costs::{function, set_exact, user};

    fn trials() -> Vec<Trial> {
        let measured = Measured { iops: 1000.0, ..Measured::default() };
        let mut trials = cell("posix-sio/syscall/poll", &workload(Rw::Randread, 1), measured, &[0.0, 0.0]);
        for (trial, factor) in trials.iter_mut().zip([1, 3]) {
            let one = measurement_of(trial);
            let counts = |loads: u64, stores: u64| [0, factor * loads, factor * stores];
            let functions = vec![
                function("blk_poll", "block/", counts(100, 10)),
                function("blk_mq_poll", "block/", counts(30, 10)),
                function("bio_endio", "block/", counts(5, 5)),
                function("nvme_poll", "drivers/nvme/host/", counts(70, 0)),
                function("nvme_tcp", "drivers/nvme/host/tcp/", counts(10, 0)),
                function("hrtimer_start", "kernel/time/", counts(7, 3)),
                function("__schedule", "kernel/sched/", counts(2, 0)),
                function("memcpy", "lib/", counts(40, 40)),
                function("who", "", counts(9, 1)),
                user(counts(20, 10)),
            ];
            set_exact(one, 10, functions);
        }
        trials
    }

    #[test]
    fn functions_fall_into_the_rows_of_the_paper() {
        let tables = loads_stores_tables(&trials(), Admission::default());
        let [table] = &tables[..] else { panic!("{tables:?}") };
        let of = |source: &str| table.rows.iter().find(|row| row.source == source).unwrap().per_io[0];
        // The mean of one and three times the counts of ten I/Os.
        let expected = [
            ("block/", 32.0),
            ("block/ blk_poll", 22.0),
            ("block/ blk_mq_*", 8.0),
            ("block/ other", 2.0),
            ("drivers/nvme/host/", 16.0),
            ("kernel/sched/", 0.4),
            ("kernel/sched/ __schedule", 0.4),
            ("kernel/sched/ other", 0.0),
            ("kernel/time/ *hrtimer*", 2.0),
            ("kernel/time/ ktime_get", 0.0),
            ("other", 24.0),
            ("total", 74.4),
        ];
        for (source, count) in expected {
            assert!((of(source) - count).abs() < 1e-9, "{source}: {} {count}", of(source));
        }
        assert_eq!((table.rows.len(), table.sampled), (16, false));
    }

    #[test]
    fn without_profiles_there_is_no_table() {
        let mut trials = trials();
        trials.iter_mut().for_each(|trial| measurement_of(trial).costs = None);
        assert_eq!(loads_stores_tables(&trials, Admission::default()), []);
    }
}
