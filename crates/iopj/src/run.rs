//! `iopj run`: a study, with the values that the command line overrides.

use crate::args::RunArgs;
use crate::output::{FAILURES, INTERRUPTED, print, print_json};
use crate::progress::View;
use crate::signals;
use anyhow::anyhow;
use iopj_load::descriptors;
use iopj_meter::read_whole_text;
use iopj_report::analysis::{Admission, sequential};
use iopj_run::blocks::Look;
use iopj_run::read_study;
use iopj_run::{Options, RunError, Summary};
use iopj_store::{Store, StudyRecord, Trial, export};
use iopj_study::{Axis, Replicates, Study};
use std::path::Path;
use std::process::ExitCode;

/// The longest study, in bytes.
const LONGEST_STUDY: u64 = 1 << 20;
const QUICK: &str = include_str!("../../../studies/quick.toml");

pub(crate) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    descriptors::raise_limit();
    let options = Options {
        target: args.target.clone(),
        destroy_data: args.destroy_data.clone(),
        i_know: args.i_know,
        allow_exec: args.allow_exec,
        take_device: args.taking.take_device,
        i_know_no_iommu: args.taking.i_know_no_iommu,
        store: args.store.clone(),
    };
    let stop = signals::stop_flag();
    let mut view = View::new();
    let result = match &args.resume {
        Some(store) => iopj_run::resume(store, &options, look, &mut view, stop),
        None => iopj_run::run(study(args)?, &options, look, &mut view, stop),
    };
    view.finish();
    match result {
        Ok(summary) => conclude(&summary, args.json),
        Err(RunError::Interrupted) => {
            crate::output::fail(&RunError::Interrupted.into());
            Ok(ExitCode::from(INTERRUPTED))
        }
        Err(error) => Err(error.into()),
    }
}

/// The decisions of a study that adds blocks until they are made.
fn look(study: &StudyRecord, trials: &[Trial]) -> Look {
    let (open, says) = sequential::look(study, trials);
    Look { open, says }
}

/// The study to run: a file or the quick one, with values overridden by options.
fn study(args: &RunArgs) -> anyhow::Result<Study> {
    let mut study = match &args.study {
        Some(path) => read_study(&study_text(path)?, &path.display().to_string())?,
        None => read_study(QUICK, "quick.toml")?,
    };
    if let Some(paths) = axis(&args.path) {
        study.workloads.iter_mut().for_each(|workload| workload.paths = None);
        study.paths = paths;
    }
    if let Some(generator) = axis(&args.generator) {
        study.generator = generator;
    }
    study.profile |= args.profile;
    study.replicates = args.replicates.map_or(study.replicates, Replicates::Blocks);
    for workload in &mut study.workloads {
        replace(&mut workload.rw, axis(&args.rw));
        replace(&mut workload.bs, axis(&args.bs));
        replace(&mut workload.iodepth, axis(&args.iodepth));
        replace(&mut workload.numjobs, axis(&args.numjobs));
        replace(&mut workload.ramp_time, args.ramp_time.clone());
        if args.runtime.is_some() || args.ios.is_some() {
            (workload.runtime, workload.ios) = (args.runtime.clone(), args.ios);
        }
    }
    Ok(study)
}

/// The text of a study file.
pub(crate) fn study_text(file: &Path) -> anyhow::Result<String> {
    let unread = |error| anyhow!("`{}` cannot be read ({error}): name a study file", file.display());
    read_whole_text(file, LONGEST_STUDY).map_err(unread)
}

fn axis<T: Clone>(values: &[T]) -> Option<Axis<T>> {
    (!values.is_empty()).then(|| Axis::Many(values.to_vec()))
}

fn replace<T>(place: &mut Option<T>, value: Option<T>) {
    if value.is_some() {
        *place = value;
    }
}

fn conclude(summary: &Summary, json: bool) -> anyhow::Result<ExitCode> {
    let store = Store::open(&summary.store)?;
    let (study, trials) = (store.study()?, store.trials()?);
    if json {
        print_json(&export::json(&study, &store.all_trials()?, &store.events()?, export::Detail::Figures))?;
    } else {
        print(&iopj_report::render::report(&study, &trials, Admission::default().of(&study)))?;
        print(&format!("store: {}\n", summary.store.display()))?;
    }
    if summary.interrupted {
        let missing = summary.missing;
        let message = format!(
            "interrupted with {missing} trials missing: `iopj run --resume {}`",
            summary.store.display()
        );
        crate::output::fail(&anyhow::anyhow!(message));
        return Ok(ExitCode::from(INTERRUPTED));
    }
    Ok(if summary.failed > 0 { ExitCode::from(FAILURES) } else { ExitCode::SUCCESS })
}
