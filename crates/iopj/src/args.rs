//! The commands and their options.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use iopj_engine::PciAddress;
use iopj_lab::session::Device;
use iopj_report::analysis::Admission;
use iopj_run::import::KernelVersion;
use std::path::PathBuf;

/// Measure what one I/O costs on every path that Linux offers, and prove which path was taken.
#[derive(Debug, Parser)]
#[command(name = "iopj", version, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 success; 1 the study found failures; 2 usage or set-up; 130 interrupted."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show which I/O paths work on a target; for the others, why not and what to do
    Check(CheckArgs),
    /// Run a study, or a matrix given by options, and write the results to a store
    Run(Box<RunArgs>),
    /// Show the results of a store
    Report(ReportArgs),
    /// Write a store as JSON or CSV
    Export(ExportArgs),
    /// Show which path wins for each workload, or that it is a tie
    Winners(WinnersArgs),
    /// Decide the papers' findings from a store's trials
    Claims(ClaimsArgs),
    /// Show what got better or worse, beyond noise, from one store or one setting to another
    Compare(CompareArgs),
    /// Show where the cost of an I/O arises, path by path
    Explain(ExplainArgs),
    /// Import results of other programs
    Import(ImportArgs),
    /// Run a study in a virtual machine with emulated NVMe, on a kernel of your choice
    #[command(subcommand)]
    Lab(LabCommand),
    /// List this machine's meters, attach a meter's log to a store, fit a power model
    #[command(subcommand)]
    Meter(MeterCommand),
    /// Restore the settings that a dead run left changed
    Restore(RestoreArgs),
    /// Write the manual pages into a folder
    #[command(hide = true)]
    Man { folder: PathBuf },
    /// Print a shell's completions
    #[command(hide = true)]
    Completions { shell: Shell },
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

/// Options of the matrix override the study's; lists are separated by commas.
#[derive(Debug, Default, Args)]
pub(crate) struct RunArgs {
    /// Study file; by default the quick study
    pub(crate) study: Option<PathBuf>,
    /// File, block device or /dev/ngXnY; by default a file, made next to the store and removed afterwards
    #[arg(long)]
    pub(crate) target: Option<PathBuf>,
    /// I/O paths, such as io_uring/syscall/interrupt, or `available`
    #[arg(long, value_delimiter = ',', help_heading = "Matrix")]
    pub(crate) path: Vec<String>,
    /// read, write, randread, randwrite, rw, randrw
    #[arg(long, value_delimiter = ',', help_heading = "Matrix")]
    pub(crate) rw: Vec<String>,
    /// Sizes of one I/O
    #[arg(long, value_delimiter = ',', help_heading = "Matrix")]
    pub(crate) bs: Vec<String>,
    /// I/Os that each job keeps in flight
    #[arg(long, value_delimiter = ',', help_heading = "Matrix")]
    pub(crate) iodepth: Vec<u32>,
    /// Threads that do I/O
    #[arg(long, value_delimiter = ',', help_heading = "Matrix")]
    pub(crate) numjobs: Vec<u32>,
    /// Time to run before measuring
    #[arg(long, help_heading = "Matrix")]
    pub(crate) ramp_time: Option<String>,
    /// Time to measure
    #[arg(long, conflicts_with = "ios", help_heading = "Matrix")]
    pub(crate) runtime: Option<String>,
    /// I/Os per job to measure, instead of a time
    #[arg(long, help_heading = "Matrix")]
    pub(crate) ios: Option<u64>,
    /// How often each cell is measured
    #[arg(long, help_heading = "Matrix")]
    pub(crate) replicates: Option<u32>,
    /// What issues the I/O: native, fio, or native,fio
    #[arg(long, value_delimiter = ',', help_heading = "Matrix")]
    pub(crate) generator: Vec<String>,
    /// Sample every core during each trial, and keep the cost by function
    #[arg(long)]
    pub(crate) profile: bool,
    /// Store to write; by default the study's name in the current folder
    #[arg(long)]
    pub(crate) store: Option<PathBuf>,
    /// Run the trials that this store still lacks
    #[arg(
        long,
        value_name = "STORE",
        conflicts_with_all = [
            "study", "target", "path", "rw", "bs", "iodepth", "numjobs", "ramp_time",
            "runtime", "ios", "replicates", "generator", "profile", "store",
        ]
    )]
    pub(crate) resume: Option<PathBuf>,
    /// Overwrite this whole device, which must be the target
    #[arg(long, value_name = "DEVICE")]
    pub(crate) destroy_data: Option<PathBuf>,
    /// Overwrite it even if it carries a known signature
    #[arg(long, requires = "destroy_data")]
    pub(crate) i_know: bool,
    #[command(flatten)]
    pub(crate) taking: Taking,
    /// Let the study run the programs that it names
    #[arg(long)]
    pub(crate) allow_exec: bool,
    /// Print every trial as JSON instead of the tables
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Store written by `iopj run`
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
    #[cfg(feature = "parquet")]
    #[arg(long, value_name = "FILE", group = "form")]
    pub(crate) parquet: Option<PathBuf>,
    /// Write the whole report as one self-contained HTML file
    #[arg(long, value_name = "FILE", group = "form")]
    pub(crate) html: Option<PathBuf>,
    /// Write every figure into this folder as SVG, light and dark, and as PDF
    #[arg(long, value_name = "DIR", group = "form")]
    pub(crate) figures: Option<PathBuf>,
    /// Print the papers' tables, filled in from this store
    #[arg(long, group = "form")]
    pub(crate) papers: bool,
    #[command(flatten)]
    pub(crate) competing: Competing,
}

