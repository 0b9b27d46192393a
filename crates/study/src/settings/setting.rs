//! The names of settings and the values that each takes; their files are in `attribute`.

use super::SettingsError;
use std::fmt;
use std::str::FromStr;

/// One setting of the host, by the name that study files use: the allow-list. Nothing else is ever written.
///
/// `Display`, `FromStr` and serde use the name. The order (`Ord`) is one to set them in: what the kernel
/// resets when another setting changes comes after that one. Sources: Documentation/ABI/stable/sysfs-block,
/// Documentation/admin-guide/pm/{cpufreq,cpuidle,intel_pstate}.rst,
/// Documentation/ABI/testing/sysfs-devices-system-cpu.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Setting {
    /// `queue/io_poll_delay`: -1 polls all the time, 0 lets the kernel choose the sleep, more is a sleep in
    /// us.
    IoPollDelay,
    /// `queue/scheduler`: the I/O scheduler.
    Scheduler,
    /// `queue/nomerges`: 0 merges, 1 tries only simple merges, 2 none.
    Nomerges,
    /// `queue/rq_affinity`: 0 completes anywhere, 1 on the submitting CPU's group, 2 on the submitting CPU.
    RqAffinity,
    /// `queue/nr_requests`: requests that the scheduler or the driver queues.
    NrRequests,
    /// `queue/wbt_lat_usec`: the latency that writeback throttling aims at in us; 0 is off.
    WbtLatUsec,
    /// `queue/read_ahead_kb`: read-ahead in KiB.
    ReadAheadKb,
    /// `queue/max_sectors_kb`: the largest request in KiB.
    MaxSectorsKb,
    /// `queue/add_random`: 1 feeds the entropy pool with completions.
    AddRandom,
    /// `queue/io_timeout`: the time in ms after which the kernel takes a request for hung.
    IoTimeout,
    /// `queue/iostats`: 1 counts the device's requests in its statistics.
    Iostats,
    /// `queue/iostats_passthrough`: 1 counts passed-through commands in the device's statistics (Linux 6.12
    /// and newer).
    IostatsPassthrough,
    /// `cpufreq/policy*/scaling_governor`, on every policy.
    Governor,
    /// `cpufreq/policy*/energy_performance_preference`, on every policy.
    EnergyPerformancePreference,
    /// `cpufreq/boost`: 1 allows turbo frequencies.
    Boost,
    /// `intel_pstate/no_turbo`: 1 forbids turbo frequencies.
    NoTurbo,
    /// `cpu*/cpuidle/state*/disable`: idle states of a higher index are disabled on every CPU; the others are
    /// as they were before the run.
    CstateMax,
    /// `smt/control`: `on` or `off`.
    Smt,
}

/// Where the files of a setting lie in sysfs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the queue folder of each device.
    Queue,
    /// In the folder of each cpufreq policy.
    Policy,
    /// In the folder of each idle state of each CPU.
    IdleState,
    /// Below `devices/system/cpu`, once.
    Cpu,
}

impl Setting {
    /// Every setting, in the order of the documentation.
    pub fn all() -> [Setting; 18] {
        use Setting::*;
        [
            IoPollDelay,
            Scheduler,
            Nomerges,
            RqAffinity,
            NrRequests,
            WbtLatUsec,
            ReadAheadKb,
            MaxSectorsKb,
            AddRandom,
            IoTimeout,
            Iostats,
            IostatsPassthrough,
            Governor,
            EnergyPerformancePreference,
            Boost,
            NoTurbo,
            CstateMax,
            Smt,
        ]
    }

