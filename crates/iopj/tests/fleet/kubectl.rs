//! A campaign by Kubernetes, for which a script stands in for kubectl: it writes down what it is asked,
//! answers with lists of pods in the published shape, and runs what is to be run in a pod. No cluster takes
//! part.

use crate::campaigns::{fetched, record, signal, study, trials, until};
use crate::common::{TestFolder, folder, iopj, output, run, says};
use crate::manifests::is_valid;
use iopj_record::StudyRecord;
use iopj_store::Store;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// `deleted` is how a deletion ends; a pod that is asked to stop ends, and what asks ends with it.
const KUBECTL: &str = r#"#!/bin/sh
echo "$*" >>calls
case "$*" in
"get pods"*) cat pods.json ;;
*--look) cat look.json ;;
*--stop) echo "command terminated with exit code 137" >&2; exit 137 ;;
exec*) while [ "$1" != -- ]; do shift; done; shift; [ -e silent ] && exec sleep 600; exec "$@" ;;
"delete jobs,"*) . ./deleted ;;
esac
"#;
const ALL_ENDED: &str = "echo '{\"items\":[]}' >pods.json";
const SUBMIT: &str = "fleet submit s.toml --kubernetes --image r.example/iopj:1 --dir c";

/// A cluster of the script's.
struct Kubectl {
    folder: TestFolder,
}

