//! The claims of *When Poll is More Energy Efficient than Interrupt*: completion modes of synchronous reads.

mod costs;
mod energy;
mod setting;

use super::comparison::{Against, Comparison, Relation};
use super::data::TrialSet;
use super::metrics::{CPU, ClaimMetric, IOPS, MEAN_LATENCY, SWITCHES};
use super::question::Question;
use super::{BASE, Definition};
use crate::published;
use iopj_core::IoPath;
pub(super) use setting::{HYBRID, INTERRUPT, POLL, shape, thread_counts, too_fast};

/// Its claims, in their order.
pub(super) const DEFINITIONS: &[Definition] = &[
    Definition {
        id: "poll22-1",
        text: "4 KiB random reads: poll and hybrid both beat interrupt in mean latency and in IOPS, at 1 \
               and at 8 threads.",
        needs: &[
            "posix-sio interrupt, poll and hybrid",
            "randread 4k, iodepth 1, numjobs 1 and 8",
            "3 replicates",
        ],
        parts: faster,
        replicates: 3,
        run: |_| "iopj run studies/poll22.toml --bs 4k --numjobs 1,8".to_owned(),
        ..BASE
    },
    Definition {
        id: "poll22-2",
        text: "CPU use: interrupt < hybrid < poll, below saturation.",
        needs: &[
            "posix-sio interrupt, poll and hybrid",
            "CPU time of all threads",
            "numjobs below the core count (randread 4k, iodepth 1)",
        ],
        parts: cpu_order,
        run: run_below_cores,
        ..BASE
    },
    Definition {
        id: "poll22-3",
        text: "CPU use does not rank system power: hybrid uses less CPU than poll and yet more power in \
               some workload; poll uses less power than interrupt in some workload.",
        needs: &["a system-scope meter", "posix-sio interrupt, poll and hybrid", "3 replicates"],
        note: Some(energy::POWER_NOTE),
        parts: energy::power,
        replicates: 3,
        run: |_| "iopj run studies/poll22.toml, with its meter".to_owned(),
        run_with_meter: Some("iopj run studies/poll22.toml, with a system-scope meter under [meters]"),
        ..BASE
    },
    Definition {
        id: "poll22-4",
        text: "Context switches per I/O: one for interrupt and for hybrid, none for poll.",
        needs: &[
            "posix-sio interrupt, poll and hybrid (randread 4k, iodepth 1)",
            "context switches of the I/O threads",
            "a device slow enough that interrupt sleeps",
        ],
        parts: switches,
        run: |_| "iopj run studies/poll22.toml --bs 4k".to_owned(),
        ..BASE
    },
    Definition {
        id: "poll22-5",
        text: "Loads plus stores: interrupt < poll < hybrid in total; kernel/sched/ largest for hybrid, \
               near nothing for poll; block/ and drivers/nvme/host/ interrupt < hybrid < poll; kernel/time/ \
               largest for hybrid.",
        needs: &[
            "loads and stores by kernel source directory",
            "posix-sio interrupt, poll and hybrid",
            "a saturated device (numjobs 32 or more)",
        ],
        note: Some(costs::NOTE),
        parts: costs::orders,
        run: |_| {
            "iopj run studies/poll22.toml --bs 4k --numjobs 32, with loads and stores counted or sampled"
                .to_owned()
        },
        ..BASE
    },
    Definition {
        id: "poll22-6",
        text: "Bytes per joule: poll wins where latency is low, interrupt where it is high; hybrid wins \
               nearly nowhere.",
        needs: &[
            "a system-scope meter",
            "posix-sio interrupt, poll and hybrid over request size and threads, up to more threads than \
             cores",
            "3 replicates",
        ],
        note: Some(energy::BYTES_NOTE),
        parts: energy::bytes,
        replicates: 3,
        run: |_| "iopj run studies/poll22.toml, with its meter".to_owned(),
        run_with_meter: Some("iopj run studies/poll22.toml, with a system-scope meter under [meters]"),
        ..BASE
    },
    Definition {
        id: "poll22-7",
        text: "Hybrid polling inherits the costs of both: it is the least energy efficient of the three in \
               most workloads.",
        needs: &[
            "a system-scope meter",
            "posix-sio interrupt, poll and hybrid over request size and threads",
            "3 replicates",
        ],
        note: Some(energy::LEAST_NOTE),
        parts: energy::least,
        replicates: 3,
        run: |_| "iopj run studies/poll22.toml, with its meter".to_owned(),
        run_with_meter: Some("iopj run studies/poll22.toml, with a system-scope meter under [meters]"),
        ..BASE
    },
];