    /// The name in study files.
    pub fn name(self) -> &'static str {
        match self {
            Setting::IoPollDelay => "io_poll_delay",
            Setting::Scheduler => "scheduler",
            Setting::Nomerges => "nomerges",
            Setting::RqAffinity => "rq_affinity",
            Setting::NrRequests => "nr_requests",
            Setting::WbtLatUsec => "wbt_lat_usec",
            Setting::ReadAheadKb => "read_ahead_kb",
            Setting::MaxSectorsKb => "max_sectors_kb",
            Setting::AddRandom => "add_random",
            Setting::IoTimeout => "io_timeout",
            Setting::Iostats => "iostats",
            Setting::IostatsPassthrough => "iostats_passthrough",
            Setting::Governor => "governor",
            Setting::EnergyPerformancePreference => "energy_performance_preference",
            Setting::Boost => "boost",
            Setting::NoTurbo => "no_turbo",
            Setting::CstateMax => "cstate_max",
            Setting::Smt => "smt",
        }
    }

    /// True for an attribute of a block device's queue.
    pub(crate) fn is_of_queue(self) -> bool {
        self.place() == Place::Queue
    }

    pub(super) fn place(self) -> Place {
        match self {
            Setting::Governor | Setting::EnergyPerformancePreference => Place::Policy,
            Setting::Boost | Setting::NoTurbo | Setting::Smt => Place::Cpu,
            Setting::CstateMax => Place::IdleState,
            _ => Place::Queue,
        }
    }

    /// The file in the folder that `place` tells.
    pub(super) fn file(self) -> &'static str {
        match self {
            Setting::Governor => "scaling_governor",
            Setting::Boost => "cpufreq/boost",
            Setting::NoTurbo => "intel_pstate/no_turbo",
            Setting::Smt => "smt/control",
            Setting::CstateMax => "disable",
            _ => self.name(),
        }
    }

    /// Settings that the kernel resets when this one changes (an elevator switch sets the queue's depth anew
    /// and may switch writeback throttling, blk-mq-sched.c; intel_pstate's `performance` governor overrules
    /// the preference): they are put back after it.
    pub(super) fn resets(self) -> &'static [Setting] {
        match self {
            Setting::Scheduler => &[Setting::NrRequests, Setting::WbtLatUsec],
            Setting::Governor => &[Setting::EnergyPerformancePreference],
            _ => &[],
        }
    }

    fn expected(self) -> &'static str {
        match self {
            Setting::IoPollDelay => "-1, 0 or a number of microseconds",
            Setting::Scheduler => "the name of a scheduler, such as none or mq-deadline",
            Setting::Nomerges | Setting::RqAffinity => "0, 1 or 2",
            Setting::NrRequests => "a number of 4 or more",
            Setting::WbtLatUsec => "a number of microseconds, or 0 for off",
            Setting::ReadAheadKb => "a number of KiB",
            Setting::MaxSectorsKb => "a number of KiB of 4 or more",
            Setting::IoTimeout => "a number of milliseconds above 0",
            Setting::AddRandom
            | Setting::Iostats
            | Setting::IostatsPassthrough
            | Setting::Boost
            | Setting::NoTurbo => "0 or 1",
            Setting::Governor => "the name of a governor, such as performance or schedutil",
            Setting::EnergyPerformancePreference => {
                "the name of a preference, such as performance, or 0 to 255"
            }
            Setting::CstateMax => "the index of the deepest idle state that stays in use",
            Setting::Smt => "on or off",
        }
    }

    fn accepts(self, value: &str) -> bool {
        // A number must be in the form that the kernel prints, or reading it back could not be compared.
        let number = value.parse::<i32>().ok().filter(|number| number.to_string() == value);
        let within = |least: i32, most: i32| number.is_some_and(|number| (least..=most).contains(&number));
        let is_word = |extra: &str| {
            (1..=31).contains(&value.len())
                && value.starts_with(|c: char| c.is_ascii_lowercase())
                && value.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || extra.contains(c))
        };
        match self {
            Setting::IoPollDelay => within(-1, i32::MAX),
            Setting::Nomerges | Setting::RqAffinity => within(0, 2),
            Setting::NrRequests | Setting::MaxSectorsKb => within(4, i32::MAX),
            Setting::WbtLatUsec | Setting::ReadAheadKb | Setting::CstateMax => within(0, i32::MAX),
            Setting::IoTimeout => within(1, i32::MAX),
            Setting::AddRandom
            | Setting::Iostats
            | Setting::IostatsPassthrough
            | Setting::Boost
            | Setting::NoTurbo => within(0, 1),
            Setting::Scheduler | Setting::Governor => is_word("-_"),
            Setting::EnergyPerformancePreference => is_word("_") || within(0, 255),
            Setting::Smt => matches!(value, "on" | "off"),
        }
    }
}

/// Checks that `value` has the form that `setting` takes; whether this host takes it, `set` finds out.
///
/// # Errors
/// [`SettingsError::BadValue`], which tells what the setting takes.
pub fn validate_value(setting: Setting, value: &str) -> Result<(), SettingsError> {
    if setting.accepts(value) {
        return Ok(());
    }
    Err(SettingsError::BadValue { setting, value: value.to_owned(), expected: setting.expected() })
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Setting {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<Setting, SettingsError> {
        Setting::all()
            .into_iter()
            .find(|setting| setting.name() == text)
            .ok_or_else(|| SettingsError::UnknownSetting { given: text.to_owned(), advice: advice(text) })
    }
}

fn advice(text: &str) -> String {
    let likeness = |setting: &Setting| strsim::jaro_winkler(text, setting.name());
    let nearest = Setting::all().into_iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    match nearest.filter(|setting| likeness(setting) > 0.7) {
        Some(setting) => format!("did you mean `{setting}`?"),
        None => format!("there are {}", Setting::all().map(Setting::name).join(", ")),
    }
}

impl serde::Serialize for Setting {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Setting {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Setting, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
