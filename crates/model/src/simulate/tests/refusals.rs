//! Bad scenarios are refused, and say what is bad.

use super::super::*;
use super::{free_of_cost, with_costs};

#[track_caller]
fn refused(message: &str, change: impl Fn(&mut Scenario)) {
    let mut scenario = with_costs(Waiting::Interrupt);
    scenario.ios = 10;
    change(&mut scenario);
    assert_eq!(simulate(&scenario).unwrap_err().to_string(), message);
}

#[test]
fn counts_and_times_out_of_range_are_refused_by_name() {
    refused("`jobs` of the simulation is 0; it must be from 1 to 1048576", |one| one.jobs = 0);
    refused("`iodepth` of the simulation is 0; it must be from 1 to 1048576", |one| one.iodepth = 0);
    refused("`batch_submit` of the simulation is 0; it must be from 1 to 1048576", |one| {
        one.batch_submit = 0
    });
    refused("`cores` of the simulation is 0; it must be from 1 to 1048576", |one| one.cores = 0);
    refused("`jobs times iodepth` of the simulation is 4194304; it must be from 1 to 1048576", |one| {
        (one.jobs, one.iodepth) = (2048, 2048);
    });
    refused("`drive.parallelism` of the simulation is 0; it must be from 1 to 1048576", |one| {
        one.drive.parallelism = 0;
    });
    refused("`ios` of the simulation is 0; it must be at least 1", |one| one.ios = 0);
    let must = "it must be a time in ns from 0 to a minute";
    for bad in [-1.0, f64::NAN, f64::INFINITY, 7e10] {
        let shown = format!("of the simulation is {bad}; {must}");
        refused(&format!("`path.submit_ns` {shown}"), |one| one.path.submit_ns = bad);
        refused(&format!("`path.complete_ns` {shown}"), |one| one.path.complete_ns = bad);
        refused(&format!("`path.gap_ns` {shown}"), |one| one.path.gap_ns = bad);
        refused(&format!("`mix[0].submit_ns` {shown}"), |one| one.mix[0].submit_ns = bad);
        refused(&format!("`path.call_ns` {shown}"), |one| one.path.call_ns = bad);
        refused(&format!("`path.interrupt_ns` {shown}"), |one| one.path.interrupt_ns = bad);
        refused(&format!("`path.wake_ns` {shown}"), |one| one.path.wake_ns = bad);
        refused(&format!("`path.wake_delay_ns` {shown}"), |one| one.path.wake_delay_ns = bad);
        refused(&format!("`drive.service[0].equally_likely_ns` {shown}"), |one| {
            one.drive.service[0] = Service::equally_likely(vec![1.0, bad]);
        });
        refused(&format!("`drive.service[0].least_gap_ns` {shown}"), |one| {
            one.drive.service[0].least_gap_ns = bad;
        });
    }
}

#[test]
fn nonsense_of_a_path_is_refused() {
    for kind in [
        Waiting::Poll,
        Waiting::Hybrid(HybridSleep::Share(0.5)),
        Waiting::KernelPoller(KernelPoller {
            take_ns: 1.0,
            post_ns: 1.0,
            polls_drive: true,
            job_polls: false,
        }),
    ] {
        let must = "it must be a time in ns above 0, at most a minute";
        refused(&format!("`path.spin_ns` of the simulation is 0; {must}"), |one| {
            (one.path.kind, one.path.spin_ns) = (kind, 0.0);
        });
    }
    refused("`path.kind.Share` of the simulation is 1.5; it must be from 0 to 1", |one| {
        one.path.kind = Waiting::Hybrid(HybridSleep::Share(1.5));
    });
    refused("`path.instructions.per_spin` of the simulation is -1; it must be 0 or more", |one| {
        one.path.instructions =
            Some(SimInstructions { per_io: 0.0, per_call: 0.0, per_wake: 0.0, per_spin: -1.0 });
    });
}

