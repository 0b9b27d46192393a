//! What a measured trial keeps in tables of its own: histograms, slices, cost profile and energy.

use crate::checksum::{self, Kind};
use crate::json_column::{from_json, to_json};
use crate::pending;
use crate::record::Measurement;
use iopj_core::Slice;
use iopj_core::fabric::{HostSide, NetworkBaseline};
use iopj_core::{Cost, CostKind, CostProfile, CostSource, FunctionCost, Space, TrialEnergy};
use rusqlite::{Connection, OptionalExtension, Row, params};

/// Adds all details of a trial.
pub(crate) fn add(connection: &Connection, trial: i64, measurement: &Measurement) -> rusqlite::Result<()> {
    let mut histogram = connection.prepare_cached("INSERT INTO histogram VALUES (?1, ?2, ?3)")?;
    let latencies = [
        ("all", Some(&measurement.latency)),
        ("read", measurement.read_latency.as_ref()),
        ("write", measurement.write_latency.as_ref()),
    ];
    for (op, latency) in latencies {
        if let Some(latency) = latency {
            histogram.execute(params![trial, op, latency.histogram])?;
        }
    }
    let mut slice = connection.prepare_cached("INSERT INTO slice VALUES (?1, ?2, ?3)")?;
    for Slice { end_ns, ios } in &measurement.series {
        slice.execute(params![trial, *end_ns as i64, *ios as i64])?;
    }
    add_energy(connection, trial, &measurement.energy)?;
    for (side, costs) in [(HostSide::Host, &measurement.costs), (HostSide::Target, &measurement.target_costs)]
    {
        costs.as_ref().map_or(Ok(()), |profile| add_costs(connection, trial, side, profile))?;
    }
    Ok(())
}

/// The measurement without what [`add`] keeps.
pub(crate) fn without(measurement: &Measurement) -> Measurement {
    Measurement {
        series: Vec::new(),
        costs: None,
        target_costs: None,
        energy: Vec::new(),
        ..measurement.clone()
    }
}

/// Reads all details of a trial into its measurement.
pub(crate) fn read(
    connection: &Connection,
    trial: i64,
    measurement: &mut Measurement,
) -> rusqlite::Result<()> {
    let mut histograms = connection.prepare_cached("SELECT op, v2 FROM histogram WHERE trial = ?1")?;
    let mut rows = histograms.query([trial])?;
    while let Some(row) = rows.next()? {
        let op: String = row.get(0)?;
        let latency = match op.as_str() {
            "read" => measurement.read_latency.as_mut(),
            "write" => measurement.write_latency.as_mut(),
            _ => Some(&mut measurement.latency),
        };
        if let Some(latency) = latency {
            latency.histogram = row.get(1)?;
        }
    }
    let mut slices =
        connection.prepare_cached("SELECT end_ns, ios FROM slice WHERE trial = ?1 ORDER BY end_ns")?;
    let rows = slices.query_map([trial], |row| Ok(Slice { end_ns: count(row, 0)?, ios: count(row, 1)? }))?;
    measurement.series = rows.collect::<rusqlite::Result<_>>()?;
    measurement.costs = read_costs(connection, trial, HostSide::Host)?;
    measurement.target_costs = read_costs(connection, trial, HostSide::Target)?;
    let mut energy =
        connection.prepare_cached("SELECT record FROM energy WHERE trial = ?1 ORDER BY rowid")?;
    let rows = energy.query_map([trial], |row| from_json(row, 0))?;
    measurement.energy = rows.collect::<rusqlite::Result<_>>()?;
    if measurement.energy.is_empty() {
        measurement.energy = pending::of(connection, trial)?;
    }
    Ok(())
}

/// The id of the measured trial at this position in the study's order.
pub(crate) fn measured_at(connection: &Connection, position: u64) -> rusqlite::Result<Option<i64>> {
    let find = "SELECT id FROM trial WHERE position = ?1 AND error IS NULL";
    connection.query_row(find, [position as i64], |row| row.get(0)).optional()
}

