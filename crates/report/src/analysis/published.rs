//! Figures that the papers print, as data, each with its place in the paper. iopj measured none of them; they
//! are shown beside measured ones and test the papers' formulas.

use iopj_core::{CompletionMode, IoPath};
use serde::Serialize;

/// A paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Paper {
    /// Harris and Altiparmak, *When Poll is More Energy Efficient than Interrupt*, HotStorage 2022.
    Poll22,
    /// Sundar et al., *Energy Implications of IO Interface Design Choices*, HotStorage 2023.
    Iface23,
    /// Jia, Anger and Chen, *When NVMe over Fabrics Meets Arm*.
    Fabric,
}

impl Paper {
    /// Authors, title and venue.
    pub fn citation(self) -> &'static str {
        match self {
            Paper::Poll22 => {
                "Harris and Altiparmak, When Poll is More Energy Efficient than Interrupt, HotStorage 2022"
            }
            Paper::Iface23 => {
                "Sundar et al., Energy Implications of IO Interface Design Choices, HotStorage 2023"
            }
            Paper::Fabric => "Jia, Anger and Chen, When NVMe over Fabrics Meets Arm",
        }
    }
}

/// Latency and rate of a completion mode of `posix-sio`: 4 KiB random reads, `poll22` Table 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PublishedMode {
    /// The path.
    pub path: &'static str,
    /// Threads.
    pub numjobs: u32,
    /// Mean latency in us.
    pub latency_us: f64,
    /// I/Os per second.
    pub iops: f64,
}

/// `poll22` Table 1, in its order.
pub const COMPLETION_MODES: [PublishedMode; 6] = [
    PublishedMode { path: "posix-sio/syscall/poll", numjobs: 1, latency_us: 8.1, iops: 120_470.0 },
    PublishedMode { path: "posix-sio/syscall/poll", numjobs: 8, latency_us: 13.6, iops: 571_659.0 },
    PublishedMode { path: "posix-sio/syscall/hybrid", numjobs: 1, latency_us: 8.5, iops: 113_846.0 },
    PublishedMode { path: "posix-sio/syscall/hybrid", numjobs: 8, latency_us: 13.9, iops: 546_968.0 },
    PublishedMode { path: "posix-sio/syscall/interrupt", numjobs: 1, latency_us: 10.1, iops: 96_722.0 },
    PublishedMode { path: "posix-sio/syscall/interrupt", numjobs: 8, latency_us: 15.0, iops: 511_895.0 },
];

/// The row of [`COMPLETION_MODES`] for a path under 4 KiB random reads at depth 1.
pub fn completion_mode(path: &IoPath, numjobs: u32) -> Option<&'static PublishedMode> {
    let path = path.to_string();
    COMPLETION_MODES.iter().find(|row| row.path == path && row.numjobs == numjobs)
}

/// Latency of a path: 4 KiB random reads and writes, one thread, depth 1, in us; `iface23` Table 2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PublishedLatency {
    /// The path; the paper's kernel bypass is SPDK.
    pub path: &'static str,
    /// Median and 99th percentile of reads, then of writes.
    pub us: [f64; 4],
    /// Average slowdown relative to kernel bypass in per cent; absent for that path itself.
    pub slower_pct: Option<f64>,
}

const fn latency_row(path: &'static str, us: [f64; 4], slower_pct: Option<f64>) -> PublishedLatency {
    PublishedLatency { path, us, slower_pct }
}

/// `iface23` Table 2, in its order.
pub const LATENCY: [PublishedLatency; 9] = [
    latency_row("spdk/doorbell/poll", [6.23, 7.47, 8.44, 10.40], None),
    latency_row("posix-sio/syscall/poll", [8.69, 9.06, 11.11, 12.24], Some(27.52)),
    latency_row("io_uring/syscall/poll", [8.65, 9.03, 14.50, 15.93], Some(46.18)),
    latency_row("io_uring/sqpoll/poll", [7.89, 9.05, 12.38, 22.33], Some(52.30)),
    latency_row("posix-sio/syscall/interrupt", [11.68, 12.36, 14.08, 15.64], Some(67.54)),
    latency_row("io_uring/sqpoll/interrupt", [8.72, 11.15, 13.34, 25.32], Some(72.69)),
    latency_row("libaio/syscall/interrupt", [12.35, 13.06, 16.33, 21.87], Some(94.21)),
    latency_row("io_uring/syscall/interrupt", [12.73, 13.45, 16.92, 23.61], Some(102.97)),
    latency_row("posix-aio/syscall/interrupt", [19.10, 28.89, 21.60, 34.46], Some(220.15)),
];

