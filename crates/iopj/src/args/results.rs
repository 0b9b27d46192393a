//! The options of the commands that read a store: report, winners, claims, compare and explain.

use super::{Competing, hints};
use clap::{Args, ValueHint};
use std::path::PathBuf;

/// A percentage as people write it: `5`, `2.5`, `5%`.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').trim_end().parse::<f64>().ok();
    let valid = number.filter(|percent| percent.is_finite() && *percent >= 0.0);
    valid.ok_or_else(|| "write a percentage that is not negative, such as 5".to_owned())
}

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Store written by `iopj run` or `iopj watch`
    pub(crate) store: PathBuf,
    /// Print every trial as JSON instead of the tables
    #[arg(long, group = "form")]
    pub(crate) json: bool,
    /// Print the tables as LaTeX
    #[arg(long, group = "form")]
    pub(crate) latex: bool,
    /// Print the tables as CSV
    #[arg(long, group = "form")]
    pub(crate) csv: bool,
    /// Write the tables as Parquet into this file
    #[cfg_attr(not(feature = "parquet"), doc = "(not in this build: build with `--features parquet`)")]
    #[arg(long, value_name = "FILE", group = "form")]
    pub(crate) parquet: Option<PathBuf>,
    /// Write the whole report as one self-contained HTML file
    #[arg(long, value_name = "FILE", group = "form")]
    pub(crate) html: Option<PathBuf>,
    /// Write every figure into this folder as SVG, light and dark, and as PDF
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, group = "form")]
    pub(crate) figures: Option<PathBuf>,
    /// Check that the store is as iopj wrote it: its pages, and the checksums of all that figures come from
    #[arg(long, group = "form")]
    pub(crate) check: bool,
    /// Print the papers' tables, filled in from this store
    #[arg(long, group = "form")]
    pub(crate) papers: bool,
    #[command(flatten)]
    pub(crate) asking: Asking,
    #[command(flatten)]
    pub(crate) competing: Competing,
}

impl ReportArgs {
    /// True if no other form than text was asked for.
    pub(crate) fn is_text(&self) -> bool {
        let is_other = self.json || self.latex || self.csv || self.papers || self.check;
        !is_other && self.parquet.is_none() && self.html.is_none() && self.figures.is_none()
    }
}

#[derive(Debug, Args)]
pub(crate) struct WinnersArgs {
    /// Store written by `iopj run`
    pub(crate) store: PathBuf,
    /// What to compare: iops, latency_mean, latency_p99, cpu_percent, context_switches_per_io,
    /// instructions_per_io, ...; for an emulated store, only counts [default: iops; for an emulated store, a
    /// count that all its trials have]
    #[arg(long, value_parser = hints::METRICS, hide_possible_values = true)]
    pub(crate) metric: Option<String>,
    /// The two axes of the map: rw, bs, iodepth, numjobs
    #[arg(long, value_name = "X,Y", value_delimiter = ',', default_value = "iodepth,numjobs")]
    #[arg(value_parser = hints::AXES, hide_possible_values = true)]
    pub(crate) axes: Vec<String>,
    /// Statistical test: blocks (within replicates; the default except for imports) or welch, both
    /// Holm-corrected over all cells; or student (the papers' rule: the two best paths, uncorrected)
    #[arg(long, value_parser = hints::TESTS, hide_possible_values = true)]
    pub(crate) test: Option<String>,
    #[command(flatten)]
    pub(crate) competing: Competing,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What to ask for advice on.
#[derive(Debug, Default, Args)]
pub(crate) struct Asking {
    /// What the path to take is best in: ios_per_joule, latency, cpu (time per I/O) or ios (per second; under
    /// an open load the highest rate) [default: ios_per_joule, or cpu if no joules were measured]
    #[arg(long, value_parser = hints::OBJECTIVES, hide_possible_values = true)]
    pub(crate) objective: Option<String>,
    /// The most that the 99th percentile of the latency may be, such as 200us; its upper confidence limit
    /// must meet it
    #[arg(long, value_name = "TIME")]
    pub(crate) p99: Option<String>,
    /// The same for the 99.9th percentile
    #[arg(long, value_name = "TIME")]
    pub(crate) p99_9: Option<String>,
    /// The load in I/Os per second, of all jobs together, such as 40k [default: every load that was measured]
    #[arg(long, value_name = "IOPS")]
    pub(crate) rate: Option<String>,
    /// The price of a kWh in any currency, such as 0.30
    #[arg(long, value_name = "PRICE")]
    pub(crate) price: Option<f64>,
}

impl Asking {
    /// The first option that is given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let options = [
            ("--objective", self.objective.is_some()),
            ("--p99", self.p99.is_some()),
            ("--p99-9", self.p99_9.is_some()),
            ("--rate", self.rate.is_some()),
            ("--price", self.price.is_some()),
        ];
        options.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }
}

