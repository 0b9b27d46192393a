//! The gallery: figures that the program draws of a store that it measured here.

use super::reference::Page;
use crate::shell;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The study of the gallery: options of `iopj run`.
const STUDY: &str = "--name gallery --iodepth 1,8,32 --numjobs 1,2 --replicates 3 --size 256m \
                     --ramp-time 200ms --runtime 500ms --meters none";

/// The store of the gallery, which is measured once: remove it to measure again.
pub(super) fn store(workspace: &Workspace, iopj: &Path) -> Result<PathBuf> {
    let folder = workspace.target.join("book-store");
    let store = folder.join("gallery.iopj");
    if !store.exists() {
        // What a measurement that was stopped has left.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        let mut run = Command::new(iopj);
        run.current_dir(&folder).arg("run").args(STUDY.split_whitespace()).arg("--store").arg("new.iopj");
        shell::step("measuring for the gallery", &mut run)?;
        fs::rename(folder.join("new.iopj"), &store)?;
    }
    Ok(store)
}

/// Writes the gallery below `folder`: its page, and its figures.
pub(super) fn write(iopj: &Path, store: &Path, folder: &Path) -> Result<Vec<Page>> {
    let figures = folder.join("figures");
    // Where other work disturbs every trial, the figures still have marks, and say so.
    let words = ["--with-unproven", "--figures"];
    shell::output(Command::new(iopj).arg("report").arg(store).args(words).arg(&figures))?;
    let tables = shell::output(Command::new(iopj).arg("report").arg(store).arg("--with-unproven"))?;
    let names = fs::read_dir(&figures)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let shown = one_of_each_kind(names.collect());
    anyhow::ensure!(!shown.is_empty(), "`iopj report --figures` drew nothing");
    for entry in fs::read_dir(&figures)? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let is_shown = shown.values().any(|one| *one == name.trim_end_matches("-dark"));
        if !is_shown || path.extension().is_none_or(|end| end != "svg") {
            fs::remove_file(&path).with_context(|| path.display().to_string())?;
        }
    }
    fs::write(folder.join("gallery.md"), page(&shown, &tables, &figures)?)?;
    Ok(vec![("Figures".to_owned(), "gallery.md".to_owned())])
}

/// The first figure of each kind, by kind: names are `KIND-WORKLOAD.svg`, or `KIND.svg`.
fn one_of_each_kind(mut names: Vec<String>) -> BTreeMap<String, String> {
    names.sort();
    let mut shown = BTreeMap::new();
    for stem in names.iter().filter_map(|name| name.strip_suffix(".svg")) {
        let kind = stem.split("-randread").next().unwrap_or(stem);
        if !stem.ends_with("-dark") {
            shown.entry(kind.to_owned()).or_insert_with(|| stem.to_owned());
        }
    }
    shown
}

fn page(shown: &BTreeMap<String, String>, tables: &str, figures: &Path) -> Result<String> {
    // What was measured, and on what; the file's place is of no interest.
    let target =
        tables.lines().find(|line| line.starts_with("target ")).and_then(|line| line.split_once(", "));
    let (_, machine) = target.context("`iopj report` names no target")?;
    let head = format!("{}\n{machine}", tables.lines().next().unwrap_or_default());
    let mut text = format!(
        "# Gallery\n\nThe figures that the program drew when this book was made, one of each kind:\n\n\
         ```sh\niopj run {STUDY}\niopj report gallery.iopj --with-unproven --figures figures\n```\n\n\
         ```text\n{head}\n```\n\nHollow marks are trials that are unproven, or that something else \
         disturbed. They show what the program\ndraws, not what a drive is worth: windows of half a second \
         on a machine that made a book meanwhile.\n"
    );
    for name in shown.values() {
        let svg = fs::read_to_string(figures.join(format!("{name}.svg"))).context("a figure")?;
        let title = capital(title(&svg).with_context(|| format!("the figure {name} has no title"))?);
        let _ = write!(text, "\n## {title}\n\n");
        for (class, end) in [("of-light", ""), ("of-dark", "-dark")] {
            let _ = writeln!(text, "<img class=\"{class}\" src=\"figures/{name}{end}.svg\" alt=\"{title}\">");
        }
    }
    Ok(text)
}

/// The text with a capital at its beginning.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// The title of a figure.
fn title(svg: &str) -> Option<&str> {
    Some(svg.split_once("<title>")?.1.split_once("</title>")?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_figure_of_each_kind_is_shown() {
        let names =
            ["b-randread-4k-numjobs-2.svg", "b-randread-4k-numjobs-1.svg", "a.svg", "a-dark.svg", "a.pdf"];
        let shown = one_of_each_kind(names.map(str::to_owned).to_vec());
        let shown: Vec<_> = shown.iter().map(|(kind, name)| (kind.as_str(), name.as_str())).collect();
        assert_eq!(shown, [("a", "a"), ("b", "b-randread-4k-numjobs-1")]);
    }

    #[test]
    fn a_figure_has_its_title() {
        assert_eq!(title("<svg><title>IOPS over time</title><style>"), Some("IOPS over time"));
        assert_eq!(title("<svg>"), None);
    }
}
