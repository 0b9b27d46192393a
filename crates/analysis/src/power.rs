//! Power over the time of a study: the readings of a meter's channels, and when each path ran.

use iopj_core::{IoPath, PowerReading, Scope, VerdictKind};
use iopj_record::Trial;

/// The readings of one channel over one boot of the machine, with the trials of that time.
#[derive(Clone, Debug, PartialEq)]
pub struct PowerTrace {
    /// The channel's name, such as `plug` or `rapl package-0`.
    pub channel: String,
    /// Its scope.
    pub scope: Scope,
    /// The readings in the order of time.
    pub readings: Vec<PowerReading>,
    /// The measured windows of the trials.
    pub windows: Vec<TrialWindow>,
}

/// The measured window of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrialWindow {
    /// The path that was asked for.
    pub path: IoPath,
    /// Start in ns of `CLOCK_MONOTONIC_RAW`, the readings' clock.
    pub begin_ns: u64,
    /// End on the same clock.
    pub end_ns: u64,
}

/// The measured windows of the trials that were neither refuted nor failed and have one, in the order of
/// their start. All trials must be of one boot, and so of one clock.
pub fn windows<'t>(trials: impl IntoIterator<Item = &'t Trial>) -> Vec<TrialWindow> {
    let window = |trial: &Trial| {
        let measurement =
            trial.outcome.measurement().filter(|one| one.verdict.kind != VerdictKind::Refuted)?;
        let [begin_ns, end_ns] = measurement.window_raw_ns?;
        Some(TrialWindow { path: trial.path, begin_ns, end_ns })
    };
    let mut windows: Vec<TrialWindow> = trials.into_iter().filter_map(window).collect();
    windows.sort_by_key(|window| (window.begin_ns, window.end_ns));
    windows
}

impl PowerTrace {
    /// The readings within a window, its ends included.
    pub fn within(&self, window: &TrialWindow) -> &[PowerReading] {
        let from = self.readings.partition_point(|reading| reading.at_ns < window.begin_ns);
        let until = self.readings.partition_point(|reading| reading.at_ns <= window.end_ns);
        self.readings.get(from..until).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_record::testing::cells::measurement_of;
    use iopj_record::testing::pairs::trial;

    #[test]
    fn windows_are_those_of_trials_that_stand_and_hold_their_readings() {
        let at = |path: &str, window, kind| {
            let mut trial = trial(path, 1000);
            let one = measurement_of(&mut trial);
            (one.window_raw_ns, one.verdict.kind) = (window, kind);
            trial
        };
        let trials = [
            at("libaio/syscall/interrupt", Some([50, 60]), VerdictKind::Verified),
            at("io_uring/syscall/poll", Some([10, 20]), VerdictKind::Unproven),
            at("io_uring/sqpoll/poll", Some([30, 40]), VerdictKind::Refuted),
            at("io_uring/syscall/interrupt", None, VerdictKind::Verified),
        ];
        let windows = windows(&trials);
        assert_eq!(windows.iter().map(|one| one.begin_ns).collect::<Vec<_>>(), [10, 50]);
        let reading = |at_ns| PowerReading { at_ns, watts: at_ns as f64 };
        let readings = [9, 10, 15, 20, 21].map(reading).to_vec();
        let trace = PowerTrace { channel: "plug".into(), scope: Scope::System, readings, windows };
        let within = |index: usize| {
            trace.within(&trace.windows[index]).iter().map(|one| one.at_ns).collect::<Vec<_>>()
        };
        assert_eq!((within(0), within(1)), (vec![10, 15, 20], vec![]));
    }
}
