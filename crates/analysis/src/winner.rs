//! Winner maps: for a metric and two axes of the workload, the path that wins in each cell, the paths that
//! are equal, or those among which it is undecided.
//!
//! `admission` says which trials compete; the others are counted. `render` makes text of the maps.

use super::admission::{Admission, BarredCounts};
use super::answer::Open;
pub use super::axis::{Axis, AxisValue, UnknownAxis};
use super::contrast::{Contrast, Sample, TOLERANCE, TestPlan, in_blocks, tolerance_of};
use super::figure::FigureName;
use super::grouping::grouped;
use super::metric::Metric;
use super::stats::{LEVEL, Method, Summary, holm_over_tested, summarize};
use iopj_core::{IoPath, Workload};
use iopj_record::{EnergySource, Generator, Measurement, StudyRecord, Trial};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;

/// What a map answers, and by which rule.
#[derive(Clone, Copy, Debug, PartialEq)]
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
    /// The share of another path's mean within which the best one is equal to it.
    pub tolerance: f64,
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
        let (method, admission) = (Method::Paired, Admission::default());
        Ok(WinnerQuestion { metric, x, y, method, admission, looks: 1, tolerance: TOLERANCE })
    }

    /// The same question by the default rule for the trials of a study: Welch's test if they were not run in
    /// blocks, for all looks that decided how many trials there are, and with the study's tolerance.
    pub fn of(self, study: &StudyRecord) -> WinnerQuestion {
        let method = if in_blocks(study) { Method::Paired } else { Method::Welch };
        WinnerQuestion { method, looks: study.looks(), tolerance: tolerance_of(study), ..self }
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

/// What is compared where no metric is named: I/Os per second or, under emulation, a count that all competing
/// trials have, instructions first.
pub fn default_metric(study: &StudyRecord, trials: &[Trial], admission: Admission) -> Metric {
    if FigureName::of(trials).is_some() {
        return Metric::Figure;
    }
    if study.emulated.is_none() {
        return Metric::Iops;
    }
    let competing: Vec<&Measurement> =
        trials.iter().filter_map(|trial| admission.admit(trial).ok()).collect();
    let all_have = |metric: &Metric| competing.iter().all(|one| metric.value(one, None).is_some());
    let counts = Metric::ALL.into_iter().filter(|metric| !metric.is_time());
    let first = Metric::Instructions(None);
    std::iter::once(first).chain(counts).find(all_have).unwrap_or(first)
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
    /// What the program calls its figure, if one did the I/O.
    pub figure: Option<FigureName>,
    /// The cells by their values down and across. There is no cell without trials.
    pub cells: ByPlace<MapCell>,
}

/// One cell: the paths that were measured under one workload, or whatever else `K` tells apart.
#[derive(Clone, Debug, PartialEq)]
pub struct MapCell<K = IoPath> {
    /// The paths, the best first: by their mean, for percentiles by their geometric mean.
    pub ranking: Vec<RankedPath<K>>,
    /// The p-value of the first compared with the path that is least distinct from it, corrected; by the
    /// papers' rule compared with the second, not corrected. Absent without a test.
    pub p: Option<f64>,
    /// The p-value of the first not being equivalent to a path that does not differ significantly from it:
    /// the greatest, corrected like `p`. 1 if there is no such path, absent without a test.
    pub equal: Option<f64>,
    /// Trials that were left out.
    pub left_out: LeftOut,
}

/// A path in the ranking of a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct RankedPath<K = IoPath> {
    /// The path that was asked for.
    pub path: K,
    /// Its replicates in numbers.
    pub summary: Summary,
    /// The p-value of the difference from the first of the ranking, corrected: like the cell's if the first
    /// wins, else by the number of pairs of paths in all cells. Absent for the first itself and without a
    /// test.
    pub p: Option<f64>,
    /// The first of the ranking over this one; absent for the first itself and without a test.
    pub contrast: Option<Contrast>,
    /// True if an unproven trial of it competes.
    pub marked: bool,
}

/// What a cell decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// The first of the ranking differs significantly from every other path.
    Wins,
    /// Not that, but the first is equivalent to each path that does not differ significantly from it.
    Equal,
    /// Neither, or there is no test.
    Undecided,
    /// Only one path was measured.
    Alone,
    /// Nothing was measured.
    Empty,
}

impl Decision {
    /// The decision's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Decision::Wins => "wins",
            Decision::Equal => "equal",
            Decision::Undecided => "undecided",
            Decision::Alone => "alone",
            Decision::Empty => "empty",
        }
    }
}

