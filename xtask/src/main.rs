//! Tasks of development, `cargo xtask TASK`: one module per task, and what they share. The tasks run
//! the built `iopj` and link none of its crates.
#![expect(clippy::print_stdout, reason = "tasks print to the terminal")]

mod bare;
mod binaries;
mod book;
mod chroot;
mod crates;
mod cross;
mod dist;
mod features;
mod ffi;
mod files;
mod functions;
mod fuzz;
mod instructions;
mod lint;
mod machines;
mod meters;
mod modules;
mod needs;
mod options;
mod paths;
mod python;
mod queries;
mod results;
mod semver;
mod shell;
mod sizes;
mod soak;
mod test;
mod tree;
mod trust;
mod venv;
mod width;
mod workspace;

use options::{Options, Usage};
use std::process::ExitCode;
use workspace::Workspace;

const USAGE: &str = "\
usage: cargo xtask TASK

  test                                   install or name what the tests need, then run them all
  soak [ignored|properties|address|semver|book|arm|queries|machines]...
                                         what takes longer than the tests: everything, or these parts
  machines [NAME...]                     the tests on the machines of that part of the soak, or on these
  lint [crates|modules|files|sizes|width|paths|meters|locks|format|clippy|docs|msrv|licences]...
                                         what can be checked without tests: everything, or these parts
  instructions [--check] [--fio] [PATH[@IODEPTH]...]
                                         user-space instructions per I/O of the generator, or of fio
  fuzz [--seconds N] [TARGET...]         these fuzz targets, or all, for N seconds each (60)
  kernel-functions TREE...               the table of kernel functions and their source folders, from kernel \
                     sources
  files                                  docs/files.md and docs/features.md, the indexes
  book [--check]                         the book in target/book, by mdBook; open every page in a browser, \
                     follow every link
  cross [--release]                      iopj for 64-bit Arm, beside this machine's own
  dist [--check]                         tarballs, packages, images and wheels for x86-64 and Arm; whether
                                         they are the same built elsewhere, install, run, go without a trace
  ffi [--header] [--check]               libiopj.so, libiopj.a, iopj.h and iopj.pc for C, in target/ffi, \
                     with the header as cbindgen writes it; compare header and symbols, and run the example
  queries                                a fleet of 1,000 stores, gathered, and asked in DuckDB and Spark
  python [--program FILE] [--chroot RELEASE]
                                         the Python package as a wheel with the release build or FILE, and \
                     as an sdist; tested in an empty environment, or in a bare Debian
  python --built                         its tests, with what the build of the tests has built
  semver                                 whether the library crate keeps its interface
";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is::<Usage>() => {
            eprint!("{error}\n\n{USAGE}");
            ExitCode::from(2)
        }
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let mut words = std::env::args().skip(1);
    let task = words.next().unwrap_or_default();
    let options = Options::new(words);
    let task = match task.as_str() {
        "test" => test::run,
        "lint" => lint::run,
        "soak" => soak::run,
        "machines" => machines::run,
        "instructions" => instructions::run,
        "fuzz" => fuzz::run,
        "kernel-functions" => functions::run,
        "cross" => cross::run,
        "dist" => dist::run,
        "ffi" => ffi::run,
        "book" => book::run,
        "files" => files::run,
        "queries" => queries::run,
        "python" => python::run,
        "semver" => semver::run,
        "" => return Err(Usage("no task was named".to_owned()).into()),
        other => return Err(Usage(format!("there is no task `{other}`")).into()),
    };
    task(&Workspace::find()?, options)
}
