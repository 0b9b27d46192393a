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

impl Plan {
    /// Refuses what no submit writes, and what a shell, ssh or kubectl would take for something else.
    pub(crate) fn check(&self, path: &Path) -> Result<(), FleetError> {
        let refuse = |what: &str| {
            Err(FleetError::Refused(format!(
                "`{}` names {what}, which no submit writes: name a folder that `iopj fleet submit` made",
                path.display()
            )))
        };
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let id = &self.job.campaign;
        if !(1..=64).contains(&id.len()) || !id.chars().all(is_plain) || id.starts_with('-') {
            return refuse("an id of another form");
        }
        let is_command = |command: &str| {
            !command.trim().is_empty() && !command.starts_with('-') && !command.contains(char::is_control)
        };
        let is_folder = |folder: &Path| {
            let text = folder.to_string_lossy();
            !text.is_empty() && !text.starts_with('-') && !text.contains(char::is_control)
        };
        match &self.by {
            By::Ssh(by) => {
                if let Some(host) = by.hosts.iter().find(|host| !hosts::is_host(host)) {
                    return refuse(&format!("the host `{}`", host.escape_debug()));
                }
                if !is_command(&by.command) || by.folder.as_deref().is_some_and(|folder| !is_folder(folder)) {
                    return refuse("a command or a folder of another form");
                }
            }
            By::Slurm(by) => {
                let is_name = |name: &String| {
                    !name.is_empty()
                        && !name.starts_with('-')
                        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
                };
                let is_array = |array: &Array| {
                    !array.id.is_empty()
                        && array.id.bytes().all(|byte| byte.is_ascii_digit())
                        && array.nodes.iter().all(is_name)
                };
                let is_option =
                    |option: &String| option.starts_with("--") && !option.contains(char::is_control);
                if !is_command(&by.command) || !by.options.iter().all(is_option) {
                    return refuse("a command or an option of another form");
                }
                if !by.nodelist.iter().all(is_name) || !by.arrays.iter().all(is_array) {
                    return refuse("a node or a job array of another form");
                }
            }
            By::Kubernetes(by) => {
                let is_namespace =
                    |name: &String| !name.is_empty() && !name.starts_with('-') && name.chars().all(is_plain);
                if !by.namespace.iter().all(is_namespace) || !is_folder(&by.folder) {
                    return refuse("a namespace or a folder of another form");
                }
            }
        }
        Ok(())
    }
}
