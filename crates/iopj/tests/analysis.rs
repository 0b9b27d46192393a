//! Results from a store's trials: winner maps, claims, tables for other programs.

mod common;

use common::{folder, run, says};
use iopj_core::VerdictKind;
use iopj_record::testing::pages::{judge, study, trials, workloads};
use iopj_record::{Outcome, StudyRecord, Trial};
use iopj_store::Store;
use serde_json::Value;
use std::path::{Path, PathBuf};

const LIBAIO: &str = "libaio/syscall/interrupt";
const IO_URING: &str = "io_uring/syscall/interrupt";

/// A store of two paths at these depths, three times each: io_uring does one and a half times the I/Os of
/// libaio in a second. All are verified.
fn stored(path: &Path, iodepths: &[u32], change: impl FnOnce(&mut [Trial])) {
    let mut trials = trials(&[LIBAIO, IO_URING], &workloads(iodepths, &[1], &[4096]), 3);
    change(&mut trials);
    let mut store = Store::create(path, &study("fixed")).unwrap();
    for trial in &trials {
        store.add(trial).unwrap();
    }
}

#[test]
fn a_store_is_analysed() {
    let folder = &*folder();
    stored(&folder.join("s.iopj"), &[1, 4], |_| {});
    let (code, map, _) = run(folder, "winners s.iopj --metric iops --axes iodepth,numjobs --test welch");
    assert_eq!(code, 0);
    says(&map, &["iodepth 1", "iodepth 4", "A libaio/syscall/interrupt", "B io_uring/syscall/interrupt"]);
    let (_, winners, _) =
        run(folder, "winners s.iopj --metric iops --axes iodepth,numjobs --test welch --json");
    let winners: Value = serde_json::from_str(&winners).unwrap();
    let cells = winners["maps"][0]["cells"].as_array().unwrap();
    let is_won = |cell: &&Value| cell["decision"] == "wins" && cell["ranking"][0]["path"] == IO_URING;
    assert_eq!((cells.len(), cells.iter().filter(is_won).count()), (2, 2), "{cells:?}");
    let (code, claims, _) = run(folder, "claims --json s.iopj");
    assert_eq!(code, 0);
    let claims: Value = serde_json::from_str(&claims).unwrap();
    let claims = claims["claims"].as_array().unwrap();
    assert_eq!(claims.len(), 21);
    assert!(claims.iter().all(|claim| claim["answer"]["is"] == "not_measured"), "polling was not measured");
    let (code, csv, _) = run(folder, "report --csv s.iopj");
    assert_eq!((code, csv.lines().count()), (0, 5), "{csv}");
    let (code, latex, _) = run(folder, "report --latex s.iopj");
    assert_eq!((code, latex.matches("\\begin{tabular}").count()), (0, 2));
    assert!(![map, csv, latex].iter().any(|text| text.contains("NaN")));
    let (code, files, _) = run(folder, "report s.iopj --figures figures");
    let (dark, rest): (Vec<&str>, Vec<&str>) = files.lines().partition(|file| file.ends_with("-dark.svg"));
    let (svg, pdf): (Vec<&str>, Vec<&str>) = rest.into_iter().partition(|file| file.ends_with(".svg"));
    assert!(code == 0 && svg.len() > 5, "{files}");
    assert!(
        svg.iter().zip(&pdf).all(|(svg, pdf)| svg.strip_suffix(".svg") == pdf.strip_suffix(".pdf")),
        "{files}"
    );
    let bytes = |file: &&str| std::fs::read(folder.join(file)).unwrap();
    let text = |file: &str| String::from_utf8(bytes(&file)).unwrap();
    assert_eq!(dark.len(), svg.len(), "{files}");
    for (light, dark) in svg.iter().zip(dark) {
        assert_eq!(light.strip_suffix(".svg"), dark.strip_suffix("-dark.svg"));
        let (light, dark) = (text(light), text(dark));
        assert!(light.contains(".paper { fill: #ffffff; }") && dark.contains(".paper { fill: #15181c; }"));
        assert!(
            !dark.contains("var(--")
                && light.split_once("</style>").unwrap().1 == dark.split_once("</style>").unwrap().1
        );
    }
    assert!(
        pdf.len() == svg.len() && pdf.iter().all(|file| bytes(file).starts_with(b"%PDF-1.7\n")),
        "{files}"
    );
}

