//! Metrics of a trial: their words, units, directions and values, which of them are times, and which energy.

use super::cost;
use iopj_core::evidence::ThreadRole;
use iopj_core::{CostKind, Joules, Space, Workload};
use iopj_record::{CorunnerWindow, EnergySource, Measurement};
use std::fmt;
use std::str::FromStr;

/// Something that a trial measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Metric {
    /// I/Os per second.
    Iops,
    /// Megabytes (10^6) per second.
    MbPerS,
    /// Mean latency.
    LatencyMean,
    /// Median latency.
    LatencyP50,
    /// 95th percentile of the latency.
    LatencyP95,
    /// 99th percentile of the latency.
    LatencyP99,
    /// 99.9th percentile of the latency.
    LatencyP99_9,
    /// CPU use of the threads that do or serve the I/O.
    CpuPercent,
    /// Context switches of those threads per I/O.
    ContextSwitchesPerIo,
    /// Interrupts of the target's own vectors per I/O.
    InterruptsPerIo,
    /// I/Os per second of CPU time of those threads.
    IopsPerCpu,
    /// Megabytes (10^6) per second of that CPU time: what compares I/Os of several sizes.
    MbPerCpu,
    /// System calls of the engine per I/O.
    SystemCallsPerIo,
    /// Voluntary context switches of the jobs per I/O: at depth 1, the share of I/Os that slept.
    SleepsPerIo,
    /// Instructions per I/O, in one space or in both.
    Instructions(Option<Space>),
    /// Loads from memory per I/O, in one space or in both.
    Loads(Option<Space>),
    /// Stores to memory per I/O, in one space or in both.
    Stores(Option<Space>),
    /// What a program reports of itself.
    Figure,
    /// The same per second of CPU time of the program and its servers.
    FigurePerCpu,
    /// Rounds of the co-runner per second.
    CorunnerPerS,
    /// What the co-runner lost to each I/O, in CPU time.
    CorunnerLossPerIo,
    /// Energy over the window.
    Joules,
    /// Mean power.
    Watts,
    /// I/Os per joule.
    IosPerJoule,
    /// Bytes per joule.
    BytesPerJoule,
    /// Mean power above that of the idle machine.
    WattsAboveIdle,
    /// I/Os per joule above what the idle machine takes.
    IosPerJouleAboveIdle,
    /// Rounds of the co-runner per joule.
    CorunnerPerJoule,
    /// What a program reports of itself per joule.
    FigurePerJoule,
}

impl Metric {
    /// All of them.
    pub const ALL: [Metric; 35] = [
        Metric::Iops,
        Metric::MbPerS,
        Metric::LatencyMean,
        Metric::LatencyP50,
        Metric::LatencyP95,
        Metric::LatencyP99,
        Metric::LatencyP99_9,
        Metric::CpuPercent,
        Metric::ContextSwitchesPerIo,
        Metric::InterruptsPerIo,
        Metric::IopsPerCpu,
        Metric::MbPerCpu,
        Metric::SystemCallsPerIo,
        Metric::SleepsPerIo,
        Metric::Instructions(None),
        Metric::Instructions(Some(Space::Kernel)),
        Metric::Instructions(Some(Space::User)),
        Metric::Loads(None),
        Metric::Loads(Some(Space::Kernel)),
        Metric::Loads(Some(Space::User)),
        Metric::Stores(None),
        Metric::Stores(Some(Space::Kernel)),
        Metric::Stores(Some(Space::User)),
        Metric::Figure,
        Metric::FigurePerCpu,
        Metric::CorunnerPerS,
        Metric::CorunnerLossPerIo,
        Metric::Joules,
        Metric::Watts,
        Metric::IosPerJoule,
        Metric::BytesPerJoule,
        Metric::WattsAboveIdle,
        Metric::IosPerJouleAboveIdle,
        Metric::CorunnerPerJoule,
        Metric::FigurePerJoule,
    ];

