use crate::comparison as text_of;
use iopj_analysis::Admission;
use iopj_analysis::compare::{Change, ChangeOutcome, Comparison, compare_within};
use iopj_analysis::metric::Metric;
use iopj_analysis::stats::{LEVEL, Method, t_test};
use iopj_analysis::testing::regressions;
use iopj_core::VerdictKind;
use iopj_record::testing::pairs::{LIBAIO, URING, sequential, study, trials};
use iopj_record::{Generator, Outcome as Result, Trial};
use rand_distr::{Distribution, Normal};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use std::collections::BTreeSet;

/// Trials of consecutive blocks.
fn blocks(path: &str, iops: &[u64]) -> Vec<Trial> {
    let mut trials = trials(path, iops);
    for (block, trial) in trials.iter_mut().enumerate() {
        trial.replicate = block as u32;
    }
    trials
}

fn set(mut trials: Vec<Trial>, name: &str, value: &str) -> Vec<Trial> {
    for trial in &mut trials {
        trial.settings.insert(name.to_owned(), value.to_owned());
    }
    trials
}

fn within(trials: &[Trial], by: &str) -> Comparison {
    compare_within(&study("6.1"), trials.to_vec(), by, &[], Admission::default()).unwrap()
}

fn refusal(trials: &[Trial], by: &str) -> String {
    compare_within(&study("6.1"), trials.to_vec(), by, &[], Admission::default()).unwrap_err().to_string()
}

fn of(comparison: &Comparison, metric: Metric) -> &Change {
    comparison.changes.iter().find(|change| change.metric == metric).unwrap()
}

/// The machine slows down from block to block by far more than the effect of the setting.
const DRIFT: [u64; 4] = [4000, 3000, 2000, 1000];
const BETTER: [u64; 4] = [4041, 3030, 2021, 1010];

