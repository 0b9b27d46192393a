//! Comparison of two stores, or of two sides of one: what got better or worse beyond noise, cell by cell.
//!
//! Callers read the stores and show the result.

mod cell;
mod gate;
mod near;
mod sides;
mod split;

pub use cell::{ComparedCell, IgnoreError};
pub use gate::{Gate, GateError, NothingCompared, gate};
pub use near::NearCells;
pub use sides::{Side, SideDifference};
pub use split::{SplitBy, SplitError};

use crate::admission::Admission;
use crate::answer::{Answer, More};
use crate::contrast::{Contrast, Sample, TestPlan, in_blocks, pairs, tolerance_of};
use crate::figure::FigureName;
use crate::grouping::grouped;
use crate::metric::Metric;
use crate::stats::{Method, Ratio, holm_over_tested};
use cell::{check_apart, check_known, ignored_differences};
use iopj_record::{EnergySource, Measurement, StudyRecord, Trial};
use near::near;
use serde::{Serialize, Serializer};
use sides::{differing_facts, differing_settings, side};
use split::{SplitKey, SplitTrials, split};
use std::cmp::Ordering;
use std::collections::{HashMap, VecDeque};

/// The metrics that are compared: of emulated stores those that are not times.
pub const METRICS: [Metric; 5] =
    [Metric::Iops, Metric::LatencyMean, Metric::LatencyP99, Metric::CpuPercent, Metric::ContextSwitchesPerIo];
/// Further ones if a store is emulated.
const COUNTS: [Metric; 1] = [Metric::InterruptsPerIo];
/// Further ones if both stores have costs of one source.
const COSTS: [Metric; 3] = [Metric::Instructions(None), Metric::Loads(None), Metric::Stores(None)];
/// Further ones if both stores have energy of one meter and scope, and neither is emulated.
const ENERGY: [Metric; 2] = [Metric::Watts, Metric::IosPerJoule];
/// Further ones if a cell has a co-runner on both sides, and neither store is emulated.
const CORUNNER: [Metric; 2] = [Metric::CorunnerPerS, Metric::CorunnerLossPerIo];
/// Further ones, the first of all, if a cell is of a program on both sides.
const FIGURES: [Metric; 2] = [Metric::Figure, Metric::FigurePerCpu];
/// Of these, one if both stores have energy too.
const FIGURE_ENERGY: [Metric; 1] = [Metric::FigurePerJoule];
/// Of the co-runner's, one if both stores have energy too.
const CORUNNER_ENERGY: [Metric; 1] = [Metric::CorunnerPerJoule];

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The first store or side.
    pub before: Side,
    /// The second store or side.
    pub after: Side,
    /// What distinguishes the sides of one store; absent for two stores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<SplitBy>,
    /// The test: within blocks for sides of one study, whose blocks have both; Welch's for two stores, and
    /// for a study that was not run in blocks.
    pub in_blocks: bool,
    /// The number of looks that decided how many replicates there are; for two stores, of pairs of their
    /// looks: each p-value is multiplied by it.
    pub looks: u32,
    /// The share of the mean before within which two means are equal: the studies' own `until` or else 0.05,
    /// the smaller one.
    pub tolerance: f64,
    /// Trials whose block lacks the other side's; they are left out of a comparison in blocks.
    pub unpaired: usize,
    /// The differences between the sides as wholes.
    pub differences: Vec<SideDifference>,
    /// The meter and scope by which energy is compared; absent if the stores have none in common.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy: Option<EnergySource>,
    /// What the program calls its figure; absent unless one did the I/O on both sides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub figure: Option<FigureName>,
    /// What is compared.
    #[serde(serialize_with = "words")]
    pub metrics: Vec<Metric>,
    /// Every metric of every cell that both have: decided changes first, then equal means, then by size.
    pub changes: Vec<Change>,
    /// Keys without which cells were matched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
    /// Cells that only the first has.
    pub only_before: Vec<ComparedCell>,
    /// Cells that only the second has.
    pub only_after: Vec<ComparedCell>,
    /// Of these, pairs that are the same but for a few keys.
    pub near: Vec<NearCells>,
}

