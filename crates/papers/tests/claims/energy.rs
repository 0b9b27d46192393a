//! Claims about energy on constructed stores with known joules: each where it holds, does not, is undecided,
//! and is not measured.

use super::{NOISY, QUIET};
use iopj_core::Scope;
use iopj_core::{Rw, Workload};
use iopj_papers::claims::*;
use iopj_record::Trial;
use iopj_record::testing::cells::{Measured, cell, measurement_of, workload};
use iopj_record::testing::energy::give;

/// The window of the trials of `cell`.
const SECONDS: f64 = 2.0;

/// A cell of a path: its workload, power, IOPS, mean latency and CPU use. Only the power varies.
#[derive(Clone)]
pub(super) struct Made<'a> {
    path: &'a str,
    workload: Workload,
    watts: f64,
    measured: Measured,
}

pub(super) fn trials(cells: &[Made<'_>], spread: &[f64], scope: Scope) -> Vec<Trial> {
    let of = |made: &Made<'_>| {
        let mut trials = cell(made.path, &made.workload, made.measured, &vec![0.0; spread.len()]);
        for (trial, share) in trials.iter_mut().zip(spread) {
            let one = measurement_of(trial);
            one.bytes = one.ios * u64::from(made.workload.bs);
            give(trial, "plug", scope, made.watts * (1.0 + share) * SECONDS);
        }
        trials
    };
    cells.iter().flat_map(of).collect()
}

pub(super) fn decided(trials: &[Trial], id: &str) -> Claim {
    let machine = ClaimContext { cores: 8, emulated: false, ..ClaimContext::default() };
    decide(trials, &machine).into_iter().find(|claim| claim.id == id).unwrap()
}

pub(super) fn answers(claim: &Claim) -> Vec<&'static str> {
    claim.parts.iter().map(|part| part.answer.as_str()).collect()
}

const MODES: [&str; 3] =
    ["posix-sio/syscall/interrupt", "posix-sio/syscall/poll", "posix-sio/syscall/hybrid"];

/// The three completion modes over threads: watts by mode and the CPU use of each.
fn power(by_threads: &[(u32, [f64; 3])], cpu: [f64; 3]) -> Vec<Made<'static>> {
    let of = |(numjobs, watts): &(u32, [f64; 3])| {
        let (numjobs, watts) = (*numjobs, *watts);
        (0..3).map(move |mode| Made {
            path: MODES[mode],
            workload: workload(Rw::Randread, numjobs),
            watts: watts[mode],
            measured: Measured { iops: 1000.0, mean_us: 10.0, cpu_percent: cpu[mode], ..Measured::default() },
        })
    };
    by_threads.iter().flat_map(of).collect()
}

#[test]
fn poll22_3_needs_one_workload_for_each_part() {
    let cpu = [50.0, 99.0, 70.0];
    // Hybrid takes more than poll only with two threads; poll takes less than interrupt only with four.
    let made = power(&[(1, [40.0, 50.0, 45.0]), (2, [50.0, 60.0, 65.0]), (4, [80.0, 70.0, 60.0])], cpu);
    let claim = decided(&trials(&made, &QUIET, Scope::System), "poll22-3");
    assert_eq!((&claim.answer, answers(&claim)), (&Answer::Holds, vec!["holds", "holds"]));
    assert_eq!(claim.parts[0].at, "randread 4k iodepth 1 numjobs 2");
    assert_eq!(claim.parts[1].at, "randread 4k iodepth 1 numjobs 4");
    let means: Vec<f64> = claim.parts[0].figures.iter().filter_map(|figure| figure.mean).collect();
    assert_eq!(means.len(), 5, "CPU use of both, power of both, and their ratio");
    assert!(
        [70.0, 99.0, 65.0, 60.0, 65.0 / 60.0].iter().zip(&means).all(|(a, b)| (a - b).abs() < 1e-9),
        "{means:?}"
    );
    assert_eq!(claim.energy.as_ref().unwrap().to_string(), "system by plug");
    let text = iopj_report::claims(&[claim], true);
    assert!(
        text.contains("energy: system by plug") && text.contains("power, W") || text.contains(" W"),
        "{text}"
    );
}

