//! The report of a lab's store in headless Chromium: a figure for each count, a banner, and no time.

use crate::records::{Records, verdicts_are_drawn};
use iopj_harness::browser::devtools::{Browser, chromium};
use iopj_harness::browser::reader::figure;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// The figures of a study of one workload with exact costs.
const FIGURES: [&str; 7] = [
    "context-switches-by-path",
    "interrupts-by-path",
    "instructions-by-path",
    "kernel-instructions-by-path",
    "loads-by-path",
    "stores-by-path",
    "instructions-per-i-o-by-kernel-directory",
];

/// Asserts that the page of a store of one workload with exact costs has a figure for each count and shows no
/// time.
#[track_caller]
pub(crate) fn shows_counts_and_no_time(folder: &Path, store: &str) {
    let Some(program) = chromium() else { return };
    let mut report = Command::new(crate::iopj_of_guests());
    let output = report.current_dir(folder).args(["report", store, "--html", "lab.html"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = folder.join("lab.html");
    iopj_harness::browser::reader::is_valid(&page);
    let mut browser = Browser::start(program);
    let seen = iopj_harness::browser::reader::looks(&mut browser, &page);
    says_no_time(&mut browser);
    verdicts_are_drawn(figure(&seen, "verdicts-by-path"), &Records::of(folder, store));
    for name in FIGURES {
        figure(&seen, &format!("{name}-randread-4k-iodepth-1-numjobs-1"));
    }
    assert_eq!(seen["figures"].as_array().unwrap().len(), 1 + FIGURES.len());
    iopj_harness::browser::reader::walks(&mut browser, &page);
    assert_eq!(
        iopj_harness::browser::reader::downloads(&mut browser, &page),
        2 * seen["figures"].as_array().unwrap().len()
    );
}

/// The banner is seen without scrolling; outside the papers' claims, the provenance and the list of what is
/// missing, no number has a unit of time, rate or energy, tables and tips included.
#[track_caller]
fn says_no_time(browser: &mut Browser) {
    let banner = "document.querySelector('.banner')";
    let words = browser.text(&format!("{banner}.innerText"));
    assert!(words.starts_with("Emulated by QEMU TCG: times mean nothing and none is shown"), "{words}");
    let is_seen = format!("{banner}.checkVisibility() && {banner}.getBoundingClientRect().top > 0");
    assert!(browser.value(&is_seen) == true);
    let times = "(() => { const main = document.querySelector('main').cloneNode(true); for (const id of \
                 ['claims', 'provenance', 'missing']) main.querySelector('#' + id)?.remove(); return \
                 (document.querySelector('header').textContent + \
                 main.textContent).match(/.{0,30}(IOPS|\u{b5}s|MB\\/s|IO\\/J|percentile|(?<![:\\d])\\d\\s*\
                 (ns|us|ms|s|W|J)\\b).{0,30}/gi); })()";
    assert_eq!(browser.value(times), Value::Null);
}
