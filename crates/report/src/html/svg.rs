//! Charts: a canvas, the marks that distinguish series, and one module for each kind of chart.
//!
//! `figure.css` sets colours and fonts: elements here have classes only.

pub(super) mod axis;
pub(super) mod bars;
pub(super) mod curves;
pub(super) mod drawing;
pub(super) mod label;
pub(super) mod lines;
pub(super) mod map;
pub(super) mod power;
pub(super) mod scatter;
pub(super) mod steps;
mod text_anchor;

use drawing::{Drawing, Element, Point, Step};
use label::{ABOVE, BELOW, LINE, Label, TO_BASELINE, apart, widest};
pub(super) use text_anchor::{Anchor, number};

/// Width of a common figure in its own units; text is 11 units high, and 12 in narrow windows.
pub(super) const WIDTH: f64 = 440.0;

/// Where a plot starts below its title.
pub(super) const TOP: f64 = 26.0;

/// Distance from a plot's end down to the texts of its axis, which are below the last text beside the plot.
const TO_TICKS: f64 = BELOW + BELOW + ABOVE;

/// Height below a plot: the texts of its axis and a title.
pub(super) const BOTTOM: f64 = TO_TICKS + LINE + BELOW;

/// Colours of Okabe and Ito's palette that are visible on white and on black: all but the yellow.
const COLOURS: usize = 7;

/// A drawing under construction.
pub(super) struct Canvas {
    width: f64,
    height: f64,
    elements: Vec<Element>,
}

impl Canvas {
    pub(super) fn new(width: f64, height: f64) -> Canvas {
        Canvas { width, height, elements: Vec::new() }
    }

    /// A text, shortened to the room up to the drawing's edges.
    pub(super) fn text(&mut self, at: Point, anchor: Anchor, class: &str, text: &str) {
        let room = self.room(at.0, anchor);
        self.text_within(at, anchor, class, (text, room));
    }

    /// A text, shortened to this much room.
    pub(super) fn text_within(&mut self, at: Point, anchor: Anchor, class: &str, (text, room): (&str, f64)) {
        let is_bold = is_bold(class);
        self.elements.extend(element(at, anchor, class, Label::new(text, room, is_bold)));
    }

    /// A text that is left out if there is not enough room.
    pub(super) fn text_if_whole(
        &mut self,
        at: Point,
        anchor: Anchor,
        class: &str,
        (text, room): (&str, f64),
    ) {
        let label = Label::new(text, room, is_bold(class));
        if label.whole.is_empty() {
            self.elements.extend(element(at, anchor, class, label));
        }
    }

    /// The room from a point to the drawing's edges.
    fn room(&self, x: f64, anchor: Anchor) -> f64 {
        match anchor {
            Anchor::Inherited | Anchor::Start => self.width - x,
            Anchor::Middle => 2.0 * x.min(self.width - x),
            Anchor::End => x,
        }
    }

    /// The texts of an axis, each below its coordinate, as many as fit without overlap.
    pub(super) fn ticks(&mut self, plot_end: f64, texts: impl IntoIterator<Item = (f64, String)>) {
        let texts: Vec<_> =
            apart(texts).into_iter().map(|(x, text)| ((x, plot_end + TO_TICKS), text)).collect();
        self.texts(Anchor::Middle, "tick-text", &texts);
    }

    /// Horizontal lines in one stroke.
    pub(super) fn levels(&mut self, heights: &[f64], (left, right): (f64, f64), class: &str) {
        let steps = heights.iter().flat_map(|y| [Step::Move((left, *y)), Step::Across(right)]).collect();
        self.path(steps, class, "");
    }

    /// Vertical lines from the top to the bottom in one stroke.
    pub(super) fn uprights(&mut self, places: &[f64], (top, bottom): (f64, f64), class: &str) {
        let steps = places.iter().flat_map(|x| [Step::Move((*x, top)), Step::Upright(bottom)]).collect();
        self.path(steps, class, "");
    }

    /// Texts of one class and one anchor.
    pub(super) fn texts(&mut self, anchor: Anchor, class: &str, texts: &[(Point, String)]) {
        self.elements.push(Element::Begin { class: class.to_owned(), anchor });
        for (at, text) in texts {
            let label = Label::new(text, self.room(at.0, anchor), is_bold(class));
            self.elements.extend(element(*at, Anchor::Inherited, "", label));
        }
        self.elements.push(Element::End);
    }

