//! Families of cells: each has a way of its own to be hard on the chooser, and thresholds of its own.

use super::bounds::Bounds;
use super::cell::{Outcome, Scene, Setting};
use super::policy::Misstated;
use super::recorded::Recorded;
use super::report::Report;
use super::trace::Trace;
use super::workload::RUN_IOS;
use crate::policy::Policy;
use serde::Serialize;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// What is evaluated.
#[derive(Clone, Debug)]
pub struct Question {
    /// The seed.
    pub seed: u64,
    /// Cells of each family.
    pub cells: u64,
    /// A drive that was recorded, for a family of its own.
    pub recorded: Option<Recorded>,
    /// A program that was recorded, for a family of its own.
    pub trace: Option<Trace>,
}

/// Cells that have something in common.
#[derive(Clone, Debug, Serialize)]
pub struct Family {
    /// What they have in common, in words.
    pub what: String,
    /// What came of them; of bounded ones, of those in which a static way keeps the bound.
    pub report: Report,
    /// How bounds were kept, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bounds: Option<Bounds>,
}

/// What came of all families.
#[derive(Clone, Debug, Serialize)]
pub struct Evaluation {
    /// Figures that are each wrong by themselves.
    #[serde(flatten)]
    pub report: Report,
    /// The others.
    pub families: Vec<Family>,
}

impl Evaluation {
    /// True if every threshold of every family holds.
    pub fn holds(&self) -> bool {
        self.report.holds() && self.families.iter().all(|family| family.report.holds())
    }
}

/// Evaluates the chooser over all families.
pub fn evaluate_all(question: &Question) -> Evaluation {
    let Question { seed, cells, recorded, trace } = question;
    let plain = Setting { is_alone: true, ..Setting::default() };
    let family = |what: String, setting: Setting<'_>| Family::of(what, *seed, *cells, setting);
    let mut families = vec![
        family(
            "the same machines and programs; each part of a cost is wrong, and figures follow".to_owned(),
            Setting { misstated: Misstated::Parts, ..plain },
        ),
        family(
            "the same; all figures of a way are wrong by the same factor".to_owned(),
            Setting { misstated: Misstated::Ways, ..plain },
        ),
        family(
            "the same, with a meter that is read while it runs".to_owned(),
            Setting { misstated: Misstated::Ways, is_metered: true, ..plain },
        ),
        family(
            "the same, with bounds of latency around what the ways reach; figures wrong by themselves"
                .to_owned(),
            Setting { is_bounded: true, ..plain },
        ),
    ];
    if let Some(recorded) = recorded.clone().map(Arc::new) {
        let what = format!("a drive that was recorded: {}, {} latencies", recorded.drive, recorded.count);
        families.push(family(what, Setting { recorded: Some(&recorded), ..plain }));
    }
    if let Some(trace) = trace {
        let what = format!("a program that was recorded: {}, {} I/Os", trace.name, trace.ios);
        families.push(family(what, Setting { trace: Some(trace), ..plain }));
    }
    Evaluation { report: base(*seed, *cells, |_| {}), families }
}

/// Figures that are each wrong by themselves, in policies that are adjusted.
pub(super) fn base(seed: u64, cells: u64, adjust: impl Fn(&mut Policy) + Sync) -> Report {
    Report::of(seed, RUN_IOS, outcomes(seed, cells, Setting::default(), adjust))
}

impl Family {
    fn of(what: String, seed: u64, cells: u64, setting: Setting<'_>) -> Family {
        let outcomes = outcomes(seed, cells, setting, |_| {});
        if !setting.is_bounded {
            let mut report = Report::of(seed, RUN_IOS, outcomes);
            if setting.misstated == Misstated::Ways {
                report.judge_measured();
            }
            return Family { what, report, bounds: None };
        }
        let (compared, others): (Vec<Outcome>, Vec<Outcome>) =
            outcomes.into_iter().partition(|one| !one.fixed.is_empty());
        let bounds = Bounds::of(&compared, others);
        let mut report = Report::of(seed, RUN_IOS, compared);
        // Keeping it comes before what is spent, so there is no threshold for that.
        report.verdicts = vec![bounds.judge()];
        Family { what, report, bounds: Some(bounds) }
    }
}

/// The outcomes of all cells in their order, on all processors.
pub(super) fn outcomes(
    seed: u64,
    cells: u64,
    setting: Setting<'_>,
    adjust: impl Fn(&mut Policy) + Sync,
) -> Vec<Outcome> {
    let next = AtomicU64::new(0);
    let work = || {
        let numbers = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        let outcome = |number| {
            let mut scene = Scene::draw(seed, number, setting);
            adjust(&mut scene.policy);
            scene.outcome()
        };
        numbers.take_while(|number| *number < cells).map(outcome).collect::<Vec<Outcome>>()
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let mut outcomes: Vec<Outcome> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended.flat_map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    outcomes.sort_unstable_by_key(|one| one.number);
    outcomes
}
