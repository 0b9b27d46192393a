//! The manifest of a campaign: no more privileges than its study needs, each named.

use crate::campaign::ByKubernetes;
use crate::error::FleetError;
use crate::job::Job;
use serde_json::{Map, Value, json};
use std::path::Path;

/// The label of all that belongs to a campaign.
pub(super) const LABEL: &str = "iopj-campaign";
/// The annotation that names what pods may do beyond others.
const NEEDS: &str = "iopj/needs";
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

/// On how many nodes a Job has pods, and on which.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Places {
    /// The pods; `None` for a DaemonSet.
    pub(super) pods: Option<u32>,
    /// The nodes where nothing is left to do.
    pub(super) done: Vec<String>,
    /// The nodes that have a part of it.
    pub(super) begun: Vec<String>,
}

/// The name of what the manifest makes.
pub(super) fn name(job: &Job) -> String {
    format!("iopj-{}", job.campaign)
}

/// What the pods may do beyond others, each with its cause.
pub(super) fn needs(job: &Job, asked: &Asked) -> Vec<String> {
    let device = matches!(target_on_node(job), TargetOnNode::Device(_));
    let target = job.target.as_deref().unwrap_or(Path::new("")).display();
    let all = [
        (device, format!("privileged: no capability lets a container open {target}, which is a device")),
        (asked.settings, "root, /sys and no AppArmor profile: the study changes settings".to_owned()),
        (asked.profile, "root, PERFMON and SYSLOG: the study samples functions".to_owned()),
    ];
    all.into_iter().filter(|(is_needed, _)| *is_needed).map(|(_, need)| need).collect()
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

/// The manifest: JSON in ASCII alone, which kubectl takes as it takes YAML. What a study holds cannot end a
/// text in it early, whatever a reader takes for the end of a line.
pub(super) fn manifest(
    job: &Job,
    by: &ByKubernetes,
    asked: &Asked,
    places: &Places,
) -> Result<String, FleetError> {
    let told = serde_json::to_string_pretty(job)
        .map_err(|source| FleetError::Form { path: DESCRIPTION.into(), source })?;
    let labels = json!({ LABEL: job.campaign });
    let mut metadata = json!({ "name": name(job), "labels": labels });
    if let Some(namespace) = &by.namespace {
        metadata["namespace"] = json!(namespace);
    }
    let config = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        // In ASCII, too: to readers of YAML, two escapes are not one character beyond U+FFFF.
        "data": { DESCRIPTION: in_ascii(&told) },
    });
    let mut work = match places.pods {
        Some(pods) => of_job(pods),
        None => json!({
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "spec": { "selector": { "matchLabels": labels } },
        }),
    };
    work["metadata"] = metadata;
    let mut of_pod = json!({ "labels": labels });
    let needs = needs(job, asked);
    if !needs.is_empty() {
        of_pod["annotations"] = json!({ NEEDS: needs.join("; ") });
    }
    work["spec"]["template"] = json!({ "metadata": of_pod, "spec": pod(job, by, asked, places) });
    let all = json!({ "apiVersion": "v1", "kind": "List", "items": [config, work] });
    let text = serde_json::to_string_pretty(&all)
        .map_err(|source| FleetError::Form { path: "manifest.json".into(), source })?;
    Ok(in_ascii(&text))
}

/// JSON whose texts have escapes for all that is not ASCII, and a line's end.
fn in_ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len() + 1);
    for c in json.chars() {
        if c.is_ascii() && c != '\u{7f}' {
            text.push(c);
        } else {
            let units =
                c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect::<String>();
            text.push_str(&units);
        }
    }
    text.push('\n');
    text
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

