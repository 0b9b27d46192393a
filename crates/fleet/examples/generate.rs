//! Makes the stores of a fleet whose truth is known: `generate DIR STORES [SEED [REPLICATES
//! [MACHINES [uneven]]]]`.

use iopj_fleet::testing::fleet::Fleet;
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
    let (Some(folder), Some(stores)) = (words.first().map(PathBuf::from), number(1)) else {
        eprintln!("generate DIR STORES [SEED [REPLICATES [MACHINES [uneven]]]]");
        return ExitCode::from(2);
    };
    let (seed, replicates) = (number(2).unwrap_or(1), number(3).unwrap_or(3) as u32);
    let machines = number(4).map_or(Fleet::default().machines, |machines| machines as usize);
    let is_uneven = words.get(5).is_some_and(|word| word == "uneven");
    let fleet = Fleet { stores: stores as usize, seed, machines, replicates, is_uneven };
    match fleet.write(&folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("generate: {error}");
            ExitCode::FAILURE
        }
    }
}
