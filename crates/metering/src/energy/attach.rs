//! Adds a meter's log to a store after its study, aligned by the load pattern or by a trusted clock.

use super::align;
use super::compute::recompute;
use super::config::{self, LOG, MeterSource, MeterSpecs};
use super::record::{ClockRecord, MeterRecord};
use super::row;
use crate::unix_ns;
use iopj_meter::log::{Log, LogConfig, LogFormat};
use iopj_meter::{AlignError, Reading};
use iopj_record::energy::{Mark, Session};
use iopj_store::{Store, StoreError};
use iopj_study::{Study, StudyError};
use serde_json::{Map, Value};
use std::time::Duration;

/// How far a log's clock may be wrong, if nobody says.
const RANGE: Duration = Duration::from_secs(600);
/// Standard uncertainty of a clock that is trusted.
const TRUSTED_NS: f64 = 1e9;
/// An earlier time is no time of day but counts from a start of its own: ten years since 1970.
const OWN_START_NS: i64 = 315_360_000_000_000_000;

/// Why a log cannot be attached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The study's own text.
    #[error(transparent)]
    Study(#[from] StudyError),
    /// The load pattern.
    #[error(transparent)]
    Align(#[from] AlignError),
    /// No trials to attach it to.
    #[error(
        "`{0}` was written without marks of its trials' load: run its study again with a [meters.NAME] \
         table of kind `log`"
    )]
    NoMarks(std::path::PathBuf),
    /// The log is of another time.
    #[error("the log has no value from the time of the study: give the log of that day, or its --time-zone")]
    OtherTime,
    /// A log without a time of day cannot be trusted.
    #[error(
        "the log counts time from its own start, so its clock cannot be trusted: leave --trust-clock out"
    )]
    OwnStart,
    /// Nor can it be wrong.
    #[error(
        "the log counts time from its own start, so there is no clock that could be wrong: leave \
         --clock-within out"
    )]
    OwnStartWithin,
}

/// How to read the log of a study, and the meter's name, as the study says: by default a HOBOware export
/// called `log`. The keys in `said` replace those of the study's table.
///
/// # Errors
/// The store has no marks, its study cannot be read, or a value in `said` is wrong.
pub fn log_of(store: &Store, said: Map<String, Value>) -> Result<(String, LogConfig), AttachError> {
    // First: no log and no key helps a store without marks.
    let study_s = times(store)?.ok_or_else(|| AttachError::NoMarks(store.path().to_owned()))?;
    let study = Study::parse(&store.study()?.text, "the store's study")?;
    let specs = match config::meter_specs(study.meters.as_ref(), "the store's study")? {
        MeterSpecs::Named(specs) => specs,
        MeterSpecs::None | MeterSpecs::Local => Vec::new(),
    };
    let logs = specs.into_iter().find_map(|(spec, source)| match source {
        MeterSource::Log(config) => Some((spec.name, *config)),
        _ => None,
    });
    let (name, config) = logs.unwrap_or_else(|| (LOG.to_owned(), LogConfig::new(LogFormat::Hobo)));
    Ok((name, LogConfig { study_s: Some(study_s), ..config::with(&config, said)? }))
}

/// When the study ran, in s since 1970.
fn times(store: &Store) -> Result<Option<[i64; 2]>, StoreError> {
    let mut all: Option<[i64; 2]> = None;
    for session in store.sessions()? {
        let Some(span) = span(&store.marks(session.id)?) else { continue };
        let unix_s = |raw_ns: u64| session.unix_minus_raw_ns.saturating_add_unsigned(raw_ns) / 1_000_000_000;
        let [begin_s, end_s] = span.map(unix_s);
        all = Some(all.map_or([begin_s, end_s], |[first, last]| [first.min(begin_s), last.max(end_s)]));
    }
    Ok(all)
}

/// What is believed of a log's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogClock {
    /// It is right.
    Trusted,
    /// It is wrong by up to this, ten minutes if nobody says; the load pattern tells it.
    Within(Option<Duration>),
}

