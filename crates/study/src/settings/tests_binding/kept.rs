//! What a drive loses by a change of hands: read before, put back after, told where it cannot be. After a death: `a_killed_run_...`.

use super::*;

impl Machine {
    /// A drive whose features and cache are not as a reset leaves them: its values.
    pub(super) fn with_features() -> Machine {
        let machine = Machine::new(Some("nvme"));
        for (feature, value) in [("06", "0"), ("08", "260"), ("0c", "1")] {
            machine.fixture.write(&format!("dev/nvme0/{feature}"), value);
        }
        machine.fixture.write("sys/block/nvme0n1/queue/write_cache", "write through");
        machine
    }

    /// The features and the cache.
    pub(super) fn kept(&self) -> [String; 4] {
        let files = ["dev/nvme0/06", "dev/nvme0/08", "dev/nvme0/0c", "sys/block/nvme0n1/queue/write_cache"];
        files.map(|file| self.fixture.read(file))
    }
}

#[test]
fn what_a_reset_loses_is_put_back() {
    let machine = Machine::with_features();
    let stood = ["0", "260", "1", "write through"].map(str::to_owned);
    machine.settings(|settings| {
        settings.take(&plan(Some("nvme"))).unwrap();
        let journal = machine.fixture.journals().remove(0);
        for line in [
            r#"{"file":"bus/pci/devices/0000:01:00.0/nvme/feature/06h","old":"0x0","new":"0x0"}"#,
            r#"{"file":"bus/pci/devices/0000:01:00.0/nvme/feature/08h","old":"0x104","new":"0x104"}"#,
            r#"{"file":"bus/pci/devices/0000:01:00.0/nvme/feature/0Ch","old":"0x1","new":"0x1"}"#,
            r#"{"file":"block/nvme0n1/queue/write_cache","old":"write through","new":"write through"}"#,
        ] {
            assert!(journal.contains(line), "{journal}");
        }
        settings.give_back(address()).unwrap();
        assert_eq!(machine.kept(), stood);
        // Once more, now by the settings' end.
        settings.take(&plan(Some("nvme"))).unwrap();
        settings.restore().unwrap();
        assert_eq!((machine.kept(), settings.warnings()), (stood, &[][..]));
    });
}

#[test]
fn what_a_drive_does_not_take_again_is_told_once_with_the_remedy() {
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
        let [cache, coalescing, apst] = settings.warnings() else { panic!("{:?}", settings.warnings()) };
        assert!(
            cache.starts_with(
                "0000:01:00.0: volatile write cache (feature 06h) was 0x0 before the drive was taken and is 0x1 now"
            ),
            "{cache}"
        );
        assert!(cache.contains("(NVMe status 0x10e)") && cache.ends_with(&command(6, "0x0")), "{cache}");
        assert!(coalescing.ends_with(&command(8, "0x104")), "{coalescing}");
        assert!(apst.contains("transitions (feature 0Ch) was 0x0 before the drive was taken and is 0x1 now"), "{apst}");
        assert!(apst.contains("pm_qos_latency_tolerance_us"), "{apst}");
    });
    assert_eq!(machine.fixture.journals(), [""; 0]);
}

#[test]
fn only_what_is_kept_is_read_from_a_journal() {
    let kept = "bus/pci/devices/0000:01:00.0/nvme/feature/06h".parse::<Item>().unwrap();
    assert_eq!(kept.to_string(), "bus/pci/devices/0000:01:00.0/nvme/feature/06h");
    assert!(kept.accepts("0x0") && kept.accepts("0xffffffff"));
    assert!(["0", "0x00", "0x", "0xFF", "0x100000000", "0x1 "].iter().all(|old| !kept.accepts(old)));
    let cache = "block/nvme0n1/queue/write_cache".parse::<Item>().unwrap();
    assert_eq!((cache.device(), cache.accepts("write back"), cache.accepts("none")), (Some("nvme0n1"), true, false));
    for foreign in [
        "bus/pci/devices/0000:01:00.0/nvme/feature/02h",
        "bus/pci/devices/0000:01:00.0/nvme/feature/0ch",
        "bus/pci/devices/../nvme/feature/06h",
        "bus/pci/devices/0000:01:00.0/nvme/feature/06h/..",
        "block/../queue/write_cache",
    ] {
        assert!(foreign.parse::<Item>().is_err(), "{foreign}");
    }
}
