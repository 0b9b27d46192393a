//! What an I/O costs on each path, as text.

mod fits;
mod hosts;
mod sentences;
mod words;

use super::number::{or_dash, thousands};
use super::table::Table;
use super::text::{WIDTH, escape, letter, settings, wrap};
use iopj_analysis::cost::UNKNOWN;
use iopj_analysis::explain::{
    self, ByLength, CostRow, Explanation, FunctionRow, Marginal, MeanSpread, Parts, WorkloadCosts,
};
use iopj_analysis::hosts::Processors;
use iopj_core::{CostSource, Space};
use iopj_record::Generator;
use words::{SMALL, estimate, indented, letters, name, number, signed, spread};

/// The whole explanation.
pub fn explanation(explanation: &Explanation) -> String {
    let mut text = format!("what an I/O costs: study {}\n", escape(&explanation.study));
    if let Some(emulator) = &explanation.emulated {
        let words = format!(
            "emulated by {}: counts, verdicts and orders mean something, times do not",
            escape(emulator)
        );
        text += &wrap(&words, WIDTH, "");
    }
    if explanation.trials_without_costs > 0 {
        text +=
            &format!("{} measured trials have no costs and are left out\n", explanation.trials_without_costs);
    }
    text += &explanation.processors.as_ref().map_or(String::new(), hosts::processors);
    let unlike = explanation.processors.as_ref().filter(|both| both.host != both.target_host);
    text.extend(explanation.blocks.iter().map(|one| block(one, unlike)));
    text += &hosts::over_depth(&explanation.over_depth);
    text += &by_length(&explanation.by_length);
    text
}

fn block(block: &WorkloadCosts, unlike: Option<&Processors>) -> String {
    let generator = block.generator.as_str();
    let mut text = format!("\n{}, {}, {generator}\n", block.workload.title(), block.workload.length_text());
    text += &wrap(&source(&block.source), WIDTH, "");
    if block.generator == Generator::Fio {
        text += match block.source {
            CostSource::Exact => {
                "fio's counts include its start and end, mostly in user space: runs of two lengths separate \
                 them\n"
            }
            CostSource::Sampled(_) => "fio was sampled while its jobs ran, without its start and end\n",
        };
    }
    text += &legend(&block.columns);
    text += "\nper I/O: mean ± standard deviation over the trials; a sleep is a voluntary context switch, a \
             spin a call of the\ndriver's poll function\n";
    let name = |row: &CostRow| row.name.replace('_', " ");
    text += &tables(block, &block.totals, of_row, &|table| table.left("", name), &spread);
    for parts in &block.parts {
        text += &by_part(block, parts);
    }
    text += &block.hosts.as_ref().map_or(String::new(), |both| hosts::both_hosts(both, unlike));
    text += &sentences::differences(block);
    text += &sentences::fewest(block);
    text += &fits::fits(block);
    text += &fits::completions(block);
    text
}

fn source(source: &CostSource) -> String {
    match source {
        CostSource::Exact => {
            "counted exactly, on all cores: every instruction that was executed in the window".to_owned()
        }
        CostSource::Sampled(events) => format!(
            "sampled by perf on all cores, a count is samples by period: {}; what these events do not count \
             is absent",
            escape(&events.join(", "))
        ),
    }
}

fn legend(columns: &[explain::Column]) -> String {
    let trials = |column: &explain::Column| match (column.refuted, column.unproven) {
        (true, _) => format!("{} refuted: shown, but not compared", column.trials),
        (false, 0) => format!("{} verified", column.trials),
        (false, unproven) => format!("{}, {unproven} of them unproven", column.trials),
    };
    let rows: Vec<(usize, &explain::Column)> = columns.iter().enumerate().collect();
    Table::of(&rows)
        .left("", |(at, _)| letter(*at))
        .left("path", |(_, column)| name(column))
        .left("trials", |(_, column)| trials(column))
        .text()
}

/// The rows, each with the columns of `heads` and a cell for each path's figure; several tables if one would
/// be too wide.
fn tables<'a, R>(
    block: &WorkloadCosts,
    rows: &'a [R],
    figures: fn(&R) -> &[Option<MeanSpread>],
    heads: &dyn Fn(Table<'a, R>) -> Table<'a, R>,
    cell: &dyn Fn(&R, usize, MeanSpread) -> String,
) -> String {
    let all: Vec<usize> = (0..block.columns.len()).collect();
    let one = |abreast: &[usize]| {
        let mut table = heads(Table::of(rows));
        for at in abreast.iter().copied() {
            let figure = |row: &R| or_dash(figures(row)[at], |figure| cell(row, at, figure));
            table = table.right(marked(block, at), figure);
        }
        table.text()
    };
    let tables = |abreast: usize| all.chunks(abreast).map(one).collect::<String>();
    let fits = |text: &String| text.lines().all(|line| line.chars().count() <= WIDTH);
    (2..=all.len()).rev().map(tables).find(fits).unwrap_or_else(|| tables(1))
}

fn of_row(row: &CostRow) -> &[Option<MeanSpread>] {
    &row.figures
}

/// A column's letter, with a mark if it was refuted.
fn marked(block: &WorkloadCosts, at: usize) -> String {
    letter(at) + if block.columns[at].refuted { " (refuted)" } else { "" }
}

