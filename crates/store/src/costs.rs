//! Cost profiles in the store: a row a trial for how it was counted, a row for each of its functions.

use iopj_core::{Cost, CostKind, CostProfile, CostSource, FunctionCost, Space};
use rusqlite::{Connection, OptionalExtension, Row, params};

/// Adds the profile of a trial.
pub(crate) fn add(connection: &Connection, trial: i64, profile: &CostProfile) -> rusqlite::Result<()> {
    connection.execute(
        "INSERT INTO profile VALUES (?1, ?2, ?3)",
        params![trial, text(&profile.source)?, text(&profile.kinds)?],
    )?;
    let mut insert =
        connection.prepare_cached("INSERT INTO cost VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)")?;
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
    Ok(())
}

/// The profile of a trial, if it has one.
pub(crate) fn read(connection: &Connection, trial: i64) -> rusqlite::Result<Option<CostProfile>> {
    let mut head = connection.prepare_cached("SELECT source, kinds FROM profile WHERE trial = ?1")?;
    let head = head.query_row([trial], |row| Ok((parsed(row, 0)?, parsed(row, 1)?))).optional()?;
    let Some((source, kinds)) = head else { return Ok(None) };
    let (source, kinds): (CostSource, Vec<CostKind>) = (source, kinds);
    let mut rows = connection.prepare_cached(
        "SELECT kernel, function, module, directory, calls, instructions, loads, stores, cpu_ns FROM cost \
         WHERE trial = ?1",
    )?;
    let count = |row: &Row<'_>, column| row.get::<_, i64>(column).map(|count| count as u64);
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

fn text<T: serde::Serialize>(value: &T) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

fn parsed<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text: String = row.get(column)?;
    let kind = rusqlite::types::Type::Text;
    serde_json::from_str(&text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, kind, Box::new(error)))
}
