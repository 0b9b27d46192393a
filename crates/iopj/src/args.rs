//! The command line's words.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use iopj_engine::PciAddress;
use iopj_lab::session::Device;
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
    /// Tell which I/O paths work on a target, and why not, with the remedy
    Check(CheckArgs),
    /// Run a study, or a matrix given by options, and keep the results in a store
    Run(Box<RunArgs>),
    /// Show the results of a store
    Report(ReportArgs),
    /// Write a store as JSON or CSV
    Export(ExportArgs),
    /// Show which path wins in each workload, or that it is a tie
    Winners(WinnersArgs),
    /// Decide the papers' findings by a store's trials
    Claims(ClaimsArgs),
    /// Tell what got better or worse from one store to another, or from one setting to another, beyond noise
    Compare(CompareArgs),
    /// Explain where the cost of an I/O arises, path beside path
    Explain(ExplainArgs),
    /// Take in results of other programs
    Import(ImportArgs),
    /// Run a study in a virtual machine with emulated NVMe, on a kernel of your choice
    #[command(subcommand)]
    Lab(LabCommand),
    /// Show the meters of this machine, bring a meter's log into a store, fit a model
    #[command(subcommand)]
    Meter(MeterCommand),
    /// Put back settings that a run which died has left behind
    Restore(RestoreArgs),
    /// Write the manual pages into a folder
    #[command(hide = true)]
    Man { folder: PathBuf },
    /// Print a shell's completions
    #[command(hide = true)]
    Completions { shell: Shell },
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// File, block device or /dev/ngXnY; by default a small file that is made in the current folder and
    /// removed
    pub(crate) target: Option<PathBuf>,
    /// Take this NVMe controller from its driver for the paths of kernel bypass, and give it back
    #[arg(long, value_name = "PCI-ADDRESS")]
    pub(crate) take_device: Option<PciAddress>,
    /// Take it even without an IOMMU, where a fault can overwrite any memory
    #[arg(long, requires = "take_device")]
    pub(crate) i_know_no_iommu: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of the matrix override the study's; lists are separated by commas.