#[test]
fn poll22_3_does_not_hold_where_power_ranks_as_cpu_use_and_is_undecided_in_noise() {
    let cpu = [50.0, 99.0, 70.0];
    let ranked = power(&[(1, [40.0, 60.0, 50.0]), (2, [50.0, 80.0, 65.0])], cpu);
    let claim = decided(&trials(&ranked, &QUIET, Scope::System), "poll22-3");
    assert_eq!((claim.answer.clone(), answers(&claim)), (Answer::DoesNotHold, vec!["does not hold"; 2]));
    let claim = decided(&trials(&power(&[(1, [40.0, 42.0, 42.0])], cpu), &NOISY, Scope::System), "poll22-3");
    assert!(matches!(claim.answer, Answer::Undecided(_)), "{:?}", claim.answer);
    // Equal power is not more.
    let claim = decided(
        &trials(&power(&[(1, [50.0, 42.0, 42.0])], cpu), &[0.0005, -0.0005, 0.0], Scope::System),
        "poll22-3",
    );
    assert_eq!(answers(&claim), ["undecided", "holds"]);
}

#[test]
fn claims_on_energy_need_a_meter_of_the_whole_system_and_another_is_a_proxy_that_decides_nothing() {
    let made = power(&[(1, [40.0, 60.0, 50.0])], [50.0, 99.0, 70.0]);
    let claim = decided(&trials(&made, &QUIET, Scope::Package), "poll22-3");
    assert_eq!(claim.answer, Answer::NotMeasured(vec!["a system-scope meter".to_owned()]));
    assert!(claim.proxy && claim.parts.len() == 2, "the proxy is shown");
    assert_eq!(claim.energy.as_ref().unwrap().to_string(), "package by plug");
    let text = iopj_report::claims(&[claim], true);
    assert!(
        text.contains("package by plug: less than the whole machine, a proxy that decides nothing"),
        "{text}"
    );
    let claims =
        decide(&trials(&made, &QUIET, Scope::Package), &ClaimContext { cores: 8, ..ClaimContext::default() });
    assert!(
        claims
            .iter()
            .filter(|claim| claim.energy.is_some())
            .all(|claim| matches!(claim.answer, Answer::NotMeasured(_)))
    );
    assert_eq!(claims.iter().filter(|claim| claim.proxy).count(), 8);
    // An emulated store has no energy.
    let machine = ClaimContext { cores: 8, emulated: true, ..ClaimContext::default() };
    let claims = decide(&trials(&made, &QUIET, Scope::System), &machine);
    assert!(claims.iter().all(|claim| claim.energy.is_none()));
}

/// A map of request sizes and threads: for each tile the mode that wins, if any, and the latency of all
/// three.
fn map(tiles: &[(u32, u32, Option<usize>, f64)]) -> Vec<Made<'static>> {
    let of = |(bs, numjobs, winner, mean_us): &(u32, u32, Option<usize>, f64)| {
        let workload = Workload { bs: *bs, ..workload(Rw::Randread, *numjobs) };
        let (winner, mean_us) = (*winner, *mean_us);
        (0..3).map(move |mode| Made {
            path: MODES[mode],
            workload: workload.clone(),
            watts: if winner == Some(mode) { 40.0 } else { 50.0 },
            measured: Measured { iops: 1000.0, mean_us, ..Measured::default() },
        })
    };
    tiles.iter().flat_map(of).collect()
}

const INTERRUPT: Option<usize> = Some(0);
const POLL: Option<usize> = Some(1);
const HYBRID: Option<usize> = Some(2);

