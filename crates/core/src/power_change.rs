//! Settings of the machine's power state that changed during a trial.

use serde::{Deserialize, Serialize};
use std::fmt;

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
    /// The states in which a drive's link may rest.
    LinkStates,
    /// Whether an NVMe drive enters power states by itself.
    NvmeApst,
    /// When an NVMe drive interrupts for completions.
    NvmeCoalescing,
    /// The time in us that a CPU may take to leave an idle state.
    CpuDmaLatency,
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
            PowerSetting::LinkStates => "set of link states",
            PowerSetting::NvmeApst => "autonomous power state transition",
            PowerSetting::NvmeCoalescing => "interrupt coalescing",
            PowerSetting::CpuDmaLatency => "CPU latency limit (us)",
        }
    }
}