    /// Vertical error bars in one stroke: x, and both ends with whether they have a cap.
    pub(super) fn error_bars(&mut self, bars: &[(f64, [(f64, bool); 2])]) {
        let mut steps = Vec::new();
        for (x, ends) in bars {
            let [(bottom, _), (top, _)] = ends;
            steps.extend([Step::Move((*x, *bottom)), Step::Upright(*top)]);
            for (y, _) in ends.iter().filter(|(_, capped)| *capped) {
                steps.extend([Step::Move((*x - 3.0, *y)), Step::AcrossBy(6.0)]);
            }
        }
        if !steps.is_empty() {
            self.path(steps, "error", "");
        }
    }

    pub(super) fn line(&mut self, from: Point, to: Point, class: &str) {
        self.path(vec![Step::Move(from), Step::Line(to)], class, "");
    }

    /// A rectangle; `tip` is its tooltip.
    pub(super) fn rect(&mut self, corner: Point, (width, height): Point, class: &str, tip: &str) {
        let (size, tip) = ((width.max(0.5), height), tip.to_owned());
        self.elements.push(Element::Rect { class: class.to_owned(), corner, size, tip });
    }

    /// An open line through points.
    pub(super) fn polyline(&mut self, points: &[Point], class: &str, tip: &str) {
        let step =
            |(at, point): (usize, &Point)| if at == 0 { Step::Move(*point) } else { Step::Line(*point) };
        self.path(points.iter().enumerate().map(step).collect(), class, tip);
    }

    /// A path with these commands.
    fn path(&mut self, steps: Vec<Step>, class: &str, tip: &str) {
        self.elements.push(Element::Path { class: class.to_owned(), steps, tip: tip.to_owned() });
    }

    /// A point of a series, in the shape of the series.
    pub(super) fn mark(&mut self, at: Point, series: usize, class: &str, tip: &str) {
        self.elements.push(shape(series, at, class, tip));
    }

    /// Opens a group whose parts take the colour of a series.
    pub(super) fn begin_series(&mut self, series: usize) {
        self.elements
            .push(Element::Begin { class: format!("s{}", series % COLOURS), anchor: Anchor::Inherited });
    }

    pub(super) fn end_series(&mut self) {
        self.elements.push(Element::End);
    }

    pub(super) fn finish(self, title: &str) -> Drawing {
        let Canvas { width, height, elements } = self;
        Drawing { title: title.to_owned(), width, height, elements }
    }
}

/// A text at the nearest whole units, unless it is empty.
fn element((x, y): Point, anchor: Anchor, class: &str, label: Label) -> Option<Element> {
    let at = (x.round(), y.round());
    (label.width > 0.0).then(|| Element::Text { class: class.to_owned(), at, anchor, label })
}

/// True if the style sheet makes texts of these classes bold.
pub(super) fn is_bold(class: &str) -> bool {
    class.split(' ').any(|one| matches!(one, "winner" | "on"))
}

/// A mark: five shapes, which with seven colours distinguish 35 series.
fn shape(series: usize, (x, y): Point, class: &str, tip: &str) -> Element {
    let (class, tip) = (class.to_owned(), tip.to_owned());
    // Each outline starts at its first corner and continues by relative moves, which keeps large pages small.
    let (start, ways): (Point, &[Step]) = match series % 5 {
        1 => ((x - 3.5, y - 3.5), &[Step::AcrossBy(7.0), Step::UprightBy(7.0), Step::AcrossBy(-7.0)]),
        2 => ((x, y - 4.4), &[Step::By((4.0, 8.0)), Step::AcrossBy(-8.0)]),
        3 => ((x, y - 5.0), &[Step::By((5.0, 5.0)), Step::By((-5.0, 5.0)), Step::By((-5.0, -5.0))]),
        4 => ((x, y + 4.4), &[Step::By((4.0, -8.0)), Step::AcrossBy(-8.0)]),
        _ => return Element::Circle { class, centre: (x, y), radius: 3.6, tip },
    };
    let steps = [&[Step::Move(start)], ways, &[Step::Close]].concat();
    Element::Path { class, steps, tip }
}

/// The mark of a series for running text.
pub(super) fn swatch(series: usize) -> String {
    let mut mark = String::new();
    shape(series, (5.5, 5.5), "key", "").write(&mut mark, (0.0, 0.0));
    format!(
        "<svg class=\"figure swatch\" viewBox=\"0 0 11 11\" aria-hidden=\"true\"><g \
         class=\"s{}\">{mark}</g></svg>",
        series % COLOURS
    )
}

