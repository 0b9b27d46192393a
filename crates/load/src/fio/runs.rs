//! The runs in fio's JSON, job by job with the options of each: what others measured. What the options mean
//! is left to `import`.

use super::FioError;
use super::json::{FioLatency, FioOutput, count, entries, output_error, pool, read_objects, version};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// One run of fio.
#[derive(Clone, Debug, PartialEq)]
pub struct FioRun {
    /// fio's version as it prints it, such as `fio-3.33`.
    pub fio_version: String,
    /// Wall time at which fio printed the result, in its own words.
    pub time: String,
    /// The same in ms since 1970.
    pub unix_ms: u64,
    /// Whole seconds from the start of the run to its end; 0 if fio does not say.
    pub elapsed_s: u64,
    /// Its jobs in the order in which they were printed.
    pub jobs: Vec<FioJobResult>,
}

/// One job; its clones (`numjobs`) together.
#[derive(Clone, Debug, PartialEq)]
pub struct FioJobResult {
    /// Its name.
    pub name: String,
    /// The number of its reporting group. Jobs of one group ran at the same time.
    pub group: u64,
    /// Its options over the global ones, under fio's main name of each. fio leaves out those that
    /// were given without a value, such as a bare `hipri` (seen with 3.33).
    pub options: BTreeMap<String, String>,
    /// Entries that fio printed for it: one per clone, or one for all under `group_reporting`.
    pub entries: u64,
    /// Start in ms since 1970; absent in versions that do not say.
    pub start_unix_ms: Option<u64>,
    /// Sum of the run times of its threads in ns; 0 if fio does not say.
    pub threads_ns: u64,
    /// True if fio reported reads and writes as one (`unified_rw_reporting`).
    pub unified: bool,
    /// I/Os that were trims.
    pub trims: u64,
    /// Where its percentiles come from.
    pub percentiles: PercentileSource,
    /// What it measured.
    pub result: FioOutput,
}

/// Where a job's percentiles come from. Mean, least and greatest latency are always those from
/// before submission to the completion seen (`lat`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PercentileSource {
    /// They leave out the submission: `clat`, if fio did not run with `lat_percentiles=1`.
    pub completion_only: bool,
    /// There were no bins (`json`, not `json+`): the histogram has a step at each printed percentile.
    pub rebuilt: bool,
}

/// Reads the output of one run of fio, or of several one after the other, `json` or `json+`, with any lines
/// of text around it.
///
/// # Errors
/// [`FioError::Output`] if there is no JSON object with jobs in it, if one is cut short, or if bins make no
/// histogram.
pub fn runs(text: &str) -> Result<Vec<FioRun>, FioError> {
    read_objects(text)?.iter().map(run).collect()
}

fn run(root: &Value) -> Result<FioRun, FioError> {
    let version = version(root);
    let global = root.get("global options").and_then(Value::as_object);
    let mut groups: Vec<(Key, Vec<&Value>)> = Vec::new();
    for entry in entries(root)? {
        if !entry.is_object() {
            return Err(output_error("has a job that is not an object"));
        }
        let key = key(entry, global);
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, clones)) => clones.push(entry),
            None => groups.push((key, vec![entry])),
        }
    }
    let elapsed_s = groups.iter().flat_map(|(_, clones)| clones).map(|entry| count(entry, "elapsed")).max();
    let unix_ms = match count(root, "timestamp_ms") {
        0 => count(root, "timestamp").saturating_mul(1000),
        ms => ms,
    };
    Ok(FioRun {
        fio_version: version.to_owned(),
        time: root.get("time").and_then(Value::as_str).unwrap_or_default().trim().to_owned(),
        unix_ms,
        elapsed_s: elapsed_s.unwrap_or(0),
        jobs: groups.into_iter().map(|(key, clones)| job(version, key, &clones)).collect::<Result<_, _>>()?,
    })
}

/// What the clones of a job have in common: name, group, options.
type Key = (String, u64, BTreeMap<String, String>);

