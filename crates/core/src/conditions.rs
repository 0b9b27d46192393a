//! Under which conditions a trial ran: what else had the processors, and what of the machine changed
//! meanwhile.
//!
//! Only types: `iopj-probe` decides by the evidence. Conditions stand beside the verdict and never change it.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What disturbed a trial. A trial that was disturbed is kept, and not ranked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// Each thing that disturbed it; empty if nothing is known to have.
    #[serde(default)]
    pub disturbances: Vec<Disturbance>,
}

impl Conditions {
    /// True if something disturbed the trial.
    pub fn are_disturbed(&self) -> bool {
        !self.disturbances.is_empty()
    }
}

/// All disturbances in a line; empty if there is none.
impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, disturbance) in self.disturbances.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{disturbance}")?;
        }
        Ok(())
    }
}

/// One thing that disturbed a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disturbance {
    /// Other processes had the processors for more than is allowed.
    Others {
        /// How many of them they had, on the mean.
        cores: f64,
        /// How many are allowed.
        allowed: f64,
    },
    /// A hypervisor gave the processors to others.
    Stolen {
        /// Share of all cores' time.
        share: f64,
    },
    /// Processors were throttled for heat.
    Throttled {
        /// How often, over all of them.
        times: u64,
    },
    /// A setting of the power state was another afterwards.
    Changed(PowerChange),
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Disturbance::Others { cores, allowed } => {
                write!(f, "other processes had {cores:.2} processors, where {allowed:.2} are allowed")
            }
            Disturbance::Stolen { share } => {
                write!(f, "the hypervisor took {:.1} % of the processors' time", 100.0 * share)
            }
            Disturbance::Throttled { times } => {
                write!(f, "processors were throttled for heat ({times} more events)")
            }
            Disturbance::Changed(change) => write!(f, "{change}"),
        }
    }
}

/// A setting that was one thing before a trial and another after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PowerChange {
    /// What it is of.
    pub what: PowerSetting,
    /// The drive, for settings of a drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Before the trial.
    pub before: String,
    /// After it.
    pub after: String,
}

impl fmt::Display for PowerChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = self.device.as_ref().map_or(String::new(), |device| format!(" of {device}"));
        write!(f, "the {}{of} changed from {} to {}", self.what.as_str(), self.before, self.after)
    }
}

/// What of a machine's power state must not change while a trial runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PowerSetting {
    /// cpufreq's governors.
    Governors,
    /// The highest frequencies that are allowed, in kHz.
    FrequencyLimits,
    /// Hints of the processors' own governor.
    EnergyPreferences,
    /// Whether frequencies above the nominal one are allowed.
    Turbo,
    /// The idle states that are enabled.
    IdleStates,
    /// Simultaneous multithreading.
    Smt,
    /// The power policy of PCIe links.
    AspmPolicy,
    /// An NVMe drive's power state.
    NvmePowerState,
    /// Speed and width of a drive's link.
    Link,
}

impl PowerSetting {
    /// The setting in words.
    pub fn as_str(self) -> &'static str {
        match self {
            PowerSetting::Governors => "frequency governor",
            PowerSetting::FrequencyLimits => "frequency limit (kHz)",
            PowerSetting::EnergyPreferences => "energy preference",
            PowerSetting::Turbo => "turbo",
            PowerSetting::IdleStates => "set of idle states",
            PowerSetting::Smt => "multithreading",
            PowerSetting::AspmPolicy => "ASPM policy",
            PowerSetting::NvmePowerState => "NVMe power state",
            PowerSetting::Link => "PCIe link",
        }
    }
}
