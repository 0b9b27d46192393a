//! Scores of constructed stores: latencies of each block are given one by one.

use iopj_analysis::admission::Admission;
use iopj_analysis::metric::Metric;
use iopj_analysis::score::*;
use iopj_analysis::stats::Ratio;
use iopj_core::{PolicyName, Scope};
use iopj_core::{Rw, VerdictKind, Workload};
use iopj_record::Outcome;
use iopj_record::testing::cells::{Measured, cell, judge, measurement_of, workload};
use iopj_record::testing::energy::give;
use iopj_record::testing::pairs::{sequential, study};
use iopj_record::{StudyRecord, Trial};

const AUTO: &str = "auto";
const CPU: &str = "auto:cpu";
const JOULES: &str = "auto:ios_per_joule";
/// Its file says that it is for CPU time.
const POLICY: &str = "auto:p.toml";
const RANDOM: &str = "auto:random";
const PINNED: &str = "auto:io_uring/syscall/interrupt";
const URING: &str = "io_uring/syscall/interrupt";
const SQPOLL: &str = "io_uring/sqpoll/interrupt";
const LIBAIO: &str = "libaio/syscall/interrupt";

/// Mean latencies in ns of eight blocks; the first, third, fifth and seventh test.
const AUTO_NS: [f64; 8] = [20100.0, 20400.0, 20550.0, 19900.0, 19870.0, 20200.0, 20310.0, 20050.0];
const BEST_NS: [f64; 8] = [20000.0, 20300.0, 20380.0, 19750.0, 19920.0, 20100.0, 20150.0, 19980.0];

/// The second over the first in the blocks that test: np.exp(np.mean(np.log(best[::2]) - np.log(auto[::2]))).
const RATIO: f64 = 0.9953383129832442;

fn depth(iodepth: u32) -> Workload {
    Workload { iodepth, ..workload(Rw::Randread, 1) }
}

/// The trials of a path with these mean latencies, all with 1,000 I/Os per second and half a core.
fn measured(path: &str, at: &Workload, latency_ns: &[f64]) -> Vec<Trial> {
    let figures = Measured { iops: 1000.0, cpu_percent: 50.0, ..Measured::default() };
    let mut trials = cell(path, at, figures, &vec![0.0; latency_ns.len()]);
    for (trial, ns) in trials.iter_mut().zip(latency_ns) {
        measurement_of(trial).latency.mean = *ns;
    }
    trials
}

fn times(factor: f64, latency_ns: [f64; 8]) -> [f64; 8] {
    latency_ns.map(|ns| factor * ns)
}

fn asked(study: &StudyRecord, trials: &[Trial], margin: f64) -> Result<Score, ScoreError> {
    let admission = Admission::default();
    let aim = |_: &PolicyName| Metric::IopsPerCpu;
    score(study, trials, &ScoreQuestion { margin, level: 0.95, frozen: true, admission, aim: &aim })
}

fn scored(trials: &[Trial]) -> Score {
    asked(&study("6.1"), trials, 0.97).unwrap()
}

fn near(value: f64, expected: f64) {
    assert!((value - expected).abs() <= 1e-9 * expected.abs(), "{value} {expected}");
}

/// The only row of a path.
fn row<'s>(score: &'s Score, path: &str) -> &'s Row {
    let mut rows = score.cells.iter().flat_map(|cell| &cell.rows).filter(|row| row.path.to_string() == path);
    let only = rows.next().unwrap();
    assert_eq!(rows.next(), None);
    only
}

fn why(score: &Score) -> String {
    let Some(Answer::NotTested(why)) = score.answers().next() else { panic!("{score:?}") };
    why.clone()
}

/// `auto`, what is best and what is not, at depth 4.
fn three_paths() -> Vec<Trial> {
    let at = depth(4);
    [
        measured(AUTO, &at, &AUTO_NS),
        measured(URING, &at, &BEST_NS),
        measured(SQPOLL, &at, &times(1.2, BEST_NS)),
    ]
    .concat()
}