#[derive(Debug, Args)]
pub(crate) struct AdviseArgs {
    /// Store written by `iopj run`
    pub(crate) store: PathBuf,
    #[command(flatten)]
    pub(crate) asking: Asking,
    /// Write the study that would decide what this store leaves open into this new file, for `iopj run`
    #[arg(long, value_name = "FILE")]
    pub(crate) write_study: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) competing: Competing,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ClaimsArgs {
    /// Store written by `iopj run`
    pub(crate) store: PathBuf,
    #[command(flatten)]
    pub(crate) competing: Competing,
    /// Also show the claims that the store says nothing about, what each lacks, and which study would decide
    /// it
    #[arg(long)]
    pub(crate) all: bool,
    /// Print JSON, which always has all claims
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// Store of the trials before the change
    pub(crate) before: PathBuf,
    /// Store of the trials after it
    #[arg(required_unless_present = "by", conflicts_with = "by")]
    pub(crate) after: Option<PathBuf>,
    /// Compare trials within one store, as in io_poll_delay=-1,50 or
    /// path=libaio/syscall/interrupt,io_uring/syscall/interrupt. KEY is path, generator, a key of the
    /// workload or a setting; its values may be left out if it has exactly two
    #[arg(long, value_name = "KEY[=BEFORE,AFTER]")]
    pub(crate) by: Option<String>,
    /// Match cells without these keys: those of a workload (ramp_time, cpus_allowed, ...) or settings
    #[arg(long, value_name = "KEY", value_delimiter = ',')]
    #[arg(value_parser = hints::KEYS, hide_possible_values = true)]
    pub(crate) ignore: Vec<String>,
    /// Exit with 1 if IOPS or mean latency is significantly worse by more than this percentage; for two
    /// emulated stores with exact costs, if instructions per I/O are; with 2 if nothing could be compared
    #[arg(long, value_name = "PCT", value_parser = percent)]
    pub(crate) fail_on_regression: Option<f64>,
    #[command(flatten)]
    pub(crate) competing: Competing,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// Store whose trials have costs, written by `iopj lab run --exact` or `iopj run --profile`
    pub(crate) store: PathBuf,
    /// I/O paths to show; the others are compared with the first; by default all that have costs
    #[arg(long, value_delimiter = ',', value_parser = hints::PATHS, hide_possible_values = true)]
    pub(crate) path: Vec<String>,
    /// Functions to show per table
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) top: u16,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A gate of NaN per cent passed whatever got worse.
    #[test]
    fn a_gate_that_could_never_fail_is_refused() {
        for text in ["nan", "inf", "-inf", "-1", "", "%", "abc"] {
            assert!(percent(text).is_err(), "{text}");
        }
        assert_eq!(
            ["5", "2.5", "5%", "5 %", "0"].map(|text| percent(text).ok()),
            [Some(5.0), Some(2.5), Some(5.0), Some(5.0), Some(0.0)]
        );
    }
}
