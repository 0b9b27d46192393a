//! The simulation compared with closed formulas of queueing, where they apply.

use super::super::*;
use super::{free_of_cost, run};
use crate::queueing;

/// Exponential times: the means of so many equally likely slices of the distribution. What differs within a
/// slice is lost, a thousandth of the variance.
fn exponential(mean_ns: f64) -> Service {
    const SLICES: u32 = 1024;
    // The integral of the distribution's tail from a probability q of exceeding it on.
    let tail = |q: f64| if q > 0.0 { q * (1.0 - q.ln()) } else { 0.0 };
    let edge = |slice: u32| 1.0 - f64::from(slice) / f64::from(SLICES);
    let mean = |slice| (tail(edge(slice)) - tail(edge(slice + 1))) * f64::from(SLICES) * mean_ns;
    Service::equally_likely((0..SLICES).map(mean).collect())
}

/// A simulated quantity agrees with what a formula says: within four standard errors of the mean of ten
/// independent runs (Student's t with 9 degrees of freedom exceeds that once in 600 times), and the error is
/// small enough to tell.
#[track_caller]
fn agrees(scenario: &Scenario, quantity: impl Fn(&Simulated) -> f64, expected: f64) {
    let runs = (0..10).map(|seed| quantity(&run(&Scenario { seed, ..scenario.clone() })));
    let values: Vec<f64> = runs.collect();
    let mean = values.iter().sum::<f64>() / 10.0;
    let square = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 9.0;
    let error = (square / 10.0).sqrt();
    assert!((mean - expected).abs() < 4.0 * error, "{mean} +- {error} is not {expected}");
    assert!(error < 0.04 * expected, "+- {error} of {expected} tells too little");
}

/// Poisson arrivals at a drive of so many servers, on a path that costs nothing.
fn open(parallelism: u32, rate: f64, service: Service, ios: u64) -> Scenario {
    Scenario {
        iodepth: 4096,
        arrivals: Arrivals::Open { per_job_iops: rate * 1e9, poisson: true, bursts: None },
        drive: SimDrive { parallelism, service: vec![service] },
        ios,
        warm_up_ios: 200,
        ..free_of_cost()
    }
}

#[test]
fn one_server_with_exponential_times() {
    let wait = queueing::mmc_wait(1, 0.6e-4, 1e4).unwrap();
    agrees(&open(1, 0.6e-4, exponential(1e4), 6000), |one| one.mean_ns - 1e4, wait);
}

#[test]
fn several_servers_with_exponential_times() {
    let wait = queueing::mmc_wait(3, 2e-4, 1e4).unwrap();
    agrees(&open(3, 2e-4, exponential(1e4), 10_000), |one| one.mean_ns - 1e4, wait);
}

#[test]
fn one_server_with_constant_times() {
    let wait = queueing::md1_wait(0.6e-4, 1e4).unwrap();
    agrees(&open(1, 0.6e-4, Service::constant(1e4), 3000), |one| one.mean_ns - 1e4, wait);
}

/// Two kinds of I/O, each with a constant time: only the mean and the mean square count.
#[test]
fn one_server_with_two_kinds_of_io() {
    let mut scenario = open(1, 0.6e-4, Service::constant(4e3), 6000);
    scenario.drive.service.push(Service::constant(2.8e4));
    scenario.mix = vec![
        Class { share: 0.75, service: 0, submit_ns: 0.0 },
        Class { share: 0.25, service: 1, submit_ns: 0.0 },
    ];
    let wait = queueing::mg1_wait(0.6e-4, 1e4, 0.75 * 1.6e7 + 0.25 * 7.84e8).unwrap();
    agrees(&scenario, |one| one.mean_ns - 1e4, wait);
}

/// Jobs with a core each, whose own time is what they think for.
#[test]
fn closed_loops_of_jobs_on_cores_of_their_own() {
    let scenario = Scenario {
        jobs: 6,
        cores: 6,
        drive: SimDrive { parallelism: 2, service: vec![exponential(1e4)] },
        ios: 3000,
        warm_up_ios: 200,
        ..super::with_costs(Waiting::Interrupt)
    };
    let rate = queueing::closed_rate(6, 5500.0, 2, 1e4).unwrap();
    agrees(&scenario, |one| one.iops, rate * 1e9);
}
