//! A store as JSON (the study, its events and its trials) and as CSV, one line of scalars per trial: results
//! can be read without SQLite.
//!
//! Keys are the project's words in snake case, with the unit if a number has one. Rates and
//! shares are per I/O or per second as their keys say; latencies are in ns.

use crate::cell::known;
use crate::corunner_window::CorunnerWindow;
use crate::energy_source::EnergySource;
use crate::export_energy::{ENERGY, ENERGY_SOURCE, energy};
use crate::kind_window::KindWindow;
use crate::latency::Latency;
use crate::open_window::OpenWindow;
use crate::pooled::Pooled;
use crate::trial::{Measurement, Outcome, StudyRecord, Trial};
use iopj_core::evidence::{DeviceEvidence, EngineEvidence, Finding};
use iopj_core::workload::Length;
use iopj_core::{Corunner, CostKind, CostSource, IoPath, OpenLoad, Space};
use serde_json::{Map, Value, json};
use std::io::{self, Write};

/// How much of a trial is exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The figures, the evidence and the verdict.
    Figures,
    /// Histograms, time series and costs by function as well.
    Full,
}

/// The whole store: the study under `study`, what happened to it under `events`, every trial under `trials`.
/// A trial with `in_force` false does not count: a repeat of its block replaces it (`replaced_by` is the
/// repeat's replicate), or it is of a repeat that is not whole.
/// A bin of a histogram is its upper end in ns and its count. If `study` says `emulated`, times are there but
/// mean nothing.
pub fn json(
    study: &StudyRecord,
    trials: &[Trial],
    events: &[(u64, String, String)],
    detail: Detail,
) -> Value {
    json!({
        "study": study,
        "events": events_json(events),
        "trials": trials.iter().map(|trial| trial_json(study, trial, detail)).collect::<Vec<_>>(),
    })
}

/// What the run said while it ran: time, kind and text.
pub fn events_json(events: &[(u64, String, String)]) -> Vec<Value> {
    events
        .iter()
        .map(|(unix_ns, kind, detail)| json!({"unix_ns": unix_ns, "kind": kind, "detail": detail}))
        .collect()
}

/// A trial as JSON, with its rates and with the energy that counts.
pub fn trial_json(study: &StudyRecord, trial: &Trial, detail: Detail) -> Value {
    let mut object = Map::new();
    let mut put = |key: &str, value: Value| object.insert(key.to_owned(), value);
    put("path", json!(trial.path));
    put("interface", json!(trial.path.interface()));
    put("submission", json!(asked(trial, IoPath::submission)));
    put("completion", json!(asked(trial, IoPath::completion)));
    put("workload", json!(trial.workload));
    put("settings", json!(trial.settings));
    put("generator", json!(trial.generator));
    put("replicate", json!(trial.replicate));
    put("in_force", json!(study.is_in_force(trial.replicate)));
    put("replaced_by", json!(study.replaced_by(trial.replicate)));
    put("position", json!(trial.position));
    put("started_unix_ns", json!(trial.started_unix_ns));
    put("gap_ns", json!(trial.gap_ns));
    match &trial.outcome {
        Outcome::Failed(error) => {
            put("status", json!("failed"));
            put("error", json!(error));
        }
        Outcome::Measured(measurement) => {
            put("status", json!("measured"));
            put_measurement(&mut object, measurement, detail);
        }
    }
    Value::Object(object)
}

/// What was asked for of a path, if anything was.
fn asked<T>(trial: &Trial, of: fn(&IoPath) -> T) -> Option<T> {
    trial.path.is_fixed().then(|| of(&trial.path))
}

/// What one kind of jobs did, with its rates.
fn kind_json(kind: &KindWindow, window_ns: u64) -> Value {
    let mut object = json!(kind);
    object["iops"] = json!(kind.iops(window_ns));
    object["mb_per_s"] = json!(kind.mb_per_s(window_ns));
    object
}

