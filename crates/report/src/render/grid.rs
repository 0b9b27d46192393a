//! A table of text: columns as wide as their widest cell, two spaces apart.

use std::fmt::Write;

/// On which side of its column a cell stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Texts.
    Left,
    /// Numbers.
    Right,
}

/// A table of text under construction.
#[derive(Clone, Debug)]
pub struct Grid {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Grid {
    /// An empty table with these headings.
    pub fn new(columns: &[(&str, Align)]) -> Grid {
        Grid {
            columns: columns.iter().map(|(name, align)| ((*name).to_owned(), *align)).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; missing cells are empty, cells beyond the last column are left out.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells.into_iter().map(|cell| escape(&cell)).collect());
    }

    /// The table, a line a row, each indented by two spaces.
    pub fn render(&self) -> String {
        let cell = |row: &[String], column: usize| row.get(column).cloned().unwrap_or_default();
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| cell(row, column).chars().count());
            cells.chain([self.columns[column].0.chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let headings: Vec<String> = self.columns.iter().map(|(name, _)| name.clone()).collect();
        let mut text = String::new();
        for row in std::iter::once(&headings).chain(&self.rows) {
            let mut line = String::from(" ");
            for (column, ((_, align), width)) in self.columns.iter().zip(&widths).enumerate() {
                let cell = cell(row, column);
                // Writing into a string cannot fail.
                let _ = match align {
                    Align::Left => write!(line, " {cell:<width$} "),
                    Align::Right => write!(line, " {cell:>width$} "),
                };
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

/// Lines of at most `width` characters, broken at spaces and each preceded by `indent`.
pub fn wrap(text: &str, width: usize, indent: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if indent.len() + line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.iter().map(|line| format!("{indent}{line}\n")).collect()
}

/// Text of foreign origin, made harmless for a terminal: control characters are written out.
pub fn escape(text: &str) -> String {
    text.chars()
        .flat_map(|c| if c.is_control() { c.escape_default().collect::<Vec<_>>() } else { vec![c] })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_broken_at_spaces() {
        assert_eq!(wrap("one two three", 9, "  "), "  one two\n  three\n");
        assert_eq!(wrap("averyverylongword b", 5, ""), "averyverylongword\nb\n");
    }

    #[test]
    fn columns_are_aligned_and_control_characters_escaped() {
        let mut grid = Grid::new(&[("path", Align::Left), ("IOPS", Align::Right)]);
        grid.row(vec!["a\u{1b}[31m".into(), "5".into()]);
        grid.row(vec!["libaio".into(), "12,345".into()]);
        assert_eq!(grid.render(), "  path           IOPS\n  a\\u{1b}[31m       5\n  libaio       12,345\n");
    }
}
