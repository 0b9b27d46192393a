//! A page for what is not one study's: title, numbers in large type, sections of bars and tables.

use super::figure::{Figure, Group};
use super::frame;
use super::svg::bars::{self, Bar};
use super::text::{escape, exact};
use crate::table::Table;

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
    /// How to read the figures and the table.
    pub note: String,
    /// Figures above the table.
    pub bars: Vec<BarGroup>,
    /// Headings of the columns; true for numbers.
    pub columns: Vec<(&'static str, bool)>,
    /// The rows, a cell for each column.
    pub rows: Vec<Vec<String>>,
}

/// Figures that belong together.
#[derive(Clone, Debug, Default)]
pub struct BarGroup {
    /// What they have in common.
    pub heading: String,
    /// The figures.
    pub figures: Vec<BarFigure>,
}

/// A value for each path, with the table behind it.
#[derive(Clone, Debug, Default)]
pub struct BarFigure {
    /// What is shown, beside the group's heading.
    pub caption: String,
    /// The axis, with its unit.
    pub axis: String,
    /// The bars, from above.
    pub bars: Vec<PathBar>,
}

/// A bar.
#[derive(Clone, Debug, Default)]
pub struct PathBar {
    /// The path.
    pub label: String,
    /// The number of its colour.
    pub series: usize,
    /// Its length.
    pub value: f64,
    /// What it may be as well, from and to.
    pub interval: Option<(f64, f64)>,
    /// The value as it is written.
    pub text: String,
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
    let mut drawn = 0;
    let sections: String = page.sections.iter().map(|one| section(one, &mut drawn)).collect();
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

/// A section; `drawn` figures are above it.
fn section(section: &TableSection, drawn: &mut usize) -> String {
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
    let groups = section.bars.iter().filter_map(|group| {
        let figures = group.figures.iter().filter_map(|one| {
            *drawn += 1;
            figure(one, &group.heading, *drawn)
        });
        Group::new(group.heading.as_str(), figures.collect())
    });
    let figures = frame::groups(&groups.collect::<Vec<_>>());
    format!(
        "<section id=\"{}\"><h2>{}</h2>{lead}{note}{figures}{table}</section>",
        section.id,
        escape(&section.heading)
    )
}

/// The drawing and its table.
fn figure(figure: &BarFigure, heading: &str, number: usize) -> Option<Figure> {
    let bar = |one: &PathBar| Bar {
        series: one.series,
        label: one.label.clone(),
        value: one.value,
        interval: one.interval,
        hollow: false,
        text: one.text.clone(),
    };
    let all: Vec<Bar> = figure.bars.iter().map(bar).collect();
    let drawing = bars::draw(&format!("{heading}: {}", figure.caption), &figure.axis, &all);
    let row = |bar: &Bar| {
        let ends =
            bar.interval.map_or([String::new(), String::new()], |(low, high)| [exact(low), exact(high)]);
        [vec![bar.label.clone(), exact(bar.value)], ends.to_vec()].concat()
    };
    let columns = ["path", figure.axis.as_str(), "from", "to"].map(str::to_owned).to_vec();
    let mut drawn = Figure::new(figure.caption.clone(), drawing, (columns, all.iter().map(row).collect()))?;
    drawn.id = format!("figure-{number}");
    Some(drawn)
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
            bars: vec![BarGroup {
                heading: bad(),
                figures: vec![BarFigure {
                    caption: bad(),
                    axis: bad(),
                    bars: vec![PathBar { label: bad(), value: 2.0, text: bad(), ..PathBar::default() }],
                }],
            }],
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

    #[test]
    fn bars_have_the_table_behind_them_and_every_figure_an_id_of_its_own() {
        let bar = |series, value: f64, interval| PathBar {
            label: format!("path {series}"),
            series,
            value,
            interval,
            text: format!("{value:.1}"),
        };
        let bars = vec![bar(0, 2.5, Some((2.0, 3.0))), bar(1, 4.0, None)];
        let one = BarFigure { caption: "latency".to_owned(), axis: "us".to_owned(), bars };
        let none = BarFigure { bars: Vec::new(), ..one.clone() };
        let group =
            |heading: &str, figures: Vec<BarFigure>| BarGroup { heading: heading.to_owned(), figures };
        let bars = vec![group("kind 1", vec![one.clone(), none.clone()]), group("kind 2", vec![one])];
        let section = TableSection { bars, ..TableSection::default() };
        let page = TablePage { sections: vec![section, TableSection::default()], ..TablePage::default() };
        let html = table_page(&page);
        assert_eq!(html.matches("<svg class=\"figure\"").count(), 2);
        assert!(html.contains("<figure id=figure-1>") && html.contains("<figure id=figure-3>"), "{html}");
        assert!(html.contains("<th>path 0<td>2.5<td>2<td>3") && html.contains("<th>path 1<td>4<td><td>"));
        assert!(html.contains("<h3>kind 2</h3>"));
        assert!(!table_page(&TablePage::default()).contains("<figure"));
    }
}
