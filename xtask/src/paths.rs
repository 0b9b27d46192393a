//! Paths named in the documents: every file or folder in backquotes must exist.

use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

const DOCUMENTS: [&str; 4] = ["ARCHITECTURE.md", "CONTRIBUTING.md", "DEPENDENCIES.md", "README.md"];
/// What a path of the repository begins with.
const FOLDERS: [&str; 6] = ["crates/", "xtask/", "docs/", "studies/", "fuzz/", ".ci/"];

/// A line for each named path that does not exist.
///
/// # Errors
/// A document cannot be read.
pub(crate) fn findings(root: &Path) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    let pages = fs::read_dir(root.join("docs"))?.collect::<Result<Vec<_>, _>>()?;
    let pages = pages.into_iter().map(|page| page.path()).filter(|page| page.is_file());
    for document in DOCUMENTS.iter().map(|name| root.join(name)).chain(pages) {
        let text = fs::read_to_string(&document).with_context(|| document.display().to_string())?;
        let missing = named(&text).filter(|(_, path)| !root.join(path).exists());
        let name = document.strip_prefix(root).unwrap_or(&document).display();
        findings.extend(missing.map(|(line, path)| format!("{name}:{line}: `{path}` does not exist")));
    }
    Ok(findings)
}

/// The paths in backquotes with their lines. A path with `NAME`, `*` or a blank is a pattern or a command.
fn named(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let spans = |line| str::split(line, '`').skip(1).step_by(2);
    let is_path = |span: &&str| {
        FOLDERS.iter().any(|folder| span.starts_with(folder))
            && !span.contains("NAME")
            && !span.contains(['*', ' '])
    };
    (1..).zip(text.lines()).flat_map(move |(number, line)| {
        spans(line).filter(is_path).map(move |path| (number, path))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_by_their_first_folder() {
        let text = "see `crates/core` and\n`xtask/src/lint.rs`, not `target/`, `crates/NAME.rs`, `docs/*.md`";
        assert_eq!(named(text).collect::<Vec<_>>(), [(1, "crates/core"), (2, "xtask/src/lint.rs")]);
    }

    #[test]
    fn a_path_that_is_gone_is_named_with_its_line() {
        let root = std::env::temp_dir().join(format!("iopj-paths-{}", std::process::id()));
        fs::create_dir_all(root.join("docs")).unwrap();
        for name in DOCUMENTS {
            fs::write(root.join(name), "").unwrap();
        }
        fs::write(root.join("docs/a.md"), "`docs/a.md`\n`docs/b.md`").unwrap();
        assert_eq!(findings(&root).unwrap(), ["docs/a.md:2: `docs/b.md` does not exist"]);
        fs::remove_dir_all(root).unwrap();
    }
}