/// The row of [`LATENCY`] for a path.
pub fn latency(path: &IoPath) -> Option<&'static PublishedLatency> {
    let path = path.to_string();
    LATENCY.iter().find(|row| row.path == path)
}

/// Loads plus stores under a kernel source directory or in functions of it: millions per second, 4 KiB random
/// reads, 32 threads, `posix-sio`; `poll22` Table 2. The paper rounds each figure, so sums differ from the
/// printed totals by up to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PublishedLoadsStores {
    /// The directory, or the directory and the functions in it.
    pub source: &'static str,
    /// With interrupt completion.
    pub interrupt: f64,
    /// With poll completion.
    pub poll: f64,
    /// With hybrid completion.
    pub hybrid: f64,
}

impl PublishedLoadsStores {
    /// The figure of a completion mode.
    pub fn of(&self, completion: CompletionMode) -> f64 {
        match completion {
            CompletionMode::Interrupt => self.interrupt,
            CompletionMode::Poll => self.poll,
            CompletionMode::Hybrid => self.hybrid,
        }
    }

    /// Roughly how many per I/O: the paper prints no IOPS at its 32 threads, so those of Table 1 at 8 threads
    /// are used.
    pub fn approximate_per_io(&self, completion: CompletionMode) -> Option<f64> {
        let path = format!("posix-sio/syscall/{completion}");
        let at_8 = COMPLETION_MODES.iter().find(|row| row.path == path && row.numjobs == 8)?;
        Some(self.of(completion) * 1e6 / at_8.iops)
    }
}

/// The row of [`LOADS_STORES`] with this source, or the total.
pub fn loads_stores(source: &str) -> Option<&'static PublishedLoadsStores> {
    LOADS_STORES.iter().chain([&LOADS_STORES_TOTAL]).find(|row| row.source == source)
}

const fn loads_stores_row(source: &'static str, figures: [f64; 3]) -> PublishedLoadsStores {
    PublishedLoadsStores { source, interrupt: figures[0], poll: figures[1], hybrid: figures[2] }
}

/// `poll22` Table 2, in its order; functions follow their directory.
pub const LOADS_STORES: [PublishedLoadsStores; 15] = [
    loads_stores_row("block/", [386.0, 759.0, 533.0]),
    loads_stores_row("block/ blk_poll", [0.0, 219.0, 70.0]),
    loads_stores_row("block/ blk_mq_*", [111.0, 158.0, 156.0]),
    loads_stores_row("block/ other", [274.0, 383.0, 307.0]),
    loads_stores_row("drivers/nvme/host/", [51.0, 207.0, 111.0]),
    loads_stores_row("kernel/sched/", [598.0, 41.0, 786.0]),
    loads_stores_row("kernel/sched/ __schedule", [13.0, 0.0, 13.0]),
    loads_stores_row("kernel/sched/ psi_task_change", [11.0, 0.0, 13.0]),
    loads_stores_row("kernel/sched/ update_load_avg", [14.0, 0.0, 22.0]),
    loads_stores_row("kernel/sched/ other", [560.0, 41.0, 739.0]),
    loads_stores_row("kernel/time/", [65.0, 22.0, 154.0]),
    loads_stores_row("kernel/time/ ktime_get", [10.0, 14.0, 22.0]),
    loads_stores_row("kernel/time/ *hrtimer*", [0.0, 1.0, 100.0]),
    loads_stores_row("kernel/time/ other", [55.0, 8.0, 33.0]),
    loads_stores_row("other", [1611.0, 2160.0, 2029.0]),
];

/// The name of the totals' row.
pub const TOTAL: &str = "total";

/// The totals that `poll22` Table 2 prints.
pub const LOADS_STORES_TOTAL: PublishedLoadsStores = loads_stores_row(TOTAL, [2710.0, 3190.0, 3612.0]);

