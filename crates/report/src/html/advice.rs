//! The page's first section: which way to take at each load, and what to type for it.

use super::model::Model;
use super::text::escape;
use crate::advise::{Said, baselines, between, heading, said, table};
use crate::advise_highest::table as highest_table;
use iopj_analysis::advise::{Advice, Answer, Group, Step};

/// If there are more answers than this, all but what to take is folded.
const OPEN_ANSWERS: usize = 3;

/// If there are more, only what to take is said.
const DETAILED_ANSWERS: usize = 12;

/// The advice of a store; empty if it can give none.
pub(super) fn section(model: &Model<'_>) -> String {
    let Some(advice) = &model.advice else { return String::new() };
    let all: usize = advice.groups.iter().map(|group| group.answers.len()).sum();
    let group = |group: &Group| {
        let heading = escape(&heading(advice, group, &model.question));
        let between = between(group).map_or(String::new(), |words| format!("<p>{}</p>", escape(&words)));
        let answers: String =
            group.answers.iter().map(|one| answer(model, advice, (group, one), all)).collect();
        format!("<h3>{heading}</h3>{between}{answers}")
    };
    let groups: String = advice.groups.iter().map(group).collect();
    let left_out = baselines(advice).map_or(String::new(), |line| format!("<p>{}</p>", escape(&line)));
    format!(
        "<section id=\"advice\"><h2>Advice</h2>{groups}{left_out}<p class=\"note\">* on the Pareto front: \
         no way that keeps up has both a lower latency and a better cost. At most: the upper 95 % \
         confidence limit. A bound is met only if that limit meets it. <code>iopj advise STORE --rate \
         IOPS --p99 TIME</code> asks for one load and bound.</p></section>"
    )
}

fn answer(model: &Model<'_>, advice: &Advice, (group, answer): (&Group, &Answer), all: usize) -> String {
    let Said { load, lead, rest } = said(group, answer, &model.question);
    let lead = format!("<p>{} <b>{}</b></p>", escape(&load), escape(&lead));
    if all > DETAILED_ANSWERS {
        return lead;
    }
    let rest: String = rest.iter().map(|sentence| format!("<p>{}</p>", escape(sentence))).collect();
    let table = match &group.highest {
        Some(highest) => highest_table(advice, highest, answer, escape).html("What each way carries", false),
        None => table(advice, answer, escape).html("Ways at this load", false),
    };
    let recipe: String = answer.recipe.iter().map(step).collect();
    let recipe = if recipe.is_empty() { recipe } else { format!("<h4>What to type</h4>{recipe}") };
    format!(
        "{lead}<details{}><summary>Ways, reasons, what to type</summary>{table}{rest}{recipe}</details>",
        if all <= OPEN_ANSWERS { " open" } else { "" }
    )
}

fn step(Step { place, lines, note }: &Step) -> String {
    let note = if note.is_empty() { String::new() } else { format!(" \u{2013} {}", escape(note)) };
    format!("<p>{}{note}</p><pre tabindex=\"0\">{}</pre>", escape(place), escape(&lines.join("\n")))
}
