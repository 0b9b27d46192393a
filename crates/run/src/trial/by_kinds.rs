//! A trial of several kinds of jobs at once: each proves its path alone, then all do I/O together.

use super::beside::Beside;
use super::by_native::{Bracketed, has_ramp};
use super::window::{KindDid, Window, add_counted};
use super::{TrialId, TrialRunner};
use crate::engines::open_engine;
use crate::error::TrialError;
use crate::target::Access;
use iopj_core::evidence::{ControlRun, EngineEvidence, PaceEvidence};
use iopj_core::{Evidence, Length, Observed, Verdict, VerdictKind, Workload};
use iopj_load::native::{self, JobSpec, WindowTotals};
use iopj_meter::monotonic_raw_ns;
use iopj_metering::energy;
use iopj_record::KindWindow;
use iopj_study::plan::Cell;
use std::time::Duration;

/// The longest window in which a kind of jobs proves its path.
pub(crate) const PROOF: Duration = Duration::from_millis(250);

/// What was seen of a kind of jobs as they did I/O alone.
pub(super) struct Proof {
    evidence: Evidence,
    observed: Observed,
    verdict: Verdict,
    load_raw_ns: Vec<u64>,
}

impl TrialRunner<'_> {
    /// Lets each kind of jobs of a cell do I/O alone, in a closed loop, and judges it; none if there is one
    /// kind. Together, an interrupt or a sleep could be anybody's.
    pub(super) fn proofs(
        &self,
        access: &Access,
        cell: &Cell,
        control: Option<&ControlRun>,
        trial: TrialId,
        tick: &mut dyn FnMut(),
    ) -> Result<Vec<Proof>, TrialError> {
        if cell.workload.beside.is_empty() {
            return Ok(Vec::new());
        }
        let prove = |kind: Cell| {
            let kind = Cell { workload: to_prove(kind.workload), ..kind };
            let (window, mut evidence) = self.by_native(access, &kind, None, trial, tick)?;
            evidence.control = control.cloned();
            window.put_into(&mut evidence, &kind.workload);
            let (observed, verdict) = iopj_probe::assess(&kind.path, &evidence);
            Ok(Proof { evidence, observed, verdict, load_raw_ns: window.load_raw_ns })
        };
        cell.kinds().into_iter().map(prove).collect()
    }

    /// All kinds together.
    pub(super) fn by_kinds(
        &self,
        access: &Access,
        cell: &Cell,
        beside: &Beside,
        proofs: &[Proof],
        TrialId { position, seed }: TrialId,
        tick: &mut dyn FnMut(),
    ) -> Result<(Window, Evidence), TrialError> {
        let (target, kinds) = (access.target()?, cell.kinds());
        let paced = kinds.iter().map(|kind| self.pacing(kind)).collect::<Result<Vec<_>, _>>()?;
        let opens: Vec<_> =
            kinds.iter().map(|kind| open_engine(kind, target, &self.tools.adaptive, seed)).collect();
        let steadystate = self.steadystate.rule(cell.workload.ramp_time);
        let mut specs = Vec::with_capacity(kinds.len());
        for (number, ((kind, open), (pacing, _))) in kinds.iter().zip(&opens).zip(&paced).enumerate() {
            // No two kinds draw the same offsets.
            let seed = seed.wrapping_add(number as u64);
            let spec = JobSpec::on(&kind.workload, target, seed, open);
            specs.push(JobSpec { pacing: *pacing, steadystate, is_trial: true, ..spec });
        }
        let begin_ns = monotonic_raw_ns();
        let (runs, Bracketed { snapshots, .. }) =
            self.bracketed(access, Some(beside), position, &mut |bracket| {
                Ok(native::run_kinds(&specs, self.stop, bracket, tick)?)
            })?;
        let [(first, counted), (last, counted_last)] = &snapshots[..] else {
            return Err(TrialError::NotBracketed("window"));
        };
        let mut evidence = together(&runs, first.until(last));
        add_counted(&mut evidence, *counted, *counted_last);
        if let [device] = &mut evidence.devices[..] {
            device.settings.extend(access.set_up());
        }
        let window_raw_ns = [
            runs.iter().map(|run| run.first_ns).min().unwrap_or_default(),
            runs.iter().map(|run| run.last_ns).max().unwrap_or_default(),
        ]
        .map(energy::raw_ns);
        let begin_ns = if has_ramp(&specs[0]) { begin_ns } else { window_raw_ns[0] };
        let windows = runs.into_iter().zip(&kinds).zip(&paced).map(|((run, kind), (_, pacer))| {
            Window::of_native(run, kind, *pacer, None, begin_ns, window_raw_ns)
        });
        let windows = windows.zip(&kinds).map(|(window, kind)| (window, &kind.workload)).collect();
        let loads = proofs.iter().flat_map(|proof| proof.load_raw_ns.iter().copied());
        let window = whole(windows, loads.collect()).ok_or(TrialError::NotBracketed("window"))?;
        Ok((window, evidence))
    }
}

