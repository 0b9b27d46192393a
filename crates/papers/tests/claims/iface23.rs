//! Claims of `iface23` on constructed stores: each where it holds, does not, and is undecided.

use super::{NOISY, QUIET, decided};
use iopj_core::{Rw, VerdictKind, Workload};
use iopj_papers::claims::*;
use iopj_papers::published::LATENCY;
use iopj_record::Trial;
use iopj_record::testing::cells::{Measured, cell, judge, workload};

/// The paper's latencies as trials, those of one path multiplied by `factor`.
pub(super) fn table_2(spread: &[f64], changed: &str, factor: f64) -> Vec<Trial> {
    let mut trials = Vec::new();
    for row in &LATENCY {
        let factor = if row.path == changed { factor } else { 1.0 };
        for (rw, at) in [(Rw::Randread, 0), (Rw::Randwrite, 2)] {
            let (p50_us, p99_us) = (row.us[at] * factor, row.us[at + 1] * factor);
            trials.extend(cell(
                row.path,
                &workload(rw, 1),
                Measured { p50_us, p99_us, ..Measured::default() },
                spread,
            ));
        }
    }
    trials
}

#[test]
fn iface23_3_holds_on_the_papers_own_figures() {
    let claim = decided(&table_2(&QUIET, "", 1.0), 8, "iface23-3");
    assert_eq!((claim.answer, claim.parts.len()), (Answer::Holds, 6));
    let printed: Vec<f64> =
        claim.parts.iter().flat_map(|part| &part.figures).filter_map(|figure| figure.published).collect();
    assert_eq!(printed, [16.92, 14.08, 23.61, 15.64, 25.32, 15.64, 14.50, 11.11, 15.93, 12.24, 22.33, 12.24]);
    assert!(claim.parts.iter().all(|part| {
        part.figures.iter().all(|figure| (figure.mean.unwrap() - figure.published.unwrap()).abs() < 0.01)
    }));
}

#[test]
fn iface23_3_does_not_hold_where_a_ring_writes_faster_and_is_undecided_in_noise() {
    let claim = decided(&table_2(&QUIET, "io_uring/syscall/poll", 0.5), 8, "iface23-3");
    assert_eq!(claim.answer, Answer::DoesNotHold);
    let claim = decided(&table_2(&NOISY, "", 1.0), 8, "iface23-3");
    assert!(matches!(claim.answer, Answer::Undecided(_)), "{:?}", claim.answer);
}

#[test]
fn iface23_4_holds_on_the_papers_own_figures() {
    let claim = decided(&table_2(&QUIET, "", 1.0), 8, "iface23-4");
    // Eight other paths, kernel bypass among them, median and tail, reads and writes.
    assert_eq!((claim.answer, claim.parts.len()), (Answer::Holds, 32));
    assert!(
        claim
            .parts
            .iter()
            .any(|part| part.text == "p99: posix-aio/syscall/interrupt more than spdk/doorbell/poll")
    );
}

#[test]
fn iface23_4_does_not_hold_where_another_path_is_slower_and_is_undecided_in_noise() {
    let claim = decided(&table_2(&QUIET, "libaio/syscall/interrupt", 2.5), 8, "iface23-4");
    assert_eq!(claim.answer, Answer::DoesNotHold);
    let claim = decided(&table_2(&NOISY, "", 1.0), 8, "iface23-4");
    assert!(matches!(claim.answer, Answer::Undecided(_)), "{:?}", claim.answer);
}

#[test]
fn iface23_4_needs_every_interface_but_not_refuted_paths() {
    let mut trials = table_2(&QUIET, "", 1.0);
    for trial in trials.iter_mut().filter(|trial| trial.path.to_string() == "posix-sio/syscall/poll") {
        judge(std::slice::from_mut(trial), VerdictKind::Refuted);
    }
    let claim = decided(&trials, 8, "iface23-4");
    assert_eq!((claim.answer, claim.parts.len()), (Answer::Holds, 28));
    assert_eq!(claim.left_out.text(), "10 refuted");
    trials.retain(|trial| trial.path.interface() != "libaio");
    let Answer::NotMeasured(missing) = decided(&trials, 8, "iface23-4").answer else { panic!() };
    assert_eq!(missing[0], "a verified path of libaio, randread 4k iodepth 1 numjobs 1");
}

