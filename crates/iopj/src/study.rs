//! The study that `iopj run` is asked for: a file or the quick one, with the values that options override.

use crate::args::RunArgs;
use anyhow::anyhow;
use iopj_core::files::read_whole_text;
use iopj_core::{Generator, IoPath, parse_duration};
use iopj_run::read_study;
use iopj_study::{Axis, Meters, Replicates, Study, WorkloadMatrix, matching};
use std::collections::BTreeSet;
use std::path::Path;

/// The longest study, in bytes.
const LONGEST: u64 = 1 << 20;
const QUICK: &str = include_str!("../../../studies/quick.toml");

/// The study to run, and what the user should know of it.
pub(crate) fn of(args: &RunArgs) -> anyhow::Result<(Study, Vec<String>)> {
    let mut study = match &args.study {
        Some(path) => read_study(&text(path)?, &path.display().to_string())?,
        None => read_study(QUICK, "quick.toml")?,
    };
    let mut notes = Vec::new();
    if !args.path.is_empty() {
        study.workloads.iter_mut().for_each(|workload| workload.paths = None);
        study.paths = paths(&args.path, args.taking.take_device.is_some(), &mut notes)?;
    }
    if let Some(name) = &args.name {
        study.rename(name, "--name")?;
    }
    if let Some(generator) = axis(&args.generator) {
        study.generator = generator;
    }
    if let Some(size) = &args.size {
        study.size.clone_from(size);
    }
    study.seed = args.seed.or(study.seed);
    replace(&mut study.meters, args.meters.clone().map(Meters::Word));
    study.profile |= args.profile;
    study.replicates = args.replicates.map_or(study.replicates, Replicates::Blocks);
    for workload in &mut study.workloads {
        if args.read_iolog.is_some() {
            leave_to_the_trace(workload);
        }
        replace(&mut workload.rw, axis(&args.rw));
        replace(&mut workload.rwmixread, axis(&args.rwmixread));
        replace(&mut workload.bs, axis(&args.bs));
        replace(&mut workload.iodepth, axis(&args.iodepth));
        replace(&mut workload.iodepth_batch_submit, axis(&args.iodepth_batch_submit));
        replace(&mut workload.iodepth_batch_complete_min, axis(&args.iodepth_batch_complete_min));
        replace(&mut workload.numjobs, axis(&args.numjobs));
        replace(&mut workload.random_distribution, axis(&args.random_distribution));
        put_load(workload, args);
        replace(&mut workload.cpus_allowed, args.cpus_allowed.clone());
        replace(&mut workload.ramp_time, args.ramp_time.clone());
        if args.runtime.is_some() || args.ios.is_some() {
            (workload.runtime, workload.ios) = (args.runtime.clone(), args.ios);
        }
    }
    if study.program.is_some() || study.generators()?.contains(&Generator::Program) {
        // What the options change must fit a program too.
        read_study(&study.to_toml()?, "the study and the options")?;
    }
    Ok((study, notes))
}

/// The keys that shape the load: arrivals, what works beside it, sizes and flushes, a trace.
fn put_load(workload: &mut WorkloadMatrix, args: &RunArgs) {
    replace(&mut workload.rate_iops, axis(&args.rate_iops));
    replace(&mut workload.rate_process, axis(&args.rate_process));
    replace(&mut workload.rate_iops_end, args.rate_iops_end);
    replace(&mut workload.burst_on, args.burst_on.clone());
    replace(&mut workload.burst_off, args.burst_off.clone());
    replace(&mut workload.corunner, axis(&args.corunner));
    replace(&mut workload.corunner_cpus, args.corunner_cpus.clone());
    replace(&mut workload.corunner_nice, axis(&args.corunner_nice));
    replace(&mut workload.bssplit, axis(&args.bssplit));
    if !args.bssplit.is_empty() {
        workload.bs = None;
    }
    replace(&mut workload.fsync, axis(&args.fsync));
    replace(&mut workload.fdatasync, axis(&args.fdatasync));
    replace(&mut workload.sync, axis(&args.sync));
    replace(&mut workload.read_iolog, args.read_iolog.clone());
    replace(&mut workload.replay_time_scale, axis(&args.replay_time_scale));
    replace(&mut workload.replay_no_stall, args.replay_no_stall.then_some(Axis::One(true)));
    replace(&mut workload.replay_scale, args.replay_scale);
    replace(&mut workload.replay_align, args.replay_align.clone());
    replace(&mut workload.replay_map, args.replay_map.clone());
    replace(&mut workload.replay_device, args.replay_device.clone());
    replace(&mut workload.replay_skip, axis(&args.replay_skip));
}

/// Leaves out what a trace says itself.
fn leave_to_the_trace(workload: &mut WorkloadMatrix) {
    (workload.rw, workload.rwmixread, workload.bs) = (None, None, None);
    (workload.random_distribution, workload.rate_iops, workload.rate_process) = (None, None, None);
    (workload.runtime, workload.ios) = (None, None);
}

/// The text of a study file.
pub(crate) fn text(file: &Path) -> anyhow::Result<String> {
    let unread = |error| {
        let name = file.display().to_string();
        let time = parse_duration(&name).map_or(String::new(), |_| format!(", or write --wait={name}"));
        anyhow!("`{name}` cannot be read ({error}): name a study file{time}")
    };
    read_whole_text(file, LONGEST).map_err(unread)
}

