//! The index of source files, `docs/files.md`: every file of the crates but tests, with the first sentence of
//! its own header. Lint compares the index with the files.

use crate::features;
use crate::options::Options;
use crate::shell;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::fmt::Write;
use std::fs;

const INDEX: &str = "docs/files.md";
/// The files that it lists.
const SOURCES: &str = "ls-files crates/*/src/*.rs python/src/*.rs xtask/src/*.rs";

const HEAD: &str = "\
# Files

Every source file, with the first sentence of its header. Which file to change for what is in
[ARCHITECTURE.md](../ARCHITECTURE.md). `cargo xtask files` writes this page, and lint compares it.
";

/// Writes the index, and that of features.
pub(crate) fn run(workspace: &Workspace, options: Options) -> Result<()> {
    options.end()?;
    fs::write(workspace.root.join(INDEX), index(&entries(workspace)?)).context(INDEX)?;
    features::write(workspace)
}

/// A line for each file without a header, and one if the index is not that of the files.
pub(crate) fn findings(workspace: &Workspace) -> Result<Vec<String>> {
    let stored = fs::read_to_string(workspace.root.join(INDEX)).context(INDEX)?;
    let entries = entries(workspace)?;
    let headless = entries.iter().filter(|(_, sentence)| sentence.is_empty());
    let mut findings: Vec<String> =
        headless.map(|(file, _)| format!("{file}:1: the file has no header: begin it with `//!`")).collect();
    if stored != index(&entries) {
        findings.push(format!("{INDEX} is old: run `cargo xtask files`"));
    }
    findings.extend(features::findings(workspace)?);
    Ok(findings)
}

/// Each source file and its first sentence.
fn entries(workspace: &Workspace) -> Result<Vec<(String, String)>> {
    let files = shell::output(&mut workspace.program("git", SOURCES))?;
    let is_source = |file: &&str| file.split_once("/src/").is_some_and(|(_, name)| !name.contains("tests"));
    let entry = |file: &str| {
        let text = fs::read_to_string(workspace.root.join(file)).with_context(|| file.to_owned())?;
        Ok((file.to_owned(), first_sentence(&text)))
    };
    files.lines().filter(is_source).map(entry).collect()
}

fn index(entries: &[(String, String)]) -> String {
    let (mut index, mut folder) = (String::from(HEAD), "");
    for (file, sentence) in entries {
        let Some((crate_folder, name)) = file.split_once("/src/") else { continue };
        if folder != crate_folder {
            folder = crate_folder;
            let _ = write!(index, "\n## `{folder}/src`\n\n| file | holds |\n|---|---|\n");
        }
        let _ = writeln!(index, "| `{name}` | {sentence} |");
    }
    index
}

/// The first sentence of a file's header, in one line for a table.
fn first_sentence(text: &str) -> String {
    let header = text.lines().map_while(|line| line.strip_prefix("//!")).take_while(|line| !line.is_empty());
    let paragraph = header.map(str::trim).collect::<Vec<_>>().join(" ");
    let sentence = paragraph.split(". ").next().unwrap_or_default().trim_end_matches('.');
    sentence.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_files_first_sentence_is_its_entry() {
        let text = "//! Reads `a|b` from\n//! a disk. More.\n//!\n//! Else.\nuse std::fs;\n";
        assert_eq!(first_sentence(text), "Reads `a\\|b` from a disk");
        assert_eq!(first_sentence("use std::fs;\n"), "");
    }

    #[test]
    fn files_are_listed_by_folder() {
        let entry = |file: &str, sentence: &str| (file.to_owned(), sentence.to_owned());
        let entries = [
            entry("crates/core/src/lib.rs", "Words"),
            entry("crates/core/src/path/text.rs", "Paths"),
            entry("xtask/src/main.rs", "Tasks"),
        ];
        let table = "| file | holds |\n|---|---|\n";
        assert_eq!(
            index(&entries).strip_prefix(HEAD).unwrap(),
            format!(
                "\n## `crates/core/src`\n\n{table}| `lib.rs` | Words |\n| `path/text.rs` | Paths |\n\n## \
                 `xtask/src`\n\n{table}| `main.rs` | Tasks |\n"
            )
        );
    }
}
