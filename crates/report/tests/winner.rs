//! Winner maps of synthetic stores with known winners and equal paths.

use iopj_analysis::Admission;
use iopj_analysis::admission::Barred;
use iopj_analysis::metric::Metric;
use iopj_analysis::stats::{LEVEL, Method};
use iopj_analysis::winner::{
    Axis, AxisValue, Decision, MapCell, RankedPath, WinnerMap, WinnerQuestion, default_metric, rank,
    winner_maps,
};
use iopj_core::{CostKind, CostProfile, CostSource, IoPath, VerdictKind, Workload};
use iopj_record::testing::plain::{measurement, study, trial};
use iopj_record::{Generator, Outcome, StudyRecord, Trial};
use iopj_report::winners;
use proptest::prelude::*;

const PATHS: [&str; 3] = ["posix-sio/syscall/interrupt", "io_uring/syscall/poll", "io_uring/sqpoll/poll"];
const BLOCKS: [u32; 4] = [4096, 16384, 65536, 131072];
const DEPTHS: [u32; 5] = [1, 4, 16, 32, 128];

/// The winner of each cell by index in `PATHS`, or none if all are equal; rows are sizes, columns depths.
const TRUTH: [[Option<usize>; 5]; 4] = [
    [Some(0), Some(1), Some(1), Some(2), Some(2)],
    [Some(0), Some(0), None, Some(1), Some(2)],
    [None, Some(0), Some(0), None, Some(1)],
    [None, None, Some(0), None, None],
];

fn path(place: usize) -> IoPath {
    PATHS[place].parse().unwrap()
}

/// Replicates around a base rate: the winner 10 % above, the others equal except for noise of 1 %.
fn known_store() -> Vec<Trial> {
    let noise = [0, 900, -900, 450, -450];
    let mut trials = Vec::new();
    for replicate in 0..5 {
        for (bs, row) in BLOCKS.into_iter().zip(TRUTH) {
            for (iodepth, winner) in DEPTHS.into_iter().zip(row) {
                let workload = Workload { bs, iodepth, ..Workload::default() };
                for place in 0..PATHS.len() {
                    // Each path draws the same noise in another order.
                    let jitter = noise[(replicate + place * 2) % 5] + place as i64;
                    let base = if winner == Some(place) { 110_000 } else { 100_000 };
                    trials.push(trial(PATHS[place], &workload, replicate as u32, (base + jitter) as u64));
                }
            }
        }
    }
    trials
}

fn question(metric: Metric) -> WinnerQuestion {
    WinnerQuestion::new(metric, Axis::Iodepth, Axis::Bs).unwrap()
}

fn only_map(trials: &[Trial], question: &WinnerQuestion) -> WinnerMap {
    let mut maps = winner_maps(trials, question);
    assert_eq!(maps.len(), 1);
    maps.remove(0)
}

/// The one cell of a store of a single workload.
fn only_cell(trials: &[Trial], question: &WinnerQuestion) -> MapCell {
    only_map(trials, question).cells.into_values().next().unwrap()
}

fn cell_of(rates: &[(usize, &[u64])]) -> Vec<Trial> {
    let of = |place: usize, rates: &[u64]| -> Vec<Trial> {
        rates.iter().zip(0..).map(|(rate, i)| trial(PATHS[place], &Workload::default(), i, *rate)).collect()
    };
    rates.iter().flat_map(|(place, rates)| of(*place, rates)).collect()
}

#[test]
fn a_known_store_is_right_in_every_cell() {
    let trials = known_store();
    for method in [Method::Student, Method::Welch, Method::Paired] {
        // Throughput and latency rank like the rates.
        for metric in
            [Metric::Iops, Metric::MbPerS, Metric::LatencyMean, Metric::LatencyP50, Metric::IopsPerCpu]
        {
            let map = only_map(&trials, &WinnerQuestion { method, ..question(metric) });
            assert_eq!(map.cells.len(), 20);
            assert_eq!(map.left_out().total(), 0);
            for (bs, row) in BLOCKS.into_iter().zip(TRUTH) {
                for (depth, winner) in DEPTHS.into_iter().zip(row) {
                    check(&map.cells[&(AxisValue::Bs(bs), AxisValue::Count(depth))], winner, metric);
                }
            }
        }
    }
}

