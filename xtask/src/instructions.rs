//! `cargo xtask instructions`: user-space instructions that a generator spends on one I/O, the `nvme-user`
//! engine alone on one I/O and one empty poll, and the adaptive engine beyond the engine that it picks; and
//! how those of reading a store grow with it (`reading`).
//!
//! Two runs of different length under callgrind: the difference in instructions divided by the difference in
//! I/Os excludes start and end. For iopj, the generator's loop is counted (`program`). valgrind hides the
//! vDSO, which turns clock reads into system calls whose inner instructions are not counted: so the
//! instructions of the clock function are subtracted, and its calls times the instructions of one read on
//! this machine (`clock`) are added. The kernel's instructions are not counted.

mod callgrind;
mod clock;
mod program;
mod reading;
mod routed;

use crate::options::{Options, Usage};
use crate::workspace::Workspace;
use crate::{needs, shell};
use anyhow::{Context, Result, bail};
use callgrind::Profile;
use program::{Case, Program, engine_cases, engine_limit};
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// I/Os of the shorter and the longer run of iopj or fio. If a whole program is counted, the cost of its end
/// varies by about a million instructions: the difference must be large enough to make that negligible.
const IOS: [u64; 2] = [20_000, 220_000];
/// Those of the engine on its simulated drive, which does the same each time: the figures are within 0.1 of
/// those of ten times as many.
const ENGINE_IOS: [u64; 2] = [2_000, 22_000];
/// How often a case over its limit is counted. How many completions arrive at once, and so the cost of one,
/// varies with the disk's speed; the lowest count of each length is nearest to the code's own cost.
const COUNTS: u32 = 3;
/// Bytes of the file that is read.
const FILE_LEN: u64 = 64 << 20;
/// Those of the adaptive engine in iopj, of which only the loop is counted: some twenty epochs lie between.
const ROUTED_IOS: [u64; 2] = [20_000, 60_000];
/// Path, depth, and the most instructions that an I/O may cost. At depth 1 a ring makes one system call for
/// each completion. What the adaptive engine picks stands before it.
const CASES: &[(&str, u32, Limit)] = &[
    ("posix-sio/syscall/interrupt", 1, Limit::Most(200.0)),
    ("auto:posix-sio/syscall/interrupt", 1, Limit::Added(routed::LIMIT)),
    ("io_uring/syscall/interrupt", 32, Limit::Most(200.0)),
    ("auto:io_uring/syscall/interrupt", 32, Limit::Added(routed::LIMIT)),
    ("io_uring/syscall/interrupt", 1, Limit::Most(250.0)),
    ("auto:io_uring/syscall/interrupt", 1, Limit::Added(routed::LIMIT)),
    ("libaio/syscall/interrupt", 32, Limit::None),
    ("posix-aio/syscall/interrupt", 1, Limit::None),
];

/// The most instructions that an I/O may cost.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    None,
    /// With its clock reads.
    Most(f64),
    /// Beyond those of the path alone, both without clock reads.
    Added(f64),
}

impl Limit {
    /// True if an I/O costs more. `alone` is what one of the path alone costs: without it, nothing was
    /// compared.
    fn is_passed(self, cost: &Cost, clock_read: u32, alone: Option<f64>) -> bool {
        match (self, alone) {
            (Limit::Most(most), _) => cost.total(clock_read) > most,
            (Limit::Added(most), alone) => alone.is_none_or(|alone| cost.program - alone > most),
            (Limit::None, _) => false,
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::None => f.pad("-"),
            Limit::Most(most) => f.pad(&most.to_string()),
            Limit::Added(most) => f.pad(&format!("+{most}")),
        }
    }
}

pub(crate) fn run(workspace: &Workspace, mut options: Options) -> Result<()> {
    let (check, fio) = (options.flag("--check"), options.flag("--fio"));
    let paths = options.rest()?;
    if fio && (check || !paths.is_empty()) {
        return Err(Usage(
            "`--fio` takes no other option or path: fio has no limit, and its two cases are fixed".to_owned(),
        )
        .into());
    }
    if !needs::is_here("valgrind") {
        bail!("the instructions are counted by valgrind, which is missing: install it");
    }
    if fio {
        let cases = [Case::new("psync", 1), Case::new("io_uring", 32)];
        return measure(workspace, &Program::Fio, &cases).map(|_| ());
    }
    let over = if paths.is_empty() {
        [
            count_iopj(workspace, &default_cases())?,
            count_engine(workspace)?,
            routed::count(workspace)?,
            reading::count(workspace)?,
        ]
        .concat()
    } else {
        count_iopj(workspace, &with_alone(parse_cases(&paths)?))?
    };
    if check { within_limits(&over) } else { Ok(()) }
}

