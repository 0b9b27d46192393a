//! What schedulers are handed: a manifest that another parser reads as what was meant and nothing else, and a
//! script of Slurm whose words are what they should be.

use crate::campaign::job;
use crate::texts;
use iopj_core::Allow;
use iopj_fleet::campaign::{By, ByKubernetes, Campaign, Plan};
use iopj_fleet::job::{FORMAT, Job};
use iopj_fleet::kubernetes::{Asked, Kubernetes};
use iopj_fleet::slurm;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Three texts: a study, a target, a folder.
pub(crate) fn run(input: &[u8]) {
    let [study, target, place] = texts(input);
    let target = (!target.is_empty()).then_some(&*target);
    of_kubernetes(job(&study, target), &place);
    of_slurm(&place);
}

fn of_kubernetes(job: Job, place: &str) {
    let made = tempfile::tempdir().expect("a folder");
    let folder = made.path().join("campaign");
    let plan = |place: &str| {
        let by = ByKubernetes { namespace: None, folder: place.into(), nodes: Some(2) };
        Plan { format: FORMAT, job: job.clone(), by: By::Kubernetes(by) }
    };
    // A place that is refused leaves nothing, and does not keep the other texts from being tried.
    let place = if Campaign::submit(&folder, plan(place)).is_ok() {
        place
    } else {
        assert!(!folder.exists(), "a campaign that was refused");
        "/iopj"
    };
    let plan = plan(place);
    let By::Kubernetes(by) = &plan.by else { unreachable!("it is by Kubernetes") };
    let campaign = Campaign::submit(&folder, plan.clone()).expect("a campaign");
    let asked = Asked { image: "iopj".to_owned(), selectors: Vec::new(), settings: false, profile: false };
    let stop = AtomicBool::new(false);
    Kubernetes::new(&campaign, by, &stop, &|_| {}).submit(&asked, true).expect("a manifest");
    let text = fs::read_to_string(folder.join("manifest.json")).expect("the manifest");
    assert!(text.bytes().all(|byte| (b' '..=b'~').contains(&byte) || byte == b'\n'), "not plain ASCII");
    let all: Value = serde_json::from_str(&text).expect("JSON");
    let kinds: Vec<&Value> =
        all["items"].as_array().into_iter().flatten().map(|item| &item["kind"]).collect();
    assert_eq!((&all["kind"], kinds.as_slice()), (&"List".into(), &[&"ConfigMap".into(), &"Job".into()][..]));
    let data = all["items"][0]["data"].as_object().expect("data of the ConfigMap");
    assert_eq!(data.len(), 1);
    let told: Job = serde_json::from_str(data["job.json"].as_str().expect("a text")).expect("a job");
    assert_eq!(told, plan.job);
    assert_eq!(told.allow, Allow::NOTHING);
    let pod = &all["items"][1]["spec"]["template"]["spec"];
    let containers = pod["containers"].as_array().expect("containers");
    assert_eq!((containers.len(), containers[0]["image"].as_str()), (1, Some("iopj")));
    let volumes = pod["volumes"].as_array().into_iter().flatten();
    let host: Vec<&Value> =
        volumes.filter_map(|volume| volume["hostPath"]["path"].as_str().map(|_| volume)).collect();
    let named = |path: &Value| {
        let path = path["hostPath"]["path"].as_str().unwrap_or_default();
        path == place
            || plan.job.target.as_deref() == Some(Path::new(path))
            || plan.job.target.as_deref().and_then(Path::parent) == Some(Path::new(path))
            || path.starts_with("/run/")
            || path.starts_with("/sys")
    };
    assert!(host.iter().all(|path| named(path)), "{host:?}");
}

fn of_slurm(place: &str) {
    // A folder's name has neither.
    let place = place.replace('\0', "");
    let script = slurm::script(Path::new(&place), "iopj");
    let (first, rest) = script.split_once('\n').expect("a first line");
    assert_eq!(first, "#!/bin/sh");
    let words = shlex::split(rest).expect("a script whose quotes are closed");
    let node = "$SLURMD_NODENAME";
    let expected = [
        &["exec", "iopj", "fleet", "job", "--campaign"][..],
        &[&place, "--node", node, "--task", "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"][..],
    ];
    assert_eq!(words, expected.concat());
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let of = |study: &str, target: &str, place: &str| format!("{study}\0{target}\0{place}").into_bytes();
    vec![
        of("name = \"small\"\n", "/dev/nvme0n1", "/var/lib/iopj"),
        of("a: &b\n---\n!!python/x\u{85}\u{2028}\u{2029}\u{feff}", "", "/a'b$(c)`d`\"e\\"),
        of("'\n\"}]}\n", "/data/file", "-x\n#"),
        of("\u{7f}\u{1b}[2J", "", " "),
    ]
}
