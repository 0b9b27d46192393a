//! The power state that a trial ran in: frequencies, turbo, idle states, SMT, throttling, and the drives' own
//! state.
//!
//! It only reads. What the machine does not say is absent, never guessed. Changing any of it is left to
//! [`settings`](crate::settings).

use crate::nvme_features;
use crate::settings::Host;
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
    fn changes_until(&self, later: &DevicePower) -> impl Iterator<Item = PowerChange> {
        let state = |device: &DevicePower| device.nvme_power_state.map(|state| state.to_string());
        let is_deeper = later.nvme_power_state > self.nvme_power_state;
        let state = change(PowerSetting::NvmePowerState, Some(&self.name), state(self), state(later))
            .filter(|_| is_deeper);
        let link = |device: &DevicePower| {
            Some(format!("{} x{}", device.link_speed.as_ref()?, device.link_width_lanes?))
        };
        state.into_iter().chain(change(PowerSetting::Link, Some(&self.name), link(self), link(later)))
    }
}

impl DevicePower {
    fn read(host: &Host, name: &str) -> DevicePower {
        let device = host.sys().join("block").join(name).join("device");
        let function = pci_function(&device, host.sys());
        let link = |file: &str| function.as_ref().and_then(|function| text(&function.join(file)));
        DevicePower {
            name: name.to_owned(),
            nvme_power_state: nvme_controller(&device)
                .and_then(|name| nvme_power_state(&host.dev().join(name))),
            temperature_millicelsius: temperature(&device),
            runtime_status: text(&device.join("power/runtime_status")),
            link_speed: link("current_link_speed"),
            link_width_lanes: link("current_link_width").and_then(|width| width.parse().ok()),
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
fn nvme_controller(device: &Path) -> Option<String> {
    let device = device.canonicalize().ok()?;
    let name = |path: &Path| path.file_name()?.to_str().map(str::to_owned);
    let own = name(&device).filter(|name| sysfs::number(name, "nvme").is_some());
    own.or_else(|| entries(&device, "nvme").values().find_map(|path| name(path)))
}

/// Power Management (feature 02h) has the power state in bits 4:0.
fn nvme_power_state(controller: &Path) -> Option<u8> {
    Some((nvme_features::get(controller, 0x02).ok()? & 0x1F) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::fixture::{CPU, Fixture};

    fn read(fixture: &Fixture, devices: &[&str]) -> PowerState {
        PowerState::read(&fixture.host(), &devices.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn an_empty_host_shows_nothing() {
        let fixture = Fixture::empty();
        let state = read(&fixture, &["sda"]);
        let unknown = PowerState {
            devices: vec![DevicePower { name: "sda".into(), ..DevicePower::default() }],
            ..PowerState::default()
        };
        assert_eq!(state, unknown);
    }

    #[test]
    fn cpus_are_summed_up() {
        let fixture = Fixture::new();
        for (cpu, khz) in [(0, 800_000), (1, 3_400_000)] {
            fixture.write(&format!("{CPU}/cpufreq/policy{cpu}/scaling_cur_freq"), &khz.to_string());
            fixture.write(&format!("{CPU}/cpufreq/policy{cpu}/scaling_max_freq"), "3600000");
            fixture.write(&format!("{CPU}/cpu{cpu}/thermal_throttle/core_throttle_count"), "2");
            fixture.write(&format!("{CPU}/cpu{cpu}/thermal_throttle/core_throttle_max_time_ms"), "90");
        }
        fixture.write(&format!("{CPU}/cpu1/cpuidle/state2/disable"), "1");
        fixture.write(
            "sys/module/pcie_aspm/parameters/policy",
            "[default] performance powersave powersupersave",
        );
        let state = read(&fixture, &[]);
        assert_eq!(state.governors, ["schedutil"]);
        assert_eq!((state.frequency_min_khz, state.frequency_max_khz), (Some(800_000), Some(3_400_000)));
        assert_eq!(state.frequency_limits_khz, [3_600_000]);
        assert_eq!(state.energy_performance_preferences, ["balance_power"]);
        assert_eq!(state.turbo, Some(true));
        assert_eq!(state.smt.as_deref(), Some("on"));
        assert_eq!(state.throttle_count, Some(4));
        assert_eq!(state.aspm_policy.as_deref(), Some("default"));
        let state2 = IdleState { index: 2, name: "C2".into(), cpus: 2, disabled_cpus: 1 };
        assert_eq!((state.idle_states.len(), &state.idle_states[2]), (3, &state2));
    }

    #[test]
    fn either_driver_shows_turbo() {
        let fixture = Fixture::empty();
        fixture.write(&format!("{CPU}/intel_pstate/no_turbo"), "1");
        assert_eq!(read(&fixture, &[]).turbo, Some(false));
        fixture.write(&format!("{CPU}/intel_pstate/no_turbo"), "0");
        assert_eq!(read(&fixture, &[]).turbo, Some(true));
    }

    #[test]
    fn an_nvme_drive_is_read_through_its_controller() {
        let fixture = Fixture::empty();
        let function = "sys/devices/pci0000:00/0000:00:1d.0/0000:02:00.0";
        fixture.write(&format!("{function}/current_link_speed"), "16.0 GT/s PCIe");
        fixture.write(&format!("{function}/current_link_width"), "4");
        fixture.write(&format!("{function}/nvme/nvme0/hwmon3/temp1_input"), "41850");
        fixture.write(&format!("{function}/nvme/nvme0/power/runtime_status"), "unsupported");
        fixture.link("sys/block/nvme0n1/device", &format!("{function}/nvme/nvme0"));
        // A plain file where the controller's node should be: the request is refused, the state stays absent.
        fixture.write("dev/nvme0", "");
        let expected = DevicePower {
            name: "nvme0n1".into(),
            nvme_power_state: None,
            temperature_millicelsius: Some(41_850),
            runtime_status: Some("unsupported".into()),
            link_speed: Some("16.0 GT/s PCIe".into()),
            link_width_lanes: Some(4),
        };
        assert_eq!(read(&fixture, &["nvme0n1"]).devices, [expected]);
        assert_eq!(nvme_controller(&fixture.path("sys/block/nvme0n1/device")).as_deref(), Some("nvme0"));
    }

    #[test]
    fn a_multipath_namespace_finds_a_controller_of_its_subsystem() {
        let fixture = Fixture::empty();
        fixture.write("sys/devices/virtual/nvme-subsystem/nvme-subsys4/nvme0n1/size", "8");
        fixture.write("sys/devices/pci0000:00/nvme/nvme4/model", "x");
        fixture.link(
            "sys/devices/virtual/nvme-subsystem/nvme-subsys4/nvme4",
            "sys/devices/pci0000:00/nvme/nvme4",
        );
        let subsystem = fixture.path("sys/devices/virtual/nvme-subsystem/nvme-subsys4");
        assert_eq!(nvme_controller(&subsystem).as_deref(), Some("nvme4"));
    }

    #[test]
    fn a_sata_drive_has_its_sensor_one_folder_deeper() {
        let fixture = Fixture::empty();
        fixture.write("sys/block/sda/device/hwmon/hwmon1/temp1_input", "33000");
        assert_eq!(read(&fixture, &["sda"]).devices[0].temperature_millicelsius, Some(33_000));
    }

    #[test]
    fn throttling_is_a_count_that_grew() {
        let with = |throttle_count| PowerState { throttle_count, ..PowerState::default() };
        for (before, after, times) in [
            (Some(3), Some(5), Some(2)),
            (Some(3), Some(3), Some(0)),
            (Some(3), Some(1), Some(0)),
            (None, Some(4), None),
            (Some(3), None, None),
        ] {
            assert_eq!(with(before).throttles_until(&with(after)), times);
        }
    }

    #[test]
    fn changed_settings_are_listed_and_what_follows_the_load_is_not() {
        let fixture = Fixture::new();
        let before = read(&fixture, &[]);
        assert_eq!(before.changes_until(&before), []);
        fixture.write(&format!("{CPU}/cpufreq/policy0/scaling_cur_freq"), "1200000");
        fixture.write(&format!("{CPU}/cpufreq/policy0/scaling_governor"), "powersave");
        fixture.write(&format!("{CPU}/cpu1/cpuidle/state2/disable"), "1");
        let changes: Vec<String> =
            before.changes_until(&read(&fixture, &[])).iter().map(ToString::to_string).collect();
        let expected = [
            "the frequency governor changed from schedutil to powersave, schedutil",
            "the set of idle states changed from POLL on 2, C1 on 2, C2 on 2 to POLL on 2, C1 on 2, C2 on 1",
        ];
        assert_eq!(changes, expected);
        // What the later state does not know has not changed.
        assert_eq!(before.changes_until(&PowerState::default()), []);
    }

    #[test]
    fn only_a_deeper_state_of_a_drive_is_a_change() {
        let with = |nvme_power_state, link_speed: &str| PowerState {
            devices: vec![DevicePower {
                name: "nvme0n1".into(),
                nvme_power_state,
                link_speed: Some(link_speed.into()),
                link_width_lanes: Some(4),
                ..DevicePower::default()
            }],
            ..PowerState::default()
        };
        let changes = |before, after, speed| {
            let changes = with(before, "16.0 GT/s PCIe").changes_until(&with(after, speed));
            changes.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(
            changes(Some(0), Some(2), "16.0 GT/s PCIe"),
            ["the NVMe power state of nvme0n1 changed from 0 to 2"]
        );
        for (before, after) in [(Some(4), Some(0)), (None, Some(2)), (Some(2), None), (Some(2), Some(2))] {
            assert_eq!(changes(before, after, "16.0 GT/s PCIe"), [""; 0]);
        }
        let link = "the PCIe link of nvme0n1 changed from 16.0 GT/s PCIe x4 to 5.0 GT/s PCIe x4";
        assert_eq!(changes(None, None, "5.0 GT/s PCIe"), [link]);
    }

    #[test]
    fn serde_keeps_everything() {
        let fixture = Fixture::new();
        let state = read(&fixture, &["sda"]);
        let text = serde_json::to_string(&state).unwrap();
        assert_eq!(serde_json::from_str::<PowerState>(&text).unwrap(), state);
    }

    #[test]
    fn this_machine_is_read() {
        let names: Vec<String> = names_in(Path::new("/sys/block")).collect();
        let state = PowerState::read(&Host::new(), &names);
        assert_eq!(state.devices.len(), names.len());
        let cpu = Path::new("/sys/devices/system/cpu");
        assert_eq!(state.smt, sysfs::read(&cpu.join("smt/control")).ok());
        assert_eq!(state.cpuidle_driver, sysfs::read(&cpu.join("cpuidle/current_driver")).ok());
        assert_eq!(state.governors.is_empty(), names_in(&cpu.join("cpufreq/policy0")).next().is_none());
    }
}
