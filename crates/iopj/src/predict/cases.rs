//! The cases that the options ask for.

use crate::args::PredictArgs;
use anyhow::anyhow;
use iopj_core::workload::Rw;
use iopj_core::{IoPath, parse_bytes};
use iopj_model::answers::Wanted;
use std::collections::BTreeSet;

/// What the options name.
pub(super) fn wanted(args: &PredictArgs) -> anyhow::Result<Wanted> {
    let rws = args.rw.iter().map(|rw| rw.parse::<Rw>().map_err(|error| anyhow!("--rw: {error}")));
    Ok(Wanted {
        paths: named(&args.path)?,
        rws: rws.collect::<anyhow::Result<_>>()?,
        rwmixread: args.rwmixread,
        sizes: args.bs.iter().map(|text| size(text)).collect::<anyhow::Result<_>>()?,
        depths: args.iodepth.clone(),
        jobs: args.numjobs.clone(),
        cores: args.cores,
    })
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
