//! Times of a study, such as `10s`.

use crate::error::{StudyError, error};
use iopj_core::{format_duration, parse_duration};
use std::time::Duration;

/// The time in the key `key`.
///
/// # Errors
/// It is not a time, or longer than a week.
pub fn duration(key: &str, text: &str) -> Result<Duration, StudyError> {
    let time = parse_duration(text).map_err(|e| StudyError(format!("{key}: {e}")))?;
    let most = Duration::from_secs(7 * 24 * 3600);
    if time > most {
        return error(format!("{key}: {} is longer than {}", format_duration(time), format_duration(most)));
    }
    Ok(time)
}