#[test]
fn stores_are_compared() {
    let folder = &*folder();
    let slower = |trials: &mut [Trial]| {
        for trial in trials {
            let Outcome::Measured(measurement) = &mut trial.outcome else { panic!("all are measured") };
            measurement.ios = measurement.ios * 9 / 10;
        }
    };
    stored(&folder.join("a.iopj"), &[1], |_| {});
    stored(&folder.join("b.iopj"), &[1], slower);
    let (code, json, _) = run(folder, "compare --json a.iopj b.iopj");
    assert_eq!(code, 0);
    let changes = serde_json::from_str::<Value>(&json).unwrap()["changes"].as_array().unwrap().len();
    assert!(changes >= 8, "a change for each metric of the two cells: {json}");
    for (line, expected) in [("a.iopj a.iopj", 0), ("a.iopj b.iopj", 1), ("b.iopj a.iopj", 0)] {
        let (code, text, _) = run(folder, &format!("compare {line} --fail-on-regression 5"));
        assert_eq!(code, expected, "{line}: {text}");
        assert!(!text.contains("NaN"));
    }
}

/// The gate exited with 0 for stores that it could not compare.
#[test]
fn nothing_compared_is_no_success() {
    let folder = &*folder();
    let ramp = |trials: &mut [Trial]| {
        trials.iter_mut().for_each(|trial| trial.workload.ramp_time = std::time::Duration::from_secs(5));
    };
    stored(&folder.join("a.iopj"), &[1, 4], |_| {});
    stored(&folder.join("b.iopj"), &[1, 4], ramp);
    for line in ["compare a.iopj b.iopj", "compare a.iopj b.iopj --fail-on-regression 5"] {
        let (code, text, messages) = run(folder, line);
        assert_eq!((code, messages.lines().count()), (2, 1), "{line}: {messages}");
        says(&messages, &["4 cells differ only in ramp_time (0s before, 5s after)", "`--ignore ramp_time`"]);
        says(&text, &["not compared, because of ramp_time (0s before, 5s after)"]);
    }
    let line = "compare a.iopj b.iopj --ignore ramp_time --fail-on-regression 5";
    let (code, text, _) = run(folder, line);
    assert_eq!(code, 0, "{text}");
    says(
        &text,
        &[
            "keys ignored when cells are matched: ramp_time",
            "gate of 5 %: nothing got worse; 4 cells compared, 0 not",
        ],
    );
    let (_, json, _) = run(folder, &format!("{line} --json"));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["gate"]["cells"], &json["ignored"][0]), (&4.into(), &"ramp_time".into()));
    let (code, out, messages) = run(folder, "compare a.iopj b.iopj --ignore ramp_time,speed");
    assert!(code == 2 && out.is_empty() && messages.contains("no cell has a `speed`"), "{messages}");
}

