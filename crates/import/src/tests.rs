//! What the real fio writes, and variants of it as other versions and other people write it.

mod properties;

use super::*;
use iopj_core::{Length, RandomDistribution, Rw};
use iopj_record::histogram;
use serde_json::{Value, json};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// A folder on the disk of the build, not on tmpfs, which has no O_DIRECT everywhere.
fn folder() -> TempDir {
    tempfile::tempdir_in(std::env::current_exe().unwrap().parent().unwrap()).unwrap()
}

/// Runs the real fio on jobs over a file of 4 MB; the name of its output, or none where there is no fio.
fn real(folder: &TempDir, output: &str, arguments: &str, jobs: &str) -> Option<PathBuf> {
    let (data, job_file, path) =
        (folder.path().join("data"), folder.path().join("jobs.fio"), folder.path().join(output));
    std::fs::write(&data, vec![7; 4 << 20]).unwrap();
    std::fs::write(&job_file, format!("[global]\nfilename={}\ndirect=1\nsize=4m\n{jobs}", data.display()))
        .unwrap();
    let mut command = Command::new("fio");
    command.args(arguments.split_whitespace()).arg("--output").arg(&path).arg(&job_file);
    match command.status() {
        Ok(status) => assert!(status.success(), "{status}"),
        Err(error) if std::env::var_os("CI").is_some_and(|ci| ci == "true") => panic!("fio: {error}"),
        Err(error) => {
            eprintln!("skipped: needs fio ({error})");
            return None;
        }
    }
    Some(path)
}

fn measured(trial: &Trial) -> &Measurement {
    trial.outcome.measurement().unwrap()
}

const JOBS: &str = "[deep]\nrw=randread\nbs=4k\nioengine=libaio\niodepth=8\niodepth_batch=4\n\
                    iodepth_batch_complete_min=2\nnumber_ios=400\n[cached]\nstonewall\ndirect=0\nrw=read\n\
                    bs=128k\nioengine=psync\n[two]\nstonewall\nrw=randrw\nrwmixread=70\nbs=8k\n\
                    ioengine=psync\nnumjobs=2\nio_size=1m\nrandom_distribution=zipf:1.2\n[sizes]\n\
                    stonewall\nrw=randread\nbssplit=4k/50:8k/50\nioengine=psync\nio_size=1m\n";

#[test]
fn real_jobs_become_trials() {
    let folder = folder();
    for (index, arguments) in [
        "--output-format=json+",
        "--output-format=json",
        "--output-format=json+ --group_reporting",
        "--output-format=json,normal --group_reporting",
    ]
    .into_iter()
    .enumerate()
    {
        let Some(file) = real(&folder, &format!("{index}.json"), arguments, JOBS) else { return };
        let store = folder.path().join(format!("{index}.iopj"));
        let imported = fio(std::slice::from_ref(&file), &store, None).unwrap();
        let left_out: Vec<(&str, bool)> = imported
            .skipped
            .iter()
            .map(|s| (&*s.job, s.reason.contains(if s.job == "cached" { "page cache" } else { "bssplit" })))
            .collect();
        assert_eq!(left_out, [("cached", true), ("sizes", true)], "{arguments}: {imported}");
        let store = Store::open(&store).unwrap();
        let trials = store.trials().unwrap();
        assert_eq!((imported.trials, trials.len()), (2, 2));
        let [deep, two] = &trials[..] else { panic!() };
        assert_eq!(deep.path.to_string(), "libaio/syscall/interrupt");
        let workload = &deep.workload;
        assert_eq!(
            (workload.rw, workload.bs, workload.iodepth, workload.numjobs),
            (Rw::Randread, 4096, 8, 1)
        );
        assert_eq!((workload.iodepth_batch_submit, workload.iodepth_batch_complete_min), (4, 2));
        assert_eq!(
            (workload.length, measured(deep).ios, measured(deep).bytes),
            (Length::Ios(400), 400, 400 * 4096)
        );
        assert_eq!(two.path.to_string(), "posix-sio/syscall/interrupt");
        let workload = &two.workload;
        assert_eq!((workload.rw, workload.rwmixread, workload.numjobs), (Rw::Randrw, 70, 2));
        assert_eq!((workload.length, measured(two).ios), (Length::Ios(128), 256));
        assert_eq!(workload.random_distribution, RandomDistribution::Zipf(1.2));
        assert_eq!(measured(two).reads + measured(two).writes, 256);
        assert_eq!(measured(two).read_latency.as_ref().unwrap().count, measured(two).reads);
        for trial in &trials {
            check_measurement(measured(trial), arguments);
        }
        let study = store.study().unwrap();
        assert_eq!((study.name.as_str(), study.planned_trials), ("import", 2));
        assert!(study.target.ends_with("/data") && study.provenance["fio_version"].starts_with("fio-3"));
        assert!(study.provenance["fio_time"].contains(':'), "{:?}", study.provenance);
    }
}

