//! An engine that chooses its way as a path, for real: what went which way, and what shows it.

use crate::common::{alone, believes, folder, have, iopj, output, refusal, says};
use crate::{available, run};
use serde_json::Value;

const URING: &str = "io_uring/syscall/interrupt";
const SIO: &str = "posix-sio/syscall/interrupt";

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// What a trial of an adaptive engine shows, verified or not.
fn check(trial: &Value) {
    let (evidence, path) = (&trial["evidence"], trial["path"].as_str().unwrap());
    let routes = &evidence["engine"]["routes"];
    let ways: Vec<(&str, u64)> = routes["ways"]
        .as_array()
        .unwrap_or_else(|| panic!("no routes: {trial}"))
        .iter()
        .map(|route| (route["way"].as_str().unwrap(), number(&route["ios"])))
        .collect();
    // Each read was pushed to a way, and none is in flight at the window's ends; no way failed.
    let all: u64 = ways.iter().map(|(_, ios)| ios).sum();
    assert_eq!((all, number(&routes["failures"])), (number(&evidence["reads"]), 0), "{routes}");
    let reasons: Vec<&str> =
        trial["verdict_reasons"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    for (way, ios) in ways.iter().filter(|(_, ios)| *ios > 0) {
        let line = format!("{way}: {ios} I/Os (");
        assert!(reasons.iter().any(|reason| reason.starts_with(&line)), "{line} is missing in {reasons:?}");
    }
    match path {
        "auto:io_uring/syscall/interrupt" => {
            assert_eq!(ways.iter().map(|(way, _)| *way).collect::<Vec<_>>(), [URING]);
            assert_eq!((number(&routes["switches"]), number(&routes["explored"])), (0, 0));
        }
        "auto:p.toml" => assert_eq!(ways[0].0, SIO, "{routes}"),
        _ => {}
    }
    assert_eq!((&trial["submission"], &trial["completion"]), (&Value::Null, &Value::Null));
}

#[test]
fn an_engine_that_chooses_its_way_is_measured_and_verified_as_any_path() {
    let _alone = alone();
    let folder = folder().with_data(16 << 20);
    let works = available(&folder, "data");
    if !have([URING, SIO].iter().all(|path| works.iter().any(|one| one == path)), "io_uring and posix-sio") {
        return;
    }
    let policy = believes([SIO, URING]);
    std::fs::write(folder.join("p.toml"), &policy).unwrap();
    // Others may use the disk meanwhile: each is tried until there is a quiet moment.
    let mut open =
        ["auto", "auto:random", "auto:io_uring/syscall/interrupt", "auto:p.toml"].map(str::to_owned).to_vec();
    for attempt in 0..100 {
        let line = format!(
            "--target data --path {} --iodepth 1 --runtime 100ms --ramp-time 50ms --replicates 1 --store \
             {attempt}.iopj",
            open.join(",")
        );
        run(&folder, &line);
        let exported = iopj(&folder, &format!("export {attempt}.iopj --json")).output().unwrap();
        let exported: Value = serde_json::from_slice(&exported.stdout).unwrap();
        if open.contains(&"auto:p.toml".to_owned()) {
            assert_eq!(exported["study"]["provenance"]["policy.p.toml"], policy);
        }
        let before = std::mem::take(&mut open);
        let trials = exported["trials"].as_array().unwrap();
        assert_eq!(trials.len(), before.len());
        for trial in trials {
            check(trial);
            match trial["verdict"].as_str().unwrap() {
                "verified" => {}
                "unproven" => open.push(trial["path"].as_str().unwrap().to_owned()),
                other => panic!("{other}: {trial}"),
            }
        }
        if open.is_empty() {
            let report = iopj(&folder, "report 0.iopj").output().unwrap();
            says(
                &String::from_utf8(report.stdout).unwrap(),
                &["* auto:io_uring/syscall/interrupt: took io_uring"],
            );
            return;
        }
    }
    panic!("in 100 trials no verdict on {}", open.join(", "));
}

#[test]
fn an_engine_that_cannot_choose_is_refused_before_the_first_trial() {
    let folder = folder().with_data(1 << 20);
    std::fs::write(folder.join("far.toml"), "[provenance]\nkernel = \"0.1\"\n").unwrap();
    std::fs::write(folder.join("bad.toml"), "aim = \"speed\"\n").unwrap();
    for (path, more, part) in [
        (
            "auto:far.toml",
            "",
            "auto:far.toml: the policy was made elsewhere: its kernel is `0.1`, here it is `",
        ),
        ("auto:bad.toml", "", "bad.toml: the policy cannot be read: "),
        (
            "auto:no.toml",
            "",
            "the policy `no.toml` of auto:no.toml cannot be read (No such file or directory",
        ),
        ("auto:ios_per_joule", "", "nothing is known of the joules of an I/O: write auto:cpu"),
        ("auto:fast", "", "`auto:fast` is not an I/O path: `fast` is no rule to choose by: write auto"),
        ("auto:nvme-user/doorbell/poll", "", "none is taken from the kernel's driver"),
        ("auto", "--take-device fffe:1f:1f.7", "there is no PCI device fffe:1f:1f.7"),
        (
            "auto:io_uring/syscall/interrupt",
            "--take-device fffe:1f:1f.7",
            "the study has no path of kernel bypass (nvme-user, spdk, auto)",
        ),
        ("auto", "--generator fio", "auto cannot be run by fio: fio has no engine that chooses its way"),
    ] {
        let line = format!("run --target data --meters none --path {path} --ios 10 --store s.iopj {more}");
        says(&refusal(&folder, &line), &[part]);
        assert!(!folder.join("s.iopj").exists(), "{path}");
    }
    // A way that the target lacks is left out, as its path would be.
    let (done, words) = output(&mut iopj(
        &folder,
        "run --target data --meters none --path auto:io_uring/syscall/poll+sleep,libaio --ios 10 \
         --store s.iopj",
    ));
    let has_poll_queues = available(&folder, "data").contains(&"io_uring/syscall/poll".to_owned());
    assert!(done.status.success(), "{words}");
    assert_eq!(
        words.contains("unavailable here (the report says why): auto:io_uring"),
        !has_poll_queues,
        "{words}"
    );
}
