//! Settings of power and of interrupts: a drive's features, its link, the CPUs' highest frequency and their
//! latency. A folder stands in for the controller, as in the fixture.

use super::super::fixture::{CPU, Fixture, assert_refused};
use super::super::item::Item;
use iopj_core::Setting;
use std::fs;

const FUNCTION: &str = "sys/devices/pci0000:00/0000:01:00.0";
const TOLERANCE: &str = "sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0/power/pm_qos_latency_tolerance_us";
const DEFAULT: &str = "sys/module/nvme_core/parameters/default_ps_max_latency_us";

/// A host with one NVMe drive. Whether it rests by itself follows from the tolerance, as the kernel makes it:
/// the fixture's odd tolerances are the feature's bit.
fn fixture() -> Fixture {
    let fixture = Fixture::new();
    let controller = format!("{FUNCTION}/nvme/nvme0");
    fixture.write(&format!("{controller}/serial"), "S-1");
    fixture.write(&format!("{controller}/nvme0n1/queue/nomerges"), "0");
    fixture.write(TOLERANCE, "100001");
    fixture.write(DEFAULT, "100003");
    fixture.link(&format!("{controller}/nvme0n1/device"), &controller);
    fixture.link("sys/block/nvme0n1", &format!("{controller}/nvme0n1"));
    fixture.link("sys/bus/pci/devices/0000:01:00.0", FUNCTION);
    fixture.write(&format!("{FUNCTION}/current_link_speed"), "16.0 GT/s PCIe");
    for (state, on) in [("l1_aspm", "1"), ("l1_1_aspm", "0"), ("l1_2_aspm", "1")] {
        fixture.write(&format!("{FUNCTION}/link/{state}"), on);
    }
    for (feature, register) in [("02", "64"), ("08", "0")] {
        fixture.write(&format!("dev/nvme0/{feature}"), register);
    }
    fixture.link("dev/nvme0/0c", TOLERANCE);
    fixture
}

fn links(fixture: &Fixture) -> [String; 3] {
    ["l1_aspm", "l1_1_aspm", "l1_2_aspm"].map(|state| fixture.read(&format!("{FUNCTION}/link/{state}")))
}

