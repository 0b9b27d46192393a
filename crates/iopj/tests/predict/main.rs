//! `iopj predict` and `iopj policy`: predictions, scores, the papers' figures, policies, what those that
//! follow one bring, and refusals.

#[path = "../common/mod.rs"]
mod common;
mod deep_idle;
mod simulate;
mod traces;

use common::{folder, run, says};
use iopj_core::VerdictKind;
use iopj_record::testing::counted as costs;
use iopj_record::testing::counted::Happened;
use iopj_record::testing::pages as fixture;
use iopj_record::testing::pages::{judge, study, trials, workloads};
use iopj_record::{StudyRecord, Trial};
use iopj_store::Store;
use serde_json::Value;
use std::path::Path;
use traces::trace;

/// A store of two paths at these depths, three times each.
fn stored(path: &Path, iodepths: &[u32], emulated: bool, change: impl FnOnce(&mut [Trial])) {
    let paths = ["libaio/syscall/interrupt", "io_uring/syscall/interrupt"];
    let mut trials = trials(&paths, &workloads(iodepths, &[1], &[4096]), 3);
    change(&mut trials);
    let mut study = study("fixed");
    study.emulated = emulated.then(|| "QEMU TCG".to_owned());
    let mut store = Store::create(path, &study).unwrap();
    trials.iter().for_each(|trial| store.add(trial).unwrap());
}

/// Closed loops of a drive that takes 40 us, with a software of 10 us on one path and 5 us on the other, of
/// which a job can do 100,000 and 200,000 I/Os a second.
fn plausible(trials: &mut [Trial]) {
    for trial in trials {
        let software: f64 = if trial.path.to_string().starts_with("libaio") { 10e3 } else { 5e3 };
        let depth = f64::from(trial.workload.iodepth);
        let cycle = ((40e3 + software).powi(3) + ((depth - 1.0) * software).powi(3)).cbrt();
        let one = trial.outcome.measurement_mut().unwrap();
        let seconds = one.window_ns as f64 / 1e9;
        one.ios = (depth / cycle * 1e9 * seconds) as u64;
        one.latency.mean = cycle;
        one.latency.p50 = cycle as u64;
        one.latency.p99 = (cycle * 1.5) as u64;
        one.latency.p99_9 = (cycle * 2.0) as u64;
        one.cpu_percent = one.iops() * software * 1e-7;
        one.context_switches_per_io = 1.0;
    }
}

/// A predicted quantity of a row.
fn value(row: &Value, quantity: &str) -> Option<f64> {
    let mut all = row["quantities"].as_array().unwrap().iter();
    all.find(|one| one["quantity"] == quantity)?["value"].as_f64()
}

