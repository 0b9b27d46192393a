use super::*;
use crate::testing::{compare, regressions};
use iopj_core::{CostSource, Rw, VerdictKind};
use iopj_record::testing::cells::measurement_of as measurement;
use iopj_record::testing::costs::{function, set_exact};
use iopj_record::testing::pairs::{LIBAIO, URING, sequential, study, trial, trials};
use iopj_record::{Generator, Outcome as Result};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn compared(before: &[Trial], after: &[Trial]) -> Comparison {
    compare((&study("6.1"), before), (&study("6.1"), after), Admission::default())
}

fn of<'a>(comparison: &'a Comparison, path: &str, metric: Metric) -> &'a Change {
    let found = comparison.changes.iter().find(|c| c.cell.path.to_string() == path && c.metric == metric);
    found.unwrap_or_else(|| panic!("no {metric} of {path}"))
}

#[test]
fn changes_are_distinguished_from_noise() {
    let before =
        [trials(LIBAIO, &[1000, 1010, 990, 1005, 995]), trials(URING, &[2000, 2020, 1980, 2010, 1990])]
            .concat();
    let after =
        [trials(URING, &[2001, 2018, 1985, 2008, 1989]), trials(LIBAIO, &[800, 808, 792, 804, 796])].concat();
    let comparison = compared(&before, &after);
    assert_eq!(comparison.changes.len(), 10);
    let iops = of(&comparison, LIBAIO, Metric::Iops);
    assert_eq!((iops.outcome, iops.ratio), (ChangeOutcome::Worse, Some(0.8)));
    assert_eq!(
        (iops.before, iops.after),
        (Some(SampleMean { n: 5, mean: 1000.0 }), Some(SampleMean { n: 5, mean: 800.0 }))
    );
    let (low, high) = iops.interval.unwrap();
    assert!(low < 0.8 && 0.8 < high && high - low < 0.03, "{low} {high}");
    assert!(iops.p_holm.unwrap() > iops.p.unwrap() && iops.p_holm.unwrap() < 1e-6);
    let latency = of(&comparison, LIBAIO, Metric::LatencyMean);
    assert_eq!(latency.outcome, ChangeOutcome::Worse);
    assert!((latency.ratio.unwrap() - 1.25).abs() < 1e-3);
    for metric in METRICS {
        assert_eq!(of(&comparison, URING, metric).outcome, ChangeOutcome::Equal);
    }
    // No switch on either side: equal, without a ratio.
    assert_eq!(of(&comparison, LIBAIO, Metric::ContextSwitchesPerIo).ratio, None);
    // In the other direction it is better.
    let back = compared(&after, &before);
    assert_eq!(of(&back, LIBAIO, Metric::Iops).outcome, ChangeOutcome::Better);
    assert_eq!(of(&back, LIBAIO, Metric::LatencyMean).outcome, ChangeOutcome::Better);
    assert!(regressions(&back, 0.0).unwrap().is_empty());
}

#[test]
fn the_largest_change_stands_first_and_halving_is_doubling() {
    let before = [trials(LIBAIO, &[1000, 1001, 999]), trials(URING, &[1000, 1001, 999])].concat();
    let after = [trials(LIBAIO, &[1500, 1501, 1499]), trials(URING, &[500, 501, 499])].concat();
    let comparison = compared(&before, &after);
    let decided: Vec<_> = comparison.changes.iter().filter(|c| c.outcome <= ChangeOutcome::Better).collect();
    let sizes: Vec<f64> = decided.iter().map(|change| change.size()).collect();
    assert_eq!(decided.len(), 6);
    assert!(sizes.is_sorted_by(|a, b| a >= b), "{sizes:?}");
    assert!(comparison.changes[..3].iter().all(|change| change.cell.path.to_string() == URING));
    assert!((sizes[0] - 2f64.ln()).abs() < 1e-2);
    assert!(comparison.changes.iter().map(Change::rank).is_sorted());
}

