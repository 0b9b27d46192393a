//! The trials that a claim on one drive, local and remote, compares: those of one path over one wire, and
//! beside them those of the same path on the host that has the drive.

use crate::claims::ClaimContext;
use crate::claims::data::{Shape, TrialSet, without_shape};
use iopj_analysis::grouping::grouped;
use iopj_core::fabric::{HostSide, NicEvidence};
use iopj_core::path::CompletionMode;
use iopj_core::{Submission, Transport, VerdictKind, Workload};
use iopj_record::{EnergySource, Trial};
use std::collections::BTreeMap;

/// The setting that says how a trial reached the drive.
const TRANSPORT: &str = "transport";
/// The setting that says how many cores of the target host were online.
const CORES: &str = "target.cpus_online";
/// The settings of a network card by which interrupts are held back.
const MODERATION: [&str; 6] =
    ["adaptive_rx", "adaptive_tx", "rx_usecs", "rx_frames", "tx_usecs", "tx_frames"];

type Settings = BTreeMap<String, String>;

/// How a trial reached the drive; `None` outside of a study over fabrics.
pub(super) fn transport(trial: &Trial) -> Option<Transport> {
    trial.settings.get(TRANSPORT)?.parse().ok()
}

/// True for a trial on a drive of the machine that did the I/O, without fabrics.
pub(super) fn is_local(trial: &Trial) -> bool {
    matches!(transport(trial), Some(Transport::Local | Transport::Here))
}

/// True for a trial that the host of the remote ones did, on a drive of its own.
pub(super) fn is_here(trial: &Trial) -> bool {
    transport(trial) == Some(Transport::Here)
}

/// Local trials of the host itself, as the paper's were, or of the target host if there are none.
fn nearest(local: Vec<&Trial>) -> Vec<&Trial> {
    let counts = |trial: &Trial| {
        trial.outcome.measurement().is_some_and(|one| one.verdict.kind != VerdictKind::Refuted)
    };
    let is_any_here = local.iter().any(|trial| is_here(trial) && counts(trial));
    local.into_iter().filter(|trial| is_here(trial) == is_any_here).collect()
}

pub(super) fn is_remote(trial: &Trial) -> bool {
    transport(trial).is_some_and(Transport::is_remote)
}

/// True for the paths of the paper: system calls, completed by interrupts.
fn is_papers(trial: &Trial) -> bool {
    trial.path.is_fixed()
        && trial.path.submission() == Submission::Syscall
        && trial.path.completion() == CompletionMode::Interrupt
}

/// Whether the network cards held interrupts back: as the study set them on one host or on both, else as the
/// target host's card was. `None` if that is not known, or if only one of two hosts did.
pub(super) fn is_moderated(trial: &Trial) -> Option<bool> {
    let set: Vec<bool> = HostSide::ALL.into_iter().filter_map(|side| is_set(trial, side)).collect();
    match set.first() {
        Some(first) => set.iter().all(|other| other == first).then_some(*first),
        None => {
            let fabric = trial.outcome.measurement()?.evidence.fabric.as_ref()?;
            let nics = fabric.target.as_ref()?.nics.iter();
            let seen: Vec<bool> =
                nics.filter_map(|nic: &NicEvidence| holds_back(|name| nic.settings.get(name))).collect();
            (!seen.is_empty()).then(|| seen.contains(&true))
        }
    }
}

/// Whether the study makes the card of one host hold interrupts back; `None` if it says nothing about it.
fn is_set(trial: &Trial, side: HostSide) -> Option<bool> {
    holds_back(|name| trial.settings.get(&format!("{}.{name}", side.as_str())))
}

fn holds_back<'s>(setting: impl Fn(&str) -> Option<&'s String>) -> Option<bool> {
    let is_above_zero = |value: &String| value.parse::<u32>().is_ok_and(|value| value > 0);
    let known: Vec<bool> =
        ["adaptive_rx", "rx_usecs"].into_iter().filter_map(&setting).map(is_above_zero).collect();
    (!known.is_empty()).then(|| known.contains(&true))
}

