//! The two sides of a comparison: the facts about each, and the facts and settings in which they differ.

use crate::admission::{Admission, BarredCounts};
use iopj_core::{CostKind, CostProfile, CostSource};
use iopj_record::{EnergySource, Measurement, StudyRecord, Trial};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// One of the two stores, or sides of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Side {
    /// What emulated the processor; times then mean nothing.
    pub emulated: Option<String>,
    /// How instructions were counted, if those of every competing trial were counted in the same way.
    pub costs: Option<CostSource>,
    /// The study's name.
    pub study: String,
    /// The meter and scope of its energy, estimates left out; absent without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy: Option<EnergySource>,
    /// Its trials.
    pub trials: usize,
    /// Trials that do not compete, by reason.
    #[serde(flatten)]
    pub left_out: BarredCounts,
    /// Why none of them competes; absent if one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nobody: Option<String>,
}

/// A fact or a setting that differs between the stores.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct SideDifference {
    /// Its name.
    pub name: String,
    /// Its value in the first; absent if it has none.
    pub before: Option<String>,
    /// Its value in the second.
    pub after: Option<String>,
}

pub(super) fn side((study, trials): (&StudyRecord, &[Trial]), admission: Admission) -> Side {
    let counting = || trials.iter().filter_map(|trial| admission.admit(trial).ok());
    let mut left_out = BarredCounts::default();
    trials.iter().filter_map(|trial| admission.admit(trial).err()).for_each(|why| left_out.add(why));
    let counted = |costs: &&CostProfile| costs.has(CostKind::Instructions);
    let source = |one: &Measurement| one.costs.as_ref().filter(counted).map(|costs| costs.source.clone());
    let first = counting().next().and_then(source);
    Side {
        emulated: study.emulated.clone(),
        costs: first
            .filter(|first| counting().all(|measurement| source(measurement).as_ref() == Some(first))),
        energy: EnergySource::measured(&[trials]).filter(|_| study.emulated.is_none()),
        study: study.name.clone(),
        trials: trials.len(),
        left_out,
        nobody: admission.why_none_competes(trials),
    }
}

/// Facts about the studies, the most important first.
pub(super) fn differing_facts(before: &StudyRecord, after: &StudyRecord) -> Vec<SideDifference> {
    const FIRST: [&str; 10] = [
        "study",
        "emulated",
        "target",
        "kernel",
        "devices",
        "cpu_model",
        "architecture",
        "iopj_version",
        "iopj_profile",
        "fio_version",
    ];
    let facts = |study: &StudyRecord| {
        let own = [("study", &study.name), ("target", &study.target)];
        let own = own.map(|(name, value)| (name.to_owned(), value.clone()));
        let emulated = study.emulated.iter().map(|emulator| ("emulated".to_owned(), emulator.clone()));
        own.into_iter().chain(emulated).chain(study.provenance.clone()).collect::<BTreeMap<String, String>>()
    };
    let (before, after) = (facts(before), facts(after));
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let rank = |name: &str| FIRST.iter().position(|first| *first == name).unwrap_or(FIRST.len());
    let mut names: Vec<&String> =
        // Two files are two inodes, which says nothing of either.
        names.into_iter().filter(|n| before.get(*n) != after.get(*n) && *n != "target_inode").collect();
    names.sort_by_key(|name| rank(name));
    let value = |facts: &BTreeMap<String, String>, name: &String| facts.get(name).cloned();
    let difference = |name: &String| SideDifference {
        name: name.clone(),
        before: value(&before, name),
        after: value(&after, name),
    };
    names.into_iter().map(difference).collect()
}

/// Settings with one value throughout each store that differ between the stores.
pub(super) fn differing_settings(before: &[Trial], after: &[Trial]) -> Vec<SideDifference> {
    let names: BTreeSet<&String> =
        before.iter().chain(after).flat_map(|trial| trial.settings.keys()).collect();
    let only = |trials: &[Trial], name: &String| {
        let first = trials.first()?.settings.get(name);
        trials.iter().all(|trial| trial.settings.get(name) == first).then(|| first.cloned())
    };
    let difference = |name: &String| {
        let (before, after) = (only(before, name)?, only(after, name)?);
        (before != after).then(|| SideDifference { name: name.clone(), before, after })
    };
    names.into_iter().filter_map(difference).collect()
}
