//! `poll22-5` from cost profiles, and every claim of an emulated store.

use super::fixture::{Measured, cell, workload};
use super::tests::QUIET;
use super::*;
use crate::analysis::cost::tests::{function, set_exact};
use crate::analysis::published::BASIC;
use iopj_core::{Cost, Rw};
use iopj_store::Outcome;

const EMULATOR: Machine = Machine { emulated: true, ..REAL };
const REAL: Machine = Machine {
    cores: 4,
    emulated: false,
    in_blocks: false,
    admission: Admission { with_unproven: false, emulated: false },
    looks: 1,
};

fn decided(trials: &[Trial], machine: &Machine, id: &str) -> Claim {
    decide(trials, machine).into_iter().find(|claim| claim.id == id).unwrap()
}

/// Loads per I/O in `block/`, `drivers/nvme/host/`, `kernel/sched/`, `kernel/time/` and elsewhere: the paper's of `poll22`'s
/// three modes, over some IOPS.
const PAPER: [(&str, f64, [u64; 5]); 3] = [
    ("interrupt", 1.0, [754, 100, 1168, 127, 3147]),
    ("poll", 0.0, [1328, 362, 72, 38, 3778]),
    ("hybrid", 1.0, [974, 203, 1437, 282, 3710]),
];

/// Five replicates of each mode with these counts, those of all but the first a little off.
fn profiled(numjobs: u32, modes: [(&str, f64, [u64; 5]); 3]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for (mode, switches, counts) in modes {
        let path = format!("posix-sio/syscall/{mode}");
        let measured = Measured { switches, iops: 1000.0, ..Measured::default() };
        let mut cell = cell(&path, &workload(Rw::Randread, numjobs), measured, &QUIET);
        for (index, trial) in cell.iter_mut().enumerate() {
            let Outcome::Measured(one) = &mut trial.outcome else { panic!() };
            let directories = ["block/", "drivers/nvme/host/", "kernel/sched/", "kernel/time/", "lib/"];
            let loads = |count: u64| [0, 1000 * count + index as u64, 0];
            let functions = directories.iter().zip(counts).map(|(place, count)| function("f", place, loads(count)));
            set_exact(one, 1000, functions.collect());
        }
        trials.extend(cell);
    }
    trials
}

/// The answers to the parts of `poll22-5` that are per I/O, by what they compare.
fn per_io(claim: &Claim) -> Vec<(String, &'static str)> {
    let part = |part: &Part| {
        let text = part.text.strip_prefix("loads and stores per I/O, ")?;
        Some((text.replace("posix-sio/syscall/", ""), part.answer.as_str()))
    };
    claim.parts.iter().filter_map(part).collect()
}

#[test]
fn poll22_5_holds_on_the_papers_own_figures_per_io_and_per_second() {
    let claim = decided(&profiled(32, PAPER), &REAL, "poll22-5");
    assert_eq!((&claim.answer, claim.parts.len(), &claim.run), (&Answer::Holds, 22, &None));
    assert_eq!(per_io(&claim)[0], ("total: interrupt less than poll".to_owned(), "holds"));
    assert_eq!(claim.parts[0].figures[0].mean, Some(5296.01), "five more loads in each of 1,000 I/Os at the most");
    // Per second, the paper's figures stand beside.
    let sched = claim.parts.iter().find(|part| part.text.starts_with("loads and stores, kernel/sched/")).unwrap();
    assert_eq!(sched.figures[0].published.zip(sched.figures[1].published), Some((786.0, 598.0)));
    assert_eq!((sched.figures[0].unit, claim.parts[0].figures[0].published), ("M/s", None));
    assert!(claim.note.unwrap().contains("a PMU and per second"));
}

#[test]
fn poll22_5_of_an_emulated_store_is_decided_per_io_alone() {
    let claim = decided(&profiled(1, PAPER), &EMULATOR, "poll22-5");
    assert_eq!(claim.answer, Answer::NotMeasured(vec![EMULATED.to_owned()]));
    assert!(claim.run.as_ref().unwrap().ends_with(", on a machine that is not emulated"), "{:?}", claim.run);
    let answers = per_io(&claim);
    let texts: Vec<&str> = answers.iter().map(|(text, _)| text.as_str()).collect();
    let expected = [
        "kernel/sched/: hybrid more than interrupt",
        "kernel/sched/: hybrid more than poll",
        "kernel/sched/: poll less than 0.1 of interrupt",
        "block/: interrupt less than hybrid",
        "block/: hybrid less than poll",
        "drivers/nvme/host/: interrupt less than hybrid",
        "drivers/nvme/host/: hybrid less than poll",
        "kernel/time/: hybrid more than interrupt",
        "kernel/time/: hybrid more than poll",
    ];
    assert_eq!(texts, expected, "no total at one thread");
    assert!(answers.iter().all(|(_, answer)| *answer == "holds"), "{answers:?}");
    // The other half is per second, and no figure of it is told.
    let rates: Vec<&Part> = claim.parts.iter().filter(|part| !part.text.contains("per I/O")).collect();
    assert_eq!(rates.len(), 9);
    for part in rates {
        assert_eq!(part.answer, Answer::NotMeasured(vec![EMULATED.to_owned()]));
        assert!(part.figures.iter().all(|figure| figure.mean.is_none() && figure.interval.is_none()));
    }
}

