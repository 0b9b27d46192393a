//! Winner maps as JSON.

use iopj_analysis::answer::More;
use iopj_analysis::asked::TESTS;
use iopj_analysis::energy::lacks_of;
use iopj_analysis::metric::Metric;
use iopj_analysis::winner::{AxisValue, MapCell, WinnerMap, WinnerQuestion, winner_maps};
use iopj_analysis::without_unsteady::{CellDecision, MapWithoutUnsteady, Redecided, maps_without_unsteady};
use iopj_record::{EnergySource, StudyRecord, Trial};
use serde_json::{Value, json};

/// The maps of a question, with why nobody competes and which joules are lacking.
pub fn winners(study: &StudyRecord, trials: &[Trial], question: &WinnerQuestion) -> Value {
    let maps = winner_maps(trials, question);
    let apart = maps_without_unsteady(study, trials, question, &maps);
    let source = maps.first().and_then(|map| map.source.as_ref());
    let lacks = energy_lacks(trials, question.metric, source);
    let maps: Vec<Value> =
        maps.iter().zip(&apart).map(|(map, apart)| map_json(map, apart.as_ref())).collect();
    let nobody = question.admission.why_none_competes(trials);
    json!({ "maps": maps, "nobody": nobody, "energy_lacks": lacks })
}

/// What the meter of the maps, or else any, has no joules of, and why; empty for metrics that need none.
fn energy_lacks(trials: &[Trial], metric: Metric, source: Option<&EnergySource>) -> Vec<String> {
    let lacks = if metric.is_energy() { lacks_of(trials, source) } else { Vec::new() };
    lacks.iter().map(ToString::to_string).collect()
}

fn map_json(map: &WinnerMap, apart: Option<&MapWithoutUnsteady>) -> Value {
    let WinnerQuestion { metric, x, y, method, looks, tolerance, .. } = map.question;
    let mut workload = json!(map.workload);
    // Its values on the two axes mean nothing.
    if let Some(fields) = workload.as_object_mut() {
        for axis in [x, y] {
            fields.remove(axis.as_str());
        }
    }
    let cell = |((down, across), cell): (&(AxisValue, AxisValue), &MapCell)| {
        let mut of = cell_json(cell);
        of[x.as_str()] = axis_value(*across);
        of[y.as_str()] = axis_value(*down);
        of
    };
    json!({
        "metric": metric.as_str(),
        "x": x.as_str(),
        "y": y.as_str(),
        "test": TESTS.iter().find(|(_, test)| *test == method).map(|(name, _)| name),
        "looks": looks,
        "tolerance": tolerance,
        "workload": workload,
        "settings": map.settings,
        "generator": map.generator.as_str(),
        "energy": map.source,
        "figure": map.figure,
        "cells": map.cells.iter().map(cell).collect::<Vec<Value>>(),
        "without_unsteady": apart.map(|apart| without_unsteady_json(map, apart)),
    })
}

/// The cells that are decided differently without unsteady trials.
fn without_unsteady_json(map: &WinnerMap, apart: &MapWithoutUnsteady) -> Value {
    let WinnerQuestion { x, y, .. } = map.question;
    let decided = |(decision, paths): &CellDecision| {
        let paths: Vec<String> = paths.iter().map(|path| path.to_string()).collect();
        json!({ "decision": decision.as_str(), "paths": paths })
    };
    let cell = |cell: &Redecided| {
        let mut of = json!({ "with": decided(&cell.with), "without": decided(&cell.without) });
        (of[y.as_str()], of[x.as_str()]) = (axis_value(cell.at.0), axis_value(cell.at.1));
        of
    };
    json!({ "trials": apart.trials, "redecided": apart.cells.iter().map(cell).collect::<Vec<Value>>() })
}

/// A value on an axis: bytes and counts are numbers.
fn axis_value(value: AxisValue) -> Value {
    match value {
        AxisValue::Rw(rw) => json!(rw.to_string()),
        AxisValue::Bs(number) | AxisValue::Count(number) => json!(number),
        AxisValue::Rate(rate) => json!(rate),
        AxisValue::Corunner(kind) => json!(kind),
    }
}

