//! Traces and bursts, which are simulated.

use super::common::{folder, run, says};
use super::{plausible, printed, rows, stored, value};

/// Reads of 4 KiB, one each 100 us, in the format of MSR Cambridge.
pub(super) fn trace(ios: u64) -> String {
    let line = |at: u64| {
        format!(
            "{},host,0,Read,{},4096,1\n",
            128_166_554_283_938_750 + at * 1_000,
            at % 2 * (1 << 30) + at * 4096
        )
    };
    (0..ios).map(line).collect()
}

#[test]
fn a_trace_and_bursts_are_simulated() {
    let folder = &*folder();
    stored(&folder.join("s.iopj"), &[1, 2, 4, 8, 16, 32], false, plausible);
    std::fs::write(folder.join("t.csv"), trace(2_000)).unwrap();
    let (code, text, messages) = run(folder, "predict s.iopj --trace t.csv --iodepth 8");
    assert_eq!(code, 0, "{messages}");
    says(&messages, &["2000 of 2000 I/Os from msr, over 0.200 s: 2000 reads"]);
    says(
        &text,
        &[
            "2000 I/Os of t.csv over 0.200 s: randread, bs 4096, iodepth 8",
            "extrapolated (all): a trace is simulated",
        ],
    );
    let replayed = printed(folder, "predict s.iopj --read-iolog t.csv --iodepth 8");
    let even = printed(folder, "predict s.iopj --rate 10k --iodepth 8");
    assert_eq!(rows(&replayed).len(), 2);
    for (replayed, even) in rows(&replayed).iter().zip(rows(&even)) {
        for quantity in ["iops", "latency_mean", "cpu_per_io"] {
            let [replayed, even] = [replayed, even].map(|row| value(row, quantity).unwrap());
            assert!((replayed / even - 1.0).abs() < 0.03, "{quantity}: {replayed} {even}");
        }
    }
    // 200,000 a second are twice what a job of libaio can do.
    let fast = printed(folder, "predict s.iopj --read-iolog t.csv --replay-time-scale 2000 --iodepth 8");
    assert_eq!(fast["groups"][0]["behind"][0]["case"]["path"], "libaio/syscall/interrupt", "{fast}");
    // It has an end, and all of it was simulated.
    let fast = "--replay-time-scale 2000 --iodepth 8 --path libaio";
    let (_, text, _) = run(folder, &format!("predict s.iopj --trace t.csv {fast}"));
    says(&text, &["falls behind, with a last I/O that is late by more than 1 % of the trace's time"]);
    let row = text.lines().find(|line| line.trim_start().starts_with("libaio")).unwrap();
    assert!(row.matches('\u{b1}').count() >= 4 && !text.contains("grows"), "{text}");
    // The store has no write.
    std::fs::write(folder.join("w.csv"), trace(100).replace("Read", "Write")).unwrap();
    let (_, text, _) = run(folder, "predict s.iopj --trace w.csv --path libaio");
    says(
        &text,
        &["not predicted (libaio/syscall/interrupt): the trace has writes, and no cell of the model"],
    );
    // What is due at once is a closed loop.
    let libaio = "--iodepth 1 --path libaio";
    let at_once = printed(folder, &format!("predict s.iopj --trace t.csv --replay-no-stall {libaio}"));
    let closed = printed(folder, &format!("predict s.iopj {libaio}"));
    let [at_once, closed] = [&at_once, &closed].map(|all| value(&rows(all)[0], "iops").unwrap());
    assert!((at_once / closed - 1.0).abs() < 0.05, "{at_once} {closed}");
    let bursts = "--rate 50k --burst-on 1ms --burst-off 9ms --iodepth 32 --path libaio";
    let iops = value(&rows(&printed(folder, &format!("predict s.iopj {bursts}")))[0], "iops").unwrap();
    assert!((iops / 5_000.0 - 1.0).abs() < 0.01, "{iops}");
    let (_, text, _) = run(folder, "predict s.iopj --rate 50k --burst-on 10s --burst-off 1s --iodepth 32");
    says(
        &text,
        &["50000 I/Os per second for 10s, none for 1s", "8 bursts of 500000 I/Os are more than the 400000"],
    );
}

#[test]
fn random_reads_and_sequential_writes_of_one_trace_are_simulated() {
    let folder = &*folder();
    stored(&folder.join("rw.iopj"), &[1, 2, 4, 8, 16, 32], false, |trials| {
        plausible(trials);
        for trial in trials.iter_mut().filter(|trial| [2, 8, 32].contains(&trial.workload.iodepth)) {
            trial.workload.rw = iopj_core::Rw::Write;
        }
    });
    let write =
        |at: u64| format!("{},host,0,Write,{},4096,1\n", 128_166_554_283_938_750 + at * 1_000, at * 4096);
    let writes: String = (2_000..4_000).map(write).collect();
    std::fs::write(folder.join("both.csv"), trace(2_000) + &writes).unwrap();
    let (_, text, messages) = run(folder, "predict rw.iopj --trace both.csv --iodepth 8 --path libaio");
    says(
        &text,
        &["4000 I/Os of both.csv over 0.400 s (randread 50 %, write 50 %): randrw (50 % reads), bs 4096"],
    );
    assert!(!text.contains("not predicted"), "{text}{messages}");
}
