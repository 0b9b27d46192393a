//! Things with the same key together, in the order in which the keys first appear; and the key that the cells
//! of one table or map share.

use iopj_core::{IoPath, Workload};
use iopj_store::{Generator, Trial};
use serde::Serialize;
use std::collections::BTreeMap;

/// What all cells of one table share beside the path and the axis of the table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrialSetup {
    /// The workload; what the table varies has the value of the table's first cell.
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
pub(super) fn setup(trial: &Trial) -> (&Workload, &BTreeMap<String, String>, Generator) {
    (&trial.workload, &trial.settings, trial.generator)
}

/// The values of each key, both in the order in which they first appear.
pub(super) fn grouped<K: PartialEq, T>(items: impl IntoIterator<Item = (K, T)>) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for (key, item) in items {
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, items)) => items.push(item),
            None => groups.push((key, vec![item])),
        }
    }
    groups
}

/// The paths of the trials, in the order in which they first appear.
pub(super) fn paths(trials: &[&Trial]) -> Vec<IoPath> {
    grouped(trials.iter().map(|trial| (trial.path, ()))).into_iter().map(|(path, _)| path).collect()
}
