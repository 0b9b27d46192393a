//! `iopj run`: a study, with the values that the command line overrides.

use crate::again::{self, Chosen};
use crate::args::RunArgs;
use crate::dry_run;
use crate::log::{self, Level};
use crate::output::{FAILURES, Form, INTERRUPTED, print, print_written};
use crate::progress::{Followed, view};
use crate::signals;
use crate::study;
use iopj_analysis::{Admission, sequential};
use iopj_engine::target::is_file_made_as;
use iopj_load::descriptors;
use iopj_metering::Progress;
use iopj_record::export::Detail;
use iopj_record::{StudyRecord, Trial};
use iopj_report::escape;
use iopj_run::blocks::Look;
use iopj_run::{Options, RunError, Summary};
use iopj_store::Store;
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    descriptors::raise_limit();
    let mut view = view();
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
        allow: args.allow.get(),
        take_device: args.taking.take_device,
        i_know_no_iommu: args.taking.i_know_no_iommu,
        store: args.store.clone(),
        metrics: args.publish.metrics.clone(),
        again,
        push: args.push,
        anyway: args.anyway,
        wait: args.wait,
        drives: None,
    };
    let stop = signals::stop_flag_that_says();
    let result = match &args.resume {
        Some(store) => {
            view.publish(&args.publish, &Store::open(store)?.study()?.name)?;
            iopj_run::resume(store, &options, look, &mut view, stop)
        }
        None => {
            let (study, notes) = study::of(args)?;
            notes.iter().for_each(|note| view.note(note));
            if args.dry_run {
                let plan = iopj_run::dry_run(study, &options, &mut view, stop);
                drop(view);
                return plan.map_or_else(refused, |plan| dry_run::show(&plan, args.json));
            }
            view.publish(&args.publish, &study.name)?;
            iopj_run::run(study, &options, look, &mut view, stop)
        }
    };
    match result {
        Ok(summary) => conclude(&summary, view, args),
        Err(error) => {
            view.finish(&[]);
            refused(error)
        }
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

/// What a run leaves, and where.
fn kept(study: &StudyRecord, trials: usize, summary: &Summary) -> String {
    // Programs look for this line.
    let store = escape(&summary.store.display().to_string());
    let mut text = format!("store: {store}\n");
    text += &format!("kept: {}; `iopj report {store}` shows this again\n", counted(trials));
    // Of a file on another host nothing is known here.
    if study.made_target && Path::new(&study.target).is_absolute() {
        let (file, path) = (escape(&study.target), Path::new(&study.target));
        let id = study.file_id.as_deref().and_then(|id| id.parse().ok());
        text += &match id.map(|id| is_file_made_as(id, path)) {
            Some(Ok(true)) => format!("kept: {file}, for `iopj run --resume {store}`\n"),
            _ if !path.exists() => format!("removed: {file}, which was measured\n"),
            _ => format!("left alone: {file}, which is not the file that was measured\n"),
        };
    }
    text
}

/// `no trial`, `1 trial`, `2 trials`.
fn counted(trials: usize) -> String {
    match trials {
        0 => "no trial".to_owned(),
        1 => "1 trial".to_owned(),
        _ => format!("{trials} trials"),
    }
}

fn conclude(summary: &Summary, view: Followed, args: &RunArgs) -> anyhow::Result<ExitCode> {
    let store = Store::open(&summary.store)?;
    let (study, trials) = (store.study()?, store.trials()?);
    view.finish(&trials);
    if log::is_json() {
        let Summary { store, failed, missing, interrupted } = summary;
        let fields = json!({
            "store": store, "failed": failed, "missing": missing, "interrupted": interrupted,
        });
        log::event(Level::Info, "done", fields);
    }
    if args.json {
        print_written(Form::Json, |out| store.write_json(Detail::Figures, out))?;
    } else {
        print(&iopj_report::report(&study, &trials, Admission::default().of(&study)))?;
        print(&kept(&study, trials.len(), summary))?;
    }
    if summary.interrupted {
        let missing = counted(summary.missing as usize);
        let message =
            format!("interrupted with {missing} missing: `iopj run --resume {}`", summary.store.display());
        crate::output::fail(&anyhow::anyhow!(message));
        return Ok(ExitCode::from(INTERRUPTED));
    }
    // Those of earlier calls, too: a study with failed trials is not done.
    let failed = trials.iter().filter(|trial| trial.outcome.measurement().is_none()).count();
    if args.resume.is_some() && failed > 0 {
        let store = escape(&summary.store.display().to_string());
        let again = format!("measure their blocks again by `iopj run --resume {store} --again failed`");
        crate::output::fail(&anyhow::anyhow!("of the store's trials, {} failed: {again}", counted(failed)));
    }
    Ok(if failed > 0 { ExitCode::from(FAILURES) } else { ExitCode::SUCCESS })
}
