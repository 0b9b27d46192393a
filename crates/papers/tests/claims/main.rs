//! Claims as a whole, and those of `poll22`, on constructed stores: each where it holds, does not, and is
//! undecided.

mod bypass;
mod costs;
mod energy;
mod fabric;
mod iface23;
mod question;

use iopj_analysis::admission::Admission;
use iopj_analysis::stats::{Method, t_test};
use iopj_core::{Rw, VerdictKind, Workload};
use iopj_papers::claims::*;
use iopj_papers::published::COMPLETION_MODES;
use iopj_record::Trial;
use iopj_record::testing::cells::{Measured, cell, judge, workload};
use iopj_record::{Generator, Outcome};
use std::collections::BTreeSet;

/// Spread of five replicates that differ by about 1 %.
pub(crate) const QUIET: [f64; 5] = [-0.01, 0.005, 0.0, 0.01, -0.005];
/// Spread of five replicates that hides a difference of some 10 %.
pub(crate) const NOISY: [f64; 5] = [-0.4, 0.3, 0.0, 0.4, -0.3];

pub(crate) fn decided(trials: &[Trial], cores: u32, id: &str) -> Claim {
    decide(trials, &ClaimContext { cores, emulated: false, ..ClaimContext::default() })
        .into_iter()
        .find(|claim| claim.id == id)
        .unwrap()
}

fn reads(numjobs: u32) -> Workload {
    workload(Rw::Randread, numjobs)
}

fn table_1(spread: &[f64], worsen: f64) -> Vec<Trial> {
    let row = |row: &iopj_papers::published::PublishedMode| {
        let worsen = if row.path.ends_with("hybrid") { worsen } else { 1.0 };
        let (mean_us, iops) = (row.latency_us * worsen, row.iops / worsen);
        cell(row.path, &reads(row.numjobs), Measured { mean_us, iops, ..Measured::default() }, spread)
    };
    COMPLETION_MODES.iter().flat_map(row).collect()
}

#[test]
fn poll22_1_holds_on_the_papers_own_figures() {
    let claim = decided(&table_1(&QUIET, 1.0), 4, "poll22-1");
    assert_eq!((claim.answer, claim.run, claim.parts.len()), (Answer::Holds, None, 8));
    let part = &claim.parts[0];
    assert_eq!(part.text, "mean latency: posix-sio/syscall/poll less than posix-sio/syscall/interrupt");
    assert_eq!(part.at, "randread 4k iodepth 1 numjobs 1");
    assert_eq!((part.figures[0].published, part.figures[1].published), (Some(8.1), Some(10.1)));
    assert!((part.figures[0].mean.unwrap() - 8.1).abs() < 1e-3);
    assert!(part.p.unwrap() < 1e-3);
}

#[test]
fn poll22_1_does_not_hold_where_hybrid_is_slower_than_interrupt() {
    let claim = decided(&table_1(&QUIET, 1.5), 4, "poll22-1");
    assert_eq!((&claim.answer, &claim.run), (&Answer::DoesNotHold, &None));
    let holds: Vec<bool> = claim.parts.iter().map(|part| part.answer == Answer::Holds).collect();
    assert_eq!(holds, [true, true, false, false, true, true, false, false]);
}

#[test]
fn poll22_1_is_undecided_in_noise_and_asks_for_more_replicates() {
    let claim = decided(&table_1(&NOISY, 1.0), 4, "poll22-1");
    assert_eq!(claim.answer, Answer::Undecided("8 of 8 parts are undecided".to_owned()));
    assert_eq!(claim.run.unwrap(), "iopj run studies/poll22.toml --bs 4k --numjobs 1,8 --replicates 10");
}

#[test]
fn refuted_unproven_and_failed_trials_stay_out_and_are_counted() {
    let mut trials = table_1(&QUIET, 1.0);
    judge(&mut trials[0..2], VerdictKind::Refuted);
    judge(&mut trials[2..3], VerdictKind::Unproven);
    trials[5].outcome = Outcome::Failed("EIO".to_owned());
    let claim = decided(&trials, 4, "poll22-1");
    assert_eq!(claim.left_out.text(), "2 refuted, 1 unproven, 1 failed");
    let missing = "posix-sio/syscall/poll, randread 4k iodepth 1 numjobs 1 (2 verified, 2 refuted, 1 \
                   unproven; 3 verified needed)";
    assert_eq!(claim.answer, Answer::NotMeasured(vec![missing.to_owned()]));
    assert_eq!(claim.run.unwrap(), "iopj run studies/poll22.toml --bs 4k --numjobs 1,8");
    // Cells that have their data are nevertheless decided.
    assert_eq!(claim.parts[2].answer, Answer::Holds);
}

