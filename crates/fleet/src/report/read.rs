//! The trials of one kind of machine, read from the data set and summed up by store.

use super::ReportError;
use crate::gather::PartRecord;
use crate::gather::foreign::{Asked, Rows, rows};
use crate::table::Table;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use parquet::arrow::ProjectionMask;
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

/// A figure of a trial that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Figure {
    Iops,
    LatencyMean,
    LatencyP99,
    CpuNsPerIo,
    JoulesPerIo,
    Watts,
}

const FIGURES: usize = 6;

/// Columns of the table of trials that are read, and nothing else.
const COLUMNS: [&str; 20] = [
    "store",
    "host",
    "began_unix_ns",
    "path",
    "workload",
    "workload_json",
    "settings",
    "generator",
    "setup",
    "in_force",
    "competes",
    "verdict",
    "error",
    "iops",
    "latency_ns_mean",
    "latency_ns_p99",
    "cpu_ns_per_io",
    "cores",
    "ios",
    "joules_system",
];

/// The trials of one kind of machine.
#[derive(Debug, Default)]
pub(super) struct KindTrials {
    /// Names of hosts; a number elsewhere is an index into them.
    pub(super) hosts: Names,
    /// What trials share that are compared by their paths.
    pub(super) setups: Names,
    /// The same in parts, by its number.
    pub(super) parts: Vec<Setup>,
    pub(super) paths: Names,
    /// Sums by set-up, path and store.
    pub(super) cells: BTreeMap<(u32, u32, u32), StoreCell>,
    pub(super) stores: Names,
    /// Earliest and latest trial, in ns since 1970.
    pub(super) span_ns: Option<[i64; 2]>,
    pub(super) trials: u64,
    pub(super) refuted: u64,
    pub(super) failed: u64,
    pub(super) cores: u32,
}

/// A workload with settings and a generator.
#[derive(Clone, Debug, Default)]
pub(super) struct Setup {
    /// The workload's title.
    pub(super) workload: String,
    pub(super) workload_json: String,
    pub(super) settings: String,
    pub(super) generator: String,
}

/// The trials of one path and set-up in one store.
#[derive(Clone, Debug, Default)]
pub(super) struct StoreCell {
    pub(super) host: u32,
    /// When the first of them began, in ns since 1970.
    pub(super) began_ns: i64,
    pub(super) trials: u32,
    pub(super) verified: u32,
    pub(super) refuted: u32,
    /// Trials that compete: verified, and not disturbed.
    pub(super) competing: u32,
    sums: [f64; FIGURES],
    counts: [u32; FIGURES],
}

impl StoreCell {
    /// The mean of a figure over the trials that compete and have it.
    pub(super) fn mean(&self, figure: Figure) -> Option<f64> {
        let count = self.counts[figure as usize];
        (count > 0).then(|| self.sums[figure as usize] / f64::from(count))
    }
}

/// The share of hosts, and of trials, on which a path must be verified to be rolled out.
const VERIFIED_SHARE: f64 = 0.95;

/// Where a path was verified.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Verified {
    /// Hosts that measured it.
    pub(super) measured: usize,
    /// Of these, hosts where a trial competes and none was refuted.
    pub(super) hosts: usize,
    /// Its trials, also those that failed.
    pub(super) trials: u32,
    /// Of these, verified ones.
    pub(super) verified: u32,
}

/// Names, each with a number in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Names {
    names: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl Names {
    fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }

    pub(super) fn name(&self, number: u32) -> &str {
        self.names.get(number as usize).map_or("", String::as_str)
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    pub(super) fn numbers(&self) -> std::ops::Range<u32> {
        0..u32::try_from(self.names.len()).unwrap_or(u32::MAX)
    }
}

/// More paths than there are.
const MOST_PATHS: usize = 4096;

/// Reads the trials of a kind.
pub(super) fn kind(generation: &Path, parts: &[&PartRecord]) -> Result<KindTrials, ReportError> {
    let mut trials = KindTrials::default();
    for part in parts {
        let path = generation.join(part.file(Table::Trials));
        let refused = |error| ReportError::Parquet { path: path.clone(), error };
        let batches = batches(generation, (part, Table::Trials), &COLUMNS).map_err(refused)?;
        for batch in batches {
            add(&mut trials, &batch.map_err(|error| refused(error.into()))?);
        }
        if trials.paths.len() > MOST_PATHS {
            let error = format!("it is damaged: it names over {MOST_PATHS} paths");
            return Err(refused(ParquetError::General(error)));
        }
    }
    Ok(trials)
}

