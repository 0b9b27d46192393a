//! Figures of a watched program over time: a step for each interval, or for several in a row where there are
//! more than can be drawn.

use super::watch::{DeviceFigures, PowerFigures, ProgramFigures, WatchFigures};
use iopj_core::Scope;
use iopj_core::watch::SampledLatency;
use iopj_record::watch::{WatchInterval, WatchRecord};

/// Sampled latencies from which on a percentile is shown: one or more lies beyond it.
const SAMPLES: [(Percentile, &str, u64); 2] =
    [(|seen| seen.p50_ns, "p50", 2), (|seen| seen.p99_ns, "p99", 100)];

type Percentile = fn(&SampledLatency) -> u64;

/// Quantities over the time of a watch, in steps that all of them share.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WatchTimeline {
    /// Begin and end of each step in s since the watch began.
    pub spans: Vec<(f64, f64)>,
    /// The intervals that a step holds; the last may hold fewer.
    pub intervals: usize,
    /// How much of each step tracepoints were counted; absent where they cannot be.
    pub counted: Vec<Option<Counted>>,
    /// What has a value in any step.
    pub panels: Vec<WatchPanel>,
}

/// How much of a step tracepoints were counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Counted {
    /// All the time.
    Whole,
    /// This share of the time; what was counted is scaled up.
    Part(f64),
    /// Not at all: what tracepoints count is absent.
    Rested,
}

/// Quantities of one kind and unit.
#[derive(Clone, Debug, PartialEq)]
pub struct WatchPanel {
    /// What they are.
    pub kind: PanelKind,
    /// Each with a value in some step.
    pub series: Vec<WatchSeries>,
}

/// What a panel shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PanelKind {
    /// Reads and writes a second, by disk.
    Iops,
    /// 10^6 bytes a second, by disk.
    Megabytes,
    /// Latency in us, by disk: the mean of all I/Os, and percentiles of those that were sampled.
    Latency,
    /// Shares of all cores' time in per cent, by kind.
    Cpu,
    /// Cores that the program keeps busy.
    Program,
    /// Context switches, system calls and interrupts per I/O.
    PerIo,
    /// Power in W, by meter.
    Power(Scope),
}

/// A quantity over time.
#[derive(Clone, Debug, PartialEq)]
pub struct WatchSeries {
    /// Its name: the disk, the kind, or the meter.
    pub name: String,
    /// Its value in each step; absent where there is none.
    pub values: Vec<Option<f64>>,
}

/// A value of an interval, and its weight in a mean over several.
type Weighed = Option<(f64, f64)>;

/// A quantity of some figures, with its name.
type Named<F> = (&'static str, fn(&F) -> f64);

/// How intervals are joined into a step.
#[derive(Clone, Copy)]
enum Join {
    Mean,
    Greatest,
}

/// The intervals of a watch in at most `most` steps. A step of several intervals has their mean: rates and
/// shares weighed by time, what is per I/O by I/Os; of percentiles, whose mean means nothing, the greatest.
pub fn timeline(record: &WatchRecord, most: usize) -> WatchTimeline {
    let intervals: Vec<(&WatchInterval, WatchFigures)> = record
        .intervals
        .iter()
        .map(|interval| (interval, WatchFigures::of(&interval.evidence, &interval.paths)))
        .collect();
    let each = intervals.len().div_ceil(most.max(1)).max(1);
    let steps = Steps { all: intervals.chunks(each).collect() };
    let panels = [
        steps.rates(PanelKind::Iops, |disk| [disk.read_iops, disk.write_iops]),
        steps.rates(PanelKind::Megabytes, |disk| [disk.read_mb_per_s, disk.write_mb_per_s]),
        steps.latency(),
        steps.cpu(),
        steps.program(),
        steps.per_io(),
    ];
    let panels = panels.into_iter().chain(steps.power()).filter(|panel| !panel.series.is_empty());
    WatchTimeline {
        spans: steps.all.iter().map(|step| span(step)).collect(),
        intervals: each,
        counted: steps.all.iter().map(|step| counted(step)).collect(),
        panels: panels.collect(),
    }
}

/// The intervals of a step, with their figures.
type Step<'a> = [(&'a WatchInterval, WatchFigures)];

