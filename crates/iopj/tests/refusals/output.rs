//! Output for other programs: JSON, CSV, help, exit codes of wrong options; and foreign bytes never reach a
//! terminal.

use crate::common::{alone, folder, iopj, refusal, says};
use crate::{PLAIN, listing, refuses, succeeds};
use serde_json::Value;
use std::fs;

#[test]
fn results_are_read_by_other_programs() {
    let _alone = alone();
    let here = &*folder().with_data(1 << 20);
    let line = PLAIN.replace("--replicates 1", "--replicates 2") + ",libaio/syscall/interrupt";
    let (run, words) = succeeds(&mut iopj(here, &format!("run --target data --store x.iopj --json {line}")));
    assert!(words.contains("4/4 "), "plain lines tell the progress: {words}");
    let run: Value = serde_json::from_str(&run).unwrap();
    let (report, _) = succeeds(&mut iopj(here, "report x.iopj --json"));
    assert_eq!(serde_json::from_str::<Value>(&report).unwrap(), run);
    let (export, _) = succeeds(&mut iopj(here, "export --json x.iopj"));
    let export: Value = serde_json::from_str(&export).unwrap();
    for value in [&run, &export] {
        let trials = value["trials"].as_array().unwrap();
        assert_eq!(trials.len(), 4);
        for trial in trials {
            let path = trial["path"].as_str().unwrap();
            assert!(["posix-sio/syscall/interrupt", "libaio/syscall/interrupt"].contains(&path), "{path}");
            for figure in ["mean", "p50", "p99", "p99_9"] {
                assert!(trial["latency_ns"][figure].as_f64().unwrap() > 0.0, "{figure}: {trial}");
            }
            assert!(trial["iops"].as_f64().unwrap() > 0.0);
            assert!(trial["context_switches_per_io"].is_number(), "{trial}");
            assert!(["verified", "refuted", "unproven"].contains(&trial["verdict"].as_str().unwrap()));
            assert_eq!((&trial["ios"], &trial["generator"]), (&Value::from(200), &Value::from("native")));
        }
    }
    assert!(export["trials"][0]["latency_ns"]["histogram"].as_array().is_some_and(|bins| !bins.is_empty()));
    let (csv, _) = succeeds(&mut iopj(here, "export --csv x.iopj"));
    assert_eq!(csv.lines().count(), 4 + 1);
    let heading = csv.lines().next().unwrap();
    assert!(
        ["path", "verdict", "latency_ns_p50", "context_switches_per_io"]
            .iter()
            .all(|key| heading.contains(key))
    );
}

/// Nobody could see before a run what it would do.
#[test]
fn a_dry_run_changes_nothing_and_says_what_the_run_does() {
    let _alone = alone();
    let here = &*folder();
    let study = "name = \"d\"\npaths = \"available\"\nsize = \"8m\"\nreplicates = 1\nmeters = false\n\
                 [[workload]]\niodepth = [1, 4]\nios = 300\n";
    fs::write(here.join("d.toml"), study).unwrap();
    let before = listing(here);
    let (text, _) = succeeds(&mut iopj(here, "run d.toml --dry-run"));
    let (plan, _) = succeeds(&mut iopj(here, "run d.toml --dry-run --json"));
    assert_eq!(listing(here), before);
    let plan: Value = serde_json::from_str(&plan).unwrap();
    says(
        &text,
        &["d.iopj-data, a file of 8m that is made and then removed", "changes   none", "paths left out:"],
    );
    assert_eq!((&plan["store"], &plan["bytes"]["made"]), (&Value::from("d.iopj"), &Value::from(8 << 20)));
    let (run, _) = succeeds(&mut iopj(here, "run d.toml --json"));
    let run: Value = serde_json::from_str(&run).unwrap();
    let trials = run["trials"].as_array().unwrap();
    let cells = plan["cells"].as_array().unwrap();
    assert_eq!(plan["trials"]["least"], trials.len());
    assert_eq!(cells.len(), trials.len());
    for trial in trials {
        let is_planned =
            |cell: &Value| ["path", "workload", "generator"].iter().all(|key| cell[*key] == trial[*key]);
        assert!(cells.iter().any(is_planned), "{trial}");
    }
    let bytes = trials.len() as u64 * 300 * 4096;
    assert_eq!((&plan["bytes"]["read"], &plan["bytes"]["written"]), (&Value::from(bytes), &Value::from(0)));
    assert_eq!(plan["unavailable"], run["study"]["unavailable"]);
    // What would refuse the run refuses its plan.
    refuses(here, "run d.toml --dry-run --iodepth 40000", &["iodepth 40000 is beyond the limit"]);
}

