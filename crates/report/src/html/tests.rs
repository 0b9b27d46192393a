//! The page as a whole: every datum is a mark, no foreign text becomes markup, and nothing absent becomes a
//! number.

mod advice;
mod watch;

use super::figure::Figure;
use super::sections::sections;
use super::{SCRIPT, SCRIPT_SHA256, figures, page};
use crate::html::model::Model;
use iopj_analysis::Admission;
use iopj_analysis::power::{PowerTrace, windows};
use iopj_core::{CostSource, EnergyOutcome, PowerReading, Scope, VerdictKind};
use iopj_record::testing::cells::measurement_of;
use iopj_record::testing::costs::{function, set_exact, user};
use iopj_record::testing::energy::give;
use iopj_record::testing::pages::{judge, measurement, study, trials, workloads};
use iopj_record::{Outcome, StudyRecord, Trial};
use std::collections::{BTreeMap, BTreeSet};

const PATHS: [&str; 4] = [
    "posix-sio/syscall/interrupt",
    "libaio/syscall/interrupt",
    "io_uring/syscall/interrupt",
    "io_uring/sqpoll/poll",
];

fn all_figures(trials: &[Trial]) -> Vec<Figure> {
    figures_of(&study("s"), trials)
}

fn figures_of(study: &StudyRecord, trials: &[Trial]) -> Vec<Figure> {
    sections(&Model::new(study, trials, Admission::default()), &[])
        .into_iter()
        .flat_map(|one| one.groups)
        .flat_map(|group| group.figures)
        .collect()
}

/// Vertical strokes of all error bars.
fn error_bars(svg: &str) -> usize {
    svg.split("class=\"error\" d=\"")
        .skip(1)
        .map(|path| path.split('"').next().unwrap().matches('V').count())
        .sum()
}

fn marks(svg: &str) -> usize {
    svg.matches("class=\"mark").count()
}

#[test]
fn every_datum_is_a_mark_and_every_interval_an_error_bar() {
    let mut trials = trials(&PATHS, &workloads(&[1, 4, 16], &[1, 2], &[4096]), 3);
    judge(&mut trials, "io_uring/sqpoll/poll", VerdictKind::Refuted);
    let figures = all_figures(&trials);
    // Two runs over depth and three over threads of four metrics; five maps; six workloads with percentiles,
    // distribution and latency against cost; verdicts, time.
    assert_eq!(figures.len(), 2 * 4 + 3 * 4 + 5 + 3 * 6 + 1 + 1);
    for figure in &figures {
        let expected = match &figure.id {
            id if id == "verdicts-by-path" => 4,
            id if id == "iops-over-time" => 3 * 6 * 3,
            id if id.starts_with("latency-") => 3,
            id if id.contains("over-iodepth") => 3 * 3,
            id if id.contains("over-numjobs") => 3 * 2,
            _ => 6,
        };
        assert_eq!(marks(&figure.drawing.svg()), expected, "{}", figure.id);
        let errors = if figure.id.contains("-over-iodepth") || figure.id.contains("-over-numjobs") {
            expected
        } else {
            0
        };
        assert_eq!(error_bars(&figure.drawing.svg()), errors, "{}", figure.id);
        assert!(figure.rows.iter().all(|row| row.len() == figure.columns.len()), "{}", figure.id);
        let refuted = figure.rows.iter().any(|row| row.contains(&"io_uring/sqpoll/poll".to_owned()));
        assert_eq!(refuted, figure.id == "verdicts-by-path", "{}", figure.id);
    }
    let page = page(&study("s"), &trials, &[], Admission::default());
    assert_eq!(marks(&page), figures.iter().map(|figure| marks(&figure.drawing.svg())).sum::<usize>());
    assert!(page.contains("18 trials refuted") && page.contains("18 trials are left out"));
}

#[test]
fn one_replicate_has_no_winner_and_no_error_bars() {
    let page =
        page(&study("s"), &trials(&PATHS, &workloads(&[1], &[1], &[4096]), 1), &[], Admission::default());
    assert!(page.contains(
        "Undecided between io_uring sqpoll/poll, io_uring, libaio and posix-sio: single replicates cannot be \
         tested"
    ));
    assert!(page.contains("One replicate per cell: there are no error bars"));
    assert!(!page.contains("class=\"whisker\"") && !page.contains("class=\"error\""));
    assert!(page.contains("Mean latency</figcaption>") && page.contains("class=\"mark bar\""));
}

