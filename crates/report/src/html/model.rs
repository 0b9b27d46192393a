//! The trials as the page needs them: series (a path under settings and a generator), workloads, and a cell
//! for each pair that was measured.

use iopj_analysis::Admission;
use iopj_analysis::advise::{Advice, AdviseQuestion, advise};
use iopj_analysis::cost::any_sampled;
use iopj_analysis::figure::{self, FigureName};
use iopj_analysis::grouping::{ascending, unique};
use iopj_analysis::metric::Metric;
use iopj_analysis::stats::{Summary, summarize};
use iopj_analysis::winner::{Axis, AxisValue};
use iopj_core::{IoPath, Space, VerdictKind, Workload};
use iopj_record::{EnergySource, Generator, Measurement, Outcome, StudyRecord, Trial};
use std::collections::{BTreeMap, HashMap};

/// What is compared. It has the same colour and mark in all figures.
pub(super) struct Series {
    pub(super) path: IoPath,
    pub(super) generator: Generator,
    pub(super) settings: BTreeMap<String, String>,
    /// The whole name, as in the tables.
    pub(super) name: String,
    /// The name without what all paths of its interface share.
    pub(super) label: String,
    /// The name without the path: the generator and the settings that vary, each after a space.
    pub(super) suffix: String,
}

/// A series under a workload, over its replicates.
#[derive(Default)]
pub(super) struct SeriesCell<'a> {
    pub(super) series: usize,
    pub(super) workload: usize,
    /// Measurements that compete; if none does, those that were not refuted.
    pub(super) trusted: Vec<&'a Measurement>,
    /// The positions of their trials.
    pub(super) positions: Vec<u64>,
    /// True if these compete.
    competes: bool,
    pub(super) verified: usize,
    pub(super) seen: usize,
    pub(super) unproven: usize,
    pub(super) refuted: usize,
    pub(super) failed: usize,
}

/// All that the page shows.
pub(super) struct Model<'a> {
    pub(super) series: Vec<Series>,
    pub(super) workloads: Vec<&'a Workload>,
    /// By series and workload.
    pub(super) cells: Vec<SeriesCell<'a>>,
    pub(super) trials: &'a [Trial],
    pub(super) study: &'a StudyRecord,
    pub(super) admission: Admission,
    /// What emulated the processor: then no time is shown.
    pub(super) emulated: Option<&'a str>,
    /// True if a cost profile of the store consists of samples.
    pub(super) sampled: bool,
    /// The meter and scope of all energy shown; estimates are not shown.
    pub(super) source: Option<EnergySource>,
    /// What is asked for advice on.
    pub(super) question: AdviseQuestion,
    /// The advice on it, if the store can answer.
    pub(super) advice: Option<Advice>,
    /// What the program calls its figure, if one did the I/O.
    pub(super) figure: Option<FigureName>,
    places: Places<'a>,
}

/// Where what a trial belongs to is: to look at all for each trial would take the square of their number.
#[derive(Default)]
struct Places<'a> {
    series: HashMap<(IoPath, Generator), BTreeMap<BTreeMap<String, String>, usize>>,
    workloads: HashMap<&'a Workload, usize>,
    /// The cells of each workload.
    cells: Vec<Vec<usize>>,
    /// The workloads are of several lengths.
    lengths_differ: bool,
}

