//! Energy in *Energy Implications of IO Interface Design Choices*: I/Os per joule by interface, submission and completion.

use super::iface23::{OTHERS, SQPOLL, SYSCALL, ring};
use super::iface23_bypass;
use super::rule::{Against, Cell, Comparison, Data, IOS_PER_JOULE, Question, Relation, Shape};
use super::stated::{Derived, Group, above, greatest, least, ranked};
use iopj_core::{Completion, CompletionMode, IoPath, RingCompletion, Rw, Submission, format_bytes};

/// What to know about the answers.
pub(super) const ONE_THREAD_NOTE: &str = "At each depth, among the asynchronous interfaces as in the paper; kernel bypass is spdk/doorbell/poll or else \
                                          nvme-user/doorbell/poll, and its lead the ratio of its I/Os per joule to those of the best path of the kernel. The best path of a group stands for it, and ties are by the papers' rule, Student's \
                                          test at 5 % without correction. The paper draws its figures (1 to 3) and prints none.";
/// The same for submission polling.
pub(super) const SQPOLL_NOTE: &str = "Every workload that was measured with both submissions, but 4 KiB on one thread at the upper half of the depths, of which \
                                      the paper says the opposite. Beside each comparison stands the ratio with its interval over replicates. The paper \
                                      draws its figures (1 to 7) and prints none.";
/// The same for many threads.
pub(super) const MANY_THREADS_NOTE: &str = "Of a store without kernel bypass the two paths of submission polling are held against the rest at 128 KiB, and the \
                                            three worst are not decided. The best or the worst path of a group stands for it, and ties are by the papers' rule. The paper draws its \
                                            figures (4 to 7) and prints none.";
/// The same for large requests.
pub(super) const LARGE_NOTE: &str = "The upper half of the thread counts above one that were measured at 128 KiB. Beside each comparison stands the ratio with its \
                                     interval over replicates. The paper draws its figures (6 and 7) and prints none.";

/// The replicates that a cell needs.
const REPLICATES: usize = 3;
const SMALL: u32 = 4 << 10;
const MIDDLE: u32 = 16 << 10;
const LARGE: u32 = 128 << 10;
const KERNEL: &str = "the best path of the kernel";
const THREE_WORST: &str = "I/Os per joule: the three worst paths are of kernel bypass and submission polling";
const NAME: &str = "I/Os per joule";
const SIO_POLL: IoPath = IoPath::PosixSio(CompletionMode::Poll);
const SIO_INTERRUPT: IoPath = IoPath::PosixSio(CompletionMode::Interrupt);

fn is_sqpoll(path: &IoPath) -> bool {
    path.submission() == Submission::Sqpoll
}

fn is_plain(path: &IoPath) -> bool {
    path.submission() == Submission::Syscall && path.completion() == Completion::Interrupt
}

/// All workloads of io_uring and posix-sio that fit, or those given where there is none.
fn shapes(data: &Data<'_>, otherwise: &[Shape], fits: impl Fn(&Shape) -> bool) -> Vec<Shape> {
    let rings =
        [SYSCALL, SQPOLL].into_iter().flat_map(|s| [ring(s, RingCompletion::Interrupt), ring(s, RingCompletion::Poll)]);
    let paths: Vec<IoPath> = rings.chain([SIO_POLL, SIO_INTERRUPT]).collect();
    let shapes = data.shapes(&paths, fits);
    if shapes.is_empty() { otherwise.to_vec() } else { shapes }
}

/// Cells of a workload with enough replicates, and the rest.
fn cells<'a>(data: &Data<'a>, shape: Shape, fits: impl Fn(&IoPath) -> bool) -> (Vec<Cell<'a>>, Vec<Cell<'a>>) {
    let (with, without) = data.cells(shape, fits);
    let (with, few): (Vec<Cell<'a>>, Vec<Cell<'a>>) =
        with.into_iter().partition(|cell| cell.lacks(IOS_PER_JOULE, REPLICATES).is_none());
    (with, without.into_iter().chain(few).collect())
}

