//! From a store's readings and marks to the joules of its trials.

use super::align;
use super::both::{self, Part, Sums, Whole};
use super::config::logs_of;
use super::model;
use super::record::MeterRecord;
use super::thread::NO_MORE;
use iopj_core::Transport;
use iopj_core::energy::{AboveIdle, EnergyOutcome, Joules, RULES, Scope, TrialEnergy};
use iopj_core::fabric::HostSide;
use iopj_meter::{
    Accuracy, AlignError, Clock, Distribution, Energy, EnergySum, IdlePower, IdleStretch, Incomplete,
    Reading, Trace, Value, Window,
};
use iopj_record::energy::{Mark, MarkKind, MeterRow, RawValue, ReadingRow};
use iopj_record::{Measurement, Trial};
use iopj_store::{Store, StoreError};
use iopj_study::Study;
use std::collections::BTreeMap;

/// Why there are no joules of a meter of kind `log` after the run.
const NOT_ATTACHED: &str =
    "the meter's log is not attached yet: read it out, then run `iopj meter attach STORE LOG`";

/// Recomputes the energy of all trials from the readings and marks, and replaces what was there. Returns
/// notes for the user: meters whose clock was not found, and why there are no joules of both hosts.
///
/// # Errors
/// The store cannot be read or written.
pub fn recompute(store: &mut Store) -> Result<Vec<String>, StoreError> {
    let mut record = store.study()?;
    let cpu_model = record.provenance.remove("cpu_model").unwrap_or_default();
    let study = Study::parse(&record.text, "the store's study").ok();
    let trials = store.all_trials()?;
    let transports = transports(&trials);
    let trials = measurements(&trials);
    let mut energies: BTreeMap<u64, Vec<TrialEnergy>> = BTreeMap::new();
    let mut notes = Vec::new();
    let meters = store.meters()?;
    let ends = ends(store)?;
    for session in store.sessions()? {
        let marks = store.marks(session.id)?;
        let trials: Vec<(u64, &Measurement)> = loaded(&marks, &trials).collect();
        let windows: Vec<(u64, Window)> =
            trials.iter().filter_map(|(p, trial)| Some((*p, window(trial)?))).collect();
        let mut wholes = Vec::new();
        for row in meters.iter().filter(|row| row.session == session.id) {
            let record = meter_record(store, row)?;
            let side = if record.there.is_none() { HostSide::Host } else { HostSide::Target };
            let of_trials = match &record.model {
                Some(text) => model::estimates(&row.name, text, &trials, &cpu_model),
                None => {
                    let (readings, end) = (readings(store, row)?, ends.get(&row.id));
                    let meter = OfMeter { row, record, readings, end };
                    let (of_trials, whole) = meter.trials(&marks, &windows, &mut notes);
                    wholes.extend(whole);
                    of_trials
                }
            };
            for (position, mut energy) in of_trials {
                if let Some(why) = both::idle_side(position, side, &transports) {
                    energy.outcome = EnergyOutcome::Incomplete(why);
                }
                energies.entry(position).or_default().push(energy);
            }
        }
        let sums = Sums::of(&wholes, &session.boot, study.as_ref(), &transports);
        add_sums(sums, &mut energies, &mut notes);
    }
    for (name, scope) in logs_of(store)? {
        let reason = match meters.iter().any(|row| row.name == name) {
            true => "the attached log has no value in this trial's window: attach a log that covers it",
            false => NOT_ATTACHED,
        };
        for position in trials.iter().filter(|(_, trial)| window(trial).is_some()).map(|(at, _)| *at) {
            let of_trial = energies.entry(position).or_default();
            if of_trial.iter().all(|energy| energy.meter != name) {
                let outcome = EnergyOutcome::Incomplete(reason.to_owned());
                let (meter, channels) = (name.clone(), Vec::new());
                let estimated = false;
                of_trial.push(TrialEnergy { meter, scope, channels, estimated, rules: RULES, outcome });
            }
        }
    }
    store.set_energy(&energies.into_iter().collect::<Vec<_>>())?;
    Ok(notes)
}

/// Adds the joules of both hosts, or why there are none.
fn add_sums(sums: Sums, energies: &mut BTreeMap<u64, Vec<TrialEnergy>>, notes: &mut Vec<String>) {
    match sums {
        Sums::None => {}
        Sums::Refused(why) if notes.contains(&why) => {}
        Sums::Refused(why) => notes.push(why),
        Sums::Of(sums) => {
            for (position, parts) in sums {
                let outcome = parts.map_or_else(EnergyOutcome::Incomplete, |parts| of_parts(&parts));
                energies.entry(position).or_default().push(both::trial_energy(outcome));
            }
        }
    }
}