#[test]
fn sides_of_a_store_are_compared() {
    let folder = &*folder();
    stored(&folder.join("s.iopj"), &[1, 4], |_| {});
    let (code, json, _) =
        run(folder, "compare s.iopj --by path=io_uring/syscall/interrupt,libaio/syscall/interrupt --json");
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (code, &json["by"]["after"], &json["in_blocks"]),
        (0, &"libaio/syscall/interrupt".into(), &true.into())
    );
    let of_iops: Vec<&Value> =
        json["changes"].as_array().unwrap().iter().filter(|change| change["metric"] == "iops").collect();
    assert_eq!(of_iops.len(), 2, "a depth each");
    assert!(of_iops.iter().all(|change| change["before"]["n"] == 3 && change["p"].is_number()), "{json}");
    let slower = |change: &&&Value| change["outcome"] == "worse" && change["ratio"].as_f64().unwrap() < 0.7;
    assert_eq!(of_iops.iter().filter(slower).count(), 2, "libaio does two thirds of io_uring's I/Os: {json}");
    for (most, expected) in [(5, 1), (60, 0)] {
        let line = format!("compare s.iopj --by path={IO_URING},{LIBAIO} --fail-on-regression {most}");
        let (code, text, _) = run(folder, &line);
        assert_eq!(code, expected, "{line}: {text}");
    }
    let (_, text, _) = run(folder, "compare s.iopj --by iodepth");
    assert!(
        text.contains("before: iodepth 1, study") && text.contains("workload before: randread 4k iodepth 1"),
        "{text}"
    );
    for (line, part) in [
        ("compare s.iopj", "required arguments"),
        ("compare s.iopj s.iopj --by path", "cannot be used with"),
        (
            "compare s.iopj --by speed",
            "s.iopj: no trial has a `speed`: name what they differ in, one of path, iodepth",
        ),
        ("compare s.iopj --by numjobs", "all trials have numjobs 1"),
        ("compare s.iopj --by iodepth=1,2", "no trial has iodepth `2`: name two values of 1 and 4"),
        ("compare none.iopj --by path", "there is no store"),
    ] {
        let (code, out, messages) = run(folder, line);
        assert!(code == 2 && out.is_empty() && messages.contains(part), "{line}: {messages}");
    }
}

/// Marks a store as emulated, as the runner does under a translator.
fn emulate(path: &Path) {
    let store = Store::open(path).unwrap();
    let (study, trials) = (store.study().unwrap(), store.trials().unwrap());
    drop(store);
    std::fs::remove_file(path).unwrap();
    let study = StudyRecord { emulated: Some("QEMU TCG".to_owned()), ..study };
    let mut emulated = Store::create(path, &study).unwrap();
    trials.iter().for_each(|trial| emulated.add(trial).unwrap());
}

#[test]
fn an_unproven_path_competes_where_it_is_let_in_and_is_marked() {
    let folder = &*folder();
    stored(&folder.join("u.iopj"), &[1], |trials| judge(trials, IO_URING, VerdictKind::Unproven));
    let words = |line: &str| run(folder, line).1.split_whitespace().collect::<Vec<_>>().join(" ");
    let (without, with) =
        (words("winners u.iopj --metric iops"), words("winners u.iopj --metric iops --with-unproven"));
    assert!(!without.contains("† unproven: nothing shows"), "{without}");
    assert!(with.contains("† unproven: nothing shows which path these trials took"), "{with}");
}

/// The rows of a CSV, after RFC 4180.
fn rows(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut characters = text.chars().peekable();
    while let Some(one) = characters.next() {
        match one {
            '"' if quoted && characters.peek() == Some(&'"') => cell.push(characters.next().unwrap()),
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut cell)),
            '\r' if !quoted => {
                assert_eq!(characters.next(), Some('\n'));
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            one => cell.push(one),
        }
    }
    assert!(row.is_empty() && cell.is_empty() && !quoted, "the last line has no end: {text}");
    rows
}

/// The workload was one cell with a sentence.
#[test]
fn csv_has_a_column_for_each_key_and_nothing_but_rows() {
    let folder = &*folder();
    let odd = |trials: &mut [Trial]| {
        for trial in trials {
            trial.workload.cpus_allowed = vec![0, 1];
            trial.settings.insert("governor".into(), "a,\"b\"".into());
        }
    };
    stored(&folder.join("s.iopj"), &[1, 4], odd);
    for line in ["report s.iopj --csv", "export s.iopj --csv"] {
        let (code, csv, messages) = run(folder, line);
        assert_eq!((code, messages.as_str()), (0, ""));
        let rows = rows(&csv);
        assert!(rows.len() > 4 && rows.iter().all(|row| row.len() == rows[0].len()), "{csv}");
        let of = |name: &str| rows[1][rows[0].iter().position(|one| one == name).unwrap()].as_str();
        assert_eq!(["rw", "bs", "iodepth", "runtime_s"].map(of), ["randread", "4096", "1", "1"]);
        assert_eq!(
            (of("cpus_allowed"), of("settings").contains("governor=a,\"b\"")),
            ("0 1", true),
            "{line}"
        );
    }
}