#[test]
fn foreign_texts_are_texts() {
    let evil = "<img src=x onerror=alert(1)>\"'&</script></pre>";
    let mut trials = trials(&PATHS, &workloads(&[1, 4], &[1], &[4096]), 2);
    for trial in &mut trials {
        trial.settings.insert(evil.to_owned(), format!("{evil}{}", trial.replicate));
    }
    trials[0].outcome = Outcome::Failed(evil.to_owned());
    judge(&mut trials, PATHS[1], VerdictKind::Refuted);
    measurement_of(&mut trials[1]).verdict.reasons = vec![evil.to_owned()];
    let page = page(&study(evil), &trials, &[], Admission::default());
    assert!(!page.contains("<img") && !page.contains("onerror=alert(1)>"));
    assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;"));
    assert_eq!(page.matches("</script>").count(), 1);
    for (name, svg) in figures(&study("s"), &trials, &[], Admission::default()).svg() {
        assert!(!svg.contains("<img"), "{name}");
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)), "{name}");
    }
}

#[test]
fn what_is_absent_is_a_sentence_and_never_a_number() {
    let whole = trials(&PATHS, &workloads(&[1, 4], &[1, 2], &[4096, 8192]), 1);
    let with = |outcome: &dyn Fn() -> Outcome| {
        let mut trials = whole.clone();
        trials.iter_mut().for_each(|trial| trial.outcome = outcome());
        trials
    };
    let nothing = || {
        let mut measurement = measurement(0, VerdictKind::Verified);
        (measurement.window_ns, measurement.series) = (0, Vec::new());
        measurement.into()
    };
    for (what, trials, words) in [
        ("no trial", Vec::new(), "This store holds no trial"),
        ("one trial", whole[..1].to_vec(), "Only posix-sio competes: 2,000 IOPS"),
        ("one replicate", whole.clone(), "there are no error bars"),
        ("all refuted", with(&|| measurement(9, VerdictKind::Refuted).into()), "No trial is valid"),
        ("all failed", with(&|| Outcome::Failed("EIO".to_owned())), "No trial is valid"),
        ("no I/O", with(&nothing), "No trial is valid"),
    ] {
        let page = page(&study("s"), &trials, &[], Admission::default());
        assert!(page.contains(words), "{what}: no `{words}`");
        assert!(!page.contains("NaN") && !page.contains("inf"), "{what}");
        assert!(page.contains("no meter took part"), "{what}");
        for (name, svg) in figures(&study("s"), &trials, &[], Admission::default()).svg() {
            assert!(marks(&svg) > 0, "{what}: {name} is empty");
        }
    }
}

fn a_thousand_stay_below(iodepths: &[u32], replicates: u32) {
    let paths: Vec<String> = iopj_core::IoPath::all().iter().map(ToString::to_string).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).take(10).collect();
    let all = trials(&paths, &workloads(iodepths, &[1, 2, 4, 8], &[4096, 16384, 131_072]), replicates);
    let page = page(&study("s"), &all[..1000], &[], Admission::default());
    assert!(page.len() < 4_200_000, "{replicates} replicates: {} bytes", page.len());
}

#[test]
fn a_thousand_trials_stay_below_4_2_megabytes() {
    a_thousand_stay_below(&[1, 2, 4, 8, 16, 24, 32, 48, 64], 1);
}

#[test]
#[ignore = "a soak: cargo xtask soak"]
fn soak_a_thousand_trials_of_every_shape_stay_below_4_2_megabytes() {
    a_thousand_stay_below(&[1, 2, 4, 8, 16, 31], 3);
    let two_hundred =
        workloads(&[1, 2, 4, 6, 8, 12, 16, 24, 31, 32], &[1, 2, 4, 8, 16], &[512, 4096, 16384, 131_072]);
    let paths: Vec<String> = iopj_core::IoPath::all().iter().map(ToString::to_string).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).take(5).collect();
    let all = trials(&paths, &two_hundred, 1);
    let page = page(&study("s"), &all, &[], Admission::default());
    assert!(all.len() >= 800 && page.len() < 4_200_000, "{} trials: {} bytes", all.len(), page.len());
}

#[test]
fn files_of_figures_stand_alone_under_names_of_their_own() {
    let files = figures(
        &study("s"),
        &trials(&PATHS, &workloads(&[1, 4], &[1, 2], &[4096]), 2),
        &[],
        Admission::default(),
    )
    .svg();
    let names: BTreeSet<&String> = files.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), files.len());
    for (name, svg) in &files {
        assert!(
            svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\"") && svg.ends_with("</svg>"),
            "{name}"
        );
        assert!(svg.contains("<style>") && !svg.contains("var("), "{name}");
    }
}

