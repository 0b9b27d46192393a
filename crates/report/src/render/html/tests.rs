//! The page as a whole: every datum is a mark, nothing foreign is markup, nothing absent is a number.

#[path = "../../../tests/browser/fixture.rs"]
mod fixture;

use super::figures::{Figure, sections};
use super::{SCRIPT, SCRIPT_SHA256, figures, page};
use crate::render::html::model::Model;
use fixture::{judge, measurement, study, trials, workloads};
use iopj_core::VerdictKind;
use iopj_store::{Outcome, Trial};
use std::collections::BTreeSet;

const PATHS: [&str; 4] =
    ["posix-sio/syscall/interrupt", "libaio/syscall/interrupt", "io_uring/syscall/interrupt", "io_uring/sqpoll/poll"];

fn all_figures(trials: &[Trial]) -> Vec<Figure> {
    sections(&Model::new(trials)).into_iter().flat_map(|one| one.groups).flat_map(|group| group.figures).collect()
}

/// Upright strokes of all error bars.
fn error_bars(svg: &str) -> usize {
    svg.split("class=\"error\" d=\"").skip(1).map(|path| path.split('"').next().unwrap().matches('V').count()).sum()
}

fn marks(svg: &str) -> usize {
    svg.matches("class=\"mark").count()
}

#[test]
fn every_datum_is_a_mark_and_every_interval_an_error_bar() {
    let mut trials = trials(&PATHS, &workloads(&[1, 4, 16], &[1, 2], &[4096]), 3);
    judge(&mut trials, "io_uring/sqpoll/poll", VerdictKind::Refuted);
    let figures = all_figures(&trials);
    // Two runs over depth and three over threads of four metrics; two maps, six workloads, verdicts, time.
    assert_eq!(figures.len(), 2 * 4 + 3 * 4 + 2 + 6 + 1 + 1);
    for figure in &figures {
        let expected = match &figure.id {
            id if id == "verdicts-by-path" => 4,
            id if id == "iops-over-time" => 3 * 6 * 3,
            id if id.starts_with("latency-percentiles") => 3,
            id if id.contains("over-iodepth") => 3 * 3,
            id if id.contains("over-numjobs") => 3 * 2,
            _ => 6,
        };
        assert_eq!(marks(&figure.svg), expected, "{}", figure.id);
        let errors =
            if figure.id.contains("-over-iodepth") || figure.id.contains("-over-numjobs") { expected } else { 0 };
        assert_eq!(error_bars(&figure.svg), errors, "{}", figure.id);
        assert!(figure.rows.iter().all(|row| row.len() == figure.columns.len()), "{}", figure.id);
        let refuted = figure.rows.iter().any(|row| row.contains(&"io_uring/sqpoll/poll".to_owned()));
        assert_eq!(refuted, figure.id == "verdicts-by-path", "{}", figure.id);
    }
    let page = page(&study("s"), &trials);
    assert_eq!(marks(&page), figures.iter().map(|figure| marks(&figure.svg)).sum::<usize>());
    assert!(page.contains("18 trials refuted") && page.contains("18 trials stay out"));
}

#[test]
fn the_best_path_and_what_it_saves_are_said() {
    let page = page(&study("s"), &trials(&PATHS, &workloads(&[1], &[1], &[4096]), 1));
    assert!(page.contains("<b>posix-sio/syscall/interrupt</b> has the least mean latency."));
    // 20 us and 13 ns a step: means of 33.0 and 52.5 us.
    assert!(page.contains("saves 37 % of the latency"), "{}", &page[page.find("At the most").unwrap()..][..200]);
    assert!(page.contains("One replicate a cell: there are no error bars"));
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
    if let Outcome::Measured(measurement) = &mut trials[1].outcome {
        measurement.verdict.reasons = vec![evil.to_owned()];
    }
    let page = page(&study(evil), &trials);
    assert!(!page.contains("<img") && !page.contains("onerror=alert(1)>"));
    assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;"));
    assert_eq!(page.matches("</script>").count(), 1);
    for (name, svg) in figures(&trials) {
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
        Outcome::Measured(Box::new(measurement))
    };
    for (what, trials, words) in [
        ("no trial", Vec::new(), "This store holds no trial"),
        ("one trial", whole[..1].to_vec(), "has the least mean latency"),
        ("one replicate", whole.clone(), "there are no error bars"),
        ("all refuted", with(&|| Outcome::Measured(Box::new(measurement(9, VerdictKind::Refuted)))), "No trial stands"),
        ("all failed", with(&|| Outcome::Failed("EIO".to_owned())), "No trial stands"),
        ("no I/O", with(&nothing), "No trial stands"),
    ] {
        let page = page(&study("s"), &trials);
        assert!(page.contains(words), "{what}: no `{words}`");
        assert!(!page.contains("NaN") && !page.contains("inf"), "{what}");
        assert!(page.contains("no meter took part"), "{what}");
        for (name, svg) in figures(&trials) {
            assert!(marks(&svg) > 0, "{what}: {name} is empty");
        }
    }
}

#[test]
fn a_thousand_trials_stay_below_three_megabytes() {
    for (iodepths, replicates) in [(&[1, 2, 4, 8, 16, 31][..], 3), (&[1, 2, 4, 8, 16, 24, 32, 48, 64][..], 1)] {
        let paths: Vec<String> = iopj_core::IoPath::all().iter().map(ToString::to_string).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).take(10).collect();
        let all = trials(&paths, &workloads(iodepths, &[1, 2, 4, 8], &[4096, 16384, 131_072]), replicates);
        let page = page(&study("s"), &all[..1000]);
        assert!(page.len() < 3_000_000, "{replicates} replicates: {} bytes", page.len());
    }
}

#[test]
fn files_of_figures_stand_alone_under_names_of_their_own() {
    let files = figures(&trials(&PATHS, &workloads(&[1, 4], &[1, 2], &[4096]), 2));
    let names: BTreeSet<&String> = files.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), files.len());
    for (name, svg) in &files {
        assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\"") && svg.ends_with("</svg>"), "{name}");
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
    let model = Model::new(&all);
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

fn sha256(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let mut child =
        Command::new("sha256sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("coreutils' sha256sum");
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    let text = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    (0..64).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for digit in 0..4 {
            let value = bits >> (18 - 6 * digit) & 63;
            text.push(if digit > three.len() { '=' } else { DIGITS[value as usize] as char });
        }
    }
    text
}
