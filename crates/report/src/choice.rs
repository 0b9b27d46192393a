//! What to choose, in sentences: the beginning of the report and of the page. `analysis::choice` decides.

use super::answer::open_words;
use super::number::{decimal, four_digits, thousands, without_zeros};
use super::text::{WIDTH, escape, short_name, wrap};
use super::titles::Titles;
use iopj_analysis::Admission;
use iopj_analysis::admission::{Barred, MARK};
use iopj_analysis::answer::{More, Open};
use iopj_analysis::choice::{Choice, Choices, Lead, Out, Standing, choices};
use iopj_analysis::figure;
use iopj_analysis::grouping::{ascending, grouped, list};
use iopj_analysis::metric::Metric;
use iopj_analysis::winner::{Decision, RankedPath};
use iopj_analysis::without_unsteady::CellDecision;
use iopj_core::{IoPath, Spinner};
use iopj_record::{StudyRecord, Trial};

/// A path that does this much less than the best one, or takes this much more, is one to avoid.
const AVOID: f64 = 0.2;

/// At most this many sets of workloads are printed on a terminal.
const MOST: usize = 12;

/// What a store decides, in sentences.
pub(super) struct Decided {
    /// Workloads with the same answer, and the answer.
    pub(super) groups: Vec<Advice>,
    /// Paths that the answers are not about, and why; or why there is no answer.
    pub(super) notes: Vec<String>,
}

/// The answer under some workloads.
pub(super) struct Advice {
    /// Which workloads.
    pub(super) workloads: String,
    /// The first sentence is what to choose.
    pub(super) sentences: Vec<String>,
}

/// What these trials decide, in sentences.
pub(super) fn decided(study: &StudyRecord, trials: &[Trial], admission: Admission) -> Decided {
    let found = choices(study, trials, admission);
    let labels = Labels::of(trials, admission.of(study));
    let groups = grouped(found.all.iter().map(|choice| (shape(choice), choice)));
    let titles = Titles::of(&found);
    let advice = |(_, alike): (_, Vec<&Choice>)| Advice {
        workloads: titles.of_group(&alike),
        sentences: sentences(&alike, &labels),
    };
    if found.all.is_empty() {
        return Decided { groups: Vec::new(), notes: vec![why_none(study, trials, admission.of(study))] };
    }
    let mut notes: Vec<String> = Vec::new();
    let (none, all) = (found.setups - found.all.len() - found.uncounted, found.setups);
    if none > 0 {
        notes.push(format!("No path competes in {none} of {all} workloads."));
    }
    if found.uncounted > 0 {
        let uncounted = found.uncounted;
        notes.push(format!(
            "No instructions were counted in {uncounted} of {all} workloads, so no path is chosen there."
        ));
    }
    notes.extend(starved(&found));
    notes.extend(found.out.iter().map(|out| out_of_it(out, found.setups)));
    Decided { groups: groups.into_iter().map(advice).collect(), notes }
}

/// The same for a terminal.
pub(super) fn text(decided: &Decided) -> String {
    let mut text = String::from("Decision\n");
    for Advice { workloads, sentences } in decided.groups.iter().take(MOST) {
        text += &wrap(&format!("{}:", escape(workloads)), WIDTH, "  ");
        text += &wrap(&escape(&sentences.join(" ")), WIDTH, "    ");
    }
    if decided.groups.len() > MOST {
        let more = decided.groups.len() - MOST;
        text += &format!("  and {more} more: iopj report STORE --html FILE shows them all\n");
    }
    let mark = if decided.groups.is_empty() { "" } else { "* " };
    text.extend(decided.notes.iter().map(|note| wrap(&format!("{mark}{}", escape(note)), WIDTH, "  ")));
    text
}

/// Why there is no answer.
fn why_none(study: &StudyRecord, trials: &[Trial], admission: Admission) -> String {
    if trials.is_empty() {
        return "This store holds no trials: iopj run --resume STORE runs them.".to_owned();
    }
    if trials.iter().any(|trial| admission.admit(trial).is_ok()) {
        let emulator = study.emulated.as_deref().unwrap_or("an emulator");
        return format!(
            "No path is chosen: times mean nothing under {emulator}, and no instructions were counted."
        );
    }
    let lax = Admission { with_unproven: true, ..admission };
    let would = trials.iter().any(|trial| lax.admit(trial).is_ok());
    match admission.why_none_competes(trials).filter(|_| would) {
        Some(why) => format!("No path is chosen: {}.", why.trim_start_matches("nothing is ranked: ")),
        None => "No trial is valid: all of them were refuted, failed or incomplete, so no path is chosen."
            .to_owned(),
    }
}

