//! The figures as PDF in real readers: qpdf finds no error, pdftotext finds all text, and pdftoppm does not
//! paint a blank page.
//!
//! Needs `qpdf` and poppler-utils: without them it fails if CI=true, and is skipped elsewhere.

use iopj_analysis::Admission;
use iopj_analysis::power::PowerTrace;
use iopj_core::{PowerReading, Scope, VerdictKind};
use iopj_record::testing::pages::{judge, study, trials, workloads};
use iopj_record::testing::watched;
use iopj_report::html::{Figures, figures, watch_figures};
use std::path::Path;
use std::process::Command;

const PATHS: [&str; 4] = [
    "posix-sio/syscall/interrupt",
    "libaio/syscall/interrupt",
    "io_uring/syscall/interrupt",
    "io_uring/sqpoll/poll",
];

fn have_readers() -> bool {
    let here = |tool: &&str| Command::new(tool).arg("--help").output().is_ok();
    let all = ["qpdf", "pdftotext", "pdftoppm", "pdfinfo"].iter().all(here);
    if !all {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "CI needs qpdf and poppler-utils");
        eprintln!("skipped: needs qpdf and poppler-utils");
    }
    all
}

/// A reader's output for a document.
fn read(tool: &str, options: &[&str], file: &Path) -> Vec<u8> {
    let to_stdout = if tool == "pdftotext" { &["-"][..] } else { &[] };
    let output = Command::new(tool).args(options).arg(file).args(to_stdout).output().unwrap();
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && messages.is_empty(), "{tool} {}: {messages}", file.display());
    output.stdout
}

/// Lines, maps, stacks, percentiles, rates and power over time, with one path unproven; bars of workloads
/// that are on no line; and a watched program over time.
fn drawn() -> [Figures; 3] {
    let mut lines = trials(&PATHS, &workloads(&[1, 4, 16], &[1, 2], &[4096]), 3);
    judge(&mut lines, "io_uring/sqpoll/poll", VerdictKind::Unproven);
    for trial in &mut lines {
        trial.settings.insert("scheduler".to_owned(), "none \u{4e00}".to_owned());
    }
    let reading = |at: u64| PowerReading { at_ns: 500_000_000 * at, watts: 40.0 + (at % 7) as f64 };
    let power = PowerTrace {
        channel: "plug".to_owned(),
        scope: Scope::System,
        readings: (0..200).map(reading).collect(),
        windows: Vec::new(),
    };
    let bars = trials(&PATHS, &workloads(&[1], &[1], &[4096]), 3);
    let of = |trials: &[_], power: &[_]| figures(&study("s"), trials, power, Admission::default());
    [of(&lines, &[power]), of(&bars, &[]), watch_figures(&watched::watch("s", 9))]
}

/// The texts that an SVG document shows, without white space; tips and the title are not shown.
fn shown(svg: &str) -> Vec<String> {
    let plain = |text: &str| {
        [("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"), ("&#39;", "'")]
            .iter()
            .fold(text.to_owned(), |text, (code, c)| text.replace(code, c))
    };
    let texts = svg
        .split("<text")
        .skip(1)
        .map(|text| text.split_once('>').unwrap().1.split_once("</text>").unwrap().0);
    // The whole of a text that is too long is a title, which is not shown.
    let texts = texts.map(|text| text.split_once("</title>").map_or(text, |(_, shown)| shown));
    texts.map(|text| plain(text).split_whitespace().collect()).collect()
}

/// Pixels of a PPM that are not white, and those that are not grey.
fn painted(ppm: &[u8]) -> (usize, usize) {
    assert_eq!(&ppm[..3], b"P6\n");
    let header = ppm.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(2).unwrap().0;
    let pixels = || ppm[header + 1..].chunks_exact(3);
    let coloured =
        |one: &&[u8]| one.iter().max().zip(one.iter().min()).is_some_and(|(most, least)| most - least > 10);
    (pixels().filter(|one| *one != [255; 3]).count(), pixels().filter(coloured).count())
}

#[test]
fn readers_find_all_that_the_figures_show() {
    if !have_readers() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut count = 0;
    for figures in drawn() {
        for ((svg_name, svg), (name, pdf)) in figures.svg().into_iter().zip(figures.pdf()) {
            assert_eq!(svg_name.strip_suffix(".svg"), name.strip_suffix(".pdf"));
            let file = folder.path().join(&name);
            std::fs::write(&file, pdf).unwrap();
            let verdict = String::from_utf8(read("qpdf", &["--check"], &file)).unwrap();
            assert!(verdict.contains("No syntax or stream encoding errors found"), "{verdict}");
            let text = String::from_utf8(read("pdftotext", &["-raw"], &file)).unwrap();
            let text: String = text.split_whitespace().collect();
            for part in shown(&svg) {
                assert!(text.contains(&part), "{name}: no `{part}` in {text}");
            }
            let title = svg.split_once("<title>").unwrap().1.split_once("</title>").unwrap().0;
            let info = String::from_utf8(read("pdfinfo", &[], &file)).unwrap();
            assert!(
                info.contains(&format!("Title:           {title}\n"))
                    && info.contains("Pages:           1\n"),
                "{info}"
            );
            let (dark, coloured) = painted(&read("pdftoppm", &["-r", "72"], &file));
            assert!(dark > 500 && coloured > 50, "{name}: {dark} and {coloured} pixels");
            count += 1;
        }
    }
    assert_eq!(count, 55 + 8, "figures of the two studies and of the watch");
}