/// Why meters ended while a session ran, by their number in the store: the meter of that name that had begun
/// last by then.
fn ends(store: &Store) -> Result<BTreeMap<i64, String>, StoreError> {
    let end = |(unix_ns, kind, text): (u64, String, String)| {
        let (name, notice) = text.strip_prefix("the meter `")?.split_once("` ")?;
        let why = notice.strip_prefix(NO_MORE).filter(|_| kind == "meter")?;
        Some((unix_ns, name.to_owned(), why.to_owned()))
    };
    let ended: Vec<(u64, String, String)> = store.events()?.into_iter().filter_map(end).collect();
    let (sessions, meters) = (store.sessions()?, store.meters()?);
    let mut begins: Vec<(u64, &MeterRow)> = Vec::new();
    for row in meters.iter().filter(|row| ended.iter().any(|(_, name, _)| *name == row.name)) {
        let session = sessions.iter().find(|session| session.id == row.session);
        if let (Some(session), Some(first)) = (session, store.readings(row.id)?.first()) {
            let unix_ns = session.unix_minus_raw_ns.saturating_add_unsigned(first.begin_ns);
            begins.push((u64::try_from(unix_ns).unwrap_or(0), row));
        }
    }
    let mut ends = BTreeMap::new();
    for (end_ns, name, why) in ended {
        let began = |(begin_ns, row): &&(u64, &MeterRow)| row.name == name && *begin_ns <= end_ns;
        if let Some((_, row)) = begins.iter().rfind(began) {
            ends.entry(row.id).or_insert(why);
        }
    }
    Ok(ends)
}

/// The trials that were measured, by their place in the study's order.
pub(super) fn measurements(trials: &[Trial]) -> BTreeMap<u64, &Measurement> {
    trials.iter().filter_map(|trial| Some((trial.position, trial.outcome.measurement()?))).collect()
}

/// How the drive was reached in each trial, by its place in the study's order; empty without fabrics.
fn transports(trials: &[Trial]) -> BTreeMap<u64, Transport> {
    let transport =
        |trial: &Trial| Some((trial.position, trial.settings.get("transport")?.parse::<Transport>().ok()?));
    trials.iter().filter_map(transport).collect()
}

/// The trials whose load a session marked. A run that died between mark and trial left a mark of a trial that
/// another session measured.
pub(super) fn loaded<'a>(
    marks: &[Mark],
    trials: &BTreeMap<u64, &'a Measurement>,
) -> impl Iterator<Item = (u64, &'a Measurement)> {
    let trial = |mark: &Mark| {
        let (position, end_ns) = (mark.position?, mark.times_ns.last()?);
        let trial = *trials.get(&position)?;
        (trial.window_raw_ns?[1] == *end_ns).then_some((position, trial))
    };
    marks.iter().filter(|mark| mark.kind == MarkKind::Load).filter_map(trial)
}

pub(super) fn window(trial: &Measurement) -> Option<Window> {
    trial.window_raw_ns.map(|[begin_ns, end_ns]| Window { begin_ns, end_ns })
}

pub(super) fn meter_record(store: &Store, row: &MeterRow) -> Result<MeterRecord, StoreError> {
    serde_json::from_str(&row.record).map_err(|error| {
        let path = store.path().to_owned();
        StoreError::Record { path, what: "meter", error }
    })
}

pub(super) fn readings(store: &Store, row: &MeterRow) -> Result<Vec<Reading>, StoreError> {
    let reading = |row: ReadingRow| {
        let value = match row.value {
            RawValue::Count(count) => Value::Count(count),
            RawValue::Watts(watts) => Value::Watts(watts),
        };
        let ReadingRow { channel, begin_ns, end_ns, wall_ns, own_ns, .. } = row;
        Reading { channel: channel as usize, value, begin_ns, end_ns, wall_ns, own_ns }
    };
    Ok(store.readings(row.id)?.into_iter().map(reading).collect())
}