#[test]
fn a_setting_is_tested_within_blocks() {
    let trials = [
        set(blocks(LIBAIO, &DRIFT), "governor", "powersave"),
        set(blocks(LIBAIO, &BETTER), "governor", "schedutil"),
    ];
    let comparison = within(&trials.concat(), "governor");
    let by = comparison.by.as_ref().unwrap();
    assert_eq!([&by.key, &by.before, &by.after], ["governor", "powersave", "schedutil"]);
    assert_eq!(comparison.changes.len(), comparison.metrics.len(), "one cell");
    let iops = of(&comparison, Metric::Iops);
    // Differences of 25.5 with a variance of 521 / 3, and Student's t of three degrees of freedom in closed
    // form.
    let angle = (25.5 / (521.0 / 3.0 / 4.0_f64).sqrt() / 3.0_f64.sqrt()).atan();
    let p = 1.0 - std::f64::consts::FRAC_2_PI * (angle + angle.sin() * angle.cos());
    assert!((iops.p.unwrap() - p).abs() < 1e-12 && (0.0305..0.0306).contains(&p), "{iops:?}");
    assert!((iops.ratio.unwrap() - 1.0102).abs() < 1e-12);
    let (low, high) = iops.interval.unwrap();
    assert!(1.009 < low && low < 1.0102 && 1.0102 < high && high < 1.0115, "{low} {high}");
    assert!(comparison.in_blocks && comparison.unpaired == 0);
    let text = text_of(&comparison).replace('\n', " ");
    for part in [
        "before: governor powersave, study test, 4 trials",
        "the t-test of the differences within blocks",
        "governor",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    // With the values reversed, the result is reversed.
    let back = within(&trials.concat(), "governor=schedutil,powersave");
    assert!((of(&back, Metric::Iops).ratio.unwrap() - 1.0 / 1.0102).abs() < 1e-12);
    // Trials from fio's files were not run in blocks, so the drift hides the difference.
    let mut imported = study("6.1");
    imported.provenance.insert("imported_from".to_owned(), "fio.json".to_owned());
    let comparison =
        compare_within(&imported, trials.concat(), "governor", &[], Admission::default()).unwrap();
    assert!(!comparison.in_blocks && of(&comparison, Metric::Iops).p.unwrap() > 0.9);
    assert!(text_of(&comparison).contains("Welch's test"));
}

#[test]
fn paths_generators_and_workloads_are_compared_as_settings_are() {
    let slow = [500, 501, 499];
    let by_path = within(
        &[blocks(LIBAIO, &[1000, 1001, 999]), blocks(URING, &slow)].concat(),
        &format!("path={LIBAIO},{URING}"),
    );
    assert_eq!(
        (of(&by_path, Metric::Iops).outcome, of(&by_path, Metric::Iops).ratio),
        (ChangeOutcome::Worse, Some(0.5))
    );
    assert_eq!(regressions(&by_path, 20.0).unwrap().len(), 2, "IOPS and latency");
    let difference = &by_path.differences[0];
    assert_eq!((difference.name.as_str(), difference.after.as_deref()), ("path", Some(URING)));
    let text = text_of(&by_path);
    assert!(
        text.contains("path before") && text.contains(&format!("after: path {URING}, study test")),
        "{text}"
    );
    let mut fio = blocks(LIBAIO, &slow);
    fio.iter_mut().for_each(|trial| trial.generator = Generator::Fio);
    // Without values the lesser one is before, in the order of the design's words.
    let by_generator = within(&[fio, blocks(LIBAIO, &[1000, 1001, 999])].concat(), "generator");
    assert_eq!(of(&by_generator, Metric::Iops).ratio, Some(0.5));
    let mut deep = blocks(LIBAIO, &[2000, 2002, 1998]);
    deep.iter_mut().for_each(|trial| trial.workload.iodepth = 16);
    let by_depth =
        within(&[deep, blocks(LIBAIO, &[1000, 1001, 999]), blocks(URING, &slow)].concat(), "iodepth=1,16");
    assert_eq!(
        (of(&by_depth, Metric::Iops).outcome, of(&by_depth, Metric::Iops).ratio),
        (ChangeOutcome::Better, Some(2.0))
    );
    assert_eq!(by_depth.only_before.len(), 1, "io_uring was not run at depth 16");
    assert!(
        text_of(&by_depth).contains("workload before: randread 4k iodepth 1 numjobs 1"),
        "{}",
        text_of(&by_depth)
    );
}

#[test]
fn trials_without_a_partner_in_their_block_stay_out() {
    let mut before = blocks(LIBAIO, &[1000, 9000, 1002, 1001]);
    let Result::Measured(measurement) = &mut before[3].outcome else { panic!() };
    measurement.verdict.kind = VerdictKind::Refuted;
    before.remove(1);
    let all = [set(before, "x", "1"), set(blocks(LIBAIO, &[1000, 500, 1002, 500]), "x", "2")].concat();
    let comparison = within(&all, "x");
    let iops = of(&comparison, Metric::Iops);
    assert_eq!((iops.before.unwrap().n, iops.after.unwrap().n, iops.ratio), (2, 2, Some(1.0)));
    assert_eq!((comparison.unpaired, comparison.before.left_out.total()), (2, 1));
    assert!(
        text_of(&comparison).contains("2 trials are left out because their block lacks the other side's")
    );
}

#[test]
fn two_of_several_values_are_compared_and_the_others_counted() {
    let of_value = |value: &str| set(blocks(LIBAIO, &[1000, 1001]), "io_poll_delay", value);
    let all = [of_value("50"), of_value("-1"), of_value("0")].concat();
    let comparison = within(&all, "io_poll_delay=-1,50");
    assert_eq!(comparison.by.as_ref().unwrap().others, 2);
    assert!(text_of(&comparison).contains("neither: 2 trials of another io_poll_delay\n"));
    // Two remain: the lesser is before, by size and not by letter.
    let comparison = within(&all[..4], "io_poll_delay");
    assert_eq!(comparison.by.unwrap().before, "-1");
    // A comma within a value.
    let odd = [set(blocks(LIBAIO, &[1]), "cpus", "0,1"), set(blocks(LIBAIO, &[1]), "cpus", "2,3")].concat();
    assert_eq!(within(&odd, "cpus=2,3,0,1").by.unwrap().before, "2,3");
}

/// Durable writes and batches are compared so in the documents.
#[test]
fn any_key_of_the_workload_can_be_the_difference() {
    let of_batch = |batch: u32| {
        let mut trials = blocks(LIBAIO, &[1000, 1001]);
        trials.iter_mut().for_each(|trial| trial.workload.iodepth_batch_submit = batch);
        trials
    };
    let trials = [of_batch(32), of_batch(8), of_batch(1)].concat();
    let comparison = within(&trials, "iodepth_batch_submit=1,32");
    let by = comparison.by.as_ref().unwrap();
    assert_eq!((by.before.as_str(), by.after.as_str(), by.others), ("1", "32", 2));
    let batches = comparison.changes.iter().map(|change| change.cell.workload.iodepth_batch_submit);
    assert_eq!(batches.collect::<BTreeSet<_>>(), [1].into(), "both sides are one cell, by its value before");
    assert_eq!(
        within(&trials[..4], "iodepth_batch_submit").by.unwrap().before,
        "8",
        "by size, not by letter"
    );
}

#[test]
fn what_cannot_be_told_apart_is_said_in_a_sentence() {
    let of_value = |value: &str| set(blocks(LIBAIO, &[1000]), "io_poll_delay", value);
    let three = [of_value("50"), of_value("-1"), of_value("0")].concat();
    for (by, words) in [
        ("speed", "no trial has a `speed`: name what they differ in, one of io_poll_delay"),
        ("", "no trial has a ``"),
        ("numjobs", "all trials have numjobs 1: name what they differ in, one of io_poll_delay"),
        (
            "io_poll_delay",
            "the trials have 3 values of io_poll_delay, -1, 0 and 50: name two of them, as in --by \
             io_poll_delay=-1,0",
        ),
        ("io_poll_delay=7,50", "no trial has io_poll_delay `7`: name two values of -1, 0 and 50"),
        ("io_poll_delay=50,", "no trial has io_poll_delay ``"),
        (
            "io_poll_delay=0",
            "--by io_poll_delay=0 names one value: name the one before and the one after, of -1, 0 and 50",
        ),
        ("io_poll_delay=0,0", "io_poll_delay 0 is named for both sides: name two values of -1, 0 and 50"),
        ("io_poll_delay=0,-1,50", "no trial has io_poll_delay `-1,50`"),
    ] {
        let why = refusal(&three, by);
        assert!(why.contains(words), "{by}: {why}");
    }
    let nothing = refusal(&[], "path");
    assert_eq!(nothing, "the store holds no trials: there is nothing to compare");
    let alike = refusal(&of_value("0"), "path");
    assert!(alike.contains("but they differ in nothing"), "{alike}");
}

/// The blocks of two equal paths, after which a test at one look finds a difference: seeded; `None` if none
/// of 5 to 30 does.
fn stopped_at_a_difference(seed: u64) -> Option<[Vec<u64>; 2]> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let normal = Normal::new(100_000.0, 3_000.0).unwrap();
    let mut iops = || (0..30).map(|_| f64::round(normal.sample(&mut rng))).collect::<Vec<f64>>();
    let (a, b) = (iops(), iops());
    let differs = |blocks: &usize| t_test(Method::Paired, &a[..*blocks], &b[..*blocks]).unwrap().p < LEVEL;
    let blocks = (5..=30).find(differs)?;
    Some([a, b].map(|path| path[..blocks].iter().map(|iops| *iops as u64).collect()))
}