fn check_measurement(m: &Measurement, arguments: &str) {
    assert_eq!(m.verdict.kind, VerdictKind::Unproven);
    assert!(m.verdict.reasons[0].starts_with("imported: no evidence (remedy: "), "{:?}", m.verdict.reasons);
    let latency = &m.latency;
    // A bin's value may lie above the longest latency in it.
    assert!(
        latency.p50 <= latency.p95
            && latency.p95 <= latency.p99
            && latency.p99 as f64 <= latency.max as f64 * 1.01,
        "{latency:?}"
    );
    assert!(latency.p50 > 0 && latency.mean > 0.0 && latency.count == m.ios, "{latency:?}");
    let decoded = histogram::decode(&latency.histogram).unwrap();
    assert_eq!(decoded.len(), m.ios, "{arguments}");
    // The histogram and the percentiles say the same, whether fio printed bins or not.
    let off = decoded.value_at_quantile(0.99) as f64 / latency.p99 as f64 - 1.0;
    assert!(off.abs() < 0.01, "{arguments}: {off}");
    assert!(m.cpu_percent.is_finite() && m.context_switches_per_io.is_finite() && m.achieved_depth > 0.0);
    let rebuilt = m.verdict.reasons.iter().any(|reason| reason.contains("json+"));
    assert_eq!(rebuilt, !arguments.contains("json+"));
}

/// fio 3.33 on Linux 6.18, where synchronous reads are not polled whatever `hipri` says: 2,000 reads with it
/// and without.
const SLEPT: &str = include_str!("fixtures/pvsync2-6.18.json");

/// The verdict on each job of a text that ran on this kernel: path, verdict, first reason, last reason.
fn verdicts(text: &str, kernel: Option<&str>) -> Vec<(String, VerdictKind, String, String)> {
    let runs = parse(Path::new("f"), text).unwrap();
    let all: Vec<_> = runs.into_iter().map(|run| (Path::new("f"), run)).collect();
    let of = |trial: &Trial| {
        let verdict = &measured(trial).verdict;
        let (first, last) = (verdict.reasons[0].clone(), verdict.reasons[verdict.reasons.len() - 1].clone());
        (trial.path.to_string(), verdict.kind, first, last)
    };
    trials(&all, kernel.map(|kernel| kernel.parse().unwrap())).0.iter().map(of).collect()
}

