//! Answers as JSON, as `--json` prints them and the Python package gives them.

mod advise;
mod winners;

pub use advise::advice;
pub use winners::winners;

use iopj_analysis::compare::{Comparison, Gate};
use iopj_papers::claims::Claim;
use serde_json::{Value, json};

/// All claims.
///
/// # Errors
/// A number that JSON does not have.
pub fn claims(claims: &[Claim]) -> serde_json::Result<Value> {
    let claims = claims.iter().map(claim).collect::<Result<Vec<Value>, _>>()?;
    Ok(json!({ "claims": claims }))
}

/// A claim, with the number of its parts that are decided if the claim itself is open.
fn claim(claim: &Claim) -> serde_json::Result<Value> {
    let mut value = serde_json::to_value(claim)?;
    value["decided_in_part"] = json!(claim.decided_in_part());
    Ok(value)
}

/// A comparison, with a gate of so many per cent if one was asked for.
///
/// # Errors
/// A number that JSON does not have.
pub fn comparison(comparison: &Comparison, gated: Option<(f64, &Gate<'_>)>) -> serde_json::Result<Value> {
    let mut value = serde_json::to_value(comparison)?;
    value["gate"] = json!(gated.map(|(percent, gate)| gate_json(gate, percent)));
    Ok(value)
}

fn gate_json(gate: &Gate<'_>, percent: f64) -> Value {
    json!({
        "percent": percent,
        "worse": gate.worse.len(),
        "cells": gate.cells,
        "not_compared": gate.not_compared,
        "blind": gate.blind,
        "least": gate.least,
    })
}