/// What makes the answers of two workloads the same: by each metric, what is decided, and between which
/// paths, and the same without the unsteady trials if that is something else.
type Shape = Vec<(Metric, Decision, Vec<IoPath>)>;

fn shape(choice: &Choice) -> Shape {
    let of = |standing: &Standing| {
        let paths = ascending(standing.cell.best().iter().map(|place| place.path));
        let without = standing.without_unsteady.clone();
        let without = without.map(|(decision, paths)| (standing.metric, decision, paths));
        std::iter::once((standing.metric, standing.decision(), paths)).chain(without)
    };
    std::iter::once(&choice.first).chain(&choice.others).flat_map(of).collect()
}

/// The answer to workloads that have the same.
fn sentences(alike: &[&Choice], labels: &Labels) -> Vec<String> {
    let mut sentences = vec![lead(&alike.iter().map(|one| &one.first).collect::<Vec<_>>(), alike, labels)];
    sentences.extend(cpu(alike, labels));
    sentences.extend(behind(alike, labels));
    for at in 0..alike[0].others.len() {
        let others: Vec<&Standing> = alike.iter().map(|one| &one.others[at]).collect();
        sentences.push(lead(&others, alike, labels));
    }
    sentences
}

/// How a metric's values and differences are said.
struct Words {
    /// Before an answer by it.
    by: String,
    /// A value.
    value: fn(f64) -> String,
    /// What it counts; empty for a time.
    noun: &'static str,
    /// What the best has more or less of.
    better: &'static str,
    worse: &'static str,
}

fn words(standing: &Standing) -> Words {
    let (more, fewer) = (["more", "fewer"], ["fewer", "more"]);
    let (by, value, noun, [better, worse]): (_, fn(f64) -> String, _, _) = match standing.metric {
        Metric::Iops => (String::new(), |iops| format!("{} IOPS", thousands(iops)), " IOPS", more),
        Metric::IosPerJoule => {
            let source = standing.source.as_ref().map_or(String::new(), |source| format!(" ({source})"));
            (
                format!("By energy{source} "),
                |value| format!("{} I/Os per joule", decimal(value)),
                " I/Os per joule",
                more,
            )
        }
        Metric::Instructions(_) => (
            "By instructions ".to_owned(),
            |value| format!("{} instructions per I/O", thousands(value)),
            " instructions per I/O",
            fewer,
        ),
        metric if metric.is_figure() => {
            (format!("By {} ", figure::title(metric, standing.figure.as_ref())), four_digits, "", more)
        }
        time => (format!("By {} ", time.title()), us, "", ["less", "more"]),
    };
    Words { by, value, noun, better, worse }
}

fn us(ns: f64) -> String {
    format!("{} us", decimal(ns / 1e3))
}

/// What is decided by one metric under workloads with the same answer.
fn lead(standings: &[&Standing], alike: &[&Choice], labels: &Labels) -> String {
    let (first, words) = (standings[0], words(standings[0]));
    let places = first.cell.best();
    let names = || list(&places.iter().map(|place| labels.short(place.path)).collect::<Vec<_>>());
    let best = labels.short(places[0].path);
    let only = (standings.len() == 1).then_some(places[0]);
    let value = only.map(|place| figure(place, first, alike[0]));
    let said = match first.decision() {
        Decision::Wins => {
            let by_how_much = match (&value, first.lead(), first.cell.ranking.get(1)) {
                (Some(value), lead, Some(next)) => {
                    format!(
                        "{value}{}",
                        lead.map_or(String::new(), |lead| over_next(&lead, &words, &labels.short(next.path)))
                    )
                }
                _ => of_several(standings, &words),
            };
            format!("{best} wins: {by_how_much}")
        }
        Decision::Equal => {
            let at = value.map_or(String::new(), |value| format!(" at {value}"));
            format!("nothing separates {}: equal within {}{at}", names(), percent(first.tolerance))
        }
        Decision::Undecided => format!("undecided between {}{}", names(), open(standings, alike, labels)),
        Decision::Alone | Decision::Empty => {
            format!("only {best} competes{}", value.map_or(String::new(), |value| format!(": {value}")))
        }
    };
    let elsewhere = winner_elsewhere(standings, alike, labels);
    let without = first.without_unsteady.as_ref().map_or(String::new(), |one| without_unsteady(one, labels));
    capital(&format!("{}{said}{elsewhere}{without}.", words.by))
}