#[test]
fn an_emulated_store_tells_no_time() {
    let folder = &*folder();
    stored(&folder.join("e.iopj"), &[1], |_| {});
    emulate(&folder.join("e.iopj"));
    let (code, text, _) = run(folder, "report e.iopj");
    assert_eq!(code, 0);
    assert!(text.starts_with("emulated by QEMU TCG: times mean nothing"), "{text}");
    assert!(
        text.contains("by mean latency, emulated, times not shown: ") && text.contains("slept/IO"),
        "{text}"
    );
    assert!(!text.contains("IOPS") && !text.contains("CPU %"), "{text}");
    for (line, part) in [
        (
            "winners e.iopj --metric iops",
            "`iops` is measured by a clock, and under QEMU TCG times mean nothing: name a count with \
             --metric",
        ),
        ("winners e.iopj --metric latency_p99", "e.iopj: `latency_p99`"),
        ("compare e.iopj e.iopj --fail-on-regression 1", "--fail-on-regression: study"),
    ] {
        let (code, out, messages) = run(folder, line);
        assert_eq!((code, out.as_str(), messages.lines().count()), (2, "", 1), "{line}: {messages}");
        assert!(messages.contains(part), "{line}: {messages}");
    }
    // Without a metric, one that the store has.
    let (code, map, _) = run(folder, "winners e.iopj");
    let which = "times mean nothing under QEMU TCG, so this compares context_switches_per_io; --metric names \
                 another count\n\ncontext switches (per I/O)";
    assert!(code == 0 && map.starts_with(which), "{map}");
    let (_, json, _) = run(folder, "winners e.iopj --json");
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["maps"][0]["metric"], "context_switches_per_io");
    let (code, text, _) = run(folder, "compare e.iopj e.iopj");
    assert!(code == 0 && text.contains("both stores were emulated by QEMU TCG"), "{text}");
    let (_, claims, _) = run(folder, "claims e.iopj --all");
    assert!(claims.contains("missing: emulated: times mean nothing"), "{claims}");
    let (_, csv, _) = run(folder, "export --csv e.iopj");
    let [names, cells, ..] = &rows(&csv)[..] else { panic!("no trial: {csv}") };
    let of = |name: &str| cells[names.iter().position(|one| one == name).unwrap()].as_str();
    assert_eq!((of("iops"), of("latency_ns_mean"), of("ios"), of("emulated")), ("", "", "2000", "QEMU TCG"));
    let (_, json, _) = run(folder, "export --json e.iopj");
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap()["study"]["emulated"], "QEMU TCG");
    let (code, ..) = run(folder, "report e.iopj --html e.html");
    let page = std::fs::read_to_string(folder.join("e.html")).unwrap();
    assert!(code == 0 && page.contains("class=\"banner\"") && !page.contains("Latency percentiles"));
}

/// Results of fio, as it wrote them.
fn seeds() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/fio")
}

