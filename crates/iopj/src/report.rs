//! `iopj report`: the results of a store as text, as an HTML page, or for other programs.

use crate::advise::question;
use crate::args::ReportArgs;
use crate::opened::open;
use crate::output::{Form, print, print_written, write, write_figures};
use anyhow::{anyhow, bail};
use iopj_analysis::advise::advise;
use iopj_analysis::power::{PowerTrace, windows};
use iopj_analysis::{Admission, workload_tables};
use iopj_metering::energy::{ChannelPower, traces};
use iopj_record::export::Detail;
use iopj_record::{StudyRecord, Trial};
use iopj_store::{Checked, Store, StoreError};
use std::process::ExitCode;

pub(crate) fn report(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let store = open(&args.store)?;
    if args.check {
        return check(&store);
    }
    if let Some(watch) = store.watch()? {
        return crate::watch::report(args, &watch);
    }
    if args.json && args.asking.given().is_none() {
        print_written(Form::Json, |out| store.write_json(Detail::Figures, out))?;
        return Ok(ExitCode::SUCCESS);
    }
    let (study, trials) = (store.study()?, store.trials()?);
    let admission = args.competing.admission().of(&study);
    let question = question(&args.asking, &args.competing, &study)?;
    if let Some(option) = args.asking.given() {
        if args.html.is_none() && args.figures.is_none() {
            bail!("{option} is for the page's advice: add --html FILE or --figures DIR, or use iopj advise");
        }
        advise(&study, &trials, &question).map_err(|why| anyhow!("{}: {why}", args.store.display()))?;
    }
    if args.latex {
        print(&iopj_report::latex(&workload_tables(&study, &trials, admission)))?;
    } else if args.csv {
        print(&iopj_report::csv(&workload_tables(&study, &trials, admission)))?;
    } else if args.papers {
        print(&iopj_report::paper_tables(&study, &trials, None, admission))?;
    } else if let Some(path) = &args.html {
        write(path, iopj_report::html::page(&study, &trials, &power(&store, &trials)?, question).as_bytes())?;
    } else if let Some(folder) = &args.figures {
        write_figures(
            folder,
            &iopj_report::html::figures(&study, &trials, &power(&store, &trials)?, question),
        )?;
    } else if !wrote_parquet(args, &study, &trials, admission)? {
        print(&iopj_report::report(&study, &trials, admission))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What is sound of a store; damage is an error.
fn check(store: &Store) -> anyhow::Result<ExitCode> {
    let Checked { sound, without } = store.check_all()?;
    let name = iopj_report::escape(&store.path().display().to_string());
    let old = match without {
        0 => String::new(),
        1 => "; 1 trial is of an iopj that wrote no checksums".to_owned(),
        many => format!("; {many} trials are of an iopj that wrote no checksums"),
    };
    print(&format!("{name} is as it was written: {sound} checksums are right{old}\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// What each channel of a meter read over time, with the trials that ran in that time, by session.
fn power(store: &Store, trials: &[Trial]) -> Result<Vec<PowerTrace>, StoreError> {
    let sessions = traces(store, trials)?;
    let has_several = sessions.len() > 1;
    let of_sessions = sessions.into_iter().flat_map(|session| {
        let windows = windows(trials.iter().filter(|trial| session.positions.contains(&trial.position)));
        let number = if has_several { format!(", session {}", session.session) } else { String::new() };
        let trace = move |ChannelPower { name, scope, readings }: ChannelPower| PowerTrace {
            channel: name + &number,
            scope,
            readings,
            windows: windows.clone(),
        };
        session.channels.into_iter().map(trace)
    });
    Ok(of_sessions.collect())
}

#[cfg(feature = "parquet")]
fn wrote_parquet(
    args: &ReportArgs,
    study: &StudyRecord,
    trials: &[Trial],
    admission: Admission,
) -> anyhow::Result<bool> {
    let Some(path) = &args.parquet else { return Ok(false) };
    let mut bytes = Vec::new();
    iopj_report::parquet(&workload_tables(study, trials, admission), &mut bytes)?;
    write(path, &bytes)?;
    Ok(true)
}

#[cfg(not(feature = "parquet"))]
fn wrote_parquet(args: &ReportArgs, _: &StudyRecord, _: &[Trial], _: Admission) -> anyhow::Result<bool> {
    if args.parquet.is_some() { Err(crate::output::without_parquet("--parquet")) } else { Ok(false) }
}