#[test]
fn holm_corrects_over_the_comparisons_of_a_claim() {
    // As a single comparison, interrupt's CPU use would be significantly less than hybrid's; as one of two it
    // is not.
    let trials = cpu([60.0, 95.0, 96.0], &[-0.3, 0.2, 0.0, 0.3, -0.2]);
    let percent = |from: usize| -> Vec<f64> {
        trials[from..from + 5].iter().map(|trial| trial.outcome.measurement().unwrap().cpu_percent).collect()
    };
    let raw = t_test(Method::Welch, &percent(0), &percent(5)).unwrap().p;
    assert!(0.025 < raw && raw < 0.05, "{raw}");
    let part = &decided(&trials, 4, "poll22-2").parts[0];
    assert!((part.p.unwrap() - 2.0 * raw).abs() < 1e-12);
    assert!(matches!(part.answer, Answer::Undecided(_)));
}

/// Interrupt, hybrid and poll with these measurements.
fn modes(numjobs: u32, measured: [Measured; 3], spread: &[f64]) -> Vec<Trial> {
    let paths = ["interrupt", "hybrid", "poll"].map(|completion| format!("posix-sio/syscall/{completion}"));
    let cells = paths.iter().zip(measured);
    cells.flat_map(|(path, measured)| cell(path, &reads(numjobs), measured, spread)).collect()
}

fn cpu(percent: [f64; 3], spread: &[f64]) -> Vec<Trial> {
    modes(2, percent.map(|cpu_percent| Measured { cpu_percent, ..Measured::default() }), spread)
}

#[test]
fn poll22_2_holds_fails_and_is_undecided() {
    let answer = |percent, spread: &[f64], cores| decided(&cpu(percent, spread), cores, "poll22-2").answer;
    assert_eq!(answer([60.0, 120.0, 199.0], &QUIET, 4), Answer::Holds);
    assert_eq!(answer([60.0, 120.0, 100.0], &QUIET, 4), Answer::DoesNotHold);
    assert_eq!(
        answer([60.0, 61.0, 199.0], &NOISY, 4),
        Answer::Undecided("1 of 2 parts are undecided".to_owned())
    );
    // Two threads saturate two cores, and one core is always saturated.
    let Answer::NotMeasured(missing) = answer([60.0, 120.0, 199.0], &QUIET, 2) else { panic!() };
    assert_eq!(
        missing[0],
        "posix-sio/syscall/interrupt, randread 4k iodepth 1 numjobs 1 (no trial; 1 verified needed)"
    );
    let Answer::NotMeasured(missing) = answer([60.0, 120.0, 199.0], &QUIET, 1) else { panic!() };
    assert!(missing[0].contains("at least two cores"));
}

fn switches(figures: [f64; 3], spread: &[f64]) -> Vec<Trial> {
    modes(1, figures.map(|switches| Measured { switches, ..Measured::default() }), spread)
}

#[test]
fn poll22_4_holds_fails_and_is_undecided() {
    let answer = |figures, spread: &[f64]| decided(&switches(figures, spread), 4, "poll22-4").answer;
    assert_eq!(answer([1.0, 1.01, 0.0], &QUIET), Answer::Holds);
    assert_eq!(answer([1.0, 0.7, 0.0], &QUIET), Answer::DoesNotHold);
    assert_eq!(answer([1.0, 1.0, 0.02], &QUIET), Answer::DoesNotHold);
    // 1.05 does not differ from 1 significantly, which does not make it equal.
    assert_eq!(answer([1.05, 1.05, 0.0], &NOISY), Answer::Undecided("2 of 3 parts are undecided".to_owned()));
    let Answer::NotMeasured(missing) = answer([0.15, 1.0, 0.0], &QUIET) else { panic!() };
    assert!(
        missing[0].starts_with("a device slow enough that interrupt sleeps (0.15 context switches per I/O")
    );
}

#[test]
fn figures_without_variance_are_decided_without_nan() {
    let claim = decided(&switches([1.0, 1.0, 0.0], &[0.0; 3]), 4, "poll22-4");
    assert_eq!(claim.answer, Answer::Holds);
    assert!(claim.parts.iter().all(|part| part.p.is_some_and(f64::is_finite)));
}

#[test]
fn one_replicate_is_undecided() {
    let claim = decided(&switches([1.0, 1.0, 0.0], &[0.0]), 4, "poll22-4");
    assert_eq!(
        claim.parts[0].answer,
        Answer::Undecided("a test needs two replicates of each cell".to_owned())
    );
    assert_eq!(claim.run.unwrap(), "iopj run studies/poll22.toml --bs 4k --replicates 10");
}

#[test]
fn generators_are_never_mixed_and_each_complete_one_is_decided() {
    let mut trials = table_1(&QUIET, 1.0);
    let mut by_fio = table_1(&QUIET, 1.5);
    by_fio.iter_mut().for_each(|trial| trial.generator = Generator::Fio);
    trials.extend(by_fio.clone());
    let claim = decided(&trials, 4, "poll22-1");
    assert_eq!((claim.parts.len(), &claim.answer), (16, &Answer::DoesNotHold));
    assert!(claim.parts[0].at.ends_with(", native 2s") && claim.parts[15].at.ends_with(", fio 2s"));
    // A complete one takes precedence over an incomplete one.
    trials.truncate(table_1(&QUIET, 1.0).len() + 1);
    let claim = decided(&trials, 4, "poll22-1");
    assert_eq!((claim.parts.len(), claim.answer), (8, Answer::Holds));
}

