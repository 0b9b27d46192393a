//! Fixed parts of two paths, for claims: what an I/O that neither spins nor sleeps costs in some functions.

use super::fit::{FitOutcome, Fitted, Regressor, Term, Unvaried, fitted};
use super::measure::Measure;
use super::trials::CountedTrial;
use crate::stats::{TTest, quantile, tested};
use iopj_core::{CompletionMode, CostKind, CostSource, FunctionCost, IoPath};
use iopj_record::Measurement;

/// The fits of some paths, each over its own trials, and one over all of them.
pub struct FixedParts {
    paths: Vec<IoPath>,
    own: Vec<Fitted>,
    pooled: Fitted,
}

/// Two paths' fixed parts with their intervals, and the test of the first being equal to the second.
pub struct FixedPartsTest {
    /// Estimate, 95 % interval and trials of each.
    pub parts: [(f64, (f64, f64), usize); 2],
    /// The test.
    pub test: TTest,
}

/// What the trials of a path lack to determine its fixed part.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each is")]
pub enum FixedPartLack {
    #[error("trials of {0} whose spins and sleeps do not rise and fall together")]
    Collinear(IoPath),
    #[error(
        "trials of {path} whose {} vary by {} per I/O or more ({least:.2} to {most:.2})",
        regressor.as_str(), regressor.least_range()
    )]
    Unvaried { path: IoPath, regressor: Regressor, least: f64, most: f64 },
    #[error("{needed} trials of {path} with exact counts of calls, loads and stores ({runs} there)")]
    TooFew { path: IoPath, needed: usize, runs: usize },
}

