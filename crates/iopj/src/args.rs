//! The commands; their options are in a file for each group of commands.

mod allow;
mod examples;
mod fleet;
mod fleet_data;
mod hints;
mod lab;
mod meter;
mod policy;
mod predict;
mod publish;
mod results;
mod run;
mod watch;

pub(crate) use fleet::{FetchArgs, FleetCommand, JobArgs, StatusArgs, SubmitArgs};
pub(crate) use fleet_data::FleetDataCommand;
#[cfg(feature = "parquet")]
pub(crate) use fleet_data::{FleetReportArgs, GatherArgs};
pub(crate) use lab::{GuestArgs, LabCommand, LabRunArgs};
pub(crate) use meter::{AttachArgs, MeterCommand};
pub(crate) use policy::{DeriveArgs, PolicyCommand, ScoreArgs, SimulateArgs};
pub(crate) use predict::PredictArgs;
pub(crate) use publish::PublishArgs;
pub(crate) use results::{AdviseArgs, Asking, ClaimsArgs, CompareArgs, ExplainArgs, ReportArgs, WinnersArgs};
pub(crate) use run::{Again, RunArgs};
pub(crate) use watch::WatchArgs;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;
use iopj_analysis::Admission;
use iopj_engine::PciAddress;
use iopj_import::KernelVersion;
use std::path::PathBuf;

/// Measure what one I/O costs on every path that Linux offers, and prove which path was taken.
#[derive(Debug, Parser)]
#[command(name = "iopj", version, max_term_width = 100)]
#[command(after_help = examples::IOPJ)]
pub(crate) struct Cli {
    /// What messages on standard error look like
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Plain, value_name = "FORMAT")]
    pub(crate) log_format: LogFormat,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What messages look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for a reader
    Plain,
    /// One JSON object a line, for a program
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show which I/O paths work on a target; for the others, why not and what to do
    #[command(after_help = examples::CHECK)]
    Check(CheckArgs),
    /// Run a study, or a matrix given by options, and write the results to a store
    #[command(after_help = examples::RUN)]
    Run(Box<RunArgs>),
    /// Watch a program that does its own I/O: which paths it takes, and what they cost
    #[command(after_help = examples::WATCH)]
    Watch(WatchArgs),
    /// Show the results of a store
    #[command(after_help = examples::REPORT)]
    Report(ReportArgs),
    /// Write a store as JSON or CSV
    #[command(after_help = examples::EXPORT)]
    Export(ExportArgs),
    /// Show which path wins for each workload, which are equal, and what is undecided
    #[command(after_help = examples::WINNERS)]
    Winners(WinnersArgs),
    /// Show which path to take at a load within a latency bound, how sure that is, and what to type
    #[command(after_help = examples::ADVISE)]
    Advise(AdviseArgs),
    /// Predict what paths and workloads would do that were not measured, and how sure that is
    #[command(after_help = examples::PREDICT)]
    Predict(Box<PredictArgs>),
    /// Derive the policy that an adaptive engine follows, show one, or check it against this machine
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Test the papers' findings against a store's trials
    #[command(after_help = examples::CLAIMS)]
    Claims(ClaimsArgs),
    /// Show what got better or worse, beyond noise, from one store or one setting to another
    #[command(after_help = examples::COMPARE)]
    Compare(CompareArgs),
    /// Show where the cost of an I/O arises, path by path
    #[command(after_help = examples::EXPLAIN)]
    Explain(ExplainArgs),
    /// Import results of other programs
    Import(ImportArgs),
    /// Run a study on many hosts over ssh, by Slurm or by Kubernetes, and fetch the stores
    #[command(subcommand)]
    Fleet(FleetCommand),
    /// Run a study in a virtual machine with emulated NVMe, on a kernel of your choice
    #[command(subcommand)]
    Lab(LabCommand),
    /// List this machine's meters, attach a meter's log to a store, fit a power model
    #[command(subcommand)]
    Meter(MeterCommand),
    /// Restore the settings that a dead run left changed
    #[command(after_help = examples::RESTORE)]
    Restore(RestoreArgs),
    /// Serve another host's run over standard input and output, on the host that has the drive
    ///
    /// `iopj run` starts it over ssh when a study names a target host. It listens on no port, and puts
    /// everything back when the run ends.
    #[command(after_help = examples::AGENT)]
    Agent {
        /// Rest so long before each window, marked for who counts this machine's instructions; the lab gives
        /// it
        #[arg(long, hide = true, value_name = "MS")]
        rest_ms: Option<u64>,
    },
    /// Put back what a process leaves changed, once it has ended
    #[command(hide = true)]
    Guard {
        /// Process id
        guarded: u32,
    },
    /// Write the manual pages into a folder
    #[command(after_help = examples::MAN)]
    Man {
        /// Folder; it is created if it does not exist
        #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
        folder: PathBuf,
    },
    /// Write the book's reference into a folder, as Markdown
    #[command(hide = true)]
    Reference {
        /// Folder; it is created if it does not exist
        #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
        folder: PathBuf,
    },
    /// Print completions for a shell, including the values of options
    #[command(after_help = examples::COMPLETIONS)]
    Completions {
        /// Shell
        shell: Shell,
    },
}

/// The drive that kernel-bypass paths use.
#[derive(Debug, Default, Args)]
pub(crate) struct Taking {
    /// Take this NVMe controller from its driver for kernel-bypass paths, then give it back
    #[arg(long, value_name = "PCI-ADDRESS")]
    pub(crate) take_device: Option<PciAddress>,
    /// Take it even without an IOMMU, where a fault can overwrite any memory
    #[arg(long, requires = "take_device")]
    pub(crate) i_know_no_iommu: bool,
}

/// Which trials may win.
#[derive(Debug, Args)]
pub(crate) struct Competing {
    /// Let unproven and disturbed trials compete; they are marked
    #[arg(long)]
    pub(crate) with_unproven: bool,
}

impl Competing {
    pub(crate) fn admission(&self) -> Admission {
        Admission { with_unproven: self.with_unproven, ..Admission::default() }
    }
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// File, block device or /dev/ngXnY; by default a small file, made in the current folder and removed
    /// afterwards
    pub(crate) target: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) taking: Taking,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    #[command(subcommand)]
    pub(crate) format: ImportFormat,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ImportFormat {
    /// fio's JSON (`--output-format=json` or `json+`)
    #[command(after_help = examples::IMPORT)]
    Fio {
        /// Files written by fio
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Store to write
        #[arg(long, default_value = "import.iopj")]
        store: PathBuf,
        /// Release of the kernel that the jobs ran on, such as 6.18, which fio does not record: since 6.4 a
        /// polling job that slept is refuted
        #[arg(long, value_name = "RELEASE")]
        kernel: Option<KernelVersion>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false, id = "format")]
pub(crate) struct ExportFormat {
    /// The study and every trial, with histograms and time series
    #[arg(long)]
    pub(crate) json: bool,
    /// One line per trial
    #[arg(long)]
    pub(crate) csv: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Store written by `iopj run`
    pub(crate) store: PathBuf,
    #[command(flatten)]
    pub(crate) format: ExportFormat,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
