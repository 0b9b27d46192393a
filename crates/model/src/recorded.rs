//! Recorded I/O as a load: what a trace does to paths that it was not recorded on.

use crate::case::Case;
use crate::formula::Values;
use crate::model::Model;
use crate::parameter::{Kind, Parameter};
use crate::scenario::{Flow, Part};
use crate::simulate::{Arrivals, TraceIo};
use iopj_core::workload::Rw;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One I/O of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedIo {
    /// When it is due, in ns.
    pub due_ns: u64,
    /// True if it writes; otherwise it reads.
    pub writes: bool,
    /// Where it begins, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u32,
}

/// The first I/Os of a trace, up to [`Recorded::MOST`], in order of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// Their times count from the first.
    ios: Arc<[TraceIo]>,
    /// I/Os alike, to which those of the trace point.
    parts: Vec<Part>,
    /// The least and the greatest length in bytes of each kind.
    sizes: BTreeMap<Kind, [u32; 2]>,
    /// Each is due as soon as there is room for it.
    at_once: bool,
    /// There were more.
    is_cut: bool,
}

/// I/Os of one kind and nearly one length.
struct Alike {
    class: u32,
    ios: u64,
    bytes: u64,
}

/// Lengths within an eighth of an octave are of one part, which has their mean.
const PARTS_OF_OCTAVE: f64 = 8.0;

impl Recorded {
    /// The most I/Os that are simulated.
    pub const MOST: usize = 400_000;

    /// These I/Os, due at their times or `at_once`; `None` of none. What comes before the first is no time of
    /// the load. An I/O is sequential if it begins where the one before it of its direction ended; the first
    /// of a direction is what the second is.
    pub fn of(all: impl IntoIterator<Item = RecordedIo>, at_once: bool) -> Option<Recorded> {
        let mut known: BTreeMap<(Kind, i32), Alike> = BTreeMap::new();
        let mut rest = all.into_iter();
        let all: Vec<RecordedIo> = rest.by_ref().take(Recorded::MOST).collect();
        let is_cut = rest.next().is_some();
        let mut ios = Vec::with_capacity(all.len());
        let mut sizes: BTreeMap<Kind, [u32; 2]> = BTreeMap::new();
        let first_ns = all.first()?.due_ns;
        for (one, is_next) in all.iter().zip(follow(&all)) {
            let octaves = (f64::from(one.bytes.max(1)).log2() * PARTS_OF_OCTAVE).round();
            let class = known.len() as u32;
            let kind = Kind::of(one.writes, is_next);
            let alike = known.entry((kind, octaves as i32));
            let alike = alike.or_insert(Alike { class, ios: 0, bytes: 0 });
            (alike.ios, alike.bytes) = (alike.ios + 1, alike.bytes + u64::from(one.bytes));
            let due_ns = one.due_ns.saturating_sub(first_ns) as f64;
            ios.push(TraceIo { due_ns, class: alike.class });
            let [least, most] = sizes.entry(kind).or_insert([one.bytes; 2]);
            (*least, *most) = ((*least).min(one.bytes), (*most).max(one.bytes));
        }
        let all = all.len() as f64;
        let of = |((kind, _), alike): ((Kind, i32), Alike)| {
            let count = alike.ios as f64;
            (alike.class, Part { kind, bytes: alike.bytes as f64 / count, share: count / all })
        };
        let mut parts: Vec<(u32, Part)> = known.into_iter().map(of).collect();
        parts.sort_by_key(|(class, _)| *class);
        let parts = parts.into_iter().map(|(_, part)| part).collect();
        Some(Recorded { ios: ios.into(), parts, sizes, at_once, is_cut })
    }

    /// How many there are.
    pub fn ios(&self) -> usize {
        self.ios.len()
    }

    /// True if the trace had more: what it leads to in the end is not simulated.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// From the first to the last in ns; `None` if each is due as soon as there is room.
    pub fn span_ns(&self) -> Option<f64> {
        let ends = self.ios.first().zip(self.ios.last()).filter(|_| !self.at_once);
        ends.map(|(first, last)| last.due_ns - first.due_ns)
    }

    /// What a model is asked about, in the words of a workload: direction and order, the share of reads in
    /// per cent, and the greatest length.
    pub fn words(&self, model: &Model) -> (Rw, u8, u32) {
        let (flow, _) = self.flow(model);
        let writes: f64 = flow.parts.iter().filter(|part| part.kind.writes()).map(|part| part.share).sum();
        let is_random = flow.parts.iter().any(|part| part.kind.is_random());
        let has = |writes: bool| flow.parts.iter().any(|part| part.kind.writes() == writes);
        let rw = match (has(false), has(true), is_random) {
            (true, true, true) => Rw::Randrw,
            (true, true, false) => Rw::Rw,
            (true, false, true) => Rw::Randread,
            (true, false, false) => Rw::Read,
            (false, _, true) => Rw::Randwrite,
            (false, _, false) => Rw::Write,
        };
        let most = self.sizes.values().map(|[_, most]| *most).max().unwrap_or(1);
        (rw, (100.0 * (1.0 - writes)).round() as u8, most)
    }

    /// The kinds of I/O that it is taken for, with their shares.
    pub fn kinds(&self, model: &Model) -> BTreeMap<Kind, f64> {
        let mut kinds = BTreeMap::new();
        self.flow(model).0.parts.iter().for_each(|part| *kinds.entry(part.kind).or_default() += part.share);
        kinds
    }

