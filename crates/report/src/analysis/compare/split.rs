//! The two sides of one store: trials that differ in one thing, split by its value.

use crate::analysis::winner::{Axis, AxisValue};
use iopj_core::IoPath;
use iopj_store::{Generator, Trial};
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;

/// What distinguishes the two sides of one store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SplitBy {
    /// `path`, `generator`, an axis of the workload, or the name of a setting.
    pub key: String,
    /// Its value before.
    pub before: String,
    /// Its value after.
    pub after: String,
    /// Trials of the store that have neither value.
    pub others: usize,
}

/// Why trials cannot be split into two sides. `all` lists the values that the trials have, `differing` the
/// keys in which they differ.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each field is")]
pub enum SplitError {
    #[error("the store holds no trials: there is nothing to compare")]
    NoTrials,
    #[error("no trial has a `{key}`: name what they differ in, {differing}")]
    UnknownKey { key: String, differing: String },
    #[error("all trials have {key} {value}: name what they differ in, {differing}")]
    AllAlike { key: String, value: String, differing: String },
    #[error(
        "the trials have {count} values of {key}, {all}: name two of them, as in --by {key}={first},{second}"
    )]
    ManyValues { key: String, count: usize, all: String, first: String, second: String },
    #[error("{key} {value} is named for both sides: name two values of {all}")]
    SameValue { key: String, value: String, all: String },
    #[error("--by {key}={value} names one value: name the one before and the one after, of {all}")]
    OneValue { key: String, value: String, all: String },
    #[error("no trial has {key} `{value}`: name two values of {all}")]
    UnknownValue { key: String, value: String, all: String },
}

/// Something that trials differ in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SplitKey {
    Path,
    Generator,
    Workload(Axis),
    Setting(String),
}

/// A value of it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum SplitValue {
    Path(IoPath),
    Generator(Generator),
    Workload(AxisValue),
    Setting(String),
}

/// The trials of either side.
pub(super) struct SplitTrials {
    pub(super) by: SplitBy,
    pub(super) key: SplitKey,
    pub(super) before: Vec<Trial>,
    pub(super) after: Vec<Trial>,
}

/// Splits the trials of a store by `text`, which is `KEY=BEFORE,AFTER`, or `KEY` alone where it has two
/// values: then the lesser one is before, numbers by their size.
pub(super) fn split(trials: Vec<Trial>, text: &str) -> Result<SplitTrials, SplitError> {
    let (name, named) = text.split_once('=').map_or((text, None), |(name, named)| (name, Some(named)));
    if trials.is_empty() {
        return Err(SplitError::NoTrials);
    }
    let key = SplitKey::named(name, &trials)?;
    let values = key.values(&trials);
    let (old, new) = match (named, values.as_slice()) {
        (Some(named), _) => pick(name, named, &values)?,
        (None, [old, new]) => (old.clone(), new.clone()),
        (None, [only]) => {
            let (key, value) = (name.to_owned(), only.to_string());
            return Err(SplitError::AllAlike { key, value, differing: differing(&trials) });
        }
        (None, _) => {
            let [first, second] = [&values[0], &values[1]].map(SplitValue::to_string);
            let (key, count, all) = (name.to_owned(), values.len(), list(&values));
            return Err(SplitError::ManyValues { key, count, all, first, second });
        }
    };
    let (mut before, mut after, mut others) = (Vec::new(), Vec::new(), 0);
    for trial in trials {
        match key.of(&trial) {
            Some(value) if value == old => before.push(trial),
            Some(value) if value == new => after.push(trial),
            _ => others += 1,
        }
    }
    let by = SplitBy { key: name.to_owned(), before: old.to_string(), after: new.to_string(), others };
    Ok(SplitTrials { by, key, before, after })
}