#[test]
fn ratio_limits_and_p_values_agree_with_scipy() {
    let score = scored(&three_paths());
    let own = row(&score, AUTO);
    // d = np.log(best[::2]) - np.log(auto[::2]); np.exp(d.mean());
    // np.exp(scipy.stats.ttest_1samp(d, 0).confidence_interval(0.9))
    let Ratio { ratio, low, high } = own.ratio.unwrap();
    near(ratio, RATIO);
    near(low, 0.9894833263608521);
    near(high, 1.0012279448264652);
    // scipy.stats.ttest_1samp(d, np.log(0.97), alternative="greater").pvalue, and "less"
    let [holds, fails] = own.p.unwrap();
    near(holds, 0.0009797477455228782);
    near(fails, 0.9990202522544771);
    assert_eq!((own.answer.as_ref(), own.blocks), (Some(&Answer::Holds), 4));
    assert_eq!(own.against.map(|path| path.to_string()).as_deref(), Some(URING));
    // (20100 + 20550 + 19870 + 20310) / 4
    near(own.means.unwrap()[0], 20207.5);
    assert_eq!(own.iops, Some(Ratio { ratio: 1.0, low: 1.0, high: 1.0 }));
    assert!(!score.fails() && score.nothing().is_none());
}

#[test]
fn what_is_below_the_margin_fails_and_what_straddles_it_is_undecided() {
    let at = depth(4);
    let by = |factor: f64| {
        let trials = [measured(AUTO, &at, &times(factor, AUTO_NS)), measured(URING, &at, &BEST_NS)].concat();
        let score = scored(&trials);
        (row(&score, AUTO).answer.clone().unwrap(), score.fails())
    };
    assert_eq!(by(1.0), (Answer::Holds, false));
    assert_eq!(by(1.025), (Answer::Undecided, false));
    assert_eq!(by(1.06), (Answer::Fails, true));
    // The same data by a margin that they reach.
    let trials = [measured(AUTO, &at, &times(1.06, AUTO_NS)), measured(URING, &at, &BEST_NS)].concat();
    let lax = asked(&study("6.1"), &trials, 0.9).unwrap();
    assert_eq!((row(&lax, AUTO).answer.as_ref(), lax.margin), (Some(&Answer::Holds), 0.9));
}

#[test]
fn where_nothing_varies_the_margin_itself_is_reached() {
    let at = depth(1);
    let trials = [measured(AUTO, &at, &[20000.0; 4]), measured(URING, &at, &[20000.0; 4])].concat();
    let score = asked(&study("6.1"), &trials, 1.0).unwrap();
    assert_eq!(row(&score, AUTO).answer, Some(Answer::Holds));
}

#[test]
fn one_half_of_the_blocks_chooses_and_the_other_tests() {
    let at = depth(1);
    // io_uring is the best of the second, fourth, ... block, and much the worst of the others.
    let uring = [90000.0, 10000.0, 91000.0, 10100.0, 90500.0, 10050.0];
    let trials = [
        measured(AUTO, &at, &[20000.0, 20000.0, 20100.0, 20000.0, 20050.0, 20000.0]),
        measured(URING, &at, &uring),
        measured(LIBAIO, &at, &[19000.0, 30000.0, 19100.0, 30000.0, 19050.0, 30000.0]),
    ]
    .concat();
    let score = scored(&trials);
    let own = row(&score, AUTO);
    assert_eq!(own.against.map(|path| path.to_string()).as_deref(), Some(URING));
    assert!(own.ratio.unwrap().ratio > 4.0, "{own:?}");
    let worst = row(&score, LIBAIO);
    assert_eq!((worst.is, worst.blocks), (Kind::Worst, 3));
    // The blocks that choose do not count in the test.
    let mut others = trials.clone();
    for trial in others.iter_mut().filter(|trial| trial.replicate % 2 == 1) {
        measurement_of(trial).latency.mean *= 1.5;
    }
    assert_eq!(row(&scored(&others), AUTO), own);
}