#[test]
fn series_of_several_settings_and_generators_keep_apart() {
    let mut all = trials(&PATHS[..1], &workloads(&[1, 4], &[1], &[4096]), 2);
    let mut second = all.clone();
    for trial in &mut second {
        trial.settings.insert("scheduler".to_owned(), "none".to_owned());
    }
    all.extend(second);
    let study = study("s");
    let model = Model::new(&study, &all, Admission::default());
    let names: Vec<&str> = model.series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names, ["posix-sio/syscall/interrupt", "posix-sio/syscall/interrupt scheduler=none"]);
    let ids: BTreeSet<String> = all_figures(&all).into_iter().map(|figure| figure.id).collect();
    assert!(ids.contains("least-mean-latency-randread-4k-scheduler-none"), "{ids:?}");
}

#[test]
fn the_policy_names_this_script() {
    let digest = sha256(SCRIPT.as_bytes());
    assert_eq!(SCRIPT_SHA256, base64(&digest), "the script has changed: give its new hash");
}

/// A study whose times mean nothing.
fn emulated() -> StudyRecord {
    StudyRecord { emulated: Some("QEMU <TCG>".to_owned()), ..study("s") }
}

/// Gives every trial an exact profile of 100 I/Os: ten directories, one function without a directory, and
/// user space.
fn profile(trials: &mut [Trial]) {
    for trial in trials {
        let one = measurement_of(trial);
        let mut functions: Vec<_> =
            (1..=10).map(|n| function("f", &format!("dir{n}/"), [n * 100_000, 50, 20])).collect();
        functions.extend([function("who", "", [7_000, 1, 1]), user([41_000, 10, 10])]);
        set_exact(one, 100, functions);
    }
}

#[test]
fn an_emulated_page_shows_counts_and_no_time() {
    let mut trials = trials(&PATHS, &workloads(&[1, 4], &[1], &[4096]), 3);
    profile(&mut trials);
    let study = emulated();
    let page = page(&study, &trials, &[], Admission::default());
    assert!(
        page.contains("<p class=\"banner\" role=\"note\">Emulated by QEMU &lt;TCG&gt;: times mean nothing"),
        "no banner"
    );
    for time in ["IOPS", "Mean latency", "Latency percentiles", "CPU use, %", "\u{b5}s", "Over time"] {
        let figures = &page[page.find("<main").unwrap()..page.find("<section id=\"claims\"").unwrap()];
        assert!(!figures.contains(time), "`{time}` is shown");
    }
    assert!(
        page.contains("by mean latency, emulated, times not shown: posix-sio/syscall/interrupt &lt; libaio"),
        "{page}"
    );
    let ids: Vec<String> = figures_of(&study, &trials).into_iter().map(|figure| figure.id).collect();
    let expected = [
        "verdicts-by-path",
        "fewest-context-switches-per-i-o-randread-4k",
        "fewest-instructions-per-i-o-randread-4k",
        "context-switches-over-iodepth-randread-4k-numjobs-1",
        "instructions-over-iodepth-randread-4k-numjobs-1",
        "kernel-instructions-over-iodepth-randread-4k-numjobs-1",
        "loads-over-iodepth-randread-4k-numjobs-1",
        "stores-over-iodepth-randread-4k-numjobs-1",
        "instructions-per-i-o-by-kernel-directory-randread-4k-iodepth-1-numjobs-1",
        "instructions-per-i-o-by-kernel-directory-randread-4k-iodepth-4-numjobs-1",
    ];
    assert_eq!(ids, expected);
}