impl<'a> Places<'a> {
    fn of(all: &[Series], workloads: &[&'a Workload]) -> Places<'a> {
        let mut places = Places {
            workloads: workloads.iter().enumerate().map(|(place, workload)| (*workload, place)).collect(),
            cells: vec![Vec::new(); workloads.len()],
            lengths_differ: workloads.windows(2).any(|two| two[0].length != two[1].length),
            ..Places::default()
        };
        for (place, one) in all.iter().enumerate() {
            let like = places.series.entry((one.path, one.generator)).or_default();
            like.entry(one.settings.clone()).or_insert(place);
        }
        places
    }
}

/// The metrics that have a figure of their own if the store has them; times only where they mean something.
const METRICS: [Metric; 9] = [
    Metric::Figure,
    Metric::FigurePerJoule,
    Metric::Iops,
    Metric::LatencyMean,
    Metric::Watts,
    Metric::IosPerJoule,
    Metric::CpuPercent,
    Metric::ContextSwitchesPerIo,
    Metric::Instructions(None),
];

/// Further ones of an emulated store.
const COUNTS: [Metric; 4] = [
    Metric::InterruptsPerIo,
    Metric::Instructions(Some(Space::Kernel)),
    Metric::Loads(None),
    Metric::Stores(None),
];

/// How a metric is shown: its name with its unit, and the factor from its own unit.
pub(super) fn shown(metric: Metric) -> (String, f64) {
    match metric {
        Metric::Iops => ("IOPS".to_owned(), 1.0),
        Metric::CpuPercent | Metric::ContextSwitchesPerIo | Metric::InterruptsPerIo => {
            (format!("{}, {}", metric.title(), metric.unit()), 1.0)
        }
        other if other.unit() == "ns" => (format!("{}, \u{b5}s", other.title()), 1e-3),
        other => (format!("{}, {}", other.title(), other.unit()), 1.0),
    }
}

/// The axes of the workload along which figures run.
pub(super) const AXES: [Axis; 4] = [Axis::Iodepth, Axis::Numjobs, Axis::Bs, Axis::RateIops];

impl<'a> Model<'a> {
    pub(super) fn new(
        study: &'a StudyRecord,
        trials: &'a [Trial],
        question: impl Into<AdviseQuestion>,
    ) -> Model<'a> {
        let question = question.into();
        let admission = question.admission;
        let (series, workloads) = (series(trials), workloads(trials));
        let mut model = Model {
            places: Places::of(&series, &workloads),
            series,
            workloads,
            cells: Vec::new(),
            trials,
            study,
            admission,
            emulated: study.emulated.as_deref(),
            sampled: any_sampled(trials),
            source: EnergySource::measured(&[trials]).filter(|_| study.emulated.is_none()),
            advice: advise(study, trials, &question).ok(),
            figure: FigureName::of(trials),
            question,
        };
        let mut places: HashMap<(usize, usize), usize> = HashMap::new();
        for trial in trials {
            let (Some(series), Some(workload)) = (model.series_of(trial), model.workload_of(&trial.workload))
            else {
                continue;
            };
            let place = *places.entry((series, workload)).or_insert_with(|| {
                model.cells.push(SeriesCell { series, workload, ..SeriesCell::default() });
                model.cells.len() - 1
            });
            model.cells[place].add(trial, admission);
        }
        model.cells.sort_by_key(|cell| (cell.series, cell.workload));
        for (place, cell) in model.cells.iter().enumerate() {
            model.places.cells[cell.workload].push(place);
        }
        model
    }

    /// True if a trial is over fabrics.
    pub(super) fn is_over_fabrics(&self) -> bool {
        let mut trusted = self.cells.iter().flat_map(|cell| &cell.trusted);
        trusted.any(|one| one.evidence.fabric.is_some())
    }

    /// The metrics that have a figure of their own.
    pub(super) fn metrics(&self) -> impl Iterator<Item = Metric> {
        let emulated = self.emulated.is_some();
        let counts = COUNTS.into_iter().filter(move |_| emulated);
        METRICS.into_iter().filter(move |metric| !(emulated && metric.is_time())).chain(counts)
    }

    /// Summary of a metric over the trusted replicates of a cell, in the unit in which it is shown.
    pub(super) fn summary(&self, cell: &SeriesCell<'_>, metric: Metric) -> Option<Summary> {
        let (_, factor) = shown(metric);
        let values =
            cell.trusted.iter().filter_map(|measurement| metric.value(measurement, self.source.as_ref()));
        summarize(&values.map(|value| value * factor).collect::<Vec<f64>>())
    }

    /// The name of a metric with its unit; for energy also the source, for costs also whether they are
    /// sampled.
    pub(super) fn name_of(&self, metric: Metric) -> String {
        let whole = match metric.is_figure() {
            true => format!("{}, {}", self.title_of(metric), figure::unit(metric, self.figure.as_ref())),
            false => shown(metric).0,
        };
        if let Some(source) = self.source.as_ref().filter(|_| metric.is_energy()) {
            return format!("{whole}, {source}");
        }
        let sampled = if metric.is_cost() && self.sampled { ", sampled" } else { "" };
        format!("{whole}{sampled}")
    }

    /// The metric in words.
    pub(super) fn title_of(&self, metric: Metric) -> String {
        figure::title(metric, self.figure.as_ref())
    }

    /// The series that a trial belongs to.
    pub(super) fn series_of(&self, trial: &Trial) -> Option<usize> {
        self.series_like(trial.path, trial.generator, &trial.settings)
    }

    /// The series of a path under settings and a generator.
    pub(super) fn series_like(
        &self,
        path: IoPath,
        generator: Generator,
        settings: &BTreeMap<String, String>,
    ) -> Option<usize> {
        self.places.series.get(&(path, generator))?.get(settings).copied()
    }

    pub(super) fn workload_of(&self, workload: &Workload) -> Option<usize> {
        self.places.workloads.get(workload).copied()
    }

    /// The cells of a workload in the order of the series.
    pub(super) fn cells_of(&self, workload: usize) -> impl Iterator<Item = &SeriesCell<'a>> {
        self.places.cells.get(workload).into_iter().flatten().map(|place| &self.cells[*place])
    }

