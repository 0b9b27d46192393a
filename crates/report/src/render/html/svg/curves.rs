//! Curves without points: latency over its percentiles, and rates over the time of the study.

use super::axis::{Axis, Scale, short};
use super::drawing::Drawing;
use super::lines::horizontal_grid;
use super::{Anchor, COLOURS, Canvas, End, WIDTH, name_series, plot_height, right_of_plot};

/// A curve: the values of a series along an axis.
pub(in super::super) struct Curve {
    pub(in super::super) series: usize,
    pub(in super::super) label: String,
    pub(in super::super) points: Vec<(f64, f64)>,
    /// No trial of it is verified: the curve is dashed.
    pub(in super::super) hollow: bool,
}

const LEFT: f64 = 40.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 36.0;

/// Latency over quantiles, whose axis gives each further nine the same room. Every curve is one `mark`.
pub(in super::super) fn percentiles(title: &str, curves: &[Curve]) -> Drawing {
    let right = right_of_plot(curves.iter().map(|curve| curve.label.as_str()));
    let height = TOP + plot_height(curves.len()) + BOTTOM;
    let mut canvas = Canvas::new(WIDTH, height);
    let rarest = curves.iter().flat_map(|curve| &curve.points).map(|(q, _)| rarity(*q)).fold(10.0, f64::max);
    let x = Axis::log(1.0, rarest, (LEFT + 4.0, WIDTH - right));
    let values: Vec<f64> = curves.iter().flat_map(|curve| curve.points.iter().map(|(_, ns)| *ns)).collect();
    let y = Axis::fitting(&values, (height - BOTTOM, TOP));
    let log = if y.scale == Scale::Log { ", log scale" } else { "" };
    canvas.text((0.0, 11.0), Anchor::Start, "axis-title", &format!("latency, \u{b5}s{log}"));
    horizontal_grid(&mut canvas, &y, (LEFT, WIDTH - right));
    let mut grid = Vec::new();
    let mut texts: Vec<((f64, f64), String)> = Vec::new();
    for (quantile, text) in [(0.0, "min"), (0.5, "50"), (0.9, "90"), (0.99, "99"), (0.999, "99.9"), (0.9999, "99.99")] {
        let at = x.at(rarity(quantile));
        if x.holds(rarity(quantile) * (1.0 - 1e-9)) || quantile == 0.0 {
            grid.push(at);
            // Where the tail is long, the least has no room for its name beside the median.
            if texts.last().is_some_and(|((last, _), _)| at - last < 18.0) {
                texts.pop();
            }
            texts.push(((at, height - BOTTOM + 15.0), text.to_owned()));
        }
    }
    canvas.uprights(&grid, (TOP, height - BOTTOM), "grid");
    canvas.texts(Anchor::Middle, "tick-text", &texts);
    canvas.text(
        ((LEFT + WIDTH - right) / 2.0, height - 4.0),
        Anchor::Middle,
        "axis-title",
        "percentile, each further nine as wide",
    );
    let mut ends = Vec::new();
    for curve in curves {
        let places: Vec<(f64, f64)> =
            curve.points.iter().map(|(q, ns)| (x.at(rarity(*q)).round(), y.at(*ns))).collect();
        canvas.begin_series(curve.series);
        canvas.polyline(&places, if curve.hollow { "mark curve dashed" } else { "mark curve" }, &curve.label);
        if let Some(last) = places.last() {
            canvas.mark(*last, curve.series, "key", "");
            ends.push(End { series: curve.series, label: &curve.label, at: *last });
        }
        canvas.end_series();
    }
    name_series(&mut canvas, WIDTH - right + 12.0, &ends, (TOP, height - BOTTOM));
    canvas.finish(title)
}

/// One over the share of I/Os that take longer.
fn rarity(quantile: f64) -> f64 {
    1.0 / (1.0 - quantile).max(1e-9)
}

/// Rates over the time of the study in seconds. Every trial is one `mark`.
pub(in super::super) fn timeline(title: &str, names: &[(usize, String)], trials: &[Curve]) -> Drawing {
    let (width, right) = (2.0 * WIDTH, right_of_plot(names.iter().map(|(_, label)| label.as_str())));
    let height = TOP + plot_height(names.len()) + BOTTOM;
    let mut canvas = Canvas::new(width, height);
    let end = trials.iter().flat_map(|trial| &trial.points).map(|(second, _)| *second).fold(0.0, f64::max);
    let (x, unit, seconds) = time_axis(end, (LEFT + 4.0, width - right));
    let values: Vec<f64> = trials.iter().flat_map(|trial| trial.points.iter().map(|(_, iops)| *iops)).collect();
    let y = Axis::fitting(&values, (height - BOTTOM, TOP));
    let log = if y.scale == Scale::Log { ", log scale" } else { "" };
    canvas.text((0.0, 11.0), Anchor::Start, "axis-title", &format!("IOPS of each slice of a trial{log}"));
    horizontal_grid(&mut canvas, &y, (LEFT, width - right));
    let ticks: Vec<_> = x.ticks().into_iter().map(|tick| ((x.at(tick), height - BOTTOM + 15.0), short(tick))).collect();
    canvas.texts(Anchor::Middle, "tick-text", &ticks);
    let middle = ((LEFT + width - right) / 2.0, height - 4.0);
    canvas.text(middle, Anchor::Middle, "axis-title", &format!("time since the first trial, {unit}"));
    for trial in trials {
        let mut places: Vec<(f64, f64)> =
            trial.points.iter().map(|(second, iops)| (x.at(second / seconds), y.at(*iops))).collect();
        // A trial shorter than a stroke is wide is drawn as wide as one.
        if let (Some(first), Some(last)) = (places.first().copied(), places.last_mut()) {
            last.0 = last.0.max(first.0 + 2.0);
        }
        let faint = if trial.hollow { " faint" } else { "" };
        canvas.polyline(&places, &format!("mark trial{faint} s{}", trial.series % COLOURS), &trial.label);
    }
    end_names(&mut canvas, names, width - right + 12.0, (TOP, height - BOTTOM));
    canvas.finish(title)
}

/// An axis over so many seconds, its unit and the seconds of one: minutes and hours where seconds would be long numbers.
pub(super) fn time_axis(end_s: f64, places: (f64, f64)) -> (Axis, &'static str, f64) {
    let (unit, seconds) = match end_s {
        end if end >= 2.0 * 86_400.0 => ("h", 3600.0),
        end if end >= 7200.0 => ("min", 60.0),
        _ => ("s", 1.0),
    };
    (Axis::linear(0.0, end_s / seconds, places), unit, seconds)
}

/// The names of series beside a plot, from its top down.
pub(super) fn end_names(canvas: &mut Canvas, names: &[(usize, String)], x: f64, (top, bottom): (f64, f64)) {
    let room = (bottom - top) / names.len().max(1) as f64;
    let ends: Vec<End<'_>> = names
        .iter()
        .enumerate()
        .map(|(index, (series, label))| End { series: *series, label, at: (0.0, top + room.min(16.0) * index as f64) })
        .collect();
    name_series(canvas, x, &ends, (top, bottom));
}
