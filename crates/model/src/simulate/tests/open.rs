//! Open loads and traces, with constant times: results computed by hand.

use super::super::*;
use super::{free_of_cost, is, run, with_costs};

fn even(per_job_iops: f64) -> Arrivals {
    Arrivals::Open { per_job_iops, poisson: false, bursts: None }
}

/// One I/O of 10 ms among those of 100 us, one due each 200 us: the I/Os that it holds up were due meanwhile.
#[test]
fn latency_under_an_open_load_runs_from_when_an_io_was_due() {
    let ios: Vec<TraceIo> =
        (0..100).map(|at| TraceIo { due_ns: 2e5 * f64::from(at), class: u32::from(at == 0) }).collect();
    let stalls = Scenario {
        arrivals: Arrivals::Trace(ios.into()),
        mix: vec![
            Class { share: 1.0, service: 0, submit_ns: 0.0 },
            Class { share: 0.0, service: 1, submit_ns: 0.0 },
        ],
        drive: SimDrive { parallelism: 1, service: vec![Service::constant(1e5), Service::constant(1e7)] },
        warm_up_ios: 0,
        ..free_of_cost()
    };
    let result = run(&stalls);
    // The first takes 10,000 us; number n after it is due at 200 n us and ends at 10,000 + 100 n us.
    let sum: f64 = 1e7 + (1..100).map(|at| 1e7 - 1e5 * f64::from(at)).sum::<f64>();
    is(result.mean_ns, sum / 100.0);
    let lag = result.lag.unwrap();
    is(lag.max_ns, 1e7 - 2e5);
    is(lag.mean_ns, (sum - 1e7 - 99.0 * 1e5) / 100.0);
    is(result.elapsed_ns, 1e7 + 99.0 * 1e5);
    assert!(!result.overload);
    // With more in flight they wait in the drive instead, for as long.
    let deep = run(&Scenario { iodepth: 64, ..stalls.clone() });
    is(deep.mean_ns, result.mean_ns);
    is(deep.lag.unwrap().max_ns, 0.0);
    // The other job submits the second I/O when it is due, and then both have one in the drive.
    let jobs = Scenario { jobs: 2, iodepth: 1, cores: 2, ..stalls };
    let both = run(&jobs);
    is(both.lag.unwrap().max_ns, 1e7 - 2.0 * 2e5);
    is(both.mean_ns, result.mean_ns);
    // If the drive works on two at once, the other job takes all I/Os meanwhile, and none is late.
    let apart = run(&Scenario { drive: SimDrive { parallelism: 2, ..jobs.drive.clone() }, ..jobs });
    is(apart.lag.unwrap().max_ns, 0.0);
    is(apart.mean_ns, (1e7 + 99.0 * 1e5) / 100.0);
}

#[test]
fn a_trace_whose_last_io_is_late_is_an_overload() {
    // One I/O at a time takes 1 ms.
    let each = |gap_ns: f64| {
        let ios: Vec<TraceIo> =
            (0..100).map(|at| TraceIo { due_ns: gap_ns * f64::from(at), class: 0 }).collect();
        let drive = SimDrive { parallelism: 1, service: vec![Service::constant(1e6)] };
        run(&Scenario { arrivals: Arrivals::Trace(ios.into()), drive, warm_up_ios: 0, ..free_of_cost() })
    };
    // The last is late by 1 % of the time where one is due each 1 / 1.01 ms.
    assert!(!each(0.991e6).overload && each(0.989e6).overload);
    let late = each(0.5e6);
    assert!(late.overload);
    is(late.iops, 1000.0);
}

