//! Settings of cores and of network cards: which files they are, what they get, and that they come back.

use super::fixture::{CPU, Fixture, assert_refused};
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
