//! `iopj advise`: which path to take at a load, and what to type for it; the study that would decide what is
//! open.

mod next;

use crate::args::{AdviseArgs, Asking, Competing};
use crate::opened::open;
use crate::output::{FAILURES, note, print, print_json};
use anyhow::anyhow;
use iopj_analysis::advise::next::next_study;
use iopj_analysis::advise::{AdviseError, AdviseQuestion, advise as advise_on};
use iopj_analysis::asked::{AdviseWords, Wrong};
use iopj_record::StudyRecord;
use std::process::ExitCode;

pub(crate) fn advise(args: &AdviseArgs) -> anyhow::Result<ExitCode> {
    let store = open(&args.store)?;
    let (study, trials) = (store.study()?, store.trials()?);
    let question = question(&args.asking, &args.competing, &study)?;
    let advice = advise_on(&study, &trials, &question);
    let is_program = matches!(advice, Err(AdviseError::Program(_)));
    // Before anything is printed, because the file may be refused.
    let next = args.write_study.as_ref().filter(|_| !is_program).map(|file| {
        let next = next_study(&study, &trials, &question);
        let next = next.ok_or_else(|| anyhow!("--write-study: the store has no trial to start from"))?;
        next::write(&study, &next, file).map(|()| (next, file))
    });
    let next = next.transpose()?;
    let written = |file: &std::path::Path, why: &str| note(&format!("{} is written. {why}", file.display()));
    next.iter().for_each(|(next, file)| written(file, &next.why));
    let advice = advice.map_err(|why| anyhow!("{}: {why}", args.store.display()))?;
    if args.json {
        print_json(&iopj_report::json::advice(&advice, &question))?;
    } else {
        print(&iopj_report::advice(&advice, &question))?;
    }
    let mut answers = advice.groups.iter().flat_map(|group| &group.answers);
    let any = answers.any(|answer| answer.way().is_some());
    Ok(if any { ExitCode::SUCCESS } else { ExitCode::from(FAILURES) })
}

/// The question that the options ask.
pub(crate) fn question(
    asking: &Asking,
    competing: &Competing,
    study: &StudyRecord,
) -> Result<AdviseQuestion, Wrong> {
    let words = AdviseWords {
        objective: asking.objective.as_deref(),
        p99: asking.p99.as_deref(),
        p99_9: asking.p99_9.as_deref(),
        rate: asking.rate.as_deref(),
        price: asking.price,
    };
    words.question(study, competing.admission())
}
