//! How a claim's comparison of two figures is decided: a test within blocks or Welch's, or two one-sided
//! tests.

use super::data::{ClaimCell, Shape, TrialSet};
use super::metrics::ClaimMetric;
use super::{Answer, ClaimFigure, Effect};
use iopj_analysis::contrast::{Sample, TestPlan};
use iopj_analysis::grouping::unique;
use iopj_analysis::stats::{LEVEL, Method, equivalent, over, p_statement, ratio_of_means, summarize, t_test};
use iopj_core::IoPath;

/// The claimed relation of a cell's figure to another.
#[derive(Clone, Copy)]
pub(super) enum Relation {
    /// Significantly less.
    Less,
    /// Significantly more.
    More,
    /// Equivalent within this share of the other figure.
    Equal(f64),
    /// At most this share below the other figure: one-sided.
    NotLess(f64),
}

/// The other side of a comparison.
pub(super) enum Against<'a> {
    Cell(ClaimCell<'a>),
    /// A share of another cell's figure.
    Share(f64, ClaimCell<'a>),
    /// Another cell's figure plus this much, in the metric's unit.
    Beyond(f64, ClaimCell<'a>),
    /// A number that is known exactly.
    Number(f64),
}

/// A figure of a cell, compared with another.
pub(super) struct Comparison<'a> {
    pub(super) metric: ClaimMetric,
    pub(super) cell: ClaimCell<'a>,
    pub(super) relation: Relation,
    pub(super) against: Against<'a>,
    /// What the paper prints for the two.
    pub(super) published: [Option<f64>; 2],
}

impl<'a> Comparison<'a> {
    /// A path's figure compared with something for which the paper prints nothing.
    pub(super) fn of(
        data: &TrialSet<'a>,
        metric: ClaimMetric,
        (path, shape): (IoPath, Shape),
        relation: Relation,
        against: Against<'a>,
    ) -> Comparison<'a> {
        Comparison { metric, cell: data.cell(path, shape), relation, against, published: [None; 2] }
    }

    /// A path's figure compared with another path's under the same workload.
    pub(super) fn of_paths(
        data: &TrialSet<'a>,
        metric: ClaimMetric,
        path: IoPath,
        relation: Relation,
        other: IoPath,
        shape: Shape,
    ) -> Comparison<'a> {
        Comparison::of(data, metric, (path, shape), relation, Against::Cell(data.cell(other, shape)))
    }

    /// The same beside what the paper prints for the two.
    pub(super) fn printed(self, published: [Option<f64>; 2]) -> Comparison<'a> {
        Comparison { published, ..self }
    }

    pub(super) fn text(&self) -> String {
        let relation = match self.relation {
            Relation::Less => "less than",
            Relation::More => "more than",
            Relation::Equal(_) => "equal to",
            Relation::NotLess(_) => "not less than",
        };
        let against = match &self.against {
            Against::Cell(cell) => cell.name.clone(),
            Against::Share(share, cell) if *share > 1.0 => format!("{share} times {}", cell.name),
            Against::Share(share, cell) => format!("{share} of {}", cell.name),
            Against::Beyond(more, cell) => {
                format!("{} above {}", join(&more.to_string(), self.metric.unit), cell.name)
            }
            Against::Number(number) => join(&number.to_string(), self.metric.unit),
        };
        let tolerance = match self.relation {
            Relation::Equal(tolerance) | Relation::NotLess(tolerance) if tolerance > 0.0 => {
                format!(" within {:.0} %", 100.0 * tolerance)
            }
            _ => String::new(),
        };
        format!("{}: {} {relation} {against}{tolerance}", self.metric.name, self.cell.name)
    }

    pub(super) fn cells(&self) -> impl Iterator<Item = &ClaimCell<'a>> {
        let other = match &self.against {
            Against::Cell(cell) | Against::Share(_, cell) | Against::Beyond(_, cell) => Some(cell),
            Against::Number(_) => None,
        };
        std::iter::once(&self.cell).chain(other)
    }

    pub(super) fn missing(&self, replicates: usize) -> Vec<String> {
        unique(self.cells().filter_map(|cell| cell.lacks(self.metric, replicates)))
    }

    pub(super) fn figures(&self) -> Vec<ClaimFigure> {
        let figure = |(cell, published): (&ClaimCell<'_>, Option<f64>)| cell.figure(self.metric, published);
        let mut figures: Vec<ClaimFigure> = self.cells().zip(self.published).map(figure).collect();
        if let Against::Cell(other) | Against::Share(_, other) = &self.against {
            figures.extend(ratio(self.metric, &self.cell, other));
        }
        figures
    }

    /// How large the difference of the two cells is; absent if there are not two, or no test.
    pub(super) fn effect(&self, family: usize) -> Option<Effect> {
        let (Against::Cell(other) | Against::Share(_, other)) = &self.against else { return None };
        let plan = self.cell.plan(self.metric, family);
        plan.contrast(&self.cell.sample(self.metric), &other.sample(self.metric)).map(|one| Effect::of(&one))
    }

    /// The p-value of the answer that the figures suggest, and whether that answer is that the part holds;
    /// `None` if there are too few replicates for a test.
    pub(super) fn test(&self, family: usize) -> Test {
        let sample = self.cell.sample(self.metric);
        let by = |other: &ClaimCell<'_>, of: &dyn Fn(f64) -> f64| -> Sample {
            other.sample(self.metric).into_iter().map(|(block, value)| (block, of(value))).collect()
        };
        let plan = self.cell.plan(self.metric, family);
        let (plan, against) = match &self.against {
            Against::Cell(cell) => (plan, by(cell, &|value| value)),
            Against::Share(share, cell) => (plan, by(cell, &|value| share * value)),
            // A sum of percentiles means nothing in logarithms.
            Against::Beyond(more, cell) => {
                (TestPlan { logs: false, ..plan }, by(cell, &|value| value + more))
            }
            // With a sample of no variance Welch's tests are the tests of one sample against a number.
            Against::Number(number) => {
                (TestPlan { method: Method::Welch, logs: false, ..plan }, vec![(0, *number), (1, *number)])
            }
        };
        held(self.relation, plan, &sample, &against)
    }
}

