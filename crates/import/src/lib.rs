//! Results that others measured with fio, as a store: fio's JSON job by job, each with its path and workload.
//!
//! There is no evidence, so a verdict is `unproven`, or `refuted` where fio's own counts contradict the path.
//! `options` knows what a job's options mean; [`iopj_load::fio::runs`] what the JSON holds.

mod contradiction;
mod options;
mod possible;
#[cfg(test)]
mod tests;

pub use contradiction::{KernelVersion, ParseKernelVersionError};

use contradiction::{Polling, polling};
use iopj_core::evidence::{Finding, ProcessEvidence};
use iopj_core::files::read_whole;
use iopj_core::{Evidence, IoPath, Observed, Verdict, VerdictKind, Workload};
use iopj_load::fio::runs::{FioJobResult, FioRun, runs};
use iopj_load::fio::{self, FioError, FioOutput, OLDEST, parse_version};
use iopj_load::latencies::{self, Latencies};
use iopj_probe::Remedy;
use iopj_record::{Generator, Measurement, StudyRecord, Trial};
use iopj_store::{Store, StoreError};
use options::SkipReason;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// How much of a file is read: a job's JSON has some 20 KB.
const MOST_BYTES: u64 = 1 << 30;
/// How many values it may have: each takes up to some 200 bytes of memory, and a job has some 700.
const MOST_VALUES: usize = 1 << 22;
/// Options that make cells differ if they differ within an import.
const DISTINGUISHING: [&str; 3] = ["filename", "directory", "size"];

/// What was imported.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Imported {
    /// The store that was made.
    pub store: PathBuf,
    /// Trials in it.
    pub trials: u64,
    /// Jobs that were left out.
    pub skipped: Vec<Skipped>,
}

impl std::fmt::Display for Imported {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let plural = |count: u64| if count == 1 { "" } else { "s" };
        let (trials, left_out) = (self.trials, self.skipped.len() as u64);
        write!(f, "{trials} trial{} imported, {left_out} job{} left out", plural(trials), plural(left_out))?;
        self.skipped.iter().try_for_each(|skipped| write!(f, "\n  {skipped}"))
    }
}

/// A job that was left out.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Skipped {
    /// The file that it is in.
    pub file: PathBuf,
    /// Its name. It is of foreign origin: escape it where it is shown.
    pub job: String,
    /// Why, as text that follows the name. Partly of foreign origin.
    pub reason: String,
}

impl std::fmt::Display for Skipped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = format!("{}: job `{}` {}", self.file.display(), self.job, self.reason);
        f.write_str(&text.escape_debug().to_string().replace("\\\"", "\"").replace("\\'", "'"))
    }
}

/// Why nothing was imported. Nothing was written then.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each field is")]
pub enum ImportError {
    /// A file cannot be read.
    #[error("`{path}` cannot be read ({error}): name a file that fio wrote")]
    Unreadable { path: PathBuf, error: std::io::Error },
    /// A file is not what fio writes, or a part of it.
    #[error(
        "`{path}` cannot be imported: it {reason}; name a file written by `fio --output-format=json+ \
         --output=FILE`"
    )]
    Foreign { path: PathBuf, reason: String },
    /// The same run is in two files, and would count as two replicates.
    #[error("`{second}` holds a run that `{first}` holds too: name each run once")]
    Twice { first: PathBuf, second: PathBuf },
    /// No job could be mapped: all of them, with the reasons.
    #[error(
        "none of the jobs can be imported: {}",
        .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    )]
    Nothing(Vec<Skipped>),
    /// A file of the store's name is there already.
    #[error("`{0}` exists already: name another file by --store")]
    Exists(PathBuf),
    /// The store cannot be made.
    #[error(transparent)]
    Store(StoreError),
}

/// Makes a store of what fio measured, a trial for each job; several runs of the same cell are replicates.
/// `kernel` is what they ran on, where that is known.
///
/// # Errors
/// [`ImportError`]: a file that is no whole output of fio 3.28 or newer, or a store that cannot be made.
pub fn fio(files: &[PathBuf], store: &Path, kernel: Option<KernelVersion>) -> Result<Imported, ImportError> {
    if store.symlink_metadata().is_ok() {
        return Err(ImportError::Exists(store.to_owned()));
    }
    let mut all: Vec<(&Path, FioRun)> = Vec::new();
    for path in files {
        for run in read(path)? {
            if let Some((first, _)) = all.iter().find(|(_, other)| *other == run) {
                return Err(ImportError::Twice { first: (*first).to_owned(), second: path.clone() });
            }
            all.push((path, run));
        }
    }
    let (trials, skipped) = trials(&all, kernel);
    if trials.is_empty() {
        return Err(ImportError::Nothing(skipped));
    }
    write(store, &record(&all, &trials), &trials)?;
    Ok(Imported { store: store.to_owned(), trials: trials.len() as u64, skipped })
}