/// Why a window has no joules.
#[derive(Clone, Debug, thiserror::Error)]
enum NoEnergy {
    #[error(transparent)]
    Align(AlignError),
    #[error(transparent)]
    Incomplete(#[from] Incomplete),
    #[error("the meter gave no more readings before the measured window ended: {0}")]
    Ended(String),
    #[error("the meter has no channel")]
    NoChannel,
}

/// A meter of a session with all of its readings.
pub(super) struct OfMeter<'a> {
    pub(super) row: &'a MeterRow,
    pub(super) record: MeterRecord,
    pub(super) readings: Vec<Reading>,
    /// Why it ended while the study ran.
    pub(super) end: Option<&'a String>,
}

impl OfMeter<'_> {
    /// The energy of each trial by scope, or why there is none; and that of the whole host once more, if the
    /// meter measures it, for the joules of both hosts.
    pub(super) fn trials(
        &self,
        marks: &[Mark],
        trials: &[(u64, Window)],
        notes: &mut Vec<String>,
    ) -> (Vec<(u64, TrialEnergy)>, Option<Whole>) {
        let alignment = align::of_record(&self.record, &self.readings, marks);
        let name = &self.row.name;
        match &alignment {
            Ok(Some(alignment)) => {
                notes.extend(
                    align::doubt(alignment, marks).map(|doubt| format!("the meter `{name}`: {doubt}")),
                );
            }
            Ok(None) => {}
            Err(error) => notes.push(format!("the meter `{name}`: {error}")),
        }
        let clock = match &alignment {
            Ok(alignment) => Ok(self.record.clock(alignment.as_ref())),
            Err(error) => Err(NoEnergy::Align(error.clone())),
        };
        let (mut all, mut whole) = (Vec::new(), None);
        for (scope, channels) in self.record.scopes() {
            let scope_of = clock.clone().and_then(|clock| self.scope(&channels, clock, marks));
            let idle = scope_of.as_ref().ok().and_then(|scope| scope.idle(marks));
            let mut parts = BTreeMap::new();
            for (position, window) in trials {
                let energy = scope_of.as_ref().map_err(Clone::clone).and_then(|scope| scope.energy(*window));
                let part = match energy {
                    Ok(energy) => Ok(part(energy, *window, idle.as_ref())),
                    Err(error) => Err(self.reason(error).to_string()),
                };
                let outcome = match &part {
                    Ok(part) => of_parts(std::slice::from_ref(part)),
                    Err(reason) => EnergyOutcome::Incomplete(reason.clone()),
                };
                parts.insert(*position, part);
                let names = channels.iter().map(|index| self.record.channels[*index].name.clone());
                let energy = TrialEnergy {
                    meter: self.row.name.clone(),
                    scope,
                    channels: names.collect(),
                    estimated: false,
                    rules: RULES,
                    outcome,
                };
                all.push((*position, energy));
            }
            if scope == Scope::System {
                let (name, record) = (self.row.name.clone(), self.record.clone());
                whole = Some(Whole { name, record, trials: parts });
            }
        }
        (all, whole)
    }

    /// Readings that are missing because the meter has ended say so.
    fn reason(&self, error: NoEnergy) -> NoEnergy {
        match (&error, self.end) {
            (NoEnergy::Incomplete(Incomplete::Silent | Incomplete::EarlyEnd), Some(end)) => {
                NoEnergy::Ended(end.clone())
            }
            _ => error,
        }
    }

    fn scope<'a>(
        &'a self,
        channels: &[usize],
        clock: Clock<'a>,
        marks: &[Mark],
    ) -> Result<ScopeTraces<'a>, NoEnergy> {
        let mut changes_ns: Vec<u64> = marks.iter().flat_map(changes).copied().collect();
        changes_ns.sort_unstable();
        changes_ns.dedup();
        let trace = |index: &usize| {
            Trace::new(&self.record.channels[*index], *index, &self.readings, clock, &changes_ns)
        };
        let traces = channels.iter().map(trace).collect::<Result<Vec<_>, _>>()?;
        Ok(ScopeTraces { traces, bridge_ns: self.record.bridge_ns })
    }
}

/// When load went on or off, by a mark.
fn changes(mark: &Mark) -> &[u64] {
    match (mark.kind, &mark.times_ns[..]) {
        (MarkKind::Load, times) => times,
        (MarkKind::Pattern, [_, edges @ .., _]) => edges,
        _ => &[],
    }
}

/// The channels of one scope.
struct ScopeTraces<'a> {
    traces: Vec<Trace<'a>>,
    bridge_ns: u64,
}

