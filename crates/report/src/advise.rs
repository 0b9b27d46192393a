//! Advice in sentences: which way to take at a load, what decided it, what it saves, what would change it,
//! and what to type. `analysis::advise` decides.

use super::advise_highest as highest;
use super::advise_words::{Labels, bound_text, cost_text, figure, flips, limit, us};
use super::answer::open_words;
use super::number::{decimal, thousands};
use super::table::Table;
use super::text::{WIDTH, escape, settings, wrap};
use iopj_analysis::admission::{LEGEND, MARK};
use iopj_analysis::advise::{
    Advice, AdviseQuestion, Against, Answer, Asked, BoundAnswer, Candidate, Group, Load, Saving, Step, Way,
};
use iopj_analysis::grouping::list;
use iopj_analysis::metric::Metric;
use iopj_analysis::stats::p_statement;
use iopj_analysis::winner::Decision;
use iopj_core::IoPath;

/// The answer at one load, in words.
pub(super) struct Said {
    /// Which load.
    pub(super) load: String,
    /// What to take.
    pub(super) lead: String,
    /// What decided it, what it saves, and what would change it.
    pub(super) rest: Vec<String>,
}

/// Advice for a terminal.
pub fn advice(advice: &Advice, question: &AdviseQuestion) -> String {
    let mut text = String::new();
    let several = advice.groups.iter().map(|group| group.answers.len()).sum::<usize>() > MOST_RECIPES;
    for group in &advice.groups {
        text += &wrap(&escape(&heading(advice, group, question)), WIDTH, "");
        text.extend(between(group).map(|words| wrap(&escape(&words), WIDTH, "  ")));
        for answer in &group.answers {
            let Said { load, lead, rest } = said(group, answer, question);
            text += &format!("\n  {load}\n");
            text += &wrap(&escape(&lead), WIDTH, "    ");
            let table = match &group.highest {
                Some(highest) => highest::table(advice, highest, answer, str::to_owned).text(),
                None => table(advice, answer, str::to_owned).text(),
            };
            text.extend(table.lines().map(|line| format!("  {line}\n")));
            text.extend(rest.iter().map(|sentence| wrap(&escape(sentence), WIDTH, "    ")));
            if !several {
                text += &recipe(&answer.recipe);
            }
        }
        text.push('\n');
    }
    if several {
        text += &wrap("What to type is said for one load: name it with --rate.", WIDTH, "");
    }
    if text.contains(MARK) {
        text += &wrap(LEGEND, WIDTH, "");
    }
    text.extend(baselines(advice).map(|line| wrap(&escape(&line), WIDTH, "")));
    text + &wrap(&footer(advice), WIDTH, "")
}

/// With more answers, what to type is left out.
const MOST_RECIPES: usize = 3;

/// What to type.
fn recipe(steps: &[Step]) -> String {
    let step = |Step { place, lines, note }: &Step| {
        let note = if note.is_empty() { String::new() } else { format!(" ({})", note.trim_end_matches('.')) };
        let lines: String = lines.iter().map(|line| format!("        {}\n", escape(line))).collect();
        wrap(&format!("{place}{note}:"), WIDTH, "      ") + &lines
    };
    let steps: String = steps.iter().map(step).collect();
    if steps.is_empty() { steps } else { format!("    What to type:\n{steps}") }
}

/// The paths that are no way to carry a load.
pub(super) fn baselines(advice: &Advice) -> Option<String> {
    let paths: Vec<String> = advice.baselines.iter().map(IoPath::to_string).collect();
    let line = || format!("Left out, for they only show what choosing is worth: {}.", list(&paths));
    (!paths.is_empty()).then(line)
}

/// How the figures are to be read.
fn footer(advice: &Advice) -> String {
    let cost = if advice.cost.is_energy() { "I/Os per joule" } else { "CPU time per I/O" };
    let front = format!(
        "* on the Pareto front: no way that keeps up has both a lower latency and a better cost ({cost}). "
    );
    let has_front = advice.groups.iter().any(|group| group.highest.is_none());
    format!(
        "{}At most: the upper 95 % confidence limit. A bound is met only if that limit meets it.",
        if has_front { front } else { String::new() }
    )
}

