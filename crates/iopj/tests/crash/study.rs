//! A study that is run, killed, continued and looked at.

use crate::common::{TestFolder, folder, is_busy};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The sign of a run after which the delay to its kill starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Seen {
    Start,
    StoreFile,
    LastTrial,
}

#[derive(Debug)]
pub(crate) struct Moment {
    pub(crate) seen: Seen,
    pub(crate) delay: Duration,
}

/// A study in its own folder, and what is known of its trials.
pub(crate) struct Study {
    folder: TestFolder,
    target: Option<PathBuf>,
    planned: usize,
    /// Every trial that was ever seen in the store, by its cell and replicate.
    pub(crate) trials: BTreeMap<String, Value>,
    /// Trials that a run announced as finished by going on to the next.
    finished: usize,
    /// Of all runs.
    pub(crate) pids: BTreeSet<u32>,
    /// Further options of a run that continues the study.
    pub(crate) more: &'static [&'static str],
}

impl Study {
    pub(crate) fn new(text: &str, planned: usize, target: Option<&Path>) -> Study {
        let folder = folder();
        fs::write(folder.join("study.toml"), text).unwrap();
        let target = target.map(Path::to_owned);
        let (trials, pids) = (BTreeMap::new(), BTreeSet::new());
        Study { folder, target, planned, trials, finished: 0, pids, more: &[] }
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.folder.join("study.iopj")
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.join("study.iopj-data")
    }

    /// Begins the study, or continues it if its store exists.
    fn start(&mut self) -> Run {
        let mut command = iopj(["run"]);
        if self.store().exists() {
            command.arg("--resume").arg(self.store()).args(self.more);
        } else {
            command.arg(self.folder.join("study.toml")).arg("--store").arg(self.store());
            command.args(self.target.iter().flat_map(|target| [OsStr::new("--target"), target.as_os_str()]));
        }
        let messages = self.folder.join("messages");
        command.stdout(Stdio::null()).stderr(File::create(&messages).unwrap());
        let run =
            Run { child: command.spawn().unwrap(), messages, store: self.store(), planned: self.planned };
        self.pids.insert(run.child.id());
        run
    }

    /// Starts and kills at the moment. False if the run ended before, which it must do with success.
    pub(crate) fn start_and_kill(&mut self, moment: &Moment) -> bool {
        let mut run = self.start();
        let mut end = run.kill_at(moment);
        while end.code().is_some() && is_busy(&run.messages()) {
            run = self.start();
            end = run.kill_at(moment);
        }
        let killed = end.signal() == Some(libc::SIGKILL);
        assert!(killed || end.success(), "{end} by itself before {moment:?}: {}", run.messages());
        self.finished = self.finished.max(run.trial().map_or(0, |trial| trial - 1));
        killed
    }

    /// Starts and waits for the run's end.
    pub(crate) fn start_and_wait(&mut self) {
        let mut run = self.start();
        let mut end = run.child.wait().unwrap();
        while !end.success() && is_busy(&run.messages()) {
            run = self.start();
            end = run.child.wait().unwrap();
        }
        assert!(end.success(), "{end}: {}", run.messages());
    }

    /// The store, if it exists, is whole, and holds each trial that was ever seen or announced as finished,
    /// unchanged but for joules that were pending.
    pub(crate) fn look(&mut self) {
        if !self.store().exists() {
            assert_eq!((self.trials.len(), self.finished), (0, 0), "the store is gone");
            return;
        }
        let now = trials(&self.store(), self.planned);
        for (cell, before) in &self.trials {
            let trial = now.get(cell).unwrap_or_else(|| panic!("{cell} was there before and is gone"));
            assert_eq!(without_energy(trial), without_energy(before), "{cell} is not what it was");
            let joules = computed(trial);
            for one in computed(before) {
                assert!(joules.contains(&one), "{cell} had the energy {one}, and has {joules:?}");
            }
        }
        assert!(now.len() >= self.finished, "{} trials of {} finished ones", now.len(), self.finished);
        self.trials = now;
    }

