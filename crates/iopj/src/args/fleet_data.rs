//! The options of `iopj fleet gather` and `iopj fleet report`. A build that leaves these out requires none of
//! them: whatever was typed, it says how to get it.

use super::examples;
use clap::{Args, Subcommand, ValueHint};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum FleetDataCommand {
    /// Gather the stores below folders into a Parquet data set, which DuckDB, Spark and others read
    #[cfg_attr(not(feature = "parquet"), doc = "(not in this build: build with `--features parquet`)")]
    #[command(after_help = examples::FLEET_GATHER)]
    Gather(GatherArgs),
    /// Show what a data set says: winners, outlier hosts, drift, and which policy to roll out to whom
    #[cfg_attr(not(feature = "parquet"), doc = "(not in this build: build with `--features parquet`)")]
    #[command(after_help = examples::FLEET_REPORT)]
    Report(FleetReportArgs),
}

#[derive(Debug, Args)]
pub(crate) struct GatherArgs {
    /// Folders; every file below them whose name ends with `.iopj` is a store
    #[arg(required = cfg!(feature = "parquet"), value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) folders: Vec<PathBuf>,
    /// Folder of the data set; what it has of earlier gathers stays, and of a changed store only the newest
    #[arg(long, value_name = "DATASET", value_hint = ValueHint::DirPath)]
    #[cfg_attr(not(feature = "parquet"), arg(default_value = ".", hide_default_value = true))]
    pub(crate) to: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct FleetReportArgs {
    /// Data set that `iopj fleet gather` has written
    #[arg(value_name = "DATASET", value_hint = ValueHint::DirPath)]
    #[cfg_attr(not(feature = "parquet"), arg(default_value = ".", hide_default_value = true))]
    pub(crate) dataset: PathBuf,
    /// Write the report as one HTML file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,
    /// Write the policy of each kind of machine into this folder
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) policies: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
