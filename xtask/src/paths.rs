//! Paths named in the documents: every file or folder in backquotes must exist, a Rust file without its
//! folder somewhere in the repository.

use crate::shell;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::fs;

/// What a path of the repository begins with.
const FOLDERS: [&str; 6] = ["crates/", "xtask/", "docs/", "studies/", "fuzz/", ".ci/"];

/// A line `document:line: ...` for each named path that does not exist.
///
/// # Errors
/// git cannot list the files, or a document cannot be read.
pub(crate) fn findings(workspace: &Workspace) -> Result<Vec<String>> {
    let files = shell::output(&mut workspace.program("git", "ls-files"))?;
    let exists = |path: &str| match path.contains('/') {
        true => workspace.root.join(path).exists(),
        false => files.lines().any(|file| file.rsplit('/').next() == Some(path)),
    };
    let mut findings = Vec::new();
    for document in files.lines().filter(|file| file.ends_with(".md")) {
        let text = fs::read_to_string(workspace.root.join(document)).with_context(|| document.to_owned())?;
        findings.extend(missing(document, &text, exists));
    }
    Ok(findings)
}

/// A line for each path in backquotes that is not there. One with `NAME`, `*` or a blank is a pattern or a
/// command.
fn missing(document: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let is_path = |span: &str| {
        (FOLDERS.iter().any(|folder| span.starts_with(folder))
            || span.ends_with(".rs") && !span.contains('/'))
            && !span.contains("NAME")
            && !span.contains(['*', ' '])
    };
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let spans = line.split('`').skip(1).step_by(2);
        let gone = spans.filter(|span| is_path(span) && !exists(span));
        findings.extend(gone.map(|path| format!("{document}:{number}: `{path}` does not exist")));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_gone_is_named_with_its_line() {
        let text =
            "`crates/core`, `gone.rs`,\n`docs/gone.md`, `target/`, `crates/NAME.rs`, `docs/*.md`, `a/b.rs`";
        let exists = |path: &str| path == "crates/core";
        assert_eq!(
            missing("a.md", text, exists),
            ["a.md:1: `gone.rs` does not exist", "a.md:2: `docs/gone.md` does not exist"]
        );
    }
}
