//! Energy as text: columns of a table, what stands in its heading, and the trials that a meter did not cover.

use super::grid::wrap;
use super::number::thousands;
use crate::analysis::energy::{CellEnergy, Uncertain, uncovered};
use crate::analysis::{CellMeans, WorkloadTable};
use iopj_store::{EnergySource, Trial};

/// The energy of a table's rows as columns.
pub(super) struct Columns<'a> {
    /// The meter and the scope.
    pub(super) source: &'a EnergySource,
    /// The meter's accuracy is declared: there are combined intervals.
    combined: bool,
}

/// Columns of W and IO/J; `None` where the table holds no energy.
pub(super) fn columns(table: &WorkloadTable) -> Option<Columns<'_>> {
    let energies = || table.rows.iter().filter_map(|row| row.figures.as_ref()?.energy.as_ref());
    let has_combined = |energy: &CellEnergy| energy.watts.is_some_and(|watts| watts.combined.is_some());
    Some(Columns { source: table.energy()?, combined: energies().any(has_combined) })
}

impl Columns<'_> {
    /// Headings, each metric followed by its intervals.
    pub(super) fn headings(&self) -> Vec<&'static str> {
        let headings = |name| [name, "\u{b1}"].into_iter().chain(self.combined.then_some("\u{b1} all"));
        headings("W").chain(headings("IO/J")).collect()
    }

    /// The cells of a row; of a model each figure says `est.`.
    pub(super) fn cells(&self, figures: &CellMeans) -> Vec<String> {
        let energy = figures.energy.as_ref();
        let of = |figure: Option<Uncertain>| {
            let text = |value: Option<f64>| value.map_or("-".to_owned(), four_digits);
            let mark = if figure.is_some() && self.source.estimated { "est. " } else { "" };
            let half = |value: Option<f64>| value.map_or("-".to_owned(), uncertainty);
            let mean = format!("{mark}{}", text(figure.map(|one| one.mean)));
            let combined = self.combined.then(|| half(figure.and_then(|one| one.combined)));
            [mean, half(figure.map(|one| one.random))].into_iter().chain(combined)
        };
        of(energy.and_then(|one| one.watts)).chain(of(energy.and_then(|one| one.ios_per_joule))).collect()
    }

    /// What the heading of the table says.
    pub(super) fn heading(&self) -> String {
        format!(", energy: {}", self.source)
    }

    /// What the intervals are, for the footer.
    pub(super) fn words(&self) -> String {
        let mut text = "W is mean power and IO/J I/Os per joule, over replicates with energy; \u{b1} is \
                        half of the 95 % interval of the random part, by which paths are told apart"
            .to_owned();
        if self.combined {
            text += "; \u{b1} all holds the meter's declared accuracy too";
        } else if !self.source.estimated {
            text += "; the meter declares no accuracy, which is not in it";
        }
        if self.source.estimated {
            text += "; est.: a model's, not measured: it is in no winner map, claim or comparison";
        }
        text
    }
}

/// Four significant digits, zeros at the end included, or the whole number with its thousands apart.
fn four_digits(value: f64) -> String {
    match value.abs() {
        size if size >= 999.95 => thousands(value),
        size if size > 0.0 => {
            let decimals = (3.0 - size.log10().floor()).clamp(1.0, 6.0) as usize;
            format!("{value:.decimals$}")
        }
        _ => "0".to_owned(),
    }
}

/// Two significant digits.
fn uncertainty(value: f64) -> String {
    match value.abs() {
        size if size >= 10.0 || size == 0.0 => thousands(value),
        size => {
            let decimals = (1.0 - size.log10().floor()).clamp(0.0, 6.0) as usize;
            format!("{value:.decimals$}")
        }
    }
}

/// The trials without energy, with their reason: so many by name, and how many there are more. Empty without
/// any.
pub(super) fn incomplete_text(trials: &[Trial], source: &EnergySource, width: usize) -> String {
    const MOST: usize = 8;
    let lacking = uncovered(trials, source);
    if lacking.is_empty() {
        return String::new();
    }
    let mut text = format!("energy incomplete, left out of all that is said of energy: {}\n", lacking.len());
    for one in lacking.iter().take(MOST) {
        let (trial, reason) = (one.trial, super::escape(one.reason));
        let line =
            format!("{}, {}, replicate {}: {reason}", trial.path, trial.workload.title(), trial.replicate);
        text += &wrap(&line, width, "  ");
    }
    if lacking.len() > MOST {
        text += &format!("  and {} more\n", lacking.len() - MOST);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_have_four_digits_and_uncertainties_two() {
        let means = [1234.5, 999.96, 123.4, 50.0, 5.0, 0.012_34, 0.0].map(four_digits);
        assert_eq!(means, ["1,234", "1,000", "123.4", "50.00", "5.000", "0.01234", "0"]);
        let halves = [1234.5, 12.34, 2.484, 0.994, 0.0012, 0.0].map(uncertainty);
        assert_eq!(halves, ["1,234", "12", "2.5", "0.99", "0.0012", "0"]);
    }
}
