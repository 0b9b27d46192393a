//! The tables of stores as Arrow schemas and record batches: the one definition for the Parquet data set and
//! for everything else that hands tables on.
//!
//! ```
//! # fn show(store: &iopj_store::Store) -> Result<(), iopj_store::StoreError> {
//! use iopj_fleet::table::{Table, batches};
//! for batch in batches(store, Table::Trials)? {
//!     println!("{} rows of {} columns", batch.num_rows(), batch.num_columns());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! `store` and `position` name a trial in every table of trials. A figure that was not measured is null, as
//! are the times of emulated studies, which mean nothing. Counts are signed, wall time is UTC without a zone.

mod column;
mod contents;
mod costs;
mod energy;
mod evidence;
mod histograms;
mod latencies;
mod row;
mod series;
mod setup;
mod stores;
mod trials;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
pub use contents::{Contents, Head, Kind, UNKNOWN};
use iopj_store::{Store, StoreError};
pub(crate) use latencies::Latencies;
use row::{Row, measured, rows};
use std::fmt;

/// The version of all schemas together. It changes with any column.
pub const SCHEMA_VERSION: u32 = 2;

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// One row a store: machine, drive, kernel, study.
    Stores,
    /// One row a trial: what was asked for, what was seen, figures.
    Trials,
    /// One row a histogram of latencies: encoded, and as buckets that SQL can add up.
    Histograms,
    /// One row a set-up, path, operation and bucket: I/Os of all trials of a part that compete.
    Latencies,
    /// One row a slice of a trial's window: I/Os over time.
    Series,
    /// One row a reading of a meter's channel.
    Power,
    /// One row a measured trial: raw counts, and all evidence as JSON.
    Evidence,
    /// One row a trial, meter and scope: joules.
    Energy,
    /// One row a trial and function: instructions, loads, stores.
    Costs,
}

impl Table {
    /// All tables.
    pub const ALL: [Table; 9] = [
        Table::Stores,
        Table::Trials,
        Table::Histograms,
        Table::Latencies,
        Table::Series,
        Table::Power,
        Table::Evidence,
        Table::Energy,
        Table::Costs,
    ];

    /// Its name, which is that of its folder in a data set.
    pub fn name(self) -> &'static str {
        match self {
            Table::Stores => "stores",
            Table::Trials => "trials",
            Table::Histograms => "histograms",
            Table::Latencies => "latencies",
            Table::Series => "series",
            Table::Power => "power",
            Table::Evidence => "evidence",
            Table::Energy => "energy",
            Table::Costs => "costs",
        }
    }

    /// The table of this name.
    pub fn named(name: &str) -> Option<Table> {
        Table::ALL.into_iter().find(|table| table.name() == name)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The schema of a table.
pub fn schema(table: Table) -> SchemaRef {
    match table {
        Table::Stores => column::schema(&stores::columns()),
        Table::Trials => column::schema(&trials::columns()),
        Table::Histograms => column::schema(&histograms::columns()),
        Table::Latencies => latencies::schema(),
        Table::Series => column::schema(&series::slices()),
        Table::Power => column::schema(&series::readings()),
        Table::Evidence => column::schema(&evidence::columns()),
        Table::Energy => column::schema(&energy::columns()),
        Table::Costs => column::schema(&costs::columns()),
    }
}

/// The rows of a store in a table.
///
/// # Errors
/// A record of the store cannot be read, or it holds a watch and no study.
pub fn batches(store: &Store, table: Table) -> Result<Vec<RecordBatch>, StoreError> {
    Ok(vec![batch(&Contents::read(store)?, table)])
}

/// The same of a store that was read already.
pub fn batch(contents: &Contents, table: Table) -> RecordBatch {
    match table {
        Table::Stores => column::batch(&stores::columns(), &[contents]),
        Table::Trials => column::batch(&trials::columns(), &rows(contents)),
        Table::Histograms => column::batch(&histograms::columns(), &histograms::rows(contents)),
        Table::Latencies => {
            let mut latencies = Latencies::default();
            latencies.add(&batch(contents, Table::Histograms));
            latencies.batch()
        }
        Table::Series => column::batch(&series::slices(), &series::slice_rows(contents)),
        Table::Power => column::batch(&series::readings(), &series::reading_rows(contents)),
        Table::Evidence => column::batch(&evidence::columns(), &measured(contents)),
        Table::Energy => column::batch(&energy::columns(), &energy::rows(contents)),
        Table::Costs => column::batch(&costs::columns(), &costs::rows(contents)),
    }
}
