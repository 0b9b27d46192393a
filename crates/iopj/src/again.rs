//! `iopj run --resume STORE --again KINDS`: the blocks of a store that hold a trial of these kinds.

use crate::args::Again;
use clap::ValueEnum;
use iopj_analysis::Admission;
use iopj_analysis::steady::is_unsteady;
use iopj_core::VerdictKind;
use iopj_record::{Outcome, StudyRecord, Trial};
use iopj_store::{Store, StoreError};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The replicates to measure again, and what to tell the user about them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub(crate) blocks: Vec<u32>,
    pub(crate) says: String,
}

/// The blocks of the store whose trials in force include one of these kinds.
pub(crate) fn choose(store: &Path, kinds: &[Again]) -> Result<Chosen, StoreError> {
    let store = Store::open(store)?;
    Ok(of_trials(&store.study()?, &store.trials()?, kinds))
}

fn of_trials(study: &StudyRecord, trials: &[Trial], kinds: &[Again]) -> Chosen {
    // A block whose repeat has begun is completed, not repeated once more.
    let is_begun = |trial: &Trial| study.repeats.iter().any(|repeat| repeat.replaces == trial.replicate);
    let trials: Vec<&Trial> = trials.iter().filter(|trial| !is_begun(trial)).collect();
    let admission = Admission::default().of(study);
    let kinds: Vec<Again> =
        Again::value_variants().iter().copied().filter(|kind| kinds.contains(kind)).collect();
    let (mut blocks, mut found) = (BTreeSet::new(), Vec::new());
    for kind in &kinds {
        let of_kind: Vec<u32> = trials
            .iter()
            .filter(|trial| is_of_kind(admission, trial, *kind))
            .map(|trial| trial.replicate)
            .collect();
        if !of_kind.is_empty() {
            found.push(format!("{} {}", of_kind.len(), word(*kind)));
        }
        blocks.extend(of_kind);
    }
    let count = trials.iter().filter(|trial| blocks.contains(&trial.replicate)).count();
    let says = match blocks.len() {
        0 => {
            let words: Vec<String> = kinds.iter().copied().map(word).collect();
            format!("no trial is {}, so no block is measured again", words.join(" or "))
        }
        1 => format!("measuring 1 block ({count} trials: {}) again", found.join(", ")),
        many => format!("measuring {many} blocks ({count} trials: {}) again", found.join(", ")),
    };
    let says = says + &lasting(admission, &trials, &kinds);
    Chosen { blocks: blocks.into_iter().collect(), says }
}

/// How many cells have one of these verdicts in every replicate, in words.
fn lasting(admission: Admission, trials: &[&Trial], kinds: &[Again]) -> String {
    let verdicts: Vec<Again> =
        kinds.iter().copied().filter(|kind| matches!(kind, Again::Unproven | Again::Refuted)).collect();
    let mut cells: BTreeMap<String, Vec<bool>> = BTreeMap::new();
    for trial in trials {
        let Trial { path, workload, settings, generator, .. } = trial;
        let cell = format!("{path} {workload:?} {settings:?} {generator:?}");
        let is_so = verdicts.iter().any(|kind| is_of_kind(admission, trial, *kind));
        cells.entry(cell).or_default().push(is_so);
    }
    let count = cells.values().filter(|cell| cell.len() > 1 && cell.iter().all(|is_so| *is_so)).count();
    if count == 0 {
        return String::new();
    }
    let words: Vec<String> = verdicts.into_iter().map(word).collect();
    let (are, of) = (if count == 1 { "is" } else { "are" }, cells.len());
    format!(
        "; {count} of {of} cells {are} {} in every replicate, so a repeat may not help: the report names the \
         reason",
        words.join(" or ")
    )
}

