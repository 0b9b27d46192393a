//! Metrics of runs and watches as text: in files for the node exporter, and in the eyes of promtool.

use crate::common;
use crate::dashboards::{ask, queries};
use crate::servers::{Server, has, node_exporter, prometheus};
use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

const RUN: &str = "run --path posix-sio/syscall/interrupt --ios 50 --replicates 2 --size 1m --meters none";

/// The lint of a text in the older format, as `promtool check metrics` has it: empty if there is nothing.
pub(crate) fn lint(text: &str) -> String {
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let words = [output.stdout, output.stderr].map(|words| String::from_utf8(words).unwrap()).concat();
    assert!(output.status.success() || !words.is_empty());
    words
}

#[test]
fn a_file_keeps_the_last_figures_of_a_run_and_the_node_exporter_reads_it() {
    let folder = common::folder();
    let collected = folder.join("textfile");
    std::fs::create_dir(&collected).unwrap();
    let (code, _, words) = common::run(&folder, &format!("{RUN} --name f --metrics textfile/run.prom"));
    assert_eq!(code, 0, "{words}");
    // It lies on the disk of the file that is read, as the store does.
    let warned = |what: &str| words.contains(&format!("warning: {what} lies on "));
    assert_eq!(warned("the file of metrics textfile/run.prom"), warned("the store f.iopj"), "{words}");
    let text = std::fs::read_to_string(collected.join("run.prom")).unwrap();
    let path = "study=\"f\",path=\"posix-sio/syscall/interrupt\"";
    common::says(
        &text,
        &[
            "iopj_run_info{study=\"f\"} 1\n",
            "iopj_run_active{study=\"f\"} 0\n",
            "iopj_run_trials_planned{study=\"f\"} 2\n",
            "iopj_run_trials_done{study=\"f\"} 2\n",
            &format!("iopj_trial_iops{{{path},workload=\"randread 4k iodepth 1 numjobs 1\","),
            &format!("iopj_run_disturbed_trials_total{{{path}}} "),
        ],
    );
    let ended = text.lines().filter(|line| line.starts_with(&format!("iopj_run_trials_total{{{path},")));
    let ended: f64 = ended.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum();
    assert!(ended == 2.0, "{text}");
    assert_eq!(std::fs::read_dir(&collected).unwrap().count(), 1, "nothing is left beside it");
    if !common::have(has("prometheus-node-exporter"), "prometheus-node-exporter") {
        return;
    }
    let exporter = node_exporter(&collected);
    let read = exporter.get("/metrics", "text/plain");
    let done = "iopj_run_trials_done{study=\"f\"} 2\n";
    common::says(&read, &["node_textfile_scrape_error 0\n", done, "iopj_trial_iops{"]);
}

/// Of series that two files have, the node exporter shows those of one, and calls the others an error.
#[test]
fn two_runs_in_one_folder_are_told_apart_by_their_studies() {
    let tools = ["prometheus-node-exporter", "prometheus"].into_iter().all(has);
    if !common::have(tools, "prometheus-node-exporter and prometheus") {
        return;
    }
    let folder = common::folder();
    let collected = folder.join("textfile");
    std::fs::create_dir(&collected).unwrap();
    for name in ["one", "two"] {
        let line = format!("{RUN} --name {name} --metrics textfile/{name}.prom");
        assert_eq!(common::run(&folder, &line).0, 0);
    }
    let exporter = node_exporter(&collected);
    let read = exporter.get("/metrics", "text/plain");
    let done = ["one", "two"].map(|name| format!("iopj_run_trials_done{{study=\"{name}\"}} 2\n"));
    common::says(&read, &["node_textfile_scrape_error 0\n", &done[0], &done[1]]);
    let prometheus = prometheus(&folder, &[&exporter]);
    let of_both = ["Trials that are done", "Trials by path and verdict", "IOPS", "CPU time per I/O"];
    let asked = queries("iopj-run.json").into_iter().filter(|(title, _)| of_both.contains(&title.as_str()));
    for (title, query) in asked {
        let found = loop {
            let found = ask(&prometheus, &query);
            if !found.is_empty() {
                break found;
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        let studies: BTreeSet<&str> =
            found.iter().filter_map(|one| one["metric"]["study"].as_str()).collect();
        assert_eq!(Vec::from_iter(studies), ["one", "two"], "{title}: {found:?}");
    }
}

#[test]
fn a_watch_takes_its_file_away_when_it_ends() {
    let folder = common::folder();
    let mut command = common::iopj(&folder, "watch --interval 100ms --metrics watch.prom -- sh -c");
    let (output, words) =
        common::output(command.arg("until grep -q iopj_watch_info watch.prom; do sleep 0.05; done"));
    assert!(output.status.success(), "{words}");
    assert!(!folder.join("watch.prom").exists());
}

#[test]
fn places_that_cannot_be_are_refused_before_anything_is_made() {
    let folder = common::folder();
    let before = || std::fs::read_dir(&*folder).unwrap().count();
    for (option, part) in [
        ("--listen 70000", "`70000` cannot be listened on"),
        ("--listen nowhere:1", "name another address or port by --listen"),
        ("--metrics no/such/folder/x.prom", "`no/such/folder/x.prom` cannot be written"),
    ] {
        let words = common::refusal(&folder, &format!("{RUN} {option}"));
        common::says(&words, &[part]);
        assert_eq!((before(), words.lines().count()), (0, 1), "{words}");
    }
    let (code, _, words) = common::run(&folder, &format!("{RUN} --dry-run --metrics x.prom"));
    assert_eq!((code, before()), (0, 0), "a dry run publishes nothing: {words}");
}

#[test]
fn promtool_finds_nothing_to_say_about_a_watch() {
    if !common::have(has("promtool"), "prometheus") {
        return;
    }
    let folder = common::folder().with_data(1 << 20);
    let mut command = common::iopj(&folder, "watch --listen 0 --interval 100ms -- sh -c");
    command.arg("while true; do cat data > copy; done");
    let watch = Server::start(&mut command, "served on http://");
    let text = loop {
        let text = watch.get("/metrics", "text/plain");
        if text.contains("iopj_program_context_switches_total") {
            break text;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(lint(&text), "", "{text}");
    assert!(!text.contains("# EOF"), "{text}");
    assert!(watch.get("/metrics", "*/*").ends_with("\n# EOF\n"));
}
