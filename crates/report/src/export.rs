//! The tables of a report for other programs: LaTeX and CSV.

use super::emulated::banner;
use super::results::{CELL, HOST_SOURCES, NUMBERS, Number, SOURCES, Text, WORKLOAD, row_name, verdict};
use super::two_hosts::{self, Lines};
use iopj_analysis::{CellRow, WorkloadTable};
use iopj_record::export::csv_cell;
use std::fmt::Write;

/// One `tabular` per workload, for the package booktabs: without times if they mean nothing, without costs
/// and energy if there are none. Over fabrics those of host and target host follow.
pub fn latex(tables: &[WorkloadTable]) -> String {
    let mut text = String::new();
    for table in tables {
        // Writing into a string cannot fail, here and below.
        if let Some(emulator) = &table.emulated {
            let _ = writeln!(text, "% {}", tex(&banner(emulator)));
        }
        let _ = writeln!(text, "% {}, {}", tex(&table.workload.title()), tex(&table.workload.length_text()));
        if let Some(source) = table.energy() {
            let _ = writeln!(text, "% energy: {}; intervals are half of 95 \\%", tex(&source.to_string()));
        }
        let columns: Vec<&Number> =
            NUMBERS.iter().filter(|one| one.name.is_some() && one.is_in(table)).collect();
        let _ = writeln!(text, "\\begin{{tabular}}{{ll{}}}\n\\toprule", "r".repeat(columns.len()));
        let headings: Vec<String> = columns.iter().map(|column| tex(&column.heading())).collect();
        let _ = writeln!(text, "path & verdict & {} \\\\\n\\midrule", headings.join(" & "));
        for row in &table.rows {
            let cells: Vec<String> = columns.iter().map(|column| column.latex_cell(row)).collect();
            let (path, verdict) = (tex(&row.path.to_string()), verdict(row));
            let _ = writeln!(text, "{path} & {verdict} & {} \\\\", cells.join(" & "));
        }
        text += "\\bottomrule\n\\end{tabular}\n\n";
        text += &latex_of_hosts(table);
    }
    text
}

/// The tables of host and target host; empty if the study is not over fabrics.
fn latex_of_hosts(table: &WorkloadTable) -> String {
    let Some(lines) = Lines::of(table) else { return String::new() };
    let mut text = String::new();
    let name = |row: &CellRow| row_name(row, false);
    for (title, table) in lines.tables(&name) {
        let (headings, rows) = table.data();
        // The first two columns are texts, the others numbers.
        let cell = |(at, cell): (usize, &String)| match cell.as_str() {
            "-" => "--".to_owned(),
            number if at > 1 && number.starts_with(|c: char| c.is_ascii_digit()) => number.replace(',', ""),
            text => tex(text),
        };
        let line = |cells: &[String]| cells.iter().enumerate().map(cell).collect::<Vec<_>>().join(" & ");
        let columns = "r".repeat(headings.len().saturating_sub(2));
        let _ = writeln!(text, "% {}\n\\begin{{tabular}}{{ll{columns}}}\n\\toprule", tex(title));
        let _ = writeln!(text, "{} \\\\\n\\midrule", line(&headings));
        rows.iter().for_each(|row| text += &format!("{} \\\\\n", line(row)));
        text += "\\bottomrule\n\\end{tabular}\n\n";
    }
    text
}

/// One line per row over all workloads, with a heading, after RFC 4180. `emulated` names what emulated the
/// processor; the columns of times are then empty. `costs` says how instructions, loads and stores were
/// counted. All rows have the energy of one meter and scope, with half of its 95 % intervals. Columns that
/// begin with `host_`, `target_` and `both_` are of the two hosts of a study over fabrics.
pub fn csv(tables: &[WorkloadTable]) -> String {
    let texts = |texts: &[Text]| texts.iter().map(|one| one.name.to_owned()).collect();
    let workload = WORKLOAD.iter().map(|(name, _)| (*name).to_owned()).collect();
    let numbers = NUMBERS.iter().filter_map(|one| one.name.map(str::to_owned)).collect();
    let hosts = two_hosts::columns();
    let of_hosts = hosts.iter().map(|one| one.name.clone()).collect();
    let replicates = vec!["replicates".to_owned()];
    let mut text =
        line([texts(&CELL), workload, replicates, numbers, of_hosts, texts(&HOST_SOURCES), texts(&SOURCES)]);
    for table in tables {
        for row in &table.rows {
            let cell = |one: &Text| csv_cell(&(one.text)(table, row));
            let known = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
            let replicates = row.figures.as_ref().map_or(0, |figures| figures.replicates);
            text += &line([
                CELL.iter().map(cell).collect(),
                WORKLOAD.iter().map(|(_, value)| known(value(&table.workload))).collect(),
                vec![replicates.to_string()],
                NUMBERS.iter().filter(|one| one.name.is_some()).map(|one| known((one.value)(row))).collect(),
                hosts.iter().map(|one| known(one.value(row))).collect(),
                HOST_SOURCES.iter().map(cell).collect(),
                SOURCES.iter().map(cell).collect(),
            ]);
        }
    }
    text
}

