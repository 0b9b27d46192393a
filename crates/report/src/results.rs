//! The columns of a table of results, one list for terminal, CSV, LaTeX and Parquet: the name, the value and
//! the format of each.

use super::number::{decimal, four_digits, percent, thousands, uncertainty};
use super::text::settings;
use iopj_analysis::energy::{CellEnergy, Uncertain};
use iopj_analysis::two_hosts::TwoHosts;
use iopj_analysis::{CellMeans, CellRow, CorunnerMeans, FigureMeans, Times, WorkloadTable};
use iopj_core::{Length, Workload};
use iopj_record::Generator;

/// The kind of a column, which decides which tables show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A time, or a rate or share over time.
    Time,
    /// A time that only studies over fabrics show.
    TimeOverFabrics,
    /// A count per I/O.
    Count,
    /// A count of a cost profile per I/O.
    Cost,
    /// What a co-runner got done.
    Corunner,
    /// What a program reported.
    Figure,
    /// The same per joule.
    FigureEnergy,
    Energy,
    /// Half of the 95 % interval of an energy, random part only.
    Random,
    /// The same with the meter's accuracy.
    Combined,
}

/// Which tables on the terminal show a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Terminal {
    /// Those that show its kind.
    All,
    /// Those of emulated studies.
    Emulated,
    None,
}

pub(super) struct Number {
    pub(super) kind: Kind,
    heading: &'static str,
    /// The unit beside the heading, in LaTeX.
    unit: &'static str,
    /// The heading on the terminal.
    terminal_heading: &'static str,
    terminal: Terminal,
    /// The name in CSV and Parquet, which omit a column without one.
    pub(super) name: Option<&'static str>,
    /// The value; absent if nothing was measured.
    pub(super) value: fn(&CellRow) -> Option<f64>,
    /// True for a share, which LaTeX shows in per cent.
    is_share: bool,
    /// The value as the terminal shows it.
    text: fn(f64) -> String,
}

const fn number(
    (kind, heading, unit): (Kind, &'static str, &'static str),
    name: &'static str,
    value: fn(&CellRow) -> Option<f64>,
    text: fn(f64) -> String,
) -> Number {
    let (terminal, name, is_share) = (Terminal::All, Some(name), false);
    Number { kind, heading, unit, terminal_heading: heading, terminal, name, value, is_share, text }
}

