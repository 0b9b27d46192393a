//! The three keys of a study about the steady state that ends a ramp. The words are fio's.

use crate::error::{StudyError, error};
use iopj_core::SteadyStateRule;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The share of the mean rate by which the line may rise or fall, unless the study says otherwise (SNIA's
/// slope criterion).
const CHANGE: f64 = 0.1;
/// In less time, too few I/Os complete between two looks.
const SHORTEST: Duration = Duration::from_millis(100);
/// The longest ramp as a multiple of the shortest one, unless the study says otherwise.
const LONGEST: u32 = 10;

/// What a study says about steady states, from which each workload's ramp gets its [`SteadyStateRule`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SteadyStateKeys {
    is_off: bool,
    /// Of the mean rate, per second.
    slope: Option<f64>,
    duration: Option<Duration>,
    limit: Option<Duration>,
}

impl SteadyStateKeys {
    /// Nothing is judged, as by `steadystate = "none"`.
    pub fn off() -> SteadyStateKeys {
        SteadyStateKeys { is_off: true, ..SteadyStateKeys::default() }
    }

    /// From the values of the three keys.
    ///
    /// # Errors
    /// A bad criterion, or a stretch that is too short.
    pub fn new(
        criterion: Option<&str>,
        duration: Option<Duration>,
        limit: Option<Duration>,
    ) -> Result<SteadyStateKeys, StudyError> {
        if duration.is_some_and(|duration| duration < SHORTEST) {
            return error("steadystate_duration: less than 100ms shows no trend: write more");
        }
        let (is_off, slope) = match criterion {
            None => (false, None),
            Some("none") => (true, None),
            Some(text) => (false, Some(slope(text)?)),
        };
        Ok(SteadyStateKeys { is_off, slope, duration, limit })
    }

    /// The rule for a workload with this `ramp_time`; none without a ramp, or if it is too short to be
    /// judged.
    pub fn rule(&self, ramp_time: Duration) -> Option<SteadyStateRule> {
        let duration = self.duration.unwrap_or(ramp_time);
        if self.is_off || duration < SHORTEST {
            return None;
        }
        let shortest = ramp_time.max(duration);
        let longest = self.limit.unwrap_or(shortest * LONGEST).max(shortest);
        let change = self.slope.map_or(CHANGE, |slope| slope * duration.as_secs_f64());
        Some(SteadyStateRule { duration, change, ramp: [shortest, longest] })
    }

    /// The longest ramp that a workload with this `ramp_time` may have.
    pub fn longest_ramp(&self, ramp_time: Duration) -> Duration {
        self.rule(ramp_time).map_or(ramp_time, |rule| rule.ramp[1])
    }
}

/// `iops_slope:N%`: N per cent of the mean rate in a second.
fn slope(text: &str) -> Result<f64, StudyError> {
    let number = text.strip_prefix("iops_slope:").and_then(|rest| rest.strip_suffix('%'));
    let percent = number.and_then(|number| number.trim().parse::<f64>().ok());
    percent.filter(|percent| percent.is_finite() && *percent > 0.0).map(|percent| percent / 100.0).ok_or_else(
        || {
            StudyError(format!(
                "steadystate: `{text}` is not a criterion: write iops_slope:2% (of the mean rate in a \
                 second), or none"
            ))
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Study;

    fn declared(keys: &str) -> Result<SteadyStateKeys, StudyError> {
        let text = format!("name = \"t\"\npaths = \"available\"\n{keys}\n[[workload]]\nramp_time = \"1s\"\n");
        Study::parse(&text, "t")?.steadystate()
    }

    #[test]
    fn the_keys_are_fios_and_each_ramp_has_its_rule() {
        let ms = Duration::from_millis;
        let plain = declared("").unwrap();
        assert_eq!(plain, SteadyStateKeys::default());
        let tenth =
            |duration, longest| Some(SteadyStateRule { duration, change: 0.1, ramp: [duration, longest] });
        assert_eq!(plain.rule(ms(1000)), tenth(ms(1000), ms(10_000)));
        // No ramp, and one too short to be judged.
        assert_eq!((plain.rule(ms(0)), plain.rule(ms(99))), (None, None));
        assert_eq!(declared("steadystate = \"none\"").unwrap().rule(ms(1000)), None);
        assert_eq!(SteadyStateKeys::off().rule(ms(1000)), None);
        let all = declared(
            "steadystate = \"iops_slope:2%\"\nsteadystate_duration = \"4s\"\nsteadystate_limit = \"1m\"",
        )
        .unwrap();
        let four = ms(4000);
        assert_eq!(
            all.rule(ms(0)),
            Some(SteadyStateRule { duration: four, change: 0.08, ramp: [four, ms(60_000)] })
        );
        assert_eq!(
            all.rule(ms(90_000)),
            Some(SteadyStateRule { duration: four, change: 0.08, ramp: [ms(90_000); 2] })
        );
    }

    #[test]
    fn a_bad_criterion_is_refused() {
        for text in [
            "iops:2%",
            "iops_slope:2",
            "iops_slope:%",
            "iops_slope:-1%",
            "iops_slope:nan%",
            "bw_slope:1%",
            "",
        ] {
            let message = declared(&format!("steadystate = \"{text}\"")).unwrap_err().to_string();
            assert!(message.contains("write iops_slope:2%"), "{message}");
        }
        let message = declared("steadystate_duration = \"99ms\"").unwrap_err().to_string();
        assert!(message.contains("less than 100ms"), "{message}");
        assert!(declared("steadystate_limit = \"soon\"").is_err());
        let message = declared("steadystat = \"none\"").unwrap_err().to_string();
        assert!(message.contains("did you mean `steadystate`"), "{message}");
    }
}
