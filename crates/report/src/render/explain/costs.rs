//! The parts of a cost, where polling costs as much as another completion, and the paper's figures beside the
//! measured ones.

use super::super::grid::{Align, Grid, wrap};
use super::super::number::thousands;
use super::{WIDTH, estimate, letter, letters, number};
use crate::analysis::explain::{
    Completions, Crossing, CrossingOutcome, FitOutcome, Fitted, MOST_CORRELATION, OrderAnswer, OrderCheck,
    PUBLISHED_IOPS_THREADS, PaperRow, Term, Unvaried, WorkloadCosts,
};
use iopj_core::Completion;

/// Spins or sleeps per I/O that are none.
const NOTHING: f64 = 0.005;

/// The fits as a table, and why a part is missing from it.
pub(super) fn fits(block: &WorkloadCosts) -> String {
    if block.fits.is_empty() {
        return String::new();
    }
    let mut grid = Grid::new(&[
        ("", Align::Left),
        ("in the kernel", Align::Left),
        ("runs", Align::Right),
        ("fixed part", Align::Right),
        ("per spin", Align::Right),
        ("per sleep", Align::Right),
        ("residual spread", Align::Right),
    ]);
    let mut notes: Vec<String> = Vec::new();
    for fitted in &block.fits {
        rows(fitted).into_iter().for_each(|row| grid.row(row));
        notes.extend(remarks(fitted).into_iter().filter(|note| !notes.contains(note)).collect::<Vec<_>>());
    }
    let mut text = String::from(
        "\ncost of an I/O in the kernel = fixed part + part per spin x spins + part per sleep x sleeps, ",
    );
    text += "by least squares\nover the runs, ± standard error; `1 sleep` marks a fixed part that contains \
             one, where most I/Os slept; ";
    text += "spinning for\na lock that another processor holds is left out\n";
    text += &grid.render();
    text.extend(notes.iter().map(|note| wrap(note, WIDTH, "  ")));
    text
}

fn rows(fitted: &Fitted) -> Vec<Vec<String>> {
    let term = |term: &Option<Term>| term.map_or("-".to_owned(), |term| estimate(term.estimate, term.error));
    let row = |(at, column): (usize, &usize)| {
        let together = fitted.columns.len() > 1;
        let name = if together {
            format!("{} of {}", letter(*column), letters(&fitted.columns))
        } else {
            letter(*column)
        };
        let mut row = vec![name, fitted.measure.title().to_owned(), fitted.runs.to_string()];
        if let FitOutcome::Parts(fit) = &fitted.outcome {
            let asleep =
                fit.per_sleep.is_some() && fit.fixed_sleeps.get(at).is_some_and(|sleeps| *sleeps > 0.5);
            let fixed = term(&fit.fixed.get(at).copied()) + if asleep { ", 1 sleep" } else { "" };
            row.extend([fixed, term(&fit.per_spin), term(&fit.per_sleep)]);
            row.push(fit.residual_stddev.map_or("-".to_owned(), number));
        } else {
            row.extend(["-"; 4].map(str::to_owned));
        }
        row
    };
    fitted.columns.iter().enumerate().map(row).collect()
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

/// Nothing where there is nothing that the fixed part could contain.
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
    let mut grid = Grid::new(&[
        ("in the kernel", Align::Left),
        ("poll costs more than", Align::Left),
        ("from spins per I/O", Align::Right),
        ("(level - fixed) / per spin", Align::Left),
        ("as measured", Align::Left),
    ]);
    for crossing in &completions.crossings {
        grid.row(crossing_row(crossing));
    }
    let mut text =
        format!("\nwhere poll ({poll}) overtakes interrupt ({interrupt}) and hybrid ({hybrid}), per I/O\n");
    text += &grid.render();
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

fn crossing_row(crossing: &Crossing) -> Vec<String> {
    let against = match crossing.against {
        Completion::Interrupt => "interrupt, always sleeping",
        _ => "hybrid",
    };
    let mut row = vec![crossing.measure.title().to_owned(), against.to_owned()];
    match crossing.outcome {
        CrossingOutcome::At { level, fixed, per_spin, spins, error, pooled, measured_spins } => {
            let mark = if pooled { " *" } else { "" };
            row.push(if spins > 0.0 { estimate(spins, error) + mark } else { format!("any{mark}") });
            row.push(format!("({} - {}) / {}", number(level), number(fixed), number(per_spin)));
            let costs = if measured_spins > spins { "more" } else { "less" };
            row.push(format!("{} spins: {costs}", number(measured_spins)));
        }
        CrossingOutcome::UnknownPerSpin => {
            row.extend(["-", "poll's part per spin is not known", "-"].map(str::to_owned))
        }
        CrossingOutcome::UnknownPerSleep => {
            row.extend(["-", "interrupt's part per sleep is not known", "-"].map(str::to_owned))
        }
    }
    row
}

fn orders(completions: &Completions) -> String {
    let mut grid = Grid::new(&[
        ("loads plus stores", Align::Left),
        ("order", Align::Left),
        ("interrupt", Align::Right),
        ("poll", Align::Right),
        ("hybrid", Align::Right),
        ("", Align::Left),
    ]);
    for OrderCheck { of, order, measured, p_holm, answer } in &completions.orders {
        let answer = match (answer, p_holm.contains(&None)) {
            (OrderAnswer::Emulated, _) => "not decided",
            (_, true) => "undecided: one replicate",
            (OrderAnswer::Holds, _) => "holds",
            (OrderAnswer::DoesNotHold, _) => "does not hold",
            (OrderAnswer::Undecided, _) => "undecided",
        };
        let mut row = vec![(*of).to_owned(), (*order).to_owned()];
        row.extend(measured.map(number));
        row.push(answer.to_owned());
        grid.row(row);
    }
    let mut text = String::from(
        "\nthe orders of poll22-5, per I/O (the paper finds them per second, on a saturated device)\n",
    );
    text += &grid.render();
    text += if completions.orders.iter().any(|order| order.answer == OrderAnswer::Emulated) {
        "  not decided: spins mean nothing under emulation\n"
    } else {
        "  by Welch's tests at 5 %, after Holm's correction over all of them\n"
    };
    text += "  what poll costs grows with its spins, which `iopj claims` takes off\n";
    text
}

fn table(rows: &[PaperRow]) -> String {
    let heads =
        ["i per I/O", "p per I/O", "h per I/O", "i M/s", "p M/s", "h M/s", "i ~/IO", "p ~/IO", "h ~/IO"];
    let columns = heads.map(|head| (head, Align::Right));
    let mut grid = Grid::new(&[&[("loads plus stores", Align::Left)], &columns[..]].concat());
    for row in rows {
        let measured =
            row.measured_per_io.map(|figure| figure.map_or("-".to_owned(), |figure| number(figure.mean)));
        let published = row.published_m_per_s.map(thousands);
        let approximate = row.published_per_io_approx.map(|value| format!("~{}", thousands(value)));
        let name = super::indented(row.source);
        grid.row([name].into_iter().chain(measured).chain(published).chain(approximate).collect());
    }
    let words = format!(
        "i interrupt, p poll, h hybrid. Measured here: per I/O. Published (poll22, Table 2, 32 threads, a \
         saturated drive): M/s, rounded, so that sums are off by up to 1. ~/IO is approximate: the \
         published M/s over the IOPS of the paper's Table 1 at {PUBLISHED_IOPS_THREADS} threads, for it \
         prints none at 32."
    );
    format!("\nbeside the paper's Table 2\n{}{}", grid.render(), wrap(&words, WIDTH, "  "))
}
