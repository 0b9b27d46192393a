//! Simulates how often studies that add blocks until decisions are made name a false winner.
//! `docs/statistics.md` has the figures of the large simulation.

mod simulated;

use iopj_analysis::metric::Metric;
use iopj_analysis::sequential::{Examined, decisions};
use iopj_analysis::stats::LEVEL;
use iopj_analysis::winner::Decision;
use iopj_core::IoPath;
use iopj_record::Sequential;
use rand_distr::{Distribution, LogNormal, Normal, StudentT};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use simulated::{Z_999, error, paths};
use std::collections::BTreeMap;

const PAGE: &str = include_str!("../../../docs/statistics.md");
const SEQUENTIAL: Sequential = Sequential { min: 5, max: 30, until: 0.02 };

/// The scatter of trials around their path's mean, as a share of it.
#[derive(Clone, Copy, Debug)]
enum Noise {
    /// Normal, of this standard deviation.
    Normal(f64),
    /// Student's t with three degrees of freedom, times this.
    Heavy(f64),
    /// Slower by a log-normal share, 2 % in the median and 9 % or more in one trial of twenty.
    Skewed,
}

impl Noise {
    fn draw(self, rng: &mut Xoshiro256PlusPlus) -> f64 {
        match self {
            Noise::Normal(deviation) => 1.0 + Normal::new(0.0, deviation).unwrap().sample(rng),
            Noise::Heavy(scale) => (1.0 + scale * StudentT::new(3.0).unwrap().sample(rng)).max(0.01),
            Noise::Skewed => 1.0 / (1.0 + LogNormal::new(-4.0, 1.0).unwrap().sample(rng)),
        }
    }
}

/// Studies of one kind.
#[derive(Clone, Copy, Debug)]
struct Kind<'a> {
    /// The mean of each path, the same in all workloads.
    means: &'a [f64],
    noise: Noise,
    workloads: usize,
}

/// The state of a workload's decision, and its leaders.
type State = (Decision, Vec<IoPath>);

/// The outcomes of many studies.
#[derive(Debug, Default)]
struct Tally {
    studies: usize,
    /// Studies that named a false winner at some look, in some workload.
    false_winner: usize,
    /// Workloads that ended with the true winner, or as equivalent.
    winners: usize,
    equivalent: usize,
    /// Workloads that ended as equivalent although a leader is farther than that from the best.
    falsely_equivalent: usize,
    /// The blocks of each study.
    blocks: Vec<f64>,
    workloads: usize,
}

/// One study, block by block, as a run does it.
fn study(kind: &Kind<'_>, rng: &mut Xoshiro256PlusPlus, tally: &mut Tally) {
    let paths: Vec<IoPath> = paths().into_iter().take(kind.means.len()).collect();
    let best = kind.means.iter().copied().fold(0.0, f64::max);
    let mean = |path: &IoPath| kind.means[paths.iter().position(|other| other == path).unwrap()];
    let is_sole = kind.means.iter().filter(|mean| **mean == best).count() == 1;
    let mut samples: Vec<Examined> = vec![(Metric::Iops, BTreeMap::new()); kind.workloads];
    let (mut erred, mut block) = (false, 0);
    loop {
        // Blocks drift, the same for all paths.
        let drift = 1.0 + 0.05 * f64::from(block % 4);
        for (_, workload) in &mut samples {
            for path in &paths {
                workload
                    .entry(*path)
                    .or_default()
                    .push((block, 100_000.0 * mean(path) * drift * kind.noise.draw(rng)));
            }
        }
        block += 1;
        if block < SEQUENTIAL.min {
            continue;
        }
        let states = decisions(&samples, SEQUENTIAL.looks(), SEQUENTIAL.until);
        let is_false =
            |(state, leaders): &State| *state == Decision::Wins && !(is_sole && mean(&leaders[0]) == best);
        erred |= states.iter().any(is_false);
        if block < SEQUENTIAL.max && states.iter().any(|(state, _)| *state == Decision::Undecided) {
            continue;
        }
        let is_far =
            |leaders: &[IoPath]| leaders.iter().any(|path| best / mean(path) > 1.0 + SEQUENTIAL.until);
        let count = |what: &dyn Fn(&State) -> bool| states.iter().filter(|one| what(one)).count();
        tally.studies += 1;
        tally.false_winner += usize::from(erred);
        tally.winners += count(&|one| one.0 == Decision::Wins && !is_false(one));
        tally.equivalent += count(&|one| one.0 == Decision::Equal);
        tally.falsely_equivalent += count(&|one| one.0 == Decision::Equal && is_far(&one.1));
        tally.blocks.push(f64::from(block));
        tally.workloads += kind.workloads;
        return;
    }
}

fn simulate(kind: &Kind<'_>, studies: usize) -> Tally {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(2026 + kind.means.len() as u64);
    let mut tally = Tally::default();
    (0..studies).for_each(|_| study(kind, &mut rng, &mut tally));
    tally
}

#[track_caller]
fn holds_the_level(kind: &Kind<'_>, tally: &Tally) {
    let rate = tally.false_winner as f64 / tally.studies as f64;
    assert!(rate <= LEVEL, "{kind:?}: {rate} of {} studies named a false winner", tally.studies);
    assert!(tally.falsely_equivalent as f64 <= LEVEL * tally.studies as f64, "{kind:?}: {tally:?}");
}

