//! Latency percentiles of each path as curves.

use super::figure::{Figure, Group, Section, TIPPED_CELLS};
use super::model::{Model, SeriesCell};
use super::svg::curves::{self, Curve};
use super::svg::drawing::Drawing;
use crate::table::Table;
use iopj_record::Pooled;

/// Further ones of studies over fabrics.
const OVER_FABRICS: [(f64, &str); 2] = [(0.2, "p20"), (0.8, "p80")];

/// Quantiles of the percentile curves; a cell's curve ends where it has no I/Os beyond.
const QUANTILES: [(f64, &str); 12] = [
    (0.0, "min, \u{b5}s"),
    (0.25, "p25"),
    (0.5, "p50"),
    (0.75, "p75"),
    (0.9, "p90"),
    (0.95, "p95"),
    (0.99, "p99"),
    (0.995, "p99.5"),
    (0.999, "p99.9"),
    (0.9995, "p99.95"),
    (0.9999, "p99.99"),
    (0.99999, "p99.999"),
];

/// The same as distributions, to five nines: a figure for each workload.
pub(super) fn distributions(model: &Model<'_>) -> Section {
    // Of a large store the percentiles alone, which are the same data the other way round.
    let all = if model.cells.len() > TIPPED_CELLS { 0 } else { model.workloads.len() };
    let view =
        View { title: "Latency distribution", drawn: &steps(), table: &NINES, draw: curves::distribution };
    let figures = (0..all).filter_map(|index| figure(model, index, &view)).collect();
    let words = "The share of I/Os that take no longer, over all I/Os of a cell\u{2019}s trials together, \
                 each curve as far as it has I/Os beyond. Dashed: no trial of the cell is verified.";
    Section::new(("distribution", "Latency distribution"), words, Group::new("", figures))
}

/// Quantiles of a distribution: steps to each further nine.
fn steps() -> Vec<f64> {
    let rarity = |step: i32| 10f64.powf(f64::from(step) / f64::from(STEPS));
    (0..=5 * STEPS).map(|step| 1.0 - 1.0 / rarity(step)).collect()
}

/// Points of a distribution for each further nine.
const STEPS: i32 = 5;

/// The quantiles in the table behind a distribution.
const NINES: [(f64, &str); 6] = [
    (0.5, "50 %, \u{b5}s"),
    (0.9, "90 %"),
    (0.99, "99 %"),
    (0.999, "99.9 %"),
    (0.9999, "99.99 %"),
    (0.99999, "99.999 %"),
];

/// A latency with the digits that the histogram keeps, three: decimals above a hundred mean nothing.
fn digits(us: f64) -> String {
    if us < 100.0 { (us * 100.0).round() / 100.0 } else { us.round() }.to_string()
}

/// A figure for each workload.
pub(super) fn section(model: &Model<'_>) -> Section {
    let table = quantiles(model);
    let drawn: Vec<f64> = table.iter().map(|(quantile, _)| *quantile).collect();
    let view = View { title: "Latency percentiles", drawn: &drawn, table: &table, draw: curves::percentiles };
    let figures = (0..model.workloads.len()).filter_map(|index| figure(model, index, &view)).collect();
    let words = "Over all I/Os of a cell's trials together, each curve as far as it has I/Os beyond the \
                 percentile. Dashed: no trial of the cell is verified.";
    Section::new(("percentiles", "Latency percentiles"), words, Group::new("", figures))
}

/// The quantiles of a study, ascending.
fn quantiles(model: &Model<'_>) -> Vec<(f64, &'static str)> {
    let further = OVER_FABRICS.into_iter().filter(|_| model.is_over_fabrics());
    let mut quantiles: Vec<(f64, &str)> = QUANTILES.into_iter().chain(further).collect();
    quantiles.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    quantiles
}

/// A cell, its I/Os, and their latency in us at each of the quantiles.
type Latencies<'a> = (&'a SeriesCell<'a>, u64, Vec<Option<f64>>);

/// The latencies of all trials of a cell; `None` without any.
fn latencies<'a>(cell: &'a SeriesCell<'a>, quantiles: &[f64]) -> Option<Latencies<'a>> {
    let pooled = Pooled::of(cell.trusted.iter().map(|one| &one.latency.histogram[..]));
    (!pooled.is_empty()).then(|| (cell, pooled.len(), values(&pooled, quantiles)))
}

/// The value at each quantile in us, in one pass over the histogram; none where no I/O lies beyond.
fn values(pooled: &Pooled, quantiles: &[f64]) -> Vec<Option<f64>> {
    let all = pooled.len() as f64;
    let mut order: Vec<usize> =
        (0..quantiles.len()).filter(|at| (1.0 - quantiles[*at]) * all >= 1.0).collect();
    order.sort_by(|a, b| quantiles[*a].total_cmp(&quantiles[*b]));
    let mut order = order.into_iter().peekable();
    let (mut values, mut below) = (vec![None; quantiles.len()], 0);
    while let Some(at) = order.next_if(|at| quantiles[*at] <= 0.0) {
        values[at] = pooled.bins().next().map(|bin| bin.low as f64 / 1000.0);
    }
    for bin in pooled.bins() {
        below += bin.count;
        while let Some(at) = order.next_if(|at| (quantiles[*at] * all).ceil() as u64 <= below) {
            values[at] = Some(bin.high as f64 / 1000.0);
        }
    }
    values
}

/// A way to show latencies: its title, the quantiles of its curves, those of its table with their headings,
/// and its drawing.
struct View<'a> {
    title: &'static str,
    drawn: &'a [f64],
    table: &'a [(f64, &'static str)],
    draw: fn(&str, &[Curve]) -> Drawing,
}

fn figure(model: &Model<'_>, workload: usize, view: &View<'_>) -> Option<Figure> {
    let of_table = view.table.iter().map(|(quantile, _)| *quantile);
    let quantiles: Vec<f64> = view.drawn.iter().copied().chain(of_table).collect();
    let of_cell = |cell| latencies(cell, &quantiles);
    let cells: Vec<Latencies<'_>> = model.cells_of(workload).filter_map(of_cell).collect();
    let point = |(quantile, us): (&f64, &Option<f64>)| Some((*quantile, (*us)?));
    let curve = |(cell, _, us): &Latencies<'_>| Curve {
        series: cell.series,
        label: model.series[cell.series].label.clone(),
        points: view.drawn.iter().zip(us).filter_map(point).collect(),
        hollow: cell.verified + cell.seen == 0,
    };
    let curves: Vec<Curve> = cells.iter().map(curve).collect();
    let mut table = Table::of(&cells)
        .left("path", |(cell, ..)| model.series[cell.series].name.clone())
        .left("I/Os", |(_, ios, _)| ios.to_string());
    for (at, (_, name)) in view.table.iter().enumerate() {
        let at = view.drawn.len() + at;
        table = table.left(*name, move |(.., us)| us[at].map_or(String::new(), digits));
    }
    let caption = model.title(model.workloads[workload], &[]);
    let title = format!("{}: {caption}", view.title);
    let has_curves = !curves.is_empty();
    has_curves.then(|| Figure::new(caption, (view.draw)(&title, &curves), table.data())).flatten()
}
