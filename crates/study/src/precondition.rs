//! Preconditioning: the target is written until random writes are steady.
//!
//! Source: SNIA Solid State Storage Performance Test Specification, sections on workload-independent
//! and workload-dependent preconditioning: write the whole capacity twice in order, then run the
//! workload in rounds until, over the last five, the range of IOPS is at most 20 % of their mean and
//! the straight line fitted to them rises or falls by at most 10 % of it. Rounds here last as long as a
//! trial's window; at most 25 are run.

use crate::native::{self, JobSpec};
use iopj_core::{IoPath, Length, Ring, RingCompletion, RingSubmission, Rw, Workload, format_bytes};
use iopj_engine::Target;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const ROUNDS_OF_WINDOW: usize = 5;
const MOST_ROUNDS: usize = 25;
const RANGE_LIMIT: f64 = 0.20;
const SLOPE_LIMIT: f64 = 0.10;

/// The words for a target that was not preconditioned.
pub(crate) const NONE: &str = "not preconditioned";

/// Preconditions `target` for `workload` and says in a sentence what was done and whether the
/// criterion was met.
///
/// # Errors
/// A write failed, or the run was interrupted.
pub(crate) fn run(
    target: &Target,
    workload: &Workload,
    stop: &AtomicBool,
    tick: &mut dyn FnMut(),
) -> Result<String, String> {
    let submission = RingSubmission::Syscall { split: false };
    let path = if target.nvme().is_some() {
        IoPath::NvmePassthrough(Ring { submission, completion: RingCompletion::Interrupt, registered: false })
    } else {
        IoPath::Libaio
    };
    let open = |pool: &_, depth| iopj_engine::open(path, target, pool, depth);
    let mut run_once = |workload: &Workload, seed| {
        let spec = JobSpec {
            workload,
            base: target.data_offset(),
            len: target.data_len(),
            seed,
            open: &open,
            huge_pages: false,
            steadystate: None,
            is_trial: false,
            has_pass: false,
        };
        let run = native::run(&spec, stop, &mut |_, _| Ok(()), tick)?;
        Ok::<f64, String>(run.all.count as f64 * 1e9 / (run.last_ns - run.first_ns).max(1) as f64)
    };
    let block = u64::from(target.logical_block());
    let fill_bs = ((128 << 10).min(target.data_len()) / block * block) as u32;
    let fill = Workload {
        rw: Rw::Write,
        bs: fill_bs,
        iodepth: 16,
        length: Length::Ios(2 * (target.data_len() / u64::from(fill_bs)).max(1)),
        ..Workload::default()
    };
    run_once(&fill, 1)?;
    let length = match workload.length {
        Length::Runtime(time) => Length::Runtime(time),
        Length::Ios(_) => Length::Runtime(Duration::from_secs(10)),
    };
    let round =
        Workload { rw: Rw::Randwrite, iodepth: 16, numjobs: 1, ramp_time: Duration::ZERO, length, ..workload.clone() };
    let bs = format_bytes(workload.bs.into());
    let mut iops = Vec::new();
    while iops.len() < MOST_ROUNDS {
        iops.push(run_once(&round, 2 + iops.len() as u64)?);
        if let Some((range, slope)) =
            steadiness(&iops).filter(|(range, slope)| *range <= RANGE_LIMIT && *slope <= SLOPE_LIMIT)
        {
            return Ok(format!(
                "preconditioned: filled twice, then {} rounds of {bs} random writes until steady (range {:.0} %, slope {:.0} %)",
                iops.len(),
                100.0 * range,
                100.0 * slope
            ));
        }
    }
    Ok(format!("preconditioned: filled twice, then {MOST_ROUNDS} rounds of {bs} random writes, not steady at the end"))
}

/// Range, and rise or fall of the fitted line, over the last five rounds, as shares of their mean.
fn steadiness(iops: &[f64]) -> Option<(f64, f64)> {
    let last = iops.get(iops.len().checked_sub(ROUNDS_OF_WINDOW)?..)?;
    let n = ROUNDS_OF_WINDOW as f64;
    let mean = last.iter().sum::<f64>() / n;
    let middle = (n - 1.0) / 2.0;
    let products: f64 = last.iter().enumerate().map(|(x, y)| (x as f64 - middle) * (y - mean)).sum();
    let squares: f64 = (0..ROUNDS_OF_WINDOW).map(|x| (x as f64 - middle).powi(2)).sum();
    let (low, high) = last.iter().fold((f64::MAX, f64::MIN), |(low, high), y| (low.min(*y), high.max(*y)));
    (mean > 0.0).then(|| ((high - low) / mean, (products / squares * (n - 1.0)).abs() / mean))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steadiness_is_range_and_slope_of_five_rounds() {
        assert_eq!(steadiness(&[1.0; 4]), None);
        assert_eq!(steadiness(&[9.0, 100.0, 100.0, 100.0, 100.0, 100.0]), Some((0.0, 0.0)));
        // A line from 80 to 120: range 40 % and rise 40 % of the mean.
        let (range, slope) = steadiness(&[80.0, 90.0, 100.0, 110.0, 120.0]).unwrap();
        assert!((range - 0.4).abs() < 1e-12 && (slope - 0.4).abs() < 1e-12);
        // Up and down again: a range without a slope.
        let (range, slope) = steadiness(&[90.0, 110.0, 100.0, 110.0, 90.0]).unwrap();
        assert!((range - 0.2).abs() < 1e-12 && slope < 1e-12);
    }
}
