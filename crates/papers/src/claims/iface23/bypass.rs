//! Kernel bypass in *Energy Implications of IO Interface Design Choices*: its latency, and how close the
//! kernel's paths get.
//!
//! The paper's kernel bypass is SPDK. A set of trials has one generator, fio for SPDK and the native one for
//! `nvme-user`, so it has one of the two; SPDK decides if it has both.

use super::{SQPOLL, SYSCALL, absent_interfaces, printed, ring, sqpolls};
use crate::claims::comparison::{Against, Comparison, Relation};
use crate::claims::data::{ClaimCell, Shape, TrialSet};
use crate::claims::metrics::{ClaimMetric, IOPS, P50, P99};
use crate::claims::parts::DerivedFigures;
use crate::claims::question::Question;
use crate::layouts::average_slowdown;
use crate::published;
use iopj_analysis::contrast::{Sample, joined};
use iopj_analysis::grouping::unique;
use iopj_core::{IoPath, RingCompletion, Rw, SioCompletion, Spin, UserCompletion};

/// The paths that count as the paper's kernel bypass, the paper's own first.
pub(super) const PATHS: [IoPath; 2] = [IoPath::Spdk, IoPath::NvmeUser(UserCompletion::Poll(Spin::Tight))];

/// How much io_uring's median may be above that of kernel bypass, in us.
const WITHIN_US: f64 = 2.0;

/// How close io_uring's IOPS must be to those of kernel bypass, as a share.
const IOPS_WITHIN: f64 = 0.05;

/// True if the paper measured a path.
fn is_papers(path: &IoPath) -> bool {
    published::latency(path).is_some()
}

/// The same, or the path counts as the paper's kernel bypass.
pub(super) fn is_papers_or_bypass(path: &IoPath) -> bool {
    is_papers(path) || PATHS.contains(path)
}

/// The least depth that is large.
const LARGE_DEPTH: u32 = 31;

/// The kernel bypass of a set of trials; the paper's if it has none.
pub(super) fn path(data: &TrialSet<'_>) -> IoPath {
    data.preferred(PATHS)
}

pub(super) fn lowest<'a>(data: &TrialSet<'a>) -> Vec<Question<'a>> {
    let (bypass, shallow) = (path(data), Shape::of_4k(Rw::Randread));
    let mut questions: Vec<Question<'a>> =
        BOTH.into_iter().flat_map(|rw| lowest_of(data, Shape::of_4k(rw))).collect();
    let both = ring(SQPOLL, RingCompletion::Poll);
    let near = Against::Beyond(WITHIN_US, data.cell(bypass, shallow));
    questions.push(compared(data, P50, (both, shallow), Relation::Less, near));
    let fits = |one: &Shape| one.iodepth >= LARGE_DEPTH && Shape { iodepth: 1, ..*one } == shallow;
    let deep = data.shapes(&[bypass], fits).into_iter().next_back();
    let deep = deep.unwrap_or(Shape { iodepth: LARGE_DEPTH, ..shallow });
    questions.extend(sqpolls().map(|path| {
        let against = Against::Cell(data.cell(bypass, deep));
        compared(data, IOPS, (path, deep), Relation::NotLess(IOPS_WITHIN), against)
    }));
    questions
}

/// Median and tail of kernel bypass compared with those of each kernel path of the paper.
fn lowest_of<'a>(data: &TrialSet<'a>, shape: Shape) -> Vec<Question<'a>> {
    let bypass = path(data);
    let (kernel, without) = data.cells(shape, |path| !path.is_bypass() && is_papers(path));
    let less = |cell: &ClaimCell<'a>| {
        [P50, P99].map(|metric| {
            compared(data, metric, (bypass, shape), Relation::Less, Against::Cell(cell.clone()))
        })
    };
    let absent = absent_interfaces(&kernel, shape, |one| format!("p50 and p99: {bypass} less than {one}"));
    kernel.iter().flat_map(less).chain(absent).chain(without.into_iter().map(Question::LeftOut)).collect()
}

