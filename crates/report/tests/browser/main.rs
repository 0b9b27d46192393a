//! The page in headless Chromium: nothing on the console, every figure drawn with all its marks, downloads that hold
//! what they say, at two widths, light and dark.
//!
//! Needs `chromium`: fails without it where CI=true, and is skipped elsewhere.

mod fixture;

use fixture::{judge, study, trials, workloads};
use iopj_core::{EnergyOutcome, Joules, PowerReading, Scope, TrialEnergy, VerdictKind};
use iopj_report::analysis::power::{PowerTrace, windows};
use iopj_report::render::html;
use iopj_store::{Outcome, Trial};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const EVIL: &str = "<img src=x onerror=alert(1)>";

/// Overrides that keep downloads in the page, before its own script runs.
const CATCH: &str = "<script>window.saved = [];\
    window.Blob = class extends Blob { constructor(parts, how) { super(parts, how); saved.push({ text: parts.join('') }); } };\
    HTMLAnchorElement.prototype.click = function () { saved.at(-1).name = this.download; };</script>";

fn chromium() -> Option<&'static str> {
    let found = ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok());
    if found.is_none() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "CI needs chromium: apt-get install chromium");
        eprintln!("skipped: needs chromium (apt-get install chromium)");
    }
    found
}

/// A folder of this test's own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("iopj-browser-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        Folder(folder)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let file = self.0.join(name);
        std::fs::write(&file, text).expect("a file in the temporary folder");
        file
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Opens a page with a profile of its own; what is logged on the console stands in stderr.
fn open(program: &str, folder: &Folder, page: &Path, dark: bool, width: u32, action: &str) -> Output {
    let profile = folder.0.join("profile");
    let output = Command::new("timeout")
        .args(["120", program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars"])
        .args(["--enable-logging=stderr", &format!("--user-data-dir={}", profile.display())])
        .arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!dark)))
        .args([&format!("--window-size={width},1000"), action, &format!("file://{}", page.display())])
        .output()
        .expect("coreutils' timeout");
    assert!(output.status.success(), "chromium failed: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn console(output: &Output) -> Vec<String> {
    let log = String::from_utf8_lossy(&output.stderr);
    log.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect()
}

fn sample() -> Vec<Trial> {
    let paths = [
        "posix-sio/syscall/interrupt",
        "libaio/syscall/interrupt",
        "io_uring/syscall/interrupt",
        "io_uring/sqpoll/poll",
    ];
    let mut all = trials(&paths, &workloads(&[1, 4, 16, 32], &[1, 2], &[4096, 16384]), 3);
    all.extend(trials(&paths[1..], &workloads(&[8], &[3], &[512]), 1));
    judge(&mut all, "io_uring/sqpoll/poll", VerdictKind::Refuted);
    judge(&mut all, "libaio/syscall/interrupt", VerdictKind::Unproven);
    for trial in &mut all {
        trial.settings.insert("scheduler".to_owned(), format!("{EVIL}{}", trial.workload.bs));
    }
    all
}

/// The page with the script that looks at it, which its policy must be opened for.
fn probed(page: &str) -> String {
    let (before, rest) = page.split_once("script-src 'sha256-").expect("a policy");
    let (_, after) = rest.split_once('\'').expect("a hash");
    let page = format!("{before}script-src 'unsafe-inline'{after}");
    let probe = include_str!("probe.js");
    page.replacen("<script>", &format!("{CATCH}<script>"), 1)
        .replace("</body>", &format!("<script>{probe}</script></body>"))
}

/// The page in a frame of this width: a window cannot be narrower than 500 pixels.
fn framed(page: &str, width: u32) -> String {
    let page = page.replace('&', "&amp;").replace('"', "&quot;");
    format!(
        "<!DOCTYPE html><meta charset=\"utf-8\"><meta name=\"color-scheme\" content=\"light dark\"><title>frame</title>\
         <iframe style=\"border:0;width:{width}px;height:1000px\" srcdoc=\"{page}\"></iframe>"
    )
}

#[test]
fn errors_on_the_console_would_be_seen() {
    let Some(program) = chromium() else { return };
    let folder = Folder::new("control");
    let page = folder.write("page.html", "<!DOCTYPE html><title>x</title><script>throw new Error('seen')</script>");
    let lines = console(&open(program, &folder, &page, false, 1400, "--dump-dom"));
    assert!(lines.iter().any(|line| line.contains("seen")), "{lines:?}");
}

#[test]
fn the_page_as_it_is_runs_its_script_and_logs_nothing() {
    let Some(program) = chromium() else { return };
    let folder = Folder::new("plain");
    for (name, trials) in [("sample", sample()), ("empty", Vec::new())] {
        let page = folder.write(&format!("{name}.html"), &html::page(&study(EVIL), &trials, &[]));
        let output = open(program, &folder, &page, false, 1400, "--dump-dom");
        assert_eq!(console(&output), Vec::<String>::new(), "{name}");
        let document = String::from_utf8_lossy(&output.stdout).into_owned();
        let buttons = document.matches("aria-label=\"Download as SVG").count();
        assert_eq!(
            buttons,
            html::figures(&study(EVIL), &trials, &[]).len(),
            "{name}: the policy must let the script run"
        );
        assert!(!document.contains("<img"), "{name}");
    }
}

