//! Simulates how often the rules of `docs/statistics.md` err, and compares the rates with the page's.

mod simulated;

use iopj_analysis::Admission;
use iopj_analysis::metric::Metric;
use iopj_analysis::score::{Answer, ScoreQuestion, score};
use iopj_analysis::stats::{LEVEL, Method};
use iopj_analysis::steady::far_off;
use iopj_analysis::winner::{Axis, Decision, MapCell, RankedPath, WinnerQuestion, correct, rank};
use iopj_core::{IoPath, Length, Verdict, VerdictKind, Workload};
use iopj_record::{Measurement, StudyRecord, Trial};
use rand_distr::{Distribution, Normal};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use simulated::{error, paths};

const DRAWS: usize = 10_000;
/// Draws of slow simulations in the gate; at full size they get as many draws as the rest.
const FEW_DRAWS: usize = 400;
const PAGE: &str = include_str!("../../../docs/statistics.md");

fn question(method: Method) -> WinnerQuestion {
    WinnerQuestion { method, ..WinnerQuestion::new(Metric::Iops, Axis::Bs, Axis::Iodepth).unwrap() }
}

/// A cell of paths with these means and a standard deviation of 3 % of 100,000.
fn draw(
    rng: &mut Xoshiro256PlusPlus,
    means: &[(IoPath, f64)],
    replicates: u32,
    question: &WinnerQuestion,
) -> MapCell {
    let sample = |mean: f64, rng: &mut Xoshiro256PlusPlus| {
        let normal = Normal::new(mean, 3_000.0).unwrap();
        (0..replicates).map(|replicate| (replicate, normal.sample(rng))).collect()
    };
    rank(means.iter().map(|(path, mean)| (*path, sample(*mean, rng))).collect(), question, 1)
}

fn rate(hits: usize) -> f64 {
    hits as f64 / DRAWS as f64
}

/// Compares simulated rates with the page's row that starts with `name`. Both are simulated, so their
/// variances add.
#[track_caller]
fn page_says(name: &str, rates: &[f64]) {
    page_says_of(name, rates, DRAWS);
}

/// The same with this many draws; the page's have [`DRAWS`].
#[track_caller]
fn page_says_of(name: &str, rates: &[f64], draws: usize) {
    let printed = rates.iter().map(|rate| format!("{:.1} %", rate * 100.0)).collect::<Vec<_>>().join(" | ");
    let row = format!("| {name} | {printed} |");
    eprintln!("{row}");
    let line = PAGE.lines().find(|line| line.starts_with(&format!("| {name} |")));
    let line = line.unwrap_or_else(|| panic!("the page lacks {row}"));
    let cells = line
        .trim_matches('|')
        .split('|')
        .skip(1)
        .map(|cell| cell.trim().trim_end_matches(" %").parse::<f64>());
    let stated: Vec<f64> = cells.map(|cell| cell.unwrap() / 100.0).collect();
    assert_eq!(stated.len(), rates.len(), "{line}");
    for (stated, rate) in stated.into_iter().zip(rates) {
        let likely = stated.max(1.0 / draws as f64);
        assert!(
            (stated - rate).abs() <= error(likely, DRAWS).hypot(error(likely, draws)) + 0.0005,
            "the page says {line}, the simulation {row}"
        );
    }
}

fn false_winners(paths: usize, replicates: u32, method: Method) -> f64 {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(paths as u64 * 100 + u64::from(replicates));
    let means: Vec<(IoPath, f64)> =
        simulated::paths().into_iter().take(paths).map(|path| (path, 100_000.0)).collect();
    let question = question(method);
    let won = |_: &usize| draw(&mut rng, &means, replicates, &question).decision() == Decision::Wins;
    rate((0..DRAWS).filter(won).count())
}

#[test]
fn two_equal_paths_have_a_false_winner_in_one_of_twenty_cells() {
    for replicates in [3, 5, 10] {
        for method in [Method::Student, Method::Paired] {
            let rate = false_winners(2, replicates, method);
            assert!(
                (rate - LEVEL).abs() <= error(LEVEL, DRAWS),
                "{method:?}, {replicates} replicates: {rate}"
            );
        }
    }
}