/// The cases of iopj that have a limit, compared with it. They need a disk on which nobody else measures.
pub(crate) fn check_iopj(workspace: &Workspace) -> Result<()> {
    let count = || within_limits(&count_iopj(workspace, &limited_cases())?);
    shell::timed("instructions per I/O of iopj", count)
}

/// As [`check_iopj`], of the program by the profile `dist`. This build keeps the names of the functions, by
/// which the generator's loop is found.
pub(crate) fn check_shipped(workspace: &Workspace) -> Result<()> {
    let folder = workspace.target.join("shipped");
    let mut build = workspace.cargo("build --profile dist --package iopj --features parquet --target-dir");
    shell::step("build by the profile dist", build.arg(&folder))?;
    let program = Program::Iopj(folder.join("dist/iopj"));
    let count = || within_limits(&measure(workspace, &program, &limited_cases())?);
    shell::timed("instructions per I/O of iopj by the profile dist", count)
}

/// The cases of the adaptive engine compared with their limits. They need a disk on which nobody else
/// measures.
pub(crate) fn check_routed(workspace: &Workspace) -> Result<()> {
    shell::timed("instructions per routed I/O", || within_limits(&routed::count(workspace)?))
}

/// The cases of the engine `nvme-user` compared with their limits. They need no disk.
pub(crate) fn check_engine(workspace: &Workspace) -> Result<()> {
    shell::timed("instructions per I/O of the engine nvme-user", || within_limits(&count_engine(workspace)?))
}

/// How the instructions of what reads a store grow with it.
pub(crate) fn check_reading(workspace: &Workspace) -> Result<()> {
    shell::timed("instructions of reading long stores", || within_limits(&reading::count(workspace)?))
}

fn count_iopj(workspace: &Workspace, cases: &[Case]) -> Result<Vec<String>> {
    measure(workspace, &Program::Iopj(workspace.release_binary()?), cases)
}

fn count_engine(workspace: &Workspace) -> Result<Vec<String>> {
    measure(workspace, &Program::Engine(workspace.benches()?.nvme_user), &engine_cases())
}

fn within_limits(over: &[String]) -> Result<()> {
    if !over.is_empty() {
        bail!("over the limit of instructions: {}", over.join(", "));
    }
    Ok(())
}

fn limited_cases() -> Vec<Case> {
    let limited = CASES.iter().filter(|(.., limit)| *limit != Limit::None);
    limited.map(|(path, iodepth, _)| Case::new(path, *iodepth)).collect()
}

fn default_cases() -> Vec<Case> {
    CASES.iter().map(|(path, iodepth, _)| Case::new(path, *iodepth)).collect()
}

/// `PATH` at its usual depth, or `PATH@IODEPTH`.
fn parse_cases(words: &[String]) -> Result<Vec<Case>, Usage> {
    let parse = |word: &String| match word.split_once('@') {
        Some((path, iodepth)) => match iodepth.parse() {
            Ok(iodepth) => Ok(Case::new(path, iodepth)),
            Err(_) => Err(Usage(format!(
                "`{word}`: the depth is a whole number, as in io_uring/syscall/interrupt@8"
            ))),
        },
        None => Ok(Case::new(word, if word.contains("posix-") { 1 } else { 32 })),
    };
    words.iter().map(parse).collect()
}

/// What the adaptive engine picks stands before each case of it.
fn with_alone(cases: Vec<Case>) -> Vec<Case> {
    let mut all: Vec<Case> = Vec::new();
    for case in cases {
        if let Some(path) = picked(&case)
            && !all.iter().any(|one| one.path == path && one.iodepth == case.iodepth)
        {
            all.push(Case::new(path, case.iodepth));
        }
        all.push(case);
    }
    all
}

/// The path on which the adaptive engine is pinned in a case.
fn picked(case: &Case) -> Option<&str> {
    case.path.strip_prefix("auto:").filter(|path| path.contains('/') && !path.ends_with(".toml"))
}

/// The most instructions that a case may cost.
fn limit(program: &Program, case: &Case) -> Limit {
    let is_this = |(path, iodepth, _): &&(&str, u32, _)| *path == case.path && *iodepth == case.iodepth;
    match program {
        Program::Iopj(_) => CASES.iter().find(is_this).map_or(Limit::None, |(.., limit)| *limit),
        Program::Fio => Limit::None,
        Program::Engine(_) => engine_limit(case).map_or(Limit::None, Limit::Most),
    }
}

