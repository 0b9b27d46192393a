//! Energy in *Energy Implications of IO Interface Design Choices*: I/Os per joule by interface, submission and completion.

use super::iface23::{BYPASS, OTHERS, SQPOLL, SYSCALL, ring};
use super::rule::{Against, Cell, Comparison, Data, IOS_PER_JOULE, Question, Relation, Shape};
use super::stated::{Group, above, greatest, least};
use iopj_core::{Completion, CompletionMode, IoPath, RingCompletion, Rw, Submission};

/// What to know about the answers.
pub(super) const ONE_THREAD_NOTE: &str = "Kernel bypass is in no record yet; the paths of the kernel are decided at 128 KiB, among the asynchronous \
                                          interfaces as in the paper. The best path of a group stands for it, and ties are by the papers' rule, Student's \
                                          test at 5 % without correction. The paper draws its figures (1 to 3) and prints none.";
/// The same for submission polling.
pub(super) const SQPOLL_NOTE: &str = "Every workload that was measured with both submissions, but 4 KiB on one thread at the upper half of the depths, of which \
                                      the paper says the opposite. Beside each comparison stands the ratio with its interval over replicates. The paper \
                                      draws its figures (1 to 7) and prints none.";
/// The same for many threads.
pub(super) const MANY_THREADS_NOTE: &str = "Kernel bypass is in no record yet: of the three worst paths at 128 KiB the two of submission polling are decided. \
                                            The best or the worst path of a group stands for it, and ties are by the papers' rule. The paper draws its \
                                            figures (4 to 7) and prints none.";
/// The same for large requests.
pub(super) const LARGE_NOTE: &str = "The upper half of the thread counts above one that were measured at 128 KiB. Beside each comparison stands the ratio with its \
                                     interval over replicates. The paper draws its figures (6 and 7) and prints none.";

/// The replicates that a cell needs.
const REPLICATES: usize = 3;
const LARGE: u32 = 128 << 10;
const NAME: &str = "I/Os per joule";
const SIO_POLL: IoPath = IoPath::PosixSio(CompletionMode::Poll);
const SIO_INTERRUPT: IoPath = IoPath::PosixSio(CompletionMode::Interrupt);

/// A part on kernel bypass.
fn bypass<'a>(text: &str, at: &str) -> Question<'a> {
    Question::Missing { text: text.to_owned(), at: at.to_owned(), need: BYPASS.to_owned() }
}

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
    let large = Shape { bs: LARGE, ..Shape::of_4k(Rw::Randread) };
    let mut questions = vec![
        bypass("I/Os per joule: kernel bypass more than every other path", "4k, one thread"),
        bypass("the lead of kernel bypass in I/Os per joule is less at 16k than at 4k", "one thread"),
        bypass("I/Os per joule: kernel bypass not more than the best path of the kernel", "128k, one thread"),
    ];
    let fits = |one: &Shape| one.bs == LARGE && one.numjobs == 1 && one.rw == Rw::Randread;
    for shape in shapes(data, &[large], fits) {
        let (with, without) = cells(data, shape, |path| path.interface() != "posix-sio");
        let plain = ("the best of system call and interrupt", greatest(&with, IOS_PER_JOULE, is_plain));
        let rest = ("the best of the rest", greatest(&with, IOS_PER_JOULE, |path| !is_plain(path)));
        questions.push(held("I/Os per joule: a path of system call and interrupt leads", shape, [plain, rest]));
        questions.extend(without.into_iter().map(Question::LeftOut));
    }
    questions
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
    let fits = |one: &Shape| [4096, LARGE].contains(&one.bs) && one.iodepth == 1 && one.numjobs > 1;
    let mut questions = Vec::new();
    for shape in shapes(data, &[at(4096), at(LARGE)], fits) {
        let (with, without) = cells(data, shape, |_| true);
        if let Some(absent) = OTHERS.iter().find(|other| !with.iter().any(|cell| cell.path.interface() == **other)) {
            let need = format!("energy of {REPLICATES} verified trials of {absent}, {shape}");
            let text = "I/Os per joule: posix-sio against every other interface".to_owned();
            questions.push(Question::Missing { text, at: shape.to_string(), need });
        } else {
            questions.extend(threads_at(shape, &with));
        }
        questions.extend(without.into_iter().map(Question::LeftOut));
    }
    questions.push(bypass("I/Os per joule: kernel bypass is among the three worst paths", "128k, many threads"));
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
        let rest = least(with, IOS_PER_JOULE, |path| !is_sqpoll(path));
        let sqpoll = greatest(with, IOS_PER_JOULE, is_sqpoll);
        let groups = [("the worst of the rest", rest), ("the best of submission polling", sqpoll)];
        questions.push(held("I/Os per joule: submission polling is worst", shape, groups));
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