/// Adds the energy of a trial, one row per meter and scope.
pub(crate) fn add_energy(
    connection: &Connection,
    trial: i64,
    energy: &[TrialEnergy],
) -> rusqlite::Result<()> {
    let mut insert = connection.prepare_cached("INSERT INTO energy VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?;
    for one in energy {
        let joules = one.joules();
        insert.execute(params![
            trial,
            one.meter,
            one.scope.as_str(),
            joules.map(|joules| joules.joules),
            joules.map(|joules| joules.watts()),
            to_json(one)?,
            one.rules,
        ])?;
    }
    checksum::keep(connection, Kind::Energy, trial)
}

/// Adds the cost profile of a trial: one row for how it was counted, and one per function.
pub(crate) fn add_costs(
    connection: &Connection,
    trial: i64,
    side: HostSide,
    profile: &CostProfile,
) -> rusqlite::Result<()> {
    let of = prefix(side);
    connection.execute(
        &format!("INSERT INTO {of}profile VALUES (?1, ?2, ?3)"),
        params![trial, to_json(&profile.source)?, to_json(&profile.kinds)?],
    )?;
    let insert = format!("INSERT INTO {of}cost VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)");
    let mut insert = connection.prepare_cached(&insert)?;
    for FunctionCost { space, function, module, directory, cost } in &profile.functions {
        insert.execute(params![
            trial,
            matches!(space, Space::Kernel),
            function,
            module,
            directory,
            cost.calls as i64,
            cost.instructions as i64,
            cost.loads as i64,
            cost.stores as i64,
            cost.cpu_ns as i64,
        ])?;
    }
    let kind = match side {
        HostSide::Host => Kind::Costs,
        HostSide::Target => Kind::TargetCosts,
    };
    checksum::keep(connection, kind, trial)
}

/// The tables of a host's profiles begin with this.
fn prefix(side: HostSide) -> &'static str {
    match side {
        HostSide::Host => "",
        HostSide::Target => "target_",
    }
}

fn read_costs(connection: &Connection, trial: i64, side: HostSide) -> rusqlite::Result<Option<CostProfile>> {
    let of = prefix(side);
    let head = format!("SELECT source, kinds FROM {of}profile WHERE trial = ?1");
    let mut head = connection.prepare_cached(&head)?;
    let head = head.query_row([trial], |row| Ok((from_json(row, 0)?, from_json(row, 1)?))).optional()?;
    let Some((source, kinds)) = head else { return Ok(None) };
    let (source, kinds): (CostSource, Vec<CostKind>) = (source, kinds);
    let mut rows = connection.prepare_cached(&format!(
        "SELECT kernel, function, module, directory, calls, instructions, loads, stores, cpu_ns \
         FROM {of}cost WHERE trial = ?1"
    ))?;
    let functions = rows.query_map([trial], |row| {
        Ok(FunctionCost {
            space: if row.get(0)? { Space::Kernel } else { Space::User },
            function: row.get(1)?,
            module: row.get(2)?,
            directory: row.get(3)?,
            cost: Cost {
                calls: count(row, 4)?,
                instructions: count(row, 5)?,
                loads: count(row, 6)?,
                stores: count(row, 7)?,
                cpu_ns: count(row, 8)?,
            },
        })
    })?;
    let functions = functions.collect::<rusqlite::Result<_>>()?;
    Ok(Some(CostProfile::new(source, kinds, functions)))
}

/// Adds one baseline of the network between the two hosts.
pub(crate) fn add_network(connection: &Connection, baseline: &NetworkBaseline) -> rusqlite::Result<()> {
    let insert = "INSERT INTO network VALUES (?1, ?2)";
    connection.execute(insert, params![baseline.block, to_json(baseline)?])?;
    checksum::keep(connection, Kind::Network, connection.last_insert_rowid())
}

/// All baselines of the network, in their order.
pub(crate) fn networks(connection: &Connection) -> rusqlite::Result<Vec<NetworkBaseline>> {
    let mut rows = connection.prepare("SELECT record FROM network ORDER BY rowid")?;
    rows.query_map([], |row| from_json(row, 0))?.collect()
}

/// SQLite's integers are signed: a count is kept by its bits.
pub(crate) fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(|count| count as u64)
}