#[test]
fn check_tells_every_path() {
    let _alone = alone();
    let here = &*folder();
    let (text, _) = succeeds(&mut iopj(here, "check --json"));
    let value: Value = serde_json::from_str(&text).unwrap();
    let paths = value["paths"].as_array().unwrap();
    assert_eq!(paths.len(), 21, "{value}");
    for path in paths {
        match path["state"].as_str().unwrap() {
            "available" => assert!(path["notes"].is_array(), "{path}"),
            "unavailable" => {
                assert!(path["reason"].as_str().is_some_and(|text| !text.is_empty()), "{path}");
                assert!(path["remedy"].as_str().is_some_and(|text| !text.is_empty()), "{path}");
            }
            other => panic!("{other}"),
        }
    }
    let plain = paths.iter().find(|path| path["path"] == "posix-sio/syscall/interrupt").unwrap();
    assert_eq!(plain["state"], "available");
    let (text, _) = succeeds(&mut iopj(here, "check"));
    assert!(text.contains("posix-sio/syscall/interrupt") && text.contains("available"), "{text}");
    // The file that it made is gone.
    assert_eq!(fs::read_dir(here).unwrap().count(), 0);
}

#[test]
fn help_and_wrong_options_have_their_codes() {
    let folder = folder();
    let (text, _) = succeeds(&mut iopj(&folder, "--help"));
    says(&text, &["check", "run", "report", "export", "restore", "Exit codes: 0 success"]);
    let (text, _) = succeeds(&mut iopj(&folder, "--version"));
    assert_eq!(text.trim(), format!("iopj {}", env!("CARGO_PKG_VERSION")));
    for line in [
        "",
        "measure",
        "run --nope",
        "run --iodepth many",
        "run --iodepth -1",
        "run --ios 5 --runtime 1s",
        "run --i-know",
        "run --resume x.iopj --target data",
        "report",
        "export x.iopj",
        "export x.iopj --csv --json",
    ] {
        let words = refusal(&folder, line);
        assert!(words.contains("--help"), "{line}: {words}");
    }
    assert_eq!(fs::read_dir(&*folder).unwrap().count(), 0);
}

#[test]
fn control_characters_of_foreign_files_are_escaped() {
    let folder = folder().with_data(1 << 20);
    let escape = "\\u001b[2Jx";
    let head = "name = \"t\"\nmeters = \"none\"\n";
    for study in [
        format!("\"{escape}\" = 1\n{head}paths = \"available\"\n[[workload]]\n"),
        format!("{head}paths = \"{escape}\"\n[[workload]]\n"),
        format!("{head}paths = \"available\"\ngenerator = \"{escape}\"\n[[workload]]\n"),
        format!("{head}paths = \"available\"\n[[workload]]\nrw = \"{escape}\"\n"),
        format!("{head}paths = \"available\"\n[settings]\n\"{escape}\" = 1\n[[workload]]\n"),
        format!("{head}paths = \"available\"\n[fio]\nprogram = \"{escape}\"\n[[workload]]\n"),
    ] {
        fs::write(folder.join("t.toml"), &study).unwrap();
        let words = refusal(&folder, "run t.toml --target data");
        assert!(words.contains("[2Jx") && !words.contains('\u{1b}'), "{words:?}");
    }
}
