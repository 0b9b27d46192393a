use super::*;
use crate::analysis::Admission;
use crate::analysis::compare::tests::compare;
use iopj_record::testing::pairs::{LIBAIO, URING, study, trials};

#[test]
fn the_text_says_what_differs_and_what_changed() {
    let before = [trials(LIBAIO, &[1000, 1001, 999]), trials(URING, &[1000])].concat();
    let after = [trials(LIBAIO, &[800, 801, 799]), trials(URING, &[1100])].concat();
    let text =
        comparison(&compare((&study("6.1"), &before), (&study("6.12\u{1b}"), &after), Admission::default()));
    for part in [
        "before: study test, 4 trials",
        "kernel        6.1     6.12\\u{1b}",
        "-20.0 %",
        "worse",
        "undecided: one replicate",
        "2 cells, 5 metrics each: 3 worse, 0 better, 2 equal, 5 undecided, 0 not measured",
        "energy (W, IO/J, B/J): not measured",
    ] {
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(squeezed(&text).contains(&squeezed(part)), "{part:?} is not in\n{text}");
    }
    let first = text.lines().find(|line| line.contains("libaio")).unwrap();
    assert!(first.contains("latency") && first.contains("+25."), "{first}");
}

#[test]
fn one_more_replicate_is_singular() {
    let before = trials(LIBAIO, &[1000, 1030, 970]);
    let mut compared = compare((&study("1"), &before), (&study("1"), &before), Admission::default());
    let change = &mut compared.changes[0];
    change.outcome = ChangeOutcome::Undecided;
    let mut words = |more| {
        change.more = Some(more);
        result(change)
    };
    assert_eq!(words(1), "undecided: about 1 more replicate");
    assert_eq!(words(2), "undecided: about 2 more replicates");
}

#[test]
fn stores_without_a_common_cell_say_so() {
    let mut after = trials(URING, &[1, 2]);
    after.iter_mut().for_each(|trial| trial.workload.iodepth = 4);
    let before = trials(LIBAIO, &[1, 2]);
    let text = comparison(&compare((&study("1"), &before), (&study("1"), &after), Admission::default()));
    assert!(text.contains("the stores record no difference"), "{text}");
    assert!(text.contains("only before") && text.contains("only after"), "{text}");
    assert!(text.contains("libaio/syscall/interrupt, randread 4k iodepth 1 numjobs 1, 10s"), "{text}");
}

#[test]
fn cells_that_are_nearly_in_common_stand_under_the_keys_that_differ() {
    let before = [trials(LIBAIO, &[1, 2]), trials(URING, &[1, 2])].concat();
    let mut after = before.clone();
    after.iter_mut().for_each(|trial| trial.workload.ramp_time = std::time::Duration::from_secs(5));
    let text = comparison(&compare((&study("1"), &before), (&study("1"), &after), Admission::default()));
    let cells = "  libaio/syscall/interrupt, randread 4k iodepth 1 numjobs 1\n  io_uring";
    let heading = "not compared, because of ramp_time (0s before, 5s after):\n";
    assert!(text.contains(&format!("{heading}{cells}")) && !text.contains("only before"), "{text}");
}

#[test]
fn numbers_have_four_digits_and_no_sign_of_nothing() {
    assert_eq!(
        [0.12345, 12.345, 123.45, 123_456.0].map(|n| value(Metric::CpuPercent, n)),
        ["0.123", "12.35", "123.5", "123456"]
    );
    assert_eq!(value(Metric::LatencyMean, 12_345.0), "12.35");
    assert_eq!([1.0002, 0.9998, 1.1, 0.5].map(change_percent), ["0.0 %", "0.0 %", "+10.0 %", "-50.0 %"]);
    assert_eq!([0.0, 0.04567].map(probability), ["<0.0001", "0.0457"]);
}