#[test]
fn a_store_predicts_what_it_did_not_measure() {
    let folder = &*folder();
    stored(&folder.join("s.iopj"), &[1, 2, 4, 8, 16, 32], false, plausible);
    let (code, text, messages) = run(folder, "predict s.iopj --iodepth 12,64");
    assert_eq!(code, 0, "{messages}");
    says(
        &text,
        &[
            "12 cells with ",
            "randread, bs 4096, iodepth 12, numjobs 1",
            "most IOPS: io_uring/syscall/interrupt, ahead of libaio/syscall/interrupt with a probability of ",
            "extrapolated (all): I/Os in flight 64 is 2 times the most, 32",
        ],
    );
    let (code, printed, _) = run(folder, "predict s.iopj --iodepth 12 --json");
    let printed: Value = serde_json::from_str(&printed).unwrap();
    let rows = printed["groups"][0]["rows"].as_array().unwrap();
    assert_eq!((code, rows.len()), (0, 2));
    for row in rows {
        let is_libaio = row["case"]["path"] == "libaio/syscall/interrupt";
        let software: f64 = if is_libaio { 10e3 } else { 5e3 };
        let exact = 12.0 / ((40e3 + software).powi(3) + (11.0 * software).powi(3)).cbrt() * 1e9;
        let said = value(row, "iops").unwrap();
        assert!((said / exact - 1.0).abs() < 0.1, "{said} is {exact}: {row}");
        assert!(row["extrapolated"].as_array().unwrap().is_empty());
        assert_eq!((value(row, "watts"), value(row, "ios_per_joule")), (None, None));
    }
    // A model in a file predicts the same as the store that made it.
    let (code, _, messages) = run(folder, "predict s.iopj --iodepth 12 --write-model m.toml");
    assert_eq!(code, 0, "{messages}");
    says(&messages, &["m.toml is written"]);
    let (_, again, _) = run(folder, "predict m.toml --iodepth 12 --json");
    let again: Value = serde_json::from_str(&again).unwrap();
    let first = |printed: &Value| value(&printed["groups"][0]["rows"][0], "iops").unwrap();
    assert!((first(&printed) / first(&again) - 1.0).abs() < 1e-9);
    let (_, text, _) = run(folder, "predict m.toml --drive read=100us --path posix-sio,libaio --iodepth 1");
    says(
        &text,
        &[
            "the drive is that of a data sheet",
            "not predicted (posix-sio/syscall/interrupt, posix-sio/syscall/poll, posix-sio/syscall/hybrid): ",
            "`time:posix-sio`: calibrate it by",
        ],
    );
    // It has seen the store that calibrated it: nothing was held back.
    let (code, _, messages) = run(folder, "predict m.toml --against s.iopj");
    assert_eq!(code, 2);
    says(&messages, &["m.toml was calibrated by s.iopj, so it has seen what it would be compared with"]);
    let (code, text, messages) = run(
        folder,
        "predict s.iopj --rate 5k --rate-process poisson --iodepth 8 --path io_uring/syscall,libaio",
    );
    assert_eq!(code, 0, "{messages}");
    says(&text, &["numjobs 1, 5000 I/Os per second", "least p99: ", "an open load is simulated"]);
    let (_, text, _) = run(folder, "predict s.iopj --rate 1M --iodepth 8 --path libaio");
    says(&text, &["falls behind, with a latency", "libaio/syscall/interrupt (100 %)", "   grows   grows "]);
    let (code, text, _) = run(folder, "predict s.iopj --against s.iopj");
    assert_eq!(code, 0);
    says(
        &text,
        &["each cell is predicted by a model of the other cells", "latency_p99 ", "all: median error "],
    );
    let (_, scored, _) = run(folder, "predict s.iopj --against s.iopj --json");
    let scored: Value = serde_json::from_str(&scored).unwrap();
    assert!(scored["all"]["median_error"].as_f64().unwrap() < 0.1, "{scored}");
}

/// The numbers of a run that prints JSON.
fn printed(folder: &Path, line: &str) -> Value {
    let (code, printed, messages) = run(folder, &format!("{line} --json"));
    assert_eq!(code, 0, "{line}: {messages}");
    serde_json::from_str(&printed).unwrap()
}

/// The rows of the first group.
fn rows(printed: &Value) -> &[Value] {
    printed["groups"][0]["rows"].as_array().unwrap()
}

/// A store of the lab with this kernel: exact counts of paths, each with so many more instructions an I/O
/// than 2,990; and of one that spins at least so often, with as many more than 1,520 and its spins.
fn counted(path: &Path, kernel: &str, paths: &[(&str, u64)], spins: Option<(f64, u64)>) {
    let mut study = study("fixed");
    study.provenance.insert("kernel".to_owned(), kernel.to_owned());
    study.emulated = Some("QEMU TCG".to_owned());
    let architecture = if kernel.ends_with("arm64") { "aarch64" } else { "x86_64" };
    study.provenance.insert("architecture".to_owned(), architecture.to_owned());
    let mut store = Store::create(path, &study).unwrap();
    for (path, extra) in paths {
        for replicate in 0..3 {
            let happened = Happened { sleeps: 1.0, interrupts: 1.0, extra: *extra, ..Happened::default() };
            let mut trial = costs::trial(path, &costs::workload(1, 1000), replicate, happened);
            trial.position = u64::from(replicate);
            store.add(&trial).unwrap();
        }
    }
    for (replicate, (spins, extra)) in (0..6).flat_map(|replicate| Some((replicate, spins?))) {
        let spins = spins + f64::from(replicate % 5);
        let happened = Happened { spins, extra, ..Happened::default() };
        let mut trial = costs::trial("io_uring/syscall/poll", &costs::workload(1, 1000), replicate, happened);
        trial.position = u64::from(replicate);
        store.add(&trial).unwrap();
    }
}

