//! Winner maps: for a metric and two axes of the workload the best path of each cell, its distance to the next, or a tie.
//!
//! Refuted, failed and incomplete trials stay out and are counted. The maps as text are `render`'s.

use super::metric::Metric;
use super::stats::{LEVEL, Method, Summary, holm, over, summarize, t_test};
use iopj_core::{IoPath, Rw, VerdictKind, Workload, format_bytes};
use iopj_store::{EnergySource, Generator, Measurement, StudyRecord, Trial};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;
use std::str::FromStr;

/// Share of short I/Os above which a trial is incomplete: verdicts allow as many bytes to be missing.
const SHORT_SHARE: f64 = 0.001;

/// A dimension of the workload that a map runs along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Direction and order.
    Rw,
    /// Size of one I/O.
    Bs,
    /// I/Os in flight of each job.
    Iodepth,
    /// Jobs.
    Numjobs,
}

impl Axis {
    /// All of them.
    pub const ALL: [Axis; 4] = [Axis::Rw, Axis::Bs, Axis::Iodepth, Axis::Numjobs];

    /// The axis's word, fio's.
    pub fn as_str(self) -> &'static str {
        match self {
            Axis::Rw => "rw",
            Axis::Bs => "bs",
            Axis::Iodepth => "iodepth",
            Axis::Numjobs => "numjobs",
        }
    }

    /// Where `workload` stands on the axis.
    pub fn value(self, workload: &Workload) -> AxisValue {
        match self {
            Axis::Rw => AxisValue::Rw(workload.rw),
            Axis::Bs => AxisValue::Bs(workload.bs),
            Axis::Iodepth => AxisValue::Count(workload.iodepth),
            Axis::Numjobs => AxisValue::Count(workload.numjobs),
        }
    }

    /// Makes workloads that differ along this axis alone equal.
    pub(super) fn clear(self, workload: &mut Workload) {
        let plain = Workload::default();
        match self {
            Axis::Rw => workload.rw = plain.rw,
            Axis::Bs => workload.bs = plain.bs,
            Axis::Iodepth => workload.iodepth = plain.iodepth,
            Axis::Numjobs => workload.numjobs = plain.numjobs,
        }
    }
}

impl FromStr for Axis {
    type Err = String;

    fn from_str(text: &str) -> Result<Axis, String> {
        Axis::ALL.into_iter().find(|axis| axis.as_str() == text).ok_or_else(|| {
            let names = Axis::ALL.map(Axis::as_str);
            format!("`{text}` is no axis of a winner map; there are {}", names.join(", "))
        })
    }
}

/// A place on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AxisValue {
    /// Direction and order.
    Rw(Rw),
    /// Bytes.
    Bs(u32),
    /// I/Os in flight, or jobs.
    Count(u32),
}

impl fmt::Display for AxisValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AxisValue::Rw(rw) => write!(f, "{rw}"),
            AxisValue::Bs(bytes) => f.write_str(&format_bytes(u64::from(*bytes))),
            AxisValue::Count(count) => write!(f, "{count}"),
        }
    }
}

/// What a map answers, and by which rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// What is best at what.
    pub metric: Metric,
    /// The axis across.
    pub x: Axis,
    /// The axis down.
    pub y: Axis,
    /// The test of the best path against the next.
    pub method: Method,
    /// Correct the p-values of a map's cells after Holm; of all maps' cells where there is more than one look.
    pub holm: bool,
    /// How often the trials may have been looked at to decide whether there are enough: every p-value is multiplied by it.
    pub looks: u32,
}

impl Question {
    /// The papers' rule: Student's test without correction. The error says that the axes are one and the same.
    pub fn new(metric: Metric, x: Axis, y: Axis) -> Result<Question, String> {
        if x == y {
            let name = x.as_str();
            return Err(format!("`{name}` cannot be both axes of a winner map: name two of rw, bs, iodepth, numjobs"));
        }
        Ok(Question { metric, x, y, method: Method::Student, holm: false, looks: 1 })
    }

