//! The control run: a few synchronous reads on interrupts, to see whether the device interrupts at all.

use crate::error::TrialError;
use iopj_core::evidence::{Completions, ControlRun};
use iopj_core::{IoPath, Length, Ring, SioCompletion, Workload};
use iopj_engine::{KernelCpus, Target};
use iopj_load::native::{self, BracketResult, JobEngine, JobSpec, Moment};
use iopj_probe::{CompletionCounters, Edge, Probe, Waiting, Who};
use std::cell::RefCell;
use std::sync::atomic::AtomicBool;

/// Reads of the control run.
const IOS: u64 = 256;

/// Reads 256 random blocks, one at a time, and counts the device's interrupts.
///
/// # Errors
/// The reads failed, or a counter cannot be read.
pub(crate) fn run(target: &Target, probe: &Probe, stop: &AtomicBool) -> Result<ControlRun, TrialError> {
    let bs = target.logical_block().max(4096).min(u32::try_from(target.data_len()).unwrap_or(u32::MAX));
    let workload = Workload { bs, length: Length::Ios(IOS), ..Workload::default() };
    let path = if target.nvme().is_some() {
        IoPath::NvmePassthrough(Ring::PLAIN)
    } else {
        IoPath::PosixSio(SioCompletion::Interrupt)
    };
    let open = |pool: &_, depth| {
        iopj_engine::open_on(path, target, pool, depth, &KernelCpus::default()).map(JobEngine::from)
    };
    let spec = JobSpec { huge_pages: false, ..JobSpec::on(&workload, target, IOS, &open) };
    let snapshots = RefCell::new(Vec::with_capacity(2));
    let counts = RefCell::new((None, None));
    let mut bracket = |moment, jobs: &[i32]| -> BracketResult {
        let who = Who::ThisProcess { jobs, own: &[] };
        let (counters, counted) = &mut *counts.borrow_mut();
        match moment {
            Moment::End => {
                *counted = counters.take().and_then(|counters: CompletionCounters| counters.end().ok())
            }
            _ => *counters = probe.count_completions(Waiting::Threads(jobs)).ok(),
        }
        let mut snapshots = snapshots.borrow_mut();
        let edge = if snapshots.is_empty() { Edge::Begin } else { Edge::End };
        snapshots.push(probe.snapshot(who, edge)?);
        Ok(())
    };
    let done = native::run(&spec, stop, &mut bracket, &mut || {})?;
    let snapshots = snapshots.into_inner();
    let [first, last] = &snapshots[..] else { return Err(TrialError::NotBracketed("control run")) };
    let evidence = first.until(last);
    let ios = done.issued.iter().sum();
    let (_, counted) = counts.into_inner();
    Ok(ControlRun {
        ios,
        interrupts: evidence.devices.iter().map(|device| device.interrupts).sum(),
        completions: counted.map(|counts| Completions { ios, ..counts }),
        device_reads: evidence.devices.iter().map(|device| device.reads).sum(),
    })
}
