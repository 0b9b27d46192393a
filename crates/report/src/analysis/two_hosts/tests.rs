//! Constructed trials over fabrics with chosen counts on both hosts.

use super::*;
use crate::analysis::claims::fixture::{Measured, cell, measurement_of, workload};
use crate::analysis::energy::tests::give;
use iopj_core::fabric::{TargetHostEvidence, VectorEvidence};
use iopj_core::{FabricEvidence, Rw, Scope, Workload};

/// The path of all these trials.
pub(crate) const PATH: &str = "io_uring/syscall/interrupt";

/// A card with this many interrupts on two vectors.
fn card(interrupts: u64, [rx_packets, tx_packets]: [u64; 2], [rx_bytes, tx_bytes]: [u64; 2]) -> NicEvidence {
    let vector = |interrupts| VectorEvidence { name: "27 eth0-rx".to_owned(), interrupts };
    NicEvidence {
        vectors: Some(vec![vector(interrupts / 2), vector(interrupts - interrupts / 2)]),
        rx_packets,
        tx_packets,
        rx_bytes,
        tx_bytes,
        ..NicEvidence::default()
    }
}

/// CPU time of cores: per mille of user, system, iowait, irq and softirq, the rest idle.
fn cpu(cores: u32, [user_ns, system_ns, iowait_ns, irq_ns, softirq_ns]: [u64; 5]) -> CpuTimes {
    let idle_ns = 1000 - user_ns - system_ns - iowait_ns - irq_ns - softirq_ns;
    CpuTimes { user_ns, system_ns, iowait_ns, irq_ns, softirq_ns, idle_ns, steal_ns: 0, cores }
}

fn drive(interrupts: Option<u64>) -> DeviceEvidence {
    DeviceEvidence { name: "nvme0n1".to_owned(), interrupts, ..DeviceEvidence::default() }
}

/// Three replicates of 1,000 I/Os at this depth by a transport. Over a wire the cards interrupt `800 / depth`
/// times on the host and 600 times on the target host, whose drive does 500 times; locally the drive does
/// once for each I/O.
pub(crate) fn by(transport: Transport, iodepth: u32) -> Vec<Trial> {
    let workload = Workload { iodepth, ..workload(Rw::Randread, 1) };
    let measured = Measured { mean_us: 10.0, iops: 500.0, ..Measured::default() };
    let mut trials = cell(PATH, &workload, measured, &[0.0; 3]);
    for trial in &mut trials {
        trial.settings.insert("transport".to_owned(), transport.to_string());
        let evidence = &mut measurement_of(trial).evidence;
        evidence.reads = 1000;
        evidence.cpu = cpu(4, [50, 200, 150, 10, 40]);
        let mut fabric = FabricEvidence { transport, context_switches: 2100, ..FabricEvidence::default() };
        if transport.is_remote() {
            let (packets, bytes) = ([3000, 1200], [4_300_000, 150_000]);
            fabric.nics = vec![card(800 / u64::from(iodepth), packets, bytes)];
            evidence.devices = vec![drive(None)];
            fabric.target = Some(TargetHostEvidence {
                clock_uncertainty_ns: 1_343_520,
                cpu: cpu(1, [10, 300, 0, 0, 100]),
                context_switches: 525,
                devices: vec![drive(Some(500))],
                nics: vec![card(600, [1200, 3000], [150_000, 4_300_000])],
                ..TargetHostEvidence::default()
            });
        } else {
            evidence.devices = vec![drive((transport == Transport::Local).then_some(1000))];
        }
        evidence.fabric = Some(Box::new(fabric));
    }
    trials
}

/// A store of three transports at depths of 1 and 16.
pub(crate) fn store() -> Vec<Trial> {
    let transports = [Transport::Local, Transport::Loop, Transport::Tcp];
    transports.into_iter().flat_map(|transport| [1, 16].map(|depth| by(transport, depth))).flatten().collect()
}

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
