//! Words that advice is made of: names of ways, figures, limits, and what would change an answer.

use super::number::{decimal, thousands};
use super::text::{settings, short_name};
use iopj_analysis::advise::{Answer, Bound, Group, LimitBy, Load, Tail, ToFlip, Way};
use iopj_analysis::grouping::{list, unique};
use iopj_analysis::metric::Metric;
use iopj_analysis::stats::Summary;
use std::collections::BTreeMap;

/// The ways of a group by name: with what tells them apart.
pub(super) struct Labels {
    ways: Vec<Way>,
}

impl Labels {
    /// Closed loops differ by the load and not by the way, so one is named within its load.
    pub(super) fn of(group: &Group, load: Option<Load>) -> Labels {
        let is_own = |other: Load| load.is_none_or(|load| load.is_open() || load == other);
        let all = group.loads.iter().filter(|(load, _)| is_own(*load)).flat_map(|(_, all)| all);
        Labels { ways: unique(all.map(|one| one.way.clone())) }
    }

    /// The short name of a path, with its shape if the path was used in several.
    pub(super) fn short(&self, way: &Way) -> String {
        let shape = |way: &Way| (way.numjobs, way.iodepth, way.iodepth_batch_submit);
        let own = self.ways.iter().filter(|other| other.path == way.path);
        let varies = own.clone().any(|other| shape(other) != shape(way));
        let shape = if varies {
            format!(" (numjobs {}, iodepth {})", way.numjobs, way.iodepth)
        } else {
            String::new()
        };
        format!("{}{shape}{}", short_name(&way.path), self.settings(way))
    }

    /// The whole name of a way.
    pub(super) fn whole(&self, way: &Way) -> String {
        let mut name = format!("{} with numjobs {} and iodepth {}", way.path, way.numjobs, way.iodepth);
        if way.iodepth_batch_submit > 1 || way.iodepth_batch_complete_min > 1 {
            name += &format!(
                ", iodepth_batch_submit {} and iodepth_batch_complete_min {}",
                way.iodepth_batch_submit, way.iodepth_batch_complete_min
            );
        }
        let own = self.settings(way);
        if own.is_empty() { name } else { format!("{name} under{own}") }
    }

    /// The settings that are not the same in all ways.
    fn settings(&self, way: &Way) -> String {
        let varies = |(name, value): &(&String, &String)| {
            self.ways.iter().any(|other| other.settings.get(*name) != Some(*value))
        };
        let own: BTreeMap<&String, &String> = way.settings.iter().filter(varies).collect();
        settings(own)
    }
}

/// A time.
pub(super) fn us(ns: f64) -> String {
    format!("{} us", decimal(ns / 1e3))
}

/// `p99 within 200 us`.
pub(super) fn bound_text(bound: &Bound) -> String {
    format!("{} within {}", bound.percentile.as_str(), us(bound.ns))
}

/// `p99 is 120 us, and at most 140 us by the spread of the replicates`.
pub(super) fn limit(tail: &Tail) -> String {
    let name = tail.percentile.as_str();
    match (tail.upper(), tail.lacks) {
        (Some((upper, by)), _) => {
            let by = match by {
                LimitBy::Replicates => "by the spread of the replicates",
                LimitBy::Ios => "by the number of I/Os",
            };
            format!("{name} is {}, and at most {} {by}", us(tail.ns), us(upper))
        }
        (None, Some(lack)) => format!("{name} is {}, without an upper limit: {lack}", us(tail.ns)),
        (None, None) => format!("{name} is {}, without an upper limit", us(tail.ns)),
    }
}

/// A mean of what is ranked, with its 95 % interval.
pub(super) fn figure(metric: Metric, summary: &Summary) -> String {
    let (text, unit): (fn(f64) -> String, &str) = match metric {
        Metric::IosPerJoule => (decimal, "I/Os per joule"),
        Metric::IopsPerCpu => (|mean| decimal(1e6 / mean), "us of CPU time per I/O"),
        Metric::Iops => (thousands, "IOPS"),
        _ => (|ns| decimal(ns / 1e3), "us"),
    };
    let between = summary.interval.filter(|(low, _)| *low > 0.0).map_or(String::new(), |(low, high)| {
        // More I/Os per CPU time are less CPU time per I/O.
        let (low, high) = if metric == Metric::IopsPerCpu { (high, low) } else { (low, high) };
        format!(" (between {} and {})", text(low), text(high))
    });
    let name = if metric.is_percentile() { format!("{} ", metric.title()) } else { String::new() };
    format!("{name}{} {unit}{between}", text(summary.mean))
}

/// A cost as a heading, and how its values are written.
pub(super) fn cost_text(cost: Metric) -> (&'static str, fn(f64) -> String) {
    match cost {
        Metric::IosPerJoule => ("IO/J", decimal),
        _ => ("CPU us/IO", |mean| decimal(1e6 / mean)),
    }
}

/// What would change an answer.
pub(super) fn flips(answer: &Answer, labels: &Labels) -> Option<String> {
    answer.way()?;
    let flips = &answer.flips;
    let name = flips.percentile.as_str();
    let mut parts = Vec::new();
    parts.extend(flips.tighter.as_ref().map(|ToFlip { at, way }| match way {
        Some(way) => format!("a bound of the {name} below {} makes it {}", us(*at), labels.short(way)),
        None => format!("no way is shown to meet a bound of the {name} below {}", us(*at)),
    }));
    if let Some(ToFlip { at, way: Some(way) }) = &flips.looser {
        parts.push(format!(
            "a bound of {} or more lets {} in, which is better on average",
            us(*at),
            labels.short(way)
        ));
    }
    let named = |ToFlip { at, way }: &ToFlip<u64>| {
        way.as_ref().map(|way| format!("{} at {}", labels.short(way), thousands(*at as f64)))
    };
    let others: Vec<String> = flips.rates.iter().filter_map(named).collect();
    if !others.is_empty() {
        parts.push(format!("at other rates, not tested, the best on average is {}", list(&others)));
    }
    let without = flips.rates.iter().filter(|one| one.way.is_none());
    let without: Vec<String> = without.map(|one| thousands(one.at as f64)).collect();
    if !without.is_empty() {
        parts.push(format!("no way can be chosen at {}", list(&without)));
    }
    match flips.keeps_up {
        (Some(up_to), Some(behind)) => parts.push(format!(
            "it keeps up to {} I/Os per second and falls behind at {}",
            thousands(up_to as f64),
            thousands(behind as f64)
        )),
        (Some(up_to), None) => {
            parts.push(format!("it keeps up at all rates measured, to {}", thousands(up_to as f64)));
        }
        _ => {}
    }
    (!parts.is_empty()).then(|| format!("What would change the answer: {}.", parts.join("; ")))
}