/// Some columns of a file.
pub(super) fn batches(
    generation: &Path,
    of: (&PartRecord, Table),
    columns: &[&str],
) -> Result<Rows, ParquetError> {
    rows(generation, of, |asked| {
        let mask = ProjectionMask::columns(asked.parquet_schema(), columns.iter().copied());
        let size = batch_size(&asked, &mask);
        asked.with_projection(mask).with_batch_size(size).build()
    })
}

/// Rows that are read at once. Each may repeat the longest text of its column, which no file says, and which
/// is at most what all of the column takes.
fn batch_size(asked: &Asked, mask: &ProjectionMask) -> usize {
    const BYTES: usize = 256 << 20;
    let groups = asked.metadata().row_groups().iter();
    let of_group = |group: &RowGroupMetaData| {
        let columns = group.columns().iter().enumerate().filter(|(leaf, _)| mask.leaf_included(*leaf));
        columns.map(|(_, column)| usize::try_from(column.uncompressed_size()).unwrap_or(BYTES)).sum()
    };
    let most: usize = groups.map(of_group).max().unwrap_or(0);
    (BYTES / most.max(1)).clamp(1, 8192)
}

/// A value of a column by its name, where there is one.
pub(super) struct Cells<'a>(pub(super) &'a RecordBatch);

impl<'a> Cells<'a> {
    pub(super) fn text(&self, name: &str, row: usize) -> Option<&'a str> {
        let column = self.0.column_by_name(name)?.as_string_opt::<i32>()?;
        column.is_valid(row).then(|| column.value(row))
    }

    fn count(&self, name: &str, row: usize) -> Option<i64> {
        let column = self.0.column_by_name(name)?.as_primitive_opt::<Int64Type>()?;
        column.is_valid(row).then(|| column.value(row))
    }

    fn number(&self, name: &str, row: usize) -> Option<f64> {
        let column = self.0.column_by_name(name)?.as_primitive_opt::<Float64Type>()?;
        column.is_valid(row).then(|| column.value(row)).filter(|value| value.is_finite())
    }

    fn flag(&self, name: &str, row: usize) -> bool {
        let column = self.0.column_by_name(name).and_then(|column| column.as_boolean_opt());
        column.is_some_and(|column| column.is_valid(row) && column.value(row))
    }
}

fn add(trials: &mut KindTrials, batch: &RecordBatch) {
    let cells = Cells(batch);
    for row in 0..batch.num_rows() {
        if cells.flag("in_force", row) {
            add_trial(trials, &cells, row);
        }
    }
}

fn add_trial(trials: &mut KindTrials, cells: &Cells<'_>, row: usize) {
    let store = cells.text("store", row).unwrap_or_default();
    // A store that names no host is a host of its own.
    let host = trials.hosts.number(cells.text("host", row).unwrap_or(store));
    let setup = trials.setups.number(cells.text("setup", row).unwrap_or_default());
    if trials.parts.len() < trials.setups.len() {
        let text = |name| cells.text(name, row).unwrap_or_default().to_owned();
        let (workload, workload_json) = (text("workload"), text("workload_json"));
        let (settings, generator) = (text("settings"), text("generator"));
        trials.parts.push(Setup { workload, workload_json, settings, generator });
    }
    let path = trials.paths.number(cells.text("path", row).unwrap_or_default());
    let store = trials.stores.number(store);
    let began_ns = cells.count("began_unix_ns", row).unwrap_or_default();
    let [from, until] = trials.span_ns.unwrap_or([began_ns; 2]);
    trials.span_ns = Some([from.min(began_ns), until.max(began_ns)]);
    trials.trials += 1;
    trials.failed += u64::from(cells.text("error", row).is_some());
    let is_refuted = cells.text("verdict", row) == Some("refuted");
    trials.refuted += u64::from(is_refuted);
    let cores = cells.count("cores", row).and_then(|cores| u32::try_from(cores).ok());
    trials.cores = trials.cores.max(cores.unwrap_or_default());
    let own = trials.cells.entry((setup, path, store)).or_insert(StoreCell {
        host,
        began_ns,
        ..StoreCell::default()
    });
    own.began_ns = own.began_ns.min(began_ns);
    own.trials += 1;
    own.refuted += u32::from(is_refuted);
    own.verified += u32::from(cells.text("verdict", row) == Some("verified"));
    if cells.flag("competes", row) {
        own.competing += 1;
        for (figure, value) in figures(cells, row) {
            own.sums[figure as usize] += value;
            own.counts[figure as usize] += 1;
        }
    }
}

