//! Checks before a run is continued: the drive is the same, and so is the state of the target.

use crate::error::RunError;
use iopj_core::IoPath;
use iopj_metering::{Progress, unix_ns};
use iopj_record::{StudyRecord, Trial};
use iopj_store::Store;
use iopj_study::plan::Cell;
use std::collections::BTreeMap;

/// Refuses another drive, and notes another kernel.
pub(crate) fn compare_machines(
    record: &StudyRecord,
    facts: &BTreeMap<String, String>,
    store: &mut Store,
    progress: &mut dyn Progress,
) -> Result<(), RunError> {
    compare_drives(&record.provenance, facts)?;
    for (name, now) in facts {
        let Some(before) = record.provenance.get(name).filter(|before| *before != now) else { continue };
        if ["target_bytes", "here.target_bytes", "target_logical_block"].contains(&name.as_str()) {
            return Err(RunError::Refused(format!(
                "{name} was {before} when the store's trials were measured, and is {now} now: continue on \
                 the same drive, or start a new store"
            )));
        }
        if name == "target_inode" {
            return Err(RunError::Refused(format!(
                "the target was the file with inode {before} when the store's trials were measured, and \
                 another file is in its place now, with inode {now}: put the first one back, or start a new \
                 store"
            )));
        }
        if name == "kernel" || name == "cpu_model" {
            let change = format!("{name} has changed from {before} to {now} since the first trials");
            progress.note(&format!("warning: {change}"));
            store.add_event(unix_ns(), "changed", &change)?;
        }
    }
    Ok(())
}

/// What tells a drive from others, as provenance calls it, and in words.
const TELLING: [(&str, &str); 5] = [
    ("serial", "serial number"),
    ("wwid", "worldwide id"),
    ("model", "model"),
    ("sectors", "number of sectors"),
    ("backing_file", "backing file"),
];

/// Refuses drives that are not those of the first trials, whatever the kernel calls either: a name goes to
/// another drive at a boot, and when a drive is pulled.
fn compare_drives(before: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Result<(), RunError> {
    for (key, words) in TELLING {
        let (before, now) = (of_drives(before, key), of_drives(now, key));
        for (side, values) in &before {
            if key == "backing_file" && !now.contains_key(side) {
                return RunError::refuse(format!(
                    "the drive was a loop device on the file {} when the store's trials were measured, and \
                     nobody can tell what it lies on now: continue on the same drive, or start a new store",
                    values.join(" and ")
                ));
            }
            // A drive that is taken from its driver has two names in some runs, and one in others.
            let is_another = |now: &&Vec<&str>| now.iter().any(|value| !values.contains(value));
            let Some(now) = now.get(side).filter(is_another) else { continue };
            let of = if side.is_empty() { String::new() } else { format!(" of `{side}`") };
            return RunError::refuse(format!(
                "the drive{of} had the {words} {} when the store's trials were measured, and has {} now: \
                 continue on the same drive, or start a new store",
                values.join(" and "),
                now.join(" and ")
            ));
        }
    }
    Ok(())
}

/// The values of one key of all drives, sorted, by what stands before the drives' names: nothing, `here` or
/// `target_host`.
fn of_drives<'a>(facts: &'a BTreeMap<String, String>, key: &str) -> BTreeMap<&'a str, Vec<&'a str>> {
    let mut values = BTreeMap::<&str, Vec<&str>>::new();
    for (name, value) in facts {
        let Some(drive) = name.strip_suffix(key).and_then(|rest| rest.strip_suffix('.')) else { continue };
        let side = ["here", "target_host"]
            .into_iter()
            .find(|side| drive.strip_prefix(side).is_some_and(|rest| rest.starts_with('.')));
        values.entry(side.unwrap_or_default()).or_default().push(value);
    }
    values.values_mut().for_each(|all| {
        all.sort_unstable();
        all.dedup();
    });
    values
}

/// Refuses a store whose reads found the target as it was, as in earlier versions of iopj: the missing reads
/// would find it filled.
pub(crate) fn check_reads(trials: &[Trial]) -> Result<(), RunError> {
    let as_found = |trial: &&Trial| {
        let measured = trial.outcome.measurement();
        !trial.workload.writes() && measured.is_some_and(|measurement| measurement.preconditioning.is_none())
    };
    match trials.iter().find(as_found) {
        None => Ok(()),
        Some(Trial { position, .. }) => Err(RunError::Refused(format!(
            "an earlier version of iopj measured trial {position} without preconditioning the target for \
             reads, and the missing trials would read a preconditioned one: start a new store"
        ))),
    }
}

