//! Energy in *Energy Implications of IO Interface Design Choices*: I/Os per joule by interface, submission
//! and completion.

use super::bypass::{self, is_papers_or_bypass};
use super::{OTHERS, SQPOLL, SYSCALL, ring};
use crate::claims::comparison::{Comparison, Relation};
use crate::claims::data::{ClaimCell, Shape, TrialSet};
use crate::claims::metrics::IOS_PER_JOULE;
use crate::claims::parts::{DerivedFigures, Each, MostCells, greatest, ranked};
use crate::claims::question::Question;
use iopj_analysis::contrast::{Sample, joined};
use iopj_analysis::grouping::ascending;
use iopj_core::{CompletionMode, IoPath, RingCompletion, Rw, SioCompletion, Submission, format_bytes};

/// What to know about the answers.
pub(super) const ONE_THREAD_NOTE: &str = "The depths of a size together: in each block a path's figure is \
                                          the geometric mean over the depths at which every path of that \
                                          size was measured, two at least. Among the asynchronous \
                                          interfaces, as in the paper. Kernel bypass is spdk/doorbell/poll \
                                          or else nvme-user/doorbell/poll; its lead is the ratio of its \
                                          figure to that of the best path of the kernel. At 128 KiB the best \
                                          path of system call and interrupt represents them. The paper draws \
                                          its figures (1 to 3) and prints none.";
/// The same for submission polling.
pub(super) const SQPOLL_NOTE: &str = "A cell is a workload with a completion that was measured with both \
                                      submissions, but for 4 KiB on one thread at the largest depth, of \
                                      which the paper says the opposite and which is a part of its own. The \
                                      paper draws its figures (1 to 7) and prints none.";
/// The same for many threads.
pub(super) const MANY_THREADS_NOTE: &str = "A cell is a request size and a thread count above one. It is \
                                            decided for a path that is significantly ahead of each other \
                                            one, and against a path that another is significantly ahead of, \
                                            after Holm's correction over all cells. In a store without \
                                            kernel bypass the part on kernel bypass is not decided. The \
                                            paper draws its figures (4 to 7) and prints none.";
/// The same for asynchronous paths.
pub(super) const ASYNCHRONOUS_NOTE: &str = "A cell is a request size and a thread count above one, one I/O \
                                            in flight on each; posix-sio is left out. The best path of \
                                            io_uring by system call represents both. The paper draws its \
                                            figures (4 to 7) and prints none.";
/// The same for large requests.
pub(super) const LARGE_NOTE: &str = "Each thread count above one that was measured at 128 KiB; the single \
                                     thread is reported separately. Each comparison also shows the ratio \
                                     with its interval over replicates. The paper draws its figures (6 and \
                                     7) and prints none.";

/// The replicates that a cell needs.
const REPLICATES: usize = 3;
const SMALL: u32 = 4 << 10;
const MIDDLE: u32 = 16 << 10;
const LARGE: u32 = 128 << 10;
/// The least number of depths that are combined.
const LEAST_DEPTHS: usize = 2;
const KERNEL: &str = "an asynchronous path of the kernel";
const NAME: &str = "I/Os per joule";
const SIO_POLL: IoPath = IoPath::PosixSio(SioCompletion::Poll);
const SIO_INTERRUPT: IoPath = IoPath::PosixSio(SioCompletion::Interrupt);

fn is_sqpoll(path: &IoPath) -> bool {
    path.submission() == Submission::Sqpoll
}

fn is_plain(path: &IoPath) -> bool {
    path.submission() == Submission::Syscall && path.completion() == CompletionMode::Interrupt
}

