//! The blocks of a study: which of its trials are missing, which are measured again, and whether another
//! block follows them.

use iopj_metering::{Progress, unix_ns};
use iopj_record::{Repeat, Sequential, StudyRecord, Trial};
use iopj_store::{Store, StoreError};
use iopj_study::Study;
use iopj_study::plan::{self, Cell, Planned, window};
use std::collections::HashSet;
use std::time::Duration;

/// What a study's trials say about its decisions so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// Decisions that are open.
    pub open: usize,
    /// What is open and what is decided, in words.
    pub says: String,
}

/// Judges the trials of a study. The runner itself does not know how decisions are made.
pub type Decide = fn(&StudyRecord, &[Trial]) -> Look;

/// The plan of a run: as many blocks as the store's record names, and more while a decision is open.
pub(crate) struct Blocks {
    order: Vec<Planned>,
    cells: u64,
    planned: u64,
    repeats: Vec<Repeat>,
    sequential: Option<Sequential>,
    decide: Decide,
}

impl Blocks {
    /// The plan of a study whose cells have these classes, up to the block that the store's record names. The
    /// blocks that repeat others follow the most that the study can have, in the same random order.
    pub(crate) fn of(
        study: &Study,
        classes: &[usize],
        seed: u64,
        decide: Decide,
        store: &Store,
    ) -> Result<Blocks, StoreError> {
        let record = store.study()?;
        let (most, cells, repeats) = (study.replicates.most(), classes.len() as u64, record.repeats);
        let last = repeats.iter().map(|repeat| repeat.block + 1).max();
        let order = plan::order(classes, most.max(last.unwrap_or(0)), seed);
        let planned = record.planned_trials.min(u64::from(most) * cells);
        Ok(Blocks { order, cells, planned, repeats, sequential: record.sequential, decide })
    }

    /// Trials that are planned so far.
    pub(crate) fn planned(&self) -> u64 {
        self.planned
    }

    /// The planned trials that the store lacks, those of repeats last; if it lacks none, those of the next
    /// block. What a block lacks that is repeated is not measured.
    pub(crate) fn missing(
        &mut self,
        store: &mut Store,
        progress: &mut dyn Progress,
    ) -> Result<Vec<Planned>, StoreError> {
        let done: HashSet<u64> = store.positions()?.into_iter().collect();
        let is_planned = |one: &&Planned| {
            let is_repeat = self.repeats.iter().any(|repeat| repeat.block == one.replicate);
            let is_repeated = self.repeats.iter().any(|repeat| repeat.replaces == one.replicate);
            (one.position < self.planned || is_repeat) && !is_repeated
        };
        let missing = self.order.iter().filter(is_planned).filter(|one| !done.contains(&one.position));
        let missing: Vec<Planned> = missing.copied().collect();
        if missing.is_empty() { self.more(store, progress) } else { Ok(missing) }
    }

    /// The next block, once all planned trials are done: empty unless a decision is open and blocks are left.
    pub(crate) fn more(
        &mut self,
        store: &mut Store,
        progress: &mut dyn Progress,
    ) -> Result<Vec<Planned>, StoreError> {
        let Some(Sequential { max, .. }) = self.sequential else { return Ok(Vec::new()) };
        let look = (self.decide)(&store.study()?, &store.trials()?);
        let blocks = self.planned / self.cells;
        let mut says = format!("block {blocks}: {}", look.says);
        let is_last = blocks >= u64::from(max);
        if look.open > 0 && is_last {
            says += &format!("; {max} blocks are the most");
        }
        progress.note(&says);
        store.add_event(unix_ns(), "look", &says)?;
        if look.open == 0 || is_last {
            return Ok(Vec::new());
        }
        let from = self.planned as usize;
        self.planned += self.cells;
        store.set_planned_trials(self.planned)?;
        Ok(self.order[from..self.planned as usize].to_vec())
    }
}

/// Plans to measure blocks again. Their old trials count until the new ones are all there.
pub(crate) fn repeat(
    store: &mut Store,
    study: &Study,
    cells: usize,
    again: &[u32],
) -> Result<(), StoreError> {
    store.plan_repeats(again, study.replicates.most(), cells as u64)?;
    for Repeat { block, replaces, .. } in store.study()?.repeats {
        if again.contains(&replaces) {
            let detail = format!("block {} is measured again, as block {}", replaces + 1, block + 1);
            store.add_event(unix_ns(), "again", &detail)?;
        }
    }
    Ok(())
}

/// How long a sequential study takes with the fewest and with the most blocks; `None` if their number is
/// fixed. A time is not known if a number of I/Os ends a window.
pub(crate) fn estimate(study: &Study, cells: &[Cell], times: [Duration; 2]) -> Option<String> {
    let (min, max) = (study.replicates.fewest(), study.replicates.most());
    study.replicates.sequential().ok().flatten()?;
    let is_known = cells.iter().all(|cell| window(&cell.workload).is_some());
    let [least, most] = times.map(clock);
    let time = if is_known { format!(", about {least} to {most}") } else { String::new() };
    let trials = cells.len();
    Some(format!(
        "replicates: {min} to {max} blocks of {trials} trials{time}; the last is the one after which no \
         decision is open"
    ))
}