    /// What decides which path is best under a workload: I/Os per second, but mean latency where I/Os come
    /// when they are due, because every path that keeps up does the same number of them; and of a program's
    /// its own figure.
    pub fn deciding(workload: &Workload) -> Metric {
        let is_paced =
            workload.open.is_some() || workload.trace.as_ref().is_some_and(|trace| !trace.no_stall);
        match (&workload.told, is_paced) {
            (Some(_), _) => Metric::Figure,
            (None, true) => Metric::LatencyMean,
            (None, false) => Metric::Iops,
        }
    }

    /// The metric's word in options and files.
    pub fn as_str(self) -> &'static str {
        self.words().0
    }

    /// The metric in words.
    pub fn title(self) -> &'static str {
        self.words().1
    }

    /// The unit of its values.
    pub fn unit(self) -> &'static str {
        self.words().2
    }

    fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Metric::Iops => ("iops", "IOPS", "I/Os per second"),
            Metric::MbPerS => ("mb_per_s", "throughput", "MB/s"),
            Metric::LatencyMean => ("latency_mean", "mean latency", "ns"),
            Metric::LatencyP50 => ("latency_p50", "median latency", "ns"),
            Metric::LatencyP95 => ("latency_p95", "p95 latency", "ns"),
            Metric::LatencyP99 => ("latency_p99", "p99 latency", "ns"),
            Metric::LatencyP99_9 => ("latency_p99.9", "p99.9 latency", "ns"),
            Metric::CpuPercent => ("cpu_percent", "CPU use", "% of one core"),
            Metric::ContextSwitchesPerIo => ("context_switches_per_io", "context switches", "per I/O"),
            Metric::InterruptsPerIo => ("interrupts_per_io", "interrupts", "per I/O"),
            Metric::MbPerCpu => ("mb_per_cpu", "MB per CPU", "MB per second of CPU time"),
            Metric::IopsPerCpu => ("iops_per_cpu", "IOPS per CPU", "I/Os per second of CPU time"),
            Metric::SystemCallsPerIo => ("system_calls_per_io", "system calls", "per I/O"),
            Metric::SleepsPerIo => ("sleeps_per_io", "sleeps", "per I/O"),
            Metric::Instructions(None) => ("instructions_per_io", "instructions", "per I/O"),
            Metric::Instructions(Some(Space::Kernel)) => {
                ("kernel_instructions_per_io", "kernel instructions", "per I/O")
            }
            Metric::Instructions(Some(Space::User)) => {
                ("user_instructions_per_io", "user instructions", "per I/O")
            }
            Metric::Loads(None) => ("loads_per_io", "loads", "per I/O"),
            Metric::Loads(Some(Space::Kernel)) => ("kernel_loads_per_io", "kernel loads", "per I/O"),
            Metric::Loads(Some(Space::User)) => ("user_loads_per_io", "user loads", "per I/O"),
            Metric::Stores(None) => ("stores_per_io", "stores", "per I/O"),
            Metric::Stores(Some(Space::Kernel)) => ("kernel_stores_per_io", "kernel stores", "per I/O"),
            Metric::Stores(Some(Space::User)) => ("user_stores_per_io", "user stores", "per I/O"),
            Metric::CorunnerPerS => ("corunner_per_s", "co-runner work", "rounds/s"),
            Metric::CorunnerLossPerIo => ("corunner_loss_per_io", "co-runner's loss", "ns of CPU per I/O"),
            Metric::CorunnerPerJoule => ("corunner_per_joule", "co-runner work per joule", "rounds/J"),
            Metric::Figure => ("figure", "figure", "its own unit"),
            Metric::FigurePerCpu => ("figure_per_cpu", "figure per CPU second", "per second of CPU time"),
            Metric::FigurePerJoule => ("figure_per_joule", "figure per joule", "per J"),
            Metric::Joules => ("joules", "energy", "J"),
            Metric::Watts => ("watts", "power", "W"),
            Metric::IosPerJoule => ("ios_per_joule", "I/Os per joule", "IO/J"),
            Metric::BytesPerJoule => ("bytes_per_joule", "bytes per joule", "B/J"),
            Metric::WattsAboveIdle => ("watts_above_idle", "power above idle", "W"),
            Metric::IosPerJouleAboveIdle => ("ios_per_joule_above_idle", "I/Os per joule above idle", "IO/J"),
        }
    }

    /// True if more is better, false if less is.
    pub fn more_is_better(self) -> bool {
        matches!(
            self,
            Metric::Iops
                | Metric::MbPerS
                | Metric::IopsPerCpu
                | Metric::MbPerCpu
                | Metric::IosPerJoule
                | Metric::BytesPerJoule
                | Metric::IosPerJouleAboveIdle
                | Metric::CorunnerPerS
                | Metric::CorunnerPerJoule
        ) || self.is_figure()
    }

    /// True for times and everything measured with them: rates, shares and energy. Under emulation they mean
    /// nothing.
    pub fn is_time(self) -> bool {
        let is_count = matches!(
            self,
            Metric::ContextSwitchesPerIo
                | Metric::InterruptsPerIo
                | Metric::SystemCallsPerIo
                | Metric::SleepsPerIo
        );
        !is_count && !self.is_cost()
    }

    /// True for what a program reports of itself.
    pub fn is_figure(self) -> bool {
        matches!(self, Metric::Figure | Metric::FigurePerCpu | Metric::FigurePerJoule)
    }

    /// True for counts and shares per I/O.
    fn is_per_io(self) -> bool {
        self.words().2.ends_with("per I/O")
    }

    /// True for latencies.
    fn is_latency(self) -> bool {
        self == Metric::LatencyMean || self.is_percentile()
    }

    /// True for percentiles: their replicates are compared by their logarithms.
    pub fn is_percentile(self) -> bool {
        matches!(self, Metric::LatencyP50 | Metric::LatencyP95 | Metric::LatencyP99 | Metric::LatencyP99_9)
    }

    /// True for counts of a cost profile.
    pub fn is_cost(self) -> bool {
        matches!(self, Metric::Instructions(_) | Metric::Loads(_) | Metric::Stores(_))
    }

    /// True for energy and everything measured with it: its values are those of one source.
    pub fn is_energy(self) -> bool {
        matches!(
            self,
            Metric::Joules
                | Metric::Watts
                | Metric::IosPerJoule
                | Metric::BytesPerJoule
                | Metric::WattsAboveIdle
                | Metric::IosPerJouleAboveIdle
                | Metric::CorunnerPerJoule
                | Metric::FigurePerJoule
        )
    }

    /// True if a value may be below zero: energy above idle, and the loss of a co-runner that was faster than
    /// alone.
    pub fn may_be_negative(self) -> bool {
        matches!(self, Metric::WattsAboveIdle | Metric::IosPerJouleAboveIdle | Metric::CorunnerLossPerIo)
    }

    /// The value of a trial; `None` if it was not measured or is undefined (I/Os per CPU time without CPU
    /// time). Energy is that of `source`; without one there is none.
    pub fn value(self, measurement: &Measurement, source: Option<&EnergySource>) -> Option<f64> {
        let latency = &measurement.latency;
        // What the disks of a program did not do, or nobody sampled, has no figure.
        let lacks_ios = self.is_per_io() && measurement.known_switches_per_io().is_none();
        if lacks_ios || (self.is_latency() && measurement.known_latency().is_none()) {
            return None;
        }
        let value = match self {
            Metric::Iops => Some(measurement.iops()),
            Metric::MbPerS => Some(measurement.mb_per_s()),
            Metric::LatencyMean => Some(latency.mean),
            Metric::LatencyP50 => Some(latency.p50 as f64),
            Metric::LatencyP95 => Some(latency.p95 as f64),
            Metric::LatencyP99 => Some(latency.p99 as f64),
            Metric::LatencyP99_9 => Some(latency.p99_9 as f64),
            Metric::CpuPercent => Some(measurement.cpu_percent),
            Metric::ContextSwitchesPerIo => Some(measurement.context_switches_per_io),
            Metric::InterruptsPerIo => measurement.interrupts_per_io,
            Metric::IopsPerCpu => Some(measurement.iops() / (measurement.cpu_percent / 100.0)),
            Metric::MbPerCpu => Some(measurement.mb_per_s() / (measurement.cpu_percent / 100.0)),
            Metric::SystemCallsPerIo => measurement.system_calls_per_io,
            Metric::SleepsPerIo => sleeps_per_io(measurement),
            Metric::Instructions(space) => cost::per_io(measurement, CostKind::Instructions, space),
            Metric::Loads(space) => cost::per_io(measurement, CostKind::Loads, space),
            Metric::Stores(space) => cost::per_io(measurement, CostKind::Stores, space),
            Metric::Figure => measurement.program.as_ref().map(|program| program.figure),
            Metric::FigurePerCpu => figure_per_cpu(measurement),
            Metric::CorunnerPerS => measurement.corunner.as_ref().map(CorunnerWindow::per_s),
            Metric::CorunnerLossPerIo => measurement.corunner_loss_ns_per_io(),
            _ => self.energy(measurement, source?.joules(measurement)?),
        };
        value.filter(|value| value.is_finite())
    }

    /// An energy metric of these joules. Figures per joule above idle have no value unless idle power is
    /// exceeded by more than the uncertainty: otherwise the ratio has no bounds (Fieller 1954).
    fn energy(self, measurement: &Measurement, joules: &Joules) -> Option<f64> {
        let above = joules.above_idle.as_ref();
        let count = if self == Metric::BytesPerJoule { measurement.bytes } else { measurement.ios } as f64;
        match self {
            Metric::CorunnerPerJoule => {
                let rounds = measurement.corunner.as_ref()?.rounds as f64;
                (joules.joules > 0.0).then(|| rounds / joules.joules)
            }
            Metric::FigurePerJoule => {
                let total = measurement.program.as_ref()?.total(joules.seconds);
                (joules.joules > 0.0).then(|| total / joules.joules)
            }
            Metric::Joules => Some(joules.joules),
            Metric::Watts => Some(joules.watts()),
            Metric::IosPerJoule | Metric::BytesPerJoule => {
                (joules.joules > 0.0).then(|| count / joules.joules)
            }
            Metric::WattsAboveIdle => above.map(|above| above.joules / joules.seconds),
            Metric::IosPerJouleAboveIdle => {
                above.filter(|above| above.random_interval[0] > 0.0).map(|above| count / above.joules)
            }
            _ => None,
        }
    }
}

