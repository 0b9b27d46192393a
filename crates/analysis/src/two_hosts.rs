//! The host and the target host of a cell over fabrics: what its trials cost each of them, as means over
//! replicates.
//!
//! Over a wire the host does the I/O and the target host has the drive. Of a `local` or `loop` trial the
//! target host did the I/O itself, so the trial's own counts are the target host's, and the host has none; of
//! a `here` trial it is the other way round.

use super::energy::CellEnergy;
use super::stats;
use iopj_core::Transport;
use iopj_core::evidence::{CpuTimes, DeviceEvidence};
use iopj_core::fabric::{BOTH_HOSTS, HostSide, NicEvidence, TARGET_METERS};
use iopj_record::{EnergySource, Measurement, Trial};
use std::collections::BTreeMap;

/// A kind of CPU time, as `/proc/stat` and mpstat have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CpuKind {
    /// User space, niced included.
    User,
    /// Kernel.
    System,
    /// Idle while an I/O of the core was outstanding.
    Iowait,
    /// Hardware interrupts.
    Irq,
    /// Soft interrupts.
    Softirq,
    /// Taken by the hypervisor.
    Steal,
    /// Idle.
    Idle,
}

impl CpuKind {
    /// All of them, which together are all cores.
    pub const ALL: [CpuKind; 7] = [
        CpuKind::User,
        CpuKind::System,
        CpuKind::Iowait,
        CpuKind::Irq,
        CpuKind::Softirq,
        CpuKind::Steal,
        CpuKind::Idle,
    ];

    /// The kind's word.
    pub fn as_str(self) -> &'static str {
        match self {
            CpuKind::User => "user",
            CpuKind::System => "system",
            CpuKind::Iowait => "iowait",
            CpuKind::Irq => "irq",
            CpuKind::Softirq => "softirq",
            CpuKind::Steal => "steal",
            CpuKind::Idle => "idle",
        }
    }

    /// Its share of the time of all cores in per cent; `None` if no time passed.
    fn percent(self, cpu: &CpuTimes) -> Option<f64> {
        let ns = match self {
            CpuKind::User => cpu.user_ns,
            CpuKind::System => cpu.system_ns,
            CpuKind::Iowait => cpu.iowait_ns,
            CpuKind::Irq => cpu.irq_ns,
            CpuKind::Softirq => cpu.softirq_ns,
            CpuKind::Steal => cpu.steal_ns,
            CpuKind::Idle => cpu.idle_ns,
        };
        (cpu.total_ns() > 0).then(|| 100.0 * ns as f64 / cpu.total_ns() as f64)
    }
}

/// Something that is counted on one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SideMetric {
    /// Cores online.
    Cores,
    /// CPU time by kind in per cent of all cores.
    Cpu(CpuKind),
    /// Context switches of all cores per I/O.
    ContextSwitches,
    /// Interrupts of the network cards between the two hosts per I/O.
    CardInterrupts,
    /// Interrupts of the drive per I/O; the host has no drive.
    DriveInterrupts,
    /// Packets received per I/O.
    PacketsIn,
    /// Packets sent per I/O.
    PacketsOut,
    /// Bytes received per I/O, with all headers.
    BytesIn,
    /// Bytes sent per I/O, with all headers.
    BytesOut,
}

/// What one trial shows of one host.
struct Side<'a> {
    cpu: &'a CpuTimes,
    context_switches: u64,
    nics: &'a [NicEvidence],
    drives: &'a [DeviceEvidence],
}

