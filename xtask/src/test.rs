//! `cargo xtask test`: installs what the tests need, then runs every test on two lanes, one of them for those
//! with guests; on a third the builds, and the ring and the NVMe driver under Miri.

use crate::binaries::{self, Binary, TESTS};
use crate::options::Options;
use crate::results::Results;
use crate::workspace::Workspace;
use crate::{cross, dist, ffi, instructions, needs, python, queries, shell, venv};
use anyhow::{Context, Error, Result, bail, ensure};
use rustix::fs::Mode;
use rustix::process::setpriority_process;
use serde_json::Value;
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

/// Property tests use the same cases each time, so a change is not refused for an old fault; soaks use
/// others.
const SEED: &str = "10";

/// The tests with guests, in this order: the first need no build; the guests of the others run iopj, in which
/// a release build takes far less time than a debug build.
const WITH_GUESTS: [&str; 3] = ["vm", "bypass", "lab"];
/// The last of the lab's, because their guests are of Arm: iopj for it is built last.
const WITH_ARM: &str = "arm::";
/// The priority of those and of the build that most of them wait for, which only root may give. A guest whose
/// processors wait has trials that prove nothing.
const AHEAD: i32 = -5;
/// The priority of what goes on beside all tests, but the builds that those with guests wait for.
const LOWEST: i32 = 19;
/// Names that build to them.
const GUESTS_PROGRAM: &str = "IOPJ_IN_GUESTS";
/// The line after which a run says how long it took, what it skipped and what failed.
pub(crate) const TIMES: &str = "the steps, some beside others:";
/// What holds manifests against Kubernetes' published schema: the environment of Python with it, and what
/// names it to the tests.
const VALIDATOR: (&str, &str) = ("kubernetes", "IOPJ_KUBERNETES_VALIDATE");
/// Tests that measure nothing, so they can go on at the lowest priority.
const COMPUTING: [&str; 8] =
    ["browser", "data", "docs", "pdf", "sequential", "simulation", "truth", "winner"];
/// The crate whose unit tests draw whole pages, which go on there, too, and their module.
const WITH_DRAWINGS: &str = "iopj_report";
pub(crate) const DRAWING: &str = "html::";

