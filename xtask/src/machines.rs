//! The machines on which the tests must pass: bare Debians by plain `chroot`, as root and as an ordinary
//! user, and this machine with a power counter, without tracepoints, and beside a build. Each has a fresh
//! clone of the last commit and an empty target folder.

use crate::bare::Bare;
use crate::options::{Options, Usage};
use crate::results::Results;
use crate::workspace::Workspace;
use crate::{binaries, needs, shell, test};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// What a bare system has before the tests: what builds Rust programs with parts in C and C++.
const PACKAGES: &str = "git,gcc,g++,libc6-dev,ca-certificates,curl";
/// The ordinary user of a bare system.
const USER: &str = "somebody";
/// Tests that a machine may skip, for what its kernel denies, beside those that need what the machine is
/// there to lack.
const MOST_SKIPPED: usize = 8;
/// How tests name what an ordinary user lacks, and a kernel without tracepoints.
const ROOT: &str = "needs root";
const TRACEPOINTS: &str = "a kernel with tracepoints (tracefs, perf events)";

/// Where the tests run.
#[derive(Clone, Copy)]
enum Place {
    /// In a release of Debian by plain `chroot`, as root whose home holds the clone: all tests.
    Root(&'static str),
    /// In a release of Debian by plain `chroot`, as an ordinary user: the tests that look at the machine.
    User(&'static str),
    /// Here, after a script in a mount namespace of its own: the tests that look at the machine.
    Here(&'static str),
    /// Here, while builds keep both cores busy: the tests that look at the machine.
    BesideBuilds,
}

const MACHINES: [(&str, Place); 8] = [
    ("bookworm", Place::Root("bookworm")),
    ("bookworm-user", Place::User("bookworm")),
    ("trixie", Place::Root("trixie")),
    ("trixie-user", Place::User("trixie")),
    ("power-that-moves", Place::Here(MOVING)),
    ("power-that-stands-still", Place::Here(STILL)),
    ("no-tracepoints", Place::Here(NO_TRACEPOINTS)),
    ("beside-a-build", Place::BesideBuilds),
];

/// The tests that look at the machine: its drives, settings, meters, processes, users and mounts. Those that
/// draw pages, which are alike on all machines, are left out.
const LOOKING: &str = "cargo test --workspace --all-features --no-fail-fast --lib --bins --test agent --test \
                       analysis --test asynchronous --test conformance --test crash --test energy --test \
                       fleet --test ipmi --test live --test monitoring --test profile --test refusals --test \
                       sampling --test snmp --test vectors --test verdicts --test watch --test web -- \
                       --show-output --skip";
/// No further ones.
const NOTHING: &str = "true";
/// And Python's, which a meter that nobody asked for once joined.
const PYTHON: &str = "cargo test --workspace --all-features --no-run && cargo xtask python --built";
/// And a test whose guest once started more slowly than was foreseen.
const GUEST: &str = "\
cargo build --release &&
IOPJ_IN_GUESTS=\"$PWD/target/release/iopj\" cargo test --workspace --all-features --test lab -- \
    --show-output every_path_and_io_poll_delay_on_5_10";

/// Makes the environment with the validator of manifests beside the clone, for the shell of those tests.
const WITH_VALIDATOR: &str = "\
python3 -m venv ../kubernetes &&
../kubernetes/bin/pip install --quiet --requirement packaging/kubernetes/requirements.txt &&
export IOPJ_KUBERNETES_VALIDATE=\"$PWD/../kubernetes/bin/kubernetes-validate\" ||
exit 1
";

/// A script of those tests and of further ones, in the folder of a clone. All are run, whatever fails.
fn looking(further: &str) -> String {
    format!("{WITH_VALIDATOR}{LOOKING} {} && looked=0 || looked=1\n{further} && exit $looked", test::DRAWING)
}

/// A PMU `power` beside those that the kernel has, whose event is one of the kernel's software events: the
/// clock of a processor, which looks like 10 W (perf_event_open(2), PERF_COUNT_SW_CPU_CLOCK).
const MOVING: &str = "event=0x00";
/// An event that counts nothing (PERF_COUNT_SW_DUMMY).
const STILL: &str = "event=0x09";
/// Makes that PMU of the event `$2`, in the empty folder `$1`.
const WITH_POWER: &str = "\
set -e
all=$1
cp -P /sys/bus/event_source/devices/* \"$all\"
rm -rf \"$all/power\"
mkdir -p \"$all/power/events\" \"$all/power/format\"
echo 1 >\"$all/power/type\"
echo 0 >\"$all/power/cpumask\"
echo config:0-7 >\"$all/power/format/event\"
echo \"$2\" >\"$all/power/events/energy-psys\"
echo 1e-8 >\"$all/power/events/energy-psys.scale\"
echo Joules >\"$all/power/events/energy-psys.unit\"
mount --bind \"$all\" /sys/bus/event_source/devices
set +e
";
/// A tracefs without a single tracepoint, wherever it is looked for.
const NO_TRACEPOINTS: &str = "no-tracepoints";
const WITHOUT_TRACEPOINTS: &str = "\
set -e
mkdir \"$1/events\"
for place in /sys/kernel/tracing /sys/kernel/debug/tracing; do
    [ ! -d $place ] || mount --bind \"$1\" $place
done
set +e
";

/// What became of the tests on a machine.
struct Outcome {
    machine: &'static str,
    minutes: f64,
    /// The skipped tests, or the reason for the failure.
    result: Result<Skipped>,
}

/// The tests that a machine skipped, each with its reason.
struct Skipped {
    /// For what the machine is there to lack.
    foreseen: Vec<String>,
    others: Vec<String>,
}

impl Skipped {
    fn new(skipped: Vec<String>, lacking: Option<&str>) -> Skipped {
        let is_foreseen = |one: &String| lacking.is_some_and(|lacking| one.contains(lacking));
        let (foreseen, others) = skipped.into_iter().partition(is_foreseen);
        Skipped { foreseen, others }
    }
}

/// Runs the machines that are named, or all.
pub(crate) fn run(workspace: &Workspace, options: Options) -> Result<()> {
    let names = options.rest()?;
    let unknown = names.iter().find(|name| MACHINES.iter().all(|(machine, _)| machine != name));
    if let Some(unknown) = unknown {
        let all = MACHINES.map(|(name, _)| name).join(", ");
        return Err(Usage(format!("there is no machine `{unknown}`: there are {all}")).into());
    }
    let is_meant = |machine: &&str| names.is_empty() || names.iter().any(|name| name == machine);
    let meant = MACHINES.into_iter().filter(|(machine, _)| is_meant(machine));
    let outcomes: Vec<Outcome> = meant.map(|(machine, place)| on(workspace, machine, place)).collect();
    for Outcome { machine, minutes, result } in &outcomes {
        match result {
            Ok(skipped) => {
                let (foreseen, others) = (skipped.foreseen.len(), skipped.others.len());
                println!(
                    "{machine}: passed in {minutes:.1} minutes, {} tests skipped, {foreseen} of them for \
                     what it is there to lack",
                    foreseen + others
                );
                let all = skipped.foreseen.iter().chain(&skipped.others);
                all.for_each(|one| println!("  skipped: {one}"));
            }
            Err(error) => println!("{machine}: failed after {minutes:.1} minutes: {error:#}"),
        }
    }
    let failed = outcomes.iter().filter(|outcome| outcome.result.is_err()).count();
    ensure!(failed == 0, "the tests failed on {failed} of {} machines: the list is above", outcomes.len());
    Ok(())
}

/// All of them: a part of the soak.
pub(crate) fn all(workspace: &Workspace) -> Result<()> {
    run(workspace, Options::new(std::iter::empty()))
}

fn on(workspace: &Workspace, machine: &'static str, place: Place) -> Outcome {
    let begin = Instant::now();
    println!("==> machine {machine}");
    let (skipped, lacking) = match place {
        Place::Root(release) => (in_bare(workspace, (machine, release), "root"), None),
        Place::User(release) => (in_bare(workspace, (machine, release), USER), Some(ROOT)),
        Place::Here(NO_TRACEPOINTS) => {
            (here(workspace, machine, [WITHOUT_TRACEPOINTS, "", NOTHING]), Some(TRACEPOINTS))
        }
        Place::Here(event) => (here(workspace, machine, [WITH_POWER, event, PYTHON]), None),
        Place::BesideBuilds => (beside_builds(workspace, machine), None),
    };
    let result = skipped.map(|skipped| Skipped::new(skipped, lacking)).and_then(|skipped| {
        let others = &skipped.others;
        ensure!(others.len() <= MOST_SKIPPED, "{} tests are skipped: {}", others.len(), others.join("; "));
        Ok(skipped)
    });
    Outcome { machine, minutes: begin.elapsed().as_secs_f64() / 60.0, result }
}

/// Runs the tests in a clone in this user's home in a bare system; those that it skipped.
fn in_bare(workspace: &Workspace, (machine, release): (&str, &str), user: &str) -> Result<Vec<String>> {
    needs::ensure_here(&[("git", "git")])?;
    let bare = Bare::new(workspace, &format!("machines/{machine}"), release, PACKAGES)?;
    let home = match user {
        "root" => bare.folder().join("root"),
        user => {
            shell::output(&mut bare.plain("root", &format!("useradd --create-home --shell /bin/sh {user}")))?;
            bare.folder().join("home").join(user)
        }
    };
    shell::timed("copy of the Rust toolchains", || toolchains(&home))?;
    clone(workspace, &home.join("iopj"))?;
    // Where this machine's Python downloads from.
    if Path::new("/etc/pip.conf").exists() {
        fs::copy("/etc/pip.conf", bare.folder().join("etc/pip.conf"))?;
    }
    shell::output(&mut bare.plain("root", &format!("chown -R {user}: ~{user}; chmod 700 ~{user}")))?;
    let script = |command: &str| format!(". ~/.cargo/env && cd ~/iopj && {command}");
    if user == "root" {
        return whole(bare.plain(user, &script("exec cargo xtask test")));
    }
    // Root installs what the tests need; the user could only be told of it.
    let install =
        format!("apt-get update && apt-get install --yes --no-install-recommends {}", needs::packages());
    shell::step("what the tests need", &mut bare.plain("root", &install))?;
    judged(bare.plain(user, &script(&looking(NOTHING))))
}

/// Runs all tests, which say themselves at the end what they skipped.
fn whole(mut command: Command) -> Result<Vec<String>> {
    let mut child = command.stdout(Stdio::piped()).spawn().context("the tests cannot be started")?;
    let (mut is_end, mut skipped, mut last) = (false, Vec::new(), String::new());
    for line in BufReader::new(child.stdout.take().context("no output")?).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        println!("{line}");
        is_end |= line == test::TIMES;
        skipped.extend(line.strip_prefix("skipped: ").filter(|_| is_end).map(str::to_owned));
        last = line;
    }
    ensure!(child.wait()?.success(), "{last}");
    Ok(skipped)
}

/// Runs the tests, and further ones, in a clone here, after a script with its word.
fn here(workspace: &Workspace, machine: &str, [script, word, further]: [&str; 3]) -> Result<Vec<String>> {
    let folder = Folder::new(workspace, machine)?;
    let mut command = Command::new("unshare");
    let script_and_tests = format!("{script}\ncd \"$3\"\n{}", looking(further));
    command.args(["--mount", "--propagation", "private", "sh", "-c", &script_and_tests, "machine"]);
    let over = folder.0.join("over");
    fs::create_dir(&over)?;
    command.arg(over).arg(word).arg(folder.0.join("iopj"));
    judged(command)
}

/// Runs the tests in a clone here, and builds in another until they end.
fn beside_builds(workspace: &Workspace, machine: &str) -> Result<Vec<String>> {
    let folder = Folder::new(workspace, machine)?;
    let ended = AtomicBool::new(false);
    let builds = || -> Result<()> {
        while !ended.load(Ordering::Relaxed) {
            let target = folder.0.join("builds");
            let mut build = Command::new("cargo");
            build
                .current_dir(folder.0.join("iopj"))
                .args(["build", "--release", "--target-dir"])
                .arg(&target);
            shell::output(&mut build)?;
            fs::remove_dir_all(target)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let builds = scope.spawn(builds);
        let mut command = Command::new("sh");
        command.current_dir(folder.0.join("iopj")).args(["-c", &looking(GUEST)]);
        let judged = judged(command);
        ended.store(true, Ordering::Relaxed);
        let built = builds.join().unwrap_or_else(|_| bail!("what built beside the tests panicked"));
        built.context("the build beside the tests").and(judged)
    })
}

/// The tests that a command skipped, which runs `cargo test`.
fn judged(command: Command) -> Result<Vec<String>> {
    let results: Results = binaries::run_cargo(command)?;
    let failed = results.failed();
    match failed.is_empty() {
        true => Ok(results.skipped().to_vec()),
        false => bail!("{} failed: {}", failed.len(), failed.join(", ")),
    }
}

fn clone(workspace: &Workspace, to: &Path) -> Result<()> {
    let mut clone = workspace.program("git", "clone --quiet --no-hardlinks .");
    if !clone.arg(to).status().is_ok_and(|status| status.success()) {
        bail!("`{}` cannot be cloned", workspace.root.display());
    }
    Ok(())
}

/// A folder with a clone, removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(workspace: &Workspace, machine: &str) -> Result<Folder> {
        let folder = Folder(workspace.target.join("machines").join(machine));
        if folder.0.exists() {
            fs::remove_dir_all(&folder.0).with_context(|| folder.0.display().to_string())?;
        }
        fs::create_dir_all(&folder.0)?;
        clone(workspace, &folder.0.join("iopj"))?;
        Ok(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            println!("{}: {error}", self.0.display());
        }
    }
}

/// What is copied from cargo's folder: programs, downloads, how a shell finds them, and where to download
/// from.
const CARGO: [&str; 5] = ["bin", "env", "registry", "git", "config.toml"];

/// Copies this machine's Rust, installed by rustup, to a home of a bare system.
fn toolchains(home: &Path) -> Result<()> {
    let folder = |variable: &str, name: &str| {
        let own = || Some(PathBuf::from(std::env::var_os("HOME")?).join(name));
        let found = std::env::var_os(variable).map(PathBuf::from).or_else(own).filter(|found| found.is_dir());
        found.with_context(|| format!("{variable} names no folder: install rustup"))
    };
    let (rustup, cargo) = (folder("RUSTUP_HOME", ".rustup")?, folder("CARGO_HOME", ".cargo")?);
    let to = home.join(".cargo");
    fs::create_dir_all(&to)?;
    let parts = CARGO.map(|part| cargo.join(part)).into_iter().filter(|part| part.exists());
    shell::output(Command::new("cp").arg("-a").args(parts).arg(to))?;
    copy_of_rustup(&rustup, &home.join(".rustup"))
}

/// Copies rustup's folder. A toolchain may be a link to another, by a path that is not there in a bare
/// system: the copy holds the toolchain itself.
fn copy_of_rustup(from: &Path, to: &Path) -> Result<()> {
    shell::output(Command::new("cp").arg("-a").arg(from).arg(to))?;
    for entry in fs::read_dir(from.join("toolchains")).context("rustup has no toolchains")? {
        let entry = entry?;
        if entry.file_type()?.is_symlink() {
            let copied = to.join("toolchains").join(entry.file_name());
            fs::remove_file(&copied)?;
            shell::output(Command::new("cp").args(["-a", "-H"]).arg(entry.path()).arg(copied))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 73 tests that an ordinary user skipped were in no count, for a word in their reasons.
    #[test]
    fn what_a_machine_is_there_to_lack_is_skipped_beside_the_rest() {
        let all = ["a: needs root and fio", "b: needs a root file system on a disk", "c: needs fio"];
        let all = || all.map(str::to_owned).to_vec();
        let skipped = Skipped::new(all(), Some(ROOT));
        assert_eq!((&skipped.foreseen[..], &skipped.others[..]), (&all()[..1], &all()[1..]));
        assert_eq!(Skipped::new(all(), None).others, all());
    }

    #[test]
    fn a_toolchain_that_is_a_link_is_copied_itself() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::create_dir_all(from.join("toolchains/stable/bin")).unwrap();
        fs::write(from.join("toolchains/stable/bin/cargo"), "cargo").unwrap();
        std::os::unix::fs::symlink(from.join("toolchains/stable"), from.join("toolchains/1.95.0")).unwrap();
        copy_of_rustup(&from, &to).unwrap();
        fs::remove_dir_all(&from).unwrap();
        assert_eq!(fs::read_to_string(to.join("toolchains/1.95.0/bin/cargo")).unwrap(), "cargo");
    }
}
