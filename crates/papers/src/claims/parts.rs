//! Parts of claims other than one comparison of two cells: those that hold under some workload or in most
//! cells, and those about figures of several cells.

use super::comparison::{Comparison, Relation, Test, answer, held};
use super::data::{ClaimCell, Shape};
use super::metrics::ClaimMetric;
use super::{Answer, ClaimFigure, Effect, Part};
use iopj_analysis::contrast::{Sample, TestPlan};
use iopj_analysis::grouping::unique;
use iopj_analysis::stats::LEVEL;
use iopj_core::IoPath;

/// A part that holds if all comparisons do under at least one workload.
pub(super) struct SomeWorkload<'a> {
    /// What is claimed.
    pub(super) text: String,
    /// The comparisons under each workload; not empty.
    pub(super) workloads: Vec<(Shape, Vec<Comparison<'a>>)>,
}

impl<'a> SomeWorkload<'a> {
    pub(super) fn comparisons(&self) -> impl Iterator<Item = &Comparison<'a>> {
        self.workloads.iter().flat_map(|(_, comparisons)| comparisons)
    }

    /// The workloads that have everything needed.
    fn complete(&self, replicates: usize) -> impl Iterator<Item = &(Shape, Vec<Comparison<'a>>)> {
        self.workloads.iter().filter(move |(_, all)| all.iter().all(|one| one.missing(replicates).is_empty()))
    }

    /// What the first workload lacks, if none has everything.
    pub(super) fn missing(&self, replicates: usize) -> Vec<String> {
        if self.complete(replicates).next().is_some() {
            return Vec::new();
        }
        let first = self.workloads.iter().take(1).flat_map(|(_, all)| all);
        unique(first.flat_map(|one| one.missing(replicates)))
    }

    /// A test for each complete workload.
    pub(super) fn tests(&self, replicates: usize, family: usize) -> Vec<Test> {
        self.complete(replicates).map(|(_, all)| all_hold(all, family)).collect()
    }

    /// The part, with the figures of the workload that supports it most. `tested` are its tests after Holm's
    /// correction.
    pub(super) fn part(self, tested: &[Test], replicates: usize) -> Part {
        let missing = self.missing(replicates);
        let all: Vec<&(Shape, Vec<Comparison<'a>>)> = self.complete(replicates).collect();
        let rank = |test: &Test| test.map_or(2.0, |(p, holds)| if holds { p } else { 2.0 - p });
        let best = (0..all.len()).min_by(|a, b| rank(&tested[*a]).total_cmp(&rank(&tested[*b])));
        let (at, figures, p) = match best {
            Some(best) => {
                let (shape, comparisons) = all[best];
                let figures = comparisons.iter().flat_map(Comparison::figures).collect();
                (shape.to_string(), figures, tested[best].map(|(p, _)| p))
            }
            None => (String::new(), Vec::new(), None),
        };
        let sure = |test: &Test, holding: bool| test.is_some_and(|(p, holds)| holds == holding && p < LEVEL);
        let answer = if !missing.is_empty() {
            Answer::NotMeasured(missing)
        } else if tested.iter().any(|test| sure(test, true)) {
            Answer::Holds
        } else if tested.iter().all(|test| sure(test, false)) {
            Answer::DoesNotHold
        } else {
            Answer::Undecided(format!("shown under none of {} workloads after Holm's correction", all.len()))
        };
        Part::new(self.text, at, answer, figures, p)
    }
}

/// A figure derived from several cells, block by block, claimed to be less or more than another.
pub(super) struct DerivedFigures<'a> {
    /// What is claimed.
    pub(super) text: String,
    /// The workload.
    pub(super) at: String,
    /// Less or more.
    pub(super) relation: Relation,
    /// How the two are compared, except for the family.
    pub(super) plan: TestPlan,
    /// Its values, and those with which it is compared.
    pub(super) samples: [Sample; 2],
    /// The figures' names, and the paper's figures.
    pub(super) names: [(String, Option<f64>); 2],
    pub(super) unit: &'static str,
    /// The cells from which they are derived.
    pub(super) cells: Vec<ClaimCell<'a>>,
    /// What the cells lack.
    pub(super) missing: Vec<String>,
}