/// The loads and stores, per I/O, of the functions that `belongs` picks, fitted over the trials with exact
/// counts of these and of calls. A hybrid sleep sets a timer, so it has a part of its own.
pub fn fixed_parts<'a>(
    paths: &[(IoPath, &[&'a Measurement])],
    belongs: impl Fn(&FunctionCost) -> bool,
) -> FixedParts {
    let of = |(path, measured): &(IoPath, &[&'a Measurement])| -> Vec<CountedTrial<'a>> {
        let timed = path.completion() == CompletionMode::Hybrid;
        measured.iter().filter_map(|one| Some(CountedTrial { timed, ..run(one)? })).collect()
    };
    let runs: Vec<Vec<CountedTrial<'_>>> = paths.iter().map(of).collect();
    let cost = |run: &CountedTrial<'_>| {
        run.sum(Measure::LoadsPlusStores, |one| !CountedTrial::is_lock_wait(one) && belongs(one))
    };
    let fit = |columns: &[usize]| {
        let runs: Vec<&[CountedTrial<'_>]> = columns.iter().map(|at| &runs[*at][..]).collect();
        fitted(&runs, columns, Measure::LoadsPlusStores, cost)
    };
    FixedParts {
        paths: paths.iter().map(|(path, _)| *path).collect(),
        own: (0..paths.len()).map(|at| fit(&[at])).collect(),
        pooled: fit(&(0..paths.len()).collect::<Vec<usize>>()),
    }
}

/// True for a trial with exact counts of spins, sleeps, loads and stores.
pub fn is_counted(measurement: &Measurement) -> bool {
    run(measurement).is_some()
}

fn run(measurement: &Measurement) -> Option<CountedTrial<'_>> {
    const KINDS: [CostKind; 3] = [CostKind::Calls, CostKind::Loads, CostKind::Stores];
    let costs = measurement.costs.as_ref().filter(|costs| costs.source == CostSource::Exact)?;
    let is_whole = KINDS.iter().all(|kind| costs.has(*kind)) && measurement.evidence.ios() > 0;
    is_whole.then_some(CountedTrial { measurement, costs, timed: false })
}

impl FixedParts {
    /// The fixed parts of two paths, each from its own trials if they determine it; else both from the fit
    /// over all paths, in which a spin costs the same on each, and so does a sleep of one kind.
    ///
    /// # Errors
    /// What the trials lack.
    pub fn apart(&self, places: [usize; 2]) -> Result<FixedPartsTest, FixedPartLack> {
        let Some(lacking) = places.into_iter().find(|at| self.own[*at].lacks_a_part()) else {
            return self.alone(places).ok_or_else(|| self.too_few(places[0]));
        };
        if let Some(at) = places.into_iter().find(|at| !self.is_in_pooled(*at)) {
            return Err(self.lack(at));
        }
        if self.pooled.line.is_none() {
            return Err(self.lack(lacking));
        }
        self.together(places).ok_or_else(|| self.too_few(lacking))
    }

    /// True if the fit over all paths determines every part that the path has. What varies over its own
    /// trials also varies over all.
    fn is_in_pooled(&self, at: usize) -> bool {
        let hidden = |left: &&Unvaried| {
            left.happens() && self.pooled.left_out.iter().any(|one| one.regressor == left.regressor)
        };
        !self.own[at].left_out.iter().any(|left| hidden(&left))
    }

    /// From two fits, which are independent of each other.
    fn alone(&self, [a, b]: [usize; 2]) -> Option<FixedPartsTest> {
        let of = |at: usize| {
            let fit = &self.own[at];
            let Term { estimate, error } = fit.at(at, 0.0, 0.0)?;
            Some((estimate, error?, df(fit)?, fit.runs))
        };
        let (a, b) = (of(a)?, of(b)?);
        let error = a.1.hypot(b.1);
        // After Welch and Satterthwaite, as shares: the squares of tiny errors would vanish.
        let share = if error > 0.0 { (a.1 / error).powi(2) } else { 0.5 };
        let shared = 1.0 / (share.powi(2) / a.2 + (1.0 - share).powi(2) / b.2);
        let test = tested(a.0 - b.0, error, shared, a.0.abs().max(b.0.abs()));
        Some(FixedPartsTest {
            parts: [a, b].map(|(part, error, df, runs)| interval(part, error, df, runs)),
            test,
        })
    }

    /// From one fit.
    fn together(&self, [a, b]: [usize; 2]) -> Option<FixedPartsTest> {
        let df = df(&self.pooled)?;
        let (difference, error) = self.pooled.line.as_ref()?.0.apart(a, b);
        let of = |at: usize| {
            let Term { estimate, error } = self.pooled.at(at, 0.0, 0.0)?;
            Some(interval(estimate, error?, df, self.own[at].runs))
        };
        let parts = [of(a)?, of(b)?];
        let scale = parts.iter().fold(0.0, |most: f64, (part, ..)| most.max(part.abs()));
        Some(FixedPartsTest { parts, test: tested(difference, error?, df, scale) })
    }

    /// Why neither its own trials nor those of all paths determine a path's fixed part.
    fn lack(&self, at: usize) -> FixedPartLack {
        let (path, fit) = (self.paths[at], &self.own[at]);
        match (&fit.outcome, fit.hidden()) {
            (FitOutcome::Collinear { .. }, _) => FixedPartLack::Collinear(path),
            (_, Some(&Unvaried { regressor, range: Some((least, most)) })) => {
                FixedPartLack::Unvaried { path, regressor, least, most }
            }
            _ => self.too_few(at),
        }
    }

    fn too_few(&self, at: usize) -> FixedPartLack {
        let needed = match self.own[at].outcome {
            FitOutcome::TooFewRuns { needed } => needed.max(2),
            _ => 2,
        };
        FixedPartLack::TooFew { path: self.paths[at], needed, runs: self.own[at].runs }
    }
}

fn df(fit: &Fitted) -> Option<f64> {
    let FitOutcome::Parts(parts) = &fit.outcome else { return None };
    (parts.df > 0).then_some(parts.df as f64)
}

fn interval(part: f64, error: f64, df: f64, runs: usize) -> (f64, (f64, f64), usize) {
    let half = quantile(df) * error;
    (part, (part - half, part + half), runs)
}

#[cfg(test)]
mod tests;