impl<'a> Side<'a> {
    /// `None` for a host if the other did the I/O alone, for the target host if no agent ran there, and for
    /// both without fabrics.
    fn of(measurement: &'a Measurement, side: HostSide) -> Option<Side<'a>> {
        let evidence = &measurement.evidence;
        let fabric = evidence.fabric.as_deref()?;
        let (cpu, context_switches) = (&evidence.cpu, fabric.context_switches);
        match (side, fabric.transport.is_on_target()) {
            (HostSide::Host, true) => None,
            (HostSide::Host, false) => Some(Side { cpu, context_switches, nics: &fabric.nics, drives: &[] }),
            (HostSide::Target, true) => {
                Some(Side { cpu, context_switches, nics: &[], drives: &evidence.devices })
            }
            (HostSide::Target, false) => fabric.target.as_ref().map(|target| Side {
                cpu: &target.cpu,
                context_switches: target.context_switches,
                nics: &target.nics,
                drives: &target.devices,
            }),
        }
    }

    /// Unknown if there is no card, or the interrupts of one are unknown.
    fn card_interrupts(&self) -> Option<u64> {
        let interrupts = self.nics.iter().map(NicEvidence::interrupts).sum::<Option<u64>>();
        interrupts.filter(|_| !self.nics.is_empty())
    }

    fn drive_interrupts(&self) -> Option<u64> {
        let interrupts = self.drives.iter().map(|drive| drive.interrupts).sum::<Option<u64>>();
        interrupts.filter(|_| !self.drives.is_empty())
    }

    fn of_nics(&self, count: fn(&NicEvidence) -> u64) -> Option<u64> {
        (!self.nics.is_empty()).then(|| self.nics.iter().map(count).fold(0, u64::saturating_add))
    }
}

impl SideMetric {
    /// All of them, in the order of tables.
    pub const ALL: [SideMetric; 15] = [
        SideMetric::Cores,
        SideMetric::Cpu(CpuKind::User),
        SideMetric::Cpu(CpuKind::System),
        SideMetric::Cpu(CpuKind::Iowait),
        SideMetric::Cpu(CpuKind::Irq),
        SideMetric::Cpu(CpuKind::Softirq),
        SideMetric::Cpu(CpuKind::Steal),
        SideMetric::Cpu(CpuKind::Idle),
        SideMetric::ContextSwitches,
        SideMetric::CardInterrupts,
        SideMetric::DriveInterrupts,
        SideMetric::PacketsIn,
        SideMetric::PacketsOut,
        SideMetric::BytesIn,
        SideMetric::BytesOut,
    ];

    /// Its name in CSV and Parquet, after that of the side.
    pub fn name(self) -> String {
        match self {
            SideMetric::Cores => "cores".to_owned(),
            SideMetric::Cpu(kind) => format!("cpu_{}_percent", kind.as_str()),
            SideMetric::ContextSwitches => "context_switches_per_io".to_owned(),
            SideMetric::CardInterrupts => "card_interrupts_per_io".to_owned(),
            SideMetric::DriveInterrupts => "drive_interrupts_per_io".to_owned(),
            SideMetric::PacketsIn => "packets_in_per_io".to_owned(),
            SideMetric::PacketsOut => "packets_out_per_io".to_owned(),
            SideMetric::BytesIn => "bytes_in_per_io".to_owned(),
            SideMetric::BytesOut => "bytes_out_per_io".to_owned(),
        }
    }

    /// True for shares of time, which mean nothing under emulation.
    pub fn is_time(self) -> bool {
        matches!(self, SideMetric::Cpu(_))
    }

    /// False for what this side never has.
    pub fn is_of(self, side: HostSide) -> bool {
        self != SideMetric::DriveInterrupts || side == HostSide::Target
    }

    /// The value of a trial on one side; `None` if it was not counted.
    pub fn value(self, measurement: &Measurement, on: HostSide) -> Option<f64> {
        let side = Side::of(measurement, on)?;
        let count = match self {
            SideMetric::Cores => return Some(f64::from(side.cpu.cores)),
            SideMetric::Cpu(kind) => return kind.percent(side.cpu),
            SideMetric::ContextSwitches => Some(side.context_switches),
            SideMetric::CardInterrupts => side.card_interrupts(),
            SideMetric::DriveInterrupts => side.drive_interrupts(),
            SideMetric::PacketsIn => side.of_nics(|nic| nic.rx_packets),
            SideMetric::PacketsOut => side.of_nics(|nic| nic.tx_packets),
            SideMetric::BytesIn => side.of_nics(|nic| nic.rx_bytes),
            SideMetric::BytesOut => side.of_nics(|nic| nic.tx_bytes),
        }?;
        let ios = measurement.evidence.ios();
        (ios > 0).then(|| count as f64 / ios as f64)
    }
}

/// Which meter and scope stand for each side, and for both together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SideSources {
    host: Option<EnergySource>,
    target: Option<EnergySource>,
    both: Option<EnergySource>,
}