/// Hours, minutes and seconds.
pub fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m} min {s:02} s"),
        (h, m, _) => format!("{h} h {m:02} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_metering::Said;
    use iopj_record::{Outcome, StudyRecord};
    use iopj_study::plan::cells;

    const BLOCK: u64 = 2;

    #[test]
    fn times_are_readable() {
        assert_eq!([5, 65, 3661].map(|s| clock(Duration::from_secs(s))), ["5 s", "1 min 05 s", "1 h 01 min"]);
    }

    fn study(replicates: &str) -> Study {
        let text = format!(
            "name = \"t\"\npaths = [\"libaio/syscall/interrupt\", \
             \"io_uring/syscall/interrupt\"]\nreplicates = {replicates}\n[[workload]]\nrw = \
             \"randread\"\nramp_time = \"5s\"\nruntime = \"25s\"\n"
        );
        Study::parse(&text, "t").unwrap()
    }

    const TABLE: &str = "{ min = 2, max = 4, until = \"2 %\" }";

    fn store(folder: &tempfile::TempDir, study: &Study) -> Store {
        let record = StudyRecord {
            text: study.to_toml().unwrap(),
            seed: 1,
            planned_trials: BLOCK * u64::from(study.replicates.fewest()),
            sequential: study.replicates.sequential().unwrap(),
            ..StudyRecord::default()
        };
        Store::create(&folder.path().join("t.iopj"), &record).unwrap()
    }

    /// Adds failed trials: the plan only asks whether they are there.
    fn measure(store: &mut Store, study: &Study, missing: &[Planned]) {
        let (cells, _) = cells(study, &[]).unwrap();
        for Planned { cell, replicate, position } in missing.iter().copied() {
            let Cell { path, workload, .. } = cells[cell].clone();
            let failed = Trial::new(path, workload, Outcome::Failed("not measured".to_owned()));
            store.add(&Trial { replicate, position, ..failed }).unwrap();
        }
    }

    /// Open until there are three blocks.
    fn until_three(_: &StudyRecord, trials: &[Trial]) -> Look {
        let open = usize::from(trials.len() < 6);
        Look { open, says: format!("open: {open}") }
    }

    fn always(_: &StudyRecord, _: &[Trial]) -> Look {
        Look { open: 1, says: "open".to_owned() }
    }

    /// Runs all blocks that the store lacks; returns the positions measured and the notes to the user.
    fn run(store: &mut Store, study: &Study, decide: Decide) -> (Vec<u64>, Vec<String>) {
        let mut said = Said::default();
        let mut blocks = Blocks::of(study, &[0; BLOCK as usize], 7, decide, store).unwrap();
        let (mut positions, mut missing) = (Vec::new(), blocks.missing(store, &mut said).unwrap());
        while !missing.is_empty() {
            positions.extend(missing.iter().map(|planned| planned.position));
            measure(store, study, &missing);
            missing = blocks.more(store, &mut said).unwrap();
        }
        assert_eq!(store.study().unwrap().planned_trials, blocks.planned());
        (positions, said.0)
    }

    #[test]
    fn blocks_are_added_until_nothing_is_open() {
        let (folder, study) = (tempfile::tempdir().unwrap(), study(TABLE));
        let mut store = store(&folder, &study);
        let (positions, said) = run(&mut store, &study, until_three);
        assert_eq!(
            (positions, said),
            ((0..6).collect(), vec!["block 2: open: 1".into(), "block 3: open: 0".into()])
        );
        let events: Vec<String> = store.events().unwrap().into_iter().map(|(_, kind, _)| kind).collect();
        assert_eq!(events, ["look", "look"]);
        // A decision stays made when the run is continued.
        assert!(run(&mut store, &study, until_three).0.is_empty());
    }

    #[test]
    fn the_most_blocks_are_the_last() {
        let (folder, study) = (tempfile::tempdir().unwrap(), study(TABLE));
        let (positions, said) = run(&mut store(&folder, &study), &study, always);
        assert_eq!(positions, (0..8).collect::<Vec<_>>());
        assert_eq!(said[2], "block 4: open; 4 blocks are the most");
    }

    #[test]
    fn a_number_of_blocks_is_never_looked_at() {
        let (folder, study) = (tempfile::tempdir().unwrap(), study("3"));
        let (positions, said) = run(&mut store(&folder, &study), &study, always);
        assert_eq!((positions, said), ((0..6).collect(), Vec::new()));
    }

    #[test]
    fn an_interrupted_block_is_finished_before_it_is_looked_at() {
        let (folder, study) = (tempfile::tempdir().unwrap(), study(TABLE));
        let mut store = store(&folder, &study);
        let mut said = Said::default();
        let mut blocks = Blocks::of(&study, &[0; 2], 7, always, &store).unwrap();
        let missing = blocks.missing(&mut store, &mut said).unwrap();
        measure(&mut store, &study, &missing);
        let third = blocks.more(&mut store, &mut said).unwrap();
        assert_eq!(third.iter().map(|planned| planned.position).collect::<Vec<_>>(), [4, 5]);
        measure(&mut store, &study, &third[..1]);
        let (positions, said) = run(&mut store, &study, until_three);
        assert_eq!((positions, said), (vec![5], vec!["block 3: open: 0".to_owned()]));
        // A run that died between two blocks judges again, and goes on.
        assert_eq!(run(&mut store, &study, always).0, [6, 7]);
    }

    /// The replicates of the trials in force.
    fn in_force(store: &Store) -> Vec<u32> {
        store.trials().unwrap().iter().map(|trial| trial.replicate).collect()
    }

    #[test]
    fn a_block_is_measured_again_whole_and_in_a_new_order() {
        let (folder, study) = (tempfile::tempdir().unwrap(), study("3"));
        let mut store = store(&folder, &study);
        run(&mut store, &study, always);
        repeat(&mut store, &study, 2, &[0, 2]).unwrap();
        let mut said = Said::default();
        let missing = Blocks::of(&study, &[0; 2], 7, always, &store).unwrap().missing(&mut store, &mut said);
        let missing = missing.unwrap();
        assert_eq!(missing, plan::order(&[0; 2], 5, 7)[6..], "a continuation of the plan");
        // Killed in the first block's repeat, then in the second's.
        measure(&mut store, &study, &missing[..1]);
        assert_eq!(in_force(&store), [0, 0, 1, 1, 2, 2]);
        measure(&mut store, &study, &missing[1..3]);
        assert_eq!(in_force(&store), [1, 1, 2, 2, 3, 3]);
        assert_eq!(run(&mut store, &study, always).0, [9]);
        assert_eq!(in_force(&store), [1, 1, 3, 3, 4, 4]);
        let events: Vec<String> = store.events().unwrap().into_iter().map(|(_, _, detail)| detail).collect();
        assert_eq!(
            events,
            ["block 1 is measured again, as block 4", "block 3 is measured again, as block 5"]
        );
        // Nothing is left to do, and a repeat can be repeated.
        assert!(run(&mut store, &study, always).0.is_empty());
        repeat(&mut store, &study, 2, &[3]).unwrap();
        assert_eq!(run(&mut store, &study, always).0, [10, 11]);
        assert_eq!(in_force(&store), [1, 1, 4, 4, 5, 5]);
    }

    /// A study that adds blocks looks once more after each repeat, and p-values did not count that.
    #[test]
    fn blocks_that_are_measured_again_at_once_are_one_look() {
        for (replicates, looks) in [(TABLE, [3, 3, 4, 5]), ("3", [1, 1, 1, 1])] {
            let (folder, study) = (tempfile::tempdir().unwrap(), study(replicates));
            let mut store = store(&folder, &study);
            run(&mut store, &study, until_three);
            let looks_of = |store: &Store| store.study().unwrap().looks();
            let mut found = vec![looks_of(&store)];
            repeat(&mut store, &study, 2, &[0, 1]).unwrap();
            // Not yet: the old blocks count.
            found.push(looks_of(&store));
            run(&mut store, &study, until_three);
            found.push(looks_of(&store));
            repeat(&mut store, &study, 2, &[2]).unwrap();
            run(&mut store, &study, until_three);
            found.push(looks_of(&store));
            assert_eq!(found, looks, "{replicates}");
        }
    }

    #[test]
    fn what_a_repeated_block_lacks_is_not_measured_and_blocks_are_still_added() {
        let (folder, study) = (tempfile::tempdir().unwrap(), study(TABLE));
        let mut store = store(&folder, &study);
        let mut blocks = Blocks::of(&study, &[0; 2], 7, always, &store).unwrap();
        let missing = blocks.missing(&mut store, &mut Said::default()).unwrap();
        measure(&mut store, &study, &missing[..3]);
        repeat(&mut store, &study, 2, &[1]).unwrap();
        // Position 3 is left out; block 4, after the four that the study can have, is block 1's repeat.
        let (positions, said) = run(&mut store, &study, until_three);
        assert_eq!(positions, [8, 9, 4, 5]);
        assert_eq!(said, ["block 2: open: 1", "block 3: open: 0"]);
        assert_eq!(in_force(&store), [0, 0, 4, 4, 2, 2]);
    }

    #[test]
    fn the_time_is_given_for_the_fewest_and_the_most_blocks() {
        let words = |replicates: &str| {
            let study = study(replicates);
            let cells = cells(&study, &[]).unwrap().0;
            let times = crate::RunTime::of_study(&study, &cells, None).unwrap();
            estimate(&study, &cells, times.map(|time| time.all()))
        };
        assert_eq!(words("3"), None);
        let estimate = words(TABLE).unwrap();
        assert!(
            estimate.starts_with("replicates: 2 to 4 blocks of 2 trials, about 2 min 01 s to 4 min 02 s;"),
            "{estimate}"
        );
    }
}