fn check(cell: &MapCell, winner: Option<usize>, metric: Metric) {
    let Some(winner) = winner else {
        assert_eq!((cell.decision(), cell.best().len()), (Decision::Equal, 3), "{cell:?}");
        return;
    };
    assert_eq!((cell.decision(), cell.ranking[0].path), (Decision::Wins, path(winner)), "{cell:?}");
    assert_eq!(cell.best().len(), 1);
    let effect = cell.lead().unwrap();
    let ratio = effect.ratio.unwrap();
    assert!(
        ratio.low < ratio.ratio && ratio.ratio < ratio.high && effect.least().unwrap() < 0.1,
        "{effect:?}"
    );
    let relative = cell.distance().unwrap().relative.unwrap();
    let want = if metric.more_is_better() { 0.1 } else { 1.0 / 1.1 - 1.0 };
    assert!((relative - want).abs() < 1e-3, "{relative}");
}

#[test]
fn what_is_not_on_the_axes_makes_maps_of_its_own() {
    let mut trials = known_store();
    for mut other in known_store() {
        other.workload.numjobs = 8;
        trials.push(other.clone());
        other.generator = Generator::Fio;
        trials.push(other);
    }
    let maps = winner_maps(&trials, &question(Metric::Iops));
    let keys: Vec<_> =
        maps.iter().map(|map| (map.workload.numjobs, map.generator, map.cells.len())).collect();
    assert_eq!(keys, [(1, Generator::Native, 20), (8, Generator::Native, 20), (8, Generator::Fio, 20)]);
    let along = WinnerQuestion::new(Metric::Iops, Axis::Numjobs, Axis::Rw).unwrap();
    assert_eq!(winner_maps(&trials, &along).len(), 20 + 20);
}

#[test]
fn what_does_not_count_stays_out_and_is_counted() {
    let mut trials = cell_of(&[(0, &[100, 101, 102, 900]), (1, &[200, 201, 202]), (2, &[900, 901, 902])]);
    for refuted in &mut trials[7..10] {
        measurement(refuted).verdict.kind = VerdictKind::Refuted;
    }
    measurement(&mut trials[3]).short_ios = 2;
    trials.push(trial(PATHS[0], &Workload::default(), 4, 0));
    trials.push(Trial { outcome: Outcome::Failed("it broke".into()), ..trials[0].clone() });
    let map = only_map(&trials, &question(Metric::Iops));
    let left_out = map.left_out();
    let count = |why| left_out.barred.of(why);
    assert_eq!(
        (count(Barred::Refuted), count(Barred::Incomplete), count(Barred::Failed), left_out.total()),
        (3, 2, 1, 6)
    );
    let cell = map.cells.values().next().unwrap();
    assert_eq!((cell.ranking.len(), cell.ranking[0].path, cell.ranking[1].summary.n), (2, path(1), 3));
    let text = winners(&study(14), &trials, &question(Metric::Iops));
    assert!(text.contains("  6 trials are left out: 3 refuted, 1 failed, 2 incomplete\n"), "{text}");
    assert!(text.contains("2 of 14 planned trials are not in the store"), "{text}");
}

#[test]
fn baselines_of_what_chooses_win_nothing_and_are_counted() {
    let mut trials = cell_of(&[(0, &[100, 101, 102]), (1, &[200, 201, 202]), (2, &[150, 151, 152])]);
    trials[..3].iter_mut().for_each(|trial| trial.path = "auto".parse().unwrap());
    trials[3..6].iter_mut().for_each(|trial| trial.path = "auto:io_uring/syscall/poll".parse().unwrap());
    trials.push(Trial { path: "auto:random".parse().unwrap(), ..trials[0].clone() });
    let map = only_map(&trials, &question(Metric::Iops));
    let cell = map.cells.values().next().unwrap();
    let ranked: Vec<String> = cell.ranking.iter().map(|place| place.path.to_string()).collect();
    assert_eq!((ranked, cell.decision()), (vec![PATHS[2].to_owned(), "auto".to_owned()], Decision::Wins));
    assert_eq!((map.left_out().baselines, map.left_out().total()), (4, 4));
    let text = winners(&study(7), &trials, &question(Metric::Iops));
    let line =
        "  4 trials are left out: 4 of auto:random and auto:WAY, which only show what choosing is worth\n";
    assert!(text.contains(line), "{text}");
}

