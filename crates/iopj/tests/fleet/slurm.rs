//! A job array on a real Slurm cluster. Its two nodes share a drive, as two names of one machine do.

use crate::campaigns::{fetched, json, process, record, signal, study, trials, until, until_done};
use crate::common::{output, says};
use crate::slurm_cluster::{Cluster, have_cluster};
use std::fs;
use std::os::unix::process::ExitStatusExt;

#[track_caller]
fn ends(cluster: &Cluster, code: i32, line: &str) -> String {
    let (output, words) = output(&mut cluster.iopj(line));
    let words = words + &String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(code), "{line}: {words}");
    words
}

/// Asks until the campaign's hosts are these in these states.
#[track_caller]
fn until_says(cluster: &Cluster, last: &str) -> String {
    until(last, || {
        let (output, _) = output(&mut cluster.iopj("fleet status shared/c"));
        let words = String::from_utf8(output.stdout).unwrap();
        (words.lines().last() == Some(last)).then_some(words)
    })
}

/// The node whose task has the drive.
fn holder(cluster: &Cluster) -> String {
    until("a lease", || {
        let mut files = fs::read_dir(cluster.at("shared/c/drives")).ok()?.flatten();
        // A name with a tilde is of a job that asks.
        let lease = files.find(|file| !file.file_name().to_string_lossy().contains('~'))?;
        // It may be released between the two.
        let holder: serde_json::Value = serde_json::from_slice(&fs::read(lease.path()).ok()?).ok()?;
        Some(holder["host"].as_str()?.to_owned())
    })
}

#[test]
fn of_an_array_over_two_nodes_a_killed_task_is_recorded_and_made_up_for() {
    if !have_cluster() {
        return;
    }
    let cluster = Cluster::start();
    fs::write(cluster.at("s.toml"), study(4, "500ms")).unwrap();
    let sudo = cluster.at("sudo").display().to_string();
    let line = format!(
        "fleet submit s.toml --slurm --nodelist n[1-2] --dir shared/c --wait --command {sudo} --time 10 \
         --scratch {}",
        cluster.at("shared/scratch").display()
    );
    says(&ends(&cluster, 0, &line), &["job array 1 has 2 tasks"]);
    let job = |node: &str| cluster.at("shared/c/run").join(node);
    let killed = holder(&cluster);
    let id = json(&cluster.at("shared/c/campaign.json"))["job"]["campaign"].as_str().unwrap().to_owned();
    until_done(&cluster.at(&format!("shared/scratch/{id}/{killed}/run.iopj")), 1);
    let setting = |node: &str| fs::read_to_string(cluster.at(&format!("sys-{node}/nomerges"))).unwrap();
    assert_eq!(setting(&killed), "2\n", "the prolog has set it");
    signal(process(&job(&killed).join("state.json")), libc::SIGKILL);
    let words = until_says(&cluster, "1 killed, 1 ok");
    says(&words, &["Slurm: ", "killed by signal 9"]);
    let other = if killed == "n1" { "n2" } else { "n1" };
    ends(&cluster, 0, "fleet fetch shared/c");
    let campaign = cluster.at("shared/c");
    assert_eq!(trials(&fetched(&campaign, other)), 4);
    let partial = trials(&fetched(&campaign, &killed));
    assert!((1..4).contains(&partial), "{partial}");
    assert_eq!(record(&campaign, &killed)["done"], partial);

    let before = json(&job(other).join("state.json"));
    says(&ends(&cluster, 0, &line), &["job array 3 has 1 tasks"]);
    until_says(&cluster, "2 ok");
    assert_eq!(json(&job(other).join("state.json")), before, "what was complete ran again");
    assert!(json(&job(&killed).join("state.json"))["began_ms"].as_u64() >= before["since_ms"].as_u64());
    assert_eq!(ends(&cluster, 0, "fleet fetch shared/c").lines().count(), 1);
    assert_eq!(trials(&fetched(&campaign, &killed)), 4);
    assert_eq!(fs::read_dir(campaign.join("drives")).unwrap().count(), 0, "no lease is left");
    says(&ends(&cluster, 0, &line), &["every node is complete or under way"]);
    until("the epilogs", || ["n1", "n2"].iter().all(|node| setting(node) == "0\n").then_some(()));
}

