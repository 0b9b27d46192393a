//! `kill -9` at any moment: no finished trial is lost, none is there twice, nor are its joules, every setting
//! comes back, and leftovers do not stop a later run. The settings' journal itself and torn stores are tested
//! in their crates.

#[path = "../common/mod.rs"]
mod common;
mod counter;
mod study;

use common::{LoopDevice, Random, alone, folder, have_loop, written};
use iopj_engine::Target;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use study::{Moment, Seen, Study, iopj};

/// At the same moments each time in the gate, at different ones in each soak.
const KILLS: u32 = 12;
const MANY_KILLS: u32 = 1000;
const SEED: u64 = 10;
/// Fewer of a metered study, whose runs take longer.
const METERED_KILLS: u32 = 4;
const MANY_METERED_KILLS: u32 = 100;

/// Every value differs from a loop device's initial one, except `nomerges = 0`.
const SETTINGS_STUDY: &str = r#"
name = "crash"
paths = ["posix-sio/syscall/interrupt", "posix-aio/syscall/interrupt", "io_uring/syscall/interrupt"]
replicates = 3
meters = "none"

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
/// How long a run rests after its last trial, for its meters.
const REST: Duration = Duration::from_millis(500);

/// Without a target: iopj makes its file. The second trial is long enough to be killed in it.
const FILE_STUDY: &str = r#"
name = "made"
paths = "posix-sio/syscall/interrupt"
replicates = 2
size = "64m"
meters = "none"

[[workload]]
rw = "randread"
bs = "4k"
iodepth = 1
numjobs = 1
ramp_time = "0s"
runtime = "200ms"
"#;
const FILE_TRIALS: usize = 2;

/// A study on a device whose runs are killed.
struct Subject {
    text: String,
    trials: usize,
    /// The names of its meters.
    meters: &'static [&'static str],
}

impl Subject {
    fn plain() -> Subject {
        Subject { text: SETTINGS_STUDY.to_owned(), trials: SETTINGS_TRIALS, meters: &[] }
    }

    /// With a counter of so many watts. It rests as little as a run can.
    fn metered(watts: f64) -> Subject {
        let text = SETTINGS_STUDY.replace("replicates = 3", "replicates = 2");
        let text = text.replace("meters = \"none\"", "idle = \"1ms\"\nsettle_limit = \"1ms\"");
        let text = format!("{text}\n{}", counter::serve(watts));
        Subject { text, trials: SETTINGS_TRIALS * 2 / 3, meters: &[counter::NAME] }
    }

    /// The energy of each trial is there once by each meter, and not pending: joules, or why there are none.
    fn has_its_energy(&self, study: &Study) {
        for (cell, trial) in &study.trials {
            let all = trial["energy"].as_array().unwrap();
            let meters: Vec<&str> = all.iter().map(|one| one["meter"].as_str().unwrap()).collect();
            assert_eq!(meters, self.meters, "{cell}: {all:?}");
            assert!(all.iter().all(|one| one["outcome"] != "pending"), "{cell}: {all:?}");
        }
    }

    /// Any time, but often while the store is made, and often between the last trial and the end.
    fn any_moment(&self, random: &mut Random, begun: bool, whole_run: Duration) -> Moment {
        let trial = whole_run / self.trials as u32;
        let ending = if self.meters.is_empty() { Duration::ZERO } else { REST };
        match (begun, random.one_in(3)) {
            (false, true) => Moment { seen: Seen::StoreFile, delay: random.below(trial) },
            (true, true) => Moment { seen: Seen::LastTrial, delay: random.below(2 * trial + ending) },
            (_, false) => Moment { seen: Seen::Start, delay: random.below(whole_run) },
        }
    }
}

/// All attributes of a device's queue.
fn settings(device: &LoopDevice) -> BTreeMap<String, String> {
    let queue = Path::new("/sys/block").join(device.name()).join("queue");
    let files = fs::read_dir(queue).unwrap().map(|entry| entry.unwrap());
    let value = |path: PathBuf| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    files.filter_map(|file| Some((file.file_name().into_string().unwrap(), value(file.path())?))).collect()
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

#[test]
fn kills_lose_no_trial_and_leave_no_setting() {
    kills_leave_nothing(&Subject::plain(), KILLS, Random(SEED));
}

#[test]
#[ignore = "a soak: cargo xtask soak"]
fn soak_a_thousand_kills_lose_no_trial_and_leave_no_setting() {
    kills_leave_nothing(&Subject::plain(), MANY_KILLS, Random::from_clock());
}

#[test]
fn kills_lose_nothing_beside_a_counter_that_moves() {
    kills_leave_nothing(&Subject::metered(40.0), METERED_KILLS, Random(SEED));
}

#[test]
fn kills_lose_nothing_beside_a_counter_that_stands_still() {
    kills_leave_nothing(&Subject::metered(0.0), METERED_KILLS, Random(SEED));
}

#[test]
#[ignore = "a soak: cargo xtask soak"]
fn soak_kills_lose_nothing_beside_a_counter_that_moves() {
    kills_leave_nothing(&Subject::metered(40.0), MANY_METERED_KILLS, Random::from_clock());
}

#[test]
#[ignore = "a soak: cargo xtask soak"]
fn soak_kills_lose_nothing_beside_a_counter_that_stands_still() {
    kills_leave_nothing(&Subject::metered(0.0), MANY_METERED_KILLS, Random::from_clock());
}

fn kills_leave_nothing(subject: &Subject, kills: u32, mut random: Random) {
    let Some(bench) = have_loop().then(folder) else { return };
    let _alone = alone();
    let image = bench.join("image");
    written(&image, 8 << 20);
    let device = LoopDevice::new(&image, "");
    let before = settings(&device);
    let new_study = || Study::new(&subject.text, subject.trials, Some(&device.path));
    let at_the_end = |study: &mut Study| {
        study.look_at_the_end();
        subject.has_its_energy(study);
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
    // A slow machine may not have come to its settings in the first.
    while killed < kills || (changed == 0 && (kills..4 * kills).contains(&killed)) {
        let moment = subject.any_moment(&mut random, study.store().exists(), whole_run);
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
    // The few kills of a metered study may all meet a rest.
    assert!(changed > 0 || kills < KILLS, "no kill met a changed setting");
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
    let fail = "UPDATE trial SET error = 'EIO', measurement = NULL WHERE position = 0; DELETE FROM checksum";
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
