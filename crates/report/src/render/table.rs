//! A table: a list of columns, each with its heading, the side to which its cells are aligned, and what it
//! says of a row.

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

/// A column: its heading, its side, and what it says of a row.
type Column<'a, R> = (String, Align, Box<dyn Fn(&R) -> String + 'a>);

/// A table of these rows, to which columns are added.
pub struct Table<'a, R> {
    rows: &'a [R],
    columns: Vec<Column<'a, R>>,
}

impl<'a, R> Table<'a, R> {
    /// A table without columns.
    pub fn of(rows: &'a [R]) -> Table<'a, R> {
        Table { rows, columns: Vec::new() }
    }

    /// Adds a column of texts.
    #[must_use]
    pub fn left(mut self, heading: impl Into<String>, cell: impl Fn(&R) -> String + 'a) -> Table<'a, R> {
        self.columns.push((heading.into(), Align::Left, Box::new(cell)));
        self
    }

    /// Adds a column of names, which HTML does not break across lines.
    #[must_use]
    pub(super) fn name(
        mut self,
        heading: impl Into<String>,
        cell: impl Fn(&R) -> String + 'a,
    ) -> Table<'a, R> {
        self.columns.push((heading.into(), Align::LeftWhole, Box::new(cell)));
        self
    }

    /// Adds a column of numbers.
    #[must_use]
    pub fn right(mut self, heading: impl Into<String>, cell: impl Fn(&R) -> String + 'a) -> Table<'a, R> {
        self.columns.push((heading.into(), Align::Right, Box::new(cell)));
        self
    }

    /// The headings of the columns.
    pub(super) fn headings(&self) -> Vec<String> {
        self.columns.iter().map(|(heading, ..)| heading.clone()).collect()
    }

    /// The cells of each row.
    pub(super) fn cells(&self) -> Vec<Vec<String>> {
        let of = |row: &R| self.columns.iter().map(|(.., cell)| cell(row)).collect();
        self.rows.iter().map(of).collect()
    }

    /// The table for a terminal: one line per row below the headings, indented by two spaces, columns as wide
    /// as their widest cell and two spaces apart. Control characters in cells are escaped.
    pub fn text(&self) -> String {
        let escaped = |cells: Vec<String>| cells.iter().map(|cell| escape(cell)).collect();
        let cells = self.cells().into_iter().map(escaped);
        let lines: Vec<Vec<String>> = std::iter::once(self.headings()).chain(cells).collect();
        let width = |at: usize| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let line = |cells: &Vec<String>| {
            let mut text = String::from(" ");
            for (((_, align, _), cell), width) in self.columns.iter().zip(cells).zip(&widths) {
                text += &match align {
                    Align::Left | Align::LeftWhole => format!(" {cell:<width$} "),
                    Align::Right => format!(" {cell:>width$} "),
                };
            }
            format!("{}\n", text.trim_end())
        };
        lines.iter().map(line).collect()
    }

    /// The table in HTML, as a region of this name that scrolls, unless it is as tall as its rows. Headings
    /// and cells are HTML: what is foreign in them was escaped.
    pub(super) fn html(&self, label: &str, is_tall: bool) -> String {
        let class = |align: &Align| match align {
            Align::Left => "",
            Align::LeftWhole => " class=\"w\"",
            Align::Right => " class=\"n\"",
        };
        let heading = |(heading, align, _): &Column<'_, R>| {
            let class = if *align == Align::Right { class(align) } else { "" };
            format!("<th scope=\"col\"{class}>{heading}</th>")
        };
        let cell = |(at, ((_, align, _), cell)): (usize, (&Column<'_, R>, String))| match at {
            0 => format!("<th scope=\"row\"{}>{cell}</th>", class(align)),
            _ => format!("<td{}>{cell}</td>", class(align)),
        };
        let row = |cells: Vec<String>| {
            format!("<tr>{}</tr>", self.columns.iter().zip(cells).enumerate().map(cell).collect::<String>())
        };
        format!(
            "<div class=\"scroll{}\" tabindex=\"0\" role=\"region\" \
             aria-label=\"{label}\"><table><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>",
            if is_tall { " tall" } else { "" },
            self.columns.iter().map(heading).collect::<String>(),
            self.cells().into_iter().map(row).collect::<String>()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_control_characters_escaped() {
        let rows = [("a\u{1b}[31m", "5"), ("libaio", "12,345")];
        let table = Table::of(&rows).left("path", |row| row.0.into()).right("IOPS", |row| row.1.into());
        assert_eq!(table.text(), "  path           IOPS\n  a\\u{1b}[31m       5\n  libaio       12,345\n");
    }
}
