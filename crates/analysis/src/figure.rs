//! The figure of a program: its own name and unit, by which reports call the metrics of it.

use super::metric::Metric;
use iopj_record::{Measurement, ProgramWindow, Trial};
use serde::Serialize;

/// What a study's program calls its figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FigureName {
    /// Its name, such as `transactions`.
    pub name: String,
    /// Its unit.
    pub unit: String,
}

/// Words that follow the name in those of metrics, and the metrics.
pub const METRICS: [(&str, Metric); 3] =
    [("", Metric::Figure), ("_per_cpu", Metric::FigurePerCpu), ("_per_joule", Metric::FigurePerJoule)];

impl FigureName {
    /// The figure of these trials; `None` where no program did the I/O.
    pub fn of(trials: &[Trial]) -> Option<FigureName> {
        trials.iter().filter_map(|trial| trial.outcome.measurement()).find_map(FigureName::of_one)
    }

    /// The figure of a measurement.
    pub fn of_one(measurement: &Measurement) -> Option<FigureName> {
        let ProgramWindow { name, unit, .. } = &**measurement.program.as_ref()?;
        Some(FigureName { name: name.clone(), unit: unit.clone() })
    }

    /// The metric that a word names by the figure's own name: `transactions`, `transactions_per_joule`.
    pub fn metric(&self, word: &str) -> Option<Metric> {
        let rest = word.strip_prefix(&self.name)?;
        METRICS.into_iter().find(|(ending, _)| *ending == rest).map(|(_, metric)| metric)
    }
}

/// A metric in words, by the figure's own name where it is one of a program's.
pub fn title(metric: Metric, figure: Option<&FigureName>) -> String {
    let whole = metric.title();
    match figure.filter(|_| metric.is_figure()) {
        Some(figure) => whole.replacen("figure", &figure.name.replace('_', " "), 1),
        None => whole.to_owned(),
    }
}

/// The unit of a metric, by the figure's own where it is one of a program's.
pub fn unit(metric: Metric, figure: Option<&FigureName>) -> String {
    match (metric, figure) {
        (Metric::Figure, Some(figure)) => figure.unit.clone(),
        (Metric::FigurePerCpu | Metric::FigurePerJoule, Some(figure)) => {
            // A rate is of a second, and so many of them per second of CPU time or per W.
            let what = figure.unit.strip_suffix("/s").unwrap_or(&figure.unit);
            let what = if what.is_empty() { "1" } else { what };
            format!("{what}{}", if metric == Metric::FigurePerCpu { "/CPU s" } else { "/J" })
        }
        _ => metric.unit().to_owned(),
    }
}
