//! `[[workload.beside]]`: jobs of other kinds that do I/O at the same time as those of the workload.

use crate::axis::product;
use crate::error::{StudyError, error};
use crate::keys::{check_keys, fields_of};
use crate::matrix::WorkloadMatrix;
use crate::values::parse_paths;
use iopj_core::{JobsBeside, Length, Workload};

/// Where a table of jobs beside stands.
const PLACE: &str = "[[workload.beside]]";
/// What jobs beside share with the workload, or cannot have.
const SHARED: [&str; 3] = ["ramp_time", "runtime", "ios"];
const OWN: [&str; 5] = ["corunner", "corunner_cpus", "corunner_nice", "read_iolog", "beside"];

/// Refuses tables of jobs beside that are none, or have keys that are unknown or not theirs.
pub(crate) fn check_tables(workload: &toml::Table, source: &str) -> Result<(), StudyError> {
    let tables = match workload.get("beside") {
        None => return Ok(()),
        Some(toml::Value::Array(all)) if all.iter().all(toml::Value::is_table) => all,
        Some(_) => return error(format!("{source}: `beside` is a list of tables: write {PLACE}")),
    };
    let known = fields_of::<WorkloadMatrix>();
    for jobs in tables.iter().filter_map(toml::Value::as_table) {
        check_keys(jobs, known, source, &format!(" in {PLACE}"))?;
        if let Some(key) = jobs.keys().find(|key| SHARED.contains(&key.as_str())) {
            return error(format!(
                "{source}: `{key}` in {PLACE}: jobs beside have the ramp and the window of the workload: \
                 write it in [[workload]] alone"
            ));
        }
        let is_not_theirs = |key: &&String| OWN.contains(&key.as_str()) || key.starts_with("replay_");
        if let Some(key) = jobs.keys().find(is_not_theirs) {
            return error(format!(
                "{source}: `{key}` in {PLACE}: jobs beside have none of their own: write it in [[workload]], \
                 or leave it out"
            ));
        }
        if !jobs.contains_key("paths") {
            return error(format!(
                "{source}: `paths` is missing in {PLACE}: name the path of the jobs beside, such as paths = \
                 \"posix-sio/syscall/interrupt\""
            ));
        }
    }
    Ok(())
}

/// Combines with all kinds of jobs beside; a list in one of their keys is an axis, as ever.
pub(crate) fn spread_beside(matrix: &WorkloadMatrix, all: &mut Vec<Workload>) -> Result<(), StudyError> {
    if matrix.beside.is_empty() {
        return Ok(());
    }
    let Some(Workload { length: Length::Runtime(runtime), ramp_time, .. }) = all.first().cloned() else {
        return error(format!("{PLACE} needs a window that ends with time: give `runtime` in [[workload]]"));
    };
    if matrix.read_iolog.is_some() {
        return error(format!(
            "{PLACE} and `read_iolog`: the trace has what all jobs do: leave one of them out"
        ));
    }
    for jobs in &matrix.beside {
        let kinds = kinds_of(jobs)?;
        *all = product(all, &kinds, |workload, jobs| {
            let shared = Workload { length: Length::Runtime(runtime), ramp_time, ..jobs.workload.clone() };
            workload.beside.push(JobsBeside { path: jobs.path, workload: shared });
        });
    }
    Ok(())
}

/// Every kind of a table of jobs beside.
fn kinds_of(jobs: &WorkloadMatrix) -> Result<Vec<JobsBeside>, StudyError> {
    let of_beside = |StudyError(why)| StudyError(format!("{PLACE}: {why}"));
    let paths = jobs.paths.as_ref().map(parse_paths).transpose().map_err(of_beside)?;
    let Some(Some(paths)) = paths else {
        return error(format!(
            "{PLACE}: `available` stands for no path here: name the path of the jobs beside"
        ));
    };
    let workloads = jobs.workloads().map_err(of_beside)?;
    let mut kinds = Vec::new();
    for workload in &workloads {
        for &path in &paths {
            if path.is_bypass() {
                return error(format!(
                    "{PLACE}: {path} takes the whole drive, and jobs of another kind could not reach it: \
                     name a path of the kernel"
                ));
            }
            if path.is_synchronous() && workload.iodepth > 1 {
                return error(format!(
                    "{PLACE}: {path} is synchronous and has no iodepth above 1: raise numjobs instead"
                ));
            }
            kinds.push(JobsBeside { path, workload: workload.clone() });
        }
    }
    Ok(kinds)
}

