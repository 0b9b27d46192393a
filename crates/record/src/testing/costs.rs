//! Costs by function, and measurements that have them.

use crate::Measurement;
use iopj_core::{Cost, CostKind, CostProfile, CostSource, FunctionCost, Space};

/// The cost of a function of the kernel in a directory (none for an empty one).
pub fn function(name: &str, directory: &str, [instructions, loads, stores]: [u64; 3]) -> FunctionCost {
    FunctionCost {
        space: Space::Kernel,
        function: name.to_owned(),
        module: None,
        directory: (!directory.is_empty()).then(|| directory.to_owned()),
        cost: Cost { instructions, loads, stores, ..Cost::default() },
    }
}

/// The cost of all programs.
pub fn user(counts: [u64; 3]) -> FunctionCost {
    FunctionCost { space: Space::User, ..function("", "", counts) }
}

/// Gives a measurement this many reads and an exact profile of these functions.
pub fn set_exact(measurement: &mut Measurement, reads: u64, functions: Vec<FunctionCost>) {
    measurement.evidence.reads = reads;
    let kinds = vec![CostKind::Instructions, CostKind::Loads, CostKind::Stores];
    measurement.costs = Some(CostProfile::new(CostSource::Exact, kinds, functions));
}

/// The same with calls.
pub fn set_counted(measurement: &mut Measurement, reads: u64, functions: Vec<FunctionCost>) {
    set_exact(measurement, reads, functions);
    let costs = measurement.costs.as_mut().unwrap();
    costs.kinds.insert(0, CostKind::Calls);
}
