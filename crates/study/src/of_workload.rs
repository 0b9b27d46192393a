//! A workload as the keys of a study: the way back from a record to a file that can be run.

use crate::axis::Axis;
use crate::matrix::WorkloadMatrix;
use iopj_core::{Burst, JobsBeside, Length, TraceLoad, Workload, format_bytes, format_duration};

impl WorkloadMatrix {
    /// The matrix whose one workload is this one. A file of a trace is named as the workload names it.
    pub fn of(workload: &Workload) -> WorkloadMatrix {
        let plain = Workload::default();
        let of = |value: u32, plain: u32| (value != plain).then_some(Axis::One(value));
        let (open, corunner) = (workload.open, workload.corunner.as_ref());
        let trace = workload.trace.as_ref();
        let (runtime, ios) = match workload.length {
            Length::WHOLE_TRACE => (None, None),
            Length::Runtime(time) => (Some(format_duration(time)), None),
            Length::Ios(ios) => (None, Some(ios)),
        };
        let burst = |time: fn(&Burst) -> std::time::Duration| {
            open.and_then(|open| open.burst).map(|burst| format_duration(time(&burst)))
        };
        // What a trace says is not said again.
        let is_said = trace.is_none();
        WorkloadMatrix {
            rw: is_said.then(|| Axis::One(workload.rw.to_string())),
            rwmixread: (is_said && workload.rw.is_mixed()).then_some(Axis::One(workload.rwmixread)),
            bs: workload.sizes.is_none().then(|| Axis::One(format_bytes(workload.bs.into()))),
            bssplit: workload.sizes.as_ref().map(|sizes| Axis::One(sizes.to_string())),
            fsync: of(workload.fsync, plain.fsync),
            fdatasync: of(workload.fdatasync, plain.fdatasync),
            sync: (workload.sync != plain.sync).then(|| Axis::One(workload.sync.to_string())),
            iodepth: Some(Axis::One(workload.iodepth)),
            iodepth_batch_submit: of(workload.iodepth_batch_submit, plain.iodepth_batch_submit),
            iodepth_batch_complete_min: of(
                workload.iodepth_batch_complete_min,
                plain.iodepth_batch_complete_min,
            ),
            numjobs: Some(Axis::One(workload.numjobs)),
            random_distribution: (is_said && workload.random_distribution != plain.random_distribution)
                .then(|| Axis::One(workload.random_distribution.to_string())),
            cpus_allowed: processors(&workload.cpus_allowed),
            ramp_time: (!workload.ramp_time.is_zero()).then(|| format_duration(workload.ramp_time)),
            runtime,
            ios,
            rate_iops: open.map(|open| Axis::One(open.rate_iops)),
            rate_process: open.map(|open| Axis::One(open.rate_process.to_string())),
            rate_iops_end: open.and_then(|open| open.rate_iops_end),
            burst_on: burst(|burst| burst.on),
            burst_off: burst(|burst| burst.off),
            corunner: corunner.map(|one| Axis::One(one.kind.to_string())),
            corunner_cpus: corunner.and_then(|one| processors(&one.cpus)),
            corunner_nice: corunner.map(|one| Axis::One(one.nice.into())),
            beside: workload.beside.iter().map(beside).collect(),
            ..trace.map_or_else(WorkloadMatrix::default, of_trace)
        }
    }
}

/// Jobs beside. What they share with the workload that they are beside is not said again.
fn beside(jobs: &JobsBeside) -> WorkloadMatrix {
    WorkloadMatrix {
        paths: Some(Axis::One(jobs.path.to_string())),
        ramp_time: None,
        runtime: None,
        ..WorkloadMatrix::of(&jobs.workload)
    }
}

/// The keys of a trace.
fn of_trace(trace: &TraceLoad) -> WorkloadMatrix {
    let skip: Vec<String> = trace.skip.iter().map(|op| format!("{op:?}").to_lowercase()).collect();
    WorkloadMatrix {
        read_iolog: Some(trace.file.clone()),
        replay_time_scale: Some(Axis::One(trace.time_scale)),
        replay_no_stall: trace.no_stall.then_some(Axis::One(true)),
        replay_scale: (trace.scale != 1).then_some(trace.scale),
        replay_align: (trace.align != 1).then(|| format_bytes(trace.align)),
        replay_map: trace.wrap.then(|| "wrap".to_owned()),
        replay_device: trace.device.clone(),
        replay_skip: (!skip.is_empty()).then_some(Axis::Many(skip)),
        ..WorkloadMatrix::default()
    }
}

/// Processors as a key has them; none where all are meant.
fn processors(cpus: &[u32]) -> Option<String> {
    let list = || cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    (!cpus.is_empty()).then(list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_core::{
        Corunner, CorunnerKind, OpenLoad, RandomDistribution, RateProcess, Rw, TraceOp, WriteSync,
    };
    use std::time::Duration;

    #[test]
    fn every_workload_comes_back() {
        let ms = Duration::from_millis;
        let burst = Some(Burst { on: ms(10), off: ms(30) });
        let open = OpenLoad { rate_process: RateProcess::Poisson, burst, ..OpenLoad::at(500) };
        let corunner = Corunner { cpus: vec![1, 3], nice: -5, ..Corunner::of(CorunnerKind::Memory) };
        let trace = TraceLoad {
            time_scale: 50,
            no_stall: true,
            scale: 2,
            align: 4096,
            wrap: true,
            device: Some("8,0".to_owned()),
            skip: vec![TraceOp::Write],
            ..TraceLoad::of("a.log")
        };
        let plain = Workload::default();
        for workload in [
            plain.clone(),
            Workload {
                rw: Rw::Randrw,
                rwmixread: 70,
                bs: 512,
                iodepth: 32,
                iodepth_batch_submit: 8,
                iodepth_batch_complete_min: 4,
                numjobs: 3,
                ramp_time: ms(100),
                length: Length::Ios(10),
                random_distribution: RandomDistribution::Zipf(1.2),
                cpus_allowed: vec![0, 2],
                open: Some(open),
                corunner: Some(corunner),
                ..plain.clone()
            },
            Workload {
                rw: Rw::Randwrite,
                bs: 16_384,
                sizes: Some("4k/50:16k/50".parse().unwrap()),
                fsync: 3,
                fdatasync: 1,
                sync: WriteSync::Dsync,
                ..plain.clone()
            },
            Workload { open: Some(OpenLoad { rate_iops_end: Some(9), ..OpenLoad::at(1) }), ..plain.clone() },
            Workload {
                beside: vec![JobsBeside {
                    path: "libaio/syscall/interrupt".parse().unwrap(),
                    workload: Workload {
                        rw: Rw::Write,
                        fdatasync: 1,
                        open: Some(OpenLoad::at(9)),
                        ..plain.clone()
                    },
                }],
                ..plain.clone()
            },
            Workload { rw: Rw::Randrw, bs: 8192, length: Length::WHOLE_TRACE, trace: Some(trace), ..plain },
        ] {
            let matrix = WorkloadMatrix::of(&workload);
            let toml = toml::to_string(&matrix).unwrap();
            let read: WorkloadMatrix = toml::from_str(&toml).unwrap();
            assert_eq!(read.workloads().unwrap(), [workload], "{toml}");
        }
    }
}