/// A comparison of groups, or what is missing for it.
fn held<'a>(text: &str, shape: Shape, groups: [(&'static str, Option<&Cell<'a>>); 2]) -> Question<'a> {
    match groups {
        [(high, Some(high_cell)), (low, Some(low_cell))] => {
            let group = |name, cell| Group { name, cell };
            Question::Stated(above(IOS_PER_JOULE, &group(high, high_cell), &group(low, low_cell), NAME))
        }
        _ => {
            let absent: Vec<&str> = groups.iter().filter(|(_, cell)| cell.is_none()).map(|(name, _)| *name).collect();
            let need = format!("energy of {REPLICATES} verified trials of {}, {shape}", absent.join(" and of "));
            Question::Missing { text: text.to_owned(), at: shape.to_string(), need }
        }
    }
}

pub(super) fn one_thread<'a>(data: &Data<'a>) -> Vec<Question<'a>> {
    let at = |bs| Shape { bs, ..Shape::of_4k(Rw::Randread) };
    let mut questions = bypass_on_one_thread(data, at);
    let fits = |one: &Shape| Shape { iodepth: 1, ..*one } == at(LARGE);
    for shape in shapes(data, &[at(LARGE)], fits) {
        let (with, without) = cells(data, shape, |path| path.interface() != "posix-sio");
        let plain = ("the best of system call and interrupt", greatest(&with, IOS_PER_JOULE, is_plain));
        let rest = ("the best of the rest", greatest(&with, IOS_PER_JOULE, |path| !is_plain(path)));
        questions.push(held("I/Os per joule: a path of system call and interrupt leads", shape, [plain, rest]));
        questions.extend(without.into_iter().map(Question::LeftOut));
    }
    questions
}

/// Kernel bypass leads at 4 KiB, leads by less at 16 KiB, and is behind at 128 KiB: at each depth.
fn bypass_on_one_thread<'a>(data: &Data<'a>, at: impl Fn(u32) -> Shape) -> Vec<Question<'a>> {
    const LEADS: &str = "I/Os per joule: kernel bypass more than every other path";
    const BEHIND: &str = "I/Os per joule: the best path of the kernel more than kernel bypass";
    let bypass = iface23_bypass::path(data);
    // Its depths with this size, or depth 1 where there is none.
    let depths = |bs: u32| {
        let shapes = data.shapes(&[bypass], |one| Shape { iodepth: 1, ..*one } == at(bs));
        if shapes.is_empty() { vec![at(bs)] } else { shapes }
    };
    let mut questions = Vec::new();
    for shape in depths(SMALL) {
        let [small, middle] = [SMALL, MIDDLE].map(|bs| Contest::of(data, bypass, Shape { bs, ..shape }));
        questions.push(held(LEADS, shape, [("kernel bypass", small.bypass.as_ref()), (KERNEL, small.kernel.as_ref())]));
        questions.push(lead_falls([&small, &middle]));
        questions.extend([small, middle].into_iter().flat_map(|contest| contest.without).map(Question::LeftOut));
    }
    for shape in depths(LARGE) {
        let Contest { bypass, kernel, without, .. } = Contest::of(data, bypass, shape);
        questions.push(held(BEHIND, shape, [(KERNEL, kernel.as_ref()), ("kernel bypass", bypass.as_ref())]));
        questions.extend(without.into_iter().map(Question::LeftOut));
    }
    questions
}

/// Kernel bypass against the best asynchronous path of the kernel under a workload.
struct Contest<'a> {
    shape: Shape,
    bypass: Option<Cell<'a>>,
    kernel: Option<Cell<'a>>,
    without: Vec<Cell<'a>>,
}