fn cell_json(cell: &MapCell) -> Value {
    let ranking = cell.ranking.iter().map(|place| {
        json!({
            "path": place.path.to_string(),
            "replicates": place.summary.n,
            "mean": place.summary.mean,
            "interval": place.summary.interval,
            "p": place.p,
            "ratio": place.contrast.and_then(|contrast| contrast.ratio),
            "marked": place.marked,
        })
    });
    json!({
        "decision": cell.decision().as_str(),
        "paths": cell.best().iter().map(|place| place.path.to_string()).collect::<Vec<String>>(),
        "p": cell.p,
        "p_equal": cell.equal,
        "ratio": cell.lead().and_then(|lead| lead.ratio),
        "least": cell.lead().and_then(|lead| lead.least()),
        "open": cell.open().map(|(place, open)| json!({
            "path": place.path.to_string(),
            "difference": open.difference,
            "more_replicates": if let More::Replicates(count) = open.more { Some(count) } else { None },
        })),
        "ranking": ranking.collect::<Vec<Value>>(),
        "left_out": cell.left_out,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_analysis::stats::summarize;
    use iopj_analysis::winner::{Axis, Decision, RankedPath, rank};

    #[test]
    fn a_cell_says_what_it_decides_and_from_which_figures() {
        let place = |path: &str, values: &[f64], p| RankedPath {
            path: path.parse().unwrap(),
            summary: summarize(values).unwrap(),
            p,
            contrast: None,
            marked: false,
        };
        let first = place("libaio/syscall/interrupt", &[10.0, 12.0], None);
        let second = place("posix-sio/syscall/poll", &[8.0], Some(0.01));
        let cell = MapCell { ranking: vec![first, second], p: Some(0.01), ..MapCell::default() };
        let json = cell_json(&cell);
        assert_eq!((&json["decision"], &json["p"]), (&json!("wins"), &json!(0.01)));
        assert_eq!(json["ranking"][0]["path"], json!("libaio/syscall/interrupt"));
        assert_eq!(
            (&json["ranking"][0]["mean"], &json["ranking"][0]["replicates"]),
            (&json!(11.0), &json!(2))
        );
        assert_eq!(
            (&json["ranking"][1]["interval"], &json["left_out"]["refuted"]),
            (&Value::Null, &json!(0))
        );
        assert_eq!(cell_json(&MapCell::default())["decision"], json!("empty"));
        assert_eq!(axis_value(AxisValue::Bs(4096)), json!(4096), "bytes are a number");
    }

    #[test]
    fn an_undecided_cell_says_which_paths_how_far_and_how_many_replicates() {
        let question = WinnerQuestion::new(Metric::Iops, Axis::Iodepth, Axis::Bs).unwrap();
        let [a, b] = ["libaio/syscall/interrupt", "posix-sio/syscall/poll"];
        let sample = |values: [f64; 5]| (0..).zip(values).collect::<Vec<(u32, f64)>>();
        let samples = [(a, [109.0, 97.0, 106.0, 100.0, 104.2]), (b, [97.6, 103.6, 95.2, 101.8, 101.8])];
        let samples = samples.map(|(path, values)| (path.parse().unwrap(), sample(values)));
        let json = cell_json(&rank(samples.into(), &question, 1));
        assert_eq!((&json["decision"], &json["paths"]), (&json!("undecided"), &json!([a, b])));
        assert_eq!((&json["open"]["path"], &json["open"]["more_replicates"]), (&json!(b), &json!(44)));
        let low = json["open"]["difference"][0].as_f64().unwrap();
        assert!((low + 0.06259).abs() < 1e-5 && json["p_equal"].as_f64() > Some(0.05), "{json}");
        let single = [(a, 1.0), (b, 2.0)].map(|(path, value)| (path.parse().unwrap(), vec![(0, value)]));
        let json = cell_json(&rank(single.into(), &question, 1));
        let open = json!({ "path": a, "difference": null, "more_replicates": null });
        assert_eq!((&json["open"], &json["p"]), (&open, &Value::Null));
    }

    #[test]
    fn cells_that_are_decided_differently_without_unsteady_trials_are_listed() {
        let question = WinnerQuestion::new("iops".parse().unwrap(), Axis::Iodepth, Axis::Bs).unwrap();
        let map = WinnerMap {
            question,
            workload: iopj_core::Workload::default(),
            settings: Default::default(),
            generator: iopj_record::Generator::Native,
            source: None,
            figure: None,
            cells: Default::default(),
        };
        assert_eq!(map_json(&map, None)["without_unsteady"], Value::Null);
        let at = (AxisValue::Bs(4096), AxisValue::Count(8));
        let [libaio, poll] =
            ["libaio/syscall/interrupt", "posix-sio/syscall/poll"].map(|path| path.parse().unwrap());
        let (with, without) = ((Decision::Wins, vec![libaio]), (Decision::Equal, vec![libaio, poll]));
        let cell = Redecided { at, with, without };
        let json = map_json(&map, Some(&MapWithoutUnsteady { trials: 3, cells: vec![cell] }));
        let expected = json!({ "trials": 3, "redecided": [{
            "bs": 4096, "iodepth": 8,
            "with": { "decision": "wins", "paths": ["libaio/syscall/interrupt"] },
            "without": {
                "decision": "equal", "paths": ["libaio/syscall/interrupt", "posix-sio/syscall/poll"],
            },
        }] });
        assert_eq!(json["without_unsteady"], expected);
    }
}
