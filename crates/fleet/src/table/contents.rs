//! What the rows of all tables are made of: a store, read once.

use iopj_record::energy::{MeterRow, ReadingRow, Session};
use iopj_record::{Measurement, StudyRecord, Trial};
use iopj_store::{Store, StoreError};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// A study's store, read whole.
#[derive(Clone, Debug)]
pub struct Contents {
    /// What names the store in every table, wherever its file lies: see [`Contents::id_of`].
    pub id: String,
    /// The study.
    pub study: StudyRecord,
    /// All trials, also those that do not count.
    pub trials: Vec<Trial>,
    /// The sessions of its meters.
    pub(super) sessions: Vec<Session>,
    /// Its meters with their raw readings.
    pub(super) meters: Vec<(MeterRow, Vec<ReadingRow>)>,
}

/// A store at a glance.
#[derive(Clone, Debug)]
pub struct Head {
    /// See [`Contents::id_of`].
    pub id: String,
    /// The id that it had before its first trial.
    pub unborn: String,
    /// The study.
    pub study: StudyRecord,
    /// How many trials it has. Of two stores with one id, the one with more was copied later.
    pub trials: u64,
}

impl Contents {
    /// Reads a store.
    ///
    /// # Errors
    /// A record cannot be read, or the store is of a watch and holds no study.
    pub fn read(store: &Store) -> Result<Contents, StoreError> {
        let Head { id, study, .. } = Contents::head(store)?;
        let meters = store.meters()?.into_iter().map(|meter| {
            let readings = store.readings(meter.id)?;
            Ok((meter, readings))
        });
        let meters = meters.collect::<Result<_, StoreError>>()?;
        Ok(Contents { id, study, trials: store.all_trials()?, sessions: store.sessions()?, meters })
    }

    /// What tells a store from others, which is quick to read.
    ///
    /// # Errors
    /// As of [`Contents::read`].
    pub fn head(store: &Store) -> Result<Head, StoreError> {
        let study = store.study()?;
        let [id, unborn] = [store.first_started_unix_ns()?, None].map(|first| Contents::id_of(&study, first));
        Ok(Head { id, unborn, study, trials: store.positions()?.len() as u64 })
    }

    /// The id of a store: 16 hexadecimal digits, of what stays the same while trials are added. A copy has
    /// the id of its original.
    pub fn id_of(study: &StudyRecord, first_started_unix_ns: Option<u64>) -> String {
        let mut digest = Sha256::new();
        let mut put = |text: &str| {
            digest.update((text.len() as u64).to_le_bytes());
            digest.update(text);
        };
        [&study.name, &study.text, &study.target].into_iter().for_each(|text| put(text));
        put(study.file_id.as_deref().unwrap_or_default());
        for (name, value) in &study.provenance {
            put(name);
            put(value);
        }
        put(&format!("{} {:?}", study.seed, first_started_unix_ns));
        digest.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    /// When the first trial began, in ns since 1970.
    pub(super) fn began_unix_ns(&self) -> Option<u64> {
        self.trials.iter().map(|trial| trial.started_unix_ns).min()
    }

    /// The measurement of a trial whose times mean something.
    pub(super) fn timed<'t>(&self, trial: &'t Trial) -> Option<&'t Measurement> {
        trial.outcome.measurement().filter(|_| self.study.emulated.is_none())
    }
}

/// What kind of machine a store is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind {
    /// Processor and how many of it are online, such as `Intel(R) Xeon(R) Gold 6430, 64 CPUs`.
    pub machine: String,
    /// The drives' models.
    pub drive: String,
    /// The kernel's release.
    pub kernel: String,
}

/// Stands where a store does not say it.
pub const UNKNOWN: &str = "unknown";

impl Kind {
    /// The kind of a study's machine.
    pub fn of(study: &StudyRecord) -> Kind {
        let known = |value: Option<String>| value.unwrap_or_else(|| UNKNOWN.to_owned());
        let model = fact(study, "cpu_model").or_else(|| fact(study, "architecture"));
        let machine = match cpus(study) {
            Some(cpus) => format!("{}, {cpus} CPUs", known(model)),
            None => known(model),
        };
        Kind { machine, drive: known(drives(study, "model")), kernel: known(fact(study, "kernel")) }
    }
}

/// A fact of the study's provenance; an empty one is none.
pub(super) fn fact(study: &StudyRecord, name: &str) -> Option<String> {
    study.provenance.get(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// A fact of each of the target's drives, joined. A drive without a model goes by its name.
pub(super) fn drives(study: &StudyRecord, name: &str) -> Option<String> {
    let devices = fact(study, "devices")?;
    let of = |device: &str| {
        let known = fact(study, &format!("{device}.{name}"));
        known.or_else(|| (name == "model").then(|| device.to_owned()))
    };
    let all: Vec<String> = devices.split_whitespace().filter_map(of).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// How many processors are online, of a list such as `0-3,8`.
pub(super) fn cpus(study: &StudyRecord) -> Option<u64> {
    let online = fact(study, "cpus_online")?;
    let count = |range: &str| -> Option<u64> {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        high.trim().parse::<u64>().ok()?.checked_sub(low.trim().parse().ok()?)?.checked_add(1)
    };
    online.split(',').map(count).sum()
}

/// What tells hosts apart: the host's name, or else the serial numbers of its drives.
pub(super) fn host(study: &StudyRecord) -> Option<String> {
    fact(study, "host").or_else(|| drives(study, "serial"))
}

/// Settings as `name=value`, parted by spaces.
pub(super) fn settings(settings: &BTreeMap<String, String>) -> String {
    settings.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}