#[derive(Debug, Args)]
pub(crate) struct WinnersArgs {
    /// Store written by `iopj run`
    pub(crate) store: PathBuf,
    /// What to compare: iops, latency_mean, latency_p99, cpu_percent, context_switches_per_io,
    /// instructions_per_io, …; for an emulated store, only counts
    #[arg(long, default_value = "iops")]
    pub(crate) metric: String,
    /// The two axes of the map: rw, bs, iodepth, numjobs
    #[arg(long, value_name = "X,Y", value_delimiter = ',', default_value = "iodepth,numjobs")]
    pub(crate) axes: Vec<String>,
    /// Statistical test: blocks (within replicates; the default except for imports) or welch, both
    /// Holm-corrected over all cells; or student (the papers' rule: the two best paths, uncorrected)
    #[arg(long)]
    pub(crate) test: Option<String>,
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
    /// Print JSON
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
    /// path=libaio/syscall/interrupt,io_uring/syscall/interrupt. KEY is path, generator, rw, bs, iodepth,
    /// numjobs or a setting; its values may be left out if it has exactly two
    #[arg(long, value_name = "KEY[=BEFORE,AFTER]")]
    pub(crate) by: Option<String>,
    /// Exit with 1 if IOPS or mean latency is significantly worse by more than this percentage; for two
    /// emulated stores with exact costs, if instructions per I/O are
    #[arg(long, value_name = "PCT")]
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
    #[arg(long, value_delimiter = ',')]
    pub(crate) path: Vec<String>,
    /// Functions to show per table
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) top: u16,
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

#[derive(Debug, Subcommand)]
pub(crate) enum MeterCommand {
    /// List the meters of this machine and what they measure; for the others, why they are missing
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Attach a meter's log, read out after the run, to a store
    Attach {
        /// Store written by `iopj run`
        store: PathBuf,
        /// The log, in the format of the study's [meters.NAME] table of kind `log`; without one, a HOBOware
        /// export
        log: PathBuf,
        /// The logger's time zone, such as UTC, +01:00 or CET-1CEST,M3.5.0,M10.5.0/3
        #[arg(long, value_name = "ZONE", allow_hyphen_values = true)]
        time_zone: Option<String>,
        /// Trust the logger's clock, to a second, instead of looking for the load pattern
        #[arg(long)]
        trust_clock: bool,
    },
    /// Fit a model of this machine's power to a store whose trials have a real meter
    Fit {
        /// Store written by `iopj run`
        store: PathBuf,
        /// File for the coefficients
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// List the kernels on offer, or fetch some
    Kernels {
        /// Series or releases to fetch, such as 5.10
        series: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Boot a kernel, run studies on an emulated drive, and copy their stores out
    Run(LabRunArgs),
    /// Boot a kernel with an emulated drive and open a shell
    Shell(GuestArgs),
    /// Stop and remove what dead runs left behind
    Clean {
        /// Remove the fetched kernels too
        #[arg(long)]
        kernels: bool,
    },
    /// Keep the kernel's counters switched on until it is stopped, and print a line once they are on; guests
    /// run it
    #[command(hide = true)]
    HoldCounters,
}

/// The drives of guests by name.
fn device() -> impl TypedValueParser<Value = Device> {
    let named = Device::ALL.map(|device| PossibleValue::new(device.as_str()).help(device.about()));
    PossibleValuesParser::new(named).try_map(|name| {
        Device::ALL.into_iter().find(|device| device.as_str() == name).ok_or("no such device")
    })
}

#[derive(Debug, Args)]
pub(crate) struct GuestArgs {
    /// Series (5.10), release (5.10.0-46-amd64), `host`, or an image together with --modules
    #[arg(long)]
    pub(crate) kernel: String,
    /// Folder of the image's modules
    #[arg(long, value_name = "DIR")]
    pub(crate) modules: Option<PathBuf>,
    /// Drive
    #[arg(long, value_parser = device(), default_value = "nvme")]
    pub(crate) device: Device,
    /// Virtual processors
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=8))]
    pub(crate) vcpus: u32,
}

#[derive(Debug, Args)]
pub(crate) struct LabRunArgs {
    /// Study files, run one after another in one boot
    #[arg(required = true, value_name = "STUDY")]
    pub(crate) studies: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) guest: GuestArgs,
    /// Count every instruction, load and store, for `iopj explain`; one study only
    #[arg(long)]
    pub(crate) exact: bool,
    /// Kernel with debug information, from which the source directory of each function is known
    #[arg(long, value_name = "FILE", requires = "exact")]
    pub(crate) vmlinux: Option<PathBuf>,
    /// Copy the programs that the studies name into the guest, and let them run there
    #[arg(long)]
    pub(crate) allow_exec: bool,
    /// Store to write, for a single study; by default the study's name in the current folder
    #[arg(long)]
    pub(crate) store: Option<PathBuf>,
    /// Stop the guest after this time, whatever it is running; then there is no store
    #[arg(long, value_name = "TIME", default_value = "15m")]
    pub(crate) time_limit: String,
}