fn pod(job: &Job, by: &ByKubernetes, asked: &Asked, places: &Places) -> Value {
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
            "env": [
                { "name": "IOPJ_POD_NODE", "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } },
            ],
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
    if places.pods.is_some() {
        pod["restartPolicy"] = json!("Never");
        pod["affinity"] = affinity(&job.campaign, places);
    }
    pod
}

/// No two pods share a node, none goes where nothing is left to do, and all go first where a part is done.
fn affinity(campaign: &str, places: &Places) -> Value {
    let apart = json!([{
        "labelSelector": { "matchLabels": { LABEL: campaign } },
        "topologyKey": "kubernetes.io/hostname",
    }]);
    let mut affinity =
        json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": apart } });
    if !places.done.is_empty() {
        let fields: Vec<Value> = places.done.iter().map(|node| field("NotIn", node)).collect();
        affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
            json!({ "nodeSelectorTerms": [{ "matchFields": fields }] });
    }
    if !places.begun.is_empty() {
        let first = places
            .begun
            .iter()
            .map(|node| json!({ "weight": 100, "preference": { "matchFields": [field("In", node)] } }));
        affinity["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] = first.collect();
    }
    affinity
}

/// A node by its name; Kubernetes takes one name a field.
fn field(operator: &str, node: &str) -> Value {
    json!({ "key": "metadata.name", "operator": operator, "values": [node] })
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
    }
    if needs_root(asked, job) {
        // The locks of drives and the journal: other runs on the node see them there.
        host("locks", Path::new("/run/iopj"), "DirectoryOrCreate", false);
    }
    mounts.push(json!({ "name": "told", "mountPath": TOLD, "readOnly": true }));
    volumes.push(json!({ "name": "told", "configMap": { "name": name(job) } }));
    (mounts.into(), volumes.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::FORMAT;

    fn job(target: Option<&str>) -> Job {
        let job = json!({
            "format": FORMAT, "version": "1", "campaign": "quick-1", "study": "name = \"quick\"\n",
            "target": target, "destroy_data": false,
            "allow": { "exec": false, "secrets": false, "hosts": false },
        });
        serde_json::from_value(job).unwrap()
    }

    fn asked(settings: bool, profile: bool) -> Asked {
        Asked { image: "iopj:1".to_owned(), selectors: Vec::new(), settings, profile }
    }

    fn by(nodes: Option<u32>) -> ByKubernetes {
        ByKubernetes { namespace: None, folder: "/var/lib/iopj".into(), nodes }
    }

    fn of(job: &Job, asked: &Asked, pods: Option<u32>) -> String {
        manifest(job, &by(pods), asked, &Places { pods, ..Places::default() }).unwrap()
    }

    #[test]
    fn a_study_of_a_file_has_no_privilege() {
        let text = of(&job(None), &asked(false, false), Some(3));
        for part in [
            r#""runAsNonRoot": true"#,
            r#""localhostProfile": "iopj/seccomp-iopj.json""#,
            r#""completions": 3"#,
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        for part in
            ["privileged", r#""add""#, "/sys", "/dev", r#""runAsUser": 0"#, "Unconfined", "/run", "needs"]
        {
            assert!(!text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn each_privilege_has_its_cause() {
        let text = |target, settings, profile| of(&job(target), &asked(settings, profile), None);
        let settings = text(None, true, false);
        assert!(settings.contains(r#""path": "/sys""#) && settings.contains("Unconfined"), "{settings}");
        assert!(!settings.contains("PERFMON") && !settings.contains("privileged"));
        let profile = text(None, false, true);
        assert!(profile.contains(r#""PERFMON""#) && profile.contains("seccomp-iopj-profile.json"));
        assert!(!profile.contains("/sys") && !profile.contains("privileged"));
        let device = text(Some("/dev/nvme0n1"), false, false);
        assert!(
            device.contains(r#""privileged": true"#) && device.contains(r#""type": "BlockDevice""#),
            "{device}"
        );
        assert!(text(Some("/dev/ng0n1"), false, false).contains(r#""type": "CharDevice""#));
        for needs in [settings, profile, device] {
            assert!(needs.contains(r#""iopj/needs": "#), "{needs}");
        }
        let file = text(Some("/srv/data"), false, false);
        assert!(file.contains(r#""type": "File""#) && !file.contains("privileged"), "{file}");
        assert!(!file.contains("restartPolicy"), "a DaemonSet knows no other than Always");
    }

    /// Its locks held within the pod alone, so a run on the node or in another pod had the drive, too.
    #[test]
    fn a_pod_that_is_root_locks_its_drive_for_the_whole_node() {
        for (target, settings, profile) in
            [(Some("/dev/sda"), false, false), (None, true, false), (None, false, true)]
        {
            let text = of(&job(target), &asked(settings, profile), Some(1));
            assert!(
                text.contains(r#""mountPath": "/run/iopj""#) && text.contains(r#""path": "/run/iopj""#),
                "{text}"
            );
        }
    }

    /// `kubectl apply --filename` made it in the namespace of whoever applied it.
    #[test]
    fn the_namespace_stands_in_the_manifest() {
        let by = ByKubernetes { namespace: Some("bench".to_owned()), ..by(None) };
        let text = manifest(&job(None), &by, &asked(false, false), &Places::default()).unwrap();
        assert_eq!(text.matches(r#""namespace": "bench""#).count(), 2, "{text}");
    }

    #[test]
    fn pods_go_first_where_a_part_is_done_and_never_where_all_is() {
        let places = Places { pods: Some(2), done: vec!["n1".to_owned()], begun: vec!["n2".to_owned()] };
        let text = manifest(&job(None), &by(Some(3)), &asked(false, false), &places).unwrap();
        let [never, first] =
            [r#""operator": "NotIn""#, r#""operator": "In""#].map(|part| text.find(part).unwrap());
        let [n1, n2] = [r#""n1""#, r#""n2""#].map(|node| text.find(node).unwrap());
        assert!(text.contains(r#""completions": 2"#), "{text}");
        // Keys are in the order of the alphabet: what is preferred stands first.
        assert!(first < n2 && n2 < never && never < n1, "{text}");
    }

    fn read(text: &str) -> Value {
        assert!(text.bytes().all(|byte| byte == b'\n' || (b' '..0x7f).contains(&byte)), "{text}");
        serde_json::from_str(text).unwrap()
    }

    proptest::proptest! {
        /// A line separator in a comment ended the text, and what followed it were objects of the study's
        /// own.
        #[test]
        fn a_study_is_one_text_whatever_it_holds(study in ".{0,200}", name in "[a-z]{1,8}") {
            let job = Job { study, campaign: name, ..job(None) };
            let all = read(&of(&job, &asked(false, false), Some(1)));
            let kinds: Vec<&str> =
                all["items"].as_array().unwrap().iter().map(|item| item["kind"].as_str().unwrap()).collect();
            proptest::prop_assert_eq!(kinds, ["ConfigMap", "Job"]);
            let told = all["items"][0]["data"][DESCRIPTION].as_str().unwrap();
            proptest::prop_assert_eq!(serde_json::from_str::<Job>(told).unwrap().study, job.study);
        }
    }

    #[test]
    fn what_other_readers_take_for_the_end_of_a_line_is_escaped() {
        let study =
            "# \u{85}\u{2028}\u{2029}\u{feff}\u{0}\u{7f}\u{1f600}\n---\n&a *a !!python/object \"'\\\n";
        let job = Job { study: study.to_owned(), ..job(None) };
        let text = of(&job, &asked(false, false), Some(1));
        let all = read(&text);
        let told: Job = serde_json::from_str(all["items"][0]["data"][DESCRIPTION].as_str().unwrap()).unwrap();
        assert_eq!(told.study, study);
        assert!(text.contains(r"\\u2028") && text.contains(r"\\ud83d\\ude00"), "{text}");
    }

    #[test]
    fn a_label_needs_a_key() {
        assert_eq!(selectors(&["disk=nvme".to_owned()]).unwrap(), [("disk".to_owned(), "nvme".to_owned())]);
        for bad in ["disk", "=nvme"] {
            assert!(selectors(&[bad.to_owned()]).unwrap_err().to_string().contains("KEY=VALUE"));
        }
    }
}