#[cfg(test)]
mod tests {
    use crate::plan;
    use crate::study::Study;

    fn parsed(workload: &str) -> Result<Vec<plan::Cell>, String> {
        let text = format!(
            "name = \"s\"\npaths = [\"io_uring/syscall/interrupt\", \"libaio/syscall/interrupt\"]\n\
             [[workload]]\n{workload}"
        );
        let study = Study::parse(&text, "s.toml").map_err(|error| error.to_string())?;
        plan::cells(&study, &[]).map(|(cells, _)| cells).map_err(|error| error.to_string())
    }

    const LOG: &str = "[[workload.beside]]\npaths = \"posix-sio/syscall/interrupt\"\nrw = \"write\"\n\
                       bs = \"8k\"\nfdatasync = 1\nrate_iops = 500\n";

    #[test]
    fn jobs_beside_have_the_window_of_their_workload_and_all_else_of_their_own() {
        let cells = parsed(&format!("iodepth = 8\nruntime = \"2s\"\nramp_time = \"1s\"\n{LOG}")).unwrap();
        assert_eq!(cells.len(), 2);
        let [jobs] = &cells[0].workload.beside[..] else { panic!("one kind beside") };
        let own = &cells[0].workload;
        assert_eq!((jobs.workload.length, jobs.workload.ramp_time), (own.length, own.ramp_time));
        assert_eq!((jobs.workload.bs, jobs.workload.fdatasync, jobs.workload.iodepth), (8192, 1, 1));
        assert_eq!((own.bs, own.fdatasync, own.iodepth, own.writes()), (4096, 0, 8, true));
    }

    #[test]
    fn lists_of_jobs_beside_are_axes() {
        let two = LOG.replace("rate_iops = 500", "rate_iops = [500, 1000]").replace(
            "\"posix-sio/syscall/interrupt\"",
            "[\"posix-sio/syscall/interrupt\", \"io_uring/syscall/interrupt\"]",
        );
        let cells = parsed(&format!("runtime = \"1s\"\n{two}{LOG}")).unwrap();
        assert_eq!(cells.len(), 2 * 4);
        assert!(cells.iter().all(|cell| cell.workload.beside.len() == 2));
    }

    #[test]
    fn jobs_beside_that_cannot_be_are_refused() {
        let refused = |workload: &str| parsed(workload).unwrap_err();
        let with = |key: &str| refused(&format!("runtime = \"1s\"\n{LOG}{key}\n"));
        for (key, words) in [
            ("runtime = \"3s\"", "have the ramp and the window of the workload"),
            ("corunner = \"spin\"", "have none of their own"),
            ("replay_scale = 2", "have none of their own"),
            ("iodepth = 2", "is synchronous and has no iodepth above 1"),
            ("iodpeth = 2", "unknown key `iodpeth` in [[workload.beside]]: did you mean `iodepth`?"),
        ] {
            assert!(with(key).contains(words), "{key}: {}", with(key));
        }
        let path = |path: &str| {
            refused(&format!("runtime = \"1s\"\n{}", LOG.replace("posix-sio/syscall/interrupt", path)))
        };
        assert!(path("available").contains("stands for no path here"), "{}", path("available"));
        let bypass = path("nvme-user/doorbell/poll");
        assert!(bypass.contains("takes the whole drive"), "{bypass}");
        assert!(refused(&format!("ios = 5\n{LOG}")).contains("give `runtime`"));
        assert!(refused("beside = 5\n").contains("`beside` is a list of tables"));
        assert!(refused("[[workload.beside]]\nrw = \"write\"\n").contains("`paths` is missing"));
        let traced = refused(&format!("read_iolog = \"t.log\"\nruntime = \"1s\"\n{LOG}"));
        assert!(traced.contains("leave one of them out"), "{traced}");
    }
}
