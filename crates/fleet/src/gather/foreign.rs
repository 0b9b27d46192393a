//! Files of parts that others may have written, or damaged: each is as its gather wrote it, or an error.

use super::manifest::PartRecord;
use crate::table::{self, Table};
use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use iopj_core::files::open_regular;
use iopj_fabric::sha256;
use parquet::arrow::arrow_reader::{ArrowReaderBuilder, ParquetRecordBatchReader, SyncReader};
use parquet::errors::ParquetError;
use std::cell::Cell;
use std::fs::File;
use std::io::Seek;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Once;

/// What is to be read of a file.
pub(crate) type Asked = ArrowReaderBuilder<SyncReader<File>>;

/// The rows of a part in a table of a generation, as `ask` wants them: of a file of the generation, which
/// still is as it was written, with the table's columns. What nobody summed up is taken as it is.
pub(crate) fn rows(
    generation: &Path,
    (part, table): (&PartRecord, Table),
    ask: impl FnOnce(Asked) -> Result<ParquetRecordBatchReader, ParquetError>,
) -> Result<Rows, ParquetError> {
    let path = generation.join(part.file(table));
    let file = open_regular(&path)?;
    if !is_inside(&path, generation) {
        return Err(ParquetError::General("a link leads out of the data set".to_owned()));
    }
    rows_of(file, part.sum(table), &table::schema(table), ask)
}

fn rows_of(
    mut file: File,
    sum: Option<&str>,
    schema: &SchemaRef,
    ask: impl FnOnce(Asked) -> Result<ParquetRecordBatchReader, ParquetError>,
) -> Result<Rows, ParquetError> {
    if sum.is_some_and(|sum| !sha256(&file).is_ok_and(|now| now == sum)) {
        return Err(ParquetError::General("it is damaged: its checksum is another one".to_owned()));
    }
    file.rewind()?;
    let open = || {
        let asked = Asked::try_new(file)?;
        has_columns(&asked, schema)?;
        ask(asked)
    };
    guarded(open)?.map(|reader| Rows(Some(reader)))
}

/// Whether a path leads to something below a folder, whatever links are on the way.
pub(crate) fn is_inside(path: &Path, folder: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    real(path).zip(real(folder)).is_some_and(|(path, folder)| path.starts_with(folder))
}

fn has_columns(asked: &Asked, wanted: &SchemaRef) -> Result<(), ParquetError> {
    let types = |schema: &SchemaRef| -> Vec<_> {
        schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect()
    };
    match types(wanted) == types(asked.schema()) {
        true => Ok(()),
        false => Err(ParquetError::General("it is damaged: its columns are others".to_owned())),
    }
}

/// The rows of a file, batch by batch, until one is damaged.
pub(crate) struct Rows(Option<ParquetRecordBatchReader>);

impl Iterator for Rows {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let reader = self.0.as_mut()?;
        let batch = guarded(|| reader.next()).unwrap_or_else(|error| Some(Err(error.into())));
        if !matches!(batch, Some(Ok(_))) {
            self.0 = None;
        }
        batch
    }
}

thread_local! {
    /// This thread reads what others wrote.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// The library's reader panics at some damaged files. What it was at is not used any more.
fn guarded<T>(read: impl FnOnce() -> T) -> Result<T, ParquetError> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let loud = panic::take_hook();
        panic::set_hook(Box::new(move |panicked| {
            if !GUARDED.get() {
                loud(panicked);
            }
        }));
    });
    GUARDED.set(true);
    let read = catch_unwind(AssertUnwindSafe(read));
    GUARDED.set(false);
    read.map_err(|_| ParquetError::General("it is damaged".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Int64Array;
    use parquet::arrow::ArrowWriter;
    use std::fs;
    use std::sync::Arc;

    /// One flipped bit in some hundreds made the library panic; others changed figures.
    #[test]
    fn a_flipped_bit_is_an_error_and_never_a_panic() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("part-1-0.parquet");
        let column = Arc::new(Int64Array::from_iter_values((0..100).map(|row| row % 7)));
        let batch = RecordBatch::try_from_iter([("figure", column as _)]).unwrap();
        let mut writer = ArrowWriter::try_new(File::create(&path).unwrap(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let sum = sha256(File::open(&path).unwrap()).unwrap();
        let read = |sum| {
            let rows = rows_of(File::open(&path)?, sum, &batch.schema(), |asked| asked.build())?;
            rows.collect::<Result<Vec<_>, _>>().map_err(ParquetError::from)
        };
        assert_eq!(read(Some(&sum)).unwrap(), std::slice::from_ref(&batch));
        let whole = fs::read(&path).unwrap();
        let mut refused = 0;
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            fs::write(&path, &damaged).unwrap();
            let error = read(Some(&sum)).unwrap_err().to_string();
            assert!(error.contains("its checksum is another one"), "{error}");
            refused += u32::from(read(None).is_err());
        }
        assert!(refused > 0);
        fs::write(&path, &whole).unwrap();
        let other =
            rows_of(File::open(&path).unwrap(), None, &table::schema(Table::Trials), |asked| asked.build());
        assert!(other.err().is_some_and(|error| error.to_string().contains("its columns are others")));
    }

    #[test]
    fn a_reader_that_panics_is_an_error() {
        let error = guarded(|| panic!("a decoder should have been set")).unwrap_err();
        assert!(error.to_string().contains("it is damaged"), "{error}");
        assert!(!GUARDED.get());
    }
}