#[test]
fn more_equal_paths_have_fewer_false_winners() {
    for replicates in [3, 5, 10] {
        let rates = [2, 3, 5, 9].map(|paths| false_winners(paths, replicates, Method::Student));
        page_says(&format!("{replicates} replicates"), &rates);
        assert!(rates.iter().all(|rate| *rate <= LEVEL + error(LEVEL, DRAWS)), "{rates:?}");
    }
    page_says("Welch, 3 replicates", &[2, 3, 5, 9].map(|paths| false_winners(paths, 3, Method::Welch)));
}

#[test]
fn two_equal_paths_above_others_are_the_worst_case() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
    let means: Vec<(IoPath, f64)> = paths()
        .into_iter()
        .enumerate()
        .map(|(i, path)| (path, if i < 2 { 100_000.0 } else { 80_000.0 }))
        .collect();
    let question = question(Method::Student);
    let won = |_: &usize| draw(&mut rng, &means, 3, &question).decision() == Decision::Wins;
    let rate = rate((0..DRAWS).filter(won).count());
    assert!((rate - LEVEL).abs() <= error(LEVEL, DRAWS), "{rate}");
}

/// Maps of this many workloads whose paths are all equal: the share with a cell that errs.
fn false_maps(
    (paths, workloads): (usize, usize),
    replicates: u32,
    (method, metric): (Method, Metric),
    draws: usize,
    errs: fn(&MapCell) -> bool,
) -> f64 {
    let mut rng =
        Xoshiro256PlusPlus::seed_from_u64((paths * 1000 + workloads * 10) as u64 + u64::from(replicates));
    let means: Vec<(IoPath, f64)> =
        simulated::paths().into_iter().take(paths).map(|path| (path, 100_000.0)).collect();
    let question = WinnerQuestion { metric, ..question(method) };
    let is_false = |_: &usize| {
        let mut cells: Vec<MapCell> = (0..workloads)
            .map(|_| {
                // A block's drift is the machine's: the same for all paths, and as large as the noise. The
                // papers' rule, which has no blocks, is simulated without drift, because a drift hides all
                // differences from it, false ones too.
                let shared = if method == Method::Paired { 1.0 } else { 0.0 };
                let drift: Vec<f64> =
                    noise(&mut rng, replicates).into_iter().map(|one| shared * one).collect();
                let sample = |rng: &mut Xoshiro256PlusPlus, mean: f64| {
                    let own = noise(rng, replicates);
                    (0..)
                        .zip(own.iter().zip(&drift))
                        .map(|(block, (own, drift))| (block, mean + own + drift))
                        .collect()
                };
                rank(
                    means.iter().map(|(path, mean)| (*path, sample(&mut rng, *mean))).collect(),
                    &question,
                    workloads,
                )
            })
            .collect();
        if method != Method::Student {
            correct(cells.iter_mut());
        }
        cells.iter().any(errs)
    };
    (0..draws).filter(is_false).count() as f64 / draws as f64
}

fn names_a_winner(cell: &MapCell) -> bool {
    cell.decision() == Decision::Wins
}

fn calls_a_path_worse(cell: &MapCell) -> bool {
    cell.ranking.iter().any(RankedPath::differs)
}

fn noise(rng: &mut Xoshiro256PlusPlus, replicates: u32) -> Vec<f64> {
    let normal = Normal::new(0.0, 3_000.0).unwrap();
    (0..replicates).map(|_| normal.sample(rng)).collect()
}

/// Paths by workloads of the maps that are simulated.
const MAPS: [(usize, usize); 5] = [(2, 1), (2, 12), (3, 12), (5, 12), (9, 40)];

