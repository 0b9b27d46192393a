//! What differs between paths, in sentences.

use super::{letters, name, number, signed};
use crate::text::{WIDTH, escape, letter, wrap};
use iopj_analysis::explain::{CostChange, PathDifference, WorkloadCosts};

/// Smaller changes of events per I/O are not mentioned.
const EVENT: f64 = 0.05;
/// The number of parts that a sentence names.
const NAMED: usize = 8;

/// A paragraph for each path that is compared with another.
pub(super) fn differences(block: &WorkloadCosts) -> String {
    if block.differences.is_empty() {
        return String::new();
    }
    let sentence = |difference| wrap(&escape(&sentence(block, difference)), WIDTH, "  ");
    let mut text = String::from("\nwhat differs, per I/O\n");
    text.extend(block.differences.iter().map(sentence));
    if block.differences.iter().any(|difference| difference.kernel.p_holm.is_none()) {
        text +=
            "  one replicate shows no noise: run with `--replicates 5` or more to see what is beyond it\n";
    } else {
        text += "  only what is beyond noise is named: Welch's test at 5 %, after Holm's correction over the \
                 parts of a path\n";
    }
    text
}

fn sentence(block: &WorkloadCosts, difference: &PathDifference) -> String {
    let PathDifference { path, from, measure, kernel, .. } = difference;
    let of = |at: usize| format!("{} ({})", name(&block.columns[at]), letter(at));
    let named: Vec<&CostChange> =
        difference.parts.iter().filter(|part| part.is_beyond_noise() != Some(false)).collect();
    let part = |(at, part): (usize, &&CostChange)| match at {
        0 => format!("{} {} in {}", signed(part.change), measure.title(), part.name),
        _ => format!("{} in {}", signed(part.change), part.name),
    };
    let mut parts: Vec<String> = named.iter().take(NAMED).enumerate().map(part).collect();
    if named.len() > NAMED {
        let rest: f64 = named[NAMED..].iter().map(|part| part.change).sum();
        parts.push(format!("{} in {} more", signed(rest), named.len() - NAMED));
    }
    if parts.is_empty() {
        parts.push("no directory differs beyond noise".to_owned());
    }
    let percent = if kernel.from > 0.0 {
        format!(" ({:+.1} %)", 100.0 * kernel.change / kernel.from)
    } else {
        String::new()
    };
    let head =
        events(&difference.events).unwrap_or_else(|| "sleeps, is interrupted and spins alike".to_owned());
    let (path, from) = (of(*path), of(*from));
    let all = signed(kernel.change);
    format!("{path} {head} compared with {from}: {}; in all {all}{percent} in the kernel.", parts.join(", "))
}

/// Such as `adds one sleep and saves 0.98 interrupts`.
fn events(events: &[CostChange]) -> Option<String> {
    let counts =
        |change: &&CostChange| change.change.abs() >= EVENT && change.is_beyond_noise() != Some(false);
    let those = |sign: f64| -> Vec<String> {
        events.iter().filter(counts).filter(|change| change.change * sign > 0.0).map(amount).collect()
    };
    let changes: Vec<String> = [("adds", those(1.0)), ("saves", those(-1.0))]
        .into_iter()
        .filter(|(_, amounts)| !amounts.is_empty())
        .map(|(verb, amounts)| format!("{verb} {}", amounts.join(" and ")))
        .collect();
    (!changes.is_empty()).then(|| changes.join(" and "))
}

fn amount(change: &CostChange) -> String {
    let size = change.change.abs();
    if (size - 1.0).abs() < EVENT {
        return format!("one {}", change.name.trim_end_matches('s'));
    }
    format!("{} {}", number(size), change.name)
}

/// The io_uring path that costs the kernel least.
pub(super) fn fewest(block: &WorkloadCosts) -> String {
    let Some(fewest) = &block.fewest else { return String::new() };
    let column = |at: usize| format!("{} ({})", name(&block.columns[at]), letter(at));
    let mut words = format!(
        "fewest kernel {} per I/O at depth {}: {}, {}",
        fewest.measure.title(),
        block.workload.iodepth,
        column(fewest.best),
        number(fewest.per_io)
    );
    if !fewest.undecided.is_empty() {
        words += &format!("; undecided against {}: no difference beyond noise", letters(&fewest.undecided));
    }
    if !fewest.untested.is_empty() {
        words += &format!("; not tested against {}: one replicate shows no noise", letters(&fewest.untested));
    }
    format!("\n{}", wrap(&escape(&words), WIDTH, ""))
}
