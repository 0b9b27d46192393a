//! Both hosts of a study over fabrics: their tables, interrupts per I/O over depth on three sides, and CPU by
//! kind as stacked bars.

use super::figure::{Figure, Group, Section};
use super::model::{Model, SeriesCell};
use super::over_axis::{half, runs};
use super::svg::bars::{self, BarPart};
use super::svg::lines::{self, Line, LineChart, LinePoint};
use super::text::{capital, escape, exact, readable};
use crate::network::{self, Network};
use crate::results::row_name;
use crate::table::Table;
use crate::two_hosts::{Lines, words};
use iopj_analysis::grouping::grouped;
use iopj_analysis::stats::{Summary, summarize};
use iopj_analysis::two_hosts::{CpuKind, SideMetric};
use iopj_analysis::winner::Axis;
use iopj_analysis::workload_tables;
use iopj_core::Transport;
use iopj_core::fabric::HostSide;
use iopj_record::Measurement;
use std::collections::BTreeMap;

/// The setting by which a study has several transports.
const TRANSPORT: &str = "transport";

/// Tables and figures of both hosts; empty unless the study is over fabrics.
pub(super) fn section(model: &Model<'_>) -> Section {
    let interrupts = runs(model, Axis::Iodepth).into_iter().flat_map(|run| interrupts(model, &run)).collect();
    let cpu = (0..model.workloads.len()).filter_map(|workload| cpu(model, workload)).collect();
    let groups = [
        Group::new("Interrupts per I/O over depth", interrupts),
        Group::new("CPU by kind, without idle", cpu),
    ];
    let tables = workload_tables(model.study, model.trials, model.admission);
    let words: Vec<String> = words(&tables).iter().map(|words| capital(words) + ".").collect();
    let mut html = String::new();
    for table in &tables {
        let Some(lines) = Lines::of(table) else { continue };
        let of_workload: String = lines
            .tables(&|row| escape(&row_name(row, false)))
            .iter()
            .map(|(title, table)| {
                let title = capital(title);
                format!("<p class=\"note\">{title}</p>{}", table.html(&title, false))
            })
            .collect();
        let workload = escape(&model.title(&table.workload, &[]));
        html += &match html.is_empty() {
            true => format!("<h3>{workload}</h3>{of_workload}"),
            false => format!("<details class=\"group\"><summary>{workload}</summary>{of_workload}</details>"),
        };
    }
    html += &network_table(model);
    let groups = groups.into_iter().flatten().collect();
    Section { id: "hosts", heading: "Host and target host", words: words.join(" "), groups, tables: html }
}

fn network_table(model: &Model<'_>) -> String {
    let Some(network) = Network::of(model.study) else { return String::new() };
    let title = capital(network::TITLE);
    let words = capital(network.words());
    format!("<h3>{title}</h3><p class=\"note\">{words}.</p>{}", network.table(escape).html(&title, false))
}

/// What is counted of a trial.
type Count = Box<dyn Fn(&Measurement) -> Option<f64>>;

/// A side whose interrupts are counted: its name, and whether it has a line or is in the table only.
struct Counted<'a> {
    name: String,
    is_drawn: bool,
    points: Vec<(&'a SeriesCell<'a>, Summary)>,
}

/// The sides of a transport.
fn sides(transport: Transport) -> Vec<(String, bool, Count)> {
    let one = |metric: SideMetric, side: HostSide| -> Count { Box::new(move |one| metric.value(one, side)) };
    let drive = || one(SideMetric::DriveInterrupts, HostSide::Target);
    if transport == Transport::Here {
        return vec![(format!("{transport}: drive"), true, Box::new(|one| one.interrupts_per_io))];
    }
    if !transport.is_remote() {
        return vec![(format!("{transport}: drive"), true, drive())];
    }
    let card = |side| one(SideMetric::CardInterrupts, side);
    let both: Count = {
        let (card, drive) = (card(HostSide::Target), drive());
        Box::new(move |one| Some(card(one)? + drive(one)?))
    };
    vec![
        (format!("{transport}, host: card"), true, card(HostSide::Host)),
        (format!("{transport}, target: card and drive"), true, both),
        (format!("{transport}, target: card"), false, card(HostSide::Target)),
        (format!("{transport}, target: drive"), false, drive()),
    ]
}

