//! Hosts that are far from the others of their kind: by median and MAD, which an outlier does not move.

use super::read::{Figure, KindTrials};
use iopj_analysis::stats::median;
use serde::Serialize;
use std::collections::BTreeMap;

/// Hosts below which nobody can be called an outlier.
const FEWEST_HOSTS: usize = 5;
/// So many robust standard deviations from the median is far (Iglewicz and Hoaglin 1993).
const FAR: f64 = 3.5;
/// Nearer than this is near, however alike the others are.
const NEAR: f64 = 0.05;
/// A MAD in standard deviations of a normal distribution.
const MAD_TO_DEVIATION: f64 = 1.4826;

/// A host that is far from the others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outlier {
    /// The host.
    pub host: String,
    /// Its latency over the kind's median, the median over set-ups and paths.
    pub of_kind: f64,
    /// How far that is from the middle of all hosts, in robust standard deviations.
    pub deviations: f64,
}

/// The outliers of a kind, the slowest first.
pub(super) fn outliers(trials: &KindTrials) -> Vec<Outlier> {
    let mut of_host: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (setup, path) in trials.pairs() {
        let hosts = trials.of_hosts(setup, path, Figure::LatencyMean);
        let values: Vec<f64> = hosts.iter().map(|(_, value)| *value).collect();
        let Some(middle) = median(&values) else { continue };
        for (host, value) in hosts {
            of_host.entry(host).or_default().push(value / middle);
        }
    }
    let relative: Vec<(u32, f64)> =
        of_host.into_iter().filter_map(|(host, values)| Some((host, median(&values)?))).collect();
    let values: Vec<f64> = relative.iter().map(|(_, value)| *value).collect();
    let mut found: Vec<Outlier> = far(&values)
        .into_iter()
        .map(|(at, deviations)| {
            let (host, of_kind) = relative[at];
            Outlier { host: trials.hosts.name(host).to_owned(), of_kind, deviations }
        })
        .collect();
    found.sort_by(|a, b| b.of_kind.total_cmp(&a.of_kind));
    found
}

/// Which values are far from the others, and how far.
fn far(values: &[f64]) -> Vec<(usize, f64)> {
    let Some(middle) = median(values).filter(|_| values.len() >= FEWEST_HOSTS) else { return Vec::new() };
    let off: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    let Some(deviation) = median(&off).map(|mad| MAD_TO_DEVIATION * mad).filter(|one| *one > 0.0) else {
        return Vec::new();
    };
    let all = values.iter().map(|value| value - middle).enumerate();
    let far = all.filter(|(_, off)| off.abs() > FAR * deviation && off.abs() > NEAR);
    far.map(|(at, off)| (at, off / deviation)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_far_value_is_found_and_does_not_hide_another() {
        let values = [1.0, 1.01, 0.99, 1.02, 0.98, 1.6, 1.7];
        let found: Vec<usize> = far(&values).into_iter().map(|(at, _)| at).collect();
        assert_eq!(found, [5, 6]);
        assert_eq!(far(&values[..4]), []);
        assert_eq!(far(&[1.0; 9]), []);
    }
}
