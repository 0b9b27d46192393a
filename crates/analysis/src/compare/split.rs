//! The two sides of one store: its trials, split by the value of one key.

use super::cell::IgnoreError;
use crate::grouping::{grouped, list};
use crate::winner::Axis;
use iopj_core::Workload;
use iopj_record::Trial;
use serde::Serialize;
use std::collections::BTreeSet;

/// What distinguishes the two sides of one store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SplitBy {
    /// `path`, `generator`, a key of the workload, or the name of a setting.
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
    #[error(transparent)]
    Ignore(#[from] IgnoreError),
}

/// Something that trials differ in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SplitKey {
    Path,
    Generator,
    Workload(Axis),
    /// Another key of the workload.
    WorkloadKey(&'static str),
    Setting(String),
}

/// The trials of either side.
pub(super) struct SplitTrials {
    pub(super) by: SplitBy,
    pub(super) key: SplitKey,
    pub(super) before: Vec<Trial>,
    pub(super) after: Vec<Trial>,
}

/// Splits the trials of a store by `text`, which is `KEY=BEFORE,AFTER`, or `KEY` alone if it has two values:
/// then the lesser one is before; numbers are ordered by size.
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
            let (key, value) = (name.to_owned(), only.clone());
            return Err(SplitError::AllAlike { key, value, differing: differing(&trials) });
        }
        (None, _) => {
            let [first, second] = [&values[0], &values[1]].map(String::clone);
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
    let by = SplitBy { key: name.to_owned(), before: old, after: new, others };
    Ok(SplitTrials { by, key, before, after })
}

/// The two values in `named`, separated by a comma.
fn pick(name: &str, named: &str, values: &[String]) -> Result<(String, String), SplitError> {
    let pair = |old: &String| {
        values.iter().find(|new| format!("{old},{new}") == named).map(|new| (old.clone(), new.clone()))
    };
    match values.iter().find_map(pair) {
        Some((old, new)) if old != new => return Ok((old, new)),
        Some((old, _)) => {
            let (key, value) = (name.to_owned(), old);
            return Err(SplitError::SameValue { key, value, all: list(values) });
        }
        None => {}
    }
    let Some((old, new)) = named.split_once(',') else {
        let (key, value) = (name.to_owned(), named.to_owned());
        return Err(SplitError::OneValue { key, value, all: list(values) });
    };
    let unknown = [old, new].into_iter().find(|one| !values.iter().any(|value| value == one));
    let (key, value) = (name.to_owned(), unknown.unwrap_or(named).to_owned());
    Err(SplitError::UnknownValue { key, value, all: list(values) })
}

impl SplitKey {
    /// The key of this name. Words of the design take precedence over settings.
    fn named(name: &str, trials: &[Trial]) -> Result<SplitKey, SplitError> {
        let known = SplitKey::all(trials).into_iter().find(|key| key.name() == name);
        known.ok_or_else(|| SplitError::UnknownKey { key: name.to_owned(), differing: differing(trials) })
    }

    /// All keys that trials can differ in.
    fn all(trials: &[Trial]) -> Vec<SplitKey> {
        let settings: BTreeSet<&String> = trials.iter().flat_map(|trial| trial.settings.keys()).collect();
        let mut keys = vec![SplitKey::Path, SplitKey::Generator];
        keys.extend(Axis::ALL.map(SplitKey::Workload));
        let others = Workload::default().keys().into_iter().map(|(name, _)| name);
        let others = others.filter(|name| Axis::ALL.iter().all(|axis| axis.as_str() != *name));
        keys.extend(others.map(SplitKey::WorkloadKey));
        keys.extend(settings.into_iter().map(|name| SplitKey::Setting(name.clone())));
        keys
    }

    pub(super) fn name(&self) -> &str {
        match self {
            SplitKey::Path => "path",
            SplitKey::Generator => "generator",
            SplitKey::Workload(axis) => axis.as_str(),
            SplitKey::WorkloadKey(name) => name,
            SplitKey::Setting(name) => name,
        }
    }

    /// The trial's value, as text.
    fn of(&self, trial: &Trial) -> Option<String> {
        match self {
            SplitKey::Path => Some(trial.path.to_string()),
            SplitKey::Generator => Some(trial.generator.as_str().to_owned()),
            SplitKey::Workload(axis) => Some(axis.value(&trial.workload).to_string()),
            SplitKey::WorkloadKey(name) => {
                trial.workload.keys().into_iter().find_map(|(key, value)| (key == *name).then_some(value))
            }
            SplitKey::Setting(name) => trial.settings.get(name).cloned(),
        }
    }

    /// The distinct values, ascending.
    fn values(&self, trials: &[Trial]) -> Vec<String> {
        let mut valued = grouped(trials.iter().filter_map(|trial| Some((self.of(trial)?, trial))));
        valued.sort_by(|(own, a), (other, b)| match self {
            SplitKey::Path => a[0].path.cmp(&b[0].path),
            SplitKey::Generator => a[0].generator.cmp(&b[0].generator),
            SplitKey::Workload(axis) => axis.value(&a[0].workload).cmp(&axis.value(&b[0].workload)),
            SplitKey::WorkloadKey(_) | SplitKey::Setting(_) => {
                match (own.parse::<f64>(), other.parse::<f64>()) {
                    (Ok(a), Ok(b)) => a.total_cmp(&b),
                    _ => own.cmp(other),
                }
            }
        });
        valued.into_iter().map(|(value, _)| value).collect()
    }
}

/// The keys for which trials have two values or more.
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
