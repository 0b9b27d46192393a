//! Sentences on constructed trials: what they say, word for word.

use super::*;
use crate::{html, report};
use iopj_core::evidence::{SteadyState, ThreadRole};
use iopj_core::{Rw, Scope, VerdictKind, Workload};
use iopj_record::Outcome;
use iopj_record::testing::cells::{Measured, cell, judge, measurement_of, workload};
use iopj_record::testing::costs::{set_exact, user};
use iopj_record::testing::energy::give;
use iopj_record::testing::pairs::{sequential, study};

const LIBAIO: &str = "libaio/syscall/interrupt";
const URING: &str = "io_uring/syscall/interrupt";
const SQPOLL: &str = "io_uring/sqpoll/interrupt";
const AIO: &str = "posix-aio/syscall/interrupt";
const POLL: &str = "posix-sio/syscall/poll";

/// Little noise, of three paths: no two of them vary together.
const NOISE: [[f64; 5]; 3] = [
    [0.001, -0.001, 0.0005, -0.0005, 0.0],
    [-0.0004, 0.0006, -0.0008, 0.0003, 0.0003],
    [0.0002, 0.0007, -0.0003, -0.0009, 0.0003],
];

/// Five replicates of a path, each with its share of `noise` times `by` more I/Os per second.
fn path(name: &str, iops: f64, noise: usize, by: f64) -> Vec<Trial> {
    at(name, &Workload { iodepth: 8, ..workload(Rw::Randread, 1) }, iops, noise, by)
}

fn at(name: &str, workload: &Workload, iops: f64, noise: usize, by: f64) -> Vec<Trial> {
    let mean_us = 1e6 * f64::from(workload.iodepth) / iops;
    let measured = Measured { iops, mean_us, p99_us: 100.0, cpu_percent: 50.0, ..Measured::default() };
    let mut trials = cell(name, workload, measured, &NOISE[noise].map(|share| share * by));
    // A tail of its own, so that no metric follows from another.
    trials.iter_mut().for_each(|trial| measurement_of(trial).latency.p99 = 100_000);
    trials
}

/// What is said, one line for each answer, and one for each note.
fn lines(trials: &[Trial]) -> Vec<String> {
    said(&study("6.1"), trials)
}

fn said(study: &StudyRecord, trials: &[Trial]) -> Vec<String> {
    let Decided { groups, notes } = decided(study, trials, Admission::default());
    let answers = groups.into_iter().map(|one| format!("{}: {}", one.workloads, one.sentences.join(" ")));
    answers.chain(notes).collect()
}

const AT_8: &str = "randread 4k iodepth 8 numjobs 1: ";

#[test]
fn a_winner_is_named_with_its_lead_and_what_to_avoid() {
    let mut trials = path(LIBAIO, 112_000.0, 0, 1.0);
    trials.extend(path(URING, 100_000.0, 1, 1.0));
    trials.extend(path(SQPOLL, 98_000.0, 2, 1.0));
    trials.extend(path(AIO, 38_000.0, 1, 2.0));
    let answer = "libaio wins: 112,000 IOPS at 71.4 us on average, 12 % more than io_uring (between \
                  11.8 % and 12.2 %). io_uring sqpoll does 12 % fewer IOPS. Avoid posix-aio (66 % fewer \
                  IOPS).";
    assert_eq!(lines(&trials), [format!("{AT_8}{answer}")]);
}

/// A polling thread won, and nothing said that it takes ten times the CPU.
#[test]
fn a_winner_says_what_cpu_it_takes_if_that_is_much_more_than_the_next() {
    let mut trials = path(SQPOLL, 112_000.0, 0, 1.0);
    trials.extend(path(LIBAIO, 100_000.0, 1, 1.0));
    let with = |trials: &mut [Trial], name: &str, cpu: f64| {
        let of = trials.iter_mut().filter(|trial| trial.path.to_string() == name);
        of.for_each(|trial| measurement_of(trial).cpu_percent = cpu + 0.1 * f64::from(trial.replicate));
    };
    with(&mut trials, SQPOLL, 195.0);
    with(&mut trials, LIBAIO, 20.0);
    let lead = "io_uring sqpoll wins: 112,000 IOPS at 71.4 us on average, 12 % more than libaio (between \
                11.8 % and 12.2 %).";
    assert_eq!(lines(&trials), [format!("{AT_8}{lead} It takes 195 % of a core; libaio takes 20 %.")]);
    with(&mut trials, SQPOLL, 10.0);
    assert_eq!(lines(&trials), [format!("{AT_8}{lead}")], "less is no price");
}