/// The p-value of the answer that the figures suggest, and whether that answer is that the relation holds.
pub(super) fn held(relation: Relation, plan: TestPlan, a: &Sample, b: &Sample) -> Test {
    let scaled =
        |factor: f64| -> Sample { b.iter().map(|(block, value)| (*block, factor * value)).collect() };
    match relation {
        Relation::Less => plan.test(a, b).map(|(p, sign)| (p, sign < 0.0)),
        Relation::More => plan.test(a, b).map(|(p, sign)| (p, sign > 0.0)),
        // A one-sided question.
        Relation::NotLess(tolerance) => {
            plan.test(a, &scaled(1.0 - tolerance)).map(|(p, sign)| (p / 2.0, sign >= 0.0))
        }
        Relation::Equal(tolerance) => {
            let (values, others) = plan.values(a, b);
            let (mean, other) = (summarize(&values)?.mean, summarize(&others)?.mean);
            if (mean - other).abs() <= tolerance * other.abs() {
                let p = equivalent(plan.method, &values, &others, tolerance)?;
                return Some((over(plan.looks, p), true));
            }
            // It is shown to be unequal if it is beyond the nearer limit.
            let limit = if mean > other { 1.0 + tolerance } else { 1.0 - tolerance };
            let limits: Vec<f64> = others.iter().map(|value| value * limit).collect();
            Some((over(plan.looks, t_test(plan.method, &values, &limits)?.p), false))
        }
    }
}

/// The answer to a part of this relation from its test, whose p-value is after Holm's correction.
pub(super) fn answer(relation: Relation, tested: Test) -> Answer {
    match tested {
        Some((p, true)) if p < LEVEL => Answer::Holds,
        Some((p, false)) if p < LEVEL => Answer::DoesNotHold,
        Some((p, _)) => {
            let what = match relation {
                Relation::Equal(_) => "neither within the tolerance nor outside it with certainty",
                _ => "no significant difference",
            };
            Answer::Undecided(format!("{what} ({} after Holm's correction)", p_statement(p)))
        }
        None => Answer::Undecided("a test needs two replicates of each cell".to_owned()),
    }
}

/// A p-value and whether it supports the part; `None` if there are too few replicates for a test.
pub(super) type Test = Option<(f64, bool)>;

/// The ratio of two cells' energy figures over their replicates, in which the meter's gain cancels.
fn ratio(metric: ClaimMetric, cell: &ClaimCell<'_>, other: &ClaimCell<'_>) -> Option<ClaimFigure> {
    let (values, others) = (cell.values(metric), other.values(metric));
    let by_plan = || cell.plan(metric, 1).contrast(&cell.sample(metric), &other.sample(metric))?.ratio;
    let ratio = if cell.machine.in_blocks { by_plan() } else { ratio_of_means(&values, &others) };
    let ratio = ratio.filter(|_| metric.is_energy())?;
    let replicates = values.len().min(others.len());
    let (mean, interval) = (Some(ratio.ratio), Some((ratio.low, ratio.high)));
    Some(ClaimFigure { of: "ratio".to_owned(), unit: "times", replicates, mean, interval, published: None })
}

/// A number with its unit.
fn join(number: &str, unit: &str) -> String {
    format!("{number} {unit}").trim_end().to_owned()
}