/// All workloads of io_uring and posix-sio that fit, or those given if there are none.
fn shapes(data: &TrialSet<'_>, otherwise: &[Shape], fits: impl Fn(&Shape) -> bool) -> Vec<Shape> {
    let rings = [SYSCALL, SQPOLL]
        .into_iter()
        .flat_map(|s| [ring(s, RingCompletion::Interrupt), ring(s, RingCompletion::Poll)]);
    let paths: Vec<IoPath> = rings.chain([SIO_POLL, SIO_INTERRUPT]).collect();
    let shapes = data.shapes(&paths, fits);
    if shapes.is_empty() { otherwise.to_vec() } else { shapes }
}

/// Cells of a workload with enough replicates, and the rest.
fn cells<'a>(
    data: &TrialSet<'a>,
    shape: Shape,
    fits: impl Fn(&IoPath) -> bool,
) -> (Vec<ClaimCell<'a>>, Vec<ClaimCell<'a>>) {
    let (with, without) = data.cells(shape, fits);
    let (with, few): (Vec<ClaimCell<'a>>, Vec<ClaimCell<'a>>) =
        with.into_iter().partition(|cell| cell.lacks(IOS_PER_JOULE, REPLICATES).is_none());
    (with, without.into_iter().chain(few).collect())
}

/// Random reads on one thread at depth 1.
fn one_thread_at(bs: u32) -> Shape {
    Shape { bs, ..Shape::of_4k(Rw::Randread) }
}

/// The asynchronous paths of the paper and kernel bypass on one thread with I/Os of one size, over the depths
/// at which all of them were measured.
struct Together<'a> {
    bs: u32,
    depths: Vec<u32>,
    /// The other depths, each with a path that lacks it.
    dropped: Vec<(u32, IoPath)>,
    /// The geometric mean of each path over the depths, block by block.
    samples: Vec<(IoPath, Sample)>,
    cells: Vec<ClaimCell<'a>>,
}