#[test]
fn equal_paths_are_not_ranked_and_what_they_cost_is_said() {
    let mut trials = path(LIBAIO, 100_100.0, 0, 10.0);
    trials.extend(path(URING, 100_000.0, 1, 10.0));
    trials.extend(path(AIO, 50_000.0, 2, 10.0));
    for (name, cpu) in [(LIBAIO, 46.0), (URING, 92.0)] {
        let of = trials.iter_mut().filter(|trial| trial.path.to_string() == name);
        of.for_each(|trial| measurement_of(trial).cpu_percent = cpu + 0.1 * f64::from(trial.replicate));
    }
    let answer = "Nothing separates libaio and io_uring: equal within 5 % at 100,100 IOPS at 79.9 us on \
                  average. Of these, libaio takes the least CPU, 46 % of a core; io_uring takes 92 %. Avoid \
                  posix-aio (50 % fewer IOPS).";
    assert_eq!(lines(&trials), [format!("{AT_8}{answer}")]);
}

#[test]
fn what_is_undecided_says_between_which_bounds_and_what_would_decide() {
    let mut trials = path(LIBAIO, 104_000.0, 0, 90.0);
    trials.extend(path(URING, 100_000.0, 1, 90.0));
    let all = lines(&trials);
    let start = format!("{AT_8}Undecided between libaio and io_uring: the difference lies between -");
    assert!(all.len() == 1 && all[0].starts_with(&start), "{all:?}");
    assert!(all[0].ends_with(" more replicates would decide."), "{all:?}");
    // One replicate each.
    let single: Vec<Trial> = trials.into_iter().filter(|trial| trial.replicate == 0).collect();
    let answer = "Undecided between libaio and io_uring: single replicates cannot be tested; run with \
                  --replicates 5 or more.";
    assert_eq!(lines(&single), [format!("{AT_8}{answer}")]);
}

#[test]
fn a_path_with_one_valid_replicate_is_named_where_others_have_five() {
    let mut trials = path(LIBAIO, 104_000.0, 0, 1.0);
    let mut aio = path(AIO, 100_000.0, 1, 1.0);
    judge(&mut aio[1..], VerdictKind::Refuted);
    trials.extend(aio);
    let answer = "Undecided between libaio and posix-aio: there are fewer than two replicates in which \
                  posix-aio and libaio both count, too few for a test.";
    assert_eq!(lines(&trials), [format!("{AT_8}{answer}")]);
}

/// Starves one trial of a path.
fn starve(trials: &mut [Trial]) {
    let role = ThreadRole::Sqpoll;
    let spinner =
        Spinner { role, ran: 0.49, waited: 0.5, cores: 1, busy_threads: 1, others: None, starved: true };
    measurement_of(&mut trials[3]).conditions.spinner = Some(spinner);
}

#[test]
fn what_would_decide_is_of_paths_that_were_not_starved() {
    let mut trials = path(LIBAIO, 104_000.0, 0, 90.0);
    let mut sqpoll = path(SQPOLL, 100_000.0, 1, 90.0);
    starve(&mut sqpoll);
    trials.extend(sqpoll);
    let answer = "Undecided between libaio and io_uring sqpoll: io_uring sqpoll was starved, so it takes a \
                  core of its own to decide, not more replicates.";
    assert_eq!(lines(&trials)[0], format!("{AT_8}{answer}"));
    trials.extend(path(URING, 103_000.0, 2, 90.0));
    let all = lines(&trials);
    let start =
        "Undecided between libaio, io_uring and io_uring sqpoll. libaio over io_uring: the difference";
    assert!(all[0].starts_with(&format!("{AT_8}{start}")), "{all:?}");
}

