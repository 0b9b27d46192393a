//! Paths side by side, as bars: trials by verdict, and the metrics of workloads that are on no line.

use super::figure::{Figure, Group, Section};
use super::model::{AXES, Model, SeriesCell};
use super::over_axis::{error_words, half, runs};
use super::svg::bars::{self, Bar, BarPart};
use super::text::{capital, exact, readable};
use crate::table::Table;
use iopj_analysis::metric::Metric;
use iopj_analysis::stats::Summary;

/// Trials of a cell by outcome.
type Count = fn(&SeriesCell<'_>) -> usize;

/// Trials of each path by verdict.
pub(super) fn verdicts(model: &Model<'_>) -> Section {
    // Nothing is asked of a program, so its trials have no other verdict than what was seen.
    let is_program = model.cells.iter().any(|cell| cell.seen > 0);
    let kinds: [(&'static str, Count); 4] = [
        if is_program { ("seen", |cell| cell.seen) } else { ("verified", |cell| cell.verified) },
        ("unproven", |cell| cell.unproven),
        ("refuted", |cell| cell.refuted),
        ("failed", |cell| cell.failed),
    ];
    let count = |series: usize, of: Count| {
        model.cells.iter().filter(|cell| cell.series == series).map(of).sum::<usize>()
    };
    let part = |word: &str, count: usize| BarPart {
        class: if word == "seen" { "verified" } else { word }.to_owned(),
        what: word.to_owned(),
        value: count as f64,
        text: count.to_string(),
    };
    let bar = |series: &usize| {
        let parts = kinds.map(|(word, of)| part(word, count(*series, of)));
        (model.series[*series].label.clone(), parts.into())
    };
    let all: Vec<usize> = (0..model.series.len()).collect();
    let bars: Vec<(String, Vec<BarPart>)> = all.iter().map(bar).collect();
    let mut table = Table::of(&all).left("path", |series| model.series[*series].name.clone());
    for (word, of) in kinds {
        table = table.left(word, move |series| count(*series, of).to_string());
    }
    let title = "Verdicts by path";
    let figure = Figure::new(title.to_owned(), bars::stacked(title, "trials", &bars), table.data());
    Section {
        id: "verdicts",
        heading: "Verdicts",
        words: "Linux falls back silently: a path that was asked for is not always the path that was taken. \
                Counts of trials by what the evidence shows. Refuted and failed trials are in no other \
                figure."
            .to_owned(),
        tables: String::new(),
        groups: Group::new("", figure.into_iter().collect()).into_iter().collect(),
    }
}

/// Bars for workloads that are on no line.
pub(super) fn section(model: &Model<'_>) -> Section {
    let on_lines: Vec<usize> = AXES.into_iter().flat_map(|axis| runs(model, axis)).flatten().collect();
    let groups = (0..model.workloads.len()).filter(|index| !on_lines.contains(index)).filter_map(|index| {
        let heading = model.title(model.workloads[index], &[]);
        let figures = model.metrics().filter_map(|metric| figure(model, index, metric, &heading)).collect();
        Group::new(heading, figures)
    });
    Section::new(("paths", "Paths side by side"), error_words(model).replace("marks", "bars"), groups)
}

fn figure(model: &Model<'_>, workload: usize, metric: Metric, rest: &str) -> Option<Figure> {
    let mut cells: Vec<(&SeriesCell<'_>, Summary)> =
        model.cells_of(workload).filter_map(|cell| Some((cell, model.summary(cell, metric)?))).collect();
    // The best on top: the most IOPS, the least of most other metrics.
    cells.sort_by(|(_, a), (_, b)| a.mean.total_cmp(&b.mean));
    if metric.more_is_better() {
        cells.reverse();
    }
    let bar = |(cell, summary): &(&SeriesCell<'_>, Summary)| Bar {
        series: cell.series,
        label: model.series[cell.series].label.clone(),
        value: summary.mean,
        interval: summary.interval,
        hollow: cell.verified + cell.seen == 0,
        text: readable(summary.mean),
    };
    let bars: Vec<Bar> = cells.iter().map(bar).collect();
    let table = Table::of(&cells)
        .left("path", |(cell, _)| model.series[cell.series].name.clone())
        .left("trials", |(_, summary)| summary.n.to_string())
        .left("verified", |(cell, _)| cell.verified.to_string())
        .left("mean", |(_, summary)| exact(summary.mean))
        .left("\u{b1} 95 %", |(_, summary)| half(summary).map_or(String::new(), exact));
    let name = model.title_of(metric);
    let title = format!("{name} by path: {rest}");
    Figure::new(capital(&name), bars::draw(&title, &model.name_of(metric), &bars), table.data())
}
