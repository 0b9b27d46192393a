//! The manifest of a campaign: no more privileges than its study needs, each named.

use super::yaml;
use crate::campaign::ByKubernetes;
use crate::error::FleetError;
use crate::job::Job;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// The label of all that belongs to a campaign.
pub(super) const LABEL: &str = "iopj-campaign";
/// Where pods find what they are told.
const TOLD: &str = "/etc/iopj";
/// The file there.
const DESCRIPTION: &str = "job.json";
/// Below the folder of the kubelet's profiles, as it is shipped.
const SECCOMP: &str = "iopj/seccomp-iopj.json";
const SECCOMP_PROFILE: &str = "iopj/seccomp-iopj-profile.json";
/// Who runs a study that needs no root.
const USER: u32 = 65_532;

/// What a manifest is made for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The image that holds iopj.
    pub image: String,
    /// Labels that a node must have.
    pub selectors: Vec<(String, String)>,
    /// The study changes settings of the host.
    pub settings: bool,
    /// The study samples functions.
    pub profile: bool,
}

/// The selectors of `KEY=VALUE` words.
///
/// # Errors
/// A word is none.
pub fn selectors(words: &[String]) -> Result<Vec<(String, String)>, FleetError> {
    let pair = |word: &String| {
        let pair = word.split_once('=').filter(|(key, _)| !key.is_empty());
        pair.map(|(key, value)| (key.to_owned(), value.to_owned())).ok_or_else(|| {
            FleetError::Refused(format!(
                "--node-selector: `{word}` is no label: write KEY=VALUE, such as disk=nvme"
            ))
        })
    };
    words.iter().map(pair).collect()
}

/// What the target is on a node, as far as its name tells.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TargetOnNode {
    /// A file that iopj makes beside its store.
    Made,
    File,
    Device(&'static str),
}

fn target_on_node(job: &Job) -> TargetOnNode {
    let Some(target) = &job.target else { return TargetOnNode::Made };
    let name = target.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    match target.starts_with("/dev") {
        false => TargetOnNode::File,
        true if name.starts_with("ng") => TargetOnNode::Device("CharDevice"),
        true => TargetOnNode::Device("BlockDevice"),
    }
}

/// The manifest as YAML.
pub fn manifest(job: &Job, by: &ByKubernetes, asked: &Asked) -> Result<String, FleetError> {
    let told = serde_json::to_string_pretty(job)
        .map_err(|source| FleetError::Form { path: DESCRIPTION.into(), source })?;
    let labels = json!({ LABEL: job.campaign });
    let config = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": by.name, "labels": labels },
        "data": { DESCRIPTION: told + "\n" },
    });
    let mut work = match by.nodes {
        Some(nodes) => of_job(nodes),
        None => json!({
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "spec": { "selector": { "matchLabels": labels } },
        }),
    };
    work["metadata"] = json!({ "name": by.name, "labels": labels });
    work["spec"]["template"] = json!({ "metadata": { "labels": labels }, "spec": pod(job, by, asked) });
    Ok(format!("{}---\n{}", yaml::document(&config), yaml::document(&work)))
}

/// A Job with a pod a node; a pod that fails is recorded and not begun anew, and the others go on.
fn of_job(nodes: u32) -> Value {
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "spec": {
            "completionMode": "Indexed",
            "completions": nodes,
            "parallelism": nodes,
            "backoffLimitPerIndex": 0,
            "maxFailedIndexes": nodes,
        },
    })
}

fn pod(job: &Job, by: &ByKubernetes, asked: &Asked) -> Value {
    let (mounts, volumes) = volumes(job, by, asked);
    let mut pod = json!({
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        // Long enough for the trial to end and the settings to be put back.
        "terminationGracePeriodSeconds": 120,
        "securityContext": of_pod(asked, job),
        "containers": [{
            "name": "iopj",
            "image": asked.image,
            "command": ["iopj", "fleet", "job", by.folder.join(&job.campaign), "--description",
                        format!("{TOLD}/{DESCRIPTION}")],
            "env": [{ "name": "NODE_NAME", "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } }],
            "resources": {
                "requests": { "cpu": "1", "memory": "512Mi" },
                "limits": { "memory": "2Gi" },
            },
            "securityContext": of_container(asked, job),
            "volumeMounts": mounts,
        }],
        "volumes": volumes,
    });
    if !asked.selectors.is_empty() {
        let pairs = asked.selectors.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str())));
        pod["nodeSelector"] = Value::Object(pairs.collect::<Map<_, _>>());
    }
    if by.nodes.is_some() {
        pod["restartPolicy"] = json!("Never");
        let apart = json!([{
            "labelSelector": { "matchLabels": { LABEL: job.campaign } },
            "topologyKey": "kubernetes.io/hostname",
        }]);
        pod["affinity"] =
            json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": apart } });
    }
    pod
}

/// Whether the study needs root in its container: for settings and samples, and to open a device's node.
fn needs_root(asked: &Asked, job: &Job) -> bool {
    asked.settings || asked.profile || matches!(target_on_node(job), TargetOnNode::Device(_))
}

