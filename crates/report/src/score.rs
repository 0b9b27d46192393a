//! The evaluation of paths that choose, as text: a table for each cell, then each path over all cells.
//! `analysis::score` decides.

use super::number::{decimal, or_dash, thousands};
use super::table::Table;
use super::text::{WIDTH, escape, path_name, settings, wrap};
use iopj_analysis::admission::{LEGEND, MARK};
use iopj_analysis::grouping::{TrialSetup, unique};
use iopj_analysis::metric::Metric;
use iopj_analysis::score::{Answer, Kind, More, MoreBlocks, Row, Score, ScoredCell, Together, Used};
use iopj_analysis::stats::Ratio;
use iopj_record::Generator;

/// The whole evaluation.
pub fn score(score: &Score) -> String {
    let mut text = wrap(&demand(score), WIDTH, "");
    for cell in &score.cells {
        text.push('\n');
        text += &wrap(&escape(&heading(cell)), WIDTH, "");
        text += &table(cell).text();
        text.extend(left_out(cell).iter().map(|line| wrap(line, WIDTH, "  ")));
        let reasons = cell.rows.iter().filter_map(|row| match &row.answer {
            Some(Answer::NotTested(why)) => Some(why),
            _ => None,
        });
        text.extend(unique(reasons).into_iter().map(|why| wrap(&format!("not tested: {why}"), WIDTH, "  ")));
    }
    text.push('\n');
    for one in &score.together {
        text += &wrap(&over_all(one, score.level), WIDTH, "");
    }
    text += &wrap(&counts(score), WIDTH, "");
    text.extend(failing(score).iter().map(|line| wrap(&escape(line), WIDTH, "  ")));
    text.extend(to_decide(score).map(|line| wrap(&line, WIDTH, "")));
    text.extend(score.nobody.as_ref().map(|why| wrap(&escape(why), WIDTH, "")));
    text += &wrap(&rule(score), WIDTH, "");
    if score.cells.iter().flat_map(|cell| &cell.rows).any(|row| row.marked) {
        text += &wrap(LEGEND, WIDTH, "");
    }
    text
}

/// What is demanded.
fn demand(score: &Score) -> String {
    let by = match score.frozen {
        true => "the study's own thresholds",
        false => "the usual thresholds: the study states none under [score]",
    };
    let energy = score.energy.as_ref().map_or(String::new(), |source| format!("; joules are of {source}"));
    escape(&format!(
        "Each path that chooses is to reach {} of the best static path of its cell, with {} confidence \
         ({by}){energy}.",
        share(score.margin),
        share(score.level)
    ))
}

/// A share in per cent without trailing zeros.
fn share(share: f64) -> String {
    format!("{} %", (1e6 * share).round() / 1e4)
}

fn heading(cell: &ScoredCell) -> String {
    let TrialSetup { workload, settings: own, generator } = &cell.setup;
    let by = if *generator == Generator::Fio { " (fio)" } else { "" };
    let cpus: Vec<String> = workload.cpus_allowed.iter().map(u32::to_string).collect();
    let cpus = if cpus.is_empty() { cpus.concat() } else { format!(" cpus_allowed {}", cpus.join(",")) };
    format!("{}{cpus}{}{by}, by {}", workload.title(), settings(own), unit(cell.metric).0)
}

/// A metric in words, with what a value of it is shown as.
fn unit(metric: Metric) -> (&'static str, fn(f64) -> String) {
    match metric {
        Metric::LatencyMean => ("mean latency in us", |ns| decimal(ns / 1e3)),
        Metric::IopsPerCpu => ("CPU time of an I/O in us", |rate| decimal(1e6 / rate)),
        Metric::IosPerJoule => ("I/Os per joule", decimal),
        other => (other.title(), thousands),
    }
}

fn table(cell: &ScoredCell) -> Table<'_, Row> {
    let shown = unit(cell.metric).1;
    let generator = cell.setup.generator;
    let name = move |row: &Row| {
        let path = path_name(row.path, generator, &Default::default());
        let worst = if row.is == Kind::Worst { ", the worst" } else { "" };
        format!("{path}{worst}{}", if row.marked { MARK } else { "" })
    };
    Table::of(&cell.rows)
        .left("path", name)
        .left("against", |row| or_dash(row.against, |path| path.to_string()))
        .right("blocks", |row| format!("{} of {}", row.blocks, row.of_blocks))
        .right("its", move |row| or_dash(row.means, |[own, _]| shown(own)))
        .right("the other's", move |row| or_dash(row.means, |[_, other]| shown(other)))
        .right("ratio", |row| or_dash(row.ratio, |ratio| times(ratio.ratio)))
        .left("limits", |row| or_dash(row.ratio, limits))
        .left("IOPS", |row| or_dash(row.iops, |ratio| format!("{}, {}", times(ratio.ratio), limits(ratio))))
        .left("answer", answer)
}

