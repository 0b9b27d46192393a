//! `cargo xtask soak`: what takes too long for the gate. Each part has a short sibling among the tests.

use crate::options::{Options, Part};
use crate::results::Results;
use crate::workspace::Workspace;
use crate::{binaries, book, cross, fuzz, machines, queries, semver};
use anyhow::{Result, bail};

/// Cases of a property test that sets no number of its own; 256 in the gate.
const CASES: &str = "10000";

const PARTS: [Part; 9] = [
    ("ignored", ignored),
    ("properties", properties),
    ("address", address),
    ("semver", semver::check),
    ("book", book::check),
    ("arm", cross::all_unit_tests),
    ("fuzz", fuzz::soak),
    ("queries", queries::all),
    ("machines", machines::all),
];

pub(crate) fn run(workspace: &Workspace, options: Options) -> Result<()> {
    let failed = options.run_parts(&PARTS, workspace)?;
    for (name, error) in &failed {
        println!("failed: {name}: {error:#}");
    }
    if !failed.is_empty() {
        bail!("{} of the soaks failed: the list is above", failed.len());
    }
    Ok(())
}

/// The ignored tests whose names begin with `soak_`.
fn ignored(workspace: &Workspace) -> Result<()> {
    let words = "test --workspace --all-features --no-fail-fast -- --show-output --ignored soak_";
    judged("the tests that are soaks", binaries::run_cargo(workspace.cargo(words))?)
}

/// The property tests with many cases.
fn properties(workspace: &Workspace) -> Result<()> {
    let words = "test --workspace --all-features --no-fail-fast --lib -- --show-output";
    let mut command = workspace.cargo(words);
    command.env("PROPTEST_CASES", CASES);
    judged("the property tests", binaries::run_cargo(command)?)
}

/// The engines' tests under the address sanitizer, which Rust nightly has.
fn address(workspace: &Workspace) -> Result<()> {
    let words = "+nightly test --package iopj-engine --all-features --no-fail-fast --target \
                 x86_64-unknown-linux-gnu --lib --tests -- --show-output";
    let mut command = workspace.cargo(words);
    command.env("RUSTFLAGS", "-Zsanitizer=address").env("CARGO_TARGET_DIR", workspace.target.join("address"));
    // What is in flight when an engine must go is leaked: a leak is safe, a free is not.
    command.env("ASAN_OPTIONS", "detect_leaks=0");
    judged("the engines under the address sanitizer", binaries::run_cargo(command)?)
}

/// Prints the results of these tests as the gate does.
fn judged(what: &str, results: Results) -> Result<()> {
    for line in results.times() {
        println!("{line}");
    }
    let failed = results.failed();
    if failed.is_empty() { Ok(()) } else { bail!("{what}: {}", failed.join(", ")) }
}