#[test]
fn threshold_and_time_share_a_register_and_come_back() {
    let fixture = fixture();
    fixture.with_settings(&["nvme0n1"], |settings| {
        settings.set(Setting::NvmeCoalescingEntries, "8").unwrap();
        settings.set(Setting::NvmeCoalescingUsecs, "300").unwrap();
        assert_eq!(fixture.read("dev/nvme0/08"), 0x307.to_string());
        let journal = fixture.journals().remove(0);
        let lines: Vec<&str> = journal.lines().skip(1).collect();
        let place = "bus/pci/devices/0000:01:00.0/nvme";
        assert_eq!(
            lines,
            [
                format!(r#"{{"file":"{place}/serial","old":"S-1","new":"S-1"}}"#),
                format!(r#"{{"file":"{place}/feature/08h","old":"0x0","new":"0x7"}}"#),
                format!(r#"{{"file":"{place}/feature/08h","old":"0x7","new":"0x307"}}"#),
            ]
        );
        assert_eq!(settings.changes().len(), 2);
        // A value that stands is neither journalled nor written.
        settings.set(Setting::NvmeCoalescingUsecs, "300").unwrap();
        assert_eq!(fixture.journals().remove(0), journal);
        let restored = settings.restore().unwrap();
        assert_eq!((restored[0].from.as_str(), restored[0].to.as_str()), ("0x307", "0x0"));
    });
    assert_eq!((fixture.read("dev/nvme0/08"), fixture.journals().len()), ("0".to_owned(), 0));
}

#[test]
fn a_power_state_keeps_the_workload_hint_and_comes_back_after_a_death() {
    let fixture = fixture();
    let host = fixture.host();
    let devices = ["nvme0n1".to_owned()];
    let locks = host.lock(&devices).unwrap();
    let mut settings = host.settings(&devices, &locks);
    settings.set(Setting::NvmePowerState, "2").unwrap();
    settings.set(Setting::NvmeApst, "0").unwrap();
    assert_eq!([fixture.read("dev/nvme0/02"), fixture.read(TOLERANCE)], ["66", "0"]);
    let text = fixture.journals().remove(0);
    settings.restore().unwrap();
    drop((settings, locks));
    // As the run left them when it died.
    fixture.write("dev/nvme0/02", "66");
    fixture.write(TOLERANCE, "0");
    let (header, lines) = text.split_once('\n').unwrap();
    super::restore::journal(&fixture, 5, header, lines);
    let report = host.restore_left_behind().unwrap();
    assert_eq!((report.failed.len(), report.notes.len(), report.restored.len()), (0, 0, 2), "{report:?}");
    assert_eq!([fixture.read("dev/nvme0/02"), fixture.read(TOLERANCE)], ["64", "100001"]);
}

/// The values of the drive that was there are not another drive's.
#[test]
fn another_drive_in_the_slot_keeps_its_features() {
    let fixture = fixture();
    fixture.with_settings(&["nvme0n1"], |settings| {
        settings.set(Setting::NvmeCoalescingEntries, "8").unwrap();
        settings.set(Setting::L1Aspm, "0").unwrap();
        fixture.write(&format!("{FUNCTION}/nvme/nvme0/serial"), "S-2");
        settings.restore().unwrap();
        assert!(settings.warnings()[0].contains("another drive now (serial S-2, it was S-1"));
    });
    assert_eq!((fixture.read("dev/nvme0/08"), links(&fixture)[0].as_str()), ("7".to_owned(), "0"));
}

#[test]
fn resting_by_itself_is_switched_by_the_tolerance_that_the_kernel_goes_by() {
    let fixture = fixture();
    fixture.with_settings(&["nvme0n1"], |settings| {
        settings.set(Setting::NvmeApst, "1").unwrap();
        assert_eq!(settings.changes(), []);
        settings.set(Setting::NvmeApst, "0").unwrap();
        assert_eq!(fixture.read(TOLERANCE), "0");
        // On again is as it was, and not as the module has it.
        settings.set(Setting::NvmeApst, "1").unwrap();
        assert_eq!(fixture.read(TOLERANCE), "100001");
    });
    // Off before the run: the module's default.
    fixture.write(TOLERANCE, "0");
    fixture.with_settings(&["nvme0n1"], |settings| {
        settings.set(Setting::NvmeApst, "1").unwrap();
        assert_eq!(fixture.read(TOLERANCE), "100003");
        settings.restore().unwrap();
        assert_eq!(fixture.read(TOLERANCE), "0");
        fixture.write(DEFAULT, "0");
        assert_refused(
            settings.set(Setting::NvmeApst, "1"),
            &["boot without", "default_ps_max_latency_us=0"],
        );
        fixture.write(DEFAULT, "100002");
        let words = ["`nvme_apst` of 0000:01:00.0 reads `0` after `1` was set", "kernel's log"];
        assert_refused(settings.set(Setting::NvmeApst, "1"), &words);
        fs::remove_file(fixture.path(TOLERANCE)).unwrap();
        let words = ["0000:01:00.0", "has no autonomous power state transitions", "leave it out"];
        assert_refused(settings.set(Setting::NvmeApst, "0"), &words);
    });
}

#[test]
fn a_drive_that_does_not_do_as_told_is_named() {
    let fixture = fixture();
    fixture.with_settings(&["nvme0n1"], |settings| {
        fixture.write("dev/nvme0/fixed", "");
        let words = ["0000:01:00.0 refuses `8` for `nvme_coalescing_entries`", "0x10e", "leave it out"];
        assert_refused(settings.set(Setting::NvmeCoalescingEntries, "8"), &words);
        fs::remove_file(fixture.path("dev/nvme0/fixed")).unwrap();
        // A drive that works in one state alone: each read brings it back there.
        fixture.write("dev/nvme0/working", "64");
        let words = ["`nvme_power_state` of 0000:01:00.0 reads `0` after `3` was set", "non-operational"];
        assert_refused(settings.set(Setting::NvmePowerState, "3"), &words);
        fixture.write("dev/nvme0/failing", "");
        let words = ["does not say its interrupt coalescing (feature 08h): NVMe status", "leave it out"];
        assert_refused(settings.set(Setting::NvmeCoalescingUsecs, "100"), &words);
        fs::remove_file(fixture.path(&format!("{FUNCTION}/nvme/nvme0/serial"))).unwrap();
        assert_refused(settings.set(Setting::NvmeCoalescingUsecs, "100"), &["shows no serial"]);
    });
    fixture.with_settings(&["sda"], |settings| {
        let words = ["`nvme_power_state` cannot be changed here", "no NVMe drive on a PCI link"];
        assert_refused(settings.set(Setting::NvmePowerState, "0"), &words);
        assert_refused(settings.set(Setting::L1Aspm, "0"), &["no drive with a PCI link"]);
    });
}

#[test]
fn another_run_on_the_drive_keeps_its_controller_as_it_is() {
    let fixture = fixture();
    fixture.with_settings(&["nvme0n1"], |first| {
        first.set(Setting::NvmeCoalescingEntries, "8").unwrap();
        let host = fixture.host();
        let devices = ["nvme0n1".to_owned()];
        let locks = host.lock(&[]).unwrap();
        let mut second = host.settings(&devices, &locks);
        assert_refused(second.set(Setting::NvmeCoalescingEntries, "4"), &["`pci:0000:01:00.0` is in use"]);
    });
}

#[test]
fn a_links_states_are_changed_and_come_back_with_those_that_depend_on_them() {
    let fixture = fixture();
    fixture.with_settings(&["nvme0n1"], |settings| {
        settings.set(Setting::L1Aspm, "0").unwrap();
        // As the kernel does it: no L1, no L1.2.
        fixture.write(&format!("{FUNCTION}/link/l1_2_aspm"), "0");
        assert_eq!(links(&fixture), ["0", "0", "0"]);
        let journal = fixture.journals().remove(0);
        assert!(
            journal.contains(r#"{"file":"bus/pci/devices/0000:01:00.0/link/l1_aspm","old":"1","new":"0"}"#)
        );
        settings.restore().unwrap();
        assert_eq!(links(&fixture), ["1", "0", "1"]);
        assert_refused(settings.set(Setting::L0sAspm, "1"), &["link/l0s_aspm", "kernel is older than 5.6"]);
    });
    let item: Item = "bus/pci/devices/0000:01:00.0/link/l1_1_aspm".parse().unwrap();
    assert_eq!(item.lock_name(), "pci:0000:01:00.0");
    for text in ["bus/pci/devices/0000:01:00.0/link/clkpm", "bus/pci/devices/../link/l1_aspm"] {
        assert!(text.parse::<Item>().is_err(), "{text}");
    }
}

#[test]
fn the_highest_frequency_is_within_each_policys_range_and_comes_back() {
    let fixture = Fixture::new();
    for (policy, highest) in [(0, "3400000"), (1, "2600000")] {
        let folder = format!("{CPU}/cpufreq/policy{policy}");
        fixture.write(&format!("{folder}/scaling_max_freq"), highest);
        fixture.write(&format!("{folder}/cpuinfo_min_freq"), "800000");
        fixture.write(&format!("{folder}/cpuinfo_max_freq"), highest);
    }
    let limits =
        || [0, 1].map(|policy| fixture.read(&format!("{CPU}/cpufreq/policy{policy}/scaling_max_freq")));
    fixture.with_settings(&[], |settings| {
        let words = ["`scaling_max_freq` cannot be 3000000 kHz", "policy1 takes 800000 to 2600000"];
        assert_refused(settings.set(Setting::ScalingMaxFreq, "3000000"), &words);
        assert_refused(settings.set(Setting::ScalingMaxFreq, "700000"), &["policy0 takes 800000"]);
        settings.set(Setting::ScalingMaxFreq, "1200000").unwrap();
        assert_eq!(limits(), ["1200000", "1200000"]);
        settings.restore().unwrap();
        assert_eq!(limits(), ["3400000", "2600000"]);
        // Turbo sets it anew.
        settings.set(Setting::Boost, "0").unwrap();
        fixture.write(&format!("{CPU}/cpufreq/policy0/scaling_max_freq"), "2000000");
        settings.restore().unwrap();
        assert_eq!(limits(), ["3400000", "2600000"]);
    });
}

fn held(fixture: &Fixture) -> i32 {
    i32::from_ne_bytes(fs::read(fixture.path("dev/cpu_dma_latency")).unwrap().try_into().unwrap())
}

#[test]
fn the_cpus_latency_is_asked_for_while_the_run_lasts() {
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.path("dev")).unwrap();
    fs::write(fixture.path("dev/cpu_dma_latency"), 2_000_000_000_i32.to_ne_bytes()).unwrap();
    let is_open = || {
        let path = fixture.path("dev/cpu_dma_latency");
        let files = fs::read_dir("/proc/self/fd").unwrap().flatten();
        files.filter_map(|file| fs::read_link(file.path()).ok()).any(|open| open == path)
    };
    fixture.with_settings(&[], |settings| {
        assert_eq!(settings.foresee(Setting::CpuDmaLatency, "5").unwrap().len(), 1);
        settings.set(Setting::CpuDmaLatency, "5").unwrap();
        settings.set(Setting::CpuDmaLatency, "0").unwrap();
        assert_eq!((held(&fixture), is_open()), (0, true));
        let changes: Vec<_> = settings.changes().iter().map(|change| &change.new[..]).collect();
        assert_eq!((changes, fixture.journals()), (vec!["5", "0"], vec![]));
        settings.restore().unwrap();
        assert!(!is_open());
    });
    let empty = Fixture::empty();
    empty.with_settings(&[], |settings| {
        assert_refused(settings.set(Setting::CpuDmaLatency, "0"), &["there is no", "cpu_dma_latency"]);
    });
}

/// The kernel's own file, where there is one and the user is root.
#[test]
fn the_kernel_shows_what_is_asked_for() {
    let host = super::super::Host::new();
    let Ok(before) = super::super::current_dma_latency(host.dev()) else {
        eprintln!("skipped: needs root and /dev/cpu_dma_latency");
        return;
    };
    let (fixture, ours) = (Fixture::empty(), before.min(70));
    fixture.link("dev", "/dev");
    fixture.with_settings(&[], |settings| {
        settings.set(Setting::CpuDmaLatency, &ours.to_string()).unwrap();
        assert_eq!(super::super::current_dma_latency(host.dev()).unwrap(), ours);
    });
}

#[test]
fn a_trials_power_state_shows_them() {
    let fixture = fixture();
    fs::write(fixture.path("dev/cpu_dma_latency"), 20_i32.to_ne_bytes()).unwrap();
    let read = || crate::power::PowerState::read(&fixture.host(), &["nvme0n1".to_owned()]);
    let before = read();
    assert_eq!(before.cpu_dma_latency_us, Some(20));
    let drive = &before.devices[0];
    assert_eq!(drive.link_states.as_deref(), Some(&["l1".to_owned(), "l1_2".to_owned()][..]));
    let coalescing = drive.nvme_coalescing.map(|at| (at.entries, at.usecs));
    assert_eq!((drive.nvme_power_state, drive.nvme_apst, coalescing), (Some(0), Some(true), Some((1, 0))));
    fixture.write("dev/nvme0/08", "519");
    fixture.write(TOLERANCE, "0");
    fixture.write(&format!("{FUNCTION}/link/l1_2_aspm"), "0");
    let changes: Vec<String> = before.changes_until(&read()).iter().map(ToString::to_string).collect();
    assert_eq!(
        changes,
        [
            "the set of link states of nvme0n1 changed from l1, l1_2 to l1",
            "the autonomous power state transition of nvme0n1 changed from on to off",
            "the interrupt coalescing of nvme0n1 changed from 1 completions or 0 us to 8 completions or 200 \
             us",
        ]
    );
}
