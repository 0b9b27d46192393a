//! Checksums of all that a figure comes from: a SHA-256 over the values of the rows that belong together.
//! Damage that SQLite does not see (a flipped bit in a value, a row that is gone) is an error, never a
//! figure. Stores of before schema 7 have none, and rows from that time stay without.

use crate::schema;
use rusqlite::fallible_streaming_iterator::FallibleStreamingIterator as _;
use rusqlite::types::{Type, ValueRef};
use rusqlite::{Connection, Row, Rows, Statement, params};
use sha2::{Digest, Sha256};

/// Rows that belong together by a number: a trial's row with its histograms and slices, a meter's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Study,
    Trial,
    Costs,
    TargetCosts,
    Energy,
    Network,
    Repeat,
    Session,
    Meter,
    Mark,
    Watch,
}

/// Chunks of readings, each of some consecutive rows.
const READING: &str = "reading";

/// A table, the column that holds the number, and what orders the rows of one number.
type Part = (&'static str, &'static str, &'static str);

impl Kind {
    /// All of them.
    pub(crate) const ALL: [Kind; 11] = [
        Kind::Study,
        Kind::Trial,
        Kind::Costs,
        Kind::TargetCosts,
        Kind::Energy,
        Kind::Network,
        Kind::Repeat,
        Kind::Session,
        Kind::Meter,
        Kind::Mark,
        Kind::Watch,
    ];

    /// Its word in the table, which is also the word of a message.
    const fn word(self) -> &'static str {
        match self {
            Kind::Study => "study",
            Kind::Trial => "trial",
            Kind::Costs => "costs",
            Kind::TargetCosts => "target costs",
            Kind::Energy => "energy",
            Kind::Network => "network",
            Kind::Repeat => "repeat",
            Kind::Session => "session",
            Kind::Meter => "meter",
            Kind::Mark => "mark",
            Kind::Watch => "watch",
        }
    }

    const fn parts(self) -> &'static [Part] {
        match self {
            Kind::Study => &[("study", "id", "id")],
            Kind::Trial => {
                &[("trial", "id", "id"), (schema::HISTOGRAM, "trial", "op"), ("slice", "trial", "end_ns")]
            }
            Kind::Costs => &[("profile", "trial", "trial"), (schema::COST, "trial", "rowid")],
            Kind::TargetCosts => {
                &[("target_profile", "trial", "trial"), (schema::TARGET_COST, "trial", "rowid")]
            }
            Kind::Energy => &[(schema::ENERGY, "trial", "rowid")],
            Kind::Network => &[("network", "rowid", "rowid")],
            Kind::Repeat => &[("repeat", "block", "block")],
            Kind::Session => &[("session", "id", "id")],
            Kind::Meter => &[("meter", "id", "id")],
            Kind::Mark => &[("mark", "rowid", "rowid")],
            Kind::Watch => &[("watch", "id", "id"), ("watch_interval", "1", "end_ns")],
        }
    }

    /// What is damaged, for a message.
    pub(crate) fn in_words(self, key: i64) -> String {
        match self {
            Kind::Study | Kind::Watch => format!("its {}", self.word()),
            Kind::Energy | Kind::Costs | Kind::TargetCosts => {
                format!("the {} of its trial {key}", self.word())
            }
            _ => format!("its {} {key}", self.word()),
        }
    }
}

/// Keeps the checksum of the rows with this number as they are now; none if there are no such rows.
pub(crate) fn keep(connection: &Connection, kind: Kind, key: i64) -> rusqlite::Result<()> {
    let mut hash = RowHash::default();
    for (number, part) in kind.parts().iter().enumerate() {
        let (table, column, order) = part;
        let select = format!("SELECT * FROM {table} WHERE {column} = ?1 ORDER BY {order}");
        let mut select = connection.prepare_cached(&select)?;
        let columns = select.column_count();
        let mut rows = select.query([key])?;
        while let Some(row) = rows.next()? {
            hash.row(number, row, 0..columns)?;
        }
    }
    connection.execute("DELETE FROM checksum WHERE kind = ?1 AND key = ?2", params![kind.word(), key])?;
    match hash.rows {
        0 => Ok(()),
        rows => insert(connection, kind.word(), key, rows, &hash.end()),
    }
}

/// Keeps the checksum of readings that were added last: those of these consecutive rows.
pub(crate) fn keep_readings(connection: &Connection, first: i64, last: i64) -> rusqlite::Result<()> {
    let mut select = connection.prepare_cached(&readings("WHERE rowid BETWEEN ?1 AND ?2"))?;
    let columns = select.column_count();
    let (mut rows, mut hash) = (select.query([first, last])?, RowHash::default());
    while let Some(row) = rows.next()? {
        hash.row(0, row, 1..columns)?;
    }
    if hash.rows == 0 { Ok(()) } else { insert(connection, READING, first, hash.rows, &hash.end()) }
}