/// One metric of one cell, before and after.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The cell.
    pub cell: ComparedCell,
    /// The metric.
    #[serde(serialize_with = "word")]
    pub metric: Metric,
    /// Replicates and their mean before; absent without a trial that competes.
    pub before: Option<SampleMean>,
    /// The same after.
    pub after: Option<SampleMean>,
    /// Mean after over mean before, for percentiles of geometric means; absent if the latter is 0.
    pub ratio: Option<f64>,
    /// 95 % interval of the ratio; absent for one replicate, or if it has no bounds.
    pub interval: Option<(f64, f64)>,
    /// The least change, as a share, that would have been seen four times out of five; absent if the p-value
    /// is.
    pub least: Option<f64>,
    /// About how many more replicates of both would decide what is undecided; absent if nothing is, if they
    /// are too many to say, or without a test.
    #[serde(rename = "more_replicates")]
    pub more: Option<u32>,
    /// True if an unproven trial is among them.
    pub marked: bool,
    /// Two-sided p-value of the test, Welch's or within blocks, for all looks; absent for one replicate.
    pub p: Option<f64>,
    /// The same after Holm's correction over all tests of the comparison.
    pub p_holm: Option<f64>,
    /// p-value of the two being equal within the tolerance, for all looks and after Holm's correction over
    /// all such tests of the comparison.
    pub equal: Option<f64>,
    /// The conclusion.
    pub outcome: ChangeOutcome,
}

/// The mean over replicates.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SampleMean {
    /// Replicates.
    pub n: usize,
    /// Their mean, in the metric's unit (latencies in ns).
    pub mean: f64,
}

/// The conclusion from a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeOutcome {
    /// Worse beyond noise.
    Worse,
    /// Better beyond noise.
    Better,
    /// Neither, and equivalent within the tolerance.
    Equal,
    /// None of these: there are too few replicates, or one.
    Undecided,
    /// The trials of one side lack the metric, or were all refuted or failed.
    NotMeasured,
}

impl ChangeOutcome {
    /// The outcome in words.
    pub fn as_str(self) -> &'static str {
        match self {
            ChangeOutcome::Worse => "worse",
            ChangeOutcome::Better => "better",
            ChangeOutcome::Equal => "equal",
            ChangeOutcome::Undecided => "undecided",
            ChangeOutcome::NotMeasured => "not measured",
        }
    }
}

/// Compares the trials of `after` with those of `before`. Trials that do not compete are counted and left
/// out. A setting that has one value throughout each store, but not the same one, is a difference between the
/// stores and does not separate cells; neither do the keys in `ignored`.
pub fn compare(
    before: (&StudyRecord, &[Trial]),
    after: (&StudyRecord, &[Trial]),
    ignored: &[String],
    admission: Admission,
) -> Result<Comparison, IgnoreError> {
    compare_sides(before, after, (None, ignored, admission))
}

/// Compares trials of one store with others of the same store: those of one path, generator, `rw`, `bs`,
/// `iodepth`, `numjobs` or setting with those of another. `by` is `KEY=BEFORE,AFTER`, or `KEY` if the trials
/// have two values of it. Blocks have both sides, so the test is of the differences within them; an imported
/// study has no blocks.
pub fn compare_within(
    study: &StudyRecord,
    trials: Vec<Trial>,
    by: &str,
    ignored: &[String],
    admission: Admission,
) -> Result<Comparison, SplitError> {
    let SplitTrials { by, key, before, after } = split(trials, by)?;
    let how = (Some(&key), ignored, admission);
    let mut comparison = compare_sides((study, &before), (study, &after), how)?;
    if !matches!(key, SplitKey::Setting(_)) {
        let (before, after) = (Some(by.before.clone()), Some(by.after.clone()));
        comparison.differences.insert(0, SideDifference { name: by.key.clone(), before, after });
    }
    comparison.by = Some(by);
    Ok(comparison)
}

