//! The page of a study around its figures: title, summary in words, tables, provenance, and what is missing.

use super::advice;
use super::energy;
use super::figure::Section;
use super::frame;
use super::model::Model;
use super::svg::swatch;
use super::text::{capital, escape, plural};
use super::unsteady;
use crate::choice::{Advice, Decided, decided};
use crate::claims::answer;
use crate::emulated::{self, banner};
use crate::number::thousands;
use crate::repeats;
use crate::report::by_reason;
use crate::table::Table;
use iopj_analysis::Admission;
use iopj_analysis::admission::{LEGEND, MARK};
use iopj_analysis::metric::Metric;
use iopj_analysis::noise::Noise;
use iopj_papers::claims::{Answer, Claim, ClaimContext, decide};
use iopj_record::{Outcome, StudyRecord, Trial, Unavailable};
use std::fmt::Write;

/// If there are more answers than this, they are not in large type.
const LARGE_ANSWERS: usize = 4;

pub(super) fn page(study: &StudyRecord, trials: &[Trial], model: &Model<'_>, sections: &[Section]) -> String {
    let mut html = frame::head(&study.name);
    html += &title_block(study, model);
    if let Some(emulator) = model.emulated {
        let _ = write!(html, "<p class=\"banner\" role=\"note\">{}</p>", escape(&capital(&banner(emulator))));
    }
    let missing = missing(model, sections);
    let advice = advice::section(model);
    let extra = [!advice.is_empty(), !missing.is_empty()];
    html += &contents(sections, study, extra);
    html += "<main id=\"main\">";
    html += &advice;
    html += &summary(study, model);
    for section in sections {
        html += &frame::section(section);
    }
    html += &claims_section(study, trials, model.admission);
    html += &missing;
    html += &unavailable(&study.unavailable);
    html += &provenance(study);
    html + &frame::end(
        "Made by iopj from the study's store. This page is one file and loads nothing. Refuted trials are \
         kept in the store and left out of every figure and comparison; unproven and disturbed ones are \
         drawn and do not compete, unless asked for.",
    )
}