    /// Whether the trials of a study can be asked this. The error says that the metric is a time and the study was emulated.
    pub fn admits(&self, study: &StudyRecord) -> Result<(), String> {
        let Some(emulator) = study.emulated.as_ref().filter(|_| self.metric.is_time()) else { return Ok(()) };
        let counts: Vec<&str> = Metric::ALL.iter().filter(|metric| !metric.is_time()).map(|m| m.as_str()).collect();
        Err(format!(
            "`{}` is measured by a clock, and under {emulator} times mean nothing: name a count by --metric, one of {}",
            self.metric,
            counts.join(", ")
        ))
    }
}

/// Cells by their places down and across.
pub type Cells<T> = BTreeMap<(AxisValue, AxisValue), T>;

/// One map: what does not vary along its axes is the same in every cell.
#[derive(Clone, Debug, PartialEq)]
pub struct WinnerMap {
    /// What it answers.
    pub question: Question,
    /// The workload; what it says of the two axes means nothing.
    pub workload: Workload,
    /// Settings of the study, by name.
    pub settings: BTreeMap<String, String>,
    /// What issued the I/O.
    pub generator: Generator,
    /// The meter and scope that an energy metric is of: one for all maps of a store. Absent for other metrics and without a meter.
    pub source: Option<EnergySource>,
    /// The cells by their places down and across. A place for which no trial was made has none.
    pub cells: Cells<Cell>,
}

/// One cell: the paths that were measured under one workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// The paths, best mean first.
    pub ranking: Vec<Place>,
    /// The p-value of the first against the second, after Holm's correction if that was asked for; absent where there is no test.
    pub p: Option<f64>,
    /// Trials that stayed out.
    pub left_out: LeftOut,
}

/// A path in the ranking of a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// The path that was asked for.
    pub path: IoPath,
    /// Its replicates in numbers.
    pub summary: Summary,
    /// The p-value against the first of the ranking, not corrected; absent for the first itself and where there is no test.
    pub p: Option<f64>,
}

/// What a cell decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The first of the ranking is best.
    Winner,
    /// The first is not told from the second: p > [`LEVEL`].
    Tie,
    /// Only one path was measured.
    Alone,
    /// One of the two best has a single replicate (or, by blocks, they share fewer than two): no test decides.
    Undecided,
    /// Nothing was measured.
    Empty,
}

/// How far the best path is from the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distance {
    /// Best mean less the next, in the metric's unit.
    pub absolute: f64,
    /// The same over the next mean; absent where that is zero.
    pub relative: Option<f64>,
}

impl Cell {
    /// What the cell decides.
    pub fn decision(&self) -> Decision {
        match (self.ranking.len(), self.p) {
            (0, _) => Decision::Empty,
            (1, _) => Decision::Alone,
            (_, None) => Decision::Undecided,
            (_, Some(p)) if p > LEVEL => Decision::Tie,
            _ => Decision::Winner,
        }
    }

    /// How far the best path is from the next; absent where there are no two.
    pub fn distance(&self) -> Option<Distance> {
        let [best, next, ..] = self.ranking.as_slice() else { return None };
        let absolute = best.summary.mean - next.summary.mean;
        let relative = Some(absolute / next.summary.mean).filter(|relative| relative.is_finite());
        Some(Distance { absolute, relative })
    }

    /// The paths of a tie: the two best, and those after them as long as they are not told from the best either. Empty without a tie.
    pub fn tied(&self) -> &[Place] {
        if self.decision() != Decision::Tie {
            return &[];
        }
        let more = self.ranking[2..].iter().take_while(|place| place.p.is_some_and(|p| p > LEVEL)).count();
        &self.ranking[..2 + more]
    }
}

