//! The answer to which way carries the highest rate, in words: what to take, what each way carries, and what
//! would change it.

use super::advise_words::{Labels, bound_text, cost_text, us};
use super::answer::open_words;
use super::number::{decimal, thousands};
use super::table::Table;
use super::text::settings;
use iopj_analysis::admission::MARK;
use iopj_analysis::advise::{Advice, AdviseQuestion, Answer, BoundAnswer, Candidate, Carried, Highest};
use iopj_analysis::grouping::list;
use iopj_analysis::stats::p_statement;
use iopj_analysis::winner::Decision;

/// Which load the answer is at.
pub(super) fn load(highest: &Highest) -> String {
    match highest.most() {
        Some((rate, _)) => {
            format!("At {} I/Os per second, the highest rate that is carried:", thousands(rate as f64))
        }
        None => "At the least rate that was measured:".to_owned(),
    }
}

/// What to take; `None` if no way carries any rate.
pub(super) fn lead(
    highest: &Highest,
    answer: &Answer,
    labels: &Labels,
    question: &AdviseQuestion,
) -> Option<String> {
    let way = answer.way()?;
    let own = highest.ways.iter().find(|one| one.way == *way)?;
    let rate = thousands(own.rate()? as f64);
    let bounds: Vec<String> = question.bounds.iter().map(bound_text).collect();
    let within = if bounds.is_empty() { String::new() } else { format!(" with its {}", list(&bounds)) };
    let marked = answer.cell.ranking.iter().any(|place| place.path == *way && place.marked);
    let name = labels.whole(way) + if marked { MARK } else { "" };
    let beyond = match &own.beyond {
        Some((rate, one)) => {
            format!("{} at {}, the next rate measured", not_carried(one), thousands(*rate as f64))
        }
        None => "no higher rate was measured".to_owned(),
    };
    let (carried, tie) = (format!("{rate} I/Os per second{within}"), tie(answer, labels));
    Some(format!("Take {name}: it carries {carried}; {beyond}.{tie}"))
}

/// Why a way does not carry a rate.
fn not_carried(one: &Candidate) -> &'static str {
    match one.unmet().map(|check| check.answer) {
        _ if !one.keeps_up() => "it falls behind",
        Some(BoundAnswer::Missed) => "it misses the bound",
        _ => "it is not shown to meet the bound",
    }
}

/// What other ways carry the same, and what chooses between them.
fn tie(answer: &Answer, labels: &Labels) -> String {
    let cell = &answer.cell;
    let others: Vec<String> = cell
        .ranking
        .iter()
        .map(|place| &place.path)
        .filter(|way| Some(*way) != answer.way())
        .map(|way| labels.short(way))
        .collect();
    if others.is_empty() {
        return String::new();
    }
    let (others, verb) = (list(&others), if others.len() == 1 { "carries" } else { "carry" });
    let latency = answer.metric.title();
    let why = match cell.decision() {
        Decision::Wins => {
            let p = cell.p.map_or(String::new(), |p| format!(" ({})", p_statement(p)));
            format!("its {latency} is the lowest{p}")
        }
        Decision::Equal => format!("nothing separates their {latency}"),
        _ => {
            let open = cell.open().map_or(String::new(), |(_, open)| format!(": {}", open_words(&open)));
            format!("its {latency} is the lowest on average, which is undecided{open}")
        }
    };
    format!(" {others} {verb} as much; of these {why}.")
}

/// What would change the answer.
pub(super) fn flips(highest: &Highest, answer: &Answer, labels: &Labels) -> Option<String> {
    let percentile = answer.flips.percentile.as_str();
    let mut parts = Vec::new();
    parts.extend(answer.flips.tighter.as_ref().map(|flip| match &flip.way {
        Some(way) => {
            format!("a bound of the {percentile} below {} makes it {}", us(flip.at), labels.short(way))
        }
        None => {
            format!("under a bound of the {percentile} below {} no way is shown to carry this", us(flip.at))
        }
    }));
    parts.extend(highest.looser.as_ref().map(|(ns, rate, way)| {
        let rate = thousands(*rate as f64);
        format!("under a bound of {} or more {} carries {rate}", us(*ns), labels.short(way))
    }));
    (!parts.is_empty()).then(|| format!("What would change the answer: {}.", parts.join("; ")))
}

/// What each way carries; `safe` makes foreign text harmless.
pub(super) fn table<'a>(
    advice: &Advice,
    highest: &'a Highest,
    answer: &'a Answer,
    safe: fn(&str) -> String,
) -> Table<'a, Carried> {
    let percentile = answer.flips.percentile.as_str();
    let figure = |one: &Carried, of: &dyn Fn(&Candidate) -> Option<String>| {
        one.at.as_ref().and_then(|(_, own)| of(own)).unwrap_or_else(|| "-".to_owned())
    };
    let (cost, cost_of) = cost_text(advice.cost);
    Table::of(&highest.ways)
        .left("path", move |one| format!("{}{}", one.way.path, safe(&settings(&one.way.settings))))
        .right("numjobs", |one| one.way.numjobs.to_string())
        .right("iodepth", |one| one.way.iodepth.to_string())
        .right("highest rate", |one| one.rate().map_or_else(|| "-".to_owned(), |rate| thousands(rate as f64)))
        .right(format!("{percentile} us"), move |one| {
            figure(one, &|own| Some(decimal(own.tail.as_ref()?.ns / 1e3)))
        })
        .right("at most", move |one| figure(one, &|own| Some(decimal(own.tail.as_ref()?.upper()?.0 / 1e3))))
        .right(cost, move |one| figure(one, &|own| Some(cost_of(own.cost?.mean))))
        .left("beyond", |one| {
            one.beyond.as_ref().map_or_else(
                || "not measured".to_owned(),
                |(rate, own)| {
                    format!("{} at {}", not_carried(own).trim_start_matches("it "), thousands(*rate as f64))
                },
            )
        })
}
