//! A campaign: a folder with a study, how it is run and where, and what has become of each host's job.

use crate::error::FleetError;
use crate::files;
use crate::hosts;
use crate::job::{FORMAT, Phase, State};
use crate::job_folder::JobFolder;
use crate::owner::{self, Owner};
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
        if let Some(before) = read(folder, &owner::trusted(None))? {
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
        Campaign::open_of_task(folder, None)
    }

    /// Opens a campaign as a task of it, which may run as root in the folder of the user who submitted it.
    ///
    /// # Errors
    /// There is none, what it says cannot have been submitted, or neither this user nor the `owner` of the
    /// folder wrote it.
    pub fn open_of_task(folder: &Path, owner: Option<&Owner>) -> Result<Campaign, FleetError> {
        let plan = read(folder, &owner::trusted(owner))?.ok_or_else(|| {
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
        let path = self.folder.join(CANCELS);
        let number = cancels(&self.folder)?.checked_add(1).ok_or_else(|| {
            FleetError::Refused(format!(
                "`{}` says that the campaign was cancelled more often than anybody can: write 0 into it",
                path.display()
            ))
        })?;
        files::write_json(&path, &number)?;
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
        Ok(read_known(&self.record(host))?.map(|known| known.state))
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
            if let Some(Known { host, state }) = read_known(&path)? {
                let is_host = !matches!(self.plan.by, By::Ssh(_)) || hosts::is_host(&host);
                if !is_host || self.record(&host).file_name() != path.file_name() {
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

/// What a campaign's own user wrote of a host, which it reaches by that.
fn read_known(path: &Path) -> Result<Option<Known>, FleetError> {
    files::read_json_of(path, &owner::trusted(None))
}

fn read(folder: &Path, users: &[u32]) -> Result<Option<Plan>, FleetError> {
    let path = folder.join(PLAN);
    /// What a plan of any iopj says.
    #[derive(Deserialize)]
    struct Any {
        format: u32,
    }
    match files::read_json_of::<Any>(&path, users)? {
        None => Ok(None),
        Some(Any { format }) if format != FORMAT => Err(FleetError::Refused(format!(
            "`{}` has format {format}, and this iopj knows format {FORMAT}: use the iopj that wrote it",
            path.display()
        ))),
        Some(_) => {
            let plan: Option<Plan> = files::read_json_of(&path, users)?;
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
    let file = files::open(&path, File::options().create(true).truncate(false).write(true));
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
mod tests;
