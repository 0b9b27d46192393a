//! The figures of a report: which there are, what each draws, and the table behind each.

use super::model::{Cell, Dimension, Model};
use super::svg::bars::{self, Bar, Part};
use super::svg::curves::{self, Curve};
use super::svg::drawing::Drawing;
use super::svg::lines::{self, Chart, Line, Point};
use super::text::{capital, exact, plural, readable, slug};
use super::{best, costs, power};
use crate::analysis::metric::Metric;
use crate::analysis::power::PowerTrace;
use crate::analysis::stats::Summary;
use iopj_core::{VerdictKind, Workload};
use iopj_store::{Measurement, Trial, histogram};

/// A figure with the data behind it.
pub(super) struct Figure {
    /// Name of its file, without an extension; an id within the page.
    pub(super) id: String,
    /// The whole title, by which it is known outside the page.
    pub(super) title: String,
    /// The title under the headings of its section and group.
    pub(super) caption: String,
    pub(super) drawing: Drawing,
    /// Headings and rows of its table.
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
    /// It needs the page's whole width.
    pub(super) wide: bool,
    /// What stands under it.
    pub(super) note: Option<Note>,
}

/// A sentence and its list.
pub(super) struct Note {
    pub(super) words: String,
    pub(super) items: Vec<String>,
}

/// Figures that belong together, under a heading of their own.
pub(super) struct Group {
    pub(super) heading: String,
    pub(super) figures: Vec<Figure>,
}

/// A part of the page.
pub(super) struct Section {
    pub(super) id: &'static str,
    pub(super) heading: &'static str,
    /// What is shown, or, without groups, why nothing is.
    pub(super) words: String,
    pub(super) groups: Vec<Group>,
}

/// Quantiles of the percentile curves, as far as a cell has I/Os beyond them.
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

/// Beyond this many cells or trials points, strokes and the cells of maps have no tips, which would make the
/// page heavy: their values are in the tables.
pub(super) const TIPPED_CELLS: usize = 400;

/// Points of the timeline over all trials: more cannot be told apart.
const TIMELINE_POINTS: usize = 2000;

/// Headings of a table.
pub(super) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// All sections with figures, in the order of the page.
pub(super) fn sections(model: &Model<'_>, power: &[PowerTrace]) -> Vec<Section> {
    let mut sections = vec![verdicts(model)];
    let timed = model.emulated.is_none();
    sections.push(best::section(model));
    sections.extend(Dimension::ALL.into_iter().map(|dimension| over(model, dimension)));
    sections.extend([bar_section(model), costs::section(model)]);
    if timed {
        sections.extend([percentiles(model), timeline(model), power::section(model, power)]);
    }
    // A section without figures says what is missing only where the study could have shown it.
    sections.retain(|section| !section.groups.is_empty() || !section.words.is_empty());
    unique(&mut sections);
    sections
}

/// Figures of two workloads that their titles do not tell apart get numbers.
fn unique(sections: &mut [Section]) {
    let mut seen = std::collections::BTreeMap::new();
    for figure in
        sections.iter_mut().flat_map(|section| &mut section.groups).flat_map(|group| &mut group.figures)
    {
        let times: &mut usize = seen.entry(figure.id.clone()).or_default();
        *times += 1;
        if *times > 1 {
            figure.id += &format!("-{times}");
        }
    }
}

