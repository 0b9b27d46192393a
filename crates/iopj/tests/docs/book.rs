//! The book in headless Chromium, as `cargo xtask book --check` made it: each page at two widths, each link
//! of each page, and the search.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use iopj_harness::browser::devtools::{Browser, chromium};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A screen on a desk, and a phone.
const WIDTHS: [u32; 2] = [1280, 390];
const HEIGHT: u32 = 1400;
/// Pages of mdBook's own, to which no link leads.
const NO_PAGES: [&str; 3] = ["404.html", "toc.html", "print.html"];

/// What a page has to be found by, and what it leads to.
#[derive(Default)]
struct Seen {
    ids: BTreeSet<String>,
    links: BTreeSet<String>,
}

/// Text of the page that sticks out at its right side, in a box that does not scroll.
const TOO_WIDE: &str = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
const IDS: &str = "[...document.querySelectorAll('[id], a[name]')].map(e => e.id || e.name).join('\\n')";
/// Links and images as absolute addresses.
const LINKS: &str = "[...document.querySelectorAll('a[href], img[src], source[srcset]')]
    .map(e => new URL(e.getAttribute('href') || e.getAttribute('src') || e.srcset, document.baseURI).href)
    .join('\\n')";

#[test]
#[ignore = "needs the book: cargo xtask book --check"]
fn the_book_in_a_browser() {
    let Some(program) = chromium() else { return };
    let folder =
        |name: &str| std::env::var_os(name).map(PathBuf::from).unwrap_or_else(|| panic!("needs {name}"));
    let (book, shots) = (folder("IOPJ_BOOK").canonicalize().unwrap(), folder("IOPJ_BOOK_SHOTS"));
    let _ = fs::remove_dir_all(&shots);
    fs::create_dir_all(&shots).unwrap();
    let mut browser = Browser::start(program);
    let pages = pages(&book);
    assert!(pages.len() > 50, "{pages:?}");
    let mut faults = Vec::new();
    let mut seen: BTreeMap<PathBuf, Seen> = BTreeMap::new();
    for (page, width) in pages.iter().flat_map(|page| WIDTHS.map(|width| (page, width))) {
        browser.open(page, (width, HEIGHT), false);
        let name = page.strip_prefix(&book).unwrap().display().to_string();
        let wide = browser.value(TOO_WIDE).as_i64().unwrap();
        faults.extend((wide > 0).then(|| format!("{name} at {width}: {wide} pixels too wide")));
        faults.extend(browser.logged().into_iter().map(|line| format!("{name} at {width}: {line}")));
        let png = STANDARD.decode(browser.picture()).unwrap();
        fs::write(shots.join(format!("{}-{width}.png", name.replace('/', "-"))), png).unwrap();
        let lines = |text: String| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
        let of_page = seen.entry(page.clone()).or_default();
        of_page.ids.extend(lines(browser.text(IDS)));
        of_page.links.extend(lines(browser.text(LINKS)));
    }
    faults.extend(seen.iter().flat_map(|(page, of_page)| broken(page, of_page, &seen)));
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
    searches(&mut browser, &book);
}

/// Every page below the folder.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut pages = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            pages.extend(self::pages(&path));
        } else if name.ends_with(".html") && !NO_PAGES.contains(&name.as_str()) {
            pages.push(path);
        }
    }
    pages.sort();
    pages
}

/// The links of a page that lead nowhere: to a file that is not there, or to a place that its page lacks.
fn broken(page: &Path, of_page: &Seen, seen: &BTreeMap<PathBuf, Seen>) -> Vec<String> {
    let leads = |link: &&String| {
        let Some(path) = link.strip_prefix("file://") else {
            return link.starts_with("https://") || link.starts_with("javascript:");
        };
        let (path, place) = path.split_once('#').unwrap_or((path, ""));
        let path = Path::new(path);
        path.is_file() && (place.is_empty() || seen.get(path).is_none_or(|to| to.ids.contains(place)))
    };
    let broken = of_page.links.iter().filter(|link| !leads(link));
    broken.map(|link| format!("{}: {link} leads nowhere", page.display())).collect()
}

/// Words that are on one page each lead there, and a word that is on none leads nowhere.
fn searches(browser: &mut Browser, book: &Path) {
    let ask = |word: &str| book.join(format!("index.html?search={word}"));
    let results = "document.querySelectorAll('#mdbook-searchresults li')";
    for (word, page) in [("reaped", "library.html"), ("latency_p99", "metrics.html")] {
        browser.open(&ask(word), (WIDTHS[1], HEIGHT), false);
        browser.until(&format!("[...{results}].some(e => e.innerHTML.includes('{page}'))"));
    }
    browser.open(&ask("zzyzx"), (WIDTHS[0], HEIGHT), false);
    browser.until("document.querySelector('#mdbook-searchresults-header').innerText.includes('No search')");
    assert_eq!(browser.value(&format!("{results}.length")), 0);
}