#[test]
fn regressions_are_beyond_the_threshold_and_beyond_noise() {
    let before = trials(LIBAIO, &[1000, 1001, 999, 1000]);
    let after = trials(LIBAIO, &[950, 951, 949, 950]);
    let comparison = compared(&before, &after);
    let metrics =
        |percent| regressions(&comparison, percent).unwrap().iter().map(|c| c.metric).collect::<Vec<_>>();
    // 5 % of IOPS, 5.26 % of latency; p99 does not count.
    assert_eq!(metrics(4.9), [Metric::LatencyMean, Metric::Iops]);
    assert_eq!(metrics(5.1), [Metric::LatencyMean]);
    assert_eq!(metrics(6.0), []);
    let noisy = compared(&trials(LIBAIO, &[1000, 1500, 500]), &trials(LIBAIO, &[950, 1400, 400]));
    assert!(regressions(&noisy, 1.0).unwrap().is_empty());
    let open = of(&noisy, LIBAIO, Metric::Iops);
    assert_eq!((open.outcome, open.more), (ChangeOutcome::Undecided, None), "more than 100");
    let near = compared(&trials(LIBAIO, &[1000, 1030, 970]), &trials(LIBAIO, &[960, 990, 930]));
    let open = of(&near, LIBAIO, Metric::Iops);
    assert!(open.outcome == ChangeOutcome::Undecided && open.more.unwrap() > 5, "{open:?}");
}

#[test]
fn a_metric_that_rose_from_nothing_is_worse() {
    let before = trials(LIBAIO, &[1000, 1001, 999]);
    let mut after = before.clone();
    for (index, trial) in after.iter_mut().enumerate() {
        measurement(trial).context_switches_per_io = 1.0 + index as f64 / 1000.0;
    }
    let comparison = compared(&before, &after);
    let switches = &comparison.changes[0];
    assert_eq!((switches.metric, switches.outcome), (Metric::ContextSwitchesPerIo, ChangeOutcome::Worse));
    assert_eq!((switches.ratio, switches.interval), (None, None));
    assert!(regressions(&comparison, 1.0).unwrap().is_empty());
}

#[test]
fn one_replicate_decides_nothing() {
    for (before, after) in [(&[1000][..], &[500, 501, 502][..]), (&[1000, 1001], &[500]), (&[1000], &[500])] {
        let comparison = compared(&trials(LIBAIO, before), &trials(LIBAIO, after));
        let iops = of(&comparison, LIBAIO, Metric::Iops);
        assert_eq!(
            (iops.outcome, iops.p, iops.p_holm, iops.interval),
            (ChangeOutcome::Undecided, None, None, None)
        );
        assert!((iops.ratio.unwrap() - 0.5).abs() < 1e-2);
        assert_eq!(iops.outcome.as_str(), "undecided");
        // A gate of such a comparison would always be passed.
        let why = regressions(&comparison, 0.0).unwrap_err().to_string();
        assert!(why.contains("none of the 1 cells in common has two replicates"), "{why}");
    }
}

#[test]
fn refuted_and_failed_trials_are_counted_and_left_out() {
    let before = trials(LIBAIO, &[1000, 1001, 999]);
    let mut after = trials(LIBAIO, &[1000, 1001, 999, 10, 20]);
    measurement(&mut after[3]).verdict.kind = VerdictKind::Refuted;
    after[4].outcome = Result::Failed("EIO".into());
    let comparison = compared(&before, &after);
    assert_eq!(
        (comparison.after.trials, comparison.after.left_out.text().as_str()),
        (5, "1 refuted, 1 failed")
    );
    let iops = of(&comparison, LIBAIO, Metric::Iops);
    assert_eq!((iops.outcome, iops.after), (ChangeOutcome::Equal, Some(SampleMean { n: 3, mean: 1000.0 })));
    after.iter_mut().take(3).for_each(|trial| trial.outcome = Result::Failed("EIO".into()));
    let comparison = compared(&before, &after);
    assert!(
        comparison
            .changes
            .iter()
            .all(|change| change.outcome == ChangeOutcome::NotMeasured && change.after.is_none())
    );
}