#[test]
fn what_a_claim_lacks_is_named_once() {
    for (trials, emulated) in [(vec![], false), (vec![], true), (table_1(&QUIET, 1.0), true)] {
        let claims = decide(&trials, &ClaimContext { cores: 4, emulated, ..ClaimContext::default() });
        let of_parts = claims.iter().flat_map(|claim| claim.parts.iter().map(|part| &part.answer));
        for answer in claims.iter().map(|claim| &claim.answer).chain(of_parts) {
            let Answer::NotMeasured(missing) = answer else { continue };
            let distinct: BTreeSet<&String> = missing.iter().collect();
            assert_eq!(distinct.len(), missing.len(), "{missing:?}");
        }
        let second = claims.iter().find(|claim| claim.id == "iface23-2").unwrap();
        let elsewhere = second.run.as_ref().unwrap().ends_with(", on a machine that is not emulated");
        assert_eq!(elsewhere, emulated, "{:?}", second.run);
    }
}

#[test]
fn every_claim_is_there_once_in_order_and_without_a_meter_none_on_energy_is_measured() {
    let claims =
        decide(&table_1(&QUIET, 1.0), &ClaimContext { cores: 4, emulated: false, ..ClaimContext::default() });
    let ids: Vec<&str> = claims.iter().map(|claim| claim.id).collect();
    let expected: Vec<String> = [("poll22", 7), ("iface23", 10), ("fabric", 4)]
        .iter()
        .flat_map(|(paper, count)| (1..=*count).map(move |number| format!("{paper}-{number}")))
        .collect();
    assert_eq!(ids, expected);
    for claim in claims.iter().filter(|claim| claim.parts.is_empty()) {
        let Answer::NotMeasured(missing) = &claim.answer else { panic!("{}", claim.id) };
        assert!(!missing.is_empty() && claim.run.is_some(), "{}", claim.id);
    }
    let without: Vec<&str> =
        claims.iter().filter(|claim| claim.parts.is_empty()).map(|claim| claim.id).collect();
    assert_eq!(without.len(), 8);
}

#[test]
fn json_names_the_answer_and_its_reason() {
    let json = serde_json::to_value(decided(&[], 4, "poll22-3")).unwrap();
    assert_eq!(json["answer"], serde_json::json!({ "is": "not_measured", "why": ["a system-scope meter"] }));
    let json = serde_json::to_value(decided(&table_1(&QUIET, 1.0), 4, "poll22-1")).unwrap();
    assert_eq!(json["answer"], serde_json::json!({ "is": "holds" }));
    assert_eq!(json["parts"][0]["figures"][0]["published"], 8.1);
}

#[test]
fn trials_of_blocks_are_compared_within_them_and_the_papers_figures_hold_there_too() {
    // A drift that all trials of a block share hides the difference from Welch's test, not from the one
    // within blocks.
    let trials = table_1(&NOISY, 1.0);
    let of = |in_blocks, trials: &[Trial]| {
        let machine = ClaimContext { cores: 4, in_blocks, ..ClaimContext::default() };
        decide(trials, &machine).into_iter().find(|claim| claim.id == "poll22-1").unwrap()
    };
    assert!(matches!(of(false, &trials).answer, Answer::Undecided(_)));
    let claim = of(true, &trials);
    assert_eq!(claim.answer, Answer::Holds);
    let effect = claim.parts[0].effect.unwrap();
    assert!(
        (effect.ratio.unwrap().ratio - 8.1 / 10.1).abs() < 1e-3 && effect.least.unwrap() > 0.0,
        "{effect:?}"
    );
    assert_eq!(of(true, &table_1(&QUIET, 1.0)).answer, Answer::Holds);
    assert_eq!(of(true, &table_1(&QUIET, 1.5)).answer, Answer::DoesNotHold);
    // Every second block lacks the partner: too few remain.
    let lame: Vec<Trial> = trials
        .into_iter()
        .filter(|trial| trial.path.to_string().ends_with("interrupt") == (trial.replicate < 2))
        .collect();
    assert!(!matches!(of(true, &lame).answer, Answer::Holds));
}

#[test]
fn unproven_trials_decide_only_where_they_are_let_and_are_marked() {
    let mut trials = table_1(&QUIET, 1.0);
    judge(&mut trials, VerdictKind::Unproven);
    let claim = decided(&trials, 4, "poll22-1");
    assert!(matches!(claim.answer, Answer::NotMeasured(_)) && !claim.marked);
    let machine = ClaimContext {
        cores: 4,
        admission: Admission { with_unproven: true, emulated: false },
        ..ClaimContext::default()
    };
    let claim = decide(&trials, &machine).into_iter().find(|claim| claim.id == "poll22-1").unwrap();
    assert!(claim.answer == Answer::Holds && claim.marked);
    let text = iopj_report::claims(&[claim], true);
    assert!(text.contains("poll22-1: holds†") && text.contains("† unproven: nothing shows"), "{text}");
}
