//! What Kubernetes says of a campaign's pods.

use crate::error::FleetError;
use crate::job::Phase;
use serde::Deserialize;
use std::path::PathBuf;

/// A pod of a campaign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pod {
    pub(super) name: String,
    /// Its node, once it has one.
    pub(super) node: Option<String>,
    /// When it was made, as Kubernetes writes it.
    pub(super) made: String,
    pub(super) begun: Begun,
}

/// How far a pod has come, without asking iopj in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Begun {
    /// It waits, for the reason that Kubernetes gives.
    Not(String),
    /// Its container runs: the job in it can be asked.
    Runs,
    /// Its container has ended, in these words.
    Ended(Phase, String),
}

#[derive(Deserialize)]
struct List {
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    #[serde(default)]
    creation_timestamp: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    node_name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    phase: String,
    reason: Option<String>,
    message: Option<String>,
    conditions: Vec<Condition>,
    container_statuses: Vec<Container>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Condition {
    status: String,
    message: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    state: ContainerState,
    last_state: ContainerState,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ContainerState {
    waiting: Option<Reason>,
    running: Option<serde_json::Value>,
    terminated: Option<Reason>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Reason {
    reason: String,
    exit_code: i32,
}

/// The pods of `kubectl get pods --output=json`, the oldest first.
pub(super) fn parse(text: &str) -> Result<Vec<Pod>, FleetError> {
    let list: List = serde_json::from_str(text)
        .map_err(|source| FleetError::Form { path: PathBuf::from("kubectl's list of pods"), source })?;
    let pod = |item: Item| Pod {
        begun: begun(&item.status),
        name: item.metadata.name,
        node: item.spec.node_name,
        made: item.metadata.creation_timestamp,
    };
    let mut pods: Vec<Pod> = list.items.into_iter().map(pod).collect();
    // RFC 3339 in UTC, so the text has the order of time.
    pods.sort_by(|a, b| a.made.cmp(&b.made));
    Ok(pods)
}

fn begun(status: &Status) -> Begun {
    let container = status.container_statuses.first();
    let state = container.map(|container| &container.state);
    let before = container.and_then(|container| container.last_state.terminated.as_ref());
    let why = || {
        let conditions = status.conditions.iter();
        let mut open =
            conditions.filter(|condition| condition.status != "True").filter_map(|one| one.message.clone());
        status
            .message
            .clone()
            .or(status.reason.clone())
            .or(open.next_back())
            .unwrap_or_else(|| status.phase.clone())
    };
    match (state, before) {
        (Some(ContainerState { terminated: Some(end), .. }), _) => ended(end),
        (Some(ContainerState { running: Some(_), .. }), _) => Begun::Runs,
        _ if status.phase == "Failed" => Begun::Ended(Phase::Killed, format!("Kubernetes: {}", why())),
        // A DaemonSet's, between two tries.
        (Some(ContainerState { waiting: Some(_), .. }), Some(end)) => ended(end),
        (Some(ContainerState { waiting: Some(waiting), .. }), None) if !waiting.reason.is_empty() => {
            Begun::Not(format!("Kubernetes: {}", waiting.reason))
        }
        _ => Begun::Not(format!("Kubernetes: {}", why())),
    }
}

/// The exit codes are those of `iopj fleet job`.
fn ended(end: &Reason) -> Begun {
    let text = format!("Kubernetes: {} (exit code {})", end.reason, end.exit_code);
    let phase = match end.exit_code {
        0 => Phase::Ok,
        1 => Phase::Failures,
        2 => Phase::Refused,
        130 => Phase::Cancelled,
        _ => Phase::Killed,
    };
    Begun::Ended(phase, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_state_of_a_pod_is_told() {
        let of = |status: serde_json::Value| {
            let list = json!({ "items": [{ "metadata": { "name": "p" }, "spec": {}, "status": status }] });
            parse(&list.to_string()).unwrap().remove(0).begun
        };
        let container = |state: serde_json::Value| {
            let statuses = json!([{ "state": state }]);
            json!({ "phase": "Running", "containerStatuses": statuses })
        };
        assert_eq!(of(container(json!({ "running": { "startedAt": "x" } }))), Begun::Runs);
        let waiting = of(container(json!({ "waiting": { "reason": "ImagePullBackOff" } })));
        assert_eq!(waiting, Begun::Not("Kubernetes: ImagePullBackOff".to_owned()));
        let killed = of(container(json!({ "terminated": { "reason": "OOMKilled", "exitCode": 137 } })));
        assert_eq!(killed, Begun::Ended(Phase::Killed, "Kubernetes: OOMKilled (exit code 137)".to_owned()));
        let codes = [
            (0, Phase::Ok),
            (1, Phase::Failures),
            (2, Phase::Refused),
            (3, Phase::Killed),
            (130, Phase::Cancelled),
        ];
        for (code, phase) in codes {
            let ended = of(container(json!({ "terminated": { "reason": "Error", "exitCode": code } })));
            assert_eq!(ended, Begun::Ended(phase, format!("Kubernetes: Error (exit code {code})")));
        }
        let tried = json!([{
            "state": { "waiting": { "reason": "CrashLoopBackOff" } },
            "lastState": { "terminated": { "reason": "Error", "exitCode": 2 } },
        }]);
        let refused = of(json!({ "phase": "Running", "containerStatuses": tried }));
        assert_eq!(refused, Begun::Ended(Phase::Refused, "Kubernetes: Error (exit code 2)".to_owned()));
        let conditions = json!([{ "type": "PodScheduled", "status": "False", "message": "0/3 nodes" }]);
        let unscheduled = of(json!({ "phase": "Pending", "conditions": conditions }));
        assert_eq!(unscheduled, Begun::Not("Kubernetes: 0/3 nodes".to_owned()));
        let evicted = of(json!({ "phase": "Failed", "reason": "NodeLost" }));
        assert_eq!(evicted, Begun::Ended(Phase::Killed, "Kubernetes: NodeLost".to_owned()));
        assert!(parse("no").is_err());
    }
}