#[test]
fn unproven_trials_compete_only_if_admitted_and_a_side_without_trials_shows_no_regression() {
    let before = trials(LIBAIO, &[1000, 1001, 999]);
    let mut after = trials(LIBAIO, &[500, 501, 499]);
    for trial in &mut after {
        let verdict = &mut measurement(trial).verdict;
        (verdict.kind, verdict.reasons) = (VerdictKind::Unproven, vec!["no vectors".to_owned()]);
    }
    let comparison = compared(&before, &after);
    assert!(
        comparison
            .changes
            .iter()
            .all(|change| change.outcome == ChangeOutcome::NotMeasured && !change.marked)
    );
    let why = regressions(&comparison, 5.0).unwrap_err().to_string();
    assert!(why.contains("no trial is verified. 3 of 3 trials are unproven: no vectors"), "{why}");
    let let_in = Admission { with_unproven: true, ..Admission::default() };
    let comparison = compare((&study("6.1"), &before), (&study("6.1"), &after), let_in);
    assert_eq!(regressions(&comparison, 5.0).unwrap().len(), 2);
    assert!(comparison.changes.iter().all(|change| change.marked));
}

#[test]
fn percentiles_are_compared_by_their_logarithms() {
    let with = |p99: [u64; 3]| {
        let mut trials = trials(LIBAIO, &[1000, 1001, 999]);
        for (trial, p99) in trials.iter_mut().zip(p99) {
            measurement(trial).latency.p99 = p99;
        }
        trials
    };
    let comparison = compared(&with([100, 200, 400]), &with([200, 400, 800]));
    let change = of(&comparison, LIBAIO, Metric::LatencyP99);
    // Geometric means of 200 and 400; scipy.stats.ttest_ind(np.log(after), np.log(before),
    // equal_var=False).pvalue
    assert!((change.ratio.unwrap() - 2.0).abs() < 1e-12);
    assert!((change.p.unwrap() - 0.2878641347266908).abs() < 1e-9, "{change:?}");
}

#[test]
fn cells_are_matched_by_all_that_makes_them() {
    let mut before = trials(LIBAIO, &[1, 2]);
    before.extend(trials(URING, &[1, 2]));
    let mut after = trials(LIBAIO, &[1, 2]);
    after[0].workload.rw = Rw::Randwrite;
    after[1].generator = Generator::Fio;
    let comparison = compared(&before, &after);
    assert_eq!(
        (comparison.changes.len(), comparison.only_before.len(), comparison.only_after.len()),
        (0, 2, 2)
    );
    assert_eq!(comparison.only_before[1].path.to_string(), URING);
}

#[test]
fn settings_that_distinguish_the_stores_are_listed_and_do_not_separate_cells() {
    let with = |trials: Vec<Trial>, name: &str, values: [&str; 2]| -> Vec<Trial> {
        let set = |(index, mut trial): (usize, Trial)| {
            trial.settings.insert(name.into(), values[index % 2].into());
            trial
        };
        trials.into_iter().enumerate().map(set).collect()
    };
    let plain = || trials(LIBAIO, &[1000, 1001, 999, 1000]);
    let before = with(with(plain(), "governor", ["powersave"; 2]), "nomerges", ["0", "2"]);
    let after = with(with(plain(), "governor", ["performance"; 2]), "nomerges", ["0", "1"]);
    let mut newer = study("6.12");
    newer.provenance.remove("cpu_model");
    newer.provenance.insert("iopj_profile".into(), "dist".into());
    let mut older = study("6.1");
    older.provenance.insert("iopj_profile".into(), "release".into());
    let comparison = compare((&older, &before), (&newer, &after), Admission::default());
    let listed: Vec<_> =
        comparison.differences.iter().map(|d| (&*d.name, d.before.as_deref(), d.after.as_deref())).collect();
    assert_eq!(
        listed,
        [
            ("kernel", Some("6.1"), Some("6.12")),
            ("cpu_model", Some("one"), None),
            ("iopj_profile", Some("release"), Some("dist")),
            ("governor", Some("powersave"), Some("performance")),
        ]
    );
    assert_eq!(comparison.changes.len(), METRICS.len());
    assert_eq!(comparison.changes[0].cell.settings, BTreeMap::from([("nomerges".into(), "0".into())]));
    assert_eq!((comparison.only_before.len(), comparison.only_after.len()), (1, 1));
    // To ignore one of them changes nothing, and it is listed once.
    let studies = (study("6.1"), study("6.1"));
    let ignored = ["governor".to_owned()];
    let sides = ((&studies.0, &before[..]), (&studies.1, &after[..]));
    let same = super::compare(sides.0, sides.1, &ignored, Admission::default()).unwrap();
    assert_eq!(same.differences, comparison.differences[3..]);
    let unknown = super::compare(sides.0, sides.1, &["govenor".to_owned()], Admission::default());
    assert!(unknown.unwrap_err().to_string().contains("fsync, generator, governor,"));
}

