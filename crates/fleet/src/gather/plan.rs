//! Which parts stay as they are and which are written: pure.

use super::PART_STORES;
use super::manifest::{Manifest, PartRecord, StoreRecord};
use super::scan::Found;
use crate::table::Kind;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// What the next generation is made of.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Parts that stay.
    pub(super) kept: Vec<PartRecord>,
    /// Parts to be written.
    pub(super) jobs: Vec<Job>,
}

/// A part to be written.
#[derive(Debug)]
pub(super) struct Job {
    /// Which one of its generation.
    pub(super) number: usize,
    pub(super) kind: Kind,
    /// What it takes over of old parts.
    pub(super) carried: Vec<Carried>,
    /// Stores that it reads.
    pub(super) read: Vec<Read>,
}

/// Stores of an old part.
#[derive(Clone, Debug)]
pub(super) struct Carried {
    pub(super) part: Arc<PartRecord>,
    pub(super) stores: Vec<StoreRecord>,
}

/// A store to be read, and what the data set has of it, which stays if it cannot be read: of its id, or of
/// the one that it had before its first trial.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) store: StoreRecord,
    pub(super) old: Vec<Carried>,
}

/// Plans the next generation. A part that holds a changed store is written anew without it. New stores of a
/// kind take over the kind's small parts, of no more stores than are new: so a kind has few parts, and each
/// store is rewritten few times.
pub(super) fn plan(before: &Manifest, found: &[Found]) -> Plan {
    let mut replaced = replaced(before, found);
    let gone: HashSet<String> = replaced.keys().cloned().collect();
    let mut read: BTreeMap<Kind, Vec<Read>> = BTreeMap::new();
    for one in found {
        let old = [&one.store.id, &one.unborn].into_iter().filter_map(|id| replaced.remove(id)).collect();
        read.entry(one.kind.clone()).or_default().push(Read { store: one.store.clone(), old });
    }
    let mut kept = Vec::new();
    let mut carried: BTreeMap<Kind, Vec<Carried>> = BTreeMap::new();
    let mut growing: BTreeMap<Kind, usize> =
        read.iter().map(|(kind, stores)| (kind.clone(), stores.len())).collect();
    let mut parts: Vec<&PartRecord> = before.parts.iter().collect();
    parts.sort_by_key(|part| part.stores.len());
    for part in parts {
        let growth = growing.entry(part.kind()).or_default();
        let is_touched = part.stores.iter().any(|store| gone.contains(&store.id));
        let is_small = part.stores.len() <= *growth && part.stores.len() < PART_STORES;
        if !is_touched && !is_small {
            kept.push(part.clone());
            continue;
        }
        let stays = |store: &&StoreRecord| !gone.contains(&store.id);
        let stores: Vec<StoreRecord> = part.stores.iter().filter(stays).cloned().collect();
        *growth += stores.len();
        carried.entry(part.kind()).or_default().push(Carried { part: Arc::new(part.clone()), stores });
    }
    Plan { kept, jobs: jobs(carried, read) }
}

/// What the data set has of stores that are read now, by their ids there.
fn replaced(before: &Manifest, found: &[Found]) -> HashMap<String, Carried> {
    let ids: HashSet<&String> = found.iter().flat_map(|one| [&one.store.id, &one.unborn]).collect();
    let of_part = |part: &PartRecord| {
        let old = part.stores.iter().filter(|old| ids.contains(&old.id));
        let part = Arc::new(part.clone());
        let carried = |old: &StoreRecord| Carried { part: part.clone(), stores: vec![old.clone()] };
        old.map(|old| (old.id.clone(), carried(old))).collect::<Vec<_>>()
    };
    before.parts.iter().flat_map(of_part).collect()
}

