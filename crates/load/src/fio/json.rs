//! Reads what fio prints with `--output-format=json+`; knows nothing of how fio was run.
//!
//! The format is that of fio's `stat.c` (`show_thread_status_json`), versions 3.28 to 3.42. fio prints notes
//! before the JSON and `-nan` within it, and fields come and go between versions. So a missing field counts
//! as nothing, and only a text without jobs is an error.

use super::FioError;
use hdrhistogram::Histogram;
use serde_json::Value;
use std::collections::BTreeMap;

/// What fio reports of one run, all jobs together.
#[derive(Clone, Debug, PartialEq)]
pub struct FioOutput {
    /// fio's version as it prints it, such as `fio-3.33`.
    pub fio_version: String,
    /// The reads.
    pub reads: Direction,
    /// The writes.
    pub writes: Direction,
    /// Latency of flushes and fsyncs, whose number is that of its histogram; absent where there were none.
    pub syncs: Option<FioLatency>,
    /// CPU time in user space in per cent of a job's run time, the mean over jobs.
    pub usr_cpu: f64,
    /// CPU time in the kernel in per cent of a job's run time, the mean over jobs.
    pub sys_cpu: f64,
    /// Context switches of all jobs, voluntary and involuntary.
    pub ctx: u64,
    /// The first job error, an errno; 0 is none.
    pub error: i32,
    /// Errors of I/Os in all jobs.
    pub total_errors: u64,
    /// Share of I/Os in per cent by the depth that fio saw, its keys (`1`, `2`, … `>=64`); the mean over
    /// jobs.
    pub iodepth_level: BTreeMap<String, f64>,
    /// Length of the window in ns: the longest run time of any direction. fio counts in ms.
    pub window_ns: u64,
    /// The jobs' progress each time that fio reported it (`--status-interval`), last at its end.
    pub series: Vec<FioProgress>,
}

/// The progress of fio's jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FioProgress {
    /// How long they have run, in ns. fio counts in ms.
    pub window_ns: u64,
    /// I/Os since they began.
    pub ios: u64,
}

/// The I/Os of one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct Direction {
    /// I/Os completed.
    pub ios: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// I/Os per second as fio computes them.
    pub iops: f64,
    /// Run time in ns, of the job that ran longest. fio counts in ms.
    pub runtime_ns: u64,
    /// I/Os that moved fewer bytes than asked for.
    pub short_ios: u64,
    /// I/Os that fio dropped.
    pub dropped_ios: u64,
    /// Latency from before submission to the completion seen; absent without I/O.
    pub latency: Option<FioLatency>,
}

/// Latency of the I/Os of one direction in ns.
#[derive(Clone, Debug, PartialEq)]
pub struct FioLatency {
    /// Mean.
    pub mean_ns: f64,
    /// Standard deviation over I/Os.
    pub stddev_ns: f64,
    /// Shortest.
    pub min_ns: u64,
    /// Longest.
    pub max_ns: u64,
    /// Percentiles; absent if fio printed neither them nor bins.
    pub percentiles: Option<Percentiles>,
    /// fio's bins, each at the value that fio names it by: within 1/128 of the true latencies.
    pub histogram: Histogram<u64>,
}

/// Percentiles of latency in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percentiles {
    /// 20 %; absent where fio printed neither it nor bins.
    pub p20_ns: Option<u64>,
    /// Median.
    pub p50_ns: u64,
    /// 80 %; absent where fio printed neither it nor bins.
    pub p80_ns: Option<u64>,
    /// 95 %.
    pub p95_ns: u64,
    /// 99 %.
    pub p99_ns: u64,
    /// 99.9 %.
    pub p99_9_ns: u64,
}

/// Reads fio's output, `json` or `json+`, with any lines of text around it.
///
/// # Errors
/// [`FioError::Output`] if there is no JSON object with jobs in it, or if its bins make no histogram.
pub fn parse(text: &str) -> Result<FioOutput, FioError> {
    let objects = read_objects(text)?;
    let mut series = Vec::with_capacity(objects.len());
    let mut last = None;
    for root in &objects {
        let jobs: Vec<&Value> = entries(root)?.iter().collect();
        let result = pool(version(root), &jobs)?;
        series.push(result.progress());
        last = Some(result);
    }
    last.map(|last| FioOutput { series, ..last }).ok_or_else(|| output_error("holds no JSON"))
}

