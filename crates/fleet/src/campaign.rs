//! A campaign: a folder with a study, how it is run and where, and what has become of each host's job.

use crate::error::FleetError;
use crate::files;
use crate::hosts;
use crate::job::{FORMAT, Phase, State};
use crate::job_folder::JobFolder;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

pub use crate::plan::{Array, By, ByKubernetes, BySlurm, BySsh, Plan};

const PLAN: &str = "campaign.json";
const STUDY: &str = "study.toml";
/// How often the campaign was cancelled.
const CANCELS: &str = "cancels";

/// An open campaign.
#[derive(Debug)]
pub struct Campaign {
    folder: PathBuf,
    plan: Plan,
    /// How often it had been cancelled when it was opened.
    cancels: u64,
    /// Held while this process changes it.
    _lock: Option<File>,
}

impl Campaign {
    /// Makes a campaign, or opens one of the same study that is run in the same way, with its hosts and
    /// options as they are asked for now.
    ///
    /// # Errors
    /// The folder holds another campaign, or another iopj submits it at this moment.
    pub fn submit(folder: &Path, mut plan: Plan) -> Result<Campaign, FleetError> {
        plan.check_submitted()?;
        refuse_foreign(folder)?;
        if folder.exists() {
            refuse_others(folder)?;
        }
        for below in ["hosts", "run", "stores"] {
            files::make_folder(&folder.join(below))?;
        }
        let lock = lock(folder)?;
        if let Some(before) = read(folder)? {
            plan = continued(before, plan, folder)?;
        }
        // The plan is last: a folder that has it is whole.
        files::write(&folder.join(STUDY), plan.job.study.as_bytes())?;
        let cancels = cancels(folder)?;
        let campaign = Campaign { folder: folder.to_owned(), plan, cancels, _lock: Some(lock) };
        campaign.keep_plan()?;
        Ok(campaign)
    }

    /// Opens a campaign of this user's own, to look at it or to go on with it.
    ///
    /// # Errors
    /// There is none, or somebody else may have written what it says: it names hosts that are reached and
    /// commands that run there.
    pub fn open(folder: &Path) -> Result<Campaign, FleetError> {
        if folder.exists() {
            refuse_others(folder)?;
        }
        Campaign::open_of_task(folder)
    }

    /// Opens a campaign as a task of it, which may run as root in the folder of the user who submitted it.
    ///
    /// # Errors
    /// There is none, or what it says cannot have been submitted.
    pub fn open_of_task(folder: &Path) -> Result<Campaign, FleetError> {
        let plan = read(folder)?.ok_or_else(|| {
            FleetError::Refused(format!(
                "there is no campaign in `{}`: name the folder that `iopj fleet submit` made",
                folder.display()
            ))
        })?;
        Ok(Campaign { folder: folder.to_owned(), plan, cancels: cancels(folder)?, _lock: None })
    }

    /// How it is run.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.plan.job.campaign
    }

    /// How often it had been cancelled when it was opened.
    pub(crate) fn cancels(&self) -> u64 {
        self.cancels
    }

    /// Whether it has been cancelled since it was opened.
    pub(crate) fn is_cancelled(&self) -> Result<bool, FleetError> {
        Ok(cancels(&self.folder)? > self.cancels)
    }

    /// Cancels it: whoever opened it before begins nothing any more. How often that makes.
    pub(crate) fn cancel(&self) -> Result<u64, FleetError> {
        let number = cancels(&self.folder)? + 1;
        files::write_json(&self.folder.join(CANCELS), &number)?;
        Ok(number)
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder of the leases of its drives, for jobs that share it.
    pub fn leases(&self) -> PathBuf {
        self.folder.join("drives")
    }

    /// The folder of a host's job, for jobs that share the campaign's folder.
    pub fn job_folder(&self, host: &str) -> JobFolder {
        JobFolder::new(&self.folder.join("run").join(files::name_of(host)))
    }

    /// Where a host's store is fetched to.
    pub fn store(&self, host: &str) -> PathBuf {
        self.folder.join("stores").join(format!("{}.iopj", files::name_of(host)))
    }

    /// Keeps a job array that was submitted.
    ///
    /// # Errors
    /// [`FleetError::Io`].
    pub fn keep_array(&mut self, array: Array) -> Result<(), FleetError> {
        if let By::Slurm(by) = &mut self.plan.by {
            by.arrays.push(array);
        }
        self.keep_plan()
    }

    fn keep_plan(&self) -> Result<(), FleetError> {
        files::write_json(&self.folder.join(PLAN), &self.plan)
    }

    /// The file of what is known of a host.
    pub(crate) fn record(&self, host: &str) -> PathBuf {
        self.folder.join("hosts").join(format!("{}.json", files::name_of(host)))
    }

    /// What is known of a host.
    ///
    /// # Errors
    /// Its file cannot be read.
    pub fn known(&self, host: &str) -> Result<Option<State>, FleetError> {
        Ok(files::read_json::<Known>(&self.record(host))?.map(|known| known.state))
    }

    /// Keeps what is known of a host.
    ///
    /// # Errors
    /// [`FleetError::Io`].
    pub fn keep(&self, host: &str, state: &State) -> Result<(), FleetError> {
        files::write_json(&self.record(host), &Known { host: host.to_owned(), state: state.clone() })
    }

    /// Forgets a host.
    ///
    /// # Errors
    /// [`FleetError::Io`].
    pub fn forget(&self, host: &str) -> Result<(), FleetError> {
        match fs::remove_file(self.record(host)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(FleetError::io("remove", &self.record(host))(error))
            }
            _ => Ok(()),
        }
    }

    /// All hosts of which something is known, by their names.
    ///
    /// # Errors
    /// A file of theirs cannot be read.
    pub fn all_known(&self) -> Result<BTreeMap<String, State>, FleetError> {
        let folder = self.folder.join("hosts");
        let entries = fs::read_dir(&folder).map_err(FleetError::io("read", &folder))?;
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let mut all = BTreeMap::new();
        for path in paths.filter(|path| path.extension().is_some_and(|extension| extension == "json")) {
            if let Some(Known { host, state }) = files::read_json(&path)? {
                if matches!(self.plan.by, By::Ssh(_)) && !hosts::is_host(&host) {
                    return Err(FleetError::Refused(format!(
                        "`{}` names the host `{}`, which no submit writes: delete the file",
                        path.display(),
                        host.escape_debug()
                    )));
                }
                all.insert(host, state);
            }
        }
        if let By::Ssh(by) = &self.plan.by {
            let waiting = || State::now(Phase::Waiting, None);
            for host in &by.hosts {
                all.entry(host.clone()).or_insert_with(waiting);
            }
        }
        Ok(all)
    }
}

