//! `iopj policy`: the file that says which way an adaptive engine takes when: derived, shown, checked here;
//! and what those that followed one brought.

pub(crate) mod derive;
mod score;
mod simulate;

use crate::args::{DeriveArgs, PolicyCommand, Taking};
use crate::calibrate::calibrated;
use crate::check::with_bypass;
use crate::output::{FAILURES, note, print, print_json, write_new};
use anyhow::{Context, anyhow};
use iopj_analysis::asked::positive_time;
use iopj_auto::{Aim, Cell, Figures, Policy, Provenance, Way, available};
use iopj_engine::Target;
use iopj_engine::check::{Availability, check as check_path};
use iopj_report::{Table, WIDTH, escape, wrap};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn policy(command: &PolicyCommand) -> anyhow::Result<ExitCode> {
    match command {
        PolicyCommand::Derive(args) => derived(args),
        PolicyCommand::Score(args) => score::score(args),
        PolicyCommand::Show { file, json } => show(&read(file)?, *json),
        PolicyCommand::Check { file, target, taking, json } => {
            check(&read(file)?, target.as_deref(), taking, *json)
        }
        PolicyCommand::Simulate(args) => simulate::simulate(args),
    }
}

fn read(file: &Path) -> anyhow::Result<Policy> {
    let text = iopj_auto::policy_text(file)
        .with_context(|| format!("{} cannot be read: name a policy file", file.display()))?;
    text.parse().map_err(|error| anyhow!("{}: {error}", file.display()))
}

