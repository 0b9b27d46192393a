//! The tables of a report for other programs: LaTeX and CSV.

use crate::analysis::{Figures, Row, Table};
use std::fmt::Write;

/// A column: its heading in LaTeX, its name in CSV, and its value as text; empty where nothing was measured.
pub(crate) type Column = (&'static str, &'static str, fn(&Figures) -> Option<f64>);

/// The figures of a row. Latencies in us in LaTeX's headings are in ns in CSV's.
pub(crate) const COLUMNS: &[Column] = &[
    ("IOPS", "iops", |f| Some(f.iops)),
    ("spread (\\%)", "iops_spread", |f| f.iops_spread),
    ("MB/s", "mb_per_s", |f| Some(f.mb_per_s)),
    ("mean (ns)", "latency_ns_mean", |f| Some(f.mean_ns)),
    ("p50 (ns)", "latency_ns_p50", |f| Some(f.p50_ns)),
    ("p99 (ns)", "latency_ns_p99", |f| Some(f.p99_ns)),
    ("p99.9 (ns)", "latency_ns_p99_9", |f| Some(f.p99_9_ns)),
    ("CPU (\\%)", "cpu_percent", |f| Some(f.cpu_percent)),
    ("ctx/IO", "context_switches_per_io", |f| Some(f.context_switches_per_io)),
    ("irq/IO", "interrupts_per_io", |f| f.interrupts_per_io),
];

/// A `tabular` a workload, for the package booktabs.
pub fn latex(tables: &[Table]) -> String {
    let mut text = String::new();
    for table in tables {
        let _ = writeln!(text, "% {}, {}", tex(&table.workload.title()), tex(&table.workload.length_text()));
        let _ = writeln!(text, "\\begin{{tabular}}{{ll{}}}\n\\toprule", "r".repeat(COLUMNS.len()));
        let headings: Vec<&str> = COLUMNS.iter().map(|(heading, ..)| *heading).collect();
        let _ = writeln!(text, "path & verdict & {} \\\\\n\\midrule", headings.join(" & "));
        for row in &table.rows {
            let cell = |column: &Column| {
                number(row, column, |value| if column.1 == "iops_spread" { 100.0 * value } else { value })
            };
            let cells: Vec<String> = COLUMNS.iter().map(cell).collect();
            let _ = writeln!(text, "{} & {} & {} \\\\", tex(&row.path.to_string()), verdict(row), cells.join(" & "));
        }
        text += "\\bottomrule\n\\end{tabular}\n\n";
    }
    text
}

/// One line a row over all workloads, with a heading, after RFC 4180.
pub fn csv(tables: &[Table]) -> String {
    let names: Vec<&str> = COLUMNS.iter().map(|(_, name, _)| *name).collect();
    let mut text = format!("workload,path,generator,settings,verdict,replicates,{}\r\n", names.join(","));
    for table in tables {
        for row in &table.rows {
            let settings: Vec<String> = row.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let cells: Vec<String> = COLUMNS
                .iter()
                .map(|(_, _, of)| row.figures.as_ref().and_then(of).map(|value| value.to_string()).unwrap_or_default())
                .collect();
            let _ = write!(
                text,
                "{},{},{},\"{}\",{},{},{}\r\n",
                table.workload.title(),
                row.path,
                row.generator.as_str(),
                settings.join(" ").replace('"', "\"\""),
                verdict(row),
                row.figures.as_ref().map_or(0, |figures| figures.replicates),
                cells.join(",")
            );
        }
    }
    text
}

/// The verdict that all trials share, or `mixed`.
pub(crate) fn verdict(row: &Row) -> &'static str {
    match &row.verdicts[..] {
        [(kind, _)] => kind.as_str(),
        [] => "failed",
        _ => "mixed",
    }
}

fn number(row: &Row, (_, _, of): &Column, scale: impl Fn(f64) -> f64) -> String {
    let value = row.figures.as_ref().and_then(of).map(scale);
    value.map_or("--".to_owned(), |value| if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") })
}

/// Text with LaTeX's special characters escaped.
fn tex(text: &str) -> String {
    let escape = |c: char| match c {
        '\\' => "\\textbackslash{}".to_owned(),
        '&' | '%' | '$' | '#' | '_' | '{' | '}' => format!("\\{c}"),
        '~' => "\\textasciitilde{}".to_owned(),
        '^' => "\\textasciicircum{}".to_owned(),
        c if c.is_control() => " ".to_owned(),
        c => c.to_string(),
    };
    text.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::cells::tests::row;
    use iopj_core::Workload;

    fn tables() -> Vec<Table> {
        vec![Table { workload: Workload::default(), rows: vec![row("io_uring/syscall/interrupt", 1000.0)] }]
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
            lines[1]
                .starts_with("randread 4k iodepth 1 numjobs 1,io_uring/syscall/interrupt,native,\"\",verified,3,1000,"),
            "{text}"
        );
    }
}
