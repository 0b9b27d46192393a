//! Every kind of input for seconds: its first inputs, and changes of them that are the same each time.

use iopj_harness::{TARGETS, Target};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Changes of each first input.
const CHANGES: usize = 12;
/// Bytes and words that readers treat in a way of their own.
const PIECES: &[&[u8]] = &[
    b"\0",
    b"\n",
    b"\"",
    b"'",
    b"<",
    b"\\",
    b"-",
    b"/",
    b"..",
    b"\xe2\x80\xa8",
    b"{",
    b"]",
    b"null",
    b"-1",
    b"1e999",
];

/// Between 0 and `most`, without `most`; 0 of none.
fn below(random: &mut Xoshiro256PlusPlus, most: usize) -> usize {
    random.next_u64() as usize % most.max(1)
}

fn changed(seed: &[u8], random: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    let mut input = seed.to_vec();
    for _ in 0..1 + below(random, 4) {
        let place = below(random, input.len() + 1);
        let end = (place + below(random, 8)).min(input.len());
        match below(random, 4) {
            0 => drop(input.splice(place..end, PIECES[below(random, PIECES.len())].iter().copied())),
            1 => drop(input.drain(place..end)),
            2 => input.get_mut(place).map_or((), |byte| *byte ^= 1 << below(random, 8)),
            _ => {
                let again = input[place..end].to_vec();
                drop(input.splice(place..place, again));
            }
        }
    }
    input
}

fn run(name: &str) {
    let Target { run, seeds, .. } = *TARGETS.iter().find(|target| target.name == name).unwrap();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(10);
    for seed in seeds() {
        run(&seed);
        (0..CHANGES).for_each(|_| run(&changed(&seed, &mut random)));
    }
}

macro_rules! gate {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            run(stringify!($name));
        })*

        #[test]
        fn every_target_is_run_here() {
            let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(names, [$(stringify!($name)),*]);
        }
    };
}

gate! { store_bytes store_sql journal frames campaign job_state manifest page }
