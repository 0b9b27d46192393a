//! The tables of a report as Parquet, for pandas, DuckDB and Spark: one row per cell, columns as in the CSV.

use super::results::{CELL, HOST_SOURCES, NUMBERS, Number, SOURCES, Text, WORKLOAD};
use super::two_hosts;
use iopj_analysis::{CellRow, WorkloadTable};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::io::Write;
use std::sync::Arc;

/// Writes all rows of all tables. A figure that was not measured is null, as are the times of emulated
/// tables.
///
/// # Errors
/// The writer's error.
pub fn parquet<W: Write + Send>(tables: &[WorkloadTable], out: W) -> Result<(), ParquetError> {
    let texts: Vec<&Text> = CELL.iter().chain(&HOST_SOURCES).chain(&SOURCES).collect();
    let numbers: Vec<(&str, &Number)> = NUMBERS.iter().filter_map(|one| Some((one.name?, one))).collect();
    let hosts = two_hosts::columns();
    let names = WORKLOAD.iter().map(|(name, _)| *name).chain(numbers.iter().map(|(name, _)| *name));
    let names = names.chain(hosts.iter().map(|one| one.name.as_str()));
    let mut schema = String::from("message report {\n");
    texts.iter().for_each(|one| schema += &format!("required binary {} (UTF8);\n", one.name));
    names.for_each(|name| schema += &format!("optional double {name};\n"));
    schema.push('}');
    let schema = Arc::new(parse_message_type(&schema)?);
    let rows: Vec<(&WorkloadTable, &CellRow)> =
        tables.iter().flat_map(|table| table.rows.iter().map(move |row| (table, row))).collect();
    let mut writer = SerializedFileWriter::new(out, schema, Arc::new(WriterProperties::default()))?;
    let mut group = writer.next_row_group()?;
    let mut index = 0;
    while let Some(mut column) = group.next_column()? {
        match column.untyped() {
            ColumnWriter::ByteArrayColumnWriter(_) => {
                let values: Vec<ByteArray> =
                    rows.iter().map(|(table, row)| (texts[index].text)(table, row).as_str().into()).collect();
                column.typed::<ByteArrayType>().write_batch(&values, None, None)?;
            }
            _ => {
                let value = |(table, row): &(&WorkloadTable, &CellRow)| {
                    let place = index - texts.len();
                    if let Some((_, value)) = WORKLOAD.get(place) {
                        return value(&table.workload);
                    }
                    let place = place - WORKLOAD.len();
                    match numbers.get(place) {
                        Some((_, number)) => (number.value)(row),
                        None => hosts[place - numbers.len()].value(row),
                    }
                };
                let figures: Vec<Option<f64>> = rows.iter().map(value).collect();
                let present: Vec<i16> = figures.iter().map(|figure| i16::from(figure.is_some())).collect();
                let values: Vec<f64> = figures.into_iter().flatten().collect();
                column.typed::<DoubleType>().write_batch(&values, Some(&present), None)?;
            }
        }
        column.close()?;
        index += 1;
    }
    group.close()?;
    writer.close().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_analysis::testing::row;
    use iopj_core::Workload;
    use parquet::file::reader::{FileReader, SerializedFileReader};

    #[test]
    fn what_was_written_is_read_back() {
        let rows = vec![row("libaio/syscall/interrupt", 1000.0), row("io_uring/syscall/poll", 2000.0)];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.parquet");
        parquet(
            &[WorkloadTable { workload: Workload::default(), emulated: None, rows }],
            std::fs::File::create(&path).unwrap(),
        )
        .unwrap();
        let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
        let rows: Vec<String> =
            reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
        assert_eq!(rows.len(), 2);
        assert!(
            rows[0].contains("path: \"libaio/syscall/interrupt\"") && rows[0].contains("iops: 1000.0"),
            "{}",
            rows[0]
        );
        assert!(rows[0].contains("bs: 4096.0") && rows[1].contains("iops_spread: null"), "{}", rows[1]);
    }
}
