//! The options of `iopj policy`.

use super::{Competing, Taking, examples};
use clap::{Args, Subcommand, value_parser};
use iopj_auto::evaluate::CELLS;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Derive a policy from what a store measured, or from a cost model
    #[command(after_help = examples::POLICY_DERIVE)]
    Derive(DeriveArgs),
    /// Show which way a policy takes when
    #[command(after_help = examples::POLICY_SHOW)]
    Show {
        /// Policy file
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what a policy would do on this machine: where it comes from, and which of its ways are missing
    #[command(after_help = examples::POLICY_CHECK)]
    Check {
        /// Policy file
        file: PathBuf,
        /// File or block device; without one, no way is tried
        #[arg(long)]
        target: Option<PathBuf>,
        #[command(flatten)]
        taking: Taking,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Hold what an adaptive engine decides by against the best static way, on simulated machines whose
    /// policy is wrong: how good it is, with thresholds that it must keep
    #[command(after_help = examples::POLICY_SIMULATE)]
    Simulate(SimulateArgs),
    /// Test whether paths that choose come up to the best static path of each cell
    #[command(after_help = examples::POLICY_SCORE)]
    Score(ScoreArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SimulateArgs {
    /// Seed of the machines, programs and policies
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Machines with a program each, in each family: 120 are each aim, target and program once
    #[arg(long, value_name = "N", default_value_t = CELLS)]
    #[arg(value_parser = value_parser!(u64).range(120..))]
    pub(crate) cells: u64,
    /// Store whose latencies are a drive's, for a further family of machines
    #[arg(long, value_name = "STORE")]
    pub(crate) latencies: Option<PathBuf>,
    /// Trace that is a program, for a further family: fio's iolog, blkparse's text, or MSR Cambridge's CSV
    #[arg(long, visible_alias = "trace", value_name = "FILE")]
    pub(crate) read_iolog: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) competing: Competing,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ScoreArgs {
    /// Store of a study with `auto` among its paths
    pub(crate) store: PathBuf,
    #[command(flatten)]
    pub(crate) competing: Competing,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DeriveArgs {
    /// Store that calibrates a cost model, or a model written by `iopj predict --write-model`
    pub(crate) source: PathBuf,
    /// What ways are chosen for: latency, cpu, ios_per_joule
    #[arg(long, default_value = "latency")]
    pub(crate) objective: String,
    /// Most that the 99th percentile may be, such as 200us
    #[arg(long, value_name = "TIME")]
    pub(crate) p99: Option<String>,
    /// Write the policy into this new file
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) competing: Competing,
}
