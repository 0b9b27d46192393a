//! Pages of constructed trials in headless Chromium: every figure drawn with all its marks, nothing on the
//! console, everything reachable by keys, and a sentence where something is missing.

use iopj_analysis::Admission;
use iopj_analysis::power::{PowerTrace, windows};
use iopj_core::evidence::SteadyState;
use iopj_core::{EnergyOutcome, Joules, PowerReading, Scope, TrialEnergy, VerdictKind};
use iopj_harness::browser::devtools::{Browser, chromium, fonts};
use iopj_record::testing::pages::{judge, measurement, study, trials, workloads};
use iopj_record::testing::watched::watch;
use iopj_record::{Outcome, StudyRecord, Trial};
use iopj_report::html;
use serde_json::Value;
use std::path::{Path, PathBuf};

const EVIL: &str = "<img src=x onerror=alert(1)>";

const PATHS: [&str; 4] = [
    "posix-sio/syscall/interrupt",
    "libaio/syscall/interrupt",
    "io_uring/syscall/interrupt",
    "io_uring/sqpoll/poll",
];

/// Looks at a page in a set of fonts, dark only in the first: colours are the same in all.
#[track_caller]
fn looks_in(fonts: usize, browser: &mut Browser, page: &Path) -> Value {
    if fonts == 0 {
        iopj_harness::browser::reader::looks(browser, page)
    } else {
        iopj_harness::browser::reader::looks_in_light(browser, page)
    }
}

/// A page in a temporary folder of its own.
fn written(page: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("page.html");
    std::fs::write(&file, page).expect("a file in the temporary folder");
    (folder, file)
}

fn sample() -> Vec<Trial> {
    let mut all = trials(&PATHS, &workloads(&[1, 4, 16, 32], &[1, 2], &[4096, 16384]), 3);
    all.extend(trials(&PATHS[1..], &workloads(&[8], &[3], &[512]), 1));
    judge(&mut all, "io_uring/sqpoll/poll", VerdictKind::Refuted);
    judge(&mut all, "libaio/syscall/interrupt", VerdictKind::Unproven);
    for trial in &mut all {
        trial.settings.insert("scheduler".to_owned(), format!("{EVIL}{}", trial.workload.bs));
        // Without these the maps have other winners.
        if trial.workload.iodepth == 4 && trial.path.to_string() == PATHS[0] {
            trial.outcome.measurement_mut().unwrap().evidence.steadystate = Some(unsettled());
        }
    }
    all
}

/// A ramp that was not steady at its longest.
fn unsettled() -> SteadyState {
    let (ramp_ns, duration_ns, limit, attained) = (1, 1, 0.1, false);
    SteadyState { ramp_ns, duration_ns, limit, change: Some(1.0), noise: None, over_ns: None, attained }
}

/// Every figure of the study is on the page.
#[track_caller]
fn holds_all_figures(seen: &Value, study: &StudyRecord, trials: &[Trial], power: &[PowerTrace]) {
    holds(seen, &html::figures(study, trials, power, Admission::default()));
}

/// The page has these figures, with as many marks as their own files have.
#[track_caller]
fn holds(seen: &Value, figures: &html::Figures) {
    let files = figures.svg();
    let figures = seen["figures"].as_array().expect("figures");
    let seen: Vec<(String, usize)> = figures
        .iter()
        .map(|one| (format!("{}.svg", one["id"].as_str().unwrap()), one["marks"].as_u64().unwrap() as usize))
        .collect();
    let expected: Vec<(String, usize)> =
        files.into_iter().map(|(file, svg)| (file, svg.matches("class=\"mark").count())).collect();
    assert_eq!(seen, expected);
}

#[test]
fn errors_on_the_console_would_be_seen() {
    let Some(program) = chromium() else { return };
    let mut browser = Browser::start(program);
    let policy = "<meta http-equiv=\"Content-Security-Policy\" content=\"img-src 'none'\">";
    for (script, word) in [
        ("<script>throw new Error('seen')</script>", "seen"),
        ("<script>console.error('heard')</script>", "heard"),
        ("<img src=\"x.png\">", "Content Security Policy"),
    ] {
        let (_folder, page) = written(&format!("<!DOCTYPE html>{policy}<title>x</title>{script}"));
        browser.open(&page, (1400, 1000), false);
        let logged = browser.logged();
        assert!(logged.iter().any(|line| line.contains(word)), "{word}: {logged:?}");
    }
}

