//! Predictions as a page.

use crate::output::write_figures;
use iopj_model::Scored;
use iopj_model::answers::Scores;
use iopj_report::html::{Predicted, predicted_figures};
use std::path::Path;

/// Draws predictions against measurements into a folder.
pub(super) fn draw(folder: &Path, scores: &Scores, title: &str) -> anyhow::Result<()> {
    let point = |one: &Scored| {
        let (quantity, factor) = one.observation.quantity.shown();
        Predicted {
            quantity: quantity.to_owned(),
            series: one.observation.case.path.to_string(),
            place: one.observation.case.workload(),
            measured: one.observation.value * factor,
            predicted: one.prediction.value * factor,
            interval: one.prediction.interval.map(|end| end * factor),
            is_covered: one.is_covered(),
        }
    };
    let mut points: Vec<Predicted> = scores.scored.iter().map(point).collect();
    points.sort_by(|a, b| a.series.cmp(&b.series));
    write_figures(folder, &predicted_figures(&points, title))
}
