//! The cases that the options ask for: every path under every workload.

use crate::args::PredictArgs;
use anyhow::anyhow;
use iopj_core::workload::Rw;
use iopj_core::{IoPath, parse_bytes};
use iopj_model::{Case, Model};
use std::collections::BTreeSet;

/// The workloads in their order, each with its cases. What no option names is as the model was calibrated;
/// `words` are a trace's own direction and order, share of reads in per cent, and size.
pub(super) fn cases(
    args: &PredictArgs,
    model: &Model,
    words: Option<(Rw, u8, u32)>,
) -> anyhow::Result<Vec<(String, Vec<Case>)>> {
    let paths = match args.path.is_empty() {
        true => model.paths(),
        false => named(&args.path)?,
    };
    let rws = args.rw.iter().map(|rw| rw.parse::<Rw>().map_err(|error| anyhow!("--rw: {error}")));
    let mut rws = or_own(rws.collect::<anyhow::Result<Vec<_>>>()?, model, |case| case.rw);
    let sizes = args.bs.iter().map(|text| size(text)).collect::<anyhow::Result<Vec<_>>>()?;
    let mut sizes = or_own(sizes, model, |case| case.bs);
    let depths = or_own(args.iodepth.clone(), model, |case| case.iodepth);
    let jobs = or_own(args.numjobs.clone(), model, |case| case.numjobs);
    let cores = args.cores.or_else(|| model.cases.iter().map(|case| case.cores).max()).unwrap_or(1);
    let mut mix = args.rwmixread.unwrap_or_else(|| model.cases.first().map_or(50, |case| case.rwmixread));
    if let Some((rw, reads, bs)) = words {
        (rws, mix, sizes) = (vec![rw], reads, vec![bs]);
    }
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
    Ok(all)
}

fn named(patterns: &[String]) -> anyhow::Result<BTreeSet<IoPath>> {
    let mut all = BTreeSet::new();
    for pattern in patterns {
        let paths = iopj_study::matching(pattern).map_err(|error| anyhow!("--path: {error}"))?;
        if let Some(path) = paths.iter().find(|path| path.auto().is_some()) {
            return Err(anyhow!(
                "--path: {path} takes other paths: name those, to see what it chooses among"
            ));
        }
        all.extend(paths);
    }
    Ok(all)
}

fn size(text: &str) -> anyhow::Result<u32> {
    let bytes = parse_bytes(text).map_err(|error| anyhow!("--bs: {error}"))?;
    let whole = u32::try_from(bytes).ok().filter(|bytes| *bytes > 0);
    whole.ok_or_else(|| anyhow!("--bs: no I/O has {text}: give a size such as 4k"))
}

fn or_own<T: Ord>(given: Vec<T>, model: &Model, of: impl Fn(&Case) -> T) -> Vec<T> {
    if !given.is_empty() {
        return given;
    }
    model.cases.iter().map(of).collect::<BTreeSet<T>>().into_iter().collect()
}
