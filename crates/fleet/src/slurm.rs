//! A campaign as a job array of Slurm, in a folder that all nodes share: one task a node.

mod package;
mod tasks;

use crate::campaign::{Array, By, BySlurm, Campaign};
use crate::error::FleetError;
use crate::files;
use crate::job::{Phase, State};
use crate::lease::{Holder, Lease};
use crate::program::{self, words};
use crate::ssh::quoted;
use crate::transfer;
use package::PACKAGE;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tasks::{Ended, Live};

/// How long before its time is up a task is told to end.
const SIGNAL: &str = "--signal=B:TERM@60";
/// How long tasks that were told to end may take.
const LAST: Duration = Duration::from_secs(120);
const INTERVAL: Duration = Duration::from_millis(500);

/// The script of a campaign in this folder, by the command that is iopj there.
pub fn script(folder: &Path, command: &str) -> String {
    let folder = quoted(&folder.to_string_lossy());
    // `sudo` passes no environment on.
    format!(
        "#!/bin/sh\nexec {command} fleet job --campaign {folder} --node \"$SLURMD_NODENAME\" --task \
         \"${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID\"\n"
    )
}

/// A campaign by Slurm, and what is needed to run it.
pub struct Slurm<'a> {
    campaign: &'a Campaign,
    by: &'a BySlurm,
    /// Set by Ctrl-C.
    stop: &'a AtomicBool,
    say: &'a (dyn Fn(&str) + Sync),
}