/// True if one core of the target host was online.
fn is_one_core(trial: &Trial) -> bool {
    let seen = |trial: &Trial| {
        let fabric = trial.outcome.measurement()?.evidence.fabric.as_ref()?;
        Some(fabric.target.as_ref()?.cpu.cores)
    };
    trial.settings.get(CORES).is_some_and(|cores| cores == "1") || seen(trial) == Some(1)
}

/// A set for each path, depth and wire, with each combination of settings.
pub(super) fn at_each_depth<'a>(
    trials: &'a [Trial],
    machine: ClaimContext,
    source: Option<&'a EnergySource>,
) -> Vec<TrialSet<'a>> {
    let of = |trial: &'a Trial| {
        let workload = Workload { iodepth: trial.workload.iodepth, ..without_shape(&trial.workload) };
        (trial.path, trial.generator, workload)
    };
    let all = || trials.iter().filter(|trial| is_papers(trial));
    let remote = all().filter(|trial| is_remote(trial)).map(|trial| ((of(trial), &trial.settings), trial));
    let set = |((key, settings), mut own): (_, Vec<&'a Trial>)| {
        let local = all().filter(|trial| is_local(trial) && of(trial) == key);
        own.extend(nearest(local.filter(|trial| agree(&trial.settings, settings, &[])).collect()));
        own
    };
    sets(grouped(remote).into_iter().map(set), machine, source)
}

/// A set for each path and wire on one core of the target host, and each way of holding interrupts back, with
/// the trials that do not. Local trials are those with the most cores online, as the paper's had all.
pub(super) fn over_depth<'a>(
    trials: &'a [Trial],
    machine: ClaimContext,
    source: Option<&'a EnergySource>,
) -> Vec<TrialSet<'a>> {
    let of = |trial: &'a Trial| (trial.path, trial.generator, without_shape(&trial.workload));
    let all = || trials.iter().filter(|trial| is_papers(trial));
    let remote = all().filter(|trial| is_remote(trial) && is_one_core(trial));
    let keyed = remote.map(|trial| ((of(trial), without_moderation(&trial.settings)), trial));
    let mut each: Vec<Vec<&'a Trial>> = Vec::new();
    for ((key, settings), own) in grouped(keyed) {
        let local = all().filter(|trial| is_local(trial) && of(trial) == key);
        let local: Vec<&Trial> = local.filter(|trial| agree(&trial.settings, &settings, &[CORES])).collect();
        let local = with_most_cores(&nearest(local));
        let with = |moderated: bool| {
            let own = own.iter().filter(move |trial| is_moderated(trial) == Some(moderated));
            grouped(own.map(|trial| (&trial.settings, *trial))).into_iter().map(|(_, trials)| trials)
        };
        let without: Vec<&Trial> = with(false).next().unwrap_or_default();
        let sets: Vec<Vec<&Trial>> = with(true).collect();
        let sets = if sets.is_empty() { vec![Vec::new()] } else { sets };
        let joined = |with: Vec<&'a Trial>| [&with[..], &without[..], &local[..]].concat();
        each.extend(sets.into_iter().map(joined).filter(|set| set.iter().any(|trial| is_remote(trial))));
    }
    sets(each, machine, source)
}

/// One set without trials if there is none.
fn sets<'a>(
    each: impl IntoIterator<Item = Vec<&'a Trial>>,
    machine: ClaimContext,
    source: Option<&'a EnergySource>,
) -> Vec<TrialSet<'a>> {
    let mut sets: Vec<TrialSet<'a>> =
        each.into_iter().map(|trials| TrialSet { trials, machine, source }).collect();
    if sets.is_empty() {
        sets.push(TrialSet { trials: Vec::new(), machine, source });
    }
    sets
}

fn without_moderation(settings: &Settings) -> Settings {
    let is_other = |name: &str| {
        let of_card = name.strip_prefix("host.").or_else(|| name.strip_prefix("target."));
        !of_card.is_some_and(|name| MODERATION.contains(&name))
    };
    settings.iter().filter(|(name, _)| is_other(name)).map(|(k, v)| (k.clone(), v.clone())).collect()
}