#[test]
fn another_kernel_is_predicted_by_its_instructions() {
    let folder = &*folder();
    stored(&folder.join("s.iopj"), &[1, 2, 4, 8, 16, 32], false, plausible);
    let [libaio, ring] = ["libaio/syscall/interrupt", "io_uring/syscall/interrupt"];
    counted(&folder.join("old.iopj"), "fixed", &[(libaio, 0), (ring, 0)], Some((90.0, 0)));
    counted(&folder.join("new.iopj"), "7.0.1", &[(libaio, 1_495)], Some((20.0, 380)));
    let line = "predict s.iopj --kernel new.iopj --from-kernel old.iopj --iodepth 1";
    let other = printed(folder, line);
    let [row] = rows(&other) else { panic!("{other}") };
    // The kernel has half as many again of its 2,990, and the 600 of user space stay: 14.2 us of software in
    // place of 10, beside 40 of the drive.
    let latency = value(row, "latency_mean").unwrap();
    assert!((latency / 54_164.0 - 1.0).abs() < 0.03, "{latency}");
    let cpu = value(row, "cpu_per_io").unwrap();
    assert!((cpu / 14_164.0 - 1.0).abs() < 0.03, "{cpu}");
    let beyond = row["extrapolated"].as_array().unwrap();
    assert_eq!(beyond[0], "the kernel is Linux 7.0.1, by instructions counted in new.iopj");
    let interval = |printed: &Value| {
        let row = rows(printed).iter().find(|row| row["case"]["path"] == libaio).unwrap();
        let cpu = row["quantities"].as_array().unwrap().iter().find(|one| one["quantity"] == "cpu_per_io");
        let ends = cpu.unwrap()["interval"].as_array().unwrap();
        (ends[1].as_f64().unwrap() / ends[0].as_f64().unwrap()).ln()
    };
    let own = printed(folder, "predict s.iopj --iodepth 1");
    // Instructions that came may take half or twice the time of the others.
    assert!(interval(&other) > interval(&own) + 0.4, "{} {}", interval(&other), interval(&own));
    // How often it spins is no matter of the kernel: 1,900 for 1,520.
    let changes = other["model"]["kernel"]["changes"].as_array().unwrap();
    let [first, second] = &changes[..] else { panic!("{other}") };
    for (change, path, all, own) in
        [(first, libaio, 5_085.0 / 3_590.0, 1.5), (second, "io_uring/syscall/poll", 2_500.0 / 2_120.0, 1.25)]
    {
        let of = |key: &str| change[key].as_f64().unwrap();
        assert_eq!(change["path"], path);
        assert!((of("ratio") - all).abs() < 1e-6 && (of("kernel_ratio") - own).abs() < 1e-6, "{change}");
        // User space is counted without error, and the kernel's alone are fewer.
        let [spread, of_kernel] = [of("spread"), of("kernel_spread")];
        assert!(spread >= 0.0 && of_kernel >= spread, "{change}");
    }
    let (_, text, _) = run(folder, line);
    says(&text, &["io_uring/syscall/poll +17.9 % (the kernel's own", "new.iopj has no exact counts of it"]);
    // Trials of the other kernel say how good that is.
    stored(&folder.join("there.iopj"), &[1, 4, 16], false, plausible);
    let scored =
        printed(folder, "predict s.iopj --kernel new.iopj --from-kernel old.iopj --against there.iopj");
    let paths = scored["predictions"].as_array().unwrap().iter().map(|one| &one["case"]["path"]);
    assert!(paths.clone().count() > 6 && paths.into_iter().all(|path| *path == libaio), "{scored}");
    counted(&folder.join("older.iopj"), "5.10.0-30-amd64", &[(libaio, 0)], None);
    counted(&folder.join("arm.iopj"), "7.0.1-arm64", &[(libaio, 0)], None);
    for (line, part) in [
        ("--kernel new.iopj", "--from-kernel"),
        (
            "--kernel arm.iopj --from-kernel old.iopj",
            "--kernel: arm.iopj counted on aarch64, whose instructions say nothing of x86_64",
        ),
        ("--kernel s.iopj --from-kernel old.iopj", "--kernel: s.iopj has no exact counts: make them with "),
        (
            "--kernel new.iopj --from-kernel older.iopj",
            "older.iopj counted Linux 5.10.0-30-amd64, and the model was calibrated on Linux fixed",
        ),
        ("--kernel new.iopj --from-kernel old.iopj --against s.iopj", "compare with a store of the other"),
    ] {
        let (code, _, messages) = run(folder, &format!("predict s.iopj {line}"));
        assert_eq!(code, 2, "{line}: {messages}");
        says(&messages, &[part]);
    }
}