fn put_measurement(object: &mut Map<String, Value>, measurement: &Measurement, detail: Detail) {
    let mut put = |key: &str, value: Value| object.insert(key.to_owned(), value);
    put("verdict", json!(measurement.verdict.kind));
    put("verdict_reasons", json!(measurement.verdict.reasons));
    put("conditions", json!(measurement.conditions));
    put("window_ns", json!(measurement.window_ns));
    put("ios", json!(measurement.ios));
    put("bytes", json!(measurement.bytes));
    put("reads", json!(measurement.reads));
    put("writes", json!(measurement.writes));
    put("short_ios", json!(measurement.short_ios));
    put("iops", json!(measurement.iops()));
    put("mb_per_s", json!(measurement.mb_per_s()));
    for (key, latency) in [
        ("latency_ns", measurement.known_latency()),
        ("read_latency_ns", measurement.read_latency.as_ref()),
        ("write_latency_ns", measurement.write_latency.as_ref()),
    ] {
        put(key, latency.map_or(Value::Null, |latency| latency_json(latency, detail)));
    }
    put("cpu_percent", json!(measurement.cpu_percent));
    put("context_switches_per_io", json!(measurement.known_switches_per_io()));
    put("interrupts_per_io", json!(measurement.interrupts_per_io));
    put("system_calls_per_io", json!(measurement.system_calls_per_io));
    put("achieved_depth", json!(measurement.achieved_depth));
    if let Some(corunner) = &measurement.corunner {
        put("corunner", json!(corunner));
        put("corunner_per_s", json!(corunner.per_s()));
        put("corunner_alone_per_s", json!(corunner.alone_per_s()));
        put("corunner_loss_ns_per_io", json!(measurement.corunner_loss_ns_per_io()));
    }
    if !measurement.kinds.is_empty() {
        let window_ns = measurement.window_ns;
        put("kinds", measurement.kinds.iter().map(|kind| kind_json(kind, window_ns)).collect());
    }
    put("program", json!(measurement.program));
    put("preconditioning", json!(measurement.preconditioning));
    put("observed", json!(measurement.observed));
    put("evidence", json!(measurement.evidence));
    put("power_state", json!(measurement.power_state));
    put("fio", json!(measurement.fio));
    put("window_raw_ns", json!(measurement.window_raw_ns));
    put("energy", json!(measurement.energy));
    if detail == Detail::Full {
        put("series", json!(measurement.series));
        put("costs", json!(measurement.costs));
        put("target_costs", json!(measurement.target_costs));
    }
}

fn latency_json(latency: &Latency, detail: Detail) -> Value {
    let mut value = json!(latency);
    if detail == Detail::Full && !latency.histogram.is_empty() {
        let bins = Pooled::of([&latency.histogram[..]]);
        value["histogram"] = bins.bins().map(|bin| json!([bin.high, bin.count])).collect();
    }
    value
}

