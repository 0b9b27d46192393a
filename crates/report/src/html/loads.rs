//! Latency and cost over the offered load, with the bound drawn in; and latency against cost at each load,
//! with the Pareto front.

use super::figure::{Figure, Group, Section, TIPPED_CELLS};
use super::model::Model;
use super::svg::axis::short;
use super::svg::lines::{self, Line, LineChart, LinePoint};
use super::svg::scatter::{self, Dot, Dots, ScatterChart};
use super::text::{capital, exact, readable};
use crate::advise::shared_title;
use crate::table::Table;
use iopj_analysis::advise::{Advice, Candidate, Group as Loads, Load, Percentile, Way};
use iopj_analysis::grouping::unique;
use iopj_analysis::stats::Summary;

/// A figure of a candidate: its mean and interval.
type Value<'m> = &'m dyn Fn(&Candidate) -> Option<(f64, Option<(f64, f64)>)>;

/// Latency and cost over the rate of an open load: two figures for each set of loads.
pub(super) fn curves(model: &Model<'_>) -> Section {
    let Some(advice) = &model.advice else { return Section::new(("loads", "Over load"), "", None) };
    let percentile = model.question.percentile();
    let group = |loads: &Loads| {
        if loads.loads.iter().filter(|(load, _)| load.rate().is_some()).count() < 2 {
            return None;
        }
        let latency = format!("{} latency", percentile.as_str());
        let bound = model.question.bounds.first().map(|bound| bound.ns / 1e3);
        let figures = [
            curve(model, loads, (&latency, "\u{b5}s"), &latency_of, bound),
            curve(model, loads, cost_name(advice), &cost_of, None),
        ];
        Group::new(shared_title(loads), figures.into_iter().flatten().collect())
    };
    let words = format!(
        "Over the rate at which I/Os arrive, of all jobs together. Hollow: the path fell behind in a trial, \
         so its latency grows with the window. Error bars of {} reach up to the upper confidence limit.",
        percentile.as_str()
    );
    Section::new(("loads", "Over load"), words, advice.groups.iter().filter_map(group))
}

/// The percentile of a candidate in us, up to its upper limit.
fn latency_of(one: &Candidate) -> Option<(f64, Option<(f64, f64)>)> {
    let tail = one.tail.as_ref()?;
    let us = tail.ns / 1e3;
    Some((us, tail.upper().map(|(upper, _)| (us, (upper / 1e3).max(us)))))
}

/// What an I/O costs: uJ, or us of CPU time. Both are a million over a mean of I/Os.
fn cost_of(one: &Candidate) -> Option<(f64, Option<(f64, f64)>)> {
    let Summary { mean, interval, .. } = one.cost.filter(|cost| cost.mean > 0.0)?;
    let interval = interval.filter(|(low, _)| *low > 0.0).map(|(low, high)| (1e6 / high, 1e6 / low));
    Some((1e6 / mean, interval))
}

fn cost_name(advice: &Advice) -> (&'static str, &'static str) {
    if advice.cost.is_energy() { ("energy per I/O", "\u{b5}J") } else { ("CPU time per I/O", "\u{b5}s") }
}

/// The ways of a set of loads, each with its series and label.
fn ways(model: &Model<'_>, loads: &Loads) -> Vec<(Way, usize, String)> {
    let all = unique(loads.loads.iter().flat_map(|(_, all)| all.iter().map(|one| one.way.clone())));
    let label = |way: &Way| {
        let series = model.series_like(way.path, loads.generator, &way.settings)?;
        let shapes = all.iter().filter(|other| other.path == way.path && other.settings == way.settings);
        let shape = format!(" {}\u{d7}{}", way.numjobs, way.iodepth);
        let shape = if shapes.count() > 1 { shape } else { String::new() };
        Some((way.clone(), series, format!("{}{shape}", model.series[series].label)))
    };
    let mut ways: Vec<_> = all.iter().filter_map(label).collect();
    ways.sort_by_key(|(_, series, _)| *series);
    ways
}