/// What the answers of a group are about, and by what they are best.
pub(super) fn heading(advice: &Advice, group: &Group, question: &AdviseQuestion) -> String {
    let source = advice.source.as_ref().filter(|_| advice.metric.is_energy());
    let by = source.map_or(String::new(), |source| format!(" ({source})"));
    let metric = match advice.metric {
        Metric::Iops if group.highest.is_some() => "the highest rate",
        Metric::IopsPerCpu => "CPU time per I/O",
        other => other.title(),
    };
    let bounds: Vec<String> = question.bounds.iter().map(bound_text).collect();
    let bounds = if bounds.is_empty() { String::new() } else { format!(", {}", bounds.join(", ")) };
    let generator = if group.generator == iopj_record::Generator::Fio { " (fio)" } else { "" };
    let title = shared_title(group);
    format!("Advice for {title}{generator}, by {metric}{by}{bounds}")
}

/// The workload without what belongs to ways and loads.
pub(super) fn shared_title(group: &Group) -> String {
    let mut title = group.workload.title();
    let parts = [" iodepth 1", " numjobs 1", " rate_iops 1"];
    parts.iter().for_each(|part| title = title.replacen(part, "", 1));
    title
}

/// What two neighbours say about the rate between them.
pub(super) fn between(group: &Group) -> Option<String> {
    let Some(Asked::Between { rate, same }) = &group.asked else { return None };
    let rates: Vec<String> = group.answers.iter().map(|answer| load_text(answer.load)).collect();
    let place = format!(
        "{} I/Os per second were not measured. They lie between {}",
        thousands(*rate as f64),
        list(&rates)
    );
    Some(match same {
        Some(way) => {
            let labels = Labels::of(group, None);
            format!("{place}, at both of which the answer may be {}: take it.", labels.whole(way))
        }
        None => format!(
            "{place}, whose answers differ or are open, so it is undecided: --write-study FILE \
                         writes the study that measures it."
        ),
    })
}

fn load_text(load: Load) -> String {
    match load {
        Load::Rate(rate) => thousands(rate as f64),
        Load::Trace => "the trace".to_owned(),
        Load::Closed { numjobs, iodepth } => format!("numjobs {numjobs}, iodepth {iodepth}"),
    }
}

/// The answer at a load.
pub(super) fn said(group: &Group, answer: &Answer, question: &AdviseQuestion) -> Said {
    let labels = Labels::of(group, Some(answer.load));
    let load = match (answer.load, &group.highest) {
        (_, Some(highest)) => highest::load(highest),
        (Load::Rate(_), _) => format!("At {} I/Os per second, an open load:", load_text(answer.load)),
        (Load::Trace, _) => "When the trace says, an open load:".to_owned(),
        (Load::Closed { .. }, _) => format!("With {}, a closed loop:", load_text(answer.load)),
    };
    let mut rest = Vec::new();
    rest.extend(latency(answer));
    rest.extend(excluded(answer, &labels));
    rest.extend(starved(answer, &labels));
    rest.extend(savings(answer, &labels, question));
    let Some(highest) = &group.highest else {
        rest.extend(flips(answer, &labels));
        return Said { load, lead: lead(answer, &labels), rest };
    };
    rest.extend(highest::flips(highest, answer, &labels));
    let lead = highest::lead(highest, answer, &labels, question);
    Said { load, lead: lead.unwrap_or_else(|| nobody(answer, &labels)), rest }
}

fn lead(answer: &Answer, labels: &Labels) -> String {
    let Some(way) = answer.way() else { return nobody(answer, labels) };
    let cell = &answer.cell;
    let of = |way: &Way| cell.ranking.iter().find(|place| place.path == *way);
    let figure = of(way).map_or(String::new(), |place| figure(answer.metric, &place.summary));
    let mark = if of(way).is_some_and(|place| place.marked) { MARK } else { "" };
    let name = labels.whole(way) + mark;
    match cell.decision() {
        Decision::Wins => {
            let next = cell.ranking.get(1).map_or(String::new(), |place| labels.short(&place.path));
            let lead = cell.lead().and_then(|lead| lead.ratio).map_or(String::new(), |ratio| {
                let share = |ratio: f64| format!("{:.1} %", 100.0 * (ratio - 1.0).abs());
                let (low, high) = (share(ratio.low), share(ratio.high));
                let better = if answer.metric.more_is_better() { "more" } else { "less" };
                format!(", {} {better} than {next} (between {low} and {high})", share(ratio.ratio))
            });
            let p = cell.p.map_or(String::new(), |p| format!("; {}", p_statement(p)));
            format!("Take {name}: {figure}{lead}{p}.")
        }
        Decision::Equal => {
            let alike: Vec<String> = cell.best().iter().map(|place| labels.short(&place.path)).collect();
            format!(
                "Take {name}: {figure}. Nothing separates {} by that, and of these its latency is the \
                 lowest.",
                list(&alike)
            )
        }
        Decision::Undecided => {
            let alike: Vec<String> = cell.best().iter().map(|place| labels.short(&place.path)).collect();
            let open = cell.open().map_or(String::new(), |(_, open)| format!(": {}", open_words(&open)));
            format!("Undecided between {}{open}. The best on average is {name}: {figure}.", list(&alike))
        }
        Decision::Alone | Decision::Empty => {
            let only =
                if answer.candidates.len() == 1 { "the only way measured" } else { "the only one left" };
            format!("Take {name}, {only}: {figure}.")
        }
    }
}

