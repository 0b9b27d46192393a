//! A report as text.

use super::bounds::{Bounds, Kept, Longest};
use super::family::{Evaluation, Family};
use super::report::{Phased, Regret, Report, Verdict, percent};
use crate::way::Way;
use std::collections::BTreeMap;
use std::fmt::{self, Formatter};

impl fmt::Display for Evaluation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.report.fmt(f)?;
        self.families.iter().try_for_each(|one| family(f, one))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write(self, f)
    }
}

/// An enum's word, as JSON has it.
fn word(value: &impl serde::Serialize) -> String {
    toml::Value::try_from(value).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}

fn write(report: &Report, f: &mut Formatter<'_>) -> fmt::Result {
    let cells = report.outcomes.len();
    writeln!(
        f,
        "{cells} cells of {} I/Os each, seed {}; a policy whose figures are wrong",
        report.ios, report.seed
    )?;
    writeln!(f, "by up to half of the truth, each by itself\n")?;
    writeln!(f, "regret against the best static way, with all that was spent to learn")?;
    heading(f)?;
    row(f, "all", &report.all)?;
    report.by_aim.iter().try_for_each(|(aim, regret)| row(f, aim, regret))?;
    report.by_program.iter().try_for_each(|(program, regret)| row(f, &word(program), regret))?;
    report.by_drive.iter().try_for_each(|(drive, regret)| row(f, &word(drive), regret))?;
    writeln!(f, "(choosing: p95 of the same, pinned to the best way)\n")?;
    writeln!(f, "best static way, share of cells")?;
    for (aim, drive, ways) in &report.regions {
        writeln!(f, "{:16}{:14}{}", aim.to_string(), word(drive), shares(ways))?;
    }
    writeln!(f, "\nphased cells, over what a clairvoyant spends who takes the best way in each phase")?;
    phased(f, "all", &report.phased)?;
    phased(f, "to gain", &report.phased_to_gain)?;
    for one in &report.statics {
        let (way, spent, chooser) =
            (one.way.to_string(), mean(one.spent, one.cells), mean(one.chooser, one.cells));
        writeln!(f, "{way:32}{:>6} cells: {spent:>10}, the chooser {chooser}", one.cells)?;
    }
    writeln!(f)?;
    verdicts(f, &report.verdicts)
}

/// A further family, in short.
fn family(f: &mut Formatter<'_>, Family { what, report, bounds }: &Family) -> fmt::Result {
    writeln!(f, "\n{what}\n")?;
    heading(f)?;
    row(f, "all", &report.all)?;
    report.by_aim.iter().try_for_each(|(aim, regret)| row(f, aim, regret))?;
    writeln!(f)?;
    phased(f, "phased", &report.phased)?;
    phased(f, "to gain", &report.phased_to_gain)?;
    if let Some(bounds) = bounds {
        kept(f, bounds)?;
    }
    writeln!(f)?;
    verdicts(f, &report.verdicts)
}

/// For how long bounds were broken.
fn kept(f: &mut Formatter<'_>, bounds: &Bounds) -> fmt::Result {
    writeln!(
        f,
        "\nthe bound is broken while another way keeps it by 4 %: share of I/Os; longest time in one go, by"
    )?;
    writeln!(
        f,
        "the truth, and from when it showed on: in each epoch, the p99 of the timed I/Os was over the bound"
    )?;
    writeln!(
        f,
        "{:10}{:>6}{:>9}{:>9} |{:>8}{:>10}{:>9} |{:>8}{:>10}{:>9}{:>6}{:>8}",
        "drawn", "cells", "mean", "most", "in time", "s", "I/Os", "in time", "s", "I/Os", "cell", "p99"
    )?;
    let longest =
        |one: &Longest| format!(" |{:>8}{:>10.2}{:>9}", one.in_time, one.stretch.ns / 1e9, one.stretch.ios);
    let mut row = |name: &str, one: &Kept| {
        let (truth, shown, times) = (longest(&one.by_truth), longest(&one.shown), one.shown.stretch.times);
        write!(f, "{name:10}{:>6}{:>9}{:>9}{truth}", one.cells, percent(one.mean), percent(one.most))?;
        writeln!(f, "{shown}{:>6}{times:>8.3}", one.shown.number)
    };
    row("all", &bounds.all)?;
    bounds.by_drawn.iter().try_for_each(|(drawn, one)| row(&word(drawn), one))?;
    let never = bounds.uncompared.iter().filter(|one| one.breach.as_ref().is_some_and(|one| one.ios == 0));
    let never = never.count();
    let others = bounds.uncompared.len() - never;
    writeln!(
        f,
        "(p99: over the bound, by the truth, at most; in {never} further cells no way ever keeps it so, in"
    )?;
    writeln!(f, "{others} no static way does in all phases in which one does)")
}

fn verdicts(f: &mut Formatter<'_>, verdicts: &[Verdict]) -> fmt::Result {
    for verdict in verdicts {
        let word = if verdict.holds { "pass" } else { "FAIL" };
        writeln!(f, "{word}: {}: {}", verdict.threshold, verdict.found)?;
    }
    Ok(())
}

fn heading(f: &mut Formatter<'_>) -> fmt::Result {
    writeln!(
        f,
        "{:16}{:>6}{:>11}{:>11}{:>11}{:>11}{:>11}{:>11}",
        "", "cells", "p95 10k", "p95 100k", "p95 end", "median", "worst", "choosing"
    )
}

fn row(f: &mut Formatter<'_>, name: &str, regret: &Regret) -> fmt::Result {
    let Regret { cells, p95_after: [early, later, end], median, worst, pinned_p95 } = *regret;
    write!(f, "{name:16}{cells:>6}")?;
    for value in [early, later, end, median, worst] {
        write!(f, "{:>11}", percent(value))?;
    }
    writeln!(f, "{:>11}", pinned_p95.map_or("-".to_owned(), percent))
}

fn shares(ways: &BTreeMap<Way, f64>) -> String {
    let mut ways: Vec<(&Way, &f64)> = ways.iter().collect();
    ways.sort_by(|one, other| other.1.total_cmp(one.1));
    let share = |(way, share): &(&Way, &f64)| format!("{way} {:.0} %", 100.0 * **share);
    ways.iter().map(share).collect::<Vec<String>>().join(", ")
}

fn mean(sum: f64, cells: usize) -> String {
    if sum.is_nan() {
        return "-".to_owned();
    }
    format!("{:.3}", sum / cells.max(1) as f64)
}

fn phased(f: &mut Formatter<'_>, name: &str, phased: &Phased) -> fmt::Result {
    let Phased { cells, beaten, by, chooser, best_static, random } = phased;
    let [chooser, best, random] = [chooser, best_static, random].map(|sum| mean(*sum, *cells));
    writeln!(
        f,
        "{name:16}{cells:>6} cells: chooser {chooser}, best static way {best}, random {random}; less than \
         every static way in {beaten}, by {} in the median",
        percent(*by)
    )
}
