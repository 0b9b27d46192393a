//! Work beside the I/O of real trials: it is counted, and is neither the I/O's nor that of others.

use crate::common::{folder, have, iopj};
use crate::{available, cpus_allowed, run};
use serde_json::{Value, json};

const LIBAIO: &str = "libaio/syscall/interrupt";

pub(crate) fn exported(folder: &std::path::Path, store: &str) -> Vec<Value> {
    let exported = iopj(folder, &format!("export {store} --json")).output().unwrap();
    let exported: Value = serde_json::from_slice(&exported.stdout).unwrap();
    exported["trials"].as_array().unwrap().clone()
}

#[test]
fn a_co_runner_is_counted_and_is_not_the_ios() {
    let folder = folder().with_data(16 << 20);
    if !have(available(&folder, "data").contains(&LIBAIO.to_owned()), "libaio") {
        return;
    }
    let cpu = *cpus_allowed().last().unwrap();
    // Its threads have equal rights, or builds beside the test could leave it nothing.
    let text = format!(
        "name = \"co\"\npaths = \"{LIBAIO}\"\nmeters = false\n[[workload]]\nruntime = \"300ms\"\n\
         cpus_allowed = \"{cpu}\"\ncorunner = [\"none\", \"memory\"]\ncorunner_nice = 0\n"
    );
    std::fs::write(folder.join("co.toml"), text).unwrap();
    run(&folder, "co.toml --target data --replicates 1 --store co.iopj");
    let trials = exported(&folder, "co.iopj");
    let kinds: Vec<&str> = trials.iter().filter_map(|one| one["workload"]["corunner"].as_str()).collect();
    assert_eq!((trials.len(), kinds), (2, vec!["memory"]));
    for trial in &trials {
        let (evidence, did) = (&trial["evidence"], &trial["corunner"]);
        let threads = evidence["threads"].as_array().unwrap();
        assert!(threads.iter().all(|thread| thread["name"] != "iopj-corunner"), "{threads:?}");
        if trial["workload"]["corunner"].is_null() {
            assert!(did.is_null() && evidence["corunner_ns"].is_null(), "{did}");
            continue;
        }
        assert_eq!((&did["kind"], &did["nice"]), (&trial["workload"]["corunner"], &json!(0)));
        assert_eq!(did["cpus"], json!([cpu]));
        let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{trial}"));
        let (rounds, alone) = (number(&did["rounds"]), number(&trial["corunner_alone_per_s"]));
        assert!(rounds > 0.0 && alone > 0.0, "{did}");
        assert_eq!(did["cpu_ns"], evidence["corunner_ns"]);
        // By hand: the share that is missing of the one processor, for each I/O.
        let missing = 1.0 - rounds * 1e9 / number(&did["over_ns"]) / alone;
        let by_hand = missing * number(&trial["window_ns"]) / number(&trial["ios"]);
        let loss = number(&trial["corunner_loss_ns_per_io"]);
        assert!((loss - by_hand).abs() <= 1e-6 * by_hand.abs().max(1.0), "{loss} {by_hand}");
        // The threads of the I/O alone are in its CPU time: with the co-runner's, it would be beyond a core.
        let process = &evidence["process"];
        let io_ns = number(&process["user_ns"]) + number(&process["system_ns"]);
        assert!(io_ns <= number(&trial["window_ns"]) * 1.05, "{process}");
    }
    let table = iopj(&folder, "report co.iopj").output().unwrap();
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(table.contains("co-run/s") && table.contains("corunner memory corunner_nice 0"), "{table}");
}

#[test]
fn fios_jobs_have_a_co_runner_too() {
    let folder = folder().with_data(16 << 20);
    if !have(std::process::Command::new("fio").arg("--version").output().is_ok(), "fio") {
        return;
    }
    let text = format!(
        "name = \"co\"\npaths = \"{LIBAIO}\"\ngenerator = \"fio\"\nmeters = \
         false\n[[workload]]\nruntime = \"500ms\"\n"
    );
    std::fs::write(folder.join("fio.toml"), text).unwrap();
    run(&folder, "fio.toml --target data --replicates 1 --corunner spin --corunner-nice 0 --store fio.iopj");
    let trial = &exported(&folder, "fio.iopj")[0];
    let did = &trial["corunner"];
    assert_eq!(did["cpus"], json!(cpus_allowed()), "{trial}");
    assert!(did["rounds"].as_u64().is_some_and(|rounds| rounds > 0), "{did}");
}
