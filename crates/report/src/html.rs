//! The report of a study or of a watch as one HTML page, and its figures as SVG and PDF files.
//!
//! The page contains its style, script and figures, and its content security policy lets it load nothing.
//! `text` escapes every text that comes from a study, a target or a machine. `analysis` makes the decisions
//! and statistics.

mod advice;
mod by_path;
mod cost_bars;
mod cpu;
mod energy;
mod figure;
mod frame;
mod helvetica;
mod kinds;
mod loads;
mod maps;
mod model;
mod over_axis;
mod page;
mod pdf;
mod percentiles;
mod plots;
mod power;
mod predicted;
mod sections;
mod svg;
mod tables;
mod text;
mod timeline;
mod two_hosts;
mod unsteady;
mod watch;
mod watch_time;

use iopj_analysis::advise::AdviseQuestion;
use iopj_analysis::power::PowerTrace;
use iopj_core::IoPath;
use iopj_record::watch::WatchRecord;
use iopj_record::{Generator, StudyRecord, Trial};
use model::Model;
use std::collections::BTreeMap;

pub use plots::{Plot, PlotCell, plots};
pub use predicted::Predicted;
pub use tables::{BarFigure, BarGroup, PathBar, TablePage, TableSection, table_page};

/// Style of the page.
const STYLE: &str = include_str!("html/style.css");
/// Style of the figures, with the colours as variables.
const FIGURE_STYLE: &str = include_str!("html/figure.css");
/// The script: the switch between light and dark, and the downloads.
const SCRIPT: &str = include_str!("html/script.js");
/// SHA-256 of the script in base64, by which the policy lets it run.
const SCRIPT_SHA256: &str = "1uW7BfrUEiB/XlD4V1T5PIdOCgKOaQ2q9r5bRnDuxUY=";

/// The background of a figure outside the page.
const PAPER: &str = "<rect class=\"paper\" width=\"100%\" height=\"100%\"/>";

/// Colours that differ between light and dark: name, light, dark.
const COLOURS: [(&str, &str, &str); 6] = [
    ("--paper", "#ffffff", "#15181c"),
    ("--panel", "#f6f7f9", "#1c2025"),
    ("--ink", "#1c2128", "#e4e7eb"),
    ("--muted", "#59636e", "#9da7b3"),
    ("--rule", "#e1e4e8", "#30363d"),
    ("--accent", "#0065a3", "#6cb8ee"),
];

/// The report of a study as a whole HTML document, with the power over time of each of these traces. That of
/// an emulated study has counts but no times. It begins with the advice on a question, where the store can
/// answer; an [`Admission`](iopj_analysis::Admission) alone asks for the plain one.
pub fn page(
    study: &StudyRecord,
    trials: &[Trial],
    power: &[PowerTrace],
    question: impl Into<AdviseQuestion>,
) -> String {
    let model = Model::new(study, trials, question);
    page::page(study, trials, &model, &sections::sections(&model, power))
}

/// What a watch saw, as a whole HTML document.
pub fn watch_page(record: &WatchRecord) -> String {
    watch::page(record, &watch_time::section(record))
}

/// Every figure of a watch: it over time.
pub fn watch_figures(record: &WatchRecord) -> Figures {
    Figures(watch_time::section(record).groups.into_iter().flat_map(|group| group.figures).collect())
}

/// Figures of predictions beside measurements, one for each quantity.
pub fn predicted_figures(all: &[Predicted], title: &str) -> Figures {
    Figures(predicted::figures(all, title))
}

/// A series of the figures.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesName {
    /// Its path.
    pub path: IoPath,
    /// What issues its I/O.
    pub generator: Generator,
    /// The settings of the host.
    pub settings: BTreeMap<String, String>,
    /// What tells it from the others.
    pub label: String,
}

/// The series of a study's figures, in the order of their colours and marks.
pub fn series(trials: &[Trial]) -> Vec<SeriesName> {
    let named = |one: model::Series| SeriesName {
        path: one.path,
        generator: one.generator,
        settings: one.settings,
        label: one.label,
    };
    model::series(trials).into_iter().map(named).collect()
}

/// The figures of a report, drawn once. Each method gives files: their names and contents.
pub struct Figures(Vec<figure::Figure>);

/// Every figure of the report, with the bounds of a question drawn in.
pub fn figures(
    study: &StudyRecord,
    trials: &[Trial],
    power: &[PowerTrace],
    question: impl Into<AdviseQuestion>,
) -> Figures {
    let sections = sections::sections(&Model::new(study, trials, question), power);
    let groups = sections.into_iter().flat_map(|section| section.groups);
    Figures(groups.flat_map(|group| group.figures).collect())
}

impl Figures {
    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// SVG documents on white.
    pub fn svg(&self) -> Vec<(String, String)> {
        let style = light_style();
        self.files(".svg", |figure| standalone(figure, &style))
    }

    /// SVG documents in the dark colours of the page; their names end in `-dark`.
    pub fn dark_svg(&self) -> Vec<(String, String)> {
        let style = style(|(_, _, dark)| dark);
        self.files("-dark.svg", |figure| standalone(figure, &style))
    }

    /// PDF documents of one page each, as vectors and text.
    pub fn pdf(&self) -> Vec<(String, Vec<u8>)> {
        let style = light_style();
        let sheet = pdf::Sheet::parse(&style);
        self.files(".pdf", |figure| pdf::document(&figure.drawing, &sheet))
    }

    fn files<T>(&self, end: &str, document: impl Fn(&figure::Figure) -> T) -> Vec<(String, T)> {
        self.0.iter().map(|figure| (format!("{}{end}", figure.id), document(figure))).collect()
    }
}

/// A figure as a document: with its namespace, title and style.
fn standalone(figure: &figure::Figure, style: &str) -> String {
    let title = text::escape(&figure.title);
    let start = "<svg xmlns=\"http://www.w3.org/2000/svg\"";
    let svg = figure.drawing.svg().replacen("<svg", start, 1);
    svg.replacen('>', &format!("><title>{title}</title><style>{style}</style>{}", PAPER), 1)
}

/// The figures' style with colours in place of the variables, which hardly any program but a browser knows.
fn style(colour: fn((&str, &'static str, &'static str)) -> &'static str) -> String {
    COLOURS.iter().fold(FIGURE_STYLE.to_owned(), |style, named| {
        style.replace(&format!("var({})", named.0), colour(*named))
    })
}

/// The figures' style on white.
pub fn light_style() -> String {
    style(|(_, light, _)| light)
}

#[cfg(test)]
mod tests;
