//! Checks of every page of a report: drawn completely, without errors, valid, and usable by the keyboard
//! alone.

use super::devtools::Browser;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Background in light and in dark.
const PAPERS: [&str; 2] = ["rgb(255, 255, 255)", "rgb(21, 24, 28)"];

/// Windows of a desktop and of a telephone.
pub const SIZES: [(u32, u32); 2] = [(1400, 1000), (400, 800)];

/// The elements that can take the focus, in order, without folded ones.
const STOPS: &str = "[...document.querySelectorAll('a[href], button, summary, \
                     [tabindex=\"0\"]')].filter((one) => one.checkVisibility({ contentVisibilityAuto: true \
                     }))";

/// Opens the page in both sizes, light and dark, and asserts that nothing is wrong; returns what it shows in
/// the first.
#[track_caller]
pub fn looks(browser: &mut Browser, page: &Path) -> Value {
    looks_in(browser, page, &[false, true])
}

/// The same in light only, because colours do not change the layout.
#[track_caller]
pub fn looks_in_light(browser: &mut Browser, page: &Path) -> Value {
    looks_in(browser, page, &[false])
}

#[track_caller]
fn looks_in(browser: &mut Browser, page: &Path, colours: &[bool]) -> Value {
    let mut first = Value::Null;
    for size in SIZES {
        for dark in colours.iter().copied() {
            browser.open(page, size, dark);
            let seen = browser.value(super::PROBE);
            let what = format!("{} at {} {}", page.display(), size.0, if dark { "dark" } else { "light" });
            is_sound(&seen, size.0, &what);
            assert_eq!(seen["background"], PAPERS[usize::from(dark)], "{what}");
            says_no_such_number(browser, &what);
            assert_eq!(browser.logged(), Vec::<String>::new(), "{what}");
            if first.is_null() {
                first = seen;
            }
        }
    }
    first
}

#[track_caller]
fn is_sound(seen: &Value, width: u32, what: &str) {
    assert_eq!(
        (&seen["width"], &seen["overflow"], &seen["images"]),
        (&width.into(), &0.into(), &0.into()),
        "{what}"
    );
    for list in ["twice", "dangling", "stuck"] {
        assert_eq!(seen[list], Value::Array(Vec::new()), "{what}: {list}");
    }
    for figure in seen["figures"].as_array().expect("figures") {
        let id = &figure["id"];
        assert_eq!(figure["drawn"], figure["marks"], "{what}: {id}");
        for list in ["overlaps", "cut"] {
            assert_eq!(figure[list], Value::Array(Vec::new()), "{what}: {id}: {list}");
        }
        let table = figure["table"].as_array().expect("a table");
        assert!(table.len() > 1, "{what}: {id} has no table");
    }
}

/// No text or attribute of the page contains a number that is not one.
#[track_caller]
pub fn says_no_such_number(browser: &mut Browser, what: &str) {
    let script = "document.documentElement.outerHTML.replace(/<script>.*<\\/script>/s, \
                  '').match(/\\bnan\\b|\\binf(inity)?\\b|undefined/gi)";
    assert_eq!(browser.value(script), Value::Null, "{what}");
}

/// The figure of this name.
#[track_caller]
pub fn figure<'a>(seen: &'a Value, id: &str) -> &'a Value {
    let figures = seen["figures"].as_array().expect("figures");
    figures.iter().find(|figure| figure["id"] == id).unwrap_or_else(|| panic!("no figure {id}"))
}

/// Moves through the whole page by keys and opens every table.
#[track_caller]
pub fn walks(browser: &mut Browser, page: &Path) {
    browser.open(page, SIZES[0], false);
    skips(browser);
    browser.open(page, SIZES[0], false);
    let mut at = 0;
    while browser.value(&format!("{STOPS}.length")).as_u64() > Some(at) {
        browser.press("Tab");
        assert!(
            browser.value(&format!("{STOPS}[{at}] === document.activeElement")) == true,
            "stop {at} is {}, not {}",
            browser.text(&format!("{STOPS}[{at}].outerHTML.slice(0, 200)")),
            browser.text("document.activeElement.outerHTML.slice(0, 200)")
        );
        is_marked(browser);
        match browser.text("document.activeElement.localName + document.activeElement.className").as_str() {
            "buttontheme" => switches(browser),
            "summary" => unfolds(browser),
            _ => {}
        }
        at += 1;
    }
    assert!(browser.value("[...document.querySelectorAll('details')].every((one) => one.open)") == true);
    assert_eq!(browser.logged(), Vec::<String>::new());
}

/// Presses every button of every figure, and returns the number of files.
#[track_caller]
pub fn downloads(browser: &mut Browser, page: &Path) -> usize {
    let buttons = "document.querySelectorAll('.tools button')";
    let mut files = 0;
    loop {
        // The browser gives a page ten files, and asks before it gives more.
        if files % 10 == 0 {
            browser.open(page, SIZES[0], false);
            browser.value("document.querySelectorAll('details.group').forEach((one) => (one.open = true))");
        }
        if browser.value(&format!("{buttons}.length")) == files {
            break;
        }
        browser.value(&format!("{buttons}[{files}].focus()"));
        download(browser);
        files += 1;
    }
    assert_eq!(browser.logged(), Vec::<String>::new());
    files
}

/// The focused element is visible, and so is its focus ring.
#[track_caller]
fn is_marked(browser: &mut Browser) {
    let script = "(() => { const one = document.activeElement, box = one.getBoundingClientRect(); const \
                  outline = getComputedStyle(one); return outline.outlineStyle === 'solid' && \
                  parseFloat(outline.outlineWidth) >= 2 && box.bottom > 0 && box.top < innerHeight && \
                  box.right > 0 && box.left < innerWidth; })()";
    assert!(
        browser.value(script) == true,
        "{}",
        browser.text("document.activeElement.outerHTML.slice(0, 200)")
    );
}

