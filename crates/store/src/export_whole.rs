//! A whole store written trial by trial, however many there are: as JSON and as CSV.

use crate::error::StoreError;
use crate::store::Store;
use iopj_record::EnergyCover;
use iopj_record::export::{self, Detail};
use iopj_record::export_lines;
use serde_json::json;
use std::io::{self, Write};

/// Why a store was not written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// It cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What it is written to refuses.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Store {
    /// Writes what [`export::json`] returns as indented text, in which a histogram has one line.
    ///
    /// # Errors
    /// A record cannot be read, or the writer's error.
    pub fn write_json(&self, detail: Detail, out: &mut dyn Write) -> Result<(), ExportError> {
        let study = self.study()?;
        let events = export_lines::text(&json!(export::events_json(&self.events()?)), 1)?;
        // Keys in the order of every object.
        write!(
            out,
            "{{\n  \"events\": {events},\n  \"study\": {},\n  \"trials\": [",
            export_lines::text(&json!(study), 1)?
        )?;
        let mut before = "";
        self.for_each_trial(|trial| {
            let trial = export_lines::text(&export::trial_json(&study, &trial, detail), 2)?;
            write!(out, "{before}\n    {trial}")?;
            before = ",";
            Ok::<(), ExportError>(())
        })?;
        let end = if before.is_empty() { "]" } else { "\n  ]" };
        Ok(writeln!(out, "{end}\n}}")?)
    }

    /// Whether a trial may have energy: some does, or a meter was read.
    fn may_have_energy(&self) -> Result<bool, StoreError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM energy) OR EXISTS (SELECT 1 FROM meter)";
        self.connection.query_row(sql, [], |row| row.get(0)).map_err(|error| self.sqlite(error))
    }

    /// Writes what [`export::csv`] does, of all trials.
    ///
    /// # Errors
    /// A record cannot be read, or the writer's error.
    pub fn write_csv(&self, out: &mut dyn Write) -> Result<(), ExportError> {
        let study = self.study()?;
        let mut cover = EnergyCover::default();
        if self.may_have_energy()? {
            self.for_each_trial(|trial| {
                cover.add(&trial);
                Ok::<(), StoreError>(())
            })?;
        }
        let source = cover.shown();
        export::csv_head(out)?;
        self.for_each_trial(|trial| Ok(export::csv_line(&study, source.as_ref(), &trial, out)?))
    }
}
