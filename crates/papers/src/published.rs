//! Figures that the papers print, as data, each with its place in the paper. iopj measured none of them; they
//! are shown beside measured ones and test the papers' formulas.

use iopj_analysis::published_costs::{PublishedCosts, PublishedLoadsStores, TOTAL};
use iopj_core::IoPath;
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

/// The row of [`LOADS_STORES`] with this source, or the total.
pub fn loads_stores(source: &str) -> Option<&'static PublishedLoadsStores> {
    LOADS_STORES.iter().chain([&LOADS_STORES_TOTAL]).find(|row| row.source == source)
}

const fn loads_stores_row(source: &'static str, figures: [f64; 3]) -> PublishedLoadsStores {
    PublishedLoadsStores { source, interrupt: figures[0], poll: figures[1], hybrid: figures[2] }
}

/// `poll22` Table 2, in its order; functions follow their directory: 4 KiB random reads, 32 threads,
/// `posix-sio`. The paper rounds each figure, so sums differ from the printed totals by up to 1.
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

/// The totals that `poll22` Table 2 prints.
pub const LOADS_STORES_TOTAL: PublishedLoadsStores = loads_stores_row(TOTAL, [2710.0, 3190.0, 3612.0]);

/// `poll22` Table 2 with the I/Os of its Table 1 at 8 threads, because it prints none at its 32.
pub const COSTS: PublishedCosts = PublishedCosts {
    rows: &LOADS_STORES,
    total: LOADS_STORES_TOTAL,
    iops: loads_stores_row(
        "IOPS",
        [COMPLETION_MODES[5].iops, COMPLETION_MODES[1].iops, COMPLETION_MODES[3].iops],
    ),
    iops_threads: COMPLETION_MODES[1].numjobs,
};

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

/// A sweep of `fabric`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sweep {
    /// Sequential reads over request size in KiB, 8 processes (Finding 1).
    Size,
    /// Sequential reads of 4 KiB over processes (Finding 2).
    Processes,
    /// Random writes over request size in KiB, 8 processes (Finding 3).
    Writes,
    /// Sequential reads of 4 KiB over depth, one core of the target (Finding 4).
    Depth,
}

/// What `fabric` prints of one point of a sweep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PublishedPoint {
    /// The sweep.
    pub sweep: Sweep,
    /// The figure: a latency in us, `bandwidth` in MB/s, or a share of all cores in %.
    pub figure: &'static str,
    /// Where in the sweep.
    pub at: u32,
    /// Of the remote drive.
    pub remote: f64,
    /// Of the local one; absent where the paper prints none.
    pub local: Option<f64>,
}

const fn point(
    sweep: Sweep,
    figure: &'static str,
    at: u32,
    remote: f64,
    local: Option<f64>,
) -> PublishedPoint {
    PublishedPoint { sweep, figure, at, remote, local }
}

/// Every figure that `fabric` prints of a point, in its order. CPU counts iowait.
pub const FABRIC: [PublishedPoint; 24] = [
    point(Sweep::Size, "p95", 128, 1155.0, Some(1139.0)),
    point(Sweep::Size, "bandwidth", 4, 314.0, None),
    point(Sweep::Size, "bandwidth", 128, 1361.0, None),
    point(Sweep::Size, "host CPU", 64, 2.11, None),
    point(Sweep::Size, "host CPU", 128, 7.57, None),
    point(Sweep::Processes, "p20", 16, 3200.0, Some(1600.0)),
    point(Sweep::Processes, "p95", 16, 6900.0, Some(8700.0)),
    point(Sweep::Processes, "target CPU", 1, 2.82, None),
    point(Sweep::Processes, "target CPU", 16, 4.35, None),
    point(Sweep::Processes, "host CPU", 1, 5.39, None),
    point(Sweep::Processes, "host CPU", 16, 8.34, None),
    point(Sweep::Writes, "bandwidth", 4, 500.0, Some(500.0)),
    point(Sweep::Writes, "bandwidth", 128, 500.0, Some(500.0)),
    point(Sweep::Writes, "p95", 128, 380_000.0, Some(343_000.0)),
    point(Sweep::Writes, "mean latency", 128, 226_000.0, Some(235_000.0)),
    point(Sweep::Writes, "host CPU", 4, 50.7, Some(19.2)),
    point(Sweep::Writes, "system", 4, 26.9, None),
    point(Sweep::Writes, "iowait", 4, 15.0, None),
    point(Sweep::Depth, "p95", 1, 178.0, Some(178.0)),
    point(Sweep::Depth, "p95", 8, 586.0, Some(565.0)),
    point(Sweep::Depth, "p50", 8, 370.0, Some(171.0)),
    point(Sweep::Depth, "p80", 16, 865.0, Some(559.4)),
    point(Sweep::Depth, "p80", 64, 1600.0, Some(2000.0)),
    point(Sweep::Depth, "p80", 128, 3200.0, Some(3900.0)),
];

