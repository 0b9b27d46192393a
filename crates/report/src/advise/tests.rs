//! Advice in words, on the constructed trials of its analysis.

use super::*;
use iopj_analysis::advise::{Objective, advise};
use iopj_analysis::testing::asking;
use iopj_core::Scope;
use iopj_record::Trial;
use iopj_record::testing::cells::measurement_of;
use iopj_record::testing::loads::{SQPOLL, URING, measured, store};
use iopj_record::testing::pairs::study;

fn text(trials: &[Trial], question: &AdviseQuestion) -> String {
    let text = advice(&advise(&study("6.1"), trials, question).unwrap(), question);
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
}

#[test]
fn the_answer_says_what_to_take_why_what_it_saves_and_what_to_type() {
    let question = AdviseQuestion { price_per_kwh: Some(0.5), ..asking(Some(40_000), Some(200.0)) };
    says(
        &text(&store(), &question),
        &[
            "Advice for randread 4k, by I/Os per joule (system by plug), p99 within 200 us",
            "At 40,000 I/Os per second, an open load: Take io_uring/syscall/interrupt with numjobs 1 and \
             iodepth 32: ",
            " more than io_uring sqpoll (between ",
            "Its p99 is 180 us, and at most ",
            " us by the spread of the replicates; 200 us was asked for.",
            "Of 3 ways, these fall behind at this load: posix-sio.",
            "At 40,000 I/Os per second all the year it saves 35",
            " kWh (between ",
            " against io_uring sqpoll, the next, which is 17",
            " at 0.5 per kWh.",
            "What would change the answer: a bound of the p99 below ",
            "it keeps up to 40,000 I/Os per second and falls behind at 80,000.",
            "What to type: fio (rate_iops is that of each job): fio --filename=TARGET",
            "postgresql.conf",
        ],
    );
}

#[test]
fn a_bound_that_none_meets_names_the_nearest() {
    says(
        &text(&store(), &asking(Some(40_000), Some(50.0))),
        &[
            "No way meets the bound (p99 within 50.0 us). io_uring/sqpoll/interrupt with numjobs 1 and \
             iodepth 32 comes nearest: p99 is 90.0 us, and at most ",
            "these miss the bound: io_uring (p99 is 180 us",
        ],
    );
    let limit = text(&store()[5 * 5..6 * 5], &asking(None, Some(90.1)));
    says(&limit, &["No way is shown to meet the bound (p99 within 90.1 us). io_uring/sqpoll/interrupt"]);
}

#[test]
fn what_takes_more_than_the_usual_way_or_is_not_shown_to_save_says_so() {
    // Within 100 us only sqpoll is left, which takes 1 mJ more than io_uring.
    let question = AdviseQuestion { price_per_kwh: Some(0.5), ..asking(Some(40_000), Some(100.0)) };
    says(
        &text(&store(), &question),
        &["it takes 35", " kWh more (between 3", " against io_uring, the usual way, which is 17"],
    );
    let mut alike = store();
    let half = |trial: &&mut Trial| trial.path.to_string() == SQPOLL && trial.replicate.is_multiple_of(2);
    for trial in alike.iter_mut().filter(half) {
        let one = measurement_of(trial);
        let joules = 1e-3 * one.ios as f64;
        one.energy.clear();
        iopj_record::testing::energy::give(trial, "plug", Scope::System, joules);
    }
    says(
        &text(&alike, &asking(Some(40_000), Some(100.0))),
        &["it is not shown to save anything against io_uring"],
    );
}

#[test]
fn a_rate_that_was_not_measured_is_said_to_lie_between_two() {
    says(
        &text(&store(), &asking(Some(60_000), Some(160.0))),
        &["60,000 I/Os per second were not measured. They lie between 40,000 and 80,000, at both of which \
             the answer may be io_uring/sqpoll/interrupt with numjobs 1 and iodepth 32: take it."],
    );
    says(
        &text(&store(), &asking(Some(20_000), None)),
        &["They lie between 10,000 and 40,000, whose answers differ or are open, so it is undecided"],
    );
}

