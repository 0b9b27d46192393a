//! Cases whose results were computed by hand: constant times, so that they are exact.

use super::super::*;
use super::{free_of_cost, is, run, with_costs};

#[test]
fn an_interrupt_adds_its_costs_to_the_latency() {
    let result = run(&with_costs(Waiting::Interrupt));
    // Call, submission, drive, interrupt, delay, wake-up, completion.
    let latency = 300.0 + 500.0 + 10_000.0 + 800.0 + 2000.0 + 1500.0 + 400.0;
    is(result.mean_ns, latency);
    is(result.iops, 1e9 / latency);
    is(result.elapsed_ns, 100.0 * latency);
    assert_eq!((result.ios, result.latency.len(), result.latency.min()), (100, 100, 15_496));
    is(result.cpu_ns_per_io.job_ns, 300.0 + 500.0 + 1500.0 + 400.0);
    is(result.cpu_ns_per_io.interrupt_ns, 800.0);
    is(result.cpu_ns_per_io.poller_ns, 0.0);
    is(result.busy_cores, 3500.0 / latency);
    is(result.mean_in_flight, 1.0);
    let counts = [result.sleeps_per_io, result.interrupts_per_io, result.calls_per_io, result.spins_per_io];
    assert_eq!(counts, [1.0, 1.0, 1.0, 0.0]);
    assert_eq!((result.overload, result.lag, result.watts), (false, None, None));
    // It starts at once: nobody wakes it.
    is(run(&Scenario { warm_up_ios: 0, ..with_costs(Waiting::Interrupt) }).elapsed_ns, 100.0 * latency);
}

#[test]
fn work_after_a_completion_is_in_no_latency_and_a_kind_has_work_of_its_own() {
    let one = with_costs(Waiting::Interrupt);
    let path = SimPath { gap_ns: 600.0, ..one.path };
    let mix = vec![Class { share: 1.0, service: 0, submit_ns: 700.0 }];
    let result = run(&Scenario { path, mix, ..one });
    let latency = 300.0 + 500.0 + 700.0 + 10_000.0 + 800.0 + 2000.0 + 1500.0 + 400.0;
    is(result.mean_ns, latency);
    is(result.iops, 1e9 / (latency + 600.0));
    is(result.cpu_ns_per_io.job_ns, 300.0 + 500.0 + 700.0 + 1500.0 + 400.0 + 600.0);
}

#[test]
fn a_job_that_polls_sees_a_completion_at_the_end_of_a_turn() {
    let result = run(&with_costs(Waiting::Poll));
    // 157 turns of 64 ns: the first that end after 10,000 ns.
    let latency = 300.0 + 500.0 + 157.0 * 64.0 + 400.0;
    is(result.mean_ns, latency);
    is(result.iops, 1e9 / latency);
    is(result.cpu_ns_per_io.job_ns, latency);
    is(result.cpu_ns_per_io.total_ns(), latency);
    is(result.spins_per_io, 157.0);
    assert_eq!([result.sleeps_per_io, result.interrupts_per_io, result.calls_per_io], [0.0, 0.0, 1.0]);
    // A turn that ends with the completion sees it.
    let service = vec![Service::constant(6400.0)];
    let even = Scenario { drive: SimDrive { parallelism: 1, service }, ..with_costs(Waiting::Poll) };
    is(run(&even).spins_per_io, 100.0);
    // So does one whose end is off by a rounding: 2.1 / 0.7 is above 3.
    let drive = SimDrive { parallelism: 1, service: vec![Service::constant(2.1)] };
    let path = SimPath { kind: Waiting::Poll, spin_ns: 0.7, ..free_of_cost().path };
    is(run(&Scenario { drive, path, warm_up_ios: 0, ios: 1, ..free_of_cost() }).mean_ns, 2.1);
}