/// Counts every case and prints the table; returns the names of the cases over their limit.
fn measure(workspace: &Workspace, program: &Program, cases: &[Case]) -> Result<Vec<String>> {
    let folder = empty_folder(workspace, &format!("instructions-{}", program.word()))?;
    let file = folder.join("data");
    if program.reads_file() {
        write_file(&file)?;
    }
    let clock_read =
        clock::instructions_per_read().context("the instructions of a clock read cannot be counted")?;
    println!(
        "{:<34} {:>7} {:>11} {:>7} {:>11} {:>11} {:>11} {:>6}",
        "path", "iodepth", "program", "added", "clock reads", "per read", "total", "limit"
    );
    let (mut over, mut known) = (Vec::new(), Vec::new());
    for case in cases {
        let limit = limit(program, case);
        let alone = alone(&known, case);
        let is_over = |cost: &Cost| limit.is_passed(cost, clock_read, alone);
        let [short, long] = lengths(program, case);
        let cost = Cost::of(long - short, is_over, || profiles(program, case, &file, &folder))?;
        let total = cost.total(clock_read);
        let added = alone.map_or("-".to_owned(), |alone| format!("{:.1}", cost.program - alone));
        println!(
            "{:<34} {:>7} {:>11.1} {added:>7} {:>11.3} {clock_read:>11} {total:>11.1} {limit:>6}",
            case.path, case.iodepth, cost.program, cost.clock_reads
        );
        if is_over(&cost) {
            over.push(format!("{} at depth {}", case.path, case.iodepth));
        }
        known.push((case, cost.program));
    }
    println!("user-space instructions per I/O of {}, by valgrind --tool=callgrind", program.name());
    fs::remove_dir_all(folder)?;
    Ok(over)
}

/// What the path alone costs on which the adaptive engine is pinned in this case, if it was counted.
fn alone(known: &[(&Case, f64)], case: &Case) -> Option<f64> {
    let path = picked(case)?;
    let is_this = |(of, _): &&(&Case, f64)| of.path == path && of.iodepth == case.iodepth;
    known.iter().find(is_this).map(|(_, cost)| *cost)
}