impl DerivedFigures<'_> {
    /// The test, as of a comparison; only if nothing is missing.
    pub(super) fn test(&self, family: usize) -> Test {
        held(self.relation, TestPlan { family, ..self.plan }, &self.samples[0], &self.samples[1])
    }

    /// `tested` is its test after Holm's correction over a family of this many.
    pub(super) fn part(self, tested: Test, family: usize) -> Part {
        let plan = TestPlan { family, ..self.plan };
        let effect = plan.contrast(&self.samples[0], &self.samples[1]).map(|one| Effect::of(&one));
        let figure = |(sample, (of, published)): (Sample, (String, Option<f64>))| {
            let values: Vec<f64> = sample.into_iter().map(|(_, value)| value).collect();
            ClaimFigure::of(of, self.unit, &values, published)
        };
        let figures = self.samples.into_iter().zip(self.names).map(figure).collect();
        let answer = match self.missing.is_empty() {
            true => answer(self.relation, tested),
            false => Answer::NotMeasured(self.missing),
        };
        let p = tested.map(|(p, _)| p);
        Part { effect, ..Part::new(self.text, self.at, answer, figures, p) }
    }
}

/// A part that is claimed generally: it holds in more than half of the cells that are decided. A cell is
/// decided if its test is, after Holm's correction; the share is printed.
pub(super) struct MostCells<'a> {
    /// What is claimed of each cell.
    pub(super) text: String,
    /// The cells.
    pub(super) each: Vec<Each<'a>>,
}

/// A cell of a general claim.
pub(super) struct Each<'a> {
    /// The claim is that all of these hold.
    pub(super) all: Vec<Comparison<'a>>,
}

impl<'a> MostCells<'a> {
    pub(super) fn cells(&self) -> impl Iterator<Item = &ClaimCell<'a>> {
        self.each.iter().flat_map(|each| &each.all).flat_map(Comparison::cells)
    }

    /// A test for each cell: as certain as the least certain comparison if all hold; if not, as the most
    /// certain of the contrary ones, corrected for their number.
    pub(super) fn tests(&self, family: usize) -> Vec<Test> {
        self.each.iter().map(|each| all_hold(&each.all, family)).collect()
    }

    /// `tested` are its tests after Holm's correction.
    pub(super) fn part(self, tested: &[Test]) -> Part {
        let sure = |holding: bool| {
            let sure = |test: &&Test| test.is_some_and(|(p, holds)| holds == holding && p < LEVEL);
            tested.iter().filter(sure).count()
        };
        let (with, against) = (sure(true), sure(false));
        let decided = with + against;
        let answer = match decided {
            0 => Answer::Undecided(format!("none of {} cells is decided", tested.len())),
            _ if 2 * with > decided => Answer::Holds,
            _ => Answer::DoesNotHold,
        };
        let share = 100.0 * with as f64 / decided.max(1) as f64;
        let figure = |of: &str, unit, value: f64| ClaimFigure::of(of.to_owned(), unit, &[value], None);
        let mut figures =
            vec![figure("for", "cells for", with as f64), figure("decided", "decided", decided as f64)];
        figures.extend((decided > 0).then(|| figure("share", "%", share)));
        let text = format!("{}, in more than half of the decided cells", self.text);
        Part::new(text, format!("{} cells", tested.len()), answer, figures, None)
    }
}