#[test]
fn poll22_6_is_decided_from_the_winner_map() {
    let tiles = [
        (1024, 1, POLL, 8.0),
        (1024, 16, POLL, 9.0),
        (2048, 1, POLL, 9.5),
        (4096, 1, POLL, 10.0),
        (4096, 16, None, 50.0),
        (65_536, 1, INTERRUPT, 90.0),
        (65_536, 16, INTERRUPT, 110.0),
        (131_072, 1, INTERRUPT, 120.0),
        (131_072, 16, INTERRUPT, 130.0),
    ];
    let claim = decided(&trials(&map(&tiles), &QUIET, Scope::System), "poll22-6");
    assert_eq!((&claim.answer, answers(&claim)), (&Answer::Holds, vec!["holds", "holds"]));
    let means = |part: usize| {
        claim.parts[part].figures.iter().map(|figure| figure.mean.unwrap()).collect::<Vec<f64>>()
    };
    // Of nine cells one is a tie.
    assert_eq!((means(0), means(1)), (vec![0.0, 8.0], vec![9.125, 112.5]));
    // scipy.stats.mannwhitneyu([8, 9, 9.5, 10], [90, 110, 120, 130]).pvalue
    assert!((claim.parts[1].p.unwrap() - 0.02857142857142857).abs() < 1e-12);
    let mut other = tiles;
    (other[0].2, other[5].2) = (HYBRID, POLL);
    let claim = decided(&trials(&map(&other), &QUIET, Scope::System), "poll22-6");
    assert_eq!(
        (claim.answer.clone(), claim.parts[0].answer.clone()),
        (Answer::DoesNotHold, Answer::DoesNotHold)
    );
    let ties = tiles.map(|(bs, numjobs, _, us)| (bs, numjobs, None, us));
    let claim = decided(&trials(&map(&ties), &QUIET, Scope::System), "poll22-6");
    assert_eq!(answers(&claim), ["undecided", "undecided"]);
    let Answer::NotMeasured(missing) =
        decided(&trials(&map(&tiles[..2]), &QUIET, Scope::System), "poll22-6").answer
    else {
        panic!()
    };
    assert!(missing[0].contains("two request sizes and two thread counts"), "{missing:?}");
    // As many threads as the eight cores are not more than the cores.
    let few = tiles.map(|(bs, numjobs, winner, us)| (bs, numjobs.min(8), winner, us));
    let need = "bytes per joule of all three completion modes with more threads than cores (8)".to_owned();
    let claim = decided(&trials(&map(&few), &QUIET, Scope::System), "poll22-6");
    assert_eq!(claim.answer, Answer::NotMeasured(vec![need]));
}

#[test]
fn poll22_7_is_decided_by_more_than_half_of_the_decided_cells() {
    let least = |hybrid: [f64; 3]| {
        let of = |(bs, watts): (u32, f64)| {
            (0..3).map(move |mode| Made {
                path: MODES[mode],
                workload: Workload { bs, ..workload(Rw::Randread, 2) },
                watts: if mode == 2 { watts } else { 50.0 },
                measured: Measured { iops: 1000.0, mean_us: 10.0, ..Measured::default() },
            })
        };
        let made: Vec<Made> = [4096, 16_384, LARGE].into_iter().zip(hybrid).flat_map(of).collect();
        decided(&trials(&made, &QUIET, Scope::System), "poll22-7")
    };
    let claim = least([60.0, 60.0, 40.0]);
    assert_eq!((&claim.answer, claim.parts.len()), (&Answer::Holds, 1));
    let figures: Vec<f64> = claim.parts[0].figures.iter().filter_map(|figure| figure.mean).collect();
    assert_eq!(figures[..2], [2.0, 3.0]);
    assert!((figures[2] - 66.7).abs() < 0.1, "the share is printed: {figures:?}");
    // Half of the decided cells is not more than half; a tie is not decided.
    assert_eq!(least([60.0, 40.0, 50.0]).answer, Answer::DoesNotHold);
    assert_eq!(least([60.0, 50.0, 50.0]).answer, Answer::Holds);
    assert_eq!(least([50.0; 3]).answer, Answer::Undecided("1 of 1 parts are undecided".to_owned()));
}

/// Cells of these paths under a workload, with their IO/J, all of 1,000 IOPS.
pub(super) fn efficiency<'a>(cells: &[(&'a str, f64)], bs: u32, iodepth: u32, numjobs: u32) -> Vec<Made<'a>> {
    let workload = Workload { bs, iodepth, ..workload(Rw::Randread, numjobs) };
    let made = |(path, ios_per_joule): &(&'a str, f64)| Made {
        path,
        workload: workload.clone(),
        watts: 1000.0 / ios_per_joule,
        measured: Measured { iops: 1000.0, mean_us: 10.0, ..Measured::default() },
    };
    cells.iter().map(made).collect()
}

pub(super) const LARGE: u32 = 131_072;