/// The figure over the window, per second of CPU time.
fn figure_per_cpu(measurement: &Measurement) -> Option<f64> {
    let seconds = measurement.window_ns as f64 / 1e9;
    let cpu_s = measurement.cpu_percent / 100.0 * seconds;
    measurement.program.as_ref().map(|program| program.total(seconds) / cpu_s)
}

/// Counts only the jobs' switches if threads were recorded separately: an idle kernel poller sleeps, but not
/// for an I/O.
fn sleeps_per_io(measurement: &Measurement) -> Option<f64> {
    if measurement.program.is_some() {
        return None; // not every sleep of a program is one for an I/O
    }
    let evidence = &measurement.evidence;
    let jobs = || evidence.threads.iter().filter(|thread| thread.role == ThreadRole::Job);
    let sleeps = match jobs().next() {
        Some(_) => jobs().map(|thread| thread.in_window(thread.voluntary_switches, evidence.window_ns)).sum(),
        None => evidence.process.voluntary_switches,
    };
    (evidence.ios() > 0).then(|| sleeps as f64 / evidence.ios() as f64)
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that names no metric.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a metric that stores hold: use one of {all}",
    all = Metric::ALL.map(Metric::as_str).join(", ")
)]
pub struct UnknownMetric(pub String);

impl FromStr for Metric {
    type Err = UnknownMetric;

    fn from_str(text: &str) -> Result<Metric, UnknownMetric> {
        let named = Metric::ALL.into_iter().find(|metric| metric.as_str() == text);
        named.ok_or_else(|| UnknownMetric(text.to_owned()))
    }
}