/// True if a row of `poll22` Table 2 counts a function of this name in the directories that `is_in` picks.
/// Functions in none of the table's directories, including user space, are `other`; those in one of them with
/// none of its names are that directory's `other`.
pub fn source_holds(source: &str, function: &str, is_in: impl Fn(&str) -> bool) -> bool {
    let sources = || LOADS_STORES.iter().map(|row| row.source);
    let has_a_name_of = |directory: &str| {
        let mut names = sources().filter_map(|row| row.strip_prefix(directory)?.strip_prefix(' '));
        names.any(|name| name != "other" && fits(function, name))
    };
    match source.split_once(' ') {
        None if source == TOTAL => true,
        None if source == "other" => !sources().any(|row| row.ends_with('/') && is_in(row)),
        None => is_in(source),
        Some((directory, "other")) => is_in(directory) && !has_a_name_of(directory),
        Some((directory, name)) => is_in(directory) && fits(function, name),
    }
}

/// The paper's patterns: a name, a prefix `x*`, a part `*x*`.
fn fits(function: &str, pattern: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(_), Some(_)) => function.contains(pattern.trim_matches('*')),
        (None, Some(beginning)) => function.starts_with(beginning),
        _ => function == pattern,
    }
}

/// What an interface offers: `iface23` Table 1 (what is optional counts as offered).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Design {
    /// The interface.
    pub interface: &'static str,
    /// Executes in the kernel.
    pub kernel: bool,
    /// Executes in user space.
    pub user: bool,
    /// The caller waits for its I/O.
    pub sync: bool,
    /// The caller continues meanwhile.
    pub r#async: bool,
    /// Submits by system call.
    pub submit_syscall: bool,
    /// Submission is polled for.
    pub submit_poll: bool,
    /// Completes by interrupt.
    pub complete_interrupt: bool,
    /// Completion is polled for.
    pub complete_poll: bool,
}

const fn design_row(interface: &'static str, offers: [bool; 8]) -> Design {
    let [kernel, user, sync, r#async, submit_syscall, submit_poll, complete_interrupt, complete_poll] =
        offers;
    Design {
        interface,
        kernel,
        user,
        sync,
        r#async,
        submit_syscall,
        submit_poll,
        complete_interrupt,
        complete_poll,
    }
}

/// `iface23` Table 1, in its order.
pub const DESIGN: [Design; 5] = [
    design_row("posix-sio", [true, false, true, false, true, false, true, true]),
    design_row("posix-aio", [true, true, false, true, true, false, true, false]),
    design_row("libaio", [true, false, false, true, true, false, true, false]),
    design_row("io_uring", [true, false, true, true, true, true, true, true]),
    design_row("spdk", [false, true, false, true, false, false, false, true]),
];

/// Context switches per I/O that `poll22` states in section 3.3 for a completion mode of `posix-sio`.
pub fn context_switches_per_io(path: &IoPath) -> Option<f64> {
    match path.to_string().as_str() {
        "posix-sio/syscall/interrupt" | "posix-sio/syscall/hybrid" => Some(1.0),
        "posix-sio/syscall/poll" => Some(0.0),
        _ => None,
    }
}

/// A single figure of a paper.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PrintedFigure {
    /// What it is of.
    pub what: &'static str,
    /// The figure.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
    /// Where the paper prints it.
    pub place: &'static str,
}

const fn printed(what: &'static str, value: f64, unit: &'static str, place: &'static str) -> PrintedFigure {
    PrintedFigure { what, value, unit, place }
}

/// Sequential reads over request size, 8 processes.
pub const FABRIC_1_PRINTED: [PrintedFigure; 7] = [
    printed("p95 at 128k, local", 1139.0, "us", "Finding 1"),
    printed("p95 at 128k, remote", 1155.0, "us", "Finding 1"),
    printed("bandwidth at 4k, remote", 314.0, "MB/s", "Finding 1"),
    printed("bandwidth at 128k, remote", 1361.0, "MB/s", "Finding 1"),
    printed("greatest bandwidth penalty, remote", 20.0, "%", "Finding 1"),
    printed("host CPU at 64k", 2.11, "%", "Finding 1"),
    printed("host CPU at 128k", 7.57, "%", "Finding 1"),
];

/// Sequential reads of 4 KiB over processes.
pub const FABRIC_2_PRINTED: [PrintedFigure; 9] = [
    printed("p20 at 16 processes, local", 1600.0, "us", "Finding 2"),
    printed("p20 at 16 processes, remote", 3200.0, "us", "Finding 2"),
    printed("p95 at 16 processes, local", 8700.0, "us", "Finding 2"),
    printed("p95 at 16 processes, remote", 6900.0, "us", "Finding 2"),
    printed("greatest bandwidth penalty, remote", 1.23, "%", "Finding 2"),
    printed("target CPU at 1 process", 2.82, "%", "Finding 2"),
    printed("target CPU at 16 processes", 4.35, "%", "Finding 2"),
    printed("host CPU at 1 process", 5.39, "%", "Finding 2"),
    printed("host CPU at 16 processes", 8.34, "%", "Finding 2"),
];