/// Trials that stayed out, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// They took another path than the one asked for.
    pub refuted: usize,
    /// They failed.
    pub failed: usize,
    /// No I/O moved all its bytes, or more than 0.1 % were short.
    pub incomplete: usize,
    /// They lack the metric.
    pub unmeasured: usize,
    /// The meter did not cover them.
    pub energy_incomplete: usize,
    /// Of the two best paths, those whose block lacks the other: by blocks alone.
    pub unpaired: usize,
}

impl LeftOut {
    /// All of them.
    pub fn total(&self) -> usize {
        self.refuted + self.failed + self.incomplete + self.unmeasured + self.energy_incomplete + self.unpaired
    }
}

impl AddAssign for LeftOut {
    fn add_assign(&mut self, other: LeftOut) {
        self.refuted += other.refuted;
        self.failed += other.failed;
        self.incomplete += other.incomplete;
        self.unmeasured += other.unmeasured;
        self.energy_incomplete += other.energy_incomplete;
        self.unpaired += other.unpaired;
    }
}

impl WinnerMap {
    /// Trials of all cells that stayed out.
    pub fn left_out(&self) -> LeftOut {
        let mut sum = LeftOut::default();
        self.cells.values().for_each(|cell| sum += cell.left_out);
        sum
    }
}

/// The replicates of one path in a cell: their numbers and values.
pub type Sample = Vec<(u32, f64)>;

/// A cell under construction.
#[derive(Default)]
struct Gathered {
    samples: BTreeMap<IoPath, Sample>,
    left_out: LeftOut,
}

/// One map for each combination of what does not lie on the axes, in the order in which these first stand in `trials`.
pub fn winner_maps(trials: &[Trial], question: &Question) -> Vec<WinnerMap> {
    let mut maps: Vec<(WinnerMap, Cells<Gathered>)> = Vec::new();
    let source = question.metric.is_energy().then(|| EnergySource::measured(&[trials])).flatten();
    for trial in trials {
        let mut workload = trial.workload.clone();
        question.x.clear(&mut workload);
        question.y.clear(&mut workload);
        let same = |map: &WinnerMap| {
            map.workload == workload && map.settings == trial.settings && map.generator == trial.generator
        };
        let place = maps.iter().position(|(map, _)| same(map)).unwrap_or_else(|| {
            let (settings, generator) = (trial.settings.clone(), trial.generator);
            let (question, source) = (*question, source.clone());
            let map = WinnerMap { question, workload, settings, generator, source, cells: BTreeMap::new() };
            maps.push((map, BTreeMap::new()));
            maps.len() - 1
        });
        let at = (question.y.value(&trial.workload), question.x.value(&trial.workload));
        gather(maps[place].1.entry(at).or_default(), trial, (question.metric, source.as_ref()));
    }
    let mut maps: Vec<WinnerMap> = maps.into_iter().map(|(map, gathered)| finish(map, gathered)).collect();
    if question.holm {
        // Where decisions ended the study, those of all its maps did.
        let family = if question.looks > 1 { maps.len() } else { 1 };
        maps.chunks_mut(family.max(1)).for_each(|maps| correct(maps.iter_mut().flat_map(|map| map.cells.values_mut())));
    }
    maps
}

fn gather(cell: &mut Gathered, trial: &Trial, (metric, source): (Metric, Option<&EnergySource>)) {
    let Some(measurement) = trial.outcome.measurement() else {
        cell.left_out.failed += 1;
        return;
    };
    if measurement.verdict.kind == VerdictKind::Refuted {
        cell.left_out.refuted += 1;
    } else if is_incomplete(measurement) {
        cell.left_out.incomplete += 1;
    } else if let Some(value) = metric.value(measurement, source) {
        cell.samples.entry(trial.path).or_default().push((trial.replicate, value));
    } else if source.is_some_and(|source| source.lack(measurement).is_some()) {
        cell.left_out.energy_incomplete += 1;
    } else {
        cell.left_out.unmeasured += 1;
    }
}

/// The measurement of a trial that is neither refuted nor incomplete.
pub(crate) fn counting(trial: &Trial) -> Option<&Measurement> {
    let measurement = trial.outcome.measurement()?;
    (measurement.verdict.kind != VerdictKind::Refuted && !is_incomplete(measurement)).then_some(measurement)
}