#[test]
fn empty_stores_compare_to_nothing() {
    for (before, after) in [(vec![], vec![]), (trials(LIBAIO, &[1]), vec![])] {
        let comparison = compared(&before, &after);
        assert!(comparison.changes.is_empty() && comparison.differences.is_empty());
    }
}

fn numbers_are_finite(value: &serde_json::Value) -> bool {
    // A NaN becomes null; only optional values may be null.
    let mut absent = [
        "ratio",
        "interval",
        "least",
        "p",
        "p_holm",
        "equal",
        "more_replicates",
        "before",
        "after",
        "runtime_ns",
        "ios",
        "emulated",
        "costs",
    ]
    .iter();
    match value {
        serde_json::Value::Object(map) => map.iter().all(|(key, value)| {
            (value.is_null() && absent.clone().any(|a| a == key)) || numbers_are_finite(value)
        }),
        serde_json::Value::Array(all) => all.iter().all(numbers_are_finite),
        serde_json::Value::Null => absent.next().is_none(),
        _ => true,
    }
}

#[test]
fn json_has_the_words_of_the_metrics() {
    let comparison = compared(&trials(LIBAIO, &[10, 11]), &trials(LIBAIO, &[20, 21]));
    let json = serde_json::to_value(&comparison).unwrap();
    assert!(
        json["changes"].as_array().unwrap().iter().any(|c| c["metric"] == "iops" && c["before"]["n"] == 2)
    );
    assert_eq!(json["changes"][0]["cell"]["path"], LIBAIO);
    assert!(numbers_are_finite(&json), "{json}");
}

proptest! {
    #[test]
    fn no_nan_comes_out(
        before in proptest::collection::vec(0u64..3000, 0..5),
        after in proptest::collection::vec(0u64..3000, 0..5),
    ) {
        let comparison = compared(&trials(LIBAIO, &before), &trials(LIBAIO, &after));
        prop_assert!(numbers_are_finite(&serde_json::to_value(&comparison).unwrap()));
        for change in &comparison.changes {
            prop_assert!(change.ratio.is_none_or(f64::is_finite));
            prop_assert!(change.p_holm.is_none_or(|p| (0.0..=1.0).contains(&p)));
        }
    }
}

/// Emulated trials with exact costs of these instructions in each of 100 I/Os.
fn counted(path: &str, instructions: &[u64]) -> Vec<Trial> {
    let of = |instructions: &u64| {
        let mut trial = trial(path, 1000);
        let functions = vec![function("io_submit", "fs/", [100 * instructions, 200, 100])];
        set_exact(measurement(&mut trial), 100, functions);
        trial
    };
    instructions.iter().map(of).collect()
}

fn emulated() -> StudyRecord {
    StudyRecord { emulated: Some("QEMU TCG".into()), ..study("5.10") }
}

#[test]
fn of_an_emulated_store_only_counts_are_compared() {
    let (fast, slow) = (trials(LIBAIO, &[1000, 1001, 999]), trials(LIBAIO, &[500, 501, 499]));
    let real = study("5.10");
    for (before, after) in [(&emulated(), &real), (&real, &emulated()), (&emulated(), &emulated())] {
        let comparison = compare((before, &fast), (after, &slow), Admission::default());
        assert_eq!(comparison.metrics, [Metric::ContextSwitchesPerIo, Metric::InterruptsPerIo]);
        let words: Vec<&str> = comparison.changes.iter().map(|change| change.metric.as_str()).collect();
        assert_eq!(words, ["context_switches_per_io", "interrupts_per_io"], "no time, however much worse");
        let error = regressions(&comparison, 1.0).unwrap_err().to_string();
        assert!(
            error.contains("was emulated by QEMU TCG") && error.contains("leave the option out"),
            "{error}"
        );
        let json = serde_json::to_value(&comparison).unwrap();
        assert_eq!(json["metrics"], serde_json::json!(["context_switches_per_io", "interrupts_per_io"]));
    }
    let facts: Vec<_> = compare((&real, &fast), (&emulated(), &fast), Admission::default()).differences;
    assert_eq!((facts[0].name.as_str(), facts[0].after.as_deref()), ("emulated", Some("QEMU TCG")));
}