/// Parts of each kind, filled up one after the other.
fn jobs(mut carried: BTreeMap<Kind, Vec<Carried>>, mut read: BTreeMap<Kind, Vec<Read>>) -> Vec<Job> {
    let kinds: Vec<Kind> = carried.keys().chain(read.keys()).cloned().collect();
    let mut jobs: Vec<Job> = Vec::new();
    for kind in kinds {
        let mut room = 0;
        let mut job_for = |jobs: &mut Vec<Job>, stores: usize| {
            if room < stores {
                jobs.push(Job {
                    number: jobs.len(),
                    kind: kind.clone(),
                    carried: Vec::new(),
                    read: Vec::new(),
                });
                room = PART_STORES.max(stores);
            }
            room -= stores;
        };
        for one in carried.remove(&kind).unwrap_or_default().into_iter().filter(|one| !one.stores.is_empty())
        {
            job_for(&mut jobs, one.stores.len());
            jobs.last_mut().into_iter().for_each(|job| job.carried.push(one.clone()));
        }
        for one in read.remove(&kind).unwrap_or_default() {
            job_for(&mut jobs, 1);
            if let Some(job) = jobs.last_mut() {
                job.read.push(one);
            }
        }
    }
    jobs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind() -> Kind {
        Kind { machine: "m".into(), drive: "d".into(), kernel: "k".into() }
    }

    fn store(number: usize, stamp: &str) -> StoreRecord {
        let (id, file) = (number.to_string(), format!("/{number}").into());
        StoreRecord { id, file, stamp: stamp.to_owned(), trials: 1 }
    }

    fn found(numbers: impl IntoIterator<Item = usize>) -> Vec<Found> {
        let found = |number| Found { store: store(number, "new"), unborn: "unborn".into(), kind: kind() };
        numbers.into_iter().map(found).collect()
    }

    /// A manifest after this plan was carried out.
    fn after(before: &Manifest, plan: Plan) -> Manifest {
        let part = |job: &Job| {
            let carried = job.carried.iter().flat_map(|one| one.stores.clone());
            let Kind { machine, drive, kernel } = kind();
            let stores = carried.chain(job.read.iter().map(|read| read.store.clone())).collect();
            let name = format!("part-{}-{}", before.generation + 1, job.number);
            PartRecord { name, machine, drive, kernel, stores, sums: Default::default() }
        };
        let parts = plan.jobs.iter().map(part);
        let parts = plan.kept.clone().into_iter().chain(parts).collect();
        Manifest { generation: before.generation + 1, parts, ..Manifest::empty() }
    }

    #[test]
    fn parts_stay_few_and_no_store_is_lost_or_twice() {
        let mut manifest = Manifest::empty();
        let mut rewritten = 0;
        for day in 0..600 {
            let plan = plan(&manifest, &found([day]));
            rewritten +=
                plan.jobs.iter().flat_map(|job| &job.carried).map(|one| one.stores.len()).sum::<usize>();
            manifest = after(&manifest, plan);
            let ids: HashSet<&str> = manifest.stores().map(|store| store.id.as_str()).collect();
            assert_eq!((ids.len(), manifest.stores().count()), (day + 1, day + 1));
        }
        assert!(manifest.parts.len() <= 12, "{}", manifest.parts.len());
        assert!(rewritten <= 600 * 9, "{rewritten}");
    }

    #[test]
    fn a_changed_store_leaves_its_part_and_what_was_known_stays_at_hand() {
        let first = after(&Manifest::empty(), plan(&Manifest::empty(), &found(0..3)));
        let second = plan(&first, &found([1]));
        assert!(second.kept.is_empty());
        let [job] = &second.jobs[..] else { panic!("{second:?}") };
        let carried: Vec<&str> =
            job.carried.iter().flat_map(|one| &one.stores).map(|store| store.id.as_str()).collect();
        assert_eq!(carried, ["0", "2"]);
        let [old] = &job.read[0].old[..] else { panic!("{job:?}") };
        assert_eq!((job.read[0].store.id.as_str(), old.stores[0].id.as_str()), ("1", "1"));
    }

    /// Its old rows were counted twice where both stores could not be read.
    #[test]
    fn what_is_known_of_a_store_stands_in_for_one_store_only() {
        let mut known = found([1]);
        known[0].store.id = "unborn".into();
        let first = after(&Manifest::empty(), plan(&Manifest::empty(), &known));
        let second = plan(&first, &found([1, 2]));
        let known: usize = second.jobs.iter().flat_map(|job| &job.read).map(|read| read.old.len()).sum();
        assert_eq!(known, 1);
        assert_eq!(after(&first, second).stores().count(), 2);
    }
}
