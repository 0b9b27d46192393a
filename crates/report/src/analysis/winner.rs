//! Winner maps: for a metric and two axes of the workload, the best path of each cell with its lead over the
//! next, or a tie.
//!
//! `admission` says which trials compete; the others are counted. `render` makes text of the maps.

use super::admission::{Admission, BarredCounts};
use super::contrast::{Contrast, Sample, TestPlan, in_blocks};
use super::metric::Metric;
use super::stats::{LEVEL, Method, Summary, holm, summarize};
use iopj_core::{IoPath, Rw, Workload, format_bytes};
use iopj_store::{EnergySource, Generator, StudyRecord, Trial};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::AddAssign;
use std::str::FromStr;

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

    /// The workload's value on the axis.
    pub fn value(self, workload: &Workload) -> AxisValue {
        match self {
            Axis::Rw => AxisValue::Rw(workload.rw),
            Axis::Bs => AxisValue::Bs(workload.bs),
            Axis::Iodepth => AxisValue::Count(workload.iodepth),
            Axis::Numjobs => AxisValue::Count(workload.numjobs),
        }
    }

    /// Makes workloads that differ along this axis alone equal.
    pub(crate) fn clear(self, workload: &mut Workload) {
        workload.clear(self.as_str());
    }
}

/// A word that names no axis.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not an axis of a winner map: use one of {all}",
    all = Axis::ALL.map(Axis::as_str).join(", ")
)]
pub struct UnknownAxis(pub String);

impl FromStr for Axis {
    type Err = UnknownAxis;

    fn from_str(text: &str) -> Result<Axis, UnknownAxis> {
        let named = Axis::ALL.into_iter().find(|axis| axis.as_str() == text);
        named.ok_or_else(|| UnknownAxis(text.to_owned()))
    }
}

/// A value on an axis.
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
pub struct WinnerQuestion {
    /// The metric in which the best path is best.
    pub metric: Metric,
    /// The axis across.
    pub x: Axis,
    /// The axis down.
    pub y: Axis,
    /// The test of the best path against the others. [`Method::Student`] is the papers' rule: it compares the
    /// best with the next alone, without correction. The others compare the best with every other path, after
    /// Holm's correction over the cells of all maps.
    pub method: Method,
    /// Which trials compete.
    pub admission: Admission,
    /// The number of looks at which the trials might have been found sufficient: every p-value is multiplied
    /// by it.
    pub looks: u32,
}

/// Why a winner map cannot answer a question.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WinnerQuestionError {
    /// Both axes are the same.
    #[error("`{}` cannot be both axes of a winner map: name two of rw, bs, iodepth, numjobs", .0.as_str())]
    SameAxes(Axis),
    /// The metric is a time and the study was emulated.
    #[error(
        "`{metric}` is measured by a clock, and under {emulator} times mean nothing: name a count with \
         --metric, one of {}",
        Metric::ALL.iter().filter(|one| !one.is_time()).map(|one| one.as_str()).collect::<Vec<_>>().join(", ")
    )]
    EmulatedTime {
        /// The metric.
        metric: Metric,
        /// What emulated the processor.
        emulator: String,
    },
}

impl WinnerQuestion {
    /// The question by the default rule: differences within blocks.
    pub fn new(metric: Metric, x: Axis, y: Axis) -> Result<WinnerQuestion, WinnerQuestionError> {
        if x == y {
            return Err(WinnerQuestionError::SameAxes(x));
        }
        Ok(WinnerQuestion { metric, x, y, method: Method::Paired, admission: Admission::default(), looks: 1 })
    }

    /// The same question by the default rule for the trials of a study: Welch's test if they were not run in
    /// blocks, and for all looks that decided how many trials there are.
    pub fn of(self, study: &StudyRecord) -> WinnerQuestion {
        let method = if in_blocks(study) { Method::Paired } else { Method::Welch };
        WinnerQuestion { method, looks: study.looks(), ..self }
    }