#[test]
fn blocks_see_what_a_common_drift_hides() {
    let trials = cell_of(&[(0, &[1000, 2000, 3000, 4000]), (1, &[1011, 2010, 3012, 4010])]);
    for method in [Method::Student, Method::Welch] {
        assert_eq!(
            only_cell(&trials, &WinnerQuestion { method, ..question(Metric::Iops) }).decision(),
            Decision::Undecided
        );
    }
    let paired = question(Metric::Iops);
    let cell = only_cell(&trials, &paired);
    assert_eq!((cell.decision(), cell.ranking[0].path), (Decision::Wins, path(1)));
    // Block 3 lacks one of the two, so its other trial has no partner. The mean now favours path 0, but the
    // shared blocks do not.
    let mut lame = trials.clone();
    lame.remove(7);
    let cell = only_cell(&lame, &paired);
    assert_eq!(
        (cell.decision(), cell.ranking[0].path, cell.left_out.unpaired),
        (Decision::Equal, path(0), 1)
    );
    // Two blocks that share nothing: no test.
    let strangers: Vec<Trial> = [&trials[0], &trials[5]].into_iter().cloned().collect();
    let cell = only_cell(&strangers, &paired);
    assert_eq!((cell.decision(), cell.left_out.unpaired), (Decision::Undecided, 2));
}

#[test]
fn holm_takes_back_what_chance_could_have_done() {
    // One p near 0.03 among ten cells of equal paths.
    let mut trials = Vec::new();
    for iodepth in 1..=10 {
        let rates =
            if iodepth == 1 { [[1000, 1010, 1020], [1023, 1033, 1043]] } else { [[1000, 1010, 1020]; 2] };
        for (place, rates) in rates.iter().enumerate() {
            for (rate, replicate) in rates.iter().zip(0..) {
                let workload = Workload { iodepth, ..Workload::default() };
                trials.push(trial(PATHS[place], &workload, replicate, *rate));
            }
        }
    }
    let winners = |method| {
        let map = only_map(&trials, &WinnerQuestion { method, ..question(Metric::Iops) });
        map.cells.values().filter(|cell| cell.decision() == Decision::Wins).count()
    };
    assert_eq!((winners(Method::Student), winners(Method::Welch)), (1, 0));
}

#[test]
fn a_winner_differs_from_every_other_path_and_not_only_from_the_next() {
    // Path 2 is last by its mean, but so noisy that it may be the best.
    let trials = cell_of(&[
        (0, &[1100, 1101, 1099, 1100]),
        (1, &[1000, 1001, 1002, 999]),
        (2, &[1500, 300, 1500, 400]),
    ]);
    let cell = only_cell(&trials, &question(Metric::Iops));
    assert_eq!((cell.decision(), cell.ranking[0].path), (Decision::Undecided, path(0)));
    assert_eq!(cell.best().iter().map(|place| place.path).collect::<Vec<_>>(), [path(0), path(2)]);
    let papers = WinnerQuestion { method: Method::Student, ..question(Metric::Iops) };
    assert_eq!(only_cell(&trials, &papers).decision(), Decision::Wins);
}

#[test]
fn cells_of_all_maps_are_one_family() {
    // Alone, the cell has a winner; with a second map's eleven open cells it has none.
    let pair = |numjobs: u32, iodepth: u32, rates: [[u64; 4]; 2]| {
        let workload = Workload { numjobs, iodepth, ..Workload::default() };
        let of = |(place, rates): (usize, [u64; 4])| {
            let workload = workload.clone();
            (0..).zip(rates).map(move |(replicate, rate)| trial(PATHS[place], &workload, replicate, rate))
        };
        rates.into_iter().enumerate().flat_map(of).collect::<Vec<Trial>>()
    };
    let won = [[1000, 1010, 1020, 1030], [1020, 1033, 1049, 1042]];
    let first = pair(1, 1, won);
    let along = question(Metric::Iops);
    assert_eq!(only_cell(&first, &along).decision(), Decision::Wins);
    let open =
        (2..=12).flat_map(|iodepth| pair(2, iodepth, [[1000, 1010, 1020, 1030], [1010, 1000, 1030, 1020]]));
    let all: Vec<Trial> = first.into_iter().chain(open).collect();
    let maps = winner_maps(&all, &along);
    assert_eq!((maps.len(), maps[0].cells.values().next().unwrap().decision()), (2, Decision::Equal));
}

