//! The two hosts of a study over fabrics: what an I/O costs on either, and how the target host's part goes
//! with the interrupts of its drive over depth.
//!
//! All figures are per I/O that the host issued, also those of the target host, whose window encloses the
//! host's.

use super::fit::{LEAST_DF, Term};
use super::measure::{MeanSpread, Measure};
use super::ols::{Observation, least_squares};
use super::parts::is_in;
use super::trials::{CountedTrial, PathTrials, WorkloadTrials};
use crate::cost::{UNKNOWN, directory};
use crate::grouping::{ascending, grouped};
use iopj_core::evidence::CpuTimes;
use iopj_core::fabric::{HostSide, NicEvidence, TargetHostEvidence};
use iopj_core::{CostKind, FabricEvidence, IoPath, Space, VerdictKind, Workload};
use iopj_record::{Generator, Trial};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The columns of a block whose target host was watched, each as host and target host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BothHosts {
    /// The columns, by their index in the block.
    pub columns: Vec<usize>,
    /// `user_instructions`, …, `kernel_stores` as far as both hosts have them; `context_switches` of the
    /// whole host; `card_interrupts` of its network cards; `drive_interrupts`; and its CPU time by kind
    /// (`user_cpu_ns`, `system_cpu_ns`, `iowait_cpu_ns`, `irq_cpu_ns`, `softirq_cpu_ns`).
    pub events: Vec<HostsRow>,
    /// The kernel's source directories in each measure, the greatest first, `unknown` last.
    pub directories: Vec<HostsDirectories>,
}

/// One measure by source directory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostsDirectories {
    /// What was counted.
    pub measure: Measure,
    /// The directories.
    pub rows: Vec<HostsRow>,
}

/// A name with two figures for each column: of the host, and of the target host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostsRow {
    /// What it is of.
    pub name: String,
    /// Per I/O; absent if it was not counted.
    pub figures: Vec<[Option<MeanSpread>; 2]>,
}

/// A path over depth: instructions of both hosts beside the completions that share an interrupt.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OverDepth {
    /// The path.
    pub path: IoPath,
    /// Settings of the study.
    pub settings: BTreeMap<String, String>,
    /// What issued the I/O.
    pub generator: Generator,
    /// The workload at its least depth.
    pub workload: Workload,
    /// A row for each depth, ascending.
    pub rows: Vec<AtDepth>,
    /// The target host's instructions as a line over the interrupts of its drive, both per I/O; absent if too
    /// few runs have both, or the interrupts do not vary.
    pub fit: Option<PerInterrupt>,
}

/// One depth.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AtDepth {
    /// I/Os in flight for each job.
    pub iodepth: u32,
    /// I/Os per interrupt of the target host's drive.
    pub ios_per_drive_interrupt: Option<MeanSpread>,
    /// I/Os per interrupt of the network cards of the host, and of the target host.
    pub ios_per_card_interrupt: [Option<MeanSpread>; 2],
    /// Instructions per I/O of the host, and of the target host.
    pub instructions: [Option<MeanSpread>; 2],
}

/// A line by least squares over the runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PerInterrupt {
    /// Runs.
    pub runs: usize,
    /// Instructions of an I/O without an interrupt.
    pub fixed: Term,
    /// Instructions of an interrupt.
    pub per_interrupt: Term,
}

/// Interrupts per I/O that vary by less are taken as constant.
const VARIES: f64 = 0.05;

fn fabric<'a>(run: &CountedTrial<'a>) -> Option<&'a FabricEvidence> {
    run.measurement.evidence.fabric.as_deref()
}

fn target<'a>(run: &CountedTrial<'a>) -> Option<&'a TargetHostEvidence> {
    fabric(run)?.target.as_ref()
}

/// The run as counted on one host; `None` if the target host was not counted in the same way.
fn counted<'a>(run: &CountedTrial<'a>, side: HostSide) -> Option<CountedTrial<'a>> {
    match side {
        HostSide::Host => Some(*run),
        HostSide::Target => {
            let costs = run.measurement.target_costs.as_ref()?;
            (costs.source == run.costs.source).then_some(CountedTrial { costs, ..*run })
        }
    }
}