/// The paths of `--path`, and a note of what each pattern names. One that names more than kernel bypass
/// leaves that out unless a drive may be taken for it.
fn paths(patterns: &[String], may_bypass: bool, notes: &mut Vec<String>) -> anyhow::Result<Axis<String>> {
    if patterns.iter().any(|pattern| pattern == "available") {
        return Ok(Axis::Many(patterns.to_vec()));
    }
    let mut all: Vec<String> = Vec::new();
    for pattern in patterns {
        let mut found = matching(pattern)?;
        if !may_bypass && !found.iter().all(IoPath::is_bypass) {
            found.retain(|path| !path.is_bypass());
        }
        let found: Vec<String> = found.iter().map(IoPath::to_string).collect();
        if found != [pattern.as_str()] {
            notes.push(format!("--path {pattern}: {}", found.join(", ")));
        }
        all.extend(found);
    }
    let mut seen = BTreeSet::new();
    all.retain(|path| seen.insert(path.clone()));
    Ok(Axis::Many(all))
}

fn axis<T: Clone>(values: &[T]) -> Option<Axis<T>> {
    (!values.is_empty()).then(|| Axis::Many(values.to_vec()))
}

fn replace<T>(place: &mut Option<T>, value: Option<T>) {
    if value.is_some() {
        *place = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        run: RunArgs,
    }

    fn asked(line: &str) -> anyhow::Result<(Study, Vec<String>)> {
        of(&Line::try_parse_from(line.split_whitespace())?.run)
    }

    #[test]
    fn every_key_of_a_workload_is_an_option() {
        let line = "run --name n --size 2g --seed 7 --meters none --rw randrw --rwmixread 70,90 --bs 8k \
                    --iodepth 4 --iodepth-batch-submit 2 --iodepth-batch-complete-min 3 --numjobs 2 \
                    --random-distribution zipf:1.2 --cpus-allowed 0,1 --ramp-time 1s --ios 9";
        let loads = "--rate-iops 5 --rate-process poisson --rate-iops-end 6 --burst-on 1ms --burst-off 2ms \
                     --corunner spin --corunner-cpus 0 --corunner-nice 3";
        let sizes = "--bssplit 4k/50:8k/50 --fsync 8 --fdatasync 4 --sync dsync";
        let traces = "--read-iolog t.csv --replay-time-scale 50 --replay-no-stall --replay-scale 2 \
                      --replay-align 4k --replay-map wrap --replay-device 8,0 --replay-skip write";
        let (study, _) = asked(line).unwrap();
        assert_eq!((study.name.as_str(), study.size.as_str(), study.seed), ("n", "2g", Some(7)));
        assert_eq!(study.meters, Some(Meters::Word("none".to_owned())));
        let all = asked(&format!("{} {loads} {sizes} {traces}", line.replace("--bs 8k ", "")))
            .unwrap()
            .0
            .to_toml()
            .unwrap();
        let matrix = all.split("[[workload]]").nth(1).unwrap();
        let keys = iopj_study::keys::fields_of::<iopj_study::WorkloadMatrix>();
        let set: Vec<_> =
            keys.iter().filter(|key| !["paths", "runtime", "bs", "beside"].contains(key)).collect();
        assert!(set.iter().all(|key| matrix.contains(&format!("{key} = "))), "{matrix}");
        let traced = asked(&format!("run {traces}")).unwrap().0.workloads[0].workloads().unwrap();
        assert!(traced[0].trace.is_some() && traced[0].open.is_none(), "the quick study's rw gives way");
        let workloads = study.workloads[0].workloads().unwrap();
        assert_eq!(workloads.iter().map(|one| one.rwmixread).collect::<Vec<_>>(), [70, 90]);
        assert_eq!((workloads[0].iodepth_batch_submit, &workloads[0].cpus_allowed[..]), (2, &[0, 1][..]));
        assert!(asked("run --name ../n").unwrap_err().to_string().contains("--name: name: `../n` cannot"));
    }

    /// Nobody could name a group of paths.
    #[test]
    fn a_pattern_of_paths_is_named_in_one_line() {
        let (study, notes) = asked("run --path libaio/syscall/interrupt,*/poll,io_uring").unwrap();
        assert_eq!(
            notes,
            [
                "--path */poll: posix-sio/syscall/poll, io_uring/syscall/poll, io_uring/sqpoll/poll, \
                 nvme-passthrough/syscall/poll, nvme-passthrough/sqpoll/poll",
                "--path io_uring: io_uring/syscall/interrupt, io_uring/syscall/poll, \
                 io_uring/syscall/hybrid, io_uring/sqpoll/interrupt, io_uring/sqpoll/poll, \
                 io_uring/sqpoll/hybrid"
            ]
        );
        let Axis::Many(paths) = study.paths else { panic!("one path") };
        assert_eq!(paths.len(), 1 + 5 + 4);
        let taken = asked("run --path */poll --take-device 0000:01:00.0").unwrap().1;
        assert!(taken[0].ends_with(", nvme-user/doorbell/poll, spdk/doorbell/poll"), "{taken:?}");
        assert_eq!(asked("run --path nvme-user").unwrap().1[0].matches("nvme-user/").count(), 3);
    }

    #[test]
    fn a_resumed_run_takes_no_option_of_the_matrix() {
        use clap::CommandFactory;
        let command = Line::command();
        let of_matrix = |arg: &&clap::Arg| arg.get_help_heading() == Some("Matrix");
        let names: Vec<_> =
            command.get_arguments().filter(of_matrix).filter_map(clap::Arg::get_long).collect();
        assert!(names.len() > 15, "{names:?}");
        for name in names {
            let refused = Line::try_parse_from(["run", "--resume", "s", &format!("--{name}"), "1"]);
            let kind = refused.map(drop).unwrap_err().kind();
            assert_eq!(kind, clap::error::ErrorKind::ArgumentConflict, "{name}");
        }
    }
}
