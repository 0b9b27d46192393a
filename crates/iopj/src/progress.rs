//! Progress on standard error: on a terminal a bar with path, depth, rate and the time left, plain lines or
//! events otherwise.

mod events;
mod followed;

use crate::log;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use iopj_core::format_bytes;
use iopj_metering::Progress;
use iopj_record::{Outcome, Unavailable};
use iopj_report::escape;
use iopj_run::blocks::clock;
use iopj_study::plan::Cell;
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// What the bar takes of a line, with its brackets and a space.
const BAR: usize = 9;

/// A trial in words.
#[derive(Default)]
struct TrialLine {
    /// As a plain line says it.
    whole: String,
    /// Its number among all.
    number: String,
    /// What is never cut: its path and its depth.
    path: String,
    /// The rest of its workload.
    rest: String,
}

impl TrialLine {
    fn of(number: u64, of: u64, cell: &Cell) -> TrialLine {
        let (title, depth) = (cell.workload.title(), format!(" iodepth {}", cell.workload.iodepth));
        TrialLine {
            whole: format!("{number}/{of} {} {title}", cell.path),
            number: format!("{number}/{of} "),
            path: format!("{}{depth}", cell.path),
            rest: format!(" {}", title.replacen(&depth, "", 1)),
        }
    }

    /// As much as fits: path and depth, then the time left, the rate of this cell's last trial, the number,
    /// the rest.
    fn fitting(&self, columns: usize, iops: Option<f64>, left: Option<Duration>) -> String {
        let left = left.map_or(String::new(), |left| format!(", {} left", clock(left)));
        let rate = iops.map_or(String::new(), |iops| format!(", {}", rate(iops)));
        let mut room = columns.saturating_sub(self.path.chars().count());
        let mut fits = |part: &str| {
            let length = part.chars().count();
            let shown = length <= room;
            room -= if shown { length } else { 0 };
            if shown { part.to_owned() } else { String::new() }
        };
        let (left, rate) = (fits(&left), fits(&rate));
        let (number, rest) = (fits(&self.number), fits(&self.rest));
        format!("{number}{}{rest}{rate}{left}", self.path)
    }
}

/// A cell by what tells it from others.
fn named(cell: &Cell) -> String {
    format!("{} {} {:?} {:?}", cell.path, cell.workload.title(), cell.generator, cell.settings)
}

/// I/Os per second in three digits or so.
fn rate(iops: f64) -> String {
    match iops {
        1e6.. => format!("{:.2}M IOPS", iops / 1e6),
        1e4.. => format!("{:.0}k IOPS", iops / 1e3),
        _ => format!("{iops:.0} IOPS"),
    }
}

/// The columns of the terminal; some, such as that of a serial line, do not know them.
fn columns() -> usize {
    match rustix::termios::tcgetwinsize(std::io::stderr()).map_or(0, |size| size.ws_col) {
        0 => 80,
        columns => columns.max(20).into(),
    }
}

pub(crate) use followed::Followed;

/// The user's view of a run. Drop it before anything else is printed: that takes the bar off the terminal.
pub(crate) fn view() -> Followed {
    Followed::new(if log::is_json() { Box::new(events::Events::default()) } else { Box::new(View::new()) })
}

/// Lines, or a bar.
struct View {
    /// On a terminal only.
    bar: Option<ProgressBar>,
    left: Option<(Duration, Instant)>,
    trial: TrialLine,
    /// The cell that is measured, and the rate that each had in its last trial.
    cell: String,
    iops: BTreeMap<String, f64>,
    file_begun: bool,
}

impl View {
    fn new() -> View {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            // The template is constant; if it were wrong, the default one would do.
            if let Ok(style) = ProgressStyle::with_template("[{bar:6}] {wide_msg}") {
                bar.set_style(style.progress_chars("=> "));
            }
            bar
        });
        View {
            bar,
            left: None,
            trial: TrialLine::default(),
            cell: String::new(),
            iops: BTreeMap::new(),
            file_begun: false,
        }
    }

    fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln(text)),
            None => eprintln(text),
        }
    }

    fn show(&self) {
        let Some(bar) = &self.bar else { return };
        let left = self.left.map(|(left, at)| left.saturating_sub(at.elapsed()));
        let iops = self.iops.get(&self.cell).copied();
        bar.set_message(self.trial.fitting(columns().saturating_sub(BAR), iops, left));
    }
}

