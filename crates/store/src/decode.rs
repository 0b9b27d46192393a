//! Trials decoded, most of them by threads of their own while the next are read.

use crate::details::Details;
use crate::error::StoreError;
use crate::trial_row::TrialRow;
use iopj_core::{Evidence, Shared};
use iopj_record::SharedValue;
use iopj_record::trial::{Outcome, Trial};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, Scope};

/// More threads than these would wait for what is read.
const MOST: usize = 4;

/// Trials as their tables hold them.
pub(crate) struct Batch {
    pub(crate) rows: Vec<TrialRow>,
    pub(crate) details: Details,
}

/// Decoded trials, each with its id; or why one cannot be decoded.
pub(crate) type Decoded = Result<Vec<(i64, Trial)>, StoreError>;

/// Decodes the trials of one store.
pub(crate) struct Decoder {
    path: PathBuf,
    /// The last trial's, which the next one's mostly equal.
    power_state: [SharedValue; 2],
    disks: Vec<Shared<BTreeMap<String, String>>>,
}

impl Decoder {
    pub(crate) fn new(path: &Path) -> Decoder {
        Decoder { path: path.to_owned(), power_state: Default::default(), disks: Vec::new() }
    }

    pub(crate) fn decode(&mut self, mut batch: Batch) -> Decoded {
        let mut trials = Vec::with_capacity(batch.rows.len());
        for row in batch.rows {
            let id = row.id;
            let mut trial = self.trial(row)?;
            if let Some(measurement) = trial.outcome.measurement_mut() {
                batch.details.move_to(id, measurement);
            }
            trials.push((id, trial));
        }
        Ok(trials)
    }

    /// A trial without what tables of its own keep.
    pub(crate) fn trial(&mut self, row: TrialRow) -> Result<Trial, StoreError> {
        let quoted = |text: String| serde_json::Value::String(text).to_string();
        let outcome = match row.outcome {
            Err(error) => Outcome::Failed(error),
            Ok(record) => Outcome::Measured(self.parse(&record, "measurement")?),
        };
        let mut trial = Trial {
            path: self.parse(&quoted(row.path), "path")?,
            workload: self.parse(&row.workload, "workload")?,
            settings: self.parse(&row.settings, "settings")?,
            generator: self.parse(&quoted(row.generator), "generator")?,
            replicate: row.replicate,
            position: row.position,
            started_unix_ns: row.started_unix_ns,
            gap_ns: row.gap_ns,
            outcome,
        };
        if let Some(measurement) = trial.outcome.measurement_mut() {
            for (before, now) in self.power_state.iter_mut().zip(&mut measurement.power_state) {
                let shared = now.share(before);
                shared.map_err(|error| StoreError::record(&self.path, "power state", error))?;
                before.clone_from(now);
            }
            self.make_small(&mut measurement.evidence);
        }
        Ok(trial)
    }

    /// Most of a trial's memory would be room for more disks and threads, and settings of disks.
    fn make_small(&mut self, evidence: &mut Evidence) {
        evidence.devices.shrink_to_fit();
        evidence.threads.shrink_to_fit();
        self.disks.resize_with(evidence.devices.len(), Shared::default);
        for (before, disk) in self.disks.iter_mut().zip(&mut evidence.devices) {
            disk.settings.share(before);
            before.clone_from(&disk.settings);
        }
    }

    fn parse<T: serde::de::DeserializeOwned>(&self, text: &str, what: &'static str) -> Result<T, StoreError> {
        serde_json::from_str(text).map_err(|error| StoreError::record(&self.path, what, error))
    }
}

/// Threads that decode. One after the other gets the next trials, so these come back in their order.
pub(crate) struct Decoders {
    lanes: Vec<(SyncSender<Batch>, Receiver<Decoded>)>,
    put: usize,
    taken: usize,
    /// Decodes where there are no threads, and what it has decoded.
    here: (Decoder, Option<Decoded>),
}

impl Decoders {
    /// Without threads: they are not worth it for a few trials.
    pub(crate) fn here(path: &Path) -> Decoders {
        Decoders { lanes: Vec::new(), put: 0, taken: 0, here: (Decoder::new(path), None) }
    }

    /// Starts as many threads as there are processors, within reason and as far as the machine lets it. They
    /// end when this is dropped.
    pub(crate) fn start<'scope>(scope: &'scope Scope<'scope, '_>, path: &Path) -> Decoders {
        let many = std::thread::available_parallelism().map_or(1, |many| many.get().min(MOST));
        let lane = || {
            let (to, batches) = sync_channel::<Batch>(1);
            let (decoded, from) = sync_channel(1);
            let mut decoder = Decoder::new(path);
            let work = move || {
                // It fails once nobody takes them any more.
                let _ = batches.iter().try_for_each(|batch| decoded.send(decoder.decode(batch)));
            };
            Builder::new().spawn_scoped(scope, work).ok().map(|_| (to, from))
        };
        let lanes = std::iter::repeat_with(lane).take(many).flatten().collect();
        Decoders { lanes, ..Decoders::here(path) }
    }

    /// True if one more would wait for what nobody has taken yet.
    pub(crate) fn is_full(&self) -> bool {
        self.put - self.taken >= self.lanes.len().max(1)
    }

    /// Hands trials to the next thread.
    pub(crate) fn put(&mut self, batch: Batch) {
        match self.lanes.get(self.put % self.lanes.len().max(1)) {
            // A thread that has panicked takes none; the scope says so at its end.
            Some((to, _)) => drop(to.send(batch)),
            None => self.here.1 = Some(self.here.0.decode(batch)),
        }
        self.put += 1;
    }

    /// The trials that were handed over first of those that were not taken yet; `None` if all were.
    pub(crate) fn take(&mut self) -> Option<Decoded> {
        if self.taken == self.put {
            return None;
        }
        let lane = self.lanes.get(self.taken % self.lanes.len().max(1));
        self.taken += 1;
        match lane {
            Some((_, from)) => from.recv().ok(),
            None => self.here.1.take(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(position: u64) -> Batch {
        let row = TrialRow {
            id: 1,
            path: "io_uring/syscall/poll".to_owned(),
            workload: serde_json::to_string(&iopj_core::Workload::default()).unwrap(),
            settings: "{}".to_owned(),
            generator: "native".to_owned(),
            replicate: 0,
            position,
            started_unix_ns: 0,
            gap_ns: None,
            outcome: Err("it broke".to_owned()),
        };
        Batch { rows: vec![row], details: Details::default() }
    }

    /// As where no thread may be started.
    #[test]
    fn without_threads_trials_are_decoded_here() {
        let mut decoders = Decoders::here(Path::new("s.iopj"));
        for position in [3, 5] {
            assert!(!decoders.is_full() && decoders.take().is_none());
            decoders.put(batch(position));
            let trials = decoders.is_full().then(|| decoders.take().unwrap().unwrap());
            assert_eq!(trials.map(|all| (all.len(), all[0].1.position)), Some((1, position)));
        }
    }
}
