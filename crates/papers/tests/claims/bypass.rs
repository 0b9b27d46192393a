//! Claims about kernel bypass on constructed stores: each where it holds, does not, is undecided, and is not
//! measured.

use super::energy::{LARGE, Made, answers, decided as with_energy, efficiency, trials};
use super::iface23::table_2;
use super::{NOISY, QUIET, decided};
use iopj_core::Scope;
use iopj_core::{Rw, VerdictKind, Workload};
use iopj_papers::claims::*;
use iopj_record::Generator;
use iopj_record::Trial;
use iopj_record::testing::cells::{Measured, cell, judge, workload};

const SPDK: &str = "spdk/doorbell/poll";
const NVME_USER: &str = "nvme-user/doorbell/poll";
const BOTH_POLLINGS: &str = "io_uring/sqpoll/poll";

/// IOPS of random reads with 31 in flight, of kernel bypass and of both paths of submission polling.
fn deep(bypass: &str, iops: [f64; 2], spread: &[f64]) -> Vec<Trial> {
    let workload = Workload { iodepth: 31, ..workload(Rw::Randread, 1) };
    let of = |path: &str, iops: f64| cell(path, &workload, Measured { iops, ..Measured::default() }, spread);
    [of(bypass, iops[0]), of("io_uring/sqpoll/interrupt", iops[1]), of(BOTH_POLLINGS, iops[1])].concat()
}

/// Table 2 and the IOPS at large depth, with another path as kernel bypass.
fn by(path: &str, mut trials: Vec<Trial>) -> Vec<Trial> {
    for trial in trials.iter_mut().filter(|trial| trial.path.to_string() == SPDK) {
        trial.path = path.parse().unwrap();
    }
    trials
}

fn all(changed: &str, factor: f64, iops: [f64; 2], spread: &[f64]) -> Vec<Trial> {
    [table_2(spread, changed, factor), deep(SPDK, iops, spread)].concat()
}

/// The trials of one path, as those of another.
fn by_path(trials: &[Trial], path: &str, other: &str) -> Vec<Trial> {
    let own = trials.iter().filter(|trial| trial.path.to_string() == path);
    own.map(|trial| Trial { path: other.parse().unwrap(), ..trial.clone() }).collect()
}

const EQUAL: [f64; 2] = [500_000.0, 498_000.0];

#[test]
fn iface23_1_holds_on_the_papers_own_latencies_by_either_kernel_bypass() {
    let trials = all("", 1.0, EQUAL, &QUIET);
    let claim = decided(&trials, 8, "iface23-1");
    // Eight paths of the kernel in median and tail, reads and writes, the 2 us, and the IOPS of both.
    assert_eq!((&claim.answer, claim.parts.len()), (&Answer::Holds, 32 + 1 + 2));
    assert_eq!(claim.parts[32].text, "p50: io_uring/sqpoll/poll less than 2 us above spdk/doorbell/poll");
    let figures: Vec<_> =
        claim.parts[32].figures.iter().map(|one| (one.published, one.mean.unwrap().round())).collect();
    assert_eq!(figures, [(Some(7.89), 8.0), (Some(6.23), 6.0)]);
    assert_eq!(claim.parts[33].at, "randread 4k iodepth 31 numjobs 1");
    assert!(claim.parts[33].text.contains("not less than spdk/doorbell/poll within 5 %"));
    assert!(claim.run.is_none() && claim.note.unwrap().contains("nvme-user/doorbell/poll"));
    let claim = decided(&by(NVME_USER, trials.clone()), 8, "iface23-1");
    assert_eq!(claim.answer, Answer::Holds);
    assert!(
        claim.parts[0].text.starts_with("p50: nvme-user/doorbell/poll less than"),
        "{}",
        claim.parts[0].text
    );
    // With both, the paper's own decides, and the other is not a kernel path.
    let slow = by(NVME_USER, all(SPDK, 9.0, EQUAL, &QUIET));
    let slow = slow.into_iter().filter(|trial| trial.path.to_string() == NVME_USER);
    let claim = decided(&trials.into_iter().chain(slow).collect::<Vec<_>>(), 8, "iface23-1");
    assert_eq!((claim.answer, claim.parts.len()), (Answer::Holds, 35));
}

