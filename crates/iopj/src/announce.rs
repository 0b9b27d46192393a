//! What a run says first: what it will do, how long that takes, what it makes and what it keeps.

use iopj_core::{IoPath, format_bytes};
use iopj_report::render::escape;
use iopj_run::blocks::clock;
use iopj_run::{Options, Progress, RunPlan, dry_run};
use iopj_store::{Outcome, Unavailable};
use iopj_study::plan::Cell;
use iopj_study::{Meters, MetersAsked, Study};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The announcement of a run; `None` where nothing can be said before it begins, or where it is refused,
/// which the run itself says. Meters that the study names are not opened for it.
pub(crate) fn announcement(study: &Study, options: &Options, stop: &AtomicBool) -> Option<String> {
    let asked =
        study.meters.as_ref().map(|meters| meters.asked("the study", Meters::TABLE)).transpose().ok()?;
    let names_meters = matches!(asked, Some(MetersAsked::Tables(_)));
    let mut study = study.clone();
    if names_meters {
        study.meters = Some(Meters::Switch(false));
    }
    let plan = dry_run(study, options, &mut Silent, stop).ok()?;
    (!plan.cells.is_empty()).then(|| in_words(&plan, names_meters))
}

fn in_words(plan: &RunPlan, names_meters: bool) -> String {
    let paths: BTreeSet<IoPath> = plan.cells.iter().map(|cell| cell.path).collect();
    let [least, most] = plan.replicates.map(|blocks| u64::from(blocks) * plan.cells.len() as u64);
    let [short, long] = plan.times.map(|time| clock(time.all()));
    let (trials, time) = match least == most {
        true => (counted(least, "trial"), short),
        false => (format!("{least} to {most} trials"), format!("{short} to {long}")),
    };
    let rests = if names_meters { " beside the rests for its meters" } else { "" };
    let (target, store) = (plan.target.display(), plan.store.display());
    let on = match plan.bytes.made {
        _ if plan.target.as_os_str().is_empty() => String::new(),
        0 => format!(" on {target}"),
        made => {
            let size = format_bytes(made);
            format!(" on {target}, a file of {size} that is made now and removed at the end")
        }
    };
    let paths = counted(paths.len() as u64, "path");
    escape(&format!("{trials} of {paths}{on}: about {time}{rests}; {store} keeps the results"))
}

/// `1 trial`, `2 trials`.
fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// What the run itself says is not said twice.
struct Silent;

impl Progress for Silent {
    fn note(&mut self, _: &str) {}
    fn unavailable(&mut self, _: &[Unavailable]) {}
    fn file(&mut self, _: &Path, _: u64, _: u64) {}
    fn trial(&mut self, _: u64, _: u64, _: &Cell, _: Option<Duration>) {}
    fn ended(&mut self, _: &Outcome) {}
    fn tick(&mut self) {}
}
