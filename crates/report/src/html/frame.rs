//! What every page has: its head, the list of its parts, sections with figures and the tables behind them,
//! and its end.

use super::figure::{Figure, Group, Note, Section};
use super::text::escape;
use super::{COLOURS, FIGURE_STYLE, SCRIPT, SCRIPT_SHA256, STYLE, light_style};
use std::collections::BTreeMap;
use std::fmt::Write;

/// If there are more groups of figures than this, all but the first are folded.
const OPEN_GROUPS: usize = 4;

/// The list of a note with more items is folded.
const OPEN_ITEMS: usize = 8;

/// The head of a page of this name, with its style, and the begin of its body.
pub(super) fn head(name: &str) -> String {
    let colours: String =
        COLOURS.iter().map(|(name, light, dark)| format!("{name}:light-dark({light},{dark});")).collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta \
         http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'sha256-{SCRIPT_SHA256}'; img-src data:; base-uri 'none'; form-action 'none'\"><meta \
         name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{} \u{2013} iopj \
         report</title><link rel=\"icon\" \
         href=\"data:,\"><style>:root{{{colours}}}\n{STYLE}{FIGURE_STYLE}</style></head><body><a \
         class=\"skip\" href=\"#main\">Skip to the results</a>",
        escape(name)
    )
}

/// A link for each part: its id and its name.
pub(super) fn contents(links: &[(&str, &str)]) -> String {
    let items: String =
        links.iter().map(|(id, text)| format!("<li><a href=\"#{id}\">{text}</a></li>")).collect();
    format!("<nav aria-label=\"Contents\"><ul>{items}</ul></nav>")
}

/// Names and values of where a store comes from.
pub(super) fn provenance(facts: &[(&str, &str)], stored: &BTreeMap<String, String>) -> String {
    let stored = stored.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let rows: String = facts
        .iter()
        .copied()
        .chain(stored)
        .map(|(name, value)| {
            format!("<tr><th scope=\"row\">{}</th><td>{}</td></tr>", escape(name), escape(value))
        })
        .collect();
    format!(
        "<h2>Provenance</h2><div class=\"scroll tall\" tabindex=\"0\" role=\"region\" \
         aria-label=\"Provenance\"><table><tbody>{rows}</tbody></table></div>"
    )
}

/// The end of a page: a sentence about what it shows, the style of downloads, and the script.
pub(super) fn end(words: &str) -> String {
    format!(
        "</main><footer>{words}</footer><template id=\"figure-style\">{}</template><script>{SCRIPT}</script>\
         </body></html>",
        light_style()
    )
}

/// A section with its groups of figures and its tables.
pub(super) fn section(section: &Section) -> String {
    let mut html = format!("<section id=\"{}\"><h2>{}</h2>", section.id, section.heading);
    if !section.words.is_empty() {
        let _ = write!(html, "<p class=\"note\">{}</p>", escape(&section.words));
    }
    html + &groups(&section.groups) + &section.tables + "</section>"
}

/// Groups of figures; of many, all but the first are folded.
pub(super) fn groups(groups: &[Group]) -> String {
    let group = |(index, group): (usize, &Group)| {
        let figures: String = group.figures.iter().map(figure).collect();
        group_text(group, index == 0 || groups.len() <= OPEN_GROUPS, &figures)
    };
    groups.iter().enumerate().map(group).collect()
}

fn group_text(group: &Group, open: bool, figures: &str) -> String {
    let grid = format!("<div class=\"grid-of-figures\">{figures}</div>");
    match (group.heading.as_str(), open) {
        ("", _) => grid,
        (heading, true) => format!("<h3>{}</h3>{grid}", escape(heading)),
        (heading, false) => {
            format!("<details class=\"group\"><summary>{}</summary>{grid}</details>", escape(heading))
        }
    }
}

fn figure(figure: &Figure) -> String {
    let class = if figure.wide { " class=\"wide\"" } else { "" };
    let scrolls = if figure.wide {
        " tabindex=\"0\" role=\"region\" aria-label=\"Figure, scrolls sideways\""
    } else {
        ""
    };
    let caption = escape(&figure.caption);
    // A column is numeric if every cell is.
    let numeric: Vec<bool> = (0..figure.columns.len())
        .map(|column| {
            figure.rows.iter().all(|row| row[column].is_empty() || row[column].parse::<f64>().is_ok())
        })
        .collect();
    // Numbers have no class, because there are many.
    let class_of = |column: usize| if column == 0 || numeric[column] { "" } else { " class=t" };
    let mut html = format!(
        "<figure id={}{class}><figcaption>{caption}</figcaption><div \
         class=plot{scrolls}>{}</div>{}<details><summary>Table</summary><div class=scroll tabindex=0 \
         role=region aria-label=Data><table class=data><thead><tr>",
        figure.id,
        figure.drawing.svg(),
        figure.note.as_ref().map_or_else(String::new, note)
    );
    for (column, heading) in figure.columns.iter().enumerate() {
        let _ = write!(html, "<th{}>{}", class_of(column), escape(heading));
    }
    html += "<tbody>";
    for row in &figure.rows {
        html += "<tr>";
        for (column, cell) in row.iter().enumerate() {
            let _ = match column {
                0 => write!(html, "<th>{}", escape(cell)),
                _ => write!(html, "<td{}>{}", class_of(column), escape(cell)),
            };
        }
    }
    html + "</table></div></details></figure>"
}

fn note(Note { words, items }: &Note) -> String {
    let list: String = items.iter().map(|item| format!("<li>{}</li>", escape(item))).collect();
    let list = format!("<ul class=\"plain note\">{list}</ul>");
    let list = match items.len() {
        0 => String::new(),
        1..=OPEN_ITEMS => list,
        count => format!("<details><summary>All {count}</summary>{list}</details>"),
    };
    format!("<p class=note>{}</p>{list}", escape(words))
}
