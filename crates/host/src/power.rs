//! The power state that a trial ran in: frequencies, turbo, idle states, SMT, throttling, and the drives' own
//! state.
//!
//! It only reads. What the machine does not say is absent, never guessed. Changing any of it is left to
//! [`settings`](crate::settings).

use crate::settings::{Host, coalescing, current_dma_latency};
use crate::sysfs::{self, chosen, names_in};
use iopj_core::{PowerChange, PowerSetting};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The state of the host and of the drives under test at one moment.
///
/// Sources: Documentation/admin-guide/pm/{cpufreq,cpuidle,intel_pstate}.rst,
/// Documentation/ABI/testing/sysfs-devices-system-cpu.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PowerState {
    /// The cpufreq governors in use, each once, in ascending order.
    pub governors: Vec<String>,
    /// The lowest of the policies' frequencies (`scaling_cur_freq`), in kHz.
    pub frequency_min_khz: Option<u64>,
    /// The highest of the policies' frequencies, in kHz.
    pub frequency_max_khz: Option<u64>,
    /// The policies' upper limits (`scaling_max_freq`), each once, in ascending order, in kHz.
    pub frequency_limits_khz: Vec<u64>,
    /// The energy-performance preferences in use, each once, in ascending order.
    pub energy_performance_preferences: Vec<String>,
    /// Whether turbo frequencies are allowed (`cpufreq/boost`, else `intel_pstate/no_turbo`).
    pub turbo: Option<bool>,
    /// `intel_pstate/status`: `active`, `passive` or `off`.
    pub intel_pstate: Option<String>,
    /// The cpuidle driver.
    pub cpuidle_driver: Option<String>,
    /// The cpuidle governor.
    pub cpuidle_governor: Option<String>,
    /// The idle states, by index.
    pub idle_states: Vec<IdleState>,
    /// `smt/control`: `on`, `off`, `forceoff`, `notsupported` or `notimplemented`.
    pub smt: Option<String>,
    /// The sum of all counters `cpu*/thermal_throttle/*_count`: only its growth means something.
    pub throttle_count: Option<u64>,
    /// The policy of PCIe active-state power management (`pcie_aspm/parameters/policy`).
    pub aspm_policy: Option<String>,
    /// The time that a CPU may take to leave an idle state, the least that anybody asks for, in us
    /// (`/dev/cpu_dma_latency`); absent without root.
    #[serde(default)]
    pub cpu_dma_latency_us: Option<i32>,
    /// The drives, in the order asked for.
    pub devices: Vec<DevicePower>,
}

/// One idle state over all CPUs.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct IdleState {
    /// N of `stateN`.
    pub index: u32,
    /// The driver's name for it, as the first CPU that has it shows it.
    pub name: String,
    /// How many CPUs have it.
    pub cpus: u32,
    /// On how many of these it is disabled.
    pub disabled_cpus: u32,
}

/// The state of one drive.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct DevicePower {
    /// The block device's name.
    pub name: String,
    /// The NVMe power state (Get Features, feature 02h, bits 4:0); absent without root.
    pub nvme_power_state: Option<u8>,
    /// The drive's first temperature sensor (hwmon `temp1_input`), in thousandths of a degree Celsius.
    pub temperature_millicelsius: Option<i64>,
    /// `device/power/runtime_status`: `active`, `suspended`, `unsupported`, …
    pub runtime_status: Option<String>,
    /// `current_link_speed` of the nearest PCI function above the drive.
    pub link_speed: Option<String>,
    /// `current_link_width` of the same, in lanes.
    pub link_width_lanes: Option<u32>,
    /// The states in which that function's link may rest (`link/*_aspm` that read 1), in ascending order;
    /// absent if the kernel shows none.
    #[serde(default)]
    pub link_states: Option<Vec<String>>,
    /// Whether the NVMe drive enters power states by itself (feature 0Ch, bit 0); absent without root.
    #[serde(default)]
    pub nvme_apst: Option<bool>,
    /// The drive's interrupt coalescing (feature 08h); absent without root.
    #[serde(default)]
    pub nvme_coalescing: Option<Coalescing>,
}