impl FioOutput {
    pub(super) fn progress(&self) -> FioProgress {
        FioProgress { window_ns: self.window_ns, ios: self.reads.ios.saturating_add(self.writes.ios) }
    }
}

/// The entries of jobs; there is at least one.
pub(super) fn entries(root: &Value) -> Result<&[Value], FioError> {
    let jobs = root.get("jobs").and_then(Value::as_array).filter(|jobs| !jobs.is_empty());
    jobs.map(Vec::as_slice).ok_or_else(|| output_error("holds no jobs"))
}

/// fio's version as it prints it.
pub(super) fn version(root: &Value) -> &str {
    root.get("fio version").and_then(Value::as_str).unwrap_or("unknown")
}

/// The results of jobs that ran at the same time, together.
pub(super) fn pool(fio_version: &str, jobs: &[&Value]) -> Result<FioOutput, FioError> {
    let (mut reads, writes) = (direction(jobs, "read")?, direction(jobs, "write")?);
    let syncs: Vec<&Value> = jobs.iter().filter_map(|job| job.get("sync")).collect();
    // fio 3.33 counts each fdatasync not in `total_ios` but in the next number that it has: as a short read.
    let lat: Vec<&Value> = syncs.iter().filter_map(|sync| sync.get("lat_ns")).collect();
    let miscounted = sum(&lat, "N").saturating_sub(sum(&syncs, "total_ios"));
    reads.short_ios = reads.short_ios.saturating_sub(miscounted);
    Ok(FioOutput {
        fio_version: fio_version.to_owned(),
        window_ns: reads.runtime_ns.max(writes.runtime_ns),
        reads,
        writes,
        syncs: latency(&syncs)?,
        usr_cpu: mean(jobs, "usr_cpu"),
        sys_cpu: mean(jobs, "sys_cpu"),
        ctx: sum(jobs, "ctx"),
        error: jobs
            .iter()
            .map(|job| count(job, "error"))
            .find(|e| *e != 0)
            .map_or(0, |e| e.try_into().unwrap_or(i32::MAX)),
        total_errors: sum(jobs, "total_err"),
        iodepth_level: depths(jobs),
        series: Vec::new(),
    })
}

/// The lines of text that fio printed before the JSON, or all of them if there is none.
pub(super) fn prelude(text: &str) -> impl Iterator<Item = &str> {
    text.lines().take_while(|line| !line.starts_with('{'))
}

pub(super) fn output_error(reason: impl Into<String>) -> FioError {
    FioError::Output(reason.into())
}

/// Every JSON object of a text to which several runs of fio were appended.
///
/// # Errors
/// [`FioError::Output`] if there is none, or if one of them is cut short or is not JSON.
pub(super) fn read_objects(text: &str) -> Result<Vec<Value>, FioError> {
    let objects = objects(text).or_else(|_| objects(&without_nan(text)));
    let objects = objects.map_err(|error| output_error(format!("is not JSON ({error})")))?;
    if objects.is_empty() { Err(output_error("holds no JSON")) } else { Ok(objects) }
}

fn objects(text: &str) -> serde_json::Result<Vec<Value>> {
    let (mut objects, mut rest) = (Vec::new(), text);
    loop {
        let start = rest.split_inclusive('\n').take_while(|line| !line.starts_with('{')).map(str::len).sum();
        rest = &rest[start..];
        let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        match stream.next() {
            Some(object) => objects.push(object?),
            None => return Ok(objects),
        }
        rest = &rest[stream.byte_offset()..];
    }
}

/// `nan`, `inf` and their signs, which C prints and JSON lacks, as `null`.
fn without_nan(json: &str) -> String {
    let mut clean = String::with_capacity(json.len());
    let (mut in_string, mut escaped) = (false, false);
    let mut word = String::new();
    for c in json.chars() {
        if !in_string && (c.is_ascii_alphabetic() || c == '-') {
            word.push(c);
            continue;
        }
        flush(&mut word, &mut clean);
        clean.push(c);
        if c == '"' && !escaped {
            in_string = !in_string;
        }
        escaped = in_string && c == '\\' && !escaped;
    }
    flush(&mut word, &mut clean);
    clean
}

fn flush(word: &mut String, clean: &mut String) {
    let number = matches!(word.trim_start_matches('-').to_ascii_lowercase().as_str(), "nan" | "inf");
    clean.push_str(if number { "null" } else { word });
    word.clear();
}

