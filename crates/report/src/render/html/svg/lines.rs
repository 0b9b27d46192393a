//! Lines over an axis of the workload, with error bars and the series' names at their ends.

use super::axis::{Axis, Scale, short};
use super::drawing::Drawing;
use super::{Anchor, Canvas, End, WIDTH, fitting, name_series, plot_height, right_of_plot};

/// A point of a line.
pub(in super::super) struct Point {
    pub(in super::super) x: f64,
    pub(in super::super) y: f64,
    /// The interval of the error bar; absent for one replicate.
    pub(in super::super) interval: Option<(f64, f64)>,
    /// No trial of it is verified: the mark is hollow.
    pub(in super::super) hollow: bool,
    /// What is said when one points at it.
    pub(in super::super) tip: String,
}

/// A series over the axis.
pub(in super::super) struct Line {
    pub(in super::super) series: usize,
    pub(in super::super) label: String,
    pub(in super::super) points: Vec<Point>,
}

/// All that a chart of lines shows.
pub(in super::super) struct Chart {
    pub(in super::super) title: String,
    pub(in super::super) x_title: String,
    pub(in super::super) y_title: String,
    /// The values of the axis with their texts.
    pub(in super::super) x_values: Vec<(f64, String)>,
    pub(in super::super) lines: Vec<Line>,
}

const LEFT: f64 = 40.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 36.0;

/// Draws the chart. Every point is one `mark`; a line's error bars are one `error`, each with one upright stroke.
pub(in super::super) fn draw(chart: &Chart) -> Drawing {
    let height = TOP + plot_height(chart.lines.len()) + BOTTOM;
    let mut canvas = Canvas::new(WIDTH, height);
    let right = right_of_plot(chart.lines.iter().map(|line| line.label.as_str()));
    let x = x_axis(chart, right);
    let y = y_axis(chart, height);
    frame(&mut canvas, chart, (&x, &y), (right, height));
    let step = (16.0 / chart.lines.len() as f64).min(3.0);
    for (index, line) in chart.lines.iter().enumerate() {
        canvas.begin_series(line.series);
        // Side by side, so that error bars at one value do not cover each other.
        let aside = step * (index as f64 - (chart.lines.len() - 1) as f64 / 2.0);
        let places: Vec<(f64, f64)> =
            line.points.iter().map(|point| ((x.at(point.x) + aside).round(), y.at(point.y))).collect();
        if places.len() > 1 {
            canvas.polyline(&places, "line", "");
        }
        let bar = |(point, at): (&Point, &(f64, f64))| {
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
    name_series(&mut canvas, WIDTH - right + 12.0, &ends, (TOP, height - BOTTOM));
    canvas.finish(&chart.title)
}

/// Depth, threads and block size grow by factors: logarithmic, unless they hardly do.
fn x_axis(chart: &Chart, right: f64) -> Axis {
    let values = || chart.x_values.iter().map(|(value, _)| *value);
    let (low, high) = (values().fold(f64::MAX, f64::min), values().fold(0.0, f64::max));
    let places = (LEFT + 12.0, WIDTH - right - 10.0);
    if low > 0.0 && high / low >= 4.0 { Axis::log(low, high, places) } else { Axis::linear(low, high, places) }
}

/// Holds every mean; an interval may reach one and a half times as far as the greatest mean and is cut there.
fn y_axis(chart: &Chart, height: f64) -> Axis {
    let points = || chart.lines.iter().flat_map(|line| &line.points);
    let greatest = points().map(|point| point.y).fold(0.0, f64::max);
    let mut values: Vec<f64> = points().map(|point| point.y).collect();
    values.extend(points().filter_map(|point| point.interval).map(|(_, high)| high.min(1.5 * greatest)));
    Axis::fitting(&values, (height - BOTTOM, TOP))
}

fn frame(canvas: &mut Canvas, chart: &Chart, (x, y): (&Axis, &Axis), (right, height): (f64, f64)) {
    let log = if y.scale == Scale::Log { ", log scale" } else { "" };
    canvas.text((0.0, 11.0), Anchor::Start, "axis-title", &fitting(&format!("{}{log}", chart.y_title), WIDTH));
    horizontal_grid(canvas, y, (LEFT, WIDTH - right));
    let (mut last, mut texts) = (f64::MIN, Vec::new());
    for (value, text) in &chart.x_values {
        let at = x.at(*value);
        // Texts that would touch are left out.
        if at - last > 5.0 + 6.0 * text.chars().count() as f64 {
            texts.push(((at, height - BOTTOM + 15.0), text.clone()));
            last = at;
        }
    }
    canvas.texts(Anchor::Middle, "tick-text", &texts);
    let log = if x.scale == Scale::Log { ", log scale" } else { "" };
    let title = format!("{}{log}", chart.x_title);
    canvas.text(((LEFT + WIDTH - right) / 2.0, height - 4.0), Anchor::Middle, "axis-title", &title);
}

/// Lines across a plot at the ticks of its vertical axis, with their values.
pub(super) fn horizontal_grid(canvas: &mut Canvas, y: &Axis, (left, right): (f64, f64)) {
    let ticks = y.ticks();
    let heights: Vec<f64> = ticks.iter().map(|tick| y.at(*tick)).collect();
    canvas.levels(&heights, (left, right), "grid");
    canvas.levels(&[y.start()], (left, right), "base");
    let texts: Vec<_> = ticks.iter().zip(heights).map(|(tick, at)| ((left - 6.0, at + 3.8), short(*tick))).collect();
    canvas.texts(Anchor::End, "tick-text", &texts);
}