#[test]
fn a_job_that_was_to_poll_and_slept_is_refuted_where_hybrid_is_impossible() {
    let contradiction = "asked for poll, but fio counts 1.00 context switches per I/O, and a thread that \
                         polls does not sleep";
    for kernel in ["6.18.44-custom", "6.4"] {
        let [polled, plain] = &verdicts(SLEPT, Some(kernel))[..] else { panic!() };
        assert_eq!(
            (polled.0.as_str(), polled.1, polled.2.as_str()),
            ("posix-sio/syscall/poll", VerdictKind::Refuted, contradiction)
        );
        // Without hipri as many switches are what was asked for.
        assert_eq!((plain.0.as_str(), plain.1), ("posix-sio/syscall/interrupt", VerdictKind::Unproven));
    }
    for kernel in [None, Some("5.10"), Some("6.3")] {
        let [polled, _] = &verdicts(SLEPT, kernel)[..] else { panic!() };
        assert_eq!(polled.1, VerdictKind::Unproven);
        assert!(polled.3.starts_with(contradiction) && polled.3.contains("--kernel"), "{polled:?}");
    }
    // The rings of passthrough commands never sleep first, on any kernel that has them.
    let passthrough = SLEPT.replace("pvsync2", "io_uring_cmd");
    assert_eq!(verdicts(&passthrough, None)[0].1, VerdictKind::Refuted);
    // Under sqpoll the count is not that of whoever polls.
    let sqpoll = SLEPT.replace(
        "\"ioengine\":\"pvsync2\",\"hipri\":\"1\"",
        "\"ioengine\":\"io_uring\",\"hipri\":\"1\",\"sqthread_poll\":\"1\"",
    );
    assert_ne!(sqpoll, SLEPT);
    assert_eq!(verdicts(&sqpoll, Some("6.18"))[0].1, VerdictKind::Unproven);
}

#[test]
fn a_poller_that_was_preempted_is_not_refuted() {
    // In 0.2 s some 200 switches may all have been forced, on the kernel with the most ticks; 1,000 more are
    // half of the I/Os.
    for (ctx, expected) in
        [(200, VerdictKind::Unproven), (1_199, VerdictKind::Unproven), (1_202, VerdictKind::Refuted)]
    {
        let text = SLEPT.replacen("\"ctx\":1995", &format!("\"ctx\":{ctx}"), 1);
        assert_eq!(verdicts(&text, Some("6.18"))[0].1, expected, "{ctx}");
    }
}

#[test]
fn kernels_are_read_from_releases() {
    for (text, expected) in
        [("6.18", (6, 18)), ("6.1.0-44-amd64", (6, 1)), ("5.10.0+x", (5, 10)), ("7.2-rc1", (7, 2))]
    {
        assert_eq!(text.parse(), Ok(KernelVersion(expected.0, expected.1)));
    }
    for text in ["", "6", "six.one", "6.x"] {
        assert!(text.parse::<KernelVersion>().unwrap_err().to_string().contains("such as 6.18"), "{text}");
    }
}

#[test]
fn replicates_are_runs_of_the_same_cell() {
    let folder = folder();
    let jobs = "[a]\nrw=randread\nioengine=psync\nruntime=200ms\ntime_based=1\nlat_percentiles=1\n";
    let name = |index| format!("{index}.json");
    let files: Vec<_> =
        (0..3).map_while(|index| real(&folder, &name(index), "--output-format=json+", jobs)).collect();
    if files.is_empty() {
        return;
    }
    let store = folder.path().join("s.iopj");
    assert_eq!(fio(&files, &store, None).unwrap().trials, 3);
    let trials = Store::open(&store).unwrap().trials().unwrap();
    assert_eq!(
        trials.iter().map(|t| (t.replicate, t.position)).collect::<Vec<_>>(),
        [(0, 0), (1, 1), (2, 2)]
    );
    assert_eq!(trials[0].workload.length, Length::Runtime(Duration::from_millis(200)));
    let [reason] = &measured(&trials[0]).verdict.reasons[..] else { panic!("one reason") };
    assert!(reason.starts_with("imported: no evidence (remedy: "), "{reason}");
    assert!(trials[0].settings.is_empty());
    // The three runs in one file are the same three.
    let joined: String = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    assert_eq!(trials_of(Path::new("all"), &joined).unwrap().0.len(), 3);
    assert!(matches!(fio(&files, &store, None), Err(ImportError::Exists(_))));
    let other = folder.path().join("t.iopj");
    let error = fio(&[files[0].clone(), files[0].clone()], &other, None).unwrap_err().to_string();
    assert!(error.contains("name each run once") && !other.exists(), "{error}");
}

