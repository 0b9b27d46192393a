//! What a campaign takes up, and what it refuses.

use super::*;
use crate::job::Job;

fn plan(study: &str) -> Plan {
    let job = Job {
        format: FORMAT,
        version: "1".to_owned(),
        campaign: "s-1".to_owned(),
        study: study.to_owned(),
        target: None,
        serials: None,
        destroy_data: false,
        allow: iopj_core::Allow::NOTHING,
        wait_ms: None,
        leases: None,
        scratch: None,
        hold_ms: None,
    };
    let by = By::Ssh(BySsh {
        hosts: vec!["n1".to_owned()],
        parallel: 8,
        command: "iopj".to_owned(),
        push: false,
        folder: None,
    });
    Plan { format: FORMAT, job, by }
}

#[test]
fn a_campaign_is_continued_only_as_what_it_is() {
    let folder = files::own_folder();
    let submit = |plan: Plan| Campaign::submit(folder.path(), plan).map_err(|error| error.to_string());
    let first = submit(plan("a")).unwrap();
    assert!(submit(plan("a")).unwrap_err().contains("another `iopj fleet submit` is at work"));
    drop(first);
    assert!(submit(plan("b")).unwrap_err().contains("has another study"));
    let by = By::Slurm(BySlurm {
        nodes: Some(2),
        nodelist: Vec::new(),
        options: Vec::new(),
        command: "iopj".to_owned(),
        arrays: Vec::new(),
    });
    assert!(submit(Plan { by, ..plan("a") }).unwrap_err().contains("is run by ssh"));
    let mut other = plan("a");
    other.job.target = Some("/dev/sda".into());
    assert!(submit(other).unwrap_err().contains("has another target"));
    let mut again = plan("a");
    again.job.campaign = "s-2".to_owned();
    assert_eq!(submit(again).unwrap().id(), "s-1");
}

/// The stores of before were left where nobody looked for them.
#[test]
fn another_scratch_is_refused_however_the_campaign_is_run() {
    let ssh = |folder: Option<&str>| {
        By::Ssh(BySsh {
            hosts: vec!["n1".to_owned()],
            parallel: 8,
            command: "iopj".to_owned(),
            push: false,
            folder: folder.map(PathBuf::from),
        })
    };
    let kubernetes = |folder: &str| {
        By::Kubernetes(ByKubernetes { namespace: None, folder: folder.into(), nodes: Some(2) })
    };
    let pairs = [
        (ssh(None), ssh(Some("/scratch"))),
        (ssh(Some("/scratch")), ssh(None)),
        (kubernetes("/var/lib/iopj"), kubernetes("/scratch")),
    ];
    for (first, second) in pairs {
        let folder = files::own_folder();
        let submit = |by: By| Campaign::submit(folder.path(), Plan { by, ..plan("a") });
        drop(submit(first.clone()).unwrap());
        let error = submit(second).unwrap_err().to_string();
        assert!(error.contains("has another --scratch: submit it as it was"), "{error}");
        drop(submit(first).unwrap());
    }
}

/// A campaign with the namespace `-io` was written, and refused by whatever opened it.
#[test]
fn what_cannot_be_opened_is_not_submitted() {
    let made = tempfile::tempdir().unwrap();
    let folder = made.path().join("c");
    let by = |namespace: &str, folder: &str| {
        By::Kubernetes(ByKubernetes {
            namespace: Some(namespace.to_owned()),
            folder: folder.into(),
            nodes: Some(2),
        })
    };
    for (by, message) in [
        (by("-io", "/iopj"), "the namespace `-io` cannot be used: write 1 to 64 lower-case letters"),
        (by("Io", "/iopj"), "the namespace `Io` cannot be used"),
        (by("io", "/a\nb"), "the folder `/a\\nb` cannot be used: it may be neither empty nor an option"),
    ] {
        let error = Campaign::submit(&folder, Plan { by, ..plan("x") }).unwrap_err().to_string();
        assert!(error.starts_with(message) && !folder.exists(), "{error}");
    }
    Campaign::submit(&folder, Plan { by: by("io", "/iopj"), ..plan("x") }).unwrap();
}