    /// A case for each kind of I/O that it is taken for, with the least, the mean, and the greatest length of
    /// that kind.
    pub(crate) fn cases(&self, model: &Model, case: &Case) -> Vec<[Case; 3]> {
        let taken: BTreeSet<Kind> = self.parts.iter().map(|part| stand_in(model, part.kind)).collect();
        let of = |kind: Kind| {
            let parts = self.parts.iter().filter(|part| stand_in(model, part.kind) == kind);
            let sizes = self.sizes.iter().filter(|(own, _)| stand_in(model, **own) == kind);
            let [least, most] = sizes
                .map(|(_, sizes)| *sizes)
                .reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])])
                .unwrap_or([case.bs; 2]);
            let (bytes, share) = parts.fold((0.0, 0.0), |(bytes, share), part| {
                (bytes + part.share * part.bytes, share + part.share)
            });
            [least, (bytes / share).round() as u32, most].map(|bs| Case { rw: kind.rw(), bs, ..*case })
        };
        taken.into_iter().map(of).collect()
    }

    /// What arrives, and the share of I/Os for which random ones stand for sequential ones, or the other way
    /// round, of which the model knows nothing.
    pub(crate) fn flow(&self, model: &Model) -> (Flow, f64) {
        let mut stands_in = 0.0;
        let mut parts = self.parts.clone();
        for part in &mut parts {
            let known = stand_in(model, part.kind);
            stands_in += if known == part.kind { 0.0 } else { part.share };
            part.kind = known;
        }
        let ios = self.ios.len() as u64;
        // Of what is due at once no I/O can be late: it is a closed loop.
        let (arrivals, warm_up_ios) = match self.at_once {
            true => (Arrivals::Closed, ios / 10),
            false => (Arrivals::Trace(Arc::clone(&self.ios)), 0),
        };
        (Flow { arrivals, parts, ios, warm_up_ios }, stands_in)
    }
}

/// Which of them begin where the one before of their direction ended.
fn follow(all: &[RecordedIo]) -> Vec<bool> {
    let (mut ends, mut seen) = ([None; 2], [(0, 0_usize); 2]);
    let mut follow = Vec::with_capacity(all.len());
    for (at, one) in all.iter().enumerate() {
        let direction = usize::from(one.writes);
        let end = one.offset.saturating_add(one.bytes.into());
        let is_next = ends[direction].replace(end) == Some(one.offset);
        follow.push(is_next);
        let (first, count) = &mut seen[direction];
        match *count {
            0 => *first = at,
            1 => follow[*first] = is_next,
            _ => {}
        }
        *count += 1;
    }
    follow
}

/// The kind that a model takes a kind for: the other order, if it knows that one alone.
fn stand_in(model: &Model, kind: Kind) -> Kind {
    let is_known = |kind: Kind| model.get(Parameter::Service(kind)).is_some();
    let other = kind.in_other_order();
    if !is_known(kind) && is_known(other) { other } else { kind }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_follows_its_own_direction_is_sequential() {
        let io = |writes, offset, bytes| RecordedIo { due_ns: 0, writes, offset, bytes };
        // A write lies between two reads that follow each other; the second write follows a read alone. The
        // first of each is what the second is.
        let all = [io(false, 0, 4096), io(true, 0, 4096), io(false, 4096, 4096), io(true, 8192, 4096)];
        let recorded = Recorded::of(all, false).unwrap();
        let kinds: Vec<Kind> = recorded.ios.iter().map(|io| recorded.parts[io.class as usize].kind).collect();
        let [read, write] = [Kind::SequentialRead, Kind::RandomWrite];
        assert_eq!(kinds, [read, write, read, write]);
        let third = [io(true, 0, 4096), io(true, 8192, 4096), io(true, 12_288, 4096)];
        assert_eq!(follow(&third), [false, false, true]);
        // Nearly equal lengths are one part with their mean.
        let alike = Recorded::of([io(false, 0, 65_536), io(false, 1 << 30, 66_560)], false).unwrap();
        assert_eq!((alike.parts.len(), alike.parts[0].bytes), (1, 66_048.0));
        assert_eq!(alike.sizes[&Kind::RandomRead], [65_536, 66_560]);
    }

    #[test]
    fn a_trace_is_cut_beyond_what_is_simulated() {
        let one = RecordedIo { due_ns: 0, writes: false, offset: 0, bytes: 512 };
        let of = |ios: usize| Recorded::of(std::iter::repeat_n(one, ios), false).unwrap();
        let [whole, cut] = [Recorded::MOST, Recorded::MOST + 1].map(of);
        assert_eq!((whole.ios(), whole.is_cut()), (Recorded::MOST, false));
        assert_eq!((cut.ios(), cut.is_cut()), (Recorded::MOST, true));
    }

    proptest! {
        /// Parts have all I/Os and all bytes of a trace, whatever it is.
        #[test]
        fn parts_add_up(
            all in prop::collection::vec((any::<u64>(), any::<bool>(), any::<u64>(), any::<u32>()), 1..200),
        ) {
            let ios = all.iter().map(|(due_ns, writes, offset, bytes)| {
                RecordedIo { due_ns: *due_ns, writes: *writes, offset: *offset, bytes: *bytes }
            });
            let recorded = Recorded::of(ios, false).unwrap();
            let shares: f64 = recorded.parts.iter().map(|part| part.share).sum();
            prop_assert!((shares - 1.0).abs() < 1e-9);
            let bytes: f64 = recorded.parts.iter().map(|part| part.share * part.bytes).sum();
            let exact = all.iter().map(|one| f64::from(one.3)).sum::<f64>() / all.len() as f64;
            prop_assert!((bytes - exact).abs() <= 1e-9 * exact);
            for (io, (_, writes, _, bytes)) in recorded.ios.iter().zip(&all) {
                let part = recorded.parts[io.class as usize];
                prop_assert_eq!(part.kind.writes(), *writes);
                let apart = part.bytes.max(1.0) / f64::from(*bytes).max(1.0);
                prop_assert!((0.9..1.1).contains(&apart), "{apart}");
            }
        }
    }
}
