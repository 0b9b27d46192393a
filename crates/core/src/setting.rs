//! Settings of the host by name, and the values that each takes. `iopj-host` knows where their files are.

use std::fmt;
use std::str::FromStr;

/// Defines the settings with the names that study files use.
macro_rules! settings {
    ($(#[$attribute:meta])* pub enum Setting { $($(#[$doc:meta])* $setting:ident = $name:literal,)* }) => {
        $(#[$attribute])*
        pub enum Setting {
            $($(#[$doc])* $setting,)*
        }

        impl Setting {
            /// Every setting, in the order of the documentation.
            pub fn all() -> [Setting; [$($name),*].len()] {
                [$(Setting::$setting),*]
            }

            /// The name in study files.
            pub fn name(self) -> &'static str {
                match self {
                    $(Setting::$setting => $name,)*
                }
            }
        }
    };
}

settings! {
    /// One setting of the host, by the name that study files use: the allow-list. Nothing else is ever
    /// written.
    ///
    /// `Display`, `FromStr` and serde use the name. They can be set in their order (`Ord`): a setting that
    /// the kernel resets when another one changes comes after that one. Sources:
    /// Documentation/ABI/stable/sysfs-block, Documentation/admin-guide/pm/{cpufreq,cpuidle,intel_pstate}.rst,
    /// Documentation/ABI/testing/sysfs-devices-system-cpu, Documentation/ABI/testing/sysfs-bus-pci (`link`),
    /// Documentation/power/pm_qos_interface.rst; NVM Express Base Specification 2.0, Set Features.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Setting {
        /// `queue/io_poll_delay`: -1 polls all the time, 0 lets the kernel choose the sleep, more is a sleep
        /// in us.
        IoPollDelay = "io_poll_delay",
        /// `queue/scheduler`: the I/O scheduler.
        Scheduler = "scheduler",
        /// `queue/nomerges`: 0 merges, 1 tries only simple merges, 2 none.
        Nomerges = "nomerges",
        /// `queue/rq_affinity`: 0 completes anywhere, 1 on the submitting CPU's group, 2 on the submitting
        /// CPU.
        RqAffinity = "rq_affinity",
        /// `queue/nr_requests`: requests that the scheduler or the driver queues.
        NrRequests = "nr_requests",
        /// `queue/wbt_lat_usec`: the latency that writeback throttling aims at in us; 0 is off.
        WbtLatUsec = "wbt_lat_usec",
        /// `queue/read_ahead_kb`: read-ahead in KiB.
        ReadAheadKb = "read_ahead_kb",
        /// `queue/max_sectors_kb`: the largest request in KiB.
        MaxSectorsKb = "max_sectors_kb",
        /// `queue/add_random`: 1 feeds the entropy pool with completions.
        AddRandom = "add_random",
        /// `queue/io_timeout`: the time in ms after which the kernel considers a request hung.
        IoTimeout = "io_timeout",
        /// `queue/iostats`: 1 counts the device's requests in its statistics.
        Iostats = "iostats",
        /// `queue/iostats_passthrough`: 1 counts passed-through commands in the device's statistics (Linux
        /// 6.12 and newer).
        IostatsPassthrough = "iostats_passthrough",
        /// `link/l0s_aspm` of the drive's PCI function: 1 lets its link rest in L0s (Linux 5.6 and newer).
        L0sAspm = "l0s_aspm",
        /// `link/l1_aspm`: 1 lets its link rest in L1.
        L1Aspm = "l1_aspm",
        /// `link/l1_1_aspm`: 1 lets its link rest in L1.1, for which L1 must be allowed.
        L11Aspm = "l1_1_aspm",
        /// `link/l1_2_aspm`: 1 lets its link rest in L1.2, for which L1 must be allowed.
        L12Aspm = "l1_2_aspm",
        /// 1 lets the NVMe drive enter power states by itself (feature 0Ch), by the kernel's table.
        NvmeApst = "nvme_apst",
        /// The power state of the NVMe drive (feature 02h).
        NvmePowerState = "nvme_power_state",
        /// Completions after which the NVMe drive interrupts at once (feature 08h, aggregation threshold).
        NvmeCoalescingEntries = "nvme_coalescing_entries",
        /// The time in us for which the NVMe drive may hold an interrupt back (feature 08h, aggregation
        /// time).
        NvmeCoalescingUsecs = "nvme_coalescing_usecs",
        /// `cpufreq/policy*/scaling_governor`, on every policy.
        Governor = "governor",
        /// `cpufreq/policy*/energy_performance_preference`, on every policy.
        EnergyPerformancePreference = "energy_performance_preference",
        /// `cpufreq/boost`: 1 allows turbo frequencies.
        Boost = "boost",
        /// `intel_pstate/no_turbo`: 1 forbids turbo frequencies.
        NoTurbo = "no_turbo",
        /// `cpufreq/policy*/scaling_max_freq` in kHz, on every policy: the highest frequency that is used.
        /// The kernel sets it anew when turbo is allowed or forbidden.
        ScalingMaxFreq = "scaling_max_freq",
        /// `cpu*/cpuidle/state*/disable`: idle states of a higher index are disabled on every CPU; the others
        /// are as they were before the run.
        CstateMax = "cstate_max",
        /// `smt/control`: `on` or `off`.
        Smt = "smt",
        /// `/dev/cpu_dma_latency`: the time in us that a CPU may take to leave an idle state; a request that
        /// lasts as long as the run.
        CpuDmaLatency = "cpu_dma_latency",
        /// `cpuN/online`: this many cores are online; those with the highest numbers go.
        CpusOnline = "cpus_online",
        /// `net/core/busy_poll`: the time in us for which poll(2) polls a network card.
        BusyPoll = "busy_poll",
        /// `net/core/busy_read`: the time in us for which a read polls a network card.
        BusyRead = "busy_read",
        /// `nvmet_tcp/parameters/idle_poll_period_usecs`: the time in us for which the target of NVMe over
        /// TCP polls its sockets after the last request (Linux 5.13 and newer).
        NvmetIdlePollUsecs = "nvmet_idle_poll_usecs",
        /// Queues of the network card, each for both directions (`ethtool -L combined`).
        NicQueues = "nic_queues",
        /// `mtu` of the network card in bytes.
        Mtu = "mtu",
        /// 1 lets the driver choose `rx_usecs` by the load (`ethtool -C adaptive-rx`).
        AdaptiveRx = "adaptive_rx",
        /// 1 lets the driver choose `tx_usecs` by the load (`ethtool -C adaptive-tx`).
        AdaptiveTx = "adaptive_tx",
        /// The time in us for which the card holds an interrupt back after a packet came (`ethtool -C`).
        RxUsecs = "rx_usecs",
        /// The packets after which the card interrupts at once (`ethtool -C rx-frames`).
        RxFrames = "rx_frames",
        /// As `rx_usecs`, for packets that were sent.
        TxUsecs = "tx_usecs",
        /// As `rx_frames`, for packets that were sent.
        TxFrames = "tx_frames",
        /// `napi_defer_hard_irqs` of the network card: empty polls before its interrupt is on again.
        NapiDeferHardIrqs = "napi_defer_hard_irqs",
        /// `gro_flush_timeout` of the network card in ns: the time between polls without interrupt.
        GroFlushTimeout = "gro_flush_timeout",
        /// `/proc/irq/N/smp_affinity_list` of each interrupt of the network card: the CPUs that may handle
        /// it. Last, because a card may get new interrupts with its queues.
        NicIrqAffinity = "nic_irq_affinity",
    }
}

/// An unknown setting, or a value that it does not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// No setting has this name.
    #[error("there is no setting `{given}`: {advice}")]
    Unknown {
        /// The name given.
        given: String,
        /// The nearest right name, or all of them.
        advice: String,
    },
    /// A value of the wrong form.
    #[error("`{value}` is not valid for `{setting}`: write {expected}")]
    BadValue {
        /// The setting.
        setting: Setting,
        /// The value given.
        value: String,
        /// What the setting takes.
        expected: &'static str,
    },
}

impl Setting {
    /// Whether it belongs to a block device's queue.
    pub fn is_of_queue(self) -> bool {
        use Setting::*;
        !matches!(
            self,
            Governor
                | EnergyPerformancePreference
                | Boost
                | NoTurbo
                | CstateMax
                | ScalingMaxFreq
                | Smt
                | CpuDmaLatency
                | CpusOnline
                | BusyPoll
                | BusyRead
                | NvmetIdlePollUsecs
        ) && !self.is_of_nic()
            && !self.is_of_link()
            && !self.is_of_controller()
    }

    /// Whether it belongs to the PCIe link of a drive.
    pub fn is_of_link(self) -> bool {
        matches!(self, Setting::L0sAspm | Setting::L1Aspm | Setting::L11Aspm | Setting::L12Aspm)
    }

    /// Whether it belongs to an NVMe controller, which the kernel must drive for it to be set.
    pub fn is_of_controller(self) -> bool {
        matches!(
            self,
            Setting::NvmeApst
                | Setting::NvmePowerState
                | Setting::NvmeCoalescingEntries
                | Setting::NvmeCoalescingUsecs
        )
    }

    /// Whether it belongs to a network card.
    pub fn is_of_nic(self) -> bool {
        matches!(
            self,
            Setting::NicQueues
                | Setting::Mtu
                | Setting::AdaptiveRx
                | Setting::AdaptiveTx
                | Setting::RxUsecs
                | Setting::RxFrames
                | Setting::TxUsecs
                | Setting::TxFrames
                | Setting::NapiDeferHardIrqs
                | Setting::GroFlushTimeout
                | Setting::NicIrqAffinity
        )
    }

    /// Checks that `value` has the form that this setting takes. Only a change shows whether a host takes it.
    ///
    /// # Errors
    /// [`SettingError::BadValue`], which says what the setting takes.
    pub fn check(self, value: &str) -> Result<(), SettingError> {
        if self.accepts(value) {
            return Ok(());
        }
        Err(SettingError::BadValue { setting: self, value: value.to_owned(), expected: self.expected() })
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
            | Setting::L0sAspm
            | Setting::L1Aspm
            | Setting::L11Aspm
            | Setting::L12Aspm
            | Setting::NvmeApst
            | Setting::Boost
            | Setting::NoTurbo => "0 or 1",
            Setting::NvmePowerState => "the number of a power state, 0 to 31",
            Setting::NvmeCoalescingEntries => "a number of completions, 1 to 256",
            Setting::NvmeCoalescingUsecs => "a number of microseconds in steps of 100, 0 to 25500",
            Setting::ScalingMaxFreq => "a number of kHz above 0",
            Setting::Governor => "the name of a governor, such as performance or schedutil",
            Setting::EnergyPerformancePreference => {
                "the name of a preference, such as performance, or 0 to 255"
            }
            Setting::CstateMax => "the index of the deepest idle state that stays in use",
            Setting::Smt => "on or off",
            Setting::CpusOnline | Setting::NicQueues => "a number of 1 or more",
            Setting::Mtu => "a number of bytes of 68 or more",
            Setting::AdaptiveRx | Setting::AdaptiveTx => "0 or 1",
            Setting::RxFrames | Setting::TxFrames => "a number of packets",
            Setting::NapiDeferHardIrqs => "a number of polls",
            Setting::GroFlushTimeout => "a number of nanoseconds",
            Setting::NicIrqAffinity => {
                "CPUs in ascending order, with adjacent ones as a range, such as 0-3 or 0,4-7"
            }
            Setting::CpuDmaLatency
            | Setting::BusyPoll
            | Setting::BusyRead
            | Setting::NvmetIdlePollUsecs
            | Setting::RxUsecs
            | Setting::TxUsecs => "a number of microseconds",
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
            Setting::IoTimeout | Setting::ScalingMaxFreq => within(1, i32::MAX),
            Setting::NvmePowerState => within(0, 31),
            Setting::NvmeCoalescingEntries => within(1, 256),
            Setting::NvmeCoalescingUsecs => within(0, 25_500) && number.is_some_and(|us| us % 100 == 0),
            Setting::AddRandom
            | Setting::Iostats
            | Setting::IostatsPassthrough
            | Setting::L0sAspm
            | Setting::L1Aspm
            | Setting::L11Aspm
            | Setting::L12Aspm
            | Setting::NvmeApst
            | Setting::Boost
            | Setting::NoTurbo => within(0, 1),
            Setting::Scheduler | Setting::Governor => is_word("-_"),
            Setting::EnergyPerformancePreference => is_word("_") || within(0, 255),
            Setting::Smt => matches!(value, "on" | "off"),
            Setting::CpusOnline | Setting::NicQueues => within(1, i32::MAX),
            Setting::Mtu => within(68, i32::MAX),
            Setting::AdaptiveRx | Setting::AdaptiveTx => within(0, 1),
            Setting::CpuDmaLatency
            | Setting::BusyPoll
            | Setting::BusyRead
            | Setting::NvmetIdlePollUsecs
            | Setting::RxUsecs
            | Setting::RxFrames
            | Setting::TxUsecs
            | Setting::TxFrames
            | Setting::NapiDeferHardIrqs
            | Setting::GroFlushTimeout => within(0, i32::MAX),
            Setting::NicIrqAffinity => is_cpu_list(value),
        }
    }
}