#[test]
fn real_jobs_that_ran_together_are_left_out() {
    let folder = folder();
    let jobs = "[a]\nrw=randread\nioengine=psync\nio_size=1m\n[b]\nrw=read\nioengine=psync\nio_size=2m\n";
    let Some(file) = real(&folder, "a.json", "--output-format=json", jobs) else { return };
    let store = folder.path().join("s.iopj");
    let error = fio(&[file], &store, None).unwrap_err().to_string();
    assert!(
        error.contains("job `a` ran at the same time as job `b`") && error.contains("job `b` ran"),
        "{error}"
    );
    assert!(!store.exists());
    let jobs = "runtime=400ms\ntime_based=1\ngroup_reporting=1\n[a]\nrw=randread\nioengine=psync\n[b]\n\
                rw=randread\nioengine=libaio\niodepth=4\n";
    let Some(file) = real(&folder, "b.json", "--output-format=json", jobs) else { return };
    let error = fio(&[file], &store, None).unwrap_err().to_string();
    assert!(error.contains("`a` holds the sum of several jobs"), "{error}");
}

/// A job as fio 3.33 prints it, with these options.
fn entry(options: Value) -> Value {
    let latency = json!({ "min": 10, "max": 90, "mean": 20.0, "stddev": 1.0, "N": 300,
        "percentile": { "50.000000": 20, "95.000000": 21, "99.000000": 22, "99.900000": 23 },
        "bins": { "20": 300 } });
    json!({ "jobname": "x", "groupid": 0, "error": 0, "elapsed": 11, "job options": options,
        "job_runtime": 10_000,
        "usr_cpu": 10.0, "sys_cpu": 20.0, "ctx": 600,
        "read": { "io_bytes": 1_228_800, "runtime": 10_000, "total_ios": 300, "lat_ns": latency },
        "write": { "io_bytes": 0, "runtime": 0, "total_ios": 0, "lat_ns": { "N": 0 } },
        "trim": { "total_ios": 0 } })
}

fn output(jobs: &[Value]) -> Value {
    json!({ "fio version": "fio-3.33", "timestamp": 5, "timestamp_ms": 5123, "time": "then",
        "global options": { "direct": "1", "runtime": "10", "rw": "randread" }, "jobs": jobs })
}

fn mapped(root: &Value) -> (Vec<Trial>, Vec<Skipped>) {
    trials_of(Path::new("f"), &root.to_string()).unwrap()
}

fn one(options: Value) -> Result<Trial, String> {
    let (mut trials, mut skipped) = mapped(&output(&[entry(options)]));
    trials.pop().ok_or_else(|| skipped.remove(0).reason)
}

#[test]
fn options_become_paths() {
    for (options, path) in [
        (json!({}), "posix-sio/syscall/interrupt"),
        (json!({ "ioengine": "sync" }), "posix-sio/syscall/interrupt"),
        (json!({ "ioengine": "pvsync2", "hipri": "1" }), "posix-sio/syscall/poll"),
        (json!({ "ioengine": "pvsync2", "hipri": "0" }), "posix-sio/syscall/interrupt"),
        // Versions that print a bare flag print it so.
        (json!({ "ioengine": "pvsync2", "hipri": "" }), "posix-sio/syscall/poll"),
        (json!({ "ioengine": "posixaio", "iodepth": "4" }), "posix-aio/syscall/interrupt"),
        (json!({ "ioengine": "libaio" }), "libaio/syscall/interrupt"),
        (json!({ "ioengine": "io_uring" }), "io_uring/syscall/interrupt"),
        (json!({ "ioengine": "io_uring", "hipri": "1", "sqthread_poll": "1" }), "io_uring/sqpoll/poll"),
        (
            json!({ "ioengine": "io_uring", "fixedbufs": "1", "registerfiles": "1" }),
            "io_uring/syscall/interrupt+registered",
        ),
        (
            json!({ "ioengine": "io_uring", "fixedbufs": "1", "sqthread_poll": "1" }),
            "io_uring/sqpoll/interrupt+registered",
        ),
        (
            json!({ "ioengine": "io_uring_cmd", "cmd_type": "nvme", "direct": "0" }),
            "nvme-passthrough/syscall/interrupt",
        ),
        (
            json!({ "ioengine": "libaio", "direct": "", "verify": "0", "thinktime": "0" }),
            "libaio/syscall/interrupt",
        ),
    ] {
        assert_eq!(
            one(options.clone()).map(|trial| trial.path.to_string()),
            Ok(path.to_owned()),
            "{options}"
        );
    }
}

