//! A table: a list of columns, each with its heading, its cells, and the side to which they are aligned.

use super::text::escape;

/// The side to which the cells of a column are aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Align {
    /// Texts.
    Left,
    /// Names, which are not broken across lines.
    LeftWhole,
    /// Numbers.
    Right,
}

/// A column: its heading, its side, and its cells.
type Column = (String, Align, Vec<String>);

/// A table of these rows, to which columns are added.
pub struct Table<'a, R> {
    rows: &'a [R],
    columns: Vec<Column>,
}

impl<'a, R> Table<'a, R> {
    /// A table without columns.
    pub fn of(rows: &'a [R]) -> Table<'a, R> {
        Table { rows, columns: Vec::new() }
    }

    /// Adds a column of texts.
    #[must_use]
    pub fn left(self, heading: impl Into<String>, cell: impl Fn(&R) -> String) -> Table<'a, R> {
        self.column(heading.into(), Align::Left, &cell)
    }

    /// Adds a column of names, which HTML does not break across lines.
    #[must_use]
    pub(super) fn name(self, heading: impl Into<String>, cell: impl Fn(&R) -> String) -> Table<'a, R> {
        self.column(heading.into(), Align::LeftWhole, &cell)
    }

    /// Adds a column of numbers.
    #[must_use]
    pub fn right(self, heading: impl Into<String>, cell: impl Fn(&R) -> String) -> Table<'a, R> {
        self.column(heading.into(), Align::Right, &cell)
    }

    fn column(mut self, heading: String, align: Align, cell: &dyn Fn(&R) -> String) -> Table<'a, R> {
        self.columns.push((heading, align, self.rows.iter().map(cell).collect()));
        self
    }

    /// The headings, and the cells of each row.
    pub(super) fn data(&self) -> (Vec<String>, Vec<Vec<String>>) {
        data(&self.columns)
    }

    /// The table for a terminal: one line per row below the headings, indented by two spaces, columns as wide
    /// as their widest cell and two spaces apart. Control characters in cells are escaped.
    pub fn text(&self) -> String {
        text(&self.columns)
    }

    /// The table in HTML, as a region of this name that scrolls unless `is_tall`. Headings and cells are
    /// HTML, with foreign text already escaped.
    pub(super) fn html(&self, label: &str, is_tall: bool) -> String {
        html(&self.columns, label, is_tall)
    }
}

// Not generic over the rows, so the program has one copy and not one per table.

fn data(columns: &[Column]) -> (Vec<String>, Vec<Vec<String>>) {
    let row = |at: usize| columns.iter().map(|(.., cells)| cells[at].clone()).collect();
    let rows = columns.first().map_or(0, |(.., cells)| cells.len());
    (columns.iter().map(|(heading, ..)| heading.clone()).collect(), (0..rows).map(row).collect())
}

fn text(columns: &[Column]) -> String {
    let padded = |(heading, align, cells): &Column| -> Vec<String> {
        let cells = cells.iter().map(|cell| escape(cell));
        let cells: Vec<String> = std::iter::once(heading.clone()).chain(cells).collect();
        let width = cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
        // A format's width ends at 65,535, and what a store calls a setting may be longer.
        let pad = |cell: &String| {
            let room = " ".repeat(width - cell.chars().count());
            match align {
                Align::Left | Align::LeftWhole => format!(" {cell}{room} "),
                Align::Right => format!(" {room}{cell} "),
            }
        };
        cells.iter().map(pad).collect()
    };
    let columns: Vec<Vec<String>> = columns.iter().map(padded).collect();
    let line = |at: usize| {
        let text = columns.iter().fold(String::from(" "), |text, cells| text + &cells[at]);
        format!("{}\n", text.trim_end())
    };
    (0..columns.first().map_or(0, Vec::len)).map(line).collect()
}

fn html(columns: &[Column], label: &str, is_tall: bool) -> String {
    let class = |at: usize| match columns[at].1 {
        Align::Left => "",
        Align::LeftWhole => " class=\"w\"",
        Align::Right => " class=\"n\"",
    };
    let heading = |(at, heading): (usize, &String)| {
        let class = if columns[at].1 == Align::Right { class(at) } else { "" };
        format!("<th scope=\"col\"{class}>{heading}</th>")
    };
    let cell = |(at, cell): (usize, &String)| match at {
        0 => format!("<th scope=\"row\"{}>{cell}</th>", class(at)),
        // A narrow window shows each row as lines, each under the heading of its column.
        _ => format!("<td{} data-label=\"{}\">{cell}</td>", class(at), columns[at].0),
    };
    let row =
        |cells: &Vec<String>| format!("<tr>{}</tr>", cells.iter().enumerate().map(cell).collect::<String>());
    let (headings, rows) = data(columns);
    format!(
        "<div class=\"scroll{}\" tabindex=\"0\" role=\"region\" \
         aria-label=\"{label}\"><table><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>",
        if is_tall { " tall" } else { "" },
        headings.iter().enumerate().map(heading).collect::<String>(),
        rows.iter().map(row).collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cell_in_html_says_its_column() {
        let rows = [("libaio", "equal")];
        let table = Table::of(&rows).left("path", |row| row.0.into()).left("decision", |row| row.1.into());
        let html = table.html("Decisions", false);
        assert!(html.contains("<td data-label=\"decision\">equal</td>"), "{html}");
    }

    #[test]
    fn columns_are_aligned_and_control_characters_escaped() {
        let rows = [("a\u{1b}[31m", "5"), ("libaio", "12,345")];
        let table = Table::of(&rows).left("path", |row| row.0.into()).right("IOPS", |row| row.1.into());
        assert_eq!(table.text(), "  path           IOPS\n  a\\u{1b}[31m       5\n  libaio       12,345\n");
    }

    /// Such a setting of a store ended the program.
    #[test]
    fn a_cell_may_be_longer_than_a_format_is_wide() {
        let rows = [("x".repeat(70_000), "5"), ("y".to_owned(), "6")];
        let table = Table::of(&rows).left("a", |row| row.0.clone()).right("b", |row| row.1.into());
        let text = table.text();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.len() == 3 && lines.iter().all(|line| line.len() == 2 + 70_000 + 2 + 1), "{text:.40}");
    }
}
