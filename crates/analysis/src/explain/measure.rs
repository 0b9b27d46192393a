//! What is counted, and its mean over trials.

use crate::stats::summarize;
use iopj_core::{Cost, CostKind};
use serde::Serialize;

/// Mean and spread over the trials of a column, per I/O.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MeanSpread {
    /// Trials.
    pub n: usize,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation with n - 1; absent for one trial.
    pub stddev: Option<f64>,
}

impl MeanSpread {
    /// `None` if there is no value, or one that is not finite.
    pub(super) fn of(values: &[f64]) -> Option<MeanSpread> {
        let summary = summarize(values)?;
        Some(MeanSpread {
            n: summary.n,
            mean: summary.mean,
            stddev: (summary.n > 1).then_some(summary.stddev),
        })
    }
}

/// What the tables of a block count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Instructions.
    Instructions,
    /// Loads plus stores, as in `poll22` Table 2.
    LoadsPlusStores,
    /// Loads, if stores were not counted.
    Loads,
    /// Stores, if loads were not counted.
    Stores,
    /// Time on a core in ns.
    CpuNs,
}

impl Measure {
    /// The measure in words.
    pub fn title(self) -> &'static str {
        match self {
            Measure::Instructions => "instructions",
            Measure::LoadsPlusStores => "loads plus stores",
            Measure::Loads => "loads",
            Measure::Stores => "stores",
            Measure::CpuNs => "ns of CPU time",
        }
    }

    /// A cost in this measure.
    pub(super) fn of(self, cost: &Cost) -> u64 {
        match self {
            Measure::Instructions => cost.instructions,
            Measure::LoadsPlusStores => cost.loads.saturating_add(cost.stores),
            Measure::Loads => cost.loads,
            Measure::Stores => cost.stores,
            Measure::CpuNs => cost.cpu_ns,
        }
    }

    /// The measures that the counted columns allow; rows are sorted by the first.
    pub(super) fn available(kinds: &[CostKind]) -> Vec<Measure> {
        let has = |kind| kinds.contains(&kind);
        let (loads, stores) = (has(CostKind::Loads), has(CostKind::Stores));
        let all = [
            (has(CostKind::Instructions), Measure::Instructions),
            (loads && stores, Measure::LoadsPlusStores),
            (loads && !stores, Measure::Loads),
            (stores && !loads, Measure::Stores),
            (has(CostKind::CpuTime), Measure::CpuNs),
        ];
        all.into_iter().filter(|(counted, _)| *counted).map(|(_, measure)| measure).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_follow_what_was_counted() {
        let cost = Cost { calls: 1, instructions: 20, loads: 3, stores: 4, cpu_ns: 500 };
        let of = |kinds: &[CostKind]| -> Vec<(Measure, u64)> {
            Measure::available(kinds).into_iter().map(|measure| (measure, measure.of(&cost))).collect()
        };
        assert_eq!(
            of(&[CostKind::Calls, CostKind::Stores, CostKind::Loads, CostKind::Instructions]),
            [(Measure::Instructions, 20), (Measure::LoadsPlusStores, 7)]
        );
        assert_eq!(of(&[CostKind::CpuTime, CostKind::Loads]), [(Measure::Loads, 3), (Measure::CpuNs, 500)]);
        assert_eq!(of(&[CostKind::Stores]), [(Measure::Stores, 4)]);
        assert_eq!(of(&[CostKind::Calls]), []);
    }

    #[test]
    fn one_trial_has_no_spread() {
        assert_eq!(MeanSpread::of(&[2.0]), Some(MeanSpread { n: 1, mean: 2.0, stddev: None }));
        assert_eq!(
            MeanSpread::of(&[1.0, 3.0]),
            Some(MeanSpread { n: 2, mean: 2.0, stddev: Some(2f64.sqrt()) })
        );
        assert_eq!(MeanSpread::of(&[]), None);
    }
}