#[test]
fn what_is_undecided_or_starved_is_said_with_what_would_decide() {
    let plug = ("plug", Scope::System);
    let mut trials = measured((URING, (1, 32), 40_000, 180.0, Some(2.0)), plug);
    trials.extend(measured((SQPOLL, (1, 32), 40_000, 90.0, Some(2.0)), plug));
    // Joules that differ from block to block, and not between the paths.
    for (at, trial) in trials.iter_mut().enumerate() {
        let one = measurement_of(trial);
        one.energy.clear();
        let joules = [100.0, 180.0, 140.0, 120.0, 160.0][(2 * at + at / 5) % 5];
        iopj_record::testing::energy::give(trial, plug.0, plug.1, joules);
    }
    let text_of = |trials: &[Trial]| text(trials, &asking(None, None));
    says(&text_of(&trials), &["Undecided between io_uring", "more replicates", "The best on average is"]);
    let spinner = iopj_core::Spinner {
        role: iopj_core::evidence::ThreadRole::Sqpoll,
        ran: 0.6,
        waited: 0.4,
        cores: 2,
        busy_threads: 1,
        others: None,
        starved: true,
    };
    measurement_of(&mut trials[5]).conditions.spinner = Some(spinner);
    says(&text_of(&trials), &["lost its core: io_uring sqpoll in 1 of 5 trials. It takes a core of its own"]);
}

#[test]
fn closed_loops_and_parts_of_a_machine_are_answered_as_what_they_are() {
    let mut trials = measured((URING, (1, 32), 40_000, 180.0, Some(2.0)), ("rapl", Scope::Package));
    trials.iter_mut().for_each(|trial| trial.workload.open = None);
    trials.iter_mut().for_each(|trial| measurement_of(trial).open = None);
    says(
        &text(&trials, &asking(None, None)),
        &[
            "(package by rapl)",
            "With numjobs 1, iodepth 32, a closed loop: Take io_uring/syscall/interrupt with numjobs 1 and \
             iodepth 32, the only way measured: ",
            "What it saves in a year is not said: package by rapl is a part of the machine",
        ],
    );
}

#[test]
fn the_highest_rate_is_said_with_what_each_way_carries_and_what_would_change_it() {
    let of = |p99_us| AdviseQuestion { objective: Some(Objective::Ios), ..asking(None, p99_us) };
    says(
        &text(&store(), &of(Some(100.0))),
        &[
            "Advice for randread 4k, by the highest rate, p99 within 100 us",
            "At 40,000 I/Os per second, the highest rate that is carried:",
            "Take io_uring/sqpoll/interrupt with numjobs 1 and iodepth 32: it carries 40,000 I/Os per second \
             with its p99 within 100 us; it misses the bound at 80,000, the next rate measured.",
            "misses the bound at 40,000",
            "is not shown to meet the bound at 10,000",
            "a bound of the p99 below 91.",
            "no way is shown to carry this; under a bound of 15",
            " us or more io_uring sqpoll carries 80,000.",
        ],
    );
    let all = text(&store(), &of(None));
    says(
        &all,
        &["it carries 80,000 I/Os per second; no higher rate was measured.", "falls behind at 80,000"],
    );
    says(
        &text(&store(), &of(Some(50.0))),
        &["At the least rate that was measured:", "No way meets the bound"],
    );
    let mut tied = store();
    tied.extend(measured((URING, (2, 32), 80_000, 120.0, Some(9.0)), ("plug", Scope::System)));
    says(
        &text(&tied, &of(None)),
        &["io_uring sqpoll carries as much; of these its p99 latency is the lowest (p"],
    );
}

#[test]
fn what_only_shows_the_worth_of_choosing_is_named() {
    let mut trials = store();
    let own = trials.iter_mut().filter(|trial| trial.path.to_string() == URING);
    own.for_each(|trial| trial.path = "auto:io_uring/syscall/interrupt".parse().unwrap());
    let question = asking(Some(40_000), None);
    let text = crate::advice(&advise(&study("6.1"), &trials, &question).unwrap(), &question);
    let line = "Left out, for they only show what choosing is worth: auto:io_uring/syscall/interrupt.\n";
    assert!(text.contains(line), "{text}");
}