/// All columns of numbers, in order.
pub(super) const NUMBERS: &[Number] = &[
    number((Kind::Time, "IOPS", ""), "iops", |r| Some(times(r)?.iops), thousands),
    Number {
        is_share: true,
        ..number((Kind::Time, "spread", "%"), "iops_spread", |r| times(r)?.iops_spread, percent)
    },
    Number {
        terminal: Terminal::None,
        ..number((Kind::Time, "MB/s", ""), "mb_per_s", |r| Some(times(r)?.mb_per_s), thousands)
    },
    Number {
        terminal_heading: "mean us",
        ..number((Kind::Time, "mean", "ns"), "latency_ns_mean", |r| latency(r, |times| times.mean_ns), us)
    },
    number((Kind::TimeOverFabrics, "p20", "ns"), "latency_ns_p20", |r| times(r)?.p20_ns, us),
    number((Kind::Time, "p50", "ns"), "latency_ns_p50", |r| latency(r, |times| times.p50_ns), us),
    number((Kind::TimeOverFabrics, "p80", "ns"), "latency_ns_p80", |r| times(r)?.p80_ns, us),
    number((Kind::TimeOverFabrics, "p95", "ns"), "latency_ns_p95", |r| latency(r, |times| times.p95_ns), us),
    number((Kind::Time, "p99", "ns"), "latency_ns_p99", |r| latency(r, |times| times.p99_ns), us),
    number((Kind::Time, "p99.9", "ns"), "latency_ns_p99_9", |r| latency(r, |times| times.p99_9_ns), us),
    Number {
        terminal_heading: "CPU %",
        ..number((Kind::Time, "CPU", "%"), "cpu_percent", |r| Some(times(r)?.cpu_percent), whole)
    },
    number(CONTEXT_SWITCHES, "context_switches_per_io", |r| means(r)?.context_switches_per_io(), per_io),
    number((Kind::Count, "irq/IO", ""), "interrupts_per_io", |r| means(r)?.interrupts_per_io, per_io),
    Number { name: None, ..number((Kind::Time, "slower", ""), "", |r| r.slower, slower) },
    Number {
        terminal: Terminal::Emulated,
        ..number(
            (Kind::Count, "sys/IO", ""),
            "system_calls_per_io",
            |r| means(r)?.system_calls_per_io,
            per_io,
        )
    },
    Number {
        terminal: Terminal::Emulated,
        ..number((Kind::Count, "slept/IO", ""), "sleeps_per_io", |r| means(r)?.sleeps_per_io, per_io)
    },
    cost("kernel instr", "kernel_instructions_per_io", |r| means(r)?.costs?.kernel.instructions),
    cost("loads", "kernel_loads_per_io", |r| means(r)?.costs?.kernel.loads),
    cost("stores", "kernel_stores_per_io", |r| means(r)?.costs?.kernel.stores),
    cost("user instr", "user_instructions_per_io", |r| means(r)?.costs?.user.instructions),
    cost("loads", "user_loads_per_io", |r| means(r)?.costs?.user.loads),
    cost("stores", "user_stores_per_io", |r| means(r)?.costs?.user.stores),
    number((Kind::Figure, "figure", ""), "figure", |r| Some(figure(r)?.mean), four_digits),
    Number {
        is_share: true,
        ..number((Kind::Figure, "its spread", "%"), "figure_spread", |r| figure(r)?.spread, percent)
    },
    number((Kind::Figure, "figure/CPU s", ""), "figure_per_cpu", |r| figure(r)?.per_cpu, four_digits),
    number((Kind::FigureEnergy, "figure/J", ""), "figure_per_joule", |r| figure(r)?.per_joule, four_digits),
    number((Kind::Corunner, "co-run/s", ""), "corunner_per_s", |r| Some(corunner(r)?.per_s), thousands),
    number(CORUNNER_LOSS, "corunner_loss_ns_per_io", |r| corunner(r)?.loss_ns_per_io, whole),
    number((Kind::Corunner, "co-run/J", ""), "corunner_per_joule", |r| corunner(r)?.per_joule, four_digits),
    Number {
        terminal: Terminal::None,
        ..number((Kind::Energy, "J", ""), "joules", |r| Some(energy(r)?.joules?.mean), four_digits)
    },
    number((Kind::Energy, "W", ""), "watts", |r| Some(watts(r)?.mean), four_digits),
    number(RANDOM, "watts_plus_minus", |r| Some(watts(r)?.random), uncertainty),
    number(COMBINED, "watts_plus_minus_all", |r| watts(r)?.combined, uncertainty),
    number((Kind::Energy, "IO/J", ""), "ios_per_joule", |r| Some(ios_per_joule(r)?.mean), four_digits),
    number(RANDOM, "ios_per_joule_plus_minus", |r| Some(ios_per_joule(r)?.random), uncertainty),
    number(COMBINED, "ios_per_joule_plus_minus_all", |r| ios_per_joule(r)?.combined, uncertainty),
    Number {
        terminal: Terminal::None,
        ..number(
            (Kind::Energy, "incomplete", ""),
            "energy_incomplete",
            |r| Some(energy(r)?.incomplete as f64),
            whole,
        )
    },
];

const CONTEXT_SWITCHES: (Kind, &str, &str) = (Kind::Count, "ctx/IO", "");
const CORUNNER_LOSS: (Kind, &str, &str) = (Kind::Corunner, "lost ns/IO", "");
const RANDOM: (Kind, &str, &str) = (Kind::Random, "\u{b1}", "");
const COMBINED: (Kind, &str, &str) = (Kind::Combined, "\u{b1} all", "");

const fn cost(heading: &'static str, name: &'static str, value: fn(&CellRow) -> Option<f64>) -> Number {
    number((Kind::Cost, heading, ""), name, value, thousands)
}

fn two_hosts(row: &CellRow) -> Option<&TwoHosts> {
    means(row)?.two_hosts.as_ref()
}

/// The meter and scope of an energy.
fn source(energy: Option<&CellEnergy>) -> String {
    energy.map_or(String::new(), |energy| energy.source.to_string())
}

fn means(row: &CellRow) -> Option<&CellMeans> {
    row.figures.as_ref()
}

fn times(row: &CellRow) -> Option<&Times> {
    means(row)?.times.as_ref()
}

fn figure(row: &CellRow) -> Option<&FigureMeans> {
    means(row)?.figure.as_ref()
}

/// A latency; absent where none of a program's was sampled.
fn latency(row: &CellRow, of: fn(&Times) -> f64) -> Option<f64> {
    times(row).map(of).filter(|ns| *ns > 0.0 || !row.path.is_program())
}

fn corunner(row: &CellRow) -> Option<&CorunnerMeans> {
    means(row)?.corunner.as_ref()
}

fn energy(row: &CellRow) -> Option<&CellEnergy> {
    means(row)?.energy.as_ref()
}