    /// The papers' rule.
    fn is_plain(&self) -> bool {
        self.method == Method::Student
    }

    /// Refuses to ask the trials of an emulated study about a time.
    pub fn admits(&self, study: &StudyRecord) -> Result<(), WinnerQuestionError> {
        let metric = self.metric;
        match study.emulated.clone().filter(|_| metric.is_time()) {
            Some(emulator) => Err(WinnerQuestionError::EmulatedTime { metric, emulator }),
            None => Ok(()),
        }
    }
}

/// Cells by their values down and across.
pub type ByPlace<T> = BTreeMap<(AxisValue, AxisValue), T>;

/// One map: everything but its axes is the same in every cell.
#[derive(Clone, Debug, PartialEq)]
pub struct WinnerMap {
    /// What it answers.
    pub question: WinnerQuestion,
    /// The workload; its values on the two axes mean nothing.
    pub workload: Workload,
    /// Settings of the study, by name.
    pub settings: BTreeMap<String, String>,
    /// What issued the I/O.
    pub generator: Generator,
    /// The meter and scope that an energy metric is of: one for all maps of a store. Absent for other metrics
    /// and without a meter.
    pub source: Option<EnergySource>,
    /// The cells by their values down and across. There is no cell without trials.
    pub cells: ByPlace<MapCell>,
}

/// One cell: the paths that were measured under one workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MapCell {
    /// The paths, the best first: by their mean, for percentiles by their geometric mean.
    pub ranking: Vec<RankedPath>,
    /// The p-value of the first compared with the path that is least distinct from it, corrected; by the
    /// papers' rule compared with the second, not corrected. Absent without a test.
    pub p: Option<f64>,
    /// The first of the ranking over the second; absent without a test.
    pub lead: Option<Contrast>,
    /// Trials that were left out.
    pub left_out: LeftOut,
}

/// A path in the ranking of a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct RankedPath {
    /// The path that was asked for.
    pub path: IoPath,
    /// Its replicates in numbers.
    pub summary: Summary,
    /// The p-value of the difference from the first of the ranking, corrected like the cell's; absent for the
    /// first itself and without a test.
    pub p: Option<f64>,
    /// True if an unproven trial of it competes.
    pub marked: bool,
}

/// What a cell decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The first of the ranking is best.
    Winner,
    /// The first does not differ significantly from another: p > [`LEVEL`].
    Tie,
    /// Only one path was measured.
    Alone,
    /// One of the two best has a single replicate (or, by blocks, they share fewer than two): no test
    /// decides.
    Undecided,
    /// Nothing was measured.
    Empty,
}

/// How far the best path is from the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distance {
    /// Best mean less the next, in the metric's unit.
    pub absolute: f64,
    /// The same over the next mean; absent if that is zero.
    pub relative: Option<f64>,
}

impl MapCell {
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

    /// How far the best path is from the next; absent if there are not two.
    pub fn distance(&self) -> Option<Distance> {
        let [best, next, ..] = self.ranking.as_slice() else { return None };
        let absolute = best.summary.mean - next.summary.mean;
        let relative = Some(absolute / next.summary.mean).filter(|relative| relative.is_finite());
        Some(Distance { absolute, relative })
    }

    /// The paths of a tie: the best, and those that do not differ significantly from it. Empty without a tie.
    pub fn tied(&self) -> Vec<&RankedPath> {
        if self.decision() != Decision::Tie {
            return Vec::new();
        }
        let rest = self.ranking[1..].iter().filter(|place| place.p.is_some_and(|p| p > LEVEL));
        self.ranking.iter().take(1).chain(rest).collect()
    }

    /// Corrects the cell's p-value, and those of its paths in proportion.
    fn correct(&mut self, corrected: f64) {
        let factor = self.p.filter(|p| *p > 0.0).map_or(1.0, |p| corrected / p);
        self.p = Some(corrected);
        for place in &mut self.ranking {
            place.p = place.p.map(|p| (p * factor).min(1.0));
        }
    }
}

