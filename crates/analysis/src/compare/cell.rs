//! A cell of a comparison: its keys, and matching without some of them.

use super::sides::SideDifference;
use crate::grouping::{grouped, list, unique};
use iopj_core::{IoPath, Workload};
use iopj_record::{Generator, Trial};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What two trials must have in common to be replicates. For the key that distinguishes the sides of one
/// store, it has the value before.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct ComparedCell {
    /// The path.
    pub path: IoPath,
    /// The workload.
    pub workload: Workload,
    /// Settings, without those in which the stores differ as wholes.
    pub settings: BTreeMap<String, String>,
    /// What issued the I/O.
    pub generator: Generator,
}

/// Why cells cannot be matched without a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each field is")]
pub enum IgnoreError {
    #[error("--ignore {key}: no cell has a `{key}`: name one of {all}")]
    UnknownKey { key: String, all: String },
    #[error(
        "--ignore: {count} cells {side} differ only in {keys}, such as {first} and {second}: without {keys} \
         they would be one cell, so do not ignore {keys}"
    )]
    Merged { side: &'static str, count: usize, keys: String, first: String, second: String },
}

impl ComparedCell {
    pub(super) fn of(trial: &Trial) -> ComparedCell {
        let Trial { path, workload, settings, generator, .. } = trial;
        let (path, generator) = (*path, *generator);
        ComparedCell { path, workload: workload.clone(), settings: settings.clone(), generator }
    }

    /// Every key with its value as text.
    pub(super) fn keys(&self) -> Vec<(String, String)> {
        let own = [("path", self.path.to_string()), ("generator", self.generator.as_str().to_owned())];
        let settings = self.settings.iter().map(|(name, value)| (name.clone(), value.clone()));
        let named = own.into_iter().chain(self.workload.keys());
        named.map(|(name, value)| (name.to_owned(), value)).chain(settings).collect()
    }

    /// The cell without these keys: one value represents all.
    pub(super) fn without<'k>(&self, keys: impl IntoIterator<Item = &'k str>) -> ComparedCell {
        let mut cell = self.clone();
        for key in keys {
            match key {
                "path" => cell.path = IoPath::Libaio,
                "generator" => cell.generator = Generator::Native,
                _ if cell.workload.clear(key) => {}
                _ => drop(cell.settings.remove(key)),
            }
        }
        cell
    }
}

/// The keys in which two cells differ.
pub(super) fn differing_keys(before: &ComparedCell, after: &ComparedCell) -> Vec<SideDifference> {
    let (old, new) = (before.keys(), after.keys());
    let value = |keys: &[(String, String)], name: &str| {
        keys.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone())
    };
    let difference = |name: &String| {
        let (before, after) = (value(&old, name), value(&new, name));
        (before != after).then(|| SideDifference { name: name.clone(), before, after })
    };
    unique(old.iter().chain(&new).map(|(name, _)| name)).into_iter().filter_map(difference).collect()
}

/// Checks that every key exists: in a cell, or among the settings in which the stores differ as wholes.
pub(super) fn check_known<'a>(
    ignored: &[String],
    apart: &[&str],
    cells: impl IntoIterator<Item = &'a ComparedCell>,
) -> Result<(), IgnoreError> {
    if ignored.is_empty() {
        return Ok(());
    }
    let of_cells = cells.into_iter().flat_map(ComparedCell::keys).map(|(name, _)| name);
    let known: BTreeSet<String> = of_cells.chain(apart.iter().map(|name| (*name).to_owned())).collect();
    match ignored.iter().find(|key| !known.contains(*key)) {
        // Without trials nothing is known.
        Some(key) if !known.is_empty() => {
            let all = list(&known.into_iter().collect::<Vec<_>>());
            Err(IgnoreError::UnknownKey { key: key.clone(), all })
        }
        _ => Ok(()),
    }
}

/// Checks that no two cells of a side are one without the keys.
pub(super) fn check_apart<'a>(
    ignored: &[String],
    side: &'static str,
    cells: impl IntoIterator<Item = &'a ComparedCell>,
) -> Result<(), IgnoreError> {
    if ignored.is_empty() {
        return Ok(());
    }
    let without = |cell: &ComparedCell| cell.without(ignored.iter().map(String::as_str));
    let alike = grouped(cells.into_iter().map(|cell| (without(cell), cell)));
    let Some((_, merged)) = alike.into_iter().find(|(_, cells)| cells.len() > 1) else { return Ok(()) };
    let differences = differing_keys(merged[0], merged[1]);
    let values = |value: fn(&SideDifference) -> &Option<String>| {
        let one = |difference: &SideDifference| {
            format!("{} {}", difference.name, value(difference).as_deref().unwrap_or("none"))
        };
        differences.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    Err(IgnoreError::Merged {
        side,
        count: merged.len(),
        keys: list(&differences.iter().map(|difference| difference.name.clone()).collect::<Vec<_>>()),
        first: values(|difference| &difference.before),
        second: values(|difference| &difference.after),
    })
}

/// The ignored keys whose values are not the same on both sides, with all values of either.
pub(super) fn ignored_differences(ignored: &[String], sides: [&[Trial]; 2]) -> Vec<SideDifference> {
    let values = |trials: &[Trial], key: &str| {
        let of = |trial: &Trial| ComparedCell::of(trial).keys().into_iter().find(|(name, _)| name == key);
        let all = unique(trials.iter().filter_map(of).map(|(_, value)| value));
        (!all.is_empty()).then(|| all.join(", "))
    };
    let difference = |name: &String| {
        let [before, after] = sides.map(|trials| values(trials, name));
        (before != after).then(|| SideDifference { name: name.clone(), before, after })
    };
    ignored.iter().filter_map(difference).collect()
}