#[test]
fn unproven_trials_stay_out_or_are_marked() {
    let mut trials = cell_of(&[(0, &[1000, 1001, 1002]), (1, &[1200, 1202, 1204])]);
    make_unproven(&mut trials[3..]);
    let iops = question(Metric::Iops);
    assert_eq!(only_cell(&trials, &iops).decision(), Decision::Alone);
    assert!(winners(&study(6), &trials, &iops).contains("3 trials are left out: 3 unproven"));
    let let_in =
        WinnerQuestion { admission: Admission { with_unproven: true, ..Admission::default() }, ..iops };
    let cell = only_cell(&trials, &let_in);
    assert_eq!(
        (cell.decision(), cell.ranking[0].path, cell.ranking[0].marked),
        (Decision::Wins, path(1), true)
    );
    assert!(!cell.ranking[1].marked);
    let text = winners(&study(6), &trials, &let_in);
    assert!(
        text.contains("io_uring/syscall/poll†\n") && text.contains("† unproven: nothing shows"),
        "{text}"
    );
    make_unproven(&mut trials[..3]);
    let text = winners(&study(6), &trials, &iops);
    assert!(
        text.contains("no trial is verified. 6 of 6 trials are unproven: zram0 has no vectors;"),
        "{text}"
    );
}

fn make_unproven(trials: &mut [Trial]) {
    for one in trials {
        let verdict = &mut measurement(one).verdict;
        (verdict.kind, verdict.reasons) = (VerdictKind::Unproven, vec!["zram0 has no vectors".to_owned()]);
    }
}

#[test]
fn little_data_is_said_so() {
    let iops = question(Metric::Iops);
    let single = cell_of(&[(0, &[100]), (1, &[300])]);
    assert_eq!(only_cell(&single, &iops).decision(), Decision::Undecided);
    let text = winners(&study(2), &single, &iops);
    assert!(text.contains("B ? A"), "{text}");
    assert!(
        text.ends_with(
            "in 1 cell, so undecided: every path needs two replicates in blocks that the best one shares\n"
        ),
        "{text}"
    );
    let alone = cell_of(&[(0, &[100, 101])]);
    assert_eq!(only_cell(&alone, &iops).decision(), Decision::Alone);
    assert!(winners(&study(2), &alone, &iops).contains("A alone"));
    assert!(winners(&study(2), &[], &iops).contains("the store holds no trial"));
    let lacking = winners(&study(2), &alone, &question(Metric::InterruptsPerIo));
    assert!(lacking.contains("no competing trial measured interrupts"), "{lacking}");
    assert!(lacking.contains("2 trials are left out: 2 without this metric"), "{lacking}");
    let mut refuted = single.clone();
    refuted.iter_mut().for_each(|trial| measurement(trial).verdict.kind = VerdictKind::Refuted);
    assert_eq!(only_cell(&refuted, &iops).decision(), Decision::Empty);
    for text in [lacking, winners(&study(2), &refuted, &iops)] {
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }
}

#[test]
fn no_cpu_time_is_no_rate_per_cpu() {
    let mut trials = cell_of(&[(0, &[100, 101]), (1, &[300, 301])]);
    trials.iter_mut().for_each(|trial| measurement(trial).cpu_percent = 0.0);
    assert_eq!(only_map(&trials, &question(Metric::IopsPerCpu)).left_out().unmeasured, 4);
}

#[test]
fn one_axis_cannot_be_both() {
    let error = WinnerQuestion::new(Metric::Iops, Axis::Bs, Axis::Bs).unwrap_err().to_string();
    assert_eq!(error, "`bs` cannot be both axes of a winner map: name two of rw, bs, iodepth, numjobs");
    for metric in Metric::ALL {
        assert_eq!(metric.as_str().parse(), Ok(metric));
    }
    assert!("io_per_joule".parse::<Metric>().unwrap_err().to_string().contains("latency_p99.9"));
    for axis in Axis::ALL {
        assert_eq!(axis.as_str().parse(), Ok(axis));
    }
}