fn watts(row: &CellRow) -> Option<Uncertain> {
    energy(row)?.watts
}

fn ios_per_joule(row: &CellRow) -> Option<Uncertain> {
    energy(row)?.ios_per_joule
}

fn us(ns: f64) -> String {
    decimal(ns / 1000.0)
}

fn whole(value: f64) -> String {
    format!("{value:.0}")
}

fn per_io(count: f64) -> String {
    format!("{count:.2}")
}

fn slower(share: f64) -> String {
    if share == 0.0 { "0".to_owned() } else { format!("+{}", percent(share)) }
}

impl Number {
    /// True if a table has anything of its kind.
    pub(super) fn is_in(&self, table: &WorkloadTable) -> bool {
        match self.kind {
            Kind::Time => table.emulated.is_none(),
            Kind::TimeOverFabrics => table.emulated.is_none() && table.is_over_fabrics(),
            Kind::Count => true,
            Kind::Cost => table.rows.iter().any(|row| means(row).is_some_and(|means| means.costs.is_some())),
            Kind::Figure => table.rows.iter().any(|row| figure(row).is_some()),
            Kind::FigureEnergy => {
                table.rows.iter().filter_map(figure).any(|figure| figure.per_joule.is_some())
            }
            Kind::Corunner => table.rows.iter().any(|row| corunner(row).is_some()),
            Kind::Energy | Kind::Random | Kind::Combined => table.energy().is_some(),
        }
    }

    /// True if the terminal shows it in a table.
    pub(super) fn is_on_terminal(&self, table: &WorkloadTable) -> bool {
        let shown = match self.terminal {
            Terminal::All => true,
            Terminal::Emulated => table.emulated.is_some(),
            Terminal::None => false,
        };
        shown && self.is_in(table) && (self.kind != Kind::Combined || has_combined(table))
    }

    /// True for what a program reported, which comes first on the terminal.
    pub(super) fn is_figure(&self) -> bool {
        matches!(self.kind, Kind::Figure | Kind::FigureEnergy)
    }

    /// Its heading on the terminal; a program's figure has its own name.
    pub(super) fn terminal_heading(&self, table: &WorkloadTable) -> String {
        let own = table.rows.iter().find_map(figure).filter(|_| self.heading.starts_with("figure"));
        own.map_or_else(
            || self.terminal_heading.to_owned(),
            |own| self.terminal_heading.replacen("figure", &own.name.name, 1),
        )
    }

    /// Its cell on the terminal: samples and estimates are marked.
    pub(super) fn terminal_cell(&self, row: &CellRow) -> String {
        let mark = match self.kind {
            Kind::Cost if costs(row) == "sampled" => "~",
            Kind::Energy if is_estimated(row) => "est. ",
            _ => "",
        };
        match (self.value)(row) {
            Some(value) => mark.to_owned() + &(self.text)(value),
            None if means(row).is_none() || (self.kind == Kind::Cost && costs(row).is_empty()) => {
                String::new()
            }
            None => "-".to_owned(),
        }
    }

    /// Its heading with its unit.
    pub(super) fn heading(&self) -> String {
        match self.unit {
            "" => self.heading.to_owned(),
            unit => format!("{} ({unit})", self.heading),
        }
    }

    pub(super) fn latex_cell(&self, row: &CellRow) -> String {
        let is_energy = matches!(self.kind, Kind::Energy | Kind::Random | Kind::Combined);
        let mark = if is_energy && is_estimated(row) { "est. " } else { "" };
        let scale = if self.is_share { 100.0 } else { 1.0 };
        match (self.value)(row).map(|value| scale * value) {
            None => "--".to_owned(),
            Some(value) if value >= 100.0 => format!("{mark}{value:.0}"),
            Some(value) => format!("{mark}{value:.2}"),
        }
    }
}

/// A column of text in CSV and Parquet.
pub(super) struct Text {
    pub(super) name: &'static str,
    pub(super) text: fn(&WorkloadTable, &CellRow) -> String,
}

const fn text(name: &'static str, text: fn(&WorkloadTable, &CellRow) -> String) -> Text {
    Text { name, text }
}

/// The columns before the numbers: what the row is about.
pub(super) const CELL: [Text; 9] = [
    text("path", |_, row| row.path.to_string()),
    text("generator", |_, row| row.generator.as_str().to_owned()),
    text("settings", |_, row| settings(&row.settings).trim_start().to_owned()),
    text("verdict", |_, row| verdict(row).to_owned()),
    text("rw", |table, _| table.workload.rw.to_string()),
    text("random_distribution", |table, _| table.workload.random_distribution.to_string()),
    text("cpus_allowed", |table, _| processors(&table.workload.cpus_allowed)),
    text("corunner", |table, _| {
        table.workload.corunner.as_ref().map_or(String::new(), |one| one.kind.to_string())
    }),
    text("corunner_cpus", |table, _| {
        table.workload.corunner.as_ref().map_or(String::new(), |one| processors(&one.cpus))
    }),
];