/// What `fabric` prints of a point: of the remote drive, then of the local one.
pub fn fabric(sweep: Sweep, figure: &str, at: u32) -> [Option<f64>; 2] {
    let row = FABRIC.iter().find(|row| (row.sweep, row.figure, row.at) == (sweep, figure, at));
    [row.map(|row| row.remote), row.and_then(|row| row.local)]
}

/// What Finding 1 prints of no single point.
pub const FABRIC_1_PRINTED: [PrintedFigure; 1] =
    [printed("greatest bandwidth penalty, remote", 20.0, "%", "Finding 1")];

/// What Finding 2 prints of no single point.
pub const FABRIC_2_PRINTED: [PrintedFigure; 1] =
    [printed("greatest bandwidth penalty, remote", 1.23, "%", "Finding 2")];

/// What is printed of Finding 4 of no single point. The paper does not say what the gains of interrupt
/// moderation are relative to.
pub const FABRIC_4_PRINTED: [PrintedFigure; 3] = [
    printed("bandwidth lost from iodepth 4 to 16, remote", 10.0, "%", "Finding 4"),
    printed("throughput gained by interrupt moderation", 42.5, "%", "Abstract"),
    printed("p95 gained by interrupt moderation", -19.0, "%", "Abstract"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_analysis::explain::is_in_group;
    use iopj_core::CompletionMode;
    use iopj_core::{Cost, FunctionCost, Space};

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
        let total = |completion| COSTS.approximate_per_io(&LOADS_STORES_TOTAL, completion);
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

    fn groups_of(space: Space, function: &str, directory: Option<&str>) -> Vec<&'static str> {
        let function = FunctionCost {
            space,
            function: function.into(),
            module: None,
            directory: directory.map(str::to_owned),
            cost: Cost::default(),
        };
        COSTS.groups().map(|row| row.source).filter(|row| is_in_group(&COSTS, &function, row)).collect()
    }

    #[test]
    fn functions_fall_into_the_papers_rows() {
        let kernel = |function, directory| groups_of(Space::Kernel, function, Some(directory));
        assert_eq!(kernel("blk_poll", "block/"), ["block/", "block/ blk_poll", "total"]);
        assert_eq!(kernel("blk_mq_get_tag.constprop.0", "block/"), ["block/", "block/ blk_mq_*", "total"]);
        assert_eq!(kernel("submit_bio", "block/"), ["block/", "block/ other", "total"]);
        assert_eq!(kernel("blk_mq_get_tag", "lib/"), ["other", "total"]);
        assert_eq!(kernel("nvme_poll", "drivers/nvme/host/"), ["drivers/nvme/host/", "total"]);
        assert_eq!(
            kernel("__schedule", "kernel/sched/"),
            ["kernel/sched/", "kernel/sched/ __schedule", "total"]
        );
        assert_eq!(kernel("schedule", "kernel/sched/"), ["kernel/sched/", "kernel/sched/ other", "total"]);
        assert_eq!(
            kernel("__hrtimer_run_queues", "kernel/time/"),
            ["kernel/time/", "kernel/time/ *hrtimer*", "total"]
        );
        assert_eq!(groups_of(Space::Kernel, "x", None), ["other", "total"]);
        assert_eq!(groups_of(Space::User, "", None), ["other", "total"]);
    }
}
