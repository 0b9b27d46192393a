//! The evaluation of the chooser in simulation: `evaluate [CELLS [SEED]]`. Fails if a threshold does.

use iopj_auto::evaluate::{CELLS, Question, evaluate_all};
use std::process::ExitCode;

#[expect(clippy::print_stdout, reason = "it is a program")]
fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).filter_map(|arg| arg.parse().ok());
    let (cells, seed) = (numbers.next().unwrap_or(CELLS), numbers.next().unwrap_or(1));
    let report = evaluate_all(&Question { seed, cells, recorded: None, trace: None });
    print!("{report}");
    if report.holds() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
