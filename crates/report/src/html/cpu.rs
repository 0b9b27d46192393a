//! CPU time by kind, as stacked bars, and CPU use against power (poll22, figure 1d).

use super::figure::{Figure, Group, Section};
use super::model::{Model, SeriesCell};
use super::svg::bars::{self, BarPart};
use super::svg::scatter::{self, Dot, Dots, ScatterChart};
use super::text::{exact, readable};
use crate::table::Table;
use iopj_analysis::grouping::grouped;
use iopj_analysis::metric::Metric;
use iopj_analysis::winner::Axis;
use iopj_core::evidence::CpuTimes;

/// A kind of CPU time: mpstat's name, its class in the style sheet, and its value.
type Kind = (&'static str, &'static str, fn(&CpuTimes) -> u64);

/// The kinds that are drawn; the rest of the time processors were idle.
const KINDS: [Kind; 6] = [
    ("USR", "d0", |cpu| cpu.user_ns),
    ("SYS", "d1", |cpu| cpu.system_ns),
    ("IOWAIT", "d2", |cpu| cpu.iowait_ns),
    ("SOFT", "d3", |cpu| cpu.softirq_ns),
    ("IRQ", "d4", |cpu| cpu.irq_ns),
    ("STEAL", "rest", |cpu| cpu.steal_ns),
];

/// A figure for each workload.
pub(super) fn kinds(model: &Model<'_>) -> Section {
    let figures = (0..model.workloads.len()).filter_map(|workload| kinds_of(model, workload)).collect();
    let words = "Time of all processors by kind while a trial was measured, in per cent of all of it, \
                 whoever used it; means over replicates. The rest is idle. IOWAIT is idle too: a \
                 processor had nothing to do, and an I/O of it was outstanding.";
    Section::new(("cpu", "CPU time by kind"), words, Group::new("", figures))
}

/// The shares of the kinds in per cent, over the replicates of a cell.
fn shares(cell: &SeriesCell<'_>) -> Option<[f64; KINDS.len()]> {
    let all: Vec<&CpuTimes> =
        cell.trusted.iter().map(|one| one.cpu()).filter(|cpu| cpu.total_ns() > 0).collect();
    let share = |of: fn(&CpuTimes) -> u64| {
        let shares = all.iter().map(|cpu| 100.0 * of(cpu) as f64 / cpu.total_ns() as f64);
        shares.sum::<f64>() / all.len() as f64
    };
    (!all.is_empty()).then(|| KINDS.map(|(.., of)| share(of)))
}

fn kinds_of(model: &Model<'_>, workload: usize) -> Option<Figure> {
    let cells: Vec<(&SeriesCell<'_>, [f64; KINDS.len()])> =
        model.cells_of(workload).filter_map(|cell| Some((cell, shares(cell)?))).collect();
    let part = |((name, class, _), value): (&Kind, &f64)| BarPart {
        class: (*class).to_owned(),
        what: (*name).to_owned(),
        value: *value,
        text: readable(*value),
    };
    let bar = |(cell, shares): &(&SeriesCell<'_>, [f64; KINDS.len()])| {
        (model.series[cell.series].label.clone(), KINDS.iter().zip(shares).map(part).collect())
    };
    let rows: Vec<(String, Vec<BarPart>)> = cells.iter().map(bar).collect();
    let mut table = Table::of(&cells)
        .left("path", |(cell, _)| model.series[cell.series].name.clone())
        .left("trials", |(cell, _)| cell.trusted.len().to_string());
    for (at, (name, ..)) in KINDS.iter().enumerate() {
        table = table.left(format!("{name}, %"), move |(_, shares)| exact(shares[at]));
    }
    let caption = model.title(model.workloads[workload], &[]);
    let title = format!("CPU time by kind: {caption}");
    let has_any = !cells.is_empty();
    has_any.then(|| Figure::new(caption, bars::stacked(&title, "% of CPUs", &rows), table.data())).flatten()
}

/// The axes along which a path's points are joined.
const ALONG: [Axis; 3] = [Axis::Numjobs, Axis::Iodepth, Axis::RateIops];

/// A figure for each set of workloads that differ only in how much I/O there is.
pub(super) fn against_power(model: &Model<'_>) -> Section {
    let keyed = (0..model.workloads.len()).map(|index| {
        let mut rest = model.workloads[index].clone();
        ALONG.iter().for_each(|axis| axis.clear(&mut rest));
        (rest, index)
    });
    let figures = grouped(keyed).into_iter().filter_map(|(_, run)| power_of(model, &run)).collect();
    let words = "CPU use of the threads that do or serve the I/O against power: each point is a path under a \
                 workload, joined in the order of jobs, depth and rate. If power followed CPU use, all \
                 points were on one line. Hollow: no trial of the cell is verified.";
    Section::new(("cpu-power", "CPU use against power"), words, Group::new("", figures))
}

fn power_of(model: &Model<'_>, run: &[usize]) -> Option<Figure> {
    let cells: Vec<(&SeriesCell<'_>, f64, f64)> = model
        .cells
        .iter()
        .filter(|cell| run.contains(&cell.workload))
        .filter_map(|cell| {
            let mean = |metric| model.summary(cell, metric).map(|summary| summary.mean);
            Some((cell, mean(Metric::CpuPercent)?, mean(Metric::Watts)?))
        })
        .collect();
    // Cells are in the order of their series.
    let of_path = |cells: &[(&SeriesCell<'_>, f64, f64)]| {
        let label = model.series[cells[0].0.series].label.clone();
        let mut cells = cells.to_vec();
        let rate = |workload: usize| model.workloads[workload].open.map(|open| open.rate_iops);
        cells.sort_by_key(|(cell, ..)| {
            let workload = model.workloads[cell.workload];
            (workload.numjobs, workload.iodepth, rate(cell.workload))
        });
        let dot = |(cell, x, y): &(&SeriesCell<'_>, f64, f64)| {
            let title = model.title(model.workloads[cell.workload], &[]);
            let tip = format!("{label}, {title}: {} %, {} W", readable(*x), readable(*y));
            Dot { x: *x, y: *y, hollow: cell.verified + cell.seen == 0, tip }
        };
        Dots { series: cells[0].0.series, dots: cells.iter().map(dot).collect(), label: label.clone() }
    };
    let all: Vec<Dots> = cells.chunk_by(|(a, ..), (b, ..)| a.series == b.series).map(of_path).collect();
    let source = model.source.as_ref().filter(|_| !cells.is_empty())?;
    let caption = model.title(model.workloads[*run.first()?], &ALONG);
    let chart = ScatterChart {
        title: format!("CPU use against power: {caption}"),
        x_title: "CPU use, % of one core".to_owned(),
        y_title: format!("power, W, {source}"),
        all,
        joined: true,
        front: Vec::new(),
        front_name: "Pareto front",
        bound: None,
    };
    let table = Table::of(&cells)
        .left("path", |(cell, ..)| model.series[cell.series].name.clone())
        .left("workload", |(cell, ..)| model.title(model.workloads[cell.workload], &[]))
        .left("CPU, %", |(_, cpu, _)| exact(*cpu))
        .left("power, W", |(.., watts)| exact(*watts));
    Figure::new(caption, scatter::draw(&chart), table.data())
}