/// True if a trial did not do the I/O that it stands for.
fn is_incomplete(measurement: &Measurement) -> bool {
    let short = measurement.short_ios as f64;
    measurement.ios == 0 || measurement.window_ns == 0 || short > SHORT_SHARE * (measurement.ios as f64 + short)
}

fn finish(mut map: WinnerMap, gathered: Cells<Gathered>) -> WinnerMap {
    let decide = |(at, Gathered { samples, left_out }): (_, Gathered)| {
        let mut cell = rank(samples, &map.question);
        cell.left_out += left_out;
        (at, cell)
    };
    map.cells = gathered.into_iter().map(decide).collect();
    map
}

/// Corrects the p-values of these cells after Holm.
pub(super) fn correct<'a>(cells: impl Iterator<Item = &'a mut Cell>) {
    let tested: Vec<&mut f64> = cells.filter_map(|cell| cell.p.as_mut()).collect();
    let adjusted = holm(&tested.iter().map(|p| **p).collect::<Vec<f64>>());
    tested.into_iter().zip(adjusted).for_each(|(p, adjusted)| *p = adjusted);
}

/// The cell of these samples, by the question's metric and test; Holm's correction is a map's, so not made here. A sample that
/// is empty or holds a value that is not finite is passed over.
pub fn rank(samples: BTreeMap<IoPath, Sample>, question: &Question) -> Cell {
    let values = |sample: &Sample| sample.iter().map(|(_, value)| *value).collect::<Vec<f64>>();
    let mut ranked: Vec<(IoPath, Sample, Summary)> = samples
        .into_iter()
        .filter_map(|(path, sample)| summarize(&values(&sample)).map(|summary| (path, sample, summary)))
        .collect();
    ranked.sort_by(|(_, _, a), (_, _, b)| {
        let ascending = a.mean.total_cmp(&b.mean);
        if question.metric.more_is_better() { ascending.reverse() } else { ascending }
    });
    let mut left_out = LeftOut::default();
    if let ([(_, best, _), (_, next, _), ..], Method::Paired) = (ranked.as_slice(), question.method) {
        left_out.unpaired = best.len() + next.len() - 2 * blocks(best, next).len();
    }
    let against_best = |(place, (_, sample, _)): (usize, &(IoPath, Sample, Summary))| {
        (place > 0).then(|| compare(question, &ranked[0].1, sample)).flatten()
    };
    let p: Vec<Option<f64>> = ranked.iter().enumerate().map(against_best).collect();
    let places = ranked.into_iter().zip(&p).map(|((path, _, summary), p)| Place { path, summary, p: *p });
    Cell { ranking: places.collect(), p: p.get(1).copied().flatten(), left_out }
}

/// The p-value of the best sample against another, for all looks.
fn compare(question: &Question, best: &Sample, other: &Sample) -> Option<f64> {
    if question.method != Method::Paired {
        let values = |sample: &Sample| sample.iter().map(|(_, value)| *value).collect::<Vec<f64>>();
        return t_test(question.method, &values(best), &values(other)).map(|test| over(question.looks, test.p));
    }
    let (best, other): (Vec<f64>, Vec<f64>) = blocks(best, other).into_iter().unzip();
    let test = t_test(Method::Paired, &best, &other)?;
    // The shared blocks may rank the two the other way round than all replicates do: no evidence for the best.
    let favours_best = (test.t > 0.0) == question.metric.more_is_better();
    Some(if favours_best { over(question.looks, test.p) } else { 1.0 })
}

/// The values of the blocks that hold both.
pub(super) fn blocks(a: &Sample, b: &Sample) -> Vec<(f64, f64)> {
    let partner = |replicate| b.iter().find(|(other, _)| *other == replicate);
    a.iter().filter_map(|(replicate, a)| partner(*replicate).map(|(_, b)| (*a, *b))).collect()
}
