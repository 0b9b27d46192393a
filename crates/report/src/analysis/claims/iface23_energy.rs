//! Energy in *Energy Implications of IO Interface Design Choices*: I/Os per joule by interface, submission and completion.

use super::iface23::{OTHERS, SQPOLL, SYSCALL, ring};
use super::iface23_bypass::{self, is_papers_or_bypass};
use super::rule::{Against, Cell, Comparison, Data, IOS_PER_JOULE, Question, Relation, Shape};
use super::stated::{Derived, Each, Generally, Group, above, greatest, ranked};
use iopj_core::{Completion, CompletionMode, IoPath, RingCompletion, Rw, Submission, format_bytes};

/// What to know about the answers.
pub(super) const ONE_THREAD_NOTE: &str = "At each depth, among the asynchronous interfaces as in the paper; kernel bypass is spdk/doorbell/poll or else \
                                          nvme-user/doorbell/poll, and its lead the ratio of its I/Os per joule to those of the best path of the kernel. The best path of a group stands for it, and ties are by the papers' rule, Student's \
                                          test at 5 % without correction. The paper draws its figures (1 to 3) and prints none.";
/// The same for submission polling.
pub(super) const SQPOLL_NOTE: &str = "A cell is a workload with a completion that was measured with both submissions, but for 4 KiB on one thread at the largest depth, \
                                      of which the paper says the opposite and which is a part of its own. The paper draws its figures (1 to 7) and prints none.";
/// The same for many threads.
pub(super) const MANY_THREADS_NOTE: &str = "A cell is a request size and a thread count above one. It is decided for a path where that is told from each other one, \
                                            against it where another is told to be ahead, after Holm's correction over all cells. Of a store without kernel bypass the \
                                            part on kernel bypass is not decided. The paper draws its figures (4 to 7) and prints none.";
/// The same for asynchronous paths.
pub(super) const ASYNCHRONOUS_NOTE: &str = "A cell is a request size and a thread count above one, one I/O in flight on each; posix-sio stays out. The best path of \
                                            io_uring by system call stands for both. The paper draws its figures (4 to 7) and prints none.";
/// The same for large requests.
pub(super) const LARGE_NOTE: &str = "Each thread count above one that was measured at 128 KiB. Beside each comparison stands the ratio with its \
                                     interval over replicates. The paper draws its figures (6 and 7) and prints none.";

/// The replicates that a cell needs.
const REPLICATES: usize = 3;
const SMALL: u32 = 4 << 10;
const MIDDLE: u32 = 16 << 10;
const LARGE: u32 = 128 << 10;
const KERNEL: &str = "the best path of the kernel";
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

fn compared<'a>(data: &Data<'a>, path: IoPath, relation: Relation, other: IoPath, shape: Shape) -> Comparison<'a> {
    Comparison {
        metric: IOS_PER_JOULE,
        cell: data.cell(path, shape),
        relation,
        against: Against::Cell(data.cell(other, shape)),
        published: [None; 2],
    }
}

pub(super) fn sqpoll<'a>(data: &Data<'a>) -> Vec<Question<'a>> {
    let first = Shape::of_4k(Rw::Randread);
    let (mut each, mut own, mut missing) = (Vec::new(), Vec::new(), None);
    for completion in [RingCompletion::Interrupt, RingCompletion::Poll] {
        let [polled, called] = [SQPOLL, SYSCALL].map(|submission| ring(submission, completion));
        let mut shapes = data.shapes(&[polled], |_| true);
        if shapes.is_empty() {
            shapes.push(first);
        }
        for shape in &shapes {
            let less = compared(data, polled, Relation::Less, called, *shape);
            match less.missing(REPLICATES).into_iter().next() {
                Some(need) => missing = missing.or(Some(need)),
                None if is_deepest(shape, &shapes) => {
                    own.push(Question::Compare(compared(data, polled, Relation::NotLess(0.0), called, *shape)));
                }
                None => each.push(Each { all: vec![less] }),
            }
        }
    }
    let text = "I/Os per joule: io_uring/sqpoll less than io_uring/syscall".to_owned();
    let generally = match missing.filter(|_| each.is_empty()) {
        Some(need) => Question::Missing { text, at: String::new(), need },
        None => Question::Generally(Generally { text, each }),
    };
    std::iter::once(generally).chain(own).collect()
}

/// Small requests on one thread at the largest of several depths.
fn is_deepest(shape: &Shape, all: &[Shape]) -> bool {
    let small = |one: &&Shape| one.bs == SMALL && one.numjobs == 1 && one.rw == shape.rw;
    let depths = || all.iter().filter(small).map(|one| one.iodepth);
    small(&shape) && shape.iodepth > 1 && depths().max() == Some(shape.iodepth)
}

/// What is claimed of the cells of a path, or what is missing for it.
fn generally<'a>(text: &str, each: Vec<Each<'a>>, need: &str) -> Question<'a> {
    let text = format!("I/Os per joule: {text}");
    match each.is_empty() {
        true => Question::Missing {
            text,
            at: String::new(),
            need: format!("energy of {REPLICATES} verified trials of {need}"),
        },
        false => Question::Generally(Generally { text, each }),
    }
}