impl<'a> Contest<'a> {
    fn of(data: &Data<'a>, bypass: IoPath, shape: Shape) -> Contest<'a> {
        let (with, without) = cells(data, shape, |path| path.interface() != "posix-sio");
        let kernel = greatest(&with, IOS_PER_JOULE, |path| !path.is_bypass()).cloned();
        Contest { shape, bypass: greatest(&with, IOS_PER_JOULE, |path| *path == bypass).cloned(), kernel, without }
    }

    /// I/Os per joule of kernel bypass over the other's, replicate by replicate, with its name and its cells.
    fn lead(&self) -> Option<(Vec<f64>, String, [Cell<'a>; 2])> {
        let (bypass, kernel) = (self.bypass.as_ref()?, self.kernel.as_ref()?);
        let pairs = bypass.values(IOS_PER_JOULE).into_iter().zip(kernel.values(IOS_PER_JOULE));
        let name = format!("{} over {}, {}", bypass.path, kernel.path, format_bytes(self.shape.bs.into()));
        Some((pairs.map(|(own, other)| own / other).collect(), name, [bypass.clone(), kernel.clone()]))
    }
}

/// The lead of kernel bypass under the first workload is more than under the second.
fn lead_falls<'a>(contests: [&Contest<'a>; 2]) -> Question<'a> {
    let text = "I/Os per joule: the lead of kernel bypass is more at 4k than at 16k".to_owned();
    let at = format!("4k and 16k, iodepth {}, one thread", contests[0].shape.iodepth);
    let [Some((small, of_small, cells)), Some((middle, of_middle, others))] = contests.map(Contest::lead) else {
        let lacking = contests.into_iter().filter(|contest| contest.lead().is_none());
        let shapes: Vec<String> = lacking.map(|contest| contest.shape.to_string()).collect();
        let need = format!(
            "energy of {REPLICATES} verified trials of kernel bypass and of {KERNEL}, {}",
            shapes.join(" and ")
        );
        return Question::Missing { text, at, need };
    };
    Question::Derived(Derived {
        text,
        at,
        relation: Relation::More,
        samples: [small, middle],
        names: [(of_small, None), (of_middle, None)],
        unit: "times",
        cells: cells.into_iter().chain(others).collect(),
        missing: Vec::new(),
    })
}

/// The places of the upper half of so many in ascending order; of one there is none.
fn in_upper_half(place: usize, of: usize) -> bool {
    2 * place >= of.max(2)
}

pub(super) fn sqpoll<'a>(data: &Data<'a>) -> Vec<Question<'a>> {
    let first = Shape::of_4k(Rw::Randread);
    let mut questions = Vec::new();
    for completion in [RingCompletion::Interrupt, RingCompletion::Poll] {
        let [polled, called] = [SQPOLL, SYSCALL].map(|submission| ring(submission, completion));
        let mut shapes = data.shapes(&[polled], |_| true);
        if shapes.is_empty() {
            shapes.push(first);
        }
        for shape in shapes.iter().filter(|shape| !exempt(shape, &shapes)) {
            questions.push(Question::Compare(Comparison {
                metric: IOS_PER_JOULE,
                cell: data.cell(polled, *shape),
                relation: Relation::Less,
                against: Against::Cell(data.cell(called, *shape)),
                published: [None; 2],
            }));
        }
    }
    questions
}

/// Small requests at large depth on one thread: the upper half of the depths at which 4 KiB was measured on one thread.
fn exempt(shape: &Shape, all: &[Shape]) -> bool {
    let small = |one: &&Shape| one.bs == 4096 && one.numjobs == 1 && one.rw == shape.rw;
    let depths: Vec<u32> = all.iter().filter(small).map(|one| one.iodepth).collect();
    let place = depths.iter().position(|depth| *depth == shape.iodepth);
    small(&shape) && place.is_some_and(|place| in_upper_half(place, depths.len()))
}