fn title_block(study: &StudyRecord, model: &Model<'_>) -> String {
    let fact = |name: &str| study.provenance.get(name).filter(|value| !value.is_empty());
    let place: Vec<String> = [
        Some(format!("target <code>{}</code>", escape(&study.target))),
        fact("devices").map(|devices| format!("on {}", escape(devices))),
        fact("kernel").map(|kernel| format!("Linux {}", escape(kernel))),
        fact("cpu_model").map(|cpu| escape(cpu)),
    ]
    .into_iter()
    .flatten()
    .collect();
    let sum = |of: fn(&super::model::SeriesCell<'_>) -> usize| model.cells.iter().map(of).sum::<usize>();
    let mut facts = vec![
        (format!("of {} trials", thousands(study.planned_trials as f64)), model.trials.len()),
        (plain("path", model.series.len()), model.series.len()),
        (plain("workload", model.workloads.len()), model.workloads.len()),
        ("verified".to_owned(), sum(|cell| cell.verified)),
        ("unproven".to_owned(), sum(|cell| cell.unproven)),
        ("refuted".to_owned(), sum(|cell| cell.refuted)),
    ];
    let seen = sum(|cell| cell.seen);
    if seen > 0 {
        // Nothing was asked of a program.
        facts.truncate(3);
        facts.push(("seen".to_owned(), seen));
    }
    let failed = sum(|cell| cell.failed);
    if failed > 0 {
        facts.push(("failed".to_owned(), failed));
    }
    let facts: String = facts
        .into_iter()
        .map(|(what, count)| format!("<li><b>{}</b> {what}</li>", thousands(count as f64)))
        .collect();
    format!(
        "<header><p class=\"over\">I/O path study</p><h1>{}</h1><p class=\"place\">{}</p><ul \
         class=\"facts\">{facts}</ul></header>",
        escape(&study.name),
        place.join(", ")
    )
}

fn plain(what: &str, count: usize) -> String {
    if count == 1 { what.to_owned() } else { format!("{what}s") }
}

fn contents(sections: &[Section], study: &StudyRecord, [advice, missing]: [bool; 2]) -> String {
    let mut links = if advice { vec![("advice", "Advice")] } else { Vec::new() };
    links.push(("summary", "Decision"));
    links.extend(sections.iter().map(|section| (section.id, section.heading)));
    links.push(("claims", "Claims"));
    links.extend(missing.then_some(("missing", "Not measured")));
    if !study.unavailable.is_empty() {
        links.push(("unavailable", "Not available"));
    }
    links.push(("provenance", "Provenance"));
    frame::contents(&links)
}

fn summary(study: &StudyRecord, model: &Model<'_>) -> String {
    let mut html = String::from("<section id=\"summary\"><h2>Decision</h2>");
    html += &decision(&decided(study, model.trials, model.admission));
    let planned = study.planned_trials as usize;
    if !model.trials.is_empty() && model.trials.len() < planned {
        let _ = write!(
            html,
            "<p class=\"warning\">{} of the plan are not done yet: <code>iopj run --resume STORE</code> \
             does them.</p>",
            plural(planned - model.trials.len(), "trial")
        );
    }
    for sentence in repeats::sentences(study) {
        let _ = write!(html, "<p>{}.</p>", escape(&capital(&sentence)));
    }
    for warning in &study.warnings {
        let _ = write!(html, "<p class=\"warning\">Warning: {}</p>", escape(warning));
    }
    html += &energy::incomplete(model);
    html += &orders(model);
    html += &doubtful(model);
    if let Some(noise) = Noise::of(model.trials, model.admission) {
        let _ = write!(html, "<p class=\"note\">{}.</p>", escape(&capital(&noise.to_string())));
    }
    html += &unsteady::listed(model);
    html += &unsteady::without(study, model.trials, model.admission);
    html += &key(model);
    html + "</section>"
}

/// The sentences that the report on a terminal begins with.
fn decision(Decided { groups, notes }: &Decided) -> String {
    let class = if groups.len() <= LARGE_ANSWERS { " class=\"lead\"" } else { "" };
    let group = |Advice { workloads, sentences }: &Advice| {
        let (first, rest) = sentences.split_first().map_or(("", &[][..]), |(first, rest)| (first, rest));
        let rest =
            if rest.is_empty() { String::new() } else { format!("<p>{}</p>", sentence(&rest.join(" "))) };
        format!("<h3>{}</h3><p{class}>{}</p>{rest}", escape(workloads), sentence(first))
    };
    let groups: String = groups.iter().map(group).collect();
    let marked =
        if groups.contains(MARK) { format!("<p class=\"note\">{LEGEND}</p>") } else { String::new() };
    let groups = groups + &marked;
    match notes.iter().map(|note| format!("<li>{}</li>", sentence(note))).collect::<String>() {
        notes if notes.is_empty() => groups,
        notes => format!("{groups}<ul class=\"plain\">{notes}</ul>"),
    }
}

/// A sentence whose percentages are not broken across lines.
fn sentence(text: &str) -> String {
    escape(text).replace(" %", "\u{a0}%")
}

/// The orders of an emulated store's paths, by times that are not shown.
fn orders(model: &Model<'_>) -> String {
    let of = |workload: &&iopj_core::Workload| {
        let lines: Vec<String> = emulated::lines(model.trials, workload, model.admission)
            .iter()
            .map(|line| escape(line))
            .collect();
        let title = escape(&model.title(workload, &[]));
        (!lines.is_empty()).then(|| format!("<li><b>{title}</b><br>{}</li>", lines.join("<br>")))
    };
    let items: String = model.workloads.iter().filter(|_| model.emulated.is_some()).filter_map(of).collect();
    if items.is_empty() {
        return items;
    }
    let words = escape(emulated::CAVEAT);
    format!("<h3>Orders of paths, emulated</h3><p class=\"note\">{words}</p><ul class=\"plain\">{items}</ul>")
}

/// Why a trial is refuted, failed, unproven, disturbed or starved, with that word.
fn reason_for(word: &str, admission: Admission, outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Failed(error) => (word == "failed").then(|| error.clone()),
        Outcome::Measured(one) if word == "disturbed" => admission.disturbed(one),
        Outcome::Measured(one) if word == "starved" => admission.starved(one).map(ToString::to_string),
        Outcome::Measured(one) => (word == one.verdict.kind.as_str() && !one.verdict.kind.stands())
            .then(|| one.verdict.reasons.first().cloned().unwrap_or_default()),
    }
}

/// Paths with trials that are refuted, unproven, disturbed, starved or failed, each with one reason.
fn doubtful(model: &Model<'_>) -> String {
    let mut items = String::new();
    let mut by_series = vec![Vec::new(); model.series.len()];
    for trial in model.trials {
        model.series_of(trial).into_iter().for_each(|index| by_series[index].push(trial));
    }
    for word in ["refuted", "failed", "unproven", "disturbed", "starved"] {
        for (series, trials) in model.series.iter().zip(&by_series) {
            let reasons = trials.iter().map(|trial| reason_for(word, model.admission, &trial.outcome));
            let reasons: Vec<String> = reasons.flatten().collect();
            let Some(reason) = reasons.first() else { continue };
            let more = if reasons.iter().any(|other| other != reason) { "first reason: " } else { "" };
            let _ = write!(
                items,
                "<li><b>{}</b>: {} {word}. <span class=\"note\">{more}{}</span></li>",
                escape(&series.name),
                plural(reasons.len(), "trial"),
                escape(reason)
            );
        }
    }
    if items.is_empty() {
        return String::new();
    }
    format!("<h3>Trials in doubt</h3><ul class=\"plain\">{items}</ul>")
}

