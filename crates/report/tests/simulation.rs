//! How often the rules of `docs/statistics.md` err, simulated; the page's figures are held against the simulation.

use iopj_core::IoPath;
use iopj_report::analysis::metric::Metric;
use iopj_report::analysis::stats::{LEVEL, Method, holm};
use iopj_report::analysis::steady::far_off;
use iopj_report::analysis::winner::{Axis, Cell, Decision, Question, rank};
use rand_distr::{Distribution, Normal};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

const DRAWS: usize = 10_000;
const PAGE: &str = include_str!("../../../docs/statistics.md");
/// 99.9 % of a normal distribution lie within as many standard deviations.
const Z_999: f64 = 3.2905;

const PATHS: [&str; 9] = [
    "posix-sio/syscall/interrupt",
    "posix-sio/syscall/poll",
    "posix-sio/syscall/hybrid",
    "posix-aio/syscall/interrupt",
    "libaio/syscall/interrupt",
    "io_uring/syscall/interrupt",
    "io_uring/syscall/poll",
    "io_uring/sqpoll/interrupt",
    "io_uring/sqpoll/poll",
];

fn paths() -> Vec<IoPath> {
    PATHS.iter().map(|path| path.parse().unwrap()).collect()
}

fn question(method: Method) -> Question {
    Question { method, ..Question::new(Metric::Iops, Axis::Bs, Axis::Iodepth).unwrap() }
}

/// A cell of paths with these means and a standard deviation of 3 % of 100,000.
fn draw(rng: &mut Xoshiro256PlusPlus, means: &[(IoPath, f64)], replicates: u32, question: &Question) -> Cell {
    let sample = |mean: f64, rng: &mut Xoshiro256PlusPlus| {
        let normal = Normal::new(mean, 3_000.0).unwrap();
        (0..replicates).map(|replicate| (replicate, normal.sample(rng))).collect()
    };
    rank(means.iter().map(|(path, mean)| (*path, sample(*mean, rng))).collect(), question)
}

fn rate(hits: usize) -> f64 {
    hits as f64 / DRAWS as f64
}

/// What 99.9 % of simulations of an event of this probability stay within.
fn error(probability: f64) -> f64 {
    Z_999 * (probability * (1.0 - probability) / DRAWS as f64).sqrt()
}

/// Holds simulated rates against the page's row that begins with `name`. Both are
/// simulations: their errors add in squares.
#[track_caller]
fn page_says(name: &str, rates: &[f64]) {
    let printed = rates.iter().map(|rate| format!("{:.1} %", rate * 100.0)).collect::<Vec<_>>().join(" | ");
    let row = format!("| {name} | {printed} |");
    eprintln!("{row}");
    let line = PAGE.lines().find(|line| line.starts_with(&format!("| {name} |")));
    let line = line.unwrap_or_else(|| panic!("the page lacks {row}"));
    let cells = line.trim_matches('|').split('|').skip(1).map(|cell| cell.trim().trim_end_matches(" %").parse::<f64>());
    let stated: Vec<f64> = cells.map(|cell| cell.unwrap() / 100.0).collect();
    assert_eq!(stated.len(), rates.len(), "{line}");
    for (stated, rate) in stated.into_iter().zip(rates) {
        assert!(
            (stated - rate).abs() <= std::f64::consts::SQRT_2 * error(*rate) + 0.0005,
            "the page says {line}, the simulation {row}"
        );
    }
}

fn false_winners(paths: usize, replicates: u32, method: Method) -> f64 {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(paths as u64 * 100 + u64::from(replicates));
    let means: Vec<(IoPath, f64)> = self::paths().into_iter().take(paths).map(|path| (path, 100_000.0)).collect();
    let question = question(method);
    let won = |_: &usize| draw(&mut rng, &means, replicates, &question).decision() == Decision::Winner;
    rate((0..DRAWS).filter(won).count())
}

#[test]
fn two_equal_paths_have_a_false_winner_in_one_of_twenty_cells() {
    for replicates in [3, 5, 10] {
        for method in [Method::Student, Method::Paired] {
            let rate = false_winners(2, replicates, method);
            assert!((rate - LEVEL).abs() <= error(LEVEL), "{method:?}, {replicates} replicates: {rate}");
        }
    }
}

#[test]
fn more_equal_paths_have_fewer_false_winners() {
    for replicates in [3, 5, 10] {
        let rates = [2, 3, 5, 9].map(|paths| false_winners(paths, replicates, Method::Student));
        page_says(&format!("{replicates} replicates"), &rates);
        assert!(rates.iter().all(|rate| *rate <= LEVEL + error(LEVEL)), "{rates:?}");
    }
    page_says("Welch, 3 replicates", &[2, 3, 5, 9].map(|paths| false_winners(paths, 3, Method::Welch)));
}

#[test]
fn two_equal_paths_above_others_are_the_worst_case() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
    let means: Vec<(IoPath, f64)> =
        paths().into_iter().enumerate().map(|(i, path)| (path, if i < 2 { 100_000.0 } else { 80_000.0 })).collect();
    let question = question(Method::Student);
    let won = |_: &usize| draw(&mut rng, &means, 3, &question).decision() == Decision::Winner;
    let rate = rate((0..DRAWS).filter(won).count());
    assert!((rate - LEVEL).abs() <= error(LEVEL), "{rate}");
}

#[test]
fn holm_keeps_the_family_rate_of_a_map() {
    let question = question(Method::Student);
    let (mut plain, mut corrected) = (Vec::new(), Vec::new());
    for paths in [2, 3, 5, 9] {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(12 + paths as u64);
        let means: Vec<(IoPath, f64)> = self::paths().into_iter().take(paths).map(|path| (path, 100_000.0)).collect();
        let (mut any, mut any_after_holm) = (0, 0);
        for _ in 0..DRAWS {
            let p: Vec<f64> = (0..12).filter_map(|_| draw(&mut rng, &means, 3, &question).p).collect();
            assert_eq!(p.len(), 12);
            any += usize::from(p.iter().any(|p| *p <= LEVEL));
            any_after_holm += usize::from(holm(&p).iter().any(|p| *p <= LEVEL));
        }
        assert!(rate(any_after_holm) <= LEVEL + error(LEVEL), "{paths} paths: {}", rate(any_after_holm));
        plain.push(rate(any));
        corrected.push(rate(any_after_holm));
    }
    page_says("a false winner somewhere, plain", &plain);
    page_says("a false winner somewhere, Holm", &corrected);
}

#[test]
fn the_power_to_see_two_per_cent_is_stated() {
    for (name, method) in [("Student", Method::Student), ("Welch", Method::Welch), ("blocks", Method::Paired)] {
        let power = [3, 5, 10, 37].map(|replicates| {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(2000 + u64::from(replicates));
            let means: Vec<(IoPath, f64)> = paths().into_iter().zip([100_000.0, 102_000.0]).collect();
            let question = question(method);
            let seen = |_: &usize| {
                let cell = draw(&mut rng, &means, replicates, &question);
                cell.decision() == Decision::Winner && cell.ranking[0].path == means[1].0
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