fn faster<'a>(data: &TrialSet<'a>) -> Vec<Question<'a>> {
    let mut questions = Vec::new();
    for numjobs in [1, 8] {
        for path in [POLL, HYBRID] {
            questions.push(basic(data, path, numjobs, MEAN_LATENCY, Relation::Less, |row| row.latency_us));
            questions.push(basic(data, path, numjobs, IOPS, Relation::More, |row| row.iops));
        }
    }
    questions
}

/// A path compared with interrupt in a figure of the paper's first table.
fn basic<'a>(
    data: &TrialSet<'a>,
    path: IoPath,
    numjobs: u32,
    metric: ClaimMetric,
    relation: Relation,
    figure: fn(&published::PublishedMode) -> f64,
) -> Question<'a> {
    let published = [path, INTERRUPT].map(|path| published::completion_mode(&path, numjobs).map(figure));
    let comparison = Comparison::of_paths(data, metric, path, relation, INTERRUPT, shape(numjobs));
    Question::Compare(comparison.printed(published))
}

fn run_below_cores(cores: u32) -> String {
    let mut numjobs: Vec<String> = (0..32)
        .map(|power| 1u32 << power)
        .take_while(|numjobs| *numjobs < cores)
        .map(|n| n.to_string())
        .collect();
    if numjobs.is_empty() {
        numjobs.push("1".to_owned());
    }
    format!("iopj run studies/poll22.toml --bs 4k --numjobs {}", numjobs.join(","))
}

fn cpu_order<'a>(data: &TrialSet<'a>) -> Vec<Question<'a>> {
    if let Some(need) = data.lacks_cores() {
        let text = "CPU use: interrupt less than hybrid, hybrid less than poll";
        return vec![Question::missing_for(text, "", need)];
    }
    let less = |path, other, numjobs| {
        Question::Compare(Comparison::of_paths(data, CPU, path, Relation::Less, other, shape(numjobs)))
    };
    let counts = thread_counts(data, |numjobs| numjobs < data.machine.cores, 1);
    counts
        .into_iter()
        .flat_map(|numjobs| [less(INTERRUPT, HYBRID, numjobs), less(HYBRID, POLL, numjobs)])
        .collect()
}

/// Tolerance around one switch per I/O, as a share.
const ONE_WITHIN: f64 = 0.1;

/// Fewer context switches per I/O than this count as none.
const NO_SWITCH: f64 = 0.01;

fn switches<'a>(data: &TrialSet<'a>) -> Vec<Question<'a>> {
    thread_counts(data, |_| true, 1).into_iter().flat_map(|numjobs| switches_at(data, numjobs)).collect()
}

fn switches_at<'a>(data: &TrialSet<'a>, numjobs: u32) -> Vec<Question<'a>> {
    let interrupt = data.cell(INTERRUPT, shape(numjobs));
    if let Some(need) = too_fast(&interrupt) {
        let text = "context switches per I/O of interrupt, hybrid and poll";
        return vec![Question::missing_for(text, interrupt.shape, need)];
    }
    let hold = |path, relation, number| {
        let number = Against::Number(number);
        let comparison = Comparison::of(data, SWITCHES, (path, shape(numjobs)), relation, number);
        Question::Compare(comparison.printed([published::context_switches_per_io(&path), None]))
    };
    vec![
        hold(INTERRUPT, Relation::Equal(ONE_WITHIN), 1.0),
        hold(HYBRID, Relation::Equal(ONE_WITHIN), 1.0),
        hold(POLL, Relation::Less, NO_SWITCH),
    ]
}
