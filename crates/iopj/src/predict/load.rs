//! The load that the options ask for: a closed loop, an open load, or a trace.

use crate::args::PredictArgs;
use crate::output::note;
use anyhow::anyhow;
use iopj_core::{RateProcess, format_duration, parse_duration};
use iopj_load::trace::{self, How, Mapped, Onto, Op, Replay};
use iopj_model::{Kind, Load, Model, Recorded, RecordedIo};
use std::path::Path;
use std::time::Duration;

/// What arrives, and when.
pub(super) enum Asked {
    /// A job issues an I/O when one has completed.
    Closed,
    /// I/Os are due at a rate.
    Open(Load, String),
    /// I/Os were recorded.
    Trace(Recorded, String),
}

/// I/Os of a trace that are longer are split, as `iopj run` does.
const LONGEST: u32 = 1 << 20;
/// The least block of a drive: which one will have the trace is not known.
const BLOCK: u32 = 512;
/// A target that every trace fits. Where on it an I/O is says nothing of its time.
const TARGET: u64 = i64::MAX as u64 / 2;

/// The load.
///
/// # Errors
/// A value makes no sense, or the trace cannot be read.
pub(super) fn load(args: &PredictArgs) -> anyhow::Result<Asked> {
    if let Some(file) = &args.read_iolog {
        return replayed(args, file);
    }
    let Some(text) = &args.rate else { return Ok(Asked::Closed) };
    let iops = iopj_analysis::asked::rate(text)? as f64;
    let process: RateProcess =
        args.rate_process.parse().map_err(|error| anyhow!("--rate-process: {error}"))?;
    let mut words = format!("{iops} I/Os per second");
    let bursts = match (&args.burst_on, &args.burst_off) {
        (Some(on), Some(off)) => {
            let (on, off) = (time("--burst-on", on)?, time("--burst-off", off)?);
            words += &format!(" for {}, none for {}", format_duration(on), format_duration(off));
            Some((on.as_nanos() as f64, off.as_nanos() as f64))
        }
        _ => None,
    };
    Ok(Asked::Open(Load { iops, poisson: process == RateProcess::Poisson, bursts }, words))
}

fn time(option: &str, text: &str) -> anyhow::Result<Duration> {
    match parse_duration(text).map_err(|error| anyhow!("{option}: {error}"))? {
        Duration::ZERO => Err(anyhow!("{option} is 0: give a time such as 10ms, or leave both out")),
        time => Ok(time),
    }
}

/// The I/Os of a trace, with a note of what is replayed and what is not.
fn replayed(args: &PredictArgs, file: &Path) -> anyhow::Result<Asked> {
    let skip = match args.replay_skip.as_deref() {
        Some("read") => vec![Op::Read],
        Some(_) => vec![Op::Write, Op::WriteDsync],
        None => Vec::new(),
    };
    let how = How {
        time_scale: args.replay_time_scale,
        no_stall: args.replay_no_stall,
        device: args.replay_device.clone(),
        // The model knows no time of what moves no bytes.
        skip: [skip, vec![Op::Flush, Op::Fsync, Op::Discard]].concat(),
        ..How::default()
    };
    let onto = Onto { base: 0, len: TARGET, block: BLOCK, max_len: LONGEST };
    let trace = trace::read(file, None).map_err(|error| anyhow!("--read-iolog: {error}"))?;
    let replay = Replay::new(trace, &how, onto)
        .map_err(|error| anyhow!("--read-iolog: {}: {error}", file.display()))?;
    let mapped = replay.mapped();
    mapped.to_string().lines().for_each(note);
    let mut cursor = replay.cursor();
    let ios = std::iter::from_fn(|| cursor.next()).map(|piece| RecordedIo {
        due_ns: piece.due_ns,
        writes: piece.op.is_write(),
        offset: piece.offset,
        bytes: piece.len,
    });
    let recorded = Recorded::of(ios, mapped.span_ns.is_none());
    let recorded = recorded.ok_or_else(|| anyhow!("--read-iolog: {} has no I/O", file.display()))?;
    said(mapped, &recorded);
    let over = recorded.span_ns().map(|ns| format!(" over {:.3} s", ns / 1e9)).unwrap_or_default();
    let ios = if recorded.ios() == 1 { "I/O" } else { "I/Os" };
    let words = format!("{} {ios} of {}{over}", recorded.ios(), file.display());
    Ok(Asked::Trace(recorded, words))
}

/// The kinds of I/O of a trace of random and of sequential ones, which one word for all would hide.
pub(super) fn kinds(recorded: &Recorded, model: &Model) -> String {
    let kinds = recorded.kinds(model);
    if kinds.keys().all(|kind| kind.is_random()) || !kinds.keys().any(|kind| kind.is_random()) {
        return String::new();
    }
    let share = |(kind, share): (&Kind, &f64)| format!("{} {:.0} %", kind.as_str(), share * 100.0);
    format!(" ({})", kinds.iter().map(share).collect::<Vec<_>>().join(", "))
}

/// Notes what the simulation does not do of a trace.
fn said(mapped: &Mapped, recorded: &Recorded) {
    let durable = mapped.replayed[Op::WriteDsync as usize];
    if durable > 0 {
        note(&format!("{durable} durable writes are predicted as plain ones"));
    }
    if recorded.is_cut() {
        note(&format!("the first {} of {} I/Os are simulated", recorded.ios(), mapped.ios));
    }
}