#[test]
fn the_grid_names_winners_and_equal_paths() {
    let text = winners(&study(300), &known_store(), &question(Metric::Iops));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0],
        "IOPS (I/Os per second), more is better: rw randread, numjobs 1, 10s measured, generator native"
    );
    let cells = |line: &str| -> Vec<String> {
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
    };
    assert_eq!(cells(lines[1]), ["bs", "iodepth 1", "iodepth 4", "iodepth 16", "iodepth 32", "iodepth 128"]);
    assert_eq!(cells(lines[2]), ["4k", "A +10.0 %", "B +10.0 %", "B +10.0 %", "C +10.0 %", "C +10.0 %"]);
    assert_eq!(cells(lines[5])[0], "128k");
    assert_eq!(cells(lines[5])[3], "A +10.0 %");
    assert_eq!(cells(lines[5])[1], "C = B = A");
    assert_eq!(lines[6..9], PATHS.iter().zip('A'..).map(|(p, c)| format!("  {c} {p}")).collect::<Vec<_>>());
    assert_eq!(cells(lines[9]), ["bs", "iodepth", "decision", "next", "lead", "95 % interval", "p"]);
    assert_eq!(cells(lines[10])[..6], ["4k", "1", "A wins", "C", "+10.0 %", "+8.3 % to +11.7 %"]);
    assert_eq!(cells(lines[25])[..6], ["128k", "1", "equal: C = B = A", "B", "+0.0 %", "-1.1 % to +1.1 %"]);
    assert!(!text.contains("undecided"), "{text}");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains(
            "`wins`: differs from every other path (p < 0.05 by the t-test within blocks, after Holm over \
             all cells); its lead is over the next path. `=`: equal, each path that does not differ in this \
             way from the best is within 5 % of it (p < 0.05 by two one-sided tests of the same kind)."
        ),
        "{words}"
    );
}

#[test]
fn an_undecided_cell_says_how_far_its_paths_may_differ_and_what_would_decide() {
    let trials = cell_of(&[(0, &[1_090, 970, 1_060, 1_000, 1_042]), (1, &[976, 1_036, 952, 1_018, 1_018])]);
    let iops = question(Metric::Iops);
    let (study, words) = (study(10), |text: String| text.split_whitespace().collect::<Vec<_>>().join(" "));
    let text = words(winners(&study, &trials, &iops));
    assert!(text.contains("A ? B"), "{text}");
    let known = "bs 4k, iodepth 1, undecided: A ? B; the difference lies between -6 % and +14 %; about 44 \
                 more replicates would decide";
    assert!(text.contains(known), "{text}");
    // Of more than two, the pair that would take the most.
    let three = [trials.clone(), cell_of(&[(2, &[1_300, 300, 1_500, 400, 1_500])])].concat();
    let text = words(winners(&study, &three, &iops));
    assert!(text.contains("undecided: A ? B ? C; A over"), "{text}");
    // A wider tolerance makes them equal.
    let wide = WinnerQuestion { tolerance: 0.5, ..iops };
    assert!(words(winners(&study, &trials, &wide)).contains("equal: A = B"));
}

