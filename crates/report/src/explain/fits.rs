//! The parts of a cost, the crossings where polling costs as much as another completion, and the paper's
//! figures beside the measured ones.

use super::{estimate, letters, number};
use crate::number::{or_dash, thousands};
use crate::table::Table;
use crate::text::{WIDTH, letter, wrap};
use iopj_analysis::explain::{
    Completions, Crossing, CrossingOutcome, Fit, FitOutcome, Fitted, MOST_CORRELATION, OrderAnswer,
    OrderCheck, PaperRow, Term, Unvaried, WorkloadCosts,
};
use iopj_analysis::grouping::unique;
use iopj_core::CompletionMode;
use iopj_papers::published::COSTS;

/// Fewer spins or sleeps per I/O than this count as none.
const NOTHING: f64 = 0.005;

/// The fits as a table, and why a part is missing from it.
pub(super) fn fits(block: &WorkloadCosts) -> String {
    if block.fits.is_empty() {
        return String::new();
    }
    let notes = unique(block.fits.iter().flat_map(remarks));
    let one_each = |fitted| move |at| (fitted, at);
    let rows: Vec<FittedPath> =
        block.fits.iter().flat_map(|fitted| (0..fitted.columns.len()).map(one_each(fitted))).collect();
    let dash_or =
        |row: &FittedPath, term: fn(&Fit) -> Option<Term>| or_dash(fit(row).and_then(term), as_text);
    let table = Table::of(&rows)
        .left("", fitted_name)
        .left("in the kernel", |(fitted, _)| fitted.measure.title().to_owned())
        .right("runs", |(fitted, _)| fitted.runs.to_string())
        .right("fixed part", fixed_part)
        .right("per spin", |row| dash_or(row, |fit| fit.per_spin))
        .right("per sleep", |row| dash_or(row, |fit| fit.per_sleep))
        .right("residual spread", |row| or_dash(fit(row).and_then(|fit| fit.residual_stddev), number));
    let mut text = String::from(
        "\ncost of an I/O in the kernel = fixed part + part per spin x spins + part per sleep x sleeps, ",
    );
    text += "by least squares\nover the runs, ± standard error; `1 sleep` marks a fixed part that contains \
             one, where most I/Os slept; ";
    text += "spinning for\na lock that another processor holds is left out\n";
    text += &table.text();
    text.extend(notes.iter().map(|note| wrap(note, WIDTH, "  ")));
    text
}

/// A fit and the index of one of its paths.
type FittedPath<'a> = (&'a Fitted, usize);

fn fit<'a>((fitted, _): &FittedPath<'a>) -> Option<&'a Fit> {
    match &fitted.outcome {
        FitOutcome::Parts(fit) => Some(fit),
        _ => None,
    }
}

fn as_text(term: Term) -> String {
    estimate(term.estimate, term.error)
}

fn fitted_name((fitted, at): &FittedPath) -> String {
    let name = letter(fitted.columns[*at]);
    if fitted.columns.len() > 1 { format!("{name} of {}", letters(&fitted.columns)) } else { name }
}

fn fixed_part(row: &FittedPath) -> String {
    or_dash(fit(row), |fit| {
        let asleep =
            fit.per_sleep.is_some() && fit.fixed_sleeps.get(row.1).is_some_and(|sleeps| *sleeps > 0.5);
        or_dash(fit.fixed.get(row.1).copied(), as_text) + if asleep { ", 1 sleep" } else { "" }
    })
}

fn remarks(fitted: &Fitted) -> Vec<String> {
    let who = letters(&fitted.columns);
    let mut notes: Vec<String> = match &fitted.outcome {
        FitOutcome::TooFewRuns { needed } => {
            let runs = fitted.runs;
            return vec![format!(
                "{who}: {runs} runs are too few for a fit, which needs {needed}: run with `--replicates \
                 {needed}`"
            )];
        }
        FitOutcome::Collinear { correlation } => vec![format!(
            "{who}: spins and sleeps rise and fall together (correlation {correlation:.3}, more than \
             {MOST_CORRELATION}): their parts cannot be told apart"
        )],
        FitOutcome::Parts(_) => Vec::new(),
    };
    if fitted.columns.len() > 1 {
        notes.push(format!(
            "{who} together: a fixed part for each path, the other parts in common, from what varies within \
             the paths"
        ));
    }
    notes.extend(fitted.left_out.iter().filter_map(left_out).map(|words| format!("{who}: {words}")));
    notes
}

/// Empty if there is nothing that the fixed part could contain.
fn left_out(left: &Unvaried) -> Option<String> {
    let what = left.regressor.as_str();
    let Some((least, most)) = left.range else { return Some(format!("{what} were not counted")) };
    if most < NOTHING {
        return None;
    }
    let (least_text, most_text) = (number(least), number(most));
    Some(if least_text == most_text {
        format!("{what} are {most_text} in every run: the fixed part contains them")
    } else {
        format!(
            "{what} are {least_text} to {most_text} over the runs, which is too little variation: the fixed \
             part contains them"
        )
    })
}

