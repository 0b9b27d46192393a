//! `cargo xtask book`: the book in `target/book`, which mdBook makes of `docs/`, with a reference from the
//! program and its sources, and a gallery of figures of the program's own.

mod code;
mod gallery;
mod json;
mod links;
mod pages;
mod reference;

use crate::options::Options;
use crate::shell;
use crate::workspace::Workspace;
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The mdBook that makes the book.
const MDBOOK: &str = "0.5.4";
/// The test that opens each page in a browser, and the variables that tell it the book, and where its
/// pictures go.
const CHECK: &str = "test --package iopj --test docs -- --ignored --nocapture the_book_in_a_browser";
const BOOK: &str = "IOPJ_BOOK";
const SHOTS: &str = "IOPJ_BOOK_SHOTS";

/// Makes the book; with `--check` it is then looked at.
pub(crate) fn run(workspace: &Workspace, mut options: Options) -> Result<()> {
    let look = options.flag("--check");
    options.end()?;
    if look { check(workspace) } else { make(workspace).map(drop) }
}

/// Makes the book, opens every page in a browser, follows every link, and searches.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let book = make(workspace)?;
    let shots = workspace.target.join("book-shots");
    let mut test = workspace.cargo(CHECK);
    shell::step("book in a browser", test.env(BOOK, &book).env(SHOTS, &shots))?;
    println!("pictures: {}", shots.display());
    Ok(())
}

/// The folder of the book, made anew.
fn make(workspace: &Workspace) -> Result<PathBuf> {
    let mdbook = mdbook(workspace)?;
    let iopj = workspace.release_binary()?;
    let source = workspace.target.join("book-source");
    let book = workspace.target.join("book");
    shell::timed("pages", || assemble(workspace, &iopj, &source))?;
    let mut build = Command::new(mdbook);
    shell::step("book", build.arg("build").arg(&source).arg("--dest-dir").arg(&book))?;
    println!("{}", book.join("index.html").display());
    Ok(book)
}

/// mdBook, which is built once. It runs for seconds: a fast build of it saves minutes.
fn mdbook(workspace: &Workspace) -> Result<PathBuf> {
    let tools = workspace.target.join("tools");
    let mdbook = tools.join("bin/mdbook");
    let version = shell::output(Command::new(&mdbook).arg("--version")).unwrap_or_default();
    if version.trim() != format!("mdbook v{MDBOOK}") {
        let words = format!("install mdbook --version {MDBOOK} --locked --debug --force");
        let mut install = workspace.cargo(&words);
        // Without its server.
        install.args(["--no-default-features", "--features", "search"]);
        install.env("CARGO_PROFILE_DEV_DEBUG", "0").arg("--root").arg(&tools);
        shell::step("installing mdBook", &mut install)?;
    }
    Ok(mdbook)
}

/// Writes all that mdBook reads into the folder `source`.
fn assemble(workspace: &Workspace, iopj: &Path, source: &Path) -> Result<()> {
    let _ = std::fs::remove_dir_all(source);
    let folder = source.join("src");
    let store = gallery::store(workspace, iopj)?;
    let reference = reference::write(workspace, iopj, &store, &folder)?;
    let gallery = gallery::write(iopj, &store, &folder)?;
    pages::write(workspace, source, &[("reference", reference), ("gallery", gallery)])
}
