//! Quantities over time in steps, each as a line or all of them stacked; in a lane below, stretches that are
//! marked.

use super::axis::PlotAxis;
use super::curves::time_axis;
use super::drawing::{Drawing, Point, Step};
use super::label::{LINE, TO_BASELINE};
use super::lines::{left_of_plot, vertical_axis};
use super::{Anchor, BOTTOM, Canvas, End, TO_NAME, TO_NAMES, TOP, WIDTH, name_series};

/// A quantity: its name, and its value in each step; absent where there is none.
pub(in super::super) struct StepLine<'a> {
    pub(in super::super) name: &'a str,
    pub(in super::super) values: &'a [Option<f64>],
}

/// A marked stretch of time.
pub(in super::super) struct Stretch {
    pub(in super::super) from_s: f64,
    pub(in super::super) until_s: f64,
    /// Its stroke is fainter.
    pub(in super::super) faint: bool,
    pub(in super::super) tip: String,
}

/// The lane of marked stretches: its name to the left of it, and what is in it.
pub(in super::super) struct Lane {
    pub(in super::super) name: &'static str,
    pub(in super::super) stretches: Vec<Stretch>,
}

/// The content of the chart; times are in s since `since`.
pub(in super::super) struct StepChart<'a> {
    pub(in super::super) title: String,
    pub(in super::super) y_title: String,
    pub(in super::super) since: &'static str,
    /// Begin and end of each step.
    pub(in super::super) spans: &'a [(f64, f64)],
    pub(in super::super) lines: Vec<StepLine<'a>>,
    pub(in super::super) lane: Option<Lane>,
    /// Room to the right of the plot, the same for figures that are one above the other.
    pub(in super::super) right: f64,
}

/// Room to the left of the plot, likewise.
const LEFT: f64 = 46.0;

/// Height of a plot with few names.
const LEAST_HEIGHT: f64 = 130.0;

/// Height of the lane, and of the middle of its strokes above its end: its name is a line below the axis'
/// least value.
const LANE: (f64, f64) = (LINE + 5.0, 5.0);

/// The shortest step that is visible.
const LEAST_WIDTH: f64 = 1.0;

/// Colours of the kinds of a stack, in their order: those of the bars of CPU time.
const KINDS: [&str; 6] = ["d0", "d1", "d2", "d3", "d4", "rest"];

/// Where the parts of a chart are.
struct Frame {
    canvas: Canvas,
    height: f64,
    across: (f64, f64),
    y: PlotAxis,
    /// Begin and end of each step.
    places: Vec<(f64, f64)>,
}

impl Frame {
    /// The axes of a chart.
    fn new(chart: &StepChart<'_>, height: f64, y: impl Fn((f64, f64)) -> PlotAxis) -> Frame {
        let lane = if chart.lane.is_some() { LANE.0 } else { 0.0 };
        let floor = TOP + height + lane;
        let mut canvas = Canvas::new(2.0 * WIDTH, floor + BOTTOM);
        let y = y((floor - lane, TOP));
        let across = (left_of_plot(&y).max(LEFT), 2.0 * WIDTH - chart.right);
        vertical_axis(&mut canvas, &y, across, &chart.y_title);
        let end = chart.spans.last().map_or(0.0, |(_, until)| *until);
        let (x, seconds) = time_axis(&mut canvas, (end, chart.since), floor, across);
        let place = |(from, until): (f64, f64)| {
            let from = x.at(from / seconds);
            (from, x.at(until / seconds).max(from + LEAST_WIDTH))
        };
        if let Some(Lane { name, stretches }) = &chart.lane {
            let middle = floor - LANE.1;
            canvas.text((across.0 - 6.0, middle + TO_BASELINE), Anchor::End, "tick-text", name);
            for stretch in stretches {
                let (from, until) = place((stretch.from_s, stretch.until_s));
                let faint = if stretch.faint { " faint" } else { "" };
                let class = format!("mark trial window{faint} s5");
                canvas.polyline(&[(from, middle), (until, middle)], &class, &stretch.tip);
            }
        }
        let places = chart.spans.iter().copied().map(place).collect();
        Frame { canvas, height: floor - lane, across, y, places }
    }
}

