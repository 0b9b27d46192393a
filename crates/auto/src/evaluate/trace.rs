//! A program that was recorded: a trace in slices, each with its kinds of request and its rate.

use super::chance::Chance;
use super::workload::{DEEPEST, Load, Phase, Program, RUN_IOS, STEPS, Workload};
use crate::key::{Direction, Kind};
use serde::Serialize;
use std::collections::BTreeMap;

/// One I/O of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceIo {
    /// When it is due, in ns.
    pub due_ns: u64,
    /// Reads or writes.
    pub direction: Direction,
    /// Its length in bytes.
    pub bytes: u32,
}

/// I/Os that follow each other.
#[derive(Clone, Debug, PartialEq)]
struct Slice {
    /// Kinds with their shares.
    kinds: Vec<(Kind, f64)>,
    /// I/Os per second; absent where they are due at once.
    rate: Option<f64>,
}

/// A trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trace {
    /// What it is, in words.
    pub name: String,
    /// I/Os.
    pub ios: usize,
    #[serde(skip)]
    slices: Vec<Slice>,
}

impl Trace {
    /// I/Os in the order of their times; `None` of none. A slice is a 32nd of them. Where a slice takes no
    /// time, as many are kept in flight as is drawn.
    pub fn of(name: String, ios: &[TraceIo]) -> Option<Trace> {
        let first = ios.first()?;
        let each = ios.len().div_ceil(STEPS as usize);
        let ends = ios.chunks(each).skip(1).map(|next| next[0].due_ns);
        let ends = ends.chain(ios.last().map(|last| last.due_ns));
        let mut began_ns = first.due_ns;
        let slices = ios.chunks(each).zip(ends).map(|(ios, end_ns)| {
            let ns = end_ns.saturating_sub(std::mem::replace(&mut began_ns, end_ns));
            Slice { kinds: kinds(ios), rate: (ns > 0).then(|| ios.len() as f64 * 1e9 / ns as f64) }
        });
        Some(Trace { name, ios: ios.len(), slices: slices.collect() })
    }

    /// As a program, whose slices have I/Os in the shares of the trace's.
    pub(super) fn workload(&self, chance: &mut Chance) -> Workload {
        let depth = 1 << chance.index(DEEPEST.ilog2() as usize + 1);
        let phase = |slice: &Slice| Phase {
            ios: RUN_IOS / self.slices.len() as u64,
            kinds: slice.kinds.clone(),
            load: slice.rate.map_or(Load::Closed(depth), Load::Open),
            ..Phase::of(slice.kinds[0].0, depth)
        };
        let mut phases: Vec<Phase> = self.slices.iter().map(phase).collect();
        let ios: u64 = phases.iter().map(|phase| phase.ios).sum();
        if let Some(last) = phases.last_mut() {
            last.ios += RUN_IOS - ios;
        }
        Workload { program: Program::Trace, phases }
    }
}

/// The kinds of some I/Os with their shares, which add up to 1.
fn kinds(ios: &[TraceIo]) -> Vec<(Kind, f64)> {
    let mut counts: BTreeMap<Kind, usize> = BTreeMap::new();
    for one in ios {
        *counts.entry(Kind::new(one.direction, one.bytes)).or_default() += 1;
    }
    counts.into_iter().map(|(kind, count)| (kind, count as f64 / ios.len() as f64)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn io(due_ns: u64, direction: Direction, bytes: u32) -> TraceIo {
        TraceIo { due_ns, direction, bytes }
    }

    #[test]
    fn a_slice_has_its_kinds_and_its_rate() {
        // 64 I/Os are 32 slices of two. They come 1 us apart, but the last four at once.
        let at = |number: u64| 1000 * number.min(60);
        let ios: Vec<TraceIo> = (0..64)
            .map(|number| io(at(number), [Direction::Read, Direction::Write][number as usize % 2], 4096))
            .collect();
        let trace = Trace::of("t".to_owned(), &ios).unwrap();
        assert_eq!((trace.ios, trace.slices.len()), (64, 32));
        let [read, write] = [Direction::Read, Direction::Write].map(|one| Kind::new(one, 4096));
        assert_eq!(trace.slices[0].kinds, [(read, 0.5), (write, 0.5)]);
        assert_eq!([0, 29, 30, 31].map(|at| trace.slices[at].rate), [Some(1e6), Some(1e6), None, None]);
        let workload = trace.workload(&mut Chance::new(1, 1));
        assert_eq!(workload.phases[0].load, Load::Open(1e6));
        assert!(matches!(workload.phases[31].load, Load::Closed(1..=DEEPEST)));
    }

    #[test]
    fn no_io_is_no_trace() {
        assert_eq!(Trace::of(String::new(), &[]), None);
    }

    proptest! {
        /// A program has as many I/Os as every other, and shares that add up, whatever the trace.
        #[test]
        fn any_trace_is_a_program(
            all in prop::collection::vec((any::<u64>(), any::<bool>(), any::<u32>()), 1..200),
        ) {
            let mut ios: Vec<TraceIo> = all
                .iter()
                .map(|(due, writes, bytes)| {
                    io(*due, if *writes { Direction::Write } else { Direction::Read }, *bytes)
                })
                .collect();
            ios.sort_by_key(|one| one.due_ns);
            let workload = Trace::of(String::new(), &ios).unwrap().workload(&mut Chance::new(1, 2));
            prop_assert_eq!(workload.phases.iter().map(|phase| phase.ios).sum::<u64>(), RUN_IOS);
            for phase in &workload.phases {
                let shares: f64 = phase.kinds.iter().map(|(_, share)| share).sum();
                prop_assert!(phase.ios > 0 && (shares - 1.0).abs() < 1e-9);
                prop_assert!(!matches!(phase.load, Load::Open(rate) if !rate.is_finite() || rate <= 0.0));
            }
        }
    }
}
