//! Windows of a study that are too short for its meters, and what is said of them.

use crate::progress::Progress;
use iopj_core::{Length, format_duration};
use iopj_meter::{Cadence, Incomplete};
use iopj_study::plan::Cell;
use std::collections::BTreeSet;
use std::time::Duration;

/// The windows of a study, and the meters for which some are known to be too short.
#[derive(Debug, Default)]
pub(crate) struct ShortWindows {
    windows: BTreeSet<Duration>,
    warned: BTreeSet<String>,
}

impl ShortWindows {
    /// The windows of these cells are watched from now on. One that ends after a number of I/Os has no known
    /// length.
    pub(super) fn watch(&mut self, cells: &[Cell]) {
        let window = |cell: &Cell| match cell.workload.length {
            Length::Runtime(time) => Some(time),
            Length::Ios(_) => None,
        };
        self.windows = cells.iter().filter_map(window).collect();
    }

    /// Warns, once, if windows are too short for a meter whose channels give values so often.
    pub(super) fn warn(&mut self, name: &str, cadences: &[Cadence], progress: &mut dyn Progress) {
        if let Some(warning) = self.of(name, cadences)
            && self.warned.insert(name.to_owned())
        {
            progress.note(&format!("warning: {warning}"));
        }
    }

    fn of(&self, name: &str, cadences: &[Cadence]) -> Option<String> {
        let least_s = |cadence: &Cadence| cadence.least_window_s().unwrap_or(f64::INFINITY);
        let slowest = cadences.iter().max_by(|a, b| least_s(a).total_cmp(&least_s(b)))?;
        let fault = |window: &Duration| Some((*window, slowest.check(window.as_secs_f64()).err()?));
        let short: Vec<(Duration, Incomplete)> = self.windows.iter().filter_map(fault).collect();
        let (_, why) = short.first()?;
        let of = if short.len() == self.windows.len() {
            String::new()
        } else {
            let times: Vec<String> = short.iter().map(|(time, _)| format_duration(*time)).collect();
            format!(" with a `runtime` of {}", times.join(", "))
        };
        let hopeless_s = slowest.hopeless_below_s().unwrap_or(f64::INFINITY);
        Some(if short.iter().all(|(window, _)| window.as_secs_f64() < hopeless_s) {
            format!("no trial{of} will have joules from the meter `{name}`: {why}")
        } else {
            format!("some trials{of} may have no joules from the meter `{name}`: {why}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Said;
    use iopj_meter::ChannelKind;

    #[test]
    fn a_warning_names_the_windows_that_are_too_short_and_the_least_runtime() {
        let second = Duration::from_secs(1);
        let cadence = Cadence { kind: ChannelKind::Instant, period_s: 1.0, age_s: 0.0, bridge_s: 3.0 };
        let says = |windows: &[Duration], period_s: f64| {
            let windows = windows.iter().copied().collect();
            let mut short = ShortWindows { windows, warned: BTreeSet::new() };
            let mut said = Said::default();
            (0..2).for_each(|_| short.warn("psu", &[Cadence { period_s, ..cadence }], &mut said));
            said.0
        };
        let why = "the measured window is too short for the meter, which gives a value every 1.0 s; the \
                   window must hold 4 values: use a `runtime` of at least 5s, or a faster meter";
        let all = format!("warning: no trial will have joules from the meter `psu`: {why}");
        assert_eq!(says(&[second], 1.0), [all]);
        let some = "warning: no trial with a `runtime` of 1s, 2s will have joules from the meter `psu`: ";
        assert_eq!(says(&[second, 2 * second, 5 * second], 1.0), [some.to_owned() + why]);
        assert!(says(&[5 * second], 1.0).is_empty() && says(&[], 1.0).is_empty());
        // A window in which four values lie only if it begins at the right moment.
        let maybe = "warning: some trials may have no joules from the meter `psu`: ".to_owned() + why;
        assert_eq!(says(&[second * 7 / 2], 1.0), [maybe]);
        let maybe = "warning: some trials with a `runtime` of 2s, 3s may have no joules from the meter `psu`";
        assert!(says(&[2 * second, 3 * second, 9 * second], 1.0)[0].starts_with(maybe));
        let rare = says(&[60 * second], 5.0);
        assert!(rare[0].contains("a value only every 5.0 s, and gaps of at most 3.0 s"), "{rare:?}");
    }

    /// The last of the channels with the longest period was looked at: with the counter of a plug, which
    /// gives no joules, nothing was said.
    #[test]
    fn of_several_channels_the_one_that_needs_the_longest_window_is_warned_of() {
        let count = ChannelKind::Counter { joules_per_count: 60.0, wrap: None };
        let cadence = |kind, period_s| Cadence { kind, period_s, age_s: 0.0, bridge_s: 3.0 };
        let short = ShortWindows { windows: [Duration::from_secs(1)].into(), ..ShortWindows::default() };
        let (power, energy) = (cadence(ChannelKind::Instant, 1.0), cadence(count, 1.0));
        assert_eq!(short.of("plug", &[power, energy]), short.of("plug", &[power]));
        let rare = cadence(ChannelKind::Instant, 4.0);
        assert!(short.of("plug", &[rare, power]).unwrap().contains("a value only every 4.0 s"));
        assert_eq!(short.of("plug", &[energy]), None);
    }
}
