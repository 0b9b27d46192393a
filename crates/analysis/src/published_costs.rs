//! Loads plus stores as a paper prints them, by source: the groups that costs are sorted into, and the
//! figures that stand beside those measured.

use iopj_core::CompletionMode;
use serde::Serialize;

/// The name of the totals' row.
pub const TOTAL: &str = "total";

/// Loads plus stores under a kernel source directory or in functions of it, in millions per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PublishedLoadsStores {
    /// The directory, or the directory and the functions in it.
    pub source: &'static str,
    /// With interrupt completion.
    pub interrupt: f64,
    /// With poll completion.
    pub poll: f64,
    /// With hybrid completion.
    pub hybrid: f64,
}

impl PublishedLoadsStores {
    /// The figure of a completion mode.
    pub fn of(&self, completion: CompletionMode) -> f64 {
        match completion {
            CompletionMode::Interrupt => self.interrupt,
            CompletionMode::Poll => self.poll,
            CompletionMode::Hybrid => self.hybrid,
        }
    }
}

/// A table of loads plus stores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PublishedCosts {
    /// Its rows in their order; functions follow their directory.
    pub rows: &'static [PublishedLoadsStores],
    /// The totals that it prints.
    pub total: PublishedLoadsStores,
    /// I/Os per second with interrupt, poll and hybrid completion, which make approximate figures per I/O of
    /// the table's.
    pub iops: PublishedLoadsStores,
    /// The threads at which these I/Os were done.
    pub iops_threads: u32,
}

impl PublishedCosts {
    /// The rows and the totals.
    pub fn groups(&self) -> impl Iterator<Item = &PublishedLoadsStores> {
        self.rows.iter().chain([&self.total])
    }

    /// Roughly how many per I/O: the table is of other threads than the I/Os.
    pub fn approximate_per_io(&self, row: &PublishedLoadsStores, completion: CompletionMode) -> f64 {
        row.of(completion) * 1e6 / self.iops.of(completion)
    }

    /// True if a row counts a function of this name in the directories that `is_in` picks. Functions in none
    /// of the table's directories, including user space, are `other`; those in one of them with none of its
    /// names are that directory's `other`.
    pub fn holds(&self, source: &str, function: &str, is_in: impl Fn(&str) -> bool) -> bool {
        let sources = || self.rows.iter().map(|row| row.source);
        let has_a_name_of = |directory: &str| {
            let mut names = sources().filter_map(|row| row.strip_prefix(directory)?.strip_prefix(' '));
            names.any(|name| name != "other" && fits(function, name))
        };
        match source.split_once(' ') {
            None if source == TOTAL => true,
            None if source == "other" => !sources().any(|row| row.ends_with('/') && is_in(row)),
            None => is_in(source),
            Some((directory, "other")) => is_in(directory) && !has_a_name_of(directory),
            Some((directory, name)) => is_in(directory) && fits(function, name),
        }
    }
}

/// The paper's patterns: a name, a prefix `x*`, a part `*x*`.
fn fits(function: &str, pattern: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(_), Some(_)) => function.contains(pattern.trim_matches('*')),
        (None, Some(beginning)) => function.starts_with(beginning),
        _ => function == pattern,
    }
}
