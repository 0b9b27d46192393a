//! The options of `iopj fleet`.

use super::allow::AllowArgs;
use super::examples;
use super::fleet_data::FleetDataCommand;
use clap::{ArgGroup, Args, Subcommand, ValueHint};
use iopj_core::parse_duration;
use iopj_fleet::owner::Owner;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Subcommand)]
pub(crate) enum FleetCommand {
    /// Run a study on many hosts; what is complete already is not run again
    #[command(after_help = examples::FLEET_SUBMIT)]
    Submit(Box<SubmitArgs>),
    /// Show what has become of each host's job
    #[command(after_help = examples::FLEET_STATUS)]
    Status(StatusArgs),
    /// Fetch the hosts' stores, by SQLite's backup
    #[command(after_help = examples::FLEET_FETCH)]
    Fetch(FetchArgs),
    /// End all jobs, and wait until each has put its host's settings back
    #[command(after_help = examples::FLEET_CANCEL)]
    Cancel {
        /// Folder of the campaign
        #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
        folder: PathBuf,
    },
    #[command(flatten)]
    Data(FleetDataCommand),
    /// A host's job, on that host
    #[command(hide = true)]
    Job(JobArgs),
    /// Write a store with what its log holds to standard output
    #[command(hide = true)]
    Store {
        /// Store
        store: PathBuf,
    },
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("by").required(true).args(["ssh", "slurm", "kubernetes"]))]
pub(crate) struct SubmitArgs {
    /// Study file
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) study: PathBuf,
    /// Run it over ssh on these hosts: a file with one a line, or a list with commas
    #[arg(long, value_name = "HOSTS")]
    pub(crate) ssh: Option<String>,
    /// Run it as a job array of Slurm; the campaign's folder must be on a file system that all nodes share
    #[arg(long)]
    pub(crate) slurm: bool,
    /// Run it as a Job or a DaemonSet of Kubernetes
    #[arg(long)]
    pub(crate) kubernetes: bool,
    /// Folder of the campaign; by default the study's name with `.fleet`
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,
    /// File, block device or /dev/ngXnY of each host; by default a file that iopj makes beside its store
    #[arg(long)]
    pub(crate) target: Option<PathBuf>,
    /// List of the serial numbers of the drives that may be written, one a line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) serials: Option<PathBuf>,
    /// Overwrite the whole device of --target on every host whose drive is listed
    #[arg(long, requires_all = ["target", "serials"])]
    pub(crate) destroy_data: bool,
    #[command(flatten)]
    pub(crate) allow: AllowArgs,
    /// Wait for another run on the same drive to end, at most this long (24h if no time is given); hosts that
    /// share a drive take turns
    #[arg(
        long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "24h",
        value_parser = parse_duration
    )]
    pub(crate) wait: Option<Duration>,
    /// Folder of each host for its store, and for the file that iopj makes
    #[arg(long, value_name = "DIR")]
    pub(crate) scratch: Option<PathBuf>,
    /// Command that is iopj on the hosts, such as `sudo -n iopj`
    #[arg(long, value_name = "COMMAND", default_value = "iopj", conflicts_with = "kubernetes")]
    pub(crate) command: String,
    #[command(flatten)]
    pub(crate) over_ssh: OverSsh,
    /// Number of nodes, whichever they are
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "ssh")]
    pub(crate) nodes: Option<u32>,
    #[command(flatten)]
    pub(crate) by_slurm: BySlurmArgs,
    #[command(flatten)]
    pub(crate) by_kubernetes: ByKubernetesArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "ssh")]
pub(crate) struct OverSsh {
    /// Hosts that run at the same time
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) parallel: u16,
    /// Copy this iopj to the hosts, and run that copy there
    #[arg(long, requires = "ssh")]
    pub(crate) push: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Slurm")]
pub(crate) struct BySlurmArgs {
    /// Nodes by their names, as Slurm writes them
    #[arg(long, value_name = "LIST", requires = "slurm", conflicts_with = "nodes")]
    pub(crate) nodelist: Option<String>,
    /// Features that a node must have, as for sbatch
    #[arg(long, value_name = "LIST", requires = "slurm")]
    pub(crate) constraint: Option<String>,
    /// Generic resources of a task, as for sbatch
    #[arg(long, value_name = "LIST", requires = "slurm")]
    pub(crate) gres: Option<String>,
    /// Partition, as for sbatch
    #[arg(long, value_name = "NAME", requires = "slurm")]
    pub(crate) partition: Option<String>,
    /// The longest time of a task, as for sbatch
    #[arg(long, value_name = "TIME", requires = "slurm")]
    pub(crate) time: Option<String>,
    /// Account, as for sbatch
    #[arg(long, value_name = "NAME", requires = "slurm")]
    pub(crate) account: Option<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Kubernetes")]
pub(crate) struct ByKubernetesArgs {
    /// Run on every node that the selectors leave, instead of on --nodes of them
    #[arg(long, requires = "kubernetes", conflicts_with = "nodes")]
    pub(crate) daemonset: bool,
    /// Image that holds iopj
    #[arg(long, value_name = "IMAGE", requires = "kubernetes")]
    pub(crate) image: Option<String>,
    /// Label that a node must have
    #[arg(long, value_name = "KEY=VALUE", requires = "kubernetes")]
    pub(crate) node_selector: Vec<String>,
    /// Namespace; by default the one of kubectl's context
    #[arg(long, value_name = "NAME", requires = "kubernetes")]
    pub(crate) namespace: Option<String>,
    /// How long a pod stays after its run, for its store to be fetched
    #[arg(
        long, value_name = "TIME", default_value = "24h", value_parser = parse_duration,
        requires = "kubernetes"
    )]
    pub(crate) hold: Duration,
    /// Write the manifest, and apply nothing
    #[arg(long, requires = "kubernetes")]
    pub(crate) manifest_only: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Folder of the campaign
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) folder: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct FetchArgs {
    /// Folder of the campaign
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) folder: PathBuf,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("action").args(["look", "start", "watch", "await", "stop"]))]
pub(crate) struct JobArgs {
    /// Folder of the job
    #[arg(required_unless_present = "campaign")]
    pub(crate) folder: Option<PathBuf>,
    /// Folder of the campaign, where this host shares it
    #[arg(long, conflicts_with_all = ["folder", "action"])]
    pub(crate) campaign: Option<PathBuf>,
    /// The name of this host in the campaign
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,
    /// The scheduler's name of the task
    #[arg(long, value_name = "TASK")]
    pub(crate) task: Option<String>,
    /// In whose name root reads and writes the folder
    #[arg(long, value_name = "UID:GIDS", conflicts_with = "campaign")]
    pub(crate) owner: Option<Owner>,
    /// What the job is told, where that is not in its folder
    #[arg(long, value_name = "FILE")]
    pub(crate) description: Option<PathBuf>,
    /// Print what is known
    #[arg(long)]
    pub(crate) look: bool,
    /// Start the job unless it runs, then print what is known
    #[arg(long)]
    pub(crate) start: bool,
    /// Run the job, and record how it ends
    #[arg(long)]
    pub(crate) watch: bool,
    /// Wait a little for its end, then print what is known
    #[arg(long = "await", id = "await")]
    pub(crate) wait_for_end: bool,
    /// End it and wait for its end, then print what is known
    #[arg(long)]
    pub(crate) stop: bool,
    /// How often the campaign was cancelled: a start that knows of fewer than the last stop begins nothing
    #[arg(long, value_name = "N", conflicts_with_all = ["campaign", "look", "await"])]
    pub(crate) cancels: Option<u64>,
}
