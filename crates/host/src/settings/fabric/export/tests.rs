//! Exports, in a folder that stands in for configfs: what is made, for whom, and that nothing is left. A real
//! target exports in the lab.

use super::super::super::fixture::Fixture;
use super::*;
use crate::settings::fabric_removal::remove_port;
use std::collections::BTreeMap;

fn export() -> Export {
    Export {
        subsystem: "11111111-2222-4333-8444-555555555555".parse().unwrap(),
        host: "66666666-7777-4888-9999-aaaaaaaaaaaa".parse().unwrap(),
        device: "/dev/nvme0n1".into(),
        transport: Transport::Tcp,
        address: Some("10.1.0.1".parse().unwrap()),
        port: 4420,
        secret: Some("DHHC-1:00:c2VjcmV0:".to_owned()),
    }
}

/// A host whose `nvmet` is loaded. In configfs the kernel fills new folders; here they have their files
/// before.
fn fixture() -> Fixture {
    let fixture = Fixture::empty();
    for folder in ["subsystems", "hosts", "ports"] {
        std::fs::create_dir_all(fixture.path(&format!("sys/kernel/config/nvmet/{folder}"))).unwrap();
    }
    fixture
}

/// Everything below the target's folder: names and texts.
fn tree(fixture: &Fixture) -> BTreeMap<String, String> {
    fn walk(folder: &Path, all: &mut BTreeMap<String, String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            all.insert(path.display().to_string(), text);
            if path.is_dir() && !path.is_symlink() {
                walk(&path, all);
            }
        }
    }
    let mut all = BTreeMap::new();
    walk(&fixture.path("sys/kernel/config/nvmet"), &mut all);
    all
}

#[test]
fn an_export_that_fails_half_way_leaves_nothing() {
    let fixture = fixture();
    let host = fixture.host();
    let locks = host.lock(&[]).unwrap();
    let empty = tree(&fixture);
    let mut settings = host.settings(&[], &locks);
    // A folder that is no configfs has no attributes, so the export ends at the first of them.
    let error = settings.export(&export()).unwrap_err().to_string();
    assert!(error.contains("dhchap_key") && !error.contains("c2VjcmV0"), "{error}");
    let open = Export { secret: None, ..export() };
    settings.restore().unwrap();
    let error = settings.export(&open).unwrap_err().to_string();
    assert!(error.contains("attr_allow_any_host"), "{error}");
    assert_ne!(tree(&fixture), empty);
    settings.restore().unwrap();
    assert_eq!(tree(&fixture), empty);
}

/// Entries of a dead run are found by its journal alone; it holds no secret.
#[test]
fn what_a_dead_run_exported_is_removed() {
    let fixture = fixture();
    let host = fixture.host();
    let locks = host.lock(&[]).unwrap();
    let empty = tree(&fixture);
    let mut settings = host.settings(&[], &locks);
    settings.export(&export()).unwrap_err();
    settings.journal_item(FabricItem::Subsystem(export().subsystem)).unwrap();
    settings.journal_item(FabricItem::Port(40_007, export().subsystem)).unwrap();
    for folder in [format!("subsystems/{}", export().subsystem.nqn()), "ports/40007".to_owned()] {
        std::fs::create_dir(host.nvmet().join(folder)).unwrap();
    }
    let text = &fixture.journals()[0];
    assert!(!text.contains("DHHC"), "the secret is in the journal: {text}");
    let record = crate::settings::journal::parse(text.as_bytes()).unwrap();
    let outcome = crate::settings::restore::put_back(&host, &record.undo, &[]);
    assert_eq!(outcome.failed, []);
    assert_eq!(outcome.restored.len(), 3);
    assert_eq!(tree(&fixture), empty);
}

#[test]
fn a_port_that_serves_another_subsystem_stays() {
    let fixture = fixture();
    let nvmet = fixture.host().nvmet();
    let other = nvmet.join("ports/40000/subsystems/nqn.other");
    std::fs::create_dir_all(&other).unwrap();
    let error = remove_port(&nvmet, 40_000, &export().subsystem).unwrap_err().to_string();
    assert!(error.contains("another subsystem"), "{error}");
    assert!(other.exists());
}

#[test]
fn a_missing_target_and_a_missing_configfs_have_their_remedies() {
    let fixture = Fixture::empty();
    let host = fixture.host();
    let locks = host.lock(&[]).unwrap();
    let refused = || host.settings(&[], &locks).export(&export()).unwrap_err().to_string();
    assert!(refused().contains("`modprobe nvmet`"), "{}", refused());
    std::fs::create_dir_all(fixture.path("sys/module/nvmet")).unwrap();
    assert!(refused().contains("mount -t configfs"), "{}", refused());
    std::fs::create_dir_all(fixture.path("sys/kernel/config/other")).unwrap();
    assert!(refused().contains("`modprobe nvmet`"), "{}", refused());
}

#[test]
fn a_port_that_is_taken_is_named() {
    let text = not_listening(&export(), &io::Error::from_raw_os_error(Errno::ADDRINUSE.raw_os_error()));
    assert!(text.starts_with("the target cannot listen by tcp at 10.1.0.1 port 4420"), "{text}");
    assert!(text.ends_with("something else listens there, so name another `port`"), "{text}");
}
