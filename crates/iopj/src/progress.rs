//! Progress on standard error: a bar with the time left on a terminal, plain lines otherwise.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use iopj_core::format_bytes;
use iopj_report::render::escape;
use iopj_run::Progress;
use iopj_run::blocks::clock;
use iopj_store::{Outcome, Unavailable};
use iopj_study::plan::Cell;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// The user's view of a run.
pub(crate) struct View {
    /// On a terminal only.
    bar: Option<ProgressBar>,
    left: Option<(Duration, Instant)>,
    line: String,
    file_begun: bool,
}

impl View {
    pub(crate) fn new() -> View {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            // The template is constant; if it were wrong, the default one would do.
            if let Ok(style) = ProgressStyle::with_template("[{bar:24}] {wide_msg}") {
                bar.set_style(style.progress_chars("=> "));
            }
            bar
        });
        View { bar, left: None, line: String::new(), file_begun: false }
    }

    fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln(text)),
            None => eprintln(text),
        }
    }

    /// Takes the bar off the terminal.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn show(&self) {
        let Some(bar) = &self.bar else { return };
        let left = self.left.map(|(left, at)| left.saturating_sub(at.elapsed()));
        let left = left.map_or(String::new(), |left| format!("about {} left, ", clock(left)));
        bar.set_message(format!("{left}{}", self.line));
    }
}

fn eprintln(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", escape(text));
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
        self.line = format!("{number}/{of} {} {}", cell.path, cell.workload.title());
        self.left = left.map(|left| (left, Instant::now()));
        match &self.bar {
            Some(bar) => {
                bar.set_length(of);
                bar.set_position(number - 1);
                self.show();
            }
            None => {
                let left = left.map_or(String::new(), |left| format!(" (about {} left)", clock(left)));
                self.say(&format!("{}{left}", self.line));
            }
        }
    }

    fn ended(&mut self, outcome: &Outcome) {
        if let Outcome::Failed(error) = outcome {
            self.say(&format!("failed: {}: {error}", self.line));
        }
    }

    fn tick(&mut self) {
        self.show();
    }
}
