//! Small drawings in SVG: a canvas, the marks that tell series apart, and one module for each kind of chart.
//!
//! Colours and fonts are left to `figure.css`: the text that is drawn here holds classes only.

pub(super) mod axis;
pub(super) mod bars;
pub(super) mod curves;
pub(super) mod lines;
pub(super) mod map;
pub(super) mod power;

use super::text::escape;
use std::fmt::Write;

/// Width of a common figure in its own units; text is 11 units high.
pub(super) const WIDTH: f64 = 440.0;

/// Colours of the palette after Okabe and Ito that stand out on white and on black: seven, the yellow left out.
const COLOURS: usize = 7;

/// Where a text stands relative to its point.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    fn attribute(self) -> &'static str {
        match self {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        }
    }
}

/// A drawing under construction.
pub(super) struct Canvas {
    width: f64,
    height: f64,
    body: String,
}

impl Canvas {
    pub(super) fn new(width: f64, height: f64) -> Canvas {
        Canvas { width, height, body: String::new() }
    }

    pub(super) fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, class: &str, text: &str) {
        self.add(format_args!(
            "<text class=\"{class}\" x=\"{}\" y=\"{}\"{}>{}</text>",
            number(x),
            number(y),
            anchor.attribute(),
            escape(text)
        ));
    }

    /// Adds markup as it is.
    fn raw(&mut self, markup: &str) {
        self.body += markup;
    }

    /// Level lines from one place to another in one stroke.
    pub(super) fn levels(&mut self, heights: &[f64], (left, right): (f64, f64), class: &str) {
        let path: String =
            heights.iter().map(|y| format!("M{} {}H{}", number(left), number(*y), number(right))).collect();
        self.add(format_args!("<path class=\"{class}\" d=\"{path}\"/>"));
    }

    /// Texts of one kind, all anchored alike.
    pub(super) fn texts(&mut self, anchor: Anchor, class: &str, texts: &[((f64, f64), String)]) {
        self.add(format_args!("<g class=\"{class}\"{}>", anchor.attribute()));
        for ((x, y), text) in texts {
            self.add(format_args!("<text x=\"{}\" y=\"{}\">{}</text>", number(*x), number(*y), escape(text)));
        }
        self.body += "</g>";
    }

    /// Upright error bars in one stroke: place, and both ends with whether they have a cap.
    pub(super) fn error_bars(&mut self, bars: &[(f64, [(f64, bool); 2])]) {
        let mut path = String::new();
        for (x, ends) in bars {
            let [(bottom, _), (top, _)] = ends;
            let _ = write!(path, "M{} {}V{}", number(*x), number(*bottom), number(*top));
            for (y, _) in ends.iter().filter(|(_, capped)| *capped) {
                let _ = write!(path, "M{} {}h6", number(*x - 3.0), number(*y));
            }
        }
        if !path.is_empty() {
            self.add(format_args!("<path class=\"error\" d=\"{path}\"/>"));
        }
    }

    pub(super) fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &str) {
        self.add(format_args!(
            "<path class=\"{class}\" d=\"M{} {}L{} {}\"/>",
            number(x1),
            number(y1),
            number(x2),
            number(y2)
        ));
    }

    /// A rectangle; `tip` is shown when one points at it.
    pub(super) fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), class: &str, tip: &str) {
        self.add(format_args!(
            "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"><title>{}</title></rect>",
            number(x),
            number(y),
            number(width.max(0.5)),
            number(height),
            escape(tip)
        ));
    }

    /// An open line through points.
    pub(super) fn polyline(&mut self, points: &[(f64, f64)], class: &str, tip: &str) {
        let mut path = String::new();
        for (at, (x, y)) in points.iter().enumerate() {
            // Writing into a string cannot fail, here and below.
            let _ = write!(path, "{}{} {}", if at == 0 { 'M' } else { 'L' }, number(*x), number(*y));
        }
        self.add(format_args!("<path class=\"{class}\" d=\"{path}\"{}", end("path", tip)));
    }

    /// A point of a series, in the shape of the series.
    pub(super) fn mark(&mut self, at: (f64, f64), series: usize, class: &str, tip: &str) {
        self.body += &shape(series, at, class, tip);
    }

    /// Opens a group whose parts take the colour of a series.
    pub(super) fn begin_series(&mut self, series: usize) {
        self.add(format_args!("<g class=\"s{}\">", series % COLOURS));
    }

    /// Closes the group.
    pub(super) fn end_series(&mut self) {
        self.body += "</g>";
    }

    /// The whole drawing as it stands in HTML; alone it needs a name space and a style.
    pub(super) fn finish(self, title: &str) -> String {
        format!(
            "<svg class=\"figure\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\
             <rect class=\"paper\" width=\"100%\" height=\"100%\"/>{}</svg>",
            number(self.width),
            number(self.height),
            escape(title),
            self.body
        )
    }

    fn add(&mut self, markup: std::fmt::Arguments<'_>) {
        let _ = self.body.write_fmt(markup);
    }
}