fn curve(
    model: &Model<'_>,
    loads: &Loads,
    (name, unit): (&str, &str),
    value: Value<'_>,
    bound: Option<f64>,
) -> Option<Figure> {
    let rates: Vec<(u64, &Vec<Candidate>)> =
        loads.loads.iter().filter_map(|(load, all)| Some((load.rate()?, all))).collect();
    let has_tips = model.cells.len() <= TIPPED_CELLS;
    let point = |way: &Way, label: &str, (rate, all): &(u64, &Vec<Candidate>)| {
        let one = all.iter().find(|one| one.way == *way)?;
        let (y, interval) = value(one)?;
        let tip = format!("{label}, {rate}: {}", readable(y));
        let tip = if has_tips { tip } else { String::new() };
        Some(LinePoint { x: *rate as f64, y, interval, hollow: !one.keeps_up(), tip })
    };
    let ways = ways(model, loads);
    let line = |(way, series, label): &(Way, usize, String)| Line {
        series: *series,
        label: label.clone(),
        points: rates.iter().filter_map(|rate| point(way, label, rate)).collect(),
    };
    let lines: Vec<Line> = ways.iter().map(line).filter(|line| !line.points.is_empty()).collect();
    if lines.is_empty() {
        return None;
    }
    let chart = LineChart {
        title: format!("{} over load: {}", capital(name), shared_title(loads)),
        x_title: "rate, I/Os that arrive per second".to_owned(),
        y_title: format!("{name}, {unit}"),
        x_values: rates.iter().map(|(rate, _)| (*rate as f64, short(*rate as f64))).collect(),
        lines,
        bound,
    };
    let mut table = Table::of(&ways)
        .left("path", |(way, ..)| way.path.to_string())
        .left("numjobs", |(way, ..)| way.numjobs.to_string())
        .left("iodepth", |(way, ..)| way.iodepth.to_string());
    for (rate, all) in &rates {
        let own = move |(way, ..): &(Way, usize, String)| all.iter().find(|one| one.way == *way);
        let behind = move |way: &_| own(way).map_or(String::new(), |one| one.overloaded.to_string());
        table = table
            .left(format!("{rate} I/Os per second"), move |way| {
                own(way).and_then(value).map_or(String::new(), |(mean, _)| exact(mean))
            })
            .left("trials behind", behind);
    }
    Figure::new(capital(name), lines::draw(&chart), table.data())
}

/// With more loads there are no figures of latency against cost: `iopj advise` marks the front at each.
const MOST_LOADS: usize = 24;

/// Latency against cost at each load.
pub(super) fn fronts(model: &Model<'_>) -> Section {
    let Some(advice) = &model.advice else {
        return Section::new(("front", "Latency against cost"), "", None);
    };
    let all: usize = advice.groups.iter().map(|group| group.loads.len()).sum();
    if all > MOST_LOADS {
        return Section::new(("front", "Latency against cost"), "", None);
    }
    let group = |loads: &Loads| {
        let figures = loads.loads.iter().filter_map(|(load, all)| front(model, advice, loads, (*load, all)));
        Group::new(shared_title(loads), figures.collect())
    };
    let words = "Each way at a load: less is better on both axes. The dashed line joins the ways that no \
                 other one beats in both (the Pareto front). Hollow: the way fell behind, and is no choice.";
    Section::new(("front", "Latency against cost"), words, advice.groups.iter().filter_map(group))
}

fn front(
    model: &Model<'_>,
    advice: &Advice,
    loads: &Loads,
    (load, all): (Load, &Vec<Candidate>),
) -> Option<Figure> {
    let percentile: Percentile = model.question.percentile();
    let (cost, unit) = cost_name(advice);
    let ways = ways(model, loads);
    let place = |one: &Candidate| Some((latency_of(one)?.0, cost_of(one)?.0));
    let dots = |(way, series, label): &(Way, usize, String)| {
        let one = all.iter().find(|one| one.way == *way)?;
        let (x, y) = place(one)?;
        let tip = format!("{label}: {} \u{b5}s, {} {unit}", readable(x), readable(y));
        let dot = Dot { x, y, hollow: !one.keeps_up(), tip };
        Some((one, Dots { series: *series, label: label.clone(), dots: vec![dot] }))
    };
    let (drawn, dots): (Vec<&Candidate>, Vec<Dots>) = ways.iter().filter_map(dots).unzip();
    if drawn.len() < 2 {
        return None;
    }
    let mut corners: Vec<(f64, f64)> =
        drawn.iter().filter(|one| one.on_front).filter_map(|one| place(one)).collect();
    corners.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let name = match load {
        Load::Rate(rate) => format!("{rate} I/Os per second"),
        Load::Trace => "when the trace says".to_owned(),
        Load::Closed { numjobs, iodepth } => format!("iodepth {iodepth} numjobs {numjobs}"),
    };
    let chart = ScatterChart {
        title: format!("Latency against cost: {}, {name}", shared_title(loads)),
        x_title: format!("{} latency, \u{b5}s", percentile.as_str()),
        y_title: format!("{cost}, {unit}"),
        all: dots,
        joined: false,
        front: corners,
        front_name: "Pareto front",
        bound: model.question.bounds.first().map(|bound| bound.ns / 1e3),
    };
    let number = |value: Option<f64>| value.map_or(String::new(), exact);
    let table = Table::of(&drawn)
        .left("path", |one| one.way.path.to_string())
        .left("numjobs", |one| one.way.numjobs.to_string())
        .left("iodepth", |one| one.way.iodepth.to_string())
        .left(format!("{}, \u{b5}s", percentile.as_str()), move |one| {
            number(latency_of(one).map(|(us, _)| us))
        })
        .left(format!("{cost}, {unit}"), move |one| number(cost_of(one).map(|(cost, _)| cost)))
        .left("on the front", |one| if one.on_front { "yes" } else { "no" }.to_owned());
    Figure::new(capital(&name), scatter::draw(&chart), table.data())
}