/// The file of a host.
#[derive(Serialize, Deserialize)]
struct Known {
    host: String,
    #[serde(flatten)]
    state: State,
}

fn read(folder: &Path) -> Result<Option<Plan>, FleetError> {
    let path = folder.join(PLAN);
    /// What a plan of any iopj says.
    #[derive(Deserialize)]
    struct Any {
        format: u32,
    }
    match files::read_json::<Any>(&path)? {
        None => Ok(None),
        Some(Any { format }) if format != FORMAT => Err(FleetError::Refused(format!(
            "`{}` has format {format}, and this iopj knows format {FORMAT}: use the iopj that wrote it",
            path.display()
        ))),
        Some(_) => {
            let plan: Option<Plan> = files::read_json(&path)?;
            plan.iter().try_for_each(|plan| plan.check(&path))?;
            Ok(plan)
        }
    }
}

/// Refuses a campaign's folder, or its plan, that another user owns or may write.
fn refuse_others(folder: &Path) -> Result<(), FleetError> {
    let own = rustix::process::geteuid().as_raw();
    for path in [folder.to_owned(), folder.join(PLAN), folder.join("hosts")] {
        let found = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            found => found.map_err(FleetError::io("look at", &path))?,
        };
        // A folder may be named by a link of one's own.
        let found = if found.is_symlink() && found.uid() == own && path == folder {
            fs::metadata(&path).map_err(FleetError::io("look at", &path))?
        } else {
            found
        };
        let reason = match () {
            () if found.is_symlink() => "is a symbolic link",
            () if found.uid() != own => "belongs to another user",
            () if found.mode() & 0o022 != 0 => "can be written by other users",
            () => continue,
        };
        return Err(FleetError::Refused(format!(
            "`{}` {reason}, who could have named hosts and commands in it: make a copy of your own, and \
             `chmod -R go-w` it",
            path.display()
        )));
    }
    Ok(())
}

fn cancels(folder: &Path) -> Result<u64, FleetError> {
    Ok(files::read_json(&folder.join(CANCELS))?.unwrap_or(0))
}

/// Refuses a folder with other things in it.
fn refuse_foreign(folder: &Path) -> Result<(), FleetError> {
    let holds = fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
    let begun = ["hosts", PLAN].iter().any(|name| folder.join(name).exists());
    if holds && !begun {
        let folder = folder.display();
        return Err(FleetError::Refused(format!(
            "`{folder}` holds other files, and no campaign: name a new folder by --dir"
        )));
    }
    Ok(())
}

fn lock(folder: &Path) -> Result<File, FleetError> {
    let path = folder.join("lock");
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(FleetError::io("open", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(_) => Err(FleetError::Refused(format!(
            "another `iopj fleet submit` is at work in `{}`: wait for it, or end it by Ctrl-C (jobs go on)",
            folder.display()
        ))),
    }
}

/// The plan of a campaign that is submitted again.
fn continued(before: Plan, mut now: Plan, folder: &Path) -> Result<Plan, FleetError> {
    let folder = folder.display();
    let differs = |what: &str| {
        Err(FleetError::Refused(format!(
            "the campaign in `{folder}` has another {what}: submit it as it was, or name another --dir"
        )))
    };
    if before.job.study != now.job.study {
        return differs("study");
    }
    if before.by.word() != now.by.word() {
        let word = before.by.word();
        return Err(FleetError::Refused(format!(
            "the campaign in `{folder}` is run by {word}: submit it by --{word}, or name another --dir"
        )));
    }
    let same = [
        (before.job.target == now.job.target, "target"),
        (before.job.scratch == now.job.scratch && before.by.folder() == now.by.folder(), "--scratch"),
    ];
    if let Some((_, what)) = same.iter().find(|(is_same, _)| !is_same) {
        return differs(what);
    }
    if let (By::Kubernetes(before), By::Kubernetes(now)) = (&before.by, &now.by) {
        // What runs in the one would not be found from the other.
        if before.namespace != now.namespace {
            return differs("namespace");
        }
        if before.nodes.is_none() != now.nodes.is_none() {
            return differs("kind (--nodes is a Job, --daemonset a DaemonSet)");
        }
    }
    now.job.campaign = before.job.campaign;
    if let (By::Slurm(before), By::Slurm(now)) = (before.by, &mut now.by) {
        now.arrays = before.arrays;
    }
    Ok(now)
}

#[cfg(test)]
mod tests {
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
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&folder, Some(65_534), Some(65_534)).unwrap();
            let error = Campaign::open(&folder).unwrap_err().to_string();
            assert!(error.contains("belongs to another user"), "{error}");
            Campaign::open_of_task(&folder).unwrap();
        }
    }
}
