//! Where the files of each setting are in sysfs, and which settings the kernel resets with another.

use iopj_core::Setting;

/// Where the files of a setting are in sysfs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Location {
    /// In the queue folder of each device.
    Queue,
    /// In the folder of each cpufreq policy.
    Policy,
    /// In the folder of each idle state of each CPU.
    IdleState,
    /// Below `devices/system/cpu`, once.
    Cpu,
}

pub(super) fn location(setting: Setting) -> Location {
    match setting {
        Setting::Governor | Setting::EnergyPerformancePreference => Location::Policy,
        Setting::Boost | Setting::NoTurbo | Setting::Smt => Location::Cpu,
        Setting::CstateMax => Location::IdleState,
        _ => Location::Queue,
    }
}

/// The file in the folder that [`location`] names.
pub(super) fn file_name(setting: Setting) -> &'static str {
    match setting {
        Setting::Governor => "scaling_governor",
        Setting::Boost => "cpufreq/boost",
        Setting::NoTurbo => "intel_pstate/no_turbo",
        Setting::Smt => "smt/control",
        Setting::CstateMax => "disable",
        _ => setting.name(),
    }
}

/// Settings that the kernel resets when this one changes (an elevator switch sets the queue's depth anew
/// and may switch writeback throttling, blk-mq-sched.c; intel_pstate's `performance` governor overrules
/// the preference): they are put back after it.
pub(super) fn reset_by(setting: Setting) -> &'static [Setting] {
    match setting {
        Setting::Scheduler => &[Setting::NrRequests, Setting::WbtLatUsec],
        Setting::Governor => &[Setting::EnergyPerformancePreference],
        _ => &[],
    }
}
