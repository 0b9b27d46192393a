//! `cargo xtask test`: installs what the tests need, then runs every test, beside them the ring and the NVMe
//! driver under Miri, and the instruction counts.

use crate::cross::DRAWING;
use crate::options::Options;
use crate::results::Results;
use crate::workspace::Workspace;
use crate::{cross, dist, ffi, instructions, needs, python, queries, shell, venv};
use anyhow::{Context, Error, Result, bail};
use rustix::fs::Mode;
use rustix::process::setpriority_process;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::available_parallelism;
use std::time::Instant;

/// The features are those of clippy and the documentation, so nothing is built twice.
const TESTS: &str = "test --workspace --all-features";

/// Property tests use the same cases each time, so a change is not refused for an old fault; soaks use
/// others.
const SEED: &str = "10";

/// The tests whose guests run iopj, in which a release build takes far less time than a debug build. Only the
/// last has guests of Arm.
const WITH_GUESTS: [&str; 2] = ["bypass", "lab"];
/// Names that build to them.
const GUESTS_PROGRAM: &str = "IOPJ_IN_GUESTS";
/// The line after which a run says how long it took, what it skipped and what failed.
pub(crate) const TIMES: &str = "the steps, some beside others:";
/// What holds manifests against Kubernetes' published schema: the environment of Python with it, and what
/// names it to the tests.
const VALIDATOR: (&str, &str) = ("kubernetes", "IOPJ_KUBERNETES_VALIDATE");
/// Tests that measure nothing, so they can go on beside those with guests.
const BESIDE_GUESTS: [&str; 8] =
    ["browser", "data", "docs", "pdf", "sequential", "simulation", "truth", "winner"];

pub(crate) fn run(workspace: &Workspace, options: Options) -> Result<()> {
    options.end()?;
    let start = Instant::now();
    // Other users of the tests read what these make.
    rustix::process::umask(Mode::from_raw_mode(0o022));
    shell::timed("what the tests need", needs::ensure)?;
    validator(workspace)?;
    let counts = needs::is_here("valgrind");
    // Everything is built once, so the program that the tests run fetches the kernels.
    shell::step("build of the tests", &mut workspace.cargo(&format!("{TESTS} --no-run")))?;
    let mut failed: Vec<String> = kernels(workspace).err().map(reason).into_iter().collect();
    let for_arm = cross::is_possible();
    if !for_arm {
        println!("skipped: iopj for aarch64 needs its compiler and QEMU's user-mode emulation");
    }
    let (results, (results_beside, failed_beside)) = std::thread::scope(|scope| {
        let (built, is_built) = channel();
        let (in_guests, are_in_guests) = channel();
        let others = scope.spawn(move || beside(workspace, counts, for_arm, built, &are_in_guests));
        let results = shell::timed("tests", || tests(workspace, &is_built, in_guests));
        let panicked = |_| (None, vec!["what goes on beside the tests panicked".to_owned()]);
        (results, others.join().unwrap_or_else(panicked))
    });
    let mut results = results?;
    results_beside.into_iter().for_each(|beside| results.join(beside));
    failed.extend(failed_beside);
    failed.extend(results.failed());
    if !counts {
        println!("skipped: the instruction counts need valgrind");
    }
    println!("{TIMES}");
    for line in shell::steps().into_iter().chain(results.times()) {
        println!("{line}");
    }
    for test in results.skipped() {
        println!("skipped: {test}");
    }
    for line in results.failures() {
        println!("{line}");
    }
    for one in &failed {
        println!("failed: {one}");
    }
    let minutes = start.elapsed().as_secs_f64() / 60.0;
    if !failed.is_empty() {
        bail!("{} of the tests failed, in {minutes:.1} minutes: the list is above", failed.len());
    }
    println!("all tests passed, {} of them skipped, in {minutes:.1} minutes", results.skipped().len());
    Ok(())
}