#[test]
fn iface23_1_does_not_hold_where_one_part_does_not_and_is_undecided_in_noise() {
    let wrong = |trials: &[Trial]| {
        let claim = decided(trials, 8, "iface23-1");
        assert_eq!(claim.answer, Answer::DoesNotHold);
        (0..claim.parts.len())
            .filter(|part| claim.parts[*part].answer == Answer::DoesNotHold)
            .collect::<Vec<_>>()
    };
    // 9.35 and 11.21 us of reads, 12.66 and 15.6 us of writes are more than some of the kernel's paths take.
    assert!(wrong(&all(SPDK, 1.5, EQUAL, &QUIET)).len() > 4);
    assert_eq!(wrong(&all(BOTH_POLLINGS, 1.2, EQUAL, &QUIET)), [32]);
    assert_eq!(wrong(&all("", 1.0, [500_000.0, 400_000.0], &QUIET)), [33, 34]);
    // One-sided: more is good too.
    assert_eq!(decided(&all("", 1.0, [500_000.0, 700_000.0], &QUIET), 8, "iface23-1").answer, Answer::Holds);
    // Paths that the paper lacks are not asked about.
    let mut more = all("", 1.0, EQUAL, &QUIET);
    more.extend(by_path(&more, "posix-sio/syscall/poll", "nvme-passthrough/syscall/poll"));
    assert_eq!(decided(&more, 8, "iface23-1").parts.len(), 35);
    let claim = decided(&all("", 1.0, EQUAL, &NOISY), 8, "iface23-1");
    assert!(matches!(claim.answer, Answer::Undecided(_)), "{:?}", claim.answer);
    assert!(claim.run.unwrap().ends_with(" --replicates 10"));
}

#[test]
fn what_kernel_bypass_lacks_is_named_and_its_refuted_trials_are_counted() {
    let kernel: Vec<Trial> =
        all("", 1.0, EQUAL, &QUIET).into_iter().filter(|trial| !trial.path.is_bypass()).collect();
    for id in ["iface23-1", "iface23-2"] {
        let claim = decided(&kernel, 8, id);
        let Answer::NotMeasured(missing) = &claim.answer else { panic!("{:?}", claim.answer) };
        assert_eq!(
            missing[0],
            "spdk/doorbell/poll, randread 4k iodepth 1 numjobs 1 (no trial; 1 verified needed)"
        );
        assert!(claim.run.unwrap().contains("--path posix-sio/syscall/interrupt,"));
        // The paper's figures are shown nevertheless.
        assert!(
            claim.parts[0].figures.iter().all(|figure| figure.published.is_some()),
            "{:?}",
            claim.parts[0]
        );
    }
    let mut refuted = by(NVME_USER, all("", 1.0, EQUAL, &QUIET));
    for trial in refuted.iter_mut().filter(|trial| trial.path.is_bypass()) {
        judge(std::slice::from_mut(trial), VerdictKind::Refuted);
    }
    let claim = decided(&refuted, 8, "iface23-1");
    let Answer::NotMeasured(missing) = &claim.answer else { panic!("{:?}", claim.answer) };
    assert!(
        missing[0].starts_with("nvme-user/doorbell/poll, randread 4k iodepth 1 numjobs 1 (5 refuted"),
        "{missing:?}"
    );
    assert_eq!(claim.left_out.text(), "15 refuted", "reads and writes, and the large depth");
    let empty = decided(&[], 8, "iface23-2");
    assert!(matches!(empty.answer, Answer::NotMeasured(_)) && empty.parts.len() == 4, "{empty:?}");
}

