//! A comparison as a gate: whether anything was compared at all, what got worse by more than a limit, and
//! whether such a change could have been seen.

use super::cell::check_apart;
use super::{Change, ChangeOutcome, Comparison, NearCells, Side, SideDifference};
use crate::grouping::{list, unique};
use crate::metric::Metric;
use iopj_core::CostSource;

/// Why no metric of any cell was compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NothingCompared {
    /// No trial of a side competes.
    #[error("nothing was compared: study `{study}`: {why}")]
    NoneCompetes {
        /// The side's study.
        study: String,
        /// Why none competes.
        why: String,
    },
    /// No cell is on both sides.
    #[error("nothing was compared: the {sides} have no cell in common. {remedy}")]
    NoCommonCell {
        /// `stores`, or `sides` of one store.
        sides: &'static str,
        /// What is nearly in common, and what to do.
        remedy: String,
    },
    /// Cells are on both sides, but none has trials that compete on both.
    #[error(
        "nothing was compared: none of the {cells} cells in common has trials that compete on both \
         sides: `iopj report` shows why trials do not compete; run those cells again, or let unproven trials \
         compete with --with-unproven"
    )]
    NotMeasured {
        /// Cells in common.
        cells: usize,
    },
}

/// Why a comparison cannot show a regression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// There is nothing to judge.
    #[error(transparent)]
    NothingCompared(#[from] NothingCompared),
    /// A store is emulated, but one of the two has no exact counts or is not emulated.
    #[error(
        "study `{study}` was emulated by {emulator}, where times mean nothing and only exact instructions \
         per I/O show a regression: give two emulated stores whose trials all have exact costs, or leave the \
         option out"
    )]
    NoExactCounts {
        /// The emulated study.
        study: String,
        /// What emulated its processor.
        emulator: String,
    },
    /// No cell has two replicates on both sides.
    #[error(
        "no regression can be distinguished from noise: none of the {cells} cells in common has two \
         replicates or more on both sides; run both studies with `--replicates 5` or more"
    )]
    NoTest {
        /// Cells in common.
        cells: usize,
    },
}

/// What a gate found.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate<'a> {
    /// Changes for the worse that are beyond noise and by more than the limit.
    pub worse: Vec<&'a Change>,
    /// Cells in which a change for the worse was tested.
    pub cells: usize,
    /// Cells of either side in which it was not: they lack trials that compete, replicates, or the other
    /// side.
    pub not_compared: usize,
    /// Of the cells that were tested, those in which a change of the limit's size would probably not have
    /// been seen.
    pub blind: usize,
    /// The largest of their least changes that would have been seen, as a share; absent if one has none.
    pub least: Option<f64>,
}

impl Gate<'_> {
    /// The one that changed by the greatest factor; one without a ratio rose from nothing.
    pub fn worst(&self) -> Option<&Change> {
        let factor = |change: &Change| change.ratio.map_or(f64::INFINITY, |ratio| ratio.ln().abs());
        self.worse.iter().copied().max_by(|a, b| factor(a).total_cmp(&factor(b)))
    }
}

impl Comparison {
    /// Why nothing was compared; `None` if some metric of some cell was.
    pub fn nothing(&self) -> Option<NothingCompared> {
        if self.changes.iter().any(|change| change.outcome != ChangeOutcome::NotMeasured) {
            return None;
        }
        let nobody = |side: &Side| Some((side.study.clone(), side.nobody.clone()?));
        if let Some((study, why)) = nobody(&self.before).or_else(|| nobody(&self.after)) {
            return Some(NothingCompared::NoneCompetes { study, why });
        }
        if self.changes.is_empty() {
            let sides = if self.by.is_some() { "sides" } else { "stores" };
            return Some(NothingCompared::NoCommonCell { sides, remedy: self.remedy() });
        }
        Some(NothingCompared::NotMeasured { cells: self.cells_in_common() })
    }

