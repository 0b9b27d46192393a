//! The options of `iopj predict`.

use super::{Competing, hints};
use clap::Args;
use std::path::PathBuf;

/// What predicts cases of its own, and would ignore others.
const SCORES: [&str; 2] = ["against", "published"];

/// What a trace says itself.
const IN_THE_TRACE: [&str; 4] = ["rw", "rwmixread", "bs", "rate"];

#[derive(Debug, Args)]
pub(crate) struct PredictArgs {
    /// Store that calibrates the model, or a model written by --write-model
    #[arg(required_unless_present = "published")]
    pub(crate) source: Option<PathBuf>,
    /// I/O paths, an interface, or a pattern such as '*/poll'; by default those that the model was calibrated
    /// by
    #[arg(long, value_delimiter = ',', help_heading = "Cases")]
    #[arg(conflicts_with_all = SCORES)]
    #[arg(value_parser = hints::PATHS, hide_possible_values = true)]
    pub(crate) path: Vec<String>,
    /// read, write, randread, randwrite, rw, randrw
    #[arg(long, value_delimiter = ',', help_heading = "Cases")]
    #[arg(conflicts_with_all = SCORES)]
    #[arg(value_parser = hints::RW, hide_possible_values = true)]
    pub(crate) rw: Vec<String>,
    /// Share of reads in rw and randrw, in per cent
    #[arg(long, help_heading = "Cases", value_parser = clap::value_parser!(u8).range(0..=100))]
    #[arg(conflicts_with_all = SCORES)]
    pub(crate) rwmixread: Option<u8>,
    /// Sizes of one I/O
    #[arg(long, value_delimiter = ',', help_heading = "Cases")]
    #[arg(conflicts_with_all = SCORES)]
    pub(crate) bs: Vec<String>,
    /// I/Os that each job keeps in flight
    #[arg(long, value_delimiter = ',', help_heading = "Cases")]
    #[arg(conflicts_with_all = SCORES)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) iodepth: Vec<u32>,
    /// Threads that do I/O
    #[arg(long, value_delimiter = ',', help_heading = "Cases")]
    #[arg(conflicts_with_all = SCORES)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) numjobs: Vec<u32>,
    /// Cores that the threads may use; by default those of the calibrated machine
    #[arg(long, help_heading = "Cases", value_parser = clap::value_parser!(u32).range(1..))]
    #[arg(conflicts_with_all = SCORES)]
    pub(crate) cores: Option<u32>,
    /// An open load: I/Os per second of all jobs together, such as 40k. It is simulated
    #[arg(long, value_name = "IOPS", help_heading = "Cases")]
    #[arg(conflicts_with_all = SCORES)]
    pub(crate) rate: Option<String>,
    /// How the I/Os of an open load arrive: linear (evenly), poisson
    #[arg(long, requires = "rate", default_value = "linear", help_heading = "Cases")]
    #[arg(conflicts_with_all = SCORES)]
    #[arg(value_parser = hints::RATE_PROCESS, hide_possible_values = true)]
    pub(crate) rate_process: String,
    /// Time for which I/Os arrive at that rate, again and again
    #[arg(long, value_name = "TIME", requires_all = ["rate", "burst_off"], help_heading = "Cases")]
    #[arg(conflicts_with_all = SCORES)]
    pub(crate) burst_on: Option<String>,
    /// Time between for which none arrives
    #[arg(long, value_name = "TIME", requires_all = ["rate", "burst_on"], help_heading = "Cases")]
    #[arg(conflicts_with_all = SCORES)]
    pub(crate) burst_off: Option<String>,
    /// Trace to replay: fio's iolog, blkparse's text, or MSR Cambridge's CSV. It is simulated
    #[arg(long, visible_alias = "trace", value_name = "FILE", help_heading = "Trace")]
    #[arg(conflicts_with_all = SCORES, conflicts_with_all = IN_THE_TRACE)]
    pub(crate) read_iolog: Option<PathBuf>,
    /// Rate of the replay in per cent of the recorded one
    #[arg(long, value_name = "PERCENT", default_value_t = 100, help_heading = "Trace")]
    #[arg(requires = "read_iolog", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) replay_time_scale: u32,
    /// Replay as fast as possible
    #[arg(long, requires = "read_iolog", help_heading = "Trace")]
    pub(crate) replay_no_stall: bool,
    /// The one device of the trace to replay
    #[arg(long, value_name = "NAME", requires = "read_iolog", help_heading = "Trace")]
    pub(crate) replay_device: Option<String>,
    /// Operations to leave out: read, write
    #[arg(long, value_name = "OP", requires = "read_iolog", help_heading = "Trace")]
    #[arg(value_parser = ["read", "write"], hide_possible_values = true)]
    pub(crate) replay_skip: Option<String>,
    /// Another drive by its data sheet, with the times of 4 KiB, such as read=8us,write=10us,parallelism=7
    #[arg(long, value_name = "SHEET", help_heading = "Cases")]
    #[arg(conflicts_with_all = SCORES)]
    pub(crate) drive: Option<String>,
    /// Another kernel: a store with exact counts of it, made by `iopj lab run --exact`. What paths take in
    /// software changes as the instructions of an I/O do, of which those of user space stay
    #[arg(long, value_name = "STORE", requires = "from_kernel", conflicts_with = "published")]
    pub(crate) kernel: Option<PathBuf>,
    /// A store with the same counts of the kernel that the model was calibrated on
    #[arg(long, value_name = "STORE", requires = "kernel", conflicts_with = "published")]
    pub(crate) from_kernel: Option<PathBuf>,
    /// Compare predictions with this store's trials. If it is the store that calibrates the model, each cell
    /// is predicted from the other cells
    #[arg(long, value_name = "STORE")]
    pub(crate) against: Option<PathBuf>,
    /// Compare the model with the figures that the papers print, each half of them predicted from the other
    #[arg(long, conflicts_with_all = ["source", "against", "write_model"])]
    pub(crate) published: bool,
    /// Write figures of predictions against measurements into this folder, as SVG and PDF; for --against and
    /// --published
    #[arg(long, value_name = "DIR", conflicts_with = "json")]
    pub(crate) figures: Option<PathBuf>,
    /// Write the model into this new file
    #[arg(long, value_name = "FILE")]
    pub(crate) write_model: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) competing: Competing,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
