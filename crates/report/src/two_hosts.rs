//! Host and target host side by side: the tables of terminal, page and LaTeX, the words about them, and the
//! columns of CSV and Parquet.

use super::number::{four_digits, or_dash, thousands, uncertainty};
use super::table::Table;
use iopj_analysis::energy::CellEnergy;
use iopj_analysis::two_hosts::{CpuKind, SideMetric, TwoHosts};
use iopj_analysis::{CellRow, WorkloadTable};
use iopj_core::Transport;
use iopj_core::fabric::{BOTH_HOSTS, HostSide};

/// One host of a cell, or both together.
pub(super) struct Line<'a> {
    row: &'a CellRow,
    hosts: &'a TwoHosts,
    /// Absent for both together, of which only energy is known.
    side: Option<HostSide>,
}

impl Line<'_> {
    fn side(&self) -> &'static str {
        self.side.map_or(BOTH_HOSTS, HostSide::as_str)
    }

    fn get(&self, metric: SideMetric) -> Option<f64> {
        self.hosts.side(self.side?).get(metric)
    }

    fn energy(&self) -> Option<&CellEnergy> {
        match self.side {
            Some(side) => self.hosts.side(side).energy.as_ref(),
            None => self.hosts.both.as_ref(),
        }
    }
}

/// Both hosts of all cells of a table.
pub(super) struct Lines<'a>(Vec<Line<'a>>);

/// A table with the words above it.
pub(super) type Titled<'a> = (&'static str, Table<'a, Line<'a>>);

/// The kinds of CPU time with a column of their own; `steal` only where there is any.
const ALWAYS: [CpuKind; 6] =
    [CpuKind::User, CpuKind::System, CpuKind::Iowait, CpuKind::Irq, CpuKind::Softirq, CpuKind::Idle];

/// The counts per I/O and their headings.
const COUNTS: [(SideMetric, &str); 7] = [
    (SideMetric::ContextSwitches, "ctx"),
    (SideMetric::CardInterrupts, "card irq"),
    (SideMetric::DriveInterrupts, "drive irq"),
    (SideMetric::PacketsIn, "packets in"),
    (SideMetric::PacketsOut, "packets out"),
    (SideMetric::BytesIn, "bytes in"),
    (SideMetric::BytesOut, "bytes out"),
];

impl<'a> Lines<'a> {
    /// `None` if the table has no cell over fabrics.
    pub(super) fn of(table: &'a WorkloadTable) -> Option<Lines<'a>> {
        let of_row = |row: &'a CellRow| {
            let hosts = row.figures.as_ref()?.two_hosts.as_ref()?;
            let sides = HostSide::ALL.into_iter().filter(|side| !hosts.side(*side).is_empty()).map(Some);
            let sides = sides.chain(hosts.both.is_some().then_some(None));
            Some(sides.map(move |side| Line { row, hosts, side }))
        };
        let lines: Vec<Line<'a>> = table.rows.iter().filter_map(of_row).flatten().collect();
        (!lines.is_empty()).then_some(Lines(lines))
    }

    /// CPU and energy, unless times mean nothing, and the counts per I/O. `name` is that of a cell.
    pub(super) fn tables(&'a self, name: &dyn Fn(&CellRow) -> String) -> Vec<Titled<'a>> {
        let lines = &self.0;
        let start =
            || Table::of(lines).name("path", |line| name(line.row)).left("on", |line| line.side().to_owned());
        let has = |metric| lines.iter().any(|line| line.get(metric).is_some());
        let mut tables = Vec::new();
        let has_cpu = has(SideMetric::Cpu(CpuKind::Idle));
        let has_energy = lines.iter().any(|line| line.energy().is_some());
        if has_cpu || has_energy {
            tables.push((CPU, with_energy(with_cpu(start(), lines), has_energy)));
        }
        let counts = COUNTS.iter().filter(|(metric, _)| has(*metric));
        let table = counts.fold(start(), |table, (metric, heading)| {
            table.right(*heading, |line| or_dash(line.get(*metric), count_text(*metric)))
        });
        tables.push((PER_IO, table));
        tables
    }
}

/// The words above the tables.
const CPU: &str = "host and target host, CPU in % of all cores of each";
const PER_IO: &str = "host and target host, per I/O";

fn with_cpu<'a>(table: Table<'a, Line<'a>>, lines: &[Line<'_>]) -> Table<'a, Line<'a>> {
    let steal = SideMetric::Cpu(CpuKind::Steal);
    let is_stolen = lines.iter().any(|line| line.get(steal).is_some_and(|percent| percent > 0.0));
    let kinds = ALWAYS.into_iter().chain(is_stolen.then_some(CpuKind::Steal));
    let cores =
        table.right("cores", |line| or_dash(line.get(SideMetric::Cores), |cores| format!("{cores:.0}")));
    kinds.fold(cores, |table, kind| {
        table.right(kind.as_str(), |line| {
            or_dash(line.get(SideMetric::Cpu(kind)), |percent| format!("{percent:.1}"))
        })
    })
}

