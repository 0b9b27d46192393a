//! How a campaign is run and where, as its folder keeps it, and what of that no submit writes.

use crate::error::FleetError;
use crate::hosts;
use crate::job::Job;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// How a campaign is run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// [`FORMAT`](crate::job::FORMAT).
    pub format: u32,
    /// What each host's job is told. Its id tells the campaign from others on a host.
    pub job: Job,
    /// What runs it.
    pub by: By,
}

/// What runs a campaign.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// The user's own ssh.
    Ssh(BySsh),
    /// Slurm.
    Slurm(BySlurm),
    /// Kubernetes.
    Kubernetes(ByKubernetes),
}

impl By {
    pub(crate) fn word(&self) -> &'static str {
        match self {
            By::Ssh(_) => "ssh",
            By::Slurm(_) => "slurm",
            By::Kubernetes(_) => "kubernetes",
        }
    }

    /// The folder of the hosts that jobs and their stores have, where this says it.
    pub(crate) fn folder(&self) -> Option<&Path> {
        match self {
            By::Ssh(by) => by.folder.as_deref(),
            By::Slurm(_) => None,
            By::Kubernetes(by) => Some(&by.folder),
        }
    }
}

/// A campaign over ssh.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BySsh {
    /// The hosts as ssh takes them.
    pub hosts: Vec<String>,
    /// How many may run at the same time.
    pub parallel: usize,
    /// The command that is iopj there.
    pub command: String,
    /// Copy this iopj there, and use the copy.
    pub push: bool,
    /// The folder there below which jobs have theirs; the user's own if absent.
    pub folder: Option<PathBuf>,
}

/// A campaign by Slurm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BySlurm {
    /// How many nodes, whichever they are.
    pub nodes: Option<u32>,
    /// These nodes, by their names.
    pub nodelist: Vec<String>,
    /// Options of sbatch, such as `--partition=io`.
    pub options: Vec<String>,
    /// The command that is iopj there.
    pub command: String,
    /// The job arrays so far.
    #[serde(default)]
    pub arrays: Vec<Array>,
}

/// A job array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Array {
    /// Slurm's number.
    pub id: String,
    /// How many tasks it has.
    pub tasks: u32,
    /// The node of each task, where it is fixed.
    pub nodes: Vec<String>,
}

/// A campaign by Kubernetes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByKubernetes {
    /// The namespace; the one of kubectl's context if absent.
    pub namespace: Option<String>,
    /// The folder of each node that holds stores.
    pub folder: PathBuf,
    /// How many pods are meant to run; unknown for a DaemonSet.
    pub nodes: Option<u32>,
}

/// What of a plan has a form that a shell, ssh or kubectl would take for something else.
struct Fault {
    what: String,
    rule: &'static str,
}

impl Plan {
    /// Refuses what nobody may submit.
    pub(crate) fn check_submitted(&self) -> Result<(), FleetError> {
        let Some(Fault { what, rule }) = self.fault() else { return Ok(()) };
        Err(FleetError::Refused(format!("{what} cannot be used: {rule}")))
    }

    /// Refuses what no submit writes.
    pub(crate) fn check(&self, path: &Path) -> Result<(), FleetError> {
        let Some(Fault { what, .. }) = self.fault() else { return Ok(()) };
        Err(FleetError::Refused(format!(
            "`{}` names {what}, which no submit writes: name a folder that `iopj fleet submit` made",
            path.display()
        )))
    }

    fn fault(&self) -> Option<Fault> {
        let of_id = named("id", &self.job.campaign, is_id, PLAIN);
        of_id.or_else(|| match &self.by {
            By::Ssh(by) => {
                let is_strange = |host: &&String| !hosts::is_host(host);
                let host = by.hosts.iter().find(is_strange).map(|host| Fault {
                    what: format!("the host `{}`", host.escape_debug()),
                    rule: "a host is a name or an address, as ssh takes it, and no option",
                });
                host.or_else(|| named("command", &by.command, is_command, TEXT))
                    .or_else(|| folder(by.folder.as_deref()))
            }
            By::Slurm(by) => {
                let nodes = by.nodelist.iter().chain(by.arrays.iter().flat_map(|array| &array.nodes));
                let option = |option: &String| named("option", option, is_option, OPTION);
                let array = |array: &Array| named("job array", &array.id, is_number, "Slurm numbers them");
                named("command", &by.command, is_command, TEXT)
                    .or_else(|| by.options.iter().find_map(option))
                    .or_else(|| nodes.into_iter().find_map(|node| named("node", node, is_node, NODE)))
                    .or_else(|| by.arrays.iter().find_map(array))
                    .or_else(|| by.arrays.iter().find(|array| array.tasks > MOST_TASKS).map(too_many))
            }
            By::Kubernetes(by) => {
                let namespace = by.namespace.as_ref();
                namespace
                    .and_then(|name| named("namespace", name, is_id, PLAIN))
                    .or_else(|| folder(Some(&by.folder)))
            }
        })
    }
}

/// More tasks than this no job array has (slurm.conf(5), `MaxArraySize`).
const MOST_TASKS: u32 = 4_000_001;

fn too_many(array: &Array) -> Fault {
    Fault {
        what: format!("the job array {} of {} tasks", array.id, array.tasks),
        rule: "no array has so many",
    }
}

const PLAIN: &str = "write 1 to 64 lower-case letters and digits, and `-` after the first of them";
const TEXT: &str = "it may be neither empty nor an option, nor have control characters";
const OPTION: &str = "write options of sbatch as `--NAME=VALUE`";
const NODE: &str = "write a name of letters, digits, `-`, `_` and `.` that begins with no `-`";

fn named(kind: &str, text: &str, is_right: fn(&str) -> bool, rule: &'static str) -> Option<Fault> {
    (!is_right(text)).then(|| Fault { what: format!("the {kind} `{}`", text.escape_debug()), rule })
}

fn folder(folder: Option<&Path>) -> Option<Fault> {
    named("folder", &folder?.to_string_lossy(), is_command, TEXT)
}

fn is_id(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=64).contains(&text.len()) && text.chars().all(is_plain) && !text.starts_with('-')
}

fn is_command(text: &str) -> bool {
    !text.trim().is_empty() && !text.starts_with('-') && !text.contains(char::is_control)
}

fn is_option(text: &str) -> bool {
    text.starts_with("--") && !text.contains(char::is_control)
}

fn is_node(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !text.is_empty() && !text.starts_with('-') && text.chars().all(is_plain)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
