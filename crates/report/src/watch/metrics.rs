//! A watch as families of metrics: counters since the watch began, and gauges of the last interval.

use crate::openmetrics::Family;
use crate::run_metrics::of_power;
use iopj_core::watch::WatchEvidence;
use iopj_record::watch::WatchInterval;

/// The families, from the whole so far and the last interval.
pub fn metrics(whole: &WatchEvidence, last: &WatchInterval) -> Vec<Family> {
    let mut families = vec![Family::info("iopj_watch", "What is watched.", Vec::new())];
    families.extend(of_devices(whole));
    families.extend(of_program(whole));
    families.extend(of_interval(last));
    families
}

fn of_devices(whole: &WatchEvidence) -> Vec<Family> {
    let device = |name: &str| ("device", name.to_owned());
    let (mut ios, mut bytes, mut interrupts, mut completions) = (vec![], vec![], vec![], vec![]);
    for found in &whole.devices {
        let counts = &found.counts;
        let name = device(&counts.name);
        let of = |op: &str| vec![name.clone(), ("op", op.to_owned())];
        ios.extend([(of("read"), counts.reads as f64), (of("write"), counts.writes as f64)]);
        bytes.push((of("read"), counts.read_sectors as f64 * 512.0));
        bytes.push((of("write"), counts.write_sectors as f64 * 512.0));
        interrupts.extend(counts.interrupts.map(|count| (vec![name.clone()], count as f64)));
        let Some(seen) = found.completions else { continue };
        for (context, count) in [
            ("hard_interrupt", seen.hard_interrupt),
            ("soft_interrupt", seen.soft_interrupt),
            ("worker", seen.worker),
            ("thread", seen.thread),
        ] {
            completions.push((vec![name.clone(), ("context", context.to_owned())], count as f64));
        }
    }
    vec![
        Family::counter("iopj_device_ios", "I/Os that the disk completed, of everybody.", ios),
        Family::counter("iopj_device_bytes", "Bytes that the disk moved, of everybody.", bytes),
        Family::counter("iopj_device_interrupts", "Interrupts on the disk's own vectors.", interrupts),
        Family::counter(
            "iopj_device_completions",
            "Requests by the context that completed them, while tracepoints were counted.",
            completions,
        ),
    ]
}

fn of_program(whole: &WatchEvidence) -> Vec<Family> {
    let mut families = Vec::new();
    if let Some(program) = &whole.program {
        let [user, system] = program.cpu();
        let kind = |name: &str| vec![("kind", name.to_owned())];
        families.push(Family::counter(
            "iopj_program_cpu_seconds",
            "CPU time of the program.",
            vec![(kind("user"), user / 1e9), (kind("system"), system / 1e9)],
        ));
        families.push(Family::counter(
            "iopj_program_context_switches",
            "Context switches of the program.",
            vec![(vec![], program.switches as f64)],
        ));
    }
    if let Some(events) = &whole.events {
        let named = events.calls.iter().map(|(name, count)| (vec![("call", name.clone())], *count as f64));
        families.push(Family::counter(
            "iopj_program_io_calls",
            "System calls that do I/O, while tracepoints were counted.",
            named.collect(),
        ));
        let submitters = [("syscall", events.ring_entries), ("sqpoll", events.poller_entries)];
        let entries = submitters.map(|(by, count)| (vec![("submission", by.to_owned())], count as f64));
        families.push(Family::counter(
            "iopj_program_ring_entries",
            "Entries of io_uring that read, write or sync, while tracepoints were counted.",
            entries.into(),
        ));
    }
    families
}

fn of_interval(last: &WatchInterval) -> Vec<Family> {
    let evidence = &last.evidence;
    let mut quantiles = Vec::new();
    for found in &evidence.devices {
        let Some(seen) = found.latency.filter(|seen| seen.count > 0) else { continue };
        for (quantile, ns) in
            [("0.5", seen.p50_ns), ("0.95", seen.p95_ns), ("0.99", seen.p99_ns), ("0.999", seen.p99_9_ns)]
        {
            let labels = vec![("device", found.counts.name.clone()), ("quantile", quantile.to_owned())];
            quantiles.push((labels, ns as f64 / 1e9));
        }
    }
    let paths = last
        .paths
        .iter()
        .map(|path| (vec![("path", path.name()), ("certainty", path.certainty.to_string())], path.share));
    let shares = evidence.events.as_ref().map(|events| (vec![], events.share()));
    vec![
        Family::summary(
            "iopj_device_latency_seconds",
            "Sampled latency from issue to completion.",
            quantiles,
        ),
        Family::gauge("iopj_path_share", "Share of the program's I/O by path.", paths.collect()),
        of_power(&evidence.power),
        Family::gauge(
            "iopj_watch_counted_share",
            "Share of the time for which tracepoints were counted.",
            shares.into_iter().collect(),
        ),
        Family::gauge(
            "iopj_watch_slowdown",
            "Estimated share of the program's time that watching took.",
            vec![(vec![], evidence.cost.slowdown)],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openmetrics::{assert_well_formed, openmetrics};
    use iopj_core::watch::SeenCaching;
    use iopj_record::testing::watches::{evidence, path};

    fn text() -> String {
        let paths = vec![path(SeenCaching::Direct)];
        let last = WatchInterval { end_ns: 2_000_000_000, evidence: evidence(), paths };
        openmetrics(&metrics(&evidence(), &last), &("subject", "a".to_owned()))
    }

    #[test]
    fn counters_end_in_total_and_the_text_in_eof() {
        let text = text();
        for line in [
            "# TYPE iopj_device_ios counter",
            "iopj_device_ios_total{subject=\"a\",device=\"vda\",op=\"read\"} 1000",
            "iopj_device_bytes_total{subject=\"a\",device=\"vda\",op=\"read\"} 4096000",
            "iopj_device_completions_total{subject=\"a\",device=\"vda\",context=\"soft_interrupt\"} 300",
            "iopj_program_io_calls_total{subject=\"a\",call=\"pread64\"} 500",
            "iopj_path_share{subject=\"a\",path=\"posix-sio/syscall/interrupt\",certainty=\"proven\"} 1",
            "iopj_watch_info{subject=\"a\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "`{line}` is missing in: {text}");
        }
        assert!(text.ends_with("\n# EOF\n"));
    }

    #[test]
    fn families_are_well_formed() {
        let last = WatchInterval { end_ns: 1, evidence: evidence(), paths: vec![path(SeenCaching::Direct)] };
        assert_well_formed(&metrics(&evidence(), &last));
    }
}
