//! What a reader of a data set sees: every row of every table.

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
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

/// The rows of a table, by partition and store, found as a glob finds them. No store is there twice.
pub(crate) fn rows(dataset: &Path, table: Table) -> BTreeMap<(PathBuf, String), RecordBatch> {
    let mut found = BTreeMap::new();
    for file in files(&dataset.join(table.name())) {
        let partition =
            file.parent().and_then(|folder| folder.strip_prefix(dataset).ok()).expect("a partition");
        let builder =
            ParquetRecordBatchReaderBuilder::try_new(File::open(&file).expect("a part")).expect("Parquet");
        let metadata = builder.metadata().file_metadata().key_value_metadata().cloned().unwrap_or_default();
        assert!(metadata.iter().any(|one| one.key == "iopj.schema"), "{metadata:?}");
        // One batch a file, so that no store is cut.
        for batch in builder.with_batch_size(1 << 20).build().expect("a reader") {
            for (store, rows) in by_store(&batch.expect("a batch")) {
                let twice = found.insert((partition.to_owned(), store), rows);
                assert!(twice.is_none(), "{table}: a store is there twice");
            }
        }
    }
    found
}

/// A batch cut where the store changes.
fn by_store(batch: &RecordBatch) -> Vec<(String, RecordBatch)> {
    let ids = batch.column_by_name("store").expect("a store").as_string::<i32>();
    let mut begin = 0;
    let mut cut = Vec::new();
    for end in 1..=batch.num_rows() {
        if end == batch.num_rows() || ids.value(end) != ids.value(begin) {
            cut.push((ids.value(begin).to_owned(), batch.slice(begin, end - begin)));
            begin = end;
        }
    }
    cut
}

/// How many rows there are.
pub(crate) fn count(dataset: &Path, table: Table) -> usize {
    rows(dataset, table).values().map(RecordBatch::num_rows).sum()
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
    let read = |store: &PathBuf| Contents::read(&Store::open(store).expect("a store")).expect("its contents");
    let stores: Vec<Contents> = stores.iter().map(read).collect();
    hold_latencies(dataset, &stores);
    for table in Table::ALL.into_iter().filter(|table| *table != Table::Latencies) {
        let rows_of = |store: &Contents| {
            let partition = Path::new(table.name()).join(iopj_fleet::gather::folder(&Kind::of(&store.study)));
            ((partition, store.id.clone()), batch(store, table))
        };
        let expected = stores.iter().map(rows_of).filter(|(_, rows)| rows.num_rows() > 0);
        let expected: BTreeMap<(PathBuf, String), RecordBatch> = expected.collect();
        let found = rows(dataset, table);
        assert!(found.keys().eq(expected.keys()), "{table}: {:?}", found.keys());
        for (place, rows) in &found {
            // What Parquet keeps of a schema besides its fields is of no interest.
            assert!(rows.columns() == expected[place].columns(), "{table}: {place:?}");
            assert_eq!(rows.schema().fields(), iopj_fleet::table::schema(table).fields());
        }
    }
}

/// I/Os by partition, by set-up, path and operation, and by bucket.
type Latencies = BTreeMap<(PathBuf, Vec<String>, i64), i64>;

/// Checks that latencies are those of these stores added up, by whichever parts.
fn hold_latencies(dataset: &Path, stores: &[Contents]) {
    let mut expected = Latencies::new();
    for store in stores {
        let partition = iopj_fleet::gather::folder(&Kind::of(&store.study));
        add_histograms(&mut expected, &partition, &batch(store, Table::Histograms));
    }
    let mut found = Latencies::new();
    let folder = dataset.join("latencies");
    for file in files(&folder) {
        let partition = file.parent().and_then(|at| at.strip_prefix(&folder).ok()).expect("a partition");
        let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(&file).expect("a part"));
        for batch in builder.and_then(|builder| builder.build()).expect("Parquet") {
            add(&mut found, partition, &batch.expect("a batch"));
        }
    }
    assert!(found == expected, "{} buckets against {}", found.len(), expected.len());
}

fn add(to: &mut Latencies, partition: &Path, batch: &RecordBatch) {
    let count = |name| batch.column_by_name(name).unwrap().as_primitive::<Int64Type>();
    let (high, ios) = (count("high_ns"), count("ios"));
    for row in 0..batch.num_rows() {
        *to.entry((partition.to_owned(), key(batch, row), high.value(row))).or_default() += ios.value(row);
    }
}

fn add_histograms(to: &mut Latencies, partition: &Path, batch: &RecordBatch) {
    let competes = batch.column_by_name("competes").unwrap().as_boolean();
    let buckets = batch.column_by_name("buckets").unwrap().as_list::<i32>();
    for row in (0..batch.num_rows()).filter(|row| competes.value(*row)) {
        let buckets = buckets.value(row);
        let of = |name| buckets.as_struct().column_by_name(name).unwrap().as_primitive::<Int64Type>();
        for (high, count) in of("high_ns").values().iter().zip(of("count").values()) {
            *to.entry((partition.to_owned(), key(batch, row), *high)).or_default() += count;
        }
    }
}

/// Set-up, path and operation.
fn key(batch: &RecordBatch, row: usize) -> Vec<String> {
    let text = |name| batch.column_by_name(name).unwrap().as_string::<i32>().value(row).to_owned();
    ["setup", "path", "op"].map(text).to_vec()
}

/// What the data set says that it has, by file.
pub(crate) fn listed(dataset: &Path) -> BTreeMap<PathBuf, String> {
    let text = fs::read_to_string(dataset.join(FILE)).expect("a list of parts");
    let manifest: Manifest = serde_json::from_str(&text).expect("JSON");
    manifest.stores().map(|store| (store.file.clone(), store.id.clone())).collect()
}