/// The case in which a test at 5 % after each block errs in a fifth of the studies.
#[test]
fn few_studies_name_a_false_winner() {
    for noise in [Noise::Normal(0.03), Noise::Heavy(0.02)] {
        let kind = Kind { means: &[1.0, 1.0, 0.8], noise, workloads: 1 };
        let tally = simulate(&kind, 1_000);
        eprintln!("{tally:?}");
        holds_the_level(&kind, &tally);
    }
    let kind = Kind { means: &[1.0, 1.0, 1.05], noise: Noise::Normal(0.01), workloads: 2 };
    let tally = simulate(&kind, 50);
    assert_eq!((tally.winners, tally.false_winner), (100, 0));
}

/// Studies of a figure of the page.
const STUDIES: usize = 3_000;

/// A name on the page, and the means of eight paths; of three, the first three.
type Means = (&'static str, [f64; 8]);

const EQUAL: Means = ("all equal", [1.0; 8]);
const TWO: Means = ("two equal ahead", [1.0, 1.0, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9]);
const ONE: Means = ("one ahead by 3 %", [1.03, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]);

const NOISES: [(&str, Noise); 4] = [
    ("normal 1 %", Noise::Normal(0.01)),
    ("normal 3 %", Noise::Normal(0.03)),
    ("heavy tails", Noise::Heavy(0.01)),
    ("skewed", Noise::Skewed),
];

/// A row of the page's table, from this many studies of three paths and of eight, and how far off the mean
/// numbers of blocks may be in these studies and in the page's.
fn row((name, means): Means, (noise_name, noise): (&str, Noise), studies: usize) -> (String, [f64; 2]) {
    let rate = |hits: usize, of: usize| format!("{:.1} %", 100.0 * hits as f64 / of as f64);
    let cells: [(String, f64); 2] = [3, 8].map(|paths| {
        let kind = Kind { means: &means[..paths], noise, workloads: 6 };
        let tally = simulate(&kind, studies);
        let Tally { studies: count, false_winner, winners, equivalent, .. } = tally;
        eprintln!("{name}, {noise_name}, {paths} paths: {count} {false_winner} {winners} {equivalent}");
        holds_the_level(&kind, &tally);
        let blocks = tally.blocks.iter().sum::<f64>() / count as f64;
        let squares: f64 = tally.blocks.iter().map(|one| (one - blocks).powi(2)).sum();
        let variance = squares / (count - 1) as f64;
        let bound = Z_999 * (variance / studies as f64 + variance / STUDIES as f64).sqrt();
        let (winner, equivalent) = (rate(winners, tally.workloads), rate(equivalent, tally.workloads));
        (format!("{} | {winner} | {equivalent} | {blocks:.1}", rate(false_winner, count)), bound)
    });
    let [(three, of_three), (eight, of_eight)] = cells;
    (format!("| {name}, {noise_name} | {three} | {eight} |"), [of_three, of_eight])
}

/// The short sibling of the soak: one row of the page, in fewer studies.
#[test]
fn a_row_of_false_winners_agrees_with_the_page() {
    agree(&row(TWO, NOISES[0], 60), 60);
}

#[test]
#[ignore = "a soak: 24 kinds of 3,000 studies"]
fn soak_the_false_winners_of_sequential_studies_are_stated() {
    let kinds = [EQUAL, TWO, ONE].into_iter().flat_map(|means| NOISES.map(|noise| (means, noise)));
    let rows: Vec<(String, [f64; 2])> = kinds.map(|(means, noise)| row(means, noise, STUDIES)).collect();
    rows.iter().for_each(|(row, _)| eprintln!("{row}"));
    rows.iter().for_each(|row| agree(row, STUDIES));
}

/// Asserts that the row of this many studies agrees with the page's. Both are simulated, so their variances
/// add. Shares of workloads vary less than shares of studies; mean numbers of blocks have bounds of their
/// own, from the blocks seen.
#[track_caller]
fn agree((row, blocks): &(String, [f64; 2]), studies: usize) {
    let name = row.split('|').nth(1).unwrap();
    let line = PAGE.lines().find(|line| line.starts_with(&format!("|{name}|")));
    let line = line.unwrap_or_else(|| panic!("the page lacks {row}"));
    let figures = |row: &str| -> Vec<f64> {
        let cells = row.trim_matches('|').split('|').skip(1);
        cells.map(|cell| cell.trim().trim_end_matches(" %").parse().unwrap()).collect()
    };
    let (stated, found) = (figures(line), figures(row));
    assert_eq!(stated.len(), found.len(), "{line}");
    for (at, (stated, found)) in stated.into_iter().zip(found).enumerate() {
        let least = 1.0 / studies as f64;
        let likely = (stated / 100.0).clamp(least, 1.0 - least);
        // The last of each four is the mean number of blocks. Figures are rounded to a tenth, on both sides.
        let bound = match at % 4 {
            3 => blocks[at / 4],
            _ => 100.0 * error(likely, STUDIES).hypot(error(likely, studies)),
        } + 0.15;
        assert!((stated - found).abs() <= bound, "the page says {line}, the simulation {row}");
    }
}