#[test]
fn what_cannot_be_predicted_is_refused_in_one_line() {
    let folder = &*folder();
    stored(&folder.join("s.iopj"), &[1, 4], false, plausible);
    stored(&folder.join("few.iopj"), &[1], false, plausible);
    stored(&folder.join("refuted.iopj"), &[1, 4], false, |trials| {
        plausible(trials);
        judge(trials, "libaio/syscall/interrupt", VerdictKind::Refuted);
    });
    stored(&folder.join("emulated.iopj"), &[1, 4], true, plausible);
    stored(&folder.join("open.iopj"), &[1, 4], false, |trials| {
        trials.iter_mut().for_each(|trial| trial.workload.open = Some(iopj_core::OpenLoad::at(1000)));
    });
    std::fs::write(folder.join("bad.toml"), "version = 1\n").unwrap();
    std::fs::write(folder.join("there.toml"), "").unwrap();
    std::fs::write(folder.join("t.csv"), trace(10)).unwrap();
    for (line, part) in [
        ("", "required"),
        ("no.iopj", "no.iopj"),
        ("few.iopj", "needs 3 cells of paths and workloads, and there are 2"),
        ("refuted.iopj", "of 4096 bytes at iodepth 1, io_uring/syscall/interrupt randread"),
        ("emulated.iopj", "times mean nothing under QEMU TCG"),
        ("open.iopj", "there is none: measure 3 more"),
        ("bad.toml", "this is no cost model: missing field"),
        ("no.toml", "cannot be read: name a store or a model"),
        ("s.iopj --drive 8us", "--drive: `8us` does not describe a drive"),
        ("s.iopj --rate 0", "`0` is not a rate"),
        ("s.iopj --rate 1k --rate-process poison", "poison"),
        ("s.iopj --rate 1k --burst-on 1ms", "--burst-off"),
        ("s.iopj --burst-on 1ms --burst-off 1ms", "--rate"),
        ("s.iopj --rate 1k --burst-on 0s --burst-off 1ms", "--burst-on is 0: give a time such as 10ms"),
        ("s.iopj --read-iolog no.csv", "no.csv"),
        ("s.iopj --read-iolog bad.toml", "bad.toml"),
        ("s.iopj --read-iolog t.csv --bs 4k", "cannot be used with"),
        ("s.iopj --read-iolog t.csv --rate 1k", "cannot be used with"),
        ("s.iopj --read-iolog t.csv --replay-skip read", "nothing of the trace is left to be replayed"),
        ("s.iopj --read-iolog t.csv --replay-device sdb", "the trace has no device sdb"),
        ("s.iopj --read-iolog t.csv --replay-time-scale 0", "0 is not in 1.."),
        ("s.iopj --replay-no-stall", "--read-iolog"),
        ("s.iopj --figures f", "--figures draws predictions against measurements: add --against STORE"),
        ("s.iopj --against s.iopj --iodepth 4", "cannot be used with"),
        ("--published --drive read=8us", "cannot be used with"),
        ("s.iopj --bs 0", "--bs: no I/O has 0"),
        ("s.iopj --rw trim", "--rw: `trim`"),
        ("s.iopj --path aio", "--path: `aio` matches no I/O path"),
        ("s.iopj --iodepth 0", "0 is not in 1.."),
        ("s.iopj --write-model there.toml", "there.toml cannot be written: name a file that does not exist"),
    ] {
        let (code, _, messages) = run(folder, &format!("predict {line}"));
        assert_eq!(code, 2, "{line}: {messages}");
        says(&messages, &[part]);
        assert!(!messages.contains("panicked"), "{messages}");
    }
    assert_eq!(std::fs::read(folder.join("there.toml")).unwrap(), b"", "it is as it was");
    let (_, _, messages) = run(folder, "predict open.iopj");
    says(&messages, &["open.iopj: 12 trials say nothing to the model, because of an open load"]);
}