#[test]
fn a_folder_of_other_files_is_left_alone() {
    let folder = files::own_folder();
    fs::write(folder.path().join("thesis.tex"), "").unwrap();
    let error = Campaign::submit(folder.path(), plan("a")).unwrap_err().to_string();
    assert!(error.contains("holds other files"), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    assert!(Campaign::open(folder.path()).unwrap_err().to_string().contains("there is no campaign"));
}

/// Whoever could write one of them said which host is reached.
#[test]
fn a_record_that_somebody_else_could_have_written_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let folder = files::own_folder();
    let campaign = Campaign::submit(folder.path(), plan("a")).unwrap();
    campaign.keep("n1", &State::now(Phase::Running, None)).unwrap();
    let record = campaign.record("n1");
    let refused = |why: &str| {
        let error = campaign.all_known().unwrap_err().to_string();
        assert!(error.contains("hosts/n1.json") && error.contains(why), "{error}");
        assert_eq!(campaign.known("n1").unwrap_err().to_string(), error);
    };
    fs::set_permissions(&record, fs::Permissions::from_mode(0o666)).unwrap();
    refused("can be written by other users");
    fs::remove_file(&record).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &record).unwrap();
    refused("it is a symbolic link, not a file");
}

/// It began to count anew, and what had been cancelled began.
#[test]
fn cancels_that_nobody_could_count_are_refused() {
    let folder = files::own_folder();
    let campaign = Campaign::submit(folder.path(), plan("a")).unwrap();
    assert_eq!([(); 2].map(|()| campaign.cancel().unwrap()), [1, 2]);
    fs::write(folder.path().join(CANCELS), u64::MAX.to_string()).unwrap();
    let error = campaign.cancel().unwrap_err().to_string();
    assert!(error.contains("cancelled more often than anybody can"), "{error}");
}

#[test]
fn a_hosts_state_is_kept_under_its_own_name() {
    let folder = files::own_folder();
    let campaign = Campaign::submit(folder.path(), plan("a")).unwrap();
    let lost = State::now(Phase::Lost, Some("no route".to_owned()));
    campaign.keep("root@[fe80::1%eth0]", &lost).unwrap();
    let all = campaign.all_known().unwrap();
    assert_eq!(all.keys().collect::<Vec<_>>(), ["n1", "root@[fe80::1%eth0]"]);
    assert_eq!(all["root@[fe80::1%eth0]"], lost);
}

/// Its command ran on its hosts, by the ssh of whoever asked for its status.
#[test]
fn a_campaign_of_a_stranger_is_not_opened() {
    use std::os::unix::fs::PermissionsExt;
    let made = tempfile::tempdir().unwrap();
    let folder = made.path().join("c");
    Campaign::submit(&folder, plan("x")).unwrap();
    Campaign::open(&folder).unwrap();
    let mode = |mode: u32| fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
    mode(0o777);
    let error = Campaign::open(&folder).unwrap_err().to_string();
    assert!(error.contains("can be written by other users") && error.contains("chmod"), "{error}");
    assert!(Campaign::submit(&folder, plan("x")).is_err());
    mode(0o755);
    let text = fs::read_to_string(folder.join(PLAN)).unwrap();
    for (from, to, what) in [
        ("\"n1\"", "\"-oProxyCommand=x\"", "the host `-oProxyCommand=x`"),
        ("\"n1\"", "\"n1 n2\"", "the host `n1 n2`"),
        ("\"s-1\"", "\"../../x\"", "the id `../../x`"),
        ("\"s-1\"", "\"s-1; reboot\"", "the id `s-1; reboot`"),
        ("\"iopj\"", "\"-x\"", "the command `-x`"),
        ("\"iopj\"", "\"iopj\\nreboot\"", "the command `iopj\\nreboot`"),
    ] {
        assert!(text.contains(from), "{from}: {text}");
        fs::write(folder.join(PLAN), text.replace(from, to)).unwrap();
        let error = Campaign::open(&folder).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
    fs::write(folder.join(PLAN), &text).unwrap();
    let state = serde_json::to_value(State::now(Phase::Running, None)).unwrap();
    let mut known = serde_json::json!({ "host": "-oProxyCommand=x" });
    known.as_object_mut().unwrap().extend(state.as_object().unwrap().clone());
    fs::write(folder.join("hosts/x.json"), known.to_string()).unwrap();
    let error = Campaign::open(&folder).unwrap().all_known().unwrap_err().to_string();
    assert!(error.contains("the host `-oProxyCommand=x`"), "{error}");
    fs::write(folder.join("hosts/x.json"), known.to_string().replace("-oProxyCommand=x", "n2")).unwrap();
    let error = Campaign::open(&folder).unwrap().all_known().unwrap_err().to_string();
    assert!(error.contains("the host `n2`"), "its file has another name: {error}");
    fs::remove_file(folder.join("hosts/x.json")).unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&folder, Some(65_534), Some(65_534)).unwrap();
        let error = Campaign::open(&folder).unwrap_err().to_string();
        assert!(error.contains("belongs to another user"), "{error}");
        Campaign::open_of_task(&folder, None).unwrap();
    }
}
