//! `iopj policy simulate`: its families as text and as JSON, with a drive and a program that were recorded,
//! and what it refuses.

use super::common::{folder, refusal, run, says};
use super::fixture::judge;
use super::stored;
use iopj_core::VerdictKind;
use iopj_record::histogram;
use serde_json::Value;
use std::path::Path;

/// A program that reads 4 KiB, and writes 64 KiB of each fourth I/O, every 100 us.
fn iolog(path: &Path) {
    let mut log = "fio version 3 iolog\n0 data add\n0 data open\n".to_owned();
    for number in 0..64u64 {
        let (op, len) = if number % 4 == 3 { ("write", 65536) } else { ("read", 4096) };
        log += &format!("{} data {op} {} {len}\n", number / 10, number * 65536);
    }
    std::fs::write(path, log + "7 data close\n").unwrap();
}

/// The verdicts of a report.
fn verdicts(report: &Value) -> Vec<(bool, String)> {
    let one = |one: &Value| (one["holds"].as_bool().unwrap(), one["found"].as_str().unwrap().to_owned());
    report["verdicts"].as_array().unwrap().iter().map(one).collect()
}

#[test]
fn families_are_simulated_with_thresholds_of_their_own() {
    let folder = &*folder();
    stored(&folder.join("s.iopj"), &[1, 4], false, |trials| {
        for trial in trials {
            // One in ten takes five times as long.
            let slow = u64::from(trial.workload.iodepth) * 20_000;
            let mut latencies = histogram::new();
            latencies.record_n(slow, 900).unwrap();
            latencies.record_n(5 * slow, 100).unwrap();
            let measured = trial.outcome.measurement_mut().unwrap();
            measured.latency = histogram::summary(&latencies);
            // Of some thousand I/Os a second, a few us each.
            measured.cpu_percent = 1.0;
        }
    });
    iolog(&folder.join("t.log"));
    let line = "policy simulate --cells 120 --latencies s.iopj --read-iolog t.log";
    let (code, text, messages) = run(folder, line);
    assert_eq!(messages, "");
    let (code_of_json, json, _) = run(folder, &format!("{line} --json"));
    let json: Value = serde_json::from_str(&json).unwrap();
    let families = json["families"].as_array().unwrap();
    let mut all = verdicts(&json);
    assert_eq!((all.len(), families.len()), (3, 6));
    families.iter().for_each(|family| all.extend(verdicts(&family["report"])));
    // 1 says that a threshold is not kept, and the same seed gives the same.
    let holds = all.iter().all(|(holds, _)| *holds);
    assert_eq!([code, code_of_json], [i32::from(!holds); 2], "{text}");
    assert_eq!(holds, !text.contains("FAIL: "));
    says(&text, &all.iter().map(|(_, found)| found.as_str()).collect::<Vec<&str>>());
    let whats: Vec<&str> = families.iter().map(|family| family["what"].as_str().unwrap()).collect();
    says(&text, &whats);
    // Two depths with three replicates of 1,000 on the path of which most was recorded: both have as many.
    says(whats[4], &["a drive that was recorded: ", " of s.iopj on ", "/interrupt, 6000 latencies"]);
    says(whats[5], &["a program that was recorded: t.log, 64 I/Os"]);
    says(
        &text,
        &["120 cells of 1000000 I/Os each, seed 1", "the bound is broken while another way keeps it"],
    );
    // A recorded drive of 28 us, less the software, is flash in each cell; a trace is each cell's program.
    let outcomes = |family: usize| families[family]["report"]["outcomes"].as_array().unwrap();
    assert!(outcomes(4).iter().all(|one| one["drive"] == "flash"));
    assert!(outcomes(5).len() == 120 && outcomes(5).iter().all(|one| one["program"] == "trace"));
    let bounded = &families[3];
    let uncompared = bounded["bounds"]["uncompared"].as_array().unwrap();
    assert_eq!(outcomes(3).len() + uncompared.len(), 120);
    assert!(outcomes(3).iter().all(|one| one["breach"]["bound_ns"].as_u64().unwrap() > 0));
}

#[test]
fn what_cannot_be_simulated_is_refused() {
    let folder = &*folder();
    stored(&folder.join("unproven.iopj"), &[1], false, |trials| {
        judge(trials, "libaio/syscall/interrupt", VerdictKind::Unproven);
        judge(trials, "io_uring/syscall/interrupt", VerdictKind::Unproven);
    });
    stored(&folder.join("emulated.iopj"), &[1], true, |_| {});
    stored(&folder.join("jobs.iopj"), &[1], false, |trials| {
        trials.iter_mut().for_each(|trial| trial.workload.numjobs = 2);
    });
    stored(&folder.join("polled.iopj"), &[1], false, |trials| {
        for trial in trials {
            let is_ring = trial.path.to_string().starts_with("io_uring");
            let path = if is_ring { "io_uring/syscall/poll" } else { "io_uring/sqpoll/interrupt" };
            trial.path = path.parse().unwrap();
        }
    });
    stored(&folder.join("bare.iopj"), &[1], false, |trials| {
        for trial in trials {
            trial.outcome.measurement_mut().unwrap().latency.histogram.clear();
        }
    });
    std::fs::write(folder.join("none.log"), "fio version 2 iolog\ndata add\ndata open\ndata sync 0 0\n")
        .unwrap();
    std::fs::write(folder.join("bad.log"), "nonsense\n").unwrap();
    let nothing =
        "has no latencies of one job that waits for interrupts, with one size and up to 128 in flight";
    for (options, parts) in [
        ("--cells 119", &["119", "120.."][..]),
        ("--seed many", &["--seed"]),
        ("--latencies no.iopj", &["no.iopj"]),
        ("--latencies bad.log", &["bad.log"]),
        (
            "--latencies emulated.iopj",
            &["emulated.iopj: times mean nothing under QEMU TCG", "a real machine"],
        ),
        (
            "--latencies unproven.iopj",
            &[nothing, "asked for poll, seen interrupt", "`iopj run --path io_uring"],
        ),
        ("--latencies jobs.iopj", &[nothing, "`iopj run --path io_uring"]),
        ("--latencies polled.iopj", &[nothing]),
        ("--latencies bare.iopj", &[nothing]),
        ("--read-iolog no.log", &["--read-iolog: ", "no.log"]),
        ("--read-iolog bad.log", &["--read-iolog: ", "bad.log"]),
        ("--read-iolog none.log", &["--read-iolog: ", "none.log"]),
    ] {
        says(&refusal(folder, &format!("policy simulate {options}")), parts);
    }
    // What is unproven is simulated by if the user says so: the store is then not what is refused.
    let words =
        refusal(folder, "policy simulate --latencies unproven.iopj --with-unproven --read-iolog no.log");
    says(&words, &["no.log"]);
}
