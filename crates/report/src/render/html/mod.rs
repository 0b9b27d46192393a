//! The report as one HTML page, and its figures as SVG files.
//!
//! The page stands alone: style, script and figures are in it, and its content security policy lets it load nothing.
//! Every text that comes from a study, a target or a machine is escaped in `text`. Decisions and statistics are `analysis`'s.

mod best;
mod costs;
mod figures;
mod model;
mod page;
mod power;
mod svg;
mod text;

use crate::analysis::power::PowerTrace;
use iopj_store::{StudyRecord, Trial};
use model::Model;

/// Style of the page.
const STYLE: &str = include_str!("style.css");
/// Style of the figures, with the colours as variables.
const FIGURE_STYLE: &str = include_str!("figure.css");
/// The script: the switch between light and dark, and the downloads.
const SCRIPT: &str = include_str!("script.js");
/// SHA-256 of the script in base64, by which the policy lets it run.
const SCRIPT_SHA256: &str = "kNt7GvUYcZwZ0l7wXl96rJtg+o3isuoprp6UOc4jeo0=";

/// Colours that differ between light and dark: name, light, dark.
const COLOURS: [(&str, &str, &str); 6] = [
    ("--paper", "#ffffff", "#15181c"),
    ("--panel", "#f6f7f9", "#1c2025"),
    ("--ink", "#1c2128", "#e4e7eb"),
    ("--muted", "#59636e", "#9da7b3"),
    ("--rule", "#e1e4e8", "#30363d"),
    ("--accent", "#0065a3", "#6cb8ee"),
];

/// The report of a study as a whole HTML document, with the power over time of each of these traces. Of an emulated study it holds
/// counts and no time.
pub fn page(study: &StudyRecord, trials: &[Trial], power: &[PowerTrace]) -> String {
    let model = Model::new(study, trials);
    page::page(study, trials, &model, &figures::sections(&model, power))
}

/// Every figure of the report as a file of its own: its name and an SVG document on white. PDF is left
/// out: `rsvg-convert -f pdf` makes one of any of them.
pub fn figures(study: &StudyRecord, trials: &[Trial], power: &[PowerTrace]) -> Vec<(String, String)> {
    let model = Model::new(study, trials);
    let style = standalone_style();
    let all =
        figures::sections(&model, power).into_iter().flat_map(|section| section.groups).flat_map(|group| group.figures);
    all.map(|figure| (format!("{}.svg", figure.id), standalone(&figure, &style))).collect()
}

/// A figure as a document: with its name space, title and style.
fn standalone(figure: &figures::Figure, style: &str) -> String {
    let title = text::escape(&figure.title);
    let svg = figure.svg.replacen("<svg", "<svg xmlns=\"http://www.w3.org/2000/svg\"", 1);
    svg.replacen('>', &format!("><title>{title}</title>{style}"), 1)
}

/// The figures' style with the light colours in place of the variables, which few programs but browsers know.
fn standalone_style() -> String {
    let style = COLOURS
        .iter()
        .fold(FIGURE_STYLE.to_owned(), |style, (name, light, _)| style.replace(&format!("var({name})"), light));
    format!("<style>{style}</style>")
}

#[cfg(test)]
mod tests;