/// The mark of each path in the figures.
fn key(model: &Model<'_>) -> String {
    let row = |(index, one): (usize, &super::model::Series)| {
        format!("<li>{}{}: <code>{}</code></li>", swatch(index), escape(&one.label), escape(&one.name))
    };
    let rows: String = model.series.iter().enumerate().map(row).collect();
    if rows.is_empty() {
        rows
    } else {
        format!("<h3>Marks and names in the figures</h3><ul class=\"key\">{rows}</ul>")
    }
}

/// The papers' claims that this store decides, and the number that it does not.
fn claims_section(study: &StudyRecord, trials: &[Trial], admission: Admission) -> String {
    let claims = decide(trials, &ClaimContext::of(study, trials, admission));
    let mut html = String::from("<section id=\"claims\"><h2>Claims of the papers</h2>");
    let words = |claim: &Claim| match &claim.answer {
        Answer::Undecided(why) if claim.decided_in_part().is_none() => format!("undecided: {why}"),
        _ => answer(claim),
    };
    let is_open =
        |claim: &&Claim| matches!(claim.answer, Answer::NotMeasured(_)) && claim.decided_in_part().is_none();
    let decided: Vec<&Claim> = claims.iter().filter(|claim| !is_open(claim)).collect();
    if !decided.is_empty() {
        html += &Table::of(&decided)
            .name("claim", |claim| claim.id.to_owned())
            .left("here", |claim| escape(&words(claim)))
            .left("what the paper found", |claim| escape(claim.text))
            .html("Claims", false);
    }
    let open = claims.iter().filter(is_open).count();
    let _ = write!(
        html,
        "<p>{open} of {} claims are not measured by this study; <code>iopj claims STORE --all</code> says \
         part by part what each lacks, and which study would decide it.</p></section>",
        claims.len()
    );
    html
}

/// What this store lacks.
fn missing(model: &Model<'_>, sections: &[Section]) -> String {
    let costs = match sections.iter().any(|section| section.id == "costs") {
        true => "",
        false => {
            "<li><b>Cost by kernel directory</b> (loads, stores, instructions): this store holds no kernel \
             profile.</li>"
        }
    };
    let energy = energy::missing(model, sections.iter().any(|section| section.id == "power"));
    let interrupts = match is_without(model, Metric::InterruptsPerIo) {
        true => {
            "<li><b>Interrupts</b> per I/O: this store holds no interrupts that could be told apart from \
             those of other devices.</li>"
        }
        false => "",
    };
    if [energy, costs, interrupts].iter().all(|item| item.is_empty()) {
        return String::new();
    }
    format!(
        "<section id=\"missing\"><h2>Not measured</h2><ul \
         class=\"plain\">{energy}{costs}{interrupts}</ul></section>"
    )
}

/// True if a metric would have a figure and there are trusted trials, but none of them has the metric.
fn is_without(model: &Model<'_>, metric: Metric) -> bool {
    let mut cells = model.cells.iter().filter(|cell| !cell.trusted.is_empty()).peekable();
    model.metrics().any(|one| one == metric)
        && cells.peek().is_some()
        && cells.all(|cell| model.summary(cell, metric).is_none())
}

fn unavailable(paths: &[Unavailable]) -> String {
    if paths.is_empty() {
        return String::new();
    }
    let reasons = by_reason(paths);
    let table = Table::of(&reasons)
        .left("paths", |(_, paths)| escape(&paths.join(", ")))
        .left("why", |(why, _)| escape(&why.reason))
        .left("remedy", |(why, _)| escape(&why.remedy));
    format!(
        "<section id=\"unavailable\"><h2>Not available here</h2><p class=\"note\">Paths that the study \
         asked for and that this machine does not offer for the target.</p>{}</section>",
        table.html("Paths not available", true)
    )
}

fn provenance(study: &StudyRecord) -> String {
    let seed = study.seed.to_string();
    let facts = [("study", study.name.as_str()), ("target", study.target.as_str()), ("seed", seed.as_str())];
    let emulated = study.emulated.iter().map(|emulator| ("emulated", emulator.as_str()));
    let facts: Vec<(&str, &str)> = facts.into_iter().chain(emulated).collect();
    format!(
        "<section id=\"provenance\">{}<h3>The study, complete</h3><pre tabindex=\"0\">{}</pre></section>",
        frame::provenance(&facts, &study.provenance),
        escape(&study.text)
    )
}
