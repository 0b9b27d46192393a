//! The options of `iopj watch`.

use super::PublishArgs;
use clap::{ArgGroup, Args, ValueHint};
use iopj_core::parse_duration;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("subject").required(true).args(["command", "pid", "cgroup", "device"]))]
pub(crate) struct WatchArgs {
    /// Program to run and to watch for its life, with its arguments, after `--`; its exit code is passed on
    #[arg(last = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
    /// Process that runs already, with its descendants
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) pid: Option<i32>,
    /// Control group: its folder, or its place below /sys/fs/cgroup
    #[arg(long, value_name = "PATH", value_hint = ValueHint::DirPath)]
    pub(crate) cgroup: Option<PathBuf>,
    /// Block device, whoever uses it
    #[arg(long, value_name = "DEVICE", value_hint = ValueHint::FilePath)]
    pub(crate) device: Option<PathBuf>,
    /// Watch so long (default: until Ctrl-C)
    #[arg(long = "for", value_name = "TIME", conflicts_with = "command", value_parser = parse_duration)]
    pub(crate) length: Option<Duration>,
    /// Show figures so often
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    pub(crate) interval: Duration,
    /// Print a JSON object a line for each interval, and one for the whole; beside a program, whose standard
    /// output is its own, on standard error
    #[arg(long)]
    pub(crate) json: bool,
    /// Store to write in the end
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) store: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) publish: PublishArgs,
}
