//! A power trace over time, with a lane of strokes beneath for the trials that ran meanwhile.

use super::axis::{Axis, Scale, short};
use super::curves::{end_names, time_axis};
use super::drawing::Drawing;
use super::lines::horizontal_grid;
use super::{Anchor, Canvas, WIDTH, plot_height, right_of_plot};

/// A trial's measured window.
pub(in super::super) struct Stroke {
    pub(in super::super) series: usize,
    pub(in super::super) from_s: f64,
    pub(in super::super) until_s: f64,
    pub(in super::super) tip: String,
}

/// All that the figure shows; times are in s since its start.
pub(in super::super) struct Chart {
    pub(in super::super) title: String,
    pub(in super::super) y_title: String,
    pub(in super::super) end_s: f64,
    pub(in super::super) points: Vec<(f64, f64)>,
    pub(in super::super) strokes: Vec<Stroke>,
    /// The series that have strokes, with their names.
    pub(in super::super) names: Vec<(usize, String)>,
}

const LEFT: f64 = 40.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 36.0;
/// Height of the lane between the curve and the axis.
const LANE: f64 = 14.0;

/// Draws it. The curve is one `mark`, and so is every stroke.
pub(in super::super) fn draw(chart: &Chart) -> Drawing {
    let (width, right) = (2.0 * WIDTH, right_of_plot(chart.names.iter().map(|(_, label)| label.as_str())));
    let height = TOP + plot_height(chart.names.len()) + LANE + BOTTOM;
    let floor = height - BOTTOM;
    let mut canvas = Canvas::new(width, height);
    let (x, unit, seconds) = time_axis(chart.end_s, (LEFT + 4.0, width - right));
    let watts: Vec<f64> = chart.points.iter().map(|(_, watts)| *watts).collect();
    let y = Axis::fitting(&watts, (floor - LANE, TOP));
    let log = if y.scale == Scale::Log { ", log scale" } else { "" };
    canvas.text((0.0, 11.0), Anchor::Start, "axis-title", &format!("{}{log}", chart.y_title));
    horizontal_grid(&mut canvas, &y, (LEFT, width - right));
    let ticks: Vec<_> = x.ticks().into_iter().map(|tick| ((x.at(tick), floor + 15.0), short(tick))).collect();
    canvas.texts(Anchor::Middle, "tick-text", &ticks);
    let middle = ((LEFT + width - right) / 2.0, height - 4.0);
    canvas.text(middle, Anchor::Middle, "axis-title", &format!("time since the first reading or trial, {unit}"));
    let mut places: Vec<(f64, f64)> = chart.points.iter().map(|(s, watts)| (x.at(s / seconds), y.at(*watts))).collect();
    // One reading alone is drawn as wide as a stroke.
    if let [only] = places[..] {
        places.push((only.0 + 2.0, only.1));
    }
    canvas.polyline(&places, "mark curve power", &chart.title);
    for stroke in &chart.strokes {
        let from = x.at(stroke.from_s / seconds);
        let until = x.at(stroke.until_s / seconds).max(from + 2.0);
        canvas.begin_series(stroke.series);
        canvas.polyline(&[(from, floor - LANE / 2.0), (until, floor - LANE / 2.0)], "mark trial window", &stroke.tip);
        canvas.end_series();
    }
    end_names(&mut canvas, &chart.names, width - right + 12.0, (TOP, floor));
    canvas.finish(&chart.title)
}
