//! Lines over an axis of the workload, with error bars and the series' names at their ends.

use super::axis::{PlotAxis, Scale, short};
use super::drawing::Drawing;
use super::label::{ABOVE, BELOW, LINE, TO_BASELINE, widest};
use super::{Anchor, BOTTOM, Canvas, End, TOP, WIDTH, name_series, plot_height, right_of_plot};

pub(in super::super) struct LinePoint {
    pub(in super::super) x: f64,
    pub(in super::super) y: f64,
    /// The interval of the error bar; absent for one replicate.
    pub(in super::super) interval: Option<(f64, f64)>,
    /// No trial of it is verified, so the mark is hollow.
    pub(in super::super) hollow: bool,
    /// Its tooltip.
    pub(in super::super) tip: String,
}

/// A series over the axis.
pub(in super::super) struct Line {
    pub(in super::super) series: usize,
    pub(in super::super) label: String,
    pub(in super::super) points: Vec<LinePoint>,
}

/// The content of a line chart.
pub(in super::super) struct LineChart {
    pub(in super::super) title: String,
    pub(in super::super) x_title: String,
    pub(in super::super) y_title: String,
    /// The values of the axis with their texts.
    pub(in super::super) x_values: Vec<(f64, String)>,
    pub(in super::super) lines: Vec<Line>,
    /// The greatest y that was asked for.
    pub(in super::super) bound: Option<f64>,
}

/// Distance from the values of a vertical axis to the plot.
const TO_PLOT: f64 = 6.0;

/// Draws the chart. Every point is one `mark`; a line's error bars are one `error`, each with one vertical
/// stroke.
pub(in super::super) fn draw(chart: &LineChart) -> Drawing {
    let height = TOP + plot_height(chart.lines.len()) + BOTTOM;
    let mut canvas = Canvas::new(WIDTH, height);
    let right = right_of_plot(chart.lines.iter().map(|line| line.label.as_str()));
    let y = y_axis(chart, height);
    let across = (left_of_plot(&y), WIDTH - right);
    let x = x_axis(chart, across);
    frame(&mut canvas, chart, (&x, &y), across);
    if let Some(bound) = chart.bound {
        canvas.levels(&[y.at(bound)], across, "limit");
    }
    let step = (16.0 / chart.lines.len() as f64).min(3.0);
    for (index, line) in chart.lines.iter().enumerate() {
        canvas.begin_series(line.series);
        // Side by side, because error bars at one value must not cover each other.
        let aside = step * (index as f64 - (chart.lines.len() - 1) as f64 / 2.0);
        let places: Vec<(f64, f64)> =
            line.points.iter().map(|point| ((x.at(point.x) + aside).round(), y.at(point.y))).collect();
        if places.len() > 1 {
            canvas.polyline(&places, "line", "");
        }
        let bar = |(point, at): (&LinePoint, &(f64, f64))| {
            let (low, high) = point.interval?;
            Some((at.0, [low, high].map(|value| (y.at(value), y.holds(value)))))
        };
        canvas.error_bars(&line.points.iter().zip(&places).filter_map(bar).collect::<Vec<_>>());
        for (point, at) in line.points.iter().zip(&places) {
            canvas.mark(*at, line.series, if point.hollow { "mark hollow" } else { "mark" }, &point.tip);
        }
        canvas.end_series();
    }
    let ends: Vec<End<'_>> = chart
        .lines
        .iter()
        .filter_map(|line| {
            let last = line.points.last()?;
            Some(End { series: line.series, label: &line.label, at: (x.at(last.x), y.at(last.y)) })
        })
        .collect();
    name_series(&mut canvas, across.1, &ends, (TOP, height - BOTTOM));
    canvas.finish(&chart.title)
}

/// Logarithmic, because depth, threads and block size grow by factors; linear if they hardly grow.
fn x_axis(chart: &LineChart, (left, right): (f64, f64)) -> PlotAxis {
    let values = || chart.x_values.iter().map(|(value, _)| *value);
    let (low, high) = (values().fold(f64::MAX, f64::min), values().fold(0.0, f64::max));
    let places = (left + 12.0, right - 10.0);
    if low > 0.0 && high / low >= 4.0 {
        PlotAxis::log(low, high, places)
    } else {
        PlotAxis::linear(low, high, places)
    }
}

/// Contains every mean; intervals are cut at one and a half times the greatest mean.
fn y_axis(chart: &LineChart, height: f64) -> PlotAxis {
    let points = || chart.lines.iter().flat_map(|line| &line.points);
    let greatest = points().map(|point| point.y).fold(0.0, f64::max);
    let mut values: Vec<f64> = points().map(|point| point.y).chain(chart.bound).collect();
    values.extend(points().filter_map(|point| point.interval).map(|(_, high)| high.min(1.5 * greatest)));
    PlotAxis::fitting(&values, (height - BOTTOM, TOP))
}

fn frame(canvas: &mut Canvas, chart: &LineChart, (x, y): (&PlotAxis, &PlotAxis), across: (f64, f64)) {
    vertical_axis(canvas, y, across, &chart.y_title);
    let texts = chart.x_values.iter().map(|(value, text)| (x.at(*value), text.clone()));
    canvas.ticks(y.start(), texts);
    let log = if x.scale == Scale::Log { ", log scale" } else { "" };
    below(canvas, across, &format!("{}{log}", chart.x_title));
}

/// The width of the values to the left of a plot.
pub(super) fn left_of_plot(y: &PlotAxis) -> f64 {
    let texts: Vec<String> = y.ticks().into_iter().map(short).collect();
    (TO_PLOT + widest(texts.iter().map(String::as_str))).max(40.0)
}

/// The title of a vertical axis above it, and lines across the plot at its ticks, with their values.
pub(super) fn vertical_axis(canvas: &mut Canvas, y: &PlotAxis, (left, right): (f64, f64), title: &str) {
    let log = if y.scale == Scale::Log { ", log scale" } else { "" };
    canvas.text((0.0, ABOVE), Anchor::Start, "axis-title", &format!("{title}{log}"));
    let mut ticks: Vec<(f64, f64)> = y.ticks().into_iter().map(|tick| (tick, y.at(tick))).collect();
    // There is no room for all of them if they span many decades.
    let mut last = f64::INFINITY;
    ticks.retain(|(_, at)| {
        let is_apart = last - at >= LINE + 1.0;
        last = if is_apart { *at } else { last };
        is_apart
    });
    canvas.levels(&ticks.iter().map(|(_, at)| *at).collect::<Vec<_>>(), (left, right), "grid");
    canvas.levels(&[y.start()], (left, right), "base");
    let text = |(tick, at): &(f64, f64)| ((left - TO_PLOT, at + TO_BASELINE), short(*tick));
    canvas.texts(Anchor::End, "tick-text", &ticks.iter().map(text).collect::<Vec<_>>());
}

/// The title of a horizontal axis, in the middle of its plot.
pub(super) fn below(canvas: &mut Canvas, (left, right): (f64, f64), title: &str) {
    canvas.text(((left + right) / 2.0, canvas.height - BELOW), Anchor::Middle, "axis-title", title);
}