/// Cores that sqpoll keeps busy on one thread and on four, and that another path does on one.
fn cores(sqpoll: f64, many: f64, other: f64, spread: &[f64]) -> Vec<Trial> {
    let trials = |path: &str, numjobs: u32, cores: f64| {
        let reads: Workload = workload(Rw::Randread, numjobs);
        cell(path, &reads, Measured { cpu_percent: 100.0 * cores, ..Measured::default() }, spread)
    };
    [
        trials("io_uring/sqpoll/interrupt", 1, sqpoll),
        trials("io_uring/sqpoll/poll", 1, sqpoll),
        trials("io_uring/syscall/interrupt", 1, other),
        trials("io_uring/sqpoll/interrupt", 4, many),
        trials("io_uring/sqpoll/poll", 4, many),
    ]
    .concat()
}

#[test]
fn an_engine_that_chooses_its_way_is_no_path_of_a_paper() {
    let mut trials = cores(2.0, 8.0, 0.6, &QUIET);
    let busy = |path: &str| {
        let measured = Measured { cpu_percent: 150.0, ..Measured::default() };
        cell(path, &workload(Rw::Randread, 1), measured, &QUIET)
    };
    trials.extend(busy("auto"));
    assert_eq!(decided(&trials, 8, "iface23-7").answer, Answer::Holds);
    trials.extend(busy("libaio/syscall/interrupt"));
    assert_eq!(decided(&trials, 8, "iface23-7").answer, Answer::DoesNotHold);
}

#[test]
fn iface23_7_holds_fails_and_is_undecided() {
    let answer = |trials: &[Trial]| decided(trials, 8, "iface23-7").answer;
    assert_eq!(answer(&cores(2.0, 8.0, 0.6, &QUIET)), Answer::Holds);
    assert_eq!(answer(&cores(1.3, 8.0, 0.6, &QUIET)), Answer::DoesNotHold);
    assert_eq!(answer(&cores(2.0, 6.0, 0.6, &QUIET)), Answer::DoesNotHold);
    assert_eq!(answer(&cores(2.0, 8.0, 1.5, &QUIET)), Answer::DoesNotHold);
    // Even with noise, 0.6 cores are fewer than 1.1; that 2 and 8 are within a tenth is not shown.
    assert_eq!(
        answer(&cores(2.0, 8.0, 0.6, &NOISY)),
        Answer::Undecided("4 of 5 parts are undecided".to_owned())
    );
}

#[test]
fn iface23_7_asks_kernel_bypass_for_all_cores_where_each_has_a_thread() {
    let with = |one: f64, many: f64| {
        let mut trials = cores(2.0, 8.0, 0.6, &QUIET);
        // Nothing is asked about four threads on eight cores.
        for (numjobs, cores) in [(1, one), (4, 4.0), (8, many)] {
            let measured = Measured { cpu_percent: 100.0 * cores, ..Measured::default() };
            trials.extend(cell(
                "nvme-user/doorbell/poll",
                &workload(Rw::Randread, numjobs),
                measured,
                &QUIET,
            ));
        }
        decided(&trials, 8, "iface23-7")
    };
    let claim = with(1.0, 8.0);
    assert_eq!((claim.answer, claim.parts.len()), (Answer::Holds, 5 + 2));
    assert_eq!(claim.parts[6].text, "CPU use: nvme-user/doorbell/poll equal to 800 % within 10 %");
    assert_eq!(with(1.0, 5.0).answer, Answer::DoesNotHold);
    assert_eq!(with(2.0, 8.0).answer, Answer::DoesNotHold);
}

#[test]
fn iface23_7_needs_threads_from_half_the_cores_on_and_another_path() {
    let trials = cores(2.0, 8.0, 0.6, &QUIET);
    let Answer::NotMeasured(missing) = decided(&trials, 16, "iface23-7").answer else { panic!() };
    assert_eq!(
        missing[0],
        "io_uring/sqpoll/interrupt, randread 4k iodepth 1 numjobs 8 (no trial; 1 verified needed)"
    );
    let alone: Vec<Trial> =
        trials.into_iter().filter(|trial| trial.path.to_string() != "io_uring/syscall/interrupt").collect();
    let Answer::NotMeasured(missing) = decided(&alone, 8, "iface23-7").answer else { panic!() };
    assert_eq!(missing, ["a verified path that submits by system call, randread 4k iodepth 1 numjobs 1"]);
}

#[test]
fn an_unknown_number_of_cores_is_said_to_be_missing() {
    for (cores, missing) in
        [(0, "a measured trial, which shows the number of cores"), (1, "a machine with at least two cores")]
    {
        let claim = decided(&[], cores, "iface23-7");
        assert_eq!(claim.answer, Answer::NotMeasured(vec![missing.to_owned()]));
        assert_eq!(
            claim.run.unwrap(),
            "iopj run studies/iface23.toml --rw randread --bs 4k --iodepth 1 --numjobs 1,2"
        );
    }
}