/// What needs no quiet machine: the release build and iopj for Arm, Miri, the counts of the engine's
/// instructions, the unit tests for Arm, the C interface, the Python package, packing, tests that measure
/// nothing, questions of a fleet, and the counts of iopj's instructions and of the adaptive engine's, which
/// need a disk for themselves. The lab's guests use little more than one of two processors, and at the lowest
/// priority this takes little of theirs. `built` gets a message once the release build has ended, and is
/// dropped once that for Arm has; no other test uses a disk once the other end of `are_in_guests` is dropped.
/// Returns the tests' results, and what else failed.
fn beside(
    workspace: &Workspace,
    counts: bool,
    for_arm: bool,
    built: Sender<()>,
    are_in_guests: &Receiver<()>,
) -> (Option<Results>, Vec<String>) {
    // On Linux only of this thread, and of the programs that it starts (man 2 setpriority, "BUGS").
    let lowest = setpriority_process(None, 19).context("the priority of what goes on beside the tests");
    let mut results = vec![lowest, workspace.release_binary().map(|_| ())];
    // Nobody waits for it if the tests could not run.
    let _ = built.send(());
    if for_arm {
        results.push(cross::build(workspace, false));
    }
    drop(built);
    results.push(miri(workspace));
    if counts {
        results.push(instructions::check_engine(workspace));
    }
    if for_arm {
        results.push(cross::unit_tests(workspace, SEED));
    }
    results.push(ffi::check_built(workspace));
    results.push(dist::check_packing(workspace));
    // Other tests switch io_uring off for a moment, which these need.
    let _ = are_in_guests.recv();
    results.push(python::check_built(workspace));
    let computed = shell::timed("tests that only compute", || {
        let mut computed = cargo_tests(workspace, &named(&BESIDE_GUESTS.into()), "")?;
        computed.join(cargo_tests(workspace, "--lib", DRAWING)?);
        computed.join(cargo_tests(workspace, "--doc", "")?);
        Ok(computed)
    });
    results.push(queries::check(workspace));
    if counts {
        results.push(instructions::check_iopj(workspace));
        results.push(instructions::check_routed(workspace));
    }
    let (computed, error) = match computed {
        Ok(computed) => (Some(computed), None),
        Err(error) => (None, Some(error)),
    };
    (computed, results.into_iter().filter_map(Result::err).chain(error).map(reason).collect())
}

fn reason(error: Error) -> String {
    format!("{error:#}")
}

/// Fetches the kernels that the lab's tests boot; only CI requires them.
fn kernels(workspace: &Workspace) -> Result<()> {
    match shell::timed("the kernels that the lab's tests boot", || fetch_kernels(workspace)) {
        Err(error) if !shell::in_ci() => {
            println!("the kernels cannot be fetched ({error:#}); tests without them say `skipped`");
            Ok(())
        }
        done => done,
    }
}

/// An old kernel that polls synchronously, one that claims to but does not, one with io_uring's hybrid
/// polling, and a new one whose package is split.
fn fetch_kernels(workspace: &Workspace) -> Result<()> {
    let iopj = workspace.target.join("debug/iopj");
    let lab = |words: &[&str]| {
        let mut command = Command::new(&iopj);
        command.args(["lab", "kernels"]).args(words);
        command
    };
    shell::step("kernels 5.10, 6.1 and 6.18", &mut lab(&["5.10", "6.1", "6.18"]))?;
    let offers = serde_json::from_str(&shell::output(&mut lab(&["--json"]))?)?;
    let series = new_series(&offers).context("no kernel from 7.2 on is offered")?;
    shell::step(&format!("kernel {series}"), &mut lab(&[series]))?;
    shell::step("kernel 6.18 for aarch64", &mut lab(&["6.18", "--arch", "aarch64"]))
}

/// The oldest series on offer from 7.2 on; the offers are oldest first. A distribution will replace 7.2 by a
/// newer one some day.
fn new_series(offers: &Value) -> Option<&str> {
    let is_new = |series: &&str| {
        let numbers = series
            .split_once('.')
            .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        numbers.is_some_and(|numbers: (u32, u32)| numbers >= (7, 2))
    };
    offers.as_array()?.iter().filter_map(|offer| offer["series"].as_str()).find(is_new)
}

/// Runs all tests of the workspace but those that go on beside; last those with guests, each once what its
/// guests run was built. Before them `in_guests` is dropped.
fn tests(workspace: &Workspace, is_built: &Receiver<()>, in_guests: Sender<()>) -> Result<Results> {
    let others = named(&test_files(&workspace.metadata));
    let mut results = cargo_tests(workspace, &format!("--lib --bins{others}"), &format!("--skip {DRAWING}"))?;
    drop(in_guests);
    for name in WITH_GUESTS {
        // A message for the first, and the end of the channel for the last.
        let _ = is_built.recv();
        results.join(cargo_tests(workspace, &named(&[name].into()), "")?);
    }
    Ok(results)
}

/// The integration tests of the workspace without those with guests and those beside them.
fn test_files(metadata: &Value) -> BTreeSet<&str> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let targets = packages.flat_map(|package| package["targets"].as_array().into_iter().flatten());
    let tests = targets.filter(|target| target["kind"][0] == "test");
    let names = tests.filter_map(|target| target["name"].as_str());
    names.filter(|name| !WITH_GUESTS.contains(name) && !BESIDE_GUESTS.contains(name)).collect()
}