/// When an NVMe drive interrupts for completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Coalescing {
    /// At once after so many.
    pub entries: u32,
    /// After so many us at the latest; 0 is at once.
    pub usecs: u32,
}

impl PowerState {
    /// Reads the state of `host` and of these block devices. Nothing fails: what cannot be read is absent.
    pub fn read(host: &Host, devices: &[String]) -> PowerState {
        let cpu = host.sys().join("devices/system/cpu");
        let policies = entries(&cpu.join("cpufreq"), "policy");
        let frequencies: BTreeSet<u64> = each(&policies, "scaling_cur_freq");
        let cpus = entries(&cpu, "cpu");
        PowerState {
            governors: each(&policies, "scaling_governor").into_iter().collect(),
            frequency_min_khz: frequencies.first().copied(),
            frequency_max_khz: frequencies.last().copied(),
            frequency_limits_khz: each(&policies, "scaling_max_freq").into_iter().collect(),
            energy_performance_preferences: each(&policies, "energy_performance_preference")
                .into_iter()
                .collect(),
            turbo: turbo(&cpu),
            intel_pstate: text(&cpu.join("intel_pstate/status")),
            cpuidle_driver: text(&cpu.join("cpuidle/current_driver")),
            cpuidle_governor: text(&cpu.join("cpuidle/current_governor"))
                .or_else(|| text(&cpu.join("cpuidle/current_governor_ro"))),
            idle_states: idle_states(&cpus),
            smt: text(&cpu.join("smt/control")),
            throttle_count: throttle_count(&cpus),
            aspm_policy: text(&host.sys().join("module/pcie_aspm/parameters/policy")),
            cpu_dma_latency_us: current_dma_latency(host.dev()).ok(),
            devices: devices.iter().map(|device| DevicePower::read(host, device)).collect(),
        }
    }

    /// How often CPUs were throttled for heat between this state and a `later` one of the same boot; absent
    /// if they do not count it.
    pub fn throttles_until(&self, later: &PowerState) -> Option<u64> {
        self.throttle_count.zip(later.throttle_count).map(|(before, after)| after.saturating_sub(before))
    }

    /// The settings that differ in a `later` state. A setting that one of the two does not know has not
    /// changed, and what follows the load (frequencies, temperatures) is not a setting. An idle drive goes to
    /// a deeper power state by itself and comes back when it works, so only a deeper one after the trial is a
    /// change.
    pub fn changes_until(&self, later: &PowerState) -> Vec<PowerChange> {
        let known = |what, before: Option<String>, after: Option<String>| {
            change(what, None, before.filter(|text| !text.is_empty()), after.filter(|text| !text.is_empty()))
        };
        let list = |values: &[String]| Some(values.join(", "));
        let khz = |values: &[u64]| list(&values.iter().map(u64::to_string).collect::<Vec<_>>());
        let of_cpus = |state: &PowerState| {
            [
                (PowerSetting::Governors, list(&state.governors)),
                (PowerSetting::FrequencyLimits, khz(&state.frequency_limits_khz)),
                (PowerSetting::EnergyPreferences, list(&state.energy_performance_preferences)),
                (PowerSetting::Turbo, state.turbo.map(|on| if on { "on" } else { "off" }.to_owned())),
                (
                    PowerSetting::IdleStates,
                    list(&state.idle_states.iter().map(IdleState::text).collect::<Vec<_>>()),
                ),
                (PowerSetting::Smt, state.smt.clone()),
                (PowerSetting::AspmPolicy, state.aspm_policy.clone()),
                (PowerSetting::CpuDmaLatency, state.cpu_dma_latency_us.map(|us| us.to_string())),
            ]
        };
        let of_cpus = of_cpus(self).into_iter().zip(of_cpus(later));
        let of_cpus = of_cpus.filter_map(|((what, before), (_, after))| known(what, before, after));
        let drives = self.devices.iter().filter_map(|device| {
            let later = later.devices.iter().find(|other| other.name == device.name)?;
            Some(device.changes_until(later))
        });
        of_cpus.chain(drives.flatten()).collect()
    }
}