#[test]
fn an_even_open_load_sleeps_or_polls_between_ios() {
    let open = Arrivals::Open { per_job_iops: 20_000.0, poisson: false, bursts: None };
    let asleep = run(&Scenario { arrivals: open.clone(), ..with_costs(Waiting::Interrupt) });
    // One I/O in 50,000 ns. A timer wakes it: delay, wake-up, then as in a closed loop. It sleeps until the
    // I/O ends, and after another call until the next is due.
    is(asleep.iops, 20_000.0);
    is(asleep.mean_ns, 2000.0 + 1500.0 + 15_500.0);
    is(asleep.cpu_ns_per_io.job_ns, 2700.0 + 1500.0 + 300.0);
    assert_eq!([asleep.sleeps_per_io, asleep.calls_per_io], [2.0, 2.0]);
    is(asleep.lag.unwrap().mean_ns, 3500.0);
    is(asleep.mean_in_flight, 19_000.0 / 50_000.0);

    let polls = run(&Scenario { arrivals: open, ..with_costs(Waiting::Poll) });
    is(polls.busy_cores, 1.0);
    let lag = polls.lag.unwrap();
    assert!(lag.max_ns < 64.0, "{lag:?}");
    // The first and the last I/O are seen up to a turn later than they might be.
    assert!((polls.iops - 20_000.0).abs() < 1.0, "{}", polls.iops);
    is(polls.mean_ns, 11_248.0 + lag.mean_ns);
}

#[test]
fn bursts_pause_and_an_overload_is_said() {
    let open = |per_job_iops, poisson, bursts| Scenario {
        arrivals: Arrivals::Open { per_job_iops, poisson, bursts },
        drive: SimDrive { parallelism: 1, service: vec![Service::constant(1e6)] },
        ios: 2000,
        ..free_of_cost()
    };
    assert!(run(&open(1300.0, true, None)).overload);
    let overloaded = run(&open(1100.0, false, None));
    assert!(overloaded.overload);
    is(overloaded.iops, 1000.0);
    assert!(!run(&open(900.0, false, None)).overload);
    assert!(!run(&open(800.0, true, None)).overload);
    // Ten I/Os in 10 ms, then none for 30 ms.
    let bursts = run(&open(1000.0, false, Some((1e7, 3e7))));
    is(bursts.iops, 250.0);
    is(bursts.mean_ns, 1e6);
    assert!(!bursts.overload);
    assert!(run(&open(5000.0, false, Some((1e7, 3e7)))).overload);
}

/// Hybrid polling under an open load: asleep until an I/O is due, then as in a closed loop.
#[test]
fn hybrid_polling_sleeps_while_nothing_is_in_flight() {
    let kind = Waiting::Hybrid(HybridSleep::Share(0.5));
    let result = run(&Scenario { arrivals: even(20_000.0), ..with_costs(kind) });
    is(result.mean_ns, 2000.0 + 1500.0 + 300.0 + 500.0 + 8500.0 + 24.0 * 64.0 + 400.0);
    is(result.spins_per_io, 24.0);
    assert_eq!([result.sleeps_per_io, result.calls_per_io], [2.0, 2.0]);
}

/// A sleep before polling does not hold up the next I/O that is due.
#[test]
fn a_job_is_awake_when_an_io_is_due_while_others_are_in_flight() {
    for kind in [Waiting::Interrupt, Waiting::Poll, Waiting::Hybrid(HybridSleep::Fixed(1e5))] {
        let scenario = Scenario {
            iodepth: 4,
            arrivals: even(50_000.0),
            drive: SimDrive { parallelism: 4, service: vec![Service::constant(3e4)] },
            path: SimPath { kind, spin_ns: 1.0, ..free_of_cost().path },
            ..free_of_cost()
        };
        let lag = run(&scenario).lag.unwrap();
        assert!(lag.max_ns <= 1.0, "{kind:?} {lag:?}");
    }
}

#[test]
fn jobs_of_an_even_load_take_turns() {
    let jobs =
        |rate| run(&Scenario { jobs: 4, cores: 4, arrivals: even(rate), warm_up_ios: 40, ..free_of_cost() });
    // Four jobs with one I/O in 40,000 ns each come 10,000 ns apart, as long as the drive takes.
    let result = jobs(25_000.0);
    is(result.mean_ns, 10_000.0);
    is(result.iops, 1e5);
    assert!(!result.overload);
    assert!(jobs(26_000.0).overload);
}