/// Asserts that the default map errs in at most 5 % over the family, and that the page agrees with the
/// simulation.
fn simulate_maps(draws: usize) {
    for (name, replicates, metric) in [
        ("blocks, 3 replicates", 3, Metric::Iops),
        ("blocks, 5 replicates", 5, Metric::Iops),
        ("blocks, 10 replicates", 10, Metric::Iops),
        ("percentiles, 5 replicates", 5, Metric::LatencyP99),
        ("percentiles, 12 replicates", 12, Metric::LatencyP99),
    ] {
        let rates = MAPS.map(|map| {
            let rate = false_maps(map, replicates, (Method::Paired, metric), draws, names_a_winner);
            assert!(rate <= LEVEL + error(LEVEL, draws), "{name}, {map:?}: {rate}");
            rate
        });
        page_says_of(name, &rates, draws);
    }
    let papers = (Method::Student, Metric::Iops);
    page_says_of(
        "the papers' rule, 5 replicates, no drift",
        &MAPS.map(|map| false_maps(map, 5, papers, draws, names_a_winner)),
        draws,
    );
}

#[test]
fn the_default_map_names_a_false_winner_anywhere_in_one_of_twenty_stores_at_most() {
    simulate_maps(FEW_DRAWS);
}

/// Asserts that a store calls an equal path worse in at most 5 %, and that the page agrees.
fn simulate_exclusions(draws: usize) {
    let how = (Method::Paired, Metric::Iops);
    let rates = MAPS.map(|map| {
        let rate = false_maps(map, 5, how, draws, calls_a_path_worse);
        assert!(rate <= LEVEL + error(LEVEL, draws), "{map:?}: {rate}");
        rate
    });
    page_says_of("a path called worse, 5 replicates", &rates, draws);
}

#[test]
fn few_stores_of_equal_paths_call_one_worse() {
    simulate_exclusions(FEW_DRAWS);
}

#[test]
#[ignore = "at size: minutes, and only in a release build"]
fn paths_called_worse_at_size() {
    simulate_exclusions(DRAWS);
}

#[test]
#[ignore = "at size: minutes, and only in a release build"]
fn the_default_map_at_size() {
    simulate_maps(DRAWS);
}

#[test]
fn the_power_to_see_two_per_cent_is_stated() {
    for (name, method) in [("Student", Method::Student), ("Welch", Method::Welch), ("blocks", Method::Paired)]
    {
        let power = [3, 5, 10, 37].map(|replicates| {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(2000 + u64::from(replicates));
            let means: Vec<(IoPath, f64)> = paths().into_iter().zip([100_000.0, 102_000.0]).collect();
            let question = question(method);
            let seen = |_: &usize| {
                let cell = draw(&mut rng, &means, replicates, &question);
                cell.decision() == Decision::Wins && cell.ranking[0].path == means[1].0
            };
            rate((0..DRAWS).filter(seen).count())
        });
        page_says(name, &power);
    }
}

#[test]
fn steady_cells_with_a_flag_are_stated() {
    let normal = Normal::new(100_000.0, 3_000.0).unwrap();
    let flagged = [4, 5, 10].map(|replicates| {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(replicates);
        let flagged = |_: &usize| {
            let iops: Vec<f64> = (0..replicates).map(|_| normal.sample(&mut rng)).collect();
            !far_off(&iops).is_empty()
        };
        rate((0..DRAWS).filter(flagged).count())
    });
    page_says("cells with a flag", &flagged);
}

/// The static paths of each cell that is scored.
const STATICS: usize = 5;

/// The trials of `auto` and of the static paths, in so many cells and blocks.
fn scored_trials(cells: u32, blocks: u32) -> Vec<Trial> {
    let auto = std::iter::once("auto".parse().unwrap());
    let paths: Vec<IoPath> = auto.chain(paths().into_iter().take(STATICS)).collect();
    let measurement = Measurement {
        window_ns: 1_000_000_000,
        ios: 1000,
        verdict: Verdict { kind: VerdictKind::Verified, reasons: Vec::new() },
        ..Measurement::default()
    };
    let trial = |(cell, block, path): (u32, u32, &IoPath)| {
        let length = Length::Runtime(std::time::Duration::from_secs(1));
        let workload = Workload { iodepth: cell + 1, length, ..Workload::default() };
        Trial { replicate: block, ..Trial::new(*path, workload, measurement.clone().into()) }
    };
    let all = (0..cells).flat_map(|cell| (0..blocks).map(move |block| (cell, block)));
    all.flat_map(|(cell, block)| paths.iter().map(move |path| (cell, block, path))).map(trial).collect()
}