#[test]
fn an_emulated_store_is_asked_for_counts_alone() {
    let emulated = StudyRecord { emulated: Some("QEMU TCG".into()), ..study(14) };
    for metric in Metric::ALL {
        assert_eq!(question(metric).admits(&study(14)), Ok(()));
        let words = [
            "iops",
            "mb_per_s",
            "latency_mean",
            "latency_p50",
            "latency_p95",
            "latency_p99",
            "latency_p99.9",
        ];
        let time = words.contains(&metric.as_str())
            || ["cpu_percent", "iops_per_cpu", "mb_per_cpu"].contains(&metric.as_str());
        let others = ["corunner_per_s", "corunner_loss_per_io", "figure", "figure_per_cpu"];
        let time = time || others.contains(&metric.as_str());
        let time = time || metric.is_energy();
        assert_eq!(question(metric).admits(&emulated).is_err(), time, "{metric}");
    }
    assert_eq!(default_metric(&study(14), &[], Admission::default()), Metric::Iops);
    let mut trials = cell_of(&[(0, &[100, 101]), (1, &[300, 301])]);
    let metric = |trials: &[Trial]| default_metric(&emulated, trials, Admission::default());
    assert_eq!(metric(&trials), Metric::ContextSwitchesPerIo);
    for one in trials.iter_mut().map(measurement) {
        one.evidence.reads = 1;
        one.costs = Some(CostProfile::new(CostSource::Exact, vec![CostKind::Instructions], Vec::new()));
    }
    assert_eq!(metric(&trials), Metric::Instructions(None));
    let error = question(Metric::LatencyMean).admits(&emulated).unwrap_err().to_string();
    assert!(
        error.starts_with("`latency_mean` is measured by a clock, and under QEMU TCG times mean nothing"),
        "{error}"
    );
    assert!(
        error.contains("context_switches_per_io, interrupts_per_io") && error.contains("instructions_per_io")
    );
}

#[test]
fn where_nobody_wins_a_path_is_worse_only_after_correction_for_all_pairs() {
    // Of the second and the third p is about 0.02 before any correction.
    let rates: [(usize, &[u64]); 3] = [
        (0, &[1002, 998, 1001, 999, 1000]),
        (1, &[1001, 999, 1003, 997, 999]),
        (2, &[997, 996, 998, 999, 996]),
    ];
    let trials = cell_of(&rates);
    let cell = only_cell(&trials, &question(Metric::Iops));
    let (p, raw) = (cell.ranking[2].p.unwrap(), cell.ranking[2].contrast.unwrap().p);
    assert!(cell.decision() != Decision::Wins && (0.017..0.05).contains(&raw), "{raw} {cell:?}");
    assert!((p - 3.0 * raw).abs() < 1e-12 && !cell.ranking[2].differs(), "{p} {raw}");
    let papers = WinnerQuestion { method: Method::Student, ..question(Metric::Iops) };
    let place = &only_cell(&trials, &papers).ranking[2];
    assert_eq!(place.p, Some(place.contrast.unwrap().p), "the papers' rule corrects nothing");
    // Where one wins, all others differ from it by the cell's own correction.
    let won = only_cell(&cell_of(&[(0, &[2000, 2001, 1999]), rates[1], rates[2]]), &question(Metric::Iops));
    let uncorrected = |place: &RankedPath| place.p == place.contrast.map(|contrast| contrast.p);
    assert!(won.decision() == Decision::Wins && won.ranking[1..].iter().all(uncorrected), "{won:?}");
}

proptest! {
    #[test]
    fn one_word_excludes_the_others_and_more_spread_makes_nothing_equal(
        noise in proptest::array::uniform3(proptest::array::uniform5(-3.0..3.0)),
        means in proptest::array::uniform3(97.0..103.0),
        spread in 1.0..10.0,
    ) {
        let cell = |spread: f64| {
            let sample = |(place, (own, mean)): (usize, (&[f64; 5], f64))| {
                let middle = own.iter().sum::<f64>() / 5.0;
                let values = own.iter().map(|one| mean + spread * (one - middle) / 3.0);
                (path(place), (0..).zip(values).collect())
            };
            rank(noise.iter().zip(means).enumerate().map(sample).collect(), &question(Metric::Iops), 1)
        };
        let narrow = cell(1.0);
        let alike: Vec<_> = narrow.ranking[1..].iter().filter(|place| !place.differs()).collect();
        let is_near = alike.iter().all(|place| place.contrast.unwrap().equal.unwrap() < LEVEL);
        match narrow.decision() {
            Decision::Wins => prop_assert!(alike.is_empty() && narrow.best().len() == 1),
            Decision::Equal => prop_assert!(!alike.is_empty() && is_near && narrow.open().is_none()),
            Decision::Undecided => {
                prop_assert!(!alike.is_empty() && !is_near && narrow.open().is_some());
                prop_assert_ne!(cell(spread).decision(), Decision::Equal);
            }
            other => prop_assert!(false, "{:?}", other),
        }
    }
}
