//! A meter's own clock in a session: found by the load patterns, or trusted.

use super::record::{ClockRecord, MeterRecord};
use iopj_meter::{AlignError, Alignment, Pattern, Reading, Search, align};
use iopj_record::energy::{Mark, MarkKind};

/// The greatest rate at which a clock can part from the host's. Quartz is ten times better: Onset states a
/// minute a month (23 ppm) for its logger, makers of watch crystals ±20 ppm.
const MAX_DRIFT: f64 = 2e-4;
/// Power follows the pattern's edges this much later at the most.
const LAG_NS: u64 = 20_000_000;
/// A live meter's time is looked for this far from where its readings say: the delay of its network.
const LIVE_RANGE_NS: u64 = 2_000_000_000;

/// The meter's own clock in a session, if its time stamps are to place the readings.
///
/// # Errors
/// It was not found.
pub(super) fn of_record(
    record: &MeterRecord,
    readings: &[Reading],
    marks: &[Mark],
) -> Result<Option<Alignment>, AlignError> {
    (record.clock != ClockRecord::Host).then(|| find(record, readings, marks)).transpose()
}

/// Finds a meter's clock.
///
/// # Errors
/// The pattern was not played, or is not in the readings.
pub(crate) fn find(
    record: &MeterRecord,
    readings: &[Reading],
    marks: &[Mark],
) -> Result<Alignment, AlignError> {
    let (expected_offset_ns, range_ns) = match record.clock {
        ClockRecord::Trusted { offset_ns, standard_ns } => {
            let host_ns =
                marks.iter().flat_map(|mark| mark.times_ns.first()).min().copied().unwrap_or_default();
            return Ok(Alignment::trusted(offset_ns, host_ns, standard_ns, MAX_DRIFT));
        }
        ClockRecord::Within { offset_ns, range_ns } => (offset_ns, range_ns),
        ClockRecord::Host | ClockRecord::Own => (offset(readings), LIVE_RANGE_NS + 5 * record.interval_ns),
    };
    let played = played(marks);
    let search = Search { expected_offset_ns, range_ns, max_drift: MAX_DRIFT, lag_ns: LAG_NS };
    // Several channels share the meter's clock, and the first that shows the pattern gives it.
    let mut error = AlignError::NothingPlayed;
    for (index, channel) in record.channels.iter().enumerate() {
        match align(channel, index, readings, &played, &search) {
            Ok(alignment) => return Ok(alignment),
            Err(other) => error = other,
        }
    }
    Err(error)
}

fn played(marks: &[Mark]) -> Vec<Pattern> {
    marks.iter().filter(|mark| mark.kind == MarkKind::Pattern).filter_map(pattern).collect()
}

/// What a user should know of a clock that was found by fewer patterns than were played.
pub(super) fn doubt(alignment: &Alignment, marks: &[Mark]) -> Option<String> {
    let (found, played) = (alignment.patterns(), played(marks).len());
    (found != 0 && found != played).then(|| by_patterns(alignment, marks))
}

/// How a log's clock was found, how wrong it is, and how sure that is. `unix_minus_raw_ns` gives the host's
/// wall time; absent if the log's clock shows no time of day.
pub(super) fn statement(alignment: &Alignment, marks: &[Mark], unix_minus_raw_ns: Option<i64>) -> String {
    if alignment.patterns() == 0 {
        return format!("its clock is trusted, not checked{}", uncertain(alignment, marks));
    }
    let begin_ns = marks.iter().flat_map(|mark| &mark.times_ns).min().copied().unwrap_or_default();
    let offset_s = |unix_minus_raw_ns: i64| {
        alignment.offset_ns(begin_ns as i64).saturating_sub(unix_minus_raw_ns) as f64 * 1e-9
    };
    let offset = unix_minus_raw_ns.map(offset_s).map_or(String::new(), |offset_s| {
        let side = if offset_s < 0.0 { "behind" } else { "ahead of" };
        format!(
            "; its clock is {:.3} s {side} the machine's, and its times are corrected by that",
            offset_s.abs()
        )
    });
    format!("{}{offset}", by_patterns(alignment, marks))
}

fn by_patterns(alignment: &Alignment, marks: &[Mark]) -> String {
    let (found, played) = (alignment.patterns(), played(marks).len());
    let rate = if found == 1 {
        format!("; the drift of its clock is unknown, and up to {:.0} ppm are allowed for", MAX_DRIFT * 1e6)
    } else {
        String::new()
    };
    format!(
        "its readings hold {found} of the {played} load patterns that align its clock{rate}{}",
        uncertain(alignment, marks)
    )
}

fn uncertain(alignment: &Alignment, marks: &[Mark]) -> String {
    let ends_ns = marks.iter().filter(|mark| mark.kind == MarkKind::Load).flat_map(|mark| &mark.times_ns);
    let worst_ns = ends_ns.map(|end_ns| alignment.uncertainty_ns(*end_ns as i64)).fold(0.0, f64::max);
    format!(
        "; in the trials the clock is uncertain by up to {:.3} s (one standard deviation)",
        worst_ns * 1e-9
    )
}

fn pattern(mark: &Mark) -> Option<Pattern> {
    let [begin_ns, edges_ns @ .., end_ns] = &mark.times_ns[..] else { return None };
    Pattern::played(*begin_ns, edges_ns, *end_ns).ok()
}

/// The meter's time less the host's, as the readings say: the median.
fn offset(readings: &[Reading]) -> i64 {
    let apart = |reading: &Reading| Some(reading.own_ns?.saturating_sub_unsigned(reading.end_ns));
    let mut offsets: Vec<i64> = readings.iter().filter_map(apart).collect();
    let middle = offsets.len() / 2;
    if offsets.is_empty() { 0 } else { *offsets.select_nth_unstable(middle).1 }
}
