//! The table of latencies: histograms of trials that compete, added up. SQL asks it for percentiles of a
//! fleet without reading every histogram.

use super::column::Cell::{Count, Text};
use super::column::{self, Column};
use super::histograms;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch};
use arrow_schema::SchemaRef;
use std::collections::BTreeMap;

/// What is added up by itself: workload, set-up, path and operation.
type Key = [String; 4];

/// Latencies of many trials, added up by bucket.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latencies(BTreeMap<Key, Vec<u64>>);

/// I/Os of one bucket.
struct LatencyRow<'a> {
    key: &'a Key,
    high_ns: u64,
    ios: u64,
}

impl Latencies {
    /// Adds rows of the table of histograms, of trials that compete.
    pub(crate) fn add(&mut self, histograms: &RecordBatch) {
        let texts = ["workload", "setup", "path", "op"]
            .map(|name| histograms.column_by_name(name).and_then(|one| one.as_string_opt::<i32>()));
        let competes = histograms.column_by_name("competes").and_then(|one| one.as_boolean_opt());
        let buckets = histograms.column_by_name("buckets").and_then(|one| one.as_list_opt::<i32>());
        let ([Some(workload), Some(setup), Some(path), Some(op)], Some(competes), Some(buckets)) =
            (texts, competes, buckets)
        else {
            unreachable!("the table of histograms has other columns")
        };
        for row in (0..histograms.num_rows()).filter(|row| competes.is_valid(*row) && competes.value(*row)) {
            let key = [workload, setup, path, op].map(|column| column.value(row).to_owned());
            let own = self.0.entry(key).or_default();
            let buckets = buckets.value(row);
            let columns = buckets.as_struct_opt().map(|one| one.columns()).unwrap_or_default();
            let [_, high, count] = columns else { unreachable!("a bucket has other fields") };
            let values = high.as_primitive::<Int64Type>().values().iter();
            for (high, count) in values.zip(count.as_primitive::<Int64Type>().values()) {
                let number = histograms::number(high.unsigned_abs());
                if own.len() <= number {
                    own.resize(number + 1, 0);
                }
                own[number] = own[number].saturating_add(count.unsigned_abs());
            }
        }
    }

    /// The rows of the table.
    pub(crate) fn batch(&self) -> RecordBatch {
        let mut rows = Vec::new();
        for (key, counts) in &self.0 {
            let counted = counts.iter().enumerate().filter(|(_, ios)| **ios > 0);
            rows.extend(counted.map(|(number, ios)| {
                let [_, high_ns] = histograms::ends(number);
                LatencyRow { key, high_ns, ios: *ios }
            }));
        }
        column::batch(&columns(), &rows)
    }
}

/// The schema of the table.
pub(super) fn schema() -> SchemaRef {
    column::schema(&columns())
}

fn columns<'a>() -> Vec<Column<LatencyRow<'a>>> {
    vec![
        Column::key("workload", Text(|l: &LatencyRow<'_>| Some(l.key[0].clone()))),
        Column::key("setup", Text(|l| Some(l.key[1].clone()))),
        Column::key("path", Text(|l| Some(l.key[2].clone()))),
        Column::key("op", Text(|l| Some(l.key[3].clone()))),
        Column::key("high_ns", Count(|l| Some(l.high_ns))),
        Column::key("ios", Count(|l| Some(l.ios))),
    ]
}
