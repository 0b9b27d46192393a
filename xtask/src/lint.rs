//! `cargo xtask lint`: format, clippy, docs, licences and advisories, the crate table, sizes.

use crate::options::Options;
use crate::workspace::Workspace;
use crate::{crates, shell, sizes};
use anyhow::{Result, bail};

/// The crate of the fuzz targets, which is no member of the workspace.
const FUZZ: &str = "fuzz/Cargo.toml";

/// Seconds that the fetch of the advisory database may take.
const FETCH_LIMIT_S: &str = "120";

pub(crate) fn run(workspace: &Workspace, options: Options) -> Result<()> {
    options.end()?;
    let cargo = |arguments: &[&str]| workspace.cargo(arguments);
    let deny = ["--", "-D", "warnings"];
    let clippy = ["clippy", "--workspace", "--all-targets", "--all-features"];
    let clippy_fuzz = ["clippy", "--manifest-path", FUZZ, "--target-dir"];
    let doc = ["doc", "--workspace", "--all-features", "--no-deps"];
    // Every step runs, so that one run names all there is to mend.
    let steps = [
        shell::timed("crate table", || no_findings(&crates::findings(&workspace.metadata))),
        shell::timed("sizes", || no_findings(&sizes::findings(&workspace.root)?)),
        shell::timed("lock files", || {
            ["Cargo.toml", FUZZ].iter().try_for_each(|manifest| lock_file(workspace, manifest))
        }),
        shell::step("format", &mut cargo(&["fmt", "--all", "--check"])),
        shell::step("format of the fuzz targets", &mut cargo(&["fmt", "--manifest-path", FUZZ, "--check"])),
        shell::step("clippy", cargo(&clippy).args(deny)),
        shell::step("clippy of the fuzz targets", cargo(&clippy_fuzz).arg(&workspace.target).args(deny)),
        shell::step("docs", cargo(&doc).env("RUSTDOCFLAGS", "-D warnings")),
        licences(workspace),
    ];
    let failures: Vec<String> =
        steps.into_iter().filter_map(Result::err).map(|error| format!("{error:#}")).collect();
    if !failures.is_empty() {
        bail!("{} of the steps failed\n  {}", failures.len(), failures.join("\n  "));
    }
    Ok(())
}

fn no_findings(findings: &[String]) -> Result<()> {
    for finding in findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        count => bail!("{count} findings"),
    }
}

/// Refuses a `Cargo.lock` that does not fit its manifest.
fn lock_file(workspace: &Workspace, manifest: &str) -> Result<()> {
    let arguments = ["metadata", "--locked", "--format-version", "1", "--manifest-path", manifest];
    shell::output(&mut workspace.cargo(&arguments)).map(|_| ())
}

/// cargo-deny over bans, licences and sources, and over advisories where their database can be had.
fn licences(workspace: &Workspace) -> Result<()> {
    if !shell::succeeds(&mut workspace.cargo(&["deny", "--version"])) {
        shell::step("installing cargo-deny", &mut workspace.cargo(&["install", "--locked", "cargo-deny"]))?;
    }
    let check = ["deny", "--all-features", "check", "bans", "licenses", "sources"];
    shell::step("bans, licences, sources", &mut workspace.cargo(&check))?;
    let fetch = [FETCH_LIMIT_S, "cargo", "deny", "fetch", "db"];
    match shell::step("advisory database", &mut workspace.program("timeout", &fetch)) {
        Ok(()) => {
            let check = ["deny", "--all-features", "check", "--disable-fetch", "advisories"];
            shell::step("advisories", &mut workspace.cargo(&check))
        }
        Err(error) => {
            println!("advisories not checked: their database cannot be fetched: {error:#}");
            Ok(())
        }
    }
}