impl<'a> Slurm<'a> {
    /// A campaign that Slurm runs. Once `stop` is true, none of its programs is waited for any more.
    pub fn new(
        campaign: &'a Campaign,
        by: &'a BySlurm,
        stop: &'a AtomicBool,
        say: &'a (dyn Fn(&str) + Sync),
    ) -> Slurm<'a> {
        Slurm { campaign, by, stop, say }
    }

    /// Submits a job array, held, for the nodes that are neither complete nor under way; `None` if there is
    /// no such node. The array is to be kept before it is released.
    ///
    /// # Errors
    /// Slurm refuses.
    pub fn submit(&self) -> Result<Option<Array>, FleetError> {
        self.free_held()?;
        self.refresh()?;
        let known = self.campaign.all_known()?;
        let is_settled = |state: &State| state.phase.is_complete() || !state.phase.is_over();
        let nodes: Vec<String> = match self.by.nodes {
            Some(_) => Vec::new(),
            None => {
                let is_missing = |node: &&String| !known.get(*node).is_some_and(is_settled);
                self.by.nodelist.iter().filter(is_missing).cloned().collect()
            }
        };
        let settled = known.values().filter(|state| is_settled(state)).count();
        let tasks = match self.by.nodes {
            Some(wanted) => (wanted as usize).saturating_sub(settled),
            None => nodes.len(),
        };
        if tasks == 0 {
            (self.say)("every node is complete or under way: nothing to submit");
            return Ok(None);
        }
        let complete =
            known.iter().filter(|(_, state)| state.phase.is_complete()).map(|(host, _)| host.clone());
        files::make_folder(&self.campaign.leases())?;
        let script = self.write_script()?;
        let mut arguments = sbatch_arguments(self.campaign, self.by, tasks, &complete.collect::<Vec<_>>());
        arguments.push(script.display().to_string());
        let answer = program::output("sbatch", &arguments, PACKAGE, self.stop)?;
        // `ID` or `ID;CLUSTER`
        let id = answer.split(';').next().unwrap_or_default().to_owned();
        for (number, node) in nodes.iter().enumerate() {
            let fixed = [format!("JobId={id}_{number}"), format!("ReqNodeList={node}")];
            let update = [vec!["update".to_owned()], fixed.to_vec()].concat();
            // An array that is refused in part would stay held until the next submit.
            program::output("scontrol", &update, PACKAGE, self.stop)
                .inspect_err(|_| drop(tasks::end([], &BTreeSet::from([id.clone()]), self.stop)))?;
        }
        Ok(Some(Array { id, tasks: tasks as u32, nodes }))
    }

    /// Lets go what a submit that was killed left held: an array that the campaign knows, or one that nobody
    /// knows, which ends.
    fn free_held(&self) -> Result<(), FleetError> {
        for id in tasks::held(&job_name(self.campaign), self.stop)? {
            let (done, freed) = match self.by.arrays.iter().find(|array| array.id == id) {
                Some(array) => ("released", Slurm::release(array)),
                None => ("cancelled", tasks::end([], &BTreeSet::from([id.clone()]), self.stop)),
            };
            match freed {
                Ok(()) => (self.say)(&format!("job array {id} was held by a submit that was killed: {done}")),
                Err(error) => (self.say)(&format!("job array {id} stays held: {error}")),
            }
        }
        Ok(())
    }

    /// Lets a job array go that is kept.
    ///
    /// # Errors
    /// Slurm refuses.
    pub fn release(array: &Array) -> Result<(), FleetError> {
        program::output("scontrol", &words(["release", &array.id]), PACKAGE, &program::NEVER).map(drop)
    }

    fn write_script(&self) -> Result<PathBuf, FleetError> {
        let path = self.campaign.folder().join("job.sh");
        let text = script(self.campaign.folder(), &self.by.command);
        files::write(&path, text.as_bytes())?;
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&path, mode).map_err(FleetError::io("write", &path))?;
        Ok(path)
    }

    /// Learns what has become of every task, from the campaign's folder and from Slurm.
    ///
    /// # Errors
    /// Slurm does not answer, or the folder cannot be written.
    pub fn refresh(&self) -> Result<(), FleetError> {
        let ids: Vec<String> = self.by.arrays.iter().map(|array| array.id.clone()).collect();
        let live = tasks::live(&ids, self.stop)?;
        let mut seen = BTreeSet::new();
        for host in hosts(self.campaign) {
            let folder = self.campaign.job_folder(&host);
            let Some(state) = folder.written()? else { continue };
            let task = state.task.clone().unwrap_or_default();
            let state = match state.phase {
                Phase::Running if !live.contains_key(&task) => self.after(&host, &task)?,
                Phase::Running => state.counted(&folder.store()),
                _ => state,
            };
            seen.insert(task);
            self.keep(&host, &state)?;
        }
        self.refresh_unbegun(&live, &seen)?;
        Lease::release(&self.campaign.leases(), &is_over)
    }

    /// The state of a host whose task has ended: its own last word, or Slurm's.
    fn after(&self, host: &str, task: &str) -> Result<State, FleetError> {
        let folder = self.campaign.job_folder(host);
        // It may have written its end between the two looks.
        let state = folder.written()?.unwrap_or_else(|| State::now(Phase::Running, None));
        if state.phase != Phase::Running {
            return Ok(state);
        }
        let Ended { is_cancelled, text } = tasks::ended(task, self.stop);
        let phase = if is_cancelled { Phase::Cancelled } else { Phase::Killed };
        let state = state.became(phase, Some(text)).counted(&folder.store());
        folder.write(&state)?;
        Ok(state)
    }

    /// Tasks that have written nothing: they wait, or Slurm could not start them.
    fn refresh_unbegun(
        &self,
        live: &BTreeMap<String, Live>,
        seen: &BTreeSet<String>,
    ) -> Result<(), FleetError> {
        let mut known = self.campaign.all_known()?;
        for name in known.keys().filter(|name| name.starts_with(UNNAMED)) {
            self.campaign.forget(name)?;
        }
        known.retain(|name, _| !name.starts_with(UNNAMED));
        let newest = self.by.arrays.last().map(|array| array.id.as_str());
        let tasks =
            self.by.arrays.iter().flat_map(|array| (0..array.tasks).map(move |number| (array, number)));
        for (array, number) in tasks {
            let task = format!("{}_{number}", array.id);
            let node = array.nodes.get(number as usize).cloned();
            let name = node.unwrap_or_else(|| format!("{UNNAMED}{task}"));
            let is_last_known = known.get(&name).is_some_and(|known| known.task.as_ref() == Some(&task));
            let matters = live.contains_key(&task) || newest == Some(&array.id) || is_last_known;
            if seen.contains(&task) || !matters {
                continue;
            }
            if self.stop.load(Ordering::Relaxed) {
                return Err(FleetError::Refused("you ended it: not every task was asked for".to_owned()));
            }
            let state = match live.get(&task) {
                Some(Live { reason, .. }) => State::now(Phase::Waiting, Some(format!("Slurm: {reason}"))),
                None => match tasks::ended(&task, self.stop) {
                    // It found its node complete already.
                    Ended { text, .. } if text.contains(tasks::COMPLETED) => continue,
                    Ended { is_cancelled: true, text } => State::now(Phase::Cancelled, Some(text)),
                    Ended { text, .. } => {
                        let log = self.campaign.folder().join("run").join(format!("slurm-{task}.log"));
                        let reason = format!("{text}; it wrote nothing here but {}", log.display());
                        State::now(Phase::Lost, Some(reason))
                    }
                },
            };
            let is_older = |before: &State| before.phase == state.phase && before.reason == state.reason;
            if !known.get(&name).is_some_and(|before| is_older(before) || before.phase.is_complete()) {
                self.keep(&name, &State { task: Some(task), ..state })?;
            }
        }
        Ok(())
    }

    fn keep(&self, host: &str, state: &State) -> Result<(), FleetError> {
        let fetched = self.campaign.known(host)?.and_then(|before| before.fetched);
        self.campaign.keep(host, &State { fetched, ..state.clone() })
    }

    /// Fetches the stores of these hosts from the campaign's folder.
    pub fn fetch(&self, hosts: &[String]) -> Vec<(String, Result<PathBuf, FleetError>)> {
        let fetch = |host: &String| {
            let to = self.campaign.store(host);
            let fetched = transfer::copy(&self.campaign.job_folder(host).store(), &to).map(|()| to);
            (host.clone(), fetched)
        };
        hosts.iter().map(fetch).collect()
    }

    /// Ends all tasks: those that wait at once, those that run by SIGTERM, after which each puts its node's
    /// settings back.
    ///
    /// # Errors
    /// Slurm refuses.
    pub fn cancel(&self) -> Result<(), FleetError> {
        let arrays = self.by.arrays.iter().map(|array| array.id.clone());
        let ids: Vec<String> = arrays.chain(tasks::held(&job_name(self.campaign), self.stop)?).collect();
        let open = || -> Result<BTreeSet<String>, FleetError> {
            let live = tasks::live(&ids, self.stop)?;
            Ok(live.keys().filter_map(|task| Some(task.split_once('_')?.0.to_owned())).collect())
        };
        tasks::end(["--state=PENDING"], &open()?, self.stop)?;
        tasks::end(["--batch", "--signal=TERM"], &open()?, self.stop)?;
        let until = Instant::now() + LAST;
        while !open()?.is_empty() && Instant::now() < until && !self.stop.load(Ordering::Relaxed) {
            thread::sleep(INTERVAL);
        }
        tasks::end([], &open()?, self.stop)?;
        self.refresh()
    }
}

