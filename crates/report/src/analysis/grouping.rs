//! Grouping by key in the order of first appearance, the key that the cells of one table or map share, and
//! lists in a sentence.

use iopj_core::{IoPath, Workload};
use iopj_store::{Generator, Trial};
use serde::Serialize;
use std::collections::BTreeMap;

/// What all cells of one table share besides the path and the axis of the table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrialSetup {
    /// The workload; the table's axis has the value of the table's first cell.
    pub workload: Workload,
    /// Settings of the study, by name.
    pub settings: BTreeMap<String, String>,
    /// What issued the I/O.
    pub generator: Generator,
}

impl TrialSetup {
    pub(super) fn of(trial: &Trial) -> TrialSetup {
        let Trial { workload, settings, generator, .. } = trial;
        TrialSetup { workload: workload.clone(), settings: settings.clone(), generator: *generator }
    }
}

/// The same by reference.
pub(crate) fn setup(trial: &Trial) -> (&Workload, &BTreeMap<String, String>, Generator) {
    (&trial.workload, &trial.settings, trial.generator)
}

/// The values of each key; keys and values in the order in which they first appear.
pub(crate) fn grouped<K: PartialEq, T>(items: impl IntoIterator<Item = (K, T)>) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for (key, item) in items {
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, items)) => items.push(item),
            None => groups.push((key, vec![item])),
        }
    }
    groups
}

/// The distinct items, in the order in which they first appear.
pub(crate) fn unique<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut all = Vec::new();
    for item in items {
        if !all.contains(&item) {
            all.push(item);
        }
    }
    all
}

/// The distinct items, ascending.
pub(crate) fn ascending<T: Ord>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = items.into_iter().collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The paths of the trials, in the order in which they first appear.
pub(super) fn paths(trials: &[&Trial]) -> Vec<IoPath> {
    unique(trials.iter().map(|trial| trial.path))
}

/// `a`, `a and b`, `a, b and c`.
pub(crate) fn list(items: &[String]) -> String {
    match items {
        [most @ .., last] if !most.is_empty() => format!("{} and {last}", most.join(", ")),
        _ => items.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_joined() {
        assert_eq!(list(&["a".into(), "b".into(), "c".into()]), "a, b and c");
    }
}
