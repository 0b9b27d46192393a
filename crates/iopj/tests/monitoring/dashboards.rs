//! The dashboards for Grafana: each query of each panel is asked of a Prometheus that scrapes a run and a
//! watch, and has an answer with data.

use crate::common;
use crate::metrics::lint;
use crate::servers::{Server, has, prometheus};
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

/// A meter that says 40 W, and trials that are long enough for it.
const STUDY: &str = r#"name = "dashboards"
paths = ["posix-sio/syscall/interrupt", "io_uring/syscall/interrupt"]
replicates = 500
idle = "100ms"
settle_limit = "100ms"
[[workload]]
runtime = "400ms"
[meters.plug]
kind = "command"
scope = "system"
interval = "50ms"
command = ["sh", "-c", "while echo 40; do sleep 0.02; done"]
"#;

/// The queries of a dashboard with their panels' titles, as Grafana would ask them for all instances.
pub(crate) fn queries(name: &str) -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/grafana").join(name);
    let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let of_panel = |panel: &Value| -> Vec<(String, String)> {
        let title = panel["title"].as_str().unwrap().to_owned();
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{title}");
        let expression = |target: &Value| target["expr"].as_str().unwrap().to_owned();
        targets.iter().map(|target| (title.clone(), expression(target))).collect()
    };
    let all = ["$instance", "$path"].map(|name| (name, ".*"));
    let some = ["$study", "$subject"].map(|name| (name, ".+"));
    let variables = all.into_iter().chain(some).chain([("$__rate_interval", "10s")]);
    let filled = |(title, query): (String, String)| {
        let fill = |query: String, (name, value): (&str, &str)| query.replace(name, value);
        let query = variables.clone().fold(query, fill);
        assert!(!query.contains('$'), "{title}: {query}");
        (title, query)
    };
    dashboard["panels"].as_array().unwrap().iter().flat_map(of_panel).map(filled).collect()
}

/// The result of an instant query.
pub(crate) fn ask(prometheus: &Server, query: &str) -> Vec<Value> {
    let encoded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let answer = prometheus.get(&format!("/api/v1/query?query={encoded}"), "*/*");
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["status"], "success", "{query}: {answer}");
    answer["data"]["result"].as_array().unwrap().clone()
}

/// Waits until each query has data, for two minutes at most.
fn have_data(prometheus: &Server, queries: Vec<(String, String)>) {
    let limit = Instant::now() + Duration::from_secs(120);
    let mut left = queries;
    while !left.is_empty() {
        left.retain(|(_, query)| ask(prometheus, query).is_empty());
        assert!(Instant::now() < limit || left.is_empty(), "without data: {left:#?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn page() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/monitoring.md");
    std::fs::read_to_string(page).unwrap()
}

/// The expressions of the page's alerts.
fn alerts() -> Vec<String> {
    let last_cell = |line: &str| Some(line.strip_suffix("` |")?.rsplit_once(" | `")?.1.to_owned());
    page().lines().filter_map(last_cell).filter(|cell| cell.contains("iopj_run_")).collect()
}

/// The families that Prometheus has scraped, also those that are there only sometimes.
fn families(prometheus: &Server) -> Vec<String> {
    let answer = prometheus.get("/api/v1/label/__name__/values", "*/*");
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let names = answer["data"].as_array().unwrap().iter().filter_map(Value::as_str);
    let ours = names.filter(|name| name.starts_with("iopj_"));
    ours.map(|name| name.trim_end_matches("_total").trim_end_matches("_info").to_owned()).collect()
}

/// The page has these families in its tables, and no other.
#[track_caller]
fn are_on_the_page(published: &[String]) {
    let page = page();
    let rows = page.lines().filter(|line| line.starts_with("| `iopj_"));
    let names = rows.map(|line| line.trim_start_matches("| ").split(" | ").next().unwrap());
    let named = names.flat_map(|names| names.split('`').filter(|word| word.starts_with("iopj_")));
    let named: Vec<String> = named.map(str::to_owned).collect();
    for name in published {
        assert!(named.contains(name), "{name} is not in docs/monitoring.md");
    }
    for name in named {
        assert!(published.contains(&name), "docs/monitoring.md has {name}, which is not published");
    }
}

/// Whether this machine has meters of its own that a watch reads, which reads no drive's.
fn has_meters(folder: &Path) -> bool {
    let list = common::iopj(folder, "meter list --json").output().unwrap();
    let found: Value = serde_json::from_slice(&list.stdout).unwrap();
    let is_read = |meter: &Value| {
        let kind = meter["name"].as_str().unwrap().split(':').next().unwrap();
        meter["why_not"].is_null() && ["rapl", "hwmon"].contains(&kind)
    };
    found.as_array().unwrap().iter().any(is_read)
}

#[test]
fn each_panel_has_data_in_prometheus() {
    let tools = ["prometheus", "promtool", "fio"].into_iter().all(has);
    if !common::have(common::is_root() && tools, "root, prometheus and fio") {
        return;
    }
    let _alone = common::alone();
    let folder = common::folder().with_data(4 << 20);
    if !common::have_tracepoints(&folder) {
        return;
    }
    std::fs::write(folder.join("study.toml"), STUDY).unwrap();
    let line = "run study.toml --target data --allow-exec --wait --listen 0";
    let run = Server::start(&mut common::iopj(&folder, line), "served on http://");
    let line = "watch --listen 0 --interval 100ms -- fio --name=x --filename=data --rw=randread --bs=4k \
                --direct=1 --ioengine=io_uring --rate_iops=300 --time_based --runtime=300 --output=/dev/null";
    let watch = Server::start(&mut common::iopj(&folder, line), "served on http://");
    let prometheus = prometheus(&folder, &[&run, &watch]);
    have_data(&prometheus, queries("iopj-run.json"));
    let needs_meters = |query: &str| query.contains("iopj_power_watts") || query.contains("joule");
    let has_meters = has_meters(&folder);
    let of_watch = queries("iopj-watch.json").into_iter();
    have_data(&prometheus, of_watch.filter(|(_, query)| has_meters || !needs_meters(query)).collect());
    if !has_meters {
        // They parse, at least, and the run's meter is there for the one that asks for all instances.
        queries("iopj-watch.json").iter().for_each(|(_, query)| drop(ask(&prometheus, query)));
    }
    assert_eq!(alerts().len(), 4);
    alerts().iter().for_each(|alert| drop(ask(&prometheus, alert)));
    let sick = ask(&prometheus, "up == 0");
    assert!(sick.is_empty(), "Prometheus reads both as OpenMetrics: {sick:?}");
    let text = run.get("/metrics", "text/plain");
    assert_eq!(lint(&text), "", "{text}");
    are_on_the_page(&families(&prometheus));
    watch.interrupt();
    run.interrupt();
    assert_eq!(run.code(), Some(130));
}
