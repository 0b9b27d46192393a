//! `iopj watch`: a program that does its own I/O, seen from outside.

use crate::args::{ReportArgs, WatchArgs};
use crate::log::{self, Level};
use crate::metrics::Publisher;
use crate::output::{INTERRUPTED, note, print, print_json, write, write_figures};
use crate::signals;
use anyhow::bail;
use iopj_analysis::watch::WatchFigures;
use iopj_core::watch::{WatchEvidence, WatchSubject};
use iopj_load::descriptors;
use iopj_record::watch::{WatchEnd, WatchInterval, WatchRecord};
use iopj_report::{Label, escape_json, html, watch as render};
use iopj_watch::{WatchOptions, WatchStop, WatchTarget, WatchView, watch as live};
use serde_json::json;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The shortest interval: each costs a look at every process and file of the program.
const SHORTEST: Duration = Duration::from_millis(100);

static NEVER: AtomicBool = AtomicBool::new(false);

pub(crate) fn watch(args: &WatchArgs) -> anyhow::Result<ExitCode> {
    if args.interval < SHORTEST {
        bail!("an interval of {} s is too short: name one of 0.1 s or more", args.interval.as_secs_f64());
    }
    if args.length.is_some_and(|length| length.is_zero()) {
        bail!("a watch of no time sees nothing: name a time by --for, such as 10s");
    }
    let target = target(args);
    let starts = matches!(target, WatchTarget::Command(_));
    let options =
        WatchOptions { target, length: args.length, interval: args.interval, store: args.store.clone() };
    if !starts {
        // A program that is started inherits the limit, and keeps the user's.
        descriptors::raise_limit();
    }
    let publisher = Publisher::new(&args.publish, &[], &label(String::new()))?;
    let mut view = View::new(args.json, starts, publisher);
    let now = signals::stop_flag();
    let interrupted = if starts { signals::leave_interrupts() } else { &NEVER };
    let watched = live(&options, &mut view, WatchStop { now, interrupted });
    view.withdraw();
    let record = watched?;
    view.finish(&record)?;
    Ok(exit_code(record.end, starts))
}

fn target(args: &WatchArgs) -> WatchTarget {
    match (args.pid, &args.cgroup, &args.device) {
        (Some(pid), _, _) => WatchTarget::Process(pid),
        (_, Some(path), _) => WatchTarget::Cgroup(path.clone()),
        (_, _, Some(path)) => WatchTarget::Device(path.clone()),
        _ => WatchTarget::Command(args.command.clone()),
    }
}

/// What tells the metrics of watches apart.
fn label(subject: String) -> Label {
    ("subject", subject)
}

/// The program's exit code, as a shell would have it.
fn exit_code(end: WatchEnd, starts: bool) -> ExitCode {
    match end {
        WatchEnd::Exited(code) => ExitCode::from(code as u8),
        WatchEnd::Signalled(signal) => ExitCode::from(128 + signal as u8),
        WatchEnd::Stopped if starts => ExitCode::from(INTERRUPTED),
        WatchEnd::Stopped | WatchEnd::Gone => ExitCode::SUCCESS,
    }
}

