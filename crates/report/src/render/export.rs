//! The tables of a report for other programs: LaTeX and CSV.

use super::emulated::banner;
use crate::analysis::energy::CellEnergy;
use crate::analysis::{CellMeans, CellRow, WorkloadTable};
use std::fmt::Write;

/// What a column is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A time, or a rate or share over one.
    Time,
    /// A count per I/O.
    Count,
    /// A count of a cost profile per I/O.
    Cost,
    /// Energy, and its uncertainty.
    Energy,
}

/// A column: what it is of, its heading in LaTeX, its name in CSV, and its value; empty where nothing was
/// measured.
pub(crate) type Column = (Kind, &'static str, &'static str, fn(&CellMeans) -> Option<f64>);

/// The figures of a row. Latencies in us in LaTeX's headings are in ns in CSV's.
pub(crate) const COLUMNS: &[Column] = &[
    (Kind::Time, "IOPS", "iops", |f| f.times.as_ref().map(|t| t.iops)),
    (Kind::Time, "spread (\\%)", "iops_spread", |f| f.times.as_ref().and_then(|t| t.iops_spread)),
    (Kind::Time, "MB/s", "mb_per_s", |f| f.times.as_ref().map(|t| t.mb_per_s)),
    (Kind::Time, "mean (ns)", "latency_ns_mean", |f| f.times.as_ref().map(|t| t.mean_ns)),
    (Kind::Time, "p50 (ns)", "latency_ns_p50", |f| f.times.as_ref().map(|t| t.p50_ns)),
    (Kind::Time, "p99 (ns)", "latency_ns_p99", |f| f.times.as_ref().map(|t| t.p99_ns)),
    (Kind::Time, "p99.9 (ns)", "latency_ns_p99_9", |f| f.times.as_ref().map(|t| t.p99_9_ns)),
    (Kind::Time, "CPU (\\%)", "cpu_percent", |f| f.times.as_ref().map(|t| t.cpu_percent)),
    (Kind::Count, "ctx/IO", "context_switches_per_io", |f| Some(f.context_switches_per_io)),
    (Kind::Count, "irq/IO", "interrupts_per_io", |f| f.interrupts_per_io),
    (Kind::Count, "sys/IO", "system_calls_per_io", |f| f.system_calls_per_io),
    (Kind::Count, "slept/IO", "sleeps_per_io", |f| f.sleeps_per_io),
    (Kind::Cost, "kernel instr", "kernel_instructions_per_io", |f| {
        f.costs.and_then(|c| c.kernel.instructions)
    }),
    (Kind::Cost, "loads", "kernel_loads_per_io", |f| f.costs.and_then(|c| c.kernel.loads)),
    (Kind::Cost, "stores", "kernel_stores_per_io", |f| f.costs.and_then(|c| c.kernel.stores)),
    (Kind::Cost, "user instr", "user_instructions_per_io", |f| f.costs.and_then(|c| c.user.instructions)),
    (Kind::Cost, "loads", "user_loads_per_io", |f| f.costs.and_then(|c| c.user.loads)),
    (Kind::Cost, "stores", "user_stores_per_io", |f| f.costs.and_then(|c| c.user.stores)),
    (Kind::Energy, "J", "joules", |f| energy(f).and_then(|e| e.joules).map(|j| j.mean)),
    (Kind::Energy, "W", "watts", |f| energy(f).and_then(|e| e.watts).map(|w| w.mean)),
    (Kind::Energy, "$\\pm$", "watts_plus_minus", |f| energy(f).and_then(|e| e.watts).map(|w| w.random)),
    (Kind::Energy, "$\\pm$ all", "watts_plus_minus_all", |f| energy(f).and_then(|e| e.watts?.combined)),
    (Kind::Energy, "IO/J", "ios_per_joule", |f| energy(f).and_then(|e| e.ios_per_joule).map(|w| w.mean)),
    (Kind::Energy, "$\\pm$", "ios_per_joule_plus_minus", |f| {
        energy(f).and_then(|e| e.ios_per_joule).map(|w| w.random)
    }),
    (Kind::Energy, "$\\pm$ all", "ios_per_joule_plus_minus_all", |f| {
        energy(f).and_then(|e| e.ios_per_joule?.combined)
    }),
    (Kind::Energy, "incomplete", "energy_incomplete", |f| energy(f).map(|e| e.incomplete as f64)),
];

fn energy(figures: &CellMeans) -> Option<&CellEnergy> {
    figures.energy.as_ref()
}

/// The texts that name the source of a row's energy: scope, meter, and whether it is a model's; empty without
/// energy.
pub(crate) const ENERGY_TEXTS: [&str; 3] = ["energy_scope", "energy_meter", "energy_estimated"];

/// One of [`ENERGY_TEXTS`] of a row.
pub(crate) fn energy_text(row: &CellRow, name: &str) -> String {
    let source =
        row.figures.as_ref().and_then(|figures| figures.energy.as_ref()).map(|energy| &energy.source);
    source.map_or(String::new(), |source| match name {
        "energy_scope" => source.scope.to_string(),
        "energy_meter" => source.meter.clone(),
        _ => source.estimated.to_string(),
    })
}

