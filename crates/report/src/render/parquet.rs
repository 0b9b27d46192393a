//! The tables of a report as Parquet, for pandas, DuckDB and Spark: a row a cell, columns as in the CSV.

use super::export::{COLUMNS, costs, energy_text, verdict};
use crate::analysis::{CellRow, WorkloadTable};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::io::Write;
use std::sync::Arc;

/// Text columns, before the figures.
const TEXTS: [&str; 10] = [
    "workload",
    "path",
    "generator",
    "settings",
    "verdict",
    "costs",
    "emulated",
    "energy_scope",
    "energy_meter",
    "energy_estimated",
];

/// Writes all rows of all tables. A figure that was not measured is null, as are the times of emulated
/// tables.
///
/// # Errors
/// What the writer says.
pub fn parquet<W: Write + Send>(tables: &[WorkloadTable], out: W) -> Result<(), ParquetError> {
    let mut schema = String::from("message report {\n");
    TEXTS.iter().for_each(|name| schema += &format!("required binary {name} (UTF8);\n"));
    COLUMNS.iter().for_each(|(_, _, name, _)| schema += &format!("optional double {name};\n"));
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
                    rows.iter().map(|(table, row)| text(index, table, row).as_str().into()).collect();
                column.typed::<ByteArrayType>().write_batch(&values, None, None)?;
            }
            _ => {
                let of = COLUMNS[index - TEXTS.len()].3;
                let figures: Vec<Option<f64>> =
                    rows.iter().map(|(_, row)| row.figures.as_ref().and_then(of)).collect();
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

fn text(column: usize, table: &WorkloadTable, row: &CellRow) -> String {
    match TEXTS[column] {
        "workload" => table.workload.title(),
        "path" => row.path.to_string(),
        "generator" => row.generator.as_str().to_owned(),
        "settings" => {
            row.settings.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
        }
        "costs" => costs(row).to_owned(),
        "emulated" => table.emulated.clone().unwrap_or_default(),
        "verdict" => verdict(row).to_owned(),
        energy => energy_text(row, energy),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::workload_table::tests::row;
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
        assert!(rows[1].contains("iops_spread: null"), "{}", rows[1]);
    }
}