/// A count; 0 if it is missing, null, negative or not a number. fio prints some counts as floats.
pub(super) fn count(object: &Value, key: &str) -> u64 {
    // The cast saturates and takes NaN to 0.
    object.get(key).and_then(|v| v.as_u64().or_else(|| v.as_f64().map(|f| f as u64))).unwrap_or(0)
}

fn real(object: &Value, key: &str) -> f64 {
    object.get(key).and_then(Value::as_f64).unwrap_or(0.0)
}

fn sum(objects: &[&Value], key: &str) -> u64 {
    objects.iter().map(|object| count(object, key)).fold(0, u64::saturating_add)
}

fn mean(objects: &[&Value], key: &str) -> f64 {
    objects.iter().map(|object| real(object, key)).sum::<f64>() / objects.len().max(1) as f64
}

fn depths(jobs: &[&Value]) -> BTreeMap<String, f64> {
    let levels: Vec<&Value> = jobs.iter().filter_map(|job| job.get("iodepth_level")).collect();
    let keys = levels.iter().filter_map(|level| level.as_object()).flat_map(|level| level.keys());
    keys.map(|key| (key.clone(), mean(&levels, key))).collect()
}

fn direction(jobs: &[&Value], name: &str) -> Result<Direction, FioError> {
    let parts: Vec<&Value> = jobs.iter().filter_map(|job| job.get(name)).collect();
    Ok(Direction {
        ios: sum(&parts, "total_ios"),
        bytes: sum(&parts, "io_bytes"),
        iops: parts.iter().map(|part| real(part, "iops")).sum(),
        runtime_ns: parts
            .iter()
            .map(|part| count(part, "runtime").saturating_mul(1_000_000))
            .max()
            .unwrap_or(0),
        short_ios: sum(&parts, "short_ios"),
        dropped_ios: sum(&parts, "drop_ios"),
        latency: latency(&parts)?,
    })
}

fn latency(parts: &[&Value]) -> Result<Option<FioLatency>, FioError> {
    let parts: Vec<&Value> =
        parts.iter().filter_map(|part| part.get("lat_ns")).filter(|lat| count(lat, "N") > 0).collect();
    let Some(first) = parts.first() else {
        return Ok(None);
    };
    let mut histogram =
        Histogram::new(3).map_err(|error| output_error(format!("needs a histogram: {error}")))?;
    for part in &parts {
        add_bins(part, &mut histogram)?;
    }
    let of_bins = (!histogram.is_empty()).then(|| percentiles_of(&histogram));
    let printed = (parts.len() == 1).then(|| printed_percentiles(first, of_bins)).flatten();
    let (mean_ns, stddev_ns) = pooled(&parts);
    Ok(Some(FioLatency {
        mean_ns,
        stddev_ns,
        min_ns: parts.iter().map(|part| count(part, "min")).min().unwrap_or(0),
        max_ns: parts.iter().map(|part| count(part, "max")).max().unwrap_or(0),
        percentiles: printed.or(of_bins),
        histogram,
    }))
}

/// Mean and standard deviation over the I/Os of all parts.
fn pooled(parts: &[&Value]) -> (f64, f64) {
    let weighted = |value: &dyn Fn(&Value) -> f64| {
        let total: f64 = parts.iter().map(|part| count(part, "N") as f64).sum();
        parts.iter().map(|part| value(part) * count(part, "N") as f64).sum::<f64>() / total
    };
    let mean_ns = weighted(&|part| real(part, "mean"));
    let variance = weighted(&|part| real(part, "stddev").powi(2) + (real(part, "mean") - mean_ns).powi(2));
    (mean_ns, variance.sqrt())
}

fn add_bins(lat: &Value, histogram: &mut Histogram<u64>) -> Result<(), FioError> {
    for (value_ns, ios) in lat.get("bins").and_then(Value::as_object).into_iter().flatten() {
        let bin = value_ns.parse::<u64>().ok().zip(ios.as_u64());
        let (value_ns, ios) =
            bin.ok_or_else(|| output_error(format!("has a bin {value_ns:?} that is not a count")))?;
        if value_ns > LONGEST_NS {
            return Err(output_error(format!("has a bin at {value_ns} ns, longer than any run")));
        }
        histogram
            .record_n(value_ns, ios)
            .map_err(|error| output_error(format!("has a bin {value_ns}: {error}")))?;
        if histogram.len() == u64::MAX {
            return Err(output_error("has bins of more I/Os than can be counted"));
        }
    }
    Ok(())
}