#[test]
fn holms_correction_covers_all_cells_and_the_two_answers_apart() {
    let cell = |iodepth: u32, factor: f64| {
        let at = depth(iodepth);
        [measured(AUTO, &at, &times(factor, AUTO_NS)), measured(URING, &at, &BEST_NS)].concat()
    };
    let alone = |factor: f64| row(&scored(&cell(1, factor)), AUTO).p.unwrap();
    let factors = [1.0, 1.01, 1.06];
    let raw = factors.map(alone);
    let score = scored(&[cell(1, 1.0), cell(2, 1.01), cell(4, 1.06)].concat());
    let p: Vec<[f64; 2]> = score.cells.iter().map(|cell| cell.rows[0].p.unwrap()).collect();
    // Of three p-values in ascending order Holm multiplies by 3, 2 and 1.
    near(p[0][0], 3.0 * raw[0][0]);
    near(p[1][0], 2.0 * raw[1][0]);
    assert_eq!(p[2][0], raw[2][0]);
    near(p[2][1], 3.0 * raw[2][1]);
    assert!(raw[1][0] < 0.05 && raw[2][1] < 0.05 / 3.0, "{raw:?}");
    let words: Vec<&str> = score.answers().map(Answer::as_str).collect();
    assert_eq!(words, ["holds", "holds", "fails"]);
    assert!(score.fails());
}

#[test]
fn looks_multiply_every_p_value() {
    let at = depth(4);
    let trials = [measured(AUTO, &at, &AUTO_NS), measured(URING, &at, &BEST_NS)].concat();
    let once = row(&scored(&trials), AUTO).p.unwrap();
    let score = asked(&sequential(), &trials, 0.97).unwrap();
    assert_eq!(score.looks, 26);
    near(row(&score, AUTO).p.unwrap()[0], (26.0 * once[0]).min(1.0));
}

#[test]
fn trials_that_do_not_compete_are_left_out_and_counted() {
    let at = depth(4);
    let mut trials = [measured(AUTO, &at, &AUTO_NS), measured(URING, &at, &BEST_NS)].concat();
    // The first block tests: without its pair there are three.
    judge(&mut trials[..1], VerdictKind::Refuted);
    trials[8 + 2].outcome = Outcome::Failed("EIO".to_owned());
    let score = scored(&trials);
    assert_eq!(row(&score, AUTO).blocks, 2);
    assert_eq!(score.cells[0].left_out.text(), "1 refuted, 1 failed");
    let whole: Vec<Trial> =
        trials.iter().filter(|trial| ![0, 2].contains(&trial.replicate)).cloned().collect();
    let mut rest = row(&scored(&whole), AUTO).clone();
    rest.of_blocks = 4;
    assert_eq!(*row(&score, AUTO), rest);
    judge(&mut trials[..8], VerdictKind::Refuted);
    let none = scored(&trials);
    assert_eq!((why(&none).as_str(), none.nobody), ("no trial of auto competes (8 refuted)", None));
}

