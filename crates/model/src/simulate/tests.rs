//! Tests of the simulation: cases computed by hand, closed formulas, and what holds in every case.

mod by_formula;
mod by_hand;
mod machine;
mod open;
mod properties;
mod refusals;

use super::*;

/// A closed loop of one job on one core and a constant drive, all of whose costs are 0.
fn free_of_cost() -> Scenario {
    Scenario {
        jobs: 1,
        iodepth: 1,
        batch_submit: 1,
        arrivals: Arrivals::Closed,
        mix: vec![Class { share: 1.0, service: 0, submit_ns: 0.0 }],
        cores: 1,
        drive: SimDrive { parallelism: 1, service: vec![Service::constant(10_000.0)] },
        path: SimPath {
            kind: Waiting::Interrupt,
            submit_ns: 0.0,
            complete_ns: 0.0,
            gap_ns: 0.0,
            call_ns: 0.0,
            interrupt_ns: 0.0,
            wake_ns: 0.0,
            wake_delay_ns: 0.0,
            spin_ns: 64.0,
            instructions: None,
        },
        power: None,
        ios: 100,
        warm_up_ios: 10,
        seed: 1,
    }
}

/// The same with costs that can be told apart.
fn with_costs(kind: Waiting) -> Scenario {
    let path = SimPath {
        kind,
        submit_ns: 500.0,
        complete_ns: 400.0,
        call_ns: 300.0,
        interrupt_ns: 800.0,
        wake_ns: 1500.0,
        wake_delay_ns: 2000.0,
        ..free_of_cost().path
    };
    Scenario { path, ..free_of_cost() }
}

fn run(scenario: &Scenario) -> Simulated {
    simulate(scenario).unwrap()
}

/// Equal but for the rounding of sums.
#[track_caller]
fn is(value: f64, expected: f64) {
    assert!((value - expected).abs() <= 1e-9 * expected.abs(), "{value} is not {expected}");
}

/// A result without its histogram, which would be pages.
fn brief(one: &Simulated) -> String {
    format!(
        "{} I/Os in {} ns, mean {} ns, max {} ns, {} in flight, {:?}, {} sleeps, {} interrupts, {:?} W",
        one.ios,
        one.elapsed_ns,
        one.mean_ns,
        one.latency.max(),
        one.mean_in_flight,
        one.cpu_ns_per_io,
        one.sleeps_per_io,
        one.interrupts_per_io,
        one.watts,
    )
}
