//! Curves without points: latency over its percentiles, and rates over the time of the study.

use super::axis::{PlotAxis, Scale, short};
use super::drawing::Drawing;
use super::label::{ABOVE, LINE, TO_BASELINE, widest};
use super::lines::{below, left_of_plot, vertical_axis};
use super::{Anchor, BOTTOM, COLOURS, Canvas, End, TOP, WIDTH, name_series, plot_height, right_of_plot};

/// A curve: the values of a series along an axis.
pub(in super::super) struct Curve {
    pub(in super::super) series: usize,
    pub(in super::super) label: String,
    pub(in super::super) points: Vec<(f64, f64)>,
    /// No trial of it is verified, so the curve is dashed.
    pub(in super::super) hollow: bool,
}

/// Distance from a plot's left edge to the start of its axis, for a first mark to be visible as a whole.
const INDENT: f64 = 4.0;

/// The quantiles at which the axis has ticks.
const NAMED: [(f64, &str); 6] =
    [(0.0, "min"), (0.5, "50"), (0.9, "90"), (0.99, "99"), (0.999, "99.9"), (0.9999, "99.99")];

/// Latency over quantiles, on an axis that gives each further nine the same room. Every curve is one `mark`.
pub(in super::super) fn percentiles(title: &str, curves: &[Curve]) -> Drawing {
    let right = right_of_plot(curves.iter().map(|curve| curve.label.as_str()));
    let height = TOP + plot_height(curves.len()) + BOTTOM;
    let mut canvas = Canvas::new(WIDTH, height);
    let values: Vec<f64> = curves.iter().flat_map(|curve| curve.points.iter().map(|(_, us)| *us)).collect();
    let y = PlotAxis::fitting(&values, (height - BOTTOM, TOP));
    let across = (left_of_plot(&y), WIDTH - right);
    let rarest = curves.iter().flat_map(|curve| &curve.points).map(|(q, _)| rarity(*q)).fold(10.0, f64::max);
    let x = PlotAxis::log(1.0, rarest, (across.0 + INDENT, across.1));
    vertical_axis(&mut canvas, &y, across, "latency, \u{b5}s");
    let is_on_axis = |quantile: f64| x.holds(rarity(quantile) * (1.0 - 1e-9)) || quantile == 0.0;
    let named: Vec<_> = NAMED.into_iter().filter(|(quantile, _)| is_on_axis(*quantile)).collect();
    let places: Vec<f64> = named.iter().map(|(quantile, _)| x.at(rarity(*quantile))).collect();
    canvas.uprights(&places, (TOP, height - BOTTOM), "grid");
    // From the end of the tail: if it is long, the least quantile's name has no room beside the median's.
    let texts = named.iter().zip(&places).rev().map(|((_, text), at)| (*at, (*text).to_owned()));
    canvas.ticks(height - BOTTOM, texts);
    below(&mut canvas, across, "percentile, each further nine as wide");
    let place = |(q, us): (f64, f64)| (x.at(rarity(q)).round(), y.at(us));
    draw(&mut canvas, curves, place, (across.1, (TOP, height - BOTTOM)));
    canvas.finish(title)
}

/// The shares of I/Os at which the axis of a distribution has ticks.
const SHARES: [(f64, &str); 6] = [
    (0.5, "50 %"),
    (0.9, "90 %"),
    (0.99, "99 %"),
    (0.999, "99.9 %"),
    (0.9999, "99.99 %"),
    (0.99999, "99.999 %"),
];

/// The share of I/Os that take no longer than a latency, on an axis that gives each further nine the same
/// room, to five of them. A curve's points are quantiles and us. Every curve is one `mark`.
pub(in super::super) fn distribution(title: &str, curves: &[Curve]) -> Drawing {
    let right = right_of_plot(curves.iter().map(|curve| curve.label.as_str()));
    let height = TOP + plot_height(curves.len()) + BOTTOM;
    let mut canvas = Canvas::new(WIDTH, height);
    let left = TO_SHARES + widest(SHARES.iter().map(|(_, text)| *text));
    let across = (left, WIDTH - right);
    let y = PlotAxis::log(1.0, rarity(0.99999), (height - BOTTOM, TOP));
    let values: Vec<f64> = curves.iter().flat_map(|curve| curve.points.iter().map(|(_, us)| *us)).collect();
    let x = PlotAxis::fitting(&values, (across.0 + INDENT, across.1));
    let levels: Vec<(f64, &str)> = SHARES.iter().map(|(q, text)| (y.at(rarity(*q)), *text)).collect();
    canvas.levels(&levels.iter().map(|(at, _)| *at).collect::<Vec<_>>(), across, "grid");
    canvas.levels(&[y.start()], across, "base");
    let text = |(at, text): &(f64, &str)| ((left - TO_SHARES, at + TO_BASELINE), (*text).to_owned());
    canvas.texts(Anchor::End, "tick-text", &levels.iter().map(text).collect::<Vec<_>>());
    canvas.text((0.0, ABOVE), Anchor::Start, "axis-title", "I/Os that take no longer");
    canvas.ticks(y.start(), x.ticks().into_iter().map(|tick| (x.at(tick), short(tick))));
    let log = if x.scale == Scale::Log { ", log scale" } else { "" };
    below(&mut canvas, across, &format!("latency, \u{b5}s{log}"));
    let place = |(q, us): (f64, f64)| (x.at(us).round(), y.at(rarity(q)).round());
    draw(&mut canvas, curves, place, (across.1, (TOP, height - BOTTOM)));
    canvas.finish(title)
}