/// The answers of stores whose static paths are all equal, and whose `auto` reaches this share of them. Each
/// block has its own drift, as large as the noise, which is this share of the mean. With `same`, the blocks
/// that choose are those that test.
fn answers(
    share: f64,
    noise: f64,
    (cells, blocks): (u32, u32),
    same: bool,
    draws: usize,
) -> Vec<Vec<Answer>> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(u64::from(cells * 1000 + blocks));
    let normal = Normal::new(0.0, noise).unwrap();
    let study = StudyRecord::default();
    let aim = |_: &iopj_core::PolicyName| Metric::LatencyMean;
    let admission = Admission::default();
    let question = ScoreQuestion { margin: 0.97, level: 0.95, frozen: true, admission, aim: &aim };
    let mut trials = scored_trials(cells, blocks);
    let per_block = STATICS + 1;
    let mut draw = || {
        for block in 0..trials.len() / per_block {
            let drift = normal.sample(&mut rng);
            for at in block * per_block..(block + 1) * per_block {
                let mean = if trials[at].path.auto().is_some() { 20_000.0 / share } else { 20_000.0 };
                let own = mean * (1.0 + drift + normal.sample(&mut rng));
                let is_repeated = same && trials[at].replicate % 2 == 1;
                let before =
                    |trials: &[Trial]| trials[at - per_block].outcome.measurement().unwrap().latency.mean;
                let mean = if is_repeated { before(&trials) } else { own };
                trials[at].outcome.measurement_mut().unwrap().latency.mean = mean;
            }
        }
        score(&study, &trials, &question).unwrap().answers().cloned().collect()
    };
    (0..draws).map(|_| draw()).collect()
}

/// Asserts that a store calls an `auto` at the margin one that holds, or fails, in at most 5 %, and that the
/// page agrees; also with what is said of one that is as good as the best.
fn simulate_scores(draws: usize) {
    const SHAPES: [(u32, u32); 4] = [(1, 8), (1, 16), (4, 8), (4, 16)];
    let share = |answers: &[Vec<Answer>], answer: &Answer| {
        answers.iter().filter(|store| store.contains(answer)).count() as f64 / draws as f64
    };
    let margin = SHAPES.map(|shape| answers(0.97, 0.01, shape, false, draws));
    for (name, answer) in
        [("at the margin, said to hold", Answer::Holds), ("at the margin, said to fail", Answer::Fails)]
    {
        let rates = margin.each_ref().map(|answers| share(answers, &answer));
        assert!(rates.iter().all(|rate| *rate <= LEVEL + error(LEVEL, draws)), "{name}: {rates:?}");
        page_says_of(name, &rates, draws);
    }
    let same = SHAPES.map(|shape| share(&answers(0.97, 0.01, shape, true, draws), &Answer::Fails));
    page_says_of("at the margin, said to fail, if the same blocks chose", &same, draws);
    for noise in [0.01, 0.03] {
        let held = SHAPES.map(|shape| {
            let all = answers(1.0, noise, shape, false, draws);
            let held = all.iter().flatten().filter(|answer| **answer == Answer::Holds).count();
            held as f64 / all.iter().flatten().count() as f64
        });
        page_says_of(
            &format!("as good as the best, cells that hold, noise {:.0} %", 100.0 * noise),
            &held,
            draws,
        );
    }
}

#[test]
fn few_scores_err_and_the_power_is_stated() {
    simulate_scores(FEW_DRAWS / 4);
}

#[test]
#[ignore = "at size: minutes, and only in a release build"]
fn scores_at_size() {
    simulate_scores(DRAWS);
}
