//! The conditions of a trial: what else used the processors, and what changed on the machine meanwhile.
//!
//! Only types: `iopj-probe` decides from the evidence. Conditions are shown beside the verdict and never
//! change it.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What disturbed a trial. A disturbed trial is kept but not ranked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// Everything that is known to have disturbed it.
    #[serde(default)]
    pub disturbances: Vec<Disturbance>,
}

impl Conditions {
    /// True if something disturbed the trial.
    pub fn are_disturbed(&self) -> bool {
        !self.disturbances.is_empty()
    }
}

/// All disturbances in one line; empty if there are none.
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
    /// Other processes used the processors more than is allowed.
    Others {
        /// How many processors they used, on average.
        cores: f64,
        /// How many they may use.
        allowed: f64,
    },
    /// A hypervisor gave the processors to others.
    Stolen {
        /// Share of all cores' time.
        share: f64,
    },
    /// Processors were throttled for heat.
    Throttled {
        /// Throttling events of all processors.
        times: u64,
    },
    /// A setting of the power state changed.
    Changed(PowerChange),
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Disturbance::Others { cores, allowed } => {
                write!(f, "other processes used {cores:.2} processors; {allowed:.2} are allowed")
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

/// A setting that changed during a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PowerChange {
    /// Which setting.
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

/// The settings of a machine's power state, none of which may change during a trial.
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
