//! Fixed parts of trials with given costs, spins and sleeps, compared with NumPy's and SciPy's.

use super::*;
use iopj_core::Rw;
use iopj_record::Outcome;
use iopj_record::testing::cells::{Measured, cell, workload};
use iopj_record::testing::costs::{function, set_counted};

const PATHS: [&str; 3] =
    ["posix-sio/syscall/interrupt", "posix-sio/syscall/poll", "posix-sio/syscall/hybrid"];

/// Trials of 1,000 I/Os with these loads in `block/`, calls of `nvme_poll` and sleeps per I/O.
fn trials(path: &str, runs: &[[f64; 3]]) -> Vec<Measurement> {
    let cells = cell(path, &workload(Rw::Randread, 1), Measured::default(), &vec![0.0; runs.len()]);
    let of = |(trial, [loads, spins, sleeps]): (iopj_record::Trial, &[f64; 3])| {
        let Outcome::Measured(mut one) = trial.outcome else { panic!() };
        let thousand = |per_io: &f64| (1000.0 * per_io).round() as u64;
        let mut poll = function("nvme_poll", "drivers/nvme/host/", [0, 7, 0]);
        poll.cost.calls = thousand(spins);
        set_counted(&mut one, 1000, vec![function("f", "block/", [0, thousand(loads), 0]), poll]);
        one.evidence.process.voluntary_switches = thousand(sleeps);
        *one
    };
    cells.into_iter().zip(runs).map(of).collect()
}

fn fits(all: [&[[f64; 3]]; 3]) -> FixedParts {
    let measured: Vec<Vec<Measurement>> =
        PATHS.iter().zip(all).map(|(path, runs)| trials(path, runs)).collect();
    let measured: Vec<Vec<&Measurement>> = measured.iter().map(|all| all.iter().collect()).collect();
    let paths: Vec<(IoPath, &[&Measurement])> =
        PATHS.iter().zip(&measured).map(|(path, all)| (path.parse().unwrap(), &all[..])).collect();
    fixed_parts(&paths, |one| one.directory.as_deref() == Some("block/"))
}

fn near(value: f64, expected: f64) {
    assert!((value / expected - 1.0).abs() < 1e-7, "{value} {expected}");
}

const POLL: [[f64; 3]; 6] = [
    [500.0, 10.0, 0.0],
    [539.0, 12.0, 0.0],
    [480.0, 9.0, 0.0],
    [582.0, 14.0, 0.0],
    [519.0, 11.0, 0.0],
    [560.0, 13.0, 0.0],
];
/// No spins and no sleeps.
const FOUND_DONE: [[f64; 3]; 5] =
    [[250.0, 0.0, 0.0], [252.0, 0.0, 0.0], [249.0, 0.0, 0.0], [251.0, 0.0, 0.0], [250.0, 0.0, 0.0]];
const HYBRID: [[f64; 3]; 5] =
    [[401.0, 0.0, 1.0], [399.0, 0.0, 1.0], [402.0, 0.0, 1.0], [398.0, 0.0, 1.0], [400.0, 0.0, 1.0]];

#[test]
fn paths_whose_own_trials_tell_their_fixed_parts_are_compared_by_both_errors() {
    let apart = fits([&FOUND_DONE, &POLL, &[]]).apart([0, 1]).unwrap();
    // r = scipy.stats.linregress(spins, poll): r.intercept, its 95 % interval by t of 4 degrees of freedom;
    // then Welch's t of it and of interrupt's mean, from their standard errors.
    near(apart.parts[0].0, 250.4);
    let (fixed, (low, high), runs) = apart.parts[1];
    near(fixed, 296.7142857142857);
    near(low, 288.46529447725106);
    near(high, 304.9632769513212);
    near(apart.test.t, -15.36383615782032);
    near(apart.test.df, 4.235430768097811);
    near(apart.test.p, 7.105532066599196e-05);
    assert_eq!((apart.parts[0].2, runs), (5, 6));
}

/// Interrupt, whose sleeps vary and cost 100 each.
fn interrupt() -> Vec<[f64; 3]> {
    let noise = [1.0, -1.0, 0.0, 1.0, -1.0];
    let sleeps = [0.5, 0.6, 0.7, 0.8, 0.9].into_iter().zip(noise);
    sleeps.map(|(sleeps, noise)| [250.0 + 100.0 * sleeps + noise, 0.0, sleeps]).collect()
}

#[test]
fn a_spin_that_never_varies_is_taken_off_by_the_fit_over_all_paths_and_a_hybrid_sleep_has_its_own_part() {
    // 180 per sleep: the timer.
    let hybrid =
        [[389.0, 3.0, 0.6], [405.0, 3.0, 0.7], [426.0, 3.0, 0.8], [440.0, 3.0, 0.9], [460.0, 3.0, 1.0]];
    let apart = fits([&interrupt(), &POLL, &hybrid]).apart([2, 0]).unwrap();
    // np.linalg.lstsq with a column for each path, spins, sleeps of interrupt and sleeps of hybrid; the
    // contrast of hybrid's and interrupt's.
    near(apart.parts[0].0, 221.54285714285655);
    near(apart.parts[0].1.0, 213.7324794975527);
    near(apart.parts[1].0, 251.4);
    near(apart.test.t, -6.500549629296971);
    assert_eq!(apart.test.df, 10.0);
    near(apart.test.p, 6.890609687979684e-05);
}

#[test]
fn a_hybrid_sleep_that_never_varies_is_in_no_fit_and_hides_no_other_path() {
    let own = [[250.0, 0.0, 1.0], [350.0, 10.0, 1.0], [390.0, 14.0, 1.0], [310.0, 6.0, 1.0]];
    for hybrid in [&HYBRID[..], &own] {
        let fits = fits([&interrupt(), &POLL, hybrid]);
        let need =
            "trials of posix-sio/syscall/hybrid whose sleeps vary by 0.05 per I/O or more (1.00 to 1.00)";
        assert_eq!([[2, 0], [1, 2]].map(|places| fits.apart(places).err().unwrap().to_string()), [need; 2]);
        near(fits.apart([0, 1]).unwrap().parts[0].0, 251.4);
    }
}

#[test]
fn a_part_that_no_trial_determines_is_said_to_be_lacking() {
    let lack = |all: [&[[f64; 3]]; 3], places| fits(all).apart(places).err().unwrap().to_string();
    let always = FOUND_DONE.map(|[loads, spins, _]| [loads, spins, 1.0]);
    assert_eq!(
        lack([&always, &POLL, &HYBRID], [2, 1]),
        "trials of posix-sio/syscall/hybrid whose sleeps vary by 0.05 per I/O or more (1.00 to 1.00)"
    );
    assert_eq!(
        lack([&FOUND_DONE, &POLL[..3], &[]], [0, 1]),
        "5 trials of posix-sio/syscall/poll with exact counts of calls, loads and stores (3 there)"
    );
    let both = POLL.map(|[loads, spins, _]| [loads, spins, spins / 20.0]);
    assert_eq!(
        lack([&FOUND_DONE, &both, &[]], [0, 1]),
        "trials of posix-sio/syscall/poll whose spins and sleeps do not rise and fall together"
    );
    assert!(
        lack([&FOUND_DONE[..1], &POLL, &[]], [0, 1]).starts_with("2 trials of posix-sio/syscall/interrupt")
    );
}
