//! The rate of each trial over the time of the study.

use super::figure::{Figure, Group, Section, TIPPED_CELLS};
use super::model::Model;
use super::svg::curves::{self, Curve};
use super::text::{exact, plural};
use crate::table::Table;
use iopj_core::VerdictKind;
use iopj_record::{Measurement, Trial};

/// Points of the timeline over all trials: the eye cannot distinguish more.
const TIMELINE_POINTS: usize = 2000;

/// A trial, what it measured, and its series.
type Measured<'a> = (&'a Trial, &'a Measurement, usize);

/// One figure with all trials that were measured and not refuted.
pub(super) fn section(model: &Model<'_>) -> Section {
    let measured = model.trials.iter().filter_map(|trial| {
        let measurement = trial.outcome.measurement()?;
        let counts = measurement.verdict.kind != VerdictKind::Refuted && measurement.window_ns > 0;
        Some((trial, measurement, model.series_of(trial)?)).filter(|_| counts)
    });
    let mut trials: Vec<Measured<'_>> = measured.collect();
    trials.sort_by_key(|(trial, ..)| trial.started_unix_ns);
    let words = format!(
        "{}, each as a stroke from its start to its end, cut where its rate was taken; faint ones are \
         unproven. A stroke that slopes was not steady.",
        if trials.len() == 1 {
            "1 trial is shown".to_owned()
        } else {
            format!("{} are shown", plural(trials.len(), "trial"))
        }
    );
    let figure = trials.first().and_then(|(first, ..)| figure(model, &trials, first.started_unix_ns));
    Section::new(("time", "Over time"), words, Group::new("", figure.into_iter().collect()))
}

fn figure(model: &Model<'_>, trials: &[Measured<'_>], start: u64) -> Option<Figure> {
    let curves = strokes(model, trials, start);
    let names: Vec<(usize, String)> = (0..model.series.len())
        .filter(|series| curves.iter().any(|curve| curve.series == *series))
        .map(|series| (series, model.series[series].label.clone()))
        .collect();
    let extreme = |measurement: &Measurement, first: f64, of: fn(f64, f64) -> f64| {
        exact(rates(measurement, usize::MAX).into_iter().map(|(_, rate)| rate).fold(first, of))
    };
    let table = Table::of(trials)
        .left("start, s", |(trial, ..)| exact((trial.started_unix_ns - start) as f64 / 1e9))
        .left("path", |(.., series)| model.series[*series].name.clone())
        .left("workload", |(trial, ..)| trial.workload.title())
        .left("replicate", |(trial, ..)| (trial.replicate + 1).to_string())
        .left("verdict", |(_, measurement, _)| measurement.verdict.kind.as_str().to_owned())
        .left("IOPS", |(_, measurement, _)| exact(measurement.iops()))
        .left("least slice", |(_, measurement, _)| extreme(measurement, f64::MAX, f64::min))
        .left("greatest slice", |(_, measurement, _)| extreme(measurement, 0.0, f64::max));
    let title = "IOPS over the time of the study";
    let figure = Figure::new(title.to_owned(), curves::timeline(title, &names, &curves), table.data())?;
    Some(Figure { id: "iops-over-time".to_owned(), wide: true, ..figure })
}

/// A stroke for each trial: its rates over the time since the start.
fn strokes(model: &Model<'_>, trials: &[Measured<'_>], start: u64) -> Vec<Curve> {
    let each = (TIMELINE_POINTS / trials.len()).clamp(1, 200);
    trials
        .iter()
        .map(|(trial, measurement, series)| {
            let started = (trial.started_unix_ns - start) as f64 / 1e9;
            let label = if trials.len() > TIPPED_CELLS {
                String::new()
            } else {
                format!("{}, {}", model.series[*series].label, trial.workload.title())
            };
            let points = rates(measurement, each).into_iter().map(|(s, iops)| (started + s, iops)).collect();
            Curve { series: *series, label, points, hollow: !measurement.verdict.kind.stands() }
        })
        .collect()
}

/// IOPS of at most this many slices, each at its middle in s since the window's start; a flat stroke over the
/// whole window if there is only one.
fn rates(measurement: &Measurement, most: usize) -> Vec<(f64, f64)> {
    let slices = &measurement.series;
    let window = measurement.window_ns as f64 / 1e9;
    if slices.len() < 2 || most < 2 {
        return vec![(0.0, measurement.iops()), (window, measurement.iops())];
    }
    let (mut points, mut before) = (Vec::new(), 0u64);
    for group in slices.chunks(slices.len().div_ceil(most)) {
        let ios: u64 = group.iter().map(|slice| slice.ios).sum();
        let end = group.last().map_or(before, |slice| slice.end_ns);
        if end > before {
            let rate = ios as f64 * 1e9 / (end - before) as f64;
            points.push(((before + (end - before) / 2) as f64 / 1e9, rate));
        }
        before = before.max(end);
    }
    points
}