/// `iopj report` of a store that `iopj watch` has written.
pub(crate) fn report(args: &ReportArgs, record: &WatchRecord) -> anyhow::Result<ExitCode> {
    let store = args.store.display();
    if let Some(option) = args.asking.given() {
        bail!("`{store}` holds what `iopj watch` saw, which answers no question: leave {option} out");
    }
    if args.json {
        print_json(&whole(record)?)?;
    } else if let Some(path) = &args.html {
        write(path, html::watch_page(record).as_bytes())?;
    } else if let Some(folder) = &args.figures {
        let figures = html::watch_figures(record);
        if figures.is_empty() {
            bail!(
                "`{store}` holds no interval with I/O or CPU time, so there is no figure: watch for longer"
            );
        }
        write_figures(folder, &figures)?;
    } else if args.is_text() {
        print(&render::summary(record))?;
    } else {
        bail!(
            "`{store}` holds what `iopj watch` saw, of which there are text, JSON, a page and figures: leave \
             the other options out, or use --json, --html FILE or --figures DIR"
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn whole(record: &WatchRecord) -> anyhow::Result<serde_json::Value> {
    let figures = WatchFigures::of(&record.evidence, &record.paths);
    Ok(json!({ "whole": record, "figures": figures }))
}

/// What the user sees meanwhile.
struct View {
    json: bool,
    /// A program is started, whose standard output is its own.
    beside: bool,
    /// Redrawn in place.
    is_live: bool,
    /// Lines of the view that stand on the terminal.
    drawn: usize,
    publisher: Option<Publisher>,
    /// It has been said that the file of metrics cannot be written.
    has_warned: bool,
}

impl View {
    fn new(json: bool, beside: bool, publisher: Option<Publisher>) -> View {
        // Lines of a program that shares the terminal would be drawn over.
        let shares = beside && std::io::stdout().is_terminal();
        let is_live = !json && !log::is_json() && !shares && std::io::stderr().is_terminal();
        View { json, beside, is_live, drawn: 0, publisher, has_warned: false }
    }

    fn put_json(&self, value: &serde_json::Value) -> anyhow::Result<()> {
        match self.beside {
            true => {
                let _ = writeln!(std::io::stderr(), "{}", escape_json(&value.to_string()));
                Ok(())
            }
            false => print(&format!("{value}\n")),
        }
    }

    /// Takes the view off the terminal.
    fn clear(&mut self) {
        if self.drawn > 0 {
            let _ = write!(std::io::stderr(), "\x1b[{}A\x1b[J", self.drawn);
            self.drawn = 0;
        }
    }

    fn draw(&mut self, lines: &[String]) {
        self.clear();
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let _ = std::io::stderr().write_all(text.as_bytes());
        self.drawn = lines.len();
    }

    /// Ends what is published: nobody is to take the last figures for those of now.
    fn withdraw(&mut self) {
        self.publisher.take().into_iter().for_each(Publisher::withdraw);
    }

    fn finish(&mut self, record: &WatchRecord) -> anyhow::Result<()> {
        self.clear();
        if self.json {
            return self.put_json(&whole(record)?);
        }
        if log::is_json() {
            let figures = WatchFigures::of(&record.evidence, &record.paths);
            log::event(Level::Info, "done", json!({ "end": record.end, "figures": figures }));
            return Ok(());
        }
        let _ = std::io::stderr().write_all(render::summary(record).as_bytes());
        Ok(())
    }
}

impl WatchView for View {
    fn begin(&mut self, _: &WatchSubject) {
        if let Some(says) = self.publisher.as_ref().and_then(Publisher::says) {
            self.note(&says);
        }
    }

    fn interval(&mut self, subject: &WatchSubject, interval: &WatchInterval, whole: &WatchEvidence) {
        if let Some(publisher) = &self.publisher
            && let Err(error) = publisher.set(render::metrics(whole, interval), &label(subject.to_string()))
            && !std::mem::replace(&mut self.has_warned, true)
        {
            self.note(&format!("warning: {error}"));
        }
        if self.json {
            let figures = WatchFigures::of(&interval.evidence, &interval.paths);
            // A reader that has seen enough is no error.
            let _ = self.put_json(&json!({ "interval": interval, "figures": figures }));
        } else if log::is_json() {
            let figures = WatchFigures::of(&interval.evidence, &interval.paths);
            log::event(Level::Info, "interval", json!({ "end_ns": interval.end_ns, "figures": figures }));
        } else if self.is_live {
            self.draw(&render::live(subject, interval, columns()));
        } else {
            let _ = writeln!(std::io::stderr(), "{}", render::line(interval));
        }
    }

    fn note(&mut self, text: &str) {
        if self.json && self.beside && !log::is_json() {
            let _ = self.put_json(&json!({ "note": text }));
            return;
        }
        self.clear();
        note(text);
    }
}

/// The columns of the terminal.
fn columns() -> usize {
    rustix::termios::tcgetwinsize(std::io::stderr()).map_or(80, |size| size.ws_col.max(20).into())
}