fn figures(cells: &Cells<'_>, row: usize) -> impl Iterator<Item = (Figure, f64)> {
    let joules = cells.number("joules_system", row);
    let ios = cells.count("ios", row).filter(|ios| *ios > 0).map(|ios| ios as f64);
    let iops = cells.number("iops", row).filter(|iops| *iops > 0.0);
    let per_io = joules.zip(ios).map(|(joules, ios)| joules / ios);
    [
        (Figure::Iops, iops),
        (Figure::LatencyMean, cells.number("latency_ns_mean", row)),
        (Figure::LatencyP99, cells.count("latency_ns_p99", row).map(|ns| ns as f64)),
        (Figure::CpuNsPerIo, cells.number("cpu_ns_per_io", row)),
        (Figure::JoulesPerIo, per_io),
        (Figure::Watts, per_io.zip(iops).map(|(joules, iops)| joules * iops)),
    ]
    .into_iter()
    .filter_map(|(figure, value)| Some((figure, value.filter(|value| *value > 0.0)?)))
}

impl KindTrials {
    /// A figure of each host that has it, for a set-up and a path: the mean over its stores.
    pub(super) fn of_hosts(&self, setup: u32, path: u32, figure: Figure) -> Vec<(u32, f64)> {
        let mut sums: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
        for cell in self.of(setup, path) {
            if let Some(mean) = cell.mean(figure) {
                let sum = sums.entry(cell.host).or_default();
                *sum = (sum.0 + mean, sum.1 + 1.0);
            }
        }
        sums.into_iter().map(|(host, (sum, n))| (host, sum / n)).collect()
    }

    /// Where a path was verified.
    pub(super) fn verified(&self, setup: u32, path: u32) -> Verified {
        let mut hosts: BTreeMap<u32, [u32; 2]> = BTreeMap::new();
        let mut sum = Verified::default();
        for cell in self.of(setup, path) {
            let [competing, refuted] = hosts.entry(cell.host).or_default();
            *competing += cell.competing;
            *refuted += cell.refuted;
            sum.trials += cell.trials;
            sum.verified += cell.verified;
        }
        sum.measured = hosts.len();
        sum.hosts = hosts.values().filter(|[competing, refuted]| *competing > 0 && *refuted == 0).count();
        sum
    }

    /// The share of the hosts that did a set-up on which a path is verified: one that few of them have is not
    /// one to roll out.
    pub(super) fn verified_share(&self, setup: u32, path: u32) -> f64 {
        let of_setup = self.cells.range((setup, 0, 0)..=(setup, u32::MAX, u32::MAX));
        let hosts: BTreeSet<u32> = of_setup.map(|(_, cell)| cell.host).collect();
        self.verified(setup, path).hosts as f64 / hosts.len().max(1) as f64
    }

    /// True of a path that may be rolled out: it is verified on nearly every host and in nearly every trial.
    pub(super) fn is_sound(&self, setup: u32, path: u32) -> bool {
        let Verified { trials, verified, .. } = self.verified(setup, path);
        let of_trials = f64::from(verified) / f64::from(trials.max(1));
        of_trials >= VERIFIED_SHARE && self.verified_share(setup, path) >= VERIFIED_SHARE
    }

    /// The set-ups with the paths that each was measured on.
    pub(super) fn pairs(&self) -> Vec<(u32, u32)> {
        let mut pairs: Vec<(u32, u32)> = self.cells.keys().map(|(setup, path, _)| (*setup, *path)).collect();
        pairs.dedup();
        pairs
    }

    /// The paths that a set-up was measured on.
    pub(super) fn paths_of(&self, setup: u32) -> Vec<u32> {
        let own = self.cells.range((setup, 0, 0)..=(setup, u32::MAX, u32::MAX));
        let mut paths: Vec<u32> = own.map(|((_, path, _), _)| *path).collect();
        paths.dedup();
        paths
    }

    /// What the stores have of a set-up and a path.
    pub(super) fn of(&self, setup: u32, path: u32) -> impl Iterator<Item = &StoreCell> {
        self.cells.range((setup, path, 0)..=(setup, path, u32::MAX)).map(|(_, cell)| cell)
    }
}