/// Trials that were left out, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Trials that do not compete.
    #[serde(flatten)]
    pub barred: BarredCounts,
    /// Trials that lack the metric.
    pub unmeasured: usize,
    /// Trials that the meter did not cover.
    pub energy_incomplete: usize,
    /// In a test by blocks, trials of the best path or of the one least distinct from it whose block lacks
    /// the other path.
    pub unpaired: usize,
}

impl LeftOut {
    /// All of them.
    pub fn total(&self) -> usize {
        self.barred.total() + self.unmeasured + self.energy_incomplete + self.unpaired
    }
}

impl AddAssign for LeftOut {
    fn add_assign(&mut self, other: LeftOut) {
        self.barred += other.barred;
        self.unmeasured += other.unmeasured;
        self.energy_incomplete += other.energy_incomplete;
        self.unpaired += other.unpaired;
    }
}

impl WinnerMap {
    /// Trials of all cells that were left out.
    pub fn left_out(&self) -> LeftOut {
        let mut sum = LeftOut::default();
        self.cells.values().for_each(|cell| sum += cell.left_out);
        sum
    }

    /// True if the trial belongs to one of its cells.
    pub fn has(&self, trial: &Trial) -> bool {
        let mut workload = trial.workload.clone();
        self.question.x.clear(&mut workload);
        self.question.y.clear(&mut workload);
        self.workload == workload && self.settings == trial.settings && self.generator == trial.generator
    }
}

/// A cell under construction.
#[derive(Default)]
struct Gathered {
    samples: BTreeMap<IoPath, Sample>,
    marked: BTreeSet<IoPath>,
    left_out: LeftOut,
}

/// One map for each combination of everything but the axes, in the order in which these first appear in
/// `trials`.
pub fn winner_maps(trials: &[Trial], question: &WinnerQuestion) -> Vec<WinnerMap> {
    let source = question.metric.is_energy().then(|| EnergySource::measured(&[trials])).flatten();
    maps_by(trials, question, source.as_ref())
}

/// The same with this meter and scope.
pub(super) fn maps_by(
    trials: &[Trial],
    question: &WinnerQuestion,
    source: Option<&EnergySource>,
) -> Vec<WinnerMap> {
    let mut maps: Vec<(WinnerMap, ByPlace<Gathered>)> = Vec::new();
    for trial in trials {
        let place = maps.iter().position(|(map, _)| map.has(trial)).unwrap_or_else(|| {
            let mut workload = trial.workload.clone();
            question.x.clear(&mut workload);
            question.y.clear(&mut workload);
            let (settings, generator) = (trial.settings.clone(), trial.generator);
            let (question, source) = (*question, source.cloned());
            let map = WinnerMap { question, workload, settings, generator, source, cells: BTreeMap::new() };
            maps.push((map, BTreeMap::new()));
            maps.len() - 1
        });
        let at = (question.y.value(&trial.workload), question.x.value(&trial.workload));
        gather(maps[place].1.entry(at).or_default(), trial, question, source);
    }
    // The family is every cell that has two paths, on any map, so another choice of axes does not change it.
    let family =
        maps.iter().flat_map(|(_, cells)| cells.values()).filter(|cell| cell.samples.len() > 1).count();
    let mut maps: Vec<WinnerMap> =
        maps.into_iter().map(|(map, gathered)| finish(map, gathered, family)).collect();
    if !question.is_plain() {
        correct(maps.iter_mut().flat_map(|map| map.cells.values_mut()));
    }
    maps
}

fn gather(cell: &mut Gathered, trial: &Trial, question: &WinnerQuestion, source: Option<&EnergySource>) {
    match question.admission.admit(trial) {
        Err(why) => cell.left_out.barred.add(why),
        Ok(measurement) => {
            if let Some(value) = question.metric.value(measurement, source) {
                cell.samples.entry(trial.path).or_default().push((trial.replicate, value));
                cell.marked.extend(question.admission.is_marked(measurement).then_some(trial.path));
            } else if source.is_some_and(|source| source.lack(measurement).is_some()) {
                cell.left_out.energy_incomplete += 1;
            } else {
                cell.left_out.unmeasured += 1;
            }
        }
    }
}

