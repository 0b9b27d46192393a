//! The cases of a question: every path under every workload.

use crate::case::Case;
use crate::model::Model;
use iopj_core::IoPath;
use iopj_core::workload::Rw;
use std::collections::BTreeSet;

/// What a question names; the rest is as the model was calibrated.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Paths.
    pub paths: BTreeSet<IoPath>,
    /// Directions and orders.
    pub rws: Vec<Rw>,
    /// Share of reads in a mixed workload, in per cent.
    pub rwmixread: Option<u8>,
    /// Sizes of an I/O in bytes.
    pub sizes: Vec<u32>,
    /// I/Os that each job keeps in flight.
    pub depths: Vec<u32>,
    /// Threads that do I/O.
    pub jobs: Vec<u32>,
    /// Processors that they may use.
    pub cores: Option<u32>,
}

impl Wanted {
    /// The workloads in their order, each with its cases.
    pub fn cases(&self, model: &Model) -> Vec<(String, Vec<Case>)> {
        let paths = if self.paths.is_empty() { model.paths() } else { self.paths.clone() };
        let rws = or_own(&self.rws, model, |case| case.rw);
        let sizes = or_own(&self.sizes, model, |case| case.bs);
        let depths = or_own(&self.depths, model, |case| case.iodepth);
        let jobs = or_own(&self.jobs, model, |case| case.numjobs);
        let cores = self.cores.or_else(|| model.cases.iter().map(|case| case.cores).max()).unwrap_or(1);
        let own = || model.cases.first().map_or(50, |case| case.rwmixread);
        let mix = self.rwmixread.unwrap_or_else(own);
        let mut all = Vec::new();
        for rw in rws {
            for bs in &sizes {
                for iodepth in &depths {
                    for numjobs in &jobs {
                        let of = |path: &IoPath| Case {
                            path: *path,
                            rw,
                            rwmixread: mix,
                            bs: *bs,
                            iodepth: *iodepth,
                            numjobs: *numjobs,
                            batch: 1,
                            cores,
                        };
                        let cases: Vec<Case> = paths.iter().map(of).collect();
                        let title = cases.first().map(Case::workload).unwrap_or_default();
                        all.push((title, cases));
                    }
                }
            }
        }
        all
    }
}

fn or_own<T: Ord + Clone>(given: &[T], model: &Model, of: impl Fn(&Case) -> T) -> Vec<T> {
    if !given.is_empty() {
        return given.to_vec();
    }
    model.cases.iter().map(of).collect::<BTreeSet<T>>().into_iter().collect()
}