/// Why no way can be chosen, and which comes nearest.
fn nobody(answer: &Answer, labels: &Labels) -> String {
    let Some(nearest) = answer.nearest() else {
        return "No way can be chosen: all of them fall behind at this load.".to_owned();
    };
    let name = labels.whole(&nearest.way);
    match nearest.unmet() {
        Some(check) => {
            let tail = check.tail.as_ref().map_or(String::new(), |tail| format!(": {}", limit(tail)));
            let met = if check.answer == BoundAnswer::Open { "is shown to meet" } else { "meets" };
            format!("No way {met} the bound ({}). {name} comes nearest{tail}.", bound_text(&check.bound))
        }
        None => format!("No way can be chosen: {name} keeps up, and lacks what is asked for."),
    }
}

/// The latency of the way to take.
fn latency(answer: &Answer) -> Option<String> {
    let candidate = answer.candidate(answer.way()?)?;
    if candidate.bounds.is_empty() {
        return candidate.tail.as_ref().map(|tail| format!("Its {}.", limit(tail)));
    }
    let checks = candidate.bounds.iter().filter_map(|check| {
        Some(format!("Its {}; {} was asked for.", limit(check.tail.as_ref()?), us(check.bound.ns)))
    });
    Some(checks.collect::<Vec<_>>().join(" "))
}

/// The ways that cannot be chosen, by reason.
fn excluded(answer: &Answer, labels: &Labels) -> Option<String> {
    let names = |is: &dyn Fn(&Candidate) -> bool, with: &dyn Fn(&Candidate) -> String| -> Vec<String> {
        let own = answer.candidates.iter().filter(|one| is(one));
        own.map(|one| labels.short(&one.way) + &with(one)).collect()
    };
    let behind = names(&|one| !one.keeps_up(), &|one| match one.overloaded {
        all if all == one.replicates => String::new(),
        some => format!(" (in {some} of {} trials)", one.replicates),
    });
    let unmet = |answer: BoundAnswer| {
        names(&|one| one.keeps_up() && one.unmet().is_some_and(|check| check.answer == answer), &|one| {
            let tail = one.unmet().and_then(|check| check.tail.as_ref());
            tail.map_or(String::new(), |tail| format!(" ({})", limit(tail)))
        })
    };
    let reasons = [
        ("fall behind at this load", behind),
        ("miss the bound", unmet(BoundAnswer::Missed)),
        ("are not shown to meet the bound", unmet(BoundAnswer::Open)),
    ];
    let parts = reasons.into_iter().filter(|(_, names)| !names.is_empty());
    let parts: Vec<String> = parts.map(|(why, names)| format!("{why}: {}", list(&names))).collect();
    (!parts.is_empty())
        .then(|| format!("Of {} ways, these {}.", answer.candidates.len(), parts.join("; these ")))
}

/// The ways whose spinning threads lost their cores: no number of replicates shows what they can do.
fn starved(answer: &Answer, labels: &Labels) -> Option<String> {
    let own = answer.candidates.iter().filter(|one| one.starved > 0);
    let own: Vec<String> = own
        .map(|one| format!("{} in {} of {} trials", labels.short(&one.way), one.starved, one.replicates))
        .collect();
    (!own.is_empty()).then(|| {
        format!(
            "Starved, because a thread that spins lost its core: {}. It takes a core of its own to judge \
                 them, not more replicates.",
            list(&own)
        )
    })
}

