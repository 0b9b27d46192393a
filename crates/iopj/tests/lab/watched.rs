//! Programs that are watched where a drive can be polled: fio by the ways that need such a drive, and a
//! ring that sleeps before it polls, each named by interface, submission and completion. The other ways are
//! in `tests/watch`.

use crate::bench::Bench;
use iopj_engine::{Completion, Engine, IoUring, Pool, Request, Target};
use iopj_lab::vm::{Backend, Drive, Nvme};
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long each program reads: emulated, counting is dear and rests for most of the time, and there must be
/// looks that meet open files.
const RUNTIME: Duration = Duration::from_secs(2);

/// What runs, and how it is named. Linux has polled no synchronous I/O since 5.19, whatever is asked for.
const CASES: [(&str, &str); 5] = [
    ("pvsync2 --hipri=1", "posix-sio/syscall/interrupt"),
    ("io_uring --hipri=1", "io_uring/syscall/poll"),
    ("io_uring --sqthread_poll=1 --hipri=1", "io_uring/sqpoll/poll"),
    ("io_uring_cmd", "nvme-passthrough/syscall/interrupt"),
    ("", "io_uring/syscall/hybrid"),
];

/// The program of a case: fio by an engine, or else this test binary.
fn program(engine: &str) -> String {
    if engine.is_empty() {
        return "tests --ignored --exact watched::a_ring_sleeps_before_it_polls".to_owned();
    }
    // Passthrough has no page cache to go past.
    let node = if engine.contains("cmd") { "/dev/ng0n1" } else { "/dev/nvme0n1 --direct=1" };
    format!(
        "fio --name=x --thread --rw=randread --bs=4k --size=64m --time_based --runtime={}s \
         --output=/dev/null --filename={node} --ioengine={engine}",
        RUNTIME.as_secs()
    )
}

/// Keeps the tracepoints of `iopj watch` on all the time: else the kernel patches them in and out for each
/// case, and QEMU's translator may hit a breakpoint that is gone (four boots of four, beside a build).
const HOLD_TRACEPOINTS: &str = "\
    mount -t tracefs none /sys/kernel/tracing\n\
    for one in raw_syscalls/sys_enter io_uring/io_uring_create io_uring/io_uring_submit_req \
    block/block_rq_issue block/block_rq_complete; do\n\
    echo 1 >/sys/kernel/tracing/events/$one/enable || exit 92\ndone\n";

#[test]
fn fio_and_a_hybrid_ring_are_named_right_on_6_18() {
    let has_fio = iopj_lab::image::Program::named("fio").is_ok();
    let Some(mut bench) = Bench::new("6.18").filter(|_| crate::have(has_fio, "fio")) else { return };
    bench.iommu = false;
    bench.nvme_options = vec!["poll_queues=2".to_owned()];
    bench.programs = vec!["fio"];
    bench.drives = vec![Drive::Nvme(Nvme::new(8, Backend::Null { size_bytes: 1 << 30, latency_ns: 0 }))];
    let mut script = format!("dmesg -n 1\ndrives 1\ncd /tmp\n{HOLD_TRACEPOINTS}");
    for (number, (engine, _)) in CASES.iter().enumerate() {
        let program = program(engine);
        script += &format!(
            "echo 'case {number}'\niopj watch --json -- {program} >/dev/null 2>/out/{number} || exit 90\n"
        );
    }
    let left = bench.run(&script, |line, _| eprintln!("{line}"));
    let said = (0..CASES.len()).map(|number| number.to_string()).filter(|number| left.has(number));
    let said: Vec<String> = said.map(|number| left.text(&number)).collect();
    assert_eq!((left.status, said.len()), (0, CASES.len()), "{}\n{:#?}", left.printed, said.last());
    let mut wrong = Vec::new();
    for ((engine, name), words) in CASES.iter().zip(&said) {
        let whole: Value = serde_json::from_str(words.lines().last().unwrap()).unwrap();
        let paths = whole["whole"]["paths"].as_array().unwrap();
        let named: Vec<String> = paths.iter().map(in_words).collect();
        eprintln!("{engine}: {paths:#?}");
        if named != [format!("{name}, direct")] {
            wrong.push(format!("{engine}: {named:?}\n{}", whole["whole"]["evidence"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Interface, submission, completion and page cache of a path.
fn in_words(path: &Value) -> String {
    let [interface, completion, caching] =
        ["interface", "completion", "caching"].map(|key| path[key].as_str().unwrap_or_default());
    let submission = if path["sqpoll"] == true { "sqpoll" } else { "syscall" };
    format!("{interface}/{submission}/{completion}, {caching}")
}

/// What fio cannot ask for.
#[test]
#[ignore = "runs in a guest that `fio_and_a_hybrid_ring_are_named_right_on_6_18` boots"]
fn a_ring_sleeps_before_it_polls() {
    let target = Target::open(Path::new("/dev/nvme0n1")).unwrap();
    let pool = Pool::new(1, 4096).unwrap();
    let mut engine = IoUring::builder().hybrid().open(&target, &pool).unwrap();
    let began = Instant::now();
    while began.elapsed() < RUNTIME {
        let request = Request::read(pool.acquire().unwrap(), 4096, 0);
        engine.push(request).unwrap();
        let is_whole = |done: Completion| assert_eq!(done.result.unwrap(), 4096);
        assert_eq!(engine.wait(1, None, is_whole).unwrap(), 1);
    }
}
