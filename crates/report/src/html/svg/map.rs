//! The winner map: the best path in each cell of two workload axes.

use super::drawing::Drawing;
use super::label::{ABOVE, LINE, TO_BASELINE, widest, width};
use super::{Anchor, Canvas};

/// A cell with a winner.
pub(in super::super) struct DrawnCell {
    /// Column and row.
    pub(in super::super) at: (usize, usize),
    pub(in super::super) series: usize,
    pub(in super::super) label: String,
    /// The lead over the next path, or a note that there is no next path.
    pub(in super::super) margin: String,
    /// The 95 % interval of the lead; empty without one.
    pub(in super::super) interval: String,
    /// The winner does not differ significantly from the next path.
    pub(in super::super) tie: bool,
    /// It differs without some of its trials, and gets a star.
    pub(in super::super) differs: bool,
    pub(in super::super) tip: String,
}

/// The content of a winner map.
pub(in super::super) struct DrawnMap {
    pub(in super::super) title: String,
    pub(in super::super) x_title: String,
    pub(in super::super) y_title: String,
    pub(in super::super) columns: Vec<String>,
    pub(in super::super) rows: Vec<String>,
    pub(in super::super) cells: Vec<DrawnCell>,
    /// The meaning of a star.
    pub(in super::super) footnote: String,
}

/// Least width of the rows' values: with it, four columns are as wide as a usual figure.
const LEFT: f64 = 54.0;
const TOP: f64 = 40.0;
const CELL: (f64, f64) = (96.0, 74.0);
/// Distance from a cell's corner to its texts, and down to the first of their four lines.
const TO_TEXT: f64 = 20.0;
const TO_LINE: f64 = 15.0;
/// Marks a cell that is decided differently without some of its trials, beside the last line of its texts.
const STAR: &str = "*";
/// Distance from a row's value to its cells.
const TO_CELLS: f64 = 10.0;

/// Draws the map; every cell with a winner is one `mark`, others stay empty.
pub(in super::super) fn draw(map: &DrawnMap) -> Drawing {
    let (x_title, y_title) = (format!("{} \u{2192}", map.x_title), format!("{} \u{2193}", map.y_title));
    let rows = widest(map.rows.iter().map(String::as_str));
    let left = LEFT.max(rows + TO_CELLS).max(width(&y_title) + TO_CELLS);
    let width = (left + CELL.0 * map.columns.len() as f64 + 2.0).max(super::WIDTH);
    let end = TOP + CELL.1 * map.rows.len() as f64 + 4.0;
    let has_star = map.cells.iter().any(|cell| cell.differs);
    let mut canvas = Canvas::new(width, if has_star { end + LINE } else { end });
    if has_star {
        canvas.text((0.0, end + ABOVE), Anchor::Start, "footnote", &format!("{STAR} {}", map.footnote));
    }
    canvas.text((left, ABOVE), Anchor::Start, "axis-title", &x_title);
    canvas.text((0.0, TOP - 8.0), Anchor::Start, "axis-title", &y_title);
    for (column, text) in map.columns.iter().enumerate() {
        let place = (left + CELL.0 * (column as f64 + 0.5), TOP - 8.0);
        canvas.text_within(place, Anchor::Middle, "tick-text", (text, CELL.0 - TO_CELLS));
    }
    for (row, text) in map.rows.iter().enumerate() {
        let middle = TOP + CELL.1 * (row as f64 + 0.5);
        canvas.text((left - TO_CELLS, middle + TO_BASELINE), Anchor::End, "tick-text", text);
        for column in 0..map.columns.len() {
            let corner = (left + CELL.0 * column as f64 + 1.0, TOP + CELL.1 * row as f64 + 1.0);
            match map.cells.iter().find(|cell| cell.at == (column, row)) {
                Some(cell) => winner(&mut canvas, corner, cell),
                None => canvas.rect(
                    corner,
                    (CELL.0 - 2.0, CELL.1 - 2.0),
                    "void",
                    "not measured, or no valid trial",
                ),
            }
        }
    }
    canvas.finish(&map.title)
}

fn winner(canvas: &mut Canvas, (x, y): (f64, f64), cell: &DrawnCell) {
    canvas.begin_series(cell.series);
    let class = if cell.tie { "mark cell tie" } else { "mark cell" };
    canvas.rect((x, y), (CELL.0 - 2.0, CELL.1 - 2.0), class, &cell.tip);
    canvas.mark((x + 11.0, y + 13.0), cell.series, "key", "");
    canvas.end_series();
    let room = CELL.0 - 2.0 - TO_TEXT - 2.0;
    let (first, second) = two_lines(&cell.label, room);
    // The table has the whole text.
    let lines = [("winner", first), ("winner", second), ("margin", &cell.margin), ("margin", &cell.interval)];
    for (line, (class, text)) in lines.into_iter().enumerate() {
        let place = (x + TO_TEXT, y + TO_LINE + LINE * line as f64);
        canvas.text_within(place, Anchor::Start, class, (text, room));
    }
    if cell.differs {
        let place = (x + TO_TEXT / 2.0, y + TO_LINE + 2.0 * LINE);
        canvas.text_within(place, Anchor::Middle, "star", (STAR, TO_TEXT));
    }
}

/// An interface, and what distinguishes its paths; an interface alone is broken behind a hyphen if it is too
/// long.
fn two_lines(label: &str, room: f64) -> (&str, &str) {
    label.split_once(' ').unwrap_or_else(|| match label.rfind('-') {
        Some(hyphen) if width(label) > room => label.split_at(hyphen + 1),
        _ => (label, ""),
    })
}
