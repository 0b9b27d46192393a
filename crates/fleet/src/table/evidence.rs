//! The table of evidence: raw counts over a trial's window, and all of it as JSON.

use super::Row;
use super::column::Cell::{Count, Flag, Text};
use super::column::Column;
use iopj_core::Evidence;
use iopj_core::evidence::{DeviceEvidence, EngineEvidence, Finding};

pub(super) fn columns<'a>() -> Vec<Column<Row<'a>>> {
    let mut columns = vec![
        Column::key("store", Text(|r: &Row<'_>| Some(r.store()))),
        Column::key("position", Count(|r| Some(r.trial.position))),
        Column::new("path", Text(|r| Some(r.trial.path.to_string()))),
        Column::new("verdict", Text(Row::verdict)),
        Column::new("rules", Count(|r| Some(of(r)?.rules.into()))),
        Column::new("window_ns", Count(|r| Some(of(r)?.window_ns))),
    ];
    columns.extend(issued());
    columns.extend(devices());
    columns.extend(processors());
    columns.extend(engine());
    columns.push(Column::new("json", Text(|r| serde_json::to_string(of(r)?).ok())));
    columns
}

fn issued<'a>() -> Vec<Column<Row<'a>>> {
    vec![
        Column::new("reads", Count(|r: &Row<'_>| Some(of(r)?.reads))),
        Column::new("read_bytes", Count(|r| Some(of(r)?.read_bytes))),
        Column::new("writes", Count(|r| Some(of(r)?.writes))),
        Column::new("write_bytes", Count(|r| Some(of(r)?.write_bytes))),
        Column::new("syncs", Count(|r| Some(of(r)?.syncs))),
        Column::new("latency_sum_ns", Count(|r| Some(of(r)?.latency_sum_ns))),
        Column::new("completed_by_interrupt", Count(|r| completions(r, |one| one.by_interrupt()))),
        Column::new("completed_by_waiting", Count(|r| completions(r, |one| one.waiting))),
        Column::new("completed_by_other", Count(|r| completions(r, |one| one.other))),
    ]
}

fn devices<'a>() -> Vec<Column<Row<'a>>> {
    vec![
        Column::new("interrupts", Count(|r: &Row<'_>| interrupts(&of(r)?.devices))),
        Column::new("device_reads", Count(|r| device(r, |one| one.reads))),
        Column::new("device_read_merges", Count(|r| device(r, |one| one.read_merges))),
        Column::new("device_read_sectors", Count(|r| device(r, |one| one.read_sectors))),
        Column::new("device_writes", Count(|r| device(r, |one| one.writes))),
        Column::new("device_write_merges", Count(|r| device(r, |one| one.write_merges))),
        Column::new("device_write_sectors", Count(|r| device(r, |one| one.write_sectors))),
        Column::new("device_flushes", Count(|r| device(r, |one| one.flushes))),
        Column::new("device_discards", Count(|r| device(r, |one| one.discards))),
    ]
}

fn processors<'a>() -> Vec<Column<Row<'a>>> {
    vec![
        Column::new("cores", Count(|r: &Row<'_>| Some(of(r)?.cpu.cores.into()))),
        Column::new("cpu_user_ns", Count(|r| Some(of(r)?.cpu.user_ns))),
        Column::new("cpu_system_ns", Count(|r| Some(of(r)?.cpu.system_ns))),
        Column::new("cpu_iowait_ns", Count(|r| Some(of(r)?.cpu.iowait_ns))),
        Column::new("cpu_irq_ns", Count(|r| Some(of(r)?.cpu.irq_ns))),
        Column::new("cpu_softirq_ns", Count(|r| Some(of(r)?.cpu.softirq_ns))),
        Column::new("cpu_steal_ns", Count(|r| Some(of(r)?.cpu.steal_ns))),
        Column::new("cpu_idle_ns", Count(|r| Some(of(r)?.cpu.idle_ns))),
        Column::new("process_user_ns", Count(|r| Some(of(r)?.process.user_ns))),
        Column::new("process_system_ns", Count(|r| Some(of(r)?.process.system_ns))),
        Column::new("voluntary_switches", Count(|r| Some(of(r)?.process.voluntary_switches))),
        Column::new("involuntary_switches", Count(|r| Some(of(r)?.process.involuntary_switches))),
        Column::new("threads", Count(|r| Some(of(r)?.threads.len() as u64))),
        Column::new("others_ns", Count(|r| Some(of(r)?.others.as_ref()?.processes_ns))),
        Column::new("throttles", Count(|r| of(r)?.throttles)),
    ]
}

fn engine<'a>() -> Vec<Column<Row<'a>>> {
    vec![
        Column::new("system_calls", Count(|r: &Row<'_>| counted(r)?.system_calls)),
        Column::new("submit_calls", Count(|r| Some(counted(r)?.submit_calls))),
        Column::new("wakeups", Count(|r| Some(counted(r)?.wakeups))),
        Column::new("doorbells", Count(|r| counted(r)?.doorbells)),
        Column::new("ring_flags", Text(|r| Some(flags(counted(r)?)))),
        Column::new("registered", Flag(|r| Some(counted(r)?.registered))),
    ]
}

fn of<'a>(row: &Row<'a>) -> Option<&'a Evidence> {
    Some(&row.measured()?.evidence)
}

fn counted<'a>(row: &Row<'a>) -> Option<&'a EngineEvidence> {
    of(row)?.engine.as_ref()
}

fn flags(engine: &EngineEvidence) -> String {
    engine.ring_flags.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn completions(row: &Row<'_>, of_them: fn(&iopj_core::evidence::Completions) -> u64) -> Option<u64> {
    match of(row)?.completions.as_ref()? {
        Finding::Seen(seen) => Some(of_them(seen)),
        Finding::Mixed(_) | Finding::Unclear(_) => None,
    }
}

/// The sum over the devices; unknown if it is unknown of one, or none was watched.
fn interrupts(devices: &[DeviceEvidence]) -> Option<u64> {
    devices.iter().map(|device| device.interrupts).sum::<Option<u64>>().filter(|_| !devices.is_empty())
}

fn device(row: &Row<'_>, count: fn(&DeviceEvidence) -> u64) -> Option<u64> {
    let devices = &of(row)?.devices;
    (!devices.is_empty()).then(|| devices.iter().map(count).sum())
}