impl<'a> Together<'a> {
    /// Combines all depths that all paths of this size have; also the cells that lack something.
    fn of(data: &TrialSet<'a>, bs: u32) -> (Together<'a>, Vec<ClaimCell<'a>>) {
        let bypass = bypass::path(data);
        let is_one = |path: &IoPath| is_papers_or_bypass(path) && path.interface() != "posix-sio";
        let fits = |path: &IoPath| is_one(path) && (!path.is_bypass() || *path == bypass);
        let one_size = |one: &Shape| Shape { iodepth: 1, ..*one } == one_thread_at(bs);
        let (mut with, mut without): (Vec<Vec<ClaimCell<'a>>>, Vec<ClaimCell<'a>>) = (Vec::new(), Vec::new());
        for shape in data.shapes_of_all(fits, one_size) {
            let (enough, rest) = cells(data, shape, fits);
            with.push(enough);
            without.extend(rest);
        }
        let paths = ascending(with.iter().flatten().map(|cell| cell.path));
        let lacking = |cells: &Vec<ClaimCell<'a>>| {
            let path = paths.iter().find(|path| !cells.iter().any(|cell| cell.path == **path))?;
            Some((cells.first()?.shape.iodepth, *path))
        };
        let dropped = with.iter().filter_map(lacking).collect();
        with.retain(|cells| !paths.is_empty() && cells.len() == paths.len());
        let depths = with.iter().map(|cells| cells[0].shape.iodepth).collect();
        let all = Together { bs, depths, dropped, samples: Vec::new(), cells: with.concat() };
        (all.sampled(&paths), without)
    }

    /// The same for some of its depths.
    fn over(&self, depths: &[u32]) -> Together<'a> {
        let cells: Vec<ClaimCell<'a>> =
            self.cells.iter().filter(|cell| depths.contains(&cell.shape.iodepth)).cloned().collect();
        let paths: Vec<IoPath> = self.samples.iter().map(|(path, _)| *path).collect();
        let (depths, dropped) = (depths.to_vec(), self.dropped.clone());
        let some = Together { depths, dropped, samples: Vec::new(), cells, ..*self };
        some.sampled(&paths)
    }

    fn sampled(mut self, paths: &[IoPath]) -> Together<'a> {
        let sample = |path: &IoPath| -> Sample {
            let own = self.cells.iter().filter(|cell| cell.path == *path);
            let at_depths: Vec<Sample> = own.map(|cell| cell.sample(IOS_PER_JOULE)).collect();
            let mean = |values: Vec<f64>| {
                (values.iter().map(|one| one.ln()).sum::<f64>() / values.len() as f64).exp()
            };
            joined(&at_depths).into_iter().map(|(block, values)| (block, mean(values))).collect()
        };
        self.samples = paths.iter().map(|path| (*path, sample(path))).collect();
        self
    }

    /// The path of the greatest geometric mean among those that fit, with its sample.
    fn best(&self, fits: impl Fn(&IoPath) -> bool) -> Option<&(IoPath, Sample)> {
        let worth =
            |sample: &Sample| sample.iter().map(|(_, value)| value.ln()).sum::<f64>() / sample.len() as f64;
        let fitting = self.samples.iter().filter(|(path, sample)| fits(path) && !sample.is_empty());
        fitting.max_by(|(_, a), (_, b)| worth(a).total_cmp(&worth(b)))
    }

    /// Kernel bypass over the best path of the kernel, block by block, with its name.
    fn lead(&self) -> Option<(String, Sample)> {
        let (path, own) = self.best(|path| path.is_bypass())?;
        let (kernel, other) = self.best(|path| !path.is_bypass())?;
        let ratio = |(block, values): (u32, Vec<f64>)| (block, values[0] / values[1]);
        let lead = joined(&[own.clone(), other.clone()]).into_iter().map(ratio).collect();
        Some((format!("{path} over {kernel}, {}", format_bytes(self.bs.into())), lead))
    }

    /// True if a path that fits was measured.
    fn has(&self, fits: impl Fn(&IoPath) -> bool) -> bool {
        self.samples.iter().any(|(path, _)| fits(path))
    }

    /// What a group lacks to be compared: trials if it has none, else depths; nothing if it has both.
    fn lack(&self, group: &str, is_there: bool) -> Option<String> {
        let size = format_bytes(self.bs.into());
        if !is_there {
            return Some(format!(
                "energy of {REPLICATES} verified trials of {group}, randread {size}, one thread"
            ));
        }
        let there = if self.depths.is_empty() {
            "none".to_owned()
        } else {
            format!("iodepth {}", list(&self.depths))
        };
        let depths = "depths at which every path was measured that was with randread";
        (self.depths.len() < LEAST_DEPTHS)
            .then(|| format!("{LEAST_DEPTHS} {depths} {size} on one thread ({there}{})", self.without()))
    }

    /// The depths that stay out, each with a path that lacks it.
    fn without(&self) -> String {
        self.dropped.iter().map(|(depth, path)| format!("; without {depth}, which {path} lacks")).collect()
    }

    fn at(&self) -> String {
        let bs = format_bytes(self.bs.into());
        format!("randread {bs} iodepth {} numjobs 1, together{}", list(&self.depths), self.without())
    }

    /// The path of one group compared with each of another, one part each; or what is missing.
    fn ahead(
        &self,
        data: &TrialSet<'a>,
        text: &str,
        (who, is_first): (&str, impl Fn(&IoPath) -> bool),
        (whom, others): (&str, impl Fn(&IoPath) -> bool),
    ) -> Vec<Question<'a>> {
        let others: Vec<&(IoPath, Sample)> = self.samples.iter().filter(|(path, _)| others(path)).collect();
        let lack = self.lack(who, self.has(&is_first)).or_else(|| self.lack(whom, !others.is_empty()));
        let Some((path, own)) = self.best(&is_first).filter(|_| lack.is_none()) else {
            let need = lack.unwrap_or_else(|| format!("energy of {who} in one block at every depth"));
            return vec![Question::missing_for(format!("{NAME}: {text}"), "", need)];
        };
        let part = |(other, sample): &&(IoPath, Sample)| {
            Question::DerivedFigures(DerivedFigures {
                text: format!("{NAME}: {path} more than {other}"),
                at: self.at(),
                relation: Relation::More,
                plan: data.machine.plan(true, 1),
                samples: [own.clone(), sample.clone()],
                names: [(path.to_string(), None), (other.to_string(), None)],
                unit: "IO/J",
                cells: self
                    .cells
                    .iter()
                    .filter(|cell| [path, other].contains(&&cell.path))
                    .cloned()
                    .collect(),
                missing: Vec::new(),
            })
        };
        others.iter().map(part).collect()
    }
}

