//! `cargo xtask cross`: iopj for 64-bit Arm, linked statically, beside this machine's own; and the unit tests
//! that need no kernel of their own, under QEMU's user-mode emulation.

use crate::options::Options;
use crate::workspace::Workspace;
use crate::{needs, shell};
use anyhow::{Context, Result};
use std::fs;
use std::process::Command;

const TARGET: &str = "aarch64-unknown-linux-gnu";
/// What compiles the bundled C code and links, and the libraries that are linked in, with Debian's packages.
const TOOLS: [(&str, &str); 2] = [
    ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
    ("/usr/aarch64-linux-gnu/lib/libc.a", "libc6-dev-arm64-cross"),
];
/// What runs programs for Arm here.
const EMULATOR: (&str, &str) = ("qemu-aarch64", "qemu-user");
/// The crates whose unit tests need nothing of a kernel but files and threads. The code of others runs in the
/// lab's Arm guest, as parts of iopj; their unit tests do not run for Arm.
const TESTED: &str = "--package iopj-path --package iopj-core --package iopj-probe";
/// More of them: their unit tests run for Arm only in the soak.
const PORTABLE: &str = "--package iopj-fabric --package iopj-study --package iopj-record --package \
                        iopj-store --package iopj-analysis --package iopj-report";

pub(crate) fn run(workspace: &Workspace, mut options: Options) -> Result<()> {
    let release = options.flag("--release");
    options.end()?;
    needs::ensure_here(&TOOLS)?;
    build(workspace, release)
}

/// What makes the code that every measured I/O passes through that of a release build, within a build for
/// tests: the lab counts its instructions.
fn as_in_a_release() -> Vec<String> {
    let crates =
        ["iopj-path", "iopj-core", "iopj-engine", "iopj-load", "hdrhistogram", "rand_xoshiro", "rustix"];
    let settings = ["opt-level=3", "debug-assertions=false", "overflow-checks=false", "codegen-units=1"];
    let of = |name: &&str| settings.map(|setting| format!("profile.dev.package.{name}.{setting}"));
    crates.iter().flat_map(of).flat_map(|setting| ["--config".to_owned(), setting]).collect()
}

/// Builds iopj for Arm and puts it beside this machine's own as `iopj-aarch64`, where the lab and `--push`
/// look for it.
pub(crate) fn build(workspace: &Workspace, release: bool) -> Result<()> {
    needs::rust_target(workspace, TARGET)?;
    let words = if release { "build --release --package iopj" } else { "build --package iopj" };
    shell::step("iopj for aarch64", &mut cargo(workspace, words))?;
    let profile = if release { "release" } else { "debug" };
    let built = workspace.target.join(TARGET).join(profile).join("iopj");
    let beside = workspace.target.join(profile).join("iopj-aarch64");
    fs::create_dir_all(workspace.target.join(profile))?;
    fs::copy(&built, &beside).with_context(|| format!("{} cannot be written", beside.display()))?;
    println!("{}", beside.display());
    Ok(())
}

/// What the emulator does not translate: the flags in `/proc/PID/fdinfo`, which are this machine's own
/// numbers (`O_DIRECT` is another on Arm), and `perf_event_open`.
const UNTRANSLATED: [&str; 2] =
    ["own_files_are_seen_by_their_flags", "a_cost_is_measured_where_events_can_be_counted"];

/// The unit tests for Arm, emulated, with this seed of property tests. They share what was built for iopj.
pub(crate) fn unit_tests(workspace: &Workspace, seed: &str) -> Result<()> {
    unit_tests_of(workspace, TESTED, Some(seed))
}

/// The unit tests of all these crates for Arm: a part of the soak.
pub(crate) fn all_unit_tests(workspace: &Workspace) -> Result<()> {
    needs::ensure_here(&[&TOOLS[..], &[EMULATOR]].concat())?;
    needs::rust_target(workspace, TARGET)?;
    unit_tests_of(workspace, &format!("{TESTED} {PORTABLE}"), None)
}

fn unit_tests_of(workspace: &Workspace, crates: &str, seed: Option<&str>) -> Result<()> {
    let mut command = cargo(workspace, &format!("test {crates} --lib"));
    command.arg("--").args(UNTRANSLATED.iter().flat_map(|part| ["--skip", part]));
    command.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", EMULATOR.0).env("PROPTEST_CASES", "8");
    command.envs(seed.map(|seed| ("PROPTEST_RNG_SEED", seed)));
    shell::step("unit tests for aarch64, emulated", &mut command)
}

/// Whether all that [`build`] and [`unit_tests`] need is here.
pub(crate) fn is_possible() -> bool {
    TOOLS.into_iter().chain([EMULATOR]).all(|(program, _)| needs::is_here(program))
}

/// Cargo for Arm. A static program needs no libraries of the guest, or of the host that it is copied to.
fn cargo(workspace: &Workspace, words: &str) -> Command {
    let mut command = workspace.cargo(words);
    command
        .args(["--target", TARGET])
        .args(as_in_a_release())
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        // Nobody debugs it here, and it builds sooner.
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", TOOLS[0].0)
        .env("CC_aarch64_unknown_linux_gnu", TOOLS[0].0);
    command
}
