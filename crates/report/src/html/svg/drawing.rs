//! The elements of a figure, independent of the format. This module writes them as SVG, `pdf` as PDF.

use super::super::text::escape;
use super::label::Label;
use super::{Anchor, number};
use std::fmt::Write;

/// A point, or a relative move, in the figure's units: to the right and down.
pub(in super::super) type Point = (f64, f64);

/// An element of a drawing. Classes are those of `figure.css`; `tip` is its tooltip unless empty.
pub(in super::super) enum Element {
    /// Opens a group whose elements inherit its class and anchor.
    Begin { class: String, anchor: Anchor },
    /// Closes the group.
    End,
    /// A line of text; without a class or an anchor it inherits those of its group.
    Text { class: String, at: Point, anchor: Anchor, label: Label },
    /// A rectangle: its upper left corner, width and height.
    Rect { class: String, corner: Point, size: Point, tip: String },
    /// A circle.
    Circle { class: String, centre: Point, radius: f64, tip: String },
    /// A stroked path.
    Path { class: String, steps: Vec<Step>, tip: String },
}

/// A command of a path, as in SVG: the first six are absolute, the others relative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) enum Step {
    Move(Point),
    Line(Point),
    Across(f64),
    Upright(f64),
    By(Point),
    AcrossBy(f64),
    UprightBy(f64),
    Close,
}

/// A whole figure.
pub(in super::super) struct Drawing {
    pub(in super::super) title: String,
    pub(in super::super) width: f64,
    pub(in super::super) height: f64,
    pub(in super::super) elements: Vec<Element>,
}

impl Drawing {
    /// The drawing as embedded in HTML; as a file of its own it also needs a namespace, a style and a
    /// background.
    pub(in super::super) fn svg(&self) -> String {
        let [width, height] = [self.width, self.height].map(number);
        let mut svg = format!(
            "<svg class=\"figure\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">",
            escape(&self.title)
        );
        let mut shift = (0.0, 0.0);
        for (at, element) in self.elements.iter().enumerate() {
            if matches!(element, Element::Begin { .. } | Element::End) {
                shift = shared_place(&self.elements[at + 1..]);
            }
            element.write(&mut svg, shift);
        }
        svg + "</svg>"
    }
}

/// The offset that all texts up to the end of a group share; zero if the group contains anything else. It is
/// written once, which keeps large pages small.
fn shared_place(elements: &[Element]) -> Point {
    let mut places = Vec::new();
    for element in elements {
        match element {
            Element::Text { class, at, .. } if class.is_empty() => places.push(*at),
            Element::End => break,
            _ => return (0.0, 0.0),
        }
    }
    let Some(first) = places.first() else { return (0.0, 0.0) };
    let shared =
        |of: fn(&Point) -> f64| if places.iter().all(|at| of(at) == of(first)) { of(first) } else { 0.0 };
    (shared(|at| at.0), shared(|at| at.1))
}

impl Element {
    /// Adds the element as SVG; `shift` is subtracted from the points of texts without a class and moved to
    /// their group.
    pub(super) fn write(&self, svg: &mut String, shift: Point) {
        // Writing into a string cannot fail, here and below.
        let _ = match self {
            Element::Begin { class, anchor } => {
                let moved = match shift {
                    (0.0, 0.0) => String::new(),
                    (x, y) => format!(" transform=\"translate({} {})\"", number(x), number(y)),
                };
                write!(svg, "<g class=\"{class}{}\"{moved}>", anchor.class())
            }
            Element::End => write!(svg, "</g>"),
            Element::Text { class, at, anchor, label } => {
                let (shift, class) = if class.is_empty() {
                    (shift, String::new())
                } else {
                    ((0.0, 0.0), format!(" class=\"{class}{}\"", anchor.class()))
                };
                write_text(svg, &class, (at.0 - shift.0, at.1 - shift.1), label);
                Ok(())
            }
            Element::Rect { class, corner: (x, y), size: (width, height), tip } => {
                let [x, y, width, height] = [x, y, width, height].map(|value| number(*value));
                let place = format!("x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"");
                write!(svg, "<rect class=\"{class}\" {place}{}", end("rect", tip))
            }
            Element::Circle { class, centre: (x, y), radius, tip } => {
                let place = format!("cx=\"{}\" cy=\"{}\" r=\"{}\"", number(*x), number(*y), number(*radius));
                write!(svg, "<circle class=\"{class}\" {place}{}", end("circle", tip))
            }
            Element::Path { class, steps, tip } => {
                write!(svg, "<path class=\"{class}\" d=\"{}\"{}", path(steps), end("path", tip))
            }
        };
    }
}

/// Adds a line of text that takes its planned width in any font; the tooltip shows the whole text if part of
/// it is left out.
fn write_text(svg: &mut String, class: &str, (x, y): Point, label: &Label) {
    let place = |name: &str, value: f64| match number(value) {
        nought if nought == "0" => String::new(),
        value => format!(" {name}=\"{value}\""),
    };
    let (x, y, width) = (place("x", x), place("y", y), place("textLength", label.width));
    let whole = if label.whole.is_empty() {
        String::new()
    } else {
        format!("<title>{}</title>", escape(&label.whole))
    };
    let text = escape(&label.text);
    let _ = write!(svg, "<text{class}{x}{y}{width} lengthAdjust=\"spacingAndGlyphs\">{whole}{text}</text>");
}

/// The end of an element, with its tooltip.
fn end(element: &str, tip: &str) -> String {
    if tip.is_empty() { "/>".to_owned() } else { format!("><title>{}</title></{element}>", escape(tip)) }
}

/// Path data in few characters, which keeps large pages small.
fn path(steps: &[Step]) -> String {
    let mut path = String::new();
    let mut before = None;
    for step in steps {
        let (letter, values) = match *step {
            Step::Move((x, y)) => ('M', vec![x, y]),
            Step::Line((x, y)) => ('L', vec![x, y]),
            Step::Across(x) => ('H', vec![x]),
            Step::Upright(y) => ('V', vec![y]),
            Step::By((x, y)) => ('l', vec![x, y]),
            Step::AcrossBy(x) => ('h', vec![x]),
            Step::UprightBy(y) => ('v', vec![y]),
            Step::Close => ('z', Vec::new()),
        };
        if before != Some(letter) || letter == 'M' {
            path.push(letter);
        }
        before = Some(letter);
        for value in values {
            let value = number(value);
            if path.ends_with(|last: char| last.is_ascii_digit()) && !value.starts_with('-') {
                path.push(' ');
            }
            path += &value;
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_short() {
        let diamond = [(4.6, 4.6), (-4.6, 4.6), (-4.6, -4.6)].map(Step::By);
        let steps = [&[Step::Move((1.0, -2.04))][..], &diamond, &[Step::Close]].concat();
        assert_eq!(path(&steps), "M1-2l4.6 4.6-4.6 4.6-4.6-4.6z");
        let bar = [Step::Move((3.0, 9.5)), Step::Upright(1.0), Step::Move((0.0, 1.0)), Step::AcrossBy(6.0)];
        assert_eq!(path(&bar), "M3 9.5V1M0 1h6");
        assert_eq!(
            path(&[Step::Move((0.0, 0.0)), Step::Line((1.0, 1.0)), Step::Line((2.0, 1.0))]),
            "M0 0L1 1 2 1"
        );
        assert_eq!(path(&[Step::Move((5.0, 5.0)), Step::Across(1.0), Step::UprightBy(-2.0)]), "M5 5H1v-2");
    }
}