/// That all comparisons hold is as likely to be an error as the least certain of them; that they do not all
/// hold is as certain as the most certain one that does not, after Bonferroni's correction over those that do
/// not.
fn all_hold(comparisons: &[Comparison<'_>], family: usize) -> Test {
    let tests: Option<Vec<(f64, bool)>> = comparisons.iter().map(|one| one.test(family)).collect();
    let tests = tests?;
    let contrary: Vec<f64> = tests.iter().filter(|(_, holds)| !holds).map(|(p, _)| *p).collect();
    let against = contrary.iter().copied().reduce(f64::min).map(|p| (p * contrary.len() as f64).min(1.0));
    let all_hold = tests.iter().map(|(p, _)| *p).fold(0.0, f64::max);
    Some(against.map_or((all_hold, true), |p| (p, false)))
}

/// The cell with the greatest mean, of those whose path fits and that have the figure.
pub(super) fn greatest<'a, 'c>(
    cells: &'c [ClaimCell<'a>],
    metric: ClaimMetric,
    fits: impl Fn(&IoPath) -> bool,
) -> Option<&'c ClaimCell<'a>> {
    ranked(cells, metric, fits).pop()
}

/// The cells whose path fits and that have the figure, the one of the least mean first.
pub(super) fn ranked<'a, 'c>(
    cells: &'c [ClaimCell<'a>],
    metric: ClaimMetric,
    fits: impl Fn(&IoPath) -> bool,
) -> Vec<&'c ClaimCell<'a>> {
    let with =
        cells.iter().filter(|cell| fits(&cell.path)).filter_map(|cell| Some((cell.mean(metric)?, cell)));
    let mut with: Vec<(f64, &ClaimCell<'a>)> = with.collect();
    with.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    with.into_iter().map(|(_, cell)| cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::ClaimContext;
    use crate::claims::comparison::{Against, Comparison, Relation};
    use crate::claims::data::{Shape, TrialSet};
    use crate::claims::metrics::IOS_PER_JOULE;
    use iopj_core::{Rw, Scope};
    use iopj_record::testing::cells::{Measured, cell, workload};
    use iopj_record::testing::energy::{SECONDS, give};
    use iopj_record::{EnergySource, Trial};

    const RINGS: [&str; 4] = [
        "io_uring/syscall/interrupt",
        "io_uring/syscall/poll",
        "io_uring/sqpoll/interrupt",
        "io_uring/sqpoll/poll",
    ];

    /// Five replicates of a path at about so many I/Os per joule, in noise that hides a difference of 10 %.
    fn own_trials(path: &str, ios_per_joule: f64) -> Vec<Trial> {
        let measured = Measured { iops: 1000.0, mean_us: 10.0, ..Measured::default() };
        let mut trials = cell(path, &workload(Rw::Randread, 8), measured, &[0.0; 5]);
        for (trial, share) in trials.iter_mut().zip([-0.4, 0.3, 0.0, 0.4, -0.3]) {
            give(trial, "plug", Scope::System, 1000.0 / ios_per_joule * (1.0 + share) * SECONDS);
        }
        trials
    }

    #[test]
    fn a_cell_speaks_against_a_claim_by_its_contrary_comparisons_after_their_number() {
        let rings = &RINGS;
        let p = |others: usize| {
            let at = |(at, path): (usize, &&str)| own_trials(path, if at == 0 { 20.0 } else { 40.0 });
            let all: Vec<Trial> = rings.iter().take(1 + others).enumerate().flat_map(at).collect();
            let source = EnergySource::measured(&[&all]);
            let machine = ClaimContext { cores: 8, ..ClaimContext::default() };
            let data = TrialSet::of(&all, machine, source.as_ref());
            let shape = Shape { numjobs: 8, ..Shape::of_4k(workload(Rw::Randread, 8).rw) };
            let cell = |path: &str| data[0].cell(path.parse().unwrap(), shape);
            let compared = |other: &&str| Comparison {
                metric: IOS_PER_JOULE,
                cell: cell(rings[0]),
                relation: Relation::More,
                against: Against::Cell(cell(other)),
                published: [None; 2],
            };
            let all = rings[1..=others].iter().map(compared).collect();
            MostCells { text: String::new(), each: vec![Each { all }] }.tests(1)[0].unwrap()
        };
        let (one, three) = (p(1), p(3));
        assert!(!one.1 && !three.1 && one.0 < 0.3, "{one:?} {three:?}");
        assert!((three.0 - (3.0 * one.0).min(1.0)).abs() < 1e-12, "{one:?} {three:?}");
    }
}
