//! Claims as text: the answer to each, its parts with the figures that decide them, and what would decide the
//! rest.

use super::number::{exact, or_dash, percent, significant};
use super::table::Table;
use super::text::{WIDTH, escape, wrap};
use iopj_analysis::admission::{LEGEND, MARK};
use iopj_analysis::grouping::unique;
use iopj_analysis::stats::{Ratio, p_text};
use iopj_papers::claims::{Answer, Claim, ClaimFigure, Part, PartsDecided};
use iopj_papers::published::Paper;

/// The claims that the store says something about, under their papers, and one line that names the others.
/// With `all` the others too are shown whole.
pub fn claims(claims: &[Claim], all: bool) -> String {
    let (silent, shown): (Vec<&Claim>, Vec<&Claim>) =
        claims.iter().partition(|claim| claim.is_silent() && !all);
    let mut text = summary(claims);
    let mut paper: Option<Paper> = None;
    for claim in &shown {
        if paper != Some(claim.paper) {
            text += &format!("\n{}\n", claim.paper.citation());
            paper = Some(claim.paper);
        }
        text.push('\n');
        text += &one(claim);
    }
    text += &folded(&silent);
    for lack in unique(claims.iter().flat_map(|claim| &claim.energy_lacks)) {
        text += &wrap(&format!("energy: {}", escape(lack)), WIDTH, "");
    }
    if shown.is_empty() {
        return text;
    }
    text += "\nDecided from trials that compete, by the t-test within blocks (of imports by Welch's), of \
             percentiles and geometric means by\ntheir logarithms, by two one-sided tests, or, of fixed \
             parts, by the t-test of two estimates of a fit, at 5 %, after Holm's\ncorrection over the \
             comparisons of a claim, or over what is reported separately. `ratio` is the first figure over \
             the\nsecond with its 95 % interval, `could see` the least difference that would have been seen \
             four times out of five. Measured\nfigures are means over replicates, or fixed parts of a fit, \
             with their 95 % interval. Published figures are the papers', from their machines.\n";
    if let Some(looks) = claims.first().map(|claim| claim.looks).filter(|looks| *looks > 1) {
        text += &format!(
            "The blocks were added until decisions were made: every p-value is multiplied by the {looks} \
             looks that there may be.\n"
        );
    }
    if claims.iter().any(|claim| claim.marked) {
        text += &wrap(LEGEND, WIDTH, "");
    }
    text
}

/// The claims that the store says nothing about: how many, which, and how to see what each lacks.
fn folded(silent: &[&Claim]) -> String {
    if silent.is_empty() {
        return String::new();
    }
    let names: Vec<&str> = silent.iter().map(|claim| claim.id).collect();
    let (are, each) = if names.len() == 1 { ("is", "it") } else { ("are", "each") };
    let text = format!(
        "{} {are} not measured by this store: {}. --all says what {each} lacks and which study would decide \
         it.",
        names.len(),
        names.join(", ")
    );
    format!("\n{}", wrap(&text, WIDTH, ""))
}

const IN_PART: &str = "decided in part";

/// A claim's answer in one or two words.
fn word(claim: &Claim) -> &'static str {
    if claim.decided_in_part().is_some() { IN_PART } else { claim.answer.as_str() }
}

/// A claim's answer in words, with the number of its parts that are decided if not all are.
pub(super) fn answer(claim: &Claim) -> String {
    match claim.decided_in_part() {
        Some(PartsDecided { decided, all }) => {
            let hold = if decided == 1 { "holds" } else { "hold" };
            format!("{IN_PART}: {decided} of {all} parts {hold}")
        }
        None => claim.answer.as_str().to_owned(),
    }
}

fn summary(claims: &[Claim]) -> String {
    let count = |of: &str| claims.iter().filter(|claim| word(claim) == of).count();
    let words = ["holds", "does not hold", IN_PART, "undecided", "not measured"];
    format!("{} claims: {}\n", claims.len(), words.map(|word| format!("{word} {}", count(word))).join(", "))
}

fn one(claim: &Claim) -> String {
    let mark = if claim.marked { MARK } else { "" };
    let mut text = format!("{}: {}{mark}\n", claim.id, answer(claim));
    text += &wrap(claim.text, WIDTH, "  ");
    if let Answer::NotMeasured(missing) = &claim.answer {
        for need in missing {
            text += &wrap(&format!("missing: {}", escape(need)), WIDTH, "    ");
        }
    }
    let (apart, counting): (Vec<&Part>, Vec<&Part>) = claim.parts.iter().partition(|part| part.apart);
    text += &parts(&counting);
    if !apart.is_empty() {
        text += "  reported separately, not part of the answer:\n";
        text += &parts(&apart);
    }
    for place in claim.published.chunk_by(|a, b| a.place == b.place) {
        let figures: Vec<String> =
            place.iter().map(|one| format!("{} {} {}", one.what, exact(one.value), one.unit)).collect();
        text += &wrap(&format!("published ({}): {}", place[0].place, figures.join("; ")), WIDTH, "    ");
    }
    if claim.left_out.total() > 0 {
        text += &format!("    trials left out: {}\n", claim.left_out.text());
    }
    if let Some(source) = &claim.energy {
        let proxy =
            if claim.proxy { ": less than the whole machine, a proxy that decides nothing" } else { "" };
        text += &wrap(&format!("energy: {}{proxy}", escape(&source.to_string())), WIDTH, "    ");
    }
    if let Some(note) = claim.note {
        text += &wrap(note, WIDTH, "    ");
    }
    if let Some(run) = &claim.run {
        text += &format!("    to decide the rest: {run}\n");
    }
    text
}

