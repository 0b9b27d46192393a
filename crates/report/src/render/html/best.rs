//! The best path of each workload, in words. `analysis::winner` decides.

use super::maps::{maps, test_words};
use super::model::{Model, shown};
use super::text::{escape, plural};
use crate::analysis::grouping::{grouped, list};
use crate::analysis::metric::Metric;
use crate::analysis::stats::LEVEL;
use crate::analysis::winner::{Axis, AxisValue, Decision, MapCell, RankedPath, WinnerMap};
use iopj_core::Workload;
use std::fmt::Write;

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
    /// Its mean, in the unit in which the metric is shown.
    pub(super) value: f64,
    pub(super) iops: f64,
    /// Paths that do not differ significantly from it.
    pub(super) ties: Vec<String>,
    /// True if there were two replicates or more to test.
    pub(super) tested: bool,
    /// The series of the worst path with a verified trial that differs significantly from the best, and the
    /// share of its latency, or of its energy per I/O, that the best one saves.
    pub(super) saves: Option<(usize, f64)>,
    /// True if the best one has a verified trial.
    pub(super) verified: bool,
}

/// The best path of each workload.
pub(super) fn bests(model: &Model<'_>, metric: Metric) -> Bests {
    let mut bests: Vec<(usize, Best)> = Vec::new();
    for map in maps(model, metric, Axis::Iodepth, Axis::Numjobs) {
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
    let is_not_tied = |place: &RankedPath| place.p.is_none_or(|p| p < LEVEL);
    let worst = cell.ranking[1..]
        .iter()
        .rev()
        .find(|place| verified(place.path) && is_not_tied(place) && place.summary.mean > 0.0);
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
        ties: cell
            .best()
            .iter()
            .filter(|_| cell.p.is_some())
            .skip(1)
            .map(|place| label(place.path))
            .collect(),
        tested: cell.p.is_some() || cell.decision() == Decision::Alone,
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
    let won = grouped(bests.iter().map(|best| (best.path.as_str(), ())));
    let mut wins: Vec<(&str, usize)> = won.into_iter().map(|(path, all)| (path, all.len())).collect();
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
            " At most, choosing the best path saves {:.*} % of the {saved}: {} instead of {} for {}.",
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

/// How many of these decisions are open, and why.
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
