//! The rule of serial numbers on a real drive: the one beneath the folder of the build.

use crate::campaigns::{json, study};
use crate::common::{TestFolder, alone, folder, output, written};
use serde_json::{Value, json};
use std::fs;

/// Runs a job that writes, with this list; its state.
fn state(folder: &TestFolder, listed: &[&str]) -> Value {
    let job = json!({
        "format": 1, "version": env!("CARGO_PKG_VERSION"), "campaign": "c",
        "study": study(1, "50ms").replace("randread", "randwrite"),
        "serials": listed, "destroy_data": false, "allow_exec": false, "wait_ms": 600_000,
    });
    let place = folder.join("job");
    let _ = fs::remove_dir_all(&place);
    fs::create_dir(&place).unwrap();
    fs::write(place.join("job.json"), job.to_string()).unwrap();
    output(&mut crate::common::iopj(folder, "fleet job job"));
    json(&place.join("state.json"))
}

#[test]
fn nothing_is_written_to_a_drive_whose_serial_number_is_not_listed_whole() {
    let _alone = alone();
    let folder = folder();
    written(&folder.join("x"), 4096);
    let refused = state(&folder, &["S1"]);
    assert_eq!(refused["phase"], "refused");
    assert_eq!(fs::read_dir(folder.join("job")).unwrap().count(), 2, "only the description and the state");
    let Some(serial) = refused["drives"][0]["serial"].as_str() else {
        assert!(refused["reason"].as_str().unwrap().contains("has no serial number"), "{refused}");
        return;
    };
    assert!(refused["reason"].as_str().unwrap().contains(&format!("`{}`, is not listed", serial.trim())));
    let prefix = &serial.trim()[..serial.trim().len() - 1];
    for other in [prefix.to_owned(), format!("{}x", serial.trim())] {
        assert_eq!(state(&folder, &[&other])["phase"], "refused", "{other}");
    }
    let padded = format!("{}            ", serial.trim());
    let done = state(&folder, &["S1", &padded]);
    assert_eq!((&done["phase"], &done["done"]), (&"ok".into(), &1.into()), "{done}");
}
