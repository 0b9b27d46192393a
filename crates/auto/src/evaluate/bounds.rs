//! How bounds of latency were kept over all cells, and for how long they may be broken.

use super::breach::{Breach, Drawn, Stretch};
use super::cell::Outcome;
use super::report::{Verdict, percent};
use crate::timing::BOUND_GRACE_NS;
use serde::Serialize;
use std::collections::BTreeMap;

/// The longest that a way which breaks the bound may be taken while another one keeps it, once that shows, in
/// ns: the rest of the epoch in which it begins, and the next one. Which way keeps it is found out by taking
/// one after the other, so it is as long for each way that the target has.
pub const STATED_NS: u64 = 2 * BOUND_GRACE_NS;

/// The longest stretch of some cells in which a bound was broken while another way kept it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Longest {
    /// Cells in which it was no longer than stated.
    pub in_time: usize,
    /// The longest of all.
    pub stretch: Stretch,
    /// The cell of it.
    pub number: u64,
}

/// How a bound was kept in some cells.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Kept {
    /// Cells in which a way keeps it for some time.
    pub cells: usize,
    /// I/Os of the way taken when it broke the bound while another kept it, as a share: the mean of cells,
    pub mean: f64,
    /// and the greatest.
    pub most: f64,
    /// By the truth, whether anything showed or not.
    pub by_truth: Longest,
    /// From when it showed on: the p99 of the timed I/Os was over the bound in each epoch.
    pub shown: Longest,
}

/// A cell with a bound: its number, how many ways it has, and how the bound was kept.
type Bounded<'a> = (u64, usize, &'a Breach);

impl Kept {
    fn of(outcomes: &[Bounded<'_>]) -> Kept {
        let shares: Vec<f64> = outcomes.iter().map(|(.., one)| one.broken as f64 / one.ios as f64).collect();
        Kept {
            cells: outcomes.len(),
            mean: shares.iter().sum::<f64>() / shares.len().max(1) as f64,
            most: shares.iter().copied().fold(0.0, f64::max),
            by_truth: longest(outcomes.iter().map(|(number, ways, one)| (*number, *ways, one.longest))),
            shown: longest(outcomes.iter().map(|(number, ways, one)| (*number, *ways, one.shown))),
        }
    }
}

fn longest(all: impl Iterator<Item = (u64, usize, Stretch)> + Clone) -> Longest {
    let is_in_time =
        |(_, ways, stretch): &(u64, usize, Stretch)| stretch.ns <= STATED_NS as f64 * *ways as f64;
    let in_time = all.clone().filter(is_in_time).count();
    let worst = all.max_by(|one, other| one.2.ns.total_cmp(&other.2.ns));
    let (number, _, stretch) = worst.unwrap_or_default();
    Longest { in_time, stretch, number }
}

/// How bounds were kept.
#[derive(Clone, Debug, Serialize)]
pub struct Bounds {
    /// All cells in which a way keeps the bound for some time.
    pub all: Kept,
    /// By how it was drawn.
    pub by_drawn: BTreeMap<Drawn, Kept>,
    /// Cells without regret: no way ever keeps the bound, or none does in all phases in which one does.
    pub uncompared: Vec<Outcome>,
}

impl Bounds {
    /// Of all cells, those that are compared by regret, and the others.
    pub(super) fn of(compared: &[Outcome], uncompared: Vec<Outcome>) -> Bounds {
        let outcomes = compared.iter().chain(&uncompared);
        let breaches: Vec<Bounded<'_>> = outcomes
            .filter_map(|one| Some((one.number, one.has.all().len(), one.breach.as_ref()?)))
            .filter(|(.., breach)| breach.ios > 0)
            .collect();
        let drawn = |how: Drawn| -> Vec<Bounded<'_>> {
            breaches.iter().copied().filter(|(.., breach)| breach.drawn == how).collect()
        };
        let by_drawn = Drawn::ALL.map(|how| (how, Kept::of(&drawn(how)))).into();
        Bounds { all: Kept::of(&breaches), by_drawn, uncompared }
    }

    /// Whether it was never broken for longer than stated.
    pub(super) fn judge(&self) -> Verdict {
        let Kept { cells, shown: Longest { in_time, stretch, number }, .. } = self.all;
        Verdict {
            threshold: format!(
                "a bound that another way keeps is broken in one go, once that shows, for at most {} s for \
                 each way of the target",
                STATED_NS as f64 / 1e9
            ),
            found: format!(
                "in {in_time} of {cells} cells ({}); {:.2} s and {} I/Os in cell {number}, the longest",
                percent(in_time as f64 / cells.max(1) as f64),
                stretch.ns / 1e9,
                stretch.ios
            ),
            holds: in_time == cells && cells > 0,
        }
    }
}