#[test]
fn counts_have_winner_maps_where_the_store_has_them() {
    let mut trials = trials(&PATHS[..2], &workloads(&[1, 4], &[1], &[4096]), 3);
    profile(&mut trials);
    for trial in &mut trials {
        let second = trial.path.to_string() == PATHS[1];
        let calls = (trial.workload.iodepth == 1).then_some(if second { 2.0 } else { 1.0 });
        let one = measurement_of(trial);
        one.context_switches_per_io = if second { 0.0 } else { 1.0 };
        one.system_calls_per_io = calls;
        if second {
            set_exact(one, 100, vec![user([10_000, 1, 1])]);
        }
    }
    let figures = figures_of(&emulated(), &trials);
    let map = |id: &str| figures.iter().find(|figure| figure.id.starts_with(id)).map(|figure| &figure.rows);
    let row = |cells: [&str; 8], ratio: &str| {
        let [x, y, best, rest @ .., p, decision] = cells;
        let effect = [ratio, ratio, ratio, "0", p];
        [x, y, best, decision]
            .iter()
            .chain(&rest)
            .chain(&effect)
            .map(|cell| (*cell).to_owned())
            .collect::<Vec<_>>()
    };
    let won = |iodepth, [mean, next, ratio]: [&str; 3]| {
        row([iodepth, "1", PATHS[1], mean, PATHS[0], next, "0", "wins"], ratio)
    };
    assert_eq!(
        map("fewest-context-switches").unwrap(),
        &[won("1", ["0", "1", "0"]), won("4", ["0", "1", "0"])]
    );
    assert_eq!(
        map("fewest-instructions").unwrap(),
        &[won("1", ["100", "55480", "0.00180245"]), won("4", ["100", "55480", "0.00180245"])]
    );
    // Measured at one depth only; interrupts at none.
    assert_eq!(
        map("fewest-system-calls").unwrap(),
        &[row(["1", "1", PATHS[0], "1", PATHS[1], "2", "0", "wins"], "0.5")]
    );
    assert!(map("fewest-interrupts").is_none() && map("least-mean-latency").is_none());
    let page = page(&emulated(), &trials, &[], Admission::default());
    assert!(page.contains(">next 1.00</text>") && page.contains(">next 555\u{d7}</text>"), "{page}");
    assert!(
        page.contains("0 trials are left out"),
        "what lacks a count is not refuted, failed or incomplete"
    );
}

#[test]
fn costs_by_directory_are_stacked_with_all_of_them_in_the_table() {
    let mut trials = trials(&PATHS[..2], &workloads(&[1], &[1], &[4096]), 2);
    assert!(
        page(&study("s"), &trials, &[], Admission::default()).contains("this store holds no kernel profile")
    );
    profile(&mut trials);
    let page = page(&study("s"), &trials, &[], Admission::default());
    assert!(!page.contains("this store holds no kernel profile") && page.contains("id=\"costs\""));
    let figures = all_figures(&trials);
    let figure = figures.iter().find(|figure| figure.id.contains("by-kernel-directory")).unwrap();
    // The eight costliest directories, the other two together, unknown functions, and user space.
    assert_eq!(marks(&figure.drawing.svg()), 2 * 11);
    assert!(
        figure.drawing.svg().contains("part d0")
            && figure.drawing.svg().contains(">dir10/<")
            && !figure.drawing.svg().contains(">dir2/<")
    );
    assert_eq!(figure.columns[3..5], ["dir10/", "dir9/"]);
    assert_eq!(figure.columns[13..], ["unknown", "user space", "total"]);
    let row = &figure.rows[0];
    assert_eq!((row[0].as_str(), &row[1..4]), (PATHS[0], &["2", "2", "10000"].map(str::to_owned)[..]));
    assert_eq!(row[12..], ["1000", "70", "410", "55480"]);
    // A store that is not emulated keeps its times.
    assert!(figures.iter().any(|figure| figure.id.starts_with("mean-latency-by-path")));
    assert!(figures.iter().any(|figure| figure.id.starts_with("instructions-by-path")));
    trials.iter_mut().for_each(|trial| {
        measurement_of(trial).costs.as_mut().unwrap().source =
            CostSource::Sampled(vec!["instructions".to_owned()])
    });
    assert!(
        super::page(&study("s"), &trials, &[], Admission::default())
            .contains("samples by their period, not exact")
    );
}

fn sha256(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let mut child = Command::new("sha256sum")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("coreutils' sha256sum");
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    let text = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    (0..64).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits =
            three.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for digit in 0..4 {
            let value = bits >> (18 - 6 * digit) & 63;
            text.push(if digit > three.len() { '=' } else { DIGITS[value as usize] as char });
        }
    }
    text
}

/// A store with 40 W and more at the plug by path, and its power over time.
fn metered(replicates: u32) -> (Vec<Trial>, Vec<PowerTrace>) {
    let mut trials = trials(&PATHS, &workloads(&[1, 4, 16], &[1, 2], &[4096]), replicates);
    for trial in &mut trials {
        let rank = PATHS.iter().position(|path| *path == trial.path.to_string()).unwrap() as f64;
        give(trial, "plug <1>", Scope::System, 2.0 * (40.0 + 10.0 * rank + 0.1 * f64::from(trial.replicate)));
        let begin_ns = 1_000_000_000 * (2 + 3 * trial.position);
        measurement_of(trial).window_raw_ns = Some([begin_ns, begin_ns + 2_000_000_000]);
    }
    let reading = |at: u64| PowerReading { at_ns: 500_000_000 * at, watts: 40.0 + (at % 7) as f64 };
    let readings = (0..6 * trials.len() as u64 + 8).map(reading).collect();
    let channel = "plug <1>".to_owned();
    let trace = PowerTrace { channel, scope: Scope::System, readings, windows: windows(&trials) };
    (trials, vec![trace])
}