#[test]
fn equal_paths_of_a_sequential_store_differ_in_one_of_twenty_comparisons_at_most() {
    let stopped: Vec<[Vec<u64>; 2]> = (0..100).filter_map(stopped_at_a_difference).collect();
    assert!(
        stopped.len() > 10,
        "looking after each block finds a difference far too often: {}",
        stopped.len()
    );
    let p = |study: &iopj_record::StudyRecord, [a, b]: &[Vec<u64>; 2]| {
        let both = [blocks(LIBAIO, a), blocks(URING, b)].concat();
        of(&compare_within(study, both, "path", &[], Admission::default()).unwrap(), Metric::Iops).p.unwrap()
    };
    assert!(p(&study("6.1"), &stopped[0]) < LEVEL, "as one look has it");
    let found = stopped.iter().filter(|blocks| p(&sequential(), blocks) < LEVEL).count();
    assert!(found <= 5, "{found} of 100 studies");
    let both = [blocks(LIBAIO, &stopped[0][0]), blocks(URING, &stopped[0][1])].concat();
    let comparison = compare_within(&sequential(), both, "path", &[], Admission::default()).unwrap();
    assert_eq!((comparison.looks, of(&comparison, Metric::Iops).outcome), (26, ChangeOutcome::Undecided));
    let text = text_of(&comparison).replace('\n', " ");
    assert!(
        text.contains("times the 26 looks of a number of replicates that was decided while it ran"),
        "{text}"
    );
}
