//! What a drive loses by a change of driver: read before, put back after, reported if it cannot be. After a
//! run's death: `a_killed_run_...`.

use super::*;
use crate::settings::drive_setting::{DriveSetting, Feature};
use iopj_core::Setting;
use iopj_engine::nvme_user::PriorState;

impl Kernel {
    /// The controller's folder. Its serial is S-1, or what the file `serial` of the root says; with a file
    /// `gone` there, the drive is pulled again as soon as its disk has come.
    pub(super) fn controller_comes(&self) -> PathBuf {
        let name = if self.path("gone").exists() { "pulled" } else { "nvme0" };
        let controller = self.path(&format!("{DEVICE}/nvme/{name}"));
        fs::create_dir_all(&controller).unwrap();
        let serial = fs::read_to_string(self.path("serial")).unwrap_or_else(|_| "S-1\n".to_owned());
        fs::write(controller.join("serial"), serial).unwrap();
        if self.path("apst").exists() {
            fs::create_dir_all(controller.join("power")).unwrap();
            fs::write(controller.join("power/pm_qos_latency_tolerance_us"), "100000\n").unwrap();
        }
        // What a reset makes of its features.
        for (feature, value) in RESET.into_iter().filter(|_| self.path("dev/nvme0").exists()) {
            fs::write(self.path("dev/nvme0").join(feature), value).unwrap();
        }
        controller
    }
}

const RESET: [(&str, &str); 4] = [("02", "0"), ("06", "1"), ("08", "0"), ("0c", "1")];

impl Machine {
    /// A drive whose features and cache are not as a reset leaves them: its values.
    pub(super) fn with_features() -> Machine {
        let machine = Machine::new(Some("nvme"));
        for (feature, value) in [("02", "65"), ("06", "0"), ("08", "260"), ("0c", "1")] {
            machine.fixture.write(&format!("dev/nvme0/{feature}"), value);
        }
        machine.fixture.write("sys/block/nvme0n1/queue/write_cache", "write through");
        machine
    }

    /// The features and the cache.
    pub(super) fn kept(&self) -> [String; 5] {
        let files = [
            "dev/nvme0/02",
            "dev/nvme0/06",
            "dev/nvme0/08",
            "dev/nvme0/0c",
            "sys/block/nvme0n1/queue/write_cache",
        ];
        files.map(|file| self.fixture.read(file))
    }
}

#[test]
fn what_a_reset_loses_is_put_back() {
    let machine = Machine::with_features();
    let stood = ["65", "0", "260", "1", "write through"].map(str::to_owned);
    machine.settings(|settings| {
        settings.take(&plan(Some("nvme"))).unwrap();
        let journal = machine.fixture.journals().remove(0);
        for line in [
            r#"{"file":"bus/pci/devices/0000:01:00.0/nvme/serial","old":"S-1","new":"S-1"}"#,
            r#"{"file":"bus/pci/devices/0000:01:00.0/nvme/feature/02h","old":"0x41","new":"0x41"}"#,
            r#"{"file":"bus/pci/devices/0000:01:00.0/nvme/feature/06h","old":"0x0","new":"0x0"}"#,
            r#"{"file":"bus/pci/devices/0000:01:00.0/nvme/feature/08h","old":"0x104","new":"0x104"}"#,
            r#"{"file":"bus/pci/devices/0000:01:00.0/nvme/feature/0Ch","old":"0x1","new":"0x1"}"#,
            r#"{"file":"block/nvme0n1/queue/write_cache","old":"write through","new":"write through"}"#,
        ] {
            assert!(journal.contains(line), "{journal}");
        }
        // Our driver sets it up as it was, except for how the kernel treats its cache.
        let given = settings.drive_settings(address());
        let features: Vec<_> =
            given.features.iter().map(|feature| (feature.name, feature.id, feature.value)).collect();
        let expected =
            [("power state", 2, 0x41), ("volatile write cache", 6, 0), ("interrupt coalescing", 8, 0x104)];
        assert_eq!(features, expected);
        assert_eq!((given.apst_off, given.latency_tolerance_us), (false, None));
        assert_eq!(given.serial.as_deref(), Some("S-1"));
        settings.give_back(address()).unwrap();
        assert_eq!(
            (machine.kept(), settings.drive_settings(address())),
            (stood.clone(), PriorState::default())
        );
        // Once more, now by the settings' end.
        settings.take(&plan(Some("nvme"))).unwrap();
        settings.restore().unwrap();
        assert_eq!((machine.kept(), settings.warnings()), (stood, &[][..]));
    });
}

