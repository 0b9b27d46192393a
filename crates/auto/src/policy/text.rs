//! A policy as TOML: a line a way, so that it can be reviewed.

use super::{Cell, Figures, Policy, PolicyError};
use crate::provenance::Provenance;
use iopj_path::files::read_regular_text;
use std::fmt;
use std::io;
use std::path::Path;
use std::str::FromStr;

/// The longest policy, in bytes.
const LONGEST: u64 = 1 << 20;

impl FromStr for Policy {
    type Err = PolicyError;

    /// Reads and checks the text of a file.
    fn from_str(text: &str) -> Result<Policy, PolicyError> {
        let policy: Policy =
            toml::from_str(text).map_err(|error| PolicyError::Text(without_the_text(text, &error)))?;
        policy.check()?;
        Ok(policy)
    }
}

/// What is wrong, and in which line, without the line: what is no policy may be somebody's secret.
fn without_the_text(text: &str, error: &toml::de::Error) -> String {
    let line = error.span().map(|span| 1 + text[..span.start.min(text.len())].matches('\n').count());
    let message = error.message().replace('\n', ", ");
    line.map_or_else(|| message.clone(), |line| format!("line {line}: {message}"))
}

/// The text of a policy's file, which is a regular file of at most 1 MiB.
///
/// # Errors
/// It is no such file, or it cannot be read.
pub fn policy_text(path: &Path) -> io::Result<String> {
    read_regular_text(path, LONGEST)
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "aim = \"{}\"", self.aim)?;
        if let Some(bound) = self.bound_p99_ns {
            writeln!(f, "bound_p99_ns = {bound}")?;
        }
        writeln!(f, "hysteresis = {}", float(self.hysteresis))?;
        writeln!(f, "exploration = {}", float(self.exploration))?;
        if let Some(provenance) = &self.provenance {
            provenance_text(f, provenance)?;
        }
        self.cells.iter().try_for_each(|cell| cell_text(f, cell))
    }
}

fn provenance_text(f: &mut fmt::Formatter<'_>, provenance: &Provenance) -> fmt::Result {
    writeln!(f, "\n[provenance]")?;
    for (key, value) in provenance.fields() {
        if let Some(value) = value {
            writeln!(f, "{key} = {}", toml::Value::from(value))?;
        }
    }
    Ok(())
}

fn cell_text(f: &mut fmt::Formatter<'_>, cell: &Cell) -> fmt::Result {
    let op = toml::Value::try_from(cell.op).map_err(|_| fmt::Error)?;
    writeln!(f, "\n[[cell]]\nop = {op}\nsize = {}\nin_flight = {}", cell.size, cell.in_flight)?;
    writeln!(f, "ways = [")?;
    for figures in &cell.ways {
        writeln!(f, "    {},", way_text(figures))?;
    }
    writeln!(f, "]")
}

fn way_text(figures: &Figures) -> String {
    let known = [
        ("mean_ns", figures.mean_ns),
        ("p99_ns", figures.p99_ns),
        ("cpu_ns", figures.cpu_ns),
        ("joules", figures.joules),
    ];
    let mut text = format!("{{ way = \"{}\"", figures.way);
    for (key, value) in known {
        if let Some(value) = value {
            text += &format!(", {key} = {}", float(value));
        }
    }
    text + " }"
}

/// A number that TOML reads as a float again.
fn float(value: f64) -> String {
    toml::Value::from(value).to_string()
}