#[test]
fn nonsense_of_a_mix_is_refused() {
    refused("`mix` of the simulation is empty; give it at least one entry", |one| one.mix.clear());
    refused("`drive.service` of the simulation is empty; give it at least one entry", |one| {
        one.drive.service.clear();
    });
    refused(
        "`drive.service[0].equally_likely_ns` of the simulation is empty; give it at least one entry",
        |one| {
            one.drive.service[0].equally_likely_ns.clear();
        },
    );
    refused("the shares in `mix` of the simulation add up to 0.5; they must add up to 1", |one| {
        one.mix[0].share = 0.5;
    });
    refused("`mix[0].share` of the simulation is NaN; it must be from 0 to 1", |one| {
        one.mix[0].share = f64::NAN
    });
    refused(
        "`mix[0].service` of the simulation is 1, but `drive.service` has 1 entries, counted from 0",
        |one| one.mix[0].service = 1,
    );
}

#[test]
fn nonsense_of_arrivals_is_refused() {
    for bad in [0.0, -5.0, f64::NAN, 0.01, 2e9] {
        let must = "it must be at least 1 in a minute, at most 1000000000";
        refused(&format!("`arrivals.per_job_iops` of the simulation is {bad}; {must}"), |one| {
            one.arrivals = Arrivals::Open { per_job_iops: bad, poisson: true, bursts: None };
        });
    }
    refused(
        "`arrivals.bursts.0` of the simulation is 0; it must be a time in ns above 0, at most a minute",
        |one| {
            let bursts = Some((0.0, 1.0));
            one.arrivals = Arrivals::Open { per_job_iops: 1.0, poisson: true, bursts };
        },
    );
    let trace = |dues: &[f64]| {
        let ios: Vec<TraceIo> = dues.iter().map(|due_ns| TraceIo { due_ns: *due_ns, class: 0 }).collect();
        Arrivals::Trace(ios.into())
    };
    refused("`arrivals.Trace` of the simulation is empty; give it at least one entry", |one| {
        one.arrivals = trace(&[]);
    });
    let short = "the simulated trace has 2 I/Os, but 20 are asked for with the warm-up; ask for fewer";
    refused(short, |one| one.arrivals = trace(&[1.0, 2.0]));
    let order = "I/O 2 of the simulated trace is due before the one that it follows; sort the trace by time";
    refused(order, |one| {
        (one.ios, one.warm_up_ios, one.arrivals) = (1, 0, trace(&[1.0, 2.0, 1.5]));
    });
    refused("`arrivals.Trace[1].due_ns` of the simulation is NaN; it must be 0 or more", |one| {
        (one.ios, one.warm_up_ios, one.arrivals) = (1, 0, trace(&[1.0, f64::NAN]));
    });
}

#[test]
fn nonsense_of_power_is_refused() {
    let nothing =
        SimPower { idle_w: 1.0, active_core_w: 1.0, deep_idle_w: 0.0, deep_after_ns: 0.0, wake_joules: 0.0 };
    let power = |idle_w, deep_idle_w| Some(SimPower { idle_w, deep_idle_w, ..nothing });
    refused("`power.wake_joules` of the simulation is -1; it must be 0 or more", |one| {
        one.power = Some(SimPower { wake_joules: -1.0, ..nothing });
    });
    refused("`power.idle_w` of the simulation is 0; it must be above 0", |one| one.power = power(0.0, 0.0));
    refused(
        "`power.deep_idle_w` of the simulation is 5; it must be less than idle_w over the number of cores",
        |one| (one.cores, one.power) = (2, power(10.0, 5.0)),
    );
}

#[test]
fn a_simulation_without_time_or_without_end_is_refused() {
    let mut scenario = free_of_cost();
    scenario.drive.service[0] = Service::constant(0.0);
    assert_eq!(simulate(&scenario), Err(SimError::NoTime));
    // A trace of 200 days.
    let ios: Vec<TraceIo> =
        (0..200).map(|day| TraceIo { due_ns: 8.64e13 * f64::from(day), class: 0 }).collect();
    let arrivals = Arrivals::Trace(ios.into());
    assert_eq!(simulate(&Scenario { arrivals, ..free_of_cost() }), Err(SimError::TooLong));
}
