//! Counts per I/O from the cost profiles of trials: by space, by directory, and by function.

use super::stats;
use iopj_core::{CostKind, CostProfile, CostSource, FunctionCost, Space};
use iopj_record::{Measurement, Trial};

/// The directory of functions whose own is unknown.
pub const UNKNOWN: &str = "unknown";

/// Counts of one space per I/O; absent if not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PerIo {
    /// Instructions.
    pub instructions: Option<f64>,
    /// Loads from memory.
    pub loads: Option<f64>,
    /// Stores to memory.
    pub stores: Option<f64>,
}

/// The cost of a cell's I/Os, as means over its replicates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// True if the counts are samples times their period.
    pub sampled: bool,
    /// In the kernel.
    pub kernel: PerIo,
    /// In programs.
    pub user: PerIo,
}

impl Costs {
    /// The means over the measurements that have a profile with instructions, loads or stores; `None` if none
    /// has.
    pub fn of(measured: &[&Measurement]) -> Option<Costs> {
        let mean = |kind, space| {
            let values: Vec<f64> = measured.iter().filter_map(|one| per_io(one, kind, Some(space))).collect();
            (!values.is_empty()).then(|| stats::mean(&values))
        };
        let space = |space| PerIo {
            instructions: mean(CostKind::Instructions, space),
            loads: mean(CostKind::Loads, space),
            stores: mean(CostKind::Stores, space),
        };
        let costs = Costs {
            sampled: profiles(measured).any(is_sampled),
            kernel: space(Space::Kernel),
            user: space(Space::User),
        };
        ([costs.kernel, costs.user] != [PerIo::default(); 2]).then_some(costs)
    }
}

fn profiles<'a>(measured: &[&'a Measurement]) -> impl Iterator<Item = &'a CostProfile> {
    measured.iter().filter_map(|one| one.costs.as_ref())
}

fn is_sampled(profile: &CostProfile) -> bool {
    profile.source != CostSource::Exact
}

/// True if any trial has a sampled profile.
pub fn any_sampled(trials: &[Trial]) -> bool {
    trials.iter().filter_map(|trial| trial.outcome.measurement()?.costs.as_ref()).any(is_sampled)
}

/// A count per I/O, over one space or both; `None` if it was not counted, or nothing was issued.
pub fn per_io(measurement: &Measurement, kind: CostKind, space: Option<Space>) -> Option<f64> {
    per_io_of(measurement, kind, |function| space.is_none_or(|space| function.space == space))
}

/// The same over the functions that fit.
pub fn per_io_of(
    measurement: &Measurement,
    kind: CostKind,
    fits: impl Fn(&FunctionCost) -> bool,
) -> Option<f64> {
    let costs = measurement.costs.as_ref().filter(|costs| costs.has(kind))?;
    let ios = measurement.evidence.ios();
    let sum: u128 =
        costs.functions.iter().filter(|one| fits(one)).map(|one| u128::from(one.cost.get(kind))).sum();
    (ios > 0).then(|| sum as f64 / ios as f64)
}

/// True for kernel functions under a source directory, which ends in a slash.
pub fn is_under(function: &FunctionCost, directory: &str) -> bool {
    function.space == Space::Kernel
        && function.directory.as_deref().is_some_and(|own| own.starts_with(directory))
}

/// The source directory of a function of the kernel, or [`UNKNOWN`]; `None` for programs.
pub fn directory(function: &FunctionCost) -> Option<&str> {
    (function.space == Space::Kernel).then(|| function.directory.as_deref().unwrap_or(UNKNOWN))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    use iopj_record::testing::costs::{function, set_exact, user};

    fn measured() -> Measurement {
        let mut trial = iopj_record::testing::pairs::trial("libaio/syscall/interrupt", 1000);
        let measurement = iopj_record::testing::cells::measurement_of(&mut trial);
        let functions = vec![
            function("blk_poll", "block/", [400, 100, 40]),
            function("nvme_poll", "drivers/nvme/host/", [200, 60, 20]),
            function("blk_cgroup", "block/partitions/", [30, 10, 0]),
            function("who", "", [70, 30, 0]),
            user([1000, 200, 100]),
        ];
        set_exact(measurement, 10, functions);
        measurement.clone()
    }

    #[test]
    fn counts_are_per_io_by_space_and_directory() {
        let one = measured();
        assert_eq!(per_io(&one, CostKind::Instructions, None), Some(170.0));
        assert_eq!(per_io(&one, CostKind::Instructions, Some(Space::Kernel)), Some(70.0));
        assert_eq!(per_io(&one, CostKind::Loads, Some(Space::User)), Some(20.0));
        assert_eq!(per_io_of(&one, CostKind::Loads, |f| is_under(f, "block/")), Some(11.0));
        let none = per_io_of(&one, CostKind::Loads, |f| is_under(f, "mm/")).unwrap();
        assert!(none == 0.0 && none.is_sign_positive(), "no `-0` is written");
        let names: Vec<_> = one.costs.as_ref().unwrap().functions.iter().map(directory).collect();
        assert_eq!(
            names,
            [None, Some("block/"), Some("drivers/nvme/host/"), Some(UNKNOWN), Some("block/partitions/")]
        );
    }

    #[test]
    fn what_was_not_counted_is_absent() {
        let mut one = measured();
        assert_eq!(per_io(&one, CostKind::CpuTime, None), None, "the profile has no time");
        let costs = Costs::of(&[&one]).unwrap();
        assert_eq!((costs.sampled, costs.kernel.stores, costs.user.stores), (false, Some(6.0), Some(10.0)));
        one.evidence.reads = 0;
        assert_eq!((per_io(&one, CostKind::Loads, None), Costs::of(&[&one])), (None, None));
        one.evidence.reads = 10;
        let profile = one.costs.as_mut().unwrap();
        (profile.source, profile.kinds) =
            (CostSource::Sampled(vec!["instructions".to_owned()]), vec![CostKind::Instructions]);
        let costs = Costs::of(&[&one]).unwrap();
        assert_eq!((costs.sampled, costs.kernel.instructions, costs.kernel.loads), (true, Some(70.0), None));
    }
}