/// Adds a log to the store under a meter's name, in place of an earlier one, and recomputes the energy of all
/// trials. Returns notes for the user: of each session how the log's clock was found and how sure it is.
///
/// # Errors
/// [`AttachError`]; then the store is as before.
pub fn attach(store: &mut Store, name: &str, log: &Log, clock: LogClock) -> Result<Vec<String>, AttachError> {
    let (mut attached, mut clocks) = (Vec::new(), Vec::new());
    let mut of_other_time = None;
    for session in store.sessions()? {
        let marks = store.marks(session.id)?;
        let Some([begin_ns, end_ns]) = span(&marks) else { continue };
        let record = record(log, of_session(&session, log, clock, [begin_ns, end_ns])?);
        let readings = within(log, &record, [begin_ns, end_ns]);
        if readings.is_empty() {
            of_other_time = Some(AttachError::OtherTime);
            continue;
        }
        let alignment = align::find(&record, &readings, &marks)?;
        let wall = (!has_own_start(log)).then_some(session.unix_minus_raw_ns);
        let doubt = align::doubt(&alignment, &marks);
        clocks.push((doubt, align::statement(&alignment, &marks, wall)));
        attached.push((session.id, record, readings));
    }
    if attached.is_empty() {
        return Err(of_other_time.unwrap_or_else(|| AttachError::NoMarks(store.path().to_owned())));
    }
    for (session, record, readings) in attached {
        let text = serde_json::to_string(&record).unwrap_or_default();
        let meter = store.add_meter(session, name, &text)?;
        store.add_readings(meter, &readings.iter().filter_map(row).collect::<Vec<_>>())?;
    }
    let of_meter = |text: &str| format!("the meter `{name}`: {text}");
    let mut notes = log.notes.clone();
    notes.extend(clocks.iter().map(|(_, statement)| of_meter(statement)));
    // The statement says it already.
    let said: Vec<String> = clocks.iter().filter_map(|(doubt, _)| Some(of_meter(doubt.as_ref()?))).collect();
    notes.extend(recompute(store)?.into_iter().filter(|note| !said.contains(note)));
    let text = [&[format!("a log was attached as the meter `{name}`")], &notes[..]].concat().join("; ");
    store.add_event(unix_ns(), "meter", &text)?;
    Ok(notes)
}

/// Begin and end of all that a session marked.
fn span(marks: &[Mark]) -> Option<[u64; 2]> {
    let times = || marks.iter().flat_map(|mark| &mark.times_ns).copied();
    Some([times().min()?, times().max()?])
}

/// Where a log's clock is believed to be in a session.
fn of_session(
    session: &Session,
    log: &Log,
    clock: LogClock,
    [begin_ns, end_ns]: [u64; 2],
) -> Result<ClockRecord, AttachError> {
    let times = || log.readings.iter().filter_map(|reading| reading.own_ns);
    let (Some(first_ns), Some(last_ns)) = (times().min(), times().max()) else {
        return Err(AttachError::OtherTime);
    };
    match (clock, has_own_start(log)) {
        (LogClock::Trusted, true) => Err(AttachError::OwnStart),
        (LogClock::Trusted, false) => {
            Ok(ClockRecord::Trusted { offset_ns: session.unix_minus_raw_ns, standard_ns: TRUSTED_NS })
        }
        (LogClock::Within(range), false) => {
            let range_ns = range.unwrap_or(RANGE).as_nanos() as u64;
            Ok(ClockRecord::Within { offset_ns: session.unix_minus_raw_ns, range_ns })
        }
        (LogClock::Within(Some(_)), true) => Err(AttachError::OwnStartWithin),
        // The first pattern lies anywhere in it, or before it if only a later one is in it.
        (LogClock::Within(None), true) => {
            let earliest_ns = first_ns.saturating_sub_unsigned(end_ns - begin_ns);
            let half_ns = (last_ns - earliest_ns) / 2;
            let offset_ns = earliest_ns.saturating_add(half_ns).saturating_sub_unsigned(begin_ns);
            Ok(ClockRecord::Within { offset_ns, range_ns: half_ns.unsigned_abs() })
        }
    }
}

/// Whether its clock shows no time of day.
fn has_own_start(log: &Log) -> bool {
    log.readings
        .iter()
        .filter_map(|reading| reading.own_ns)
        .max()
        .is_some_and(|last_ns| last_ns < OWN_START_NS)
}

fn record(log: &Log, clock: ClockRecord) -> MeterRecord {
    let interval_ns = interval(&log.readings);
    MeterRecord {
        kind: LOG.to_owned(),
        interval_ns,
        clock,
        age_ns: 0,
        bridge_ns: 3 * interval_ns,
        channels: vec![log.channel.clone()],
        model: None,
        there: None,
    }
}

/// The median time between readings.
fn interval(readings: &[Reading]) -> u64 {
    let apart = |pair: &[Reading]| Some(pair[1].own_ns?.abs_diff(pair[0].own_ns?));
    let mut apart: Vec<u64> = readings.windows(2).filter_map(apart).collect();
    let middle = apart.len() / 2;
    if apart.is_empty() { 0 } else { *apart.select_nth_unstable(middle).1 }
}

/// The readings that can belong to a session.
fn within(log: &Log, record: &MeterRecord, [begin_ns, end_ns]: [u64; 2]) -> Vec<Reading> {
    let (offset_ns, range_ns) = match record.clock {
        ClockRecord::Within { offset_ns, range_ns } => (offset_ns, range_ns),
        ClockRecord::Trusted { offset_ns, .. } => (offset_ns, RANGE.as_nanos() as u64),
        ClockRecord::Host | ClockRecord::Own => (0, u64::MAX),
    };
    let from_ns = offset_ns.saturating_add_unsigned(begin_ns).saturating_sub_unsigned(range_ns);
    let to_ns = offset_ns.saturating_add_unsigned(end_ns).saturating_add_unsigned(range_ns);
    let is_within =
        |reading: &&Reading| reading.own_ns.is_some_and(|own_ns| (from_ns..=to_ns).contains(&own_ns));
    log.readings.iter().filter(is_within).copied().collect()
}
