//! The best path of each workload, in words and as maps over two axes of the workload. Decided by
//! `analysis::winner`.

use super::figures::{Figure, Group, Section, TIPPED_CELLS, words};
use super::model::{Dimension, Model, Series, shown};
use super::steady;
use super::svg::map::{self, Map};
use super::text::{escape, exact, list, plural, readable, slug};
use crate::analysis::contrast::{Contrast, in_blocks};
use crate::analysis::metric::Metric;
use crate::analysis::stats::{LEVEL, Ratio};
use crate::analysis::winner::{
    AxisValue, Decision, MapCell, RankedPath, WinnerMap, WinnerQuestion, winner_maps,
};
use crate::analysis::without_unsteady::{MapWithoutUnsteady, maps_without_unsteady};
use crate::render::steady::{decision, without_words};
use iopj_core::Workload;
use std::fmt::Write;

/// What there are maps of where the store holds it, the first of all stores and the first of emulated ones
/// being what every trial has.
const METRICS: [Metric; 7] = [
    Metric::LatencyMean,
    Metric::IosPerJoule,
    Metric::IopsPerCpu,
    Metric::ContextSwitchesPerIo,
    Metric::InterruptsPerIo,
    Metric::SystemCallsPerIo,
    Metric::Instructions(None),
];

/// Winner maps, one for each metric and each set of workloads that differ in two axes only.
pub(super) fn section(model: &Model<'_>) -> Section {
    let mut section =
        Section { id: "winners", heading: "Winner maps", words: String::new(), groups: Vec::new() };
    let mut axes = Dimension::ALL;
    axes.sort_by_key(|dimension| std::cmp::Reverse(model.values_of(*dimension).len()));
    let [x, y, _] = axes;
    if model.values_of(x).len() < 2 {
        return section;
    }
    let metrics = METRICS.into_iter().filter(|metric| model.emulated.is_none() || !metric.is_time());
    let mut all: Vec<_> = metrics.map(|metric| maps_with_apart(model, metric, x, y)).collect();
    let (mut left_out, mut incomplete) = (0, 0);
    // All metrics give the same maps in the same order: those at one place are a group.
    loop {
        let group: Vec<(WinnerMap, Option<MapWithoutUnsteady>)> =
            all.iter_mut().filter_map(Iterator::next).collect();
        let Some((first, _)) = group.first() else { break };
        left_out += first.left_out().total();
        incomplete += group.iter().map(|(map, _)| map.left_out().energy_incomplete).sum::<usize>();
        let heading = format!("{}{}", model.title(&first.workload, &[x, y]), suffix(model, first));
        let figures: Vec<Figure> = group
            .iter()
            .filter_map(|(map, apart)| figure(model, (map, apart.as_ref()), (x, y), &heading))
            .collect();
        if !figures.is_empty() {
            section.groups.push(Group { heading, figures });
        }
    }
    if !section.groups.is_empty() {
        section.words = format!(
            "The best path in each cell, and how far the next one is. Dashed cells are open: {} at 5 %, \
             after Holm over all cells, cannot tell the best from another path, or there is one replicate \
             and no test. A map of counts names the path that does least of something, which need not be \
             the fastest. {} out: refuted, unproven, failed or incomplete.",
            test_words(model),
            if left_out == 1 { "1 trial stays".to_owned() } else { format!("{left_out} trials stay") }
        );
        if incomplete > 0 {
            let _ = write!(
                section.words,
                " Energy of {} is incomplete and not in its maps.",
                plural(incomplete, "trial")
            );
        }
    }
    section
}

fn heading(model: &Model<'_>, metric: Metric) -> String {
    match metric {
        Metric::LatencyMean => "Least mean latency".to_owned(),
        Metric::IosPerJoule => "Most I/Os per joule".to_owned(),
        Metric::IopsPerCpu => "Most I/Os a second of CPU time".to_owned(),
        count => format!("Fewest {}", model.name_of(count).replacen(", per", " per", 1)),
    }
}

fn maps(model: &Model<'_>, metric: Metric, x: Dimension, y: Dimension) -> Vec<WinnerMap> {
    // The axes differ, so that there is no error to tell.
    let question = WinnerQuestion::new(metric, x.axis(), y.axis());
    let of_study =
        |question: WinnerQuestion| WinnerQuestion { admission: model.admission, ..question.of(model.study) };
    question.map_or(Vec::new(), |question| winner_maps(model.trials, &of_study(question)))
}

