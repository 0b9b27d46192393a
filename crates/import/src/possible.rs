//! Whether the figures that fio's JSON gives for a job can be true, and true together: a file that was
//! damaged or made up is no result.

use iopj_core::Workload;
use iopj_load::fio::FioLatency;
use iopj_load::fio::runs::FioJobResult;

/// Counts beyond it are no longer exact in the numbers of JSON (RFC 8259, section 6).
const MOST: u64 = 1 << 53;
/// The longest window: a year.
const LONGEST_NS: u64 = 366 * 86_400 * 1_000_000_000;
/// More CPU time than a job has, by far: it has threads of the kernel's beside its own.
const MOST_CPU_PERCENT: f64 = 10_000.0;
/// More jobs than fio starts.
const MOST_JOBS: u32 = 1 << 16;

/// What of a job cannot be, if anything.
pub(super) fn impossible(job: &FioJobResult, workload: &Workload) -> Option<&'static str> {
    let result = &job.result;
    let directions = [&result.reads, &result.writes];
    let counts = directions.iter().flat_map(|one| [one.ios, one.bytes]).chain([result.ctx]);
    if counts.into_iter().any(|count| count > MOST) {
        return Some("has a count beyond any (total_ios, io_bytes, ctx)");
    }
    if result.window_ns > LONGEST_NS {
        return Some("ran for over a year (runtime)");
    }
    if ![result.usr_cpu, result.sys_cpu].iter().all(|cpu| (0.0..=MOST_CPU_PERCENT).contains(cpu)) {
        return Some("has CPU time that cannot be (usr_cpu, sys_cpu)");
    }
    if workload.numjobs > MOST_JOBS {
        return Some("has more jobs than fio starts (numjobs)");
    }
    let depth = u64::from(workload.iodepth).saturating_mul(workload.numjobs.into());
    let mut known = directions.into_iter().filter(|one| one.ios > 0);
    let contradict = known.any(|one| one.latency.as_ref().is_some_and(|of| !fits(of, one.ios, depth)));
    contradict.then_some("has latencies that contradict each other (lat_ns: N, min, max, mean, stddev, bins)")
}

/// Whether a mean, a spread, ends and bins can be of so many I/Os, with up to so many in flight when they
/// began and ended. fio's bins are 1/64 wide.
fn fits(latency: &FioLatency, ios: u64, in_flight: u64) -> bool {
    let FioLatency { mean_ns, stddev_ns, min_ns, max_ns, percentiles, histogram } = latency;
    let wide = |ns: u64| ns.saturating_add(ns / 32) as f64 + 1.0;
    let within = |ns: f64| ns <= wide(*max_ns) && wide(ns as u64) >= *min_ns as f64;
    let slack = in_flight.saturating_mul(2).max(ios / 20).max(1);
    let of_all = histogram.is_empty() || histogram.len().abs_diff(ios) <= slack;
    // The standard deviation of a sample is less than the distance of its ends.
    let spread = (max_ns.saturating_sub(*min_ns)) as f64;
    within(*mean_ns)
        && *mean_ns >= 0.0
        && (0.0..=spread + 1.0).contains(stddev_ns)
        && percentiles.is_none_or(|all| within(all.p50_ns as f64) && all.p99_9_ns as f64 <= wide(*max_ns))
        && of_all
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_load::fio::runs::runs;
    use serde_json::{Value, json};

    /// A job as fio prints it, with one of its values, by its place, replaced.
    fn with(place: &str, value: Value) -> Option<&'static str> {
        let mut root = json!({ "fio version": "fio-3.33", "jobs": [{
            "jobname": "a", "groupid": 0, "usr_cpu": 12.5, "sys_cpu": 30.0, "ctx": 900,
            "job options": { "rw": "randread", "bs": "4k" },
            "read": {
                "io_bytes": 4_096_000, "total_ios": 1000, "runtime": 500,
                "lat_ns": {
                    "min": 10_000, "max": 90_000, "mean": 31_000.5, "stddev": 4000.0, "N": 1000,
                    "bins": { "10000": 100, "30000": 850, "90000": 50 },
                },
            },
        }] });
        if !place.is_empty() {
            *root.pointer_mut(&format!("/jobs/0/{place}")).unwrap() = value;
        }
        let run = runs(&root.to_string()).unwrap();
        impossible(&run[0].jobs[0], &Workload { iodepth: 4, ..Workload::default() })
    }

    /// Each was imported without a word.
    #[test]
    fn figures_that_cannot_be_are_told_from_those_that_can() {
        assert_eq!(with("", Value::Null), None);
        for (place, value) in [
            ("read/total_ios", json!(u64::MAX)),
            ("read/total_ios", json!(1e308)),
            ("read/lat_ns/mean", json!(-1.0)),
            ("read/lat_ns/mean", json!(u64::MAX)),
            ("read/lat_ns/stddev", json!(1e12)),
            ("read/lat_ns/max", json!(20_000)),
            ("read/lat_ns/bins", json!({ "1000000000": 1 })),
            ("read/lat_ns/bins", json!({ "30000": 1 })),
            ("read/runtime", json!(1e308)),
            ("usr_cpu", json!(-1e308)),
            ("sys_cpu", json!(1e308)),
            ("ctx", json!(1e308)),
        ] {
            assert!(with(place, value.clone()).is_some(), "{place} = {value}");
        }
        // What was in flight at the end of the ramp may be missing, and fio rounds.
        for (place, value) in [
            ("read/lat_ns/bins", json!({ "10000": 100, "30000": 846, "90000": 50 })),
            ("read/lat_ns/max", json!(89_000)),
            ("read/lat_ns/stddev", json!(0.0)),
        ] {
            assert_eq!(with(place, value.clone()), None, "{place} = {value}");
        }
    }
}