#[test]
fn hybrid_polling_sleeps_and_polls_the_rest() {
    let result = run(&with_costs(Waiting::Hybrid(HybridSleep::Share(0.5))));
    // It polls from 5000 + 2000 + 1500 ns on, for 24 turns: the first that end after 10,000 ns.
    let [waits, polls] = [5000.0 + 2000.0 + 1500.0, 24.0 * 64.0];
    is(result.mean_ns, 300.0 + 500.0 + waits + polls + 400.0);
    is(result.cpu_ns_per_io.job_ns, 300.0 + 500.0 + 1500.0 + polls + 400.0);
    assert_eq!([result.sleeps_per_io, result.interrupts_per_io], [1.0, 0.0]);
    is(result.spins_per_io, 24.0);
    // A sleep that is too long adds what it is too long by, and one turn.
    let oversleeps = run(&with_costs(Waiting::Hybrid(HybridSleep::Fixed(9000.0))));
    is(oversleeps.mean_ns, 300.0 + 500.0 + 9000.0 + 2000.0 + 1500.0 + 64.0 + 400.0);
    is(oversleeps.spins_per_io, 1.0);
}

#[test]
fn a_poller_of_the_kernel_takes_and_posts_on_a_core_of_its_own() {
    let costs = KernelPoller { take_ns: 200.0, post_ns: 100.0, polls_drive: true, job_polls: false };
    let polled = Scenario { cores: 2, ..with_costs(Waiting::KernelPoller(costs)) };
    let result = run(&polled);
    // From a completion posted to the next: delay, wake-up, completion and submission, which the poller sees
    // after 69 turns; it takes the I/O; the drive is done, seen after 157 turns; it posts.
    assert_eq!((4400.0f64 / 64.0).ceil(), 69.0);
    let period = 69.0 * 64.0 + 200.0 + 157.0 * 64.0 + 100.0;
    is(result.mean_ns, period);
    is(result.iops, 1e9 / period);
    is(result.cpu_ns_per_io.job_ns, 500.0 + 300.0 + 1500.0 + 400.0);
    is(result.cpu_ns_per_io.poller_ns, period);
    is(result.spins_per_io, 69.0 + 157.0);
    assert_eq!([result.sleeps_per_io, result.interrupts_per_io, result.calls_per_io], [1.0, 0.0, 1.0]);

    let kind = Waiting::KernelPoller(KernelPoller { polls_drive: false, ..costs });
    let interrupted = run(&Scenario { path: SimPath { kind, ..polled.path.clone() }, ..polled });
    // The interrupt holds up the poller in its turn number 157, which then sees the completion.
    let period = 69.0 * 64.0 + 200.0 + 157.0 * 64.0 + 800.0 + 100.0;
    is(interrupted.mean_ns, period);
    is(interrupted.cpu_ns_per_io.interrupt_ns, 800.0);
    is(interrupted.cpu_ns_per_io.poller_ns, period - 800.0);
    assert_eq!(interrupted.interrupts_per_io, 1.0);
}

/// Turns of 100 ns, of which all times are multiples: what is posted is seen at once.
#[test]
fn a_job_may_poll_for_what_the_kernels_poller_posts() {
    let costs = KernelPoller { take_ns: 200.0, post_ns: 100.0, polls_drive: true, job_polls: true };
    let one = with_costs(Waiting::KernelPoller(costs));
    let path = SimPath { spin_ns: 100.0, ..one.path };
    let result = run(&Scenario { cores: 2, path, ..one });
    let latency = 500.0 + 200.0 + 10_000.0 + 100.0 + 400.0;
    is(result.mean_ns, latency);
    is(result.iops, 1e9 / latency);
    is(result.cpu_ns_per_io.job_ns, latency);
    is(result.cpu_ns_per_io.poller_ns, latency);
    // The job for 10,300 ns, the poller for all but the 300 in which it works.
    is(result.spins_per_io, 103.0 + 109.0);
    assert_eq!([result.sleeps_per_io, result.interrupts_per_io, result.calls_per_io], [0.0; 3]);
}

#[test]
fn a_drive_is_full_at_its_parallelism_or_its_rate() {
    let drive = |parallelism, gap| SimDrive {
        parallelism,
        service: vec![Service::constant(10_000.0).with_least_gap(gap)],
    };
    let at = |iodepth, drive| run(&Scenario { iodepth, drive, ..free_of_cost() });
    let full = at(8, drive(4, 0.0));
    is(full.iops, 4e5);
    is(full.mean_ns, 20_000.0);
    is(full.mean_in_flight, 8.0);
    is(at(3, drive(4, 0.0)).iops, 3e5);
    // One start in 5000 ns, with 8 in flight.
    let capped = at(8, drive(8, 5000.0));
    is(capped.iops, 2e5);
    is(capped.mean_ns, 40_000.0);
}

