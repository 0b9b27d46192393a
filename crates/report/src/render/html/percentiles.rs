//! Latency percentiles of each path as curves.

use super::figure::{Figure, Group, Section};
use super::model::{Model, SeriesCell};
use super::svg::curves::{self, Curve};
use crate::render::table::Table;
use iopj_store::histogram;

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

/// A cell, its I/Os, and their latency in us at each of [`QUANTILES`].
type Latencies<'a> = (&'a SeriesCell<'a>, u64, [Option<f64>; QUANTILES.len()]);

/// The latencies of all trials of a cell; `None` without any.
fn latencies<'a>(cell: &'a SeriesCell<'a>) -> Option<Latencies<'a>> {
    let mut pooled = histogram::new();
    for part in cell.trusted.iter().filter_map(|one| histogram::decode(&one.latency.histogram)) {
        // Only another program could have made a bin above the bounds: it is left out.
        let _ = pooled.add(&part);
    }
    let us = |(quantile, _): (f64, &str)| {
        let is_seen = (1.0 - quantile) * pooled.len() as f64 >= 1.0;
        is_seen.then(|| pooled.value_at_quantile(quantile) as f64 / 1000.0)
    };
    (!pooled.is_empty()).then(|| (cell, pooled.len(), QUANTILES.map(us)))
}

fn figure(model: &Model<'_>, workload: usize) -> Option<Figure> {
    let cells: Vec<Latencies<'_>> = model.cells_of(workload).filter_map(latencies).collect();
    let point = |((quantile, _), us): (&(f64, &str), &Option<f64>)| Some((*quantile, (*us)?));
    let curve = |(cell, _, us): &Latencies<'_>| Curve {
        series: cell.series,
        label: model.series[cell.series].label.clone(),
        points: QUANTILES.iter().zip(us).filter_map(point).collect(),
        hollow: cell.verified == 0,
    };
    let curves: Vec<Curve> = cells.iter().map(curve).collect();
    // The histogram keeps three digits, so decimals above a hundred mean nothing.
    let digits = |us: f64| if us < 100.0 { (us * 100.0).round() / 100.0 } else { us.round() }.to_string();
    let mut table = Table::of(&cells)
        .left("path", |(cell, ..)| model.series[cell.series].name.clone())
        .left("I/Os", |(_, ios, _)| ios.to_string());
    for (at, (_, name)) in QUANTILES.iter().enumerate() {
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