/// `1,2,16`.
fn list(depths: &[u32]) -> String {
    depths.iter().map(u32::to_string).collect::<Vec<String>>().join(",")
}

pub(super) fn one_thread<'a>(data: &TrialSet<'a>) -> Vec<Question<'a>> {
    let sizes = [SMALL, MIDDLE, LARGE].map(|bs| Together::of(data, bs));
    let [small, middle, large] = [0, 1, 2].map(|at| &sizes[at].0);
    let bypass = ("kernel bypass", |path: &IoPath| path.is_bypass());
    let mut questions =
        small.ahead(data, "kernel bypass first at 4k", bypass, (KERNEL, |path: &IoPath| !path.is_bypass()));
    questions.extend([lead_falls(data, [small, middle]), lead_falls(data, [middle, large])]);
    let (who, whom) = ("a path of system call and interrupt", "another asynchronous path");
    let text = "a path of system call and interrupt first at 128k";
    questions.extend(large.ahead(data, text, (who, is_plain), (whom, |path: &IoPath| !is_plain(path))));
    questions.extend(sizes.into_iter().flat_map(|(_, without)| without).map(Question::LeftOut));
    questions
}

/// Kernel bypass leads by more with the smaller I/Os than with the larger ones, over the depths of both.
fn lead_falls<'a>(data: &TrialSet<'a>, [smaller, larger]: [&Together<'a>; 2]) -> Question<'a> {
    let [from, to] = [smaller, larger].map(|one| format_bytes(one.bs.into()));
    let text = format!("{NAME}: the lead of kernel bypass is more at {from} than at {to}");
    let depths: Vec<u32> =
        smaller.depths.iter().copied().filter(|depth| larger.depths.contains(depth)).collect();
    let at = format!(
        "randread {from} and {to} iodepth {} numjobs 1, together{}{}",
        list(&depths),
        smaller.without(),
        larger.without()
    );
    let sizes = [smaller, larger].map(|one| one.over(&depths));
    let both = |one: &Together<'a>| one.has(|path| path.is_bypass()) && one.has(|path| !path.is_bypass());
    let group = format!("kernel bypass and of {KERNEL}");
    let mut lacks: Vec<String> =
        [smaller, larger].into_iter().filter_map(|one| one.lack(&group, both(one))).collect();
    if lacks.is_empty() && depths.len() < LEAST_DEPTHS {
        let [a, b] = [smaller, larger].map(|one| list(&one.depths));
        lacks.push(format!(
            "{LEAST_DEPTHS} depths of both {from} and {to} on one thread (iodepth {a} and {b})"
        ));
    }
    let leads = [sizes[0].lead(), sizes[1].lead()];
    let ([Some((own, lead)), Some((other, lesser))], true) = (leads, lacks.is_empty()) else {
        if lacks.is_empty() {
            lacks.push(format!("energy of {group} in one block at every depth"));
        }
        return Question::missing_for(text, "", lacks.join("; "));
    };
    Question::DerivedFigures(DerivedFigures {
        text,
        at,
        relation: Relation::More,
        plan: data.machine.plan(true, 1),
        samples: [lead, lesser],
        names: [(own, None), (other, None)],
        unit: "times",
        cells: sizes.into_iter().flat_map(|one| one.cells).collect(),
        missing: Vec::new(),
    })
}

fn compared<'a>(
    data: &TrialSet<'a>,
    path: IoPath,
    relation: Relation,
    other: IoPath,
    shape: Shape,
) -> Comparison<'a> {
    Comparison::of_paths(data, IOS_PER_JOULE, path, relation, other, shape)
}

