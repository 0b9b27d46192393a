//! Grouping by key in the order of first appearance, the key that the cells of one table or map share, and
//! lists in a sentence.

use iopj_core::{IoPath, Workload};
use iopj_record::{Generator, Trial};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

/// What all cells of one table share besides the path and the axis of the table.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct TrialSetup {
    /// The workload; the table's axis has the value of the table's first cell.
    pub workload: Workload,
    /// Settings of the study, by name.
    pub settings: BTreeMap<String, String>,
    /// What issued the I/O.
    pub generator: Generator,
}

impl TrialSetup {
    /// That of a trial.
    pub fn of(trial: &Trial) -> TrialSetup {
        let Trial { workload, settings, generator, .. } = trial;
        TrialSetup { workload: workload.clone(), settings: settings.clone(), generator: *generator }
    }
}

/// The same by reference.
pub fn setup(trial: &Trial) -> (&Workload, &BTreeMap<String, String>, Generator) {
    (&trial.workload, &trial.settings, trial.generator)
}

/// The values of each key; keys and values in the order in which they first appear.
pub fn grouped<K: Hash + PartialEq, T>(items: impl IntoIterator<Item = (K, T)>) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    let mut seen = Seen::default();
    for (key, item) in items {
        match seen.find(&key, |place| groups[place].0 == key) {
            Some(place) => groups[place].1.push(item),
            None => groups.push((key, vec![item])),
        }
    }
    groups
}

/// The places of what was seen, by its hash: looking at all that was seen before would take a time that grows
/// with the square of it.
#[derive(Default)]
struct Seen {
    by_hash: HashMap<u64, Vec<usize>>,
    count: usize,
}

impl Seen {
    /// The place of an equal one; where there is none, it gets the next place.
    fn find(&mut self, item: &impl Hash, is_equal: impl Fn(usize) -> bool) -> Option<usize> {
        let mut hasher = DefaultHasher::new();
        item.hash(&mut hasher);
        let places = self.by_hash.entry(hasher.finish()).or_default();
        let found = places.iter().copied().find(|place| is_equal(*place));
        if found.is_none() {
            places.push(self.count);
            self.count += 1;
        }
        found
    }
}

/// The distinct items, in the order in which they first appear.
pub fn unique<T: Hash + PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let (mut all, mut seen) = (Vec::<T>::new(), Seen::default());
    for item in items {
        if seen.find(&item, |place| all[place] == item).is_none() {
            all.push(item);
        }
    }
    all
}

/// The distinct items, ascending.
pub fn ascending<T: Ord>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = items.into_iter().collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The paths of the trials, in the order in which they first appear.
pub fn paths(trials: &[&Trial]) -> Vec<IoPath> {
    unique(trials.iter().map(|trial| trial.path))
}

/// `a`, `a and b`, `a, b and c`.
pub fn list(items: &[String]) -> String {
    match items {
        [most @ .., last] if !most.is_empty() => format!("{} and {last}", most.join(", ")),
        _ => items.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each was held against all before it, so twice as many cells took four times as long.
    #[test]
    fn distinct_keys_are_hardly_compared() {
        use std::cell::Cell;
        thread_local!(static COMPARED: Cell<u64> = const { Cell::new(0) });
        #[derive(Clone, Debug)]
        struct Key(u32);
        impl PartialEq for Key {
            fn eq(&self, other: &Key) -> bool {
                COMPARED.set(COMPARED.get() + 1);
                self.0 == other.0
            }
        }
        impl Hash for Key {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.0.hash(state);
            }
        }
        let keys = |count: u32| (0..2 * count).map(move |n| Key(n % count));
        for count in [1_000, 2_000, 4_000] {
            COMPARED.set(0);
            let groups = grouped(keys(count).map(|key| (key, ())));
            assert!(groups.iter().all(|(_, items)| items.len() == 2) && groups.len() == count as usize);
            assert!(groups.iter().map(|(key, _)| key.0).eq(0..count), "in the order of first appearance");
            assert_eq!(unique(keys(count)).len(), count as usize);
            let compared = COMPARED.get();
            assert!(compared <= 2 * u64::from(count) + 2, "{compared} comparisons of {count} keys");
        }
    }

    #[test]
    fn words_are_joined() {
        assert_eq!(list(&["a".into(), "b".into(), "c".into()]), "a, b and c");
    }
}