/// Forgets the checksums of a meter's readings, which are about to go.
pub(crate) fn forget_readings(connection: &Connection, meter: i64) -> rusqlite::Result<()> {
    let of = "DELETE FROM checksum WHERE kind = ?1 AND key IN (SELECT rowid FROM reading WHERE meter = ?2)";
    connection.execute(of, params![READING, meter]).map(drop)
}

fn readings(which: &str) -> String {
    format!("SELECT rowid, * FROM reading {which} ORDER BY rowid")
}

fn insert(connection: &Connection, kind: &str, key: i64, rows: u64, sum: &[u8; 32]) -> rusqlite::Result<()> {
    let insert = "INSERT INTO checksum VALUES (?1, ?2, ?3, ?4)";
    connection.execute(insert, params![kind, key, rows as i64, sum]).map(drop)
}

/// A hash over rows: each value with its type and its length, so that no two sets of rows are one text.
#[derive(Default)]
struct RowHash {
    hash: Sha256,
    rows: u64,
}

impl RowHash {
    fn row(&mut self, part: usize, row: &Row<'_>, columns: std::ops::Range<usize>) -> rusqlite::Result<()> {
        self.rows += 1;
        self.hash.update([part as u8, columns.len() as u8]);
        for column in columns {
            match row.get_ref(column)? {
                ValueRef::Null => self.hash.update([0]),
                ValueRef::Integer(value) => self.value(1, &value.to_le_bytes()),
                ValueRef::Real(value) => self.value(2, &value.to_bits().to_le_bytes()),
                ValueRef::Text(bytes) => self.value(3, bytes),
                ValueRef::Blob(bytes) => self.value(4, bytes),
            }
        }
        Ok(())
    }

    fn value(&mut self, kind: u8, bytes: &[u8]) {
        self.hash.update([kind]);
        self.hash.update((bytes.len() as u64).to_le_bytes());
        self.hash.update(bytes);
    }

    fn end(self) -> [u8; 32] {
        self.hash.finalize().into()
    }
}

/// How many groups of rows there are, and the number of the first.
fn groups(connection: &Connection, kind: Kind) -> rusqlite::Result<(u64, Option<i64>)> {
    let Some((table, column, _)) = kind.parts().first() else { return Ok((0, None)) };
    let count = format!("SELECT count(DISTINCT {column}), min({column}) FROM {table}");
    connection.query_row(&count, [], |row| Ok((row.get::<_, i64>(0)? as u64, row.get(1)?)))
}

/// True if iopj wrote checksums from the store's beginning: its first trial has one. Then everything has.
fn has_sums_from_the_beginning(connection: &Connection) -> rusqlite::Result<bool> {
    let has = "SELECT EXISTS (SELECT 1 FROM checksum WHERE kind = ?1 AND key = (SELECT min(id) FROM trial))";
    connection.query_row(has, [Kind::Trial.word()], |row| row.get(0))
}

/// How many trials have no checksum.
pub(crate) fn trials_without(connection: &Connection) -> rusqlite::Result<u64> {
    let count = "SELECT (SELECT count(*) FROM trial) - (SELECT count(*) FROM checksum WHERE kind = ?1)";
    let without: i64 = connection.query_row(count, [Kind::Trial.word()], |row| row.get(0))?;
    // One that is gone is damage, and found where trials are read.
    Ok(without.max(0) as u64)
}

/// What a pass over one kind found.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) sound: u64,
    pub(crate) without: u64,
    /// The first number whose rows are not as they were written.
    pub(crate) damaged: Option<i64>,
}

/// Holds all rows of a kind against their checksums, in one pass.
pub(crate) fn verified(connection: &Connection, kind: Kind) -> rusqlite::Result<Found> {
    if let Some(trial) = unprotected(connection, kind)? {
        return Ok(Found { damaged: Some(trial), ..Found::default() });
    }
    let mut sums =
        connection.prepare("SELECT key, rows, sha256 FROM checksum WHERE kind = ?1 ORDER BY key")?;
    let mut sums = Peeked::of(&mut sums, params![kind.word()])?;
    let first_sum = sums.key()?;
    if first_sum.is_none() {
        refuse_others(connection)?;
    }
    let all_have = has_sums_from_the_beginning(connection)?;
    if first_sum.is_none() {
        let (without, first) = groups(connection, kind)?;
        return Ok(Found { without, damaged: first.filter(|_| all_have), ..Found::default() });
    }
    let selects = kind.parts().iter().map(|(table, column, order)| {
        connection.prepare(&format!("SELECT {column}, * FROM {table} ORDER BY {column}, {order}"))
    });
    let mut selects = selects.collect::<rusqlite::Result<Vec<_>>>()?;
    let mut parts = Vec::new();
    for select in &mut selects {
        let columns = select.column_count();
        parts.push((columns, Peeked::of(select, [])?));
    }
    let mut found = Found::default();
    loop {
        let mut next = sums.key()?;
        for (_, rows) in &parts {
            next = [next, rows.key()?].into_iter().flatten().min();
        }
        let Some(key) = next else { return Ok(found) };
        let mut hash = RowHash::default();
        for (number, (columns, rows)) in parts.iter_mut().enumerate() {
            while rows.key()? == Some(key) {
                rows.with(|row| hash.row(number, row, 1..*columns))?;
                rows.advance()?;
            }
        }
        if sums.key()? == Some(key) {
            let sum = sums.with(|row| Ok((row.get::<_, i64>(1)? as u64, row.get::<_, Vec<u8>>(2)?)))?;
            sums.advance()?;
            if sum != (hash.rows, hash.end().to_vec()) {
                return Ok(Found { damaged: Some(key), ..found });
            }
            found.sound += 1;
        } else if all_have || kind == Kind::Trial && first_sum.is_some_and(|first| key > first) {
            // Trials get theirs as they are added, so only the oldest have none.
            return Ok(Found { damaged: Some(key), ..found });
        } else {
            found.without += 1;
        }
    }
}

