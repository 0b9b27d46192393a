//! A figure as a PDF document of one page (ISO 32000-1), with text that can be searched.
//!
//! `figure.css` alone says what elements look like; `style` reads it. The fonts are among the standard 14,
//! which every reader has: none is embedded.

mod font;
mod style;

use super::svg::Anchor;
use super::svg::drawing::{Drawing, Element, Point, Step};
use super::svg::label::Label;
use font::Font;
use pdf_writer::types::{LineCapStyle, LineJoinStyle};
use pdf_writer::writers::{ExtGraphicsState, Resources};
use pdf_writer::{Content, Finish, Name, Pdf, Rect, Ref, Str, TextStr};
use std::collections::BTreeSet;
pub(super) use style::Sheet;
use style::{Paint, Style};

/// Points per unit of a drawing, which is a CSS pixel.
const SCALE: f32 = 0.75;

/// Distance of the control points of a cubic curve that approximates a quarter of a circle: `4/3 (sqrt 2 -
/// 1)`.
const QUARTER: f64 = 0.552_284_75;

/// The drawing as a document whose information has its title.
pub(super) fn document(drawing: &Drawing, sheet: &Sheet<'_>) -> Vec<u8> {
    let mut page = PdfPage::new(drawing, sheet);
    drawing.elements.iter().for_each(|element| page.draw(element));
    let PdfPage { content, opacities, fonts, .. } = page;
    let [catalog, pages, only, contents, info] = [1, 2, 3, 4, 5].map(Ref::new);
    let mut pdf = Pdf::new();
    pdf.catalog(catalog).pages(pages);
    pdf.pages(pages).kids([only]).count(1);
    pdf.document_info(info).title(TextStr(&drawing.title)).producer(TextStr("iopj"));
    let mut page = pdf.page(only);
    page.parent(pages).contents(contents);
    page.media_box(Rect::new(0.0, 0.0, SCALE * rounded(drawing.width), SCALE * rounded(drawing.height)));
    list(page.resources(), &opacities, &fonts);
    page.finish();
    for font in &fonts {
        let mut dictionary = pdf.type1_font(Ref::new(font.object()));
        dictionary.base_font(Name(font.base()));
        if let Some(encoding) = font.encoding() {
            dictionary.encoding_predefined(Name(encoding));
        }
    }
    pdf.stream(contents, &content.finish());
    pdf.finish()
}

/// Lists the resources of a page.
fn list(mut resources: Resources<'_>, opacities: &[[f32; 2]], fonts: &BTreeSet<Font>) {
    let mut states = resources.ext_g_states();
    for (index, [fill, stroke]) in opacities.iter().enumerate() {
        let state = states.insert(Name(opacity_name(index).as_bytes()));
        state.start::<ExtGraphicsState<'_>>().non_stroking_alpha(*fill).stroking_alpha(*stroke);
    }
    states.finish();
    let mut names = resources.fonts();
    for font in fonts {
        names.pair(Name(font.name()), Ref::new(font.object()));
    }
}

/// The name of a graphics state that sets opacities.
fn opacity_name(index: usize) -> String {
    format!("o{index}")
}

/// A page that is being drawn.
struct PdfPage<'a> {
    sheet: &'a Sheet<'a>,
    content: Content,
    /// Opacities of fills and strokes, each pair once.
    opacities: Vec<[f32; 2]>,
    fonts: BTreeSet<Font>,
    /// The open groups, the figure itself first.
    groups: Vec<(Style, Anchor)>,
}

