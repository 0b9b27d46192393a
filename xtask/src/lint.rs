//! `cargo xtask lint`: what can be checked without tests: format, clippy, docs, licences and advisories, the
//! crate table, knots of modules, the index of files, sizes, width, paths in documents, meters of the tests'
//! studies, keys of docs/trust.md, lock files, the oldest Rust.

use crate::options::{Options, Part};
use crate::workspace::Workspace;
use crate::{crates, files, meters, modules, needs, paths, shell, sizes, trust, width};
use anyhow::{Context, Result, bail};

/// The crate of the fuzz targets, which is not in the workspace.
const FUZZ: &str = "fuzz/Cargo.toml";

/// Seconds that fetching the advisory database may take.
const FETCH_LIMIT_S: u32 = 120;

const PARTS: [Part; 14] = [
    ("crates", |workspace| {
        no_findings("crate table", || {
            let architecture =
                std::fs::read_to_string(workspace.root.join("ARCHITECTURE.md")).context("ARCHITECTURE.md")?;
            Ok(crates::findings(&architecture, &workspace.metadata))
        })
    }),
    ("modules", |workspace| {
        no_findings("knots of modules", || modules::findings(&workspace.root, &workspace.metadata))
    }),
    ("files", |workspace| no_findings("index of files", || files::findings(workspace))),
    ("sizes", |workspace| no_findings("sizes", || sizes::findings(&workspace.root))),
    ("width", |workspace| no_findings("width", || width::findings(workspace))),
    ("paths", |workspace| no_findings("paths in documents", || paths::findings(workspace))),
    ("meters", |workspace| no_findings("meters of the tests' studies", || meters::findings(workspace))),
    ("trust", |workspace| no_findings("keys of docs/trust.md", || trust::findings(workspace))),
    ("locks", lock_files),
    ("format", format),
    ("clippy", clippy),
    ("docs", docs),
    ("msrv", minimum_rust),
    ("licences", licences),
];

pub(crate) fn run(workspace: &Workspace, options: Options) -> Result<()> {
    let failures = options.run_parts(&PARTS, workspace)?.into_iter();
    let failures: Vec<String> = failures.map(|(_, error)| format!("{error:#}")).collect();
    if !failures.is_empty() {
        bail!("{} of the steps failed\n  {}", failures.len(), failures.join("\n  "));
    }
    Ok(())
}

/// Runs a check as a named step, which fails if it finds anything.
fn no_findings(name: &str, check: impl FnOnce() -> Result<Vec<String>>) -> Result<()> {
    shell::timed(name, || {
        let findings = check()?;
        for finding in &findings {
            println!("{finding}");
        }
        match findings.len() {
            0 => Ok(()),
            count => bail!("{count} findings"),
        }
    })
}

/// Refuses a `Cargo.lock` that does not match its manifest.
fn lock_files(workspace: &Workspace) -> Result<()> {
    shell::timed("lock files", || {
        ["Cargo.toml", FUZZ].iter().try_for_each(|manifest| {
            let words = format!("metadata --locked --format-version 1 --manifest-path {manifest}");
            shell::output(&mut workspace.cargo(&words)).map(|_| ())
        })
    })
}

fn format(workspace: &Workspace) -> Result<()> {
    let check = format!("fmt --manifest-path {FUZZ} --check");
    let fuzz = shell::step("format of the fuzz targets", &mut workspace.cargo(&check));
    both(shell::step("format", &mut workspace.cargo("fmt --all --check")), fuzz)
}

fn clippy(workspace: &Workspace) -> Result<()> {
    let deny = ["--", "-D", "warnings"];
    let all = "clippy --workspace --all-targets --all-features";
    let all = shell::step("clippy", workspace.cargo(all).args(deny));
    // As most users build it: what only another feature uses is dead there.
    let bare = shell::step("clippy of the program", workspace.cargo("clippy --package iopj").args(deny));
    let mut fuzz = workspace.cargo(&format!("clippy --manifest-path {FUZZ} --target-dir"));
    let fuzz = shell::step("clippy of the fuzz targets", fuzz.arg(&workspace.target).args(deny));
    both(both(all, bare), fuzz)
}

/// The errors of both steps, if there are any.
fn both(one: Result<()>, other: Result<()>) -> Result<()> {
    match (one, other) {
        (Err(one), Err(other)) => bail!("{one:#}\n  {other:#}"),
        (one, other) => one.and(other),
    }
}

fn docs(workspace: &Workspace) -> Result<()> {
    let mut doc = workspace.cargo("doc --workspace --all-features --no-deps");
    shell::step("docs", doc.env("RUSTDOCFLAGS", "-D warnings"))
}

/// Checks every library and program with the oldest Rust that the manifests allow. Its builds are kept apart.
fn minimum_rust(workspace: &Workspace) -> Result<()> {
    let rust_version = &workspace.metadata["packages"][0]["rust_version"];
    let version = rust_version.as_str().context("Cargo.toml has no `rust-version`")?;
    needs::toolchain(workspace, version, "", &[])?;
    let mut check = workspace.cargo(&format!("+{version} check --workspace --all-features --target-dir"));
    shell::step(&format!("Rust {version}"), check.arg(workspace.target.join("msrv")))
}

/// cargo-deny: bans, licences and sources, and advisories if their database can be fetched.
fn licences(workspace: &Workspace) -> Result<()> {
    if !shell::succeeds(&mut workspace.cargo("deny --version")) {
        // It runs for seconds: a fast build of it saves minutes.
        let mut install = workspace.cargo("install --locked --debug cargo-deny");
        shell::step("installing cargo-deny", install.env("CARGO_PROFILE_DEV_DEBUG", "0"))?;
    }
    let check = "deny --all-features check bans licenses sources";
    shell::step("bans, licences, sources", &mut workspace.cargo(check))?;
    let fetch = format!("{FETCH_LIMIT_S} cargo deny fetch db");
    match shell::step("advisory database", &mut workspace.program("timeout", &fetch)) {
        Ok(()) => {
            let check = "deny --all-features check --disable-fetch advisories";
            shell::step("advisories", &mut workspace.cargo(check))
        }
        Err(error) => {
            println!("advisories not checked: their database cannot be fetched: {error:#}");
            Ok(())
        }
    }
}
