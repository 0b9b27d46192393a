//! Trials as they are read: some at a time, each with what tables of its own keep of it.

use crate::checksum::Kind;
use crate::decode::{Batch, Decoded, Decoders};
use crate::details;
use crate::error::StoreError;
use crate::pending;
use crate::repeat;
use crate::store::Store;
use crate::trial_row::TrialRow;
use iopj_core::TrialEnergy;
use iopj_record::trial::Trial;
use rusqlite::params;
use std::collections::HashMap;

/// How many trials are read at once: what is not decoded yet of more would take memory, and queries of fewer
/// take time.
const AT_ONCE: i64 = 256;

/// Room for more trials is not taken before they are there.
const MOST_ROOM: usize = 1 << 20;

impl Store {
    /// The trials in force, in the order in which they ran: not those of a block that a whole repeat
    /// replaces, nor those of a repeat that is not whole.
    ///
    /// # Errors
    /// A record cannot be read.
    pub fn trials(&self) -> Result<Vec<Trial>, StoreError> {
        let repeats = repeat::all(&self.connection).map_err(|error| self.sqlite(error))?;
        let mut trials = self.room_for_all()?;
        self.read(
            |row| iopj_record::repeat::is_in_force(&repeats, row.replicate),
            |trial| {
                trials.push(trial);
                Ok(())
            },
        )?;
        Ok(trials)
    }

    /// All trials, also those that [`Store::trials`] leaves out, in the order in which they ran. The study's
    /// record says which are in force ([`StudyRecord::is_in_force`](iopj_record::StudyRecord::is_in_force)).
    ///
    /// # Errors
    /// A record cannot be read.
    pub fn all_trials(&self) -> Result<Vec<Trial>, StoreError> {
        let mut trials = self.room_for_all()?;
        self.for_each_trial(|trial| {
            trials.push(trial);
            Ok(())
        })?;
        Ok(trials)
    }

    /// For as many trials as there are: a list that grows needs twice the room.
    fn room_for_all(&self) -> Result<Vec<Trial>, StoreError> {
        let count = "SELECT count(*) FROM trial";
        let count: i64 =
            self.connection.query_row(count, [], |row| row.get(0)).map_err(|error| self.sqlite(error))?;
        Ok(Vec::with_capacity(usize::try_from(count).unwrap_or(0).min(MOST_ROOM)))
    }

    /// Hands on all trials one by one, so that they are not all in memory at once.
    ///
    /// # Errors
    /// A record cannot be read, or what `take` returns.
    pub fn for_each_trial<E: From<StoreError>>(
        &self,
        take: impl FnMut(Trial) -> Result<(), E>,
    ) -> Result<(), E> {
        self.read(|_| true, take)
    }

    /// Reads the trials that are wanted, some at a time: without WAL, no trial is committed while a cursor is
    /// open. While some are read, threads decode those before them.
    fn read<E: From<StoreError>>(
        &self,
        mut is_wanted: impl FnMut(&TrialRow) -> bool,
        mut take: impl FnMut(Trial) -> Result<(), E>,
    ) -> Result<(), E> {
        self.verify(&[Kind::Energy])?;
        let [trials, costs, target_costs] =
            [Kind::Trial, Kind::Costs, Kind::TargetCosts].map(|kind| self.verify_one(kind));
        // A live run adds some meanwhile, and takes none away.
        let there = [trials?, costs?, target_costs?].map(|found| found.sound + found.without);
        let mut pending = None;
        let mut hand_on = |decoded: Decoded| -> Result<(), E> {
            for (id, mut trial) in decoded? {
                let measurement = trial.outcome.measurement_mut();
                if let Some(measurement) = measurement.filter(|one| one.energy.is_empty()) {
                    measurement.energy = self.pending(&mut pending, id)?;
                }
                take(trial)?;
            }
            Ok(())
        };
        let (mut after, mut read) = (i64::MIN, [0; 3]);
        let mut next = || -> Result<(Batch, bool), StoreError> {
            let mut rows = self.next_rows(&mut after)?;
            let is_last = rows.len() < AT_ONCE as usize;
            let details = self.details(&rows)?;
            let [costs, target_costs] = details.profiles();
            for (sum, more) in read.iter_mut().zip([rows.len() as u64, costs, target_costs]) {
                *sum += more;
            }
            if is_last && read.iter().zip(&there).any(|(read, there)| read < there) {
                return Err(self.damaged_trials());
            }
            rows.retain(&mut is_wanted);
            Ok((Batch { rows, details }, is_last))
        };
        std::thread::scope(|scope| {
            let (mut batch, mut is_last) = next()?;
            let mut decoders =
                if is_last { Decoders::here(&self.path) } else { Decoders::start(scope, &self.path) };
            loop {
                if decoders.is_full() {
                    decoders.take().map_or(Ok(()), &mut hand_on)?;
                }
                decoders.put(batch);
                if is_last {
                    break;
                }
                (batch, is_last) = next()?;
            }
            while let Some(decoded) = decoders.take() {
                hand_on(decoded)?;
            }
            Ok(())
        })
    }