#[test]
fn energy_has_lines_maps_words_and_power_over_time() {
    let (trials, power) = metered(3);
    let study = study("s");
    let page = page(&study, &trials, &power, Admission::default());
    assert!(
        !page.contains("no meter took part")
            && !page.contains("plug <1>")
            && page.contains("system by plug &lt;1&gt;")
    );
    // The last path does 5/4 of the next one's I/Os for 70 W instead of 60.
    let answer = "By energy (system by plug &lt;1&gt;) io_uring sqpoll/poll wins: 7";
    let begin = page.find("<h2>Decision").unwrap();
    assert!(page[begin..].contains("<h3>randread 4k iodepth 4 and 16 numjobs 1 and 2</h3>"));
    assert!(page[begin..].contains(answer), "{}", &page[begin..][..2000]);
    assert!(page.contains("Most I/Os per joule (system by plug &lt;1&gt;)"));
    let figures: BTreeMap<String, String> =
        figures(&study, &trials, &power, Admission::default()).svg().into_iter().collect();
    for (name, count) in [
        ("power-over-iodepth-randread-4k-numjobs-1.svg", 4 * 3),
        ("i-os-per-joule-over-numjobs-randread-4k-iodepth-16.svg", 4 * 2),
        ("most-i-os-per-joule-system-by-plug-1-randread-4k.svg", 6),
        // The curve and a stroke for each of 4 paths, 6 workloads and 3 replicates.
        ("power-over-time-plug-1-system.svg", 1 + 4 * 6 * 3),
    ] {
        let svg = figures.get(name).unwrap_or_else(|| panic!("{name} is not among {:?}", figures.keys()));
        assert_eq!(marks(svg), count, "{name}");
    }
    assert_eq!(error_bars(&figures["power-over-iodepth-randread-4k-numjobs-1.svg"]), 12);
    // Without readings the rest remains, and the page says what is missing.
    let without = super::page(&study, &trials, &[], Admission::default());
    assert!(
        without.contains("this store holds no readings of a meter") && !without.contains("power-over-time")
    );
}

#[test]
fn the_table_behind_the_power_holds_each_trial() {
    let (trials, power) = metered(1);
    let study = study("s");
    let figures: Vec<Figure> = sections(&Model::new(&study, &trials, Admission::default()), &power)
        .into_iter()
        .flat_map(|one| one.groups)
        .flat_map(|group| group.figures)
        .collect();
    let figure = figures.iter().find(|figure| figure.id.starts_with("power-over-time")).unwrap();
    assert_eq!(figure.rows.len(), 1 + 24);
    // From 2 to 4 s there are five readings, the fourth to the eighth: 44, 45, 46, 40 and 41 W.
    assert_eq!(figure.rows[1][1..], ["2", "4", "5", "43.2", "40", "46"].map(str::to_owned));
    let many = |count: u64| PowerTrace {
        readings: (0..count)
            .map(|at| PowerReading { at_ns: at, watts: if at == 77_777 { 900.0 } else { 40.0 } })
            .collect(),
        windows: Vec::new(),
        ..power[0].clone()
    };
    let svg =
        &super::figures(&study, &trials, &[many(1_000_000)], Admission::default()).svg().pop().unwrap().1;
    assert!(svg.len() < 60_000 && marks(svg) == 1, "{} bytes", svg.len());
    assert!(svg.contains(">800<"), "the one peak of a million readings is drawn");
    assert!(
        super::figures(&study, &trials, &[many(0)], Admission::default())
            .svg()
            .iter()
            .all(|(name, _)| !name.starts_with("power-over-time"))
    );
}

#[test]
fn trials_without_energy_are_named_on_the_page() {
    let (mut trials, _) = metered(2);
    trials[..3].iter_mut().for_each(|trial| {
        measurement_of(trial).energy[0].outcome = EnergyOutcome::Incomplete("gap of <7> s".to_owned())
    });
    let page = page(&study("s"), &trials, &[], Admission::default());
    assert!(
        page.contains("<h3>Energy incomplete</h3>") && page.contains(" trials: gap of &lt;7&gt; s."),
        "{page}"
    );
    assert!(page.contains("Energy of 3 trials is incomplete and not in its maps."));
}
