//! Energy of whole studies on this machine, by a meter whose true values are known, by one that dies, by a
//! model, and by none.

#[path = "../common/mod.rs"]
mod common;
mod model;
mod none;
mod plug;

use common::{TestFolder, alone, folder, iopj, is_busy, output, refusal, says, written};
use iopj_core::energy::{EnergyOutcome, Joules};
use iopj_core::{Scope, VerdictKind};
use iopj_meter::{Cadence, ChannelKind};
use iopj_record::Trial;
use iopj_store::Store;
use plug::{CORE_WATTS, PASSWORD, Plug, PlugProcess, REST_WATTS, WINDOW_S};
use std::io::Read;
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::time::Duration;

const QUICK: &str = include_str!("../../../../studies/quick.toml");
const OPTIONS: &str = "--allow secrets --target data --store e.iopj --path \
                       posix-sio/syscall/interrupt,io_uring/syscall/interrupt";

/// The plug's log as a separate meter, read out afterwards.
const LOG: &str = "[meters.wall]\nkind = \"log\"\ninterval = \"100ms\"\nformat = \"csv\"\ntime = \
                   \"time\"\ntime_format = \"unix_s\"\nwatts = \"power (W)\"\nvalues = \
                   \"average\"\nwindow_s = 0.13\n";

/// The quick study with the plug as its meter. The machine may pause for a second or two; no outage of the
/// plug is so short. Beside other work its power is hardly ever flat, so the study does not wait long for
/// that.
fn study(port: u16, clock: &str) -> String {
    format!(
        "settle_limit = \"2s\"\n{QUICK}\n[meters.plug]\nkind = \"http\"\ninterval = \"100ms\"\n\
         clock = \"{clock}\"\nbridge = \"2s\"\nurl = \"http://127.0.0.1:{port}/status\"\nuser = \"admin\"\n\
         password_file = \"password\"\ntimeout_s = 5.0\n\
         values = [{{ pointer = \"/power\", kind = \"average\", window_s = {WINDOW_S}, time = \"/time\" }}]\n\
         accuracy = {{ gain = {{ rectangular = 0.005 }}, offset = {{ rectangular = 0.0 }} }}\n"
    )
}

/// The quick study with the plug as a Shelly of the second generation, whose values are means over the 0.13 s
/// before. By the second that is assumed otherwise, hardly four readings would count in a window of 1 s.
fn second_study(port: u16) -> String {
    format!(
        "settle_limit = \"2s\"\n{QUICK}\n[meters.plug]\nkind = \"http\"\ninterval = \"100ms\"\n\
         bridge = \"2s\"\nage_s = 0.3\npreset = \"shelly-gen2\"\nurl = \"http://127.0.0.1:{port}\"\n\
         password_file = \"password\"\ntimeout_s = 5.0\n"
    )
}

fn prepare(folder: &Path, study: &str) {
    written(&folder.join("data"), 64 << 20);
    std::fs::write(folder.join("study.toml"), study).unwrap();
    std::fs::write(folder.join("password"), format!("{PASSWORD}\n")).unwrap();
}

