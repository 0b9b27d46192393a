//! Latency percentiles of each path as curves.

use super::figure::{Figure, Group, Section};
use super::model::{Model, SeriesCell};
use super::svg::curves::{self, Curve};
use crate::render::table::Table;
use iopj_store::histogram;

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

/// A figure for each workload.
pub(super) fn section(model: &Model<'_>) -> Section {
    let figures = (0..model.workloads.len()).filter_map(|index| figure(model, index)).collect();
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
fn latencies<'a>(cell: &'a SeriesCell<'a>, quantiles: &[(f64, &str)]) -> Option<Latencies<'a>> {
    let mut pooled = histogram::new();
    for part in cell.trusted.iter().filter_map(|one| histogram::decode(&one.latency.histogram)) {
        // Only another program could have made a bin above the bounds: it is left out.
        let _ = pooled.add(&part);
    }
    let us = |(quantile, _): &(f64, &str)| {
        let is_seen = (1.0 - quantile) * pooled.len() as f64 >= 1.0;
        is_seen.then(|| pooled.value_at_quantile(*quantile) as f64 / 1000.0)
    };
    (!pooled.is_empty()).then(|| (cell, pooled.len(), quantiles.iter().map(us).collect()))
}

fn figure(model: &Model<'_>, workload: usize) -> Option<Figure> {
    let quantiles = quantiles(model);
    let of_cell = |cell| latencies(cell, &quantiles);
    let cells: Vec<Latencies<'_>> = model.cells_of(workload).filter_map(of_cell).collect();
    let point = |((quantile, _), us): (&(f64, &str), &Option<f64>)| Some((*quantile, (*us)?));
    let curve = |(cell, _, us): &Latencies<'_>| Curve {
        series: cell.series,
        label: model.series[cell.series].label.clone(),
        points: quantiles.iter().zip(us).filter_map(point).collect(),
        hollow: cell.verified == 0,
    };
    let curves: Vec<Curve> = cells.iter().map(curve).collect();
    // The histogram keeps three digits, so decimals above a hundred mean nothing.
    let digits = |us: f64| if us < 100.0 { (us * 100.0).round() / 100.0 } else { us.round() }.to_string();
    let mut table = Table::of(&cells)
        .left("path", |(cell, ..)| model.series[cell.series].name.clone())
        .left("I/Os", |(_, ios, _)| ios.to_string());
    for (at, (_, name)) in quantiles.iter().enumerate() {
        table = table.left(*name, move |(.., us)| us[at].map_or(String::new(), digits));
    }
    let caption = model.title(model.workloads[workload], &[]);
    let title = format!("Latency percentiles: {caption}");
    if curves.is_empty() {
        None
    } else {
        Figure::new(caption, curves::percentiles(&title, &curves), table.data())
    }
}