#[test]
fn texts_that_touch_and_numbers_that_are_none_would_be_seen() {
    let Some(program) = chromium() else { return };
    let mut browser = Browser::start(program);
    let text = |x: u32, word: &str| format!("<text x=\"{x}\" y=\"40\">{word}</text>");
    let figure = |texts: &str| {
        format!(
            "<!DOCTYPE html><title>x</title><body><figure id=\"f\"><svg viewBox=\"0 0 440 80\">{texts}<path \
             class=\"mark\" d=\"M10 90H20\"/></svg></figure>"
        )
    };
    let (_folder, page) =
        written(&figure(&format!("{}{}{}", text(10, "one"), text(20, "two"), text(430, "cut"))));
    browser.open(&page, (1400, 1000), false);
    let seen = browser.value(iopj_harness::browser::PROBE);
    let figure = iopj_harness::browser::reader::figure(&seen, "f");
    assert_eq!(
        (&figure["overlaps"], &figure["cut"]),
        (&serde_json::json!(["one | two"]), &serde_json::json!(["cut"]))
    );
    assert_eq!((&figure["marks"], &figure["drawn"]), (&1.into(), &0.into()), "it lies below the figure");
    let (_folder, page) = written("<!DOCTYPE html><title>x</title><p>a mean of NaN</p>");
    browser.open(&page, (400, 800), false);
    let said = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        iopj_harness::browser::reader::says_no_such_number(&mut browser, "")
    }));
    assert!(said.is_err());
}

#[test]
fn a_set_of_fonts_is_the_only_one_that_the_page_sees() {
    let Some(program) = chromium() else { return };
    let (_folder, page) = written(&html::page(
        &study("s"),
        &trials(&PATHS, &workloads(&[1, 4], &[1], &[4096]), 2),
        &[],
        Admission::default(),
    ));
    for fonts in fonts() {
        let mut browser = Browser::with(fonts, program);
        browser.open(&page, (1400, 1000), false);
        for part in ["h1", ".figure text", "pre"] {
            let families = browser.families(part);
            let is_alone =
                !families.is_empty() && families.iter().all(|family| family.starts_with(fonts.family));
            assert!(is_alone, "{}: {part} in {families:?}", fonts.family);
        }
    }
}

#[test]
fn every_figure_is_drawn_and_foreign_names_are_text() {
    let Some(program) = chromium() else { return };
    let (study, trials) = (study(EVIL), sample());
    let (_folder, page) = written(&html::page(&study, &trials, &[], Admission::default()));
    iopj_harness::browser::reader::is_valid(&page);
    for (index, fonts) in fonts().enumerate() {
        let mut browser = Browser::with(fonts, program);
        let seen = looks_in(index, &mut browser, &page);
        holds_all_figures(&seen, &study, &trials, &[]);
        assert_eq!(seen["verdictColours"], 3, "verified, unproven and refuted");
        let stars = "[...document.querySelectorAll('.star')].map((one) => one.textContent).join('')";
        assert_eq!(browser.text(stars), "*".repeat(20), "four cells in each of five maps");
        assert_eq!(browser.text("document.querySelector('h1').textContent"), EVIL);
        assert_eq!(browser.text("document.querySelector('.place code').textContent"), EVIL);
        let named = format!(
            "[...document.querySelectorAll('.key code')].every((one) => one.textContent.includes({EVIL:?}))"
        );
        assert!(browser.value(&named) == true);
        iopj_harness::browser::reader::scrolls(&mut browser, &page, "figure.wide .plot");
        let hidden = "[...document.querySelectorAll('#summary td')].filter((one) => \
                      one.getBoundingClientRect().right > innerWidth).length";
        assert_eq!(browser.value(hidden), 0, "a narrow window shows every column of the summary");
    }
}

#[test]
fn all_of_the_page_is_reached_by_keys_and_downloaded() {
    let Some(program) = chromium() else { return };
    let mut trials = trials(&PATHS[..3], &workloads(&[1, 4], &[1, 2], &[4096]), 3);
    trials
        .iter_mut()
        .for_each(|trial| drop(trial.settings.insert("scheduler".to_owned(), "\"a\",\r\nb".to_owned())));
    trials[0].settings.clear();
    let (_folder, page) = written(&html::page(&study(EVIL), &trials, &[], Admission::default()));
    let mut browser = Browser::start(program);
    iopj_harness::browser::reader::walks(&mut browser, &page);
    let files = iopj_harness::browser::reader::downloads(&mut browser, &page);
    assert_eq!(files, 2 * html::figures(&study(EVIL), &trials, &[], Admission::default()).svg().len());
}