/// The same, each with what it is without the unsteady trials where it has any.
fn maps_with_apart(
    model: &Model<'_>,
    metric: Metric,
    x: Dimension,
    y: Dimension,
) -> impl Iterator<Item = (WinnerMap, Option<MapWithoutUnsteady>)> {
    let maps = maps(model, metric, x, y);
    let question = maps.first().map(|map| map.question);
    let apart = question.map(|question| maps_without_unsteady(model.study, model.trials, &question, &maps));
    maps.into_iter().zip(apart.unwrap_or_default())
}

/// The test that decides.
fn test_words(model: &Model<'_>) -> &'static str {
    if in_blocks(model.study) { "the t-test within blocks" } else { "Welch's t-test" }
}

/// What tells the series of a map from those of others: generator and settings.
fn suffix<'a>(model: &'a Model<'_>, map: &WinnerMap) -> &'a str {
    let same = |one: &&Series| one.generator == map.generator && one.settings == map.settings;
    model.series.iter().find(same).map_or("", |one| &one.suffix)
}

fn figure(
    model: &Model<'_>,
    (winners, apart): (&WinnerMap, Option<&MapWithoutUnsteady>),
    (x, y): (Dimension, Dimension),
    rest: &str,
) -> Option<Figure> {
    let places = |of: fn(&(AxisValue, AxisValue)) -> AxisValue| {
        let mut places: Vec<AxisValue> = winners.cells.keys().map(of).collect();
        places.sort_unstable();
        places.dedup();
        places
    };
    let (lines, columns) = (places(|(y, _)| *y), places(|(_, x)| *x));
    let (mut cells, mut rows) = (Vec::new(), Vec::new());
    for ((down, across), cell) in &winners.cells {
        let Some(best) = cell.ranking.first() else { continue };
        let (Some(column), Some(line)) = (position(&columns, across), position(&lines, down)) else {
            continue;
        };
        let Some(series) = model.series_like(best.path, winners.generator, &winners.settings) else {
            continue;
        };
        rows.push(row(winners, cell, (across, down)));
        let mut one = drawn(model, winners, cell, (column, line), series);
        apart.iter().for_each(|apart| mark_otherwise(&mut one, apart, (*down, *across)));
        cells.push(one);
    }
    let of = winners.source.as_ref().map_or(String::new(), |source| format!(" ({source})"));
    let caption = format!("{}{of}", heading(model, winners.question.metric));
    let drawing = Map {
        title: format!("{caption}: {rest}"),
        x_title: x.word().to_owned(),
        y_title: y.word().to_owned(),
        columns: columns.iter().map(AxisValue::to_string).collect(),
        rows: lines.iter().map(AxisValue::to_string).collect(),
        cells,
        otherwise: apart
            .map_or_else(String::new, |apart| format!("decided otherwise {}", without_words(apart))),
    };
    (!rows.is_empty()).then(|| Figure {
        id: slug(&drawing.title),
        drawing: map::draw(&drawing),
        columns: words(&[
            x.word(),
            y.word(),
            "best path",
            "mean",
            "next path",
            "mean of next",
            "ratio",
            "95 % from",
            "95 % to",
            "could see, %",
            "p",
            "decision",
        ]),
        rows,
        wide: drawing.columns.len() > 4,
        note: apart.map(|apart| steady::note(winners, apart)),
        title: drawing.title,
        caption,
    })
}

fn position(places: &[AxisValue], place: &AxisValue) -> Option<usize> {
    places.iter().position(|one| one == place)
}

fn drawn(model: &Model<'_>, map: &WinnerMap, cell: &MapCell, at: (usize, usize), series: usize) -> map::Cell {
    let decision = cell.decision();
    let (unit, factor) = shown(map.question.metric);
    let value = |place: &RankedPath| readable(place.summary.mean * factor);
    let places = cell.ranking.iter().take(2).map(|place| format!("{} {}", place.path, value(place)));
    let tip = if model.cells.len() > TIPPED_CELLS {
        String::new()
    } else {
        format!("{unit}: {}", places.collect::<Vec<_>>().join("; next "))
    };
    map::Cell {
        at,
        series,
        label: model.series[series].label.clone(),
        margin: match decision {
            Decision::Tie => "tie".to_owned(),
            Decision::Alone => "alone".to_owned(),
            _ => margin(cell),
        },
        tie: matches!(decision, Decision::Tie | Decision::Undecided),
        otherwise: false,
        tip,
    }
}

/// Marks a cell that is decided otherwise without the unsteady trials, and says how.
fn mark_otherwise(drawn: &mut map::Cell, apart: &MapWithoutUnsteady, at: (AxisValue, AxisValue)) {
    let Some(cell) = apart.cells.iter().find(|cell| cell.at == at) else { return };
    drawn.otherwise = true;
    let parts =
        [std::mem::take(&mut drawn.tip), format!("{}: {}", without_words(apart), decision(&cell.without))];
    drawn.tip = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
}

/// How far the next path is from the best: in per cent of the best, or as a factor where that reads better.
fn margin(cell: &MapCell) -> String {
    let [best, next, ..] = cell.ranking.as_slice() else { return String::new() };
    match next.summary.mean / best.summary.mean {
        // Of a count the best path may have none at all: then what the next has is said as it is.
        ratio if !ratio.is_finite() => format!("next {}", readable(next.summary.mean)),
        ratio if ratio >= 2.0 => format!("next {}\u{d7}", readable(ratio)),
        ratio => format!("next {:+.1} %", 100.0 * (ratio - 1.0)),
    }
}

fn row(map: &WinnerMap, cell: &MapCell, (x, y): (&AxisValue, &AxisValue)) -> Vec<String> {
    let place = |index: usize| cell.ranking.get(index);
    let path = |index| place(index).map_or(String::new(), |place| place.path.to_string());
    let mean = |index| {
        place(index).map_or(String::new(), |one| exact(one.summary.mean * shown(map.question.metric).1))
    };
    let decision = match cell.decision() {
        Decision::Winner => "winner",
        Decision::Tie => "tie",
        Decision::Alone => "alone",
        Decision::Undecided => "undecided",
        Decision::Empty => "",
    };
    let p = cell.p.map_or(String::new(), exact);
    let of_ratio = |of: fn(&Ratio) -> f64| {
        cell.lead.as_ref().and_then(|one| one.ratio.as_ref()).map_or(String::new(), |one| exact(of(one)))
    };
    let least =
        cell.lead.as_ref().and_then(Contrast::least).map_or(String::new(), |least| exact(100.0 * least));
    let effect = [of_ratio(|one| one.ratio), of_ratio(|one| one.low), of_ratio(|one| one.high), least];
    let first = [x.to_string(), y.to_string(), path(0), mean(0), path(1), mean(1)];
    first.into_iter().chain(effect).chain([p, decision.to_owned()]).collect()
}

/// The best paths of a study by a metric.
pub(super) struct Bests {
    /// Mean latency, or I/Os per joule.
    pub(super) metric: Metric,
    /// One for each workload, in the order of the tables.
    pub(super) all: Vec<Best>,
}

/// The best path of a workload, in words.
pub(super) struct Best {
    pub(super) workload: String,
    pub(super) path: String,
    /// Position of its series.
    pub(super) series: usize,
    /// Its mean in the metric, in the unit in which that is shown.
    pub(super) value: f64,
    pub(super) iops: f64,
    /// Paths that cannot be told from it.
    pub(super) ties: Vec<String>,
    /// There were two replicates or more to test with.
    pub(super) tested: bool,
    /// The series of the worst path with a verified trial that is told from the best, and the share of its
    /// latency, or of its energy for an I/O, that the best one saves.
    pub(super) saves: Option<(usize, f64)>,
    /// The best one has a verified trial.
    pub(super) verified: bool,
}

/// The best path of each workload.
pub(super) fn bests(model: &Model<'_>, metric: Metric) -> Bests {
    let mut bests: Vec<(usize, Best)> = Vec::new();
    for map in maps(model, metric, Dimension::Iodepth, Dimension::Numjobs) {
        for ((numjobs, iodepth), cell) in &map.cells {
            let (AxisValue::Count(numjobs), AxisValue::Count(iodepth)) = (*numjobs, *iodepth) else {
                continue;
            };
            let workload = Workload { iodepth, numjobs, ..map.workload.clone() };
            let Some(index) = model.workload_of(&workload) else { continue };
            bests.extend(best(model, &map, cell, index).map(|best| (index, best)));
        }
    }
    bests.sort_by_key(|(index, _)| *index);
    Bests { metric, all: bests.into_iter().map(|(_, best)| best).collect() }
}

fn best(model: &Model<'_>, map: &WinnerMap, cell: &MapCell, workload: usize) -> Option<Best> {
    let first = cell.ranking.first()?;
    let series = |path| model.series_like(path, map.generator, &map.settings);
    let label = |path| series(path).map_or(String::new(), |series| model.series[series].label.clone());
    let verified = |path| {
        let series = series(path);
        model.cells_of(workload).any(|cell| Some(cell.series) == series && cell.verified > 0)
    };
    let own = series(first.path)?;
    let data = model.cells_of(workload).find(|cell| cell.series == own)?;
    let is_told = |place: &RankedPath| place.p.is_none_or(|p| p <= LEVEL);
    let worst = cell.ranking[1..]
        .iter()
        .rev()
        .find(|place| verified(place.path) && is_told(place) && place.summary.mean > 0.0);
    let metric = map.question.metric;
    let saved = |worst: f64| {
        let ratio = first.summary.mean / worst;
        1.0 - if metric.more_is_better() { ratio.recip() } else { ratio }
    };
    Some(Best {
        workload: model.title(model.workloads[workload], &[]),
        path: model.series[own].name.clone(),
        series: own,
        value: first.summary.mean * shown(metric).1,
        iops: model.summary(data, Metric::Iops)?.mean,
        ties: cell.tied().iter().skip(1).map(|place| label(place.path)).collect(),
        tested: cell.decision() != Decision::Undecided,
        saves: worst.and_then(|one| Some((series(one.path)?, saved(one.summary.mean)))),
        verified: data.verified > 0,
    })
}

/// Sentences for the top of the page.
pub(super) fn lead(model: &Model<'_>, Bests { metric, all: bests }: &Bests) -> String {
    let (has, saved) = match metric {
        Metric::IosPerJoule => ("does the most I/Os per joule", "energy that an I/O takes"),
        _ => ("has the least mean latency", "latency"),
    };
    let mut wins: Vec<(&str, usize)> = Vec::new();
    for best in bests {
        match wins.iter_mut().find(|(path, _)| *path == best.path) {
            Some((_, count)) => *count += 1,
            None => wins.push((&best.path, 1)),
        }
    }
    wins.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let Some((winner, count)) = wins.first() else { return String::new() };
    let mut text = match bests.len() {
        1 => format!("<p class=\"lead\"><b>{}</b> {has}", escape(winner)),
        all => {
            format!("<p class=\"lead\"><b>{}</b> {has} in {count} of {all} workloads", escape(winner))
        }
    };
    let others: Vec<String> =
        wins[1..].iter().map(|(path, count)| format!("{} in {count}", escape(path))).collect();
    if !others.is_empty() {
        let _ = write!(text, "; {}", list(&others));
    }
    let greatest = bests
        .iter()
        .filter_map(|best| best.saves.map(|(worst, share)| (best, worst, share)))
        .max_by(|a, b| a.2.total_cmp(&b.2));
    text.push('.');
    if let Some(source) = model.source.as_ref().filter(|_| metric.is_energy()) {
        let _ = write!(text, " Energy is of {}.", escape(&source.to_string()));
    }
    if let Some((best, worst, share)) = greatest {
        let _ = write!(
            text,
            " At the most, choosing the best path saves {:.*} % of the {saved}: {} instead of {} for {}.",
            usize::from(share > 0.99),
            100.0 * share,
            escape(&best.path),
            escape(&model.series[worst].name),
            escape(&best.workload)
        );
    }
    text += "</p>";
    text + &open(model, bests)
}

/// How many of the bests are open, and why.
fn open(model: &Model<'_>, bests: &[Best]) -> String {
    let ties = bests.iter().filter(|best| !best.ties.is_empty()).count();
    let untested = bests.iter().filter(|best| !best.tested).count();
    let mut text = String::new();
    if ties > 0 {
        let which = if ties == bests.len() { "every workload".to_owned() } else { plural(ties, "workload") };
        let _ = write!(
            text,
            "<p>In {which} the lead over another path is within the noise: a tie by {} at 5 %, after Holm \
             over all cells. More replicates would decide.</p>",
            test_words(model)
        );
    }
    if untested > 0 {
        let _ = write!(
            text,
            "<p>{} with one replicate: no test can decide there. Run the study with --replicates 3 or \
             more.</p>",
            plural(untested, "workload")
        );
    }
    text
}
