//! Block devices that come back late, in part, or not at all.

use super::*;
use std::os::unix::net::UnixListener;

#[test]
fn disks_that_stay_away_are_named() {
    let mut machine = Machine::new(Some("nvme"));
    machine.fixture.limit = Some(Duration::from_secs(2));
    machine.settings(|settings| {
        let mut plan = plan(Some("nvme"));
        machine.fixture.write("sys/block/nvme0n2/dev", "259:7");
        plan.namespaces.push("nvme0n2".to_owned());
        settings.take(&plan).unwrap();
        assert!(machine.fixture.path("run/iopj/nvme0n2.lock").exists());
        fs::remove_dir_all(machine.fixture.path("sys/block/nvme0n2")).unwrap();
        let away = "its driver has it again, but nvme0n2 did not come back within 2 s";
        assert_refused(settings.give_back(address()), &[away]);
    });
    assert_eq!((machine.kernel.driver().as_deref(), machine.fixture.journals().len()), (Some("nvme"), 0));
}

#[test]
fn queue_files_that_come_later_than_their_disk_are_put_back() {
    let machine = Machine::new(Some("nvme"));
    let scheduler = format!("{DEVICE}/nvme/nvme0/nvme0n1/queue/scheduler");
    machine.settings(|settings| {
        for value in ["kyber", "bfq", "mq-deadline"] {
            machine.fixture.write(&scheduler, value);
            settings.take(&plan(Some("nvme"))).unwrap();
            settings.give_back(address()).unwrap();
            assert_eq!(machine.fixture.read(&scheduler), value, "the driver's own is `none`");
        }
    });
}

#[test]
fn a_disk_whose_node_cannot_be_opened_yet_is_waited_for() {
    let mut machine = Machine::new(Some("nvme"));
    machine.fixture.limit = Some(Duration::from_secs(1));
    let node = machine.fixture.path("dev/nvme0n1");
    fs::create_dir_all(node.parent().unwrap()).unwrap();
    machine.settings(|settings| {
        settings.take(&plan(Some("nvme"))).unwrap();
        // A socket's file is opened in the same way: `ENXIO`.
        let _socket = UnixListener::bind(&node).unwrap();
        let away = "its driver has it again, but nvme0n1 did not come back within 1 s";
        assert_refused(settings.give_back(address()), &[away]);
        fs::remove_file(&node).unwrap();
        fs::write(&node, "").unwrap();
        settings.give_back(address()).unwrap();
    });
}

/// `iopj restore` waited 20 s for each disk that had gone for good.
#[test]
fn the_disks_of_a_live_controller_are_not_waited_for_long() {
    let machine = Machine::new(Some("nvme"));
    let (host, binding) = (machine.fixture.host(), Binding(address()));
    let limit = |driver: &str| binding.coming_limit(&host, driver);
    let state = |word: &str| machine.fixture.write(&format!("{DEVICE}/nvme/nvme0/state"), word);
    state("live");
    assert_eq!(limit("nvme"), Duration::from_secs(1));
    for word in ["new", "connecting", "resetting"] {
        state(word);
        assert_eq!(limit("nvme"), Duration::from_secs(30), "{word}");
    }
    fs::remove_dir_all(machine.fixture.path(&format!("{DEVICE}/nvme"))).unwrap();
    assert_eq!([limit("nvme"), limit("virtio-pci")], [30, 1].map(Duration::from_secs));
}