/// The sample with the energy of a meter with a hostile name, and its readings.
fn metered() -> (Vec<Trial>, Vec<PowerTrace>) {
    let mut trials = sample();
    for (place, trial) in trials.iter_mut().enumerate() {
        let Outcome::Measured(one) = &mut trial.outcome else { panic!("all are measured") };
        let begin_ns = 3_000_000_000 * place as u64;
        one.window_raw_ns = Some([begin_ns, begin_ns + 1_000_000_000]);
        let joules = 45.0 + (place % 11) as f64;
        let complete = Joules {
            seconds: 1.0,
            joules,
            random_j: 0.5,
            random_interval: [joules - 1.0, joules + 1.0],
            interval: Some([joules - 2.0, joules + 2.0]),
            ..Joules::default()
        };
        one.energy = vec![TrialEnergy {
            meter: EVIL.to_owned(),
            scope: Scope::System,
            channels: vec![EVIL.to_owned()],
            estimated: false,
            rules: 1,
            outcome: EnergyOutcome::Complete(complete),
        }];
    }
    let reading =
        |second: u64| PowerReading { at_ns: 1_000_000_000 * second, watts: 45.0 + (second % 13) as f64 };
    let trace = PowerTrace {
        channel: EVIL.to_owned(),
        scope: Scope::System,
        readings: (0..3 * trials.len() as u64).map(reading).collect(),
        windows: windows(&trials),
    };
    (trials, vec![trace])
}

#[test]
fn energy_power_and_a_watched_program_are_drawn_over_time() {
    let Some(program) = chromium() else { return };
    let (trials, power) = metered();
    let study = study(EVIL);
    assert!(
        html::figures(&study, &trials, &power, Admission::default()).svg().len()
            > html::figures(&study, &sample(), &[], Admission::default()).svg().len() + 3
    );
    let (_folder, page) = written(&html::page(&study, &trials, &power, Admission::default()));
    iopj_harness::browser::reader::is_valid(&page);
    let watched = watch(EVIL, 40);
    let (_second, over_time) = written(&html::watch_page(&watched));
    iopj_harness::browser::reader::is_valid(&over_time);
    for (index, fonts) in fonts().enumerate() {
        let mut browser = Browser::with(fonts, program);
        holds_all_figures(&looks_in(index, &mut browser, &page), &study, &trials, &power);
        let seen = iopj_harness::browser::reader::looks_in_light(&mut browser, &over_time);
        holds(&seen, &html::watch_figures(&watched));
        assert_eq!(seen["figures"].as_array().map(Vec::len), Some(8));
        assert_eq!(browser.text("document.querySelector('h1').textContent"), EVIL);
    }
}

#[test]
fn what_is_missing_is_said() {
    let Some(program) = chromium() else { return };
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
    let refuted = || measurement(9, VerdictKind::Refuted).into();
    let real = study("s");
    let emulated = StudyRecord { emulated: Some("QEMU TCG".to_owned()), ..study("s") };
    let no_replicates = [
        "One replicate per cell: there are no error bars.",
        "no meter took part in this study",
        "this store holds no kernel profile",
    ];
    let (none, no_trial) = (&["No trial is valid"][..], &["This store holds no trial"][..]);
    let cases = [
        ("no trial", &real, Vec::new(), no_trial),
        ("one trial", &real, whole[..1].to_vec(), &no_replicates[..1]),
        ("one replicate", &real, whole.clone(), &no_replicates[..]),
        ("all refuted", &real, with(&refuted), none),
        ("all failed", &real, with(&|| Outcome::Failed("EIO".to_owned())), none),
        ("no I/O", &real, with(&nothing), none),
        ("no emulated trial", &emulated, Vec::new(), no_trial),
        ("all emulated refuted", &emulated, with(&refuted), none),
        (
            "no emulated counts",
            &emulated,
            whole.clone(),
            &["this store holds no interrupts that could be told"][..],
        ),
    ];
    let page = |study: &StudyRecord, trials: &[Trial]| {
        written(&html::page(study, trials, &[], Admission::default()))
    };
    let pages: Vec<_> = cases.iter().map(|(_, study, trials, _)| page(study, trials)).collect();
    pages.iter().for_each(|(_, page)| iopj_harness::browser::reader::is_valid(page));
    for (index, fonts) in fonts().enumerate() {
        let mut browser = Browser::with(fonts, program);
        for ((what, study, trials, sentences), (_, page)) in cases.iter().zip(&pages) {
            let seen = looks_in(index, &mut browser, page);
            holds_all_figures(&seen, study, trials, &[]);
            let text = browser.text("document.body.innerText");
            for sentence in *sentences {
                assert!(text.contains(sentence), "{what}: no `{sentence}` in {text}");
            }
        }
    }
}
