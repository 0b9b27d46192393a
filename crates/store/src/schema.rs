//! The tables of a store, and the migrations that bring an older one forward.

use rusqlite::Connection;
use std::collections::BTreeSet;

/// `PRAGMA application_id` of a store: "iopj" in ASCII.
pub(crate) const APPLICATION_ID: i32 = 0x696f_706a;

/// Each step brings a store from the schema of its index to the next.
const MIGRATIONS: [&str; 7] = [
    "
    CREATE TABLE study (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        name TEXT NOT NULL,
        text TEXT NOT NULL,          -- the study as TOML
        record TEXT NOT NULL         -- the whole record as JSON
    ) STRICT;
    CREATE TABLE trial (
        id INTEGER PRIMARY KEY,
        path TEXT NOT NULL,
        workload TEXT NOT NULL,      -- JSON
        settings TEXT NOT NULL,      -- JSON
        generator TEXT NOT NULL,
        replicate INTEGER NOT NULL,
        position INTEGER NOT NULL,
        started_unix_ns INTEGER NOT NULL,
        gap_ns INTEGER,
        error TEXT,                  -- of a trial that failed
        verdict TEXT,                -- of a trial that was measured, as all that follows
        iops REAL,
        latency_ns_mean REAL,
        latency_ns_p50 INTEGER,
        latency_ns_p99 INTEGER,
        latency_ns_p99_9 INTEGER,
        measurement TEXT,            -- the whole measurement as JSON
        UNIQUE (path, workload, settings, generator, replicate),
        CHECK ((error IS NULL) <> (measurement IS NULL))
    ) STRICT;
    CREATE TABLE histogram (
        trial INTEGER NOT NULL REFERENCES trial (id),
        op TEXT NOT NULL CHECK (op IN ('all', 'read', 'write')),
        v2 BLOB NOT NULL,            -- HdrHistogram V2
        PRIMARY KEY (trial, op)
    ) STRICT;
    CREATE TABLE slice (
        trial INTEGER NOT NULL REFERENCES trial (id),
        end_ns INTEGER NOT NULL,
        ios INTEGER NOT NULL,
        PRIMARY KEY (trial, end_ns)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE event (
        unix_ns INTEGER NOT NULL,
        kind TEXT NOT NULL,
        detail TEXT NOT NULL
    ) STRICT;
",
    "
    CREATE TABLE profile (
        trial INTEGER PRIMARY KEY REFERENCES trial (id),
        source TEXT NOT NULL,        -- JSON
        kinds TEXT NOT NULL          -- JSON
    ) STRICT;
    CREATE TABLE cost (
        trial INTEGER NOT NULL REFERENCES profile (trial),
        kernel INTEGER NOT NULL,     -- 0 for user space
        function TEXT NOT NULL,
        module TEXT,
        directory TEXT,
        calls INTEGER NOT NULL,
        instructions INTEGER NOT NULL,
        loads INTEGER NOT NULL,
        stores INTEGER NOT NULL,
        cpu_ns INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX cost_trial ON cost (trial);
    CREATE TABLE session (           -- a run, a resumption of it: raw times of two sessions may be of two \
     boots
        id INTEGER PRIMARY KEY,
        boot TEXT NOT NULL,
        unix_minus_raw_ns INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE meter (
        id INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES session (id),
        name TEXT NOT NULL,
        record TEXT NOT NULL,        -- JSON: kind, interval, clock, channels
        UNIQUE (session, name)
    ) STRICT;
    CREATE TABLE reading (
        meter INTEGER NOT NULL REFERENCES meter (id),
        channel INTEGER NOT NULL,    -- index into the record's channels
        count INTEGER,               -- of a counter
        watts REAL,                  -- of a gauge
        begin_ns INTEGER NOT NULL,   -- CLOCK_MONOTONIC_RAW
        end_ns INTEGER NOT NULL,
        wall_ns INTEGER NOT NULL,    -- since 1970
        own_ns INTEGER,              -- the meter's own time
        CHECK ((count IS NULL) <> (watts IS NULL))
    ) STRICT;
    CREATE INDEX reading_meter ON reading (meter);
    CREATE TABLE mark (
        session INTEGER NOT NULL REFERENCES session (id),
        kind TEXT NOT NULL CHECK (kind IN ('load', 'idle', 'pattern')),
        position INTEGER,            -- of a load's trial
        times_ns TEXT NOT NULL       -- JSON: CLOCK_MONOTONIC_RAW in order
    ) STRICT;
    CREATE TABLE energy (
        trial INTEGER NOT NULL REFERENCES trial (id),
        meter TEXT NOT NULL,
        scope TEXT NOT NULL,
        joules REAL,
        watts REAL,
        record TEXT NOT NULL,        -- the whole as JSON
        PRIMARY KEY (trial, meter, scope)
    ) STRICT;
",
    "
    CREATE TABLE repeat (            -- a block that is measured again: a block is a replicate
        block INTEGER PRIMARY KEY,   -- the replicate of the trials that repeat it
        replaces INTEGER NOT NULL UNIQUE, -- the replicate that they replace once all of them are there
        trials INTEGER NOT NULL,     -- how many they are
        batch INTEGER NOT NULL       -- which were planned at once, from 0
    ) STRICT;
",
    "
    CREATE TABLE target_profile (    -- of the target host, as `profile` is of the host
        trial INTEGER PRIMARY KEY REFERENCES trial (id),
        source TEXT NOT NULL,
        kinds TEXT NOT NULL
    ) STRICT;
    CREATE TABLE target_cost (
        trial INTEGER NOT NULL REFERENCES target_profile (trial),
        kernel INTEGER NOT NULL,
        function TEXT NOT NULL,
        module TEXT,
        directory TEXT,
        calls INTEGER NOT NULL,
        instructions INTEGER NOT NULL,
        loads INTEGER NOT NULL,
        stores INTEGER NOT NULL,
        cpu_ns INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX target_cost_trial ON target_cost (trial);
    CREATE TABLE network (           -- the network between two hosts by itself
        block INTEGER NOT NULL,      -- the replicate that it was measured before
        record TEXT NOT NULL         -- JSON
    ) STRICT;
",
    "
    CREATE TABLE watch (             -- of a store that holds no study
        id INTEGER PRIMARY KEY CHECK (id = 1),
        subject TEXT NOT NULL,       -- in words
        record TEXT NOT NULL         -- the whole as JSON
    ) STRICT;
    CREATE TABLE watch_interval (
        end_ns INTEGER PRIMARY KEY,  -- since the watch began
        record TEXT NOT NULL         -- JSON
    ) STRICT;
",
    "
    ALTER TABLE energy ADD COLUMN rules INTEGER NOT NULL DEFAULT 0; -- the version that computed the joules
    CREATE INDEX mark_position ON mark (position);
",
    "
    CREATE TABLE checksum (          -- of all that a figure comes from
        kind TEXT NOT NULL,          -- of the rows, such as `trial`
        key INTEGER NOT NULL,        -- the number that they share; of readings, their first row
        rows INTEGER NOT NULL,       -- how many they are
        sha256 BLOB NOT NULL,        -- over their values
        PRIMARY KEY (kind, key)
    ) STRICT, WITHOUT ROWID;
",
];

/// Tables whose rows are found by an index. No checksum covers an index, so rows are held against their
/// checksums by the index by which they are read: one that leads to other rows is found.
pub(crate) const HISTOGRAM: &str = "histogram INDEXED BY sqlite_autoindex_histogram_1";
pub(crate) const ENERGY: &str = "energy INDEXED BY sqlite_autoindex_energy_1";
pub(crate) const COST: &str = "cost INDEXED BY cost_trial";
pub(crate) const TARGET_COST: &str = "target_cost INDEXED BY target_cost_trial";

/// Since this schema, all that was added is tables.
const ONLY_TABLES_SINCE: i32 = 6;

/// Gives a connection to a store of schema `from` the tables that it lacks, in memory and empty, so that the
/// store need not be copied; false, and nothing done, if tables would do not.
pub(crate) fn lend_tables(connection: &Connection, from: i32) -> rusqlite::Result<bool> {
    if from < ONLY_TABLES_SINCE {
        return Ok(false);
    }
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    for step in &MIGRATIONS[from as usize..] {
        connection.execute_batch(&step.replace("CREATE TABLE", "CREATE TEMP TABLE"))?;
    }
    Ok(true)
}

/// How a store's tables differ from those of its schema's version, in words: a view or a trigger of another's
/// would be asked in their place, and never end. Before the first query of them.
pub(crate) fn difference(connection: &Connection, version: i32) -> rusqlite::Result<Option<String>> {
    let mut ours = Connection::open_in_memory()?;
    migrate_to(&mut ours, 0, version)?;
    let (ours, theirs) = (objects(&ours)?, objects(connection)?);
    let lacking = ours.iter().find(|object| !theirs.contains(*object));
    let foreign = theirs.iter().find(|object| !ours.contains(*object));
    Ok(match (lacking, foreign) {
        (None, None) => None,
        (_, Some(Object { kind, name, .. })) => {
            let (kind, name) = (kind.escape_debug(), name.escape_debug());
            Some(format!(
                "its {kind} `{name}` is not as iopj makes it: it is damaged, or somebody changed it"
            ))
        }
        (Some(Object { kind, name, .. }), None) => {
            Some(format!("it lacks the {kind} `{name}`: it is damaged, or somebody changed it"))
        }
    })
}

/// What a schema holds.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Object {
    kind: String,
    name: String,
    table: String,
    sql: String,
}

/// The objects of a schema, but those that SQLite makes itself.
fn objects(connection: &Connection) -> rusqlite::Result<BTreeSet<Object>> {
    let select = format!(
        "SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' \
         ESCAPE '\\' LIMIT {MOST_OBJECTS}"
    );
    let mut select = connection.prepare(&select)?;
    let rows = select.query_map([], |row| {
        let sql: String = row.get(3)?;
        Ok(Object { kind: row.get(0)?, name: row.get(1)?, table: row.get(2)?, sql: words(&sql) })
    })?;
    rows.collect()
}

/// A statement without comments, its words apart by one blank: how it is laid out has changed.
fn words(sql: &str) -> String {
    let lines = sql.lines().map(|line| line.split("--").next().unwrap_or_default());
    lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

/// More than any store has.
const MOST_OBJECTS: u32 = 1_000;

/// The schema that this program writes.
pub(crate) const VERSION: i32 = MIGRATIONS.len() as i32;

/// Brings a store of schema `from` to [`VERSION`], in one transaction.
pub(crate) fn migrate(connection: &mut Connection, from: i32) -> rusqlite::Result<()> {
    migrate_to(connection, from, VERSION)
}

fn migrate_to(connection: &mut Connection, from: i32, to: i32) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    for step in &MIGRATIONS[from.max(0) as usize..to as usize] {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "user_version", to)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.commit()
}