/// The three completions of `posix-sio`: crossings, orders, the paper's table.
pub(super) fn completions(block: &WorkloadCosts) -> String {
    let Some(completions) = &block.completions else { return String::new() };
    let mut text = crossings(completions);
    if !completions.orders.is_empty() {
        text += &orders(completions);
    }
    if !completions.table.is_empty() {
        text += &table(&completions.table);
    }
    text
}

fn crossings(completions: &Completions) -> String {
    if completions.crossings.is_empty() {
        return String::new();
    }
    let [interrupt, poll, hybrid] = completions.columns.map(letter);
    let table = Table::of(&completions.crossings)
        .left("in the kernel", |one| one.measure.title().to_owned())
        .left("poll costs more than", |one| match one.against {
            CompletionMode::Interrupt => "interrupt, always sleeping".to_owned(),
            _ => "hybrid".to_owned(),
        })
        .right("from spins per I/O", |one| crossing(one)[0].clone())
        .left("(level - fixed) / per spin", |one| crossing(one)[1].clone())
        .left("as measured", |one| crossing(one)[2].clone());
    let mut text =
        format!("\nwhere poll ({poll}) overtakes interrupt ({interrupt}) and hybrid ({hybrid}), per I/O\n");
    text += &table.text();
    let pooled = completions
        .crossings
        .iter()
        .any(|one| matches!(one.outcome, CrossingOutcome::At { pooled: true, .. }));
    let mut words = "spins = (level - poll's fixed part) / poll's part per spin; the level of interrupt is \
                     its fixed part and one sleep, that of hybrid its mean as measured; below so many spins \
                     poll costs less"
        .to_owned();
    if pooled {
        words += "; * with a part that comes from the fit over all paths of the interface";
    }
    text + &wrap(&words, WIDTH, "  ")
}

/// The number of spins above which poll costs more, how it is computed, and how many spins were measured.
fn crossing(crossing: &Crossing) -> [String; 3] {
    match crossing.outcome {
        CrossingOutcome::At { level, fixed, per_spin, spins, error, pooled, measured_spins } => {
            let mark = if pooled { " *" } else { "" };
            let costs = if measured_spins > spins { "more" } else { "less" };
            [
                if spins > 0.0 { estimate(spins, error) + mark } else { format!("any{mark}") },
                format!("({} - {}) / {}", number(level), number(fixed), number(per_spin)),
                format!("{} spins: {costs}", number(measured_spins)),
            ]
        }
        CrossingOutcome::UnknownPerSpin => ["-", "poll's part per spin is not known", "-"].map(str::to_owned),
        CrossingOutcome::UnknownPerSleep => {
            ["-", "interrupt's part per sleep is not known", "-"].map(str::to_owned)
        }
    }
}

fn orders(completions: &Completions) -> String {
    let answer = |order: &OrderCheck| match (&order.answer, order.p_holm.contains(&None)) {
        (OrderAnswer::Emulated, _) => "not decided",
        (_, true) => "undecided: one replicate",
        (OrderAnswer::Holds, _) => "holds",
        (OrderAnswer::DoesNotHold, _) => "does not hold",
        (OrderAnswer::Undecided, _) => "undecided",
    };
    let table = Table::of(&completions.orders)
        .left("loads plus stores", |one| one.of.to_owned())
        .left("order", |one| one.order.to_owned())
        .right("interrupt", |one| number(one.measured[0]))
        .right("poll", |one| number(one.measured[1]))
        .right("hybrid", |one| number(one.measured[2]))
        .left("", |one| answer(one).to_owned());
    let mut text = String::from(
        "\nthe orders of poll22-5, per I/O (the paper finds them per second, on a saturated device)\n",
    );
    text += &table.text();
    text += if completions.orders.iter().any(|order| order.answer == OrderAnswer::Emulated) {
        "  not decided: spins mean nothing under emulation\n"
    } else {
        "  by Welch's tests at 5 %, after Holm's correction over all of them\n"
    };
    text += "  what polling costs grows with its spins, which `iopj claims` subtracts\n";
    text
}

fn table(rows: &[PaperRow]) -> String {
    type Cell = fn(&PaperRow, usize) -> String;
    let kinds: [(&str, Cell); 3] = [
        ("per I/O", |row, at| or_dash(row.measured_per_io[at], |figure| number(figure.mean))),
        ("M/s", |row, at| thousands(row.published_m_per_s[at])),
        ("~/IO", |row, at| format!("~{}", thousands(row.published_per_io_approx[at]))),
    ];
    let mut table = Table::of(rows).left("loads plus stores", |row| super::indented(row.source));
    for (unit, cell) in kinds {
        for (at, mode) in ["i", "p", "h"].into_iter().enumerate() {
            table = table.right(format!("{mode} {unit}"), move |row| cell(row, at));
        }
    }
    let words = format!(
        "i interrupt, p poll, h hybrid. Measured here: per I/O. Published (poll22, Table 2, 32 threads, a \
         saturated drive): M/s, rounded, so sums are off by up to 1. ~/IO is approximate: the published M/s \
         over the IOPS of the paper's Table 1 at {} threads, because it prints none \
         at 32.",
        COSTS.iops_threads
    );
    format!("\nbeside the paper's Table 2\n{}{}", table.text(), wrap(&words, WIDTH, "  "))
}