impl<'a> PdfPage<'a> {
    fn new(drawing: &Drawing, sheet: &'a Sheet<'a>) -> PdfPage<'a> {
        let mut content = Content::new();
        // The drawing's origin is at the top, the page's at the bottom.
        content.transform([SCALE, 0.0, 0.0, -SCALE, 0.0, SCALE * rounded(drawing.height)]);
        let groups = vec![(sheet.root(), Anchor::Start)];
        PdfPage { sheet, content, opacities: Vec::new(), fonts: BTreeSet::new(), groups }
    }

    /// The style and the anchor of an element of the innermost group.
    fn within(&self, element: &str, class: &str, anchor: Anchor) -> (Style, Anchor) {
        // The figure itself is never closed.
        let (parent, inherited) = &self.groups[self.groups.len() - 1];
        let anchor = if anchor == Anchor::Inherited { *inherited } else { anchor };
        (self.sheet.style(parent, element, class), anchor)
    }

    fn draw(&mut self, element: &Element) {
        match element {
            Element::Begin { class, anchor } => {
                let group = self.within("g", class, *anchor);
                self.groups.push(group);
            }
            Element::End => {
                self.groups.pop();
            }
            Element::Text { class, at, anchor, label } => {
                let (style, anchor) = self.within("text", class, *anchor);
                self.text(&style, *at, anchor, label);
            }
            Element::Rect { class, corner: (x, y), size: (width, height), .. } => {
                let [x, y, width, height] = [x, y, width, height].map(|value| rounded(*value));
                self.shape("rect", class, |content| {
                    content.rect(x, y, width, height);
                });
            }
            Element::Circle { class, centre, radius, .. } => {
                self.shape("circle", class, |content| circle(content, *centre, *radius));
            }
            Element::Path { class, steps, .. } => self.shape("path", class, |content| path(content, steps)),
        }
    }

    /// Fills and strokes an outline.
    fn shape(&mut self, element: &str, class: &str, outline: impl FnOnce(&mut Content)) {
        let (style, _) = self.within(element, class, Anchor::Inherited);
        let (fill, stroke) = (style.fill.colour(&style), style.stroke.colour(&style));
        self.content.save_state();
        self.opacity(&style);
        let content = &mut self.content;
        if let Some([r, g, b]) = fill {
            content.set_fill_rgb(r, g, b);
        }
        if let Some([r, g, b]) = stroke {
            content.set_stroke_rgb(r, g, b).set_line_width(style.stroke_width);
            content.set_line_cap(if style.round_cap {
                LineCapStyle::RoundCap
            } else {
                LineCapStyle::ButtCap
            });
            content.set_line_join(if style.round_join {
                LineJoinStyle::RoundJoin
            } else {
                LineJoinStyle::MiterJoin
            });
            content.set_dash_pattern(style.dash.iter().copied(), 0.0);
        }
        outline(content);
        match (fill, stroke) {
            (Some(_), Some(_)) => content.fill_nonzero_and_stroke(),
            (Some(_), None) => content.fill_nonzero(),
            (None, Some(_)) => content.stroke(),
            (None, None) => content.end_path(),
        };
        content.restore_state();
    }

    fn text(&mut self, style: &Style, (x, y): Point, anchor: Anchor, label: &Label) {
        let Some([r, g, b]) = style.fill.colour(style) else { return };
        let runs = font::runs(&label.text, style.is_bold);
        let own =
            f64::from(style.font_size) * runs.iter().map(|run| f64::from(run.width)).sum::<f64>() / 1000.0;
        // Helvetica is narrower than planned; the substitute for characters that it lacks may not be.
        let width = own.min(label.width);
        let x = match anchor {
            Anchor::Inherited | Anchor::Start => x,
            Anchor::Middle => x - width / 2.0,
            Anchor::End => x - width,
        };
        self.content.save_state();
        self.opacity(style);
        self.content.begin_text().set_fill_rgb(r, g, b);
        if width < own {
            self.content.set_horizontal_scaling(rounded(100.0 * width / own));
        }
        self.content.set_text_matrix([1.0, 0.0, 0.0, -1.0, rounded(x), rounded(y)]);
        for run in &runs {
            self.content.set_font(Name(run.font.name()), style.font_size).show(Str(&run.bytes));
            self.fonts.insert(run.font);
        }
        self.content.end_text().restore_state();
    }

    fn opacity(&mut self, style: &Style) {
        let pair = [style.fill_opacity, style.stroke_opacity];
        if pair == [1.0; 2] {
            return;
        }
        let known = self.opacities.iter().position(|other| *other == pair);
        let index = known.unwrap_or_else(|| {
            self.opacities.push(pair);
            self.opacities.len() - 1
        });
        self.content.set_parameters(Name(opacity_name(index).as_bytes()));
    }
}

impl Paint {
    /// Red, green and blue from 0 to 1; `None` if nothing is painted.
    fn colour(self, style: &Style) -> Option<[f32; 3]> {
        match self {
            Paint::None => None,
            Paint::Current => Some(style.colour),
            Paint::Solid(colour) => Some(colour),
        }
    }
}

fn path(content: &mut Content, steps: &[Step]) {
    let (mut x, mut y) = (0.0, 0.0);
    for step in steps {
        match *step {
            Step::Move(to) | Step::Line(to) => (x, y) = to,
            Step::Across(to) => x = to,
            Step::Upright(to) => y = to,
            Step::By((right, down)) => (x, y) = (x + right, y + down),
            Step::AcrossBy(right) => x += right,
            Step::UprightBy(down) => y += down,
            Step::Close => {}
        }
        match step {
            Step::Move(_) => content.move_to(rounded(x), rounded(y)),
            Step::Close => content.close_path(),
            _ => content.line_to(rounded(x), rounded(y)),
        };
    }
}

fn circle(content: &mut Content, (x, y): Point, radius: f64) {
    let at = |right: f64, down: f64| (rounded(x + right * radius), rounded(y + down * radius));
    let (start_x, start_y) = at(1.0, 0.0);
    content.move_to(start_x, start_y);
    let (mut right, mut down) = (1.0, 0.0);
    for _ in 0..4 {
        // A quarter of a turn further.
        let (to_right, to_down) = (-down, right);
        let first = at(right + QUARTER * to_right, down + QUARTER * to_down);
        let second = at(to_right + QUARTER * right, to_down + QUARTER * down);
        let end = at(to_right, to_down);
        content.cubic_to(first.0, first.1, second.0, second.1, end.0, end.1);
        (right, down) = (to_right, to_down);
    }
    content.close_path();
}

/// A coordinate to a hundredth of a unit: finer steps are invisible.
fn rounded(value: f64) -> f32 {
    if value.is_finite() { ((value * 100.0).round() / 100.0) as f32 } else { 0.0 }
}

#[cfg(test)]
mod tests;
