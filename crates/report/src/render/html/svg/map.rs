//! The winner map: the best path in each cell of two workload axes.

use super::drawing::Drawing;
use super::{Anchor, Canvas};

/// A cell with a winner.
pub(in super::super) struct Cell {
    /// Column and row.
    pub(in super::super) at: (usize, usize),
    pub(in super::super) series: usize,
    pub(in super::super) label: String,
    /// The distance to the next, or that there is none.
    pub(in super::super) margin: String,
    /// The winner cannot be told from the next.
    pub(in super::super) tie: bool,
    pub(in super::super) tip: String,
}

/// All that a winner map shows.
pub(in super::super) struct Map {
    pub(in super::super) title: String,
    pub(in super::super) x_title: String,
    pub(in super::super) y_title: String,
    pub(in super::super) columns: Vec<String>,
    pub(in super::super) rows: Vec<String>,
    pub(in super::super) cells: Vec<Cell>,
}

const LEFT: f64 = 54.0;
const TOP: f64 = 40.0;
const CELL: (f64, f64) = (96.0, 56.0);

/// Draws the map; every cell with a winner is one `mark`, others stay empty.
pub(in super::super) fn draw(map: &Map) -> Drawing {
    let width = (LEFT + CELL.0 * map.columns.len() as f64 + 2.0).max(super::WIDTH);
    let mut canvas = Canvas::new(width, TOP + CELL.1 * map.rows.len() as f64 + 4.0);
    canvas.text((LEFT, 11.0), Anchor::Start, "axis-title", &format!("{} \u{2192}", map.x_title));
    canvas.text((0.0, TOP - 8.0), Anchor::Start, "axis-title", &format!("{} \u{2193}", map.y_title));
    for (column, text) in map.columns.iter().enumerate() {
        canvas.text((LEFT + CELL.0 * (column as f64 + 0.5), TOP - 8.0), Anchor::Middle, "tick-text", text);
    }
    for (row, text) in map.rows.iter().enumerate() {
        canvas.text((LEFT - 10.0, TOP + CELL.1 * (row as f64 + 0.5) + 3.8), Anchor::End, "tick-text", text);
        for column in 0..map.columns.len() {
            let corner = (LEFT + CELL.0 * column as f64 + 1.0, TOP + CELL.1 * row as f64 + 1.0);
            match map.cells.iter().find(|cell| cell.at == (column, row)) {
                Some(cell) => winner(&mut canvas, corner, cell),
                None => canvas.rect(corner, (CELL.0 - 2.0, CELL.1 - 2.0), "void", "not measured, or no trial stands"),
            }
        }
    }
    canvas.finish(&map.title)
}

fn winner(canvas: &mut Canvas, (x, y): (f64, f64), cell: &Cell) {
    canvas.begin_series(cell.series);
    let class = if cell.tie { "mark cell tie" } else { "mark cell" };
    canvas.rect((x, y), (CELL.0 - 2.0, CELL.1 - 2.0), class, &cell.tip);
    canvas.mark((x + 11.0, y + 13.0), cell.series, "key", "");
    canvas.end_series();
    // An interface and what tells its paths apart stand on a line each.
    let (first, second) = cell.label.split_once(' ').unwrap_or((&cell.label, ""));
    canvas.text((x + 20.0, y + 17.0), Anchor::Start, "winner", &cut(first));
    canvas.text((x + 20.0, y + 30.0), Anchor::Start, "winner", &cut(second));
    canvas.text((x + 20.0, y + 46.0), Anchor::Start, "margin", &cell.margin);
}

/// A text that fits a cell; the whole one is in the cell's tip.
fn cut(text: &str) -> String {
    if text.chars().count() <= 12 { text.to_owned() } else { text.chars().take(11).chain(['\u{2026}']).collect() }
}
