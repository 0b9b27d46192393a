//! The options of `iopj run`.

use super::allow::AllowArgs;
use super::{PublishArgs, Taking, hints};
use clap::{Args, ValueEnum};
use iopj_core::parse_duration;
use std::path::PathBuf;
use std::time::Duration;

/// Options of the matrix override the study's; lists are separated by commas.
#[derive(Debug, Default, Args)]
pub(crate) struct RunArgs {
    /// Study file; by default the quick study
    pub(crate) study: Option<PathBuf>,
    /// File, block device or /dev/ngXnY; by default a file, made next to the store and removed afterwards
    #[arg(long)]
    pub(crate) target: Option<PathBuf>,
    /// Name of the study, and of its store
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// I/O paths, such as io_uring/syscall/interrupt, an interface, a pattern such as '*/poll', or
    /// `available`
    #[arg(long, value_delimiter = ',', help_heading = "Matrix")]
    #[arg(value_parser = hints::RUN_PATHS, hide_possible_values = true)]
    pub(crate) path: Vec<String>,
    /// read, write, randread, randwrite, rw, randrw
    #[arg(long, value_delimiter = ',', help_heading = "Matrix")]
    #[arg(value_parser = hints::RW, hide_possible_values = true)]
    pub(crate) rw: Vec<String>,
    /// Share of reads in rw and randrw, in per cent
    #[arg(long, value_delimiter = ',', help_heading = "Matrix")]
    pub(crate) rwmixread: Vec<u8>,
    /// Sizes of one I/O
    #[arg(long, value_delimiter = ',', help_heading = "Matrix")]
    pub(crate) bs: Vec<String>,
    /// Several sizes with their shares in per cent, such as 4k/60:64k/40; after a comma those of writes
    #[arg(long, value_name = "SIZES", conflicts_with = "bs", help_heading = "Matrix")]
    pub(crate) bssplit: Vec<String>,
    /// Ask for fsync after so many writes of a job
    #[arg(long, value_name = "WRITES", value_delimiter = ',', help_heading = "Matrix")]
    pub(crate) fsync: Vec<u32>,
    /// Ask for fdatasync after so many writes of a job
    #[arg(long, value_name = "WRITES", value_delimiter = ',', help_heading = "Matrix")]
    pub(crate) fdatasync: Vec<u32>,
    /// Make each write durable when it completes: none, dsync (its data), sync (with the file's times)
    #[arg(long, value_delimiter = ',', help_heading = "Matrix")]
    #[arg(value_parser = hints::SYNC, hide_possible_values = true)]
    pub(crate) sync: Vec<String>,
    /// I/Os that each job keeps in flight
    #[arg(long, value_delimiter = ',', help_heading = "Matrix")]
    pub(crate) iodepth: Vec<u32>,
    /// Largest number of I/Os submitted at once
    #[arg(long, value_delimiter = ',', help_heading = "Matrix")]
    pub(crate) iodepth_batch_submit: Vec<u32>,
    /// Smallest number of completions that a job waits for at once
    #[arg(long, value_delimiter = ',', help_heading = "Matrix")]
    pub(crate) iodepth_batch_complete_min: Vec<u32>,
    /// Threads that do I/O
    #[arg(long, value_delimiter = ',', help_heading = "Matrix")]
    pub(crate) numjobs: Vec<u32>,
    /// How random offsets are spread: uniform, or zipf:THETA
    #[arg(long, value_delimiter = ',', help_heading = "Matrix")]
    pub(crate) random_distribution: Vec<String>,
    /// I/Os that each job is due to do in a second: an open load, with up to iodepth in flight
    #[arg(long, value_delimiter = ',', help_heading = "Matrix")]
    pub(crate) rate_iops: Vec<u32>,
    /// Spacing of these I/Os: linear, poisson
    #[arg(long, value_delimiter = ',', help_heading = "Matrix")]
    #[arg(value_parser = hints::RATE_PROCESS, hide_possible_values = true)]
    pub(crate) rate_process: Vec<String>,
    /// Rate at the window's end, to which it moves evenly
    #[arg(long, help_heading = "Matrix")]
    pub(crate) rate_iops_end: Option<u32>,
    /// Time for which I/Os arrive, again and again
    #[arg(long, value_name = "TIME", help_heading = "Matrix")]
    pub(crate) burst_on: Option<String>,
    /// Time between for which none arrives
    #[arg(long, value_name = "TIME", help_heading = "Matrix")]
    pub(crate) burst_off: Option<String>,
    /// Work beside the I/O: none, spin, memory, branch
    #[arg(long, value_delimiter = ',', help_heading = "Matrix")]
    #[arg(value_parser = hints::CORUNNER, hide_possible_values = true)]
    pub(crate) corunner: Vec<String>,
    /// Its processors, such as 0-3,8 [default: those of the jobs]
    #[arg(long, value_name = "LIST", help_heading = "Matrix")]
    pub(crate) corunner_cpus: Option<String>,
    /// Its niceness, -20 to 19 [default: 19]
    #[arg(long, value_delimiter = ',', allow_negative_numbers = true, help_heading = "Matrix")]
    pub(crate) corunner_nice: Vec<i32>,
    /// Trace to replay: fio's iolog, blkparse's text, or MSR Cambridge's CSV
    #[arg(long, value_name = "FILE", help_heading = "Trace")]
    pub(crate) read_iolog: Option<String>,
    /// Rate of the replay in per cent of the recorded one
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', help_heading = "Trace")]
    pub(crate) replay_time_scale: Vec<u32>,
    /// Replay as fast as possible
    #[arg(long, help_heading = "Trace")]
    pub(crate) replay_no_stall: bool,
    /// Divide offsets by this
    #[arg(long, value_name = "N", help_heading = "Trace")]
    pub(crate) replay_scale: Option<u64>,
    /// Lower offsets to multiples of this size
    #[arg(long, value_name = "SIZE", help_heading = "Trace")]
    pub(crate) replay_align: Option<String>,
    /// What becomes of I/Os beyond the target: refuse, wrap
    #[arg(long, value_name = "HOW", help_heading = "Trace")]
    pub(crate) replay_map: Option<String>,
    /// The one device of the trace to replay
    #[arg(long, value_name = "NAME", help_heading = "Trace")]
    pub(crate) replay_device: Option<String>,
    /// Operations to leave out: read, write, flush, fsync, discard
    #[arg(long, value_name = "OP", value_delimiter = ',', help_heading = "Trace")]
    pub(crate) replay_skip: Vec<String>,
    /// Processors that the jobs may use, such as 0-3,8
    #[arg(long, value_name = "LIST", help_heading = "Matrix")]
    pub(crate) cpus_allowed: Option<String>,
    /// Time to run before measuring
    #[arg(long, help_heading = "Matrix")]
    pub(crate) ramp_time: Option<String>,
    /// Time to measure
    #[arg(long, conflicts_with = "ios", help_heading = "Matrix")]
    pub(crate) runtime: Option<String>,
    /// I/Os per job to measure, instead of a time
    #[arg(long, help_heading = "Matrix")]
    pub(crate) ios: Option<u64>,
    /// Number of times that each cell is measured
    #[arg(long, help_heading = "Matrix")]
    pub(crate) replicates: Option<u32>,
    /// What issues the I/O: native, fio, or native,fio
    #[arg(long, value_delimiter = ',', help_heading = "Matrix")]
    #[arg(value_parser = hints::GENERATORS, hide_possible_values = true)]
    pub(crate) generator: Vec<String>,
    /// Size of the file that is made if there is no --target
    #[arg(long, help_heading = "Matrix")]
    pub(crate) size: Option<String>,
    /// Seed for the order of the trials and for random offsets
    #[arg(long, help_heading = "Matrix")]
    pub(crate) seed: Option<u64>,
    /// Meters that run beside the trials: none, or local, those of this machine; others need a study file
    #[arg(long, help_heading = "Matrix")]
    #[arg(value_parser = hints::METERS, hide_possible_values = true)]
    pub(crate) meters: Option<String>,
    /// Show what the run would do, without doing it: trials, time, bytes, changes, paths left out
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Sample every core during each trial, and record the cost of each function
    #[arg(long)]
    pub(crate) profile: bool,
    /// Store to write; by default a file named after the study, in the current folder
    #[arg(long)]
    pub(crate) store: Option<PathBuf>,
    /// Run the trials that this store still lacks
    #[arg(
        long,
        value_name = "STORE",
        conflicts_with_all = [
            "study", "target", "name", "path", "rw", "rwmixread", "bs", "bssplit", "fsync", "fdatasync",
            "sync", "iodepth", "iodepth_batch_submit", "iodepth_batch_complete_min", "numjobs",
            "random_distribution", "rate_iops", "rate_process", "rate_iops_end", "burst_on", "burst_off",
            "read_iolog", "replay_time_scale", "replay_no_stall", "replay_scale", "replay_align",
            "replay_map", "replay_device", "replay_skip", "corunner", "corunner_cpus", "corunner_nice",
            "cpus_allowed", "ramp_time", "runtime", "ios", "replicates", "generator", "size", "seed",
            "meters", "dry_run", "profile", "store", "anyway",
        ]
    )]
    pub(crate) resume: Option<PathBuf>,
    /// With --resume: measure again each block that has a trial of this kind; the old trials stay in the
    /// store, marked as replaced
    #[arg(long, value_enum, value_name = "KIND", value_delimiter = ',', requires = "resume")]
    pub(crate) again: Vec<Again>,
    /// Wait for another run on the same drive to end, at most this long (10m if no time is given)
    #[arg(
        long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "10m",
        value_parser = parse_duration
    )]
    pub(crate) wait: Option<Duration>,
    /// Overwrite this whole device, which must be the target; over fabrics HOST:DEVICE, and once more the
    /// study's drive of this host
    #[arg(long, value_name = "DEVICE")]
    pub(crate) destroy_data: Vec<PathBuf>,
    /// Overwrite each device so named even if it carries a known signature
    #[arg(long, requires = "destroy_data")]
    pub(crate) i_know: bool,
    #[command(flatten)]
    pub(crate) taking: Taking,
    /// Copy this iopj to the target host of a study over fabrics, and run that copy there
    #[arg(long)]
    pub(crate) push: bool,
    /// Follow policies (auto:FILE) of another machine, kernel or drive too; the store and its reports say so
    #[arg(long)]
    pub(crate) anyway: bool,
    #[command(flatten)]
    pub(crate) allow: AllowArgs,
    #[command(flatten)]
    pub(crate) publish: PublishArgs,
    /// Print every trial, or the plan of --dry-run, as JSON instead of tables
    #[arg(long)]
    pub(crate) json: bool,
}

/// A trial to measure again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Again {
    /// No evidence shows which path the trial took
    Unproven,
    /// The rate changed during the window, or was still changing when the ramp ended
    Unsteady,
    /// Something else disturbed the trial
    Disturbed,
    /// The trial measured nothing
    Failed,
    /// The trial took another path
    Refuted,
}
