//! What is new in a version, from `CHANGELOG.md`: the notes of a release, and Debian's changelog.

use anyhow::{Context, Result, ensure};
use std::fmt::Write;

/// The revision of the Debian and RPM packages.
pub(crate) const REVISION: &str = "1";
/// Characters in a line of Debian's changelog.
const WIDTH: usize = 78;

/// A changelog as it is published with a version: the version has the date of its release, and what is linked
/// by its place in the repository is only named.
pub(crate) fn published(changelog: &str, version: &str, date: &str) -> String {
    let heading = format!("## {version}, unreleased");
    without_links(&changelog.replacen(&heading, &format!("## {version}, {date}"), 1))
}

/// A text whose links to files of the repository are their names. Those to the web stay.
fn without_links(text: &str) -> String {
    let mut parts = text.split("](");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match (plain.rfind('['), part.split_once(')')) {
            (Some(at), Some((place, rest))) if !place.contains("://") => {
                plain.remove(at);
                plain.push_str(rest);
            }
            _ => {
                plain.push_str("](");
                plain.push_str(part);
            }
        }
    }
    plain
}

/// The newest section of a changelog, without its heading.
///
/// # Errors
/// It is not about this version.
pub(crate) fn section<'a>(changelog: &'a str, version: &str) -> Result<&'a str> {
    let (_, newest) = changelog.split_once("\n## ").context("CHANGELOG.md has no section")?;
    let (heading, text) = newest.split_once('\n').unwrap_or((newest, ""));
    let named = heading.split([',', ' ']).next().unwrap_or_default();
    ensure!(
        named == version,
        "the newest section of CHANGELOG.md is about {named}, and the version is {version}: write what is new"
    );
    Ok(text.split("\n## ").next().unwrap_or_default().trim())
}

/// The notes of the release, in Markdown.
pub(crate) fn notes(section: &str, version: &str, files: &[String]) -> String {
    let list: Vec<String> = files.iter().map(|file| format!("- `{file}`")).collect();
    format!(
        "# iopj {version}\n\n{section}\n\n## Files\n\n{}\n\n`sha256sum --check SHA256SUMS` verifies them. \
         `docs/install.md` says how each is installed.\n",
        list.join("\n")
    )
}

/// Debian's changelog of a source package with one version.
pub(crate) fn debian(section: &str, version: &str, maintainer: &str, date: &str) -> String {
    let mut text = format!("iopj ({version}-{REVISION}) unstable; urgency=medium\n\n");
    for item in items(section) {
        for (at, line) in wrapped(&item, WIDTH - 4).into_iter().enumerate() {
            let _ = writeln!(text, "{} {line}", if at == 0 { "  *" } else { "   " });
        }
    }
    let _ = write!(text, "\n -- {maintainer}  {date}\n");
    text
}

/// The items of a list in Markdown, each as one line.
fn items(section: &str) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    for line in section.lines().filter(|line| !line.trim().is_empty()) {
        match (line.strip_prefix("- "), items.last_mut()) {
            (None, Some(last)) if line.starts_with(' ') => {
                last.push(' ');
                last.push_str(line.trim());
            }
            (item, _) => items.push(item.unwrap_or(line).trim().to_owned()),
        }
    }
    items
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is always a line");
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
            continue;
        }
        if !last.is_empty() {
            last.push(' ');
        }
        last.push_str(word);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGELOG: &str = "# Changelog\n\nWords.\n\n## 0.2.0, unreleased\n\n- One thing\n  of two lines.\n\
                             - Another.\n\n## 0.1.0\n\n- Old.\n";

    #[test]
    fn a_section_is_that_of_its_version() {
        let section = section(CHANGELOG, "0.2.0").unwrap();
        assert_eq!(section, "- One thing\n  of two lines.\n- Another.");
        let error = super::section(CHANGELOG, "0.3.0").unwrap_err().to_string();
        assert!(error.contains("about 0.2.0, and the version is 0.3.0"), "{error}");
    }

    #[test]
    fn what_is_published_is_released_and_links_to_no_file_that_is_not_there() {
        let changelog =
            CHANGELOG.replace("Another.", "Another ([docs/x.md](docs/x.md), [web](https://x.y)).");
        let published = published(&changelog, "0.2.0", "2026-11-27");
        assert!(published.contains("\n## 0.2.0, 2026-11-27\n"), "{published}");
        assert!(published.contains("- Another (docs/x.md, [web](https://x.y)).\n"), "{published}");
        assert_eq!(section(&published, "0.2.0").unwrap().lines().count(), 3);
    }

    #[test]
    fn debians_changelog_has_short_lines_and_one_item_each() {
        let long = format!("- {}\n- b\n", "word ".repeat(40).trim());
        let text = debian(&long, "0.2.0", "M <m@x>", "Thu, 01 Jan 1970 00:00:00 +0000");
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with("  * ")).count(), 2);
        assert!(text.starts_with("iopj (0.2.0-1) unstable; urgency=medium\n\n  * word"), "{text}");
        assert!(text.ends_with("\n -- M <m@x>  Thu, 01 Jan 1970 00:00:00 +0000\n"), "{text}");
    }
}