fn processors(cpus: &[u32]) -> String {
    cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
}

/// A number of the workload, by its name in CSV and Parquet.
type WorkloadNumber = (&'static str, fn(&Workload) -> Option<f64>);

/// The numbers of the workload, named as in a store's own CSV.
pub(super) const WORKLOAD: [WorkloadNumber; 14] = [
    ("rwmixread", |one| Some(one.rwmixread.into())),
    ("bs", |one| Some(one.bs.into())),
    ("iodepth", |one| Some(one.iodepth.into())),
    ("iodepth_batch_submit", |one| Some(one.iodepth_batch_submit.into())),
    ("iodepth_batch_complete_min", |one| Some(one.iodepth_batch_complete_min.into())),
    ("numjobs", |one| Some(one.numjobs.into())),
    ("rate_iops", |one| one.open.map(|open| open.rate_iops.into())),
    ("rate_iops_end", |one| one.open.and_then(|open| open.rate_iops_end).map(f64::from)),
    ("burst_on_s", |one| one.open.and_then(|open| open.burst).map(|burst| burst.on.as_secs_f64())),
    ("burst_off_s", |one| one.open.and_then(|open| open.burst).map(|burst| burst.off.as_secs_f64())),
    ("corunner_nice", |one| one.corunner.as_ref().map(|corunner| corunner.nice.into())),
    ("ramp_time_s", |one| Some(one.ramp_time.as_secs_f64())),
    ("runtime_s", |one| if let Length::Runtime(time) = one.length { Some(time.as_secs_f64()) } else { None }),
    ("ios_per_job", |one| if let Length::Ios(ios) = one.length { Some(ios as f64) } else { None }),
];

/// The columns after the numbers: their sources, and why energy is missing. Empty without costs, emulator or
/// energy.
pub(super) const SOURCES: [Text; 6] = [
    text("costs", |_, row| costs(row).to_owned()),
    text("emulated", |table, _| table.emulated.clone().unwrap_or_default()),
    text("energy_scope", |_, row| energy(row).map_or(String::new(), |one| one.source.scope.to_string())),
    text("energy_meter", |_, row| energy(row).map_or(String::new(), |one| one.source.meter.clone())),
    text("energy_estimated", |_, row| {
        energy(row).map_or(String::new(), |one| one.source.estimated.to_string())
    }),
    text("energy_lacks", |_, row| energy(row).map_or(String::new(), |one| one.lacks.join("; "))),
];

/// The columns after those of host and target host: whose joules these are. Empty without any.
pub(super) const HOST_SOURCES: [Text; 3] = [
    text("host_energy", |_, row| source(two_hosts(row).and_then(|one| one.host.energy.as_ref()))),
    text("target_energy", |_, row| source(two_hosts(row).and_then(|one| one.target.energy.as_ref()))),
    text("both_energy", |_, row| source(two_hosts(row).and_then(|one| one.both.as_ref()))),
];

/// The verdict that all trials share, or `mixed`.
pub(super) fn verdict(row: &CellRow) -> &'static str {
    match &row.verdicts[..] {
        [(kind, _)] => kind.as_str(),
        [] => "failed",
        _ => "mixed",
    }
}

/// How the costs of a row were counted; empty if it has none.
fn costs(row: &CellRow) -> &'static str {
    match means(row).and_then(|means| means.costs) {
        None => "",
        Some(costs) if costs.sampled => "sampled",
        Some(_) => "exact",
    }
}

fn is_estimated(row: &CellRow) -> bool {
    energy(row).is_some_and(|energy| energy.source.estimated)
}

/// True if the meter's accuracy is declared: then there are combined intervals.
pub(super) fn has_combined(table: &WorkloadTable) -> bool {
    table.rows.iter().filter_map(watts).any(|watts| watts.combined.is_some())
}

/// The path of a row with its settings, and its generator if that is fio or `with_generator`.
pub(super) fn row_name(row: &CellRow, with_generator: bool) -> String {
    let generator = match row.generator {
        // The path of a program says so itself.
        Generator::Program => String::new(),
        generator if with_generator || generator == Generator::Fio => format!(" ({})", generator.as_str()),
        _ => String::new(),
    };
    format!("{}{generator}{}", row.path, settings(&row.settings))
}
