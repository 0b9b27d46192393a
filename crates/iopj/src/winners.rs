//! `iopj winners`: a map of the best path over two axes of the workload.

use crate::args::WinnersArgs;
use crate::output::print;
use anyhow::anyhow;
use iopj_report::analysis::stats::Method;
use iopj_report::analysis::winner::{Axis, Question};
use iopj_store::Store;
use std::process::ExitCode;

pub(crate) fn winners(args: &WinnersArgs) -> anyhow::Result<ExitCode> {
    let [x, y] = &args.axes[..] else {
        return Err(anyhow!("--axes takes two names, such as iodepth,numjobs"));
    };
    let axis = |name: &String| name.parse::<Axis>().map_err(|error| anyhow!("--axes: {error}"));
    let metric = args.metric.parse().map_err(|error| anyhow!("--metric: {error}"))?;
    let mut question = Question::new(metric, axis(x)?, axis(y)?).map_err(|error| anyhow!("--axes: {error}"))?;
    question.method = match args.test.as_str() {
        "student" => Method::Student,
        "welch" => Method::Welch,
        "blocks" => Method::Paired,
        other => return Err(anyhow!("--test: there is no test `{other}`: there are student, welch and blocks")),
    };
    question.holm = args.holm;
    let store = Store::open(&args.store)?;
    let study = store.study()?;
    question.looks = study.looks();
    question.admits(&study).map_err(|why| anyhow!("{}: {why}", args.store.display()))?;
    print(&iopj_report::render::winners(&study, &store.trials()?, &question))?;
    Ok(ExitCode::SUCCESS)
}
