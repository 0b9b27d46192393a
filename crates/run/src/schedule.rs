//! Which trials of a run are left, in their order, and how long they take.

use crate::blocks::Blocks;
use crate::error::RunError;
use crate::pace::Pace;
use iopj_metering::Progress;
use iopj_metering::energy::{GroupPosition, Metering, positions};
use iopj_store::Store;
use iopj_study::plan::{Cell, Planned};
use std::time::Duration;

/// Which trials of a run are left, in their order, and how long they take.
pub(crate) struct Schedule {
    /// How many blocks there are, which is decided while the run goes on where the study says so.
    blocks: Blocks,
    /// The class of each cell's workload, by which trials are grouped.
    classes: Vec<usize>,
    trials: Vec<Planned>,
    /// The place of each trial in its group.
    places: Vec<GroupPosition>,
    /// How many have been done.
    done: usize,
    pace: Pace,
}

impl Schedule {
    /// The trials of these blocks that the store lacks, for cells of these classes.
    ///
    /// # Errors
    /// The store cannot be read, or the blocks cannot be decided on.
    pub(crate) fn new(
        mut blocks: Blocks,
        classes: Vec<usize>,
        pace: Pace,
        store: &mut Store,
        progress: &mut dyn Progress,
    ) -> Result<Schedule, RunError> {
        let trials = blocks.missing(store, progress)?;
        let places = positions(&trials, &classes);
        Ok(Schedule { blocks, classes, trials, places, done: 0, pace })
    }

    /// The trials that are left.
    pub(crate) fn left(&self) -> &[Planned] {
        self.trials.get(self.done..).unwrap_or_default()
    }

    /// The next one, and its place in its group.
    pub(crate) fn next(&self) -> Option<(Planned, GroupPosition)> {
        Some((*self.trials.get(self.done)?, *self.places.get(self.done)?))
    }

    /// Its number, from 1, and how many there are.
    pub(crate) fn number(&self) -> (u64, u64) {
        let of = self.blocks.planned();
        (of - self.left().len() as u64 + 1, of)
    }

    /// How long a trial of a cell will take.
    pub(crate) fn expected(&self, number: usize, cell: &Cell) -> Duration {
        self.pace.next(number, cell)
    }

    /// The time until the run ends: of the trials that are left, and of rests and patterns around them.
    pub(crate) fn time_left(&self, cells: &[Cell], metering: Option<&Metering>) -> Option<Duration> {
        let times = self.pace.left(cells, self.left())?;
        // What is due before the first of them has been done.
        let places = self.places.get(self.done..).unwrap_or_default();
        let all = places.iter().copied().zip(times.iter().copied()).skip(1);
        let first = times.first().copied().unwrap_or_default();
        let aside = metering.map_or(Duration::ZERO, |metering| metering.left(first, all));
        Some(times.iter().sum::<Duration>() + aside)
    }

    /// A trial of a cell was measured, and took so long.
    pub(crate) fn took(&mut self, number: usize, cell: &Cell, time: Duration) {
        self.pace.keep(number, cell, time);
    }

    /// The next trial is in the store. After the last one, the blocks are added that the study asks for.
    ///
    /// # Errors
    /// As for [`Schedule::new`].
    pub(crate) fn advance(&mut self, store: &mut Store, progress: &mut dyn Progress) -> Result<(), RunError> {
        self.done += 1;
        if self.done == self.trials.len() {
            self.trials.extend(self.blocks.more(store, progress)?);
            self.places = positions(&self.trials, &self.classes);
        }
        Ok(())
    }
}