/// Draws the curves, the mark of each at its end, and their names beside a plot that reaches to the right and
/// to these heights.
fn draw(
    canvas: &mut Canvas,
    curves: &[Curve],
    place: impl Fn((f64, f64)) -> (f64, f64),
    (plot_right, bounds): (f64, (f64, f64)),
) {
    let mut ends = Vec::new();
    for curve in curves {
        let places: Vec<(f64, f64)> = curve.points.iter().map(|point| place(*point)).collect();
        canvas.begin_series(curve.series);
        canvas.polyline(&places, if curve.hollow { "mark curve dashed" } else { "mark curve" }, &curve.label);
        if let Some(last) = places.last() {
            canvas.mark(*last, curve.series, "key", "");
            ends.push(End { series: curve.series, label: &curve.label, at: *last });
        }
        canvas.end_series();
    }
    name_series(canvas, plot_right, &ends, bounds);
}

/// Distance from the shares to the plot.
const TO_SHARES: f64 = 6.0;

/// One over the share of I/Os that take longer.
fn rarity(quantile: f64) -> f64 {
    1.0 / (1.0 - quantile).max(1e-9)
}

/// Rates over the time of the study. Every trial is one `mark`.
pub(in super::super) fn timeline(title: &str, names: &[(usize, String)], trials: &[Curve]) -> Drawing {
    let (width, right) = (2.0 * WIDTH, right_of_plot(names.iter().map(|(_, label)| label.as_str())));
    let height = TOP + plot_height(names.len()) + BOTTOM;
    let mut canvas = Canvas::new(width, height);
    let end = trials.iter().flat_map(|trial| &trial.points).map(|(second, _)| *second).fold(0.0, f64::max);
    let values: Vec<f64> =
        trials.iter().flat_map(|trial| trial.points.iter().map(|(_, iops)| *iops)).collect();
    let y = PlotAxis::fitting(&values, (height - BOTTOM, TOP));
    let across = (left_of_plot(&y), width - right);
    vertical_axis(&mut canvas, &y, across, "IOPS of each slice of a trial");
    let (x, seconds) = time_axis(&mut canvas, (end, "the first trial"), y.start(), across);
    for trial in trials {
        let mut places: Vec<(f64, f64)> =
            trial.points.iter().map(|(second, iops)| (x.at(second / seconds), y.at(*iops))).collect();
        // A trial shorter than a stroke's width is drawn that wide.
        if let (Some(first), Some(last)) = (places.first().copied(), places.last_mut()) {
            last.0 = last.0.max(first.0 + 2.0);
        }
        let faint = if trial.hollow { " faint" } else { "" };
        canvas.polyline(&places, &format!("mark trial{faint} s{}", trial.series % COLOURS), &trial.label);
    }
    end_names(&mut canvas, names, across.1, (TOP, height - BOTTOM));
    canvas.finish(title)
}

/// Draws an axis of this many seconds since something, and returns the seconds in its unit: minutes or hours
/// where numbers of seconds would be long.
pub(super) fn time_axis(
    canvas: &mut Canvas,
    (end_s, since): (f64, &str),
    floor: f64,
    across: (f64, f64),
) -> (PlotAxis, f64) {
    let (unit, seconds) = match end_s {
        end if end >= 2.0 * 86_400.0 => ("h", 3600.0),
        end if end >= 7200.0 => ("min", 60.0),
        _ => ("s", 1.0),
    };
    let x = PlotAxis::linear(0.0, end_s / seconds, (across.0 + INDENT, across.1));
    canvas.ticks(floor, x.ticks().into_iter().map(|tick| (x.at(tick), short(tick))));
    below(canvas, across, &format!("time since {since}, {unit}"));
    (x, seconds)
}

/// The names of series beside a plot, from its top down.
pub(super) fn end_names(
    canvas: &mut Canvas,
    names: &[(usize, String)],
    plot_right: f64,
    (top, bottom): (f64, f64),
) {
    let room = (bottom - top) / names.len().max(1) as f64;
    let ends: Vec<End<'_>> = names
        .iter()
        .enumerate()
        .map(|(index, (series, label))| End {
            series: *series,
            label,
            at: (0.0, top + room.min(LINE) * index as f64),
        })
        .collect();
    name_series(canvas, plot_right, &ends, (top, bottom));
}
