//! A part: one Parquet file in each table, written store by store.

use super::GatherError;
use super::foreign::{self, Rows};
use super::generation::{Generations, Next};
use super::manifest::{PartRecord, StoreRecord};
use super::plan::Carried;
use crate::table::{self, Contents, Latencies, SCHEMA_VERSION, Table};
use arrow_array::cast::AsArray;
use arrow_array::{BooleanArray, RecordBatch};
use iopj_fabric::sha256;
use parquet::arrow::arrow_reader::{ArrowPredicateFn, ParquetRecordBatchReader, RowFilter};
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use std::collections::HashSet;
use std::fs::{self, File};
use std::path::PathBuf;

/// A row group is written out when it holds so much.
const GROUP_BYTES: usize = 64 << 20;

/// A part that is being written.
pub(super) struct PartWriter {
    part: PartRecord,
    files: Vec<TableFile>,
    /// Of all its stores; written at the end.
    latencies: Latencies,
}

struct TableFile {
    table: Table,
    path: PathBuf,
    writer: ArrowWriter<File>,
}

impl PartWriter {
    /// Makes the files of a part.
    pub(super) fn create(next: &Next, part: PartRecord) -> Result<PartWriter, GatherError> {
        let make = |table: Table| {
            let path = next.file(&part, table)?;
            let file = File::create(&path).map_err(|error| GatherError::Io { path: path.clone(), error })?;
            let made = ArrowWriter::try_new(file, table::schema(table), Some(properties(table)));
            let writer = made.map_err(|error| GatherError::Parquet { path: path.clone(), error })?;
            Ok(TableFile { table, path, writer })
        };
        let files = Table::ALL.into_iter().map(make).collect::<Result<_, GatherError>>()?;
        Ok(PartWriter { part, files, latencies: Latencies::default() })
    }

    /// Adds a store that was read.
    pub(super) fn add(&mut self, contents: &Contents, store: &StoreRecord) -> Result<(), GatherError> {
        for file in self.files.iter_mut().filter(|file| file.table != Table::Latencies) {
            file.add(&table::batch(contents, file.table), &mut self.latencies)?;
        }
        self.part.stores.push(store.clone());
        Ok(())
    }

    /// Adds stores of an old part.
    pub(super) fn copy(&mut self, from: &Generations, carried: &Carried) -> Result<(), GatherError> {
        for file in self.files.iter_mut().filter(|file| file.table != Table::Latencies) {
            let path = from.file(&carried.part, file.table);
            let refused = |error| GatherError::Parquet { path: path.clone(), error };
            for batch in rows(from, carried, file.table).map_err(refused)? {
                file.add(&batch.map_err(|error| refused(error.into()))?, &mut self.latencies)?;
            }
        }
        self.part.stores.extend(carried.stores.iter().cloned());
        Ok(())
    }

    /// Ends the files; `None`, and no files, if the part holds no store.
    pub(super) fn finish(mut self) -> Result<Option<PartRecord>, GatherError> {
        for mut file in self.files {
            if file.table == Table::Latencies {
                file.write(&self.latencies.batch())?;
            }
            let TableFile { table, path, writer } = file;
            let closed = writer.into_inner();
            closed.map_err(|error| GatherError::Parquet { path: path.clone(), error })?;
            if self.part.stores.is_empty() {
                fs::remove_file(&path).map_err(|error| GatherError::Io { path, error })?;
                continue;
            }
            let sum = File::open(&path).and_then(sha256).map_err(|error| GatherError::Io { path, error })?;
            self.part.sums.insert(table.name().to_owned(), sum);
        }
        Ok(Some(self.part).filter(|part| !part.stores.is_empty()))
    }
}

impl TableFile {
    /// Writes rows of stores, and adds up their histograms.
    fn add(&mut self, batch: &RecordBatch, latencies: &mut Latencies) -> Result<(), GatherError> {
        if self.table == Table::Histograms {
            latencies.add(batch);
        }
        self.write(batch)
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<(), GatherError> {
        let mut write = || {
            self.writer.write(batch)?;
            if self.writer.in_progress_size() > GROUP_BYTES { self.writer.flush() } else { Ok(()) }
        };
        write().map_err(|error| GatherError::Parquet { path: self.path.clone(), error })
    }
}

/// The rows of some stores of a part's table, in their order.
fn rows(from: &Generations, carried: &Carried, table: Table) -> Result<Rows, ParquetError> {
    let folder = from.current_folder();
    foreign::rows(&folder, (&carried.part, table), |asked| those_of(asked, carried))
}

fn those_of(asked: foreign::Asked, carried: &Carried) -> Result<ParquetRecordBatchReader, ParquetError> {
    if carried.stores.len() == carried.part.stores.len() {
        return asked.build();
    }
    let column = ProjectionMask::columns(asked.parquet_schema(), ["store"]);
    let wanted: HashSet<String> = carried.stores.iter().map(|store| store.id.clone()).collect();
    let is_wanted = ArrowPredicateFn::new(column, move |batch: RecordBatch| {
        let ids = batch.column(0).as_string::<i32>();
        Ok(ids.iter().map(|id| Some(id.is_some_and(|id| wanted.contains(id)))).collect::<BooleanArray>())
    });
    asked.with_row_filter(RowFilter::new(vec![Box::new(is_wanted)])).build()
}

/// Snappy, which all engines read; the version of the schema stands in each file.
fn properties(table: Table) -> WriterProperties {
    let entry = |name: &str, value: String| KeyValue::new(name.to_owned(), value);
    let metadata =
        vec![entry("iopj.table", table.to_string()), entry("iopj.schema", SCHEMA_VERSION.to_string())];
    WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_key_value_metadata(Some(metadata))
        .build()
}