/// How far the best path is from the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distance {
    /// Best mean less the next, in the metric's unit.
    pub absolute: f64,
    /// The same over the next mean; absent if that is zero.
    pub relative: Option<f64>,
}

impl<K> Default for MapCell<K> {
    fn default() -> MapCell<K> {
        MapCell { ranking: Vec::new(), p: None, equal: None, left_out: LeftOut::default() }
    }
}

impl<K> MapCell<K> {
    /// What the cell decides.
    pub fn decision(&self) -> Decision {
        match (self.ranking.len(), self.p) {
            (0, _) => Decision::Empty,
            (1, _) => Decision::Alone,
            (_, Some(p)) if p < LEVEL => Decision::Wins,
            _ if self.equal.is_some_and(|p| p < LEVEL) => Decision::Equal,
            _ => Decision::Undecided,
        }
    }

    /// The first of the ranking over the second; absent without a test.
    pub fn lead(&self) -> Option<&Contrast> {
        self.ranking.get(1)?.contrast.as_ref()
    }

    /// The best path and, unless it wins, those that do not differ significantly from it or cannot be tested.
    pub fn best(&self) -> Vec<&RankedPath<K>> {
        let is_decided = self.decision() == Decision::Wins;
        let others = self.ranking.iter().skip(1).filter(|place| !is_decided && !place.differs());
        self.ranking.iter().take(1).chain(others).collect()
    }

    /// In an undecided cell, the path whose difference from the first would take the most to decide, and what
    /// is known about it.
    pub fn open(&self) -> Option<(&RankedPath<K>, Open)> {
        let places = self.best().into_iter().skip(1).rev();
        let open = places.map(|place| (place, Open::of(place.contrast.as_ref())));
        open.max_by_key(|(_, open)| open.more).filter(|_| self.decision() == Decision::Undecided)
    }

    /// How far the best path is from the next; absent if there are not two.
    pub fn distance(&self) -> Option<Distance> {
        let [best, next, ..] = self.ranking.as_slice() else { return None };
        let absolute = best.summary.mean - next.summary.mean;
        let relative = Some(absolute / next.summary.mean).filter(|relative| relative.is_finite());
        Some(Distance { absolute, relative })
    }

    /// Corrects the cell's p-value to this, and those of its paths: if the first wins, in proportion; else by
    /// the number of pairs of paths of the family, because which path is the first is chosen from the data.
    fn correct(&mut self, corrected: Option<f64>, pairs: f64) {
        let factor = match (self.p, corrected) {
            (Some(p), Some(corrected)) if corrected < LEVEL => {
                if p > 0.0 {
                    corrected / p
                } else {
                    1.0
                }
            }
            _ => pairs,
        };
        self.p = corrected;
        for place in &mut self.ranking {
            place.p = place.p.map(|p| (p * factor).min(1.0));
        }
    }

    /// The pairs of paths that might have been the first and another one; 0 without a test.
    fn pairs(&self) -> usize {
        let paths = self.ranking.len();
        let is_tested = self.ranking.iter().any(|place| place.p.is_some());
        if is_tested { paths * (paths - 1) / 2 } else { 0 }
    }

    /// The p-value of `equal` before correction, by the paths that do not differ significantly.
    fn equality(&self) -> Option<f64> {
        let others = self.ranking.get(1..).filter(|others| !others.is_empty())?.iter();
        let alike = others.filter(|place| !place.differs());
        let equal: Option<Vec<f64>> = alike.map(|place| place.contrast?.equal).collect();
        equal.map(|equal| equal.into_iter().reduce(f64::max).unwrap_or(1.0))
    }
}