/// The trials that [`fio()`] would make of one file with this text, and the jobs that it would leave out.
///
/// # Errors
/// [`ImportError::Foreign`], naming `path`.
pub fn trials_of(path: &Path, text: &str) -> Result<(Vec<Trial>, Vec<Skipped>), ImportError> {
    let all: Vec<(&Path, FioRun)> = parse(path, text)?.into_iter().map(|run| (path, run)).collect();
    Ok(trials(&all, None))
}

fn read(path: &Path) -> Result<Vec<FioRun>, ImportError> {
    let unreadable = |error| ImportError::Unreadable { path: path.to_owned(), error };
    let bytes = read_whole(path, MOST_BYTES).map_err(unreadable)?;
    parse(path, &String::from_utf8(bytes).map_err(|_| foreign(path, "is not text"))?)
}

fn foreign(path: &Path, reason: impl Into<String>) -> ImportError {
    ImportError::Foreign { path: path.to_owned(), reason: reason.into() }
}

fn parse(path: &Path, text: &str) -> Result<Vec<FioRun>, ImportError> {
    if text.bytes().filter(|byte| *byte == b',').count() > MOST_VALUES {
        return Err(foreign(
            path,
            format!("has over {MOST_VALUES} values, so its jobs are to be in several files"),
        ));
    }
    let runs = runs(text).map_err(|error| match error {
        FioError::Output(reason) => foreign(path, reason),
        other => foreign(path, format!("cannot be understood ({other})")),
    })?;
    for run in &runs {
        match parse_version(&run.fio_version) {
            Some(version) if version >= OLDEST => {}
            Some(_) => {
                return Err(foreign(
                    path,
                    format!("is of {}, older than 3.28", run.fio_version.escape_debug()),
                ));
            }
            None => return Err(foreign(path, "names no version of fio")),
        }
    }
    Ok(runs)
}

/// The trials in the order of the files, and the jobs that are none.
fn trials(all: &[(&Path, FioRun)], kernel: Option<KernelVersion>) -> (Vec<Trial>, Vec<Skipped>) {
    let distinguishing = distinguishing(all);
    let (mut trials, mut skipped): (Vec<Trial>, Vec<Skipped>) = (Vec::new(), Vec::new());
    for (file, run) in all {
        for (index, job) in run.jobs.iter().enumerate() {
            let mapped = done(job).and_then(|()| options::map(job));
            let (path, workload) = match mapped.and_then(|cell| whole(run, index, &cell.1).map(|()| cell)) {
                Ok(cell) => cell,
                Err(reason) => {
                    let reason = reason.to_string();
                    skipped.push(Skipped { file: file.to_path_buf(), job: job.name.clone(), reason });
                    continue;
                }
            };
            let settings = settings(run, job, &distinguishing);
            let same = |t: &&Trial| t.path == path && t.workload == workload && t.settings == settings;
            let measurement = measurement(job, (&path, &workload), file, kernel);
            trials.push(Trial {
                replicate: trials.iter().filter(same).count() as u32,
                position: trials.len() as u64,
                started_unix_ns: job.start_unix_ms.unwrap_or(run.unix_ms).saturating_mul(1_000_000),
                generator: Generator::Fio,
                settings,
                ..Trial::new(path, workload, measurement.into())
            });
        }
    }
    (trials, skipped)
}

/// Whether the job did what it was to do.
fn done(job: &FioJobResult) -> Result<(), SkipReason> {
    let result = &job.result;
    if result.error != 0 || result.total_errors > 0 {
        let error = std::io::Error::from_raw_os_error(result.error);
        return Err(SkipReason::Failed { count: result.total_errors, error });
    }
    match result.reads.ios.saturating_add(result.writes.ios) {
        0 if job.trims > 0 => Err("trims".into()),
        ios if ios == 0 || result.window_ns == 0 => Err("did no I/O in its window".into()),
        _ => Ok(()),
    }
}

