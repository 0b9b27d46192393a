//! Predictions and their scores as JSON.

use super::{Group, Lead, Scores};
use crate::case::Case;
use crate::kernel::Kernel;
use crate::model::Model;
use crate::predict::{Basis, Prediction};
use crate::score::{Score, Scored, by_quantity, score};
use crate::sensitivity::Turn;
use serde_json::{Value, json};

/// The model, and the predictions of each workload.
pub fn groups(model: &Model, groups: &[Group]) -> Value {
    let parameters = model.parameters().map(|(parameter, value, spread)| {
        json!({ "name": parameter.to_string(), "value": value, "unit": parameter.unit(), "spread": spread })
    });
    let mut all = json!({
        "model": {
            "provenance": model.provenance,
            "cells": model.cases.len(),
            "data": model.data,
            "decided": model.decided(),
            "parameters": parameters.collect::<Vec<Value>>(),
        },
        "groups": groups.iter().map(group).collect::<Vec<Value>>(),
    });
    if let Some(kernel) = model.kernel() {
        all["model"]["kernel"] = of_kernel(kernel);
    }
    all
}

fn of_kernel(kernel: &Kernel) -> Value {
    let changes = kernel.changes.iter().map(|(path, change)| {
        json!({
            "path": path,
            "ratio": change.ratio,
            "kernel_ratio": change.kernel_ratio,
            "spread": change.spread,
            "kernel_spread": change.kernel_spread,
        })
    });
    json!({ "name": kernel.name, "changes": changes.collect::<Vec<Value>>() })
}

fn group(group: &Group) -> Value {
    let row = |row: &Vec<Prediction>| {
        let quantities: Vec<Value> = row.iter().map(quantity).collect();
        let beyond: &[String] = match &row[0].basis {
            Basis::Interpolated => &[],
            Basis::Extrapolated(beyond) => beyond,
        };
        json!({ "case": row[0].case, "extrapolated": beyond, "quantities": quantities })
    };
    let behind = |(case, share): &(Case, f64)| json!({ "case": case, "draws": share });
    let without = |(case, why): &(Case, String)| json!({ "case": case, "why": why });
    json!({
        "rows": group.rows.iter().map(row).collect::<Vec<Value>>(),
        "leads": group.leads.iter().map(lead).collect::<Vec<Value>>(),
        "behind": group.behind.iter().map(behind).collect::<Vec<Value>>(),
        "without": group.without.iter().map(without).collect::<Vec<Value>>(),
    })
}

fn quantity(one: &Prediction) -> Value {
    json!({ "quantity": one.quantity.to_string(), "value": one.value, "interval": one.interval })
}

fn lead(lead: &Lead) -> Value {
    json!({
        "quantity": lead.quantity.to_string(),
        "path": lead.pair[0].path,
        "next": lead.pair[1].path,
        "probability": lead.probability,
        "turns": lead.turns.iter().flatten().map(turn).collect::<Vec<Value>>(),
    })
}

fn turn(turn: &Turn) -> Value {
    json!({ "parameter": turn.parameter.to_string(), "now": turn.now, "at": turn.at })
}

/// Errors and coverage by quantity, and every prediction beside its measurement.
pub fn scores(scores: &Scores) -> Value {
    let by_quantity: serde_json::Map<String, Value> =
        by_quantity(&scores.scored).iter().map(|(quantity, one)| (quantity.to_string(), of(one))).collect();
    json!({
        "held_back": scores.held_back,
        "lacking": scores.lacking,
        "all": score(scores.scored.iter()).as_ref().map(of),
        "quantities": by_quantity,
        "predictions": scores.scored.iter().map(scored).collect::<Vec<Value>>(),
    })
}

fn of(score: &Score) -> Value {
    json!({
        "n": score.n,
        "median_error": score.median,
        "p90_error": score.p90,
        "covered": score.covered,
        "coverage_interval": score.coverage,
        "mean_width": score.width,
    })
}

/// A prediction beside its measurement.
pub fn scored(one: &Scored) -> Value {
    json!({
        "case": one.observation.case,
        "quantity": one.observation.quantity.to_string(),
        "measured": one.observation.value,
        "predicted": one.prediction.value,
        "interval": one.prediction.interval,
        "covered": one.is_covered(),
    })
}
