//! Figures and names of explained costs, in words.

use super::super::number::thousands;
use super::super::text::{letter, settings};
use iopj_analysis::explain::{self, MeanSpread};

/// Directories below this share of the kernel's part on every path are summed up.
pub(super) const SMALL: f64 = 0.01;

pub(super) fn letters(columns: &[usize]) -> String {
    columns.iter().map(|at| letter(*at)).collect::<Vec<_>>().join(", ")
}

pub(super) fn name(column: &explain::Column) -> String {
    column.path.to_string() + &settings(&column.settings)
}

pub(super) fn spread<R>(_: &R, _: usize, figure: MeanSpread) -> String {
    match figure.stddev {
        Some(0.0) => format!("{} ± 0", number(figure.mean)),
        Some(stddev) => format!("{} ± {}", number(figure.mean), decimals(stddev, places(figure.mean))),
        None => number(figure.mean),
    }
}

/// Functions are listed below their directory.
pub(super) fn indented(source: &str) -> String {
    source.split_once(' ').map_or(source.to_owned(), |(_, function)| format!("  {function}"))
}

/// Decimals by size: none from 100 on, two below 10.
pub(super) fn places(value: f64) -> usize {
    match value.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        // Two would show 0.00.
        size if size > 0.0 && size < 0.01 => 4,
        _ => 2,
    }
}

pub(super) fn decimals(value: f64, places: usize) -> String {
    if places == 0 { thousands(value) } else { format!("{value:.places$}") }
}

pub(super) fn number(value: f64) -> String {
    if value == 0.0 { "0".to_owned() } else { decimals(value, places(value)) }
}

/// A change with its sign.
pub(super) fn signed(value: f64) -> String {
    format!("{}{}", if value < 0.0 { "-" } else { "+" }, number(value.abs()))
}

/// An estimate with its standard error, which has at least one decimal if it is below 1.
pub(super) fn estimate(value: f64, error: Option<f64>) -> String {
    let places = places(value);
    match error {
        Some(error) if error > 0.0 && error < 1.0 => {
            let places = places.max(1);
            format!(
                "{} ± {error:.places$}",
                if value.abs() >= 1000.0 { number(value) } else { format!("{value:.places$}") }
            )
        }
        Some(error) => format!("{} ± {}", decimals(value, places), decimals(error, places)),
        None => number(value),
    }
}
