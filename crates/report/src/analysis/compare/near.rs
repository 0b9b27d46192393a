//! Cells that only one side has, paired with those of the other side that are the same but for a few keys.

use super::cell::{ComparedCell, differing_keys};
use super::sides::SideDifference;
use serde::Serialize;

/// The keys by which tables name a cell. Cells that differ in two of them are not near each other.
const NAMES: [&str; 6] = ["path", "generator", "rw", "bs", "iodepth", "numjobs"];

/// Two cells, one of each side, that would be compared but for a few keys.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NearCells {
    /// The cell of the first side.
    pub before: ComparedCell,
    /// That of the second.
    pub after: ComparedCell,
    /// The keys in which they differ.
    pub differences: Vec<SideDifference>,
}

impl NearCells {
    /// The names of the keys.
    pub fn keys(&self) -> Vec<&str> {
        self.differences.iter().map(|difference| difference.name.as_str()).collect()
    }
}

/// Pairs of the nearest cells, each cell in one pair at most; the nearest first.
pub(super) fn near(before: &[ComparedCell], after: &[ComparedCell]) -> Vec<NearCells> {
    let mut candidates = Vec::new();
    for (old, one) in before.iter().enumerate() {
        for (new, other) in after.iter().enumerate() {
            let differences = differing_keys(one, other);
            let names = differences.iter().filter(|one| NAMES.contains(&one.name.as_str())).count();
            if names <= 1 {
                candidates.push(((names, differences.len()), old, new, differences));
            }
        }
    }
    candidates.sort_by_key(|(distance, old, new, _)| (*distance, *old, *new));
    let (mut paired_before, mut paired_after) = (vec![false; before.len()], vec![false; after.len()]);
    let mut pairs = Vec::new();
    for (_, old, new, differences) in candidates {
        if !paired_before[old] && !paired_after[new] {
            (paired_before[old], paired_after[new]) = (true, true);
            let (before, after) = (before[old].clone(), after[new].clone());
            pairs.push(NearCells { before, after, differences });
        }
    }
    pairs
}
