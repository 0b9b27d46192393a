//! The claims of *Energy Implications of IO Interface Design Choices*: the interfaces compared.

mod bypass;
mod energy;
mod shared;

use super::comparison::{Against, Comparison, Relation};
use super::data::{ClaimCell, Shape, TrialSet};
use super::metrics::{CPU, ClaimMetric, P50, P99};
use super::question::Question;
use super::{BASE, Definition};
use iopj_analysis::grouping::ascending;
use iopj_core::path::AioDescriptors;
use iopj_core::{IoPath, RingCompletion, Rw, SioCompletion, Submission};
use shared::absent_interfaces;
pub(super) use shared::{OTHERS, SQPOLL, SYSCALL, printed, ring, sqpolls};

pub(super) const POSIX_AIO: IoPath = IoPath::PosixAio(AioDescriptors::PerJob);
/// The study's paths and kernel bypass, as `--path` takes them.
const WITH_BYPASS: &str = "posix-sio/syscall/interrupt,posix-sio/syscall/poll,posix-aio/syscall/interrupt,\
                           libaio/syscall/interrupt,io_uring/syscall/interrupt,io_uring/syscall/poll,\
                           io_uring/sqpoll/interrupt,io_uring/sqpoll/poll,nvme-user/doorbell/poll";

/// What to know about the answers on kernel bypass.
const BYPASS_NOTE: &str = "Kernel bypass is spdk/doorbell/poll, the paper's, where it has a verified trial \
                           under the same generator and settings, and otherwise nvme-user/doorbell/poll. It \
                           is compared with the paper's paths of the kernel; other paths are left out.";