/// Trials of a cell by what became of them.
type Count = fn(&Cell<'_>) -> usize;

fn verdicts(model: &Model<'_>) -> Section {
    let count = |series: usize, of: Count| {
        model.cells.iter().filter(|cell| cell.series == series).map(of).sum::<usize>()
    };
    let kinds: [(&'static str, Count); 4] = [
        ("verified", |cell| cell.verified),
        ("unproven", |cell| cell.unproven),
        ("refuted", |cell| cell.refuted),
        ("failed", |cell| cell.failed),
    ];
    let part = |word: &str, count: usize| Part {
        class: word.to_owned(),
        what: word.to_owned(),
        value: count as f64,
        text: count.to_string(),
    };
    let parts = |series| kinds.map(|(word, of)| part(word, count(series, of)));
    let all: Vec<(String, Vec<Part>)> = model
        .series
        .iter()
        .enumerate()
        .map(|(index, one)| (one.label.clone(), parts(index).into()))
        .collect();
    let rows = model.series.iter().zip(&all).map(|(series, (_, parts))| {
        [series.name.clone()].into_iter().chain(parts.iter().map(|part| part.text.clone())).collect()
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let title = "Verdicts by path".to_owned();
    let figure = Figure {
        id: "verdicts-by-path".to_owned(),
        drawing: bars::stacked(&title, "trials", &all),
        caption: title.clone(),
        title,
        columns: words(&["path", "verified", "unproven", "refuted", "failed"]),
        rows,
        wide: false,
        note: None,
    };
    Section {
        id: "verdicts",
        heading: "Verdicts",
        words: "Linux falls back silently: a path that was asked for is not always the path that was taken. \
                Counts of trials by what the evidence shows. Refuted and failed trials are in no other \
                figure."
            .to_owned(),
        groups: if model.series.is_empty() {
            Vec::new()
        } else {
            vec![Group { heading: String::new(), figures: vec![figure] }]
        },
    }
}

/// Lines along an axis of the workload: a group for each set of workloads that differ in it only.
fn over(model: &Model<'_>, dimension: Dimension) -> Section {
    let (id, heading) = match dimension {
        Dimension::Iodepth => ("depth", "Over depth"),
        Dimension::Numjobs => ("threads", "Over threads"),
        Dimension::Bs => ("size", "Over block size"),
    };
    let groups: Vec<Group> = runs(model, dimension)
        .into_iter()
        .filter_map(|run| {
            let heading = model.title(model.workloads[run[0]], &[dimension]);
            let figures: Vec<Figure> = model
                .metrics()
                .filter_map(|metric| line_figure(model, &run, dimension, metric, &heading))
                .collect();
            (!figures.is_empty()).then_some(Group { heading, figures })
        })
        .collect();
    Section { id, heading, words: if groups.is_empty() { String::new() } else { error_words(model) }, groups }
}

/// What the error bars are, or why there are none.
fn error_words(model: &Model<'_>) -> String {
    let bars = match model.replicates() {
        0 | 1 => {
            "One replicate a cell: there are no error bars. Run the study with --replicates 3 or more to get \
             them."
        }
        _ => {
            "Means over replicates; error bars are the 95 % interval of the mean by Student's t, and one \
             without a cap reaches beyond the figure."
        }
    };
    let hollow = model.cells.iter().any(|cell| cell.verified == 0 && !cell.trusted.is_empty());
    format!("{bars}{}", if hollow { " Hollow marks: no trial of the cell is verified." } else { "" })
}

/// Workloads that differ in one axis only, where there are at least two that hold data.
pub(super) fn runs(model: &Model<'_>, dimension: Dimension) -> Vec<Vec<usize>> {
    let mut runs: Vec<(Workload, Vec<usize>)> = Vec::new();
    for (index, workload) in model.workloads.iter().enumerate() {
        if model.cells_of(index).all(|cell| cell.trusted.is_empty()) {
            continue;
        }
        let rest = dimension.without((*workload).clone());
        match runs.iter_mut().find(|(other, _)| *other == rest) {
            Some((_, run)) => run.push(index),
            None => runs.push((rest, vec![index])),
        }
    }
    runs.into_iter().map(|(_, run)| run).filter(|run| run.len() > 1).collect()
}

fn line_figure(
    model: &Model<'_>,
    run: &[usize],
    dimension: Dimension,
    metric: Metric,
    rest: &str,
) -> Option<Figure> {
    let mut values: Vec<u32> = run.iter().map(|index| dimension.of(model.workloads[*index])).collect();
    values.dedup();
    let at = |cell: &Cell<'_>| dimension.of(model.workloads[cell.workload]);
    let cells: Vec<(&Cell<'_>, Summary)> = model
        .cells
        .iter()
        .filter(|cell| run.contains(&cell.workload))
        .filter_map(|cell| Some((cell, model.summary(cell, metric)?)))
        .collect();
    let intervals = cells.iter().any(|(_, summary)| summary.interval.is_some());
    let (mut lines, mut rows): (Vec<Line>, Vec<Vec<String>>) = (Vec::new(), Vec::new());
    // Cells stand in the order of their series.
    for cells in cells.chunk_by(|(a, _), (b, _)| a.series == b.series) {
        let (series, one) = (cells[0].0.series, &model.series[cells[0].0.series]);
        rows.push(line_row(&one.name, cells, &values, intervals, at));
        let point = |(cell, summary): &(&Cell<'_>, Summary)| Point {
            x: f64::from(at(cell)),
            y: summary.mean,
            interval: summary.interval,
            hollow: cell.verified == 0,
            tip: if model.cells.len() > TIPPED_CELLS {
                String::new()
            } else {
                format!("{}, {}: {}", one.label, dimension.text(at(cell)), readable(summary.mean))
            },
        };
        lines.push(Line { series, label: one.label.clone(), points: cells.iter().map(point).collect() });
    }
    let mut columns = words(&["path", "trials", "verified"]);
    for value in &values {
        columns.push(format!("{} {}", dimension.word(), dimension.text(*value)));
        columns.extend(intervals.then(|| "\u{b1} 95 %".to_owned()));
    }
    let name = metric.title();
    let chart = Chart {
        title: format!("{name} over {}: {rest}", dimension.word()),
        x_title: dimension.title().to_owned(),
        y_title: model.name_of(metric),
        x_values: values.into_iter().map(|value| (f64::from(value), dimension.text(value))).collect(),
        lines,
    };
    (!rows.is_empty()).then(|| Figure {
        id: slug(&chart.title),
        drawing: lines::draw(&chart),
        title: chart.title,
        caption: capital(name),
        columns,
        rows,
        wide: false,
        note: None,
    })
}

/// A path's means along the axis, each with the half of its interval if there are any.
fn line_row(
    name: &str,
    cells: &[(&Cell<'_>, Summary)],
    values: &[u32],
    intervals: bool,
    at: impl Fn(&Cell<'_>) -> u32,
) -> Vec<String> {
    let sum = |of: fn(&(&Cell<'_>, Summary)) -> usize| cells.iter().map(of).sum::<usize>().to_string();
    let mut row = vec![name.to_owned(), sum(|(_, summary)| summary.n), sum(|(cell, _)| cell.verified)];
    for value in values {
        let summary = cells.iter().find(|(cell, _)| at(cell) == *value).map(|(_, summary)| summary);
        row.push(summary.map_or(String::new(), |summary| exact(summary.mean)));
        row.extend(intervals.then(|| summary.and_then(half).map_or(String::new(), exact)));
    }
    row
}

/// Half of the 95 % interval.
fn half(summary: &Summary) -> Option<f64> {
    summary.interval.map(|(low, high)| (high - low) / 2.0)
}

/// Bars for workloads that lie on no line.
fn bar_section(model: &Model<'_>) -> Section {
    let on_lines: Vec<usize> = Dimension::ALL.into_iter().flat_map(|d| runs(model, d)).flatten().collect();
    let groups: Vec<Group> = (0..model.workloads.len())
        .filter(|index| !on_lines.contains(index))
        .filter_map(|index| {
            let heading = model.title(model.workloads[index], &[]);
            let figures: Vec<Figure> =
                model.metrics().filter_map(|metric| bar_figure(model, index, metric, &heading)).collect();
            (!figures.is_empty()).then_some(Group { heading, figures })
        })
        .collect();
    let words = if groups.is_empty() { String::new() } else { error_words(model).replace("marks", "bars") };
    Section { id: "paths", heading: "Paths side by side", words, groups }
}

fn bar_figure(model: &Model<'_>, workload: usize, metric: Metric, rest: &str) -> Option<Figure> {
    let mut cells: Vec<(&Cell<'_>, Summary)> =
        model.cells_of(workload).filter_map(|cell| Some((cell, model.summary(cell, metric)?))).collect();
    // The best on top: the most IOPS, the least of most else.
    cells.sort_by(|(_, a), (_, b)| a.mean.total_cmp(&b.mean));
    if metric.more_is_better() {
        cells.reverse();
    }
    let bars: Vec<Bar> = cells
        .iter()
        .map(|(cell, summary)| Bar {
            series: cell.series,
            label: model.series[cell.series].label.clone(),
            value: summary.mean,
            interval: summary.interval,
            hollow: cell.verified == 0,
            text: readable(summary.mean),
        })
        .collect();
    let title = format!("{} by path: {rest}", metric.title());
    let row = |(cell, summary): &(&Cell<'_>, Summary)| {
        let name = model.series[cell.series].name.clone();
        let counts = [summary.n.to_string(), cell.verified.to_string()];
        let half = half(summary).map_or(String::new(), exact);
        [name].into_iter().chain(counts).chain([exact(summary.mean), half]).collect()
    };
    let rows = cells.iter().map(row).collect();
    (!bars.is_empty()).then(|| Figure {
        id: slug(&title),
        drawing: bars::draw(&title, &model.name_of(metric), &bars),
        caption: capital(metric.title()),
        title,
        columns: words(&["path", "trials", "verified", "mean", "\u{b1} 95 %"]),
        rows,
        wide: false,
        note: None,
    })
}

fn percentiles(model: &Model<'_>) -> Section {
    let figures: Vec<Figure> =
        (0..model.workloads.len()).filter_map(|index| percentile_figure(model, index)).collect();
    Section {
        id: "percentiles",
        heading: "Latency percentiles",
        words: if figures.is_empty() {
            String::new()
        } else {
            "Over all I/Os of a cell's trials together, each curve as far as it has I/Os beyond the \
             percentile. Dashed: no trial of the cell is verified."
                .to_owned()
        },
        groups: if figures.is_empty() { Vec::new() } else { vec![Group { heading: String::new(), figures }] },
    }
}

fn percentile_figure(model: &Model<'_>, workload: usize) -> Option<Figure> {
    let (mut curves, mut rows) = (Vec::new(), Vec::new());
    for cell in model.cells_of(workload) {
        let mut pooled = histogram::new();
        for part in cell.trusted.iter().filter_map(|one| histogram::decode(&one.latency.histogram)) {
            // A bin above the bounds would be of another program's making: left out.
            let _ = pooled.add(&part);
        }
        if pooled.is_empty() {
            continue;
        }
        let seen = |quantile: &f64| (1.0 - *quantile) * pooled.len() as f64 >= 1.0;
        let points: Vec<(f64, f64)> = QUANTILES
            .iter()
            .map(|(quantile, _)| *quantile)
            .filter(seen)
            .map(|quantile| (quantile, pooled.value_at_quantile(quantile) as f64 / 1000.0))
            .collect();
        let series = &model.series[cell.series];
        let mut row = vec![series.name.clone(), pooled.len().to_string()];
        // The histogram keeps three digits: nothing after the point tells more beyond a hundred.
        let digits =
            |us: f64| format!("{}", if us < 100.0 { (us * 100.0).round() / 100.0 } else { us.round() });
        row.extend(
            (0..QUANTILES.len()).map(|index| points.get(index).map_or(String::new(), |(_, us)| digits(*us))),
        );
        rows.push(row);
        curves.push(Curve {
            series: cell.series,
            label: series.label.clone(),
            points,
            hollow: cell.verified == 0,
        });
    }
    let caption = model.title(model.workloads[workload], &[]);
    let title = format!("Latency percentiles: {caption}");
    (!curves.is_empty()).then(|| Figure {
        id: slug(&title),
        drawing: curves::percentiles(&title, &curves),
        title,
        caption,
        columns: ["path", "I/Os"]
            .into_iter()
            .chain(QUANTILES.map(|(_, name)| name))
            .map(str::to_owned)
            .collect(),
        rows,
        wide: false,
        note: None,
    })
}

fn timeline(model: &Model<'_>) -> Section {
    let mut trials: Vec<(&Trial, &Measurement)> = model
        .trials
        .iter()
        .filter_map(|trial| Some((trial, trial.outcome.measurement()?)))
        .filter(|(_, measurement)| {
            measurement.verdict.kind != VerdictKind::Refuted && measurement.window_ns > 0
        })
        .collect();
    trials.sort_by_key(|(trial, _)| trial.started_unix_ns);
    let Some((first, _)) = trials.first() else {
        return Section { id: "time", heading: "Over time", words: String::new(), groups: Vec::new() };
    };
    let start = first.started_unix_ns;
    let curves = strokes(model, &trials, start);
    let rows = trials
        .iter()
        .filter_map(|(trial, measurement)| timeline_row(model, trial, measurement, start))
        .collect();
    let names: Vec<(usize, String)> = (0..model.series.len())
        .filter(|series| curves.iter().any(|curve| curve.series == *series))
        .map(|series| (series, model.series[series].label.clone()))
        .collect();
    let title = "IOPS over the time of the study".to_owned();
    let figure = Figure {
        id: "iops-over-time".to_owned(),
        drawing: curves::timeline(&title, &names, &curves),
        caption: title.clone(),
        title,
        columns: words(&[
            "start, s",
            "path",
            "workload",
            "replicate",
            "verdict",
            "IOPS",
            "least slice",
            "greatest slice",
        ]),
        rows,
        wide: true,
        note: None,
    };
    let words = format!(
        "{}, each a stroke from its start to its end, cut where its rate was taken; faint ones are \
         unproven. A stroke that slopes was not steady.",
        if curves.len() == 1 {
            "1 trial stands".to_owned()
        } else {
            format!("{} stand", plural(curves.len(), "trial"))
        }
    );
    Section {
        id: "time",
        heading: "Over time",
        words,
        groups: vec![Group { heading: String::new(), figures: vec![figure] }],
    }
}

/// A stroke for each trial: its rates over the time since the start.
fn strokes(model: &Model<'_>, trials: &[(&Trial, &Measurement)], start: u64) -> Vec<Curve> {
    let each = (TIMELINE_POINTS / trials.len()).clamp(1, 200);
    trials
        .iter()
        .filter_map(|(trial, measurement)| {
            let series = model.series_of(trial)?;
            let begin = (trial.started_unix_ns - start) as f64 / 1e9;
            let label = if trials.len() > TIPPED_CELLS {
                String::new()
            } else {
                format!("{}, {}", model.series[series].label, trial.workload.title())
            };
            let points = rates(measurement, each).into_iter().map(|(s, iops)| (begin + s, iops)).collect();
            Some(Curve { series, label, points, hollow: measurement.verdict.kind != VerdictKind::Verified })
        })
        .collect()
}

/// IOPS of so many slices at the most, each at its middle in s since the window's start; a flat stroke over
/// the whole window where there is but one.
fn rates(measurement: &Measurement, most: usize) -> Vec<(f64, f64)> {
    let slices = &measurement.series;
    let window = measurement.window_ns as f64 / 1e9;
    if slices.len() < 2 || most < 2 {
        return vec![(0.0, measurement.iops()), (window, measurement.iops())];
    }
    let (mut points, mut before) = (Vec::new(), 0u64);
    for group in slices.chunks(slices.len().div_ceil(most)) {
        let ios: u64 = group.iter().map(|slice| slice.ios).sum();
        let end = group.last().map_or(before, |slice| slice.end_ns);
        if end > before {
            let rate = ios as f64 * 1e9 / (end - before) as f64;
            points.push(((before + (end - before) / 2) as f64 / 1e9, rate));
        }
        before = before.max(end);
    }
    points
}

fn timeline_row(
    model: &Model<'_>,
    trial: &Trial,
    measurement: &Measurement,
    start: u64,
) -> Option<Vec<String>> {
    let rates: Vec<f64> = rates(measurement, usize::MAX).into_iter().map(|(_, rate)| rate).collect();
    Some(vec![
        exact((trial.started_unix_ns - start) as f64 / 1e9),
        model.series[model.series_of(trial)?].name.clone(),
        trial.workload.title(),
        (trial.replicate + 1).to_string(),
        measurement.verdict.kind.as_str().to_owned(),
        exact(measurement.iops()),
        exact(rates.iter().copied().fold(f64::MAX, f64::min)),
        exact(rates.iter().copied().fold(0.0, f64::max)),
    ])
}