fn derived(args: &DeriveArgs) -> anyhow::Result<ExitCode> {
    let aim: Aim = args.objective.parse().map_err(|error| anyhow!("--objective: {error}"))?;
    let bound = args.p99.as_deref().map(|text| positive_time("p99", text)).transpose()?;
    // A policy's bound has 64 bits of ns, which are 584 years.
    let bound = bound.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    let (model, _) = calibrated(&args.source, &args.competing)?;
    let policy =
        derive::derive(&model, aim, bound).map_err(|why| anyhow!("{}: {why}", args.source.display()))?;
    let text = format!("{HEAD}{policy}");
    match &args.output {
        None => print(&text)?,
        Some(file) => {
            write_new("--output", file, &text)?;
            note(&format!("{} is written", file.display()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What a reader of the file should know.
pub(crate) const HEAD: &str = "\
# Which way an adaptive engine takes: of each operation, size and number of requests in flight, the first of
# `ways` that the target has. Figures are what a cost model predicts of one job (`iopj predict`).

";

fn show(policy: &Policy, as_json: bool) -> anyhow::Result<ExitCode> {
    if as_json {
        print_json(&json!(policy))?;
    } else {
        print(&(head(policy) + &table(policy, &|cell| cell.ways.first())))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Aim, bound and provenance.
fn head(policy: &Policy) -> String {
    let bound =
        policy.bound_p99_ns.map_or(String::new(), |ns| format!(", with a p99 within {}", us(ns as f64)));
    let from = policy.provenance.as_ref().map_or(String::new(), |from| {
        let known = [&from.store, &from.cpu_model, &from.kernel, &from.drive];
        let known: Vec<&str> = known.into_iter().filter_map(Option::as_deref).collect();
        wrap(&format!("from {}", escape(&known.join(", "))), WIDTH, "")
    });
    format!("chosen for {}{bound}\n{from}", policy.aim)
}

/// What is taken in each cell, and its figures.
fn table<'a>(policy: &'a Policy, taken: &dyn Fn(&'a Cell) -> Option<&'a Figures>) -> String {
    let rows: Vec<(&Cell, Option<&Figures>)> = policy.cells.iter().map(|cell| (cell, taken(cell))).collect();
    let figure = |of: fn(&Figures) -> Option<f64>, factor: f64| {
        move |(_, figures): &(&Cell, Option<&Figures>)| {
            figures.and_then(of).map_or("-".to_owned(), |value| format!("{:.2}", value * factor))
        }
    };
    let mut table = Table::of(&rows)
        .left("request", |(cell, _)| cell.kind().to_string())
        .right("in flight", |(cell, _)| format!("{} or more", cell.in_flight))
        .left("way", |(_, figures)| figures.map_or("-".to_owned(), |one| one.way.to_string()))
        .right("mean us", figure(|one| one.mean_ns, 1e-3))
        .right("p99 us", figure(|one| one.p99_ns, 1e-3))
        .right("CPU us/IO", figure(|one| one.cpu_ns, 1e-3));
    if policy.knows_joules() {
        table = table.right("uJ/IO", figure(|one| one.joules, 1e6));
    }
    table.text()
}

fn us(ns: f64) -> String {
    format!("{:.1} us", ns / 1e3)
}

/// Whether a policy fits here, and what it would do: without a target its provenance alone is compared.
fn check(policy: &Policy, target: Option<&Path>, taking: &Taking, as_json: bool) -> anyhow::Result<ExitCode> {
    let Some(path) = target else {
        if taking.take_device.is_some() {
            return Err(anyhow!("--take-device needs the device's namespace as --target"));
        }
        if as_json {
            print_json(&json!({ "differences": Value::Null, "ways": Value::Null, "cells": policy.cells }))?;
        } else {
            print(&(head(policy) + "name a --target to see what it would do there\n"))?;
        }
        return Ok(ExitCode::SUCCESS);
    };
    let (here, states) = tried(policy, path, taking)?;
    let differences = policy.provenance.as_ref().map_or_else(Vec::new, |from| from.differences(&here));
    let works: BTreeSet<Way> =
        states.iter().filter(|(_, state)| state.is_available()).map(|(way, _)| *way).collect();
    let missing: Vec<&(Way, Availability)> =
        states.iter().filter(|(way, state)| !state.is_available() && names(policy, *way)).collect();
    if as_json {
        print_json(&checked_json(policy, &differences, &missing, &works))?;
    } else {
        let taken = |cell: &'_ Cell| cell.ways.iter().position(|one| works.contains(&one.way));
        let mut text = head(policy) + &table(policy, &|cell| cell.ways.get(taken(cell)?));
        for difference in &differences {
            text += &wrap(&escape(difference), WIDTH, "  ");
        }
        for (way, state) in &missing {
            if let Availability::Unavailable { reason, remedy } = state {
                text += &wrap(&format!("{way} is missing: {reason} (remedy: {remedy})"), WIDTH, "  ");
            }
        }
        text += &verdict(&differences);
        print(&text)?;
    }
    Ok(if differences.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FAILURES) })
}

fn names(policy: &Policy, way: Way) -> bool {
    policy.cells.iter().flat_map(|cell| &cell.ways).any(|one| one.way == way)
}

/// What the target is, and which ways it has; with those of the policy that it cannot have, because its drive
/// is taken, or is not.
fn tried(
    policy: &Policy,
    path: &Path,
    taking: &Taking,
) -> anyhow::Result<(Provenance, Vec<(Way, Availability)>)> {
    let mut states = Vec::new();
    if taking.take_device.is_some() {
        // Before the target is opened here: a drive that is open would not get its name back.
        let paths = with_bypass(path, taking)?;
        let state = |way: &Way| paths.iter().find(|(path, _)| *path == way.path()).map(|(_, state)| state);
        states = Way::ALL
            .into_iter()
            .filter(|way| way.is_bypass())
            .filter_map(|way| Some((way, state(&way)?.clone())))
            .collect();
    }
    let target = Target::open(path)?;
    if taking.take_device.is_none() {
        states = available(&target);
    }
    for way in Way::ALL {
        if names(policy, way) && states.iter().all(|(other, _)| *other != way) {
            states.push((way, of_the_other_side(way, &target)));
        }
    }
    Ok((Provenance::here(&target), states))
}

/// The state of a way that the target cannot have.
fn of_the_other_side(way: Way, target: &Target) -> Availability {
    if way.is_bypass() {
        return check_path(way.path(), target);
    }
    Availability::Unavailable {
        reason: "the drive is taken from the kernel's driver".to_owned(),
        remedy: "leave --take-device out".to_owned(),
    }
}

fn verdict(differences: &[String]) -> String {
    match differences.len() {
        0 => "it may be followed here\n".to_owned(),
        _ => "it is refused here: derive one from a store of this machine, or follow it by `iopj run \
              --anyway`\n"
            .to_owned(),
    }
}

fn checked_json(
    policy: &Policy,
    differences: &[String],
    missing: &[&(Way, Availability)],
    works: &BTreeSet<Way>,
) -> Value {
    let cell = |cell: &Cell| {
        let taken = cell.ways.iter().find(|one| works.contains(&one.way));
        json!({ "op": cell.op, "size": cell.size, "in_flight": cell.in_flight, "takes": taken })
    };
    let lack = |(way, state): &&(Way, Availability)| match state {
        Availability::Unavailable { reason, remedy } => {
            json!({ "way": way, "reason": reason, "remedy": remedy })
        }
        Availability::Available { .. } => json!({ "way": way }),
    };
    json!({
        "aim": policy.aim,
        "differences": differences,
        "missing": missing.iter().map(lack).collect::<Vec<Value>>(),
        "cells": policy.cells.iter().map(cell).collect::<Vec<Value>>(),
    })
}