#[test]
fn fios_results_are_imported() {
    let folder = &*folder();
    std::fs::copy(seeds().join("plus.json"), folder.join("out.json")).unwrap();
    let (code, text, messages) = run(folder, "import fio out.json --store f.iopj");
    assert_eq!(code, 0, "{messages}");
    assert!(text.contains("store: f.iopj"), "{text}");
    let (_, report, _) = run(folder, "report f.iopj");
    assert!(report.contains("libaio/syscall/interrupt (fio)") && report.contains("unproven"), "{report}");
    // Nothing of an import is verified: one line says that nothing is ranked, and how to rank it anyway.
    for line in ["report f.iopj", "winners f.iopj", "compare f.iopj f.iopj"] {
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let (_, text, _) = run(folder, line);
        assert!(
            words(&text).contains("no trial is verified. 1 of 1 trials are unproven: imported: no evidence"),
            "{text}"
        );
        let (_, text, _) = run(folder, &format!("{line} --with-unproven"));
        assert!(
            text.contains("libaio/syscall/interrupt") && words(&text).contains("† unproven: nothing shows"),
            "{text}"
        );
    }
    let (code, _, messages) = run(folder, "winners f.iopj --test blocks");
    assert!(code == 2 && messages.contains("imported trials have no blocks"), "{messages}");
    let (code, _, messages) = run(folder, "compare f.iopj f.iopj --fail-on-regression 1");
    assert!(code == 2 && messages.contains("no trial is verified"), "{messages}");
    std::fs::write(folder.join("cut.json"), &std::fs::read(folder.join("out.json")).unwrap()[..400]).unwrap();
    let (code, _, messages) = run(folder, "import fio cut.json --store g.iopj");
    assert_eq!((code, messages.lines().count()), (2, 1), "{messages}");
    assert!(messages.contains("cut.json") && !folder.join("g.iopj").exists(), "{messages}");
}

#[test]
fn the_seeds_of_the_fuzz_target_are_results_that_are_taken_in() {
    let folder = folder();
    // One trial per job of each file; jobs of a group are one.
    for (seed, trials) in [("plus", 1), ("jobs", 2), ("normal", 1)] {
        let file = seeds().join(format!("{seed}.json"));
        let (code, text, messages) =
            run(&folder, &format!("import fio {} --store {seed}.iopj", file.to_str().unwrap()));
        assert_eq!(code, 0, "{seed}: {messages}");
        let (_, csv, _) = run(&folder, &format!("export --csv {seed}.iopj"));
        assert_eq!(csv.lines().count() - 1, trials, "{seed}: {text}");
        let (code, _, messages) = run(&folder, &format!("winners {seed}.iopj --metric speed"));
        assert!(code == 2 && messages.contains("use one of iops, mb_per_s"), "{messages}");
    }
}

#[test]
fn wrong_questions_are_refused() {
    let folder = folder();
    for (line, part) in [
        ("winners none.iopj", "there is no store"),
        // A store's program may have named the metric.
        ("winners none.iopj --metric speed", "there is no store"),
        ("winners none.iopj --axes iodepth", "takes two names"),
        ("winners none.iopj --axes iodepth,iodepth", "cannot be both axes"),
        ("winners none.iopj --axes iodepth,depth", "use one of rw, bs, iodepth, numjobs"),
        ("winners none.iopj --test t", "use blocks, welch or student"),
        ("claims none.iopj", "there is no store"),
        ("compare none.iopj none.iopj", "there is no store"),
        ("import fio none.json", "none.json"),
    ] {
        let (code, _, messages) = run(&folder, line);
        assert_eq!(code, 2, "{line}");
        assert!(messages.contains(part) && messages.lines().count() == 1, "{line}: {messages}");
    }
}

/// The example of each command on the page.
fn examples() -> Vec<(String, Value)> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/json.md");
    let page = std::fs::read_to_string(page).unwrap();
    let example = |section: &str| {
        let (command, rest) = section.split_once("`\n").unwrap();
        let json = rest.split_once("```json\n").unwrap().1.split_once("```").unwrap().0;
        (command.to_owned(), serde_json::from_str(json).unwrap_or_else(|error| panic!("{command}: {error}")))
    };
    page.split("\n## `").skip(1).map(example).collect()
}

/// Keys that are there only if there is something to say.
const SOMETIMES: [&str; 5] = ["by", "energy", "ignored", "nobody", "costs"];