fn line(cells: [Vec<String>; 7]) -> String {
    cells.concat().join(",") + "\r\n"
}

/// Text with LaTeX's special characters escaped.
fn tex(text: &str) -> String {
    let escape = |c: char| match c {
        '\\' => "\\textbackslash{}".to_owned(),
        '&' | '%' | '$' | '#' | '_' | '{' | '}' => format!("\\{c}"),
        '~' => "\\textasciitilde{}".to_owned(),
        '^' => "\\textasciicircum{}".to_owned(),
        '\u{b1}' => "$\\pm$".to_owned(),
        c if c.is_control() => " ".to_owned(),
        c => c.to_string(),
    };
    text.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_analysis::cost::{Costs, PerIo};
    use iopj_analysis::testing::row;
    use iopj_core::Workload;

    fn tables() -> Vec<WorkloadTable> {
        let rows = vec![row("io_uring/syscall/interrupt", 1000.0)];
        vec![WorkloadTable { workload: Workload::default(), emulated: None, rows }]
    }

    /// The same of an emulated store, with costs.
    fn emulated() -> Vec<WorkloadTable> {
        let mut tables = tables();
        tables[0].emulated = Some("QEMU TCG".to_owned());
        let figures = tables[0].rows[0].figures.as_mut().unwrap();
        let kernel = PerIo { instructions: Some(5630.25), loads: Some(1800.0), stores: None };
        (figures.times, figures.costs) =
            (None, Some(Costs { sampled: false, kernel, user: PerIo::default() }));
        tables
    }

    #[test]
    fn emulated_tables_hold_counts_and_no_time() {
        let text = latex(&emulated());
        assert!(text.starts_with("% emulated by QEMU TCG: times mean nothing"), "{text}");
        assert!(
            text.contains("path & verdict & ctx/IO & irq/IO & sys/IO & slept/IO & kernel instr & loads"),
            "{text}"
        );
        assert!(text.contains("& verified & 1.00 & 1.00 & 2.00 & 0.50 & 5630 & 1800 & -- & --"), "{text}");
        let text = csv(&emulated());
        let names: Vec<&str> = text.lines().next().unwrap().split(',').collect();
        let cells: Vec<&str> = text.lines().nth(1).unwrap().split(',').collect();
        assert_eq!(names.len(), cells.len());
        let of = |name: &str| cells[names.iter().position(|one| *one == name).unwrap()];
        for time in ["iops", "iops_spread", "mb_per_s", "latency_ns_mean", "latency_ns_p99_9", "cpu_percent"]
        {
            assert_eq!(of(time), "", "{time}");
        }
        let counts = [
            "context_switches_per_io",
            "kernel_instructions_per_io",
            "kernel_stores_per_io",
            "costs",
            "emulated",
        ];
        assert_eq!(counts.map(of), ["1", "5630.25", "", "exact", "QEMU TCG"]);
    }

    #[test]
    fn special_characters_are_escaped() {
        assert_eq!(tex("io_uring & 5 % {x}\n"), "io\\_uring \\& 5 \\% \\{x\\} ");
    }

    #[test]
    fn tables_hold_every_row_and_column() {
        let text = latex(&tables());
        assert!(text.contains("io\\_uring/syscall/interrupt & verified & 1000 & --"), "{text}");
        let text = csv(&tables());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0].split(',').count(), lines[1].split(',').count());
        assert!(
            lines[1].starts_with(
                "io_uring/syscall/interrupt,native,,verified,randread,uniform,,,,50,4096,1,1,1,1,,,,,,0,10,,3,1000,"
            ),
            "{text}"
        );
    }
}
