//! Chores of the repository, `cargo xtask CHORE`: one module per chore, and what they share. The chores run
//! the built `iopj` and link none of its crates.
#![expect(clippy::print_stdout, reason = "chores print to the terminal")]

mod chroot;
mod crates;
mod dist;
mod functions;
mod fuzz;
mod instructions;
mod lint;
mod modules;
mod needs;
mod options;
mod paths;
mod results;
mod shell;
mod sizes;
mod soak;
mod test;
mod width;
mod workspace;

use options::{Options, Usage};
use std::process::ExitCode;
use workspace::Workspace;

const USAGE: &str = "\
usage: cargo xtask CHORE

  test                                   install or name what the tests need, then run them all
  soak [ignored|properties|address|chroots]...
                                         what takes longer than the tests: everything, or these parts
  lint [crates|modules|sizes|width|paths|locks|format|clippy|docs|msrv|licences]...
                                         what can be checked without tests: everything, or these parts
  instructions [--check] [--fio] [PATH[@IODEPTH]...]
                                         user-space instructions per I/O of the generator, or of fio
  fuzz [--seconds N]                     every fuzz target for N seconds (60)
  kernel-functions TREE...               the table of kernel functions and their source folders, from kernel \
                     sources
  dist                                   release binary, man pages and completions
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
    let chore = words.next().unwrap_or_default();
    let options = Options::new(words);
    let chore = match chore.as_str() {
        "test" => test::run,
        "lint" => lint::run,
        "soak" => soak::run,
        "instructions" => instructions::run,
        "fuzz" => fuzz::run,
        "kernel-functions" => functions::run,
        "dist" => dist::run,
        "" => return Err(Usage("no chore was named".to_owned()).into()),
        other => return Err(Usage(format!("there is no chore `{other}`")).into()),
    };
    chore(&Workspace::find()?, options)
}
