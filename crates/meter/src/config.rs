//! Keys that several kinds of meters take.

use crate::meter::{ChannelKind, OpenError, Wrap};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The longest `timeout_s`.
const LONGEST_TIMEOUT_S: f64 = 60.0;
/// The greatest `age_s`.
const LONGEST_AGE_S: f64 = 3600.0;

/// What a value is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ValueKind {
    /// Power at an instant.
    #[default]
    Instant,
    /// Mean power of the window that ends at the instant.
    Average,
    /// Energy that only grows.
    Counter,
}

impl ValueKind {
    pub(crate) fn channel(self, window_ns: u64, joules_per_count: f64, wrap: Option<Wrap>) -> ChannelKind {
        match self {
            Self::Instant => ChannelKind::Instant,
            Self::Average => ChannelKind::Average { window_ns },
            Self::Counter => ChannelKind::Counter { joules_per_count, wrap },
        }
    }
}

/// `timeout_s` as a time limit.
pub(crate) fn time_limit(timeout_s: f64) -> Result<Duration, OpenError> {
    if timeout_s > 0.0 && timeout_s <= LONGEST_TIMEOUT_S {
        Ok(Duration::from_secs_f64(timeout_s))
    } else {
        Err(OpenError(format!(
            "timeout_s = {timeout_s} is not a time limit: use more than 0 and at most {LONGEST_TIMEOUT_S}"
        )))
    }
}

/// Whether `timeout_ms` can be a time limit.
pub(crate) fn is_time_limit_ms(timeout_ms: u64) -> bool {
    (1..=600_000).contains(&timeout_ms)
}

/// Refuses an `age_s` that is not the age of a value.
pub(crate) fn check_age(age_s: f64) -> Result<(), OpenError> {
    if (0.0..=LONGEST_AGE_S).contains(&age_s) {
        Ok(())
    } else {
        Err(OpenError(format!("age_s = {age_s} is not the age of a value: use 0 to {LONGEST_AGE_S}")))
    }
}

/// `age_s` in ns; 0 if it is negative or not a number.
pub(crate) fn age_ns(age_s: f64) -> u64 {
    (age_s * 1e9) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_limits_have_limits() {
        assert_eq!(time_limit(0.25), Ok(Duration::from_millis(250)));
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 61.0] {
            assert!(time_limit(bad).is_err());
        }
        assert_eq!((check_age(0.0), check_age(3600.0)), (Ok(()), Ok(())));
        assert!([-1.0, f64::NAN, 3601.0].into_iter().all(|bad| check_age(bad).is_err()));
        assert_eq!([0.5, -1.0, f64::NAN].map(age_ns), [500_000_000, 0, 0]);
    }
}
