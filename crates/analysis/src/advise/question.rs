//! What is asked for: an objective, bounds of the latency, a rate, a price; and why a store cannot answer.

use crate::Admission;
use crate::metric::Metric;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// What the best way is best in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Objective {
    /// The most I/Os per joule.
    IosPerJoule,
    /// The least tail latency.
    Latency,
    /// The least CPU time per I/O.
    Cpu,
    /// The most I/Os per second.
    Ios,
}

impl Objective {
    /// All of them.
    pub const ALL: [Objective; 4] =
        [Objective::IosPerJoule, Objective::Latency, Objective::Cpu, Objective::Ios];

    /// The word of options and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Objective::IosPerJoule => "ios_per_joule",
            Objective::Latency => "latency",
            Objective::Cpu => "cpu",
            Objective::Ios => "ios",
        }
    }

    /// The metric by which ways are ranked; latency is that of this percentile.
    pub fn metric(self, percentile: Percentile) -> Metric {
        match self {
            Objective::IosPerJoule => Metric::IosPerJoule,
            Objective::Latency => percentile.metric(),
            Objective::Cpu => Metric::IopsPerCpu,
            Objective::Ios => Metric::Iops,
        }
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that names no objective.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not an objective: use one of {all}",
    all = Objective::ALL.map(Objective::as_str).join(", ")
)]
pub struct UnknownObjective(String);

impl FromStr for Objective {
    type Err = UnknownObjective;

    fn from_str(text: &str) -> Result<Objective, UnknownObjective> {
        let named = Objective::ALL.into_iter().find(|one| one.as_str() == text);
        named.ok_or_else(|| UnknownObjective(text.to_owned()))
    }
}

/// A percentile that may be bounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Percentile {
    /// The 99th.
    #[default]
    #[serde(rename = "p99")]
    P99,
    /// The 99.9th.
    #[serde(rename = "p99.9")]
    P99_9,
}

impl Percentile {
    /// Its metric.
    pub fn metric(self) -> Metric {
        match self {
            Percentile::P99 => Metric::LatencyP99,
            Percentile::P99_9 => Metric::LatencyP99_9,
        }
    }

    /// The share of I/Os that take no longer.
    pub fn share(self) -> f64 {
        match self {
            Percentile::P99 => 0.99,
            Percentile::P99_9 => 0.999,
        }
    }

    /// `p99` or `p99.9`.
    pub fn as_str(self) -> &'static str {
        match self {
            Percentile::P99 => "p99",
            Percentile::P99_9 => "p99.9",
        }
    }
}

/// The most that a percentile may be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bound {
    /// The percentile.
    pub percentile: Percentile,
    /// Its greatest value in ns.
    pub ns: f64,
}

/// What is asked of a store.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AdviseQuestion {
    /// What the best way is best in; without one, I/Os per joule where joules were measured, else CPU time.
    pub objective: Option<Objective>,
    /// The bounds that a way must meet; the front's latency is the percentile of the first, else p99.
    pub bounds: Vec<Bound>,
    /// I/Os per second of all jobs together; without one, every load that was measured is answered.
    pub rate: Option<u64>,
    /// The price of a kWh, in any currency.
    pub price_per_kwh: Option<f64>,
    /// Which trials compete.
    pub admission: Admission,
}

impl AdviseQuestion {
    /// The percentile of the front.
    pub fn percentile(&self) -> Percentile {
        self.bounds.first().map_or(Percentile::P99, |bound| bound.percentile)
    }
}

impl From<Admission> for AdviseQuestion {
    fn from(admission: Admission) -> AdviseQuestion {
        AdviseQuestion { admission, ..AdviseQuestion::default() }
    }
}

/// Why a store cannot answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdviseError {
    /// There is no trial.
    #[error("the store holds no trial: `iopj run --resume STORE` runs the missing ones")]
    Empty,
    /// A program did its own I/O.
    #[error(
        "a program did the I/O, and what it does for an I/O is its own: `iopj winners STORE --axes \
         numjobs,bs --metric {0}_per_joule` (or {0}_per_cpu, {0}) says which variant is best"
    )]
    Program(String),
    /// The processor was emulated.
    #[error(
        "times and joules mean nothing under {0}, so no path can be advised: measure on a real machine, or \
         see `iopj winners` for counts"
    )]
    Emulated(String),
    /// Every path is a baseline.
    #[error(
        "no path can be advised: auto:random and auto:WAY only show what choosing is worth; add auto, or \
         paths that it chooses among, to the study"
    )]
    OnlyBaselines,
    /// No trial competes.
    #[error("no path can be advised: {0}")]
    NobodyCompetes(String),
    /// The objective was not measured.
    #[error(
        "no competing trial measured energy, so --objective ios_per_joule cannot be decided: name a meter \
         under [meters] in the study (`iopj meter list` shows those of this machine; a model's estimates \
         decide nothing), or ask for --objective cpu"
    )]
    NoEnergy,
    /// The objective was not measured.
    #[error("no competing trial has {}, so --objective {objective} cannot be decided", metric.title())]
    Unmeasured {
        /// What was asked for.
        objective: Objective,
        /// What is missing.
        metric: Metric,
    },
    /// A rate was asked for, and all loads are closed.
    #[error(
        "--rate {0}: every trial of this store is a closed loop, which has no rate; a study with `rate_iops` \
         decides, and --write-study FILE writes it"
    )]
    NoOpenLoad(u64),
    /// The most I/Os per second are asked for at a load that gives their number.
    #[error(
        "--rate {0}: at one rate every way that keeps up does the same number of I/Os, so --objective ios \
         has no answer there; leave --rate out to find the highest rate, or ask for the latency, cpu or \
         ios_per_joule"
    )]
    RateOfIos(u64),
    /// A rate that lies below or above all that were measured.
    #[error(
        "--rate {rate}: the store has rates from {least} to {most}, and nothing is extrapolated; a study \
         with that rate decides, and --write-study FILE writes it"
    )]
    RateNotMeasured {
        /// The rate asked for.
        rate: u64,
        /// The least that was measured.
        least: u64,
        /// The greatest.
        most: u64,
    },
}
