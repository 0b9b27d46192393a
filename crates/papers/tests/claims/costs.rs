//! `poll22-5` from cost profiles, and every claim of an emulated store.

use super::QUIET;
use iopj_analysis::admission::Admission;
use iopj_core::{Cost, Rw};
use iopj_papers::claims::*;
use iopj_papers::published::COMPLETION_MODES;
use iopj_record::Trial;
use iopj_record::testing::cells::{Measured, cell, measurement_of, workload};
use iopj_record::testing::costs::{function, set_counted, set_exact};

const EMULATOR: ClaimContext = ClaimContext { emulated: true, ..REAL };
const REAL: ClaimContext = ClaimContext {
    cores: 4,
    emulated: false,
    in_blocks: false,
    admission: Admission { with_unproven: false, emulated: false },
    looks: 1,
    unlike_hosts: false,
};

fn decided(trials: &[Trial], machine: &ClaimContext, id: &str) -> Claim {
    decide(trials, machine).into_iter().find(|claim| claim.id == id).unwrap()
}

/// Loads per I/O in `block/`, `drivers/nvme/host/`, `kernel/sched/`, `kernel/time/` and elsewhere: the
/// paper's figures for its three modes, over some IOPS.
const PAPER: [(&str, f64, [u64; 5]); 3] = [
    ("interrupt", 1.0, [754, 100, 1168, 127, 3147]),
    ("poll", 0.0, [1328, 362, 72, 38, 3778]),
    ("hybrid", 1.0, [974, 203, 1437, 282, 3710]),
];

/// Five replicates of each mode with these counts, all but the first slightly off.
fn profiled(numjobs: u32, modes: [(&str, f64, [u64; 5]); 3]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for (mode, switches, counts) in modes {
        let path = format!("posix-sio/syscall/{mode}");
        let measured = Measured { switches, iops: 1000.0, ..Measured::default() };
        let mut cell = cell(&path, &workload(Rw::Randread, numjobs), measured, &QUIET);
        for (index, trial) in cell.iter_mut().enumerate() {
            let one = measurement_of(trial);
            let directories = ["block/", "drivers/nvme/host/", "kernel/sched/", "kernel/time/", "lib/"];
            let loads = |count: u64| [0, 1000 * count + index as u64, 0];
            let functions =
                directories.iter().zip(counts).map(|(place, count)| function("f", place, loads(count)));
            set_exact(one, 1000, functions.collect());
        }
        trials.extend(cell);
    }
    trials
}

/// The answers to the parts of `poll22-5` whose text starts like this, by what they compare.
fn answers(claim: &Claim, begins: &str) -> Vec<(String, &'static str)> {
    let part = |part: &Part| {
        let text = part.text.strip_prefix(begins)?;
        Some((text.replace("posix-sio/syscall/", ""), part.answer.as_str()))
    };
    claim.parts.iter().filter_map(part).collect()
}

const PER_SECOND: &str = "loads and stores, ";
const FIXED: &str = "fixed part of loads and stores per I/O, ";

#[test]
fn poll22_5_holds_on_the_papers_own_figures_per_second_at_saturation() {
    let claim = decided(&profiled(32, PAPER), &REAL, "poll22-5");
    assert_eq!((&claim.answer, &claim.run), (&Answer::Holds, &None));
    let parts = answers(&claim, PER_SECOND);
    assert_eq!((parts.len(), &parts[0]), (11, &("total: interrupt less than poll".to_owned(), "holds")));
    assert!(parts.iter().all(|(_, answer)| *answer == "holds"), "{parts:?}");
    // 1,000 I/Os in two seconds, with ten more loads on average.
    assert!(
        (claim.parts[0].figures[0].mean.unwrap() - 5296.01 / 2000.0).abs() < 1e-9,
        "{:?}",
        claim.parts[0]
    );
    // The paper's figures are shown beside.
    let sched =
        claim.parts.iter().find(|part| part.text.starts_with("loads and stores, kernel/sched/")).unwrap();
    assert_eq!(sched.figures[0].published.zip(sched.figures[1].published), Some((786.0, 598.0)));
    assert_eq!(sched.figures[0].unit, "M/s");
    // Parts that were not counted are reported separately, and the claim holds without them.
    let [.., apart] = &claim.parts[..] else { panic!() };
    let need = "exact counts of calls, loads and stores of posix-sio/syscall/interrupt, randread 4k iodepth \
                1 numjobs 32 (`iopj lab run --exact`)";
    assert_eq!((claim.parts.len(), &apart.answer), (12, &Answer::NotMeasured(vec![need.to_owned()])));
    assert!(apart.apart && claim.note.unwrap().contains("per second"));
}

#[test]
fn poll22_5_is_decided_at_saturation_alone() {
    let claim = decided(&profiled(8, PAPER), &REAL, "poll22-5");
    let Answer::NotMeasured(missing) = &claim.answer else { panic!("{:?}", claim.answer) };
    assert_eq!(
        missing[0],
        "posix-sio/syscall/interrupt, randread 4k iodepth 1 numjobs 32 (no trial; 1 verified needed)"
    );
    assert!(claim.run.unwrap().contains("--numjobs 32"));
}

