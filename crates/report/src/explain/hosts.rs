//! Host and target host side by side, and the target host's part over depth.

use super::{SMALL, estimate, spread};
use crate::number::or_dash;
use crate::table::Table;
use crate::text::{WIDTH, escape, letter, settings, wrap};
use iopj_analysis::cost::UNKNOWN;
use iopj_analysis::explain::{
    AtDepth, BothHosts, HostsDirectories, HostsRow, MeanSpread, OverDepth, PerInterrupt,
};
use iopj_analysis::hosts::Processors;

/// The two sides in the headings of tables.
const SIDES: [&str; 2] = ["host", "target"];

/// The two processors in a line, if the hosts have different ones.
pub(super) fn processors(processors: &Processors) -> String {
    let [host, target] = [&processors.host, &processors.target_host]
        .map(|one| one.as_deref().map_or("an unknown processor".to_owned(), escape));
    if host == target {
        return String::new();
    }
    let words = format!(
        "the host is {host}, the target host {target}: their counts stand side by side, and an instruction \
         of one is not one of the other"
    );
    wrap(&words, WIDTH, "")
}

/// The events and directories of a block's two hosts.
pub(super) fn both_hosts(hosts: &BothHosts, are_unlike: Option<&Processors>) -> String {
    let of = |at: usize, side: usize| {
        let processor = are_unlike.and_then(|both| [&both.host, &both.target_host][side].as_deref());
        let processor = processor.map_or(String::new(), |name| format!(" {}", escape(name)));
        format!("{} {}{processor}", letter(hosts.columns[at]), SIDES[side])
    };
    let mut text = String::from(
        "\nhost and target host side by side, per I/O of the host: mean ± standard deviation over the \
         trials; context\nswitches are of the whole host, the target's window encloses the host's\n",
    );
    let name = |row: &HostsRow| row.name.replace('_', " ");
    text += &table(&hosts.events, &name, &of, hosts.columns.len());
    for HostsDirectories { measure, rows } in &hosts.directories {
        text += &format!("\n{} per I/O in the kernel of each host by source directory\n", measure.title());
        text += &table(&kept(rows), &|row| row.name.clone(), &of, hosts.columns.len());
    }
    text
}

/// The rows of which any figure is a hundredth of its column, and `unknown`.
fn kept(rows: &[HostsRow]) -> Vec<HostsRow> {
    let mean = |figure: &Option<MeanSpread>| figure.map_or(0.0, |figure| figure.mean);
    let total = |at: usize, side: usize| rows.iter().map(|row| mean(&row.figures[at][side])).sum::<f64>();
    let is_large = |row: &HostsRow| {
        let mut each = row.figures.iter().enumerate();
        each.any(|(at, both)| (0..2).any(|side| mean(&both[side]) >= SMALL * total(at, side).max(1.0)))
    };
    rows.iter().filter(|row| row.name == UNKNOWN || is_large(row)).cloned().collect()
}

fn table(
    rows: &[HostsRow],
    name: &dyn Fn(&HostsRow) -> String,
    heading: &dyn Fn(usize, usize) -> String,
    columns: usize,
) -> String {
    let tables = |abreast: usize| {
        let all: Vec<usize> = (0..columns).collect();
        let one = |some: &[usize]| {
            let mut table = Table::of(rows).left("", name);
            for (at, side) in some.iter().flat_map(|at| [(*at, 0), (*at, 1)]) {
                let cell = |row: &HostsRow| or_dash(row.figures[at][side], |one| spread(row, at, one));
                table = table.right(heading(at, side), cell);
            }
            table.text()
        };
        all.chunks(abreast).map(one).collect::<String>()
    };
    let fits = |text: &String| text.lines().all(|line| line.chars().count() <= WIDTH);
    (2..=columns).rev().map(tables).find(fits).unwrap_or_else(|| tables(1))
}

/// The target host's part over depth.
pub(super) fn over_depth(all: &[OverDepth]) -> String {
    all.iter().map(one).collect()
}

fn one(path: &OverDepth) -> String {
    let mut text = format!(
        "\nover depth: {}{}, {}, {}\n",
        path.path,
        settings(&path.settings),
        path.workload.title(),
        path.generator.as_str()
    );
    let cell = |at: &AtDepth, figure: Option<MeanSpread>| or_dash(figure, |one| spread(at, 0, one));
    text += &Table::of(&path.rows)
        .right("iodepth", |at| at.iodepth.to_string())
        .right("I/Os per interrupt: target's drive", |at| cell(at, at.ios_per_drive_interrupt))
        .right("target's card", |at| cell(at, at.ios_per_card_interrupt[1]))
        .right("host's card", |at| cell(at, at.ios_per_card_interrupt[0]))
        .right("instructions per I/O: target", |at| cell(at, at.instructions[1]))
        .right("host", |at| cell(at, at.instructions[0]))
        .text();
    text + &path.fit.as_ref().map_or(String::new(), line)
}

fn line(fit: &PerInterrupt) -> String {
    let PerInterrupt { runs, fixed, per_interrupt } = fit;
    let words = format!(
        "target: instructions per I/O = {} + {} x interrupts of its drive per I/O, by least squares \
         over {runs} runs, ± standard error",
        estimate(fixed.estimate, fixed.error),
        estimate(per_interrupt.estimate, per_interrupt.error),
    );
    wrap(&words, WIDTH, "  ")
}