fn with_energy<'a>(table: Table<'a, Line<'a>>, has_energy: bool) -> Table<'a, Line<'a>> {
    if !has_energy {
        return table;
    }
    let watts = |line: &Line<'_>| line.energy().and_then(|energy| energy.watts);
    table
        .right("W", move |line| or_dash(watts(line), |watts| four_digits(watts.mean)))
        .right("\u{b1}", move |line| or_dash(watts(line), |watts| uncertainty(watts.random)))
        .right("J", |line| {
            or_dash(line.energy().and_then(|energy| energy.joules), |joules| four_digits(joules.mean))
        })
        .left("meter", |line| line.energy().map_or("-".to_owned(), |energy| energy.source.to_string()))
}

fn count_text(metric: SideMetric) -> fn(f64) -> String {
    match metric {
        SideMetric::BytesIn | SideMetric::BytesOut => thousands,
        _ => |count| format!("{count:.2}"),
    }
}

/// What to know about the two hosts of these tables, a sentence each; none if no cell is over fabrics.
pub(super) fn words(tables: &[WorkloadTable]) -> Vec<String> {
    let rows = tables.iter().flat_map(|table| &table.rows);
    let hosts: Vec<&TwoHosts> = rows.filter_map(|row| row.figures.as_ref()?.two_hosts.as_ref()).collect();
    let mut words = Vec::new();
    if hosts.iter().any(|one| one.target.get(SideMetric::Cpu(CpuKind::Idle)).is_some()) {
        words.push(
            "CPU of host and target host is the time of all cores of that machine by kind, as mpstat gives \
             it, whoever used it; iowait is idle time"
                .to_owned(),
        );
    }
    if hosts.iter().any(|one| one.transport.is_remote()) {
        words.push(
            "card: the network cards between the two; drive: that of the target host; bytes are those of \
             the cards, with all headers"
                .to_owned(),
        );
    }
    let own: Vec<&str> = [Transport::Local, Transport::Loop]
        .into_iter()
        .filter(|transport| hosts.iter().any(|one| one.transport == *transport))
        .map(Transport::as_str)
        .collect();
    if !own.is_empty() {
        words.push(format!(
            "transport {}: the target host did the I/O itself, so its figures are those of the trial, and \
             the host did none",
            own.join(" and ")
        ));
    }
    if hosts.iter().any(|one| one.transport == Transport::Here) {
        words.push(
            "transport here: the host did the I/O on a drive of its own; the target host did none".to_owned(),
        );
    }
    words.extend(clock_words(&hosts));
    if hosts.iter().any(|one| one.both.is_some()) {
        words.push(format!(
            "{BOTH_HOSTS}: the joules of both hosts as they were summed when they were measured; nothing \
             else is added up"
        ));
    }
    words
}

/// How well the target host's figures fit the host's window.
fn clock_words(hosts: &[&TwoHosts]) -> Option<String> {
    let worst_ns = hosts.iter().filter_map(|one| one.clock_uncertainty_ns).max()?;
    Some(format!(
        "the target host's own window encloses the host's; its clock is known to within {} us",
        four_digits(worst_ns as f64 / 1e3)
    ))
}

/// A column of CSV and Parquet.
pub(super) struct Column {
    pub(super) name: String,
    value: ColumnValue,
}

/// A figure of an energy.
type EnergyFigure = fn(&CellEnergy) -> Option<f64>;

enum ColumnValue {
    Of(HostSide, SideMetric),
    Energy(Option<HostSide>, EnergyFigure),
    Clock,
}

/// Those columns, in order.
pub(super) fn columns() -> Vec<Column> {
    let of_side = |side: HostSide| {
        let metrics = SideMetric::ALL.into_iter().filter(move |metric| metric.is_of(side));
        metrics.map(move |metric| Column {
            name: format!("{side}_{}", metric.name(), side = side.as_str()),
            value: ColumnValue::Of(side, metric),
        })
    };
    let energies = [Some(HostSide::Host), Some(HostSide::Target), None].into_iter().flat_map(|side| {
        let before = side.map_or("both", HostSide::as_str);
        let figures: [(&str, EnergyFigure); 3] = [
            ("joules", |one| Some(one.joules?.mean)),
            ("watts", |one| Some(one.watts?.mean)),
            ("watts_plus_minus", |one| Some(one.watts?.random)),
        ];
        figures.map(|(name, of)| Column {
            name: format!("{before}_{name}"),
            value: ColumnValue::Energy(side, of),
        })
    });
    let clock = Column { name: "target_clock_uncertainty_ns".to_owned(), value: ColumnValue::Clock };
    HostSide::ALL.into_iter().flat_map(of_side).chain(energies).chain([clock]).collect()
}

impl Column {
    /// The value of a row; absent if nothing was measured.
    pub(super) fn value(&self, row: &CellRow) -> Option<f64> {
        let hosts = row.figures.as_ref()?.two_hosts.as_ref()?;
        match self.value {
            ColumnValue::Of(side, metric) => hosts.side(side).get(metric),
            ColumnValue::Energy(side, of) => {
                let energy = match side {
                    Some(side) => hosts.side(side).energy.as_ref(),
                    None => hosts.both.as_ref(),
                };
                of(energy?)
            }
            ColumnValue::Clock => hosts.clock_uncertainty_ns.map(|ns| ns as f64),
        }
    }
}

#[cfg(test)]
mod tests;
