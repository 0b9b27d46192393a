//! The report as text for a terminal, and the words that text and page share.

use super::{Advice, Drift, FleetReport, KindReport, Saving, WorkloadReport};
use iopj_analysis::stats::{LEVEL, p_statement};
use iopj_report::{Table, WIDTH, escape, wrap};
use std::fmt::Write;

/// The report.
pub fn text(report: &FleetReport) -> String {
    let head = format!(
        "{} stores of {} hosts, {} kinds of machines (generation {})",
        report.stores,
        report.hosts,
        report.kinds.len(),
        report.generation
    );
    let mut text = wrap(&head, WIDTH, "");
    for kind in &report.kinds {
        let _ = write!(text, "\n{}", wrap(&escape(&title(kind)), WIDTH, ""));
        text += &wrap(&counts(kind), WIDTH, "  ");
        text += &table(kind);
        for outlier in &kind.outliers {
            let words = format!("outlier {}: {}", outlier.host, off(outlier.of_kind, outlier.deviations));
            text += &wrap(&escape(&words), WIDTH, "  ");
        }
        if let Some(drift) = &kind.drift {
            text += &wrap(&drift_words(drift), WIDTH, "  ");
        }
    }
    text
}

fn table(kind: &KindReport) -> String {
    Table::of(&kind.workloads)
        .left("set-up", |one| one.setup.clone())
        .left("most IOPS", winner)
        .left("take", |one| one.advice.as_ref().map_or("-".to_owned(), take))
        .right("hosts", |one| one.advice.as_ref().map_or("-".to_owned(), |one| one.hosts.to_string()))
        .right("verified", |one| {
            one.advice.as_ref().map_or("-".to_owned(), |one| percent(one.verified_share))
        })
        .right("saves J", |one| saved(one, |advice| advice.joules))
        .right("CPU", |one| saved(one, |advice| advice.cpu))
        .right("latency", |one| saved(one, |advice| advice.latency))
        .text()
}

/// A kind in one line.
pub(super) fn title(kind: &KindReport) -> String {
    format!("{} | {} | Linux {}", kind.machine, kind.drive, kind.kernel)
}

fn counts(kind: &KindReport) -> String {
    let KindReport { hosts, stores, trials, refuted, failed, .. } = kind;
    format!("{hosts} hosts, {stores} stores, {trials} trials: {refuted} refuted, {failed} failed")
}

/// Which path has the most IOPS, or which are not distinguished.
pub(super) fn winner(one: &WorkloadReport) -> String {
    match one.best.as_slice() {
        [] => "-".to_owned(),
        [best, others @ ..] => first(best, others, one.decision),
    }
}

/// Which path to take, or which are not distinguished.
pub(super) fn take(advice: &Advice) -> String {
    first(&advice.path, &advice.rivals, advice.decision)
}

fn first(best: &str, others: &[String], decision: &str) -> String {
    match (others, decision) {
        ([], "alone") => format!("{best} (alone)"),
        ([], _) => best.to_owned(),
        (_, "equal") => format!("{best} (equal: {})", others.join(", ")),
        _ => format!("{best} (undecided: {})", others.join(", ")),
    }
}

/// What the advice saves of a figure, with its interval.
pub(super) fn saved(one: &WorkloadReport, of: impl Fn(&super::Advice) -> Option<Saving>) -> String {
    let Some(advice) = &one.advice else { return "-".to_owned() };
    match of(advice) {
        Some(Saving { share, low, high }) => {
            format!("{} ({} to {})", percent(share), percent(low), percent(high))
        }
        None => "-".to_owned(),
    }
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// How far a host is from its kind.
pub(super) fn off(of_kind: f64, deviations: f64) -> String {
    let (by, word) = ((of_kind - 1.0).abs(), if of_kind > 1.0 { "slower" } else { "faster" });
    format!(
        "{} {word} than the median of its kind, {:.1} robust standard deviations",
        percent(by),
        deviations.abs()
    )
}

/// What a month changes.
pub(super) fn drift_words(drift: &Drift) -> String {
    let (low, high) = drift.interval;
    let shown = if drift.p < LEVEL { "latency drifts" } else { "no drift is shown: latency changes" };
    format!(
        "{shown} by {} a month ({} to {}, {}, {} hosts)",
        percent(drift.per_month),
        percent(low),
        percent(high),
        p_statement(drift.p),
        drift.hosts
    )
}