pub(super) fn sqpoll<'a>(data: &TrialSet<'a>) -> Vec<Question<'a>> {
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
                    own.push(Question::Compare(compared(
                        data,
                        polled,
                        Relation::NotLess(0.0),
                        called,
                        *shape,
                    )));
                }
                None => each.push(Each { all: vec![less] }),
            }
        }
    }
    let text = "I/Os per joule: io_uring/sqpoll less than io_uring/syscall".to_owned();
    let generally = match missing.filter(|_| each.is_empty()) {
        Some(need) => Question::missing_for(text, "", need),
        None => Question::MostCells(MostCells { text, each }),
    };
    std::iter::once(generally).chain(own).collect()
}

/// Small requests on one thread at the largest of several depths.
fn is_deepest(shape: &Shape, all: &[Shape]) -> bool {
    let small = |one: &&Shape| one.bs == SMALL && one.numjobs == 1 && one.rw == shape.rw;
    let depths = || all.iter().filter(small).map(|one| one.iodepth);
    small(&shape) && shape.iodepth > 1 && depths().max() == Some(shape.iodepth)
}

/// The claim about the cells of a path, or what is missing for it.
fn generally<'a>(text: &str, each: Vec<Each<'a>>, need: &str) -> Question<'a> {
    let text = format!("I/Os per joule: {text}");
    match each.is_empty() {
        true => Question::missing_for(text, "", format!("energy of {REPLICATES} verified trials of {need}")),
        false => Question::MostCells(MostCells { text, each }),
    }
}

/// That a path is ahead of each of the others.
fn first_of<'a>(data: &TrialSet<'a>, path: IoPath, others: &[ClaimCell<'a>], shape: Shape) -> Each<'a> {
    let others = others.iter().filter(|cell| cell.path != path);
    Each { all: others.map(|cell| compared(data, path, Relation::More, cell.path, shape)).collect() }
}

pub(super) fn many_threads<'a>(data: &TrialSet<'a>) -> Vec<Question<'a>> {
    let at = |bs| Shape { bs, numjobs: 8, ..Shape::of_4k(Rw::Randread) };
    let fits = |one: &Shape| [SMALL, LARGE].contains(&one.bs) && one.iodepth == 1 && one.numjobs > 1;
    let (mut questions, mut sio, mut by_size) = (Vec::new(), Vec::new(), [Vec::new(), Vec::new()]);
    let (mut sqpolls, mut bypass) = (Vec::new(), Vec::new());
    for shape in shapes(data, &[at(SMALL), at(LARGE)], fits) {
        let (with, without) = cells(data, shape, is_papers_or_bypass);
        questions.extend(without.into_iter().map(Question::LeftOut));
        if let Some(absent) =
            OTHERS.iter().find(|other| !with.iter().any(|cell| cell.path.interface() == **other))
        {
            let need = format!("energy of {REPLICATES} verified trials of {absent}, {shape}");
            let text = "I/Os per joule: posix-sio against every other interface";
            questions.push(Question::missing_for(text, shape, need));
            continue;
        }
        let is_sio = |path: &IoPath| path.interface() == "posix-sio";
        if let Some(best) = greatest(&with, IOS_PER_JOULE, is_sio) {
            let others: Vec<ClaimCell<'a>> =
                with.iter().filter(|cell| !is_sio(&cell.path)).cloned().collect();
            sio.push(first_of(data, best.path, &others, shape));
        }
        let is_large = shape.bs == LARGE;
        let best = if is_large { SIO_INTERRUPT } else { SIO_POLL };
        if with.iter().any(|cell| cell.path == best) {
            by_size[usize::from(is_large)].push(first_of(data, best, &with, shape));
        }
        if is_large {
            sqpolls.extend(below_median(data, &with, shape, is_sqpoll));
            bypass.extend(below_median(data, &with, shape, |path| bypass::PATHS.contains(path)));
        }
    }
    let [small, large] = by_size;
    questions.extend([
        generally(
            "the best of posix-sio more than every other interface",
            sio,
            "all interfaces, many threads",
        ),
        generally("posix-sio/syscall/poll first at 4k", small, "all interfaces, 4k, many threads"),
        generally("posix-sio/syscall/interrupt first at 128k", large, "all interfaces, 128k, many threads"),
        generally(
            "io_uring/sqpoll below the median path at 128k",
            sqpolls,
            "io_uring/sqpoll, 128k, many threads",
        ),
        generally("kernel bypass below the median path at 128k", bypass, "kernel bypass, 128k, many threads"),
    ]);
    questions
}

