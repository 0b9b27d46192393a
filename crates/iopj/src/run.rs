//! `iopj run`: a study, with the values that the command line overrides.

use crate::again::{self, Chosen};
use crate::args::RunArgs;
use crate::dry_run;
use crate::output::{FAILURES, INTERRUPTED, print, print_json};
use crate::progress::View;
use crate::signals;
use crate::study;
use iopj_load::descriptors;
use iopj_report::analysis::{Admission, sequential};
use iopj_run::blocks::Look;
use iopj_run::{Options, Progress, RunError, Summary};
use iopj_store::{Store, StudyRecord, Trial, export};
use std::process::ExitCode;

pub(crate) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    descriptors::raise_limit();
    let mut view = View::new();
    let again = match &args.resume {
        Some(store) if !args.again.is_empty() => {
            let Chosen { blocks, says } = again::choose(store, &args.again)?;
            view.note(&says);
            blocks
        }
        _ => Vec::new(),
    };
    let options = Options {
        target: args.target.clone(),
        destroy_data: args.destroy_data.clone(),
        i_know: args.i_know,
        allow_exec: args.allow_exec,
        take_device: args.taking.take_device,
        i_know_no_iommu: args.taking.i_know_no_iommu,
        store: args.store.clone(),
        again,
        push: args.push,
        anyway: args.anyway,
        wait: args.wait,
    };
    let stop = signals::stop_flag();
    let result = match &args.resume {
        Some(store) => iopj_run::resume(store, &options, look, &mut view, stop),
        None => {
            let (study, notes) = study::of(args)?;
            notes.iter().for_each(|note| view.note(note));
            if args.dry_run {
                let plan = iopj_run::dry_run(study, &options, &mut view, stop);
                view.finish();
                return plan.map_or_else(refused, |plan| dry_run::show(&plan, args.json));
            }
            iopj_run::run(study, &options, look, &mut view, stop)
        }
    };
    view.finish();
    match result {
        Ok(summary) => conclude(&summary, args.json),
        Err(error) => refused(error),
    }
}

/// How a run ends that did not begin.
fn refused(error: RunError) -> anyhow::Result<ExitCode> {
    if matches!(error, RunError::Interrupted) {
        crate::output::fail(&error.into());
        return Ok(ExitCode::from(INTERRUPTED));
    }
    Err(error.into())
}

/// The decisions of a study that adds blocks until they are made.
pub(crate) fn look(study: &StudyRecord, trials: &[Trial]) -> Look {
    let (open, says) = sequential::look(study, trials);
    Look { open, says }
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