#[derive(Debug, Default, Args)]
pub(crate) struct RunArgs {
    /// Study file; by default the quick study
    pub(crate) study: Option<PathBuf>,
    /// File, block device or /dev/ngXnY; by default a file that is made beside the store and removed at the
    /// end
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
    /// I/Os that a job keeps in flight
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
    /// I/Os of each job to measure, instead of a time
    #[arg(long, help_heading = "Matrix")]
    pub(crate) ios: Option<u64>,
    /// Times that each cell is measured
    #[arg(long, help_heading = "Matrix")]
    pub(crate) replicates: Option<u32>,
    /// What issues the I/O: native, fio, or native,fio
    #[arg(long, value_delimiter = ',', help_heading = "Matrix")]
    pub(crate) generator: Vec<String>,
    /// Sample every core while a trial is measured, and keep what it cost by function
    #[arg(long)]
    pub(crate) profile: bool,
    /// Store to write; by default the study's name in the current folder
    #[arg(long)]
    pub(crate) store: Option<PathBuf>,
    /// Do the trials that a store lacks
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
    /// Take this NVMe controller from its driver for the paths of kernel bypass, and give it back
    #[arg(long, value_name = "PCI-ADDRESS")]
    pub(crate) take_device: Option<PciAddress>,
    /// Take it even without an IOMMU, where a fault can overwrite any memory
    #[arg(long, requires = "take_device")]
    pub(crate) i_know_no_iommu: bool,
    /// Let the study run the programs that it names
    #[arg(long)]
    pub(crate) allow_exec: bool,
    /// Print every trial as JSON instead of the tables
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Store that `iopj run` has written
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
    /// Write the whole report as one HTML file that needs nothing else
    #[arg(long, value_name = "FILE", group = "form")]
    pub(crate) html: Option<PathBuf>,
    /// Write every figure as SVG and as PDF into this folder
    #[arg(long, value_name = "DIR", group = "form")]
    pub(crate) figures: Option<PathBuf>,
    /// Print the papers' tables, from this store
    #[arg(long, group = "form")]
    pub(crate) papers: bool,
    /// Let unproven and disturbed trials compete, marked
    #[arg(long)]
    pub(crate) with_unproven: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WinnersArgs {
    /// Store that `iopj run` has written
    pub(crate) store: PathBuf,
    /// What is compared: iops, latency_mean, latency_p99, cpu_percent, context_switches_per_io,
    /// instructions_per_io, …; of an emulated store counts alone
    #[arg(long, default_value = "iops")]
    pub(crate) metric: String,
    /// The two axes of the map: rw, bs, iodepth, numjobs
    #[arg(long, value_name = "X,Y", value_delimiter = ',', default_value = "iodepth,numjobs")]
    pub(crate) axes: Vec<String>,
    /// Test: blocks (within replicates; the default but for imports) or welch, both after Holm over all
    /// cells; or student (the papers' rule: the two best, not corrected)
    #[arg(long)]
    pub(crate) test: Option<String>,
    /// Let unproven and disturbed trials compete, marked
    #[arg(long)]
    pub(crate) with_unproven: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ClaimsArgs {
    /// Store that `iopj run` has written
    pub(crate) store: PathBuf,
    /// Let unproven and disturbed trials compete, marked
    #[arg(long)]
    pub(crate) with_unproven: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// Store of the trials before
    pub(crate) before: PathBuf,
    /// Store of the trials after
    #[arg(required_unless_present = "by", conflicts_with = "by")]
    pub(crate) after: Option<PathBuf>,
    /// Compare trials of one store, as in io_poll_delay=-1,50 or
    /// path=libaio/syscall/interrupt,io_uring/syscall/interrupt: KEY is path, generator, rw, bs, iodepth,
    /// numjobs or a setting; its values may be left out if it has two
    #[arg(long, value_name = "KEY[=BEFORE,AFTER]")]
    pub(crate) by: Option<String>,
    /// Exit with 1 if IOPS or mean latency is significantly worse by more than this share; of two emulated
    /// stores with exact costs, if instructions per I/O are
    #[arg(long, value_name = "PCT")]
    pub(crate) fail_on_regression: Option<f64>,
    /// Let unproven and disturbed trials compete, marked
    #[arg(long)]
    pub(crate) with_unproven: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// Store whose trials have costs: of `iopj lab run --exact` or `iopj run --profile`
    pub(crate) store: PathBuf,
    /// I/O paths to show, the first being what the others are held against; by default all that have costs
    #[arg(long, value_delimiter = ',')]
    pub(crate) path: Vec<String>,
    /// Functions to show of each table
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
        /// Files that fio has written
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Store to write
        #[arg(long, default_value = "import.iopj")]
        store: PathBuf,
        /// Release of the kernel that the jobs ran on, such as 6.18, which fio does not tell: what it rules
        /// out refutes more
        #[arg(long, value_name = "RELEASE")]
        kernel: Option<KernelVersion>,
    },
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false, id = "format")]
pub(crate) struct ExportFormat {
    /// Everything, with histograms and time series
    #[arg(long)]
    pub(crate) json: bool,
    /// A line a trial
    #[arg(long)]
    pub(crate) csv: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Store that `iopj run` has written
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
    /// Tell which meters this machine has, what they measure, and why it lacks the others
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Bring the log of a meter that was read out afterwards into a study's store
    Attach {
        /// Store that `iopj run` has written
        store: PathBuf,
        /// The log, as the study's [meters.NAME] table of kind `log` says; without one a HOBOware export
        log: PathBuf,
        /// The logger's time zone, such as UTC, +01:00 or CET-1CEST,M3.5.0,M10.5.0/3
        #[arg(long, value_name = "ZONE", allow_hyphen_values = true)]
        time_zone: Option<String>,
        /// Believe the logger's clock, to a second, instead of looking for the load pattern
        #[arg(long)]
        trust_clock: bool,
    },
    /// Fit a model of this machine's power to a store whose trials have a real meter
    Fit {
        /// Store that `iopj run` has written
        store: PathBuf,
        /// File for the coefficients
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// List the kernels that can be had, or fetch some
    Kernels {
        /// Series or releases to fetch, such as 5.10
        series: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Boot a kernel, run studies on an emulated drive, and bring their stores out
    Run(LabRunArgs),
    /// Boot a kernel with an emulated drive and give its shell
    Shell(GuestArgs),
    /// End what runs that died have left, and remove it
    Clean {
        /// Remove the fetched kernels too
        #[arg(long)]
        kernels: bool,
    },
    /// Keep on what the kernel switches for the counters of each trial, until ended; says so once it is done.
    /// Guests run it
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
    /// Series (5.10), release (5.10.0-46-amd64), `host`, or an image beside --modules
    #[arg(long)]
    pub(crate) kernel: String,
    /// Folder of the modules that belong to the image
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
    /// Study files, run one after the other in one boot
    #[arg(required = true, value_name = "STUDY")]
    pub(crate) studies: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) guest: GuestArgs,
    /// Count every instruction, load and store, for `iopj explain`; one study only
    #[arg(long)]
    pub(crate) exact: bool,
    /// Kernel with debug information, which tells the source directory of each function
    #[arg(long, value_name = "FILE", requires = "exact")]
    pub(crate) vmlinux: Option<PathBuf>,
    /// Take the programs that the studies name into the guest, and let it run them there
    #[arg(long)]
    pub(crate) allow_exec: bool,
    /// Store to write, of one study; by default the study's name in the current folder
    #[arg(long)]
    pub(crate) store: Option<PathBuf>,
    /// End a guest after this time, whatever it runs; then there is no store
    #[arg(long, value_name = "TIME", default_value = "15m")]
    pub(crate) time_limit: String,
}