/// Refuses paths that choose their way if they would now choose on the other side of the drive than in the
/// store's trials: among the ways of a drive that is taken, or among the kernel's. `cells` are those of the
/// study, which may need the drive taken for other paths.
pub(crate) fn check_sides(trials: &[Trial], cells: &[Cell], may_take: bool) -> Result<(), RunError> {
    let needs_it = cells.iter().map(|cell| cell.path).find(IoPath::is_bypass);
    for trial in trials.iter().filter(|trial| trial.path.auto().is_some()) {
        let engine = trial.outcome.measurement().and_then(|measurement| measurement.evidence.engine.as_ref());
        let Some(routes) = engine.and_then(|engine| engine.routes.as_deref()) else { continue };
        let now = trial.path.is_bypass_on(may_take);
        let Some(other) = routes.ways.iter().find(|route| route.way.is_bypass() != now) else { continue };
        let of = if now { "those of the drive that is taken" } else { "the kernel's" };
        let remedy = match (now, needs_it) {
            (true, Some(path)) => format!("{path} needs it taken, so start a new store"),
            (true, None) => "leave --take-device out, or start a new store".to_owned(),
            (false, _) => "name the drive by --take-device again, or start a new store".to_owned(),
        };
        return RunError::refuse(format!(
            "{} took {} in the store's trial {}, and would choose among {of} now: {remedy}",
            trial.path, other.way, trial.position
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_core::evidence::{EngineEvidence, Evidence};
    use iopj_core::{Route, Routes, Way, Workload};
    use iopj_metering::Said;
    use iopj_record::{Measurement, Outcome};
    use iopj_study::plan;

    #[test]
    fn another_drive_of_this_host_beside_the_target_hosts_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let facts = |bytes: &str| BTreeMap::from([("here.target_bytes".to_owned(), bytes.to_owned())]);
        let record = StudyRecord { provenance: facts("1000"), ..StudyRecord::default() };
        let mut store = Store::create(&folder.path().join("s.iopj"), &record).unwrap();
        let mut compare =
            |bytes: &str| compare_machines(&record, &facts(bytes), &mut store, &mut Said::default());
        assert!(compare("1000").is_ok());
        let error = compare("2000").unwrap_err().to_string();
        assert!(error.starts_with("here.target_bytes was 1000 "), "{error}");
    }

    /// A drive that had taken another's place under another name was written and mixed into the store.
    #[test]
    fn a_drive_is_known_by_what_it_is_and_not_by_its_name() {
        let facts = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let before = facts(&[
            ("sdb.serial", "S1"),
            ("sdb.model", "M"),
            ("sdb.sectors", "100"),
            ("sdb.wwid", "naa.1"),
            ("here.nvme0n1.serial", "S9"),
            ("target_logical_block", "512"),
        ]);
        let why = |now: &[(&str, &str)]| {
            compare_drives(&before, &facts(now)).map_or_else(|error| error.to_string(), |()| String::new())
        };
        assert_eq!(why(&[("sdc.serial", "S1"), ("sdc.model", "M"), ("sdc.sectors", "100")]), "");
        assert_eq!(why(&[("0000:00:04.0.serial", "S1"), ("sdb.serial", "S1")]), "", "one that is taken");
        assert!(why(&[("sdc.serial", "S2")]).starts_with("the drive had the serial number S1 when"));
        assert!(why(&[("sdb.serial", "S1"), ("sdb.wwid", "naa.2")]).contains("the worldwide id naa.1 when"));
        assert!(why(&[("sdb.model", "N")]).contains("the model M when"));
        assert!(why(&[("vda.sectors", "101")]).contains("and has 101 now"));
        assert!(
            why(&[("here.nvme1n1.serial", "S8")]).starts_with("the drive of `here` had the serial number")
        );
        // What the first run did not learn cannot be compared.
        assert_eq!(why(&[("sdb.backing_file", "1:2:3")]), "");
        let of_loop = facts(&[("loop0.backing_file", "1794:28 from 512")]);
        let unknown = compare_drives(&of_loop, &facts(&[("loop0.sectors", "9")])).unwrap_err().to_string();
        assert!(
            unknown.contains("the file 1794:28 from 512 when") && unknown.contains("nobody can tell"),
            "{unknown}"
        );
    }

    #[test]
    fn a_path_that_chose_on_the_other_side_of_the_drive_is_not_continued() {
        let took = |way| {
            let ways = vec![Route { way, ios: 9, pass_ios: 0 }];
            let routes = Some(Box::new(Routes { ways, ..Routes::default() }));
            let engine = Some(EngineEvidence { routes, ..EngineEvidence::default() });
            let evidence = Evidence { engine, ..Evidence::default() };
            let measured = Measurement { evidence, ..Measurement::default() };
            let outcome = Outcome::Measured(Box::new(measured));
            let auto = Trial::new("auto:cpu".parse().unwrap(), Workload::default(), outcome);
            [Trial { position: 3, ..auto }]
        };
        let cells = |paths: &str| {
            let text = format!("name = \"s\"\npaths = [{paths}]\n[[workload]]\nrw = \"randread\"\n");
            let study = iopj_study::Study::parse(&text, "s.toml").unwrap();
            plan::cells(&study, &[]).unwrap().0
        };
        let (alone, beside) = (cells("\"auto:cpu\""), cells("\"auto:cpu\", \"nvme-user/doorbell/poll\""));
        let refused_of = |cells: &[Cell], way, may_take| {
            check_sides(&took(way), cells, may_take).err().map(|error| error.to_string())
        };
        let refused = |way, may_take| refused_of(&alone, way, may_take);
        assert_eq!([refused(Way::UserPoll, true), refused(Way::Sqpoll, false)], [None, None]);
        let message = refused(Way::UserPoll, false).unwrap();
        let took = "auto:cpu took nvme-user/doorbell/poll in the store's trial 3, and would choose among the";
        assert!(message.starts_with(took), "{message}");
        assert!(message.contains("name the drive by --take-device again"), "{message}");
        let message = refused(Way::Sqpoll, true).unwrap();
        assert!(message.ends_with("now: leave --take-device out, or start a new store"), "{message}");
        // Another path of the study needs the drive.
        let message = refused_of(&beside, Way::Sqpoll, true).unwrap();
        let remedy = "now: nvme-user/doorbell/poll needs it taken, so start a new store";
        assert!(message.ends_with(remedy), "{message}");
        assert_eq!(refused_of(&beside, Way::UserPoll, true), None);
    }
}