    /// The next rows after an id, which becomes that of the last of them.
    fn next_rows(&self, after: &mut i64) -> Result<Vec<TrialRow>, StoreError> {
        let rows = self.rows(*after)?;
        for row in &rows {
            // In a damaged index, looking for what follows may lead back.
            if row.id <= *after {
                return Err(self.damaged_trials());
            }
            *after = row.id;
        }
        Ok(rows)
    }

    fn damaged_trials(&self) -> StoreError {
        StoreError::Damaged { path: self.path.clone(), what: "the order of its trials".to_owned() }
    }

    /// The next rows, not decoded yet.
    pub(crate) fn rows(&self, after: i64) -> Result<Vec<TrialRow>, StoreError> {
        let select = "SELECT id, path, workload, settings, generator, replicate, position, started_unix_ns, \
                      gap_ns, error, measurement FROM trial WHERE id > ?1 ORDER BY id LIMIT ?2";
        self.all(select, params![after, AT_ONCE], TrialRow::of)
    }

    fn details(&self, rows: &[TrialRow]) -> Result<details::Details, StoreError> {
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
            return Ok(details::Details::default());
        };
        details::read(&self.connection, first.id, last.id).map_err(|error| self.sqlite(error))
    }

    /// The energy of a trial that is still to be computed. All of it is found at once, where there is any.
    fn pending(
        &self,
        known: &mut Option<HashMap<i64, Vec<TrialEnergy>>>,
        trial: i64,
    ) -> Result<Vec<TrialEnergy>, StoreError> {
        let all = match known {
            Some(all) => all,
            None => known.insert(pending::all(&self.connection).map_err(|error| self.sqlite(error))?),
        };
        Ok(all.remove(&trial).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_record::trial::{Outcome, StudyRecord};

    /// A store with so many trials, of which each has its position in its error.
    fn long(trials: i64) -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::create(&folder.path().join("s.iopj"), &StudyRecord::default()).unwrap();
        let path = "io_uring/syscall/interrupt".parse().unwrap();
        store.add(&Trial::new(path, Default::default(), Outcome::Failed("0".to_owned()))).unwrap();
        let many = "WITH RECURSIVE one(at) AS \
                    (VALUES (1) UNION ALL SELECT at + 1 FROM one WHERE at + 1 < ?1) \
                    INSERT INTO trial (path, workload, settings, generator, replicate, position, \
                    started_unix_ns, error) SELECT path, workload, settings, generator, at, at, 0, at \
                    FROM trial, one";
        store.connection.execute(many, [trials]).unwrap();
        store.connection.execute("DELETE FROM checksum WHERE kind = 'trial'", []).unwrap();
        (folder, store)
    }

    fn positions(store: &Store) -> Result<Vec<u64>, StoreError> {
        let mut positions = Vec::new();
        store.for_each_trial(|trial| {
            assert_eq!(trial.outcome, Outcome::Failed(trial.position.to_string()));
            positions.push(trial.position);
            Ok::<(), StoreError>(())
        })?;
        Ok(positions)
    }

    #[test]
    fn trials_that_threads_decode_come_in_their_order() {
        for trials in [2, AT_ONCE - 1, AT_ONCE, AT_ONCE + 1, 2 * AT_ONCE, 11 * AT_ONCE + 7] {
            let (_folder, store) = long(trials);
            assert_eq!(positions(&store).unwrap(), (0..trials as u64).collect::<Vec<_>>(), "{trials}");
        }
    }

    #[test]
    fn what_a_thread_cannot_decode_or_nobody_takes_ends_the_reading() {
        let (_folder, store) = long(11 * AT_ONCE);
        let mut taken = 0;
        let stopped = store.for_each_trial(|_| {
            taken += 1;
            if taken == AT_ONCE + 1 { Err(store.damaged_trials()) } else { Ok(()) }
        });
        assert!(matches!(stopped, Err(StoreError::Damaged { .. })) && taken == AT_ONCE + 1, "{stopped:?}");
        for position in [0, 5 * AT_ONCE + 3, 11 * AT_ONCE - 1] {
            let (_folder, store) = long(11 * AT_ONCE);
            store
                .connection
                .execute("UPDATE trial SET workload = '{' WHERE position = ?1", [position])
                .unwrap();
            let error = positions(&store).unwrap_err().to_string();
            assert!(error.contains("holds a workload that cannot be read"), "{error}");
        }
    }
}