/// Draws each quantity as a line that is broken where it has no value. Every line is one `mark`, and so is
/// every marked stretch.
pub(in super::super) fn lines(chart: &StepChart<'_>) -> Drawing {
    let height = (LINE * chart.lines.len() as f64).max(LEAST_HEIGHT);
    let values: Vec<f64> = chart.lines.iter().flat_map(|line| line.values).flatten().copied().collect();
    let Frame { mut canvas, height, across, y, places } =
        Frame::new(chart, height, |ends| PlotAxis::fitting(&values, ends));
    let mut ends = Vec::new();
    for (series, StepLine { name, values }) in chart.lines.iter().enumerate() {
        let heights: Vec<Option<f64>> = values.iter().map(|value| value.map(|value| y.at(value))).collect();
        canvas.begin_series(series);
        canvas.path(line(&places, &heights), "mark curve", name);
        canvas.end_series();
        let last = places.iter().zip(&heights).rev().find_map(|((_, x), y)| Some((*x, (*y)?)));
        ends.extend(last.map(|at| End { series, label: name, at }));
    }
    name_series(&mut canvas, across.1, &ends, (TOP, height));
    canvas.finish(&chart.title)
}

/// Draws the quantities one upon the other, from zero; without a value in a step they are nothing there.
/// Every area is one `mark`.
pub(in super::super) fn stacked(chart: &StepChart<'_>) -> Drawing {
    let mut tops: Vec<Vec<f64>> = Vec::new();
    for StepLine { values, .. } in &chart.lines {
        let below = tops.last().cloned().unwrap_or_else(|| vec![0.0; chart.spans.len()]);
        tops.push(below.iter().zip(*values).map(|(below, value)| below + value.unwrap_or(0.0)).collect());
    }
    let greatest = tops.last().into_iter().flatten().copied().fold(0.0, f64::max);
    let height = (LINE * (chart.lines.len() + 1) as f64).max(LEAST_HEIGHT);
    let Frame { mut canvas, across, y, places, .. } =
        Frame::new(chart, height, |ends| PlotAxis::from_zero(greatest, ends));
    let mut floor = vec![y.at(0.0); chart.spans.len()];
    for ((StepLine { name, .. }, tops), class) in chart.lines.iter().zip(&tops).zip(KINDS.iter().cycle()) {
        let heights: Vec<f64> = tops.iter().map(|top| y.at(*top)).collect();
        canvas.path(area(&places, &heights, &floor), &format!("mark part {class}"), name);
        floor = heights;
    }
    // From the top down, as they lie.
    for (at, (line, class)) in chart.lines.iter().zip(KINDS.iter().cycle()).enumerate() {
        let middle = TOP + LINE * (chart.lines.len() - at) as f64;
        let x = across.1 + TO_NAMES;
        canvas.rect((x, middle - 4.5), (9.0, 9.0), &format!("part {class}"), line.name);
        canvas.text((x + TO_NAME, middle + TO_BASELINE), Anchor::Start, "name", line.name);
    }
    canvas.finish(&chart.title)
}

/// A line through the steps that have a height.
fn line(places: &[(f64, f64)], heights: &[Option<f64>]) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut before: Option<f64> = None;
    for ((from, until), height) in places.iter().zip(heights) {
        match (before, *height) {
            (Some(before), Some(y)) if before == y => steps.push(Step::Across(*until)),
            (Some(_), Some(y)) => steps.extend([Step::Upright(y), Step::Across(*until)]),
            (None, Some(y)) => steps.extend([Step::Move((*from, y)), Step::Across(*until)]),
            (_, None) => {}
        }
        before = *height;
    }
    steps
}

/// The area between two lines through all steps.
fn area(places: &[(f64, f64)], heights: &[f64], floor: &[f64]) -> Vec<Step> {
    let corners = |heights: &[f64]| -> Vec<Point> {
        let steps = places.iter().zip(heights);
        steps.flat_map(|((from, until), y)| [(*from, *y), (*until, *y)]).collect()
    };
    let back = corners(floor).into_iter().rev();
    let outline: Vec<Point> = corners(heights).into_iter().chain(back).collect();
    let step = |(at, point): (usize, Point)| if at == 0 { Step::Move(point) } else { Step::Line(point) };
    outline.into_iter().enumerate().map(step).chain([Step::Close]).collect()
}