#[test]
fn what_counts_of_each_path_is_told_by_half_and_reason() {
    let mut trials = three_paths();
    // The slowest block of `auto` that tests is unproven.
    judge(&mut trials[2..3], VerdictKind::Unproven);
    trials[8 + 1].outcome = Outcome::Failed("EIO".to_owned());
    measurement_of(&mut trials[16 + 4]).latency.mean = 0.0;
    let score = scored(&trials);
    let used = |path: &str| {
        let used = score.cells[0].used.iter().find(|used| used.path.to_string() == path).unwrap();
        (used.choosing, used.testing, used.reasons().join(", "), used.is_whole())
    };
    assert_eq!(used(AUTO), (4, 3, "1 unproven".to_owned(), false));
    assert_eq!(used(URING), (3, 4, "1 failed".to_owned(), false));
    assert_eq!(used(SQPOLL), (4, 3, "1 without the figure".to_owned(), false));
    let own = row(&score, AUTO);
    assert_eq!((score.cells[0].blocks, own.blocks, own.of_blocks), ([4, 4], 3, 4));
    // With it the ratio is that of all four blocks.
    near(own.with_left_out.unwrap().ratio, RATIO);
    assert!(own.ratio.unwrap().ratio > RATIO, "what was left out flatters: {own:?}");
    assert_eq!(row(&score, SQPOLL).with_left_out, None, "a failed trial has no figure");
    let text = crate::score(&score).replace("\n  ", " ");
    let line = "auto has 4 of 4 blocks that choose and 3 of 4 that test; left out: 1 unproven; its ratio \
                would be 0.995 (0.989 to 1.001) if all that is unproven or disturbed counted";
    assert!(text.contains(line), "{text}");
}

#[test]
fn the_best_path_stays_chosen_where_it_cannot_be_tested() {
    let mut trials = three_paths();
    for trial in trials[8..16].iter_mut().filter(|trial| trial.replicate % 2 == 0 && trial.replicate > 0) {
        judge(std::slice::from_mut(trial), VerdictKind::Unproven);
    }
    let score = scored(&trials);
    assert_eq!(score.cells[0].best.map(|path| path.to_string()).as_deref(), Some(URING));
    assert_eq!(
        why(&score),
        "of 4 blocks that test, 4 have a figure of auto, 1 of io_uring/syscall/interrupt, which the other \
         blocks chose, and 1 of both, where a test needs 2; no path takes its place: measure again what was \
         left out"
    );
}

#[test]
fn what_is_undecided_says_how_many_more_blocks_would_decide() {
    let at = depth(4);
    let more = |factors: &[f64]| {
        let cell = |(number, factor): (usize, &f64)| {
            let at = depth(1 + number as u32);
            [measured(AUTO, &at, &times(*factor, AUTO_NS)), measured(URING, &at, &BEST_NS)].concat()
        };
        let trials: Vec<Trial> = factors.iter().enumerate().flat_map(cell).collect();
        let score = scored(&trials);
        let rows: Vec<Option<MoreBlocks>> = score.cells.iter().map(|cell| cell.rows[0].more).collect();
        (rows, crate::score(&score).replace('\n', " "))
    };
    let about = |blocks| Some(MoreBlocks::About(blocks));
    let (none, text) = more(&[1.0]);
    assert!(none == [None] && !text.contains("(+N)"), "it holds: {text}");
    // The least k with nct.sf(t.isf(level, 3 + k), 3 + k, d * ((4 + k) / 4)**0.5) >= 0.8, d the statistic of
    // ttest_1samp(log(best[::2] / auto[::2]), log(0.97)), level 0.05 by what Holm's rule leaves; twice that.
    let (one, text) = more(&[1.03]);
    assert_eq!(one, [about(18)]);
    assert!(
        text.contains("undecided (+18)") && text.contains("For +18 measure 26 blocks in a new"),
        "{text}"
    );
    assert_eq!(more(&[1.0, 1.02, 1.03]).0, [None, about(8), about(28)]);
    let (many, text) = more(&[RATIO / 0.97]);
    assert_eq!(many, [Some(MoreBlocks::Many)]);
    assert!(text.contains("undecided (over +200)") && !text.contains("For +"), "{text}");
    let trials = [measured(AUTO, &at, &times(1.03, AUTO_NS)), measured(URING, &at, &BEST_NS)].concat();
    let looks = row(&asked(&sequential(), &trials, 0.97).unwrap(), AUTO).more;
    assert!(looks > row(&scored(&trials), AUTO).more, "looks share the level: {looks:?}");
}