/// What is decided without the trials whose rate changed, where that is something else.
fn without_unsteady((decision, paths): &CellDecision, labels: &Labels) -> String {
    let names = list(&paths.iter().map(|path| labels.short(*path)).collect::<Vec<_>>());
    let said = match decision {
        Decision::Wins => format!("{names} wins"),
        Decision::Equal => format!("nothing separates {names}"),
        Decision::Undecided => format!("undecided between {names}"),
        Decision::Alone => format!("only {names} competes"),
        Decision::Empty => "no path competes".to_owned(),
    };
    format!(" (without its unsteady trials: {said})")
}

/// The best path's value; with I/Os per second also their mean latency, which is the same answer.
fn figure(place: &RankedPath, standing: &Standing, choice: &Choice) -> String {
    let value = (words(standing).value)(place.summary.mean);
    let latency = choice.latency_ns.filter(|_| standing.metric == Metric::Iops);
    value + &latency.map_or(String::new(), |ns| format!(" at {} on average", us(ns)))
}

fn over_next(Lead { share, low, high }: &Lead, words: &Words, next: &str) -> String {
    let between = match [low, high].map(|one| percent(*one)) {
        // So narrow that the least and the greatest look the same.
        [a, b] if a == b => [low, high].map(|one| format!("{:.1} %", 100.0 * one)),
        bounds => bounds,
    };
    let [low, high] = between;
    format!(", {} {} than {next} (between {low} and {high})", percent(*share), words.better)
}

/// By how much a path wins under several workloads.
fn of_several(standings: &[&Standing], words: &Words) -> String {
    let leads: Vec<f64> = standings.iter().filter_map(|one| Some(one.lead()?.share)).collect();
    let Words { better, noun, .. } = words;
    match range(&leads) {
        Some(range) => format!("{range} {better}{noun} than the next path"),
        None => format!("{better}{noun} than the next path"),
    }
}

/// Two paths that nothing separates: the best of a workload and another one.
struct Pair<'a> {
    standing: &'a Standing,
    choice: &'a Choice,
    best: &'a RankedPath,
    other: &'a RankedPath,
    open: Open,
}

impl<'a> Pair<'a> {
    /// All of them that are undecided under a workload.
    fn all_of(standing: &'a Standing, choice: &'a Choice) -> impl Iterator<Item = Pair<'a>> {
        let places = standing.cell.best();
        let best = places[0];
        let pair = move |other: &'a RankedPath| Pair {
            standing,
            choice,
            best,
            other,
            open: Open::of(other.contrast.as_ref()),
        };
        // Of equally hard ones the first counts, and `max_by_key` takes the last.
        places.into_iter().skip(1).rev().map(pair)
    }

    /// The one of the two that was starved.
    fn starved(&self) -> Option<&RankedPath> {
        let is_starved =
            |place: &&RankedPath| self.choice.starved.iter().any(|(path, _)| *path == place.path);
        [self.other, self.best].into_iter().find(is_starved)
    }

    /// What would decide.
    fn words(&self, labels: &Labels) -> String {
        let name = |place: &RankedPath| labels.short(place.path);
        if let Some(starved) = self.starved() {
            let name = name(starved);
            return format!(
                "{name} was starved, so it takes a core of its own to decide, not more replicates"
            );
        }
        let (few, many) =
            if self.best.summary.n < 2 { (self.best, self.other) } else { (self.other, self.best) };
        if self.open.more == More::Untested && (few.summary.n < 2 || self.standing.cell.left_out.unpaired > 0)
        {
            return format!(
                "there are fewer than two replicates in which {} and {} both count, too few for a test",
                name(few),
                name(many)
            );
        }
        open_words(&self.open)
    }
}

