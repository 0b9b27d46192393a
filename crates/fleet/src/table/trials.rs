//! The table of trials: what was asked for, what was seen, and the figures.

use super::Row;
use super::column::Cell::{Count, Flag, Number, Text, Time};
use super::column::Column;
use super::contents::{host, settings};
use iopj_core::evidence::Finding;
use iopj_core::workload::Length;
use iopj_core::{CostKind, IoPath, Space, Workload};
use iopj_record::{Latency, Outcome};

pub(super) fn columns<'a>() -> Vec<Column<Row<'a>>> {
    let mut columns = keys();
    columns.extend(workload());
    columns.extend(outcome());
    columns.extend(figures());
    columns.extend(latencies());
    columns.extend(joules());
    columns
}

fn keys<'a>() -> Vec<Column<Row<'a>>> {
    vec![
        Column::key("store", Text(|r: &Row<'_>| Some(r.store()))),
        Column::key("position", Count(|r| Some(r.trial.position))),
        Column::new("host", Text(|r| host(&r.contents.study))),
        Column::new("study", Text(|r| Some(r.contents.study.name.clone()))),
        Column::new("began", Time(|r| Some(r.trial.started_unix_ns))),
        Column::new("began_unix_ns", Count(|r| Some(r.trial.started_unix_ns))),
        Column::new("replicate", Count(|r| Some(r.trial.replicate.into()))),
        Column::new("generator", Text(|r| Some(r.trial.generator.as_str().to_owned()))),
        Column::new("path", Text(|r| Some(r.trial.path.to_string()))),
        Column::new("interface", Text(|r| Some(r.trial.path.interface().to_owned()))),
        Column::new("submission", Text(|r| asked(r, |path| path.submission().to_string()))),
        Column::new("completion", Text(|r| asked(r, |path| path.completion().to_string()))),
    ]
}

fn workload<'a>() -> Vec<Column<Row<'a>>> {
    vec![
        Column::new("workload", Text(|r: &Row<'_>| Some(work(r).title()))),
        Column::new("rw", Text(|r| Some(work(r).rw.to_string()))),
        Column::new("rwmixread", Count(|r| work(r).rw.is_mixed().then(|| work(r).rwmixread.into()))),
        Column::new("bs", Count(|r| Some(work(r).bs.into()))),
        Column::new("iodepth", Count(|r| Some(work(r).iodepth.into()))),
        Column::new("iodepth_batch_submit", Count(|r| Some(work(r).iodepth_batch_submit.into()))),
        Column::new("iodepth_batch_complete_min", Count(|r| Some(work(r).iodepth_batch_complete_min.into()))),
        Column::new("numjobs", Count(|r| Some(work(r).numjobs.into()))),
        Column::new("random_distribution", Text(|r| Some(work(r).random_distribution.to_string()))),
        Column::new("rate_iops", Count(|r| Some(work(r).open.as_ref()?.rate_iops.into()))),
        Column::new("ramp_s", Number(|r| Some(work(r).ramp_time.as_secs_f64()))),
        Column::new("runtime_s", Number(runtime_s)),
        Column::new("workload_json", Text(|r| serde_json::to_string(work(r)).ok())),
        Column::new("settings", Text(|r| Some(settings(&r.trial.settings)))),
        Column::new("setup", Text(|r| Some(r.setup()))),
    ]
}

fn outcome<'a>() -> Vec<Column<Row<'a>>> {
    vec![
        Column::new("in_force", Flag(|r: &Row<'_>| Some(r.in_force()))),
        Column::new("competes", Flag(|r| Some(r.competes()))),
        Column::new("emulated", Flag(|r| Some(r.contents.study.emulated.is_some()))),
        Column::new("error", Text(error)),
        Column::new("verdict", Text(Row::verdict)),
        Column::new("verdict_reasons", Text(|r| Some(r.measured()?.verdict.reasons.join("; ")))),
        Column::new("observed_submission", Text(|r| finding(&r.measured()?.observed.submission))),
        Column::new("observed_completion", Text(|r| finding(&r.measured()?.observed.completion))),
        Column::new("doubt", Text(|r| r.measured()?.observed.doubt.clone())),
        Column::new("disturbances", Text(disturbances)),
        Column::new("starved", Flag(|r| Some(r.measured()?.conditions.starved().is_some()))),
        Column::new("preconditioning", Text(|r| r.measured()?.preconditioning.clone())),
        Column::new("power_state", Text(|r| Some(r.measured()?.power_state[0].to_string()))),
        Column::new("power_state_end", Text(|r| Some(r.measured()?.power_state[1].to_string()))),
    ]
}

fn figures<'a>() -> Vec<Column<Row<'a>>> {
    vec![
        Column::new("window_ns", Count(|r: &Row<'_>| Some(r.timed()?.window_ns))),
        Column::new("ios", Count(|r| Some(r.measured()?.ios))),
        Column::new("bytes", Count(|r| Some(r.measured()?.bytes))),
        Column::new("reads", Count(|r| Some(r.measured()?.reads))),
        Column::new("writes", Count(|r| Some(r.measured()?.writes))),
        Column::new("iops", Number(|r| Some(r.timed()?.iops()))),
        Column::new("mb_per_s", Number(|r| Some(r.timed()?.mb_per_s()))),
        Column::new("achieved_depth", Number(|r| Some(r.timed()?.achieved_depth))),
        Column::new("cpu_percent", Number(|r| Some(r.timed()?.cpu_percent))),
        Column::new("cpu_ns_per_io", Number(cpu_ns_per_io)),
        Column::new("cores", Count(|r| Some(r.measured()?.evidence.cpu.cores.into()))),
        Column::new("context_switches_per_io", Number(|r| r.measured()?.known_switches_per_io())),
        Column::new("interrupts_per_io", Number(|r| r.measured()?.interrupts_per_io)),
        Column::new("system_calls_per_io", Number(|r| r.measured()?.system_calls_per_io)),
        Column::new("overload", Flag(|r| Some(r.timed()?.open.as_ref()?.overload))),
        Column::new("corunner_loss_ns_per_io", Number(|r| r.timed()?.corunner_loss_ns_per_io())),
        Column::new("kernel_instructions", Count(|r| cost(r, Space::Kernel, CostKind::Instructions))),
        Column::new("kernel_loads", Count(|r| cost(r, Space::Kernel, CostKind::Loads))),
        Column::new("kernel_stores", Count(|r| cost(r, Space::Kernel, CostKind::Stores))),
        Column::new("user_instructions", Count(|r| cost(r, Space::User, CostKind::Instructions))),
        Column::new("user_loads", Count(|r| cost(r, Space::User, CostKind::Loads))),
        Column::new("user_stores", Count(|r| cost(r, Space::User, CostKind::Stores))),
    ]
}

fn latencies<'a>() -> Vec<Column<Row<'a>>> {
    vec![
        Column::new("latency_ns_mean", Number(|r: &Row<'_>| Some(latency(r)?.mean))),
        Column::new("latency_ns_stddev", Number(|r| Some(latency(r)?.stddev))),
        Column::new("latency_ns_min", Count(|r| Some(latency(r)?.min))),
        Column::new("latency_ns_p50", Count(|r| Some(latency(r)?.p50))),
        Column::new("latency_ns_p95", Count(|r| Some(latency(r)?.p95))),
        Column::new("latency_ns_p99", Count(|r| Some(latency(r)?.p99))),
        Column::new("latency_ns_p99_9", Count(|r| Some(latency(r)?.p99_9))),
        Column::new("latency_ns_max", Count(|r| Some(latency(r)?.max))),
        Column::new("read_latency_ns_mean", Number(|r| Some(r.timed()?.read_latency.as_ref()?.mean))),
        Column::new("read_latency_ns_p99", Count(|r| Some(r.timed()?.read_latency.as_ref()?.p99))),
        Column::new("write_latency_ns_mean", Number(|r| Some(r.timed()?.write_latency.as_ref()?.mean))),
        Column::new("write_latency_ns_p99", Count(|r| Some(r.timed()?.write_latency.as_ref()?.p99))),
    ]
}

/// Joules of each scope, where one meter alone measured it; the table of energy has all meters.
fn joules<'a>() -> Vec<Column<Row<'a>>> {
    use iopj_core::Scope;
    vec![
        Column::new("joules_system", Number(|r: &Row<'_>| joules_of(r, Scope::System))),
        Column::new("joules_psys", Number(|r| joules_of(r, Scope::Psys))),
        Column::new("joules_package", Number(|r| joules_of(r, Scope::Package))),
        Column::new("joules_core", Number(|r| joules_of(r, Scope::Core))),
        Column::new("joules_uncore", Number(|r| joules_of(r, Scope::Uncore))),
        Column::new("joules_dram", Number(|r| joules_of(r, Scope::Dram))),
        Column::new("joules_device", Number(|r| joules_of(r, Scope::Device))),
    ]
}

fn joules_of(row: &Row<'_>, scope: iopj_core::Scope) -> Option<f64> {
    let mut of_scope = row.timed()?.energy.iter().filter(|one| one.scope == scope && !one.estimated);
    let only = of_scope.next().filter(|_| of_scope.next().is_none())?;
    only.joules().map(|joules| joules.joules)
}

fn work<'a>(row: &Row<'a>) -> &'a Workload {
    &row.trial.workload
}

/// What was asked for of a path, if anything was.
fn asked(row: &Row<'_>, of: fn(&IoPath) -> String) -> Option<String> {
    row.trial.path.is_fixed().then(|| of(&row.trial.path))
}

fn runtime_s(row: &Row<'_>) -> Option<f64> {
    match work(row).length {
        Length::Runtime(time) => Some(time.as_secs_f64()),
        Length::Ios(_) => None,
    }
}

fn error(row: &Row<'_>) -> Option<String> {
    match &row.trial.outcome {
        Outcome::Failed(error) => Some(error.clone()),
        Outcome::Measured(_) => None,
    }
}

fn finding<T: ToString>(finding: &Finding<T>) -> Option<String> {
    Some(match finding {
        Finding::Seen(seen) => seen.to_string(),
        Finding::Mixed(what) => format!("mixed: {what}"),
        Finding::Unclear(why) => format!("unclear: {why}"),
    })
}

fn disturbances(row: &Row<'_>) -> Option<String> {
    row.measured().map(|one| one.conditions.to_string()).filter(|text| !text.is_empty())
}

/// CPU time of the threads that do or serve the I/O.
fn cpu_ns_per_io(row: &Row<'_>) -> Option<f64> {
    let one = row.timed().filter(|one| one.ios > 0)?;
    Some(one.cpu_percent / 100.0 * one.window_ns as f64 / one.ios as f64)
}

fn latency<'a>(row: &Row<'a>) -> Option<&'a Latency> {
    row.timed()?.known_latency()
}

/// The sum of a count over the functions of a space.
fn cost(row: &Row<'_>, space: Space, kind: CostKind) -> Option<u64> {
    let costs = row.measured()?.costs.as_ref().filter(|costs| costs.has(kind))?;
    Some(costs.total(space).get(kind))
}