#[test]
fn a_cell_that_cannot_be_tested_says_what_is_missing() {
    let at = depth(4);
    let auto = || measured(AUTO, &at, &AUTO_NS);
    let alone = scored(&auto());
    assert_eq!(why(&alone), "there is no static path beside it: add one to the paths of its workload");
    assert_eq!(alone.nothing(), Some(why(&alone).as_str()));
    let one_block = [measured(AUTO, &at, &AUTO_NS[..1]), measured(URING, &at, &BEST_NS[..1])].concat();
    assert!(why(&scored(&one_block)).starts_with("no static path has a figure in a block that chooses"));
    let two_blocks = [measured(AUTO, &at, &AUTO_NS[..2]), measured(URING, &at, &BEST_NS[..2])].concat();
    assert_eq!(
        why(&scored(&two_blocks)),
        "of 1 blocks that test, 1 have a figure of auto, 1 of io_uring/syscall/interrupt, which the other \
         blocks chose, and 1 of both, where a test needs 2; no path takes its place: measure 4 blocks or more"
    );
    let joules = [measured(JOULES, &at, &AUTO_NS), measured(URING, &at, &BEST_NS)].concat();
    assert!(why(&scored(&joules)).starts_with("no joules of the whole machine were measured"));
    // Beside one that is tested it is named, and the other decides.
    let trials = [joules, measured(AUTO, &at, &AUTO_NS)].concat();
    let score = scored(&trials);
    let words: Vec<&str> = score.answers().map(Answer::as_str).collect();
    assert_eq!((words, score.nothing()), (vec!["holds", "not tested"], None));
}

#[test]
fn baselines_stand_beside_the_answer_without_one() {
    let at = depth(4);
    let trials = [
        measured(AUTO, &at, &AUTO_NS),
        measured(RANDOM, &at, &times(1.5, BEST_NS)),
        measured(PINNED, &at, &times(1.01, times(1.2, BEST_NS))),
        measured(URING, &at, &times(1.2, BEST_NS)),
        measured(SQPOLL, &at, &BEST_NS),
        measured(LIBAIO, &at, &times(2.0, BEST_NS)),
    ];
    let score = scored(&trials.concat());
    let of = |path: &str| {
        let row = row(&score, path);
        let against = row.against.map(|path| path.to_string());
        assert!(row.p.is_none() && row.answer.is_none(), "{row:?}");
        near(
            row.ratio.unwrap().ratio,
            1.0 / if path == RANDOM {
                1.5
            } else if path == PINNED {
                1.01
            } else {
                2.0
            },
        );
        (row.is, against.unwrap(), row.blocks)
    };
    assert_eq!(of(RANDOM), (Kind::Random, SQPOLL.to_owned(), 4));
    assert_eq!(of(PINNED), (Kind::Pinned, URING.to_owned(), 8), "nothing is chosen, so every block tests");
    assert_eq!(of(LIBAIO), (Kind::Worst, SQPOLL.to_owned(), 4));
    assert_eq!(score.cells[0].rows.len(), 4);
    assert_eq!(score.answers().count(), 1);
}

