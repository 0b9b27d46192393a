//! `iopj winners`: a map of the best path over two axes of the workload.

use crate::args::WinnersArgs;
use crate::opened::open;
use crate::output::{print, print_json};
use anyhow::anyhow;
use iopj_analysis::asked::{WinnerWords, metric};
use std::process::ExitCode;

pub(crate) fn winners(args: &WinnersArgs) -> anyhow::Result<ExitCode> {
    let [x, y] = &args.axes[..] else {
        return Err(anyhow!("--axes takes two names, such as iodepth,numjobs"));
    };
    let words = WinnerWords::of([x, y], args.test.as_deref())?;
    let store = open(&args.store)?;
    let study = store.study()?;
    let mut question = words.question(&study, args.competing.admission())?;
    let trials = store.trials()?;
    question.metric = metric(args.metric.as_deref(), &study, &trials, question.admission)?;
    question.admits(&study).map_err(|why| anyhow!("{}: {why}", args.store.display()))?;
    if args.json {
        print_json(&iopj_report::json::winners(&study, &trials, &question))?;
        return Ok(ExitCode::SUCCESS);
    }
    if let (Some(emulator), None) = (&study.emulated, &args.metric) {
        print(&format!(
            "times mean nothing under {emulator}, so this compares {}; --metric names another count\n\n",
            question.metric
        ))?;
    }
    print(&iopj_report::winners(&study, &trials, &question))?;
    Ok(ExitCode::SUCCESS)
}