/// About 36 years: bounds the histogram's memory, whatever a file says.
const LONGEST_NS: u64 = 1 << 60;

/// Those that fio printed. Older lists lack the 20th and the 80th, which the bins then give.
fn printed_percentiles(lat: &Value, of_bins: Option<Percentiles>) -> Option<Percentiles> {
    let printed = lat.get("percentile")?.as_object()?;
    let at = |wanted: f64| {
        let near = |key: &str| key.parse::<f64>().is_ok_and(|key| (key - wanted).abs() < 1e-6);
        printed.iter().find(|(key, _)| near(key)).and_then(|(_, value)| value.as_u64())
    };
    Some(Percentiles {
        p20_ns: at(20.0).or(of_bins.and_then(|of_bins| of_bins.p20_ns)),
        p50_ns: at(50.0)?,
        p80_ns: at(80.0).or(of_bins.and_then(|of_bins| of_bins.p80_ns)),
        p95_ns: at(95.0)?,
        p99_ns: at(99.0)?,
        p99_9_ns: at(99.9)?,
    })
}

fn percentiles_of(histogram: &Histogram<u64>) -> Percentiles {
    let at = |quantile| histogram.value_at_quantile(quantile);
    Percentiles {
        p20_ns: Some(at(0.2)),
        p50_ns: at(0.5),
        p80_ns: Some(at(0.8)),
        p95_ns: at(0.95),
        p99_ns: at(0.99),
        p99_9_ns: at(0.999),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Shortened from fio 3.33; the second job made up.
    const OUTPUT: &str = r#"note: both iodepth >= 1 and synchronous I/O engine are selected
{
  "fio version" : "fio-3.33",
  "jobs" : [
    { "jobname" : "a \"nan\"", "error" : 0, "usr_cpu" : 2.0, "sys_cpu" : -nan, "ctx" : 400, "total_err" : 0,
      "iodepth_level" : { "1" : 100.0, ">=64" : 0.0 },
      "read" : { "io_bytes" : 1228800, "iops" : 3000.5, "runtime" : 100, "total_ios" : 300,
        "short_ios" : 64, "drop_ios" : 2,
        "lat_ns" : { "min" : 10, "max" : 90, "mean" : 20.0, "stddev" : 0.0, "N" : 300,
          "percentile" : { "20.000000" : 18, "50.000000" : 20, "95.000000" : 21, "99.000000" : 22, "99.900000" : 23 },
          "bins" : { "20" : 300 } } },
      "write" : { "io_bytes" : 0, "iops" : 0.0, "runtime" : 0, "total_ios" : 0,
        "lat_ns" : { "min" : 0, "N" : 0 } },
      "sync" : { "total_ios" : 0, "lat_ns" : { "min" : 700, "max" : 900, "mean" : 800.5, "stddev" : 1.0, "N" : 63,
        "bins" : { "700" : 60, "900" : 3 } } } }
  ]
}
"#;
    const SECOND: &str = r#", { "error" : 5, "usr_cpu" : 4.0, "ctx" : 1, "total_err" : 3,
      "iodepth_level" : { "1" : 50.0 },
      "read" : { "io_bytes" : 4096, "iops" : 1.0, "runtime" : 120, "total_ios" : 100,
        "lat_ns" : { "min" : 5, "max" : 60, "mean" : 60.0, "stddev" : 0.0, "N" : 100,
          "bins" : { "60" : 100 } } } }
  ]
}"#;

    #[test]
    fn one_job() {
        let result = parse(OUTPUT).unwrap();
        assert_eq!((result.fio_version.as_str(), result.ctx, result.error), ("fio-3.33", 400, 0));
        assert_eq!((result.usr_cpu, result.sys_cpu, result.window_ns), (2.0, 0.0, 100_000_000));
        assert_eq!(result.iodepth_level, BTreeMap::from([("1".into(), 100.0), (">=64".into(), 0.0)]));
        let reads = &result.reads;
        assert_eq!((reads.ios, reads.bytes, reads.iops), (300, 1_228_800, 3000.5));
        assert_eq!((reads.short_ios, reads.dropped_ios), (1, 2));
        let latency = reads.latency.as_ref().unwrap();
        assert_eq!((latency.min_ns, latency.max_ns, latency.mean_ns), (10, 90, 20.0));
        // The 80th is that of the bins: fio did not print it.
        let (p20_ns, p80_ns) = (Some(18), Some(20));
        let expected = Percentiles { p20_ns, p50_ns: 20, p80_ns, p95_ns: 21, p99_ns: 22, p99_9_ns: 23 };
        assert_eq!(latency.percentiles, Some(expected));
        assert_eq!((latency.histogram.len(), latency.histogram.min()), (300, 20));
        assert_eq!((result.writes.ios, &result.writes.latency), (0, &None));
        let syncs = result.syncs.unwrap();
        assert_eq!((syncs.histogram.len(), syncs.mean_ns, syncs.max_ns), (63, 800.5, 900));
    }

    #[test]
    fn several_jobs_are_pooled() {
        let text = OUTPUT.trim_end().strip_suffix("]\n}").unwrap().to_owned() + SECOND;
        let result = parse(&text).unwrap();
        assert_eq!((result.error, result.total_errors, result.ctx), (5, 3, 401));
        assert_eq!((result.usr_cpu, result.window_ns), (3.0, 120_000_000));
        assert_eq!(result.iodepth_level["1"], 75.0);
        let latency = result.reads.latency.unwrap();
        assert_eq!((latency.mean_ns, latency.min_ns, latency.max_ns), (30.0, 5, 90));
        // 300 at 20 and 100 at 60: variance (300 * 10^2 + 100 * 30^2) / 400 = 300.
        assert!((latency.stddev_ns - 300f64.sqrt()).abs() < 1e-9);
        assert_eq!(latency.percentiles.unwrap().p50_ns, 20);
        assert_eq!(latency.percentiles.unwrap().p80_ns, Some(60));
        assert_eq!(latency.percentiles.unwrap().p99_ns, 60);
        assert_eq!(latency.histogram.len(), 400);
    }

    #[test]
    fn the_last_word_is_the_result_and_all_are_its_progress() {
        let early = OUTPUT
            .replace("\"total_ios\" : 300", "\"total_ios\" : 20")
            .replace("\"runtime\" : 100", "\"runtime\" : 7");
        let result = parse(&format!("{early}{OUTPUT}")).unwrap();
        assert_eq!((result.reads.ios, result.window_ns), (300, 100_000_000));
        let series =
            [(7_000_000, 20), (100_000_000, 300)].map(|(window_ns, ios)| FioProgress { window_ns, ios });
        assert_eq!(result.series, series);
    }

    #[test]
    fn text_that_is_not_fio_output_is_refused() {
        for (text, part) in [
            ("", "no JSON"),
            ("fio: failed parsing bs=0\n", "no JSON"),
            ("{ \"jobs\" : [", "is not JSON"),
            ("{}", "no jobs"),
            ("{ \"jobs\" : [] }", "no jobs"),
            (&OUTPUT.replace("\"20\" : 300", "\"x\" : 300"), "bin"),
            (&OUTPUT.replace("\"20\" : 300", "\"18446744073709551615\" : 300"), "longer"),
            (&OUTPUT.replace("\"20\" : 300", "\"20\" : 1, \"30\" : 18446744073709551615"), "more I/Os"),
        ] {
            let message = parse(text).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
        assert_eq!(parse("{ \"jobs\" : [ 7 ] }").unwrap().reads.ios, 0);
        assert_eq!(prelude(OUTPUT).count(), 1);
    }

    proptest! {
        #[test]
        fn text_never_panics(text in "\\PC{0,200}", jobs in "[\\[\\]{}\":,0-9a-z. -]{0,200}") {
            let _ = (parse(&text), parse(&format!("{{\"jobs\":[{{{jobs}")));
        }

        #[test]
        fn truncations_and_mutations_never_panic(
            cut in 0..OUTPUT.len(), at in 0..OUTPUT.len(), with in "\\PC{0,3}|[0-9-]{1,20}",
        ) {
            let _ = parse(&OUTPUT[..cut]);
            let _ = parse(&format!("{}{with}{}", &OUTPUT[..at], &OUTPUT[at + 1..]));
        }

        #[test]
        fn numbers_never_panic(n: u64, bin: u64, ios: u64, mean: f64) {
            let text = OUTPUT.replace("\"20\" : 300", &format!("\"{bin}\" : {ios}, \"7\" : {ios}"));
            let text = text.replace("\"N\" : 300", &format!("\"N\" : {n}"));
            let text = text.replace("20.0", &format!("{mean:e}"));
            let _ = parse(&text);
        }
    }
}