/// The papers' figures are facts and the fit has no luck in it, so these errors are the same everywhere.
#[test]
fn the_papers_figures_are_predicted_within_a_tenth_from_half_of_them() {
    let folder = &*folder();
    let (code, printed, _) = run(folder, "predict --published --json");
    let papers: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((code, papers.as_array().unwrap().len()), (0, 2));
    let mut errors = Vec::new();
    for (paper, figures) in papers.as_array().unwrap().iter().zip([12, 36]) {
        assert_eq!((&paper["all"]["n"], &paper["lacking"]), (&Value::from(figures), &Value::from(0)));
        assert!(paper["all"]["median_error"].as_f64().unwrap() < 0.1, "{paper}");
        for one in paper["predictions"].as_array().unwrap() {
            let of = |key: &str| one[key].as_f64().unwrap();
            errors.push((of("predicted") / of("measured") - 1.0).abs());
        }
    }
    errors.sort_by(f64::total_cmp);
    assert!(errors.len() == 48 && errors[24] < 0.08, "{errors:?}");
    let (code, files, _) = run(folder, "predict --published --figures figures");
    let svg = files.lines().filter(|file| file.ends_with(".svg") && !file.ends_with("-dark.svg"));
    let marks = |file| std::fs::read_to_string(folder.join(file)).unwrap().matches("class=\"mark").count();
    assert_eq!((code, svg.map(marks).collect::<Vec<_>>()), (0, vec![6, 6, 18, 18]), "{files}");
    let (_, text, _) = run(folder, "predict --published");
    says(&text, &["18 and 18 figures calibrate a model of 28 and 28 parameters, of which they decide "]);
}