/// The answer; if it is undecided, with how many more blocks would decide.
fn answer(row: &Row) -> String {
    let more = match row.more {
        Some(MoreBlocks::About(blocks)) => format!(" (+{blocks})"),
        Some(MoreBlocks::Many) => format!(" (over +{})", MoreBlocks::MOST),
        None => String::new(),
    };
    row.answer.as_ref().map_or_else(String::new, |answer| format!("{answer}{more}"))
}

/// What of the paths of the table does not count, why, and what would be if it did.
fn left_out(cell: &ScoredCell) -> Vec<String> {
    let [choose, test] = cell.blocks;
    let of = |used: &Used| {
        let Used { path, choosing, testing, .. } = used;
        let row = cell.rows.iter().find(|row| row.path == *path);
        let with = row.and_then(|row| row.with_left_out).map_or(String::new(), |ratio| {
            let ratio = format!("{} ({})", times(ratio.ratio), limits(ratio));
            format!("; its ratio would be {ratio} if all that is unproven or disturbed counted")
        });
        let blocks = format!("{choosing} of {choose} blocks that choose and {testing} of {test} that test");
        format!("{path} has {blocks}; left out: {}{with}", used.reasons().join(", "))
    };
    let is_shown = |used: &&Used| {
        let named = |row: &Row| row.path == used.path || row.against == Some(used.path);
        !used.is_whole() && cell.rows.iter().any(named)
    };
    cell.used.iter().filter(is_shown).map(of).collect()
}

fn limits(ratio: Ratio) -> String {
    format!("{} to {}", times(ratio.low), times(ratio.high))
}

/// A ratio: thousandths, as long as they say anything.
fn times(ratio: f64) -> String {
    if ratio < 10.0 { format!("{ratio:.3}") } else { decimal(ratio) }
}

fn over_all(one: &Together, level: f64) -> String {
    let Together { path, metric, cells, against, blocks, ratio, answer, .. } = one;
    let by = unit(*metric).0;
    let Some(other) = against else {
        return format!("{path} over its {cells} cells: no static path was measured in all of them.");
    };
    let (Some(ratio), Some(answer)) = (ratio, answer) else {
        return format!(
            "{path} over its {cells} cells, against {other}: blocks that test and have both in every cell: \
             {blocks}, and a test needs 2."
        );
    };
    let is = match answer {
        More::Better => "it is better than the best single static path",
        More::Worse => "it is worse than the best single static path",
        More::Undecided => "no difference from the best single static path is shown",
    };
    format!(
        "{path} over its {cells} cells, by {by}, against {other}: {} times as good, {} at {} confidence \
         each, in {blocks} blocks: {is}.",
        times(ratio.ratio),
        limits(*ratio),
        share(level)
    )
}

fn counts(score: &Score) -> String {
    let count = |word: &str| score.answers().filter(|answer| answer.as_str() == word).count();
    let words = ["holds", "fails", "undecided", "not tested"].map(|word| format!("{} {word}", count(word)));
    let absent = match score.absent {
        0 => String::new(),
        absent => format!(" {absent} planned trials are not in the store."),
    };
    format!("Of {} answers: {}.{absent}", score.answers().count(), words.join(", "))
}

/// Where a path that chooses is shown not to reach the margin.
fn failing(score: &Score) -> Vec<String> {
    let of = |cell: &ScoredCell| {
        let fails = cell.rows.iter().filter(|row| row.answer == Some(Answer::Fails));
        fails.map(|row| format!("fails: {}, {}", row.path, heading(cell))).collect::<Vec<String>>()
    };
    score.cells.iter().flat_map(of).collect()
}

/// What would decide what is undecided.
fn to_decide(score: &Score) -> Option<String> {
    // Cells may differ in blocks where a study adds some.
    let (mut most, mut is_many) = (None, false);
    for cell in &score.cells {
        let blocks = cell.blocks.iter().sum::<usize>();
        for more in cell.rows.iter().filter_map(|row| row.more) {
            match more {
                MoreBlocks::About(more) => most = most.max(Some((blocks + more as usize, more))),
                MoreBlocks::Many => is_many = true,
            }
        }
    }
    let anew = most.map(|(blocks, most)| {
        format!(
            " For +{most} measure {blocks} blocks in a new store (`iopj run STUDY --replicates {blocks}`): \
             more of them in this one would be another look at it."
        )
    });
    let many = is_many.then(|| format!(" Over +{}, less noise does more than blocks.", MoreBlocks::MOST));
    (anew.is_some() || is_many).then(|| {
        format!(
            "undecided (+N): about N more blocks would decide it four times out of five, if ratio and spread \
             are those observed; every second one tests.{}{}",
            anew.unwrap_or_default(),
            many.unwrap_or_default()
        )
    })
}

/// By which rule.
fn rule(score: &Score) -> String {
    let looks = match score.looks {
        1 => String::new(),
        looks => format!(" Every p-value is multiplied by the {looks} looks that there may be."),
    };
    format!(
        "The best and the worst static path are chosen in every second block; the others test. What is bound \
         to one way is compared in all. A ratio above 1 means that the path is better. Its limits hold with \
         {} confidence each and are not corrected; the answers are, by Holm's rule over all cells.{looks}",
        share(score.level)
    )
}