/// Where a printed value has other keys than its example, of which `{}`, `[]` and null are free.
fn unlike(example: &Value, printed: &Value, at: &str) -> Vec<String> {
    match (example, printed) {
        (Value::Object(known), Value::Object(keys)) if !known.is_empty() => {
            let sometimes = |key: &&String| SOMETIMES.contains(&key.as_str());
            let missing = known.keys().filter(|key| !keys.contains_key(*key) && !sometimes(key));
            let more = keys.keys().filter(|key| !known.contains_key(*key) && !sometimes(key));
            let names = missing.map(|key| format!("{at}.{key} is not printed"));
            let names = names.chain(more.map(|key| format!("{at}.{key} is not on the page")));
            let below = known.iter().filter_map(|(key, one)| Some((key, one, keys.get(key)?)));
            let below = below.flat_map(|(key, one, printed)| unlike(one, printed, &format!("{at}.{key}")));
            names.chain(below).collect()
        }
        (Value::Array(entries), Value::Array(printed)) if !entries.is_empty() => {
            let nearest = |one: &Value| {
                let of = entries.iter().map(|entry| unlike(entry, one, &format!("{at}[]")));
                of.min_by_key(Vec::len).unwrap()
            };
            printed.iter().flat_map(nearest).collect()
        }
        (Value::Null, _) | (_, Value::Null) => Vec::new(),
        (Value::Object(_) | Value::Array(_), _) if example.is_object() == printed.is_object() => Vec::new(),
        (example, printed) if example.is_object() || printed.is_object() => {
            vec![format!("{at} is no such value")]
        }
        _ => Vec::new(),
    }
}

/// A store of a path that chooses, beside two static ones.
fn chosen(path: &Path) {
    let text =
        "name = \"p\"\npaths = \"auto\"\nmeters = \"none\"\n[[workload]]\nrw = \"randread\"\n".to_owned();
    let mut store = Store::create(path, &StudyRecord { text, ..study("p") }).unwrap();
    let all = trials(&["auto", LIBAIO, IO_URING], &workloads(&[1, 4], &[1], &[4096]), 4);
    all.iter().for_each(|trial| store.add(trial).unwrap());
}

#[test]
fn the_page_on_json_has_the_keys_that_are_printed() {
    let folder = &*folder();
    stored(&folder.join("a.iopj"), &[1, 4], |_| {});
    stored(&folder.join("b.iopj"), &[1, 4], |trials| {
        trials.iter_mut().for_each(|trial| trial.workload.cpus_allowed = vec![0]);
    });
    chosen(&folder.join("p.iopj"));
    let meter = "name = \"m\"\npaths = \"available\"\n[[workload]]\n[meters.m]\nkind = \"command\"\n\
                 scope = \"system\"\ninterval = \"100ms\"\n\
                 command = [\"sh\", \"-c\", \"while echo 40; do sleep 0.1; done\"]\n";
    std::fs::write(folder.join("m.toml"), meter).unwrap();
    let fio = seeds().join("plus.json");
    let import = format!("import fio {} --store i.iopj --json", fio.display());
    for (command, arguments) in [
        ("check", "check --json"),
        ("run --dry-run", "run --dry-run --json --size 1m --path posix-sio/syscall/interrupt"),
        ("report", "report a.iopj --json"),
        ("winners", "winners a.iopj --json"),
        ("advise", "advise a.iopj --json"),
        ("predict", "predict a.iopj --path libaio,io_uring/syscall --json"),
        ("policy score", "policy score p.iopj --json"),
        ("claims", "claims a.iopj --json"),
        ("compare", "compare a.iopj b.iopj --ignore cpus_allowed --fail-on-regression 5 --json"),
        ("import fio", import.as_str()),
        ("meter list", "meter list --json"),
        ("meter test", "meter test m.toml --allow-exec --json"),
    ] {
        let (code, printed, messages) = run(folder, arguments);
        assert_eq!(code, 0, "{command}: {messages}");
        let title = format!("iopj {command} --json");
        let all = examples();
        let (_, example) = all.iter().find(|(name, _)| *name == title).expect(command);
        let unlike = unlike(example, &serde_json::from_str(&printed).unwrap(), command);
        assert!(unlike.is_empty(), "docs/json.md: {unlike:#?}");
    }
}