/// Its claims, in their order.
pub(super) const DEFINITIONS: &[Definition] = &[
    Definition {
        id: "iface23-1",
        text: "Kernel bypass has the lowest latency; io_uring with both pollings comes within 1 to 2 us of \
               its median read; with submission polling io_uring closes the IOPS gap at the largest depth \
               on one thread.",
        needs: &[
            "spdk or nvme-user poll",
            "io_uring sqpoll",
            "randread 4k, one thread, iodepth 1 and at least 31",
        ],
        note: Some(BYPASS_NOTE),
        parts: bypass::lowest,
        run: |_| {
            format!("iopj run studies/iface23.toml --bs 4k --iodepth 1,31 --numjobs 1 --path {WITH_BYPASS}")
        },
        ..BASE
    },
    Definition {
        id: "iface23-2",
        text: "Of the kernel paths, posix-sio with polling is nearest to kernel bypass over median and \
               tail, reads and writes.",
        needs: &[
            "spdk or nvme-user poll",
            "posix-sio poll",
            "io_uring's four",
            "read and write, p50 and p99",
        ],
        note: Some(BYPASS_NOTE),
        parts: bypass::nearest,
        run: |_| {
            format!("iopj run studies/iface23.toml --bs 4k --iodepth 1 --numjobs 1 --path {WITH_BYPASS}")
        },
        ..BASE
    },
    Definition {
        id: "iface23-3",
        text: "With system-call submission, io_uring's writes are slower than posix-sio's with the same \
               completion, in median and tail; with submission polling, in the tail.",
        needs: &["io_uring and posix-sio, interrupt and poll", "randwrite 4k, iodepth 1 (numjobs 1)"],
        parts: slower_writes,
        run: |_| {
            "iopj run studies/iface23.toml --rw randwrite --bs 4k --iodepth 1 --numjobs 1 --path \
             posix-sio/syscall/interrupt,posix-sio/syscall/poll,io_uring/syscall/interrupt,io_uring/\
             syscall/poll,io_uring/sqpoll/interrupt,io_uring/sqpoll/poll"
                .to_owned()
        },
        ..BASE
    },
    Definition {
        id: "iface23-4",
        text: "posix-aio has the highest latency of all.",
        needs: &["posix-aio and every other interface", "4k, iodepth 1 (randread and randwrite, numjobs 1)"],
        note: Some(
            "Decided over the paper's paths that have a verified trial, kernel bypass among them where it \
             has one; other paths are left out.",
        ),
        parts: slowest,
        run: |_| "iopj run studies/iface23.toml --bs 4k --iodepth 1 --numjobs 1".to_owned(),
        ..BASE
    },
    Definition {
        id: "iface23-5",
        text: "One thread: kernel bypass has the most I/Os per joule at 4 KiB, less of a lead at 16 KiB, \
               none at 128 KiB, where system-call-and-interrupt paths lead.",
        needs: &["a system-scope meter", "spdk or nvme-user poll", "one thread over depth", "4k, 16k, 128k"],
        note: Some(energy::ONE_THREAD_NOTE),
        parts: energy::one_thread,
        replicates: 3,
        run: |_| {
            format!(
                "iopj run studies/iface23.toml --rw randread --numjobs 1 --path {WITH_BYPASS}, with its \
                 meter"
            )
        },
        run_with_meter: Some(
            "iopj run studies/iface23.toml --numjobs 1, with a system-scope meter under \
                         [meters] and kernel bypass among the paths",
        ),
        ..BASE
    },
    Definition {
        id: "iface23-6",
        text: "Submission polling gives fewer I/Os per joule than system calls, but for small requests at \
               large depth on one thread.",
        needs: &["a system-scope meter", "io_uring syscall and sqpoll"],
        note: Some(energy::SQPOLL_NOTE),
        parts: energy::sqpoll,
        replicates: 3,
        run: |_| "iopj run studies/iface23.toml, with its meter".to_owned(),
        run_with_meter: Some("iopj run studies/iface23.toml, with a system-scope meter under [meters]"),
        ..BASE
    },
    Definition {
        id: "iface23-7",
        text: "On one thread submission polling keeps two cores busy, the other paths at most one; over \
               many threads submission polling and kernel bypass take every core.",
        needs: &["io_uring sqpoll (randread 4k)", "CPU time of all threads, kernel ones included"],
        note: Some(
            "Kernel bypass is included where it was measured: on one thread like the other paths, over many \
             threads if it has one per core. The paper's machine had 8 logical cores: its figure for many \
             threads is 800 %.",
        ),
        parts: busy_cores,
        run: run_busy_cores,
        ..BASE
    },
    Definition {
        id: "iface23-8",
        text: "Over many threads posix-sio has the most I/Os per joule, polling for small requests and \
               interrupts for large; kernel bypass and submission polling are among the worst at 128 KiB.",
        needs: &["a system-scope meter", "all interfaces over numjobs", "4k and 128k"],
        note: Some(energy::MANY_THREADS_NOTE),
        parts: energy::many_threads,
        replicates: 3,
        run: |_| {
            format!(
                "iopj run studies/iface23.toml --bs 4k,128k --iodepth 1 --path {WITH_BYPASS}, with its \
                 meter"
            )
        },
        run_with_meter: Some(
            "iopj run studies/iface23.toml --bs 4k,128k --iodepth 1, with a system-scope \
                         meter under [meters] and kernel bypass among the paths",
        ),
        ..BASE
    },
    Definition {
        id: "iface23-9",
        text: "At 128 KiB interrupt completion gives more I/Os per joule than polling, for every interface \
               that has both.",
        needs: &["a system-scope meter", "posix-sio and io_uring, interrupt and poll", "128k"],
        note: Some(energy::LARGE_NOTE),
        parts: energy::large,
        replicates: 3,
        run: |_| "iopj run studies/iface23.toml --bs 128k --iodepth 1, with its meter".to_owned(),
        run_with_meter: Some(
            "iopj run studies/iface23.toml --bs 128k --iodepth 1, with a system-scope meter \
                         under [meters]",
        ),
        ..BASE
    },
    Definition {
        id: "iface23-10",
        text: "Where more than one I/O must be in flight, io_uring by system call for reads and libaio for \
               writes are the energy-efficient alternatives to posix-sio.",
        needs: &["a system-scope meter", "all interfaces over numjobs", "reads and writes"],
        note: Some(energy::ASYNCHRONOUS_NOTE),
        parts: energy::asynchronous,
        replicates: 3,
        run: |_| "iopj run studies/iface23.toml --iodepth 1, with its meter".to_owned(),
        run_with_meter: Some(
            "iopj run studies/iface23.toml --iodepth 1, with a system-scope meter under \
                         [meters]",
        ),
        ..BASE
    },
];

/// A percentile of one path, claimed to be more than another's.
fn more<'a>(
    data: &TrialSet<'a>,
    metric: ClaimMetric,
    path: IoPath,
    other: IoPath,
    shape: Shape,
) -> Question<'a> {
    let published = [path, other].map(|path| printed(path, shape.rw.writes(), metric));
    let comparison = Comparison::of_paths(data, metric, path, Relation::More, other, shape);
    Question::Compare(comparison.printed(published))
}

fn slower_writes<'a>(data: &TrialSet<'a>) -> Vec<Question<'a>> {
    let shape = Shape::of_4k(Rw::Randwrite);
    let mut questions = Vec::new();
    for (completion, mode) in
        [(RingCompletion::Interrupt, SioCompletion::Interrupt), (RingCompletion::Poll, SioCompletion::Poll)]
    {
        let sio = IoPath::PosixSio(mode);
        questions.push(more(data, P50, ring(SYSCALL, completion), sio, shape));
        questions.push(more(data, P99, ring(SYSCALL, completion), sio, shape));
        questions.push(more(data, P99, ring(SQPOLL, completion), sio, shape));
    }
    questions
}

fn slowest<'a>(data: &TrialSet<'a>) -> Vec<Question<'a>> {
    [Rw::Randread, Rw::Randwrite].into_iter().flat_map(|rw| slowest_of(data, Shape::of_4k(rw))).collect()
}