/// How the drive was reached in a cell; `None` without fabrics.
fn transport(cell: &SeriesCell<'_>) -> Option<Transport> {
    cell.trusted.iter().find_map(|one| one.evidence.fabric.as_ref()).map(|fabric| fabric.transport)
}

/// A figure for each path that was measured over a wire at two depths or more.
fn interrupts(model: &Model<'_>, run: &[usize]) -> Vec<Figure> {
    let cells = model.cells.iter().filter(|cell| run.contains(&cell.workload));
    let keyed = cells.filter_map(|cell| {
        let series = &model.series[cell.series];
        let mut settings: BTreeMap<&str, &str> =
            series.settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        settings.remove(TRANSPORT);
        Some(((series.path, series.generator, settings), (transport(cell)?, cell)))
    });
    let of_path = |(_, cells): (_, Vec<(Transport, &SeriesCell<'_>)>)| {
        let name = model.series[cells[0].1.series].label.replace(&format!(" {TRANSPORT}={}", cells[0].0), "");
        let mut counted: Vec<Counted<'_>> = Vec::new();
        for (transport, cells) in grouped(cells) {
            for (name, is_drawn, count) in sides(transport) {
                let summary = |cell: &&'_ SeriesCell<'_>| {
                    let counts: Option<Vec<f64>> = cell.trusted.iter().map(|one| count(one)).collect();
                    summarize(&counts?)
                };
                let points: Vec<_> = cells.iter().filter_map(|cell| Some((*cell, summary(cell)?))).collect();
                counted.push(Counted { name, is_drawn: is_drawn && points.len() > 1, points });
            }
        }
        counted.retain(|side| !side.points.is_empty());
        figure(model, run, &name, &counted)
    };
    grouped(keyed).into_iter().filter_map(of_path).collect()
}

fn figure(model: &Model<'_>, run: &[usize], path: &str, counted: &[Counted<'_>]) -> Option<Figure> {
    let depth = |cell: &SeriesCell<'_>| model.workloads[cell.workload].iodepth;
    let is_of_wire =
        |side: &&Counted<'_>| side.is_drawn && transport(side.points[0].0).is_some_and(Transport::is_remote);
    counted.iter().find(is_of_wire)?;
    let drawn = counted.iter().filter(|side| side.is_drawn).enumerate();
    let line = |(series, side): (usize, &Counted<'_>)| {
        let point = |(cell, summary): &(&SeriesCell<'_>, Summary)| LinePoint {
            x: f64::from(depth(cell)),
            y: summary.mean,
            interval: summary.interval,
            hollow: cell.verified + cell.seen == 0,
            tip: format!("{}, {}: {}", side.name, depth(cell), readable(summary.mean)),
        };
        Line { series, label: side.name.clone(), points: side.points.iter().map(point).collect() }
    };
    let mut depths: Vec<u32> = run.iter().map(|workload| model.workloads[*workload].iodepth).collect();
    depths.sort_unstable();
    depths.dedup();
    let chart = LineChart {
        title: format!(
            "Interrupts of both hosts over iodepth: {} {path}",
            model.title(model.workloads[run[0]], &[Axis::Iodepth])
        ),
        x_title: "iodepth, I/Os in flight per job".to_owned(),
        y_title: "interrupts per I/O".to_owned(),
        x_values: depths.iter().map(|depth| (f64::from(*depth), depth.to_string())).collect(),
        lines: drawn.map(line).collect(),
        bound: None,
    };
    let mut table = Table::of(counted)
        .left("interrupts of", |side| side.name.clone())
        .left("trials", |side| side.points.iter().map(|(_, one)| one.n).sum::<usize>().to_string());
    for at in depths {
        let of = move |side: &Counted<'_>, value: fn(&Summary) -> Option<f64>| {
            let point = side.points.iter().find(|(cell, _)| depth(cell) == at);
            point.and_then(|(_, summary)| value(summary)).map_or(String::new(), exact)
        };
        table = table
            .left(format!("iodepth {at}"), move |side| of(side, |summary| Some(summary.mean)))
            .left("\u{b1} 95 %", move |side| of(side, half));
    }
    let caption = format!("{}: {path}", model.title(model.workloads[run[0]], &[Axis::Iodepth]));
    Figure::new(caption, lines::draw(&chart), table.data())
}

