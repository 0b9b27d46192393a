//! The counts and values that a page must show, from `iopj export --json` of the same store.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The trials of a store, as the program exports them.
pub(crate) struct Records(Vec<Value>);

/// Values by path and iodepth.
pub(crate) type Cells = BTreeMap<(String, u64), Vec<f64>>;

impl Records {
    pub(crate) fn of(folder: &Path, store: &str) -> Records {
        let mut command = Command::new(env!("CARGO_BIN_EXE_iopj"));
        let output = command.current_dir(folder).args(["export", "--json", store]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut json: Value = serde_json::from_slice(&output.stdout).unwrap();
        let Value::Array(trials) = json["trials"].take() else { panic!("no trials") };
        Records(trials)
    }

    /// The number of trials with this end, by path.
    pub(crate) fn counts(&self, end: &str) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for trial in &self.0 {
            let own = if trial["status"] == "measured" { &trial["verdict"] } else { &trial["status"] };
            *counts.entry(trial["path"].as_str().unwrap()).or_default() += usize::from(own == end);
        }
        counts
    }

    /// The trials that were measured and not refuted.
    pub(crate) fn usable(&self) -> impl Iterator<Item = &Value> {
        self.0.iter().filter(|trial| trial["status"] == "measured" && trial["verdict"] != "refuted")
    }

    /// The values of a field, such as `/iops`, of the usable trials.
    pub(crate) fn cells(&self, field: &str) -> Cells {
        self.cells_of(|trial| trial.pointer(field)?.as_f64())
    }

    /// A number of each usable trial.
    pub(crate) fn cells_of(&self, of: impl Fn(&Value) -> Option<f64>) -> Cells {
        let mut cells = Cells::new();
        for trial in self.usable() {
            let key =
                (trial["path"].as_str().unwrap().to_owned(), trial["workload"]["iodepth"].as_u64().unwrap());
            if let Some(value) = of(trial) {
                cells.entry(key).or_default().push(value);
            }
        }
        cells
    }
}

/// Cells with two replicates or more, which have an error bar.
pub(crate) fn with_interval(cells: &Cells) -> usize {
    cells.values().filter(|values| values.len() > 1).count()
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Half of the 95 % interval of a mean, of two or three values.
pub(crate) fn half(values: &[f64]) -> f64 {
    let n = values.len();
    // Student's t at 0.975 for one and two degrees of freedom.
    let t = [12.706_204_736_432_1, 4.302_652_729_696_1][n - 2];
    let squares: f64 = values.iter().map(|value| (value - mean(values)).powi(2)).sum();
    t * (squares / (n - 1) as f64 / n as f64).sqrt()
}

/// The number in a table's cell, as precise as tables are.
#[track_caller]
pub(crate) fn is_near(cell: &Value, expected: f64, what: &str) {
    let seen: f64 =
        cell.as_str().unwrap().parse().unwrap_or_else(|_| panic!("{what}: {cell} is not a number"));
    assert!((seen - expected).abs() <= 1e-5 * expected.abs() + 1e-9, "{what}: {seen}, not {expected}");
}

/// The rows of a figure's table without its heading.
pub(crate) fn rows(figure: &Value) -> &[Value] {
    &figure["table"].as_array().unwrap()[1..]
}

/// The number at the end of a mark's tip, and the mark.
pub(crate) fn tips(figure: &Value) -> Vec<(f64, &Value)> {
    let tip =
        |mark: &Value| mark["tip"].as_str().unwrap().rsplit(": ").next().unwrap().replace(',', "").parse();
    figure["tips"].as_array().unwrap().iter().map(|mark| (tip(mark).unwrap(), mark)).collect()
}

/// The verdicts' figure has a part for each kind among a path's trials.
#[track_caller]
pub(crate) fn verdicts_are_drawn(figure: &Value, records: &Records) {
    let counts = ["verified", "unproven", "refuted", "failed"].map(|end| records.counts(end));
    let parts = counts.iter().flat_map(BTreeMap::values).filter(|count| **count > 0).count();
    assert_eq!(figure["marks"], parts);
    assert_eq!(rows(figure).len(), counts[0].len());
    for row in rows(figure) {
        let path = row[0].as_str().unwrap().split(' ').next().unwrap();
        for (place, counts) in counts.iter().enumerate() {
            assert_eq!(row[place + 1], counts[path].to_string(), "{path}");
        }
    }
}
