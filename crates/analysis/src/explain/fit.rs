//! The kernel's part of an I/O's cost as a fixed part, a part per spin and a part per sleep, by least squares
//! over runs.
//!
//! The number of spins and sleeps depends on the device; the parts do not.

use super::measure::Measure;
use super::ols::{Observation, Solution, least_squares};
use super::trials::{CountedTrial, WorkloadTrials};
use crate::grouping::grouped;
use iopj_core::CostSource;
use serde::Serialize;

/// A fit with slopes needs this many runs more than it has parameters.
pub const LEAST_DF: usize = 3;
/// Greatest correlation of spins and sleeps at which their parts can be separated.
pub const MOST_CORRELATION: f64 = 0.99;
/// A part is above zero if it is at least this many standard errors above.
const BEYOND: f64 = 2.0;
/// Sleeps per I/O that count as always or, as a range, as variation.
const SLEEPS: f64 = 0.05;

/// What the cost may depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Regressor {
    /// Calls of the driver's poll function per I/O.
    Spins,
    /// Voluntary context switches per I/O.
    Sleeps,
    /// The same of hybrid paths, if their sleeps are fitted separately.
    TimedSleeps,
}

impl Regressor {
    /// All of them.
    pub const ALL: [Regressor; 3] = [Regressor::Spins, Regressor::Sleeps, Regressor::TimedSleeps];

    /// The plural word.
    pub fn as_str(self) -> &'static str {
        match self {
            Regressor::Spins => "spins",
            Regressor::Sleeps | Regressor::TimedSleeps => "sleeps",
        }
    }

    /// The least range over the runs of a path, per I/O, that determines a part: half a spin, a twentieth of
    /// a sleep.
    pub fn least_range(self) -> f64 {
        match self {
            Regressor::Spins => 0.5,
            Regressor::Sleeps | Regressor::TimedSleeps => SLEEPS,
        }
    }

    fn of(self, run: &CountedTrial<'_>) -> Option<f64> {
        match self {
            Regressor::Spins => run.spins(),
            Regressor::Sleeps => Some(if run.timed { 0.0 } else { run.sleeps() }),
            Regressor::TimedSleeps => Some(if run.timed { run.sleeps() } else { 0.0 }),
        }
    }

    /// True if it can differ from zero in these runs.
    fn is_asked(self, cells: &[Runs<'_>]) -> bool {
        self != Regressor::TimedSleeps || cells.iter().copied().flatten().any(|run| run.timed)
    }
}

/// A fit over the runs of one path, or over those of all paths of an interface: then each path has its own
/// fixed part, and the other parts are common, found from the variation within the paths.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fitted {
    /// The columns whose runs it covers.
    pub columns: Vec<usize>,
    /// What was counted in the kernel.
    pub measure: Measure,
    /// Runs of all columns.
    pub runs: usize,
    /// Regressors that do not vary enough, so the fixed part contains them.
    pub left_out: Vec<Unvaried>,
    /// The parts, or why there are none.
    pub outcome: FitOutcome,
    #[serde(skip)]
    pub(super) line: Option<(Solution, Vec<Regressor>)>,
}

/// A regressor that does not vary enough over the runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Unvaried {
    /// The regressor.
    pub regressor: Regressor,
    /// Its least and its greatest value over the runs; absent if it was not counted.
    pub range: Option<(f64, f64)>,
}

/// The outcome of a fit.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FitOutcome {
    /// The parts.
    Parts(Fit),
    /// Too few runs.
    TooFewRuns {
        /// The least number of runs.
        needed: usize,
    },
    /// Spins and sleeps rise and fall together.
    Collinear {
        /// Their correlation.
        correlation: f64,
    },
}

/// The parts of a cost, per I/O, in the kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fit {
    /// The fixed part of each column, at no spins and at `fixed_sleeps`.
    pub fixed: Vec<Term>,
    /// The sleeps per I/O that the fixed part of each column contains: 0, or 1 if the runs slept more often
    /// than not, because a cost without sleep would then be extrapolated far beyond them; their mean if
    /// sleeps do not vary.
    pub fixed_sleeps: Vec<f64>,
    /// The part per spin.
    pub per_spin: Option<Term>,
    /// The part per sleep.
    pub per_sleep: Option<Term>,
    /// Standard deviation of the residuals; absent without degrees of freedom.
    pub residual_stddev: Option<f64>,
    /// Runs less parameters.
    pub df: usize,
}

