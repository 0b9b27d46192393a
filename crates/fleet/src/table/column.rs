//! Columns of a table: a name, and where its value stands in a row. Schema and record batch come from the
//! same list.

use arrow_array::builder::{BinaryBuilder, StringBuilder};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, TimestampMicrosecondArray,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use std::sync::Arc;

/// A column of rows `R`. A value that is not known is null.
pub(super) struct Column<R> {
    name: &'static str,
    is_key: bool,
    cell: Cell<R>,
}

/// Where a value stands in a row.
pub(super) enum Cell<R> {
    /// A text.
    Text(fn(&R) -> Option<String>),
    /// A count. Spark has no unsigned integers: above 2^63 - 1 it is that.
    Count(fn(&R) -> Option<u64>),
    /// A number.
    Number(fn(&R) -> Option<f64>),
    /// True or false.
    Flag(fn(&R) -> Option<bool>),
    /// Wall time of the world (UTC) in ns since 1970, kept in us: Spark knows no ns.
    Time(fn(&R) -> Option<u64>),
    /// Bytes.
    Bytes(fn(&R) -> Option<Vec<u8>>),
    /// Any other type, for all rows at once.
    Nested(fn() -> DataType, fn(&[R]) -> ArrayRef),
}

impl<R> Column<R> {
    /// A column whose value may be unknown.
    pub(super) const fn new(name: &'static str, cell: Cell<R>) -> Column<R> {
        Column { name, is_key: false, cell }
    }

    /// A column whose value is always there.
    pub(super) const fn key(name: &'static str, cell: Cell<R>) -> Column<R> {
        Column { name, is_key: true, cell }
    }

    fn field(&self) -> Field {
        let kind = match &self.cell {
            Cell::Text(_) => DataType::Utf8,
            Cell::Count(_) => DataType::Int64,
            Cell::Number(_) => DataType::Float64,
            Cell::Flag(_) => DataType::Boolean,
            Cell::Time(_) => DataType::Timestamp(TimeUnit::Microsecond, None),
            Cell::Bytes(_) => DataType::Binary,
            Cell::Nested(kind, _) => kind(),
        };
        Field::new(self.name, kind, !self.is_key)
    }

    fn array(&self, rows: &[R]) -> ArrayRef {
        match &self.cell {
            Cell::Text(of) => {
                let mut texts = StringBuilder::new();
                rows.iter().for_each(|row| texts.append_option(of(row)));
                Arc::new(texts.finish())
            }
            Cell::Count(of) => Arc::new(rows.iter().map(|row| of(row).map(signed)).collect::<Int64Array>()),
            Cell::Number(of) => Arc::new(rows.iter().map(of).collect::<Float64Array>()),
            Cell::Flag(of) => Arc::new(rows.iter().map(of).collect::<BooleanArray>()),
            Cell::Time(of) => {
                let us = |row| of(row).map(|ns| signed(ns / 1_000));
                Arc::new(rows.iter().map(us).collect::<TimestampMicrosecondArray>())
            }
            Cell::Bytes(of) => {
                let mut bytes = BinaryBuilder::new();
                rows.iter().for_each(|row| bytes.append_option(of(row)));
                Arc::new(bytes.finish())
            }
            Cell::Nested(_, all) => all(rows),
        }
    }
}

/// A count as Parquet's readers know it.
pub(super) fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The schema of these columns.
pub(super) fn schema<R>(columns: &[Column<R>]) -> SchemaRef {
    Arc::new(Schema::new(columns.iter().map(Column::field).collect::<Vec<_>>()))
}

/// The rows in these columns.
pub(super) fn batch<R>(columns: &[Column<R>], rows: &[R]) -> RecordBatch {
    let arrays: Vec<ArrayRef> = columns.iter().map(|column| column.array(rows)).collect();
    debug_assert!(arrays.iter().all(|array| array.len() == rows.len()));
    // Schema and arrays are of the same list, and keys are never null.
    RecordBatch::try_new(schema(columns), arrays).unwrap_or_else(|error| unreachable!("{error}"))
}
