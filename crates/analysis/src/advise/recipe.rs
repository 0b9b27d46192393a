//! What to type for a way: fio's options, `io_uring_setup`'s flags, files below `/sys` with a udev rule, the
//! kernel command line, and the settings of databases that have the path.

use super::candidate::{Candidate, Load, Way};
use iopj_core::uring::RingFlag;
use iopj_core::{
    AutoPath, CompletionMode, IoPath, OpenLoad, Ring, RingCompletion, RingSubmission, Setting, SioCompletion,
    Workload,
};
use serde::Serialize;

/// Something to type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Where.
    pub place: &'static str,
    /// The lines.
    pub lines: Vec<String>,
    /// What to know about them; empty if nothing.
    pub note: String,
}

impl Step {
    fn new(place: &'static str, lines: Vec<String>, note: impl Into<String>) -> Option<Step> {
        (!lines.is_empty()).then(|| Step { place, lines, note: note.into() })
    }
}

/// What to type for a way at a load; `workload` is what all ways share.
pub(super) fn recipe(candidate: &Candidate, workload: &Workload, load: Load) -> Vec<Step> {
    let way = &candidate.way;
    let devices: Vec<String> = candidate.devices.iter().filter(|name| is_device(name)).cloned().collect();
    let devices = devices.as_slice();
    let [sysfs, udev] = files(&attributes(way), devices);
    [
        fio(way, workload, load),
        ring(candidate),
        sysfs,
        udev,
        command_line(way, devices),
        postgresql(way),
        rocksdb(way),
        bypass(candidate),
        adaptive(candidate),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// fio's command line; `TARGET` is the file or device. Jobs beside are further jobs of it.
fn fio(way: &Way, shared: &Workload, load: Load) -> Option<Step> {
    if shared.trace.is_some() {
        let line =
            format!("# iopj run --path {} replays the trace; fio's read_iolog reads its own logs", way.path);
        return Step::new("fio", vec![line], "");
    }
    let workload = way.workload(shared);
    let paths = std::iter::once(&way.path).chain(workload.beside.iter().map(|jobs| &jobs.path));
    if let Some((path, lack)) = paths.filter_map(|path| Some((path, path.fio_options().err()?))).next() {
        let line = format!("# fio has {lack}; iopj run --path {path} does it");
        return Step::new("fio", vec![line], "");
    }
    let rate = |open: &OpenLoad| load.rate().map(|rate| way.rate_iops(open, rate));
    let mut words = vec!["fio --filename=TARGET --thread=1 --group_reporting=1".to_owned()];
    words.extend(job("job", way.path, &workload, &rate));
    for (number, jobs) in workload.beside.iter().enumerate() {
        let name = format!("beside{}", number + 1);
        words.extend(job(&name, jobs.path, &jobs.workload, &|open| Some(open.rate_iops.into())));
    }
    let note = match workload.open {
        Some(open) if open.burst.is_some() || open.rate_iops_end.is_some() => {
            "rate_iops is that of each job; fio has neither bursts nor rates that move."
        }
        Some(_) => "rate_iops is that of each job.",
        None => "",
    };
    Step::new("fio", vec![words.join(" ")], note)
}

/// The options of one job of fio, with its rate under an open load.
fn job(
    name: &str,
    path: IoPath,
    workload: &Workload,
    rate: &dyn Fn(&OpenLoad) -> Option<u64>,
) -> Vec<String> {
    let mut words = vec![format!("--name={name}")];
    let mut put = |key: &str, value: &dyn std::fmt::Display| words.push(format!("--{key}={value}"));
    for (key, value) in path.fio_options().unwrap_or_default() {
        put(key, &value);
    }
    for (key, value) in workload.fio_options() {
        put(key, &value);
    }
    for (key, value) in [
        ("iodepth", workload.iodepth),
        ("iodepth_batch_submit", workload.iodepth_batch_submit),
        ("iodepth_batch_complete_min", workload.iodepth_batch_complete_min),
        ("numjobs", workload.numjobs),
    ] {
        if value != 1 {
            put(key, &value);
        }
    }
    if let Some((open, rate)) = workload.open.as_ref().and_then(|open| Some((open, rate(open)?))) {
        put("rate_iops", &workload.fio_rate_iops(rate));
        put("rate_process", &open.rate_process);
    }
    words
}

/// The flags of `io_uring_setup`: those that the trials' rings had, or else those that the path needs.
fn ring(Candidate { way, ring_flags, .. }: &Candidate) -> Option<Step> {
    let Ring { submission, completion, registered } = way.path.ring()?;
    let is_passthrough = matches!(way.path, IoPath::NvmePassthrough(_));
    let needed = [
        (matches!(submission, RingSubmission::Sqpoll { .. }), RingFlag::Sqpoll),
        (completion != RingCompletion::Interrupt, RingFlag::Iopoll),
        (completion == RingCompletion::Hybrid, RingFlag::HybridIopoll),
        (is_passthrough, RingFlag::Sqe128),
        (is_passthrough, RingFlag::Cqe32),
    ];
    let needed = needed.into_iter().filter(|(is_needed, _)| *is_needed).map(|(_, flag)| flag);
    let flags: Vec<RingFlag> = if ring_flags.is_empty() { needed.collect() } else { ring_flags.clone() };
    let names: Vec<String> = flags.iter().map(|flag| format!("IORING_SETUP_{flag}")).collect();
    let flags = if names.is_empty() { "0".to_owned() } else { names.join(" | ") };
    let mut lines = vec![format!("params.flags = {flags};")];
    if registered {
        lines.push("io_uring_register: IORING_REGISTER_BUFFERS, IORING_REGISTER_FILES".to_owned());
    }
    let seen = if ring_flags.is_empty() { "What the path needs." } else { "As in the trials." };
    Step::new("io_uring_setup", lines, seen)
}

/// The settings that the way needs, with their values: those of the study, and what the path declares. A
/// value that the setting does not take, which only a foreign store can hold, is left out.
fn attributes(way: &Way) -> Vec<(Setting, String)> {
    let given = way.settings.iter().filter_map(|(name, value)| Some((name.parse().ok()?, value.clone())));
    let mut all: Vec<(Setting, String)> =
        given.filter(|(setting, value): &(Setting, String)| setting.check(value).is_ok()).collect();
    let delay = way.path.io_poll_delay().map(|delay| (Setting::IoPollDelay, delay.to_string()));
    all.extend(delay.filter(|_| all.iter().all(|(setting, _)| *setting != Setting::IoPollDelay)));
    all.sort();
    all
}

/// A kernel's name of a device: what a foreign store may hold instead is never shown as something to type.
fn is_device(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-!".contains(c))
}

/// The lines that write files below `/sys`, and the udev rule that does it at every boot.
fn files(attributes: &[(Setting, String)], devices: &[String]) -> [Option<Step>; 2] {
    let (of_queue, others): (Vec<_>, Vec<_>) =
        attributes.iter().partition(|(setting, _)| setting.is_of_queue());
    let mut lines = Vec::new();
    for device in devices {
        let line = |(setting, value): &&(Setting, String)| {
            format!("echo {value} > /sys/block/{device}/queue/{}", setting.name())
        };
        lines.extend(of_queue.iter().map(line));
    }
    for (setting, value) in others {
        let of_drive = setting.is_of_link() || setting.is_of_controller();
        if of_drive {
            lines.extend(devices.iter().map(|device| drive_line(*setting, value, device)));
        } else {
            lines.push(host_line(*setting, value));
        }
    }
    let rule = |device: &String| {
        let attributes: Vec<String> = of_queue
            .iter()
            .map(|(setting, value)| format!("ATTR{{queue/{}}}=\"{value}\"", setting.name()))
            .collect();
        let on = format!("ACTION==\"add|change\", SUBSYSTEM==\"block\", KERNEL==\"{device}\"");
        format!("{on}, {}", attributes.join(", "))
    };
    let rules = if of_queue.is_empty() { Vec::new() } else { devices.iter().map(rule).collect() };
    let delay = of_queue.iter().any(|(setting, _)| *setting == Setting::IoPollDelay);
    let note = if delay { "io_poll_delay has no effect since Linux 6.4." } else { "" };
    [
        Step::new("/sys, until the next boot", lines, note),
        Step::new("/etc/udev/rules.d/60-iopj.rules", rules, ""),
    ]
}

/// The line for a setting of an NVMe drive or its link, by nvme-cli where it is a feature of the drive.
/// Nothing of the drive survives a reset.
fn drive_line(setting: Setting, value: &str, device: &str) -> String {
    let feature = |id: u8, value: String| format!("nvme set-feature /dev/{device} -f {id} --value={value}");
    match setting {
        Setting::NvmePowerState => feature(2, value.to_owned()),
        other if other.is_of_link() => {
            format!("echo {value} > /sys/block/{device}/device/device/link/{}", other.name())
        }
        other => format!("# {device}: {} = {value}, as in docs/settings.md", other.name()),
    }
}

/// The line for a setting of the host.
fn host_line(setting: Setting, value: &str) -> String {
    let cpu = "/sys/devices/system/cpu";
    let file = match setting {
        Setting::Governor => format!("{cpu}/cpufreq/policy*/scaling_governor"),
        Setting::EnergyPerformancePreference => {
            format!("{cpu}/cpufreq/policy*/energy_performance_preference")
        }
        Setting::ScalingMaxFreq => format!("{cpu}/cpufreq/policy*/scaling_max_freq"),
        Setting::Boost => format!("{cpu}/cpufreq/boost"),
        Setting::NoTurbo => format!("{cpu}/intel_pstate/no_turbo"),
        Setting::Smt => format!("{cpu}/smt/control"),
        Setting::BusyPoll => "/proc/sys/net/core/busy_poll".to_owned(),
        Setting::BusyRead => "/proc/sys/net/core/busy_read".to_owned(),
        other => return format!("# {} = {value}, as in docs/settings.md", other.name()),
    };
    if file.contains('*') { format!("echo {value} | tee {file}") } else { format!("echo {value} > {file}") }
}

/// Polled completion by the kernel needs queues of the driver that do not interrupt, one for each job.
fn command_line(way: &Way, devices: &[String]) -> Option<Step> {
    if way.path.completion() == CompletionMode::Interrupt || way.path.is_bypass() {
        return None;
    }
    let has = |prefix: &str| devices.iter().any(|device| device.starts_with(prefix));
    let queues = [("nvme", "nvme.poll_queues"), ("vd", "virtio_blk.poll_queues")];
    let lines = queues.into_iter().filter(|(prefix, _)| has(prefix));
    let lines = lines.map(|(_, name)| format!("{name}={}", way.numjobs)).collect();
    Step::new("kernel command line", lines, "One queue for each job that polls.")
}

/// PostgreSQL 18 reads by system calls of the backend, by those of workers, or by io_uring without polling.
fn postgresql(way: &Way) -> Option<Step> {
    let in_flight = u64::from(way.numjobs) * u64::from(way.iodepth);
    let mut lines = vec!["debug_io_direct = 'data'".to_owned()];
    match way.path {
        IoPath::PosixSio(SioCompletion::Interrupt) if way.numjobs == 1 => {
            lines.push("io_method = sync".to_owned());
        }
        IoPath::PosixSio(SioCompletion::Interrupt) => lines.extend([
            "io_method = worker".to_owned(),
            format!("io_workers = {}", way.numjobs.min(32)),
            format!("effective_io_concurrency = {}", in_flight.min(1000)),
        ]),
        IoPath::IoUring(Ring {
            submission: RingSubmission::Syscall { .. },
            completion: RingCompletion::Interrupt,
            ..
        }) => lines.extend([
            "io_method = io_uring".to_owned(),
            format!("effective_io_concurrency = {}", way.iodepth.min(1000)),
        ]),
        _ => return None,
    }
    let note = "PostgreSQL 18, for its reads. debug_io_direct is a developers' option: without it reads go \
                through the page cache, which was not measured.";
    Step::new("postgresql.conf", lines, note)
}

/// RocksDB reads by `pread`; scans and MultiGet by io_uring, where it was built with liburing.
fn rocksdb(way: &Way) -> Option<Step> {
    let is_async = match way.path {
        IoPath::PosixSio(SioCompletion::Interrupt) => false,
        IoPath::IoUring(Ring {
            submission: RingSubmission::Syscall { .. },
            completion: RingCompletion::Interrupt,
            ..
        }) => true,
        _ => return None,
    };
    let lines = vec![
        "DBOptions::use_direct_reads = true".to_owned(),
        "DBOptions::use_direct_io_for_flush_and_compaction = true".to_owned(),
        format!("ReadOptions::async_io = {is_async}"),
    ];
    let note = if is_async {
        "Only scans and MultiGet are asynchronous, in a RocksDB that was built with liburing."
    } else {
        ""
    };
    Step::new("RocksDB", lines, note)
}

/// What lets a program of one's own choose its ways; the baselines are for studies alone, and a program as it
/// is cannot have its drive taken.
fn adaptive(candidate: &Candidate) -> Option<Step> {
    let policy = match candidate.way.path.auto().filter(|_| !candidate.is_taken)? {
        AutoPath::Latency => "latency".to_owned(),
        AutoPath::Cpu => "cpu".to_owned(),
        AutoPath::Policy(name) => name.to_string(),
        AutoPath::IosPerJoule | AutoPath::Random | AutoPath::Pinned(_) => return None,
    };
    let line = format!("IOPJ_PRELOAD_POLICY={policy} LD_PRELOAD=libiopj_preload.so PROGRAM");
    let note =
        "For direct I/O of a program as it is; in one's own, `iopj-auto` in Rust or `iopj_auto_open` in C.";
    Step::new("program", vec![line], note)
}

fn bypass(candidate: &Candidate) -> Option<Step> {
    let is_taken = candidate.way.path.is_bypass() || candidate.is_taken;
    let line = "iopj run --take-device PCI-ADDRESS; the kernel does not have the drive meanwhile".to_owned();
    is_taken.then(|| Step { place: "drive", lines: vec![line], note: String::new() })
}
