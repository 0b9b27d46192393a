//! `kill -9` at any moment: no finished trial is lost, none is there twice, every setting comes back, and
//! leftovers do not stop a later run. The settings' journal itself and torn stores are tested in their
//! crates.

mod common;

use common::{LoopDevice, Random, TestFolder, alone, folder, have_loop, is_busy, written};
use iopj_engine::Target;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// At the same moments each time in the gate, at different ones in each soak.
const KILLS: u32 = 40;
const MANY_KILLS: u32 = 1000;
const SEED: u64 = 10;

/// Every value differs from a loop device's initial one, except `nomerges = 0`.
const SETTINGS_STUDY: &str = r#"
name = "crash"
paths = ["posix-sio/syscall/interrupt", "posix-aio/syscall/interrupt", "io_uring/syscall/interrupt"]
replicates = 3

[settings]
nomerges = [0, 2]
rq_affinity = [0, 2]
read_ahead_kb = 64

[[workload]]
rw = "randread"
bs = "4k"
iodepth = 1
numjobs = 1
ramp_time = "0s"
ios = 300
"#;
const SETTINGS_TRIALS: usize = 36;

/// Without a target: iopj makes its file. The second trial is long enough to be killed in it.
const FILE_STUDY: &str = r#"
name = "made"
paths = "posix-sio/syscall/interrupt"
replicates = 2
size = "64m"

[[workload]]
rw = "randread"
bs = "4k"
iodepth = 1
numjobs = 1
ramp_time = "0s"
runtime = "200ms"
"#;
const FILE_TRIALS: usize = 2;

/// The sign of a run after which the delay to its kill starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Seen {
    Start,
    StoreFile,
    LastTrial,
}

#[derive(Debug)]
struct Moment {
    seen: Seen,
    delay: Duration,
}

/// A study in its own folder, and what is known of its trials.
struct Study {
    folder: TestFolder,
    target: Option<PathBuf>,
    planned: usize,
    /// Every trial that was ever seen in the store, by its cell and replicate.
    trials: BTreeMap<String, Value>,
    /// Trials that a run announced as finished by going on to the next.
    finished: usize,
    /// Of all runs.
    pids: BTreeSet<u32>,
    /// Further options of a run that continues the study.
    more: &'static [&'static str],
}

impl Study {
    fn new(text: &str, planned: usize, target: Option<&Path>) -> Study {
        let folder = folder();
        fs::write(folder.join("study.toml"), text).unwrap();
        let target = target.map(Path::to_owned);
        let (trials, pids) = (BTreeMap::new(), BTreeSet::new());
        Study { folder, target, planned, trials, finished: 0, pids, more: &[] }
    }

    fn store(&self) -> PathBuf {
        self.folder.join("study.iopj")
    }