/// The words by which cargo chooses these integration tests.
fn named(names: &BTreeSet<&str>) -> String {
    names.iter().map(|name| format!(" --test {name}")).collect()
}

/// Makes the environment with the validator of manifests; outside of CI, tests are skipped without it.
fn validator(workspace: &Workspace) -> Result<()> {
    let list = workspace.root.join("packaging/kubernetes/requirements.txt");
    match venv::ensure(workspace, VALIDATOR.0, "python3", &list) {
        Err(error) if !shell::in_ci() => {
            println!("{error:#}; tests without it say `skipped`");
            Ok(())
        }
        made => made.map(drop),
    }
}

/// Runs the tests that these words of cargo's and libtest's choose, whatever fails. Their output is printed
/// and read.
fn cargo_tests(workspace: &Workspace, words: &str, tests: &str) -> Result<Results> {
    let mut command = workspace.cargo(&format!("{TESTS} --no-fail-fast {words} -- --show-output {tests}"));
    command.env("PROPTEST_RNG_SEED", SEED).env(GUESTS_PROGRAM, workspace.target.join("release/iopj"));
    let validator = format!("venv/{}/bin/kubernetes-validate", VALIDATOR.0);
    command.env(VALIDATOR.1, workspace.target.join(validator));
    run_tests(command)
}

/// Runs a `cargo test` that is given `--show-output`.
pub(crate) fn run_tests(mut command: Command) -> Result<Results> {
    let (reader, writer) = std::io::pipe()?;
    // cargo names binaries on stderr, libtest prints results on stdout: one pipe keeps their order.
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().context("cargo cannot be started")?;
    // Its ends of the pipe would keep the pipe open.
    drop(command);
    let threads = std::env::var("RUST_TEST_THREADS").ok().and_then(|text| text.parse().ok());
    let mut results = Results::new(threads.or(available_parallelism().ok().map(Into::into)).unwrap_or(1));
    let start = Instant::now();
    for line in BufReader::new(reader).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        results.see(&line, start.elapsed());
        println!("{line}");
    }
    results.end(child.wait()?.success());
    Ok(results)
}

/// Pool, buffers, rings and the engine on them, over a kernel in Rust, and the NVMe driver under Miri,
/// without the tests next to them that make system calls.
fn miri(workspace: &Workspace) -> Result<()> {
    match needs::toolchain(workspace, "nightly", "miri", &["miri", "rust-src"]) {
        Err(error) if shell::in_ci() => return Err(error),
        Err(error) => {
            println!("skipped: pool, rings and the NVMe driver under Miri: {error:#}");
            return Ok(());
        }
        Ok(()) => {}
    }
    let words = "+nightly miri test --package iopj-engine --lib -- region:: pool:: rare:: ring:: \
                 ring_engine:: nvme_user:: --skip io_uring::";
    // proptest looks for a file of earlier failures, which Miri's isolation forbids.
    let mut command = workspace.cargo(words);
    command
        .env("MIRIFLAGS", "-Zmiri-disable-isolation -Zmiri-permissive-provenance")
        .env("PROPTEST_RNG_SEED", SEED)
        .env("CARGO_TARGET_DIR", workspace.target.join("miri"));
    shell::step("pool, rings and the NVMe driver under Miri", &mut command)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn integration_tests_without_guests_are_named_but_those_beside_them() {
        let target = |name: &str, kind: &str| json!({ "name": name, "kind": [kind] });
        let metadata = json!({ "packages": [
            { "targets": [target("iopj", "bin"), target("lab", "test"), target("crash", "test")] },
            { "targets": [target("iopj_lab", "lib"), target("vm", "test"), target("bypass", "test")] },
            { "targets": [target("steady", "test"), target("simulation", "test")] },
        ] });
        assert_eq!(Vec::from_iter(test_files(&metadata)), ["crash", "steady", "vm"]);
    }

    #[test]
    fn the_new_kernel_is_the_oldest_from_7_2_on() {
        let new = |series: &[&str]| {
            let offers: Value = series.iter().map(|series| json!({ "series": series })).collect();
            new_series(&offers).map(str::to_owned)
        };
        assert_eq!(new(&["5.10", "6.18", "7.1", "7.2", "7.10"]).as_deref(), Some("7.2"));
        assert_eq!(new(&["6.18", "7.10", "8.0"]).as_deref(), Some("7.10"));
        assert_eq!(new(&["5.10", "6.18"]), None);
    }
}