/// There is nobody who passes a command on to it.
#[test]
fn a_drive_that_was_taken_lets_nobody_set_its_features() {
    let machine = Machine::with_features();
    machine.settings(|settings| {
        settings.set(Setting::NvmePowerState, "0").unwrap();
        assert_eq!(machine.kept()[0], "64");
        settings.take(&plan(Some("nvme"))).unwrap();
        let words = ["the kernel does not drive 0000:01:00.0 while a path of kernel bypass has it"];
        assert_refused(settings.set(Setting::NvmePowerState, "1"), &words);
        settings.give_back(address()).unwrap();
        assert_eq!(machine.kept()[0], "64", "as it was when it was taken");
    });
    assert_eq!(machine.kept()[0], "65", "as it was before the run");
}

/// A drive that came back had the module's tolerance, and with it other power states than in the trials
/// before.
#[test]
fn the_latency_that_power_states_may_take_is_put_back() {
    let tolerance = format!("{DEVICE}/nvme/nvme0/power/pm_qos_latency_tolerance_us");
    for (tolerated, us, apst_off) in [("20", 20, false), ("any", u64::MAX, false), ("auto", u64::MAX, true)] {
        let machine = Machine::with_features();
        machine.fixture.write("apst", "");
        machine.fixture.write(&tolerance, tolerated);
        if apst_off {
            machine.fixture.write("dev/nvme0/0c", "0");
        }
        machine.settings(|settings| {
            settings.take(&plan(Some("nvme"))).unwrap();
            let given = settings.drive_settings(address());
            assert_eq!((given.latency_tolerance_us, given.apst_off), (Some(us), apst_off), "{tolerated}");
            settings.give_back(address()).unwrap();
            assert_eq!(machine.fixture.read(&tolerance), tolerated);
            settings.take(&plan(Some("nvme"))).unwrap();
            settings.restore().unwrap();
            assert_eq!(machine.fixture.read(&tolerance), tolerated);
        });
    }
    let text = "bus/pci/devices/0000:01:00.0/nvme/power/pm_qos_latency_tolerance_us";
    let setting: DriveSetting = text.parse().unwrap();
    assert_eq!(setting, DriveSetting::Tolerance(address()));
    assert_eq!(
        ["0", "2147483647", "auto", "2147483648", "-1", "-0", "+1", "01", "", "1 "]
            .map(|old| setting.accepts(old)),
        [true, true, true, false, false, false, false, false, false, false]
    );
}

#[test]
fn what_a_drive_does_not_take_again_is_reported_once_with_the_remedy() {
    let machine = Machine::with_features();
    machine.fixture.write("dev/nvme0/0c", "0");
    machine.fixture.write("dev/nvme0/fixed", "");
    machine.settings(|settings| {
        for _ in 0..2 {
            settings.take(&plan(Some("nvme"))).unwrap();
            settings.give_back(address()).unwrap();
        }
        assert_eq!(settings.restore().unwrap(), [], "a loss keeps nothing else from going back");
        let dev = machine.fixture.path("dev/nvme0");
        let command = |feature, value| {
            format!("`nvme set-feature {} --feature-id={feature} --value={value}` sets it", dev.display())
        };
        let [power, cache, coalescing, apst] = settings.warnings() else {
            panic!("{:?}", settings.warnings())
        };
        assert!(
            power.contains("power state (feature 02h) was 0x41") && power.ends_with(&command(2, "0x41")),
            "{power}"
        );
        assert!(
            cache.starts_with(
                "0000:01:00.0: volatile write cache (feature 06h) was 0x0 before the run and is \
                 0x1 now"
            ),
            "{cache}"
        );
        assert!(cache.contains("(NVMe status 0x10e)") && cache.ends_with(&command(6, "0x0")), "{cache}");
        assert!(coalescing.ends_with(&command(8, "0x104")), "{coalescing}");
        assert!(apst.contains("transitions (feature 0Ch) was 0x0 before the run and is 0x1 now"), "{apst}");
        assert!(apst.contains("pm_qos_latency_tolerance_us"), "{apst}");
    });
    assert_eq!(machine.fixture.journals(), [""; 0]);
}