/// What the way to take saves in a year.
fn savings(answer: &Answer, labels: &Labels, question: &AdviseQuestion) -> Option<String> {
    let savings = match answer.savings.as_ref()? {
        Ok(savings) => savings,
        Err(why) => return Some(format!("What it saves in a year is not said: {why}.")),
    };
    let one = |saving: &Saving| saved(saving, &labels.short(&saving.way), question.price_per_kwh);
    let all: Vec<String> = savings.all.iter().map(one).collect();
    let rate = thousands(savings.rate);
    Some(format!("At {rate} I/Os per second all the year it {}.", all.join("; it ")))
}

/// What it saves against another way, or takes more; neither, if the interval holds both.
fn saved(saving: &Saving, other: &str, price: Option<f64>) -> String {
    let what = match saving.against {
        Against::RunnerUp => "the next",
        Against::Usual => "the usual way",
    };
    let signed = |value: f64| if value < 0.0 { format!("-{}", decimal(-value)) } else { decimal(value) };
    let between = |(low, high): (f64, f64)| format!("between {} and {}", signed(low), signed(high));
    let is_shown = |(low, high): &(f64, f64)| *low > 0.0 || *high < 0.0;
    let Some(interval) = saving.kwh.1.filter(is_shown) else {
        let range = saving.kwh.1.map_or(String::new(), |range| format!(" ({} kWh)", between(range)));
        return format!("is not shown to save anything against {other}, {what}{range}");
    };
    let is_less = interval.0 > 0.0;
    let (verb, more) = if is_less { ("saves", "") } else { ("takes", " more") };
    let size = |(low, high): (f64, f64)| between(if is_less { (low, high) } else { (-high, -low) });
    let money = saving.money.and_then(|(money, range)| Some((money, range?, price?)));
    let money = money.map_or(String::new(), |(money, range, price)| {
        format!(", which is {} ({}) at {price} per kWh", decimal(money.abs()), size(range))
    });
    let kwh = decimal(saving.kwh.0.abs());
    format!("{verb} {kwh} kWh{more} ({}) against {other}, {what}{money}", size(interval))
}

/// Every way at a load; `safe` makes foreign text harmless.
pub(super) fn table<'a>(
    advice: &Advice,
    answer: &'a Answer,
    safe: fn(&str) -> String,
) -> Table<'a, Candidate> {
    let percentile = answer.flips.percentile.as_str();
    let dash = || "-".to_owned();
    let state = |one: &Candidate| {
        let is_best = answer.cell.best().iter().any(|place| place.path == one.way);
        match (answer.way() == Some(&one.way), one.unmet().map(|check| check.answer)) {
            (true, _) if answer.cell.decision() != Decision::Undecided => "take".to_owned(),
            _ if !one.keeps_up() => "falls behind".to_owned(),
            (_, Some(BoundAnswer::Missed)) => "misses the bound".to_owned(),
            (_, Some(_)) => "bound not shown".to_owned(),
            _ if is_best && answer.cell.decision() == Decision::Undecided => "undecided".to_owned(),
            _ if is_best => "equal".to_owned(),
            _ => String::new(),
        }
    };
    let settings = |one: &Candidate| safe(&settings(&one.way.settings));
    Table::of(&answer.candidates)
        .left("path", move |one| {
            let mark = if one.marked { MARK } else { "" };
            format!("{}{mark}{}{}", one.way.path, if one.on_front { " *" } else { "" }, settings(one))
        })
        .right("numjobs", |one| one.way.numjobs.to_string())
        .right("iodepth", |one| one.way.iodepth.to_string())
        .right("trials", |one| one.replicates.to_string())
        .right("IOPS", |one| thousands(one.iops))
        .right(format!("{percentile} us"), move |one| {
            one.tail.as_ref().map_or_else(dash, |tail| decimal(tail.ns / 1e3))
        })
        .right("at most", move |one| {
            let upper = one.tail.as_ref().and_then(|tail| tail.upper());
            upper.map_or_else(dash, |(upper, _)| decimal(upper / 1e3))
        })
        .right(cost_text(advice.cost).0, move |one| {
            one.cost.map_or_else(dash, |cost| cost_text(advice.cost).1(cost.mean))
        })
        .left("answer", state)
}

#[cfg(test)]
mod tests;