#[test]
fn each_path_is_scored_by_what_it_chooses_for() {
    let at = depth(4);
    let mut trials = [
        measured(AUTO, &at, &AUTO_NS),
        measured(CPU, &at, &times(2.0, BEST_NS)),
        measured(JOULES, &at, &times(2.0, BEST_NS)),
        measured(POLICY, &at, &times(2.0, BEST_NS)),
        measured(URING, &at, &BEST_NS),
        measured(LIBAIO, &at, &times(2.0, BEST_NS)),
    ]
    .concat();
    for trial in &mut trials {
        let (path, block) = (trial.path.to_string(), f64::from(trial.replicate));
        // Half the CPU time, and half the joules, of the path with the best latency.
        let is_frugal = [CPU, JOULES, POLICY, LIBAIO].contains(&path.as_str());
        let factor = if is_frugal { 1.0 } else { 2.0 } * (1.0 + 0.001 * (block + path.len() as f64) % 0.01);
        measurement_of(trial).cpu_percent = 20.0 * factor;
        give(trial, "plug", Scope::System, 100.0 * factor);
    }
    let score = scored(&trials);
    let metrics: Vec<(Metric, String)> =
        score.cells.iter().map(|cell| (cell.metric, cell.best.unwrap().to_string())).collect();
    let expected =
        [(Metric::LatencyMean, URING), (Metric::IopsPerCpu, LIBAIO), (Metric::IosPerJoule, LIBAIO)];
    assert_eq!(metrics, expected.map(|(metric, best)| (metric, best.to_owned())));
    assert_eq!(score.answers().map(Answer::as_str).collect::<Vec<_>>(), ["holds"; 4]);
    assert_eq!(score.cells[1].rows[1].path.to_string(), POLICY, "by the aim of its file");
    assert_eq!(score.energy.as_ref().map(|source| source.meter.as_str()), Some("plug"));
    // Of a part of the machine nothing is said.
    for trial in &mut trials {
        measurement_of(trial).energy.iter_mut().for_each(|energy| energy.scope = Scope::Package);
    }
    let score = scored(&trials);
    assert_eq!((score.energy.as_ref(), score.answers().last().unwrap().as_str()), (None, "not tested"));
}

#[test]
fn over_all_cells_a_path_that_chooses_may_beat_every_single_one() {
    let (low, high) = (depth(1), depth(32));
    // Each static path is best in one cell, and 30 % behind in the other.
    let trials = |factor: f64| {
        let auto = times(factor, AUTO_NS);
        [
            measured(AUTO, &low, &auto),
            measured(AUTO, &high, &auto),
            measured(URING, &low, &BEST_NS),
            measured(URING, &high, &times(1.3, BEST_NS)),
            measured(SQPOLL, &low, &times(1.31, BEST_NS)),
            measured(SQPOLL, &high, &BEST_NS),
            // Measured in one cell only, it cannot be the one path.
            measured(LIBAIO, &high, &times(0.5, BEST_NS)),
        ]
        .concat()
    };
    let together = |factor: f64| scored(&trials(factor)).together.remove(0);
    let one = together(1.0);
    assert_eq!((one.cells, one.blocks, one.answer), (2, 4, Some(More::Better)));
    assert_eq!(one.against.map(|path| path.to_string()).as_deref(), Some(URING));
    // The best is sqrt(1.3) behind over both, and auto RATIO of it in each.
    near(one.ratio.unwrap().ratio, 1.3_f64.sqrt() * RATIO);
    assert_eq!(together(1.3).answer, Some(More::Worse));
    assert_eq!(together(1.3_f64.sqrt() * RATIO).answer, Some(More::Undecided));
    let single = [measured(AUTO, &low, &AUTO_NS), measured(URING, &low, &BEST_NS)].concat();
    assert!(scored(&single).together.is_empty(), "one cell is no sum");
}

#[test]
fn stores_that_cannot_be_scored_are_refused_with_the_reason() {
    let at = depth(4);
    let of_static = measured(URING, &at, &BEST_NS);
    let refusal = |study: &StudyRecord, trials: &[Trial]| asked(study, trials, 0.97).unwrap_err();
    assert_eq!(refusal(&study("6.1"), &[]), ScoreError::Empty);
    assert_eq!(refusal(&study("6.1"), &of_static), ScoreError::NoneChooses);
    let emulated = StudyRecord { emulated: Some("QEMU TCG".to_owned()), ..study("6.1") };
    assert_eq!(refusal(&emulated, &of_static), ScoreError::Emulated("QEMU TCG".to_owned()));
    let mut imported = study("6.1");
    imported.provenance.insert("imported_from".to_owned(), "fio.json".to_owned());
    assert_eq!(refusal(&imported, &of_static), ScoreError::NoBlocks);
}
