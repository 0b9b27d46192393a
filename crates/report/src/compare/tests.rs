use super::*;
use iopj_analysis::Admission;
use iopj_analysis::testing::compare;
use iopj_core::VerdictKind;
use iopj_record::StudyRecord;
use iopj_record::testing::cells::judge;
use iopj_record::testing::pairs::{LIBAIO, URING, study, trials};
use proptest::prelude::*;

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

#[test]
fn unproven_trials_that_are_let_in_are_marked() {
    let before = trials(LIBAIO, &[1000, 1001, 999]);
    let mut after = trials(LIBAIO, &[500, 501, 499]);
    judge(&mut after, VerdictKind::Unproven);
    let let_in = Admission { with_unproven: true, ..Admission::default() };
    let text = comparison(&compare((&study("6.1"), &before), (&study("6.1"), &after), let_in));
    assert!(
        text.contains("libaio/syscall/interrupt†") && text.contains("† unproven: nothing shows"),
        "{text}"
    );
}

#[test]
fn of_an_emulated_store_no_time_is_shown() {
    let emulated = || StudyRecord { emulated: Some("QEMU TCG".into()), ..study("5.10") };
    let (fast, slow) = (trials(LIBAIO, &[1000, 1001, 999]), trials(LIBAIO, &[500, 501, 499]));
    let real = study("5.10");
    for (before, after) in [(&emulated(), &real), (&real, &emulated()), (&emulated(), &emulated())] {
        let text = comparison(&compare((before, &fast), (after, &slow), Admission::default()));
        assert!(text.contains("times mean nothing there and are not compared"), "{text}");
        assert!(!text.contains("IOPS") && !text.contains("latency"), "{text}");
    }
}

proptest! {
    #[test]
    fn no_nan_is_shown(
        before in proptest::collection::vec(0u64..3000, 0..5),
        after in proptest::collection::vec(0u64..3000, 0..5),
    ) {
        let (before, after) = (trials(LIBAIO, &before), trials(LIBAIO, &after));
        let study = study("6.1");
        let text = comparison(&compare((&study, &before), (&study, &after), Admission::default()));
        prop_assert!(!text.contains("NaN") && !text.contains("inf"), "{}", text);
    }
}