#[test]
fn a_batch_is_submitted_by_one_call_and_measured_as_one() {
    let batches = |batch_submit| {
        run(&Scenario {
            iodepth: 4,
            batch_submit,
            drive: SimDrive { parallelism: 4, service: vec![Service::constant(0.0)] },
            ios: 400,
            ..with_costs(Waiting::Poll)
        })
    };
    // All four have completed when all are submitted; a turn sees them.
    let one = batches(4);
    let round = 300.0 + 4.0 * 500.0 + 64.0 + 4.0 * 400.0;
    is(one.mean_ns, round);
    is(one.iops, 4e9 / round);
    is(one.calls_per_io, 0.25);
    is(batches(100).mean_ns, round);
    // Three, then one, whose latency begins after the first call.
    let two = batches(3);
    let round = round + 300.0;
    is(two.mean_ns, round - (300.0 + 3.0 * 500.0) / 4.0);
    is(two.iops, 4e9 / round);
    is(two.mean_in_flight, two.mean_ns * two.iops / 1e9);
    is(two.calls_per_io, 0.5);
    is(batches(1).calls_per_io, 1.0);
}

#[test]
fn jobs_on_one_core_share_its_time() {
    let jobs = Scenario {
        jobs: 2,
        drive: SimDrive { parallelism: 2, service: vec![Service::constant(1000.0)] },
        warm_up_ios: 100,
        ios: 1000,
        ..with_costs(Waiting::Interrupt)
    };
    let result = run(&jobs);
    // The core always works: 3500 ns per I/O, whichever job's.
    is(result.iops, 1e9 / 3500.0);
    is(result.busy_cores, 1.0);
    is(result.mean_in_flight, 2.0);
    is(result.mean_ns, 7000.0);
    // A core for each, and neither knows of the other.
    let apart = run(&Scenario { cores: 2, warm_up_ios: 0, ..jobs });
    is(apart.mean_ns, 6500.0);
    is(apart.iops, 2e9 / 6500.0);
}

#[test]
fn a_job_that_polls_makes_another_wait_for_a_slice() {
    let jobs = Scenario { jobs: 2, ios: 2000, drive: pair(), ..with_costs(Waiting::Poll) };
    let result = run(&jobs);
    // Alone, a job has one I/O in 11,248 ns; of two, one polls at a time, and loses an I/O or so per slice.
    let alone = 1e9 / 11_248.0;
    assert!(result.iops > 0.99 * alone && result.iops < 1.01 * alone, "{}", result.iops);
    is(result.busy_cores, 1.0);
    let max = result.latency.max() as f64;
    assert!(max > SLICE_NS && max < SLICE_NS + 25_000.0, "{max}");
    assert!(result.latency.value_at_quantile(0.98) < 11_300);
    // By interrupt, nobody waits for a slice.
    let asleep = run(&Scenario { path: with_costs(Waiting::Interrupt).path, ..jobs });
    assert!(asleep.latency.max() < 17_000 && asleep.iops > 1.3 * alone, "{}", asleep.iops);
}

/// Two I/Os in flight of a drive that takes no time: one has always completed, and nobody sleeps.
#[test]
fn a_job_that_always_works_makes_another_wait_for_a_slice() {
    let drive = SimDrive { parallelism: 1, service: vec![Service::constant(0.0)] };
    let path = SimPath { submit_ns: 500.0, ..free_of_cost().path };
    let alone = Scenario { iodepth: 2, drive, path, ios: 20_000, ..free_of_cost() };
    let result = run(&alone);
    is(result.iops, 2e6);
    assert!(result.latency.max() < 2000);
    let two = run(&Scenario { jobs: 2, ..alone });
    // The core works for one or the other; one's I/Os in flight are not yet counted at the end.
    assert!((two.iops / 2e6 - 1.0).abs() < 1e-3, "{}", two.iops);
    let max = two.latency.max() as f64;
    assert!(max > SLICE_NS && max < SLICE_NS + 5000.0, "{max}");
}

