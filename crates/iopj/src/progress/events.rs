//! Progress of a run as JSON events, for programs.

use crate::log::{Level, event, message};
use iopj_metering::Progress;
use iopj_record::{Measurement, Outcome, Unavailable};
use iopj_study::plan::Cell;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

/// How often it is said how much of a file is made.
const EVERY: Duration = Duration::from_secs(1);

/// Prints an event for each step of a run.
#[derive(Default)]
pub(super) struct Events {
    /// The trial at hand: its number, how many there are, its path and workload.
    trial: Value,
    /// When the file was last spoken of.
    file: Option<Instant>,
}

impl Progress for Events {
    fn note(&mut self, text: &str) {
        message("note", text);
    }

    fn unavailable(&mut self, paths: &[Unavailable]) {
        event(Level::Warning, "unavailable", json!({ "paths": paths }));
    }

    fn file(&mut self, path: &Path, done: u64, size: u64) {
        if done < size && self.file.is_some_and(|at| at.elapsed() < EVERY) {
            return;
        }
        self.file = Some(Instant::now());
        event(Level::Info, "file", json!({ "file": path, "done_bytes": done, "bytes": size }));
    }

    fn trial(&mut self, number: u64, of: u64, cell: &Cell, left: Option<Duration>) {
        let (path, workload) = (cell.path, cell.workload.title());
        let (generator, settings) = (cell.generator.as_str(), cell.settings_by_name());
        self.trial = json!({ "number": number, "of": of, "path": path, "workload": workload,
            "generator": generator, "settings": settings });
        let left_s = left.map(|left| left.as_secs_f64());
        event(Level::Info, "trial", with(&self.trial, json!({ "left_s": left_s })));
    }

    fn ended(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Measured(measured) => {
                event(Level::Info, "ended", with(&self.trial, measured_fields(measured)));
            }
            Outcome::Failed(error) => {
                let fields = json!({ "outcome": "failed", "error": error });
                event(Level::Error, "ended", with(&self.trial, fields));
            }
        }
    }

    fn tick(&mut self) {}
}

fn measured_fields(measured: &Measurement) -> Value {
    let latency = measured.known_latency();
    json!({
        "outcome": "measured",
        "verdict": measured.verdict.kind,
        "disturbed": measured.conditions.are_disturbed(),
        "iops": measured.iops(),
        "mb_per_s": measured.mb_per_s(),
        "latency_p50_ns": latency.map(|latency| latency.p50),
        "latency_p99_ns": latency.map(|latency| latency.p99),
        "cpu_percent": measured.cpu_percent,
    })
}

/// The fields of both.
fn with(one: &Value, more: Value) -> Value {
    let mut both = one.as_object().cloned().unwrap_or_default();
    if let Value::Object(more) = more {
        both.extend(more);
    }
    Value::Object(both)
}
