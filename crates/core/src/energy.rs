//! The energy that a trial took, by meter and scope, with its uncertainty.
//!
//! Only types: `iopj-meter` reads and integrates, `iopj-run` runs the meters during the trials,
//! `iopj-store` keeps both, and `iopj-report` compares.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What a meter measures. Scopes are never added up, and never compared with each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// The whole machine at its plug.
    #[default]
    System,
    /// The platform as the processor sees it.
    Psys,
    /// Processor packages.
    Package,
    /// Their cores.
    Core,
    /// The rest of a package.
    Uncore,
    /// Memory.
    Dram,
    /// The drive.
    Device,
}

impl Scope {
    /// All scopes, the widest first: results use the first one that was measured.
    pub const ALL: [Scope; 7] =
        [Scope::System, Scope::Psys, Scope::Package, Scope::Core, Scope::Uncore, Scope::Dram, Scope::Device];

    /// The scope's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::System => "system",
            Scope::Psys => "psys",
            Scope::Package => "package",
            Scope::Core => "core",
            Scope::Uncore => "uncore",
            Scope::Dram => "dram",
            Scope::Device => "device",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A text that is not a scope.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a meter scope: use one of {all}", all = Scope::ALL.map(Scope::as_str).join(", "))]
pub struct UnknownScope(pub String);

impl FromStr for Scope {
    type Err = UnknownScope;
    fn from_str(text: &str) -> Result<Scope, UnknownScope> {
        Scope::ALL
            .into_iter()
            .find(|scope| scope.as_str() == text)
            .ok_or_else(|| UnknownScope(text.to_owned()))
    }
}

/// The version of the rules by which joules are computed from readings; each [`TrialEnergy`] has that of its
/// own.
pub const RULES: u32 = 1;

/// The energy of one trial by one meter, over one scope.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialEnergy {
    /// The meter's name in the study, such as `rapl` or `plug`.
    pub meter: String,
    /// What the meter measures.
    pub scope: Scope,
    /// The meter's channels of that scope; each joule is counted once.
    pub channels: Vec<String>,
    /// True if a model estimated it; an estimate enters no comparison.
    pub estimated: bool,
    /// The version of the rules that computed it; 0 while it is pending, and where an older iopj computed it,
    /// which kept none.
    #[serde(default)]
    pub rules: u32,
    /// The joules, or why there are none.
    pub outcome: EnergyOutcome,
}

/// The joules of a trial, or why there are none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnergyOutcome {
    /// The meter covered the window.
    Complete(Joules),
    /// The meter did not cover the window; why.
    Incomplete(String),
    /// The run that computes the joules when it ends has not ended, or was killed: a run that resumes it
    /// computes them.
    Pending,
}

/// Why there are no joules of a trial while they are [`EnergyOutcome::Pending`].
pub const PENDING: &str = "pending";

/// Energy over the measured window of a trial. Uncertainties are after the GUM (JCGM 100:2008); intervals are
/// of 95 %.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Joules {
    /// Length of the window.
    pub seconds: f64,
    /// Energy in it.
    pub joules: f64,
    /// Standard uncertainty of the random part, in J: what differs from trial to trial.
    pub random_j: f64,
    /// Degrees of freedom of the random part; absent where there are many.
    pub random_dof: Option<f64>,
    /// Interval of the random part alone.
    pub random_interval: [f64; 2],
    /// Interval of random and common parts together; absent where the meter's accuracy is not declared.
    pub interval: Option<[f64; 2]>,
    /// Energy above idle; absent where idle power was not measured.
    pub above_idle: Option<AboveIdle>,
}

/// Energy above what the idle machine takes in the same time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AboveIdle {
    /// Idle power during the trial, in W.
    pub idle_watts: f64,
    /// The difference.
    pub joules: f64,
    /// Interval of its random part.
    pub random_interval: [f64; 2],
}

impl TrialEnergy {
    /// The joules, if the meter covered the window.
    pub fn joules(&self) -> Option<&Joules> {
        match &self.outcome {
            EnergyOutcome::Complete(joules) => Some(joules),
            EnergyOutcome::Incomplete(_) | EnergyOutcome::Pending => None,
        }
    }

    /// Why there are no joules; `None` if there are.
    pub fn lack(&self) -> Option<&str> {
        match &self.outcome {
            EnergyOutcome::Complete(_) => None,
            EnergyOutcome::Incomplete(why) => Some(why),
            EnergyOutcome::Pending => Some(PENDING),
        }
    }
}

impl Joules {
    /// Mean power in W.
    pub fn watts(&self) -> f64 {
        if self.seconds > 0.0 { self.joules / self.seconds } else { 0.0 }
    }
}

/// A stored reading of a channel, on the host's clock.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PowerReading {
    /// `CLOCK_MONOTONIC_RAW` in ns.
    pub at_ns: u64,
    /// Power in W: the value of a gauge, or a counter's mean since the previous reading.
    pub watts: f64,
}