    /// What would give the sides cells in common.
    fn remedy(&self) -> String {
        let Some(nearest) = self.near.first() else {
            return "No cell of one resembles a cell of the other: run the same study for both".to_owned();
        };
        let keys = nearest.keys();
        let alike: Vec<&NearCells> = self.near.iter().filter(|near| near.keys() == keys).collect();
        let number = match alike.len() {
            1 => "One cell differs".to_owned(),
            number => format!("{number} cells differ"),
        };
        let such =
            if alike.iter().any(|one| one.differences != nearest.differences) { "such as " } else { "" };
        let difference = |one: &SideDifference| {
            let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_owned());
            format!("{} ({such}{} before, {} after)", one.name, value(&one.before), value(&one.after))
        };
        let differences = list(&nearest.differences.iter().map(difference).collect::<Vec<_>>());
        let values = if keys.len() == 1 { "the same value" } else { "the same values" };
        let ignore = if self.can_ignore(&keys) {
            let them = if keys.len() == 1 { "it" } else { "them" };
            format!(", or ignore {them} with `--ignore {}`", keys.join(","))
        } else {
            String::new()
        };
        format!("{number} only in {differences}: run both with {values}{ignore}")
    }

    /// True if no two cells of a side are one without these keys and those that are ignored already.
    fn can_ignore(&self, keys: &[&str]) -> bool {
        let ignored: Vec<String> =
            self.ignored.iter().cloned().chain(keys.iter().map(|key| (*key).to_owned())).collect();
        check_apart(&ignored, "before", &self.only_before).is_ok()
            && check_apart(&ignored, "after", &self.only_after).is_ok()
    }

    fn cells_in_common(&self) -> usize {
        self.changes.len() / self.metrics.len()
    }
}

/// Looks for changes for the worse that are beyond noise and by more than `percent` in the ratio of means: in
/// IOPS or mean latency or, for two emulated stores with exact costs throughout, in instructions per I/O.
pub fn gate(comparison: &Comparison, percent: f64) -> Result<Gate<'_>, GateError> {
    let Comparison { before, after, only_before, only_after, .. } = comparison;
    if let Some(nothing) = comparison.nothing() {
        return Err(nothing.into());
    }
    for side in [before, after] {
        let Some(emulator) = &side.emulated else { continue };
        let exact =
            [before, after].map(|side| side.emulated.is_some() && side.costs == Some(CostSource::Exact));
        if exact != [true; 2] {
            let (study, emulator) = (side.study.clone(), emulator.clone());
            return Err(GateError::NoExactCounts { study, emulator });
        }
    }
    let counts = before.emulated.is_some();
    let is_gated = |metric| match metric {
        Metric::Instructions(None) => counts,
        Metric::Iops | Metric::LatencyMean => !counts,
        _ => false,
    };
    let tested: Vec<&Change> =
        comparison.changes.iter().filter(|change| is_gated(change.metric) && change.p.is_some()).collect();
    let cells = unique(tested.iter().map(|change| &change.cell)).len();
    if cells == 0 {
        return Err(GateError::NoTest { cells: comparison.cells_in_common() });
    }
    let is_blind = |change: &&&Change| change.least.is_none_or(|least| 100.0 * least > percent);
    let blind: Vec<&Change> = tested.iter().filter(is_blind).copied().collect();
    let least = blind.iter().map(|change| change.least).collect::<Option<Vec<f64>>>();
    Ok(Gate {
        cells,
        not_compared: comparison.cells_in_common() - cells + only_before.len() + only_after.len(),
        blind: unique(blind.iter().map(|change| &change.cell)).len(),
        least: least.and_then(|all| all.into_iter().reduce(f64::max)),
        worse: tested.into_iter().filter(|change| is_worse(change, percent)).collect(),
    })
}

fn is_worse(change: &Change, percent: f64) -> bool {
    let by = match change.metric {
        Metric::Iops => change.ratio.map(|ratio| 1.0 - ratio),
        // Without a ratio the metric rose from nothing.
        _ => change.ratio.map_or(Some(f64::INFINITY), |ratio| Some(ratio - 1.0)),
    };
    change.outcome == ChangeOutcome::Worse && by.is_some_and(|by| 100.0 * by > percent)
}
