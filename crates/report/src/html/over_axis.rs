//! Metrics over an axis of the workload, as lines.

use super::figure::{Figure, Group, Section, TIPPED_CELLS};
use super::model::{Model, SeriesCell};
use super::svg::lines::{self, Line, LineChart, LinePoint};
use super::text::{capital, exact, readable};
use crate::table::Table;
use iopj_analysis::grouping::grouped;
use iopj_analysis::metric::Metric;
use iopj_analysis::stats::Summary;
use iopj_analysis::winner::{Axis, AxisValue};
use iopj_core::Workload;
use std::collections::BTreeMap;

/// An axis with numeric values, its title, and the value of a workload.
pub(super) type NumberAxis = (Axis, &'static str, fn(&Workload) -> u32);

const DEPTH: NumberAxis = (Axis::Iodepth, "iodepth, I/Os in flight per job", |one| one.iodepth);
const THREADS: NumberAxis = (Axis::Numjobs, "numjobs, threads that do I/O", |one| one.numjobs);
const SIZE: NumberAxis = (Axis::Bs, "bs, bytes per I/O", |one| one.bs);
const RATE: NumberAxis = (Axis::RateIops, "rate_iops, I/Os that arrive per second and job", |one| {
    one.open.map_or(0, |open| open.rate_iops)
});

/// The axes along which figures run.
pub(super) const NUMBERS: [NumberAxis; 4] = [RATE, DEPTH, THREADS, SIZE];

/// Lines along each axis of the workload.
pub(super) fn sections(model: &Model<'_>) -> [Section; 4] {
    [
        section(model, ("rate", "Over rate"), RATE),
        section(model, ("depth", "Over depth"), DEPTH),
        section(model, ("threads", "Over threads"), THREADS),
        section(model, ("size", "Over block size"), SIZE),
    ]
}

/// A group for each set of workloads that differ along the axis only.
fn section(model: &Model<'_>, name: (&'static str, &'static str), axis: NumberAxis) -> Section {
    let groups = runs(model, axis.0).into_iter().filter_map(|run| {
        let heading = model.title(model.workloads[run[0]], &[axis.0]);
        let figure = |metric| figure(model, &run, axis, metric, &heading);
        let figures = model.metrics().filter_map(figure).collect();
        Group::new(heading, figures)
    });
    Section::new(name, error_words(model), groups)
}

/// The meaning of the error bars, or why there are none.
pub(super) fn error_words(model: &Model<'_>) -> String {
    let bars = match model.replicates() {
        0 | 1 => {
            "One replicate per cell: there are no error bars. Run the study with --replicates 3 or more to \
             get them."
        }
        _ => {
            "Means over replicates; error bars are the 95 % interval of the mean by Student's t, and one \
             without a cap reaches beyond the figure."
        }
    };
    let hollow = model.cells.iter().any(|cell| cell.verified + cell.seen == 0 && !cell.trusted.is_empty());
    format!("{bars}{}", if hollow { " Hollow marks: no trial of the cell is verified." } else { "" })
}

/// Sets of two or more workloads with data that differ in this axis only.
pub(super) fn runs(model: &Model<'_>, axis: Axis) -> Vec<Vec<usize>> {
    let holds_data = |index: &usize| model.cells_of(*index).any(|cell| !cell.trusted.is_empty());
    // Without its rate an open load would be like a closed one.
    let has_axis = |index: &usize| axis != Axis::RateIops || model.workloads[*index].open.is_some();
    let keyed = (0..model.workloads.len()).filter(holds_data).filter(has_axis).map(|index| {
        let mut rest = model.workloads[index].clone();
        axis.clear(&mut rest);
        (rest, index)
    });
    grouped(keyed).into_iter().map(|(_, run)| run).filter(|run| run.len() > 1).collect()
}

/// The cells of a run that have the metric, in the order of their series.
fn summarized<'m, 'a>(
    model: &'m Model<'a>,
    run: &[usize],
    metric: Metric,
) -> Vec<(&'m SeriesCell<'a>, Summary)> {
    let mut cells: Vec<&SeriesCell<'_>> = run.iter().flat_map(|index| model.cells_of(*index)).collect();
    cells.sort_by_key(|cell| (cell.series, cell.workload));
    cells.into_iter().filter_map(|cell| Some((cell, model.summary(cell, metric)?))).collect()
}

fn figure(
    model: &Model<'_>,
    run: &[usize],
    (axis, what, number): NumberAxis,
    metric: Metric,
    rest: &str,
) -> Option<Figure> {
    let number = |index: usize| f64::from(number(model.workloads[index]));
    let mut values: Vec<(f64, AxisValue)> =
        run.iter().map(|index| (number(*index), axis.value(model.workloads[*index]))).collect();
    values.dedup();
    let at = |cell: &SeriesCell<'_>| axis.value(model.workloads[cell.workload]);
    let cells = summarized(model, run, metric);
    cells.first()?;
    let paths: Vec<&[_]> = cells.chunk_by(|(a, _), (b, _)| a.series == b.series).collect();
    let line = |cells: &&[(&SeriesCell<'_>, Summary)]| {
        let (series, label) = (cells[0].0.series, &model.series[cells[0].0.series].label);
        let point = |(cell, summary): &(&SeriesCell<'_>, Summary)| LinePoint {
            x: number(cell.workload),
            y: summary.mean,
            interval: summary.interval,
            hollow: cell.verified + cell.seen == 0,
            tip: tip(model, label, &at(cell).to_string(), summary),
        };
        Line { series, label: label.clone(), points: cells.iter().map(point).collect() }
    };
    let name = model.title_of(metric);
    let chart = LineChart {
        title: format!("{name} over {}: {rest}", axis.as_str()),
        x_title: what.to_owned(),
        y_title: model.name_of(metric),
        x_values: values.iter().map(|(number, value)| (*number, value.to_string())).collect(),
        lines: paths.iter().map(line).collect(),
        bound: None,
    };
    let sum = |counts: &mut dyn Iterator<Item = usize>| counts.sum::<usize>().to_string();
    let mut table = Table::of(&paths)
        .left("path", |cells| model.series[cells[0].0.series].name.clone())
        .left("trials", |cells| sum(&mut cells.iter().map(|(_, summary)| summary.n)))
        .left("verified", |cells| sum(&mut cells.iter().map(|(cell, _)| cell.verified)));
    let mut by_place = BTreeMap::<(usize, AxisValue), &Summary>::new();
    for (cell, summary) in &cells {
        by_place.entry((cell.series, at(cell))).or_insert(summary);
    }
    let any_interval = cells.iter().any(|(_, summary)| summary.interval.is_some());
    for (_, value) in values {
        let by_place = &by_place;
        let of = move |cells: &&[(&SeriesCell<'_>, Summary)], figure: fn(&Summary) -> Option<f64>| {
            let summary = by_place.get(&(cells[0].0.series, value)).copied();
            summary.and_then(figure).map_or(String::new(), exact)
        };
        let heading = format!("{} {value}", axis.as_str());
        table = table.left(heading, move |cells| of(cells, |summary| Some(summary.mean)));
        if any_interval {
            table = table.left("\u{b1} 95 %", move |cells| of(cells, half));
        }
    }
    Figure::new(capital(&name), lines::draw(&chart), table.data())
}

/// The tooltip of a point; empty if the page has too many points.
fn tip(model: &Model<'_>, label: &str, at: &str, summary: &Summary) -> String {
    if model.cells.len() > TIPPED_CELLS {
        return String::new();
    }
    format!("{label}, {at}: {}", readable(summary.mean))
}

/// Half of the 95 % interval.
pub(super) fn half(summary: &Summary) -> Option<f64> {
    summary.interval.map(|(low, high)| (high - low) / 2.0)
}