/// The first stop skips the contents; a link of the contents leads to its part.
#[track_caller]
fn skips(browser: &mut Browser) {
    browser.press("Tab");
    assert_eq!(browser.text("document.activeElement.className"), "skip");
    is_marked(browser);
    browser.press("Enter");
    assert_eq!(browser.text("location.hash"), "#main");
    browser.press("Tab");
    assert!(browser.value("document.querySelector('main').contains(document.activeElement)") == true);
    let nav = "document.querySelector('nav li:last-child a')";
    browser.value(&format!("{nav}.focus()"));
    browser.press("Enter");
    assert_eq!(browser.text("location.hash"), "#provenance");
    browser.until(
        "(() => { const box = document.querySelector('#provenance h2').getBoundingClientRect(); return \
         box.top >= document.querySelector('nav').getBoundingClientRect().bottom - 1 && box.bottom <= \
         innerHeight; })()",
    );
    // There is nothing to close: Escape leaves everything where it is.
    browser.press("Escape");
    assert_eq!(browser.text("location.hash"), "#provenance");
}

/// Space and Enter switch between light and dark and back.
#[track_caller]
fn switches(browser: &mut Browser) {
    let state = "[getComputedStyle(document.body).backgroundColor, document.activeElement.textContent, \
                 document.activeElement.getAttribute('aria-label')].join('; ')";
    let [light, dark] = PAPERS;
    for (key, expected) in [
        ("", format!("{light}; Dark; Dark colours")),
        (" ", format!("{dark}; Light; Light colours")),
        ("Enter", format!("{light}; Dark; Dark colours")),
        ("Escape", format!("{light}; Dark; Dark colours")),
    ] {
        if !key.is_empty() {
            browser.press(key);
        }
        assert_eq!(browser.text(state), expected, "{key}");
    }
}

/// Enter opens what is closed, Space closes it, Enter opens it again, and Escape does nothing. What begins
/// open is closed first.
#[track_caller]
fn unfolds(browser: &mut Browser) {
    let is_open = "document.activeElement.parentElement.open";
    if browser.value(is_open) == true {
        browser.press("Enter");
        assert_eq!(browser.value(is_open), false, "closed first");
    }
    for (key, open) in [("Enter", true), (" ", false), ("Enter", true), ("Escape", true)] {
        browser.press(key);
        assert_eq!(browser.value(is_open), open, "{key}");
    }
}

/// The file behind the focused button contains what its figure shows.
#[track_caller]
fn download(browser: &mut Browser) {
    let figure = "document.activeElement.closest('figure')";
    let id = browser.text(&format!("{figure}.id"));
    let title = browser.text(&format!("{figure}.querySelector('svg').getAttribute('aria-label')"));
    match browser.text("document.activeElement.getAttribute('aria-label')") {
        label if label == format!("Download as SVG: {title}") => {
            let (name, svg) = browser.downloaded("Enter");
            assert_eq!(name, format!("{id}.svg"));
            assert!(
                svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\"") && svg.ends_with("</svg>"),
                "{svg}"
            );
            assert!(
                svg.contains("<style>") && svg.contains("class=\"paper\"") && !svg.contains("var(--"),
                "{id}: a style that stands alone"
            );
            let marks = browser.value(&format!("{figure}.querySelectorAll('.mark').length"));
            assert_eq!(svg.matches("class=\"mark").count() as u64, marks.as_u64().expect("a count"), "{id}");
        }
        label if label == format!("Download as CSV: {title}") => {
            let (name, csv) = browser.downloaded(" ");
            assert_eq!(name, format!("{id}.csv"));
            let cells = format!(
                "[...{figure}.querySelectorAll('tr')].map((row) => [...row.cells].map((one) => \
                 one.textContent))"
            );
            let table: Vec<Vec<String>> = serde_json::from_value(browser.value(&cells)).expect("a table");
            assert_eq!(parsed(&csv), table, "{id}");
        }
        other => panic!("{id} has a button {other}"),
    }
}

/// The cells of a text after RFC 4180.
fn parsed(csv: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell, mut is_quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut rest = csv.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' if is_quoted && rest.next_if_eq(&'"').is_some() => cell.push('"'),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => row.push(std::mem::take(&mut cell)),
            '\r' if !is_quoted && rest.next_if_eq(&'\n').is_some() => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            other => cell.push(other),
        }
    }
    assert!(row.is_empty() && cell.is_empty() && !is_quoted, "{csv}");
    rows
}

/// The arrow keys scroll a focused region that is wider than the window.
#[track_caller]
pub fn scrolls(browser: &mut Browser, page: &Path, region: &str) {
    browser.open(page, SIZES[1], false);
    let region = format!("document.querySelector('{region}')");
    browser.value(&format!("{region}.focus()"));
    assert_eq!(browser.value(&format!("{region}.scrollLeft")), 0);
    browser.press_until("ArrowRight", &format!("{region}.scrollLeft > 0"));
    browser.press_until("ArrowLeft", &format!("{region}.scrollLeft === 0"));
}

/// `tidy` finds the file to be valid HTML without a warning.
#[track_caller]
pub fn is_valid(page: &Path) {
    let tidy = Command::new("tidy").args(["-errors", "-quiet"]).arg(page).output();
    let Ok(output) = tidy else {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "CI needs tidy: apt-get install tidy");
        eprintln!("skipped: needs tidy (apt-get install tidy)");
        return;
    };
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && words.is_empty(), "{}: {words}", page.display());
}