/// That paths are behind the path of the median mean.
fn below_median<'a>(
    data: &TrialSet<'a>,
    with: &[ClaimCell<'a>],
    shape: Shape,
    fits: impl Fn(&IoPath) -> bool,
) -> Vec<Each<'a>> {
    let all = ranked(with, IOS_PER_JOULE, |_| true);
    let Some(median) = all.get(all.len() / 2).map(|cell| cell.path) else { return Vec::new() };
    let paths = with.iter().map(|cell| cell.path).filter(|path| fits(path) && *path != median);
    paths.map(|path| Each { all: vec![compared(data, path, Relation::Less, median, shape)] }).collect()
}

pub(super) fn asynchronous<'a>(data: &TrialSet<'a>) -> Vec<Question<'a>> {
    let of = |rw: Rw, text: &str, is_best: &dyn Fn(&IoPath) -> bool| {
        let shapes = shapes(data, &[], |one| one.rw == rw && one.iodepth == 1 && one.numjobs > 1);
        let each = |shape: Shape| {
            let (with, _) =
                cells(data, shape, |path| is_papers_or_bypass(path) && path.interface() != "posix-sio");
            let best = greatest(&with, IOS_PER_JOULE, is_best)?.path;
            let others: Vec<ClaimCell<'a>> =
                with.iter().filter(|cell| !is_best(&cell.path)).cloned().collect();
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
        of(Rw::Randwrite, "libaio first of the asynchronous paths for writes", &|path| {
            *path == IoPath::Libaio
        }),
    ]
}

pub(super) fn large<'a>(data: &TrialSet<'a>) -> Vec<Question<'a>> {
    let otherwise = Shape { bs: LARGE, numjobs: 8, ..Shape::of_4k(Rw::Randread) };
    let is_large = |one: &Shape| one.bs == LARGE && one.iodepth == 1;
    let many = shapes(data, &[otherwise], |one| is_large(one) && one.numjobs > 1);
    let single = shapes(data, &[], |one| is_large(one) && one.numjobs == 1);
    let apart = single.into_iter().flat_map(|shape| interrupt_ahead(data, shape));
    let apart = apart.map(|question| Question::Apart(Box::new(question)));
    many.into_iter().flat_map(|shape| interrupt_ahead(data, shape)).chain(apart).collect()
}

/// Interrupt does more than poll: posix-sio, and io_uring with either submission.
fn interrupt_ahead<'a>(data: &TrialSet<'a>, shape: Shape) -> [Question<'a>; 3] {
    let rings =
        |submission| [RingCompletion::Interrupt, RingCompletion::Poll].map(|one| ring(submission, one));
    let pairs = [[SIO_INTERRUPT, SIO_POLL], rings(SYSCALL), rings(SQPOLL)];
    pairs.map(|[interrupt, poll]| Question::Compare(compared(data, interrupt, Relation::More, poll, shape)))
}