fn finish(mut map: WinnerMap, gathered: ByPlace<Gathered>, family: usize) -> WinnerMap {
    let decide = |(at, Gathered { samples, marked, left_out }): (_, Gathered)| {
        let mut cell = rank(samples, &map.question, family);
        cell.left_out += left_out;
        cell.ranking.iter_mut().for_each(|place| place.marked = marked.contains(&place.path));
        (at, cell)
    };
    map.cells = gathered.into_iter().map(decide).collect();
    map
}

/// Holm's correction over the cells of a family that were tested.
pub fn correct<'c>(cells: impl Iterator<Item = &'c mut MapCell>) {
    let tested: Vec<&mut MapCell> = cells.filter(|cell| cell.p.is_some()).collect();
    let p: Vec<f64> = tested.iter().filter_map(|cell| cell.p).collect();
    tested.into_iter().zip(holm(&p)).for_each(|(cell, corrected)| cell.correct(corrected));
}

/// The cell of these samples, one of a family of this many, by the question's metric and test, not corrected.
/// A sample that is empty or has a value that is not finite is skipped.
pub fn rank(samples: BTreeMap<IoPath, Sample>, question: &WinnerQuestion, family: usize) -> MapCell {
    let plan = TestPlan { looks: question.looks, ..TestPlan::of(question.metric, question.method, family) };
    let mut ranked: Vec<(IoPath, Sample, Summary, f64)> = samples
        .into_iter()
        .filter_map(|(path, sample)| {
            let values: Vec<f64> = sample.iter().map(|(_, value)| *value).collect();
            let summary = summarize(&values)?;
            let logs = || values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64;
            let worth = if plan.logs { logs() } else { summary.mean };
            Some((path, sample, summary, worth))
        })
        .collect();
    ranked.sort_by(|(.., a), (.., b)| {
        let ascending = a.total_cmp(b);
        if question.metric.more_is_better() { ascending.reverse() } else { ascending }
    });
    let p_of = |(_, other, ..): &(IoPath, Sample, Summary, f64)| {
        let (p, sign) = plan.test(&ranked[0].1, other)?;
        // The shared blocks may rank the two in the opposite order from all replicates. That is no evidence
        // for the best.
        let favours_best = (sign > 0.0) == question.metric.more_is_better();
        Some(if question.method != Method::Paired || favours_best { p } else { 1.0 })
    };
    let p: Vec<Option<f64>> = ranked.iter().skip(1).map(p_of).collect();
    let lead = ranked.get(1).and_then(|(_, next, ..)| plan.contrast(&ranked[0].1, next));
    // The path whose p-value is the cell's: one that cannot be tested prevents a winner as well.
    let rival = if question.is_plain() {
        0
    } else {
        (0..p.len()).max_by(|a, b| p_rank(p[*a]).total_cmp(&p_rank(p[*b]))).unwrap_or(0)
    };
    let mut left_out = LeftOut::default();
    if let (Some((_, best, ..)), Some((_, other, ..)), Method::Paired) =
        (ranked.first(), ranked.get(rival + 1), question.method)
    {
        left_out.unpaired = best.len() + other.len() - 2 * super::contrast::pairs(best, other).len();
    }
    let cell_p = p.get(rival).copied().flatten();
    let p = std::iter::once(None).chain(p);
    let place = |((path, _, summary, _), p)| RankedPath { path, summary, p, marked: false };
    MapCell { ranking: ranked.into_iter().zip(p).map(place).collect(), p: cell_p, lead, left_out }
}

/// A missing p-value sorts after every p-value.
fn p_rank(p: Option<f64>) -> f64 {
    p.unwrap_or(2.0)
}