fn by_part(block: &WorkloadCosts, parts: &Parts) -> String {
    let title = parts.measure.title();
    let mut text = format!("\n{title} per I/O in the kernel by source directory\n");
    let unknown = |row: &CostRow, at: usize, figure: MeanSpread| {
        let share = if row.name == UNKNOWN {
            format!(" ({:.1} %)", parts.unknown_percent[at])
        } else {
            String::new()
        };
        number(figure.mean) + &share
    };
    let directories = folded(parts);
    text += &tables(block, &directories, of_row, &|table| table.left("", |row| row.name.clone()), &unknown);
    text += &format!("\n{title} per I/O by the groups of the paper\n");
    let mean = |_: &CostRow, _: usize, figure: MeanSpread| number(figure.mean);
    text += &tables(block, &parts.groups, of_row, &|table| table.left("", |row| indented(&row.name)), &mean);
    text += &format!("\n{title} per I/O in the kernel by function, without those that it calls\n");
    let mean = |_: &FunctionRow, _: usize, figure: MeanSpread| number(figure.mean);
    text + &tables(block, &parts.functions, |row| &row.figures, &function, &mean)
}

fn function(table: Table<'_, FunctionRow>) -> Table<'_, FunctionRow> {
    let name = |row: &FunctionRow| {
        let name = if row.function.is_empty() { "(no symbol)" } else { &row.function };
        let module = row.module.as_ref().map_or(String::new(), |module| format!(" [{module}]"));
        format!("{name}{module}")
    };
    let directory = |row: &FunctionRow| row.directory.clone().unwrap_or_else(|| UNKNOWN.to_owned());
    table.left("function", name).left("directory", directory)
}

/// The directories, small ones in one row before `unknown`.
fn folded(parts: &Parts) -> Vec<CostRow> {
    let mean = |figure: &Option<MeanSpread>| figure.map_or(0.0, |figure| figure.mean);
    let columns = parts.unknown_percent.len();
    let sum =
        |rows: &[CostRow], column: usize| rows.iter().map(|row| mean(&row.figures[column])).sum::<f64>();
    let totals: Vec<f64> = (0..columns).map(|column| sum(&parts.directories, column)).collect();
    let is_small = |row: &CostRow| {
        row.name != UNKNOWN && row.figures.iter().zip(&totals).all(|(f, total)| mean(f) < SMALL * total)
    };
    let (small, mut rows): (Vec<CostRow>, Vec<CostRow>) =
        parts.directories.iter().cloned().partition(is_small);
    if small.len() < 2 {
        return parts.directories.clone();
    }
    let figure = |column: usize| {
        small[0].figures[column].map(|one| MeanSpread { mean: sum(&small, column), stddev: None, ..one })
    };
    let others = CostRow {
        name: format!("{} others, each below {:.0} %", small.len(), 100.0 * SMALL),
        figures: (0..columns).map(figure).collect(),
    };
    rows.insert(rows.len().saturating_sub(1), others);
    rows
}

/// Text has the first measure only; the others are in the JSON.
fn by_length(all: &[ByLength]) -> String {
    let mut text = String::new();
    for alike in all.chunk_by(|a, b| a.workload == b.workload) {
        let first = |space| alike[0].costs.iter().find(|cost| cost.space == space);
        let costs = [first(Space::User), first(Space::Kernel)];
        let cost = |cost: &Marginal| {
            format!("{} ({})", estimate(cost.per_io, cost.error), number(cost.plain_per_io))
        };
        let mut table = Table::of(alike)
            .left("path", |one| format!("{}{}", one.path, settings(&one.settings)))
            .left("generator", |one| one.generator.as_str().to_owned())
            .right("I/Os", |one| one.ios.map(thousands).join(" to "));
        for wanted in costs {
            let title =
                wanted.map_or(String::new(), |one| format!("{} {}", space(one.space), one.measure.title()));
            let same = move |cost: &&Marginal| {
                wanted.is_some_and(|one| (one.space, one.measure) == (cost.space, cost.measure))
            };
            table = table.right(title, move |one| or_dash(one.costs.iter().find(same), cost));
        }
        text += &format!("\nby the difference of two lengths, per I/O: {}\n", alike[0].workload.title());
        text += &table.text();
        text += "  ± standard error; the cost of start and end cancels; in brackets the whole longer window \
                 over its I/Os\n";
    }
    text
}

fn space(space: Space) -> &'static str {
    match space {
        Space::User => "user",
        Space::Kernel => "kernel",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_decimals_of_their_size() {
        assert_eq!([0.0, 0.987, 12.345, 99.96, 12_345.6].map(number), ["0", "0.99", "12.3", "100", "12,346"]);
        assert_eq!([1.0 / 254.0, 0.01].map(number), ["0.0039", "0.01"]);
        assert_eq!([-1930.0, 0.5].map(signed), ["-1,930", "+0.50"]);
        assert_eq!(estimate(61.23, Some(0.123)), "61.2 ± 0.1");
        assert_eq!(estimate(2510.0, Some(0.4)), "2,510 ± 0.4");
        assert_eq!(estimate(2510.0, Some(12.4)), "2,510 ± 12");
        assert_eq!(estimate(2510.0, None), "2,510");
    }
}