/// Loads per I/O by directory as in [`PAPER`]: the fixed part; spins and sleeps of five replicates.
type Split = (&'static str, [u64; 5], [u64; 5], [f64; 5]);

const SPIN: [u64; 5] = [100, 20, 0, 0, 10];
const SLEEP: [u64; 5] = [0, 0, 900, 50, 5];
const NEVER: [u64; 5] = [0; 5];
/// The cost of a hybrid sleep beyond one that an interrupt ends.
const TIMER: [u64; 5] = [0, 0, 100, 240, 0];
const OFTEN: [f64; 5] = [0.7, 0.9, 1.0, 0.8, 0.6];
const ALWAYS: [f64; 5] = [1.0; 5];

const SPLIT: [Split; 3] = [
    ("interrupt", [700, 100, 300, 120, 3000], NEVER, [0.5, 0.6, 0.7, 0.8, 0.9]),
    ("poll", [750, 110, 60, 38, 3000], [5, 15, 9, 7, 12], [0.0; 5]),
    ("hybrid", [720, 105, 330, 280, 3000], [1, 3, 2, 2, 1], OFTEN),
];

fn split(numjobs: u32, modes: [Split; 3]) -> Vec<Trial> {
    let mut trials = profiled(numjobs, PAPER);
    for (cell, (mode, fixed, spins, sleeps)) in trials.chunks_mut(5).zip(modes) {
        let timer = |at: usize| if mode == "hybrid" { TIMER[at] } else { 0 };
        let sleep: Vec<u64> = (0..5).map(|at| SLEEP[at] + timer(at)).collect();
        for (index, trial) in cell.iter_mut().enumerate() {
            let one = measurement_of(trial);
            let switches = (1000.0 * sleeps[index]) as u64;
            let mut functions = one.costs.as_ref().unwrap().functions.clone();
            for (at, function) in functions.iter_mut().enumerate() {
                function.cost.loads =
                    1000 * (fixed[at] + SPIN[at] * spins[index]) + sleep[at] * switches + index as u64;
            }
            functions[1].function = "nvme_poll".to_owned();
            functions[1].cost.calls = 1000 * spins[index];
            set_counted(one, 1000, functions);
            one.evidence.process.voluntary_switches = switches;
        }
    }
    trials
}

#[test]
fn poll22_5_reports_fixed_parts_apart_and_emulation_leaves_nothing_else() {
    let claim = decided(&split(1, SPLIT), &EMULATOR, "poll22-5");
    assert_eq!(claim.answer, Answer::NotMeasured(vec![EMULATED.to_owned()]));
    assert!(claim.run.as_ref().unwrap().ends_with(", on a machine that is not emulated"), "{:?}", claim.run);
    let found = answers(&claim, FIXED);
    let texts: Vec<&str> = found.iter().map(|(text, _)| text.as_str()).collect();
    let expected = [
        "kernel/sched/: hybrid more than interrupt",
        "kernel/sched/: hybrid more than poll",
        "block/: interrupt less than hybrid",
        "block/: hybrid less than poll",
        "drivers/nvme/host/: interrupt less than hybrid",
        "drivers/nvme/host/: hybrid less than poll",
        "kernel/time/: hybrid more than interrupt",
        "kernel/time/: hybrid more than poll",
    ];
    assert_eq!(texts, expected, "no total at one thread");
    assert!(found.iter().all(|(_, answer)| *answer == "holds"), "{found:?}");
    // The cost of spins and sleeps is subtracted.
    let sched = claim.parts.iter().find(|part| part.text.starts_with(FIXED)).unwrap();
    let means: Vec<f64> = sched.figures.iter().map(|figure| figure.mean.unwrap()).collect();
    assert!((means[0] - 330.0).abs() < 0.1 && (means[1] - 300.0).abs() < 0.1, "{means:?}");
    // The other half is per second, and none of its figures is shown.
    for part in claim.parts.iter().filter(|part| !part.apart) {
        assert_eq!(part.answer, Answer::NotMeasured(vec![EMULATED.to_owned()]));
        assert!(part.figures.iter().all(|figure| figure.mean.is_none() && figure.interval.is_none()));
    }
    let text = iopj_report::claims(std::slice::from_ref(&claim), true);
    let (counting, apart) = text.split_once("  reported separately, not part of the answer:\n").unwrap();
    assert!(
        !counting.contains(FIXED) && apart.contains("fixed part of loads and stores per I/O, kernel/sched/"),
        "{text}"
    );
    assert_eq!(serde_json::to_value(sched).unwrap()["apart"], true);
}

#[test]
fn a_hybrid_sleep_that_never_varies_stays_in_no_fixed_part() {
    let mut modes = SPLIT;
    modes[2].3 = ALWAYS;
    let claim = decided(&split(1, modes), &EMULATOR, "poll22-5");
    let parts: Vec<&Part> = claim.parts.iter().filter(|part| part.apart).collect();
    let need = "trials of posix-sio/syscall/hybrid whose sleeps vary by 0.05 per I/O or more (1.00 to 1.00)";
    assert_eq!(parts.len(), 8);
    assert!(parts.iter().all(|part| part.answer == Answer::NotMeasured(vec![need.to_owned()])), "{parts:?}");
}

#[test]
fn parts_reported_apart_decide_nothing_and_weaken_no_other() {
    let mut modes = SPLIT;
    modes[2].1[0] = 760;
    let apart = decided(&split(32, modes), &REAL, "poll22-5");
    let fails: Vec<String> = answers(&apart, FIXED)
        .into_iter()
        .filter(|(_, answer)| *answer == "does not hold")
        .map(|(text, _)| text)
        .collect();
    assert!(fails.contains(&"block/: hybrid less than poll".to_owned()), "{fails:?}");
    // Holm's correction of the deciding parts is the same without them.
    let mut sampled = split(32, modes);
    for trial in &mut sampled {
        measurement_of(trial).costs.as_mut().unwrap().kinds.remove(0);
    }
    let alone = decided(&sampled, &REAL, "poll22-5");
    let deciding =
        |claim: &Claim| claim.parts.iter().filter(|part| !part.apart).cloned().collect::<Vec<Part>>();
    assert_eq!((deciding(&apart), &apart.answer), (deciding(&alone), &alone.answer));
    assert_eq!((deciding(&apart).len(), apart.parts.len(), alone.parts.len()), (11, 21, 12));
}

#[test]
fn poll22_5_fails_part_by_part() {
    let mut modes = PAPER;
    // Poll spins little, and enters the scheduler.
    modes[1].2[0] = 800;
    modes[1].2[2] = 200;
    let claim = decided(&profiled(32, modes), &REAL, "poll22-5");
    assert_eq!(claim.answer, Answer::DoesNotHold);
    let fails: Vec<String> = answers(&claim, PER_SECOND)
        .into_iter()
        .filter(|(_, answer)| *answer == "does not hold")
        .map(|(text, _)| text)
        .collect();
    let expected = [
        "total: interrupt less than poll",
        "block/: hybrid less than poll",
        "kernel/sched/: poll less than 0.1 of interrupt",
    ];
    assert_eq!(fails, expected);
}

#[test]
fn poll22_5_needs_profiles_and_a_device_on_which_interrupt_sleeps() {
    let mut trials = profiled(32, PAPER);
    let mut without = |range: std::ops::Range<usize>| {
        trials[range].iter_mut().for_each(|trial| measurement_of(trial).costs = None);
        decided(&trials, &REAL, "poll22-5")
    };
    let claim = without(0..4);
    let one = Answer::Undecided("a test needs two replicates of each cell".to_owned());
    assert_eq!(
        (&claim.parts[0].answer, claim.parts[0].figures[0].replicates),
        (&one, 1),
        "one profile is one replicate"
    );
    let Answer::NotMeasured(missing) = without(4..5).answer else { panic!() };
    let lack = "posix-sio/syscall/interrupt, randread 4k iodepth 1 numjobs 32 (loads and stores, total in 0 \
                of 5 verified trials)";
    assert_eq!(missing[0], lack);
    let mut fast = PAPER;
    fast[0].1 = 0.1;
    let claim = decided(&profiled(32, fast), &REAL, "poll22-5");
    let part = claim.parts.iter().find(|part| part.text.contains("less than 0.1 of")).unwrap();
    let Answer::NotMeasured(missing) = &part.answer else { panic!() };
    assert!(
        missing[0].starts_with("a device slow enough that interrupt sleeps (0.10 context switches per I/O")
    );
}

#[test]
fn times_of_an_emulated_store_decide_nothing_and_are_not_shown() {
    let trials: Vec<Trial> = COMPLETION_MODES
        .iter()
        .flat_map(|row| {
            let switches = f64::from(u8::from(!row.path.ends_with("poll")));
            let measured =
                Measured { mean_us: row.latency_us, iops: row.iops, switches, ..Measured::default() };
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
    let text = iopj_report::claims(std::slice::from_ref(claim), true);
    assert!(text.contains("missing: emulated: times mean nothing"), "{text}");
    // The paper's figures are shown beside; no measured figure is.
    let row = text.lines().find(|line| line.contains("mean latency: posix-sio/syscall/poll less")).unwrap();
    assert_eq!(
        row.split_whitespace().rev().take(5).collect::<Vec<_>>(),
        ["10.1", "/", "8.1", "-", "-"],
        "{row}"
    );
}

#[test]
fn calls_and_times_are_no_loads() {
    let mut trials = profiled(32, PAPER);
    for trial in &mut trials {
        let one = measurement_of(trial);
        let costs = one.costs.as_mut().unwrap();
        costs.kinds = vec![iopj_core::CostKind::CpuTime];
        costs.functions.iter_mut().for_each(|function| function.cost = Cost { cpu_ns: 5, ..Cost::default() });
    }
    let Answer::NotMeasured(missing) = decided(&trials, &REAL, "poll22-5").answer else { panic!() };
    assert!(missing[0].contains("in 0 of 5 verified trials"), "{missing:?}");
}