/// The kinds that are drawn, each with its class in `figure.css`. Idle time is the rest.
const DRAWN: [(CpuKind, &str); 6] = [
    (CpuKind::User, "d0"),
    (CpuKind::System, "d1"),
    (CpuKind::Iowait, "rest"),
    (CpuKind::Irq, "d4"),
    (CpuKind::Softirq, "d3"),
    (CpuKind::Steal, "unknown"),
];

/// A host of a cell, with its means by kind of CPU time in the order of [`CpuKind::ALL`].
struct Bar {
    name: String,
    label: String,
    side: HostSide,
    trials: usize,
    means: Vec<f64>,
}

/// A bar for each host of each path.
fn cpu(model: &Model<'_>, workload: usize) -> Option<Figure> {
    let bar = |cell: &SeriesCell<'_>, side: HostSide| {
        let mean = |kind: &CpuKind| {
            let values = cell.trusted.iter().filter_map(|one| SideMetric::Cpu(*kind).value(one, side));
            summarize(&values.collect::<Vec<f64>>()).map(|summary| summary.mean)
        };
        let means = CpuKind::ALL.iter().map(mean).collect::<Option<Vec<f64>>>()?;
        let series = &model.series[cell.series];
        let name = series.name.clone();
        Some(Bar { name, label: series.label.clone(), side, trials: cell.trusted.len(), means })
    };
    let cells = model.cells_of(workload).filter(|_| model.emulated.is_none());
    let all: Vec<Bar> = cells.flat_map(|cell| HostSide::ALL.map(|side| bar(cell, side))).flatten().collect();
    let of_kind =
        |bar: &Bar, kind: CpuKind| CpuKind::ALL.iter().position(|one| *one == kind).map(|at| bar.means[at]);
    let seen: Vec<(CpuKind, &str)> = DRAWN
        .into_iter()
        .filter(|(kind, _)| *kind != CpuKind::Steal || all.iter().any(|bar| of_kind(bar, *kind) > Some(0.0)))
        .collect();
    let parts = |bar: &Bar| {
        let part = |(kind, class): &(CpuKind, &str)| {
            let value = of_kind(bar, *kind).unwrap_or_default();
            BarPart {
                class: (*class).to_owned(),
                what: kind.as_str().to_owned(),
                value,
                text: readable(value),
            }
        };
        (format!("{}, {}", short(&bar.label), bar.side.as_str()), seen.iter().map(part).collect())
    };
    let bars: Vec<(String, Vec<BarPart>)> = all.iter().map(parts).collect();
    let mut table = Table::of(&all)
        .left("path", |bar| bar.name.clone())
        .left("on", |bar| bar.side.as_str().to_owned())
        .left("trials", |bar| bar.trials.to_string());
    for (at, kind) in CpuKind::ALL.iter().enumerate() {
        table = table.left(kind.as_str(), move |bar| exact(bar.means[at]));
    }
    let caption = model.title(model.workloads[workload], &[]);
    let title = format!("CPU by kind on both hosts: {caption}");
    Figure::new(caption, bars::stacked(&title, "% of all cores", &bars), table.data())
}

/// A series' label without the name of the setting that all of them have.
fn short(label: &str) -> String {
    label.replace(&format!("{TRANSPORT}="), "")
}

#[cfg(test)]
mod tests;
