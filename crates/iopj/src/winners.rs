//! `iopj winners`: a map of the best path over two axes of the workload.

use crate::args::WinnersArgs;
use crate::output::print;
use anyhow::anyhow;
use iopj_report::analysis::Admission;
use iopj_report::analysis::contrast::in_blocks;
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
    let question = Question::new(metric, axis(x)?, axis(y)?).map_err(|error| anyhow!("--axes: {error}"))?;
    let test = match args.test.as_deref() {
        None => None,
        Some("student") => Some(Method::Student),
        Some("welch") => Some(Method::Welch),
        Some("blocks") => Some(Method::Paired),
        Some(other) => return Err(anyhow!("--test: there is no test `{other}`: there are blocks, welch and student")),
    };
    let store = Store::open(&args.store)?;
    let study = store.study()?;
    if test == Some(Method::Paired) && !in_blocks(&study) {
        return Err(anyhow!("--test blocks: imported trials were run in no blocks; name welch or student"));
    }
    let mut question = question.of(&study);
    question.method = test.unwrap_or(question.method);
    question.admission = Admission { with_unproven: args.with_unproven };
    question.admits(&study).map_err(|why| anyhow!("{}: {why}", args.store.display()))?;
    print(&iopj_report::render::winners(&study, &store.trials()?, &question))?;
    Ok(ExitCode::SUCCESS)
}