#[test]
fn each_generator_has_its_own_kernel_bypass() {
    let native = by(NVME_USER, all("", 1.0, EQUAL, &QUIET));
    let mut fio = all(SPDK, 1.5, EQUAL, &QUIET);
    fio.iter_mut().for_each(|trial| trial.generator = Generator::Fio);
    let claim = decided(&[native, fio].concat(), 8, "iface23-1");
    assert_eq!((claim.answer.clone(), claim.parts.len()), (Answer::DoesNotHold, 70));
    assert!(
        claim.parts[..35].iter().all(|part| part.answer == Answer::Holds && part.at.contains(", native"))
    );
    assert!(
        claim.parts[35..].iter().all(|part| !part.text.contains("nvme-user") && part.at.contains(", fio"))
    );
}

#[test]
fn iface23_2_holds_on_the_papers_own_figures() {
    let claim = decided(&table_2(&QUIET, "", 1.0), 8, "iface23-2");
    // The four of io_uring, and three more that the paper has.
    assert_eq!((claim.answer, claim.parts.len()), (Answer::Holds, 4 + 3));
    for part in &claim.parts {
        for figure in &part.figures {
            let (mean, published) = (figure.mean.unwrap(), figure.published.unwrap());
            assert!((mean - published).abs() < 0.02, "{}: {mean} {published}", figure.of);
        }
        assert_eq!((part.figures[0].published, part.figures[0].unit), (Some(27.52), "%"));
    }
}

#[test]
fn iface23_2_does_not_hold_where_a_ring_is_nearer_and_is_undecided_in_noise() {
    let claim = decided(&table_2(&QUIET, BOTH_POLLINGS, 0.75), 8, "iface23-2");
    assert_eq!(claim.answer, Answer::DoesNotHold);
    let against: Vec<&str> = claim
        .parts
        .iter()
        .filter(|part| part.answer == Answer::DoesNotHold)
        .map(|part| part.figures[1].of.as_str())
        .collect();
    assert_eq!(against, [BOTH_POLLINGS]);
    let claim = decided(&table_2(&NOISY, "", 1.0), 8, "iface23-2");
    assert!(matches!(claim.answer, Answer::Undecided(_)), "{:?}", claim.answer);
    let claim = decided(&table_2(&[0.0], "", 1.0), 8, "iface23-2");
    assert_eq!(
        claim.parts[0].answer,
        Answer::Undecided("a test needs two replicates of each cell".to_owned())
    );
}

/// The trials of kernel bypass and of the kernel's best on one thread: by depth, with its I/Os per joule at
/// 4, 16 and 128 KiB.
fn one_thread(depths: &[(u32, [f64; 3])], spread: &[f64]) -> Vec<Trial> {
    let mut made: Vec<Made<'static>> = Vec::new();
    for (iodepth, bypass) in depths {
        for (bs, bypass) in [4096, 16_384, LARGE].into_iter().zip(*bypass) {
            let cells = [
                (NVME_USER, bypass),
                ("libaio/syscall/interrupt", 20.0),
                ("io_uring/sqpoll/poll", 12.0),
                // Synchronous, and not the paper's, so not among them.
                ("posix-sio/syscall/poll", 99.0),
                ("nvme-passthrough/syscall/poll", 98.0),
            ];
            made.extend(efficiency(&cells, bs, *iodepth, 1));
        }
    }
    trials(&made, spread, Scope::System)
}

fn of_depths(depths: &[(u32, [f64; 3])], spread: &[f64]) -> Claim {
    with_energy(&one_thread(depths, spread), "iface23-5")
}

fn alike(bypass: [f64; 3], spread: &[f64]) -> Claim {
    of_depths(&[(1, bypass), (16, bypass)], spread)
}