#[test]
fn a_policy_is_derived_shown_and_checked() {
    let folder = &*folder();
    stored(&folder.join("s.iopj"), &[1, 2, 4, 8, 16, 32], false, plausible);
    let (code, _, messages) = run(folder, "policy derive s.iopj --objective cpu --p99 150us -o p.toml");
    assert_eq!(code, 0, "{messages}");
    says(&messages, &["p.toml is written"]);
    let text = std::fs::read_to_string(folder.join("p.toml")).unwrap();
    let policy: iopj_auto::Policy = text.parse().unwrap();
    assert_eq!((policy.bound_p99_ns, policy.cells.len()), (Some(150_000), 6), "{text}");
    assert!(
        policy.cells.iter().all(|cell| cell.ways.len() == 1),
        "libaio is no way that can be chosen: {text}"
    );
    let one = &policy.cells[0].ways[0];
    assert_eq!(one.way.to_string(), "io_uring/syscall/interrupt");
    assert!((one.mean_ns.unwrap() / 45_000.0 - 1.0).abs() < 0.05 && one.joules.is_none(), "{text}");
    let (code, shown, _) = run(folder, "policy show p.toml");
    assert_eq!(code, 0);
    says(
        &shown,
        &["chosen for cpu, with a p99 within 150.0 us", "read 4k  32 or more  io_uring/syscall/interrupt"],
    );
    // The store is of a machine that nobody has, and the policy is refused here with what differs.
    iopj_engine::target::make_file(&folder.join("data"), 1 << 20, &mut |_| true).unwrap();
    let (code, checked, _) = run(folder, "policy check p.toml --target data");
    assert_eq!(code, 1, "{checked}");
    says(&checked, &["its kernel is `fixed`, here it is `", "it is refused here: derive one from a store"]);
    let anywhere: String = text
        .lines()
        .filter(|line| !line.starts_with("kernel") && !line.starts_with("drive"))
        .map(|line| format!("{line}\n"))
        .collect();
    std::fs::write(folder.join("here.toml"), anywhere.replace("cpu_model", "# cpu_model")).unwrap();
    let (code, checked, _) = run(folder, "policy check here.toml --target data --json");
    let checked: Value = serde_json::from_str(&checked).unwrap();
    assert_eq!((code, &checked["differences"]), (0, &Value::Array(Vec::new())), "{checked}");
    assert_eq!(checked["cells"].as_array().unwrap().len(), 6);
    for (line, part) in [
        ("derive s.iopj --objective ios_per_joule", "has none: derive it from a study with a meter"),
        ("derive s.iopj --objective speed", "--objective: `speed` is no aim"),
        ("derive s.iopj --p99 0s", "--p99: no I/O takes 0s"),
        (
            "derive s.iopj --output p.toml",
            "--output: p.toml cannot be written: name a file that does not exist",
        ),
        ("show no.toml", "no.toml cannot be read"),
        ("show s.iopj", "s.iopj cannot be read"),
        ("check p.toml --target no", "`no` does not exist: name a file"),
    ] {
        let (code, _, messages) = run(folder, &format!("policy {line}"));
        assert_eq!((code, messages.lines().count()), (2, 1), "{line}: {messages}");
        says(&messages, &[part]);
    }
    std::fs::write(folder.join("bad.toml"), text.replace("size = 4096", "size = 4095")).unwrap();
    let (code, _, messages) = run(folder, "policy show bad.toml");
    assert_eq!(code, 2);
    says(&messages, &["bad.toml: size = 4095 of the policy is not a power of two"]);
}

/// A store of `auto`, of the baselines, and of two static paths at two depths in so many blocks, whose study
/// has this table; `auto` takes `factor` times as long as the best of them.
fn chosen(path: &Path, table: &str, factor: f64, blocks: u32) {
    let factors = [
        ("auto", factor),
        ("auto:random", 1.3),
        ("auto:io_uring/syscall/interrupt", 1.02),
        ("io_uring/syscall/interrupt", 1.0),
        ("libaio/syscall/interrupt", 1.5),
    ];
    let mut trials = trials(&factors.map(|(path, _)| path), &workloads(&[1, 32], &[1], &[4096]), blocks);
    for (number, trial) in trials.iter_mut().enumerate() {
        let noise = 0.001 * (number * number * 7 % 11) as f64;
        let own = factors.iter().find(|(path, _)| *path == trial.path.to_string()).unwrap().1;
        let one = trial.outcome.measurement_mut().unwrap();
        one.latency.mean = 20_000.0 * own * (1.0 + noise);
        one.ios = (1e9 / one.latency.mean) as u64;
    }
    let text = format!(
        "name = \"fixed\"\npaths = \"auto\"\nmeters = \"none\"\n{table}\n[[workload]]\niodepth = [1, 32]\n"
    );
    let study = StudyRecord { text, planned_trials: trials.len() as u64, ..study("fixed") };
    let mut store = Store::create(path, &study).unwrap();
    trials.iter().for_each(|trial| store.add(trial).unwrap());
}