/// A path's figure compared with that of another.
fn compared<'a>(
    data: &TrialSet<'a>,
    metric: ClaimMetric,
    (path, shape): (IoPath, Shape),
    relation: Relation,
    against: Against<'a>,
) -> Question<'a> {
    let other = match &against {
        Against::Cell(cell) | Against::Share(_, cell) | Against::Beyond(_, cell) => Some(cell.path),
        Against::Number(_) => None,
    };
    // The paper prints latencies of depth 1, and no IOPS.
    let of = |path: IoPath| (!metric.is(&IOPS)).then(|| printed(path, shape.rw.writes(), metric)).flatten();
    let published = [of(path), other.and_then(of)];
    Question::Compare(Comparison::of(data, metric, (path, shape), relation, against).printed(published))
}

/// The figures in the average slowdown.
const BOTH: [Rw; 2] = [Rw::Randread, Rw::Randwrite];

pub(super) fn nearest<'a>(data: &TrialSet<'a>) -> Vec<Question<'a>> {
    let at = "randread and randwrite 4k iodepth 1 numjobs 1";
    let (bypass, sio) = (path(data), IoPath::PosixSio(SioCompletion::Poll));
    let cells = |path: IoPath| BOTH.map(|rw| data.cell(path, Shape::of_4k(rw)));
    let rings = [SYSCALL, SQPOLL].into_iter().flat_map(|submission| {
        [RingCompletion::Interrupt, RingCompletion::Poll].map(|completion| ring(submission, completion))
    });
    let mut others: Vec<IoPath> = rings.collect();
    // Besides those that the claim needs, all of the paper's that both have.
    let is_whole = |path: &IoPath| cells(*path).iter().all(|cell| !cell.verified.is_empty());
    let measured = data.cells(Shape::of_4k(Rw::Randread), |path| !path.is_bypass() && is_papers(path)).0;
    let more = measured.iter().map(|cell| cell.path).filter(|path| *path != sio && is_whole(path));
    others.extend(more.filter(|path| !others.contains(path)).collect::<Vec<_>>());
    let part = |other: IoPath| {
        let text = format!("average slowdown against {bypass}: {sio} less than {other}");
        let all: Vec<ClaimCell<'a>> = [bypass, sio, other].into_iter().flat_map(cells).collect();
        let slower = |path| slowdowns(&cells(path), &cells(bypass));
        let name =
            |path: IoPath| (path.to_string(), published::latency(&path).and_then(|row| row.slower_pct));
        Question::DerivedFigures(DerivedFigures {
            text,
            at: at.to_owned(),
            relation: Relation::Less,
            plan: data.machine.plan(false, 1),
            samples: [slower(sio), slower(other)],
            names: [name(sio), name(other)],
            unit: "%",
            missing: unique(
                all.iter().flat_map(|cell| [P50, P99].map(|metric| cell.lacks(metric, 1))).flatten(),
            ),
            cells: all,
        })
    };
    others.into_iter().map(part).collect()
}

/// The average slowdown of each replicate relative to the means of kernel bypass, in per cent, from the cells
/// of reads and of writes.
fn slowdowns(cells: &[ClaimCell<'_>; 2], bypass: &[ClaimCell<'_>; 2]) -> Sample {
    let metrics = [(0, P50), (0, P99), (1, P50), (1, P99)];
    let reference = metrics.map(|(of, metric)| bypass[of].mean(metric).unwrap_or(0.0));
    let samples = metrics.map(|(of, metric)| cells[of].sample(metric));
    let slowdown = |(block, values): (u32, Vec<f64>)| {
        let four = <[f64; 4]>::try_from(values).ok()?;
        Some((block, 100.0 * average_slowdown(four, reference)?))
    };
    joined(&samples).into_iter().filter_map(slowdown).collect()
}
