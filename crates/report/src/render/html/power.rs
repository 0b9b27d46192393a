//! Power over the time of the study: what each channel of a meter read, with the trials marked beneath.

use super::figures::{Figure, Group, Section, words};
use super::model::Model;
use super::svg::power::{self, Chart, Stroke};
use super::text::{exact, slug};
use crate::analysis::power::{PowerTrace, TrialWindow};
use iopj_core::{IoPath, PowerReading};
use iopj_store::Trial;
use std::collections::HashMap;

/// Points of a trace at the most: more than twice as many as its figure is wide.
const POINTS: usize = 2000;

/// A figure for each trace that has readings.
pub(super) fn section(model: &Model<'_>, traces: &[PowerTrace]) -> Section {
    let series = if traces.is_empty() { HashMap::new() } else { series_by_window(model) };
    let figures: Vec<Figure> = traces.iter().filter_map(|trace| figure(model, trace, &series)).collect();
    let words = "What each channel read over the time of the study; beneath, each trial is a stroke from \
                 the begin of its measured window to its end. Of more readings than can be drawn the least \
                 and the greatest of each stretch are. Refuted and failed trials are not marked.";
    Section {
        id: "power",
        heading: "Power over time",
        words: if figures.is_empty() { String::new() } else { words.to_owned() },
        groups: if figures.is_empty() { Vec::new() } else { vec![Group { heading: String::new(), figures }] },
    }
}

/// The series of the trials by path, begin and end of their windows: several settings may share a path.
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
    let chart = Chart {
        title: title.clone(),
        y_title: "power, W".to_owned(),
        end_s: seconds(end),
        points: points.collect(),
        strokes: known.iter().map(stroke).collect(),
        names: names.map(|series| (series, model.series[series].label.clone())).collect(),
    };
    let mut rows = vec![row(&trace.readings, (seconds(first), seconds(last)), "all readings")];
    rows.extend(known.iter().map(|(series, window)| {
        row(
            trace.within(window),
            (seconds(window.begin_ns), seconds(window.end_ns)),
            &model.series[*series].name,
        )
    }));
    Some(Figure {
        id: slug(&title),
        drawing: power::draw(&chart),
        caption: format!("{} ({})", trace.channel, trace.scope),
        title,
        columns: words(&["trial", "begin, s", "end, s", "readings", "mean, W", "least, W", "greatest, W"]),
        rows,
        wide: true,
        note: None,
    })
}

/// What was read within a window: plain figures of the readings; energy is integrated elsewhere.
fn row(readings: &[PowerReading], (begin_s, end_s): (f64, f64), name: &str) -> Vec<String> {
    let watts = || readings.iter().map(|reading| reading.watts).filter(|watts| watts.is_finite());
    let count = watts().count();
    let of = |value: f64| if count == 0 { String::new() } else { exact(value) };
    vec![
        name.to_owned(),
        exact(begin_s),
        exact(end_s),
        count.to_string(),
        of(watts().sum::<f64>() / count.max(1) as f64),
        of(watts().fold(f64::MAX, f64::min)),
        of(watts().fold(f64::MIN, f64::max)),
    ]
}

/// All readings, or the least and the greatest of each stretch where there are too many to draw.
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