#[test]
fn what_has_no_word_here_is_left_out_with_the_reason() {
    for (options, reason) in [
        (json!({ "rw": "randtrim" }), "trims (rw=randtrim)"),
        (json!({ "rw": "randread:8" }), "rw=randread:8"),
        (json!({ "direct": "0" }), "page cache"),
        (json!({ "ioengine": "mmap" }), "ioengine=mmap"),
        (json!({ "ioengine": "io_uring", "fixedbufs": "1" }), "not both"),
        (json!({ "verify": "crc32c" }), "checks the data (verify=crc32c)"),
        (json!({ "zonemode": "zbd" }), "works in zones"),
        (json!({ "bssplit": "4k/50:8k/50" }), "mixes block sizes"),
        (json!({ "bs": "4k,8k" }), "several block sizes"),
        (json!({ "bs": "1k-4k" }), "cannot read (bs=1k-4k)"),
        (json!({ "bs": "8k" }), "moved 4096 bytes per I/O although bs is 8192"),
        (json!({ "rate_iops": "100" }), "limits the rate"),
        (json!({ "future_option": "1" }), "no word for (future_option=1)"),
        (json!({ "random_distribution": "pareto:0.9" }), "random_distribution=pareto:0.9"),
        (json!({ "cpus_allowed": "0-3" }), "move between processors"),
        (json!({ "ioengine": "libaio", "iodepth_batch_complete_min": "0" }), "without waiting"),
        (json!({ "numjobs": "0" }), "numjobs=0"),
        (json!({ "kb_base": "1000" }), "kb_base"),
        (json!({ "runtime": "60", "size": "100g" }), "ended before its time"),
    ] {
        let got = one(options.clone()).map(|trial| trial.path);
        assert!(got.as_ref().is_err_and(|e| e.contains(reason)), "{options}: {got:?}");
    }
}

#[test]
fn options_become_workloads() {
    let workload = |options| one(options).unwrap().workload;
    let plain =
        workload(json!({ "bs": "4096", "ramp_time": "500ms", "cpus_allowed": "3", "ioengine": "psync",
            "iodepth": "32" }));
    assert_eq!((plain.bs, plain.iodepth, plain.ramp_time), (4096, 1, Duration::from_millis(500)));
    assert_eq!((plain.length, &plain.cpus_allowed[..]), (Length::Runtime(Duration::from_secs(10)), &[3][..]));
    let deep = workload(json!({ "ioengine": "libaio", "iodepth": "8", "iodepth_batch": "0",
            "iodepth_batch_complete_min": "99" }));
    assert_eq!((deep.iodepth, deep.iodepth_batch_submit, deep.iodepth_batch_complete_min), (8, 8, 8));
    assert_eq!(workload(json!({ "rw": "readwrite", "rwmixwrite": "30" })).rwmixread, 70);
    assert_eq!(workload(json!({ "rw": "read", "rwmixread": "30" })).rwmixread, 50);
    assert_eq!(workload(json!({ "runtime": "0", "number_ios": "300" })).length, Length::Ios(300));
    assert_eq!(workload(json!({ "runtime": "0", "size": "1200kb" })).length, Length::Ios(300));
    // A part of a device: it is unknown how much was asked for.
    assert_eq!(workload(json!({ "runtime": "0", "size": "10%" })).length, Length::Ios(300));
}