#[test]
fn iface23_5_decides_the_paths_of_the_kernel_and_misses_kernel_bypass() {
    let at = |libaio: f64, poll: f64| {
        let cells = [
            ("libaio/syscall/interrupt", libaio),
            ("io_uring/syscall/interrupt", 20.0),
            ("io_uring/syscall/poll", poll),
            ("io_uring/sqpoll/poll", 11.0),
            // Not asynchronous, so not among them.
            ("posix-sio/syscall/poll", 99.0),
        ];
        let made = [4, 16].map(|iodepth| efficiency(&cells, LARGE, iodepth, 1)).concat();
        decided(&trials(&made, &QUIET, Scope::System), "iface23-5")
    };
    let claim = at(22.0, 12.0);
    assert_eq!(answers(&claim), ["not measured", "not measured", "not measured", "holds", "holds"]);
    let texts: Vec<&str> = claim.parts[3..].iter().map(|part| part.text.as_str()).collect();
    let rest = ["io_uring/syscall/poll", "io_uring/sqpoll/poll"];
    let text = |other: &str| format!("I/Os per joule: libaio/syscall/interrupt more than {other}");
    assert!(rest.iter().all(|other| texts.contains(&text(other).as_str())), "{texts:?}");
    assert!(matches!(claim.answer, Answer::NotMeasured(_)));
    let claim = at(20.0, 25.0);
    assert_eq!(
        (claim.answer.clone(), answers(&claim)[3..].contains(&"does not hold")),
        (Answer::DoesNotHold, true)
    );
    assert!(answers(&at(19.0, 20.01))[3..].contains(&"undecided"));
}

#[test]
fn iface23_6_leaves_out_small_requests_at_large_depth_on_one_thread() {
    let rings = |sqpoll: f64| {
        [
            ("io_uring/syscall/interrupt", 20.0),
            ("io_uring/syscall/poll", 20.0),
            ("io_uring/sqpoll/interrupt", sqpoll),
            ("io_uring/sqpoll/poll", sqpoll),
        ]
    };
    let of = |depths: &[(u32, f64)], large: f64| {
        let mut made: Vec<Made> =
            depths.iter().flat_map(|(depth, sqpoll)| efficiency(&rings(*sqpoll), 4096, *depth, 1)).collect();
        made.extend(efficiency(&rings(large), LARGE, 31, 1));
        decided(&trials(&made, &QUIET, Scope::System), "iface23-6")
    };
    // At the largest depth submission polling is better, as the paper says; in most other cells it is worse.
    let paper = [(1, 15.0), (2, 15.0), (4, 18.0), (8, 22.0), (16, 18.0), (31, 30.0)];
    let claim = of(&paper, 15.0);
    assert_eq!((claim.answer.clone(), claim.parts.len()), (Answer::Holds, 1 + 2), "{:?}", claim.parts);
    assert_eq!(
        claim.parts[1].text,
        "I/Os per joule: io_uring/sqpoll/interrupt not less than io_uring/syscall/interrupt"
    );
    assert_eq!(claim.parts[1].at, "randread 4k iodepth 31 numjobs 1");
    let figures: Vec<f64> = claim.parts[0].figures.iter().filter_map(|figure| figure.mean).collect();
    assert_eq!(figures[..2], [10.0, 12.0]);
    let mut worse = paper;
    worse[5].1 = 15.0;
    assert_eq!(answers(&of(&worse, 15.0)), ["holds", "does not hold", "does not hold"]);
    let better = paper.map(|(depth, _)| (depth, 25.0));
    assert_eq!(answers(&of(&better, 15.0))[0], "does not hold");
}