impl SideSources {
    /// Those of a store.
    pub fn of(trials: &[Trial]) -> SideSources {
        let measured = |is_meant: &dyn Fn(&str) -> bool| EnergySource::measured_by(trials, is_meant);
        SideSources {
            host: measured(&|meter| !meter.starts_with(TARGET_METERS) && meter != BOTH_HOSTS),
            target: measured(&|meter| meter.starts_with(TARGET_METERS)),
            both: measured(&|meter| meter == BOTH_HOSTS),
        }
    }
}

/// The means of one side over the replicates of a cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SideMeans {
    means: BTreeMap<SideMetric, f64>,
    /// Its energy; absent if no meter of this side took part.
    pub energy: Option<CellEnergy>,
}

impl SideMeans {
    fn of(
        measured: &[&Measurement],
        side: HostSide,
        timed: bool,
        source: Option<&EnergySource>,
    ) -> SideMeans {
        let mean = |metric: SideMetric| {
            let all: Option<Vec<f64>> = measured.iter().map(|one| metric.value(one, side)).collect();
            Some((metric, stats::mean(&all?)))
        };
        let metrics = SideMetric::ALL.into_iter().filter(|metric| timed || !metric.is_time());
        SideMeans {
            means: metrics.filter_map(mean).collect(),
            energy: source.and_then(|source| CellEnergy::of(measured, source)),
        }
    }

    /// A mean; absent if a replicate lacks it, and times under emulation.
    pub fn get(&self, metric: SideMetric) -> Option<f64> {
        self.means.get(&metric).copied()
    }

    /// True if nothing is known of this side.
    pub fn is_empty(&self) -> bool {
        self.means.is_empty() && self.energy.is_none()
    }
}

/// Both hosts of a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct TwoHosts {
    /// How the drive was reached.
    pub transport: Transport,
    /// The host; empty but for its energy if the target host did the I/O.
    pub host: SideMeans,
    /// The target host; empty where no agent ran there.
    pub target: SideMeans,
    /// The energy of both together, as the store has it: the report adds nothing up.
    pub both: Option<CellEnergy>,
    /// How far the target host's clock may have been wrong in ns, the most of all replicates; absent under
    /// emulation, and where the target host did the I/O.
    pub clock_uncertainty_ns: Option<u64>,
}

impl TwoHosts {
    /// Both hosts of these replicates; `None` if they are not over fabrics. No energy and no time is shown
    /// unless they are `timed`.
    pub fn of(measured: &[&Measurement], timed: bool, sources: &SideSources) -> Option<TwoHosts> {
        let fabric = || measured.iter().filter_map(|one| one.evidence.fabric.as_deref());
        let transport = fabric().next()?.transport;
        let source = |source: &'_ Option<EnergySource>| source.clone().filter(|_| timed);
        let side = |side, own| SideMeans::of(measured, side, timed, source(own).as_ref());
        let clocks = fabric().filter_map(|one| one.target.as_ref().map(|target| target.clock_uncertainty_ns));
        Some(TwoHosts {
            transport,
            host: side(HostSide::Host, &sources.host),
            target: side(HostSide::Target, &sources.target),
            both: source(&sources.both).and_then(|source| CellEnergy::of(measured, &source)),
            clock_uncertainty_ns: clocks.max().filter(|_| timed),
        })
    }

    /// One of the sides.
    pub fn side(&self, side: HostSide) -> &SideMeans {
        match side {
            HostSide::Host => &self.host,
            HostSide::Target => &self.target,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
