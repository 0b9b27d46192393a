//! Jobs of several kinds at once: a table of what each did, for each workload that has them.

use super::figure::Section;
use super::model::Model;
use super::text::{capital, escape};
use crate::kinds::{lines, table, words};
use crate::results::row_name;
use iopj_analysis::workload_tables;

/// The tables; empty unless jobs of several kinds did I/O at once.
pub(super) fn section(model: &Model<'_>) -> Section {
    let tables = workload_tables(model.study, model.trials, model.admission);
    let words = words(&tables).map_or(String::new(), capital);
    let of_workload = |one| {
        let kinds = lines(one, &|row| escape(&row_name(row, true)));
        let title = escape(&model.title(&one.workload, &[]));
        let rows = (!kinds.is_empty()).then(|| table(&kinds).html(&title, false));
        rows.map(|rows| format!("<h3>{title}</h3>{rows}"))
    };
    let html = tables.iter().filter_map(of_workload).collect();
    Section { id: "kinds", heading: "Jobs of several kinds", words, groups: Vec::new(), tables: html }
}