/// What is known where nothing is decided: of the pair that would take the most to decide. More replicates
/// help no path that was starved, so pairs without one come first.
fn open(standings: &[&Standing], alike: &[&Choice], labels: &Labels) -> String {
    let all: Vec<Pair<'_>> =
        standings.iter().zip(alike).flat_map(|(standing, choice)| Pair::all_of(standing, choice)).collect();
    let rank = |pair: &&Pair<'_>| (pair.starved().is_none(), pair.open.more);
    let Some(pair) = all.iter().max_by_key(rank) else { return String::new() };
    if all.iter().all(|pair| [pair.best, pair.other].iter().all(|place| place.summary.n < 2)) {
        return ": single replicates cannot be tested; run with --replicates 5 or more".to_owned();
    }
    let words = pair.words(labels);
    if all.len() == 1 {
        return format!(": {words}");
    }
    let title = pair.choice.setup.workload.title();
    let at = if standings.len() > 1 { format!(" under {title}") } else { String::new() };
    let [best, other] = [pair.best, pair.other].map(|place| labels.short(place.path));
    format!(". {best} over {other}{at}: {words}")
}

/// Where another metric answers differently: how much worse the first answer's winner is by it.
fn winner_elsewhere(standings: &[&Standing], alike: &[&Choice], labels: &Labels) -> String {
    let first = &alike[0].first;
    if standings[0].metric == first.metric || first.decision() != Decision::Wins {
        return String::new();
    }
    let winner = first.cell.ranking[0].path;
    let worse = |standing: &&Standing| {
        let place = standing.cell.ranking.iter().skip(1).find(|place| place.path == winner)?;
        place.differs().then(|| standing.behind(place))
    };
    // The next path is in the sentence.
    let is_next = standings.len() == 1
        && standings[0].decision() == Decision::Wins
        && standings[0].cell.ranking.get(1).is_some_and(|place| place.path == winner);
    let shares: Option<Vec<f64>> = standings.iter().map(worse).collect();
    match shares.filter(|_| !is_next).and_then(|shares| range(&shares)) {
        Some(range) => {
            let Words { worse, noun, .. } = words(standings[0]);
            format!("; {} has {range} {worse}{noun}", labels.short(winner))
        }
        None => String::new(),
    }
}

/// The paths that differ significantly from the best under each of these workloads in which they compete: the
/// ones to avoid, and the ones that are a little worse. Starved ones are no answer, and a winner's next is
/// already named.
fn behind(alike: &[&Choice], labels: &Labels) -> Vec<String> {
    let is_next_named = alike.len() == 1 && alike[0].first.decision() == Decision::Wins;
    let shares = |choice: &&Choice| -> Vec<(IoPath, Option<f64>)> {
        let is_starved = |path| choice.starved.iter().any(|(starved, _)| *starved == path);
        let places = choice.first.cell.ranking.iter().skip(if is_next_named { 2 } else { 0 });
        places
            .filter(|place| !is_starved(place.path))
            .map(|place| (place.path, place.differs().then(|| choice.first.behind(place))))
            .collect()
    };
    let competing = grouped(alike.iter().flat_map(shares)).into_iter();
    let of_all = competing
        .filter_map(|(path, shares)| Some((path, shares.into_iter().collect::<Option<Vec<f64>>>()?)));
    let (avoid, close): (Vec<_>, Vec<_>) =
        of_all.partition(|(_, shares)| shares.iter().all(|share| *share >= AVOID));
    let Words { worse, noun, .. } = words(&alike[0].first);
    let part = |at: usize, (path, shares): &(IoPath, Vec<f64>), form: fn(&str, &str) -> String| {
        let noun = if at == 0 { noun } else { "" };
        let in_some = in_some(shares.len(), alike.len());
        let worse = format!("{} {worse}{noun}{in_some}", range(shares).unwrap_or_default());
        form(&labels.short(*path), &worse)
    };
    let all = |of: &[(IoPath, Vec<f64>)], form: fn(&str, &str) -> String| {
        let parts: Vec<String> = of.iter().enumerate().map(|(at, one)| part(at, one, form)).collect();
        (!parts.is_empty()).then(|| list(&parts))
    };
    let close = all(&close, |name, worse| format!("{name} does {worse}")).map(|close| close + ".");
    let avoid = all(&avoid, |name, worse| format!("{name} ({worse})")).map(|avoid| format!("Avoid {avoid}."));
    close.map(|close| capital(&close)).into_iter().chain(avoid).collect()
}

