//! The joules of both hosts together: only where each has one meter of scope `system`, and the two are two
//! instruments.

use super::instrument;
use super::record::MeterRecord;
use iopj_core::Transport;
use iopj_core::energy::{EnergyOutcome, RULES, Scope, TrialEnergy};
use iopj_core::fabric::{BOTH_HOSTS, HostSide, TARGET_METERS};
use iopj_meter::Energy;
use iopj_study::{Meters, Study};
use std::collections::BTreeMap;

/// A meter that measures a whole host, and what it gave.
pub(super) struct Whole {
    pub(super) name: String,
    pub(super) record: MeterRecord,
    pub(super) trials: BTreeMap<u64, Result<Part, String>>,
}

/// The energy of one host over a trial.
#[derive(Clone)]
pub(super) struct Part {
    pub(super) energy: Energy,
    /// Idle power in W, and the energy above it, where it was measured.
    pub(super) above_idle: Option<(f64, Energy)>,
}

/// What the trials of a session lack of the joules of both hosts, and the two parts where there are both.
pub(super) enum Sums {
    /// No host or one has such a meter: nobody expects a sum.
    None,
    /// There is no sum, and why.
    Refused(String),
    /// The sum of each trial, or why it has none.
    Of(BTreeMap<u64, Result<[Part; 2], String>>),
}

impl Sums {
    /// Of the meters of a session whose kernel has this boot id. `transports` are those of its trials.
    pub(super) fn of(
        wholes: &[Whole],
        boot: &str,
        study: Option<&Study>,
        transports: &BTreeMap<u64, Transport>,
    ) -> Sums {
        let (there, here): (Vec<&Whole>, Vec<&Whole>) =
            wholes.iter().partition(|whole| whole.record.there.is_some());
        let ([here], [there]) = (&here[..], &there[..]) else {
            return several(&here, &there).map_or(Sums::None, Sums::Refused);
        };
        if let Some(why) = one_machine(there, boot).or_else(|| one_instrument(here, there, study)) {
            return Sums::Refused(why);
        }
        let of_trial = |position: &u64| (*position, of_trial(*position, [here, there], transports));
        Sums::Of(here.trials.keys().map(of_trial).collect())
    }
}

/// The meters of one host may measure the same.
fn several(here: &[&Whole], there: &[&Whole]) -> Option<String> {
    let (side, wholes) = match (here, there) {
        ([], _) | (_, []) => return None,
        ([_], _) => ("the target host", there),
        _ => ("this host", here),
    };
    let names: Vec<&str> = wholes.iter().map(|whole| whole.name.as_str()).collect();
    Some(format!(
        "there are no joules of both hosts together, because {side} has {} meters of scope `system` ({}): \
         name one in the study",
        names.len(),
        names.join(", ")
    ))
}

fn one_machine(there: &Whole, boot: &str) -> Option<String> {
    let is_here = there.record.there.as_ref().is_some_and(|there| there.boot == boot);
    is_here.then(|| {
        "there are no joules of both hosts together, because the target host is this very machine".to_owned()
    })
}

fn one_instrument(here: &Whole, there: &Whole, study: Option<&Study>) -> Option<String> {
    let of_target = there.name.strip_prefix(TARGET_METERS).unwrap_or(&there.name);
    let fabric = study.and_then(|study| study.fabric.as_ref());
    let tables = [
        table(study.and_then(|study| study.meters.as_ref()), &here.name),
        table(fabric.and_then(|fabric| fabric.meters.as_ref()), of_target),
    ];
    let why = instrument::shared(tables[0], tables[1])?;
    Some(format!(
        "there are no joules of both hosts together, because the meters `{}` and `{}` {why}: give each host \
         its own",
        here.name, there.name
    ))
}

fn table<'s>(meters: Option<&'s Meters>, name: &str) -> Option<&'s toml::Table> {
    match meters {
        Some(Meters::Tables(tables)) => tables.get(name),
        _ => None,
    }
}

fn of_trial(
    position: u64,
    sides: [&Whole; 2],
    transports: &BTreeMap<u64, Transport>,
) -> Result<[Part; 2], String> {
    if let Some(why) = HostSide::ALL.into_iter().find_map(|side| idle_side(position, side, transports)) {
        return Err(why);
    }
    let part = |whole: &Whole| match whole.trials.get(&position) {
        Some(Ok(part)) => Ok(part.clone()),
        Some(Err(reason)) => Err(format!("of `{}`: {reason}", whole.name)),
        None => Err(format!("of `{}`: the meter took no part", whole.name)),
    };
    let [here, there] = sides.map(part);
    Ok([here?, there?])
}

/// Why the joules of one host are not those of a trial: the other did its I/O alone.
pub(super) fn idle_side(
    position: u64,
    side: HostSide,
    transports: &BTreeMap<u64, Transport>,
) -> Option<String> {
    let transport = transports.get(&position).filter(|transport| !transport.is_remote())?;
    let (other, name) = match transport.is_on_target() {
        true => (HostSide::Target, "the target host"),
        false => (HostSide::Host, "this host"),
    };
    let why = || format!("by `{transport}` {name} does the I/O alone, so only its own joules count");
    (side != other).then(why)
}

/// A sum in the store's words.
pub(super) fn trial_energy(outcome: EnergyOutcome) -> TrialEnergy {
    TrialEnergy {
        meter: BOTH_HOSTS.to_owned(),
        scope: Scope::System,
        channels: Vec::new(),
        estimated: false,
        rules: RULES,
        outcome,
    }
}
