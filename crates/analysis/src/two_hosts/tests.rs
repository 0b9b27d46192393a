//! Constructed trials over fabrics with chosen counts on both hosts.

use super::*;
use iopj_core::Scope;
use iopj_record::testing::cells::measurement_of;
use iopj_record::testing::energy::give;
use iopj_record::testing::hosts::by;

fn hosts(trials: &[Trial], timed: bool) -> TwoHosts {
    let measured: Vec<&Measurement> = trials.iter().filter_map(|trial| trial.outcome.measurement()).collect();
    TwoHosts::of(&measured, timed, &SideSources::of(trials)).unwrap()
}

#[test]
fn over_a_wire_each_host_has_its_own_figures() {
    let both = hosts(&by(Transport::Tcp, 1), true);
    let expected = [
        (SideMetric::Cores, [Some(4.0), Some(1.0)]),
        (SideMetric::Cpu(CpuKind::User), [Some(5.0), Some(1.0)]),
        (SideMetric::Cpu(CpuKind::System), [Some(20.0), Some(30.0)]),
        (SideMetric::Cpu(CpuKind::Iowait), [Some(15.0), Some(0.0)]),
        (SideMetric::Cpu(CpuKind::Irq), [Some(1.0), Some(0.0)]),
        (SideMetric::Cpu(CpuKind::Softirq), [Some(4.0), Some(10.0)]),
        (SideMetric::Cpu(CpuKind::Steal), [Some(0.0), Some(0.0)]),
        (SideMetric::Cpu(CpuKind::Idle), [Some(55.0), Some(59.0)]),
        (SideMetric::ContextSwitches, [Some(2.1), Some(0.525)]),
        (SideMetric::CardInterrupts, [Some(0.8), Some(0.6)]),
        (SideMetric::DriveInterrupts, [None, Some(0.5)]),
        (SideMetric::PacketsIn, [Some(3.0), Some(1.2)]),
        (SideMetric::PacketsOut, [Some(1.2), Some(3.0)]),
        (SideMetric::BytesIn, [Some(4300.0), Some(150.0)]),
        (SideMetric::BytesOut, [Some(150.0), Some(4300.0)]),
    ];
    assert_eq!(expected.map(|(metric, _)| metric), SideMetric::ALL);
    for (metric, values) in expected {
        let seen = HostSide::ALL.map(|side| both.side(side).get(metric));
        let near = |(seen, value): (Option<f64>, Option<f64>)| match (seen, value) {
            (Some(seen), Some(value)) => (seen - value).abs() < 1e-9,
            (seen, value) => seen == value,
        };
        assert!(seen.into_iter().zip(values).all(near), "{metric:?}: {seen:?} {values:?}");
    }
    assert_eq!((both.transport, both.clock_uncertainty_ns), (Transport::Tcp, Some(1_343_520)));
}

/// The trial's own figures stood in the host's column, though the host did nothing.
#[test]
fn where_the_target_host_does_the_io_its_figures_are_the_trials() {
    for (transport, drive) in [(Transport::Local, Some(1.0)), (Transport::Loop, None)] {
        let both = hosts(&by(transport, 1), true);
        assert!(both.host.is_empty(), "{transport}");
        let get = |metric| both.target.get(metric);
        assert_eq!(get(SideMetric::Cpu(CpuKind::System)), Some(20.0), "{transport}");
        assert_eq!((get(SideMetric::ContextSwitches), get(SideMetric::Cores)), (Some(2.1), Some(4.0)));
        assert_eq!((get(SideMetric::DriveInterrupts), get(SideMetric::CardInterrupts)), (drive, None));
        assert_eq!(both.clock_uncertainty_ns, None);
    }
    let both = hosts(&by(Transport::Here, 1), true);
    assert!(both.target.is_empty());
    let get = |metric| both.host.get(metric);
    assert_eq!(
        (get(SideMetric::Cpu(CpuKind::System)), get(SideMetric::ContextSwitches)),
        (Some(20.0), Some(2.1))
    );
}

#[test]
fn what_a_replicate_lacks_is_absent_and_times_are_under_emulation() {
    let mut trials = by(Transport::Tcp, 1);
    let fabric = measurement_of(&mut trials[1]).evidence.fabric.as_mut().unwrap();
    fabric.nics[0].vectors = None;
    let both = hosts(&trials, true);
    assert_eq!(both.host.get(SideMetric::CardInterrupts), None);
    assert_eq!(both.host.get(SideMetric::PacketsIn), Some(3.0));
    let emulated = hosts(&trials, false);
    assert_eq!(emulated.host.get(SideMetric::Cpu(CpuKind::Idle)), None);
    assert_eq!(emulated.target.get(SideMetric::CardInterrupts), Some(0.6));
    assert_eq!(emulated.clock_uncertainty_ns, None);
    let fabric = measurement_of(&mut trials[1]).evidence.fabric.as_mut().unwrap();
    fabric.target = None;
    assert!(hosts(&trials, true).target.is_empty());
    trials.iter_mut().for_each(|trial| measurement_of(trial).evidence.fabric = None);
    let measured: Vec<&Measurement> = trials.iter().filter_map(|trial| trial.outcome.measurement()).collect();
    assert_eq!(TwoHosts::of(&measured, true, &SideSources::default()), None);
}

#[test]
fn each_side_has_the_energy_of_its_own_meters_and_nothing_is_added_up() {
    let mut trials = by(Transport::Tcp, 1);
    for trial in &mut trials {
        give(trial, "plug", Scope::System, 100.0);
        give(trial, "target.rapl", Scope::Package, 20.0);
    }
    let both = hosts(&trials, true);
    let watts = |energy: &Option<CellEnergy>| energy.as_ref().map(|one| one.watts.unwrap().mean);
    assert_eq!((watts(&both.host.energy), watts(&both.target.energy)), (Some(50.0), Some(10.0)));
    assert_eq!(both.both, None);
    for trial in &mut trials {
        give(trial, "target.plug", Scope::System, 60.0);
        give(trial, BOTH_HOSTS, Scope::System, 170.0);
    }
    let both = hosts(&trials, true);
    assert_eq!((watts(&both.target.energy), watts(&both.both)), (Some(30.0), Some(85.0)));
    assert_eq!(both.target.energy.unwrap().source.to_string(), "system by target.plug");
    let emulated = hosts(&trials, false);
    assert_eq!((emulated.host.energy, emulated.both), (None, None));
}