/// Both hosts of a block; `None` if no column's target host was watched. Times are left out under emulation.
pub(super) fn both_hosts(
    group: &WorkloadTrials<'_>,
    measures: &[Measure],
    emulated: bool,
) -> Option<BothHosts> {
    let is_watched = |cell: &PathTrials<'_>| cell.runs.iter().any(|run| target(run).is_some());
    let columns: Vec<usize> = (0..group.cells.len()).filter(|at| is_watched(&group.cells[*at])).collect();
    let cells: Vec<&PathTrials<'_>> = columns.iter().map(|at| &group.cells[*at]).collect();
    if cells.is_empty() {
        return None;
    }
    let mut events = costs(&cells, &group.kinds());
    events.extend(counts(&cells));
    if !emulated {
        events.extend(times(&cells));
    }
    events.retain(|row| row.figures.iter().flatten().any(Option::is_some));
    let directories = measures
        .iter()
        .map(|measure| HostsDirectories { measure: *measure, rows: directories(&cells, *measure) });
    Some(BothHosts { columns, events, directories: directories.collect() })
}

fn row<'a>(
    cells: &[&PathTrials<'a>],
    name: impl Into<String>,
    figure: &dyn Fn(&CountedTrial<'a>, HostSide) -> Option<f64>,
) -> HostsRow {
    let both = |cell: &&PathTrials<'a>| HostSide::ALL.map(|side| cell.figure(&|run| figure(run, side)));
    HostsRow { name: name.into(), figures: cells.iter().map(both).collect() }
}

fn costs(cells: &[&PathTrials<'_>], kinds: &[CostKind]) -> Vec<HostsRow> {
    let mut rows = Vec::new();
    for (space, word) in [(Space::User, "user"), (Space::Kernel, "kernel")] {
        let of = [CostKind::Instructions, CostKind::Loads, CostKind::Stores];
        for kind in of.into_iter().filter(|kind| kinds.contains(kind)) {
            rows.push(row(cells, format!("{word}_{}", kind.as_str()), &|run, side| {
                let run = counted(run, side)?;
                run.costs.has(kind).then(|| run.total(space, kind))
            }));
        }
    }
    rows
}

fn card_interrupts(run: &CountedTrial<'_>, side: HostSide) -> Option<f64> {
    let nics = match side {
        HostSide::Host => &fabric(run)?.nics,
        HostSide::Target => &target(run)?.nics,
    };
    let all: u64 = nics.iter().map(NicEvidence::interrupts).sum::<Option<u64>>()?;
    (!nics.is_empty()).then(|| all as f64 / run.ios())
}

/// Interrupts of the target host's drive per I/O.
fn drive_interrupts(run: &CountedTrial<'_>) -> Option<f64> {
    let devices = &target(run)?.devices;
    let all: u64 = devices.iter().map(|device| device.interrupts).sum::<Option<u64>>()?;
    (!devices.is_empty()).then(|| all as f64 / run.ios())
}

fn counts(cells: &[&PathTrials<'_>]) -> [HostsRow; 3] {
    let switches = |run: &CountedTrial<'_>, side| {
        let all = match side {
            HostSide::Host => fabric(run)?.context_switches,
            HostSide::Target => target(run)?.context_switches,
        };
        Some(all as f64 / run.ios())
    };
    [
        row(cells, "context_switches", &switches),
        row(cells, "card_interrupts", &card_interrupts),
        row(cells, "drive_interrupts", &|run, side| match side {
            HostSide::Host => None,
            HostSide::Target => drive_interrupts(run),
        }),
    ]
}

/// CPU time of all cores of a host by kind.
fn times(cells: &[&PathTrials<'_>]) -> [HostsRow; 5] {
    type Kind = fn(&CpuTimes) -> u64;
    const KINDS: [(&str, Kind); 5] = [
        ("user", |cpu| cpu.user_ns),
        ("system", |cpu| cpu.system_ns),
        ("iowait", |cpu| cpu.iowait_ns),
        ("irq", |cpu| cpu.irq_ns),
        ("softirq", |cpu| cpu.softirq_ns),
    ];
    KINDS.map(|(name, kind)| {
        row(cells, format!("{name}_cpu_ns"), &|run, side| {
            let cpu = match side {
                HostSide::Host => &run.measurement.evidence.cpu,
                HostSide::Target => &target(run)?.cpu,
            };
            (cpu.total_ns() > 0).then(|| kind(cpu) as f64 / run.ios())
        })
    })
}

fn directories(cells: &[&PathTrials<'_>], measure: Measure) -> Vec<HostsRow> {
    let runs = cells.iter().flat_map(|cell| &cell.runs);
    let counted_runs = runs.flat_map(|run| HostSide::ALL.map(|side| counted(run, side))).flatten();
    let functions = counted_runs.flat_map(|run| &run.costs.functions);
    let names: BTreeSet<&str> = functions.filter_map(directory).chain([UNKNOWN]).collect();
    let of = |name: &str| {
        row(cells, name, &|run, side| {
            Some(counted(run, side)?.sum(measure, |function| is_in(function, name)))
        })
    };
    let greatest = |row: &HostsRow| {
        let means = row.figures.iter().flatten().flatten().map(|figure| figure.mean);
        means.fold(0.0, f64::max)
    };
    let is_unknown = |row: &HostsRow| row.name == UNKNOWN;
    let mut rows: Vec<HostsRow> = names.into_iter().map(of).collect();
    rows.retain(|row| is_unknown(row) || greatest(row) > 0.0);
    rows.sort_by(|a, b| is_unknown(a).cmp(&is_unknown(b)).then_with(|| greatest(b).total_cmp(&greatest(a))));
    rows
}

/// Paths whose target host was counted at two depths or more; refuted trials are left out.
pub(super) fn over_depth(runs: &[(&Trial, CountedTrial<'_>)], paths: &[IoPath]) -> Vec<OverDepth> {
    let asked = runs.iter().filter(|(trial, run)| {
        let is_of_path = paths.is_empty() || paths.contains(&trial.path);
        let counted = counted(run, HostSide::Target).is_some();
        is_of_path && counted && run.measurement.verdict.kind != VerdictKind::Refuted
    });
    let keyed = asked.map(|(trial, run)| {
        let workload = Workload { iodepth: 1, ..trial.workload.clone() };
        ((trial.path, &trial.settings, trial.generator, workload), (trial.workload.iodepth, *run))
    });
    grouped(keyed).into_iter().filter_map(|(key, runs)| one_path(key, &runs)).collect()
}

type Key<'a> = (IoPath, &'a BTreeMap<String, String>, Generator, Workload);

fn one_path(
    (path, settings, generator, workload): Key<'_>,
    runs: &[(u32, CountedTrial<'_>)],
) -> Option<OverDepth> {
    let depths = ascending(runs.iter().map(|(depth, _)| *depth));
    let least = *depths.first().filter(|_| depths.len() > 1)?;
    let at = |iodepth: u32| {
        let own = || runs.iter().filter(move |(depth, _)| *depth == iodepth).map(|(_, run)| run);
        let figure = |of: &dyn Fn(&CountedTrial<'_>) -> Option<f64>| {
            MeanSpread::of(&own().filter_map(of).collect::<Vec<f64>>())
        };
        let each = |interrupts: Option<f64>| interrupts.filter(|one| *one > 0.0).map(|one| 1.0 / one);
        AtDepth {
            iodepth,
            ios_per_drive_interrupt: figure(&|run| each(drive_interrupts(run))),
            ios_per_card_interrupt: HostSide::ALL.map(|side| figure(&|run| each(card_interrupts(run, side)))),
            instructions: HostSide::ALL.map(|side| figure(&|run| instructions(run, side))),
        }
    };
    let rows = depths.iter().map(|depth| at(*depth)).collect();
    let workload = Workload { iodepth: least, ..workload };
    Some(OverDepth { path, settings: settings.clone(), generator, workload, rows, fit: fit(runs) })
}

/// Instructions per I/O in both spaces.
fn instructions(run: &CountedTrial<'_>, side: HostSide) -> Option<f64> {
    let run = counted(run, side)?;
    run.costs.has(CostKind::Instructions).then(|| run.sum(Measure::Instructions, |_| true))
}

fn fit(runs: &[(u32, CountedTrial<'_>)]) -> Option<PerInterrupt> {
    let observation = |(_, run): &(u32, CountedTrial<'_>)| {
        Some(Observation { y: instructions(run, HostSide::Target)?, x: vec![drive_interrupts(run)?] })
    };
    let observed: Vec<Observation> = runs.iter().filter_map(observation).collect();
    let least = observed.iter().map(|one| one.x[0]).fold(f64::INFINITY, f64::min);
    let most = observed.iter().map(|one| one.x[0]).fold(0.0, f64::max);
    let runs = observed.len();
    if most - least < VARIES || runs < 2 + LEAST_DF {
        return None;
    }
    let line = least_squares(&[observed])?;
    let fixed = Term { estimate: line.fixed[0], error: line.error_at(0, &[0.0]) };
    Some(PerInterrupt {
        runs,
        fixed,
        per_interrupt: Term { estimate: line.slopes[0], error: line.slope_error(0) },
    })
}
