//! What a store's trials are turned into: winner maps, claims, tables for other programs.

mod common;

use common::{alone, folder, iopj, written};
use serde_json::Value;
use std::path::Path;

/// The program's exit code, output and messages.
fn run(folder: &Path, line: &str) -> (i32, String, String) {
    let output = iopj(folder, line).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_store_is_analysed() {
    let folder = folder();
    let folder = folder.path();
    written(&folder.join("data"), 8 << 20);
    {
        let _alone = alone();
        let line = "run --target data --path libaio/syscall/interrupt,io_uring/syscall/interrupt --iodepth 1,4 --ios 300 \
                    --ramp-time 0s --replicates 3 --store s.iopj";
        let (code, _, messages) = run(folder, line);
        assert_eq!(code, 0, "{messages}");
    }
    let (code, map, _) = run(folder, "winners s.iopj --metric latency_p99 --axes iodepth,numjobs --test welch --holm");
    assert_eq!(code, 0);
    for part in ["iodepth 1", "iodepth 4", "A libaio/syscall/interrupt", "B io_uring/syscall/interrupt"] {
        assert!(map.contains(part), "{part} in {map}");
    }
    let (code, claims, _) = run(folder, "claims --json s.iopj");
    assert_eq!(code, 0);
    let claims: Value = serde_json::from_str(&claims).unwrap();
    let claims = claims["claims"].as_array().unwrap();
    assert_eq!(claims.len(), 19);
    assert!(claims.iter().all(|claim| claim["answer"]["is"] == "not_measured"), "polling was not measured");
    let (code, csv, _) = run(folder, "report --csv s.iopj");
    assert_eq!((code, csv.lines().count()), (0, 5), "{csv}");
    let (code, latex, _) = run(folder, "report --latex s.iopj");
    assert_eq!((code, latex.matches("\\begin{tabular}").count()), (0, 2));
    assert!(![map, csv, latex].iter().any(|text| text.contains("NaN")));
}

#[test]
fn wrong_questions_are_refused() {
    let folder = folder();
    for (line, part) in [
        ("winners none.iopj", "there is no store"),
        ("winners none.iopj --metric speed", "there are iops, mb_per_s"),
        ("winners none.iopj --axes iodepth", "takes two names"),
        ("winners none.iopj --axes iodepth,iodepth", "cannot be both axes"),
        ("winners none.iopj --axes iodepth,depth", "there are rw, bs, iodepth, numjobs"),
        ("winners none.iopj --test t", "there are student, welch and blocks"),
        ("claims none.iopj", "there is no store"),
    ] {
        let (code, _, messages) = run(folder.path(), line);
        assert_eq!(code, 2, "{line}");
        assert!(messages.contains(part) && messages.lines().count() == 1, "{line}: {messages}");
    }
}