#[test]
fn figures_are_fios() {
    let mut two = entry(json!({ "numjobs": "2", "ioengine": "libaio" }));
    two["job_runtime"] = json!(20_000);
    let (trials, skipped) = mapped(&output(&[two]));
    assert_eq!(skipped, []);
    let m = measured(&trials[0]);
    assert_eq!((m.iops(), m.cpu_percent, m.context_switches_per_io), (30.0, 60.0, 2.0));
    assert_eq!((m.latency.p50, m.latency.p99_9, m.latency.min, m.latency.max), (20, 23, 10, 90));
    // By the bins.
    assert_eq!((m.latency.p20, m.latency.p80), (Some(20), Some(20)));
    assert!((m.achieved_depth - 300.0 * 20.0 / 1e10).abs() < 1e-12);
    assert_eq!(trials[0].started_unix_ns, 5_123_000_000);
    assert_eq!(m.fio.as_ref().unwrap()["options"]["direct"], "1");
}

#[test]
fn versions_and_modes_differ() {
    let reasons = |root: &Value| mapped(root).1.into_iter().map(|s| s.reason).collect::<Vec<_>>().join("; ");
    // 3.28 without a time in ms; newer ones with the job's start, here one after the other in groups of their
    // own.
    let (mut first, mut second) = (entry(json!({})), entry(json!({ "ioengine": "libaio" })));
    (first["job_start"], second["job_start"], second["groupid"]) = (json!(1000), json!(11_000), json!(1));
    let mut root = output(&[first.clone(), second.clone()]);
    root["fio version"] = json!("fio-3.42-12-gabcdef");
    let (trials, _) = mapped(&root);
    assert_eq!(trials.iter().map(|t| t.started_unix_ns).collect::<Vec<_>>(), [1_000_000_000, 11_000_000_000]);
    second["job_start"] = json!(9_000);
    assert!(reasons(&output(&[first.clone(), second.clone()])).contains("ran at the same time as job `x`"));
    // Without starts, jobs of 20 s in a run of 11 s.
    (first["job_start"], second["job_start"]) = (Value::Null, Value::Null);
    assert!(reasons(&output(&[first, second])).contains("ran at the same time"));
    // One direction for all I/O.
    let mut unified = entry(json!({ "unified_rw_reporting": "1" }));
    unified["mixed"] = unified["read"].take();
    unified.as_object_mut().unwrap().retain(|key, _| key != "read" && key != "write");
    assert_eq!(measured(&mapped(&output(&[unified.clone()])).0[0]).reads, 300);
    unified["job options"]["rw"] = json!("randwrite");
    assert_eq!(measured(&mapped(&output(&[unified.clone()])).0[0]).writes, 300);
    unified["job options"]["rw"] = json!("randrw");
    assert!(reasons(&output(&[unified])).contains("unified_rw_reporting"));
    for (key, value, reason) in [
        ("error", json!(5), "Input/output error"),
        ("total_err", json!(2), "2 failed I/Os"),
        ("job_runtime", json!(30_000), "sum of several jobs"),
        ("trim", json!({ "total_ios": 3 }), "trims"),
        ("read", json!({ "total_ios": 0 }), "no I/O"),
        ("read", json!({ "total_ios": 1, "io_bytes": 4096, "runtime": 10_000 }), "no latency"),
        (
            "read",
            json!({ "total_ios": 1, "io_bytes": 4096, "runtime": 10_000, "lat_ns": { "N": 1, "mean": 1.0 } }),
            "no percentiles",
        ),
    ] {
        let mut job = entry(json!({}));
        job[key] = value;
        let reasons = reasons(&output(&[job]));
        assert!(reasons.contains(reason), "{key}: {reasons}");
    }
}

