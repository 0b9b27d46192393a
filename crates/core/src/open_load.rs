//! An open load: when I/Os arrive, whatever became of those before, in fio's words.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The spacing of arrivals, as fio's `rate_process`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RateProcess {
    /// Even.
    #[default]
    Linear,
    /// Exponential: the arrivals of many clients that know nothing of each other.
    Poisson,
}

impl RateProcess {
    /// All words.
    pub const WORDS: [&'static str; 2] = ["linear", "poisson"];
}

impl fmt::Display for RateProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RateProcess::Linear => "linear",
            RateProcess::Poisson => "poisson",
        })
    }
}

/// A text that is not a spacing of arrivals.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a rate_process; write linear or poisson")]
pub struct UnknownRateProcess(String);

impl FromStr for RateProcess {
    type Err = UnknownRateProcess;

    fn from_str(text: &str) -> Result<RateProcess, UnknownRateProcess> {
        let all = [RateProcess::Linear, RateProcess::Poisson];
        let found = all.into_iter().find(|process| process.to_string() == text);
        found.ok_or_else(|| UnknownRateProcess(text.to_owned()))
    }
}

/// Times with arrivals and times without, in turn, from the start of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Burst {
    /// How long I/Os arrive at the load's rate.
    pub on: Duration,
    /// How long none arrives then.
    pub off: Duration,
}

/// The arrivals of one job. Up to `iodepth` of its I/Os are in flight; those that are due beyond wait, and
/// their latency runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpenLoad {
    /// I/Os that each job is due to do in a second, within bursts if there are any.
    pub rate_iops: u32,
    /// Their spacing.
    pub rate_process: RateProcess,
    /// The rate at the window's end, if it moves there evenly from `rate_iops`.
    pub rate_iops_end: Option<u32>,
    /// Bursts, if arrivals pause.
    pub burst: Option<Burst>,
}

impl OpenLoad {
    /// The highest rate of a job: at one I/O in 100 ns, pacing takes as long as the I/O.
    pub const MAX_RATE_IOPS: u32 = 10_000_000;

    /// Even arrivals at a rate.
    pub fn at(rate_iops: u32) -> OpenLoad {
        OpenLoad { rate_iops, rate_process: RateProcess::Linear, rate_iops_end: None, burst: None }
    }

    /// I/Os that a job is due to do in a second, on average over a long window with its ramp and its bursts.
    pub fn mean_rate(&self) -> f64 {
        let begin = f64::from(self.rate_iops);
        let rate = self.rate_iops_end.map_or(begin, |end| f64::midpoint(begin, f64::from(end)));
        self.burst.map_or(rate, |Burst { on, off }| rate * on.as_secs_f64() / (on + off).as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_rate_counts_ramp_and_pauses() {
        let load = OpenLoad { rate_iops_end: Some(300), ..OpenLoad::at(100) };
        assert!((load.mean_rate() - 200.0).abs() < 1e-9);
        let burst = Some(Burst { on: Duration::from_millis(10), off: Duration::from_millis(30) });
        assert!((OpenLoad { burst, ..load }.mean_rate() - 50.0).abs() < 1e-9);
        assert!((OpenLoad::at(7).mean_rate() - 7.0).abs() < 1e-9);
    }

    #[test]
    fn processes_are_fios_words() {
        for word in RateProcess::WORDS {
            assert_eq!(word.parse::<RateProcess>().unwrap().to_string(), word);
        }
        let message = "uniform".parse::<RateProcess>().unwrap_err().to_string();
        assert_eq!(message, "`uniform` is not a rate_process; write linear or poisson");
    }
}
