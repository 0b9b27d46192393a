//! Cells that only one side has, paired with those of the other side that are the same but for a few keys.

use super::cell::{ComparedCell, differing_keys};
use super::sides::SideDifference;
use serde::Serialize;
use std::collections::BTreeMap;

/// The keys by which tables name a cell. Cells that differ in two of them are not near each other.
const NAMES: [&str; 6] = ["path", "generator", "rw", "bs", "iodepth", "numjobs"];

/// Of more pairs of cells that are alike by name, each cell is only compared with the one at its place.
const MANY_PAIRS: usize = 2_500;

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
    let sides = [before, after].map(|cells| cells.iter().map(ComparedCell::keys).collect::<Vec<Keys>>());
    let mut free = [vec![true; before.len()], vec![true; after.len()]];
    let mut pairs = Vec::new();
    // First the cells of one name, then those that differ in one part of it.
    for without in [&[None][..], &NAMES.map(Some)] {
        let mut candidates: Vec<(usize, usize, usize)> =
            without.iter().flat_map(|without| alike(&sides, &free, *without)).collect();
        candidates.sort_unstable();
        for (_, old, new) in candidates {
            if free[0][old] && free[1][new] {
                (free[0][old], free[1][new]) = (false, false);
                pairs.push((old, new));
            }
        }
    }
    let pair = |(old, new): (usize, usize)| {
        let (before, after) = (before[old].clone(), after[new].clone());
        NearCells { differences: differing_keys(&before, &after), before, after }
    };
    pairs.into_iter().map(pair).collect()
}

/// The keys of a cell, with their values.
type Keys = Vec<(String, String)>;

/// The pairs of free cells whose name is the same, without this part of it: in how many keys they differ, and
/// their places.
fn alike(sides: &[Vec<Keys>; 2], free: &[Vec<bool>; 2], without: Option<&str>) -> Vec<(usize, usize, usize)> {
    let mut groups: BTreeMap<Vec<&str>, [Vec<usize>; 2]> = BTreeMap::new();
    for (side, cells) in sides.iter().enumerate() {
        for (place, keys) in cells.iter().enumerate().filter(|(place, _)| free[side][*place]) {
            let named = keys.iter().filter(|(key, _)| NAMES.contains(&key.as_str()));
            let named = named.filter(|(key, _)| Some(key.as_str()) != without);
            let name = named.map(|(_, value)| value.as_str()).collect();
            groups.entry(name).or_default()[side].push(place);
        }
    }
    let distance = |(old, new): (usize, usize)| (count(&sides[0][old], &sides[1][new]), old, new);
    let of = |[old, new]: [Vec<usize>; 2]| -> Vec<(usize, usize, usize)> {
        if old.len() * new.len() > MANY_PAIRS {
            return old.into_iter().zip(new).map(distance).collect();
        }
        old.iter().flat_map(|old| new.iter().map(|new| distance((*old, *new)))).collect()
    };
    groups.into_values().flat_map(of).collect()
}

/// In how many keys two cells differ.
fn count(old: &Keys, new: &Keys) -> usize {
    let value = |keys: &Keys, key: &str| keys.iter().position(|(other, _)| other == key);
    let differs = |(at, (key, of_old)): (usize, &(String, String))| match new.get(at) {
        Some((other, of_new)) if other == key => of_old != of_new,
        _ => value(new, key).is_none_or(|at| new[at].1 != *of_old),
    };
    let changed = old.iter().enumerate().filter(|one| differs(*one)).count();
    changed + new.iter().filter(|(key, _)| value(old, key).is_none()).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_record::testing::pairs::{LIBAIO, trial};
    use std::time::Duration;

    fn cells(depths: std::ops::Range<u32>, bs: u32, ramp: u64) -> Vec<ComparedCell> {
        let mut cell = ComparedCell::of(&trial(LIBAIO, 1000));
        let at = |iodepth| {
            (cell.workload.iodepth, cell.workload.bs) = (iodepth, bs);
            cell.workload.ramp_time = Duration::from_secs(ramp);
            cell.clone()
        };
        depths.map(at).collect()
    }

    /// All pairs of so many cells would take a minute.
    #[test]
    fn a_thousand_cells_are_paired_without_comparing_all_pairs() {
        let before = cells(1..1001, 4096, 0);
        for (after, keys) in [
            (cells(1..1001, 4096, 5), vec!["ramp_time"]),
            (cells(1..1001, 8192, 5), vec!["bs", "ramp_time"]),
            (cells(2001..3001, 4096, 0), vec!["iodepth"]),
        ] {
            let pairs = near(&before, &after);
            assert_eq!(pairs.len(), 1000, "{keys:?}");
            assert!(pairs.iter().all(|pair| pair.keys() == keys), "{keys:?}");
        }
        assert_eq!(near(&before, &cells(2001..2003, 8192, 0)), [], "two parts of the name differ");
    }

    #[test]
    fn the_nearest_cell_is_the_one_with_the_fewest_differences() {
        let after = [cells(8..9, 4096, 5), cells(4..5, 4096, 0)].concat();
        let pairs = near(&cells(8..9, 4096, 0), &after);
        assert_eq!(pairs[0].keys(), ["ramp_time"], "the same name is nearer");
        let after = [cells(4..5, 4096, 5), cells(2..3, 4096, 0)].concat();
        assert_eq!(near(&cells(8..9, 4096, 0), &after)[0].after.workload.iodepth, 2);
    }
}