#[test]
fn a_path_to_avoid_is_named_though_it_does_not_compete_everywhere() {
    let mut trials = Vec::new();
    for iodepth in [1, 8, 32] {
        let workload = Workload { iodepth, ..workload(Rw::Randread, 1) };
        trials.extend(at(LIBAIO, &workload, 112_000.0, 0, 1.0));
        trials.extend(at(URING, &workload, 100_000.0, 1, 1.0));
        let mut aio = at(AIO, &workload, 56_000.0, 2, 1.0);
        if iodepth == 1 {
            judge(&mut aio, VerdictKind::Refuted);
        }
        trials.extend(aio);
    }
    let all = lines(&trials);
    assert!(all[0].ends_with(" Avoid posix-aio (50 % fewer IOPS in 2 of 3 workloads)."), "{all:?}");
}

#[test]
fn the_least_and_the_most_cpu_are_corrected_for_all_pairs() {
    let mut trials = path(LIBAIO, 100_100.0, 0, 10.0);
    trials.extend(path(URING, 100_000.0, 1, 10.0));
    trials.extend(path(AIO, 100_050.0, 2, 10.0));
    // The differences of libaio and io_uring have t = 3.75 by these, so p is 0.02.
    let cpu = [9.8, 24.9, 40.0, 55.1, 70.2];
    for trial in &mut trials {
        let more = match trial.path.to_string().as_str() {
            LIBAIO => 0.0,
            URING => cpu[trial.replicate as usize],
            _ => 20.0,
        };
        measurement_of(trial).cpu_percent = 40.0 + more;
    }
    let says = |trials: &[Trial]| lines(trials).concat().contains("takes the least CPU");
    assert!(!says(&trials), "three pairs");
    trials.retain(|trial| trial.path.to_string() != AIO);
    assert!(says(&trials), "one pair");
    let looked = StudyRecord { sequential: sequential().sequential, ..study("6.1") };
    assert!(!said(&looked, &trials).concat().contains("takes the least CPU"), "26 looks");
}

#[test]
fn workloads_that_differ_only_in_ramp_time_have_two_titles() {
    let mut trials = Vec::new();
    for (seconds, libaio) in [(0, 112_000.0), (5, 80_000.0)] {
        let ramp_time = std::time::Duration::from_secs(seconds);
        let workload = Workload { iodepth: 8, ramp_time, ..workload(Rw::Randread, 1) };
        trials.extend(at(LIBAIO, &workload, libaio, 0, 1.0));
        trials.extend(at(URING, &workload, 100_000.0, 1, 1.0));
    }
    let all = lines(&trials);
    assert!(all[0].starts_with("randread 4k iodepth 8 numjobs 1, ramp_time 0s: libaio wins"), "{all:?}");
    assert!(all[1].starts_with("randread 4k iodepth 8 numjobs 1, ramp_time 5s: io_uring wins"), "{all:?}");
}

#[test]
fn a_winner_that_is_none_without_unsteady_trials_is_said_to_be() {
    let mut trials = path(LIBAIO, 112_000.0, 0, 1.0);
    trials.extend(path(URING, 100_000.0, 1, 1.0));
    for trial in trials.iter_mut().filter(|trial| trial.path.to_string() == LIBAIO && trial.replicate > 0) {
        measurement_of(trial).evidence.steadystate = Some(SteadyState::default());
    }
    let all = lines(&trials);
    let end = " (without its unsteady trials: undecided between libaio and io_uring).";
    assert!(all[0].starts_with(&format!("{AT_8}libaio wins:")) && all[0].ends_with(end), "{all:?}");
}

