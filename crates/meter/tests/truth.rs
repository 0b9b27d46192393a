//! The whole method against known truth: random studies of a simulated machine, read by a logger with its own
//! clock.

mod simulate;

use iopj_meter::{AlignError, Alignment, Clock, Energy, IdlePower, IdleStretch, Trace, align};
use simulate::{Draw, Plan, SEARCH, Study};

const CASES: u64 = 1_000;
const BRIDGE_NS: u64 = 5_000_000_000;

/// The results of one study.
struct Outcome {
    offset_error_s: f64,
    /// Relative, without the gain's error.
    random_error: f64,
    random_covers: bool,
    common_covers: bool,
    combined_covers: bool,
    above_idle_covers: bool,
}

fn aligned(study: &Study) -> Alignment {
    align(&study.channel, 0, &study.log, &study.patterns, &SEARCH).unwrap()
}

fn offset_error_s(study: &Study, alignment: &Alignment) -> f64 {
    let middle_ns = study.trial.middle_ns();
    (alignment.offset_ns(middle_ns as i64) - study.offset_ns(middle_ns)) as f64 * 1e-9
}

fn outcome(study: &Study) -> Outcome {
    let alignment = aligned(study);
    let clock = Clock::Own(&alignment);
    let trace = Trace::new(&study.channel, 0, &study.log, clock, &study.changes_ns).unwrap();
    let energy = trace.energy(study.trial, BRIDGE_NS).unwrap();
    let above = above_idle(study, &trace, &energy);
    // The logger's values without any random error: the truth changed by the gain alone.
    let shown_j = study.truth_j * (1.0 + study.gain);
    let common = energy.common_interval().unwrap();
    Outcome {
        offset_error_s: offset_error_s(study, &alignment),
        random_error: (energy.joules - shown_j) / shown_j,
        random_covers: energy.random_interval().contains(shown_j),
        common_covers: (study.gain * study.truth_j).abs() <= 0.5 * (common.high - common.low),
        combined_covers: energy.interval().unwrap().contains(study.truth_j),
        above_idle_covers: above.interval().unwrap().contains(study.above_idle_j),
    }
}

fn above_idle(study: &Study, trace: &Trace, energy: &Energy) -> Energy {
    let stretches = study
        .idle
        .iter()
        .map(|window| IdleStretch { window: *window, energy: trace.energy(*window, BRIDGE_NS).unwrap() });
    let idle = IdlePower::fit(&stretches.collect::<Vec<_>>()).unwrap();
    idle.above(study.trial, energy).energy
}

/// Every case has its own seed, so the outcomes do not depend on the number of threads.
fn in_cases<T: Send>(cases: u64, run: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let share = |first: u64| (first..cases).step_by(threads as usize).map(&run).collect::<Vec<_>>();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|first| scope.spawn(move || share(first))).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    })
}

/// How many of these cases' intervals hold; asserted if the runner knows when load went on and off.
fn cover(first: u64, cases: u64, knows_load: bool) {
    let outcomes = in_cases(cases, |case| {
        let plan = Plan { plays: true, averages: case % 2 == 0, wait_s: 30.0 };
        let mut study = Study::new(&mut Draw::new(first + case), plan);
        if !knows_load {
            study.changes_ns.clear();
        }
        outcome(&study)
    });
    let share = |holds: &dyn Fn(&Outcome) -> bool| {
        outcomes.iter().filter(|outcome| holds(outcome)).count() as f64 / outcomes.len() as f64
    };
    let greatest = |error: &dyn Fn(&Outcome) -> f64| outcomes.iter().map(error).fold(0.0, f64::max);
    let covered = [
        share(&|outcome| outcome.random_covers),
        share(&|outcome| outcome.common_covers),
        share(&|outcome| outcome.combined_covers),
        share(&|outcome| outcome.above_idle_covers),
    ];
    let [random, common, combined, above_idle] = covered;
    eprintln!(
        "{cases} studies, load known: {knows_load}; offset {:.3} s and random error {:.3} % at worst; \
         covered: random {random:.4}, common {common:.4}, combined {combined:.4}, above idle {above_idle:.4}",
        greatest(&|outcome| outcome.offset_error_s.abs()),
        100.0 * greatest(&|outcome| outcome.random_error.abs()),
    );
    assert_eq!(outcomes.len() as u64, cases);
    if knows_load {
        assert!(share(&|outcome| outcome.random_error.abs() <= 0.005) >= 0.95);
        assert!(greatest(&|outcome| outcome.offset_error_s.abs()) <= 0.2);
        assert!(covered.iter().all(|share| (0.93..=0.97).contains(share)), "{covered:?}");
    }
}

#[test]
fn a_thousand_studies_hold_what_the_intervals_promise() {
    cover(0, CASES, true);
}

/// As docs/energy.md states.
#[test]
#[ignore = "a soak: ten thousand studies, twice"]
fn soak_ten_thousand_studies_hold_what_the_intervals_promise() {
    cover(10_000, 10 * CASES, true);
    cover(10_000, 10 * CASES, false);
}

#[test]
fn the_drift_of_hours_is_found() {
    for case in 0..4 {
        let study =
            Study::new(&mut Draw::new(case), Plan { plays: true, averages: case % 2 == 0, wait_s: 10_800.0 });
        let alignment = aligned(&study);
        assert!(
            (alignment.drift() - study.drift).abs() < 5e-6,
            "{} is not {}",
            alignment.drift(),
            study.drift
        );
        assert!((alignment.drift() - study.drift).abs() < 4.0 * alignment.drift_uncertainty());
        assert!(offset_error_s(&study, &alignment).abs() < 0.05);
        assert!(alignment.confidence().unwrap().correlation > 0.9);
    }
}

/// Half of the log holds one of the two patterns; the intervals must be as good as with both.
#[test]
fn a_log_of_one_pattern_is_aligned_as_well_as_its_uncertainty_says() {
    let deviations = in_cases(400, |case| {
        let plan = Plan { plays: true, averages: case % 2 == 0, wait_s: 1_000.0 };
        let mut study = Study::new(&mut Draw::new(20_000 + case), plan);
        let half = study.log.len() / 2;
        study.log = if case % 4 < 2 { study.log[..half].to_vec() } else { study.log.split_off(half) };
        let alignment = aligned(&study);
        assert_eq!((alignment.patterns(), alignment.drift()), (1, 0.0));
        let standard_s = alignment.uncertainty_ns(study.trial.middle_ns() as i64) * 1e-9;
        (offset_error_s(&study, &alignment) / standard_s).abs()
    });
    let within = deviations.iter().filter(|deviation| **deviation < 1.96).count();
    assert!(within >= 380 && deviations.iter().all(|deviation| *deviation < 4.0), "{within} of 400");
}

#[test]
fn logs_of_other_loads_are_refused() {
    let refused = in_cases(200, |case| {
        let study =
            Study::new(&mut Draw::new(case), Plan { plays: false, averages: case % 2 == 0, wait_s: 30.0 });
        let one = align(&study.channel, 0, &study.log, &study.patterns[..1], &SEARCH);
        let both = align(&study.channel, 0, &study.log, &study.patterns, &SEARCH);
        [one, both].map(|got| matches!(got, Err(AlignError::NotFound { .. } | AlignError::Ambiguous { .. })))
    });
    assert_eq!(refused, vec![[true, true]; 200]);
}