#[test]
fn iface23_5_holds_where_the_lead_falls_with_the_size() {
    let claim = alike([40.0, 25.0, 14.0], &QUIET);
    // A lead over each of two, a smaller one, none, and a path with system calls and interrupts ahead of each
    // of two.
    assert_eq!((&claim.answer, answers(&claim)), (&Answer::Holds, vec!["holds"; 6]));
    assert_eq!(
        claim.parts[0].text,
        "I/Os per joule: nvme-user/doorbell/poll more than libaio/syscall/interrupt"
    );
    assert_eq!(claim.parts[0].at, "randread 4k iodepth 1,16 numjobs 1, together");
    let effect = claim.parts[0].effect.unwrap();
    assert!((effect.ratio.unwrap().ratio - 2.0).abs() < 1e-3 && effect.least.unwrap() > 0.0, "{effect:?}");
    let lead = &claim.parts[2];
    assert_eq!(
        (lead.text.as_str(), lead.figures[0].unit),
        ("I/Os per joule: the lead of kernel bypass is more at 4k than at 16k", "times")
    );
    let means: Vec<f64> = lead.figures.iter().map(|figure| figure.mean.unwrap()).collect();
    assert!((means[0] - 2.0).abs() < 0.001 && (means[1] - 1.25).abs() < 0.001, "{means:?}");
    assert_eq!(lead.figures[1].of, "nvme-user/doorbell/poll over libaio/syscall/interrupt, 16k");
}

#[test]
fn iface23_5_does_not_hold_without_a_lead_or_with_one_at_128k_and_is_undecided_in_noise() {
    let of = |bypass: [f64; 3]| {
        let claim = alike(bypass, &QUIET);
        assert_eq!(claim.answer, Answer::DoesNotHold);
        answers(&claim)
    };
    let (yes, no) = ("holds", "does not hold");
    assert_eq!(of([15.0, 14.0, 10.0]), [no, yes, yes, yes, yes, yes]);
    assert_eq!(of([40.0, 50.0, 10.0]), [yes, yes, no, yes, yes, yes]);
    assert_eq!(of([40.0, 25.0, 30.0]), [yes, yes, yes, no, yes, no]);
    let claim = alike([21.0, 20.5, 19.5], &NOISY);
    assert!(matches!(claim.answer, Answer::Undecided(_)), "{:?}", claim.answer);
}

#[test]
fn iface23_5_takes_the_depths_of_a_size_together_within_blocks() {
    // Behind at the large depth, ahead over both: 40 and 18 are 26.8 together.
    let claim = of_depths(&[(1, [40.0, 25.0, 14.0]), (16, [18.0, 16.0, 14.0])], &QUIET);
    assert_eq!(claim.answer, Answer::Holds);
    let ratio = claim.parts[0].effect.unwrap().ratio.unwrap().ratio;
    assert!((ratio - 720f64.sqrt() / 20.0).abs() < 1e-3, "{ratio}");
    // Variation that all trials of a block share hides nothing.
    let trials = one_thread(&[(1, [21.0, 20.5, 19.5]), (16, [21.0, 20.5, 19.5])], &NOISY);
    let machine = ClaimContext { cores: 8, in_blocks: true, ..ClaimContext::default() };
    let blocks = |trials: &[Trial]| {
        decide(trials, &machine).into_iter().find(|claim| claim.id == "iface23-5").unwrap()
    };
    assert_eq!(blocks(&trials).answer, Answer::Holds);
    // Depths that one of the paths lacks are left out, and if there is none at all the answer says so.
    let lame = |depths: &[u32]| -> Vec<Trial> {
        let is_lame = |trial: &Trial| {
            trial.path == iopj_core::IoPath::Libaio && depths.contains(&trial.workload.iodepth)
        };
        trials.iter().filter(|trial| !is_lame(trial)).cloned().collect()
    };
    let claim = blocks(&lame(&[16]));
    let lacks = "2 depths at which every path was measured that was with randread 4k on one thread (iodepth \
                 1; without 16, which libaio/syscall/interrupt lacks)";
    let Answer::NotMeasured(missing) = claim.answer else { panic!("one depth decides: {:?}", claim.parts) };
    assert_eq!((missing[0].as_str(), answers(&blocks(&lame(&[16])))), (lacks, vec!["not measured"; 4]));
    let mut apart = lame(&[16]);
    apart.retain(|trial| !trial.path.is_bypass() || trial.workload.iodepth == 16);
    let Answer::NotMeasured(missing) = blocks(&apart).answer else { panic!() };
    let need = "2 depths at which every path was measured that was with randread 4k on one thread (none; \
                without 1, which nvme-user/doorbell/poll lacks; without 16, which libaio/syscall/interrupt \
                lacks)";
    assert_eq!(missing[0], need);
    // Two of three depths are enough, and the third is named.
    let three = one_thread(&[1, 4, 16].map(|depth| (depth, [40.0, 25.0, 14.0])), &QUIET);
    let lame =
        three.iter().filter(|trial| trial.path != iopj_core::IoPath::Libaio || trial.workload.iodepth != 16);
    let claim = blocks(&lame.cloned().collect::<Vec<Trial>>());
    let at = "randread 4k iodepth 1,4 numjobs 1, together; without 16, which libaio/syscall/interrupt lacks";
    assert_eq!((&claim.answer, claim.parts[0].at.as_str()), (&Answer::Holds, at));
}

