//! A policy: which ways serve which requests, as learnt from a study or a cost model. Pure; its file is TOML.

mod text;

pub use text::policy_text;

use crate::key::{Direction, Kind};
use crate::provenance::Provenance;
use crate::way::Way;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A way is changed for a gain of so much in two epochs running, or of half of it in four, and so on, unless
/// the policy says otherwise.
const HYSTERESIS: f64 = 0.04;
/// The share of I/Os that try other ways, unless the policy says otherwise.
const EXPLORATION: f64 = 0.003;
/// The most that a policy may explore.
const MOST_EXPLORATION: f64 = 0.5;
/// The widest class of size, which stands for all above 128 KiB.
const WIDEST: u32 = 256 << 10;
/// The highest band of requests in flight, which stands for all above.
const DEEPEST: u32 = 128;

/// What a way is chosen for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aim {
    /// The least mean latency.
    #[default]
    Latency,
    /// The least CPU time for each I/O.
    Cpu,
    /// The most I/Os per joule; the policy must know joules.
    IosPerJoule,
}

impl fmt::Display for Aim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Aim::Latency => "latency",
            Aim::Cpu => "cpu",
            Aim::IosPerJoule => "ios_per_joule",
        })
    }
}

impl FromStr for Aim {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Aim, PolicyError> {
        let aims = [Aim::Latency, Aim::Cpu, Aim::IosPerJoule];
        let is_this = |aim: &Aim| aim.to_string() == text;
        aims.into_iter().find(is_this).ok_or_else(|| PolicyError::Aim { text: text.to_owned() })
    }
}

/// What one I/O is expected to take and to cost on a way. What nobody measured is absent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// The way.
    pub way: Way,
    /// Mean latency in ns.
    pub mean_ns: Option<f64>,
    /// The 99th percentile of latency in ns.
    pub p99_ns: Option<f64>,
    /// CPU time of an I/O in ns, with that of threads of the kernel's that serve it.
    pub cpu_ns: Option<f64>,
    /// Energy of an I/O in joules.
    pub joules: Option<f64>,
}

impl Figures {
    /// A way of which nothing is known.
    pub fn unknown(way: Way) -> Figures {
        Figures { way, mean_ns: None, p99_ns: None, cpu_ns: None, joules: None }
    }
}

/// The ways of one operation, class of size and band of requests in flight, the preferred one first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// Reads or writes.
    pub op: Direction,
    /// The most bytes of the class, a power of two; 262144 stands for all above 131072.
    pub size: u32,
    /// The fewest in flight of the band, a power of two up to 128: 4 stands for 4 to 7.
    pub in_flight: u32,
    /// The ways.
    pub ways: Vec<Figures>,
}

/// Which way to take when. Without a file, [`Policy::default`]: the least latency, interrupt first, and
/// everything else is found out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// What is chosen for.
    #[serde(default)]
    pub aim: Aim,
    /// The 99th percentile of latency that no way may exceed, in ns.
    pub bound_p99_ns: Option<u64>,
    /// A way is changed for a gain of this share in two epochs running, or of half of it in four, and so on.
    #[serde(default = "hysteresis")]
    pub hysteresis: f64,
    /// The most I/Os that try other ways, as a share of all.
    #[serde(default = "exploration")]
    pub exploration: f64,
    /// Where its figures were measured.
    pub provenance: Option<Provenance>,
    /// What it knows.
    #[serde(default, rename = "cell")]
    pub cells: Vec<Cell>,
}

fn hysteresis() -> f64 {
    HYSTERESIS
}

fn exploration() -> f64 {
    EXPLORATION
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            aim: Aim::Latency,
            bound_p99_ns: None,
            hysteresis: HYSTERESIS,
            exploration: EXPLORATION,
            provenance: None,
            cells: Vec::new(),
        }
    }
}

/// What is wrong with a policy.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// It is no TOML, or has other keys.
    #[error("the policy cannot be read: {0}")]
    Text(String),
    /// No such aim.
    #[error("`{text}` is no aim: latency, cpu or ios_per_joule")]
    Aim {
        /// What was given.
        text: String,
    },
    /// The aim needs joules that nobody measured.
    #[error(
        "the aim `ios_per_joule` needs joules of an I/O, and the policy has none: derive it from a study \
         with a meter of the whole machine, or choose `cpu`, which needs no meter"
    )]
    NoJoules,
    /// A number out of its range.
    #[error("{key} = {value} of the policy is not {range}")]
    Range {
        /// The key.
        key: &'static str,
        /// Its value.
        value: f64,
        /// What it may be.
        range: &'static str,
    },
    /// A cell, or a way in a cell, is there twice.
    #[error("the policy has {what} twice: leave one")]
    Twice {
        /// What.
        what: String,
    },
}

impl Policy {
    /// Checks what its types leave open.
    ///
    /// # Errors
    /// The first fault.
    pub fn check(&self) -> Result<(), PolicyError> {
        let range = |key, value: f64, is_in: bool, range| {
            if is_in { Ok(()) } else { Err(PolicyError::Range { key, value, range }) }
        };
        let share = |value: f64, most: f64| (0.0..=most).contains(&value);
        range("hysteresis", self.hysteresis, share(self.hysteresis, 1.0), "between 0 and 1")?;
        let explores = share(self.exploration, MOST_EXPLORATION);
        range("exploration", self.exploration, explores, "between 0 and 0.5")?;
        if let Some(bound) = self.bound_p99_ns {
            range("bound_p99_ns", bound as f64, bound > 0, "above 0")?;
        }
        for (number, cell) in self.cells.iter().enumerate() {
            let is_size = cell.size.is_power_of_two() && (512..=WIDEST).contains(&cell.size);
            range("size", cell.size.into(), is_size, "a power of two from 512 to 262144")?;
            let is_band = cell.in_flight.is_power_of_two() && cell.in_flight <= DEEPEST;
            range("in_flight", cell.in_flight.into(), is_band, "a power of two from 1 to 128")?;
            let is_same = |other: &Cell| {
                (other.op, other.size, other.in_flight) == (cell.op, cell.size, cell.in_flight)
            };
            if self.cells[..number].iter().any(is_same) {
                return Err(PolicyError::Twice { what: format!("the cell {}", cell.name()) });
            }
            cell.check()?;
        }
        if self.aim == Aim::IosPerJoule && !self.knows_joules() {
            return Err(PolicyError::NoJoules);
        }
        Ok(())
    }

    /// True if the joules of any way are known.
    pub fn knows_joules(&self) -> bool {
        self.cells.iter().flat_map(|cell| &cell.ways).any(|way| way.joules.is_some())
    }
}

impl Cell {
    /// The kind of request that it is for.
    pub fn kind(&self) -> Kind {
        Kind::new(self.op, self.size)
    }

    fn name(&self) -> String {
        format!("{} in flight {}", self.kind(), self.in_flight)
    }

    fn check(&self) -> Result<(), PolicyError> {
        for (number, figures) in self.ways.iter().enumerate() {
            if self.ways[..number].iter().any(|other| other.way == figures.way) {
                return Err(PolicyError::Twice { what: format!("{} for {}", figures.way, self.name()) });
            }
            for (key, value) in [
                ("mean_ns", figures.mean_ns),
                ("p99_ns", figures.p99_ns),
                ("cpu_ns", figures.cpu_ns),
                ("joules", figures.joules),
            ] {
                if let Some(value) = value.filter(|value| !value.is_finite() || *value < 0.0) {
                    return Err(PolicyError::Range { key, value, range: "a number of 0 or more" });
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
