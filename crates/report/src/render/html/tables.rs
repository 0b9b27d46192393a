//! A page of tables alone, for what is not one study's: title, numbers in large type, sections of tables.

use super::frame;
use super::text::escape;
use crate::render::table::Table;

/// A page. Every text in it is plain, and is escaped here.
#[derive(Clone, Debug, Default)]
pub struct TablePage {
    /// What kind of page it is, above the title.
    pub over: String,
    /// The title.
    pub title: String,
    /// Where it comes from, below the title.
    pub place: String,
    /// Numbers in large type, and what each counts.
    pub facts: Vec<(String, String)>,
    /// The sections.
    pub sections: Vec<TableSection>,
    /// A sentence at the end.
    pub end: String,
}

/// A section of a page.
#[derive(Clone, Debug, Default)]
pub struct TableSection {
    /// Its name in links: letters and dashes.
    pub id: &'static str,
    /// Its heading.
    pub heading: String,
    /// What it says, a paragraph each; the first in large type.
    pub lead: Vec<String>,
    /// How to read the table.
    pub note: String,
    /// Headings of the columns; true for numbers.
    pub columns: Vec<(&'static str, bool)>,
    /// The rows, a cell for each column.
    pub rows: Vec<Vec<String>>,
}

/// The page as HTML: one file that loads nothing.
pub fn table_page(page: &TablePage) -> String {
    let facts: String = page
        .facts
        .iter()
        .map(|(number, what)| format!("<li><b>{}</b> {}</li>", escape(number), escape(what)))
        .collect();
    let links: Vec<(&str, String)> =
        page.sections.iter().map(|section| (section.id, escape(&section.heading))).collect();
    let links: Vec<(&str, &str)> = links.iter().map(|(id, heading)| (*id, heading.as_str())).collect();
    let sections: String = page.sections.iter().map(section).collect();
    format!(
        "{}<header><p class=\"over\">{}</p><h1>{}</h1><p class=\"place\">{}</p><ul \
         class=\"facts\">{facts}</ul></header>{}<main id=\"main\">{sections}{}",
        frame::head(&page.title),
        escape(&page.over),
        escape(&page.title),
        escape(&page.place),
        frame::contents(&links),
        frame::end(&escape(&page.end)),
    )
}

fn section(section: &TableSection) -> String {
    let lead: String =
        section.lead.iter().map(|words| format!("<p class=\"lead\">{}</p>", escape(words))).collect();
    let note = match section.note.as_str() {
        "" => String::new(),
        words => format!("<p class=\"note\">{}</p>", escape(words)),
    };
    let mut table = Table::of(&section.rows);
    for (at, (heading, is_number)) in section.columns.iter().enumerate() {
        let cell = |row: &Vec<String>| row.get(at).map(|cell| escape(cell)).unwrap_or_default();
        table = match is_number {
            true => table.right(escape(heading), cell),
            false => table.left(escape(heading), cell),
        };
    }
    let table =
        if section.rows.is_empty() { String::new() } else { table.html(&escape(&section.heading), false) };
    format!(
        "<section id=\"{}\"><h2>{}</h2>{lead}{note}{table}</section>",
        section.id,
        escape(&section.heading)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_escaped_everywhere() {
        let bad = || "<script>alert(1)</script>".to_owned();
        let section = TableSection {
            id: "one",
            heading: bad(),
            lead: vec![bad()],
            note: bad(),
            columns: vec![("host", false), ("ms", true)],
            rows: vec![vec![bad(), bad()]],
        };
        let page = TablePage {
            over: bad(),
            title: bad(),
            place: bad(),
            facts: vec![(bad(), bad())],
            sections: vec![section],
            end: bad(),
        };
        let html = table_page(&page);
        assert!(!html.contains("<script>alert"), "{html}");
        assert!(html.matches("&lt;script&gt;alert").count() >= 11, "{html}");
        assert!(html.starts_with("<!DOCTYPE html>") && html.trim_end().ends_with("</html>"));
    }
}