fn change(
    what: PowerSetting,
    device: Option<&str>,
    before: Option<String>,
    after: Option<String>,
) -> Option<PowerChange> {
    let (before, after) = before.zip(after).filter(|(before, after)| before != after)?;
    Some(PowerChange { what, device: device.map(str::to_owned), before, after })
}

impl IdleState {
    /// Name and the CPUs on which it is enabled.
    fn text(&self) -> String {
        format!("{} on {}", self.name, self.cpus.saturating_sub(self.disabled_cpus))
    }
}

impl DevicePower {
    fn changes_until(&self, later: &DevicePower) -> impl Iterator<Item = PowerChange> + use<> {
        let state = |device: &DevicePower| device.nvme_power_state.map(|state| state.to_string());
        let is_deeper = later.nvme_power_state > self.nvme_power_state;
        let state = change(PowerSetting::NvmePowerState, Some(&self.name), state(self), state(later))
            .filter(|_| is_deeper);
        let link = |device: &DevicePower| {
            Some(format!("{} x{}", device.link_speed.as_ref()?, device.link_width_lanes?))
        };
        let states = |device: &DevicePower| {
            device.link_states.as_ref().map(|states| match &states[..] {
                [] => "none".to_owned(),
                states => states.join(", "),
            })
        };
        let apst = |device: &DevicePower| device.nvme_apst.map(|on| if on { "on" } else { "off" }.to_owned());
        let coalescing = |device: &DevicePower| {
            device.nvme_coalescing.map(|at| format!("{} completions or {} us", at.entries, at.usecs))
        };
        let changed = |what, of: &dyn Fn(&DevicePower) -> Option<String>| {
            change(what, Some(&self.name), of(self), of(later))
        };
        let changes = [
            state,
            changed(PowerSetting::Link, &link),
            changed(PowerSetting::LinkStates, &states),
            changed(PowerSetting::NvmeApst, &apst),
            changed(PowerSetting::NvmeCoalescing, &coalescing),
        ];
        changes.into_iter().flatten()
    }
}

impl DevicePower {
    fn read(host: &Host, name: &str) -> DevicePower {
        let device = host.sys().join("block").join(name).join("device");
        let function = pci_function(&device, host.sys());
        let link = |file: &str| function.as_ref().and_then(|function| text(&function.join(file)));
        let node = nvme_controller(&device).map(|name| host.dev().join(name));
        let feature = |id| (host.features.get)(node.as_deref()?, id).ok();
        DevicePower {
            name: name.to_owned(),
            // Power Management (feature 02h) has the power state in bits 4:0.
            nvme_power_state: feature(0x02).map(|register| (register & 0x1F) as u8),
            temperature_millicelsius: temperature(&device),
            runtime_status: text(&device.join("power/runtime_status")),
            link_speed: link("current_link_speed"),
            link_width_lanes: link("current_link_width").and_then(|width| width.parse().ok()),
            link_states: function.as_deref().and_then(link_states),
            nvme_apst: feature(0x0C).map(|register| register & 1 == 1),
            nvme_coalescing: feature(0x08)
                .map(coalescing)
                .map(|(entries, usecs)| Coalescing { entries, usecs }),
        }
    }
}

fn text(file: &Path) -> Option<String> {
    let text = sysfs::read(file).ok()?;
    Some(chosen(&text).to_owned()).filter(|text| !text.is_empty())
}

fn value<T: FromStr>(file: &Path) -> Option<T> {
    text(file)?.parse().ok()
}