#[test]
fn exact_instructions_tell_a_regression_between_emulated_stores() {
    let before = counted(LIBAIO, &[5000, 5001, 5002]);
    let worse = |percent, instructions: &[u64]| {
        let after = counted(LIBAIO, instructions);
        let comparison = compare((&emulated(), &before), (&emulated(), &after), Admission::default());
        regressions(&comparison, percent).unwrap().iter().map(|change| change.metric).collect::<Vec<_>>()
    };
    assert_eq!(worse(1.0, &[5100, 5101, 5102]), [Metric::Instructions(None)]);
    assert_eq!(worse(3.0, &[5100, 5101, 5102]), []);
    assert_eq!(worse(0.0, &[4900, 4901, 4902]), [], "better is no regression");
    assert_eq!(worse(0.0, &[5000, 5001, 5002]), []);
    // With one trial without costs, or with sampled ones, instructions are not compared.
    let refuse = |change: fn(&mut Measurement)| {
        let mut after = counted(LIBAIO, &[5100, 5101, 5102]);
        change(measurement(&mut after[1]));
        regressions(&compare((&emulated(), &before), (&emulated(), &after), Admission::default()), 1.0)
            .is_err()
    };
    assert!(!refuse(|_| ()));
    assert!(refuse(|one| one.costs = None));
    assert!(refuse(
        |one| one.costs.as_mut().unwrap().source = CostSource::Sampled(vec!["instructions".into()])
    ));
    assert!(!refuse(|one| {
        (one.costs, one.verdict.kind) = (None, VerdictKind::Refuted);
    }));
}

#[test]
fn costs_are_compared_where_both_were_counted_alike() {
    let sampled = |events: &str| {
        let mut trials = counted(URING, &[5000, 5100]);
        for trial in &mut trials {
            measurement(trial).costs.as_mut().unwrap().source = CostSource::Sampled(vec![events.to_owned()]);
        }
        trials
    };
    let metrics = |before: &[Trial], after: &[Trial]| compared(before, after).metrics;
    assert_eq!(
        metrics(&sampled("instructions"), &sampled("instructions")).len(),
        METRICS.len() + COSTS.len()
    );
    assert_eq!(metrics(&sampled("instructions"), &counted(URING, &[5000])), METRICS);
    assert_eq!(metrics(&trials(URING, &[1000]), &trials(URING, &[1000])), METRICS);
}

#[test]
fn stores_whose_replicates_were_decided_while_they_ran_are_corrected_for_their_looks() {
    let (old, new) =
        (trials(URING, &[1000, 1010, 990, 1005, 995]), trials(URING, &[1030, 1045, 1020, 1035, 1025]));
    let of = |before: &StudyRecord, after: &StudyRecord| {
        let comparison = compare((before, &old), (after, &new), Admission::default());
        let iops = comparison.changes.iter().find(|change| change.metric == Metric::Iops).unwrap();
        (comparison.looks, iops.p.unwrap(), iops.least.unwrap(), iops.outcome)
    };
    // scipy.stats.ttest_ind(new, old, equal_var=False).pvalue
    let (looks, p, least, outcome) = of(&study("6.1"), &study("6.1"));
    assert!((p / 0.0006029915081658703 - 1.0).abs() < 1e-9, "{p}");
    assert_eq!((looks, outcome), (1, ChangeOutcome::Better));
    for (before, after, times) in [(sequential(), study("6.1"), 26), (sequential(), sequential(), 26 * 26)] {
        let (looks, corrected, seen, outcome) = of(&before, &after);
        assert!((corrected / (f64::from(times) * p).min(1.0) - 1.0).abs() < 1e-9, "{corrected}");
        assert_eq!((looks, outcome), (times, ChangeOutcome::Undecided));
        assert!(seen > least, "what could be seen is larger");
    }
}