/// True if a local trial had the settings of remote ones, as far as a local trial has them.
fn agree(local: &Settings, remote: &Settings, except: &[&str]) -> bool {
    let compared = local.iter().filter(|(name, _)| *name != TRANSPORT && !except.contains(&name.as_str()));
    compared.into_iter().all(|(name, value)| remote.get(name) == Some(value))
}

/// Of the local trials of each workload those whose settings left the most cores online.
fn with_most_cores<'a>(local: &[&'a Trial]) -> Vec<&'a Trial> {
    let cores = |trials: &Vec<&Trial>| {
        let measured = trials.iter().filter_map(|trial| trial.outcome.measurement());
        measured.map(|one| one.evidence.cpu.cores).max()
    };
    let most = |(_, alike): (Shape, Vec<&'a Trial>)| {
        let each = grouped(alike.iter().map(|trial| (trial.settings.get(CORES), *trial)));
        each.into_iter().map(|(_, trials)| trials).max_by_key(cores).unwrap_or_default()
    };
    let by_shape = grouped(local.iter().map(|trial| (Shape::of(&trial.workload), *trial)));
    by_shape.into_iter().flat_map(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_core::fabric::{NicEvidence, TargetHostEvidence};
    use iopj_core::{FabricEvidence, Workload};
    use iopj_record::Measurement;
    use iopj_record::Outcome;
    use iopj_record::testing::cells::measurement_of;

    #[test]
    fn local_trials_of_the_host_itself_come_before_those_of_the_target_host() {
        let trial = |transport: &str| {
            let path = "libaio/syscall/interrupt".parse().unwrap();
            let mut trial = Trial::new(path, Workload::default(), Measurement::default().into());
            trial.settings.insert(TRANSPORT.to_owned(), transport.to_owned());
            trial
        };
        let (local, here) = (trial("local"), trial("here"));
        assert!(is_local(&local) && is_local(&here) && !is_local(&trial("loop")));
        assert_eq!(nearest(vec![&local, &here, &local]), [&here]);
        assert_eq!(nearest(vec![&local, &local]), [&local, &local]);
        let failed = Trial { outcome: Outcome::Failed("no drive".to_owned()), ..here };
        assert_eq!(nearest(vec![&local, &failed]), [&local]);
    }

    #[test]
    fn moderation_is_what_the_study_set_on_the_cards_or_what_they_had() {
        let remote = |settings: &[(&str, &str)], seen: &[(&str, &str)]| {
            let mut trial = Trial::new(
                "libaio/syscall/interrupt".parse().unwrap(),
                Workload::default(),
                Measurement::default().into(),
            );
            let own = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            trial.settings = own.collect();
            let seen = seen.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            let nic = NicEvidence { settings: seen.collect(), ..NicEvidence::default() };
            let target = Some(TargetHostEvidence { nics: vec![nic], ..TargetHostEvidence::default() });
            let fabric = FabricEvidence { target, ..FabricEvidence::default() };
            measurement_of(&mut trial).evidence.fabric = Some(Box::new(fabric));
            is_moderated(&trial)
        };
        assert_eq!(remote(&[("target.rx_usecs", "50")], &[("rx_usecs", "0")]), Some(true));
        assert_eq!(remote(&[("target.adaptive_rx", "1"), ("target.rx_usecs", "0")], &[]), Some(true));
        assert_eq!(remote(&[("target.rx_usecs", "0"), ("host.rx_usecs", "0")], &[]), Some(false));
        assert_eq!(
            remote(&[("target.rx_usecs", "0"), ("host.rx_usecs", "9")], &[]),
            None,
            "one of two hosts"
        );
        assert_eq!(remote(&[], &[("rx_usecs", "3"), ("adaptive_rx", "0")]), Some(true));
        assert_eq!(remote(&[], &[("rx_usecs", "0"), ("adaptive_rx", "0")]), Some(false));
        assert_eq!(remote(&[], &[("mtu", "1500")]), None);
    }
}
