//! A polled path that is falsified between the pass and the end of the window is never verified. The faults
//! need Linux 5.10, where polling can be changed while it runs: to sleep first (`io_poll_delay`), or not to
//! poll (`io_poll`).

use crate::common::{alone_with_guests, folder};
use crate::{have_lab, lab_run_text, trials_kept};
use iopj_core::{IoPath, Slice, VerdictKind};
use iopj_record::energy::{RawValue, ReadingRow};
use iopj_record::{Measurement, Trial};
use iopj_store::Store;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Trials of each path: with the same faults in the gate, with different ones in each soak.
const REPLICATES: usize = 11;
const MANY_REPLICATES: usize = 780;
const SEED: u64 = 11;

/// The kinds of faults, as `fault.sh` numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Sleeps,
    Interrupts,
    Stops,
    Spins,
}

const WAYS: [Way; 4] = [Way::Sleeps, Way::Interrupts, Way::Stops, Way::Spins];

/// A fault, by `CLOCK_MONOTONIC_RAW` in ns.
#[derive(Clone, Copy, Debug)]
struct Fault {
    way: Way,
    begin_ns: u64,
    end_ns: u64,
}

/// The faults that the script printed.
fn faults(store: &Path) -> Vec<Fault> {
    let store = Store::open(store).unwrap();
    let meter = store.meters().unwrap().remove(0);
    let fault = |reading: ReadingRow| {
        let RawValue::Watts(number) = reading.value else { panic!("{reading:?}") };
        let (way, length) = ((number / 1000.0) as usize, number % 1000.0);
        let way = *WAYS.get(way.checked_sub(1)?)?;
        let end_ns = reading.end_ns;
        Some(Fault { way, begin_ns: end_ns.saturating_sub((length * 1e7) as u64), end_ns })
    };
    store.readings(meter.id).unwrap().into_iter().filter_map(fault).collect()
}

/// The fault of a measured trial since the end of the one before: none, one of enough of its window, or
/// (`None`) one that decides nothing.
fn fault_of(measured: &Measurement, since_ns: u64, faults: &[Fault]) -> Option<Option<Way>> {
    let [begin, end] = measured.window_raw_ns.unwrap();
    let mut own = faults.iter().filter(|fault| (since_ns..end).contains(&fault.begin_ns));
    let fault = match (own.next(), own.next()) {
        (None, _) => return Some(None),
        (Some(fault), None) => fault,
        _ => return None,
    };
    let inside_ns = fault.end_ns.min(end).saturating_sub(fault.begin_ns.max(begin));
    let is_half = 2 * inside_ns >= end - begin;
    let decides = match fault.way {
        Way::Sleeps | Way::Interrupts => is_half && ios_inside(measured, fault) >= 0.1,
        // It does no I/O: the CPU time shows it.
        Way::Stops => is_half,
        // A third of the rounds with sleeps cannot be distinguished from all of them (docs/verdicts.md).
        Way::Spins => ios_inside(measured, fault) >= 0.75,
    };
    decides.then_some(Some(fault.way))
}

/// The share of a trial's I/Os in the slices of its window that are wholly inside a fault. A machine that
/// pauses does fewer in the same time.
fn ios_inside(measured: &Measurement, fault: &Fault) -> f64 {
    let (window_ns, mut begin_ns) = (measured.window_raw_ns.unwrap()[0], 0);
    let mut inside = 0;
    for Slice { end_ns, ios } in &measured.series {
        let is_inside = fault.begin_ns <= window_ns + begin_ns && window_ns + end_ns <= fault.end_ns;
        inside += if is_inside { *ios } else { 0 };
        begin_ns = *end_ns;
    }
    inside as f64 / measured.ios as f64
}

/// The study's trials, each with its fault.
fn falsified(replicates: usize, seed: u64) -> Vec<(Trial, Option<Way>)> {
    let folder = folder();
    let script = folder.join("fault");
    std::fs::write(&script, include_str!("fault.sh").replace("@SEED@", &seed.to_string())).unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    let study = format!(
        "name = \"faults\"\nseed = 1\nreplicates = {replicates}\nidle = \"500ms\"\nsettle_limit = \
         \"500ms\"\npaths = [\"posix-sio/syscall/poll\", \"io_uring/syscall/poll\", \
         \"posix-sio/syscall/hybrid\"]\n[meters.own]\nkind = \"command\"\ncommand = [{script:?}]\nscope = \
         \"system\"\ninterval = \"100ms\"\n[[workload]]\nrw = \"randread\"\nbs = \"4k\"\nramp_time = \
         \"300ms\"\nruntime = \"1s\"\n"
    );
    let options = format!("--kernel 5.10 --allow-exec --time-limit {}m", 10 + replicates);
    let output = lab_run_text(&folder, "faults", &study, &options);
    let mut trials = trials_kept(&folder, "faults", &String::from_utf8_lossy(&output.stderr));
    let faults = faults(&folder.join("faults.iopj"));
    // A trial that fails by a fault is not verified either.
    let window =
        |trial: &Trial| trial.outcome.measurement().map(|measurement| measurement.window_raw_ns.unwrap());
    trials.retain(|trial| window(trial).is_some());
    trials.sort_by_key(window);
    let mut since_ns = 0;
    let with = |trial: Trial| {
        let measured = trial.outcome.measurement().unwrap();
        let since_ns = std::mem::replace(&mut since_ns, measured.window_raw_ns.unwrap()[1]);
        fault_of(measured, since_ns, &faults).map(|way| (trial, way))
    };
    trials.into_iter().filter_map(with).collect()
}

/// Asserts that of at least this many trials with each kind of fault none is verified, and that each path
/// that has trials without a fault is verified in one of them.
fn are_never_verified(replicates: usize, seed: u64, least: usize) {
    if !have_lab(&["5.10"]) {
        return;
    }
    let _alone = alone_with_guests();
    let (mut seen, mut proven) = (BTreeMap::<Option<Way>, usize>::new(), BTreeMap::<IoPath, usize>::new());
    let mut wrong = Vec::new();
    for (trial, way) in falsified(replicates, seed) {
        let verdict = &trial.outcome.measurement().unwrap().verdict;
        let is_verified = verdict.kind == VerdictKind::Verified;
        let name = format!("{way:?} {} {:?}: {:?}", trial.path, verdict.kind, verdict.reasons);
        eprintln!("{name}");
        *seen.entry(way).or_default() += 1;
        match way {
            None => *proven.entry(trial.path).or_default() += usize::from(is_verified),
            Some(_) if is_verified => wrong.push(name),
            Some(_) => {}
        }
    }
    eprintln!("{seen:?}, without a fault verified: {proven:?}");
    assert!(wrong.is_empty(), "verified, {} of {seen:?}: {wrong:#?}", wrong.len());
    assert!(WAYS.iter().all(|way| seen.get(&Some(*way)).is_some_and(|trials| *trials >= least)), "{seen:?}");
    // A busy machine may have no trial of a path without a fault.
    assert!(proven.len() >= 2 && proven.values().all(|verified| *verified > 0), "{proven:?}");
}

#[test]
fn a_polled_path_that_is_falsified_after_its_pass_is_never_verified() {
    are_never_verified(REPLICATES, SEED, 1);
}

#[test]
#[ignore = "a soak: cargo xtask soak"]
fn soak_a_polled_path_that_is_falsified_after_its_pass_is_never_verified() {
    are_never_verified(MANY_REPLICATES, 0, 200);
}