    fn data(&self) -> PathBuf {
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
    fn start_and_kill(&mut self, moment: &Moment) -> bool {
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
    fn start_and_wait(&mut self) {
        let mut run = self.start();
        let mut end = run.child.wait().unwrap();
        while !end.success() && is_busy(&run.messages()) {
            run = self.start();
            end = run.child.wait().unwrap();
        }
        assert!(end.success(), "{end}: {}", run.messages());
    }

    /// The store, if it exists, is whole, and holds each trial that was ever seen or announced as finished,
    /// unchanged.
    fn look(&mut self) {
        if !self.store().exists() {
            assert_eq!((self.trials.len(), self.finished), (0, 0), "the store is gone");
            return;
        }
        let now = trials(&self.store(), self.planned);
        for (cell, trial) in &self.trials {
            assert_eq!(now.get(cell), Some(trial), "{cell} was there before and is not what it was");
        }
        assert!(now.len() >= self.finished, "{} trials of {} finished ones", now.len(), self.finished);
        self.trials = now;
    }

    /// Looks at a study that must be complete, and at the files in its folder.
    fn look_at_the_end(&mut self) {
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

/// All attributes of a device's queue.
fn settings(device: &LoopDevice) -> BTreeMap<String, String> {
    let queue = Path::new("/sys/block").join(device.name()).join("queue");
    let files = fs::read_dir(queue).unwrap().map(|entry| entry.unwrap());
    let value = |path: PathBuf| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    files.filter_map(|file| Some((file.file_name().into_string().unwrap(), value(file.path())?))).collect()
}

fn iopj<const N: usize>(arguments: [&str; N]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iopj"));
    command.args(arguments).stdin(Stdio::null());
    command
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

/// Remaining journals of these processes.
fn journals(pids: &BTreeSet<u32>) -> Vec<String> {
    let names =
        fs::read_dir("/run/iopj").unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let of_ours = |name: &String| {
        let pid = name.strip_prefix("journal-").and_then(|rest| rest.split('-').next()?.parse().ok());
        name.ends_with(".jsonl") && pid.is_some_and(|pid: u32| pids.contains(&pid))
    };
    names.filter(of_ours).collect()
}

/// Any time, but often while the store is made, and often between the last trial and the end.
fn any_moment(random: &mut Random, begun: bool, whole_run: Duration) -> Moment {
    let trial = whole_run / SETTINGS_TRIALS as u32;
    match (begun, random.one_in(3)) {
        (false, true) => Moment { seen: Seen::StoreFile, delay: random.below(trial) },
        (true, true) => Moment { seen: Seen::LastTrial, delay: random.below(2 * trial) },
        (_, false) => Moment { seen: Seen::Start, delay: random.below(whole_run) },
    }
}

#[test]
fn kills_lose_no_trial_and_leave_no_setting() {
    kills_leave_nothing(KILLS, Random(SEED));
}

#[test]
#[ignore = "a soak: cargo xtask soak"]
fn soak_a_thousand_kills_lose_no_trial_and_leave_no_setting() {
    kills_leave_nothing(MANY_KILLS, Random::from_clock());
}

fn kills_leave_nothing(kills: u32, mut random: Random) {
    let Some(bench) = have_loop().then(folder) else { return };
    let _alone = alone();
    let image = bench.join("image");
    written(&image, 8 << 20);
    let device = LoopDevice::new(&image, "");
    let before = settings(&device);
    let new_study = || Study::new(SETTINGS_STUDY, SETTINGS_TRIALS, Some(&device.path));
    let at_the_end = |study: &mut Study| {
        study.look_at_the_end();
        assert_eq!(settings(&device), before);
        assert_eq!(journals(&study.pids), [""; 0]);
    };

    let mut study = new_study();
    let started = Instant::now();
    study.start_and_wait();
    // A machine that is slow just now must not make the test endless.
    let whole_run = started.elapsed().min(Duration::from_millis(1500));
    at_the_end(&mut study);

    let (mut killed, mut changed, mut seen) = (0, 0, BTreeMap::new());
    study = new_study();
    while killed < kills {
        let moment = any_moment(&mut random, study.store().exists(), whole_run);
        if !study.start_and_kill(&moment) {
            at_the_end(&mut study);
            study = new_study();
            continue;
        }
        killed += 1;
        *seen.entry(moment.seen).or_insert(0) += 1;
        changed += u32::from(settings(&device) != before);
        // Not always: a look at the store merges its log, which the next run must be able to do as well.
        if random.one_in(2) {
            study.look();
        }
        if random.one_in(3) {
            let output = iopj(["restore"]).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
            assert_eq!(settings(&device), before, "after {moment:?} and `iopj restore`");
            assert_eq!(journals(&study.pids), [""; 0]);
        }
    }
    eprintln!("{killed} kills, {changed} of them with settings changed; counted from {seen:?}");
    assert!(changed > 0, "no kill met a changed setting");
    study.start_and_wait();
    at_the_end(&mut study);
}

/// The file to be measured is whole if it exists.
fn look_at_data(study: &Study, moment: &Moment) {
    if study.data().exists() {
        let target = Target::open(&study.data());
        let id = target.as_ref().map(|target| target.file_id().is_some());
        assert!(matches!(id, Ok(true)), "a part of a file is left after {moment:?}: {id:?}");
    }
}

/// A study of which a run was killed in its last trial, which is short: a slow test may see it too late.
fn killed_in_its_last_trial(new_study: &dyn Fn() -> Study) -> Study {
    let moment = Moment { seen: Seen::LastTrial, delay: Duration::ZERO };
    let killed = |mut study: Study| study.start_and_kill(&moment).then_some(study);
    (0..20).find_map(|_| killed(new_study())).expect("no run was met in its last trial")
}

#[test]
fn a_kill_while_the_file_is_made_is_in_nobodys_way() {
    let _alone = alone();
    let mut random = Random(SEED);
    let new_study = || Study::new(FILE_STUDY, FILE_TRIALS, None);
    let mut study = new_study();
    let started = Instant::now();
    study.start_and_wait();
    study.look_at_the_end();
    // Without the trials: the file's making takes most of it.
    let set_up = started.elapsed().saturating_sub(Duration::from_millis(400));

    let mut kill_and_go_on = |mut study: Study| {
        let moment = Moment { seen: Seen::Start, delay: random.below(set_up) };
        study.start_and_kill(&moment);
        look_at_data(&study, &moment);
        study.look();
        study.start_and_wait();
        study.look_at_the_end();
    };
    (0..6).for_each(|_| kill_and_go_on(new_study()));
    for _ in 0..4 {
        let study = killed_in_its_last_trial(&new_study);
        // The run may have removed it before it was killed.
        if let Err(error) = fs::remove_file(study.data()) {
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
        }
        kill_and_go_on(study);
    }
}

/// The trials of a store: its replicate, whether it counts, was measured, and which replicate replaces it.
fn standing(store: &Path) -> BTreeSet<String> {
    let output = iopj(["report", "--json"]).arg(store).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let words = |trial: &Value| {
        ["replicate", "in_force", "status", "replaced_by"].map(|key| trial[key].to_string()).join(" ")
    };
    report["trials"].as_array().unwrap().iter().map(words).collect()
}

#[test]
fn a_kill_in_a_repeat_leaves_the_old_block_until_the_new_one_is_whole() {
    let _alone = alone();
    let two = r#"["posix-sio/syscall/interrupt", "io_uring/syscall/interrupt"]"#;
    // The last trial must still run when it was seen and the moment has passed.
    let text = FILE_STUDY.replace(r#""posix-sio/syscall/interrupt""#, two).replace("64m", "8m");
    let text = text.replace("200ms", "1s");
    let mut study = Study::new(&text, 4, None);
    study.start_and_wait();
    // The first block holds a failed trial.
    let fail = "UPDATE trial SET error = 'EIO', measurement = NULL WHERE position = 0";
    rusqlite::Connection::open(study.store()).unwrap().execute_batch(fail).unwrap();
    let in_force = ["0 true \"failed\" null", "0 true \"measured\" null", "1 true \"measured\" null"];
    assert_eq!(standing(&study.store()), in_force.map(String::from).into());
    study.more = &["--again", "failed"];
    let moment = Moment { seen: Seen::LastTrial, delay: Duration::from_millis(50) };
    assert!(study.start_and_kill(&moment), "the repeat's last trial takes longer");
    let [failed, measured, other] = in_force;
    let begun = [failed, measured, other, "2 false \"measured\" null"];
    assert_eq!(standing(&study.store()), begun.map(String::from).into());
    study.more = &[];
    study.start_and_wait();
    let replaced = ["0 false \"failed\" 2", "0 false \"measured\" 2", other, "2 true \"measured\" null"];
    assert_eq!(standing(&study.store()), replaced.map(String::from).into());
    let output = iopj(["report"]).arg(study.store()).output().unwrap();
    let report = String::from_utf8(output.stdout).unwrap();
    assert!(report.starts_with("study made: 4 of 4 trials\n"), "{report}");
    assert!(
        report.contains(
            "\n2 trials were replaced when blocks were measured again; the results leave replaced trials \
             out\n"
        ),
        "{report}"
    );
    assert!(!study.data().exists());
}
