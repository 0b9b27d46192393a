//! The table of histograms: HdrHistogram's V2 encoding as it was stored, and buckets that SQL adds up.

use super::Row;
use super::column::Cell::{Bytes, Count, Flag, Nested, Text};
use super::column::{Column, signed};
use super::contents::Contents;
use super::measured;
use arrow_array::{ArrayRef, Int64Array, ListArray, StructArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field, Fields};
use iopj_record::{Latency, histogram};
use std::sync::Arc;

/// The latencies of a trial's reads, of its writes, or of all.
pub(super) struct HistogramRow<'a> {
    row: Row<'a>,
    op: &'static str,
    latency: &'a Latency,
}

/// The histograms of all trials whose times mean something.
pub(super) fn rows(contents: &Contents) -> Vec<HistogramRow<'_>> {
    let mut found = Vec::new();
    for row in measured(contents) {
        let Some(one) = row.timed() else { continue };
        let ops = [
            ("all", one.known_latency()),
            ("read", one.read_latency.as_ref()),
            ("write", one.write_latency.as_ref()),
        ];
        for (op, latency) in ops {
            let latency = latency.filter(|latency| !latency.histogram.is_empty());
            found.extend(latency.map(|latency| HistogramRow { row, op, latency }));
        }
    }
    found
}

pub(super) fn columns<'a>() -> Vec<Column<HistogramRow<'a>>> {
    vec![
        Column::key("store", Text(|r: &HistogramRow<'_>| Some(r.row.store()))),
        Column::key("position", Count(|r| Some(r.row.trial.position))),
        Column::key("op", Text(|r| Some(r.op.to_owned()))),
        Column::new("path", Text(|r| Some(r.row.trial.path.to_string()))),
        Column::new("workload", Text(|r| Some(r.row.trial.workload.title()))),
        Column::new("setup", Text(|r| Some(r.row.setup()))),
        Column::new("verdict", Text(|r| r.row.verdict())),
        Column::new("competes", Flag(|r| Some(r.row.competes()))),
        Column::new("ios", Count(|r| Some(r.latency.count))),
        Column::new("v2", Bytes(|r| Some(r.latency.histogram.clone()))),
        Column::new("buckets", Nested(buckets_type, buckets)),
    ]
}

/// Bits of a bucket's lower end that count, after the first one: a bucket is at most 1/128 of it wide.
const BITS: u32 = 7;

/// The number of a value's bucket, from 0. Buckets are the same of every histogram, so those of several can
/// be added.
pub(super) fn number(value: u64) -> usize {
    let shift = (u64::BITS - 1 - value.max(1).leading_zeros()).saturating_sub(BITS);
    ((shift as usize) << BITS) + (value >> shift) as usize
}

/// Both ends of a bucket, included.
pub(super) fn ends(number: usize) -> [u64; 2] {
    // The first two times 128 values have a bucket each; then 128 buckets share each power of two.
    let shift = (number >> BITS).saturating_sub(1);
    let low = ((number - (shift << BITS)) as u64) << shift;
    [low, low | ((1 << shift) - 1)]
}

fn fields() -> Fields {
    let field = |name| Field::new(name, DataType::Int64, false);
    Fields::from(vec![field("low_ns"), field("high_ns"), field("count")])
}

fn item() -> Arc<Field> {
    Arc::new(Field::new("element", DataType::Struct(fields()), false))
}

fn buckets_type() -> DataType {
    DataType::List(item())
}

/// The buckets of all rows that hold a value. One that cannot be decoded has none.
fn buckets(rows: &[HistogramRow<'_>]) -> ArrayRef {
    let (mut lows, mut highs, mut counts): (Vec<i64>, Vec<i64>, Vec<i64>) = Default::default();
    let mut lengths = Vec::with_capacity(rows.len());
    for row in rows {
        let before = lows.len();
        let decoded = histogram::decode(&row.latency.histogram);
        for bin in decoded.iter().flat_map(|decoded| decoded.iter_recorded()) {
            let [low, high] = ends(number(bin.value_iterated_to())).map(signed);
            let count = signed(bin.count_at_value());
            match counts.last_mut().filter(|_| lows.len() > before && lows.last() == Some(&low)) {
                Some(last) => *last += count,
                None => {
                    lows.push(low);
                    highs.push(high);
                    counts.push(count);
                }
            }
        }
        lengths.push(lows.len() - before);
    }
    let arrays = [lows, highs, counts].map(|values| Arc::new(Int64Array::from(values)) as ArrayRef);
    let structs = StructArray::new(fields(), arrays.to_vec(), None);
    Arc::new(ListArray::new(item(), OffsetBuffer::from_lengths(lengths), Arc::new(structs), None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_everything_without_overlap_and_are_narrow() {
        let mut value = 0;
        for at in 0.. {
            let [low, high] = ends(at);
            assert!(low == value && high >= low, "{low} {high}");
            assert!((high - low + 1) as f64 <= (low.max(128) as f64) / 128.0, "{low} {high}");
            assert_eq!([number(low), number(high)], [at; 2]);
            let Some(next) = high.checked_add(1) else { return };
            value = next;
        }
    }
}