    /// The name of a workload in this study, without the axes along which a figure runs.
    pub(super) fn title(&self, workload: &Workload, without: &[Axis]) -> String {
        let mut title = workload.title();
        for axis in without {
            let value = axis.value(workload);
            let part = match axis {
                Axis::Bs => format!(" {value} "),
                named => format!(" {} {value}", named.as_str()),
            };
            title = title.replacen(&part, if *axis == Axis::Bs { " " } else { "" }, 1);
        }
        let is_other = |first: &&Workload| first.length != workload.length;
        if self.places.lengths_differ || self.workloads.first().is_some_and(is_other) {
            title += &format!(", {}", workload.length_text());
        }
        title
    }

    /// The values of an axis over the whole study, ascending.
    pub(super) fn values_of(&self, axis: Axis) -> Vec<AxisValue> {
        ascending(self.workloads.iter().map(|workload| axis.value(workload)))
    }

    /// The greatest number of replicates of any cell.
    pub(super) fn replicates(&self) -> usize {
        self.cells.iter().map(|cell| cell.trusted.len()).max().unwrap_or(0)
    }
}

impl<'a> SeriesCell<'a> {
    fn add(&mut self, trial: &'a Trial, admission: Admission) {
        match &trial.outcome {
            Outcome::Failed(_) => self.failed += 1,
            Outcome::Measured(measurement) => {
                match measurement.verdict.kind {
                    VerdictKind::Refuted => self.refuted += 1,
                    VerdictKind::Verified => self.verified += 1,
                    VerdictKind::Seen => self.seen += 1,
                    VerdictKind::Unproven => self.unproven += 1,
                }
                let competes = admission.admit(trial).is_ok();
                if competes && !self.competes {
                    self.trusted.clear();
                    self.positions.clear();
                    self.competes = true;
                }
                if competes || (!self.competes && measurement.verdict.kind != VerdictKind::Refuted) {
                    self.trusted.push(measurement);
                    self.positions.push(trial.position);
                }
            }
        }
    }
}

/// In the order of the tables, small and shallow first.
fn workloads(trials: &[Trial]) -> Vec<&Workload> {
    let mut workloads = unique(trials.iter().map(|trial| &trial.workload));
    workloads
        .sort_by_key(|one| (one.rw, one.bs, one.numjobs, one.iodepth, one.open.map(|open| open.rate_iops)));
    workloads
}

