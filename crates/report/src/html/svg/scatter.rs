//! Points of two measured quantities: latency against cost, CPU use against power.

use super::axis::{PlotAxis, Scale, short};
use super::drawing::Drawing;
use super::lines::{below, left_of_plot, vertical_axis};
use super::{BOTTOM, Canvas, End, TOP, WIDTH, name_series, plot_height, right_of_plot};

/// A point.
pub(in super::super) struct Dot {
    pub(in super::super) x: f64,
    pub(in super::super) y: f64,
    /// It does not count fully: the mark is hollow.
    pub(in super::super) hollow: bool,
    /// Its tooltip.
    pub(in super::super) tip: String,
}

/// The points of a series.
pub(in super::super) struct Dots {
    pub(in super::super) series: usize,
    pub(in super::super) label: String,
    pub(in super::super) dots: Vec<Dot>,
}

/// The content of the chart.
pub(in super::super) struct ScatterChart {
    pub(in super::super) title: String,
    pub(in super::super) x_title: String,
    pub(in super::super) y_title: String,
    pub(in super::super) all: Vec<Dots>,
    /// A line joins the points of each series in their order.
    pub(in super::super) joined: bool,
    /// The corners of a line, from left to right: through points that no other one beats, or where both
    /// quantities are equal.
    pub(in super::super) front: Vec<(f64, f64)>,
    /// What the line is.
    pub(in super::super) front_name: &'static str,
    /// The greatest x that was asked for.
    pub(in super::super) bound: Option<f64>,
}

/// Draws the chart. Every point is one `mark`.
pub(in super::super) fn draw(chart: &ScatterChart) -> Drawing {
    let height = TOP + plot_height(chart.all.len()) + BOTTOM;
    let mut canvas = Canvas::new(WIDTH, height);
    let right = right_of_plot(chart.all.iter().map(|dots| dots.label.as_str()));
    let dots = || chart.all.iter().flat_map(|dots| &dots.dots);
    let ys: Vec<f64> = dots().map(|dot| dot.y).collect();
    let y = PlotAxis::fitting(&ys, (height - BOTTOM, TOP));
    let across = (left_of_plot(&y), WIDTH - right);
    let xs: Vec<f64> = dots().map(|dot| dot.x).chain(chart.bound).collect();
    let x = PlotAxis::fitting(&xs, (across.0 + 6.0, across.1 - 6.0));
    vertical_axis(&mut canvas, &y, across, &chart.y_title);
    canvas.ticks(y.start(), x.ticks().into_iter().map(|tick| (x.at(tick), short(tick))));
    let log = if x.scale == Scale::Log { ", log scale" } else { "" };
    below(&mut canvas, across, &format!("{}{log}", chart.x_title));
    if let Some(bound) = chart.bound {
        canvas.uprights(&[x.at(bound)], (TOP, height - BOTTOM), "limit");
    }
    let front: Vec<(f64, f64)> = chart.front.iter().map(|(a, b)| (x.at(*a), y.at(*b))).collect();
    if front.len() > 1 {
        canvas.polyline(&front, "limit", chart.front_name);
    }
    let mut ends = Vec::new();
    for Dots { series, label, dots } in &chart.all {
        let places: Vec<(f64, f64)> = dots.iter().map(|dot| (x.at(dot.x), y.at(dot.y))).collect();
        canvas.begin_series(*series);
        if chart.joined && places.len() > 1 {
            canvas.polyline(&places, "line", "");
        }
        for (dot, at) in dots.iter().zip(&places) {
            canvas.mark(*at, *series, if dot.hollow { "mark hollow" } else { "mark" }, &dot.tip);
        }
        canvas.end_series();
        ends.extend(places.last().map(|at| End { series: *series, label, at: *at }));
    }
    name_series(&mut canvas, across.1, &ends, (TOP, height - BOTTOM));
    canvas.finish(&chart.title)
}