#[test]
fn a_starved_path_is_not_one_to_avoid() {
    let mut trials = path(LIBAIO, 100_000.0, 0, 1.0);
    let mut starved = path(SQPOLL, 38_000.0, 1, 1.0);
    starve(&mut starved);
    trials.extend(path(URING, 90_000.0, 2, 1.0));
    trials.extend(starved);
    let note = "io_uring/sqpoll/interrupt was starved (62 % fewer IOPS): the submission poller had 49 % of a \
                core and waited for one 50 % of the time: it shared one core with 1 other busy thread. \
                Give it a core of its own before you judge it.";
    let all = lines(&trials);
    assert_eq!(all[1..], [note]);
    assert!(all[0].starts_with(&format!("{AT_8}libaio wins:")) && !all[0].contains("sqpoll"), "{all:?}");
}

#[test]
fn paths_that_do_not_compete_are_named_with_the_reason() {
    let mut trials = path(LIBAIO, 100_000.0, 0, 1.0);
    let mut refuted = path(POLL, 120_000.0, 1, 1.0);
    judge(&mut refuted, VerdictKind::Refuted);
    let reason = "asked for poll, completed by interrupt".to_owned();
    refuted.iter_mut().for_each(|trial| measurement_of(trial).verdict.reasons = vec![reason.clone()]);
    trials.extend(refuted);
    let alone = format!("{AT_8}Only libaio competes: 100,000 IOPS at 80.0 us on average.");
    let out = "posix-sio/syscall/poll was refuted: asked for poll, completed by interrupt.";
    assert_eq!(lines(&trials), [alone.as_str(), out]);
    // The same under another workload, where it competes.
    let deep = Workload { iodepth: 32, ..workload(Rw::Randread, 1) };
    for (name, iops) in [(LIBAIO, 100_000.0), (POLL, 50_000.0)] {
        trials.extend(at(name, &deep, iops, 0, 1.0));
    }
    let all = lines(&trials);
    assert_eq!(all.len(), 3, "{all:?}");
    assert_eq!(
        all[2],
        "posix-sio/syscall/poll was refuted in 1 of 2 workloads: asked for poll, completed by interrupt."
    );
    // Nobody competes.
    let mut none = path(POLL, 120_000.0, 1, 1.0);
    judge(&mut none, VerdictKind::Unproven);
    none.iter_mut().for_each(|trial| measurement_of(trial).verdict.reasons = vec!["no vectors".to_owned()]);
    let why = "No path is chosen: no trial is verified. 5 of 5 trials are unproven: no \
               vectors; --with-unproven ranks such trials, marked.";
    assert_eq!(lines(&none), [why]);
    none.iter_mut().for_each(|trial| trial.outcome = Outcome::Failed("EIO".to_owned()));
    let why = "No trial is valid: all of them were refuted, failed or incomplete, so no path is chosen.";
    assert_eq!(lines(&none), [why]);
    assert_eq!(lines(&[]), ["This store holds no trials: iopj run --resume STORE runs them."]);
}

#[test]
fn workloads_with_the_same_answer_are_one() {
    let at_depth = |iodepth| Workload { iodepth, ..workload(Rw::Randread, 1) };
    let mut trials = Vec::new();
    for (iodepth, libaio, uring) in
        [(1, 12_000.0, 10_000.0), (8, 100_000.0, 80_000.0), (32, 100_000.0, 150_000.0)]
    {
        trials.extend(at(LIBAIO, &at_depth(iodepth), libaio, 0, 1.0));
        trials.extend(at(URING, &at_depth(iodepth), uring, 1, 1.0));
    }
    let all = lines(&trials);
    assert_eq!(all.len(), 2, "{all:?}");
    let first =
        "randread 4k iodepth 1 and 8 numjobs 1: libaio wins: 20 % to 25 % more IOPS than the next path.";
    assert!(all[0].starts_with(first), "{all:?}");
    assert!(all[1].starts_with("randread 4k iodepth 32 numjobs 1: io_uring wins: 150,000 IOPS"), "{all:?}");
}

