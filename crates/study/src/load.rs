//! Keys of a workload that shape its load: arrivals, a trace, a co-runner.

use crate::axis::{Axis, spread};
use crate::error::{StudyError, error};
use crate::matrix::WorkloadMatrix;
use crate::time::duration;
use crate::values::{parse_cpus, parsed};
use iopj_core::workload::{Length, Rw, Workload, WriteSync};
use iopj_core::{
    BlockSizes, Burst, Corunner, CorunnerKind, OpenLoad, RateProcess, TraceLoad, TraceOp, parse_bytes,
};
use std::time::Duration;

/// Combines with every co-runner, at every niceness.
pub(crate) fn spread_corunner(matrix: &WorkloadMatrix, all: &mut Vec<Workload>) -> Result<(), StudyError> {
    let others = [
        ("corunner_cpus", matrix.corunner_cpus.is_some()),
        ("corunner_nice", matrix.corunner_nice.is_some()),
    ];
    if let (None, Some((key, _))) = (&matrix.corunner, others.iter().find(|(_, is_there)| *is_there)) {
        return error(format!("`{key}` shapes a co-runner, and `corunner` is missing: give its kind"));
    }
    let mut cpus =
        matrix.corunner_cpus.as_deref().map_or(Ok(Vec::new()), |text| parse_cpus("corunner_cpus", text))?;
    cpus.sort_unstable();
    cpus.dedup();
    let kind = |text: &String| match text.as_str() {
        "none" => Ok(None),
        text => parsed::<CorunnerKind>(text).map(Some),
    };
    spread(all, "corunner", &matrix.corunner, kind, |w, kind| {
        w.corunner = kind.map(|kind| Corunner { cpus: cpus.clone(), ..Corunner::of(kind) });
    })?;
    spread(all, "corunner_nice", &matrix.corunner_nice, niceness, |w, nice| {
        if let Some(corunner) = &mut w.corunner {
            corunner.nice = *nice;
        }
    })
}

/// The open load that the axes of arrivals start from; none without `rate_iops`.
pub(crate) fn plain_open(matrix: &WorkloadMatrix, length: Length) -> Result<Option<OpenLoad>, StudyError> {
    let others = [
        ("rate_process", matrix.rate_process.is_some()),
        ("rate_iops_end", matrix.rate_iops_end.is_some()),
        ("burst_on", matrix.burst_on.is_some()),
        ("burst_off", matrix.burst_off.is_some()),
    ];
    if matrix.rate_iops.is_none() {
        return match others.iter().find(|(_, is_there)| *is_there) {
            Some((key, _)) => {
                error(format!("`{key}` shapes an open load, and `rate_iops` is missing: give the rate"))
            }
            None => Ok(None),
        };
    }
    let rate_iops_end = matrix.rate_iops_end.as_ref().map(rate).transpose();
    let rate_iops_end = rate_iops_end.map_err(|e| StudyError(format!("rate_iops_end: {e}")))?;
    if rate_iops_end.is_some() && !matches!(length, Length::Runtime(_)) {
        return error("`rate_iops_end` is the rate at the window's end: give `runtime` instead of `ios`");
    }
    let time = |key: &str, text: &String| match duration(key, text)? {
        Duration::ZERO => error(format!("`{key}` is 0: give a time such as 10ms, or leave both out")),
        time => Ok(time),
    };
    let burst = match (&matrix.burst_on, &matrix.burst_off) {
        (None, None) => None,
        (Some(on), Some(off)) => Some(Burst { on: time("burst_on", on)?, off: time("burst_off", off)? }),
        (Some(_), None) => return error("`burst_on` without `burst_off`: give both times"),
        (None, Some(_)) => return error("`burst_off` without `burst_on`: give both times"),
    };
    Ok(Some(OpenLoad { rate_iops_end, burst, ..OpenLoad::at(1) }))
}