fn slowest_of<'a>(data: &TrialSet<'a>, shape: Shape) -> Vec<Question<'a>> {
    let (others, left_out) =
        data.cells(shape, |path| *path != POSIX_AIO && bypass::is_papers_or_bypass(path));
    let absent = absent_interfaces(&others, shape, |one| format!("p50 and p99: {POSIX_AIO} more than {one}"));
    let compared = others
        .iter()
        .flat_map(|cell| [P50, P99].map(|metric| more(data, metric, POSIX_AIO, cell.path, shape)));
    compared.chain(absent).chain(left_out.into_iter().map(Question::LeftOut)).collect()
}

/// Tolerance of the CPU use around a number of cores, as a share.
const CORES_WITHIN: f64 = 0.1;

/// A core that is always busy, in the unit of CPU use.
const CORE: f64 = 100.0;

/// CPU use below this is that of one core at most, by the same tolerance.
const ONE_CORE_BELOW: f64 = 110.0;

fn busy_cores<'a>(data: &TrialSet<'a>) -> Vec<Question<'a>> {
    if let Some(need) = data.lacks_cores() {
        let text = "CPU use: io_uring/sqpoll equal to two cores on one thread";
        return vec![Question::missing_for(text, "", need)];
    }
    let one_thread = Shape::of_4k(Rw::Randread);
    let cores = f64::from(data.machine.cores);
    let mut questions = Vec::new();
    for shape in shapes(data, |shape| shape.numjobs == 1, one_thread) {
        questions.extend(sqpolls().map(|path| equal(data, path, shape, 2.0, 2.0)));
        questions.extend(at_most_one(data, shape));
    }
    // A thread and its poller are two: half as many threads as cores fill the machine.
    let many =
        |shape: &Shape| shape.iodepth == 1 && shape.numjobs > 1 && 2 * shape.numjobs >= data.machine.cores;
    let otherwise = Shape { numjobs: data.machine.cores.div_ceil(2).max(2), ..one_thread };
    for shape in shapes(data, many, otherwise) {
        // The paper's machine had 8 of them.
        questions.extend(sqpolls().map(|path| equal(data, path, shape, cores, 8.0)));
    }
    // A thread of kernel bypass is one busy core: as many threads as cores fill the machine.
    let all =
        |shape: &Shape| Shape { numjobs: 1, ..*shape } == one_thread && shape.numjobs >= data.machine.cores;
    for path in bypass::PATHS {
        let shapes = data.shapes(&[path], all).into_iter();
        let measured = shapes.filter(|shape| data.cell(path, *shape).lacks(CPU, 1).is_none());
        questions.extend(measured.map(|shape| equal(data, path, shape, cores, 8.0)));
    }
    questions
}

/// The workloads of 4 KiB random reads under which sqpoll was measured, or `otherwise` if there are none.
fn shapes(data: &TrialSet<'_>, fits: impl Fn(&Shape) -> bool, otherwise: Shape) -> Vec<Shape> {
    let shapes = data.shapes(&sqpolls(), |one| one.rw == otherwise.rw && one.bs == otherwise.bs && fits(one));
    if shapes.is_empty() { vec![otherwise] } else { shapes }
}

fn equal<'a>(data: &TrialSet<'a>, path: IoPath, shape: Shape, cores: f64, published: f64) -> Question<'a> {
    let (relation, against) = (Relation::Equal(CORES_WITHIN), Against::Number(cores * CORE));
    let comparison = Comparison::of(data, CPU, (path, shape), relation, against);
    Question::Compare(comparison.printed([Some(published * CORE), None]))
}

/// The paths without a kernel poller, each compared with one core plus the tolerance.
fn at_most_one<'a>(data: &TrialSet<'a>, shape: Shape) -> Vec<Question<'a>> {
    let (others, left_out) = data.cells(shape, |path| path.submission() != Submission::Sqpoll);
    let absent = others.iter().all(|cell| cell.path.is_bypass()).then(|| {
        let need = format!("a verified path that submits by system call, {shape}");
        Question::missing_for("CPU use: the other paths at most one core", shape, need)
    });
    let less = |cell: &ClaimCell<'a>| {
        let most = Against::Number(ONE_CORE_BELOW);
        Question::Compare(Comparison::of(data, CPU, (cell.path, shape), Relation::Less, most))
    };
    others.iter().map(less).chain(absent).chain(left_out.into_iter().map(Question::LeftOut)).collect()
}

fn run_busy_cores(cores: u32) -> String {
    let numjobs = ascending([1, cores.div_ceil(2).max(2), cores.max(2)]);
    let numjobs: Vec<String> = numjobs.iter().map(u32::to_string).collect();
    format!("iopj run studies/iface23.toml --rw randread --bs 4k --iodepth 1 --numjobs {}", numjobs.join(","))
}