/// The two values that `named` names, a comma between them.
fn pick(name: &str, named: &str, values: &[SplitValue]) -> Result<(SplitValue, SplitValue), SplitError> {
    let pair = |old: &SplitValue| {
        values.iter().find(|new| format!("{old},{new}") == named).map(|new| (old.clone(), new.clone()))
    };
    match values.iter().find_map(pair) {
        Some((old, new)) if old != new => return Ok((old, new)),
        Some((old, _)) => {
            let (key, value) = (name.to_owned(), old.to_string());
            return Err(SplitError::SameValue { key, value, all: list(values) });
        }
        None => {}
    }
    let Some((old, new)) = named.split_once(',') else {
        let (key, value) = (name.to_owned(), named.to_owned());
        return Err(SplitError::OneValue { key, value, all: list(values) });
    };
    let unknown = [old, new].into_iter().find(|one| !values.iter().any(|value| value.to_string() == *one));
    let (key, value) = (name.to_owned(), unknown.unwrap_or(named).to_owned());
    Err(SplitError::UnknownValue { key, value, all: list(values) })
}

impl SplitKey {
    /// The key of this name. Words of the design go before settings.
    fn named(name: &str, trials: &[Trial]) -> Result<SplitKey, SplitError> {
        let known = SplitKey::all(trials).into_iter().find(|key| key.name() == name);
        known.ok_or_else(|| SplitError::UnknownKey { key: name.to_owned(), differing: differing(trials) })
    }

    /// All keys that trials can differ in.
    fn all(trials: &[Trial]) -> Vec<SplitKey> {
        let settings: BTreeSet<&String> = trials.iter().flat_map(|trial| trial.settings.keys()).collect();
        let mut keys = vec![SplitKey::Path, SplitKey::Generator];
        keys.extend(Axis::ALL.map(SplitKey::Workload));
        keys.extend(settings.into_iter().map(|name| SplitKey::Setting(name.clone())));
        keys
    }

    fn name(&self) -> &str {
        match self {
            SplitKey::Path => "path",
            SplitKey::Generator => "generator",
            SplitKey::Workload(axis) => axis.as_str(),
            SplitKey::Setting(name) => name,
        }
    }

    fn of(&self, trial: &Trial) -> Option<SplitValue> {
        match self {
            SplitKey::Path => Some(SplitValue::Path(trial.path)),
            SplitKey::Generator => Some(SplitValue::Generator(trial.generator)),
            SplitKey::Workload(axis) => Some(SplitValue::Workload(axis.value(&trial.workload))),
            SplitKey::Setting(name) => trial.settings.get(name).cloned().map(SplitValue::Setting),
        }
    }

    /// Each value once, ascending.
    fn values(&self, trials: &[Trial]) -> Vec<SplitValue> {
        let mut values: Vec<SplitValue> = Vec::new();
        for value in trials.iter().filter_map(|trial| self.of(trial)) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        values.sort_by(SplitValue::order);
        values
    }
}

impl SplitValue {
    fn order(&self, other: &SplitValue) -> Ordering {
        match (self, other) {
            (SplitValue::Path(a), SplitValue::Path(b)) => a.cmp(b),
            (SplitValue::Generator(a), SplitValue::Generator(b)) => a.cmp(b),
            (SplitValue::Workload(a), SplitValue::Workload(b)) => a.cmp(b),
            (a, b) => {
                let (a, b) = (a.to_string(), b.to_string());
                match (a.parse::<f64>(), b.parse::<f64>()) {
                    (Ok(a), Ok(b)) => a.total_cmp(&b),
                    _ => a.cmp(&b),
                }
            }
        }
    }
}

impl fmt::Display for SplitValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SplitValue::Path(path) => path.fmt(f),
            SplitValue::Generator(generator) => f.write_str(generator.as_str()),
            SplitValue::Workload(value) => value.fmt(f),
            SplitValue::Setting(value) => f.write_str(value),
        }
    }
}

/// The keys of which trials have two values or more.
fn differing(trials: &[Trial]) -> String {
    let keys = SplitKey::all(trials);
    let names: Vec<&str> =
        keys.iter().filter(|key| key.values(trials).len() > 1).map(SplitKey::name).collect();
    if names.is_empty() {
        "but they differ in nothing".to_owned()
    } else {
        format!("one of {}", names.join(", "))
    }
}

/// `-1, 0 and 50`.
fn list(values: &[SplitValue]) -> String {
    let texts: Vec<String> = values.iter().map(SplitValue::to_string).collect();
    match texts.as_slice() {
        [most @ .., last] if !most.is_empty() => format!("{} and {last}", most.join(", ")),
        _ => texts.concat(),
    }
}

#[cfg(test)]
#[path = "split_tests.rs"]
mod tests;
