//! A report as text.

use super::report::{Phased, Regret, Report, percent};
use crate::way::Way;
use std::collections::BTreeMap;
use std::fmt::{self, Formatter};

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
    writeln!(
        f,
        "{:16}{:>6}{:>11}{:>11}{:>11}{:>11}{:>11}{:>11}",
        "", "cells", "p95 10k", "p95 100k", "p95 end", "median", "worst", "choosing"
    )?;
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
    for verdict in &report.verdicts {
        let word = if verdict.holds { "pass" } else { "FAIL" };
        writeln!(f, "{word}: {}: {}", verdict.threshold, verdict.found)?;
    }
    Ok(())
}

fn row(f: &mut Formatter<'_>, name: &str, regret: &Regret) -> fmt::Result {
    let Regret { cells, p95_after: [early, later, end], median, worst, pinned_p95 } = *regret;
    write!(f, "{name:16}{cells:>6}")?;
    for value in [early, later, end, median, worst, pinned_p95] {
        write!(f, "{:>11}", percent(value))?;
    }
    writeln!(f)
}

fn shares(ways: &BTreeMap<Way, f64>) -> String {
    let mut ways: Vec<(&Way, &f64)> = ways.iter().collect();
    ways.sort_by(|one, other| other.1.total_cmp(one.1));
    let share = |(way, share): &(&Way, &f64)| format!("{way} {:.0} %", 100.0 * **share);
    ways.iter().map(share).collect::<Vec<String>>().join(", ")
}

fn mean(sum: f64, cells: usize) -> String {
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