#[test]
fn poll22_5_fails_part_by_part() {
    let mut modes = PAPER;
    // Poll spins little, and enters the scheduler.
    modes[1].2[0] = 800;
    modes[1].2[2] = 200;
    let claim = decided(&profiled(1, modes), &EMULATOR, "poll22-5");
    assert_eq!(claim.answer, Answer::DoesNotHold);
    let fails: Vec<String> =
        per_io(&claim).into_iter().filter(|(_, answer)| *answer == "does not hold").map(|(text, _)| text).collect();
    assert_eq!(fails, ["kernel/sched/: poll less than 0.1 of interrupt", "block/: hybrid less than poll"]);
}

#[test]
fn poll22_5_needs_profiles_and_a_device_on_which_interrupt_sleeps() {
    let mut trials = profiled(1, PAPER);
    for trial in &mut trials[..4] {
        let Outcome::Measured(one) = &mut trial.outcome else { panic!() };
        one.costs = None;
    }
    let claim = decided(&trials, &REAL, "poll22-5");
    let one = Answer::Undecided("a test needs two replicates of each cell".to_owned());
    assert_eq!(
        (&claim.parts[0].answer, claim.parts[0].figures[1].replicates),
        (&one, 1),
        "one profile is one replicate"
    );
    for trial in &mut trials[4..5] {
        let Outcome::Measured(one) = &mut trial.outcome else { panic!() };
        one.costs = None;
    }
    let Answer::NotMeasured(missing) = decided(&trials, &REAL, "poll22-5").answer else { panic!() };
    let lack = "posix-sio/syscall/interrupt, randread 4k iodepth 1 numjobs 1 (loads and stores per I/O, kernel/sched/ in 0 of 5 \
                verified trials)";
    assert_eq!(missing[0], lack);
    let mut fast = PAPER;
    fast[0].1 = 0.1;
    let claim = decided(&profiled(1, fast), &EMULATOR, "poll22-5");
    let part = claim.parts.iter().find(|part| part.text.contains("less than 0.1 of")).unwrap();
    let Answer::NotMeasured(missing) = &part.answer else { panic!() };
    assert!(missing[0].starts_with("a device slow enough that interrupt sleeps (0.10 context switches per I/O"));
}

#[test]
fn times_of_an_emulated_store_decide_nothing_and_are_not_told() {
    let trials: Vec<Trial> = BASIC
        .iter()
        .flat_map(|row| {
            let switches = f64::from(u8::from(!row.path.ends_with("poll")));
            let measured = Measured { mean_us: row.latency_us, iops: row.iops, switches, ..Measured::default() };
            cell(row.path, &workload(Rw::Randread, row.numjobs), measured, &QUIET)
        })
        .collect();
    assert_eq!(decided(&trials, &REAL, "poll22-1").answer, Answer::Holds);
    let claims = decide(&trials, &EMULATOR);
    let claim = claims.iter().find(|claim| claim.id == "poll22-1").unwrap();
    assert_eq!(claim.answer, Answer::NotMeasured(vec!["emulated: times mean nothing".to_owned()]));
    assert!(claim.parts.iter().flat_map(|part| &part.figures).all(|figure| figure.mean.is_none()));
    // Context switches are counts.
    assert_eq!(claims.iter().find(|claim| claim.id == "poll22-4").unwrap().answer, Answer::Holds);
    let text = crate::render::claims(std::slice::from_ref(claim));
    assert!(text.contains("missing: emulated: times mean nothing"), "{text}");
    // What the paper printed stays beside; of what was measured nothing is there.
    let row = text.lines().find(|line| line.contains("mean latency: posix-sio/syscall/poll less")).unwrap();
    assert_eq!(row.split_whitespace().rev().take(5).collect::<Vec<_>>(), ["10.1", "/", "8.1", "-", "-"], "{row}");
}

#[test]
fn calls_and_times_are_no_loads() {
    let mut trials = profiled(1, PAPER);
    for trial in &mut trials {
        let Outcome::Measured(one) = &mut trial.outcome else { panic!() };
        let costs = one.costs.as_mut().unwrap();
        costs.kinds = vec![iopj_core::CostKind::CpuTime];
        costs.functions.iter_mut().for_each(|function| function.cost = Cost { cpu_ns: 5, ..Cost::default() });
    }
    let Answer::NotMeasured(missing) = decided(&trials, &REAL, "poll22-5").answer else { panic!() };
    assert!(missing[0].contains("in 0 of 5 verified trials"), "{missing:?}");
}