/// Whether the figures are of this job alone, and complete.
fn whole(run: &FioRun, index: usize, workload: &Workload) -> Result<(), SkipReason> {
    let job = &run.jobs[index];
    if let Some(what) = possible::impossible(job, workload) {
        return Err(what.into());
    }
    let (reads, writes) = (&job.result.reads, &job.result.writes);
    let ios = reads.ios.saturating_add(writes.ios);
    let (bytes, bs) = (reads.bytes.saturating_add(writes.bytes), u64::from(workload.bs));
    // I/Os in flight at the end of the ramp count as bytes, but not as I/Os.
    let in_flight = u64::from(workload.iodepth).saturating_mul(workload.numjobs.into());
    if bytes.abs_diff(ios.saturating_mul(bs)) > in_flight.max(ios / 100).saturating_mul(bs) {
        return Err(SkipReason::Moved { bytes: bytes / ios, bs });
    }
    for direction in [reads, writes].into_iter().filter(|direction| direction.ios > 0) {
        let latency = direction.latency.as_ref().ok_or("has no latency (disable_lat or gtod_reduce)")?;
        latency
            .percentiles
            .ok_or("has no percentiles of latency, or impossible ones: run it with lat_percentiles=1")?;
        if !latency.mean_ns.is_finite() || !latency.stddev_ns.is_finite() {
            return Err("has a mean latency that is not a number".into());
        }
    }
    match run
        .jobs
        .iter()
        .enumerate()
        .find(|(other, job)| *other != index && beside(run, &run.jobs[index], job))
    {
        Some((_, other)) => Err(SkipReason::Beside(other.name.clone())),
        None => Ok(()),
    }
}

/// Whether two jobs of a run ran at the same time. If fio gives no start times, jobs of several groups did if
/// together they ran longer than the whole run.
fn beside(run: &FioRun, one: &FioJobResult, other: &FioJobResult) -> bool {
    if one.group == other.group {
        return true;
    }
    let ms = |job: &FioJobResult| job.result.window_ns / 1_000_000;
    if let (Some(start), Some(other_start)) = (one.start_unix_ms, other.start_unix_ms) {
        let (first, second) = if start <= other_start { (one, other_start) } else { (other, start) };
        let end = first.start_unix_ms.unwrap_or(0).saturating_add(ms(first));
        return second.saturating_add(50) < end;
    }
    run.elapsed_s > 0
        && run.jobs.iter().map(ms).fold(0, u64::saturating_add) > run.elapsed_s.saturating_mul(1000)
}

/// Options, and the version, that differ within the import: they make cells differ.
fn distinguishing(all: &[(&Path, FioRun)]) -> Vec<&'static str> {
    let differs = |name: &&'static str| {
        let values = all.iter().flat_map(|(_, run)| run.jobs.iter().map(|job| job.options.get(*name)));
        values.collect::<BTreeSet<_>>().len() > 1
    };
    let mut names: Vec<&str> = DISTINGUISHING.into_iter().filter(differs).collect();
    if all.iter().any(|(_, run)| run.fio_version != all[0].1.fio_version) {
        names.push("fio_version");
    }
    names
}

fn settings(run: &FioRun, job: &FioJobResult, names: &[&str]) -> BTreeMap<String, String> {
    let value = |name: &str| match name {
        "fio_version" => run.fio_version.clone(),
        option => job.options.get(option).cloned().unwrap_or_else(|| "not given".to_owned()),
    };
    names.iter().map(|name| ((*name).to_owned(), value(name))).collect()
}

/// What fio's own counts say; nothing of the operating system's.
fn evidence(result: &FioOutput, workload: &Workload, latency_sum_ns: u64) -> Evidence {
    let jobs_ns = result.window_ns as f64 * f64::from(workload.numjobs);
    Evidence {
        window_ns: result.window_ns,
        numjobs: workload.numjobs,
        iodepth: workload.iodepth,
        reads: result.reads.ios,
        read_bytes: result.reads.bytes,
        writes: result.writes.ios,
        write_bytes: result.writes.bytes,
        latency_sum_ns,
        process: ProcessEvidence {
            user_ns: (result.usr_cpu / 100.0 * jobs_ns) as u64,
            system_ns: (result.sys_cpu / 100.0 * jobs_ns) as u64,
            voluntary_switches: result.ctx,
            involuntary_switches: 0,
        },
        ..Evidence::default()
    }
}