fn pair() -> SimDrive {
    SimDrive { parallelism: 2, service: vec![Service::constant(10_000.0)] }
}

#[test]
fn completions_that_come_while_one_is_handled_make_no_interrupt() {
    let result = run(&Scenario {
        iodepth: 4,
        drive: SimDrive { parallelism: 4, service: vec![Service::constant(10_000.0)] },
        path: SimPath { interrupt_ns: 800.0, ..free_of_cost().path },
        ios: 400,
        ..free_of_cost()
    });
    // Four end at once. The first wakes the job, which has its core once all are handled.
    is(result.mean_ns, 10_000.0 + 4.0 * 800.0);
    is(result.cpu_ns_per_io.interrupt_ns, 800.0);
    assert_eq!([result.sleeps_per_io, result.interrupts_per_io], [0.25, 0.25]);
}

#[test]
fn power_counts_cores_that_work_and_cores_that_sleep_deeply() {
    let power = SimPower {
        idle_w: 40.0,
        active_core_w: 10.0,
        deep_idle_w: 4.0,
        deep_after_ns: 5000.0,
        wake_joules: 20e-6,
    };
    let result = run(&Scenario { power: Some(power), cores: 2, ..with_costs(Waiting::Interrupt) });
    // Of 15,500 ns a core works for 3500 and is idle for 10,000 and 2000, 5000 of them deeply; the other core
    // is idle for all of it.
    // A wake-up in each 15.5 us takes 20 uJ.
    let watts = 40.0 + 10.0 * 3500.0 / 15_500.0 - 4.0 * (5000.0 / 15_500.0 + 1.0) + 20.0 / 15.5;
    is(result.watts.unwrap(), watts);
    is(result.ios_per_joule.unwrap(), 1e9 / 15_500.0 / watts);
    let polls = run(&Scenario { power: Some(power), ..with_costs(Waiting::Poll) });
    is(polls.watts.unwrap(), 50.0);
}

#[test]
fn instructions_are_those_of_what_happened() {
    let instructions =
        Some(SimInstructions { per_io: 1000.0, per_call: 300.0, per_wake: 7000.0, per_spin: 50.0 });
    let with = |kind| {
        let one = with_costs(kind);
        run(&Scenario { path: SimPath { instructions, ..one.path.clone() }, ..one })
            .instructions_per_io
            .unwrap()
    };
    is(with(Waiting::Interrupt), 8300.0);
    is(with(Waiting::Poll), 1300.0 + 157.0 * 50.0);
    is(with(Waiting::Hybrid(HybridSleep::Share(0.5))), 8300.0 + 24.0 * 50.0);
}

#[test]
fn kinds_of_io_come_in_their_shares() {
    let result = run(&Scenario {
        mix: vec![
            Class { share: 0.75, service: 1, submit_ns: 0.0 },
            Class { share: 0.25, service: 0, submit_ns: 0.0 },
        ],
        drive: SimDrive { parallelism: 1, service: vec![Service::constant(1e5), Service::constant(1e4)] },
        ios: 4000,
        ..free_of_cost()
    });
    let short = result.latency.count_between(1, 20_000) as f64;
    // 3000 of 4000 with a standard deviation of 27.4; five of them.
    assert!((short - 3000.0).abs() < 137.0, "{short}");
    is(result.mean_ns, (short * 1e4 + (4000.0 - short) * 1e5) / 4000.0);
}

#[test]
fn the_seed_alone_decides() {
    let service = vec![Service::equally_likely((1..=100).map(|at| 1e3 * f64::from(at)).collect())];
    let scenario = Scenario {
        jobs: 3,
        iodepth: 4,
        cores: 2,
        drive: SimDrive { parallelism: 2, service },
        ..with_costs(Waiting::Interrupt)
    };
    let first = run(&scenario);
    assert_eq!(first, run(&scenario));
    assert_ne!(first, run(&Scenario { seed: 2, ..scenario }));
}