/// True for a list of CPUs in the one form that the kernel prints (lib/vsprintf.c, `%*pbl`).
fn is_cpu_list(text: &str) -> bool {
    /// The longest text, and the number that no CPU reaches (`NR_CPUS`).
    const LIMITS: (usize, u32) = (512, 8192);
    let number =
        |text: &str| text.parse::<u32>().ok().filter(|cpu| *cpu < LIMITS.1 && cpu.to_string() == text);
    // The least CPU that may come next: beside the one before it, it would be in its range.
    let mut least = 0;
    let is_next = |part: &str| {
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (number(first), number(last).filter(|last| Some(*last) > number(first))),
            None => (number(part), number(part)),
        };
        let is_next = first.is_some_and(|first| first >= least);
        least = last.map_or(u32::MAX, |last| last + 2);
        is_next && last.is_some()
    };
    text.len() <= LIMITS.0 && text.split(',').all(is_next)
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Setting {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Setting, SettingError> {
        Setting::all()
            .into_iter()
            .find(|setting| setting.name() == text)
            .ok_or_else(|| SettingError::Unknown { given: text.to_owned(), advice: advice(text) })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drives_and_the_cpus_limits_have_their_ranges() {
        for (setting, good, bad) in [
            (Setting::NvmePowerState, ["0", "31"], ["-1", "32"]),
            (Setting::NvmeCoalescingEntries, ["1", "256"], ["0", "257"]),
            (Setting::NvmeCoalescingUsecs, ["0", "25500"], ["150", "25600"]),
            (Setting::NvmeApst, ["0", "1"], ["on", "2"]),
            (Setting::L1Aspm, ["0", "1"], ["", "10"]),
            (Setting::ScalingMaxFreq, ["1", "3400000"], ["0", "3.4GHz"]),
            (Setting::CpuDmaLatency, ["0", "2147483647"], ["-1", "2147483648"]),
        ] {
            for value in good {
                assert_eq!(setting.check(value), Ok(()), "{setting} = {value}");
            }
            for value in bad {
                let error = setting.check(value).unwrap_err().to_string();
                assert!(
                    error.starts_with(&format!("`{value}` is not valid for `{setting}`: write ")),
                    "{error}"
                );
            }
        }
    }

    #[test]
    fn a_list_of_cpus_has_one_form() {
        for good in ["0", "0-3", "0,4-7", "0,2,4", "8191"] {
            assert_eq!(Setting::NicIrqAffinity.check(good), Ok(()), "{good}");
        }
        for bad in ["", "0,1", "0-0", "3-1", "4,0", "0-1,2", "01", "+1", "0-", "all", "8192", "0-3,"] {
            let error = Setting::NicIrqAffinity.check(bad).unwrap_err().to_string();
            assert!(error.contains("such as 0-3 or 0,4-7"), "{error}");
        }
    }
}
