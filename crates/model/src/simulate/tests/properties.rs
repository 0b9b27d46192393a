//! What holds in every simulation.

use super::super::*;
use super::brief;
use proptest::prelude::*;

fn kind() -> impl Strategy<Value = Waiting> {
    prop_oneof![
        Just(Waiting::Interrupt),
        Just(Waiting::Poll),
        (0.0f64..1.0).prop_map(|share| Waiting::Hybrid(HybridSleep::Share(share))),
        (0.0f64..3e4).prop_map(|ns| Waiting::Hybrid(HybridSleep::Fixed(ns))),
        (0.0f64..500.0, 0.0f64..500.0, any::<bool>(), any::<bool>()).prop_map(
            |(take_ns, post_ns, polls_drive, job_polls)| {
                Waiting::KernelPoller(KernelPoller { take_ns, post_ns, polls_drive, job_polls })
            }
        ),
    ]
}

fn arrivals() -> impl Strategy<Value = Arrivals> {
    let bursts = proptest::option::of((1e4f64..1e6, 0.0f64..1e6));
    prop_oneof![
        Just(Arrivals::Closed),
        (1e3f64..2e5, any::<bool>(), bursts).prop_map(|(per_job_iops, poisson, bursts)| Arrivals::Open {
            per_job_iops,
            poisson,
            bursts
        }),
    ]
}

prop_compose! {
    fn path()(
        kind in kind(),
        costs in proptest::array::uniform7(prop_oneof![Just(0.0), 1.0f64..3000.0]),
        spin_ns in 20.0f64..200.0,
    ) -> SimPath {
        let [submit_ns, complete_ns, gap_ns, call_ns, interrupt_ns, wake_ns, wake_delay_ns] = costs;
        SimPath {
            kind, submit_ns, complete_ns, gap_ns, call_ns, interrupt_ns, wake_ns, wake_delay_ns, spin_ns,
            instructions: None,
        }
    }
}

prop_compose! {
    fn scenario()(
        (jobs, iodepth, batch_submit) in (1u32..5, 1u32..9, 1u32..9),
        (cores, parallelism) in (1u32..4, 1u32..9),
        arrivals in arrivals(),
        path in path(),
        times in proptest::collection::vec(100.0f64..3e4, 1..6),
        gap in prop_oneof![Just(0.0), 0.0f64..2e4],
        warm_up_ios in 0u64..200,
        seed: u64,
    ) -> Scenario {
        let least_gap_ns = gap;
        let service = vec![Service { equally_likely_ns: times, least_gap_ns }, Service::constant(5e3)];
        Scenario {
            jobs, iodepth, batch_submit, arrivals, cores, path, warm_up_ios, seed,
            mix: vec![
                Class { share: 0.5, service: 0, submit_ns: 0.0 },
                Class { share: 0.5, service: 1, submit_ns: 700.0 },
            ],
            drive: SimDrive { parallelism, service },
            power: Some(SimPower {
                idle_w: 50.0, active_core_w: 10.0, deep_idle_w: 2.0, deep_after_ns: 1e4, wake_joules: 1e-6,
            }),
            ios: 400,
        }
    }
}