/// A table for each workload, and why parts without a p-value are undecided.
fn parts(parts: &[&Part]) -> String {
    let mut text = String::new();
    for same in parts.chunk_by(|a, b| a.at == b.at) {
        if !same[0].at.is_empty() {
            text += &format!("  {}\n", escape(&same[0].at));
        }
        text += &part_table(same);
    }
    let reasons = unique(parts.iter().filter_map(|part| match &part.answer {
        Answer::Undecided(why) if part.p.is_none() => Some(why),
        _ => None,
    }));
    text.extend(reasons.iter().map(|why| wrap(&format!("* undecided: {}", escape(why)), WIDTH, "    ")));
    text
}

fn part_table(parts: &[&Part]) -> String {
    Table::of(parts)
        .left("", |part| part.answer.as_str().to_owned())
        .left("part", |part| part.text.clone())
        .left("measured", |part| against(&part.figures, measured))
        .left("ratio", |part| or_dash(part.effect.and_then(|one| one.ratio), ratio))
        .right("could see", |part| or_dash(part.effect.and_then(|one| one.least), percent))
        .right("p", |part| or_dash(part.p, |p| p_text(p, 3)))
        .left("published", |part| against(&part.figures, |one| or_dash(one.published, exact)))
        .text()
}

/// The figures of both sides, or `-` if neither has any.
fn against(figures: &[ClaimFigure], text: impl Fn(&ClaimFigure) -> String) -> String {
    let texts: Vec<String> = figures.iter().map(text).collect();
    if texts.iter().all(|text| text == "-") { "-".to_owned() } else { texts.join(" / ") }
}

fn measured(figure: &ClaimFigure) -> String {
    let Some(mean) = figure.mean else { return "-".to_owned() };
    let spread =
        figure.interval.map_or(String::new(), |(_, high)| format!(" ± {}", significant(high - mean)));
    format!("{}{spread} {}", significant(mean), figure.unit).trim_end().to_owned()
}

fn ratio(Ratio { ratio, low, high }: Ratio) -> String {
    format!("{ratio:.3} ({low:.3} to {high:.3})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_papers::claims::{ClaimContext, decide};

    #[test]
    fn an_empty_store_says_what_is_missing_and_what_to_run() {
        let text = claims(&decide(&[], &ClaimContext { cores: 4, ..ClaimContext::default() }), true);
        assert!(
            text.starts_with(
                "21 claims: holds 0, does not hold 0, decided in part 0, undecided 0, not measured 21\n"
            ),
            "{text}"
        );
        assert!(text.contains(
            "missing: posix-sio/syscall/poll, randread 4k iodepth 1 numjobs 8 (no trial; 3 verified needed)"
        ));
        assert!(text.contains("to decide the rest: iopj run studies/poll22.toml --bs 4k --numjobs 1,8\n"));
        assert!(text.contains("published (Abstract): throughput gained by interrupt moderation 42.5 %;"));
        assert!(!text.contains("NaN") && !text.contains("inf") && !text.contains("looks"), "{text}");
    }

    #[test]
    fn claims_that_the_store_says_nothing_about_are_one_line() {
        let text = claims(&decide(&[], &ClaimContext { cores: 4, ..ClaimContext::default() }), false);
        let (first, rest) = text.split_once('\n').unwrap();
        assert!(first.ends_with("not measured 21"), "{text}");
        assert!(rest.starts_with("\n21 are not measured by this store: poll22-1, poll22-2,"), "{text}");
        let flat = rest.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.ends_with("--all says what each lacks and which study would decide it."), "{text}");
        assert!(text.lines().count() <= 6 && !text.contains("missing:"), "{text}");
    }

    #[test]
    fn a_claim_with_some_parts_decided_says_how_many() {
        let part = |answer| Part {
            text: "a < b".to_owned(),
            at: String::new(),
            answer,
            figures: Vec::new(),
            p: None,
            effect: None,
            apart: false,
        };
        let missing = || Answer::NotMeasured(vec!["libaio".to_owned()]);
        let open = |answer, parts: Vec<Answer>| {
            let mut claim = decide(&[], &ClaimContext::default()).remove(0);
            (claim.answer, claim.parts) = (answer, parts.into_iter().map(part).collect());
            claim
        };
        let claim = open(missing(), vec![Answer::Holds, missing(), Answer::Holds]);
        let text = claims(&[claim], false);
        assert!(text.contains("\npoll22-1: decided in part: 2 of 3 parts hold\n"), "{text}");
        assert!(text.starts_with("1 claims: holds 0, does not hold 0, decided in part 1,"), "{text}");
        // One part that does not hold decides the whole claim.
        let claim = open(Answer::DoesNotHold, vec![Answer::Holds, Answer::DoesNotHold]);
        assert!(claims(&[claim], false).contains("\npoll22-1: does not hold\n"));
        let claim = open(missing(), vec![missing()]);
        assert!(claim.is_silent() && claims(&[claim], false).contains("1 is not measured"));
    }

    #[test]
    fn looks_are_mentioned_if_there_was_more_than_one() {
        let decided = |looks| decide(&[], &ClaimContext { cores: 4, looks, ..ClaimContext::default() });
        assert!(claims(&decided(7), true).contains("every p-value is multiplied by the 7 looks"));
        let json = |looks| serde_json::to_value(&decided(looks)[0]).unwrap();
        assert_eq!((json(7)["looks"].as_u64(), json(1).get("looks")), (Some(7), None));
    }
}