/// A rate for each workload: paths that take 40 us of CPU time per I/O, and 20.
fn with_rates(trials: &mut [Trial]) {
    for trial in trials {
        trial.workload.open = Some(iopj_core::OpenLoad::at(1000 * trial.workload.iodepth));
        let is_best = trial.path.to_string() == IO_URING;
        trial.workload.iodepth = 8;
        let Outcome::Measured(one) = &mut trial.outcome else { panic!("all are measured") };
        one.cpu_percent = one.iops() * if is_best { 20e-4 } else { 40e-4 };
        one.open = Some(iopj_record::OpenWindow::default());
    }
}

#[test]
fn advice_is_given_refused_and_turned_into_a_study() {
    let folder = &*folder();
    stored(&folder.join("open.iopj"), &[1, 4], with_rates);
    stored(&folder.join("closed.iopj"), &[1], |_| {});
    let (code, text, _) = run(folder, "advise open.iopj --rate 1k --p99 10ms");
    assert_eq!(code, 0, "{text}");
    says(
        &text,
        &["Take io_uring/syscall/interrupt with numjobs 1 and iodepth 8: 20.0 us of CPU time per I/O"],
    );
    let (code, json, _) = run(folder, "advise open.iopj --p99 10ms --json");
    let json: Value = serde_json::from_str(&json).unwrap();
    let answers = json["groups"][0]["answers"].as_array().unwrap();
    assert_eq!((code, answers.len(), &answers[1]["load"]["rate"]), (0, 2, &Value::from(4000)));
    assert!(answers.iter().all(|one| one["way"]["path"] == IO_URING && one["decision"] == "wins"), "{json}");
    let (code, text, _) = run(folder, "advise open.iopj --rate 1k --p99 1us");
    assert_eq!(code, 1);
    says(&text, &["No way meets the bound (p99 within 1.00 us)"]);
    for (line, part) in [
        ("open.iopj --objective ios_per_joule", "no competing trial measured energy"),
        ("open.iopj --objective speed", "`speed` is not an objective"),
        ("open.iopj --rate 40k", "the store has rates from 1000 to 4000, and nothing is extrapolated"),
        ("open.iopj --rate 0", "`0` is not a rate"),
        ("open.iopj --p99 soon", "--p99: "),
        ("open.iopj --p99 0s", "no I/O takes 0s"),
        ("open.iopj --price=-1", "-1 is no price"),
        ("closed.iopj --rate 40k", "every trial of this store is a closed loop"),
    ] {
        let (code, _, messages) = run(folder, &format!("advise {line}"));
        assert_eq!((code, messages.lines().count()), (2, 1), "{line}: {messages}");
        says(&messages, &[part]);
    }
    let (code, _, messages) = run(folder, "advise closed.iopj --rate 40k --write-study next.toml");
    assert_eq!(code, 2, "{messages}");
    let (code, plan, _) = run(folder, "run next.toml --dry-run");
    assert_eq!(code, 0, "{plan}");
    says(&plan, &["cells     2"]);
    says(&std::fs::read_to_string(folder.join("next.toml")).unwrap(), &["rate_iops = [40000]"]);
    let (_, _, messages) = run(folder, "advise open.iopj --write-study next.toml");
    says(&messages, &["next.toml cannot be written: name a file that does not exist"]);
    let (code, _, messages) = run(folder, "report open.iopj --p99 1ms");
    assert_eq!(code, 2);
    says(&messages, &["--p99 is for the page's advice: add --html FILE"]);
    let (code, ..) = run(folder, "report open.iopj --p99 1ms --html open.html");
    let page = std::fs::read_to_string(folder.join("open.html")).unwrap();
    assert!(code == 0 && page.contains("p99-latency-over-load") && page.contains("class=\"limit\""));
}
