//! Jobs of several kinds at once, for real: each by its own path, with its own figures and verdict.

use crate::common::{folder, have, iopj, output};
use crate::corunner::exported;
use crate::{available, run};
use serde_json::Value;

const URING: &str = "io_uring/syscall/interrupt";
const SIO: &str = "posix-sio/syscall/interrupt";

fn study(beside: &str) -> String {
    format!(
        "name = \"db\"\npaths = \"{URING}\"\nmeters = false\nsize = \"16m\"\n[[workload]]\niodepth = 4\n\
         runtime = \"400ms\"\n[[workload.beside]]\n{beside}"
    )
}

#[test]
fn readers_and_a_log_writer_have_paths_and_figures_of_their_own() {
    let folder = folder().with_data(16 << 20);
    let paths = available(&folder, "data");
    if !have(paths.contains(&URING.to_owned()) && paths.contains(&SIO.to_owned()), "io_uring and posix-sio") {
        return;
    }
    let log = format!("paths = \"{SIO}\"\nrw = \"write\"\nbs = \"8k\"\nfdatasync = 1\nrate_iops = 50\n");
    std::fs::write(folder.join("db.toml"), study(&log)).unwrap();
    run(&folder, "db.toml --replicates 1 --store db.iopj");
    let trials = exported(&folder, "db.iopj");
    let [trial] = &trials[..] else { panic!("one trial: {trials:?}") };
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("no number in {trial}"));
    let [readers, log] = &trial["kinds"].as_array().unwrap()[..] else { panic!("two kinds: {trial}") };
    assert_eq!((&readers["path"], &log["path"]), (&URING.into(), &SIO.into()));
    // 50 I/Os a second for 0.4 s, each a write, each followed by its flush.
    let due = number(&log["open"]["due"]);
    assert_eq!((due, number(&log["open"]["sync"]["count"])), (20.0, number(&log["ios"])));
    assert_eq!(number(&log["bytes"]), 8192.0 * number(&log["ios"]));
    // Rate and latency of the trial are those of the readers, what the kernel was given is that of both.
    assert_eq!((&trial["ios"], &trial["latency_ns"]["mean"]), (&readers["ios"], &readers["latency"]["mean"]));
    let evidence = &trial["evidence"];
    assert_eq!(evidence["reads"], readers["ios"]);
    assert_eq!((&evidence["writes"], &evidence["syncs"]), (&log["ios"], &log["ios"]));
    assert_eq!(number(&evidence["write_bytes"]), 8192.0 * number(&log["ios"]));
    assert_eq!(evidence["numjobs"], 2);
    // Each has proven its path alone, so none saw the other's I/O.
    assert_eq!((number(&readers["evidence"]["writes"]), number(&log["evidence"]["reads"])), (0.0, 0.0));
    assert!(
        number(&log["evidence"]["writes"]) > 0.0 && !log["verdict"]["reasons"].as_array().unwrap().is_empty()
    );
    let report = iopj(&folder, "report db.iopj").output().unwrap();
    let report = String::from_utf8(report.stdout).unwrap();
    assert!(report.contains("fdatasync 1 rate_iops 50 by") || report.contains("rate_iops 50"), "{report}");
    let lines: Vec<&str> = report.lines().filter(|line| line.contains(SIO)).collect();
    assert!(lines.iter().any(|line| line.contains("write 8k")), "{report}");
}

/// The readers write nothing, and the jobs beside them would have destroyed what is there.
#[test]
fn jobs_beside_that_write_do_not_write_a_target_that_is_not_ours() {
    let folder = folder().with_data(16 << 20);
    let before = std::fs::read(folder.join("data")).unwrap();
    std::fs::write(folder.join("db.toml"), study(&format!("paths = \"{SIO}\"\nrw = \"write\"\n"))).unwrap();
    let (refused, words) = output(&mut iopj(&folder, "run db.toml --target data --store db.iopj"));
    assert!(!refused.status.success(), "{words}");
    assert!(words.contains("the study writes"), "{words}");
    assert_eq!(std::fs::read(folder.join("data")).unwrap(), before);
}

#[test]
fn jobs_beside_that_cannot_be_measured_are_refused() {
    let folder = folder().with_data(1 << 20);
    let text = study(&format!("paths = \"{SIO}\"\n")).replace("meters", "generator = \"fio\"\nmeters");
    std::fs::write(folder.join("fio.toml"), text).unwrap();
    let (refused, words) = output(&mut iopj(&folder, "run fio.toml --store fio.iopj"));
    assert!(!refused.status.success() && words.contains("fio runs jobs of one kind for iopj"), "{words}");
    assert!(!folder.join("fio.iopj").exists() && !folder.join("fio.iopj-data").exists());
}