impl Drop for View {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn eprintln(text: &str) {
    // In one write: the handler of a signal prints a line of its own at any time.
    let _ = std::io::stderr().write_all(format!("{}\n", escape(text)).as_bytes());
}

impl Progress for View {
    fn note(&mut self, text: &str) {
        self.say(text);
    }

    fn unavailable(&mut self, paths: &[Unavailable]) {
        let paths: Vec<String> = paths.iter().map(|path| path.path.to_string()).collect();
        self.say(&format!("unavailable here (the report says why): {}", paths.join(", ")));
    }

    fn file(&mut self, path: &Path, done: u64, size: u64) {
        let first = !std::mem::replace(&mut self.file_begun, true);
        if let Some(bar) = &self.bar {
            bar.set_length(size);
            bar.set_position(done);
            bar.set_message(format!("writing {} ({})", path.display(), format_bytes(size)));
        } else if first {
            self.say(&format!("writing {} ({})", path.display(), format_bytes(size)));
        }
    }

    fn trial(&mut self, number: u64, of: u64, cell: &Cell, left: Option<Duration>) {
        self.trial = TrialLine::of(number, of, cell);
        self.cell = named(cell);
        self.left = left.map(|left| (left, Instant::now()));
        match &self.bar {
            Some(bar) => {
                bar.set_length(of);
                bar.set_position(number - 1);
                self.show();
            }
            None => {
                let left = left.map_or(String::new(), |left| format!(" (about {} left)", clock(left)));
                self.say(&format!("{}{left}", self.trial.whole));
            }
        }
    }

    fn ended(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Failed(error) => self.say(&format!("failed: {}: {error}", self.trial.whole)),
            Outcome::Measured(measurement) => {
                self.iops.insert(self.cell.clone(), measurement.iops());
            }
        }
    }

    fn tick(&mut self) {
        self.show();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_core::{Generator, Workload};
    use iopj_record::Measurement;

    fn line(path: &str, iodepth: u32) -> TrialLine {
        let workload = Workload { iodepth, ..Workload::default() };
        let (path, settings) = (path.parse().unwrap(), Default::default());
        TrialLine::of(7, 120, &Cell { path, workload, settings, generator: Generator::Native, fabric: None })
    }

    /// The path began after the time that was left, and its depth was cut off.
    #[test]
    fn path_and_depth_are_kept_at_80_columns() {
        let (rate, left) = (Some(312_345.6), Some(Duration::from_secs(80)));
        let plain = line("io_uring/syscall/interrupt", 32);
        assert_eq!(
            plain.fitting(80 - BAR, rate, left),
            "7/120 io_uring/syscall/interrupt iodepth 32, 312k IOPS, 1 min 20 s left"
        );
        assert_eq!(
            plain.fitting(150, rate, left),
            "7/120 io_uring/syscall/interrupt iodepth 32 randread 4k numjobs 1, 312k IOPS, 1 min 20 s left"
        );
        assert_eq!(
            plain.fitting(150, None, None),
            "7/120 io_uring/syscall/interrupt iodepth 32 randread 4k numjobs 1"
        );
        let longest = line("nvme-passthrough/sqpoll/interrupt+registered+kernel-wait", 32_768);
        assert_eq!(
            longest.fitting(80 - BAR, rate, left),
            "nvme-passthrough/sqpoll/interrupt+registered+kernel-wait iodepth 32768"
        );
        assert!(longest.path.len() <= 80 - BAR);
    }

    /// The rate was that of the trial before, which another path had done.
    #[test]
    fn the_rate_is_that_of_the_cells_own_last_trial() {
        let mut view = View::new();
        let cell = |path: &str| {
            let (path, settings) = (path.parse().unwrap(), Default::default());
            let (workload, generator) = (Workload::default(), Generator::Native);
            Cell { path, workload, settings, generator, fabric: None }
        };
        let (one, other) = (cell("libaio/syscall/interrupt"), cell("posix-aio/syscall/interrupt"));
        let measured = |ios| Measurement { ios, window_ns: 1_000_000_000, ..Measurement::default() };
        for (number, cell, ios) in [(1, &one, 100), (2, &other, 7)] {
            view.trial(number, 4, cell, None);
            assert_eq!(view.iops.get(&view.cell), None, "it has none yet");
            view.ended(&Outcome::Measured(Box::new(measured(ios))));
        }
        view.trial(3, 4, &one, None);
        assert_eq!(view.iops.get(&view.cell), Some(&100.0));
    }

    #[test]
    fn rates_are_short() {
        assert_eq!([999.6, 12_345.0, 1_234_567.0].map(rate), ["1000 IOPS", "12k IOPS", "1.23M IOPS"]);
    }
}
