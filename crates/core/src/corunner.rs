//! A co-runner: work that others do beside the I/O, on the same processors.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// What a co-runner does. Each kind leans on another part of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CorunnerKind {
    /// Arithmetic in registers: it loses time, and nothing else.
    Spin,
    /// Loads from memory that no cache holds.
    Memory,
    /// Branches that no predictor knows.
    Branch,
}

impl CorunnerKind {
    /// Every kind.
    pub const ALL: [CorunnerKind; 3] = [CorunnerKind::Spin, CorunnerKind::Memory, CorunnerKind::Branch];
    /// All words, and the one for no co-runner.
    pub const WORDS: [&'static str; 4] = ["none", "spin", "memory", "branch"];
}

impl fmt::Display for CorunnerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            CorunnerKind::Spin => "spin",
            CorunnerKind::Memory => "memory",
            CorunnerKind::Branch => "branch",
        })
    }
}

/// A text that is not a co-runner.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a co-runner; write spin, memory, branch or none")]
pub struct UnknownCorunner(pub String);

impl FromStr for CorunnerKind {
    type Err = UnknownCorunner;

    fn from_str(text: &str) -> Result<CorunnerKind, UnknownCorunner> {
        let found = CorunnerKind::ALL.into_iter().find(|kind| kind.to_string() == text);
        found.ok_or_else(|| UnknownCorunner(text.to_owned()))
    }
}

/// The co-runner of a workload: one thread for each of its processors.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Corunner {
    /// What it does.
    pub kind: CorunnerKind,
    /// Its processors, in ascending order; empty means those of the jobs.
    pub cpus: Vec<u32>,
    /// Its niceness, see nice(2): fio's word.
    pub nice: i8,
}

impl Corunner {
    /// The niceness that Linux has.
    pub const NICE: RangeInclusive<i8> = -20..=19;

    /// A co-runner that gives way to the I/O as far as the scheduler lets it, on the jobs' processors.
    pub fn of(kind: CorunnerKind) -> Corunner {
        Corunner { kind, cpus: Vec::new(), nice: *Corunner::NICE.end() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_their_words() {
        for kind in CorunnerKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.to_string());
            assert!(CorunnerKind::WORDS.contains(&kind.to_string().as_str()));
        }
        let message = "none".parse::<CorunnerKind>().unwrap_err().to_string();
        assert_eq!(message, "`none` is not a co-runner; write spin, memory, branch or none");
    }
}
