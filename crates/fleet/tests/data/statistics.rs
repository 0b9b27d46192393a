//! The report's statistics agree with what SciPy 1.17.1 prints for the figures below.

use crate::rows::folder;
use crate::small::{only, report_of, with, write};
use iopj_fleet::report::{Advice, KindReport, WorkloadReport};
use iopj_fleet::testing::fleet::MONTHS;
use iopj_record::Trial;

const PATHS: [&str; 3] =
    ["io_uring/syscall/interrupt", "io_uring/syscall/interrupt+registered", "libaio/syscall/interrupt"];

/// CPU time of an I/O in ns, by depth (1 and 32), path and host.
const CPU_NS: [[[f64; 7]; 3]; 2] = [
    [
        [2400.0, 2450.0, 2380.0, 2500.0, 2420.0, 2460.0, 2440.0],
        [2300.0, 2290.0, 2310.0, 2350.0, 2330.0, 2295.0, 2320.0],
        [2900.0, 3000.0, 2950.0, 3050.0, 2980.0, 2940.0, 3010.0],
    ],
    [
        [1500.0, 1520.0, 1490.0, 1510.0, 1505.0, 1515.0, 1500.0],
        [1495.0, 1522.0, 1488.0, 1514.0, 1500.0, 1518.0, 1499.0],
        [2100.0, 2150.0, 2080.0, 2120.0, 2110.0, 2090.0, 2130.0],
    ],
];

/// I/Os in thousands per second, likewise.
const KIOPS: [[[f64; 7]; 3]; 2] = [
    [
        [90.0, 92.0, 89.0, 91.0, 90.5, 60.0, 90.0],
        [95.0, 96.0, 95.5, 97.0, 95.0, 64.0, 96.0],
        [80.0, 81.0, 79.0, 82.0, 80.5, 55.0, 81.0],
    ],
    [
        [400.0, 404.0, 398.0, 402.0, 401.0, 300.0, 399.0],
        [401.0, 403.0, 399.0, 401.0, 402.0, 299.0, 400.0],
        [350.0, 352.0, 349.0, 351.0, 350.0, 260.0, 350.0],
    ],
];

/// A host's latency over that of the first, and by how much of itself it grows with each store.
const SLOWER: [f64; 7] = [1.00, 1.02, 0.97, 1.01, 0.99, 1.6, 1.03];
const GROWS: [f64; 7] = [0.010, 0.012, 0.008, 0.011, 0.009, 0.010, 0.013];

/// The trial of a host and month with the figures above; none of other paths and workloads.
fn set(trial: &Trial, host: usize, month: usize) -> Option<Trial> {
    let path = PATHS.iter().position(|path| *path == trial.path.to_string())?;
    let depth = [1, 32].iter().position(|depth| *depth == trial.workload.iodepth)?;
    Some(with(trial, |one| {
        one.energy.clear();
        one.ios = (KIOPS[depth][path][host] * 1e4) as u64;
        one.window_ns = 10_000_000_000;
        one.cpu_percent = CPU_NS[depth][path][host] * one.ios as f64 / one.window_ns as f64 * 100.0;
        one.latency.mean = 1e5 * SLOWER[host] * (1.0 + GROWS[host] * month as f64);
    }))
}

fn kind() -> KindReport {
    let made = folder();
    for host in 0..SLOWER.len() {
        for month in 0..MONTHS {
            write(made.path(), 2 + 4 * host, month, |trial| set(trial, host, month).into_iter().collect());
        }
    }
    only(report_of(made.path()))
}

fn of_depth(kind: &KindReport, depth: u32) -> (&WorkloadReport, &Advice) {
    let title = format!(" iodepth {depth} ");
    let one = kind.workloads.iter().find(|one| one.setup.contains(&title)).expect("a set-up");
    (one, one.advice.as_ref().expect("advice"))
}

/// To the eighth digit.
fn near(found: f64, scipy: f64) {
    assert!((found / scipy - 1.0).abs() < 1e-8, "{found} against SciPy's {scipy}");
}

#[test]
fn winners_advice_savings_drift_and_outliers_are_those_of_scipy() {
    let kind = kind();
    let ((shallow, advice), (deep, open)) = (of_depth(&kind, 1), of_depth(&kind, 32));
    // p = max(ttest_rel(best, other).pvalue for each other path), best by the mean over hosts; then Holm over
    // both depths: the lesser one doubled.
    near(shallow.p.unwrap(), 2.0 * 1.157_741_213_940_189_9e-5);
    near(deep.p.unwrap(), 0.735_764_859_879_812_1);
    assert_eq!((shallow.decision, &shallow.best[..]), ("wins", &[PATHS[1].to_owned()][..]));
    assert_eq!((deep.decision, deep.best.len()), ("equal", 2));
    // The same of CPU_NS.
    near(advice.p.unwrap(), 2.0 * 0.000_128_015_595_387_784_1);
    near(open.p.unwrap(), 0.696_270_200_356_555_4);
    assert_eq!((advice.decision, advice.by, advice.hosts, &*advice.path), ("wins", "cpu", 7, PATHS[1]));
    assert_eq!(
        (open.decision, open.rivals.len(), open.rivals.contains(&PATHS[2].to_owned())),
        ("equal", 1, false)
    );
    // 1 - a.mean() / b.mean(), and the q at which ttest_rel(a, q * b).pvalue is 0.05, by optimize.brentq.
    let saving = advice.cpu.unwrap();
    near(saving.share, 0.050_146_627_565_982_54);
    near(saving.low, 0.036_497_181_940_360_56);
    near(saving.high, 0.063_455_537_864_665_3);
    // linregress(days / 30, latency).slope / latency.mean() of each host, then ttest_1samp(slopes, 0).
    let drift = kind.drift.unwrap();
    assert_eq!(drift.hosts, 7);
    near(drift.per_month, 0.010_242_722_541_251_166);
    near(drift.interval.0, 0.008_713_688_107_305_636);
    near(drift.interval.1, 0.011_771_756_975_196_697);
    near(drift.p, 3.284_124_847_016_369_4e-6);
    // (x - median(x)) / median_abs_deviation(x, scale=1 / 1.4826), x the mean latency over its median.
    let [outlier] = &kind.outliers[..] else { panic!("{:?}", kind.outliers) };
    assert_eq!(outlier.host, "host-0022");
    near(outlier.of_kind, 1.581058301524869);
    near(outlier.deviations, 16.579756873724325);
}