fn spawn(folder: &Path, line: &str) -> Child {
    iopj(folder, line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn succeeded(output: &Output) -> String {
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{messages}");
    messages
}

fn trials(folder: &Path) -> Vec<Trial> {
    Store::open(&folder.join("e.iopj")).unwrap().trials().unwrap()
}

fn plug_outcome(trial: &Trial) -> &EnergyOutcome {
    let energy = &trial.outcome.measurement().unwrap().energy;
    let energy = energy.iter().find(|energy| energy.meter == "plug").unwrap();
    assert_eq!((energy.scope, energy.estimated), (Scope::System, false));
    &energy.outcome
}

fn plug_joules(trial: &Trial) -> &Joules {
    match plug_outcome(trial) {
        EnergyOutcome::Complete(joules) => joules,
        other => panic!("{other:?}"),
    }
}

/// The length of the gap that is this reason of an incomplete trial.
fn gap_s(reason: &str) -> Option<f64> {
    reason.split_once("no reading for ")?.1.split_once(" s,")?.0.parse().ok()
}

/// Why a trial has no joules of the plug, if it fell silent. A gap below 3 s does not count, and few readings
/// do not: pauses of the machine cause those.
fn outage(trial: &Trial) -> Option<&str> {
    let EnergyOutcome::Incomplete(reason) = plug_outcome(trial) else { return None };
    let is_outage = match gap_s(reason) {
        Some(seconds) => seconds >= 3.0,
        None => reason.contains("readings end before") || reason.contains("gave no reading"),
    };
    is_outage.then_some(reason)
}

/// A study with the plug, its output, and its command line. `None`, with a message on stderr, if the machine
/// paused so often that a meter that is read live lost its clock or a trial.
fn metered() -> Option<(TestFolder, Plug, Output, Vec<u8>)> {
    let (folder, plug) = (folder(), Plug::start());
    prepare(&folder, &(study(plug.port, "own") + LOG));
    let (output, command_line) = loop {
        let child = spawn(&folder, &format!("run study.toml {OPTIONS} --runtime 2s --replicates 3 --json"));
        plug.watch(child.id());
        let command_line = std::fs::read(format!("/proc/{}/cmdline", child.id())).unwrap();
        let output = child.wait_with_output().unwrap();
        if output.status.success() || !is_busy(&String::from_utf8_lossy(&output.stderr)) {
            break (output, command_line);
        }
    };
    let messages = succeeded(&output);
    // One pattern gives a live meter's clock, but not that of its log, which may be wrong by ten minutes.
    let half = messages.lines().find(|line| line.contains("of the 2 load patterns")).map(str::to_owned);
    let lost = trials(&folder).iter().find_map(|trial| match plug_outcome(trial) {
        EnergyOutcome::Complete(_) => half.clone(),
        EnergyOutcome::Incomplete(reason) => Some(reason.clone()),
        EnergyOutcome::Pending => panic!("the run has ended"),
    });
    match lost.inspect(|reason| eprintln!("once more: {reason}")) {
        None => Some((folder, plug, output, command_line)),
        Some(_) => None,
    }
}

#[test]
fn joules_are_the_laws_and_no_secret_is_kept() {
    let _alone = alone();
    let (folder, plug, output, command_line) =
        (0..5).find_map(|_| metered()).expect("one of five studies has joules");
    let messages = succeeded(&output);
    let trials = trials(&folder);
    assert_eq!(trials.len(), 9);
    for trial in &trials {
        let measurement = trial.outcome.measurement().unwrap();
        let truth = plug.joules(measurement.window_raw_ns.unwrap());
        let joules = plug_joules(trial);
        let [low, high] = joules.interval.unwrap();
        let above = joules.above_idle.as_ref().unwrap();
        eprintln!(
            "{} depth {}: {:.2} J [{low:.2}, {high:.2}], the law's {truth:.2} J; {:.0} I/Os per J; idle \
             {:.2} W",
            trial.path,
            trial.workload.iodepth,
            joules.joules,
            measurement.ios as f64 / joules.joules,
            above.idle_watts
        );
        assert!((joules.seconds * 1e9 - measurement.window_ns as f64).abs() < 2e6);
        let cores = f64::from(measurement.evidence.cpu.cores);
        let at_rest = 0.99 * REST_WATTS..1.01 * (REST_WATTS + CORE_WATTS * cores);
        assert!(at_rest.contains(&above.idle_watts), "{}", above.idle_watts);
        // How often intervals hold the truth is tested by simulation in the meters' crate.
        let [least, most] = plug.bounds(measurement.window_raw_ns.unwrap());
        if !plug.was_missed(measurement.window_raw_ns.unwrap()) {
            assert!(
                is_within([least, most], joules) && low < joules.joules && joules.joules < high,
                "{joules:?}, {least} to {most}"
            );
        }
    }
    let store = Store::open(&folder.join("e.iopj")).unwrap();
    assert_eq!(store.sessions().unwrap().len(), 1);
    assert!(store.study().unwrap().provenance["meter.plug"].contains("system `power` ±0.5 %"));
    let cost = store.events().unwrap().into_iter().find(|event| event.2.contains("% of a core")).unwrap();
    eprintln!("{}", cost.2);
    // Flatness takes ten seconds to see, and the wait was two: the message says that it is unknown.
    let unknown = "it is not known whether power was flat after 2s, because that takes 10.7 s to see";
    assert_eq!(messages.matches(unknown).count(), 1, "{messages}");
    drop(store);
    power_is_drawn(&folder, &trials);
    attached_log_agrees(&folder, &plug, &trials);
    let mut kept = vec![output.stdout, messages.into_bytes(), command_line];
    for entry in std::fs::read_dir(&*folder).unwrap().map(|entry| entry.unwrap()) {
        if entry.file_name() != "password" && entry.file_name() != "data" {
            kept.push(std::fs::read(entry.path()).unwrap());
        }
    }
    let secret = PASSWORD.as_bytes();
    assert!(kept.iter().all(|bytes| !bytes.windows(secret.len()).any(|part| part == secret)));
}

/// Whether joules are between what a plug can have shown at the least and at the most. Where power is uneven,
/// integrals of its means are off by the random uncertainty that they state.
fn is_within([least, most]: [f64; 2], joules: &Joules) -> bool {
    let random_j = 3.0 * joules.random_j;
    (least - random_j..=most + random_j).contains(&joules.joules)
}

/// The page and the figures show the plug's readings over time, with a stroke for each usable trial.
fn power_is_drawn(folder: &Path, trials: &[Trial]) {
    succeeded(&iopj(folder, "report e.iopj --html e.html").output().unwrap());
    succeeded(&iopj(folder, "report e.iopj --figures figures").output().unwrap());
    let page = std::fs::read_to_string(folder.join("e.html")).unwrap();
    assert!(page.contains("Power over time: plug (system)") && page.contains("power-over-time-plug-system"));
    let figure = std::fs::read_to_string(folder.join("figures/power-over-time-plug-system.svg")).unwrap();
    let is_usable =
        |trial: &&Trial| trial.outcome.measurement().unwrap().verdict.kind != VerdictKind::Refuted;
    assert_eq!(
        figure.matches("class=\"mark trial window\"").count(),
        trials.iter().filter(is_usable).count(),
        "{figure}"
    );
    assert_eq!(figure.matches("class=\"mark curve power\"").count(), 1, "{figure}");
    std::fs::remove_dir_all(folder.join("figures")).unwrap();
}

/// The plug's own log, attached, gives the same joules; one without the pattern is refused.
fn attached_log_agrees(folder: &Path, plug: &Plug, live: &[Trial]) {
    let log = plug.log();
    std::fs::write(folder.join("log.csv"), &log).unwrap();
    let flat: String = log
        .lines()
        .enumerate()
        .map(|(at, line)| match line.split_once(',') {
            Some((time, _)) if at > 0 => format!("{time},{}\n", 40 + at % 3),
            _ => format!("{line}\n"),
        })
        .collect();
    std::fs::write(folder.join("flat.csv"), flat).unwrap();
    let messages = refusal(folder, "meter attach e.iopj flat.csv");
    assert!(messages.contains("the load pattern is not in the meter's log"), "{messages}");
    let attached = iopj(folder, "meter attach e.iopj log.csv").output().unwrap();
    succeeded(&attached);
    for (trial, live) in trials(folder).iter().zip(live) {
        let energy = &trial.outcome.measurement().unwrap().energy;
        let wall = match &energy.iter().find(|energy| energy.meter == "wall").unwrap().outcome {
            EnergyOutcome::Complete(wall) => wall,
            other => panic!("{other:?}"),
        };
        let [least, most] = plug.bounds(live.outcome.measurement().unwrap().window_raw_ns.unwrap());
        assert!(is_within([least, most], wall), "{wall:?}, {:?}", plug_joules(live));
    }
    let said = "9 of 9 trials now have joules from the meter `wall`";
    assert_eq!(String::from_utf8_lossy(&attached.stdout).lines().last(), Some(said));
    let messages = refusal(folder, "meter fit e.iopj -o model.toml");
    assert!(messages.contains("9 trials have joules of a real meter"), "{messages}");
}

/// The trials in a study's store.
fn kept(folder: &Path) -> usize {
    let store = Store::open(&folder.join("e.iopj"));
    store.map_or(0, |store| store.positions().map_or(0, |positions| positions.len()))
}

/// Waits until a running study has stored this many trials; if it ended before, returns why.
fn wait_for_trials(study: &mut Child, folder: &Path, count: usize) -> Result<(), String> {
    for _ in 0..6000 {
        if kept(folder) >= count {
            return Ok(());
        }
        if let Some(end) = study.try_wait().unwrap() {
            let mut messages = String::new();
            study.stderr.take().unwrap().read_to_string(&mut messages).unwrap();
            return Err(format!("the study ended before it kept {count} trials, {end}: {messages}"));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Err(format!("the study did not keep {count} trials within five minutes"))
}

/// A running study that has stored this many trials.
fn under_way(folder: &Path, line: &str, count: usize) -> Child {
    loop {
        let mut study = spawn(folder, line);
        match wait_for_trials(&mut study, folder, count) {
            Ok(()) => return study,
            Err(reason) => assert!(is_busy(&reason), "{reason}"),
        }
    }
}

#[test]
fn trials_while_a_meters_server_is_killed_are_incomplete_and_later_ones_are_not() {
    let _alone = alone();
    let folder = folder();
    let (plug, port) = PlugProcess::start();
    prepare(&folder, &second_study(port));
    // Half of the study remains when the server is back: attempts are at most 10 s apart.
    let line = format!("run study.toml {OPTIONS} --iodepth 1 --runtime 1s --replicates 11");
    let mut child = under_way(&folder, &line, 3);
    drop(plug);
    // The next trial may be under way; those after it begin without the server.
    let without_it = kept(&folder) + 1;
    wait_for_trials(&mut child, &folder, without_it + 3).unwrap();
    let until = kept(&folder);
    let again = |_| PlugProcess::start_at(port);
    let _again = (0..100).find_map(again).expect("the port is another's now");
    let messages = succeeded(&child.wait_with_output().unwrap());
    says(
        &messages,
        &[
            "the meter `plug` gives no readings, and is tried again",
            "cannot be reached",
            "gives readings again",
        ],
    );
    let trials = trials(&folder);
    assert_eq!(trials.len(), 22);
    let reasons: Vec<Option<&str>> = trials.iter().map(outage).collect();
    let without = |reason: &Option<&str>| reason.is_some_and(|text| text.contains("the meter"));
    assert!(reasons[without_it..until].iter().all(without), "{without_it} to {until}: {reasons:?}");
    // The first two had ended before, and readings resumed.
    assert!(
        reasons[..2].iter().all(Option::is_none) && reasons[until..].iter().any(Option::is_none),
        "{reasons:?}"
    );
}

#[test]
fn a_meter_that_falls_silent_is_marked_and_the_study_goes_on() {
    let _alone = alone();
    let (folder, plug) = (folder(), Plug::start());
    prepare(&folder, &study(plug.port, "host"));
    let line = format!("run study.toml {OPTIONS} --iodepth 1 --bs 4k,8k --runtime 2s --replicates 1");
    // The last value of the first trial's window comes after its end. Within a block: between blocks an idle
    // stretch waits for the meter.
    let mut child = under_way(&folder, &line, 2);
    plug.be_silent(true);
    std::thread::sleep(Duration::from_secs(5));
    // Three failed attempts are reported.
    while plug.refused() < 4 && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(10));
    }
    plug.be_silent(false);
    let messages = succeeded(&child.wait_with_output().unwrap());
    assert!(messages.contains("the meter `plug` gives no readings, and is tried again"), "{messages}");
    let trials = trials(&folder);
    assert_eq!(trials.len(), 4);
    assert_eq!(outage(&trials[0]), None);
    let reasons: Vec<&str> = trials.iter().filter_map(outage).collect();
    assert!(!reasons.is_empty() && reasons.iter().all(|reason| reason.contains("meter")), "{reasons:?}");
}

#[test]
fn a_wrong_password_is_refused_without_a_word_of_it() {
    let _alone = alone();
    let (folder, plug) = (folder(), Plug::start());
    for study in [study(plug.port, "host"), second_study(plug.port)] {
        prepare(&folder, &study);
        std::fs::write(folder.join("password"), "tr0ub4dor\n").unwrap();
        let messages = refusal(&folder, &format!("run study.toml {OPTIONS}"));
        assert!(messages.contains("the meter `plug`: ") && !messages.contains("tr0ub4dor"), "{messages}");
        assert!(messages.contains("does not accept the credentials (401)"), "{messages}");
        assert!(!folder.join("e.iopj").exists());
    }
}

#[test]
fn meter_test_shows_five_readings_of_each_meter_and_fails_with_one_that_cannot_be_read() {
    let (folder, plug) = (folder(), Plug::start());
    prepare(&folder, &(study(plug.port, "own") + LOG));
    let (code, text, messages) = common::run(&folder, "meter test study.toml --allow secrets");
    assert_eq!(code, 0, "{messages}");
    says(&messages, &["reading each meter 5 times: about 1 s, at most 60 s\n"]);
    says(
        &text,
        &[
            "plug: http, read every 100ms\n  system power, average, W: ",
            "W (standard deviation); age -",
            "accuracy \u{b1}0.5 %",
            "wall: log: its log is attached after the run: `iopj meter attach STORE LOG`\n",
        ],
    );
    let (_, json, _) = common::run(&folder, "meter test study.toml --allow secrets --json");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let power = &json[0]["channels"][0];
    assert_eq!((power["readings"].as_array().unwrap().len(), &power["unit"]), (5, &"W".into()));
    // Its clock is 83 s ahead, and goes too fast since the machine started.
    assert!((-500.0..-82.0).contains(&power["readings"][0]["age_s"].as_f64().unwrap()), "{power}");
    // A busy machine's intervals are longer than 100 ms.
    let period_s = power["seen_interval_s"].as_f64().unwrap().max(0.1);
    let kind = ChannelKind::Average { window_ns: (WINDOW_S * 1e9) as u64 };
    let least = Cadence { kind, period_s, age_s: 0.0, bridge_s: 2.0 }.least_runtime().unwrap();
    assert!(power["least_runtime_s"] == least.as_secs_f64() && least.as_secs_f64() >= 0.6, "{power}");
    std::fs::write(folder.join("password"), "tr0ub4dor\n").unwrap();
    let (code, text, _) = common::run(&folder, "meter test study.toml --allow secrets");
    assert!(code == 1 && text.contains("cannot be read: ") && !text.contains("tr0ub4dor"), "{code} {text}");
}

/// Nothing was said on the terminal, the page denied the meter, and JSON spoke of a gap.
#[test]
fn a_window_that_is_too_short_for_its_meter_is_warned_of_and_says_so_after_the_run() {
    let _alone = alone();
    let folder = folder().with_data(4 << 20);
    let study = "name = \"short\"\npaths = \"posix-sio/syscall/interrupt\"\nreplicates = 1\n\
                 settle_limit = \"10ms\"\nidle = \"100ms\"\n[[workload]]\nruntime = \"1s\"\n\
                 [meters.psu]\nkind = \"command\"\nscope = \"system\"\n\
                 command = [\"sh\", \"-c\", \"while echo 40; do sleep 1; done\"]\n";
    std::fs::write(folder.join("study.toml"), study).unwrap();
    let line = "run study.toml --target data --store e.iopj --allow-exec";
    let (run, messages) = output(&mut iopj(&folder, line));
    succeeded(&run);
    // How often it gives a value is as it was seen: every second, or a little less often.
    let short = "the measured window is too short for the meter, which gives a value every ";
    let warning = format!("warning: no trial will have joules from the meter `psu`: {short}");
    assert_eq!(messages.matches(&warning).count(), 1, "{messages}");
    let trials = trials(&folder);
    let energy = &trials[0].outcome.measurement().unwrap().energy[0];
    let EnergyOutcome::Incomplete(reason) = &energy.outcome else { panic!("it has joules") };
    assert!(reason.starts_with(short) && reason.contains("use a `runtime` of at least "), "{reason}");
    let lack = format!("no joules from psu in 1 of 1 trials: {reason}");
    let squeezed =
        |text: Vec<u8>| String::from_utf8(text).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(squeezed(run.stdout).contains(&lack));
    for line in ["winners e.iopj --metric ios_per_joule", "claims e.iopj", "claims e.iopj --json"] {
        let text = squeezed(iopj(&folder, line).output().unwrap().stdout);
        assert!(text.contains(&lack), "{line}: {text}");
    }
}

/// The file was made, and the drive locked, before anybody saw that a meter could not be read.
#[test]
fn meters_that_cannot_be_read_are_refused_in_one_message_before_anything_is_made() {
    let folder = folder();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let study = format!(
        "{QUICK}\n[meters.ended]\nkind = \"command\"\nscope = \"system\"\n\
         command = [\"sh\", \"-c\", \"exit 3\"]\n\
         [meters.mute]\nkind = \"http\"\nurl = \"http://127.0.0.1:{port}/\"\ntimeout_s = 0.2\n\
         values = [{{ pointer = \"/power\" }}]\n\
         [meters.secret]\nkind = \"http\"\nurl = \"http://127.0.0.1:{port}/\"\nuser = \"me\"\n\
         password_file = \"none\"\nvalues = [{{ pointer = \"/power\" }}]\n"
    );
    std::fs::write(folder.join("study.toml"), study).unwrap();
    let messages = refusal(&folder, "run study.toml --store e.iopj --allow exec,secrets");
    says(
        &messages,
        &[
            "the meter `ended`: `sh` ended with exit status: 3: run it by hand to see why",
            "the meter `mute`: ",
            "the meter `secret`: ",
            "none",
        ],
    );
    assert_eq!(messages.lines().filter(|line| line.contains("the meter")).count(), 1, "{messages}");
    let left: Vec<_> = std::fs::read_dir(&*folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["study.toml"]);
}

#[test]
fn a_secret_in_a_study_is_refused_without_a_word_of_it() {
    let folder = folder();
    for (line, part) in [
        ("password = \"hunter2\"", "unknown key `password` in [meters.plug]: did you mean `password_env`?"),
        ("password = \"hunter2", "is not TOML: line"),
        ("url = \"http://me:hunter2@plug/\"", "the address of `url` holds a user or a password"),
        ("password_file = \"a\"\ninsecure = \"hunter2\"", "invalid type: string"),
    ] {
        let study = format!("{QUICK}\n[meters.plug]\nkind = \"http\"\n{line}\n");
        std::fs::write(folder.join("study.toml"), study).unwrap();
        let messages = refusal(&folder, "run study.toml");
        assert!(messages.contains(part) && !messages.contains("hunter2"), "{messages}");
    }
}