pub(crate) fn run(workspace: &Workspace, options: Options) -> Result<()> {
    options.end()?;
    let start = Instant::now();
    // Other users of the tests read what these make.
    rustix::process::umask(Mode::from_raw_mode(0o022));
    shell::timed("what the tests need", needs::ensure)?;
    validator(workspace)?;
    let counts = needs::is_here("valgrind");
    let binaries = &binaries::build(workspace)?;
    let for_arm = cross::is_possible();
    if !for_arm {
        shell::skip("iopj for aarch64 needs its compiler and QEMU's user-mode emulation".to_owned());
    }
    let (results, mut failed) = lanes(workspace, binaries, counts, for_arm)?;
    failed.extend(results.failed());
    if !counts {
        shell::skip("the counts of instructions need valgrind".to_owned());
    }
    let skipped: Vec<String> = shell::skipped().into_iter().chain(results.skipped().to_vec()).collect();
    failed.extend(forbidden(&skipped, shell::in_ci()));
    println!("{TIMES}");
    for line in shell::steps().into_iter().chain(results.times()) {
        println!("{line}");
    }
    for one in &skipped {
        println!("skipped: {one}");
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
    println!("all tests passed, {} of them skipped, in {minutes:.1} minutes", skipped.len());
    Ok(())
}

/// CI skips nothing, whatever tests and tasks themselves say of that.
fn forbidden(skipped: &[String], in_ci: bool) -> Vec<String> {
    let all = skipped.iter().map(|one| format!("skipped, which is forbidden in CI: {one}"));
    all.filter(|_| in_ci).collect()
}

/// What became of a lane: the results of its tests, and what else failed.
type Lane = (Results, Vec<String>);

/// Runs everything: the tests with guests, the other tests, and the builds.
fn lanes(workspace: &Workspace, binaries: &[Binary], counts: bool, for_arm: bool) -> Result<Lane> {
    for name in WITH_GUESTS.iter().chain(&COMPUTING).chain([&WITH_DRAWINGS]) {
        ensure!(binaries.iter().any(|one| one.name == *name), "there are no tests `{name}`");
    }
    std::thread::scope(|scope| {
        let (built, is_built) = channel();
        let builds = scope.spawn(move || builds(workspace, counts, for_arm, built));
        let guests = scope.spawn(move || {
            // Without root they keep the priority of the others.
            let _ = at_priority(AHEAD);
            shell::timed("tests with guests", || Ok(guests(workspace, binaries, &is_built)))
        });
        let mut results = shell::timed("tests", || Ok(here(workspace, binaries)))?;
        let mut failed = undisturbed(workspace, counts);
        match computing(workspace, binaries) {
            Ok(computed) => results.join(computed),
            Err(error) => failed.push(reason(error)),
        }
        let panicked = || vec!["a lane of the tests panicked".to_owned()];
        match guests.join() {
            Ok(lane) => {
                let (of_guests, failed_there) = lane?;
                results.join(of_guests);
                failed.extend(failed_there);
            }
            Err(_) => failed.extend(panicked()),
        }
        failed.extend(builds.join().unwrap_or_else(|_| panicked()));
        Ok((results, failed))
    })
}

/// Sets the priority of this thread, and of the programs that it starts (on Linux of nothing else: man 2
/// setpriority, "BUGS").
fn at_priority(nice: i32) -> Result<()> {
    setpriority_process(None, nice).context("another priority")
}

/// What needs no quiet machine: the release build and iopj for Arm, Miri, the counts of the engine's
/// instructions, the unit tests for Arm, the C interface, packing, and questions of a fleet. The lab's guests
/// use little more than one of two processors, and at the lowest priority this takes little of theirs; the
/// builds, which their tests wait for, have a higher one. `built` gets a message once the release build has
/// ended, and is dropped once that for Arm has. Returns what failed.
fn builds(workspace: &Workspace, counts: bool, for_arm: bool, built: Sender<()>) -> Vec<String> {
    // Without root it keeps the priority of the others.
    let is_ahead = at_priority(AHEAD).is_ok();
    let mut results = vec![workspace.release_binary().map(|_| ())];
    // Nobody waits for it if the tests could not run.
    let _ = built.send(());
    if is_ahead {
        results.push(at_priority(0));
    }
    if for_arm {
        results.push(cross::build(workspace, false));
    }
    drop(built);
    results.push(at_priority(LOWEST));
    results.push(miri(workspace));
    if counts {
        results.push(instructions::check_engine(workspace));
    }
    if for_arm {
        results.push(cross::unit_tests(workspace, SEED));
    }
    results.push(ffi::check_built(workspace));
    results.push(dist::check_packing(workspace));
    results.push(queries::check(workspace));
    failures(results)
}

/// What goes on once no test but those with guests uses a disk or switches io_uring off for a moment: the
/// Python package, and the counts of iopj's instructions, of the adaptive engine's and of reading stores, for
/// which iopj runs on a disk. Returns what failed.
fn undisturbed(workspace: &Workspace, counts: bool) -> Vec<String> {
    let mut results = vec![at_priority(LOWEST), python::check_built(workspace)];
    if counts {
        results.push(instructions::check_iopj(workspace));
        results.push(instructions::check_routed(workspace));
        results.push(instructions::check_reading(workspace));
    }
    failures(results)
}

/// Runs the tests that measure nothing.
fn computing(workspace: &Workspace, binaries: &[Binary]) -> Result<Results> {
    shell::timed("tests that only compute", || {
        let mut computed = run_some(workspace, these(binaries, &COMPUTING), &[]);
        computed.join(run_some(workspace, these(binaries, &[WITH_DRAWINGS]), &[DRAWING]));
        let documents = format!("{TESTS} --no-fail-fast --doc -- --show-output");
        computed.join(binaries::run_cargo(workspace.cargo(&documents))?);
        Ok(computed)
    })
}

fn failures(results: Vec<Result<()>>) -> Vec<String> {
    results.into_iter().filter_map(Result::err).map(reason).collect()
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

/// Runs the tests without guests, but those that go on at the lowest priority.
fn here(workspace: &Workspace, binaries: &[Binary]) -> Results {
    let mut results =
        run_some(workspace, without(binaries, &[&WITH_GUESTS, &COMPUTING, &[WITH_DRAWINGS]]), &[]);
    results.join(run_some(workspace, these(binaries, &[WITH_DRAWINGS]), &["--skip", DRAWING]));
    results
}

/// Fetches the kernels and runs the tests with guests, each once what its guests run was built.
fn guests(workspace: &Workspace, binaries: &[Binary], is_built: &Receiver<()>) -> Lane {
    // The program that the tests run fetches them.
    let failed = failures(vec![kernels(workspace)]);
    let [first, second, last] = WITH_GUESTS.map(|name| these(binaries, &[name]));
    let mut results = run_some(workspace, first, &[]);
    // A message once iopj was built, and the end of the channel once it was for Arm.
    let _ = is_built.recv();
    results.join(run_some(workspace, second, &[]));
    results.join(run_some(workspace, last.clone(), &["--skip", WITH_ARM]));
    let _ = is_built.recv();
    results.join(run_some(workspace, last, &[WITH_ARM]));
    (results, failed)
}

/// The test binaries of these names.
fn these<'a>(binaries: &'a [Binary], names: &[&str]) -> Vec<&'a Binary> {
    binaries.iter().filter(|one| names.contains(&one.name.as_str())).collect()
}

