use super::super::*;
use iopj_core::{OpenLoad, Rw};
use iopj_engine::AnyEngine;
use iopj_engine::sim::{Sim, SimOptions};

fn open(pool: &Pool, depth: u32) -> Result<JobEngine, EngineError> {
    let options = SimOptions { seed: 3, latency_steps: 5, ..SimOptions::default() };
    Ok(AnyEngine::Other(Box::new(Sim::open(pool, depth, options))).into())
}

fn spec<'a>(workload: &'a Workload, open: &'a OpenEngine<'a>) -> JobSpec<'a> {
    JobSpec {
        workload,
        base: 0,
        len: 1 << 20,
        seed: 1,
        open,
        huge_pages: false,
        pacing: Pacing { one_stream: true, ..Pacing::default() },
        replay: None,
        steadystate: None,
        is_trial: false,
        has_pass: false,
    }
}

#[test]
fn kinds_of_jobs_run_together_and_are_counted_apart() {
    let readers = Workload { iodepth: 4, numjobs: 2, length: Length::Ios(500), ..Workload::default() };
    let log = Workload { rw: Rw::Write, bs: 8192, length: Length::Ios(300), ..Workload::default() };
    let log = Workload { open: Some(OpenLoad::at(100_000)), ..log };
    let stop = AtomicBool::new(false);
    let mut met = Vec::new();
    let mut bracket = |moment, jobs: &[i32]| {
        met.push((moment, jobs.len()));
        Ok(())
    };
    let kinds = [spec(&readers, &open), spec(&log, &open)];
    let done = run_kinds(&kinds, &stop, &mut bracket, &mut || {}).unwrap();
    assert_eq!(met, [(Moment::Window, 3), (Moment::End, 3)]);
    let issued: Vec<_> = done.iter().map(|kind| kind.issued).collect();
    assert_eq!(issued, [[1000, 0], [0, 300]]);
    let due = |kind: &WindowTotals| kind.open.as_ref().map(|open| open.due);
    assert_eq!((due(&done[0]), due(&done[1])), (None, Some(300)));
    // One window for all.
    assert_eq!(done[0].first_ns, done[1].first_ns);
}

#[test]
fn a_kind_that_fails_ends_all_kinds() {
    let refuses = |_: &Pool, _: u32| Err(EngineError::unsupported("no engine"));
    let (forever, log) = (
        Workload { length: Length::Runtime(Duration::from_secs(600)), ..Workload::default() },
        Workload { rw: Rw::Write, ..Workload::default() },
    );
    let kinds = [spec(&forever, &open), spec(&log, &refuses)];
    let failed = run_kinds(&kinds, &AtomicBool::new(false), &mut |_, _| Ok(()), &mut || {});
    assert!(matches!(failed, Err(NativeError::Engine(_))), "{:?}", failed.err());
}