/// Combines with every rate and every spacing of arrivals.
pub(crate) fn spread_open(matrix: &WorkloadMatrix, all: &mut Vec<Workload>) -> Result<(), StudyError> {
    spread(all, "rate_iops", &matrix.rate_iops, rate, |w, rate| {
        w.open = w.open.map(|open| OpenLoad { rate_iops: *rate, ..open });
    })?;
    let process = |text: &String| parsed::<RateProcess>(text);
    spread(all, "rate_process", &matrix.rate_process, process, |w, process| {
        w.open = w.open.map(|open| OpenLoad { rate_process: *process, ..open });
    })
}

/// Combines with every list of sizes, every number of writes between flushes, and every way to make writes
/// durable.
pub(crate) fn spread_sizes(matrix: &WorkloadMatrix, all: &mut Vec<Workload>) -> Result<(), StudyError> {
    if matrix.bs.is_some() && matrix.bssplit.is_some() {
        return error("`bs` and `bssplit`: the list has all sizes: leave `bs` out");
    }
    let sizes = |text: &String| parsed::<BlockSizes>(text);
    spread(all, "bssplit", &matrix.bssplit, sizes, |w, sizes| {
        (w.bs, w.sizes) = (sizes.largest(), Some(sizes.clone()));
    })?;
    let any = |writes: &u32| Ok(*writes);
    spread(all, "fsync", &matrix.fsync, any, |w, writes| w.fsync = *writes)?;
    spread(all, "fdatasync", &matrix.fdatasync, any, |w, writes| w.fdatasync = *writes)?;
    let sync = |text: &String| parsed::<WriteSync>(text);
    spread(all, "sync", &matrix.sync, sync, |w, sync| w.sync = *sync)?;
    let is_flat = |w: &&Workload| w.sizes.is_some() && !w.rw.is_random();
    if let Some(w) = all.iter().find(is_flat) {
        return error(format!(
            "`bssplit` and rw = \"{}\": several sizes need a random rw, such as randrw",
            w.rw
        ));
    }
    let has_nothing_to_flush =
        |w: &&Workload| (w.fsync > 0 || w.fdatasync > 0 || w.sync != WriteSync::None) && !w.rw.writes();
    if let Some(w) = all.iter().find(has_nothing_to_flush) {
        return error(format!(
            "`fsync`, `fdatasync` or `sync` and rw = \"{}\": there are no writes to make durable",
            w.rw
        ));
    }
    Ok(())
}

/// Combines with every replay of the trace, if the load is one. What a trace does, and how much at once, is
/// in the trace, so `rw` only says what the replay may do, and `bs` is the longest I/O.
pub(crate) fn spread_trace(matrix: &WorkloadMatrix, all: &mut Vec<Workload>) -> Result<(), StudyError> {
    let Some(plain) = plain_trace(matrix)? else { return Ok(()) };
    let rw = match (plain.reads(), plain.writes()) {
        (true, true) => Rw::Randrw,
        (_, false) => Rw::Randread,
        (false, true) => Rw::Randwrite,
    };
    for workload in all.iter_mut() {
        workload.trace = Some(plain.clone());
        workload.rw = rw;
        workload.bs = if matrix.bs.is_none() { LONGEST_OF_TRACE } else { workload.bs };
    }
    let scale = |scale: &u32| match scale {
        0 => Err("0 would last for ever: write a percentage of at least 1".to_owned()),
        scale => Ok(*scale),
    };
    spread(all, "replay_time_scale", &matrix.replay_time_scale, scale, |w, scale| {
        if let Some(trace) = &mut w.trace {
            trace.time_scale = *scale;
        }
    })?;
    spread(
        all,
        "replay_no_stall",
        &matrix.replay_no_stall,
        |no_stall| Ok(*no_stall),
        |w, no_stall| {
            if let Some(trace) = &mut w.trace {
                trace.no_stall = *no_stall;
            }
        },
    )
}

/// I/Os of a trace that are longer are split, unless `bs` says otherwise.
const LONGEST_OF_TRACE: u32 = 1 << 20;