#[test]
fn iface23_8_is_decided_by_more_than_half_of_the_cells_part_by_part() {
    let cells = |sio_poll: f64, sio_interrupt: f64, sqpoll: f64| {
        [
            ("posix-sio/syscall/poll", sio_poll),
            ("posix-sio/syscall/interrupt", sio_interrupt),
            ("posix-aio/syscall/interrupt", 14.0),
            ("libaio/syscall/interrupt", 16.0),
            ("io_uring/syscall/interrupt", 17.0),
            ("io_uring/sqpoll/interrupt", sqpoll),
            ("io_uring/sqpoll/poll", sqpoll - 1.0),
        ]
    };
    let of = |sqpoll: f64| {
        let mut made = efficiency(&cells(30.0, 20.0, 19.0), 4096, 1, 8);
        made.extend(efficiency(&cells(18.0, 20.0, sqpoll), LARGE, 1, 8));
        decided(&trials(&made, &QUIET, Scope::System), "iface23-8")
    };
    let claim = of(10.0);
    assert_eq!(answers(&claim), ["holds", "holds", "holds", "holds", "not measured"], "{:?}", claim.parts);
    let claim = of(19.0);
    assert_eq!(
        answers(&claim),
        ["holds", "holds", "holds", "does not hold", "not measured"],
        "{:?}",
        claim.parts
    );
    let few: Vec<Made> = efficiency(&cells(18.0, 20.0, 10.0), LARGE, 1, 8)
        .into_iter()
        .filter(|one| !one.path.starts_with("libaio"))
        .collect();
    let claim = decided(&trials(&few, &QUIET, Scope::System), "iface23-8");
    let need = "energy of 3 verified trials of libaio, randread 128k iodepth 1 numjobs 8";
    assert_eq!(claim.parts[0].answer, Answer::NotMeasured(vec![need.to_owned()]));
}

#[test]
fn iface23_10_asks_for_io_uring_in_reads_and_libaio_in_writes() {
    let of = |reads: f64, writes: f64| {
        let mut made = Vec::new();
        for (rw, uring, libaio) in [(Rw::Randread, reads, 16.0), (Rw::Randwrite, 16.0, writes)] {
            let cells = [
                ("posix-sio/syscall/poll", 99.0),
                ("libaio/syscall/interrupt", libaio),
                ("io_uring/syscall/interrupt", uring),
                ("io_uring/sqpoll/poll", 9.0),
            ];
            let mut cells = efficiency(&cells, 4096, 1, 8);
            cells.iter_mut().for_each(|made| made.workload.rw = rw);
            made.extend(cells);
        }
        answers(&decided(&trials(&made, &QUIET, Scope::System), "iface23-10"))
    };
    assert_eq!(of(20.0, 20.0), ["holds", "holds"]);
    assert_eq!(of(14.0, 20.0), ["does not hold", "holds"]);
    assert_eq!(of(20.0, 14.0), ["holds", "does not hold"]);
    assert_eq!(answers(&decided(&[], "iface23-10")), Vec::<&str>::new());
}

#[test]
fn iface23_9_is_of_every_thread_count_above_one_and_the_single_thread_stands_apart() {
    let cells = |poll: f64| {
        [
            ("posix-sio/syscall/interrupt", 20.0),
            ("posix-sio/syscall/poll", poll),
            ("io_uring/syscall/interrupt", 20.0),
            ("io_uring/syscall/poll", poll),
            ("io_uring/sqpoll/interrupt", 12.0),
            ("io_uring/sqpoll/poll", poll / 2.0),
        ]
    };
    let of = |by_threads: &[(u32, f64)]| {
        let made: Vec<Made> = by_threads
            .iter()
            .flat_map(|(numjobs, poll)| efficiency(&cells(*poll), LARGE, 1, *numjobs))
            .collect();
        decided(&trials(&made, &QUIET, Scope::System), "iface23-9")
    };
    let claim = of(&[(1, 25.0), (8, 15.0), (16, 10.0)]);
    let (apart, counting): (Vec<&Part>, Vec<&Part>) = claim.parts.iter().partition(|part| part.apart);
    assert_eq!((&claim.answer, counting.len()), (&Answer::Holds, 6));
    // On a single thread poll is ahead: shown, but without weight.
    assert!(apart.len() == 3 && apart.iter().all(|part| part.at.ends_with("numjobs 1")), "{apart:?}");
    assert!(apart.iter().all(|part| part.answer == Answer::DoesNotHold), "{apart:?}");
    assert_eq!(of(&[(2, 25.0), (8, 15.0), (16, 10.0)]).answer, Answer::DoesNotHold);
    assert_eq!(of(&[(2, 15.0), (16, 25.0)]).answer, Answer::DoesNotHold);
    assert!(matches!(of(&[(16, 20.0)]).answer, Answer::Undecided(_)));
    assert!(matches!(of(&[(1, 15.0)]).answer, Answer::NotMeasured(_)), "the single thread decides nothing");
    assert!(matches!(of(&[]).answer, Answer::NotMeasured(_)));
}
