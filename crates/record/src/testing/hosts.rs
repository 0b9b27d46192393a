//! Trials over fabrics with chosen counts on both hosts.

use crate::Trial;
use crate::testing::cells::{Measured, cell, measurement_of, workload};
use iopj_core::evidence::{CpuTimes, DeviceEvidence};
use iopj_core::fabric::{NicEvidence, TargetHostEvidence, VectorEvidence};
use iopj_core::{FabricEvidence, Rw, Transport, Workload};

/// The path of all these trials.
pub const PATH: &str = "io_uring/syscall/interrupt";

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
pub fn by(transport: Transport, iodepth: u32) -> Vec<Trial> {
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
pub fn store() -> Vec<Trial> {
    let transports = [Transport::Local, Transport::Loop, Transport::Tcp];
    transports.into_iter().flat_map(|transport| [1, 16].map(|depth| by(transport, depth))).flatten().collect()
}