fn compare_sides(
    before: (&StudyRecord, &[Trial]),
    after: (&StudyRecord, &[Trial]),
    (key, ignored, admission): (Option<&SplitKey>, &[String], Admission),
) -> Result<Comparison, IgnoreError> {
    let apart = differing_settings(before.1, after.1);
    let without: Vec<&str> = apart.iter().map(|difference| difference.name.as_str()).collect();
    let admissions = [before.0, after.0].map(|study| admission.of(study));
    let mut differences = differing_facts(before.0, after.0);
    differences.extend(ignored_differences(ignored, [before.1, after.1]));
    let (old, new) = (cells(before.1, &without, admissions[0]), cells(after.1, &without, admissions[1]));
    check_known(ignored, &without, old.iter().chain(&new).map(|(cell, _)| cell))?;
    check_apart(ignored, "before", old.iter().map(|(cell, _)| cell))?;
    check_apart(ignored, "after", new.iter().map(|(cell, _)| cell))?;
    let (mut pairs, only_before, only_after) = matched(old, new, key, ignored);
    let in_blocks = key.is_some() && in_blocks(before.0);
    // Either store may have ended at any of its looks.
    let looks =
        if key.is_some() { before.0.looks() } else { before.0.looks().saturating_mul(after.0.looks()) };
    let tolerance = tolerance_of(before.0).min(tolerance_of(after.0));
    let unpaired = if in_blocks { pairs.iter_mut().map(keep_shared_blocks).sum() } else { 0 };
    differences.extend(apart.into_iter().filter(|one| !ignored.contains(&one.name)));
    let energy = EnergySource::measured(&[before.1, after.1]);
    let (before, after) = (side(before, admissions[0]), side(after, admissions[1]));
    let energy = energy.filter(|_| before.emulated.is_none() && after.emulated.is_none());
    let mut metrics = metrics(&before, &after, energy.is_some());
    if before.emulated.is_none() && after.emulated.is_none() && pairs.iter().any(have_corunner) {
        metrics.extend(CORUNNER);
        metrics.extend(CORUNNER_ENERGY.iter().filter(|_| energy.is_some()));
    }
    let is_timed = before.emulated.is_none() && after.emulated.is_none();
    let figure = pairs.iter().find_map(figure_of).filter(|_| is_timed);
    if figure.is_some() {
        let of_energy = FIGURE_ENERGY.iter().filter(|_| energy.is_some());
        metrics = FIGURES.iter().chain(of_energy).copied().chain(metrics).collect();
    }
    let method = if in_blocks { Method::Paired } else { Method::Welch };
    let changes = changes(&pairs, &metrics, (method, looks, tolerance, energy.as_ref(), admissions));
    Ok(Comparison {
        before,
        after,
        by: None,
        in_blocks,
        looks,
        tolerance,
        unpaired,
        differences,
        energy,
        figure,
        metrics,
        changes,
        ignored: ignored.to_vec(),
        near: near(&only_before, &only_after),
        only_before,
        only_after,
    })
}

