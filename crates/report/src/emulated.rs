//! Text about an emulated store: that its times mean nothing, and the orders that its replicates nevertheless
//! show.

use super::text::settings;
use iopj_analysis::Admission;
use iopj_analysis::path_order::{ORDERED_BY, OrderStep, PathOrder, path_orders};
use iopj_core::Workload;
use iopj_record::Trial;

/// The sentence above all output of an emulated store.
pub(super) fn banner(emulator: &str) -> String {
    format!(
        "emulated by {emulator}: times mean nothing and none is shown; results are verdicts, counts per \
         I/O, and orders that say so"
    )
}

/// What an order by a time is worth under emulation.
pub(super) const CAVEAT: &str = "An order by time is that of this emulation: `<` is significant by Welch's \
                                 test at 5 %, after Holm over the line; `~` is undecided; `?` is not tested \
                                 for lack of a second replicate. A poller that wants a processor of its own \
                                 may rank elsewhere on a real machine.";

/// The orders of a workload's paths, one line per metric, without times.
pub(super) fn lines(trials: &[Trial], workload: &Workload, admission: Admission) -> Vec<String> {
    let all = ORDERED_BY.into_iter().flat_map(|metric| path_orders(trials, metric, admission));
    let all: Vec<PathOrder> = all.filter(|ordering| ordering.setting.workload == *workload).collect();
    let several = |ordering: &PathOrder| all.iter().any(|one| one.setting != ordering.setting);
    all.iter().map(|ordering| line(ordering, several(ordering))).collect()
}

/// The order as a line; with generator and settings if `several`.
fn line(ordering: &PathOrder, several: bool) -> String {
    let mut text = format!("by {}", ordering.metric.title());
    if several {
        text += &format!(", {}{}", ordering.setting.generator.as_str(), settings(&ordering.setting.settings));
    }
    text += &format!(", emulated, times not shown: {}", ordering.first);
    for (step, path) in &ordering.rest {
        let sign = match step {
            OrderStep::More => "<",
            OrderStep::Undecided => "~",
            OrderStep::Untested => "?",
        };
        text += &format!(" {sign} {path}");
    }
    text
}
