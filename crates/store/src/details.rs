//! What a measured trial keeps in tables of its own: histograms, slices, cost profile and energy.

use crate::checksum::{self, Kind};
use crate::json_column::{from_json, to_json};
use crate::schema;
use iopj_core::Slice;
use iopj_core::fabric::{HostSide, NetworkBaseline};
use iopj_core::{Cost, CostKind, CostProfile, CostSource, FunctionCost, Space, TrialEnergy};
use iopj_record::trial::Measurement;
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::collections::HashMap;

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

/// The details of some trials, by their ids.
#[derive(Default)]
pub(crate) struct Details {
    histograms: HashMap<i64, Vec<(String, Vec<u8>)>>,
    series: HashMap<i64, Vec<Slice>>,
    costs: HashMap<i64, CostProfile>,
    target_costs: HashMap<i64, CostProfile>,
    energy: HashMap<i64, Vec<TrialEnergy>>,
}

impl Details {
    /// How many cost profiles there are, of the host and of the target host.
    pub(crate) fn profiles(&self) -> [u64; 2] {
        [&self.costs, &self.target_costs].map(|profiles| profiles.len() as u64)
    }

    /// Moves what is there of a trial into its measurement.
    pub(crate) fn move_to(&mut self, trial: i64, measurement: &mut Measurement) {
        for (op, histogram) in self.histograms.remove(&trial).unwrap_or_default() {
            let latency = match op.as_str() {
                "read" => measurement.read_latency.as_mut(),
                "write" => measurement.write_latency.as_mut(),
                _ => Some(&mut measurement.latency),
            };
            if let Some(latency) = latency {
                latency.histogram = histogram;
            }
        }
        measurement.series = self.series.remove(&trial).unwrap_or_default();
        measurement.costs = self.costs.remove(&trial);
        measurement.target_costs = self.target_costs.remove(&trial);
        measurement.energy = self.energy.remove(&trial).unwrap_or_default();
    }
}

/// Reads the details of the trials with ids from `first` to `last`.
pub(crate) fn read(connection: &Connection, first: i64, last: i64) -> rusqlite::Result<Details> {
    let ids = [first, last];
    let histograms = format!("SELECT trial, op, v2 FROM {} WHERE trial BETWEEN ?1 AND ?2", schema::HISTOGRAM);
    let slices = "SELECT trial, end_ns, ios FROM slice WHERE trial BETWEEN ?1 AND ?2 ORDER BY trial, end_ns";
    let energy = format!(
        "SELECT trial, record FROM {} WHERE trial BETWEEN ?1 AND ?2 ORDER BY trial, rowid",
        schema::ENERGY
    );
    Ok(Details {
        histograms: by_trial(connection, &histograms, ids, |row| Ok((row.get(1)?, row.get(2)?)))?,
        series: by_trial(connection, slices, ids, |row| {
            Ok(Slice { end_ns: count(row, 1)?, ios: count(row, 2)? })
        })?,
        costs: read_costs(connection, ids, HostSide::Host)?,
        target_costs: read_costs(connection, ids, HostSide::Target)?,
        energy: by_trial(connection, &energy, ids, |row| from_json(row, 1))?,
    })
}

/// The rows of a query for the ids from a first to a last one, by the id in their first column.
fn by_trial<T>(
    connection: &Connection,
    query: &str,
    ids: [i64; 2],
    of: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<HashMap<i64, Vec<T>>> {
    let mut select = connection.prepare_cached(query)?;
    let (mut rows, mut all) = (select.query(ids)?, HashMap::<i64, Vec<T>>::new());
    while let Some(row) = rows.next()? {
        all.entry(row.get(0)?).or_default().push(of(row)?);
    }
    Ok(all)
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

fn read_costs(
    connection: &Connection,
    ids: [i64; 2],
    side: HostSide,
) -> rusqlite::Result<HashMap<i64, CostProfile>> {
    let (of, cost) = match side {
        HostSide::Host => (prefix(side), schema::COST),
        HostSide::Target => (prefix(side), schema::TARGET_COST),
    };
    let heads = format!("SELECT trial, source, kinds FROM {of}profile WHERE trial BETWEEN ?1 AND ?2");
    let heads: HashMap<i64, Vec<(CostSource, Vec<CostKind>)>> =
        by_trial(connection, &heads, ids, |row| Ok((from_json(row, 1)?, from_json(row, 2)?)))?;
    if heads.is_empty() {
        return Ok(HashMap::new());
    }
    let functions = format!(
        "SELECT trial, kernel, function, module, directory, calls, instructions, loads, stores, cpu_ns \
         FROM {cost} WHERE trial BETWEEN ?1 AND ?2 ORDER BY trial, rowid"
    );
    let mut functions = by_trial(connection, &functions, ids, |row| {
        Ok(FunctionCost {
            space: if row.get(1)? { Space::Kernel } else { Space::User },
            function: row.get(2)?,
            module: row.get(3)?,
            directory: row.get(4)?,
            cost: Cost {
                calls: count(row, 5)?,
                instructions: count(row, 6)?,
                loads: count(row, 7)?,
                stores: count(row, 8)?,
                cpu_ns: count(row, 9)?,
            },
        })
    })?;
    let profile = |(trial, head): (i64, Vec<(CostSource, Vec<CostKind>)>)| {
        let (source, kinds) = head.into_iter().next()?;
        Some((trial, CostProfile::new(source, kinds, functions.remove(&trial).unwrap_or_default())))
    };
    Ok(heads.into_iter().filter_map(profile).collect())
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