/// The folder of some counts, empty. Others may be at work at the same time: in one folder, those that ended
/// first removed the files of the rest.
fn empty_folder(workspace: &Workspace, name: &str) -> Result<PathBuf> {
    let folder = workspace.target.join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Writes a whole file of incompressible bytes.
fn write_file(path: &Path) -> Result<()> {
    let mut file = File::create(path).with_context(|| path.display().to_string())?;
    io::copy(&mut io::Read::take(File::open("/dev/urandom")?, FILE_LEN), &mut file)?;
    Ok(file.sync_all()?)
}

/// What one I/O costs, with clock reads separate.
struct Cost {
    /// Instructions outside the clock's function.
    program: f64,
    /// Calls of the clock's function.
    clock_reads: f64,
}

/// I/Os of the shorter and the longer run.
fn lengths(program: &Program, case: &Case) -> [u64; 2] {
    match program {
        Program::Engine(_) => ENGINE_IOS,
        _ if case.path.starts_with("auto:") => ROUTED_IOS,
        _ => IOS,
    }
}

/// One run of each length.
fn profiles(program: &Program, case: &Case, file: &Path, folder: &Path) -> Result<[Profile; 2]> {
    let profile = |ios| {
        let command = program.command(case, ios, file, folder);
        // A case that is counted again would find its store.
        if let Some(store) = program.store(case, ios, folder).filter(|store| store.exists()) {
            fs::remove_file(store)?;
        }
        let profile = callgrind::profile(&command, program.counted(case), &folder.join("callgrind.out"));
        profile.with_context(|| format!("{}, depth {}", case.path, case.iodepth))
    };
    let [short, long] = lengths(program, case);
    Ok([profile(short)?, profile(long)?])
}

impl Cost {
    /// Counts two runs that differ by `ios` until the case is within its limit, at most [`COUNTS`] times.
    fn of(
        ios: u64,
        is_over: impl Fn(&Cost) -> bool,
        mut count: impl FnMut() -> Result<[Profile; 2]>,
    ) -> Result<Cost> {
        let [mut short, mut long] = count()?;
        let mut cost = Cost::between(&short, &long, ios);
        for _ in 1..COUNTS {
            if !is_over(&cost) {
                break;
            }
            let again = count()?;
            for (least, again) in [&mut short, &mut long].into_iter().zip(again) {
                if again.outside_clock() < least.outside_clock() {
                    *least = again;
                }
            }
            cost = Cost::between(&short, &long, ios);
        }
        Ok(cost)
    }

    /// Instructions with those of the clock reads.
    fn total(&self, clock_read: u32) -> f64 {
        self.program + self.clock_reads * f64::from(clock_read)
    }

    fn between(short: &Profile, long: &Profile, ios: u64) -> Cost {
        let outside_clock = |profile: &Profile| profile.outside_clock() as f64;
        Cost {
            program: (outside_clock(long) - outside_clock(short)) / ios as f64,
            clock_reads: (long.clock_calls as f64 - short.clock_calls as f64) / ios as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_subtracted_from_the_program() {
        let short = Profile { instructions: 10_500, clock_instructions: 500, clock_calls: 50 };
        let long = Profile { instructions: 31_500, clock_instructions: 1_500, clock_calls: 150 };
        let cost = Cost::between(&short, &long, 100);
        assert_eq!((cost.program, cost.clock_reads), (200.0, 1.0));
    }

    #[test]
    fn a_case_over_its_limit_is_counted_three_times_and_the_least_of_each_length_is_taken() {
        let ios = 200_000;
        let run = |instructions| Profile { instructions, clock_instructions: 0, clock_calls: 0 };
        let count = |runs: [[u64; 2]; 4]| {
            let mut runs = runs.into_iter();
            let is_over = |cost: &Cost| cost.total(10) > 400.0;
            let cost = Cost::of(ios, is_over, || Ok(runs.next().unwrap().map(run))).unwrap();
            (cost.program, runs.count())
        };
        let at = |per_io: u64| 1_000_000 + per_io * ios;
        assert_eq!(count([[1_000_000, at(400)], [0, 0], [0, 0], [0, 0]]), (400.0, 3));
        assert_eq!(count([[1_000_000, at(410)], [1_000_000 + ios, at(399)], [0, 0], [0, 0]]), (399.0, 2));
        // A short run that costs more by chance does not lower the difference.
        assert_eq!(
            count([[1_000_000 + ios, at(411)], [1_000_000, at(410)], [1_000_000, at(411)], [0, 0]]),
            (410.0, 1)
        );
    }

    #[test]
    fn cases_have_their_usual_depth_or_the_one_given() {
        let words = ["posix-sio/syscall/poll", "libaio/syscall/interrupt", "io_uring/syscall/interrupt@8"];
        let cases = parse_cases(&words.map(str::to_owned)).unwrap();
        assert_eq!(cases.iter().map(|case| case.iodepth).collect::<Vec<_>>(), [1, 32, 8]);
        assert!(parse_cases(&["libaio/syscall/interrupt@many".to_owned()]).is_err());
    }

    #[test]
    fn what_the_adaptive_engine_picks_is_counted_before_it() {
        let words = ["auto:a/b@8", "a/b@8", "auto:a/b@8", "auto:cpu@8", "auto:a/b.toml@8", "auto:a/b@1"];
        let cases = with_alone(parse_cases(&words.map(str::to_owned)).unwrap());
        let named: Vec<_> = cases.iter().map(|case| format!("{}@{}", case.path, case.iodepth)).collect();
        let [first, rest @ ..] = words;
        let mut expected = vec!["a/b@8", first];
        expected.extend(&rest[..4]);
        expected.extend(["a/b@1", rest[4]]);
        assert_eq!(named, expected);
    }

    #[test]
    fn limits_hold_for_their_cases() {
        let iopj = Program::Iopj("iopj".into());
        let of = |path, iodepth| limit(&iopj, &Case::new(path, iodepth));
        assert_eq!(of("posix-sio/syscall/interrupt", 1), Limit::Most(200.0));
        assert_eq!(of("io_uring/syscall/interrupt", 32), Limit::Most(200.0));
        assert_eq!(of("io_uring/syscall/interrupt", 1), Limit::Most(250.0));
        assert_eq!(of("auto:io_uring/syscall/interrupt", 1), Limit::Added(25.0));
        assert_eq!(of("io_uring/syscall/interrupt", 8), Limit::None);
        assert_eq!(of("libaio/syscall/interrupt", 32), Limit::None);
        assert_eq!(limit(&Program::Fio, &Case::new("io_uring", 32)), Limit::None);
        let engine = Program::Engine("nvme_user".into());
        let limits: Vec<_> = engine_cases().iter().map(|case| limit(&engine, case)).collect();
        assert_eq!(limits, [180.0, 150.0, 150.0, 180.0, 150.0, 30.0].map(Limit::Most));
    }

    #[test]
    fn the_adaptive_engine_is_compared_with_the_path_that_it_picks_at_the_same_depth() {
        let cases = [("a/b", 1), ("a/b", 32)].map(|(path, iodepth)| Case::new(path, iodepth));
        let known = [(&cases[0], 200.0), (&cases[1], 170.0)];
        assert_eq!(alone(&known, &Case::new("auto:a/b", 32)), Some(170.0));
        assert_eq!(alone(&known, &Case::new("auto:a/b", 8)), None);
        assert_eq!(alone(&known, &cases[0]), None);
        let cost = Cost { program: 195.5, clock_reads: 10.0 };
        let is_over = |alone| Limit::Added(25.0).is_passed(&cost, 80, alone);
        assert!(is_over(Some(170.0)) && !is_over(Some(171.0)) && is_over(None));
    }
}
