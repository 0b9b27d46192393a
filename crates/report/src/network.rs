//! The network between two hosts by itself: its table on terminal and page.

use super::number::{four_digits, or_dash, uncertainty};
use super::table::Table;
use iopj_analysis::network::{NetworkRow, network_rows};
use iopj_analysis::stats::Summary;
use iopj_record::StudyRecord;

/// The words above the table.
pub(super) const TITLE: &str = "network by itself, before each block";

/// Its measurements; under emulation their figures mean nothing, and only failures are shown.
pub(super) struct Network<'a> {
    rows: Vec<NetworkRow<'a>>,
    timed: bool,
}

impl<'a> Network<'a> {
    /// `None` if nobody measured it.
    pub(super) fn of(study: &'a StudyRecord) -> Option<Network<'a>> {
        let rows = network_rows(&study.networks);
        (!rows.is_empty()).then(|| Network { rows, timed: study.emulated.is_none() })
    }

    /// A row for each transport, direction and program, with foreign text made safe by `escape`.
    pub(super) fn table(&self, escape: fn(&str) -> String) -> Table<'_, NetworkRow<'a>> {
        let table = Table::of(&self.rows)
            .left("transport", |row| row.transport.to_string())
            .left("bytes to", |row| row.server.as_str().to_owned())
            .right("blocks", |row| row.blocks.to_string());
        let table = match self.timed {
            true => table
                .right("Gb/s", |row| mean(row.gbits_per_s))
                .right("\u{b1}", |row| half(row.gbits_per_s))
                .right("half round trip us", |row| mean(row.latency_us))
                .right("\u{b1}", |row| half(row.latency_us)),
            false => table,
        };
        let table = table.left("by", move |row| escape(row.tool));
        match self.rows.iter().all(|row| row.failures.is_empty()) {
            true => table,
            false => table.left("missing", move |row| escape(&row.failures.join("; "))),
        }
    }

    /// What to know about it.
    pub(super) fn words(&self) -> &'static str {
        match self.timed {
            true => "means over blocks; \u{b1} is half of their 95 % interval",
            false => "its figures mean nothing under emulation, and none is shown",
        }
    }
}

fn mean(summary: Option<Summary>) -> String {
    or_dash(summary, |summary| four_digits(summary.mean))
}

fn half(summary: Option<Summary>) -> String {
    or_dash(summary.and_then(|summary| summary.interval), |(low, high)| uncertainty((high - low) / 2.0))
}