/// The series, in the order of their colours and marks.
pub(super) fn series(trials: &[Trial]) -> Vec<Series> {
    let mut keys = unique(trials.iter().map(|trial| (trial.path, trial.generator, &trial.settings)));
    keys.sort();
    let paths = unique(keys.iter().map(|(path, ..)| *path));
    let several_generators = keys.iter().any(|(_, generator, _)| *generator != keys[0].1);
    let mut shared = keys.first().map_or_else(BTreeMap::new, |(.., settings)| BTreeMap::clone(settings));
    keys.iter().for_each(|(.., other)| shared.retain(|name, value| other.get(name) == Some(value)));
    keys.iter()
        .map(|(path, generator, settings)| {
            let mut suffix = String::new();
            if several_generators || *generator == Generator::Fio {
                suffix += &format!(" ({})", generator.as_str());
            }
            for (name, value) in settings.iter().filter(|(name, value)| shared.get(*name) != Some(*value)) {
                suffix += &format!(" {name}={value}");
            }
            Series {
                path: *path,
                generator: *generator,
                settings: (*settings).clone(),
                name: format!("{path}{suffix}"),
                label: format!("{}{suffix}", label(path, &paths)),
                suffix,
            }
        })
        .collect()
}

/// The interface, with what distinguishes its paths: submission, completion, variants.
fn label(path: &IoPath, paths: &[IoPath]) -> String {
    if !path.is_fixed() {
        return path.to_string();
    }
    let parts = |path: &IoPath| {
        let text = path.to_string();
        let (stem, variants) = text.split_once('+').unwrap_or((&text, ""));
        let mut parts: Vec<String> = stem.split('/').skip(1).map(str::to_owned).collect();
        parts.push(if variants.is_empty() { String::new() } else { format!("+{variants}") });
        parts
    };
    let kin: Vec<Vec<String>> =
        paths.iter().filter(|other| other.interface() == path.interface()).map(parts).collect();
    let own = parts(path);
    let telling = (0..own.len()).filter(|index| kin.iter().any(|other| other[*index] != own[*index]));
    let words: Vec<&str> = telling.map(|index| own[index].as_str()).filter(|word| !word.is_empty()).collect();
    let (plain, variants): (Vec<&str>, Vec<&str>) =
        words.into_iter().partition(|word| !word.starts_with('+'));
    let words = format!("{}{}", plain.join("/"), variants.concat());
    if words.is_empty() { path.interface().to_owned() } else { format!("{} {words}", path.interface()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_record::testing::pairs::study;

    #[test]
    fn engines_that_choose_their_way_are_named_in_full() {
        let paths: [IoPath; 3] = ["auto", "auto:io_uring/syscall/interrupt", "io_uring/sqpoll/interrupt"]
            .map(|p| p.parse().unwrap());
        let labels = paths.map(|path| label(&path, &paths));
        assert_eq!(labels, ["auto", "auto:io_uring/syscall/interrupt", "io_uring"]);
    }

    #[test]
    fn labels_keep_what_tells_paths_apart() {
        let paths: Vec<IoPath> = [
            "libaio/syscall/interrupt",
            "io_uring/syscall/poll",
            "io_uring/syscall/poll+registered",
            "io_uring/sqpoll/poll",
            "posix-sio/syscall/poll",
            "posix-sio/syscall/interrupt",
        ]
        .iter()
        .map(|text| text.parse().unwrap())
        .collect();
        let labels: Vec<String> = paths.iter().map(|path| label(path, &paths)).collect();
        let expected = [
            "libaio",
            "io_uring syscall",
            "io_uring syscall+registered",
            "io_uring sqpoll",
            "posix-sio poll",
            "posix-sio interrupt",
        ];
        assert_eq!(labels, expected);
    }

    #[test]
    fn titles_leave_out_the_axis() {
        let study = study("6.1");
        let model = Model::new(&study, &[], Admission::default());
        let workload = Workload { iodepth: 16, ..Workload::default() };
        assert_eq!(model.title(&workload, &[Axis::Iodepth]), "randread 4k numjobs 1");
        assert_eq!(model.title(&workload, &[Axis::Bs, Axis::Numjobs]), "randread iodepth 16");
    }
}