impl Kubectl {
    fn new(pods: &[Value]) -> Kubectl {
        let kubectl = Kubectl { folder: folder() };
        fs::create_dir(kubectl.folder.join("bin")).unwrap();
        fs::write(kubectl.folder.join("bin/kubectl"), KUBECTL).unwrap();
        fs::set_permissions(kubectl.folder.join("bin/kubectl"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(kubectl.folder.join("deleted"), ALL_ENDED).unwrap();
        fs::write(kubectl.folder.join("s.toml"), study(1, "50ms")).unwrap();
        let (code, _, words) = run(&kubectl.folder, &kubectl.submit("--manifest-only"));
        assert_eq!(code, 0, "{words}");
        kubectl.pods(pods);
        kubectl
    }

    /// The submit of three nodes, which keep their stores in a folder of the test's.
    fn submit(&self, options: &str) -> String {
        format!("{SUBMIT} --nodes 3 --scratch {} {options}", self.folder.join("stores").display())
    }

    fn pods(&self, pods: &[Value]) {
        fs::write(self.folder.join("pods.json"), json!({ "items": pods }).to_string()).unwrap();
    }

    /// What a pod that is asked says of its job.
    fn look(&self, phase: &str, reason: Option<&str>) {
        let drives = json!([{ "name": "sda", "serial": "S1" }]);
        let state = json!({
            "phase": phase, "reason": reason, "since_ms": 0, "drives": drives, "done": 1, "planned": 1,
        });
        let look = json!({ "version": "", "boot": "", "drives": drives, "refusal": null, "state": state });
        fs::write(self.folder.join("look.json"), look.to_string()).unwrap();
    }

    /// iopj with the script in its way.
    fn iopj(&self, line: &str) -> Command {
        let program = Path::new(env!("CARGO_BIN_EXE_iopj")).parent().unwrap().display();
        let path =
            format!("{}:{program}:{}", self.folder.join("bin").display(), std::env::var("PATH").unwrap());
        let mut command = iopj(&self.folder, line);
        command.env("PATH", path);
        command
    }

    #[track_caller]
    fn ends(&self, code: i32, line: &str) -> String {
        let (output, words) = output(&mut self.iopj(line));
        let words = words + &String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(code), "{line}: {words}");
        words
    }

    /// What kubectl was asked since this was last called.
    fn calls(&self) -> String {
        let calls = fs::read_to_string(self.folder.join("calls")).unwrap_or_default();
        fs::write(self.folder.join("calls"), "").unwrap();
        calls
    }

    fn manifest(&self) -> String {
        fs::read_to_string(self.folder.join("c/manifest.json")).unwrap()
    }
}

fn pod(name: &str, node: &str, made: u32, state: Value) -> Value {
    json!({
        "metadata": { "name": name, "creationTimestamp": format!("2026-01-01T00:00:0{made}Z") },
        "spec": { "nodeName": node },
        "status": { "phase": "Running", "containerStatuses": [{ "state": state }] },
    })
}

fn runs(name: &str, node: &str, made: u32) -> Value {
    pod(name, node, made, json!({ "running": {} }))
}

fn ended(name: &str, node: &str, made: u32, code: i32) -> Value {
    pod(name, node, made, json!({ "terminated": { "reason": "Error", "exitCode": code } }))
}

/// Each pod was asked from within to stop; that failed at the first one, as its end ends what is asked in it.
#[test]
fn cancel_deletes_what_has_pods_and_waits_for_their_ends() {
    let kubectl = Kubectl::new(&[runs("a", "n1", 1), runs("b", "n2", 1)]);
    kubectl.look("running", None);
    says(&kubectl.ends(0, "fleet cancel c"), &["2 cancelled", "ended by a signal"]);
    let calls = kubectl.calls();
    says(&calls, &["delete jobs,daemonsets --selector=iopj-campaign=fleet-", "delete configmaps"]);
    says(&calls, &["--cascade=foreground --wait --timeout=180s"]);
    assert!(!calls.contains("--stop"), "{calls}");

    let late = "error: timed out waiting for the condition on jobs/iopj";
    fs::write(kubectl.folder.join("deleted"), format!("echo '{late}' >&2; exit 1")).unwrap();
    kubectl.pods(&[runs("b", "n2", 1)]);
    says(&kubectl.ends(1, "fleet cancel c"), &["1 cancelled, 1 lost", "its pod does not end"]);
    fs::write(kubectl.folder.join("deleted"), "echo 'error: forbidden' >&2; exit 1").unwrap();
    says(&kubectl.ends(2, "fleet cancel c"), &["`kubectl delete` failed: error: forbidden"]);
}

/// Its store had come, and yet it failed.
#[test]
fn a_fetch_whose_pod_ends_with_the_question_has_its_store() {
    let kubectl = Kubectl::new(&[runs("a", "n1", 1)]);
    kubectl.look("ok", None);
    let campaign = fs::read(kubectl.folder.join("c/campaign.json")).unwrap();
    let campaign: Value = serde_json::from_slice(&campaign).unwrap();
    let stores = kubectl.folder.join("stores").join(campaign["job"]["campaign"].as_str().unwrap());
    fs::create_dir_all(&stores).unwrap();
    drop(Store::create(&stores.join("run.iopj"), &StudyRecord::default()).unwrap());
    says(&kubectl.ends(0, "fleet fetch c"), &["c/stores/n1.iopj"]);
    assert!(kubectl.calls().contains("--stop"));
    assert_eq!(trials(&fetched(&kubectl.folder.join("c"), "n1")), 0);
    assert_eq!(record(&kubectl.folder.join("c"), "n1")["fetched"]["phase"], "ok");
}

/// It went on until nothing had come for a minute, and then with the next host.
#[test]
fn ctrl_c_ends_a_fetch_from_a_pod_that_says_nothing() {
    let kubectl = Kubectl::new(&[runs("a", "n1", 1), runs("b", "n2", 1)]);
    kubectl.look("ok", None);
    fs::write(kubectl.folder.join("silent"), "").unwrap();
    let calls = || fs::read_to_string(kubectl.folder.join("calls")).unwrap_or_default();
    let fetch = kubectl.iopj("fleet fetch c").stderr(Stdio::piped()).spawn().unwrap();
    until("a store on its way", || calls().contains("fleet store").then_some(()));
    signal(fetch.id() as i32, libc::SIGINT);
    let output = fetch.wait_with_output().unwrap();
    let words = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{words}");
    says(&words, &["n1: ", "it was stopped", "n2: it was not fetched: you ended it"]);
    assert_eq!(calls().matches("fleet store").count(), 1);
}

/// It applied the same Job, in which Kubernetes begins nothing anew, or another one beside it.
#[test]
fn a_new_job_does_what_is_missing_of_one_that_is_over() {
    let kubectl = Kubectl::new(&[]);
    let submit = kubectl.submit("--hold 48h");
    kubectl.ends(0, &submit);
    let first = kubectl.manifest();
    says(&first, &[r#""completions": 3"#]);
    says(&kubectl.calls(), &["delete job iopj-fleet-", "apply --filename"]);
    let name = first.lines().find(|line| line.contains(r#""name": "iopj-"#)).unwrap().to_owned();

    kubectl.look("running", None);
    kubectl.pods(&[runs("a", "n1", 1), ended("b", "n2", 1, 137), ended("c", "n3", 1, 0)]);
    says(&kubectl.ends(0, &submit), &["pods wait or run: nothing is submitted"]);
    assert!(!kubectl.calls().contains("apply"));

    kubectl.pods(&[ended("a", "n1", 1, 0), ended("b", "n2", 1, 137), ended("c", "n3", 1, 0)]);
    kubectl.ends(1, "fleet status c");
    let n1 = kubectl.folder.join("c/hosts/n1.json");
    let mut state = record(&kubectl.folder.join("c"), "n1");
    state["fetched"] = json!({ "phase": state["phase"], "done": state["done"] });
    fs::write(n1, state.to_string()).unwrap();
    kubectl.calls();
    kubectl.ends(0, &submit);
    let calls = kubectl.calls();
    let [deleted, applied] = ["delete job iopj-", "apply --filename"].map(|call| calls.find(call).unwrap());
    assert!(deleted < applied, "{calls}");
    let second = kubectl.manifest();
    says(&second, &[&name, r#""completions": 2"#, r#""operator": "NotIn""#, r#""n1""#]);
    says(&second, &[r#"\"hold_ms\": 172800000"#]);
    if let Some((is_valid, words)) = is_valid(&[kubectl.folder.join("c/manifest.json")]) {
        assert!(is_valid, "{words}");
    }
}

/// A refusal of an earlier pod stayed for ever.
#[test]
fn the_end_of_a_nodes_newest_pod_counts() {
    let kubectl = Kubectl::new(&[runs("a", "n1", 1)]);
    kubectl.look("refused", Some("its serial number is not listed"));
    says(&kubectl.ends(1, "fleet status c"), &["1 refused"]);
    kubectl.pods(&[ended("a", "n1", 1, 2)]);
    says(&kubectl.ends(1, "fleet status c"), &["1 refused", "its serial number is not listed"]);
    // What the earlier one was told is not why the later one ended.
    kubectl.pods(&[ended("b", "n1", 2, 2), ended("a", "n1", 1, 2)]);
    let words = kubectl.ends(1, "fleet status c");
    says(&words, &["1 refused", "(exit code 2)"]);
    assert!(!words.contains("serial number"), "{words}");
    kubectl.pods(&[ended("b", "n1", 2, 0), ended("a", "n1", 1, 2)]);
    says(&kubectl.ends(0, "fleet status c"), &["1 ok"]);
    kubectl.pods(&[]);
    says(&kubectl.ends(0, "fleet status c"), &["1 ok"]);
}

#[test]
fn a_pod_that_is_gone_and_a_drive_of_two_nodes_are_told() {
    let kubectl = Kubectl::new(&[runs("a", "n1", 1), runs("b", "n2", 1)]);
    kubectl.look("running", None);
    says(&kubectl.ends(0, "fleet status c"), &["n1 and n2 show one drive, `S1`", "2 running"]);
    kubectl.pods(&[runs("a", "n1", 1)]);
    says(&kubectl.ends(1, "fleet status c"), &["1 killed, 1 running", "has no pod of it any more"]);
}