fn word(kind: Again) -> String {
    kind.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// A replicate that is merely far from the others of its cell is not unsteady here: to measure again what is
/// slow or fast is to choose the result.
fn is_of_kind(admission: Admission, trial: &Trial, kind: Again) -> bool {
    let Outcome::Measured(measurement) = &trial.outcome else { return kind == Again::Failed };
    match kind {
        Again::Unproven => measurement.verdict.kind == VerdictKind::Unproven,
        Again::Refuted => measurement.verdict.kind == VerdictKind::Refuted,
        Again::Disturbed => admission.is_disturbed(measurement),
        Again::Unsteady => is_unsteady(measurement),
        Again::Failed => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_core::{Disturbance, Verdict};
    use iopj_record::{Measurement, Repeat, Slice};

    fn trial(replicate: u32, change: impl FnOnce(&mut Measurement)) -> Trial {
        let verdict = Verdict { kind: VerdictKind::Verified, reasons: Vec::new() };
        let mut measurement = Measurement { verdict, ..Measurement::default() };
        change(&mut measurement);
        let path = "libaio/syscall/interrupt".parse().unwrap();
        Trial { replicate, ..Trial::new(path, Default::default(), measurement.into()) }
    }

    fn judged(kind: VerdictKind) -> impl FnOnce(&mut Measurement) {
        move |measurement| measurement.verdict.kind = kind
    }

    /// Its rate halves over the window.
    fn falling(measurement: &mut Measurement) {
        let slice = |at: u64| Slice { end_ns: (at + 1) * 100_000_000, ios: 2000 - 100 * at };
        measurement.series = (0..10).map(slice).collect();
    }

    #[test]
    fn blocks_are_chosen_by_the_kinds_of_their_trials() {
        let others = Disturbance::Others { cores: 0.9, allowed: 0.05 };
        let failed = |trial: Trial| Trial { outcome: Outcome::Failed("EIO".into()), ..trial };
        let trials = [
            trial(0, |_| {}),
            trial(0, judged(VerdictKind::Unproven)),
            trial(1, falling),
            trial(1, |_| {}),
            trial(2, |measurement| measurement.conditions.disturbances = vec![others]),
            trial(2, judged(VerdictKind::Refuted)),
            failed(trial(3, |_| {})),
            trial(3, |_| {}),
        ];
        let chosen = |study: &StudyRecord, kinds: &[Again]| of_trials(study, &trials, kinds).blocks;
        let study = StudyRecord::default();
        let all = Again::value_variants();
        assert_eq!(
            all.iter().map(|kind| chosen(&study, &[*kind])).collect::<Vec<_>>(),
            [[0], [1], [2], [3], [2]]
        );
        let two = of_trials(&study, &trials, &[Again::Unsteady, Again::Unproven]);
        assert_eq!(two.blocks, [0, 1]);
        assert_eq!(two.says, "measuring 2 blocks (4 trials: 1 unproven, 1 unsteady) again");
        let one = of_trials(&study, &trials, &[Again::Failed]);
        assert_eq!(one.says, "measuring 1 block (2 trials: 1 failed) again");
        let none = of_trials(&study, &trials[..1], &[Again::Refuted, Again::Unproven]);
        assert_eq!(none.says, "no trial is unproven or refuted, so no block is measured again");
        let mut stuck =
            [trial(0, judged(VerdictKind::Unproven)), trial(1, judged(VerdictKind::Unproven))].to_vec();
        let other = "io_uring/syscall/interrupt".parse().unwrap();
        stuck.push(Trial { path: other, ..trial(0, |_| {}) });
        assert_eq!(
            of_trials(&study, &stuck, &[Again::Unproven]).says,
            "measuring 2 blocks (3 trials: 2 unproven) again; 1 of 2 cells is unproven in every replicate, \
             so a repeat may not help: the report names the reason"
        );
        // A repeat that has begun is not begun again.
        let begun = Repeat { block: 4, replaces: 0, trials: 2, done: 1, replaced: 2, batch: 0 };
        let study = StudyRecord { repeats: vec![begun], ..study };
        assert_eq!(chosen(&study, &[Again::Unproven, Again::Failed]), [3]);
    }
}
