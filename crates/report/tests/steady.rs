//! Trials that were not steady are flagged with their figures; steady ones are not.

mod trials;

use iopj_core::evidence::SteadyState;
use iopj_core::{VerdictKind, Workload};
use iopj_report::analysis::Admission;
use iopj_report::analysis::steady::{Flag, Unsteady, far_off, is_unsteady, trend, unsteady};
use iopj_report::render::report;
use iopj_store::{Outcome, Slice, Trial};
use trials::{measurement, study, trial};

const PATH: &str = "io_uring/syscall/interrupt";

fn series(ios: &[u64]) -> Vec<Slice> {
    ios.iter().zip(1..).map(|(ios, slice)| Slice { end_ns: slice * 100_000_000, ios: *ios }).collect()
}

fn cell(iops: &[u64]) -> Vec<Trial> {
    iops.iter().zip(0..).map(|(iops, replicate)| trial(PATH, &Workload::default(), replicate, *iops)).collect()
}

#[test]
fn a_rising_rate_is_scipys_line() {
    // scipy.stats.linregress of the rates at the slices' middles (SciPy 1.17.1): slope 120.22556390977442 a second over two, p 1.533941118921485e-12
    let rising = [100, 103, 99, 104, 107, 105, 108, 110, 106, 112, 111, 115, 113, 118, 116, 117, 121, 119, 123, 122];
    let Some(Unsteady::Trend { from, to, p }) = trend(&series(&rising)) else { panic!("no trend") };
    let (mean, half) = (1114.5, 120.22556390977442);
    assert!((from - (mean - half)).abs() < 1e-6 && (to - (mean + half)).abs() < 1e-6, "{from} {to}");
    assert!((p / 1.533941118921485e-12 - 1.0).abs() < 1e-9);
    let falling: Vec<u64> = rising.into_iter().rev().collect();
    let Some(Unsteady::Trend { from, to, .. }) = trend(&series(&falling)) else { panic!("no trend") };
    assert!((from - (mean + half)).abs() < 1e-6 && (to - (mean - half)).abs() < 1e-6, "{from} {to}");
}

#[test]
fn no_rate_falls_by_125_percent() {
    let words = |ios: &[u64]| trend(&series(ios)).map(|reason| reason.to_string()).unwrap_or_default();
    // The line falls by 127 % of the mean rate, and that is to 22 % of where it began (SciPy 1.17.1, linregress: 1633.94, 366.06).
    let falling = [157, 144, 132, 119, 106, 94, 81, 69, 56, 42];
    assert_eq!(words(&falling), "its rate fell from 1634 to 366 IOPS over the window (p < 0.01)");
    // A line that ends below zero ends at no I/O (4664.29, -1850.96, p 0.0067).
    let stopping = [900, 400, 200, 100, 50, 20, 10, 5, 2, 1, 0, 0];
    assert_eq!(words(&stopping), "its rate fell from 4664 to 0 IOPS over the window (p = 0.01)");
}

#[test]
fn small_or_uncertain_changes_are_no_trend() {
    // A significant rise of 7 %; a fall that noisy slices do not show; a steep one over too few slices; nothing to fit.
    assert_eq!(trend(&series(&[1000, 1007, 1014, 1021, 1028, 1035, 1042, 1049, 1056, 1063])), None);
    assert_eq!(trend(&series(&[100, 60, 85, 110, 70, 95, 60, 105, 60, 80])), None);
    assert_eq!(trend(&series(&[900, 800, 700, 600, 500, 400, 300, 200, 100])), None);
    assert_eq!(trend(&series(&[100, 50])), None);
    assert_eq!(trend(&[]), None);
    assert_eq!(trend(&series(&[0; 10])), None);
}

#[test]
fn a_short_last_slice_weighs_little() {
    let mut slices = series(&[100; 10]);
    slices.push(Slice { end_ns: 1_000_100_000, ios: 1 });
    assert_eq!(trend(&slices), None);
}

#[test]
fn a_replicate_far_off_is_flagged_by_its_z() {
    // Median 102; deviations 2 1 0 1 2 48 0, their median 1.
    let flags = far_off(&[100.0, 101.0, 102.0, 103.0, 104.0, 150.0, 102.0]);
    let [(5, Unsteady::FarOff { iops: 150.0, median: 102.0, z })] = flags[..] else { panic!("{flags:?}") };
    assert!((z - 0.6745 * 48.0).abs() < 1e-9, "{z}");
    // Three replicates tell nothing; equal ones neither; one that differs among equal ones by the mean deviation.
    assert_eq!(far_off(&[100.0, 100.0, 900.0]), []);
    assert_eq!(far_off(&[100.0; 5]), []);
    assert_eq!(far_off(&[100.0, 100.0, 100.0, 100.0, 100.0, 100.0, 100.0, 110.0]).len(), 1);
}

