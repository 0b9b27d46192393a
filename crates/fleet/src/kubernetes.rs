//! A campaign as a Job or a DaemonSet of Kubernetes, by the user's own kubectl.

pub mod manifest;
mod pods;

pub use manifest::Asked;

use crate::campaign::{ByKubernetes, Campaign};
use crate::error::FleetError;
use crate::files;
use crate::job::{Look, Phase, State};
use crate::program;
use crate::transfer;
use manifest::{LABEL, Places};
use pods::{Begun, Pod};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// Longer than a pod may take to end.
const GONE_WITHIN: &str = "--timeout=180s";
const PACKAGE: &str = "kubectl, and give it a context that reaches the cluster";

/// A campaign by Kubernetes, and what is needed to run it.
pub struct Kubernetes<'a> {
    campaign: &'a Campaign,
    by: &'a ByKubernetes,
    stop: &'a AtomicBool,
    say: &'a (dyn Fn(&str) + Sync),
}

impl<'a> Kubernetes<'a> {
    /// A campaign that Kubernetes runs. Once `stop` is true, no store is waited for any more.
    pub fn new(
        campaign: &'a Campaign,
        by: &'a ByKubernetes,
        stop: &'a AtomicBool,
        say: &'a (dyn Fn(&str) + Sync),
    ) -> Kubernetes<'a> {
        Kubernetes { campaign, by, stop, say }
    }

    /// Writes the manifest, and applies it. Of a Job whose pods are over, a new one with what is missing
    /// takes the place: Kubernetes begins nothing of the old one anew.
    ///
    /// # Errors
    /// It cannot be written, or kubectl refuses.
    pub fn submit(&self, asked: &Asked, manifest_only: bool) -> Result<(), FleetError> {
        let job = &self.campaign.plan().job;
        let pods = if manifest_only { Vec::new() } else { self.looked()? };
        let Some(places) = self.places(&pods)? else { return Ok(()) };
        let path = self.campaign.folder().join("manifest.json");
        files::write(&path, manifest::manifest(job, self.by, asked, &places)?.as_bytes())?;
        (self.say)(&format!("manifest: {}", path.display()));
        for need in manifest::needs(job, asked) {
            (self.say)(&format!("the pods are {need}"));
        }
        if manifest_only {
            return Ok(());
        }
        if places.pods.is_some() {
            self.delete(&["job", &manifest::name(job), "--ignore-not-found"])?;
        }
        let applied = self.kubectl(&["apply", "--filename", &path.display().to_string()])?;
        applied.lines().for_each(|line| (self.say)(line));
        Ok(())
    }

    /// Where something is left to do; `None` if that is nowhere, or if pods are still at it.
    fn places(&self, pods: &[Pod]) -> Result<Option<Places>, FleetError> {
        let Some(nodes) = self.by.nodes else { return Ok(Some(Places::default())) };
        let known = self.campaign.all_known()?;
        let of = |is: &dyn Fn(&String, &State) -> bool| -> Vec<String> {
            known.iter().filter(|(host, state)| is(host, state)).map(|(host, _)| host.clone()).collect()
        };
        let is_done = |state: &State| state.phase.is_complete() && state.is_fetched();
        let done = of(&|_, state| is_done(state));
        let begun = of(&|host, state| !is_done(state) && !host.starts_with(UNSCHEDULED));
        let is_held =
            |host: &String| pods.iter().any(|pod| pod.begun == Begun::Runs && host_of(pod) == *host);
        let settled = of(&|host, state| is_done(state) || state.phase.is_complete() && is_held(host)).len();
        let missing = nodes.saturating_sub(done.len() as u32);
        let reason = match () {
            () if known.values().any(|state| !state.phase.is_over()) => {
                "pods wait or run: nothing is submitted; to change what they do, cancel first"
            }
            () if settled as u32 >= nodes => "every node is complete: nothing to submit",
            () => return Ok(Some(Places { pods: Some(missing), done, begun })),
        };
        (self.say)(reason);
        Ok(None)
    }

    /// Deletes what has pods, and waits for their ends. They are told by SIGTERM, after which each puts its
    /// node's settings back; to ask for that from within would end with the pod.
    fn delete(&self, what: &[&str]) -> Result<(), FleetError> {
        let how = ["--cascade=foreground", "--wait", GONE_WITHIN];
        self.kubectl(&[&["delete"], what, &how].concat()).map(drop)
    }

    fn arguments(&self, words: &[&str]) -> Vec<String> {
        let namespace = self.by.namespace.iter().map(|name| format!("--namespace={name}"));
        namespace.chain(words.iter().map(|word| (*word).to_owned())).collect()
    }

    fn kubectl(&self, words: &[&str]) -> Result<String, FleetError> {
        program::output("kubectl", &self.arguments(words), PACKAGE, self.stop)
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
        self.looked()?;
        self.tell_shared_drives()
    }

    fn looked(&self) -> Result<Vec<Pod>, FleetError> {
        let pods = self.pods()?;
        let known = self.campaign.all_known()?;
        for name in known.keys().filter(|name| name.starts_with(UNSCHEDULED)) {
            self.campaign.forget(name)?;
        }
        // Of a node's pods the newest counts.
        let newest: BTreeMap<String, &Pod> = pods.iter().map(|pod| (host_of(pod), pod)).collect();
        for (host, pod) in &newest {
            let before = known.get(host);
            let fetched = before.and_then(|before| before.fetched);
            let state = self.state(pod, before);
            self.campaign.keep(host, &State { fetched, task: Some(pod.name.clone()), ..state })?;
        }
        for (host, state) in known {
            if !(host.starts_with(UNSCHEDULED) || newest.contains_key(&host) || state.phase.is_over()) {
                let reason = "Kubernetes has no pod of it any more: submit again".to_owned();
                self.campaign.keep(&host, &state.became(Phase::Killed, Some(reason)))?;
            }
        }
        Ok(pods)
    }

    /// Names each drive that many nodes show: a lease lies on one node, so their jobs do not know each other.
    fn tell_shared_drives(&self) -> Result<(), FleetError> {
        let mut hosts = BTreeMap::<String, Vec<String>>::new();
        for (host, state) in self.campaign.all_known()? {
            for serial in state.drives.into_iter().filter_map(|drive| drive.serial) {
                hosts.entry(serial).or_default().push(host.clone());
            }
        }
        for (serial, hosts) in hosts.iter().filter(|(_, hosts)| hosts.len() > 1) {
            let hosts = hosts.join(" and ");
            (self.say)(&format!(
                "{hosts} show one drive, `{serial}`: their trials may disturb each other; choose nodes with \
                 drives of their own by --node-selector"
            ));
        }
        Ok(())
    }

    /// The state of a pod's job. One that has ended cannot be asked: its last word was kept, if this pod was
    /// asked after it.
    fn state(&self, pod: &Pod, before: Option<&State>) -> State {
        match (&pod.begun, before) {
            (Begun::Not(reason), _) => State::now(Phase::Waiting, Some(reason.clone())),
            (Begun::Runs, _) => match self.ask(pod, "--look") {
                Ok(Some(state)) => state,
                Ok(None) => State::now(Phase::Waiting, None),
                Err(error) => State::now(Phase::Running, Some(error.to_string())),
            },
            (Begun::Ended(phase, _), Some(before))
                if before.phase == *phase && before.task.as_ref() == Some(&pod.name) =>
            {
                before.clone()
            }
            (Begun::Ended(phase, text), Some(before)) => before.clone().became(*phase, Some(text.clone())),
            (Begun::Ended(phase, text), None) => State::now(*phase, Some(text.clone())),
        }
    }

    /// Fetches the stores of these hosts, and lets the pods whose jobs are over go.
    pub fn fetch(&self, hosts: &[String]) -> Vec<(String, Result<PathBuf, FleetError>)> {
        hosts.iter().map(|host| (host.clone(), self.fetch_one(host))).collect()
    }

    fn fetch_one(&self, host: &str) -> Result<PathBuf, FleetError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(FleetError::Refused("it was not fetched: you ended it; fetch again".to_owned()));
        }
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
        kubectl.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let to = self.campaign.store(host);
        let receive = |mut stream: &mut dyn Read| transfer::receive(&mut stream, &to);
        let streamed = kubectl.spawn().and_then(|child| iopj_fabric::streamed(child, self.stop, receive));
        let (received, _, said) = streamed.map_err(|error| failed(error.to_string()))?;
        // What kubectl says of a pod that it does not reach tells more than that no store came.
        received
            .map_err(|error| if said.is_empty() { error } else { failed(format!("{said} ({error})")) })?;
        // One that only stays to be fetched has been; a DaemonSet would begin it anew. What is asked within a
        // pod ends with it, so there may be no answer.
        let is_complete = |state: State| state.phase.is_complete();
        if self.by.nodes.is_some()
            && self.ask(pod, "--look").is_ok_and(|state| state.is_some_and(is_complete))
        {
            let _ = self.ask(pod, "--stop");
        }
        Ok(to)
    }

    /// Deletes all that the manifest made, and waits for the ends of its pods, each of which puts its node's
    /// settings back. A pod whose node does not answer stays, and is lost.
    ///
    /// # Errors
    /// kubectl refuses.
    pub fn cancel(&self) -> Result<(), FleetError> {
        self.refresh()?;
        let label = format!("--selector={LABEL}={}", self.campaign.id());
        let left: BTreeSet<String> = match self.delete(&["jobs,daemonsets", &label]) {
            Err(FleetError::Program { reason, .. }) if reason.contains("timed out") => {
                self.pods()?.iter().map(host_of).collect()
            }
            deleted => deleted.map(|()| BTreeSet::new())?,
        };
        self.kubectl(&["delete", "configmaps", &label])?;
        for (host, state) in self.campaign.all_known()? {
            let state = match () {
                () if left.contains(&host) => {
                    let reason = "its pod does not end: see whether the node answers, then cancel again";
                    state.became(Phase::Lost, Some(reason.to_owned()))
                }
                () if !state.phase.is_over() => {
                    state.became(Phase::Cancelled, Some("ended by a signal".to_owned()))
                }
                () => continue,
            };
            self.campaign.keep(&host, &state)?;
        }
        Ok(())
    }
}

/// How the record of a pod begins that has no node.
const UNSCHEDULED: &str = "pod ";

fn host_of(pod: &Pod) -> String {
    pod.node.clone().unwrap_or_else(|| format!("{UNSCHEDULED}{}", pod.name))
}
