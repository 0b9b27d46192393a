//! Loads and stores per I/O by source, in the rows of `poll22`'s Table 2, from the profiles of a store.

use super::admission::Admission;
use super::cost::{is_under, per_io_of};
use super::paper_layouts::TrialSetup;
use super::published::LOADS_STORES;
use iopj_core::{CostKind, CostSource, FunctionCost, IoPath};
use iopj_store::{Measurement, Trial};
use serde::Serialize;

/// The paths of one interface and submission under one workload, side by side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadsStoresTable {
    /// What they share.
    pub setting: TrialSetup,
    /// The paths, by completion in the order of the paper's columns; each has a trial that counts, with loads
    /// and stores.
    pub paths: Vec<IoPath>,
    /// The counts are samples by period.
    pub sampled: bool,
    /// A row a source of the paper's table, in its order, then the total.
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

/// A table for each workload and interface of which the store holds loads and stores, in the order in which
/// they first stand.
pub fn loads_stores_tables(trials: &[Trial], admission: Admission) -> Vec<LoadsStoresTable> {
    let mut groups: Vec<(&Trial, Vec<(IoPath, &Measurement)>)> = Vec::new();
    for trial in trials {
        let has = |one: &&Measurement| {
            one.costs.as_ref().is_some_and(|costs| costs.has(CostKind::Loads) && costs.has(CostKind::Stores))
        };
        let Some(measurement) = admission.admit(trial).ok().filter(has).filter(|one| one.evidence.ios() > 0)
        else {
            continue;
        };
        let same = |first: &Trial| {
            let of = |trial: &Trial| (trial.path.interface(), trial.path.submission(), trial.generator);
            of(first) == of(trial) && first.workload == trial.workload && first.settings == trial.settings
        };
        match groups.iter_mut().find(|(first, _)| same(first)) {
            Some((_, all)) => all.push((trial.path, measurement)),
            None => groups.push((trial, vec![(trial.path, measurement)])),
        }
    }
    groups.into_iter().map(|(first, all)| table(first, &all)).collect()
}

fn table(first: &Trial, measured: &[(IoPath, &Measurement)]) -> LoadsStoresTable {
    let mut paths: Vec<IoPath> = measured.iter().map(|(path, _)| *path).collect();
    paths.sort_by_key(|path| (path.completion(), *path));
    paths.dedup();
    let mean = |path: &IoPath, source: &str| {
        let own = measured.iter().filter(|(other, _)| other == path);
        let values: Vec<f64> = own.filter_map(|(_, one)| count(one, source)).collect();
        values.iter().sum::<f64>() / values.len() as f64
    };
    let row =
        |source| LoadsStoresRow { source, per_io: paths.iter().map(|path| mean(path, source)).collect() };
    let rows = LOADS_STORES.iter().map(|row| row.source).chain([TOTAL]).map(row).collect();
    let mut profiles = measured.iter().filter_map(|(_, one)| one.costs.as_ref());
    let sampled = profiles.any(|costs| costs.source != CostSource::Exact);
    LoadsStoresTable { setting: TrialSetup::of(first), paths, sampled, rows }
}

const TOTAL: &str = "total";

fn count(measurement: &Measurement, source: &str) -> Option<f64> {
    let of = |kind| per_io_of(measurement, kind, |function| belongs(function, source));
    Some(of(CostKind::Loads)? + of(CostKind::Stores)?)
}

/// True if a function belongs to a source of the paper's table. What lies in none of its directories, user
/// space included, is `other`; what is in one of them and under none of its names is that directory's
/// `other`.
fn belongs(function: &FunctionCost, source: &str) -> bool {
    let directories = || LOADS_STORES.iter().map(|row| row.source).filter(|source| source.ends_with('/'));
    match source.split_once(' ') {
        _ if source == TOTAL => true,
        None if source == "other" => !directories().any(|directory| is_under(function, directory)),
        None => is_under(function, source),
        Some((directory, "other")) => {
            is_under(function, directory) && !names(directory).any(|name| matches(&function.function, name))
        }
        Some((directory, name)) => is_under(function, directory) && matches(&function.function, name),
    }
}

/// The functions, with wildcards, that the paper names in a directory.
fn names(directory: &str) -> impl Iterator<Item = &'static str> {
    let own =
        LOADS_STORES.iter().filter_map(move |row| row.source.strip_prefix(directory)?.strip_prefix(' '));
    own.filter(|name| *name != "other")
}

/// A name with `*` at its ends alone.
fn matches(function: &str, pattern: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(rest), Some(_)) => function.contains(rest.trim_end_matches('*')),
        (None, Some(start)) => function.starts_with(start),
        _ => function == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::claims::fixture::{Measured, cell, workload};
    use crate::analysis::cost::tests::{function, set_exact, user};
    use iopj_core::Rw;
    use iopj_store::Outcome;

    fn trials() -> Vec<Trial> {
        let measured = Measured { iops: 1000.0, ..Measured::default() };
        let mut trials = cell("posix-sio/syscall/poll", &workload(Rw::Randread, 1), measured, &[0.0, 0.0]);
        for (trial, factor) in trials.iter_mut().zip([1, 3]) {
            let Outcome::Measured(one) = &mut trial.outcome else { panic!() };
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
        for trial in &mut trials {
            let Outcome::Measured(one) = &mut trial.outcome else { panic!() };
            one.costs = None;
        }
        assert_eq!(loads_stores_tables(&trials, Admission::default()), []);
    }
}