#[test]
fn every_figure_is_drawn_at_both_widths_light_and_dark() {
    let Some(program) = chromium() else { return };
    let folder = Folder::new("drawn");
    let trials = sample();
    let page = probed(&html::page(&study(EVIL), &trials, &[]));
    for (width, dark) in [(1400, false), (1400, true), (400, false), (400, true)] {
        let page = folder.write("page.html", &framed(&page, width));
        let output = open(program, &folder, &page, dark, width, "--dump-dom");
        assert_eq!(console(&output), Vec::<String>::new(), "{width} {dark}");
        let document = String::from_utf8_lossy(&output.stdout).into_owned();
        let (_, result) = document.split_once("<pre id=\"result\">").expect("the probe's result");
        let (result, _) = result.split_once("</pre>").expect("the end of the probe's result");
        check(result, &html::figures(&study(EVIL), &trials, &[]), width, dark);
    }
}

/// The sample with the energy of a meter of an evil name, and what it read meanwhile.
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
            random_dof: None,
            random_interval: [joules - 1.0, joules + 1.0],
            interval: Some([joules - 2.0, joules + 2.0]),
            above_idle: None,
        };
        one.energy = vec![TrialEnergy {
            meter: EVIL.to_owned(),
            scope: Scope::System,
            channels: vec![EVIL.to_owned()],
            estimated: false,
            outcome: EnergyOutcome::Complete(complete),
        }];
    }
    let reading = |second: u64| PowerReading { at_ns: 1_000_000_000 * second, watts: 45.0 + (second % 13) as f64 };
    let trace = PowerTrace {
        channel: EVIL.to_owned(),
        scope: Scope::System,
        readings: (0..3 * trials.len() as u64).map(reading).collect(),
        windows: windows(&trials),
    };
    (trials, vec![trace])
}

#[test]
fn energy_and_power_over_time_are_drawn_at_both_widths() {
    let Some(program) = chromium() else { return };
    let folder = Folder::new("energy");
    let (trials, power) = metered();
    let figures = html::figures(&study(EVIL), &trials, &power);
    assert!(figures.len() > html::figures(&study(EVIL), &sample(), &[]).len() + 3);
    let page = probed(&html::page(&study(EVIL), &trials, &power));
    for (width, dark) in [(1400, false), (400, true)] {
        let page = folder.write("page.html", &framed(&page, width));
        let output = open(program, &folder, &page, dark, width, "--dump-dom");
        assert_eq!(console(&output), Vec::<String>::new(), "{width} {dark}");
        let document = String::from_utf8_lossy(&output.stdout).into_owned();
        let (_, result) = document.split_once("<pre id=\"result\">").expect("the probe's result");
        let (result, _) = result.split_once("</pre>").expect("the end of the probe's result");
        check(result, &figures, width, dark);
    }
}

fn check(result: &str, figures: &[(String, String)], width: u32, dark: bool) {
    let fact = |name: &str| {
        let line = result.lines().find(|line| line.split(' ').next() == Some(name));
        line.and_then(|line| line.split_once(' ')).map(|(_, value)| value.to_owned()).unwrap_or_default()
    };
    let (light_paper, dark_paper) = ("rgb(255,255,255)", "rgb(21,24,28)");
    let papers = if dark { (dark_paper, light_paper) } else { (light_paper, dark_paper) };
    assert_eq!(fact("width"), width.to_string());
    assert_eq!((fact("overflow"), fact("images")), ("0".to_owned(), "0".to_owned()), "{width} {dark}");
    assert_eq!((fact("first-stop"), fact("unreachable")), ("skip".to_owned(), "0".to_owned()));
    assert_eq!(fact("verdict-colours"), "3", "verified, unproven and refuted");
    assert_eq!((fact("background").as_str(), fact("switched").as_str()), papers);
    let seen: Vec<String> = result.lines().filter(|line| line.starts_with("figure ")).map(str::to_owned).collect();
    let expected: Vec<String> = figures
        .iter()
        .map(|(file, svg)| {
            let (id, marks) = (file.trim_end_matches(".svg"), svg.matches("class=\"mark").count());
            format!("figure {id} {marks} {marks} {file} true {id}.csv true")
        })
        .collect();
    assert_eq!(seen, expected, "{width} {dark}");
}

#[test]
fn screenshots_are_taken_at_both_widths_light_and_dark() {
    let Some(program) = chromium() else { return };
    let folder = Folder::new("shots");
    let page = folder.write("page.html", &html::page(&study(EVIL), &sample(), &[]));
    let mut shots = Vec::new();
    for (width, dark) in [(1400, false), (1400, true), (400, false), (400, true)] {
        let shot = folder.0.join(format!("{width}-{dark}.png"));
        open(program, &folder, &page, dark, width, &format!("--screenshot={}", shot.display()));
        let png = std::fs::read(&shot).expect("a screenshot");
        // The width stands behind the signature and the name of the first chunk.
        assert_eq!(png[16..20], width.to_be_bytes(), "{width} {dark}");
        assert!(!shots.contains(&png), "no two look alike");
        shots.push(png);
    }
}