#[test]
fn tail_latency_is_said_where_it_answers_differently_and_energy_where_it_was_measured() {
    let mut trials = path(LIBAIO, 112_000.0, 0, 1.0);
    trials.extend(path(URING, 100_000.0, 1, 1.0));
    for trial in &mut trials {
        let is_libaio = trial.path.to_string() == LIBAIO;
        let (p99_us, joules) = if is_libaio { (150, 100.0) } else { (100, 80.0) };
        measurement_of(trial).latency.p99 = 1000 * (p99_us + u64::from(trial.replicate % 2));
        give(trial, "plug", Scope::System, joules + 0.01 * f64::from(trial.replicate));
    }
    let all = lines(&trials).concat();
    assert!(all.contains("libaio wins: 112,000 IOPS"), "{all}");
    let tail = "By p99 latency io_uring wins: 100 us, 33 % less than libaio (between 33.";
    assert!(all.contains(tail), "{all}");
    assert!(
        all.contains("By energy (system by plug) io_uring wins: 2,499 I/Os per joule, 12 % more than libaio"),
        "{all}"
    );
    // The same winner by both is one answer.
    for trial in trials.iter_mut().filter(|trial| trial.path.to_string() == LIBAIO) {
        measurement_of(trial).latency.p99 = 50_000;
    }
    assert!(!lines(&trials).concat().contains("p99"));
}

#[test]
fn an_emulated_store_is_answered_by_instructions_and_never_by_a_time() {
    let mut trials = path(LIBAIO, 112_000.0, 0, 1.0);
    trials.extend(path(URING, 100_000.0, 1, 1.0));
    let emulated = StudyRecord { emulated: Some("QEMU TCG".to_owned()), ..study("6.1") };
    let none = "No path is chosen: times mean nothing under QEMU TCG, and no instructions were counted.";
    assert_eq!(said(&emulated, &trials), [none]);
    for trial in &mut trials {
        let count = if trial.path.to_string() == LIBAIO { 500_000 } else { 400_000 };
        let count = count + u64::from(trial.replicate);
        set_exact(measurement_of(trial), 100, vec![user([count, 1, 1])]);
    }
    // Where none were counted, paths compete all the same.
    let uncounted = Workload { iodepth: 32, ..workload(Rw::Randread, 1) };
    let both = [trials.clone(), at(LIBAIO, &uncounted, 100_000.0, 0, 1.0)].concat();
    let note = "No instructions were counted in 1 of 2 workloads, so no path is chosen there.";
    assert_eq!(said(&emulated, &both)[1..], [note]);
    let all = said(&emulated, &trials).concat();
    let answer = "By instructions io_uring wins: 4,000 instructions per I/O, 20 % fewer than libaio (between \
                  20.0 % and 20.0 %).";
    assert_eq!(all, format!("{AT_8}{answer}"));
}

#[test]
fn the_report_and_the_page_begin_with_the_same_sentences() {
    let mut trials = path(LIBAIO, 112_000.0, 0, 1.0);
    trials.extend(path(URING, 100_000.0, 1, 1.0));
    let mut failed = path(POLL, 1.0, 1, 1.0);
    failed.iter_mut().for_each(|trial| trial.outcome = Outcome::Failed("no <poll> queue".to_owned()));
    trials.extend(failed);
    let study = study("6.1");
    let Decided { groups, notes } = decided(&study, &trials, Admission::default());
    let text = report(&study, &trials, Admission::default());
    let page = html::page(&study, &trials, &[], Admission::default());
    let (before, after) = text.split_once("\nDecision\n").unwrap();
    assert_eq!(before.lines().count(), 2, "{before}");
    let flat = after.split_whitespace().collect::<Vec<_>>().join(" ");
    let begin = page.find("<h2>Decision</h2>").unwrap();
    assert!(begin < page.find("<h2>Verdicts</h2>").unwrap());
    for sentence in groups.iter().flat_map(|group| &group.sentences).chain(&notes) {
        assert!(flat.contains(sentence.as_str()), "no `{sentence}` in {text}");
        let escaped = sentence.replace('<', "&lt;").replace('>', "&gt;").replace(" %", "\u{a0}%");
        assert!(page[begin..].contains(&escaped), "no `{sentence}` on the page");
    }
    assert_eq!((groups.len(), notes.len()), (1, 1));
}