/// Another drive in the slot got the old one's features before anything looked at its serial: at a change of
/// paths, and at the run's end.
#[test]
fn another_drive_in_the_slot_keeps_its_own_features() {
    let of_its_own = ["0", "1", "0", "1", "write back"].map(str::to_owned);
    for at_the_end in [true, false] {
        let machine = Machine::with_features();
        machine.fixture.write(&format!("{DEVICE}/nvme/nvme0/nvme0n1/queue/scheduler"), "kyber");
        machine.settings(|settings| {
            settings.take(&plan(Some("nvme"))).unwrap();
            machine.fixture.write("serial", "S-2");
            if at_the_end {
                return;
            }
            let cause = "it is another drive now (serial S-2, it was S-1 when it was taken): its settings \
                         are left alone";
            assert_refused(settings.give_back(address()), &[cause]);
            assert_eq!(settings.restore().unwrap(), []);
            // The note was dropped.
            assert_eq!(settings.warnings(), [cause.replacen("it is", "0000:01:00.0 is", 1)]);
        });
        let scheduler = machine.fixture.read("sys/block/nvme0n1/queue/scheduler");
        assert_eq!(
            (machine.kept(), scheduler.as_str()),
            (of_its_own.clone(), "none"),
            "at the end: {at_the_end}"
        );
        assert_eq!(machine.fixture.journals(), [""; 0]);
    }
}

/// A run that waited without root could claim the drive while its settings were still put back.
#[test]
fn a_drive_that_came_back_is_claimed_before_anything_is_put_back() {
    let machine = Machine::with_features();
    let set = |controller: &Path, feature, value| {
        let stat = fs::File::open(controller.join("../../sys/block/nvme0n1/stat"))?;
        match stat.try_lock() {
            Ok(()) => Err(std::io::Error::other("anybody can claim it")),
            Err(_) => (host_at(Path::new("/")).features.set)(controller, feature, value),
        }
    };
    let host = machine.fixture.host();
    let host = host.with(|host| host.features.set = set);
    let devices = ["nvme0n1".to_owned()];
    let locks = host.lock(&devices).unwrap();
    let mut settings = host.settings(&devices, &locks);
    settings.take(&plan(Some("nvme"))).unwrap();
    settings.give_back(address()).unwrap();
    assert_eq!(settings.warnings(), [""; 0]);
    assert_eq!(machine.kept()[..2], ["65", "0"]);
}

/// Not a test of its own: the run that `a_dead_runs_features_are_no_other_drives` kills.
#[test]
fn part_takes_and_waits() {
    let Some(root) = crate::settings::tests::restore::child_root() else { return };
    let (host, devices) = (host_at(&root), ["nvme0n1".to_owned()]);
    let locks = host.lock(&devices).unwrap();
    let mut settings = host.settings(&devices, &locks);
    settings.take(&plan(Some("nvme"))).unwrap();
    fs::write(root.join("changed"), "").unwrap();
    thread::sleep(Duration::from_secs(300));
}

/// The next start set them on whatever drive was in the slot.
#[test]
fn a_dead_runs_features_are_no_other_drives() {
    for is_back in [false, true] {
        let machine = Machine::with_features();
        let child = play(module_path!(), "part_takes_and_waits", &machine.fixture);
        wait_for(&machine.fixture.path("changed"));
        kill(child);
        machine.fixture.write("serial", "S-2");
        if is_back {
            // A new drive in the slot comes to its own driver.
            machine.fixture.write(&format!("{DEVICE}/driver_override"), "");
            fs::write(machine.fixture.path("sys/bus/pci/drivers/vfio-pci/unbind"), ADDRESS).unwrap();
            while machine.kernel.driver().is_some() {
                thread::sleep(Duration::from_millis(1));
            }
            fs::write(machine.fixture.path("sys/bus/pci/drivers/nvme/bind"), ADDRESS).unwrap();
            wait_for(&machine.fixture.path("sys/block/nvme0n1"));
        }
        let report = machine.restore();
        let note = "0000:01:00.0 is another drive now (serial S-2, it was S-1 when it was taken): its \
                    settings are left alone";
        assert!(report.notes.contains(&note.to_owned()), "{report:?}");
        assert_eq!(
            (report.restored.len(), report.failed),
            (usize::from(!is_back), vec![]),
            "the driver at most"
        );
        assert_eq!(machine.kept(), ["0", "1", "0", "1", "write back"], "is back: {is_back}");
        assert_eq!(machine.fixture.journals(), [""; 0]);
    }
}

