//! The figures that claims are about, each with its name and unit.

use iopj_analysis::metric::Metric;
use iopj_record::{EnergySource, Measurement};

/// A figure of a measurement.
#[derive(Clone, Copy)]
pub(super) struct ClaimMetric {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    of: Of,
}

/// Where a figure comes from.
#[derive(Clone, Copy)]
enum Of {
    /// A metric, and the number of its units in one of the figure's.
    Metric(Metric, f64),
    /// A figure that no metric is, absent if the trial lacks it.
    Own(Kind, fn(&Measurement) -> Option<f64>),
}

/// How a figure that no metric is may be compared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A count per I/O.
    Count,
    /// A time, or a rate or share that depends on one.
    Time,
    /// A percentile of times.
    Percentile,
}

impl ClaimMetric {
    /// True if the other is the same figure.
    pub(super) fn is(&self, other: &ClaimMetric) -> bool {
        self.name == other.name
    }

    /// True if a clock measures it, or it depends on how long something spun or slept.
    pub(super) fn is_time(&self) -> bool {
        match self.of {
            Of::Metric(metric, _) => metric.is_time(),
            Of::Own(kind, _) => kind != Kind::Count,
        }
    }

    /// Percentiles are compared by their logarithms.
    pub(super) fn is_percentile(&self) -> bool {
        match self.of {
            Of::Metric(metric, _) => metric.is_percentile(),
            Of::Own(kind, _) => kind == Kind::Percentile,
        }
    }

    pub(super) fn is_energy(&self) -> bool {
        matches!(self.of, Of::Metric(metric, _) if metric.is_energy())
    }

    /// The trial's value, with the energy of this source.
    pub(super) fn value(&self, measurement: &Measurement, source: Option<&EnergySource>) -> Option<f64> {
        match self.of {
            Of::Metric(metric, units) => Some(metric.value(measurement, source)? / units),
            Of::Own(_, of) => of(measurement),
        }
    }
}

const fn figure(name: &'static str, unit: &'static str, metric: Metric, units: f64) -> ClaimMetric {
    ClaimMetric { name, unit, of: Of::Metric(metric, units) }
}

/// A figure that no metric is.
pub(super) const fn own(
    name: &'static str,
    unit: &'static str,
    kind: Kind,
    of: fn(&Measurement) -> Option<f64>,
) -> ClaimMetric {
    ClaimMetric { name, unit, of: Of::Own(kind, of) }
}

/// A rate in millions a second, which depends on how long something spun.
pub(super) const fn millions_per_s(name: &'static str, of: fn(&Measurement) -> Option<f64>) -> ClaimMetric {
    own(name, "M/s", Kind::Time, of)
}

pub(super) const MEAN_LATENCY: ClaimMetric = figure("mean latency", "us", Metric::LatencyMean, 1e3);
pub(super) const P50: ClaimMetric = figure("p50", "us", Metric::LatencyP50, 1e3);
pub(super) const P99: ClaimMetric = figure("p99", "us", Metric::LatencyP99, 1e3);
pub(super) const IOPS: ClaimMetric = figure("IOPS", "IOPS", Metric::Iops, 1.0);
/// Of one core, all threads that do or serve the I/O.
pub(super) const CPU: ClaimMetric = figure("CPU use", "%", Metric::CpuPercent, 1.0);
pub(super) const SWITCHES: ClaimMetric =
    figure("context switches per I/O", "", Metric::ContextSwitchesPerIo, 1.0);
/// Of the drive's own vectors.
pub(super) const INTERRUPTS: ClaimMetric =
    figure("interrupts of the drive per I/O", "", Metric::InterruptsPerIo, 1.0);
pub(super) const WATTS: ClaimMetric = figure("power", "W", Metric::Watts, 1.0);
pub(super) const IOS_PER_JOULE: ClaimMetric = figure("I/Os per joule", "IO/J", Metric::IosPerJoule, 1.0);
pub(super) const BYTES_PER_JOULE: ClaimMetric = figure("bytes per joule", "B/J", Metric::BytesPerJoule, 1.0);
