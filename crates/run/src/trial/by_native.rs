//! A trial by our own jobs: the window between two snapshots, and the pass before it.

use super::beside::Beside;
use super::window::{Window, add_counted};
use super::{TrialId, TrialRunner};
use crate::engines::open_engine;
use crate::error::TrialError;
use crate::target::Access;
use iopj_core::Evidence;
use iopj_core::evidence::{Finding, PaceEvidence};
use iopj_load::latencies;
use iopj_load::native::{self, Bracket, BracketResult, JobSpec, Moment, OpenTotals, Pacing, WindowTotals};
use iopj_load::pass::{EndedPass, Pass, PassWork};
use iopj_load::trace::Replay;
use iopj_meter::monotonic_raw_ns;
use iopj_metering::energy;
use iopj_probe::{CompletionsError, Edge, Snapshot, Who};
use iopj_record::{LatencyFrom, OpenWindow};
use iopj_study::plan::Cell;
use std::cell::RefCell;

impl Window {
    pub(super) fn of_native(
        mut run: WindowTotals,
        cell: &Cell,
        pacer: Option<f64>,
        replay: Option<&Replay>,
        begin_raw_ns: u64,
        window_raw_ns: [u64; 2],
    ) -> Window {
        let latencies = latencies::of_native(&run);
        let submission_sum_ns = run.open.as_ref().map(|open| open.submission_sum_ns);
        let open = run.open.take();
        let bytes = latencies.all.count * u64::from(cell.workload.bs);
        let (bytes, issued_bytes) =
            open.as_ref().map_or((bytes, None), |open| (open.whole_bytes, Some(open.issued_bytes)));
        let syncs = open.as_ref().map_or(0, |open| open.syncs.count());
        let discards = open.as_ref().map_or(0, |open| open.discards);
        let durable_writes = open.as_ref().map_or(0, |open| open.durable_writes);
        // A trace without times, and a closed loop of I/Os that are not alike, have nothing that could be
        // late.
        let is_timed =
            replay.map_or(cell.workload.open.is_some(), |replay| replay.mapped().span_ns.is_some());
        let open = open.and_then(|open| open_window(&open, &run, pacer, replay, is_timed));
        Window {
            load_raw_ns: vec![begin_raw_ns, window_raw_ns[1]],
            window_raw_ns,
            first_ns: run.first_ns,
            last_ns: run.last_ns,
            window_ns: run.last_ns - run.first_ns,
            issued: run.issued,
            bytes,
            issued_bytes,
            durable_writes,
            syncs,
            discards,
            short_ios: run.short_ios,
            // What waits to be issued is not in flight.
            latency_sum_ns: submission_sum_ns.unwrap_or(run.latency_sum_ns),
            latencies,
            series: run.series,
            fio: None,
            open,
            corunner: None,
            kinds: Vec::new(),
            unsampled: None,
        }
    }
}

impl TrialRunner<'_> {
    /// A trial by our own jobs.
    pub(super) fn by_native(
        &self,
        access: &Access,
        cell: &Cell,
        beside: Option<&Beside>,
        TrialId { position, seed }: TrialId,
        tick: &mut dyn FnMut(),
    ) -> Result<(Window, Evidence), TrialError> {
        let (target, probe) = (access.target()?, access.probe()?);
        let is_taken = access.takes(&cell.path);
        let (can_count, open) =
            (self.can_count(is_taken, probe), open_engine(cell, target, &self.tools.adaptive, seed));
        let has_pass = can_count.is_ok() && !is_taken;
        let (pacing, pacer) = self.pacing(cell)?;
        let spec = JobSpec {
            pacing,
            steadystate: beside.and_then(|_| self.steadystate.rule(cell.workload.ramp_time)),
            is_trial: beside.is_some(),
            has_pass,
            ..JobSpec::on(&cell.workload, target, seed, &open)
        };
        let replay = self.traces.replay(&cell.workload, target, &spec)?;
        let spec = JobSpec { replay: replay.as_deref(), ..spec };
        let begin_ns = monotonic_raw_ns();
        let (run, Bracketed { snapshots, passed }) =
            self.bracketed(access, beside, position, &mut |bracket| {
                Ok(native::run(&spec, self.stop, bracket, tick)?)
            })?;
        let window_raw_ns = [run.first_ns, run.last_ns].map(energy::raw_ns);
        let passed_ns = passed.as_ref().map_or(window_raw_ns[0], |(_, began_raw_ns)| *began_raw_ns);
        let begin_ns = if has_ramp(&spec) { begin_ns } else { passed_ns };
        let counting = passed.map(|(passed, _)| passed).ok_or(can_count.err());
        let mut evidence = evidence_of(&snapshots, &run, counting)?;
        if let [device] = &mut evidence.devices[..] {
            device.settings.extend(access.set_up());
        }
        Ok((Window::of_native(run, cell, pacer, replay.as_deref(), begin_ns, window_raw_ns), evidence))
    }

    /// Runs jobs between snapshots of their pass and of their window. Without what works beside a trial, the
    /// window is none of a trial.
    pub(super) fn bracketed<T>(
        &self,
        access: &Access,
        beside: Option<&Beside>,
        position: u64,
        run: &mut dyn FnMut(&mut Bracket<'_>) -> Result<T, TrialError>,
    ) -> Result<(T, Bracketed), TrialError> {
        let probe = access.probe()?;
        let (passed, snapshots) = (RefCell::new((None, None)), RefCell::new(Vec::with_capacity(2)));
        let mut bracket = |moment, jobs: &[i32]| -> BracketResult {
            let own = energy::own_threads();
            let who = Who::ThisProcess { jobs, own: &own };
            let snapshot = |edge| probe.snapshot(who, edge);
            let mut snapshots = snapshots.borrow_mut();
            let (pass, passed) = &mut *passed.borrow_mut();
            match moment {
                Moment::Pass => {
                    *pass = Some((Pass::begin(probe, snapshot(Edge::Begin)?), monotonic_raw_ns()));
                }
                Moment::Window => {
                    *passed = pass.take().map(|(pass, began_raw_ns): (Pass, u64)| (pass.end(), began_raw_ns));
                    // The drive is asked for its counts outside of the window.
                    let counted = access.begin_window(position)?;
                    snapshots.push((snapshot(Edge::Begin)?, counted));
                    if let Some(beside) = beside {
                        self.begin_samples()?;
                        beside.mark();
                    }
                }
                Moment::End => {
                    if let Some(beside) = beside {
                        beside.mark();
                        self.end_samples()?;
                    }
                    snapshots.push((snapshot(Edge::End)?, access.end_window()?));
                }
            }
            Ok(())
        };
        let done = run(&mut bracket)?;
        Ok((done, Bracketed { snapshots: snapshots.into_inner(), passed: passed.into_inner().1 }))
    }

    /// How the path of a cell is paced, and what that takes by itself if the load is open; measured once
    /// for each load.
    pub(super) fn pacing(&self, cell: &Cell) -> Result<(Pacing, Option<f64>), TrialError> {
        let pacing = Pacing::of(&cell.path);
        let Some(load) = cell.workload.open else { return Ok((pacing, None)) };
        if let Some(known) = self.pacers.borrow().get(&(load, pacing)) {
            return Ok((pacing, Some(*known)));
        }
        let cost = native::pacer_cpu_ns_per_io(&load, pacing)?;
        self.pacers.borrow_mut().insert((load, pacing), cost);
        Ok((pacing, Some(cost)))
    }
}

