//! The path of an engine that chooses its way for each request: by what rule it does.

use super::Way;
use std::fmt;
use std::str::FromStr;

/// What follows `auto:` where ways are taken by chance.
const RANDOM: &str = "random";

/// The rule of an adaptive engine as a path: `auto`, or `auto:` and what is below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AutoPath {
    /// The least mean latency, with nothing known beforehand: `auto`, also read as `auto:latency`.
    Latency,
    /// The least CPU time of an I/O: `auto:cpu`.
    Cpu,
    /// The most I/Os per joule: `auto:ios_per_joule`.
    IosPerJoule,
    /// By a policy file: `auto:FILE.toml`.
    Policy(PolicyName),
    /// By chance, for comparison: `auto:random`.
    Random,
    /// Always the same way, for what choosing costs: `auto:io_uring/syscall/interrupt`.
    Pinned(Way),
}

impl AutoPath {
    /// The policy file that it follows.
    pub fn policy(&self) -> Option<&PolicyName> {
        if let AutoPath::Policy(name) = self { Some(name) } else { None }
    }

    /// True if it shows what choosing is worth, or costs, and is nothing to deploy: one that takes ways by
    /// chance, or always the same.
    pub fn is_baseline(&self) -> bool {
        matches!(self, AutoPath::Random | AutoPath::Pinned(_))
    }

    /// The way that it always takes.
    pub fn pinned(&self) -> Option<Way> {
        if let AutoPath::Pinned(way) = self { Some(*way) } else { None }
    }
}

impl fmt::Display for AutoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AutoPath::Latency => f.write_str("latency"),
            AutoPath::Cpu => f.write_str("cpu"),
            AutoPath::IosPerJoule => f.write_str("ios_per_joule"),
            AutoPath::Policy(name) => name.fmt(f),
            AutoPath::Random => f.write_str(RANDOM),
            AutoPath::Pinned(way) => way.fmt(f),
        }
    }
}

impl FromStr for AutoPath {
    type Err = BadAutoPath;

    fn from_str(text: &str) -> Result<AutoPath, BadAutoPath> {
        match text {
            "latency" => Ok(AutoPath::Latency),
            "cpu" => Ok(AutoPath::Cpu),
            "ios_per_joule" => Ok(AutoPath::IosPerJoule),
            RANDOM => Ok(AutoPath::Random),
            file if file.ends_with(SUFFIX) => Ok(AutoPath::Policy(file.parse()?)),
            way => match way.parse::<Way>() {
                Ok(way) => Ok(AutoPath::Pinned(way)),
                Err(_) => Err(BadAutoPath::Rule(way.to_owned())),
            },
        }
    }
}

/// The most bytes of a policy file's name.
const MOST: usize = 60;
/// What it ends with.
const SUFFIX: &str = ".toml";

/// The name of a policy file: up to 60 letters, digits, `-`, `_`, `.` and `/`, with `.toml` at the end.
///
/// The bytes stand in place, so that a path stays a value that is copied.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PolicyName([u8; MOST]);

impl PolicyName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        let len = self.0.iter().position(|byte| *byte == 0).unwrap_or(MOST);
        // Only ASCII is taken.
        std::str::from_utf8(&self.0[..len]).unwrap_or_default()
    }
}

impl FromStr for PolicyName {
    type Err = BadAutoPath;

    fn from_str(text: &str) -> Result<PolicyName, BadAutoPath> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/');
        let is_name = text.strip_suffix(SUFFIX).is_some_and(|stem| !stem.is_empty() && !stem.ends_with('/'));
        if !is_name || text.len() > MOST || !text.bytes().all(is_plain) {
            return Err(BadAutoPath::Name(text.to_owned()));
        }
        let mut bytes = [0; MOST];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Ok(PolicyName(bytes))
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// A text that is no rule of an adaptive engine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAutoPath {
    /// Neither an aim, a policy file nor a way.
    #[error(
        "`{0}` is no rule to choose by: write auto, auto:cpu, auto:ios_per_joule, auto:FILE.toml (a policy \
         file), auto:random, or one way, such as auto:io_uring/syscall/interrupt"
    )]
    Rule(String),
    /// A file's name that a path cannot hold.
    #[error(
        "`{0}` cannot name a policy file here: write up to 60 letters, digits, `-`, `_`, `.` and `/`, with \
         .toml at the end"
    )]
    Name(String),
}