/// The cells that both sides have, with the trials of both, and those that one has.
fn matched<'a>(
    old: Vec<(ComparedCell, Vec<Replicate<'a>>)>,
    new: Vec<(ComparedCell, Vec<Replicate<'a>>)>,
    key: Option<&SplitKey>,
    ignored: &[String],
) -> (Vec<Pair<'a>>, Vec<ComparedCell>, Vec<ComparedCell>) {
    let common = |cell: &ComparedCell| {
        cell.without(key.into_iter().map(SplitKey::name).chain(ignored.iter().map(String::as_str)))
    };
    let (mut pairs, mut only_before) = (Vec::new(), Vec::new());
    let mut places = HashMap::<ComparedCell, VecDeque<usize>>::new();
    for (place, (cell, _)) in new.iter().enumerate() {
        places.entry(common(cell)).or_default().push_back(place);
    }
    let mut new: Vec<Option<(ComparedCell, Vec<Replicate<'a>>)>> = new.into_iter().map(Some).collect();
    for (cell, values) in old {
        let place = places.get_mut(&common(&cell)).and_then(VecDeque::pop_front);
        match place.and_then(|place| new[place].take()) {
            Some((_, others)) => pairs.push((cell, values, others)),
            None => only_before.push(cell),
        }
    }
    let mut only_after: Vec<ComparedCell> = new.into_iter().flatten().map(|(cell, _)| cell).collect();
    let order = |a: &ComparedCell, b: &ComparedCell| {
        a.path.cmp(&b.path).then_with(|| a.workload.title().cmp(&b.workload.title()))
    };
    only_before.sort_by(order);
    only_after.sort_by(order);
    (pairs, only_before, only_after)
}

/// Keeps the replicates that both sides of a pair have; returns the number of trials left out.
fn keep_shared_blocks((_, before, after): &mut Pair<'_>) -> usize {
    let count = before.len() + after.len();
    let of_both =
        |one: &(u32, &Measurement), others: &[Replicate<'_>]| others.iter().any(|other| other.0 == one.0);
    before.retain(|one| of_both(one, after));
    after.retain(|one| of_both(one, before));
    count - before.len() - after.len()
}

/// The figure of a cell whose trials are a program's on both sides.
fn figure_of((_, before, after): &Pair<'_>) -> Option<FigureName> {
    let of = |side: &[Replicate<'_>]| side.iter().find_map(|(_, measured)| FigureName::of_one(measured));
    of(before).filter(|figure| of(after).as_ref() == Some(figure))
}

/// True if both sides of a cell had a co-runner.
fn have_corunner((_, before, after): &Pair<'_>) -> bool {
    [before, after].iter().all(|side| side.iter().any(|(_, measured)| measured.corunner.is_some()))
}

/// The metrics in which both sides can be compared.
fn metrics(before: &Side, after: &Side, with_energy: bool) -> Vec<Metric> {
    let mut metrics = METRICS.to_vec();
    if before.emulated.is_some() || after.emulated.is_some() {
        metrics.retain(|metric| !metric.is_time());
        metrics.extend(COUNTS);
    }
    if before.costs.is_some() && before.costs == after.costs {
        metrics.extend(COSTS);
    }
    if with_energy {
        metrics.extend(ENERGY);
    }
    metrics
}

fn words<S: Serializer>(metrics: &[Metric], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(metrics.iter().map(|metric| metric.as_str()))
}

fn word<S: Serializer>(metric: &Metric, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(metric)
}

/// A trial that competes, with its replicate.
type Replicate<'a> = (u32, &'a Measurement);

/// The cells with their competing trials.
fn cells<'a>(
    trials: &'a [Trial],
    without: &[&str],
    admission: Admission,
) -> Vec<(ComparedCell, Vec<Replicate<'a>>)> {
    let keyed = trials.iter().map(|trial| {
        let mut cell = ComparedCell::of(trial);
        cell.settings.retain(|name, _| !without.contains(&name.as_str()));
        (cell, admission.admit(trial).ok().map(|measurement| (trial.replicate, measurement)))
    });
    grouped(keyed).into_iter().map(|(cell, all)| (cell, all.into_iter().flatten().collect())).collect()
}

type Pair<'a> = (ComparedCell, Vec<Replicate<'a>>, Vec<Replicate<'a>>);

/// The test, its looks and its tolerance, the source of energy, and which trials compete on either side.
type How<'a> = (Method, u32, f64, Option<&'a EnergySource>, [Admission; 2]);

fn changes(
    pairs: &[Pair<'_>],
    metrics: &[Metric],
    (method, looks, tolerance, source, admissions): How<'_>,
) -> Vec<Change> {
    let family = pairs.len() * metrics.len();
    let plan = |metric: &Metric| TestPlan { looks, tolerance, ..TestPlan::of(*metric, method, family) };
    let change = |pair, metric: &Metric| change(pair, *metric, (plan(metric), source, admissions));
    let (mut changes, contrasts): (Vec<Change>, Vec<Option<Contrast>>) =
        pairs.iter().flat_map(|pair| metrics.iter().map(move |metric| change(pair, metric))).unzip();
    let holm = |p: fn(&Contrast) -> Option<f64>| {
        holm_over_tested(&contrasts.iter().map(|contrast| p(contrast.as_ref()?)).collect::<Vec<_>>())
    };
    let (differ, equal) = (holm(|contrast| Some(contrast.p)), holm(|contrast| contrast.equal));
    for (((change, contrast), p), equal) in changes.iter_mut().zip(&contrasts).zip(differ).zip(equal) {
        (change.p_holm, change.equal) = (p, equal);
        change.decide(Answer::of(contrast.as_ref(), p, equal));
    }
    changes.sort_by(|a, b| {
        a.rank().cmp(&b.rank()).then_with(|| b.size().total_cmp(&a.size())).then_with(|| order(a, b))
    });
    changes
}

fn order(a: &Change, b: &Change) -> Ordering {
    a.cell.path.cmp(&b.cell.path).then_with(|| a.metric.cmp(&b.metric))
}

/// The change without a conclusion, and the test.
fn change(
    (cell, before, after): &Pair<'_>,
    metric: Metric,
    (plan, source, admissions): (TestPlan, Option<&EnergySource>, [Admission; 2]),
) -> (Change, Option<Contrast>) {
    let sample = |trials: &[Replicate<'_>]| -> Sample {
        trials.iter().filter_map(|(block, trial)| Some((*block, metric.value(trial, source)?))).collect()
    };
    let (mut old, mut new) = (sample(before), sample(after));
    if plan.method == Method::Paired {
        // A block in which one side lacks the metric is left out.
        let both: Vec<(f64, f64)> = pairs(&old, &new);
        (old, new) = (0..).zip(both).map(|(block, (old, new))| ((block, old), (block, new))).unzip();
    }
    let mean = |sample: &Sample| {
        let n = sample.len();
        (n > 0).then(|| SampleMean { n, mean: sample.iter().map(|(_, value)| value).sum::<f64>() / n as f64 })
    };
    let contrast = plan.contrast(&new, &old);
    let (before_mean, after_mean) = (mean(&old), mean(&new));
    let plain = before_mean.zip(after_mean).map(|(before, after)| after.mean / before.mean);
    let ratio = contrast.and_then(|contrast| contrast.ratio);
    let change = Change {
        cell: cell.clone(),
        metric,
        before: before_mean,
        after: after_mean,
        ratio: ratio.map(|ratio| ratio.ratio).or(plain).filter(|ratio| ratio.is_finite()),
        interval: ratio.map(|Ratio { low, high, .. }| (low, high)),
        least: contrast.and_then(|contrast: Contrast| contrast.least()),
        more: None,
        marked: [before, after]
            .into_iter()
            .zip(admissions)
            .any(|(all, one)| all.iter().any(|(_, m)| one.is_marked(m))),
        p: contrast.map(|contrast| contrast.p),
        p_holm: None,
        equal: None,
        outcome: ChangeOutcome::NotMeasured,
    };
    (change, contrast)
}

impl Change {
    fn decide(&mut self, answer: Answer) {
        let (Some(before), Some(after)) = (self.before, self.after) else { return };
        let rose = self.ratio.map_or(after.mean > before.mean, |ratio| ratio > 1.0);
        self.outcome = match answer {
            Answer::Differs if rose == self.metric.more_is_better() => ChangeOutcome::Better,
            Answer::Differs => ChangeOutcome::Worse,
            Answer::Equal => ChangeOutcome::Equal,
            Answer::Undecided(open) => {
                if let More::Replicates(more) = open.more {
                    self.more = Some(more);
                }
                ChangeOutcome::Undecided
            }
        };
    }

    /// Decided changes first, then equal means, then what is undecided.
    fn rank(&self) -> u8 {
        match self.outcome {
            ChangeOutcome::Worse | ChangeOutcome::Better => 0,
            ChangeOutcome::Equal => 1,
            ChangeOutcome::Undecided => 2,
            ChangeOutcome::NotMeasured => 3,
        }
    }

    /// Halving counts as much as doubling.
    fn size(&self) -> f64 {
        match (self.ratio, self.before.zip(self.after)) {
            (Some(ratio), _) => ratio.ln().abs(),
            (None, Some((before, after))) if before.mean != after.mean => f64::INFINITY,
            _ => 0.0,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