#[test]
fn figures_of_several_cells_are_corrected_for_the_looks_of_a_sequential_store() {
    let p = |looks| {
        let machine = ClaimContext { cores: 8, looks, ..ClaimContext::default() };
        let claims = decide(&table_2(&QUIET, "", 1.0), &machine);
        claims.into_iter().find(|claim| claim.id == "iface23-2").unwrap().parts[0].p.unwrap()
    };
    assert!(p(1) < 0.5 && (p(2) / p(1) - 2.0).abs() < 1e-9, "{} {}", p(1), p(2));
}

/// I/Os per joule with eight threads at 128 KiB: of kernel bypass, of the two paths of submission polling,
/// and of the worst of the rest.
fn many_threads(bypass: f64, sqpoll: [f64; 2], rest: f64, spread: &[f64]) -> Claim {
    let cells = |best: [f64; 2], large: [f64; 4]| {
        [
            ("posix-sio/syscall/poll", best[0]),
            ("posix-sio/syscall/interrupt", best[1]),
            ("libaio/syscall/interrupt", 17.0),
            ("io_uring/syscall/poll", large[3]),
            ("io_uring/sqpoll/interrupt", large[0]),
            ("io_uring/sqpoll/poll", large[1]),
            (SPDK, large[2]),
        ]
    };
    let large = [sqpoll[0], sqpoll[1], bypass, rest];
    let mut made = efficiency(&cells([30.0, 20.0], [10.0, 9.0, 12.0, 15.0]), 4096, 1, 8);
    made.extend(efficiency(&cells([18.0, 20.0], large), LARGE, 1, 8));
    with_energy(&trials(&made, spread, Scope::System), "iface23-8")
}

#[test]
fn iface23_8_holds_where_kernel_bypass_and_submission_polling_are_below_the_median() {
    let claim = many_threads(11.0, [10.0, 9.0], 15.0, &QUIET);
    assert_eq!((&claim.answer, answers(&claim)), (&Answer::Holds, vec!["holds"; 5]));
    // Kernel bypass is ahead of the median path.
    let claim = many_threads(17.5, [10.0, 9.0], 15.0, &QUIET);
    assert_eq!((&claim.answer, answers(&claim)[4]), (&Answer::DoesNotHold, "does not hold"));
    let claim = many_threads(14.0, [10.0, 9.0], 15.0, &NOISY);
    assert!(matches!(claim.answer, Answer::Undecided(_)), "{:?}", claim.answer);
}

#[test]
fn iface23_2_and_4_are_about_the_papers_paths() {
    let mut trials = table_2(&QUIET, "", 1.0);
    // One of ours is as close as posix-sio with polling, another as slow as posix-aio: neither is asked
    // about.
    trials.extend(by_path(&trials, "posix-sio/syscall/poll", "nvme-passthrough/syscall/poll"));
    trials.extend(by_path(&trials, "posix-aio/syscall/interrupt", "io_uring/syscall/interrupt+split"));
    for (id, parts) in [("iface23-2", 7), ("iface23-4", 32)] {
        let claim = decided(&trials, 8, id);
        assert_eq!((claim.answer, claim.parts.len()), (Answer::Holds, parts), "{id}");
    }
}