fn measurement(
    job: &FioJobResult,
    (path, workload): (&IoPath, &Workload),
    file: &Path,
    kernel: Option<KernelVersion>,
) -> Measurement {
    let result = &job.result;
    let Latencies { reads, writes, all } = latencies::of_fio(result);
    let (ios, bytes) = (
        result.reads.ios.saturating_add(result.writes.ios),
        result.reads.bytes.saturating_add(result.writes.bytes),
    );
    let latency_sum_ns = all.mean * ios as f64;
    let unclear = || "imported: no evidence".to_owned();
    let evidence = evidence(result, workload, latency_sum_ns as u64);
    Measurement {
        window_ns: result.window_ns,
        ios,
        bytes,
        reads: result.reads.ios,
        writes: result.writes.ios,
        short_ios: result.reads.short_ios.saturating_add(result.writes.short_ios),
        latency: all,
        read_latency: workload.rw.is_mixed().then_some(reads),
        write_latency: workload.rw.is_mixed().then_some(writes),
        cpu_percent: (result.usr_cpu + result.sys_cpu) * f64::from(workload.numjobs),
        context_switches_per_io: result.ctx as f64 / ios.max(1) as f64,
        achieved_depth: latency_sum_ns / result.window_ns.max(1) as f64,
        preconditioning: workload.writes().then(|| "not known: imported".to_owned()),
        evidence,
        observed: Observed {
            completion: Finding::Unclear(unclear()),
            submission: Finding::Unclear(unclear()),
            doubt: Some(unclear()),
        },
        verdict: verdict(job, path, workload, kernel),
        fio: Some(serde_json::json!({
            "version": result.fio_version,
            "usr_cpu": result.usr_cpu,
            "sys_cpu": result.sys_cpu,
            "ctx": result.ctx,
            "note": fio::note(path),
            "file": file.display().to_string(),
            "job": job.name,
            "options": job.options,
        })),
        ..Measurement::default()
    }
}

fn verdict(job: &FioJobResult, path: &IoPath, workload: &Workload, kernel: Option<KernelVersion>) -> Verdict {
    let mut reasons = reasons(job, path);
    match polling(path, workload, &job.result, kernel) {
        Polling::AsAsked => {}
        Polling::Slept(reason) => {
            reasons.insert(0, reason);
            return Verdict { kind: VerdictKind::Refuted, reasons };
        }
        Polling::SleptPerhapsFirst(reason) => reasons.push(reason),
    }
    Verdict { kind: VerdictKind::Unproven, reasons }
}

fn reasons(job: &FioJobResult, path: &IoPath) -> Vec<String> {
    let mut reasons = vec![Remedy::Measure.after("imported: no evidence")];
    if options::may_hide_flags(path, &job.options) {
        reasons.push(
            "fio's JSON leaves out flags without a value, so a bare `hipri` or `fixedbufs` would not be seen"
                .to_owned(),
        );
    }
    if job.percentiles.completion_only {
        reasons.push("percentiles leave out the submission (clat): lat_percentiles=1 includes it".to_owned());
    }
    if job.percentiles.rebuilt {
        reasons.push(
            "the histogram has a step at each percentile that fio printed: json+ has the bins".to_owned(),
        );
    }
    reasons
}

fn record(all: &[(&Path, FioRun)], trials: &[Trial]) -> StudyRecord {
    let join = |values: BTreeSet<String>| values.into_iter().collect::<Vec<_>>().join(", ");
    let runs = || all.iter().map(|(_, run)| run);
    let targets = runs()
        .flat_map(|run| &run.jobs)
        .filter_map(|job| job.options.get("filename").or(job.options.get("directory")));
    let target = join(targets.cloned().collect());
    StudyRecord {
        name: "import".to_owned(),
        text: "# Imported from fio's JSON: there is nothing to run.\n".to_owned(),
        seed: 0,
        planned_trials: trials.len() as u64,
        target: if target.is_empty() { "not named".to_owned() } else { target },
        file_id: None,
        provenance: BTreeMap::from([
            ("iopj_version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
            ("fio_version".to_owned(), join(runs().map(|run| run.fio_version.clone()).collect())),
            ("fio_time".to_owned(), join(runs().map(|run| run.time.clone()).collect())),
            (
                "imported_from".to_owned(),
                join(all.iter().map(|(file, _)| file.display().to_string()).collect()),
            ),
        ]),
        warnings: vec![
            "imported from fio's JSON, which names neither machine nor drive, and holds no evidence"
                .to_owned(),
        ],
        made_target: false,
        unavailable: Vec::new(),
        emulated: None,
        sequential: None,
        repeats: Vec::new(),
        networks: Vec::new(),
    }
}

fn write(path: &Path, record: &StudyRecord, trials: &[Trial]) -> Result<(), ImportError> {
    Store::create_with(path, record, trials).map_err(|error| match error {
        StoreError::Exists(path) => ImportError::Exists(path),
        StoreError::Full(path) => ImportError::Store(StoreError::NoRoom(path)),
        other => ImportError::Store(other),
    })
}