    /// Looks at a study that must be complete, and at the files in its folder.
    pub(crate) fn look_at_the_end(&mut self) {
        self.look();
        assert_eq!(self.trials.len(), self.planned);
        let left: BTreeSet<_> =
            fs::read_dir(&*self.folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["messages", "study.iopj", "study.toml"].map(Into::into).into());
    }
}

/// An `iopj run`, killed at the latest when dropped.
struct Run {
    child: Child,
    messages: PathBuf,
    store: PathBuf,
    planned: usize,
}

impl Run {
    fn kill_at(&mut self, moment: &Moment) -> ExitStatus {
        let mut since: Option<Instant> = None;
        loop {
            if let Some(end) = self.child.try_wait().unwrap() {
                return end;
            }
            if since.is_none() && self.shows(moment.seen) {
                since = Some(Instant::now());
            }
            if since.is_some_and(|since| since.elapsed() >= moment.delay) {
                self.child.kill().unwrap();
                return self.child.wait().unwrap();
            }
            std::thread::sleep(Duration::from_micros(500));
        }
    }

    fn shows(&self, seen: Seen) -> bool {
        match seen {
            Seen::Start => true,
            Seen::StoreFile => self.store_is_begun(),
            Seen::LastTrial => self.trial() == Some(self.planned),
        }
    }

    /// A file has the store's name, or a name that begins with it.
    fn store_is_begun(&self) -> bool {
        let name = self.store.file_name().unwrap().as_encoded_bytes();
        let names =
            fs::read_dir(self.store.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name());
        names.into_iter().any(|other| other.as_encoded_bytes().starts_with(name))
    }

    fn messages(&self) -> String {
        fs::read_to_string(&self.messages).unwrap()
    }

    /// The number of the last trial that the run began: it prints `7/36 ...` before each.
    fn trial(&self) -> Option<usize> {
        let of = format!("/{}", self.planned);
        let messages = self.messages();
        messages.lines().rev().find_map(|line| line.split_once(' ')?.0.strip_suffix(&of)?.parse().ok())
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn iopj<const N: usize>(arguments: [&str; N]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iopj"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// A trial without its energy, which is computed when the run ends.
fn without_energy(trial: &Value) -> Value {
    let mut trial = trial.clone();
    trial.as_object_mut().unwrap().remove("energy");
    trial
}

/// The energy of a trial by each meter and scope that is no longer pending.
fn computed(trial: &Value) -> Vec<&Value> {
    trial["energy"].as_array().unwrap().iter().filter(|one| one["outcome"] != "pending").collect()
}

/// The trials of a store by cell and replicate, each of which occurs once; each was measured under the
/// settings that it names.
fn trials(store: &Path, planned: usize) -> BTreeMap<String, Value> {
    let output = iopj(["report", "--json"]).arg(store).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["study"]["planned_trials"], planned, "not here: {}", report["study"]["unavailable"]);
    let mut trials = BTreeMap::new();
    let mut positions = BTreeSet::new();
    for trial in report["trials"].as_array().unwrap() {
        let cell = ["path", "workload", "settings", "generator", "replicate"]
            .map(|key| trial[key].to_string())
            .join(" ");
        assert_eq!(trial["status"], "measured", "{cell}: {}", trial["error"]);
        let found = &trial["evidence"]["devices"][0]["settings"];
        for name in ["nomerges", "rq_affinity"] {
            let asked = &trial["settings"][name];
            assert!(asked.is_null() || found[name] == *asked, "{cell}: {found}");
        }
        assert!(positions.insert(trial["position"].as_u64().unwrap()), "{cell} has the position of another");
        assert!(trials.insert(cell.clone(), trial.clone()).is_none(), "{cell} is there twice");
    }
    trials
}