/// Places one-line labels without overlap: the desired heights, moved until they are at least `gap` from each
/// other and within the bounds. The order is kept.
pub(super) fn spread(wishes: &[f64], gap: f64, (top, bottom): (f64, f64)) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wishes.len()).collect();
    order.sort_by(|a, b| wishes[*a].total_cmp(&wishes[*b]));
    let mut places = wishes.to_vec();
    let mut least = top;
    for index in &order {
        places[*index] = places[*index].max(least);
        least = places[*index] + gap;
    }
    let mut most = bottom;
    for index in order.iter().rev() {
        places[*index] = places[*index].min(most);
        most = places[*index] - gap;
    }
    places
}

/// Room for the longest of these names, not less than usual and not so much that the plot gets too narrow.
fn room_for<'a>(names: impl Iterator<Item = &'a str>, usual: f64) -> f64 {
    widest(names).clamp(usual, 0.4 * WIDTH)
}

/// Distance from a plot's right edge to the marks of the names beside it.
const TO_NAMES: f64 = 12.0;

/// Distance from there to the names.
const TO_NAME: f64 = 13.0;

/// Width of the names to the right of a plot, with their marks.
pub(super) fn right_of_plot<'a>(names: impl Iterator<Item = &'a str>) -> f64 {
    TO_NAMES + TO_NAME + room_for(names, 111.0)
}

/// Distance from a name to its bar.
pub(super) const TO_BAR: f64 = 8.0;

/// Width of the names to the left of bars.
pub(super) fn left_of_bars<'a>(names: impl Iterator<Item = &'a str>) -> f64 {
    TO_BAR + room_for(names, 124.0)
}

/// Draws the names of series beside a plot, each at the height of its last point; a thin line connects it
/// with a last point at the plot's edge.
pub(super) fn name_series(canvas: &mut Canvas, plot_right: f64, ends: &[End<'_>], bounds: (f64, f64)) {
    let x = plot_right + TO_NAMES;
    let heights: Vec<f64> = ends.iter().map(|end| end.at.1.round()).collect();
    let places: Vec<f64> = spread(&heights, LINE, bounds);
    let mut leaders = Vec::new();
    for (end, y) in ends.iter().zip(&places) {
        if end.at.0 > x - 36.0 {
            leaders.extend([Step::Move((end.at.0 + 5.0, end.at.1)), Step::Line((x - 2.0, *y))]);
        }
        canvas.mark((x + 5.0, *y), end.series, &format!("key s{}", end.series % COLOURS), "");
    }
    canvas.path(leaders, "leader", "");
    let name = |(end, y): (&End<'_>, f64)| ((x + TO_NAME, y + TO_BASELINE), end.label.to_owned());
    let names: Vec<_> = ends.iter().zip(places).map(name).collect();
    canvas.texts(Anchor::Start, "name", &names);
}

/// The last point of a series.
pub(super) struct End<'a> {
    pub(super) series: usize,
    pub(super) label: &'a str,
    pub(super) at: (f64, f64),
}

/// Height of a plot: the usual one, or more if the column of names beside it needs more.
pub(super) fn plot_height(names: usize) -> f64 {
    (LINE * names as f64).max(180.0)
}

#[cfg(test)]
mod tests {
    mod layout;

    use super::*;

    #[test]
    fn coordinates_are_short_and_finite() {
        assert_eq!([1.0, 1.25, -0.01, f64::NAN, 12.36].map(number), ["1", "1.2", "0", "0", "12.4"]);
    }

    #[test]
    fn labels_keep_apart_in_order_and_within_bounds() {
        assert_eq!(spread(&[10.0, 11.0, 50.0], 13.0, (0.0, 100.0)), [10.0, 23.0, 50.0]);
        assert_eq!(spread(&[99.0, 98.0], 13.0, (0.0, 100.0)), [100.0, 87.0]);
        assert!(spread(&[], 13.0, (0.0, 1.0)).is_empty());
    }

    #[test]
    fn names_get_room_for_the_longest_but_not_all_of_it() {
        let long = "io_uring syscall/interrupt scheduler=mq-deadline nr_requests=256";
        let of = |names: &[&str]| right_of_plot(names.iter().copied());
        assert_eq!(
            [of(&["libaio"]), of(&["libaio", "io_uring syscall/interrupt"]), of(&[long])],
            [136.0, 150.0, 201.0]
        );
    }

    #[test]
    fn thirty_five_series_differ_in_colour_or_shape() {
        let looks: std::collections::BTreeSet<(usize, usize)> =
            (0..35).map(|s| (s % COLOURS, s % 5)).collect();
        assert_eq!(looks.len(), 35);
    }
}
