//! The allow-list: which sysfs file each setting is, and the names and values that may become part of a path
//! or of a write. Nothing else of a journal's text reaches the system.

use iopj_core::Setting;

/// A path that is not on the allow-list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotAllowed;

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
    /// In the folder of each core that can go offline.
    Core,
    /// Below `net/core` of the kernel's own settings, once.
    NetCore,
    /// Parameters of the module nvmet_tcp, once.
    NvmetTcp,
    /// In the folder of each network card, or known to its driver alone.
    Nic,
    /// In the folder of each interrupt of each network card.
    NicIrq,
    /// In the folder of the PCI link of each drive.
    Link,
    /// Known to each drive's NVMe controller alone.
    Controller,
    /// A request of this process, which ends with it.
    Process,
}

pub(super) fn location(setting: Setting) -> Location {
    match setting {
        Setting::Governor | Setting::EnergyPerformancePreference | Setting::ScalingMaxFreq => {
            Location::Policy
        }
        Setting::CpuDmaLatency => Location::Process,
        Setting::Boost | Setting::NoTurbo | Setting::Smt => Location::Cpu,
        Setting::CstateMax => Location::IdleState,
        Setting::CpusOnline => Location::Core,
        Setting::BusyPoll | Setting::BusyRead => Location::NetCore,
        Setting::NvmetIdlePollUsecs => Location::NvmetTcp,
        Setting::NicIrqAffinity => Location::NicIrq,
        _ if setting.is_of_nic() => Location::Nic,
        _ if setting.is_of_link() => Location::Link,
        _ if setting.is_of_controller() => Location::Controller,
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
        Setting::CpusOnline => "online",
        Setting::NvmetIdlePollUsecs => "idle_poll_period_usecs",
        Setting::NicIrqAffinity => "smp_affinity_list",
        _ => setting.name(),
    }
}

/// True for what a network card's driver is asked for by ioctl: there is no file of it.
pub(super) fn is_by_ioctl(setting: Setting) -> bool {
    let has_file = matches!(setting, Setting::Mtu | Setting::NapiDeferHardIrqs | Setting::GroFlushTimeout);
    location(setting) == Location::Nic && !has_file
}

/// True for a name that the kernel can give a network interface (`dev_valid_name`, net/core/dev.c).
pub(super) fn is_interface_name(text: &str) -> bool {
    (1..16).contains(&text.len())
        && !matches!(text, "." | "..")
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte))
}

/// What a driver may reset when it makes its queues anew.
const OF_QUEUES: &[Setting] = &[
    Setting::AdaptiveRx,
    Setting::AdaptiveTx,
    Setting::RxUsecs,
    Setting::RxFrames,
    Setting::TxUsecs,
    Setting::TxFrames,
];

/// Settings that the kernel resets when this one changes, and that are put back after it. A change of the
/// scheduler resets the queue's depth and may switch writeback throttling (blk-mq-sched.c); under the
/// governor `performance`, intel_pstate overrules the preference; a link without L1 has no L1.1 and no L1.2
/// (`aspm_attr_store_common`, drivers/pci/pcie/aspm.c).
pub(super) fn reset_by(setting: Setting) -> &'static [Setting] {
    match setting {
        Setting::Scheduler => &[Setting::NrRequests, Setting::WbtLatUsec],
        Setting::Governor => &[Setting::EnergyPerformancePreference],
        Setting::NicQueues => OF_QUEUES,
        Setting::AdaptiveRx => &[Setting::RxUsecs, Setting::RxFrames],
        Setting::AdaptiveTx => &[Setting::TxUsecs, Setting::TxFrames],
        Setting::L1Aspm => &[Setting::L11Aspm, Setting::L12Aspm],
        _ => &[],
    }
}

/// True for a name that the kernel can give a disk (`disk_name`, at most 31 bytes, `/` shown as `!`).
pub(super) fn is_device_name(text: &str) -> bool {
    (1..32).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-.!".contains(c))
}

/// True for a driver's name, or `none`.
pub(super) fn is_driver_name(text: &str) -> bool {
    (1..64).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

/// True for a drive's serial: visible ASCII and spaces (NVM Express Base Specification 2.0, Identify
/// Controller: 20 bytes).
pub(super) fn is_serial(text: &str) -> bool {
    text.len() <= 20 && text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic())
}

/// Settings elsewhere, all of whose files the kernel may change when this one changes, and that are put back
/// after it. Cores that go offline hand a card's interrupts over for good (`migrate_one_irq`,
/// kernel/irq/cpuhotplug.c), and its driver may place them anew with its queues; turbo sets the highest
/// frequency of every policy (`cpufreq_boost_set_sw`, drivers/cpufreq/cpufreq.c); L1.1 and L1.2 bring L1 with
/// them (`aspm_attr_store_common`, drivers/pci/pcie/aspm.c).
pub(super) fn moved_by(setting: Setting) -> &'static [Setting] {
    match setting {
        Setting::CpusOnline | Setting::NicQueues | Setting::Mtu => &[Setting::NicIrqAffinity],
        Setting::Boost | Setting::NoTurbo => &[Setting::ScalingMaxFreq],
        Setting::L11Aspm | Setting::L12Aspm => &[Setting::L1Aspm],
        _ => &[],
    }
}

/// True for a value that one write can put back: one word of at most 512 visible ASCII characters, which a
/// list of CPUs may need.
pub(super) fn is_plain_value(text: &str) -> bool {
    (1..=512).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_of_a_queue_are_those_whose_files_are_in_it() {
        for setting in Setting::all() {
            assert_eq!(setting.is_of_queue(), location(setting) == Location::Queue, "{setting}");
        }
    }
}
