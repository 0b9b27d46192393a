//! Blocks that are measured again, in their table.

use crate::checksum::{self, Kind};
use iopj_record::Repeat;
use rusqlite::{Connection, params};
use std::collections::HashMap;

/// Plans to measure these blocks of `trials` trials again. The first repeat of a store gets the number
/// `first`. A block that has a repeat gets no other.
pub(crate) fn plan(connection: &Connection, blocks: &[u32], first: u32, trials: u64) -> rusqlite::Result<()> {
    let batch: u32 =
        connection.query_row("SELECT coalesce(max(batch) + 1, 0) FROM repeat", [], |row| row.get(0))?;
    let mut insert = connection.prepare_cached(
        "INSERT OR IGNORE INTO repeat SELECT max(?1, coalesce(max(block) + 1, 0)), ?2, ?3, ?4 FROM repeat",
    )?;
    for block in blocks {
        insert.execute(params![first, block, trials as i64, batch])?;
    }
    let mut planned = connection.prepare("SELECT block FROM repeat")?;
    let planned = planned.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<i64>>>()?;
    planned.into_iter().try_for_each(|block| checksum::keep(connection, Kind::Repeat, block))
}

/// The blocks that are measured again, in the order in which that was planned.
pub(crate) fn all(connection: &Connection) -> rusqlite::Result<Vec<Repeat>> {
    let mut select =
        connection.prepare_cached("SELECT block, replaces, trials, batch FROM repeat ORDER BY block")?;
    let rows = select.query_map([], |row| {
        let trials = row.get::<_, i64>(2)? as u64;
        let (block, replaces, batch) = (row.get(0)?, row.get(1)?, row.get(3)?);
        Ok(Repeat { block, replaces, trials, done: 0, replaced: 0, batch })
    })?;
    let mut repeats = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    if !repeats.is_empty() {
        let trials = trials_of_blocks(connection)?;
        let count = |block: u32| trials.get(&block).copied().unwrap_or(0);
        for repeat in &mut repeats {
            (repeat.done, repeat.replaced) = (count(repeat.block), count(repeat.replaces));
        }
    }
    Ok(repeats)
}

/// How many trials each block has. No checksum covers an index, which may be damaged.
fn trials_of_blocks(connection: &Connection) -> rusqlite::Result<HashMap<u32, u64>> {
    let count = "SELECT replicate, count(*) FROM trial NOT INDEXED GROUP BY replicate";
    let mut count = connection.prepare_cached(count)?;
    let rows = count.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? as u64)))?;
    rows.collect()
}
