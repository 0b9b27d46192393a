//! Campaigns' and jobs' records: what opens names nothing that a shell, ssh or kubectl takes for something
//! else.

use iopj_core::Allow;
use iopj_fleet::campaign::{Array, By, ByKubernetes, BySlurm, BySsh, Campaign, Plan};
use iopj_fleet::job::{FORMAT, Job, Phase, State};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A job of a study.
pub(crate) fn job(study: &str, target: Option<&str>) -> Job {
    Job {
        format: FORMAT,
        version: "0".to_owned(),
        campaign: "small-1".to_owned(),
        study: study.to_owned(),
        target: target.map(Into::into),
        serials: None,
        destroy_data: false,
        allow: Allow::NOTHING,
        wait_ms: None,
        leases: None,
        scratch: None,
        hold_ms: None,
    }
}

/// A folder of a campaign with this record of it.
fn folder(record: &[u8]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let hosts = folder.path().join("hosts");
    fs::create_dir(&hosts).expect("a folder of hosts");
    let private = fs::Permissions::from_mode(0o700);
    let modes = [folder.path(), &hosts].map(|path| fs::set_permissions(path, private.clone()));
    assert!(modes.iter().all(Result::is_ok), "{modes:?}");
    fs::write(folder.path().join("campaign.json"), record).expect("room for a record");
    folder
}

/// The record of a campaign.
pub(crate) fn run(input: &[u8]) {
    let folder = folder(input);
    let Ok(campaign) = Campaign::open(folder.path()) else { return };
    let plan = campaign.plan();
    let is_plain =
        |word: &str| !word.is_empty() && !word.starts_with('-') && !word.contains(char::is_control);
    assert!(is_plain(campaign.id()) && !campaign.id().contains('/'), "{:?}", campaign.id());
    match &plan.by {
        By::Ssh(by) => {
            assert!(is_plain(&by.command), "{:?}", by.command);
            for host in &by.hosts {
                assert!(is_plain(host) && !host.contains(char::is_whitespace), "{host:?}");
                assert!(campaign.store(host).starts_with(folder.path()), "{host:?} leads out");
                assert_eq!(campaign.store(host).parent(), Some(&*folder.path().join("stores")));
            }
        }
        By::Slurm(by) => {
            assert!(by.nodelist.iter().all(|node| is_plain(node)));
            assert!(by.options.iter().all(|option| option.starts_with("--")));
            assert!(by.arrays.iter().all(|array| array.id.bytes().all(|byte| byte.is_ascii_digit())));
        }
        By::Kubernetes(by) => assert!(by.namespace.iter().all(|name| is_plain(name))),
    }
    let _ = campaign.all_known();
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let ssh = By::Ssh(BySsh {
        hosts: vec!["n1".to_owned(), "root@n2:22".to_owned(), "[::1]:22".to_owned()],
        parallel: 8,
        command: "sudo iopj".to_owned(),
        push: false,
        folder: None,
    });
    let slurm = By::Slurm(BySlurm {
        nodes: None,
        nodelist: vec!["n1".to_owned()],
        options: vec!["--partition=io".to_owned()],
        command: "iopj".to_owned(),
        arrays: vec![Array { id: "17".to_owned(), tasks: 1, nodes: vec!["n1".to_owned()] }],
    });
    let kubernetes = By::Kubernetes(ByKubernetes {
        namespace: Some("io".to_owned()),
        folder: "/var/lib/iopj".into(),
        nodes: Some(2),
    });
    let plan = |by| Plan { format: FORMAT, job: job("name = \"small\"", Some("/dev/sda")), by };
    let sound = [ssh, slurm, kubernetes].map(|by| serde_json::to_string(&plan(by)).expect("a plan as JSON"));
    // Each with a word in it that somebody takes for something else.
    let others = [
        ("\"n1\"", "\"-oProxyCommand=x\""),
        ("\"n1\"", "\"n1 n2\""),
        ("\"sudo iopj\"", "\"-x\""),
        ("\"--partition=io\"", "\"io\""),
        ("\"17\"", "\"17;18\""),
        ("\"io\"", "\"-io\""),
        ("\"small-1\"", "\"../small\""),
    ];
    let changed = sound.iter().flat_map(|plan| others.map(|(word, other)| plan.replace(word, other)));
    sound.iter().cloned().chain(changed).map(String::into_bytes).collect()
}

/// The record of a host in a campaign over ssh.
pub(crate) fn state(input: &[u8]) {
    let seeds = seeds();
    let folder = folder(&seeds[0]);
    let campaign = Campaign::open(folder.path()).expect("a sound campaign");
    // A record bears its host's name, or is refused.
    let named = serde_json::from_slice::<serde_json::Value>(input).ok();
    let host = named.as_ref().and_then(|value| value["host"].as_str()).unwrap_or("n1");
    let _ = campaign.keep(host, &State::now(Phase::Waiting, None));
    let hosts = fs::read_dir(folder.path().join("hosts")).expect("a folder of hosts");
    let kept = hosts.flatten().map(|entry| entry.path()).next();
    let record = kept.unwrap_or_else(|| folder.path().join("hosts/n1.json"));
    fs::write(&record, input).expect("room for a record");
    fs::set_permissions(&record, fs::Permissions::from_mode(0o644)).expect("its own file");
    let Ok(known) = campaign.all_known() else { return };
    for (host, state) in known {
        assert!(!host.starts_with('-') && !host.contains(char::is_whitespace), "{host:?}");
        assert!(campaign.store(&host).parent() == Some(&*folder.path().join("stores")), "{host:?} leads out");
        let _ = (state.drive_keys(), state.may_run(), state.is_fetched());
        let _ = state.counted(Path::new("/nonexistent"));
    }
}

pub(crate) fn seeds_of_states() -> Vec<Vec<u8>> {
    let of = |host: &str, phase: Phase| {
        let mut value = serde_json::to_value(State::now(phase, Some("why".to_owned()))).expect("JSON");
        value["host"] = host.into();
        value["since_ms"] = 5.into();
        value.to_string().into_bytes()
    };
    vec![
        of("n1", Phase::Running),
        of("root@n2", Phase::Lost),
        of("-oProxyCommand=x", Phase::Ok),
        of("../../x", Phase::Ok),
    ]
}
