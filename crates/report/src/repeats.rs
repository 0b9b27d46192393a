//! Trials of a store that do not count because their block was measured again, or is being.

use iopj_record::StudyRecord;

/// How many they are, in a sentence each; none where no block was repeated.
pub(crate) fn sentences(study: &StudyRecord) -> Vec<String> {
    let [replaced, waiting] = study.out_of_force();
    let count = |trials: u64| if trials == 1 { "1 trial".to_owned() } else { format!("{trials} trials") };
    let mut sentences = Vec::new();
    if replaced > 0 {
        let were = if replaced == 1 { "was" } else { "were" };
        sentences.push(format!(
            "{} {were} replaced when blocks were measured again; the results leave replaced trials out",
            count(replaced)
        ));
    }
    if let Some(repeat) = study.repeats.iter().find(|repeat| !repeat.is_whole()) {
        sentences.push(format!(
            "the repeat of block {} is not complete, so the block's old trials still count ({} of the repeat \
             so far): `iopj run --resume STORE` completes it",
            repeat.replaces + 1,
            count(waiting)
        ));
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_record::Repeat;

    #[test]
    fn replaced_and_waiting_trials_are_counted() {
        assert!(sentences(&StudyRecord::default()).is_empty());
        let whole = Repeat { block: 5, replaces: 1, trials: 3, done: 3, replaced: 3, batch: 0 };
        let begun = Repeat { block: 6, replaces: 4, done: 1, ..whole };
        let study = StudyRecord { repeats: vec![whole, begun], ..StudyRecord::default() };
        assert_eq!(
            sentences(&study),
            [
                "3 trials were replaced when blocks were measured again; the results leave replaced trials \
                 out",
                "the repeat of block 5 is not complete, so the block's old trials still count (1 trial of \
                 the repeat so far): `iopj run --resume STORE` completes it"
            ]
        );
    }
}
