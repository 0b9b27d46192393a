//! The pages of `docs/` as mdBook takes them, and the summary with the pages that are made.

use super::links::{ABOVE, page_of, turned};
use super::reference::Page;
use crate::shell;
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;

const SUMMARY: &str = "docs/SUMMARY.md";
/// Files that stand beside the pages, not among them.
const BESIDE: [&str; 2] = ["docs/book.toml", "docs/book.css"];

/// Indexes for those who change the code; they are no part of the readers' book.
const OUTSIDE: [&str; 2] = ["docs/features.md", "docs/files.md"];

/// Writes the folder that mdBook reads; `made` holds the pages that are there already, by the name of their
/// place in the summary.
pub(super) fn write(workspace: &Workspace, source: &Path, made: &[(&str, Vec<Page>)]) -> Result<()> {
    let listed =
        shell::output(&mut workspace.program("git", "ls-files --cached --others --exclude-standard docs"))?;
    let in_book = listed.lines().filter(|file| !OUTSIDE.contains(file));
    let files: Vec<&str> = in_book.chain(ABOVE).collect();
    let pages: Vec<String> = files.iter().filter_map(|file| page_of(file)).collect();
    let is_page = |page: &str| page != "SUMMARY.md" && pages.iter().any(|one| one == page);
    let summary = summary(&read(workspace, SUMMARY)?, &is_page, made)?;
    let missing: Vec<_> =
        pages.iter().filter(|page| is_missing(page, &summary)).map(String::as_str).collect();
    if !missing.is_empty() {
        bail!("{SUMMARY} does not have {}: add a line for each", missing.join(", "));
    }
    for file in files {
        let (from, beside) = (workspace.root.join(file), BESIDE.contains(&file));
        let Some(page) = page_of(file).filter(|_| !beside) else {
            fs::copy(&from, source.join(from.file_name().unwrap_or_default()))?;
            continue;
        };
        let to = source.join("src").join(&page);
        fs::create_dir_all(to.parent().unwrap_or(source))?;
        match file.ends_with(".md") {
            true => fs::write(to, turned(file, &read(workspace, file)?, &is_page))?,
            false => drop(fs::copy(&from, to)?),
        }
    }
    fs::write(source.join("src/SUMMARY.md"), summary)?;
    Ok(())
}

fn read(workspace: &Workspace, file: &str) -> Result<String> {
    fs::read_to_string(workspace.root.join(file)).with_context(|| file.to_owned())
}

/// Whether a page of Markdown is not in the summary.
fn is_missing(page: &str, summary: &str) -> bool {
    page.ends_with(".md") && page != "SUMMARY.md" && !summary.contains(&format!("]({page})"))
}

/// The summary with the lines of the pages that are made, without comments, which mdBook does not take there.
fn summary(text: &str, is_page: &dyn Fn(&str) -> bool, made: &[(&str, Vec<Page>)]) -> Result<String> {
    let mut lines = Vec::new();
    // The first page keeps its name here, because mdBook reads it by that.
    for line in turned(SUMMARY, text, is_page).replace("](index.md)", "](README.md)").lines() {
        match line.strip_prefix("<!-- generated: ").and_then(|line| line.strip_suffix(" -->")) {
            Some(place) => {
                let pages = made.iter().find(|(name, _)| *name == place);
                let (_, pages) = pages.with_context(|| format!("{SUMMARY} has a place for `{place}`"))?;
                lines.extend(pages.iter().map(line_of));
            }
            None if line.starts_with("<!--") => {}
            None => lines.push(line.to_owned()),
        }
    }
    Ok(lines.join("\n") + "\n")
}

/// The line of a page that is made. A page of a command is below that of all commands.
fn line_of((title, page): &Page) -> String {
    let indentation = if title.starts_with('`') { "    " } else { "" };
    format!("{indentation}- [{title}]({page})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_pages_take_their_places() {
        let text = "# S\n<!-- generated: a -->\n- [X](x.md)\n- [Y](../CHANGELOG.md)\n<!-- later -->\n";
        let made = [("a", vec![("M".to_owned(), "m.md".to_owned())])];
        let summary_of = |made| summary(text, &|_| true, made);
        let whole = summary_of(&made).unwrap();
        assert_eq!(whole, "# S\n- [M](m.md)\n- [X](x.md)\n- [Y](CHANGELOG.md)\n");
        assert!(summary_of(&[]).unwrap_err().to_string().contains("place for `a`"));
        assert!(is_missing("z.md", &whole) && !is_missing("x.md", &whole) && !is_missing("z.svg", &whole));
    }
}
