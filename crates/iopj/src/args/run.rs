//! The options of `iopj run`.

use super::Taking;
use clap::Args;
use std::path::PathBuf;

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