#[test]
fn flags_name_their_trials_and_refuted_ones_are_no_replicates() {
    let mut trials = cell(&[1000, 1010, 990, 1005, 5000, 1002]);
    measurement(&mut trials[0]).series = series(&[80, 85, 90, 95, 100, 105, 110, 115, 120, 125]);
    let [first, second] = unsteady(&trials)[..] else { panic!() };
    assert!(matches!(first, Flag { trial: 0, reason: Unsteady::Trend { .. } }));
    assert!(matches!(second, Flag { trial: 4, reason: Unsteady::FarOff { .. } }));
    assert_eq!(first.reason.to_string(), "its rate rose from 775 to 1275 IOPS over the window (p < 0.01)");
    assert!(second.reason.to_string().starts_with("its 5000 IOPS are far from the 1004 of the other replicates"));
    measurement(&mut trials[4]).verdict.kind = VerdictKind::Refuted;
    trials[0].outcome = Outcome::Failed("it broke".into());
    assert_eq!(unsteady(&trials), []);
}

#[test]
fn cells_are_kept_apart() {
    let mut trials = cell(&[1000, 1010, 990, 1005]);
    trials.push(trial("io_uring/syscall/poll", &Workload::default(), 0, 5000));
    trials.push(trial(PATH, &Workload { bs: 8192, ..Workload::default() }, 0, 5000));
    assert_eq!(unsteady(&trials), []);
}

#[test]
fn a_ramp_that_did_not_settle_makes_its_trial_unsteady() {
    let state = SteadyState {
        ramp_ns: 10_000_000_000,
        duration_ns: 1_000_000_000,
        limit: 0.1,
        change: Some(-0.23),
        attained: false,
    };
    let mut trials = cell(&[1000, 1010]);
    assert!(!is_unsteady(measurement(&mut trials[1])));
    measurement(&mut trials[0]).evidence.steadystate = Some(SteadyState { attained: true, ..state });
    measurement(&mut trials[1]).evidence.steadystate = Some(state);
    assert!(!is_unsteady(measurement(&mut trials[0])) && is_unsteady(measurement(&mut trials[1])));
    let [flag] = unsteady(&trials)[..] else { panic!() };
    assert_eq!((flag.trial, flag.reason), (1, Unsteady::Ramp(state)));
    let words =
        "its rate still fell by 23 % of its mean in 1.0 s after a ramp of 10.0 s, its longest; the rule allows 10 %";
    assert_eq!(flag.reason.to_string(), words);
    let idle = Unsteady::Ramp(SteadyState { change: None, ..state });
    assert_eq!(idle.to_string(), "its rate over 1.0 s could not be told after a ramp of 10.0 s, its longest");
}

#[test]
fn results_are_given_with_and_without_unsteady_trials() {
    let mut trials = cell(&[1000, 3000, 1000]);
    let other = "io_uring/syscall/poll";
    trials.extend((0..3).map(|replicate| trial(other, &Workload::default(), replicate, 1500)));
    let study = study(6);
    let text = |trials: &[Trial]| report(&study, trials, Admission::default());
    assert!(!text(&trials).contains("without"), "{}", text(&trials));
    let state = SteadyState { ramp_ns: 1, duration_ns: 1, limit: 0.1, change: Some(1.0), attained: false };
    measurement(&mut trials[1]).evidence.steadystate = Some(state);
    // Latencies of 1000, 333 and 1000 us against 667: the order of the paths turns.
    let words = text(&trials).replace("\n", " ").split_whitespace().collect::<Vec<_>>().join(" ");
    let cell = format!(
        "{PATH}, randread 4k iodepth 1 numjobs 1: 1 of 3 trials; 1,667 IOPS, 777.78 us with them, 1,000 IOPS, 1000.00 us without"
    );
    assert!(words.contains("without the trials whose rate changed:") && words.contains(&cell), "{words}");
    assert!(!words.contains("has the least mean latency"), "{words}");
    measurement(&mut trials[0]).latency.mean = 100_000.0;
    measurement(&mut trials[1]).latency.mean = 100_000.0;
    measurement(&mut trials[0]).evidence.steadystate = Some(state);
    let words = text(&trials).replace("\n", " ").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(&format!("{other} has the least mean latency without them, {PATH} with them")), "{words}");
    measurement(&mut trials[2]).evidence.steadystate = Some(state);
    let words = text(&trials).replace("\n", " ").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("3 of 3 trials; nothing is left without them"), "{words}");
}