impl<K> RankedPath<K> {
    /// True if it differs significantly from the first.
    pub fn differs(&self) -> bool {
        self.p.is_some_and(|p| p < LEVEL)
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
    /// Trials of paths that show what choosing is worth (`auto:random`, `auto:WAY`): nobody deploys them.
    pub baselines: usize,
}

impl LeftOut {
    /// All of them.
    pub fn total(&self) -> usize {
        self.barred.total() + self.unmeasured + self.energy_incomplete + self.unpaired + self.baselines
    }
}

impl AddAssign for LeftOut {
    fn add_assign(&mut self, other: LeftOut) {
        self.barred += other.barred;
        self.unmeasured += other.unmeasured;
        self.energy_incomplete += other.energy_incomplete;
        self.unpaired += other.unpaired;
        self.baselines += other.baselines;
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
    let figure = FigureName::of(trials);
    let keyed = trials.iter().map(|trial| {
        let mut workload = trial.workload.clone();
        question.x.clear(&mut workload);
        question.y.clear(&mut workload);
        ((workload, &trial.settings, trial.generator), trial)
    });
    let of_map = |((workload, settings, generator), trials): (_, Vec<&Trial>)| {
        let (source_of_map, figure) = (source.cloned(), figure.clone());
        let map = WinnerMap {
            question: *question,
            workload,
            settings: BTreeMap::clone(settings),
            generator,
            source: source_of_map,
            figure,
            cells: BTreeMap::new(),
        };
        let mut cells = ByPlace::<Gathered>::new();
        for trial in trials {
            let at = (question.y.value(&trial.workload), question.x.value(&trial.workload));
            gather(cells.entry(at).or_default(), trial, question, source);
        }
        (map, cells)
    };
    let maps: Vec<(WinnerMap, ByPlace<Gathered>)> = grouped(keyed).into_iter().map(of_map).collect();
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
        _ if trial.path.is_baseline() => cell.left_out.baselines += 1,
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

/// Holm's correction over the cells of a family that were tested: of the differences, then of the equality of
/// what does not differ, as a family of its own. Where no path wins, what is called worse than the best is
/// corrected by the number of pairs of paths in all these cells (Bonferroni).
pub fn correct<'c, K: 'c>(cells: impl Iterator<Item = &'c mut MapCell<K>>) {
    let mut cells: Vec<&mut MapCell<K>> = cells.collect();
    let p: Vec<Option<f64>> = cells.iter().map(|cell| cell.p).collect();
    let pairs = cells.iter().map(|cell| cell.pairs()).sum::<usize>() as f64;
    for (cell, corrected) in cells.iter_mut().zip(holm_over_tested(&p)) {
        cell.correct(corrected, pairs);
    }
    let equal: Vec<Option<f64>> = cells.iter().map(|cell| cell.equality()).collect();
    for (cell, corrected) in cells.iter_mut().zip(holm_over_tested(&equal)) {
        cell.equal = corrected;
    }
}

/// The cell of these samples, one of a family of this many, by the question's metric and test, not corrected.
/// A sample that is empty or has a value that is not finite is skipped.
pub fn rank<K: Ord>(samples: BTreeMap<K, Sample>, question: &WinnerQuestion, family: usize) -> MapCell<K> {
    let WinnerQuestion { metric, method, looks, tolerance, .. } = *question;
    let plan = TestPlan { looks, tolerance, ..TestPlan::of(metric, method, family) };
    let mut ranked: Vec<(K, Sample, Summary, f64)> = samples
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
        if metric.more_is_better() { ascending.reverse() } else { ascending }
    });
    let contrasts: Vec<Option<Contrast>> =
        ranked.iter().skip(1).map(|(_, other, ..)| plan.contrast(&ranked[0].1, other)).collect();
    let p_of = |Contrast { p, sign, .. }: &Contrast| {
        // The shared blocks may rank the two in the opposite order from all replicates. That is no evidence
        // for the best.
        let favours_best = (*sign > 0.0) == metric.more_is_better();
        if method != Method::Paired || favours_best { *p } else { 1.0 }
    };
    let p: Vec<Option<f64>> = contrasts.iter().map(|one| one.as_ref().map(p_of)).collect();
    // The path whose p-value is the cell's: one that cannot be tested prevents a winner as well.
    let rival = if question.is_plain() {
        0
    } else {
        (0..p.len()).max_by(|a, b| p_rank(p[*a]).total_cmp(&p_rank(p[*b]))).unwrap_or(0)
    };
    let mut left_out = LeftOut::default();
    if let (Some((_, best, ..)), Some((_, other, ..)), Method::Paired) =
        (ranked.first(), ranked.get(rival + 1), method)
    {
        left_out.unpaired = best.len() + other.len() - 2 * super::contrast::pairs(best, other).len();
    }
    let cell_p = p.get(rival).copied().flatten();
    let tested = std::iter::once((None, None)).chain(p.into_iter().zip(contrasts));
    let place =
        |((path, _, summary, _), (p, contrast))| RankedPath { path, summary, p, contrast, marked: false };
    let ranking = ranked.into_iter().zip(tested).map(place).collect();
    let mut cell = MapCell { ranking, p: cell_p, equal: None, left_out };
    cell.equal = cell.equality();
    cell
}

/// A missing p-value sorts after every p-value.
fn p_rank(p: Option<f64>) -> f64 {
    p.unwrap_or(2.0)
}
