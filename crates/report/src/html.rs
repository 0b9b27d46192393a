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
mod style;
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
pub use style::light_style;
use style::{COLOURS, FIGURE_STYLE, SCRIPT, SCRIPT_SHA256, STYLE, style};

pub use plots::{Plot, PlotCell, plots};
pub use predicted::Predicted;
pub use tables::{BarFigure, BarGroup, PathBar, TablePage, TableSection, table_page};

/// The background of a figure outside the page.
const PAPER: &str = "<rect class=\"paper\" width=\"100%\" height=\"100%\"/>";

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

#[cfg(test)]
mod tests;