#[test]
fn tasks_of_any_nodes_are_cancelled_and_put_their_end_on_record() {
    if !have_cluster() {
        return;
    }
    let cluster = Cluster::start();
    fs::write(cluster.at("s.toml"), study(20, "500ms")).unwrap();
    let iopj = env!("CARGO_BIN_EXE_iopj");
    // The third waits for a node that is neither of the first two, so for ever.
    let line = format!("fleet submit s.toml --slurm --nodes 3 --dir shared/c --wait --command {iopj}");
    says(&ends(&cluster, 0, &line), &["job array 1 has 3 tasks"]);
    let runs = holder(&cluster);
    until_done(&cluster.at("shared/c/run").join(&runs).join("run.iopj"), 1);
    until_says(&cluster, "2 running, 1 waiting");
    // Each look remembers who waits; a second submit queued one more.
    for _ in 0..3 {
        says(&ends(&cluster, 0, "fleet status shared/c"), &["2 running, 1 waiting"]);
    }
    says(&ends(&cluster, 0, &line), &["every node is complete or under way"]);
    says(&ends(&cluster, 0, "fleet cancel shared/c"), &["3 cancelled", "ended by a signal"]);
    assert_eq!(fs::read_dir(cluster.at("shared/c/drives")).unwrap().count(), 0, "no lease is left");
    let missing = "fleet submit s.toml --slurm --nodes 1 --dir d --partition none";
    says(&ends(&cluster, 2, missing), &["`sbatch --parsable` failed: ", "partition"]);
    let mut command = cluster.iopj("fleet submit s.toml --slurm --nodes 1 --dir e");
    let (output, words) = output(command.env("PATH", "/nowhere"));
    assert_eq!(output.status.code(), Some(2));
    says(&words, &["there is no `squeue` here: install Slurm's commands"]);
}

/// Nobody knew of the first, and nobody released the second; both stayed held for ever.
#[test]
fn arrays_that_a_killed_submit_left_held_do_not_wait_for_ever() {
    if !have_cluster() {
        return;
    }
    let cluster = Cluster::start();
    fs::write(cluster.at("s.toml"), study(1, "50ms")).unwrap();
    let line = format!(
        "fleet submit s.toml --slurm --nodelist n1 --dir shared/100%A --command {}",
        env!("CARGO_BIN_EXE_iopj")
    );
    let held = || {
        let output = cluster.command("squeue", "--noheader --format=%F/%Q").output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let killed = |name: &str, script: &str| {
        let (output, _) = output(cluster.with_program(name, script).args(line.split_whitespace()));
        assert_eq!(output.status.signal(), Some(libc::SIGKILL), "{output:?}");
    };
    killed("sbatch", r#"/usr/bin/sbatch "$@"; kill -9 $PPID"#);
    assert_eq!(held(), "1/0");
    killed("scontrol", r#"[ "$1" = release ] && kill -9 $PPID && exit; /usr/bin/scontrol "$@""#);
    assert_eq!(held(), "2/0", "the first is cancelled");

    let mut refused = cluster.with_program("scancel", "echo 'Access denied' >&2; exit 1");
    let (refused, words) = output(refused.args(["fleet", "cancel", "shared/100%A"]));
    assert_eq!(refused.status.code(), Some(2), "{words}");
    says(&words, &["`scancel --state=PENDING` failed: Access denied"]);

    let words = ends(&cluster, 0, &line);
    says(&words, &["job array 2 was held by a submit that was killed: released", "nothing to submit"]);
    until("its end", || ends_with(&cluster, "1 ok").then_some(()));
    assert!(cluster.at("shared/100%A/run/slurm-2_0.log").exists(), "Slurm filled in the folder's %A");
}

fn ends_with(cluster: &Cluster, last: &str) -> bool {
    let (output, _) = output(&mut cluster.iopj("fleet status shared/100%A"));
    String::from_utf8(output.stdout).unwrap().lines().last() == Some(last)
}