/// Of a window's time, by how much an open load may be behind at its end and still count as kept up with.
const BEHIND_SHARE: f64 = 0.01;

/// What became of an open load, or of flushes; none of a closed loop without any. The window is longer than
/// its time by what it took to issue all that was due.
fn open_window(
    open: &OpenTotals,
    run: &WindowTotals,
    pacer_cpu_ns_per_io: Option<f64>,
    replay: Option<&Replay>,
    is_timed: bool,
) -> Option<OpenWindow> {
    let issued = open.due - open.unissued;
    let sync = (open.syncs.count() > 0).then(|| latencies::of_syncs(open));
    let trace = replay.map(|replay| replay.mapped().to_string());
    if !is_timed {
        // Nothing was due at a time of its own, so nothing was late.
        let has_any = sync.is_some() || trace.is_some();
        let untimed =
            OpenWindow { latency_from: LatencyFrom::Submission, sync, trace, ..OpenWindow::default() };
        return has_any.then_some(untimed);
    }
    Some(OpenWindow {
        sync,
        trace,
        due: Some(open.due),
        unissued: open.unissued,
        lag_mean_ns: (issued > 0).then(|| open.lag_sum_ns as f64 / issued as f64),
        lag_max_ns: Some(open.lag_max_ns),
        behind_ns: Some(open.behind_ns),
        overload: open.behind_ns as f64 > BEHIND_SHARE * (run.last_ns - run.first_ns) as f64,
        latency_from: LatencyFrom::Due,
        from_submission: Some(latencies::from_submission(open)),
        pacer_cpu_ns_per_io,
    })
}

/// Whether load begins with the jobs: before a window without a ramp they wait for each other.
pub(super) fn has_ramp(spec: &JobSpec<'_>) -> bool {
    spec.steadystate.is_some() || !spec.workload.ramp_time.is_zero()
}

/// A snapshot, and the reads and writes that the drive had counted by then, if it is asked.
pub(super) type Counted = (Snapshot, Option<[u64; 2]>);

/// What was read around jobs.
pub(super) struct Bracketed {
    /// At the window's two ends.
    pub(super) snapshots: Vec<Counted>,
    /// The pass before it, if there was one, and when it began: `CLOCK_MONOTONIC_RAW`.
    passed: Option<(EndedPass, u64)>,
}

/// The evidence of a window of our jobs between two snapshots, with the counts of the pass before it, or the
/// reason why there are none.
fn evidence_of(
    snapshots: &[Counted],
    run: &WindowTotals,
    counting: Result<EndedPass, Option<&CompletionsError>>,
) -> Result<Evidence, TrialError> {
    let [(first, counted), (last, counted_last)] = snapshots else {
        return Err(TrialError::NotBracketed("window"));
    };
    let did = PassWork::Native { ios: run.pass_ios, engine: &run.engine };
    let mut evidence = Evidence {
        engine: Some(run.engine.clone()),
        steadystate: run.steadystate,
        pace: run.open.as_ref().map(|open| PaceEvidence { sleeps: open.sleeps, slept_ns: open.slept_ns }),
        completions: match counting {
            Ok(passed) => Some(passed.evidence(first, did)),
            Err(error) => error.map(|error| Finding::Unclear(error.to_string())),
        },
        ..first.until(last)
    };
    add_counted(&mut evidence, *counted, *counted_last);
    Ok(evidence)
}
