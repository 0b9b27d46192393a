//! The traces of a study, put on its target.

use crate::error::TrialError;
use iopj_core::{TraceLoad, TraceOp, Workload};
use iopj_engine::Target;
use iopj_load::native::JobSpec;
use iopj_load::trace::{self, Beyond, How, Onto, Op, Replay};
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;

/// The replays of a run, each read and mapped once: traces are long.
#[derive(Default)]
pub(crate) struct Traces(RefCell<HashMap<(TraceLoad, u32), Rc<Replay>>>);

impl Traces {
    /// The replay of a workload on its target, if its load is a trace.
    ///
    /// # Errors
    /// The trace cannot be read, or cannot be put on the target.
    pub(crate) fn replay(
        &self,
        workload: &Workload,
        target: &Target,
        spec: &JobSpec<'_>,
    ) -> Result<Option<Rc<Replay>>, TrialError> {
        let Some(load) = &workload.trace else { return Ok(None) };
        let key = (load.clone(), workload.bs);
        if let Some(known) = self.0.borrow().get(&key) {
            return Ok(Some(Rc::clone(known)));
        }
        let onto =
            Onto { base: spec.base, len: spec.len, block: target.logical_block(), max_len: workload.bs };
        let trace = trace::read(Path::new(&load.file), None)?;
        let replay = Rc::new(Replay::new(trace, &how(load), onto)?);
        self.0.borrow_mut().insert(key, Rc::clone(&replay));
        Ok(Some(replay))
    }
}

fn how(load: &TraceLoad) -> How {
    let ops = |op: &TraceOp| match op {
        TraceOp::Read => &[Op::Read][..],
        TraceOp::Write => &[Op::Write, Op::WriteDsync],
        TraceOp::Flush => &[Op::Flush],
        TraceOp::Fsync => &[Op::Fsync],
        TraceOp::Discard => &[Op::Discard],
    };
    How {
        time_scale: load.time_scale,
        no_stall: load.no_stall,
        scale: load.scale,
        align: load.align,
        map: if load.wrap { Beyond::Wrap } else { Beyond::Refuse },
        device: load.device.clone(),
        skip: load.skip.iter().flat_map(ops).copied().collect(),
    }
}
