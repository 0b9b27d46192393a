//! Reading the power state of a host, and what changed in it.

use crate::power::{DevicePower, IdleState, PowerState, nvme_controller};
use crate::settings::Host;
use crate::settings::fixture::{CPU, Fixture};
use crate::sysfs::{self, names_in};
use std::path::Path;

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
    fixture.write("sys/module/pcie_aspm/parameters/policy", "[default] performance powersave powersupersave");
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
        ..DevicePower::default()
    };
    assert_eq!(read(&fixture, &["nvme0n1"]).devices, [expected]);
    assert_eq!(nvme_controller(&fixture.path("sys/block/nvme0n1/device")).as_deref(), Some("nvme0"));
}

#[test]
fn a_multipath_namespace_finds_a_controller_of_its_subsystem() {
    let fixture = Fixture::empty();
    fixture.write("sys/devices/virtual/nvme-subsystem/nvme-subsys4/nvme0n1/size", "8");
    fixture.write("sys/devices/pci0000:00/nvme/nvme4/model", "x");
    fixture
        .link("sys/devices/virtual/nvme-subsystem/nvme-subsys4/nvme4", "sys/devices/pci0000:00/nvme/nvme4");
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