/// Random writes, 8 processes.
pub const FABRIC_3_PRINTED: [PrintedFigure; 9] = [
    printed("bandwidth, local and remote", 500.0, "MB/s", "Finding 3"),
    printed("host CPU at 4k, local", 19.2, "%", "Finding 3"),
    printed("host CPU at 4k, remote", 50.7, "%", "Finding 3"),
    printed("of it system, remote", 26.9, "%", "Finding 3"),
    printed("of it iowait, remote", 15.0, "%", "Finding 3"),
    printed("p95 at 128k, local", 343.0, "ms", "Finding 3"),
    printed("p95 at 128k, remote", 380.0, "ms", "Finding 3"),
    printed("mean latency at 128k, local", 235.0, "ms", "Finding 3"),
    printed("mean latency at 128k, remote", 226.0, "ms", "Finding 3"),
];

/// Sequential reads of 4 KiB over depth, one core of the target. The paper does not say what the gains of
/// interrupt moderation are relative to.
pub const FABRIC_4_PRINTED: [PrintedFigure; 14] = [
    printed("p95 at iodepth 1, local", 178.0, "us", "Finding 4"),
    printed("p95 at iodepth 1, remote", 178.0, "us", "Finding 4"),
    printed("p95 at iodepth 8, local", 565.0, "us", "Finding 4"),
    printed("p95 at iodepth 8, remote", 586.0, "us", "Finding 4"),
    printed("p50 at iodepth 8, local", 171.0, "us", "Finding 4"),
    printed("p50 at iodepth 8, remote", 370.0, "us", "Finding 4"),
    printed("p80 at iodepth 16, local", 559.4, "us", "Finding 4"),
    printed("p80 at iodepth 16, remote", 865.0, "us", "Finding 4"),
    printed("p80 at iodepth 64, local", 2000.0, "us", "Finding 4"),
    printed("p80 at iodepth 64, remote", 1600.0, "us", "Finding 4"),
    printed("p80 at iodepth 128, local", 3900.0, "us", "Finding 4"),
    printed("p80 at iodepth 128, remote", 3200.0, "us", "Finding 4"),
    printed("throughput gained by interrupt moderation", 42.5, "%", "Abstract"),
    printed("p95 gained by interrupt moderation", -19.0, "%", "Abstract"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_the_loads_and_stores_add_up_to_what_is_printed() {
        let of: [fn(&PublishedLoadsStores) -> f64; 3] =
            [|row| row.interrupt, |row| row.poll, |row| row.hybrid];
        for figure in of {
            let directories = ["block/", "drivers/nvme/host/", "kernel/sched/", "kernel/time/", "other"];
            let sum: f64 =
                LOADS_STORES.iter().filter(|row| directories.contains(&row.source)).map(figure).sum();
            assert!((sum - figure(&LOADS_STORES_TOTAL)).abs() <= 1.0, "{sum}");
            for directory in ["block/", "kernel/sched/", "kernel/time/"] {
                let parts =
                    LOADS_STORES.iter().filter(|row| row.source.starts_with(&format!("{directory} ")));
                let whole = LOADS_STORES.iter().find(|row| row.source == directory).map(figure).unwrap();
                let sum: f64 = parts.map(figure).sum();
                assert!((sum - whole).abs() <= 1.0, "{directory} {sum} {whole}");
            }
        }
    }

    #[test]
    fn loads_and_stores_per_io_are_approximate() {
        let total = |completion| LOADS_STORES_TOTAL.approximate_per_io(completion).unwrap();
        let totals = [CompletionMode::Interrupt, CompletionMode::Poll, CompletionMode::Hybrid].map(total);
        for (about, printed) in totals.into_iter().zip([5290.0, 5580.0, 6600.0]) {
            assert!((about - printed).abs() < 10.0, "{about} {printed}");
        }
    }

    #[test]
    fn every_published_path_is_a_path() {
        for path in COMPLETION_MODES.iter().map(|row| row.path).chain(LATENCY.iter().map(|row| row.path)) {
            assert_eq!(path.parse::<IoPath>().unwrap().to_string(), path);
        }
    }
}
