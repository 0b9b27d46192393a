//! The report of a fleet whose truth is known.

use crate::rows::{folder, gathered};
use iopj_analysis::stats::LEVEL;
use iopj_fleet::report::{FleetReport, KindReport, model, page, report, text};
use iopj_fleet::testing::fleet::{DRIFT_PER_MONTH, DRIVES, Fleet, KERNELS, MONTHS, OUTLIER, PATHS};

/// 24 hosts of one machine, so six of each drive and kernel.
fn of_fleet() -> FleetReport {
    let (made, dataset) = (folder(), folder());
    let fleet = Fleet { stores: 24 * MONTHS, seed: 2, machines: 1, replicates: 1, is_uneven: false };
    fleet.write(made.path()).unwrap();
    let done = gathered(made.path(), dataset.path());
    assert_eq!((done.stores, done.problems.len()), (fleet.stores, 0));
    report(dataset.path()).unwrap()
}

#[test]
fn the_report_finds_what_is_true_of_the_fleet() {
    let report = of_fleet();
    assert_eq!((report.kinds.len(), report.stores), (4, 24 * MONTHS));
    for kind in &report.kinds {
        assert_eq!((kind.hosts, kind.stores, kind.trials), (6, 6 * MONTHS, 600), "{}", kind.kernel);
        let drive = DRIVES.iter().position(|drive| *drive == kind.drive).unwrap();
        let kernel = KERNELS.iter().position(|kernel| *kernel == kind.kernel).unwrap();
        // The hosts of the first drive and kernel are 0, 4, 8, ...: polling is refuted on all of them.
        let is_refuted = (drive, kernel) == (0, 0);
        winners(kind, is_refuted);
        advice(kind, is_refuted);
        outliers(kind, (drive, kernel) == (1, 0));
        drift(kind, drive == 1);
        assert_eq!(kind.refuted, if is_refuted { 6 * 5 * 4 } else { 0 });
        assert!(model(kind).is_ok(), "{:?}", model(kind).err());
    }
    let (words, html) = (text(&report), page(&report));
    for sought in ["host-0005", "io_uring/sqpoll/poll", "latency drifts by", DRIVES[1]] {
        assert!(words.contains(sought) && html.contains(sought), "{sought}");
    }
    // Latency and CPU time of each set-up; what was refuted on every host of a kind has no bar there.
    let setups: usize = report.kinds.iter().map(|kind| kind.workloads.len()).sum();
    assert_eq!(html.matches("<svg class=\"figure\"").count(), 2 * setups);
    let refuted = report.kinds.iter().filter(|kind| kind.refuted > 0);
    let missing: usize = refuted.map(|kind| 2 * kind.workloads.len()).sum();
    assert_eq!(html.matches("class=\"mark bar\"").count(), 2 * setups * PATHS.len() - missing);
}

fn winners(kind: &KindReport, is_refuted: bool) {
    for one in &kind.workloads {
        let deep = if is_refuted { "io_uring/sqpoll/poll" } else { "io_uring/syscall/poll" };
        let expected = if one.setup.contains("iodepth 1 ") { "io_uring/sqpoll/poll" } else { deep };
        assert_eq!((one.decision, &one.best[..]), ("wins", &[expected.to_owned()][..]), "{}", one.setup);
        let poll = one.paths.iter().find(|path| path.path == "io_uring/syscall/poll").unwrap();
        assert_eq!(poll.verified_hosts, if is_refuted { 0 } else { 6 });
    }
}

/// The path with the least joules is that of the least power times latency, which the fleet's table says.
fn advice(kind: &KindReport, is_refuted: bool) {
    for one in &kind.workloads {
        let at = usize::from(!one.setup.contains("iodepth 1 "));
        let joules = |(_, slower, _, power): &(&str, [f64; 2], f64, f64)| slower[at] * power;
        let sound = PATHS.iter().filter(|(path, ..)| !is_refuted || *path != "io_uring/syscall/poll");
        let best = sound.min_by(|a, b| joules(a).total_cmp(&joules(b))).unwrap();
        let plain = PATHS.iter().find(|(path, ..)| *path == "io_uring/syscall/interrupt").unwrap();
        let advice = one.advice.as_ref().unwrap();
        assert_eq!((advice.path.as_str(), advice.by, advice.verified_share), (best.0, "joules", 1.0));
        let (saving, truth) = (advice.joules.unwrap(), 1.0 - joules(best) / joules(plain));
        assert!(saving.low < saving.share && saving.share < saving.high);
        // A mean of 5 trials of 1 % on each of 6 hosts.
        assert!((saving.share - truth).abs() < 0.015, "{} {truth} {saving:?}", one.setup);
        let (latency, truth) = (advice.latency.unwrap(), 1.0 - best.1[at] / plain.1[at]);
        assert!((latency.share - truth).abs() < 0.015, "{} {truth} {latency:?}", one.setup);
    }
}

fn outliers(kind: &KindReport, has_one: bool) {
    let names: Vec<&str> = kind.outliers.iter().map(|one| one.host.as_str()).collect();
    assert_eq!(names, if has_one { vec!["host-0005"] } else { vec![] });
    for one in &kind.outliers {
        assert!((one.of_kind / OUTLIER - 1.0).abs() < 0.08, "{one:?}");
    }
}

fn drift(kind: &KindReport, drifts: bool) {
    let drift = kind.drift.unwrap();
    assert_eq!(drift.hosts, 6);
    assert_eq!(drift.p < LEVEL, drifts, "{drift:?}");
    if drifts {
        // Relative to the mean over the months.
        let truth = DRIFT_PER_MONTH / (1.0 + DRIFT_PER_MONTH * (MONTHS - 1) as f64 / 2.0);
        assert!((drift.per_month - truth).abs() < 0.003, "{truth} {drift:?}");
    }
}