/// The test binaries of other names.
fn without<'a>(binaries: &'a [Binary], names: &[&[&str]]) -> Vec<&'a Binary> {
    let is_named = |one: &Binary| names.iter().any(|names| names.contains(&one.name.as_str()));
    binaries.iter().filter(|one| !is_named(one)).collect()
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

/// Runs these with these words of libtest's, and tells them where the programs are that guests run and that
/// hold manifests against their schema.
fn run_some(workspace: &Workspace, binaries: Vec<&Binary>, words: &[&str]) -> Results {
    let validator = workspace.target.join(format!("venv/{}/bin/kubernetes-validate", VALIDATOR.0));
    let variables = [
        ("PROPTEST_RNG_SEED", SEED.into()),
        (GUESTS_PROGRAM, workspace.target.join("release/iopj")),
        (VALIDATOR.1, validator),
    ];
    binaries::run(&binaries, words, &variables)
}

/// Pool, buffers, rings and the engine on them, over a kernel in Rust, and the NVMe driver under Miri,
/// without the tests next to them that make system calls.
fn miri(workspace: &Workspace) -> Result<()> {
    match needs::toolchain(workspace, "nightly", "miri", &["miri", "rust-src"]) {
        Err(error) if shell::in_ci() => return Err(error),
        Err(error) => {
            shell::skip(format!("pool, rings and the NVMe driver under Miri: {error:#}"));
            return Ok(());
        }
        Ok(()) => {}
    }
    let words = "+nightly miri test --package iopj-engine --lib -- region:: pool:: rare:: ring::raw:: \
                 ring::engine:: nvme_user:: --skip io_uring::";
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

    /// Six tests skipped in CI without a word, had a tool or a right been missing there.
    #[test]
    fn what_is_skipped_fails_in_ci_alone() {
        let skipped = ["a: needs fio".to_owned()];
        assert_eq!(forbidden(&skipped, true), ["skipped, which is forbidden in CI: a: needs fio"]);
        assert_eq!(forbidden(&skipped, false), [""; 0]);
    }

    #[test]
    fn each_test_binary_is_run_once() {
        let message = |name: &str| {
            let message = json!({
                "manifest_path": "/r/Cargo.toml",
                "target": { "name": name, "kind": ["test"], "src_path": "/r/x.rs" },
                "profile": { "test": true },
                "executable": "/x",
            });
            format!("{message}\n")
        };
        let binaries = binaries::named(&["lab", "crash", "iopj_lab", "bypass", "docs"].map(message).concat());
        let names = |chosen: Vec<&Binary>| chosen.iter().map(|one| one.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(without(&binaries, &[&WITH_GUESTS, &COMPUTING])), ["crash", "iopj_lab"]);
        assert_eq!(names(these(&binaries, &["lab"])), ["lab"]);
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