/// A part with its standard error.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Term {
    /// The estimate.
    pub estimate: f64,
    /// Its standard error.
    pub error: Option<f64>,
}

/// The runs of a column.
type Runs<'a> = &'a [CountedTrial<'a>];

/// A fit for every path that was not refuted; after them, for each interface with a path whose own runs do
/// not determine one of its parts, a fit over all its paths. Sampled counts are not fitted.
pub(super) fn fits(group: &WorkloadTrials<'_>, measures: &[Measure]) -> Vec<Fitted> {
    if *group.source != CostSource::Exact {
        return Vec::new();
    }
    let columns: Vec<usize> = (0..group.cells.len()).filter(|at| !group.cells[*at].refuted).collect();
    let mut fits = Vec::new();
    for measure in measures {
        let mut alone: Vec<Fitted> = columns.iter().map(|at| of_group(group, &[*at], *measure)).collect();
        let pooled = interfaces(group, &columns).into_iter().filter_map(|paths| {
            let lacking = alone.iter().any(|fit| paths.contains(&fit.columns[0]) && fit.lacks_a_part());
            let pooled = Some(of_group(group, &paths, *measure)).filter(|_| lacking && paths.len() > 1)?;
            pooled.has_slopes().then_some(pooled)
        });
        let pooled: Vec<Fitted> = pooled.collect();
        fits.append(&mut alone);
        fits.extend(pooled);
    }
    fits
}

/// The columns by interface.
fn interfaces(group: &WorkloadTrials<'_>, columns: &[usize]) -> Vec<Vec<usize>> {
    let interface = |at: usize| group.cells[at].path.interface();
    grouped(columns.iter().map(|at| (interface(*at), *at))).into_iter().map(|(_, alike)| alike).collect()
}

fn of_group(group: &WorkloadTrials<'_>, columns: &[usize], measure: Measure) -> Fitted {
    let cells: Vec<Runs<'_>> = columns.iter().map(|at| &group.cells[*at].runs[..]).collect();
    fitted(&cells, columns, measure, |run| run.kernel_unlocked(measure))
}

/// A fit over the runs of these columns.
pub(super) fn fitted(
    cells: &[Runs<'_>],
    columns: &[usize],
    measure: Measure,
    cost: impl Fn(&CountedTrial<'_>) -> f64,
) -> Fitted {
    let asked = Regressor::ALL.into_iter().filter(|one| one.is_asked(cells));
    let (kept, left_out): (Vec<_>, Vec<_>) = asked.partition(|one| varies(cells, *one));
    let runs: usize = cells.iter().map(|runs| runs.len()).sum();
    let left_out = left_out
        .into_iter()
        .map(|regressor| Unvaried { regressor, range: range(cells, regressor) })
        .collect();
    let mut fitted = Fitted {
        columns: columns.to_vec(),
        measure,
        runs,
        left_out,
        outcome: FitOutcome::TooFewRuns {
            needed: cells.len() + kept.len() + if kept.is_empty() { 1 } else { LEAST_DF },
        },
        line: None,
    };
    if matches!(fitted.outcome, FitOutcome::TooFewRuns { needed } if runs < needed) {
        return fitted;
    }
    let together = |a: &Regressor, b: &Regressor| correlation(&centred(cells, *a), &centred(cells, *b));
    let pairs =
        kept.iter().enumerate().flat_map(|(at, a)| kept[at + 1..].iter().map(move |b| together(a, b)));
    if let Some(correlation) = pairs.into_iter().find(|one| one.abs() > MOST_CORRELATION) {
        fitted.outcome = FitOutcome::Collinear { correlation };
        return fitted;
    }
    let observations = |runs: &Runs<'_>| -> Vec<Observation> {
        let x = |run: &CountedTrial<'_>| kept.iter().filter_map(|regressor| regressor.of(run)).collect();
        runs.iter().map(|run| Observation { y: cost(run), x: x(run) }).collect()
    };
    if let Some(solution) = least_squares(&cells.iter().map(observations).collect::<Vec<_>>()) {
        fitted.outcome = FitOutcome::Parts(parts(&solution, &kept, cells));
        fitted.line = Some((solution, kept));
    }
    fitted
}

fn parts(solution: &Solution, regressors: &[Regressor], cells: &[Runs<'_>]) -> Fit {
    let sleeps = |runs: &Runs<'_>| {
        let mean = runs.iter().map(CountedTrial::sleeps).sum::<f64>() / runs.len().max(1) as f64;
        if regressors.iter().any(|one| *one != Regressor::Spins) {
            mean.round().clamp(0.0, 1.0)
        } else {
            mean
        }
    };
    let fixed_sleeps: Vec<f64> = cells.iter().map(sleeps).collect();
    let fixed = |(at, sleeps): (usize, &f64)| {
        let value = |regressor: &Regressor| if *regressor == Regressor::Spins { 0.0 } else { *sleeps };
        let x: Vec<f64> = regressors.iter().map(value).collect();
        Term { estimate: solution.at(at, &x), error: solution.error_at(at, &x) }
    };
    let slope = |of: Regressor| {
        let at = regressors.iter().position(|one| *one == of)?;
        Some(Term { estimate: solution.slopes[at], error: solution.slope_error(at) })
    };
    Fit {
        fixed: fixed_sleeps.iter().enumerate().map(fixed).collect(),
        fixed_sleeps,
        per_spin: slope(Regressor::Spins),
        per_sleep: slope(Regressor::Sleeps),
        residual_stddev: solution.variance.map(f64::sqrt),
        df: solution.df,
    }
}

/// The values of all runs; absent if one run has none.
fn values(runs: Runs<'_>, regressor: Regressor) -> Option<Vec<f64>> {
    runs.iter().map(|run| regressor.of(run)).collect()
}

fn range(cells: &[Runs<'_>], regressor: Regressor) -> Option<(f64, f64)> {
    let all: Vec<f64> =
        cells.iter().map(|runs| values(runs, regressor)).collect::<Option<Vec<_>>>()?.concat();
    Some(ends(&all))
}

fn ends(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| {
        (least.min(*value), most.max(*value))
    })
}

/// The values less the means of their cells.
fn centred(cells: &[Runs<'_>], regressor: Regressor) -> Vec<f64> {
    let of_cell = |runs: &Runs<'_>| {
        let values = values(runs, regressor).unwrap_or_default();
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        values.into_iter().map(move |value| value - mean).collect::<Vec<f64>>()
    };
    cells.iter().flat_map(of_cell).collect()
}

fn varies(cells: &[Runs<'_>], regressor: Regressor) -> bool {
    let (least, most) = ends(&centred(cells, regressor));
    range(cells, regressor).is_some() && most - least >= regressor.least_range()
}

fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

impl Unvaried {
    /// True if there is enough of it for a part.
    pub(super) fn happens(&self) -> bool {
        self.range.is_some_and(|(_, most)| most >= self.regressor.least_range())
    }
}

impl Fitted {
    fn has_slopes(&self) -> bool {
        self.line.as_ref().is_some_and(|(_, regressors)| !regressors.is_empty())
    }

    /// True if the path has spins or sleeps whose part its own runs do not determine.
    pub(super) fn lacks_a_part(&self) -> bool {
        self.line.is_none() || self.hidden().is_some()
    }

    /// The first regressor that occurs on the path but varies too little for its own runs to determine its
    /// part.
    pub(super) fn hidden(&self) -> Option<&Unvaried> {
        self.left_out.iter().find(|left| left.happens())
    }

    /// The part per spin, if it is above zero beyond its error.
    pub(super) fn per_spin(&self) -> Option<f64> {
        let FitOutcome::Parts(Fit { per_spin: Some(part), .. }) = &self.outcome else { return None };
        Some(part.estimate).filter(|estimate| *estimate > BEYOND * part.error.unwrap_or(0.0))
    }

    /// Cost and standard error of a column's I/O with this many spins and sleeps. Regressors that were left
    /// out keep their value.
    pub(super) fn at(&self, column: usize, spins: f64, sleeps: f64) -> Option<Term> {
        let (solution, regressors) = self.line.as_ref()?;
        let group = self.columns.iter().position(|one| *one == column)?;
        let value = |regressor: &Regressor| if *regressor == Regressor::Spins { spins } else { sleeps };
        let x: Vec<f64> = regressors.iter().map(value).collect();
        Some(Term { estimate: solution.at(group, &x), error: solution.error_at(group, &x) })
    }

    /// True if the fit gives the cost of an I/O that always sleeps: the part per sleep is known, or every run
    /// always slept.
    pub(super) fn determines_a_sleep(&self) -> bool {
        let left = self.left_out.iter().find(|left| left.regressor == Regressor::Sleeps);
        let always = |(least, most): (f64, f64)| least >= 1.0 - SLEEPS && most <= 1.0 + SLEEPS;
        self.line.is_some() && left.is_none_or(|left| left.range.is_some_and(always))
    }
}