/// A mark: five shapes, which with seven colours tell 35 series apart.
fn shape(series: usize, (x, y): (f64, f64), class: &str, tip: &str) -> String {
    // Each outline begins at its first corner, so that large pages stay small.
    let (x, y, outline) = match series % 5 {
        1 => (x - 3.3, y - 3.3, "h6.6v6.6h-6.6z"),
        2 => (x, y - 4.4, "l4.2 7.6h-8.4z"),
        3 => (x, y - 4.6, "l4.6 4.6-4.6 4.6-4.6-4.6z"),
        4 => (x, y + 4.4, "l4.2-7.6h-8.4z"),
        _ => {
            let (x, y) = (number(x), number(y));
            return format!("<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"3.6\"{}", end("circle", tip));
        }
    };
    format!("<path class=\"{class}\" d=\"M{} {}{outline}\"{}", number(x), number(y), end("path", tip))
}

/// The end of an element, with what is shown when one points at it.
fn end(element: &str, tip: &str) -> String {
    if tip.is_empty() { "/>".to_owned() } else { format!("><title>{}</title></{element}>", escape(tip)) }
}

/// The mark of a series for running text.
pub(super) fn swatch(series: usize) -> String {
    format!(
        "<svg class=\"figure swatch\" viewBox=\"0 0 11 11\" aria-hidden=\"true\"><g class=\"s{}\">{}</g></svg>",
        series % COLOURS,
        shape(series, (5.5, 5.5), "key", "")
    )
}

/// A coordinate with at most one decimal.
pub(super) fn number(value: f64) -> String {
    let value = if value.is_finite() { value } else { 0.0 };
    let text = format!("{value:.1}");
    match text.strip_suffix(".0") {
        Some("-0") => "0".to_owned(),
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

/// Places labels of one line each so that none covers another: the wished heights, moved apart by at least
/// `gap` and kept within the bounds. The order of the wishes is kept.
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

/// Draws the names of series beside a plot, each at the height of its last point; a thin line leads
/// there from points at the plot's edge.
pub(super) fn name_series(canvas: &mut Canvas, x: f64, ends: &[End<'_>], bounds: (f64, f64)) {
    let heights: Vec<f64> = ends.iter().map(|end| end.at.1).collect();
    let places: Vec<f64> = spread(&heights, 13.0, bounds);
    let mut leaders = String::new();
    for (end, y) in ends.iter().zip(&places) {
        if end.at.0 > x - 36.0 {
            let from = (number(end.at.0 + 5.0), number(end.at.1));
            let _ = write!(leaders, "M{} {}L{} {}", from.0, from.1, number(x - 2.0), number(*y));
        }
        canvas.mark((x + 5.0, *y), end.series, &format!("key s{}", end.series % COLOURS), "");
    }
    canvas.raw(&format!("<path class=\"leader\" d=\"{leaders}\"/>"));
    let names: Vec<_> = ends.iter().zip(places).map(|(end, y)| ((x + 13.0, y + 3.8), end.label.to_owned())).collect();
    canvas.texts(Anchor::Start, "name", &names);
}

/// The last point of a series.
pub(super) struct End<'a> {
    pub(super) series: usize,
    pub(super) label: &'a str,
    pub(super) at: (f64, f64),
}

/// Height that a column of names needs beside a plot of the usual height.
pub(super) fn plot_height(names: usize) -> f64 {
    (13.0 * names as f64).max(180.0)
}

#[cfg(test)]
mod tests {
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
    fn thirty_five_series_differ_in_colour_or_shape() {
        let looks: std::collections::BTreeSet<(usize, usize)> = (0..35).map(|s| (s % COLOURS, s % 5)).collect();
        assert_eq!(looks.len(), 35);
    }
}
