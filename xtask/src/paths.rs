//! Paths named in the documents and in the comments of the code: every file or folder of the repository must
//! exist, wherever the text names it (in backquotes, plain, as a link, in a code block); what is named after
//! its file (`units.rs:parse_bytes`) must be defined there.

use crate::shell;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::fs;

/// What a path of the repository begins with.
const FOLDERS: [&str; 7] = ["crates/", "python/", "xtask/", "docs/", "studies/", "fuzz/", ".ci/"];

/// A line `document:line: ...` for each named path that does not exist.
///
/// # Errors
/// git cannot list the files, or a file cannot be read.
pub(crate) fn findings(workspace: &Workspace) -> Result<Vec<String>> {
    let files = shell::output(&mut workspace.program("git", "ls-files"))?;
    let read = |file: &str| fs::read_to_string(workspace.root.join(file)).with_context(|| file.to_owned());
    let repository = Repository { files: files.lines().collect(), read: &|file| read(file).ok() };
    let mut findings = Vec::new();
    for file in files.lines() {
        // What the log of changes names may be gone.
        if file.ends_with(".md") && file != "CHANGELOG.md" {
            findings.extend(repository.missing(file, &read(file)?, |_| true));
        } else if file.ends_with(".rs") {
            findings
                .extend(repository.missing(file, &read(file)?, |line| line.trim_start().starts_with("//")));
        }
    }
    Ok(findings)
}

/// The files of the repository, and their texts.
struct Repository<'a> {
    files: Vec<&'a str>,
    read: &'a dyn Fn(&str) -> Option<String>,
}

impl Repository<'_> {
    /// A line for each path that is not there, in those lines of a text that are looked at.
    fn missing(&self, document: &str, text: &str, is_looked_at: impl Fn(&str) -> bool) -> Vec<String> {
        let mut findings = Vec::new();
        for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| is_looked_at(line)) {
            let gone = names(line).filter(|name| !self.has(document, name));
            findings.extend(gone.map(|name| format!("{document}:{number}: `{name}` does not exist")));
        }
        findings
    }

    /// True if there is such a file or folder, and what is named of it.
    fn has(&self, document: &str, name: &str) -> bool {
        let name = name.trim_start_matches("../");
        let (path, of_it) = match name.split_once(".rs:") {
            Some((path, of_it)) => (format!("{path}.rs"), of_it),
            None => (name.split('#').next().unwrap_or(name).trim_end_matches('/').to_owned(), ""),
        };
        let folder = document.rsplit_once('/').map_or("", |(folder, _)| folder);
        let beside = format!("{folder}/{path}");
        // Of a path without its first folders, the end is enough.
        let is_it = |file: &&&str| {
            **file == path
                || **file == beside.trim_start_matches('/')
                || file.ends_with(&format!("/{path}"))
                || file.starts_with(&format!("{path}/"))
        };
        let mut found = self.files.iter().filter(is_it);
        if of_it.is_empty() {
            return found.next().is_some();
        }
        let defines_it = |text: String| of_it.split("::").all(|name| defines(&text, name));
        found.any(|file| (self.read)(file).is_some_and(defines_it))
    }
}

/// True if a Rust file defines this name: as an item, or as a variant or a field at the beginning of a line.
fn defines(text: &str, name: &str) -> bool {
    const ITEMS: [&str; 10] =
        ["fn", "struct", "enum", "const", "static", "trait", "type", "mod", "macro_rules!", "union"];
    let is_name = |word: &str| word.split(|c: char| !(c.is_alphanumeric() || c == '_')).next() == Some(name);
    text.lines().map(str::trim_start).filter(|line| !line.starts_with("//")).any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_item = words.windows(2).any(|two| ITEMS.contains(&two[0]) && is_name(two[1]));
        let rest = line.trim_start_matches("pub(crate) ").trim_start_matches("pub ").strip_prefix(name);
        let ends = |rest: &str| rest.is_empty() || rest.starts_with([',', '(', '{', ':']) || rest == " {";
        is_item || rest.is_some_and(|rest| ends(rest) && !rest.starts_with("::"))
    })
}

/// The names in a line that can be paths of the repository: those below its folders, Rust files and
/// documents. One with `NAME`, `*`, `{` or `$` is a pattern; one with a scheme or from the root is elsewhere,
/// and so are documents in `.rst`, which are those of Linux and QEMU.
fn names(line: &str) -> impl Iterator<Item = &str> {
    let ends = |c: char| c.is_whitespace() || "`()[]<>\"',;|".contains(c);
    let words = line.split(ends).map(|word| word.trim_end_matches(['.', ':', '!', '?']));
    words.filter(|word| {
        let path = word.split(['#', ':']).next().unwrap_or(word);
        let is_below = |folder: &str| path.starts_with(folder) && path.len() > folder.len();
        let is_file = |end: &str| path.ends_with(end) && path.len() > end.len();
        let is_path = FOLDERS.into_iter().any(is_below) || [".rs", ".md"].into_iter().any(is_file);
        let is_elsewhere = word.contains("//") || path.starts_with(['/', '~', '-']) || path.ends_with(".rst");
        is_path && !is_elsewhere && !word.contains("NAME") && !word.contains(['*', '{', '$', '…'])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(document: &str, text: &str) -> Vec<String> {
        let files = vec!["README.md", "crates/core/src/lib.rs", "crates/path/src/units.rs", "docs/lab.md"];
        let read = |file: &str| {
            file.ends_with("units.rs")
                .then(|| "pub(crate) fn parse() {}\nenum Unit {\n    Byte,\n}\n// fn gone()".to_owned())
        };
        Repository { files, read: &read }.missing(document, text, |_| true)
    }

    #[test]
    fn a_path_that_is_gone_is_named_with_its_line() {
        let text =
            "`crates/core`, `gone.rs`,\n`docs/gone.md`, `target/`, `crates/NAME.rs`, `docs/*.md`, /x/y.rs";
        let gone = ["a.md:1: `gone.rs` does not exist", "a.md:2: `docs/gone.md` does not exist"];
        assert_eq!(missing("a.md", text), gone);
    }

    #[test]
    fn a_path_is_looked_for_wherever_it_is_named() {
        let gone = |text| missing("docs/a.md", text).len();
        for there in [
            "plain crates/path/src/units.rs.",
            "a link [x](lab.md#kernels), [y](../docs/lab.md)",
            "path/src/units.rs and units.rs:parse, units.rs:Unit::Byte, src/",
            "https://example.org/gone.md",
        ] {
            assert_eq!(gone(there), 0, "{there}");
        }
        for text in [
            "plain crates/core/src/gone.rs.",
            "a link [x](gone.md#kernels)",
            "    cat crates/core/gone.toml",
            "core/units.rs",
            "`units.rs:gone`",
            "`units.rs:pars`",
            "`units.rs:Unit::Bit`",
        ] {
            assert_eq!(gone(text), 1, "{text}");
        }
    }
}
