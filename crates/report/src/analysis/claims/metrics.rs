//! The figures that claims are about, each with its name and unit.

use crate::analysis::metric;
use iopj_store::{EnergySource, Measurement};

/// A figure of a measurement.
#[derive(Clone, Copy)]
pub(super) struct ClaimMetric {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    /// It is measured by a clock, or depends on how long something spun or slept.
    pub(super) time: bool,
    of: Of,
}

/// Where a figure comes from; absent where the trial does not hold it.
#[derive(Clone, Copy)]
enum Of {
    /// From the trial alone.
    Trial(fn(&Measurement) -> Option<f64>),
    /// From what the meter of all trials has of it.
    Energy(metric::Metric),
}

impl ClaimMetric {
    /// True if the other is the same figure.
    pub(super) fn is(&self, other: &ClaimMetric) -> bool {
        self.name == other.name
    }

    /// Percentiles are compared by their logarithms.
    pub(super) fn is_percentile(&self) -> bool {
        self.is(&P50) || self.is(&P99)
    }

    pub(super) fn is_energy(&self) -> bool {
        matches!(self.of, Of::Energy(_))
    }

    /// Its value of a trial, whose energy is that of the source.
    pub(super) fn value(&self, measurement: &Measurement, source: Option<&EnergySource>) -> Option<f64> {
        match self.of {
            Of::Trial(of) => of(measurement),
            Of::Energy(energy) => energy.value(measurement, source),
        }
    }
}

const fn time(name: &'static str, unit: &'static str, of: fn(&Measurement) -> Option<f64>) -> ClaimMetric {
    ClaimMetric { name, unit, time: true, of: Of::Trial(of) }
}

/// A figure that no clock is in.
const fn count(name: &'static str, of: fn(&Measurement) -> Option<f64>) -> ClaimMetric {
    ClaimMetric { name, unit: "", time: false, of: Of::Trial(of) }
}

const fn energy(name: &'static str, unit: &'static str, of: metric::Metric) -> ClaimMetric {
    ClaimMetric { name, unit, time: true, of: Of::Energy(of) }
}

/// A rate in millions a second.
pub(super) const fn millions_per_s(name: &'static str, of: fn(&Measurement) -> Option<f64>) -> ClaimMetric {
    time(name, "M/s", of)
}

pub(super) const MEAN_LATENCY: ClaimMetric = time("mean latency", "us", |m| Some(m.latency.mean / 1e3));
pub(super) const P50: ClaimMetric = time("p50", "us", |m| Some(m.latency.p50 as f64 / 1e3));
pub(super) const P99: ClaimMetric = time("p99", "us", |m| Some(m.latency.p99 as f64 / 1e3));
pub(super) const IOPS: ClaimMetric = time("IOPS", "IOPS", |m| Some(m.iops()));
/// Of one core, all threads that do or serve the I/O.
pub(super) const CPU: ClaimMetric = time("CPU use", "%", |m| Some(m.cpu_percent));
pub(super) const SWITCHES: ClaimMetric =
    count("context switches per I/O", |m| Some(m.context_switches_per_io));

pub(super) const WATTS: ClaimMetric = energy("power", "W", metric::Metric::Watts);
pub(super) const IOS_PER_JOULE: ClaimMetric = energy("I/Os per joule", "IO/J", metric::Metric::IosPerJoule);
pub(super) const BYTES_PER_JOULE: ClaimMetric =
    energy("bytes per joule", "B/J", metric::Metric::BytesPerJoule);