/// The kernel's paths ran on a drive in its default power state after the first trial without the kernel.
#[test]
fn the_power_state_is_the_one_in_which_the_drive_works() {
    let machine = Machine::with_features();
    // It rests in state 4 by itself, and works in 1; the bits above the hint are none of its value.
    machine.fixture.write("dev/nvme0/02", "4");
    machine.fixture.write("dev/nvme0/working", "1793");
    machine.settings(|settings| {
        settings.take(&plan(Some("nvme"))).unwrap();
        fs::remove_file(machine.fixture.path("dev/nvme0/working")).unwrap();
        settings.give_back(address()).unwrap();
        assert_eq!((machine.fixture.read("dev/nvme0/02").as_str(), settings.warnings()), ("1", &[][..]));
    });
}

#[test]
fn a_path_of_a_multipath_disk_is_woken_by_its_head() {
    let fixture = Fixture::empty();
    let controller = format!("sys/bus/pci/devices/{ADDRESS}/nvme/nvme0");
    let files =
        ["sys/block/nvme0n1/dev", "sys/block/nvme0c0n1/hidden", &format!("{controller}/nvme0c0n1/hidden")];
    files.iter().for_each(|file| fixture.write(file, "1"));
    fixture.write(&format!("{controller}/serial"), "S-1");
    fixture.write("dev/nvme0/02", "4");
    fixture.write("dev/nvme0/working", "2");
    let current = DriveSetting::current(&fixture.host(), address(), &[]);
    assert_eq!(current, [(DriveSetting::Feature(address(), Feature::PowerState), "0x2".to_owned())]);
    // Features that another drive could get are not kept.
    fixture.write(&format!("{controller}/serial"), "                    \n");
    assert_eq!(DriveSetting::current(&fixture.host(), address(), &[]), []);
    std::fs::remove_file(fixture.path(&format!("{controller}/serial"))).unwrap();
    assert_eq!(DriveSetting::current(&fixture.host(), address(), &[]), []);
}

/// It was once reported as a bare "NVMe status 0x6".
#[test]
fn a_feature_that_cannot_be_read_is_reported_with_the_remedy() {
    for (how, error) in
        [("failing", "NVMe status 0x6"), ("no node", "No such file or directory (os error 2)")]
    {
        let machine = Machine::with_features();
        machine.settings(|settings| {
            settings.take(&plan(Some("nvme"))).unwrap();
            match how {
                "failing" => machine.fixture.write("dev/nvme0/failing", ""),
                _ => fs::remove_dir_all(machine.fixture.path("dev/nvme0")).unwrap(),
            }
            settings.give_back(address()).unwrap();
            let warning = &settings.warnings()[1];
            let node = machine.fixture.path("dev/nvme0");
            let wanted = format!(
                "0000:01:00.0: volatile write cache (feature 06h) was 0x0 before the run and \
                 cannot be read now: {error}; a reset of the controller loses it, and `nvme set-feature {} \
                 --feature-id=6 --value=0x0` sets it",
                node.display()
            );
            assert_eq!((warning, settings.warnings().len()), (&wanted, 4));
        });
    }
}

#[test]
fn a_drive_that_is_gone_is_no_warning() {
    let machine = Machine::with_features();
    machine.settings(|settings| {
        settings.take(&plan(Some("nvme"))).unwrap();
        machine.fixture.write("gone", "");
        settings.give_back(address()).unwrap();
        assert!(settings.warnings().is_empty(), "{:?}", settings.warnings());
    });
}

#[test]
fn only_what_is_kept_is_read_from_a_journal() {
    let kept = "bus/pci/devices/0000:01:00.0/nvme/feature/06h".parse::<Item>().unwrap();
    assert_eq!(kept.to_string(), "bus/pci/devices/0000:01:00.0/nvme/feature/06h");
    assert!(kept.accepts("0x0") && kept.accepts("0xffffffff"));
    assert!(["0", "0x00", "0x", "0xFF", "0x100000000", "0x1 "].iter().all(|old| !kept.accepts(old)));
    let cache = "block/nvme0n1/queue/write_cache".parse::<Item>().unwrap();
    assert_eq!(
        (cache.device(), cache.accepts("write back"), cache.accepts("none")),
        (Some("nvme0n1"), true, false)
    );
    for foreign in [
        "bus/pci/devices/0000:01:00.0/nvme/feature/04h",
        "bus/pci/devices/0000:01:00.0/nvme/feature/0ch",
        "bus/pci/devices/../nvme/serial",
        "bus/pci/devices/0000:01:00.0/nvme/serial/..",
        "bus/pci/devices/../nvme/feature/06h",
        "bus/pci/devices/0000:01:00.0/nvme/feature/06h/..",
        "block/../queue/write_cache",
    ] {
        assert!(foreign.parse::<Item>().is_err(), "{foreign}");
    }
}