/// How the record of a task begins whose node is not known.
const UNNAMED: &str = "task ";

/// The arguments of sbatch, without the script.
fn sbatch_arguments(campaign: &Campaign, by: &BySlurm, tasks: usize, complete: &[String]) -> Vec<String> {
    let folder = campaign.folder().display().to_string();
    let mut arguments = words(["--parsable", "--hold", "--exclusive", "--nodes=1", "--ntasks=1"]);
    // What was running on a node that died is a recorded failure, and not begun anew on another one.
    arguments.extend(words(["--no-requeue", SIGNAL]));
    arguments.push(format!("--array=0-{}", tasks - 1));
    arguments.push(format!("--job-name={}", job_name(campaign)));
    // The prolog and the epilog for administrators know the job by it.
    arguments.push("--comment=iopj".to_owned());
    arguments.push(format!("--chdir={folder}"));
    // `%` begins what Slurm fills in.
    arguments.push(format!("--output={}/run/slurm-%A_%a.log", folder.replace('%', "%%")));
    arguments.extend(by.options.iter().cloned());
    if by.nodes.is_some() && !complete.is_empty() {
        arguments.push(format!("--exclude={}", complete.join(",")));
    }
    arguments
}

/// The name of all job arrays of a campaign.
fn job_name(campaign: &Campaign) -> String {
    format!("iopj-{}", campaign.id())
}

/// The hosts that have a job in the campaign's folder.
fn hosts(campaign: &Campaign) -> Vec<String> {
    let entries = fs::read_dir(campaign.folder().join("run")).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.path().is_dir());
    folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// The nodes of a list as Slurm writes it, such as `n[1-40]`.