#[test]
fn paths_that_choose_are_scored_by_the_studys_own_thresholds() {
    let folder = &*folder();
    let scored = |name: &str, table: &str, factor: f64, blocks: u32| {
        chosen(&folder.join(name), table, factor, blocks);
        run(folder, &format!("policy score {name}"))
    };
    let (code, text, messages) = scored("holds.iopj", "[score]\nlevel = 0.95", 1.005, 8);
    assert_eq!(code, 0, "{text}{messages}");
    says(
        &text,
        &[
            "is to reach 97 % of the best static path of its cell, with 95 % confidence (the study's own\n\
             thresholds)",
            "randread 4k iodepth 32 numjobs 1, by mean latency in us",
            "libaio/syscall/interrupt, the worst",
            "auto over its 2 cells, by mean latency in us, against io_uring/syscall/interrupt: 0.99",
            "Of 2 answers: 2 holds, 0 fails, 0 undecided, 0 not tested.",
        ],
    );
    assert!(!text.contains("NaN"), "{text}");
    let (code, text, _) = scored("fails.iopj", "[score]\nmargin = 0.97", 1.1, 8);
    assert_eq!(code, 1, "{text}");
    says(&text, &["Of 2 answers: 0 holds, 2 fails", "it is worse than the best single static path"]);
    says(&text, &["  fails: auto, randread 4k iodepth 32 numjobs 1, by mean latency in us\n"]);
    let (code, text, _) = scored("lax.iopj", "[score]\nmargin = 0.85", 1.1, 8);
    assert_eq!(code, 0, "{text}");
    says(&text, &["is to reach 85 % of", "2 holds"]);
    let (code, text, _) = scored("free.iopj", "", 1.03, 8);
    assert_eq!(code, 0, "{text}");
    says(&text, &["(the usual thresholds:\nthe study states none under [score])", "2 undecided"]);
    says(&text, &["undecided (over +200)", "undecided (+N): about N more blocks would decide it"]);
    let (code, json, _) = run(folder, "policy score fails.iopj --json");
    let json: Value = serde_json::from_str(&json).unwrap();
    let row = &json["cells"][1]["rows"][0];
    assert_eq!((code, &row["path"], &row["answer"]["is"]), (1, &"auto".into(), &"fails".into()), "{json}");
    assert!((row["ratio"]["ratio"].as_f64().unwrap() * 1.1 - 1.0).abs() < 0.005, "{row}");
    assert_eq!(json["cells"][1]["workload"]["iodepth"], 32);
}

#[test]
fn what_cannot_be_scored_is_refused() {
    let folder = &*folder();
    chosen(&folder.join("one.iopj"), "", 1.0, 1);
    let (code, text, messages) = run(folder, "policy score one.iopj");
    assert_eq!((code, messages.lines().count()), (2, 1), "{messages}");
    says(&messages, &["one.iopj: nothing was tested: no static path has a figure in a block that chooses"]);
    says(&text, &["0 holds, 0 fails, 0 undecided, 2 not tested"]);
    chosen(&folder.join("bad.iopj"), "[score]\nmargin = 2.0", 1.0, 4);
    stored(&folder.join("lab.iopj"), &[1], true, |_| {});
    for (store, part) in [
        ("bad.iopj", "bad.iopj: the store's study: [score]: margin = 2 is not a share"),
        ("lab.iopj", "lab.iopj: times and joules mean nothing under QEMU TCG"),
        ("no.iopj", "there is no store"),
    ] {
        let (code, _, messages) = run(folder, &format!("policy score {store}"));
        assert_eq!((code, messages.lines().count()), (2, 1), "{store}: {messages}");
        says(&messages, &[part]);
    }
}
