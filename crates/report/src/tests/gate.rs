use iopj_analysis::Admission;
use iopj_analysis::compare::Comparison;
use iopj_analysis::compare::compare;
use iopj_analysis::compare::gate;
use iopj_record::Trial;
use iopj_record::testing::pairs::{LIBAIO, URING, study, trials};
use std::time::Duration;

fn with(mut trials: Vec<Trial>, change: impl Fn(&mut Trial)) -> Vec<Trial> {
    trials.iter_mut().for_each(change);
    trials
}

fn compared(before: &[Trial], after: &[Trial], ignored: &[&str]) -> Result<Comparison, String> {
    let ignored: Vec<String> = ignored.iter().map(|key| (*key).to_owned()).collect();
    let study = study("6.1");
    compare((&study, before), (&study, after), &ignored, Admission::default()).map_err(|why| why.to_string())
}

/// The gate once passed: it exited with 0 because nothing was worse, and nothing had been compared.
#[test]
fn a_gate_without_a_cell_in_common_names_the_keys_that_differ() {
    let both = |iops: u64| [trials(LIBAIO, &[iops; 3]), trials(URING, &[2 * iops; 3])].concat();
    let before = with(both(1000), |trial| trial.workload.ramp_time = Duration::from_secs(2));
    let after = with(both(800), |trial| {
        trial.workload.ramp_time = Duration::from_secs(5);
        trial.workload.cpus_allowed = vec![0, 1];
    });
    let comparison = compared(&before, &after, &[]).unwrap();
    assert_eq!(comparison.near.len(), 2);
    let why = gate(&comparison, 5.0).unwrap_err().to_string();
    assert_eq!(
        why,
        "nothing was compared: the stores have no cell in common. 2 cells differ only in ramp_time (2s \
         before, 5s after) and cpus_allowed (all before, 0,1 after): run both with the same values, or \
         ignore them with `--ignore ramp_time,cpus_allowed`"
    );
    let comparison = compared(&before, &after, &["ramp_time", "cpus_allowed"]).unwrap();
    assert_eq!(gate(&comparison, 5.0).unwrap().worse.len(), 4, "IOPS and latency of two paths");
    let facts: Vec<&str> = comparison.differences.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(facts, ["ramp_time", "cpus_allowed"]);
    // Part of the keys is not enough, and the rest is what the message names.
    let why = gate(&compared(&before, &after, &["ramp_time"]).unwrap(), 5.0).unwrap_err().to_string();
    assert!(why.contains("2 cells differ only in ramp_time"), "{why}");
}

#[test]
fn keys_are_refused_that_no_cell_has_or_that_tell_cells_apart() {
    let depth = |depth: u32| with(trials(LIBAIO, &[1000; 3]), |trial| trial.workload.iodepth = depth);
    let (before, after) = ([depth(1), depth(4)].concat(), [depth(2), depth(8)].concat());
    let why = compared(&before, &after, &["speed"]).unwrap_err();
    assert!(
        why.starts_with("--ignore speed: no cell has a `speed`: name one of beside, bs, bssplit,"),
        "{why}"
    );
    assert_eq!(
        compared(&before, &after, &["iodepth"]).unwrap_err(),
        "--ignore: 2 cells before differ only in iodepth, such as iodepth 1 and iodepth 4: without iodepth \
         they would be one cell, so do not ignore iodepth"
    );
    let why = gate(&compared(&before, &after, &[]).unwrap(), 5.0).unwrap_err().to_string();
    assert!(why.ends_with("iodepth (such as 1 before, 2 after): run both with the same value"), "{why}");
}

#[test]
fn a_gate_says_what_it_did_not_compare_and_what_it_could_not_see() {
    let other = with(trials(LIBAIO, &[1000; 3]), |trial| trial.workload.iodepth = 4);
    let before = [trials(LIBAIO, &[1000, 1001, 999]), trials(URING, &[1000, 1300, 700]), other].concat();
    let after = [trials(LIBAIO, &[1000, 1001, 999]), trials(URING, &[1000, 1300, 700])].concat();
    let comparison = compared(&before, &after, &[]).unwrap();
    let found = gate(&comparison, 5.0).unwrap();
    assert_eq!((found.worse.len(), found.cells, found.not_compared, found.blind), (0, 2, 1, 1));
    let text = crate::gate(&found, 5.0).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.starts_with("gate of 5 %: nothing got worse; 2 cells compared, 1 not the gate is blind in 1")
    );
    assert!(found.least.unwrap() > 1.0, "{text}");
    assert_eq!(gate(&comparison, 1000.0).unwrap().blind, 0);
}

#[test]
fn a_gate_names_what_got_worse_most() {
    let before = [trials(LIBAIO, &[1000, 1001, 999]), trials(URING, &[1000, 1001, 999])].concat();
    let after = [trials(LIBAIO, &[900, 901, 899]), trials(URING, &[500, 501, 499])].concat();
    let comparison = compared(&before, &after, &[]).unwrap();
    let text = |percent: f64| crate::gate(&gate(&comparison, percent).unwrap(), percent);
    let all = text(5.0).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(
        all,
        "gate of 5 %: 4 figures got worse (most of all mean latency of io_uring/syscall/interrupt, randread \
         4k iodepth 1 numjobs 1: +100.0 %); 2 cells compared, 0 not"
    );
    // By 80 % only one figure: latency that doubled, not IOPS that halved.
    assert!(text(80.0).contains("1 figure got worse (mean latency of io_uring"), "{}", text(80.0));
}
