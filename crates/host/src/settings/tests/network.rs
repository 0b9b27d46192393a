//! Settings of cores and of network cards: which files they are, what they get, and that they come back.

use super::super::fixture::{CPU, Fixture, assert_refused};
use iopj_core::Setting;
use std::fs;

/// A host of eight cores, of which the last is offline, with the card `eth0`.
fn fixture() -> Fixture {
    let fixture = Fixture::empty();
    fs::create_dir_all(fixture.path(&format!("{CPU}/cpu0"))).unwrap();
    for core in 1..8 {
        fixture.write(&format!("{CPU}/cpu{core}/online"), if core < 7 { "1" } else { "0" });
    }
    for (file, value) in [("mtu", "1500"), ("gro_flush_timeout", "0"), ("napi_defer_hard_irqs", "0")] {
        fixture.write(&format!("sys/class/net/eth0/{file}"), value);
    }
    fixture.write("proc/sys/net/core/busy_poll", "0");
    fixture
}

fn online(fixture: &Fixture) -> Vec<u32> {
    let is_online = |core: &u32| {
        fs::read_to_string(fixture.path(&format!("{CPU}/cpu{core}/online"))).unwrap().trim() == "1"
    };
    (1..8).filter(is_online).collect()
}

#[test]
fn the_cores_with_the_highest_numbers_go_and_come_back() {
    let fixture = fixture();
    let host = fixture.host();
    let locks = host.lock(&[]).unwrap();
    let mut settings = host.settings(&[], &locks);
    settings.set(Setting::CpusOnline, "1").unwrap();
    assert!(online(&fixture).is_empty());
    settings.set(Setting::CpusOnline, "3").unwrap();
    assert_eq!(online(&fixture), [1, 2]);
    assert_refused(settings.set(Setting::CpusOnline, "9"), &["this host has 8 cores", "leave it out"]);
    settings.restore().unwrap();
    // The last was offline before.
    assert_eq!(online(&fixture), [1, 2, 3, 4, 5, 6]);
    assert!(fixture.journals().is_empty());
}

#[test]
fn a_cards_files_are_changed_under_its_lock_and_come_back() {
    let fixture = fixture();
    let host = fixture.host();
    let locks = host.lock(&[]).unwrap();
    let mut settings = host.settings(&[], &locks);
    assert_refused(settings.set(Setting::Mtu, "9000"), &["no network card leads"]);
    settings.may_change_nics(&["eth0".to_owned(), "../eth0".to_owned()]);
    settings.set(Setting::Mtu, "9000").unwrap();
    settings.set(Setting::BusyPoll, "50").unwrap();
    let read = |file: &str| fs::read_to_string(fixture.path(file)).unwrap().trim().to_owned();
    assert_eq!([read("sys/class/net/eth0/mtu"), read("proc/sys/net/core/busy_poll")], ["9000", "50"]);
    let mut other = host.settings(&[], &locks);
    other.may_change_nics(&["eth0".to_owned()]);
    assert_refused(other.set(Setting::Mtu, "1400"), &["`net:eth0` is in use"]);
    settings.restore().unwrap();
    assert_eq!([read("sys/class/net/eth0/mtu"), read("proc/sys/net/core/busy_poll")], ["1500", "0"]);
    assert!(fixture.journals().is_empty());
}

/// A card without moderation gives the thing, the cause and the remedy; `lo` is one on every machine.
#[test]
fn a_card_without_moderation_is_named() {
    let fixture = fixture();
    let host = fixture.host();
    let locks = host.lock(&[]).unwrap();
    let mut settings = host.settings(&[], &locks);
    settings.may_change_nics(&["lo".to_owned()]);
    assert_refused(
        settings.set(Setting::RxUsecs, "50"),
        &["`rx_usecs` cannot be changed here", "the driver of lo does not have it", "leave it out"],
    );
}

/// A host whose card has two interrupts, and of four cores; the number 26 is another device's.
fn with_interrupts() -> Fixture {
    let fixture = fixture();
    let device = "sys/devices/pci0000:00/0000:00:03.0";
    for irq in [24, 25, 27] {
        fixture.write(&format!("{device}/msi_irqs/{irq}"), "msix");
    }
    // Nothing handles the third one.
    for (irq, cpus) in [(24, "0-3"), (25, "2"), (26, "1")] {
        fixture.write(&format!("proc/irq/{irq}/smp_affinity_list"), cpus);
    }
    // As virtio over PCI has it: the interrupts are those of the device above.
    fs::create_dir(fixture.path(&format!("{device}/virtio0"))).unwrap();
    fixture.link("sys/class/net/eth0/device", &format!("{device}/virtio0"));
    fixture
}

fn affinities(fixture: &Fixture) -> [String; 3] {
    [24, 25, 26].map(|irq| fixture.read(&format!("proc/irq/{irq}/smp_affinity_list")))
}

#[test]
fn the_interrupts_of_a_card_are_placed_and_come_back() {
    let fixture = with_interrupts();
    let host = fixture.host();
    let locks = host.lock(&[]).unwrap();
    let mut settings = host.settings(&[], &locks);
    let words = ["no network card with interrupts of its own leads to the other host"];
    assert_refused(settings.set(Setting::NicIrqAffinity, "0"), &words);
    settings.may_change_nics(&["eth0".to_owned()]);
    settings.set(Setting::NicIrqAffinity, "0").unwrap();
    assert_eq!(affinities(&fixture), ["0", "0", "1"]);
    let [journal] = &fixture.journals()[..] else { panic!("one journal") };
    assert!(journal.contains("class/net/eth0/irq/25/smp_affinity_list"), "{journal}");
    settings.restore().unwrap();
    assert_eq!(affinities(&fixture), ["0-3", "2", "1"]);
}

/// A dead run's journal names an interrupt that went with its card, and whose number another device has.
#[test]
fn an_interrupt_that_is_another_devices_by_now_is_left_alone() {
    let fixture = with_interrupts();
    let host = fixture.host();
    let locks = host.lock(&[]).unwrap();
    let mut settings = host.settings(&[], &locks);
    settings.may_change_nics(&["eth0".to_owned()]);
    settings.set(Setting::NicIrqAffinity, "1").unwrap();
    fs::remove_file(fixture.path("sys/devices/pci0000:00/0000:00:03.0/msi_irqs/25")).unwrap();
    settings.restore().unwrap();
    assert_eq!(affinities(&fixture), ["0-3", "1", "1"]);
    assert!(settings.warnings().iter().any(|line| line.contains("proc/irq/25/smp_affinity_list is gone")));
}

/// Cores that go offline hand their interrupts over, and do not take them back.
#[test]
fn interrupts_that_the_kernel_moves_are_back_where_they_were() {
    let fixture = with_interrupts();
    let host = fixture.host();
    let locks = host.lock(&[]).unwrap();
    let mut settings = host.settings(&[], &locks);
    settings.may_change_nics(&["eth0".to_owned()]);
    settings.set(Setting::CpusOnline, "2").unwrap();
    fixture.write("proc/irq/25/smp_affinity_list", "0-1");
    settings.restore().unwrap();
    assert_eq!(affinities(&fixture), ["0-3", "2", "1"]);
}

#[test]
fn irqbalance_is_seen() {
    let fixture = fixture();
    fixture.write("proc/7/comm", "irqbalanced");
    assert_eq!(fixture.host().irqbalance(), None);
    fixture.write("proc/81/comm", "irqbalance");
    assert_eq!(fixture.host().irqbalance(), Some(81));
}