/// The trace that its axes start from; none without `read_iolog`.
fn plain_trace(matrix: &WorkloadMatrix) -> Result<Option<TraceLoad>, StudyError> {
    let shapes = [
        ("replay_time_scale", matrix.replay_time_scale.is_some()),
        ("replay_no_stall", matrix.replay_no_stall.is_some()),
        ("replay_scale", matrix.replay_scale.is_some()),
        ("replay_align", matrix.replay_align.is_some()),
        ("replay_map", matrix.replay_map.is_some()),
        ("replay_device", matrix.replay_device.is_some()),
        ("replay_skip", matrix.replay_skip.is_some()),
    ];
    let Some(file) = &matrix.read_iolog else {
        return match shapes.iter().find(|(_, is_there)| *is_there) {
            Some((key, _)) => error(format!(
                "`{key}` shapes the replay of a trace, and `read_iolog` is missing: name the trace's file"
            )),
            None => Ok(None),
        };
    };
    let in_the_trace = [
        ("rw", matrix.rw.is_some()),
        ("bssplit", matrix.bssplit.is_some()),
        ("fsync", matrix.fsync.is_some()),
        ("fdatasync", matrix.fdatasync.is_some()),
        ("sync", matrix.sync.is_some()),
        ("rwmixread", matrix.rwmixread.is_some()),
        ("random_distribution", matrix.random_distribution.is_some()),
        ("rate_iops", matrix.rate_iops.is_some()),
    ];
    if let Some((key, _)) = in_the_trace.iter().find(|(_, is_there)| *is_there) {
        return error(format!(
            "`{key}` and `read_iolog`: the trace says what is read and written, and when: leave `{key}` out"
        ));
    }
    let wrap = match matrix.replay_map.as_deref() {
        None | Some("refuse") => false,
        Some("wrap") => true,
        Some(other) => return error(format!("replay_map: `{other}` is not refuse or wrap")),
    };
    let align = matrix.replay_align.as_deref().map_or(Ok(1), parse_bytes);
    let align = align.map_err(|e| StudyError(format!("replay_align: {e}")))?;
    if !align.is_power_of_two() {
        return error(format!("replay_align: {align} bytes are no power of two; write 4k, for example"));
    }
    let skip = matrix.replay_skip.as_ref().map(Axis::values).unwrap_or_default();
    let skip: Result<Vec<TraceOp>, StudyError> = skip.iter().map(|word| trace_op(word)).collect();
    let scale = match matrix.replay_scale {
        Some(0) => return error("replay_scale: 0 divides no offset; write 1 or more"),
        scale => scale.unwrap_or(1),
    };
    let device = matrix.replay_device.clone();
    Ok(Some(TraceLoad { scale, align, wrap, device, skip: skip?, ..TraceLoad::of(file) }))
}

fn trace_op(word: &str) -> Result<TraceOp, StudyError> {
    Ok(match word {
        "read" => TraceOp::Read,
        "write" => TraceOp::Write,
        "flush" => TraceOp::Flush,
        "fsync" => TraceOp::Fsync,
        "discard" => TraceOp::Discard,
        other => {
            return error(format!(
                "replay_skip: `{other}` is not an operation; there are read, write, flush, fsync and discard"
            ));
        }
    })
}

fn rate(number: &u32) -> Result<u32, String> {
    match *number {
        0 => Err("0 is no load: the least is 1; leave the key out for a closed loop".to_owned()),
        rate if rate > OpenLoad::MAX_RATE_IOPS => Err(format!(
            "{rate} is one I/O every {} ns, faster than the clock can pace: the most is {}; use more numjobs",
            1_000_000_000 / rate,
            OpenLoad::MAX_RATE_IOPS
        )),
        rate => Ok(rate),
    }
}

fn niceness(number: &i32) -> Result<i8, String> {
    let nice = i8::try_from(*number).ok().filter(|nice| Corunner::NICE.contains(nice));
    nice.ok_or_else(|| format!("{number} is not a niceness: write -20 (first served) to 19 (last)"))
}