/// The values that `file` has in these folders, each once.
fn each<T: FromStr + Ord>(folders: &BTreeMap<u32, PathBuf>, file: &str) -> BTreeSet<T> {
    folders.values().filter_map(|folder| value(&folder.join(file))).collect()
}

/// The entries `prefixN` of a folder, by N.
fn entries(folder: &Path, prefix: &str) -> BTreeMap<u32, PathBuf> {
    sysfs::numbered(folder, prefix).unwrap_or_default()
}

fn turbo(cpu: &Path) -> Option<bool> {
    let boost = value::<u8>(&cpu.join("cpufreq/boost")).map(|boost| boost != 0);
    boost.or_else(|| value::<u8>(&cpu.join("intel_pstate/no_turbo")).map(|forbidden| forbidden == 0))
}

fn idle_states(cpus: &BTreeMap<u32, PathBuf>) -> Vec<IdleState> {
    let mut states = BTreeMap::new();
    for cpu in cpus.values() {
        for (index, folder) in entries(&cpu.join("cpuidle"), "state") {
            let (Some(name), Some(disabled)) =
                (text(&folder.join("name")), value::<u8>(&folder.join("disable")))
            else {
                continue;
            };
            let state = states.entry(index).or_insert(IdleState { index, name, cpus: 0, disabled_cpus: 0 });
            state.cpus += 1;
            state.disabled_cpus += u32::from(disabled != 0);
        }
    }
    states.into_values().collect()
}

fn throttle_count(cpus: &BTreeMap<u32, PathBuf>) -> Option<u64> {
    cpus.values()
        .map(|cpu| cpu.join("thermal_throttle"))
        .flat_map(|folder| names_in(&folder).map(move |name| folder.join(name)))
        .filter(|file| file.to_string_lossy().ends_with("_count"))
        .filter_map(|file| value::<u64>(&file))
        .reduce(u64::saturating_add)
}

/// The nearest folder at or above a device that shows a PCIe link.
fn pci_function(device: &Path, sys: &Path) -> Option<PathBuf> {
    let (device, root) = (device.canonicalize().ok()?, sys.canonicalize().ok()?);
    device
        .ancestors()
        .take_while(|folder| folder.starts_with(&root))
        .find(|folder| folder.join("current_link_speed").exists())
        .map(Path::to_owned)
}

/// The first sensor of the hwmon device below a drive: `hwmonN` for NVMe, `hwmon/hwmonN` for drivetemp(4).
fn temperature(device: &Path) -> Option<i64> {
    [device.to_owned(), device.join("hwmon")]
        .iter()
        .flat_map(|folder| entries(folder, "hwmon").into_values())
        .find_map(|hwmon| value(&hwmon.join("temp1_input")))
}

/// The controller's name (`nvme0`): the device itself, or with multipath one of the subsystem's controllers.
pub(crate) fn nvme_controller(device: &Path) -> Option<String> {
    let device = device.canonicalize().ok()?;
    let name = |path: &Path| path.file_name()?.to_str().map(str::to_owned);
    let own = name(&device).filter(|name| sysfs::number(name, "nvme").is_some());
    own.or_else(|| entries(&device, "nvme").values().find_map(|path| name(path)))
}

/// The states in which the link of a PCI function may rest; `None` if the kernel shows none.
fn link_states(function: &Path) -> Option<Vec<String>> {
    let folder = function.join("link");
    let shown: Vec<String> = names_in(&folder).filter(|name| name.ends_with("_aspm")).collect();
    let is_on = |name: &String| value::<u8>(&folder.join(name)).is_some_and(|on| on != 0);
    let mut on: Vec<String> =
        shown.iter().filter(|name| is_on(name)).map(|name| name.replace("_aspm", "")).collect();
    on.sort();
    (!shown.is_empty()).then_some(on)
}

#[cfg(test)]
mod tests;
