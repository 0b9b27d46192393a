//! The text of emulated stores, and of costs.

use super::*;
use iopj_analysis::Admission;
use iopj_core::evidence::{ThreadEvidence, ThreadRole};
use iopj_core::{CostSource, Rw, Spinner};
use iopj_record::testing::cells::{Measured, cell, judge, measurement_of, workload};
use iopj_record::testing::costs::{function, set_exact, user};
use iopj_record::testing::pairs::study;

/// Three completion modes of io_uring, three replicates each: no count contains 31,415 IOPS or 27.18 us.
fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for (mode, mean_us, instructions) in
        [("poll", 27.18, 750_025), ("hybrid", 54.4, 1_150_000), ("interrupt", 108.8, 590_000)]
    {
        let measured =
            Measured { mean_us, iops: 31_415.0, cpu_percent: 61.7, switches: 0.25, ..Measured::default() };
        let path = format!("io_uring/syscall/{mode}");
        let mut cell = cell(&path, &workload(Rw::Randread, 1), measured, &[-0.01, 0.0, 0.01]);
        for trial in &mut cell {
            let one = measurement_of(trial);
            set_exact(
                one,
                100,
                vec![function("f", "block/", [instructions, 180_000, 104_000]), user([34_300, 200, 100])],
            );
            let thread = |role, voluntary_switches| ThreadEvidence {
                tid: 1,
                role,
                voluntary_switches,
                ..ThreadEvidence::default()
            };
            one.evidence.threads = vec![thread(ThreadRole::Job, 85), thread(ThreadRole::Sqpoll, 1000)];
            one.system_calls_per_io = Some(1.0);
        }
        trials.extend(cell);
    }
    trials
}

fn emulated() -> StudyRecord {
    StudyRecord { emulated: Some("QEMU TCG".to_owned()), ..study("5.10") }
}

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn an_emulated_report_shows_counts_and_orders_and_no_time() {
    let text = report(&emulated(), &trials(), Admission::default());
    assert!(
        text.starts_with("emulated by QEMU TCG: times mean nothing and none is shown; results are verdicts"),
        "{text}"
    );
    for time in ["31,4", "31415", "27.2", "27.18", "IOPS", "mean us", "p99", "CPU %", "slower", "62", "61.7"]
    {
        assert!(!text.contains(time), "`{time}` is in\n{text}");
    }
    let text = squeezed(&text);
    for part in [
        "path verdict ctx/IO irq/IO sys/IO slept/IO kernel instr loads stores user instr loads stores",
        "io_uring/syscall/interrupt verified 0.25 - 1.00 0.85 5,900 1,800 1,040 343 2 1",
        "io_uring/syscall/poll verified 0.25 - 1.00 0.85 7,500 1,800 1,040 343 2 1",
        "by mean latency, emulated, times not shown: io_uring/syscall/poll < io_uring/syscall/hybrid < \
         io_uring/syscall/interrupt",
        "by CPU use, emulated, times not shown: ",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    // The paths are in their own order, not in that of their latency.
    let place = |path: &str| text.find(&format!("{path} verified")).unwrap();
    assert!(place("io_uring/syscall/interrupt") < place("io_uring/syscall/poll"));
}

#[test]
fn a_real_report_keeps_its_times_and_gains_costs() {
    let text = squeezed(&report(&study("5.10"), &trials(), Admission::default()));
    assert!(!text.contains("emulated"), "{text}");
    assert!(text.contains("io_uring/syscall/poll verified 31,415 1.0 % 27.2"), "{text}");
    assert!(text.contains("slower kernel instr loads stores user instr loads stores"), "{text}");
    assert!(text.contains("0.25 - 0 7,500 1,800 1,040 343 2 1"), "{text}");
    let mut sampled = trials();
    sampled.iter_mut().for_each(|trial| {
        measurement_of(trial).costs.as_mut().unwrap().source =
            CostSource::Sampled(vec!["instructions".to_owned()])
    });
    let text = squeezed(&report(&study("5.10"), &sampled, Admission::default()));
    assert!(
        text.contains("0.25 - 0 ~7,500 ~1,800") && text.contains("~ sampled: a count is samples"),
        "{text}"
    );
    let mut without = trials();
    without.iter_mut().for_each(|trial| measurement_of(trial).costs = None);
    assert!(!report(&study("5.10"), &without, Admission::default()).contains("instr"));
}

#[test]
fn refuted_trials_stand_last_and_out_of_the_orders() {
    let mut trials = trials();
    judge(&mut trials[6..], VerdictKind::Refuted);
    let text = squeezed(&report(&emulated(), &trials, Admission::default()));
    assert!(
        text.contains("times not shown: io_uring/syscall/poll < io_uring/syscall/hybrid by CPU use"),
        "{text}"
    );
    assert!(text.find("interrupt refuted").unwrap() > text.find("poll verified").unwrap(), "{text}");
}

#[test]
fn the_papers_tables_hold_loads_and_stores_and_no_time_of_an_emulated_store() {
    let mut trials = trials();
    for trial in &mut trials {
        trial.path = trial.path.to_string().replace("io_uring", "posix-sio").parse().unwrap();
    }
    let text = crate::paper_tables(&emulated(), &trials, None, Admission::default());
    assert!(text.starts_with("emulated by QEMU TCG"), "{text}");
    assert!(
        text.matches("not measured: emulated: times mean nothing").count() == 3 && !text.contains("31,415"),
        "{text}"
    );
    let text = squeezed(&text);
    // 386 and 759 million a second over 511,895 and 571,659 IOPS are about 754 and 1,328 per I/O.
    assert!(text.contains("block/ 2,840 754 2,840 1,328 2,840 974"), "{text}");
    assert!(text.contains("total 2,843 5,294 2,843 5,580 2,843 6,604"), "{text}");
    assert!(
        squeezed(&crate::paper_tables(&study("5.10"), &trials, None, Admission::default()))
            .contains("31,415")
    );
}

#[test]
fn a_starved_trial_is_marked_and_says_why() {
    let mut all = trials();
    measurement_of(&mut all[0]).conditions.spinner = Some(Spinner {
        role: ThreadRole::Sqpoll,
        ran: 0.61,
        waited: 0.38,
        cores: 2,
        busy_threads: 1,
        others: None,
        starved: true,
    });
    let text = squeezed(&report(&study("5.10"), &all, Admission::default()));
    for part in [
        "starved (1 of 3): the submission poller had 61 % of a core and waited for one 38 % of the time: it \
         shared 2 cores with 1 other busy thread",
        "no trial was disturbed; in 1 of 9 trials a spinning thread lost its core (starved)",
    ] {
        assert!(text.contains(part), "`{part}` is not in {text}");
    }
}
