//! A power trace over time; in a lane below it, a stroke for each trial.

use super::axis::PlotAxis;
use super::curves::{end_names, time_axis};
use super::drawing::Drawing;
use super::lines::{left_of_plot, vertical_axis};
use super::{BOTTOM, Canvas, TOP, WIDTH, plot_height, right_of_plot};

/// A trial's measured window.
pub(in super::super) struct Stroke {
    pub(in super::super) series: usize,
    pub(in super::super) from_s: f64,
    pub(in super::super) until_s: f64,
    pub(in super::super) tip: String,
}

/// The content of the figure; times are in s since its start.
pub(in super::super) struct PowerChart {
    pub(in super::super) title: String,
    pub(in super::super) y_title: String,
    pub(in super::super) end_s: f64,
    pub(in super::super) points: Vec<(f64, f64)>,
    pub(in super::super) strokes: Vec<Stroke>,
    /// The series with strokes, and their names.
    pub(in super::super) names: Vec<(usize, String)>,
}

/// Height of the lane between the curve and the axis.
const LANE: f64 = 14.0;

/// Draws the figure. The curve is one `mark`, and so is every stroke.
pub(in super::super) fn draw(chart: &PowerChart) -> Drawing {
    let (width, right) = (2.0 * WIDTH, right_of_plot(chart.names.iter().map(|(_, label)| label.as_str())));
    let height = TOP + plot_height(chart.names.len()) + LANE + BOTTOM;
    let floor = height - BOTTOM;
    let mut canvas = Canvas::new(width, height);
    let watts: Vec<f64> = chart.points.iter().map(|(_, watts)| *watts).collect();
    let y = PlotAxis::fitting(&watts, (floor - LANE, TOP));
    let across = (left_of_plot(&y), width - right);
    vertical_axis(&mut canvas, &y, across, &chart.y_title);
    let (x, seconds) = time_axis(&mut canvas, (chart.end_s, "the first reading or trial"), floor, across);
    let mut places: Vec<(f64, f64)> =
        chart.points.iter().map(|(s, watts)| (x.at(s / seconds), y.at(*watts))).collect();
    // A single reading is drawn as wide as a stroke.
    if let [only] = places[..] {
        places.push((only.0 + 2.0, only.1));
    }
    canvas.polyline(&places, "mark curve power", &chart.title);
    for stroke in &chart.strokes {
        let from = x.at(stroke.from_s / seconds);
        let until = x.at(stroke.until_s / seconds).max(from + 2.0);
        canvas.begin_series(stroke.series);
        canvas.polyline(
            &[(from, floor - LANE / 2.0), (until, floor - LANE / 2.0)],
            "mark trial window",
            &stroke.tip,
        );
        canvas.end_series();
    }
    end_names(&mut canvas, &chart.names, across.1, (TOP, floor));
    canvas.finish(&chart.title)
}
