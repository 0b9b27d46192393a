//! What a reader of a data set sees: every row of every table, as text.

use iopj_fleet::gather::{FILE, Gathered, Manifest, gather};
use iopj_fleet::table::{Contents, Kind, Table, batch};
use iopj_store::Store;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// A folder in memory where there is one: a store is synced with every trial.
pub(crate) fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("a folder")
}

/// Gathers one folder.
pub(crate) fn gathered(stores: &Path, dataset: &Path) -> Gathered {
    gather(&[stores.to_owned()], dataset, &|_, _| {}).expect("a data set")
}

/// All rows of a table with their partitions, sorted, found as a glob finds them.
pub(crate) fn rows(dataset: &Path, table: Table) -> Vec<String> {
    let mut rows = Vec::new();
    for file in files(&dataset.join(table.name())) {
        let partition =
            file.parent().and_then(|folder| folder.strip_prefix(dataset).ok()).expect("a partition");
        let builder =
            ParquetRecordBatchReaderBuilder::try_new(File::open(&file).expect("a part")).expect("Parquet");
        let metadata = builder.metadata().file_metadata().key_value_metadata().cloned().unwrap_or_default();
        assert!(metadata.iter().any(|one| one.key == "iopj.schema"), "{metadata:?}");
        for batch in builder.build().expect("a reader") {
            let batch = batch.expect("a batch");
            rows.extend(
                (0..batch.num_rows())
                    .map(|at| format!("{} {:?}", partition.display(), batch.slice(at, 1).columns())),
            );
        }
    }
    rows.sort();
    rows
}

/// The rows that a store makes, as [`rows`] shows them.
pub(crate) fn rows_of(store: &Path, table: Table) -> Vec<String> {
    let contents = Contents::read(&Store::open(store).expect("a store")).expect("its contents");
    let kind = iopj_fleet::gather::folder(&Kind::of(&contents.study));
    let batch = batch(&contents, table);
    let row = |at| format!("{}/{} {:?}", table, kind.display(), batch.slice(at, 1).columns());
    (0..batch.num_rows()).map(row).collect()
}

/// Every Parquet file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { files.extend(self::files(&path)) } else { files.push(path) }
    }
    files
}

/// All stores below a folder.
pub(crate) fn stores(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.extension() {
            None if path.is_dir() => found.extend(stores(&path)),
            Some(extension) if extension == "iopj" => {
                found.insert(path);
            }
            _ => {}
        }
    }
    found
}

/// Checks that every table has exactly the rows of these stores.
pub(crate) fn hold(dataset: &Path, stores: &BTreeSet<PathBuf>) {
    for table in Table::ALL {
        let mut expected: Vec<String> = stores.iter().flat_map(|store| rows_of(store, table)).collect();
        expected.sort();
        let found = rows(dataset, table);
        assert_eq!(found.len(), expected.len(), "{table}");
        assert!(found == expected, "{table}");
    }
}

/// What the data set says that it has, by file.
pub(crate) fn listed(dataset: &Path) -> BTreeMap<PathBuf, String> {
    let text = fs::read_to_string(dataset.join(FILE)).expect("a list of parts");
    let manifest: Manifest = serde_json::from_str(&text).expect("JSON");
    manifest.stores().map(|store| (store.file.clone(), store.id.clone())).collect()
}