#[test]
fn completion_latency_stands_in_for_latency_where_it_can() {
    let with = |median: u64| {
        let mut job = entry(json!({}));
        let lat = job["read"]["lat_ns"].as_object_mut().unwrap();
        lat.remove("bins");
        let percentile = lat.remove("percentile").unwrap();
        job["read"]["clat_ns"] = json!({ "percentile": percentile });
        job["read"]["clat_ns"]["percentile"]["50.000000"] = json!(median);
        mapped(&output(&[job]))
    };
    let (trials, _) = with(19);
    assert_eq!(measured(&trials[0]).latency.p50, 19);
    // Percentiles that fio did not print are not those of bins rebuilt from others.
    assert_eq!((measured(&trials[0]).latency.p20, measured(&trials[0]).latency.p80), (None, None));
    assert!(measured(&trials[0]).verdict.reasons.iter().any(|reason| reason.contains("clat")));
    assert!(with(17_000_000_000).1[0].reason.contains("impossible"));
}

#[test]
fn what_differs_within_an_import_tells_cells_apart() {
    let job = |disk: &str, group: u64| {
        let mut job = entry(json!({ "filename": disk }));
        (job["groupid"], job["elapsed"]) = (json!(group), json!(99));
        job
    };
    let (trials, _) = mapped(&output(&[job("/dev/a", 0), job("/dev/b", 1), job("/dev/a", 2)]));
    let cells: Vec<_> = trials.iter().map(|t| (t.settings["filename"].as_str(), t.replicate)).collect();
    assert_eq!(cells, [("/dev/a", 0), ("/dev/b", 0), ("/dev/a", 1)]);
}

#[test]
fn foreign_and_truncated_files_are_refused_by_name_and_nothing_is_written() {
    let folder = folder();
    let (file, store) = (folder.path().join("in.json"), folder.path().join("s.iopj"));
    let whole = output(&[entry(json!({}))]).to_string();
    let old = whole.replace("fio-3.33", "fio-2.2.10");
    let nameless = whole.replace("fio-3.33", "perf");
    for (content, part) in [
        (whole.as_bytes()[..whole.len() - 9].to_vec(), "is not JSON (EOF"),
        ([whole.as_bytes(), b"\n{\"jobs\":"].concat(), "is not JSON (EOF"),
        (b"{}".to_vec(), "holds no jobs"),
        (b"{\"jobs\":[7]}".to_vec(), "not an object"),
        (b"time,iops\n1,2\n".to_vec(), "holds no JSON"),
        (Vec::new(), "holds no JSON"),
        (vec![0xff, 0xfe, 0], "is not text"),
        (old.into_bytes(), "is of fio-2.2.10, older than 3.28"),
        (nameless.into_bytes(), "names no version of fio"),
    ] {
        std::fs::write(&file, content).unwrap();
        let error = fio(std::slice::from_ref(&file), &store, None).unwrap_err().to_string();
        assert!(error.contains(part) && error.contains("in.json` cannot be imported: it "), "{error}");
        assert!(error.contains("--output-format=json+") && !store.exists(), "{error}");
    }
    let error = fio(&[folder.path().to_owned()], &store, None).unwrap_err().to_string();
    assert!(error.contains("cannot be read") && !store.exists(), "{error}");
    std::fs::write(&file, output(&[entry(json!({ "direct": "0" }))]).to_string()).unwrap();
    let error = fio(std::slice::from_ref(&file), &store, None).unwrap_err().to_string();
    assert!(error.contains("none of the jobs") && error.contains("page cache") && !store.exists(), "{error}");
    std::fs::write(&file, whole).unwrap();
    let nowhere = folder.path().join("none/s.iopj");
    assert!(matches!(fio(&[file], &nowhere, None), Err(ImportError::Store(_))));
}

#[test]
fn names_cannot_write_on_the_terminal() {
    let skipped = Skipped { file: "f".into(), job: "<img>\u{1b}[2J \"é\"".into(), reason: "no\nway".into() };
    assert_eq!(skipped.to_string(), "f: job `<img>\\u{1b}[2J \"é\"` no\\nway");
    let imported = Imported { store: "s".into(), trials: 2, skipped: vec![skipped] };
    assert!(imported.to_string().starts_with("2 trials imported, 1 job left out\n  f: job"));
}
