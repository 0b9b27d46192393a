//! The index of source files, `docs/files.md`: every file of the crates but tests, with the first sentence of
//! its own header. Lint compares the index with the files.

use crate::options::Options;
use crate::shell;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::fmt::Write;
use std::fs;

const INDEX: &str = "docs/files.md";

const HEAD: &str = "\
# Files

Every source file, with the first sentence of its header. Which file to change for what is in
[ARCHITECTURE.md](../ARCHITECTURE.md). `cargo xtask files` writes this page, and lint compares it.
";

/// Writes the index.
pub(crate) fn run(workspace: &Workspace, options: Options) -> Result<()> {
    options.end()?;
    fs::write(workspace.root.join(INDEX), index(workspace)?).context(INDEX)
}

/// A line if the index is not that of the files.
pub(crate) fn findings(workspace: &Workspace) -> Result<Vec<String>> {
    let stored = fs::read_to_string(workspace.root.join(INDEX)).context(INDEX)?;
    let is_current = stored == index(workspace)?;
    Ok(if is_current { Vec::new() } else { vec![format!("{INDEX} is old: run `cargo xtask files`")] })
}

fn index(workspace: &Workspace) -> Result<String> {
    let files = shell::output(&mut workspace.program("git", "ls-files crates xtask"))?;
    let mut index = String::from(HEAD);
    let mut folder = "";
    for file in files.lines().filter(|file| file.ends_with(".rs")) {
        let Some((source, name)) = file.split_once("/src/") else { continue };
        if name.contains("tests") {
            continue;
        }
        if folder != source {
            folder = source;
            let _ = write!(index, "\n## `{folder}/src`\n\n| file | holds |\n|---|---|\n");
        }
        let text = fs::read_to_string(workspace.root.join(file)).with_context(|| file.to_owned())?;
        let _ = writeln!(index, "| `{name}` | {} |", first_sentence(&text));
    }
    Ok(index)
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
}
