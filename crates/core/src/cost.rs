//! What the I/O of a trial cost by kernel function: instructions, loads and stores, or samples of them.
//!
//! Only types: `iopj-lab` counts exactly under emulation, `iopj-probe` samples on real machines, `iopj-store`
//! keeps both, and `iopj-report` explains them.

use serde::{Deserialize, Serialize};
use std::ops::{Add, AddAssign};

/// How the counts of a [`CostProfile`] were obtained.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostSource {
    /// Every instruction, load and store was counted by the emulator that executed it.
    Exact,
    /// Samples taken by `perf_event_open` on every core; a count is samples by period. The events by name,
    /// such as `instructions` or `cpu-clock`.
    Sampled(Vec<String>),
}

/// One column of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostKind {
    /// Executions of a function's first instruction.
    Calls,
    /// Instructions executed; each iteration of a repeated string instruction counts as one.
    Instructions,
    /// Loads from memory.
    Loads,
    /// Stores to memory.
    Stores,
    /// Time on a core in ns.
    CpuTime,
}

impl CostKind {
    /// The column's name.
    pub fn as_str(self) -> &'static str {
        match self {
            CostKind::Calls => "calls",
            CostKind::Instructions => "instructions",
            CostKind::Loads => "loads",
            CostKind::Stores => "stores",
            CostKind::CpuTime => "cpu_ns",
        }
    }
}

/// Counts over the window of a trial, over all cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// Executions of a function's first instruction.
    pub calls: u64,
    /// Instructions executed.
    pub instructions: u64,
    /// Loads from memory.
    pub loads: u64,
    /// Stores to memory.
    pub stores: u64,
    /// Time on a core in ns.
    pub cpu_ns: u64,
}

impl Cost {
    /// One of the counts.
    pub fn get(&self, kind: CostKind) -> u64 {
        match kind {
            CostKind::Calls => self.calls,
            CostKind::Instructions => self.instructions,
            CostKind::Loads => self.loads,
            CostKind::Stores => self.stores,
            CostKind::CpuTime => self.cpu_ns,
        }
    }
}

impl Add for Cost {
    type Output = Cost;
    fn add(self, other: Cost) -> Cost {
        Cost {
            calls: self.calls + other.calls,
            instructions: self.instructions + other.instructions,
            loads: self.loads + other.loads,
            stores: self.stores + other.stores,
            cpu_ns: self.cpu_ns + other.cpu_ns,
        }
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Cost) {
        *self = *self + other;
    }
}

impl std::iter::Sum for Cost {
    fn sum<I: Iterator<Item = Cost>>(costs: I) -> Cost {
        costs.fold(Cost::default(), Add::add)
    }
}

/// Who executed the instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Space {
    /// The kernel and its modules.
    Kernel,
    /// Programs; one entry for all of them.
    User,
}

/// The cost of one function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionCost {
    /// Who executed it.
    pub space: Space,
    /// The kernel's symbol; empty for user space, and for addresses that no symbol covers.
    pub function: String,
    /// The kernel module that holds it; absent for code built into the kernel.
    pub module: Option<String>,
    /// Source directory with a slash at its end, such as `block/` or `drivers/nvme/host/`; absent where
    /// unknown.
    pub directory: Option<String>,
    /// Its counts, without those of the functions that it calls.
    pub cost: Cost,
}

/// What a trial cost over its window, by function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostProfile {
    /// How the counts were obtained.
    pub source: CostSource,
    /// The columns that were counted; the others are zero and mean nothing.
    pub kinds: Vec<CostKind>,
    /// Functions in descending order of instructions, then of time, then by name.
    pub functions: Vec<FunctionCost>,
}

impl CostProfile {
    /// A profile with its functions in order, without those that have no counts.
    pub fn new(source: CostSource, kinds: Vec<CostKind>, mut functions: Vec<FunctionCost>) -> CostProfile {
        functions.retain(|function| function.cost != Cost::default());
        functions.sort_by(|a, b| {
            (b.cost.instructions, b.cost.cpu_ns)
                .cmp(&(a.cost.instructions, a.cost.cpu_ns))
                .then_with(|| (&a.function, &a.module).cmp(&(&b.function, &b.module)))
        });
        CostProfile { source, kinds, functions }
    }

    /// The sum over a space.
    pub fn total(&self, space: Space) -> Cost {
        self.functions.iter().filter(|function| function.space == space).map(|function| function.cost).sum()
    }

    /// True if the column was counted.
    pub fn has(&self, kind: CostKind) -> bool {
        self.kinds.contains(&kind)
    }
}
