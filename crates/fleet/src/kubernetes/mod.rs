//! A campaign as a Job or a DaemonSet of Kubernetes, by the user's own kubectl.

pub mod manifest;
mod pods;
mod yaml;

pub use manifest::Asked;

use crate::campaign::{ByKubernetes, Campaign};
use crate::error::FleetError;
use crate::files;
use crate::job::{Look, Phase, State};
use crate::program;
use crate::transfer;
use manifest::LABEL;
use pods::{Begun, Pod};
use std::path::PathBuf;
use std::process::{Command, Stdio};

const PACKAGE: &str = "kubectl, and give it a context that reaches the cluster";

/// A campaign by Kubernetes, and what is needed to run it.
pub struct Kubernetes<'a> {
    campaign: &'a Campaign,
    by: &'a ByKubernetes,
    say: &'a (dyn Fn(&str) + Sync),
}

impl<'a> Kubernetes<'a> {
    /// A campaign that Kubernetes runs.
    pub fn new(
        campaign: &'a Campaign,
        by: &'a ByKubernetes,
        say: &'a (dyn Fn(&str) + Sync),
    ) -> Kubernetes<'a> {
        Kubernetes { campaign, by, say }
    }

    /// Writes the manifest, and applies it.
    ///
    /// # Errors
    /// It cannot be written, or kubectl refuses.
    pub fn submit(&self, asked: &Asked, manifest_only: bool) -> Result<(), FleetError> {
        let path = self.campaign.folder().join("manifest.yaml");
        let text = manifest::manifest(&self.campaign.plan().job, self.by, asked)?;
        files::write(&path, text.as_bytes())?;
        (self.say)(&format!("manifest: {}", path.display()));
        if manifest_only {
            return Ok(());
        }
        let applied = self.kubectl(&["apply", "--filename", &path.display().to_string()])?;
        applied.lines().for_each(|line| (self.say)(line));
        Ok(())
    }

    fn arguments(&self, words: &[&str]) -> Vec<String> {
        let namespace = self.by.namespace.iter().map(|name| format!("--namespace={name}"));
        namespace.chain(words.iter().map(|word| (*word).to_owned())).collect()
    }

    fn kubectl(&self, words: &[&str]) -> Result<String, FleetError> {
        program::output("kubectl", &self.arguments(words), PACKAGE)
    }

    fn pods(&self) -> Result<Vec<Pod>, FleetError> {
        let label = format!("--selector={LABEL}={}", self.campaign.id());
        pods::parse(&self.kubectl(&["get", "pods", &label, "--output=json"])?)
    }

    fn ask(&self, pod: &Pod, what: &str) -> Result<Option<State>, FleetError> {
        let folder = self.by.folder.join(self.campaign.id()).display().to_string();
        let answer = self.kubectl(&["exec", &pod.name, "--", "iopj", "fleet", "job", &folder, what])?;
        let look: Look = serde_json::from_str(answer.lines().last().unwrap_or_default())
            .map_err(|source| FleetError::Form { path: PathBuf::from(&pod.name), source })?;
        Ok(look.state)
    }

    /// Learns what has become of every pod.
    ///
    /// # Errors
    /// kubectl does not answer.
    pub fn refresh(&self) -> Result<(), FleetError> {
        let pods = self.pods()?;
        let known = self.campaign.all_known()?;
        for name in known.keys().filter(|name| name.starts_with(UNSCHEDULED)) {
            self.campaign.forget(name)?;
        }
        for pod in &pods {
            let host = host_of(pod);
            let before = known.get(&host).cloned();
            let state = match &pod.begun {
                Begun::Not(reason) => State::now(Phase::Waiting, Some(reason.clone())),
                Begun::Runs => match self.ask(pod, "--look") {
                    Ok(Some(state)) => state,
                    Ok(None) => State::now(Phase::Waiting, None),
                    Err(error) => State::now(Phase::Running, Some(error.to_string())),
                },
                // Its last word was kept while it could be asked.
                Begun::Ended(phase, text) => match before.clone() {
                    Some(before) if before.phase.is_over() => before,
                    Some(before) => before.became(*phase, Some(text.clone())),
                    None => State::now(*phase, Some(text.clone())),
                },
            };
            let fetched = before.and_then(|before| before.fetched);
            self.campaign.keep(&host, &State { fetched, task: Some(pod.name.clone()), ..state })?;
        }
        Ok(())
    }

    /// Fetches the stores of these hosts, and lets the pods whose jobs are over go.
    pub fn fetch(&self, hosts: &[String]) -> Vec<(String, Result<PathBuf, FleetError>)> {
        hosts.iter().map(|host| (host.clone(), self.fetch_one(host))).collect()
    }

    fn fetch_one(&self, host: &str) -> Result<PathBuf, FleetError> {
        let pods = self.pods()?;
        let runs = |pod: &&Pod| pod.begun == Begun::Runs && host_of(pod) == host;
        let pod = pods.iter().find(runs).ok_or_else(|| {
            FleetError::Refused(format!(
                "its pod does not run any more: the store is in {} of the node; submit again with a longer \
                 --hold",
                self.by.folder.join(self.campaign.id()).display()
            ))
        })?;
        let store = self.by.folder.join(self.campaign.id()).join("run.iopj").display().to_string();
        let arguments = self.arguments(&["exec", &pod.name, "--", "iopj", "fleet", "store", &store]);
        let failed = |reason: String| FleetError::Program { command: "kubectl exec".to_owned(), reason };
        let mut kubectl = Command::new("kubectl");
        kubectl.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = kubectl.spawn().map_err(|error| failed(error.to_string()))?;
        let to = self.campaign.store(host);
        let received = child.stdout.take().map(|mut stream| transfer::receive(&mut stream, &to));
        child.wait().map_err(|error| failed(error.to_string()))?;
        received.unwrap_or_else(|| Err(failed("it has no output".to_owned())))?;
        // One that only stays to be fetched has been; a DaemonSet would begin it anew.
        let is_over = self.ask(pod, "--look")?.is_some_and(|state| state.phase.is_complete());
        if is_over && self.by.nodes.is_some() {
            self.ask(pod, "--stop")?;
        }
        Ok(to)
    }

    /// Ends the jobs, each of which puts its node's settings back, and deletes all that the manifest made.
    ///
    /// # Errors
    /// kubectl refuses.
    pub fn cancel(&self) -> Result<(), FleetError> {
        self.refresh()?;
        for pod in self.pods()?.iter().filter(|pod| pod.begun == Begun::Runs) {
            let host = host_of(pod);
            if let (Some(state), Some(before)) = (self.ask(pod, "--stop")?, self.campaign.known(&host)?) {
                self.campaign.keep(&host, &State { fetched: before.fetched, task: before.task, ..state })?;
            }
        }
        let label = format!("--selector={LABEL}={}", self.campaign.id());
        self.kubectl(&["delete", "jobs,daemonsets,configmaps", &label])?;
        for (host, state) in self.campaign.all_known()? {
            if !state.phase.is_over() {
                self.campaign.keep(&host, &state.became(Phase::Cancelled, None))?;
            }
        }
        Ok(())
    }
}

/// How the record of a pod begins that has no node.
const UNSCHEDULED: &str = "pod ";

fn host_of(pod: &Pod) -> String {
    pod.node.clone().unwrap_or_else(|| format!("{UNSCHEDULED}{}", pod.name))
}