/// Which of the paths that nothing separates takes much less CPU.
fn cpu(alike: &[&Choice], labels: &Labels) -> Option<String> {
    let pairs: Vec<[(IoPath, f64); 2]> = alike.iter().map(|one| one.cpu).collect::<Option<_>>()?;
    let [(least, _), (most, _)] = pairs[0];
    let same = pairs.iter().all(|[few, many]| (few.0, many.0) == (least, most));
    let range = |at: usize| range(&pairs.iter().map(|pair| pair[at].1 / 100.0).collect::<Vec<_>>());
    let (least_cpu, most_cpu) = (range(0)?, range(1)?);
    let [few, many] = [least, most].map(|path| labels.short(path));
    same.then(|| match alike[0].first.decision() {
        Decision::Wins => format!("It takes {most_cpu} of a core; {few} takes {least_cpu}."),
        _ => format!("Of these, {few} takes the least CPU, {least_cpu} of a core; {many} takes {most_cpu}."),
    })
}

/// The paths that were starved, each with the worst of its trials.
fn starved(found: &Choices) -> Vec<String> {
    let all = grouped(
        found
            .all
            .iter()
            .flat_map(|choice| choice.starved.iter().map(move |(path, spinner)| (*path, (choice, spinner)))),
    );
    let words = |(path, where_): &(IoPath, Vec<(&Choice, &Spinner)>)| {
        let worst = where_.iter().map(|(_, spinner)| spinner).max_by(|a, b| a.waited.total_cmp(&b.waited))?;
        let behind: Vec<f64> = where_
            .iter()
            .filter_map(|(choice, _)| {
                let place = choice.first.cell.ranking.iter().find(|place| place.path == *path)?;
                place.differs().then(|| choice.first.behind(place))
            })
            .collect();
        let Words { worse, noun, .. } = words(&where_[0].0.first);
        let by = range(&behind).map_or(String::new(), |range| format!(" ({range} {worse}{noun})"));
        Some(format!(
            "{} was starved{}{by}: {worst}. Give it a core of its own before you judge it.",
            path,
            in_some(where_.len(), found.setups)
        ))
    };
    all.iter().filter_map(words).collect()
}

/// Paths that do not compete, and why.
fn out_of_it(out: &Out, setups: usize) -> String {
    let names = list(&out.paths.iter().map(IoPath::to_string).collect::<Vec<_>>());
    let (be, have) = if out.paths.len() == 1 { ("was", "has") } else { ("were", "have") };
    let what = match out.why {
        Barred::Failed => "failed".to_owned(),
        Barred::Incomplete => format!("{be} incomplete"),
        Barred::Unproven => format!("{have} no proof of the path taken"),
        Barred::Refuted | Barred::Disturbed => format!("{be} {}", out.why.as_str()),
    };
    let reason = if out.reason.is_empty() { String::new() } else { format!(": {}", out.reason) };
    format!("{names} {what}{}{reason}.", in_some(out.setups, setups))
}

/// In how many workloads, if not in all.
fn in_some(some: usize, all: usize) -> String {
    if some == all { String::new() } else { format!(" in {some} of {all} workloads") }
}

/// Paths as they are named: with a mark if they compete without proof.
struct Labels {
    marked: Vec<IoPath>,
}

impl Labels {
    fn of(trials: &[Trial], admission: Admission) -> Labels {
        let is_marked =
            |trial: &&Trial| admission.admit(trial).is_ok_and(|measurement| admission.is_marked(measurement));
        Labels { marked: ascending(trials.iter().filter(is_marked).map(|trial| trial.path)) }
    }

    fn short(&self, path: IoPath) -> String {
        short_name(&path) + if self.marked.contains(&path) { MARK } else { "" }
    }
}

/// `8 %`, or `8 % to 31 %`; `None` without shares.
fn range(shares: &[f64]) -> Option<String> {
    let (least, most) =
        shares.iter().fold((f64::MAX, f64::MIN), |(a, b), share| (a.min(*share), b.max(*share)));
    let (least, most) = (!shares.is_empty()).then(|| (percent(least), percent(most)))?;
    Some(if least == most { least } else { format!("{least} to {most}") })
}

/// A share in per cent, of small and nearly whole ones with one decimal.
fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    let decimals = usize::from(percent.abs() < 9.95 || (percent > 99.0 && percent < 100.0));
    format!("{} %", without_zeros(&format!("{percent:.decimals$}")))
}

/// A text with a capital letter at its start, unless that is a path's name.
fn capital(text: &str) -> String {
    let first_word = text.split([' ', ':']).next().unwrap_or_default();
    let is_word = ["nothing", "undecided", "only", "by"].contains(&first_word);
    if !is_word {
        return text.to_owned();
    }
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests;