/// A `tabular` a workload, for the package booktabs: without times where they mean nothing, without costs and
/// energy where there are none.
pub fn latex(tables: &[WorkloadTable]) -> String {
    let mut text = String::new();
    for table in tables {
        if let Some(emulator) = &table.emulated {
            let _ = writeln!(text, "% {}", tex(&banner(emulator)));
        }
        let _ = writeln!(text, "% {}, {}", tex(&table.workload.title()), tex(&table.workload.length_text()));
        if let Some(source) = table.energy() {
            let _ = writeln!(text, "% energy: {}; intervals are half of 95 \\%", tex(&source.to_string()));
        }
        let with_costs = table.rows.iter().any(|row| !costs(row).is_empty());
        let shown = |column: &&Column| match column.0 {
            Kind::Time => table.emulated.is_none(),
            Kind::Count => true,
            Kind::Cost => with_costs,
            Kind::Energy => table.energy().is_some(),
        };
        let columns: Vec<&Column> = COLUMNS.iter().filter(shown).collect();
        let _ = writeln!(text, "\\begin{{tabular}}{{ll{}}}\n\\toprule", "r".repeat(columns.len()));
        let headings: Vec<&str> = columns.iter().map(|(_, heading, ..)| *heading).collect();
        let _ = writeln!(text, "path & verdict & {} \\\\\n\\midrule", headings.join(" & "));
        for row in &table.rows {
            let cells: Vec<String> = columns.iter().map(|column| number(row, column)).collect();
            let _ = writeln!(
                text,
                "{} & {} & {} \\\\",
                tex(&row.path.to_string()),
                verdict(row),
                cells.join(" & ")
            );
        }
        text += "\\bottomrule\n\\end{tabular}\n\n";
    }
    text
}

/// One line a row over all workloads, with a heading, after RFC 4180. Under `emulated` stands what emulated
/// the processor; the columns of times are then empty. Under `costs` stands how instructions, loads and
/// stores were counted. Energy is that of one meter and scope in all rows, with half of its 95 % intervals.
pub fn csv(tables: &[WorkloadTable]) -> String {
    let names: Vec<&str> = COLUMNS.iter().map(|(_, _, name, _)| *name).collect();
    let mut text = format!(
        "workload,path,generator,settings,verdict,replicates,{},costs,emulated,{}\r\n",
        names.join(","),
        ENERGY_TEXTS.join(",")
    );
    for table in tables {
        let emulated = table.emulated.as_deref().unwrap_or_default();
        for row in &table.rows {
            let settings: Vec<String> =
                row.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let cells: Vec<String> = COLUMNS
                .iter()
                .map(|(.., of)| {
                    row.figures.as_ref().and_then(of).map(|value| value.to_string()).unwrap_or_default()
                })
                .collect();
            let _ = write!(
                text,
                "{},{},{},{},{},{},{},{},{},{}\r\n",
                table.workload.title(),
                row.path,
                row.generator.as_str(),
                quoted(&settings.join(" ")),
                verdict(row),
                row.figures.as_ref().map_or(0, |figures| figures.replicates),
                cells.join(","),
                costs(row),
                quoted(emulated),
                ENERGY_TEXTS.map(|name| quoted(&energy_text(row, name))).join(","),
            );
        }
    }
    text
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// How the costs of a row were counted; empty where it has none.
pub(crate) fn costs(row: &CellRow) -> &'static str {
    match row.figures.as_ref().and_then(|figures| figures.costs) {
        None => "",
        Some(costs) if costs.sampled => "sampled",
        Some(_) => "exact",
    }
}

/// The verdict that all trials share, or `mixed`.
pub(crate) fn verdict(row: &CellRow) -> &'static str {
    match &row.verdicts[..] {
        [(kind, _)] => kind.as_str(),
        [] => "failed",
        _ => "mixed",
    }
}

fn number(row: &CellRow, (kind, _, name, of): &Column) -> String {
    let scale = if *name == "iops_spread" { 100.0 } else { 1.0 };
    let value = row.figures.as_ref().and_then(of).map(|value| scale * value);
    let estimated = *kind == Kind::Energy && energy_text(row, "energy_estimated") == "true";
    let mark = if estimated { "est. " } else { "" };
    let digits =
        |value: f64| if value >= 100.0 { format!("{mark}{value:.0}") } else { format!("{mark}{value:.2}") };
    value.map_or("--".to_owned(), digits)
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
    use crate::analysis::cost::{Costs, PerIo};
    use crate::analysis::workload_table::tests::row;
    use iopj_core::Workload;

    fn tables() -> Vec<WorkloadTable> {
        let rows = vec![row("io_uring/syscall/interrupt", 1000.0)];
        vec![WorkloadTable { workload: Workload::default(), emulated: None, rows }]
    }

    /// The same as an emulated store gives it, with costs.
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
        assert_eq!(counts.map(of), ["1", "5630.25", "", "exact", "\"QEMU TCG\""]);
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
                "randread 4k iodepth 1 numjobs 1,io_uring/syscall/interrupt,native,\"\",verified,3,1000,"
            ),
            "{text}"
        );
    }
}