///
/// # Errors
/// Slurm does not understand it.
pub fn nodes_of(list: &str) -> Result<Vec<String>, FleetError> {
    let text = program::output("scontrol", &words(["show", "hostnames", list]), PACKAGE, &program::NEVER)?;
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

/// Lets the tasks of an array that wait choose other nodes than this one, those where one of them has begun,
/// and those that are complete. A node that failed under an earlier array is free.
pub fn leave_to_others(campaign: &Campaign, array: &str, own: &str) {
    let By::Slurm(BySlurm { nodes: Some(_), .. }) = &campaign.plan().by else { return };
    let of_array = |state: &State| {
        state.task.as_deref().and_then(|task| task.split_once('_')).is_some_and(|(of, _)| of == array)
    };
    let is_used = |host: &String| {
        let state = campaign.job_folder(host).written().ok().flatten();
        host == own || state.is_some_and(|state| state.phase.is_complete() || of_array(&state))
    };
    let nodes = hosts(campaign).into_iter().filter(is_used).collect::<Vec<_>>().join(",");
    // Where no task waits any more, Slurm refuses: then there is nobody to tell.
    let update = [format!("JobId={array}"), format!("ExcNodeList={nodes}")];
    let update = [vec!["update".to_owned()], update.to_vec()].concat();
    let _ = program::run("scontrol", &update, PACKAGE, &program::NEVER);
}

/// Whether the task that holds a drive has ended.
pub fn is_over(holder: &Holder) -> bool {
    let Some(task) = &holder.task else { return false };
    tasks::live(std::slice::from_ref(task), &program::NEVER).is_ok_and(|live| live.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::Plan;
    use crate::job::{FORMAT, Job};
    use std::path::Path;

    fn campaign(folder: &Path, by: &BySlurm) -> Campaign {
        let job = serde_json::json!({
            "format": FORMAT, "version": "1", "campaign": "quick-1", "study": "", "destroy_data": false,
            "allow": { "exec": false, "secrets": false, "hosts": false },
        });
        let job: Job = serde_json::from_value(job).unwrap();
        Campaign::submit(folder, Plan { format: FORMAT, job, by: By::Slurm(by.clone()) }).unwrap()
    }

    fn by(nodes: Option<u32>, command: String) -> BySlurm {
        BySlurm { nodes, nodelist: Vec::new(), options: Vec::new(), command, arrays: Vec::new() }
    }

    #[test]
    fn an_array_has_a_node_a_task_and_leaves_out_what_is_complete() {
        let folder = crate::files::own_folder();
        let options = words(["--constraint=nvme", "--gres=ssd:1"]);
        let by = BySlurm { options, ..by(Some(3), "iopj".to_owned()) };
        let campaign = campaign(folder.path(), &by);
        let arguments = sbatch_arguments(&campaign, &by, 2, &words(["n1"]));
        for part in ["--array=0-1", "--exclusive", "--nodes=1", "--constraint=nvme", "--exclude=n1"] {
            assert!(arguments.iter().any(|argument| argument == part), "{part}: {arguments:?}");
        }
        let fixed = BySlurm { nodes: None, nodelist: words(["n1", "n2"]), ..by };
        let arguments = sbatch_arguments(&campaign, &fixed, 1, &words(["n1"]));
        assert!(!arguments.iter().any(|argument| argument.starts_with("--exclude")));
    }

    /// What a folder's name holds is one word to the shell, and no line of Slurm's.
    #[test]
    fn a_folder_of_any_name_is_one_word_of_the_script() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "a'b\"c",
            "$(touch owned)`touch owned`",
            "a\n#SBATCH --uid=0\nb",
            "; touch owned #",
            "a\u{2028}\u{85}b",
            "-x --y",
            "*?[a]~ {b,c}",
            "\\",
        ] {
            let (told, place) = (folder.path().join("told"), folder.path().join(name));
            let command = format!(r#"env sh -c 'printf "%s\n" "$4" >{}' sh"#, told.display());
            let by = by(Some(1), command);
            let campaign = campaign(&place, &by);
            let script = Slurm::new(&campaign, &by, &program::NEVER, &|_| ()).write_script().unwrap();
            let parsed = std::process::Command::new("bash").arg("-n").arg(&script).status().unwrap();
            assert!(parsed.success(), "{name}");
            let mut task = std::process::Command::new("sh");
            task.arg(script).current_dir(folder.path()).env("SLURMD_NODENAME", "n1");
            assert!(task.status().unwrap().success(), "{name}");
            assert_eq!(fs::read_to_string(&told).unwrap(), format!("{}\n", place.display()));
            assert!(!folder.path().join("owned").exists(), "{name}");
        }
    }

    /// `sudo` gives a program an environment of its own.
    #[test]
    fn a_task_that_sudo_starts_is_told_its_node_and_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let told = folder.path().join("told");
        let sudo = format!(r#"env -i /bin/sh -c 'printf "%s " "$@" >{}' sudo"#, told.display());
        let (by, folder) = (by(Some(1), sudo), folder.path().join("it's c"));
        let campaign = campaign(&folder, &by);
        let script = Slurm::new(&campaign, &by, &program::NEVER, &|_| ()).write_script().unwrap();
        let mut task = std::process::Command::new(script);
        task.env("SLURMD_NODENAME", "n1").env("SLURM_ARRAY_JOB_ID", "7").env("SLURM_ARRAY_TASK_ID", "2");
        assert!(task.status().unwrap().success());
        let line = format!("fleet job --campaign {} --node n1 --task 7_2 ", folder.display());
        assert_eq!(fs::read_to_string(told).unwrap(), line);
    }
}
