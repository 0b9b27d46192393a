//! The figures of a trial on a local or a remote drive: bandwidth and latency, CPU of either host, interrupts
//! of network cards.

use crate::claims::metrics::{ClaimMetric, Kind, own};
use iopj_core::evidence::CpuTimes;
use iopj_core::fabric::NicEvidence;
use iopj_record::{Latency, Measurement, Pooled};

/// Megabytes (10^6) per second.
pub(super) const MB_PER_S: ClaimMetric = own("bandwidth", "MB/s", Kind::Time, |one| positive(one.mb_per_s()));
/// Mean latency.
pub(super) const MEAN_LATENCY: ClaimMetric =
    own("mean latency", "us", Kind::Time, |one| positive(one.latency.mean / 1e3));
/// 20th percentile of the latency.
pub(super) const P20: ClaimMetric =
    own("p20", "us", Kind::Percentile, |one| percentile_us(&one.latency, 0.2));
/// Median latency.
pub(super) const P50: ClaimMetric =
    own("p50", "us", Kind::Percentile, |one| positive(one.latency.p50 as f64 / 1e3));
/// 80th percentile of the latency.
pub(super) const P80: ClaimMetric =
    own("p80", "us", Kind::Percentile, |one| percentile_us(&one.latency, 0.8));
/// 95th percentile of the latency.
pub(super) const P95: ClaimMetric =
    own("p95", "us", Kind::Percentile, |one| positive(one.latency.p95 as f64 / 1e3));

/// CPU of the host that does the I/O, as the paper counts it: with iowait, of all cores.
pub(super) const HOST_CPU: ClaimMetric = own("host CPU", "%", Kind::Time, |one| with_iowait(one.cpu()));
/// The same without iowait, which is idle time.
pub(super) const HOST_BUSY: ClaimMetric =
    own("host CPU without iowait", "%", Kind::Time, |one| busy(one.cpu()));
/// CPU of the target host while another host does the I/O, as the paper counts it.
pub(super) const TARGET_CPU: ClaimMetric =
    own("target CPU", "%", Kind::Time, |one| with_iowait(target_cpu(one)?));
/// The same without iowait.
pub(super) const TARGET_BUSY: ClaimMetric =
    own("target CPU without iowait", "%", Kind::Time, |one| busy(target_cpu(one)?));

/// System time of the host that does the I/O.
pub(super) const SYSTEM: ClaimMetric =
    own("system", "%", Kind::Time, |one| share(one.cpu(), one.cpu().system_ns));
/// The largest kind of its CPU time but system time and idle.
pub(super) const OTHER_KIND: ClaimMetric = own("largest other kind", "%", Kind::Time, |one| {
    let CpuTimes { user_ns, iowait_ns, irq_ns, softirq_ns, .. } = *one.cpu();
    share(one.cpu(), user_ns.max(iowait_ns).max(irq_ns).max(softirq_ns))
});

/// Interrupts of the host's network cards per I/O.
pub(super) const HOST_INTERRUPTS: ClaimMetric =
    own("interrupts of the host's card per I/O", "", Kind::Count, |one| {
        per_io(one, &one.evidence.fabric.as_ref()?.nics)
    });
/// Interrupts of the target host's network cards per I/O.
pub(super) const TARGET_INTERRUPTS: ClaimMetric =
    own("interrupts of the target's card per I/O", "", Kind::Count, |one| {
        per_io(one, &one.evidence.fabric.as_ref()?.target.as_ref()?.nics)
    });

/// A figure of which 0 means that it was not measured.
fn positive(value: f64) -> Option<f64> {
    (value > 0.0).then_some(value)
}

/// A percentile in us; absent for a trial that keeps no histogram.
fn percentile_us(latency: &Latency, quantile: f64) -> Option<f64> {
    let pooled = Pooled::of([&latency.histogram[..]]);
    (!pooled.is_empty()).then(|| pooled.value_at_quantile(quantile) as f64 / 1e3)
}

fn target_cpu(one: &Measurement) -> Option<&CpuTimes> {
    Some(&one.evidence.fabric.as_ref()?.target.as_ref()?.cpu)
}

fn busy(cpu: &CpuTimes) -> Option<f64> {
    share(cpu, cpu.user_ns + cpu.system_ns + cpu.irq_ns + cpu.softirq_ns)
}

fn with_iowait(cpu: &CpuTimes) -> Option<f64> {
    Some(busy(cpu)? + share(cpu, cpu.iowait_ns)?)
}

/// A time as a share of that of all cores, in per cent.
fn share(cpu: &CpuTimes, ns: u64) -> Option<f64> {
    let all = cpu.total_ns();
    (all > 0).then(|| 100.0 * ns as f64 / all as f64)
}

/// Interrupts of all cards per I/O; absent without a card, and where one's cannot be told apart.
fn per_io(one: &Measurement, nics: &[NicEvidence]) -> Option<f64> {
    let all: u64 = nics.iter().map(NicEvidence::interrupts).sum::<Option<u64>>()?;
    (!nics.is_empty() && one.ios > 0).then(|| all as f64 / one.ios as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_neither_system_nor_iowait_is_a_time() {
        assert!(OTHER_KIND.is_time());
    }
}