/// Changes one value of a scenario to another, which may be nonsense.
fn spoil(scenario: &mut Scenario, which: u32, ns: f64, count: u32) {
    let Scenario { path, drive, power, .. } = scenario;
    match which {
        0 => path.submit_ns = ns,
        1 => path.complete_ns = ns,
        2 => path.call_ns = ns,
        3 => path.interrupt_ns = ns,
        4 => path.wake_ns = ns,
        5 => path.wake_delay_ns = ns,
        6 => path.spin_ns = ns,
        7 => drive.service[0] = Service::equally_likely(vec![ns, 10.0]),
        8 => drive.service[1].least_gap_ns = ns,
        9 => scenario.mix[0].share = ns,
        10 => *power = power.map(|power| SimPower { idle_w: ns, ..power }),
        11 => path.kind = Waiting::Hybrid(HybridSleep::Fixed(ns)),
        12 => scenario.arrivals = Arrivals::Open { per_job_iops: ns, poisson: true, bursts: None },
        13 => {
            let bursts = Some((ns, ns));
            scenario.arrivals = Arrivals::Open { per_job_iops: 1e4, poisson: false, bursts };
        }
        14 => scenario.jobs = count,
        15 => scenario.iodepth = count,
        16 => scenario.batch_submit = count,
        17 => scenario.cores = count,
        18 => drive.parallelism = count,
        _ => scenario.mix[1].service = count,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Little's law: I/Os in flight are their rate times their mean latency, but for those that were in
    /// flight when the measurement began and when it ended.
    #[test]
    fn littles_law_holds(scenario in scenario()) {
        let one = simulate(&scenario).unwrap();
        let in_flight_ns = one.mean_in_flight * one.elapsed_ns;
        let latencies_ns = one.mean_ns * one.ios as f64;
        let most = f64::from(scenario.jobs * scenario.iodepth);
        // An I/O in flight at the end may be older by a slice than any that has completed.
        let oldest = one.latency.max() as f64 + SLICE_NS * f64::from(2 * scenario.jobs) + 1e5;
        prop_assert!((in_flight_ns - latencies_ns).abs() <= 2.0 * most * oldest, "{}", brief(&one));
        if scenario.arrivals == Arrivals::Closed {
            prop_assert!(one.mean_in_flight <= most + 1e-6, "{}", brief(&one));
        }
    }

    #[test]
    fn no_more_is_used_than_there_is(scenario in scenario()) {
        let one = simulate(&scenario).unwrap();
        let (path, cores) = (&scenario.path, f64::from(scenario.cores));
        // Interrupts are counted when they begin: those of all I/Os in flight may be handled after the end.
        let in_flight = f64::from(scenario.jobs * scenario.iodepth);
        let slack = 1e-9 + in_flight * path.interrupt_ns / one.elapsed_ns;
        prop_assert!(one.busy_cores <= cores + slack, "{}", brief(&one));
        // Without the wake-ups, of which each takes a microjoule.
        let watts = one.watts.unwrap() - 1e-6 * one.sleeps_per_io * one.iops;
        let (least, most) = (50.0 - 2.0 * cores, 50.0 + 10.0 * (cores + slack));
        prop_assert!(watts >= least - 1e-9 && watts <= most + 1e-9, "{}", brief(&one));
        let least = path.submit_ns + path.complete_ns + 100.0;
        prop_assert!(one.latency.min() as f64 >= least * 0.999 - 1.0, "{}", brief(&one));
        prop_assert_eq!(one.latency.len(), one.ios);
        prop_assert!(one.ios >= 400 && one.ios < 400 + u64::from(scenario.iodepth), "{}", brief(&one));
    }

    /// Whatever is asked, the answer is a result or a refusal.
    #[test]
    fn nonsense_is_refused(
        mut scenario in scenario(),
        which in 0u32..20,
        ns in prop::sample::select(vec![0.0, -0.0, -1.0, f64::NAN, f64::INFINITY, 1e-300, 1e8, 1e300]),
        count in prop::sample::select(vec![0, 1, 5, 100, u32::MAX]),
    ) {
        (scenario.ios, scenario.warm_up_ios) = (5, 3);
        spoil(&mut scenario, which, ns, count);
        if let Ok(one) = simulate(&scenario) {
            let numbers = [one.iops, one.mean_ns, one.mean_in_flight, one.busy_cores];
            let are_good = numbers.iter().all(|number| *number >= 0.0 && number.is_finite());
            prop_assert!(are_good, "{}", brief(&one));
        }
    }

    /// A job that polls on a core of its own always uses it; one that is interrupted never polls.
    #[test]
    fn who_polls_uses_a_core(scenario in scenario()) {
        let one = simulate(&Scenario { cores: scenario.jobs * 2, ..scenario.clone() }).unwrap();
        let busy = match scenario.path.kind {
            Waiting::KernelPoller(KernelPoller { job_polls: true, .. }) => 2.0 * f64::from(scenario.jobs),
            Waiting::Poll | Waiting::KernelPoller(_) => f64::from(scenario.jobs),
            _ => 0.0,
        };
        prop_assert!(one.busy_cores >= busy * (1.0 - 1e-9), "{}", brief(&one));
        let never_polls = scenario.path.kind == Waiting::Interrupt;
        prop_assert!(!never_polls || one.spins_per_io == 0.0, "{}", brief(&one));
        let never_sleeps = !matches!(scenario.path.kind, Waiting::Interrupt | Waiting::Hybrid(_)
            | Waiting::KernelPoller(KernelPoller { job_polls: false, .. }));
        prop_assert!(!never_sleeps || one.sleeps_per_io == 0.0, "{}", brief(&one));
    }
}