fn key(entry: &Value, global: Option<&Map<String, Value>>) -> Key {
    let own = entry.get("job options").and_then(Value::as_object);
    let options = global.into_iter().chain(own).flatten().map(|(name, value)| (name.clone(), text(value)));
    let name = entry.get("jobname").map(text).unwrap_or_default();
    (name, count(entry, "groupid"), options.collect())
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn job(version: &str, (name, group, options): Key, clones: &[&Value]) -> Result<FioJobResult, FioError> {
    let only_writes =
        options.get("rw").is_some_and(|rw| rw.starts_with("write") || rw.starts_with("randwrite"));
    let mut percentiles = PercentileSource { completion_only: false, rebuilt: false };
    let mut complete: Vec<Value> = clones.iter().map(|entry| (*entry).clone()).collect();
    let unified = complete.iter().any(|entry| entry.get("read").is_none() && entry.get("mixed").is_some());
    for entry in &mut complete {
        if unified && let Some(mixed) = entry.get("mixed").cloned() {
            entry[if only_writes { "write" } else { "read" }] = mixed;
        }
        for direction in ["read", "write"] {
            if let Some(part) = entry.get_mut(direction).and_then(Value::as_object_mut) {
                complete_latency(part, &mut percentiles);
            }
        }
    }
    let mut result = pool(version, &complete.iter().collect::<Vec<_>>())?;
    if percentiles.rebuilt {
        for latency in [&mut result.reads.latency, &mut result.writes.latency].into_iter().flatten() {
            keep_printed(latency, &complete);
        }
    }
    let sum =
        |value: &dyn Fn(&Value) -> u64| clones.iter().map(|entry| value(entry)).fold(0, u64::saturating_add);
    Ok(FioJobResult {
        name,
        group,
        options,
        entries: clones.len() as u64,
        start_unix_ms: clones.iter().map(|entry| count(entry, "job_start")).filter(|ms| *ms > 0).min(),
        threads_ns: sum(&|entry| count(entry, "job_runtime").saturating_mul(1_000_000)),
        unified,
        trims: sum(&|entry| entry.get("trim").map_or(0, |trim| count(trim, "total_ios"))),
        percentiles,
        result,
    })
}

/// Gives `lat_ns` percentiles and bins where fio printed them for `clat_ns` only, and bins where
/// it printed percentiles only.
fn complete_latency(part: &mut Map<String, Value>, source: &mut PercentileSource) {
    let has = |part: &Map<String, Value>, of: &str| {
        part.get(of)
            .is_some_and(|latency| latency.get("percentile").is_some() || latency.get("bins").is_some())
    };
    if part.get("lat_ns").is_none_or(|latency| count(latency, "N") == 0) {
        return;
    }
    if !has(part, "lat_ns") && has(part, "clat_ns") && possible(part) {
        source.completion_only = true;
        for shape in ["percentile", "bins"] {
            if let Some(value) = part.get("clat_ns").and_then(|latency| latency.get(shape)).cloned() {
                part["lat_ns"][shape] = value;
            }
        }
    }
    let Some(latency) = part.get_mut("lat_ns") else { return };
    if latency.get("bins").is_none()
        && let Some(bins) = rebuilt(latency)
    {
        source.rebuilt = true;
        latency["bins"] = bins;
    }
}

/// Drops the 20th and the 80th percentile of rebuilt bins where fio did not print them: such bins say nothing
/// between two printed percentiles.
fn keep_printed(latency: &mut FioLatency, clones: &[Value]) {
    let prints = |latency: &Value, wanted: f64| {
        let percents = latency.get("percentile").and_then(Value::as_object).into_iter().flatten();
        percents.filter_map(|(percent, _)| percent.parse::<f64>().ok()).any(|one| (one - wanted).abs() < 1e-6)
    };
    let all_print = |wanted: f64| {
        let parts = clones.iter().flat_map(|entry| ["read", "write"].map(|direction| entry.get(direction)));
        let latencies = parts.flatten().filter_map(|part| part.get("lat_ns"));
        latencies.filter(|latency| count(latency, "N") > 0).all(|latency| prints(latency, wanted))
    };
    if let Some(percentiles) = &mut latency.percentiles {
        percentiles.p20_ns = percentiles.p20_ns.filter(|_| all_print(20.0));
        percentiles.p80_ns = percentiles.p80_ns.filter(|_| all_print(80.0));
    }
}

/// True if completion takes no longer than submission and completion together: under sqpoll with a ramp, fio
/// 3.33 printed a `clat` of 17 s beside a `lat` of 9 ms. The 64th allows for the width of its bins.
fn possible(part: &Map<String, Value>) -> bool {
    let most_ns = part.get("lat_ns").map_or(0, |latency| count(latency, "max"));
    let median = |clat: &Value| {
        let (_, value) =
            clat.get("percentile")?.as_object()?.iter().find(|(percent, _)| percent.starts_with("50.0"))?;
        value.as_u64()
    };
    part.get("clat_ns").and_then(median).is_none_or(|median| median <= most_ns.saturating_add(most_ns / 64))
}

/// Bins whose percentiles are the printed ones.
fn rebuilt(latency: &Value) -> Option<Value> {
    let mut steps: Vec<(f64, u64)> = Vec::new();
    for (percent, value) in latency.get("percentile")?.as_object()? {
        let percent = percent.parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent))?;
        steps.push((percent, value.as_u64()?));
    }
    steps.sort_by(|a, b| a.0.total_cmp(&b.0));
    steps.push((100.0, count(latency, "max").max(steps.last().map_or(0, |last| last.1))));
    let total = count(latency, "N");
    let (mut bins, mut below) = (BTreeMap::<u64, u64>::new(), 0);
    for (percent, value_ns) in steps {
        // The cast saturates; no step may reach beyond all I/Os.
        let up_to = ((percent / 100.0 * total as f64).ceil() as u64).clamp(below, total);
        *bins.entry(value_ns).or_default() += up_to - below;
        below = up_to;
    }
    let bins = bins.into_iter().filter(|(_, ios)| *ios > 0);
    Some(json!(bins.map(|(value_ns, ios)| (value_ns.to_string(), ios)).collect::<BTreeMap<_, _>>()))
}