/// That a path is ahead of each of the others.
fn first_of<'a>(data: &Data<'a>, path: IoPath, others: &[Cell<'a>], shape: Shape) -> Each<'a> {
    let others = others.iter().filter(|cell| cell.path != path);
    Each { all: others.map(|cell| compared(data, path, Relation::More, cell.path, shape)).collect() }
}

pub(super) fn many_threads<'a>(data: &Data<'a>) -> Vec<Question<'a>> {
    let at = |bs| Shape { bs, numjobs: 8, ..Shape::of_4k(Rw::Randread) };
    let fits = |one: &Shape| [SMALL, LARGE].contains(&one.bs) && one.iodepth == 1 && one.numjobs > 1;
    let (mut questions, mut sio, mut by_size) = (Vec::new(), Vec::new(), [Vec::new(), Vec::new()]);
    let (mut sqpolls, mut bypass) = (Vec::new(), Vec::new());
    for shape in shapes(data, &[at(SMALL), at(LARGE)], fits) {
        let (with, without) = cells(data, shape, is_papers_or_bypass);
        questions.extend(without.into_iter().map(Question::LeftOut));
        if let Some(absent) = OTHERS.iter().find(|other| !with.iter().any(|cell| cell.path.interface() == **other)) {
            let need = format!("energy of {REPLICATES} verified trials of {absent}, {shape}");
            let text = "I/Os per joule: posix-sio against every other interface".to_owned();
            questions.push(Question::Missing { text, at: shape.to_string(), need });
            continue;
        }
        let is_sio = |path: &IoPath| path.interface() == "posix-sio";
        if let Some(best) = greatest(&with, IOS_PER_JOULE, is_sio) {
            let others: Vec<Cell<'a>> = with.iter().filter(|cell| !is_sio(&cell.path)).cloned().collect();
            sio.push(first_of(data, best.path, &others, shape));
        }
        let is_large = shape.bs == LARGE;
        let best = if is_large { SIO_INTERRUPT } else { SIO_POLL };
        if with.iter().any(|cell| cell.path == best) {
            by_size[usize::from(is_large)].push(first_of(data, best, &with, shape));
        }
        if is_large {
            sqpolls.extend(below_median(data, &with, shape, is_sqpoll));
            bypass.extend(below_median(data, &with, shape, |path| iface23_bypass::PATHS.contains(path)));
        }
    }
    let [small, large] = by_size;
    questions.extend([
        generally("the best of posix-sio more than every other interface", sio, "all interfaces, many threads"),
        generally("posix-sio/syscall/poll first at 4k", small, "all interfaces, 4k, many threads"),
        generally("posix-sio/syscall/interrupt first at 128k", large, "all interfaces, 128k, many threads"),
        generally("io_uring/sqpoll below the median path at 128k", sqpolls, "io_uring/sqpoll, 128k, many threads"),
        generally("kernel bypass below the median path at 128k", bypass, "kernel bypass, 128k, many threads"),
    ]);
    questions
}

/// That paths are behind the path of the median mean.
fn below_median<'a>(data: &Data<'a>, with: &[Cell<'a>], shape: Shape, fits: impl Fn(&IoPath) -> bool) -> Vec<Each<'a>> {
    let all = ranked(with, IOS_PER_JOULE, |_| true);
    let Some(median) = all.get(all.len() / 2).map(|cell| cell.path) else { return Vec::new() };
    let paths = with.iter().map(|cell| cell.path).filter(|path| fits(path) && *path != median);
    paths.map(|path| Each { all: vec![compared(data, path, Relation::Less, median, shape)] }).collect()
}

pub(super) fn asynchronous<'a>(data: &Data<'a>) -> Vec<Question<'a>> {
    let of = |rw: Rw, text: &str, is_best: &dyn Fn(&IoPath) -> bool| {
        let shapes = shapes(data, &[], |one| one.rw == rw && one.iodepth == 1 && one.numjobs > 1);
        let each = |shape: Shape| {
            let (with, _) = cells(data, shape, |path| is_papers_or_bypass(path) && path.interface() != "posix-sio");
            let best = greatest(&with, IOS_PER_JOULE, is_best)?.path;
            let others: Vec<Cell<'a>> = with.iter().filter(|cell| !is_best(&cell.path)).cloned().collect();
            (!others.is_empty()).then(|| first_of(data, best, &others, shape))
        };
        generally(
            text,
            shapes.into_iter().filter_map(each).collect(),
            &format!("asynchronous paths, {rw}, many threads"),
        )
    };
    let called = |path: &IoPath| path.interface() == "io_uring" && path.submission() == Submission::Syscall;
    vec![
        of(Rw::Randread, "io_uring/syscall first of the asynchronous paths for reads", &called),
        of(Rw::Randwrite, "libaio first of the asynchronous paths for writes", &|path| *path == IoPath::Libaio),
    ]
}

pub(super) fn large<'a>(data: &Data<'a>) -> Vec<Question<'a>> {
    let otherwise = Shape { bs: LARGE, numjobs: 8, ..Shape::of_4k(Rw::Randread) };
    let fits = |one: &Shape| one.bs == LARGE && one.iodepth == 1 && one.numjobs > 1;
    let shapes = shapes(data, &[otherwise], fits);
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
    shapes.iter().flat_map(of).collect()
}