fn span(step: &Step<'_>) -> (f64, f64) {
    let begin = |(interval, _): &(&WatchInterval, _)| {
        interval.end_ns.saturating_sub(interval.evidence.over_ns) as f64 * 1e-9
    };
    let end = |(interval, _): &(&WatchInterval, _)| interval.end_ns as f64 * 1e-9;
    let from = step.first().map_or(0.0, begin);
    (from, step.last().map_or(from, end).max(from))
}

fn counted(step: &Step<'_>) -> Option<Counted> {
    let events = || step.iter().filter_map(|(interval, _)| interval.evidence.events.as_ref());
    let (ns, of_ns) =
        events().fold((0, 0), |(ns, of_ns), events| (ns + events.counted_ns, of_ns + events.of_ns));
    events().next()?;
    Some(match events().any(|events| events.is_counted()) {
        false => Counted::Rested,
        true if ns >= of_ns => Counted::Whole,
        true => Counted::Part(ns as f64 / of_ns as f64),
    })
}

/// All steps of a timeline.
struct Steps<'a> {
    all: Vec<&'a Step<'a>>,
}

impl Steps<'_> {
    /// A quantity in each step; `None` if it has no value in any.
    fn series(
        &self,
        name: String,
        join: Join,
        of: impl Fn(&WatchInterval, &WatchFigures) -> Weighed,
    ) -> Option<WatchSeries> {
        let value = |step: &&Step<'_>| {
            let values: Vec<(f64, f64)> = step
                .iter()
                .filter_map(|(interval, figures)| of(interval, figures))
                .filter(|(value, weight)| value.is_finite() && *weight > 0.0)
                .collect();
            let weight: f64 = values.iter().map(|(_, weight)| weight).sum();
            let sum: f64 = values.iter().map(|(value, weight)| value * weight).sum();
            let greatest = values.iter().map(|(value, _)| *value).fold(f64::MIN, f64::max);
            (!values.is_empty()).then_some(match join {
                Join::Mean => sum / weight,
                Join::Greatest => greatest,
            })
        };
        let values: Vec<Option<f64>> = self.all.iter().map(value).collect();
        values.iter().any(Option::is_some).then_some(WatchSeries { name, values })
    }

    /// The disks of all intervals, in the order in which they first appear.
    fn disks(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        let figures = self.all.iter().flat_map(|step| step.iter());
        for device in figures.flat_map(|(_, figures)| &figures.devices) {
            if !names.contains(&device.name.as_str()) {
                names.push(&device.name);
            }
        }
        names
    }

    /// A rate of reads and one of writes for each disk; none for what it never did, unless it did neither.
    fn rates(&self, kind: PanelKind, of: fn(&DeviceFigures) -> [f64; 2]) -> WatchPanel {
        let rate = |disk: &str, at: usize, verb: &str| {
            let value = |_: &WatchInterval, figures: &WatchFigures| {
                Some((of(named(figures, disk)?)[at], figures.seconds))
            };
            self.series(format!("{disk} {verb}"), Join::Mean, value)
        };
        let both = |disk: &&str| {
            let [read, write] = [(0, "read"), (1, "write")].map(|(at, verb)| rate(disk, at, verb));
            let write = write.filter(is_ever_positive);
            [read.filter(|read| write.is_none() || is_ever_positive(read)), write]
        };
        WatchPanel { kind, series: self.disks().iter().flat_map(both).flatten().collect() }
    }

    fn latency(&self) -> WatchPanel {
        let us = 1e-3;
        let of_disk = |disk: &&str| {
            let mean = |interval: &WatchInterval, figures: &WatchFigures| {
                Some((named(figures, disk)?.latency_ns_mean? * us, ios_of(interval, disk)))
            };
            let mean = self.series(format!("{disk} mean"), Join::Mean, mean);
            let percentiles = SAMPLES.map(|(of, name, least)| {
                let value = |_: &WatchInterval, figures: &WatchFigures| {
                    let seen = named(figures, disk)?.sampled.filter(|seen| seen.count >= least)?;
                    Some((of(&seen) as f64 * us, 1.0))
                };
                self.series(format!("{disk} {name}"), Join::Greatest, value)
            });
            [mean].into_iter().chain(percentiles).flatten().collect::<Vec<_>>()
        };
        WatchPanel { kind: PanelKind::Latency, series: self.disks().iter().flat_map(of_disk).collect() }
    }

    fn cpu(&self) -> WatchPanel {
        let kind = |(name, share): Named<WatchFigures>| {
            let value = |interval: &WatchInterval, figures: &WatchFigures| {
                Some((100.0 * share(figures), interval.evidence.cpu.total_ns() as f64))
            };
            self.series(name.to_owned(), Join::Mean, value)
        };
        let kinds: [Named<WatchFigures>; 6] = [
            ("user", |figures| figures.machine.user),
            ("system", |figures| figures.machine.system),
            ("iowait", |figures| figures.machine.iowait),
            ("softirq", |figures| figures.machine.softirq),
            ("irq", |figures| figures.machine.irq),
            ("steal", |figures| figures.machine.steal),
        ];
        let series = kinds.into_iter().filter_map(kind).filter(is_ever_positive).collect();
        WatchPanel { kind: PanelKind::Cpu, series }
    }

    fn program(&self) -> WatchPanel {
        let cores = |(name, of): Named<ProgramFigures>| {
            let value = |_: &WatchInterval, figures: &WatchFigures| {
                Some((of(figures.program.as_ref()?), figures.seconds))
            };
            self.series(name.to_owned(), Join::Mean, value)
        };
        let kinds: [Named<ProgramFigures>; 2] =
            [("user", |program| program.user_cores), ("system", |program| program.system_cores)];
        WatchPanel { kind: PanelKind::Program, series: kinds.into_iter().filter_map(cores).collect() }
    }

    fn per_io(&self) -> WatchPanel {
        let of_program = |name: &str, of: fn(&ProgramFigures) -> Option<f64>| {
            let value = |interval: &WatchInterval, figures: &WatchFigures| {
                let ios = interval.evidence.device_ios() as f64;
                Some((of(figures.program.as_ref()?)?, ios))
            };
            self.series(name.to_owned(), Join::Mean, value)
        };
        let interrupts = |disk: &&str| {
            let value = |interval: &WatchInterval, figures: &WatchFigures| {
                Some((named(figures, disk)?.interrupts_per_io?, ios_of(interval, disk)))
            };
            self.series(format!("interrupts of {disk}"), Join::Mean, value)
        };
        let own = [
            of_program("context switches", |program| program.switches_per_io),
            of_program("system calls", |program| program.calls_per_io),
        ];
        let series = own.into_iter().chain(self.disks().iter().map(interrupts)).flatten().collect();
        WatchPanel { kind: PanelKind::PerIo, series }
    }

    /// A panel for each scope: scopes are not compared.
    fn power(&self) -> Vec<WatchPanel> {
        let figures = || self.all.iter().flat_map(|step| step.iter()).flat_map(|(_, one)| &one.power);
        let mut scopes: Vec<Scope> = Vec::new();
        let mut meters: Vec<(Scope, &str)> = Vec::new();
        for PowerFigures { meter, scope, .. } in figures() {
            if !scopes.contains(scope) {
                scopes.push(*scope);
            }
            if !meters.contains(&(*scope, meter)) {
                meters.push((*scope, meter));
            }
        }
        let series = |(scope, meter): &(Scope, &str)| {
            let value = |_: &WatchInterval, figures: &WatchFigures| {
                let own = figures.power.iter().find(|one| one.scope == *scope && one.meter == *meter)?;
                Some((own.watts, figures.seconds))
            };
            self.series((*meter).to_owned(), Join::Mean, value)
        };
        let panel = |scope: Scope| {
            let own = meters.iter().filter(|(other, _)| *other == scope);
            WatchPanel { kind: PanelKind::Power(scope), series: own.filter_map(series).collect() }
        };
        scopes.into_iter().map(panel).collect()
    }
}

/// A disk by its name.
fn named<'a>(figures: &'a WatchFigures, disk: &str) -> Option<&'a DeviceFigures> {
    figures.devices.iter().find(|device| device.name == disk)
}

/// Reads and writes of a disk.
fn ios_of(interval: &WatchInterval, disk: &str) -> f64 {
    let counts = interval.evidence.devices.iter().map(|device| &device.counts);
    counts.filter(|counts| counts.name == disk).map(|counts| (counts.reads + counts.writes) as f64).sum()
}

fn is_ever_positive(series: &WatchSeries) -> bool {
    series.values.iter().flatten().any(|value| *value > 0.0)
}

#[cfg(test)]
mod tests;