impl ScopeTraces<'_> {
    /// The channels' sum.
    fn energy(&self, window: Window) -> Result<Energy, NoEnergy> {
        let parts: Result<Vec<Energy>, Incomplete> =
            self.traces.iter().map(|trace| trace.energy(window, self.bridge_ns)).collect();
        sum(parts?).ok_or(NoEnergy::NoChannel)
    }

    /// Idle power through all idle stretches that the meter saw in full.
    fn idle(&self, marks: &[Mark]) -> Option<IdlePower> {
        let stretch = |mark: &Mark| {
            let [begin_ns, end_ns] = mark.times_ns[..] else { return None };
            let window = Window { begin_ns, end_ns };
            Some(IdleStretch { window, energy: self.energy(window).ok()? })
        };
        let idle = marks.iter().filter(|mark| mark.kind == MarkKind::Idle).filter_map(stretch);
        IdlePower::fit(&idle.collect::<Vec<_>>())
    }
}

/// The sum of channels over one window. Their random parts are independent. Their declared accuracy is taken
/// as one error that they share, which is the worst case; if one of them declares none, the sum has none.
fn sum(parts: Vec<Energy>) -> Option<Energy> {
    let seconds = parts.first()?.seconds;
    let joules: f64 = parts.iter().map(|part| part.joules).sum();
    let accuracy = parts.iter().map(|part| Some((part.accuracy?, part.joules))).collect::<Option<Vec<_>>>();
    let accuracy = match accuracy.as_deref() {
        Some([(one, _)]) => Some(*one),
        Some(all) => Some(Accuracy {
            gain: together(all.iter().map(|(accuracy, part)| (accuracy.gain, part / joules))),
            offset: together(all.iter().map(|(accuracy, _)| (accuracy.offset, 1.0))),
        }),
        None => None,
    };
    Some(Energy {
        joules,
        seconds,
        random: parts.into_iter().flat_map(|part| part.random).collect(),
        accuracy,
    })
}

/// Errors with their factors, as one that all share: half-widths or standard deviations add.
fn together(errors: impl Iterator<Item = (Distribution, f64)> + Clone) -> Distribution {
    let is_rectangular = |(error, _): (Distribution, f64)| matches!(error, Distribution::Rectangular(_));
    if errors.clone().all(is_rectangular) {
        let half_width = |(error, factor): (Distribution, f64)| match error {
            Distribution::Rectangular(half) | Distribution::Normal(half) => half.abs() * factor.abs(),
        };
        Distribution::Rectangular(errors.map(half_width).sum())
    } else {
        Distribution::Normal(errors.map(|(error, factor)| error.standard() * factor.abs()).sum())
    }
}

/// The energy of a window with what it is above idle.
fn part(energy: Energy, window: Window, idle: Option<&IdlePower>) -> Part {
    let above_idle = idle.map(|idle| (idle.watts(window), idle.above(window, &energy).energy));
    Part { energy, above_idle }
}

/// A trial's energy by instruments that share nothing, in the store's words.
fn of_parts(parts: &[Part]) -> EnergyOutcome {
    let energy = EnergySum::of(parts.iter().map(|part| part.energy.clone()).collect());
    let Some(energy) = energy else { return EnergyOutcome::Incomplete(NoEnergy::NoChannel.to_string()) };
    let bounds = |interval: iopj_meter::Interval| [interval.low, interval.high];
    let is_finite = |bounds: [f64; 2]| bounds.iter().all(|bound| bound.is_finite());
    let random_interval = bounds(energy.random_interval());
    if !energy.joules().is_finite() || !is_finite(random_interval) {
        return EnergyOutcome::Incomplete(
            "the meter's readings are too few to show their noise: use a longer runtime or a faster meter"
                .to_owned(),
        );
    }
    let above = parts.iter().map(|part| part.above_idle.clone()).collect::<Option<Vec<_>>>();
    let above_idle = above.and_then(|above| {
        let (watts, energies): (Vec<f64>, Vec<Energy>) = above.into_iter().unzip();
        let above = EnergySum::of(energies)?;
        let random_interval = bounds(above.random_interval());
        Some(AboveIdle { idle_watts: watts.iter().sum(), joules: above.joules(), random_interval })
    });
    EnergyOutcome::Complete(Joules {
        seconds: energy.seconds(),
        joules: energy.joules(),
        random_j: energy.random_standard(),
        random_dof: energy.random_dof(),
        random_interval,
        interval: energy.interval().map(bounds).filter(|bounds| is_finite(*bounds)),
        above_idle: above_idle.filter(|above| above.joules.is_finite() && is_finite(above.random_interval)),
    })
}

#[cfg(test)]
mod tests;