/// The first trial with a checksum whose rows of another kind have none: whoever gave it its own would have
/// given them theirs, too, so they are of another table.
fn unprotected(connection: &Connection, kind: Kind) -> rusqlite::Result<Option<i64>> {
    if !matches!(kind, Kind::Costs | Kind::TargetCosts | Kind::Energy) {
        return Ok(None);
    }
    for (table, column, _) in kind.parts() {
        let first = format!(
            "SELECT min({column}) FROM {table} WHERE {column} IN (SELECT key FROM checksum WHERE kind = ?1) \
             AND {column} NOT IN (SELECT key FROM checksum WHERE kind = ?2)"
        );
        let words = [Kind::Trial.word(), kind.word()];
        let found: Option<i64> = connection.query_row(&first, words, |row| row.get(0))?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Refuses a table of checksums that holds anything else. Where a page of another table stands in its place,
/// nothing would have a checksum, as in an older store.
fn refuse_others(connection: &Connection) -> rusqlite::Result<()> {
    let ours: Vec<String> =
        Kind::ALL.iter().map(|kind| kind.word()).chain([READING]).map(|word| format!("'{word}'")).collect();
    let others = format!(
        "SELECT EXISTS (SELECT 1 FROM checksum WHERE typeof(kind) <> 'text' OR kind NOT IN ({}))",
        ours.join(", ")
    );
    match connection.query_row(&others, [], |row| row.get(0))? {
        false => Ok(()),
        true => Err(rusqlite::Error::InvalidColumnType(0, "checksum.kind".to_owned(), Type::Null)),
    }
}

/// How many chunks are sound; or the first row of one that is not.
pub(crate) fn verified_readings(connection: &Connection) -> rusqlite::Result<Result<u64, i64>> {
    let mut sums =
        connection.prepare("SELECT key, rows, sha256 FROM checksum WHERE kind = ?1 ORDER BY key")?;
    let mut sums = sums.query([READING])?;
    let mut select = connection.prepare(&readings(""))?;
    let columns = select.column_count();
    let mut rows = Peeked::of(&mut select, [])?;
    let all_have = has_sums_from_the_beginning(connection)?;
    let mut chunks = 0;
    while let Some(sum) = sums.next()? {
        let (first, count): (i64, i64) = (sum.get(0)?, sum.get(1)?);
        let mut hash = RowHash::default();
        while let Some(key) = rows.key()?.filter(|key| *key < first) {
            if all_have {
                return Ok(Err(key));
            }
            rows.advance()?;
        }
        while hash.rows < count as u64 && rows.key()? == Some(first.saturating_add(hash.rows as i64)) {
            rows.with(|row| hash.row(0, row, 1..columns))?;
            rows.advance()?;
        }
        let is_whole = hash.rows == count as u64;
        if !is_whole || sum.get::<_, Vec<u8>>(2)? != hash.end() {
            return Ok(Err(first));
        }
        chunks += 1;
    }
    // Rows of before there were checksums are the first ones.
    Ok(rows.key()?.filter(|_| all_have || chunks > 0).map_or(Ok(chunks), Err))
}

/// The rows of a query, of which the first is looked at before it is taken. Their first column is a number.
struct Peeked<'s> {
    rows: Rows<'s>,
}

impl<'s> Peeked<'s> {
    fn of(
        statement: &'s mut Statement<'_>,
        parameters: impl rusqlite::Params,
    ) -> rusqlite::Result<Peeked<'s>> {
        let mut peeked = Peeked { rows: statement.query(parameters)? };
        peeked.advance()?;
        Ok(peeked)
    }

    fn advance(&mut self) -> rusqlite::Result<()> {
        self.rows.advance()
    }

    fn key(&self) -> rusqlite::Result<Option<i64>> {
        self.rows.get().map(|row| row.get(0)).transpose()
    }

    fn with<T>(&self, look: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        self.rows.get().ok_or(rusqlite::Error::QueryReturnedNoRows).and_then(look)
    }
}