/// The closed loop in which a kind of jobs proves its path. Between the arrivals of an open load there is
/// little to see.
fn to_prove(workload: Workload) -> Workload {
    let length = match workload.length {
        Length::Runtime(time) => Length::Runtime(time.min(PROOF)),
        Length::Ios(ios) => Length::Ios(ios),
    };
    Workload { length, ramp_time: Duration::ZERO, open: None, corunner: None, ..workload }
}

/// The evidence of the whole, with what the engines of all kinds did.
fn together(runs: &[WindowTotals], evidence: Evidence) -> Evidence {
    let add = |sum: EngineEvidence, run: &WindowTotals| EngineEvidence {
        system_calls: sum.system_calls.zip(run.engine.system_calls).map(|(sum, own)| sum + own),
        submit_calls: sum.submit_calls + run.engine.submit_calls,
        wakeups: sum.wakeups + run.engine.wakeups,
        ..sum
    };
    let engine = runs.split_first().map(|(own, beside)| beside.iter().fold(own.engine.clone(), add));
    let pace = |sum: Option<PaceEvidence>, run: &WindowTotals| match (&run.open, sum) {
        (None, sum) => sum,
        (Some(open), sum) => {
            let sum = sum.unwrap_or_default();
            Some(PaceEvidence { sleeps: sum.sleeps + open.sleeps, slept_ns: sum.slept_ns + open.slept_ns })
        }
    };
    let steadystate = runs.first().and_then(|run| run.steadystate);
    Evidence { engine, steadystate, pace: runs.iter().fold(None, pace), ..evidence }
}

/// The window of all kinds. Rate and latency are those of the workload's own jobs, what was issued is that of
/// all.
fn whole(windows: Vec<(Window, &Workload)>, mut load_raw_ns: Vec<u64>) -> Option<Window> {
    let bytes_of = |(window, workload): &(Window, &Workload)| {
        window.issued_bytes.unwrap_or(window.issued.map(|ios| ios * u64::from(workload.bs)))
    };
    let sum = |all: &dyn Fn(&(Window, &Workload)) -> [u64; 2]| {
        windows.iter().map(all).fold([0; 2], |sum, one| [sum[0] + one[0], sum[1] + one[1]])
    };
    let (issued, issued_bytes) = (sum(&|one| one.0.issued), sum(&bytes_of));
    let [syncs, discards] = sum(&|one| [one.0.syncs, one.0.discards]);
    let kinds = windows.iter().map(|(window, _)| did(window)).collect();
    let first_ns = windows.iter().map(|(window, _)| window.first_ns).min();
    let last_ns = windows.iter().map(|(window, _)| window.last_ns).max();
    let mut windows = windows.into_iter();
    let (own, _) = windows.next()?;
    let (first_ns, last_ns) = (first_ns?, last_ns?);
    load_raw_ns.extend(own.load_raw_ns);
    Some(Window {
        load_raw_ns,
        first_ns,
        last_ns,
        window_ns: last_ns - first_ns,
        issued,
        issued_bytes: Some(issued_bytes),
        syncs,
        discards,
        kinds,
        ..own
    })
}

fn did(window: &Window) -> KindDid {
    let mut latency = window.latencies.all.clone();
    latency.histogram = Vec::new();
    KindDid {
        ios: window.latencies.all.count,
        bytes: window.bytes,
        short_ios: window.short_ios,
        latency,
        open: window.open.clone(),
    }
}

/// What each kind did and proved; none where there is one kind.
pub(super) fn windows(cell: &Cell, proofs: Vec<Proof>, did: Vec<KindDid>) -> Vec<KindWindow> {
    let all = cell.kinds().into_iter().zip(proofs).zip(did);
    all.map(|((kind, proof), did)| KindWindow {
        path: kind.path,
        workload: kind.workload,
        ios: did.ios,
        bytes: did.bytes,
        short_ios: did.short_ios,
        latency: did.latency,
        open: did.open,
        evidence: proof.evidence,
        observed: proof.observed,
        verdict: proof.verdict,
    })
    .collect()
}

/// The verdict on a trial of several kinds: verified if all are, refuted if one is.
pub(super) fn verdict(kinds: &[KindWindow]) -> Verdict {
    let has = |kind: VerdictKind| kinds.iter().any(|one| one.verdict.kind == kind);
    let kind = match (has(VerdictKind::Refuted), has(VerdictKind::Unproven)) {
        (true, _) => VerdictKind::Refuted,
        (false, true) => VerdictKind::Unproven,
        (false, false) => VerdictKind::Verified,
    };
    let reasons = kinds
        .iter()
        .map(|one| format!("{}, alone: {}", one.workload.title(), one.verdict.reasons.join("; ")));
    Verdict { kind, reasons: reasons.collect() }
}