/// One column of the CSV: its heading and its value for a trial.
type Column = (&'static str, fn(&Trial) -> String);

/// The columns of the CSV. Empty cells mean: not asked for, not measured, or unknown. Names after `device_`
/// are sums over the devices under the target; sectors are of 512 bytes. The power state is that at the
/// trial's start unless the name ends with `_end`.
const COLUMNS: &[Column] = &[
    ("path", |t| t.path.to_string()),
    ("interface", |t| t.path.interface().to_owned()),
    ("submission", |t| known(asked(t, IoPath::submission))),
    ("completion", |t| known(asked(t, IoPath::completion))),
    ("rw", |t| t.workload.rw.to_string()),
    ("rwmixread", |t| t.workload.rwmixread.to_string()),
    ("bs", |t| t.workload.bs.to_string()),
    ("iodepth", |t| t.workload.iodepth.to_string()),
    ("iodepth_batch_submit", |t| t.workload.iodepth_batch_submit.to_string()),
    ("iodepth_batch_complete_min", |t| t.workload.iodepth_batch_complete_min.to_string()),
    ("numjobs", |t| t.workload.numjobs.to_string()),
    ("random_distribution", |t| t.workload.random_distribution.to_string()),
    ("rate_iops", |t| open(t, |open| Some(open.rate_iops))),
    ("rate_process", |t| open(t, |open| Some(open.rate_process))),
    ("rate_iops_end", |t| open(t, |open| open.rate_iops_end)),
    ("burst_on_s", |t| open(t, |open| open.burst.map(|burst| burst.on.as_secs_f64()))),
    ("burst_off_s", |t| open(t, |open| open.burst.map(|burst| burst.off.as_secs_f64()))),
    ("corunner", |t| corunner(t, |one| one.kind)),
    ("corunner_cpus", |t| corunner(t, |one| processors(&one.cpus))),
    ("corunner_nice", |t| corunner(t, |one| one.nice)),
    ("beside", |t| t.workload.beside_text()),
    ("ramp_time_s", |t| t.workload.ramp_time.as_secs_f64().to_string()),
    ("runtime_s", |t| {
        if let Length::Runtime(time) = t.workload.length {
            time.as_secs_f64().to_string()
        } else {
            String::new()
        }
    }),
    (
        "ios_per_job",
        |t| if let Length::Ios(ios) = t.workload.length { ios.to_string() } else { String::new() },
    ),
    ("cpus_allowed", |t| processors(&t.workload.cpus_allowed)),
    ("settings", |t| {
        t.settings.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    }),
    ("generator", |t| t.generator.as_str().to_owned()),
    ("replicate", |t| t.replicate.to_string()),
    ("position", |t| t.position.to_string()),
    ("started_unix_ns", |t| t.started_unix_ns.to_string()),
    ("gap_ns", |t| known(t.gap_ns)),
    ("error", |t| if let Outcome::Failed(error) = &t.outcome { error.clone() } else { String::new() }),
    ("verdict", |t| figure(t, |m| m.verdict.kind.as_str())),
    ("verdict_reasons", |t| figure(t, |m| m.verdict.reasons.join("; "))),
    ("disturbances", |t| figure(t, |m| m.conditions.to_string())),
    ("starved", |t| figure(t, |m| known(m.conditions.spinner.map(|spinner| spinner.starved)))),
    ("window_ns", |t| figure(t, |m| m.window_ns)),
    ("ios", |t| figure(t, |m| m.ios)),
    ("bytes", |t| figure(t, |m| m.bytes)),
    ("reads", |t| figure(t, |m| m.reads)),
    ("writes", |t| figure(t, |m| m.writes)),
    ("short_ios", |t| figure(t, |m| m.short_ios)),
    ("figure", |t| figure(t, |m| known(m.program.as_ref().map(|program| program.figure)))),
    ("figure_name", |t| figure(t, |m| known(m.program.as_ref().map(|program| program.name.clone())))),
    ("iops", |t| figure(t, Measurement::iops)),
    ("mb_per_s", |t| figure(t, Measurement::mb_per_s)),
    ("offered_iops", |t| {
        figure(t, |m| known(m.open.as_ref().and_then(|open| open.offered_iops(m.window_ns))))
    }),
    ("overload", |t| open_figure(t, |open| Some(open.overload))),
    ("unissued", |t| open_figure(t, |open| Some(open.unissued))),
    ("lag_ns_mean", |t| open_figure(t, |open| open.lag_mean_ns)),
    ("lag_ns_max", |t| open_figure(t, |open| open.lag_max_ns)),
    ("behind_ns", |t| open_figure(t, |open| open.behind_ns)),
    ("latency_from", |t| open_figure(t, |open| Some(open.latency_from))),
    ("pacer_cpu_ns_per_io", |t| open_figure(t, |open| open.pacer_cpu_ns_per_io)),
    ("corunner_rounds", |t| corunner_figure(t, |one| Some(one.rounds))),
    ("corunner_cpu_ns", |t| corunner_figure(t, |one| Some(one.cpu_ns))),
    ("corunner_per_s", |t| corunner_figure(t, |one| Some(one.per_s()))),
    ("corunner_alone_per_s", |t| corunner_figure(t, CorunnerWindow::alone_per_s)),
    ("corunner_loss_ns_per_io", |t| figure(t, |m| known(m.corunner_loss_ns_per_io()))),
    ("latency_ns_mean", |t| latency(t, |one| one.mean)),
    ("latency_ns_stddev", |t| latency(t, |one| one.stddev)),
    ("latency_ns_min", |t| latency(t, |one| one.min)),
    ("latency_ns_p20", |t| figure(t, |m| known(m.latency.p20))),
    ("latency_ns_p50", |t| latency(t, |one| one.p50)),
    ("latency_ns_p80", |t| figure(t, |m| known(m.latency.p80))),
    ("latency_ns_p95", |t| latency(t, |one| one.p95)),
    ("latency_ns_p99", |t| latency(t, |one| one.p99)),
    ("latency_ns_p99_9", |t| latency(t, |one| one.p99_9)),
    ("latency_ns_max", |t| latency(t, |one| one.max)),
    ("read_latency_ns_mean", |t| figure(t, |m| known(m.read_latency.as_ref().map(|l| l.mean)))),
    ("read_latency_ns_stddev", |t| figure(t, |m| known(m.read_latency.as_ref().map(|l| l.stddev)))),
    ("read_latency_ns_min", |t| figure(t, |m| known(m.read_latency.as_ref().map(|l| l.min)))),
    ("read_latency_ns_p20", |t| figure(t, |m| known(m.read_latency.as_ref().and_then(|l| l.p20)))),
    ("read_latency_ns_p50", |t| figure(t, |m| known(m.read_latency.as_ref().map(|l| l.p50)))),
    ("read_latency_ns_p80", |t| figure(t, |m| known(m.read_latency.as_ref().and_then(|l| l.p80)))),
    ("read_latency_ns_p95", |t| figure(t, |m| known(m.read_latency.as_ref().map(|l| l.p95)))),
    ("read_latency_ns_p99", |t| figure(t, |m| known(m.read_latency.as_ref().map(|l| l.p99)))),
    ("read_latency_ns_p99_9", |t| figure(t, |m| known(m.read_latency.as_ref().map(|l| l.p99_9)))),
    ("read_latency_ns_max", |t| figure(t, |m| known(m.read_latency.as_ref().map(|l| l.max)))),
    ("write_latency_ns_mean", |t| figure(t, |m| known(m.write_latency.as_ref().map(|l| l.mean)))),
    ("write_latency_ns_stddev", |t| figure(t, |m| known(m.write_latency.as_ref().map(|l| l.stddev)))),
    ("write_latency_ns_min", |t| figure(t, |m| known(m.write_latency.as_ref().map(|l| l.min)))),
    ("write_latency_ns_p20", |t| figure(t, |m| known(m.write_latency.as_ref().and_then(|l| l.p20)))),
    ("write_latency_ns_p50", |t| figure(t, |m| known(m.write_latency.as_ref().map(|l| l.p50)))),
    ("write_latency_ns_p80", |t| figure(t, |m| known(m.write_latency.as_ref().and_then(|l| l.p80)))),
    ("write_latency_ns_p95", |t| figure(t, |m| known(m.write_latency.as_ref().map(|l| l.p95)))),
    ("write_latency_ns_p99", |t| figure(t, |m| known(m.write_latency.as_ref().map(|l| l.p99)))),
    ("write_latency_ns_p99_9", |t| figure(t, |m| known(m.write_latency.as_ref().map(|l| l.p99_9)))),
    ("write_latency_ns_max", |t| figure(t, |m| known(m.write_latency.as_ref().map(|l| l.max)))),
    ("cpu_percent", |t| figure(t, |m| m.cpu_percent)),
    ("cpu_user_ns", |t| figure(t, |m| m.cpu().user_ns)),
    ("cpu_system_ns", |t| figure(t, |m| m.cpu().system_ns)),
    ("cpu_iowait_ns", |t| figure(t, |m| m.cpu().iowait_ns)),
    ("cpu_irq_ns", |t| figure(t, |m| m.cpu().irq_ns)),
    ("cpu_softirq_ns", |t| figure(t, |m| m.cpu().softirq_ns)),
    ("cpu_steal_ns", |t| figure(t, |m| m.cpu().steal_ns)),
    ("cpu_idle_ns", |t| figure(t, |m| m.cpu().idle_ns)),
    ("cpu_cores", |t| figure(t, |m| m.cpu().cores)),
    ("process_user_ns", |t| figure(t, |m| m.evidence.process.user_ns)),
    ("process_system_ns", |t| figure(t, |m| m.evidence.process.system_ns)),
    ("process_voluntary_switches", |t| figure(t, |m| m.evidence.process.voluntary_switches)),
    ("process_involuntary_switches", |t| figure(t, |m| m.evidence.process.involuntary_switches)),
    ("context_switches_per_io", |t| figure(t, |m| known(m.known_switches_per_io()))),
    ("interrupts_per_io", |t| figure(t, |m| known(m.interrupts_per_io))),
    ("system_calls_per_io", |t| figure(t, |m| known(m.system_calls_per_io))),
    ("achieved_depth", |t| figure(t, |m| m.achieved_depth)),
    ("preconditioning", |t| figure(t, |m| known(m.preconditioning.as_ref()))),
    ("observed_submission", |t| figure(t, |m| finding(&m.observed.submission))),
    ("observed_completion", |t| figure(t, |m| finding(&m.observed.completion))),
    ("doubt", |t| figure(t, |m| known(m.observed.doubt.as_ref()))),
    ("evidence_rules", |t| figure(t, |m| m.evidence.rules)),
    ("interrupts", |t| figure(t, |m| known(interrupts(&m.evidence.devices)))),
    ("device_reads", |t| devices(t, |d| d.reads)),
    ("device_read_merges", |t| devices(t, |d| d.read_merges)),
    ("device_read_sectors", |t| devices(t, |d| d.read_sectors)),
    ("device_writes", |t| devices(t, |d| d.writes)),
    ("device_write_merges", |t| devices(t, |d| d.write_merges)),
    ("device_write_sectors", |t| devices(t, |d| d.write_sectors)),
    ("device_flushes", |t| devices(t, |d| d.flushes)),
    ("device_discards", |t| devices(t, |d| d.discards)),
    ("system_calls", |t| engine(t, |e| known(e.system_calls))),
    ("submit_calls", |t| engine(t, |e| e.submit_calls.to_string())),
    ("wakeups", |t| engine(t, |e| e.wakeups.to_string())),
    ("ring_flags", |t| {
        engine(t, |e| e.ring_flags.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
    }),
    ("registered", |t| engine(t, |e| e.registered.to_string())),
    ("routes", |t| engine(t, |e| known(e.routes.as_ref().map(|routes| routes.text())))),
    ("costs", |t| figure(t, |m| m.costs.as_ref().map_or(String::new(), |costs| source(&costs.source)))),
    ("kernel_instructions", |t| cost(t, Space::Kernel, CostKind::Instructions)),
    ("kernel_loads", |t| cost(t, Space::Kernel, CostKind::Loads)),
    ("kernel_stores", |t| cost(t, Space::Kernel, CostKind::Stores)),
    ("user_instructions", |t| cost(t, Space::User, CostKind::Instructions)),
    ("user_loads", |t| cost(t, Space::User, CostKind::Loads)),
    ("user_stores", |t| cost(t, Space::User, CostKind::Stores)),
    ("governors", |t| power(t, "governors")),
    ("frequency_min_khz", |t| power(t, "frequency_min_khz")),
    ("frequency_max_khz", |t| power(t, "frequency_max_khz")),
    ("turbo", |t| power(t, "turbo")),
    ("smt", |t| power(t, "smt")),
    ("throttle_count", |t| power(t, "throttle_count")),
    ("throttle_count_end", |t| figure(t, |m| scalar(&m.power_state[1]["throttle_count"]))),
    ("fio_version", |t| fio(t, "version")),
    ("fio_usr_cpu", |t| fio(t, "usr_cpu")),
    ("fio_sys_cpu", |t| fio(t, "sys_cpu")),
    ("fio_ctx", |t| fio(t, "ctx")),
];

fn figure<T: ToString>(trial: &Trial, of: impl Fn(&Measurement) -> T) -> String {
    trial.outcome.measurement().map(|measurement| of(measurement).to_string()).unwrap_or_default()
}

fn open<T: ToString>(trial: &Trial, of: impl Fn(&OpenLoad) -> Option<T>) -> String {
    known(trial.workload.open.as_ref().and_then(of))
}

fn open_figure<T: ToString>(trial: &Trial, of: impl Fn(&OpenWindow) -> Option<T>) -> String {
    figure(trial, |measurement| known(measurement.open.as_ref().and_then(&of)))
}

fn latency<T: ToString>(trial: &Trial, of: impl Fn(&Latency) -> T) -> String {
    figure(trial, |m| known(m.known_latency().map(&of)))
}

fn corunner<T: ToString>(trial: &Trial, of: impl Fn(&Corunner) -> T) -> String {
    known(trial.workload.corunner.as_ref().map(of))
}

fn corunner_figure<T: ToString>(trial: &Trial, of: impl Fn(&CorunnerWindow) -> Option<T>) -> String {
    figure(trial, |measurement| known(measurement.corunner.as_ref().and_then(&of)))
}

/// Processors as in a list of columns: parted by spaces.
fn processors(cpus: &[u32]) -> String {
    cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
}

fn finding<T: ToString>(finding: &Finding<T>) -> String {
    match finding {
        Finding::Seen(seen) => seen.to_string(),
        Finding::Mixed(what) => format!("mixed: {what}"),
        Finding::Unclear(why) => format!("unclear: {why}"),
    }
}

/// The sum over the devices; unknown if it is unknown of one, or none was watched.
fn interrupts(devices: &[DeviceEvidence]) -> Option<u64> {
    devices.iter().map(|device| device.interrupts).sum::<Option<u64>>().filter(|_| !devices.is_empty())
}

fn devices(trial: &Trial, of: impl Fn(&DeviceEvidence) -> u64) -> String {
    figure(trial, |m| m.evidence.devices.iter().map(&of).sum::<u64>())
}

fn engine(trial: &Trial, of: impl Fn(&EngineEvidence) -> String) -> String {
    figure(trial, |m| known(m.evidence.engine.as_ref().map(&of)))
}

/// How the costs were counted: `exact`, or `sampled` and the events.
fn source(source: &CostSource) -> String {
    match source {
        CostSource::Exact => "exact".to_owned(),
        CostSource::Sampled(events) => format!("sampled {}", events.join(" ")),
    }
}

/// The sum of a count over the functions of a space.
fn cost(trial: &Trial, space: Space, kind: CostKind) -> String {
    let counted = trial.outcome.measurement().and_then(|m| m.costs.as_ref()).filter(|costs| costs.has(kind));
    known(counted.map(|costs| costs.total(space).get(kind)))
}

/// True if a column holds a time, or a rate or share over a time, that was measured.
fn is_time(column: &str) -> bool {
    const RATES: [&str; 5] = ["iops", "mb_per_s", "cpu_percent", "fio_usr_cpu", "fio_sys_cpu"];
    // When a trial began is provenance.
    let measured_ns = column.ends_with("_ns") && column != "started_unix_ns";
    measured_ns || column.contains("latency_ns_") || RATES.contains(&column)
}

/// A word of the power state at the start.
fn power(trial: &Trial, key: &str) -> String {
    figure(trial, |m| scalar(&m.power_state[0][key]))
}

fn fio(trial: &Trial, key: &str) -> String {
    figure(trial, |m| m.fio.as_ref().map(|fio| scalar(&fio[key])).unwrap_or_default())
}

/// A value in one cell: the entries of a list are separated by spaces, an absent value is empty.
fn scalar(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(entries) => entries.iter().map(scalar).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

/// One line per trial. `emulated` says what emulated the processor; times, and what is measured by them, are
/// then empty. `in_force` and `replaced_by` are as in [`json()`]. Energy is of one source for all trials: a
/// meter, or a model if no meter has joules, and then `energy_estimated` is true. `energy_incomplete` says
/// why a trial has none.
///
/// # Errors
/// The writer's error.
pub fn csv(study: &StudyRecord, trials: &[Trial], out: &mut dyn Write) -> io::Result<()> {
    csv_head(out)?;
    let source = EnergySource::shown(trials);
    trials.iter().try_for_each(|trial| csv_line(study, source.as_ref(), trial, out))
}

/// The first line of [`csv`].
///
/// # Errors
/// The writer's error.
pub fn csv_head(out: &mut dyn Write) -> io::Result<()> {
    let names = COLUMNS.iter().map(|(name, _)| *name).chain(["emulated", "in_force", "replaced_by"]);
    let names = names.chain(ENERGY.iter().map(|(name, _)| *name)).chain(ENERGY_SOURCE);
    out.write_all((names.collect::<Vec<_>>().join(",") + "\r\n").as_bytes())
}

/// The line of a trial of [`csv`], with energy of this source.
///
/// # Errors
/// The writer's error.
pub fn csv_line(
    study: &StudyRecord,
    source: Option<&EnergySource>,
    trial: &Trial,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut line = String::with_capacity(1024);
    for (name, cell) in COLUMNS {
        if study.emulated.is_none() || !is_time(name) {
            push_cell(&mut line, &cell(trial));
        }
        line.push(',');
    }
    push_cell(&mut line, study.emulated.as_deref().unwrap_or_default());
    let replaced_by = known(study.replaced_by(trial.replicate));
    line += &format!(",{},{replaced_by}", study.is_in_force(trial.replicate));
    // Energy is power over a time.
    for cell in energy(trial, source.filter(|_| study.emulated.is_none())) {
        line.push(',');
        push_cell(&mut line, &cell);
    }
    line += "\r\n";
    out.write_all(line.as_bytes())
}

/// A cell after RFC 4180, quoted where it must be. Text that a spreadsheet would take for a formula is
/// preceded by an apostrophe.
pub fn csv_cell(text: &str) -> String {
    let mut line = String::new();
    push_cell(&mut line, text);
    line
}

fn push_cell(line: &mut String, text: &str) {
    // Some read those of East Asian width, too, and pass over the ends of lines before them.
    let begins = ['=', '+', '-', '@', '\t', '\r', '\n', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'];
    let formula = text.starts_with(begins) && text.parse::<f64>().is_err();
    let mark = if formula { "'" } else { "" };
    if text.contains([',', '"', '\n', '\r']) {
        *line += &format!("\"{mark}{}\"", text.replace('"', "\"\""));
    } else {
        *line += mark;
        *line += text;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_and_formulas_disarmed() {
        assert_eq!(csv_cell("plain"), "plain");
        assert_eq!(csv_cell("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(csv_cell("=1+1"), "'=1+1");
        assert_eq!(csv_cell("\n=1+1"), "\"'\n=1+1\"");
        assert_eq!(csv_cell("\u{ff1d}1+1"), "'\u{ff1d}1+1");
        assert_eq!(csv_cell("-1.5"), "-1.5");
    }
}