fn of_pod(asked: &Asked, job: &Job) -> Value {
    if needs_root(asked, job) {
        json!({ "runAsUser": 0, "runAsGroup": 0 })
    } else {
        json!({ "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER })
    }
}

fn of_container(asked: &Asked, job: &Job) -> Value {
    if matches!(target_on_node(job), TargetOnNode::Device(_)) {
        // The container's list of devices is opened by this alone: no capability does it.
        return json!({ "privileged": true, "readOnlyRootFilesystem": true });
    }
    let mut capabilities = json!({ "drop": ["ALL"] });
    if asked.profile {
        // To sample the kernel, and to read the addresses of its functions.
        capabilities["add"] = json!(["PERFMON", "SYSLOG"]);
    }
    let profile = if asked.profile { SECCOMP_PROFILE } else { SECCOMP };
    let mut context = json!({
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "capabilities": capabilities,
        "seccompProfile": { "type": "Localhost", "localhostProfile": profile },
    });
    if asked.settings {
        // The usual profile keeps everybody from writing to sysfs.
        context["appArmorProfile"] = json!({ "type": "Unconfined" });
    }
    context
}

/// The mounts of the container, and the volumes of the pod.
fn volumes(job: &Job, by: &ByKubernetes, asked: &Asked) -> (Value, Value) {
    let (mut mounts, mut volumes) = (Vec::new(), Vec::new());
    let mut host = |name: &str, path: &Path, kind: &str, read_only: bool| {
        mounts.push(json!({ "name": name, "mountPath": path, "readOnly": read_only }));
        volumes.push(json!({ "name": name, "hostPath": { "path": path, "type": kind } }));
    };
    // Root may make it; who is not root finds one that an administrator made for this user.
    let kind = if needs_root(asked, job) { "DirectoryOrCreate" } else { "Directory" };
    host("stores", &by.folder, kind, false);
    if let Some(target) = &job.target {
        match target_on_node(job) {
            TargetOnNode::Device(kind) => host("target", target, kind, false),
            _ => host("target", target, "File", true),
        }
    }
    if asked.settings {
        host("sys", Path::new("/sys"), "Directory", false);
        host("journal", &PathBuf::from("/run/iopj"), "DirectoryOrCreate", false);
    }
    mounts.push(json!({ "name": "told", "mountPath": TOLD, "readOnly": true }));
    volumes.push(json!({ "name": "told", "configMap": { "name": by.name } }));
    (mounts.into(), volumes.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::FORMAT;

    fn job(target: Option<&str>) -> Job {
        let job = json!({
            "format": FORMAT, "version": "1", "campaign": "quick-1", "study": "name = \"quick\"\n",
            "target": target, "destroy_data": false, "allow_exec": false,
        });
        serde_json::from_value(job).unwrap()
    }

    fn asked(settings: bool, profile: bool) -> Asked {
        Asked { image: "iopj:1".to_owned(), selectors: Vec::new(), settings, profile }
    }

    fn by(nodes: Option<u32>) -> ByKubernetes {
        ByKubernetes {
            namespace: None,
            name: "iopj-quick-1".to_owned(),
            folder: "/var/lib/iopj".into(),
            nodes,
        }
    }

    #[test]
    fn a_study_of_a_file_has_no_privilege() {
        let text = manifest(&job(None), &by(Some(3)), &asked(false, false)).unwrap();
        for part in ["runAsNonRoot: true", "localhostProfile: iopj/seccomp-iopj.json", "completions: 3"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        for part in ["privileged", "add:", "/sys", "/dev", "runAsUser: 0", "Unconfined"] {
            assert!(!text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn each_privilege_has_its_cause() {
        let text =
            |target, settings, profile| manifest(&job(target), &by(None), &asked(settings, profile)).unwrap();
        let settings = text(None, true, false);
        assert!(settings.contains("path: /sys") && settings.contains("Unconfined"), "{settings}");
        assert!(!settings.contains("PERFMON") && !settings.contains("privileged"));
        let profile = text(None, false, true);
        assert!(profile.contains("- PERFMON") && profile.contains("seccomp-iopj-profile.json"));
        assert!(!profile.contains("/sys") && !profile.contains("privileged"));
        let device = text(Some("/dev/nvme0n1"), false, false);
        assert!(device.contains("privileged: true") && device.contains("type: BlockDevice"), "{device}");
        assert!(text(Some("/dev/ng0n1"), false, false).contains("type: CharDevice"));
        let file = text(Some("/srv/data"), false, false);
        assert!(file.contains("type: File") && !file.contains("privileged"), "{file}");
        assert!(!file.contains("restartPolicy"), "a DaemonSet knows no other than Always");
    }

    #[test]
    fn a_label_needs_a_key() {
        assert_eq!(selectors(&["disk=nvme".to_owned()]).unwrap(), [("disk".to_owned(), "nvme".to_owned())]);
        for bad in ["disk", "=nvme"] {
            assert!(selectors(&[bad.to_owned()]).unwrap_err().to_string().contains("KEY=VALUE"));
        }
    }
}
