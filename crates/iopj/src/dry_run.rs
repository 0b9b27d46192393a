//! `iopj run --dry-run`: the plan of a run, as text or as JSON.

use crate::output::{print, print_json};
use iopj_core::format_bytes;
use iopj_engine::target::TakePlan;
use iopj_host::settings::Change;
use iopj_report::{WIDTH, escape, unavailable, wrap};
use iopj_run::blocks::clock;
use iopj_run::{PlannedBytes, RunPlan, RunTime};
use iopj_study::plan::Cell;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::ExitCode;

/// Where what follows a name begins.
const INDENT: &str = "          ";

pub(crate) fn show(plan: &RunPlan, is_json: bool) -> anyhow::Result<ExitCode> {
    if is_json {
        print_json(&as_json(plan))?;
    } else {
        print(&as_text(plan))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The trials of the fewest and of the most blocks.
fn trials(plan: &RunPlan) -> [u64; 2] {
    plan.replicates.map(|blocks| u64::from(blocks) * plan.cells.len() as u64)
}

fn paths(plan: &RunPlan) -> BTreeSet<String> {
    plan.cells.iter().map(|cell| cell.path.to_string()).collect()
}

fn as_text(plan: &RunPlan) -> String {
    let mut text = format!("study {}: what a run would do; nothing was changed\n\n", escape(&plan.study));
    let mut line = |name: &str, what: String| {
        let lines = wrap(&escape(&what), WIDTH, INDENT);
        text += &lines.replacen(INDENT, &format!("{name:<10}"), 1);
    };
    line("store", plan.store.display().to_string());
    line("target", target(plan));
    line("paths", paths(plan).into_iter().collect::<Vec<_>>().join(", "));
    line("cells", cells(plan));
    line("trials", trials_text(plan));
    line("time", times(plan.times));
    bytes(&plan.bytes).into_iter().for_each(|what| line("bytes", what));
    line("meters", if plan.meters.is_empty() { "none".to_owned() } else { plan.meters.join(", ") });
    changes(plan).into_iter().for_each(|what| line("changes", what));
    plan.fabric.iter().for_each(|what| line("fabric", what.clone()));
    if !plan.unavailable.is_empty() {
        text += &format!("\npaths left out:\n{}", unavailable(&plan.unavailable));
    }
    text
}

fn target(plan: &RunPlan) -> String {
    let path = plan.target.display();
    match (&plan.overwritten, plan.bytes.made) {
        _ if plan.target.as_os_str().is_empty() => "the program's own".to_owned(),
        (Some(_), _) => format!("{path}, which will be overwritten"),
        (None, 0) => path.to_string(),
        (None, made) => format!("{path}, a file of {} that is made and then removed", format_bytes(made)),
    }
}

fn cells(plan: &RunPlan) -> String {
    let left_out = plan.left_out.reasons().into_iter();
    let left_out = left_out.map(|(count, why)| format!("; {count} combinations are left out: {why}"));
    plan.cells.len().to_string() + &left_out.collect::<String>()
}

fn trials_text(plan: &RunPlan) -> String {
    let ([least, most], [fewest, greatest]) = (trials(plan), plan.replicates);
    match least == most {
        true if fewest == 1 => format!("{least}: one for every cell"),
        true => format!("{least}: {fewest} replicates of every cell"),
        false => format!("{least} to {most}: {fewest} to {greatest} replicates, until decisions are made"),
    }
}

/// The time of the fewest blocks by its parts, and that of the most.
fn times([least, most]: [RunTime; 2]) -> String {
    let parts = [
        ("windows", least.windows),
        ("ramps", least.ramps),
        ("set-up", least.set_up),
        ("idle stretches", least.idle),
        ("load patterns", least.patterns),
    ];
    let parts = parts.iter().filter(|(_, time)| !time.is_zero());
    let parts: Vec<String> = parts.map(|(name, time)| format!("{name} {}", clock(*time))).collect();
    let most = if least == most { String::new() } else { format!(" to {}", clock(most.all())) };
    format!("about {}{most} ({})", clock(least.all()), parts.join(", "))
}

fn bytes(bytes: &PlannedBytes) -> Vec<String> {
    let mut lines = Vec::new();
    if bytes.made > 0 {
        lines.push(format!("{} written to make the file", format_bytes(bytes.made)));
    }
    for (verb, known, unknown) in
        [("read", bytes.read, bytes.unknown[0]), ("written", bytes.written, bytes.unknown[1])]
    {
        if known > 0 {
            lines.push(format!("{} {verb} by trials that end after a number of I/Os", format_bytes(known)));
        }
        if unknown > 0 {
            lines.push(format!(
                "{verb} by {unknown} trials that end after a time: as much as the drive can do"
            ));
        }
    }
    lines.extend(bytes.preconditioning.clone());
    lines
}

fn changes(plan: &RunPlan) -> Vec<String> {
    let change = |Change { file, old, new }: &Change| format!("{file}: {old} -> {new}, put back at the end");
    let mut lines: Vec<String> = plan.changes.iter().map(change).collect();
    lines.extend(plan.unchangeable.iter().map(|why| format!("a setting cannot be changed: {why}")));
    lines.extend(plan.taken.as_ref().map(|TakePlan { address, driver, .. }| {
        let driver = driver.as_deref().unwrap_or("no driver");
        format!(
            "{address} is taken from {driver} and given back; paths of kernel bypass are tried only after it \
             is taken"
        )
    }));
    if lines.is_empty() {
        lines.push("none".to_owned());
    }
    lines
}

fn as_json(plan: &RunPlan) -> Value {
    let cell = |cell: &Cell| {
        json!({
            "path": cell.path,
            "workload": cell.workload,
            "settings": cell.settings_by_name(),
            "generator": cell.generator,
        })
    };
    let time = |time: &RunTime| {
        json!({
            "windows": time.windows.as_secs_f64(),
            "ramps": time.ramps.as_secs_f64(),
            "set_up": time.set_up.as_secs_f64(),
            "idle": time.idle.as_secs_f64(),
            "patterns": time.patterns.as_secs_f64(),
            "all": time.all().as_secs_f64(),
        })
    };
    let taken = |TakePlan { address, driver, namespaces, .. }: &TakePlan| {
        let address = address.to_string();
        json!({ "address": address, "driver": driver, "namespaces": namespaces })
    };
    let change = |Change { file, old, new }: &Change| json!({ "file": file, "old": old, "new": new });
    let ([least, most], bytes) = (trials(plan), &plan.bytes);
    json!({
        "study": plan.study,
        "store": plan.store,
        "target": plan.target,
        "overwritten": plan.overwritten,
        "overwritten_here": plan.overwritten_here,
        "taken": plan.taken.as_ref().map(taken),
        "cells": plan.cells.iter().map(cell).collect::<Vec<_>>(),
        "cells_left_out": plan.left_out.total(),
        "unavailable": plan.unavailable,
        "replicates": { "least": plan.replicates[0], "most": plan.replicates[1] },
        "trials": { "least": least, "most": most },
        "seconds": { "least": time(&plan.times[0]), "most": time(&plan.times[1]) },
        "bytes": {
            "made": bytes.made,
            "read": bytes.read,
            "written": bytes.written,
            "trials_of_unknown_reads": bytes.unknown[0],
            "trials_of_unknown_writes": bytes.unknown[1],
            "preconditioning": bytes.preconditioning,
        },
        "meters": plan.meters,
        "changes": plan.changes.iter().map(change).collect::<Vec<_>>(),
        "unchangeable": plan.unchangeable,
        "fabric": plan.fabric,
    })
}
