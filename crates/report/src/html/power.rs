//! Power over the time of the study: the readings of each channel of a meter, with the trials marked below.

use super::figure::{Figure, Group, Section};
use super::model::Model;
use super::svg::power::{self, PowerChart, Stroke};
use super::text::exact;
use crate::table::Table;
use iopj_analysis::power::{PowerTrace, TrialWindow};
use iopj_core::{IoPath, PowerReading};
use iopj_record::Trial;
use std::collections::HashMap;

/// At most this many points per trace: more than twice its figure's width.
const POINTS: usize = 2000;

/// A figure for each trace that has readings.
pub(super) fn section(model: &Model<'_>, traces: &[PowerTrace]) -> Section {
    let series = if traces.is_empty() { HashMap::new() } else { series_by_window(model) };
    let figures = traces.iter().filter_map(|trace| figure(model, trace, &series)).collect();
    let words = "What each channel read over the time of the study. Below it, each trial is a stroke from \
                 the start of its measured window to its end. Where there are more readings than can be \
                 drawn, the least and the greatest of each stretch are shown. Refuted and failed trials are \
                 not marked.";
    Section::new(("power", "Power over time"), words, Group::new("", figures))
}

/// The series of the trials by path, start and end of their windows: several settings may share a path.
type SeriesByWindow = HashMap<(IoPath, [u64; 2]), usize>;

fn series_by_window(model: &Model<'_>) -> SeriesByWindow {
    let window = |trial: &Trial| Some((trial.path, trial.outcome.measurement()?.window_raw_ns?));
    model.trials.iter().filter_map(|trial| Some((window(trial)?, model.series_of(trial)?))).collect()
}

fn figure(model: &Model<'_>, trace: &PowerTrace, series: &SeriesByWindow) -> Option<Figure> {
    let (first, last) = (trace.readings.first()?.at_ns, trace.readings.last()?.at_ns);
    let series = |window: &TrialWindow| {
        let known = series.get(&(window.path, [window.begin_ns, window.end_ns])).copied();
        known.or_else(|| model.series.iter().position(|series| series.path == window.path))
    };
    let known: Vec<(usize, &TrialWindow)> =
        trace.windows.iter().filter_map(|window| Some((series(window)?, window))).collect();
    let start = known.iter().map(|(_, window)| window.begin_ns).fold(first, u64::min);
    let end = known.iter().map(|(_, window)| window.end_ns).fold(last, u64::max);
    let seconds = |at_ns: u64| at_ns.saturating_sub(start) as f64 / 1e9;
    let stroke = |(series, window): &(usize, &TrialWindow)| Stroke {
        series: *series,
        from_s: seconds(window.begin_ns),
        until_s: seconds(window.end_ns),
        tip: model.series[*series].label.clone(),
    };
    let title = format!("Power over time: {} ({})", trace.channel, trace.scope);
    let names = (0..model.series.len()).filter(|index| known.iter().any(|(series, _)| series == index));
    let points = thinned(&trace.readings).into_iter().map(|reading| (seconds(reading.at_ns), reading.watts));
    let chart = PowerChart {
        title,
        y_title: "power, W".to_owned(),
        end_s: seconds(end),
        points: points.collect(),
        strokes: known.iter().map(stroke).collect(),
        names: names.map(|series| (series, model.series[series].label.clone())).collect(),
    };
    let all = (("all readings", first, last), &trace.readings[..]);
    let trial = |(series, window): &(usize, &TrialWindow)| {
        let name = model.series[*series].name.as_str();
        ((name, window.begin_ns, window.end_ns), trace.within(window))
    };
    let rows: Vec<_> = std::iter::once(all).chain(known.iter().map(trial)).collect();
    // Plain statistics of the readings; energy is integrated elsewhere.
    let watts = |readings: &[PowerReading]| -> Vec<f64> {
        readings.iter().map(|reading| reading.watts).filter(|watts| watts.is_finite()).collect()
    };
    let figure = |readings: &[PowerReading], of: fn(&[f64]) -> f64| match &watts(readings)[..] {
        [] => String::new(),
        watts => exact(of(watts)),
    };
    let table = Table::of(&rows)
        .left("trial", |((name, ..), _)| (*name).to_owned())
        .left("start, s", |((_, begin_ns, _), _)| exact(seconds(*begin_ns)))
        .left("end, s", |((.., end_ns), _)| exact(seconds(*end_ns)))
        .left("readings", |(_, readings)| watts(readings).len().to_string())
        .left("mean, W", |(_, readings)| figure(readings, |all| all.iter().sum::<f64>() / all.len() as f64))
        .left("least, W", |(_, readings)| {
            figure(readings, |all| all.iter().copied().fold(f64::MAX, f64::min))
        })
        .left("greatest, W", |(_, readings)| {
            figure(readings, |all| all.iter().copied().fold(f64::MIN, f64::max))
        });
    let caption = format!("{} ({})", trace.channel, trace.scope);
    Some(Figure { wide: true, ..Figure::new(caption, power::draw(&chart), table.data())? })
}

/// All readings, or the least and the greatest of each stretch if there are too many to draw.
fn thinned(readings: &[PowerReading]) -> Vec<PowerReading> {
    let finite = |reading: &&PowerReading| reading.watts.is_finite();
    if readings.len() <= POINTS {
        return readings.iter().filter(finite).copied().collect();
    }
    let stretch = readings.len().div_ceil(POINTS / 2);
    let ends = |readings: &[PowerReading]| {
        let by_watts = |a: &&PowerReading, b: &&PowerReading| a.watts.total_cmp(&b.watts);
        let finite = || readings.iter().filter(finite);
        let mut ends: Vec<PowerReading> =
            [finite().min_by(by_watts), finite().max_by(by_watts)].into_iter().flatten().copied().collect();
        ends.sort_by_key(|reading| reading.at_ns);
        ends.dedup();
        ends
    };
    readings.chunks(stretch).flat_map(ends).collect()
}