pub(super) fn many_threads<'a>(data: &Data<'a>) -> Vec<Question<'a>> {
    let at = |bs| Shape { bs, numjobs: 8, ..Shape::of_4k(Rw::Randread) };
    let fits = |one: &Shape| [SMALL, LARGE].contains(&one.bs) && one.iodepth == 1 && one.numjobs > 1;
    let mut questions = Vec::new();
    let mut has_bypass = false;
    for shape in shapes(data, &[at(SMALL), at(LARGE)], fits) {
        let (with, without) = cells(data, shape, |_| true);
        if let Some(absent) = OTHERS.iter().find(|other| !with.iter().any(|cell| cell.path.interface() == **other)) {
            let need = format!("energy of {REPLICATES} verified trials of {absent}, {shape}");
            let text = "I/Os per joule: posix-sio against every other interface".to_owned();
            questions.push(Question::Missing { text, at: shape.to_string(), need });
        } else {
            questions.extend(threads_at(shape, &with));
            has_bypass |= shape.bs == LARGE && with.iter().any(|cell| iface23_bypass::PATHS.contains(&cell.path));
        }
        questions.extend(without.into_iter().map(Question::LeftOut));
    }
    if !has_bypass {
        let (text, at) = (THREE_WORST.to_owned(), "128k, many threads".to_owned());
        let need = format!("energy of {REPLICATES} verified trials of kernel bypass, {at}");
        questions.push(Question::Missing { text, at, need });
    }
    questions
}

/// The best path, and at 128 KiB the worst ones.
fn threads_at<'a>(shape: Shape, with: &[Cell<'a>]) -> Vec<Question<'a>> {
    let (best, name) =
        if shape.bs == LARGE { (SIO_INTERRUPT, "posix-sio with interrupt") } else { (SIO_POLL, "posix-sio with poll") };
    let own = greatest(with, IOS_PER_JOULE, |path| *path == best);
    let others = greatest(with, IOS_PER_JOULE, |path| *path != best);
    let mut questions =
        vec![held("I/Os per joule: posix-sio leads", shape, [(name, own), ("the best of the rest", others)])];
    if shape.bs == LARGE {
        let is_worst = |path: &IoPath| is_sqpoll(path) || iface23_bypass::PATHS.contains(path);
        let rest = ("the worst of the rest", least(with, IOS_PER_JOULE, |path| !is_worst(path)));
        questions.push(if with.iter().any(|cell| iface23_bypass::PATHS.contains(&cell.path)) {
            let third = ranked(with, IOS_PER_JOULE, is_worst).into_iter().nth(2);
            held(THREE_WORST, shape, [rest, ("the third worst of kernel bypass and submission polling", third)])
        } else {
            let sqpoll = greatest(with, IOS_PER_JOULE, is_sqpoll);
            held(
                "I/Os per joule: submission polling is worst",
                shape,
                [rest, ("the best of submission polling", sqpoll)],
            )
        });
    }
    questions
}

pub(super) fn large<'a>(data: &Data<'a>) -> Vec<Question<'a>> {
    let otherwise = Shape { bs: LARGE, numjobs: 8, ..Shape::of_4k(Rw::Randread) };
    let fits = |one: &Shape| one.bs == LARGE && one.iodepth == 1 && one.numjobs > 1;
    let shapes = shapes(data, &[otherwise], fits);
    let mut counts: Vec<u32> = shapes.iter().map(|shape| shape.numjobs).collect();
    counts.sort_unstable();
    counts.dedup();
    let larger = |shape: &&Shape| {
        let place = counts.iter().position(|count| *count == shape.numjobs);
        counts.len() == 1 || place.is_some_and(|place| in_upper_half(place, counts.len()))
    };
    let pairs = [
        (SIO_INTERRUPT, SIO_POLL),
        (ring(SYSCALL, RingCompletion::Interrupt), ring(SYSCALL, RingCompletion::Poll)),
        (ring(SQPOLL, RingCompletion::Interrupt), ring(SQPOLL, RingCompletion::Poll)),
    ];
    let of = |shape: &Shape| {
        pairs.map(|(interrupt, poll)| {
            Question::Compare(Comparison {
                metric: IOS_PER_JOULE,
                cell: data.cell(interrupt, *shape),
                relation: Relation::More,
                against: Against::Cell(data.cell(poll, *shape)),
                published: [None; 2],
            })
        })
    };
    shapes.iter().filter(larger).flat_map(of).collect()
}
