//! A watched program over time: a figure for each kind of quantity, one above the other on the same axis.

use super::figure::{Figure, Group, Section};
use super::svg::right_of_plot;
use super::svg::steps::{self, Lane, StepChart, StepLine, Stretch};
use super::text::{exact, plural};
use crate::number::{percent, significant};
use crate::table::Table;
use iopj_analysis::watch_timeline::{Counted, PanelKind, WatchPanel, WatchSeries, WatchTimeline, timeline};
use iopj_record::watch::WatchRecord;

/// Steps of a figure: it is hardly wider than that.
const STEPS: usize = 700;

/// A figure for each quantity that has values.
pub(super) fn section(record: &WatchRecord) -> Section {
    let timeline = timeline(record, STEPS);
    let names = timeline.panels.iter().flat_map(|panel| &panel.series).map(|series| series.name.as_str());
    let right = right_of_plot(names);
    let figures = timeline.panels.iter().filter_map(|panel| figure(&timeline, panel, right)).collect();
    Section::new(("time", "Over time"), words(record, &timeline), Group::new("", figures))
}

/// What a step is, and what the lane marks.
fn words(record: &WatchRecord, timeline: &WatchTimeline) -> String {
    let length = significant(record.interval_ns as f64 * 1e-9);
    let mut words = match timeline.intervals {
        1 => format!("Each step is an interval of {length} s."),
        many => format!(
            "Each step is {many} intervals of {length} s: their mean, and of percentiles the greatest. The \
             store has them all."
        ),
    };
    words += " Figures of a disk are of everybody who uses it. Percentiles are of the requests that were \
              sampled, where they are enough.";
    if lane(timeline).is_some() {
        words += " Below what is per I/O, ~ marks where counting rested for a part of the time and system \
                  calls are scaled up; darker where it rested for all of it, and they have no figure.";
    }
    let kept = timeline.spans.last().map_or(0.0, |(_, until)| *until);
    let whole = record.evidence.over_ns as f64 * 1e-9;
    if whole - kept > 2.0 * record.interval_ns as f64 * 1e-9 {
        words += &format!(
            " The store keeps the first {} of {} s; the figures above are of the whole.",
            plural(record.intervals.len(), "interval"),
            significant(whole)
        );
    }
    words
}

/// What a kind of quantity is called: the title of its figure, and of its axis.
fn titles(kind: PanelKind) -> (String, String) {
    let (title, axis) = match kind {
        PanelKind::Iops => ("IOPS by disk", "IOPS"),
        PanelKind::Megabytes => ("MB/s by disk", "MB/s"),
        PanelKind::Latency => ("Latency by disk", "latency, \u{b5}s"),
        PanelKind::Cpu => ("CPU of the machine by kind", "% of all cores"),
        PanelKind::Program => ("CPU of the program", "cores"),
        PanelKind::PerIo => ("Context switches, system calls and interrupts per I/O", "per I/O"),
        PanelKind::Power(scope) => return (format!("Power: {scope}"), format!("power, W, {scope}")),
    };
    (title.to_owned(), axis.to_owned())
}

fn figure<'a>(timeline: &'a WatchTimeline, panel: &'a WatchPanel, right: f64) -> Option<Figure> {
    let (caption, y_title) = titles(panel.kind);
    let is_per_io = panel.kind == PanelKind::PerIo;
    let line = |series: &'a WatchSeries| StepLine { name: &series.name, values: &series.values };
    let chart = StepChart {
        title: format!("{caption} over time"),
        y_title,
        since: "the watch began",
        spans: &timeline.spans,
        lines: panel.series.iter().map(line).collect(),
        lane: lane(timeline).filter(|_| is_per_io),
        right,
    };
    let drawing = if panel.kind == PanelKind::Cpu { steps::stacked(&chart) } else { steps::lines(&chart) };
    let rows: Vec<usize> = (0..timeline.spans.len()).collect();
    let mut table = Table::of(&rows)
        .left("from, s", |at| exact(timeline.spans[*at].0))
        .left("until, s", |at| exact(timeline.spans[*at].1));
    for series in &panel.series {
        table = table.left(&series.name, |at| series.values[*at].map_or(String::new(), exact));
    }
    if is_per_io && timeline.counted.iter().any(Option::is_some) {
        let share = |counted: Option<Counted>| match counted {
            Some(Counted::Whole) => "100".to_owned(),
            Some(Counted::Part(share)) => exact(100.0 * share),
            Some(Counted::Rested) => "0".to_owned(),
            None => String::new(),
        };
        table = table.left("counted, % of the time", move |at| share(timeline.counted[*at]));
    }
    Some(Figure { wide: true, ..Figure::new(caption, drawing, table.data())? })
}

/// The stretches of steps in which counting rested, for a part of the time or for all of it; `None` without.
fn lane(timeline: &WatchTimeline) -> Option<Lane> {
    let rested = |at: &usize| match timeline.counted[*at]? {
        Counted::Whole => None,
        Counted::Part(share) => Some((true, share)),
        Counted::Rested => Some((false, 0.0)),
    };
    let all: Vec<usize> = (0..timeline.spans.len()).collect();
    let is_alike = |a: &usize, b: &usize| rested(a).map(|(part, _)| part) == rested(b).map(|(part, _)| part);
    let stretch = |steps: &[usize]| {
        let (first, last) = (steps.first()?, steps.last()?);
        let (faint, _) = rested(first)?;
        let shares: f64 = steps.iter().filter_map(rested).map(|(_, share)| share).sum();
        let tip = if faint {
            format!("~ counted {} of the time", percent(shares / steps.len() as f64))
        } else {
            "counting rested".to_owned()
        };
        Some(Stretch { from_s: timeline.spans[*first].0, until_s: timeline.spans[*last].1, faint, tip })
    };
    let stretches: Vec<Stretch> = all.chunk_by(is_alike).filter_map(stretch).collect();
    (!stretches.is_empty()).then_some(Lane { name: "~", stretches })
}
